"""Least squares by priorities, with linear bounds: the program behind the whole-body law.

    level by level:  minimize sum_t w_t |A_t y - b_t|^2  over what the levels before left open,

with E y = e and lower <= G y <= upper at every level. Without bounds the levels are solved by nullspaces, to
round-off (`compiled_law.best`); if the result keeps the bounds, it is the solution. Otherwise each level is a
quadratic program (`quadratic_programs`): of the points that are equally good for the tasks, it is the one
closest to the result without bounds.
Source: Escande, Mansard and Wieber, Hierarchical quadratic programming: fast online humanoid-robot motion
generation, 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from connections.checks import ConvergenceError
from connections.control.whole_body.compiled import compiled
from connections.geometry.numerics.quadratic_programs import QuadraticProgram, optimal, solved

_CLOSENESS = 1e-8  # the weight of the distance from the result without bounds
# A bound that resists a level, with a multiplier above this part of its pull, stays active below: whatever is
# as good for the level keeps it. Multipliers that closeness makes are below it.
_PUSHES = 1e-5
_WHAT = "whole-body control within bounds"


class InfeasibleError(RuntimeError):
    """No torques keep the contacts within all bounds; the message names bounds that stand against it.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> robot = mb.example("quadruped")
    >>> corners = [(x, y, 0.0) for x in (0.2, -0.2) for y in (0.1, -0.1)]
    >>> feet = [control.PointContact("trunk", 0.6, corner) for corner in corners]
    >>> posture = control.PostureTask(damping=1.0, name="posture")
    >>> law = control.WholeBodyController(robot, [posture], feet, torque_limits=np.inf, limit_time=None)
    >>> q, v = robot.neutral(), np.eye(robot.nv)[0]
    >>> law.command(q, v, {"posture": q[7:]})
    Traceback (most recent call last):
        ...
    connections.control.whole_body.hierarchy.InfeasibleError: the contacts, which repeat each other,
    move against each other
    """


class Level(NamedTuple):
    """Rows that are to be met as well as possible: A y = b."""

    A: np.ndarray  #: (m, n)
    b: np.ndarray  #: (m,)


def by_programs(
    levels: Sequence[Level],
    G_z: np.ndarray,
    room: np.ndarray,
    size: float,
    guess: Sequence[np.ndarray] | None,
    y: np.ndarray,
    Z: np.ndarray,
) -> tuple[np.ndarray, list[np.ndarray]] | None:
    """The best y + Z^T z within the bounds, close to y; multipliers of each level; None if there is none.

    Parameters
    ----------
    levels : in the order of their priorities.
    G_z, room : (k, d), (2, k) bounds of z, room[1] <= G_z z / size <= room[0].
    size : by which the program's unknowns are smaller, because its tolerances are absolute.
    guess : the multipliers of a similar program, whose active bounds are tried first.
    y : (n,) the result without bounds.
    Z : (d, n) an orthonormal basis of the directions in which y may change.
    """
    d, k = len(Z), len(G_z)
    z, N, multipliers = np.zeros(d), np.eye(d), list[np.ndarray]()
    for number, level in enumerate(levels or [Level(np.zeros((0, len(y))), np.zeros(0))]):
        left = len(N)
        B, P, pull = np.empty((len(level.A), left)), np.empty((left, left)), np.empty(left)
        G_n, now = np.empty((k, left)), np.empty((2, k))
        compiled.program(*level, y, Z, N, z, G_z, room, size, _CLOSENESS, number == 0, B, P, pull, G_n, now)
        active = guess[number] if guess is not None and number < len(guess) else None
        found = solved(QuadraticProgram(P, _CLOSENESS * (N @ z) - pull, G_n, *now), _WHAT, active)
        if found is not None:  # close to that result instead, so that closeness costs the level nothing
            closer = QuadraticProgram(P, -_CLOSENESS * found[0] - pull, G_n, *now)
            found = optimal(closer, found[1]) or solved(closer, _WHAT, found[1])
        if found is None and number:  # zero keeps the bounds, so this is the solver's failure
            raise ConvergenceError(f"{_WHAT}: a program is called infeasible that is not")
        if found is None:
            return None
        z = z + found[0] @ N
        multipliers.append(found[1])
        if number + 1 < len(levels):
            push = np.abs(found[1]) > _PUSHES * np.abs(pull).max(initial=0.0)
            open_to_others = np.empty((left, d))
            N = open_to_others[: compiled.narrowed(np.vstack([B, G_n[push]]), N, open_to_others)]
            if len(N) == 0:
                break
    return y + size * (z @ Z), multipliers
