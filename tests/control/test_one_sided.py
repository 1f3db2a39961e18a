"""Semidefinite forms <Y_u:Y_u> beside the inputs: where one side is out of reach, where it is not known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import underactuated as U
from cases import always
from underactuated import accelerated, first

import connections as cn
from connections.control import controllability


def verdict(nabla, inputs, q):
    return controllability.configuration_controllability(nabla, inputs, q)


PUSHED = {(2, 0, 0): 1.0}
ONE_SIDED = {
    "q_3'' = q_1'^2": (3, 2, PUSHED),
    "the factor changes": (3, 2, {(2, 0, 0): lambda q: 2.0 + jnp.sin(q[1] + q[2])}),
    "the kernel turns: (q_1' + q_1 q_2')^2": (
        3,
        2,
        {(2, 0, 0): 1.0, (2, 0, 1): lambda q: 2.0 * q[0], (2, 1, 1): lambda q: q[0] ** 2},
    ),
    "other velocities add, with any sign": (
        3,
        2,
        PUSHED | {(2, 1, 2): lambda q: 3.0 * q[0], (2, 2, 2): -2.0},
    ),
    "downwards": (3, 2, {(2, 0, 0): -1.0}),
    "two without input, q_4'' = q_1' q_3'": (4, 2, PUSHED | {(3, 0, 2): 1.0}),
    "the kernel acts on what is driven": (4, 2, PUSHED | {(3, 0, 2): 1.0, (0, 1, 2): 1.0, (1, 1, 3): 2.0}),
    "the kernel is oblique, (q_1' + 1000 q_2')^2": (
        4,
        2,
        {(2, 0, 0): 1.0, (2, 0, 1): 2e3, (2, 1, 1): 1e6, (3, 0, 2): 1.0, (3, 1, 2): 1e3},
    ),
    "two forms, definite together": (5, 3, {(3, 0, 0): 1.0, (4, 0, 0): -1.0, (4, 1, 1): 1.0}),
}
UNKNOWN = {
    "rank grows nearby, q_3'' = q_1'^2 + q_1 q_2'^2": (3, 2, PUSHED | {(2, 1, 1): lambda q: q[0]}),
    "rank grows nearby, semidefinite": (3, 2, PUSHED | {(2, 1, 1): lambda q: q[0] ** 2}),
    "the rank grows slowly": (3, 2, PUSHED | {(2, 1, 1): lambda q: q[0] ** 7}),
    "the kernel acts on what is pushed": (
        5,
        3,
        {(3, 0, 0): 1.0, (3, 2, 4): 1.0, (4, 1, 3): 1.0},
    ),
    "the other form does not vanish on the kernel": (4, 2, {(2, 0, 0): 1.0, (3, 0, 1): 1.0}),
}


@pytest.mark.parametrize("name", ONE_SIDED)
def test_one_side_is_out_of_reach(name):
    dim, count, terms = ONE_SIDED[name]
    report = verdict(accelerated(dim, terms), first(dim, count), np.zeros(dim))
    assert report.accessible and report.controllable is False, f"{report}"
    assert "semidefinite" in report.reason and report.clear


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_proved_stays_undecided(name):
    dim, count, terms = UNKNOWN[name]
    report = verdict(accelerated(dim, terms), first(dim, count), np.zeros(dim))
    assert report.accessible and report.controllable is None, f"{report}"


def oblique(q):
    """A change to a frame of no coordinates, (n, n), in which inputs are combinations of all fields."""
    n = len(q)
    mixed = jnp.outer(jnp.arange(1.0, n + 1) / n, jnp.cos(jnp.arange(1.0, n + 1)))
    return jnp.eye(n) + 0.3 * mixed * (1.0 + jnp.sin(jnp.arange(1.0, n + 1) @ q))


@pytest.mark.parametrize("name", always([*ONE_SIDED, *UNKNOWN], *list(ONE_SIDED)[:2], *list(UNKNOWN)[:1]))
def test_the_same_verdict_in_a_frame_of_no_coordinates(name):
    """The conditions on N are of vector fields, whatever frame they are written in."""
    dim, count, terms = (ONE_SIDED | UNKNOWN)[name]
    nabla = accelerated(dim, terms).change(oblique)
    inputs = lambda q: jnp.linalg.solve(oblique(q), jnp.eye(dim)[:, :count])  # noqa: E731
    report = verdict(nabla, inputs, np.zeros(dim))
    assert report.accessible and report.controllable is (False if name in ONE_SIDED else None), f"{report}"


@pytest.mark.parametrize("second", [-1.0, -1e-3])
def test_an_indefinite_form_stays_controllable(second):
    report = verdict(accelerated(3, PUSHED | {(2, 1, 1): second}), first(3, 2), np.zeros(3))
    assert report.controllable is True


def test_nearly_semidefinite_is_not_clear():
    """An eigenvalue of -1e-8 is neither zero nor not."""
    report = verdict(accelerated(3, PUSHED | {(2, 1, 1): -1e-8}), first(3, 2), np.zeros(3))
    assert report.controllable is not False


def test_inputs_that_end_nearby():
    """The points in general position are nearer where the inputs are not defined at those farther away."""
    inputs = lambda q: jnp.eye(3)[:, :2] * jnp.sqrt(1.0 - 4.0 * q[2] ** 2)  # noqa: E731
    assert verdict(accelerated(3, PUSHED), inputs, np.array([0.0, 0.0, 0.3])).controllable is False


def test_inputs_must_be_involutive():
    """z' = w + x_1 y_2: loops of the inputs move z, although w' = y_1^2 >= 0."""
    frame = cn.MatrixFrame(lambda q: jnp.eye(3).at[2, 1].set(q[0]), 3, 3)
    nabla = cn.CoefficientConnection(frame, lambda q: jnp.zeros((3, 3, 3)).at[2, 0, 0].set(-1.0))
    report = verdict(nabla, first(3, 2), np.array([0.1, 0.2, 0.3]))
    assert report.accessible and report.controllable is None


def straight(p):
    """Distance of a bead on a rod, angle of the rod, and place of a slide, of bent coordinates."""
    return jnp.stack([p[0] + 0.2 * p[2] ** 2, p[1] + 0.3 * p[0] * p[2], p[2] - 0.1 * p[1]])


def bead_with_slide(q):
    """The mass matrix of the bead, the rod and the slide."""
    J, p = jax.jacobian(straight)(q), straight(q)
    one = jnp.ones(())
    return J.T @ jnp.diag(jnp.stack([1.1 * one, 0.8 + 1.1 * p[0] ** 2, 0.6 * one])) @ J


@pytest.mark.further
def test_a_mechanism_in_any_coordinates_and_units():
    """The slide's force does not throw the bead outwards, the rod's torque does."""

    point = np.array([0.6, 0.3, -0.4])
    for unit in (np.ones(3), np.array([1e3, 1e-6, 1e4])):
        nabla = U.mechanical(3, lambda q, c=unit: bead_with_slide(q / c) / jnp.outer(c, c))
        inputs = controllability.input_fields(nabla, lambda q, c=unit: jax.jacobian(straight)(q / c)[1:] / c)
        report = verdict(nabla, inputs, point * unit)
        assert report.accessible and report.controllable is False and "semidefinite" in report.reason


@pytest.mark.further
def test_with_rolling_constraints():
    """The roller racer carries a driven slide; where it is controllable by itself, it stays so."""
    H = np.zeros((5, 5))
    H[:4, :4], H[4, 4] = np.diag([2.0, 2.0, 0.5, 0.2]), 0.4
    H[2, 3] = H[3, 2] = 0.2
    forms = lambda q: jnp.pad(U.racer_forms(q[:4]), ((0, 0), (0, 1)))  # noqa: E731
    nabla = cn.ConstrainedConnection(cn.ConstantMetric(cn.CoordinateFrame(5), H), forms=forms)
    inputs = controllability.input_fields(nabla, lambda q: jnp.eye(5)[3:])
    centre = np.arccos(U.RACER["l_2"] * U.RACER["I_1"] / (U.RACER["l_1"] * U.RACER["I_2"]))
    for psi, controllable in ((0.7, False), (centre, True)):
        report = verdict(nabla, inputs, np.append(U.racer_point(psi), 0.2))
        assert report.controllable is controllable, f"{report}"


# --- what the verdicts mean, by motions ---------------------------------------------------------------------


def undriven(nabla, path, h):
    """z (N + 1, n - a) from rest at zero, while the first coordinates follow a path (N + 1, a).

    By steps of h with the velocity of the path between its points, half a step of z before and after.
    """
    count, dim = path.shape[1], nabla.frame.dim

    def step(state, points):
        z, w = state
        here, there = points
        x, y = (here + there) / 2.0, (there - here) / h
        middle, v = jnp.concatenate([x, z + h / 2 * w]), jnp.concatenate([y, w])
        force = lambda w: -nabla.apply_at(middle, jnp.concatenate([y, w]), jnp.concatenate([y, w]))[count:]  # noqa: E731
        new = w + h * force(w + h / 2 * force(v[count:]))
        z = z + h / 2 * (w + new)
        return (z, new), z

    start = jnp.zeros(dim - count), jnp.zeros(dim - count)
    z = jax.jit(lambda p: jax.lax.scan(step, start, (p[:-1], p[1:]))[1])(jnp.asarray(path))
    return np.concatenate([np.zeros((1, dim - count)), np.asarray(z)])


@pytest.mark.parametrize("name", always(list(ONE_SIDED)[:5], *list(ONE_SIDED)[:1]))
def test_motions_from_rest_go_to_one_side(name, rng):
    """Whatever the inputs do, z does not turn around; with an indefinite form it goes both ways."""
    dim, count, terms = ONE_SIDED[name]
    side = -1.0 if name == "downwards" else 1.0
    t = np.linspace(0.0, 1.0, 4001)[:, None]
    both, ends = accelerated(dim, PUSHED | {(2, 1, 1): -1.0}), []
    for _ in range(6):
        a, frequencies = rng.normal(size=(4, count)), np.array([1.0, 2.0, 5.0, 11.0])
        path = 0.2 * sum(c * np.sin(np.pi * f * t) ** 2 for c, f in zip(a, frequencies, strict=True))
        assert (np.diff(side * undriven(accelerated(dim, terms), path, t[1, 0])[:, 0]) >= 0.0).all()
        ends.append(undriven(both, path, t[1, 0])[-1, 0])
    assert min(ends) < 0.0 < max(ends)


def test_a_form_that_is_semidefinite_at_one_point_moves_both_ways():
    """q_3'' = q_1'^2 + q_1 q_2'^2: q_1 steps to -0.02, and q_2 swings by 0.01."""
    t = np.linspace(0.0, 1.0, 20001)
    rise = np.clip(t / 0.5, 0.0, 1.0)
    x_1 = -0.02 * rise**2 * (3.0 - 2.0 * rise)
    x_2 = 0.01 * np.where(t > 0.5, np.sin(200.0 * np.pi * (t - 0.5)) ** 2, 0.0)
    dim, _, terms = UNKNOWN["rank grows nearby, q_3'' = q_1'^2 + q_1 q_2'^2"]
    nabla = accelerated(dim, terms)
    down = undriven(nabla, np.stack([x_1, x_2], axis=1), t[1])[-1, 0]
    up = undriven(nabla, np.stack([-x_1, x_2], axis=1), t[1])[-1, 0]
    assert down < -1e-3 and up > 1e-3


def test_small_loops_of_the_kernel_turn_a_velocity_around():
    """w_1' = y_3 w_2, w_2' = y_2 w_1: moving x_2 by d adds d w_1 to w_2; a loop is a square of side 0.3."""
    lower, upper, d = np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [0.0, 0.0]]), 0.3
    loops = []
    for one, other in ((lower, upper), (upper, lower)):
        for a in (d, -d):
            for b in (d, -d):
                sides = [np.eye(2) + s for s in (a * one, b * other, -a * one, -b * other)]
                loops.append(sides[3] @ sides[2] @ sides[1] @ sides[0])
    w, turned = np.array([1.0, 0.0]), 0
    while w[0] > -0.5 * np.linalg.norm(w) and turned < 500:
        ends = [loop @ w for loop in loops]
        w = max(ends, key=lambda e: (w[0] * e[1] - w[1] * e[0]) / np.linalg.norm(e))
        turned += 1
    assert w[0] < 0.0 and turned < 500
    dim, count, terms = UNKNOWN["the kernel acts on what is pushed"]
    assert count == 3 and terms[3, 2, 4] == terms[4, 1, 3] == 1.0 and dim == 5
