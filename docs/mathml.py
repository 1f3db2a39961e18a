"""Formulas as MathML, made from TeX at build time: browsers show it without scripts or a network."""

import re
import unicodedata

from docutils.nodes import SkipNode
from latex2mathml.converter import convert
from sphinx.util import logging


def mathml(tex, display="inline", place=None):
    """Return the MathML of a formula; a command that the converter does not know is a warning."""
    markup = convert(" ".join(tex.split()), display=display)
    unknown = re.findall(r"\\[a-zA-Z]+", markup)
    if unknown:
        logging.getLogger(__name__).warning(
            "no MathML for %s", ", ".join(unknown), location=place
        )
    upright = re.sub(
        r"<mi>(&#x003(?:9|A)[0-9A-F];)</mi>",
        r'<mi mathvariant="normal">\1</mi>',
        markup,
    )
    spaced = _FUNCTION.sub(_with_spaces, upright)
    return re.sub(
        r'<mi mathvariant="(bold|script|sans-serif|double-struck)">(\w)</mi>',
        _letter,
        spaced,
    )


_FUNCTION = re.compile(
    r"(</m(?:i|n|sub|sup)>)?((?:<msup>)?<mi>(?:sin|cos|tan|log|exp)</mi>(?:<mn>\d</mn></msup>)?)(?=(<mo)?)"
)


def _with_spaces(match):
    """Set a function apart from what it stands between, as TeX does: sin t and not sint."""
    before, function, bracket = match.groups()
    space = '<mspace width="0.17em"/>'
    return f"{before + space if before else ''}{function}{'' if bracket else space}"


def _letter(match):
    """Write a bold or script letter as a character of its own: browsers do not know these variants."""
    style = match.group(1).upper()
    name = unicodedata.name(match.group(2)).replace("LATIN ", "").replace("LETTER ", "")
    try:
        return f"<mi>{unicodedata.lookup(f'MATHEMATICAL {style} {name}')}</mi>"
    except KeyError:  # those that Unicode had before the others
        return f"<mi>{unicodedata.lookup(f'{style} {name}')}</mi>"


def visit_inline(self, node):
    """Write a formula in a line."""
    self.body.append(mathml(node.astext(), "inline", node))
    raise SkipNode


def visit_block(self, node):
    """Write a formula in a line of its own."""
    self.body.append(f'<div class="math">{mathml(node.astext(), "block", node)}</div>')
    raise SkipNode


def setup(app):
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
