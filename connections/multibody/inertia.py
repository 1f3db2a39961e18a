"""Inertial parameters of a body: ten numbers, additive in any one frame, and their physical validity.

mass m (kg), first moment h = m c (kg m), and the rotational inertia about the body origin
Ibar = I_c - m (c x)(c x) (kg m^2), all in body axes. Plain NumPy: these are constants of a model.
Source: [W] VI-A.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from connections.checks import ModelError

# How far a printed inertia may be outside its bounds: six digits of its largest entry, and round-off, kg m^2.
_PRINTED = 1e-6
_ROUND_OFF = 1e-15


class InertiaWarning(UserWarning):
    """A rotational inertia breaks the triangle inequality: no distribution of mass has it."""


@dataclass(frozen=True, eq=False)
class BodyInertia:
    """Inertial parameters about the origin of a body frame.

    Parameters
    ----------
    mass : m, kg.
    first_moment : (3,) h = m c, kg m.
    rotational : (3, 3) Ibar about the origin, kg m^2, symmetric.
    """

    mass: float
    first_moment: np.ndarray
    rotational: np.ndarray

    @property
    def matrix(self) -> np.ndarray:
        """The spatial inertia [[Ibar, h x], [(h x)^T, m 1]], (6, 6)."""
        h = skew(self.first_moment)
        return np.block([[self.rotational, h], [h.T, self.mass * np.eye(3)]])

    @property
    def is_zero(self) -> bool:
        """Whether there is neither mass nor rotational inertia."""
        return self.mass == 0.0 and not self.rotational.any()

    def __add__(self, other: BodyInertia) -> BodyInertia:
        """Two bodies rigidly joined, both about the same frame."""
        return BodyInertia(
            self.mass + other.mass,
            self.first_moment + other.first_moment,
            self.rotational + other.rotational,
        )

    def seen_from(self, rotation: np.ndarray, position: np.ndarray) -> BodyInertia:
        """The same body about another frame.

        Parameters
        ----------
        rotation : (3, 3) from the present axes to the new ones.
        position : (3,) m, the present origin from the new one, in new axes.
        """
        h = rotation @ self.first_moment
        p, hx = skew(position), skew(h)
        rotational = rotation @ self.rotational @ rotation.T - p @ hx - hx @ p - self.mass * (p @ p)
        return BodyInertia(self.mass, h + self.mass * position, (rotational + rotational.T) / 2)


NO_INERTIA = BodyInertia(0.0, np.zeros(3), np.zeros((3, 3)))


def body_inertia(
    name: str,
    mass: float,
    center_of_mass: np.ndarray,
    inertia: np.ndarray,
    rotation: np.ndarray | None = None,
) -> BodyInertia:
    """Validated parameters from the mass, the centre of mass, and the inertia about it.

    Parameters
    ----------
    name : the body, for messages.
    mass : kg, zero or positive.
    center_of_mass : (3,) m, in body axes.
    inertia : (3, 3) kg m^2 about the centre of mass, in the axes of `rotation`; positive semidefinite.
    rotation : (3, 3) from the axes of `inertia` to body axes; the identity if None.

    Raises
    ------
    ModelError : a number is not finite, the mass is negative, or the inertia is not symmetric positive
        semidefinite; the message names the body.
    """
    mass, c = float(mass), np.asarray(center_of_mass, dtype=np.float64)
    inertia = np.asarray(inertia, dtype=np.float64)
    if c.shape != (3,) or inertia.shape != (3, 3):
        raise ModelError(f"body '{name}': centre of mass and inertia must be (3,) and (3, 3)")
    for what, value in (("mass", mass), ("centre of mass", c), ("inertia", inertia)):
        if not np.isfinite(value).all():
            raise ModelError(f"body '{name}': {what} is not finite: {np.array2string(np.asarray(value))}")
    if mass < 0.0:
        raise ModelError(f"body '{name}': mass is negative: {mass:g} kg")
    if np.max(np.abs(inertia - inertia.T)) > _slack(inertia):
        raise ModelError(f"body '{name}': inertia is not symmetric")
    _require_semidefinite(name, inertia)
    if rotation is not None:
        inertia = rotation @ inertia @ rotation.T
    cx = skew(c)
    return BodyInertia(mass, mass * c, (inertia + inertia.T) / 2 - mass * (cx @ cx))


def breaks_triangle_inequality(inertia: np.ndarray) -> bool:
    """Whether a principal moment of `inertia` (3, 3), kg m^2, is larger than the sum of the other two.

    No distribution of mass has such an inertia; the equations of motion are still well defined.
    """
    if not np.isfinite(inertia).all():
        return False
    smallest, middle, largest = np.linalg.eigvalsh(inertia)
    return bool(largest > smallest + middle + _slack(inertia))


def _require_semidefinite(name: str, inertia: np.ndarray) -> None:
    moments = np.linalg.eigvalsh(inertia)
    if moments[0] < -_slack(inertia):
        values = ", ".join(f"{moment:.6g}" for moment in moments)
        raise ModelError(
            f"body '{name}': inertia is not positive semidefinite (principal moments {values} kg m^2)"
        )


def _slack(inertia: np.ndarray) -> float:
    return _PRINTED * float(np.max(np.abs(inertia))) + _ROUND_OFF


def skew(w: np.ndarray) -> np.ndarray:
    """(w x), (3, 3)."""
    x, y, z = w
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
