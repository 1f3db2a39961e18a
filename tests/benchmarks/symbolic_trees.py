"""[E] Table 3: symbolic Christoffel symbols of planar trees, by Algorithm 2 and by derivatives of H.

Both start from composite inertias. "plain": products and sums are left as the formulas make them. "tidy":
composite inertias, body factors and results are simplified. Caches are emptied before each run, and the
values of both results at a random point are compared.
Run: python tests/benchmarks/symbolic_trees.py [--quick]
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from time import process_time

import numpy as np
import sympy
from sympy.core.cache import clear_cache

from connections.symbolic import planar_binary_tree, planar_chain, tidy
from connections.symbolic.trees import PlanarTree

PAPER = {
    5: (1.23, 0.97),
    10: (7.83, 3.11),
    15: (27.1, 5.88),
}  # [E] Table 3, binary trees, s: derivatives, Alg. 2
PLAIN = {planar_chain: (2, 4, 6, 8), planar_binary_tree: (5, 10, 15)}
TIDY = {planar_chain: (2, 3, 4), planar_binary_tree: (3, 5, 7)}
QUICK = {planar_chain: (2, 3), planar_binary_tree: (3,)}


def seconds(tree: PlanarTree, route: Callable[..., np.ndarray], simplify: object) -> tuple[float, np.ndarray]:
    """Processor time of one run with empty caches, and the symbols (N, N, N)."""
    clear_cache()
    tidy.cache_clear()
    start = process_time()
    Gamma = route(tree, simplify)
    return process_time() - start, Gamma


def require_equal(tree: PlanarTree, first: np.ndarray, second: np.ndarray) -> None:
    """Stop the program unless both have the same values at a random point."""
    found = {symbol for array in (first, second) for entry in array.flat for symbol in entry.free_symbols}
    point = dict(
        zip(sorted(found, key=str), np.random.default_rng(0).uniform(0.5, 1.5, len(found)), strict=True)
    )
    memory: dict[sympy.Expr, float] = dict(point)
    a, b = (np.array([value(entry, memory) for entry in array.flat]) for array in (first, second))
    if not np.allclose(a, b, rtol=1e-9, atol=1e-9 * np.abs(a).max()):
        raise SystemExit(f"the two routes differ for a tree of {len(tree.links)} links: nothing is timed")


def value(expression: sympy.Expr, memory: dict[sympy.Expr, float]) -> float:
    """The number of an expression, each common subexpression evaluated once."""
    if expression not in memory:
        arguments = [value(argument, memory) for argument in expression.args]
        plain = {sympy.Add: sum, sympy.Mul: math.prod, sympy.Pow: lambda pair: pair[0] ** pair[1]}
        turned = {sympy.sin: lambda pair: math.sin(pair[0]), sympy.cos: lambda pair: math.cos(pair[0])}
        rule = (plain | turned).get(expression.func)
        memory[expression] = rule(arguments) if rule else float(expression)
    return memory[expression]


def row(make: Callable[[int], PlanarTree], count: int, simplify: Callable | None) -> str:
    """One line of the table."""
    tree = make(count)
    by_derivatives, A = seconds(make(count), PlanarTree.christoffel_symbols_by_derivatives, simplify)
    by_recursion, B = seconds(tree, PlanarTree.christoffel_symbols, simplify)
    require_equal(tree, A, B)
    name = make.__name__.removeprefix("planar_").replace("_", " ")
    line = f"{name:12}{count:4}  {'tidy' if simplify else 'plain':6}{by_derivatives:9.2f}{by_recursion:9.2f}"
    line += f"{by_derivatives / by_recursion:8.2f}"
    if simplify:
        line += "".join(f"{sum(int(sympy.count_ops(entry)) for entry in array.flat):10}" for array in (A, B))
    if make is planar_binary_tree and count in PAPER and not simplify:
        theirs = PAPER[count]
        line += f"   [E]: {theirs[0]} s, {theirs[1]} s, ratio {theirs[0] / theirs[1]:.2f}"
    return line


def main() -> None:
    print("tree          N  form   partials Alg. 2   ratio  operations of the results")
    plans = ((QUICK, tidy),) if "--quick" in sys.argv else ((PLAIN, None), (TIDY, tidy))
    for plan, simplify in plans:
        for make, counts in plan.items():
            for count in counts:
                print(row(make, count, simplify), flush=True)


if __name__ == "__main__":
    main()
