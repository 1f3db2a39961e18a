"""Values of constants by routes of their own, and robots at the edges of what has constants."""

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from connections import certified
from connections import multibody as mb
from connections.certified import boxes
from connections.certified.norms import Inverse, Ratio, Spectral, Symmetric, Torque
from connections.certified.postures import Postures
from connections.certified.quantities import Quantities
from connections.checks import ModelError

AWAY, FAR = np.eye(4), np.eye(4)
AWAY[0, 3], FAR[0, 3] = 1.0, 5.0


def two_links(first):
    """Links of 1 m that the given joint, 5 m from the world's origin, and a hinge move."""
    made = mb.Mechanism()
    made.add_body("a", 1.0, (1.0, 0.0, 0.0), np.eye(3))
    made.add_body("b", 1.0, (1.0, 0.0, 0.0))
    made.add_joint("first", "world", "a", first, placement=FAR)
    made.add_joint("elbow", "a", "b", mb.Revolute((0, 1, 0)), placement=AWAY)
    return made.build()


@pytest.mark.parametrize(("speed", "acceleration"), [(2.0, 3.0), (2.0, None), (None, 3.0), (6.0, 0.1)])
def test_a_torque_is_one_of_inverse_dynamics(speed, acceleration, rng):
    """With limits gravity and velocity products have signs of their own: their sizes do not add up."""
    robot = two_links(mb.Revolute((0, 1, 0)))
    limits = {"first": (0.1, 0.3), "elbow": (-2.0, -1.2)}
    found = certified.constants(
        robot, limits, only=["torque:first"], speed=speed, acceleration=acceleration, rtol=1e-3
    )["torque:first"]
    angles = np.linspace(0.0, 2.0 * np.pi, 41)
    unit = np.stack([np.cos(angles), np.sin(angles)], -1)
    q = np.stack(np.meshgrid(np.linspace(0.1, 0.3, 7), np.linspace(-2.0, -1.2, 17)), -1).reshape(-1, 2)
    q, v, a = (
        x.reshape(-1, 2)
        for x in np.broadcast_arrays(
            q[:, None, None], (speed or 0.0) * unit[:, None], (acceleration or 0.0) * unit
        )
    )
    still = np.abs(mb.inverse_dynamics(robot, q, 0.0 * v, a)[:, 0]).max()
    largest = max(still, np.abs(mb.inverse_dynamics(robot, q, v, a)[:, 0]).max())
    assert largest <= found.upper
    assert found.lower <= 1.01 * largest


def test_the_reach_of_a_ball_joint_is_from_the_world_and_of_a_base_that_floats_from_itself():
    """The body turns round the ball; control: a joint that only turns about one axis."""
    for joint, reach in ((mb.Spherical(), 6.0), (mb.Free(), 1.0), (mb.Revolute((1, 0, 0)), 6.0)):
        found = certified.constants(two_links(joint), only=["reach"], rtol=1e-3, frame="b")["reach"]
        assert found.lower - 1e-9 <= reach <= found.upper
        assert found.gap < 2e-3


@pytest.mark.parametrize("joint", [mb.Free(), mb.Spherical(), mb.Revolute((0, 1, 0))])
def test_one_body_has_a_constant_mass_matrix(joint):
    made = mb.Mechanism()
    made.add_body("a", 1.0, (0.2, 0.0, 0.0), np.diag([1.0, 2.0, 2.5]))
    made.add_joint("j", "world", "a", joint)
    found = certified.constants(made.build(), rtol=0.05, seconds=5.0)
    assert (found["lipschitz"].lower, found["lipschitz"].upper) == (0.0, 0.0)
    H = mb.mass_matrix(made.build(), made.build().neutral())
    assert found["lambda_max"].lower <= np.linalg.eigvalsh(H)[-1] + 1e-12 <= found["lambda_max"].upper + 1e-9


def test_a_singular_mass_matrix_is_said_to_be():
    made = mb.Mechanism()
    made.add_body("a", 1.0, (0.0, 0.0, -1.0))
    made.add_body("nothing")
    for name, above, below in (("j", "world", "a"), ("k", "a", "nothing")):
        made.add_joint(name, above, below, mb.Revolute((0, 1, 0)))
    found = certified.constants(made.build(), rtol=0.05, seconds=5.0)
    assert found["lambda_max"].lower == pytest.approx(1.0)
    known = found.reasons.get("lambda_min") or found["lambda_min"].lower
    assert known in ("H is singular at a posture", 0.0)


def test_names_that_are_one_constant():
    found = certified.constants(mb.example("arm"), only=["energy"], rtol=0.3)
    assert found["energy"].upper == pytest.approx(0.5 * found["lambda_max"].upper)
    near = ([-0.1] * 6, [0.1] * 6)
    found = certified.constants(mb.example("arm"), near, only=["k_C:least"], rtol=0.3)
    assert found["k_C:least"].upper == found["k_C:christoffel"].upper


def test_a_gap_that_rounding_keeps_open_is_no_gap():
    made = mb.Mechanism()
    made.add_body("a", 1.0, (0.0, 0.0, -1.0))
    made.add_joint("j", "world", "a", mb.Revolute((0, 1, 0)))
    found = certified.constants(made.build(), only=["gravity"], rtol=1e-15, seconds=2.0)["gravity"]
    assert found.reached != "gap"
    assert found.lower <= 9.81 <= found.upper
    with pytest.raises(ModelError, match="above"):
        certified.constants(made.build(), {"j": (1.0, -1.0)})


def test_ends_of_limbs_bound_the_mean_of_their_corners(rng):
    """A ratio of eigenvalues is not convex: the mean of ratios, 5.5, is below the ratio of the mean, 9.2."""
    limbs = [np.diag([100.0, 10.0])[None, None], np.eye(2)[None, None]]
    nothing = np.zeros((1, 1)), np.zeros((1, 1, 2, 2))
    ends, _ = Ratio().above_mean(limbs, *nothing, -np.inf)
    assert ends[0] >= 50.5 / 5.5
    assert np.mean([Ratio().above(limb, *nothing, -np.inf)[0] for limb in limbs]) < 6.0  # the control
    for _ in range(200):
        scales = np.exp(rng.uniform(-4.0, 4.0, (3, 1, 1, 1, 1)))
        roots = rng.normal(size=(3, 1, 2, 3, 3))
        limbs = list(scales * (roots @ np.swapaxes(roots, -1, -2)))
        shares = rng.dirichlet(np.ones(2), 3)
        mean = sum(np.einsum("c,bcij->bij", w, f) for w, f in zip(shares, limbs, strict=True)) / 3.0
        for norm in (Ratio(), Inverse(), Symmetric(False), Symmetric(True), Spectral()):
            ends, _ = norm.above_mean(limbs, np.zeros((1, 1)), np.zeros((1, 1, 3, 3)), -np.inf)
            assert ends[0] >= norm.attained(mean)[0] * (1.0 - 1e-9)


@pytest.mark.parametrize("both", [False, True])
def test_no_corner_has_an_eigenvalue_above_the_end(both, rng):
    """Random ones, some with two largest eigenvalues that are nearly one; the ends are sharp."""
    norm = Symmetric(both)
    for count, n in ((1, 1), (2, 1), (5, 3), (8, 7), (3, 18)):
        f = rng.normal(size=(40, count, n, n))
        f += np.swapaxes(f, -1, -2)
        if n == 7:
            values, vectors = np.linalg.eigh(f)
            values[..., -2] = values[..., -1] * (1.0 - 1e-9)
            f = vectors * values[..., None, :] @ np.swapaxes(vectors, -1, -2)
        ends, _ = norm.above(f, np.zeros((40, 1)), np.zeros((1, 1, n, n)), -np.inf)
        exact = norm.attained(f.reshape(-1, n, n)).reshape(40, count).max(axis=1)
        assert (ends >= exact * (1.0 - 1e-13) - 1e-300).all()
        assert (ends <= exact + 1e-6 * np.abs(f).max()).all()
    nothing, _ = norm.above(np.zeros((1, 2, 3, 3)), np.zeros((1, 1)), np.zeros((1, 1, 3, 3)), -np.inf)
    assert 0.0 <= nothing[0] < 1e-280


@pytest.mark.parametrize("block", [None, np.array([1, 3])])
def test_no_corner_and_no_error_has_an_inverse_above_the_end(block, rng):
    """Random corners of scales far apart, errors of random signs; without errors ends are sharp."""
    norm = Inverse(block)
    for count, n in ((1, 4), (3, 4), (8, 6)):
        scales = np.exp(rng.uniform(-4.0, 4.0, (60, 1, n, 1)))
        roots = scales * (rng.normal(size=(60, 1, n, 2 * n)) + 0.1 * rng.normal(size=(60, count, n, 2 * n)))
        f = roots @ np.swapaxes(roots, -1, -2)
        none, _ = norm.above(f, np.zeros((60, 1)), np.zeros((1, 1, n, n)), -np.inf)
        exact = norm.attained(f.reshape(-1, n, n)).reshape(60, count).max(axis=1)
        assert (none >= exact * (1.0 - 1e-12)).all() and (none <= exact * (1.0 + 1e-5)).all()
        least = np.sqrt(np.einsum("bcii,bcjj->bcij", f, f)).min(axis=1)
        bends = 0.005 * rng.random((60, 2, n, n)) * least[:, None]
        bends += np.swapaxes(bends.copy(), -1, -2)
        factors = rng.random((60, 2))
        ends, shares = norm.above(f, factors, bends, -np.inf)
        rest = np.einsum("bm,bmij->bij", factors, bends)
        assert np.isfinite(ends).mean() > 0.3 and shares.shape == (60, 2) and (shares >= 0.0).all()
        for _ in range(60):
            signs = np.sign(rng.normal(size=(60, count, n, n)))
            signs = np.triu(signs) + np.swapaxes(np.triu(signs, 1), -1, -2)
            moved = f + signs * rest[:, None]
            positive = (np.linalg.eigvalsh(moved)[..., 0] > 0.0).all(axis=1)
            assert positive[np.isfinite(ends)].all()
            found = norm.attained(moved[positive].reshape(-1, n, n)).reshape(-1, count).max(axis=1)
            assert (found <= ends[positive] * (1.0 + 1e-9)).all()
        error = 1e-3 / exact.max()
        wrong, _ = Inverse(block, error).above(f, np.zeros((60, 1)), np.zeros((1, 1, n, n)), -np.inf)
        true = norm.attained((f - error * np.eye(n)).reshape(-1, n, n)).reshape(60, count).max(axis=1)
        assert (wrong >= true * (1.0 - 1e-9)).all() and (
            wrong[true > exact] <= 1.01 * true[true > exact]
        ).all()
        enough, _ = norm.above(f, factors, bends, 2.0 * np.max(ends[np.isfinite(ends)]))
        assert (enough >= ends * (1.0 - 1e-9)).all()  # not sharp, and above


def test_limbs_one_by_one_bound_all_postures_from_any_of_them(rng):
    """From the best posture with little loss; from the worst one, too, they are above all samples."""
    made = mb.Mechanism()
    made.add_body("trunk", 1.0, inertia=np.eye(3))
    made.add_joint("turn", "world", "trunk", mb.Revolute((0, 1, 0)))
    for side, name in ((1.0, "left"), (-1.0, "right")):
        at = np.eye(4)
        at[0, 3] = 0.5 * side
        made.add_body(name, 5.0, (side, 0.0, 0.0))
        made.add_joint(f"{name} shoulder", "trunk", name, mb.Revolute((0, 1, 0)), placement=at)
    postures = Postures.of(made.build())
    points = rng.uniform(postures.lower, postures.upper, (2000, 3))
    for name in ("largest", "slope"):
        quantity = getattr(Quantities(postures), name)()
        attained = quantity.norm.attained(quantity.function(points))
        for start in (attained.argmin(), attained.argmax()):
            search = boxes._BoxSearch(quantity, postures.held(quantity.depends), 0.05)
            search.keep(points[[start]], search.values(points[[start]]))
            search.part(time.monotonic() + 60.0)
            assert attained.max() <= search.parts, name
        if name == "largest":
            assert search.parts < 1.1 * attained.max()


def test_a_torque_is_convex_and_no_error_exceeds_its_size(rng):
    n, count = 3, 300
    norm = Torque(n, 1.7, 2.3)
    one, other = rng.normal(size=(2, count, 1 + n + n * n))
    for f in (one, other):  # S is symmetric
        S = f[:, 1 + n :].reshape(count, n, n)
        S += np.swapaxes(S.copy(), 1, 2)
    mean = norm.attained((one + other) / 2.0)
    assert (mean <= (norm.attained(one) + norm.attained(other)) / 2.0 + 1e-12).all()
    assert (norm.attained(one + other) <= norm.attained(one) + norm.sizes(np.abs(other)) + 1e-12).all()
    np.testing.assert_allclose(norm.attained(-one), norm.attained(one), rtol=1e-12)


@pytest.mark.parametrize("heavy", [0, 1, 2])
def test_trees_that_stand_apart_are_bounded_one_by_one(heavy, monkeypatch):
    """Whichever has the largest eigenvalue; Ctrl-C in the second one leaves no upper end."""
    made = mb.Mechanism()
    for number in range(3):
        mass = 3.0 if number == heavy else 1.0
        for joint, before in enumerate(("world", f"a{number}")):
            at = np.eye(4)
            at[0, 3] = 0.7 * joint
            made.add_body(f"{'ab'[joint]}{number}", mass, (0.5, 0.1 * number, 0.0), 0.01 * np.eye(3))
            made.add_joint(f"j{number}{joint}", before, f"{'ab'[joint]}{number}", mb.Revolute((0, 1, 0)), at)
    robot = made.build()
    q = np.random.default_rng(0).uniform(-np.pi, np.pi, (4000, 6))
    exact = {"lambda_max": np.linalg.eigvalsh(mb.mass_matrix(robot, q))[:, -1].max()}
    slope = mb.inverse_dynamics_derivatives(robot, q, 0.0 * q, 0.0 * q)[0]
    exact["k_g"] = np.linalg.norm(slope, 2, axis=(1, 2)).max()
    found = certified.constants(robot, only=list(exact), rtol=1e-3, seconds=20.0)
    for name, sampled in exact.items():
        assert sampled <= found[name].upper <= found[name].lower * (1.0 + 1.1e-3)
        assert found[name].lower == pytest.approx(sampled, rel=0.02)
    top = np.linalg.eigvalsh(mb.mass_matrix(robot, found["lambda_max"].posture))[-1]
    assert top == pytest.approx(found["lambda_max"].lower, rel=1e-9)
    begin, calls = boxes._BoxSearch.begin, []

    def interrupted(search):
        calls.append(search)
        if len(calls) == 2:
            raise KeyboardInterrupt
        begin(search)

    monkeypatch.setattr(boxes._BoxSearch, "begin", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        certified.constants(robot, only=["lambda_max"])
    assert caught.value.constants["lambda_max"].upper == np.inf


def test_the_ends_of_blocks_are_the_largest_of_each(monkeypatch):
    """A block that attains less may have the larger proved end; what is known is passed on."""
    postures = Postures.of(mb.example("arm"))
    quantity = replace(Quantities(postures).largest(), blocks=((np.array([0]), np.array([0])),) * 3)
    ends, known = [(1.0, 2.0, "gap"), (1.5, 1.9, "time"), (1.5, 1.8, "gap")], []

    def searched(block, postures, **options):
        known.append(options["known"])
        lower, upper, reached = ends[len(known) - 1]
        better = lower > options["known"]
        return certified.Interval(lower, upper, "", np.full(2, len(known)) if better else None, 1, reached)

    monkeypatch.setattr(boxes, "supremum", searched)
    found = boxes._of_blocks(quantity, postures, 0.02, 1.0, "", "")
    assert (found.lower, found.upper, found.reached, found.boxes) == (1.5, 2.0, "time", 3)
    assert known == [-np.inf, 1.0, 1.5] and found.posture.tolist() == [2, 2]


def test_parabolas_and_what_they_leave_out(rng):
    """Bernstein polynomials of control values are the parabolas; of sin 2q as much is left out as is said."""
    values = rng.normal(size=(5, 9, 2))
    control = boxes._control_values(values, [3, 1, 3]).reshape(5, 3, 3, 2)
    nodes = np.array([0.0, 0.5, 1.0])
    s, t = rng.random(2)
    weights = [np.array([(1.0 - x) ** 2, 2.0 * x * (1.0 - x), x**2]) for x in (s, t)]
    lagrange = [np.linalg.solve(np.vander(nodes, 3).T, x ** np.array([2, 1, 0])) for x in (s, t)]
    parabola = np.einsum("i,j,bijk->bk", *lagrange, values.reshape(5, 3, 3, 2))
    np.testing.assert_allclose(np.einsum("i,j,bijk->bk", *weights, control), parabola, rtol=1e-12, atol=1e-12)
    width, q = 0.1, np.linspace(-0.05, 0.05, 1001)
    through = np.polyfit([-0.05, 0.0, 0.05], np.sin(2.0 * np.array([-0.05, 0.0, 0.05])), 2)
    left = np.abs(np.polyval(through, q) - np.sin(2.0 * q)).max()
    assert 0.98 < left / (width**3 / 62.0 * 4.0) <= 1.0


@pytest.mark.parametrize("seconds", [3.0, 30.0])
def test_ascents_obey_a_clock_that_evaluations_advance(seconds, monkeypatch):
    """A second for each call; those of a first value of each ascent, and of one box, come in any case."""
    quantities, now = Quantities(Postures.of(mb.example("arm"))), [0.0]
    slope = quantities.slope()

    def function(q):
        now[0] += 1.0
        return slope.function(q)

    monkeypatch.setattr(boxes, "time", SimpleNamespace(monotonic=lambda: now[0]))
    found = boxes.supremum(replace(slope, function=function), quantities.postures, seconds=seconds)
    assert found.reached == "time" and seconds < now[0] <= seconds + 12.0


def test_a_body_with_nothing_to_cut_and_an_eigenvalue_of_zero():
    """A single floating body: rounding keeps the gap above a small rtol. A point mass on its own axis."""
    made = mb.Mechanism()
    made.add_body("b", 1000.0, (5.0, 0.0, 0.0), 10.0 * np.eye(3))
    made.add_joint("f", "world", "b", mb.Free())
    found = certified.constants(made.build(), only=["lambda_min", "condition", "lambda_max"], rtol=1e-12)
    values = np.linalg.eigvalsh(mb.mass_matrix(made.build(), made.build().neutral()))
    assert values[0] in found["lambda_min"] and values[-1] in found["lambda_max"]
    torque = certified.constants(made.build(), only=["torque:f"], speed=1.0, acceleration=1.0)
    assert "no rates" in torque.reasons["torque"]
    with pytest.raises(ValueError, match="less than 1"):
        certified.constants(made.build(), rtol=1.5)
    assert "condition" in found and "reach" not in found and set(found) == set(found.intervals)
    at = np.eye(4)
    at[:3, 3] = 1.4, -0.02, 1.0
    for number in range(6):
        rng, made = np.random.default_rng(number), mb.Mechanism()
        made.add_body("a", 1.0, inertia=0.1 * np.eye(3))
        made.add_body("b", 1.0)
        made.add_joint("s", "world", "a", mb.Revolute(rng.normal(size=3)))
        made.add_joint("t", "a", "b", mb.Revolute(rng.normal(size=3)), at)
        found = certified.constants(made.build(), only=["lambda_min"], seconds=0.3)
        if "lambda_min" in found:
            assert 0.0 <= found["lambda_min"].lower < found["lambda_min"].upper < 1e-9
        else:
            assert "singular" in found.reasons["lambda_min"]


def test_what_parabolas_leave_out_is_in_the_ends():
    """2 + sin 2q - 2 cos h sin q is 2 at -h, 0 and h, as its parabola, and less between them."""
    postures, h = Postures.of(mb.example("arm")), 0.4
    moving = np.arange(len(postures.lower)) == 0

    def function(q):
        return (2.0 + np.sin(2.0 * q[:, :1]) - 2.0 * np.cos(h) * np.sin(q[:, :1]))[:, :, None]

    bends = np.where(moving, 6.0, 0.0)[:, None, None]
    quantity = boxes.Quantity(function, bends, Inverse(), moving, curved=True)
    search = boxes._BoxSearch(quantity, postures.held(moving), 0.05)
    low, high = search.postures.lower[None].copy(), search.postures.upper[None].copy()
    low[0, 0], high[0, 0] = -h, h
    (end,), _ = search.bounded(low, high)
    true = (1.0 / function(np.linspace(-h, h, 2001)[:, None])).max()
    assert 0.505 < true <= end < 0.6
