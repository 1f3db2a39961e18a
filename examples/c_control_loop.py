"""A controller at 1 kHz in C, linked against nothing: it tracks by C w, and feels a push by C^T v.

C functions of UR5 are generated, compiled together with `c_control_loop/control_loop.c` and run; what the
program logs is drawn. Needs a C compiler and the extra `robots`.
Run: python examples/c_control_loop.py [directory]
"""

import shutil
import subprocess
import sys
from importlib.metadata import files
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from connections import multibody as mb

FUNCTIONS = (
    "mass_matrix",
    "coriolis_product",
    "coriolis_transpose_product",
    "gravity",
    "forward_dynamics",
)
PROGRAM = Path(__file__).parent / "c_control_loop" / "control_loop.c"


def built(folder):
    """The compiled program."""
    (urdf,) = [f for f in files("example-robot-data") if str(f).endswith("/ur5_robot.urdf")]
    made = mb.codegen.generate_c(mb.from_urdf(urdf.locate()), FUNCTIONS, folder / "ur5", name="robot")
    print(made)
    sources = [PROGRAM, *sorted(made.folder.glob("robot_*.c"))]
    compiler = shutil.which("cc")
    if compiler is None:
        raise SystemExit("there is no C compiler `cc`")
    program = folder / "control_loop"
    options = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-I", made.folder]
    subprocess.run([compiler, *options, *sources, "-o", program, "-lm"], check=True)
    return program


def draw(log, path):
    """Tracking error, Lyapunov function, and the push beside what the observer says."""
    figure, axes = plt.subplots(1, 3, figsize=(11.0, 3.2), layout="constrained")
    axes[0].semilogy(log["t"], log["error"])
    axes[0].set_title("largest tracking error [rad]")
    axes[1].semilogy(log["t"], log["V"])
    axes[1].set_title("V = s$^T$ H s / 2 [J]")
    axes[2].plot(log["t"], log["push"], label="push")
    axes[2].plot(log["t"], log["observed"], label="observed")
    axes[2].set_title("torque on the second joint [N m]")
    axes[2].legend()
    for axis in axes:
        axis.set_xlabel("t [s]")
    figure.savefig(path, dpi=120)


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "c_control_loop_files")
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([built(folder)], check=True, capture_output=True, text=True)
    (folder / "log.csv").write_text(done.stdout)
    print(done.stderr.strip())
    log = np.genfromtxt(folder / "log.csv", delimiter=",", names=True)
    quiet, pushed, end = log["t"] < 1.99, (log["t"] > 2.3) & (log["t"] < 2.5), log["t"] > 3.9
    first, before = log["error"][0], log["error"][quiet][-1]
    print(f"tracking error: {first:.3f} rad at first, {before:.1e} before the push")
    push, seen = log["push"][pushed].mean(), log["observed"][pushed].mean()
    last = log["observed"][end].mean()
    print(f"push: {push:.3f} N m, the observer says {seen:.3f}, and {last:.3f} at the end")
    assert before < 1e-3 and log["error"][end].max() < 1e-3
    assert abs(np.log(log["V"][400] / log["V"][200]) / -4.0 - 1.0) < 0.02  # exp(-2 k t), k = 10 / s
    assert abs(seen - push) < 0.01 * push and np.abs(log["observed"][end]).max() < 0.05
    draw(log, folder / "log.png")


if __name__ == "__main__":
    main()
