"""Sphinx configuration. Warnings are errors: `python -m sphinx -W -b html docs docs/_build/html`."""

import os
import re
import sys
import tomllib
from pathlib import Path
from tempfile import gettempdir

from sphinx.util import logging

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "docs"))

from api_build import context, link_pages, words, write_list  # noqa: E402
from formulas import with_formulas  # noqa: E402
from gallery_build import EXAMPLES  # noqa: E402
from reasons import split_errors  # noqa: E402

project = "connections"
author = "The connections developers"
copyright = "2026, The connections developers"
release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx.ext.napoleon",
    "mathml",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}  # the gallery is .rst
exclude_patterns = ["_build", "api/list.rst"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

html_theme = "furo"
html_math_renderer = "mathml"
html_title = "connections"
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["docs.css"]
html_favicon = "../connections/explorer/icon.svg"

# A button copies code without its prompts; what code prints has none.
copybutton_selector = ":not(.highlight-text):not(.highlight-none) > div.highlight > pre"
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

# The top bar. Each of these pages lists its own; the list is also the table of contents.
SECTIONS = {
    "tutorials": "Tutorials",
    "how_to": "How-to guides",
    "explanation": "Explanation",
    "reference": "Reference",
    "gallery/index": "Gallery",
}
html_context = {
    "sections": list(SECTIONS.items()),
    "published": os.environ.get(
        "DOCS_VERSION", ""
    ),  # the tag or branch, if it is one of several
}
html_theme_options = {"announcement": "sections"}  # docs/_templates/page.html fills it

nitpicky = False
default_role = "literal"
napoleon_google_docstring = False
napoleon_numpy_docstring = True
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]  # no objects of their own
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True  # the name of a default value, not its repr
python_maximum_signature_line_length = 80
autosummary_generate = ["api/list.rst"]
autosummary_context = context()
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_class_signature = "mixed"
add_module_names = False

# Each example runs when its page is built (`-D plot_gallery=0`: none runs).
_CHOSEN = "|".join(EXAMPLES)
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": rf"/({_CHOSEN})\.py$",
    "ignore_pattern": rf"^(?!({_CHOSEN})\.py$)",
    "within_subsection_order": "gallery_build.Order",
    "reset_argv": "gallery_build.arguments",
    "image_scrapers": ("gallery_build.figures",),
    "capture_repr": (),
    "download_all_examples": False,
    "write_computation_times": False,
}


def prepare_docstring(app, what, name, obj, options, lines):
    """Turn the project's docstrings into what napoleon reads: sections, fields, formulas, links to pages."""
    code, found = False, []
    for line in _split_fields(split_errors(_raise_source(lines))):
        code = line.lstrip().startswith(">>>") or (code and line.strip() != "")
        found.append(line if code else with_formulas(line, _escape))
    lines[:] = found


def _raise_source(lines):
    """Move the closing `Source:` paragraph before the first section, where it is text and not a field."""
    starts = [number for number, line in enumerate(lines) if line.startswith("Source:")]
    rules = [
        number for number, line in enumerate(lines) if re.fullmatch(r"-{3,}", line)
    ]
    if not starts or not rules or starts[-1] < rules[0]:
        return lines
    start, first_section = starts[-1], rules[0] - 1
    return [*lines[:first_section], *lines[start:], "", *lines[first_section:start]]


def _split_fields(lines):
    """Write `q : (..., nq) points` as a name with a description; napoleon would take the rest for a type."""
    section, fields = False, []
    for number, line in enumerate(lines):
        section |= number > 0 and re.fullmatch(r"-{3,}", line) is not None
        match = re.match(r"^(\w[\w, ]*?) : (.+)$", line) if section else None
        fields.extend([match.group(1), "    " + match.group(2)] if match else [line])
    return fields


def _escape(text):
    """Keep reST from reading markup into |X_i| and Gamma*."""
    text = re.sub(r"(?<=\w)_(?=\W|$)", r"\_", re.sub(r"([*|\\])", r"\\\1", text))
    return re.sub(r"\bdocs/(\w+)\.md\b", r":doc:`/\1`", text)


def index_words(app, docname, source):
    """Give a page the words of synonyms.toml in the index, below its title."""
    if entries := words().get(docname):
        title, _, rest = source[0].partition("\n")
        index = "".join(f"```{{index}} single: {word}\n```\n" for word in entries)
        source[0] = f"{title}\n\n{index}{rest}"


def require_words(app, env):
    """Warn of a word of synonyms.toml that the search would not find."""
    index = env.domains["index"].entries.items()
    found = {(value, page) for page, each in index for _, value, *_ in each}
    for place, each in words().items():
        page = place if "." not in place else f"api/{place}"
        for word in each:
            if (word, page) not in found:
                logging.getLogger(__name__).warning(
                    "synonyms.toml: %r does not lead to %s", word, page
                )


def link_gallery(app, docname, source):
    """Lead to an example's page in the gallery; in the repository, the same link leads to its file."""
    source[0] = re.sub(
        rf"\]\(\.\./examples/({_CHOSEN})\.py\)", r"](gallery/\1.rst)", source[0]
    )


def shorten_paths(app, docname, source):
    """Leave the names of the files that an example wrote; their folders were temporary."""
    if docname.startswith("gallery/"):
        source[0] = re.sub(rf"{re.escape(gettempdir())}/[\w-]+/", "", source[0])


def break_code(app, pagename, templatename, context, doctree):
    """Let long names of files and functions break after a slash, a dot or an underscore."""
    context["body"] = re.sub(
        r'(?<=<span class="pre">)[^<]{20,}',
        lambda match: re.sub(r"(?<=\w)([/._])(?=\w)", r"\1<wbr>", match[0]),
        context.get("body", ""),
    )


def list_pages(app, docname, source):
    """Make a section's table of contents from the list of links on its page."""
    if docname in SECTIONS and docname != "gallery/index":
        links = re.findall(r"^- \[(.*)\]\((\w+)\.md\)", source[0], re.MULTILINE)
    elif docname == "index":
        links = [(title, name) for name, title in SECTIONS.items()]
    else:
        return
    entries = "\n".join(f"{title} <{name}>" for title, name in links)
    source[0] += f"\n```{{toctree}}\n:hidden:\n\n{entries}\n```\n"


def setup(app):
    """Write the pages of names; prepare docstrings before napoleon (priority 500) reads them."""
    app.connect("builder-inited", write_list, priority=400)
    app.connect("source-read", link_pages)
    app.connect("source-read", link_gallery)
    app.connect("source-read", shorten_paths)
    app.connect("source-read", list_pages)
    app.connect("source-read", index_words)
    app.connect("env-check-consistency", require_words)
    app.connect("html-page-context", break_code)
    app.connect("autodoc-process-docstring", prepare_docstring, priority=400)
