"""Workflows: actions are pinned by their commit, and only a job that installs nothing may write."""

import re
from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).parents[1] / ".github" / "workflows"
WORKFLOWS = sorted(path.name for path in FOLDER.glob("*.y*ml"))
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")


def workflow(name: str) -> dict:
    return yaml.safe_load((FOLDER / name).read_text())


def test_there_are_workflows() -> None:
    assert WORKFLOWS == ["ci.yml", "docs.yml"]


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
        installs = re.search(r"\bpip\b|\buv\b|apt|\.ci/run|\.ci/versions|setup-python", text) is not None
        assert installs == ("permissions" not in job)
        checkouts = [step for step in job["steps"] if "checkout@" in step.get("uses", "")]
        kept = [step.get("with", {}).get("persist-credentials", True) for step in checkouts]
        assert kept == [not installs]
