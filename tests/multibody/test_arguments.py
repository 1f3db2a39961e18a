"""Arguments of what takes a configuration and is no recursion; and solutions of loops, which are none.

The recursions have `test_recursions_input`.
"""

from functools import partial

import dask.array as da
import jax
import numpy as np
import pytest
from cases import further
from closed_chains import PLANS, four_bar
from recursion_functions import FUNCTIONS, SOME, configurations, model, states

from connections import multibody as mb
from connections.checks import ConstraintError, NonFiniteError, ShapeError

#: Name: the function, and its arguments after the model; those that begin with q are configurations.
OTHERS = {
    "linearize": (mb.linearize, ("q", "v", "tau")),
    "linearize over a step": (lambda *x: mb.linearize(*x, step=0.1), ("q", "v", "tau")),
    "curvature_with_torsion": (mb.curvatures.curvature_with_torsion, ("q",)),
    "ricci": (mb.curvatures.ricci, ("q",)),
    "scalar_curvature": (mb.curvatures.scalar_curvature, ("q",)),
    "body_jacobians": (mb.body_jacobians, ("q",)),
    "spanning_configuration": (mb.Model.spanning_configuration, ("q",)),
    "difference": (mb.difference, ("q0", "q1")),
    "displace": (mb.displace, ("q", "xi")),
    "finite_differences": (lambda m, q: differences_of_gravity(m, q), ("q",)),
    "audit_coriolis": (lambda m, *x: mb.audit_coriolis(m, partial(mb.coriolis_matrix, m), *x), ("q", "v")),
    "metric": (lambda m, q: m.definition.metric.matrix(q), ("q",)),
    "recursive metric": (lambda m, q: m.connection.metric.matrix(q), ("q",)),
    "recursive coefficients": (lambda m, q: m.connection.coefficients(q), ("q",)),
    "recursive apply": (lambda m, *x: m.connection.apply(*x), ("q", "v", "w")),
    "forms": (lambda m, q: mb.independent_forms(blade(m), q), ("q",)),
}
each_function = pytest.mark.parametrize("name", OTHERS)
each_mechanism = pytest.mark.parametrize("of", ["tree", "belt leg"])


def differences_of_gravity(robot, q, step=1e-3):
    return mb.finite_differences(robot, partial(mb.gravity, robot), q, step)


def blade(robot):
    """A knife edge on the last body, as one-forms."""
    return mb.rolling_forms(robot, [mb.Blade(robot.body_names[-1])])


def arguments_of(name, robot, rng):
    q, v = configurations(robot, rng)
    return [q if argument.startswith("q") else v for argument in OTHERS[name][1]]


# --- a solution of the loops is no configuration ------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "names"),
    [
        pytest.param(
            plan, SOME, marks=[] if plan in ("gear train", "four-bar") else [pytest.mark.further], id=plan
        )
        for plan in PLANS
    ]
    + [further("four-bar", tuple(FUNCTIONS), id="four-bar, every function")],
)
def test_a_solution_of_the_loops_is_no_configuration(plan, names, rng):
    """Nor is any other vector of another size, whatever numbers are in it."""
    robot = model(plan)
    q, v = np.array(robot.neutral()), rng.standard_normal(robot.nv)
    solution = robot.program.loops.solve(q)
    assert np.isfinite(solution).all() and len(solution) == robot.program.loops.size > robot.nq
    sizes = (robot.program.loops.layout.nq, len(robot.kinematics.reference), robot.nq + 1, robot.nq - 1)
    vectors = [rng.normal(size=size) for size in {*sizes, robot.program.loops.size} - {robot.nq}]
    for wrong in (solution, np.tile(solution, (3, 1)), np.tile(solution, (2, 9, 1)), *vectors):
        for name in names:
            function, arguments, _ = FUNCTIONS[name]
            with pytest.raises(ShapeError, match=r"\bq\b"):
                function(robot, wrong, *[v] * (len(arguments) - 1))
            with pytest.raises(ShapeError, match=r"\bq\b"):
                function(robot, da.from_array(wrong), *[v] * (len(arguments) - 1))
        for function, arguments in OTHERS.values():
            for number, argument in enumerate(arguments):
                if argument.startswith("q"):
                    right = [q if other.startswith("q") else v for other in arguments]
                    with pytest.raises(ShapeError, match=rf"\b{argument}\b"):
                        function(robot, *right[:number], wrong, *right[number + 1 :])


@pytest.mark.further
@pytest.mark.parametrize("plan", ["gear train", "four-bar"])
def test_inside_compiled_functions_a_solution_is_no_configuration(plan, rng):
    """Where no shape is checked before, the result is NaN."""
    robot = model(plan)
    q, _ = configurations(robot, rng)
    matrix = jax.jit(lambda q: robot.traced("mass_matrix", q))
    np.testing.assert_allclose(matrix(q), mb.mass_matrix(robot, q), rtol=1e-13)
    solution = robot.program.loops.solve(q)
    if plan == "four-bar":  # whose loops are solved first
        with pytest.raises(ShapeError, match=r"\bq\b"):
            matrix(solution)
    else:
        assert np.isnan(matrix(solution)).all()


# --- the other functions ------------------------------------------------------------------------------------


@each_mechanism
@each_function
def test_wrong_arguments_are_named(name, of, rng):
    robot, (function, names) = model(of), OTHERS[name]
    right = arguments_of(name, robot, rng)
    for number, argument in enumerate(names):
        good = right[number]
        wrong = [
            good[:-1],
            np.concatenate([good, good[:1]]),
            np.zeros(()),
            1.0,
            [],
            np.tile(good[:-1], (3, 1)),
        ]
        wrong += [np.zeros(1), [0.5]] if len(good) > 1 else []
        for value in wrong:
            with pytest.raises(ShapeError, match=rf"\b{argument}\b"):
                function(robot, *right[:number], value, *right[number + 1 :])
        for value in ("text", good * 1j, [object()] * len(good), {}):
            with pytest.raises((TypeError, ShapeError), match=rf"\b{argument}\b"):
                function(robot, *right[:number], value, *right[number + 1 :])
        for value in (np.nan, np.inf):
            unfinished = good.copy()
            unfinished[-1] = value
            with pytest.raises(NonFiniteError, match=rf"\b{argument}\b"):
                function(robot, *right[:number], unfinished, *right[number + 1 :])


@pytest.mark.parametrize("name", ["difference", "displace"])
def test_batches_that_do_not_broadcast(name, rng):
    for of in ("tree", "four-bar"):
        q, v = configurations(model(of), rng, 3)
        vectors = [q if argument.startswith("q") else v for argument in OTHERS[name][1]]
        with pytest.raises(ShapeError, match="batch axes"):
            OTHERS[name][0](model(of), vectors[0], vectors[1][:2])


def test_forms_are_asked_where_they_exist(rng):
    robot = model("four-bar")
    q, _ = configurations(robot, rng, 2)
    swept = mb.rolling_forms(robot, [mb.Blade("bar rocker", (0, 1, 0), (0.5, 0, 0))])
    assert mb.independent_forms(swept, q).rows == (0,)
    for forms in (blade(robot), mb.momentum_forms(model("legged robot"))):
        with pytest.raises(ShapeError, match=r"\bq\b"):
            jax.jit(forms)(np.zeros(99))
    with pytest.raises(ShapeError, match="at least one point"):
        mb.independent_forms(blade(robot), np.zeros((0, 1)))
    rocking = four_bar(
        bars=(1.0, 0.8, 0.5, 0.6), crank=0.5
    ).build()  # the crank cannot turn all the way round
    with pytest.raises(ConstraintError, match="not finite at q = .3.14"):
        mb.independent_forms(blade(rocking), [[0.5], [np.pi]])


@pytest.mark.parametrize("step", [0.0, -1.0, np.nan, np.inf, "long", [1.0, 2.0], 1j])
def test_steps(step, rng):
    robot = model("one joint")
    q, v = configurations(robot, rng)
    for call in (
        lambda: differences_of_gravity(robot, q, step),
        lambda: mb.zero_order_hold(np.eye(2), np.ones((2, 1)), step),
        lambda: mb.linearize(robot, q, v, v, step=step),
    ):
        with pytest.raises(ValueError, match="step"):
            call()


def test_functions_that_are_differenced_give_a_row_for_each_configuration(rng):
    robot = model("tree")
    q, _ = configurations(robot, rng)
    for wrong in (lambda p: p[0], lambda p: p[:-1], lambda p: 1.0, lambda p: p[:, : len(p)].T[:3]):
        with pytest.raises(ShapeError, match="function"):
            mb.finite_differences(robot, wrong, q, 1e-3)
        with pytest.raises(ShapeError, match="function"):
            mb.finite_differences(robot, wrong, q, 1e-3, central=False)
    with pytest.raises(TypeError, match="function"):
        mb.finite_differences(robot, lambda p: "text", q, 1e-3)


def test_pairs_that_are_held(rng):
    A, B = rng.normal(size=(3, 4, 4)), rng.normal(size=(3, 4, 2))
    for wrong, name in (
        ((A[:, :3], B), "A"),
        ((A, B[:, :3]), "B"),
        ((A, B[:2]), "batch axes"),
        ((A, 1.0), "B"),
    ):
        with pytest.raises(ShapeError, match=name):
            mb.zero_order_hold(*wrong, 0.1)
    assert all(part.shape[0] == 3 for part in mb.zero_order_hold(A, B[0], 0.1))


def test_a_point_is_explained_at_one_configuration(rng):
    for of in ("tree", "four-bar"):
        robot = model(of)
        (q,) = states("mass_matrix", rng, of=robot)
        assert robot.explain(q) is None
        for wrong in (q[:-1], np.concatenate([q, q]), q[None], 1.0):
            with pytest.raises(ShapeError, match=r"\bq\b"):
                robot.explain(wrong)
