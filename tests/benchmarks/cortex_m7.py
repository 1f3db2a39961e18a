"""Generated C on a Cortex-M7: `python tests/benchmarks/cortex_m7.py`.

It prints code and stack sizes of `float` functions of UR5 and ANYmal, compiled by `arm-none-eabi-gcc`, and
runs the generated test on QEMU's board mps2-an500. Debian has gcc-arm-none-eabi, libnewlib-arm-none-eabi and
qemu-system-arm. `generated.py` writes the rows to its page.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

from connections import multibody as mb

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from robots import robot_path  # noqa: E402

BOARD = Path(__file__).with_name("cortex_m7")
COMPILER = ["arm-none-eabi-gcc", "-mcpu=cortex-m7", "-mthumb", "-mfpu=fpv5-sp-d16", "-mfloat-abi=hard"]
OPTIONS = [*COMPILER, "-std=c99", "-O2", "-ffp-contract=fast", "-fno-tree-slp-vectorize"]
STRICT = ["-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wdouble-promotion"]
FUNCTIONS = (
    "mass_matrix",
    "coriolis_matrix",
    "christoffel_symbols",
    "coriolis_product",
    "coriolis_transpose_product",
    "gravity",
    "forward_dynamics",
)
HEAD = "| robot | function | code, bytes | stack, bytes |\n|---|---|---|---|\n"


def rows() -> Iterator[str]:
    """Rows of the table; stops unless the tests pass on the board."""
    for robot in ("ur5", "anymal"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mb.InertiaWarning)
            model = mb.from_urdf(robot_path(robot), floating_base=robot == "anymal")
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            mb.codegen.generate_c(model, FUNCTIONS, folder, name="robot", dtype="float")
            for function in FUNCTIONS:
                file = f"robot_{function}.c"
                run(folder, *OPTIONS, *STRICT, "-fstack-usage", "-c", file, "-o", "robot.o")
                code = run(folder, "arm-none-eabi-size", "robot.o").splitlines()[1].split()[0]
                used = [line.split("\t")[1] for line in (folder / "robot.su").read_text().splitlines()]
                yield f"| {robot} | {function} | {code} | {max(map(int, used))} |"
            sources = [str(BOARD / "start.c"), "test_robot.c", *(f"robot_{x}.c" for x in FUNCTIONS)]
            linked = ["--specs=rdimon.specs", "-T", str(BOARD / "memory.ld"), "-lm", "-o", "test.elf"]
            run(folder, *OPTIONS, *sources, *linked)
            board = ["qemu-system-arm", "-M", "mps2-an500", "-nographic", "-semihosting"]
            board += ["-kernel", "test.elf"]
            said = run(folder, *board)
            if not said.endswith("all good\n"):
                raise SystemExit(f"{robot}: {said}")


def run(folder: Path, *command: str) -> str:
    """What a command in a folder prints."""
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=120)
    return done.stdout


if __name__ == "__main__":
    print(HEAD, end="")
    for row in rows():
        print(row, flush=True)
