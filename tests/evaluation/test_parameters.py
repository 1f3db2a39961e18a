"""The contract of `jax.jit` for objects: numbers are data, functions are known by identity."""

import gc
import pickle
import types
import weakref
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import connections as cn
from connections.evaluation import compilation
from connections.evaluation.compilation import flattened
from connections.evaluation.parameters import Function, PytreePartial, kept

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
    return flattened(first)[0] is flattened(second)[0]


def scaled_identity(q, parameters=1.0):
    return jnp.eye(4) * parameters


def unit_beta(q):
    return jnp.ones(4)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: metric_of(x),
        lambda x: cn.ContorsionFamily(metric_of(2.0)).connection(x * np.ones(4)),
        lambda x: cn.LeviCivita(metric_of(x)).change(scaled_identity),
        lambda x: cn.ConstantMetric(FRAME, x * np.eye(4)),
        lambda x: cn.MechanicalSystem(metric_of(x), potential=scaled_identity),
        lambda x: cn.MatrixFrame(scaled_identity, 4, 4, parameters=x),
        lambda x: PytreePartial(scaled_identity, metric_of(x), scaled_identity, None, (x, 3)),
        lambda x: jax.tree_util.Partial(scaled_identity, x),
    ],
)
def test_other_numbers_are_the_same_structure(make):
    assert shares(make(1.5), make(2.5))
    (structure, numbers), (_, others) = flattened(make(1.5)), flattened(make(2.5))
    assert not all(np.array_equal(a, b) for a, b in zip(numbers, others, strict=True))
    again = flattened(structure.made_of(numbers))[1]
    assert all(np.array_equal(a, b) for a, b in zip(again, numbers, strict=True))


def test_other_structures_are_not_shared():
    assert not shares(cn.CoordinateFrame(2), cn.CoordinateFrame(3))
    assert not shares(metric_of(1.0), cn.MatrixMetric(FRAME, scaled_identity))
    first, second = (cn.MatrixMetric(FRAME, lambda q: jnp.eye(4)) for _ in range(2))
    assert not shares(first, second)  # two functions, though of the same code
    family = cn.ContorsionFamily(metric_of(1.0))
    assert not shares(family.connection(np.ones(4)), family.connection(unit_beta))


def test_a_function_is_read_once_and_another_function_anew():
    """What is looked up is read when JAX traces the function; two functions share nothing."""
    config = types.SimpleNamespace(scale=2.0)

    def make():
        return lambda q: config.scale * jnp.eye(4) * (1.0 + q[0] ** 2)

    function = make()
    first = cn.MatrixMetric(FRAME, function)
    before = first.matrix(Q)
    config.scale = 3.0
    np.testing.assert_allclose(cn.LeviCivita(first).first_kind(Q, first)[0, 0, 0], 2.0 * 0.1, rtol=1e-14)
    np.testing.assert_array_equal(cn.MatrixMetric(FRAME, function).matrix(np.stack([Q, Q]))[0], before)
    np.testing.assert_allclose(cn.MatrixMetric(FRAME, make()).matrix(Q), 1.5 * before, rtol=1e-15)


@pytest.mark.parametrize("holder", ["namespace", "module", "dict", "slots", "grad"])
def test_a_new_system_falls_as_its_own_function_says(holder):
    """A changed global, seen by an entirely new system with a function of its own."""

    class Slots:
        __slots__ = ("gravity",)

    made = {"namespace": types.SimpleNamespace(), "module": types.ModuleType("planet"), "slots": Slots()}
    place = made.get(holder, {})

    def put(value):
        place.update(gravity=value) if isinstance(place, dict) else setattr(place, "gravity", value)

    def get():
        return place["gravity"] if isinstance(place, dict) else place.gravity

    def system():
        def potential(q):
            return get() * q[1]

        if holder == "grad":
            whole = jax.grad(lambda q: 0.5 * get() * q[1] ** 2)
            return cn.MechanicalSystem(METRIC, potential=lambda q: whole(q)[1])
        return cn.MechanicalSystem(METRIC, potential=potential)

    for gravity in (9.81, 1.62):
        put(gravity)
        np.testing.assert_allclose(system().gravity(np.array([0.3, 0.5])), [0.0, gravity], rtol=1e-14)


METRIC = cn.ConstantMetric(cn.CoordinateFrame(2), np.eye(2))


def test_a_reused_buffer_reaches_no_other_object():
    """An array in a closure, changed after its metric is gone, and another metric of the same code."""

    def metric(chosen):
        return cn.MatrixMetric(FRAME, lambda q: jnp.eye(4) * (1.0 + 99.0 * (jnp.asarray(chosen)[0] == 2)))

    chosen = np.array([0])
    metric(chosen).matrix(Q)
    chosen[0] = 2
    for points in (Q, np.stack([Q, Q, Q])):
        np.testing.assert_array_equal(metric(np.array([0])).matrix(points)[..., 0, 0], 1.0)
        np.testing.assert_array_equal(metric(chosen).matrix(points)[..., 0, 0], 100.0)


def test_closures_are_python():
    """What a closure holds is itself, no tracer: sorted in place, asked for its type, written to."""
    a, k, mass = np.array([3.0, 1.0]), 2.0, 5.0

    def of_closure(q):
        b = a.copy()
        b.sort()
        M = np.zeros((4, 4))
        M[0, 0] = mass
        return jnp.eye(4) * (b[0] if isinstance(k, float) else -1.0) + M

    expected = np.diag([6.0, 1.0, 1.0, 1.0])
    np.testing.assert_array_equal(cn.MatrixMetric(FRAME, of_closure).matrix(Q), expected)


def test_arrays_that_are_given_are_copied():
    H, beta = np.eye(4), np.ones(4)
    p = {"m": np.array(2.0), "r": np.array(1.0)}
    constant, parametric = cn.ConstantMetric(FRAME, H), cn.MatrixMetric(FRAME, stretched, p)
    member = cn.ContorsionFamily(constant).connection(beta)
    v = np.array([1.0, 0.0, 0.0, 0.0])
    before = constant.inner(Q, v, v), parametric.matrix(Q), member.torsion(Q)
    H[0, 0], p["m"][...], beta[:] = 4.0, 7.0, 5.0
    after = constant.inner(Q, v, v), parametric.matrix(Q), member.torsion(Q)
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
    assert float(constant.matrix(Q)[0, 0]) == float(constant.inner(Q, v, v)) == 1.0
    with pytest.raises(ValueError, match="read-only"):
        constant.H[0, 0] = 2.0


def test_arrays_that_may_be_written_later_are_copied():
    """An array that is read-only for now, a view of it, one in a memory of the operating system."""
    H = 2.0 * np.eye(4)
    H.setflags(write=False)
    buffer = bytearray(np.eye(4).tobytes())
    of_buffer = np.frombuffer(memoryview(buffer).toreadonly()).reshape(4, 4)
    metrics = [cn.ConstantMetric(FRAME, given) for given in (H, H[:], of_buffer)]
    before = [metric.matrix(Q) for metric in metrics]
    H.setflags(write=True)
    H[0, 0] = 7.0
    buffer[:8] = np.float64(7.0).tobytes()
    for metric, old in zip(metrics, before, strict=True):
        np.testing.assert_array_equal(metric.matrix(Q), old)
        np.testing.assert_array_equal(metric.H, old)


@pytest.mark.parametrize("again", [lambda x: x, lambda x: pickle.loads(pickle.dumps(x))])
def test_nobody_can_write_to_an_objects_arrays(again):
    metric = again(cn.ConstantMetric(FRAME, np.eye(4)))
    with pytest.raises(ValueError, match="WRITEABLE"):
        metric.H.setflags(write=True)
    with pytest.raises(ValueError, match="read-only"):
        metric.H[0, 0] = 2.0
    assert cn.ConstantMetric(FRAME, metric.H).H is metric.H  # what nobody can write to is not copied


class Stiffening(cn.Metric):
    """A user's metric with a function for JAX, one for NumPy, and one that makes objects."""

    def __init__(self, stiffness, table, make):
        self.frame, self.stiffness, self.table, self.make = FRAME, stiffness, table, make

    def matrix_at(self, q):
        return self.stiffness(q) * jnp.eye(4)

    def entry(self, x):
        return self.table(x)

    def member(self, mass):
        return self.make(mass)


def test_a_users_class_calls_its_functions_by_numpy():
    reads = []

    def stiffness(q):
        reads.append(isinstance(q, np.ndarray))
        return 1.0 + q[0] ** 2

    metric = Stiffening(stiffness, lambda x: float(np.interp(x[0], [0.0, 1.0], [2.0, 4.0])), metric_of)
    assert metric.entry(np.array([0.5])) == 3.0  # `float` and NumPy, which refuse what JAX traces
    np.testing.assert_allclose(metric.member(1.5).matrix(Q), metric_of(1.5).matrix(Q), rtol=0)
    np.testing.assert_allclose(metric.matrix(Q), 1.01 * np.eye(4), rtol=1e-15)
    metric.matrix(Q), cn.LeviCivita(metric).coefficients(Q)
    assert reads == [False]  # definitions use what JAX has traced once
    assert metric.stiffness(Q) == pytest.approx(1.01, rel=1e-15) and reads == [False, True]


def test_callables_of_all_kinds():
    """Dataclasses that cannot be hashed, pytrees, bound methods; a method is read at every call."""

    @dataclass
    class Plain:
        scale: float

        def __call__(self, q):
            return self.scale * q

        def field(self, q):
            return self.scale * q

    @jax.tree_util.register_dataclass
    @dataclass
    class Tree:
        scale: float

        def __call__(self, q):
            return self.scale * q

    flat = cn.LeviCivita(cn.ConstantMetric(FRAME, np.eye(4)))
    plain = Plain(2.0)
    for thing in (plain, Tree(2.0), plain.field):
        np.testing.assert_allclose(flat.covariant_derivative(thing, thing, Q), 4.0 * Q, rtol=1e-14)
    plain.scale = 3.0
    np.testing.assert_allclose(flat.covariant_derivative(plain.field, plain.field, Q), 9.0 * Q, rtol=1e-14)
    assert shares(PytreePartial(scaled_identity, Tree(2.0)), PytreePartial(scaled_identity, Tree(3.0)))
    by_scale = jax.grad(lambda s: flat.covariant_derivative(Tree(s), Tree(s), Q)[0])(2.0)
    assert float(by_scale) == pytest.approx(0.4, rel=1e-14)


def test_functions_of_objects_that_are_pytrees_are_data():
    """The coefficients of one connection as the function of another."""
    first, second = (
        cn.CoefficientConnection(FRAME, cn.LeviCivita(metric_of(m)).coefficients_at) for m in (1.5, 2.5)
    )
    assert shares(first, second)
    np.testing.assert_array_equal(second.coefficients(Q), cn.LeviCivita(metric_of(2.5)).coefficients(Q))


def test_numbers_that_occur_twice_are_given_once():
    nabla = cn.LeviCivita(cn.ConstantMetric(FRAME, 2.0 * np.eye(4)))
    structure, numbers = flattened(PytreePartial(scaled_identity, nabla, nabla.metric))
    assert len(numbers) == 1
    again, metric = structure.made_of(numbers).things
    assert again.metric.H is metric.H


def test_values_of_members_that_share():
    """Against members whose numbers are in their code."""
    for m in (1.5, 2.5):
        beta = m * np.arange(4.0)
        written = cn.MatrixMetric(FRAME, lambda q, m=m: stretched(q, {"m": m, "r": 1.0}))
        expected = cn.ContorsionFamily(written).connection(lambda q, beta=beta: jnp.asarray(beta))
        found = cn.ContorsionFamily(metric_of(m)).connection(beta)
        np.testing.assert_allclose(found.torsion(Q), expected.torsion(Q), rtol=0, atol=1e-15)
        np.testing.assert_allclose(found.curvature(Q), expected.curvature(Q), rtol=0, atol=1e-14)
        assert found.check_metric_compatible(Q, metric_of(m)).ok
        assert not found.check_metric_compatible(Q, metric_of(m + 1.0)).ok


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
    found = jax.jit(lambda connection, q: connection.contorsion(q, connection.metric))(nabla, Q)
    np.testing.assert_allclose(found, 0.0, atol=1e-15)


def test_frames_that_are_traced():
    """Of a traced connection and a traced metric, the structures of the frames are compared."""

    def of(frame):
        return cn.LeviCivita(cn.ConstantMetric(frame, np.eye(4)))

    nabla, other = of(cn.MatrixFrame(scaled_identity, 4, 4, parameters=2.0)), of(FRAME)
    contorsion = jax.jit(lambda connection, metric: connection.contorsion(Q, metric))
    np.testing.assert_allclose(contorsion(nabla, nabla.metric), 0.0, atol=1e-15)
    with pytest.raises(cn.checks.FrameError):
        contorsion(nabla, other.metric)
    assert nabla.frame == cn.MatrixFrame(scaled_identity, 4, 4, parameters=2.0)
    assert nabla.frame != cn.MatrixFrame(scaled_identity, 4, 4, parameters=3.0)


def test_definitions_that_need_their_numbers():
    """NumPy on an object's own numbers is refused, in words that name the line; functions of them are not."""

    class Branching(cn.Metric):
        def __init__(self, mass):
            self.frame, self.mass = FRAME, mass

        def matrix_at(self, q):
            return np.sqrt(self.mass) * jnp.eye(4)

    with pytest.raises(TypeError, match="matrix_at"):
        Branching(4.0).matrix(Q)


def test_parameters_are_numbers():
    function = cn.ParametricFunction(stretched, {"m": 2, "r": np.arange(2)})
    assert type(function.parameters["m"]) is float and function.parameters["r"].dtype == np.float64
    with pytest.raises(TypeError, match="expected a function"):
        cn.ParametricFunction(3.0, 1.0)
    with pytest.raises(TypeError, match="parameters"):
        cn.MatrixMetric(FRAME, stretched, {"m": "2", "r": 1.0})


@pytest.mark.further
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
    for metric in (cn.ConstantMetric(FRAME, 2.0 * np.eye(4)), metric_of(2.0)):
        before = metric.matrix(Q)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(metric)).matrix(Q), before)


def test_a_function_is_equal_to_itself_alone():
    first, second = Function(stretched), Function(stretched)
    assert first == second and hash(first) == hash(second)
    assert Function(stretched) != Function(scaled_identity)


def test_a_kept_value_is_that_of_the_same_things():
    """Of equal things that are not the same it is made anew, and of another name, too."""
    owner, one, other = metric_of(2.0), np.zeros(2), np.zeros(2)
    numbers = iter(range(6))
    values = [
        kept(owner, what, things, lambda: next(numbers))
        for what, things in (("a", (one,)), ("a", (one,)), ("a", (other,)), ("b", (other,)), ("a", (one,)))
    ]
    assert values == [0, 0, 1, 2, 3]
    calls = [kept(owner, "f", (Function(f),), lambda: next(numbers)) for f in (stretched, stretched)]
    assert calls == [4, 4]
