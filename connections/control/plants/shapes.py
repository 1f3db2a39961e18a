"""Shapes with which a robot touches the ground in a simulator: spheres and boxes, fixed to its frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from connections._moved import keep_old_names
from connections.checks import ShapeError, as_array, as_number, require_finite, require_text
from connections.geometry.rigid.placements import rigid_transform


@dataclass(frozen=True, eq=False)
class SphereShape:
    """A sphere fixed to a frame of a robot.

    Parameters
    ----------
    frame : one of ``model.frame_names``.
    radius : m, positive.
    position : (3,) m, the centre, in the frame.
    friction : the coefficient of sliding friction on the floor.

    Raises
    ------
    ShapeError, NonFiniteError, TypeError; ValueError : the radius is not positive, or the friction negative.

    Examples
    --------
    >>> from connections import control
    >>> control.SphereShape("front_left_shank", radius=0.02, position=(0.0, 0.0, -0.2)).radius
    0.02
    >>> control.SphereShape("front_left_shank", radius=-0.02)
    Traceback (most recent call last):
        ...
    ValueError: sphere on 'front_left_shank': radius must be positive, got -0.02
    """

    frame: str
    radius: float
    position: Any = (0.0, 0.0, 0.0)
    friction: float = 1.0

    def __post_init__(self) -> None:
        require_text("frame", self.frame)
        position = _vector(f"sphere on '{self.frame}': position", self.position)
        radius = _number(f"sphere on '{self.frame}': radius", self.radius, positive=True)
        friction = _number(f"sphere on '{self.frame}': friction", self.friction, positive=False)
        for name, value in (("position", position), ("radius", radius), ("friction", friction)):
            object.__setattr__(self, name, value)

    @property
    def placement(self) -> np.ndarray:
        """(4, 4), m: the sphere's axes in the frame."""
        placement = np.eye(4)
        placement[:3, 3] = self.position
        return placement

    @property
    def size(self) -> np.ndarray:
        """MuJoCo's size of the shape, m: the radius."""
        return np.array([self.radius, 0.0, 0.0])


@dataclass(frozen=True, eq=False)
class BoxShape:
    """A box fixed to a frame of a robot.

    Parameters
    ----------
    frame : one of ``model.frame_names``.
    half_sizes : (3,) m, half of its edges, positive.
    placement : (4, 4), m: the box's axes, at its centre, in the frame; the frame itself if None.
    friction : the coefficient of sliding friction on the floor.

    Raises
    ------
    ShapeError, NonFiniteError, TypeError; ValueError : a half size is not positive, or the friction negative;
        ModelError : the placement is not a proper rigid transform to 1e-9.

    Examples
    --------
    >>> from connections import control
    >>> control.BoxShape("trunk", half_sizes=(0.2, 0.1, 0.05)).friction
    1.0
    >>> control.BoxShape("trunk", half_sizes=(0.2, 0.1, 0.0))
    Traceback (most recent call last):
        ...
    ValueError: box on 'trunk': half_sizes must be positive, got [0.2, 0.1, 0.0]
    """

    frame: str
    half_sizes: Any
    placement: Any = None
    friction: float = 1.0

    def __post_init__(self) -> None:
        require_text("frame", self.frame)
        what = f"box on '{self.frame}'"
        sizes = _vector(f"{what}: half_sizes", self.half_sizes)
        if not (sizes > 0.0).all():
            raise ValueError(f"{what}: half_sizes must be positive, got {sizes.tolist()}")
        friction = _number(f"{what}: friction", self.friction, positive=False)
        placement = rigid_transform(what, self.placement)
        for name, value in (("half_sizes", sizes), ("friction", friction), ("placement", placement)):
            object.__setattr__(self, name, value)

    @property
    def size(self) -> np.ndarray:
        """MuJoCo's size of the shape, m: half of the edges."""
        size: np.ndarray = self.half_sizes
        return size


def _vector(what: str, value: Any) -> np.ndarray:
    vector = np.array(as_array(what, value, (3,)))
    if vector.shape != (3,):
        raise ShapeError(what, (3,), vector.shape)
    require_finite(what, vector)
    return vector


def _number(what: str, value: Any, positive: bool) -> float:
    number = as_number(what, value)
    if number < 0.0 or (positive and number == 0.0):
        raise ValueError(f"{what} must {'be positive' if positive else 'not be negative'}, got {number:g}")
    return number


keep_old_names(__name__)
