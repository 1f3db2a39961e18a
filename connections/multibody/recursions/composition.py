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

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from connections.multibody.recursions.closed_definition import Refused
from connections.multibody.recursions.closed_derivatives import (
    forward_dynamics_derivatives,
    inverse_dynamics_derivatives,
)
from connections.multibody.recursions.compiled import compiled

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

    Every method raises `Refused` where compiled code refuses.
    """

    def __init__(self, program: ClosedProgram) -> None:
        self._m = program
        self._zero = np.zeros(program.n)

    def argument(self, q: np.ndarray) -> np.ndarray:
        """What the recursions over clusters take for q: q itself if there are linear couplings only."""
        return q if self._m.linear else self.solve(q)

    def solve(self, q: np.ndarray) -> np.ndarray:
        """The solution at q, which may be one already."""
        m = self._m
        if q.shape == (m.size,):
            return q
        if not m.solvable:
            return m.definition.solve(q)
        solution = empty(m.size)
        _accept(ready["closure_at"](m.closure, q, NO_GUESS, solution) == 0)
        return solution

    def lift(self, solution: np.ndarray, v: np.ndarray) -> np.ndarray:
        """G v."""
        m, v_s = self._m, empty(self._m.spanning_n)
        _accept(ready["lift_at"](m.memory, m.spans, m.n, solution, v, v_s))
        return v_s

    def rate(self, solution: np.ndarray, v: np.ndarray, w: np.ndarray, a: np.ndarray | None) -> np.ndarray:
        """G a + Gdot(v) w; a is zero if None."""
        m, a_s = self._m, empty(self._m.spanning_n)
        a = self._zero if a is None else a
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

    def clusters(self, name: str, q: np.ndarray, *vectors: np.ndarray, out: np.ndarray) -> None:
        """A recursion over clusters, without torsion; q may be a solution."""
        m = self._m
        function = ready[f"closed_{name}_at"]
        _accept(function(m.memory, m.closure, m.clusters, q, *vectors, out) == 0)

    def solve_mass(self, q: np.ndarray, tau: np.ndarray, f: np.ndarray, out: np.ndarray) -> None:
        """H^-1 (tau - f)."""
        m, H = self._m, empty((self._m.n,) * 2)
        self.clusters("mass_matrix", q, out=H)
        _accept(ready["solve_at"](m.memory, m.up, H, tau, f, out))

    def add_contorsion(self, name: str, q: np.ndarray, *vectors: np.ndarray, out: np.ndarray) -> None:
        """Add what the body-level factor with torsion changes in C or in Gamma."""
        solution = self.solve(q)
        G = self._m.dense(solution)[0]
        lifted = [self.lift(solution, v) for v in vectors]
        T = self.tree(name, solution, *lifted, True) - self.tree(name, solution, *lifted, False)
        for axis in range(T.ndim):
            T = np.moveaxis(np.tensordot(G, T, axes=(0, axis)), 0, axis)
        out += T


class Rows:
    """The steps at rows of configurations, on arrays (m, ...); solutions are (m, size).

    They stand beside those of `Single`: one text for both, which asks for shapes, made single calls up to 18
    percent slower.
    """

    def __init__(self, program: ClosedProgram) -> None:
        self._m, self.single = program, Single(program)

    def argument(self, q: np.ndarray) -> np.ndarray:
        """What the recursions over clusters take for q: q itself if there are linear couplings only."""
        return q if self._m.linear else self.solve(q)

    def solve(self, q: np.ndarray) -> np.ndarray:
        """The solutions at q, which may be some already."""
        m = self._m
        if q.shape[1] == m.size:
            return q
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

    def rate(self, solution: np.ndarray, v: np.ndarray, w: np.ndarray, a: np.ndarray | None) -> np.ndarray:
        """G a + Gdot(v) w; a is zero if None."""
        m, a_s = self._m, empty((len(v), self._m.spanning_n))
        a = np.zeros_like(v) if a is None else a
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

    def clusters(self, name: str, q: np.ndarray, *vectors: np.ndarray, out: np.ndarray) -> None:
        """A recursion over clusters, without torsion; q may be solutions."""
        _accept(self._m.cluster_rows(name, (q, *vectors), out))

    def solve_mass(self, q: np.ndarray, tau: np.ndarray, f: np.ndarray, out: np.ndarray) -> None:
        """H^-1 (tau - f)."""
        m, H = self._m, empty((len(q), self._m.n**2))
        self.clusters("mass_matrix", q, out=H)
        _accept(ready["solve_rows"](m.memory, m.up, H, tau, f, out))

    def add_contorsion(self, name: str, q: np.ndarray, *vectors: np.ndarray, out: np.ndarray) -> None:
        """Add what the body-level factor with torsion changes in C or in Gamma, row by row."""
        single, core = self.single, (self._m.n,) * (2 + (name == "christoffel_symbols"))
        for row, result in enumerate(out):
            single.add_contorsion(name, q[row], *(v[row] for v in vectors), out=result.reshape(core))


Steps: TypeAlias = Single | Rows
Recursion: TypeAlias = Callable[..., None]


def _matrix(name: str) -> Recursion:
    def recursion(do: Steps, q: np.ndarray, *arguments: Any, out: np.ndarray) -> None:
        vectors = [argument for argument in arguments if not isinstance(argument, bool)]
        q = do.solve(q) if arguments and arguments[-1] is True else do.argument(q)
        do.clusters(name, q, *vectors, out=out)
        if arguments and arguments[-1] is True:
            do.add_contorsion(name, q, *vectors, out=out)

    return recursion


def _inverse_dynamics(do: Steps, q: np.ndarray, v: np.ndarray, a: np.ndarray, out: np.ndarray) -> None:
    solution = do.solve(q)
    v_s, a_s = do.lift(solution, v), do.rate(solution, v, v, a)
    do.project(solution, do.tree("inverse_dynamics", solution, v_s, a_s), out)


def _gravity(do: Steps, q: np.ndarray, out: np.ndarray) -> None:
    solution = do.solve(q)
    do.project(solution, do.tree("gravity", solution), out)


def _coriolis_product(
    do: Steps, q: np.ndarray, v: np.ndarray, w: np.ndarray, torsion: bool, out: np.ndarray
) -> None:
    solution = do.solve(q)
    v_s, w_s = do.lift(solution, v), do.lift(solution, w)
    f = do.tree("coriolis_product", solution, v_s, w_s, torsion)
    f += do.inertial(solution, do.rate(solution, v, w, None))
    do.project(solution, f, out)


def _coriolis_transpose_product(
    do: Steps, q: np.ndarray, v: np.ndarray, w: np.ndarray, torsion: bool, out: np.ndarray
) -> None:
    solution = do.solve(q)
    v_s, w_s = do.lift(solution, v), do.lift(solution, w)
    f = do.tree("coriolis_transpose_product", solution, v_s, w_s, torsion)
    do.project_rate(solution, v, f, do.inertial(solution, w_s), out)


def _forward_dynamics(do: Steps, q: np.ndarray, v: np.ndarray, tau: np.ndarray, out: np.ndarray) -> None:
    solution, bias = do.solve(q), empty(v.shape)
    v_s, a_s = do.lift(solution, v), do.rate(solution, v, v, None)
    do.project(solution, do.tree("inverse_dynamics", solution, v_s, a_s), bias)
    do.solve_mass(solution, tau, bias, out)


def _regressor(
    do: Steps, q: np.ndarray, v: np.ndarray, v_r: np.ndarray, a_r: np.ndarray, out: np.ndarray
) -> None:
    solution = do.solve(q)
    v_s, v_rs = do.lift(solution, v), do.lift(solution, v_r)
    Y = do.tree("regressor", solution, v_s, v_rs, do.rate(solution, v, v_r, a_r))
    do.project_wide(solution, Y, out)


# do : the steps; then q (nq,) or a solution, vectors, the body-level factor where there is a choice, and out.
RECURSIONS: dict[str, Recursion] = {
    "mass_matrix": _matrix("mass_matrix"),
    "coriolis_matrix": _matrix("coriolis_matrix"),
    "mass_matrix_rate": _matrix("mass_matrix_rate"),
    "christoffel_symbols": _matrix("christoffel_symbols"),
    "coriolis_product": _coriolis_product,
    "coriolis_transpose_product": _coriolis_transpose_product,
    "inverse_dynamics": _inverse_dynamics,
    "gravity": _gravity,
    "forward_dynamics": _forward_dynamics,
    "inverse_mass_matrix": _matrix("inverse_mass_matrix"),
    "regressor": _regressor,
    "inverse_dynamics_derivatives": inverse_dynamics_derivatives,
    "forward_dynamics_derivatives": forward_dynamics_derivatives,
}


def _accept(good: bool) -> None:
    if not good:
        raise Refused
