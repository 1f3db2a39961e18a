"""What the tolerances of motions mean, on linear systems whose solutions are matrix exponentials.

Independent oscillators m q'' + d q' + k (q - c) = 0, a free particle, great circles. Claims: `rtol` and
`atol` are those of `scipy.integrate.solve_ivp`, so that the error of one period follows them; by default a
step's error is 1e-10, wherever the origin of coordinates is, for each component by itself, in any units;
decay to an equilibrium takes few steps however long it lasts, and components that are nothing but round-off
cost none.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import systems
from cases import further
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import connections as cn
from connections import multibody as mb
from connections.checks import IntegrationError

PLANE = cn.CoordinateFrame(2)
BEGIN = np.array([1.0, -0.6]), np.array([0.2, 0.5])
PERIOD = np.array([0.0, 2.0 * np.pi])


def energy(q, given):
    k, c, _ = given
    return 0.5 * jnp.sum(k * (q - c) ** 2)


def resistance(t, q, v, given):
    return -given[2] * v


def oscillators(m=(1.0, 1.0), k=(1.0, 1.0), c=(0.0, 0.0), d=(0.0, 0.0)):
    """Two of them, with masses m, stiffnesses k, centres c and dampings d; all share compiled functions.

    Without damping nothing is a function of time, so that nothing but the tolerances bounds the steps.
    """
    given = tuple(np.asarray(x, dtype=float) for x in (k, c, d))
    potential = cn.ParametricFunction(energy, given)
    metric = cn.ConstantMetric(PLANE, np.diag(np.asarray(m, dtype=float)))
    forces = cn.ParametricFunction(resistance, given) if np.any(given[2]) else None
    return cn.MechanicalSystem(metric, potential, forces)


def exact(times, q0, v0, m=(1.0, 1.0), k=(1.0, 1.0), c=(0.0, 0.0), d=(0.0, 0.0)):
    """q and v at times (T,), (T, 2) each."""
    q, v = np.empty((2, len(times), 2))
    for i in range(2):
        A = np.array([[0.0, 1.0], [-k[i] / m[i], -d[i] / m[i]]])
        for j, t in enumerate(times):
            q[j, i], v[j, i] = expm((t - times[0]) * A) @ [q0[i] - c[i], v0[i]]
        q[:, i] += c[i]
    return q, v


def error(motion, expected, amplitude=1.0):
    """The largest, of q and of v, over the amplitude."""
    return max(np.abs(a - b).max() for a, b in zip(motion, expected, strict=True)) / amplitude


# --- rtol and atol -----------------------------------------------------------------------------------------


def of_oscillators(**options):
    return error(oscillators().simulate(*BEGIN, PERIOD, **options), exact(PERIOD, *BEGIN))


def of_great_circle(**options):
    """Around the sphere on a tilted circle: it ends where it began."""
    q0, v0 = np.array([1.2, 0.3]), np.array([0.6, 0.8 / np.sin(1.2)])
    q, v = cn.geodesic(systems.SPHERE_NABLA, q0, v0, PERIOD, **options)
    return error((q[-1], v[-1]), (q0 + [0.0, 2.0 * np.pi], v0))


PROBLEMS = {"oscillators": of_oscillators, "great circle": of_great_circle}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_error_follows_rtol(problem):
    """Over one period: at most 20 rtol, and it is larger for a larger one."""
    found = {rtol: PROBLEMS[problem](rtol=rtol) for rtol in (1e-3, 1e-5, 1e-7, 1e-9, 1e-11)}
    for rtol, size in found.items():
        assert size < 20.0 * rtol + 1e-13
    assert found[1e-3] > 10.0 * found[1e-5] > 100.0 * found[1e-7] > 1e3 * found[1e-9]
    assert PROBLEMS[problem]() < 1e-8


@pytest.mark.parametrize("problem", PROBLEMS)
def test_error_follows_atol(problem):
    """Where rtol asks for more, atol is enough."""
    found = {atol: PROBLEMS[problem](rtol=1e-12, atol=atol) for atol in (1e-4, 1e-7, 1e-10)}
    for atol, size in found.items():
        assert size < 20.0 * atol
    assert found[1e-4] > 10.0 * found[1e-7] > 100.0 * found[1e-10]


def test_as_accurate_as_scipy():
    """The same method with the same rtol and atol: within a factor of ten, to both sides."""

    def rate(t, y):
        return np.concatenate([y[2:], -y[:2]])

    expected = exact(PERIOD, *BEGIN)
    for rtol, atol in ((1e-4, 1e-6), (1e-6, 1e-9), (1e-9, 1e-12)):
        y = solve_ivp(rate, PERIOD, np.concatenate(BEGIN), "DOP853", PERIOD, rtol=rtol, atol=atol).y
        theirs = error((y[:2].T, y[2:].T), expected)
        assert 0.1 * theirs < of_oscillators(rtol=rtol, atol=atol) < 10.0 * theirs


@pytest.mark.further
def test_inside_jit():
    def end(start, rtol):
        return oscillators().simulate(*start, PERIOD, rtol=rtol).q[-1]

    expected = exact(PERIOD, *BEGIN)[0][-1]
    errors = [np.abs(jax.jit(lambda s, r=r: end(s, r))(BEGIN) - expected).max() for r in (1e-4, 1e-7, 1e-10)]
    assert errors[0] > 10.0 * errors[1] > 100.0 * errors[2]
    assert errors[2] < 1e-8


def test_first_step_and_max_steps():
    """A first step changes the numbers a little; too few steps are an error that says how many."""
    assert of_oscillators(first_step=1e-3) < 1e-8
    assert of_oscillators(max_steps=1000) < 1e-8
    with pytest.raises(IntegrationError, match="5 steps"):
        of_oscillators(max_steps=5)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rtol", 0.0),
        ("rtol", -1e-6),
        ("rtol", np.nan),
        ("atol", -1.0),
        ("max_step", 0.0),
        ("first_step", 0.0),
        ("first_step", 10.0),
        ("max_steps", 0),
        ("breakpoints", np.array([1.0, 7.0])),
        ("breakpoints", np.array([np.nan])),
        ("events", lambda t, q, v: v),
    ],
)
def test_bad_options_are_named(name, value):
    with pytest.raises(ValueError, match=name):
        of_oscillators(**{name: value})


@pytest.mark.parametrize("option", [{"first_step": 10.0}, {"breakpoints": np.array([1.0, 7.0])}])
def test_what_does_not_fit_the_times_is_named_inside_jit(option):
    def end(v, times):
        return cn.geodesic(systems.SPHERE_NABLA, np.array([1.2, 0.3]), v, times, **option).q[-1]

    v = np.array([0.1, 0.2])
    with pytest.raises(ValueError, match=next(iter(option))):
        jax.jit(lambda v: end(v, [0.0, 5.0]))(v)
    with pytest.raises(ValueError, match=next(iter(option))):
        jax.grad(lambda v: end(v, np.array([0.0, 5.0]))[0])(v)


# --- every component by itself -----------------------------------------------------------------------------


@pytest.mark.parametrize("far", [0.0, 1e3, 1e6, -1e6])
def test_far_from_the_origin(far):
    """Nothing is lost but the last bits of coordinates, 1e-10 for 1e6: not 1e-10 of them, 1e-4."""
    c = (far, -far)
    q0 = BEGIN[0] + c
    times = np.array([0.0, 1.0, 20.0])
    motion = oscillators(c=c).simulate(q0, BEGIN[1], times)
    assert error(motion, exact(times, q0, BEGIN[1], c=c)) < 1e-8 + 30.0 * np.spacing(abs(far))


@pytest.mark.parametrize("turns", [0.0, 1e5])
def test_after_many_turns(turns):
    """A great circle from an angle that was wound up."""
    q0, v0 = np.array([1.2, 0.3 + 2.0 * np.pi * turns]), np.array([0.6, 0.8 / np.sin(1.2)])
    q, v = cn.geodesic(systems.SPHERE_NABLA, q0, v0, PERIOD)
    assert error((q[-1], v[-1]), (q0 + [0.0, 2.0 * np.pi], v0)) < 1e-8


@pytest.mark.parametrize("times", [np.array([0.0, 20.0]), np.linspace(0.0, 20.0, 30)])
def test_light_and_slow_beside_heavy_and_fast(times):
    """Amplitudes of 1e3 and 1e-9, masses of 1e6 and 1e-6: each to 1e-8 of its own."""
    size = np.array([1e3, 1e-9])
    options = {"m": (1e6, 1e-6), "k": (9e6, 1e-8)}
    q0, v0 = size * BEGIN[0], size * BEGIN[1] * [3.0, 0.1]
    found = oscillators(**options).simulate(q0, v0, times)
    for one, other, scale in zip(
        found, exact(times, q0, v0, **options), ([1e3, 1e-9], [3e3, 1e-10]), strict=True
    ):
        np.testing.assert_allclose(one / scale, other / scale, rtol=0.0, atol=1e-7)


def test_a_slow_particle_beside_a_fast_great_circle():
    """A product: 1e-12 per second on a line, and once around the sphere."""
    line = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(1), np.eye(1)))
    nabla = cn.ProductConnection(systems.SPHERE_NABLA, line)
    q0, v0 = np.array([1.2, 0.3, 2.0e-12]), np.array([0.6, 0.8 / np.sin(1.2), 1e-12])
    q, v = cn.geodesic(nabla, q0, v0, PERIOD)
    assert error((q[-1, :2], v[-1, :2]), (q0[:2] + [0.0, 2.0 * np.pi], v0[:2])) < 1e-8
    np.testing.assert_allclose([q[-1, 2], v[-1, 2]], [(2.0 + 2.0 * np.pi) * 1e-12, 1e-12], rtol=1e-9)


@cache
def round_off():
    """H q'' = -H q in three coordinates: two of them remain what rounding makes of zero."""
    H = np.array([[1.7, 0.9, 0.31], [0.9, 1.3, 0.17], [0.31, 0.17, 0.77]])
    metric = cn.ConstantMetric(cn.CoordinateFrame(3), H)
    return cn.MechanicalSystem(metric, lambda q: 0.5 * q @ jnp.asarray(H) @ q)


@pytest.mark.parametrize("size", [1.0, 1e-12, 1e9])
def test_components_that_are_round_off(size):
    """Of others, for ten periods; they do not stop the motion, and stay what they are."""
    times = np.array([0.0, 1.0, 20.0 * np.pi])
    q, v = round_off().simulate(size * np.eye(3)[0], np.zeros(3), times)
    np.testing.assert_allclose(q[:, 0] / size, np.cos(times), atol=1e-8)
    assert np.abs(np.concatenate([q[:, 1:], v[:, 1:]])).max() < 1e-12 * size


def test_an_equator_that_is_not_quite_one():
    """cos(pi / 2) is 6e-17, and so is the acceleration across."""
    q, v = cn.geodesic(systems.SPHERE_NABLA, [0.5 * np.pi, 0.0], [0.0, 1.0], [0.0, 100.0])
    np.testing.assert_allclose(q[-1], [0.5 * np.pi, 100.0], rtol=1e-9)
    assert abs(v[-1, 0]) < 1e-13


# --- decay -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("c", [(0.7, -1.3), (0.0, 0.0), (1e6, 1e-6)], ids=str)
@pytest.mark.parametrize("d", [(0.4, 2.0), further((2.0, 2.0)), (2.5, 5.0)], ids=str)
def test_decay_to_an_equilibrium(d, c):
    """PD control for 50 of the slowest time constants: damped by 0.2, by 1, and by 2.5; in few steps."""
    slowest = max(1.0 / -np.roots([1.0, own, 1.0]).real.max() for own in d)
    times = slowest * np.array([0.0, 1.0, 10.0, 50.0])
    q0 = BEGIN[0] + c
    expected = exact(times, q0, BEGIN[1], c=c, d=d)
    for options in ({}, {"max_steps": 2_000}):
        motion = oscillators(c=c, d=d).simulate(q0, BEGIN[1], times, **options)
        assert error(motion, expected) < 1e-8 + 30.0 * np.spacing(max(c))


@pytest.mark.further
def test_decay_of_a_robot():
    """An arm under PD control and gravity comes to rest where the springs carry it."""
    model = mb.example("arm")
    system, aim = model.system(), 0.3 * np.ones(model.nq)
    H = np.asarray(system.mass_matrix(aim))

    def control(t, q, v):  # time constants of 1/20 s
        return -H @ (400.0 * (q - aim) + 40.0 * v)

    q, v = system.simulate(aim + 0.2, np.zeros(model.nq), [0.0, 1.0, 5.0], control)
    left = -400.0 * H @ (q[-1] - aim) - np.asarray(system.gravity(q[-1]))
    np.testing.assert_allclose(left, 0.0, atol=1e-5)
    assert np.abs(v[-1]).max() < 1e-7 and np.abs(q[-1] - aim).max() > 1e-3


# --- units -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("second", [1.0, 1e9, 1e-6])
@pytest.mark.parametrize("length", [1e9, 1e-6, further(1e-100)])
def test_the_same_digits_in_other_units(length, second):
    """Units of length and of time that are 1e9, or 1e-6, of ours; one of the coordinates keeps its unit."""
    unit = np.array([length, 1.0])
    c, d, k = np.array([0.7, -1.3]), np.array([0.1, 0.2]), np.array([1.0, 2.5])
    q0, v0 = BEGIN
    times = np.array([0.0, 1.0, 12.0])
    ours = oscillators(k=k, c=c, d=d).simulate(q0 + c, v0, times)
    mass = (1.0 / unit) ** 2  # of the same energy in other units
    theirs = oscillators(m=mass * second**2, k=mass * k, c=unit * c, d=mass * d * second).simulate(
        unit * (q0 + c), unit * v0 / second, second * times
    )
    rescaled = theirs.q / unit, theirs.v * second / unit
    assert error(ours, exact(times, q0 + c, v0, k=k, c=c, d=d)) < 1e-8
    assert error(rescaled, ours) < 1e-11


@pytest.mark.parametrize("unit", [1e9, 1e-6])
def test_the_same_digits_of_a_sphere_in_other_units(unit):
    """Of its radius, and of time."""
    metric = cn.MatrixMetric(PLANE, lambda q, r: r**2 * jnp.diag(jnp.stack([1.0, jnp.sin(q[0]) ** 2])), unit)
    q0, v0, times = np.array([1.2, 0.3]), np.array([0.6, 0.8]), np.array([0.0, 0.4, 9.0])
    ours = cn.geodesic(systems.SPHERE_NABLA, q0, v0, times)
    for second in (1.0, unit):
        theirs = cn.geodesic(cn.LeviCivita(metric), q0, v0 / second, second * times)
        assert error((theirs.q, theirs.v * second), ours) < 1e-11
