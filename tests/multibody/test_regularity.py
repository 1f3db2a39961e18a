"""Whether H is positive definite: asked without units, and where there is nothing but round-off."""

import tracemalloc

import numpy as np
import pytest
from cases import always
from mechanisms import NO_BODY
from recursion_functions import stacked
from scipy.spatial.transform import Rotation

from connections import multibody as mb
from connections.checks import MetricError, ModelError
from connections.multibody.program.regularity import first_irregular, induced_matrix, irregular

INVERTED = {
    "forward_dynamics": (mb.forward_dynamics, 2),
    "inverse_mass_matrix": (mb.inverse_mass_matrix, 0),
    "forward_dynamics_derivatives": (stacked(mb.forward_dynamics_derivatives), 2),
}


def one_body(joint, mass, center, inertia):
    mechanism = mb.Mechanism()
    mechanism.add_body("body", mass=mass, center_of_mass=center, inertia=inertia)
    mechanism.add_joint("joint", "world", "body", joint)
    return mechanism


def refuse_inverse(mechanism):
    """The robot is built, and H has no inverse."""
    model = mechanism.build()
    with pytest.raises(MetricError, match="singular along joint 'joint'.*'body'.*with_armature"):
        mb.inverse_mass_matrix(model, model.neutral())


def sphere(radius):
    """Mass and inertia of a ball of water."""
    mass = 4e3 / 3.0 * np.pi * radius**3
    return mass, 0.4 * mass * radius**2 * np.eye(3)


# --- when a model is built --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "joint", [mb.Free(), mb.Spherical(), mb.Planar(), mb.Cylindrical((1, 1, 1))], ids=str
)
def test_a_ball_of_any_size_moves(joint):
    for radius in 10.0 ** np.arange(-9, 10, 3):
        mass, inertia = sphere(radius)
        model = one_body(joint, mass, np.zeros(3), inertia).build()
        H, inverse = mb.mass_matrix(model, model.neutral()), mb.inverse_mass_matrix(model, model.neutral())
        np.testing.assert_allclose(np.diagonal(H) * np.diagonal(inverse), 1.0, rtol=1e-14)
        found, expected = ({float(f"{x:.12e}") for x in y} for y in (np.diagonal(H), (mass, inertia[0, 0])))
        assert found <= expected


@pytest.mark.parametrize("distance", [1.0, 1e3, 1e4])
def test_a_ball_far_from_its_origin_moves(distance):
    """The block about the joint is singular but for the inertia about the centre, which is still there."""
    mass, inertia = sphere(0.062)
    model = one_body(mb.Free(), mass, [0.0, distance, 0.0], inertia).build()
    inverse = mb.inverse_mass_matrix(model, model.neutral())
    lost = np.finfo(float).eps * mass * distance**2 / inertia[0, 0]
    np.testing.assert_allclose(np.diagonal(inverse)[:3], 1.0 / inertia[0, 0], rtol=1e-13 + 10.0 * lost)


def test_an_inertia_that_is_lost_in_round_off_is_no_inertia():
    mass, inertia = sphere(0.062)
    for distance in (1e6, 1e9):
        far = one_body(mb.Free(), mass, [0.0, distance, 0.0], inertia).build()
        with pytest.raises(MetricError, match="singular along joint 'joint'"):
            mb.inverse_mass_matrix(far, far.neutral())


@pytest.mark.parametrize("scale", [1e-18, 1.0, 1e18])
def test_a_rod_about_its_own_axis_does_not_resist(scale):
    """H is round-off there, of either sign; an inertia that is negative is said to be so."""
    for seed in range(8):
        axis = Rotation.random(rng=np.random.default_rng(seed)).as_matrix()[0]
        across = np.eye(3) - np.outer(axis, axis)

        def rod(along, axis=axis, across=across):
            inertia = scale * (0.1 * across + along * np.outer(axis, axis))
            return one_body(mb.Revolute(axis), scale, 0.7 * axis, inertia)

        with pytest.raises(ModelError, match="'joint' moves body 'body'.*negative inertia.*indefinite"):
            rod(-1e-8).build()
        for along in (0.0, -1e-15):
            refuse_inverse(rod(along))
        np.testing.assert_allclose(mb.mass_matrix(rod(1e-8).build(), [0.3]), [[1e-8 * scale]], rtol=1e-6)


@pytest.mark.parametrize(("ratio", "moves"), [(0.8, False), (1.25, True)])
@pytest.mark.parametrize("mass", [1e-9, 1.0, 1e9])
def test_what_is_left_of_the_terms_decides_at_1e_13(mass, ratio, moves):
    """The pivot of H over the terms of its column, s = (|omega| sqrt(tr Ibar) + |u| sqrt(m))^2."""
    spun = one_body(mb.Revolute((0, 0, 1)), mass, np.zeros(3), mass * np.diag([1.0, 1.0, 2e-13 * ratio]))
    if moves:
        model = spun.build()
        assert np.isfinite(mb.inverse_mass_matrix(model, model.neutral())).all()
    else:
        refuse_inverse(spun)


@pytest.mark.parametrize("mass", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_terms_of_both_parts_of_a_twist_are_measured(mass, sign):
    """A ball at the end of an arm that turns, on a slide across it: without the slide, its inertia is left.

    s is (sqrt(3 I) + d sqrt(m))^2 where the arm has the length d, and I is as small as that square allows.
    """
    arm = 2.0
    A = np.zeros((1, 6, 2))
    A[0, 2, 0], A[0, 4, 0], A[0, 4, 1] = 1.0, arm, 1.0
    sizes = np.array([[[1.0, 0.0], [arm, 1.0]]])
    for ratio, found in ((0.8, (0, False)), (1.25, None if sign > 0 else (0, True))):
        inertia = mass * np.diag([1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
        inertia[:3, :3] *= sign * 1e-13 * ratio * arm**2
        assert first_irregular(inertia[None], A, sizes) == found


def scene(robots, weightless=None):
    """Floating arms of two links with armature, one after the other on the ground; one may turn nothing."""
    mechanism = mb.Mechanism()
    for robot in range(robots):
        bodies = [f"base {robot}", f"upper {robot}", f"lower {robot}"]
        joints = [mb.Free(), mb.Revolute((0, 1, 0)), mb.Revolute((0, 0, 1))]
        for parent, body, joint in zip(["world", *bodies], bodies, joints, strict=False):
            empty = robot == weightless and body.startswith("lower")
            mechanism.add_body(body, **(NO_BODY if empty else dict(mass=1.0, inertia=0.1 * np.eye(3))))
            mechanism.add_joint(f"to {body}", parent, body, joint, armature=0.0 if empty else 0.01)
    return mechanism


@pytest.mark.parametrize("robot", [0, 1, 2])
def test_the_robot_of_a_scene_that_moves_nothing_is_named(robot):
    model = scene(3, robot).build()
    with pytest.raises(MetricError, match=f"along joint 'to lower {robot}'.*give 'lower {robot}' an inertia"):
        mb.inverse_mass_matrix(model, model.neutral())


def test_memory_of_a_scene_grows_with_the_number_of_its_robots():
    """It grew with its square, and time with its cube: 2,700 velocities took more than five minutes."""

    def most(robots):
        kinematics = scene(robots).build().kinematics
        q = kinematics.random(np.random.default_rng(0))
        tracemalloc.start()
        try:
            assert irregular(kinematics, q) is None
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert most(120) < 6.0 * most(30)


def test_all_columns_of_a_long_chain_are_eliminated():
    """The pivots of a chain are those of SciPy's factorization of H, from the last column to the first."""
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((6, 6))
    inertias, A = np.tile(factor @ factor.T, (4, 1, 1)), rng.standard_normal((4, 6, 9))
    H = induced_matrix(inertias, A)
    np.testing.assert_allclose(H, sum(a.T @ inertia @ a for a, inertia in zip(A, inertias, strict=True)))
    lower = np.linalg.cholesky(H[::-1, ::-1])
    pivots = np.diagonal(lower)[::-1] ** 2
    for column in range(9):  # its terms are so large that the pivot is just too small
        sizes = np.zeros((4, 2, 9))
        sizes[0, 1, column] = np.sqrt(pivots[column] / (1e-13 * inertias[0, 5, 5]))
        assert first_irregular(inertias, A, sizes * (1.0 + 1e-9)) == (column, False)
        assert first_irregular(inertias, A, sizes * (1.0 - 1e-9)) is None


# --- at a configuration -----------------------------------------------------------------------------------


def tilting_rod(seed, geared):
    """A rod that `tilt` lays along the axis of `spin` at zero; with a gear, a closed chain."""
    rng, mechanism, placement = np.random.default_rng(seed), mb.Mechanism(), np.eye(4)
    placement[:3, :3] = Rotation.random(rng=rng).as_matrix()
    placement[:3, 3] = rng.standard_normal(3)
    axis, other = Rotation.random(rng=rng).as_matrix()[:2]
    mechanism.add_body("fork", **NO_BODY)
    mechanism.add_joint("spin", "world", "fork", mb.Revolute(axis), placement)
    mechanism.add_body(
        "rod", mass=1.0, center_of_mass=0.7 * axis, inertia=0.1 * (np.eye(3) - np.outer(axis, axis))
    )
    mechanism.add_joint("tilt", "fork", "rod", mb.Revolute(other))
    if geared:
        mechanism.add_body("wheel", **NO_BODY)
        mechanism.add_joint("wheel", "fork", "wheel", mb.Revolute(other))
        mechanism.add_coupling("gear", {"tilt": 3.0, "wheel": 1.0}, independent=["tilt"])
    return mechanism.build(reference={"tilt": 0.5} if geared else None)  # chains are regular at theirs


@pytest.mark.parametrize("geared", [False, True], ids=["tree", "chain"])
@pytest.mark.parametrize("name", always(INVERTED, "forward_dynamics"))
def test_a_diagonal_that_is_round_off_is_singular(name, geared):
    """Where nothing resists, the diagonal of H is noise and so is its pivot, as large as the diagonal."""
    for seed in range(3):
        model, (function, count) = tilting_rod(seed, geared), INVERTED[name]
        locked, ones = np.array([0.4, 0.0]), np.ones((count, 2))
        assert abs(mb.mass_matrix(model, locked)[0, 0]) < 1e-15
        with pytest.raises(MetricError, match="singular along joint 'spin'"):
            function(model, locked, *ones)
        many = np.tile([0.4, 1e-3], (11, 1))
        assert np.isfinite(function(model, many[0], *ones)).all()
        assert np.isfinite(function(model, many, *ones)).all()
        many[8] = locked
        with pytest.raises(MetricError, match="singular along joint 'spin'"):
            function(model, many, *ones)
        weightless = model.with_gravity((0.0, 0.0, 0.0))
        a = mb.forward_dynamics(weightless, [0.4, 1e-3], [0.0, 0.0], [1.0, 0.0])
        np.testing.assert_allclose(a[0], 1.0 / ((0.1 + 0.49) * np.sin(1e-3) ** 2), rtol=1e-6)


@pytest.mark.parametrize("geared", [False, True], ids=["tree", "chain"])
@pytest.mark.parametrize("name", always(INVERTED, "forward_dynamics"))
def test_what_is_left_of_the_terms_decides_at_1e_13_at_a_configuration_too(name, geared):
    """The rod's pivot is (I + m c^2) sin^2(tilt), its terms are the trace 2 (I + m c^2)."""
    model, (function, count) = tilting_rod(0, geared), INVERTED[name]
    refused, accepted = (np.array([0.4, np.arcsin(np.sqrt(2e-13 * ratio))]) for ratio in (0.8, 1.25))
    for batch in ((), (11,)):
        ones = np.ones((count, *batch, 2))
        assert np.isfinite(function(model, np.broadcast_to(accepted, (*batch, 2)), *ones)).all()
        with pytest.raises(MetricError, match="singular along joint 'spin'"):
            function(model, np.broadcast_to(refused, (*batch, 2)), *ones)


@pytest.mark.parametrize("geared", [False, True], ids=["tree", "chain"])
@pytest.mark.parametrize("name", always(INVERTED, "forward_dynamics"))
def test_an_out_that_overlaps_an_argument_does_not_change_what_is_wrong(name, geared):
    """It is filled before H is found to be singular; the error is that of the arguments as they were."""
    model, (function, count) = tilting_rod(0, geared), INVERTED[name]
    locked = np.array([0.4, 0.0])
    for batch in ((), (11,)):
        regular = np.broadcast_to([0.4, 1e-3], (*batch, 2)), *np.ones((count, *batch, 2))
        size = function(model, *regular).shape
        for number in range(1 + count):
            arguments = [np.broadcast_to(locked, (*batch, 2)), *np.ones((count, *batch, 2))]
            buffer = np.zeros(np.prod(size, dtype=int))
            given = buffer[: arguments[number].size].reshape(*batch, 2)
            given[...] = arguments[number]
            arguments[number] = given
            with pytest.raises(MetricError, match="singular along joint 'spin'"):
                function(model, *arguments, out=buffer.reshape(size))
