"""The member with the smallest k_C: Christoffel's in coordinates, another one for a body in body axes."""

from types import SimpleNamespace

import numpy as np
import pytest
from cases import further
from small_chains import chain, hinge, two_limbs

from connections import certified
from connections import multibody as mb
from connections.certified import coriolis, member
from connections.certified.coriolis import Symbols
from connections.certified.member import _of_one_body as of_one_body
from connections.certified.postures import Postures
from connections.certified.trilinear import attained


def three_form(rng, n):
    D = rng.standard_normal((n, n, n))
    D = D + D.transpose(1, 2, 0) + D.transpose(2, 0, 1)
    return D - D.transpose(0, 2, 1)


def body(moments, mass=1.0):
    """A free body whose origin is its centre of mass; `moments` are those of its mass, S = tr J / 2 - J."""
    mechanism = mb.Mechanism()
    mechanism.add_body("body", mass, inertia=np.diag(np.sum(moments) - np.asarray(moments)))
    mechanism.add_joint("base", "world", "body", mb.Free())
    return mechanism.build()


@pytest.mark.parametrize("seed", [0, further(1), further(2)])
def test_no_member_is_below_christoffel_s_in_coordinates(seed, rng):
    """k_C(Gamma* - D) >= k_C(Gamma*) at each posture, also in the mass matrix's norm; D = 0 is found."""
    robot = chain(*(hinge(rng) for _ in range(3 + seed)), rng=rng)
    n = robot.nv
    for q in rng.uniform(-3, 3, (5, n)):
        root = np.linalg.inv(np.linalg.cholesky(mb.mass_matrix(robot, q)))
        for change in (np.eye(n), root):
            turned = np.einsum("ijk,ai,bj,ck->abc", mb.christoffel_symbols(robot, q), change, change, change)
            smallest = certified.trilinear_norm(turned)
            z, v, y = smallest.directions
            parallel = abs(v @ y)  # the value is attained at v = y, where D adds nothing
            assert parallel == pytest.approx(1.0, abs=1e-5)
            for size in (0.1, 1.0):
                other = turned - size * smallest.lower * three_form(rng, n)
                assert attained(other[None])[0][0] >= smallest.lower * (1.0 - 1e-9)
    found = certified.smallest_coriolis(robot, rtol=0.05)
    christoffel = certified.coriolis_bound(robot, rtol=0.05).interval
    assert found.smallest.lower > (1.0 - 5e-3) * christoffel.lower
    assert found.bound.interval.upper <= 1.06 * christoffel.lower


def test_the_control_moves_off_christoffel_s(rng):
    """What is not symmetric in v and y has a smaller norm after a 3-form is subtracted."""
    D = three_form(rng, 3)
    assert certified.trilinear_norm(D - D).upper < certified.trilinear_norm(D).lower


def test_a_body_that_is_not_round(rng):
    """max(m, Delta) / 2 <= k_C <= (m + Delta) / 2, Delta the difference of the moments; D of the proof."""
    for moments in ([1.0, 0.2, 0.1], [3.0, 0.0, 0.0], [0.3, 0.2, 0.1]):
        robot, middle = body(moments), (max(moments) + min(moments)) / 2.0
        smallest, difference = certified.smallest_coriolis(robot, seconds=5.0).smallest, np.ptp(moments)
        assert smallest.upper >= 0.5 * max(1.0, difference) * (1 - 1e-9)
        assert smallest.lower <= 0.5 * (1.0 + difference) * (1 + 1e-9)
        proved = certified.coriolis_bound(robot, contorsion=round_form(middle, 1.0), rtol=1e-3).interval
        assert proved.upper <= 0.5 * (1.0 + difference) * 1.002 and proved.upper >= smallest.lower


def test_a_robot_that_floats():
    """A constant D of the base: its k_C is proved to be near what no D is below, and below the least's."""
    robot = two_limbs()
    found = certified.smallest_coriolis(robot, rtol=0.05, seconds=30.0)
    least, christoffel = (
        certified.coriolis_bound(robot, body_factor=factor).interval for factor in ("least", "christoffel")
    )
    assert found.smallest.gap < 0.12
    assert found.smallest.upper < 0.9 * least.lower < 0.7 * christoffel.lower
    assert not found.contorsion[6:].any() and found.contorsion[:6, :6, :6].any()


def test_the_start_of_a_robot_that_floats():
    """Half the mass in the inner product of the centre's own velocity, which is v + omega x c."""
    mechanism, centre = mb.Mechanism(), np.array([0.3, -0.2, 0.5])
    mechanism.add_body("body", 4.0, centre)
    mechanism.add_joint("base", "world", "body", mb.Free())
    robot, to_centre = mechanism.build(), np.eye(6)
    to_centre[3:, :3] = np.stack([np.cross(axis, centre) for axis in np.eye(3)], axis=1)
    for sign, largest in ((1.0, 2.0), (-1.0, np.inf)):
        D = of_one_body(Postures.of(robot))
        D[:3, :3, 3:] *= sign  # the control: the moments of the other sign
        rest = mb.christoffel_symbols(robot, robot.neutral()) - D
        found = certified.trilinear_norm(rest, metric=to_centre.T @ to_centre)
        assert (found.upper <= 1.002 * largest) and (sign > 0.0 or found.lower > 2.1)


def round_form(middle, mass, sign=1.0):
    """D = m / 2 (omega v v) + (S + m / 2) (omega omega omega)."""
    epsilon, D = np.cross(np.eye(3)[:, None], np.eye(3)[None]).transpose(2, 0, 1), np.zeros((6, 6, 6))
    for a, b, c in ((0, 3, 3), (3, 0, 3), (3, 3, 0)):
        D[a : a + 3, b : b + 3, c : c + 3] = 0.5 * mass * epsilon
    D[:3, :3, :3] = (middle + sign * 0.5 * mass) * epsilon
    return D


@pytest.mark.parametrize("moments", [[1e-9] * 3, further([2.5] * 3)])
def test_a_ball_in_body_axes(moments):
    """m / 2 is the smallest, of D = m / 2 (omega v v) + (S + m / 2) (omega omega omega), for each round body.

    No member is below: |C v| = m |omega x v|. Christoffel's has max(S_0, m), the least 2 m / 3 or more.
    """
    robot, mass = body(moments, 3.0), 3.0
    proved = certified.coriolis_bound(robot, contorsion=round_form(moments[0], mass), rtol=1e-4).interval
    assert proved.lower <= 0.5 * mass * (1 + 1e-9) and proved.upper <= 0.5 * mass * (1 + 1e-4)
    wrong = round_form(moments[0], mass, -1.0)  # the control
    assert certified.coriolis_bound(robot, contorsion=wrong, rtol=1e-2).interval.lower > 0.7 * mass
    found = certified.smallest_coriolis(robot, rtol=0.03, seconds=30.0)
    assert found.smallest.lower <= 0.5 * mass * (1 + 1e-9) <= found.smallest.upper * (1 + 1e-9)
    assert found.smallest.gap <= 0.04


@pytest.mark.parametrize(
    "moments, christoffel, least",
    [
        ([0.5, 0.5, 0.5], 1.0, 2 / 3),
        further([0.2, 0.3, 0.5], 1.0, 2 / 3),
        further([2.5, 2.5, 2.5], 2.5, 2 / 3),
        ([1.0, 1e-6, 1e-6], 1.0, 5**0.5 / 3),
    ],
)
def test_one_body_from_both_sides(moments, christoffel, least):
    """max(S_0, m), and 2 m / 3 where |S - tr S / 3| <= m / 3: the ratio 3/2, proved by the ends."""
    for factor, size in (("christoffel", christoffel), ("least", least)):
        k_C = certified.coriolis_bound(body(moments), body_factor=factor, rtol=1e-4).interval
        assert k_C.lower <= size * (1 + 1e-5) and size * (1 - 1e-5) <= k_C.upper and k_C.gap <= 1e-4


@pytest.mark.parametrize("seconds", [1.0, 30.0])
def test_a_clock_that_evaluations_advance_is_obeyed(seconds, rng, monkeypatch):
    """A second for each call; a few of each kind come in any case."""
    robot, now = chain(*(hinge(rng) for _ in range(3)), base=mb.Free(), rng=rng), [0.0]

    def counted(function):
        def call(*given):
            now[0] += 1.0
            return function(*given)

        return call

    for module in (coriolis, member):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(Symbols, "at", counted(Symbols.at))
    monkeypatch.setattr(coriolis, "along", counted(coriolis.along))
    found = certified.smallest_coriolis(robot, rtol=1e-6, seconds=seconds)
    assert found.bound.interval.reached == "time" and seconds < now[0] <= seconds + 20.0
