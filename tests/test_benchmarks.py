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


ROBOT = """
import sys
sys.path.insert(0, {folder!r})
import certified_robots as robots
model = robots.ROBOTS["Hector"].model()
below, textbook = robots.samples(model, 50)
for name in robots.names_of(model):
    found = robots.certify(model, name, 1.0)
    assert found["lower"] <= found["upper"] and found["seconds"] >= 0.0
    if name == "k_C:christoffel":
        assert below[name] <= found["upper"] <= textbook[name]
    print(name)
legs = robots.ROBOTS["Alexander's legs"].model()
assert "too many" in robots.certify(legs, "k_C:smallest", 1.0)["reason"]
"""


def run(program: str) -> str:
    """The output of a program in another process: a benchmark asks for one thread before NumPy is there."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    words = [sys.executable, "-c", program]
    done = subprocess.run(
        words, capture_output=True, text=True, env=environment, cwd=BENCHMARK.parents[2], check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.further
def test_benchmark_runs() -> None:
    assert "Riemann tensor" in run(PROGRAM.format(path=str(BENCHMARK)))


@pytest.mark.further
def test_a_robot_is_certified() -> None:
    assert "k_C:smallest" in run(ROBOT.format(folder=str(BENCHMARK.parent)))
