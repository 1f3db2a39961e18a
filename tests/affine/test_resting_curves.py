"""Transport along curves that rest: it does not depend on when a loop is run, nor on how often one looks.

A loop gamma(u) is run as gamma(S((t - a) / w)): it rests but for a window of length w, 2 to 20 % of [0, 10].
Its holonomy is that of the loop: closed forms are minus the area in the hyperbolic plane, 2 pi cos(theta)
around the sphere, R(t)^T R(0) for Cartan's connection; on groups and on a robot, collocation carries frames
around the loop at its own speed, with Milnor's coefficients, or the connection's. Claims: right to 1e-8 for
random windows, for parts of a window, with spikes of speed; and for any number of requested times the same
to 1e-8; on the host, in batches of samples, inside `jit`. The loops' own holonomies are far from the
identity.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
import systems
from cases import always, further
from windows import carried, four_times_smooth, onsets, random_windows, smooth

import connections as cn
from connections import multibody as mb
from connections.checks import PointError

WHOLE = 10.0
NEAR = {"rtol": 1e-8, "atol": 1e-8}
TURN = 2.0 * np.pi

# --- loops u -> q, their connections, and what they do to frames -------------------------------------------


def hyperbolic_circle(u):
    """Of the radius rho with cosh(rho) = 5/4: its area is pi / 2."""
    return jnp.stack([0.9 * jnp.sin(TURN * u), 1.5 - 0.9 * jnp.cos(TURN * u)])


def latitude(u):
    c, s = np.cos(0.8), np.sin(0.8)
    return jnp.stack([s * jnp.cos(TURN * u), s * jnp.sin(TURN * u), c + 0.0 * u])


def rotations(u):
    x = jnp.stack([jnp.sin(TURN * u), 1.0 - jnp.cos(TURN * u), 0.4 * jnp.sin(2.0 * TURN * u), 1.0 + 0.0 * u])
    return x / jnp.linalg.norm(x)


def poses(u):
    place = jnp.stack([jnp.cos(TURN * u), jnp.sin(2.0 * TURN * u), 0.3 * jnp.sin(TURN * u)])
    return jnp.concatenate([place, rotations(u)])


def joints(u):
    shape = jnp.stack([jnp.sin(TURN * u), 1.0 - jnp.cos(TURN * u), 0.5 * jnp.sin(2.0 * TURN * u)])
    return 0.3 + jnp.concatenate([shape, 0.6 * shape[::-1]])


def of_angle(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def turning_rates(q, q_dot):
    """Angular velocities in body axes, of quaternions (x, y, z, w)."""
    return 2.0 * (q[:, 3:] * q_dot[:, :3] - q_dot[:, 3:] * q[:, :3] - np.cross(q[:, :3], q_dot[:, :3]))


def twists(q, q_dot):
    linear = np.einsum("mji,mj->mi", oracles.rotation(q[:, 3:]), q_dot[:, :3])
    return np.concatenate([turning_rates(q[:, 3:], q_dot[:, 3:]), linear], axis=1)


def everywhere(Gamma):
    return lambda q: np.broadcast_to(Gamma, (len(q), *Gamma.shape))


def around_rotations():
    Gamma = oracles.left_invariant_coefficients(systems.TOP_INERTIA, oracles.EPSILON)
    return carried(everywhere(Gamma), rotations, turning_rates)


def around_poses():
    brackets = np.stack([oracles.motion_cross_matrix(e) for e in np.eye(6)])  # [i, k, j]
    Gamma = oracles.left_invariant_coefficients(BODY, np.swapaxes(brackets, 0, 1))
    return carried(everywhere(Gamma), poses, twists)


def around_joints():
    return carried(lambda q: np.asarray(arm().coefficients(q)), joints, lambda q, q_dot: q_dot)


@cache
def arm():
    return mb.example("arm").connection


BODY = np.diag([1.0, 2.0, 2.5, 1.5, 1.5, 1.5])
SPACES = {
    "half plane": (lambda: systems.HALF_PLANE_NABLA, hyperbolic_circle, lambda: of_angle(-np.pi / 2)),
    "sphere": (
        lambda: systems.SPHERE_EMBEDDED_NABLA,
        latitude,
        lambda: of_angle(-TURN * np.cos(0.8)),
    ),
    "rotations": (lambda: systems.TOP_NABLA, rotations, around_rotations),
    "poses": (lambda: cn.LeviCivita(cn.ConstantMetric(cn.SE3Frame(), BODY)), poses, around_poses),
    "robot": (arm, joints, around_joints),
}


@cache
def space(name):
    """Connection, loop, and its holonomy."""
    nabla, loop, around = SPACES[name]
    return nabla(), loop, around()


@cache
def run_in_a_window(name, onset):
    """(t, (begin, length)) -> q: one function for all windows, so that one compilation serves them."""
    loop, rise = SPACES[name][1], onsets[onset]
    return lambda t, window: loop(rise((t - window[0]) / window[1]))


def resting(name, window, onset="four times"):
    return cn.ParametricFunction(run_in_a_window(name, onset), np.asarray(window, dtype=float))


def operators(nabla, curve, times, **options):
    """P (..., T, n, n) at the times."""
    batch = np.ndim(curve.pieces) - 3 if isinstance(curve, cn.SampledCurve) else 0
    n = nabla.frame.dim
    frames = np.eye(n).reshape(n, *[1] * batch, n)
    return np.moveaxis(np.asarray(cn.parallel_transport(nabla, curve, frames, times, **options)), 0, -1)


# --- the loop is not missed --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", always(SPACES, "half plane"))
def test_the_loops_themselves(name):
    """At their own speed; all far from the identity."""
    nabla, loop, expected = space(name)
    np.testing.assert_allclose(cn.holonomy(nabla, loop, 0.0, 1.0), expected, **NEAR)
    assert np.abs(expected - np.eye(len(expected))).max() > 0.1


@pytest.mark.parametrize("onset", onsets)
@pytest.mark.parametrize(
    ("name", "count"),
    [("half plane", 15), *(further(name, 60) for name in SPACES if name != "robot"), further("robot", 10)],
)
def test_random_windows(name, count, onset, rng):
    """Holonomy, and transport between two times: as for the loop at its own speed."""
    nabla, _, expected = space(name)
    for i, window in enumerate(random_windows(rng, count, WHOLE)):
        curve, hint = resting(name, window, onset), f"window {window}"
        if i % 2:
            P = cn.holonomy(nabla, curve, 0.0, WHOLE)
        else:
            P = operators(nabla, curve, np.array([0.0, WHOLE]))[-1]
        np.testing.assert_allclose(P, expected, **NEAR, err_msg=hint)


@pytest.mark.parametrize(
    ("begin", "length"), [(10.0 / 3.0, 20.0 / 3.0), (4.0, 2.0), further(0.0, 6.5), further(9.8, 0.2)]
)
def test_a_loop_that_rests_at_one_end(begin, length):
    """For its first third; in the middle; at its end."""
    nabla, _, expected = space("half plane")
    P = cn.holonomy(nabla, resting("half plane", (begin, length), "smooth"), 0.0, WHOLE)
    np.testing.assert_allclose(P, expected, **NEAR)


@pytest.mark.parametrize("whole", [further(1e-9), further(1e7)])
def test_time_in_other_units(whole, rng):
    nabla, _, expected = space("half plane")
    for window in random_windows(rng, 10, whole):
        P = cn.holonomy(nabla, resting("half plane", window), 0.0, whole)
        np.testing.assert_allclose(P, expected, **NEAR)


def test_backwards_and_clocks_far_from_zero():
    nabla, _, expected = space("half plane")
    curve = resting("half plane", (4.0, 0.7))
    back = operators(nabla, curve, np.array([WHOLE, 0.0]))[-1]
    np.testing.assert_allclose(back, expected.T, **NEAR)
    later = resting("half plane", (1e5 + 4.0, 0.7))
    P = operators(nabla, later, 1e5 + np.array([0.0, WHOLE]))[-1]
    np.testing.assert_allclose(P, expected, **NEAR)


@pytest.mark.further
def test_parts_of_a_window():
    """One of the two times, or both, is in the window: z = R(t)^T R(0) z0 for Cartan's connection."""
    window = (6.1, 0.6)

    def expected(t0, t1):
        ends = [oracles.rotation(rotations(four_times_smooth((t - window[0]) / window[1]))) for t in (t0, t1)]
        return ends[1].T @ ends[0]

    for t0, t1 in ((0.0, 6.4), (6.3, 10.0), (6.25, 6.5), (0.0, 6.15), (10.0, 6.35)):
        P = operators(systems.CARTAN_PLUS, resting("rotations", window), np.array([t0, t1]))[-1]
        np.testing.assert_allclose(P, expected(t0, t1), **NEAR)
    assert np.abs(expected(0.0, 6.4) - np.eye(3)).max() > 0.1


# --- spikes ------------------------------------------------------------------------------------------------


def hurried(t, window):
    """A tenth of the loop at an even pace, the rest of it, and two loops more, in the window."""
    return hyperbolic_circle(0.1 * t / WHOLE + 2.9 * smooth((t - window[0]) / window[1]))


@pytest.mark.parametrize("length", [0.2, further(0.3), further(0.8), further(2.0)])
def test_spikes_of_speed(length):
    """Three turns of the loop, of which almost all are run in the window."""
    nabla, _, once = space("half plane")
    for begin in (0.0, 1.37, 5.123, WHOLE - length):
        P = cn.holonomy(nabla, cn.ParametricFunction(hurried, np.array([begin, length])), 0.0, WHOLE)
        np.testing.assert_allclose(P, once @ once @ once, **NEAR)


SHORT = [0.006, 0.003]  # windows as parts of the interval


@pytest.mark.parametrize("onset", always(onsets, "four times"))
@pytest.mark.parametrize(
    ("name", "count"), [("half plane", 6), further("half plane", 50), further("rotations", 50)]
)
def test_short_windows(name, count, onset, rng):
    """Also at the ends of the interval."""
    nabla, _, expected = space(name)
    for part in SHORT:
        length = part * WHOLE
        for begin in (0.0, WHOLE - length, *rng.uniform(0.0, WHOLE - length, count - 2)):
            P = cn.holonomy(nabla, resting(name, (begin, length), onset), 0.0, WHOLE)
            np.testing.assert_allclose(P, expected, **NEAR, err_msg=f"window {begin}, {length}")


@pytest.mark.parametrize("count", [3, further(12), further(40)])
def test_several_short_windows(count, rng):
    """The loop is run in each; more windows than there is room for breakpoints; with an even pace between."""
    nabla, _, once = space("half plane")
    begins = 0.2 * (rng.permutation(49)[:count] + rng.uniform(0.0, 0.5, count))

    def curve(t, begins):
        turns = jnp.sum(four_times_smooth((t - begins) / (0.006 * WHOLE)))
        return hyperbolic_circle(turns + t / WHOLE)

    P = cn.holonomy(nabla, cn.ParametricFunction(curve, begins), 0.0, WHOLE)
    near = {"rtol": 1e-7, "atol": 1e-7} if count > 8 else NEAR
    np.testing.assert_allclose(P, np.linalg.matrix_power(once, count + 1), **near)


def test_short_windows_for_any_number_of_requested_times(rng):
    nabla = systems.HALF_PLANE_NABLA
    window = np.array([rng.uniform(0.1, 0.9) * WHOLE, 0.004 * WHOLE])
    end = require_the_same(lambda times: operators(nabla, resting("half plane", window), times), rng)
    np.testing.assert_allclose(end, space("half plane")[2], **NEAR)


@pytest.mark.parametrize("name", always(["half plane", "rotations"], "half plane"))
def test_short_windows_inside_jit(name, rng):
    """With derivatives: the holonomy of the whole loop does not depend on its window."""
    nabla, _, expected = space(name)
    lengths = WHOLE * np.repeat(SHORT, 10)
    windows = np.stack([rng.uniform(0.0, WHOLE - lengths), lengths], axis=1)

    @jax.jit
    @jax.vmap
    def around(window):
        return jax.jvp(
            lambda w: cn.holonomy(nabla, resting_traced(name, w), 0.0, WHOLE), (window,), (jnp.ones(2),)
        )

    P, slope = around(windows)
    np.testing.assert_allclose(P, np.broadcast_to(expected, P.shape), **NEAR)
    np.testing.assert_allclose(lengths[:, None, None] * slope, 0.0, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [{"max_step": 4e-3}, {"breakpoints": np.array([5.123, 5.131])}],
    ids=["max_step", "breakpoints"],
)
def test_shorter_windows_with_a_word_from_the_user(options):
    """A window of 0.08 %."""
    nabla, _, expected = space("half plane")
    P = cn.holonomy(nabla, resting("half plane", (5.123, 8e-3)), 0.0, WHOLE, **options)
    np.testing.assert_allclose(P, expected, **NEAR)


def test_what_does_not_close_is_refused():
    """Resting or not: a part of the loop, in the window."""

    def part(t, window):
        return hyperbolic_circle(0.9 * smooth((t - window[0]) / window[1]))

    for window in ((4.0, 2.0), (4.04, 0.21)):
        with pytest.raises(PointError, match="not closed"):
            cn.holonomy(systems.HALF_PLANE_NABLA, cn.ParametricFunction(part, np.array(window)), 0.0, WHOLE)


# --- the number of requested times -------------------------------------------------------------------------


def clocks(rng):
    """Two times, a few, many, uneven ones; all have the first, the middle and the last."""
    uneven = np.unique([0.0, 0.5 * WHOLE, WHOLE, *rng.uniform(0.0, WHOLE, 9)])
    return [
        np.array([0.0, 0.5 * WHOLE, WHOLE]),
        np.linspace(0.0, WHOLE, 7),
        uneven,
        np.linspace(0.0, WHOLE, 201),
    ]


def require_the_same(of_times, rng):
    """What is found at the middle and at the end, for all clocks; its last value."""
    found = []
    for times in clocks(rng):
        P = of_times(times)
        found.append(np.stack([P[..., int(np.searchsorted(times, t)), :, :] for t in (0.5 * WHOLE, WHOLE)]))
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], **NEAR)
    return found[0][1]


@pytest.mark.parametrize(
    ("name", "count"),
    [("half plane", 3), further("rotations", 1), further("poses", 3), ("robot", 1), further("robot", 5)],
)
def test_the_number_of_requested_times(name, count, rng):
    nabla = SPACES[name][0]()
    for window in random_windows(rng, count, WHOLE):
        end = require_the_same(lambda times, w=window: operators(nabla, resting(name, w), times), rng)
        assert np.abs(end - np.eye(len(end))).max() > 0.1


@pytest.mark.further
@pytest.mark.parametrize("name", always(SPACES, "half plane"))
def test_samples_in_a_batch(name, rng):
    """Curves through 801 samples: the splines are followed to 1e-8; near the loop if its window is wide."""
    nabla, loop, expected = space(name)
    windows = [(4.4, 0.2), *random_windows(rng, 1, WHOLE), (3.3, 2.0)]
    t = np.linspace(0.0, WHOLE, 801)
    rise = jax.jit(jax.vmap(lambda w: jax.vmap(lambda s: loop(smooth((s - w[0]) / w[1])))(t)))
    rows = np.asarray(rise(np.array(windows)))
    samples = cn.SampledCurve(nabla.frame, t, rows)
    end = require_the_same(lambda times: operators(nabla, samples, times), rng)
    np.testing.assert_allclose(end[2], expected, atol=1e-4)
    np.testing.assert_allclose(cn.holonomy(nabla, samples), end, **NEAR)
    np.testing.assert_allclose(cn.holonomy(nabla, (t, rows[0])), end[0], **NEAR)


@pytest.mark.parametrize("name", always([name for name in SPACES if name != "robot"], "half plane"))
def test_inside_jit(name, rng):
    """Holonomy by windows, and transport for three clocks, under `vmap`."""
    nabla, _, expected = space(name)
    windows = random_windows(rng, 6, WHOLE)

    @jax.jit
    @jax.vmap
    def around(window):
        return cn.holonomy(nabla, resting_traced(name, window), 0.0, WHOLE)

    np.testing.assert_allclose(around(windows), np.broadcast_to(expected, (6, *expected.shape)), **NEAR)

    @jax.jit
    @jax.vmap
    def at_the_end(times):
        return cn.parallel_transport(nabla, resting(name, windows[0]), np.eye(len(expected)), times)[:, -1]

    uneven = np.sort(rng.uniform(0.0, WHOLE, (3, 4)))
    times = np.concatenate([np.zeros((3, 1)), uneven, np.full((3, 1), WHOLE)], axis=1)
    found = np.swapaxes(np.asarray(at_the_end(times)), -1, -2)
    np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), **NEAR)


def resting_traced(name, window):
    return cn.ParametricFunction(run_in_a_window(name, "four times"), window)
