"""Wrong types are refused where they are given, in words; right types, whatever they are made of, pass."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further
from mechanisms import random_mechanism

import connections as cn
from connections import control, coriolis, multibody, sweeps, verify

PLANE = cn.CoordinateFrame(2)
H = np.eye(2)
METRIC = cn.ConstantMetric(PLANE, H)
NABLA = cn.LeviCivita(METRIC)
SYSTEM = cn.MechanicalSystem(METRIC)
LAW = control.PassivityController(SYSTEM, 5.0)
SWEEP = sweeps.Sweep("fields", lambda point: {"field": point}, rows=2, outputs={"field": sweeps.Output()})
REFERENCE = control.FieldReference(PLANE, lambda t, q: q)
Q, V, TIMES = np.zeros(2), np.ones(2), [0.0, 1.0]


def field(q):
    return jnp.stack([q[1], q[0]])


def curve(t):
    return jnp.stack([jnp.cos(t), jnp.sin(t)])


MODEL = random_mechanism(np.random.default_rng(0), 2, (multibody.Revolute,))
A_FRAME = "a frame (CoordinateFrame); write ConstantMetric(frame, H) or MatrixMetric(frame, function of q)"
A_CONNECTION = "a connection (LeviCivita); give the metric with which the connection was made"
NOT_A_METRIC = "metric: expected a Metric, got "
NOT_A_CONNECTION = (
    "nabla: expected an AffineConnection, got a metric (ConstantMetric); write LeviCivita(metric)"
)
NOT_A_FIELD = "expected a function q -> components (n,), got an array of shape (2,); for a constant, write a "
NOT_A_FIELD += "function that returns it"
ONE_BY_ONE = "give each as an argument of its own, "
LOOP = "write ClosedLoop(plant, controller, reference)"

OBJECTS = {
    "Levi-Civita of a frame": (lambda: cn.LeviCivita(PLANE), NOT_A_METRIC + A_FRAME),
    "of an array": (
        lambda: cn.LeviCivita(H),
        NOT_A_METRIC + "an array of shape (2, 2); write ConstantMetric(frame, H)",
    ),
    "of lists": (lambda: cn.LeviCivita([[1, 0], [0, 1]]), "got a list; write ConstantMetric(frame, H)"),
    "of a connection": (lambda: cn.LeviCivita(NABLA), NOT_A_METRIC + A_CONNECTION),
    "of a function": (lambda: cn.LeviCivita(field), "got a function; write MatrixMetric(frame, function)"),
    "of a class": (
        lambda: cn.LeviCivita(cn.ConstantMetric),
        "got the class ConstantMetric; give an instance",
    ),
    "of a robot": (lambda: cn.LeviCivita(MODEL), "got a robot (Model); write model.metric"),
    "of nothing": (lambda: cn.LeviCivita(None), "metric: expected a Metric, got None"),
    "a matrix for its function": (
        lambda: cn.MatrixMetric(PLANE, H),
        "expected a function q -> H (n, n), got an array of shape (2, 2); write ConstantMetric(frame, H)",
    ),
    "a function for its matrix": (
        lambda: cn.ConstantMetric(PLANE, lambda q: H),
        "H: expected a matrix, got a function; write MatrixMetric(frame, function)",
    ),
    "a number for a frame": (lambda: cn.ConstantMetric(2, H), "got the number 2; write CoordinateFrame(n)"),
    "swapped": (lambda: cn.MatrixMetric(field, PLANE), "frame: expected a FrameField, got a function"),
    "an embedding": (lambda: cn.PullbackMetric(PLANE, H), "embedding: expected a function q -> point of R^N"),
    "a frame's matrix": (
        lambda: cn.MatrixFrame(H, 2, 2),
        "matrix: expected a function q -> X (nq, n), got an",
    ),
    "a change": (lambda: NABLA.change(H), "matrix: expected a function q -> A (n, n), got an array of shape"),
    "a list of frames": (
        lambda: cn.ProductFrame([PLANE, PLANE]),
        ONE_BY_ONE + "ProductFrame(a, b), not a list",
    ),
    "of metrics": (lambda: cn.ProductMetric([METRIC]), ONE_BY_ONE + "ProductMetric(a, b), not a list"),
    "of connections": (
        lambda: cn.ProductConnection((NABLA,)),
        ONE_BY_ONE + "ProductConnection(a, b), not a t",
    ),
    "a metric as a frame": (
        lambda: cn.ProductFrame(PLANE, METRIC),
        "frames[1]: expected a FrameField, got a m",
    ),
    "a contorsion of a connection": (
        lambda: cn.ContorsionConnection(NABLA, lambda q: jnp.zeros((2, 2, 2))),
        NOT_A_METRIC + A_CONNECTION,
    ),
    "a constant contorsion": (
        lambda: cn.ContorsionConnection(METRIC, np.zeros((2, 2, 2))),
        "contorsion: expected a function q -> D (n, n, n), got an array of shape (2, 2, 2); for a constant,",
    ),
    "a family of a connection": (lambda: cn.ContorsionFamily(NABLA), NOT_A_METRIC + A_CONNECTION),
    "beta is a text": (
        lambda: cn.ContorsionFamily(cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))).connection("a"),
        "beta: expected an array of real numbers, got text",
    ),
    "coefficients": (
        lambda: cn.CoefficientConnection(PLANE, np.zeros((2, 2, 2))),
        "coefficients: expected a function q -> Gamma (n, n, n), got an array",
    ),
    "a system of a frame": (lambda: cn.MechanicalSystem(PLANE), NOT_A_METRIC + A_FRAME),
    "of a frame and a matrix": (lambda: cn.MechanicalSystem(PLANE, H), NOT_A_METRIC + A_FRAME),
    "a number as a potential": (
        lambda: cn.MechanicalSystem(METRIC, 3.0),
        "potential: expected a function q ->",
    ),
    "a vector as forces": (
        lambda: cn.MechanicalSystem(METRIC, forces=V),
        "forces: expected a function (t, q, v) -> generalized forces (n,), got an array of shape (2,)",
    ),
    "a connection as a potential": (
        lambda: cn.MechanicalSystem(METRIC, NABLA),
        "got a connection (LeviCivita); give a connection as connection=",
    ),
    "a metric as its connection": (
        lambda: cn.MechanicalSystem(METRIC, connection=METRIC),
        "connection: expected an AffineConnection, got a metric (ConstantMetric); write LeviCivita(metric)",
    ),
    "constraints without a connection": (
        lambda: coriolis.NonholonomicSystem(METRIC),
        "write NonholonomicSystem(ConstrainedConnection(metric, basis))",
    ),
    "a robot to be controlled": (
        lambda: control.PassivityController(MODEL, 5.0),
        "model: expected a MechanicalSystem, got a robot (Model); write model.system()",
    ),
    "gain first": (
        lambda: control.PassivityController(5.0, SYSTEM),
        "write PassivityController(system, gain)",
    ),
    "an observer of a robot": (lambda: control.MomentumObserver(MODEL, 5.0), "write model.system()"),
    "controller first": (
        lambda: control.ClosedLoop(LAW, SYSTEM, REFERENCE),
        "plant: expected a MechanicalSystem, got a controller (PassivityController); " + LOOP,
    ),
    "reference second": (
        lambda: control.ClosedLoop(SYSTEM, REFERENCE, LAW),
        "controller: expected a ControlLaw, got a reference (FieldReference); " + LOOP,
    ),
    "a function as reference": (
        lambda: control.ClosedLoop(SYSTEM, LAW, lambda t, q: q),
        "reference: expected a Reference, got a function; write FieldReference(frame, function)",
    ),
    "a reference of a system": (
        lambda: control.trajectory_reference(SYSTEM, lambda t: jnp.ones(2) * t, 1.0),
        "frame: expected a FrameField, got a system (MechanicalSystem); write system.frame",
    ),
    "a constant reference": (
        lambda: control.FieldReference(PLANE, V),
        "field: expected a function of (t, q), got",
    ),
    "a subject of a frame": (
        lambda: verify.subject("x", PLANE, np.zeros((3, 2)), np.random.default_rng(0)),
        NOT_A_METRIC + A_FRAME,
    ),
    "a seed as a generator": (
        lambda: verify.subject("x", METRIC, np.zeros((3, 2)), 0),
        "rng: expected a Generator, got the number 0; write numpy.random.default_rng(seed)",
    ),
}

CALLS = {
    "scalar of a connection": (lambda: NABLA.scalar_curvature(Q, NABLA), NOT_A_METRIC + A_CONNECTION),
    "point before metric": (lambda: NABLA.first_kind(METRIC, Q), NOT_A_METRIC + "an array of shape (2,)"),
    "contorsion of a matrix": (lambda: NABLA.contorsion(Q, H), "write ConstantMetric(frame, H)"),
    "a vector as X": (lambda: NABLA.covariant_derivative(V, field, Q), "X: " + NOT_A_FIELD),
    "a vector as Y": (lambda: NABLA.covariant_derivative(field, V, Q), "Y: " + NOT_A_FIELD),
    "symmetric product": (lambda: NABLA.symmetric_product(field, V, Q), "Y: " + NOT_A_FIELD),
    "bracket": (
        lambda: PLANE.bracket(field, tuple(V), Q),
        "Y: expected a function q -> components (n,), got a t",
    ),
    "Lie derivative": (lambda: PLANE.lie_derivative(V, Q), "f: expected a function q -> array, got an array"),
    "input forms": (
        lambda: NABLA.input_coefficients(H, Q),
        "forms: expected a function q -> components (p, n)",
    ),
    "geodesic of a metric": (lambda: cn.geodesic(METRIC, Q, V, TIMES), NOT_A_CONNECTION),
    "acceleration": (
        lambda: cn.geodesic(NABLA, Q, V, TIMES, V),
        "acceleration: expected a function (t, q, v) -> acceleration",
    ),
    "exponential": (lambda: cn.exponential(METRIC, Q, V), NOT_A_CONNECTION),
    "logarithm": (lambda: cn.logarithm(METRIC, Q, V), NOT_A_CONNECTION),
    "transport of a metric": (lambda: cn.parallel_transport(METRIC, curve, V, TIMES), NOT_A_CONNECTION),
    "points as a curve": (
        lambda: cn.parallel_transport(NABLA, np.zeros((5, 2)), V, TIMES),
        "curve: expected a function t -> q (nq,), got an array of shape (5, 2); write the samples as (t, q)",
    ),
    "holonomy of a metric": (lambda: cn.holonomy(METRIC, curve, 0.0, 2 * np.pi), NOT_A_CONNECTION),
    "holonomy along points": (
        lambda: cn.holonomy(NABLA, H, 0.0, 1.0),
        "curve: expected a function t -> q (nq,)",
    ),
    "a vector along a curve": (
        lambda: cn.covariant_derivative_along(NABLA, curve, V, TIMES),
        "field: expected a function t -> components (n,) at curve(t), got an array of shape (2,)",
    ),
    "a constant control": (
        lambda: SYSTEM.simulate(Q, V, TIMES, V),
        "control: expected a function (t, q, v) ->",
    ),
    "metric before connection": (lambda: coriolis.coriolis_matrix(METRIC, Q, V, NABLA), NOT_A_CONNECTION),
}


FLAGS = {
    "give_way": lambda flag: control.WholeBodyController(MODEL, [], give_way=flag),
    "trade_off": lambda flag: control.WholeBodyController(MODEL, [], trade_off=flag),
    "floating_base": lambda flag: multibody.from_urdf("arm.urdf", floating_base=flag),
    "cuda": lambda flag: multibody.codegen.generate_c(MODEL, ["gravity"], "unused", cuda=flag),
    "central": lambda flag: multibody.finite_differences(MODEL, np.sin, Q, 1e-5, central=flag),
    "discrete": lambda flag: control.lqr(H, H, H, H, discrete=flag),
    "discrete of a test": lambda flag: control.require_stabilizable(H, H, discrete=flag),
    "symmetric": lambda flag: control.controllability.involutive_closure(
        NABLA, lambda q: H[:1], Q, symmetric=flag
    ),
    "symmetric of a gain": lambda flag: control.gain_matrix("K", 1.0, 2, symmetric=flag),
    "floor": lambda flag: control.MuJoCoRobot.of(MODEL, floor=flag),
    "motor_side": lambda flag: control.MuJoCoPlant(control.MuJoCoRobot.of(MODEL), motor_side=flag),
    "compress": lambda flag: sweeps.run_sweep(SWEEP, "unused", compress=flag),
    "other_versions": lambda flag: sweeps.run_sweep(SWEEP, "unused", other_versions=flag),
    "other_sources": lambda flag: sweeps.run_sweep(SWEEP, "unused", other_sources=flag),
}


@pytest.mark.parametrize("name", [*list(FLAGS)[:-3], *map(further, list(FLAGS)[-3:])])
def test_a_flag_is_true_or_false(name):
    """The text "no" would count as True, and so would an array, or a function that was not called."""
    for flag in ("no", 0, None):
        with pytest.raises(TypeError, match=f"^{name.split()[0]}: expected True or False, got "):
            FLAGS[name](flag)


def test_numpy_s_true_is_a_flag():
    assert np.array_equal(control.gain_matrix("K", 2.0, 2, symmetric=np.True_), 2.0 * H)


@pytest.mark.parametrize("case", [*OBJECTS.values(), *CALLS.values()], ids=[*OBJECTS, *CALLS])
def test_a_wrong_type_is_named(case):
    call, text = case
    with pytest.raises(TypeError, match=re.escape(text)) as caught:
        call()
    assert caught.value.__cause__ is None and len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "points, shape", [(np.zeros((3, 3)), r"\(..., 2\), got \(3, 3\)"), (Q, r"\(samples, 2\), got \(2,\)")]
)
def test_a_subject_of_the_wrong_dimension(points, shape):
    with pytest.raises(cn.checks.ShapeError, match="q: expected shape " + shape):
        verify.subject("x", METRIC, points, np.random.default_rng(0))
    good = np.zeros((3, 2))
    with pytest.raises(cn.checks.ShapeError, match="v: expected shape"):
        verify.Subject("x", SYSTEM, good, np.zeros((3, 3)), good, 0)
    assert verify.Subject("x", SYSTEM, good, good, good, 0).n == 2


# --- functions that JAX traces -----------------------------------------------------------------------------


def by_numpy(q):
    return np.diag([1.0 + np.sin(q[0]), 1.0])


def by_math(q):
    return jnp.eye(2) * math.cosh(q[0])


def by_float(q):
    return jnp.eye(2) * float(q[0] ** 2 + 1.0)


def by_condition(q):
    return jnp.eye(2) if q[0] > 1.0 else 2.0 * jnp.eye(2)


def by_filling(q):
    matrix = np.eye(2)
    matrix[0, 0] = 1.0 + q[0] ** 2
    return matrix


def by_rows(*arguments):
    return np.array([arguments[-1][0], 1.0])


def by_time(t):
    return np.array([np.cos(t), np.sin(t)])


TRACED = {
    "numpy": (by_numpy, lambda f: cn.MatrixMetric(PLANE, f).matrix(Q), "np.diag([1.0"),
    "a batch": (by_numpy, lambda f: cn.MatrixMetric(PLANE, f).matrix(np.zeros((3, 2))), "np.diag([1.0"),
    "math": (
        by_math,
        lambda f: cn.LeviCivita(cn.MatrixMetric(PLANE, f)).coefficients(Q),
        "return jnp.eye(2)",
    ),
    "float": (by_float, lambda f: cn.MatrixMetric(PLANE, f).matrix(Q), "return jnp.eye(2) * float(q[0]"),
    "if": (by_condition, lambda f: cn.MatrixFrame(f, 2, 2).matrix(Q), "if q[0] > 1.0"),
    "filling": (by_filling, lambda f: cn.MatrixMetric(PLANE, f).matrix(Q), "matrix[0, 0] = 1.0"),
    "a field": (by_rows, lambda f: NABLA.covariant_derivative(f, field, Q), "return np.array("),
    "a potential": (by_float, lambda f: cn.MechanicalSystem(METRIC, f).gravity(Q), "float("),
    "forces": (
        by_rows,
        lambda f: cn.MechanicalSystem(METRIC, forces=f).simulate(Q, V, TIMES),
        "return np.array(",
    ),
    "a curve": (by_time, lambda f: cn.parallel_transport(NABLA, f, V, TIMES), "return np.array([np.cos"),
    "a closed curve": (by_time, lambda f: cn.holonomy(NABLA, f, 0.0, 1.0), "return np.array([np.cos"),
    "a basis": (by_numpy, lambda f: cn.ConstrainedConnection(METRIC, f), "np.diag("),
    "a reference": (by_rows, lambda f: control.FieldReference(PLANE, f), "return np.array("),
}


@pytest.mark.parametrize("case", TRACED.values(), ids=TRACED)
def test_numpy_in_a_traced_function(case):
    function, use, line = case
    with pytest.raises(TypeError) as caught:
        use(function)
    text = str(caught.value)
    assert text.startswith(f"the function '{function.__name__}' (test_wrong_types.py, line ")
    assert line in text and "use jax.numpy instead of numpy" in text
    assert caught.value.__suppress_context__ and not isinstance(caught.value, jax.errors.JAXTypeError)


def test_numpy_on_constants_and_own_errors_pass():
    """Negative controls: NumPy may make constants, of captured numbers too; errors of users stay theirs."""
    scale = 2.0
    metric = cn.MatrixMetric(PLANE, lambda q: jnp.asarray(np.diag([math.exp(float(scale)), 1.0])))
    assert np.allclose(metric.matrix(Q), np.diag([math.exp(2.0), 1.0]))

    def refuses(q):
        raise ValueError("of my own")

    with pytest.raises(ValueError, match="of my own"):
        cn.MatrixMetric(PLANE, refuses).matrix(Q)


def test_inside_of_the_users_own_jit_the_error_is_jax_s():
    with pytest.raises(jax.errors.TracerArrayConversionError):
        jax.jit(cn.MatrixMetric(PLANE, by_numpy).matrix)(Q)


# --- right types -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OwnMetric(cn.Metric):
    """A user's."""

    frame: cn.FrameField
    size: float

    def matrix_at(self, q):
        return self.size * jnp.eye(2)


class OwnConnection(cn.AffineConnection):
    """A user's, with a constructor of its own."""

    def __init__(self):
        self.frame = PLANE

    def coefficients_at(self, q):
        return jnp.zeros((2, 2, 2))


class Turned:
    """An object that is called, and a bound method."""

    def __call__(self, q):
        return field(q)

    def method(self, q):
        return field(q)


def test_classes_of_users_pass():
    own = OwnMetric(PLANE, 3.0)
    assert np.allclose(cn.LeviCivita(own).coefficients(Q), 0.0)
    system = cn.MechanicalSystem(own, connection=OwnConnection())
    assert np.allclose(control.PassivityController(system, 5.0).torque(Q, V, V, V), 3.0)
    assert cn.ProductMetric(own, METRIC).frame == cn.ProductFrame(PLANE, PLANE)


@pytest.mark.parametrize(
    "function",
    [
        partial(lambda s, q: s * field(q), 1.0),
        cn.ParametricFunction(lambda q, s: s * field(q), 1.0),
        Turned(),
        Turned().method,
        jax.jit(field),
        jnp.flip,
    ],
    ids=["partial", "parametric", "called", "bound", "jitted", "jnp"],
)
def test_whatever_can_be_called_is_a_function(function):
    assert np.allclose(NABLA.covariant_derivative(field, function, V), [1.0, 1.0])


def test_objects_that_jax_puts_together_pass():
    """Pytrees of JAX, with tracers or nothing at all in place of numbers, and constructors inside of jit."""

    def energy(metric, size):
        changed = cn.LeviCivita(cn.ConstantMetric(PLANE, size * metric.H))
        return cn.MechanicalSystem(changed.metric, lambda q: size * q[0], connection=changed).energy(V, V)

    assert np.allclose(jax.jit(energy)(METRIC, 2.0), 4.0)
    assert np.allclose(jax.grad(energy, argnums=1)(METRIC, 2.0), 2.0)
    empty = jax.tree_util.tree_map(lambda leaf: None, SYSTEM)
    assert isinstance(empty, cn.MechanicalSystem)
    many = jax.vmap(lambda size: cn.LeviCivita(OwnMetric(PLANE, size)).metric.matrix_at(Q))(
        jnp.arange(1.0, 3.0)
    )
    assert np.allclose(many, np.arange(1.0, 3.0)[:, None, None] * np.eye(2))
