"""Recursions of closed chains put together from those of the spanning tree and of its clusters.

Matrices come from the recursions over clusters. Vectors are those of the spanning tree, lifted and projected:
with v_s = G v, w_s = G w, and H_s x the inverse dynamics of the tree at rest without gravity,

    H a + C v + g = G^T ID_s(q_s, v_s, G a + Gdot v),           g = G^T g_s(q_s),
    C w = G^T (C_s w_s + H_s Gdot w),                           C^T w = G^T C_s^T w_s + Gdot^T H_s w_s,
    Y = G^T Y_s(q_s, v_s, G v_r, G a_r + Gdot v_r),             vdot = H^-1 (tau - C v - g).

A body-level factor with torsion changes C_s by a contorsion, and C by its projection, G^T (C_s - C*_s) G.
The same text serves one configuration (`Single`) and rows of them (`Rows`). Source: [W] (17) and VI-C.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from connections.multibody.recursions.closed_definition import Refused
from connections.multibody.recursions.compiled import compiled
from connections.multibody.recursions.table import RECURSIONS

if TYPE_CHECKING:
    from connections.multibody.recursions.closed_program import ClosedProgram

NO_GUESS, NO_GUESSES = np.zeros(0), np.zeros((0, 0))
empty = np.empty


class _Ready(dict[str, Any]):
    """Compiled functions by name, made ready when first asked for."""

    def __missing__(self, name: str) -> Any:
        self[name] = compiled.require(name)
        return self[name]


ready = _Ready()


class Single:
    """The steps at one configuration, on vectors; a solution is (size,), as `lift` has it.

    Arguments are whatever a caller of the public functions gave: every method raises `Refused` where compiled
    code refuses sizes or numbers, and Numba's `TypeError` for other types and layouts.
    """

    def __init__(self, program: ClosedProgram) -> None:
        self._m, self.linear = program, program.linear
        self._zero = np.zeros(program.n)

    def solve(self, q: np.ndarray) -> np.ndarray:
        """The solution at q (nq,)."""
        m = self._m
        if not m.solvable:
            _accept(q.shape == m.configuration and q.dtype == np.float64)  # JAX would take other ones, too
            return m.definition.solve(q)
        solution = empty(m.size)
        _accept(ready["closure_at"](m.closure, q, NO_GUESS, solution) == 0)
        return solution

    def lift(self, solution: np.ndarray, v: np.ndarray) -> np.ndarray:
        """G v."""
        m, v_s = self._m, empty(self._m.spanning_n)
        _accept(ready["lift_at"](m.memory, m.spans, m.n, solution, v, v_s))
        return v_s

    def drift(self, solution: np.ndarray, v: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Gdot(v) w."""
        return self.rate(solution, v, w, self._zero)

    def rate(self, solution: np.ndarray, v: np.ndarray, w: np.ndarray, a: np.ndarray) -> np.ndarray:
        """G a + Gdot(v) w."""
        m, a_s = self._m, empty(self._m.spanning_n)
        _accept(ready["lift_rate_at"](m.memory, m.spans, m.n, solution, v, w, a, a_s))
        return a_s

    def turning(self, solution: np.ndarray, v: np.ndarray) -> np.ndarray:
        """L_j (L_v G) v for every j, laid out as G in a solution; by JAX where loops are users' functions."""
        m, result = self._m, np.zeros(len(self._m.definition.places[0]))
        if not m.solvable:
            return m.definition.turning(solution, v)
        if not m.linear:
            _accept(ready["turning_at"](m.closure, solution, v, result))
        return result

    def project_derivatives(
        self,
        solution: np.ndarray,
        motion: tuple[np.ndarray, np.ndarray, np.ndarray],
        forces: tuple[np.ndarray, np.ndarray],
        out: np.ndarray,
    ) -> None:
        """The derivatives of tau, (3, n, n), from v, a, `turning`, and the tree's forces and derivatives."""
        m = self._m
        _accept(ready["project_derivatives_at"](m.memory, m.spans, m.n, solution, *motion, *forces, out))

    def tree(self, name: str, solution: np.ndarray, *vectors: Any) -> np.ndarray:
        """A recursion of the spanning tree."""
        m, result = self._m, empty(self._m.tree.cores[name])
        q_s = solution[: m.spanning_nq]
        _accept(ready[f"{name}_at"](m.tree.memory, q_s, *vectors, result))
        return result

    def inertial(self, solution: np.ndarray, a_s: np.ndarray) -> np.ndarray:
        """H_s a_s."""
        m, result, rest = self._m, empty(self._m.spanning_n), self._m.at_rest
        q_s = solution[: m.spanning_nq]
        _accept(ready["inverse_dynamics_at"](m.weightless.memory, q_s, rest, a_s, result))
        return result

    def project(self, solution: np.ndarray, f: np.ndarray, out: np.ndarray) -> None:
        """G^T f."""
        m = self._m
        _accept(ready["project_at"](m.memory, m.spans, m.n, solution, f, out))

    def project_rate(
        self, solution: np.ndarray, v: np.ndarray, f: np.ndarray, p: np.ndarray, out: np.ndarray
    ) -> None:
        """G^T f + Gdot(v)^T p."""
        m = self._m
        _accept(ready["project_rate_at"](m.memory, m.spans, m.n, solution, v.copy(), f, p, out))

    def project_wide(self, solution: np.ndarray, Y: np.ndarray, out: np.ndarray) -> None:
        """G^T Y."""
        m = self._m
        _accept(ready["project_wide_at"](m.memory, m.spans, m.n, solution, Y, out))

    def clusters(self, name: str, solution: np.ndarray, *vectors: np.ndarray, out: np.ndarray) -> None:
        """A recursion over clusters, of the Christoffel body factor."""
        m = self._m
        function = ready[f"closed_{name}_at"]
        _accept(function(m.memory, m.closure, m.clusters, True, solution, *vectors, out) == 0)

    def linear_clusters(self, name: str, q: np.ndarray, *vectors: np.ndarray, out: np.ndarray) -> None:
        """The same at q (nq,), where there are linear couplings only: it solves them itself."""
        m = self._m
        function = ready[f"closed_{name}_at"]
        _accept(function(m.memory, m.closure, m.clusters, False, q, *vectors, out) == 0)

    def contorsion(self, name: str, solution: np.ndarray, *vectors: np.ndarray) -> np.ndarray:
        """What the body factor (v x*) I adds to C or to Gamma."""
        G = self._m.dense(solution)[0]
        lifted = [self.lift(solution, v) for v in vectors]
        T = self.tree(name, solution, *lifted, True) - self.tree(name, solution, *lifted, False)
        for axis in range(T.ndim):
            T = np.moveaxis(np.tensordot(G, T, axes=(0, axis)), 0, axis)
        return T


class Rows:
    """The steps at rows of configurations, on arrays (m, ...); solutions are (m, size).

    They stand beside those of `Single`: one text for both, which asks for shapes, made single calls up to 18
    percent slower.
    """

    def __init__(self, program: ClosedProgram) -> None:
        self._m, self.linear, self.single = program, program.linear, Single(program)

    def solve(self, q: np.ndarray) -> np.ndarray:
        """The solutions at q (m, nq)."""
        m = self._m
        if not m.solvable:
            return m.definition.solve(q)
        solution = empty((len(q), m.size))
        with m.borrowed_closure() as closure:
            _accept(ready["closure_rows"](closure, q, NO_GUESSES, solution) == 0)
        return solution

    def lift(self, solution: np.ndarray, v: np.ndarray) -> np.ndarray:
        """G v."""
        m, v_s = self._m, empty((len(v), self._m.spanning_n))
        _accept(ready["lift_rows"](m.memory, m.spans, m.n, solution, v, v_s))
        return v_s

    def drift(self, solution: np.ndarray, v: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Gdot(v) w."""
        return self.rate(solution, v, w, np.zeros_like(v))

    def rate(self, solution: np.ndarray, v: np.ndarray, w: np.ndarray, a: np.ndarray) -> np.ndarray:
        """G a + Gdot(v) w."""
        m, a_s = self._m, empty((len(v), self._m.spanning_n))
        _accept(ready["lift_rate_rows"](m.memory, m.spans, m.n, solution, v, w, a, a_s))
        return a_s

    def turning(self, solution: np.ndarray, v: np.ndarray) -> np.ndarray:
        """L_j (L_v G) v for every j, laid out as G in a solution; by JAX where loops are users' functions."""
        m, result = self._m, np.zeros((len(v), len(self._m.definition.places[0])))
        if not m.solvable:
            return m.definition.turning(solution, v)
        if not m.linear:
            with m.borrowed_closure() as closure:
                _accept(ready["turning_rows"](closure, solution, v, result))
        return result

    def project_derivatives(
        self,
        solution: np.ndarray,
        motion: tuple[np.ndarray, np.ndarray, np.ndarray],
        forces: tuple[np.ndarray, np.ndarray],
        out: np.ndarray,
    ) -> None:
        """The derivatives of tau, (m, 3 n n), from v, a, `turning`, and the tree's forces and derivatives."""
        m = self._m
        _accept(ready["project_derivatives_rows"](m.memory, m.spans, m.n, solution, *motion, *forces, out))

    def tree(self, name: str, solution: np.ndarray, *vectors: Any) -> np.ndarray:
        """A recursion of the spanning tree, (m, ...) flattened; it reads only q_s of the solutions."""
        m, choice = self._m, tuple(x for x in vectors if isinstance(x, bool))
        result = empty((len(solution), math.prod(m.tree.cores[name])))
        arrays = [solution, *vectors[: len(vectors) - len(choice)]]
        _accept(m.tree.rows(name, arrays, choice, result))
        return result

    def inertial(self, solution: np.ndarray, a_s: np.ndarray) -> np.ndarray:
        """H_s a_s."""
        result = empty(a_s.shape)
        arrays = [solution, np.zeros_like(a_s), a_s]
        _accept(self._m.weightless.rows("inverse_dynamics", arrays, (), result))
        return result

    def project(self, solution: np.ndarray, f: np.ndarray, out: np.ndarray) -> None:
        """G^T f."""
        m = self._m
        _accept(ready["project_rows"](m.memory, m.spans, m.n, solution, f, out))

    def project_rate(
        self, solution: np.ndarray, v: np.ndarray, f: np.ndarray, p: np.ndarray, out: np.ndarray
    ) -> None:
        """G^T f + Gdot(v)^T p."""
        m = self._m
        _accept(ready["project_rate_rows"](m.memory, m.spans, m.n, solution, v, f, p, out))

    def project_wide(self, solution: np.ndarray, Y: np.ndarray, out: np.ndarray) -> None:
        """G^T Y."""
        m = self._m
        _accept(ready["project_wide_rows"](m.memory, m.spans, m.n, solution, Y, out))

    def clusters(self, name: str, solution: np.ndarray, *vectors: np.ndarray, out: np.ndarray) -> None:
        """A recursion over clusters, of the Christoffel body factor."""
        _accept(self._m.cluster_rows(name, True, (solution, *vectors), out))

    def linear_clusters(self, name: str, q: np.ndarray, *vectors: np.ndarray, out: np.ndarray) -> None:
        """The same at q (m, nq), where there are linear couplings only: it solves them itself."""
        _accept(self._m.cluster_rows(name, False, (q, *vectors), out))

    def contorsion(self, name: str, solution: np.ndarray, *vectors: np.ndarray) -> np.ndarray:
        """What the body factor (v x*) I adds to C or to Gamma, row by row, (m, ...) flattened."""
        result = empty((len(solution), math.prod(self._m.cores[name])))
        for row in range(len(result)):
            result[row] = self.single.contorsion(name, solution[row], *(v[row] for v in vectors)).ravel()
        return result


Steps: TypeAlias = Single | Rows
Recursion: TypeAlias = Callable[..., None]


def _matrix(name: str) -> Recursion:
    def recursion(do: Steps, q: np.ndarray, *vectors: np.ndarray, out: np.ndarray) -> None:
        if do.linear:
            do.linear_clusters(name, q, *vectors, out=out)
        else:
            do.clusters(name, do.solve(q), *vectors, out=out)

    return recursion


def _chosen_matrix(name: str) -> Recursion:
    """Of the body-level factor that the last argument before `out` chooses."""
    of_christoffel = _matrix(name)

    def recursion(do: Steps, q: np.ndarray, *arguments: Any, out: np.ndarray) -> None:
        vectors = arguments[:-1]
        if not arguments[-1]:
            of_christoffel(do, q, *vectors, out=out)
            return
        solution = do.solve(q)
        added = do.contorsion(name, solution, *vectors)  # before `out` is filled, which may be a vector
        do.clusters(name, solution, *vectors, out=out)
        out += added

    return recursion


def inverse_dynamics(do: Steps, q: np.ndarray, v: np.ndarray, a: np.ndarray, out: np.ndarray) -> None:
    """G^T ID_s(q_s, v_s, G a + Gdot v)."""
    solution = do.solve(q)
    v_s, a_s = do.lift(solution, v), do.rate(solution, v, v, a)
    do.project(solution, do.tree("inverse_dynamics", solution, v_s, a_s), out)


def gravity(do: Steps, q: np.ndarray, out: np.ndarray) -> None:
    """G^T g_s(q_s)."""
    solution = do.solve(q)
    do.project(solution, do.tree("gravity", solution), out)


def coriolis_product(
    do: Steps, q: np.ndarray, v: np.ndarray, w: np.ndarray, force_cross: bool, out: np.ndarray
) -> None:
    """G^T (C_s w_s + H_s Gdot w)."""
    solution = do.solve(q)
    v_s, w_s = do.lift(solution, v), do.lift(solution, w)
    f = do.tree("coriolis_product", solution, v_s, w_s, force_cross)
    f += do.inertial(solution, do.drift(solution, v, w))
    do.project(solution, f, out)


def coriolis_transpose_product(
    do: Steps, q: np.ndarray, v: np.ndarray, w: np.ndarray, force_cross: bool, out: np.ndarray
) -> None:
    """G^T C_s^T w_s + Gdot^T H_s w_s."""
    solution = do.solve(q)
    v_s, w_s = do.lift(solution, v), do.lift(solution, w)
    f = do.tree("coriolis_transpose_product", solution, v_s, w_s, force_cross)
    do.project_rate(solution, v, f, do.inertial(solution, w_s), out)


def forward_dynamics(do: Steps, q: np.ndarray, v: np.ndarray, tau: np.ndarray, out: np.ndarray) -> None:
    """H^-1 (tau - G^T ID_s(q_s, v_s, Gdot v))."""
    solution, bias = do.solve(q), empty(v.shape)
    v_s, a_s = do.lift(solution, v), do.drift(solution, v, v)
    do.project(solution, do.tree("inverse_dynamics", solution, v_s, a_s), bias)
    if tau.shape != v.shape:  # NumPy would broadcast it
        raise Refused
    do.clusters("solve", solution, tau - bias, out=out)


def regressor(
    do: Steps, q: np.ndarray, v: np.ndarray, v_r: np.ndarray, a_r: np.ndarray, out: np.ndarray
) -> None:
    """G^T Y_s(q_s, v_s, G v_r, G a_r + Gdot v_r)."""
    solution = do.solve(q)
    v_s, v_rs = do.lift(solution, v), do.lift(solution, v_r)
    Y = do.tree("regressor", solution, v_s, v_rs, do.rate(solution, v, v_r, a_r))
    do.project_wide(solution, Y, out)


@cache
def composed(name: str) -> Recursion:
    """The recursion `name` of closed chains.

    It takes the steps, q (nq,) or rows of it, vectors, whether the body factor is ``"force_cross"`` if there
    is a choice, and ``out=``.
    """
    row = RECURSIONS[name]
    if row.clusters:
        return _chosen_matrix(name) if row.body_factor else _matrix(name)
    file, function = row.composed.split(".")
    return getattr(importlib.import_module(f"connections.multibody.recursions.{file}"), function)


def _accept(good: bool) -> None:
    if not good:
        raise Refused
