"""Logarithms and exponentials in closed form beside those that are searched and integrated.

    python tests/benchmarks/spaces_by_name.py

Of the pairs of points of `support/closed_spaces.py`. Prints the table of docs/spaces.md: how many geodesics
the search integrates, without and with their derivatives, and the processor time of the first call, which
compiles, and the median one of `CALLS` more, ms. Both logarithms have to agree.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from closed_spaces import CLOSED

import connections as cn
from connections.affine.logarithms.shooting import Shooting

NAMES = {
    "hyperbolic(3)": "half_space",
    "sphere(3)": "sphere",
    "positive_definite(2)": "positive_definite",
    "grassmann(4, 2)": "grassmann",
    "normal()": "normal",
}
CALLS = 11
HEAD = (
    *("space", "logarithm, closed", "first", "exponential, closed", "logarithm, searched", "first"),
    *("geodesics", "with derivatives", "exponential, integrated"),
)


class Plain(cn.Metric):
    """The metric of a space without its closed forms."""

    def __init__(self, metric: Any) -> None:
        self.metric, self.frame = metric, metric.frame

    def matrix_at(self, q: Any) -> Any:
        return self.metric.matrix_at(q)


def milliseconds(function: Callable[[], Any]) -> tuple[float, float]:
    """Processor time of the first call, and the median one of the others."""
    times = []
    for _ in range(1 + CALLS):
        start = time.process_time()
        function()
        times.append(1e3 * (time.process_time() - start))
    return times[0], float(np.median(times[1:]))


def integrated(function: Callable[[], Any]) -> Counter[str]:
    """How many geodesics a call integrates, by kind."""
    counts: Counter[str] = Counter()
    run = Shooting._run

    def counted(self: Any, mode: str, start: Any, v: Any, *rest: Any) -> Any:
        counts[mode] += len(v)
        return run(self, mode, start, v, *rest)

    Shooting._run = counted  # type: ignore[method-assign]
    try:
        function()
    finally:
        Shooting._run = run  # type: ignore[method-assign]
    return counts


def row(title: str, metric: Any, p: np.ndarray, q: np.ndarray) -> str:
    """A row of the table."""
    nabla, plain = cn.LeviCivita(metric), cn.LeviCivita(Plain(metric))
    first, closed = milliseconds(lambda: cn.logarithm(nabla, p, q))
    first_searched, searched = milliseconds(lambda: cn.logarithm(plain, p, q))
    v = cn.logarithm(nabla, p, q)
    np.testing.assert_allclose(cn.logarithm(plain, p, q), v, atol=1e-9)
    counts = integrated(lambda: cn.logarithm(plain, p, q))
    _, moved = milliseconds(lambda: cn.exponential(nabla, p, v))
    _, followed = milliseconds(lambda: cn.exponential(plain, p, v))
    times = [f"{closed:.2f}", f"{first:,.0f}", f"{moved:.2f}", f"{searched:.0f}", f"{first_searched:,.0f}"]
    cells = [f"`{title}`", *times, str(counts["geodesics"]), str(counts["spread"]), f"{followed:.1f}"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    print(f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}", sep="\n")
    for title, name in NAMES.items():
        metric, pair = CLOSED[name]
        print(row(title, metric, *pair), flush=True)


if __name__ == "__main__":
    main()
