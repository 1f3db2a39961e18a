"""`generate_c` and `load_c`: C for one robot against the library, by compilers, and for bad input."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cases import always
from clang import CORTEX_M7, STRICTEST, any_clang, machine_code, zig_clang
from closed_chains import PLANS, parallelogram
from mechanisms import MOVING, armed, assemble, random_mechanism
from pages import run_page
from robots import robot_path

from connections import multibody as mb
from connections.checks import (
    ClosureError,
    IntegrationError,
    MetricError,
    ModelError,
    NonFiniteError,
    PointError,
    ShapeError,
)
from connections.multibody.generation import folder as generation_folder
from connections.multibody.generation import function_text, loading
from connections.multibody.generation.c_test import computed, states
from connections.multibody.generation.recording import exported, exported_function
from connections.multibody.program.table import RECURSIONS

STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wconversion"]
SANITIZED = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
QUICK = ("-O0",)  # how tests compile
FEW = ("christoffel_symbols_force_cross", "coriolis_matrix_least", "forward_dynamics")
#: Second derivatives are long; a small mechanism has them all.
SECOND = tuple(name for name, function in exported().items() if RECURSIONS[function.recursion].one_origin)
FIRST = tuple(name for name in exported() if name not in SECOND)
#: What cancels in a result is compared to the size of this.
SCALES = {"mass_matrix_rate": "coriolis_matrix"}


def generated(model: mb.Model, functions, folder: Path, **options):
    mb.codegen.generate_c(model, functions, folder, name="robot", **options)
    return mb.codegen.load_c(folder, flags=QUICK)


def largest_error(model: mb.Model, loaded, name: str, count: int = 10) -> float:
    """The largest error of a C function, relative to the largest entry of the result at the same state."""
    function, scale = exported_function(name), exported_function(SCALES.get(name, name))
    given = states(model, function, count, 1)
    got = getattr(loaded, name)(*(np.stack(x) for x in zip(*given, strict=True)))
    got = np.stack(got, axis=1) if isinstance(got, tuple) else got
    errors = []
    for state, found in zip(given, got, strict=True):
        expected, size = computed(model, function, state), np.abs(computed(model, scale, state)).max()
        errors.append(np.abs(found - expected).max() / size if size > 0.0 else np.abs(found).max())
    return max(errors)


def everything(folder: Path, rng) -> mb.Model:
    """A mechanism of all joint types in two trees, turned and shifted; nothing is aligned."""
    return random_mechanism(rng, len(MOVING), MOVING, trees=2, gravity=(1.0, 2.0, -9.0))


# --- agreement ----------------------------------------------------------------------------------------------


def test_all_joint_types(rng, tmp_path) -> None:
    model = everything(tmp_path, rng)
    loaded = generated(model, FEW, tmp_path)
    for name in FEW:
        assert largest_error(model, loaded, name) < 1e-13, name


@pytest.mark.further
def test_all_first_derivatives_of_all_joint_types(rng, tmp_path) -> None:
    model = everything(tmp_path, rng)
    loaded = generated(model, FIRST, tmp_path)
    assert set(loaded.functions) == set(FIRST)
    for name in FIRST:
        assert largest_error(model, loaded, name) < 1e-13, name


@pytest.mark.parametrize("root", always(MOVING, mb.Free, mb.Revolute, mb.Helical))
def test_the_first_joint_only_turns_gravity(rng, tmp_path, root) -> None:
    """A tree on one joint is recorded at that joint's neutral configuration, with free fall turned."""
    model = assemble(rng, [root, mb.Universal], [-1, 0], gravity=(1.0, 2.0, -9.0))
    names = ("coriolis_matrix", "gravity", "forward_dynamics", "body_jacobians")
    loaded = generated(model, names, tmp_path)
    for name in names:
        assert largest_error(model, loaded, name) < 1e-13, name


@pytest.mark.further
def test_second_derivatives(rng, tmp_path) -> None:
    model = random_mechanism(rng, 3, [mb.Revolute, mb.Spherical, mb.Prismatic])
    loaded = generated(model, SECOND, tmp_path)
    for name in SECOND:
        assert largest_error(model, loaded, name, 3) < 1e-13, name


@pytest.mark.parametrize("kinds", always([(mb.Free, mb.Helical), MOVING], (mb.Free, mb.Helical)), ids=len)
def test_variational_steps(tmp_path, kinds) -> None:
    """Newton's method in C, with armature; a step that is too long has a status of its own."""
    rng = np.random.default_rng(7)
    parents = [-1, 0, 1, 1, 3, 0, 5, 6][: len(kinds)]
    model = armed(assemble(rng, kinds, parents, gravity=(1.0, 2.0, -9.0)), rng)
    names = ("variational_step", "discrete_momentum")
    loaded = generated(model, names, tmp_path)
    for name in names:
        assert largest_error(model, loaded, name, 3) < 1e-13, name
    q, P, tau, h = states(model, exported_function("variational_step"), 1, 2)[0]
    end = loaded.variational_step(q, P, tau, 3.0 * h)  # another number of steps of Newton's method
    np.testing.assert_allclose(end, np.concatenate(mb.variational_step(model, q, P, 0.03, tau)), atol=1e-12)
    for impossible in ((P * 1e4, 10.0 * h), (P, 0.0 * h)):
        with pytest.raises(IntegrationError, match="variational_step: a variational step is not found"):
            loaded.variational_step(q, impossible[0], tau, impossible[1])
    with pytest.raises(PointError):
        loaded.discrete_momentum(q, 1.1 * q, h)


def test_variational_steps_without_a_form_in_c_are_refused(tmp_path) -> None:
    for model, options, words in (
        (mb.example("four_bar"), {}, "for robots without loops"),
        (mb.example("arm"), {"dtype": "float"}, "use double"),
        (mb.example("arm"), {"cuda": True}, "leave out cuda"),
    ):
        with pytest.raises(ModelError, match=f"variational_step: .*{words}"):
            mb.codegen.generate_c(model, ["variational_step"], tmp_path, **options)


@pytest.mark.further
@pytest.mark.parametrize("name", always(["gear train", "belt leg", "differential"], "belt leg"))
def test_linear_couplings(tmp_path, name) -> None:
    """Closed chains with a constant G; the belt leg has a floating base."""
    model, names = PLANS[name]().build(), ("coriolis_matrix", "inverse_dynamics_derivatives", "gravity")
    loaded = generated(model, names, tmp_path)
    for function in names:
        assert largest_error(model, loaded, function) < 1e-13, function


@pytest.mark.parametrize(
    "name",
    always(
        [
            "four-bar",
            "crank-slider",
            "slider in its guide",
            "six-bar",
            "planar robot",
            "spatial loop",
            "loop with balls",
            "Stewart platform by its legs",
            "legged robot",
            *(f"closed by: {by}" for by in ("coincident", "distance", "revolute", "cylindrical", "helical")),
            *(f"closed by: {by}" for by in ("spherical", "prismatic", "universal", "planar", "fixed")),
        ],
        "four-bar",
        "legged robot",
    ),
)
def test_loops(tmp_path, name) -> None:
    """Loops that C solves by Newton's method, from the reference; the legged robot has a floating base."""
    model, names = PLANS[name]().build(), ("coriolis_matrix", "inverse_dynamics_derivatives")
    loaded = generated(model, names, tmp_path)
    for function in names:
        assert largest_error(model, loaded, function, 5) < 1e-11, function


LOOPS_IN_C = """
#include <stdio.h>
#include <string.h>
#include "robot.h"

int main(void)
{
    double loops[ROBOT_LOOPS], kept[ROBOT_LOOPS], q[1] = {0.0}, once[ROBOT_LOOPS];
    robot_start(loops);
    for (int k = 1; k <= 700; ++k) { /* a turn and more, as a controller does */
        q[0] = 0.01 * k;
        if (robot_close(q, loops) != ROBOT_OK) return 1;
    }
    robot_start(once); /* the same at once */
    if (robot_close(q, once) != ROBOT_OK) return 2;
    for (int k = 0; k < ROBOT_LOOPS; ++k) {
        const double apart = loops[k] - once[k];
        if (!(apart < 1e-12 && apart > -1e-12)) return 3;
    }
    memcpy(kept, loops, sizeof kept);
    loops[0] = 1e300 * 1e300;
    if (robot_close(q, loops) != ROBOT_NOT_FINITE) return 4;
    memcpy(loops, kept, sizeof kept);
    q[0] = 0.0 / q[0] / 0.0;
    if (robot_close(q, loops) != ROBOT_NOT_FINITE) return 5;
    if (memcmp(loops, kept, sizeof kept) != 0) return 6;
    printf("%.17g %.17g\\n", loops[1], loops[2]);
    return 0;
}
"""


def test_loops_are_followed_as_by_the_library(tmp_path) -> None:
    """Over more than a turn of the crank, in small steps and in one call."""
    model = PLANS["four-bar"]().build()
    mb.codegen.generate_c(model, ["gravity"], tmp_path, name="robot")
    (tmp_path / "follow.c").write_text(LOOPS_IN_C)
    done = compiled(tmp_path, ["-std=c99", *SANITIZED], "follow.c")
    assert done.returncode == 0, (done.returncode, done.stderr)
    expected = mb.close_loops(model, [7.0]).spanning
    assert np.allclose([float(x) for x in done.stdout.split()], expected[1:], rtol=0.0, atol=1e-12)


def test_loops_that_do_not_close(tmp_path) -> None:
    """Out of reach both refuse, C also behind singular points; elsewhere they agree."""
    model = PLANS["closed by: distance"]().build()
    loaded = generated(model, ["gravity"], tmp_path / "distance")
    far = np.linspace(0.0, 3.0, 31)[:, None] * np.ones(2)
    refused = 0
    for q in far:
        try:
            expected = mb.gravity(model, q)
        except ClosureError:
            refused += 1
            with pytest.raises(ClosureError):
                loaded.gravity(q)
        else:
            try:
                found = loaded.gravity(q)
            except ClosureError:  # the library goes across a singular point
                refused += 1
            else:
                assert np.allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert 0 < refused < 31


def test_where_float64_has_lost_digits(tmp_path) -> None:
    """C is refused within 6e-4 of a singular posture, H is not; what is not refused has six digits."""
    model = parallelogram().build()
    loaded = generated(model, ["coriolis_matrix", "mass_matrix"], tmp_path)
    H, v = mb.mass_matrix(model, [1.0]), np.ones(1)
    for d in (1e-2, 2e-3):
        assert np.abs(loaded.coriolis_matrix(np.array([d]), v)).max() < 1e-6 * H.max()
    for d in (3e-4, 1e-4):
        with pytest.raises(ClosureError, match="6 digits"):
            loaded.coriolis_matrix(np.array([d]), v)
        assert np.allclose(loaded.mass_matrix(np.array([d])), H, rtol=1e-6)
    with pytest.raises(ClosureError):
        loaded.mass_matrix(np.array([5e-6]))


@pytest.mark.parametrize("robot", always(["arm", "four_bar"], "arm"))
def test_frames(rng, tmp_path, robot) -> None:
    """A frame of one's own, in both axes; also where a loop closes."""
    place = np.eye(4)
    place[:3, :3], place[:3, 3] = [[0, -1, 0], [1, 0, 0], [0, 0, 1]], [0.1, 0.2, 0.3]
    model = mb.example(robot)
    model, frame = model.with_frames({"tool tip": (model.frame_names[-1], place)}), "tool tip"
    wanted = [f"{name}:{frame}" for name in ("frame_pose", "frame_jacobian", "frame_jacobian_rate")]
    loaded = generated(model, [*wanted, *(f"{name}:world" for name in wanted[1:])], tmp_path)
    q, v = 0.3 * rng.standard_normal(model.nq), rng.standard_normal(model.nv)
    assert np.allclose(loaded.frame_pose_tool_tip(q), mb.frame_pose(model, q, frame), atol=1e-13)
    for axes, last in (("body", ""), ("world", "_world")):
        J = getattr(loaded, f"frame_jacobian_tool_tip{last}")(q)
        assert np.allclose(J, mb.frame_jacobian(model, q, frame, axes=axes), atol=1e-13)
        rate = getattr(loaded, f"frame_jacobian_rate_tool_tip{last}")(q, v)
        assert np.allclose(rate, mb.frame_jacobian_rate(model, q, v, frame, axes=axes), atol=1e-12)


def test_frames_that_are_not_there(tmp_path) -> None:
    model = mb.example("arm")
    with pytest.raises(ModelError, match="nowhere"):
        mb.codegen.generate_c(model, ["frame_pose:nowhere"], tmp_path, name="robot")
    with pytest.raises(ValueError, match="frame_pose"):
        mb.codegen.generate_c(model, ["frame_pose"], tmp_path, name="robot")
    with pytest.raises(ModelError, match="same name in C"):
        both = model.with_frames({"a b": ("hand", np.eye(4)), "a-b": ("hand", np.eye(4))})
        mb.codegen.generate_c(both, ["frame_pose:a b", "frame_pose:a-b"], tmp_path, name="robot")
    assert not list(tmp_path.iterdir())


def test_armature_counts(rng, tmp_path) -> None:
    model = assemble(rng, [mb.Free, mb.Revolute], [-1, 0])
    joint = model.joint_names[0]
    armed = model.with_armature({joint: [0.3, 0.3, 0.3, 0.7, 0.7, 0.7]})
    loaded = generated(armed, ["coriolis_matrix"], tmp_path)
    assert largest_error(armed, loaded, "coriolis_matrix") < 1e-13
    assert largest_error(model, loaded, "coriolis_matrix") > 1e-3


DYNAMICS = ("inverse_dynamics", "forward_dynamics")
WITH_PASSIVE = (*DYNAMICS, *(f"{name}_derivatives" for name in DYNAMICS))


def sprung(model: mb.Model) -> mb.Model:
    """The robot with all passive forces; a spring on three joints is slack between two lengths."""
    tree = model.spanning_tree if model.closed else model
    one = [name for name in tree.joint_names if len(tree.neutral()[tree.configuration_slice(name)]) == 1]
    springs = (
        mb.joints.Spring("coil", {one[0]: 1.0}, 5.0, 0.2, 0.3),
        mb.joints.Spring("belt", {name: 0.7 - k for k, name in enumerate(one[:3])}, 7.0, (-0.2, 0.3)),
    )
    balls = [name for name in tree.joint_names if len(tree.neutral()[tree.configuration_slice(name)]) == 4]
    rest = (0.6, 0.0, 0.0, 0.8)
    springs += tuple(
        mb.joints.Spring(f"of {name}", {name: 1.0}, 4.0 + k, rest, 0.1) for k, name in enumerate(balls)
    )
    damping = {name: 0.2 + 0.1 * k for k, name in enumerate(tree.joint_names)}
    lift = {model.body_names[-1]: [0.7, 0.1, 0.2, -0.05]}
    return model.with_passive(
        mb.joints.Passive(springs, damping, dict.fromkeys(one, 0.5), friction_speed=0.3, lift=lift)
    )


@pytest.mark.parametrize(
    "name",
    always(
        ["arm", "quadruped", "four-bar", "belt leg", "legged robot", "loop with balls", "balls"],
        "arm",
        "four-bar",
        "balls",
    ),
)
def test_passive_forces(tmp_path, name) -> None:
    """Springs, dampers, friction and lift, of trees and of closed chains, and their slopes."""
    if name == "balls":
        kinds = [mb.Spherical, mb.Revolute, mb.Spherical, mb.Prismatic]
        plain = assemble(np.random.default_rng(3), kinds, [-1, 0, 1, 2])
    else:
        plain = mb.example(name) if name in ("arm", "quadruped") else PLANS[name]().build()
    model = sprung(plain)
    if name == "balls":
        model = model.with_locked({model.joint_names[3]: 0.1})
    mb.codegen.generate_c(model, [*WITH_PASSIVE, "gravity"], tmp_path, name="robot", passive=True)
    loaded, rng = mb.codegen.load_c(tmp_path, flags=QUICK), np.random.default_rng(5)
    for function in WITH_PASSIVE:
        q, (v, x) = model.random(rng), rng.standard_normal((2, model.nv))
        expected = np.stack(getattr(mb, function)(model, q, v, x, passive=True))
        found, size = np.stack(getattr(loaded, function)(q, v, x)), np.abs(expected).max()
        assert np.abs(found - expected).max() < 1e-12 * size, function
        without = np.stack(getattr(mb, function)(model, q, v, x))  # negative control
        assert np.abs(without - expected).max() > 1e-2 * size, function
    np.testing.assert_allclose(loaded.gravity(q), mb.gravity(model, q), atol=1e-12)  # does not contain them
    if name == "balls":  # where their springs are at rest, nothing is divided by zero
        q[:4] = q[5:] = (0.6, 0.0, 0.0, 0.8)
        expected = np.stack(mb.inverse_dynamics_derivatives(model, q, v, x, passive=True))
        np.testing.assert_allclose(loaded.inverse_dynamics_derivatives(q, v, x), expected, atol=1e-12)
    if name == "arm":  # where a spring becomes slack, it has half of its slope; and far away it overflows
        q = np.array([0.3 / 0.7, 0.0, 0.0, 0.4, 0.5, 0.6])
        expected = np.stack(mb.inverse_dynamics_derivatives(model, q, v, x, passive=True))
        np.testing.assert_allclose(loaded.inverse_dynamics_derivatives(q, v, x), expected, atol=1e-12)
        with pytest.raises(NonFiniteError):
            loaded.inverse_dynamics(np.array([0.0, 1.7e308, -1.7e308, 0.0, 0.0, 0.0]), v, x)
    if name == "four-bar":
        test = compiled(tmp_path, [*STRICT, "-O0"], "test_robot.c")
        assert test.returncode == 0, test.stdout


def test_passive_forces_without_a_form_in_c_are_refused(tmp_path) -> None:
    arm = sprung(mb.example("arm"))
    for function in ("variational_step", "forward_dynamics_hessian_product"):
        with pytest.raises(ModelError, match=f"{function}: passive forces have no form in C"):
            mb.codegen.generate_c(arm, [function], tmp_path, name="robot", passive=True)
    partly = arm.with_passive(mb.joints.Passive(left_out=("the bushing 'b'",)))
    with pytest.raises(ModelError, match="the bushing 'b'"):
        mb.codegen.generate_c(partly, ["forward_dynamics"], tmp_path, name="robot", passive=True)
    with pytest.raises(TypeError, match="passive"):
        mb.codegen.generate_c(arm, ["forward_dynamics"], tmp_path, name="robot", passive=1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("robot", always(["ur5", "panda", "anymal", "solo12", "a1"], "solo12"))
@pytest.mark.filterwarnings("ignore::connections.multibody.InertiaWarning")
def test_robots(tmp_path, robot) -> None:
    floating = robot not in ("ur5", "panda")
    model = mb.from_urdf(robot_path(robot), floating_base=floating)
    names = ("coriolis_matrix", "coriolis_transpose_product")
    loaded = generated(model, names, tmp_path)
    for name in names:
        assert largest_error(model, loaded, name) < 1e-13, name


def test_large_angles(tmp_path) -> None:
    """Beyond 1e5 rad, angles are reduced before their sines are taken."""
    model = mb.example("arm")
    loaded = generated(model, ["mass_matrix"], tmp_path)
    q = np.random.default_rng(3).uniform(-1.0, 1.0, (20, 6)) * 10.0 ** np.arange(20)[:, None]
    H = loaded.mass_matrix(q)
    expected = np.stack([mb.mass_matrix(model, row) for row in q])
    near, far = np.abs(q).max(axis=1) < 1e5, np.abs(q).max(axis=1) > 1e6
    assert np.abs(H - expected)[near].max() < 1e-11 and near.any() and far.any()
    assert np.abs(H - expected).max() < 1e-13 * np.abs(expected).max()


def test_float(tmp_path) -> None:
    model = mb.example("quadruped")
    loaded = generated(model, ["coriolis_matrix", "forward_dynamics"], tmp_path, dtype="float")
    assert 1e-9 < largest_error(model, loaded, "coriolis_matrix") < 1e-5
    assert largest_error(model, loaded, "forward_dynamics") < 1e-3
    assert loaded.dtype == "float"


# --- compilers ----------------------------------------------------------------------------------------------


def compiled(folder: Path, flags: list[str], program: str) -> subprocess.CompletedProcess[str]:
    """Compile all C files of the folder with one of its programs, and run it."""
    sources = [str(path) for path in folder.glob("robot_*.c")]
    built = folder / "program"
    command = ["cc", *flags, str(folder / program), *sources, "-o", str(built), "-lm"]
    subprocess.run(command, check=True, capture_output=True)
    return subprocess.run([str(built)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("robot", always(["quadruped", "quadruped in float", "four_bar"], "four_bar"))
def test_clang_takes_it_without_a_warning(tmp_path, robot) -> None:
    """The linker is that of cc, because ziglang would build a C library first, for two minutes."""
    model, dtype = mb.example(robot.split()[0]), "float" if "float" in robot else "double"
    mb.codegen.generate_c(model, ["gravity"], tmp_path, name="robot", dtype=dtype)
    sources = [path.name for path in tmp_path.glob("*.c")]
    for source in sources:
        command = [*any_clang(), "-std=c99", *STRICTEST, "-c", source, "-o", f"{source}.o"]
        subprocess.run(command, cwd=tmp_path, check=True)
    objects = [f"{source}.o" for source in sources if source != "example.c"]
    subprocess.run(["cc", *objects, "-o", "program", "-lm"], cwd=tmp_path, check=True)
    done = subprocess.run([str(tmp_path / "program")], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.endswith("all good\n"), done.stdout


def test_a_microcontroller(tmp_path) -> None:
    """A Cortex-M7 without double precision: none of its functions is called, and the code is short."""
    mb.codegen.generate_c(mb.example("quadruped"), ["coriolis_matrix"], tmp_path, name="robot", dtype="float")
    command = [*zig_clang(), *CORTEX_M7, "-std=c99", "-O2", *STRICTEST, "-c", "robot_coriolis_matrix.c"]
    subprocess.run([*command, "-o", "robot.o"], cwd=tmp_path, check=True)
    elf = (tmp_path / "robot.o").read_bytes()
    assert elf[18] == 40 and 10_000 < machine_code(elf) < 40_000  # 40 is ARM; gcc needs 26,568 bytes
    assert b"\0sinf\0" in elf and b"__aeabi_d" not in elf


@pytest.mark.parametrize("dtype", ["double", "float"])
def test_its_own_test_passes_without_a_warning(tmp_path, dtype) -> None:
    names = ["mass_matrix", "gravity"]
    mb.codegen.generate_c(mb.example("quadruped"), names, tmp_path, name="robot", dtype=dtype)
    done = compiled(tmp_path, [*STRICT, *SANITIZED], "test_robot.c")
    assert done.returncode == 0 and done.stdout.endswith("all good\n"), done.stdout + done.stderr
    done = compiled(tmp_path, STRICT, "example.c")
    assert done.returncode == 0 and done.stdout.count("...") == len(names), done.stdout


def test_its_own_test_notices_a_wrong_number(tmp_path) -> None:
    """One constant is changed in its eleventh digit."""
    mb.codegen.generate_c(mb.example("arm"), ["mass_matrix"], tmp_path, name="robot")
    file = tmp_path / "robot_mass_matrix.c"
    text = file.read_text()
    assert "0.42 * cosines" in text
    file.write_text(text.replace("0.42 * cosines", "0.4200000001 * cosines", 1))
    done = compiled(tmp_path, STRICT, "test_robot.c")
    assert done.returncode == 1 and "BAD" in done.stdout


def test_cmake_builds_it(tmp_path) -> None:
    mb.codegen.generate_c(mb.example("arm"), ["coriolis_matrix"], tmp_path, name="robot")
    build = str(tmp_path / "build")
    subprocess.run(["cmake", "-S", str(tmp_path), "-B", build], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", build], check=True, capture_output=True)
    done = subprocess.run(["ctest", "--test-dir", build], check=True, capture_output=True, text=True)
    assert "100% tests passed" in done.stdout


def test_optimization_changes_no_bit(tmp_path) -> None:
    """If products are not fused with sums, every level of optimization gives the same bits."""
    model = mb.example("arm")
    mb.codegen.generate_c(model, ["coriolis_matrix"], tmp_path, name="robot")
    rng = np.random.default_rng(0)
    q, v = rng.normal(size=(2, 50, 6))
    C = [
        mb.codegen.load_c(tmp_path, flags=(level, "-ffp-contract=off")).coriolis_matrix(q, v)
        for level in ("-O0", "-O1", "-O2", "-O3")
    ]
    assert all(np.array_equal(C[0], other) for other in C[1:])


@pytest.mark.further
@pytest.mark.parametrize("robot", always(["arm", "differential"], "arm"))
def test_pieces(rng, tmp_path, monkeypatch, robot) -> None:
    """Long functions are written in pieces, which compute the same bits; a differential's angles are sums."""
    model, names = mb.example("arm") if robot == "arm" else PLANS[robot]().build(), ["forward_dynamics"]
    given = [model.random(rng), *rng.standard_normal((2, model.nv))]
    monkeypatch.setattr(function_text, "PIECE", 1_000)
    found = []
    for folder, whole in ((tmp_path / "whole", 10**6), (tmp_path / "pieces", 1_000)):
        monkeypatch.setattr(function_text, "WHOLE", whole)
        made = mb.codegen.generate_c(model, names, folder, name="robot")
        loaded = mb.codegen.load_c(folder, flags=("-O1", "-ffp-contract=off"))
        found.append((loaded.forward_dynamics(*given), made.functions["forward_dynamics"]))
    assert np.array_equal(found[0][0], found[1][0])
    assert found[0][1]["pieces"] == 1 and found[1][1]["pieces"] > 3 and "in " in str(made)
    assert largest_error(model, loaded, "forward_dynamics") < 1e-13
    done = compiled(tmp_path / "pieces", [*STRICT, *SANITIZED], "test_robot.c")
    assert done.returncode == 0, done.stdout + done.stderr
    command = ["cc", "-O0", "-fstack-usage", "-c", "robot_forward_dynamics.c"]
    subprocess.run(command, cwd=tmp_path / "pieces", check=True)
    lines = (tmp_path / "pieces/robot_forward_dynamics.su").read_text().splitlines()
    used = {line.split("\t")[0].rsplit(":", 1)[1]: int(line.split("\t")[1]) for line in lines}
    deepest = max(size for name, size in used.items() if name != "robot_forward_dynamics")
    assert used["robot_forward_dynamics"] + deepest <= found[1][1]["stack"]


def test_the_same_model_gives_the_same_bytes(tmp_path) -> None:
    names = ["coriolis_matrix", "gravity"]
    folders = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    first, second, other = (
        mb.codegen.generate_c(model, names, folder, name="robot")
        for folder, model in zip(
            folders,
            (mb.example("arm"), mb.example("arm"), mb.example("arm").with_gravity((0.0, 0.0, -1.62))),
            strict=True,
        )
    )
    files = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]
    assert files[0] == files[1] and files[0].keys() == files[2].keys()
    assert first.digest == second.digest != other.digest
    assert first.digest.encode() in files[0]["robot.h"]


def test_files_of_an_earlier_call_are_gone(tmp_path) -> None:
    """But no other file, even if it is named like them."""
    (tmp_path / "robot_of_mine.c").write_text("/* mine */\n")
    for functions in (["coriolis_matrix", "gravity"], ["mass_matrix"]):
        mb.codegen.generate_c(mb.example("arm"), functions, tmp_path, name="robot")
    found = {path.name for path in tmp_path.glob("*.c")}
    own = {"robot_mass_matrix.c", "robot_casadi.c", "example.c", "test_robot.c"}
    assert found == {*own, "robot_of_mine.c"}


def test_cpp_takes_the_header(tmp_path) -> None:
    mb.codegen.generate_c(mb.example("arm"), ["gravity"], tmp_path, name="robot")
    command = ["c++", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-x", "c++"]
    subprocess.run([*command, str(tmp_path / "robot.h")], check=True, capture_output=True)


@pytest.mark.parametrize("robot", ["arm", "four_bar"])
def test_the_stack_is_bounded(tmp_path, robot) -> None:
    """By what is printed, without optimization, where it is largest; for loops the longest chain of calls."""
    made = mb.codegen.generate_c(mb.example(robot), ["coriolis_matrix"], tmp_path, name="robot")
    used = {}
    for unit in ("coriolis_matrix", "close")[: 1 if robot == "arm" else 2]:
        command = ["cc", "-O0", "-fstack-usage", "-c", f"robot_{unit}.c", "-o", f"{unit}.o"]
        subprocess.run(command, cwd=tmp_path, check=True)
        lines = next(tmp_path.glob(f"*{unit}.su")).read_text().splitlines()
        used |= {line.split("\t")[0].rsplit(":", 1)[1]: int(line.split("\t")[1]) for line in lines}
    helpers = max(used["robot_turn"], used["robot_are_within"])
    stated = made.functions["coriolis_matrix"]["stack"]
    assert 0.3 * stated < used["robot_coriolis_matrix"] + helpers <= stated
    if robot == "four_bar":
        blocks = max(size for name, size in used.items() if name.endswith("_0"))
        chain = used["robot_close"] + used["follow"] + max(used["settle"], used["polish"]) + blocks
        text = (tmp_path / "README.md").read_text()
        stated = int(re.search(r"at most (\d+) bytes", text.replace("\n", " "))[1])
        assert 0.3 * stated < chain + helpers <= stated


def test_zeros_and_unused_operations_are_gone(tmp_path) -> None:
    """The arm's gravity needs a tenth of the operations of its C, and no sine of the first joint."""
    made = mb.codegen.generate_c(mb.example("arm"), ["coriolis_matrix", "gravity"], tmp_path, name="robot")
    counts = {name: about["operations"] for name, about in made.functions.items()}
    assert counts["gravity"] < 150 < 1200 < counts["coriolis_matrix"] < 1500
    text = (tmp_path / "robot_coriolis_matrix.c").read_text()
    assert not re.search(r"q\[0\]| 0\.0 [*+-]| 1\.0 \*", text)
    assert text.count("angles[") == 6  # the declaration, and five joints


# --- CasADi -------------------------------------------------------------------------------------------------


def called_as_by_casadi(folder: Path, symbol: str, given: list[np.ndarray], shapes) -> list[np.ndarray]:
    """What CasADi gets from an external function, by its interface; matrices are stored by columns."""
    library = folder / "casadi.so"
    if not library.exists():
        sources = [str(path) for path in folder.glob("robot_*.c")]
        command = ["cc", *STRICT, "-O0", "-fPIC", "-shared", *sources, "-o", str(library), "-lm"]
        subprocess.run(command, check=True, capture_output=True)
    functions = ctypes.CDLL(str(library))
    counts = [getattr(functions, f"{symbol}_n_{way}")() for way in ("in", "out")]
    found = []
    for way, count in zip(("in", "out"), counts, strict=True):
        sparsity = getattr(functions, f"{symbol}_sparsity_{way}")
        sparsity.restype = ctypes.POINTER(ctypes.c_longlong)
        found.append([tuple(sparsity(ctypes.c_longlong(k))[:3]) for k in range(count)])
    assert found[0][: len(given)] == [(x.size, 1, 1) for x in given]
    assert found[1] == [(*shape, 1) for shape in shapes]
    sizes = [ctypes.c_longlong() for _ in range(4)]
    assert getattr(functions, f"{symbol}_work")(*map(ctypes.byref, sizes)) == 0
    pointer = ctypes.POINTER(ctypes.c_double)
    results, work = [np.empty(shape, order="F") for shape in shapes], np.empty(sizes[3].value)
    arg = (pointer * counts[0])(*(x.ctypes.data_as(pointer) for x in given))
    res = (pointer * counts[1])(*(x.ctypes.data_as(pointer) for x in results))
    status = getattr(functions, symbol)(arg, res, None, work.ctypes.data_as(pointer), 0)
    assert status == 0
    return results


def test_the_interface_of_casadi(tmp_path, rng) -> None:
    """As it was tried with CasADi 3.8.2, whose Jacobians were these."""
    model = mb.example("arm")
    names = ["coriolis_matrix", "inverse_dynamics", "inverse_dynamics_derivatives"]
    mb.codegen.generate_c(model, names, tmp_path, name="robot")
    q, v, a = rng.normal(size=(3, 6))
    (C,) = called_as_by_casadi(tmp_path, "casadi_robot_coriolis_matrix", [q, v], [(6, 6)])
    assert np.allclose(C, mb.coriolis_matrix(model, q, v), rtol=0.0, atol=1e-13)
    given = [q, v, a]
    (tau,) = called_as_by_casadi(tmp_path, "casadi_robot_inverse_dynamics", given, [(6, 1)])
    assert np.allclose(tau[:, 0], mb.inverse_dynamics(model, q, v, a), rtol=1e-12)
    jacobians = called_as_by_casadi(tmp_path, "jac_casadi_robot_inverse_dynamics", given, [(6, 6)] * 3)
    for found, expected in zip(jacobians, mb.inverse_dynamics_derivatives(model, q, v, a), strict=True):
        assert np.allclose(found, expected, rtol=0.0, atol=1e-12)


def test_casadi_gets_loops_and_no_jacobian_along_a_frame(tmp_path) -> None:
    names = ["inverse_dynamics", "inverse_dynamics_derivatives"]
    mb.codegen.generate_c(mb.example("quadruped"), names, tmp_path, name="robot")
    assert "jac_casadi" not in (tmp_path / "robot_casadi.c").read_text()
    model = PLANS["four-bar"]().build()
    mb.codegen.generate_c(model, ["gravity"], tmp_path / "four_bar", name="robot")
    q = np.array([0.7])
    (g,) = called_as_by_casadi(tmp_path / "four_bar", "casadi_robot_gravity", [q], [(1, 1)])
    assert np.allclose(g[0], mb.gravity(model, q), rtol=1e-12)


# --- calls from Python --------------------------------------------------------------------------------------


def test_calls_have_the_signatures_of_mb(tmp_path) -> None:
    model = mb.example("arm")
    loaded = generated(model, ["coriolis_matrix", "inverse_dynamics_derivatives"], tmp_path)
    q, v = np.zeros((3, 1, 6)), np.ones((2, 6))
    out = np.empty((3, 2, 6, 6))
    assert loaded.coriolis_matrix(q, v, out=out) is out
    assert np.allclose(out, mb.coriolis_matrix(model, q[0, 0], v[0]), rtol=1e-13, atol=1e-13)
    derivatives = loaded.inverse_dynamics_derivatives(q[0, 0], [0.1] * 6, v[0])
    expected = mb.inverse_dynamics_derivatives(model, q[0, 0], [0.1] * 6, v[0])
    assert all(np.allclose(a, b, atol=1e-12) for a, b in zip(derivatives, expected, strict=True))
    assert "coriolis_matrix" in repr(loaded)
    with pytest.raises(ShapeError):
        loaded.coriolis_matrix(np.zeros(5), v)
    with pytest.raises(ShapeError):
        loaded.coriolis_matrix(q, v, out=np.empty(3))
    with pytest.raises(TypeError, match="q, v"):
        loaded.coriolis_matrix(q)
    with pytest.raises(AttributeError, match="gravity"):
        loaded.gravity(q)
    with pytest.raises(NonFiniteError):
        loaded.coriolis_matrix(q, v * np.nan)
    with pytest.raises(NonFiniteError):  # of the joint on which C does not depend
        loaded.coriolis_matrix([np.inf, 0, 0, 0, 0, 0], v)
    with pytest.raises(NonFiniteError):  # the result overflows
        loaded.coriolis_matrix(q, v * 1e308)


def test_quaternions_and_singular_matrices_are_refused(tmp_path) -> None:
    model = mb.example("quadruped")
    loaded = generated(model, ["coriolis_matrix"], tmp_path / "quadruped")
    q = model.neutral()
    q[6] = 1.001
    with pytest.raises(PointError):
        loaded.coriolis_matrix(q, np.zeros(18))
    gimbal = mb.Mechanism()
    for number, axis in enumerate(("z", "x", "z")):
        inertia = {"mass": 1.0, "inertia": np.eye(3)} if number == 2 else {"mass": 0.0}
        gimbal.add_body(f"ring {number}", **inertia)
        above = f"ring {number - 1}" if number else "world"
        gimbal.add_joint(f"turn {number}", above, f"ring {number}", mb.Revolute(np.eye(3)["xyz".index(axis)]))
    loaded = generated(gimbal.build(), ["inverse_mass_matrix"], tmp_path / "gimbal")
    assert np.isfinite(loaded.inverse_mass_matrix([0.3, 0.5, 0.2])).all()
    with pytest.raises(MetricError):
        loaded.inverse_mass_matrix([0.3, 0.0, 0.2])


def test_page() -> None:
    run_page("generated_c.md", blocks=2)


# --- bad input ----------------------------------------------------------------------------------------------


def test_bad_arguments(tmp_path) -> None:
    model = mb.example("arm")
    with pytest.raises(ValueError, match="did you mean coriolis_matrix"):
        mb.codegen.generate_c(model, ["coriolis_matrx"], tmp_path)
    with pytest.raises(TypeError, match="sequence of names"):
        mb.codegen.generate_c(model, "gravity", tmp_path)
    with pytest.raises(ValueError, match="at least one"):
        mb.codegen.generate_c(model, [], tmp_path)
    with pytest.raises(ValueError, match="dtype"):
        mb.codegen.generate_c(model, ["gravity"], tmp_path, dtype="half")
    for name in ("7arm", "my arm", "for", ""):
        with pytest.raises(ValueError, match="identifier"):
            mb.codegen.generate_c(model, ["gravity"], tmp_path, name=name)
    with pytest.raises(ValueError, match="folder's name"):
        mb.codegen.generate_c(model, ["gravity"], tmp_path / "7")
    with pytest.raises(TypeError, match="model"):
        mb.codegen.generate_c("arm", ["gravity"], tmp_path)
    with pytest.raises(OSError, match="cannot write"):
        mb.codegen.generate_c(model, ["gravity"], Path("/proc/nothing"), name="robot")
    assert not list(tmp_path.iterdir())  # nothing half-written


def test_loops_without_a_form_in_c_are_refused(tmp_path) -> None:
    with pytest.raises(ModelError, match="'profile' is closed by a Python function"):
        mb.codegen.generate_c(PLANS["cam"]().build(), ["gravity"], tmp_path, name="robot")
    with pytest.raises(ModelError, match="spherical or free joint is independent"):
        mb.codegen.generate_c(PLANS["Stewart platform"]().build(), ["gravity"], tmp_path, name="robot")
    four_bar = mb.example("four_bar")
    with pytest.raises(ModelError, match="float has too few digits"):
        mb.codegen.generate_c(four_bar, ["gravity"], tmp_path, name="robot", dtype="float")
    with pytest.raises(ModelError, match="no recursion for mechanisms with loops"):
        mb.codegen.generate_c(four_bar, ["curvature"], tmp_path, name="robot")
    assert not list(tmp_path.iterdir())


def test_a_function_that_is_too_long_is_refused(tmp_path, monkeypatch) -> None:
    """Beyond 8 MB; here beyond 10 kB, which takes less time."""
    monkeypatch.setattr(generation_folder, "LARGEST", 10_000)
    with pytest.raises(ModelError, match="coriolis_matrix: its C would have 0.0 MB"):
        mb.codegen.generate_c(mb.example("arm"), ["gravity", "coriolis_matrix"], tmp_path, name="robot")
    assert not list(tmp_path.iterdir())


def test_names_of_joints(tmp_path) -> None:
    def chain(*names: str) -> mb.Model:
        mechanism = mb.Mechanism()
        for number, name in enumerate(names):
            mechanism.add_body(f"body {number}", mass=1.0, inertia=np.eye(3))
            above = f"body {number - 1}" if number else "world"
            mechanism.add_joint(name, above, f"body {number}", mb.Revolute([0.0, 1.0, 0.0]))
        return mechanism.build()

    mb.codegen.generate_c(chain("Knie links", "épaule-2"), ["gravity"], tmp_path, name="robot")
    header = (tmp_path / "robot.h").read_text()
    assert "#define ROBOT_Q_KNIE_LINKS 0\n" in header and "#define ROBOT_V_EPAULE_2 1\n" in header
    assert "| épaule-2 |" in (tmp_path / "README.md").read_text()
    with pytest.raises(ModelError, match="'a b' and 'a-b'"):
        mb.codegen.generate_c(chain("a b", "a-b"), ["gravity"], tmp_path, name="robot")
    with pytest.raises(ModelError, match="'関節'"):
        mb.codegen.generate_c(chain("関節"), ["gravity"], tmp_path, name="robot")


#: What a program does in place of compiling, and the error.
COMPILERS = [
    ("true", "made no library"),
    ("exit 7", "cannot compile .*it failed: no message"),
    ("kill -KILL $$", r"cannot compile .*it crashed \(SIGKILL\)"),
    (r"printf '\377 is not UTF-8' >&2; exit 1", "cannot compile .*is not UTF-8"),
    ("exec sleep 9", "cannot compile .*took more than 0.3 s"),
    ("exec cat /dev/zero", "cannot compile .*took more than 0.3 s"),
]


def test_bad_folders_and_compilers(tmp_path, monkeypatch) -> None:
    with pytest.raises(FileNotFoundError, match="generate_c"):
        mb.codegen.load_c(tmp_path)
    mb.codegen.generate_c(mb.example("arm"), ["gravity"], tmp_path, name="robot")
    with pytest.raises(FileNotFoundError, match="no-such-compiler"):
        mb.codegen.load_c(tmp_path, compiler="no-such-compiler")
    with pytest.raises(RuntimeError, match="--no-such-option"):
        mb.codegen.load_c(tmp_path, flags=("--no-such-option",))
    monkeypatch.setattr(loading, "_SECONDS", 0.3)
    program = tmp_path / "program"
    for text, why in COMPILERS:
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        with pytest.raises(RuntimeError, match=f"program {why}"):
            mb.codegen.load_c(tmp_path, compiler=str(program))
    program.write_bytes(b"\0\1\2")
    with pytest.raises(RuntimeError, match="cannot be started"):
        mb.codegen.load_c(tmp_path, compiler=str(program))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="cc, gcc, clang"):
        mb.codegen.load_c(tmp_path)


def test_a_description_that_was_changed_is_refused(tmp_path) -> None:
    mb.codegen.generate_c(mb.example("arm"), ["gravity"], tmp_path, name="robot")
    about = json.loads((tmp_path / "robot.json").read_text())
    row = about["functions"]["gravity"]
    wrong = ["", "[]", "1", "[" * 100_000, b"\xff", about | {"loops": None}]
    wrong += [{key: value for key, value in about.items() if key != lost} for lost in loading._ABOUT]
    rows = [{key: value for key, value in row.items() if key != lost} for lost in loading._FUNCTION]
    rows += [1, row | {"sizes": [6, 6]}, row | {"sizes": ["6"]}]
    for text in wrong + [about | {"functions": {"gravity": changed}} for changed in rows]:
        data = json.dumps(text) if isinstance(text, dict) else text
        (tmp_path / "robot.json").write_bytes(data if isinstance(data, bytes) else data.encode())
        with pytest.raises(ValueError, match="robot.json is not as generate_c wrote it"):
            mb.codegen.load_c(tmp_path)


def test_compilers_are_here() -> None:
    """These tests need them."""
    assert all(shutil.which(command) for command in ("cc", "c++", "cmake"))
