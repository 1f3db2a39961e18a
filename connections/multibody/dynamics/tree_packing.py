"""A tree of bodies written as the flat array `layout.TREE`.

Joints are expanded into elementary links, so that every link has constant columns in its own axes: a
universal joint, for example, is two revolute joints with a massless body between them (``Joint.chain``). A
constant rotation E turns the axis of a one-degree-of-freedom link into the link's z axis. Only the regressor
uses E, because its result refers to the bodies' own axes. Columns are numbered like v.
"""

from collections import namedtuple

import numpy as np
from scipy.spatial.transform import Rotation

from connections.checks import ModelError
from connections.engines.inlined.simd import LANES
from connections.multibody.inertia import skew
from connections.multibody.joints import Free, Helical, Joint, Prismatic, Revolute, Spherical
from connections.multibody.kernels.layout import (
    FREE,
    HELICAL,
    PARAMETERS,
    PRISMATIC,
    REVOLUTE,
    SPHERICAL,
    TREE,
)
from connections.multibody.kinematics import Kinematics


def pack(kinematics: Kinematics, gravity: tuple[float, float, float]) -> np.ndarray:
    """The flat array of a tree, float64 with integers stored bit by bit, without workspace.

    The ground's parameters begin with the acceleration of free fall, m/s^2.
    """
    links = expand(kinematics)
    count, nv, nq = len(links), kinematics.nv, kinematics.nq
    widths = np.array([0] + [link.joint.nv for link in links])
    first = np.concatenate([[0], np.cumsum(widths)])  # the ground has no columns
    parent = np.array([0] + [link.parent for link in links])
    coordinate = np.concatenate([[0], np.cumsum([0] + [link.joint.nq for link in links])[:-1]])
    up = _columns_before(first, parent, widths)
    run, end = np.arange(nv), np.arange(1, nv + 1)
    for column in range(1, nv):
        if up[column] == column - 1:
            run[column] = run[column - 1]
    for column in range(nv - 1, -1, -1):
        if up[column] >= 0:
            end[up[column]] = max(end[up[column]], end[column])
    kind = np.array([-1] + [KINDS[type(link.joint)] for link in links])
    massless = np.array([True] + [not has_inertia(link.parameters) for link in links])
    origin = _origins(parent, kind, massless)
    noncommuting = np.flatnonzero(kind >= SPHERICAL)
    ground = np.concatenate([gravity, np.zeros(PARAMETERS.size - 3)])
    return TREE.pack(
        sizes={
            "links": count,
            "nv": nv,
            "nq": nq,
            "bodies": len(kinematics.tree.joints),
            "shifted": any(origin[i] != i for i in range(1, count + 1) if parent[i] == 0),
            "noncommuting_count": len(noncommuting),
        },
        integers={
            "parent": parent,
            "kind": kind,
            "coordinate": coordinate,
            "first": first,
            "origin": origin,
            "body": [-1] + [link.body for link in links],
            "up": up,
            "run": run,
            "end": end,
            "link_of": np.repeat(np.arange(count + 1), widths),
            "noncommuting": noncommuting,
        },
        numbers={"parameters": [ground, *(link.parameters for link in links)], "work": ()},
    )


def has_inertia(parameters: np.ndarray) -> bool:
    """Whether the mass, centre of mass or inertia of a link is not zero."""
    return bool(parameters[PARAMETERS.mass : PARAMETERS.pitch].any())


def nonzero_blocks(nonzero: np.ndarray) -> np.ndarray:
    """First entries of the blocks of LANES entries of a flat result that are not identically zero."""
    return np.unique(np.flatnonzero(nonzero) // LANES * LANES)


KINDS: dict[type[Joint], int] = {
    Revolute: REVOLUTE,
    Helical: HELICAL,
    Prismatic: PRISMATIC,
    Spherical: SPHERICAL,
    Free: FREE,
}

_Link = namedtuple("_Link", ["joint", "parent", "body", "parameters"])


def expand(kinematics: Kinematics) -> list[_Link]:
    """Elementary links in depth-first order; link i moves relative to link ``parent``, 0 being the ground."""
    tree = kinematics.tree
    links: list[_Link] = []
    carried_by = {-1: (0, np.eye(3))}  # body -> its link, and E of that link
    for number, joint in enumerate(tree.joints):
        parent, E_parent = carried_by[int(tree.parents[number])]
        rotation = Rotation.from_quat(tree.quaternions[number]).as_matrix()
        position = tree.positions[number]
        chain = joint.chain
        for place, element in enumerate(chain, start=1):
            if type(element) not in KINDS:
                kind, known = type(element).__name__, ", ".join(kind.__name__ for kind in KINDS)
                raise ModelError(
                    f"joint '{tree.joint_names[number]}': the recursions do not know {kind}; its chain must "
                    f"consist of {known}"
                )
            last = place == len(chain)
            E = _axis_to_z(element)
            inertia = tree.inertias[number] if last else np.zeros((6, 6))
            parameters = _parameters(
                E_parent.T @ rotation @ E, E_parent.T @ position, inertia, E, getattr(element, "pitch", 0.0)
            )
            links.append(_Link(element, parent, number if last else -1, parameters))
            parent, E_parent = len(links), E
            rotation, position = np.eye(3), np.zeros(3)
        carried_by[number] = (parent, E_parent)
    return links


def _axis_to_z(joint: Joint) -> np.ndarray:
    """E (3, 3), a rotation whose third column is the joint's axis; the identity if the joint has no axis."""
    axis = getattr(joint, "axis", None)
    if axis is None:
        return np.eye(3)
    z = np.array(axis)
    x = np.cross(np.eye(3)[np.argmin(np.abs(z))], z)
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(z, x), z])


def _parameters(
    rotation: np.ndarray, position: np.ndarray, inertia: np.ndarray, E: np.ndarray, pitch: float
) -> np.ndarray:
    """Placement (9 + 3), mass, centre of mass (3), inertia about it (6), pitch, E (9), in the link's axes."""
    mass = inertia[5, 5]
    h = inertia[[2, 0, 1], [4, 5, 3]]
    c = h / mass if mass > 0.0 else np.zeros(3)
    about_center = E.T @ (inertia[:3, :3] + mass * skew(c) @ skew(c)) @ E
    upper = about_center[[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
    return np.concatenate([rotation.ravel(), position, [mass], E.T @ c, upper, [pitch], E.ravel()])


def _columns_before(first: np.ndarray, parent: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """The column before each column, of the same link or the last of the parent link; -1 if there is none."""
    up = np.arange(-1, int(first[-1]) - 1)
    for link in range(1, len(parent)):
        above = parent[link]
        up[first[link]] = first[above] + widths[above] - 1 if above else -1
    return up


def _origins(parent: np.ndarray, kind: np.ndarray, massless: np.ndarray) -> np.ndarray:
    """For each link, the link at which the origin of its subtree lies, so that cancellation is small.

    It is the first link that turns. Links before it only translate: they may be far away, and their rows of H
    depend on masses only, not on the origin. If the first link that turns is massless and carries only a
    sliding link (a cylindrical joint), it is that link, which may have slid far along the axis.
    """
    children = np.bincount(parent[1:], minlength=len(parent))
    root = np.arange(len(parent))
    chosen: dict[int, int] = {}
    for link in range(1, len(parent)):
        if parent[link]:
            root[link] = root[parent[link]]
        above = parent[link]
        if kind[link] != PRISMATIC:
            chosen.setdefault(int(root[link]), link)
        elif above and chosen.get(int(root[link])) == above and massless[above] and children[above] == 1:
            chosen[int(root[link])] = link
    return np.array([0] + [chosen.get(int(root[link]), int(root[link])) for link in range(1, len(parent))])
