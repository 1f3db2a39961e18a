"""What a call costs with other arrays than plain ones: `python tests/benchmarks/array_kinds.py`.

One configuration of an arm, microseconds of a call, the least of many repetitions, for each kind of array in
which a caller may hold q and velocities.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from connections import multibody as mb
from connections.multibody.program.table import RECURSIONS

FUNCTIONS = (
    "mass_matrix",
    "gravity",
    "coriolis_matrix",
    "christoffel_symbols",
    "inverse_dynamics",
    "forward_dynamics",
)
ROUNDS, CALLS = 30, 300


def _read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


KINDS: dict[str, Callable[[np.ndarray], Any]] = {
    "plain": np.copy,
    "read-only": _read_only,
    "strided": lambda x: np.repeat(x, 3)[::3],
    "big-endian": lambda x: x.astype(">f8"),
    "float32": lambda x: x.astype(np.float32),
    "integers": lambda x: np.arange(len(x)),
    "list": lambda x: x.tolist(),
    "of JAX": jnp.asarray,
}


def measured(function: Callable[..., Any], arguments: list[Any]) -> float:
    """Microseconds of a call."""
    function(*arguments)
    return 1e6 * min(timeit.repeat(lambda: function(*arguments), number=CALLS, repeat=ROUNDS)) / CALLS


def main() -> None:
    """Print the table."""
    robot, rng = mb.example("arm"), np.random.default_rng(0)
    print(f"{'':22}" + "".join(f"{kind:>11}" for kind in KINDS))
    for name in FUNCTIONS:
        row = RECURSIONS[name]
        given = [robot.random(0), *(rng.standard_normal(robot.nv) for _ in row.vectors)]
        times = [measured(getattr(mb, name), [robot, *(kind(x) for x in given)]) for kind in KINDS.values()]
        print(f"{name:22}" + "".join(f"{time:11.2f}" for time in times), flush=True)


if __name__ == "__main__":
    main()
