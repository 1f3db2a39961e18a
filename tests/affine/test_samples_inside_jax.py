"""Samples inside `jit` and under derivatives: values of the host, slopes by differences, NaN for errors."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always, further
from scipy.interpolate import make_interp_spline

import connections as cn
from connections.checks import ShapeError
from connections.control import ClosedLoop, PassivityController, trajectory_reference
from connections.geometry.rigid.rotations import quaternion_exponential
from connections.geometry.splines import traced_spline

PLANE, SO3 = cn.CoordinateFrame(2), cn.SO3Frame()
POLAR = cn.MatrixMetric(PLANE, lambda q: jnp.diag(jnp.stack([1.0 + 0.0 * q[0], q[0] ** 2])))
NABLA = cn.LeviCivita(POLAR)
T = np.linspace(0.0, 1.0, 9)
ENDS = np.array([0.0, 0.5, 1.0])
POINTS = np.stack([2.0 + np.sin(T), T**2], axis=1)
Z = np.array([1.0, 0.5])


def slopes(function, x, h=1e-4):
    """Derivatives of a number by the entries of x, by differences of fourth order."""
    found = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        one = np.zeros_like(x)
        one[at] = h
        near, far = (float(function(x + k * one) - function(x - k * one)) / (2.0 * k * h) for k in (1, 2))
        found[at] = (4.0 * near - far) / 3.0
    return found


@pytest.mark.parametrize("count", always([2, 3, 4, 5, 6, 7, 8, 20], 3, 20))
def test_the_spline_is_scipys(count, rng):
    t = np.cumsum(rng.uniform(0.5, 1.0, count))
    q = rng.standard_normal((count, 2))
    knots, pieces = jax.jit(traced_spline)(t, q)
    degree = min(5, (count - 2) // 2 * 2 + 1)
    x = np.linspace(t[0], t[-1], 50)
    ours = np.asarray(jax.vmap(lambda s: cn.geometry.curves.SplinePath(None)(s, pieces, knots))(x))
    np.testing.assert_allclose(ours, make_interp_spline(t, q, degree)(x), rtol=0, atol=1e-10)
    assert np.isnan(jax.jit(traced_spline)(t[::-1], q)[1]).all()


def carried(times, points):
    return cn.parallel_transport(NABLA, (times, points), Z, ENDS)


def test_transport_along_traced_samples():
    expected = carried(T, POINTS)
    assert np.abs(expected[-1] - Z).max() > 0.1
    np.testing.assert_allclose(jax.jit(carried)(T, POINTS), expected, rtol=0, atol=1e-10)


@pytest.mark.further
def test_what_is_traced_of_samples():
    """Points or times or neither, by `vmap`, as a `SampledCurve` that is made inside."""
    expected = carried(T, POINTS)
    for function in (
        jax.jit(lambda t, q: carried(T, q)),
        jax.jit(lambda t, q: carried(t, POINTS)),
        jax.jit(lambda t, q: carried(T, POINTS)),
        jax.jit(lambda t, q: cn.parallel_transport(NABLA, cn.SampledCurve(PLANE, t, q), Z, ENDS)),
    ):
        np.testing.assert_allclose(function(T, POINTS), expected, rtol=0, atol=1e-10)
    many = np.stack([POINTS, POINTS + [0.3, 0.0]])
    each = [carried(T, points) for points in many]
    np.testing.assert_allclose(jax.jit(jax.vmap(carried, (None, 0)))(T, many), each, rtol=0, atol=1e-10)


@pytest.mark.further
def test_derivatives_by_samples():
    """In both modes, by points and by times; and beside samples that are constant, by parameters."""

    def end(points):
        return carried(T, points)[-1, 0]

    expected = slopes(jax.jit(end), POINTS)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(jax.jit(jax.grad(end))(POINTS), expected, rtol=0, atol=1e-6)
    along = jax.jit(lambda q, rate: jax.jvp(end, (q,), (rate,))[1])(POINTS, POINTS[::-1])
    assert float(along) == pytest.approx(np.sum(expected * POINTS[::-1]), abs=1e-6)

    @jax.jit
    def by_times(inner):
        times = jnp.concatenate([jnp.zeros(1), inner, jnp.ones(1)])
        return cn.SampledCurve(PLANE, times, POINTS)(0.43)[0]

    by_all_times = jax.jit(jax.grad(by_times))(T[1:-1])
    np.testing.assert_allclose(by_all_times, slopes(by_times, T[1:-1]), rtol=0, atol=1e-7)

    def by_parameter(a):
        metric = cn.MatrixMetric(PLANE, lambda q, a: jnp.diag(jnp.stack([1.0 + a * q[1] ** 2, q[0] ** 2])), a)
        return cn.parallel_transport(cn.LeviCivita(metric), (T, POINTS), Z, ENDS)[-1, 0]

    slope = jax.jit(jax.grad(by_parameter))(0.3)
    assert float(slope) == pytest.approx(slopes(by_parameter, np.array(0.3)), abs=1e-7)


@pytest.mark.further
def test_quaternions():
    """Signs do not matter, and samples off the manifold are NaN where the host names them."""
    points = np.asarray(jax.vmap(lambda t: quaternion_exponential(t * jnp.array([3.0, 1.0, 2.0])))(T))
    flipped = points * np.where(np.arange(len(T)) % 2, 1.0, -1.0)[:, None]
    nabla = cn.LeviCivita(cn.ConstantMetric(SO3, np.diag([1.0, 2.0, 3.0])))
    function = jax.jit(lambda q: cn.parallel_transport(nabla, (T, q), np.ones(3), ENDS))
    expected = cn.parallel_transport(nabla, (T, points), np.ones(3), ENDS)
    for q in (points, flipped):
        np.testing.assert_allclose(function(q), expected, rtol=0, atol=1e-10)
    assert np.isnan(function(points * np.where(T > 0.9, 1.5, 1.0)[:, None])).any(axis=1).all()


@pytest.mark.further
def test_holonomy_and_fields_of_traced_samples():
    t = np.linspace(0.0, 2.0 * np.pi, 41)
    loop = np.stack([2.0 + 0.5 * np.cos(t), 0.3 * np.sin(t)], axis=1)
    sphere = cn.LeviCivita(
        cn.MatrixMetric(PLANE, lambda q: jnp.diag(jnp.stack([1.0 + 0.0 * q[0], jnp.sin(q[0]) ** 2])))
    )
    around = jax.jit(lambda t, q: cn.holonomy(sphere, (t, q)))
    expected = cn.holonomy(sphere, (t, loop))
    assert np.abs(expected - np.eye(2)).max() > 0.1
    np.testing.assert_allclose(around(t, loop), expected, rtol=0, atol=1e-9)
    assert np.isnan(around(t[:-1], loop[:-1])).all()

    field = np.stack([T, T**2], axis=1)
    reading = jax.jit(lambda q, z: cn.covariant_derivative_along(NABLA, (T, q), (T, z), ENDS))
    np.testing.assert_allclose(
        reading(POINTS, field),
        cn.covariant_derivative_along(NABLA, (T, POINTS), (T, field), ENDS),
        rtol=0,
        atol=1e-10,
    )


@pytest.mark.further
def test_a_reference_by_traced_samples():
    """A closed loop that follows samples: values, slopes, and NaN beyond the last one."""
    plant = cn.MechanicalSystem(POLAR)

    def motion(points, times=ENDS):
        reference = trajectory_reference(PLANE, (T, points), 2.0)
        return ClosedLoop(plant, PassivityController(plant, 3.0), reference).simulate(POINTS[0], Z, times).q

    expected = motion(POINTS)
    np.testing.assert_allclose(jax.jit(motion)(POINTS), expected, rtol=0, atol=1e-8)
    beyond = jax.jit(lambda q: motion(q, np.array([0.0, 0.5, 1.5])))(POINTS)
    np.testing.assert_allclose(beyond[:2], expected[:2], rtol=0, atol=1e-8)
    assert np.isnan(beyond[2]).all()

    def end(shift):
        return motion(POINTS + shift * jnp.asarray(T)[:, None])[-1, 0]

    assert float(jax.grad(end)(0.1)) == pytest.approx(slopes(end, np.array(0.1)), abs=1e-6)


def test_shapes_are_refused_while_tracing():
    with pytest.raises(ShapeError, match="curve"):
        jax.jit(carried)(T[:-1], POINTS)
    with pytest.raises(ShapeError, match="curve"):
        jax.jit(carried)(T, POINTS[:, :1])


COUNT = """
import numpy as np
import jax
import connections as cn
from connections.control import ClosedLoop, PassivityController, trajectory_reference

compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, *rest, **more: compiled.append(name) if "backend_compile_duration" in name else None
)
frame = cn.CoordinateFrame(2)
metric = cn.ConstantMetric(frame, np.diag([1.0, 2.0]))
nabla, body, ends = cn.LeviCivita(metric), cn.MechanicalSystem(metric), np.array([0.0, 0.5, 1.0])

def run(count):
    t = np.linspace(0.0, 1.0, count)
    q, z = np.stack([t, t**2], axis=1), np.stack([t, 1.0 - t], axis=1)
    cn.parallel_transport(nabla, (t, q), np.eye(2), ends)
    cn.covariant_derivative_along(nabla, (t, q), (t, z), ends)
    cn.SampledCurve(frame, t, q)(0.3)
    loop = ClosedLoop(body, PassivityController(body, 2.0), trajectory_reference(frame, (t, q), 1.0))
    loop.simulate(q[0], z[0], ends)

counts = []
for count in (13, 2, 5, 40, 64, 65):
    run(count)
    counts.append(len(compiled))
print(*counts)
"""


@pytest.mark.further
def test_another_number_of_samples_compiles_nothing():
    """Up to 64 samples; one more is the negative control."""
    done = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True)
    first, *others, beyond = map(int, done.stdout.split())
    assert first > 0 and set(others) == {first} and beyond > first


OTHER_FRAME = """
import sys
import numpy as np
import connections as cn
from connections.checks import FrameError

t = np.linspace(0.0, 1.0, 7)
plane, turned = cn.CoordinateFrame(2), cn.MatrixFrame(lambda q: np.eye(2)[::-1], 2, 2)
nabla = cn.LeviCivita(cn.ConstantMetric(plane, np.eye(2)))
own, other = (cn.SampledCurve(frame, t, np.stack([t, t], axis=1)) for frame in (plane, turned))

def call(curve):
    try:
        cn.parallel_transport(nabla, curve, np.ones(2), [0.0, 1.0])
        return "right"
    except FrameError:
        return "FrameError"

print(*[call({"own": own, "other": other}[name]) for name in sys.argv[1:]])
"""


@pytest.mark.parametrize("order", [("own", "other"), further(("other", "own")), further(("other", "other"))])
def test_a_curve_of_another_frame_is_refused(order):
    """In a new process, whatever was called before."""
    arguments = [sys.executable, "-c", OTHER_FRAME, *order]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [{"own": "right", "other": "FrameError"}[name] for name in order]
