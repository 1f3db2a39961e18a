"""How estimates change: with a constant gain, or along the inertias of bodies that exist.

With a = Y^T s, pi~ = pihat - pi, d the log-det divergence, P the total inertias and G their metric,

    constant:  pihat_dot = -P a,           V = s^T H s / 2 + pi~^T P^-1 pi~ / 2,
    natural:   pihat_dot = -gamma G^-1 a,  V = s^T H s / 2 + (1 / gamma) sum_b d(P_b || Phat_b),

and Vdot = -s^T K_D s for both. The natural law in matrices is Phat_b' = -gamma Phat_b S_b Phat_b, S_b the
dual of a. With a dead zone, whose weight is w = max(0, 1 - 1 / |s / delta|), and leakage,

    pihat_dot = -gamma G^-1 (w a) - sigma (natural gradient of d(Phat || P_0)),
    Vdot = -s^T K_D s + (1 - w) a . pi~ + (sigma / gamma) (d(P || P_0) - d(P || Phat) - d(Phat || P_0)).

At a bound of mass, the rate is projected in G on those that do not raise it, which lowers Vdot further.
Source: Slotine and Li (1987); [LKP] for the natural law; the identities of its options are derived here.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.control.laws.inertia_cone import InertiaCone
from connections.evaluation.parameters import Parametrized

_LONGEST = 1.0  # step of a body along its geodesic; the eigenvalues of P change by a factor of e at most


class Adaptation(Parametrized, abc.ABC):
    """The rate of estimates, for arrays of NumPy or JAX: Y (..., n, p), s (..., n), estimates (..., p)."""

    @abc.abstractmethod
    def rate(self, Y: Any, s: Any, estimates: Any) -> Any:
        """pihat_dot, (..., p)."""

    @abc.abstractmethod
    def stepped(self, Y: Any, s: Any, estimates: Any, period: float) -> Any:
        """The estimates (..., p) after a period in which Y and s are held."""

    @abc.abstractmethod
    def error_energy(self, truth: Any, estimates: Any) -> Any:
        """The part of V that depends on the estimates, (...,)."""

    @abc.abstractmethod
    def added_power(self, Y: Any, s: Any, truth: Any, estimates: Any) -> Any:
        """Vdot - s^T (f - K_D s), (...,)."""

    @abc.abstractmethod
    def units(self, truth: Any, estimates: Any) -> Any:
        """A size of each estimate, (p,)."""

    def require(self, name: str, estimates: Any) -> None:
        """Raise the error of estimates that the rule does not take."""

    def require_truth(self, truth: Any) -> None:
        """Raise the error of a truth for which V is infinite."""


@dataclass(frozen=True, eq=False)
class ConstantAdaptation(Adaptation):
    """A constant gain P (p, p)."""

    P: Any

    def rate(self, Y: Any, s: Any, estimates: Any) -> Any:
        """-P Y^T s."""
        return _pulled(Y, s) @ -self.P.T

    def stepped(self, Y: Any, s: Any, estimates: Any, period: float) -> Any:
        """Euler's step, which is exact."""
        return estimates + period * self.rate(Y, s, estimates)

    def error_energy(self, truth: Any, estimates: Any) -> Any:
        """pi~^T P^-1 pi~ / 2."""
        error = estimates - truth
        return 0.5 * (error * (error @ _module_of(error).linalg.inv(self.P))).sum(-1)

    def added_power(self, Y: Any, s: Any, truth: Any, estimates: Any) -> Any:
        """Zero."""
        return 0.0

    def units(self, truth: Any, estimates: Any) -> Any:
        """Each has a unit of its own."""
        return abs(truth) + abs(estimates)


@dataclass(frozen=True, eq=False)
class NaturalAdaptation(Adaptation):
    """The natural gradient of inertias, -gamma G^-1 (w Y^T s + leak).

    Parameters
    ----------
    cone : where total inertias are positive definite.
    gamma : 1/J.
    mass_bound : (B,) kg, the largest total masses; infinite for none.
    leakage : sigma, 1/s.
    prior : (p,) estimates to which it leaks; None without leakage.
    dead_zone : (n,) sizes delta of s below which nothing is learned; None for none.
    bounded : whether some mass has a bound.
    """

    cone: InertiaCone
    gamma: Any
    mass_bound: np.ndarray
    leakage: Any
    prior: Any
    dead_zone: Any
    bounded: bool

    def rate(self, Y: Any, s: Any, estimates: Any) -> Any:
        """-gamma G^-1 (w Y^T s + leak), without what raises a mass at its bound."""
        free = self._free_rate(Y, s, estimates)
        if not self.bounded:
            return free
        at_bound = self.cone.masses(estimates) >= self.mass_bound
        return self.cone.without_rise(estimates, free, _module_of(free).where(at_bound, 0.0, np.inf))

    def stepped(self, Y: Any, s: Any, estimates: Any, period: float) -> Any:
        """The geodesic, cut at the bounds of masses; in a slice, the damped step."""
        cone, covector = self.cone, self.gamma * period * self._covector(Y, s, estimates)
        if cone.basis is None:
            return cone.geodesic_step(estimates, covector, _LONGEST, self.mass_bound)
        change = cone.damped_step(estimates, covector) - estimates
        if self.bounded:
            change = cone.without_rise(estimates, change, self.mass_bound - cone.masses(estimates))
        return estimates + change

    def error_energy(self, truth: Any, estimates: Any) -> Any:
        """sum of d(P || Phat) / gamma."""
        return self.cone.divergence(truth, estimates) / self.gamma

    def added_power(self, Y: Any, s: Any, truth: Any, estimates: Any) -> Any:
        """s^T Y pi~ + pihat_dot^T G pi~ / gamma, the parts that cancel left out."""
        error, pulled = estimates - truth, _pulled(Y, s)
        cut = self.rate(Y, s, estimates) - self._free_rate(Y, s, estimates)
        held = (cut[..., None, :] @ self.cone.metric(estimates))[..., 0, :] / self.gamma
        rest = pulled - self._covector(Y, s, estimates)
        return ((rest + held) * error).sum(-1)

    def units(self, truth: Any, estimates: Any) -> Any:
        """Units of the parameters, from masses and radii of the bodies."""
        return self.cone.units(truth, estimates)

    def require(self, name: str, estimates: Any) -> None:
        """Raise `PointError` for total inertias outside the cone, or above their bounds of mass."""
        self.cone.require(name, estimates)
        self.cone.require_masses(name, estimates, self.mass_bound)

    def require_truth(self, truth: Any) -> None:
        """Raise `PointError` if the total inertia of the plant is singular, for then V is infinite."""
        self.cone.require("parameters", truth, "what is added")
        self.cone.require_masses("parameters", truth, self.mass_bound)

    def _free_rate(self, Y: Any, s: Any, estimates: Any) -> Any:
        return -self.gamma * self.cone.direction(estimates, self._covector(Y, s, estimates))

    def _covector(self, Y: Any, s: Any, estimates: Any) -> Any:
        a = _pulled(Y, s)
        if self.dead_zone is not None:
            by = _module_of(a)
            size = by.sqrt(((s / self.dead_zone) ** 2).sum(-1, keepdims=True))
            a = a * by.maximum(0.0, 1.0 - 1.0 / by.maximum(size, 1.0))
        if self.prior is not None:
            a = a + (self.leakage / self.gamma) * self.cone.slope(estimates, self.prior)
        return a


def _pulled(Y: Any, s: Any) -> Any:
    """Y^T s, (..., p)."""
    return (s[..., None, :] @ Y)[..., 0, :]


def _module_of(x: Any) -> Any:
    return jnp if isinstance(x, jax.Array) else np
