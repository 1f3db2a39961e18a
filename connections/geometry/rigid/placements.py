"""Validation of directions and of placements of frames that users give, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from connections.checks import ModelError, as_array

Axis = tuple[float, float, float]
_RIGID = 1e-9  # the largest entry of R^T R - 1 of a rigid transform


def unit_axis(axis: Sequence[float], name: str = "axis") -> Axis:
    """`axis` (3,) scaled to unit length, as a tuple so that equal axes compare equal.

    Raises
    ------
    ModelError : not three numbers, not finite, or zero.
    """
    try:
        vector = np.asarray(as_array(name, axis, (None,)))
    except (TypeError, ValueError) as error:
        raise ModelError(f"{name} {axis!r} must be three numbers") from error
    if vector.shape != (3,):
        raise ModelError(f"{name} {axis!r} must be three numbers")
    if not np.isfinite(vector).all():
        raise ModelError(f"{name} {tuple(map(float, vector))} is not finite")
    largest = float(np.abs(vector).max())
    if largest == 0.0:
        raise ModelError(f"{name} {tuple(map(float, vector))} is zero: it gives no direction")
    vector = np.ldexp(vector, -int(np.frexp(largest)[1]))  # exact, so that no square over- or underflows
    x, y, z = (float(component) for component in vector / np.linalg.norm(vector))
    return x, y, z


def perpendicular(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors x and y such that x, y, z are right-handed, for a unit vector z (3,)."""
    x = np.cross(np.eye(3)[np.argmin(np.abs(z))], z)
    x /= np.linalg.norm(x)
    return x, np.cross(z, x)


def turn_to(axis: Sequence[float]) -> np.ndarray:
    """The smallest rotation that takes z to `axis` (3,), as (4, 4); for axis = -z, the one about x.

    Raises
    ------
    ModelError : as `unit_axis`.
    """
    x, y, z = unit_axis(axis)
    tilt = np.hypot(x, y)
    about = np.array([-y, x, 0.0]) / tilt if tilt > 0.0 else np.array([1.0, 0.0, 0.0])
    turn = np.eye(4)
    turn[:3, :3] = Rotation.from_rotvec(np.arctan2(tilt, z) * about).as_matrix()
    return turn


def rigid_transform(owner: str, placement: Any) -> np.ndarray:
    """`placement` as a new (4, 4) array; None is the identity.

    Parameters
    ----------
    owner : name of the placed object, for errors.
    placement : (4, 4) homogeneous transform, m.

    Raises
    ------
    ModelError : it is not a proper rigid transform to 1e-9.
    """
    if placement is None:
        return np.eye(4)
    try:
        transform = np.array(as_array("placement", placement, (None, None)))
    except (TypeError, ValueError) as error:
        raise ModelError(f"{owner}: {error}") from error
    if transform.shape != (4, 4):
        raise ModelError(f"{owner}: its placement must be (4, 4), got {transform.shape}")
    if not np.isfinite(transform).all():
        raise ModelError(f"{owner}: its placement is not finite")
    R = transform[:3, :3]
    if np.max(np.abs(transform[3] - [0.0, 0.0, 0.0, 1.0])) > _RIGID:
        raise ModelError(f"{owner}: the last row of its placement is {transform[3]}, not (0, 0, 0, 1)")
    excess = float(np.max(np.abs(R.T @ R - np.eye(3))))
    if excess > _RIGID:
        raise ModelError(
            f"{owner}: its placement is not a rigid transform: R^T R differs from the identity by "
            f"{excess:.1e}, more than {_RIGID:g}"
        )
    if np.linalg.det(R) < 0.0:
        raise ModelError(f"{owner}: its placement is a reflection: det R = -1")
    return transform
