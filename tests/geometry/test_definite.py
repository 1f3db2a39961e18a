"""Equations with positive definite matrices: LAPACK, exact fractions, all units, derivatives."""

import subprocess
import sys
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always, further

from connections.geometry.numerics.definite import (
    LARGEST,
    inverse_factor,
    inverse_of_definite,
    is_definite,
    lower_factor,
    orthonormal_basis,
    solve_definite,
)

SIZES = [*range(1, LARGEST + 3)]  # written out, and by LAPACK
PROGRAM = """
import sys
import jax.numpy as jnp, numpy as np
import connections as cn
mass = cn.MatrixMetric(cn.CoordinateFrame({n}), lambda q: jnp.diag(2.0 + jnp.sin(q)) + 0.1)
nabla, q = cn.LeviCivita(mass), np.linspace(0.1, 0.5, {n})
nabla.coefficients(q), nabla.torsion(q), nabla.curvature(q), cn.exponential(nabla, q, q)
cn.parallel_transport(nabla, lambda t: t + q, np.eye({n}), np.linspace(0.0, 1.0, 4))
print("scipy" in sys.modules)
"""


def definite(rng, n):
    root = rng.standard_normal((n, n))
    return root @ root.T + 0.1 * np.eye(n)


def of_condition(rng, n, condition):
    """Symmetric, with eigenvalues from 1 down to 1 / condition."""
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    H = Q @ np.diag(np.geomspace(1.0, 1.0 / condition, n)) @ Q.T
    return (H + H.T) / 2.0


def exact(H, b):
    """H^-1 b by Gauss's elimination in fractions."""
    rows = [[*map(Fraction, row), Fraction(x)] for row, x in zip(H.tolist(), b.tolist(), strict=True)]
    for k, pivot in enumerate(rows):
        rows[k] = [x / pivot[k] for x in pivot]
        for i in range(len(rows)):
            if i != k:
                rows[i] = [x - rows[i][k] * y for x, y in zip(rows[i], rows[k], strict=True)]
    return np.array([float(row[-1]) for row in rows])


@pytest.mark.parametrize("n", always(SIZES, 1, 3, LARGEST + 1))
def test_the_solution_is_that_of_lapack(rng, n):
    H = definite(rng, n)
    for shape in ((n,), (n, 1), (n, 2, 3)):
        b = rng.standard_normal(shape)
        expected = np.linalg.solve(H, b.reshape(n, -1)).reshape(shape)
        np.testing.assert_allclose(jax.jit(solve_definite)(H, b), expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(inverse_of_definite(H), np.linalg.inv(H), rtol=1e-11, atol=1e-12)
    many, right = np.stack([H, 2.0 * H]), rng.standard_normal((2, n))
    found = jax.vmap(solve_definite)(many, right)
    np.testing.assert_allclose(found, np.linalg.solve(many, right[..., None])[..., 0], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("n", SIZES)
def test_an_orthonormal_basis_is_one(rng, n):
    H = definite(rng, n)
    root, basis = orthonormal_basis(H)
    np.testing.assert_allclose(root, np.linalg.cholesky(H).T, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(basis.T @ H @ basis, np.eye(n), atol=1e-12)
    np.testing.assert_array_equal(np.tril(basis, -1), 0.0)


@pytest.mark.parametrize("n", always(SIZES, 1, LARGEST, LARGEST + 1))
def test_factors_and_their_inverses(rng, n):
    H = definite(rng, n)
    L, W = jax.jit(lambda H: (lower_factor(H), inverse_factor(H)))(H)
    np.testing.assert_allclose(L, np.linalg.cholesky(H), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(W @ H @ W.T, np.eye(n), atol=1e-12)
    np.testing.assert_array_equal(np.triu(W, 1), 0.0)
    assert np.isnan(inverse_factor(-H)).any() and np.isnan(lower_factor(-H)).any()


@pytest.mark.parametrize("n", always(SIZES, 3, LARGEST + 1))
def test_derivatives_are_those_of_a_general_solver(rng, n):
    """Forward, backward, and of second order, with respect to the matrix and to the right-hand side."""
    H, b, w = definite(rng, n), rng.standard_normal((n, 2)), rng.standard_normal((n, 2))
    D = rng.standard_normal((2, n, n))
    D = D + np.swapaxes(D, 1, 2)

    def value(solve, x):
        return jnp.sum(w * solve(H + x[0] * D[0] + x[1] * x[0] * D[1], b * (1.0 + x[1])))

    x = jnp.array([0.003, -0.004])
    for derivative in (jax.jacfwd, jax.grad, jax.hessian):
        found, expected = (
            jax.jit(derivative(lambda x, s=s: value(s, x)))(x) for s in (solve_definite, jnp.linalg.solve)
        )
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert not np.allclose(found, 0.0, atol=1e-3)  # there is something to compare


@pytest.mark.parametrize("n", SIZES)
def test_units_do_not_matter(rng, n):
    """Powers of two from 1e-72 to 1e72: the same digits; other units: the same up to round-off."""
    H, b = definite(rng, n), rng.standard_normal(n)
    here = np.asarray(solve_definite(H, b))
    two = 2.0 ** rng.integers(-240, 241, n)
    ten = 10.0 ** rng.integers(-72, 73, n)
    there = np.asarray(solve_definite(H * np.outer(two, two), b * two)) * two
    np.testing.assert_array_equal(there, here)
    there = np.asarray(solve_definite(H * np.outer(ten, ten), b * ten)) * ten
    np.testing.assert_allclose(there, here, rtol=1e-11)
    assert is_definite(H * np.outer(ten, ten))


@pytest.mark.parametrize("n", SIZES)
def test_what_is_not_positive_definite_is_not_solved(rng, n):
    H, b = definite(rng, n), rng.standard_normal(n)
    assert is_definite(H)
    shifted = H - 1.01 * np.linalg.eigvalsh(H)[0] * np.eye(n)
    nothing, infinite, unknown = np.zeros((n, n)), H.copy(), H.copy()
    infinite[0, 0], unknown[-1, 0] = np.inf, np.nan
    for bad in (shifted, -H, nothing, infinite, unknown):
        assert not is_definite(bad)
    for bad in (shifted, -H, nothing, unknown):
        assert np.isnan(solve_definite(bad, b)).all()
        assert np.isnan(orthonormal_basis(bad)[1]).any()
    units = 10.0 ** rng.integers(-72, 73, n)
    assert not is_definite(shifted * np.outer(units, units))


@pytest.mark.parametrize("condition", [1e4, 1e8, 1e12])
@pytest.mark.parametrize("n", range(2, LARGEST + 1))
def test_errors_are_not_larger_than_those_of_lapack(rng, n, condition):
    """Medians of 40 against exact fractions; LAPACK's are 3e-13, 2.5e-9 and 2e-5 for n = 5."""
    ours, lapack = [], []
    for _ in range(40):
        H, b = of_condition(rng, n, condition), rng.standard_normal(n)
        expected = exact(H, b)
        size = np.linalg.norm(expected)
        ours.append(np.linalg.norm(np.asarray(solve_definite(H, b)) - expected) / size)
        lapack.append(np.linalg.norm(np.linalg.solve(H, b) - expected) / size)
    assert np.median(ours) <= 3.0 * np.median(lapack)
    assert np.max(ours) <= 1e-15 * condition


def test_a_matrix_that_is_not_symmetric_is_not_for_this_solver(rng):
    """Why a change of frame goes through a general solver."""
    A, b = definite(rng, 3), rng.standard_normal(3)
    A[0, 1] += 0.5
    assert np.max(np.abs(np.asarray(solve_definite(A, b)) - np.linalg.solve(A, b))) > 1e-2


def test_integers_are_numbers():
    H, b = jnp.array([[2, 1], [1, 2]]), jnp.array([3, 3])
    np.testing.assert_allclose(solve_definite(H, b), [1.0, 1.0], rtol=1e-15)
    assert is_definite(H)


@pytest.mark.further
@pytest.mark.parametrize("n, imported", [further(2, False), (LARGEST, False), (LARGEST + 1, True)])
def test_a_chart_does_without_scipy(n, imported):
    """Half of the time of a first number was the import of SciPy, for LAPACK."""
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(n=n)], capture_output=True, text=True)
    assert done.stdout.strip() == str(imported), done.stderr
