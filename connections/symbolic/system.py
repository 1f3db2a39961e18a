"""A mechanical system as expressions: one definition for closed forms and for computations.

The data are the metric H and, with constraints, a basis A of the feasible velocities or the one-forms W that
annihilate them, all in one frame X. Without constraints the basis is the frame itself, and everything that
is called constrained is Riemannian. Source: [W] III; [Z] section 3.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import sympy

from connections._jax import ArrayLike
from connections.affine.connection import AffineConnection
from connections.affine.constrained import ConstrainedConnection
from connections.affine.distributions import Distribution, SpannedDistribution
from connections.affine.levi_civita import LeviCivita
from connections.checks import MetricError, is_whole, require_choice, require_text
from connections.coriolis.nonholonomic import NonholonomicSystem
from connections.coriolis.system import MechanicalSystem
from connections.geometry.frames import PointFunction
from connections.geometry.metrics import Metric, checked_signature
from connections.symbolic import definition, distributions, lambdified, tensors
from connections.symbolic.connection import SymbolicConnection
from connections.symbolic.expressions import Simplifier, as_expressions, simplified, tidy
from connections.symbolic.latex import entries_latex, matrix_latex, rates_latex
from connections.symbolic.null_basis import REMEDY, EliminatedDistribution


@dataclass(frozen=True, eq=False)
class SymbolicSystem(SymbolicConnection):
    """A mechanical system, with or without nonholonomic constraints, given by matrices of expressions.

    Every result is a read-only object array with the index order of the numeric classes; every method takes
    ``simplify``: `tidy` (the default), any function of one expression, or None for unsimplified results.

    Parameters
    ----------
    coordinates : nq symbols.
    metric : H (n, n), the mass matrix in the frame; kinetic energy is (1/2) v^T H v.
    frame : X (nq, n), qdot = X v; the identity if None.
    basis : A (n, m), feasible velocities in the frame, orthogonal or not.
    forms : W (p, n), constraints as one-forms w_a(X_i); with a basis they are checked against each other.
        Without a basis, the forms are solved for the first p velocities that they determine at a generic
        point; each of the other velocities is one in one basis field and zero in the others.
    inputs : (a, n), covectors in the frame that the controls multiply.
    potential : potential energy [J].
    parameters : {symbol: default value or None}, in SI units; other symbols become parameters without one.
    name : for messages and titles.
    signature : optional, of an H that is not positive definite, (p, q) as for `MatrixMetric`; without
        constraints, and for `numeric_connection`.

    Attributes
    ----------
    metric, frame, basis, forms, inputs : object arrays, or None if not given; frame is never None.

    Raises
    ------
    ShapeError, TypeError, ValueError : the arguments are not matrices of expressions of these shapes.
    MetricError : H is not symmetric, or a signature is declared and there are constraints.
    FrameError, ConstraintError : frame, basis or forms lost rank at a generic point, or the basis does not
        satisfy the forms.

    Examples
    --------
    Polar coordinates of the plane.

    >>> import sympy
    >>> from connections import symbolic
    >>> r, phi = sympy.symbols("r phi")
    >>> plane = symbolic.SymbolicSystem((r, phi), sympy.diag(1, r**2))
    >>> symbolic.nonzero(plane.coefficients())
    {(0, 1, 1): -r, (1, 0, 1): 1/r, (1, 1, 0): 1/r}
    """

    coordinates: tuple[sympy.Symbol, ...]
    metric: Any
    frame: Any = None
    basis: Any = None
    forms: Any = None
    inputs: Any = None
    potential: Any = None
    parameters: Any = None
    name: str = ""
    signature: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        require_text("name", self.name)
        coordinates = definition.as_coordinates(self.coordinates)
        nq = len(coordinates)
        X = np.eye(nq, dtype=int) if self.frame is None else self.frame
        X = as_expressions("frame", X, (nq, None))
        n = X.shape[1]
        H = as_expressions("metric", self.metric, (n, n))
        object.__setattr__(self, "signature", checked_signature(self.signature, n))
        if self.signature is not None and self.constrained:
            what = f"constraints need a positive definite metric, got signature {self.signature}"
            raise MetricError(f"signature: {what}")
        arrays: dict[str, np.ndarray | None] = {"metric": H, "frame": X}
        for name, shape in (("basis", (n, None)), ("forms", (None, n)), ("inputs", (None, n))):
            value = getattr(self, name)
            arrays[name] = None if value is None else as_expressions(name, value, shape)
        V = None if self.potential is None else as_expressions("potential", self.potential, ())
        parameters = definition.as_parameters(self.parameters, [*arrays.values(), V], coordinates)
        definition.require_symmetric(H)
        definition.require_frame(X)
        definition.require_distribution(arrays["basis"], arrays["forms"])
        scalars = {"coordinates": coordinates, "potential": None if V is None else V.item()}
        for name, value in (arrays | scalars | {"parameters": parameters}).items():
            object.__setattr__(self, name, value)

    # --- what it is made of ------------------------------------------------------------------------------

    @property
    def constrained(self) -> bool:
        """Whether a basis or forms were given."""
        return self.basis is not None or self.forms is not None

    @cached_property
    def distribution(self) -> np.ndarray:
        """The basis given, one computed from the forms, or the identity without constraints; A (n, m)."""
        if self.basis is not None:
            basis: np.ndarray = self.basis
            return basis
        return simplified(
            distributions.identity(len(self.metric)) if self.forms is None else self._null[0], tidy
        )

    @property
    def solved(self) -> tuple[int, ...]:
        """The velocities of the frame for which the forms are solved, if the basis is computed from them."""
        return () if self.forms is None else self._null[1]

    def with_basis(self, basis: Any) -> SymbolicSystem:
        """The system with another basis (n, m), or with one computed from the forms if None."""
        if basis is None and self.forms is None:
            raise ValueError("the system has no forms: without a basis it would lose its constraints")
        return dataclasses.replace(self, basis=basis)

    # --- sections, inputs, motion ------------------------------------------------------------------------

    def input_coefficients(self, forms: Any = None, simplify: Simplifier | None = tidy) -> np.ndarray:
        """Y[k, a], (m, a), of covectors (a, n) in the frame: (A^T H A)^-1 <F_a, X_k>; the inputs if None.

        Source: [Z] Theorem 3.2.
        """
        if forms is None and self.inputs is None:
            raise ValueError(f"the system {self.name} has no inputs: give the covectors")
        covectors = self.inputs if forms is None else forms
        F = as_expressions("forms", covectors, (None, len(self.metric)))
        return simplified(
            distributions.raised(self.reduced_metric(simplify), (F @ self.distribution).T), simplify
        )

    def input_coefficients_of_functions(
        self, functions: Any, simplify: Simplifier | None = tidy
    ) -> np.ndarray:
        """Y[k, a], (m, a), of the differentials of functions (a,): (A^T H A)^-1 L_{X_k} phi_a.

        Source: [Z] Theorem 3.2.
        """
        phi = as_expressions("functions", functions, (None,))
        slopes = tensors.lie_derivative(phi, self.fields, self.coordinates)
        return simplified(distributions.raised(self.reduced_metric(simplify), slopes), simplify)

    def equations_of_motion(
        self, v: ArrayLike | None = None, u: ArrayLike | None = None, simplify: Simplifier | None = tidy
    ) -> tuple[np.ndarray, np.ndarray]:
        """(qdot, vdot): v^k X_k, (nq,), and Y^k_a u^a - Gamma~^k_ij v^i v^j - (grad V)^k, (m,).

        Parameters
        ----------
        v : (m,) velocity in the basis; symbols v0, v1, ... if None.
        u : (a,) controls; symbols u0, u1, ... if None.
        simplify : see the class.

        Source: [Z] Theorem 3.2.
        """
        velocity = self.velocities() if v is None else as_expressions("v", v, (self.dim,))
        v_dot = -np.einsum("kij,i,j->k", self.constrained_coefficients(simplify), velocity, velocity)
        if self.potential is not None:
            v_dot = v_dot - self.input_coefficients_of_functions([self.potential], simplify)[:, 0]
        if self.inputs is not None:
            count = len(self.inputs)
            controls = sympy.symbols(f"u:{count}", real=True) if u is None else u
            v_dot = v_dot + self.input_coefficients(None, simplify) @ as_expressions("u", controls, (count,))
        return simplified(self.fields @ velocity, simplify), simplified(v_dot, simplify)

    def latex(self, simplify: Simplifier | None = tidy, *, kind: int = 2, first: int = 0) -> str:
        r"""Metric, frame, basis, forms, coefficients, inputs and equations of motion, as LaTeX.

        Aligned blocks below each other; coefficients and inputs that vanish are left out, and coefficients
        that are equal by symmetry share a line.

        Parameters
        ----------
        simplify : see the class.
        kind : 2 for coefficients of the second kind, ``\Gamma^{i}_{jk}``, 1 for the first, ``\Gamma_{ijk}``.
        first : what the first index is called: 0, as in arrays, or 1, as papers count.

        Raises
        ------
        ValueError : another kind, or another first index.
        """
        if not is_whole(kind) or kind not in (1, 2):
            raise ValueError(f"kind: expected 1 or 2, as of Christoffel symbols; got {kind!r}")
        blocks = [matrix_latex("H", self.metric)]
        nq, n = self.frame.shape
        if nq != n or (self.frame != np.eye(n, dtype=int)).any():
            blocks.append(matrix_latex("X", self.frame))
        if self.constrained:
            blocks.append(matrix_latex("A", self.distribution))
        if self.forms is not None:
            blocks.append(matrix_latex("W", self.forms))
        letter = r"\tilde\Gamma" if self.constrained else r"\Gamma"
        named = partial(entries_latex, simplify=None, first=first)  # what is given is simplified already
        blocks.append(named(letter, self._of_kind(kind, simplify), kind - 1))
        if self.inputs is not None:
            blocks.append(named("Y", self.input_coefficients(None, simplify), 1))
        v = self.velocities(first=first)
        u = None if self.inputs is None else sympy.symbols(f"u{first}:{len(self.inputs) + first}", real=True)
        q_dot, v_dot = self.equations_of_motion(v, u, simplify)
        blocks += [rates_latex(self.coordinates, q_dot), rates_latex(v, v_dot)]
        return "\n\n".join(blocks)

    # --- numbers -----------------------------------------------------------------------------------------

    def parameter_values(self, parameters: Mapping[Any, float] | None = None) -> dict[sympy.Symbol, float]:
        """The default values with some replaced: {symbol or name: value}.

        Raises
        ------
        ValueError : an unknown name, or a parameter without a value.
        """
        return lambdified.parameter_values(self.parameters, parameters)

    def function(self, expressions: Any, parameters: Mapping[Any, float] | None = None) -> PointFunction:
        """A JAX-traceable function q (nq,) -> floats of the shape of `expressions`.

        Parameters
        ----------
        expressions : array, matrix or one expression of coordinates and parameters.
        parameters : values that replace defaults, by symbol or name.

        Raises
        ------
        ValueError : an unknown parameter, one without a value, or a symbol that is neither.
        """
        array = as_expressions("expressions", expressions, None)
        return self._code.function(array, self.parameter_values(parameters))

    def numeric(
        self, parameters: Mapping[Any, float] | None = None, *, basis: str = "symbolic"
    ) -> NonholonomicSystem | MechanicalSystem:
        """The numeric system: a `NonholonomicSystem`, or a `MechanicalSystem` without constraints.

        Its basis is `distribution`, the basis of all closed forms, so that components of velocities,
        coefficients, gaits and gains mean the same in both. The same values give the same object, with its
        compiled functions. A `MechanicalSystem` has no inputs; `function` gives them.

        Parameters
        ----------
        parameters : values that replace defaults, by symbol or name.
        basis : "symbolic", or "orthonormal" for another basis of the same distribution, in which the closed
            forms do not hold. This basis is orthonormal in the metric and computed at every point from the
            forms, also if a basis was given, so that it is singular only where the forms lose rank, and on a
            set of codimension m. Without forms it is computed from the basis by Gram-Schmidt.

        Raises
        ------
        ValueError : an unknown parameter or basis, a parameter without a value, or an orthonormal basis of a
            system without constraints.
        FrameError, at a point : the basis is singular there; names the divisor that vanishes.
        MetricError : a signature is declared: `numeric_connection` has what is known of such a space.
        """
        require_choice("basis", basis, ("symbolic", "orthonormal"))
        if self.signature is not None:
            what = (
                f"a mechanical system has a positive definite metric, not one of signature {self.signature}"
            )
            raise MetricError(f"numeric: {what}; write numeric_connection()")
        values = self.parameter_values(parameters)
        made: dict[Any, NonholonomicSystem | MechanicalSystem] = self.__dict__.setdefault("_numeric", {})
        key = (basis, *values.values())
        if key not in made:
            made[key] = self._in_numbers(values, basis)
        return made[key]

    def numeric_connection(self, parameters: Mapping[Any, float] | None = None) -> AffineConnection:
        """The numeric connection: `LeviCivita` without constraints, of any signature, or that of `numeric`.

        The same values give the same object, with its compiled functions.

        Parameters
        ----------
        parameters : values that replace defaults, by symbol or name.

        Raises
        ------
        ValueError : an unknown parameter, or a parameter without a value.

        Examples
        --------
        A black hole: of radius r and time t.

        >>> import sympy
        >>> from connections import symbolic
        >>> t, r, M = sympy.symbols("t r M")
        >>> f = 1 - 2 * M / r
        >>> hole = symbolic.SymbolicSystem((t, r), sympy.diag(-f, 1 / f), signature=(1, 1))
        >>> nabla = hole.numeric_connection({"M": 1.0})
        >>> float(nabla.coefficients([0.0, 4.0])[1, 0, 0])  # f M / r^2
        0.03125
        """
        if self.signature is None:
            nabla = self.numeric(parameters).connection
            assert nabla is not None  # of a system without another one it is Levi-Civita's
            return nabla
        values = self.parameter_values(parameters)
        made: dict[Any, LeviCivita] = self.__dict__.setdefault("_connections", {})
        key = tuple(values.values())
        if key not in made:
            made[key] = LeviCivita(self._metric(values))
        return made[key]

    # --- private -----------------------------------------------------------------------------------------

    def _metric(self, values: lambdified.Values) -> Metric:
        """The numeric metric for values of all parameters."""
        return lambdified.numeric_metric(self._code, values, self.frame, self.metric, self.signature)

    def _of_kind(self, kind: int, simplify: Simplifier | None) -> np.ndarray:
        """The connection's coefficients in the basis, of the second kind, or lowered to the first."""
        if kind == 1 and not self.constrained:
            return self.christoffel_symbols(simplify)
        Gamma = self.constrained_coefficients(simplify)
        if kind == 2:
            return Gamma
        return simplified(np.einsum("il,ljk->ijk", self.reduced_metric(simplify), Gamma), simplify)

    @cached_property
    def _null(self) -> tuple[np.ndarray, tuple[int, ...]]:
        """The basis computed from the forms, and the velocities for which they are solved."""
        return distributions.null_basis(self.forms)

    @cached_property
    def _code(self) -> lambdified.LambdifiedCode:
        return lambdified.LambdifiedCode(self.coordinates, tuple(self.parameters))

    def _in_numbers(self, values: lambdified.Values, basis: str) -> NonholonomicSystem | MechanicalSystem:
        """The numeric system for values of all parameters (`numeric`)."""

        def function(array: np.ndarray | None) -> PointFunction | None:
            return None if array is None else self._code.function(array, values)

        potential = None if self.potential is None else np.array(self.potential, dtype=object)
        metric = self._metric(values)
        if not self.constrained:
            if basis != "symbolic":
                raise ValueError(f"the system {self.name} has no constraints: its velocities are the frame's")
            return MechanicalSystem(metric, function(potential))
        A, W = self._code.function(self.distribution, values), function(self.forms)
        if basis == "symbolic":
            nabla = ConstrainedConnection(metric, self._spanned(metric, A, W))
        elif W is None:
            nabla = ConstrainedConnection(metric, A).orthonormalized()
        else:
            nabla = ConstrainedConnection(metric, forms=W)
        return NonholonomicSystem(nabla, function(potential), inputs=function(self.inputs))

    def _spanned(self, metric: Metric, A: PointFunction, W: PointFunction | None) -> Distribution:
        """The numeric distribution, in the basis of the closed forms."""
        if self.basis is not None or W is None:
            return SpannedDistribution(metric, A, W, REMEDY)
        divisor = tidy(sympy.Matrix(self.forms[:, self.solved]).det())
        return EliminatedDistribution(metric, A, W, self.solved, str(divisor))
