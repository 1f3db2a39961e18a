"""A quaternion of norm next to one stands for the rotation nearest to it, in every public function."""

from dataclasses import replace

import dask.array as da
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import systems
from cases import always, further
from closed_chains import PLANS
from near_points import INTEGRATED, PUBLIC, configuration, robot, stretched
from oracles import random_quaternion
from recursion_functions import FUNCTIONS, ON_TREES, quaternions

import connections as cn
from connections import control
from connections import multibody as mb
from connections.affine.motions.motion import Motion
from connections.checks import IntegrationError, PointError
from connections.geometry.numerics.scales import POINT_TOLERANCE
from connections.geometry.sphere import SphereFrame
from connections.spaces.hyperboloid_frame import HyperboloidFrame

#: Errors of norms: below what definitions took, between, and one of float32.
NEAR = (3e-9, 1e-7, -9e-7)

CURVE = "transport along a curve"  # compiled for every curve

TOLERANCES = {name: 1e-10 if name in INTEGRATED else 1e-12 for name in PUBLIC}

#: Recursions that are called on trees with `--all` only, and the rows of all.
FURTHER = {name for name in FUNCTIONS if name not in ON_TREES} | {f"{name}, rows" for name in FUNCTIONS}
FURTHER |= {"derivatives, rows", "linearize", "curvature of the connection"}

#: One of each entrance: recursions, their rows, the definition, the connection, motions, laws, the explorer.
EACH_ENTRANCE = (
    "mass_matrix",
    "inverse_dynamics, rows",
    "difference to",
    "displace",
    "connection",
    "geodesic",
    "contacts",
    "passivity",
    "explorer",
)
each_entrance = pytest.mark.parametrize("name", always(PUBLIC, *EACH_ENTRANCE))


def largest_error(value, expected):
    """The largest difference of any two arrays, relative to the larger's largest entry."""
    # The drift of a motion is round-off, so it has no digits to compare.
    value, expected = (replace(x, drift=None) if isinstance(x, Motion) else x for x in (value, expected))
    pairs = zip(jax.tree.leaves(value), jax.tree.leaves(expected), strict=True)
    return max(float(np.max(np.abs(a - b)) / np.max(np.abs(b))) for a, b in pairs)


def test_the_tolerance_lets_float32_in(rng):
    """Of 100,000 unit quaternions rounded to float32, and of products of two computed there."""
    q = rng.standard_normal((2, 100_000, 4)).astype(np.float32)
    q /= np.linalg.norm(q, axis=-1, keepdims=True)
    x, y, z, w = np.moveaxis(q[0], -1, 0)
    left = np.stack([[w, -z, y, x], [z, w, -x, y], [-y, x, w, z], [-x, -y, -z, w]])
    products = np.einsum("abn,nb->na", left, q[1])
    assert products.dtype == np.float32
    worst = [float(np.max(np.abs(np.linalg.norm(r.astype(float), axis=-1) - 1))) for r in (q, products)]
    assert 5e-8 < worst[0] < worst[1] < 0.6 * POINT_TOLERANCE


@each_entrance
def test_a_norm_next_to_one_changes_nothing(name, rng):
    """Nor does float32, whose quaternions have such norms."""
    q = stretched(robot(), configuration(rng), 1.0)
    expected = PUBLIC[name](q)
    for off in NEAR if name != CURVE else NEAR[-1:]:
        near = stretched(robot(), q, 1.0 + off)
        before = near.copy()
        assert largest_error(PUBLIC[name](near), expected) <= TOLERANCES[name]
        np.testing.assert_array_equal(near, before)  # the caller's array is not written to
    rounded = q.astype(np.float32)
    assert np.abs(np.linalg.norm(rounded[3:7].astype(float)) - 1.0) > 0.0
    expected = PUBLIC[name](stretched(robot(), rounded, 1.0))
    assert largest_error(PUBLIC[name](rounded), expected) <= TOLERANCES[name]


FAR = (2.0 * POINT_TOLERANCE, -2.0 * POINT_TOLERANCE, 1e-3)


@pytest.mark.parametrize("name", [further(name) if name in FURTHER else name for name in PUBLIC])
def test_a_norm_that_is_another_is_refused(name, rng):
    error = IntegrationError if name == CURVE else PointError  # at a time of the curve
    q = configuration(rng)
    for joint, where in quaternions(robot()).items():
        for off in FAR if name != CURVE else FAR[-1:]:
            wrong = q.copy()
            wrong[where] *= 1.0 + off
            with pytest.raises(error, match=rf"joint '{joint}': quaternion .* of norm {1.0 + off:.8g},"):
                PUBLIC[name](wrong)


# --- arguments by their names -----------------------------------------------------------------------------


def test_the_argument_is_named(rng):
    q, wrong = configuration(rng), stretched(robot(), configuration(rng), 1.001)
    with pytest.raises(PointError, match=r"^q1: joint 'base': quaternion .* of norm 1\.001"):
        mb.difference(robot(), q, wrong)
    with pytest.raises(PointError, match=r"^q0: joint 'base'"):
        mb.difference(robot(), wrong, q)
    with pytest.raises(PointError, match=r"^q0: joint 'base'"):
        cn.geodesic(robot().connection, wrong, np.ones(robot().nv), [0.0, 0.1])
    for q0, q1, name in (([0, 0, 0, 1], [0, 0, 0, 1.001], "q1"), ([0, 0, 0, 1.001], [0, 0, 0, 1], "q0")):
        with pytest.raises(PointError, match=rf"^{name}: quaternion .* of norm 1\.001, expected 1 to 1e-06"):
            cn.logarithm(systems.TOP_NABLA, q0, q1)


@pytest.mark.further
def test_logarithm(rng):
    q0, turn = random_quaternion(rng), rng.standard_normal(3)
    q1 = np.asarray(systems.SO3.retract_at(q0, 0.4 * turn))
    expected = cn.logarithm(systems.TOP_NABLA, q0, q1)
    near = cn.logarithm(systems.TOP_NABLA, q0 * (1.0 + 7e-7), q1 * (1.0 - 7e-7))
    np.testing.assert_allclose(near, expected, atol=1e-9)
    np.testing.assert_allclose(cn.exponential(systems.TOP_NABLA, q0 * (1.0 + 7e-7), near), q1, atol=1e-9)


def test_controllability(rng):
    q = random_quaternion(rng)
    inputs = lambda p: jnp.eye(3)[:, :2] + jnp.outer(p[:3], p[:2])  # noqa: E731
    expected = control.controllability.symmetric_closure(systems.TOP_NABLA, inputs, q, order=2)
    near = control.controllability.symmetric_closure(systems.TOP_NABLA, inputs, q * (1.0 + 8e-7), order=2)
    np.testing.assert_allclose(near.q, expected.q, atol=1e-15)
    np.testing.assert_allclose(near.values, expected.values, atol=1e-13)
    with pytest.raises(PointError, match="q: quaternion .* of norm 1.001"):
        control.controllability.symmetric_closure(systems.TOP_NABLA, inputs, q * 1.001)


# --- derivatives, compiled code, Dask ---------------------------------------------------------------------


@pytest.mark.further
def test_derivatives_are_those_along_the_manifold(rng):
    """jacfwd of a public function: along the frame the Lie derivative, across the manifold zero."""
    q = stretched(robot(), configuration(rng), 1.0)
    near, metric = stretched(robot(), q, 1.0 + 5e-7), robot().definition.metric
    X, expected = np.asarray(robot().frame.matrix(q)), np.asarray(metric.derivative_at(jnp.asarray(q)))
    derivative = jax.jit(jax.jacfwd(metric.matrix))
    along = derivative(near)
    assert largest_error(np.moveaxis(along @ X, -1, 0), expected) < 5e-6  # |q| enters once
    assert largest_error(np.moveaxis(derivative(q) @ X, -1, 0), expected) < 1e-12
    for where in quaternions(robot()).values():
        across = np.zeros(robot().nq)
        across[where] = q[where]
        assert np.max(np.abs(along @ across)) < 1e-12 * np.max(np.abs(along))
    rows = jax.jit(jax.vmap(jax.grad(lambda p: metric.matrix(p)[0, 0])))(jnp.stack([q, q]))
    np.testing.assert_allclose(rows[0] @ X, expected[:, 0, 0], atol=1e-12 * np.max(np.abs(expected)))


@pytest.mark.further
def test_inside_a_compiled_function(rng):
    """XLA's operations, of rows and of one configuration."""
    q = stretched(robot(), configuration(rng), 1.0)
    near, nabla = stretched(robot(), q, 1.0 - 8e-7), robot().connection
    compiled = jax.jit(jax.vmap(nabla.coefficients_at))
    assert largest_error(compiled(jnp.stack([near, q])), compiled(jnp.stack([q, q]))) < 1e-12


def test_dask_arrays(rng):
    q = stretched(robot(), np.stack([configuration(rng) for _ in range(9)]), 1.0)
    near = da.from_array(stretched(robot(), q, 1.0 + 3e-7), chunks=(4, 5))
    assert largest_error(mb.mass_matrix(robot(), near).compute(), mb.mass_matrix(robot(), q)) < 1e-12


@pytest.mark.further
def test_a_curve_of_float32(rng):
    """Rounded to 6e-8, at any speed: transport of the curve that it rounds to, to about that."""
    z0 = rng.standard_normal(3)

    def curve(t):
        angle = 0.5 * t
        return jnp.stack([jnp.sin(angle), 0.0 * t, 0.6 * jnp.cos(angle), 0.8 * jnp.cos(angle)])

    expected = cn.parallel_transport(systems.TOP_NABLA, curve, z0, [0.0, 0.5, 1.0])
    rounded = lambda t: curve(t.astype(jnp.float32))  # noqa: E731
    got = cn.parallel_transport(systems.TOP_NABLA, rounded, z0, [0.0, 0.5, 1.0])
    assert 1e-12 < largest_error(got, expected) < 1e-5


# --- closed chains ----------------------------------------------------------------------------------------

CLOSED = {
    "mass_matrix": lambda m, q, v: mb.mass_matrix(m, q),
    "christoffel_symbols with torsion": lambda m, q, v: mb.christoffel_symbols(
        m, q, body_factor="force_cross"
    ),
    "inverse_dynamics": lambda m, q, v: mb.inverse_dynamics(m, q, v, v),
}


@pytest.mark.parametrize("plan", ["belt leg", *map(further, ("four-bar with branches", "Stewart platform"))])
def test_closed_chains(plan, rng):
    model = PLANS[plan]().build()
    q = stretched(model, np.stack([model.random(rng) for _ in range(5)]), 1.0)
    near, v = stretched(model, q, 1.0 + 8e-7), rng.standard_normal(model.nv)
    assert np.max(np.abs(near - q)) > 1e-7  # there are quaternions
    for name, function in CLOSED.items():
        for at, nearby in ((q[0], near[0]), (q, near)):
            assert largest_error(function(model, nearby, v), function(model, at, v)) < 1e-10, name
    joint = next(iter(quaternions(model)))
    for function in CLOSED.values():
        with pytest.raises(PointError, match=f"joint '{joint}': quaternion .* of norm 1.001"):
            function(model, stretched(model, q[0], 1.001), v)


@pytest.mark.further
def test_guess_and_reference_of_closed_chains(rng):
    model = PLANS["four-bar with branches"]().build()
    q = model.random(rng)
    whole = {name: np.asarray(part) for name, part in model.spanning_configuration(q).items()}
    near = whole | {"wrist": whole["wrist"] * (1.0 + 5e-7)}
    assert (
        largest_error(
            model.definition.metric.matrix(stretched(model, q, 1.0 - 5e-7)), model.definition.metric.matrix(q)
        )
        < 1e-10
    )
    result = model.spanning_configuration(stretched(model, q, 1.0 - 5e-7), near)
    assert max(np.max(np.abs(result[name] - whole[name])) for name in whole) < 1e-12
    with pytest.raises(PointError, match="guess: joint 'wrist': quaternion .* of norm 1.001"):
        model.spanning_configuration(q, whole | {"wrist": whole["wrist"] * 1.001})


@pytest.mark.further
def test_loops_that_are_functions(rng):
    """A closure that only JAX can solve, below a ball joint."""
    mechanism = mb.Mechanism()
    bodies = {
        "trunk": mb.Spherical(),
        "slide": mb.Prismatic((1.0, 0.0, 0.0)),
        "lift": mb.Prismatic((0, 0, 1.0)),
    }
    for (name, joint), parent in zip(bodies.items(), ("world", "trunk", "trunk"), strict=True):
        mechanism.add_body(name, mass=1.0, center_of_mass=(0.1, 0.2, 0.3), inertia=0.1 * np.eye(3))
        mechanism.add_joint(name, parent, name, joint)
    mechanism.add_coupling(
        "cam", ["slide", "lift"], function=lambda x, y: y - 0.1 * jnp.sin(x), independent=["slide"]
    )
    model = mechanism.build()
    q = stretched(model, model.random(rng), 1.0)
    near, v = stretched(model, q, 1.0 + 8e-7), rng.standard_normal(model.nv)
    for name in ("mass_matrix", "inverse_dynamics"):
        function = CLOSED[name]
        assert largest_error(function(model, near, v), function(model, q, v)) < 1e-12
        with pytest.raises(PointError, match="joint 'trunk'"):
            function(model, stretched(model, q, 1.001), v)

    def joints(at):
        return np.concatenate([*model.spanning_configuration(at).values()])

    assert largest_error(joints(near), joints(q)) < 1e-12
    with pytest.raises(PointError, match="joint 'trunk'"):
        joints(stretched(model, q, 1.001))


# --- other embedded manifolds -----------------------------------------------------------------------------


def sphere(radius):
    """The sphere of this radius about the origin, in an orthonormal frame that is singular at its poles."""

    def fields(x):
        rho = jnp.hypot(x[0], x[1])
        east = jnp.stack([-x[1], x[0], 0.0 * x[0]]) / rho
        return jnp.stack([east, jnp.cross(east, x) / jnp.linalg.norm(x)], axis=1)

    return cn.MatrixFrame(fields, 2, 3, project=lambda x: radius * x / jnp.linalg.norm(x))


@pytest.mark.further
@pytest.mark.parametrize("radius", [1e-9, further(1e-6), further(1.0), further(1e6)])
def test_a_sphere_of_any_radius(radius, rng):
    x = rng.standard_normal(3)
    x *= radius / np.linalg.norm(x)
    frame = sphere(radius)
    metric = cn.PullbackMetric(
        frame, lambda p: jnp.stack([p[0] * p[1], p[1] + p[2], p[2] ** 2 / radius, p[0]])
    )
    nabla = cn.LeviCivita(cn.ConstantMetric(frame, np.eye(2)))
    for function in (frame.matrix, frame.structure_functions, metric.matrix, nabla.coefficients):
        assert largest_error(function(x * (1.0 + 8e-7)), function(x)) < 1e-12
        for off in (2.0 * POINT_TOLERANCE, -2.0 * POINT_TOLERANCE, 0.1):
            with pytest.raises(PointError, match="off the manifold"):
                function(x * (1.0 + off))


def test_frames_of_spheres_and_hyperboloids(rng):
    x = random_quaternion(rng)
    far = 1e3 * rng.standard_normal(2)
    y = np.array([np.sqrt(1.0 + far @ far), *far])
    for frame, point in ((SphereFrame((0.0, 0.0, 0.0, 1.0)), x), (HyperboloidFrame(2), y)):
        nearby = point * np.r_[1.0 + 8e-7, np.full(len(point) - 1, 1.0 + 8e-7 * (len(point) == 4))]
        assert largest_error(frame.matrix(nearby), frame.matrix(point)) < 1e-12
        assert largest_error(frame.structure_functions(nearby), frame.structure_functions(point)) < 1e-12
        with pytest.raises(PointError, match="off the manifold"):
            frame.matrix(point * np.r_[1.0 + 1e-4, np.ones(len(point) - 1)])


@pytest.mark.further
def test_a_product_judges_its_factors_by_themselves(rng):
    """A position of 1e7 m does not excuse a quaternion, nor the base of a change of frame."""
    q = np.concatenate([1e7 * rng.standard_normal(3), random_quaternion(rng), [0.0, 6e2, 8e2]])
    product = cn.ProductFrame(cn.SE3Frame("joint 'base'"), sphere(1e3))
    for frame in (product, product.change(lambda p: (2.0 + jnp.cos(p[0])) * jnp.eye(8))):
        near = q + np.concatenate([np.zeros(3), 8e-7 * q[3:7], [0.0, -4.8e-4, -6.4e-4]])
        assert largest_error(frame.matrix(near), frame.matrix(q)) < 1e-12
        with pytest.raises(PointError, match=r"q: joint 'base': quaternion .* of norm 1\.00001"):
            frame.matrix(q + np.concatenate([np.zeros(3), 1e-5 * q[3:7], np.zeros(3)]))
        with pytest.raises(PointError, match="off the manifold of MatrixFrame"):
            frame.matrix(q + np.array([*np.zeros(9), 0.01]))


def test_frames_of_different_owners_are_equal():
    assert cn.SO3Frame("joint 'a'") == cn.SO3Frame() and hash(cn.SO3Frame("joint 'a'")) == hash(cn.SO3Frame())
    assert repr(cn.SE3Frame("joint 'a'")) == repr(cn.SE3Frame())
