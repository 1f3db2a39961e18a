"""`RecursiveConnection` against the definition: values, derivatives, motions, errors, devices."""

import threading
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always
from mechanisms import configuration_rate, derivative_along, random_body, random_placement
from scipy.integrate import solve_ivp

import connections as cn
from connections import multibody as mb
from connections.checks import FrameError, NonFiniteError, PointError, ShapeError
from connections.multibody import functions

TOL = 1e-11


def close(ours, definition, tol=TOL):
    ours, definition = np.asarray(ours), np.asarray(definition)
    assert ours.shape == definition.shape
    np.testing.assert_allclose(ours, definition, rtol=0, atol=tol * max(np.max(np.abs(definition)), 1e-3))


@pytest.fixture(scope="module")
def model():
    """A universal joint on a free body: qdot != v, and Phi that depends on the configuration."""
    rng = np.random.default_rng(5)
    mechanism = mb.Mechanism()
    for name in ("base", "leg"):
        mechanism.add_body(name, **random_body(rng))
    mechanism.add_joint("root", "world", "base", mb.Free())
    mechanism.add_joint("hip", "base", "leg", mb.Universal((1, 0, 0), (0.3, 1, 0.2)), random_placement(rng))
    return mechanism.build()


@pytest.fixture(scope="module")
def nabla(model):
    return model.connection


def samples(model, rng, *shape):
    q = np.stack([model.random(rng) for _ in range(int(np.prod(shape)))]).reshape(*shape, model.nq)
    return q, *rng.standard_normal((2, *shape, model.nv))


# --- values -------------------------------------------------------------------------------------------


def test_values(model, nabla, rng):
    q, v, w = samples(model, rng, 2, 3)
    definition = model.definition.connection
    close(nabla.metric.matrix(q), model.definition.metric.matrix(q))
    assert np.ptp(nabla.metric.matrix(q), axis=0).max() > 1e-2  # control: others at other configurations
    close(nabla.coefficients(q), definition.coefficients(q))
    close(nabla.apply(q, v, w), definition.apply(q, v, w))
    close(nabla.apply(q[0, 0], v, w[0]), nabla.apply(np.broadcast_to(q[0, 0], q.shape), v, w[0]))
    assert nabla.apply(q[:0], v[:0], w[:0]).shape == (0, 3, model.nv)


def test_lowered(model, nabla, rng):
    q, v, w = samples(model, rng, 1)
    product = mb.coriolis_product(model, q[0], v[0], w[0])
    for metric in (nabla.metric, model.definition.metric):
        close(jax.jit(partial(nabla.lowered_at, metric))(q[0], v[0], w[0]), product)
    other = cn.MatrixMetric(model.frame, lambda p: 2.0 * model.definition.metric.matrix_at(p))
    close(nabla.lowered_at(other, *map(jnp.asarray, (q[0], v[0], w[0]))), 2.0 * product)


def test_coriolis_matrix_is_the_recursion_s(model, nabla, rng):
    q, v, _ = samples(model, rng, 4)
    close(cn.coriolis_matrix(nabla, q, v, nabla.metric), mb.coriolis_matrix(model, q, v))
    close(nabla.first_kind(q, nabla.metric), mb.christoffel_symbols(model, q))


@pytest.mark.further
def test_it_is_levi_civita(nabla, model, rng):
    q, _, _ = samples(model, rng, 3)
    nabla.check_torsion_free(q).require()
    nabla.check_metric_compatible(q, nabla.metric).require()


def test_gravity_does_not_enter(model, nabla, rng):
    q, v, w = samples(model, rng, 1)
    heavy = model.with_gravity((3.0, -4.0, 50.0)).connection
    close(heavy.apply(q, v, w), nabla.apply(q, v, w), 1e-15)


@pytest.mark.further
def test_curvature_of_all_kinds(model, nabla, rng):
    """Tensor, products, planes, Ricci, and the curvature in the linearization; control: another metric."""
    q, v, w = samples(model, rng, 2)
    u, definition, metric = rng.standard_normal(v.shape), model.definition.connection, model.definition.metric
    R = definition.curvature(q)
    close(nabla.curvature(q), R)
    expected = np.einsum("blkij,bi,bj,bk->bl", R, u, v, w)
    close(nabla.apply_curvature(q, u, v, w), expected, 1e-10)
    close(nabla.apply_curvature(q, u, 1e6 * v, 1e-6 * w), expected, 1e-10)
    planes = definition.sectional(q, u, v, metric)
    close(nabla.sectional(q, u, v), planes, 1e-10)
    close(nabla.sectional(q, u, v), mb.curvatures.sectional_curvature(model, q, u, v), 1e-11)
    other = cn.MatrixMetric(model.frame, lambda p: 2.0 * model.definition.metric.matrix_at(p))
    close(nabla.sectional(q, u, v, other), planes / 2.0, 1e-10)
    close(nabla.ricci(q), mb.curvatures.ricci(model, q), 1e-10)
    along = jax.jit(nabla.curvature_along_at)(q[0], v[0])
    close(along, np.einsum("lkij,k,j->li", R[0], v[0], v[0]), 1e-10)


@pytest.mark.further
@pytest.mark.parametrize(
    "name",
    always(
        ["christoffel_derivatives", "coriolis_matrix_rate", "curvature", "curvature_operator"],
        "coriolis_matrix_rate",
        "curvature_operator",
    ),
)
def test_derivatives_of_second_derivatives(name, model, rng):
    """Both modes against differences of the recursion; control: without the change of q."""
    q, v, a = (x[0] for x in samples(model, rng, 1))
    x = (q, v, a)[: {"curvature_operator": 2, "coriolis_matrix_rate": 3}.get(name, 1)]
    function = partial(getattr(functions, name), model)
    along = rng.standard_normal((len(x), model.nv))
    tangent = (configuration_rate(model, q, along[0]), *along[1:])

    @jax.jit
    def both(x, tangent):
        value, slope = jax.jvp(function, x, tangent)
        weights = jnp.cos(1.0 + jnp.arange(value.size)).reshape(value.shape)
        pull = jax.vjp(function, *x)[1](weights)
        return slope, jnp.vdot(weights, slope), sum(map(jnp.vdot, pull, tangent))

    slope, forwards, backwards = both(x, tangent)
    expected = derivative_along(model, lambda p: function(p, *x[1:]), q, along[0])
    for k in range(1, len(x)):  # of degree two, so that central differences are exact
        ends = [function(*(y + h * along[k] if i == k else y for i, y in enumerate(x))) for h in (0.5, -0.5)]
        expected = expected + ends[0] - ends[1]
    close(slope, expected, 1e-8)
    assert abs(forwards - backwards) < 1e-9 * np.abs(slope).sum()
    still = jax.jit(lambda x: jax.jvp(function, x, (0.0 * q, *along[1:]))[1])(x)
    assert np.max(np.abs(still - expected)) > 1e-2 * np.max(np.abs(expected))


# --- derivatives --------------------------------------------------------------------------------------


@pytest.mark.further
def test_derivatives_are_the_definition_s(model, nabla, rng):
    q, v, w = (a[0] for a in samples(model, rng, 1))
    change = model.frame.matrix(q) @ rng.standard_normal(model.nv), *rng.standard_normal((2, model.nv))

    def both(connection):
        def run(*arguments):
            forward = jax.jvp(connection.apply_at, arguments, change)[1]
            backward = jax.grad(lambda a, b, c: jnp.sum(connection.apply_at(a, b, c) ** 2), (0, 1, 2))
            in_q, *others = backward(*arguments)  # in q along the frame: quaternions keep their length
            return forward, model.frame.matrix_at(arguments[0]).T @ in_q, others

        return jax.jit(run)(q, v, w)

    for ours, definition in zip(
        *map(jax.tree.leaves, map(both, (nabla, model.definition.connection))), strict=True
    ):
        close(ours, definition)


def test_slopes_of_geodesics(model, nabla, rng):
    """By one recursion, against differences of -Gamma(v, v) along the frame and by v; gravity is no part."""
    q, v, _ = (a[0] for a in samples(model, rng, 1))
    along, in_v = (np.asarray(each) for each in jax.jit(nabla.geodesic_slopes_at)(q, v))
    one = np.eye(model.nv)
    close(along.T, [derivative_along(model, lambda p: -nabla.apply(p, v, v), q, e) for e in one], 1e-8)
    close(in_v.T, [-nabla.apply(q, v, e) - nabla.apply(q, e, v) for e in one])
    falling = mb.forward_dynamics_derivatives(model, q, v, 0.0 * v)[0]
    assert np.max(np.abs(falling - along)) > 1e-2 * np.max(np.abs(along))


@pytest.mark.further
def test_accelerations_are_the_definition_s(model, rng):
    """Values, derivatives in both modes, and second ones, which are not by recursion."""
    q, v, tau = (a[0] for a in samples(model, rng, 1))
    xi, *change = rng.standard_normal((3, model.nv))

    def every(system):
        def run(q, v, tau):
            def along(s):
                return system.forward_dynamics_at(
                    model.frame.retract_at(q, s * xi), v + s * change[0], tau + s * change[1]
                )

            backward = jax.grad(lambda a, b, c: jnp.sum(system.forward_dynamics_at(a, b, c) ** 2), (0, 1, 2))
            in_q, *others = backward(q, v, tau)
            first = jax.jacfwd(along)
            return along(0.0), first(0.0), jax.jacfwd(first)(0.0), model.frame.matrix_at(q).T @ in_q, others

        return jax.tree.leaves(jax.jit(run)(q, v, tau))

    expected = every(model.definition.system)
    for ours, definition in zip(every(model.system()), expected, strict=True):
        close(ours, definition)
    lighter = model.with_gravity((0.0, 0.0, -3.0)).system().forward_dynamics(q, v, tau)
    assert np.abs(lighter - expected[0]).max() > 1e-2  # negative control


@pytest.mark.further
def test_gradient_of_a_motion_under_control(model, rng):
    """Against differences of what the host integrates by other compiled code."""
    q, v, push = (a[0] for a in samples(model, rng, 1))
    times = np.array([0.0, 0.2])

    def end(v):
        _, speeds = model.system().simulate(q, v, times, control=lambda t, q, v: push * jnp.cos(t) - 0.3 * v)
        return speeds[-1] @ push

    h, slope = 1e-3, np.asarray(jax.grad(end)(v))
    for one, found in zip(np.eye(model.nv), slope, strict=True):
        near, far = (float(end(v + k * h * one) - end(v - k * h * one)) / (2.0 * k * h) for k in (1, 2))
        assert found == pytest.approx((4.0 * near - far) / 3.0, rel=1e-6, abs=1e-7)


def test_curvature(model, nabla, rng):
    q, _, _ = samples(model, rng, 2)
    close(nabla.curvature(q), model.definition.connection.curvature(q))


def test_covariant_derivative_of_a_field(model, nabla, rng):
    q, v, _ = samples(model, rng, 1)

    def field(p):
        return jnp.sin(p[: model.nv])

    def constant(p):
        return jnp.asarray(v[0])

    expected = v[0] @ model.frame.lie_derivative(field, q[0]) + nabla.apply(q[0], v[0], field(q[0]))
    close(nabla.covariant_derivative(constant, field, q[0]), expected)


# --- motions ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def motions(model, nabla):
    """Times (5,), and points and velocities (3, 5, ...) of three free motions."""
    q, v, _ = samples(model, np.random.default_rng(6), 3)
    times = np.linspace(0.0, 0.5, 5)
    return times, *map(np.asarray, cn.geodesic(nabla, q, v, times))


@pytest.mark.further
def test_geodesics(model, motions):
    times, q, v = motions
    expected = cn.geodesic(model.definition.connection, q[1, 0], v[1, 0], times)
    close(q[1], expected[0], 1e-8)
    close(v[1], expected[1], 1e-8)
    energy = np.einsum("bti,btij,btj->bt", v, mb.mass_matrix(model, q), v)
    np.testing.assert_allclose(energy, energy[:, :1] * np.ones(5), rtol=1e-8)


def transported(model, q, v, z, duration):
    """z after `duration` along the free motion from (q, v), by SciPy: zdot = -H^-1 C(q, v) z."""
    free, n = model.with_gravity((0.0, 0.0, 0.0)), model.nv

    def rate(t, state):
        q, v, z = np.split(state, [model.nq, model.nq + n])
        q = np.concatenate([q[:3], q[3:7] / np.linalg.norm(q[3:7]), q[7:]])
        z_dot = -np.linalg.solve(mb.mass_matrix(model, q), mb.coriolis_product(model, q, v, z))
        return np.concatenate([model.frame.matrix(q) @ v, mb.forward_dynamics(free, q, v, 0.0 * v), z_dot])

    start = np.concatenate([q, v, z])
    return solve_ivp(rate, (0.0, duration), start, "DOP853", rtol=1e-10, atol=1e-10).y[-n:, -1]


@pytest.mark.further
def test_transport(model, nabla, motions, rng):
    times, q, v = motions
    w, ends = rng.standard_normal(model.nv), times[[0, -1]]
    moved = cn.parallel_transport(nabla, (times, q[0]), w, ends)
    close(
        moved[1], transported(model, q[0, 0], v[0, 0], w, times[-1]), 1e-6
    )  # q here is a spline through 5 points
    H = mb.mass_matrix(model, q[0, [0, -1]])
    length = np.einsum("ti,tij,tj->t", moved, H, moved)
    assert length[1] == pytest.approx(length[0], rel=1e-8)


def test_mechanical_system_swings_like_the_definition_s(model, nabla, rng):
    q, v, tau = samples(model, rng, 2)
    system = cn.MechanicalSystem(nabla.metric, potential=model.potential, connection=nabla)
    close(system.forward_dynamics(q, v, tau), mb.forward_dynamics(model, q, v, tau), 1e-10)


# --- input and surroundings ---------------------------------------------------------------------------


def test_errors(model, nabla, rng):
    q, v, w = (a[0] for a in samples(model, rng, 1))
    long = q.copy()
    long[3:7] *= 1.01
    with pytest.raises(PointError, match="norm 1.01"):
        nabla.coefficients(long)
    with pytest.raises(NonFiniteError, match="v"):
        nabla.apply(q, v * np.nan, w)
    with pytest.raises(ShapeError, match="w"):
        nabla.apply(q, v, w[:-1])
    with pytest.raises(FrameError):
        nabla.first_kind(q, cn.ConstantMetric(cn.CoordinateFrame(model.nv), np.eye(model.nv)))


def test_one_bad_row_of_a_traced_batch_is_nan(model, nabla, rng):
    q, v, w = samples(model, rng, 5)
    q[2, 0] = np.inf
    q[3, 3:7] *= 2.0
    values = np.asarray(jax.jit(jax.vmap(nabla.apply_at))(q, v, w))
    assert np.isnan(values).all(axis=1).tolist() == [False, False, True, True, False]


def test_calls_at_the_same_time(model, nabla, rng):
    """The operation and the NumPy recursions share no workspace."""
    q, v, w = samples(model, rng, 200)
    expected = np.asarray(nabla.apply(q, v, w))
    wrong = []

    def compare():
        for _ in range(20):
            if not np.allclose(nabla.apply(q, v, w), expected, rtol=1e-12, atol=1e-12):  # to round-off
                wrong.append("apply")

    threads = [threading.Thread(target=compare) for _ in range(3)]
    for thread in threads:
        thread.start()
    reference = mb.coriolis_product(model, q[0], v[0], w[0])
    for _ in range(2000):
        assert np.array_equal(mb.coriolis_product(model, q[0], v[0], w[0]), reference)
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(("platform", "foreign"), [("cpu", True), ("cuda", False)])
def test_other_devices_get_the_definition(model, nabla, rng, platform, foreign):
    from jax import export

    q, v, w = (jnp.asarray(a[0]) for a in samples(model, rng, 1))
    exporting = export.export(
        jax.jit(nabla.apply_at), platforms=[platform], disabled_checks=mb.codegen.export_checks()
    )
    assert ("foreign_call" in exporting(q, v, w).mlir_module()) is foreign
