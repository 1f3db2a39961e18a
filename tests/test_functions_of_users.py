"""Every public parameter that is a function, with every kind of mistake.

A wrong number of arguments says "expected a function ... , got one with arguments ...", and names the
argument; so do None, text and an array of another shape. Lists are taken as arrays. Functions are those of q
alone and others: metrics, frames, bases, forms, drifts, inputs, curves, embeddings, potentials, sensors,
noise, laws and surfaces. What computes by NumPy, where JAX traces, is named by its file and line.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from cases import always

import connections as cn
from connections import affine, control, estimation

PLANE, LINE = cn.CoordinateFrame(2), cn.CoordinateFrame(1)
FLAT = cn.ConstantMetric(PLANE, np.eye(2))
METRIC = cn.MatrixMetric(PLANE, lambda q: jnp.diag(jnp.stack([1.0 + q[0] ** 2, 2.0 + 0.0 * q[0]])))
SYSTEM, NABLA = cn.MechanicalSystem(METRIC), cn.LeviCivita(METRIC)
SPACE = cn.ConstantMetric(cn.CoordinateFrame(3), np.diag([1.0, 2.0, 3.0]))
RAIL = cn.ConstrainedConnection(METRIC, forms=lambda q: jnp.array([[0.0, 1.0]]))
Q, V, TIMES = np.array([0.3, 0.4]), np.array([1.0, 0.5]), [0.0, 0.5]
ESTIMATE = estimation.Estimate(Q, np.eye(2))
CUBE, EYE, ONE = np.zeros((2, 2, 2)), np.eye(2), np.array([[1.0], [0.0]])
FORM = np.array([[0.0, 1.0]])


def measured(**given):
    sensor = estimation.Sensor(**{"h": lambda q: q[:1], "N": [[1.0]], **given})
    return estimation.Filter(PLANE, noise=EYE).update(ESTIMATE, [0.0], sensor)[0].q


def predicted(**given):
    return estimation.Filter(PLANE, **{"noise": EYE, **given}).predict(ESTIMATE, V, 0.5).q


def driven(**given):
    system = cn.NonholonomicSystem(RAIL, **given)
    return system.forward_dynamics(Q, [1.0], np.ones(system.controls))


def simulated(**given):
    return cn.NonholonomicSystem(RAIL, **given).simulate(Q, [1.0], TIMES).q


def drawn(on):
    motion = cn.geodesic(NABLA, Q, V, TIMES)
    figure = motion.plot_path(on)
    return figure.axes[0].lines[-1].get_xydata()


def on_axis(a):
    return jnp.stack([a[0], 0.0])


def loop(reference, law=None):
    law = law or control.PassivityController(SYSTEM, EYE)
    return control.ClosedLoop(SYSTEM, law, reference).simulate(Q, V, TIMES).q


#: The argument's name in errors, how many arguments it takes, a right value of the function, and a call.
FUNCTIONS = {
    "a metric": ("matrix|metric matrix", 1, EYE, lambda f: cn.MatrixMetric(PLANE, f).matrix(Q)),
    "a frame": ("matrix|frame matrix", 1, EYE, lambda f: cn.MatrixFrame(f, 2, 2).matrix(Q)),
    "a projection": ("project", 1, Q, lambda f: cn.MatrixFrame(lambda q: EYE, 2, 2, project=f).matrix(Q)),
    "an embedding": ("embedding", 1, None, lambda f: cn.PullbackMetric(PLANE, f).matrix(Q)),
    "an inclusion": ("inclusion", 1, ONE, lambda f: cn.InducedMetric(FLAT, LINE, f, on_axis).matrix([0.3])),
    "a place": (
        "embedding",
        1,
        Q,
        lambda f: cn.InducedMetric(FLAT, LINE, lambda a: jnp.asarray(ONE), f).matrix([0.3]),
    ),
    "a basis": (
        "distribution|basis of the distribution",
        1,
        ONE,
        lambda f: cn.ConstrainedConnection(METRIC, f).coefficients(Q),
    ),
    "forms": (
        "forms|constraint forms",
        1,
        FORM,
        lambda f: cn.ConstrainedConnection(METRIC, forms=f).coefficients(Q),
    ),
    "a potential": ("potential", 1, np.array(1.0), lambda f: cn.MechanicalSystem(METRIC, f).gravity(Q)),
    "forces": ("forces", 3, V, lambda f: cn.MechanicalSystem(METRIC, forces=f).forward_dynamics(Q, V, V)),
    "a control": ("control", 3, V, lambda f: SYSTEM.simulate(Q, V, TIMES, f).q),
    "an acceleration": ("acceleration", 3, V, lambda f: cn.geodesic(NABLA, Q, V, TIMES, f).q),
    "coefficients": ("coefficients", 1, CUBE, lambda f: cn.CoefficientConnection(PLANE, f).coefficients(Q)),
    "a contorsion": ("contorsion", 1, CUBE, lambda f: cn.ContorsionConnection(METRIC, f).coefficients(Q)),
    "a family": (
        "beta",
        1,
        np.array([0.1]),
        lambda f: cn.ContorsionFamily(SPACE).connection(f).coefficients(np.zeros(3)),
    ),
    "a form": ("form", 1, V, lambda f: affine.WeylConnection(METRIC, f).coefficients(Q)),
    "a cubic form": ("cubic", 1, CUBE, lambda f: affine.StatisticalConnection(METRIC, f).coefficients(Q)),
    "a drift": ("drift", 1, V, lambda f: simulated(drift=f)),
    "inputs": ("inputs", 1, FORM, lambda f: driven(inputs=f)),
    "a curve": ("curve", 1, Q, lambda f: cn.parallel_transport(NABLA, f, V, TIMES)),
    "a vector along it": (
        "field",
        1,
        V,
        lambda f: cn.covariant_derivative_along(NABLA, lambda t: t * jnp.ones(2), f, TIMES),
    ),
    "a vector field": ("X", 1, V, lambda f: PLANE.bracket(f, lambda q: q, Q)),
    "a function": ("f", 1, None, lambda f: PLANE.lie_derivative(f, Q)),
    "a sensor": ("h", 1, np.array([0.4]), lambda f: measured(h=f)),
    "a sensor's noise": ("N", 1, np.array([[0.5]]), lambda f: measured(N=f)),
    "noise": ("noise", 3, EYE, lambda f: predicted(noise=f)),
    "a velocity": ("velocity", 3, V, lambda f: predicted(velocity=f)),
    "a field": ("field", 2, V, lambda f: loop(control.FieldReference(PLANE, f))),
    "a reference": ("acceleration", 3, V, lambda f: loop(control.AccelerationReference(PLANE, f, 1.0))),
    "a law": (
        "function",
        4,
        V,
        lambda f: loop(control.FieldReference(PLANE, lambda t, q: -q), control.FunctionLaw(PLANE, f)),
    ),
    "a surface": ("on", 1, np.ones(3), lambda f: drawn(f)),
    "an event": ("events", 3, np.array(1.0), lambda f: cn.geodesic(NABLA, Q, V, TIMES, events=f).q),
}


TRACED = {
    "an embedding": lambda q: [q[0], q[1], q[0] * q[1]],
    "a function": lambda q: [q[0], q[0] * q[1]],
    "a place": lambda a: [a[0], 0.0 * a[0]],
    "a drift": lambda q: [q[0], 1.0 + q[1]],
    "a control": lambda t, q, v: [t, q[0]],
    "a field": lambda t, q: [t, q[0]],
}


def returning(count, value):
    """A function of so many arguments that returns this value."""
    names = ", ".join(f"a{i}" for i in range(count))
    return eval(f"lambda {names}: value", {"value": value})


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("more", [-1, 2])
def test_another_number_of_arguments(name, more):
    """One less than it takes, and more than it takes together with parameters and inputs."""
    argument, count, right, call = FUNCTIONS[name]
    value = jnp.zeros(2) if right is None else right
    more = 4 - count if name == "a sensor" and more > 0 else more
    with pytest.raises(TypeError, match=rf"^({argument})\b.*expected a function .*got one with arguments \("):
        call(returning(count + more, value))


@pytest.mark.parametrize(
    "name", [name for name, it in FUNCTIONS.items() if it[1] == 1 and name not in ("a sensor", "a drift")]
)
def test_a_velocity_where_only_a_point_is_given(name):
    """(q, v) in place of q: one argument is not taken for parameters, because none are given."""
    argument, _, right, call = FUNCTIONS[name]
    with pytest.raises(
        TypeError, match=rf"^({argument})\b.*expected a function .*got one with arguments \(a0, a1\)"
    ):
        call(returning(2, jnp.zeros(2) if right is None else right))


NO_VALUES = {
    "None": None,
    "text": "text",
    "shape": jnp.zeros((5, 4, 3)),
    "text in a list": ["a", "b"],
    "a dictionary": {"value": 1.0},
    "an object": object(),
    "complex": jnp.array([1.0, 2.0j]),
    "rows of two lengths": [[1.0], [2.0, 3.0]],
    "a set": {1.0, 2.0},
    "text in NumPy's array": np.array(["1.0", "2.0"]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("value", always(NO_VALUES, "None", "text", "shape"))
def test_what_is_no_value_is_named(name, value):
    """By its argument in each case, also where JAX refuses the value before we see it."""
    argument, count, right, call = FUNCTIONS[name]
    if right is None and value == "shape":
        return  # any shape is right
    with pytest.raises((TypeError, ValueError), match=rf"^({argument})\b"):
        call(returning(count, NO_VALUES[value]))


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name in TRACED or FUNCTIONS[name][2].ndim])
def test_lists_are_arrays(name):
    """The same result as of an array, also of numbers that JAX traces."""
    _, count, right, call = FUNCTIONS[name]
    if name in TRACED:
        first, second = TRACED[name], lambda *given: jnp.stack(TRACED[name](*given))
    else:
        first, second = returning(count, right.tolist()), returning(count, jnp.asarray(right))
    np.testing.assert_array_equal(call(first), call(second))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numpy_where_jax_traces_is_named_by_its_line(name):
    """An event is a function of NumPy's arrays, the control of the others."""
    _, count, right, call = FUNCTIONS[name]

    def by_numpy(*given):
        numbers = [np.asarray(each) for each in given]
        return np.zeros(2) if right is None else right + 0.0 * numbers[0].sum()

    names = ", ".join(f"a{i}" for i in range(count))
    function = eval(f"lambda {names}: by_numpy({names})", {"by_numpy": by_numpy})
    if name == "an event":
        call(function)
        return
    with pytest.raises(TypeError, match=r"(by_numpy'|a comprehension) \(test_.*, line \d+: .*jax\.numpy"):
        call(function)


@pytest.mark.parametrize("parameters", [2.0, {"a": 2.0}])
def test_parameters_are_one_argument_more(parameters):
    """A function of q alone is refused then, and so is one that takes a velocity, too."""

    def scaled(q, given):
        return jnp.eye(2) * (given["a"] if isinstance(given, dict) else given)

    assert cn.MatrixMetric(PLANE, scaled, parameters).matrix(Q)[0, 0] == 2.0
    assert cn.MatrixMetric(PLANE, cn.ParametricFunction(scaled, parameters)).matrix(Q)[0, 0] == 2.0
    expected = r"^matrix: expected a function q -> H \(n, n\), and the parameters as one more, got one with"
    with pytest.raises(TypeError, match=expected):
        cn.MatrixMetric(PLANE, lambda q: jnp.eye(2), parameters)
    with pytest.raises(TypeError, match=expected):
        cn.MatrixMetric(PLANE, cn.ParametricFunction(lambda q, v, given: jnp.eye(2), parameters))
