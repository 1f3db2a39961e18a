"""Displacements: exp, its derivative, its inverse and transport, on groups and along any geodesics."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import systems
from scipy.linalg import expm

import connections as cn
from connections import affine
from connections.estimation.displacements import (
    GroupDisplacements,
    displacements_of,
    transport_along_at,
)
from connections.estimation.spaces import Phase, linearized_at
from connections.evaluation.parameters import PytreePartial
from connections.geometry.group_maps import adjoint_of_exponential_at, little_adjoint_at

UPPER = np.zeros((3, 2, 2))  # of the matrices of two rows with determinant one
UPPER[0, 0, 0], UPPER[0, 1, 1], UPPER[1, 0, 1], UPPER[2, 1, 0] = 1.0, -1.0, 1.0, 1.0
GROUPS = {
    "SO3": cn.SO3Frame(),
    "SE2": cn.SE2Frame(),
    "SE3": cn.SE3Frame(),
    "matrices": cn.MatrixLieGroup(UPPER),
    "right": cn.MatrixLieGroup(UPPER, invariant="right"),
    "product": cn.ProductFrame(cn.SO3Frame(), cn.CoordinateFrame(2), cn.SO2Frame()),
}


def point(name):
    """A point of a group, not its unit."""
    return GROUPS[name].sample_at(jnp.linspace(-0.9, 0.7, GROUPS[name].ambient_dim))


BY_DEFAULT = ("SE3", "product")  # a product of SO3
NAMES = [name if name in BY_DEFAULT else pytest.param(name, marks=pytest.mark.further) for name in GROUPS]


@partial(jax.jit, static_argnums=1)
def of_groups(errors, names):
    """Of each group: D exp, the same by derivatives of the entries, exp(ad), the error again, transports."""
    found: dict[str, dict[str, jax.Array]] = {}
    for name in names:
        group = GROUPS[name]
        own, q, e = GroupDisplacements(group), point(name), errors[name]
        p, slope, _ = own.moved_at(q, e)
        rates = jax.jacfwd(lambda x, own=own, q=q: own.moved_at(q, x)[0])(e)
        member = affine.CartanSchoutenConnection(group, 0.2)
        found[name] = {
            "slope": slope,
            "by entries": group.dual_at(p) @ rates,
            "adjoint": adjoint_of_exponential_at(group, e),
            "ad": little_adjoint_at(group, e),
            "again": own.difference_at(q, p),
            "transport": own.transport_at(member, q, e),
        }
        if name not in BY_DEFAULT:
            torsion_free = affine.CartanSchoutenConnection(group)
            found[name]["along"] = transport_along_at(torsion_free, member, q, e, 40)[0]
    return found


@pytest.fixture(scope="module")
def errors():
    rng = np.random.default_rng(3)
    return {name: 0.5 * rng.normal(size=group.dim) for name, group in GROUPS.items()}


@pytest.fixture
def found(errors, name):
    names = BY_DEFAULT if name in BY_DEFAULT else tuple(other for other in GROUPS if other not in BY_DEFAULT)
    return jax.tree_util.tree_map(np.asarray, of_groups(errors, names))


@pytest.mark.parametrize("name", NAMES)
def test_derivative_of_the_exponential_of_a_group(found, errors, name):
    own = found[name]
    series, term = np.eye(len(own["ad"])), np.eye(len(own["ad"]))
    for k in range(1, 30):
        term = -term @ own["ad"] / (k + 1)
        series = series + term
    assert np.allclose(own["slope"], series, atol=1e-13)
    assert np.allclose(own["slope"], own["by entries"], atol=1e-12)
    assert np.abs(own["slope"] - expm(own["ad"]) @ series).max() > 0.05  # the derivative from the other side
    assert np.allclose(own["again"], errors[name], atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_transport_by_a_member_on_a_group(found, name):
    """exp(-(1/2 + beta) ad), also by the differential equation of transport, and not with the other sign."""
    own = found[name]
    assert np.allclose(own["adjoint"], expm(own["ad"]), atol=1e-13)
    assert np.allclose(own["transport"], expm(-0.7 * own["ad"]), atol=1e-12)
    assert np.allclose(own["transport"], own.get("along", own["transport"]), atol=1e-8)
    assert np.abs(own["transport"] - expm(-0.3 * own["ad"])).max() > 0.05


def test_small_turns_use_series_that_meet_the_closed_forms():
    sizes = np.array([1e-9, 0.0632, 0.0633, 3.0])
    axis = np.array([0.6, -0.48, 0.64])
    slopes = jax.jit(jax.vmap(lambda x: GroupDisplacements(GROUPS["SE3"]).moved_at(point("SE3"), x)[1]))(
        np.concatenate([sizes[:, None] * axis, np.tile([[0.3, 0.1, -0.2]], (4, 1))], axis=1)
    )
    for size, slope in zip(sizes, np.asarray(slopes), strict=True):
        ad = np.asarray(little_adjoint_at(GROUPS["SE3"], jnp.array([*(size * axis), 0.3, 0.1, -0.2])))
        whole = np.block([[-ad, np.eye(6)], [np.zeros((6, 12))]])
        assert np.allclose(slope, expm(whole)[:6, 6:], atol=1e-13)


def test_connections_of_cartan_and_schouten():
    """T = 2 beta s, R = (beta^2 - 1/4) [[., .], .]; flat for 1/2; a frame that is no group's is refused."""
    group, q = cn.SE3Frame(), point("SE3")
    s = np.asarray(group.structure_functions(q))
    nested = np.einsum("lmk,mij->lkij", s, s)
    for beta in (-0.5, 0.0, 0.3):
        nabla = affine.CartanSchoutenConnection(group, beta)
        assert np.allclose(nabla.torsion(q), 2.0 * beta * s)
        assert np.allclose(nabla.curvature(q), (beta**2 - 0.25) * nested)
    assert np.abs(nested).max() > 0.5
    with pytest.raises(TypeError, match="group"):
        affine.CartanSchoutenConnection(systems.GENERAL.frame)


# --- any connection ---------------------------------------------------------------------------------------


GENERAL = systems.GENERAL  # torsion, no metric, a frame with qdot != v
E = np.array([0.25, -0.2, 0.3])
Q = np.array([0.1, -0.2, 0.15])


@pytest.fixture(scope="module")
def general():
    """moved, found again, and transports, of the connection and of its torsion-free part."""

    @jax.jit
    def of(q, e):
        found = []
        for nabla in (GENERAL, cn.torsion_free_part(GENERAL)):
            own = displacements_of(nabla, 8)
            p, slope, gap = own.moved_at(q, e)
            found.append((p, slope, gap, own.difference_at(q, p), own.transport_at(nabla, q, e)))
        return found

    return jax.tree_util.tree_map(np.asarray, of(Q, E))


def test_geodesics_and_their_derivative(general):
    """By the library's integrator; torsion changes neither, but does change transport."""
    (p, slope, gap, again, Pi), (p_free, slope_free, _, _, Pi_free) = general
    q, _, Phi = cn.geodesic_flow(GENERAL, Q, E, [0.0, 1.0])
    assert np.allclose(p, q[-1], atol=1e-6) and np.allclose(slope, Phi[-1][:3, 3:], atol=1e-5)
    assert np.allclose(again, E, atol=1e-10)
    off = np.abs(np.asarray(GENERAL.frame.velocity_at(q[-1], p - q[-1]))).max()
    assert 0.1 * off < np.abs(gap).max() < 1e-5  # what it says of its own error
    assert np.allclose(p, p_free, atol=1e-12) and np.allclose(slope, slope_free, atol=1e-12)
    assert np.abs(Pi - Pi_free).max() > 1e-2
    assert np.abs(slope - np.eye(3)).max() > 1e-2 and np.abs(slope - Pi_free).max() > 1e-3


def test_transport_along_the_geodesic(general):
    z = np.stack(
        [cn.transport_flow(GENERAL, Q, E, column, [0.0, 1.0])[1][-1] for column in np.eye(3)], axis=1
    )
    assert np.allclose(general[0][4], z, atol=1e-6)


# --- points with velocities -------------------------------------------------------------------------------


def arm_metric(q):
    c = jnp.cos(q[1])
    return jnp.array([[3.0 + 2.0 * c, 1.0 + c], [1.0 + c, 1.0]])


@pytest.mark.further
def test_points_with_velocities_and_the_derivative_of_their_displacement():
    """The displaced velocity is transported; the derivative by differences, with the part of curvature."""
    change = lambda q: jnp.array([[1.0, 0.3 * q[0]], [0.0, 1.2]])  # noqa: E731 - so that qdot != v
    frame = cn.CoordinateFrame(2).change(change)
    arm = cn.MechanicalSystem(cn.MatrixMetric(frame, lambda q: change(q).T @ arm_metric(q) @ change(q)))
    space = Phase(arm, PytreePartial(linearized_at, arm), np.eye(2), 12)
    x, e = (np.array([0.4, 0.9]), np.array([0.5, -0.8])), np.array([0.2, -0.25, 0.3, 0.4])

    step = np.concatenate([np.zeros((1, 4)), 1e-5 * np.eye(4), -1e-5 * np.eye(4)])
    (q, v), slopes, _ = jax.jit(jax.vmap(lambda e: space.moved_at(x, e)))(e + step)
    q, v, slope = np.asarray(q), np.asarray(v), slopes[0]
    eta = (q[1:5] - q[5:]) / 2e-5 @ np.asarray(frame.dual_at(q[0])).T
    w = (v[1:5] - v[5:]) / 2e-5 + np.einsum("ijk,cj,k->ci", arm.connection.coefficients(q[0]), eta, v[0])
    assert np.allclose(slope, np.concatenate([eta, w], axis=1).T, atol=1e-6)
    assert (
        np.abs(slope[2:, :2]).max() > 1e-3
    )  # curvature turns velocities; Pi on both parts has nothing there
    q_exact, z, _ = cn.transport_flow(arm.connection, x[0], e[:2], x[1] + e[2:], [0.0, 1.0])
    assert np.allclose(q[0], q_exact[-1], atol=1e-7) and np.allclose(v[0], z[-1], atol=1e-7)
