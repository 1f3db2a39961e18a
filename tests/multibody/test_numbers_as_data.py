"""Robots whose inertias, gravity and armature are data of JAX, beside models that are built with them.

Derivatives are compared with differences of models, which know nothing of data: everything is a polynomial of
these numbers, or a quotient.
"""

import warnings
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further
from closed_chains import PLANS, four_bar
from closed_plan import at
from mechanisms import MOVING, configuration_rate, derivative_along, random_mechanism
from recursion_functions import BY_JAX, FUNCTIONS, call, states, with_tip

from connections import multibody as mb
from connections.checks import ModelError, ShapeError
from connections.control import with_payload
from connections.multibody.in_jax import data_tangents
from connections.multibody.program.table import RECURSIONS

STEPS, WEIGHTS = 1e-2 * np.array([-2.0, -1.0, 1.0, 2.0]), np.array([1.0, -8.0, 8.0, -1.0]) / 12e-2
NUMBERS = ("parameters", "gravity", "armature")
#: What does not depend on any of them.
OF_JOINTS = {"forward_kinematics", "body_jacobians", "frame_pose", "frame_jacobian", "frame_jacobian_rate"}


@cache
def robot(of="two joints"):
    """Robots with armature; the fields of their frames have brackets."""
    if of == "two joints":
        found = with_tip(random_mechanism(np.random.default_rng(6), 2, (mb.Spherical, mb.Helical)))
    elif of == "floating":
        found = with_tip(random_mechanism(np.random.default_rng(8), 2, (mb.Free, mb.Revolute)))
    elif of == "tree":
        found = with_tip(random_mechanism(np.random.default_rng(3), 6, MOVING, trees=2, massless=0.5))
    elif of == "couplings":
        found = with_tip(PLANS["belt leg"]().build())
    else:
        plan = four_bar()
        plan.add("ball", "bar coupler", "ball", mb.Spherical(), at(0.4, 0.2, 0.1))
        plan.nv = 4
        found = with_tip(plan.build())
    return found.with_armature({name: 0.1 for name, own in found.armature.items() if len(own)})


def numbers_of(model):
    """Parameters, gravity and armature, as one dictionary of arrays."""
    armature = {name: own[0] for name, own in model.armature.items() if len(own)}
    return mb.inertial_parameters(model), np.array(model.gravity), armature


def with_numbers(model, numbers):
    parameters, gravity, armature = numbers
    return model.with_armature(armature).with_gravity(gravity).with_inertial_parameters(parameters)


def directions(model, rng):
    """A change of each kind of numbers, the others held."""
    parameters, gravity, armature = numbers_of(model)
    # In proportion, and a little of what is zero: with masses, so that models outside of JAX take them.
    moved = parameters * rng.uniform(-0.5, 0.5, parameters.shape)
    moved[:, 1:] += 0.01 * rng.standard_normal(moved[:, 1:].shape) * (parameters[:, :1] > 0.0)
    none = jax.tree.map(np.zeros_like, (parameters, gravity, armature))
    return {
        "parameters": (moved, *none[1:]),
        "gravity": (none[0], rng.standard_normal(3), none[2]),
        "armature": (*none[:2], {name: rng.standard_normal() * 0.05 for name in armature}),
    }


def moved_by(numbers, along, step):
    return jax.tree.map(lambda x, d: np.asarray(x) + step * np.asarray(d), numbers, along)


def differences(model, function, along):
    """The derivative of a function of a model by its numbers, of fourth order, outside of JAX."""
    numbers, found = numbers_of(model), 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mb.InertiaWarning)
        for step, weight in zip(STEPS, WEIGHTS, strict=True):
            found = found + weight * np.asarray(function(with_numbers(model, moved_by(numbers, along, step))))
    return found


def close(found, expected, tolerance, size=None):
    size = np.max(np.abs(expected)) if size is None else size
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=tolerance * size)


#: What compiles the definition's derivatives, for many seconds.
SLOW = {
    "forward_dynamics_second_derivatives",
    "forward_dynamics_hessian_product",
    "inverse_dynamics_second_derivatives",
    "inverse_dynamics_hessian_product",
    "curvature",
    "curvature_operator",
}
#: Derivatives of derivatives compile for half a minute on a loop: those of Gamma and C without torsion do.
TWICE_ON_LOOPS = {"christoffel_derivatives with torsion", "coriolis_matrix_rate with torsion"}
#: One of each form of a rule.
SOME = {
    "mass_matrix",
    "coriolis_matrix with torsion",
    "inverse_dynamics",
    "forward_dynamics",
    "forward_dynamics_derivatives",
    "inverse_dynamics_derivatives",
    "center_of_mass_jacobian",
}
#: Through a loop numbers go by the tree's rules: one of velocities, one with an inverse.
SOME_OF_LOOPS = {"coriolis_matrix with torsion", "forward_dynamics"}
#: Armature adds to these whatever the joints are.
MOVED_BY_ARMATURE = {"mass_matrix", "inverse_dynamics", "forward_dynamics", "forward_dynamics_derivatives"}


def cases():
    for of in ("two joints", "a loop", "floating", "tree"):
        for name in FUNCTIONS:
            # The definition's derivatives do not know which robot it is: one robot is enough for them.
            if (of != "two joints" and name in SLOW) or (of == "a loop" and name in BY_JAX | TWICE_ON_LOOPS):
                continue
            default = name in {"two joints": SOME, "a loop": SOME_OF_LOOPS}.get(of, set())
            yield pytest.param(name, of) if default else further(name, of)
    for name in ("mass_matrix", "inverse_dynamics", "forward_dynamics", "forward_dynamics_derivatives"):
        yield further(name, "couplings")


@pytest.mark.parametrize(("name", "of"), [*cases()])
def test_values_and_derivatives(name, of, rng):
    """The value is that of a model; derivatives by all numbers, in both modes, are those of differences."""
    model = robot(of)
    x, numbers = states(name, rng, of=model), numbers_of(model)
    many = directions(model, rng)

    def function(numbers):
        return call(name, *x, of=with_numbers(model, numbers))

    @jax.jit
    def derivatives(numbers, many):
        value, push = jax.linearize(function, numbers)
        _, pull = jax.vjp(function, numbers)
        weights = jnp.cos(1.0 + jnp.arange(value.size)).reshape(value.shape)
        (covector,) = pull(weights)
        return value, weights, {kind: push(along) for kind, along in many.items()}, covector

    value, weights, slopes, covector = derivatives(numbers, many)
    expected = call(name, *x, of=model)
    close(value, expected, 1e-12)
    for kind, along in many.items():
        slope = differences(model, lambda other: call(name, *x, of=other), along)
        size = max(np.max(np.abs(slope)), 1e-3 * np.max(np.abs(expected)))
        close(slopes[kind], slope, 1e-6, size)
        if kind != "armature" or name in MOVED_BY_ARMATURE:  # a control: zero would agree with zero
            assert (np.max(np.abs(slope)) > 1e-6) == depends(name, kind)
        backwards = sum(jax.tree.leaves(jax.tree.map(jnp.vdot, covector, along)))
        assert float(backwards) == pytest.approx(
            float(jnp.vdot(weights, slopes[kind])), rel=1e-9, abs=1e-9 * size
        )


def depends(name, kind):
    """Whether a recursion depends on such numbers."""
    name = name.removesuffix(" with torsion")
    if name in OF_JOINTS or (name.startswith("center_of_mass") and kind != "parameters"):
        return False
    if name in ("regressor", "momentum_regressor"):
        return kind == "gravity"
    return kind != "gravity" or "dynamics" in name or name in ("gravity", "nonlinear_effects")


# --- second derivatives ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("inverse_dynamics", "two joints"),
        ("forward_dynamics", "two joints"),
        ("forward_dynamics", "a loop"),
        further("inverse_dynamics", "a loop"),
        further("mass_matrix", "floating"),
        further("coriolis_matrix", "floating"),
    ],
)
def test_mixed_second_derivatives(name, of, rng):
    """By q and every vector, of the derivative by the inertias; with differences of the latter, on models."""
    model = robot(of)
    x, (pi, *_) = states(name, rng, of=model), numbers_of(model)
    along, (moved, *_) = rng.standard_normal((len(x), model.nv)), directions(model, rng)["parameters"]
    tangent = [configuration_rate(model, x[0], along[0]), *along[1:]]

    def slope(*x):
        def function(pi):
            return call(name, *x, of=model.with_inertial_parameters(pi))

        return jax.jvp(function, (pi,), (moved,))[1]

    def outside(*x):
        rest = jax.tree.map(np.zeros_like, numbers_of(model)[1:])
        return differences(model, lambda other: call(name, *x, of=other), (moved, *rest))

    found = [
        jax.jit(lambda *x, k=k: jax.jvp(lambda y: slope(*x[:k], y, *x[k + 1 :]), (x[k],), (tangent[k],))[1])(
            *x
        )
        for k in range(len(x))
    ]
    expected = [derivative_along(model, lambda p: outside(p, *x[1:]), x[0], along[0])]
    for k in range(1, len(x)):
        values = [outside(*x[:k], x[k] + 0.1 * step * along[k], *x[k + 1 :]) for step in STEPS]
        expected.append(np.tensordot(10.0 * WEIGHTS, values, axes=1))
    for own, other in zip(found, expected, strict=True):
        assert np.max(np.abs(other)) > 1e-6  # a control
        close(own, other, 1e-5)


@pytest.mark.further  # by default, second derivatives are those of differences
def test_a_hessian_is_symmetric(rng):
    """By velocities, forces and inertias at once, forwards over backwards."""
    model = robot()
    q, v, tau = states("forward_dynamics", rng, of=model)
    pi = mb.inertial_parameters(model)

    def energy(v, tau, pi):
        a = mb.forward_dynamics(model.with_inertial_parameters(pi), q, v, tau)
        return jnp.sum(jnp.sin(a))

    H = jax.jit(jax.hessian(energy, argnums=(0, 1, 2)))(v, tau, pi)
    flat = np.block(
        [
            [np.asarray(H[i][j]).reshape(size, -1) for j in range(3)]
            for i, size in enumerate((v.size, tau.size, pi.size))
        ]
    )
    assert np.max(np.abs(flat[: v.size, 2 * v.size :])) > 1e-3  # a control
    close(flat, flat.T, 1e-9)


# --- the definition with its numbers as data ----------------------------------------------------------------


@pytest.mark.parametrize("of", ["two joints", further("a loop"), further("floating")])
@pytest.mark.parametrize(
    "name", ["inverse_dynamics", further("forward_dynamics"), further("mass_matrix"), "coriolis_matrix"]
)
def test_values_and_derivatives_of_the_definition(name, of, rng):
    """On other devices than the processor the definition is computed, whose own derivatives are an oracle."""
    model = robot(of)
    x = states(name, rng, of=model)
    data = mb.inertial_parameters(model).ravel(), np.array(model.gravity), model.kinematics.tree.armature
    chosen = ("christoffel",) if name == "coriolis_matrix" else ()
    function = model.of_data._function(name, chosen)
    given = *model.of_data._solved(x[0]), *x[1:]

    def of_pi(at):
        return jax.jit(lambda pi: at(*given, pi, *data[1:]))

    elsewhere, here = of_pi(function.others), of_pi(function)
    close(elsewhere(data[0]), here(data[0]), 1e-12)
    close(jax.jit(jax.jacfwd(elsewhere))(data[0]), jax.jit(jax.jacfwd(here))(data[0]), 1e-9)


# --- batches of robots --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics", further("coriolis_matrix")])
@pytest.mark.parametrize("of", ["tree", "a loop"])
def test_many_robots(name, of, rng):
    """4,096 robots in one `vmap`, some of them beside models; also as one pytree with a batch axis."""
    model, count = robot(of), 4096
    pi = mb.inertial_parameters(model)
    many = pi * rng.uniform(0.5, 1.5, (count, len(pi), 1))
    x = states(name, rng, count, of=model)
    function = FUNCTIONS[name][0]
    one_by_one = jax.jit(jax.vmap(lambda pi, *x: function(model.with_inertial_parameters(pi), *x)))(many, *x)
    robots = jax.jit(jax.vmap(model.with_inertial_parameters))(many)
    assert isinstance(robots, mb.TracedModel) and robots.parameters.shape == many.shape
    assert np.array_equal(jax.jit(jax.vmap(function))(robots, *x), one_by_one)
    for row in (0, 1, 255, 256, count - 1):
        expected = function(model.with_inertial_parameters(many[row]), *(y[row] for y in x))
        close(one_by_one[row], expected, 1e-12)
    other = function(model.with_inertial_parameters(many[1]), *(y[0] for y in x))
    assert np.max(np.abs(other - one_by_one[0])) > 1e-3 * np.max(np.abs(other))  # a control: they differ
    with pytest.raises(ShapeError, match="vmap"):
        function(robots, *x)


def test_one_robot_at_many_configurations(rng):
    """Inside `vmap` over configurations alone, rows are computed several at once; inside two, as in one."""
    model = robot("tree")
    pi, x = mb.inertial_parameters(model), states("inverse_dynamics", rng, 3, 5, of=model)
    expected = mb.inverse_dynamics(model, *x)

    def forces(pi, *x):
        return mb.inverse_dynamics(model.with_inertial_parameters(pi), *x)

    close(jax.jit(forces)(pi, *x), expected, 1e-12)
    twice = jax.vmap(jax.vmap(forces, (None, 0, 0, 0)), (None, 0, 0, 0))
    close(jax.jit(twice)(pi, *x), expected, 1e-12)
    mixed = jax.vmap(jax.vmap(forces, (None, 0, 0, 0)), (0, None, None, None))  # robots, then configurations
    robots = np.stack([pi, 2.0 * pi])
    x = [y[0] for y in x]
    found = jax.jit(mixed)(robots, *x)
    close(found[0], expected[0], 1e-12)
    heavier = model.with_inertial_parameters(2.0 * pi)
    close(found[1], mb.inverse_dynamics(heavier, *x), 1e-12)
    gradient = jax.jit(jax.grad(lambda pi: jnp.sum(twice(pi, *[y[None] for y in x]) ** 2)))(pi)
    Y = mb.regressor(model, x[0], x[1], x[1], x[2])
    close(gradient.ravel(), 2.0 * np.einsum("mip,mi->p", Y, expected[0]), 1e-10)


def counted(calls, function):
    def call(*given, **named):
        calls.append(None)
        return function(*given, **named)

    return call


@pytest.mark.parametrize("rows", ["one", "of one robot", "of many robots"])
def test_through_python_the_same(rows, rng, monkeypatch):
    """If XLA cannot call compiled functions, Python does, with the same bits."""
    from connections.engines import xla

    model = robot("tree")
    x = states("forward_dynamics", rng, *(() if rows == "one" else (5,)), of=model)
    pi = mb.inertial_parameters(model)
    if rows == "of many robots":
        pi = pi * rng.uniform(0.5, 1.5, (5, 1, 1))

    def run():
        def function(pi, *x):
            return mb.forward_dynamics(model.with_inertial_parameters(pi), *x)

        return np.asarray(jax.jit(jax.vmap(function) if pi.ndim == 3 else function)(pi, *x))

    direct = run()
    monkeypatch.setattr(xla, "_objection", lambda: "forced")
    monkeypatch.setattr(jax, "pure_callback", counted(calls := [], jax.pure_callback))
    assert run().tobytes() == direct.tobytes() and calls


# --- models -------------------------------------------------------------------------------------------------


def test_energies_payloads_and_names(rng):
    model = robot("floating")
    q, v = states("coriolis_matrix", rng, of=model)
    pi = mb.inertial_parameters(model)
    body = model.body_names[-1]

    @jax.jit
    def of_payload(mass, center):
        traced = with_payload(model, body, mass, center, 0.1 * mass * jnp.eye(3))
        again = with_payload(traced, body, mass, center)
        kinetic = 0.5 * v @ mb.mass_matrix(traced, q) @ v
        return traced.potential_at(q), kinetic, mb.total_mass(again), mb.inertial_parameters(again)

    center = np.array([0.1, -0.2, 0.3])
    outside = with_payload(model, body, 0.5, center, 0.05 * np.eye(3))
    potential, kinetic, mass, parameters = of_payload(0.5, center)
    assert float(potential) == pytest.approx(float(outside.potential_at(q)), rel=1e-12)
    assert float(kinetic) == pytest.approx(0.5 * v @ mb.mass_matrix(outside, q) @ v, rel=1e-12)
    assert float(mass) == pytest.approx(mb.total_mass(model) + 1.0)
    twice = with_payload(outside, body, 0.5, center)
    close(parameters, mb.inertial_parameters(twice), 1e-13)
    returned = with_payload(jax.jit(model.with_inertial_parameters)(pi), body, 0.5, center, 0.05 * np.eye(3))
    close(returned.parameters, mb.inertial_parameters(outside), 1e-13)
    assert np.max(np.abs(parameters - pi)) > 0.1  # a control

    def shapes(pi):
        traced = model.with_inertial_parameters(pi)
        assert (traced.nq, traced.nv) == (model.nq, model.nv)
        assert traced.joint_names == model.joint_names and traced.body_names == model.body_names
        assert traced.structure is model
        return mb.frame_pose(traced, q, "tip")

    close(jax.jit(shapes)(pi), mb.frame_pose(model, q, "tip"), 1e-13)


def test_loops_are_solved_once(rng):
    """`SolvedLoops` of the robot is one of all robots with its joints; a rollout carries it along."""
    model = robot("a loop")
    (q, v), pi = states("coriolis_matrix", rng, of=model), mb.inertial_parameters(model)
    closed = mb.close_loops(model, q)

    def moved(pi, closed, heavier):
        def step(state, _):
            closed, v = state
            a = mb.forward_dynamics(heavier(pi), closed, v, np.zeros(model.nv))
            v = v + 1e-3 * a
            return (mb.close_loops(model, mb.displace(model, closed.q, 1e-3 * v), closed), v), None

        (end, _), _ = jax.lax.scan(step, (closed, v), length=20)
        return end.q

    found = jax.jit(lambda pi, closed: moved(pi, closed, model.with_inertial_parameters))(pi, closed)
    with jax.ensure_compile_time_eval():
        other = moved(jnp.asarray(pi), closed, lambda _: model)
    close(found, other, 1e-12)


def test_what_is_not_possible_is_refused_in_words(rng):
    model = robot()
    q, v = states("coriolis_matrix", rng, of=model)
    pi = mb.inertial_parameters(model)

    def inside(function):
        return jax.jit(lambda pi: function(model.with_inertial_parameters(pi)))(pi)

    with pytest.raises(AttributeError, match="'metric'.*structure"):
        inside(lambda traced: traced.metric)
    with pytest.raises(TypeError, match="structure"):
        inside(lambda traced: mb.displace(traced, q, v))
    with pytest.raises(TypeError, match="^out: "):
        inside(lambda traced: mb.mass_matrix(traced, q, out=np.empty((model.nv, model.nv))))
    with pytest.raises(ShapeError, match="^v: "):
        inside(lambda traced: mb.coriolis_matrix(traced, q, v[:-1]))
    with pytest.raises(ValueError, match="^body_factor: "):
        inside(lambda traced: mb.coriolis_matrix(traced, q, v, body_factor="chri"))
    with pytest.raises(ShapeError, match="^parameters: "):
        jax.jit(model.with_inertial_parameters)(pi[:-1])
    with pytest.raises(ShapeError, match="^gravity: "):
        jax.jit(model.with_gravity)(q)
    with pytest.raises(ModelError, match="armature"):
        jax.jit(lambda a: model.with_armature({"nowhere": a}))(1.0)


def test_bad_numbers_are_nan(rng):
    """A first moment without mass, a number that is not finite, an H without inverse; other rows are kept."""
    model = mb.example("arm")
    q, v, tau = rng.standard_normal((3, model.nv))
    pi = mb.inertial_parameters(model)
    without_mass, unknown, nothing = pi.copy(), pi.copy(), np.zeros_like(pi)
    without_mass[2, 0], unknown[1, 5] = 0.0, np.nan

    @jax.jit
    @jax.vmap
    def both(pi):
        traced = model.with_inertial_parameters(pi)
        return mb.inverse_dynamics(traced, q, v, tau), mb.forward_dynamics(traced, q, v, tau)

    forces, accelerations = both(np.stack([pi, without_mass, unknown, nothing]))
    assert np.isfinite(forces[0]).all() and np.isfinite(accelerations[0]).all()
    assert np.isnan(forces[1]).any() and np.isnan(forces[2]).any()
    assert np.isnan(accelerations[1:]).all(axis=1).all()
    assert np.array_equal(forces[3], np.zeros(model.nv))


def test_equal_models_are_traced_once():
    """The model is a constant, the numbers are not: other inertias compile nothing."""
    traces = []

    @jax.jit
    def mass_matrix(robot, q):
        traces.append(None)
        return mb.mass_matrix(robot, q)

    for share in (1.0, 2.0):
        model = mb.example("arm")
        pi = share * mb.inertial_parameters(model)
        found = mass_matrix(jax.jit(model.with_inertial_parameters)(pi), model.neutral())
        close(found, share * mb.mass_matrix(model, model.neutral()), 1e-13)
    assert len(traces) == 1


def test_a_wrong_sign_is_noticed(rng, monkeypatch):
    """The control of the tests of derivatives."""
    rule = data_tangents._FORCES["inverse_dynamics"]
    monkeypatch.setitem(data_tangents._FORCES, "inverse_dynamics", lambda *given: -rule(*given))
    for name in ("inverse_dynamics", "forward_dynamics"):
        with pytest.raises(AssertionError):
            test_values_and_derivatives(name, "two joints", rng)


def test_every_recursion_is_tested():
    assert {name.removesuffix(" with torsion") for name in FUNCTIONS} == {*RECURSIONS}
