"""What the benchmarks of the recursions time: robots in this library and in Pinocchio, with the same numbers.

Robots come from URDF files; chains, trees and legged machines are built body by body in both libraries. A
`Pair` holds one robot, a random motion of it in both conventions, and the calls that are compared.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pinocchio as pin

from connections import multibody as mb

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))  # the oracles of the tests

from mechanisms import random_body, random_placement  # noqa: E402
from pinocchio_oracle import PinocchioRobot  # noqa: E402
from robots import robot_path  # noqa: E402

AGREEMENT = 1e-9
_BLOCK = 2e-4  # seconds: short calls are timed in blocks of about this length

Call = Callable[[], Any]


@dataclass(frozen=True, eq=False)
class Pair:
    """A robot in both libraries, and a motion.

    Parameters
    ----------
    name : as it is printed.
    kind : "arm", "quadruped", "humanoid", "chain", "tree": what the targets depend on.
    model, other : the robot here and in Pinocchio.
    q, v, w, a : (nq,) and three (nv,) arrays, in this library's conventions.
    q_other, v_other, w_other, a_other : the same in Pinocchio's.
    """

    name: str
    kind: str
    model: mb.Model
    other: PinocchioRobot
    q: np.ndarray
    v: np.ndarray
    w: np.ndarray
    a: np.ndarray
    q_other: np.ndarray
    v_other: np.ndarray
    w_other: np.ndarray
    a_other: np.ndarray

    @classmethod
    def of(cls, name: str, kind: str, model: mb.Model, other: PinocchioRobot, seed: int = 0) -> Pair:
        """The pair at a random motion."""
        rng = np.random.default_rng(seed)
        q, vectors = model.random(rng), rng.standard_normal((3, model.nv))
        theirs = [other._theirs(vector) for vector in vectors]
        return cls(name, kind, model, other, q, *vectors, other._configuration(q), *theirs)

    def theirs(self, function: Callable[..., Any], *arguments: np.ndarray) -> Call:
        """A call of Pinocchio's Python function."""
        return partial(function, self.other.model, self.other.data, self.q_other, *arguments)

    def require_agreement(self) -> None:
        """Stop unless all values that are timed agree: a fast wrong number is worth nothing."""
        model, other, q, v, a, w = self.model, self.other, self.q, self.v, self.a, self.w
        C = other.coriolis_matrix(q, v)
        values = {
            "H": (mb.mass_matrix(model, q), other.mass_matrix(q)),
            "C": (mb.coriolis_matrix(model, q, v), C),
            "Gamma": (mb.christoffel_symbols(model, q), other.christoffel_symbols(q)),
            "inverse dynamics": (mb.inverse_dynamics(model, q, v, a), other.inverse_dynamics(q, v, a)),
            "forward dynamics": (mb.forward_dynamics(model, q, v, a), other.forward_dynamics(q, v, a)),
            "inverse of H": (mb.inverse_mass_matrix(model, q), other.inverse_mass_matrix(q)),
            "gravity": (mb.gravity(model, q), other.gravity(q)),
            "regressor": (mb.regressor(model, q, v, v, a), other.regressor(q, v, a)),
            "C w": (mb.coriolis_product(model, q, v, w), C @ w),
            "C^T w": (mb.coriolis_transpose_product(model, q, v, w), C.T @ w),
        }
        for what, (ours, theirs) in values.items():
            gap = np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs))
            if not gap <= AGREEMENT:
                raise SystemExit(f"{self.name}: {what} differs by {gap:.1e}: nothing is timed")


def from_urdf(name: str, kind: str, file: str, *, floating: bool) -> Pair:
    """A robot of example-robot-data."""
    path = robot_path(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mb.InertiaWarning)  # a link of ANYmal has round-off for inertia
        model = mb.from_urdf(path, floating_base=floating)
    return Pair.of(name, kind, model, PinocchioRobot(path, floating))


def built(name: str, kind: str, parents: Sequence[int], *, floating: bool = False) -> Pair:
    """Revolute joints about z at random placements between random bodies, in both libraries.

    Parameters
    ----------
    name, kind : as in `Pair`.
    parents : (N,) depth first; -1 for the world.
    floating : whether the first body has a free joint instead.
    """
    rng, model, mechanism = np.random.default_rng(1), pin.Model(), mb.Mechanism()
    numbers, names = [0], ["world"]  # both by 1 + body
    for body, parent in enumerate(parents):
        free = floating and body == 0
        numbers_of = random_body(rng)
        placement = np.eye(4) if free else random_placement(rng)
        joint = pin.JointModelFreeFlyer() if free else pin.JointModelRZ()
        number = model.addJoint(numbers[parent + 1], joint, pin.SE3(placement), f"joint {body}")
        model.appendBodyToJoint(number, pin.Inertia(*numbers_of.values()), pin.SE3.Identity())
        mechanism.add_body(f"body {body}", **numbers_of)
        ours = mb.Free() if free else mb.Revolute((0, 0, 1))
        mechanism.add_joint(f"joint {body}", names[parent + 1], f"body {body}", ours, placement)
        numbers.append(number)
        names.append(f"body {body}")
    return Pair.of(name, kind, mechanism.build(), PinocchioRobot.of(model))


def chain(count: int) -> list[int]:
    """Parents (count,) of a serial chain."""
    return list(range(-1, count - 1))


def binary_tree(count: int) -> list[int]:
    """Parents (count,) of the balanced binary tree, depth first."""
    parents: list[int] = []

    def add(node: int, parent: int) -> None:  # children of node i in breadth-first order are 2 i + 1, 2 i + 2
        if node < count:
            parents.append(parent)
            own = len(parents) - 1
            add(2 * node + 1, own)
            add(2 * node + 2, own)

    add(0, -1)
    return parents


def legs(count: int, joints: int) -> list[int]:
    """Parents (1 + joints,) of a body with `count` legs that have `joints` joints together."""
    length = joints // count
    return [-1, *(0 if joint % length == 0 else joint for joint in range(count * length))]


def medians(calls: Sequence[Call], repeats: int) -> list[float]:
    """Median times of warm calls, seconds; the calls take turns, so that they meet the same machine.

    Parameters
    ----------
    calls : what is timed, each in blocks of as many calls as last about 0.2 ms.
    repeats : blocks per call.
    """
    counts = []
    for call in calls:
        call()
        once = min(_time(call, 1) for _ in range(3))
        counts.append(max(1, round(_BLOCK / once)))
    times = [[_time(call, count) for call, count in zip(calls, counts, strict=True)] for _ in range(repeats)]
    return [median(column) for column in zip(*times, strict=True)]


def _time(call: Call, count: int) -> float:
    turns = range(count)
    start = time.perf_counter()
    for _ in turns:
        call()
    return (time.perf_counter() - start) / count
