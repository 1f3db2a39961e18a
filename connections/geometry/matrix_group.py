"""Lie groups of matrices, given by a basis of their algebra.

q is the entries of the matrix g, row by row. The left-invariant fields are X_i = g E_i, the right-invariant
ones X_i = E_i g, and

    [E_i, E_j] = c^k_ij E_k,    s^k_ij = c^k_ij (left-invariant),    s^k_ij = -c^k_ij (right-invariant).

Source: V. I. Arnold, Mathematical Methods of Classical Mechanics (1989), appendix 2; J. Milnor, Curvatures of
left invariant metrics on Lie groups (1976).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import Array, ArrayLike, solve
from connections.checks import (
    FrameError,
    PointError,
    ShapeError,
    as_array,
    is_traced,
    raise_at,
    require_choice,
    require_finite,
    require_untraced,
)
from connections.evaluation.boundary import Argument, as_given, evaluate, projected_point
from connections.geometry.frames import FrameField
from connections.geometry.matrix_group_equations import MatrixGroupEquations, cleaned
from connections.geometry.numerics.matrix_exponential import matrix_exponential, principal_logarithm
from connections.geometry.numerics.scales import POINT_TOLERANCE, rank_of

_CLOSED = 1e-9  # the largest part of a commutator outside the span, relative to the commutator's terms
_SIDES = ("left", "right")


@dataclass(frozen=True, eq=False, repr=False)
class MatrixLieGroup(FrameField):
    """Lie group of matrices with its invariant frame: X_i = g E_i, q = the entries of g, row by row.

    The group is the connected one that the matrices generate. Points are kept on it by equations that are
    found from the basis (`codimension` says how many are missing); a point next to it is replaced by the
    nearest one there, another is refused. If equations are missing, as for a line that winds around a torus,
    motions stay on the group to the integrator's tolerance. Other components of the set that satisfies the
    equations are not told apart; everything is the same there.

    Parameters
    ----------
    basis : (n, m, m) matrices E_i of the Lie algebra: linearly independent, and closed under commutators.
    invariant : "left" for X_i = g E_i, so that v are components in the body's axes; "right" for X_i = E_i g.

    Attributes
    ----------
    structure_constants : (n, n, n) c[k, i, j] of [E_i, E_j] = c^k_ij E_k, for either side.
    codimension : the number of equations of the group that are not known, 0 for most groups.

    Raises
    ------
    ShapeError, NonFiniteError. FrameError : the matrices are dependent, or a commutator leaves their span.
    TypeError : JAX traces the matrices. TypeError, ValueError : another `invariant`.

    Examples
    --------
    Translations do not commute in Heisenberg's group: [E_0, E_1] = E_2.

    >>> import numpy as np
    >>> import connections as cn
    >>> x, y, z = np.zeros((3, 3, 3))
    >>> x[0, 1] = y[1, 2] = z[0, 2] = 1.0
    >>> heisenberg = cn.MatrixLieGroup([x, y, z])
    >>> float(heisenberg.structure_constants[2, 0, 1])
    1.0
    >>> heisenberg.exponential([1.0, 2.0, 0.0]).reshape(3, 3)[0]
    array([1., 1., 1.])

    Source: the text of the module.
    """

    basis: np.ndarray
    invariant: str = "left"
    structure_constants: np.ndarray = field(init=False)
    codimension: int = field(init=False)
    dim: int = field(init=False)
    ambient_dim: int = field(init=False)
    _dual: np.ndarray = field(init=False)
    _equations: MatrixGroupEquations = field(init=False)

    def __init__(self, basis: ArrayLike, invariant: str = "left") -> None:
        require_choice("invariant", invariant, _SIDES)
        E = _checked_basis(basis)
        lengths = np.linalg.norm(E, axis=(1, 2))
        unit = E / lengths[:, None, None]
        dual = np.linalg.pinv(unit.reshape(len(E), -1).T).reshape(E.shape) / lengths[:, None, None]
        equations = MatrixGroupEquations(unit)
        for name, value in (
            ("basis", E),
            ("invariant", invariant),
            ("structure_constants", _structure_constants(E, dual)),
            ("codimension", equations.codimension),
            ("dim", len(E)),
            ("ambient_dim", E.shape[1] ** 2),
            ("_dual", dual),
            ("_equations", equations),
        ):
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MatrixLieGroup) or self.invariant != other.invariant:
            return False
        ours, theirs = self.basis, other.basis
        return ours is theirs or (not is_traced(ours, theirs) and np.array_equal(ours, theirs))

    def __hash__(self) -> int:
        return hash((self.dim, self.ambient_dim, self.invariant))

    def __repr__(self) -> str:
        m = self.basis.shape[1]
        side = "" if self.invariant == "left" else ", right-invariant"
        return f"MatrixLieGroup({self.dim} matrices of {m} x {m}{side})"

    # --- the definition at one point -------------------------------------------------------------------

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """g E_i or E_i g, (m^2, n)."""
        product = "ab,ibc->aci" if self.invariant == "left" else "bc,iab->aci"
        fields = jnp.einsum(product, self._matrix(q), self.basis)
        constant = self._equations.constant
        if constant is not None:
            fields = jnp.where(constant[:, :, None], 0.0, fields)
        return fields.reshape(self.ambient_dim, self.dim)

    def dual_at(self, q: jax.Array) -> jax.Array:
        """Components of g^-1 gdot or gdot g^-1 in the basis, (n, m^2)."""
        inverse = jnp.linalg.inv(self._matrix(q))
        product = "iab,ac->icb" if self.invariant == "left" else "iab,cb->iac"
        return jnp.einsum(product, self._dual, inverse).reshape(self.dim, self.ambient_dim)

    def structure_functions_at(self, q: jax.Array) -> jax.Array:
        """c, or -c in the right-invariant frame, (n, n, n)."""
        c = jnp.asarray(self.structure_constants)
        return c if self.invariant == "left" else -c

    def structure_terms_at(self, q: jax.Array) -> jax.Array:
        """|c|, (n, n, n)."""
        return jnp.abs(jnp.asarray(self.structure_constants))

    def project_at(self, q: jax.Array) -> jax.Array:
        """The nearest element of the group, by Newton's method."""
        return self._equations.projected(self._matrix(q)).reshape(-1)

    def sample_at(self, x: jax.Array) -> jax.Array:
        """The exponential of the first n numbers."""
        return self.exponential_at(x[: self.dim])

    def near_at(self, q: jax.Array) -> jax.Array:
        """Whether no entry is farther from the group than `POINT_TOLERANCE` of its row and column."""
        g, p = jnp.abs(self._matrix(q)), self._matrix(self.project_at(q))
        sizes = jnp.minimum(jnp.max(g, axis=0)[None, :], jnp.max(g, axis=1)[:, None])
        close = jnp.all(jnp.abs(p - self._matrix(q)) <= POINT_TOLERANCE * sizes)
        return jnp.asarray(close & (jnp.linalg.det(p) > _round_off(p)))

    def retract_at(self, q: jax.Array, xi: jax.Array) -> jax.Array:
        """g exp(xi), or exp(xi) g in the right-invariant frame."""
        step, g = self._matrix(self.exponential_at(xi)), self._matrix(q)
        moved: jax.Array = g @ step if self.invariant == "left" else step @ g
        return moved.reshape(-1)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether q is an element of the group; the frame is regular everywhere."""
        return self.near_at(q)

    def explain(self, q: ArrayLike) -> None:
        """Raise `PointError` for a matrix that is not in the group."""
        require_finite("q", q)
        self.require_near("q", q)

    def require_near(self, name: str, q: ArrayLike) -> np.ndarray:
        """The element of the group next to `q` (m^2,), or `PointError` for a matrix that is not in it."""
        q = np.asarray(q)
        matrix = q.reshape(self.basis.shape[1:])
        determinant = float(np.linalg.det(matrix))
        if not determinant > _round_off(matrix):
            what = f"{name}: the matrix has determinant {determinant:.2g}, which no element of {self} has,"
            raise_at(PointError, what, q)
        p = np.asarray(self.project_at(jnp.asarray(q)))
        if not self.near_at(jnp.asarray(q)):
            gap = float(np.max(np.abs(p - q)))
            raise_at(PointError, f"{name}: the matrix is {gap:.2e} off {self},", q)
        return p

    def exponential_at(self, xi: jax.Array) -> jax.Array:
        """The entries of exp(xi^i E_i), (m^2,)."""
        A = jnp.einsum("i,iab->ab", xi, self.basis)
        entries: jax.Array = matrix_exponential(A, self._equations.degree).reshape(-1)
        return entries

    def product_at(self, q: jax.Array, p: jax.Array) -> jax.Array:
        """The entries of g h, (m^2,)."""
        return (self._matrix(q) @ self._matrix(p)).reshape(-1)

    def inverse_at(self, q: jax.Array) -> jax.Array:
        """The entries of g^-1, (m^2,)."""
        inverse: jax.Array = jnp.linalg.inv(self._matrix(q)).reshape(-1)
        return inverse

    def adjoint_at(self, q: jax.Array) -> jax.Array:
        """Column i holds the components of g E_i g^-1, (n, n)."""
        g = self._matrix(q)
        turned = jax.vmap(lambda E: solve(g.T, (g @ E).T).T)(jnp.asarray(self.basis))
        return jnp.einsum("kab,iab->ki", self._dual, turned)

    # --- the public functions ----------------------------------------------------------------------------

    def identity(self) -> np.ndarray:
        """The entries of the unit matrix, (m^2,)."""
        return np.eye(self.basis.shape[1]).reshape(-1)

    def product(self, q: ArrayLike, p: ArrayLike) -> Array:
        """The entries of g h, (..., m^2).

        Parameters
        ----------
        q, p : (..., m^2) entries of g and h.

        Raises
        ------
        ShapeError, NonFiniteError; PointError for a matrix that is not in the group.
        """
        second = Argument("p", evaluate(self, projected_point, self._element("p", p)), (self.ambient_dim,))
        return evaluate(self, self.product_at, self._element("q", q), second)

    def inverse(self, q: ArrayLike) -> Array:
        """The entries of g^-1, (..., m^2).

        Parameters
        ----------
        q : (..., m^2) entries of g.

        Raises
        ------
        ShapeError, NonFiniteError; PointError for a matrix that is not in the group.
        """
        return evaluate(self, self.inverse_at, self._element("q", q))

    def exponential(self, xi: ArrayLike) -> Array:
        """The entries of exp(xi^i E_i), (..., m^2), for both sides: of matrices, not of a metric.

        A finite sum if all products of the algebra vanish, a closed form for matrices of two rows, otherwise
        Pade's approximation to round-off.

        Parameters
        ----------
        xi : (..., n) components in the basis.

        Raises
        ------
        ShapeError, NonFiniteError.
        """
        return evaluate(self, self.exponential_at, Argument("xi", xi, (self.dim,)), checked=False)

    def logarithm(self, q: ArrayLike) -> Array:
        """xi (..., n) with exp(xi^i E_i) = g, the one that turns by less than half a turn; in NumPy.

        Parameters
        ----------
        q : (..., m^2) entries of g.

        Raises
        ------
        ShapeError, NonFiniteError.
        PointError : the matrix is not in the group, or has no such logarithm: an eigenvalue is negative.
        TypeError : JAX traces q.
        """
        require_untraced(q=q)
        points = np.asarray(evaluate(self, projected_point, self._element("q", q)))
        rows = [self._logarithm_of(point) for point in points.reshape(-1, self.ambient_dim)]
        found = np.reshape(rows, (*points.shape[:-1], self.dim))
        return as_given(found, q)

    def adjoint(self, q: ArrayLike) -> Array:
        """Ad_g (..., n, n): column i holds the components of g E_i g^-1.

        Parameters
        ----------
        q : (..., m^2) entries of g.

        Raises
        ------
        ShapeError, NonFiniteError; PointError for a matrix that is not in the group.
        """
        return evaluate(self, self.adjoint_at, self._element("q", q))

    # --- private -------------------------------------------------------------------------------------------

    def _matrix(self, q: jax.Array) -> jax.Array:
        return q.reshape(self.basis.shape[1:])

    def _element(self, name: str, q: Any) -> Argument:
        return Argument(name, q, (self.ambient_dim,))

    def _logarithm_of(self, q: np.ndarray) -> np.ndarray:
        g = q.reshape(self.basis.shape[1:])
        A = principal_logarithm(g)
        if A is not None:
            xi: np.ndarray = np.einsum("iab,ab->i", self._dual, A)
            if np.abs(np.einsum("i,iab->ab", xi, self.basis) - A).max() <= 1e-8 * max(np.abs(A).max(), 1.0):
                return xi
        what = "q: the matrix has no logarithm of less than half a turn"
        negative = [x.real for x in np.linalg.eigvals(g) if x.real < 0.0 and abs(x.imag) <= 1e-7 * abs(x)]
        raise_at(PointError, what + (f" (eigenvalue {negative[0]:.3g})" if negative else "") + ",", q)


def _round_off(g: Any) -> Any:
    """Round-off of the determinant of g (m, m): m^2 units of Hadamard's bound, by rows or columns."""
    lengths = [jnp.prod(jnp.sqrt(jnp.sum(g * g, axis=axis))) for axis in (0, 1)]
    return g.shape[0] ** 2 * np.finfo(np.float64).eps * jnp.minimum(*lengths)


def _checked_basis(basis: Any) -> np.ndarray:
    """The basis (n, m, m), or the error that names what is wrong with it."""
    require_untraced(basis=basis)
    E = np.asarray(as_array("basis", basis, (None, None, None)))
    if E.ndim != 3 or E.shape[1] != E.shape[2] or not len(E):
        raise ShapeError("basis", ("n", "m", "m"), E.shape)
    require_finite("basis", E)
    for i, matrix in enumerate(E):
        if not matrix.any():
            raise FrameError(f"basis[{i}] is zero: give linearly independent matrices")
    rank = rank_of(E.reshape(len(E), -1).T)
    if rank < len(E):
        raise FrameError(f"basis: only {rank} of the {len(E)} matrices are linearly independent")
    return E


def _structure_constants(E: np.ndarray, dual: np.ndarray) -> np.ndarray:
    """c[k, i, j] of [E_i, E_j] = c^k_ij E_k; `FrameError` names two matrices whose commutator is another."""
    products = np.einsum("iab,jbc->ijac", E, E)
    commutators = products - np.swapaxes(products, 0, 1)
    c = np.einsum("kab,ijab->kij", dual, commutators)
    outside = commutators - np.einsum("kij,kab->ijab", c, E)
    sizes = np.einsum("iab,jbc->ijac", np.abs(E), np.abs(E))
    largest = np.max(sizes + np.swapaxes(sizes, 0, 1), axis=(2, 3), keepdims=True)
    leak = np.abs(outside) / np.where(largest > 0.0, largest, 1.0)
    worst = np.unravel_index(np.argmax(leak), leak.shape)
    if leak[worst] > _CLOSED:
        i, j = int(worst[0]), int(worst[1])
        raise FrameError(
            f"basis: the commutator of matrices {i} and {j} is not in the span of the {len(E)}, so this is "
            "no Lie algebra; add the commutator to the basis"
        )
    return cleaned(c, 4.0 * np.finfo(float).eps * np.abs(c).max())
