"""Certified constants against samples with ascent, closed forms and sixty digits; faults are noticed."""

import itertools
import json

import mpmath
import numpy as np
import pytest
from cases import further
from exact_trees import exact
from mechanisms import armed, assemble
from scipy.optimize import minimize

from connections import certified
from connections import multibody as mb
from connections.certified import boxes, coriolis
from connections.certified import quantities as parts
from connections.certified.boxes import supremum
from connections.certified.lengths import Lengths
from connections.certified.parts import plans_of, quantities_of_part
from connections.certified.postures import Postures
from connections.checks import ModelError, NonFiniteError, ShapeError

SINGLE = (mb.Revolute, mb.Revolute, mb.Revolute, mb.Prismatic, mb.Universal, mb.Cylindrical, mb.Planar)
BASES = (None, None, mb.Spherical, mb.Free)
NAMES = ("largest", "inverse", "condition", "gravity", "gravity_slope")


def random_robot(rng, coordinates=3):
    """A tree with few coordinates, and limits of which some are whole turns."""
    kinds, count = [], 0
    base = BASES[rng.integers(len(BASES))]
    while count < coordinates:
        kind = SINGLE[rng.integers(len(SINGLE))]
        if count + kind.nv <= coordinates:
            kinds.append(kind)
            count += kind.nv
    kinds = ([base] if base else []) + kinds
    parents = [
        int(rng.integers(-1 if base is None else 0, body)) if body else -1 for body in range(len(kinds))
    ]
    robot = armed(assemble(rng, kinds, parents), rng, 0.5)
    limits = {}
    for name, joint in zip(robot.joint_names, robot.kinematics.joints, strict=True):
        if joint.chain[0].quaternion is not None:
            continue
        slides = np.array([not element.turns[0] for element in joint.chain])
        lower = rng.uniform(-2.0, 0.0, joint.nq) * np.where(slides, 0.2, 1.0)
        upper = rng.uniform(0.0, 2.0, joint.nq) * np.where(slides, 0.2, 1.0)
        whole = ~slides & (rng.random(joint.nq) < 0.5)
        limits[name] = np.where(whole, -np.inf, lower), np.where(whole, np.inf, upper)
    return robot, limits


def planar_arm(first=1.0, second=0.8):
    """Two links with masses of 1 kg and 0.7 kg at their ends, in a vertical plane."""
    arm, elbow = mb.Mechanism(), np.eye(4)
    elbow[0, 3] = first
    arm.add_body("upper", 1.0, (first, 0.0, 0.0))
    arm.add_body("fore", 0.7, (second, 0.0, 0.0))
    arm.add_joint("shoulder", "world", "upper", mb.Revolute((0, 1, 0)))
    arm.add_joint("elbow", "upper", "fore", mb.Revolute((0, 1, 0)), elbow)
    return arm.build()


def points_of(postures, rng, count):
    return rng.uniform(postures.lower, postures.upper, (count, len(postures.lower)))


def best_sample(quantity, postures, rng):
    """The largest value of many samples and of ascents from the best of them."""

    def value(points):
        return quantity.norm.attained(quantity.function(postures.configurations(points)))

    points = points_of(postures, rng, 4000)
    start = points[np.argsort(value(points))[-3:]]
    bounds = list(zip(postures.lower, postures.upper, strict=True))
    found = [minimize(lambda x: -value(x[None])[0], x, method="L-BFGS-B", bounds=bounds).fun for x in start]
    return max(-min(found), value(points).max())


def quantities_of(robot, limits=None):
    """{name: quantity} of those that the robot has, and its postures."""
    postures = Postures.of(robot, limits)
    found = parts.Quantities(postures)
    names = [name for name in NAMES if name != "gravity_slope" or not robot.kinematics.quaternions]
    made = {name: getattr(found, name)() for name in names}
    if not robot.kinematics.quaternions:
        made["torque"] = found.torque(robot.nv - 1, 1.5, 2.0)
    return made | {"reach": found.reach(robot.frame_names[-1]), "slope": found.slope()}, postures


@pytest.mark.parametrize("number", [*range(4), *(further(number) for number in range(4, 50))])
def test_no_sample_is_outside_and_no_second_difference_above_its_bound(number):
    rng = np.random.default_rng(number)
    robot, limits = random_robot(rng, coordinates=3 if number % 2 else 2)
    quantities, postures = quantities_of(robot, limits)
    q = points_of(postures, rng, 400)
    for name, quantity in quantities.items():
        interval = supremum(quantity, postures, rtol=0.05, seconds=3.0)
        best = best_sample(quantity, postures, rng)
        assert best <= interval.upper, name
        if interval.upper < np.inf:
            assert interval.lower >= best - 0.06 * abs(interval.upper) - 1e-9, name
        if interval.reached == "gap":
            width = interval.upper - interval.lower
            assert width <= 0.0501 * abs(interval.upper) + 2.0 * quantity.error, name
        attained = quantity.norm.attained(quantity.function(interval.posture[None]))[0]
        np.testing.assert_allclose(attained, interval.lower, rtol=1e-6, atol=1e-9)
        for i, bend in enumerate(quantity.bends):
            step = np.eye(len(postures.lower))[i] * 1e-3
            f = [quantity.function(postures.configurations(q + sign * step)) for sign in (-1, 0, 1)]
            second = np.abs(f[0] - 2.0 * f[1] + f[2]) / 1e-6
            if name == "reach":  # bounds of lengths
                second = np.linalg.norm(second, axis=-1, keepdims=True)
            scale = 1e-6 * (1.0 + np.abs(f[1]).max())
            assert (second.max(axis=0) <= bend * (1 + 1e-6) + scale).all(), (name, i)
            if not quantity.depends[i]:
                assert np.ptp(np.stack(f), axis=0).max() <= scale, (name, i)


@pytest.mark.parametrize("number", [*range(5), *(further(number) for number in range(5, 40))])
def test_no_posture_of_a_box_is_above_its_end(number, monkeypatch):
    """Box by box, whatever the search has found; where every angle has one point and no corners, too."""
    rng = np.random.default_rng(1000 + number)
    robot, limits = random_robot(rng, coordinates=3)
    quantities, postures = quantities_of(robot, limits)
    for name, quantity in quantities.items():
        moving = postures.held(quantity.depends)
        monkeypatch.setattr(boxes, "_LITTLE", 1e9 if rng.random() < 0.3 else 0.0)
        search = boxes._BoxSearch(quantity, moving, 0.05)
        ends = np.sort(points_of(moving, rng, 24).reshape(2, 12, -1), axis=0)
        size = rng.choice([0.05, 0.4, 1.0], (12, 1))
        low, high = ends[0], ends[0] + size * (ends[1] - ends[0])
        low[0], high[0] = moving.lower, moving.upper
        search.lower = 1.0
        above, _ = search.bounded(low, high)
        for box in range(12):
            points = rng.uniform(low[box], high[box], (300, len(low[box])))
            points[:100] = np.where(rng.random((100, len(low[box]))) < 0.5, low[box], high[box])
            found = quantity.norm.attained(quantity.function(moving.configurations(points))).max()
            assert found <= above[box] * (1 + 1e-9) + quantity.error, (name, box)


@pytest.mark.parametrize("number", [*range(3), *(further(number) for number in range(3, 40))])
def test_second_differences_within_boxes_are_below_their_local_bounds(number):
    """And these are below those of all postures."""
    rng = np.random.default_rng(2000 + number)
    robot, limits = random_robot(rng, coordinates=4)
    postures = Postures.of(robot, limits)
    largest = parts.Quantities(postures).largest()
    centre = points_of(postures, rng, 10)
    for width in (1e-3, 0.2, 1.0):
        low = np.maximum(centre - width / 2.0, postures.lower)
        high = np.minimum(centre + width / 2.0, postures.upper)
        bends = largest.local(low, high)
        assert (bends <= largest.bends * (1 + 1e-9)).all()
        for box, i in itertools.product(range(len(low)), range(len(postures.lower))):
            points = rng.uniform(low[box], high[box], (20, len(postures.lower)))
            step = np.eye(len(postures.lower))[i] * 1e-3
            f = [largest.function(postures.configurations(points + sign * step)) for sign in (-1, 0, 1)]
            second = np.abs(f[0] - 2.0 * f[1] + f[2]) / 1e-6
            scale = 1e-6 * (1.0 + np.abs(f[1]).max()) + 4e-3 * bends[box, i]
            assert (second.max(axis=0) <= bends[box, i] + scale).all(), (width, i)


def test_a_bent_arm_has_smaller_bounds_than_a_straight_one():
    """The elbow turns a mass with a lever r: the shoulder sees 2 L m r, of L = 1 m to the elbow."""
    crane, at = mb.Mechanism(), np.eye(4)
    at[0, 3] = 1.0
    for body, mass in (("a", 0.0), ("b", 0.0), ("c", 1.0)):
        crane.add_body(body, mass, (1.0, 0.0, 0.0))
    crane.add_joint("shoulder", "world", "a", mb.Revolute((0, 0, 1)))
    crane.add_joint("elbow", "a", "b", mb.Revolute((0, 0, 1)), at)
    crane.add_joint("wrist", "b", "c", mb.Revolute((0, 0, 1)), at)
    largest = parts.Quantities(Postures.of(crane.build())).largest()
    for angle in (0.0, 1.0, 3.0):  # of the wrist; the elbow turns the load with a lever of 2 cos (angle / 2)
        there = np.array([[0.0, 0.0, angle]])
        lever = 2.0 * np.cos(angle / 2.0)
        np.testing.assert_allclose(largest.local(there, there)[0, 1, 0, 0], 2.0 * lever, rtol=1e-8)
        if angle == 1.0:  # the lever at the end of a box
            bend = largest.local(there - 0.3, there + 0.3)[0, 1, 0, 0]
            assert 4.0 * np.cos(0.35) <= bend <= 4.0001


def test_an_axis_turns_within_a_box():
    """Axes that meet, and a mass at r = 0.5 m from the last one: 2 m r^2 sin^2 of the largest angle."""
    wrist = mb.Mechanism()
    for body in "abc":
        wrist.add_body(body, float(body == "c"), (0.5, 0.0, 0.0))
    for name, above, body, axis in (("i", "world", "a", 2), ("j", "a", "b", 0), ("k", "b", "c", 2)):
        wrist.add_joint(name, above, body, mb.Revolute(np.eye(3)[axis]))
    largest = parts.Quantities(Postures.of(wrist.build())).largest()
    low, high = np.array([[0.0, 0.0, -1.0]]), np.array([[0.0, 0.4, 1.0]])
    assert np.sin(0.4) ** 2 / 2.0 <= largest.local(low, high)[0, 2, 0, 0] <= 0.1


def test_bounds_of_gravity_are_attained():
    """A hinge, and a slide of 2 kg that it carries: m g along the slide, m g (1 + 0.5) m about the hinge."""
    crane = mb.Mechanism()
    crane.add_body("boom", 0.0)
    crane.add_body("load", 2.0, (0.5, 0.0, 0.0))
    crane.add_joint("luff", "world", "boom", mb.Revolute((0, 1, 0)))
    crane.add_joint("reach", "boom", "load", mb.Prismatic((1, 0, 0)))
    quantities, _ = quantities_of(crane.build(), {"reach": (0.0, 1.0)})
    weight = 2.0 * 9.81
    bends = np.array([[1.5 * weight, weight], [0.0, 0.0]])
    np.testing.assert_allclose(quantities["gravity"].bends, bends, rtol=1e-6)


@pytest.mark.parametrize("width", [0.3, 0.8])
def test_the_end_of_a_box_about_a_straight_arm(width):
    """Nothing can be spared: what corners leave out is there in the middle."""
    quantities, postures = quantities_of(planar_arm())
    largest = quantities["largest"]
    search = boxes._BoxSearch(largest, postures.held(largest.depends), 1e-9)
    search.lower = 1e-9
    above, _ = search.bounded(np.array([[0.0, -width / 2.0]]), np.array([[0.0, width / 2.0]]))
    straight = largest.norm.attained(mb.mass_matrix(planar_arm(), np.zeros((1, 2))))[0]
    assert straight <= above[0] <= straight * (1.0 + 0.02 * width**2)


@pytest.mark.parametrize(
    ("axis", "centre", "inertia", "share"),
    [
        ((0, 0, 1), (0.8, 0.0, 0.0), (0.0, 0.0, 0.0), 1.0),  # a planar arm: 2 L rho
        ((1, 0, 0), (0.0, 0.8, 0.0), (0.0, 0.0, 0.0), 1.0),  # axes that cross: 2 rho^2
        ((1, 0, 0), (0.0, 0.0, 0.0), (0.2, 0.1, 0.3), 0.66),  # a body about its centre: 2 of 3 (I_3 - I_2)
    ],
)
def test_bounds_of_second_derivatives_are_attained(axis, centre, inertia, share):
    arm, elbow = mb.Mechanism(), np.eye(4)
    elbow[0, 3] = 1.0 if axis == (0, 0, 1) else 0.0
    arm.add_body("upper", 1.0, (0.3, 0.0, 0.0), 0.1 * np.eye(3))
    arm.add_body("fore", 0.7, centre, np.diag(inertia))
    arm.add_joint("shoulder", "world", "upper", mb.Revolute((0, 0, 1)))
    arm.add_joint("elbow", "upper", "fore", mb.Revolute(axis), elbow)
    quantities, _ = quantities_of(arm.build())
    q = np.stack([np.zeros(400), np.linspace(-np.pi, np.pi, 400)], axis=1)
    H = [mb.mass_matrix(arm.build(), q + [0.0, step]) for step in (-1e-3, 0.0, 1e-3)]
    second = np.abs(H[0] - 2.0 * H[1] + H[2])[:, 0, 0].max() / 1e-6
    bend = quantities["largest"].bends[1, 0, 0]
    assert share * bend * 0.999 <= second <= bend * 1.0001


def test_closed_forms_of_the_planar_arm():
    first, second, m, M, g = 1.0, 0.8, 0.7, 1.0, 9.81
    robot = planar_arm(first, second)
    names = ["lambda_max", "gravity", "k_g", "reach", "lipschitz"]
    found = certified.constants(robot, rtol=1e-9, seconds=300.0, frame="fore", only=names)
    a, b = M * first**2 + m * (first**2 + second**2), m * first * second

    def H(c):
        return np.array([[a + 2 * b * c, m * second**2 + b * c], [m * second**2 + b * c, m * second**2]])

    largest = np.linalg.eigvalsh(H(1.0))[-1]
    gravity = g * np.hypot((M + m) * first + m * second, m * second)
    outer = m * second * g
    slope = np.linalg.norm([[(M + m) * first * g + outer, outer], [outer, outer]], 2)
    exact = {"lambda_max": largest, "energy": largest / 2, "gravity": gravity, "k_g": slope, "reach": first}
    exact["lipschitz"] = b * np.sqrt(6.0)  # of -b sin q_2 (2, 1; 1, 0)
    for name, value in exact.items():
        assert found[name].lower - 1e-12 * value <= value <= found[name].upper + 1e-12 * value, name
        assert found[name].upper - found[name].lower <= 2e-9 * value, name
    found = certified.constants(robot, rtol=1e-3, seconds=20.0, only=["condition", "lambda_min"])
    scan = [H(c) for c in np.cos(np.linspace(0.0, np.pi, 2001))]
    exact = {"condition": np.linalg.cond(scan).max(), "lambda_min": np.linalg.eigvalsh(scan)[:, 0].min()}
    for name, value in exact.items():
        assert found[name].lower * (1 - 1e-6) <= value <= found[name].upper * (1 + 1e-6), name
        assert found[name].gap <= 1.001e-3, name
    # The reach of the hand is that of both links.
    assert (
        0.0 <= certified.constants(robot, only=["reach"], frame="fore", rtol=1e-9)["reach"].upper - 1.0 < 1e-8
    )


def test_an_interval_that_is_shrunk_or_bends_too_little_is_violated():
    """The control: bounds of half the size are exceeded, and the upper end with them."""
    robot = planar_arm()
    quantities, postures = quantities_of(robot)
    largest = quantities["largest"]
    rng = np.random.default_rng(0)
    best = best_sample(largest, postures, rng)
    assert best > 0.98 * supremum(largest, postures, rtol=1e-6, seconds=10.0).upper
    step = np.array([0.0, 1e-3])
    f = [largest.function(postures.configurations(np.array([[0.0, 0.0]]) + s * step)) for s in (-1, 0, 1)]
    second = np.abs(f[0] - 2.0 * f[1] + f[2])[0, 0, 0] / 1e-6
    assert second > 0.5 * largest.bends[1, 0, 0]  # at most the factor 2 is lost for one elbow


@pytest.mark.parametrize("number", [0, *(further(number) for number in range(1, 10))])
def test_round_off_is_within_its_bound(number):
    """Eigenvalues of H as they are computed, and in sixty digits."""
    rng = np.random.default_rng(number)
    kinds = [(mb.Revolute, mb.Prismatic)[int(rng.random() < 0.3)] for _ in range(5)]
    robot = armed(assemble(rng, kinds, [-1, 0, 1, 2, 3]), rng)
    limits = {name: (-0.5, 0.5) for name in robot.joint_names}
    largest = parts.Quantities(Postures.of(robot, limits)).largest()
    for q in rng.uniform(-0.5, 0.5, (3, robot.nq)):
        H, _, _ = exact(robot, q)
        true = max(mpmath.eigsy(H, eigvals_only=True))
        computed = largest.norm.attained(largest.function(q[None]))[0]
        power, _ = largest.norm.above(
            largest.function(q[None])[None], np.zeros((1, 5)), largest.bends[None], -np.inf
        )
        error = max(abs(float(mpmath.mpf(computed) - true)), float(true - mpmath.mpf(power[0])))
        assert error <= largest.error
        assert largest.error < 1e-9 * float(true)


def test_infinite_where_a_slide_has_no_limits():
    arm = mb.Mechanism()
    for name, body in (("turn", "column"), ("rail", "slide"), ("up", "lift")):
        arm.add_body(body, 1.0, (0.1, 0.0, 0.0), 0.1 * np.eye(3))
        above = {"turn": "world", "rail": "column", "up": "slide"}[name]
        kind = mb.Revolute((0, 0, 1)) if name == "turn" else mb.Prismatic((1, 0, 0))
        arm.add_joint(name, above, body, kind)
    found = certified.constants(arm.build(), {"up": (0.0, 1.0)}, rtol=0.1, seconds=5.0)
    assert found["lambda_max"].lower == found["lambda_max"].upper == np.inf
    assert found["lambda_max"].reached == "unbounded"
    assert found["reach"].upper == np.inf
    assert 0.0 <= found["lambda_min"].lower < found["lambda_min"].upper < 1.0
    # Gravity acts along the axis, and on no slide: it is zero whatever the slide.
    assert found["gravity"].upper < 1e-9 or found["gravity"].reached == "unbounded"
    rail = mb.Mechanism()
    rail.add_body("cart", 2.0)
    rail.add_joint("rail", "world", "cart", mb.Prismatic((1, 0, 0)))
    cart = certified.constants(rail.build())
    assert cart["lambda_max"].lower <= 2.0 <= cart["lambda_max"].upper < 2.0 + 1e-9
    assert cart.unaffected == ("rail",)


def test_results_as_text_and_json():
    found = certified.constants(planar_arm(), seconds=10.0)
    assert all(len(line) <= 80 for line in str(found).splitlines())
    written = json.loads(json.dumps(found.to_dict()))
    assert written["constants"]["lambda_max"]["upper"] == found["lambda_max"].upper
    assert found.unaffected == ("shoulder",)
    assert found["k_g"].upper in found["k_g"]
    with pytest.raises(KeyError, match="lambda_mox"):
        found["lambda_mox"]
    floating = certified.constants(
        assemble(np.random.default_rng(0), [mb.Free], [-1]), only=["k_g", "gravity"]
    )
    with pytest.raises(KeyError, match="rates"):
        floating["k_g"]
    mass = floating["gravity"]
    assert mass.lower <= mass.upper


@pytest.mark.parametrize(
    ("options", "error", "name"),
    [
        ({"limits": {"elbow": (1.0, -1.0)}}, ModelError, "elbow"),
        ({"limits": {"elbow": (np.nan, 1.0)}}, ModelError, "elbow"),
        ({"limits": {"wrist": (0.0, 1.0)}}, ModelError, "wrist"),
        ({"limits": ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])}, ShapeError, "limits"),
        ({"limits": "wide"}, TypeError, "limits"),
        ({"rtol": 0.0}, ValueError, "rtol"),
        ({"rtol": -1.0}, ValueError, "rtol"),
        ({"rtol": np.nan}, NonFiniteError, "rtol"),
        ({"seconds": 0.0}, ValueError, "seconds"),
        ({"seconds": "1"}, TypeError, "seconds"),
        ({"frame": "nose"}, ValueError, "nose"),
        ({"only": ["k_q"]}, ValueError, "k_q"),
    ],
)
def test_wrong_arguments_are_named(options, error, name):
    with pytest.raises(error, match=name):
        certified.constants(planar_arm(), **options)


@pytest.mark.parametrize(
    ("kinds", "parents", "words"),
    [([mb.Helical], [-1], "helical"), ([mb.Revolute, mb.Spherical], [-1, 0], "first joint")],
)
def test_robots_without_polynomials_are_refused(kinds, parents, words):
    with pytest.raises(ModelError, match=words):
        certified.constants(assemble(np.random.default_rng(1), kinds, parents))
    with pytest.raises(ModelError, match="loops"):
        certified.constants(mb.example("four_bar"))
    with pytest.raises(TypeError, match="robot"):
        certified.constants(None)


@pytest.mark.parametrize("number", [-1, 0, *(further(number) for number in range(1, 8))])
def test_parts_bound_the_smallest_eigenvalue_at_each_posture(number):
    """Each inertia is shared once. Of a quadruped, whole ones for all parts or a held trunk bound nothing."""
    rng = np.random.default_rng(abs(number))
    kinds = [(mb.Revolute, mb.Prismatic)[int(rng.random() < 0.2)] for _ in range(5)]
    robot = armed(assemble(rng, kinds, [-1, 0, 1, 2, 3]), rng) if number >= 0 else mb.example("quadruped")
    postures = Postures.of(robot, {name: (-1.0, 1.0) for name in robot.joint_names} if number >= 0 else None)
    q = postures.configurations(points_of(postures, rng, 50))
    smallest = np.linalg.eigvalsh(mb.mass_matrix(robot, q))[:, 0]
    violated = {"whole": False, "held": False}
    for _, those in plans_of(postures, q[smallest.argmin()]):
        bounds, shares, seen = [], np.zeros(len(robot.body_names)), []
        controls = {name: [] for name in violated}
        for part in those:
            bounds.append(_least_energies(robot, part, postures, q))
            seen += list(part.bodies[part.free :])
            np.add.at(shares, list(part.bodies), part.shares)
            whole = part._replace(shares=(1.0,) * len(part.bodies))
            controls["whole"].append(_least_energies(robot, whole, postures, q))
            controls["held"].append(_least_energies(robot, part, postures, q, held=True))
        assert (np.min(bounds, axis=0) <= smallest * (1.0 + 1e-9)).all()
        np.testing.assert_allclose(shares, 1.0, rtol=1e-12)
        assert sorted(seen) == list(range(len(robot.body_names)))
        for name, energies in controls.items():
            violated[name] |= bool((np.min(energies, axis=0) > smallest * (1.0 + 1e-6)).any())
    assert np.min(bounds) > 0.5 * smallest.min()
    assert number >= 0 or all(violated.values())


def _least_energies(robot, part, postures, q, held=False):
    """The least energy per |v_p|^2 of a part's own joints, at q (P, nq)."""
    quantities, rows = quantities_of_part(postures, part)
    model = quantities.postures.robot
    single = [name for name in model.joint_names if np.ptp(_ends(model.configuration_slice(name))) == 1]
    here = quantities.postures.configurations(
        q[:, [robot.configuration_slice(each).start for each in single]]
    )
    H = mb.mass_matrix(model, here)
    if held:
        return np.linalg.eigvalsh(H[:, rows[:, None], rows])[:, 0]
    return 1.0 / np.linalg.eigvalsh(np.linalg.inv(H)[:, rows[:, None], rows])[:, -1]


def _ends(place):
    return place.start, place.stop


def test_lengths_are_attained_where_an_arm_is_straight():
    lengths = Lengths.of(Postures.of(planar_arm()))
    np.testing.assert_allclose(lengths.levers, [[1.0, 0.0], [1.8, 0.8]], rtol=1e-8)
    assert lengths.tilts[0, 1] < 1e-12


def test_ctrl_c_keeps_what_is_known(monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(boxes._BoxSearch, "cut", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        certified.constants(planar_arm(), rtol=1e-9)
    known = caught.value.constants["lambda_max"]
    assert known.reached == "interrupted"
    assert known.lower < known.upper < np.inf


def with_a_cart(slide=(0.0, 1.0)):
    """An arm in a plane beside a cart, whose mass is the largest eigenvalue at most postures."""
    built, at = mb.Mechanism(), np.eye(4)
    at[0, 3] = 1.0
    built.add_body("upper", 0.1, (1.0, 0.0, 0.0))
    built.add_body("fore", 1.0, (0.8, 0.0, 0.0))
    built.add_body("cart", 3.8)
    built.add_joint("shoulder", "world", "upper", mb.Revolute((0.0, 0.0, 1.0)))
    built.add_joint("elbow", "upper", "fore", mb.Revolute((0.0, 0.0, 1.0)), at)
    built.add_joint("rail", "world", "cart", mb.Prismatic((1.0, 0.0, 0.0)))
    return built.build(), {"elbow": (-0.01, 3.1), "rail": slide}


#: The largest eigenvalue of the arm, straight: H = [[.1 + 1.8^2, 1.8 * .8], [., .8^2]].
STRAIGHT = float(np.linalg.eigvalsh([[0.1 + 1.8**2, 1.44], [1.44, 0.64]])[-1])


def test_an_eigenvector_that_no_coordinate_moves_loses_no_box():
    robot, limits = with_a_cart()
    for rtol in (1e-2, 1e-4):
        found = certified.constants(robot, limits, only=["lambda_max"], rtol=rtol)["lambda_max"]
        assert found.lower <= STRAIGHT <= found.upper and found.gap <= rtol
        assert found.lower > STRAIGHT * (1.0 - 1e-9)


def test_a_box_that_cannot_be_cut_loses_no_other():
    robot, limits = with_a_cart()
    quantities = parts.Quantities(Postures.of(robot, limits))
    quantity = quantities.largest()
    search = boxes._BoxSearch(quantity, quantities.postures.held(quantity.depends), 1e-9)
    search.begin()
    while len(search.heap) < 2:
        search.cut()
    first, second = sorted(search.heap, key=lambda item: item[:2])[:2]
    search.heap = [first, (*second[:2], second[2], second[2], second[4])]
    assert search.cut()
    assert second[1] in [item[1] for item in search.heap] and len(search.heap) >= 2
    assert search.top >= -second[0]
    search.heap = [item for item in search.heap if item[1] == second[1]]
    assert not search.cut() and search.top >= -second[0]


@pytest.mark.parametrize("slide", [(5.0, np.inf), (-np.inf, -5.0)])
def test_ends_of_a_slide_with_one_limit_are_within_it(slide):
    built = mb.Mechanism()
    built.add_body("turning", 0.0, inertia=0.01 * np.eye(3))
    built.add_body("sliding", 2.0)
    built.add_joint("turn", "world", "turning", mb.Revolute((0.0, 0.0, 1.0)))
    built.add_joint("rail", "turning", "sliding", mb.Prismatic((1.0, 0.0, 0.0)))
    found = certified.constants(built.build(), {"rail": slide}, only=["lambda_min", "condition"])
    smallest, condition = found["lambda_min"], found["condition"]
    assert smallest.lower <= 2.0 <= smallest.upper < 2.1 and abs(smallest.posture[1]) >= 5.0
    assert condition.lower > 25.0 and condition.upper == np.inf  # 0.01 + 2 * 25, and beyond, over 2


@pytest.mark.parametrize("number", range(1, 6))
def test_ctrl_c_at_any_time_leaves_true_ends(monkeypatch, number):
    calls, bounded = [], boxes._BoxSearch.bounded

    def interrupted(self, low, high):
        calls.append(low)
        if len(calls) == number:
            raise KeyboardInterrupt
        return bounded(self, low, high)

    monkeypatch.setattr(boxes._BoxSearch, "bounded", interrupted)
    robot, limits = with_a_cart()
    for name, true in (("lambda_max", STRAIGHT), ("lambda_min", None)):
        calls.clear()
        with pytest.raises(KeyboardInterrupt) as caught:
            certified.constants(robot, limits, only=[name], rtol=1e-9)
        known = caught.value.constants[name]
        if true is None:
            true = np.linalg.eigvalsh(mb.mass_matrix(robot, known.posture))[0]
        assert known.reached == "interrupted" and known.lower <= true <= known.upper * (1.0 + 1e-12)
        assert known.gap > 1e-6  # a few boxes prove no more


def test_ctrl_c_before_the_first_box_says_nothing_of_k_C(monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(coriolis._SymbolSearch, "begin", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        certified.constants(planar_arm(), only=["k_C:christoffel"])
    assert caught.value.constants["k_C:christoffel"].upper == np.inf


def test_a_part_with_a_body_without_mass_is_left_out():
    built, at = mb.Mechanism(), np.eye(4)
    at[0, 3] = 0.5
    for number in range(5):
        if number == 2:
            built.add_body("b2", 0.0)
        else:
            built.add_body(f"b{number}", 1.0, (0.2, 0.0, 0.0), 0.1 * np.eye(3))
        kind = mb.Revolute(((0.0, 0.0, 1.0), (0.0, 1.0, 0.0))[number % 2])
        built.add_joint(f"j{number}", f"b{number - 1}" if number else "world", f"b{number}", kind, at)
    found = certified.constants(built.build(), only=["lambda_min"], seconds=1.0)
    assert "lambda_min" in found.intervals and 0.0 <= found["lambda_min"].lower < found["lambda_min"].upper
    samples = np.linalg.eigvalsh(
        mb.mass_matrix(built.build(), np.random.default_rng(0).uniform(-3, 3, (99, 5)))
    )
    assert found["lambda_min"].lower <= samples.min()


def test_ascents_end():
    found = certified.constants(mb.example("arm"), only=["torque:roll"], speed=1.0, families=(), seconds=0.05)
    assert found["torque:roll"].lower > 1.3 and found.seconds < 20.0
