"""The shape in which a robot is drawn: its links' ellipsoids of inertia, bars between its joints, its tree.

An ellipsoid of inertia is the homogeneous one with the link's mass, centre of mass and rotational inertia: it
shows what the kinetic-energy metric is made of. Source: [W] VI-A, VI-C.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from connections import multibody as mb
from connections._shown import as_html
from connections.geometry.rigid.host_groups import skew
from connections.multibody.clusters import LINEAR
from connections.multibody.loops.closed_kinematics import ClosedKinematics

Rgb = tuple[int, int, int]

_NOTHING = 1e-6  # of the longest bar; shorter bars are not drawn
STEEL: Rgb = (150, 160, 178)
_CLUSTERS: tuple[Rgb, ...] = ((214, 137, 16), (46, 134, 91), (125, 60, 152), (23, 125, 173), (176, 58, 46))


@dataclass(frozen=True, eq=False)
class Shape:
    """How one body is drawn, in its own frame.

    Parameters
    ----------
    name : of the body.
    color : of its cluster.
    center : (3,) centre of mass, m; the origin for a body without mass.
    axes : (3,) half axes of the ellipsoid of inertia, m.
    rotation : (3, 3) its principal axes, columns.
    ends : (k, 3) points where other bodies are attached, m.
    """

    name: str
    color: Rgb
    center: np.ndarray
    axes: np.ndarray
    rotation: np.ndarray
    ends: np.ndarray


def shapes(model: mb.Model) -> tuple[Shape, ...]:
    """How the bodies are drawn, in the order of ``model.body_names``.

    Parameters
    ----------
    model : the robot.
    """
    tree, colors = model.kinematics.tree, cluster_colors(model)
    ends = _ends(model)
    found = []
    for number, name in enumerate(tree.body_names):
        center, axes, rotation = ellipsoid(tree.inertias[number])
        points = ends[number] or ([center] if center.any() else [])
        found.append(Shape(name, colors[name], center, axes, rotation, np.reshape(points, (-1, 3))))
    return tuple(found)


def extent(model: mb.Model, positions: np.ndarray) -> float:
    """The size of the robot in one configuration, m: the diagonal of the box around its bodies.

    Parameters
    ----------
    model : the robot.
    positions : (N, 3) of the bodies' origins in the world, m.
    """
    reach = [float(np.linalg.norm(end)) for shape in shapes(model) for end in (*shape.ends, shape.center)]
    return max(float(np.linalg.norm(np.ptp(positions, axis=0))), max(reach, default=0.0), 0.05)


def ellipsoid(inertia: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centre (3,), half axes (3,) and axes (3, 3) of the homogeneous ellipsoid of a spatial inertia.

    Parameters
    ----------
    inertia : (6, 6) spatial inertia, angular part first.

    a_k^2 = 5 (I_i + I_j - I_k) / (2 m); zero where the inertia breaks the triangle inequality.
    """
    mass = float(inertia[5, 5])
    if not mass > 0.0:
        return np.zeros(3), np.zeros(3), np.eye(3)
    center = inertia[[2, 0, 1], [4, 5, 3]] / mass
    moments, rotation = np.linalg.eigh(inertia[:3, :3] + mass * skew(center) @ skew(center))
    squares = 2.5 * (moments.sum() - 2.0 * moments) / mass
    if np.linalg.det(rotation) < 0.0:
        rotation = rotation * np.array([1.0, 1.0, -1.0])
    return center, np.sqrt(np.maximum(squares, 0.0)), rotation


def cluster_colors(model: mb.Model) -> dict[str, Rgb]:
    """{body: colour}: steel, and a colour for each cluster of several bodies."""
    colors, number = {}, 0
    for node in model.cluster_tree:
        bodies = model.cluster_tree.nodes[node]["bodies"]
        color = STEEL
        if len(bodies) > 1:
            color, number = _CLUSTERS[number % len(_CLUSTERS)], number + 1
        colors.update(dict.fromkeys(bodies, color))
    return colors


def tree_html(model: mb.Model) -> str:
    """The cluster tree as indented lines of HTML: bodies of a cluster, and the joints that move them.

    Parameters
    ----------
    model : the robot.
    """
    graph, colors = model.cluster_tree, cluster_colors(model)
    lines: list[str] = []

    def visit(node: Hashable, depth: int) -> None:
        data = graph.nodes[node]
        bodies = ", ".join(data["bodies"]) or "ground"
        color = colors[data["bodies"][0]] if data["bodies"] else (90, 90, 90)
        joints = ", ".join(data["independent"])
        if data["dependent"]:
            joints += f"; follow: {', '.join(data['dependent'])}"
        lines.append(_line(depth, color, bodies, joints))
        for child in graph.successors(node):
            visit(child, depth + 1)

    visit(next(iter(graph)), 0)
    return '<div style="overflow-x:auto;padding:0.3em 0.6em">' + "".join(lines) + "</div>"


def depth(model: mb.Model) -> np.ndarray:
    """(N,) number of joints between each body and the ground along the spanning tree."""
    parents = model.kinematics.tree.parents
    count = np.ones(len(parents), dtype=int)
    for body, parent in enumerate(parents):
        if parent >= 0:
            count[body] = count[parent] + 1
    return count


# --- private -----------------------------------------------------------------------------------------------


def _ends(model: mb.Model) -> list[list[np.ndarray]]:
    """The points, for each body, where children hang from it and where loops close."""
    tree = model.kinematics.tree
    ends: list[list[np.ndarray]] = [[] for _ in tree.body_names]
    for child, parent in enumerate(tree.parents):
        if parent >= 0:
            ends[parent].append(tree.positions[child])
    if isinstance(model.kinematics, ClosedKinematics):
        rows = model.kinematics.rows
        for row in np.flatnonzero(rows.kinds != LINEAR):
            for body, point in (
                (rows.bodies_a[row], rows.points_a[row]),
                (rows.bodies_b[row], rows.points_b[row]),
            ):
                if body >= 0 and not any(np.allclose(point, end) for end in ends[body]):
                    ends[body].append(point)
    reach = max((float(np.linalg.norm(end)) for points in ends for end in points), default=0.0)
    return [[end for end in points if np.linalg.norm(end) > _NOTHING * reach] for points in ends]


def _line(depth: int, color: Rgb, bodies: str, joints: str) -> str:
    dot = f'<span style="color:rgb{color};font-size:1.2em">&#9679;</span>'
    moved = f' <span style="color:#777">({as_html(joints)})</span>' if joints else ""
    style = f"padding-left:{1.1 * depth:.1f}em;font-size:0.8em;line-height:1.45"
    return f'<div style="{style}">{dot} {as_html(bodies)}{moved}</div>'
