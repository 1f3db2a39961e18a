"""Text that came from a file, such as the names of a robot's joints, as a person is shown it.

Such a text is a stranger's. It may contain sequences that a terminal obeys, characters that are not seen or
turn the direction of what follows, and it may be as long as the file. `shown` makes it printable and short.
What a page, a table or a program would read as a command of its own is escaped by one function for each.
"""

from __future__ import annotations

import html
import re
from typing import Any

MOST = 200  # characters of a name
MOST_OF_MESSAGE = 2000

# Letters and marks that are not seen, though Python counts them as printable.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
# What begins a command of Markdown. An underscore within a word does not.
_IN_MARKDOWN = re.compile(r"[\\`*{}\[\]()#!|~$:@]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|(?<=\bwww)\.")


def shown(text: object, most: int = MOST) -> str:
    """A text in one line of printable characters; others are written as in Python's ``repr``.

    Parameters
    ----------
    text : any object; its ``str``.
    most : of a longer text, so many characters are left, and a mark says how many it had.
    """
    whole = str(text)
    found = whole[:most]
    if not (found.isascii() and found.isprintable()):
        found = "".join(map(_printable, found))
    return found if len(whole) <= most else f"{found}... ({len(whole)} characters)"


def shown_lines(text: object, most: int = MOST_OF_MESSAGE) -> str:
    """A text of several lines in printable characters; its line breaks are this library's, as in an error."""
    whole = str(text)
    lines = "\n".join(shown(line, most) for line in whole[:most].split("\n"))
    return lines if len(whole) <= most else f"{lines}... ({len(whole)} characters)"


class Shown(BaseException):
    """An error or a warning whose text is made of names that came from files; ``args`` has it as it was.

    It is pickled and copied by its text and its attributes, not by calling a constructor, which may take
    other arguments: an error that cannot be read again stops a pool of processes for ever.
    """

    def __str__(self) -> str:
        return shown_lines(super().__str__())

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args), vars(self)


def _again(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """An error of a kind, without its constructor."""
    return kind.__new__(kind, *args)


def as_html(text: object, most: int = MOST_OF_MESSAGE) -> str:
    """A text as HTML, between tags or in quotes."""
    return html.escape(shown_lines(text, most))


def as_markdown(text: object, most: int = MOST) -> str:
    """A text within a line of Markdown, or a cell of a table."""
    line = _IN_MARKDOWN.sub(lambda found: f"\\{found[0]}", shown(text, most))
    return html.escape(line, quote=False)  # not every reader of Markdown takes a backslash before < for text


def as_c_comment(text: object, most: int = MOST) -> str:
    """A text in ASCII within a comment of C."""
    plain = shown(text, most).encode("ascii", "backslashreplace").decode()
    return plain.replace("*/", "* /").replace("/*", "/ *")


def as_label(text: object, most: int = 60) -> str:
    """A text in a figure, where matplotlib reads what is between dollars as a formula."""
    return shown(text, most).replace("$", r"\$")


def _printable(sign: str) -> str:
    seen = sign.isprintable() and not _UNSEEN.match(sign)
    return sign if seen else sign.encode("unicode_escape").decode()
