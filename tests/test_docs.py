"""The documentation is executed: conventions.md, and the lists that must be complete."""

import ast
import re
import runpy
from pathlib import Path

import pytest
from pages import ROOT, dead_links, execute, python_blocks, run_page

import connections
from connections import multibody

PACKAGE = Path(connections.__file__).parent
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").glob("*.md"))]


def texts_without_a_noun(code: str) -> list[str]:
    """The docstrings of a module, also of its attributes, that begin with a word that names nothing."""
    prepositions = "By|For|From|In|Of|With"
    beginning = rf"\s*(What|That|Those|Its|Their|As|The same|{prepositions})\b"
    if not re.search(f'"""{beginning}', code):  # parsing all modules takes seconds
        return []
    alone = (node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Expr))
    texts = [node.value for node in alone if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [text.strip() for text in texts if re.match(beginning, text)]


def test_docstrings_begin_with_the_noun_that_names_the_result() -> None:
    modules = sorted(PACKAGE.rglob("*.py"))
    found = {str(path): texts for path in modules if (texts := texts_without_a_noun(path.read_text()))}
    assert found == {}
    assert len(modules) > 300


@pytest.mark.parametrize("text", ["What it found.", "Those\nof q.", "As `f`.", "The same, at q.", "In turn."])
@pytest.mark.parametrize("code", ['"""{}"""', 'def f():\n    """{}"""', 'class F:\n    x: int\n    """{}"""'])
def test_a_docstring_that_names_nothing_is_found(code: str, text: str) -> None:
    assert texts_without_a_noun(code.format(text)) == [text]
    assert texts_without_a_noun(code.format("The mass matrix. What is done with it is said later.")) == []


def test_links_of_pages_lead_to_files_and_headings() -> None:
    assert {page.name: dead for page in PAGES if (dead := dead_links(page))} == {}
    assert len(PAGES) > 30


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A Title: here\n[a](#a-title-here) [b](#b) [c](c.py) [d](https://d) `[e](e)` ![f](page.md)\n"
    )
    assert dead_links(page) == ["#b", "c.py"]


def test_pages_are_read_as_text() -> None:
    """A code host renders links and formulas between dollars, but no roles, and no lists of definitions."""
    role = re.compile(r"\{[\w:]+\}`[^`]+`|^: .*|\[\]\(.*?\)", re.MULTILINE)
    assert {page.name: found for page in PAGES if (found := role.findall(page.read_text()))} == {}
    assert (
        role.findall("see {doc}`page`")
        and role.findall("a word\n: what it means")
        and role.findall("[](a.md)")
    )


@pytest.mark.further
@pytest.mark.parametrize(
    "name",
    [
        "compilation.md",
        "in_jax.md",
        "integrators.md",
        "least_coriolis.md",
        "motions.md",
        "mujoco.md",
        "multibody.md",
        "precision.md",
        "verify.md",
    ],
)
def test_page_runs(name: str) -> None:
    run_page(name, blocks=1)


def test_every_page_with_code_is_run_by_a_test_and_fits_the_screen() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for page in PAGES:
        lines = [line for _, code, _ in python_blocks(page) for line in code.splitlines()]
        assert not lines or f'"{page.name}"' in tests, page.name
        assert [line for line in lines if len(line) > 88] == [], page.name


def test_a_page_that_shows_another_output_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1.5)\n```\n\n```text\n1.6\n```\n")
    with pytest.raises(AssertionError, match="shown"):
        execute(page)
    page.write_text("```python\nprint(1.5)\n```\n")
    with pytest.raises(AssertionError, match="shown"):
        execute(page)


@pytest.mark.further
def test_conventions_hold() -> None:
    run_page("conventions.md", blocks=10, assertions=30)


@pytest.mark.further
def test_a_false_convention_is_caught(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "conventions.md").read_text()
    wrong = page.replace('jnp.einsum("ijk,j->ik", Gamma_low, v)', 'jnp.einsum("ikj,j->ik", Gamma_low, v)')
    assert wrong != page
    (tmp_path / "wrong.md").write_text(wrong)
    with pytest.raises(AssertionError):
        execute(tmp_path / "wrong.md")


def test_the_page_of_names_is_that_of_the_package() -> None:
    names = runpy.run_path(str(ROOT / "docs" / "api_build.py"))
    page = (ROOT / "docs" / "api.md").read_text()
    assert page.endswith(names["tables"]()), "run: python docs/api_build.py"
    for name in multibody.__all__:
        assert page.count(f"[`mb.{name}`]") == 1
    rooms = {path.stem for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    internal = {"engines", "evaluation", "integration", "cli"}
    assert rooms - internal == {room.split(".")[1] for room in names["ROOMS"] if room != "connections"} - {
        "checks"
    }


def test_equations_page_names_code_that_exists() -> None:
    """Every `connections/...` path and `tests/...` path of the page exists."""
    page = (ROOT / "docs" / "equations.md").read_text()
    paths = set(re.findall(r"`((?:connections|tests|examples)/[\w/]+\.py)", page))
    missing = sorted(path for path in paths if not (ROOT / path).exists())
    assert not missing
    assert len(paths) >= 10


@pytest.mark.parametrize("number", range(1, 33))
def test_every_equation_of_the_first_paper_is_listed(number: int) -> None:
    page = (ROOT / "docs" / "equations.md").read_text()
    assert re.search(rf"^\| [^|]*\({number}\)", page, re.MULTILINE), f"[W] ({number})"


def test_the_page_of_examples_shows_all_of_them() -> None:
    gallery = runpy.run_path(str(ROOT / "docs" / "gallery_build.py"))
    page = (ROOT / "examples" / "README.md").read_text()
    shown = re.findall(r"!\[.+?\]\(\.\./docs/figures/thumbnails/(\w+)\.png\)", page)
    assert shown == list(gallery["EXAMPLES"])
    assert {path.stem for path in gallery["THUMBNAILS"].iterdir()} == set(shown)
    linked = set(re.findall(r"\]\((\w+\.(?:py|ipynb))\)", page))
    assert linked == {path.name for path in (ROOT / "examples").iterdir() if path.suffix in (".py", ".ipynb")}


@pytest.mark.further
def test_pages_are_published_beside_those_of_other_versions(tmp_path: Path) -> None:
    publish = runpy.run_path(str(ROOT / "docs" / "publish.py"))["publish"]
    site, html = tmp_path / "site", tmp_path / "html"
    html.mkdir()
    for name in ("main", "v0.9.0", "v0.10.0", "v0.9.0"):
        (html / "index.html").write_text(f"{name}, built once more")
        publish(site, html, name)
    listed = re.findall(r'<a href="(.*?)">', (site / "versions.html").read_text())
    assert listed == ["v0.10.0/index.html", "v0.9.0/index.html", "main/index.html"]
    assert "url=v0.10.0/index.html" in (site / "index.html").read_text()
    assert (site / "v0.9.0" / "index.html").read_text() == "v0.9.0, built once more"
