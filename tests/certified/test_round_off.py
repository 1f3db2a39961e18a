"""Round-off of what bounds are computed from, against its stated bounds: sixty digits at random postures."""

import mpmath as mp
import numpy as np
import pytest
from cases import further
from exact_trees import exact, slopes
from mechanisms import armed, assemble
from scipy.spatial.transform import Rotation

from connections import multibody as mb
from connections.certified.coriolis import Symbols
from connections.certified.postures import Postures
from connections.certified.quantities import Quantities

#: A bound that is so many times the largest error of a robot, or this part of the size, says nothing.
MOST, PART = {"slope": 1e7}, 1e-8
SHAPES = {
    "chain": (None, [-1, 0, 1, 2]),
    "tree": (None, [-1, 0, 0, 1]),
    "floating": (mb.Free, [-1, 0, 1]),
    "floating limbs": (mb.Free, [-1, 0, 0]),
    "of all sizes": (mb.Free, [-1, 0, 1]),  # lengths from mm to km, masses from 0.1 g to 10 t
}


def robot_of(shape, number):
    """A random robot and its limits: hinges that make whole turns, and slides of 1 m."""
    rng = np.random.default_rng(number)
    base, parents = SHAPES[shape]
    kinds = [(mb.Revolute, mb.Prismatic)[int(rng.random() < 0.3)] for _ in parents]
    if shape == "of all sizes":
        robot = of_all_sizes(rng, kinds, mb.Free() if number % 2 else mb.Revolute((0.6, 0.0, 0.8)))
    else:
        robot = armed(assemble(rng, [base, *kinds[1:]] if base else kinds, parents), rng)
    slides = [
        e.name for e in robot.kinematics.elements if e.joint.quaternion is None and not e.joint.is_angle
    ]
    return robot, {name: (-0.5, 0.5) for name in slides}, rng


def of_all_sizes(rng, kinds, first):
    """A chain whose lengths and masses are log-uniform."""
    made, above = mb.Mechanism(), "world"
    for number, kind in enumerate(kinds):
        at, length, mass = np.eye(4), 10.0 ** rng.uniform(-3.0, 3.0), 10.0 ** rng.uniform(-4.0, 4.0)
        at[:3, :3] = Rotation.random(random_state=rng).as_matrix()
        at[:3, 3] = rng.normal(size=3) * 10.0 ** rng.uniform(-3.0, 3.0)
        spread = rng.normal(size=(3, 3)) * length
        inertia = mass * (np.trace(spread @ spread.T) * np.eye(3) - spread @ spread.T)
        made.add_body(str(number), mass, tuple(rng.normal(size=3) * length), inertia)
        joint = kind(rng.normal(size=3)) if number else first
        made.add_joint(f"joint {number}", above, str(number), joint, at)
        above = str(number)
    return made.build(gravity=tuple(rng.normal(size=3)))


def spectral(rows):
    """The largest singular value of rows (k, n) of mpmath."""
    return mp.sqrt(max(mp.eigsy(rows * rows.T, eigvals_only=True)))


def exact_quantities(robot, q, postures):
    """{name: (f as a matrix, the size of f)} in sixty digits at q."""
    H, g, _ = exact(robot, q)
    dH, dg = slopes(robot, q, postures.places)
    rows = mp.matrix([list(slope) for slope in dH])
    found = {"largest": (H, max(mp.eigsy(H, eigvals_only=True))), "slope": (rows, spectral(rows))}
    if robot.kinematics.quaternions:
        size = mp.sqrt(sum(mp.mpf(x) ** 2 for x in robot.gravity))
        along = [exact(robot.with_gravity(axis), q)[1] for axis in np.eye(3).tolist()]
        rows = size * mp.matrix([list(one) for one in along])
        return found | {"gravity": (rows, spectral(rows))}
    square = mp.matrix([list(slope) for slope in dg])
    size = max(abs(value) for value in mp.eigsy((square + square.T) / 2, eigvals_only=True))
    return found | {"gravity": (g.T, mp.norm(g)), "gravity_slope": (square.T, size)}


@pytest.mark.parametrize("number", [0, *(further(number) for number in range(1, 25))])
@pytest.mark.parametrize("shape", SHAPES)
def test_round_off_is_below_its_bound_and_the_bound_says_something(shape, number):
    """Attained values, and ends of boxes without width. The control: the bound is not far above both,
    but where bodies of very different sizes add.
    """
    robot, limits, rng = robot_of(shape, number)
    postures = Postures.of(robot, limits)
    quantities, largest, alike = Quantities(postures), {}, shape != "of all sizes"
    for point in rng.uniform(postures.lower, postures.upper, (2, len(postures.lower))):
        q = postures.configurations(point[None])
        for name, (f, size) in exact_quantities(robot, q[0], postures).items():
            quantity = getattr(quantities, name)()
            computed = quantity.function(q)
            nothing = np.zeros((1, len(point)))
            end, _ = quantity.norm.above(computed[None], nothing, quantity.bends[None], -np.inf)
            attained = quantity.norm.attained(computed)
            off = max(abs(mp.mpf(float(attained[0])) - size), size - mp.mpf(float(end[0])))
            assert off <= quantity.error, name
            apart = mp.mnorm(mp.matrix(computed.reshape(f.rows, f.cols).tolist()) - f, "f")
            largest[name] = max(largest.get(name, 0.0), off, apart)
            assert quantity.error < PART * size or not alike, name
    for name, off in largest.items() if alike else ():
        assert getattr(quantities, name)().error < MOST.get(name, 1e5) * off, name


@pytest.mark.parametrize("number", [0, *(further(number) for number in range(2, 26, 2))])
@pytest.mark.parametrize("shape", ["chain", "tree", "of all sizes"])
def test_round_off_of_symbols_and_of_a_reach(shape, number):
    """Christoffel's symbols from derivatives of H, and the distance of the last body."""
    robot, limits, rng = robot_of(shape, number)
    postures = Postures.of(robot, limits)
    symbols, reach = Symbols.of(postures, "christoffel"), Quantities(postures).reach(robot.frame_names[-1])
    point = rng.uniform(postures.lower, postures.upper)
    q = postures.configurations(point[None])
    dH, _ = slopes(robot, q[0], postures.places)
    computed, squares = symbols.at(point[None])[0], mp.mpf(0)
    for i, j, k in np.ndindex(computed.shape):
        exactly = (dH[j][i, k] + dH[k][i, j] - dH[i][j, k]) / 2
        squares += (exactly - mp.mpf(float(computed[i, j, k]))) ** 2
    assert symbols.error / 1e7 < mp.sqrt(squares) <= symbols.error
    body, placement = robot.kinematics.tree.placements[robot.frame_names[-1]]
    np.testing.assert_array_equal(placement, np.eye(4))
    distance = mp.norm(exact(robot, q[0])[2][int(body)])
    assert abs(distance - mp.mpf(float(reach.norm.attained(reach.function(q))[0]))) <= reach.error
    assert reach.error < 1e-11 * max(1.0, float(distance)) or shape == "of all sizes"
