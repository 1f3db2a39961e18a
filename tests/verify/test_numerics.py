"""The second route: differences of eighth order, padded batches, transports, prescribed tensors."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from systems import FRAME, LEVI_CIVITA, METRIC, TOP, points

import connections as cn
from connections.verify import numerics
from connections.verify.numerics import (
    Batch,
    Numerics,
    constrained_tensor,
    differences,
    koszul_by_differences,
    largest,
    random_contorsion,
    stencil,
)


def test_differences_are_exact_for_polynomials_of_degree_eight():
    shifts = stencil(2)
    for degree in range(9):
        values = (2.0 + shifts[:, 0]) ** degree + shifts[:, 1] ** degree
        exact = [degree * 2.0 ** (degree - 1) if degree else 0.0, 1.0 if degree == 1 else 0.0]
        np.testing.assert_allclose(differences(values, 2), exact, rtol=1e-10, atol=1e-11)


def test_weights_fail_at_degree_nine_only():
    """Moments sum w_k k^p: one for p = 1, zero for the other p <= 8, and not zero for p = 9."""
    moments = [numerics._WEIGHTS @ numerics._OFFSETS**p for p in range(10)]
    np.testing.assert_allclose(moments[:9], np.eye(10)[1][:9], rtol=0, atol=1e-10)
    assert abs(moments[9]) > 1.0


def test_observed_order_is_eight(monkeypatch):
    """Halving the step divides the error by 2^8."""
    errors = []
    for step in (0.4, 0.2):
        monkeypatch.setattr(numerics, "STEP", step)
        errors.append(abs(differences(np.exp(2.0 * stencil(1)[:, 0]), 1)[0] - 2.0))
    assert 7.7 < math.log2(errors[0] / errors[1]) < 8.3


def test_differences_keep_the_shape_of_the_values(rng):
    linear = rng.standard_normal((3, 2, 4))
    values = np.einsum("sa,abc->sbc", stencil(3), linear)
    np.testing.assert_allclose(differences(values, 3), linear, rtol=0, atol=1e-11)


@pytest.mark.parametrize("count", [1, 2, 5, 6, 7, 11])
def test_batch_pads_and_cuts(count, rng):
    x = rng.standard_normal((count, 3))
    batch = Batch(lambda p: jnp.outer(p, p), 5)
    assert batch(x).shape == (count, 3, 3)
    np.testing.assert_allclose(batch(x), np.einsum("ki,kj->kij", x, x), rtol=0, atol=1e-15)


def test_derivatives_on_the_manifold(rng):
    """On the sphere of quaternions the derivative of the rotation's trace is tr(R (e_i x))."""
    q = rng.standard_normal(4)
    q /= np.linalg.norm(q)
    seen = []

    def norm_and_w(batch):
        seen.append(batch)
        return batch[:, 3]

    numerics_ = Numerics(TOP.frame)
    dw = numerics_.derivative(norm_and_w, q)
    np.testing.assert_allclose(dw, -0.5 * q[:3], rtol=0, atol=1e-11)  # wdot = -(x . omega) / 2
    np.testing.assert_allclose(np.linalg.norm(np.concatenate(seen), axis=1), 1.0, rtol=0, atol=1e-14)
    v = rng.standard_normal(3)
    np.testing.assert_allclose(numerics_.derivative_along(norm_and_w, q, v), dw @ v, rtol=0, atol=1e-11)


def test_structure_functions_and_koszul(rng):
    q, numerics_ = points(rng), Numerics(FRAME)
    s = numerics_.structure_functions(q)
    np.testing.assert_allclose(s, FRAME.structure_functions(q), rtol=0, atol=1e-10)
    dH = numerics_.derivative(lambda p: np.asarray(METRIC.matrix(p)), q)
    s_low = np.tensordot(np.asarray(METRIC.matrix(q)), s, axes=1)
    low = koszul_by_differences(dH, s_low)
    np.testing.assert_allclose(low, LEVI_CIVITA.first_kind(q, METRIC), rtol=0, atol=1e-9)


def test_transport_of_a_flat_connection_is_the_identity(rng):
    """Gamma = 0: vectors keep their components along the flow of any field."""
    frame = cn.CoordinateFrame(2)
    flat = Numerics(frame)
    q, xi, Z = rng.standard_normal(2), rng.standard_normal(2), rng.standard_normal((2, 3))
    end, carried = flat.flow(lambda p: np.zeros((2, 2, 2)), q, xi, Z, 0.7)
    np.testing.assert_allclose(end, q + 0.7 * xi, rtol=0, atol=1e-12)
    np.testing.assert_allclose(carried, Z, rtol=0, atol=1e-14)
    end, v = flat.geodesic(lambda p, w: -p, q, xi, 0.7)  # qddot = q
    np.testing.assert_allclose(end, q * np.cosh(0.7) + xi * np.sinh(0.7), rtol=0, atol=1e-11)
    np.testing.assert_allclose(v, q * np.sinh(0.7) + xi * np.cosh(0.7), rtol=0, atol=1e-11)


def test_the_largest_value_is_nan_where_one_is():
    """max(1.0, nan) is 1.0 in Python: what is not a number would have counted as small."""
    assert largest(np.array([1.0, -3.0]), 2.0, np.zeros((0, 2))) == 3.0
    for parts in ((1.0, np.array([0.0, np.nan])), (np.array([np.nan, 2.0]), 1.0)):
        assert np.isnan(largest(*parts))


@pytest.mark.parametrize(
    ("symmetry", "axes"), [("metric_compatible", (2, 1, 0)), ("same_geodesics", (0, 2, 1))]
)
def test_random_contorsions_have_their_symmetry_and_no_other(symmetry, axes, rng):
    D = random_contorsion(rng, 4, 2.0, symmetry)
    np.testing.assert_array_equal(D, -np.transpose(D, axes))
    for other in {(2, 1, 0), (0, 2, 1), (1, 0, 2)} - {axes}:
        assert np.max(np.abs(D + np.transpose(D, other))) > 0.1


# --- tensors with prescribed symmetries --------------------------------------------------------------------


def parts(Gamma):
    """The three families of right-hand sides of a known Gamma."""
    metric = np.transpose(Gamma, (1, 2, 0)) + np.transpose(Gamma, (1, 0, 2))
    return metric, Gamma - np.swapaxes(Gamma, 1, 2), 0.5 * (Gamma + np.swapaxes(Gamma, 1, 2))


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("free", [0, 1, 2], ids=["no metric part", "no torsion part", "no geodesic part"])
def test_a_known_tensor_is_found_up_to_the_null_space(n, free, rng):
    Gamma = rng.standard_normal((n, n, n))
    given = [None if index == free else part for index, part in enumerate(parts(Gamma))]
    solved, rank, null = constrained_tensor(n, *given)
    dimension = math.comb(n, 3) if free == 1 else 0
    assert (rank, len(null)) == (n**3 - dimension, dimension)
    gap, basis = (Gamma - solved).ravel(), null.reshape(len(null), n**3)
    np.testing.assert_allclose(gap - basis.T @ (basis @ gap), 0.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(basis @ basis.T, np.eye(dimension), rtol=0, atol=1e-12)
    for tensor in null:
        for axes in ((1, 0, 2), (2, 1, 0), (0, 2, 1)):
            np.testing.assert_allclose(tensor, -np.transpose(tensor, axes), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_freedom_of_one_condition_alone(n):
    """Metric compatibility: n C(n, 2) free functions; torsion or geodesics alone by symmetry in (2, 3)."""
    zero = np.zeros((n, n, n))
    half, more = n * math.comb(n, 2), n * math.comb(n + 1, 2)
    assert constrained_tensor(n, zero, None, None)[1] == n**3 - half
    assert constrained_tensor(n, None, zero, None)[1] == n**3 - more
    assert constrained_tensor(n, None, None, zero)[1] == n**3 - half
