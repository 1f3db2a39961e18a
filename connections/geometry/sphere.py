"""The unit sphere in R^(n+1): an orthonormal frame, and its geodesics in closed form.

The sphere is conformal to the flat space of the stereographic coordinates w, X_i = (1 / phi) d/dw_i with
phi = 2 / (1 + |w|^2), so [X_i, X_j] = w_i X_j - w_j X_i. No frame of an even sphere is regular
everywhere; this one is singular at one point, the pole, and orthonormal at all others. With d = X e, t = |e|,

    exp_q(e) = cos(t) q + sin(t)/t d,
    D exp_q(e) = 1 along d, and sin(t)/t across it, after parallel transport,
    Pi z = z - (sin(t)/t q + (1 - cos t)/t^2 d) (d . z),

which are computed in R^(n+1), where the pole is a point like any other.
Source: M. P. do Carmo, Riemannian Geometry (1992), chapter 5, section 2, example 2.3.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike
from connections.checks import FrameError, PointError, as_array, raise_at, require_finite, require_type
from connections.geometry.closed_forms import ClosedFormMetric, norm_of
from connections.geometry.coordinate_frame import MOST_PERIODS
from connections.geometry.frames import FrameField
from connections.geometry.numerics.scales import POINT_TOLERANCE
from connections.geometry.rigid.rotations import turn_coefficients

AT_POLE = 1e-6  # distance of a point from the pole at which the frame is singular
_SMALL = 1e-4  # squared angle below which series are used


@dataclass(frozen=True)
class SphereFrame(FrameField):
    """Orthonormal frame of the unit sphere in R^(n+1), q = unit vector; regular away from one point.

    Parameters
    ----------
    pole : that point, (n + 1,), of norm one; the default is (0, 0, -1).

    Raises
    ------
    PointError : the pole is not of norm one. ShapeError, NonFiniteError.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> sphere = cn.SphereFrame()
    >>> sphere.matrix([0.0, 0.0, 1.0]).round(3)  # two unit vectors, across q
    array([[1., 0.],
           [0., 1.],
           [0., 0.]])
    >>> round_metric = cn.ConstantMetric(sphere, np.eye(2))
    >>> nabla = cn.LeviCivita(round_metric)
    >>> q, v = cn.geodesic(nabla, [0.0, 0.0, 1.0], [np.pi / 2, 0.0], [0.0, 1.0])
    >>> q[-1].round(6) + 0.0  # a quarter of a great circle
    array([1., 0., 0.])
    """

    pole: tuple[float, ...] = (0.0, 0.0, -1.0)
    _first: np.ndarray = field(init=False, repr=False, compare=False)
    _rest: np.ndarray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        pole = np.asarray(as_array("pole", self.pole, (None,)), dtype=float)
        require_finite("pole", pole)
        if pole.ndim != 1 or len(pole) < 2 or not abs(np.linalg.norm(pole) - 1.0) <= POINT_TOLERANCE:
            raise PointError(
                f"pole: expected a point of the sphere, n + 1 numbers of norm 1, got {pole.tolist()}"
            )
        pole = pole / np.linalg.norm(pole)
        object.__setattr__(self, "pole", tuple((pole + 0.0).tolist()))
        place = int(np.argmax(np.abs(pole)))
        # the reflection that takes the pole to a basis vector takes the others to the rest of a basis
        away = pole + np.copysign(1.0, pole[place]) * np.eye(len(pole))[place]
        reflection = np.eye(len(pole)) - 2.0 * np.outer(away, away) / (away @ away)
        object.__setattr__(self, "_first", -pole)
        object.__setattr__(self, "_rest", np.delete(reflection, place, axis=1))

    @property
    def dim(self) -> int:  # type: ignore[override]
        """n, one less than the length of the pole."""
        return len(self.pole) - 1

    @property
    def ambient_dim(self) -> int:  # type: ignore[override]
        """n + 1, the length of the pole."""
        return len(self.pole)

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """The reflection that takes the pole to q, on the vectors orthogonal to the pole, (n + 1, n)."""
        return jnp.asarray(self._rest) - jnp.outer(q + self._first, self._flat_at(q))

    def dual_at(self, q: jax.Array) -> jax.Array:
        """The transpose, (n, n + 1)."""
        return self.matrix_at(q).T

    def structure_functions_at(self, q: jax.Array) -> jax.Array:
        """s[k, i, j] = w_i delta_kj - w_j delta_ki."""
        return conformal_brackets(self._flat_at(q), 1.0)

    def project_at(self, q: jax.Array) -> jax.Array:
        """q / |q|."""
        norm: jax.Array = jnp.linalg.norm(q)
        return q / norm

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether q is on the sphere, and not the pole."""
        regular: jax.Array = jnp.linalg.norm(q + self._first) > AT_POLE
        return self.near_at(q) & regular

    def explain(self, q: ArrayLike) -> None:
        """Raise `PointError` off the sphere, `FrameError` at the pole."""
        require_finite("q", q)
        if not np.linalg.norm(self.require_near("q", q) + self._first) > AT_POLE:
            advice = "choose another pole, by pole= of cn.SphereFrame or of spaces.sphere"
            raise_at(FrameError, f"the frame of the sphere is singular at its pole: {advice},", q)

    def _flat_at(self, q: jax.Array) -> jax.Array:
        """Stereographic coordinates w, (n,)."""
        away = q + self._first  # |q - pole|^2 = 2 (1 - q . pole), without cancellation next to the pole
        flat: jax.Array = 2.0 * (q @ self._rest) / (away @ away)
        return flat


@dataclass(frozen=True)
class RoundMetric(ClosedFormMetric):
    """The metric of the unit sphere, <<v, w>> = v . w, for which the frame is orthonormal.

    Parameters
    ----------
    frame : of the sphere.
    """

    frame: SphereFrame

    def __post_init__(self) -> None:
        require_type("frame", self.frame, SphereFrame)

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """1, (n, n)."""
        return jnp.eye(self.frame.dim)

    @property
    def curvatures(self) -> tuple[float, float]:
        """1; of a circle 0."""
        return (1.0, 1.0) if self.frame.dim > 1 else (0.0, 0.0)

    @property
    def injectivity_radius(self) -> float:
        """Half a turn."""
        return float(np.pi)

    def exponential_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """The point (n + 1,) of a great circle; NaN after so many turns that float64 does not tell it."""
        told = norm_of(v) <= 2.0 * np.pi * MOST_PERIODS
        return jnp.where(told, exponential_on_sphere(self.frame, q, v)[0], jnp.nan)

    def logarithm_at(self, p: jax.Array, q: jax.Array) -> jax.Array:
        """The velocity (n,) at p of the great circle to q; NaN for opposite points."""
        return logarithm_on_sphere(self.frame, p, q)

    def distance_at(self, p: jax.Array, q: jax.Array) -> jax.Array:
        """The angle 2 atan(|q - p| / |q + p|) between the points (n + 1,), without a frame."""
        return 2.0 * jnp.arctan2(norm_of(q - p), norm_of(q + p))

    def reached_at(self, q: jax.Array) -> jax.Array:
        """Whether q is on the sphere; it may be the pole."""
        return self.frame.near_at(q)

    def explain_end(self, q: ArrayLike) -> None:
        """Raise `PointError` off the sphere."""
        require_finite("q", q)
        self.frame.require_near("q", q)


def exponential_on_sphere(frame: SphereFrame, q: jax.Array, e: jax.Array) -> tuple[jax.Array, jax.Array]:
    """exp_q(e), (n + 1,), and D exp_q(e), (n, n), from the frame at q to the frame there.

    Parameters
    ----------
    frame : of the components. q : (n + 1,) point. e : (n,) components.
    """
    X, (sinc, cosine, slope, _) = frame.matrix_at(q), _functions_of(e @ e)
    d = X @ e
    p = frame.project_at(cosine * q + sinc * d)
    moved = sinc * X + jnp.outer(slope * d - sinc * q, e)
    return p, frame.dual_at(p) @ moved


def logarithm_on_sphere(frame: SphereFrame, q: jax.Array, p: jax.Array) -> jax.Array:
    """e (n,) with exp_q(e) = p, at most half a turn; NaN for opposite points.

    Parameters
    ----------
    frame, q : as for `exponential_on_sphere`. p : (n + 1,) point.
    """
    along = q @ p
    across = frame.dual_at(q) @ jnp.where(along < 0.0, p + q, p - q)  # no digit is lost next to q and -q
    square = across @ across
    small = square < _SMALL
    sine = jnp.sqrt(jnp.where(small, 1.0, square))
    series = 1.0 + square / 6.0 + 3.0 * square**2 / 40.0 + 5.0 * square**3 / 112.0  # of asin(s) / s
    factor = jnp.where(small, series, jnp.arctan2(sine, along) / sine)
    far = small & (along < 0.0)
    # Elsewhere of 1, because what is not chosen has a derivative, too, and NaN times 0 is NaN.
    length = jnp.sqrt(jnp.where(far & (square > 0.0), square, 1.0))
    opposite = jnp.where(square > 0.0, jnp.arctan2(length, along) / length, jnp.nan)
    e: jax.Array = jnp.where(far, opposite, factor) * across
    return e


def transport_on_sphere(frame: SphereFrame, q: jax.Array, e: jax.Array) -> jax.Array:
    """Parallel transport along s -> exp_q(s e) by the round metric's connection, (n, n).

    Parameters
    ----------
    frame, q, e : as for `exponential_on_sphere`.
    """
    X, (sinc, cosine, _, turn) = frame.matrix_at(q), _functions_of(e @ e)
    d = X @ e
    p = frame.project_at(cosine * q + sinc * d)
    return frame.dual_at(p) @ (X - jnp.outer(sinc * q + turn * d, e))


def conformal_brackets(w: jax.Array, sign: float) -> jax.Array:
    """sign (w_i delta_kj - w_j delta_ki), index order [k, i, j]."""
    s = jnp.einsum("i,kj->kij", w, jnp.eye(w.shape[0]))
    return sign * (s - jnp.swapaxes(s, 1, 2))


# --- private -----------------------------------------------------------------------------------------------


def _functions_of(square: jax.Array) -> tuple[jax.Array, ...]:
    """sin(t)/t, cos t, (cos(t) - sin(t)/t)/t^2 and (1 - cos t)/t^2 of t^2; smooth at zero."""
    sinc, turn, third = turn_coefficients(square)
    return sinc, 1.0 - turn * square, third - turn, turn
