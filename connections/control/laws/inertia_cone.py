"""The estimates that are inertias of bodies: a slice of a product of cones of positive definite matrices.

    P_b(theta) = P_b0 + theta^a E_ba > 0,      G_ab = sum over b of tr(P_b^-1 E_a P_b^-1 E_b),

one 4 x 4 pseudo-inertia for each body and one 1 x 1 inertia for each armature. If each theta^a is a parameter
of its own, the slice is everything, and G^-1 of a covector is P S P, S the dual.

All functions take arrays of NumPy or JAX, and validate nothing but in `require`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg.lapack import dpotrf, dsyev

from connections.checks import PointError
from connections.control.laws.gains import unit_diagonal
from connections.evaluation.parameters import Parametrized
from connections.geometry.numerics.positive_definite import (
    divergence,
    exponential_in_factor,
    inner_products,
)
from connections.multibody.inertia import pseudo_inertia_basis
from connections.multibody.inertia_metric import inertia_metric

BODY = 10  # parameters of a body
_UNITS = pseudo_inertia_basis().reshape(BODY, 16)
_ROUND_OFF = 1e-9  # of a mass at its bound, and of steps of an integration


@dataclass(frozen=True, eq=False)
class InertiaCone(Parametrized):
    """Where the total inertias are those of bodies, in parameters theta (p,) that are additions to the known.

    Parameters
    ----------
    bodies, joints : names of B bodies and A velocity components with unknown armature.
    known : (10 B + A,) what the model has.
    basis : (10 B + A, p), or None if theta are the additions themselves.

    Attributes
    ----------
    mass_rows : (B, p), the mass of each body is known mass + mass_rows . theta.
    """

    bodies: tuple[str, ...]
    joints: tuple[str, ...]
    known: np.ndarray
    basis: np.ndarray | None
    mass_rows: np.ndarray = field(init=False)
    _offsets: tuple[np.ndarray, ...] = field(init=False)
    _bases: tuple[np.ndarray, ...] = field(init=False)
    _dual: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        bodies, metric = len(self.bodies), inertia_metric()
        basis = np.eye(len(self.known)) if self.basis is None else self.basis
        split, E = BODY * bodies, np.asarray(metric.basis)
        of_bodies = np.einsum("bka,kij->abij", basis[:split].reshape(bodies, BODY, -1), E)
        offsets = [np.einsum("bk,kij->bij", self.known[:split].reshape(bodies, BODY), E)]
        bases = [of_bodies.reshape(len(of_bodies), -1)]
        if self.joints:
            offsets.append(self.known[split:, None, None])
            bases.append(basis[split:].T)
        for name, value in (
            ("mass_rows", basis[:split:BODY]),
            ("_offsets", tuple(offsets)),
            ("_bases", tuple(bases)),
            ("_dual", metric.dual_basis.reshape(BODY, 16)),
        ):
            object.__setattr__(self, name, value)

    def matrices(self, theta: Any) -> tuple[Any, ...]:
        """P of the bodies, (..., B, 4, 4), and if there are joints, of these, (..., A, 1, 1)."""
        batch = theta.shape[:-1]
        return tuple(
            offset + (theta @ basis).reshape(batch + offset.shape)
            for offset, basis in zip(self._offsets, self._bases, strict=True)
        )

    def masses(self, theta: Any) -> Any:
        """Total masses of the bodies, (..., B)."""
        return self._offsets[0][:, 3, 3] + theta @ self.mass_rows.T

    def direction(self, theta: Any, covectors: Any) -> Any:
        """G^-1 a, (..., p), at theta (..., p)."""
        if self.basis is None:
            parts = zip(self.matrices(theta), self._duals(covectors), strict=True)
            return self._coordinates([P @ S @ P for P, S in parts])
        return _module_of(theta).linalg.solve(self.metric(theta), covectors[..., None])[..., 0]

    def metric(self, theta: Any) -> Any:
        """G, (..., p, p)."""
        return sum(
            inner_products(P, basis.reshape(len(basis), *P.shape[-3:]).swapaxes(0, 1)).sum(-3)
            for P, basis in zip(self.matrices(theta), self._bases, strict=True)
        )

    def slope(self, theta: Any, prior: Any) -> Any:
        """The covector (..., p) of the derivatives of d(P(theta) || P(prior)): tr((P_0^-1 - P^-1) E_a)."""
        inverse, found = _module_of(theta).linalg.inv, 0.0
        for P, P_0, basis in zip(self.matrices(theta), self.matrices(prior), self._bases, strict=True):
            gap = inverse(P) - inverse(P_0)
            found = found - gap.reshape(*gap.shape[:-3], basis.shape[1]) @ basis.T
        return found

    def divergence(self, theta: Any, other: Any) -> Any:
        """The sum of d(P(theta) || P(other)), (...,)."""
        pairs = zip(self.matrices(theta), self.matrices(other), strict=True)
        return sum(divergence(P, Q).sum(-1) for P, Q in pairs)

    def geodesic_step(self, theta: Any, covectors: Any, most: float, bounds: Any) -> Any:
        """Theta where the geodesic with the velocity -P S P is at time 1, then on the bounds of mass.

        P_+ = L exp(-L^T S L) L^T with P = L L^T, at most a length `most` away for each body; theta are the
        additions themselves, and bounds (B,) are infinite for bodies without one.
        """
        if isinstance(theta, np.ndarray) and theta.ndim == covectors.ndim == 1:
            return self._one_step(theta, covectors, most, bounds)
        by, ends = _module_of(theta), []
        for P, S in zip(self.matrices(theta), self._duals(-covectors), strict=True):
            L = by.linalg.cholesky(P)
            ends.append(exponential_in_factor(L, L.swapaxes(-1, -2) @ S @ L, most))
        ends[0] = _with_bounded_mass(ends[0], bounds, by)
        return self._coordinates([end - offset for end, offset in zip(ends, self._offsets, strict=True)])

    def _one_step(self, theta: np.ndarray, covector: np.ndarray, most: float, bounds: np.ndarray) -> Any:
        """The `geodesic_step` of one point, by LAPACK itself, in half the time of NumPy's batches."""
        after, dual, split = np.empty_like(theta), self._dual, BODY * len(self.bodies)
        for b, offset in enumerate(self._offsets[0]):  # `dot` of small arrays takes half the time of `@`
            own = slice(BODY * b, BODY * b + BODY)
            L, info = dpotrf(theta[own].dot(_UNITS).reshape(4, 4) + offset, lower=1)
            if info:
                raise np.linalg.LinAlgError(f"body {b}: P is not positive definite")
            e, U, info = dsyev(L.T.dot(covector[own].dot(dual).reshape(4, 4)).dot(L))
            length = math.sqrt(e.dot(e))
            half = L.dot(U * np.exp(e * (-0.5 * most / length if length > most else -0.5)))
            end = half.dot(half.T)
            if end[3, 3] > bounds[b]:
                end = _with_bounded_mass(end, bounds[b], np)
            after[own] = dual.dot((end - offset).reshape(16))
        if self.joints:
            rho = self.matrices(theta)[1][:, 0, 0]
            if not (rho > 0.0).all():
                raise np.linalg.LinAlgError("an armature is not positive")
            change = rho * np.expm1(-np.clip(rho * covector[split:], -most, most))
            after[split:] = theta[split:] + change
        return after

    def damped_step(self, theta: Any, covectors: Any) -> Any:
        """Theta - u / (1 + |u|_G), u = G^-1 a: within the ball |.|_G < 1, which is within the cone."""
        u = self.direction(theta, covectors)
        length = _module_of(u).sqrt((u * covectors).sum(-1, keepdims=True))
        return theta - u / (1.0 + length)

    def without_rise(self, theta: Any, change: Any, allowed: Any) -> Any:
        """The change (..., p), projected in G on those that raise no mass by more than `allowed` (..., B)."""
        by = _module_of(theta)
        beyond = by.maximum(change @ self.mass_rows.T - allowed, 0.0)
        if by is np and not beyond.any():
            return change
        for b, row in enumerate(self.mass_rows):
            raised = self.direction(theta, by.broadcast_to(row, theta.shape))
            size = (raised * row).sum(-1, keepdims=True)
            share = beyond[..., b : b + 1] / by.where(size > 0.0, size, 1.0)
            change = change - by.where(size > 0.0, share, 0.0) * raised
        return change

    def units(self, *points: Any) -> Any:
        """A size of each component of theta (p,), from masses m and radii r of the bodies: m, m r, m r^2."""
        P, *rho = [sum(map(abs, parts)) for parts in zip(*map(self.matrices, points), strict=True)]
        by = _module_of(P)
        m = P[:, 3, 3]
        r = by.sqrt((P[:, 0, 0] + P[:, 1, 1] + P[:, 2, 2]) / by.where(m > 0.0, m, 1.0))
        powers = np.array([0, 1, 1, 1, 2, 2, 2, 2, 2, 2])
        sizes = [m[:, None] * r[:, None] ** powers, *rho]
        of_parameters = by.concatenate([size.reshape(-1) for size in sizes])
        if self.basis is None:
            return of_parameters
        shares = abs(self.basis)
        ratios = by.where(shares > 0.0, of_parameters[:, None] / by.where(shares > 0.0, shares, 1.0), by.inf)
        return ratios.min(0)

    def require(self, name: str, theta: Any, mean: str = "the estimate") -> None:
        """Raise `PointError` with the first body or joint whose P(theta) is not positive definite."""
        if isinstance(theta, jax.core.Tracer):
            return
        groups = zip(
            self.matrices(np.asarray(theta)), (self.bodies, self.joints), ("body", "joint"), strict=False
        )
        for P, names, kind in groups:
            if _are_positive(P):
                continue
            for number, one in enumerate(P.reshape(-1, *P.shape[-2:])):
                if not _are_positive(one):
                    smallest = np.linalg.eigvalsh(unit_diagonal(one))[0]
                    what = f"{kind} '{names[number % len(names)]}', {mean} included,"
                    raise PointError(
                        f"{name}: {what} has an inertia that is not positive definite "
                        f"(smallest eigenvalue {smallest:.2e} if its diagonal is 1)"
                    )

    def require_masses(self, name: str, theta: Any, bounds: np.ndarray) -> None:
        """Raise `PointError` with the first body whose mass is above its bound (B,), kg."""
        if isinstance(theta, jax.core.Tracer) or not np.isfinite(bounds).any():
            return
        masses = self.masses(np.asarray(theta)).reshape(-1, len(bounds))
        for body, m, bound in zip(self.bodies, masses.max(axis=0), bounds, strict=True):
            if not m <= bound * (1.0 + _ROUND_OFF):
                raise PointError(f"{name}: body '{body}' has {m:g} kg, above its mass_bound of {bound:g} kg")

    def _duals(self, covectors: Any) -> tuple[Any, ...]:
        bodies, batch = len(self.bodies), covectors.shape[:-1]
        if not self.joints:
            return ((covectors.reshape(*batch, bodies, BODY) @ self._dual).reshape(*batch, bodies, 4, 4),)
        split = BODY * bodies
        rows = covectors[..., :split].reshape(*batch, bodies, BODY) @ self._dual
        return rows.reshape(*batch, bodies, 4, 4), covectors[..., split:, None, None]

    def _coordinates(self, parts: Sequence[Any]) -> Any:
        P, *rho = parts
        batch = P.shape[:-3]
        rows = (P.reshape(*P.shape[:-2], 16) @ self._dual.T).reshape(*batch, BODY * len(self.bodies))
        if not rho:
            return rows
        return _module_of(P).concatenate([rows, rho[0].reshape(*batch, len(self.joints))], axis=-1)


def one_body_each(basis: np.ndarray, bodies: int) -> bool:
    """Whether no parameter of `basis` (10 B + A, p) moves several bodies or joints."""
    parts = [basis[BODY * b : BODY * (b + 1)] for b in range(bodies)] + list(basis[BODY * bodies :, None])
    moved: np.ndarray = sum(np.abs(part).any(axis=0).astype(int) for part in parts)
    return bool((moved <= 1).all())


def _with_bounded_mass(P: Any, bounds: Any, by: Any) -> Any:
    """The Bregman projection of P (..., 4, 4) on m <= bound: P - (m - bound) / m^2 (P e_4) (P e_4)^T beyond.

    X^-1 = P^-1 + lambda e_4 e_4^T, so X is positive definite, and d(Q || X) <= d(Q || P) for each Q within
    the bounds.
    """
    last = P[..., :, 3]
    m = last[..., 3]
    excess = by.maximum(m - bounds, 0.0) / (m * m)
    return P - excess[..., None, None] * last[..., :, None] * last[..., None, :]


def _are_positive(P: np.ndarray) -> bool:
    try:
        np.linalg.cholesky(P)
    except np.linalg.LinAlgError:
        return False
    return True


def _module_of(x: Any) -> Any:
    return jnp if isinstance(x, jax.Array) else np
