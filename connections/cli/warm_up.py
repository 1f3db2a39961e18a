"""connections warm-up: compile everything now, so that no later call on this machine has to."""

from __future__ import annotations

import argparse
import time
from typing import Any

from connections.cli import options as arguments


def add(commands: Any) -> None:
    """Register the command."""
    warm_up = commands.add_parser(
        "warm-up",
        help="compile everything now, so that no later call has to",
        description="Compile all recursions, of trees and of closed chains, for one configuration and for "
        "batches, by several processes, the whole-body law and certified bounds. It takes minutes once on "
        "a machine, and then no first call has to compile. Functions in the cache are not compiled again.",
    )
    warm_up.add_argument(
        "--processes", type=arguments.count, metavar="N", help="how many compile beside each other"
    )
    warm_up.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compile the missing functions, and print a line for each."""
    from connections.certified.compiled import compiled as bounds
    from connections.control.whole_body.compiled import compiled as law
    from connections.multibody.program import warm_up
    from connections.multibody.program.compiled_functions import compiled, description

    start, count = time.perf_counter(), warm_up.processes_given(options.processes)
    missing = warm_up.not_compiled()
    folder = warm_up.cache_folder(missing)
    if missing:
        minutes = max(1, round(warm_up.seconds_to_compile(missing, count) / 60.0))
        print(f"{len(missing)} of {len(compiled.names)} functions are to be compiled: about {minutes} min")
    for number, name in enumerate(warm_up.compile_together(missing, count), start=1):
        passed = time.perf_counter() - start
        print(f"  {number:2} of {len(missing)}  {passed:5.0f} s  {description(name)}", flush=True)
    for room in (law, bounds):  # 16 s and 13 s
        for name in room.names:
            room.require(name)
    count = sum(len(room.names) for room in (compiled, law, bounds))
    print(f"All {count} functions are compiled. They are kept in {folder}")
    return 0
