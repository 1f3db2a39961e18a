"""Verdicts on controllability in any units of coordinates, inputs and time, without a metric that has units.

A coordinate x = c q and an input in another unit are the same system. So a verdict may become undecided, but
what is clear must be so in all units, and the same.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import underactuated as U
from cases import always, further
from underactuated import accelerated, first

import connections as cn
from connections.control import controllability

AWAY = np.array([0.3, -0.7, 0.4, 0.2])


def in_units(nabla, inputs, c, b):
    """The same system in coordinates c q and with inputs b_a Y_a, by its connection's coefficients alone."""
    given, c, b = nabla.coefficients_at, jnp.asarray(c), jnp.asarray(b)

    def coefficients(x):
        return given(x / c) * c[:, None, None] / (c[:, None] * c)

    frame = cn.CoordinateFrame(len(c))
    return cn.CoefficientConnection(frame, coefficients), lambda x: inputs(x / c) * c[:, None] * b


def verdicts(nabla, inputs, q, rng, decades, count=5):
    """(accessible, controllable, clear), first in the units given, then in others."""
    a = jax.eval_shape(inputs, jnp.asarray(q)).shape[1]
    factors = [np.ones(len(q) + a), *(10.0 ** rng.uniform(-decades, decades, (count, len(q) + a)))]
    found = []
    for c, b in (np.split(each, [len(q)]) for each in factors):
        report = controllability.configuration_controllability(
            *in_units(nabla, inputs, c, b), np.asarray(q) * c
        )
        found.append((report.accessible, report.controllable, report.clear))
    return found


SQUARE = {(2, 0, 0): 1.0, (2, 0, 1): lambda q: 2 * jnp.sin(q[0]), (2, 1, 1): lambda q: jnp.sin(q[0]) ** 2}
SYSTEMS = {  # dimension, inputs, terms, point, (accessible, controllable)
    "q_1'^2 - q_2'^2": (3, 2, {(2, 0, 0): 1.0, (2, 1, 1): -1.0}, 0.0, (True, True)),
    "q_1'^2 - 1e-14 q_2'^2": (3, 2, {(2, 0, 0): 1.0, (2, 1, 1): -1e-14}, 0.0, (True, True)),
    "q_1'^2 + 1e-14 q_2'^2": (3, 2, {(2, 0, 0): 1.0, (2, 1, 1): 1e-14}, 0.0, (True, False)),
    "q_1'^2": (3, 2, {(2, 0, 0): 1.0}, 0.0, (True, False)),
    "(q_1' + sin(q_1) q_2')^2": (3, 2, SQUARE, 0.0, (True, False)),
    "the same elsewhere": (3, 2, SQUARE, 1.0, (True, False)),
    "q_1'^2 + q_1 q_2'^2": (3, 2, {(2, 0, 0): 1.0, (2, 1, 1): lambda q: q[0]}, 0.0, (True, None)),
    "where q_1 > 0": (3, 2, {(2, 0, 0): 1.0, (2, 1, 1): lambda q: q[0]}, 1.0, (True, False)),
    "where q_2 < 0": (3, 2, {(2, 0, 0): 1.0, (2, 1, 1): lambda q: q[1]}, 1.0, (True, True)),
    "q_1'^2 + q_1^7 q_2'^2": (3, 2, {(2, 0, 0): 1.0, (2, 1, 1): lambda q: q[0] ** 7}, 0.0, (True, None)),
    "q_1' q_2', q_1' q_3'": (4, 2, {(2, 0, 1): 1.0, (3, 0, 2): 1.0}, 0.0, (True, True)),
    "q_1'^2, q_1' q_3'": (4, 2, {(2, 0, 0): 1.0, (3, 0, 2): 1.0}, 0.0, (True, False)),
    "nothing": (3, 2, {(0, 0, 1): lambda q: jnp.cos(q[1])}, 1.0, (False, False)),
}


@pytest.mark.parametrize("name", always(SYSTEMS, *list(SYSTEMS)[::3]))
@pytest.mark.parametrize("decades", [further(3.5), 12.0])
def test_the_same_verdict_in_all_units(name, decades, rng):
    dim, count, terms, away, expected = SYSTEMS[name]
    found = verdicts(accelerated(dim, terms), first(dim, count), away * AWAY[:dim], rng, decades)
    assert set(found) == {(*expected, True)}


@pytest.mark.further
@pytest.mark.parametrize("time", [further(1e-9), 1e9])
def test_the_same_verdict_in_another_unit_of_time(time):
    """Coordinates keep their units: only the inputs, accelerations, change."""
    for dim, count, terms, away, expected in SYSTEMS.values():
        q = away * AWAY[:dim]
        nabla, inputs = in_units(
            accelerated(dim, terms), first(dim, count), np.ones(dim), np.full(count, time**2)
        )
        report = controllability.configuration_controllability(nabla, inputs, q)
        assert (report.accessible, report.controllable, report.clear) == (*expected, True)


MECHANISMS = [
    *("leg, torque", "leg, force", "cart and pendulum, force", "arm 3R, third joint passive"),
    "bead on a rod, two torques",
]


@pytest.mark.parametrize("name", always(MECHANISMS, *MECHANISMS[::4]))
def test_mechanisms_without_their_metric(name, rng):
    """Clear verdicts are those with the metric, and no yes becomes a no."""
    case = U.BY_NAME[name]
    found = verdicts(case.nabla, case.inputs, case.q, rng, 5.0, 3)
    assert found[0] == (case.accessible, case.controllable, True)
    assert all(each[:2] == found[0][:2] or not each[2] for each in found), found


@pytest.mark.further
def test_random_forms_have_one_verdict(rng):
    """q_3'' = B(q', q') with entries from 1e-9 to 1e9: indefinite forms are yes, definite ones no."""
    for _ in range(12):
        B = rng.choice([-1.0, 1.0], 3) * 10.0 ** rng.uniform(-9, 9, 3)
        terms = {(2, 0, 0): B[0], (2, 1, 1): B[1], (2, 0, 1): 2.0 * B[2]}
        determinant = B[0] * B[1] - B[2] ** 2
        for accessible, controllable, clear in verdicts(
            accelerated(3, terms), first(3, 2), np.zeros(3), rng, 6.0, 2
        ):
            assert accessible
            assert controllable is None or not clear or controllable is bool(determinant < 0.0), B


@pytest.mark.parametrize(("size", "controllable"), [(1e-3, True), (1e-9, True), (0.0, False)])
def test_what_round_off_leaves_is_zero(size, controllable):
    """-size q_2'^2 from terms that cancel: the sum of squares of a cosine and a sine, less one."""

    def pull(q):
        return jnp.cos(q[0]) ** 2 + jnp.sin(q[0]) ** 2 - 1.0 - size

    nabla = accelerated(3, {(2, 0, 0): 1.0, (2, 1, 1): pull})
    report = controllability.configuration_controllability(nabla, first(3, 2), AWAY[:3])
    assert report.accessible
    assert report.controllable is controllable or (0.0 < size < 1e-7 and report.controllable is None)


def test_a_metric_makes_components_comparable():
    """Round-off in data of the user, 6e-17 beside one, is no force where lengths are known."""
    report = {}
    for kind in ("metric", "none"):
        nabla = U.BY_NAME["leg, force"].nabla
        inputs = lambda q: jnp.array([[1.0], [6e-17], [0.0]])  # noqa: E731
        if kind == "none":
            nabla, inputs = in_units(nabla, inputs, np.ones(3), np.ones(1))
        report[kind] = controllability.configuration_controllability(nabla, inputs, U.LEG_POINT)
    assert report["metric"].accessible is False and report["metric"].clear
    assert report["none"].controllable is not True


# --- what is complex between a point and its result ---------------------------------------------------------


def car(q, turned):
    """Drive along the heading q_3 and turn: (cos, sin, 0) and (0, 0, 1)."""
    c, s = turned(q[2])
    return jnp.stack([jnp.stack([c, 0.0 * c]), jnp.stack([s, 0.0 * c]), jnp.stack([0.0 * c, 1.0 + 0.0 * c])])


def by_exponential(angle):
    e = jnp.exp(1j * angle)
    return e.real, e.imag


def by_fourier(angle):
    """The second entry of the transform of (0, cos, 0, sin) is -i cos + i sin."""
    zero = jnp.zeros(())
    spectrum = jnp.fft.fft(jnp.stack([zero, jnp.cos(angle), zero, jnp.sin(angle)]))
    return (spectrum[0].real - spectrum[1].imag) / 2.0, (spectrum[0].real + spectrum[1].imag) / 2.0


@pytest.mark.parametrize("turned", [by_exponential, by_fourier])
def test_a_car_with_complex_intermediate_values(turned):
    flat = cn.CoefficientConnection(cn.CoordinateFrame(3), lambda q: jnp.zeros((3, 3, 3)))
    q = [0.1, 0.2, 0.5]
    real = lambda p: car(p, lambda angle: (jnp.cos(angle), jnp.sin(angle)))  # noqa: E731
    known = controllability.configuration_controllability(flat, real, q)
    report = controllability.configuration_controllability(flat, lambda p: car(p, turned), q)
    assert known.accessible and known.controllable and known.clear
    assert (report.accessible, report.controllable, report.clear) == (True, True, True)
    for closure in (report.symmetric, report.involutive):
        fields = np.stack([field(jnp.asarray(q)) for field in closure.fields], axis=1)
        np.testing.assert_allclose(closure.values, fields, atol=1e-13)


def test_complex_inputs_are_refused():
    flat = cn.CoefficientConnection(cn.CoordinateFrame(2), lambda q: jnp.zeros((2, 2, 2)))
    with pytest.raises(TypeError, match="inputs"):
        controllability.configuration_controllability(flat, lambda q: jnp.exp(1j * q)[:, None], [0.1, 0.2])


def test_slopes_that_are_not_finite_are_refused():
    flat = cn.CoefficientConnection(cn.CoordinateFrame(2), lambda q: jnp.zeros((2, 2, 2)))
    inputs = lambda q: jnp.stack([1.0 + jnp.abs(q[0]) ** 1.5, q[1]])[:, None]  # noqa: E731
    with pytest.raises(cn.checks.NonFiniteError, match="derivatives"):
        controllability.configuration_controllability(flat, inputs, [0.0, 0.2])
