"""Somebody's program: a script, a cell of a notebook, a zip archive, with any options of Python."""

import multiprocessing
import sys
import tempfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import connections as cn
from connections import multibody as mb


def bias(seed):
    """C v at a random configuration, in a process of its own."""
    robot = mb.example("arm")
    v = np.ones(robot.nv)
    return (mb.coriolis_matrix(robot, robot.random(seed), v) @ v).tolist()


def main():
    robot = mb.example("four_bar")
    print("four-bar", mb.mass_matrix(robot, robot.neutral()).round(6).tolist())
    metric = cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.eye(2) / q[1] ** 2)
    print("curvature", round(float(cn.LeviCivita(metric).sectional([0.3, 1.2], [1.0, 0.0], [0.0, 1.0])), 6))
    with tempfile.TemporaryDirectory() as folder:
        mb.codegen.generate_c(mb.example("arm"), ["coriolis_matrix"], Path(folder) / "arm")
        texts = sorted(path.read_text() for path in Path(folder).rglob("*.[ch]"))
        print("C", len(texts), sum(map(len, texts)))
    cn.citation(cn.LeviCivita)
    if "processes" in sys.argv:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            (there,) = pool.map(bias, [0])
        assert np.allclose(there, bias(0)), there
    print("bias", np.round(bias(0), 6).tolist())


if __name__ == "__main__":
    main()
