"""Variational steps of a robot by its recursion, for `coriolis.variational_motion`; JAX compiles nothing."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from connections.affine.motions.host_motions import on_host
from connections.coriolis.system import Forces, MechanicalSystem
from connections.coriolis.variational import UNSOLVED, RecordedValues, VariationalMotion
from connections.coriolis.variational_motion import Stepping
from connections.multibody.definition.discrete_robot import DiscreteRobot
from connections.multibody.definition.host_kinematics import configuration
from connections.multibody.program.loop_stepping import stepping_of
from connections.multibody.program.stepping import Stepped, history_size

Array = NDArray[np.float64]
MOST_SWEEPS = 60  # of forces that depend on the velocity of the step, which they change
REMEMBERED = 8  # of these sweeps, for Anderson's acceleration
SAME = 1e-13  # a change of forces, relative to them, that is round-off


class RobotSteps:
    """The steps of a robot.

    Parameters
    ----------
    owner : the robot under gravity.
    model : the robot.
    control : (t, q, v) -> (nv,); None for none. A step has its forces at both ends, at the velocity of the
        step, so that it stays its own adjoint.
    """

    sizes: ClassVar[tuple[int, ...]] = ()

    def __init__(self, owner: MechanicalSystem, model: Any, control: Forces | None) -> None:
        self._owner, self._model, self._control, self._force = owner, model, control, None
        if control is not None:
            self._force = on_host(control, (model.nv,), "control(t, q, v)")
        self._stepped = stepping_of(model)

    @property
    def system(self) -> DiscreteRobot:
        """The definition of these steps, for JAX."""
        return DiscreteRobot(self._owner, self._model, self._control)

    def begin(self, t0: float, q: Array, v: Array) -> VariationalMotion:
        """The beginnings of motions from q (m, nq) with v (m, nv) (`Steps.begin`).

        Raises
        ------
        PointError : a quaternion is not of norm one.
        """
        if self._model.kinematics.quaternions:
            q = configuration(self._model.kinematics, "q0", q)
        still, none = np.zeros((len(q), 2 * self._model.nv)), np.zeros(len(q), int)
        P = self._stepped(np.hstack([q, v]), still, np.ones(1), 1.0, -2).P
        guess = np.zeros((len(q), history_size(v.shape[1])))
        guess[:, : v.shape[1]] = v
        return VariationalMotion(q, P, none, none, guess)

    def advance(
        self, stepping: Stepping, t0: float, counts: NDArray[np.int64], course: VariationalMotion
    ) -> tuple[VariationalMotion, RecordedValues]:
        """The courses after `counts` (GOALS,) of steps, and the values after each, (m, GOALS, ...)."""
        recorded, last = [], np.flatnonzero(counts)[-1] if counts.any() else 0
        for at, count in enumerate(counts.tolist()):
            if count:
                course = self._made(stepping, t0, count, course)
            if at <= last:
                record = self._record(course)
            recorded.append(record)
        return course, RecordedValues(*(np.stack(leaves, axis=1) for leaves in zip(*recorded, strict=True)))

    def _made(
        self, stepping: Stepping, t0: float, count: int, course: VariationalMotion
    ) -> VariationalMotion:
        """The course after `count` steps."""
        if self._force is not None:
            for _ in range(count):
                course = self._driven(stepping, t0, course)
            return course
        going = np.flatnonzero(course.why == 0)
        y = np.hstack([course.q, course.P])[going]
        forces = np.zeros((len(going), 2 * self._model.nv))
        more = stepping.shares, float(stepping.step), count, course.guess[going]
        return _after(course, going, self._stepped(y, forces, *more))

    def _driven(self, stepping: Stepping, t0: float, course: VariationalMotion) -> VariationalMotion:
        """The course after one step under a control."""
        for row in np.flatnonzero(course.why == 0):
            y = np.hstack([course.q[row], course.P[row]])[None]
            guess, t, begin = course.guess[row : row + 1], t0 + course.steps[row] * stepping.step, y
            for share in stepping.shares:
                found = self._balanced(y, guess, t, share * stepping.step)
                if found.why[0]:
                    break
                y, guess, t = np.hstack([found.q, found.P]), found.guess, t + share * stepping.step
            if found.why[0]:
                found.q, found.P = begin[:, : self._model.nq], begin[:, self._model.nq :]
                found.steps[:] = 0
            course = _after(course, np.array([row]), found)
        return course

    def _balanced(self, y: Array, guess: Array, t: float, h: float) -> Stepped:
        """A step whose forces are those at its own velocity, by sweeps with Anderson's acceleration."""
        assert self._force is not None
        nq, nv = self._model.nq, self._model.nv
        each = np.hstack([np.tile(y[0, :nq], (nv, 1)), np.eye(nv)])
        H = self._stepped(each, np.zeros((nv, 2 * nv)), np.ones(1), 1.0, -2).P
        lengths = np.sqrt(np.diagonal(H))
        end, v = y[0, :nq], guess[0, :nv]
        tried: list[Array] = []
        misses: list[Array] = []
        forces, last = np.zeros(2 * nv), np.inf
        for _ in range(MOST_SWEEPS):
            now = np.concatenate([self._force(t, y[0, :nq], v), self._force(t + h, end, v)])
            if tried:
                misses.append(now - forces)
                now = _accelerated(tried, misses)
            tried.append(now)
            found = self._stepped(y, now[None], np.ones(1), h, 1, guess)
            if found.why[0]:
                return found
            end, v = found.q[0], found.guess[0, :nv]
            # forces in units of the momenta that move as fast
            units = lengths * (np.sqrt(abs(v @ found.P[0])) + np.abs(v) * lengths) / abs(h)
            miss = np.abs(now - forces) / np.maximum(np.tile(units, 2) + np.abs(now), 1e-300)
            change, forces = np.max(miss), now
            if change <= SAME or (change >= 0.5 * last and change < 1e4 * SAME):
                return found
            last = change
        found.why[:] = UNSOLVED
        return found

    def _record(self, course: VariationalMotion) -> RecordedValues:
        """The values (m, ...) of the motions where they are now."""
        y, forces = np.hstack([course.q, course.P]), np.zeros((len(course.q), 2 * self._model.nv))
        found = self._stepped(y, forces, np.ones(1), 1.0, 0)
        v = found.guess[:, : self._model.nv]
        kinetic = 0.5 * np.einsum("mi,mi->m", v, course.P)
        good = (course.why == 0) & np.isfinite(v).all(axis=1)
        return RecordedValues(course.q, v, kinetic, found.last, good)


def _after(course: VariationalMotion, rows: NDArray[np.int64], found: Stepped) -> VariationalMotion:
    """The course in which these rows went on."""
    new = VariationalMotion(*map(np.array, course))
    new.why[rows] = found.why
    new.steps[rows] += found.steps
    made = found.why == 0
    good = rows[made]
    new.q[good], new.P[good], new.guess[good] = found.q[made], found.P[made], found.guess[made]
    return new


def _accelerated(tried: list[Array], misses: list[Array]) -> Array:
    """The next forces: what was tried and what is missing, in the combination that would miss least."""
    if len(misses) == 1:
        return tried[-1] + misses[-1]
    x, f = np.array(tried[-REMEMBERED:]), np.array(misses[-REMEMBERED:])
    dx, df = x[1:] - x[:-1], f[1:] - f[:-1]
    sizes = np.sqrt(np.sum(df**2, axis=1))
    sizes = np.where(sizes > 0.0, sizes, 1.0)[:, None]
    share = np.linalg.lstsq((df / sizes).T, f[-1], rcond=1e-12)[0]
    return np.asarray(x[-1] + f[-1] - share @ ((dx + df) / sizes))
