"""Finite numbers whose result is not: an error in every recursion, and the right result where there is one.

Results are looked at only if a number that was given, or one of the model, is above `tree.limit`; the bound
behind that (`tree_packing._limit`) is measured here for every function. What looks at results is rendered
from one template: each form of a row is tried here, and `tests/fuzz/test_recursions.py` draws the others.
"""

import numpy as np
import pytest
from cases import further
from recursion_functions import (
    MECHANISMS,
    ON_TREES,
    agree,
    call,
    core_shape,
    model,
    on_trees,
    overflows,
    states,
)
from recursion_values import overflowing

from connections import multibody as mb
from connections.checks import NonFiniteError
from connections.multibody.kernels.layout import CLUSTERS, PARAMETERS, TREE
from connections.multibody.program.compiled_functions import compiled
from connections.multibody.program.table import BODY_FACTOR, FRAME, FRAME_AND_AXES, RECURSIONS
from connections.multibody.program.tree_packing import _DEGREE

#: What is homogeneous in the vectors, apart from the result at rest: the powers of a factor of each vector,
#: and of the result.
HOMOGENEOUS = {
    "mass_matrix_rate": ((1,), 1),
    "coriolis_matrix": ((1,), 1),
    "coriolis_product": ((1, 1), 2),
    "coriolis_transpose_product": ((1, 1), 2),
    "coriolis_matrix_rate": ((1, 2), 2),
    "inverse_dynamics": ((1, 2), 2),
    "forward_dynamics": ((1, 2), 2),
    "nonlinear_effects": ((1,), 2),
    "regressor": ((1, 1, 2), 2),
    "curvature_operator": ((1,), 2),
    "frame_jacobian_rate": ((1,), 1),
}


@pytest.fixture
def two_threads(monkeypatch):
    before = mb.get_num_threads()
    monkeypatch.setattr("connections.engines.thread_chunks.WORTH_A_THREAD", 0.0)
    mb.set_num_threads(2)
    yield
    mb.set_num_threads(before)


@pytest.mark.parametrize(
    ("name", "of"),
    [
        *((name, "tree") for name in ("inverse_dynamics", "forward_dynamics", "frame_jacobian_rate")),
        further("coriolis_product with torsion", "tree"),
        further("regressor", "tree"),
        further("curvature_operator", "tree"),
        further("inverse_dynamics_derivatives", "tree"),
        further("inverse_dynamics_derivatives", "one joint"),
        ("inverse_dynamics", "four-bar"),
        further("forward_dynamics", "four-bar"),
        further("inverse_dynamics_derivatives", "four-bar"),  # reads rates of the loops' motion, too
        further("inverse_dynamics", "legged robot"),
        further("inverse_dynamics", "cam"),
    ],
)
def test_a_result_that_is_not_finite_is_an_error(name, of, rng, two_threads):
    """Of one configuration, or of any row, here or in another thread."""
    robot = model(of)
    for batch, row in (((), ()), ((11,), (10,)), ((2, 4), (1, 3)), ((300,), (3,)), ((300,), (290,))):
        right = states(name, rng, *batch, of=robot)
        expected = call(name, *right, of=robot)
        wrong = overflowing(right, row)
        out = np.empty((*batch, *core_shape(name, robot)))
        if overflows(name, robot):
            for options in ({}, {"out": out}):
                with pytest.raises(NonFiniteError, match=r"\bv\b"):
                    call(name, *wrong, of=robot, **options)
        else:  # negative control: none is refused for its size
            assert np.isfinite(call(name, *wrong, of=robot)).all()
        np.testing.assert_array_equal(call(name, *right, of=robot), expected)  # nothing stays in a workspace


@pytest.mark.parametrize(
    ("name", "of"),
    [
        *((name, "tree") if name in ON_TREES else further(name, "tree") for name in HOMOGENEOUS),
        *(further(f"{name} with torsion", "tree") for name in HOMOGENEOUS if name.startswith("coriolis")),
        ("inverse_dynamics", "four-bar"),
        further("coriolis_matrix_rate", "four-bar"),
    ],
)
def test_large_numbers_whose_result_is_finite_are_right(name, of, rng):
    """Vectors 2^60 times as large, above every limit: what is homogeneous in them has the same digits."""
    robot, (powers, power) = model(of), HOMOGENEOUS[name.removesuffix(" with torsion")]
    for batch in ((), (11,)):
        q, *vectors = states(name, rng, *batch, of=robot)
        at_rest = call(name, q, *[0.0 * x for x in vectors], of=robot)
        moving = call(name, q, *vectors, of=robot) - at_rest
        large = [2.0 ** (60 * own) * x for own, x in zip(powers, vectors, strict=True)]
        result = call(name, q, *large, of=robot)
        assert agree(result, at_rest + 2.0 ** (60 * power) * moving, 1e-11)
        assert not agree(result, at_rest + 2.0 ** (60 * power + 1) * moving, 1e-2)  # negative control


def slider(gravity=(0.0, 0.0, -9.81)):
    """A bar that turns about y, and a bead of 2 kg at the distance q_1 along it."""
    mechanism = mb.Mechanism()
    for name in ("bar", "bead"):
        body = {"mass": 2.0, "center_of_mass": np.zeros(3), "inertia": np.diag([0.1, 0.2, 0.3])}
        mechanism.add_body(name, **body)
    mechanism.add_joint("turn", "world", "bar", mb.Revolute([0.0, 1.0, 0.0]))
    mechanism.add_joint("slide", "bar", "bead", mb.Prismatic([1.0, 0.0, 0.0]))
    return mechanism.build(gravity=gravity)


@pytest.mark.parametrize("batch", [(), further((11,)), further((300,))])
def test_a_length_in_q_may_be_too_large(batch, rng, two_threads):
    """2 r^2 overflows, or is right: then 2 r is the only Christoffel symbol, up to its sign."""
    robot = slider()
    q, v = rng.standard_normal((*batch, 2)), np.ones((*batch, 2))
    far = (*(0 for _ in batch), 1)
    vectors = {
        mb.mass_matrix: 0,
        mb.inverse_mass_matrix: 0,
        mb.christoffel_symbols: 0,
        mb.coriolis_matrix: 1,
        mb.inverse_dynamics: 2,
        mb.forward_dynamics: 2,
        mb.inverse_dynamics_derivatives: 2,
    }
    q[far] = 1e160
    for function, count in vectors.items():
        with pytest.raises(NonFiniteError, match=r"\bq\b"):
            function(robot, q, *[v] * count)
    q[far] = 1e120
    for function, count in vectors.items():
        assert np.isfinite(function(robot, q, *[v] * count)).all()
    largest = np.abs(mb.christoffel_symbols(robot, q)).max()
    assert abs(largest / 2e120 - 1.0) < 1e-12
    assert abs(mb.mass_matrix(robot, q).max() / 2e240 - 1.0) < 1e-12


def test_numbers_of_a_model_may_be_too_large():
    """Here its gravity; so all results of this model are looked at."""
    robot, q = slider((0.0, 0.0, -2e307)), np.array([0.3, 20.0])
    for batch in ((), (9,)):
        many = np.broadcast_to(q, (*batch, 2))
        with pytest.raises(NonFiniteError, match="gravity"):
            mb.gravity(robot, many)
        assert np.isfinite(mb.mass_matrix(robot, many)).all()
        assert np.isfinite(mb.gravity(robot, 1e-3 * many)).all()
    memory = robot.program.memory
    memory[TREE.read(memory, "limit")] = 1e9  # negative control: as if the model were an ordinary one
    assert not np.isfinite(mb.gravity(robot, q)).all()


def chosen_in(program, row):
    """What compiled code takes where the caller has a choice: the factor with torsion, the last frame."""
    chosen = {BODY_FACTOR: "force_cross", FRAME: "tip", FRAME_AND_AXES: ("tip", "world")}
    return [program.choices[row.choice][chosen[row.choice]]] if row.choice else []


@on_trees([name for name, row in RECURSIONS.items() if not row.inverse])
def test_no_result_below_the_limit_overflows(name, rng):
    """Every number that is given, and every one of the model, is X, of any sign.

    Results are below the bound, and grow by at most X^19 from one X to the next; negative control: some grow
    by more than X^6, so that the degree is measured. Results with a division are always looked at, and so are
    those of closed chains by the definition.
    """
    degrees = {of: degree_of(name, model(of), rng) for of in MECHANISMS if has_kernel(name, of)}
    assert max(degrees.values()) <= _DEGREE
    if name == "inverse_dynamics_derivatives":
        assert degrees["tree"] > 6.0


def has_kernel(name, of):
    """Whether compiled code computes it; cams are solved elsewhere, and have the kernels of other loops."""
    return of != "cam" and not (model(of).closed and RECURSIONS[name].closed is None)


def degree_of(name, robot, rng):
    """By which power of X the result grows; it is asserted that it is below the bound."""
    row, program = RECURSIONS[name], robot.program
    memory, *others = (x.copy() for x in program.arrays)
    n, first = robot.nv, TREE.read(memory, "parameters")
    links, nv = TREE.read(memory, "links"), TREE.read(memory, "nv")
    parameters = memory[first : first + (links + 1) * PARAMETERS.size].reshape(links + 1, -1)
    numbers = [*range(PARAMETERS.position, PARAMETERS.axes)]
    signs = rng.choice([-1.0, 1.0], (links + 1, len(numbers)))
    given = [rng.choice([-1.0, 1.0], (4, n)) for _ in row.vectors]
    if robot.closed:
        solution = program.loops.solve(robot.neutral())
        q_signs = rng.choice([-1.0, 1.0], solution.size)
    limit = 10.0 ** (300.0 / _DEGREE) / (100.0 * (links + 1 + nv))
    sizes = {}
    for X in (limit, 1e-2 * limit):
        parameters[:, numbers] = X * signs
        parameters[:, PARAMETERS.mass] = X  # their sum, by which moments are divided, has no cancellation
        parameters[0, :3] = X
        memory[TREE.read(memory, "limit")] = np.inf
        if robot.closed:
            q = np.where(np.arange(solution.size) < program.loops.layout.nq, solution, X * q_signs)
            q[: program.loops.layout.nq] = lengths(
                robot.kinematics.spanning, solution[: program.loops.layout.nq], X
            )
        else:
            q = lengths(robot.kinematics, states("gravity", rng, of=robot)[0], X)
        vectors = [X * x[0] for x in given]
        if robot.closed and row.bias_rates:
            vectors.append(np.full(CLUSTERS.read(others[1], "G_size"), X))
        out = np.zeros(core_shape(name, robot))
        entry = compiled.require(f"closed_{name}_at" if robot.closed else f"{name}_at")
        solved = (True,) * robot.closed
        chosen = chosen_in(program, row)
        assert entry(memory, *others, *solved, q, *vectors, *chosen, out)
        assert np.isfinite(out).all()
        sizes[X] = np.abs(out).max(initial=0.0)
        assert sizes[X] <= (100.0 * (links + 1 + nv) * X) ** _DEGREE
    large, small = sizes.values()
    return np.log(large / small) / np.log(1e2) if small else 0.0


def lengths(kinematics, q, size):
    """A copy of q with this size in place of every length and angle; quaternions stay."""
    large = np.full_like(q, size)
    for _, at in kinematics.quaternions:
        large[at] = q[at]
    return large
