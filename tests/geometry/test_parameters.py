"""What is a number and what is structure: sharing of what is compiled, and derivatives by parameters."""

import functools
import gc
import pickle
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import connections as cn
from connections.affine import levi_civita
from connections.geometry import compilation
from connections.geometry.parameters import take_apart

Q = np.array([0.1, 0.2, 0.3, 0.4])
FRAME = cn.CoordinateFrame(4)


def stretched(q, parameters):
    """A metric with two parameters."""
    return jnp.diag(
        jnp.array([1.0, parameters["m"] + jnp.sin(q[0]) ** 2, 3.0, 2.0 + parameters["r"] ** 2 * q[1] ** 2])
    )


def metric_of(m, r=1.0):
    return cn.MatrixMetric(FRAME, stretched, {"m": m, "r": r})


def shares(first, second) -> bool:
    return take_apart(first)[0] is take_apart(second)[0]


@pytest.mark.parametrize(
    "make",
    [
        lambda x: metric_of(x),
        lambda x: cn.ContorsionFamily(metric_of(2.0)).connection(x * np.ones(4)),
        lambda x: cn.LeviCivita(metric_of(x)).change(np.tanh),
        lambda x: cn.ConstantMetric(FRAME, x * np.eye(4)),
        lambda x: cn.MechanicalSystem(metric_of(x), potential=lambda_of),
        lambda x: functools.partial(stretched, parameters={"m": x, "r": 2.0}),
        lambda x: (functools.partial(lambda_of, x), {}, (), [], None),
        lambda x: cn.MatrixFrame(lambda_of, 4, 4, parameters=x),
    ],
)
def test_other_numbers_are_the_same_structure(make):
    assert shares(make(1.5), make(2.5))
    (structure, numbers), (_, others) = take_apart(make(1.5)), take_apart(make(2.5))
    assert not np.array_equal(numbers, others)
    np.testing.assert_array_equal(take_apart(structure.made_of(numbers))[1], numbers)


def lambda_of(q, parameters=1.0):
    return jnp.eye(4) * parameters


def test_other_structures_are_not_shared():
    assert not shares(cn.CoordinateFrame(2), cn.CoordinateFrame(3))
    assert not shares(metric_of(1.0), cn.MatrixMetric(FRAME, lambda q: jnp.eye(4)))
    assert not shares(
        cn.MatrixMetric(FRAME, lambda q: jnp.eye(4)), cn.MatrixMetric(FRAME, lambda q: jnp.eye(4))
    )
    family = cn.ContorsionFamily(metric_of(1.0))
    assert not shares(family.connection(np.ones(4)), family.connection(lambda q: jnp.ones(4)))
    assert not shares((1, 2.0), (True, 2.0))
    assert not shares(np.arange(3), np.arange(1, 4))


@pytest.mark.parametrize("a", [1.5, 2.5])
def test_functions_of_one_code_share(a):
    """What a user's function closes over is data; what it looks up is compared."""
    first, second = (cn.MatrixMetric(FRAME, lambda q, b=b: (a + b) * jnp.eye(4)) for b in (1.0, 2.0))
    assert shares(first, second)
    np.testing.assert_allclose(second.matrix(Q), (a + 2.0) * np.eye(4))
    np.testing.assert_allclose(first.matrix(Q), (a + 1.0) * np.eye(4))


SCALE, SCALES = 2.0, {"m": [2.0]}


class Holder:
    power = 1.0

    def __init__(self):
        self.scale = 2.0


HOLDER = Holder()


def helper():
    return SCALE * SCALES["m"][0] * HOLDER.scale**Holder.power


def of_globals(q):
    return helper() * jnp.eye(4)


def test_what_functions_look_up_may_change(monkeypatch):
    """A new object of a function sees the present values of global names, however deep they are."""
    assert float(cn.MatrixMetric(FRAME, of_globals).matrix(Q)[0, 0]) == 8.0
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert float(cn.MatrixMetric(FRAME, of_globals).matrix(Q)[0, 0]) == 12.0
    monkeypatch.setitem(SCALES, "m", [3.0])
    assert float(cn.MatrixMetric(FRAME, of_globals).matrix(Q)[0, 0]) == 18.0
    monkeypatch.setattr(Holder, "power", 2.0)
    assert float(cn.MatrixMetric(FRAME, of_globals).matrix(Q)[0, 0]) == 36.0
    monkeypatch.setattr(HOLDER, "scale", 1.0)
    assert float(cn.MatrixMetric(FRAME, of_globals).matrix(Q)[0, 0]) == 9.0
    monkeypatch.setitem(globals(), "helper", lambda: 5.0)
    assert float(cn.MatrixMetric(FRAME, of_globals).matrix(Q)[0, 0]) == 5.0


def test_definitions_that_are_replaced(monkeypatch):
    """A method of a class, and a function that methods call."""

    def symbols():
        return cn.LeviCivita(metric_of(2.0)).coefficients(Q)

    right = symbols()
    with monkeypatch.context() as patch:
        patch.setattr(cn.LeviCivita, "coefficients_at", lambda self, q: jnp.ones((4, 4, 4)))
        np.testing.assert_array_equal(symbols(), 1.0)
    with monkeypatch.context() as patch:
        low = levi_civita.christoffel_first_kind
        patch.setattr(levi_civita, "christoffel_first_kind", lambda metric, q: 2.0 * low(metric, q))
        np.testing.assert_allclose(symbols(), 2.0 * right, rtol=1e-14)
    np.testing.assert_array_equal(symbols(), right)


def test_functions_that_keep_a_state():
    """Each such function is itself: what it changes is seen by whoever made it."""
    for _ in range(2):
        calls, count = [], 0

        def noted(q, seen=calls):
            seen.append(1)
            return jnp.eye(4)

        def counted(q):
            nonlocal count
            count += 1
            return jnp.eye(4)

        for function in (noted, counted):
            cn.MatrixMetric(FRAME, function).matrix(Q)
        assert count > 0 and calls


def test_what_is_one_object_stays_one():
    nabla = cn.LeviCivita(metric_of(2.0))
    structure, numbers = take_apart((nabla, nabla.metric, nabla.torsion_at))
    again, metric, method = structure.made_of(numbers)
    assert again.metric is metric and method.__self__ is again and again.frame is metric.frame
    assert numbers.shape == (2,)


def test_values_of_members_that_share():
    """Against members whose numbers are in their code."""
    for m in (1.5, 2.5):
        beta = m * np.arange(4.0)
        written = cn.MatrixMetric(FRAME, lambda q, m=m: stretched(q, {"m": m, "r": 1.0}))
        expected = cn.ContorsionFamily(written).connection(lambda q, beta=beta: jnp.asarray(beta))
        found = cn.ContorsionFamily(metric_of(m)).connection(beta)
        np.testing.assert_allclose(found.torsion(Q), expected.torsion(Q), rtol=0, atol=1e-15)
        np.testing.assert_allclose(found.curvature(Q), expected.curvature(Q), rtol=0, atol=1e-14)
        assert found.check_metric_compatible(metric_of(m), Q).ok
        assert not found.check_metric_compatible(metric_of(m + 1.0), Q).ok


def test_derivative_by_parameters():
    def scalar(m):
        return cn.LeviCivita(metric_of(m)).curvature(Q + 0.5)[0, 1, 0, 1]

    exact, h = float(jax.grad(scalar)(1.5)), 1e-5
    assert exact == pytest.approx(float(scalar(1.5 + h) - scalar(1.5 - h)) / (2.0 * h), rel=1e-7)
    assert abs(exact) > 0.01
    np.testing.assert_allclose(
        jax.vmap(scalar)(jnp.array([1.5, 2.0])), [scalar(1.5), scalar(2.0)], rtol=1e-14
    )


def test_derivative_by_an_object():
    """Connections are pytrees: the derivative by one is one, whose numbers are derivatives."""
    family = cn.ContorsionFamily(metric_of(2.0))
    nabla = family.connection(np.arange(4.0))
    slope = jax.grad(lambda connection: connection.torsion(Q)[0, 1, 2])(nabla)
    h, direction = 1e-5, np.array([1.0, 0.0, 0.0, 0.0])
    sides = [
        float(family.connection(np.arange(4.0) + s * h * direction).torsion(Q)[0, 1, 2]) for s in (1, -1)
    ]
    assert slope.contorsion_function.beta[0] == pytest.approx((sides[0] - sides[1]) / (2.0 * h), rel=1e-9)
    stacked = jax.tree_util.tree_map(lambda x: jnp.stack([x, 2.0 * x]), nabla)
    T = jax.vmap(lambda connection: connection.torsion_at(jnp.asarray(Q)))(stacked)
    np.testing.assert_allclose(T[0], nabla.torsion(Q), rtol=1e-14)


def test_jit_of_objects():
    nabla = cn.LeviCivita(metric_of(2.0))
    found = jax.jit(lambda connection, q: connection.contorsion(connection.metric, q))(nabla, Q)
    np.testing.assert_allclose(found, 0.0, atol=1e-15)


def test_frames_that_are_traced():
    """Of a traced connection and a traced metric, the structures of the frames are compared."""

    def of(frame):
        return cn.LeviCivita(cn.ConstantMetric(frame, np.eye(4)))

    nabla, other = of(cn.MatrixFrame(lambda_of, 4, 4, parameters=2.0)), of(FRAME)
    contorsion = jax.jit(lambda connection, metric: connection.contorsion(metric, Q))
    np.testing.assert_allclose(contorsion(nabla, nabla.metric), 0.0, atol=1e-15)
    with pytest.raises(cn.FrameError):
        contorsion(nabla, other.metric)
    assert nabla.frame == cn.MatrixFrame(lambda_of, 4, 4, parameters=2.0)
    assert nabla.frame != cn.MatrixFrame(lambda_of, 4, 4, parameters=3.0)


def test_definitions_that_need_their_numbers():
    """NumPy and branches on an object's own numbers are compiled for these numbers, and right."""

    class Branching(cn.Metric):
        def __init__(self, mass):
            self.frame, self.mass = FRAME, mass

        def matrix_at(self, q):
            scale = np.sqrt(self.mass) if self.mass > 1.0 else float(self.mass)
            return scale * jnp.eye(4) * (1.0 + q[0] ** 2)

    for mass in (4.0, 0.5, 9.0):
        scale = np.sqrt(mass) if mass > 1.0 else mass
        np.testing.assert_allclose(Branching(mass).matrix(Q), scale * 1.01 * np.eye(4), rtol=1e-15)
        np.testing.assert_allclose(
            Branching(mass).matrix(Q[None]), scale * 1.01 * np.eye(4)[None], rtol=1e-15
        )


def test_parameters_are_numbers():
    function = cn.ParametricFunction(stretched, {"m": 2, "r": np.arange(2)})
    assert type(function.parameters["m"]) is float and function.parameters["r"].dtype == np.float64
    with pytest.raises(TypeError, match="expected a function"):
        cn.ParametricFunction(3.0, 1.0)


def test_unused_functions_are_forgotten():
    """What was compiled for objects that are gone is kept for the most recent ones only."""
    gone = []
    for _ in range(compilation.RECENT + 3):
        metric = cn.MatrixMetric(FRAME, lambda q: jnp.eye(4))
        metric.matrix(Q)
        gone.append(weakref.ref(metric))
    del metric
    gc.collect()
    assert not any(reference() for reference in gone)
    assert compilation._shared.cache_info().currsize <= compilation.RECENT


def test_pickle_leaves_out_what_is_derived():
    metric = cn.ConstantMetric(FRAME, 2.0 * np.eye(4))
    metric.matrix(Q)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(metric)).matrix(Q), 2.0 * np.eye(4))
