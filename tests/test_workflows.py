"""Workflows: actions are pinned by their commit, and only a job that installs nothing may write."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).parents[1] / ".github" / "workflows"
WORKFLOWS = sorted(path.name for path in FOLDER.glob("*.y*ml"))
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")


def workflow(name: str) -> dict:
    return yaml.safe_load((FOLDER / name).read_text())


def test_there_are_workflows() -> None:
    assert WORKFLOWS == ["ci.yml", "docs.yml", "referee.yml"]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_are_pinned_by_their_commit(name: str) -> None:
    steps = [step for job in workflow(name)["jobs"].values() for step in job["steps"]]
    used = [step["uses"] for step in steps if "uses" in step]
    assert used and all(PINNED.fullmatch(action) for action in used)
    assert not PINNED.fullmatch("actions/checkout@v5")  # the control


@pytest.mark.parametrize("name", WORKFLOWS)
def test_what_is_installed_cannot_write(name: str) -> None:
    """A workflow may read; a job that may more runs Git and this repository's own scripts only."""
    found = workflow(name)
    assert found["permissions"] == {"contents": "read"}
    for job in found["jobs"].values():
        text = str(job["steps"])
        installs = re.search(r"\bpip\b|\buv\b|apt|\.ci/(run|versions|referee)|setup-python", text) is not None
        assert installs == ("permissions" not in job)
        checkouts = [step for step in job["steps"] if "checkout@" in step.get("uses", "")]
        kept = [step.get("with", {}).get("persist-credentials", True) for step in checkouts]
        assert kept == ["write" in job.get("permissions", {}).values()]


# --- the action that other repositories use --------------------------------------------------------


def action() -> dict:
    return yaml.safe_load((FOLDER.parents[1] / "action.yml").read_text())


def test_what_is_given_to_the_action_comes_by_the_environment() -> None:
    """A value of a stranger is never part of a command."""
    steps = action()["runs"]["steps"]
    assert [step["shell"] for step in steps] == ["bash", "bash"]
    assert not any("${{" in step["run"] for step in steps)
    given = {value for step in steps for value in step["env"].values()}
    assert given == {f"${{{{ inputs.{name} }}}}" for name in action()["inputs"]}


@pytest.mark.further
def test_the_action_audits_writes_and_fails(tmp_path: Path) -> None:
    """Its second step in a shell, with an interpreter that has pinocchio in the place of the first."""
    (tmp_path / "referee" / "bin").mkdir(parents=True)
    program = tmp_path / "referee" / "bin" / "connections"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m connections.cli "$@"\n')
    program.chmod(0o755)
    step = action()["runs"]["steps"][1]
    for robots, status in (("branches", 0), ("mimic branches", 1)):
        given = {"LIBRARY": "pinocchio", "LIBRARY_PYTHON": sys.executable, "ROBOTS": robots}
        assert set(step["env"]) == set(given)
        files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            env=os.environ | given | files | {"RUNNER_TEMP": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == status, done.stdout + done.stderr
    results = json.loads((tmp_path / "referee.json").read_text())
    assert [result["robot"] for result in results] == ["mimic", "branches"]
    assert f"json={tmp_path}/referee.json" in (tmp_path / "GITHUB_OUTPUT").read_text()
    assert "| mimic | fails |" in (tmp_path / "GITHUB_STEP_SUMMARY").read_text()


def test_the_action_runs_nothing_of_the_repository_and_takes_no_options(tmp_path: Path) -> None:
    """Its folder is that of a pull request, perhaps; the inputs may be chosen by a stranger, too."""
    for name in ("logging", "venv", "pip", "json"):
        (tmp_path / f"{name}.py").write_text("open('was_run', 'w').close()\n")
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    files = {name: str(tmp_path / "of_github") for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    given = files | {"LIBRARY": "-x", "LIBRARY_PYTHON": "-c", "ROBOTS": "--help", "PACKAGE": "--version"}
    for step, status in zip(action()["runs"]["steps"], (1, 2), strict=True):
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            env=kept | given | {"RUNNER_TEMP": str(tmp_path / "temp")},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == status, done.stdout + done.stderr
        assert not (tmp_path / "was_run").exists()
    subprocess.run(["python3", "-c", "import logging"], cwd=tmp_path, env=kept, check=True)  # the control
    assert (tmp_path / "was_run").exists()


def test_every_adaptor_has_its_night() -> None:
    matrix = workflow("referee.yml")["jobs"]["audit"]["strategy"]["matrix"]["library"]
    folder = FOLDER.parents[1] / "connections" / "interop" / "adaptors"
    assert matrix == sorted(
        path.stem for path in folder.glob("*.py") if path.stem not in ("__init__", "runner")
    )
