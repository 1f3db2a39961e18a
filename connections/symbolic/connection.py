"""Tensors and the constrained connection of a metric and a distribution, as expressions.

`SymbolicSystem` gives the data and has these results. Every one is a read-only object array with the index
order of the numeric classes. Source: [W] III; [Z] section 3.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import sympy

from connections._jax import ArrayLike
from connections._words import words_of
from connections.checks import require_bool, require_choice, require_indices, require_text
from connections.symbolic import distributions, tensors
from connections.symbolic.expressions import (
    Simplifier,
    as_expressions,
    frozen,
    require_simplifier,
    simplified,
    tidy,
)


class SymbolicConnection(abc.ABC):
    """A metric in a frame, a distribution, and the connections that they define, as expressions.

    Every method takes ``simplify``: `tidy` (the default), any function of one expression, or None for
    unsimplified results. Results are cached, one for each `simplify`.
    """

    coordinates: tuple[sympy.Symbol, ...]
    metric: np.ndarray
    frame: np.ndarray
    forms: np.ndarray | None

    @property
    @abc.abstractmethod
    def distribution(self) -> np.ndarray:
        """A basis of the distribution in the frame, A (n, m)."""

    @cached_property
    def fields(self) -> np.ndarray:
        """The basis fields in ambient coordinates, X A (nq, m)."""
        return simplified(self.frame @ self.distribution, tidy)

    @property
    def dim(self) -> int:
        """m, the number of velocities of the constrained system."""
        return int(self.distribution.shape[1])

    @property
    @abc.abstractmethod
    def constrained(self) -> bool:
        """Whether the distribution is less than the frame, or in another basis."""

    def velocities(self, letter: str = "v", first: int = 0) -> np.ndarray:
        """Symbols v0, v1, ..., (m,).

        Parameters
        ----------
        letter : of the symbols.
        first : number of the first symbol.
        """
        require_text("letter", letter)
        if not letter.isidentifier():
            raise ValueError(f"letter: expected a name, got {letter!r}")
        require_indices("first", [first])
        return frozen(sympy.symbols(f"{letter}{first}:{self.dim + first}", real=True), (self.dim,))

    def orthogonal_basis(self, unit: Mapping[int, int] | None = None) -> np.ndarray:
        """The basis made orthogonal in the metric, field by field in its order, (n, m).

        Parameters
        ----------
        unit : {k: component}: field k is rescaled so that this component is one.

        Source: [Z] eq. (9).
        """
        if unit is not None and not isinstance(unit, Mapping):
            raise TypeError(f"unit: expected {{field: component}}, got {words_of(unit)}")
        require_indices("unit", [*(unit or {})], self.dim)
        require_indices("unit", [*(unit or {}).values()], len(self.metric))
        return simplified(distributions.orthogonalized(self.metric, self.distribution, unit), tidy)

    # --- the frame and the metric: Riemannian geometry ---------------------------------------------------

    def structure_functions(self, simplify: Simplifier | None = tidy) -> np.ndarray:
        """s[k, i, j] of the frame, [X_i, X_j] = s^k_ij X_k, (n, n, n)."""
        return self._result(
            "structure", simplify, lambda: tensors.structure_functions(self.frame, self.coordinates)
        )

    def christoffel_symbols(self, simplify: Simplifier | None = tidy) -> np.ndarray:
        """Gamma*_ijk = <<X_i, nabla*_{X_j} X_k>> of the metric in its frame, of the first kind, (n, n, n).

        Source: [W] eq. (8).
        """

        def build() -> np.ndarray:
            dH = tensors.lie_derivative(self.metric, self.frame, self.coordinates)
            return tensors.christoffel_first_kind(self.metric, dH, self.structure_functions(simplify))

        return self._result("first_kind", simplify, build)

    def coefficients(self, simplify: Simplifier | None = tidy) -> np.ndarray:
        """Gamma*[i, j, k] of the metric in its frame, nabla*_{X_j} X_k = Gamma*^i_jk X_i, (n, n, n)."""
        return self._result(
            "second_kind",
            simplify,
            lambda: distributions.raised(self.metric, self.christoffel_symbols(simplify)),
        )

    def torsion(self, Gamma: Any, simplify: Simplifier | None = tidy) -> np.ndarray:
        """T[i, j, k] = Gamma^i_jk - Gamma^i_kj - s^i_jk of coefficients (n, n, n) in the metric's frame."""
        return simplified(tensors.torsion(self._tensor(Gamma), self.structure_functions(simplify)), simplify)

    def contorsion(self, Gamma: Any, simplify: Simplifier | None = tidy) -> np.ndarray:
        """D[i, j, k] = Gamma*_ijk - Gamma_ijk of coefficients (n, n, n) of the second kind; [W]'s sign."""
        low = np.einsum("il,ljk->ijk", self.metric, self._tensor(Gamma))
        return simplified(self.christoffel_symbols(simplify) - low, simplify)

    def curvature_of(self, Gamma: Any, simplify: Simplifier | None = tidy) -> np.ndarray:
        """R[l, k, i, j] of coefficients (n, n, n) in the metric's frame, R(X_i, X_j) X_k = R^l_kij X_l."""
        s = self.structure_functions(simplify)
        return simplified(tensors.curvature(self._tensor(Gamma), s, self.frame, self.coordinates), simplify)

    # --- the constrained connection ----------------------------------------------------------------------

    def reduced_metric(self, simplify: Simplifier | None = tidy) -> np.ndarray:
        """A^T H A, (m, m): the mass matrix of the constrained system."""
        return self._result("gram", simplify, lambda: distributions.gram(self.metric, self.distribution))

    def projection(self, simplify: Simplifier | None = tidy, *, of_forms: bool | None = None) -> np.ndarray:
        """P, (n, n): the orthogonal projection onto the distribution, in the metric's frame.

        Parameters
        ----------
        simplify : see the class.
        of_forms : from the forms (True) or from the basis (False); by default from the forms if there are
            any.
        """
        if of_forms is not None:
            require_bool("of_forms", of_forms)
        use_forms = self.forms is not None if of_forms is None else of_forms
        if use_forms and self.forms is None:
            raise ValueError("the system has no forms")

        def build() -> np.ndarray:
            if use_forms and self.forms is not None:
                return distributions.projection_of_forms(self.metric, self.forms)
            return distributions.projection_of_basis(self.metric, self.distribution)

        return self._result(("projection", use_forms), simplify, build)

    def constrained_coefficients(
        self, simplify: Simplifier | None = tidy, *, route: str = "gram"
    ) -> np.ndarray:
        """Gamma~[k, i, j] in the basis, nabla~_{X_i} X_j = P nabla_{X_i} X_j = Gamma~^k_ij X_k, (m, m, m).

        Parameters
        ----------
        simplify : see the class.
        route : "gram", (A^T H A)^-1 <<X_k, nabla_{X_i} X_j>>, for any basis; "orthogonal", the inner products
            divided by |X_k|^2; "projection", the connection of Lemma 3.1 restricted to the distribution.

        Raises
        ------
        FrameError : the route is "orthogonal" and the basis is not.

        Source: [Z] Theorem 3.2, Lemma 3.1.
        """
        require_choice("route", route, ("gram", "orthogonal", "projection"))
        if route == "gram" and not self.constrained:
            return self.coefficients(simplify)  # A is the identity: nothing to project and to raise again
        A, E, q = self.distribution, self.fields, self.coordinates

        def build() -> np.ndarray:
            if route == "projection":
                Gamma = self.full_coefficients(simplify)
                low = distributions.first_kind(self.metric, Gamma, A, E, q)
                return distributions.raised(self.reduced_metric(simplify), low)
            low = distributions.first_kind(self.metric, self.coefficients(simplify), A, E, q)
            by = {"gram": distributions.raised, "orthogonal": distributions.raised_by_norms}
            return by[route](self.reduced_metric(simplify), simplified(low, simplify))

        return self._result(("constrained", route), simplify, build)

    def full_coefficients(self, simplify: Simplifier | None = tidy) -> np.ndarray:
        """Gamma[i, j, k] on TQ of nabla_X Y + (nabla_X P_perp)(Y), in the metric's frame, (n, n, n).

        Source: [Z] Lemma 3.1, eq. (6).
        """

        def build() -> np.ndarray:
            P_perp = distributions.identity(len(self.metric)) - self.projection(simplify)
            dP = tensors.lie_derivative(P_perp, self.frame, self.coordinates)
            return distributions.full_coefficients(self.coefficients(simplify), P_perp, dP)

        return self._result("full", simplify, build)

    def projected_structure_functions(self, simplify: Simplifier | None = tidy) -> np.ndarray:
        """s[k, i, j] of P [X_i, X_j] = s^k_ij X_k in the basis, (m, m, m)."""

        def build() -> np.ndarray:
            low = self.distribution.T @ self.metric
            low = np.einsum("ka,aij->kij", low, self._brackets())
            return distributions.raised(self.reduced_metric(simplify), low)

        return self._result("projected", simplify, build)

    def nonintegrability(self, simplify: Simplifier | None = tidy) -> np.ndarray:
        """(1 - P)[X_i, X_j], (n, m, m), components in the metric's frame; zero where integrable."""

        def build() -> np.ndarray:
            inside = np.einsum("ak,kij->aij", self.distribution, self.projected_structure_functions(simplify))
            outside: np.ndarray = self._brackets() - inside
            return outside

        return self._result("nonintegrability", simplify, build)

    def curvature(self, simplify: Simplifier | None = tidy) -> np.ndarray:
        """R[l, k, i, j] of the connection of Lemma 3.1 evaluated on the distribution, (m, m, m, m)."""
        return self._curvature(simplify, 0)

    def schouten_curvature(self, simplify: Simplifier | None = tidy) -> np.ndarray:
        """K[l, k, i, j] of Schouten's curvature on the distribution, (m, m, m, m).

        K(X, Y) Z = nabla~_X nabla~_Y Z - nabla~_Y nabla~_X Z - nabla~_{P[X, Y]} Z - P [(1 - P)[X, Y], Z].
        """
        return self._curvature(simplify, 1)

    # --- sections

    def covariant_derivative(self, X: Any, Y: Any, simplify: Simplifier | None = tidy) -> np.ndarray:
        """Components of nabla~_X Y, (m,), for fields given by components (m,) in the basis."""
        x, y = (as_expressions(name, value, (self.dim,)) for name, value in (("X", X), ("Y", Y)))
        return simplified(self._covariant_derivative(x, y, simplify), simplify)

    def symmetric_product(self, X: Any, Y: Any, simplify: Simplifier | None = tidy) -> np.ndarray:
        """Components of <X : Y> = nabla~_X Y + nabla~_Y X, (m,), for fields given by components (m,).

        Source: [Z] section 6.
        """
        x, y = (as_expressions(name, value, (self.dim,)) for name, value in (("X", X), ("Y", Y)))
        both = self._covariant_derivative(x, y, simplify) + self._covariant_derivative(y, x, simplify)
        return simplified(both, simplify)

    def bracket(self, X: Any, Y: Any, simplify: Simplifier | None = tidy) -> np.ndarray:
        """The Lie bracket [X, Y] in ambient coordinates, (nq,), of fields (nq,), e.g. columns of `fields`."""
        x, y = (as_expressions(name, value, (len(self.coordinates),)) for name, value in (("X", X), ("Y", Y)))
        return simplified(tensors.bracket(x, y, self.coordinates), simplify)

    def coriolis_matrix(self, v: ArrayLike | None = None, simplify: Simplifier | None = tidy) -> np.ndarray:
        """C[i, k] = Gamma~_ijk v^j of the constrained connection in the basis, (m, m).

        Parameters
        ----------
        v : (m,), the velocity in the basis; symbols v0, v1, ... if None.
        simplify : see the class.

        Source: [W] eq. (10).
        """
        velocity = self.velocities() if v is None else as_expressions("v", v, (self.dim,))
        low = np.einsum("il,ljk->ijk", self.reduced_metric(simplify), self.constrained_coefficients(simplify))
        return simplified(np.einsum("ijk,j->ik", low, velocity), simplify)

    # --- private

    def _covariant_derivative(self, x: np.ndarray, y: np.ndarray, simplify: Simplifier | None) -> np.ndarray:
        dY = tensors.lie_derivative(y, self.fields, self.coordinates)
        return tensors.covariant_derivative(self.constrained_coefficients(simplify), dY, x, y)

    def _brackets(self) -> np.ndarray:
        """[X_i, X_j] of the basis in the frame, (n, m, m)."""
        dA = tensors.lie_derivative(self.distribution, self.fields, self.coordinates)
        return distributions.brackets_in_frame(self.structure_functions(), self.distribution, dA)

    def _curvature(self, simplify: Simplifier | None, which: int) -> np.ndarray:
        def build() -> np.ndarray:
            A, E, q, s = self.distribution, self.fields, self.coordinates, self.structure_functions(simplify)
            N = self.nonintegrability(simplify)
            terms = distributions.curvature_terms(
                self.coefficients(simplify),
                A,
                tensors.lie_derivative(A, self.frame, q),
                s,
                N,
                tensors.lie_derivative(N, E, q),
            )
            inside = distributions.raised(
                self.reduced_metric(simplify), np.tensordot(A.T @ self.metric, terms[which], 1)
            )
            own, turned = (
                self.constrained_coefficients(simplify),
                self.projected_structure_functions(simplify),
            )
            R: np.ndarray = tensors.curvature(own, turned, E, q) - inside
            return R

        return self._result(("curvature", which), simplify, build)

    def _tensor(self, Gamma: Any) -> np.ndarray:
        return as_expressions("Gamma", Gamma, (len(self.metric),) * 3)

    def _result(self, key: Any, simplify: Simplifier | None, build: Callable[[], np.ndarray]) -> np.ndarray:
        require_simplifier(simplify)
        results: dict[Any, np.ndarray] = self.__dict__.setdefault("_results", {})
        if (key, simplify) not in results:
            results[key, simplify] = simplified(build(), simplify)
        return results[key, simplify]
