"""Results of the recursions at one configuration, by their definitions in JAX.

With (v x*) I as the body-level factor ("force_cross"), C is C* - D v, where the 3-form D of a robot is the
sum over its bodies of

    D(x, v, w) = -1/2 x . (I (v x w) + v x* I w - w x* I v)

of the body's twists. With "least", D is Alt Gamma* in the robot's frame, (s_ijk + s_jki + s_kij) / 6 with
s_ijk = H_im s^m_jk and the frame's brackets s^m_jk. The regressors are by bodies: the wrench of a body is
linear in its 10 parameters.
Source: [W] VI-A, eq. (18), and IV-A; [E] (11).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.least import half_alternated
from connections.geometry.numerics.definite import solve_definite
from connections.geometry.rigid.twists import force_cross, motion_cross
from connections.multibody.definition.frames import frame_jacobian_at, frame_pose_at
from connections.multibody.definition.robot_definition import Embedded, RobotDefinition


class DefinedRobot(Embedded, Protocol):
    """A `Model`, as far as the definitions use it."""

    @property
    def definition(self) -> RobotDefinition:
        """Metric, connection and system by their definitions."""

    @property
    def gravity(self) -> tuple[float, float, float]:
        """(3,) m/s^2."""

    def center_of_mass_at(self, q: jax.Array) -> jax.Array:
        """The centre of mass (3,)."""


Vector = jax.Array


def body_contorsion_at(robot: Embedded, q: Vector) -> jax.Array:
    """D (n, n, n): C of the body-level factor (v x*) I is C* - D v."""
    return contorsion_of_inertias_at(robot, q, robot.kinematics.tree.inertias)


def contorsion_of_inertias_at(robot: Embedded, q: Vector, inertias: Any) -> jax.Array:
    """D (n, n, n) for bodies of the spatial inertias (N, 6, 6), in which it is linear."""
    A = jnp.swapaxes(robot.kinematics.body_jacobians_at(q), -1, -2)  # (N, nv, 6)
    v, w = A[:, :, None], A[:, None]
    momenta = jnp.einsum("nab,njb->nja", inertias, A)
    moved = jnp.einsum("nab,njkb->njka", inertias, motion_cross(v, w))
    turned = force_cross(v, momenta[:, None]) - force_cross(w, momenta[:, :, None])
    return -jnp.einsum("nia,njka->ijk", A, moved + turned) / 2


def least_contorsion_of(H: jax.Array, s: Any) -> jax.Array:
    """D (n, n, n) = Alt Gamma* for a metric H (n, n), in which it is linear, and brackets s[k, i, j]."""
    return half_alternated(jnp.einsum("im,mjk->ijk", H, s))


def contorsion_at(robot: DefinedRobot, q: Vector, body_factor: str) -> jax.Array:
    """D (n, n, n) of the connection that `body_factor`, not ``"christoffel"``, names."""
    if body_factor == "least":
        H = robot.definition.metric.matrix_at(q)
        return least_contorsion_of(H, robot.frame.structure_functions_at(q))
    return body_contorsion_at(robot, q)


def _mass_matrix(robot: DefinedRobot, q: Vector) -> jax.Array:
    return robot.definition.metric.matrix_at(q)


def _coriolis_matrix(robot: DefinedRobot, q: Vector, v: Vector, body_factor: str) -> jax.Array:
    C = robot.definition.system.coriolis_matrix_at(q, v)
    return (
        C
        if body_factor == "christoffel"
        else C - jnp.einsum("ijk,j->ik", contorsion_at(robot, q, body_factor), v)
    )


def _mass_matrix_rate(robot: DefinedRobot, q: Vector, v: Vector) -> jax.Array:
    C = robot.definition.system.coriolis_matrix_at(q, v)
    return C + C.T


def _christoffel_symbols(robot: DefinedRobot, q: Vector, body_factor: str) -> jax.Array:
    metric, connection = robot.definition.metric, robot.definition.connection
    low = jnp.einsum("il,ljk->ijk", metric.matrix_at(q), connection.coefficients_at(q))
    return low if body_factor == "christoffel" else low - contorsion_at(robot, q, body_factor)


def _coriolis_product(robot: DefinedRobot, q: Vector, v: Vector, w: Vector, body_factor: str) -> jax.Array:
    product = robot.definition.connection.lowered_at(robot.definition.metric, q, v, w)
    if body_factor == "christoffel":
        return product
    return product - jnp.einsum("ijk,j,k->i", contorsion_at(robot, q, body_factor), v, w)


def _coriolis_transpose_product(
    robot: DefinedRobot, q: Vector, v: Vector, w: Vector, body_factor: str
) -> jax.Array:
    return _coriolis_matrix(robot, q, v, body_factor).T @ w


def _inverse_dynamics(robot: DefinedRobot, q: Vector, v: Vector, a: Vector) -> jax.Array:
    return robot.definition.system.inverse_dynamics_at(q, v, a)


def _nonlinear_effects(robot: DefinedRobot, q: Vector, v: Vector) -> jax.Array:
    return _inverse_dynamics(robot, q, v, jnp.zeros_like(v))


def _gravity(robot: DefinedRobot, q: Vector) -> jax.Array:
    return robot.definition.system.gravity_at(q)


def _forward_dynamics(robot: DefinedRobot, q: Vector, v: Vector, tau: Vector) -> jax.Array:
    return robot.definition.system.forward_dynamics_at(q, v, tau)


def _inverse_mass_matrix(robot: DefinedRobot, q: Vector) -> jax.Array:
    inverse: jax.Array = jnp.linalg.inv(robot.definition.metric.matrix_at(q))
    return inverse


def _mass_product(robot: DefinedRobot, q: Vector, x: Vector) -> jax.Array:
    return robot.definition.metric.matrix_at(q) @ x


def _inverse_mass_product(robot: DefinedRobot, q: Vector, x: Vector) -> jax.Array:
    return solve_definite(robot.definition.metric.matrix_at(q), x)


def _regressor(robot: DefinedRobot, q: Vector, v: Vector, v_r: Vector, a_r: Vector) -> jax.Array:
    """Per body and parameter A^T (I (A a_r + Adot v_r - g) + B(A v) A v_r), I and B of the parameter."""
    A, A_rate, fall = _motion(robot, q, v)
    acceleration, twist, second = A @ a_r + A_rate @ v_r - fall, A @ v, A @ v_r
    return _by_parameters(lambda of: _transposed(A, of(acceleration) + _factor(of, twist, second)))


def _momentum_regressor(robot: DefinedRobot, q: Vector, v: Vector) -> jax.Array:
    """Per body and parameter A^T I A v; and Adot^T I A v + A^T (I g - A v x* I A v), as C^T v - g."""
    A, A_rate, fall = _motion(robot, q, v)
    twist = A @ v
    momentum = _by_parameters(lambda of: _transposed(A, of(twist)))
    rate = _by_parameters(
        lambda of: _transposed(A_rate, of(twist)) + _transposed(A, of(fall) - force_cross(twist, of(twist)))
    )
    return jnp.stack([momentum, rate])


def _motion(robot: DefinedRobot, q: Vector, v: Vector) -> tuple[jax.Array, jax.Array, jax.Array]:
    """A and Adot (N, 6, nv), and the acceleration of free fall [0; R^T g], (N, 6)."""
    A, A_rate = jax.jvp(robot.kinematics.body_jacobians_at, (q,), (robot.frame.matrix_at(q) @ v,))
    R = robot.kinematics.world_transforms_at(q)[:, :3, :3]
    down = jnp.swapaxes(R, 1, 2) @ jnp.asarray(robot.gravity)
    return A, A_rate, jnp.concatenate([jnp.zeros_like(down), down], axis=1)


def _factor(inertia: Callable[[Any], Any], v: Any, w: Any) -> Any:
    """B(v) w of [W] (21): C_b(v) w of (18)."""
    return (inertia(motion_cross(v, w)) + force_cross(v, inertia(w)) + force_cross(w, inertia(v))) / 2


def _transposed(A: jax.Array, wrenches: jax.Array) -> jax.Array:
    """A_b^T f_b of each body, (nv, N)."""
    return jnp.einsum("naj,na->jn", A, wrenches)


def _by_parameters(forces: Callable[[Callable[[Any], Any]], jax.Array]) -> jax.Array:
    """Forces (nv, N) of bodies that are linear in the inertias, by their parameters, (nv, 10 N)."""
    columns = [forces(partial(jnp.matmul, b=unit)) for unit in PARAMETER_INERTIAS]  # which are symmetric
    stacked = jnp.stack(columns, axis=-1)
    return stacked.reshape(len(stacked), -1)


def _parameter_inertias() -> np.ndarray:
    """The spatial inertias (10, 6, 6) of the parameters m, h (3), Ixx, Ixy, Iyy, Ixz, Iyz, Izz."""
    units = np.zeros((10, 6, 6))
    units[0, 3:, 3:] = np.eye(3)
    for axis in range(3):
        h = np.cross(np.eye(3), np.eye(3)[axis]).T  # (h x), [a, b] = (h x e_b)_a
        units[1 + axis, :3, 3:], units[1 + axis, 3:, :3] = -h, -h.T
    for place, (i, j) in enumerate([(0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2)]):
        units[4 + place, i, j] = units[4 + place, j, i] = 1.0
    return units


PARAMETER_INERTIAS = _parameter_inertias()


def spatial_inertias(parameters: jax.Array) -> jax.Array:
    """The spatial inertias (N, 6, 6) of the inertial parameters (10 N,)."""
    return jnp.einsum("np,pab->nab", parameters.reshape(-1, 10), PARAMETER_INERTIAS)


def _inverse_dynamics_derivatives(robot: DefinedRobot, q: Vector, v: Vector, a: Vector) -> jax.Array:
    return _slopes(robot, _inverse_dynamics, q, v, a)


def _forward_dynamics_derivatives(robot: DefinedRobot, q: Vector, v: Vector, tau: Vector) -> jax.Array:
    return _slopes(robot, _forward_dynamics, q, v, tau)


def _slopes(
    robot: DefinedRobot, function: Callable[..., jax.Array], q: Vector, v: Vector, x: Vector
) -> jax.Array:
    """The derivatives along the frame, in v and in x, (3, n, n)."""
    along = robot.frame.lie_derivative_at(lambda p: function(robot, p, v, x), q).T
    return jnp.stack([along, *jax.jacfwd(lambda v, x: function(robot, q, v, x), (0, 1))(v, x)])


def _inverse_dynamics_hessian_product(
    robot: DefinedRobot, q: Vector, v: Vector, a: Vector, w: Vector
) -> jax.Array:
    return _hessian(robot, _inverse_dynamics, q, v, a, w)


def _forward_dynamics_hessian_product(
    robot: DefinedRobot, q: Vector, v: Vector, tau: Vector, w: Vector
) -> jax.Array:
    return _hessian(robot, _forward_dynamics, q, v, tau, w)


def _inverse_dynamics_second_derivatives(robot: DefinedRobot, q: Vector, v: Vector, a: Vector) -> jax.Array:
    return _second_slopes(robot, _inverse_dynamics, q, v, a)


def _forward_dynamics_second_derivatives(robot: DefinedRobot, q: Vector, v: Vector, tau: Vector) -> jax.Array:
    return _second_slopes(robot, _forward_dynamics, q, v, tau)


def _second_slopes(
    robot: DefinedRobot, function: Callable[..., jax.Array], q: Vector, v: Vector, x: Vector
) -> jax.Array:
    """The derivatives of `_slopes`, (4, n, n, n); the last index is of the one taken last.

    L_k L_j f_i, L_k df_i/dv_j, d2f_i/dv_j dv_k, L_k df_i/dx_j, with derivatives L along the frame.
    """
    along = robot.frame.lie_derivative_at(lambda p: _slopes(robot, function, p, v, x), q)
    in_q = jnp.moveaxis(along, 0, -1)
    in_v = jax.jacfwd(lambda v: _slopes(robot, function, q, v, x)[1])(v)
    return jnp.stack([in_q[0], in_q[1], in_v, in_q[2]])


def _hessian(
    robot: DefinedRobot, function: Callable[..., jax.Array], q: Vector, v: Vector, x: Vector, w: Vector
) -> jax.Array:
    """Second derivatives of phi = w . function, (4, n, n); the last index is of the one taken last.

    L_k L_j phi, L_k dphi/dv_j, d2phi/dv_j dv_k, L_k dphi/dx_j, with derivatives L along the frame.
    """

    def gradients(p: Vector, v: Vector, x: Vector) -> jax.Array:
        def weighted(p: Vector, v: Vector, x: Vector) -> jax.Array:
            return w @ function(robot, p, v, x)

        along = robot.frame.lie_derivative_at(lambda point: weighted(point, v, x), p)
        return jnp.stack([along, *jax.grad(weighted, (1, 2))(p, v, x)])

    in_q = jnp.moveaxis(robot.frame.lie_derivative_at(lambda p: gradients(p, v, x), q), 0, -1)
    in_v = jax.jacfwd(lambda v: gradients(q, v, x)[1])(v)
    return jnp.stack([in_q[0], in_q[1], in_v, in_q[2]])


def _coriolis_matrix_rate(
    robot: DefinedRobot, q: Vector, v: Vector, a: Vector, body_factor: str
) -> jax.Array:
    along = robot.frame.matrix_at(q) @ v
    rate: jax.Array
    _, rate = jax.jvp(lambda p, v: _coriolis_matrix(robot, p, v, body_factor), (q, v), (along, a))
    return rate


def _christoffel_derivatives(robot: DefinedRobot, q: Vector, body_factor: str) -> jax.Array:
    along = robot.frame.lie_derivative_at(partial(_christoffel_symbols, robot, body_factor=body_factor), q)
    return jnp.moveaxis(along, 0, -1)


def _curvature_operator(robot: DefinedRobot, q: Vector, v: Vector) -> jax.Array:
    return jnp.einsum("ijkl,j,l->ik", _curvature(robot, q), v, v)


def _curvature(robot: DefinedRobot, q: Vector) -> jax.Array:
    R = robot.definition.connection.curvature_at(q)
    return jnp.einsum("im,mjkl->ijkl", robot.definition.metric.matrix_at(q), R)


def _forward_kinematics(robot: DefinedRobot, q: Vector) -> jax.Array:
    poses: jax.Array = robot.kinematics.world_transforms_at(q)
    return poses


def _body_jacobians(robot: DefinedRobot, q: Vector) -> jax.Array:
    return robot.body_jacobians_at(q)


def _frame_pose(robot: DefinedRobot, q: Vector, frame: str) -> jax.Array:
    return frame_pose_at(robot.kinematics, q, frame)


def _frame_jacobian(robot: DefinedRobot, q: Vector, frame: str, axes: str) -> jax.Array:
    return frame_jacobian_at(robot.kinematics, q, frame, axes)


def _frame_jacobian_rate(robot: DefinedRobot, q: Vector, v: Vector, frame: str, axes: str) -> jax.Array:
    rate: jax.Array
    along = robot.frame.matrix_at(q) @ v
    _, rate = jax.jvp(lambda p: frame_jacobian_at(robot.kinematics, p, frame, axes), (q,), (along,))
    return rate


def _center_of_mass(robot: DefinedRobot, q: Vector) -> jax.Array:
    return robot.center_of_mass_at(q)


def _center_of_mass_jacobian(robot: DefinedRobot, q: Vector) -> jax.Array:
    return robot.frame.lie_derivative_at(robot.center_of_mass_at, q).T


#: Name of a recursion, or of a product with H or its inverse -> (robot, q (nq,), vectors (nv,), what is
#: chosen) -> the result.
DEFINITIONS: dict[str, Callable[..., jax.Array]] = {
    function.__name__[1:]: function
    for function in (
        _mass_matrix,
        _coriolis_matrix,
        _mass_matrix_rate,
        _christoffel_symbols,
        _coriolis_product,
        _coriolis_transpose_product,
        _inverse_dynamics,
        _nonlinear_effects,
        _gravity,
        _forward_dynamics,
        _inverse_mass_matrix,
        _mass_product,
        _inverse_mass_product,
        _regressor,
        _momentum_regressor,
        _inverse_dynamics_derivatives,
        _forward_dynamics_derivatives,
        _inverse_dynamics_hessian_product,
        _forward_dynamics_hessian_product,
        _inverse_dynamics_second_derivatives,
        _forward_dynamics_second_derivatives,
        _coriolis_matrix_rate,
        _christoffel_derivatives,
        _curvature,
        _curvature_operator,
        _forward_kinematics,
        _body_jacobians,
        _frame_pose,
        _frame_jacobian,
        _frame_jacobian_rate,
        _center_of_mass,
        _center_of_mass_jacobian,
    )
}
