"""Rotations and rigid motions: unit quaternions (x, y, z, w), body angular velocity, body twists.

``SO3Frame`` and ``SE3Frame`` hold the left-invariant fields of the two groups in quaternion coordinates, so
nq = n + 1 and no orientation is singular; ``SE2Frame`` holds those of motions of a plane, ``SO2Frame`` that
of the circle. Twists are ordered [omega; v], body frame. Other groups are `matrix_group.MatrixLieGroup`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike
from connections.checks import PointError, raise_at, require_finite, require_text
from connections.geometry.coordinate_frame import CoordinateFrame
from connections.geometry.frames import FrameField
from connections.geometry.numerics.scales import POINT_TOLERANCE
from connections.geometry.rigid.rotations import (
    LEVI_CIVITA,
    quaternion_exponential,
    quaternion_product,
    rotation_matrix,
    skew,
)


@dataclass(frozen=True)
class SO2Frame(CoordinateFrame):
    """The frame of the circle, SO(2): q = [theta], v = [omega], rad and rad/s.

    Angles that differ by full turns are one point: the logarithm is within half a turn. theta itself counts
    turns, so that motions are continuous.

    Examples
    --------
    From 179 to -179 degrees it is 2 degrees.

    >>> import numpy as np
    >>> import connections as cn
    >>> circle = cn.LeviCivita(cn.ConstantMetric(cn.SO2Frame(), [[1.0]]))
    >>> np.rad2deg(cn.logarithm(circle, np.deg2rad([179.0]), np.deg2rad([-179.0]))).round(9)
    array([2.])
    """

    def __init__(self) -> None:
        super().__init__(1, (2.0 * np.pi,))

    def __repr__(self) -> str:
        return "SO2Frame()"


@dataclass(frozen=True)
class SO3Frame(FrameField):
    """Left-invariant frame of SO(3): q = unit quaternion (x, y, z, w), v = body angular velocity [rad/s].

    [X_i, X_j] = eps_ijk X_k.

    Parameters
    ----------
    owner : name of the quaternion's owner in errors, such as a joint. Frames with different owners are equal.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> frame = cn.SO3Frame()
    >>> free_body = cn.LeviCivita(cn.ConstantMetric(frame, np.diag([1.0, 2.0, 3.0])))
    >>> q, v = cn.geodesic(free_body, [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, np.pi], [0.0, 1.0])
    >>> np.abs(q[-1]).round(6)  # half a turn about the third axis
    array([0., 0., 1., 0.])
    """

    dim: int = 3
    ambient_dim: int = 4
    owner: str = field(default="", compare=False, repr=False)

    def __init__(self, owner: str = "") -> None:
        require_text("owner", owner)
        object.__setattr__(self, "dim", 3)
        object.__setattr__(self, "ambient_dim", 4)
        object.__setattr__(self, "owner", owner)

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """Half the right multiplication: qdot = (1/2) q * (omega, 0), (4, 3)."""
        r, w = q[:3], q[3]
        return 0.5 * jnp.concatenate([w * jnp.eye(3) + skew(r), -r[None, :]])

    def dual_at(self, q: jax.Array) -> jax.Array:
        """4 X^T on the unit sphere, (3, 4)."""
        return 4.0 * self.matrix_at(q).T / jnp.dot(q, q)

    def structure_functions_at(self, q: jax.Array) -> jax.Array:
        """eps[k, i, j], (3, 3, 3)."""
        return jnp.asarray(LEVI_CIVITA)

    def structure_terms_at(self, q: jax.Array) -> jax.Array:
        """|eps[k, i, j]|, (3, 3, 3)."""
        return jnp.asarray(np.abs(LEVI_CIVITA))

    def project_at(self, q: jax.Array) -> jax.Array:
        """q / |q|."""
        norm: jax.Array = jnp.linalg.norm(q)
        return q / norm

    def align_at(self, q: jax.Array, reference: jax.Array) -> jax.Array:
        """q or -q, the nearer to `reference`."""
        return jnp.where(jnp.dot(q, reference) < 0.0, -q, q)

    def retract_at(self, q: jax.Array, xi: jax.Array) -> jax.Array:
        """q * exp(xi): the geodesic of the bi-invariant metric."""
        return quaternion_product(q, quaternion_exponential(xi))

    def near_at(self, q: jax.Array) -> jax.Array:
        """| |q| - 1 | <= `POINT_TOLERANCE`."""
        return jnp.abs(jnp.linalg.norm(q) - 1.0) <= POINT_TOLERANCE

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The quaternion has norm one; the frame is regular everywhere."""
        return self.near_at(q)

    def require_near(self, name: str, q: ArrayLike) -> np.ndarray:
        """q / |q|, or `PointError` for a norm other than one."""
        return unit_quaternions(f"{name}: {self.owner}" if self.owner else name, np.asarray(q))

    def explain(self, q: ArrayLike) -> None:
        """Raise `PointError` for a quaternion of norm other than one."""
        require_finite("q", q)
        self.require_near("q", q)


@dataclass(frozen=True)
class SE2Frame(FrameField):
    """Left-invariant frame of SE(2): q = [x, y, theta], v = body twist [omega; v_x, v_y].

    (x, y) [m] is the body origin in the fixed frame, theta [rad] the body's angle; omega [rad/s] and v [m/s]
    are in body axes. theta counts full turns: poses that differ by one are different points.

    [X_0, X_1] = X_2, [X_0, X_2] = -X_1, [X_1, X_2] = 0.

    Examples
    --------
    A body that has turned by a quarter moves along y if it moves ahead.

    >>> import numpy as np
    >>> import connections as cn
    >>> X = cn.SE2Frame().matrix([0.0, 0.0, np.pi / 2])
    >>> (X @ [0.0, 1.0, 0.0]).round(12)
    array([0., 1., 0.])
    """

    dim: int = field(default=3, init=False)
    ambient_dim: int = field(default=3, init=False)

    @property
    def angles(self) -> tuple[int, ...]:
        """theta."""
        return (2,)

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """Velocity of the origin R v, rate of the angle omega, (3, 3)."""
        c, s, zero, one = jnp.cos(q[2]), jnp.sin(q[2]), jnp.zeros_like(q[2]), jnp.ones_like(q[2])
        return jnp.stack([jnp.stack(row) for row in ((zero, c, -s), (zero, s, c), (one, zero, zero))])

    def dual_at(self, q: jax.Array) -> jax.Array:
        """The columns of X are orthonormal: X^T, (3, 3)."""
        return self.matrix_at(q).T

    def structure_functions_at(self, q: jax.Array) -> jax.Array:
        """The brackets of the class, (3, 3, 3)."""
        return jnp.asarray(SE2_STRUCTURE)

    def structure_terms_at(self, q: jax.Array) -> jax.Array:
        """The absolute values of the structure constants, (3, 3, 3)."""
        return jnp.asarray(np.abs(SE2_STRUCTURE))

    def retract_at(self, q: jax.Array, xi: jax.Array) -> jax.Array:
        """The pose times exp(xi): a turn about a fixed point; its chord is at half of the angle."""
        c, s = jnp.cos(q[2] + 0.5 * xi[0]), jnp.sin(q[2] + 0.5 * xi[0])
        chord = jnp.sinc(xi[0] / (2.0 * jnp.pi))
        return q + jnp.stack([chord * (c * xi[1] - s * xi[2]), chord * (s * xi[1] + c * xi[2]), xi[0]])

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Every pose is valid."""
        return jnp.asarray(True)

    def explain(self, q: ArrayLike) -> None:
        """Raise `NonFiniteError` for numbers that are not finite."""
        require_finite("q", q)


@dataclass(frozen=True)
class SE3Frame(FrameField):
    """Left-invariant frame of SE(3): q = [p, quaternion (x, y, z, w)], v = body twist [omega; v].

    p [m] is the body origin in the fixed frame; omega [rad/s] and v [m/s] are in body axes.

    Parameters
    ----------
    owner : as for `SO3Frame`.

    Examples
    --------
    A body at the origin that turns about z and moves ahead.

    >>> import connections as cn
    >>> frame = cn.SE3Frame()
    >>> q = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    >>> frame.matrix(q) @ [0.0, 0.0, 2.0, 1.0, 0.0, 0.0]
    array([1., 0., 0., 0., 0., 1., 0.])
    """

    dim: int = 6
    ambient_dim: int = 7
    owner: str = field(default="", compare=False, repr=False)

    def __init__(self, owner: str = "") -> None:
        require_text("owner", owner)
        object.__setattr__(self, "dim", 6)
        object.__setattr__(self, "ambient_dim", 7)
        object.__setattr__(self, "owner", owner)

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """pdot = R v, quaternion rate = (1/2) q * (omega, 0), (7, 6)."""
        X = jnp.zeros((7, 6)).at[:3, 3:].set(rotation_matrix(q[3:]))
        return X.at[3:, :3].set(_SO3.matrix_at(q[3:]))

    def dual_at(self, q: jax.Array) -> jax.Array:
        """Left inverse, (6, 7)."""
        dual = jnp.zeros((6, 7)).at[3:, :3].set(rotation_matrix(q[3:]).T)
        return dual.at[:3, 3:].set(_SO3.dual_at(q[3:]))

    def structure_functions_at(self, q: jax.Array) -> jax.Array:
        """s[:, i, j] = (e_i x) e_j, the little adjoint of se(3), (6, 6, 6)."""
        return jnp.asarray(SE3_STRUCTURE)

    def structure_terms_at(self, q: jax.Array) -> jax.Array:
        """The absolute values of the structure constants, (6, 6, 6)."""
        return jnp.asarray(np.abs(SE3_STRUCTURE))

    def project_at(self, q: jax.Array) -> jax.Array:
        """Normalize the quaternion."""
        return jnp.concatenate([q[:3], _SO3.project_at(q[3:])])

    def align_at(self, q: jax.Array, reference: jax.Array) -> jax.Array:
        """The quaternion's sign nearest to the reference's."""
        return jnp.concatenate([q[:3], _SO3.align_at(q[3:], reference[3:])])

    def retract_at(self, q: jax.Array, xi: jax.Array) -> jax.Array:
        """Rotate by exp(omega), translate by R v."""
        p = q[:3] + rotation_matrix(q[3:]) @ xi[3:]
        return jnp.concatenate([p, _SO3.retract_at(q[3:], xi[:3])])

    def near_at(self, q: jax.Array) -> jax.Array:
        """The quaternion has norm one to `POINT_TOLERANCE`; every position is valid."""
        return _SO3.near_at(q[3:])

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Unit quaternion; the frame is regular everywhere."""
        return self.near_at(q)

    def require_near(self, name: str, q: ArrayLike) -> np.ndarray:
        """q with its quaternion normalized, or `PointError` for a norm other than one."""
        q = np.asarray(q)
        return np.concatenate([q[:3], SO3Frame(self.owner).require_near(name, q[3:])])

    def explain(self, q: ArrayLike) -> None:
        """Raise `PointError` for a quaternion of norm other than one."""
        require_finite("q", q)
        self.require_near("q", q)


def unit_quaternions(name: str, q: np.ndarray) -> np.ndarray:
    """q / |q|, (..., 4).

    Parameters
    ----------
    name : their name in errors.
    q : (..., 4) finite quaternions (x, y, z, w).

    Raises
    ------
    PointError : a norm differs from one by more than `POINT_TOLERANCE`.
    """
    norms = np.linalg.norm(q, axis=-1, keepdims=True)
    good = np.abs(norms - 1.0) <= POINT_TOLERANCE
    if not good.all():
        bad = tuple(np.argwhere(~good)[0][:-1])
        norm = f"{float(norms[bad].item()):.8g}, expected 1 to {POINT_TOLERANCE:.0e}"
        raise_at(PointError, f"{name}: quaternion (x, y, z, w) of norm {norm}: normalize it", q[bad])
    unit: np.ndarray = q / norms
    return unit


def _se3_structure() -> np.ndarray:
    s = np.zeros((6, 6, 6))
    s[:3, :3, :3] = LEVI_CIVITA
    s[3:, :3, 3:] = LEVI_CIVITA  # [omega_i, v_j]
    s[3:, 3:, :3] = LEVI_CIVITA  # [v_i, omega_j]
    return s


def _se2_structure() -> np.ndarray:
    s = np.zeros((3, 3, 3))
    s[2, 0, 1], s[2, 1, 0] = 1.0, -1.0  # [omega, v_x] = v_y
    s[1, 2, 0], s[1, 0, 2] = 1.0, -1.0  # [v_y, omega] = v_x
    return s


SE2_STRUCTURE = _se2_structure()
SE3_STRUCTURE = _se3_structure()
_SO3 = SO3Frame()
