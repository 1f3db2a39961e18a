"""The name and the icon of the page in the browser's tab, in place of viser's, and what is seen at first.

Viser serves its page as one HTML document, and has no option for its title and its icon. The server's
responses pass through `access.behind`, where `renamed` writes ours into the document's head. Viser's program
takes seconds to start, and the first picture many more if functions are compiled; so the document also gets
a skeleton of the page, which is seen at once. It needs no script: a rule hides it when there is `DRAWN`.
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
_BODY = re.compile(rb'(?=<div id="root")')
DRAWN = "connections-drawn"  # the id of an element that the page gets with its first picture
_SKELETON = f"""<style>
#connections-skeleton {{ position: fixed; inset: 0; z-index: 1; pointer-events: none; background: #f7f7f8;
  font: 15px/1.6 system-ui, sans-serif; color: #444; }}
#connections-skeleton div {{ position: absolute; left: 60px; right: 380px; top: 30%; }}
@media (min-width: 1300px) {{ #connections-skeleton div {{ left: 420px; right: 440px; }} }}
#connections-skeleton svg {{ display: block; width: 100%; max-height: 40vh; }}
#connections-skeleton path {{ fill: none; stroke: #d3d3d8; stroke-width: 1.2; }}
#connections-skeleton path.moving {{ stroke: #1f5fbf; stroke-width: 2; stroke-dasharray: 30 190;
  animation: connections-run 1.6s linear infinite; }}
@keyframes connections-run {{ from {{ stroke-dashoffset: 220; }} to {{ stroke-dashoffset: 0; }} }}
body:has(#{DRAWN}) #connections-skeleton {{ display: none; }}
</style>
<div id="connections-skeleton"><div>
<svg viewBox="0 0 200 80"><path d="M10 70 60 30H195L150 70Z M23.3 60H161 M36.6 49.3H173 M48.3 40H184
M44 70 90 30 M78 70 125 30 M112 70 158 30" /><path d="M20 66C70 20 110 76 186 34" /><path class="moving"
d="M20 66C70 20 110 76 186 34" /></svg>
The first picture is being computed. Functions are compiled once on this machine, which takes
some seconds; the list at the right says which.
</div></div>
"""
_LINK = re.compile(rb'<link\s[^>]*?rel="icon"[^>]*>', re.DOTALL)


def renamed(response: Response, title: str) -> None:
    """Give a response the title, the project's icon and the skeleton, if it is viser's HTML document.

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
    ours = (_TITLE, f"<title>{as_html(title, MOST)}</title>"), (_LINK, icon), (_BODY, _SKELETON)
    for place, text in ours:
        content = place.sub(text.encode().replace(b"\\", rb"\\"), content, count=1)
    return gzip.compress(content) if packed else content
