"""What motions are: pairs with names, NumPy where NumPy was given, and pytrees of JAX."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always

import connections as cn
from connections.control import (
    AdaptiveController,
    AdaptiveLoop,
    ClosedLoop,
    LinearlyParametrizedSystem,
    MomentumObserver,
    PassivityController,
    trajectory_reference,
)
from connections.control.results import ClosedLoopMotion

FRAME = cn.CoordinateFrame(2)
TIMES = np.linspace(0.0, 0.5, 4)
HALF_PLANE = cn.MatrixMetric(FRAME, lambda q: jnp.eye(2) / q[1] ** 2)
START = np.array([0.1, -0.2]), np.array([0.5, 0.3])


def of_masses(masses):
    return cn.MechanicalSystem(cn.MatrixMetric(FRAME, lambda q, m: jnp.diag(m * (2.0 + jnp.sin(q))), masses))


SYSTEM = of_masses(np.array([1.0, 2.0]))
NABLA = SYSTEM.connection
REFERENCE = trajectory_reference(FRAME, lambda t: jnp.stack([jnp.sin(t), jnp.cos(t)]), 2.0)
LOOP = ClosedLoop(SYSTEM, PassivityController(SYSTEM, 5.0), REFERENCE)
FAMILY = LinearlyParametrizedSystem(of_masses, [1.0, 2.0])
ADAPTIVE = AdaptiveLoop(AdaptiveController(FAMILY, 5.0, 0.5), [1.5, 1.0], REFERENCE)
SPACE = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
SKATE = cn.NonholonomicSystem(
    cn.ConstrainedConnection(
        SPACE, lambda q: jnp.array([[jnp.cos(q[2]), 0.0], [jnp.sin(q[2]), 0.0], [0.0, 1.0]])
    )
)

MOTIONS = {
    "geodesic": lambda *given: cn.geodesic(NABLA, *given),
    "simulate": SYSTEM.simulate,
    "closed loop": LOOP.simulate,
    "adaptive loop": lambda q, v, times: ADAPTIVE.simulate(q, v, [1.0, 1.0], times),
    "observer": lambda *given: MomentumObserver(SYSTEM, 5.0).simulate(SYSTEM, *given),
}


@pytest.fixture(params=always(MOTIONS, "geodesic", "closed loop"))
def move(request):
    return MOTIONS[request.param]


def test_a_pair_with_names(move):
    motion = move(*START, TIMES)
    q, v = motion
    assert q is motion.q is motion[0] and v is motion.v is motion[1] and len(motion) == 2
    assert q.shape == v.shape == (4, 2) and motion.batch == ()
    np.testing.assert_array_equal(motion.times, TIMES)
    np.testing.assert_allclose(q[0], START[0], atol=1e-15)
    assert isinstance(motion, cn.Motion) and np.abs(q[-1] - q[0]).max() > 0.05
    with pytest.raises(ValueError, match="unpack"):
        times, q, v = motion


def test_what_is_given_comes_back_and_belongs_to_the_caller(move):
    """NumPy for NumPy, JAX for JAX; writing into a motion changes neither what was given nor the next one."""
    times, start = TIMES.copy(), [array.copy() for array in START]
    motion = move(*start, times)
    before = [np.array(leaf) for leaf in jax.tree_util.tree_leaves(motion)]
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree_util.tree_leaves(motion))
    for leaf in jax.tree_util.tree_leaves(motion):
        leaf[...] = -7.0
    np.testing.assert_array_equal(times, TIMES)
    np.testing.assert_array_equal(start, START)
    for leaf, kept in zip(jax.tree_util.tree_leaves(move(*start, times)), before, strict=True):
        np.testing.assert_array_equal(leaf, kept)
    again = move(jnp.asarray(START[0]), START[1], TIMES)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(again))


def test_times_are_copied(move):
    times = TIMES.copy()
    motion = move(*START, times)
    times += 1.0
    np.testing.assert_array_equal(motion.times, TIMES)


def test_three_lines_of_80_columns(move):
    starts = np.stack([START[0], START[0] + 0.1])
    for motion in (move(*START, TIMES), move(starts, START[1], TIMES)):
        lines = repr(motion).splitlines()
        assert len(lines) == 3 and max(map(len, lines)) <= 80
        assert f"{type(motion).__name__}, n = 2, 4 times from 0 s to 0.5 s" in lines[0]
        assert "times, q, v" in lines[2] and motion._repr_html_().count("<table>") == 1
    assert "batch (2,)" in lines[0]


def test_the_numbers_of_the_text(rng):
    q, v = rng.normal(size=(2, 5, 4, 3))
    shown = repr(cn.Motion(TIMES, q, v))
    expected = np.abs(q - q[:, :1]).max(), np.abs(v).max()
    assert [f"{x:.3g}" in shown for x in expected] == [True, True]
    assert "3 in 4 coordinates" in repr(cn.Motion(TIMES, rng.normal(size=(4, 4)), v[0]))


def test_everything_can_be_printed(move):
    """Also what JAX traces, and what its functions of trees put in the places of numbers."""
    motion = move(*START, TIMES)
    for other in (
        jax.tree_util.tree_map(jnp.sum, motion),
        jax.tree_util.tree_map(lambda leaf: None, motion),
        jax.tree_util.tree_map(np.shape, motion),
        jax.eval_shape(lambda q: move(q, START[1], TIMES), START[0]),
    ):
        assert type(motion).__name__ in repr(other) and len(repr(other)) <= 80
        assert type(motion).__name__ in other._repr_html_()


def test_members_of_a_batch(move, rng):
    starts = START[0] + 0.1 * rng.normal(size=(2, 3, 2))
    motion = move(starts, START[1], TIMES)
    assert motion.batch == (2, 3)
    one, alone = motion.member(1, 2), move(starts[1, 2], START[1], TIMES)
    assert type(one) is type(alone) and one.batch == ()
    for leaf, expected in zip(*map(jax.tree_util.tree_leaves, (one, alone)), strict=True):
        np.testing.assert_allclose(leaf, expected, atol=1e-11)
    assert np.abs(motion.member(0, 0).q - one.q).max() > 1e-3  # negative control
    for wrong in ((1,), (2, 0), (0, -4), (0, 0, 0)):
        with pytest.raises(IndexError, match="member"):
            jax.tree_util.tree_map(jnp.asarray, motion).member(*wrong)


def test_a_pytree_that_is_put_together_again(move):
    motion = move(*START, TIMES)
    leaves, tree = jax.tree_util.tree_flatten(motion)
    assert [id(leaf) for leaf in leaves[:3]] == [id(motion.times), id(motion.q), id(motion.v)]
    again = jax.tree_util.tree_unflatten(tree, leaves)
    assert type(again) is type(motion) and again.q is motion.q
    doubled = jax.tree_util.tree_map(lambda leaf: 2.0 * leaf, motion)
    np.testing.assert_array_equal(doubled.v, 2.0 * motion.v)
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(motion)]
    assert names[:3] == [".times", ".q", ".v"]


def test_inside_jit_and_vmap(move):
    """As outside, to what compiling the whole changes; each member has its own times then."""
    outside = move(*START, TIMES)
    inside = jax.jit(lambda q: move(q, START[1], TIMES))(START[0])
    assert type(inside) is type(outside)
    for leaf, expected in zip(*map(jax.tree_util.tree_leaves, (inside, outside)), strict=True):
        np.testing.assert_allclose(leaf, expected, rtol=1e-8, atol=1e-9)
    starts = np.stack([START[0], START[0] + 0.1])
    many = jax.vmap(lambda q: move(q, START[1], TIMES))(starts)
    assert many.times.shape == (2, 4) and many.batch == (2,)
    np.testing.assert_allclose(many.member(0).q, outside.q, atol=1e-9)
    np.testing.assert_array_equal(many.member(1).times, TIMES)
    assert len(repr(many).splitlines()) == 3


@pytest.mark.further
def test_gradients_by_names():
    """Of the end of a geodesic of a flat metric: dq/dv is the time, dv/dv one."""
    flat = cn.LeviCivita(cn.ConstantMetric(FRAME, np.eye(2)))
    ends = jax.jacfwd(lambda v: cn.geodesic(flat, START[0], v, TIMES))(START[1])
    assert type(ends) is cn.Motion
    np.testing.assert_allclose(ends.q, np.multiply.outer(TIMES, np.eye(2)), atol=1e-12)
    np.testing.assert_allclose(ends.v, np.broadcast_to(np.eye(2), (4, 2, 2)), atol=1e-12)
    np.testing.assert_array_equal(ends.times, np.zeros((4, 2)))


def test_pickled_and_copied(move):
    motion = move(*START, TIMES)
    for again in (pickle.loads(pickle.dumps(motion)), copy.deepcopy(motion)):
        assert type(again) is type(motion)
        for leaf, expected in zip(*map(jax.tree_util.tree_leaves, (again, motion)), strict=True):
            np.testing.assert_array_equal(leaf, expected)
    with pytest.raises(AttributeError):
        motion.q = None


@pytest.mark.further
def test_components_of_a_distribution():
    motion = SKATE.simulate(np.zeros(3), [1.0, 0.5], TIMES)
    assert type(motion) is cn.Motion and motion.q.shape == (4, 3) and motion.v.shape == (4, 2)
    assert "n = 2 in 3 coordinates" in repr(motion)


@pytest.mark.further
def test_a_motion_is_no_curve():
    """(q, v) must not be taken for samples (t, q)."""
    motion = cn.geodesic(NABLA, *START, TIMES)
    with pytest.raises(TypeError):
        cn.parallel_transport(NABLA, motion, START[1], TIMES)
    carried = cn.parallel_transport(NABLA, (motion.times, motion.q), START[1], TIMES)
    np.testing.assert_allclose(carried, motion.v, atol=1e-4)  # a geodesic carries its velocity


def test_kinds_are_told_apart():
    assert type(LOOP.simulate(*START, TIMES)) is ClosedLoopMotion
    assert not isinstance(cn.geodesic(NABLA, *START, TIMES), ClosedLoopMotion)


def test_a_motion_between_its_times():
    """In a batch and backwards, as a motion that is asked for these times; not after its end, nor a copy."""
    starts = np.array([[0.0, 1.0], [0.0, 2.0]])
    given = cn.LeviCivita(HALF_PLANE), starts.copy(), [1.0, 0.0]
    motion, t = (
        cn.geodesic(given[0], starts, *given[2:], [0.0, -1.0, -2.0]),
        np.array([[-0.3, -2.0], [-1.7, 0.0]]),
    )
    starts[:] = 7.0  # is the caller's
    q, v = motion.at(t)
    expected = cn.geodesic(*given, [0.0, -0.3, -1.7, -2.0])
    assert q.shape == v.shape == (2, 2, 2, 2)
    for place, k in (((0, 0), 1), ((0, 1), 3), ((1, 0), 2), ((1, 1), 0)):
        np.testing.assert_allclose(q[:, *place], expected.q[:, k], atol=1e-12)
        np.testing.assert_allclose(v[:, *place], expected.v[:, k], atol=1e-12)
    np.testing.assert_allclose(motion.at(-1.0)[0], motion.q[:, 1], atol=1e-12)
    assert np.isfinite(motion.at(np.nextafter(-2.0, -3.0))[0]).all()  # as 3 * 0.1 is beyond 0.3
    with pytest.raises(ValueError, match="t: expected times from -2 to 0 s"):
        motion.at(-2.0 - 1e-12)
    for part, whole in zip(motion.member(1).at(t), (q, v), strict=True):
        np.testing.assert_array_equal(part, whole[1])

    def far(t, q, v):
        return q[0] - 0.5

    far.terminal = True
    ended = cn.geodesic(cn.LeviCivita(HALF_PLANE), [0.0, 1.0], [1.0, 0.0], [0.0, 2.0], events=far)
    assert np.isfinite(ended.at(0.5)[0]).all() and np.isnan(ended.at(1.5)[0]).all()
    for call, words in (
        (lambda: motion.at(0.1), "expected times from -2 to 0 s, got 0.1 to 0.1"),
        (lambda: pickle.loads(pickle.dumps(motion)).at(-0.1), "cannot be followed"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_a_motion_is_followed_inside_of_transformations():
    """Where it is made, for times that are known; what comes out of JAX's transformations cannot be."""
    starts, velocity = np.array([[0.0, 1.0], [0.0, 2.0]]), np.array([1.0, 0.0])
    nabla = cn.LeviCivita(HALF_PLANE)

    def later(q, t=0.3):
        return cn.geodesic(nabla, q, velocity, [0.0, 0.5]).at(t)

    expected = cn.geodesic(nabla, starts, velocity, [0.0, 0.5]).at(0.3)
    for found in (jax.vmap(later)(starts), jax.jit(jax.vmap(later))(starts)):
        for part, exact in zip(found, expected, strict=True):
            np.testing.assert_allclose(part, exact, atol=1e-9)
    many = jax.vmap(lambda q: cn.geodesic(nabla, q, velocity, [0.0, 0.5]))(starts)
    with pytest.raises(ValueError, match="cannot be followed"):
        many.at(0.3)
    with pytest.raises(TypeError, match="t: JAX traces it"):
        jax.jit(later)(starts[0], 0.3)
