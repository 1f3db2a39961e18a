"""Finite numbers whose result is not: an error in every recursion, and the right result where there is one.

Results are looked at only if a number that was given, or one of the model, is above `tree.limit`; the bound
behind that (`tree_packing._limit`) is measured here.
"""

import numpy as np
import pytest
import recursion_functions
from cases import further
from recursion_functions import FUNCTIONS, agree, call, core_shape, model, states

from connections import multibody as mb
from connections.checks import NonFiniteError
from connections.multibody.kernels.layout import CLUSTERS, PARAMETERS, TREE
from connections.multibody.program.compiled_functions import compiled
from connections.multibody.program.table import BODY_FACTOR, FRAME, FRAME_AND_AXES, RECURSIONS
from connections.multibody.program.tree_packing import _DEGREE

# From the last to the first: in another process, test_recursions_input.py compiles them from the first.
each_case = recursion_functions.each_case([*reversed(FUNCTIONS)])
#: These are not quadratic in vectors, all vectors together.
LINEAR = {name for name, (_, names, _) in FUNCTIONS.items() if len(names) <= 2} - {
    "nonlinear_effects",
    "momentum_regressor",
    "curvature_operator",
}
#: Of these, what is quadratic in velocities vanishes if there is one joint.
COUPLED = {
    *(f"{dynamics}_dynamics_derivatives" for dynamics in ("inverse", "forward")),
    *(f"{dynamics}_dynamics_second_derivatives" for dynamics in ("inverse", "forward")),
    "momentum_regressor",
}


@pytest.fixture
def two_threads(monkeypatch):
    before = mb.get_num_threads()
    monkeypatch.setattr("connections.engines.thread_chunks.WORTH_A_THREAD", 0.0)
    mb.set_num_threads(2)
    yield
    mb.set_num_threads(before)


def with_row(arguments, row, others):
    """The arguments with the row, or the whole single ones, of others."""
    arguments = [x.copy() for x in arguments]
    for x, other in zip(arguments, others, strict=True):
        x[row] = other[row]
    return arguments


@each_case
@pytest.mark.parametrize(
    ("batch", "row"), [((), ()), ((11,), (10,)), further((2, 4), (1, 3)), further((300,), (290,))]
)
def test_a_result_that_is_not_finite_is_an_error(name, of, batch, row, rng, two_threads):
    """All vectors are 1e160: what is quadratic in velocities, or a product of two of them, overflows."""
    robot = model(of)
    right = states(name, rng, *batch, of=robot)
    expected = call(name, *right, of=robot)
    vectors = [np.full_like(x, 1e160) for x in right[1:]]
    wrong = with_row(right, row, [right[0], *vectors])
    out = np.empty((*batch, *core_shape(name, robot)))
    if name not in LINEAR and not (robot.nv == 1 and name in COUPLED and not robot.closed):
        for options in ({}, {"out": out}):
            with pytest.raises(NonFiniteError, match=r"\bv\b"):
                call(name, *wrong, of=robot, **options)
    else:  # negative control: none is refused for its size (one joint has no Coriolis terms)
        assert np.isfinite(call(name, *wrong, of=robot)).all()
    np.testing.assert_array_equal(call(name, *right, of=robot), expected)  # nothing stays in a workspace


@each_case
def test_large_numbers_whose_result_is_finite_are_right(name, of, rng):
    """Vectors 2^60 times as large, above every limit: what is homogeneous in them has the same digits."""
    robot = model(of)
    for batch in ((), (11,)):
        q, *vectors = states(name, rng, *batch, of=robot)
        large = [2.0**60 * x for x in vectors]
        result = call(name, q, *large, of=robot)
        assert np.isfinite(result).all()
        if name.startswith("coriolis_matrix_rate"):  # linear in a, and quadratic in v
            large = call(name, q, large[0], 2.0**60 * large[1], of=robot)
            assert agree(large, 2.0**120 * call(name, q, *vectors, of=robot), 1e-11)
        elif name == "curvature_operator":
            assert agree(result, 2.0**120 * call(name, q, *vectors, of=robot), 1e-11)
        elif name.startswith(("coriolis_matrix", "mass_matrix_rate")):
            assert agree(result, 2.0**60 * call(name, q, *vectors, of=robot), 1e-11)
        if name.startswith("coriolis") and "product" in name:
            assert agree(result, 2.0**120 * call(name, q, *vectors, of=robot), 1e-11)


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


@recursion_functions.each_case([name for name, row in RECURSIONS.items() if not row.inverse])
def test_no_result_below_the_limit_overflows(name, of, rng):
    """Every number that is given, and every one of the model, is X, of any sign.

    Results are below the bound, and grow by at most X^19 from one X to the next; negative control: some grow
    by more than X^6, so that the degree is measured. Results with a division are always looked at.
    """
    row, robot = RECURSIONS[name], model(of)
    if robot.closed and row.closed is None:
        return  # by the definition, whose results are always looked at
    program = robot.program
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
        parameters[:, PARAMETERS.mass] = (
            X  # a sum of masses, by which moments are divided, has no cancellation
        )
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
    degree = np.log(large / small) / np.log(1e2) if small else 0.0
    assert degree <= _DEGREE
    if name == "inverse_dynamics_derivatives" and of == "tree":
        assert degree > 6.0


def lengths(kinematics, q, size):
    """A copy of q with this size in place of every length and angle; quaternions stay."""
    large = np.full_like(q, size)
    for _, at in kinematics.quaternions:
        large[at] = q[at]
    return large
