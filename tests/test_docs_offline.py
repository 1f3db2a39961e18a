"""Pages as a browser shows them: formulas need no network and no script, tables and code fit the page."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from chromium import browser, require_chromium
from pages import ROOT
from sphinx.application import Sphinx

# Of the parser of Markdown, about a later Sphinx; four for each link.
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning:myst_parser", "ignore::PendingDeprecationWarning"
)
PAGES = sorted(path for path in (ROOT / "docs").glob("*.md") if path.stem != "api")
#: Of docs/conf.py.
COPY_BUTTONS = re.search(
    r"^copybutton_selector = .*?\n\n", (ROOT / "docs" / "conf.py").read_text(), re.M | re.S
)[0]
#: docs/conf.py without the packages' docstrings and the gallery.
CONFIGURATION = f"""
extensions = ["myst_parser", "mathml", "sphinx_copybutton"]
{COPY_BUTTONS}
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"
html_theme = "furo"
html_static_path = ["{ROOT / "docs" / "_static"}"]
html_css_files = ["docs.css"]
"""


class Words(HTMLParser):
    """What a browser shows of a page, without code, and the addresses from which it loads something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words, self.loaded, self.hidden, self.formulas = "", [], 0, 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.hidden += tag in ("code", "pre", "script", "style")
        self.formulas += tag == "math"
        self.loaded += [values.get("src") or ""] + [values.get("href") or ""] * (tag == "link")

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in ("code", "pre", "script", "style")

    def handle_data(self, data: str) -> None:
        self.words += "" if self.hidden else data


def raw_tex(words: str) -> list[str]:
    return re.findall(r"\\[a-zA-Z(\[]+|\$[^$]+\$", words)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("docs")
    for path in PAGES:
        (folder / path.name).write_text(path.read_text())
    (folder / "formula.md").write_text("# A\n\n$\\notatexcommand x$ and \\dot q\n")
    row = "| " + 40 * "word | "
    (folder / "wide.md").write_text(f"# A\n\n{row}\n| {40 * '---|'}\n{row}\n\n```python\n{150 * 'x'}\n```\n")
    (folder / "pushed.md").write_text('# A\n\n<div style="width: 900px">too wide</div>\n')
    (folder / "conf.py").write_text(CONFIGURATION)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs")
        Sphinx(folder, folder, folder / "html", folder / "trees", "html", status=None, warning=None).build()
    yield folder / "html"


@pytest.mark.further
def test_no_tex_is_left_and_nothing_is_loaded(built: Path) -> None:
    formulas = 0
    for path in PAGES:
        page = Words((built / f"{path.stem}.html").read_text())
        assert raw_tex(page.words) == [], path.name
        assert [place for place in page.loaded if re.match(r"(https?:)?//", place)] == [], path.name
        formulas += page.formulas
    assert formulas > 400


@pytest.mark.further
def test_tex_that_is_left_is_found(built: Path) -> None:
    assert raw_tex(Words((built / "formula.html").read_text()).words) == ["\\notatexcommandx", "\\dot"]
    assert raw_tex(r"the matrix \(C(q, v)\) and $\dot H$")


#: How many pixels the tables and blocks of code of a page are wider than the page.
TOO_WIDE = """return [...document.querySelectorAll('.table-wrapper, div.highlight-python pre')]
    .map(part => part.scrollWidth - part.clientWidth).filter(pixels => pixels > 1)"""


@pytest.mark.further
def test_tables_and_code_fit_a_screen_of_1280_pixels(built: Path, tmp_path: Path) -> None:
    require_chromium()
    with browser(tmp_path, 1280, 720) as driver:
        found = {}
        for path in [*PAGES, Path("wide.md")]:
            driver.get(f"file://{built}/{path.stem}.html")
            found[path.stem] = driver.execute_script(TOO_WIDE)
    assert len(found.pop("wide")) == 2
    assert {page: pixels for page, pixels in found.items() if pixels} == {}


@pytest.mark.further
def test_a_window_of_800_pixels_holds_every_page(built: Path, tmp_path: Path) -> None:
    require_chromium()
    with browser(tmp_path, 800, 600) as driver:
        found = {}
        for name in [*(path.stem for path in PAGES), "wide", "pushed"]:
            driver.get(f"file://{built}/{name}.html")
            found[name] = driver.execute_script("return document.documentElement.scrollWidth")
    assert found.pop("pushed") > 800
    assert {name: width for name, width in found.items() if width > 800} == {}


@pytest.mark.further
def test_a_button_copies_code_and_not_what_it_prints(built: Path, tmp_path: Path) -> None:
    require_chromium()
    with browser(tmp_path, 1280, 720) as driver:
        driver.get(f"file://{built}/index.html")
        buttons = driver.execute_script(
            "return [...document.querySelectorAll('.copybtn')].map(b => b.closest('.notranslate').className)"
        )
        shown = driver.execute_script("return document.querySelectorAll('div.highlight-text pre').length")
    assert len(buttons) == 4 and shown == 4
    assert all("highlight-python" in classes for classes in buttons)
