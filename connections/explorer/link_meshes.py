"""The surfaces of a robot's bodies, from the visuals of its URDF file and the meshes that they name.

Meshes are read in a process of their own (`mesh_reading`), once for each file, with limits of memory and
time: the size of a file tells little of what a library makes of it.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from connections import multibody as mb
from connections.checks import ModelError
from connections.explorer.drawing import Rgb
from connections.multibody.description.files import MOST_ASSETS
from connections.multibody.description.limited import MEMORY, SECONDS, run_limited
from connections.multibody.description.urdf_visuals import Visual, read_visuals

MOST_TRIANGLES = 3 * 10**6  # of a robot, and of a file
MOST_SURFACES = 10**4
MOST_PIXELS = 2**25  # of a picture whose mean colour is taken

_PLAIN: Rgb = (200, 204, 210)  # where no file gives a colour
_NAMED = 3  # reasons that are spelled out
_FORMATS = (".stl", ".dae", ".obj", ".ply", ".off", ".glb", ".gltf")
_WITH_NORMALS = (".dae", ".glb", ".gltf")  # formats whose vertices are split at edges
_PROGRAM = "import runpy; runpy.run_path(sys.argv[1], run_name='__main__')"


@dataclass(frozen=True, eq=False)
class Surface:
    """Triangles of one colour on one body.

    Parameters
    ----------
    body : its number in ``model.body_names``; -1 for the ground.
    vertices : (V, 3) float32, m, in the body's frame.
    faces : (F, 3) uint32, numbers of vertices.
    color : of the triangles.
    opacity : from 0 to 1.
    smooth : whether the shade changes within a triangle.
    """

    body: int
    vertices: np.ndarray
    faces: np.ndarray
    color: Rgb
    opacity: float
    smooth: bool


def surfaces(model: mb.Model, urdf: str | os.PathLike[str]) -> tuple[tuple[Surface, ...], str]:
    """The surfaces of a robot's visuals, and a sentence about those that are left out; empty if none are.

    Parameters
    ----------
    model : the robot.
    urdf : the file that describes it.

    Raises
    ------
    ModelError : there is no such file, or it is no URDF.
    """
    visuals, failures = read_visuals(urdf)
    left_out = len(failures)
    files = _read(list(dict.fromkeys(visual.file for visual in visuals if visual.file is not None)))
    found: list[Surface] = []
    triangles = 0
    for visual in visuals:
        try:
            more = _surfaces(model, visual, files)
            triangles += sum(len(surface.faces) for surface in more)
            if triangles > MOST_TRIANGLES or len(found) + len(more) > MOST_SURFACES:
                raise ValueError(f"more than {MOST_TRIANGLES:,} triangles, or {MOST_SURFACES:,} parts")
            found += more
        except Exception as error:  # of trimesh, about shapes
            reason = " ".join(str(error).split())[:160] or type(error).__name__
            failures.append(f"{visual.file.name if visual.file else visual.link}: {reason}")
    return tuple(found), _sentence(failures, len(visuals) + left_out, Path(urdf).name) if failures else ""


def _sentence(failures: list[str], count: int, file: str) -> str:
    reasons = list(dict.fromkeys(failures))
    named = "; ".join(reasons[:_NAMED]) + (f"; and {len(reasons) - _NAMED} more" if reasons[_NAMED:] else "")
    return (
        f"Not drawn: {len(failures)} of the {count} visuals in {file} ({named}). "
        "Bodies without visuals are drawn as ellipsoids."
    )


@dataclass(frozen=True, eq=False)
class _Part:
    """Triangles of one colour, in the frame of a file or of a shape."""

    vertices: np.ndarray  #: (V, 3)
    faces: np.ndarray  #: (F, 3)
    placement: np.ndarray  #: (4, 4), m
    color: tuple[float, ...] | None  #: four numbers from 0 to 255; None if the URDF file decides


def _surfaces(model: mb.Model, visual: Visual, files: Mapping[Path, list[_Part] | str]) -> list[Surface]:
    placements = model.kinematics.tree.placements
    if visual.link not in placements:
        raise ValueError("the robot has no such link")
    body, pose = placements[visual.link]
    pose = pose @ visual.placement
    found = []
    for part in _parts(visual, files):
        placed = pose @ part.placement
        with np.errstate(over="ignore"):
            vertices = (part.vertices @ placed[:3, :3].T + placed[:3, 3]).astype(np.float32)
        if not np.isfinite(vertices).all():
            raise ValueError("its points are too far away")
        color = _color(part, visual)
        found.append(
            Surface(
                body=body,
                vertices=np.ascontiguousarray(vertices),
                faces=np.ascontiguousarray(part.faces, dtype=np.uint32),
                color=(int(color[0]), int(color[1]), int(color[2])),
                opacity=float(color[3]) / 255.0,
                smooth=visual.kind == "sphere"
                or (visual.file is not None and visual.file.suffix.lower() in _WITH_NORMALS),
            )
        )
    if not found:
        raise ValueError("no triangles can be read from it")
    return found


def _parts(visual: Visual, files: Mapping[Path, list[_Part] | str]) -> Iterator[_Part]:
    """Triangles in the visual's frame, scale included."""
    if visual.file is not None:
        parts = files[visual.file]
        if isinstance(parts, str):
            raise ValueError(parts)
        scale = np.diag([*visual.sizes, 1.0])
        for part in parts:
            yield _Part(part.vertices, part.faces, scale @ part.placement, part.color)
        return
    import trimesh

    match visual.kind:
        case "box":
            shape = trimesh.creation.box(extents=visual.sizes)
        case "cylinder":
            radius, length = visual.sizes
            shape = trimesh.creation.cylinder(radius, length, sections=48)
        case _:
            shape = trimesh.creation.icosphere(3, visual.sizes[0])
    yield _Part(np.asarray(shape.vertices), np.asarray(shape.faces), np.eye(4), None)


def _color(part: _Part, visual: Visual) -> Any:
    """Four numbers from 0 to 255: the mesh's own colour, or the URDF file's."""
    if part.color is not None:
        return part.color
    return (*_PLAIN, 255) if visual.color is None else np.rint(255.0 * np.array(visual.color))


# --- files of meshes ---------------------------------------------------------------------------------------


def _read(files: list[Path]) -> dict[Path, list[_Part] | str]:
    """{file: its parts, or in words why it cannot be read}."""
    found: dict[Path, list[_Part] | str] = {
        file: f"expected a mesh of one of the formats {', '.join(_FORMATS)}"
        for file in files
        if file.suffix.lower() not in _FORMATS
    }
    wanted = [file for file in files if file not in found]
    if not wanted:
        return found
    request: dict[str, Any] = {"bytes": MOST_ASSETS, "pixels": MOST_PIXELS}
    request |= {"triangles": MOST_TRIANGLES, "parts": MOST_SURFACES}
    request["files"] = [str(file.absolute()) for file in wanted]
    program = str(Path(__file__).with_name("mesh_reading.py"))
    try:
        done = run_limited(_PROGRAM, [program], json.dumps(request).encode())
    except ModelError as error:
        return found | dict.fromkeys(wanted, str(error))
    answers = io.BytesIO(b"" if done is None else done.stdout)
    for file in wanted:
        header = answers.readline()
        found[file] = _answer(json.loads(header), answers) if header.endswith(b"\n") else _TOO_MUCH
    return found


_TOO_MUCH = f"the meshes need more than {SECONDS} s or {MEMORY // 2**30} GiB of memory to be read"


def _answer(header: dict[str, Any], answers: io.BytesIO) -> list[_Part] | str:
    if "error" in header:
        return str(header["error"])
    parts = []
    for part in header["parts"]:
        sizes = 24 * part["vertices"], 12 * part["faces"]
        read = [answers.read(size) for size in sizes]
        if (len(read[0]), len(read[1])) != sizes:  # it was stopped while it wrote
            return _TOO_MUCH
        vertices = np.frombuffer(read[0], "<f8").reshape(-1, 3)
        faces = np.frombuffer(read[1], "<u4").reshape(-1, 3)
        parts.append(_Part(vertices, faces, np.array(part["placement"]), part["color"]))
    return parts
