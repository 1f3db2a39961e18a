"""Which tests run with `--all` only because of what they take: tests/further.txt, written again.

Run: python -m pytest -q --all --junitxml=report.xml, then python tests/support/slow_tests.py report.xml
"""

import argparse
import re
import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

TESTS = Path(__file__).parents[1]
LIST = TESTS / "further.txt"
SECONDS = 0.15  # with everything compiled
#: Tests of the checkout itself, which a change of anything may break; they stay.
OF_THE_CHECKOUT = (
    "claims",
    "distribution",
    "docs",
    "layering",
    "moved",
    "mutants",
    "readme",
    "type_hints",
    "written",
)


def durations(report: Path) -> dict[str, float]:
    """Seconds of each test of pytest's report, by its id below tests/."""
    cases = ElementTree.parse(report).getroot().iter("testcase")
    found = {}
    for case in cases:
        folders, _, name = case.attrib["classname"].partition(".")[2].rpartition(".")
        found[f"{Path(folders.replace('.', '/'), name)}.py::{case.attrib['name']}"] = float(
            case.attrib["time"]
        )
    return found


def needed() -> tuple[set[str], set[str]]:
    """Tests by which planted faults die, all cases or one; and tests of claims, of which a case is enough."""
    from tests.mutants.planted import MUTANTS

    faults = {test for mutant in MUTANTS for test in mutant.tests}
    return faults, set(re.findall(r"[\w/]+\.py::\w+", (TESTS / "claims.md").read_text()))


def chosen(seconds: dict[str, float], limit: float, faults: set[str], claims: set[str]) -> set[str]:
    """Tests that take longer than the limit, but for those of faults and the quickest case of a claim."""
    cases = defaultdict(list)
    for test in seconds:
        cases[test.partition("[")[0]].append(test)
    found = set()
    for function, those in cases.items():
        kept = {min(those, key=lambda test: seconds[test])} if function in claims else set()
        own = function.startswith(tuple(f"test_{name}.py" for name in OF_THE_CHECKOUT))
        if function not in faults and not own:
            found |= {test for test in those if seconds[test] > limit} - kept - faults
    return found


def main() -> int:
    """Write the list; tests that the report does not have stay as they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path, help="of pytest --junitxml")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="that a test may take (%(default)s)")
    options = parser.parse_args()
    seconds = durations(options.report)
    stay = set(LIST.read_text().split("\n")) - {""} - set(seconds) if LIST.is_file() else set()
    found = stay | chosen(seconds, options.seconds, *needed())
    LIST.write_text("".join(f"{test}\n" for test in sorted(found)))
    print(f"{len(found)} tests, {sum(seconds.get(test, 0.0) for test in found):.0f} s")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(TESTS.parent))
    sys.exit(main())
