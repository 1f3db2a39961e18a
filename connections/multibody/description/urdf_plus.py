"""Closed chains in URDF files: ``<mimic>``, and the elements ``<loop>`` and ``<coupling>`` of URDF+.

- ``<mimic joint="x" multiplier="m" offset="c"/>`` in a joint y: q_y = m q_x + c, and y depends on x. In a
  fixed joint it has no meaning and is ignored.
- ``<coupling>`` of a predecessor and a successor, with ``<ratio value="r"/>``: r times the sum of the joint
  coordinates from the nearest common ancestor to the predecessor equals the sum of the joint coordinates from
  the ancestor to the successor.
- ``<loop type=...>`` of a predecessor and a successor, with an ``<origin>`` on each, the frames a and b.
  revolute, continuous, spherical: only the two origins coincide; the ``<axis>`` is ignored (in a planar
  mechanism this is a revolute joint). fixed: the frames coincide. prismatic: b slides along the
  ``<axis>`` of a, which is also an axis of b. planar: b moves in the plane of a perpendicular to the
  ``<axis>``.
- ``<joint independent="false">``: the loops and couplings determine this joint. If no joint of a loop or
  coupling is marked in this way, independent joints are chosen.

Loops in elements of Drake and Gazebo are read by `urdf_loops`.
Source: URDF+ (arXiv 2411.19753), and the models of github.com/ROAM-Lab-ND/generalized_rbda.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from connections.checks import ModelError
from connections.multibody.description.urdf_elements import (
    link_of,
    normal_turn,
    number_of,
    only,
    parse_frame,
)
from connections.multibody.description.urdf_loops import read_loops
from connections.multibody.graph import Edge
from connections.multibody.joints import Fixed, Planar, Prismatic
from connections.multibody.loops.closures import Closure, Coincident, Coupling, Loop

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def read_closures(
    root: Element, edges: Sequence[Edge], turns: Mapping[str, np.ndarray]
) -> tuple[list[Loop], list[Coupling]]:
    """All loops, couplings and mimic joints of a file.

    Parameters
    ----------
    root : the ``<robot>``; its links and joints are complete.
    edges : the joints; a tree.
    turns : link -> (4, 4), our frame of the link in the file's frame, for links for which they differ.

    Raises
    ------
    ModelError : a name is missing or appears twice; a link or joint does not exist; an attribute is missing,
        unknown or not a finite number; a ratio or multiplier is zero; the two links are the same, or no joint
        moves a link of a coupling; a coupled joint does not have one coordinate; joints mimic each other in a
        circle; nothing determines a joint that is not independent. The message names the element.
    """
    _require_names(root)
    chains = _LinkTree([str(link.get("name")) for link in root.findall("link")], edges)
    loops = [_loop(element, chains, turns) for element in root.findall("loop")]
    loops += read_loops(root, edges, turns)
    _require_unique([loop.name for loop in loops], root)
    couplings = [_coupling(element, chains) for element in root.findall("coupling")]
    mimics = _mimics(root, chains)
    dependent = _dependent(root, chains, mimics)
    couplings += mimics.values()
    ties = [chains.between(str(loop.link_a), str(loop.link_b)) for loop in loops]
    ties += [list(coupling.joints) for coupling in couplings]
    for joint in dependent:
        if not any(joint in tie for tie in ties):
            raise ModelError(f"joint '{joint}' is not independent, but no loop or coupling determines it")
    free = [_independent(tie, dependent) for tie in ties]
    of_loops, of_couplings = free[: len(loops)], free[len(loops) :]
    return (
        [replace(loop, independent=names) for loop, names in zip(loops, of_loops, strict=True)],
        [
            replace(coupling, independent=names)
            for coupling, names in zip(couplings, of_couplings, strict=True)
        ],
    )


class _LinkTree:
    """The tree of links, for walks towards the root."""

    def __init__(self, links: Iterable[str], edges: Sequence[Edge]) -> None:
        self.links = set(links)
        self.joints = {edge.name: edge for edge in edges}
        self._above = {edge.child: edge for edge in edges}

    def ends(self, owner: str, element: Element) -> tuple[str, str]:
        """The predecessor and the successor link of a loop or coupling."""
        names = []
        for role in ("predecessor", "successor"):
            names.append(link_of(owner, element, role))
            if names[-1] not in self.links:
                raise ModelError(f"{owner}: its {role} link '{names[-1]}' does not exist")
        if names[0] == names[1]:
            raise ModelError(f"{owner}: predecessor and successor are the same link '{names[0]}'")
        return names[0], names[1]

    def split(self, a: str, b: str) -> tuple[list[str], list[str]]:
        """The moving joints from the nearest common ancestor of two links to each of them."""
        paths = self._path(a), self._path(b)
        first, second = ([e.name for e in path if not isinstance(e.joint, Fixed)] for path in paths)
        common = set(first) & set(second)
        return [name for name in first if name not in common], [name for name in second if name not in common]

    def between(self, a: str, b: str) -> list[str]:
        """The moving joints between two links."""
        first, second = self.split(a, b)
        return first + second

    def require_scalar(self, owner: str, joint: str) -> None:
        """Raise `ModelError` unless the joint has one coordinate."""
        kind = self.joints[joint].joint
        if kind.nq != 1:
            raise ModelError(
                f"{owner}: joint '{joint}' ({type(kind).__name__.lower()}) has {kind.nq} coordinates, not one"
            )

    def _path(self, link: str) -> list[Edge]:
        path = []
        while link in self._above:
            path.append(self._above[link])
            link = str(path[-1].parent)
        return path


# --- the elements ------------------------------------------------------------------------------------------


def _loop(element: Element, chains: _LinkTree, turns: Mapping[str, np.ndarray]) -> Loop:
    name = str(element.get("name"))
    owner = f"loop '{name}'"
    links = chains.ends(owner, element)
    origins: list[np.ndarray] = []
    axis: Any = None
    for role, link in zip(("predecessor", "successor"), links, strict=True):
        side, end = f"{owner}: its {role}", element.find(role)
        origin = None if end is None else only(side, end, "origin")
        placement, axis = parse_frame(side, origin, only(owner, element, "axis"))
        origins.append(turns.get(link, np.eye(4)).T @ placement)
    closure: Closure
    match element.get("type"):
        case "revolute" | "continuous" | "spherical":
            closure = Coincident()
        case "fixed":
            closure = Fixed()
        case "prismatic":
            try:
                closure = Prismatic(axis)
            except ModelError as error:
                raise ModelError(f"{owner}: {error}") from error
        case "planar":
            closure, turn = Planar(), normal_turn(owner, axis)
            origins = [placement @ turn for placement in origins]
        case None:
            raise ModelError(f"{owner}: its type is missing")
        case other:
            raise ModelError(f"{owner}: unknown type '{other}'")
    return Loop(name, links[0], links[1], closure, origins[0], origins[1])


def _coupling(element: Element, chains: _LinkTree) -> Coupling:
    name = str(element.get("name"))
    owner = f"coupling '{name}'"
    if element.get("type", "rolling") != "rolling":
        raise ModelError(f"{owner}: unknown type '{element.get('type')}'")
    links = chains.ends(owner, element)
    ratio_element = only(owner, element, "ratio")
    if ratio_element is None:
        raise ModelError(f"{owner}: its <ratio> is missing")
    ratio = number_of(owner, ratio_element, "value")
    if ratio == 0.0:
        raise ModelError(f"{owner}: its ratio is zero")
    coefficients: dict[str, float] = {}
    for link, joints, factor in zip(links, chains.split(*links), (ratio, -1.0), strict=True):
        if not joints:
            raise ModelError(f"{owner}: no joint moves link '{link}' relative to the other one's ancestor")
        for joint in joints:
            chains.require_scalar(owner, joint)
            coefficients[joint] = factor
    return Coupling(name, tuple(coefficients), tuple(coefficients.values()))


def _mimics(root: Element, chains: _LinkTree) -> dict[str, Coupling]:
    """The couplings of mimic joints, by the name of the joint that mimics."""
    mimics: dict[str, Coupling] = {}
    leaders: dict[str, str] = {}
    for element in root.findall("joint"):
        mimic, name = element.find("mimic"), str(element.get("name"))
        if mimic is None or isinstance(chains.joints[name].joint, Fixed):
            continue
        leader = mimic.get("joint")
        if not leader:
            raise ModelError(f"joint '{name}': its <mimic> names no joint")
        owner = f"joint '{name}' mimics '{leader}'"
        if leader not in chains.joints:
            raise ModelError(f"{owner}, which does not exist")
        for joint in (name, leader):
            chains.require_scalar(owner, joint)
        multiplier = number_of(owner, mimic, "multiplier", 1.0)
        if multiplier == 0.0:
            raise ModelError(f"{owner} with multiplier zero: it does not move; make it a fixed joint")
        offset = number_of(owner, mimic, "offset", 0.0)
        leaders[name] = leader
        _require_no_circle(name, leaders)
        mimics[name] = Coupling(f"{name} mimics {leader}", (name, leader), (1.0, -multiplier), offset)
    return mimics


def _require_no_circle(joint: str, leaders: Mapping[str, str]) -> None:
    """Raise `ModelError` if `joint` mimics itself, directly or through others."""
    chain = [joint]
    while chain[-1] in leaders:
        chain.append(leaders[chain[-1]])
        if chain[-1] == joint:
            raise ModelError("joints mimic each other in a circle: " + " -> ".join(f"'{j}'" for j in chain))


# --- which joints are independent --------------------------------------------------------------------------


def _dependent(root: Element, chains: _LinkTree, mimics: Mapping[str, Coupling]) -> list[str]:
    """The moving joints that loops and couplings determine: marked as dependent, or mimicking another."""
    dependent = []
    for element in root.findall("joint"):
        name, text = str(element.get("name")), element.get("independent")
        if text is not None and text not in _BOOLEANS:
            raise ModelError(f"joint '{name}': independent must be true or false, got '{text}'")
        if name in mimics and text is not None and _BOOLEANS[text]:
            raise ModelError(f"joint '{name}' is marked independent, but mimics another")
        moves = not isinstance(chains.joints[name].joint, Fixed)
        if moves and (name in mimics or (text is not None and not _BOOLEANS[text])):
            dependent.append(name)
    return dependent


def _independent(tied: Iterable[str], dependent: Collection[str]) -> tuple[str, ...] | None:
    """The independent joints among those of one loop or coupling; None if no joint is marked as dependent."""
    names = tuple(tied)
    free = tuple(name for name in names if name not in dependent)
    return None if len(free) == len(names) else free


def _require_unique(names: Sequence[str], root: Element) -> None:
    """Raise `ModelError` for a loop that has the name of another one, or of a coupling."""
    taken = [*names, *(str(each.get("name")) for each in root.findall("coupling"))]
    for name in names:
        if taken.count(name) > 1:
            raise ModelError(f"two loops or couplings have the name '{name}'")


def _require_names(root: Element) -> None:
    """Raise `ModelError` for a loop or coupling without a name, a repeated name, and ``<constraint>``."""
    seen: set[str] = set()
    for element in root:
        name = element.get("name")
        if element.tag == "constraint":
            raise ModelError(f"<constraint> '{name}': expected <loop> or <coupling>")
        if element.tag in ("loop", "coupling"):
            if not name:
                raise ModelError(f"a <{element.tag}> has no name")
            if name in seen:
                raise ModelError(f"two loops or couplings have the name '{name}'")
            seen.add(name)
