"""Residuals of black boxes at one sample, each beside that of a version that is wrong on purpose.

H is differentiated along the frame by differences. Everything about motions is compared with what H implies:
its bias by Hamel's equations, its rate, its Christoffel symbols. Scales and noise are those of
`connections.coriolis.audit.measurements`: a row of the equations has the force of its own terms as its scale.

Source: [W] eqs. (3), (6), (8).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from connections.coriolis.audit.differences import (
    EPS,
    NOISE_POINTS,
    NOISE_SPACING,
    REACHES,
    Differences,
    FrameDifferences,
    function_noise,
)
from connections.coriolis.audit.measurements import MARGIN, nonlinearity, residuals, terms_of
from connections.geometry import FrameField
from connections.referee.black_boxes import BlackBoxes
from connections.referee.layouts import LayoutFrame

Array = NDArray[np.float64]

EPS_OF = {"float64": EPS, "float32": float(np.finfo(np.float32).eps)}
#: Changes of H by so many round-offs are none: libraries in single precision add up several.
_ROUGH = {"float64": 1.0, "float32": 16.0}
#: Tolerances of values, and of what is compared with differences, relative to the scale.
TOLERANCES = {"float64": (1e-9, 1e-6), "float32": (1e-3, 1e-2)}
_FREE_FALL = 10.0  # m/s^2; for round-off only
_PLANTED = 0.1  # the fraction of its scale by which a control differs, if no natural mistake is visible


class LayoutDifferences(Differences):
    """Differences along the frame of a layout.

    Parameters
    ----------
    frame : LayoutFrame
    eps : as for `Differences`.
    """

    def __init__(self, frame: LayoutFrame, eps: float) -> None:
        super().__init__(frame.dim, eps)
        self._frame = frame

    def points(self, q: Array, steps: Array) -> Array:
        """Points of the library at steps in its components."""
        return self._frame.points(q, steps)


def differences_of(frame: FrameField | LayoutFrame, precision: str) -> Differences:
    """Differences along either kind of frame."""
    eps = _ROUGH[precision] * EPS_OF[precision]
    return LayoutDifferences(frame, eps) if isinstance(frame, LayoutFrame) else FrameDifferences(frame, eps)


@dataclass(frozen=True, eq=False)
class ReferenceValues:
    """The right values of the functions at a sample, in the frame that is judged.

    Parameters
    ----------
    mass_matrix, bias, gravity : (n, n), (n,), (n,).
    coriolis : (n, n) one of the right ones, for scales.
    """

    mass_matrix: Array
    bias: Array
    gravity: Array
    coriolis: Array


@dataclass(frozen=True, eq=False)
class LargestError:
    """The component with the largest error at a sample; all numbers are relative to its scale."""

    residual: float
    tolerance: float
    control: float
    noise: float
    verdict: str

    @property
    def ratio(self) -> float:
        """Residual over tolerance."""
        return self.residual / self.tolerance if self.tolerance > 0.0 else np.inf * (self.residual > 0.0)


def judged(residual: Any, scale: Any, noise: Any, control: Any, tolerance: float) -> LargestError:
    """The worst component and its verdict.

    Parameters
    ----------
    residual, scale, noise, control : arrays that broadcast; control is the residual of a wrong version. A
        scale of zero says that there is nothing but round-off.
    tolerance : relative. A residual above it is an error if it is more than MARGIN times the noise, too.
    """
    residual, scale, noise, control = (
        np.abs(a).ravel() for a in np.broadcast_arrays(residual, scale, noise, control)
    )
    allowed = np.maximum(tolerance * scale, MARGIN * noise)
    tiny = np.finfo(np.float64).tiny
    ratios, seen = residual / np.maximum(allowed, tiny), control / np.maximum(allowed, tiny)
    ratios, seen = np.nan_to_num(ratios, nan=np.inf), np.nan_to_num(seen, nan=0.0)
    place, witness = int(np.argmax(ratios)), int(np.argmax(seen))
    unit = np.where(scale > 0.0, scale, np.where(allowed > 0.0, allowed / tolerance, 1.0))
    moving = scale > 0.0
    if ratios[place] > 1.0:
        verdict = "fails"
    elif np.any(moving & (residual > tolerance * scale)):
        verdict = "unknown"
    elif seen[witness] <= 1.0:
        verdict = "unknown" if np.any(moving & (control > tolerance * scale)) else "empty"
    else:
        verdict = "holds"
    return LargestError(
        float(residual[place] / unit[place]),
        float(allowed[place] / unit[place]),
        float(control[witness] / unit[witness]),
        float(noise[place] / unit[place]),
        verdict,
    )


#: Shapes of the derivatives that can be given, in powers of n.
DERIVATIVES = {"mass_matrix": 3, "bias_q": 2, "bias_v": 2, "gravity_q": 2}


class RefereeSample:
    """Everything measured at one sample.

    Parameters
    ----------
    boxes : the functions.
    frame : LayoutFrame or FrameField.
    differences : along it.
    structure : (n, n, n) its brackets at q.
    q, v : (nq,), (n,).
    seed : of the velocities at which linearity is tried.
    precision : a key of `TOLERANCES`.
    tolerance : for all rows; None for those of the precision.
    reference : what is right, or None.
    """

    def __init__(
        self,
        boxes: BlackBoxes,
        frame: FrameField | LayoutFrame,
        differences: Differences,
        structure: Array,
        q: Array,
        v: Array,
        seed: int,
        precision: str,
        tolerance: float | None,
        reference: ReferenceValues | None,
    ) -> None:
        self.boxes, self.frame, self.differences, self.structure = boxes, frame, differences, structure
        self.q, self.v, self.reference = q, v, reference
        self.rng, self.eps = np.random.default_rng(seed), EPS_OF[precision]
        self.double = precision == "float64"
        values, slopes = TOLERANCES[precision]
        self.values, self.slopes = (tolerance or values), (tolerance or slopes)
        self.round_off = 8.0 * len(v) * self.eps
        self.linear = True
        self.dynamics: LargestError | None = None
        self.notes: list[str] = []

    def rows(self) -> Iterator[tuple[str, LargestError]]:
        """(name, measurement) for what was given."""
        H = self.boxes.raw_mass_matrix(self.q)
        yield from self._matrix(H)
        if self.reference is not None:
            yield from self._same(self.reference, H)
        if not (np.diag(H) > 0.0).all():
            return  # nothing has a length then
        terms = terms_of(self.boxes, self.differences, self.q, self.v, self.structure, self.rng)
        at_once = bool((terms.reaches <= 2.0 * REACHES[0]).any())  # at the smallest step that there is
        if self.boxes.nearby_failures and (
            at_once or 2 * self.boxes.nearby_failures > self.boxes.nearby_calls
        ):
            self.notes.append(f"mass_matrix raised {self.boxes.nearby_error} near sample {self.boxes.sample}")
            return  # there are no differences
        momenta = np.abs(H) @ terms.speeds
        turning = float(terms.forces @ terms.speeds / (momenta @ terms.speeds))
        self.rate = max(turning, float(np.max(terms.speeds)))
        self.floor = self.round_off * (terms.forces + momenta * self.rate)
        self.forces = np.where(terms.forces > MARGIN * self.floor, terms.forces, 0.0)
        self.terms = replace(terms, forces=self.forces)
        if self.boxes.has("bias"):
            yield from self._bias()
        if self.boxes.has("coriolis"):
            yield from self._coriolis()
        if self.boxes.has("gravity"):
            yield from self._gravity()
        if self.boxes.has("derivatives"):
            yield from self._derivatives()
        if self.boxes.has("current"):
            yield "galilean", self._galilean()

    def _value(self, residual: Any, scale: Any, noise: Any, control: Any) -> LargestError:
        return judged(residual, scale, noise, control, self.values)

    def _slope(self, residual: Any, scale: Any, noise: Any, control: Any) -> LargestError:
        return judged(residual, scale, noise, control, self.slopes)

    def _unless_still(self, scale: Array) -> Array:
        """The scale; zero if no term of the equations is more than round-off."""
        return scale if self.forces.any() else 0.0 * scale

    # --- H ----------------------------------------------------------------------------------------

    def _matrix(self, H: Array) -> Iterator[tuple[str, LargestError]]:
        lengths = np.sqrt(np.maximum(np.abs(np.diag(H)), np.finfo(np.float64).tiny))
        areas = np.outer(lengths, lengths)
        upper = np.triu(np.ones_like(H), 1) if len(H) > 1 else np.ones_like(H)
        if len(H) > 1 and not np.tril(H, -1).any() and np.triu(H, 1).any():
            self.notes.append("mass_matrix: only the upper triangle is filled; add the lower one")
        control = H - H.T + _PLANTED * areas * upper
        yield "symmetric", self._value(H - H.T, areas, self.round_off * areas, control)
        scaled = 0.5 * (H + H.T) / areas
        np.fill_diagonal(scaled, np.sign(np.diag(H)))
        least = float(np.linalg.eigvalsh(scaled)[0])
        singular = least < self.round_off if self.double else least <= 0.0 and not H.any()
        residual = 1.0 if singular and least >= -self.values else max(-least, 0.0)
        yield "definite", self._value(residual, 1.0, 0.1 * self.round_off, _PLANTED)

    def _same(self, reference: ReferenceValues, H: Array) -> Iterator[tuple[str, LargestError]]:
        right, speeds = reference.mass_matrix, np.abs(self.v)
        lengths = np.sqrt(np.diag(right))
        areas = np.outer(lengths, lengths)
        yield (
            "same_mass_matrix",
            self._value(H - right, areas, self.round_off * areas, _PLANTED * right),
        )
        if self.boxes.has("bias"):
            pull, momenta = np.abs(reference.coriolis) @ speeds, np.abs(right) @ speeds
            forces = pull + momenta * float(pull @ speeds / (momenta @ speeds))
            floor = self.round_off * (forces + momenta * float(np.max(speeds)))
            wrong = self.boxes.bias(self.q, self.v) - reference.bias
            yield "same_bias", self._value(wrong, forces, floor, _PLANTED * reference.bias)
        if self.boxes.has("gravity"):
            found = self.boxes.gravity(self.q)
            pull = np.abs(reference.gravity)
            scale = lengths * float(np.max(pull / lengths))
            floor = self.round_off * (scale + _weight(lengths))
            yield "same_gravity", self._value(found - reference.gravity, scale, floor, _PLANTED * pull)

    # --- the bias ---------------------------------------------------------------------------------

    def _bias(self) -> Iterator[tuple[str, LargestError]]:
        terms, bias, q, v = self.terms, self.boxes.bias, self.q, self.v
        here = bias(q, v)
        scale = self._unless_still(np.maximum(self.forces, np.abs(here)))
        yield "quadratic", self._quadratic(here, scale)
        noise = terms.implied_noise + self.floor + self._bias_noise(here)
        wrong, reversed_sign = here - terms.implied_bias, here + terms.implied_bias
        yield "bias", self._slope(wrong, scale, noise, reversed_sign)

    def _bias_noise(self, here: Array) -> Array:
        """Noise of the bias along v, row by row."""
        factors = 1.0 + NOISE_SPACING * (np.arange(NOISE_POINTS) - NOISE_POINTS // 2)
        unit = np.maximum(np.maximum(self.forces, np.abs(here)), np.finfo(np.float64).tiny)
        values = np.stack([self.boxes.bias(self.q, factor * self.v) for factor in factors])
        noise: Array = function_noise(values / unit) * unit
        return noise

    def _quadratic(self, here: Array, scale: Array) -> LargestError:
        bias, q, v = self.boxes.bias, self.q, self.v
        w = self.rng.standard_normal(len(v)) * self.terms.speeds
        rest = bias(q, np.zeros_like(v))
        back, twice, other = bias(q, -v), bias(q, 2.0 * v), bias(q, w)
        plus, minus = bias(q, v + w), bias(q, v - w)
        wrong = np.stack([rest, back - here, twice - 4.0 * here, plus + minus - 2.0 * (here + other)])
        sizes = np.stack(
            [
                np.abs(rest),
                np.abs(back),
                np.abs(twice),
                np.abs(plus) + np.abs(minus) + 2.0 * np.abs(other),
            ]
        )
        sizes = sizes + (1.0 + float(np.max(np.abs(w) / self.terms.speeds)) ** 2) * scale
        sizes = self._unless_still(sizes)
        found = self._value(wrong, sizes, 10.0 * self.floor, wrong + _PLANTED * sizes)
        if found.verdict == "fails":
            still = self._value(rest, scale, self.floor, 0.0).verdict == "fails"
            even = self._value(back - here, scale, self.floor, 0.0).verdict != "fails"
            if still:
                self.notes.append("bias(q, 0) is not zero: is gravity in it? Give it as gravity=")
            elif not even:
                self.notes.append("bias(q, -v) is not bias(q, v): is damping in it?")
        return found

    # --- C ----------------------------------------------------------------------------------------

    def _coriolis(self) -> Iterator[tuple[str, LargestError]]:
        terms, C, v = self.terms, self.terms.C, self.v
        tried = nonlinearity(self.boxes, self.q, terms, self.rng, self.eps)
        wrong, sizes, doubt = (np.stack(part) for part in zip(*tried, strict=True))
        sizes, floor = self._unless_still(sizes), self.floor[:, None] / terms.speeds
        linear = self._value(wrong, sizes, doubt + floor, wrong + _PLANTED * sizes)
        self.linear = linear.verdict in ("holds", "empty")
        yield "linear", linear
        found = residuals(terms, self.round_off)
        noise = terms.C_noise @ np.abs(v) + self.floor
        scale = self._unless_still(np.maximum(self.forces, np.abs(C @ v)))
        implied = terms.implied_bias
        direct = (C @ v - implied, scale, noise + terms.implied_noise, C @ v + implied)
        self.dynamics = self._slope(*direct)
        if self.linear:
            wrong, sizes, doubt = found["same_geodesics"]
            through = self._slope(wrong, sizes, doubt, wrong + _PLANTED * sizes)
            self.dynamics = max(self.dynamics, through, key=lambda f: f.ratio)
        if self.boxes.has("bias"):
            given = self.boxes.bias(self.q, v)
            yield "product", self._value(C @ v - given, scale, noise, C @ v + given)
        else:
            yield "product", self.dynamics
        wrong, sizes, doubt = found["skew"]
        more = C + _PLANTED * np.triu(C)
        skew = self._slope(wrong, sizes, doubt, terms.H_dot - more - more.T)
        if self.linear:
            wrong, sizes, doubt = found["metric_compatible"]
            through = self._slope(wrong, sizes, doubt, wrong + _PLANTED * sizes)
            skew = through if through.ratio > max(skew.ratio, 1.0) else skew
        yield "skew", skew
        if self.linear:
            wrong, sizes, doubt = found["torsion_free"]
            turned = np.swapaxes(terms.Gamma, 0, 2)
            control = turned - np.swapaxes(turned, 1, 2) - terms.s_low
            yield "torsion_free", self._value(wrong, sizes, doubt, control)

    # --- gravity ----------------------------------------------------------------------------------

    def _gravity(self) -> Iterator[tuple[str, LargestError]]:
        slopes, noise = self._differences(self.boxes.gravity)
        g = self.boxes.gravity(self.q)
        pull = np.einsum("kij,k->ij", self.structure, g)
        wrong = slopes.T - slopes - pull
        lengths = self.terms.lengths
        areas = np.outer(lengths, lengths)
        sizes = np.abs(slopes) + np.abs(slopes.T) + np.einsum("kij,k->ij", np.abs(self.structure), np.abs(g))
        largest, floor = (
            float(np.max(sizes / areas)),
            self.round_off * float(np.max(_weight(lengths) / lengths)),
        )
        scale = areas * (largest if largest > MARGIN * floor else 0.0)
        noise = noise + noise.T + self.round_off * scale + floor * areas
        yield "gravity", self._slope(wrong, scale, noise, wrong + _PLANTED * np.triu(scale, 1))

    def _differences(self, function: Any) -> tuple[Array, Array]:
        """X_j f_i and its noise, (n, n), column j along field j, of a function of q to (n,)."""
        reaches = self.terms.reaches
        found = self.differences.derivatives(
            function, self.q, np.eye(len(self.v)), reaches, self.terms.lengths
        )
        return np.stack([each.value for each in found], axis=1), np.stack(
            [each.noise for each in found], axis=1
        )

    # --- derivatives ------------------------------------------------------------------------------

    def _derivatives(self) -> Iterator[tuple[str, LargestError]]:
        n, terms = len(self.v), self.terms
        shapes = {name: (n,) * power for name, power in DERIVATIVES.items()}
        given = self.boxes.derivatives(self.q, self.v, shapes)
        if "mass_matrix" in given:
            scale = np.swapaxes(terms.scales, 0, 1)
            scale = np.minimum(scale, np.swapaxes(scale, 1, 2))
            dH = given["mass_matrix"]
            noise = terms.dH_noise + self.round_off * scale
            yield "d_mass_matrix", self._slope(dH - terms.dH, scale, noise, dH + terms.dH)
        if "bias_v" in given:
            self._require("bias_v", "bias")
            yield "d_bias_v", self._by_velocity(given["bias_v"])
        for name, of in (("bias_q", "bias"), ("gravity_q", "gravity")):
            if name in given:
                self._require(name, of)
                yield f"d_{name}".replace("gravity_q", "gravity"), self._by_configuration(given[name], of)

    def _require(self, name: str, of: str) -> None:
        if not self.boxes.has(of):
            raise ValueError(f"derivatives: {name!r} is given, but not {of}, whose derivative it is")

    def _by_velocity(self, given: Array) -> LargestError:
        """The check of slopes by v against central differences, which are exact for a quadratic function."""
        speeds = self.terms.speeds
        steps = speeds * np.eye(len(speeds))
        sides = np.stack([[self.boxes.bias(self.q, self.v + k * step) for k in (1, -1)] for step in steps])
        slopes = (sides[:, 0] - sides[:, 1]).T / (2.0 * speeds)
        sizes = np.max(np.abs(sides), axis=1).T + self.forces[:, None]
        noise = (self.round_off * sizes + self.floor[:, None]) / speeds
        return self._value(given - slopes, sizes / speeds, noise, 0.5 * given - slopes)

    def _by_configuration(self, given: Array, of: str) -> LargestError:
        call = self.boxes.gravity if of == "gravity" else lambda q: self.boxes.bias(q, self.v)
        slopes, noise = self._differences(call)
        speeds, here, lengths = self.terms.speeds, np.abs(call(self.q)), self.terms.lengths
        unit = here if of == "gravity" else np.maximum(self.forces, here)
        sizes = np.max(np.abs(slopes) * speeds, axis=1) + self.rate * unit
        if of == "gravity":  # rows about vertical axes have none
            sizes = lengths * float(np.max(sizes / lengths))
        sizes = sizes[:, None]
        noise = noise + self.round_off * sizes / speeds
        return self._slope(given - slopes, sizes / speeds, noise, given + slopes)

    # --- currents ---------------------------------------------------------------------------------

    def _galilean(self) -> LargestError:
        frame, boxes, q, v = self.frame, self.boxes, self.q, self.v
        if not isinstance(frame, LayoutFrame) or not frame.rates:
            raise TypeError("current: give a layout of a base that moves: planar, floating or euler")
        ours = frame.to_ours(q)
        T, slopes = frame.coframe(ours), frame.coframe_slopes(ours)
        u = self.rng.standard_normal(2 if frame.rates == 3 else 3) * float(np.max(np.abs(v)))
        nu = np.asarray(np.linalg.solve(T, v), dtype=np.float64)
        flow = frame.translation(ours, u)
        relative = nu - flow
        turned = np.einsum("aij,a,j->i", slopes, relative, relative) - np.einsum("aij,a,j->i", slopes, nu, nu)
        rate = turned - T @ frame.translation_rate(ours, nu, u)
        H, zero = boxes.mass_matrix(q), np.zeros_like(u)
        found, still = boxes.current(q, v, u), boxes.current(q, T @ relative, zero)
        ignored = found - boxes.current(q, v, zero)  # components in the world's axes have no rate of the flow
        scale = np.abs(found) + np.abs(still) + np.abs(H) @ np.abs(rate) + self.forces
        noise = self.round_off * scale
        control = np.maximum(np.abs(found - still), np.abs(ignored))
        return self._value(found - still - H @ rate, scale, noise, control)


def _weight(lengths: Array) -> Array:
    """The largest gravity (n,) of each component, as if the largest length were the root of a mass."""
    return np.asarray(lengths * float(np.max(lengths)) * _FREE_FALL)
