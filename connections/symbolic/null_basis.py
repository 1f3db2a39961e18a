"""The null basis of one-forms in numbers: its expressions, and where they divide by zero.

The forms W (p, n) are solved for p of the velocities; each of the others is one in one basis field and zero
in the rest. Where the p columns of W that are solved for are dependent, this basis is infinite.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.distributions import AnnihilatedDistribution, Distribution, basis_alone
from connections.checks import FrameError, raise_at
from connections.geometry.frames import PointFunction
from connections.geometry.metrics import Metric

_CLEAR = 1e-6  # of `clearance_at`, whose square is the precision that coefficients in this basis lose


@dataclass(frozen=True, eq=False)
class EliminatedDistribution(Distribution):
    """The vectors on which forms vanish, in the null basis: p velocities solved for the others.

    Parameters
    ----------
    metric : metric in whose frame forms and basis are given.
    basis : q (nq,) -> A (n, n - p), the null basis; JAX-traceable.
    forms : q -> W (p, n); JAX-traceable.
    solved : the p velocities that the others determine.
    divisor : the determinant of these columns of W, for messages.
    """

    metric: Metric
    basis: PointFunction
    forms: PointFunction
    solved: tuple[int, ...]
    divisor: str
    rank: int = field(init=False)
    annihilated: AnnihilatedDistribution = field(init=False, repr=False)

    def __post_init__(self) -> None:
        annihilated = AnnihilatedDistribution(self.metric, self.forms)
        object.__setattr__(self, "rank", annihilated.rank)
        object.__setattr__(self, "annihilated", annihilated)

    def basis_at(self, q: jax.Array) -> jax.Array:
        """The null basis, (n, m)."""
        return jnp.asarray(self.basis(q))

    def forms_at(self, q: jax.Array) -> jax.Array:
        """W(q), (p, n)."""
        return self.annihilated.forms_at(q)

    def complement_at(self, q: jax.Array) -> jax.Array:
        """Of the forms alone, (n, n): no basis enters."""
        return self.annihilated.complement_at(q)

    def regular_at(self, q: jax.Array) -> jax.Array:
        """The metric is valid and the forms have rank p."""
        return self.annihilated.regular_at(q)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Regular, and the null basis is."""
        return self.regular_at(q) & (self.clearance_at(q) > _CLEAR)

    def clearance_at(self, q: jax.Array) -> jax.Array:
        """The determinant of the columns solved for, relative to all of W: zero where they are dependent.

        Velocities are measured by their sizes, as `Distribution.covectors_at` does.
        """
        W = self.annihilated.covectors_at(q).T
        W = W / jnp.linalg.norm(W, axis=1, keepdims=True)
        return jnp.abs(jnp.linalg.det(W[:, jnp.array(self.solved)])) / jnp.sqrt(jnp.linalg.det(W @ W.T))

    def explain(self, q: Any) -> None:
        """The error of metric or forms, or `FrameError` naming what the basis divides by."""
        self.annihilated.explain_regular(q)
        point = jnp.asarray(q)
        if not self.clearance_at(point) > _CLEAR:
            columns = np.array(self.solved)
            value = np.linalg.det(np.asarray(self.forms_at(point))[:, columns])
            velocities = ", ".join(str(k + 1) for k in self.solved)
            what = (
                f"the basis computed from the forms is singular: it solves them for velocity {velocities} of "
            )
            what += f"the frame, which divides by {self.divisor} = {value:.1e}; {basis_alone(len(columns))}"
            raise_at(FrameError, f"{what}, so {REMEDY}", q)


REMEDY = 'give another basis, or take the one that is orthonormal in the metric: numeric(basis="orthonormal")'
