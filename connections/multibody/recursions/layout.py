"""A tree of bodies as one flat array, the only argument of a recursion beside its vectors.

`pack` (Python) writes it, `unpack` (compiled) reads it. Joints are expanded into elementary links: a
universal joint is two revolute ones with a massless body between, and so on (``Joint.chain``), so that every
link has constant columns in its own axes. The axis of a one-degree-of-freedom link is turned into the link's
z axis by a constant rotation E, which a recursion never sees except where bodies' own axes matter
(`regressor`).

    memory = [ header | links' integers | columns' integers | links' parameters | workspace ]

The header begins with the fingerprint of the sources (`stamp`). Link 0 is the ground. Columns are numbered
like v; `up` is the column before, on the way to the ground. Workspace
slots: q, angles of turning links, three vectors of velocities, poses (R, P) of links, then what each
recursion keeps per link and per column, an nv x nv scratch matrix, and the result where it is computed for
several configurations at once.
"""

from collections import namedtuple

import numpy as np
from scipy.spatial.transform import Rotation

from connections.checks import ModelError
from connections.multibody.inertia import skew
from connections.multibody.joints import Free, Helical, Joint, Prismatic, Revolute, Spherical
from connections.multibody.kinematics import Kinematics
from connections.multibody.recursions.simd import LANES, as_integers, beyond, inlined, slots_of
from connections.multibody.recursions.stamp import STAMP

REVOLUTE, HELICAL, PRISMATIC, SPHERICAL, FREE = range(5)
HEADER = 7  # fingerprint, links, nv, nq, bodies, whether shifted, turning links
PARAMETERS = 32
# Where in them the parts begin: R and p of the placement, mass, center of mass, inertia about it, pitch, E.
ROTATION, POSITION, MASS, CENTER, INERTIA, PITCH, AXES = 0, 9, 12, 13, 16, 22, 23
POSE = 12
PER_LINK, PER_COLUMN = 48, 24  # at least as many slots as any recursion uses

Tree = namedtuple(
    "Tree",
    [
        "links",  # number of links without the ground
        "nv",
        "nq",
        "bodies",  # number of bodies, the massless ones of chains not among them
        "shifted",  # whether any subtree's origin is not at its root link
        "parent",  # (links + 1,)
        "kind",  # (links + 1,)
        "coordinate",  # (links + 1,) where the link's slice of q begins
        "first",  # (links + 2,) first column of each link
        "origin",  # (links + 1,) the link at which the subtree's common origin lies
        "body",  # (links + 1,) number of the body, -1 for a massless one of a chain
        "up",  # (nv,) column before, -1 at the ground
        "run",  # (nv,) first of the consecutive columns, each before the next, that lead to this one
        "end",  # (nv,) one past the last of the columns that carry on from this one; they are consecutive
        "link_of",  # (nv,)
        "turning",  # (turning_count,) spherical and free links, whose columns do not commute
        "turning_count",
        "parameters",  # (links + 1) * PARAMETERS
        "work",  # the workspace for one configuration, behind everything else
        "angles",  # first slots of the sections of the workspace
        "vectors",
        "poses",
        "per_link",
        "per_column",
        "scratch",  # nv * nv slots
        "result",
    ],
)


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
    link_of = np.repeat(np.arange(count + 1), widths)
    turning = np.zeros(count + 1, dtype=np.int64)
    kind = np.array([-1] + [_KINDS[type(link.joint)] for link in links])
    massless = np.array([True] + [not link.parameters[MASS:PITCH].any() for link in links])
    origin = _origins(parent, kind, massless)
    body = np.array([-1] + [link.body for link in links])
    bodies = len(kinematics.tree.joints)
    shifted = int(any(origin[i] != i for i in range(1, count + 1) if parent[i] == 0))
    which = np.flatnonzero(kind >= SPHERICAL)
    turning[: len(which)] = which
    header = np.array([STAMP, count, nv, nq, bodies, shifted, len(which)])
    per_link = np.concatenate([parent, kind, coordinate, first, origin, body])
    integers = np.concatenate([header, per_link, up, run, end, link_of, turning]).astype(np.int64)
    ground = np.concatenate([gravity, np.zeros(PARAMETERS - 3)])
    parameters = np.concatenate([ground] + [link.parameters for link in links])
    return np.concatenate([integers.view(np.float64), parameters])


def workspace_slots(kinematics: Kinematics, links: int) -> int:
    """Number of slots before the result."""
    nq, nv = kinematics.nq, kinematics.nv
    return 2 * nq + 3 * nv + (POSE + PER_LINK) * (links + 1) + PER_COLUMN * nv + nv * nv


def aligned(*shape: int) -> np.ndarray:
    """Zeros (float64) that begin at a multiple of 64 bytes, the width of a cache line."""
    count = int(np.prod(shape))
    space = np.zeros(count + 8)
    skip = (-space.ctypes.data // 8) % 8
    return space[skip : skip + count].reshape(shape)


def nonzero_blocks(nonzero: np.ndarray) -> np.ndarray:
    """Where the blocks of LANES entries of a flat result begin that are not identically zero."""
    return np.unique(np.flatnonzero(nonzero) // LANES * LANES)


def no_tree() -> np.ndarray:
    """The array of a tree without links, with room to work, for trying out compiled functions."""
    memory = np.zeros(HEADER + 8 * PARAMETERS + PER_LINK)
    memory[:1].view(np.int64)[0] = STAMP
    return memory


@inlined
def is_current(memory):
    """Whether this machine code and `memory` come from the same sources; the first number says it."""
    return as_integers(slots_of(memory))[0] == STAMP


@inlined
def unpack(memory):
    """The `Tree` that `pack` wrote."""
    numbers = slots_of(memory)
    integers = as_integers(numbers)
    links, nv, nq = integers[1], integers[2], integers[3]
    parent = HEADER
    kind = parent + links + 1
    coordinate = kind + links + 1
    first = coordinate + links + 1
    origin = first + links + 2
    body = origin + links + 1
    up = body + links + 1
    run = up + nv
    end = run + nv
    link_of = end + nv
    turning = link_of + nv
    parameters = turning + links + 1
    work = parameters + (links + 1) * PARAMETERS
    poses = 2 * nq + 3 * nv
    per_link = poses + POSE * (links + 1)
    per_column = per_link + PER_LINK * (links + 1)
    return Tree(
        links,
        nv,
        nq,
        integers[4],
        integers[5],
        beyond(integers, parent),
        beyond(integers, kind),
        beyond(integers, coordinate),
        beyond(integers, first),
        beyond(integers, origin),
        beyond(integers, body),
        beyond(integers, up),
        beyond(integers, run),
        beyond(integers, end),
        beyond(integers, link_of),
        beyond(integers, turning),
        integers[6],
        beyond(numbers, parameters),
        beyond(numbers, work),
        nq,
        2 * nq,
        poses,
        per_link,
        per_column,
        per_column + PER_COLUMN * nv,
        per_column + PER_COLUMN * nv + nv * nv,
    )


_KINDS: dict[type[Joint], int] = {
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
            if type(element) not in _KINDS:
                kind, known = type(element).__name__, ", ".join(kind.__name__ for kind in _KINDS)
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
    """E (3, 3), a rotation whose third column is the joint's axis; the identity where there is none."""
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
    """The column before each, -1 at the ground: of the same link, or the last of the link above."""
    up = np.arange(-1, int(first[-1]) - 1)
    for link in range(1, len(parent)):
        above = parent[link]
        up[first[link]] = first[above] + widths[above] - 1 if above else -1
    return up


def _origins(parent: np.ndarray, kind: np.ndarray, massless: np.ndarray) -> np.ndarray:
    """For each link, the one at which its subtree's origin lies: near it, nothing is lost to cancellation.

    The first link that turns; links that only translate take their rows of H from masses, whatever the
    origin, and far ones may lie before it. If it is massless and only carries a sliding link (a cylindrical
    joint), that one, which may lie far along.
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
