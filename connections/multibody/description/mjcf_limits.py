"""Memory that an MJCF file makes MuJoCo allocate, by its text; and a trial in another process, if it is much.

Some elements of MJCF are many times as large as their text: copies by ``<replicate>``, grids, textures and
height fields of a stated size, models that are attached again and again. MuJoCo counts few of them before it
allocates. Here all are counted first, in the file and all files that it includes. A description within the
limits is compiled at once if it is small, as those of robots are. If it is larger, MuJoCo tries it in a
process with limits of memory and time, because its own time grows faster than the number of bodies.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from xml.etree.ElementTree import Element

from connections.checks import ModelError
from connections.multibody.description.files import MOST_ASSETS, MOST_BYTES, Text, file_of, open_regular
from connections.multibody.description.limited import MEMORY, SECONDS, run_limited
from connections.multibody.description.mjcf_inventory import Places
from connections.multibody.description.xml import MOST_ELEMENTS, in_utf8, parse_file

MOST_DEPTH = 500  # elements inside of each other, as MuJoCo's own reader; bodies are inside of each other
MOST_NUMBERS = 5 * 10**7  # that a file asks for by their count: pixels, heights, points, user data
#: Larger descriptions are tried in another process first.
UNTRIED_ELEMENTS, UNTRIED_COPIES, UNTRIED_NUMBERS, UNTRIED_ASSETS = 2_000, 100, 5 * 10**6, 2 * 10**7

#: Attributes whose product is a count, by element; and numbers for each. An attribute of ``<size>`` counts
#: once for each element.
_COUNTS: dict[str, tuple[tuple[str, ...], int]] = {
    "texture": (("width", "height", "nchannel"), 1),
    "hfield": (("nrow", "ncol"), 1),
    "flexcomp": (("count", "cellcount"), 100),
    "flex": (("cellcount",), 100),
    "numeric": (("size",), 1),
    "user": (("dim",), 1),
    "contact": (("num", "nsample"), 20),
}
_SAMPLES = (("nsample", "actdim"), 2)  # of actuators and other sensors
_INHERITED = {"width", "height", "nchannel", "nsample", "actdim", "resolution"}
_UNKNOWN = {"plugin", "flexcomp", "attach"}
_PER_ELEMENT = re.compile("nkey|nuser_.*")
_ONCE = re.compile("nuserdata|njmax|nconmax")
_NUMBER = re.compile(r"[0-9.]+(?:[eE][+-]?[0-9]+)?")
_FILES = re.compile("file.*")
_UNUSUAL = re.compile(r":|[/\\]{2}")  # a drive, or a name of MuJoCo's own; versions differ in two dividers
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass
class _Sizes:
    """The size of a description, with the models that are attached to it."""

    main: Path | Text
    read: int = 0  #: bytes
    elements: int = 0
    numbers: int = 0
    assets: int = 0
    unknown: bool = False  #: whether there is something of which the text does not tell the size
    included: set[Path] = field(default_factory=set)  #: none twice, as MuJoCo
    recoded: bytes | None = None  #: the main file in UTF-8, if it is in another encoding
    places: Places = field(default_factory=Places)  #: where it says what


def require_bounded(path: Path | Text) -> tuple[bytes | None, Places]:
    """The text for MuJoCo, if the file is in another encoding than UTF-8, and where the file says what.

    Parameters
    ----------
    path : an MJCF file, or its text.

    Raises
    ------
    ModelError : as by `xml.read_root`; the description would exhaust the memory or the time of this process:
        more than the limits of this module; a file that it includes or names is not a regular file, or has
        names in another encoding; MuJoCo needs more memory or time than the trial gives.
    """
    sizes = _Sizes(path)
    _Reader(sizes, path).read()
    if (
        sizes.unknown
        or sizes.elements > UNTRIED_ELEMENTS
        or sizes.numbers > UNTRIED_NUMBERS
        or sizes.assets > UNTRIED_ASSETS
    ):
        _try(path, sizes.recoded)
    return sizes.recoded, sizes.places


def files_for_mujoco(path: Path, recoded: bytes | None) -> tuple[bytes, dict[bytes, bytes]]:
    """A path, in the bytes that the system has for it, and files in memory that MuJoCo finds there.

    A text in memory has a name that no file has: MuJoCo takes it for every file of that name in any folder.
    """
    if recoded is None:
        return os.fsencode(path), {}
    name = os.fsencode(path.parent / secrets.token_hex(16))
    return name, {name: recoded}


def refusal(error: ValueError) -> ModelError:
    """The error of a description that MuJoCo refuses with an error, whose text may have bytes of a path."""
    reason = str(error)
    if isinstance(error, UnicodeDecodeError):
        reason = error.object.decode(errors="backslashreplace")
    return ModelError(f"MuJoCo refuses it: {' '.join(reason.split())}")


class _Reader:
    """The elements of one model: a main file, and the files that it includes.

    Parameters
    ----------
    sizes : of everything until now.
    path : the main file, or its text.
    models : main files that are being read, whose models have each other attached.
    copies : how often the model is attached.
    """

    def __init__(
        self, sizes: _Sizes, path: Path | Text, models: tuple[Path, ...] = (), copies: int = 1
    ) -> None:
        place = path.resolve() if isinstance(path, Path) else None
        self._sizes, self._folder = sizes, path.parent if isinstance(path, Path) else Path()
        self._path, self._models = path, models if place is None else (*models, place)
        self._elements = list(self._included(path, copies))
        compilers = [element for element, _ in self._elements if element.tag == "compiler"]
        named = {each.get(name, "") for each in compilers for name in ("assetdir", "meshdir", "texturedir")}
        self._folders = [self._folder, *(self._folder / name for name in sorted(named - {""}))]
        self._defaults = self._read_defaults()

    def read(self) -> None:
        """Count everything.

        Raises
        ------
        ModelError : as `require_bounded`.
        """
        cameras = [self._count(each, ("resolution",)) for each, _ in self._elements if each.tag == "camera"]
        for element, copies in self._elements:
            self._add_numbers(element, copies, max(cameras, default=1))
            # What refers to a copy is copied, too.
            if element.tag in _UNKNOWN or copies > UNTRIED_COPIES:
                self._sizes.unknown = True
            if element.tag == "model" and element.get("file"):
                self._attach(element)
            elif element.tag not in ("include", "mujoco"):
                for name in filter(_FILES.fullmatch, element.keys()):
                    self._add_asset(element.get(name, ""), copies)

    def _included(self, path: Path | Text, copies: int, above: str = "") -> Iterator[tuple[Element, int]]:
        """All elements of a file and those that it includes, each with the number of its copies.

        `above` is the element of the table in which the file is included.
        """
        if isinstance(path, Path):
            self._sizes.included.add(path.resolve())
        root, content = parse_file(path, MOST_BYTES - self._sizes.read, MOST_DEPTH)
        self._sizes.read += len(content)
        if isinstance(path, Path) or path.encoding is None:
            self._recode(path, root, content)
        if root.tag != "mujoco" and path == self._path and len(self._models) <= 1:
            raise ModelError(f"not MJCF: the root element is <{root.tag}>, not <mujoco>")
        waiting = [(root, copies, above)]
        while waiting:
            element, copies, above = waiting.pop()
            element.tag = element.tag.rpartition("}")[2]  # MuJoCo knows no namespaces
            if element is not root:  # of files that are included, a root of any name
                above = self._sizes.places.see(path, self._sizes.main, element, above)
            if element.tag == "replicate":
                copies *= _product(element.get("count", ""))
            self._sizes.elements += copies
            if self._sizes.elements > MOST_ELEMENTS:
                raise ModelError(f"more than {MOST_ELEMENTS:,} elements, copies and included files counted")
            yield element, copies
            waiting.extend((child, copies, above) for child in reversed(element))
            if element.tag == "include":
                folder = path.parent if isinstance(path, Path) else Path()
                yield from self._include(element.get("file", ""), folder, copies, above)

    def _recode(self, path: Path | Text, root: Element, content: bytes) -> None:
        """MuJoCo reads UTF-8, whatever a file declares: the main file is given to it so."""
        recoded = in_utf8(content)
        if recoded == content:
            return
        if path is self._sizes.main:
            self._sizes.recoded = recoded
        elif b"\0" in content or not all(
            each.isascii() for element in root.iter() for each in element.attrib.values()
        ):
            raise ModelError("MuJoCo reads UTF-8 only of files that others name; write this one in UTF-8")

    def _include(self, name: str, folder: Path, copies: int, above: str) -> Iterator[tuple[Element, int]]:
        for place in self._found((self._folder, folder), (name,)):
            if place.resolve() not in self._sizes.included:
                try:
                    yield from self._included(file_of(place), copies, above)
                except ModelError as error:
                    raise ModelError(f"<include file='{name[:200]}'>: {error}") from error

    def _found(self, folders: Iterable[Path], names: Iterable[str]) -> list[Path]:
        """All files that MuJoCo may take for one of the names; the size is unknown if it may find another."""
        wanted = [each for name in names if name for each in (name, _reduced(name))]
        joined = [os.path.join(folder, name) for folder in folders for name in wanted]
        places = [Path(path) for each in joined for path in (each, _reduced(each)) if os.path.exists(path)]
        if wanted and (not places or _UNUSUAL.search(wanted[0])):
            self._sizes.unknown = True
        return list({place.resolve(): place for place in places}.values())

    def _attach(self, element: Element) -> None:
        """The elements of a model, once for each time that it is attached."""
        self._sizes.unknown = True
        for place in self._found((self._folder,), (element.get("file", ""),)):
            if place.resolve() in self._models:
                raise ModelError("a model is attached to itself")
            names = (element.get("name"), place.stem)
            times = sum(
                copies
                for each, copies in self._elements
                if each.tag == "attach" and each.get("model") in names
            )
            inner = _Reader(self._sizes, file_of(place), self._models, max(1, times))
            inner.read()

    def _add_numbers(self, element: Element, copies: int, pixels: int) -> None:
        attributes, each = _COUNTS.get(element.tag, _SAMPLES)
        numbers = each * self._count(element, attributes)
        if element.tag == "size":
            for name, value in element.items():
                if _PER_ELEMENT.fullmatch(name):
                    numbers += _product(value) * self._sizes.elements
                elif _ONCE.fullmatch(name):
                    numbers += _product(value)
        elif element.tag == "rangefinder" and element.get("camera"):
            numbers += pixels * self._count(element, ("nsample",))
        elif element.tag == "mesh" and element.get("builtin"):  # grids of these on both sides
            numbers += 50 * max((_value(word) for word in element.get("params", "").split()), default=0) ** 2
        self._require_numbers(numbers * copies)

    def _count(self, element: Element, attributes: tuple[str, ...]) -> int:
        """The product of all numbers in the attributes that an element has, or that defaults give it."""
        given = ((element.get(name), self._defaults.get(name, 1)) for name in attributes)
        return prod(default if value is None else _product(value) for value, default in given)

    def _read_defaults(self) -> dict[str, int]:
        """The largest count for each attribute in ``<default>``, whichever element it is for."""
        largest: dict[str, int] = {}
        for default in (element for element, _ in self._elements if element.tag == "default"):
            for each in (part for part in default if part.tag != "default"):
                for name in _INHERITED.intersection(each.keys()):
                    largest[name] = max(largest.get(name, 1), _product(each.get(name, "")))
        return largest

    def _require_numbers(self, more: int) -> None:
        self._sizes.numbers += more
        if self._sizes.numbers > MOST_NUMBERS:
            raise ModelError(
                f"its elements ask for more than {MOST_NUMBERS:,} numbers, the most that is read"
            )

    def _add_asset(self, name: str, copies: int) -> None:
        """A mesh, texture or height field, wherever the compiler's folders let MuJoCo find it."""
        for place in self._found(self._folders, (name, Path(name.replace("\\", "/")).name)):
            try:
                with open_regular(place) as file:
                    self._sizes.assets += copies * os.fstat(file.fileno()).st_size
                    head = file.read(24)
            except ModelError as error:
                raise ModelError(f"'{name[:200]}': {error}") from error
            if self._sizes.assets > MOST_ASSETS:
                raise ModelError(f"its meshes and pictures have more than {MOST_ASSETS // 10**6} MB")
            if head.startswith(_PNG):
                width, height = (int.from_bytes(head[at : at + 4]) for at in (16, 20))
                self._require_numbers(copies * width * height)


def _reduced(name: str) -> str:
    """A path as MuJoCo opens it: a backslash divides, and ``..`` undoes what is before it."""
    return os.path.normpath(name.replace("\\", "/"))


def _product(text: str) -> int:
    """The product of all numbers in a text; those of zero and less are errors of MuJoCo's."""
    return prod(max(1, _value(word)) for word in _NUMBER.findall(text)[:10])


def _value(word: str) -> int:
    try:
        return int(min(float(word), 1e18))
    except (ValueError, OverflowError):
        return 0


# --- the trial ---------------------------------------------------------------------------------------------

_TRIAL = """
import os
import mujoco
mujoco.set_mju_user_warning(lambda text: None)  # or it writes them to a file in the current folder
text = sys.stdin.buffer.read()
try:
    if len(sys.argv) > 1:
        name = os.fsencode(sys.argv[1])
        mujoco.MjModel.from_xml_path(name, {name: text} if text else {})
    else:
        mujoco.MjModel.from_xml_string(text)
except ValueError as error:  # also "Could not allocate memory", which must not be tried without limits
    sys.stdout.buffer.write(error.object if isinstance(error, UnicodeDecodeError) else str(error).encode())
    sys.exit(2)
except (RuntimeError, MemoryError):
    sys.exit(3)
"""


def _try(path: Path | Text, recoded: bytes | None) -> None:
    """Compile a description in another process.

    Raises
    ------
    ModelError : MuJoCo refuses it, needs more memory or time, or cannot be started.
    """
    if isinstance(path, Path):
        name, files = files_for_mujoco(path.absolute(), recoded)
        done = run_limited(_TRIAL, [os.fsdecode(name)], files.get(name, b""))
    else:
        done = run_limited(_TRIAL, [], recoded or path.content)
    if done is not None and done.returncode == 2:
        raise refusal(ValueError(done.stdout.decode(errors="backslashreplace")))
    if done is None or done.returncode:
        raise ModelError(
            f"MuJoCo does not compile it in {SECONDS} s and with {MEMORY // 2**30} GiB of memory: "
            "take fewer bodies, copies or pixels"
        )
