"""k_C over boxes of postures: closed forms of planar arms, dense samples, and what its polynomials assume."""

from types import SimpleNamespace

import numpy as np
import pytest
from cases import always, further
from coriolis_oracles import largest_of_planar_arm
from small_chains import chain, hinge, two_limbs

from connections import certified
from connections import multibody as mb
from connections.certified import coriolis
from connections.certified.coriolis import Symbols
from connections.certified.coriolis import _SymbolSearch as SymbolSearch
from connections.certified.postures import Postures
from connections.certified.trigonometric import (
    AMPLIFICATION,
    LEBESGUE,
    along,
    cells,
    halves,
    nodes,
    to_control,
)
from connections.certified.trilinear import attained, frobenius
from connections.checks import ModelError, SymmetryError

FACTORS = ("christoffel", "force_cross", "least")


ROBOTS = {
    "hinges": lambda rng: chain(*(hinge(rng) for _ in range(3)), rng=rng),
    "a slide": lambda rng: chain(hinge(rng), mb.Prismatic((0.3, 1.0, -0.2)), hinge(rng), rng=rng),
    "a base that floats": lambda rng: chain(hinge(rng), base=mb.Free(), rng=rng),
    "a ball joint": lambda rng: chain(hinge(rng), base=mb.Spherical(), rng=rng),
}


@pytest.mark.parametrize("name", always(ROBOTS, *ROBOTS))
@pytest.mark.parametrize("factor", FACTORS)
def test_no_sample_is_above(name, factor, rng):
    """Dense samples lie below the upper end, and within 2 % of it one is found: the control."""
    robot = ROBOTS[name](rng)
    found = certified.coriolis_bound(robot, body_factor=factor, rtol=0.02, seconds=1e4)
    assert found.interval.reached == "gap" and found.interval.gap <= 0.02
    postures = Postures.of(robot)
    points = rng.uniform(postures.lower, postures.upper, (3000, len(postures.lower)))
    symbols = mb.christoffel_symbols(robot, postures.configurations(points), body_factor=factor)
    sizes, _ = attained(symbols, 3, 30)
    assert sizes.max() <= found.interval.upper
    z, v, y = found.directions
    C = mb.coriolis_matrix(robot, found.interval.posture, v, body_factor=factor)
    assert z @ C @ y == pytest.approx(found.interval.lower, rel=1e-9)
    assert z @ C @ y > 0.98 * found.interval.upper * (1.0 - 1e-9)


@pytest.mark.parametrize("rtol", [1e-2, further(1e-5)])
def test_planar_arm(rtol):
    """C(q, v) v = sin(q_2) (-2 v_1 v_2 - v_2^2, v_1^2) of two links of 1 m and 1 kg at their ends."""
    robot = chain(*[mb.Revolute((0, 0, 1))] * 2)
    largest = largest_of_planar_arm()
    for limits, size in (
        (None, 1.0),
        (((-4.0, 0.2), (4.0, 0.7)), np.sin(0.7)),
        (((0.0, 2.0), (0.0, 2.0)), np.sin(2.0)),
    ):
        k_C = certified.coriolis_bound(robot, limits, rtol=rtol).interval
        assert k_C.lower <= size * largest * (1 + 1e-12) and size * largest * (1 - 1e-12) <= k_C.upper
        assert k_C.gap <= rtol
    # all of its factors are hinges' along one axis: force_cross has no torsion there
    cross = certified.coriolis_bound(robot, body_factor="force_cross", rtol=rtol).interval
    assert cross.lower == pytest.approx(largest, rel=1e-6)


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("name", always(ROBOTS, *ROBOTS))
def test_degree_of_the_symbols(name, factor, rng):
    """Degree 2 in each coordinate to round-off, for each factor; degree 1 is not enough for the robot."""
    robot = ROBOTS[name](rng)
    symbols = Symbols.of(Postures.of(robot), factor)
    postures, n = symbols.postures, robot.nv
    where = [nodes(*ends) for ends in zip(postures.slides, postures.lower, postures.upper, strict=True)]
    grid = np.stack(np.meshgrid(*where, indexing="ij"), axis=-1)
    values = symbols.at(grid.reshape(-1, grid.shape[-1])).reshape(*grid.shape[:-1], n, n, n)
    low, high = postures.lower.copy(), postures.upper.copy()
    angles = ~postures.slides
    low[angles], high[angles] = -0.4, 0.9
    corners = values
    for axis, slide in enumerate(postures.slides):
        corners = along(to_control(bool(slide), low[axis], high[axis])[[0, -1]], corners, axis)
    exact = symbols.at(
        np.stack(np.meshgrid(*np.stack([low, high], 1), indexing="ij"), -1).reshape(-1, len(low))
    )
    np.testing.assert_allclose(corners.reshape(exact.shape), exact, atol=1e-12 * np.abs(exact).max())
    second = [
        np.abs(np.fft.fft(values, axis=i)).take(2, i).max() for i in np.flatnonzero(angles & symbols.depends)
    ]
    assert max(second, default=1.0) > 1e-3


def test_control_values(rng):
    """Their hull has the polynomial; halves are within; ends are attained; the factor of whole turns."""
    coefficients = rng.standard_normal(5)

    def f(q):
        return coefficients @ np.stack([np.ones_like(q), np.cos(q), np.sin(q), np.cos(2 * q), np.sin(2 * q)])

    samples = f(nodes(False, -np.pi, np.pi))
    for a, b in [*cells(False, -np.pi, np.pi), (0.3, 0.31), (-1.0, 1.1)]:
        assert np.abs(to_control(False, a, b)).sum(axis=1).max() <= AMPLIFICATION
        control, values = to_control(False, a, b) @ samples, f(np.linspace(a, b, 1000))
        assert control.min() - 1e-13 <= values.min() and values.max() <= control.max() + 1e-13
        np.testing.assert_allclose(control[[0, -1]], [f(np.array(a)), f(np.array(b))], atol=1e-13)
        for matrix, ends in zip(halves(False, b - a), ((a, (a + b) / 2), ((a + b) / 2, b)), strict=True):
            np.testing.assert_allclose(matrix @ control, to_control(False, *ends) @ samples, atol=1e-12)
            assert matrix.min() > -1e-13
            np.testing.assert_allclose(matrix.sum(axis=1), 1.0)
    assert np.abs(f(np.linspace(-4, 4, 5000))).max() <= LEBESGUE * np.abs(samples).max()
    third = np.cos(3 * nodes(False, -np.pi, np.pi))  # the control: degree 3 leaves the hull
    assert np.cos(3 * 1.0) < (to_control(False, 0.9, 1.1) @ third).min()


def test_a_box_before_the_lower_end_hides_its_bound(rng):
    """The bound of a small box is above all samples in it, and near; with fewer control values, too."""
    robot = chain(*(hinge(rng) for _ in range(4)), rng=rng)
    centre = rng.uniform(-2.0, 2.0, 4)
    symbols = Symbols.of(Postures.of(robot, (centre - 0.05, centre + 0.05)), "force_cross")
    (limb,) = symbols.limbs()
    search = SymbolSearch(limb, 1e-3, 0.02)
    search.begin()
    ((_, _, box),) = search.heap
    corners = np.stack(np.meshgrid(*np.stack([box.low, box.high], 1), indexing="ij"), -1).reshape(-1, 3)
    inside = rng.uniform(box.low, box.high, (300, 3))
    found = attained(limb.at(np.concatenate([inside, corners])), 4, 40)[0].max()
    near = SymbolSearch(limb, 0.999 * found, 0.02)
    near.run(np.inf, lambda part: None)
    assert not near.heap and found <= near.closed <= 1.02 * found
    rows = box.values.reshape(-1, 4, 4, 4)
    thinned = SymbolSearch(limb, 400.0 * found, 0.02).thinned(box)
    fewer = thinned.values.reshape(-1, 4, 4, 4)
    assert len(fewer) == 1 and frobenius(rows - fewer).max() <= thinned.pad < found
    assert attained(fewer)[0].max() < 0.99 * attained(rows)[0].max()  # the control: the distance counts


def test_boxes_whose_arrays_are_computed_again(rng, monkeypatch):
    """The same interval if no box keeps its control values; slides, too."""
    robot = ROBOTS["a slide"](rng)
    kept = certified.coriolis_bound(robot, rtol=1e-3).interval
    monkeypatch.setattr("connections.certified.coriolis._REMEMBERED", 0)
    again = certified.coriolis_bound(robot, rtol=1e-3).interval
    assert again.upper == pytest.approx(kept.upper, rel=1e-4) and again.boxes > 4
    slide = [to_control(True, a, b, nodes(True, -1.0, 3.0)) for a, b in ((-1.0, 3.0), (0.0, 1.0))]
    f = np.array([1.0, 1.0, 9.0])  # q^2
    np.testing.assert_allclose(slide[0] @ f, [1.0, -3.0, 9.0], atol=1e-12)
    np.testing.assert_allclose(slide[1] @ f, [0.0, 0.0, 1.0], atol=1e-12)


def test_the_first_joint_moves_all_as_one(rng):
    """Symbols do not depend on a coordinate of the first joint; on each of the others they do."""
    for robot in (ROBOTS["hinges"](rng), ROBOTS["a base that floats"](rng), ROBOTS["a slide"](rng)):
        symbols = Symbols.of(Postures.of(robot), "force_cross")
        points = np.zeros((2, len(symbols.depends)))
        for i, depends in enumerate(symbols.depends):
            points[1] = 0.3 * np.eye(len(points[1]))[i]
            one, other = symbols.at(points)
            assert (np.abs(other - one).max() > 1e-3) == depends


def test_branches_add(rng):
    """Two limbs on a body: the bound holds for both together, and is not far from what is attained."""
    symbols = Symbols.of(Postures.of(two_limbs()), "force_cross")
    points, limbs = rng.uniform(-3, 3, (20, 2)), symbols.limbs()
    terms = [limb.at(points[:, limb.axes]) for limb in limbs]
    assert len(limbs) == 2
    np.testing.assert_allclose(np.mean(terms, axis=0), symbols.at(points), atol=1e-12)
    for factor, robot in zip(FACTORS, (two_limbs(), two_limbs(), two_limbs(0.01)), strict=True):
        found = certified.coriolis_bound(robot, body_factor=factor, rtol=0.05).interval
        q = np.stack([robot.random(rng) for _ in range(500)])
        sizes, _ = attained(mb.christoffel_symbols(robot, q, body_factor=factor), 3, 30)
        assert sizes.max() <= found.upper <= 1.5 * found.lower


def test_members_by_their_contorsion(rng):
    """Gamma* - Alt Gamma* is "least"; twice as much is another member with another bound."""
    robot = chain(base=mb.Free(), rng=rng)
    symbols = [
        mb.christoffel_symbols(robot, robot.neutral(), body_factor=f) for f in ("christoffel", "least")
    ]
    D = symbols[0] - symbols[1]
    least = certified.coriolis_bound(robot, body_factor="least", rtol=0.01).interval
    same = certified.coriolis_bound(robot, contorsion=D, rtol=0.01).interval
    other = certified.coriolis_bound(robot, contorsion=2.5 * D, rtol=0.01).interval
    assert same.lower == pytest.approx(least.lower, rel=1e-9) and other.lower > least.upper


def test_refusals(rng):
    arm = ROBOTS["hinges"](rng)
    with pytest.raises(TypeError, match="contorsion"):
        certified.coriolis_bound(arm, contorsion=lambda q: np.zeros((3, 3, 3)))
    with pytest.raises(SymmetryError, match="contorsion"):
        certified.coriolis_bound(arm, contorsion=np.ones((3, 3, 3)))
    for name in ("rtol", "seconds"):
        with pytest.raises(ValueError, match=name):
            certified.coriolis_bound(arm, **{name: 0.0})
    slide = mb.Mechanism()
    for number, joint in enumerate((mb.Revolute((0, 0, 1)), mb.Prismatic((1, 0, 0)))):
        slide.add_body(str(number), 1.0)
        slide.add_joint(f"joint {number}", str(number - 1) if number else "world", str(number), joint)
    with pytest.raises(ModelError, match="slide"):
        certified.coriolis_bound(slide.build())


def test_what_is_known_after_a_moment(rng):
    """With no time, the interval holds all the same, and says that the time was over."""
    robot = mb.example("arm")
    found = certified.coriolis_bound(
        robot, (np.full(6, -0.8), np.full(6, 0.8)), rtol=1e-6, seconds=0.5
    ).interval
    assert found.reached == "time" and found.gap > 1e-6
    q = rng.uniform(-0.8, 0.8, (300, 6))
    assert frobenius(mb.christoffel_symbols(robot, q)).max() > found.lower
    assert attained(mb.christoffel_symbols(robot, q), 3, 20)[0].max() <= found.upper


@pytest.mark.parametrize("name", ROBOTS)
def test_what_is_known_without_a_cut_is_above_all_samples(name, rng):
    """In the Frobenius norm, of which it is a bound, too; five samples of a turn alone are not."""
    symbols = Symbols.of(Postures.of(ROBOTS[name](rng)), "christoffel")
    (limb,) = symbols.limbs()
    search = SymbolSearch(limb, 1e-3, 0.05, deadline=-np.inf)
    search.begin()
    points = rng.uniform(search.low, search.high, (3000, len(search.low)))
    largest = frobenius(limb.at(points)).max()
    assert largest <= search.known <= 4.0 * largest and not search.heap
    planar = Symbols.of(Postures.of(chain(*[mb.Revolute((0, 0, 1))] * 2)), "christoffel")
    (limb,) = planar.limbs()
    search = SymbolSearch(limb, 1e-3, 0.05, deadline=-np.inf)
    search.begin()
    bent = frobenius(limb.at(np.full((1, 1), np.pi / 2.0)))[0]  # between two samples
    assert frobenius(search.samples.reshape(-1, 2, 2, 2)).max() < 0.96 * bent < bent <= search.known


@pytest.mark.parametrize("seconds", [0.5, 9.0, 40.0, 75.0, 82.0, 90.0, 120.0])
def test_a_clock_that_evaluations_advance_is_obeyed(seconds, rng, monkeypatch):
    """A second for each call that evaluates or cuts control values: two or three that no clock interrupts."""
    robot, now = chain(*(hinge(rng) for _ in range(4)), rng=rng), [0.0]

    def counted(function):
        def call(*given):
            now[0] += 1.0
            return function(*given)

        return call

    monkeypatch.setattr(coriolis, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(Symbols, "at", counted(Symbols.at))
    monkeypatch.setattr(coriolis, "along", counted(along))
    found = certified.coriolis_bound(robot, rtol=1e-9, seconds=seconds)
    assert found.interval.reached == "time"
    assert seconds < now[0] <= seconds + 4.0
