"""Deviation of motions: left-trivialized against covariant, in a frame with qdot != v and with torsion."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import systems
from cases import further

import connections as cn
from connections.affine.motions.deviation import _flow_units, deviation_map_at


def push(t, q, v):
    """An acceleration that depends on time, point and velocity."""
    return jnp.stack([jnp.sin(q[0]) * v[1], t * q[1] - 0.3 * v[0], jnp.cos(q[2]) - v[2] * v[0]])


def with_torsion_and_nonmetricity(q):
    """D (3, 3, 3) without any symmetry."""
    return 0.3 * jnp.sin(q[0] + jnp.arange(27.0)).reshape(3, 3, 3)


GENERAL = cn.ContorsionConnection(systems.METRIC, with_torsion_and_nonmetricity)


@pytest.mark.parametrize(
    ("nabla", "force"),
    [
        further(systems.LEVI_CIVITA, None, id="riemannian, free"),
        further(systems.LEVI_CIVITA, push, id="riemannian, forced"),
        further(GENERAL, None, id="general, free"),
        pytest.param(GENERAL, push, id="general, forced"),
    ],
)
def test_covariant_and_left_trivialized(nabla, force, rng):
    """A_cov = (Mdot + M A) M^-1 along the motion."""
    q, v, t = 0.3 * rng.normal(size=3), rng.normal(size=3), 0.7
    A = cn.linearize(nabla, q, v, force, t)
    M = cn.affine.deviation_map(nabla, q, v)

    def M_of(state):
        return deviation_map_at(nabla, *state)

    v_dot = -nabla.apply(q, v, v) + (0.0 if force is None else push(t, q, v))
    M_dot = jax.jvp(M_of, ((q, v),), ((nabla.frame.matrix(q) @ v, v_dot),))[1]
    expected = (M_dot + M @ A) @ jnp.linalg.inv(M)
    covariant = cn.affine.covariant_linearization(nabla, q, v, force, t)
    np.testing.assert_allclose(covariant, expected, atol=1e-11)
    if nabla is GENERAL:  # control: the torsion forgotten
        wrong = jnp.asarray(covariant).at[:3, :3].add(-jnp.einsum("ijk,j->ik", nabla.torsion(q), v))
        assert np.max(np.abs(wrong - expected)) > 1e-2


def test_jacobi_on_the_sphere():
    """Neighbouring great circles: eta = sin t across, for unit speed; and the flow at every time."""
    times = np.linspace(0.0, 1.2, 5)
    q, v, Phi = cn.geodesic_flow(
        systems.SPHERE_ORTHONORMAL_NABLA, np.array([np.pi / 2, 0.2]), np.array([0.0, 1.0]), times
    )
    np.testing.assert_allclose(Phi[:, 0, 2], np.sin(times), atol=1e-9)
    np.testing.assert_allclose(q[:, 1], 0.2 + times, atol=1e-9)


def test_sizes_of_a_flow_are_those_of_its_blocks(rng):
    """By a longer unit of time, velocities at the start move points farther, and points velocities less."""
    q, v, q0 = 0.3 * rng.normal(size=(3, 3))
    nabla, blocks = systems.LEVI_CIVITA, np.ones((3, 3))
    sizes = [np.asarray(_flow_units(nabla, q0, T, q, v, jnp.eye(6))[-1]) for T in (2.0, 2.0 * 1e6)]
    np.testing.assert_allclose(sizes[1] / sizes[0], np.kron([[1.0, 1e6], [1e-6, 1.0]], blocks), rtol=1e-12)
    now, then = (np.sqrt(np.diag(nabla.metric.matrix(p))) for p in (q, q0))
    ratio = then / now[:, None]  # of a field that keeps its length
    np.testing.assert_allclose(sizes[0], np.kron([[1.0, 2.0], [0.5, 1.0]], ratio), rtol=1e-12)


@pytest.mark.parametrize("force", [further(None), push], ids=["free", "forced"])
def test_flow_is_the_derivative_of_the_motion(force, rng):
    """Phi against central differences of geodesics in q0 along the frame and in v0."""
    nabla, times = GENERAL, np.array([0.0, 0.6])
    q0, v0 = 0.2 * rng.normal(size=3), rng.normal(size=3)
    frame, direction, h = nabla.frame, rng.normal(size=6), 1e-4
    q, _, Phi = cn.geodesic_flow(nabla, q0, v0, times, force)
    starts = [
        (np.asarray(frame.retract_at(q0, s * h * direction[:3])), v0 + s * h * direction[3:]) for s in (1, -1)
    ]
    ends = [cn.geodesic(nabla, *start, times, force) for start in starts]
    d_q, d_v = ((np.asarray(a[-1]) - np.asarray(b[-1])) / (2 * h) for a, b in zip(*ends, strict=True))
    change = np.concatenate([np.linalg.solve(frame.matrix(q[-1]), d_q), d_v])
    np.testing.assert_allclose(Phi[-1] @ direction, change, atol=2e-6)
    assert np.max(np.abs(np.asarray(Phi[-1]).T @ direction - change)) > 1e-2  # control: transposed


@pytest.mark.further
def test_transport_flow_is_the_derivative_of_the_transport(rng):
    """Z against central differences of vectors transported along neighbouring geodesics."""
    nabla, times = GENERAL, np.array([0.0, 0.6])
    q0, v0, z0 = 0.2 * rng.normal(size=3), rng.normal(size=3), rng.normal(size=3)
    frame, direction, h = nabla.frame, rng.normal(size=6), 1e-4
    _, _, Z = cn.transport_flow(nabla, q0, v0, z0, times)
    ends = []
    for s in (h, -h):
        start = np.asarray(frame.retract_at(q0, s * direction[:3])), v0 + s * direction[3:]
        ends.append(np.asarray(cn.transport_flow(nabla, *start, z0, times)[1][-1]))
    np.testing.assert_allclose(Z[-1] @ direction, (ends[0] - ends[1]) / (2 * h), atol=2e-6)


def test_flows_between_their_times(rng):
    """As flows that are asked for these times; backwards and in batches."""
    q0, v0, z0 = 0.2 * rng.normal(size=(2, 3)), rng.normal(size=3), rng.normal(size=3)
    times, t = np.array([0.0, -0.3, -0.6]), np.array([-0.6, -0.2])
    nabla = systems.SPHERE_ORTHONORMAL_NABLA
    starts = np.array([1.0, 0.2]) + q0[:, :2], v0[:2]
    for flow, more in ((cn.geodesic_flow, ()), (cn.transport_flow, (z0[:2],))):
        found, exact = flow(nabla, *starts, *more, times), flow(nabla, *starts, *more, [0.0, -0.2, -0.6])
        assert len(found) == len(found.at(t)) == 3
        for part, expected, kept in zip(found.at(t), exact, found, strict=True):
            np.testing.assert_allclose(part, expected[:, [2, 1]], atol=1e-9)
            np.testing.assert_allclose(part[:, 0], kept[:, 2], atol=1e-9)
            assert np.abs(part[:, 0] - part[:, 1]).max() > 1e-3  # control
