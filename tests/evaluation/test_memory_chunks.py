"""Batches cut in pieces: the same numbers, the same errors, and no more memory than stated."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import systems
from cases import always

import connections as cn
from connections.checks import NonFiniteError, ShapeError
from connections.evaluation import boundary, memory_chunks

NABLA, METRIC = systems.ADMISSIBLE, systems.METRIC
FUNCTIONS = {
    "coefficients": (lambda nabla, q: nabla.coefficients(q), 3),
    "curvature": (lambda nabla, q: nabla.curvature(q), 4),
    "ricci": (lambda nabla, q: nabla.ricci(q), 4),
    "scalar": (lambda nabla, q: nabla.scalar_curvature(q, METRIC), 4),
    "sectional": (lambda nabla, q: nabla.sectional(q, [1.0, 2.0, 0.0], [0.0, 1.0, 1.0], METRIC), 3),
    "apply_curvature": (lambda nabla, q: nabla.apply_curvature(q, q, [1.0, 0, 0], [0, 1.0, 0]), 3),
    "apply_ricci": (lambda nabla, q: nabla.apply_ricci(q, q, [1.0, 0, 0]), 3),
}


@pytest.fixture
def points_at_once(monkeypatch):
    """Sets how many points with tensors of so many indices, 3 in each, fit in the memory."""

    def fit(count, indices=4):
        monkeypatch.setattr(memory_chunks, "MEMORY", 8 * memory_chunks.TERMS * 3**indices * count)

    return fit


@pytest.mark.parametrize("name", always(FUNCTIONS, "sectional"))
def test_pieces_are_equal_to_one_by_one(name, points_at_once, rng, monkeypatch):
    function, indices = FUNCTIONS[name]
    q = systems.points(rng, 7)
    whole = function(NABLA, q)
    sizes = []
    over = boundary.over_pieces
    monkeypatch.setattr(boundary, "over_pieces", lambda *given: sizes.append(given[4]) or over(*given))
    points_at_once(3, indices)
    cut = function(NABLA, q)
    assert sizes == [3]  # 3 + 3 + 1
    assert type(cut) is np.ndarray and cut.shape == whole.shape and cut.flags.writeable
    np.testing.assert_allclose(cut, [function(NABLA, p) for p in q], rtol=0, atol=1e-12)
    np.testing.assert_allclose(cut, whole, rtol=0, atol=1e-12)


@pytest.mark.further
def test_batch_axes_broadcast(points_at_once, rng):
    q, u, w = systems.points(rng, 2, 1), *rng.standard_normal((2, 3, 3))
    whole = NABLA.apply_curvature(q, u, w, w[0])
    points_at_once(4, 3)
    cut = NABLA.apply_curvature(q, u, w, w[0])
    assert cut.shape == (2, 3, 3)
    np.testing.assert_allclose(cut, whole, rtol=0, atol=1e-12)
    with pytest.raises(ShapeError, match="batch axes"):
        NABLA.apply_curvature(np.ones((4, 3)), u, w, w)


@pytest.mark.further
def test_kinds_of_arrays(points_at_once, rng):
    points_at_once(2)
    q = systems.points(rng, 5)
    assert isinstance(NABLA.curvature(jnp.asarray(q)), jax.Array)
    traced = jax.jit(NABLA.curvature)(q)  # whole: the caller decides
    np.testing.assert_allclose(traced, NABLA.curvature(q), rtol=0, atol=1e-12)
    assert NABLA.curvature(q[:0]).shape == (0, 3, 3, 3, 3)


def test_the_error_of_a_point_in_a_later_piece(points_at_once, rng):
    points_at_once(2)
    q = systems.points(rng, 5)
    q[4, 1] = np.nan
    with pytest.raises(NonFiniteError, match="q"):
        NABLA.curvature(q)


def test_piece_sizes(monkeypatch):
    monkeypatch.setattr(memory_chunks, "MEMORY", 8 * memory_chunks.TERMS * 100)
    assert memory_chunks.piece_size(10**6, 0) == 0  # small at every point
    assert memory_chunks.piece_size(10, 10) == 0  # all fit
    assert memory_chunks.piece_size(11, 10) == 6  # two of six, not ten and one
    assert memory_chunks.piece_size(3, 1000) == 1  # not even one fits: one at a time


def test_what_does_not_fit_in_the_machine(monkeypatch, rng):
    q = systems.points(rng, 5)
    monkeypatch.setattr(memory_chunks.os, "sysconf", lambda name: 50)  # 2500 bytes
    with pytest.raises(MemoryError, match="curvature of ContorsionConnection at one point"):
        NABLA.curvature(q)
    monkeypatch.setattr(memory_chunks, "MEMORY", 1)
    with pytest.raises(MemoryError, match="curvature"):
        NABLA.curvature(q[0])
    monkeypatch.setattr(memory_chunks.os, "sysconf", lambda name: 75)  # 5625: one point, not the result
    monkeypatch.setattr(memory_chunks, "TERMS", 1)
    with pytest.raises(MemoryError, match="curvature of ContorsionConnection: "):
        NABLA.curvature(np.broadcast_to(q[0], (20, 3)))


def test_an_error_of_the_compiled_function_names_what_was_computed(monkeypatch, rng):
    def fail(*arrays):
        raise jax.errors.JaxRuntimeError(message)

    monkeypatch.setattr(boundary, "_pair_of", lambda *given: (fail, fail))
    message = "RESOURCE_EXHAUSTED: Out of memory allocating 74000000000 bytes."
    with pytest.raises(MemoryError, match="torsion of ContorsionConnection"):
        NABLA.torsion(systems.points(rng, 5))
    message = "INTERNAL: something else"
    with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
        NABLA.torsion(systems.points(rng, 5))


@pytest.mark.further
def test_the_stated_size_bounds_what_the_compiler_asks_for():
    """A chart of 16 coordinates; for robots the numbers are in the comment at `TERMS`."""
    n = 16
    A = np.random.default_rng(3).standard_normal((n, n))
    metric = cn.MatrixMetric(cn.CoordinateFrame(n), lambda q: jnp.eye(n) + jnp.outer(*2 * [jnp.sin(A @ q)]))
    nabla, q = cn.LeviCivita(metric), jnp.zeros((3, n))
    for at, indices in ((nabla.coefficients_at, 3), (nabla.curvature_at, 4)):
        needed = jax.jit(jax.vmap(at)).lower(q).compile().memory_analysis().temp_size_in_bytes
        stated = 3 * 8 * memory_chunks.TERMS * nabla._numbers(indices)
        assert stated / 20 < needed < stated
