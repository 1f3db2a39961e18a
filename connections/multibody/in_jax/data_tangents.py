"""Derivatives of the recursions by data: inertial parameters, gravity, armature.

What is linear in the inertias is a sum of forces, and forces are the regressor's:

    Y(q, v, v_r, a_r) pi = H a_r + C(q, v) v_r + g,

so dH e_k = Y(q, 0, 0, e_k) dpi and dC e_k = Y(q, v, e_k, 0) dpi without gravity, and the inverse dynamics has
the derivative Y(q, v, v, a). Of a = H^-1 (tau - C v - g), da = -H^-1 Y(q, v, v, a) dpi: what data change acts
as a change of the force tau. Derivatives of forces along the frame are the same recursion of a basis of
inertias (`tangents.of_basis`).
Source: [W] IV-A; Slotine and Li 1987.
"""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from connections.multibody.definition.recursions import (
    DEFINITIONS,
    contorsion_of_inertias_at,
    least_contorsion_of,
    spatial_inertias,
)
from connections.multibody.in_jax.tangents import Recursions, Tangent, Vector, brackets_of, of_basis
from connections.multibody.program.table import RECURSIONS

Chosen = tuple[Any, ...]
_STAR, _LEAST = ("christoffel",), ("least",)


class OfData(Recursions, Protocol):
    """The recursions of a robot whose numbers are data."""

    @property
    def data(self) -> tuple[jax.Array, ...]:
        """Parameters (10 N,), gravity (3,), armature (nv_s,)."""

    def of_armature(self, armature: jax.Array) -> OfData:
        """The recursions of bodies without inertia and with another armature (nv_s,)."""

    def under(self, gravity: jax.Array) -> OfData:
        """The recursions under another gravity (3,)."""

    def of_data(self, *data: jax.Array) -> OfData:
        """The recursions with other data, in the order of `data`."""


def by_data(
    name: str, of: OfData, at: tuple[Vector, ...], along: tuple[Tangent, ...], chosen: Chosen
) -> jax.Array:
    """The change of the recursion `name` with the data.

    Parameters
    ----------
    name : a key of `RECURSIONS`, or of `values.AT_REST`.
    of : the recursions.
    at : q and the vectors.
    along : tangents of parameters (10 N,), gravity (3,) and armature (nv_s,); None is zero.
    chosen : what the caller chooses.
    """
    if name in _OTHERS:
        return _OTHERS[name](of, at, along, chosen)
    if of.robot.closed and name in RECURSIONS and RECURSIONS[name].closed is None:
        return _by_definition(name)(of, at, along, chosen)
    parameters, gravity, armature = along
    changes = []
    if parameters is not None and name not in _REGRESSORS:
        changes.append(_by_parameters(name, of, at, chosen, parameters))
    if gravity is not None and name in _WEIGHTS:
        changes.append(jnp.tensordot(_WEIGHTS[name](of, at), gravity, axes=(0, 0)))
    if armature is not None and name not in _REGRESSORS:
        units = jnp.eye(len(armature))
        each = jax.vmap(lambda unit: of.of_armature(unit)(name, *at, chosen=chosen))(units)
        changes.append(jnp.tensordot(each, armature, axes=(0, 0)))
    return sum(changes[1:], changes[0]) if changes else jnp.zeros_like(of(name, *at, chosen=chosen))


#: What solves H a = force - ... for its result, and the force of that result.
AS_FORCES = {"forward_dynamics": "inverse_dynamics", "inverse_mass_product": "mass_product"}


def as_force(name: str, of: OfData, at: tuple[Vector, ...], along: tuple[Tangent, ...]) -> jax.Array:
    """The change of the last vector of a key of `AS_FORCES` that changes its result as the data do, (n,)."""
    return -by_data(AS_FORCES[name], of, (*at[:-1], of(name, *at)), along, ())


# --- by inertial parameters: the derivatives of what is linear in them --------------------------------------


def _by_parameters(
    name: str, of: OfData, at: tuple[Vector, ...], chosen: Chosen, tangent: jax.Array
) -> jax.Array:
    if name not in _FORCES:
        return of_basis(lambda of: of(name, *at, chosen=chosen), of) @ tangent
    change = _FORCES[name](of, *at) @ tangent
    if name in _TORSIONS and chosen != _STAR:
        q, *vectors = at
        if chosen == _LEAST:
            D = least_contorsion_of(_mass_columns(of, q) @ tangent, brackets_of(of, of.robot.nv))
        else:
            D = contorsion_of_inertias_at(of.robot, q, spatial_inertias(tangent))
        change = change - _TORSIONS[name](D, *vectors)
    return change


def _force(of: OfData, q: Vector, v: Vector, v_r: Vector, a_r: Vector) -> jax.Array:
    return of.weightless("regressor", q, v, v_r, a_r)


def _columns(of: OfData, q: Vector, v: Vector) -> jax.Array:
    """C(q, v) by parameters, (n, n, 10 N)."""
    zero = jnp.zeros_like(v)
    return jnp.moveaxis(jax.vmap(lambda e: _force(of, q, v, e, zero))(jnp.eye(len(v))), 0, 1)


def _mass_columns(of: OfData, q: Vector) -> jax.Array:
    n = of.robot.nv
    zero = jnp.zeros(n)
    return jnp.moveaxis(jax.vmap(lambda e: _force(of, q, zero, zero, e))(jnp.eye(n)), 0, 1)


def _rate(of: OfData, q: Vector, v: Vector) -> jax.Array:
    C = _columns(of, q, v)
    return C + jnp.swapaxes(C, 0, 1)


def _symbols(of: OfData, q: Vector) -> jax.Array:
    units = jnp.eye(of.robot.nv)
    return jnp.moveaxis(jax.lax.map(lambda e: _columns(of, q, e), units), 0, 1)


_FORCES: dict[str, Callable[..., jax.Array]] = {
    "inverse_dynamics": lambda of, q, v, a: of("regressor", q, v, v, a),
    "nonlinear_effects": lambda of, q, v: of("regressor", q, v, v, jnp.zeros_like(v)),
    "gravity": lambda of, q: of("regressor", q, *[jnp.zeros(of.robot.nv)] * 3),
    "mass_product": lambda of, q, x: _force(of, q, jnp.zeros_like(x), jnp.zeros_like(x), x),
    "coriolis_product": lambda of, q, v, w: _force(of, q, v, w, jnp.zeros_like(w)),
    "coriolis_transpose_product": lambda of, q, v, w: jnp.einsum("ikp,i->kp", _columns(of, q, v), w),
    "mass_matrix": _mass_columns,
    "coriolis_matrix": _columns,
    "mass_matrix_rate": _rate,
    "christoffel_symbols": _symbols,
}
#: What a contorsion D takes from each.
_TORSIONS: dict[str, Callable[..., jax.Array]] = {
    "coriolis_product": lambda D, v, w: jnp.einsum("ijk,j,k->i", D, v, w),
    "coriolis_transpose_product": lambda D, v, w: jnp.einsum("ijk,j,i->k", D, v, w),
    "coriolis_matrix": lambda D, v: jnp.einsum("ijk,j->ik", D, v),
    "christoffel_symbols": lambda D: D,
}


# --- by gravity: (3, *core), the recursion under a unit of gravity along each axis --------------------------


def _under_units(of: OfData, function: Callable[[Any], jax.Array]) -> jax.Array:
    return jax.vmap(lambda unit: function(of.under(unit)))(jnp.eye(3))


def _gravities(of: OfData, at: tuple[Vector, ...]) -> jax.Array:
    return _under_units(of, lambda of: of("gravity", at[0]))


def _at_rest(name: str, kept: int = 0) -> Callable[[OfData, tuple[Vector, ...]], jax.Array]:
    """Weights of gravity for the recursion `name`, whose first part alone has gravity, as at rest."""

    def weights(of: OfData, at: tuple[Vector, ...]) -> jax.Array:
        q, *vectors = at
        count = len(vectors) - kept
        still = [jnp.zeros_like(x) for x in vectors[:count]] + vectors[count:]
        parts = _under_units(of, lambda of: of(name, q, *still))
        return parts.at[:, 1:].set(0.0)

    return weights


def _regressor_weights(of: OfData, at: tuple[Vector, ...]) -> jax.Array:
    q, v, _, _ = at
    return _under_units(of, lambda of: of("regressor", q, *[jnp.zeros_like(v)] * 3))


def _momentum_weights(of: OfData, at: tuple[Vector, ...]) -> jax.Array:
    q, v = at
    return _under_units(of, lambda of: of("momentum_regressor", q, jnp.zeros_like(v)))


_WEIGHTS: dict[str, Callable[[OfData, tuple[Vector, ...]], jax.Array]] = {
    "inverse_dynamics": _gravities,
    "nonlinear_effects": _gravities,
    "gravity": _gravities,
    "regressor": _regressor_weights,
    "momentum_regressor": _momentum_weights,
    "inverse_dynamics_derivatives": _at_rest("inverse_dynamics_derivatives"),
    "inverse_dynamics_second_derivatives": _at_rest("inverse_dynamics_second_derivatives"),
    "inverse_dynamics_hessian_product": _at_rest("inverse_dynamics_hessian_product", 1),
}
_REGRESSORS = {"regressor", "momentum_regressor"}  # which contain no inertia


# --- what is not linear in the inertias ---------------------------------------------------------------------


def _inverse_mass_matrix(of: OfData, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    inverse = of("inverse_mass_matrix", *at)
    return -inverse @ by_data("mass_matrix", of, at, along, ()) @ inverse


def _forward_dynamics_derivatives(of: OfData, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    """The change of F = [-H^-1 dtau/dq, -H^-1 dtau/dv, H^-1] with the data.

    H F is -dtau, so F changes by -H^-1 (dH F + change of dtau). With the acceleration, dtau/dq changes by
    (L_j H_ik) adot^k, L_j H_ik = Gamma_ijk + Gamma_kji.
    """
    q, v, _ = at
    F, a = of("forward_dynamics_derivatives", *at), of("forward_dynamics", *at)
    a_dot = of.weightless("inverse_mass_product", q, as_force("forward_dynamics", of, at, along))
    in_q, in_v, in_a = by_data("inverse_dynamics_derivatives", of, (q, v, a), along, ())
    Gamma = of("christoffel_symbols", q)
    in_q = in_q + jnp.einsum("ijk,k->ij", Gamma, a_dot) + jnp.einsum("kji,k->ij", Gamma, a_dot)
    return -F[2] @ (in_a @ F + jnp.stack([in_q, in_v, jnp.zeros_like(in_a)]))


def _center_of_mass(of: OfData, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    q, (parameters, _, _) = at[0], along
    if parameters is None:
        return jnp.zeros(3)
    poses = of("forward_kinematics", q)
    return _by_masses(
        of,
        parameters,
        of("center_of_mass", q),
        lambda m, h: jnp.einsum("bij,bj->i", poses[:, :3, :3], h) + m @ poses[:, :3, 3],
    )


def _center_of_mass_jacobian(of: OfData, at: Any, along: Any, chosen: Chosen) -> jax.Array:
    """A mass at r of a body moves with v + w x r, in its axes."""
    q, (parameters, _, _) = at[0], along
    J = of("center_of_mass_jacobian", q)
    if parameters is None:
        return jnp.zeros_like(J)
    R, A = of("forward_kinematics", q)[:, :3, :3], of("body_jacobians", q).reshape(-1, 6, J.shape[1])

    def moment(m: jax.Array, h: jax.Array) -> jax.Array:
        rates = m[:, None, None] * A[:, 3:] + jnp.cross(A[:, :3], h[:, :, None], axis=1)
        return jnp.einsum("bij,bjk->ik", R, rates)

    return _by_masses(of, parameters, J, moment)


def _by_masses(
    of: OfData, tangent: jax.Array, mean: jax.Array, moment: Callable[[jax.Array, jax.Array], jax.Array]
) -> jax.Array:
    """The change of a mean by mass, moment(m, h) / sum of m."""
    masses, (m, h) = (
        of.data[0].reshape(-1, 10)[:, 0],
        (tangent.reshape(-1, 10)[:, 0], tangent.reshape(-1, 10)[:, 1:4]),
    )
    return (moment(m, h) - jnp.sum(m) * mean) / jnp.sum(masses)


def _by_definition(name: str) -> Callable[..., jax.Array]:
    def rule(of: OfData, at: Any, along: Any, chosen: Chosen) -> jax.Array:
        return _moved(of, lambda *data: DEFINITIONS[name](of.of_data(*data).robot, *at, *chosen), along)

    return rule


_OTHERS: dict[str, Callable[..., jax.Array]] = {
    "inverse_mass_matrix": _inverse_mass_matrix,
    "forward_dynamics_derivatives": _forward_dynamics_derivatives,
    "center_of_mass": _center_of_mass,
    "center_of_mass_jacobian": _center_of_mass_jacobian,
}
_OTHERS |= {
    name: _by_definition(name)
    for name in (
        "forward_dynamics_second_derivatives",
        "forward_dynamics_hessian_product",
        "curvature",
        "curvature_operator",
    )
}


def _moved(of: OfData, function: Callable[..., jax.Array], along: tuple[Tangent, ...]) -> jax.Array:
    """The change of a function of the data."""
    given = zip(of.data, along, strict=True)
    tangents = tuple(jnp.zeros_like(x) if d is None else d for x, d in given)
    return jax.jvp(function, of.data, tangents)[1]
