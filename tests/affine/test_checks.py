"""Checks see a component that is destroyed, however light it is; right connections pass in bad units."""

import jax.numpy as jnp
import numpy as np
import pytest
import systems
from cases import always, further

import connections as cn
from connections.checks import SymmetryError

Q = np.array([0.3, 0.7, 0.4])
FINGERS = {"finger": (1e-5, 1e-2), "hair": (1e-8, 1e-3), "dust": (1e-11, 1e-4)}  # kg, m


def lowered(nabla, metric, q):
    return jnp.einsum("il,ljk->ijk", metric.matrix_at(q), nabla.coefficients_at(q))


def connection_of(metric, low):
    """The connection with these coefficients of the first kind."""
    raised = lambda q: jnp.einsum("il,ljk->ijk", jnp.linalg.inv(metric.matrix_at(q)), low(q))  # noqa: E731
    return cn.CoefficientConnection(metric.frame, raised)


@pytest.mark.further
@pytest.mark.parametrize("name", always(FINGERS, "dust"))
def test_a_right_connection_passes_with_any_finger(name):
    metric = systems.arm_with_finger(*FINGERS[name])
    nabla = cn.LeviCivita(metric)
    for check in (
        nabla.check_torsion_free(Q),
        nabla.check_metric_compatible(Q, metric),
        nabla.check_same_geodesics(Q, metric),
    ):
        check.require()
        assert check.relative < 1e-12
    by_hand = connection_of(metric, lambda q: lowered(nabla, metric, q))
    by_hand.check_metric_compatible(Q, metric).require()
    by_hand.check_same_geodesics(Q, metric).require()


@pytest.mark.parametrize("name", always(FINGERS, "dust"))
@pytest.mark.parametrize("row", [further(0), further(1), 2])
def test_a_deleted_row_fails_with_any_finger(name, row):
    """Gamma_low[row] = 0: the force on one joint, the finger's too, is wrong by all of it."""
    metric = systems.arm_with_finger(*FINGERS[name])
    nabla = cn.LeviCivita(metric)
    broken = connection_of(metric, lambda q: lowered(nabla, metric, q).at[row].set(0.0))
    for check in (broken.check_metric_compatible(Q, metric), broken.check_same_geodesics(Q, metric)):
        assert not check.ok and check.relative > 1e-7, check


@pytest.mark.parametrize(("name", "part"), [("finger", 1e-4), further("hair", 1e-3)])
def test_a_component_that_is_a_little_wrong_fails(name, part):
    """Gamma_low[finger, arm, arm] alone; for the dust such a part is round-off of the arm's terms."""
    metric = systems.arm_with_finger(*FINGERS[name])
    nabla = cn.LeviCivita(metric)
    broken = connection_of(metric, lambda q: lowered(nabla, metric, q).at[2, 0, 0].multiply(1.0 + part))
    assert not broken.check_same_geodesics(Q, metric).ok


def test_torsion_of_a_light_finger_is_seen():
    metric = systems.arm_with_finger(*FINGERS["hair"])
    nabla = cn.LeviCivita(metric)
    twisted = connection_of(metric, lambda q: lowered(nabla, metric, q).at[2, 0, 1].multiply(2.0))
    assert not twisted.check_torsion_free(Q).ok


@pytest.mark.further
def test_a_contorsion_is_antisymmetric_in_its_light_components_too():
    """D_f12 + D_f21 of the size of the finger's own terms, beside a D of the arm's."""
    metric = systems.arm_with_finger(*FINGERS["hair"])
    light = 1e-11

    def contorsion(defect):
        D = jnp.zeros((3, 3, 3)).at[0, 0, 1].set(4.0).at[0, 1, 0].set(-4.0)
        return lambda q: D.at[2, 0, 1].set(light).at[2, 1, 0].set(-light * (1.0 + defect))

    cn.ContorsionConnection(metric, contorsion(0.0), "same_geodesics").coefficients(Q)
    with pytest.raises(SymmetryError, match="antisymmetric in indices"):
        cn.ContorsionConnection(metric, contorsion(1e-3), "same_geodesics").coefficients(Q)


def antisymmetric(rng, axes):
    """D (3, 3, 3) without any symmetry but D = -transpose(D, axes)."""
    D = rng.standard_normal((3, 3, 3))
    return D - D.transpose(axes)


def test_an_admissible_contorsion_has_both_symmetries_not_one(rng):
    """Antisymmetric in indices (1, 3) alone, in (2, 3) alone, in (1, 2) alone; and in all of them."""
    accepted = {
        ((2, 1, 0),): {"metric_compatible"},
        ((0, 2, 1),): {"same_geodesics"},
        ((1, 0, 2),): set(),
        ((2, 1, 0), (0, 2, 1)): {"metric_compatible", "same_geodesics", "admissible"},
    }
    metric = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
    family = cn.ContorsionFamily(metric)
    for symmetries, names in accepted.items():
        D = antisymmetric(rng, symmetries[0]) if len(symmetries) == 1 else family.contorsion_of([0.7])
        assert all(np.array_equal(D, -np.transpose(D, axes)) for axes in symmetries)
        for name in ("metric_compatible", "same_geodesics", "admissible"):
            nabla = cn.ContorsionConnection(metric, lambda q, D=D: jnp.asarray(D), name)
            assert bool(nabla.valid_at(jnp.asarray(Q))) == (name in names)
            if name in names:
                nabla.explain(Q)
            else:
                with pytest.raises(SymmetryError, match=name):
                    nabla.explain(Q)
        if "admissible" in names:
            np.testing.assert_allclose(family.beta_of(D), [0.7], rtol=1e-15)
        else:
            with pytest.raises(SymmetryError, match="not totally antisymmetric"):
                family.beta_of(D)


@pytest.mark.further
def test_beta_is_judged_by_the_lengths_of_the_fields_where_a_point_is_given():
    family = cn.ContorsionFamily(systems.METRIC.change(lambda p: jnp.diag(jnp.array([1e-9, 1.0, 1e6]))))
    q = np.array([0.1, -0.2, 0.3])
    D = family.connection([2e-3]).contorsion(q, family.metric)
    np.testing.assert_allclose(family.beta_of(D, q), [2e-3], rtol=1e-9)
    broken = np.asarray(D).copy()
    broken[0, 0, 1] = 1e-3 * broken[0, 1, 2]  # of the light field: far smaller than round-off allows
    with pytest.raises(SymmetryError, match="not totally antisymmetric"):
        family.beta_of(broken * 0 + np.where(np.arange(27).reshape(3, 3, 3) == 1, 1e-12, D), q)


def test_the_beta_of_christoffels_symbols_by_another_formula_is_zero(rng):
    """Their contorsion is round-off of any symmetry; the control is a thousand times as large."""
    q, E = np.array([0.1, -0.2, 0.3]), rng.standard_normal((3, 3, 3))
    family, size = (
        cn.ContorsionFamily(systems.METRIC),
        np.abs(cn.LeviCivita(systems.METRIC).first_kind(q)).max(),
    )
    E *= size / np.abs(E).max()
    np.testing.assert_allclose(family.beta_of(1e-14 * E, q), [0.0], atol=1e-13 * size)
    with pytest.raises(SymmetryError, match="not totally antisymmetric"):
        family.beta_of(1e-9 * E, q)


@pytest.mark.further
def test_a_flat_connection_has_no_terms_and_passes():
    """All terms vanish, or are round-off of the same computation."""
    flat = cn.LeviCivita(
        cn.PullbackMetric(cn.CoordinateFrame(2), lambda q: jnp.stack([q[0] + q[1], q[0] - q[1]]))
    )
    q = np.array([0.3, -0.2])
    for check in (
        flat.check_torsion_free(q),
        flat.check_metric_compatible(q, flat.metric),
        flat.check_same_geodesics(q, flat.metric),
    ):
        assert check.ok
    zero = cn.CoefficientConnection(flat.frame, lambda q: jnp.zeros((2, 2, 2)))
    zero.check_same_geodesics(q, flat.metric).require()


@pytest.mark.further
def test_a_circle_pulled_back_is_flat_to_round_off():
    """L H vanishes by cancellation; the terms that cancel are known of an embedding."""
    circle = cn.PullbackMetric(cn.CoordinateFrame(1), lambda q: jnp.stack([jnp.cos(q[0]), jnp.sin(q[0])]))
    q = np.linspace(-3, 3, 50)[:, None]
    flat = cn.CoefficientConnection(circle.frame, lambda q: jnp.zeros((1, 1, 1)))
    flat.check_metric_compatible(q, circle).require()
    flat.check_same_geodesics(q, circle).require()
    wrong = cn.CoefficientConnection(circle.frame, lambda q: 1e-6 * jnp.ones((1, 1, 1)))
    assert not wrong.check_metric_compatible(q, circle).ok
