"""What closed loops and observers return: a `Motion` with the reference, the forces and the estimates."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from connections._jax import Array
from connections.affine.motions.motion import Motion, largest, motion_class

_LAW = (
    Motion.PANELS[0],
    ("error", "error e, which the reference drives to zero"),
    ("s", "sliding variable s = v - v_r [rad/s, m/s]"),
    ("tau", "control force tau [N m, N]"),
    ("lyapunov", "Lyapunov function V [J]"),
)


@motion_class
class ClosedLoopMotion(Motion):
    """A motion under a law that follows a reference; components of forces are in the dual frame."""

    v_r: Array
    """(..., T, n) reference velocities."""
    a_r: Array
    """(..., T, n) rates of the components of v_r."""
    tau: Array
    """(..., T, n) control forces."""
    lyapunov: Array
    """(..., T), the law's Lyapunov function, J."""
    lyapunov_rate: Array
    """(..., T), by [W] (14), W."""
    q_d: Array | None = None
    """(..., T, nq) desired configurations; None if the reference is no trajectory of configurations."""
    error: Array | None = None
    """(..., T, m) what the reference drives to zero, in its own components; None if it does not say."""
    betas: Array | None = None
    """(m, C(n, 3)) the members that a sweep has gone through; None if it is no sweep."""

    PANELS: ClassVar[tuple[tuple[str, str], ...]] = _LAW
    COMPUTED: ClassVar[tuple[str, ...]] = ("s",)

    @property
    def s(self) -> Array:
        """The sliding variable v - v_r, (..., T, n)."""
        return self.v - self.v_r

    def _summary(self) -> str:
        ends = {"error": self.error, "s": self.s}
        known = [f"|{name}| {largest(x[..., -1, :])}" for name, x in ends.items() if x is not None]
        return f"largest |tau| {largest(self.tau)}; at the end largest {', '.join(known)}"


@motion_class
class AdaptiveMotion(ClosedLoopMotion):
    """A closed-loop motion with estimates of parameters, whose error V contains, too."""

    parameters: Array = field(kw_only=True)
    """(..., T, p) estimates pihat."""

    PANELS: ClassVar[tuple[tuple[str, str], ...]] = (*_LAW, ("parameters", "estimated parameters pi"))


@motion_class
class ObservedMotion(Motion):
    """A motion of a plant with a momentum observer beside it; covector components."""

    tau: Array
    """(..., T, n) the control that the observer knows."""
    momentum: Array
    """(..., T, n) p = H v, H the observer's."""
    residual: Array
    """(..., T, n) the estimate r of the force that it does not know."""

    PANELS: ClassVar[tuple[tuple[str, str], ...]] = (
        *Motion.PANELS,
        ("residual", "residual r, the estimated force [N m, N]"),
    )

    def _summary(self) -> str:
        return f"largest |residual| {largest(self.residual)}, at the end {largest(self.residual[..., -1, :])}"
