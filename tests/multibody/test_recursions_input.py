"""Arguments of the recursions: every kind that is wrong, and every layout that is right.

Calls are alike (`test_calls_by_arity`): each kind is tried on a tree and on a loop, and each function once.
`tests/fuzz/test_recursions.py` draws functions, mechanisms and kinds.
"""

import itertools

import dask.array as da
import numpy as np
import pytest
from cases import further
from mechanisms import NO_BODY, random_body
from recursion_functions import (
    FUNCTIONS,
    ON_TREES,
    SOME,
    agree,
    call,
    core_shape,
    model,
    quaternions,
    states,
)
from recursion_values import LAYOUTS, OTHER_NORMS, SIZES, WRONG, WRONG_OUT, is_right, replaced

from connections import multibody as mb
from connections.checks import MetricError, NonFiniteError, PointError, ShapeError

VECTORS = "inverse_dynamics"  # of q and two vectors
#: Of several joints, and with quaternions: one configuration and rows of a tree, and of a robot with loops.
on_both = pytest.mark.parametrize("of", ["tree", "legged robot"])
#: One function of each form of a row, on a tree and on a loop.
each_form = pytest.mark.parametrize(
    ("name", "of"),
    [
        *((name, "tree") for name in ON_TREES),
        *((name, "four-bar") for name in SOME),
        further("inverse_dynamics_derivatives", "four-bar"),  # of rates of the loops' motion
        further("forward_dynamics_derivatives", "legged robot"),
        further("curvature", "four-bar"),  # by polarization
        further(VECTORS, "cam"),  # solved by JAX
    ],
)


#: One function of each order in which arguments are read and results are written.
each_order = pytest.mark.parametrize(
    ("name", "of"),
    [
        ("christoffel_symbols with torsion", "tree"),
        ("forward_dynamics", "tree"),  # writes what it reads again if H is singular
        (VECTORS, "four-bar"),
        further("inverse_dynamics_derivatives", "four-bar"),
        further("curvature", "four-bar"),
    ],
)


# --- wrong arguments --------------------------------------------------------------------------------------


@on_both
@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_value_is_refused_by_name(kind, of, rng):
    robot, (value, error) = model(of), WRONG[kind]
    for batch in ((), (11,), (2, 4)):
        right = states(VECTORS, rng, *batch, of=robot)
        for number, argument in enumerate(FUNCTIONS[VECTORS][1]):
            with pytest.raises(error, match=rf"^{argument}\b"):
                call(VECTORS, *replaced(right, number, value(right[number])), of=robot)
        assert np.isfinite(call(VECTORS, *right, of=robot)).all()  # negative control


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_names_its_arguments(name, rng):
    """By sizes of rows, which are refused before anything is compiled."""
    right = states(name, rng, 3)
    for number, argument in enumerate(FUNCTIONS[name][1]):
        for kind in ("one too few", "one too many"):
            with pytest.raises(ShapeError, match=rf"^{argument}\b"):
                call(name, *replaced(right, number, SIZES[kind](right[number])))


@each_form
def test_numbers_that_are_not_finite_are_named(name, of, rng):
    """By compiled code, which reads each vector of each function."""
    robot = model(of)
    for batch, row in (((), ()), ((11,), (10,)), ((2, 4), (0, 3))):
        right = states(name, rng, *batch, of=robot)
        for number, argument in enumerate(FUNCTIONS[name][1]):
            for entry in (0, right[number].shape[-1] - 1):
                wrong = right[number].copy()
                wrong[(*row, entry)] = np.nan
                with pytest.raises(NonFiniteError, match=rf"^{argument}\b"):
                    call(name, *replaced(right, number, wrong), of=robot)


@pytest.mark.parametrize("of", ["tree", "legged robot", "belt leg"])
def test_quaternions_of_another_norm_are_named(of, rng):
    robot = model(of)
    places = [*quaternions(robot).values()]
    assert places
    for batch, row in (((), ()), ((11,), (10,))):
        q, *rest = states(VECTORS, rng, *batch, of=robot)
        for at in places:
            for factor in OTHER_NORMS:
                wrong = q.copy()
                wrong[(*row, at)] *= factor
                with pytest.raises(PointError, match="norm"):
                    call(VECTORS, wrong, *rest, of=robot)
        accepted = q.copy()
        accepted[(*row, places[0])] *= -1.0  # the same rotation
        assert agree(call(VECTORS, accepted, *rest, of=robot), call(VECTORS, q, *rest, of=robot), 1e-11)


@pytest.mark.parametrize(
    ("function", "of"),
    [
        (mb.coriolis_matrix, "tree"),
        (mb.christoffel_symbols, "tree"),
        (mb.coriolis_product, "tree"),
        (mb.christoffel_symbols, "four-bar"),
    ],
)
def test_unknown_body_factor(function, of, rng):
    arguments = states(function.__name__, rng, of=model(of))
    for wrong in ("levi_civita", None, True, ["christoffel"], 1):
        with pytest.raises(ValueError, match=r"body_factor"):
            function(model(of), *arguments, body_factor=wrong)


@on_both
def test_batches_that_do_not_broadcast(of, rng):
    q, *rest = states(VECTORS, rng, 3, of=model(of))
    for number, argument in enumerate(rest):
        with pytest.raises(ShapeError, match=rf"\b{FUNCTIONS[VECTORS][1][number + 1]} \(2, "):
            call(VECTORS, q, *replaced(rest, number, np.stack([argument[0]] * 2)), of=model(of))


@on_both
def test_dask_arrays_have_the_same_errors(of, rng):
    """Sizes and types at the call, numbers where it is computed; `out` cannot be filled later."""
    robot = model(of)
    right = states(VECTORS, rng, 3, of=robot)
    lazy = [da.from_array(x, chunks=(2, -1)) for x in right]
    with pytest.raises(TypeError, match="out"):
        call(VECTORS, *lazy, of=robot, out=np.empty((3, *core_shape(VECTORS, robot))))
    for number, argument in enumerate(FUNCTIONS[VECTORS][1]):
        for wrong in (right[number][..., :-1], np.concatenate([right[number]] * 2, axis=-1)):
            for value in (wrong, da.from_array(wrong, chunks=-1)):
                with pytest.raises(ShapeError, match=rf"^{argument}\b"):
                    call(VECTORS, *replaced(lazy, number, value), of=robot)
        with pytest.raises(TypeError, match=rf"^{argument}\b"):
            call(VECTORS, *replaced(lazy, number, lazy[number] * 1j), of=robot)
        later = call(VECTORS, *replaced(lazy, number, lazy[number] * np.nan), of=robot)
        with pytest.raises(NonFiniteError, match=rf"^{argument}\b"):
            later.compute()


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
    out = np.zeros(core_shape(name, gimbals))
    inside = out.reshape(-1)[:3]
    inside[...] = locked  # what is written over it must not be taken for q where the joint is looked for
    with pytest.raises(MetricError, match="singular along joint '[xyz]'"):
        call(name, inside, *arguments, of=gimbals, out=out)


def test_next_to_a_singular_mass_matrix_everything_is_computed():
    gimbals, near = gimbal(), np.array([0.3, np.pi / 2 - 1e-4, 0.2])
    for q in (near, np.stack([near] * 10)):
        H, inverse = mb.mass_matrix(gimbals, q), mb.inverse_mass_matrix(gimbals, q)
        np.testing.assert_allclose(inverse @ H, np.broadcast_to(np.eye(3), H.shape), atol=1e-6)
        a = mb.forward_dynamics(gimbals, q, np.zeros(3), np.ones(3))
        tau = mb.inverse_dynamics(gimbals, q, np.zeros(3), a)
        np.testing.assert_allclose(tau, np.ones_like(tau), atol=1e-6)


# --- out --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "of"),
    [
        *((name, "tree") if name in ON_TREES else further(name, "tree") for name in FUNCTIONS),
        *((name, "four-bar") for name in SOME),
        further("inverse_dynamics_derivatives", "four-bar"),
        further("curvature", "four-bar"),
    ],
)
def test_out_is_filled_and_returned(name, of, rng):
    """Whatever it held; which entries a kernel leaves as they are, differs."""
    robot = model(of)
    for batch in ((), (1,), (8,), (3, 5)):
        arguments = states(name, rng, *batch, of=robot)
        expected = call(name, *arguments, of=robot)
        out = np.full((*batch, *core_shape(name, robot)), np.nan)
        assert call(name, *arguments, of=robot, out=out) is out
        np.testing.assert_array_equal(out, expected)
        others = states(name, rng, *batch, of=robot)
        call(name, *others, of=robot, out=out)
        np.testing.assert_array_equal(out, call(name, *others, of=robot))


@on_both
@pytest.mark.parametrize("error", [ShapeError, TypeError, ValueError])
def test_a_wrong_out_is_refused(error, of, rng):
    """Also where its size is right; the call changes nothing."""
    name, robot = "christoffel_symbols with torsion", model(of)
    for batch in ((), (3,)):
        arguments, shape = states(name, rng, *batch, of=robot), (*batch, *core_shape(name, robot))
        before = call(name, *arguments, of=robot)
        wrong = [kind.value(np.empty(shape)) for kind in WRONG_OUT.values() if kind.error is error]
        if error is ShapeError:
            wrong += [np.empty(other) for other in {*itertools.permutations(shape)}]
        refused = [out for out in wrong if not is_right(out, shape)]
        assert len(refused) > 2
        for out in refused:
            with pytest.raises(error, match=r"^out\b"):
                call(name, *arguments, of=robot, out=out)
        np.testing.assert_array_equal(call(name, *arguments, of=robot), before)


@each_order
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


@each_order
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
            assert np.shares_memory(given[LATE:] if start else given, out)
            call(name, *replaced(arguments, number, given), of=robot, out=out)
            assert agree(out, expected, 1e-14)  # loops that are functions are computed by JAX or by NumPy


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


@on_both
def test_any_layout_of_the_same_numbers_gives_the_same(of, rng):
    robot = model(of)
    for batch in ((), (5,)):
        arguments = states(VECTORS, rng, *batch, of=robot)
        expected = call(VECTORS, *arguments, of=robot)
        for layout in LAYOUTS.values():
            result = call(VECTORS, *[layout(x) for x in arguments], of=robot)
            assert type(result) is np.ndarray and result.dtype == np.float64 and result.flags.c_contiguous
            np.testing.assert_array_equal(result, expected)
            for number, argument in enumerate(arguments):
                mixed = replaced(arguments, number, layout(argument))
                np.testing.assert_array_equal(call(VECTORS, *mixed, of=robot), expected)


@on_both
def test_other_number_types_are_converted(of, rng):
    robot = model(of)
    for batch in ((), (3,)):
        arguments = states(VECTORS, rng, *batch, of=robot)
        single = [x.astype(np.float32) for x in arguments]
        exact = call(VECTORS, *[x.astype(np.float64) for x in single], of=robot)
        np.testing.assert_array_equal(call(VECTORS, *single, of=robot), exact)
        whole = [np.arange(robot.nv) - 3 for _ in arguments[1:]]
        floats = [x.astype(np.float64) for x in whole]
        np.testing.assert_array_equal(
            call(VECTORS, arguments[0], *whole, of=robot), call(VECTORS, arguments[0], *floats, of=robot)
        )
    if not robot.closed:  # a configuration of whole numbers
        neutral = [robot.neutral(), *floats]
        expected = call(VECTORS, *neutral, of=robot)
        np.testing.assert_array_equal(call(VECTORS, *[x.astype(int) for x in neutral], of=robot), expected)
