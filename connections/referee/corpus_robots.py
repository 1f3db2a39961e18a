"""The corpus: robots of one feature each, and marine craft, with what is right of them.

A robot of the usual kind does not show an axis that is not normalized, or a slide that does not turn with
its parent. Each robot here has one such feature, in a file for a library to read, and references for H, C v,
C and gravity at a few configurations, made by the definition and by a recursion.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from connections._words import no_such, words_of
from connections._written import data_folder
from connections.checks import FrameError, require_choice, require_text
from connections.referee.layouts import AXES, Layout, LayoutFrame, euler, fixed, floating, planar

Array = NDArray[np.float64]

#: The folder of the files: URDF, MJCF, index.json and references.npz, whose keys are "name/array".
CORPUS = data_folder("connections.referee", "corpus")
_BASES = {"fixed": 0, "planar": 3, "floating": 7}


@dataclass(frozen=True, eq=False)
class CorpusRobot:
    """A robot or craft of the corpus with its references, in our layout.

    Ours is [p, quaternion (x, y, z, w), joints] with [omega; v] in body axes, or [x, y, theta, joints] with
    [omega, v_x, v_y] in body axes, or the joints alone.

    Parameters
    ----------
    name, feature : what it is, and what it has that others do not.
    base : "fixed", "planar" or "floating".
    joints : names, in the order of the references (depth first).
    orders : other orders in which a library may list them.
    urdf, mjcf : files, or None. The root link of a URDF with a floating base is free; the library is told.
    q, v : (m, nq), (m, n) samples.
    mass_matrix, bias, coriolis, gravity : (m, n, n), (m, n), (m, n, n), (m, n); C is the Riemannian
        one, free fall is 9.81 m/s^2 along -z.
    com : (3,) centre of mass of the base's body with what is welded to it, in the base frame, m.
    rigid_mass, added_mass : (n, n) of a craft, whose sum is H; else None.

    Examples
    --------
    >>> from connections import referee
    >>> robot = referee.robot("slide_behind_hinge")
    >>> robot.joints, robot.q.shape
    (('hinge', 'slide'), (2, 2))
    >>> float(robot.mass_matrix[0][0, 1].round(3))  # 2 kg times 0.3 m
    0.6
    """

    name: str
    feature: str
    base: str
    joints: tuple[str, ...]
    orders: tuple[tuple[str, ...], ...]
    urdf: Path | None
    mjcf: Path | None
    q: Array
    v: Array
    mass_matrix: Array
    bias: Array
    coriolis: Array
    gravity: Array
    com: Array
    rigid_mass: Array | None = None
    added_mass: Array | None = None

    @property
    def layout(self) -> Layout:
        """The layout of the references."""
        return {"fixed": fixed(), "planar": planar("body", "wv"), "floating": floating("wv", "body")}[
            self.base
        ]

    def frame_of(self, layout: Layout) -> LayoutFrame:
        """The frame of a layout of this robot.

        Raises
        ------
        FrameError : the layout is for another base, or names a joint that the robot does not have.
        """
        base = "floating" if layout.base == "euler" else layout.base
        if base != self.base:
            raise FrameError(f"{self.name} has a {self.base} base, the layout {layout.name} another one")
        size = len(self.joints) + (6 if layout.base == "euler" else _BASES[base])
        return layout.at(size, self.joints, self.com)

    def q_in(self, layout: Layout) -> Array:
        """The samples in a library's layout, (m, nq)."""
        frame = self.frame_of(layout)
        return np.stack([frame.from_ours(q) for q in self.q])

    def v_in(self, layout: Layout) -> Array:
        """The velocities in a library's layout, (m, n)."""
        frame = self.frame_of(layout)
        return np.stack([frame.coframe(q) @ v for q, v in zip(self.q, self.v, strict=True)])

    def reference_in(self, layout: Layout) -> Iterator[tuple[Array, Array, Array, Array]]:
        """H, bias, gravity and C of each sample in a library's layout: A^T H A and so on, A = T^-1."""
        frame = self.frame_of(layout)
        for q, v, H, c, g, C in zip(
            self.q, self.v, self.mass_matrix, self.bias, self.gravity, self.coriolis, strict=True
        ):
            T = frame.coframe(q)
            A, T_dot = np.linalg.inv(T), np.einsum("aij,a->ij", frame.coframe_slopes(q), v)
            there = A.T @ H @ A
            yield there, A.T @ c - there @ T_dot @ v, A.T @ g, A.T @ C @ A - there @ T_dot @ A


def robots(base: str | None = None) -> tuple[str, ...]:
    """The names of the corpus, craft last.

    Parameters
    ----------
    base : "fixed", "planar" or "floating" for these only.

    Examples
    --------
    >>> from connections import referee
    >>> referee.robots("planar")
    ('planar_base', 'vessel_3dof')
    """
    if base is not None:
        require_choice("base", base, tuple(_BASES))
    return tuple(name for name, row in _index().items() if base in (None, row["base"]))


def robot(name: str) -> CorpusRobot:
    """A robot of the corpus.

    Parameters
    ----------
    name : one of `robots()`.

    Raises
    ------
    ValueError : there is no such robot.

    Examples
    --------
    >>> from connections import referee
    >>> referee.robot("unnormalized_axes").feature
    'axes that the file gives with lengths 2, 1/2 and 5'
    """
    require_text("name", name)
    if name not in _index():
        raise ValueError("name: " + no_such("corpus robot", name, list(_index())))
    row, arrays = _index()[name], _references()
    found = {key.split("/")[1]: value for key, value in arrays.items() if key.split("/")[0] == name}
    return CorpusRobot(
        name,
        row["feature"],
        row["base"],
        tuple(row["joints"]),
        tuple(map(tuple, row["orders"])),
        CORPUS / f"{name}.urdf" if row["urdf"] else None,
        CORPUS / f"{name}.xml" if row["mjcf"] else None,
        **{key: value.copy() for key, value in found.items()},
    )


def robot_named(given: str | CorpusRobot) -> CorpusRobot:
    """A robot by its name, or itself."""
    if isinstance(given, CorpusRobot):
        return given
    if not isinstance(given, str):
        raise TypeError(f"robot: expected a name of the corpus, got {words_of(given)}")
    return robot(given)


def candidates(given: str | CorpusRobot) -> tuple[Layout, ...]:
    """The layouts that `detect_layout` tries for a robot.

    Parameters
    ----------
    given : its name, or what `robot` returns.

    Examples
    --------
    >>> from connections import referee
    >>> len(referee.candidates("floating_body")), len(referee.candidates("branches"))
    (74, 3)
    """
    known = robot_named(given)
    return tuple(
        each for joints in (None, *known.orders) for each in layouts_of(known.base, joints, known.com.any())
    )


def layouts_of(base: str, joints: tuple[str, ...] | None, com: Any) -> Iterator[Layout]:
    """All layouts of a base with joints in an order; with `com`, also for its centre of mass."""
    if base == "fixed":
        yield fixed(joints)
        return
    points = ("frame", "com") if com else ("frame",)
    for order in ("vw", "wv"):
        if base == "planar":
            yield from (planar(axes, order, p, joints) for axes in ("world", "body") for p in points)
            continue
        for axes in AXES:
            for point in points if axes != "world" else ("frame",):
                for word in ("xyzw", "wxyz"):
                    yield floating(order, axes, point, word, joints)
                for word in ("rpy", "ypr"):
                    yield euler(order, axes, point, word, joints)
    if base == "floating":
        yield from (euler(axes="rates", angles=word, joints=joints) for word in ("rpy", "ypr"))


@cache
def _index() -> Mapping[str, Any]:
    return {row["name"]: row for row in json.loads((CORPUS / "index.json").read_text())}


@cache
def _references() -> Mapping[str, Array]:
    with np.load(CORPUS / "references.npz", allow_pickle=False) as file:
        return {key: file[key] for key in file.files}
