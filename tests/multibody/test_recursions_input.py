"""Arguments of the recursions: every one that is wrong, and every layout that is right."""

import numpy as np
import pytest
from mechanisms import NO_BODY, random_body
from recursion_functions import FUNCTIONS, agree, call, core_shape, model, states

from connections import multibody as mb
from connections.checks import MetricError, NonFiniteError, PointError, ShapeError

each_function = pytest.mark.parametrize("name", FUNCTIONS)


# --- wrong arguments --------------------------------------------------------------------------------------


@each_function
def test_wrong_sizes_are_named(name, rng):
    for batch in ((), (3,)):
        right = states(name, rng, *batch)
        for number, argument in enumerate(FUNCTIONS[name][1]):
            longer = np.concatenate([right[number], right[number][..., :1]], axis=-1)
            for wrong in (right[number][..., :-1], longer, np.float64(1.0), np.zeros(0)):
                with pytest.raises(ShapeError, match=rf"\b{argument}\b"):
                    call(name, *right[:number], wrong, *right[number + 1 :])


@each_function
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_named(name, value, rng):
    for batch, row in (((), ()), ((11,), (10,)), ((2, 9), (1, 3))):
        right = states(name, rng, *batch)
        for number, argument in enumerate(FUNCTIONS[name][1]):
            for entry in (0, right[number].shape[-1] - 1):
                wrong = right[number].copy()
                wrong[(*row, entry)] = value
                with pytest.raises(NonFiniteError, match=rf"\b{argument}\b"):
                    call(name, *right[:number], wrong, *right[number + 1 :])


@each_function
def test_quaternions_of_another_norm_are_named(name, rng):
    joints = zip(model().joint_names, model().kinematics.tree.joints, strict=True)
    quaternions = [
        (joint, slice(model().configuration_slice(joint).stop - 4, model().configuration_slice(joint).stop))
        for joint, kind in joints
        if isinstance(kind, (mb.Spherical, mb.Free))
    ]
    assert len(quaternions) >= 2
    for batch, row in (((), ()), ((11,), (10,))):
        q, *rest = states(name, rng, *batch)
        for _, where in quaternions:
            for factor in (0.0, 1.0001, 2.0, -0.5):
                wrong = q.copy()
                wrong[(*row, where)] *= factor
                with pytest.raises(PointError, match="norm"):
                    call(name, wrong, *rest)
        accepted = q.copy()
        accepted[(*row, quaternions[0][1])] *= -1.0  # the same rotation
        assert agree(call(name, accepted, *rest), call(name, q, *rest), 1e-11)


@each_function
def test_things_that_are_not_numbers(name, rng):
    right = states(name, rng)
    for number in range(len(right)):
        for wrong in (None, "text", right[number] * 1j, [object()] * len(right[number])):
            with pytest.raises((TypeError, ShapeError)):
                call(name, *right[:number], wrong, *right[number + 1 :])


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if "torsion" in name])
def test_unknown_body_factor(name, rng):
    with pytest.raises(ValueError, match="body_factor.*levi_civita"):
        FUNCTIONS[name][0].func(model(), *states(name, rng), body_factor="levi_civita")


@each_function
def test_batches_that_do_not_broadcast(name, rng):
    q, *rest = states(name, rng, 3)
    for number, argument in enumerate(rest):
        with pytest.raises(ShapeError):
            call(name, q, *rest[:number], np.stack([argument[0]] * 2), *rest[number + 1 :])


def gimbal():
    """Revolute z, y, x with bodies without mass between: H is singular where the middle angle is pi / 2."""
    mechanism, root = mb.Mechanism(), "world"
    for name, axis in zip("zyx", np.eye(3)[::-1], strict=True):
        mechanism.add_body(
            f"body {name}", **(random_body(np.random.default_rng(1)) if name == "x" else NO_BODY)
        )
        mechanism.add_joint(name, root, f"body {name}", mb.Revolute(axis))
        root = f"body {name}"
    return mechanism.build()


def test_a_singular_mass_matrix_names_the_joint():
    gimbals = gimbal()
    locked, rest = np.array([0.3, np.pi / 2, 0.2]), np.zeros(3)
    regular = locked - [0.0, 1e-4, 0.0]
    several = np.stack([regular] * 10 + [locked])
    for q in (locked, several):
        with pytest.raises(MetricError, match="singular along joint '[xyz]'"):
            mb.forward_dynamics(gimbals, q, rest, np.ones(3))
        with pytest.raises(MetricError, match="singular along joint '[xyz]'"):
            mb.inverse_mass_matrix(gimbals, q)
        assert np.isfinite(mb.mass_matrix(gimbals, q)).all()
    for q in (regular, several[:-1]):
        H, inverse = mb.mass_matrix(gimbals, q), mb.inverse_mass_matrix(gimbals, q)
        np.testing.assert_allclose(inverse @ H, np.broadcast_to(np.eye(3), H.shape), atol=1e-6)
        a = mb.forward_dynamics(gimbals, q, rest, np.ones(3))
        tau = mb.inverse_dynamics(gimbals, q, rest, a)
        np.testing.assert_allclose(tau, np.ones_like(tau), atol=1e-6)


# --- out --------------------------------------------------------------------------------------------------


@each_function
@pytest.mark.parametrize("batch", [(), (1,), (5,), (8,), (3, 7)])
def test_out_is_filled_and_returned(name, batch, rng):
    arguments = states(name, rng, *batch)
    expected = call(name, *arguments)
    out = np.full((*batch, *core_shape(name)), np.nan)
    assert call(name, *arguments, out=out) is out
    np.testing.assert_array_equal(out, expected)
    others = states(name, rng, *batch)
    call(name, *others, out=out)
    np.testing.assert_array_equal(out, call(name, *others))
    assert not agree(out, expected, 1e-2)  # negative control


@each_function
@pytest.mark.parametrize("batch", [(), (3,)])
def test_an_out_that_does_not_fit_is_refused(name, batch, rng):
    arguments, shape = states(name, rng, *batch), (*batch, *core_shape(name))
    before = call(name, *arguments)
    locked = np.empty(shape)
    locked.flags.writeable = False
    wrong = {
        "shape": np.empty((*shape[:-1], shape[-1] + 1)),
        "batch": np.empty((2, *shape)),
        "axes": np.empty(shape[1:]),
        "float32": np.empty(shape, dtype=np.float32),
        "integers": np.empty(shape, dtype=np.int64),
        "bytes": np.empty(shape, dtype=">f8"),
        "strided": np.empty((*shape[:-1], 2 * shape[-1]))[..., ::2],
        "read-only": locked,
        "list": np.empty(shape).tolist(),
    }
    if len(shape) > 1:
        wrong["Fortran order"] = np.empty(shape, order="F")
    for out in wrong.values():
        with pytest.raises((ValueError, TypeError), match="out"):
            call(name, *arguments, out=out)
    np.testing.assert_array_equal(call(name, *arguments), before)


@each_function
def test_an_out_that_overlaps_an_argument_is_refused_or_right(name, rng):
    arguments = states(name, rng, 2)
    expected = call(name, *arguments)
    size = expected.size
    for number, argument in enumerate(arguments):
        buffer = np.zeros(size + argument.size)
        overlapping = buffer[: argument.size].reshape(argument.shape)
        overlapping[...] = argument
        shifted = min(argument.size - 1, 3)
        out = buffer[shifted : shifted + size].reshape(expected.shape)
        try:
            call(name, *arguments[:number], overlapping, *arguments[number + 1 :], out=out)
        except ValueError as error:
            assert "out" in str(error)
            np.testing.assert_array_equal(overlapping, argument)
        else:
            np.testing.assert_array_equal(out, expected)


# --- layouts that are right -------------------------------------------------------------------------------


def _strided(x):
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]))
    wide[..., ::2] = x
    return wide[..., ::2]


def _read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


LAYOUTS = {
    "list": lambda x: x.tolist(),
    "tuple of rows": lambda x: tuple(x.tolist()),
    "strided": _strided,
    "reversed": lambda x: np.ascontiguousarray(x[..., ::-1])[..., ::-1],
    "Fortran order": np.asfortranarray,
    "read-only": _read_only,
    "big-endian": lambda x: x.astype(">f8"),
    "unaligned": lambda x: np.frombuffer(b"0" + x.tobytes(), dtype=np.float64, offset=1).reshape(x.shape),
}


@each_function
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_of_the_same_numbers_gives_the_same(name, layout, rng):
    for batch in ((), (5,)):
        arguments = states(name, rng, *batch)
        result = call(name, *[LAYOUTS[layout](x) for x in arguments])
        assert type(result) is np.ndarray and result.dtype == np.float64 and result.flags.c_contiguous
        np.testing.assert_array_equal(result, call(name, *arguments))


@each_function
def test_other_number_types_are_converted(name, rng):
    arguments = states(name, rng)
    single = [x.astype(np.float32) for x in arguments]
    exact = call(name, *[x.astype(np.float64) for x in single])
    np.testing.assert_array_equal(call(name, *single), exact)
    neutral = model().neutral()
    whole = [neutral, *(np.arange(model().nv) - 3.0 for _ in arguments[1:])]
    np.testing.assert_array_equal(call(name, *[x.astype(int) for x in whole]), call(name, *whole))


@each_function
@pytest.mark.parametrize("turns", [1, 10**3, 10**6])
def test_whole_turns_change_nothing(name, turns, rng):
    """Up to the rounding of the angles themselves, one configuration or many."""
    q, *rest = states(name, rng, 9)
    slices = [model().configuration_slice(joint) for joint in model().joint_names]
    kinds = [type(joint) for joint in model().kinematics.tree.joints]
    turned = q.copy()
    for kind, where in zip(kinds, slices, strict=True):
        if kind in (mb.Revolute, mb.Cylindrical, mb.Universal):
            turned[:, where.start] += 2.0 * np.pi * turns
        elif kind is mb.Planar:
            turned[:, where.stop - 1] -= 2.0 * np.pi * turns
    expected = call(name, q, *rest)
    assert agree(call(name, turned, *rest), expected, 1e-13 * turns + 1e-12)
    assert agree(call(name, turned[0], *(x[0] for x in rest)), expected[0], 1e-13 * turns + 1e-12)
