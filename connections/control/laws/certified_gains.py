"""Gains of control laws from a robot's certified constants, each with the condition that it satisfies.

With lambda_M >= lambda_max(H), lambda_m <= lambda_min(H), k_g >= |dg/dq| and k >= k_C of any member, so that
|C(v)^T w| <= k |v| |w|, at every posture of the certificate's box, the four conditions are

    regulator:   tau = g(q_d) - K_P (q - q_d) - K_D v,  K_P > k_g;
    tracking:    tau = H vdot_r + C v_r + g - K_D s,    K_D >= rho lambda_M,
                                                        K_D >= (d / e) (lambda_M / lambda_m)^(1/2);
    observer:    r = K (p - z), v known to delta,      2 K lambda_M delta + k (2 |v| delta + delta^2) <= r_0;
    adaptation:  pihat_dot = -gamma G^-1 Y^T s,        gamma (lambda_m e^2 - lambda_M e_0^2) >= 2 d_0.

What each gives is in the methods of `CertifiedGains`; docs/gains.md proves them; d_0 = d(pi || pihat_0).
Source: Takegaki and Arimoto (1981); Tomei (1991); Slotine and Li (1987); De Luca, Albu-Schaeffer, Haddadin
and Hirzinger (2006); [LKP]; the bounds of tracking, observer and adaptation are derived here.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from connections.certified import Constants, Interval
from connections.checks import as_number, require_type
from connections.control.laws.gains import CertifiedGain, GainError


@dataclass(frozen=True)
class CertifiedGains:
    """Gains that are proved for the postures of a robot's certified constants.

    Every gain is a number k for k 1, in SI units of the coordinates, like the constants. It holds for the
    robot whose constants they are: with a payload, certify the robot that carries it.

    Attributes
    ----------
    constants : what `certified.constants` returned.

    Examples
    --------
    >>> from connections import certified, control
    >>> from connections import multibody as mb
    >>> rod = mb.Mechanism()
    >>> rod.add_body("rod", mass=2.0, center_of_mass=(0, 0, -0.5))
    >>> rod.add_joint("hinge", "world", "rod", mb.Revolute((0, 1, 0)))
    >>> gains = control.gains_from(certified.constants(rod.build(), rtol=0.01))
    >>> float(gains.tracking(rate=2.0)) == 2.0 * float(gains.tracking(rate=1.0))
    True
    >>> gains.observer(threshold=2.0, velocity_error=0.01, speed=1.0).name
    'K'
    >>> gains.adaptation(divergence=0.5, error=0.2).name
    'gamma'

    Source: docs/gains.md.
    """

    constants: Constants

    def regulator(self, margin: float = 1.05) -> CertifiedGain:
        """K_P of tau = g(q_d) - K_P (q - q_d) - K_D v, for any target and any K_D > 0.

        The potential U(q) - g(q_d) . q + |q - q_d|^2 K_P / 2 has the Hessian dg/dq + K_P, which is positive
        definite: q_d is the only equilibrium, and all motions converge to it, if they remain where the
        constants hold (the whole space, if joints have no limits).

        Parameters
        ----------
        margin : K_P / k_g, more than 1.

        Raises
        ------
        GainError : the margin is not more than 1; k_g is infinite; the frame's velocities are not the rates
            of coordinates, so that q - q_d is not defined.

        Source: Takegaki and Arimoto (1981); Tomei (1991).
        """
        margin = _more_than("margin", margin, 1.0)
        k_g = self._upper("k_g")
        if k_g == 0.0:
            raise GainError("k_g is 0: without gravity any K_P > 0 will do")
        return self._gain("K_P", margin * k_g, "N m/rad or N/m", "K_P > k_g", {"k_g": k_g})

    def tracking(
        self,
        rate: float | None = None,
        disturbance: float | None = None,
        error: float | None = None,
        margin: float = 1.05,
    ) -> CertifiedGain:
        """K_D of `PassivityController`, for a rate, or for an error under a disturbance; the larger of both.

        V = s^T H s / 2 has Vdot <= -K_D |s|^2 + d |s|. Without a disturbance V falls at least as
        exp(-2 rho t) if K_D >= rho lambda_M. With one, V falls while |s| > d / K_D, so that finally
        |s| <= (d / K_D) (lambda_M / lambda_m)^(1/2). Any connection will do that is metric compatible.

        Parameters
        ----------
        rate : rho, 1/s, of |s|_H.
        disturbance : d, the norm of generalized forces that the law does not know.
        error : e, the norm of s = v - v_r that they may leave.
        margin : K_D over the bound, more than 1.

        Raises
        ------
        GainError : neither is given, or a number is not positive; a constant is infinite or zero.

        Source: Slotine and Li (1987); [W] (14).
        """
        margin = _more_than("margin", margin, 1.0)
        if (disturbance is None) != (error is None):
            raise GainError("disturbance, error: they are given together")
        if rate is None and error is None:
            raise GainError("rate, error: neither is given; tracking converges with any K_D > 0")
        high, bounds, uses = self._upper("lambda_max"), [], {}
        uses["lambda_max(H)"] = high
        words = []
        if rate is not None:
            bounds.append(_more_than("rate", rate) * high)
            words.append("K_D >= rho lambda_max(H)")
        if disturbance is not None and error is not None:
            low = uses["lambda_min(H)"] = self._lower("lambda_min")
            bounds.append(
                _more_than("disturbance", disturbance) / _more_than("error", error) * (high / low) ** 0.5
            )
            words.append("K_D >= (d/e) (lambda_max/lambda_min)^(1/2)")
        return self._gain("K_D", margin * max(bounds), "N m s/rad or N s/m", "; ".join(words), uses)

    def observer(
        self, threshold: float, velocity_error: float, speed: float, margin: float = 1.05
    ) -> CertifiedGain:
        """The largest K of `MomentumObserver` whose residual stays below a threshold if nothing pushes.

        Measured velocities v + delta(t), |delta| <= `velocity_error`, |v| <= `speed`, give
        |r| <= 2 K lambda_M |delta| + k (2 |v| |delta| + |delta|^2): a signal that jumps from -delta to delta
        attains the first term. k is the least of the certified k_C: C^T v is the same for all members.

        Parameters
        ----------
        threshold : r_0, the norm of the residual at which a contact is reported.
        velocity_error : bound of |delta|.
        speed : bound of |v|.
        margin : the bound over K, more than 1.

        Raises
        ------
        GainError : a number is not positive; no K satisfies it, since velocity products alone exceed r_0.

        Source: De Luca, Albu-Schaeffer, Haddadin and Hirzinger (2006); the bound is derived here.
        """
        margin, delta = _more_than("margin", margin, 1.0), _more_than("velocity_error", velocity_error)
        high, (k, product) = self._upper("lambda_max"), self._velocity_products()
        products = k * (2.0 * _more_than("speed", speed) * delta + delta**2)
        left = _more_than("threshold", threshold) - products
        if not left > 0.0:
            raise GainError(f"threshold: errors of velocity products alone reach {products:.4g}")
        words = "2 K lambda_max d + k_C (2 |v| d + d^2) <= r_0"
        uses = {"lambda_max(H)": high, product: k}
        return self._gain("K", left / (2.0 * high * delta) / margin, "1/s", words, uses)

    def adaptation(
        self, divergence: float, error: float, start: float = 0.0, margin: float = 1.05
    ) -> CertifiedGain:
        """The rate gamma of natural adaptation, or a constant gain, with which |s| never exceeds an error.

        V = s^T H s / 2 + d(pi || pihat) / gamma does not grow, so lambda_m |s|^2 / 2 <= V(0). For a constant
        gain gamma 1 the divergence is |pihat_0 - pi|^2 / 2. The bound does not depend on K_D.

        Parameters
        ----------
        divergence : d(pi || pihat_0), a bound of what the first estimates are off.
        error : e, which |s| shall not exceed.
        start : e_0, a bound of |s| at the start.
        margin : gamma over the bound, more than 1.

        Raises
        ------
        GainError : a number is not positive, or lambda_max e_0^2 >= lambda_min e^2.

        Source: Slotine and Li (1987); [LKP]; the bound is derived here.
        """
        margin, e = _more_than("margin", margin, 1.0), _more_than("error", error)
        low, high, first = self._lower("lambda_min"), self._upper("lambda_max"), as_number("start", start)
        if not first >= 0.0:
            raise GainError(f"start must not be negative: {first:g}")
        room = low * e**2 - high * first**2
        if not room > 0.0:
            raise GainError(f"start: |s| = {first:g} may grow to {first * (high / low) ** 0.5:.4g} by itself")
        gamma = margin * 2.0 * _more_than("divergence", divergence) / room
        words = "gamma >= 2 d / (lambda_min e^2 - lambda_max e_0^2)"
        uses = {"lambda_min(H)": low, "lambda_max(H)": high}
        return self._gain("gamma", gamma, "1/J, or of P", words, uses)

    def _upper(self, name: str) -> float:
        """The proved upper end of a constant; `GainError` if it is infinite."""
        end = self._interval(name).upper
        if not end < inf:
            raise GainError(f"{name} has no bound within these limits: give limits to joints that slide")
        return float(end)

    def _lower(self, name: str) -> float:
        """The proved lower end of a constant; `GainError` if it is not positive."""
        end = self._interval(name).lower
        if not end > 0.0:
            raise GainError(f"{name} is not proved to be positive: certify it with more seconds")
        return float(end)

    def _interval(self, name: str) -> Interval:
        if name in self.constants.reasons:
            raise GainError(f"{name}: {self.constants.reasons[name]}")
        if name not in self.constants.intervals:
            raise GainError(
                f"{name} is not among the constants: certified.constants(robot, only=[{name!r}, ...])"
            )
        return self.constants[name]

    def _velocity_products(self) -> tuple[float, str]:
        """The least proved k_C, and its name."""
        names = [name for name in self.constants.intervals if name.startswith("k_C:")]
        least = min(names, key=lambda name: self.constants[name].upper, default="k_C:christoffel")
        return self._upper(least), least

    def _gain(
        self, name: str, value: float, unit: str, condition: str, uses: dict[str, float]
    ) -> CertifiedGain:
        if not 0.0 < value < inf:
            raise GainError(f"{name} would be {value:g}: give wishes of another size")
        ends = [*self.constants.lower.values(), *self.constants.upper.values()]
        limited = any(np.isfinite(end).any() for end in ends)
        where = "every posture within the limits of joints" if limited else "every posture"
        return CertifiedGain(name, float(value), unit, condition, uses, where)


def gains_from(constants: Constants) -> CertifiedGains:
    """Gains of control laws with proofs, from a robot's certified constants.

    Parameters
    ----------
    constants : what `certified.constants` returned. Each gain says which of them it needs.

    Examples
    --------
    >>> from connections import certified, control
    >>> from connections import multibody as mb
    >>> arm = certified.constants(mb.example("arm"), only=["k_g"], rtol=0.2)
    >>> gain = control.gains_from(arm).regulator()
    >>> gain.name, gain.value > 58.9
    ('K_P', True)

    Source: Kelly, Santibanez and Loria (2005) for the use of such constants; docs/gains.md.
    """
    require_type("constants", constants, Constants, "write gains_from(certified.constants(robot))")
    return CertifiedGains(constants)


def _more_than(name: str, value: Any, least: float = 0.0) -> float:
    """The number, which must be finite and more than `least`."""
    number = as_number(name, value)
    if not number > least:
        words = "positive" if least == 0.0 else f"more than {least:g}"
        raise GainError(f"{name} must be {words}: {number:g}")
    return number
