"""The benchmark runs and compares the values it times; no time is judged here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parent / "benchmarks" / "core.py"

PROGRAM = """
import runpy
core = runpy.run_path({path!r})
results = core["christoffel"](3) + core["curvature"](3) + core["transport"](3)
assert len(results) == 6 and all(result.value > 0.0 for result in results)
assert "MISSED" in str(core["Result"]("time", 2.0, 1.0, "us"))
assert "met" in str(core["Result"]("ratio", 2.0, 1.0, "x"))
try:
    core["require_equal"]([1.0], [1.0 + 1e-5])
except SystemExit as error:
    assert "nothing is timed" in str(error)
else:
    raise AssertionError("a wrong value was timed")
print(*results, sep="\\n")
"""


@pytest.mark.further
def test_benchmark_runs() -> None:
    # Another process: the benchmark chooses geomstats' backend and one thread before anything is imported.
    words = [sys.executable, "-c", PROGRAM.format(path=str(BENCHMARK))]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    done = subprocess.run(
        words, capture_output=True, text=True, env=environment, cwd=BENCHMARK.parents[2], check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Riemann tensor" in done.stdout
