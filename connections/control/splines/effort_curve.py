"""The result of `minimum_effort_curve`: a stationary curve, its torques, costates and what is conserved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import jax
import numpy as np

from connections._jax import Array, ArrayLike
from connections.affine.motions.motion import Motion, largest, motion_class
from connections.checks import ShapeError, as_array, html_table, require_finite, require_function
from connections.control.splines.integrand import Effort, costate_at, momentum_at
from connections.control.splines.pieces import in_calls
from connections.control.splines.solutions import StationaryCurve
from connections.evaluation.describing import cut_to_width
from connections.geometry.curves import require_within
from connections.geometry.frames import FIELD


@motion_class
class EffortMotion(Motion):
    """A motion with its accelerations and the torques that it takes, components in the dual frame.

    Examples
    --------
    >>> import connections as cn
    >>> from connections import control
    >>> flat = cn.MechanicalSystem(cn.ConstantMetric(cn.CoordinateFrame(1), [[2.0]]))
    >>> rest = {"start_velocity": [0.0], "end_velocity": [0.0]}
    >>> curve = control.minimum_effort_curve(flat, [[0.0], [1.0]], [0.0, 1.0], **rest)
    >>> motion = curve.at([0.0, 0.25])
    >>> motion.a.round(4), motion.tau.round(4)  # tau = 2 a
    (array([[6.],
           [3.]]), array([[12.],
           [ 6.]]))
    """

    a: Array
    """(T, n) vdot, the rates of the components of v."""
    tau: Array
    """(T, n) H vdot + C v + g - F."""

    PANELS: ClassVar[tuple[tuple[str, str], ...]] = (*Motion.PANELS, ("tau", "torque tau [N m, N]"))

    def _summary(self) -> str:
        return f"largest |v| {largest(self.v)}, largest |tau| {largest(self.tau)}"


@dataclass(frozen=True, eq=False, repr=False)
class EffortCurve:
    """A curve at which the integral of (1/2) tau^T W tau + (sigma/2) v^T H v is stationary.

    Parameters
    ----------
    cost : the integral.
    error : the estimated error of velocities and torques, root mean square, relative to those of a motion of
        this effort; that of the cost is about its square.
    residual : the change of the cost that one more step of Newton's method expects, relative to the cost.
    lowest : the lowest eigenvalue of the second variation, relative to (|H D_t^2 eta|^2 + |D_eta tau|^2) / 2.
        It is 1 in flat space without a potential; its sign does not depend on what it is relative to.
    lowest_error : how much it changes when pieces are halved.
    index : the number of independent changes that lower the cost to second order.
    others : other stationary curves that were found, the least cost first.
    failed : why the other starts led to none.

    Examples
    --------
    >>> import connections as cn
    >>> from connections import control
    >>> flat = cn.MechanicalSystem(cn.ConstantMetric(cn.CoordinateFrame(1), [[1.0]]))
    >>> rest = {"start_velocity": [0.0], "end_velocity": [0.0]}
    >>> curve = control.minimum_effort_curve(flat, [[0.0], [1.0]], [0.0, 1.0], **rest)
    >>> curve.index, curve.others, round(curve.lowest, 4)
    (0, (), 1.0)
    >>> curve.at([0.2, 0.5]).q.round(4)
    array([[0.104],
           [0.5  ]])
    """

    cost: float
    error: float
    residual: float
    lowest: float
    lowest_error: float
    index: int
    others: tuple[EffortCurve, ...]
    failed: tuple[str, ...]
    _effort: Effort = field(repr=False)
    _solution: StationaryCurve = field(repr=False)

    @classmethod
    def of(
        cls,
        effort: Effort,
        solution: StationaryCurve,
        others: tuple[EffortCurve, ...] = (),
        failed: tuple[str, ...] = (),
    ) -> EffortCurve:
        """The result for a solution."""
        found = solution.found
        residual = float(abs(found.slope @ found.newton_step())) / found.scale if found.scale > 0.0 else 0.0
        return cls(
            found.cost,
            solution.error,
            residual,
            solution.lowest,
            solution.lowest_error,
            found.index,
            others,
            failed,
            effort,
            solution,
        )

    @property
    def positive(self) -> bool | None:
        """Whether the second variation is positive: neighbouring curves cost more. None if it cannot tell."""
        return None if abs(self.lowest) <= self.lowest_error else self.lowest > 0.0

    @property
    def times(self) -> np.ndarray:
        """(N + 1,) where the pieces of the curve meet, s; the given times are among them."""
        return np.array(self._solution.found.pieces.times)

    @property
    def motion(self) -> EffortMotion:
        """The motion at `times`, where it is the most accurate: the error is O(h^8), also of torques."""
        left, right = self._ends
        values = (np.concatenate([a, b[-1:]]) for a, b in zip(left, right, strict=True))
        v, a, tau, *_ = values
        return EffortMotion(self.times, np.array(self._solution.found.pieces.q), v, a, tau)

    def at(self, times: ArrayLike) -> EffortMotion:
        """The motion at any times; between the pieces' ends the error of accelerations is O(h^4).

        Parameters
        ----------
        times : (T,) within the given ones, s.

        Raises
        ------
        ShapeError, NonFiniteError; PointError : a time is outside of the curve.
        """
        t = np.asarray(as_array("times", times, (None,)))
        if t.ndim != 1 or not len(t):
            raise ShapeError("times", ("T >= 1",), t.shape)
        require_finite("times", t)
        pieces = self._solution.found.pieces
        require_within("times", t, (pieces.times[0], pieces.times[-1]), "the curve")
        return EffortMotion(t, *pieces.instants(self._effort, t))

    @property
    def costate(self) -> tuple[np.ndarray, np.ndarray]:
        """c = (c_q, c_v) at the beginning and at the end of every piece, (N, 2 n) each.

        cdot = -A^T c + dL, A of `linearize` at fixed torque, and W tau = H^-1 c_v. c_q jumps at given
        points; elsewhere the end of one piece is the beginning of the next.
        """
        begin, end = (np.concatenate(each[3:5], axis=1) for each in self._ends)
        return begin, end

    @property
    def hamiltonian(self) -> tuple[np.ndarray, np.ndarray]:
        """c_q . v + c_v . vdot - L at the beginning and at the end of every piece, (N,) each.

        It is constant between given points, if no force depends on time.
        """
        begin, end = (each[5] for each in self._ends)
        return begin, end

    def momentum(self, field: Callable[[jax.Array], jax.Array]) -> tuple[np.ndarray, np.ndarray]:
        """c_q . Y + c_v . (L_v Y - s(Y, v)) at the beginning and at the end of every piece, (N,) each.

        It is constant between given points, if the flow of Y leaves metric, potential, forces and weight as
        they are (Noether).

        Parameters
        ----------
        field : q -> Y (n,), frame components of a vector field; JAX-traceable.
        """
        require_function("field", field, FIELD)
        pieces = self._solution.found.pieces
        places = pieces.q[:-1], pieces.q[1:]
        begin, end = (
            in_calls(momentum_at, self._effort, q, ends[0], ends[3], ends[4], others=(field,))[0]
            for q, ends in zip(places, self._ends, strict=True)
        )
        return begin, end

    def plot(self) -> Any:
        """A matplotlib Figure: q, v and tau over time."""
        return self.at(np.linspace(self.times[0], self.times[-1], 201)).plot()

    def __repr__(self) -> str:
        heading, *lines = self._lines()
        return "\n".join(map(cut_to_width, (heading, *("  " + line for line in lines))))

    def _repr_html_(self) -> str:
        heading, *lines = self._lines()
        return html_table(heading, [], notes=lines)

    # --- private -------------------------------------------------------------------------------------------

    def _lines(self) -> list[str]:
        sign = {True: "positive", False: f"negative in {self.index} directions", None: "too close to zero"}
        costs = ", ".join(f"{other.cost:.6g}" for other in self.others) or "none"
        t = self.times
        return [
            f"EffortCurve, {len(t) - 1} pieces from {t[0]:.6g} s to {t[-1]:.6g} s",
            f"cost {self.cost:.9g}, relative error of torques {self.error:.1e}",
            f"second variation {sign[self.positive]} (lowest eigenvalue {self.lowest:.3g})",
            f"costs of other stationary curves: {costs}; failed starts: {len(self.failed)}",
        ]

    @cached_property
    def _ends(self) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
        """`costate_at` at the beginning and at the end of every piece."""
        pieces, slope = self._solution.found.pieces, self._solution.found.by_parts
        begin, end = (
            in_calls(costate_at, self._effort, t, q, rate, by_q, by_rate)
            for t, q, rate, by_q, by_rate in (
                (pieces.times[:-1], pieces.q[:-1], pieces.rate[:-1], -slope[:, 0], -slope[:, 1]),
                (pieces.times[1:], pieces.q[1:], pieces.rate[1:], slope[:, 2], slope[:, 3]),
            )
        )
        return begin, end
