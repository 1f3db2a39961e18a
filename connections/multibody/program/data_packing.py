"""Where the inertias, the armature and gravity of a robot are in its flat array `layout.TREE`, as data.

A tree whose numbers are given call by call is packed once, with other numbers in their places. Links store
mass, centre of mass c = h / m, and the inertia about it, in axes that E turns into those of the body:

    c' = h' / m,    I_c = E^T Ibar E + (h' c'^T - (h' . c') 1),    h' = E^T h.

So a body with a first moment needs a mass, of any sign.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.kernels.layout import PARAMETERS, TREE
from connections.multibody.program.tree_packing import Links

#: What a robot's functions take behind their vectors if its numbers are data.
DATA = ("parameters", "gravity", "armature")
#: Behind the name of an operation whose numbers are data: the same for all rows, or other ones for each.
OF_DATA, OF_EACH = "_of_data", "_of_each"


def places_of_data(kinematics: Kinematics, tree: np.ndarray) -> np.ndarray:
    """The constants of `write_data`.

    Parameters
    ----------
    kinematics : of the tree, or of the spanning tree of closed chains.
    tree : its flat array; whatever origins its groups of links have, the places are the same.
    """
    links = Links.of(kinematics)
    start, armature = (TREE.read(tree, name) for name in ("parameters", "armature"))
    bodies = links.carrier[:-1]
    own = start + bodies * PARAMETERS.size + PARAMETERS.mass
    rows = np.column_stack([own, links.parameters[bodies, PARAMETERS.axes :]])
    return np.concatenate([[start, armature, kinematics.nv, len(bodies)], rows.ravel()])


def write_data(work: Any, constants: Any, given: Any) -> None:
    """Write inertias, gravity and armature to the flat array of a tree; compiled with each operation.

    Parameters
    ----------
    work : the flat array.
    constants : `places_of_data`: where gravity and armature begin, how many joint velocities and bodies there
        are, and of each body where its mass is, and E.
    given : parameters (10 N,), gravity (3,) and armature (nv_s,), one after the other. Where a body has a
        first moment and no mass, its centre of mass is NaN.
    """
    gravity, armature = int(constants[0]), int(constants[1])
    nv, bodies = int(constants[2]), int(constants[3])
    for i in range(3):
        work[gravity + i] = given[10 * bodies + i]
    for i in range(nv):
        work[armature + i] = given[10 * bodies + 3 + i]
    h, c, column = np.empty(3), np.empty(3), np.empty(3)
    for body in range(bodies):
        E, at = 5 + 10 * body, int(constants[4 + 10 * body])
        own = 10 * body
        m, trace = given[own], 0.0
        work[at] = m
        for i in range(3):
            h[i] = 0.0
            for j in range(3):
                h[i] += constants[E + 3 * j + i] * given[own + 1 + j]
            if h[i] == 0.0:
                c[i] = 0.0
            elif m != 0.0:
                c[i] = h[i] / m
            else:
                c[i] = np.nan
            trace += h[i] * c[i]
            work[at + 1 + i] = c[i]
        place = at + 4
        for j in range(3):
            x, y, z = constants[E + j], constants[E + 3 + j], constants[E + 6 + j]
            column[0] = given[own + 4] * x + given[own + 5] * y + given[own + 7] * z
            column[1] = given[own + 5] * x + given[own + 6] * y + given[own + 8] * z
            column[2] = given[own + 7] * x + given[own + 8] * y + given[own + 9] * z
            for i in range(j + 1):  # the upper half of a symmetric matrix, row by row: 00 01 02 11 12 22
                entry = h[i] * c[j]
                for k in range(3):
                    entry += constants[E + 3 * k + i] * column[k]
                if i == j:
                    entry -= trace
                work[place + i * 2 - (i * (i - 1)) // 2 + j] = entry


def with_data_in_mind(tree: np.ndarray) -> np.ndarray:
    """The flat array of a tree in which no size of what is given says that results are finite."""
    tree = tree.copy()
    tree[TREE.read(tree, "limit")] = -1.0  # the constants from which it is made are data
    return tree
