"""Forces, controls and curves that are not finite: the error names the function and the time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further

import connections as cn
from connections import multibody as mb
from connections.checks import IntegrationError, NonFiniteError
from connections.control import ClosedLoop, MomentumObserver, PassivityController, trajectory_reference

LINE, PLANE = cn.CoordinateFrame(1), cn.CoordinateFrame(2)
FLAT = cn.ConstantMetric(LINE, np.eye(1))
ALONE = cn.MechanicalSystem(FLAT)
PUSHED = cn.MechanicalSystem(FLAT, forces=lambda t, q, v: jnp.reshape(1.0 / t, (1,)))
HALF_PLANE = cn.LeviCivita(cn.MatrixMetric(PLANE, lambda q: jnp.eye(2) / q[1] ** 2))
STILL = trajectory_reference(LINE, lambda t: 0.0 * t * jnp.ones(1), 2.0)
FAR = [0.0, 0.5, 1.0]


def power(exponent):
    return lambda t, q, v: jnp.reshape(jnp.abs(t) ** exponent, (1,))


def until_half(t, q, v):
    return jnp.where(t >= 0.5, jnp.nan, 0.0) * jnp.ones_like(v)


def refused(call, name, time):
    with pytest.raises(IntegrationError, match=f"{name}.* at t = {time}$") as caught:
        call()
    assert isinstance(caught.value.__cause__, NonFiniteError)
    return caught.value


@pytest.mark.parametrize("end", [1.0, -1.0])
@pytest.mark.parametrize("exponent", [-1.0, -0.9, -0.5])
def test_a_force_that_is_infinite_at_first_gives_no_number(exponent, end):
    """Its integral may exist, and steps cannot find it; the integral of 1 / t does not exist."""
    refused(lambda: ALONE.simulate([0.0], [1.0], [0.0, end], power(exponent)), "control", 0)


def test_every_motion_that_begins_with_an_infinite_rate_is_an_error():
    """Forces of systems, batches, geodesics, potentials, closed loops, observers."""
    force, one = r"forces\(t, q, v\)\[0\] is inf", [0.0]
    refused(lambda: PUSHED.simulate(one, [1.0], FAR), force, 0)
    error = refused(lambda: PUSHED.simulate([[0.0], [1.0]], [1.0], FAR), force, 0)
    assert error.failed == ((0,), (1,))
    kept = PUSHED.simulate(one, [1.0], FAR, allow_partial=True)
    np.testing.assert_array_equal(kept.q[:, 0], [0.0, np.nan, np.nan])
    acceleration = r"acceleration\(t, q, v\)\[0\] is inf"
    refused(lambda: cn.geodesic(PUSHED.connection, one, [1.0], FAR, power(-1.0)), acceleration, 0)
    root = cn.MechanicalSystem(FLAT, lambda q: jnp.sqrt(q[0]))
    refused(lambda: root.simulate(one, [1.0], FAR), "the gradient of the potential", 0)
    loop = ClosedLoop(PUSHED, PassivityController(ALONE, 0.4), STILL)
    refused(lambda: loop.simulate(one, one, FAR), force, 0)
    refused(lambda: MomentumObserver(ALONE, 0.4).simulate(PUSHED, one, one, FAR), force, 0)


def test_inside_jit_an_infinite_first_rate_is_nan():
    found = jax.jit(lambda v: PUSHED.simulate([0.0], v, FAR).v[:, 0])(jnp.ones(1))
    np.testing.assert_array_equal(found, [1.0, np.nan, np.nan])


def test_a_nonholonomic_system_names_its_force():
    flat = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
    edge = cn.ConstrainedConnection(
        flat, forms=lambda q: jnp.stack([jnp.sin(q[2]), -jnp.cos(q[2]), 0.0 * q[2]])[None]
    )
    pushed = cn.NonholonomicSystem(edge, forces=lambda t, q, v: jnp.ones(3) / t)
    refused(lambda: pushed.simulate(np.zeros(3), [1.0, 0.0], FAR), r"forces\(.*\)\[0\] is inf", 0)


def test_a_control_that_is_nan_later_says_when():
    """Of a chart and of a robot; the motion until then is kept."""
    error = refused(
        lambda: ALONE.simulate([0.0], [1.0], [0.0, 0.25, 1.0], until_half), "control.* is nan", 0.5
    )
    np.testing.assert_allclose(error.motion.q[:, 0], [0.0, 0.25], atol=1e-12)
    refused(lambda: ALONE.simulate([0.0], [1.0], FAR, lambda t, q, v: jnp.nan * v), "control", 0)


@pytest.mark.parametrize("name", ["arm", further("four_bar"), further("quadruped")])
def test_a_robot_names_its_control(name):
    """A NaN at once, and one from 0.5 s on, of one motion and of a batch."""
    robot = mb.example(name)
    system, q0 = robot.system(), np.array(robot.neutral() if name != "four_bar" else [0.3])
    v0 = np.zeros(system.frame.dim)
    refused(lambda: system.simulate(q0, v0, FAR, lambda t, q, v: np.nan * v), "control.* is nan", 0)

    def hold(t, q, v):  # the weight at rest, in NumPy only
        tau = system.gravity(q)
        tau[-1] = np.nan if t >= 0.05 else tau[-1]
        return tau

    times = [0.0, 0.02, 0.1]
    last = rf"control\(t, q, v\)\[{len(v0) - 1}\] is nan"
    error = refused(lambda: system.simulate(q0, v0, times, hold), last, 0.05)
    assert error.motion.q.shape[0] == 2
    refused(lambda: system.simulate(np.stack([q0, q0]), v0, times, hold), last, 0.05)


def test_stages_that_leave_a_chart_are_no_error():
    """A control that is defined for q < 1 only, on a motion that turns back before q = 1."""
    pull = 0.5001  # v^2 / 2 of 1 is used up at q = 1 / (2 pull)

    def control(t, q, v):
        return -pull * jnp.ones(1) + 0.0 * jnp.sqrt(1.0 - q)

    motion = ALONE.simulate([0.0], [1.0], [0.0, 4.0], control)
    np.testing.assert_allclose(motion.q[-1], 4.0 - 0.5 * pull * 16.0, atol=1e-8)


def test_a_curve_that_is_not_finite_carries_nothing():
    for curve, time in (
        (lambda t: jnp.stack([jnp.sqrt(t), 1.0 + 0.0 * t]), "0"),
        (lambda t: jnp.stack([jnp.where(t > 0.5, jnp.nan, t), 1.0]), "0.5"),
    ):
        with pytest.raises((IntegrationError, NonFiniteError), match=f"t = {time}"):
            cn.parallel_transport(HALF_PLANE, curve, [1.0, 0.0], [0.0, 1.0])


#: V = q^2 / 2, unknown beyond 1/2: its gradient is finite everywhere.
HOLED = cn.MechanicalSystem(FLAT, lambda q: 0.5 * q[0] ** 2 + jnp.where(q[0] > 0.5, jnp.nan, 0.0))


def test_a_potential_that_is_not_finite_is_named_though_its_gradient_is():
    """Of one motion, with events and in a batch; from the beginning; where it is infinite."""
    passes = lambda t, q, v: q[0] - 0.3  # noqa: E731
    for options in ({}, {"events": passes}):
        error = refused(lambda o=options: HOLED.simulate([0.0], [1.0], FAR, **o), "potential is nan", 1)
        np.testing.assert_allclose(error.motion.q[:, 0], np.sin([0.0, 0.5]), atol=1e-9)
        refused(lambda o=options: HOLED.simulate([0.7], [-1.0], FAR, **o), "potential is nan", 0)
    error = refused(lambda: HOLED.simulate([0.0], [[0.2], [1.0]], FAR), "potential is nan", 1)
    assert error.failed == ((1,),)
    wall = cn.MechanicalSystem(FLAT, lambda q: jnp.where(q[0] > 0.5, jnp.inf, 0.0))
    refused(lambda: wall.simulate([0.0], [0.8], FAR), "potential is inf", 1)
    # The controls: below the hole, and where no energy is compared.
    np.testing.assert_allclose(HOLED.simulate([0.0], [0.4], FAR).q[:, 0], 0.4 * np.sin(FAR), atol=1e-9)
    HOLED.simulate([0.0], [1.0], FAR, lambda t, q, v: 0.0 * v)


def test_inside_jit_a_potential_that_is_not_finite_ends_the_motion():
    found = jax.jit(jax.vmap(lambda v: HOLED.simulate([0.0], v, FAR).q[:, 0]))(jnp.array([[0.4], [1.0]]))
    np.testing.assert_array_equal(np.isfinite(found), [[True, True, True], [True, True, False]])


def test_a_momentum_that_is_not_finite_ends_a_motion():
    """Of a symmetry whose generator is unknown beyond 1/2; variational steps have an error of their own."""
    along = lambda q, g: q + g[0] * jnp.where(q[0] > 0.5, jnp.nan, 1.0) * jnp.array([1.0, 0.0])  # noqa: E731
    shift = cn.GroupAction(along, lambda g, h: g + h, [0.0])
    free = cn.MechanicalSystem(cn.ConstantMetric(PLANE, np.eye(2)))
    run = lambda v, **o: free.simulate([0.0, 0.0], [v, 0.0], FAR, symmetry=shift, **o)  # noqa: E731
    assert run(0.4).q.shape == (3, 2)
    with pytest.raises(IntegrationError, match="generator 0 of the symmetry, .* is not finite"):
        run(0.8)
    with pytest.raises(NonFiniteError, match="momenta"):
        run(0.8, method="variational", step=0.1)
