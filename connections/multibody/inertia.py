"""Inertial parameters of a body: ten numbers, additive in any one frame, and their physical validity.

mass m (kg), first moment h = m c (kg m), and the rotational inertia about the body origin
Ibar = I_c - m (c x)(c x) (kg m^2), all in body axes. Plain NumPy: these are constants of a model.
Source: [W] VI-A.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from connections._shown import Shown
from connections.checks import ModelError, as_array, as_number, require_finite
from connections.geometry.rigid.host_groups import skew

_ROUND_OFF = 1e-14  # of a principal moment, relative to the largest entry
_PRINTED = 1e-6  # how far a printed inertia may be outside its bounds, relative to its largest entry


class InertiaWarning(Shown, UserWarning):
    """No distribution of mass has this rotational inertia; ``simplefilter("error")`` makes it an error.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> plate = mb.Mechanism()
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", mb.InertiaWarning)
    ...     plate.add_body("plate", mass=1.0, inertia=np.diag([1.0, 1.0, 3.0]))
    ...
    Traceback (most recent call last):
        ...
    connections.multibody.inertia.InertiaWarning: body 'plate': inertia breaks the triangle inequality
    (principal moments 1, 1, 3 kg m^2)
    """


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
        matrix, h = np.diag([0.0, 0.0, 0.0, self.mass, self.mass, self.mass]), skew(self.first_moment)
        matrix[:3, :3], matrix[:3, 3:], matrix[3:, :3] = self.rotational, h, h.T
        return matrix

    def __add__(self, other: BodyInertia) -> BodyInertia:
        """Two bodies rigidly joined, both about the same frame."""
        return BodyInertia(
            self.mass + other.mass,
            self.first_moment + other.first_moment,
            self.rotational + other.rotational,
        )

    def seen_from(self, rotation: np.ndarray, position: np.ndarray) -> BodyInertia:
        """The inertia of this body about another frame.

        Parameters
        ----------
        rotation : (3, 3) from the present axes to the new ones.
        position : (3,) m, the present origin from the new one, in new axes.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused where a tree is built
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
    inertia : (3, 3) kg m^2 about the centre of mass, in the axes of `rotation`; symmetric. `inertia_flaw`
        tests whether any distribution of mass has it.
    rotation : (3, 3) from the axes of `inertia` to body axes; the identity if None.

    Raises
    ------
    ModelError : an argument is not numbers of this shape, a number is not finite, the mass is negative, or
        the inertia is not symmetric; the message names the body.
    """
    try:
        mass = as_number("mass", mass)
        c, inertia = (
            np.asarray(as_array(what, value, shape))
            for what, value, shape in (("centre of mass", center_of_mass, (3,)), ("inertia", inertia, (3, 3)))
        )
        if c.shape != (3,) or inertia.shape != (3, 3):
            raise ModelError("centre of mass and inertia must be (3,) and (3, 3)")
        require_finite("centre of mass", c)
        require_finite("inertia", inertia)
    except (TypeError, ValueError) as error:
        raise ModelError(f"body '{name}': {error}") from error
    if mass < 0.0:
        raise ModelError(f"body '{name}': mass is negative: {mass:g} kg")
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.max(np.abs(inertia - inertia.T)) <= _slack(inertia):
            raise ModelError(f"body '{name}': inertia is not symmetric")
        if rotation is not None:
            inertia = rotation @ inertia @ rotation.T
        cx = skew(c)
        made = BodyInertia(mass, mass * c, (inertia + inertia.T) / 2 - mass * (cx @ cx))
        finite = np.isfinite(made.matrix).all()
    if not finite:
        raise ModelError(f"body '{name}': inertia, or mass and centre of mass, are too large: they overflow")
    return made


def require_sums(names: Sequence[str], inertias: np.ndarray) -> None:
    """Raise `ModelError` if spatial inertias (N, 6, 6) of bodies overflow when they are added."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.abs(inertias).sum(axis=0)).all():
            return
    largest = names[int(np.argmax(np.abs(inertias).max(axis=(1, 2))))]
    raise ModelError(f"body '{largest}': mass or inertia is too large: the sum over all bodies overflows")


def inertia_of(parameters: np.ndarray) -> BodyInertia:
    """The inertia whose ten parameters, m, h (3), Ixx, Ixy, Iyy, Ixz, Iyz, Izz, are `parameters` (10,)."""
    m, hx, hy, hz, xx, xy, yy, xz, yz, zz = parameters
    return BodyInertia(m, np.array([hx, hy, hz]), np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))


def inertia_of_matrix(spatial: np.ndarray) -> BodyInertia:
    """The inertia whose spatial inertia, `BodyInertia.matrix`, is `spatial` (6, 6)."""
    return BodyInertia(float(spatial[5, 5]), spatial[[2, 0, 1], [4, 5, 3]], spatial[:3, :3])


def pseudo_inertias(parameters: np.ndarray) -> np.ndarray:
    """P = [[Sigma, h], [h^T, m]], (..., 4, 4), Sigma = tr(Ibar) 1 / 2 - Ibar, of parameters (..., 10).

    P is the second moment of the mass density at (x, y, z, 1), linear in the parameters. A distribution of
    mass has these parameters if and only if P is positive semidefinite. Source: [WK].
    """
    m, hx, hy, hz, xx, xy, yy, xz, yz, zz = np.moveaxis(np.asarray(parameters, dtype=np.float64), -1, 0)
    half = (xx + yy + zz) / 2
    rows = [[half - xx, -xy, -xz, hx], [-xy, half - yy, -yz, hy], [-xz, -yz, half - zz, hz], [hx, hy, hz, m]]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def pseudo_inertia_basis() -> np.ndarray:
    """E (10, 4, 4), the pseudo-inertia of a unit of each parameter: P = pi^k E_k."""
    return pseudo_inertias(np.eye(10))


def parameters_flaw(parameters: np.ndarray) -> str | None:
    """Why no distribution of mass has the parameters (10,); None if one has them.

    The smallest eigenvalue of the pseudo-inertia may be negative by what a printed inertia is off, relative
    to the largest, with lengths in units of the body's own.
    """
    P = pseudo_inertias(parameters)
    length = np.sqrt(max(float(np.trace(P[:3, :3])), 0.0) / abs(P[3, 3])) if P[3, 3] else 0.0
    units = np.array([1.0, 1.0, 1.0, length or 1.0])
    eigenvalues = np.linalg.eigvalsh(P * np.multiply.outer(units, units))
    if eigenvalues[0] >= -_PRINTED * max(abs(eigenvalues[0]), abs(eigenvalues[-1])):
        return None
    return "is that of no distribution of mass (its pseudo-inertia is not positive semidefinite)"


def inertia_flaw(inertia: np.ndarray, mass: float = 0.0, center_of_mass: Any = (0.0, 0.0, 0.0)) -> str | None:
    """Why no distribution of mass has `inertia` (3, 3), kg m^2 about the centre of mass; None if one has it.

    The round-off of an inertia that was carried to the centre of mass, some eps m |c|^2, is no flaw.

    An inertia is physical if no principal moment is negative or larger than the sum of the other two.
    Otherwise the equations of motion are still defined, but the kinetic energy may not be positive
    everywhere.
    """
    if not np.isfinite(inertia).all():
        return None
    smallest, middle, largest = np.linalg.eigvalsh(inertia).tolist()  # floats of Python overflow silently
    c = np.asarray(center_of_mass, dtype=np.float64)
    slack = _slack(inertia) + 8.0 * float(np.finfo(float).eps) * mass * float(c @ c)
    moments = f"(principal moments {smallest:.6g}, {middle:.6g}, {largest:.6g} kg m^2)"
    if smallest < -slack:
        return f"is not positive semidefinite {moments}"
    if largest > smallest + middle + slack:
        return f"breaks the triangle inequality {moments}"
    return None


def is_semidefinite(inertias: np.ndarray) -> bool:
    """Whether no motion of a body has negative energy, to round-off, by spatial inertias (N, 6, 6).

    So it is if no mass and no principal moment about a centre of mass is negative.
    """
    masses, h = inertias[:, 5, 5], inertias[:, [2, 0, 1], [4, 5, 3]]
    heavy = masses != 0.0
    if (masses < 0.0).any() or h[~heavy].any():
        return False
    c = h / np.where(heavy, masses, 1.0)[:, None]
    carried = (c**2).sum(axis=1)[:, None, None] * np.eye(3) - c[:, :, None] * c[:, None, :]
    central = inertias[:, :3, :3] - masses[:, None, None] * carried
    sizes = np.abs(inertias[:, :3, :3]).max(axis=(1, 2), initial=0.0)
    return bool((np.linalg.eigvalsh(central)[:, 0] >= -_ROUND_OFF * sizes).all())


def _slack(inertia: np.ndarray) -> float:
    return _PRINTED * float(np.max(np.abs(inertia)))
