"""First derivatives of the recursions, by other recursions.

The derivative of Gamma_ijk (of the first kind) along X_l is found from that of Gamma_ijk v^j v^k, which the
derivatives P(v) of the inverse dynamics without gravity and acceleration are, by polarization:

    L_l Gamma_i(vw) = (P_il(v + w) - P_il(v - w)) / 4 + (L_l H)_im s^m(v, w) / 2.

The first term is the part that is symmetric in v and w; the second one is from the brackets of the frame,
s^m_jk, which are constant. L_l H_ik is Gamma_ilk + Gamma_kli. With torsion, the derivative of the 3-form D
(`definition.recursions`) is subtracted. Of trees with few velocities, all L_l Gamma_ijk are a recursion. What
no recursion has the derivative of is differentiated in its definition.
Source: [W] Algorithms 1 and 2, (9); [B] Tables 5 to 9.
"""

# mypy: disable-error-code="no-any-return"
# (primals and tangents are unpacked from tuples of any length)

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from connections.multibody.definition.recursions import (
    DEFINITIONS,
    body_contorsion_at,
    least_contorsion_of,
)

Vector = jax.Array
Tangent = jax.Array | None  # None is zero; that of q is in frame components
Chosen = tuple[Any, ...]


class Recursions(Protocol):
    """The recursions of a robot at one configuration."""

    @property
    def robot(self) -> Any:
        """The robot."""

    @property
    def brackets(self) -> list[tuple[slice, np.ndarray]]:
        """The columns of each joint whose fields have brackets, and their constant s[k, i, j]."""

    @property
    def weightless(self) -> Recursions:
        """The recursions without gravity."""

    def of_bodies(self, parameters: jax.Array) -> Recursions:
        """The recursions with other inertial parameters (10 N,), and without armature."""

    def __call__(self, name: str, q: Vector, *vectors: Vector, chosen: Chosen = ()) -> jax.Array:
        """The recursion `name`."""


Rule = Callable[[Recursions, tuple[Vector, ...], tuple[Tangent, ...], Chosen], jax.Array]
RULES: dict[str, Rule] = {}
#: Rules for trees only: what they use is computed by its definition for closed chains, which costs more than
#: one derivative of the definition.
OF_TREES = {
    "inverse_dynamics_derivatives",
    "forward_dynamics_derivatives",
    "inverse_dynamics_hessian_product",
    "forward_dynamics_hessian_product",
    "christoffel_derivatives",
    "coriolis_matrix_rate",
    "curvature",
    "curvature_operator",
}
_STAR, _LEAST = ("christoffel",), ("least",)
_MOST = 1 << 20  # numbers of a matrix's derivatives that are in memory at the same time, about
# Numbers of `christoffel_derivatives` at one configuration up to which they are used: for the derivatives of
# Gamma, and for those of C, where rows multiply them, so that memory limits the speed.
_FEW, _FEWER = 1 << 17, 1 << 14


def _rule(function: Rule) -> Rule:
    RULES[function.__name__[1:]] = function
    return function


# --- H, C and Gamma ----------------------------------------------------------------------------------------


@_rule
def _mass_matrix(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    (q,), (xi,) = at, along
    return _mass_change(of, q, xi)


@_rule
def _inverse_mass_matrix(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    (q,), (xi,) = at, along
    inverse = of("inverse_mass_matrix", q)
    return -inverse @ _mass_change(of, q, xi) @ inverse


@_rule
def _coriolis_matrix(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    (q, v), (xi, v_dot) = at, along
    changes = []
    if xi is not None:
        changes.append(_coriolis_change(of, q, v, xi, chosen))
    if v_dot is not None:
        changes.append(jnp.einsum("ijk,j->ik", of("christoffel_symbols", q, chosen=chosen), v_dot))
    return _sum(changes)


@_rule
def _mass_matrix_rate(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    change = _coriolis_matrix(of, at, along, _STAR)
    return change + change.T


@_rule
def _christoffel_symbols(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    (q,), (xi,) = at, along
    if not of.robot.closed and len(xi) ** 4 <= _FEW:
        return of("christoffel_derivatives", q, chosen=chosen) @ xi
    change = _symbols_change(of, q, xi)
    return change if chosen == _STAR else change - _torsion_change(of, q, xi, chosen)


def _symbols_change(of: Recursions, q: Vector, xi: Vector) -> jax.Array:
    """The change of Gamma (n, n, n) along xi, by polarization."""
    n = len(xi)
    rows, columns = np.triu_indices(n)
    sums = np.eye(n)[rows] + np.eye(n)[columns]
    rows_at_once = max(1, _MOST // n**2)
    moved = jax.lax.map(
        lambda u: _derivative_of_quadratic_force(of, q, u) @ xi, jnp.asarray(sums), batch_size=rows_at_once
    )
    table = jnp.zeros((n, n, n)).at[rows, columns].set(moved, unique_indices=True)
    table = table.at[columns, rows].set(moved, unique_indices=True)
    squares = jnp.einsum("jji->ji", table) / 4.0  # sums on the diagonal are twice a unit vector
    change = jnp.transpose((table - squares[:, None] - squares[None]) / 2.0, (2, 0, 1))
    if of.brackets:
        change = change + jnp.einsum("im,mjk->ijk", _mass_change(of, q, xi), brackets_of(of, n)) / 2.0
    return change


@_rule
def _christoffel_derivatives(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    def all_of_them(q: Vector) -> jax.Array:
        star = jax.lax.map(lambda e: _symbols_change(of, q, e), jnp.eye(len(along[0])))
        return jnp.moveaxis(star, 0, -1)

    if chosen != _STAR:
        return by_definition("christoffel_derivatives", of, at, along, chosen)
    return _moved(of, all_of_them, at, along)


@_rule
def _coriolis_matrix_rate(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    def rate(q: Vector, v: Vector, a: Vector) -> jax.Array:
        q_dot = of.robot.frame.matrix_at(q) @ v
        return jax.jvp(lambda p, u: of("coriolis_matrix", p, u, chosen=chosen), (q, v), (q_dot, a))[1]

    return _moved(of, rate, at, along)


@_rule
def _curvature(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    """The change along q of the curvature R_ijkl = A_ijkl - A_ijlk - s^p_kl Gamma_ipj.

    A_ijkl = L_k Gamma_ilj - Gamma_pki H^pq Gamma_qlj.
    """

    def tensor(q: Vector) -> jax.Array:
        change, Gamma = of("christoffel_derivatives", q), of("christoffel_symbols", q, chosen=_STAR)
        n = len(Gamma)
        raised = (of("inverse_mass_matrix", q) @ Gamma.reshape(n, -1)).reshape(n, n, n)
        half = jnp.einsum("iljk->ijkl", change) - jnp.einsum("pki,plj->ijkl", Gamma, raised)
        brackets = jnp.einsum("pkl,ipj->ijkl", brackets_of(of, n), Gamma) if of.brackets else 0.0
        return half - jnp.swapaxes(half, 2, 3) - brackets

    return _moved(of, tensor, at, along)


@_rule
def _curvature_operator(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    (q, v), (xi, v_dot) = at, along
    changes = []
    if xi is not None:
        changes.append(jnp.einsum("ijkl,j,l->ik", _curvature(of, (q,), (xi,), ()), v, v))
    if v_dot is not None:
        R = of("curvature", q)
        half = jnp.einsum("ijkl,j,l->ik", R, v, v_dot)
        changes.append(half + half.T)  # R_ijkl = R_klij
    return _sum(changes)


@_rule
def _coriolis_product(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    (q, v, w), (xi, v_dot, w_dot) = at, along
    changes = []
    if xi is not None:
        changes.append(_symmetric(of, q, v, w) @ xi)
        if of.brackets:
            changes.append(_mass_change(of, q, xi) @ _bracket(of, v, w) / 2.0)
        if chosen != _STAR:
            changes.append(-jnp.einsum("ijk,j,k->i", _torsion_change(of, q, xi, chosen), v, w))
    if v_dot is not None:  # Gamma_ijk w^k = Gamma_ikj w^k + s_ijk w^k; torsion turns its sign
        star = of("coriolis_product", q, w, v_dot)
        changes.append(star)
        if chosen != _STAR:
            changes.append(star - of("coriolis_product", q, w, v_dot, chosen=chosen))
        changes += _lowered_bracket(of, q, v_dot, w)
    if w_dot is not None:
        changes.append(of("coriolis_product", q, v, w_dot, chosen=chosen))
    return _sum(changes)


@_rule
def _coriolis_transpose_product(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    (q, v, w), (xi, v_dot, w_dot) = at, along
    changes = []
    if xi is not None:
        changes.append(_coriolis_change(of, q, v, xi, chosen).T @ w)
    if v_dot is not None:  # Gamma_ijk w^i = L_j (H w)_k - Gamma_kij w^i - s_kji w^i
        star = of("coriolis_matrix", q, w, chosen=_STAR)
        matrix = _derivative_of_mass_product(of, q, w) - (
            2.0 * star - of("coriolis_matrix", q, w, chosen=chosen) if chosen != _STAR else star
        )
        changes.append(matrix @ v_dot)
        changes += [-term for term in _lowered_bracket(of, q, v_dot, w)]
    if w_dot is not None:
        changes.append(of("coriolis_transpose_product", q, v, w_dot, chosen=chosen))
    return _sum(changes)


@_rule
def _mass_product(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    (q, x), (xi, x_dot) = at, along
    changes = [] if xi is None else [_derivative_of_mass_product(of, q, x) @ xi]
    return _sum(changes if x_dot is None else [*changes, of("mass_product", q, x_dot)])


@_rule
def _inverse_mass_product(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    (q, x), (xi, x_dot) = at, along
    changes = [] if x_dot is None else [x_dot]
    if xi is not None:
        changes.append(-_derivative_of_mass_product(of, q, of("inverse_mass_product", q, x)) @ xi)
    return of("inverse_mass_product", q, _sum(changes))


# --- dynamics ----------------------------------------------------------------------------------------------


@_rule
def _inverse_dynamics(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    (q, v, a), (xi, v_dot, a_dot) = at, along
    if xi is None:
        return _sum(_force_change(of, q, v, v_dot, a_dot))
    return _products(of("inverse_dynamics_derivatives", q, v, a), along)


@_rule
def _nonlinear_effects(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    (q, v), (xi, v_dot) = at, along
    if xi is None:
        return _sum(_force_change(of, q, v, v_dot, None))
    return _products(of("inverse_dynamics_derivatives", q, v, jnp.zeros_like(v)), (xi, v_dot))


@_rule
def _gravity(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    (q,), (xi,) = at, along
    nothing = jnp.zeros_like(xi)
    return of("inverse_dynamics_derivatives", q, nothing, nothing)[0] @ xi


@_rule
def _forward_dynamics(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    (q, v, tau), (xi, v_dot, tau_dot) = at, along
    if xi is None:
        change = [-force for force in _force_change(of, q, v, v_dot, None)]
        change += [] if tau_dot is None else [tau_dot]
        return of.weightless("inverse_mass_product", q, _sum(change))
    return _products(of("forward_dynamics_derivatives", q, v, tau), along)


@_rule
def _inverse_dynamics_derivatives(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    return _slopes_change(of("inverse_dynamics_second_derivatives", *at), along)


@_rule
def _forward_dynamics_derivatives(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    return _slopes_change(of("forward_dynamics_second_derivatives", *at), along)


@_rule
def _inverse_dynamics_hessian_product(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    return _hessian_change(of, "inverse_dynamics", at, along)


@_rule
def _forward_dynamics_hessian_product(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    return _hessian_change(of, "forward_dynamics", at, along)


# --- regressors --------------------------------------------------------------------------------------------


@_rule
def _regressor(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    (q, v, v_r, a_r), (xi, v_dot, r_dot, a_dot) = at, along
    zero = jnp.zeros_like(v)

    def moved(of: Recursions) -> jax.Array:
        force = _inverse_dynamics(of, (q, zero, a_r), (xi, None, None), ())
        return force + _coriolis_product(of, (q, v, v_r), (xi, None, None), _STAR)

    def added(*vectors: jax.Array) -> jax.Array:
        return of.weightless("regressor", q, *vectors)

    changes = [] if xi is None else [of_basis(moved, of)]
    if v_dot is not None:
        changes.append(_by_directions(lambda e: added(e, v_r, zero), v_dot))
    if r_dot is not None:
        changes.append(_by_directions(lambda e: added(v, e, zero), r_dot))
    if a_dot is not None:
        changes.append(_by_directions(lambda e: added(zero, zero, e), a_dot))
    return _sum(changes)


def _by_directions(function: Callable[[jax.Array], jax.Array], vector: jax.Array) -> jax.Array:
    """A linear function of a vector (n,), by its values along all axes: so it has a transpose."""
    return jnp.tensordot(vector, jax.vmap(function)(jnp.eye(len(vector))), 1)


@_rule
def _momentum_regressor(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    (q, v), (xi, v_dot) = at, along

    def moved(of: Recursions) -> jax.Array:
        momentum = _mass_product(of.weightless, (q, v), (xi, v_dot), ())
        rate = _coriolis_transpose_product(of, (q, v, v), (xi, v_dot, v_dot), _STAR)
        if xi is not None:
            rate = rate - _gravity(of, (q,), (xi,), ())
        return jnp.stack([momentum, rate])

    return of_basis(moved, of)


def of_basis(function: Callable[[Recursions], jax.Array], of: Recursions) -> jax.Array:
    """A function of a robot that is linear in its inertias, by its inertial parameters, (..., 10 N).

    A body whose only parameter is a first moment has no centre of mass, which kernels read. So a mass of
    1 kg is added to it, and what that makes is subtracted.
    """
    bodies = len(of.robot.body_names)
    units = np.eye(10)
    units[1:4, 0] = 1.0
    each = jax.vmap(lambda parameters: function(of.of_bodies(parameters)))(np.kron(np.eye(bodies), units))
    parts = each.reshape(bodies, 10, *each.shape[1:])
    parts = parts.at[:, 1:4].add(-parts[:, :1])
    return jnp.moveaxis(parts.reshape(each.shape), 0, -1)


# --- bodies ------------------------------------------------------------------------------------------------


@_rule
def _forward_kinematics(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    (q,), (xi,) = at, along
    twists = (of("body_jacobians", q) @ xi).reshape(-1, 6)
    return of("forward_kinematics", q) @ jax.vmap(_hat)(twists)


@_rule
def _frame_pose(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    (q,), (xi,) = at, along
    J = of("frame_jacobian", q, chosen=(*chosen, "body"))
    return of("frame_pose", q, chosen=chosen) @ _hat(J @ xi)


@_rule
def _frame_jacobian(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    (q,), (xi,) = at, along
    rates = jax.vmap(lambda e: of("frame_jacobian_rate", q, e, chosen=chosen))(jnp.eye(len(xi)))
    return jnp.einsum("jab,j->ab", rates, xi)


@_rule
def _center_of_mass(of: Recursions, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    (q,), (xi,) = at, along
    return of("center_of_mass_jacobian", q) @ xi


# --- parts -------------------------------------------------------------------------------------------------


def _sum(terms: list[jax.Array]) -> jax.Array:
    total, *others = terms
    for term in others:
        total = total + term
    return total


def _products(matrices: jax.Array, along: tuple[Tangent, ...]) -> jax.Array:
    """The sum of matrices times tangents, as one product, because every product has a price of its own."""
    pairs = [(matrix, x) for matrix, x in zip(matrices, along, strict=False) if x is not None]
    wide, long = zip(*pairs, strict=True)
    return jnp.concatenate(wide, axis=1) @ jnp.concatenate(long)


def _force_change(of: Recursions, q: Vector, v: Vector, v_dot: Tangent, a_dot: Tangent) -> list[jax.Array]:
    """The changes of H a + C v + g with v and a, in O(N).

    C v is of degree two in v, and Gamma_ijk u^j v^k = Gamma_ijk v^j u^k + s_ijk u^j v^k.
    """
    changes = []
    if v_dot is not None:
        changes = [2.0 * of("coriolis_product", q, v, v_dot), *_lowered_bracket(of, q, v_dot, v)]
    return changes if a_dot is None else [*changes, of.weightless("mass_product", q, a_dot)]


def _slopes_change(second: jax.Array, along: tuple[Tangent, ...]) -> jax.Array:
    """The change of first derivatives (3, n, n) by second ones (4, n, n, n), of the dynamics."""
    (qq, vq, vv, xq), (xi, v_dot, x_dot) = second, along
    nothing = jnp.zeros(qq.shape[:2])
    in_q = [] if xi is None else [qq @ xi]
    in_q += [] if v_dot is None else [jnp.einsum("ikj,k->ij", vq, v_dot)]
    in_q += [] if x_dot is None else [jnp.einsum("ikj,k->ij", xq, x_dot)]
    in_v = [] if xi is None else [vq @ xi]
    in_v += [] if v_dot is None else [vv @ v_dot]
    return jnp.stack([_sum(in_q), _sum(in_v) if in_v else nothing, nothing if xi is None else xq @ xi])


def _hessian_change(of: Recursions, dynamics: str, at: Any, along: Any) -> jax.Array:
    """The change of a Hessian product, which is linear in the weights."""
    (*x, w), (*x_dot, w_dot) = at, along
    changes = []
    if w_dot is not None:
        changes.append(jnp.einsum("bijk,i->bjk", of(f"{dynamics}_second_derivatives", *x), w_dot))
    if any(each is not None for each in x_dot):
        name = f"{dynamics}_hessian_product"
        changes.append(by_definition(name, of, (*x, w), (*x_dot, None), ()))
    return _sum(changes)


def _lowered_bracket(of: Recursions, q: Vector, v: Vector, w: Vector) -> list[jax.Array]:
    """s_ijk v^j w^k with a lower first index, in a list that is empty if it is zero."""
    if not of.brackets:
        return []
    return [of.weightless("mass_product", q, _bracket(of, v, w))]


def _bracket(of: Recursions, v: Vector, w: Vector) -> jax.Array:
    """s^m_jk v^j w^k, (n,), joint by joint."""
    bracket = jnp.zeros_like(v)
    for own, s in of.brackets:
        bracket = bracket.at[own].set(jnp.einsum("mjk,j,k->m", s, v[own], w[own]))
    return bracket


def brackets_of(of: Recursions, n: int) -> np.ndarray:
    """s^m_jk, (n, n, n)."""
    whole = np.zeros((n, n, n))
    for own, s in of.brackets:
        whole[own, own, own] = s
    return whole


def _derivative_of_mass_product(of: Recursions, q: Vector, x: Vector) -> jax.Array:
    """(n, n): the derivative of (H x)_k along X_j, [k, j]."""
    derivatives: jax.Array = of.weightless("inverse_dynamics_derivatives", q, jnp.zeros_like(x), x)[0]
    return derivatives


def _derivative_of_quadratic_force(of: Recursions, q: Vector, v: Vector) -> jax.Array:
    """P(v)_il, (n, n): the derivative of Gamma_ijk v^j v^k along X_l."""
    derivatives: jax.Array = of.weightless("inverse_dynamics_derivatives", q, v, jnp.zeros_like(v))[0]
    return derivatives


def _symmetric(of: Recursions, q: Vector, v: Vector, w: Vector) -> jax.Array:
    """(n, n): the derivative of Gamma_i(jk) v^j w^k, symmetric in j and k, along X_l."""
    sizes = [jnp.linalg.norm(jax.lax.stop_gradient(x)) for x in (v, w)]
    # By factors that make both vectors of one size, neither is lost in the other's round-off.
    factor = jnp.where((sizes[0] > 0.0) & (sizes[1] > 0.0), jnp.sqrt(sizes[1] / sizes[0]), 1.0)
    v, w = v * factor, w / factor
    return (_derivative_of_quadratic_force(of, q, v + w) - _derivative_of_quadratic_force(of, q, v - w)) / 4.0


def _coriolis_change(of: Recursions, q: Vector, v: Vector, xi: Vector, chosen: Chosen) -> jax.Array:
    """The change of C(q, v) (n, n) along xi."""
    if not of.robot.closed and len(xi) ** 4 <= _FEWER:
        return jnp.einsum("ijk,j->ik", of("christoffel_derivatives", q, chosen=chosen) @ xi, v)
    moved = jax.vmap(lambda e: _symmetric(of, q, v, e) @ xi)(jnp.eye(len(xi))).T
    if of.brackets:
        moved = moved + _mass_change(of, q, xi) @ jnp.einsum("mjk,j->mk", brackets_of(of, len(v)), v) / 2.0
    return (
        moved if chosen == _STAR else moved - jnp.einsum("ijk,j->ik", _torsion_change(of, q, xi, chosen), v)
    )


def _moved(
    of: Recursions, function: Callable[..., jax.Array], at: tuple[Vector, ...], along: tuple[Tangent, ...]
) -> jax.Array:
    """The change of a function of (q, vectors...), which is made of other recursions, along tangents."""
    (q, *vectors), (xi, *others) = at, along
    q_dot = jnp.zeros_like(q) if xi is None else of.robot.frame.matrix_at(q) @ xi
    changes = [jnp.zeros_like(x) if d is None else d for x, d in zip(vectors, others, strict=True)]
    change: jax.Array
    _, change = jax.jvp(function, (q, *vectors), (q_dot, *changes))
    return change


def _mass_change(of: Recursions, q: Vector, xi: Vector) -> jax.Array:
    """The change of H (n, n) along xi."""
    C = jnp.einsum("ijk,j->ik", of("christoffel_symbols", q, chosen=_STAR), xi)
    return C + C.T


def _torsion_change(of: Recursions, q: Vector, xi: Vector, chosen: Chosen) -> jax.Array:
    """The change of D (n, n, n) along xi: of the least Gamma by that of H, otherwise by its definition."""
    if chosen == _LEAST:
        return least_contorsion_of(_mass_change(of, q, xi), brackets_of(of, len(xi)))
    change: jax.Array
    direction = of.robot.frame.matrix_at(q) @ xi
    _, change = jax.jvp(lambda p: body_contorsion_at(of.robot, p), (q,), (direction,))
    return change


def _hat(twist: jax.Array) -> jax.Array:
    """The matrix (4, 4) of a twist [omega; v]: a pose T that moves with it has the rate T times this."""
    x, y, z, *v = twist
    zero = jnp.zeros_like(x)
    return jnp.stack(
        [
            jnp.stack([zero, -z, y, v[0]]),
            jnp.stack([z, zero, -x, v[1]]),
            jnp.stack([-y, x, zero, v[2]]),
            jnp.stack([zero, zero, zero, zero]),
        ]
    )


def by_definition(name: str, of: Recursions, at: Any, along: Any, chosen: Any) -> jax.Array:
    """The derivative of the definition of the recursion `name`."""
    (q, *vectors), (xi, *others) = at, along
    q_dot = jnp.zeros_like(q) if xi is None else of.robot.frame.matrix_at(q) @ xi
    tangents = [
        jnp.zeros_like(x) if x_dot is None else x_dot for x, x_dot in zip(vectors, others, strict=True)
    ]
    robot = of.robot
    change: jax.Array
    _, change = jax.jvp(lambda *x: DEFINITIONS[name](robot, *x, *chosen), tuple(at), (q_dot, *tangents))
    return change
