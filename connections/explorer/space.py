"""Effects of connections on Euclidean R^3: a frame carried along a geodesic, a parallelogram that stays open.

A mass of 1 kg moves freely in R^3. Among the connections Gamma = -D with constant contorsion D, those with
D = -beta eps, C = beta (v x), have the straight lines as geodesics and preserve lengths; they turn vectors
that are carried along a line about it, by -beta per metre. Arrays in, arrays out, without a browser. All
values of beta share one compilation. Source: [W] Fig. 3, Cor. III.1, eq. (12).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from connections.affine import ContorsionConnection, ContorsionFamily, WeylConnection
from connections.checks import IntegrationError, require_finite
from connections.geometry import ConstantMetric, CoordinateFrame
from connections.integration.solver import Settings
from connections.integration.steps import plain_layout
from connections.integration.traced import solve
from connections.plots import four_contorsions

LENGTH = 4.0  # m, of the geodesic that is shown
POINTS = 97  # samples of a curve
_MOST_STEPS = 5_000  # a motion that needs more escapes to infinity
FRAMES = 13  # carried frames drawn along it

# (lengths kept, geodesics kept), [W] Props III.1 and III.2
KINDS = {
    "admissible: C = beta (v x)": (True, True),
    "geodesics kept, lengths not": (False, True),
    "lengths kept, geodesics not": (True, False),
    "neither kept": (False, False),
    "Weyl: lengths by one factor": (False, False),
    "statistics: nabla g symmetric": (False, False),
}
ADMISSIBLE = next(iter(KINDS))
_PAPER_SCALE = 0.2  # m/kg; the other three are those of [W] Fig. 3 at beta = 5 kg/m

_CUBIC_SCALE = 0.03  # m/kg
_CUBIC = np.zeros((3, 3, 3))
for _i in (0, 1):
    _CUBIC[_i, _i, 2] = _CUBIC[_i, 2, _i] = _CUBIC[2, _i, _i] = 1.0

_METRIC = ConstantMetric(CoordinateFrame(3), np.eye(3))
_FAMILY = ContorsionFamily(_METRIC)
_X, _Y = np.eye(3)[:2]


@dataclass(frozen=True, eq=False)
class Carried:
    """A geodesic of R^3 and an orthonormal frame carried along it.

    Parameters
    ----------
    points : (T, 3) the geodesic, m.
    frames : (T, 3, 3) the carried vectors, [t, vector, component]; the first is the velocity, m/s.
    still : (3, 3) the vectors at the start; with beta = 0 they stay constant.
    lengths : (T,) length along the geodesic, m.
    """

    points: np.ndarray
    frames: np.ndarray
    still: np.ndarray
    lengths: np.ndarray

    @property
    def turn(self) -> np.ndarray:
        """(T,) the angle by which the second vector has turned about the velocity, rad, right-handed."""
        across, third = self.still[1], np.cross(self.still[0], self.still[1])
        return np.unwrap(np.arctan2(self.frames[:, 1] @ third, self.frames[:, 1] @ across))

    @property
    def stretch(self) -> np.ndarray:
        """(T,) the largest | |z| - 1 | of the carried vectors."""
        stretch: np.ndarray = np.abs(np.linalg.norm(self.frames, axis=2) - 1.0).max(axis=1)
        return stretch

    @property
    def bend(self) -> float:
        """Largest distance of the geodesic from the straight line, m."""
        line = self.points[0] + self.lengths[:, None] * self.still[0]
        return float(np.linalg.norm(self.points - line, axis=1).max())

    @property
    def ribbon(self) -> tuple[np.ndarray, np.ndarray]:
        """The two edges of the strip that the second carried vector sweeps out, (T, 3) each."""
        return self.points, self.points + self.frames[:, 1]

    @property
    def shown(self) -> np.ndarray:
        """(FRAMES,) the samples at which frames are drawn."""
        return np.linspace(0, len(self.points) - 1, FRAMES).round().astype(int)


@dataclass(frozen=True, eq=False)
class Parallelogram:
    """Two geodesic sides, each carried along the other: the far corners differ by the torsion.

    Parameters
    ----------
    sides : (4, T, 3) m: from the corner along u, from there along the carried w; from the corner along w,
        from there along the carried u.
    side : length of a side, m.
    torsion : (3,) T(u, w) for unit u, w, 1/m; the gap is side^2 times it, to leading order.
    """

    sides: np.ndarray
    side: float
    torsion: np.ndarray

    @property
    def gap(self) -> np.ndarray:
        """(2, 3) m, the ends of the sides, with u first and with w first."""
        return np.stack([self.sides[1, -1], self.sides[3, -1]])

    @property
    def expected(self) -> np.ndarray:
        """(3,) side^2 T(u, w), m."""
        return self.side**2 * self.torsion


def carry(beta: float, kind: str = ADMISSIBLE, heading: float = 0.0) -> Carried:
    """The frame carried along a geodesic of unit speed that starts along `heading`.

    Parameters
    ----------
    beta : factor of the contorsion, kg/m.
    kind : one of `KINDS`.
    heading : angle of the velocity from the x axis in the horizontal plane, rad.

    Raises
    ------
    NonFiniteError : beta or heading is not finite.
    """
    require_finite("beta", beta)
    require_finite("heading", heading)
    cosine, sine = np.cos(heading), np.sin(heading)
    still = np.array([[cosine, sine, 0.0], [0.0, 0.0, 1.0], [sine, -cosine, 0.0]])
    lengths = np.linspace(0.0, LENGTH, POINTS)
    D = _contorsion(beta, kind)
    points, frames = (np.asarray(a) for a in _along(D, -0.5 * LENGTH * still[0], still[0], still, lengths))
    _require_reached(points, frames)
    return Carried(points, frames, still, lengths)


def parallelogram(beta: float, side: float, kind: str = ADMISSIBLE) -> Parallelogram:
    """The open parallelogram on u = side e_x and w = side e_y.

    Parameters
    ----------
    beta : factor of the contorsion, kg/m.
    side : length of the sides, m, positive.
    kind : one of `KINDS`.

    Raises
    ------
    NonFiniteError : beta or side is not finite.
    ValueError : side is not positive.
    """
    require_finite("beta", beta)
    require_finite("side", side)
    if not side > 0.0:
        raise ValueError(f"side: expected a positive length in metres, got {side}")
    D = _contorsion(beta, kind)
    sides = []
    for first, second in ((side * _X, side * _Y), (side * _Y, side * _X)):
        near, carried = _follow(D, np.zeros(3), first, second)
        far, _ = _follow(D, near[-1], carried[-1], second)
        sides += [near, far]
    return Parallelogram(np.stack(sides), float(side), (D[:, 1, 0] - D[:, 0, 1]))


# --- private -----------------------------------------------------------------------------------------------


def _contorsion(beta: float, kind: str) -> np.ndarray:
    """D[i, j, k], kg/m."""
    if kind not in KINDS:
        raise ValueError(f"kind: expected one of {', '.join(KINDS)}; got {kind!r}")
    if kind == ADMISSIBLE:
        return np.asarray(_FAMILY.contorsion_of(np.array([float(beta)])))
    if kind.startswith("Weyl"):  # a form along z, for which no geodesic that is shown leaves every bound
        form = np.array([0.0, 0.0, _PAPER_SCALE * float(beta)])
        return np.asarray(WeylConnection(_METRIC, lambda q: jnp.asarray(form)).contorsion_at(jnp.zeros(3)))
    if kind.startswith("statistics"):  # C(v, v, v) = 3 (x^2 + y^2) z, small for the same reason
        return 0.5 * _CUBIC_SCALE * float(beta) * _CUBIC
    return _PAPER_SCALE * float(beta) * four_contorsions()[KINDS[kind]]


def _require_reached(*arrays: np.ndarray) -> None:
    if not all(np.isfinite(array).all() for array in arrays):
        raise IntegrationError("the geodesic leaves every bound within the length shown: take a smaller beta")


def _follow(D: np.ndarray, q0: np.ndarray, v0: np.ndarray, z0: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The geodesic over unit time, and one vector carried along it, (T, 3) each."""
    solution = _along(D, q0, v0, np.tile(z0, (3, 1)), np.linspace(0.0, 1.0, POINTS))
    points, vectors = (np.asarray(a) for a in solution)
    _require_reached(points, vectors)
    return points, vectors[:, 0]


@jax.jit
def _along(D: jax.Array, q0: jax.Array, v0: jax.Array, vectors: jax.Array, times: jax.Array) -> Any:
    """A geodesic and the vectors (3, 3) carried along it, at the times."""
    nabla = ContorsionConnection(_METRIC, lambda q: D)

    y0, state = ravel_pytree((q0, v0, vectors))

    def rate(s: jax.Array, y: jax.Array) -> jax.Array:
        q, v, z = state(y)
        carried = jax.vmap(lambda vector: nabla.apply_at(q, v, vector))(z)
        return ravel_pytree((v, -nabla.apply_at(q, v, v), -carried))[0]

    settings, layout = Settings(max_steps=_MOST_STEPS), plain_layout(len(y0))  # all in metres
    scales = jnp.zeros((2, len(y0)))
    units = jnp.stack([jnp.ones_like(y0), jnp.zeros_like(y0)])  # nothing is conserved by all connections
    states, _ = solve(rate, lambda s, y: units, y0, scales, layout, times - times[0], settings)
    points, _, carried = jax.vmap(state)(states)
    return points, carried
