"""The reference of names: the tables of api.md, and a page for each room, written when the pages are built.

`python docs/api_build.py` writes the tables of docs/api.md, and a test compares them with the package.
"""

import importlib
import inspect
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
API = ROOT / "docs" / "api.md"

#: A room, as it is imported, and what it holds. A name belongs to the first room that exports it.
ROOMS = {
    "connections": (
        "import connections as cn",
        "Spaces, connections and their Coriolis matrices",
    ),
    "connections.multibody": ("from connections import multibody as mb", "Robots"),
    "connections.geometry": ("from connections import geometry", "More of spaces"),
    "connections.affine": ("from connections import affine", "More of connections"),
    "connections.coriolis": (
        "from connections import coriolis",
        "More of Coriolis matrices",
    ),
    "connections.control": (
        "from connections import control",
        "Control, controllability, LQR",
    ),
    "connections.control.tracking_example": (
        "from connections.control import tracking_example",
        "The tracking example of the paper",
    ),
    "connections.symbolic": ("from connections import symbolic", "Closed forms"),
    "connections.systems": (
        "from connections import systems",
        "Named systems with wheels",
    ),
    "connections.interop": ("from connections import interop", "Other libraries"),
    "connections.verify": ("from connections import verify", "Propositions as checks"),
    "connections.sweeps": ("from connections import sweeps", "Sweeps"),
    "connections.plots": ("from connections import plots", "Figures"),
    "connections.explorer": (
        "from connections import explorer",
        "The page in the browser",
    ),
    "connections.checks": ("from connections import checks", "Checks and errors"),
}


def public_names():
    """Return {room: names} without repetition."""
    seen, rooms = set(), {}
    for room in ROOMS:
        module = importlib.import_module(room)
        own = [
            name
            for name, thing in vars(module).items()
            if getattr(thing, "__module__", "") == room
        ]
        names = getattr(
            module, "__all__", [name for name in own if not name.startswith("_")]
        )
        things = {name: getattr(module, name) for name in sorted(names, key=str.lower)}
        rooms[room] = [
            name
            for name, thing in things.items()
            if _key(room, name, thing) not in seen
        ]
        seen |= {_key(room, name, thing) for name, thing in things.items()}
    return rooms


def _key(room, name, thing):
    return (getattr(thing, "__module__", None) or room, name)


def tables():
    """Return the Markdown of all tables: each name with the file that defines it, and its summary."""
    parts = []
    for room, names in public_names().items():
        statement, title = ROOMS[room]
        prefix = statement.split()[-1]
        parts += [
            f"## {title}",
            "",
            f"`{statement}`",
            "",
            "| name | what it is |",
            "|---|---|",
        ]
        parts += [
            f"| [`{prefix}.{name}`]({_file(room, name)}) | {_summary(room, name)} |"
            for name in names
        ]
        parts.append("")
    return "\n".join(parts)


def _file(room, name):
    module = (
        getattr(getattr(importlib.import_module(room), name), "__module__", None)
        or room
    )
    module = module if module.startswith("connections") else room
    path = ROOT / module.replace(".", "/")
    return "../" + str(
        (
            path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        ).relative_to(ROOT)
    )


def _summary(room, name):
    thing = getattr(importlib.import_module(room), name)
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return f"a constant, `{type(thing).__name__}`"
    first = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return re.sub(r"([|*<~])", r"\\\1", first)


def write_pages(app):
    """Write a page for each room into docs/api/, with the docstrings of its public names."""
    folder = ROOT / "docs" / "api"
    folder.mkdir(exist_ok=True)
    for room, names in public_names().items():
        title = ROOMS[room][1]
        lines = [
            title,
            "=" * len(title),
            "",
            f"``{ROOMS[room][0]}``",
            "",
            f".. currentmodule:: {room}",
            "",
        ]
        module = importlib.import_module(room)
        for name in names:
            lines += [f".. {_directive(getattr(module, name))}:: {name}", ""]
        page = folder / f"{room.replace('.', '_')}.rst"
        text = "\n".join(lines)
        if (
            not page.exists() or page.read_text() != text
        ):  # otherwise Sphinx reads it again
            page.write_text(text)


def _directive(thing):
    if inspect.isclass(thing):
        return "autoexception" if issubclass(thing, BaseException) else "autoclass"
    return (
        "autofunction" if inspect.isroutine(thing) else "py:data"
    )  # data: no docstring but its type's


def link_pages(app, docname, source):
    """In the built pages, a name of api.md leads to its docstring, and the rooms are the page's contents."""
    if docname != "api":
        return
    for room, names in public_names().items():
        prefix = ROOMS[room][0].split()[-1]
        for name in names:
            link = f"[`{prefix}.{name}`]({_file(room, name)})"
            source[0] = source[0].replace(
                link, f"{{py:obj}}`{prefix}.{name} <{room}.{name}>`"
            )
    entries = "\n".join(f"api/{room.replace('.', '_')}" for room in ROOMS)
    source[0] += f"\n```{{toctree}}\n:hidden:\n\n{entries}\n```\n"


if __name__ == "__main__":
    head, _ = API.read_text().split("<!-- names -->\n")
    API.write_text(f"{head}<!-- names -->\n\n{tables()}")
