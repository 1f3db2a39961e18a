"""The table of the recursions: rows of shapes that are not in it yet, and tests that cover it."""

from __future__ import annotations

import builtins

import numpy as np
import pytest
from mechanisms import random_mechanism, sample
from recursion_functions import FUNCTIONS, core_shape, model

from connections import multibody as mb
from connections.engines.registry import Registry
from connections.multibody.program import compiled_functions, entries
from connections.multibody.program.table import BODY_FACTOR, PARAMETERS, RECURSIONS, N, Recursion

KINDS = [(closed, rows) for closed in (False, True) for rows in (False, True)]


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


TO_COME = {
    "n^3 without a choice": Recursion(
        "christoffel", "cluster_christoffel", (), (N, N, N), sparse=True, mirrored=True
    ),
    "n^3 with all entries": Recursion("christoffel", "cluster_christoffel", ("v",), (N, N, N)),
    "3 n^2 without vectors": Recursion("derivatives", "cluster_dynamics", (), (3, N, N), sparse=True),
    "3 n": Recursion("derivatives", "cluster_dynamics", (), (3, N)),
    "n 10 N with a choice": Recursion("regressor", "cluster_dynamics", ("v",), (N, PARAMETERS), BODY_FACTOR),
}


@pytest.mark.parametrize("name", [*RECURSIONS, *TO_COME])
def test_rendered_entries_use_only_names_that_there_are(name):
    row = {**RECURSIONS, **TO_COME}[name]
    for closed, rows in KINDS:
        if closed and row.closed is None:
            assert f"closed_{name}_at" not in compiled_functions.compiled.names
            continue
        source, scope = entries.rendered("entry", row, closed, rows)
        code = compile(source, "<entry>", "exec").co_consts[0]
        assert {*code.co_names} <= {*scope, *dir(builtins), *attributes(scope)}, (closed, rows)
        assert ("bias_rates" in code.co_varnames) == (closed and row.bias_rates)


def attributes(scope):
    """Names of attributes that rendered sources use: of flat arrays and of NumPy's."""
    views = (scope["TREE"].view._fields, scope["CLUSTERS"].view._fields)
    return {"shape", "size", *views[0], *views[1]}


@pytest.mark.parametrize(
    "wrong", [{"shape": (N, N), "mirrored": True}, {"bias_rates": True}, {"sparse": True}]
)
def test_a_row_that_contradicts_itself_is_refused(wrong):
    with pytest.raises(AssertionError):
        Recursion("coriolis", "cluster_coriolis", **wrong)


@pytest.mark.further
def test_symbols_without_a_choice(monkeypatch):
    """A mirrored row without a body-level factor: its entries run, for one configuration and for rows."""
    from connections.engines.inlined.simd import inlined
    from connections.multibody.kernels import christoffel

    names = {**vars(christoffel), "original": christoffel.christoffel_symbols}
    exec("def toy(tree, work, out, all_of_them):\n    original(tree, work, out, False, all_of_them)", names)
    monkeypatch.setattr(christoffel, "toy", inlined(names["toy"]), raising=False)
    monkeypatch.setitem(RECURSIONS, "toy", TO_COME["n^3 without a choice"])
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
