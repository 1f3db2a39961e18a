"""Robots that track a reference under the passivity-based law, with any torsion, many at a time.

A robot follows q_d(t) = amplitude sin(omega t + phase) about its neutral configuration, joint by joint, under

    tau = H a_r + C_gamma v_r + g - K_D s,  s = v - v_r,  v_r = qdot_d - Lambda (q - q_d),
    C_gamma = C* + gamma (C_x - C*),

with C* of Levi-Civita and C_x of the body-level factor (v x*) I. H, C and g are those of an estimate with all
inertias wrong by one factor. Every gamma is admissible, and all have the same geodesics, so torsion acts only
where s is not zero. K_D is the mass matrix at the neutral configuration times a rate.
Source: [W] IV-A2 and eq. (12), (13); [E] eq. (11).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from connections.checks import as_number
from connections.control import PassivityController
from connections.control.tracking_example import high_frequency_fraction
from connections.integration.driver import follow
from connections.integration.solver import Settings
from connections.integration.steps import judging, numpy_attempts, plain_layout
from connections.multibody import Model, coriolis_product, forward_dynamics, mass_matrix
from connections.sweeps.errors import SweepError
from connections.sweeps.sweep import whole

ROBOT_MEASURES = (
    "rms_error",
    "final_error",
    "effort",
    "peak_force",
    "rms_frequency",
    "high_frequency",
)
_RUNAWAY = 1e3  # rad/s or m/s: a motion that is as fast as this counts as run away
_PLACES = 512  # motions that take their steps together


@dataclass(frozen=True)
class Tracking:
    """The reference, the gains and the duration of a robot's motions.

    Parameters
    ----------
    horizon : s.
    sampling : time between two samples, s.
    amplitude, frequency : of the reference, rad (or m) and Hz; its phase is random for every joint.
    stiffness : Lambda, 1/s.
    damping : K_D over the mass matrix at the neutral configuration, 1/s.
    estimate : the controller's inertias over the true ones.
    spread, speed : standard deviation of the initial error, rad (or m), and of its rate, rad/s (or m/s).
    rtol : tolerance of a step, `rtol` and `atol` of all motions; steps end at samples, so most are more
        accurate.
    max_steps : steps of a motion; with a torsion that needs more, the closed loop is too stiff to be useful.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> from connections import sweeps
    >>> slow = sweeps.Tracking(horizon=1.0, frequency=0.2)
    >>> slow.damping, slow.frequency  # 1/s, Hz
    (4.0, 0.2)
    >>> sweeps.contorsion_sweep([0.0, -1.0], 10, robots=[mb.example("arm")], tracking=slow).rows
    20
    """

    horizon: float = 4.0
    sampling: float = 0.04
    amplitude: float = 0.6
    frequency: float = 0.5
    stiffness: float = 2.0
    damping: float = 4.0
    estimate: float = 0.9
    spread: float = 0.3
    speed: float = 0.5
    rtol: float = 1e-8
    max_steps: int = 5_000

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__.keys() - {"max_steps"}:
            value = as_number(name, getattr(self, name))
            if value < 0.0 or (value == 0.0 and name not in ("amplitude", "spread", "speed")):
                raise SweepError(f"{name}: expected a positive number, got {value!r}")
            object.__setattr__(self, name, value)
        object.__setattr__(self, "max_steps", whole("max_steps", self.max_steps, 1))
        if self.horizon < 4.0 * self.sampling:
            raise SweepError(f"sampling: {self.sampling:g} s is too long for a motion of {self.horizon:g} s")


@dataclass(frozen=True, eq=False)
class Motions:
    """Closed loops of one robot, many at a time.

    Parameters
    ----------
    plant : the robot.
    tracking : its motion.

    Attributes
    ----------
    believed : the controller's estimate of the robot.
    law : its law without torsion.
    """

    plant: Model
    tracking: Tracking
    believed: Model = field(init=False)
    law: PassivityController = field(init=False)

    def __post_init__(self) -> None:
        tree = self.plant.kinematics.tree
        scaled = replace(
            tree,
            inertias=self.tracking.estimate * tree.inertias,
            armature=self.tracking.estimate * tree.armature,
        )
        believed = Model.of(scaled, self.plant.gravity)
        gain = self.tracking.damping * mass_matrix(believed, self.plant.neutral())
        object.__setattr__(self, "believed", believed)
        object.__setattr__(self, "law", PassivityController(believed.system(), gain))

    def start(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A random initial state and the reference's phases, (nv,) each."""
        phase = rng.uniform(-np.pi, np.pi, self.plant.nv)
        position, velocity, _ = self.reference(0.0, phase)
        error, rate = rng.standard_normal((2, self.plant.nv))
        return position + self.tracking.spread * error, velocity + self.tracking.speed * rate, phase

    def reference(self, t: Any, phase: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """q_d and its first two rates, (..., nv) each, at the time t, a number or (..., 1)."""
        omega = 2.0 * np.pi * self.tracking.frequency
        angle, size = omega * t + phase, self.tracking.amplitude
        position = self.plant.neutral() + size * np.sin(angle)
        return position, size * omega * np.cos(angle), -size * omega**2 * np.sin(angle)

    def measure(
        self, gamma: np.ndarray, q: np.ndarray, v: np.ndarray, phase: np.ndarray
    ) -> dict[str, np.ndarray]:
        """The measures of motions (m,) from q, v (m, nv), NaN where they run away or take too many steps.

        Parameters
        ----------
        gamma : (m,), the share of C_x - C* in the law's C.
        q, v : (m, nv) initial states.
        phase : (m, nv) of the references.
        """
        times, error, rate, force = self._run(gamma, q, v, phase)
        sizes, forces = np.linalg.norm(error, axis=2), np.linalg.norm(force, axis=2)
        spacing = times[1] - times[0]
        bend = np.gradient(rate, spacing, axis=0)
        energy = np.trapezoid((rate**2).sum(axis=2), times, axis=0)
        ratio = np.trapezoid((bend**2).sum(axis=2), times, axis=0) / energy
        lost = ~np.isfinite(sizes[-1])
        shares = [
            np.nan if gone else high_frequency_fraction(rate[:, row], spacing)
            for row, gone in enumerate(lost)
        ]
        return {
            "rms_error": np.sqrt(np.trapezoid(sizes**2, times, axis=0) / times[-1]),
            "final_error": sizes[-1],
            "effort": np.trapezoid(forces**2, times, axis=0),
            "peak_force": forces.max(axis=0),
            "rms_frequency": np.sqrt(ratio) / (2.0 * np.pi),
            "high_frequency": np.array(shares),
        }

    def _run(
        self, gamma: np.ndarray, q: np.ndarray, v: np.ndarray, phase: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Times (T,), tracking errors, their rates and forces (T, m, nv); NaN after a motion has failed."""
        home, m = np.hstack([q, v]), len(q)
        count = round(self.tracking.horizon / self.tracking.sampling)
        times = self.tracking.sampling * np.arange(count + 1, dtype=np.float64)

        def rates(which: np.ndarray, t: np.ndarray, y: np.ndarray) -> np.ndarray:
            good = self._in_reach(y)
            q, v = np.split(np.where(good, y, home[which]), 2, axis=1)
            tau = self.torque(gamma[which], t[:, None], q, v, phase[which])
            return np.where(good, np.hstack([v, forward_dynamics(self.plant, q, v, tau)]), np.nan)

        origin = np.zeros_like(home)
        scales = np.stack([origin, origin])
        settings = Settings(self.tracking.rtol, self.tracking.rtol, max_steps=self.tracking.max_steps)
        attempts = judging(
            numpy_attempts(rates), scales, plain_layout(home.shape[1]), (settings.rtol, settings.atol)
        )
        found = follow(attempts, home, origin, times, settings, _PLACES)
        states = found.states.swapaxes(0, 1).reshape((count + 1) * m, -1)
        good, t = self._in_reach(states), np.repeat(times, m)[:, None]
        home, gamma, phase = (np.concatenate([array] * (count + 1)) for array in (home, gamma, phase))
        # The recursions refuse NaN, so failed motions get the neutral state, and NaN afterwards.
        q, v = np.split(np.where(good, states, home), 2, axis=1)
        wanted, velocity, _ = self.reference(t, phase)
        measured = q - wanted, v - velocity, self.torque(gamma, t, q, v, phase)
        return times, *(np.where(good, array, np.nan).reshape(count + 1, m, -1) for array in measured)

    def _in_reach(self, y: np.ndarray) -> np.ndarray:
        """Whether states (m, 2 nv) are finite and have not run away, (m, 1)."""
        slow = (np.abs(y[:, self.plant.nv :]) < _RUNAWAY).all(axis=1)
        good: np.ndarray = (slow & np.isfinite(y).all(axis=1))[:, None]
        return good

    def torque(self, gamma: np.ndarray, t: Any, q: Any, v: Any, phase: Any) -> np.ndarray:
        """The law's forces tau (m, nv); they are affine in gamma.

        Parameters
        ----------
        gamma : (m,), the share of C_x - C* in the law's C.
        t : s, a number or (m, 1).
        q, v, phase : (m, nv).
        """
        wanted, velocity, acceleration = self.reference(t, phase)
        Lambda = self.tracking.stiffness
        v_r = velocity - Lambda * (q - wanted)
        a_r = acceleration - Lambda * (v - velocity)
        tau = np.asarray(self.law.torque(q, v, v_r, a_r))
        if gamma.any():
            turned = coriolis_product(self.believed, q, v, v_r, body_factor="force_cross")
            tau = tau + gamma[:, None] * (turned - coriolis_product(self.believed, q, v, v_r))
        return tau
