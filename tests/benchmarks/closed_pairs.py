"""What the benchmarks of closed chains time: robots with loops, their spanning trees, and Pinocchio's.

Robots with gears and belts come from URDF+ files, those with loops from `tests/support/closed_chains.py`.
Beside each stands its spanning tree, which has as many bodies and all joints free; and, where G is constant,
Pinocchio's model of that tree, whose results are projected in NumPy: H = G^T H_s G, C = G^T C_s(q_s, G v) G.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
from competitors import AGREEMENT, PinocchioRobot

from connections import multibody as mb

import closed_chains as plans  # isort: skip  # of the tests, whose folder `competitors` adds to the path
from closed_plan import Plan, at  # isort: skip

FILES = Path(__file__).resolve().parents[1] / "data" / "urdf_plus"


@dataclass(frozen=True, eq=False)
class Projection:
    """Pinocchio's spanning tree and the maps onto it: q_s = P q + offset, v_s = G v, in its conventions.

    Parameters
    ----------
    other : the spanning tree.
    P, offset : (nq_s, nq) and (nq_s,).
    G : (nv_s, nv), constant.
    """

    other: PinocchioRobot
    P: np.ndarray
    offset: np.ndarray
    G: np.ndarray

    @classmethod
    def of(cls, model: mb.Model, other: PinocchioRobot) -> Projection:
        """The maps of a model whose couplings are linear, rows moved to where Pinocchio has its joints."""
        tree, spanning = model.kinematics.tree, model.kinematics.spanning
        linear, constant = model.kinematics.linear
        single = [name for name in model.joint_names if joint_size(model, name) == 1]
        coordinates = [model.configuration_slice(name).start for name in single]
        velocities = [model.velocity_slice(name).start for name in single]
        P, offset = np.zeros((other.model.nq, model.nq)), np.zeros(other.model.nq)
        G = np.zeros((other.model.nv, model.nv))
        for name, joint in zip(other.joint_names, list(other.model.joints)[1:], strict=True):
            body = tree.joint_names.index(name)
            q, v = (slice(*starts[body : body + 2]) for starts in (spanning.q_starts, spanning.v_starts))
            q_other, v_other = slice(joint.idx_q, joint.idx_q + joint.nq), joint.idx_v
            G[v_other : v_other + joint.nv] = np.roll(linear[v], 3 if joint.nv == 6 else 0, axis=0)
            offset[q_other] = constant[q]
            if name in model.joint_names:
                P[q_other, model.configuration_slice(name)] = np.eye(joint.nq)
            else:
                P[q_other.start, coordinates] = linear[v.start, velocities]
        return cls(other, P, offset, G)

    def mass_matrix(self, q: np.ndarray) -> np.ndarray:
        """G^T H_s G."""
        H = pin.crba(self.other.model, self.other.data, self.P @ q + self.offset)
        return self.G.T @ (np.triu(H) + np.triu(H, 1).T) @ self.G

    def coriolis_matrix(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """G^T C_s G; nothing is left of G^T H_s Gdot."""
        q_s, G = self.P @ q + self.offset, self.G
        return G.T @ pin.computeCoriolisMatrix(self.other.model, self.other.data, q_s, G @ v) @ G

    def christoffel_symbols(self, q: np.ndarray) -> np.ndarray:
        """One Coriolis matrix for each unit velocity."""
        return np.stack([self.coriolis_matrix(q, e) for e in np.eye(self.G.shape[1])], axis=1)

    def inverse_dynamics(self, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        """G^T tau_s."""
        q_s, G = self.P @ q + self.offset, self.G
        return G.T @ pin.rnea(self.other.model, self.other.data, q_s, G @ v, G @ a)

    def forward_dynamics(self, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """H^-1 (tau - bias)."""
        return np.linalg.solve(self.mass_matrix(q), tau - self.inverse_dynamics(q, v, np.zeros_like(v)))


def joint_size(model: mb.Model, name: str) -> int:
    """Number of coordinates of an independent joint."""
    at_q = model.configuration_slice(name)
    return at_q.stop - at_q.start


@dataclass(frozen=True, eq=False)
class Closed:
    """A robot with closed chains, its spanning tree, and a motion of both.

    Parameters
    ----------
    name : as it is printed.
    model, spanning : the robot, and the same bodies with all joints free.
    projection : Pinocchio's way, or None where G is not constant.
    q, v, w, a : (nq,) and three (nv,) arrays.
    q_s, v_s, w_s, a_s : the motion of the spanning tree, accelerations without Gdot v.
    """

    name: str
    model: mb.Model
    spanning: mb.Model
    projection: Projection | None
    q: np.ndarray
    v: np.ndarray
    w: np.ndarray
    a: np.ndarray
    q_s: np.ndarray
    v_s: np.ndarray
    w_s: np.ndarray
    a_s: np.ndarray

    @classmethod
    def of(cls, name: str, model: mb.Model, other: PinocchioRobot | None = None, seed: int = 0) -> Closed:
        """The robot at a random motion."""
        rng = np.random.default_rng(seed)
        q, vectors = model.random(rng), rng.standard_normal((3, model.nv))
        loops = model.program.solution(q)
        projection = None if other is None else Projection.of(model, other)
        return cls(name, model, model.spanning_tree, projection, q, *vectors, loops.q, *(vectors @ loops.G.T))

    def require_agreement(self) -> None:
        """Stop unless the values that are timed agree: a fast wrong number is worth nothing."""
        model, q, v, a, theirs = self.model, self.q, self.v, self.a, self.projection
        C, Gamma = mb.coriolis_matrix(model, q, v), mb.christoffel_symbols(model, q)
        tau = mb.inverse_dynamics(model, q, v, a)
        values: dict[str, tuple[Any, Any]] = {
            "C against Gamma v": (C, np.einsum("ijk,j->ik", Gamma, v)),
            "forward against inverse dynamics": (mb.forward_dynamics(model, q, v, tau), a),
        }
        if theirs is not None:
            values |= {
                "H": (mb.mass_matrix(model, q), theirs.mass_matrix(q)),
                "C": (C, theirs.coriolis_matrix(q, v)),
                "Gamma": (Gamma, theirs.christoffel_symbols(q)),
                "inverse dynamics": (tau, theirs.inverse_dynamics(q, v, a)),
            }
        for what, (one, other) in values.items():
            gap = np.max(np.abs(one - other)) / np.max(np.abs(other))
            if not gap <= AGREEMENT:
                raise SystemExit(f"{self.name}: {what} differs by {gap:.1e}: nothing is timed")


def from_urdf_plus(name: str) -> Closed:
    """A robot of the folder tests/data/urdf_plus."""
    path = FILES / f"{name}.urdf"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mb.InertiaWarning)
        model = mb.from_urdf(path)
    return Closed.of(name, model, PinocchioRobot(path))


def from_plan(name: str, plan: Callable[[], Plan]) -> Closed:
    """A mechanism of tests/support/closed_chains.py."""
    return Closed.of(name, plan().build())


# --- as many clusters as wanted ---------------------------------------------------------------------------


def four_bars(parents: list[int]) -> mb.Model:
    """Four-bars of unequal bars, each on the rocker of its parent (-1: the world)."""
    plan, bars = Plan(5), (0.5, 0.2, 0.45, 0.35)
    for number, parent in enumerate(parents):
        below = "world" if parent < 0 else f"{parent} rocker"
        plans.add_four_bar(plan, str(number), below, at(0.2, 0.1, 0.05, (0.3, 0.2, 0.5)), bars)
    return plan.build()


def rotors(parents: list[int]) -> mb.Model:
    """Links on revolute joints, each with a rotor on its parent that turns six times as fast."""
    plan, axis = Plan(6), mb.Revolute((0.1, 0.2, 1.0))
    for number, parent in enumerate(parents):
        below, name = "world" if parent < 0 else f"link {parent}", f"joint {number}"
        plan.add(name, below, f"link {number}", axis, at(0.2, 0.1, 0.05, (0.3, 0.2, 0.5)))
        plan.add(f"motor {number}", below, f"rotor {number}", axis, at(0.1, 0.0, 0.05))
        plan.couple(f"gear {number}", {name: 6.0, f"motor {number}": -1.0}, independent=[name])
    return plan.build()
