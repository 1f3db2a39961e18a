"""Every quantity of a mechanism scales by its units, from 1e-9 to 1e9 of metres, kilograms and seconds."""

from functools import cache, partial

import numpy as np
import pytest
from cases import further
from closed_chains import PLANS
from mechanisms import MOVING, move
from recursion_functions import FUNCTIONS, SOME, functions_of
from units import Scales, Units, deviation, in_units, lengths_of, random_tree

from connections import multibody as mb

TOL = 1e-9
SI = Units()
NO_TURN = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
KINDS = Units(2.0, 2.0**20, 2.0**40)  # a power of two for every unit, another one for each
MIXED = [Units(1e-9, 1e9, 1e9), Units(1e9, 1e-9, 1e-9)]
UNITS = [
    *MIXED,
    Units(length=1e-9),
    Units(length=1e9),
    Units(mass=1e-9, time=1e9),
    Units(mass=1e9, time=1e-9),
    Units(1e-6, 1e3, 1e-3),
]
PARENTS = [-1, 0, 1, 1, 3, 2, -1, 6, 7, 8, 6, 10, 11, 4, 13, 0, *range(15, 2 * len(MOVING) - 1)]
TREES = {
    "tree": lambda: random_tree(3, [*MOVING, *MOVING[::-1]], PARENTS),
    "floating base": lambda: random_tree(5, [mb.Free, *[mb.Revolute] * 4], [-1, 0, 1, 0, 3]),
}
CHAINS = [
    "four-bar",
    "six-bar",
    "four-bar with branches",
    "crank-slider",
    "slider in its guide",
    "loop of wide joints",
    "Stewart platform",
    "Stewart platform by its legs",
    "legged robot",
    "gear train",
    "cam",
    *(name for name in PLANS if name.startswith("closed by")),
]
THOROUGH = ["tree", "floating base", "four-bar", "legged robot"]
COMPILED = ("cam", "closed by: function")  # by JAX, once more for every system of units


def units_of(name):
    return UNITS if name in THOROUGH else MIXED[:1] if name in COMPILED else MIXED


CASES = [(name, units) for name in (*TREES, *CHAINS) for units in units_of(name)]
#: These run always, with the functions in `SOME`.
QUICK = [(name, MIXED[0]) for name in THOROUGH]


@cache
def plan(name):
    return (TREES[name] if name in TREES else PLANS[name])()


@cache
def model(name, units=SI):
    made = in_units(plan(name), units)
    return made.mechanism().build(made.gravity) if name in TREES else made.build()


@cache
def states(name):
    """q near the reference where loops are to close, else any, v, w, a and tau, in m, kg and s."""
    robot, rng = model(name), np.random.default_rng(7)
    steps = 0.1 * rng.uniform(-1.0, 1.0, robot.nv)
    q = move(robot, np.array(robot.neutral()), steps) if robot.closed else robot.random(rng)
    return q, *rng.standard_normal((3, robot.nv))


def scaled(name, units):
    """The model in other units, its scales and its states."""
    scales = Scales(model(name), units)
    q, v, w, a = states(name)
    vectors = {"q": scales.q * q, "v": scales.v * v, "w": scales.v * w, "v_r": scales.v * w}
    vectors |= {"force": scales.tau * w, "a": scales.a * a, "a_r": scales.a * a, "tau": scales.tau * a}
    return model(name, units), scales, vectors


@pytest.mark.parametrize(
    ("name", "units", "some"),
    [(*case, True) for case in QUICK] + [further(*case, False) for case in CASES],
    ids=str,
)
def test_recursions(name, units, some):
    robot, scales, vectors = scaled(name, units)
    _, _, plain = scaled(name, SI)
    kinds = Scales(robot, KINDS)
    for function in SOME if some else functions_of(robot):
        if robot.nv == 1 and function.startswith("curvature"):
            continue  # it is zero but for round-off
        call, names, _ = FUNCTIONS[function]
        weights = {"w": "force"} if function == "forward_dynamics_hessian_product" else {}
        result = call(robot, *[vectors[weights.get(each, each)] for each in names])
        expected = call(model(name), *[plain[weights.get(each, each)] for each in names])
        error = deviation(result, scales.results[function], expected, kinds.results[function])
        assert error < TOL, (function, error)


@pytest.mark.parametrize("units", MIXED, ids=str)
@pytest.mark.parametrize("name", ["tree", further("floating base"), "four-bar", further("gear train")])
def test_definitions(name, units):
    """What is derived from the definition: body Jacobians, A and B of a linearization."""
    robot, scales, vectors = scaled(name, units)
    kinds = Scales(robot, KINDS)
    results, expected = (
        definitions(*pair) for pair in ((robot, vectors), (model(name), scaled(name, SI)[2]))
    )
    for what, result in results.items():
        error = deviation(result, scales.results[what], expected[what], kinds.results[what])
        assert error < TOL, (what, error)


def definitions(robot, vectors):
    q, v = vectors["q"], vectors["v"]
    A, B = mb.linearize(robot, q, v, vectors["tau"])
    return {
        "body_jacobians": np.reshape(mb.body_jacobians(robot, q), (-1, robot.nv)),
        "A": A,
        "B": B,
    }


@pytest.mark.parametrize("units", [MIXED[-1], *map(further, [*MIXED[:-1], *UNITS[len(MIXED) :]])], ids=str)
def test_forms(units):
    """Constraints of contacts, which of them are independent, and momenta."""
    robot, scales, vectors = scaled("floating base", units)
    results, expected = (
        forms(*pair)
        for pair in (
            (robot, vectors["q"], units.length),
            (model("floating base"), states("floating base")[0], 1.0),
        )
    )
    np.testing.assert_array_equal(results.pop("rows"), expected.pop("rows"))
    kinds = Scales(robot, KINDS)
    for what, result in results.items():
        error = deviation(result, scales.results[what], expected[what], kinds.results[what])
        assert error < TOL, (what, error)


def forms(robot, q, length):
    """Two wheels on one axle, a ball and a blade: seven rows, of which some repeat others."""
    body, other = robot.body_names[0], robot.body_names[1]
    wheel, ball = partial(mb.Wheel, body, 0.3 * length), mb.Ball(other, 0.2 * length)
    left, right = (wheel(center=(0.0, side * length, 0.0)) for side in (0.4, -0.4))
    contacts = [left, right, ball, mb.Blade(other, point=(0.1 * length, 0.0, 0.0))]
    made = mb.rolling_forms(robot, contacts)
    points = np.stack([q, robot.neutral()])
    return {
        "rolling_forms": made(q),
        "momentum_forms": mb.momentum_forms(robot)(q),
        "rows": mb.independent_forms(made, points).rows,
    }


@pytest.mark.parametrize("name", ["crank-slider", "spatial loop", "Stewart platform", "closed by: distance"])
@pytest.mark.parametrize("length", [2.0**-30, 2.0**30])
def test_assembly(name, length):
    """Without a reference: the search finds the same one. By powers of two not even round-off differs."""
    found = []
    for units in (SI, Units(length)):
        drawing = in_units(plan(name), units)
        made = drawing.mechanism().build(drawing.gravity)
        joints = made.kinematics.tree.joints
        powers = np.concatenate([lengths_of(joint) for joint in joints])
        found.append((made.joint_names, made.kinematics.reference / units.length**powers))
    assert found[0][0] == found[1][0]
    np.testing.assert_array_equal(found[0][1], found[1][1])


@pytest.mark.parametrize("units", [Units(1e-9), Units(1e9), *MIXED], ids=str)
def test_rigid_bodies(units):
    """Gamma of a free body, whose inertias in kg m^2 are as far from its mass as one likes."""
    name = "floating base"
    kinds = Units(length=2.0)
    gammas = [
        mb.RigidBodySystemConnection(model(name, each).kinematics.tree.inertias[:1]).coefficients_at(NO_TURN)
        for each in (units, SI)
    ]
    path, kind = (each.length ** np.repeat([0.0, 1.0], 3) for each in (units, kinds))
    unit, kind = (p[:, None, None] / p[:, None] / p for p in (path, kind))
    assert deviation(gammas[0], unit, gammas[1], kind) < TOL
