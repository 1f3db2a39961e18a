"""Inertial parameters: additivity, changes of frame, flaws."""

import re
import warnings

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from connections import multibody as mb
from connections.checks import ModelError, NonFiniteError, ShapeError
from connections.geometry.rigid.host_groups import skew
from connections.geometry.rigid.twists import adjoint
from connections.multibody.inertia import (
    NO_INERTIA,
    body_inertia,
    inertia_flaw,
    inertia_of,
    parameters_flaw,
    pseudo_inertias,
)


def cloud(rng, count=6):
    """Point masses (count,), kg, and positions (count, 3), m."""
    return rng.uniform(0.1, 1.0, count), rng.standard_normal((count, 3))


def parameters(masses, points):
    """Mass, centre, and the inertia about the centre, of point masses, from the definition."""
    centre = masses @ points / masses.sum()
    inertia = sum(-m * skew(p - centre) @ skew(p - centre) for m, p in zip(masses, points, strict=True))
    return masses.sum(), centre, inertia


def test_the_matrix_is_the_sum_over_point_masses(rng):
    masses, points = cloud(rng)
    ours = body_inertia("cloud", *parameters(masses, points))
    one_by_one = NO_INERTIA
    for m, p in zip(masses, points, strict=True):
        one_by_one = one_by_one + body_inertia("point", m, p, np.zeros((3, 3)))
    np.testing.assert_allclose(ours.matrix, one_by_one.matrix, atol=1e-13)


def test_seen_from_another_frame_is_the_congruence(rng):
    R, p = Rotation.random(random_state=1).as_matrix(), rng.standard_normal(3)
    ours = body_inertia("cloud", *parameters(*cloud(rng)))
    X = np.asarray(adjoint(R.T, -R.T @ p))  # twists of the new frame to the old one
    np.testing.assert_allclose(ours.seen_from(R, p).matrix, X.T @ ours.matrix @ X, atol=1e-12)
    wrong = np.asarray(adjoint(R, p))
    assert np.max(np.abs(wrong.T @ ours.matrix @ wrong - ours.seen_from(R, p).matrix)) > 1e-2


def test_rotated_principal_axes(rng):
    mass, centre, inertia = parameters(*cloud(rng))
    R = Rotation.random(random_state=2).as_matrix()
    turned = body_inertia("cloud", mass, centre, R.T @ inertia @ R, R)
    np.testing.assert_allclose(turned.matrix, body_inertia("cloud", mass, centre, inertia).matrix, atol=1e-13)


@pytest.mark.parametrize(
    ("moments", "flaw"),
    [
        ((1, 1, 2), None), ((0, 1, 1), None), ((0, 0, 0), None), ((1, 1, 2 + 1e-7), None),
        ((1, 1, 2.1), "breaks the triangle inequality .*1, 1, 2.1"),
        ((0, 0, 1), "breaks the triangle inequality"),
        ((-0.1, 1, 1), "not positive semidefinite .*-0.1"),
        ((-3, -2, -1), "not positive semidefinite"),
    ],
)  # fmt: skip
def test_flaws(moments, flaw, rng):
    R = Rotation.random(random_state=3).as_matrix()
    found = inertia_flaw(R @ np.diag(moments) @ R.T)
    assert found is None if flaw is None else re.search(flaw, found or "")
    for unit in (1e-40, 1e-18, 1e-9, 1e9, 1e18):  # a grain of dust, 1e-6 m across, has some 1e-27 kg m^2
        assert (inertia_flaw(unit * (R @ np.diag(moments) @ R.T)) is None) == (flaw is None)


@pytest.mark.parametrize("unit", [1e-40, 1e-18, 1e-15, 1.0, 1e18])
def test_symmetry_is_asked_of_inertias_of_any_size(unit, rng):
    """Six digits, as they are printed, may differ; what is taken is then the symmetric part."""
    inertia = np.diag([1.0, 1.2, 1.4])
    inertia[0, 1] = 5e-7
    taken = body_inertia("body", 1.0, np.zeros(3), unit * inertia).rotational
    np.testing.assert_allclose(taken, unit * (inertia + inertia.T) / 2, rtol=1e-15)
    inertia[0, 1] = 5e-6
    with pytest.raises(ModelError, match="'body': inertia is not symmetric"):
        body_inertia("body", 1.0, np.zeros(3), unit * inertia)


@pytest.mark.parametrize("unit", [1e-18, 1.0])
def test_small_bodies_warn_as_large_ones(unit):
    with pytest.warns(mb.InertiaWarning, match="triangle"):
        mb.Mechanism().add_body("grain", mass=1e-15, inertia=unit * np.diag([1.0, 1.0, 2.1]))


def test_the_round_off_of_an_inertia_carried_to_the_centre_is_no_flaw():
    """A point mass of 0.3 kg at (0.1, 0.2, -0.3) m: I - m (c c 1 - c c^T) is 1e-18 or so, of either sign."""
    m, c = 0.3, np.array([0.1, 0.2, -0.3])
    about_origin = -m * skew(c) @ skew(c)
    left = about_origin - m * (c @ c * np.eye(3) - np.outer(c, c)) - 1e-18 * np.eye(3)
    assert inertia_flaw(left) is not None
    assert inertia_flaw(left, m, c) is None
    assert inertia_flaw(left - 1e-12 * np.eye(3), m, c) is not None


def test_a_cloud_has_no_flaw_and_numbers_that_are_not_finite_are_left_to_others(rng):
    assert inertia_flaw(parameters(*cloud(rng))[2]) is None
    assert inertia_flaw(np.full((3, 3), np.nan)) is None


def ten(inertia):
    """The ten parameters of a `BodyInertia`."""
    I = inertia.rotational  # noqa: E741
    return np.array([inertia.mass, *inertia.first_moment, *I[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]])


def test_the_pseudo_inertia_is_the_second_moment_of_point_masses(rng):
    masses, points = cloud(rng)
    inertia = body_inertia("cloud", *parameters(masses, points))
    homogeneous = np.concatenate([points, np.ones((len(points), 1))], axis=1)
    expected = np.einsum("n,ni,nj->ij", masses, homogeneous, homogeneous)
    np.testing.assert_allclose(pseudo_inertias(ten(inertia)), expected, atol=1e-13)
    np.testing.assert_allclose(inertia_of(ten(inertia)).matrix, inertia.matrix, atol=1e-14)


def test_parameters_have_a_flaw_if_the_inertia_about_the_centre_has_one(rng):
    found = []
    for _ in range(200):
        mass, c = rng.uniform(0.1, 2.0), rng.standard_normal(3)
        R = Rotation.random(random_state=rng.integers(1 << 30)).as_matrix()
        about_centre = R @ np.diag(rng.uniform(-0.1, 1.0, 3)) @ R.T
        flaw = parameters_flaw(ten(body_inertia("body", mass, c, about_centre)))
        assert (flaw is None) == (inertia_flaw(about_centre) is None)
        found.append(flaw is None)
    assert 20 < sum(found) < 180
    assert parameters_flaw(np.zeros(10)) is None  # a link without inertia


def test_a_robot_with_other_parameters(rng):
    """What was set is read again; loops stay; flaws are errors and warnings that name the body."""
    for robot in (mb.example("quadruped"), mb.example("four_bar")):
        pi = mb.inertial_parameters(robot)
        other = robot.with_inertial_parameters(2.0 * pi)
        np.testing.assert_array_equal(mb.inertial_parameters(other), 2.0 * pi)
        q = robot.neutral()
        np.testing.assert_allclose(mb.mass_matrix(other, q), 2.0 * mb.mass_matrix(robot, q), rtol=1e-12)
    name = re.escape(robot.body_names[0])
    for wrong, column in ((-1.0, 0), (0.0, 0)):
        changed = pi.copy()
        changed[0, column] = wrong
        with pytest.raises(ModelError, match=name), warnings.catch_warnings():
            warnings.simplefilter("error", mb.InertiaWarning)  # what is refused is not warned of
            robot.with_inertial_parameters(changed)
    changed = pi.copy()
    changed[0, 1] += 100.0
    with pytest.warns(mb.InertiaWarning, match=name):
        robot.with_inertial_parameters(changed)
    with pytest.raises(NonFiniteError, match="parameters"):
        robot.with_inertial_parameters(np.nan * pi)
    for shape in (pi[1:], pi[:, 1:], pi[None]):
        with pytest.raises(ShapeError, match="parameters"):
            robot.with_inertial_parameters(shape)
