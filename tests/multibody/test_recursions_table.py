"""The table of the recursions: rows of shapes that are not in it yet, and tests that cover it."""

from __future__ import annotations

import ast
import builtins
import importlib.util
import sys
from dataclasses import replace

import compiled_entries
import numpy as np
import pytest
from mechanisms import random_mechanism, sample
from recursion_functions import FUNCTIONS, core_shape, model

from connections import multibody as mb
from connections.engines.registry import Registry
from connections.multibody.kernels.layout import CLUSTERS, TREE
from connections.multibody.program import compiled_functions
from connections.multibody.program.table import BODY_FACTOR, PARAMETERS, RECURSIONS, N, Recursion


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


def test_the_files_of_entries_are_those_of_the_table():
    """Broken into lines by ruff, which CI checks."""
    files = {path.stem: path.read_text() for path in compiled_entries.FOLDER.glob("[!_]*.py")}
    assert files.keys() == RECURSIONS.keys()
    for name, row in RECURSIONS.items():
        assert structure(files[name]) == structure(compiled_entries.text(name, row)), name


def structure(source: str) -> str:
    """Everything but the order of imports, and how lines are broken."""
    module = ast.parse(source)
    imports = [node for node in module.body if isinstance(node, ast.ImportFrom)]
    rest = [ast.dump(node) for node in module.body if node not in imports]
    names = sorted((node.module, alias.name, alias.asname) for node in imports for alias in node.names)
    return f"{names} {rest}"


@pytest.mark.parametrize("name", [*RECURSIONS, *TO_COME])
def test_entries_use_only_names_that_there_are(name):
    row = {**RECURSIONS, **TO_COME}[name]
    module = ast.parse(compiled_entries.text("entry", row))
    imports = [node for node in module.body if isinstance(node, ast.ImportFrom)]
    known = {alias.asname or alias.name for node in imports for alias in node.names} | {*dir(builtins)}
    entries = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    assert len(entries) == (2 if row.closed is None else 4)
    for entry in entries:
        arguments, nodes = {argument.arg for argument in entry.args.args}, list(ast.walk(entry))
        names = {type(node.ctx): set() for node in nodes if isinstance(node, ast.Name)}
        for node in nodes:
            if isinstance(node, ast.Name):
                names[type(node.ctx)].add(node.id)
        assert names[ast.Load] <= known | arguments | names[ast.Store], entry.name
        assert {node.attr for node in nodes if isinstance(node, ast.Attribute)} <= ATTRIBUTES, entry.name
        assert ("bias_rates" in arguments) == (entry.name.startswith("closed_") and row.bias_rates)


#: Of flat arrays and of NumPy's.
ATTRIBUTES = {"shape", "size", *TREE.view._fields, *CLUSTERS.view._fields}


@pytest.mark.parametrize(
    "wrong", [{"shape": (N, N), "mirrored": True}, {"bias_rates": True}, {"sparse": True}]
)
def test_a_row_that_contradicts_itself_is_refused(wrong):
    with pytest.raises(ValueError):
        Recursion("coriolis", "cluster_coriolis", **wrong)


@pytest.mark.further
def test_symbols_without_a_choice(monkeypatch, tmp_path):
    """A mirrored row without a body-level factor: its entries run, for one configuration and for rows."""
    from connections.engines.inlined.simd import inlined
    from connections.multibody.kernels import christoffel

    names = {**vars(christoffel), "original": christoffel.christoffel_symbols}
    exec("def toy(tree, work, out, all_of_them):\n    original(tree, work, out, False, all_of_them)", names)
    monkeypatch.setattr(christoffel, "toy", inlined(names["toy"]), raising=False)
    row = replace(TO_COME["n^3 without a choice"], closed=None)
    monkeypatch.setitem(RECURSIONS, "toy", row)
    (tmp_path / "toy.py").write_text(compiled_entries.text("toy", row))
    spec = importlib.util.spec_from_file_location("toy", tmp_path / "toy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "connections.multibody.program.entries.toy", module)
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
