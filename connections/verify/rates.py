"""Contraction along a motion of any subject: bound and indicator beside what neighbouring motions do.

The motion starts at the subject's first sample and is held there by a feedback in the frame,

    f = dU - k H_0 xi - d H v,

H_0 being the metric at the sample and xi the frame's components of the displacement from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from connections.affine import AffineConnection, LeviCivita
from connections.checks import require_type
from connections.control import contraction_rates, stiffness_and_damping
from connections.coriolis import MechanicalSystem
from connections.verify.numerics import Array
from connections.verify.report import FAILS, HOLDS, for_json
from connections.verify.subjects import Subject

STIFFNESS, DAMPING = 16.0, 6.0  # k in 1/s^2, d in 1/s
DURATION, POINTS = 1.0, 41
INTEGRAL = 1e-3  # more than the trapezoidal rule errs by
NEIGHBOURS, SIZE = 4, 1e-5  # of the changes of points and velocities; one sign of a difference suffices


@dataclass(frozen=True, eq=False)
class MotionRates:
    """Rates along a motion, in 1/s, and the distance of its neighbours.

    Parameters
    ----------
    subject : its name.
    times : (T,) s.
    bound : (T,) the bound mu of `control.contraction_rates`.
    indicator : (T,) the largest real part of the roots, which is neither a bound nor an estimate.
    allowed : (T,) the integral of the bound.
    neighbours : (T,) ln(sqrt(V) / sqrt(V_0)) of the neighbour that is farthest; at most `allowed`.

    Examples
    --------
    >>> from connections import verify
    >>> rates = verify.rates_along_a_motion(verify.system_subject("sphere"))
    >>> rates.subject, rates.times.shape
    ('sphere', (41,))
    >>> bool((rates.bound < 0.0).all()), rates.indicator[:2].round(2)  # 1/s
    (True, array([-3., -3.]))

    Source: `control.contraction_rates`; docs/contraction.md.
    """

    subject: str
    times: Array
    bound: Array
    indicator: Array
    allowed: Array
    neighbours: Array

    @property
    def holds(self) -> bool:
        """Whether no neighbour is farther than the bound allows, to the error of its integral."""
        return bool(np.all(self.neighbours <= self.allowed + INTEGRAL))

    @property
    def verdict(self) -> str:
        """`HOLDS` or `FAILS`."""
        return HOLDS if self.holds else FAILS

    def to_dict(self) -> dict[str, Any]:
        """A dictionary for JSON; times in s, rates in 1/s."""
        series = ("times", "bound", "indicator", "allowed", "neighbours")
        numbers = {name: [for_json(x) for x in getattr(self, name).tolist()] for name in series}
        return {"subject": self.subject, "verdict": self.verdict, **numbers}


def rates_along_a_motion(subject: Subject) -> MotionRates:
    """Contraction rates along the motion of a subject held at its first sample, and of its neighbours.

    Parameters
    ----------
    subject : a chart's, or a robot's, whose recursions are used. Its connection plays no part.

    Raises
    ------
    IntegrationError, ClosureError : the motion leaves the chart, or a loop opens.

    Examples
    --------
    >>> from connections import verify
    >>> rates = verify.rates_along_a_motion(verify.system_subject("sphere"))
    >>> bool((rates.neighbours <= rates.allowed + 1e-6).all())  # neighbours approach at least as fast
    True
    """
    require_type("subject", subject, Subject)
    system, nabla = _system_of(subject)
    q0, v0 = subject.q[0], min(1.0, subject.room) * subject.v[0] / np.abs(subject.v[0]).max()
    feedback, times = _feedback(system, q0), np.linspace(0.0, DURATION, POINTS)
    changes = SIZE * subject.rng("rates").normal(size=(2, NEIGHBOURS, subject.n))
    starts = np.concatenate([q0[None], subject.numerics.retract(q0, changes[0])])
    q, v = map(
        np.asarray, system.simulate(starts, v0 + np.pad(changes[1], ((1, 0), (0, 0))), times, feedback)
    )
    K, D = stiffness_and_damping(nabla, feedback, q[0], v[0])
    rates = contraction_rates(system, q[0], v[0], K, D)

    dual = np.linalg.pinv(subject.numerics.matrix(q[0]))
    eta, dv = np.einsum("tia,bta->bti", dual, q[1:] - q[0]), v[1:] - v[0]
    w = dv + np.einsum("tijk,btj,tk->bti", nabla.coefficients(q[0]), eta, v[0])

    def product(a: Array, b: Array) -> Array:
        found: Array = np.einsum("bti,tij,btj->bt", a, rates.metric, b)
        return found

    V = rates.kappa * product(eta, eta) + 2.0 * rates.delta * product(eta, w) + product(w, w)
    steps = np.diff(times) * (rates.bound[1:] + rates.bound[:-1]) / 2.0
    allowed = np.concatenate([[0.0], np.cumsum(steps)])
    farthest = np.max(0.5 * np.log(V / V[:, :1]), axis=0)
    return MotionRates(subject.name, times, rates.bound, rates.indicator.real.max(-1), allowed, farthest)


def _system_of(subject: Subject) -> tuple[MechanicalSystem, AffineConnection]:
    """The system that moves, and the Levi-Civita connection: by recursion for a robot."""
    if subject.bodies is not None and subject.bodies.robot is not None:
        robot = subject.bodies.robot
        return robot.system(), robot.connection
    return MechanicalSystem(subject.metric, subject.system.potential), LeviCivita(subject.metric)


def _feedback(system: MechanicalSystem, q0: Array) -> Callable[[Any, jax.Array, jax.Array], jax.Array]:
    frame, H_0 = system.frame, np.asarray(system.mass_matrix(q0))

    def feedback(t: Any, q: jax.Array, v: jax.Array) -> jax.Array:
        pull = STIFFNESS * H_0 @ frame.velocity_at(q, q - q0)
        return system.gravity_at(q) - pull - DAMPING * system.mass_matrix_at(q) @ v

    return feedback
