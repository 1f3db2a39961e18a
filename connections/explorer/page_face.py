"""The name and the icon of the page in the browser's tab, in place of viser's.

Viser serves its page as one HTML document, and has no option for its title and its icon. The server's
responses pass through `access.behind`, where `renamed` writes ours into the document's head.
"""

from __future__ import annotations

import gzip
import re
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from websockets.http11 import Response

from connections._shown import MOST, as_html

ICON = Path(__file__).with_name("icon.svg")  # also of the documentation
_TITLE = re.compile(rb"<title>.*?</title>", re.DOTALL)
_LINK = re.compile(rb'<link\s[^>]*?rel="icon"[^>]*>', re.DOTALL)


def renamed(response: Response, title: str) -> None:
    """Give a response the title and the project's icon, if it is an HTML document with a title and an icon.

    Parameters
    ----------
    response : changed in place; others than HTML documents stay as they are.
    title : text.
    """
    if response.status_code == 200 and response.headers.get("Content-Type", "").startswith("text/html"):
        packed = response.headers.get("Content-Encoding") == "gzip"
        response.body = _renamed(bytes(response.body or b""), title, packed)
        del response.headers["Content-Length"]
        response.headers["Content-Length"] = str(len(response.body))


@lru_cache(maxsize=8)
def _renamed(document: bytes, title: str, packed: bool) -> bytes:
    content = gzip.decompress(document) if packed else document
    icon = f'<link rel="icon" href="data:image/svg+xml,{quote(ICON.read_text())}" />'
    for place, text in ((_TITLE, f"<title>{as_html(title, MOST)}</title>"), (_LINK, icon)):
        content = place.sub(text.encode().replace(b"\\", rb"\\"), content, count=1)
    return gzip.compress(content) if packed else content
