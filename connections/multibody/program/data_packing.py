"""Where the inertias, the armature and gravity of a robot are in its flat array `layout.TREE`, as data.

A tree whose numbers are given call by call is packed once, with other numbers in their places. Links store
mass, centre of mass c = h / m, and the inertia about it, in axes that E turns into those of the body:

    c' = E^T h / m,    I_c = E^T Ibar E + (h' c'^T - (h' . c') 1),    h' = E^T h.

So a body with a first moment needs a mass, of any sign.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.inertia import inertia_of
from connections.multibody.kernels.layout import PARAMETERS, TREE
from connections.multibody.program.tree_packing import Links

#: What a robot's functions take behind their vectors if its numbers are data.
DATA = ("parameters", "gravity", "armature")
#: Behind the name of an operation whose numbers are data: the same for all rows, or other ones for each.
OF_DATA, OF_EACH = "_of_data", "_of_each"
_UPPER = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 1, 2, 1, 2, 2])


class DataPacking:
    """How data become numbers of the flat array of a tree.

    Parameters
    ----------
    kinematics : of the tree, or of the spanning tree of closed chains.
    tree : its flat array; whatever origins its groups of links have, the places are the same.

    Attributes
    ----------
    places : (k,) int64, where the numbers go.
    """

    def __init__(self, kinematics: Kinematics, tree: np.ndarray) -> None:
        links = Links.of(kinematics)
        start, armature = (TREE.read(tree, name) for name in ("parameters", "armature"))
        bodies = links.carrier[:-1]
        own = start + bodies[:, None] * PARAMETERS.size + PARAMETERS.mass + np.arange(10)
        self.places = np.concatenate(
            [start + np.arange(3), armature + np.arange(kinematics.nv), own.ravel()]
        ).astype(np.int64)
        axes = links.parameters[bodies, PARAMETERS.axes :].reshape(-1, 3, 3)
        self._turn = np.stack([_turned(E) for E in axes])

    def numbers_at(self, parameters: jax.Array, gravity: jax.Array, armature: jax.Array) -> jax.Array:
        """The numbers (..., k) at `places`; NaN or infinite where a body has a first moment and no mass.

        Parameters
        ----------
        parameters : (..., 10 N), as `inertial_parameters` has them, body by body.
        gravity : (..., 3) m/s^2.
        armature : (..., nv_s) of all joints of the tree.
        """
        pi = parameters.reshape(*parameters.shape[:-1], len(self._turn), 10)
        m, h, inertia = jnp.split(jnp.einsum("nab,...nb->...na", self._turn, pi), [1, 4], axis=-1)
        c = jnp.where(h == 0.0, 0.0, h / m)
        i, j = _UPPER
        trace = jnp.sum(h * c, axis=-1, keepdims=True)
        about_center = inertia + h[..., i] * c[..., j] - jnp.where(i == j, trace, 0.0)
        bodies = jnp.concatenate([m, c, about_center], axis=-1)
        flat = bodies.reshape(*parameters.shape[:-1], -1)
        return jnp.concatenate([gravity, armature, flat], axis=-1)


def with_data_in_mind(tree: np.ndarray) -> np.ndarray:
    """The flat array of a tree in which no size of what is given says that results are finite."""
    tree = tree.copy()
    tree[TREE.read(tree, "limit")] = -1.0  # the constants from which it is made are data
    return tree


def _turned(E: np.ndarray) -> np.ndarray:
    """The matrix (10, 10) from the parameters of a body to m, E^T h and the upper half of E^T Ibar E."""
    columns = []
    for unit in np.eye(10):
        inertia = inertia_of(unit)
        turned = E.T @ inertia.rotational @ E
        columns.append(np.concatenate([[inertia.mass], E.T @ inertia.first_moment, turned[_UPPER]]))
    return np.stack(columns, axis=1)
