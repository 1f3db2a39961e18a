"""Names as hostile as a file may have them, at every place where a person or a program reads them.

`FUZZ_EXAMPLES=20000 FUZZ_SEED=new pytest tests/fuzz/test_shown_text.py` tries others (`fuzz_settings`).
"""

import io
import re
import warnings
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from fuzz_settings import fuzzed
from hypothesis import example, given
from hypothesis import strategies as st

from connections import _shown, checks, cli, plots
from connections import multibody as mb
from connections.cli import printing, progress
from connections.explorer.body_shapes import tree_html
from connections.explorer.drawing import labels
from connections.interop.libraries import LibraryError
from connections.multibody.assembly.assembly import AssemblyWarning
from connections.sweeps import StoreError

PIECES = [
    "\x1b]0;owned\x07",
    "\x1b[2J",
    "\x9b31m",
    "\u202e",
    "\u2066x\u2069",
    "\u200b",
    "\u3164",
    "\U000e0041",
    "\ud800",
    "\x00",
    "\r",
    "\n",
    "\t",
    "\u2028",
    "<script>document.title='owned'</script>",
    "<iframe srcdoc=\"<script>top.document.title='owned'</script>\">",
    "<img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "[x](javascript:alert(1))",
    "![x](https://example.org/x.png)",
    "https://example.org/",
    "`",
    "|",
    "\\",
    "*/ int evil; /*",
    "$x_{$",
    "[bold red]",
    "[/]",
    "[link=https://example.org]",
    "=1+1",
    "joint_1",
    "\u00fc",
    "\udcff",
    "x" * 1_000,
]
NAMES = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), min_size=1, max_size=5).map("".join)
EVERYTHING = "".join(PIECES)


def hostile(examples: int):
    """The decorator of a test that draws names."""
    return lambda test: fuzzed(examples)(given(name=NAMES)(example(name=EVERYTHING)(test)))


class Tags(HTMLParser):
    """The tags of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list) -> None:
        self.found |= {tag, *(name for name, _ in attributes if name.startswith("on"))}


def is_harmless(text: str) -> bool:
    """Whether a terminal shows a text as it is: lines of printable characters."""
    return all(line.isprintable() for line in text.split("\n")) and not re.search("[\u3164\u2800]", text)


def test_the_names_are_hostile() -> None:
    """The control."""
    assert not is_harmless(EVERYTHING) and "iframe" in Tags(EVERYTHING).found


@hostile(200)
def test_a_line(name: str) -> None:
    line = _shown.shown(name)
    assert is_harmless(line) and "\n" not in line and len(line) < 10 * _shown.MOST + 30
    assert _shown.shown(line, len(line)) == line  # nothing is escaped twice
    assert (len(name) <= _shown.MOST) or line.endswith(f"... ({len(name)} characters)")


def test_an_ordinary_name_stays_what_it_is() -> None:
    for name in ("left_hip_yaw", "H\u00fcfte links", "\u5de6\u81c2", "a [b] <c> $d$"):
        assert _shown.shown(name) == name
    assert _shown.as_markdown("left_hip_yaw") == "left_hip_yaw"


@hostile(100)
def test_errors_and_warnings(name: str) -> None:
    kinds = (checks.ModelError, checks.ClosureError, checks.SubjectError, StoreError, LibraryError)
    for kind in (*kinds, AssemblyWarning, mb.InertiaWarning):
        assert is_harmless(str(kind(f"loop '{name}' is wrong"))) and kind(name).args == (name,)
    assert is_harmless(cli._text(OSError(f"{name}: there is no such file")))
    assert cli._text(checks.ModelError(name)).count("\n") == 0


@hostile(100)
def test_html(name: str) -> None:
    page = checks.html_table(name, [(name, name)], (name,), (name,))
    assert Tags(page).found <= {"b", "table", "tr", "th", "td", "p"} and is_harmless(page)
    assert Tags(f'<p title="{_shown.as_html(name)}">').found == {"p"}


@hostile(100)
def test_markdown(name: str) -> None:
    cell = _shown.as_markdown(name)
    bare = re.sub(r"\\.|&(lt|gt|amp);", "", cell)  # without what is escaped
    assert is_harmless(cell) and "\n" not in cell
    assert not re.search(r"[|<>`\[\]()!$*#&]|://|www\.", bare)


@hostile(100)
def test_comments_of_c(name: str) -> None:
    comment = f"/* {_shown.as_c_comment(name)} */"
    assert comment.isascii() and comment.isprintable() and comment.count("*/") == 1


@hostile(60)
def test_the_terminal(name: str) -> None:
    stream = io.StringIO()
    table = printing.new_table(name)
    table.add_column("name")
    table.add_row(printing.cell(name))
    printing.console(stream).print(table)
    assert is_harmless(stream.getvalue())
    if len(_shown.shown(name)) < 100 and " " not in name:
        assert _shown.shown(name) in stream.getvalue()  # brackets are no commands
    with pytest.MonkeyPatch.context() as patch:
        for output in ("stdout", "stderr"):
            patch.setattr(f"sys.{output}", io.StringIO())
        printing.print_paragraph(f"FAILS on {name}")
        file = name.encode(errors="replace").decode().replace("\x00", "0").replace("/", "0")
        printing.print_paths([Path("/tmp") / file])
        steps = progress.Progress(1, "steps")
        steps.note(name)
        steps.now(name)
        cli._print_warning(name)
        with pytest.raises(SystemExit):
            cli.main(["figures", "there", name])
        import sys

        assert is_harmless(sys.stdout.getvalue()) and is_harmless(sys.stderr.getvalue())
        assert is_harmless(steps.line(80))


def robot(name: str) -> mb.Model:
    """Two links whose names, and those of their joints, are hostile, as files of XML can have them."""
    mechanism = mb.Mechanism()
    for body in (f"{name} 1", f"{name} 2"):
        mechanism.add_body(body, 1.0, (0.0, 0.1, 0.2), np.eye(3))
    mechanism.add_joint(f"{name} a", "world", f"{name} 1", mb.Revolute([0.0, 0.0, 1.0]))
    mechanism.add_joint(f"{name} b", f"{name} 1", f"{name} 2", mb.Revolute([0.0, 1.0, 0.0]))
    return mechanism.build()


def test_generated_files(tmp_path: Path) -> None:
    """Joints and a frame are named so that comments would end, and tables have more columns."""
    name = (
        "a*/ int evil; /*\\\n|<img src=x onerror=alert(1)>$\x1b[2J\u202e[x](y)`"  # short, as that of a file
    )
    model = robot(name)
    made = mb.codegen.generate_c(model, ["gravity", f"frame_jacobian:{name} 2"], tmp_path / "c", name="r")
    readme = (made.folder / "README.md").read_text()
    assert Tags(readme).found == set() and is_harmless(readme)
    rows = [line for line in readme.splitlines() if line.startswith("| `R_Q_")]
    assert len(rows) == 2 and all(len(re.findall(r"(?<!\\)\|", row)) == 7 for row in rows)
    for path in made.folder.glob("*.[ch]"):
        text = path.read_text()
        assert is_harmless(text) and "int evil" not in re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


@pytest.mark.further
@hostile(20)
def test_robots(name: str) -> None:
    model = robot(name)
    with pytest.raises((checks.ModelError, ValueError, KeyError)) as found:
        model.velocity_slice("no such joint")
    assert is_harmless(str(found.value))
    page = tree_html(model)
    assert Tags(page).found <= {"div", "span"} and is_harmless(page)
    assert all(map(is_harmless, labels([name, name]))) and len(set(labels([name, name]))) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no font has all letters
        figure = plots.figure_mechanism(model)
        figure.canvas.draw()
    assert all(is_harmless(text.get_text()) for axes in figure.axes for text in axes.texts)
