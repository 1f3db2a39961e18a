"""Arguments of the recursions: every one that is wrong, and every layout that is right.

Trees and closed chains give the same kinds of errors, or the right result.
"""

import itertools

import dask.array as da
import numpy as np
import pytest
import recursion_functions
from cases import always, further
from mechanisms import NO_BODY, random_body
from recursion_functions import FUNCTIONS, MECHANISMS, SOME, agree, call, core_shape, model, states

from connections import multibody as mb
from connections.checks import MetricError, NonFiniteError, PointError, ShapeError

each_case = recursion_functions.each_case()
each_mechanism = pytest.mark.parametrize("of", always(MECHANISMS, "tree", "four-bar"))


def replaced(arguments, number, value):
    """The arguments with another one at `number`."""
    return [*arguments[:number], value, *arguments[number + 1 :]]


# --- wrong arguments --------------------------------------------------------------------------------------


@each_case
def test_wrong_sizes_are_named(name, of, rng):
    robot = model(of)
    for batch in ((), (3,)):
        right = states(name, rng, *batch, of=robot)
        call(name, *right, of=robot)  # it is compiled from here on
        for number, argument in enumerate(FUNCTIONS[name][1]):
            good = right[number]
            longer = np.concatenate([good, good[..., :1]], axis=-1)
            wrong = [
                good[..., :-1],
                longer,
                np.float64(1.0),
                np.zeros(()),
                np.zeros(0),
                1.0,
                [],
                [[]],
                good[None].T,
            ]
            wrong += [np.zeros(1), np.zeros((1, 1)), [0.5]] if good.shape[-1] > 1 else []
            for value in wrong:
                if np.shape(value)[-1:] == good.shape[-1:]:
                    continue  # `good.T` of one joint
                with pytest.raises(ShapeError, match=rf"\b{argument}\b"):
                    call(name, *replaced(right, number, value), of=robot)


@each_case
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_named(name, of, value, rng):
    robot = model(of)
    for batch, row in (((), ()), ((11,), (10,)), ((2, 4), (1, 3))):
        right = states(name, rng, *batch, of=robot)
        for number, argument in enumerate(FUNCTIONS[name][1]):
            for entry in (0, right[number].shape[-1] - 1):
                wrong = right[number].copy()
                wrong[(*row, entry)] = value
                with pytest.raises(NonFiniteError, match=rf"\b{argument}\b"):
                    call(name, *replaced(right, number, wrong), of=robot)


@recursion_functions.each_case(mechanisms=("tree", "legged robot", "belt leg"))
def test_quaternions_of_another_norm_are_named(name, of, rng):
    robot, tree = model(of), model(of).kinematics.tree
    kinds = dict(zip(tree.joint_names, tree.joints, strict=True))
    ends = [
        robot.configuration_slice(joint).stop
        for joint in robot.joint_names
        if isinstance(kinds[joint], (mb.Spherical, mb.Free))
    ]
    assert ends
    for batch, row in (((), ()), ((11,), (10,))):
        q, *rest = states(name, rng, *batch, of=robot)
        for stop in ends:
            for factor in (0.0, 1.0001, 2.0, -0.5):
                wrong = q.copy()
                wrong[(*row, slice(stop - 4, stop))] *= factor
                with pytest.raises(PointError, match="norm"):
                    call(name, wrong, *rest, of=robot)
        accepted = q.copy()
        accepted[(*row, slice(ends[0] - 4, ends[0]))] *= -1.0  # the same rotation
        assert agree(call(name, accepted, *rest, of=robot), call(name, q, *rest, of=robot), 1e-11)


@each_case
def test_things_that_are_not_numbers(name, of, rng):
    robot = model(of)
    for batch in ((), (3,)):
        right = states(name, rng, *batch, of=robot)
        for number, argument in enumerate(FUNCTIONS[name][1]):
            good = right[number]
            objects = np.full(good.shape, None)
            objects[...] = object()
            for wrong in ("text", good * 1j, objects, objects.tolist(), {}, good.astype(str), [[1.0], []]):
                with pytest.raises((TypeError, ShapeError), match=rf"\b{argument}\b"):
                    call(name, *replaced(right, number, wrong), of=robot)
            with pytest.raises((TypeError, ShapeError, NonFiniteError), match=rf"\b{argument}\b"):
                call(name, *replaced(right, number, None), of=robot)


@each_case
def test_masked_entries_are_refused(name, of, rng):
    """What is masked is no number; a masked array without any is an array (negative control)."""
    robot = model(of)
    for batch in ((), (3,)):
        right = states(name, rng, *batch, of=robot)
        expected = call(name, *right, of=robot)
        for number, argument in enumerate(FUNCTIONS[name][1]):
            mask = np.zeros(right[number].shape, dtype=bool)
            unmasked = np.ma.masked_array(right[number], mask=mask)
            result = call(name, *replaced(right, number, unmasked), of=robot)
            np.testing.assert_array_equal(result, expected)
            mask[..., -1] = True
            with pytest.raises(TypeError, match=rf"\b{argument}\b"):
                call(name, *replaced(right, number, np.ma.masked_array(right[number], mask=mask)), of=robot)


@each_mechanism
@pytest.mark.parametrize("function", [mb.coriolis_matrix, mb.christoffel_symbols, mb.coriolis_product])
def test_unknown_body_factor(function, of, rng):
    arguments = states(function.__name__, rng, of=model(of))
    for wrong in ("levi_civita", None, True, ["christoffel"], 1):
        with pytest.raises(ValueError, match=r"body_factor"):
            function(model(of), *arguments, body_factor=wrong)


@each_case
def test_batches_that_do_not_broadcast(name, of, rng):
    q, *rest = states(name, rng, 3, of=model(of))
    for number, argument in enumerate(rest):
        with pytest.raises(ShapeError, match=rf"\b{FUNCTIONS[name][1][number + 1]}\b"):
            call(name, q, *replaced(rest, number, np.stack([argument[0]] * 2)), of=model(of))


@each_case
def test_dask_arrays_have_the_same_errors(name, of, rng):
    """Sizes and types at the call, numbers where it is computed; `out` cannot be filled later."""
    robot = model(of)
    right = states(name, rng, 3, of=robot)
    lazy = [da.from_array(x, chunks=(2, -1)) for x in right]
    with pytest.raises(TypeError, match="out"):
        call(name, *lazy, of=robot, out=np.empty((3, *core_shape(name, robot))))
    for number, argument in enumerate(FUNCTIONS[name][1]):
        for wrong in (right[number][..., :-1], np.concatenate([right[number]] * 2, axis=-1)):
            for value in (wrong, da.from_array(wrong, chunks=-1)):
                if all(isinstance(x, np.ndarray) for x in replaced(lazy, number, value)):
                    continue  # of one argument only
                with pytest.raises(ShapeError, match=rf"\b{argument}\b"):
                    call(name, *replaced(lazy, number, value), of=robot)
        with pytest.raises(TypeError, match=rf"\b{argument}\b"):
            call(name, *replaced(lazy, number, lazy[number] * 1j), of=robot)


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


@pytest.mark.parametrize(
    "name",
    [
        "forward_dynamics",
        "inverse_mass_matrix",
        further("forward_dynamics_hessian_product"),
        further("forward_dynamics_second_derivatives"),
    ],
)
def test_a_singular_mass_matrix_names_the_joint(name):
    gimbals, locked = gimbal(), np.array([0.3, np.pi / 2, 0.2])
    others = {"v": np.zeros(3), "tau": np.ones(3), "w": np.ones(3)}
    arguments = [others[argument] for argument in FUNCTIONS[name][1][1:]]
    for q in (locked, np.stack([locked - [0.0, 1e-4, 0.0]] * 10 + [locked])):
        with pytest.raises(MetricError, match="singular along joint '[xyz]'"):
            call(name, q, *arguments, of=gimbals)
        assert np.isfinite(mb.mass_matrix(gimbals, q)).all()


def test_next_to_a_singular_mass_matrix_everything_is_computed():
    gimbals, near = gimbal(), np.array([0.3, np.pi / 2 - 1e-4, 0.2])
    for q in (near, np.stack([near] * 10)):
        H, inverse = mb.mass_matrix(gimbals, q), mb.inverse_mass_matrix(gimbals, q)
        np.testing.assert_allclose(inverse @ H, np.broadcast_to(np.eye(3), H.shape), atol=1e-6)
        a = mb.forward_dynamics(gimbals, q, np.zeros(3), np.ones(3))
        tau = mb.inverse_dynamics(gimbals, q, np.zeros(3), a)
        np.testing.assert_allclose(tau, np.ones_like(tau), atol=1e-6)


# --- out --------------------------------------------------------------------------------------------------


@each_case
@pytest.mark.parametrize("batch", [(), (1,), (8,), (3, 5)])
def test_out_is_filled_and_returned(name, of, batch, rng):
    robot = model(of)
    arguments = states(name, rng, *batch, of=robot)
    expected = call(name, *arguments, of=robot)
    out = np.full((*batch, *core_shape(name, robot)), np.nan)
    assert call(name, *arguments, of=robot, out=out) is out
    np.testing.assert_array_equal(out, expected)
    others = states(name, rng, *batch, of=robot)
    call(name, *others, of=robot, out=out)  # nothing of what it held is left
    np.testing.assert_array_equal(out, call(name, *others, of=robot))


@each_case
@pytest.mark.parametrize("batch", [(), (3,)])
def test_an_out_of_another_shape_is_refused(name, of, batch, rng):
    """Also where its size is right."""
    robot = model(of)
    arguments, shape = states(name, rng, *batch, of=robot), (*batch, *core_shape(name, robot))
    before = call(name, *arguments, of=robot)
    wrong = {(*shape[:-1], shape[-1] + 1), (2, *shape), shape[1:], (np.prod(shape, dtype=int),), (1, *shape)}
    wrong |= {(*shape, 1), (*shape[:-1], 1, shape[-1]), *itertools.permutations(shape)} - {shape}
    for other in wrong - {shape}:
        with pytest.raises(ShapeError, match="out"):
            call(name, *arguments, of=robot, out=np.empty(other))
    np.testing.assert_array_equal(call(name, *arguments, of=robot), before)


@each_case
@pytest.mark.parametrize("batch", [(), (3,)])
def test_an_out_that_cannot_be_filled_is_refused(name, of, batch, rng):
    robot = model(of)
    arguments, shape = states(name, rng, *batch, of=robot), (*batch, *core_shape(name, robot))
    before, locked = call(name, *arguments, of=robot), np.empty(shape)
    locked.flags.writeable = False
    types = [np.empty(shape, dtype=dtype) for dtype in (np.float32, np.int64, complex, object, ">f8")]
    types += [np.empty(shape).tolist(), [np.empty(shape)], (np.empty(shape),) * 3, 1.0, "out", True]
    for out in types:
        with pytest.raises(TypeError, match="out"):
            call(name, *arguments, of=robot, out=out)
    layouts = [np.empty((*shape[:-1], 2 * shape[-1]))[..., ::2], locked, np.empty(shape, order="F")]
    for out in layouts:
        if out.flags.c_contiguous and out.flags.writeable:
            continue  # one entry, or one axis, has one layout only
        with pytest.raises(ValueError, match="out"):
            call(name, *arguments, of=robot, out=out)
    np.testing.assert_array_equal(call(name, *arguments, of=robot), before)


@each_case
def test_an_out_that_overlaps_an_argument_is_right(name, of, rng):
    robot = model(of)
    for batch in ((), (2,)):
        arguments = states(name, rng, *batch, of=robot)
        expected = call(name, *arguments, of=robot)
        for number, argument in enumerate(arguments):
            for shift in {-1, 0, 1, 3} & set(range(-expected.size + 1, argument.size)):
                buffer = np.zeros(expected.size + argument.size + 1)
                given = buffer[1 : 1 + argument.size].reshape(argument.shape)
                out = buffer[1 + shift : 1 + shift + expected.size].reshape(expected.shape)
                given[...] = argument
                assert np.shares_memory(given, out)
                call(name, *replaced(arguments, number, given), of=robot, out=out)
                np.testing.assert_array_equal(out, expected)


ROWS = 160  # more than are read at a time, from loops too
LATE = 132  # a row that is read after others are written


@each_case
def test_many_rows_are_right_where_out_reaches_rows_that_are_read_later(name, of, rng):
    """`out` begins with the argument, or at a late row of it: the first results would replace that."""
    robot = model(of)
    arguments = states(name, rng, ROWS, of=robot)
    expected = call(name, *arguments, of=robot)
    for number, argument in enumerate(arguments):
        for start in (0, LATE * argument.shape[1]):
            buffer = np.zeros(start + expected.size + argument.size)
            given = buffer[: argument.size].reshape(argument.shape)
            out = buffer[start : start + expected.size].reshape(expected.shape)
            given[...] = argument
            # the results of the centre of mass are too short to reach late rows from the beginning
            assert np.shares_memory(given[LATE:] if start else given, out)
            call(name, *replaced(arguments, number, given), of=robot, out=out)
            assert agree(out, expected, 1e-14)  # loops that are functions are computed by JAX or by NumPy


@pytest.mark.parametrize("name", SOME)
def test_an_out_that_overlaps_a_guess_is_right(name, rng):
    """Rows read their guess while results of rows before are written."""
    robot = model("four-bar")
    arguments = states(name, rng, ROWS, of=robot)
    guess = np.asarray(mb.close_loops(robot, arguments[0]))
    expected = call(name, *arguments, of=robot, guess=guess)
    for start in (0, LATE * guess.shape[1]):
        buffer = np.zeros(start + expected.size + guess.size)
        given = buffer[: guess.size].reshape(guess.shape)
        out = buffer[start : start + expected.size].reshape(expected.shape)
        given[...] = guess
        call(name, *arguments, of=robot, guess=given, out=out)
        assert agree(out, expected, 1e-14)


def test_a_result_that_is_not_finite_replaces_no_argument_without_a_word():
    """H[0, 0] is a mass, H[1, 1] overflows: the call must not go on with q = H[0], which is finite.

    Without an `out`, the error names q.
    """
    mechanism = mb.Mechanism()
    mechanism.add_body("cart", 1.0)
    mechanism.add_joint("slide", "world", "cart", mb.Prismatic((0.0, 0.0, 1.0)))
    mechanism.add_body("arm", 1.0)
    mechanism.add_joint("turn", "cart", "arm", mb.Revolute((0.0, 0.0, 1.0)))
    mechanism.add_body("tip", 1.0, (0.1, 0.0, 0.0), 0.1 * np.eye(3))
    mechanism.add_joint("reach", "arm", "tip", mb.Prismatic((1.0, 0.0, 0.0)))
    robot = mechanism.build()
    q = np.array([0.0, 0.3, 1e200])
    with pytest.raises(NonFiniteError, match=r"q\[2\] = 1e\+200"):
        mb.mass_matrix(robot, q)
    for row in range(3):
        out = np.zeros((3, 3))
        out[row] = q
        with pytest.raises(NonFiniteError, match="mass_matrix is not finite.*shares memory with q"):
            mb.mass_matrix(robot, out[row], out=out)
    out = np.zeros((3, 3))
    out[0] = 0.0, 0.3, 1.0  # negative control: what is finite is right, wherever it is written
    right = mb.mass_matrix(robot, out[0].copy())
    np.testing.assert_array_equal(mb.mass_matrix(robot, out[0], out=out), right)


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


@each_case
def test_any_layout_of_the_same_numbers_gives_the_same(name, of, rng):
    robot = model(of)
    for batch in ((), (5,)):
        arguments = states(name, rng, *batch, of=robot)
        expected = call(name, *arguments, of=robot)
        for layout in LAYOUTS.values():
            result = call(name, *[layout(x) for x in arguments], of=robot)
            assert type(result) is np.ndarray and result.dtype == np.float64 and result.flags.c_contiguous
            np.testing.assert_array_equal(result, expected)
            for number in range(len(arguments)):
                mixed = replaced(arguments, number, layout(arguments[number]))
                np.testing.assert_array_equal(call(name, *mixed, of=robot), expected)


@each_case
def test_other_number_types_are_converted(name, of, rng):
    robot = model(of)
    for batch in ((), (3,)):
        arguments = states(name, rng, *batch, of=robot)
        single = [x.astype(np.float32) for x in arguments]
        exact = call(name, *[x.astype(np.float64) for x in single], of=robot)
        np.testing.assert_array_equal(call(name, *single, of=robot), exact)
        whole = [np.arange(robot.nv) - 3 for _ in arguments[1:]]
        floats = [x.astype(np.float64) for x in whole]
        np.testing.assert_array_equal(
            call(name, arguments[0], *whole, of=robot), call(name, arguments[0], *floats, of=robot)
        )
    if not robot.closed:  # a configuration of whole numbers
        neutral = [robot.neutral(), *floats]
        expected = call(name, *neutral, of=robot)
        np.testing.assert_array_equal(call(name, *[x.astype(int) for x in neutral], of=robot), expected)
