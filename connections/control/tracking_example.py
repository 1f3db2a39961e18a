"""The tracking example of the paper: a point mass, a wrong mass estimate, a choice of Coriolis matrix.

A free particle of mass 1 kg follows q_d = (t + sin t, 0, 0) m under the passivity-based law with the estimate
0.9 kg, Lambda = K_D = 1, and C = beta (v x). C = 0 is the Riemannian choice; every other beta is as
admissible ([W] (12)) and has torsion. The paper gives neither the initial state nor the horizon; here the
mass starts at the origin with 1 m/s along +y, which reproduces the first motion of its Fig. 6, and moves for
10 s.

`explore` sweeps beta and reports tracking error, control effort and frequency content. It draws no
conclusion: in this example the error falls slightly with torsion while effort and frequency rise.
Source: [W] IV-A2, Figs 4 to 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike
from connections._words import words_of
from connections.affine import ContorsionFamily, StatisticalConnection, WeylConnection
from connections.checks import (
    ShapeError,
    as_array,
    as_number,
    require_choice,
    require_duration,
    require_finite,
    require_type,
)
from connections.control.laws.attractors import trajectory_reference
from connections.control.laws.closed_loop import ClosedLoop, simulate_members
from connections.control.laws.passivity import PassivityController
from connections.control.laws.results import ClosedLoopMotion
from connections.coriolis import MechanicalSystem
from connections.geometry import ConstantMetric, CoordinateFrame

MASS, MASS_ESTIMATE, LAMBDA, K_D = 1.0, 0.9, 1.0, 1.0
START, START_VELOCITY = (0.0, 0.0, 0.0), (0.0, 1.0, 0.0)
PAPER_BETAS = (0.0, -5.0, -10.0)
HORIZON = 10.0
RATE = 100.0  # samples per second; the spectra reach RATE / 2
HIGH_FREQUENCY = 1.0
FAMILIES = ("contorsion", "weyl", "statistical")


@dataclass(frozen=True, eq=False)
class TrackingResult:
    """One value of beta: the motion and what was measured on it.

    Examples
    --------
    >>> from connections.control import tracking_example
    >>> result, other = tracking_example.explore([0.0, -5.0], horizon=1.0)
    >>> round(result.rms_error, 3), round(other.rms_error, 3)  # m, without and with torsion
    (0.649, 0.61)
    """

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
    rms_frequency: float
    """(1 / 2 pi) sqrt(int |a|^2 / int |v|^2) of the transverse components (y, z), Hz."""
    high_frequency: float
    """Fraction of the transverse velocity's energy above 1 Hz."""
    motion: ClosedLoopMotion
    """The closed-loop motion."""

    def to_dict(self) -> dict[str, float]:
        """The numbers, without the motion."""
        return {name: getattr(self, name) for name in MEASURES}


MEASURES = tuple(field.name for field in fields(TrackingResult) if field.name != "motion")


def desired_position(t: jax.Array | float) -> jax.Array:
    """q_d(t) = (t + sin t, 0, 0), m; t is a scalar, s.

    Examples
    --------
    >>> import numpy as np
    >>> from connections.control import tracking_example
    >>> np.asarray(tracking_example.desired_position(0.5 * np.pi)).round(4)
    array([2.5708, 0.    , 0.    ])
    """
    if not isinstance(t, jax.Array):
        t = as_number("t", t)
    return jnp.array([1.0, 0.0, 0.0]) * (t + jnp.sin(t))


def tracking_loop(
    beta: float | jax.Array, mass_estimate: float = MASS_ESTIMATE, family: str = "contorsion"
) -> ClosedLoop:
    """The closed loop of the example with C = beta (v x) in the plant's connection and in the law.

    Parameters
    ----------
    beta : factor of (v x), kg/m; may be traced.
    mass_estimate : the controller's mass, kg; the plant's is 1 kg.
    family : one of `FAMILIES`. Weyl's connection with the form beta e_y / m and the one of statistics with
        C(v, v, v) = beta (v_x + v_y + v_z)^3 / 27 have other geodesics than the metric, so that their C is in
        the law alone: it is a wrong model, whose error beta scales.

    Examples
    --------
    >>> import numpy as np
    >>> from connections.control import tracking_example
    >>> loop = tracking_example.tracking_loop(-5.0)
    >>> motion = loop.simulate([0.0, 0.0, 0.0], [0.0, 1.0, 0.0], np.linspace(0.0, 1.0, 101))
    >>> motion.q[-1].round(2)  # m
    array([1.05, 0.  , 0.04])

    Source: [W] IV-A2.
    """
    require_choice("family", family, FAMILIES)
    if not isinstance(beta, jax.Array):
        beta = as_number("beta", beta)
    mass_estimate = require_duration("mass_estimate", mass_estimate)
    frame = CoordinateFrame(3)
    plant = _particle(frame, MASS, beta if family == "contorsion" else 0.0, "contorsion")
    model = _particle(frame, mass_estimate, beta, family)
    reference = trajectory_reference(frame, desired_position, LAMBDA)
    return ClosedLoop(plant, PassivityController(model, K_D), reference)


def explore(
    betas: Sequence[float] = PAPER_BETAS,
    horizon: float = HORIZON,
    start: ArrayLike = START,
    start_velocity: ArrayLike = START_VELOCITY,
    family: str = "contorsion",
) -> list[TrackingResult]:
    """The tracking example for each beta.

    Parameters
    ----------
    betas : factors of (v x), kg/m; the paper's are 0, -5 and -10.
    horizon : length of the motion, s.
    start, start_velocity : (3,) m and m/s.
    family : one of `FAMILIES`, as of `tracking_loop`.

    Returns
    -------
    list of TrackingResult, in the order of `betas`.

    Raises
    ------
    ShapeError, NonFiniteError : betas is empty or not a list of finite numbers.
    ValueError : the horizon is not positive.

    Examples
    --------
    >>> from connections.control import tracking_example
    >>> results = tracking_example.explore([0.0, -5.0], horizon=1.0)
    >>> [(result.beta, round(result.effort, 1)) for result in results]  # N^2 s
    [(0.0, 4.8), (-5.0, 44.1)]

    Source: [W] IV-A2, Figs 4 to 7.
    """
    values = beta_values(betas)
    horizon = require_duration("horizon", horizon)
    require_choice("family", family, FAMILIES)
    q0, v0 = (_triple(name, x) for name, x in (("start", start), ("start_velocity", start_velocity)))
    times = np.linspace(0.0, horizon, int(np.ceil(horizon * RATE)) + 1)
    motions = simulate_members(
        tracking_loop(0.0, family=family),
        lambda beta: tracking_loop(beta[0], family=family),
        values[:, None],
        (q0, v0),
        times,
    )
    return [measure(beta, motions.member(number)) for number, beta in enumerate(values)]


def measure(beta: float, motion: ClosedLoopMotion) -> TrackingResult:
    """Tracking error, effort and frequency content of one motion, sampled uniformly.

    Parameters
    ----------
    beta : the factor of (v x) that produced it, kg/m.
    motion : the motion.

    Examples
    --------
    >>> import numpy as np
    >>> from connections.control import tracking_example
    >>> loop = tracking_example.tracking_loop(-5.0)
    >>> motion = loop.simulate([0.0, 0.0, 0.0], [0.0, 1.0, 0.0], np.linspace(0.0, 1.0, 101))
    >>> round(tracking_example.measure(-5.0, motion).peak_force, 1)  # N
    10.9
    """
    require_type("motion", motion, ClosedLoopMotion)
    beta = as_number("beta", beta)
    if motion.error is None:
        raise ValueError("motion: expected that of a loop that follows a trajectory")
    t, v, tau = (np.asarray(x) for x in (motion.times, motion.v, motion.tau))
    error = np.linalg.norm(motion.error, axis=1)
    force = np.linalg.norm(tau, axis=1)
    acceleration = tau[:, 1:] / MASS
    ratio = np.trapezoid((acceleration**2).sum(axis=1), t) / np.trapezoid((v[:, 1:] ** 2).sum(axis=1), t)
    return TrackingResult(
        beta=beta,
        rms_error=float(np.sqrt(np.trapezoid(error**2, t) / (t[-1] - t[0]))),
        final_error=float(error[-1]),
        effort=float(np.trapezoid(force**2, t)),
        peak_force=float(force.max()),
        zero_crossings=zero_crossings(v[:, 2], 1e-9 * float(np.abs(v).max())),
        rms_frequency=float(np.sqrt(ratio) / (2.0 * np.pi)),
        high_frequency=high_frequency_fraction(v[:, 1:], t[1] - t[0]),
        motion=motion,
    )


def zero_crossings(signal: np.ndarray, floor: float) -> int:
    """Sign changes of a sampled signal; leaving an exact zero at the start counts as one.

    Parameters
    ----------
    signal : (T,) samples.
    floor : samples smaller than this, in the signal's units, are taken as zero: below it integration error
        decides the sign.

    Examples
    --------
    >>> import numpy as np
    >>> from connections.control import tracking_example
    >>> tracking_example.zero_crossings(np.array([1.0, -1.0, 1e-9, -1.0, 1.0]), floor=1e-6)
    2
    """
    signal, floor = _finite("signal", signal, (None,)), as_number("floor", floor)
    signs = np.sign(np.where(np.abs(signal) < floor, 0.0, signal))
    leaves_rest = int(signs.size > 0 and signs[0] == 0.0 and signs.any())
    signs = signs[signs != 0.0]
    return int(np.count_nonzero(np.diff(signs))) + leaves_rest


def high_frequency_fraction(signals: np.ndarray, step: float) -> float:
    """Fraction of the signals' energy above 1 Hz, all signals together; 0 for signals that vanish.

    Parameters
    ----------
    signals : (T, m) samples.
    step : time between samples, s.

    Examples
    --------
    >>> import numpy as np
    >>> from connections.control import tracking_example
    >>> t = np.arange(0.0, 10.0, 0.01)
    >>> slow, fast = np.sin(np.pi * t)[:, None], np.sin(6.0 * np.pi * t)[:, None]  # 0.5 Hz and 3 Hz
    >>> [round(tracking_example.high_frequency_fraction(signal, step=0.01), 1) for signal in (slow, fast)]
    [0.0, 1.0]
    """
    power, frequency = energy_spectrum(signals, step)
    total = np.trapezoid(power, frequency)
    above = np.trapezoid(np.where(frequency > HIGH_FREQUENCY, power, 0.0), frequency)
    return float(above / total) if total > 0.0 else 0.0


def energy_spectrum(signals: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Energy density |integral of signal exp(-2 pi i f t) dt|^2, summed over signals, and f in Hz.

    Parameters
    ----------
    signals : (T, m) samples, taken as zero outside their window.
    step : time between samples, s.

    Examples
    --------
    A wave of 2 Hz.

    >>> import numpy as np
    >>> from connections.control import tracking_example
    >>> t = np.arange(0.0, 4.0, 0.01)
    >>> density, f = tracking_example.energy_spectrum(np.sin(4.0 * np.pi * t)[:, None], step=0.01)
    >>> float(f[density.argmax()].round(1))
    2.0
    """
    signals, step = _finite("signals", signals, (None, None)), require_duration("step", step)
    length = 8 * len(signals)
    amplitude = np.fft.rfft(signals, n=length, axis=0) * step
    return (np.abs(amplitude) ** 2).sum(axis=1), np.fft.rfftfreq(length, step)


def beta_values(betas: Any) -> np.ndarray:
    """The factors of (v x) as an array (m,), kg/m.

    Parameters
    ----------
    betas : a list of numbers.

    Raises
    ------
    TypeError : they are no numbers. ShapeError, NonFiniteError : no list, an empty one, or not finite.

    Examples
    --------
    >>> from connections.control import tracking_example
    >>> tracking_example.beta_values([0, -5])
    array([ 0., -5.])
    """
    values = np.asarray(as_array("betas", betas, ()))
    if values.ndim != 1 or values.size == 0:
        raise ShapeError("betas", "a list of at least one number", values.shape)
    require_finite("betas", values)
    return values


def table(results: Sequence[TrackingResult]) -> str:
    """The measurements as a Markdown table, one row per beta.

    Parameters
    ----------
    results : what `explore` returned.

    Examples
    --------
    >>> from connections.control import tracking_example
    >>> print(tracking_example.table(tracking_example.explore([0.0], horizon=1.0)))
    | beta [kg/m] | rms error [m] | final error [m] | effort [N^2 s] | peak force [N] | ...
    |---:|---:|---:|---:|---:|---:|---:|---:|
    | 0 | 0.649 | 0.842 | 4.8 | 4.25 | 0 | 0.36 | 21 % |
    """
    head = (
        "| beta [kg/m] | rms error [m] | final error [m] | effort [N^2 s] | peak force [N] "
        "| zero crossings of v_z | rms frequency [Hz] | energy above 1 Hz |"
    )
    rows = [head, "|" + "---:|" * 8]
    if not isinstance(results, list | tuple):
        raise TypeError(f"results: expected a list of TrackingResult, got {words_of(results)}")
    for number, r in enumerate(results):
        require_type(f"results[{number}]", r, TrackingResult)
        rows.append(
            f"| {r.beta:g} | {r.rms_error:.3f} | {r.final_error:.3f} | {r.effort:.1f} | {r.peak_force:.2f} "
            f"| {r.zero_crossings} | {r.rms_frequency:.2f} | {100 * r.high_frequency:.0f} % |"
        )
    return "\n".join(rows)


def _particle(frame: CoordinateFrame, mass: float, beta: Any, family: str) -> MechanicalSystem:
    metric = ConstantMetric(frame, mass * np.eye(3))
    if family == "weyl":
        nabla: Any = WeylConnection(metric, _along_y, jnp.asarray(beta) / mass)
    elif family == "statistical":
        nabla = StatisticalConnection(metric, _one_cubic, beta)
    else:
        nabla = ContorsionFamily(metric).connection(jnp.array([beta]))
    return MechanicalSystem(metric, connection=nabla)


def _along_y(q: jax.Array, size: jax.Array) -> jax.Array:
    return size * jnp.array([0.0, 1.0, 0.0])


def _one_cubic(q: jax.Array) -> jax.Array:
    return jnp.full((3, 3, 3), 1.0 / 27.0)


def _triple(name: str, value: Any) -> np.ndarray:
    return _finite(name, value, (3,))


def _finite(name: str, value: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    array = np.asarray(as_array(name, value, shape))
    if array.ndim != len(shape):
        raise ShapeError(name, shape, array.shape)
    require_finite(name, array)
    return array
