"""The CUDA header of `generate_c`: compiled to PTX, and its arithmetic on the processor. No GPU is used."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases import always
from closed_chains import PLANS
from cuda_on_processor import COMPILER, NAMES, Cupy
from mechanisms import MOVING, random_mechanism
from nvrtc import compiled

from connections import multibody as mb
from connections.checks import ClosureError, NonFiniteError, PointError, ShapeError
from connections.multibody.generation import cuda_loading, cuda_text, function_text

COLUMNS = 300  # of arrays: more than two blocks, and no multiple of a block's threads


@pytest.fixture
def on_processor(monkeypatch):
    """`mb.codegen.load_cuda` with the processor in the place of a GPU; a grid has two blocks at most."""
    monkeypatch.setitem(sys.modules, "cupy", Cupy)
    monkeypatch.setattr(cuda_loading, "MOST_BLOCKS", 2)
    return mb.codegen.load_cuda


def states_of(model: mb.Model, rng, count: int = COLUMNS) -> list[np.ndarray]:
    return [
        np.stack([model.random(rng) for _ in range(count)]),
        *rng.standard_normal((2, count, model.nv)),
    ]


def one_by_one(function, model: mb.Model, *given: np.ndarray) -> np.ndarray:
    """What the library computes, by calls for single states, which other tests compile, too."""
    return np.stack([function(model, *row) for row in zip(*given, strict=True)])


def error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


# --- arithmetic ---------------------------------------------------------------------------------------------


@pytest.mark.further
def test_all_joint_types(rng, tmp_path, on_processor) -> None:
    model = random_mechanism(rng, len(MOVING), MOVING, trees=2, gravity=(1.0, 2.0, -9.0))
    mb.codegen.generate_c(model, ["forward_dynamics"], tmp_path, name="robot", cuda=True)
    q, v, tau = states_of(model, rng)
    found = on_processor(tmp_path).forward_dynamics(q, v, tau)
    assert error(found, one_by_one(mb.forward_dynamics, model, q, v, tau)) < 1e-13


def test_the_bodies_are_those_of_c(tmp_path) -> None:
    """Those of all functions, and of their pieces. Behind the first brace CUDA declares more."""
    names = ["forward_dynamics", "gravity"]
    mb.codegen.generate_c(mb.example("quadruped"), names, tmp_path, name="robot", cuda=True)
    text = (tmp_path / "robot.cuh").read_text()
    for name, count in zip(names, (3, 1), strict=True):
        bodies = re.findall(r"\n\{\n.*?\n\}\n", (tmp_path / f"robot_{name}.c").read_text(), re.DOTALL)
        assert len(bodies) >= count and all(body[2:] in text for body in bodies), name


def test_arrays_have_a_column_for_each_configuration(rng, tmp_path, on_processor) -> None:
    """Broadcast batches; results are in the order of the kernel, and given to another one without a copy."""
    model = mb.example("arm")
    mb.codegen.generate_c(
        model, ["coriolis_matrix", "inverse_dynamics_derivatives"], tmp_path, name="robot", cuda=True
    )
    loaded = on_processor(tmp_path)
    q, v = rng.standard_normal((3, 1, 6)), rng.standard_normal((2, 6))
    C = loaded.coriolis_matrix(q, v)
    expected = np.stack([one_by_one(mb.coriolis_matrix, model, row.repeat(2, axis=0), v) for row in q])
    assert C.shape == (3, 2, 6, 6) and error(C, expected) < 1e-13
    assert error(C, expected[::-1]) > 1e-2
    assert np.moveaxis(C, (0, 1), (2, 3)).flags.c_contiguous
    found = loaded.inverse_dynamics_derivatives(q, v, v)
    for one, other in zip(found, mb.inverse_dynamics_derivatives(model, q[1, 0], v[0], v[0]), strict=True):
        assert one.shape == (3, 2, 6, 6) and error(one[1, 0], other) < 1e-13
    assert loaded.coriolis_matrix(q[0, 0], v[0]).shape == (6, 6)
    assert loaded.coriolis_matrix(q[:0], v).shape == (0, 2, 6, 6)


def test_pieces_of_long_functions(rng, tmp_path, on_processor, monkeypatch) -> None:
    monkeypatch.setattr(function_text, "WHOLE", 1_000)
    monkeypatch.setattr(function_text, "PIECE", 3_000)
    monkeypatch.setattr(cuda_text, "WHOLE", 20_000)
    model = mb.example("arm")
    made = mb.codegen.generate_c(model, ["forward_dynamics"], tmp_path, name="robot", cuda=True)
    assert made.functions["forward_dynamics"]["pieces"] > 3
    states = states_of(model, rng, 5)
    found = on_processor(tmp_path).forward_dynamics(*states)
    assert error(found, one_by_one(mb.forward_dynamics, model, *states)) < 1e-13
    ptx, log = to_ptx(tmp_path, (tmp_path / "robot.cuh").read_text())
    assert "robot_forward_dynamics_piece_2" in ptx and "warning" not in log


@pytest.mark.further
def test_float(rng, tmp_path, on_processor) -> None:
    model = mb.example("quadruped")
    mb.codegen.generate_c(model, ["coriolis_matrix"], tmp_path, name="robot", dtype="float", cuda=True)
    q, v, _ = states_of(model, rng, 20)
    C = on_processor(tmp_path).coriolis_matrix(q, v)
    assert C.dtype == np.float32 and 1e-9 < error(C, one_by_one(mb.coriolis_matrix, model, q, v)) < 1e-5


def test_zeros_are_set_where_nothing_else_is_written(tmp_path, on_processor) -> None:
    """Arrays are NaN before; the mass matrix of a quadruped has zeros between legs."""
    model = mb.example("quadruped")
    mb.codegen.generate_c(model, ["mass_matrix"], tmp_path, name="robot", cuda=True)
    q = model.random(0)
    H = mb.mass_matrix(model, q)
    assert error(on_processor(tmp_path).mass_matrix(q), H) < 1e-13
    text = (tmp_path / "robot.cuh").read_text()
    runs = re.search(r"robot_mass_matrix_zeros\[[^/]*/.*?/\n(.*?)\n\};", text, re.DOTALL)
    assert runs is not None
    zeros = np.zeros(H.size, dtype=bool)
    for first, end in re.findall(r"(\d+),\s+(\d+)\}", runs[1]):
        zeros[int(first) : int(end)] = True
    assert np.array_equal(zeros, np.abs(H.ravel()) < 1e-14)


@pytest.mark.parametrize("name", always(["four-bar", "legged robot", "spatial loop"], "four-bar"))
def test_loops(rng, tmp_path, on_processor, name) -> None:
    """The C that closes loops runs inside a thread, from the reference."""
    model = PLANS[name]().build()
    mb.codegen.generate_c(model, ["coriolis_matrix"], tmp_path, name="robot", cuda=True)
    q, v, _ = states_of(model, rng, 10)
    loaded = on_processor(tmp_path)
    assert error(loaded.coriolis_matrix(q, v), one_by_one(mb.coriolis_matrix, model, q, v)) < 1e-11
    q[3] = np.nan
    with pytest.raises(NonFiniteError):
        loaded.coriolis_matrix(q, v)


def test_statuses(tmp_path, on_processor) -> None:
    """One configuration of many is bad: the others are computed, and the error says what is bad."""
    model = mb.example("quadruped")
    mb.codegen.generate_c(model, ["gravity"], tmp_path / "quadruped", name="robot", cuda=True)
    loaded, q = on_processor(tmp_path / "quadruped"), np.tile(model.neutral(), (5, 1))
    assert loaded.gravity(q).shape == (5, 18)
    bad = q.copy()
    bad[3, 6] = 1.001
    with pytest.raises(PointError):
        loaded.gravity(bad)
    module = Cupy.RawModule(
        code=(tmp_path / "quadruped/robot.cuh").read_text(), options=(f"-I{tmp_path}/quadruped",)
    )
    out, status = np.empty((18, 5)), np.empty(5, dtype=np.int32)
    module.get_function("robot_gravity_kernel")(
        (1,), (128,), (np.uint64(5), np.ascontiguousarray(bad.T), out, status)
    )
    assert status.tolist() == [0, 0, 0, 2, 0] and error(out.T[4], mb.gravity(model, q[4])) < 1e-13
    with pytest.raises(ShapeError, match="q"):
        loaded.gravity(q[:, 1:])
    with pytest.raises(TypeError, match="expected q"):
        loaded.gravity(q, q)
    with pytest.raises(TypeError, match="q: expected an array of real numbers"):
        loaded.gravity(q + 1j)
    open_loop = PLANS["closed by: distance"]().build()
    mb.codegen.generate_c(open_loop, ["gravity"], tmp_path / "open", name="robot", cuda=True)
    with pytest.raises(ClosureError):
        on_processor(tmp_path / "open").gravity([3.0, 3.0])


LEVELS = """
extern "C" int launched(size_t count, const double *q, const double *v, double *C, int *status)
{
    return robot_coriolis_matrix_launch(count, q, v, C, status, 0);
}
extern "C" int in_a_thread(const double *q, const double *v, double *C)
{
    const robot_given own_q = {q, 1}, own_v = {v, 1};
    const robot_written own_C = {C, 1};
    return robot_coriolis_matrix_thread(own_q, own_v, own_C);
}
"""


def test_levels(rng, tmp_path) -> None:
    """From the host, and inside a thread with arrays of its own."""
    model = mb.example("arm")
    mb.codegen.generate_c(model, ["coriolis_matrix"], tmp_path, name="robot", cuda=True)
    (tmp_path / "levels.cpp").write_text(NAMES + '#include "robot.cuh"\n' + LEVELS)
    command = [*COMPILER, "-fPIC", "-shared", "levels.cpp", "-o", "levels.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    levels = ctypes.CDLL(str(tmp_path / "levels.so"))
    q, v = rng.standard_normal((2, 6, COLUMNS))
    C, status = np.empty((36, COLUMNS)), np.full(COLUMNS, -1, dtype=np.int32)
    expected = one_by_one(mb.coriolis_matrix, model, q.T, v.T)
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (q, v, C, status)]
    assert levels.launched(ctypes.c_size_t(COLUMNS), *pointers) == 0 and not status.any()
    assert error(C.T.reshape(COLUMNS, 6, 6), expected) < 1e-13
    C[...] = 0.0
    assert levels.launched(ctypes.c_size_t(0), *pointers) == 0 and not C.any()
    one = [np.ascontiguousarray(q[:, 7]), np.ascontiguousarray(v[:, 7]), np.empty(36)]
    assert levels.in_a_thread(*(ctypes.c_void_p(x.ctypes.data) for x in one)) == 0
    assert error(one[2].reshape(6, 6), expected[7]) < 1e-13


# --- NVRTC --------------------------------------------------------------------------------------------------


def to_ptx(folder: Path, text: str) -> tuple[str, str]:
    """PTX for a GPU of compute capability 8.0, and what the compiler says."""
    try:
        return compiled(text, folder, "-arch=compute_80")
    except FileNotFoundError as error:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(str(error))


@pytest.mark.parametrize("robot", always(["arm", "quadruped", "four_bar"], "arm"))
def test_nvrtc_compiles_it_to_ptx(tmp_path, robot) -> None:
    dtype = "float" if robot == "quadruped" else "double"
    mb.codegen.generate_c(
        mb.example(robot), ["coriolis_matrix", "gravity"], tmp_path, name="robot", dtype=dtype, cuda=True
    )
    text = (tmp_path / "robot.cuh").read_text()
    ptx, log = to_ptx(tmp_path, text)
    assert "warning" not in log and "error" not in log, log
    names = ["coriolis_matrix", "gravity", *(["start", "close"] if robot == "four_bar" else [])]
    assert [f".entry robot_{name}_kernel(" in ptx for name in names] == [True] * len(names)
    assert "ld.global.nc.f32" in ptx if robot == "quadruped" else "ld.global.nc.f64" in ptx
    ptx, log = to_ptx(tmp_path, text.replace(" x0 =", " x0 = unknown +", 1))
    assert not ptx and "unknown" in log


# --- bad input ----------------------------------------------------------------------------------------------


def test_bad_folders_and_no_cupy(tmp_path, monkeypatch) -> None:
    model = mb.example("arm")
    with pytest.raises(FileNotFoundError, match="generate_c"):
        mb.codegen.load_cuda(tmp_path)
    mb.codegen.generate_c(model, ["gravity"], tmp_path, name="robot", cuda=True)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match="pip install cupy"):
        mb.codegen.load_cuda(tmp_path)
    mb.codegen.generate_c(
        model, ["gravity"], tmp_path, name="robot"
    )  # the header of the earlier call is gone
    with pytest.raises(FileNotFoundError, match="robot.cuh"):
        mb.codegen.load_cuda(tmp_path)
    with pytest.raises(TypeError, match="cuda"):
        mb.codegen.generate_c(model, ["gravity"], tmp_path, name="robot", cuda="yes")
