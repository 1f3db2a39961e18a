"""Gains of control laws, checked once when they are given.

Every gain becomes an (n, n) float64 matrix; a scalar k means k 1, a vector means a diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array
from connections.checks import (
    ShapeError,
    as_array,
    finite_result,
    require_bool,
    require_finite,
    require_text,
    require_whole,
)

_SYMMETRIC = 1e-12
_MOST = 2**31 - 1  # rows of a matrix


class GainError(ValueError):
    """A gain is not positive definite, or not symmetric although the law needs it.

    Examples
    --------
    >>> from connections import control
    >>> control.gain_matrix("K_D", [1.0, -2.0], 2)
    Traceback (most recent call last):
        ...
    connections.control.laws.gains.GainError: K_D must be positive definite: smallest eigenvalue of
    its symmetric part -2.000e+00
    """


@dataclass(frozen=True)
class CertifiedGain:
    """A gain k 1 with the condition that it satisfies. Laws take it as their gain, and print it.

    It is proved for the robot that was certified; that this is the robot that the law moves, nobody checks.

    Attributes
    ----------
    name : K_P, K_D, K or gamma.
    value : k.
    unit : text.
    condition : the inequality, of the constants in `uses`.
    uses : name -> the certified end that the condition needs.
    where : the postures for which it is proved.

    Examples
    --------
    >>> from connections import certified, control
    >>> from connections import multibody as mb
    >>> arm = certified.constants(mb.example("arm"), only=["lambda_max"], rtol=0.2)
    >>> gain = control.gains_from(arm).tracking(rate=2.0)
    >>> gain.condition
    'K_D >= rho lambda_max(H)'
    >>> control.PassivityController(mb.example("arm").system(), gain).certificate.splitlines()[-1].strip()
    'of the robot that was certified, at every posture within the limits of joints'
    """

    name: str
    value: float
    unit: str
    condition: str
    uses: dict[str, float]
    where: str

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        used = ", ".join(f"{name} = {value:.4g}" for name, value in self.uses.items())
        lines = (f"{self.name} = {self.value:.6g} {self.unit}", f"since {self.condition}", f"with {used}")
        return "\n  ".join((*lines, f"of the robot that was certified, at {self.where}"))


class Certifiable:
    """A law that prints what its gains are proved for."""

    _certificate = ""

    @property
    def certificate(self) -> str:
        """The proofs of the law's gains, as text; empty if they are numbers."""
        return self._certificate

    def _keep_certificates(self, **names: str) -> None:
        """Replace gains that are certified by their numbers, and keep what is said of them.

        Raises
        ------
        GainError : a gain of another name than the law's.
        """
        gains = {attribute: getattr(self, attribute) for attribute in names}
        proved = {attribute: gain for attribute, gain in gains.items() if isinstance(gain, CertifiedGain)}
        for attribute, gain in proved.items():
            if gain.name != names[attribute]:
                raise GainError(f"{attribute}: expected a {names[attribute]}, got a certified {gain.name}")
            object.__setattr__(self, attribute, float(gain))
        if proved:
            object.__setattr__(self, "_certificate", "\n".join(map(str, proved.values())))

    def __str__(self) -> str:
        return "\n".join(filter(None, (repr(self), self.certificate)))


def gain_matrix(name: str, gain: Any, dim: int, symmetric: bool = False) -> Any:
    """The gain as a matrix K (dim, dim) in NumPy, with x^T K x > 0 for every x other than zero.

    Parameters
    ----------
    name : how the caller calls the gain.
    gain : scalar k for k 1, (dim,) for a diagonal, or (dim, dim).
    dim : size of the square matrix.
    symmetric : whether K must equal its transpose.

    A gain that JAX traces has no values to check, and stays an array of JAX.

    Raises
    ------
    ShapeError, NonFiniteError, GainError, TypeError (not made of real numbers).

    Examples
    --------
    >>> from connections import control
    >>> control.gain_matrix("K_D", [1.0, 2.0], 2)
    array([[1., 0.],
           [0., 2.]])
    >>> control.gain_matrix("K_D", [[1.0, 0.5], [0.0, 1.0]], 2, symmetric=True)
    Traceback (most recent call last):
        ...
    connections.control.laws.gains.GainError: K_D must be symmetric: it differs from its transpose by
    5.00e-01
    """
    require_text("name", name)
    require_whole("dim", dim, 1, _MOST)
    require_bool("symmetric", symmetric)
    if isinstance(gain, jax.core.Tracer):
        if gain.shape not in ((), (dim,), (dim, dim)):
            raise ShapeError(name, f"(), ({dim},) or ({dim}, {dim})", gain.shape)
        return gain if gain.ndim == 2 else jnp.diag(jnp.broadcast_to(gain, (dim,)))
    array = np.asarray(as_array(name, gain, ()))
    if array.shape not in ((), (dim,), (dim, dim)):
        raise ShapeError(name, f"(), ({dim},) or ({dim}, {dim})", array.shape)
    require_finite(name, array)
    matrix = array if array.ndim == 2 else np.diag(np.broadcast_to(array, (dim,)))
    if symmetric:
        require_symmetric(name, matrix)
    part = (matrix + matrix.T) / 2
    if not (np.diag(part) > 0.0).all() or not np.linalg.eigvalsh(unit_diagonal(part))[0] > 0.0:
        what = f"smallest eigenvalue of its symmetric part {float(np.linalg.eigvalsh(part)[0]):.3e}"
        raise GainError(f"{name} must be positive definite: {what}")
    return matrix


def sliding(v: Any, v_r: Any) -> Any:
    """The sliding variable s = v - v_r, (..., n), of vectors that are already validated."""
    return as_array("v", v, ()) - as_array("v_r", v_r, ())


def finite(what: str, result: Array, **vectors: Any) -> Array:
    """The result; `NonFiniteError` if it is not finite: one of these vectors is not, or they are too large.

    One test of the result takes half the time of a test of each vector, which counts in a control loop, and
    its square a fifth of that: it is finite if all numbers are, and not too large.
    """
    if type(result) is np.ndarray and isfinite(np.vdot(result, result)):
        return result
    if not isinstance(result, jax.core.Tracer) and not np.isfinite(result).all():
        for name, vector in vectors.items():
            require_finite(name, vector)
        finite_result(what, result)
    return result


def one_vector(name: str, value: Any, size: int | None = None) -> jax.Array:
    """`value` (size,) as an array of finite numbers; any size if None."""
    vector = as_array(name, value, (size,))
    require_finite(name, vector)
    if vector.ndim != 1:
        raise ShapeError(name, ("k" if size is None else size,), vector.shape)
    return jnp.asarray(vector)


def require_symmetric(name: str, matrix: np.ndarray) -> None:
    """Raise `GainError` unless |K_ij - K_ji| is round-off beside the diagonal entries, and beside itself."""
    diagonal = np.sqrt(np.abs(np.diag(matrix)))
    sizes = np.maximum(np.outer(diagonal, diagonal), np.maximum(np.abs(matrix), np.abs(matrix.T)))
    gap = np.abs(matrix - matrix.T)
    if not (gap <= _SYMMETRIC * sizes).all():
        raise GainError(f"{name} must be symmetric: it differs from its transpose by {gap.max():.2e}")


def unit_diagonal(matrix: np.ndarray) -> np.ndarray:
    """K_ij / (K_ii K_jj)^(1/2): as definite as K, in any units; a diagonal entry of zero counts as 1."""
    diagonal = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    diagonal = np.where(diagonal > 0.0, diagonal, 1.0)
    return np.asarray(matrix / np.outer(diagonal, diagonal))
