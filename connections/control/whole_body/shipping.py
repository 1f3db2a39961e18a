"""Machine code for a wheel: all that Numba compiles, for levels of processors (`shipped_code`).

Also what XLA calls for recursions inside of JAX, without which the first call there takes 5 s.

It is in this room, because no other one above it knows all functions that Numba compiles.

``python -m connections.control.whole_body.shipping FOLDER LEVEL ...`` writes an archive for each level, and
the hook of the build, ``hatch_build.py``, calls it if it is asked to.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import jax
import numpy as np

from connections._children import environment, python_command
from connections.certified.compiled import compiled as bounds
from connections.control.whole_body.compiled import compiled as law
from connections.engines.shipped_code import LEVELS, write_archive
from connections.multibody import functions as recursions
from connections.multibody.description.examples import example
from connections.multibody.program import warm_up
from connections.multibody.program.table import RECURSIONS
from connections.multibody.variational_steps import variational_step

_WITH_DERIVATIVES = ("inverse_dynamics", "forward_dynamics")


def ship(folder: Path, levels: Sequence[str], processes: int | None = None) -> list[Path]:
    """The paths of the archives of all that Numba compiles, one for each level; it takes minutes for each.

    Parameters
    ----------
    folder : where they are written.
    levels : of `LEVELS`. This processor must have a level whose code is compiled, because it runs.
    processes : as in `warm_up`.

    Raises
    ------
    ValueError : a level is none.
    ChildProcessError : a process ended before it had compiled everything.
    """
    unknown = [level for level in levels if level not in LEVELS]
    if unknown or not levels:
        raise ValueError(f"levels: expected some of {', '.join(LEVELS)}, got {', '.join(unknown) or 'none'}")
    written = []
    for level in levels:
        with tempfile.TemporaryDirectory() as cache:
            chosen = {"NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": cache}
            words = [] if processes is None else [str(processes)]
            child = subprocess.run(python_command(_compile, *words), env=environment(**chosen), stdout=-1)
            if child.returncode:
                raise ChildProcessError(f"compiling for {level} ended with status {child.returncode}")
            compiled = Path(child.stdout.decode().strip())
            # One compiled function a file, because each is compiled for one type of each argument.
            found = {file.name.removesuffix(".1.nbc"): file for file in compiled.glob("*.1.nbc")}
            written.append(folder / f"{level}.zip")
            write_archive(written[-1], {name: file.read_bytes() for name, file in found.items()})
    return written


def _compile() -> None:
    """A child: compile everything for the processor that the environment names, and print the folder."""
    folder = warm_up.warm_up(*map(int, sys.argv[1:]))
    for room in (law, bounds):
        for name in room.names:
            room.require(name)
    _compile_handlers()
    print(folder)


def _compile_handlers() -> None:
    """Compile what XLA calls for recursions and variational steps of a tree and of a closed chain.

    Handlers are compiled where JAX lowers a call, for one configuration or for batches; they are the same
    for all trees, and for all closed chains.
    """
    for name in ("arm", "four_bar"):
        model = example(name)
        q, zero = model.random(0), np.zeros(model.nv)
        for each, row in RECURSIONS.items():
            if not hasattr(recursions, each) or (model.closed and row.closed is None):
                continue
            frame = {"frame": model.body_names[-1]} if row.choice and "frame" in row.choice.arguments else {}
            call = partial(getattr(recursions, each), model, **frame)
            given = [q, *[zero] * len(row.vectors)]
            jax.jit(call).lower(*given)
            jax.jit(call).lower(*(np.stack([x, x]) for x in given))
            if each in _WITH_DERIVATIVES:
                jax.jit(jax.jacfwd(call, range(len(given)))).lower(*given)
        step = partial(variational_step, model)
        jax.jit(step).lower(q, zero, 0.01)
        jax.jit(jax.jacfwd(step, (0, 1))).lower(q, zero, 0.01)


def main() -> None:
    """Write the archives for the levels that the command line names into the folder that it names."""
    for path in ship(Path(sys.argv[1]), sys.argv[2:], os.cpu_count()):
        print(f"{path}: {path.stat().st_size / 2**20:.1f} MB")


if __name__ == "__main__":
    # By the module's own name, by which children import its functions: here it is `__main__`.
    from connections.control.whole_body import shipping

    shipping.main()
