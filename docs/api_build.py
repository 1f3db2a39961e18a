"""The reference of names: the tables of api.md, and a page for each room, written when the pages are built.

`python docs/api_build.py` writes the tables of docs/api.md, and a test compares them with the package.
"""

import importlib
import inspect
import re
import tomllib
from fnmatch import fnmatchcase
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
    "connections.multibody.joints": (
        "from connections import multibody as mb  # mb.joints",
        "More of joints: limits, motors, springs",
    ),
    "connections.multibody.curvatures": (
        "from connections import multibody as mb  # mb.curvatures",
        "Curvatures of robots",
    ),
    "connections.multibody.codegen": (
        "from connections import multibody as mb  # mb.codegen",
        "Functions of robots for other programs",
    ),
    "connections.geometry": ("from connections import geometry", "More of spaces"),
    "connections.spaces": ("from connections import spaces", "Spaces by name"),
    "connections.affine": ("from connections import affine", "More of connections"),
    "connections.coriolis": (
        "from connections import coriolis",
        "More of Coriolis matrices",
    ),
    "connections.estimation": (
        "from connections import estimation",
        "Filters and smoothers",
    ),
    "connections.certified": (
        "from connections import certified",
        "Constants at every posture",
    ),
    "connections.control": (
        "from connections import control",
        "Control, LQR",
    ),
    "connections.control.controllability": (
        "from connections import control  # control.controllability",
        "Controllability",
    ),
    "connections.control.results": (
        "from connections import control  # control.results",
        "Results of control",
    ),
    "connections.control.errors": (
        "from connections import control  # control.errors",
        "Errors of control",
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
    "connections.referee": (
        "from connections import referee",
        "Any library's dynamics, judged",
    ),
    "connections.verify": ("from connections import verify", "Propositions as checks"),
    "connections.sweeps": ("from connections import sweeps", "Sweeps"),
    "connections.plots": ("from connections import plots", "Figures"),
    "connections.explorer": (
        "from connections import explorer",
        "The page in the browser",
    ),
    "connections.checks": ("from connections import checks", "Checks and errors"),
}


#: The group of names that no pattern of name_groups.toml fits.
OTHERS = "Others"

#: Pages that mention nearly all names.
LISTS = {"api", "changelog", "contributing", "errors", "equations", "decisions"}


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
    for room, by_title in groups().items():
        statement, title = ROOMS[room]
        prefix = statement.split()[-1]
        parts += [f"## {title}", "", f"`{statement}`", ""]
        for group, names in by_title.items():
            parts += [f"### {group}", "", "| name | what it is |", "|---|---|"]
            parts += [
                f"| [`{prefix}.{name}`]({_file(room, name)}) | {_summary(room, name)} |"
                for name in names
            ]
            parts.append("")
    return "\n".join(parts)


def _module(room, name):
    thing = getattr(importlib.import_module(room), name)
    module = getattr(thing, "__module__", None) or room
    return module if module.startswith("connections") else room


def _file(room, name):
    module = _module(room, name)
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


def write_list(app):
    """Write the list of rooms and names, from which autosummary makes a page for each.

    It is no page itself, and pages of names are in no table of contents: each of 400 would have one
    of 400 lines.
    """
    folder = ROOT / "docs" / "api"
    folder.mkdir(exist_ok=True)
    names = [f"{room}.{name}" for room, each in public_names().items() for name in each]
    for page in folder.glob("*.rst"):
        if page.stem not in {*ROOMS, *names}:
            page.unlink()
    text = ""
    for template, entries in {"room": ROOMS, "base": names}.items():
        text += f".. autosummary::\n   :toctree:\n   :template: autosummary/{template}.rst\n\n"
        text += "".join(f"   {entry}\n" for entry in entries) + "\n"
    (folder / "list.rst").write_text(text)


def context():
    """Return what the templates of these pages ask for."""
    return {
        "statements": {room: statement for room, (statement, _) in ROOMS.items()},
        "titles": {room: title for room, (_, title) in ROOMS.items()},
        "groups": groups(),
        "words": words(),
        "see_also": see_also(),
    }


def groups():
    """Return {room: {title of a group: names}}, by the patterns of name_groups.toml."""
    patterns = tomllib.loads((ROOT / "docs" / "name_groups.toml").read_text())
    found = {}
    for room, names in public_names().items():
        of_room = patterns.get(room, {})
        by_title = {title: [] for title in of_room}
        for name in names:
            place = f"{_module(room, name)}.{name}".removeprefix("connections.")
            fitting = [
                title
                for title, each in of_room.items()
                if name in each or any(fnmatchcase(place, one) for one in each)
            ]
            by_title.setdefault(fitting[0] if fitting else OTHERS, []).append(name)
        found[room] = {title: each for title, each in by_title.items() if each}
    return found


def words():
    """Return {full name, or page: the words of synonyms.toml under which a search finds it}."""
    table = tomllib.loads((ROOT / "docs" / "synonyms.toml").read_text())
    found = {}
    for word, places in table.items():
        for place in places:
            found.setdefault(place, []).append(word)
    return found


def see_also():
    """Return {full name: links to the other names of its group and to the pages that use it}."""
    pages = {
        path.stem: path.read_text()
        for path in sorted((ROOT / "docs").glob("*.md"))
        if path.stem not in LISTS
    }
    found = {}
    for room, by_title in groups().items():
        prefix = ROOMS[room][0].split()[-1]
        for names in by_title.values():
            for name in names:
                use = re.compile(rf"\b{prefix}\.{name}\b")
                links = [f":py:obj:`{other}`" for other in names if other != name]
                links += [
                    f":doc:`/{page}`"
                    for page, text in pages.items()
                    if use.search(text)
                ]
                found[f"{room}.{name}"] = ", ".join(links)
    return found


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
    entries = "\n".join(f"api/{room}" for room in ROOMS)
    source[0] += f"\n```{{toctree}}\n:hidden:\n\n{entries}\n```\n"


if __name__ == "__main__":
    head, _ = API.read_text().split("<!-- names -->\n")
    API.write_text(f"{head}<!-- names -->\n\n{tables()}")
