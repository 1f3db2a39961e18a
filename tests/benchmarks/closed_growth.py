"""How the time of C and Gamma grows with the number of clusters N and the depth d of their tree.

For a fixed library of clusters the recursions take as many steps as there are pairs (C) and triples (Gamma)
of clusters on one path: with d_c clusters on the path of cluster c, sum_c d_c = O(N d) and sum_c d_c^2 =
O(N d^2). Times are fitted by powers of N beside these counts. The time of filling the result with zeros,
which grows with its size whatever the tree, is taken off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from closed_pairs import four_bars, rotors
from competitors import binary_tree, chain, medians

from connections import multibody as mb

_SMALLEST = 8  # clusters
_FITTED = 3  # the largest sizes: the smallest times are those of the call itself


@dataclass(frozen=True)
class Curve:
    """Times of one recursion on mechanisms of N clusters, with the exponents of N.

    Parameters
    ----------
    library : the cluster and the shape of the tree.
    quantity : "C" or "Gamma".
    counts, seconds, steps : (sizes,) N, time less that of zeros, and sum_c d_c or sum_c d_c^2.
    """

    library: str
    quantity: str
    counts: tuple[int, ...]
    seconds: tuple[float, ...]
    steps: tuple[int, ...]

    @property
    def exponents(self) -> tuple[float, float]:
        """Of the time, and of the count of steps, over the largest sizes."""
        x = np.log(self.counts[-_FITTED:])
        time, steps = (np.polyfit(x, np.log(y[-_FITTED:]), 1)[0] for y in (self.seconds, self.steps))
        return float(time), float(steps)

    def __str__(self) -> str:
        times = ", ".join(f"{n}: {1e6 * t:.1f} us" for n, t in zip(self.counts, self.seconds, strict=True))
        time, steps = self.exponents
        return f"{self.library:<28}{self.quantity:<6} N^{time:.2f}  (steps N^{steps:.2f})  {times}"


def growth(repeats: int, largest: int) -> Iterator[Curve]:
    """Chains and binary trees of four-bars and of geared joints, doubled from 8 clusters to `largest`."""
    counts = tuple(int(n) for n in _SMALLEST * 2 ** np.arange(20) if n <= largest)
    libraries: dict[str, Callable[[list[int]], mb.Model]] = {"geared joints": rotors, "four-bars": four_bars}
    shapes: dict[str, Callable[[int], list[int]]] = {"chain": chain, "binary tree": binary_tree}
    print("\ngrowth")
    for library, build in libraries.items():
        for shape, parents in shapes.items():
            found = [_times(build(parents(n)), repeats) for n in counts]
            paths = [np.array(_depths(parents(n))) for n in counts]
            for number, quantity in enumerate(("C", "Gamma")):
                steps = tuple(int(np.sum(depth ** (number + 1))) for depth in paths)
                seconds = tuple(times[number] for times in found)
                curve = Curve(f"{library}, {shape}", quantity, counts, seconds, steps)
                print(f"  {curve}", flush=True)
                yield curve


def _times(model: mb.Model, repeats: int) -> tuple[float, float]:
    """Seconds of C and of Gamma."""
    rng = np.random.default_rng(4)
    q, v = model.neutral(), rng.standard_normal(model.nv)
    C, Gamma = np.empty((model.nv,) * 2), np.empty((model.nv,) * 3)
    calls = [
        partial(mb.coriolis_matrix, model, q, v, out=C),
        partial(mb.christoffel_symbols, model, q, out=Gamma),
    ]
    times = medians(calls, repeats)
    return times[0], times[1]


def _depths(parents: list[int]) -> list[int]:
    """Clusters on the path of each, itself included."""
    depths: list[int] = []
    for parent in parents:
        depths.append(1 + (depths[parent] if parent >= 0 else 0))
    return depths
