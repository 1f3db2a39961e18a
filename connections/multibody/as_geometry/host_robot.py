"""A robot in NumPy, for motions that `integration.driver` integrates: JAX compiles nothing."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from connections.affine.motions.host_motions import HostMotion
from connections.checks import ClosureError
from connections.engines.arguments import InputRefused
from connections.engines.inlined.simd import LANES
from connections.engines.thread_chunks import fill_chunks
from connections.engines.workspaces import Workspaces, aligned
from connections.integration.dop853 import A, E
from connections.integration.tolerances import LEAST_ERROR, LEAST_TOLERANCE, ROUND_OFF
from connections.multibody.definition.host_kinematics import configuration
from connections.multibody.program.compiled_functions import compiled

if TYPE_CHECKING:
    from connections.multibody.definition.kinematics import Kinematics
    from connections.multibody.loops.closed_kinematics import ClosedKinematics
    from connections.multibody.program.program import Program

Array = np.ndarray
_WEIGHTS = np.vstack([A, E])
_COMFORTABLE = 1e-8  # least pivot of H, relative to its diagonal, that needs no second look


class HostRobot:
    """A robot by its recursions, as `HostMechanics`.

    Parameters
    ----------
    kinematics : of the robot.
    program : its recursions; without gravity in them, `free_acceleration` is the acceleration of geodesics.
    weight : (3,) mass of all bodies times the acceleration of free fall, if motions fall; None for geodesics.
    """

    def __init__(
        self,
        kinematics: Kinematics | ClosedKinematics,
        program: Program,
        weight: Array | None = None,
    ) -> None:
        self._kinematics, self._program, self._nothing = kinematics, program, np.zeros(kinematics.nv)
        self.nq, self._weight = kinematics.nq, weight
        self._massless = not kinematics.tree.inertias[:, 5, 5].all()
        # The joints with a quaternion; X depends on q in their blocks only.
        self._turning = [each for each in kinematics.elements if each.joint.quaternion is not None]
        # The tree's slots, and for `motion_rows` the result, the stages' rates and y, k each, and two more.
        size = (7 + len(A)) * (kinematics.nq + kinematics.nv) + 2
        self._workspaces = Workspaces(lambda: aligned(program.slots + size, LANES))
        # X without its quaternion blocks is constant: joints with one coordinate per velocity have qdot = v.
        self._X = np.zeros((kinematics.nq, kinematics.nv))
        for joint, _, at_q, at_v in kinematics.elements:
            if joint.quaternion is None:
                self._X[at_q, at_v] = np.eye(joint.nv)

    def point(self, name: str, q: Array) -> Array:
        """Configurations (..., nq) with unit quaternions; loops are closed later, by the recursions.

        Raises
        ------
        ShapeError, NonFiniteError; PointError for a quaternion of norm other than one.
        """
        return configuration(self._kinematics, name, q)

    def normalized(self, q: Array) -> Array:
        """q with its quaternions normalized, (..., nq)."""
        if self._turning:
            q = q.copy()
            for _, at in self._kinematics.quaternions:
                # A view, so q changes. For one configuration, `@` is faster than a sum over an axis.
                part = q[..., at]
                part /= np.sqrt(part @ part if q.ndim == 1 else np.sum(part**2, axis=-1, keepdims=True))
        return q

    def require(self, q: Array) -> None:
        """Raise the error of loops that are open at q (nq,), or of an H that is singular for want of mass."""
        if self._program.loops is None and not self._massless:
            return
        H = self._program.evaluate("mass_matrix", (q,), None)  # every recursion solves the loops first
        if self._massless and not _is_comfortable(H):
            self._program.require_regular(self._program.close(q))

    def frame_matrix(self, q: Array) -> Array:
        """X(q), (nq, nv): qdot = X v, pdot = R v and 2 quaternion_dot = quaternion * (omega, 0)."""
        if not self._turning:
            return self._X
        X = self._X.copy()
        for joint, _, at_q, at_v in self._turning:
            X[at_q, at_v] = joint.frame_matrix(q[at_q])
        return X

    def mass_matrix(self, q: Array) -> Array:
        """H(q), (nv, nv)."""
        return self._call("mass_matrix", q, (), None)

    def mass_matrices(self, q: Array) -> Array:
        """H at configurations (..., nq), (..., nv, nv)."""
        return self._program.evaluate("mass_matrix", (q,), None)

    def velocity(self, q: Array, v: Array, out: Array) -> None:
        """Write qdot = X(q) v to `out` (nq,)."""
        out[:] = self.frame_matrix(q) @ v if self._turning else v

    def free_acceleration(self, q: Array, v: Array, out: Array) -> None:
        """Write the acceleration without forces to `out` (nv,); without gravity, it is -Gamma(v, v)."""
        out[:] = self._call("forward_dynamics", q, v, self._nothing, (), None)

    def free_motion(self) -> HostMotion:
        """The motion without forces; without gravity, a geodesic. A step of a tree is one compiled call."""
        # With loops, every rate has to solve them, so there the step is made of single rates in NumPy.
        steps = (self._step, self._steps) if self._program.loops is None else None
        potential = None if self._weight is None else self.potential
        return HostMotion(self, lambda t, q, v, out: self.free_acceleration(q, v, out), steps, potential)

    def potential(self, q: Array) -> Array:
        """The potential energy of gravity at configurations (m, nq), (m,)."""
        if self._weight is None or not self._weight.any():  # bodies without mass have no centre
            return np.zeros(len(q))
        height: Array = -self._program.evaluate("center_of_mass", (q,), None) @ self._weight
        return height

    def acceleration(self, q: Array, v: Array, tau: Array, out: Array) -> None:
        """Write vdot under the generalized forces tau (nv,) and gravity to `out` (nv,)."""
        out[:] = self._call("forward_dynamics", q, v, tau, (), None)

    def along(self, points: Array, rates: Array) -> tuple[Array, Array]:
        """The configurations (s, nq) nearest to a curve's points, and its velocities v (s, nv)."""
        if not self._turning:
            return points, rates
        q, rates = self.projected(points, rates)
        v = rates @ self._X  # right for all joints without quaternions; the others are overwritten
        for joint, _, at_q, at_v in self._turning:
            v[:, at_v] = joint.velocity(q[:, at_q], rates[:, at_q])
        return q, v

    def projected(self, points: Array, rates: Array) -> tuple[Array, Array]:
        """Configurations (s, nq) with unit quaternions, and rates (s, nq) divided by the same norms."""
        points, rates = points.copy(), rates.copy()
        for _, part in self._kinematics.quaternions:
            norm = np.sqrt(np.sum(points[:, part] ** 2, axis=1, keepdims=True))
            points[:, part] /= norm
            rates[:, part] /= norm
        return points, rates

    def linear_step(self, h: float, A: Array, y: Array, rate: Array) -> Array:
        """A step of Pdot = A P, as `Attempt` without units; A (s, n, n) at the stages, P (n, n) is flat."""
        found = np.empty((6 + len(A), len(y)))  # six rows of the result, then the stages' rates
        compiled.linear_at(_WEIGHTS, h, A, y, rate, found)
        return found[:6]

    def judged(
        self, found: Array, state: Array, scales: Array, points: int, lengths: Array, tolerances: Any
    ) -> Array:
        """`tolerances.with_error_ratios` of steps of w motions of one group, (7, w, k), compiled."""
        out = np.empty((len(found) + 1, *found.shape[1:]))
        limits = np.array([points, *tolerances, ROUND_OFF, LEAST_TOLERANCE, LEAST_ERROR])
        arrays = map(np.ascontiguousarray, (found, state, scales, lengths))
        compiled.judge(*arrays, limits, out)
        return out

    def carrying(self, q: Array, v: Array) -> Array:
        """Gamma(v, .) = H^-1 C(q, v) of configurations (s, nq), (s, nv, nv)."""
        at = q if self._program.loops is None else self._program.close(q)
        C = self._program.evaluate("coriolis_matrix", (at, v), None, ("christoffel",))
        carrying: Array = self._program.evaluate("inverse_mass_matrix", (at,), None) @ C
        return carrying

    def _step(self, h: float, y: Array, rate: Array) -> Array:
        """A step of a tree's free motion, as `Attempt`, of length h."""
        found = np.empty((6 + len(A), len(y)))
        if not compiled.motion_at(self._program.memory, _WEIGHTS, h, y, rate, found):
            # The error is found by calling the recursion at the state of the refused step.
            q, v = np.split(found[0], [len(y) - len(self._nothing)])
            given = self.normalized(q), v, self._nothing, (), None
            raise InputRefused(self._program.functions["forward_dynamics"], given)
        return found[:6]

    def _steps(self, h: Array, y: Array, rate: Array) -> Array:
        """`_step` of rows, (6, m, k); NaN where a step is refused."""
        found = np.empty((len(y), 6, y.shape[1]))

        def fill(piece: slice) -> bool:  # may run in several threads, each with a workspace of its own
            work = self._workspaces.take()
            given = h[piece], y[piece], rate[piece], found[piece]
            good: bool = compiled.motion_rows(self._program.memory, work, _WEIGHTS, *given)
            self._workspaces.give_back(work)
            return good

        fill_chunks(len(y), fill)
        return found.swapaxes(0, 1)

    def _call(self, name: str, *arguments: Any) -> Array:
        """The result of a recursion.

        Raises
        ------
        InputRefused : the input is bad.
        """
        with suppress(ClosureError):
            result: Array | None = self._program.or_none[name](*arguments)
            if result is not None:
                return result
        raise InputRefused(self._program.functions[name], arguments)


def _is_comfortable(H: Array) -> bool:
    """Whether H (n, n) is far from singular, so that no more has to be asked."""
    try:
        pivots = np.diagonal(np.linalg.cholesky(H)) ** 2
    except np.linalg.LinAlgError:
        return False
    return bool((pivots > _COMFORTABLE * np.diagonal(H)).all())
