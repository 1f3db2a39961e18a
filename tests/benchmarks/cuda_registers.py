"""What a GPU's thread needs for generated CUDA: `python tests/benchmarks/cuda_registers.py`.

Kernels are compiled by NVRTC for compute capability 9.0 (H100), whose assembler says how many registers a
thread has, and how many bytes of its memory are written and read because they do not suffice. No GPU is
needed, and nothing is timed on one. `generated.py` writes the rows to its page.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from nvrtc import compiled  # noqa: E402
from recursions import robots  # noqa: E402

from connections import multibody as mb  # noqa: E402

ROBOTS = ("UR5", "ANYmal")
FUNCTIONS = {"C": "coriolis_matrix", "Gamma": "christoffel_symbols", "forward dynamics": "forward_dynamics"}
HEAD = (
    "| robot | function | numbers | registers | stack, bytes | spilled: written | read | compiled, s |\n"
    "|---|---|---|---|---|---|---|---|\n"
)


def rows() -> Iterator[str]:
    """Rows of the table."""
    for robot in ROBOTS:
        model = robots()[robot]().model
        for what, function in FUNCTIONS.items():
            for dtype in ("double", "float"):
                yield f"| {robot} | {what} | {dtype} | {measured(model, function, dtype)} |"


def measured(model: mb.Model, function: str, dtype: str) -> str:
    """Registers, spilled bytes, and the time of the compiler."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        mb.codegen.generate_c(model, [function], folder, name="robot", dtype=dtype, cuda=True)
        start = time.process_time()
        text = (folder / "robot.cuh").read_text()
        ptx, log = compiled(text, folder, "-arch=sm_90", "--ptxas-options=-v")
        used = time.process_time() - start
    assert ptx, log
    registers = max(map(int, re.findall(r"Used (\d+) registers", log)))
    stores = max(map(int, re.findall(r"(\d+) bytes spill stores", log)))
    loads = max(map(int, re.findall(r"(\d+) bytes spill loads", log)))
    stack = max(map(int, re.findall(r"(\d+) bytes cumulative stack", log)), default=0)
    return f"{registers} | {stack} | {stores} | {loads} | {used:.1f}"


if __name__ == "__main__":
    print(HEAD, end="")
    for row in rows():
        print(row, flush=True)
