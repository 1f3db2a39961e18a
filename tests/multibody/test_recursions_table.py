"""The table of the recursions: a row of a kind that is not in it yet, and tests that cover it."""

from __future__ import annotations

import numpy as np
import pytest
from mechanisms import random_mechanism, sample
from recursion_functions import FUNCTIONS, core_shape, model

from connections import multibody as mb
from connections.engines.registry import Registry
from connections.multibody.program import compiled_functions
from connections.multibody.program.table import BODY_FACTOR, RECURSIONS, N, Recursion


def test_the_list_of_tests_covers_the_table():
    robot = model("tree")
    tested = {name.removesuffix(" with torsion") for name in FUNCTIONS}
    assert tested == set(RECURSIONS)
    chosen = {name.removesuffix(" with torsion") for name in FUNCTIONS if name.endswith(" with torsion")}
    assert chosen == {name for name, row in RECURSIONS.items() if row.choice is BODY_FACTOR}
    for name, (_, arguments, _) in FUNCTIONS.items():
        row = RECURSIONS[name.removesuffix(" with torsion")]
        assert arguments == ("q", *row.vectors)
        assert core_shape(name) == row.core(robot.nv, len(robot.body_names))


@pytest.mark.parametrize(
    "wrong", [{"shape": (N, N), "mirrored": True}, {"bias_rates": True}, {"sparse": True}]
)
def test_a_row_that_contradicts_itself_is_refused(wrong):
    with pytest.raises(ValueError):
        Recursion("coriolis", "cluster_coriolis", **wrong)


@pytest.mark.further
def test_symbols_without_a_choice(monkeypatch):
    """A mirrored row without a body-level factor: its entries run, for one configuration and for rows."""
    from connections.engines.inlined.simd import inlined
    from connections.multibody.kernels import christoffel

    names = {**vars(christoffel), "original": christoffel.christoffel_symbols}
    exec("def toy(tree, work, out, all_of_them):\n    original(tree, work, out, False, all_of_them)", names)
    monkeypatch.setattr(christoffel, "toy", inlined(names["toy"]), raising=False)
    row = Recursion("christoffel", None, (), (N, N, N), sparse=True, mirrored=True)
    monkeypatch.setitem(RECURSIONS, "toy", row)
    toys = Registry(["toy_at", "toy_rows"], compiled_functions._find, lambda name: None)
    robot = random_mechanism(np.random.default_rng(5), 4, (mb.Revolute, mb.Spherical))
    q, _ = sample(robot, np.random.default_rng(6), 9)
    expected = mb.christoffel_symbols(robot, q)
    program = robot.program
    single = np.empty(expected.shape[1:])
    assert toys.require("toy_at")(program.memory, q[0], single)
    assert np.array_equal(single, mb.christoffel_symbols(robot, q[0]))
    batch = program._batch("christoffel_symbols")
    found = np.empty((9, expected[0].size))
    work = batch._workspaces.take()
    assert toys.require("toy_rows")(program.memory, work, batch._blocks, q, found)
    assert np.array_equal(found.reshape(expected.shape), expected)
