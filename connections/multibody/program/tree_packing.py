"""A tree of bodies written as the flat array `layout.TREE`.

Joints are expanded into elementary links, so that every link has constant columns in its own axes: a
universal joint, for example, is two revolute joints with a massless body between them (``Joint.chain``). A
constant rotation E turns the axis of a one-degree-of-freedom link into the link's z axis. Only the regressor
uses E, because its result refers to the bodies' own axes. Columns are numbered like v.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from connections.checks import ModelError
from connections.engines.inlined.simd import LANES
from connections.geometry.rigid.host_groups import skew
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.definition.rotors import Element
from connections.multibody.joints import ElementaryJoint
from connections.multibody.kernels.elementary_joints import KINDS
from connections.multibody.kernels.layout import PARAMETERS, TREE

_DEGREE = 19  # of the results, in the numbers that they are made of (`_limit`)


class Links(NamedTuple):
    """The elementary links of a tree in depth-first order, (links + 1,) each; link 0 is the ground."""

    parent: np.ndarray  #: the link relative to which it moves
    kind: np.ndarray  #: of its joint, as in `kernels.elementary_joints`; -1 for the ground
    body: np.ndarray  #: the body whose joint has the link; -1 for the ground
    #: (bodies + 1,) the link that is the body, with its inertia; the last entry is for the ground
    carrier: np.ndarray
    #: (links + 2,) its first coordinate in q, and its first column
    coordinate: np.ndarray
    first: np.ndarray
    turns: np.ndarray  #: whether it can turn
    slides: np.ndarray  #: whether it can move away, not only turn
    commutes: np.ndarray  #: whether the brackets of its columns are zero
    parameters: np.ndarray  #: (links + 1, PARAMETERS)

    @classmethod
    def of(cls, kinematics: Kinematics) -> Links:
        """The links of the chains of all joints."""
        tree = kinematics.tree
        parents, kinds, bodies, carrier = [0], [-1], [-1], [0]
        parameters = [np.concatenate([np.zeros(PARAMETERS.axes), np.eye(3).ravel()])]
        for body, chain in enumerate(kinematics.chains):
            parent = carrier[tree.parents[body] + 1]  # -1 is the ground
            rotation = Rotation.from_quat(tree.quaternions[body]).as_matrix()
            position, nothing = tree.positions[body], np.zeros((6, 6))
            for element in chain:
                joint, E, last = element.joint, element.joint.axes, element is chain[-1]
                E_parent = parameters[parent][PARAMETERS.axes :].reshape(3, 3)
                placed = E_parent.T @ rotation @ E, E_parent.T @ position
                parameters.append(_parameters(*placed, tree.inertias[body] if last else nothing, joint, E))
                parents.append(parent)
                kinds.append(_kind(element))
                bodies.append(body)
                parent, rotation, position = len(bodies) - 1, np.eye(3), np.zeros(3)
            carrier.append(parent)
        joints = [element.joint for element in kinematics.elements]
        return cls(
            parent=np.array(parents),
            kind=np.array(kinds),
            body=np.array(bodies),
            carrier=np.array([*carrier[1:], 0]),
            coordinate=np.cumsum([0, 0, *(joint.nq for joint in joints)]),
            first=np.cumsum([0, 0, *(joint.nv for joint in joints)]),
            turns=np.array([False, *(joint.turns.any() for joint in joints)]),
            slides=np.array([False, *(joint.motion[3:].any() for joint in joints)]),
            commutes=np.array([True, *(not joint.brackets.any() for joint in joints)]),
            parameters=np.stack(parameters),
        )

    @property
    def massless(self) -> np.ndarray:
        """Whether the mass, centre of mass and inertia of the link are zero."""
        return np.asarray(~self.parameters[:, PARAMETERS.mass : PARAMETERS.axes].any(axis=1))


def pack(
    kinematics: Kinematics, gravity: tuple[float, float, float], tied: np.ndarray | None = None
) -> np.ndarray:
    """The flat array of a tree, float64 with integers stored bit by bit, without workspace.

    The ground's parameters begin with the acceleration of free fall, m/s^2.

    Parameters
    ----------
    tied : (N,) whether a body's joint is in a loop or coupling, so that its links have the origin of the
        link that carries them; None for none.
    """
    links = Links.of(kinematics)
    count, nv = len(links.parent) - 1, kinematics.nv
    up, end = _columns_before(links), np.arange(1, nv + 1)
    for column in range(nv - 1, -1, -1):
        if up[column] >= 0:
            end[up[column]] = max(end[up[column]], end[column])
    begins = _begins(links, np.zeros(len(kinematics.tree.joints), dtype=bool) if tied is None else tied)
    group = np.arange(count + 1)
    for link in range(1, count + 1):
        group[link] = link if begins[link] else group[links.parent[link]]
    origin, below = _origins(links, group), begins & (links.parent > 0)
    first = links.first[:-1]
    leap_of = np.zeros(nv, dtype=np.int64)
    leap_of[first[below]] = np.flatnonzero(below)
    noncommuting = np.flatnonzero(~links.commutes)
    links.parameters[0, :3] = gravity
    is_body = np.arange(count + 1) == links.carrier[links.body]
    return TREE.pack(
        sizes={
            "links": count,
            "nv": nv,
            "nq": kinematics.nq,
            "bodies": len(kinematics.tree.joints),
            "quaternions": len(kinematics.quaternions),
            "shifted": int(below.any() or (origin != np.arange(count + 1))[begins].any()),
            "leaping": int(below.any()),
            "noncommuting_count": len(noncommuting),
            "armed": int(kinematics.tree.armature.any()),
        },
        integers={
            "quaternion_starts": [at.start for _, at in kinematics.quaternions],
            "parent": links.parent,
            "kind": links.kind,
            "coordinate": links.coordinate[:-1],
            "first": links.first,
            "origin": origin,
            "group": group,
            "begins": below,
            "body": np.where(is_body, links.body, -1),
            "up": up,
            "run": first_of_runs(up),
            "end": end,
            "link_of": np.repeat(np.arange(count + 1), np.diff(links.first)),
            "leap_of": leap_of,
            "noncommuting": noncommuting,
        },
        numbers={
            "parameters": links.parameters,
            "armature": kinematics.tree.armature,
            "limit": [_limit(links, kinematics.tree.armature)],
            "work": (),
        },
    )


def pack_with_one_origin(kinematics: Kinematics, gravity: tuple[float, float, float]) -> np.ndarray:
    """The packed tree with one origin for each subtree, for kernels that need one."""
    return pack(kinematics, gravity, np.ones(len(kinematics.tree.joints), dtype=bool))


def first_of_runs(before: np.ndarray) -> np.ndarray:
    """The first of the consecutive columns, each `before` the next, that end at a column; (n,)."""
    run = np.arange(len(before))
    for column in range(1, len(run)):
        if before[column] == column - 1:
            run[column] = run[column - 1]
    return run


def nonzero_blocks(nonzero: np.ndarray, lanes: int = LANES) -> np.ndarray:
    """First entries of the blocks of `lanes` entries of a flat result that are not identically zero."""
    return np.unique(np.flatnonzero(nonzero) // lanes * lanes)


def _limit(links: Links, armature: np.ndarray) -> float:
    """The size of given numbers up to which a result without division is finite.

    Let X >= 1 bound all numbers that are given (lengths and angles in q, vectors, for closed chains also G,
    LG and T) and all constants of the model, and M = links + nv. Kernels without division only add and
    multiply. By induction along a kernel, a stored number that is a polynomial of degree d in these numbers
    is at most (100 M)^(d-1) X^d: rotations, sines and cosines do not count, because they keep lengths, and a
    step sums at most M products, each with at most 36 terms. The degrees are

        lengths p           2 (a pitch times an angle)     columns Phi               2
        inertias            5 (m p p)                      columns P of clusters     3
        G v                 2                              twists                    4
        accelerations       8 (P' G v, with P' = V x P)    forces                   13
        their derivatives  10 and 15                       these along G            15 + 2 + 1 + 1

    and terms with armature have lower ones. So none is above 19, and none of the numbers overflows if
    (100 M X)^19 <= 10^300. Second derivatives, of trees only, have columns of degree 2, twists of 3,
    accelerations of 6 and forces of 11; a column turned by a twist, 5, times a turned force, 2 + 11, is of
    degree 18.

    It is negative if a constant of the model is larger, or the factor 1 / mass of the centre of mass: then
    all results are tested.
    """
    limit = 10.0 ** (300.0 / _DEGREE) / (100.0 * (len(links.parent) + len(armature)))
    with np.errstate(over="ignore"):
        enough = links.parameters[:, PARAMETERS.mass].sum() * limit >= 1.0
    largest = max(np.abs(links.parameters).max(), armature.max())
    return float(limit) if enough and largest <= limit else -1.0


def _kind(element: Element) -> int:
    """The number of the kind of an elementary joint.

    The kind must be the class's own: a subclass that changes the motion would otherwise get the kernels of
    the class above it.
    """
    kind = vars(type(element.joint)).get("kind")
    if kind not in KINDS:
        raise ModelError(
            f"joint '{element.name}': the recursions do not know {type(element.joint).__name__}, which has "
            f"no kind of its own; they know {', '.join(KINDS)}"
        )
    return KINDS.index(kind)


def _parameters(
    rotation: np.ndarray, position: np.ndarray, inertia: np.ndarray, joint: ElementaryJoint, E: np.ndarray
) -> np.ndarray:
    """Placement (9 + 3), pitch, mass, centre of mass (3), inertia about it (6), E (9), in the link's axes."""
    mass = inertia[5, 5]
    h = inertia[[2, 0, 1], [4, 5, 3]]
    c = h / mass if mass > 0.0 else np.zeros(3)
    about_center = E.T @ (inertia[:3, :3] + mass * skew(c) @ skew(c)) @ E
    upper = about_center[[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
    return np.concatenate(
        [rotation.ravel(), position, [joint.pitch_of_link, mass], E.T @ c, upper, E.ravel()]
    )


def _columns_before(links: Links) -> np.ndarray:
    """The column before each column, of the same link or the last of the parent link; -1 if there is none."""
    up = np.arange(-1, int(links.first[-1]) - 1)
    up[links.first[1:-1]] = links.first[links.parent[1:] + 1] - 1  # the ground has no columns
    return up


def _begins(links: Links, tied: np.ndarray) -> np.ndarray:
    """(links + 1,) whether a group of links with a common origin begins at a link.

    It does at the first link of a subtree, and where a link slides on its parent, because it may slide far
    away. A massless link that carries only one that slides belongs to the group of that link, and so do links
    that slide one after the other without mass between them. It does not at links of `tied` bodies (N,).
    """
    parent, children = links.parent, np.bincount(links.parent[1:], minlength=len(links.parent))
    light = links.massless & (children == 1)
    begins, leads = links.parent == 0, np.zeros(len(parent), dtype=bool)
    begins[0] = False
    for link in range(1, len(parent)):
        above = parent[link]
        if above and not tied[links.body[link]]:
            joined = light[above] and leads[above]
            before_slide = light[link] and links.slides[np.flatnonzero(parent == link)[0]]
            begins[link] = not joined if links.slides[link] else before_slide
            leads[link] = begins[link] or (joined and links.slides[link])
        else:
            leads[link] = not above
    return np.asarray(begins)


def _origins(links: Links, group: np.ndarray) -> np.ndarray:
    """The link at which the origin of a link's group lies, for each link, so that cancellation is small.

    It is the first link that turns. Links before it only translate: they may be far away, and their rows of H
    depend on masses only, not on the origin. If the first link that turns is massless and carries only a
    sliding link (a cylindrical joint), it is that link, which may have slid far along the axis.
    """
    parent, turns, massless = links.parent, links.turns, links.massless
    children = np.bincount(parent[1:], minlength=len(parent))
    chosen: dict[int, int] = {}
    for link in range(1, len(parent)):
        first, above = int(group[link]), parent[link]
        if turns[link]:
            chosen.setdefault(first, link)
        elif above and chosen.get(first) == above and massless[above] and children[above] == 1:
            chosen[first] = link
    return np.array([0] + [chosen.get(int(group[link]), int(group[link])) for link in range(1, len(parent))])
