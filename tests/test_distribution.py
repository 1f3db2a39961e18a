"""pip's name of this package and its version: all files agree, and no text names another project.

On the package index, ``connections`` is another project's, which a page that names it would install.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from connections import _distribution

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
STANDARD = ("README.md", "CITATION.cff", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "LICENSE", "SECURITY.md")
PLACES = ("connections", "docs", "examples", "tests", ".ci", ".github", "pyproject.toml", *STANDARD)
TEXTS = {".py", ".md", ".rst", ".ipynb", ".toml", ".yaml", ".yml", ".cff", ""}
BUILT = {"_build", "gallery", "__pycache__"}

# An extra of the other project; its name as what is installed; its name as what is asked for metadata.
FOREIGN = (
    r"(?<![\w-])connections\\?\[",
    r"\binstall\b(?:\s+-{1,2}[\w-]+)*\s+[\"'\\]*connections(?![\w./-])",
    r"\b(?:version|distribution|files|requires)\(\s*[\"']connections[\"']",
)


def foreign_names(text: str) -> list[str]:
    """What in a text names the other project."""
    return [match.group() for pattern in FOREIGN for match in re.finditer(pattern, text)]


def texts() -> Iterator[Path]:
    """The files of the repository that hold text, but this one, which has to quote."""
    for place in map(ROOT.joinpath, PLACES):
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            built = BUILT & set(path.relative_to(ROOT).parts)
            if path.is_file() and path.suffix in TEXTS and not built and path != Path(__file__):
                yield path


def test_no_text_names_the_other_project() -> None:
    found = {str(path.relative_to(ROOT)): foreign_names(path.read_text()) for path in texts()}
    assert {path: names for path, names in found.items() if names} == {}
    assert {"README.md", "pyproject.toml", ".ci/run", "docs/explorer.md"} <= found.keys()
    assert len(found) > 300


@pytest.mark.parametrize(
    "text",
    [
        'pip install "connections[web]"',
        "pip install 'connections[audit]'",
        r'match=r"pip install \"connections\[web\]"',
        '"connections[robots,mjcf]",',
        "the packages of connections[test].",
        "pip install connections",
        "uv pip install -q --upgrade connections",
        'pip install "connections"',
        'metadata.version("connections")',
    ],
)
def test_the_other_project_is_noticed(text: str) -> None:
    assert foreign_names(f"a line before\n{text}\n")
    assert not foreign_names(text.replace("connections", "affine-connections"))


@pytest.mark.parametrize(
    "text",
    [
        'pip install ".[web]"',
        "pip install . && connections demo",
        "import connections",
        "connections audit R.urdf",
    ],
)
def test_the_import_and_the_command_keep_their_name(text: str) -> None:
    assert not foreign_names(text)


def test_the_name_is_that_of_pyproject() -> None:
    assert _distribution.NAME == PROJECT["name"] == "affine-connections"
    assert _distribution.version() == PROJECT["version"]


def test_extras_in_messages_exist() -> None:
    """Those that a message, a page or another extra names."""
    extras = PROJECT["optional-dependencies"]
    named = {
        extra
        for path in texts()
        for pattern in (r"how_to_install\([\"']([\w-]+)[\"']\)", r"affine-connections\\?\[([\w,-]+)\\?\]")
        for match in re.findall(pattern, path.read_text())
        for extra in match.split(",")
    }
    assert {"web", "mjcf", "audit", "sweeps", "robots"} <= named <= extras.keys()
    assert _distribution.how_to_install("web") == 'pip install "affine-connections[web]"'


def test_files_agree_on_the_version() -> None:
    """pyproject.toml, the citation, and the newest section of the changelog that has a number."""
    citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    newest = re.search(r"^## (\d\S*)", (ROOT / "docs" / "changelog.md").read_text(), re.MULTILINE)
    assert citation and newest
    assert citation[1] == newest[1] == PROJECT["version"]


def test_the_source_distribution_has_the_standard_files() -> None:
    builds = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    included = {name.lstrip("/") for name in builds["sdist"]["include"]}
    assert all((ROOT / name).exists() for name in included)
    assert set(STANDARD) <= included
    assert {path.name for path in ROOT.iterdir() if path.suffix in {".md", ".cff"}} <= included


def test_the_conda_recipe_has_the_same_version_and_dependencies() -> None:
    recipe = (ROOT / ".ci" / "conda" / "recipe.yaml").read_text()
    assert f'\n  version: "{PROJECT["version"]}"\n' in recipe and f"\n  name: {PROJECT['name']}\n" in recipe
    needs = [f"python {PROJECT['requires-python']}", *map(conda_name, PROJECT["dependencies"])]
    run = recipe.partition("\n  run:\n")[2].partition("\n\n")[0]
    assert [line.removeprefix("    - ") for line in run.splitlines()] == needs
    assert conda_name("matplotlib>=3.10") == "matplotlib-base >=3.10" and conda_name("jax<2") != "jax <3"


def conda_name(requirement: str) -> str:
    """A dependency as conda writes it, whose matplotlib without a window has a name of its own."""
    name, bounds = re.fullmatch(r"([\w-]+)(.*)", requirement).groups()
    return f"{'matplotlib-base' if name == 'matplotlib' else name} {bounds}"
