"""How long each compiled function takes to compile, each in a process of its own with an empty cache.

    python tests/benchmarks/compilation.py [--only WORDS ...] [--processes N]

Seconds of processor time, without the imports, beside the estimates that a first call gives
(`connections.multibody.program.compiled_functions`).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import numba

from connections.multibody.program.compiled_functions import compiled, seconds


def measured(name: str) -> float:
    """Processor time of compiling the function `name`, in a fork of this process, which has compiled none."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        start = time.process_time()
        compiled.require(name)
        os.write(writer, str(time.process_time() - start).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as answer:
        found = answer.read()
    os.waitpid(child, 0)
    return float(found)


def main() -> None:
    """Measure, print, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[""], help="words of which a name has one")
    parser.add_argument("--processes", type=int, default=1, help="how many are measured at a time")
    options = parser.parse_args()
    names = [name for name in sorted(compiled.names) if any(word in name for word in options.only)]
    with tempfile.TemporaryDirectory() as cache, ThreadPoolExecutor(options.processes) as threads:
        numba.config.CACHE_DIR = cache
        for name, taken in zip(names, threads.map(measured, names), strict=True):
            print(f"{name:42} {taken:6.1f} s, said: {seconds(name):2} s", flush=True)


if __name__ == "__main__":
    main()
