"""Sphinx configuration. Warnings are errors: `python -m sphinx -W -b html docs docs/_build/html`."""

import os
import re
import sys
from importlib.metadata import PackageNotFoundError, version

sys.path.insert(0, os.path.abspath(".."))

project = "connections"
author = "The connections developers"
copyright = "2026, The connections developers"
try:
    release = version("connections")
except PackageNotFoundError:  # built from a checkout that is not installed
    release = "0.1.0"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "connections"

nitpicky = False
default_role = "literal"
napoleon_google_docstring = False
napoleon_numpy_docstring = True
napoleon_use_param = False
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "show-inheritance": True}
# The names re-exported by the rooms are documented once, in the module that defines them.
autodoc_class_signature = "mixed"


def escape_mathematics(app, what, name, obj, options, lines):
    """Docstrings are plain text with mathematics (`|X_i|`, `Gamma*`, `dH_`): keep reST from reading markup into it."""
    for number, line in enumerate(lines):
        pieces = re.split(r"(``.+?``|`[^`]+`)", line)  # literals stay as they are
        for index in range(0, len(pieces), 2):
            piece = re.sub(r"([*|\\])", r"\\\1", pieces[index])
            pieces[index] = re.sub(r"(?<=\w)_(?=\W|$)", r"\\_", piece)
        lines[number] = "".join(pieces)


def setup(app):
    """Escape before napoleon (priority 500) reads the sections."""
    app.connect("autodoc-process-docstring", escape_mathematics, priority=400)
