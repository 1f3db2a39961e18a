"""The list of tests that run with `--all` because they take long: what is not on it, and how it is made."""

import sys
from pathlib import Path

import pytest
import slow_tests

from tests.mutants.planted import MUTANTS
from tests.test_mutants import functions_of

SECONDS = {
    "a.py::one": 9.0,
    "a.py::two[x]": 2.0,
    "a.py::two[y]": 3.0,
    "b.py::three[x]": 5.0,
    "b.py::four": 0.1,
    "test_docs.py::five": 7.0,
}


def test_what_is_listed_exists_and_no_planted_fault_or_claim_needs_it() -> None:
    listed = slow_tests.LIST.read_text().splitlines()
    assert listed == sorted(set(listed))
    faults, claims = slow_tests.needed()
    assert {test for mutant in MUTANTS for test in mutant.tests} == faults
    for test in listed:
        function, case, _ = test.partition("[")
        file, _, name = function.partition("::")
        assert name in functions_of(file), test
        assert test not in faults and function not in faults, test
        assert case or function not in claims, test
        assert not file.startswith(tuple(f"test_{name}.py" for name in slow_tests.OF_THE_CHECKOUT)), test


def test_slow_ones_are_chosen_but_for_those_of_faults_and_a_case_of_each_claim() -> None:
    assert slow_tests.chosen(SECONDS, 1.0, set(), set()) == set(SECONDS) - {
        "b.py::four",
        "test_docs.py::five",
    }
    found = slow_tests.chosen(SECONDS, 1.0, {"a.py::one", "b.py::three[x]"}, {"a.py::two"})
    assert found == {"a.py::two[y]"}


def test_the_list_is_written_from_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the report does not have stays; what has become quick leaves the list."""
    report, written = tmp_path / "report.xml", tmp_path / "further.txt"
    cases = "".join(
        f'<testcase classname="tests.room.test_x" name="{name}" time="{seconds}"/>'
        for name, seconds in (("test_slow", 2.0), ("test_quick", 0.01), ("test_claim[a]", 3.0))
    )
    report.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    written.write_text("other/test_y.py::test_elsewhere\nroom/test_x.py::test_quick\n")
    monkeypatch.setattr(slow_tests, "LIST", written)
    monkeypatch.setattr(slow_tests, "needed", lambda: (set(), {"room/test_x.py::test_claim"}))
    monkeypatch.setattr(sys, "argv", ["slow_tests.py", str(report)])
    assert slow_tests.main() == 0
    assert written.read_text() == "other/test_y.py::test_elsewhere\nroom/test_x.py::test_slow\n"
