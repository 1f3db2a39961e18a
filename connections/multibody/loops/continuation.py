"""A closed chain followed in JAX along the straight path of its independent coordinates.

This is the way where compiled code cannot go: closures that are users' functions, and other devices. The
rules are those of `kernels/loop_path.py` and, for points in which branches cross, `kernels/loop_branches.py`,
which state and explain them. Whole turns of a crank are not taken off, because a function need not have the
period of a turn. JAX-traceable. Source: [W] VI-C; Keller, as there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from connections.multibody.loops.conditions import LoopClosure, pivots
from connections.multibody.tolerances import (
    CLEAR,
    CLOSE,
    CLOSED,
    EXTRAPOLATED,
    LARGEST_CHANGE,
    LARGEST_CORRECTION,
    LARGEST_JUMP,
    LARGEST_REACH,
    LARGEST_TURN,
    MOST_TRIALS,
    NODES,
    SAME,
    SINGULAR,
    SINGULAR_STEP,
    SMALLEST_REACH,
    SMALLEST_STEP,
)

_CORRECTIONS = 12
_POLISHING = 3  # a step ends after so many corrections that are round-off
_CONVERGED, _ROUND_OFF = (
    1e-12,
    3e-15,
)  # a correction is round-off below the first, or the second over the pivot


class Continuation(NamedTuple):
    """The result of a continuation."""

    q: jax.Array  #: (nq_s,) the spanning configuration at the last point of the path that was reached
    reached: jax.Array  #: the fraction of the path up to that point; 1 is success
    pivot: jax.Array  #: (n_d,) `pivots` of K_d, for each dependent velocity


_GOAL, _LANDING, _AGAIN = NODES, -1, -2  # where a leg leads; 0, ..., NODES - 1 are the nodes


def follow(loops: LoopClosure, q: jax.Array, start: jax.Array) -> Continuation:
    """Follow the loops from the spanning configuration `start` (nq_s,) to the configuration q (nq,).

    The path consists of legs. The first leads to q. Where it is cut, legs lead to `NODES` points before the
    cut. Polynomials through these, the first through one less, lead to points beyond the cut. The loops are
    closed there by legs of length zero, and if both end at the same point, the next leg leads from it to q.
    """
    line = _Line.of(loops, q, start)

    def advance(path: _Path) -> _Path:
        """One leg, and what follows from where it ends."""
        node, to_goal, landing = path.node, path.node == _GOAL, path.node < 0
        beyond = jnp.minimum(path.cut + path.spacing, 1.0)
        aim = jnp.where(landing, beyond, jnp.where(to_goal, 1.0, path.cut - path.spacing * (node + 1)))
        phi, K = loops.conditions_at(path.begin.q)
        before = _Factors.of(loops, K)
        leg = _leg(loops, line, path.begin, aim, path.trials)
        pivots, began = leg.factors.pivots(), jnp.isfinite(leg.clear.t)
        arrived, near = began & (leg.end.t == aim), began & (jnp.abs(1.0 - leg.end.t) * line.way < CLOSE)
        flat = landing & (beyond == 1.0) & (jnp.min(before.pivots(), initial=1.0) < SINGULAR)
        flat &= jnp.max(jnp.abs(phi), initial=0.0) <= EXTRAPOLATED
        apart = loops.spanning.frame.velocity_at(path.ended_at, leg.end.q - path.ended_at)
        apart = jnp.max(jnp.abs(apart[loops.dependent] / loops.lengths), initial=0.0)
        same = (node == _LANDING) | (apart <= SAME * jnp.min(pivots, initial=1.0))
        good = ~landing | (same & (before.change(loops, leg.K) <= LARGEST_JUMP))
        cut = to_goal & ~arrived & ~near & began
        shorter = ~to_goal & ~flat & ~(arrived & good)
        landed = (node == _AGAIN) & arrived & good
        spacing = jnp.where(cut, LARGEST_REACH / line.way, jnp.where(shorter, 0.2, 1.0) * path.spacing)
        clear = _select(cut, leg.clear, path.clear)
        samples = jnp.where((jnp.arange(NODES) == node)[:, None], leg.end.q, path.samples)
        begin = _select(cut | shorter, clear, leg.end)
        for at, count in ((0, NODES - 1), (_LANDING, NODES)):
            q_s = _extrapolation(samples[:count], (beyond - path.cut) / path.spacing)
            point = _ContinuationPoint(beyond, loops.with_independent(loops.projected(q_s), line.at(beyond)))
            begin = _select((node == at) & ~shorter, point, begin)
        return _Path(
            begin=begin,
            clear=clear,
            last=_select(to_goal | landed, leg.end, path.last),
            pivots=jnp.where(flat, before.pivots(), jnp.where(to_goal | landed, pivots, path.pivots)),
            cut=jnp.where(cut, leg.end.t, path.cut),
            spacing=spacing,
            node=jnp.where(cut | shorter, NODES - 1, jnp.where(landed, _GOAL, node - 1)),
            samples=samples,
            ended_at=leg.end.q,
            trials=leg.trials,
            singular=flat | (to_goal & ~arrived & near),
            ended=(to_goal & ~cut)
            | flat
            | (shorter & (spacing * line.way < SMALLEST_REACH))
            | (leg.trials <= 0),
        )

    begin, no = _ContinuationPoint(jnp.zeros(()), start), jnp.asarray(False)
    path = jax.lax.while_loop(
        lambda path: ~path.ended,
        advance,
        _Path(
            begin=begin,
            clear=begin,
            last=begin,
            pivots=jnp.zeros(len(loops.dependent)),
            cut=jnp.ones(()),
            spacing=jnp.ones(()),
            node=jnp.asarray(_GOAL),
            samples=jnp.zeros((NODES, len(start))),
            ended_at=start,
            trials=jnp.asarray(MOST_TRIALS),
            singular=no,
            ended=no,
        ),
    )
    arrived = path.singular | (path.last.t == 1.0)
    return Continuation(
        jnp.where(arrived, loops.with_independent(path.last.q, q), path.last.q),
        jnp.where(arrived, 1.0, path.last.t),
        jnp.where(path.singular, SINGULAR, 1.0) * path.pivots,
    )


# --- a path -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Line:
    """The straight path of the independent coordinates (of quaternions: the shorter arc), t from 0 to 1."""

    loops: LoopClosure
    home: jax.Array  #: (nq,)
    goal: jax.Array  #: (nq,)
    way: jax.Array  #: its length, rad, or in units of the loop's size

    @staticmethod
    def of(loops: LoopClosure, q: jax.Array, start: jax.Array) -> _Line:
        """The path to q (nq,) from the spanning configuration `start` (nq_s,)."""
        home = start[loops.q_columns]
        goal = loops.joint_frame.align_at(q, home)
        v = loops.joint_frame.velocity_at(home, goal - home)[loops.free]
        way = jnp.sum(jnp.abs(v) / loops.free_lengths)
        return _Line(loops, home, goal, jnp.maximum(way, np.finfo(float).tiny))

    def at(self, t: jax.Array) -> jax.Array:
        """The configuration (nq,) at t; also before 0."""
        between = self.loops.joint_frame.project_at(self.home + t * (self.goal - self.home))
        return jnp.where(t == 1.0, self.goal, between)


class _ContinuationPoint(NamedTuple):
    """A point of the path."""

    t: jax.Array
    q: jax.Array  #: (nq_s,)


class _Path(NamedTuple):
    """The state of `follow`."""

    begin: _ContinuationPoint  #: where the next leg begins
    clear: _ContinuationPoint  #: the last point of the leg that was cut which is far from singular ones
    last: _ContinuationPoint  #: the farthest point that was reached
    pivots: jax.Array  #: (n_d,) there
    cut: jax.Array  #: where the last leg to the goal was cut
    spacing: jax.Array  #: of the nodes before the cut
    node: jax.Array  #: where the next leg leads
    samples: jax.Array  #: (NODES, nq_s) the configurations at nodes
    ended_at: jax.Array  #: (nq_s,) where the last leg ended
    trials: jax.Array  #: how many steps may still be tried
    singular: jax.Array  #: whether the loops close at the goal, and are singular there
    ended: jax.Array


class _Factors(NamedTuple):
    """K_d D = Q R, with D the units of the dependent velocities; and K_i."""

    Q: jax.Array  #: (p, n_d)
    R: jax.Array  #: (n_d, n_d)
    K_i: jax.Array  #: (p, n_i)

    @staticmethod
    def of(loops: LoopClosure, K: jax.Array) -> _Factors:
        """The factors of K (p, n_d + n_i)."""
        d = len(loops.dependent)
        return _Factors(*jnp.linalg.qr(K[:, :d] * loops.lengths), K[:, d:])

    def solve(self, right: jax.Array) -> jax.Array:
        """(K_d D)^+ right."""
        return jax.scipy.linalg.solve_triangular(self.R, self.Q.T @ right)

    def pivots(self) -> jax.Array:
        """`pivots` of K_d, (n_d,)."""
        return pivots(self.R)

    def change(self, loops: LoopClosure, K: jax.Array) -> jax.Array:
        """|(K_d D)^+ K_d(new) D - 1|, Frobenius, for another K."""
        d = len(loops.dependent)
        change: jax.Array = jnp.linalg.norm(self.solve(K[:, :d] * loops.lengths) - jnp.eye(d))
        return change


def _select(condition: jax.Array, yes: Any, no: Any) -> Any:
    """One of two structures of arrays."""
    return jax.tree.map(partial(jnp.where, condition), yes, no)


# --- a leg without singular points ------------------------------------------------------------------------


class _Leg(NamedTuple):
    """The state of a leg; the current step is the one that is being corrected."""

    end: _ContinuationPoint  #: the last point that was accepted
    clear: (
        _ContinuationPoint  #: the last one that is far from singular ones; t is NaN if the loops never closed
    )
    K: jax.Array  #: (p, n_d + n_i) at `end`
    factors: _Factors  #: of K
    step: jax.Array
    began: jax.Array  #: whether the loops have been closed at the start
    #: where the current step ends, and q_s there as corrected so far
    aim: jax.Array
    tried: jax.Array
    #: the number of corrections in the current step, the length of the last correction, and the number of
    #: small ones
    corrections: jax.Array
    before: jax.Array
    settled: jax.Array
    within: jax.Array  #: whether the current step turns no joint too far
    trials: jax.Array
    ended: jax.Array


def _leg(
    loops: LoopClosure, line: _Line, begin: _ContinuationPoint, aim: jax.Array, trials: jax.Array
) -> _Leg:
    """Follow the loops from a point to t = aim, or up to a singular point.

    A step is a prediction along G and Newton corrections of the dependent joints. It is accepted on the
    conditions of `kernels/loop_path.py`; otherwise it is halved. The first step has length zero: it closes
    the loops at the start.
    """

    def advance(leg: _Leg) -> _Leg:
        """A correction, or the end of a step and the next prediction."""
        phi, K = loops.conditions_at(leg.tried)
        factors = _Factors.of(loops, K)
        pivot = jnp.min(factors.pivots(), initial=1.0)
        correction = -factors.solve(phi)
        size = jnp.linalg.norm(correction)
        small = jnp.maximum(_CONVERGED, _ROUND_OFF / pivot)
        settled = leg.settled + (size <= small)
        limit = jnp.where(leg.corrections == 0, LARGEST_CORRECTION, jnp.maximum(0.5 * leg.before, small))
        contracts = leg.within & (size <= limit) & (leg.corrections < _CORRECTIONS) & (pivot >= SINGULAR)
        ends = settled == _POLISHING
        good = jnp.max(jnp.abs(phi), initial=0.0) < CLOSED
        good &= ~leg.began | (leg.factors.change(loops, K) <= LARGEST_CHANGE)
        accepted, failed = contracts & ends & good, ~contracts | (ends & ~good)
        anew = accepted | failed
        end = _select(accepted, _ContinuationPoint(leg.aim, leg.tried), leg.end)
        K_end, factors = _select(accepted, (K, factors), (leg.K, leg.factors))
        step = jnp.where(accepted & leg.began, 2.0, jnp.where(failed, 0.5, 1.0)) * leg.step
        least = jnp.where(pivot >= SINGULAR, SMALLEST_STEP, SINGULAR_STEP) / line.way
        left = jnp.abs(aim - end.t)
        target = jnp.where(step < 0.999 * left, end.t + jnp.sign(aim - end.t) * step, aim)
        here, there = line.at(end.t), line.at(target)
        v = loops.joint_frame.velocity_at(here, there - here)[loops.free]
        predicted = -factors.solve(factors.K_i @ v)
        turns = jnp.concatenate([predicted, v / loops.free_lengths])
        within = jnp.max(jnp.abs(turns), initial=0.0) <= LARGEST_TURN
        velocity = jnp.where(anew, predicted, correction) * loops.lengths
        moved = loops.moved(jnp.where(anew, end.q, leg.tried), velocity)
        return _Leg(
            end=end,
            clear=_select(accepted & ((pivot >= CLEAR) | ~leg.began), end, leg.clear),
            K=K_end,
            factors=factors,
            step=jnp.minimum(step, left),
            began=leg.began | accepted,
            aim=jnp.where(anew, target, leg.aim),
            tried=jnp.where(anew, loops.with_independent(moved, there), moved),
            corrections=jnp.where(anew, 0, leg.corrections + 1),
            before=size,
            settled=jnp.where(anew, 0, settled),
            within=jnp.where(anew, within, leg.within),
            trials=leg.trials - anew,
            ended=anew & ((accepted & (left == 0.0)) | (failed & (~leg.began | (step < least)))),
        )

    d, (p, columns) = len(loops.dependent), jax.eval_shape(loops.conditions_at, begin.q)[1].shape
    return jax.lax.while_loop(
        lambda leg: ~leg.ended & (leg.trials > 0),
        advance,
        _Leg(
            end=begin,
            clear=_ContinuationPoint(jnp.asarray(jnp.nan), begin.q),
            K=jnp.zeros((p, columns)),
            factors=_Factors(jnp.zeros((p, d)), jnp.zeros((d, d)), jnp.zeros((p, columns - d))),
            step=jnp.abs(aim - begin.t),
            began=jnp.asarray(False),
            aim=begin.t,
            tried=loops.with_independent(begin.q, line.at(begin.t)),
            corrections=jnp.asarray(0),
            before=jnp.zeros(()),
            settled=jnp.asarray(0),
            within=jnp.asarray(True),
            trials=trials,
            ended=jnp.asarray(False),
        ),
    )


def _extrapolation(samples: jax.Array, at: jax.Array) -> jax.Array:
    """The polynomial through samples (count, nq_s) at -1, ..., -count, at another point."""
    nodes = np.arange(len(samples))
    weights = [
        jnp.prod(jnp.asarray([(at + other + 1.0) / (other - node) for other in nodes if other != node]))
        for node in nodes
    ]
    return jnp.stack(weights) @ samples
