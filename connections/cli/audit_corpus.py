"""connections audit --corpus: a library in another interpreter, on the robots of the referee's corpus."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from connections._shown import as_markdown
from connections.cli import options as arguments
from connections.cli.printing import cell, console, new_table, print_paragraph, write_output
from connections.cli.progress import progress

_COLUMNS = ("robot", "verdict", "H", "C v", "what fails, or why there is no audit")


def run_corpus(options: argparse.Namespace) -> int:
    """Audit, print, and write; 0 if all that is given is right, 1 if not, 2 if there is no audit."""
    from connections.referee import robot, robots
    from connections.referee.other_python import audits_of

    if options.robot is not None or options.joints is not None or not options.library:
        raise ValueError(
            "--corpus takes a library, and no other robot: connections audit --corpus --library dartpy"
        )
    for name in options.corpus or ():
        robot(name)
    output, table = arguments.output(options.json), arguments.output(options.markdown)
    with_files = [name for name in robots() if robot(name).urdf or robot(name).mjcf]
    results: list[dict[str, Any]] = []
    for library in options.library:
        with progress(len(options.corpus or with_files), "audits", library) as steps:
            for result in audits_of(library, options.python, options.corpus or None):
                results.append(result)
                steps.advance()
    _print(results)
    if output is not None:
        write_output(output, json.dumps(results, indent=1, allow_nan=False) + "\n")
    if table is not None:
        write_output(table, markdown(results))
    return _status(results, bool(options.corpus))


def verdict(result: dict[str, Any]) -> str:
    """The verdict on a robot: "right", "fails", "refused" or "not given"."""
    for word in ("refused", "not given"):
        if word in result:
            return word
    return "fails" if failing(result) else "right"


def failing(result: dict[str, Any]) -> list[str]:
    """Names of the rows that are faults."""
    from connections.referee import INFORMATIVE

    return [
        name
        for name, found in result.get("verdicts", {}).items()
        if found == "fails" and name not in INFORMATIVE
    ]


def _status(results: Sequence[dict[str, Any]], named: bool) -> int:
    """0, 1 or 2; a robot that was not named may be refused."""
    words = [verdict(result) for result in results]
    if not {"right", "fails"} & set(words) or (named and "refused" in words):
        return 2
    return 1 if "fails" in words else 0


def _cells(result: dict[str, Any]) -> list[str]:
    residuals = {row["name"]: row["residual"] for row in result.get("rows", ())}
    numbers = [residuals.get(name) for name in ("same_mass_matrix", "same_bias")]
    reason = result.get("refused") or result.get("not given") or ", ".join(failing(result))
    return [
        result["robot"],
        verdict(result),
        *("" if number is None else f"{number:.0e}" for number in numbers),
        reason,
    ]


def _titles(results: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Results by library, with its version."""
    found: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        found.setdefault(f"{result['library']} {result['version']}".strip(), []).append(result)
    return found


def _notes(results: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(note for result in results for note in result.get("notes", ())))


def _print(results: Sequence[dict[str, Any]]) -> None:
    for title, group in _titles(results).items():
        table = new_table()
        for name in _COLUMNS:
            table.add_column(name, overflow="fold")
        for result in group:
            table.add_row(*map(cell, _cells(result)))
        print()
        print_paragraph(f"{title}, on the robots of the corpus; residuals are relative")
        console().print(table)
        for note in _notes(group):
            print_paragraph(f"note: {note}")
    print()


def markdown(results: Sequence[dict[str, Any]]) -> str:
    """The tables of results in Markdown, for a page or the summary of a job."""
    lines = []
    for title, group in _titles(results).items():
        lines += [f"**{as_markdown(title)}**", ""]
        lines += ["| " + " | ".join(_COLUMNS) + " |", "|---" * len(_COLUMNS) + "|"]
        lines += ["| " + " | ".join(as_markdown(x, 300) for x in _cells(result)) + " |" for result in group]
        lines += ["", *(f"- {as_markdown(note)}" for note in _notes(group)), ""]
    return "\n".join(lines) + "\n"
