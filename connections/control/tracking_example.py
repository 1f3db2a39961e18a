"""The tracking example of the paper: a point mass, a wrong mass estimate, and the choice of Coriolis matrix.

A free particle of mass m = 1 kg follows q_d = (t + sin t, 0, 0) m under the passivity-based law with the estimate
0.9 kg, Lambda = K_D = 1, and C = beta (v x): C = 0 is the Riemannian choice, every other beta is as admissible
([W] (12)) and has torsion. The paper gives no initial state; here the mass starts at the origin with 1 m/s along
+y, which reproduces the first motion of its Fig. 6.

`explore` sweeps beta and reports the tracking error, the control effort and the frequency content. It draws no
conclusion: in this example the tracking error falls slightly with torsion, effort and frequency rise.
Source: [W] IV-A2, Figs 4 to 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine import ContorsionFamily
from connections.checks import ShapeError, require_finite
from connections.control.closed_loop import ClosedLoop, Motion
from connections.control.passivity import PassivityController
from connections.control.references import trajectory_reference
from connections.coriolis import MechanicalSystem
from connections.geometry import ConstantMetric, CoordinateFrame

MASS, MASS_ESTIMATE, LAMBDA, K_D = 1.0, 0.9, 1.0, 1.0
START, START_VELOCITY = (0.0, 0.0, 0.0), (0.0, 1.0, 0.0)
PAPER_BETAS = (0.0, -5.0, -10.0)
HORIZON = 10.0
RATE = 200.0  # samples per second; the spectra reach RATE / 2
HIGH_FREQUENCY = 1.0


@dataclass(frozen=True, eq=False)
class TrackingResult:
    """One value of beta: the motion and what was measured on it."""

    beta: float
    """Factor of (v x) in C, kg."""
    rms_error: float
    """Root mean square of |q - q_d| over the horizon, m."""
    final_error: float
    """|q - q_d| at the end, m."""
    effort: float
    """Integral of |tau|^2 over the horizon, N^2 s."""
    peak_force: float
    """Largest |tau|, N."""
    zero_crossings: int
    """Sign changes of the vertical velocity v_z, leaving rest at t = 0 included."""
    centroid: float
    """Spectral centroid of the transverse velocity (v_y, v_z), Hz."""
    high_frequency: float
    """Fraction of the transverse velocity's power above 1 Hz."""
    motion: Motion
    """The closed-loop motion."""

    def to_dict(self) -> dict[str, float]:
        """The numbers, without the motion."""
        return {name: getattr(self, name) for name in MEASURES}


MEASURES = tuple(field.name for field in fields(TrackingResult) if field.name != "motion")


def desired_position(t: jax.Array) -> jax.Array:
    """q_d(t) = (t + sin t, 0, 0), m; t is a scalar, s."""
    return jnp.array([1.0, 0.0, 0.0]) * (t + jnp.sin(t))


def tracking_loop(beta: float, mass_estimate: float = MASS_ESTIMATE) -> ClosedLoop:
    """The closed loop of the example with C = beta (v x) in the plant's connection and in the law.

    Parameters
    ----------
    beta : factor of (v x), kg.
    mass_estimate : the controller's mass, kg; the plant's is 1 kg.

    Source: [W] IV-A2.
    """
    frame = CoordinateFrame(3)
    plant, model = (_particle(frame, mass, beta) for mass in (MASS, mass_estimate))
    reference = trajectory_reference(frame, desired_position, LAMBDA)
    return ClosedLoop(plant, PassivityController(model, K_D), reference)


def explore(
    betas: Sequence[float] = PAPER_BETAS,
    horizon: float = HORIZON,
    start: Any = START,
    start_velocity: Any = START_VELOCITY,
) -> list[TrackingResult]:
    """The tracking example for each beta.

    Parameters
    ----------
    betas : factors of (v x), kg; the paper's are 0, -5 and -10.
    horizon : length of the motion, s.
    start, start_velocity : (3,) m and m/s.

    Returns
    -------
    list of TrackingResult, in the order of `betas`.

    Raises
    ------
    ShapeError, NonFiniteError : betas is empty or not a list of finite numbers; ValueError for a horizon that is
        not positive.

    Source: [W] IV-A2, Figs 4 to 7.
    """
    values = _beta_values(betas)
    if not (np.isfinite(horizon) and horizon > 0.0):
        raise ValueError(f"horizon: expected a positive finite number of seconds, got {horizon}")
    times = np.linspace(0.0, horizon, int(np.ceil(horizon * RATE)) + 1)
    return [measure(beta, tracking_loop(beta).simulate(start, start_velocity, times)) for beta in values]


def measure(beta: float, motion: Motion) -> TrackingResult:
    """Tracking error, effort and frequency content of one motion, sampled uniformly.

    Parameters
    ----------
    beta : the factor of (v x) that produced it, kg.
    motion : the motion.
    """
    t, q, v, tau = (np.asarray(x) for x in (motion.times, motion.q, motion.v, motion.tau))
    error = np.linalg.norm(q - np.asarray(jax.vmap(desired_position)(motion.times)), axis=1)
    force = np.linalg.norm(tau, axis=1)
    centroid, high = frequency_content(v[:, 1:], (t[-1] - t[0]) / (len(t) - 1))
    return TrackingResult(
        beta=float(beta),
        rms_error=float(np.sqrt(np.trapezoid(error**2, t) / (t[-1] - t[0]))),
        final_error=float(error[-1]),
        effort=float(np.trapezoid(force**2, t)),
        peak_force=float(force.max()),
        zero_crossings=zero_crossings(v[:, 2]),
        centroid=centroid,
        high_frequency=high,
        motion=motion,
    )


def zero_crossings(signal: np.ndarray, floor: float = 1e-9) -> int:
    """Sign changes of a sampled signal; leaving an exact zero at the start counts as one.

    Parameters
    ----------
    signal : (T,) samples.
    floor : samples smaller than this, in the signal's units, are taken as zero: below it integration error
        decides the sign.
    """
    signs = np.sign(np.where(np.abs(signal) < floor, 0.0, signal))
    leaves_rest = int(signs.size > 0 and signs[0] == 0.0 and signs.any())
    signs = signs[signs != 0.0]
    return int(np.count_nonzero(np.diff(signs))) + leaves_rest


def frequency_content(signals: np.ndarray, step: float) -> tuple[float, float]:
    """Spectral centroid (Hz) and fraction of the power above 1 Hz, all signals together.

    Parameters
    ----------
    signals : (T, m) samples; a signal that is zero throughout gives zeros.
    step : time between samples, s.
    """
    power = (np.abs(np.fft.rfft(signals, axis=0)) ** 2).sum(axis=1)
    frequency = np.fft.rfftfreq(len(signals), step)
    total = power.sum()
    if total == 0.0:
        return 0.0, 0.0
    return float(frequency @ power / total), float(power[frequency > HIGH_FREQUENCY].sum() / total)


def table(results: Sequence[TrackingResult]) -> str:
    """The measurements as a Markdown table, one row per beta.

    Parameters
    ----------
    results : what `explore` returned.
    """
    head = (
        "| beta [kg] | rms error [m] | final error [m] | effort [N^2 s] | peak force [N] | zero crossings of v_z "
        "| spectral centroid [Hz] | power above 1 Hz |"
    )
    rows = [head, "|" + "---:|" * 8]
    for r in results:
        rows.append(
            f"| {r.beta:g} | {r.rms_error:.3f} | {r.final_error:.3f} | {r.effort:.1f} | {r.peak_force:.2f} "
            f"| {r.zero_crossings} | {r.centroid:.2f} | {100 * r.high_frequency:.0f} % |"
        )
    return "\n".join(rows)


def _particle(frame: CoordinateFrame, mass: float, beta: float) -> MechanicalSystem:
    metric = ConstantMetric(frame, mass * np.eye(3))
    return MechanicalSystem(metric, connection=ContorsionFamily(metric).connection(jnp.array([beta])))


def _beta_values(betas: Any) -> np.ndarray:
    try:
        values = np.asarray(betas, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError("betas: expected a list of numbers") from error
    if values.ndim != 1 or values.size == 0:
        raise ShapeError("betas", "a list of at least one number", values.shape)
    require_finite("betas", values)
    return values
