"""Why momenta of a symmetry are not conserved: the metric or the potential is not invariant.

Along a generator xi = d Phi_g(q) / dg at g = e, the potential changes at the rate dV xi, and the metric,
pushed by B(g) (`symmetry`), at

    d/dg (B^T H(Phi_g q) B) = (dB/dg)^T H + H dB/dg + dH xi,

both zero if they are invariant. Source: [Z] 3.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.symmetry import TOL, GroupAction
from connections.checks import IntegrationError
from connections.geometry.metrics import Metric
from connections.geometry.numerics.scales import FLOOR, lengths_of

MOMENTUM = "the momentum of generator"  # how errors name what a symmetry conserves
_LISTED = 8  # coordinates of a point in an error
_MOST = 100  # points that are looked at


@contextmanager
def broken_symmetry_told(
    name: str,
    metric: Metric | None,
    potential: Callable[[jax.Array], Any] | None,
    action: GroupAction,
    q0: Any,
) -> Iterator[None]:
    """A `with` block whose errors about a momentum that drifts say why: the system lacks the symmetry.

    Parameters
    ----------
    name : of the function that is called.
    metric, potential : of the system; q -> J, or None for none. Without a metric nothing is said.
    action : the group of the symmetry.
    q0 : (..., nq) where the motions start.
    """
    try:
        yield
    except IntegrationError as error:
        if metric is None:
            raise
        reason = _reason(metric, potential, action, _points(error, q0)) if MOMENTUM in str(error) else ""
        if not reason:
            raise
        told = IntegrationError(f"{name}: {reason}")
        vars(told).update(vars(error))  # the motion, and which ones failed
        raise told from error


def changes_at(
    metric: Metric, potential: Callable[[jax.Array], Any] | None, action: GroupAction, q: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """How fast potential and metric change along each generator at q (nq,), of their terms, (k,) each."""
    xi, e = action.generators_at(q), jnp.asarray(action.identity)
    slope = jnp.zeros_like(q) if potential is None else jax.grad(lambda q: jnp.asarray(potential(q)))(q)
    of_potential = _share(jnp.abs(slope @ xi), jnp.abs(slope) @ jnp.abs(xi))
    frame, H = metric.frame, metric.matrix_at(q)
    rate = jax.jacfwd(lambda g: action.push_at(frame, q, g)[1])(e)
    turned = jax.jacfwd(lambda g: action.tangent_at(q, g)[1])(e)
    dual, X = jnp.abs(frame.dual_at(q)), jnp.abs(frame.matrix_at(q))
    dual_rate = jax.jacfwd(lambda g: frame.dual_at(action.act_at(q, g)))(e)
    sizes = jnp.einsum("ipk,pj->ijk", jnp.abs(dual_rate), X)
    sizes = sizes + jnp.einsum("ip,prk,rj->ijk", dual, jnp.abs(turned), X)
    slopes = jax.jacfwd(metric.matrix_at)(q)
    change = jnp.einsum("ijp,pk->ijk", slopes, xi)
    change = change + jnp.einsum("iak,ij->ajk", rate, H) + jnp.einsum("ij,jak->iak", H, rate)
    terms = jnp.einsum("ijp,pk->ijk", jnp.abs(slopes), jnp.abs(xi))
    terms = (
        terms + jnp.einsum("iak,ij->ajk", sizes, jnp.abs(H)) + jnp.einsum("ij,jak->iak", jnp.abs(H), sizes)
    )
    lengths = lengths_of(metric.positive_at(q))
    terms = terms + FLOOR * jnp.max(terms, axis=(0, 1)) * jnp.outer(lengths, lengths)[..., None]
    return of_potential, jnp.max(_share(jnp.abs(change), terms), axis=(0, 1))


def _share(size: jax.Array, of: jax.Array) -> jax.Array:
    return jnp.where(size > 0.0, size / jnp.where(of > 0.0, of, 1.0), 0.0)


def _points(error: IntegrationError, q0: Any) -> np.ndarray:
    """(m, nq) some points at which motions start, and at which they were."""
    size = np.shape(q0)[-1]
    points = np.asarray(q0, dtype=float).reshape(-1, size)
    if error.motion is not None:
        points = np.concatenate([points, np.asarray(error.motion.q).reshape(-1, size)])
    if "stopped" in vars(error):
        points = np.concatenate([points, vars(error)["stopped"][None, :size]])
    points = points[np.isfinite(points).all(axis=1)]
    return np.asarray(points[:: max(1, len(points) // _MOST)])


def _reason(
    metric: Metric, potential: Callable[[jax.Array], Any] | None, action: GroupAction, points: np.ndarray
) -> str:
    """Which of the two is not invariant, where, and under which generator; empty if both are."""
    found = jax.vmap(lambda q: changes_at(metric, potential, action, q))(jnp.asarray(points))
    told = []
    for what, shares in zip(("potential", "metric"), map(np.asarray, found), strict=True):
        worst = np.nan_to_num(shares)
        row, generator = np.unravel_index(int(np.argmax(worst)), worst.shape)
        if worst[row, generator] > TOL:
            q = ", ".join(f"{x:.4g}" for x in points[row][:_LISTED])
            more = ", ..." if points.shape[1] > _LISTED else ""
            told.append(
                f"the {what} is not invariant under generator {generator} of the symmetry: along it, it "
                f"changes by {worst[row, generator]:.2g} of its terms at q = [{q}{more}]"
            )
    if not told:
        return ""
    return f"{', and '.join(told)}; so its momentum is not conserved: give a symmetry that the system has"
