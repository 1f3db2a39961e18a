"""The recursions inside JAX: values, derivatives, batches, dtypes, bad input.

Derivatives are compared with differences of the NumPy recursions along curves in the configuration space, and
with derivatives of the definition, which are computed in another way from the beginning.
"""

import os
import subprocess
import sys
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further
from mechanisms import MOVING, configuration_rate, derivative_along, mechanism_of_all_pairs, random_mechanism
from recursion_functions import FUNCTIONS, SOME, call, configurations, model, states, with_tip

from connections import multibody as mb
from connections.checks import ShapeError
from connections.multibody.definition.recursions import DEFINITIONS
from connections.multibody.in_jax import tangents
from connections.multibody.program.table import BODY_FACTOR, FRAME, RECURSIONS

#: One of each form of a rule; the derivatives of the others, and of what compiles for seconds, are further.
RULED = {
    "christoffel_symbols",
    "coriolis_product with torsion",
    "inverse_dynamics",
    "forward_dynamics",
    "frame_jacobian",
}
STEPS, WEIGHTS = 1e-3 * np.array([-2.0, -1.0, 1.0, 2.0]), np.array([1.0, -8.0, 8.0, -1.0]) / 12e-3


def direction(robot, rng, x):
    """Random tangents of all arguments, that of q tangent to the configuration space; and its components."""
    along = rng.standard_normal((len(x), robot.nv))
    return along, [configuration_rate(robot, x[0], along[0]), *along[1:]]


def slope_by_differences(robot, name, x, along):
    slope = derivative_along(robot, lambda p: call(name, p, *x[1:], of=robot), x[0], along[0])
    for k in range(1, len(x)):
        for step, weight in zip(STEPS, WEIGHTS, strict=True):
            moved = [y + step * along[k] if i == k else y for i, y in enumerate(x)]
            slope = slope + weight * np.asarray(call(name, *moved, of=robot))
    return slope


def close(found, expected, tolerance):
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=tolerance * np.max(np.abs(expected)))


#: What is differentiated by the definition, which compiles for up to a minute where there are loops.
DEFINED = {name for name in RECURSIONS if name not in tangents.RULES}
#: Derivatives of C and Gamma, curvature, products with Hessians: what differentiates these on loops, and the
#: products themselves, are the definition's.
SECOND = {"christoffel_derivatives", "curvature", "curvature_operator", "coriolis_matrix_rate"}
WITH_HESSIANS = {"inverse_dynamics_hessian_product", "forward_dynamics_hessian_product"}
SECOND |= WITH_HESSIANS
#: Third derivatives compile for 100 s on a tree; on two joints, 15 s, they are beside the definition (below).
THIRD = WITH_HESSIANS | {"inverse_dynamics_second_derivatives", "forward_dynamics_second_derivatives"}
#: On loops its rule is that of the forward dynamics, whose matrices hold it.
BESIDE = "inverse_dynamics_derivatives"


def cases():
    """`RULED` on a tree, always; every rule on a tree and on loops; a vector's on every kind of loop."""
    for name in FUNCTIONS:
        if name not in THIRD:
            yield pytest.param(name, "tree") if name in RULED else further(name, "tree")
        if not (name in DEFINED or name.removesuffix(" with torsion") in SECOND or name == BESIDE):
            yield further(name, "planar robot")
    for of in ("four-bar", "legged robot", "belt leg", "cam", "six-bar", "Stewart platform"):
        for name in ("coriolis_product with torsion", "inverse_dynamics", "forward_dynamics"):
            yield further(name, of)


@pytest.mark.parametrize(("name", "of"), [*cases()])
def test_values_and_derivatives(name, of, rng):
    """The value has the bits of the NumPy function; derivatives of both modes agree with differences."""
    robot = model(of)
    x = states(name, rng, of=robot)
    along, tangent = direction(robot, rng, x)

    @jax.jit
    def both(x, tangent):
        value, slope = jax.jvp(lambda *y: call(name, *y, of=robot), x, tangent)
        weights = jnp.cos(1.0 + jnp.arange(value.size)).reshape(value.shape)
        _, pull = jax.vjp(lambda *y: call(name, *y, of=robot), *x)
        backwards = sum(jnp.vdot(a, b) for a, b in zip(pull(weights), tangent, strict=True))
        return value, slope, jnp.vdot(weights, slope), backwards

    value, slope, forwards, backwards = both(tuple(x), tuple(tangent))
    assert np.asarray(value).tobytes() == np.ascontiguousarray(call(name, *x, of=robot)).tobytes()
    close(slope, slope_by_differences(robot, name, x, along), 1e-7 if robot.closed else 1e-8)
    assert float(backwards) == pytest.approx(float(forwards), rel=1e-9, abs=1e-9 * np.max(np.abs(slope)))
    assert np.max(np.abs(slope)) > 1e-6  # a control: zero would agree with zero


PRODUCTS = [
    name for name in FUNCTIONS if name.split()[0] in ("coriolis_product", "coriolis_transpose_product")
]
PRODUCTS += ["inverse_dynamics", "nonlinear_effects", "forward_dynamics"]


@pytest.mark.parametrize(
    ("name", "of"),
    [*((name, "tree") for name in PRODUCTS), *(further(name, "legged robot") for name in PRODUCTS[-3:])],
)
def test_derivatives_by_a_velocity_or_a_force_are_products(name, of, rng):
    """No matrix is formed in O(N) functions, but for the v of C^T w; with differences, in both modes."""
    robot = model(of)
    x = states(name, rng, of=robot)
    for k in range(1, len(x)):
        direction, weights = rng.standard_normal((2, robot.nv))

        def function(u, k=k):
            return call(name, *[u if i == k else y for i, y in enumerate(x)], of=robot)

        def both(u, direction, weights, function=function):
            slope = jax.jvp(function, (u,), (direction,))[1]
            return slope, jax.vjp(function, u)[1](weights)[0]

        slope, pull = jax.jit(both)(x[k], direction, weights)
        moved = [w * np.asarray(function(x[k] + h * direction)) for h, w in zip(STEPS, WEIGHTS, strict=True)]
        close(slope, np.sum(moved, axis=0), 1e-9)
        assert float(pull @ direction) == pytest.approx(float(weights @ slope), rel=1e-9)
        square = f"f64[{robot.nv},{robot.nv}]" in str(jax.make_jaxpr(both)(x[k], direction, weights))
        assert square == (name.startswith("coriolis_transpose") and k == 1) or robot.nv == 1


@pytest.mark.parametrize("few", [True, False], ids=["by all derivatives of Gamma", "by polarization"])
def test_derivatives_of_symbols_in_both_ways(few, rng, monkeypatch):
    """Of C, Gamma and C^T w, with joints whose fields have brackets: as of few velocities, and of many."""
    if not few:
        monkeypatch.setattr(tangents, "_FEW", 0)
        monkeypatch.setattr(tangents, "_FEWER", 0)
    robot = random_mechanism(np.random.default_rng(6), 2, (mb.Spherical, mb.Helical))
    for name in ("coriolis_matrix", "christoffel_symbols", "coriolis_transpose_product"):
        x = states(name, rng, of=robot)
        along, tangent = direction(robot, rng, x)
        function = partial(call, name, of=robot)
        slope = jax.jit(lambda x, t, f=function: jax.jvp(f, x, t)[1])(tuple(x), tuple(tangent))
        close(slope, slope_by_differences(robot, name, x, along), 1e-8)


@pytest.mark.parametrize("name", [*sorted(RULED), further("regressor"), further("curvature_operator")])
def test_the_normal_part_of_a_tangent_is_ignored(name, rng):
    """A quaternion's tangent along the quaternion itself changes nothing."""
    robot = model("tree")
    x = states(name, rng, of=robot)
    normal = np.zeros(robot.nq)
    for _, at in robot.kinematics.quaternions:
        normal[at] = x[0][at]
    assert normal.any()
    function = jax.jit(lambda q, t: jax.jvp(lambda p: call(name, p, *x[1:], of=robot), (q,), (t,))[1])
    size = np.max(np.abs(function(x[0], configuration_rate(robot, x[0], np.ones(robot.nv)))))
    assert np.max(np.abs(function(x[0], normal))) <= 1e-12 * size


# --- against the definition --------------------------------------------------------------------------------


def chosen(name):
    choice = RECURSIONS[name].choice
    if choice is None:
        return [()]
    if choice is BODY_FACTOR:
        return [("christoffel",), ("force_cross",), ("least",)]
    return [("tip",)] if choice is FRAME else [("tip", "body"), ("tip", "world")]


#: What is not compared with differences on a loop above, but for products with Hessians: a minute each.
ON_A_LOOP = SECOND - WITH_HESSIANS - {"curvature_operator"}


@cache
def two_joints():
    return with_tip(random_mechanism(np.random.default_rng(6), 2, (mb.Spherical, mb.Helical)))


def every_choice():
    """(recursion, what is chosen, mechanism); always one of each form, on a small tree."""
    for name in RECURSIONS:
        for choice in chosen(name):
            always = name in ("regressor", "christoffel_symbols", "frame_pose")
            yield pytest.param(name, choice, "two joints") if always else further(name, choice, "two joints")
            if name in ON_A_LOOP:
                yield further(name, choice, "planar robot")


@pytest.mark.further
@pytest.mark.parametrize(("name", "choice", "of"), [*every_choice()])
def test_values_and_derivatives_of_the_definition(name, choice, of, rng):
    """Each row of the table and its definition: the same value, the same derivative along a tangent."""
    robot = two_joints() if of == "two joints" else model(of)
    q, v = configurations(robot, rng)
    x = (q, v, *rng.standard_normal((2, robot.nv)))[: 1 + len(RECURSIONS[name].vectors)]
    _, tangent = direction(robot, rng, x)
    definition = partial(DEFINITIONS[name], robot)

    def compare(x, tangent):
        fast = jax.jvp(lambda *y: robot.traced(name, *y, chosen=choice), x, tangent)
        return fast, jax.jvp(lambda *y: definition(*y, *choice), x, tangent)

    fast, slow = jax.jit(compare)(x, tuple(tangent))
    for a, b in zip(fast, slow, strict=True):
        close(a, b, 1e-9 if not robot.closed else 1e-7)


#: Derivatives by q that need the definition of a tree, and further ones that need that of a closed chain.
ONCE = {"body_jacobians", "center_of_mass_jacobian", "frame_jacobian_rate"}
ONCE |= {
    f"{of}_dynamics_{what}"
    for of in ("inverse", "forward")
    for what in ("hessian_product", "second_derivatives")
}
ONCE |= {name for name in FUNCTIONS if "torsion" in name}
TWICE = {"forward_kinematics", "center_of_mass", "frame_jacobian"} | ONCE
TWICE |= {"inverse_dynamics_derivatives", "forward_dynamics_derivatives"} | SECOND
ONCE_OF_LOOPS = {"inverse_dynamics_derivatives", "forward_dynamics_derivatives"} | SECOND
TWICE_OF_LOOPS = set(FUNCTIONS) - {"mass_matrix", "inverse_mass_matrix", "frame_pose"}


@pytest.mark.parametrize(
    ("of", "once", "twice"),
    [further("tree", ONCE, TWICE), ("four-bar", ONCE | ONCE_OF_LOOPS, TWICE_OF_LOOPS)],
)
def test_which_derivatives_need_the_definition(of, once, twice, rng, monkeypatch):
    """As the table of docs/in_jax.md says."""

    class Needed(Exception):
        pass

    def definition(*_):
        raise Needed

    for name in RECURSIONS:
        monkeypatch.setitem(DEFINITIONS, name, definition)
    monkeypatch.setattr(tangents, "body_contorsion_at", definition)
    robot, found = model(of), {1: set(), 2: set()}
    for name in FUNCTIONS:
        q, *others = states(name, rng, of=robot)
        along = configuration_rate(robot, q, np.ones(robot.nv))

        def first(q, name=name, others=others, along=along):
            return jax.jvp(lambda p: call(name, p, *others, of=robot), (q,), (along,))[1]

        def second(q, first=first, along=along):
            return jax.jvp(first, (q,), (along,))[1]

        for order, derivative in ((1, first), (2, second)):
            try:
                jax.make_jaxpr(derivative)(q)
            except Needed:
                found[order].add(name)
    assert found == {1: once, 2: twice}


def test_a_rule_with_a_wrong_sign_is_noticed(rng, monkeypatch):
    """The control of the tests above: one block of one rule has the other sign."""
    robot = mb.example("arm")
    rule = tangents.RULES["forward_dynamics"]

    def turned(of, at, along, chosen):
        right = rule(of, at, along, chosen)
        return right - 2.0 * rule(of, at, (None, along[1], None), chosen)

    x = states("forward_dynamics", rng, of=robot)
    along, tangent = direction(robot, rng, x)
    expected = slope_by_differences(robot, "forward_dynamics", x, along)
    derivative = jax.jit(lambda x, t: jax.jvp(partial(mb.forward_dynamics, robot), x, t)[1])
    close(derivative(tuple(x), tuple(tangent)), expected, 1e-8)
    monkeypatch.setitem(tangents.RULES, "forward_dynamics", turned)
    other = mb.example("arm")  # its rules are made anew
    derivative = jax.jit(lambda x, t: jax.jvp(partial(mb.forward_dynamics, other), x, t)[1])
    with pytest.raises(AssertionError):
        close(derivative(tuple(x), tuple(tangent)), expected, 1e-8)


@pytest.mark.parametrize(
    "name", ["forward_dynamics", *map(further, sorted(set(SOME) - {"forward_dynamics"}))]
)
def test_every_joint_behind_every_joint(name, rng):
    robot = with_tip(mechanism_of_all_pairs(rng, MOVING, massless=0.0))
    x = states(name, rng, of=robot)
    along, tangent = direction(robot, rng, x)
    function = jax.jit(lambda x, t: jax.jvp(lambda *y: call(name, *y, of=robot), x, t)[1])
    close(function(tuple(x), tuple(tangent)), slope_by_differences(robot, name, x, along), 1e-7)


# --- batches -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["tree", further("legged robot")])
@pytest.mark.parametrize("name", SOME)
def test_batches_have_the_bits_of_numpy(name, of, rng):
    """`vmap` once and twice, over some arguments, and batches as arguments."""
    robot = model(of)
    x = states(name, rng, 3, 100, of=robot)
    expected = np.ascontiguousarray(call(name, *x, of=robot))
    function = partial(call, name, of=robot)
    assert np.asarray(jax.jit(jax.vmap(jax.vmap(function)))(*x)).tobytes() == expected.tobytes()
    assert np.asarray(jax.jit(function)(*x)).tobytes() == expected.tobytes()
    if len(x) > 1:
        one = jax.jit(jax.vmap(function, in_axes=(None, *[0] * (len(x) - 1))))
        found = one(x[0][0, 0], *(y[0] for y in x[1:]))
        assert np.array_equal(found, call(name, x[0][0, 0], *(y[0] for y in x[1:]), of=robot))


def test_many_rows_and_a_bad_one(rng):
    """Rows are cut into pieces for threads; a row that is refused is NaN, and no other one."""
    robot = model("tree")
    q, v, a = states("inverse_dynamics", rng, 3000, of=robot)
    bad = q.copy()
    bad[1234] *= 1.1
    bad[77, 0] = np.nan
    expected = call("inverse_dynamics", q, v, a, of=robot)
    found = np.asarray(jax.jit(jax.vmap(partial(mb.inverse_dynamics, robot)))(bad, v, a))
    assert np.flatnonzero(np.isnan(found).any(axis=1)).tolist() == [77, 1234]
    good = np.isfinite(found).all(axis=1)
    assert np.array_equal(found[good], expected[good])
    assert np.isnan(jax.jit(partial(mb.inverse_dynamics, robot))(bad[77], v[0], a[0])).all()


@pytest.mark.further
def test_scan_checkpoint_and_every_order(rng):
    robot = mb.example("arm")
    q, v, tau = states("forward_dynamics", rng, of=robot)

    def energy(tau, steps=3):
        def step(state, _):
            q, v = state
            v = v + 1e-3 * mb.forward_dynamics(robot, q, v, tau)
            return (q + 1e-3 * v, v), None

        (_, v_end), _ = jax.lax.scan(jax.checkpoint(step), (jnp.asarray(q), jnp.asarray(v)), length=steps)
        return v_end @ v_end

    slope = jax.jit(jax.grad(energy))(jnp.asarray(tau))
    second = jax.jit(jax.hessian(energy))(jnp.asarray(tau))
    d = rng.standard_normal(robot.nv)
    energies = [float(jax.jit(energy)(tau + h * d)) for h in (-1e-2, 0.0, 1e-2)]
    assert (energies[2] - energies[0]) / 2e-2 == pytest.approx(float(slope @ d), rel=1e-6)
    assert (energies[2] - 2.0 * energies[1] + energies[0]) / 1e-4 == pytest.approx(
        float(d @ second @ d), rel=1e-4
    )


# --- kinds of arguments ------------------------------------------------------------------------------------


SHARDED = """
import sys, jax, numpy as np
from functools import partial
from connections import multibody as mb
robot = mb.example("arm")
q, v = np.random.default_rng(0).standard_normal((2, 8, robot.nv))
C = jax.vmap(partial(mb.coriolis_matrix, robot))
mesh = jax.make_mesh((2,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
rows = jax.sharding.PartitionSpec("rows")
parted = jax.shard_map(C, mesh=mesh, in_specs=(rows, rows), out_specs=rows)
found = jax.jit(parted)(q, v)
assert len(found.sharding.device_set) == 2
assert np.array_equal(found, mb.coriolis_matrix(robot, q, v))

def loss(tau, q, v):
    many = jax.vmap(partial(mb.forward_dynamics, robot), (0, 0, None))
    return jax.numpy.sum(many(q, v, tau) ** 2)

@partial(jax.shard_map, mesh=mesh, in_specs=(jax.sharding.PartitionSpec(), rows, rows),
         out_specs=jax.sharding.PartitionSpec())
def sum_of_losses(tau, q, v):
    return jax.lax.psum(loss(tau, q, v), "rows")

tau = np.ones(robot.nv)
slopes = [np.asarray(jax.jit(jax.grad(f))(tau, q, v)) for f in (sum_of_losses, loss)]
halves = [np.asarray(jax.jit(jax.grad(loss))(tau, q[k : k + 4], v[k : k + 4])) for k in (0, 4)]
np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-12)
np.testing.assert_allclose(sum(halves), slopes[1], rtol=1e-12)
assert min(np.max(np.abs(x)) for x in halves) > 1e-3 * np.max(np.abs(slopes[1]))  # a control: both count
by_v = jax.vmap(jax.grad(loss, 2), (None, 0, 0))
own = jax.shard_map(by_v, mesh=mesh, in_specs=(jax.sharding.PartitionSpec(), rows, rows), out_specs=rows)
given = tau, q[:, None], v[:, None]
np.testing.assert_allclose(jax.jit(own)(*given), by_v(*given), rtol=1e-12)
"""


@pytest.mark.further
def test_parts_of_a_batch_on_two_devices():
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    subprocess.run([sys.executable, "-c", SHARDED], env=environment, check=True, timeout=300)


def test_float32_in_float32_out(rng):
    robot = mb.example("arm")
    q, v = (np.float32(x) for x in states("coriolis_matrix", rng, of=robot))
    C = jax.jit(partial(mb.coriolis_matrix, robot))(q, v)
    assert C.dtype == np.float32
    close(C, mb.coriolis_matrix(robot, q, v), 1e-6)
    assert jax.jit(partial(mb.coriolis_matrix, robot))(q, np.float64(v)).dtype == np.float64


@pytest.mark.parametrize("options", [{}, {"static_argnums": 0}, {"static_argnames": "model"}])
def test_a_model_is_an_argument_and_a_constant(options):
    """Another robot is another trace; one of the same content, or the same one again, is none."""
    robot, traces = mb.example("arm"), []

    def inertia(model, q):
        traces.append(model)
        return mb.mass_matrix(model, q)

    function, q = jax.jit(inertia, **options), robot.neutral()
    others = mb.example("arm"), robot.with_gravity((0.0, 0.0, -1.62)), mb.example("quadruped")
    for other in (robot, robot, *others):
        expected = mb.mass_matrix(other, other.neutral())
        assert np.array_equal(function(other, other.neutral()), expected)
    assert traces == [robot, *others[1:]]
    assert np.array_equal(function(robot, q + 0.5), mb.mass_matrix(robot, q + 0.5))


def test_a_model_goes_through_vmap_grad_and_scan(rng):
    robot = mb.example("arm")
    q, v = rng.standard_normal((2, 3, robot.nv))
    many = jax.vmap(mb.coriolis_matrix)(robot, q, v)
    np.testing.assert_array_equal(many, mb.coriolis_matrix(robot, q, v))
    energy = lambda model, v: 0.5 * v @ mb.mass_matrix(model, q[0]) @ v  # noqa: E731
    slope = jax.grad(energy, argnums=1)(robot, v[0])
    np.testing.assert_allclose(slope, mb.mass_matrix(robot, q[0]) @ v[0], rtol=1e-12)
    carried, _ = jax.lax.scan(lambda state, _: (state, None), (robot, q), length=2)
    assert carried[0] is robot


NOT_TRANSPOSED = {
    "what is not linear": lambda robot, q, v: (partial(mb.mass_matrix, robot), q),
    "what is affine": lambda robot, q, v: (lambda a: mb.inverse_dynamics(robot, q, v, a), v),
    "what is linear, without a rule": lambda robot, q, v: (partial(mb.coriolis_matrix, robot, q), v),
    "another argument": lambda robot, q, v: (lambda p: mb.coriolis_product(robot, p, v, v), q),
    "two arguments": lambda robot, q, v: (lambda x: mb.coriolis_product(robot, q, x, x), v),
}


@pytest.mark.parametrize("name", NOT_TRANSPOSED)
def test_what_has_no_transpose_says_so(name, rng):
    robot = mb.example("arm")
    q, v = rng.standard_normal((2, robot.nv))
    function, x = NOT_TRANSPOSED[name](robot, q, v)
    called = {"what is not linear": "mass_matrix", "what is affine": "inverse_dynamics"}.get(
        name, "coriolis_"
    )
    with pytest.raises(TypeError, match=rf"^{called}.*no transpose.*jax\.vjp"):
        jax.linear_transpose(function, x)(function(x))


def test_what_is_linear_has_a_transpose(rng):
    """And what the error advises gives it where there is no rule."""
    robot = mb.example("arm")
    q, v, w, x = rng.standard_normal((4, robot.nv))
    C = mb.coriolis_matrix(robot, q, v)
    (found,) = jax.linear_transpose(lambda w: mb.coriolis_product(robot, q, v, w), w)(x)
    np.testing.assert_allclose(found, C.T @ x, rtol=1e-11, atol=1e-11)
    (found,) = jax.vjp(partial(mb.coriolis_matrix, robot, q), v)[1](jnp.outer(x, w))
    np.testing.assert_allclose(found, mb.coriolis_transpose_product(robot, q, w, x), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int4"])
def test_narrow_numbers_are_named(dtype):
    robot = mb.example("arm")
    q = jnp.zeros(robot.nq, dtype)
    for function in (partial(mb.mass_matrix, robot), jax.jit(partial(mb.mass_matrix, robot))):
        for narrow in (q, np.asarray(q)):
            with pytest.raises(TypeError, match=rf"^q: .* got {dtype}, which is too narrow; convert it"):
                function(narrow)
        assert np.isfinite(function(q.astype(np.float32))).all()


def test_bad_input_is_named_while_tracing(rng):
    robot = model("tree")
    q, v = states("coriolis_matrix", rng, of=robot)
    with pytest.raises(ShapeError, match="^v: "):
        jax.jit(partial(mb.coriolis_matrix, robot))(q, v[:-1])
    with pytest.raises(ShapeError, match="batch axes"):
        jax.jit(partial(mb.coriolis_matrix, robot))(np.stack([q] * 2), np.stack([v] * 3))
    with pytest.raises(ValueError, match="^body_factor: "):
        jax.jit(partial(mb.coriolis_matrix, robot, body_factor="chri"))(q, v)
    with pytest.raises(ValueError, match="^body_factor: "):
        jax.jit(partial(mb.coriolis_matrix, robot, body_factor=[]))(q, v)
    with pytest.raises(TypeError, match="^out: JAX"):
        jax.jit(lambda q: mb.mass_matrix(robot, q, out=np.empty((robot.nv,) * 2)))(q)


def test_other_devices_refuse_what_the_processor_refuses():
    """NaN for a quaternion whose norm is not one, and for numbers that are not finite."""
    robot = mb.example("quadruped")
    elsewhere = jax.jit(robot.traced._function("mass_matrix", ()).others)
    q = robot.neutral()
    np.testing.assert_allclose(elsewhere(q), mb.mass_matrix(robot, q), atol=1e-13)
    bad, unknown = q.copy(), q.copy()
    bad[6], unknown[0] = 1.001, np.nan
    assert np.isnan(elsewhere(bad)).all() and np.isnan(elsewhere(unknown)).all()


def test_other_devices_use_the_definition(rng):
    """Lowered for a device that is not there, no foreign function is called."""
    robot = mb.example("arm")
    q = jnp.asarray(robot.neutral())
    traced = jax.jit(partial(mb.mass_matrix, robot)).trace(q)
    assert "connections_mass_matrix_at" in traced.lower().as_text()
    elsewhere = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert "connections" not in elsewhere and "dot_general" in elsewhere


# --- differences and displacements -------------------------------------------------------------------------


@pytest.mark.further
@pytest.mark.parametrize("of", ["tree", further("legged robot")])
def test_differences_and_displacements(of, rng):
    """As in NumPy; `difference` is the inverse of `displace`, and so are the derivatives."""
    robot = model(of)
    q, v = configurations(robot, rng, 4)
    xi = 0.3 * v
    there = jax.jit(partial(mb.displace, robot))(q, xi)
    np.testing.assert_allclose(there, mb.displace(robot, q, xi), atol=1e-14)
    back = jax.jit(partial(mb.difference, robot))(q, there)
    np.testing.assert_allclose(back, xi, atol=1e-13)
    np.testing.assert_allclose(mb.difference(robot, q, np.asarray(there)), back, atol=1e-14)

    def there_and_back(xi):
        return mb.difference(robot, q[0], mb.displace(robot, q[0], xi))

    for at in (xi[0], np.zeros(robot.nv)):
        np.testing.assert_allclose(jax.jit(jax.jacfwd(there_and_back))(at), np.eye(robot.nv), atol=1e-12)
    assert np.isnan(jax.jit(partial(mb.displace, robot))(1.1 * q[0], xi[0])).any()


@pytest.mark.further
def test_linearizations(rng):
    robot = model("tree")
    q, v, tau = states("forward_dynamics", rng, 2, of=robot)
    for step in (None, 0.01):
        inside = jax.jit(partial(mb.linearize, robot, step=step))(q, v, tau)
        for a, b in zip(inside, mb.linearize(robot, q, v, tau, step=step), strict=True):
            close(a, b, 1e-12)
