"""Results of closed loops and observers: a `Motion` with the reference, the forces and the estimates."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar  # noqa: F401  (annotations of `Motion`, whose fields these classes have)

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
    """A motion under a law that follows a reference; components of forces are in the dual frame.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import control
    >>> plant = cn.MechanicalSystem(cn.ConstantMetric(cn.CoordinateFrame(1), [[2.0]]))
    >>> still = control.FieldReference(plant.frame, lambda t, q: 0.0 * q)
    >>> loop = control.ClosedLoop(plant, control.PassivityController(plant, gain=5.0), still)
    >>> motion = loop.simulate([0.0], [1.0], np.linspace(0.0, 1.0, 3))
    >>> motion.lyapunov.round(4)  # H s^2 / 2 = exp(-5 t)
    array([1.    , 0.0821, 0.0067])
    >>> motion.lyapunov_rate.round(4)
    array([-5.    , -0.4104, -0.0337])
    """

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
    """A closed-loop motion with estimates of parameters, whose error V contains, too.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import connections as cn
    >>> from connections import control
    >>> frame = cn.CoordinateFrame(1)
    >>> make = lambda pi: cn.MechanicalSystem(cn.ConstantMetric(frame, pi[None]))
    >>> family = control.LinearlyParametrizedSystem(make, nominal=[1.0])
    >>> law = control.AdaptiveController(family, gain=5.0, adaptation=2.0)
    >>> reference = control.trajectory_reference(frame, lambda t: jnp.stack([jnp.sin(t)]), gain=2.0)
    >>> loop = control.AdaptiveLoop(law, [3.0], reference)
    >>> motion = loop.simulate([0.0], [0.0], [1.0], np.linspace(0.0, 6.0, 7))
    >>> motion.parameters.shape, bool(np.all(np.diff(motion.lyapunov) < 0.0))
    ((7, 1), True)
    """

    parameters: Array = field(kw_only=True)
    """(..., T, p) estimates pihat."""

    PANELS: ClassVar[tuple[tuple[str, str], ...]] = (*_LAW, ("parameters", "estimated parameters pi"))


@motion_class
class ObservedMotion(Motion):
    """A motion of a plant with a momentum observer beside it; covector components.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm").system()
    >>> q = np.array([0.3, -0.8, 1.2, 0.1, 0.5, 0.0])
    >>> motion = control.MomentumObserver(robot, 5.0).simulate(robot, q, np.zeros(6), [0.0, 0.1, 0.2])
    >>> motion.momentum.shape, bool(np.abs(motion.residual).max() < 1e-6)  # there is no other force
    ((3, 6), True)
    """

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
