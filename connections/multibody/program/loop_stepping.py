"""Variational steps of closed chains, by the kernel of their spanning tree, `kernels/variational.py`.

With the spanning configurations q_s at q_k and q_{k+1}, at which loops close, v_s = G v there, and the
discrete momentum p_s(q_s, q_s') = J_s(q_s)^T p of the spanning tree,

    G_k^T p_s = P_k + (h/2) (tau_k - g_k),      P_{k+1} = G_{k+1}^T p_s' + (h/2) (tau_{k+1} - g_{k+1}),

where p_s' is that of the way back, from q_s' to q_s in the time -h. So the discrete Lagrangian is the
spanning tree's at closed configurations, a function of the independent joints alone: a step is symplectic,
its own adjoint, and has no multipliers. Newton's matrix is G_k^T (d p_s / d q_s') G_{k+1}, exact, (nv, nv).
The loops are followed along the motion, from iterate to iterate. At requested times they have to close as on
the path from the reference, by which every other function solves them. Source: [MW] section 3; [W] VI-C.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from connections.checks import ClosureError
from connections.coriolis.variational import OPEN, TURNED, UNSOLVED
from connections.multibody.joints import Free
from connections.multibody.kernels.layout import APART, KEPT
from connections.multibody.program.compiled_functions import compiled
from connections.multibody.program.stepping import Stepped, history_size, stepped

Array = np.ndarray
MOST_ITERATIONS = 30
CLOSE = 1e-28  # as in `kernels.variational`: the energy of the error that is left, over the kinetic energy
ROUND_OFF = 16 * np.finfo(float).eps  # a change of coordinates, relative to them, that is no change
SAME = 1e-6  # the same for two solutions of the loops
_ONE_WAY = np.array([-1.0, 1.0])  # the kernel's argument `plan`


def stepping_of(model: Any) -> Callable[..., Stepped]:
    """`stepping.stepped` of a robot, with loops or without, without its first argument."""
    return LoopSteps(model) if model.closed else partial(stepped, model)


class Place(NamedTuple):
    """A configuration q (nq,), that of the spanning tree (nq_s,), and G (nv_s, nv)."""

    q: Array
    spanning: Array
    G: Array


class TreeStep(NamedTuple):
    """What the kernel finds of a step of the spanning tree.

    Parameters
    ----------
    momentum, gravity : J_s^T p and g_s (nv_s,) at its beginning.
    change : (nv_s, c) of the momentum along c displacements of its end.
    potential : at its beginning.
    turned : whether a body turns by half a turn or more.
    """

    momentum: Array
    gravity: Array
    change: Array
    potential: float
    turned: bool


class LoopSteps:
    """The steps of a closed chain, one row after the other.

    Parameters
    ----------
    model : the robot, with loops.
    """

    def __init__(self, model: Any) -> None:
        self._model, self._kinematics = model, model.kinematics
        self._loops, self._memories = model.program.loops, model.program.of_spanning_tree.memories
        self._nv_s = model.kinematics.spanning.nv
        self._last: Place | None = None  # that was followed from the reference, which takes longest
        kinematics, clusters = model.kinematics, model.kinematics.clusters
        alone = np.bincount(clusters.of_body)[clusters.of_body] == 1
        self._bases = [
            (slice(kinematics.q_starts[k], kinematics.q_starts[k] + 7), int(kinematics.v_starts[k]))
            for k, body in enumerate(kinematics.independent_bodies)
            if alone[body] and kinematics.tree.parents[body] < 0 and isinstance(kinematics.joints[k], Free)
        ]

    def __call__(
        self, y: Array, forces: Array, shares: Array, h: float, count: int, guess: Array | None = None
    ) -> Stepped:
        """As `stepping.stepped`."""
        nq, nv = self._model.nq, self._model.nv
        k, size = nq + nv, history_size(nv)
        out = np.zeros((len(y), k + size + 3))
        out[:, :k] = y
        if guess is not None and count > 0:
            out[:, k:-3] = guess
        for row, tau in zip(out, forces, strict=True):
            if count > 0:
                self._make(row, tau, shares, h, count)
            elif count == -1:
                assert guess is not None
                here, there = self._place(row[:nq]), self._place(guess[0, :nq])
                row[nq:k] = here.G.T @ self._tree(here, there, h).momentum
                guess = guess[1:]
            else:
                self._regular(row, count)
        return Stepped(self._model, out, True)

    # --- private -------------------------------------------------------------------------------------------

    def _make(self, row: Array, tau: Array, shares: Array, h: float, count: int) -> None:
        """Make `count` steps, each of `shares` of h, of a row (q, P, history, steps, why, iterations)."""
        nq, nv = self._model.nq, self._model.nv
        history, here = row[nq + nv : -3], self._place(row[:nq])
        if history[-1] == 0.0:
            self._begin_momenta(row[:nq], row[nq : nq + nv], history[KEPT * nv :])
        for _ in range(count):
            before = row[: nq + nv].copy()
            for share in shares:
                found = self._step(row, here, tau, share * h)
                if found == UNSOLVED and history[-1] > 1.0:
                    history[-1] = 1.0  # what was extrapolated may be far off: again, from the last one
                    found = self._step(row, here, tau, share * h)
                if isinstance(found, int):
                    row[-2], row[: nq + nv] = found, before
                    return
                here = found
            row[-3] += 1
        if count > 0 and not self._is_from_reference(here):
            row[-2] = OPEN

    def _step(self, row: Array, here: Place, tau: Array, h: float) -> Place | int:
        """Make one step of a row, and return where it ends, or why there is none."""
        nq, nv = self._model.nq, self._model.nv
        P, history = row[nq : nq + nv], row[nq + nv : -3]
        try:
            there = self._place(self._displaced(here.q, h * predicted(history, nv, h)), here)
            last = np.inf
            for _ in range(MOST_ITERATIONS):
                way = self._tree(here, there, h, there.G)
                outer = tau[:nv] - here.G.T @ way.gravity
                p = here.G.T @ way.momentum
                miss = p - P - 0.5 * h * outer
                change = -np.linalg.solve(here.G.T @ way.change, miss)
                decrement = abs(change @ miss)
                energy = abs(self._difference(here.q, there.q) @ p) + decrement
                there = self._place(self._displaced(there.q, change), there)
                left = decrement / min(last, energy) if decrement > 0.0 else 0.0
                row[-1] += 1
                small = np.abs(change) <= ROUND_OFF * (1.0 + np.max(np.abs(there.spanning)))
                if decrement * left <= CLOSE * energy or small.all():
                    break
                last = decrement
            else:
                return UNSOLVED
        except ClosureError:
            return OPEN
        except np.linalg.LinAlgError:
            return UNSOLVED
        back = self._tree(there, here, -h)
        if back.turned or not np.isfinite(there.q).all():
            return TURNED if back.turned else UNSOLVED
        later = tau[nv:] - there.G.T @ back.gravity
        own = history[KEPT * nv : (KEPT + 2) * nv]
        self._push(here.q, outer, 0.5 * h, own)
        row[:nq], row[nq : nq + nv] = there.q, there.G.T @ back.momentum + 0.5 * h * later
        self._push(there.q, later, 0.5 * h, own, row[nq : nq + nv])
        remember(history, nv, self._difference(here.q, there.q) / h, h)
        return there

    def _regular(self, row: Array, count: int) -> None:
        """H v of a velocity, or H^-1 P and the potential energy."""
        nq, nv = self._model.nq, self._model.nv
        here, x = self._place(row[:nq]), row[nq : nq + nv].copy()
        way = self._tree(here, here, 1.0, here.G)
        H = here.G.T @ way.change
        if count == -2:
            row[nq : nq + nv] = H @ x
            return
        try:
            row[nq + nv : nq + 2 * nv] = np.linalg.solve(H, x)
        except np.linalg.LinAlgError:
            row[nq + nv : nq + 2 * nv] = np.nan
        row[-1] = way.potential

    def _place(self, q: Array, near: Place | None = None) -> Place:
        """The loops solved at q (nq,), followed from a place, or from the reference.

        Raises
        ------
        ClosureError : they do not close.
        """
        if near is None and self._last is not None and np.array_equal(self._last.q, q):
            return self._last
        start = () if near is None else (near.spanning,)
        solution, layout = self._loops.solve(np.ascontiguousarray(q), *start), self._loops.layout
        G = np.zeros(self._nv_s * self._model.nv)
        G[layout.in_G] = solution[layout.nq : layout.nq + layout.G_size]
        place = Place(np.array(q), solution[: layout.nq], G.reshape(self._nv_s, -1))
        if near is None:
            self._last = place
        return place

    def _is_from_reference(self, place: Place) -> bool:
        """Whether the loops close at a place as on the path from the reference, but for whole turns."""
        try:
            way = self._place(place.q).spanning - place.spanning
        except ClosureError:
            return False
        for _, at in self._kinematics.spanning.quaternions:
            sign = np.sign(place.spanning[at] @ (way[at] + place.spanning[at]))
            way[at] += (1.0 - sign) * place.spanning[at]
        way -= 2.0 * np.pi * np.rint(way / (2.0 * np.pi))
        return bool(np.max(np.abs(way)) < SAME * (1.0 + np.max(np.abs(place.spanning))))

    def _tree(self, here: Place, there: Place, h: float, along: Array | None = None) -> TreeStep:
        """The spanning tree's step from here to there, and the changes `along` displacements (nv_s, c)."""
        n, nq = self._nv_s, len(here.spanning)
        c = 1 if along is None else along.shape[1]
        y, forces, before = np.zeros((c, nq + n)), np.zeros((c, 2 * n)), np.zeros((c, history_size(n)))
        y[:, :nq], before[:, :nq] = here.spanning, there.spanning
        if along is not None:
            forces[:, :n] = along.T
        out = np.empty((c, nq + n + before.shape[1] + 3))
        memory = self._memories.take()
        compiled.variational_rows(memory, y, forces, before, np.full((c, 1), float(h)), _ONE_WAY, out)
        self._memories.give_back(memory)
        p, change, g = out[0, nq : nq + n], out[:, nq + n : nq + 2 * n].T, out[0, nq + 2 * n : nq + 3 * n]
        return TreeStep(p, g, change, float(out[0, -1]), bool(out[0, -2] == TURNED))

    def _displaced(self, q: Array, xi: Array) -> Array:
        """q exp(xi), (nq,), joint by joint."""
        q = q.copy()
        for joint, _, at_q, at_v in self._kinematics.elements:
            q[at_q] = joint.displaced(q[at_q], xi[at_v])
        return q

    def _difference(self, q0: Array, q1: Array) -> Array:
        """xi (nv,) with q1 = q0 exp(xi)."""
        xi = np.empty(self._model.nv)
        for joint, _, at_q, at_v in self._kinematics.elements:
            xi[at_v] = joint.difference(q0[at_q], q1[at_q])
        return xi

    # The momentum of a free base is not read from the equations, which hold as far as Newton's method is
    # followed: it is what the base sees of its spatial momentum, as in `kernels.variational`.

    def _begin_momenta(self, q: Array, P: Array, own: Array) -> None:
        """Write the spatial momentum of each free base, about its position now, which is written, too."""
        nv = self._model.nv
        for at, j in self._bases:
            R = Rotation.from_quat(q[at][3:]).as_matrix()
            own[j : j + 6] = np.concatenate([R @ P[j : j + 3], R @ P[j + 3 : j + 6]])
            own[nv + j : nv + j + 3] = q[at][:3]

    def _push(self, q: Array, outer: Array, duration: float, own: Array, P: Array | None = None) -> None:
        """Add outer forces at q for a duration; first write what bases at q see of their momenta to P."""
        nv = self._model.nv
        for at, j in self._bases:
            R, arm = Rotation.from_quat(q[at][3:]).as_matrix(), q[at][:3] - own[nv + j : nv + j + 3]
            if P is not None:
                n, f = own[j : j + 3] - np.cross(arm, own[j + 3 : j + 6]), own[j + 3 : j + 6]
                P[j : j + 6] = np.concatenate([R.T @ n, R.T @ f]) + duration * outer[j : j + 6]
            n, f = duration * R @ outer[j : j + 3], duration * R @ outer[j + 3 : j + 6]
            own[j : j + 6] += np.concatenate([n + np.cross(arm, f), f])


def predicted(history: Array, nv: int, h: float) -> Array:
    """The velocities (nv,) that the last steps lead one to expect, as `kernels.variational.predict`."""
    ago, differences = history[(KEPT + 2) * nv : -1], history[: KEPT * nv].reshape(KEPT, nv)
    expected: Array = differences[0].copy()
    last, before, reach = np.full(nv, np.inf), np.full(nv, np.inf), 1.0
    known = max(int(history[-1]), 1)
    ago, differences = ago[:known], differences[:known]
    for degree in range(1, known):
        if np.abs(ago[degree] - ago[:degree]).min() <= APART * abs(h):
            break
        reach *= 0.5 * h + ago[degree - 1]
        differences = (differences[:-1] - differences[1:]) / (ago[degree:] - ago[:-degree])[:, None]
        term = reach * differences[0]
        good = (last >= 0.0) & (np.abs(term) <= np.maximum(last, before))
        expected += np.where(good, term, 0.0)
        last, before = np.where(good, np.abs(term), -1.0), last
    return expected


def remember(history: Array, nv: int, velocities: Array, h: float) -> None:
    """Put the velocities of a step of length h before those of the last ones."""
    ago = history[(KEPT + 2) * nv : -1]
    history[nv : KEPT * nv] = history[: (KEPT - 1) * nv].copy()
    ago[1:] = ago[:-1] + h
    history[:nv], ago[0], history[-1] = velocities, 0.5 * h, min(history[-1] + 1.0, KEPT)
