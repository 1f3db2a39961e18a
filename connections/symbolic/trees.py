"""Planar trees of links on expressions: H, and the Christoffel symbols by [E]'s recursion and by derivatives.

Planar twists are [omega; v_x, v_y], wrenches [n; f_x, f_y], in the link's own frame, whose origin is at the
link's joint. With B the body factor of the composite inertia and the unit twist of joint k, moved down to
joint j: for i <= j <= k on one path Gamma_ijk = Gamma_ikj = Phi_i^T B Phi_j, Gamma_jik = Gamma_jki =
Phi_i^T B^T Phi_j, and Gamma_kij = Gamma_kji is minus the latter. Source: [E] Algorithm 2; [W] (21).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import sympy

from connections._words import words_of
from connections.checks import ModelError, ShapeError, is_whole, require_positive_int
from connections.symbolic.expressions import Simplifier, as_expressions, frozen, simplified, tidy
from connections.symbolic.system import SymbolicSystem
from connections.symbolic.tensors import HALF


@dataclass(frozen=True, eq=False)
class PlanarLink:
    """A link of a planar tree with its joint.

    Parameters
    ----------
    parent : index of its parent link, smaller than its own; -1 for the ground.
    offset : (x, y) of the joint in the parent's frame [m].
    mass : [kg].
    center : (x, y) of the centre of mass in the link's frame [m].
    inertia : about the centre of mass [kg m^2].
    slide : None for a revolute joint; the unit direction (x, y), in the parent's frame, of a prismatic one.

    Examples
    --------
    A cart on a rail with a pendulum of length 2 l.

    >>> import sympy
    >>> from connections import symbolic
    >>> x, a, m, M, l, I = sympy.symbols("x a m M l I", positive=True)
    >>> cart = symbolic.PlanarLink(-1, (0, 0), M, (0, 0), 0, slide=(1, 0))
    >>> rod = symbolic.PlanarLink(0, (0, 0), m, (l, 0), I)
    >>> symbolic.PlanarTree((cart, rod), (x, a)).mass_matrix()[0, 1]
    -l*m*sin(a)
    """

    parent: int
    offset: Any
    mass: Any
    center: Any
    inertia: Any
    slide: Any = None

    def __post_init__(self) -> None:
        if not is_whole(self.parent):
            raise TypeError(f"parent: expected an integer, got {words_of(self.parent)}")
        shapes: dict[str, tuple[int, ...]] = {"offset": (2,), "mass": (), "center": (2,), "inertia": ()}
        if self.slide is not None:
            shapes["slide"] = (2,)
        for name, shape in shapes.items():
            as_expressions(name, getattr(self, name), shape)


@dataclass(frozen=True, eq=False)
class PlanarTree:
    """A tree of planar links, one coordinate for each.

    Parameters
    ----------
    links : parents before children.
    coordinates : one symbol for each link: angles [rad] or displacements [m].

    Raises
    ------
    ShapeError : the numbers of links and coordinates differ.
    ModelError : a parent does not come before its child.

    Examples
    --------
    >>> from connections import symbolic
    >>> arm = symbolic.planar_chain(2)
    >>> arm.coordinates
    (q_0, q_1)
    >>> arm.mass_matrix()[1, 1]
    I_1 + c_1**2*m_1
    """

    links: tuple[PlanarLink, ...]
    coordinates: tuple[sympy.Symbol, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "links", tuple(self.links))
        object.__setattr__(self, "coordinates", tuple(self.coordinates))
        if len(self.links) != len(self.coordinates):
            raise ShapeError("coordinates", (len(self.links),), (len(self.coordinates),))
        for number, link in enumerate(self.links):
            if not -1 <= link.parent < number:
                raise ModelError(f"link {number}: its parent {link.parent} does not come before it")

    @cached_property
    def twists(self) -> list[np.ndarray]:
        """The twist that a unit rate of each joint causes, Phi (3,)."""
        return [frozen([1, 0, 0] if link.slide is None else [0, *link.slide], (3,)) for link in self.links]

    @cached_property
    def transforms(self) -> list[np.ndarray]:
        """X (3, 3) for every joint: maps twists in the parent's frame to twists in the link's."""
        return [_transform(link, x) for link, x in zip(self.links, self.coordinates, strict=True)]

    def composite_inertias(self, simplify: Simplifier | None = tidy) -> list[np.ndarray]:
        """I^C of every link, (3, 3): the inertia of the link and its descendants, in its frame."""
        composites = [_inertia(link) for link in self.links]
        for k in reversed(range(len(self.links))):
            composites[k] = simplified(composites[k], simplify)
            parent, X = self.links[k].parent, self.transforms[k]
            if parent >= 0:
                composites[parent] = composites[parent] + X.T @ composites[k] @ X
        return composites

    def mass_matrix(self, simplify: Simplifier | None = tidy) -> np.ndarray:
        """H, (N, N), from the composite inertias.

        Parameters
        ----------
        simplify : applied to every composite inertia and the result; None for unsimplified ones.
        """
        H = np.full((len(self.links),) * 2, sympy.S.Zero, dtype=object)
        for k, inertia in enumerate(self.composite_inertias(simplify)):
            force, i = inertia @ self.twists[k], k
            while i >= 0:
                H[i, k] = H[k, i] = self.twists[i] @ force
                force, i = self.transforms[i].T @ force, self.links[i].parent
        return simplified(H, simplify)

    def christoffel_symbols(self, simplify: Simplifier | None = tidy) -> np.ndarray:
        """Gamma_ijk of the first kind, (N, N, N), by the recursion of [E] Algorithm 2.

        It takes no derivatives. The listing's D is -B^T, so that two products give all six symbols.

        Parameters
        ----------
        simplify : as for `mass_matrix`.

        Source: [E] Algorithm 2.
        """
        Gamma = np.full((len(self.links),) * 3, sympy.S.Zero, dtype=object)
        for k, inertia in enumerate(self.composite_inertias(simplify)):
            B, j = simplified(_body_factor(inertia, self.twists[k]), simplify), k
            while j >= 0:
                F1, F2, i = B @ self.twists[j], B.T @ self.twists[j], j
                while i >= 0:
                    Gamma[i, j, k] = Gamma[i, k, j] = self.twists[i] @ F1
                    Gamma[j, i, k] = Gamma[j, k, i] = self.twists[i] @ F2
                    Gamma[k, i, j] = Gamma[k, j, i] = -Gamma[j, i, k]
                    F1, F2, i = self.transforms[i].T @ F1, self.transforms[i].T @ F2, self.links[i].parent
                B, j = self.transforms[j].T @ B @ self.transforms[j], self.links[j].parent
        return simplified(Gamma, simplify)

    def christoffel_symbols_by_derivatives(self, simplify: Simplifier | None = tidy) -> np.ndarray:
        """Gamma_ijk = (d_k H_ij + d_j H_ik - d_i H_jk) / 2, (N, N, N).

        Parameters
        ----------
        simplify : as for `mass_matrix`.

        Source: [E] (3), (4).
        """
        H = self.mass_matrix(simplify)
        dH = np.array([[sympy.diff(h, x) for h in H.flat] for x in self.coordinates], dtype=object)
        dH = dH.reshape((len(self.coordinates), *H.shape))  # dH[k, i, j]
        return simplified(HALF * (np.transpose(dH, (1, 2, 0)) + np.transpose(dH, (1, 0, 2)) - dH), simplify)

    def system(self, parameters: Mapping[sympy.Symbol, Any] | None = None) -> SymbolicSystem:
        """The tree as a system in its coordinates.

        Parameters
        ----------
        parameters : {symbol: default value}.
        """
        return SymbolicSystem(self.coordinates, self.mass_matrix(), parameters=parameters, name="planar tree")


def planar_chain(count: int) -> PlanarTree:
    """A chain of `count` revolute links of lengths l_i, masses m_i, inertias I_i, centres c_i along the link.

    Parameters
    ----------
    count : number of links, at least one.

    Examples
    --------
    >>> from connections import symbolic
    >>> arm = symbolic.planar_chain(2)
    >>> symbolic.nonzero(arm.christoffel_symbols())[1, 0, 0]
    c_1*l_0*m_1*sin(q_1)
    """
    require_positive_int("count", count)
    return _revolute_tree([k - 1 for k in range(count)])


def planar_binary_tree(count: int) -> PlanarTree:
    """A tree of `count` revolute links; every link carries two others at its end, as in [E] Table 3.

    Parameters
    ----------
    count : number of links, at least one.

    Examples
    --------
    >>> from connections import symbolic
    >>> tree = symbolic.planar_binary_tree(3)
    >>> [link.parent for link in tree.links]
    [-1, 0, 0]
    """
    require_positive_int("count", count)
    return _revolute_tree([(k + 1) // 2 - 1 for k in range(count)])


def _revolute_tree(parents: list[int]) -> PlanarTree:
    count = len(parents)
    masses, lengths, centers, inertias = (
        sympy.symbols(f"{letter}_:{count}", positive=True) for letter in ("m", "l", "c", "I")
    )
    links = [
        PlanarLink(p, (lengths[p] if p >= 0 else 0, 0), masses[k], (centers[k], 0), inertias[k])
        for k, p in enumerate(parents)
    ]
    return PlanarTree(tuple(links), sympy.symbols(f"q_:{count}", real=True))


def _inertia(link: PlanarLink) -> np.ndarray:
    """[[I + m |c|^2, -m c_y, m c_x], [-m c_y, m, 0], [m c_x, 0, m]]."""
    m, (x, y) = sympy.sympify(link.mass), link.center
    about_joint = link.inertia + m * (x**2 + y**2)
    return frozen([about_joint, -m * y, m * x, -m * y, m, 0, m * x, 0, m], (3, 3))


def _transform(link: PlanarLink, coordinate: sympy.Symbol) -> np.ndarray:
    """[omega; R^T (v + omega x r)], r the link's origin in the parent's frame and R its rotation."""
    x, y = link.offset
    c, s = sympy.cos(coordinate), sympy.sin(coordinate)
    if link.slide is not None:
        x, y = x + link.slide[0] * coordinate, y + link.slide[1] * coordinate
        c, s = sympy.S.One, sympy.S.Zero
    return frozen([1, 0, 0, -c * y + s * x, c, s, s * y + c * x, -s, c], (3, 3))


def _body_factor(inertia: np.ndarray, twist: np.ndarray) -> np.ndarray:
    """B = ((v x*) I + (I v) xbar* - I (v x)) / 2, (3, 3)."""
    cross = _cross(twist)
    B: np.ndarray = HALF * (-cross.T @ inertia + _cross_bar(inertia @ twist) - inertia @ cross)
    return B


def _cross(twist: np.ndarray) -> np.ndarray:
    """(v x), (3, 3)."""
    omega, x, y = twist
    return frozen([0, 0, 0, y, 0, -omega, -x, omega, 0], (3, 3))


def _cross_bar(wrench: np.ndarray) -> np.ndarray:
    """(f xbar*), (3, 3), with (f xbar*) v = (v x*) f."""
    _, x, y = wrench
    return frozen([0, y, -x, -y, 0, 0, x, 0, 0], (3, 3))
