"""The surfaces of a robot's bodies, from the visuals of its URDF file and the meshes that they name."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from connections import multibody as mb
from connections.explorer.drawing import Rgb
from connections.multibody.description.urdf_visuals import Visual, read_visuals

_PLAIN: Rgb = (200, 204, 210)  # where no file gives a colour
_NAMED = 3  # reasons that are spelled out
_WITH_NORMALS = (".dae", ".glb", ".gltf")  # formats whose vertices are split at edges
logging.getLogger("trimesh").addHandler(
    logging.NullHandler()
)  # what is wrong with a mesh is said on the page


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
    """What a robot looks like, and a sentence about the visuals that are left out, or an empty text.

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
    found: list[Surface] = []
    for visual in visuals:
        try:
            found += _surfaces(model, visual)
        except Exception as error:  # the libraries that read meshes raise errors of any kind
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


def _surfaces(model: mb.Model, visual: Visual) -> list[Surface]:
    placements = model.kinematics.tree.placements
    if visual.link not in placements:
        raise ValueError("the robot has no such link")
    body, pose = placements[visual.link]
    pose = pose @ visual.placement
    found = []
    for mesh, local in _meshes(visual):
        if not len(mesh.faces):
            continue
        placed = pose @ local
        with np.errstate(over="ignore"):
            vertices = (np.asarray(mesh.vertices) @ placed[:3, :3].T + placed[:3, 3]).astype(np.float32)
        if not np.isfinite(vertices).all():
            raise ValueError("its points are too far away")
        color = _color(mesh, visual)
        found.append(
            Surface(
                body=body,
                vertices=np.ascontiguousarray(vertices),
                faces=np.ascontiguousarray(mesh.faces, dtype=np.uint32),
                color=(int(color[0]), int(color[1]), int(color[2])),
                opacity=float(color[3]) / 255.0,
                smooth=visual.kind == "sphere"
                or (visual.file is not None and visual.file.suffix.lower() in _WITH_NORMALS),
            )
        )
    if not found:
        raise ValueError("no triangles can be read from it")
    return found


def _meshes(visual: Visual) -> Iterator[tuple[Any, np.ndarray]]:
    """Triangles, with their placement (4, 4), m, in the visual's frame, scale included."""
    import trimesh

    match visual.kind:
        case "box":
            yield trimesh.creation.box(extents=visual.sizes), np.eye(4)
        case "cylinder":
            radius, length = visual.sizes
            yield trimesh.creation.cylinder(radius, length, sections=48), np.eye(4)
        case "sphere":
            yield trimesh.creation.icosphere(3, visual.sizes[0]), np.eye(4)
        case _:
            scene = trimesh.load_scene(visual.file)
            units = scene.units  # of a COLLADA file, such as "0.0254 * meters"; None means metres
            factor = trimesh.units.unit_conversion(units, "meters") if units else 1.0
            scale = np.diag([*(factor * size for size in visual.sizes), 1.0])
            for node in scene.graph.nodes_geometry:
                local, name = scene.graph.get(node)
                if isinstance(scene.geometry[name], trimesh.Trimesh):
                    yield scene.geometry[name], scale @ local


def _color(mesh: Any, visual: Visual) -> Any:
    """Four numbers from 0 to 255: the mesh's own colour, the mean of a texture's, or the URDF file's."""
    look = mesh.visual
    if look.kind == "texture":
        image = getattr(look.material, "image", None) or getattr(look.material, "baseColorTexture", None)
        return look.material.main_color if image is None else look.to_color().vertex_colors.mean(axis=0)
    if look.kind is not None:
        return look.main_color
    return (*_PLAIN, 255) if visual.color is None else np.rint(255.0 * np.array(visual.color))
