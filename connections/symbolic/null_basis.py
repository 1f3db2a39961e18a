"""The null basis of one-forms as a numeric distribution, and the points where it divides by zero.

The forms W (p, n) are solved for p of the velocities; each of the others is one in one basis field and zero
in the others. This basis is infinite where the p columns of W of the solved velocities are dependent.
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

_CLEAR = 1e-6  # least `clearance_at`; coefficients in this basis lose precision by its square


@dataclass(frozen=True, eq=False)
class EliminatedDistribution(Distribution):
    """The vectors on which forms vanish, in the null basis: p velocities solved for the others.

    Parameters
    ----------
    metric : metric in whose frame forms and basis are given.
    basis : q (nq,) -> A (n, n - p), the null basis; JAX-traceable.
    forms : q -> W (p, n); JAX-traceable.
    solved : the p velocities that the others determine.
    divisor : the determinant of their columns of W, for errors.
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
        """The complement's projection (n, n), from the forms, without a basis."""
        return self.annihilated.complement_at(q)

    def regular_at(self, q: jax.Array) -> jax.Array:
        """The metric is valid and the forms have rank p."""
        return self.annihilated.regular_at(q)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The distribution and the null basis are regular."""
        return self.regular_at(q) & (self.clearance_at(q) > _CLEAR)

    def clearance_at(self, q: jax.Array) -> jax.Array:
        """The determinant of the columns of `solved`, relative to all of W: zero where they are dependent.

        Components are in units of the frame's lengths, as in `Distribution.covectors_at`.
        """
        W = self.annihilated.covectors_at(q).T
        W = W / jnp.linalg.norm(W, axis=1, keepdims=True)
        return jnp.abs(jnp.linalg.det(W[:, jnp.array(self.solved)])) / jnp.sqrt(jnp.linalg.det(W @ W.T))

    def explain(self, q: Any) -> None:
        """The error of metric or forms, or `FrameError` naming the divisor that vanishes."""
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
