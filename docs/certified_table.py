"""The tables and the figure of certified_robots.md, from certified_rows.json.

Run: python docs/certified_table.py           the page and the figure again
     python docs/certified_table.py FOLDER    the figure in two widths, 88 and 180 mm, there

The rows are those of tests/benchmarks/certified_robots.py.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.lines import Line2D
from matplotlib.ticker import FormatStrFormatter, NullFormatter

from connections.plots.canvas import (
    BLACK,
    BLUE,
    GREY,
    RED,
    paper_figure,
    settings_of,
)

HERE = Path(__file__).parent
ROWS, PAGE = HERE / "certified_rows.json", HERE / "certified_robots.md"
FIGURE = HERE / "figures" / "certified_robots.png"
GOALS = {"lambda_max": 0.02, "lambda_min": 0.05, "k_g": 0.02}  # 0.05 of others
TITLES = {
    "lambda_max": r"$\lambda_{\max}(H)$",
    "lambda_min": r"$\lambda_{\min}(H)$",
    "k_g": "$k_g$",
    "k_C:christoffel": r"$k_C$ (Christoffel)",
}
MARKS: dict[str, dict[str, Any]] = {
    "attained to proved": {"color": BLUE, "lw": 2.6},
    "the same, gap not reached": {"color": GREY, "lw": 2.6},
    "samples": {
        "color": BLACK,
        "marker": "o",
        "mfc": "white",
        "ms": 2.6,
        "mew": 0.6,
        "ls": "",
    },
    "textbook": {"color": RED, "marker": "D", "ms": 2.4, "ls": ""},
}
Rows = Mapping[str, Mapping[str, Any]]


def found(row: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """A constant with two ends; None without one."""
    if name == "k_C:least" and not row["floating"]:
        name = "k_C:christoffel"  # one matrix
    constant = row["constants"].get(name)
    return constant if constant is not None and "lower" in constant else None


def ends(row: Mapping[str, Any], name: str) -> tuple[float, float] | None:
    """(attained, proved), the latter 0 or infinite where nothing is; None without."""
    constant = found(row, name)
    if constant is None:
        return None
    lower, upper = constant["lower"], constant["upper"]
    upper = math.inf if upper is None else upper
    return (upper, lower) if name == "lambda_min" else (lower, upper)


def done(row: Mapping[str, Any], name: str) -> bool:
    """Whether the gap is what was asked for."""
    constant = found(row, name)
    return constant is not None and constant["gap"] <= GOALS.get(name, 0.05) * 1.001


def number(value: float | None) -> str:
    """Three digits, or four from a thousand on."""
    if value is None:
        return ""
    if math.isinf(value):
        return "∞"
    if value and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.2e}".replace("e-0", "e-").replace("e+0", "e")
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{digits}f}"


def outward(value: float, digits: int, up: bool) -> str:
    """A number with some digits that is not below the value, or not above it."""
    if not value or math.isinf(value):
        return number(value)
    place = digits - 1 - math.floor(math.log10(abs(value)))
    count = value * 10.0**place
    value = (math.ceil(count - 1e-9) if up else math.floor(count + 1e-9)) / 10.0**place
    if 1e-3 <= value < 1e5:
        return f"{value:,.{max(0, place)}f}"
    return f"{value:.{digits - 1}e}".replace("e-0", "e-").replace("e+0", "e")


def rounded(lower: float, upper: float) -> str:
    """Both ends; four digits where three are hardly enough to tell them apart."""
    digits = 3 if upper - lower > 0.1 * upper else 4
    return f"{outward(lower, digits, False)} to {outward(upper, digits, True)}"


def cell(row: Mapping[str, Any], name: str) -> str:
    """An interval, and its gap where it is not the one that was asked for."""
    constant = found(row, name)
    if constant is None:
        return "refused" if name in row["constants"] else ""
    pair = ends(row, name)
    assert pair is not None
    text = rounded(*sorted(pair))
    return text if done(row, name) else f"{text} ({100.0 * constant['gap']:.0f} %)"


# --- tables ---------------------------------------------------------------------


def seconds(row: Mapping[str, Any], *names: str) -> str:
    """Processor time of some constants, s."""
    total = sum(row["constants"].get(name, {}).get("seconds", 0.0) for name in names)
    return f"{total:.0f}" if total >= 10.0 else f"{total:.1f}"


def table(columns: tuple[str, ...], body: list[list[str]]) -> list[str]:
    """Lines of a table; all columns but the first are numbers."""
    rule = "|---" + "|---:" * (len(columns) - 1) + "|"
    return [
        f"| {' | '.join(columns)} |",
        rule,
        *(f"| {' | '.join(r)} |" for r in body),
        "",
    ]


def eigenvalues(rows: Rows) -> list[str]:
    columns = (
        "robot, velocities",
        "$\\lambda_{\\max}$",
        "samples",
        "textbook",
        "$\\lambda_{\\min}$",
        "samples",
        "s",
    )
    body = []
    for name, row in rows.items():
        below, above = row["samples"], row["textbook"]
        body.append(
            [
                f"{name}, {row['nv']}",
                cell(row, "lambda_max"),
                number(below["lambda_max"]),
                number(above["lambda_max"]),
                cell(row, "lambda_min"),
                number(below["lambda_min"]),
                seconds(row, "lambda_max", "lambda_min"),
            ]
        )
    return table(columns, body)


def slopes(rows: Rows) -> list[str]:
    columns = ("robot, velocities", "$k_g$, N m/rad", "samples", "textbook", "s")
    return table(
        columns,
        [
            [
                f"{name}, {row['nv']}",
                cell(row, "k_g"),
                number(row["samples"]["k_g"]),
                number(row["textbook"]["k_g"]),
                seconds(row, "k_g"),
            ]
            for name, row in rows.items()
            if not row["floating"]
        ],
    )


def coriolis(rows: Rows, floating: bool) -> list[str]:
    columns = ["robot, velocities", "christoffel", "samples", "textbook", "force_cross"]
    columns += ["least", "smallest found", "none below"] if floating else ["ratio"]
    body = []
    for name, row in rows.items():
        if row["floating"] is not floating:
            continue
        line = [f"{name}, {row['nv']}", cell(row, "k_C:christoffel")]
        line += [
            number(row[of].get("k_C:christoffel")) for of in ("samples", "textbook")
        ]
        line.append(cell(row, "k_C:force_cross"))
        if floating:
            line += [cell(row, f"k_C:{what}") for what in ("least", "smallest")]
            below = (found(row, "k_C:smallest") or {}).get("below")
            line.append("" if below is None else outward(below, 4, False))
        else:
            ratio = ratio_of(row)
            line.append("" if ratio is None else rounded(*ratio))
        names = [name for name in row["constants"] if name.startswith("k_C")]
        body.append([*line, seconds(row, *names)])
    return [*table((*columns, "s"), body), *refusals(rows, floating)]


def refusals(rows: Rows, floating: bool) -> list[str]:
    """Why some robots have no k_C here."""
    lines = []
    for name, row in rows.items():
        reason = row["constants"].get("k_C:christoffel", {}).get("reason")
        if reason is not None and row["floating"] is floating:
            lines += [f"{name}: {reason}.", ""]
    return lines


def ratio_of(row: Mapping[str, Any]) -> tuple[float, float] | None:
    """Ends of k_C of force_cross by Christoffel's, which in coordinates is the smallest."""
    ours, theirs = ends(row, "k_C:christoffel"), ends(row, "k_C:force_cross")
    if ours is None or theirs is None:
        return None
    return max(1.0, theirs[0] / ours[1]), theirs[1] / ours[0]


# --- what they say ----------------------------------------------------------------


def span(values: list[float]) -> str:
    """The least and the largest of some numbers, two digits."""
    words = [
        f"{value:.0f}" if value >= 10.0 else f"{value:.2g}"
        for value in (min(values), max(values))
    ]
    return words[0] if words[0] == words[1] else f"{words[0]} to {words[1]}"


def summary(rows: Rows) -> list[str]:
    """Sentences whose numbers are those of the rows."""
    lines = []
    for name, title in TITLES.items():
        pairs = [(row, pair) for row in rows.values() if (pair := ends(row, name))]
        near = [(row, pair) for row, pair in pairs if done(row, name)]
        if not near:
            continue
        sign = -1.0 if name == "lambda_min" else 1.0
        missed = [
            sign * (1.0 - row["samples"][name] / best) for row, (best, _) in pairs
        ]
        words = (
            f"- {title}: proved to {100.0 * GOALS.get(name, 0.05):.0f} % for {len(near)} "
            f"of {len(pairs)}. Samples miss up to {100.0 * max(missed):.2g} % of what a "
            "search attains."
        )
        if beyond := sum(miss < -1e-3 for miss in missed):
            words += f" For {beyond} they are beyond it, and within the proved end."
        if name != "lambda_min":
            over = [row["textbook"][name] / proved for row, (_, proved) in near]
            words += f" The textbook's bound is {span(over)} times the proved one."
        lines.append(words)
    return [*lines, ""]


def answer(rows: Rows) -> list[str]:
    """Which C has the smallest k_C, in numbers."""
    lines, fixed = [], {n: r for n, r in rows.items() if not r["floating"]}
    ratios = {name: ratio_of(row) for name, row in fixed.items()}
    near = {n: pair for n, pair in ratios.items() if pair and pair[1] < 1.4 * pair[0]}
    proved = [name for name, pair in ratios.items() if pair and pair[0] > 1.0]
    lines.append(
        "- **Fixed base: Christoffel's.** That force_cross has more is proved in numbers "
        f"for {len(proved)} of {len(fixed)}."
    )
    if near:
        least = min(near, key=lambda name: near[name][0])
        most = max(near, key=lambda name: near[name][1])
        words = [f"{rounded(*near[name])} ({name})" for name in (least, most)]
        lines[-1] += f" It has from {words[0]} up to {words[1]} times as much."
    floating = {n: r for n, r in rows.items() if r["floating"]}

    def less(one: str, other: str) -> list[str]:
        pairs = {n: (ends(r, one), ends(r, other)) for n, r in floating.items()}
        return [n for n, (a, b) in pairs.items() if a and b and a[1] < b[0]]

    members = ("k_C:smallest", "k_C:least", "k_C:christoffel", "k_C:force_cross")
    counts = [len(less(a, b)) for a, b in zip(members[:-1], members[1:], strict=True)]
    lines.append(
        "- **Floating base in body axes: the member that is searched, then the least, "
        "Christoffel's, force_cross.** "
        f"Of {len(floating)} robots, the first inequality is proved for {counts[0]}, the "
        f"second for {counts[1]}, the third for {counts[2]}."
    )
    return [*lines, ""]


# --- figure -----------------------------------------------------------------------


def draw(rows: Rows, path: Path, width: float) -> None:
    """Intervals relative to what is attained, samples, and the textbook's bounds."""
    narrow = width < 120.0
    figure = paper_figure(width, 165.0 if narrow else 84.0)
    with settings_of(figure):
        figure.set_layout_engine("constrained")
        panels = figure.subplots(*((2, 2) if narrow else (1, 4)), sharey=True).ravel()
        for axes, (name, title) in zip(panels, TITLES.items(), strict=True):
            _panel(axes, rows, name)
            axes.set_title(title)
        marks = [Line2D([], [], label=label, **style) for label, style in MARKS.items()]
        figure.legend(
            handles=marks,
            loc="outside lower center",
            ncols=2 if narrow else 4,
            frameon=False,
        )
        figure.savefig(path)


def _panel(axes: Any, rows: Rows, name: str) -> None:
    near, far, sample, textbook = MARKS.values()
    limits = [0.9, 1.1]
    for at, row in enumerate(rows.values()):
        pair = ends(row, name)
        if pair is None or not pair[0]:
            continue
        attained, proved = pair
        end = proved / attained
        style = near if done(row, name) else far
        axes.plot([1.0, end], [at, at], solid_capstyle="butt", **style)
        axes.plot([1.0, end], [at, at], "|", ms=5.5, mew=1.0, color=style["color"])
        points = [row["samples"][name] / attained]
        axes.plot(points, [at], **sample)
        if name in row["textbook"]:
            points.append(row["textbook"][name] / attained)
            axes.plot(points[1:], [at], **textbook)
        limits = [min(limits[0], end, *points), max(limits[1], end, *points)]
    if limits[1] > 2.0 * limits[0]:
        axes.set_xscale("log")
        axes.set_xlim(limits[0] / 1.2, limits[1] * 1.3)
    axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.grid(axis="y", alpha=0.25)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right"]].set_visible(False)


# --- the page ---------------------------------------------------------------------

PARTS: dict[str, Callable[[Rows], list[str]]] = {
    "summary": summary,
    "eigenvalues": eigenvalues,
    "slopes": slopes,
    "answer": answer,
    "fixed": lambda rows: coriolis(rows, False),
    "floating": lambda rows: coriolis(rows, True),
}


def rendered(page: str, rows: Rows) -> str:
    """The page with its parts between ``<!-- NAME -->`` and ``<!-- end -->``."""
    for name, part in PARTS.items():
        head, rest = page.split(f"<!-- {name} -->\n", 1)
        _, tail = rest.split("<!-- end -->", 1)
        body = "\n".join(part(rows))
        page = f"{head}<!-- {name} -->\n\n{body}\n<!-- end -->{tail}"
    return page


def main(folder: Path | None) -> None:
    rows: Rows = json.loads(ROWS.read_text())
    if folder is not None:
        for width in (88.0, 180.0):
            draw(rows, folder / f"certified_robots_{width:.0f}.png", width)
        return
    PAGE.write_text(rendered(PAGE.read_text(), rows))
    draw(rows, FIGURE, 180.0)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
