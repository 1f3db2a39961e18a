"""Motions of a batch are those of its members, whatever was asked before."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further
from mechanisms import MOVING, random_mechanism, sample

import connections as cn
from connections import multibody as mb
from connections.affine.motions import jax_motions as followed
from connections.checks import IntegrationError, MetricError, NonFiniteError, PointError, ShapeError
from connections.engines.inlined.simd import LANES
from connections.integration import driver

TIMES = np.array([0.0, 0.3, 0.35, 2.0])


@pytest.fixture
def nabla():
    """Torsion, and a frame with qdot != v."""
    frame = cn.MatrixFrame(lambda q: jnp.diag(1.0 + 0.3 * jnp.cos(q)) + 0.2 * jnp.eye(3, k=1), 3, 3)
    metric = cn.MatrixMetric(frame, lambda q: jnp.diag(jnp.array([1.0, 2.0 + jnp.sin(q[0]), 3.0])))
    return cn.ContorsionFamily(metric).connection([0.4])


def starts(rng, *batch):
    """Points and velocities; speeds from slow to fast, so that motions of one batch take other steps."""
    speed = 10.0 ** rng.uniform(-2.0, 0.5, (*batch, 1))
    return rng.uniform(-0.5, 0.5, (*batch, 3)), speed * rng.standard_normal((*batch, 3))


@pytest.mark.parametrize("count", [further(1), followed.FEW + 1, driver.WIDTH + 5])
def test_each_motion_is_the_one_of_its_start(nabla, rng, count):
    """More motions than places among them; forwards and backwards."""
    q, v = starts(rng, count)
    for times in (TIMES, -TIMES):
        points, velocities = cn.geodesic(nabla, q, v, times)
        for row in (0, count // 2, count - 1):
            one = cn.geodesic(nabla, q[row], v[row], times)
            np.testing.assert_allclose(points[row], one[0], atol=1e-13)
            np.testing.assert_allclose(velocities[row], one[1], atol=1e-13)


@pytest.mark.further
def test_axes_are_broadcast(nabla, rng):
    q, v = starts(rng, 2, 1)[0], starts(rng, 3)[1]
    points, _ = cn.geodesic(nabla, q, v, TIMES)
    assert points.shape == (2, 3, 4, 3) and isinstance(points, np.ndarray)
    np.testing.assert_allclose(points[1, 2], cn.geodesic(nabla, q[1, 0], v[2], TIMES)[0], atol=1e-13)
    np.testing.assert_array_equal(cn.geodesic(nabla, q, v, [0.5])[0][:, :, 0], np.broadcast_to(q, (2, 3, 3)))
    assert isinstance(cn.geodesic(nabla, jnp.asarray(q), v, TIMES)[0], jnp.ndarray)
    assert cn.geodesic(nabla, np.zeros((0, 3)), v[0], TIMES)[0].shape == (0, 4, 3)
    with pytest.raises(ShapeError, match="q0.*v0"):
        cn.geodesic(nabla, np.zeros((2, 3)), v, TIMES)


@pytest.mark.further
def test_the_same_call_gives_the_same_bits(nabla, rng):
    """Also after thousands of other motions."""
    q, v = starts(rng, 600)
    first = cn.geodesic(nabla, q, v, TIMES)
    for _ in range(4):
        again = cn.geodesic(nabla, q, v, TIMES)
        for one, other in zip(first, again, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.further
def test_clocks_far_from_zero(nabla, rng):
    """Motions, and transport along samples, from Unix time and beyond: the bits are those from zero."""
    q, v = starts(rng)
    t = np.linspace(0.0, 2.0, 21)
    curve = q + 0.2 * np.sin(t)[:, None]
    times = np.array([0.0, 0.25, 0.5, 2.0])
    expected = *cn.geodesic(nabla, q, v, times), cn.parallel_transport(nabla, (t, curve), v, times)
    for t0 in (1.7e9, 2.0**40):
        found = (*cn.geodesic(nabla, q, v, t0 + times),)
        for one, other in zip(found, expected[:2], strict=True):
            np.testing.assert_array_equal(one, other)
        exact = np.round(t * 2.0**10) / 2.0**10  # times that both clocks have
        ours, later = (
            cn.parallel_transport(nabla, (clock + exact, curve), v, clock + times) for clock in (0.0, t0)
        )
        np.testing.assert_allclose(later, ours, rtol=1e-12)
        np.testing.assert_allclose(ours, expected[2], atol=1e-3)
    with pytest.raises(PointError, match="times"):
        cn.parallel_transport(nabla, (t, curve), v, 1.7e9 + times)


@pytest.mark.further
def test_thrust_from_exact_rest(rng):
    """A thrust max(t - 0.3, 0): alone, in a batch, and a neighbour that moves all the time."""
    line = cn.ConstantMetric(cn.CoordinateFrame(1), np.eye(1))
    system = cn.MechanicalSystem(line, forces=lambda t, q, v: jnp.maximum(t - 0.3, 0.0)[None])
    q, v = system.simulate([0.0], [0.0], [0.0, 0.2, 1.0])
    np.testing.assert_allclose([q[-1, 0], v[-1, 0]], [0.7**3 / 6.0, 0.245], rtol=1e-10)
    together, _ = system.simulate(np.zeros((3, 1)), [[0.0], [1.0], [0.0]], [0.0, 0.2, 1.0])
    np.testing.assert_allclose(together[:, -1, 0], 0.7**3 / 6.0 + np.array([0.0, 1.0, 0.0]), rtol=1e-9)
    robot = random_mechanism(rng, 2, [mb.Prismatic]).system()  # by recursions, against the definition
    H = robot.mass_matrix(np.zeros(2))
    level = np.asarray(robot.gravity(np.zeros(2)))

    def thrust(t, q, v):
        return level + jnp.array([0.0, 1.0]) * jnp.maximum(t - 0.3, 0.0)

    _, v = robot.simulate(np.zeros(2), np.zeros(2), [0.0, 0.2, 1.0], thrust)
    np.testing.assert_allclose(v[-1], np.linalg.solve(H, [0.0, 0.245]), rtol=1e-9)
    inside = jax.jit(lambda v: system.simulate(jnp.zeros(1), v, jnp.array([0.0, 0.2, 1.0])))
    for drift in (1e-17, -3e-18, 1e-16):  # as round-off of what holds it up moves it
        _, v = system.simulate([0.0], [drift], [0.0, 0.2, 1.0])
        np.testing.assert_allclose(v[-1, 0], 0.245, rtol=1e-10)
        _, v = inside(np.array([drift]))
        np.testing.assert_allclose(v[-1, 0], 0.245, rtol=1e-10)


@pytest.mark.further
def test_max_step(rng):
    """A pulse of 20 ms in 100 s is found with it; what is no length of time is refused."""
    line = cn.ConstantMetric(cn.CoordinateFrame(1), np.eye(1))

    def pulse(t, q, v):
        return jnp.exp(-(((t - 50.0) / 0.01) ** 2))[None]

    system = cn.MechanicalSystem(line, forces=pulse)
    momentum = 0.01 * np.sqrt(np.pi)
    for motion in (
        lambda **most: system.simulate(np.zeros(1), np.zeros(1), [0.0, 100.0], **most),
        lambda **most: cn.geodesic(
            cn.LeviCivita(line), np.zeros(1), np.zeros(1), [0.0, 100.0], pulse, **most
        ),
    ):
        assert motion(max_step=0.02)[1][-1, 0] == pytest.approx(momentum, rel=1e-8)
        for wrong in (0.0, -1.0):
            with pytest.raises(ValueError, match="max_step"):
                motion(max_step=wrong)


@pytest.mark.further
def test_transport_along_samples(nabla, rng):
    """What does not begin at a point, and what has no state."""
    t, curves = (
        np.linspace(0.0, 2.0, 21),
        starts(rng, 3)[0][:, None] + 0.2 * np.sin(np.linspace(0, 2, 21))[:, None],
    )
    z = rng.standard_normal(3)
    carried = cn.parallel_transport(nabla, (t, curves), z, TIMES)
    slopes = cn.covariant_derivative_along(nabla, (t, curves), (t, curves), TIMES)
    for row in range(3):
        one = cn.parallel_transport(nabla, (t, curves[row]), z, TIMES)
        np.testing.assert_allclose(carried[row], one, atol=1e-12)
        one = cn.covariant_derivative_along(nabla, (t, curves[row]), (t, curves[row]), TIMES)
        np.testing.assert_allclose(slopes[row], one, atol=1e-12)


@pytest.mark.filterwarnings("ignore::connections.multibody.InertiaWarning")
@pytest.mark.parametrize("count", [2, LANES + 3, followed.WIDTH_OF_ROWS + 5])
def test_robots(rng, count):
    """Alone and in registers, with and without gravity; more motions than places; the same bits again."""
    model = random_mechanism(rng, 4, MOVING)
    q, v = sample(model, rng, count)
    v *= 10.0 ** rng.uniform(-2.0, 0.0, (count, 1))
    nabla, system = model.connection, model.system()
    for motion in (
        lambda *start: cn.geodesic(nabla, *start, 0.2 * TIMES),
        lambda *start: system.simulate(*start, -0.1 * TIMES),
    ):
        together = motion(q, v)
        assert together[0].shape == (count, 4, model.nq)
        for row in (0, count // 2, count - 1):
            for found, one in zip(together, motion(q[row], v[row]), strict=True):
                np.testing.assert_allclose(found[row], one, rtol=0, atol=1e-12)
        for found, again in zip(together, motion(q, v), strict=True):
            np.testing.assert_array_equal(found, again)


# --- what goes wrong -------------------------------------------------------------------------------------


@pytest.fixture
def half_line():
    """d/dq0 is a geodesic field of a metric that ends at q0 = 1."""
    metric = cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.diag(jnp.array([1.0, 1.0 - q[0]])))
    return cn.LeviCivita(metric)


def test_the_motion_that_leaves_is_told(half_line):
    """The second of three."""
    q, v = np.zeros((3, 2)), np.array([[0.1, 0.0], [1.0, 0.0], [0.2, 0.0]])
    with pytest.raises(IntegrationError, match=r"leaves the domain.* by t = 2.* beyond t = 1: .*definite"):
        cn.geodesic(half_line, q, v, [0.0, 0.5, 2.0])
    assert np.isfinite(cn.geodesic(half_line, q, v, [0.0, 0.5])[0]).all()


def test_a_start_outside_is_told(half_line):
    with pytest.raises(MetricError, match="q = .*2"):
        cn.geodesic(half_line, [[0.0, 0.0], [2.0, 0.0]], [1.0, 0.0], [0.0, 0.1])
    with pytest.raises(NonFiniteError, match="v0"):
        cn.geodesic(half_line, np.zeros((2, 2)), [[0.0, 0.0], [np.nan, 0.0]], [0.0, 0.1])


def test_a_start_off_the_manifold_is_told():
    frame = cn.SO3Frame()
    nabla = cn.LeviCivita(cn.ConstantMetric(frame, np.diag([1.0, 2.0, 3.0])))
    q = np.array([[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.1, 1.0]])
    with pytest.raises(PointError, match="q0.*norm"):
        cn.geodesic(nabla, q, np.ones(3), [0.0, 0.1])
    near = q[:1] * (1.0 + 1e-8)
    points, _ = cn.geodesic(nabla, near, np.ones(3), [0.0, 1.0])
    np.testing.assert_allclose(np.linalg.norm(points, axis=-1), 1.0, atol=1e-12)
