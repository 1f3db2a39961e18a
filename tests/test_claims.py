"""Every public quantity has a row in claims.md: its oracle, its control, and a test that runs by default."""

import ast
import importlib
import inspect
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from cases import always, further
from names import named, public_names

TESTS = Path(__file__).parent
TABLE = TESTS / "claims.md"
HEADS = {"| name | definition | oracle | control | test |", "| name | why |"}


class Claim(NamedTuple):
    """A row of the table."""

    definition: str
    oracle: str
    control: str
    tests: tuple[str, ...]


class Claims(NamedTuple):
    """The table: names with their rooms in front, such as ``connections.affine.Distribution``."""

    rows: dict[str, Claim]
    without_numbers: dict[str, str]


def read(text: str) -> Claims:
    """The rows of the table's text; a name that stands twice, or cells that are missing, are errors."""
    claims, room = Claims({}, {}), ""
    for line in text.splitlines():
        if line.startswith("## "):
            room = line[3:]
        if not line.startswith("| ") or line in HEADS:
            continue
        name, *cells = (cell.strip() for cell in line.strip("|").split(" | "))
        name = name.strip("`")
        if len(cells) == 4:
            definition, oracle, control, tests = cells
            full, row = f"{room}.{name}", Claim(definition, oracle, control, tuple(tests.split(", ")))
        else:
            (row,) = cells
            full = name
        table: dict[str, Any] = claims.without_numbers if isinstance(row, str) else claims.rows
        if full in claims.rows or full in claims.without_numbers:
            raise ValueError(f"{full}: two rows")
        if not all(row):
            raise ValueError(f"{full}: an empty cell")
        table[full] = row
    return claims


@cache
def quantities() -> set[str]:
    """Methods of public classes that have a definition, as `matrix` has `matrix_at`, each where it begins."""
    classes = {thing: name for name in public_names() if inspect.isclass(thing := named(name))}
    found = set()
    for kind, name in classes.items():
        above = [other for other in kind.__mro__[1:] if other in classes]
        for method in vars(kind):
            of_bases = any(_is_quantity(other, method) for other in above)
            if _is_quantity(kind, method) and not of_bases:
                found.add(f"{name}.{method}")
    return found


def _is_quantity(kind: type, method: str) -> bool:
    return not method.startswith("_") and all(
        callable(getattr(kind, each, None)) for each in (method, f"{method}_at")
    )


def faults_of_names(claims: Claims) -> list[str]:
    """Public names and quantities without a row, and rows whose name, or whose method, is not there."""
    listed = {*claims.rows, *claims.without_numbers}
    missing = (public_names() | quantities()) - listed
    found = [f"{name}: no row in {TABLE.name}" for name in sorted(missing)]
    for name in sorted(listed - public_names()):
        of, _, method = name.rpartition(".")
        if of not in public_names() or not hasattr(named(of), method):
            found.append(f"{name}: no such public name")
    return found


def fault_of_test(where: str) -> str | None:
    """Why a test ``folder/test_file.py::test_name`` does not run by default, or None."""
    path, _, name = where.partition("::")
    if not (TESTS / path).is_file():
        return f"{where}: no such file"
    bare = _bare_tests(path)
    if name not in bare:
        return f"{where}: no such test"
    if bare[name]:
        return None
    module = importlib.import_module("tests." + path.removesuffix(".py").replace("/", "."))
    return None if _runs(module, getattr(module, name)) else f"{where}: with --all only"


@cache
def _bare_tests(path: str) -> dict[str, bool]:
    """The tests of a file, and whether neither they nor the file have marks; it is not imported."""
    tree = ast.parse((TESTS / path).read_text())
    marked = any(isinstance(part, ast.Name) and part.id == "pytestmark" for part in ast.walk(tree))
    return {
        part.name: not (marked or part.decorator_list)
        for part in tree.body
        if isinstance(part, ast.FunctionDef) and part.name.startswith("test")
    }


def _runs(module: ModuleType, function: Any) -> bool:
    """Whether a case of the function is not a further one: of each list of parameters, one is not."""
    own = getattr(module, "pytestmark", [])
    for mark in [*getattr(function, "pytestmark", []), *(own if isinstance(own, list) else [own])]:
        if mark.name == "further":
            return False
        if mark.name == "parametrize":
            values = mark.kwargs["argvalues"] if "argvalues" in mark.kwargs else mark.args[1]
            if all(_is_further(value) for value in values):
                return False
    return True


def _is_further(value: Any) -> bool:
    return any(mark.name == "further" for mark in getattr(value, "marks", ()))


CLAIMS = read(TABLE.read_text())


def test_every_public_name_has_a_row_and_every_row_a_public_name() -> None:
    assert not faults_of_names(CLAIMS)


def test_the_tests_of_the_rows_run_by_default() -> None:
    named = {test for row in CLAIMS.rows.values() for test in row.tests}
    assert not [fault for fault in map(fault_of_test, sorted(named)) if fault]


# --- controls ----------------------------------------------------------------------------------------------


def test_a_name_without_a_row_and_a_row_without_a_name_are_seen() -> None:
    rows, plain = dict(CLAIMS.rows), dict(CLAIMS.without_numbers)
    row = rows.pop("connections.holonomy")
    del plain["connections.citation"], rows["connections.Metric.inner"]
    rows["connections.geodesics"] = rows["connections.LeviCivita.no_method"] = row
    found = [fault.split(":")[0] for fault in faults_of_names(Claims(rows, plain))]
    assert found == [
        "connections.Metric.inner",
        "connections.citation",
        "connections.holonomy",
        "connections.LeviCivita.no_method",
        "connections.geodesics",
    ]


@pytest.mark.parametrize("number", [1, 2])
def test_parameters_of_which_all_run(number: int) -> None:
    assert number


@pytest.mark.parametrize("number", always([1, 2], 2))
def test_parameters_of_which_one_runs(number: int) -> None:
    assert number


@pytest.mark.parametrize("number", [further(1), further(2)])
def test_parameters_of_which_none_runs(number: int) -> None:
    assert number


@pytest.mark.further
def test_further_one() -> None:
    """Runs with `--all`."""


def test_a_test_that_is_missing_or_a_further_one_is_seen() -> None:
    here = "test_claims.py::"
    assert fault_of_test(here + "test_parameters_of_which_all_run") is None
    assert fault_of_test(here + "test_parameters_of_which_one_runs") is None
    assert fault_of_test(here + "test_parameters_of_which_none_runs") == (
        "test_claims.py::test_parameters_of_which_none_runs: with --all only"
    )
    assert str(fault_of_test(here + "test_further_one")).endswith("with --all only")
    assert str(fault_of_test(here + "test_that_nobody_wrote")).endswith("no such test")
    assert str(fault_of_test("test_no_file.py::test_further_one")).endswith("no such file")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: f"{line}\n{line}", "two rows"),
        (lambda line: line.replace("none", ""), "an empty cell"),
        (lambda line: line.replace(" | none", ""), "not enough values|too many values"),
    ],
    ids=["twice", "an empty cell", "a cell too few"],
)
def test_a_table_that_is_no_table_is_refused(change: Any, message: str) -> None:
    line = "| `ChangedMetric` | A^T H A | the product | none | geometry/test_metrics.py::test_x |"
    assert [*read(f"## connections.geometry\n{line}").rows] == ["connections.geometry.ChangedMetric"]
    with pytest.raises(ValueError, match=message):
        read(f"## connections.geometry\n{change(line)}")
