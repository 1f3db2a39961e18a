"""What the tests evaluate by NumPy is what JAX compiles."""

import interpreted as module
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interpreted import OPERATIONS, interpreted, operations_by_numpy
from jax import lax
from jax._src import pjit
from jax.extend import core

A = np.array([[4.0, 1.0, -0.5], [1.0, 3.0, 0.2], [-0.5, 0.2, 2.0]])
X = np.array([0.3, -0.7, 0.9])
INTEGERS = np.array([7, -7, 2])
BATCH = np.stack([A, 2.0 * A + np.eye(3)])

FUNCTIONS = {
    "arithmetic": lambda A, X, BATCH, INTEGERS: (X * 2.0 - 1.0) / (X + 3.0) - X,
    "integers": lambda A, X, BATCH, INTEGERS: (
        jnp.asarray(INTEGERS) // 2,
        lax.div(jnp.asarray(INTEGERS), 2),
        -jnp.asarray(INTEGERS),
    ),
    "powers": lambda A, X, BATCH, INTEGERS: (
        X**2,
        X**3,
        X**-2,
        jnp.abs(X) ** 1.7,
        jnp.sqrt(X + 1.0),
        lax.rsqrt(X + 1.0),
        jnp.square(X),
    ),
    "trigonometry": lambda A, X, BATCH, INTEGERS: (
        jnp.sin(X),
        jnp.cos(X),
        jnp.tan(X),
        jnp.arctan2(X, A[0]),
        jnp.arcsin(X),
    ),
    "inverses": lambda A, X, BATCH, INTEGERS: (
        jnp.arccos(X),
        jnp.arctan(X),
        jnp.sinh(X),
        jnp.cosh(X),
        jnp.tanh(X),
    ),
    "exponentials": lambda A, X, BATCH, INTEGERS: (
        jnp.exp(X),
        jnp.exp2(X),
        jnp.log(X + 1.0),
        jnp.log1p(X),
        jnp.expm1(X),
    ),
    "rounding": lambda A, X, BATCH, INTEGERS: (
        jnp.floor(X),
        jnp.ceil(X),
        jnp.sign(X),
        jnp.isfinite(X / 0.0),
        jnp.clip(X, -0.5, 0.5),
    ),
    "comparisons": lambda A, X, BATCH, INTEGERS: (
        X < 0.0,
        X <= 0.3,
        X > 0.0,
        X >= 0.9,
        X == 0.3,
        X != 0.3,
        ~(X < 0.0),
    ),
    "logic": lambda A, X, BATCH, INTEGERS: (
        (X > 0.0) & (X < 0.5),
        (X > 0.0) | (X < -0.5),
        (X > 0.0) ^ (X < 0.5),
    ),
    "choices": lambda A, X, BATCH, INTEGERS: (
        jnp.where(X > 0.0, X, -X),
        jnp.maximum(X, 0.1),
        jnp.minimum(X, 0.1),
    ),
    "shapes": lambda A, X, BATCH, INTEGERS: (
        A.T.reshape(9),
        jnp.concatenate([X, A[0]]),
        jnp.stack([X, A[1]], 1),
        jnp.flip(A, 1),
    ),
    "parts": lambda A, X, BATCH, INTEGERS: (
        jnp.asarray(A)[1:, ::2],
        jnp.split(jnp.asarray(BATCH), 2),
        jnp.pad(X, (1, 2)),
    ),
    "sums": lambda A, X, BATCH, INTEGERS: (
        A.sum(),
        jnp.sum(A, 0),
        jnp.max(A, 1),
        jnp.min(A),
        jnp.prod(X),
        jnp.any(X > 0),
        jnp.all(X > 0),
    ),
    "along": lambda A, X, BATCH, INTEGERS: (
        jnp.cumsum(A, 1),
        jnp.cumprod(X),
        jnp.argmax(X),
        jnp.argmin(A, 0),
        lax.cumsum(X, reverse=True),
    ),
    "none": lambda A, X, BATCH, INTEGERS: (jnp.sum(jnp.zeros((0, 3)), 0), jnp.prod(jnp.zeros((0, 3)), 0)),
    "products": lambda A, X, BATCH, INTEGERS: (
        A @ X,
        jnp.einsum("bij,bkj->bki", BATCH, BATCH),
        jnp.tensordot(BATCH, A, ([1], [0])),
        X @ X,
    ),
    "gathered": lambda A, X, BATCH, INTEGERS: (
        jnp.asarray(A)[jnp.array([2, 0])],
        jnp.asarray(A)[:, jnp.array([1, 5])],
        jnp.asarray(BATCH)[0, :, 1],
    ),
    "filled": lambda A, X, BATCH, INTEGERS: (
        jnp.asarray(A).at[jnp.array([0, 9])].get(mode="fill", fill_value=np.nan)
    ),
    "taken": lambda A, X, BATCH, INTEGERS: jnp.take_along_axis(
        jnp.asarray(A), jnp.array([[0, 2], [1, 1], [2, 0]]), axis=1
    ),
    "scattered": lambda A, X, BATCH, INTEGERS: (
        jnp.asarray(A).at[1, jnp.array([0, 2])].set(X[:2]),
        jnp.asarray(A).at[:, jnp.array([0, 0, 9])].add(A),
    ),
    "slices": lambda A, X, BATCH, INTEGERS: (
        lax.dynamic_slice(A, (1, 5), (2, 2)),
        lax.dynamic_update_slice(jnp.asarray(A), A[:1], (5, 0)),
    ),
    "solved": lambda A, X, BATCH, INTEGERS: (
        jnp.linalg.solve(A, X),
        jnp.linalg.solve(BATCH, BATCH),
        jnp.linalg.inv(A),
        jnp.linalg.det(A),
    ),
    "factors": lambda A, X, BATCH, INTEGERS: (
        jnp.linalg.cholesky(A),
        jnp.linalg.cholesky(-A),
        jnp.linalg.cholesky(BATCH),
    ),
    "triangular": lambda A, X, BATCH, INTEGERS: tuple(
        lax.linalg.triangular_solve(
            A, A, left_side=left, lower=lower, transpose_a=transposed, unit_diagonal=unit
        )
        for left in (True, False)
        for lower in (True, False)
        for transposed in (True, False)
        for unit in (True, False)
    ),
    "foreign": lambda A, X, BATCH, INTEGERS: (jnp.linalg.eigh(A)[0], jnp.sort(X), jnp.linalg.svd(A)[1]),
    "kinds": lambda A, X, BATCH, INTEGERS: (
        jnp.arange(4),
        jnp.eye(3),
        jnp.asarray(X, jnp.float32),
        jnp.ones(3, bool),
        X.astype(int),
    ),
    "branches": lambda A, X, BATCH, INTEGERS: (
        lax.cond(X[0] > 0.0, jnp.sin, jnp.cos, X),
        lax.switch(jnp.int32(7), [jnp.sin, jnp.cos], X),
    ),
    "loops": lambda A, X, BATCH, INTEGERS: (
        lax.while_loop(lambda x: jnp.sum(x) < 20.0, lambda x: 1.5 * x + 1.0, X),
        lax.fori_loop(0, 4, lambda i, x: x * i + 1.0, X),
        lax.scan(lambda carry, row: (carry + row, carry @ row), X, A, reverse=True),
    ),
    "derivatives": lambda A, X, BATCH, INTEGERS: (
        jax.jacfwd(lambda x: jnp.linalg.solve(A + jnp.outer(x, x), x))(X),
        jax.hessian(lambda x: jnp.linalg.norm(x) * x[1] ** 3)(X),
        jax.grad(lambda x: jnp.sum(jax.nn.relu(A @ x)))(X),
    ),
    "loops of a batch": lambda A, X, BATCH, INTEGERS: jax.vmap(
        lambda x, a: lax.while_loop(lambda y: y[0] < 20.0, lambda y: (1.5 * y[0] + 1.0, y[1] @ a), (x, a))
    )(X[:2], BATCH),
    "batches": lambda A, X, BATCH, INTEGERS: jax.vmap(lambda a: jnp.linalg.solve(a, X)[jnp.array([2, 1])])(
        BATCH
    ),
}


ARGUMENTS = A, X, BATCH, INTEGERS


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_compiled(name):
    expected = jax.jit(FUNCTIONS[name])(*ARGUMENTS)
    result = interpreted(FUNCTIONS[name], lambda *_: pytest.fail("compiled"))(*ARGUMENTS)
    for value, right in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
        assert value.dtype == right.dtype
        assert value.shape == right.shape
        np.testing.assert_allclose(value, right, rtol=1e-13, atol=1e-13)
    assert jax.tree.structure(result) == jax.tree.structure(expected)


def test_every_operation_of_the_table_is_tested():
    found = set()

    def look(jaxpr):
        for equation in jaxpr.eqns:
            found.add(equation.primitive.name)
            for inner in core.jaxprs_in_params(equation.params):
                look(inner)

    for function in FUNCTIONS.values():
        look(jax.make_jaxpr(function)(*ARGUMENTS).jaxpr)
    unused = set(OPERATIONS) - found
    assert len(unused) <= 12, unused


def test_what_takes_long_is_compiled(monkeypatch):
    calls = []

    def compiled(x):
        calls.append(x)
        return jnp.sin(x)

    function = interpreted(jnp.sin, compiled)
    for _ in range(module.WORTH + 5):
        np.testing.assert_allclose(function(X), np.sin(X), rtol=1e-15)
    assert 4 <= len(calls) <= 6
    endless = interpreted(
        lambda x: lax.while_loop(lambda y: y > -1.0, lambda y: y + 1.0, x), lambda _: "compiled"
    )
    assert endless(1.0) == "compiled"


def test_transformations_see_the_function_itself():
    function = interpreted(lambda x: x**3, jax.jit(lambda x: x**3))
    np.testing.assert_allclose(jax.grad(function)(2.0), 12.0)
    np.testing.assert_allclose(jax.jit(jax.vmap(function))(X), X**3, rtol=1e-14)


def test_operations_outside_of_jit_are_numpys(monkeypatch):
    """In value, dtype and weak type what JAX computes; after some calls they are compiled."""
    compiled = []
    monkeypatch.setattr(pjit, "_pjit_call_impl_python", original(compiled))
    operations_by_numpy()

    def operations(x):
        one = jnp.asarray(2, dtype=jnp.int32) * 1  # of weak type with x's
        return (
            jnp.sin(x),
            x @ A,
            jnp.einsum("i,ij->j", x, A),
            one,
            one + 0.5,
            jnp.linalg.norm(x),
            x > 0.0,
            x[0],
        )

    jax.clear_caches()
    by_numpy, first = operations(jnp.asarray(X)), len(compiled)
    monkeypatch.undo()
    jax.clear_caches()
    for found, expected in zip(by_numpy, operations(jnp.asarray(X)), strict=True):
        assert (found.dtype, found.weak_type) == (expected.dtype, expected.weak_type)
        np.testing.assert_allclose(found, expected, rtol=1e-15)
    assert first == 0
    monkeypatch.setattr(pjit, "_pjit_call_impl_python", original(compiled))
    operations_by_numpy()
    jax.clear_caches()
    for _ in range(module.WORTH + 1):
        assert jnp.tan(jnp.asarray(X)).shape == (3,)
    assert len(compiled) == 1
    monkeypatch.undo()
    jax.clear_caches()


def original(calls):
    """JAX's own way, which notes that it was taken."""

    def call(*arguments, **how):
        calls.append(how["name"])
        return module.COMPILED_CALL(*arguments, **how)

    return call
