"""pytest's fixture: what is right passes, what is wrong fails with the table, a stranger imports nothing."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from connections import CoordinateFrame, referee
from pytest_affine_connections import Referee

ROOT = Path(__file__).parents[2]
STRANGER = """
import sys

def test_nothing_is_imported():
    assert not {"numpy", "jax", "connections"} & set(sys.modules)

def test_nor_by_the_fixture_itself(referee):
    assert not {"numpy", "jax", "connections"} & set(sys.modules)
"""


def polar(q):
    return np.diag([2.0, 2.0 * q[0] ** 2])


def bias(q, v):
    return np.array([-2.0 * q[0] * v[1] ** 2, 4.0 * q[0] * v[0] * v[1]])


def half(q, v):
    return bias(q, v) * [1.0, 0.5]


SAMPLE = {"q": [1.2, 0.4], "v": [0.5, -0.4]}


def test_what_is_right_passes_and_the_report_is_returned() -> None:
    report = Referee().check(mass_matrix=polar, bias=bias, **SAMPLE, require={"bias", "symmetric"})
    assert report.kind == "vector only" and report["bias"].residual < 1e-8


def test_what_is_wrong_fails_the_test_with_the_table() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"bias fails at sample 0(.|\n)*symmetric +holds"):
        Referee().check(mass_matrix=polar, bias=half, **SAMPLE)
    assert Referee().check(mass_matrix=polar, bias=half, **SAMPLE, require={"symmetric"}).failing == ("bias",)
    with pytest.raises(pytest.fail.Exception, match="product"):  # it is asked for, and not given
        Referee().check(mass_matrix=polar, bias=bias, **SAMPLE, require={"product"})


def test_a_robot_of_the_corpus_in_a_layout() -> None:
    fixture = Referee()
    known, layout = fixture.robot("floating_offset"), fixture.floating("vw", "mixed")
    assert layout == referee.floating("vw", "mixed")
    table = {
        q.tobytes(): H for q, (H, *_) in zip(known.q_in(layout), known.reference_in(layout), strict=True)
    }

    def nearest(q):
        return table[min(table, key=lambda key: np.linalg.norm(np.frombuffer(key) - q))]

    assert (
        fixture.check(nearest, layout=layout, robot="floating_offset")["same_mass_matrix"].verdict == "holds"
    )
    with pytest.raises(pytest.fail.Exception, match="same_mass_matrix fails"):
        fixture.check(lambda q: nearest(q).T * 1.001, layout=layout, robot="floating_offset")


@pytest.mark.parametrize("given", [{}, {"robot": "branches", "q": [0.0]}])
def test_it_takes_a_robot_or_samples(given) -> None:
    with pytest.raises(ValueError, match="a robot of the corpus, or samples q and v"):
        Referee().check(polar, **given)


def test_a_stranger_s_run_imports_nothing_through_it(tmp_path: Path) -> None:
    assert "2 passed" in run_of_a_project(tmp_path, STRANGER)


#: A library that computes in JAX's own precision, and its tests; the first and the last are not about it.
PROJECT = """
import gc, os, signal, sys, threading
import jax, jax.numpy as jnp, numpy as np
import pytest

SETTINGS = ["jax_enable_x64", *(name for name in dir(jax.config) if "cache" in name)]
SEEN = set()

def state():
    settings = tuple(str(getattr(jax.config, name, None)) for name in SETTINGS)
    environment = {name: x for name, x in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    python = gc.isenabled(), gc.get_threshold(), sys.path[:], signal.getsignal(signal.SIGINT)
    return settings, jnp.zeros(1).dtype.name, environment, python

def note():
    SEEN.add((threading.current_thread().name, jax.config.jax_enable_x64, jnp.zeros(1).dtype.name))

START = state()
assert START[1] == "float32" and "jax_compilation_cache_dir" in SETTINGS

@jax.jit
def mass_matrix(q):
    return jnp.diag(jnp.array([2.0, 2.0 * q[0] ** 2]))

def H(q):
    note()
    other = threading.Thread(target=note, name="other")
    other.start()
    other.join()
    return mass_matrix(q)

def bias(q, v):
    note()
    return jnp.array([-2.0 * q[0] * v[1] ** 2, 4.0 * q[0] * v[0] * v[1]])

@pytest.mark.parametrize("turn", range(2))
def test_state(turn):
    assert state() == START

def test_check(referee):
    report = referee.check(mass_matrix=H, bias=bias, q=jnp.array([1.2, 0.4]), v=[0.5, -0.4])
    assert report.precision == "float32" and report.kind == "vector only"
    assert report["bias"].tolerance > 1e-4
    main = threading.current_thread().name
    assert SEEN == {(main, False, "float32"), ("other", False, "float32")}
    assert state() == START
    SEEN.clear()
    search = referee.detect_layout(H, bias, q=[1.2, 0.4], v=[0.5, -0.4])
    assert search.fits and SEEN == {(main, False, "float32"), ("other", False, "float32")}

def test_float64_is_what_a_test_asks_for(referee):
    with jax.enable_x64(True):
        assert referee.check(mass_matrix=H, bias=bias, q=[1.2, 0.4], v=[0.5, -0.4]).precision == "float64"

def test_state_afterwards():
    assert "connections" in sys.modules and state() == START
"""


def test_a_project_in_float32_is_judged_and_left_in_it(tmp_path: Path) -> None:
    assert "5 passed" in run_of_a_project(tmp_path, PROJECT)


@pytest.mark.parametrize("wide", [True, False])
def test_the_referee_s_own_arithmetic_is_float64(wide: bool) -> None:
    """Along a frame whose points are displaced inside JAX, also of a program that computes in float32."""
    seen = set()

    def H(q):
        seen.add(jnp.zeros(1).dtype.name)
        return polar(q)

    with jax.enable_x64(wide):
        report = referee.audit_functions(H, bias, frame=CoordinateFrame(2), **SAMPLE)
        assert seen == {jnp.zeros(1).dtype.name}
    assert report.failing == () and report.precision == "float64" and report["bias"].verdict == "holds"


def run_of_a_project(folder: Path, tests: str) -> str:
    """What pytest prints in a project with one file of tests, without settings of JAX."""
    (folder / "test_project.py").write_text(tests)
    own = {name: x for name, x in os.environ.items() if not name.startswith(("PYTEST_", "JAX_", "XLA_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "pytest_affine_connections", "--rootdir", "."],
        cwd=folder,
        env=own | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_has_the_plugin() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (module,) = settings["project"]["entry-points"]["pytest11"].values()
    wheel = settings["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"] == {f"{module}.py": f"{module}.py"} and (ROOT / f"{module}.py").is_file()
