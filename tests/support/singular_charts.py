"""Charts in which a metric grows without bound or vanishes, with their geodesics in a regular chart.

A `SingularChart` has H as a user would write it, and a map to coordinates x that are regular where H is not.
There, the geodesics are known: straight lines of Euclidean space, great circles x(t) = x0 cos(s t) +
u sin(s t) / s, one-parameter subgroups R(t) = R0 exp(t omega), or SciPy's solutions of Hamilton's equations
on a surface of revolution A(eta) d eta^2 + B(eta) d phi^2. Nothing here calls the package, but for JAX's
derivative of the map at the initial point.

Of a point x, two charts may know less than all: the squares of coordinates do not have their signs. `seen` is
what a chart's coordinates tell of x; it is what tests compare.

Sources: [G] H. Goldstein, Classical Mechanics (1980), 4-4 for Euler's angles; [M] P. Moon, D. E. Spencer,
Field Theory Handbook (1971) for confocal, elliptic and parabolic coordinates; [L] L. D. Landau, E. M.
Lifshitz, The Classical Theory of Fields (1975), sections 100 and 104 for the spaces of Schwarzschild and
Kerr.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp
from scipy.linalg import expm

Points = Callable[[Any], Any]


@dataclass(frozen=True)
class Geodesic:
    """Initial values in a chart: a point (n,) and the rates of its coordinates (n,)."""

    q0: np.ndarray
    v0: np.ndarray


@dataclass(frozen=True)
class SingularChart:
    """A chart, and the regular one.

    Parameters
    ----------
    matrix : q (n,) -> H (n, n), in JAX.
    regular : q (n,) -> x, regular coordinates or ambient ones, in JAX.
    chart : x -> q, one of the points with these regular coordinates.
    flow : (x0, x', times (T,)) -> x (T, ...), the geodesic in regular coordinates.
    begin, toward, time : x and x' of the geodesic that is at the singularity at this time, or near it.
    across : added to x', it makes the geodesic miss the singularity; or miss -> x'. None where all that go
        this way meet it, because it is a hypersurface.
    seen : x (T, ...) -> what the chart's coordinates tell of it.
    metric : x -> the metric in regular coordinates.
    """

    matrix: Points
    regular: Points
    chart: Points
    flow: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    begin: Any
    toward: Any
    time: float
    across: Any = None
    seen: Points = lambda x: x  # noqa: E731
    metric: Points = lambda x: np.eye(np.size(x))  # noqa: E731

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return len(np.atleast_1d(self.chart(np.asarray(self.begin, dtype=float))))

    def geodesic(self, miss: float = 0.0) -> Geodesic:
        """From `begin` through the singularity, or beside it.

        Parameters
        ----------
        miss : about how near it passes.
        """
        x, direction = np.asarray(self.begin, dtype=float), np.asarray(self.toward, dtype=float)
        if miss:
            aimed = self.across(miss) if callable(self.across) else direction + miss * np.asarray(self.across)
            direction = np.asarray(aimed, dtype=float)
        q0 = np.asarray(self.chart(x), dtype=float)
        v0 = np.linalg.lstsq(self.jacobian(q0), direction.ravel(), rcond=None)[0]
        return Geodesic(q0, v0)

    def jacobian(self, q: Any) -> np.ndarray:
        """Of the map to regular coordinates, (size of x, n)."""
        return np.asarray(jax.jacfwd(self.regular)(jnp.asarray(q))).reshape(-1, len(q))

    def exact(self, geodesic: Geodesic, times: Any) -> np.ndarray:
        """What the chart tells of the geodesic at times (T,), (T, ...)."""
        q0, v0 = jnp.asarray(geodesic.q0), jnp.asarray(geodesic.v0)
        x, x_dot = jax.jvp(self.regular, (q0,), (v0,))
        with np.errstate(invalid="ignore"):
            return self.seen(self.flow(np.asarray(x), np.asarray(x_dot), np.asarray(times, dtype=float)))

    def found(self, q: Any) -> np.ndarray:
        """What the chart tells of points q (..., n), (..., ...); NaN outside of the chart."""
        q = np.asarray(q, dtype=float)
        rows = jax.vmap(self.regular)(jnp.asarray(q.reshape(-1, q.shape[-1])))
        x = np.asarray(rows)
        with np.errstate(invalid="ignore"):
            seen = self.seen(x)
        return seen.reshape(*q.shape[:-1], *seen.shape[1:])


# --- geodesics in regular coordinates ----------------------------------------------------------------------


def straight(x, x_dot, times):
    """In Euclidean space."""
    return x + np.multiply.outer(times, x_dot)


def great_circle(x, x_dot, times):
    """On the unit sphere."""
    speed = np.linalg.norm(x_dot)
    return np.multiply.outer(np.cos(speed * times), x) + np.multiply.outer(
        np.sin(speed * times), x_dot / speed
    )


def one_parameter_subgroup(R, R_dot, times):
    """Of rotations, R (3, 3)."""
    return np.stack([R @ expm(t * (R.T @ R_dot)) for t in times])


def of_revolution(A, A_slope, B, B_slope):
    """On a surface A(eta) d eta^2 + B(eta) d phi^2, by Hamilton's equations, which keep B phi'."""

    def flow(x, x_dot, times):
        L = B(x[0]) * x_dot[1]

        def rate(t, y):
            eta, p = y[0], y[2]
            slope = 0.5 * (p**2 * A_slope(eta) / A(eta) ** 2 + L**2 * B_slope(eta) / B(eta) ** 2)
            return [p / A(eta), L / B(eta), slope]

        start, sign = [*x, A(x[0]) * x_dot[0]], np.sign(times[-1] - times[0])
        span = (0.0, times[-1] + sign * 1e-9)
        return solve_ivp(rate, span, start, "DOP853", times, rtol=1e-12, atol=1e-13).y[:2].T

    return flow


# --- charts ------------------------------------------------------------------------------------------------


def diagonal(*entries):
    """A diagonal matrix in JAX."""
    return jnp.diag(jnp.stack([jnp.asarray(entry, dtype=float) for entry in entries]))


def polar(x):
    """(r, phi) of a point of the plane."""
    return np.array([np.hypot(x[0], x[1]), np.arctan2(x[1], x[0])])


def on_sphere(q):
    """(theta, phi) -> R^3."""
    return jnp.stack([jnp.sin(q[0]) * jnp.cos(q[1]), jnp.sin(q[0]) * jnp.sin(q[1]), jnp.cos(q[0])])


def in_plane(r, phi):
    """(r, phi) -> R^2."""
    return r * jnp.stack([jnp.cos(phi), jnp.sin(phi)])


def turned(axis, angle):
    """A rotation about the first (0) or third (2) axis."""
    c, s, o, e = jnp.cos(angle), jnp.sin(angle), 0.0 * angle, 1.0 + 0.0 * angle
    rows = {0: [[e, o, o], [o, c, -s], [o, s, c]], 2: [[c, -s, o], [s, c, o], [o, o, e]]}[axis]
    return jnp.stack([jnp.stack(row) for row in rows])


def from_euler(q):
    """Of angles z-x-z [G]."""
    return turned(2, q[0]) @ turned(0, q[1]) @ turned(2, q[2])


def to_euler(R):
    return np.array([np.arctan2(R[0, 2], -R[1, 2]), np.arccos(R[2, 2]), np.arctan2(R[2, 0], R[2, 1])])


def _rotations():
    """From 1.2 rad before gimbal lock (R33 = 1, at time 1), about an axis with a part along z."""
    omega = np.array([[0.0, -0.5, 0.6], [0.5, 0.0, -1.0], [-0.6, 1.0, 0.0]])  # hat of (1, 0.6, 0.5)
    R = np.asarray(turned(2, jnp.asarray(0.4))) @ expm(-omega)
    tilt = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    return R, R @ omega, R @ tilt


_R0, _R_TOWARD, _R_ACROSS = _rotations()
_A, _B = 2.0, 1.0  # confocal conics x^2 / (A - u) + y^2 / (B - u) = 1, whose foci are at x = 1 and -1
_MASS, _SPIN = 1.0, 0.8
_ROOT = np.sqrt(_MASS**2 - _SPIN**2)


def _confocal(x):
    """(u, w) with u < B < w < A: the roots of (A - s)(B - s) = x^2 (B - s) + y^2 (A - s)."""
    sum_, product = _A + _B - x @ x, _A * _B - _B * x[0] ** 2 - _A * x[1] ** 2
    root = np.sqrt(0.25 * sum_**2 - product)
    return np.array([0.5 * sum_ - root, 0.5 * sum_ + root])


def _in_confocal(q):
    u, w = q
    return jnp.stack([jnp.sqrt((_A - u) * (_A - w) / (_A - _B)), jnp.sqrt((_B - u) * (w - _B) / (_A - _B))])


def _elliptic(x):
    z = np.arccosh(complex(x[0], x[1]))
    return np.array([z.real, z.imag])


def _parabolic(x):
    z = np.sqrt(2.0 * complex(x[0], x[1]))
    return np.array([z.real, z.imag])


def _throat(eta):
    """r in the space of Schwarzschild, mass 1: dr / sqrt(1 - 2 / r) = 4 cosh(eta)^2 d eta."""
    return 2.0 * np.cosh(eta) ** 2


def _throat_stretch(eta):
    return 16.0 * np.cosh(eta) ** 4


def _throat_girth(eta):
    return _throat(eta) ** 2


def _kerr(eta):
    """r on the equator of Kerr's space: r dr / sqrt(r^2 - 2 M r + a^2) = r d eta."""
    return _MASS + _ROOT * np.cosh(eta)


def _kerr_girth(r):
    """H of phi on the equator [L]."""
    return r**2 + _SPIN**2 + 2.0 * _MASS * _SPIN**2 / r


def _radius_and_direction(radius):
    def seen(x):
        return np.stack([radius(x[:, 0]), np.cos(x[:, 1]), np.sin(x[:, 1])], axis=1)

    return seen


def _around(start, A, B, nearest):
    """miss -> (eta', phi'), of unit speed, of a geodesic whose least B is that of eta = nearest(miss)."""

    def direction(miss):
        least = B(nearest(miss))  # the square of B phi'
        return [-np.sqrt((1.0 - least / B(start)) / A(start)), np.sqrt(least) / B(start)]

    return direction


_SCHWARZSCHILD_START = np.arccosh(np.sqrt(3.0))  # r = 6
_KERR_START = np.arccosh((4.0 - _MASS) / _ROOT)  # r = 4

CHARTS = {
    # H grows without bound at both ends of the interval: q = sin(x)^2.
    "interval": SingularChart(
        lambda q: diagonal(1.0 / (q[0] * (1.0 - q[0]))),
        lambda q: 2.0 * jnp.arcsin(jnp.sqrt(q)),
        lambda x: np.sin(0.5 * x) ** 2,
        straight, begin=[0.5 * np.pi], toward=[2.0], time=0.25 * np.pi,
        seen=lambda x: np.sin(0.5 * x) ** 2,
    ),
    # Squares of Cartesian coordinates: H = 1 / q.
    "squares": SingularChart(
        lambda q: diagonal(*(1.0 / q)), lambda q: 2.0 * jnp.sqrt(q), lambda x: 0.25 * x**2,
        straight, begin=[1.4, 1.4], toward=[-1.4, 0.4], time=1.0, seen=lambda x: 0.25 * x**2,
    ),
    # Cubes of Cartesian coordinates: H = |q|^(-4/3).
    "cubes": SingularChart(
        lambda q: diagonal(jnp.abs(q[0]) ** (-4.0 / 3.0), 1.0),
        lambda q: jnp.stack([3.0 * jnp.sign(q[0]) * jnp.abs(q[0]) ** (1.0 / 3.0), q[1]]),
        lambda x: np.array([(x[0] / 3.0) ** 3, x[1]]),
        straight, begin=[2.0, 0.0], toward=[-2.0, 1.0], time=1.0,
        seen=lambda x: np.stack([(x[:, 0] / 3.0) ** 3, x[:, 1]], axis=1),
    ),
    # H vanishes at q = 0, where the chart ends: x = q^2 / 2. Only round-off of x is below zero.
    "vanishing": SingularChart(
        lambda q: diagonal(q[0] ** 2), lambda q: 0.5 * q**2, lambda x: np.sqrt(2.0 * x),
        straight, begin=[1.0], toward=[-1.0], time=1.0,
        seen=lambda x: np.where(x > -1e-9, x, np.nan),
    ),
    # H grows without bound where no geodesic arrives: q = exp(x), whose digits are asked for.
    "logarithmic": SingularChart(
        lambda q: diagonal(1.0 / q[0] ** 2), jnp.log, np.exp,
        straight, begin=[0.0], toward=[-2.0], time=6.0,
    ),
    "polar": SingularChart(
        lambda q: diagonal(1.0, q[0] ** 2), lambda q: in_plane(*q), polar,
        straight, begin=[1.0, 0.5], toward=[-1.0, -0.5], time=1.0, across=[-0.5, 1.0],
    ),
    # H of r^2 grows, H of phi vanishes.
    "squared polar": SingularChart(
        lambda q: diagonal(0.25 / q[0], q[0]), lambda q: in_plane(jnp.sqrt(q[0]), q[1]),
        lambda x: polar(x) ** np.array([2.0, 1.0]),
        straight, begin=[1.0, 0.5], toward=[-1.0, -0.5], time=1.0, across=[-0.5, 1.0],
    ),
    "logarithmic polar": SingularChart(
        lambda q: jnp.exp(2.0 * q[0]) * jnp.eye(2), lambda q: in_plane(jnp.exp(q[0]), q[1]),
        lambda x: np.array([np.log(polar(x)[0]), polar(x)[1]]),
        straight, begin=[1.0, 0.5], toward=[-1.0, -0.5], time=1.0, across=[-0.5, 1.0],
    ),
    # A cone of angle pi: unrolled, it is a half plane.
    "cone": SingularChart(
        lambda q: diagonal(1.0, 0.25 * q[0] ** 2), lambda q: in_plane(q[0], 0.5 * q[1]),
        lambda x: polar(x) * np.array([1.0, 2.0]),
        straight, begin=[1.0, 0.5], toward=[-1.0, -0.5], time=1.0, across=[-0.5, 1.0],
    ),
    "spherical": SingularChart(
        lambda q: diagonal(1.0, q[0] ** 2, (q[0] * jnp.sin(q[1])) ** 2),
        lambda q: q[0] * on_sphere(q[1:]),
        lambda x: np.array([np.linalg.norm(x), np.arccos(x[2] / np.linalg.norm(x)), np.arctan2(x[1], x[0])]),
        straight, begin=[1.0, 0.5, 1.0], toward=[-1.0, -0.5, 0.3], time=1.0, across=[-0.5, 1.0, 0.0],
    ),
    "sphere": SingularChart(
        lambda q: diagonal(1.0, jnp.sin(q[0]) ** 2), on_sphere,
        lambda x: np.array([np.arccos(x[2]), np.arctan2(x[1], x[0])]),
        great_circle, begin=[0.8, 0.0, 0.6], toward=[-0.6, 0.0, 0.8], time=np.arctan2(0.8, 0.6),
        across=[0.0, 1.0, 0.0],
    ),
    # From the north pole, which is at infinity: H vanishes there.
    "stereographic": SingularChart(
        lambda q: 4.0 / (1.0 + q @ q) ** 2 * jnp.eye(2),
        lambda q: jnp.concatenate([2.0 * q, (q @ q - 1.0)[None]]) / (1.0 + q @ q),
        lambda x: x[:2] / (1.0 - x[2]),
        great_circle, begin=[0.8, 0.0, 0.6], toward=[-0.6, 0.0, 0.8], time=np.arctan2(0.8, 0.6),
        across=[0.0, 1.0, 0.0],
    ),
    "mercator": SingularChart(
        lambda q: jnp.eye(2) / jnp.cosh(q[1]) ** 2,
        lambda q: jnp.stack([jnp.cos(q[0]) / jnp.cosh(q[1]), jnp.sin(q[0]) / jnp.cosh(q[1]), jnp.tanh(q[1])]),
        lambda x: np.array([np.arctan2(x[1], x[0]), np.arctanh(x[2])]),
        great_circle, begin=[0.8, 0.0, 0.6], toward=[-0.6, 0.0, 0.8], time=np.arctan2(0.8, 0.6),
        across=[0.0, 1.0, 0.0],
    ),
    # From the centre: the equator is at infinity, and opposite points have the same coordinates.
    "gnomonic": SingularChart(
        lambda q: ((1.0 + q @ q) * jnp.eye(2) - jnp.outer(q, q)) / (1.0 + q @ q) ** 2,
        lambda q: jnp.concatenate([q, jnp.ones(1)]) / jnp.sqrt(1.0 + q @ q),
        lambda x: x[:2] / x[2],
        great_circle, begin=[0.6, 0.0, 0.8], toward=[0.8, 0.0, -0.6], time=np.arctan2(0.8, 0.6),
        seen=lambda x: x[:, :, None] * x[:, None, :],
    ),
    # H vanishes at the focus; mu changes its sign on the line between the foci.
    "elliptic": SingularChart(
        lambda q: (jnp.sinh(q[0]) ** 2 + jnp.sin(q[1]) ** 2) * jnp.eye(2),
        lambda q: jnp.stack([jnp.cosh(q[0]) * jnp.cos(q[1]), jnp.sinh(q[0]) * jnp.sin(q[1])]), _elliptic,
        straight, begin=[2.0, 0.5], toward=[-1.0, -0.5], time=1.0, across=[-0.5, 1.0],
    ),
    # The same conics by their parameters, which are even in x and y: H grows without bound on both axes.
    "confocal": SingularChart(
        lambda q: 0.25
        * (q[1] - q[0])
        * diagonal(1.0 / ((_A - q[0]) * (_B - q[0])), 1.0 / ((_A - q[1]) * (q[1] - _B))),
        _in_confocal, _confocal,
        straight, begin=[0.4, 0.5], toward=[0.1, -0.5], time=1.0, seen=lambda x: x**2,
    ),
    "parabolic": SingularChart(
        lambda q: (q @ q) * jnp.eye(2),
        lambda q: jnp.stack([0.5 * (q[0] ** 2 - q[1] ** 2), q[0] * q[1]]), _parabolic,
        straight, begin=[1.0, 0.5], toward=[-1.0, -0.5], time=1.0, across=[-0.5, 1.0],
    ),
    # Rotations by Euler's angles: gimbal lock.
    "euler": SingularChart(
        lambda q: jnp.eye(3) + jnp.cos(q[1]) * jnp.eye(3)[::-1] * jnp.array([[1.0], [0.0], [1.0]]),
        from_euler, to_euler,
        one_parameter_subgroup, begin=_R0, toward=_R_TOWARD, time=1.0, across=_R_ACROSS,
        metric=lambda x: 0.5 * np.eye(9),
    ),
    # The equator of the space of Schwarzschild: H of r grows without bound at the throat.
    "schwarzschild": SingularChart(
        lambda q: diagonal(1.0 / (1.0 - 2.0 / q[0]), q[0] ** 2),
        lambda q: jnp.stack([jnp.arccosh(jnp.sqrt(0.5 * q[0])), q[1]]),
        lambda x: np.array([_throat(x[0]), x[1]]),
        of_revolution(
            _throat_stretch, lambda x: 64.0 * np.cosh(x) ** 3 * np.sinh(x),
            _throat_girth, lambda x: 16.0 * np.cosh(x) ** 3 * np.sinh(x),
        ),
        begin=[_SCHWARZSCHILD_START, 0.0], toward=[-1.0 / 12.0, 0.0],
        time=2.0 * _SCHWARZSCHILD_START + np.sinh(2.0 * _SCHWARZSCHILD_START),
        across=_around(
            _SCHWARZSCHILD_START, _throat_stretch, _throat_girth,
            lambda miss: np.arccosh(np.sqrt(1.0 + 0.5 * miss)),
        ),
        seen=_radius_and_direction(_throat),
        metric=lambda x: np.diag([_throat_stretch(x[0]), _throat_girth(x[0])]),
    ),
    # The equator of the space of Kerr: likewise at the horizon.
    "kerr": SingularChart(
        lambda q: diagonal(
            q[0] ** 2 / (q[0] ** 2 - 2.0 * _MASS * q[0] + _SPIN**2), _kerr_girth(q[0])
        ),
        lambda q: jnp.stack([jnp.arccosh((q[0] - _MASS) / _ROOT), q[1]]),
        lambda x: np.array([_kerr(x[0]), x[1]]),
        of_revolution(
            lambda x: _kerr(x) ** 2, lambda x: 2.0 * _kerr(x) * _ROOT * np.sinh(x),
            lambda x: _kerr_girth(_kerr(x)),
            lambda x: (2.0 * _kerr(x) - 2.0 * _MASS * _SPIN**2 / _kerr(x) ** 2) * _ROOT * np.sinh(x),
        ),
        begin=[_KERR_START, 0.0], toward=[-0.25, 0.05],
        time=_MASS * _KERR_START + _ROOT * np.sinh(_KERR_START),
        across=_around(
            _KERR_START, lambda x: _kerr(x) ** 2, lambda x: _kerr_girth(_kerr(x)),
            lambda miss: np.arccosh(1.0 + miss / _ROOT),
        ),
        seen=_radius_and_direction(_kerr),
        metric=lambda x: np.diag([_kerr(x[0]) ** 2, _kerr_girth(_kerr(x[0]))]),
    ),
}  # fmt: skip
