"""Every quantity of a mechanism scales by its units, from 1e-9 to 1e9 of metres, kilograms and seconds."""

from functools import cache

import numpy as np
import pytest
from closed_chains import PLANS
from mechanisms import MOVING, move
from recursion_functions import FUNCTIONS
from units import Scales, Units, deviation, in_units, random_tree

from connections import multibody as mb

TOL = 1e-9
SI = Units()
KINDS = Units(2.0, 2.0**20, 2.0**40)  # a power of two for every unit, another one for each
UNITS = [
    Units(length=1e-9),
    Units(length=1e9),
    Units(mass=1e-9),
    Units(mass=1e9),
    Units(time=1e-9),
    Units(time=1e9),
    Units(1e-9, 1e-9, 1e-9),
    Units(1e9, 1e9, 1e9),
    Units(1e-9, 1e9, 1e9),
    Units(1e9, 1e-9, 1e-9),
    Units(1e-6, 1e3, 1e-3),
]
PARENTS = [-1, 0, 1, 1, 3, 2, -1, 6, 7, 8, 6, 10, 11, 4, 13, 0]
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
each_mechanism = pytest.mark.parametrize("name", [*TREES, *CHAINS])
each_units = pytest.mark.parametrize("units", UNITS, ids=str)


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
    vectors |= {"a": scales.a * a, "a_r": scales.a * a, "tau": scales.tau * a}
    return model(name, units), scales, vectors


@each_units
@each_mechanism
def test_recursions(name, units):
    robot, scales, vectors = scaled(name, units)
    _, _, plain = scaled(name, SI)
    kinds = Scales(robot, KINDS)
    for function, (call, names, _) in FUNCTIONS.items():
        result = call(robot, *[vectors[each] for each in names])
        expected = call(model(name), *[plain[each] for each in names])
        error = deviation(result, scales.results[function], expected, kinds.results[function])
        assert error < TOL, (function, error)
