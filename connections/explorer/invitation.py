"""The address of the page for this user's browser, and for nobody else who looks at the machine.

The address contains the token, and every user of a machine can read the command lines of all processes. So a
browser is not started with it, but with a file that only this user can read and that leads to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from connections._written import write_file

_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>connections: explorer</title>
<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url={url}"></head>
<body><a href="{url}">The explorer</a></body></html>
"""


@contextmanager
def invitation(url: str) -> Iterator[str]:
    """The address of a file that leads to `url`; after the block there is no such file.

    Parameters
    ----------
    url : of the page, with its token.
    """
    with TemporaryDirectory(prefix="connections_explorer_") as folder:  # its mode is 0700
        yield write_file(Path(folder) / "explorer.html", _PAGE.format(url=escape(url))).as_uri()
