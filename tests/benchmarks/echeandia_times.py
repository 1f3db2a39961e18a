"""Times of C and Gamma by every route: here, the recursion alone, Pinocchio, automatic differentiation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import numpy as np
import pinocchio as pin
from alone import alone
from competitors import AGREEMENT, Call, Pair, medians

import connections as cn
from connections import multibody as mb

_ALONE = 5e-4  # seconds: the recursion alone runs about so long in one compiled call
AUTODIFF_LIMIT = 32  # velocities; compilation takes 5 s for 20, and more beyond


@dataclass(frozen=True)
class Times:
    """Seconds of one evaluation by each route, None where it was not measured.

    Parameters
    ----------
    public : this library's function in Python.
    alone : the recursion within compiled code, without entrance and zeroing.
    pinocchio : its C in Python; for Gamma, one C per unit velocity.
    autodiff : JAX. C of the definition (the induced connection); Gamma from derivatives of H (Koszul).
    definition : JAX, Gamma of the induced connection.
    """

    public: float
    alone: float
    pinocchio: float
    autodiff: float | None = None
    definition: float | None = None


def coriolis_time(pair: Pair, repeats: int) -> Times:
    """Times of C(q, v)."""
    model, out = pair.model, np.empty((pair.model.nv,) * 2)
    loop = partial(alone("coriolis_matrix"), model.program.memory, pair.q, pair.v, out)
    _require_equal(
        pair, mb.coriolis_matrix(model, pair.q, pair.v), pair.other.coriolis_matrix(pair.q, pair.v)
    )
    calls = [
        partial(mb.coriolis_matrix, model, pair.q, pair.v, out=out),
        pair.theirs(pin.computeCoriolisMatrix, pair.v_other),
    ]
    if model.nv <= AUTODIFF_LIMIT:
        definition = partial(cn.coriolis_matrix, model.definition.connection, pair.q, pair.v)
        calls.append(lambda: jax.block_until_ready(definition()))
    return _measure(loop, calls, repeats)


def christoffel_time(pair: Pair, repeats: int, *, definition: bool) -> Times:
    """Times of all Christoffel symbols at q, on request those of the induced connection among them."""
    model, out = pair.model, np.empty((pair.model.nv,) * 3)
    loop = partial(alone("christoffel_symbols"), model.program.memory, pair.q, np.empty(0), out)
    columns = [pair.theirs(pin.computeCoriolisMatrix, e) for e in np.eye(model.nv)]

    def pinocchio() -> None:
        for column in columns:
            column()

    ours = mb.christoffel_symbols(model, pair.q)
    _require_equal(pair, ours, pair.other.christoffel_symbols(pair.q))
    calls: list[Call] = [partial(mb.christoffel_symbols, model, pair.q, out=out), pinocchio]
    if model.nv <= AUTODIFF_LIMIT:
        for connection in (cn.LeviCivita(model.definition.metric), model.definition.connection)[
            : 1 + definition
        ]:
            first_kind = partial(connection.first_kind, pair.q, model.definition.metric)
            _require_equal(pair, ours, np.asarray(first_kind()))
            calls.append(lambda first_kind=first_kind: jax.block_until_ready(first_kind()))
    return _measure(loop, calls, repeats)


def _measure(loop: Callable[[int], bool], calls: list[Call], repeats: int) -> Times:
    if not loop(1):
        raise SystemExit("the recursion refuses its input")
    (once,) = medians([partial(loop, 1)], 3)
    times = max(1, round(_ALONE / once))
    alone, public, pinocchio, *autodiff = medians([partial(loop, times), *calls], repeats)
    return Times(public, alone / times, pinocchio, *autodiff)


def _require_equal(pair: Pair, ours: np.ndarray, theirs: np.ndarray) -> None:
    gap = np.max(np.abs(ours - theirs)) / np.max(np.abs(ours))
    if not gap <= AGREEMENT:
        raise SystemExit(f"{pair.name}: the values differ by {gap:.1e}: nothing is timed")
