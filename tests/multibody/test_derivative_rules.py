"""Each rule of the derivatives inside JAX, on two joints and on the smallest loop, by differences.

The cases are read from the tables of rules, so that a new rule is tested without a line here. Each is called
as JAX calls it, with the tangent of one argument, the others being None, and with all of them.
"""

from functools import cache

import jax
import numpy as np
import pytest
from cases import further
from closed_chains import four_bar
from closed_plan import at
from mechanisms import configuration_rate, move, random_mechanism
from recursion_functions import configurations, with_tip

from connections import multibody as mb
from connections.multibody.in_jax import tangents
from connections.multibody.in_jax.recursions import TRANSPOSED
from connections.multibody.in_jax.values import AT_REST
from connections.multibody.program.table import BODY_FACTOR, FRAME, RECURSIONS

STEPS, WEIGHTS = 1e-3 * np.array([-2.0, -1.0, 1.0, 2.0]), np.array([1.0, -8.0, 8.0, -1.0]) / 12e-3
#: The fields of the first have brackets, so that terms of brackets and of torsion count.
JOINTS = (mb.Spherical, mb.Helical)


#: What is tried on a loop by default, of each way in which a rule meets loops: H alone, a product with C,
#: forces and accelerations.
ON_LOOPS = {"mass_matrix", "coriolis_matrix", "inverse_dynamics", "forward_dynamics"}
#: What these leave to the derivative of the definition, which compiles for ten seconds, is a difference here.
SLOW = {"inverse_dynamics_hessian_product", "forward_dynamics_hessian_product"}


@cache
def two_joints():
    return with_tip(random_mechanism(np.random.default_rng(6), 2, JOINTS))


@cache
def loop():
    """A four-bar with a ball on its coupler: the smallest loop whose frame has brackets."""
    plan = four_bar()
    plan.add("ball", "bar coupler", "ball", mb.Spherical(), at(0.4, 0.2, 0.1))
    plan.nv = 4
    return with_tip(plan.build())


def choices(name):
    """What a caller may choose of a recursion, each once."""
    choice = RECURSIONS[name].choice if name in RECURSIONS else None
    if choice is None:
        return [()]
    if choice is BODY_FACTOR:
        return [("christoffel",), ("force_cross",), ("least",)]
    return [("tip",)] if choice is FRAME else [("tip", "body"), ("tip", "world")]


def recursions_of(name, robot):
    """Products with H and its inverse are recursions without gravity."""
    return robot.traced.weightless if name in AT_REST else robot.traced


def given(name, robot, rng):
    """q, and as many vectors as the recursion takes; products with H take one."""
    vectors = 1 if name in AT_REST else len(RECURSIONS[name].vectors)
    return [configurations(robot, rng)[0], *rng.standard_normal((vectors, robot.nv))]


def difference(function, robot, x, k, along):
    """The derivative of a function by the argument `k` along a vector (nv,), of fourth order."""
    steps = STEPS[:, None] * along
    points = move(robot, x[0], steps) if k == 0 else x[k] + steps
    values = [np.asarray(function(*x[:k], point, *x[k + 1 :])) for point in points]
    return np.tensordot(WEIGHTS, values, axes=1)


def by_differences(name, of, at, along, chosen):
    """In place of `tangents.by_definition`."""
    at = [np.asarray(x) for x in at]
    changes = [
        difference(lambda *x: of(name, *x, chosen=chosen), of.robot, at, k, np.asarray(x_dot))
        for k, x_dot in enumerate(along)
        if x_dot is not None
    ]
    return sum(changes)


def check(name, robot, choice, rng):
    """The derivative by each argument, and by all of them, is that of differences of the values."""
    recursions = recursions_of(name, robot)

    def function(*x):
        return recursions(name, *x, chosen=choice)

    x = given(name, robot, rng)
    along = rng.standard_normal((len(x), robot.nv))
    tangent = [configuration_rate(robot, x[0], along[0]), *along[1:]]
    expected = []
    for k in range(len(x)):
        expected.append(difference(function, robot, x, k, along[k]))
        found = jax.jvp(lambda y, k=k: function(*x[:k], y, *x[k + 1 :]), (x[k],), (tangent[k],))[1]
        compare(found, expected[k])
    compare(jax.jvp(function, tuple(x), tuple(tangent))[1], sum(expected))


def compare(found, expected):
    size = np.max(np.abs(expected))
    assert size > 1e-6  # a control: zero would agree with zero
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-7 * size)


def cases():
    """Every rule with every choice on a tree; on a loop, some of those that are not of trees alone."""
    for name in tangents.RULES:
        for choice in choices(name):
            for of in ("two joints", "a loop"):
                if of == "two joints" or name not in tangents.OF_TREES:
                    runs = of == "two joints" or (name in ON_LOOPS and choice in ((), ("christoffel",)))
                    kind = pytest.param if runs else further
                    yield kind(name, choice, of, id=" ".join((name, *choice, "of", of)))


@pytest.mark.parametrize(("name", "choice", "of"), [*cases()])
def test_rule(name, choice, of, rng, monkeypatch):
    if name in SLOW:
        monkeypatch.setattr(tangents, "by_definition", by_differences)
    check(name, two_joints() if of == "two joints" else loop(), choice, rng)


def transposes():
    """What is linear in its last vector, with every choice."""
    for name in TRANSPOSED:
        for choice in choices(name):
            for of in ("two joints", "a loop"):
                yield pytest.param(name, choice, of, id=" ".join((name, *choice, "of", of)))


@pytest.mark.parametrize(("name", "choice", "of"), [*transposes()])
def test_transpose(name, choice, of, rng):
    """Backwards through a product: c . f(u) is u . (the covector of u), for any c and u."""
    robot = two_joints() if of == "two joints" else loop()
    recursions = recursions_of(name, robot)
    *x, u = given(name, robot, rng)
    value, pull = jax.vjp(lambda y: recursions(name, *x, y, chosen=choice), u)
    c = rng.standard_normal(robot.nv)
    (covector,) = pull(c)
    np.testing.assert_allclose(u @ covector, c @ value, rtol=1e-10)
    if name != TRANSPOSED[name]:  # a control: the matrix is not symmetric
        assert abs(u @ recursions(name, *x, c, chosen=choice) - c @ value) > 1e-6


@pytest.mark.parametrize("name", ["regressor", "momentum_regressor"])
def test_regressors_backwards(name, rng):
    """Their slopes are linear in each tangent, and have transposes: one that is no product had none."""
    robot = two_joints()
    recursions = recursions_of(name, robot)
    x = given(name, robot, rng)
    tangent = [rng.standard_normal(np.shape(each)) for each in x]

    @jax.jit
    def both(x, tangent):
        value, slope = jax.jvp(lambda *y: recursions(name, *y), x, tangent)
        c = jax.numpy.cos(1.0 + jax.numpy.arange(value.size)).reshape(value.shape)
        pulled = jax.vjp(lambda *y: recursions(name, *y), *x)[1](c)
        return jax.numpy.vdot(c, slope), [jax.numpy.vdot(a, b) for a, b in zip(pulled, tangent, strict=True)]

    forwards, parts = both(tuple(x), tuple(tangent))
    np.testing.assert_allclose(sum(parts), forwards, rtol=1e-9)
    assert min(map(abs, parts)) > 1e-3


def test_the_rules_of_trees_are_rules():
    assert set(tangents.RULES) > tangents.OF_TREES


def test_a_millionth_of_a_rule_is_noticed(rng, monkeypatch):
    """The control: with it the derivative by q alone is wrong, which the one by v would hide in a sum."""
    rule = tangents.RULES["nonlinear_effects"]

    def other(of, at, along, chosen):
        return rule(of, at, along, chosen) * (1.0 if along[0] is None else 1.0 + 1e-6)

    monkeypatch.setitem(tangents.RULES, "nonlinear_effects", other)
    robot = random_mechanism(np.random.default_rng(6), 2, JOINTS)  # its rules are made anew
    with pytest.raises(AssertionError):
        check("nonlinear_effects", robot, (), rng)
