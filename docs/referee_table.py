"""The table of libraries in which_coriolis_table.md, from what `connections audit --corpus --json` wrote.

Run: python docs/referee_table.py           the page again, from docs/referee_rows.json
     python docs/referee_table.py FOLDER    rows of FOLDER/*.json replace those of their libraries; if a
                                            verdict is not the one that was there, a line for each, and 1
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROWS, PAGE = HERE / "referee_rows.json", HERE / "which_coriolis_table.md"
END = "<!-- table -->"
INFORMATIVE = ("linear", "torsion_free")  # as in connections.referee
MARKS = {
    "right": "✓",
    "refused": "×",
    "not given": "·",
    "H": "**H**",
    "c": "**c**",
    "C": "**C**",
}
Rows = dict[str, dict[str, Any]]


def reduced(results: Iterable[Mapping[str, Any]]) -> Rows:
    """{library: version, date, precision and a verdict for each robot} from results of the command."""
    rows: Rows = {}
    for result in results:
        row = rows.setdefault(
            result["library"],
            {key: result[key] for key in ("version", "date", "python")}
            | {"precision": "", "robots": {}},
        )
        row["precision"] = result.get("precision", row["precision"])
        row["robots"][result["robot"]] = verdict(result)
    return rows


def verdict(result: Mapping[str, Any]) -> dict[str, Any]:
    """What a page says of one robot."""
    for word in ("refused", "not given"):
        if word in result:
            return {"verdict": word, "reason": result[word]}
    fails = [
        name
        for name, found in result["verdicts"].items()
        if found == "fails" and name not in INFORMATIVE
    ]
    residuals = {row["name"]: row["residual"] for row in result["rows"]}
    numbers = {
        key: float(f"{residuals[name]:.0e}")
        for key, name in (("H", "same_mass_matrix"), ("c", "same_bias"))
        if residuals.get(name) is not None
    }
    return (
        {"verdict": "fails" if fails else "right", "kind": result["kind"]}
        | numbers
        | {"fails": fails}
    )


def mark(robot: Mapping[str, Any] | None) -> str:
    """A sign for a cell."""
    if robot is None:
        return ""
    if robot["verdict"] != "fails":
        return MARKS[robot["verdict"]]
    if {"same_mass_matrix", "symmetric", "definite"} & set(robot["fails"]):
        return MARKS["H"]
    return MARKS[
        "c" if {"same_bias", "bias", "quadratic"} & set(robot["fails"]) else "C"
    ]


def changes(before: Rows, after: Rows) -> list[str]:
    """A line for each verdict that is another one; a new library or robot is no change."""
    found = []
    for library, row in after.items():
        old = before.get(library, {}).get("robots", {})
        for name, robot in row["robots"].items():
            if name in old and differs(old[name], robot):
                versions = f"{before[library]['version']} -> {row['version']}"
                found.append(
                    f"{library} ({versions}), {name}: {words(old[name])} -> {words(robot)}"
                )
        found += [
            f"{library}, {name}: no longer audited"
            for name in old
            if name not in row["robots"]
        ]
    return found


def differs(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether what may not change unnoticed did; noise may hide the kind for a night."""
    kinds = {old.get("kind"), new.get("kind")}
    return (
        old["verdict"] != new["verdict"]
        or old.get("fails") != new.get("fails")
        or (len(kinds) > 1 and "unknown" not in kinds)
    )


def words(robot: Mapping[str, Any]) -> str:
    """A verdict in words."""
    kind = f" ({robot['kind']})" if "kind" in robot else ""
    return (
        robot["verdict"] + kind + "".join(f" {name}" for name in robot.get("fails", ()))
    )


def table(rows: Rows) -> list[str]:
    """The section of the page."""
    libraries = sorted(rows)
    robots = list(
        dict.fromkeys(name for library in libraries for name in rows[library]["robots"])
    )
    lines = [
        f"**{len(libraries)} libraries on the referee's corpus**, each in an environment of its own and in "
        "its own layout: mass matrix, bias vector and C. [What is behind the signs](referee.md), and how to "
        "audit yours.",
        "",
        "✓ right; **H** the mass matrix is not that of the file; **c** the bias vector is not; **C** only a "
        "matrix C is not, or $\\dot H - 2C$ is not skew; × the library refuses the file; · it has no such "
        "robots, or reads other files.",
        "",
    ]
    half = (len(libraries) + 1) // 2  # as many names as fit beside each other
    for some in (libraries[:half], libraries[half:]):
        lines += ["| | " + " | ".join(some) + " |", "|---" * (len(some) + 1) + "|"]
        for name in robots:
            cells = [mark(rows[library]["robots"].get(name)) for library in some]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        lines.append("")
    lines += [
        "| library | version | on | precision | right | largest errors of H, c | kinds |",
        "|---" * 7 + "|",
    ]
    for library in libraries:
        row = rows[library]
        right = [
            robot for robot in row["robots"].values() if robot["verdict"] == "right"
        ]
        given = [
            robot
            for robot in row["robots"].values()
            if robot["verdict"] in ("right", "fails")
        ]
        largest = [
            max((robot.get(key, 0.0) for robot in right), default=0.0)
            for key in ("H", "c")
        ]
        numbers = f"{largest[0]:.0e}, " + (
            f"{largest[1]:.0e}" if any("c" in robot for robot in right) else "-"
        )
        kinds = ", ".join(dict.fromkeys(robot["kind"] for robot in given))
        lines.append(
            f"| {library} | {row['version']} | {row['date']} | {row['precision']} "
            f"| {len(right)} of {len(given)} | {numbers} | {kinds} |"
        )
    return [*lines, ""]


def write(rows: Rows) -> None:
    """The rows, and the section of the page above the tables of `examples/which_coriolis.py`."""
    ROWS.write_text(json.dumps(dict(sorted(rows.items())), indent=1) + "\n")
    title, rest = PAGE.read_text().split(END)
    head = title[
        : title.index("# Which")
        + len(title[title.index("# Which") :].split("\n", 1)[0])
    ]
    PAGE.write_text(head + "\n\n" + "\n".join(table(rows)) + "\n" + END + rest)


def main(folder: Path | None) -> int:
    """Render; 1 if a verdict changed."""
    before: Rows = json.loads(ROWS.read_text()) if ROWS.exists() else {}
    after: Rows = {}
    for path in sorted(folder.glob("*.json")) if folder is not None else ():
        after |= reduced(json.loads(path.read_text()))
    found = changes(before, after)
    write(before | after)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
