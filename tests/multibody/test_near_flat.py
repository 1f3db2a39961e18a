"""Near postures in which loops are singular: C, dynamics and derivatives keep their digits.

A parallelogram without gravity has a constant H, so that C, the accelerations and all derivatives vanish.
Others are compared with 60 digits (`sixty_digits`). Loops closed in float64 leave 1e-16 / d^3 in C at a
distance d, rad: 1e-4 at 1e-4, and at 1e-5 nothing is right.
"""

import jax
import numpy as np
import pytest
from closed_chains import at, four_bar, parallelogram, stewart_platform
from closed_plan import Plan
from scipy.spatial.transform import Rotation
from sixty_digits import Closure

from connections import multibody as mb
from connections.checks import ClosureError
from connections.multibody.program.compiled_functions import compiled

X, Z = (1, 0, 0), (0, 0, 1)
DISTANCES = (1e-2, 1e-3, 1e-4, 1e-5, 3e-6)  # from the singular posture, rad
v, still = np.array([3.0]), np.zeros(1)


def isogram(a=0.6, b=0.5):
    """The crank is as long as the ground, so that its pin passes over the rocker's axis."""
    return four_bar((a, a, b, b), 1.0)


def isosceles_slider(a=0.4):
    """A crank and a rod of one length: the slider passes over the crank's axis."""
    plan = Plan(3)
    plan.add("crank", "world", "crank", mb.Revolute(Z), None, 1.0)
    plan.add("rod", "crank", "rod", mb.Revolute(Z), at(a), -2.0)
    plan.add("slide", "world", "slider", mb.Prismatic(X), None, 2.0 * a * np.cos(1.0))
    plan.loop("pin", "rod", "slider", mb.Coincident(), at(a), independent=["crank"])
    return plan


#: The turn of a socket, without round-off: the quaternion is far from one where the arm points along X.
SOCKET = Rotation.from_matrix(np.roll(np.eye(3), 1, axis=0))


def arm_on_a_ball():
    """An arm on a ball, its tip held by a strut, which points along its first hinge if the arm does."""
    turn = Rotation.from_rotvec([0.0, -0.8, 0.0])
    x, _, z = turn.apply([0.5, 0.0, 0.0]) + [0.3, 0.0, 0.0]
    plan = Plan(3)
    socket = np.eye(4)
    socket[:3, :3] = SOCKET.as_matrix()
    plan.add("ball", "world", "arm", mb.Spherical(), socket, (SOCKET.inv() * turn).as_quat())
    plan.add("first", "world", "fork", mb.Revolute(X), at(-0.3))
    plan.add("second", "fork", "tube", mb.Revolute((0, 1, 0)), None, np.arctan2(x, z))
    plan.add("slide", "tube", "rod", mb.Prismatic(Z), None, np.hypot(x, z))
    plan.loop("pin", "arm", "rod", mb.Coincident(), at(0.5), independent=["ball"])
    return plan


POSTURES = {
    "parallelogram": (parallelogram, 0.0),
    "isogram": (isogram, 0.0),
    "slider": (isosceles_slider, np.pi / 2),
}


@pytest.fixture(scope="module")
def flat():
    return parallelogram().build()


@pytest.mark.parametrize("d", [*DISTANCES, -1e-4])
def test_a_parallelogram_has_no_coriolis_forces(flat, d):
    q = np.array([d])
    H = mb.mass_matrix(flat, q)[0, 0]
    np.testing.assert_allclose(H, mb.mass_matrix(flat, [1.0])[0, 0], rtol=1e-14)
    assert abs(mb.coriolis_matrix(flat, q, v)[0, 0]) < 1e-13 * H
    assert abs(mb.forward_dynamics(flat, q, v, still)[0]) < 1e-12
    of_q, of_v, of_a = mb.inverse_dynamics_derivatives(flat, q, v, still)
    assert abs(of_q[0, 0]) < 1e-8 * H and abs(of_v[0, 0]) < 1e-13 * H and abs(of_a[0, 0] - H) < 1e-14


def test_in_jax_and_in_batches(flat):
    q = np.array(DISTANCES)[:, None]
    rows = np.broadcast_to(v, q.shape)
    H = mb.mass_matrix(flat, [1.0])[0, 0]
    assert np.abs(mb.coriolis_matrix(flat, q, rows)).max() < 1e-13 * H
    traced = jax.jit(lambda q, v: mb.coriolis_matrix(flat, q, v))
    assert np.abs(traced(q, rows)).max() < 1e-13 * H and abs(traced(q[3], v)[0, 0]) < 1e-13 * H
    rate = jax.jit(jax.jacfwd(lambda q: mb.forward_dynamics(flat, q, v, still)))
    assert abs(rate(q[2])[0, 0]) < 1e-9


def compare(model, q, tolerance):
    """The solution of loops at q, beside that with 60 digits; relative to the largest entry of each part."""
    found = model.program.solution(q)
    q_s, G, LG = Closure(model).solution(found.q)
    np.testing.assert_allclose(found.q, q_s, atol=1e-15)
    for mine, exact in ((found.G, G), (found.LG, LG)):
        np.testing.assert_allclose(mine, exact, rtol=0.0, atol=tolerance * max(1.0, np.abs(exact).max()))


@pytest.mark.parametrize("name", POSTURES)
@pytest.mark.parametrize("d", [1e-3, 1e-5])
def test_sixty_digits(name, d):
    plan, singular = POSTURES[name]
    compare(plan().build(), np.array([singular + d]), 1e-14)


@pytest.mark.parametrize("d", [1e-2, 1e-4])
def test_an_independent_ball(d):
    """Its quaternion is of norm one in all digits: 1e-16 of it would leave 1e-16 / d^3 in LG."""
    turn = Rotation.from_euler("yzx", [-d, 0.3 * d, 0.4])
    compare(arm_on_a_ball().build(), (SOCKET.inv() * turn).as_quat(), 1e-15)


@pytest.mark.further
@pytest.mark.parametrize("name", POSTURES)
@pytest.mark.parametrize("d", [0.3, 2e-2, 1e-2, 1e-4, -1e-4, 3e-6])
def test_sixty_digits_at_all_distances(name, d):
    plan, singular = POSTURES[name]
    compare(plan().build(), np.array([singular + d]), 1e-10 if d == 0.3 else 1e-14)


@pytest.mark.further
@pytest.mark.parametrize("d", [1e-3, 1e-5])
def test_a_stewart_platform_near_its_singular_pose(d):
    """Six legs that are independent: G grows as 1 / d, and LG as 1 / d^3."""
    yaw = 1.5504800478958933 - d
    lengths = np.concatenate([stewart_platform("legs", yaw).reference[f"leg {leg}"] for leg in range(6)])
    model = stewart_platform("legs").build()
    assert np.abs(model.program.solution(lengths).G).max() > 0.5 / d
    compare(model, lengths, 1e-14)


@pytest.mark.further
def test_closures_that_are_functions_are_refused_where_they_have_lost_digits():
    """They are solved in float64: C within 6e-4 of a singular posture, derivatives within 4e-3."""
    plan = parallelogram()
    ends = plan.loops["bar"]
    plan.loops["bar"] = (*ends[:2], lambda T: T[:2, 3], *ends[3:])
    model = plan.build()
    H = mb.mass_matrix(model, [1.0])[0, 0]
    assert abs(mb.coriolis_matrix(model, [2e-3], v)[0, 0]) < 1e-6 * H
    with pytest.raises(ClosureError, match="less than 6 digits"):
        mb.coriolis_matrix(model, [1e-4], v)
    assert np.isnan(jax.jit(lambda q: mb.coriolis_matrix(model, q, v))(np.array([1e-4]))).all()
    assert abs(mb.inverse_dynamics_derivatives(model, [2e-2], v, still)[0][0, 0]) < 1e-6 * H
    with pytest.raises(ClosureError, match="less than 6 digits"):
        mb.inverse_dynamics_derivatives(model, [2e-3], v, still)


def test_float64_alone_loses_them(flat):
    """The negative control: the same solution before it is refined."""
    loops, solution = flat.program.loops, np.empty(flat.program.loops.size)
    compiled.require("closure_at")(loops.closure, np.array([1e-5]), np.zeros(0), solution)
    coarse = loops.layout.dense(solution)
    assert solution[-1] < 1e-4 and np.abs(coarse.LG).max() > 1e-4
