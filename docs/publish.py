"""Put built pages beside those of other versions: `python docs/publish.py SITE HTML NAME`.

HTML becomes the folder NAME of SITE, a tag such as v0.2.0 or a branch. `SITE/versions.html` lists the
folders, and `SITE/index.html` leads to the newest tag.
"""

import re
import shutil
import sys
from pathlib import Path

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>connections</title>{head}</head>
<body style="font-family: sans-serif; margin: 3em"><h1>connections: versions</h1>
<ul>{links}</ul></body></html>
"""


def numbers(name):
    """The numbers of a tag, by which tags are sorted; a branch has none, and comes last."""
    return [int(part) for part in re.findall(r"\d+", name)] if name[0] == "v" else []


def publish(site, html, name):
    """Replace one version, and write the list of all."""
    shutil.rmtree(site / name, ignore_errors=True)
    shutil.copytree(html, site / name)
    (site / ".nojekyll").touch()  # GitHub Pages would leave out folders such as _static
    versions = sorted(
        (page.parent.name for page in site.glob("*/index.html")),
        key=numbers,
        reverse=True,
    )
    links = "".join(
        f'<li><a href="{each}/index.html">{each}</a></li>' for each in versions
    )
    newest = f'<meta http-equiv="refresh" content="0; url={versions[0]}/index.html">'
    (site / "versions.html").write_text(PAGE.format(head="", links=links))
    (site / "index.html").write_text(PAGE.format(head=newest, links=links))


if __name__ == "__main__":
    publish(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
