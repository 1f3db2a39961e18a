"""Torsion and non-metricity in parts: they add up, are orthogonal, and are the same in every frame."""

import numpy as np
import pytest
import systems

import connections as cn
from connections.checks import FrameError, ShapeError

TORSION = ("torsion_trace", "torsion_axial", "torsion_tensor")
NONMETRICITY = ("nonmetricity_weyl", "nonmetricity_trace", "nonmetricity_symmetric", "nonmetricity_tensor")


def lowered(H, name, part):
    """All indices low."""
    return np.einsum("il,ljk->ijk", H, part) if name in TORSION else part


def product(H, a, b):
    """The inner product of tensors with all indices low."""
    K = np.linalg.inv(H)
    return np.einsum("ijk,lmn,il,jm,kn->", a, b, K, K, K, optimize=True)


def permuted(tensor):
    return (np.transpose(tensor, axes) for axes in ((1, 2, 0), (2, 0, 1)))


@pytest.fixture(scope="module")
def parts():
    """Of a connection without any symmetry, in a frame with qdot != v and brackets that do not vanish."""
    q = np.array([0.2, -0.3, 0.4])
    return q, cn.decompose(systems.GENERAL, systems.METRIC, q)


def test_parts_are_what_they_are_called_and_add_up_to_the_tensors(parts):
    q, found = parts
    H, T = np.asarray(systems.METRIC.matrix(q)), np.asarray(systems.GENERAL.torsion(q))
    Q = np.asarray(systems.GENERAL.nonmetricity(q, systems.METRIC))
    low = {name: lowered(H, name, np.asarray(getattr(found, name))) for name in TORSION + NONMETRICITY}
    K = np.linalg.inv(H)
    np.testing.assert_allclose(sum(getattr(found, name) for name in TORSION), T, atol=1e-12)
    np.testing.assert_allclose(sum(low[name] for name in NONMETRICITY), Q, atol=1e-12)
    for name, part in low.items():
        assert np.abs(part).max() > 0.01, name
        assert found.squared_norms[name] == pytest.approx(product(H, part, part))
        for other in TORSION if name in TORSION else NONMETRICITY:
            if other != name:  # orthogonal
                assert abs(product(H, part, low[other])) < 1e-12
        sign = -1.0 if name in TORSION else 1.0
        np.testing.assert_allclose(part, sign * np.swapaxes(part, 1, 2), atol=1e-12)
    t, w = np.einsum("iik->k", T), np.einsum("ijk,jk->i", Q, K) / 3.0
    np.testing.assert_allclose(found.torsion_covector, t, atol=1e-12)
    np.testing.assert_allclose(found.weyl_covector, w, atol=1e-12)
    spread = np.einsum("ij,k->ijk", np.eye(3), t) / 2.0
    np.testing.assert_allclose(found.torsion_trace, spread - np.swapaxes(spread, 1, 2), atol=1e-12)
    np.testing.assert_allclose(low["nonmetricity_weyl"], np.einsum("i,jk->ijk", w, H), atol=1e-12)
    for name in ("torsion_axial", "nonmetricity_symmetric"):  # the same for every even permutation
        for other in permuted(low[name]):
            np.testing.assert_allclose(low[name], other, atol=1e-12)
    for name in ("torsion_tensor", "nonmetricity_tensor"):
        np.testing.assert_allclose(low[name] + sum(permuted(low[name])), 0.0, atol=1e-12)
    for name in ("torsion_axial", "torsion_tensor", "nonmetricity_symmetric", "nonmetricity_tensor"):
        for indices in ("ij", "jk"):  # without traces
            np.testing.assert_allclose(np.einsum(f"ijk,{indices}", low[name], K), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.einsum("ijk,jk", low["nonmetricity_trace"], K), 0.0, atol=1e-12)


def test_squared_norms_are_the_same_in_every_frame(parts):
    q, found = parts
    nabla = systems.GENERAL.change(systems.change_of_frame)
    metric = systems.METRIC.change(systems.change_of_frame)
    other = cn.decompose(nabla, metric, q)
    A = np.asarray(systems.change_of_frame(q))
    for name, size in found.squared_norms.items():
        assert other.squared_norms[name] == pytest.approx(size, rel=1e-10), name
    np.testing.assert_allclose(other.weyl_covector, found.weyl_covector @ A, atol=1e-11)
    np.testing.assert_allclose(other.torsion_covector, found.torsion_covector @ A, atol=1e-11)
    double = cn.decompose(systems.GENERAL, systems.SCALED, q)  # control: another metric of the same frame
    assert double.squared_norms["torsion_axial"] != pytest.approx(found.squared_norms["torsion_axial"])


#: Connection -> the parts that it has; those that its definition excludes vanish.
KNOWN = {
    "levi_civita": (systems.LEVI_CIVITA, set()),
    "admissible": (systems.ADMISSIBLE, {"torsion_axial"}),
    "metric_only": (systems.METRIC_ONLY, set(TORSION)),
    "weyl": (systems.WEYL, {"nonmetricity_weyl"}),
    "statistical": (systems.STATISTICAL, set(NONMETRICITY) - {"nonmetricity_tensor"}),
    "general": (systems.GENERAL, {*TORSION, *NONMETRICITY}),
}


@pytest.mark.parametrize("name", [name for name in KNOWN if name != "levi_civita"])
def test_known_connections_have_the_parts_that_they_should(name, rng):
    nabla, expected = KNOWN[name]
    found = cn.decompose(nabla, systems.METRIC, systems.points(rng))
    assert {part for part, size in found.squared_norms.items() if size > 1e-4} == expected
    assert all(size < 1e-20 for part, size in found.squared_norms.items() if part not in expected)


@pytest.mark.further
def test_levi_civita_has_none_and_batches_are_rows(rng):
    q = systems.points(rng, 2, 3)
    none = cn.decompose(systems.LEVI_CIVITA, None, q)
    assert all(np.all(size < 1e-20) and size.shape == (2, 3) for size in none.squared_norms.values())
    found = cn.decompose(systems.GENERAL, systems.METRIC, q)
    assert found.torsion_axial.shape == (2, 3, 3, 3, 3)
    one = cn.decompose(systems.GENERAL, systems.METRIC, q[1, 2])
    np.testing.assert_allclose(found.torsion_tensor[1, 2], one.torsion_tensor, atol=1e-13)


@pytest.mark.further
@pytest.mark.parametrize("n", [1, 2])
def test_small_dimensions_have_fewer_parts(n):
    """For n = 1 there is Weyl's part alone; for n = 2 no rest, and no axial part."""
    metric = cn.ConstantMetric(cn.CoordinateFrame(n), np.eye(n))
    rng = np.random.default_rng(n)
    Gamma = rng.normal(size=(n, n, n))
    nabla = cn.CoefficientConnection(metric.frame, lambda q: Gamma)
    sizes = cn.decompose(nabla, metric, np.zeros(n)).squared_norms
    there = {name for name, size in sizes.items() if size > 1e-12}
    few = {"nonmetricity_weyl"}
    assert there == (
        few if n == 1 else few | {"torsion_trace", "nonmetricity_trace", "nonmetricity_symmetric"}
    )


def test_bad_input_is_named():
    q = np.zeros(3)
    with pytest.raises(FrameError, match="the metric in CoordinateFrame"):
        cn.decompose(systems.GENERAL, cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3)), q)
    with pytest.raises(TypeError, match="has no metric of its own"):
        cn.decompose(systems.GENERAL, None, q)
    with pytest.raises(TypeError, match="nabla: expected"):
        cn.decompose(systems.METRIC, systems.METRIC, q)
    with pytest.raises(ShapeError, match="q: expected"):
        cn.decompose(systems.GENERAL, systems.METRIC, np.zeros(2))


@pytest.mark.further
@pytest.mark.parametrize("name", TORSION + NONMETRICITY)
def test_what_each_part_does_to_lengths_and_geodesics(parts, name):
    """The table of docs/linear_connections.md: the contorsion of one part alone, by the linear equations."""
    q, found = parts
    L = np.linalg.cholesky(systems.METRIC.matrix(q))
    E = np.linalg.inv(L).T
    part = lowered(np.asarray(systems.METRIC.matrix(q)), name, np.asarray(getattr(found, name)))
    part, zero = np.einsum("ijk,ia,jb,kc->abc", part, E, E, E), np.zeros((3, 3, 3))
    rows = []  # of N = Gamma - Gamma*: T_ijk = N_ijk - N_ikj, Q_ijk = -N_kij - N_jik
    for place in range(27):
        e = np.eye(27)[place].reshape(3, 3, 3)
        T, Q = e - np.swapaxes(e, 1, 2), -np.einsum("kij->ijk", e) - np.einsum("jik->ijk", e)
        rows.append(np.concatenate([T.ravel(), Q.ravel()]))
    wanted = np.concatenate([part.ravel(), zero.ravel()] if name in TORSION else [zero.ravel(), part.ravel()])
    N = np.linalg.lstsq(np.stack(rows).T, wanted, rcond=None)[0].reshape(3, 3, 3)
    assert np.abs(np.stack(rows).T @ N.ravel() - wanted).max() < 1e-12
    bends = np.abs(N + np.swapaxes(N, 1, 2)).max() > 1e-6
    assert bends == (name != "torsion_axial")
    totals = sum(np.transpose(part, axes) for axes in ((0, 1, 2), (1, 2, 0), (2, 0, 1)))
    speeds = name in NONMETRICITY and np.abs(totals).max() > 1e-6
    assert speeds == (name in NONMETRICITY[:3])
