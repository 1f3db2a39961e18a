"""Frames as compiled code reads them: `layout.FRAME`, by name, and by the axes of results."""

from __future__ import annotations

from typing import Any

import numpy as np

from connections.engines.inlined.records import bits
from connections.multibody.definition.frames import frame_of, is_world
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.kernels.layout import FRAME, PARAMETERS
from connections.multibody.program.tree_packing import Links


class Frames(dict[Any, np.ndarray]):
    """Name of a frame, or name and axes of the result -> the array, packed at the first use.

    Parameters
    ----------
    kinematics : the tree, of closed chains the spanning tree.

    Raises
    ------
    ModelError, ValueError, TypeError : as `frame_of` and `is_world`.
    """

    def __init__(self, kinematics: Kinematics) -> None:
        super().__init__()
        self._kinematics = kinematics

    def __missing__(self, key: Any) -> np.ndarray:
        name, axes = key if isinstance(key, tuple) else (key, "body")
        (body, placement), world = frame_of(self._kinematics.tree, name), is_world(axes)
        links = Links.of(self._kinematics)
        link = links.carrier[body]
        E = links.parameters[link, PARAMETERS.axes :].reshape(3, 3)  # the link's axes in the body's
        packed = np.empty(FRAME.size)
        packed[: FRAME.rotation] = bits([link, world])
        packed[FRAME.rotation : FRAME.position] = (E.T @ placement[:3, :3]).ravel()
        packed[FRAME.position :] = E.T @ placement[:3, 3]
        self[key] = packed
        return packed
