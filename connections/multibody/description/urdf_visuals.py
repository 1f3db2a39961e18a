"""The looks of the links in a URDF file: boxes, cylinders, spheres, and meshes, which are files of their own.

Nothing is computed from them, so an element that cannot be understood is no error but a sentence. Files of
meshes are found here, and read by those who draw them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np

from connections.checks import ModelError
from connections.multibody.description.files import file_of, package_file
from connections.multibody.description.urdf_elements import (
    link_of,
    normal_turn,
    numbers_of,
    only,
    parse_frame,
)
from connections.multibody.description.xml import read_root

Rgba = tuple[float, float, float, float]
_SIZES = {"box": (("size", 3),), "cylinder": (("radius", 1), ("length", 1)), "sphere": (("radius", 1),)}


@dataclass(frozen=True, eq=False)
class Visual:
    """One ``<visual>`` of a link."""

    link: str
    #: (4, 4), m: its frame in the link's frame of the model, which a planar joint turns
    placement: np.ndarray
    kind: str  #: "box", "cylinder", "sphere" or "mesh"
    #: m: three edges, or radius and length (along z), or radius; of a mesh the scales of its three axes
    sizes: tuple[float, ...]
    file: Path | None  #: of the mesh
    color: Rgba | None  #: each from 0 to 1; None if the file gives none


def read_visuals(path: str | os.PathLike[str]) -> tuple[list[Visual], list[str]]:
    """The visuals of all links of a URDF file, and a phrase about each one that is left out.

    Parameters
    ----------
    path : the file.

    Raises
    ------
    ModelError : there is no such file, or it is no URDF.
    """
    file = file_of(path)
    root = read_root(file, "robot", "a URDF")
    found, failures = [], []
    for link in root.findall("link"):
        owner = f"link '{link.get('name')}'"
        for element in link.findall("visual"):
            try:
                found.append(_visual(owner, link.get("name", ""), element, root, file))
            except ModelError as error:
                failures.append(str(error))
    return found, failures


def _visual(owner: str, link: str, element: Element, root: Element, file: Path) -> Visual:
    geometry = only(owner, element, "geometry")
    if geometry is None or not len(geometry):
        raise ModelError(f"{owner}: its <visual> has no geometry")
    shape, origin = geometry[0], only(owner, element, "origin")
    kind, mesh = str(shape.tag), None
    if kind == "mesh":
        mesh = _mesh_file(owner, shape.get("filename", ""), file)
        count = len(shape.get("scale", "1 1 1").split())
        scale = numbers_of(owner, shape, "scale", 1 if count == 1 else 3) if shape.get("scale") else [1.0]
        sizes = scale * 3 if len(scale) == 1 else scale
    elif kind in _SIZES:
        sizes = [size for name, count in _SIZES[kind] for size in numbers_of(owner, shape, name, count)]
        if min(sizes) <= 0.0:
            raise ModelError(f"{owner}: its <{kind}> has the sizes {sizes}, expected positive numbers")
    else:
        raise ModelError(f"{owner}: its <visual> has the unknown geometry <{kind}>")
    placement = _turn(link, root).T @ parse_frame(owner, origin, None)[0]
    return Visual(link, placement, kind, tuple(sizes), mesh, _color(owner, element, root))


def _turn(link: str, root: Element) -> np.ndarray:
    """The turn (4, 4) of a link's frame in the model, if a planar joint moves the link (`urdf`)."""
    for joint in root.findall("joint"):
        owner = f"joint '{joint.get('name')}'"
        if joint.get("type") == "planar" and link_of(owner, joint, "child") == link:
            return normal_turn(owner, parse_frame(owner, None, only(owner, joint, "axis"))[1])
    return np.eye(4)


def _color(owner: str, element: Element, root: Element) -> Rgba | None:
    """The colour of a visual's material, which has it itself, or is one of the robot's named materials."""
    material = only(owner, element, "material")
    if material is None:
        return None
    named = [each for each in root.findall("material") if each.get("name") == material.get("name")]
    for each in (material, *named):
        color = each.find("color")
        if color is not None:
            red, green, blue, alpha = np.clip(numbers_of(owner, color, "rgba", 4), 0.0, 1.0).tolist()
            return red, green, blue, alpha
    return None


def _mesh_file(owner: str, name: str, urdf: Path) -> Path:
    """The file that ``package://package/path``, ``file:///path`` or a path names.

    A package is a folder above the URDF file, beside one of these, or as `files.package_file` says.
    """
    scheme, separator, rest = name.rpartition("://")
    above = urdf.resolve().parents
    if scheme in ("package", "model"):
        found = package_file(rest, (), above)
        candidates = [] if found is None else [found]
    else:
        candidates = [above[0] / rest] if scheme in ("", "file") else []
    for candidate in candidates:
        if rest and candidate.is_file():
            return candidate
    raise ModelError(f"there is no file {name}" if name else f"{owner}: its <mesh> has no filename")
