"""pytest's fixture: what is right passes, what is wrong fails with the table, a stranger imports nothing."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from connections import referee
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
    (tmp_path / "test_stranger.py").write_text(STRANGER)
    stranger = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "pytest_affine_connections", "--rootdir", "."],
        cwd=tmp_path,
        env=stranger | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


def test_the_wheel_has_the_plugin() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (module,) = settings["project"]["entry-points"]["pytest11"].values()
    wheel = settings["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"] == {f"{module}.py": f"{module}.py"} and (ROOT / f"{module}.py").is_file()
