"""The triangles of mesh files, in a process of its own with limits: a program that `link_meshes` starts.

It reads the request, JSON, from its standard input, and writes for each file a line of JSON and the arrays
that the line states. It imports nothing of the package, so that it starts in half a second.
"""

from __future__ import annotations

import io
import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

_FLAGS = sum(getattr(os, name, 0) for name in ("O_RDONLY", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"))


class _Folder:
    """Reads files of one folder and below, for a mesh that names others: materials, pictures, buffers.

    Parameters
    ----------
    folder : it.
    most : bytes of all files that are left to be read, in the only entry of a list that is shared.
    """

    def __init__(self, folder: Path, most: list[int]) -> None:
        self._folder, self._most = folder.resolve(), most

    def get(self, name: str) -> bytes:
        """The content of a file.

        Raises
        ------
        ValueError : elsewhere, not a regular file, or too large. OSError : it cannot be opened.
        """
        place = (self._folder / name.strip()).resolve()
        if not place.is_relative_to(self._folder):
            raise ValueError("it names a file outside of its folder")
        with os.fdopen(os.open(place, _FLAGS), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("not a regular file, but a folder, a pipe, a socket or a device")
            self._most[0] -= status.st_size
            if self._most[0] < 0:
                raise ValueError("the meshes of the robot are too large")
            return file.read(status.st_size)

    __getitem__ = get  # trimesh calls both


def _parts(file: Path, most: list[int], triangles: int, parts: int) -> Iterator[tuple[Any, np.ndarray]]:
    """The meshes in a file, with their placements (4, 4) in it, m."""
    import trimesh

    place = file.resolve()  # a workspace of ROS may be installed as links to its sources
    folder = _Folder(place.parent, most)
    content = io.BytesIO(folder.get(place.name))
    resolver: Any = folder  # has what trimesh calls
    scene = trimesh.load_scene(content, file_type=file.suffix.lower()[1:], resolver=resolver)
    units = scene.units  # of a COLLADA file, such as "0.0254 * meters"; None means metres
    factor = trimesh.units.unit_conversion(units, "meters") if units else 1.0
    scale = np.diag([factor, factor, factor, 1.0])
    for node in scene.graph.nodes_geometry:
        local, name = scene.graph.get(node)
        mesh = scene.geometry[name]
        if isinstance(mesh, trimesh.Trimesh) and len(mesh.faces):
            triangles, parts = triangles - len(mesh.faces), parts - 1
            if min(triangles, parts) < 0:
                raise ValueError("it has too many triangles or parts")
            yield mesh, scale @ local


def _color(mesh: Any) -> Any:
    """Four numbers from 0 to 255: the mesh's own colour, or the mean of a texture's; None if it has none."""
    look = mesh.visual
    if look.kind == "texture":
        image = getattr(look.material, "image", None) or getattr(look.material, "baseColorTexture", None)
        color = look.material.main_color if image is None else look.to_color().vertex_colors.mean(axis=0)
    elif look.kind is not None:
        color = look.main_color
    else:
        return None
    return [float(part) for part in color]


def _answer(file: Path, most: list[int], *limits: int) -> tuple[dict[str, Any], list[np.ndarray]]:
    try:
        parts, arrays = [], []
        for mesh, placement in _parts(file, most, *limits):
            vertices = np.ascontiguousarray(mesh.vertices, dtype="<f8")
            faces = np.ascontiguousarray(mesh.faces, dtype="<u4")
            sizes = {"vertices": len(vertices), "faces": len(faces)}
            parts.append(sizes | {"placement": placement.tolist(), "color": _color(mesh)})
            arrays += [vertices, faces]
        return {"parts": parts}, arrays
    except Exception as error:  # the libraries that read meshes raise errors of any kind
        return {"error": " ".join(str(error).split())[:160] or type(error).__name__}, []


def _main(out: BinaryIO) -> None:
    from PIL import Image

    request = json.load(sys.stdin.buffer)
    Image.MAX_IMAGE_PIXELS = request["pixels"] // 2  # Pillow refuses twice as many
    most = [int(request["bytes"])]
    for name in request["files"]:
        header, arrays = _answer(Path(name), most, request["triangles"], request["parts"])
        out.write(json.dumps(header).encode() + b"\n")
        for array in arrays:
            out.write(array.data)
        out.flush()


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    _main(answers)
