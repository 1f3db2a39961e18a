"""No operation of LAPACK waits for threads: no batch is cut, and results are those of single matrices."""

import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsp
import numpy as np
import pytest
from cases import always, further
from jax._src.lax import linalg
from jax.interpreters import mlir
from public_calls import ARGUMENTS, CALLS

import connections as cn
from connections import control, estimation
from connections import multibody as mb
from connections.engines.internals import lapack_batches

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Functions of square matrices a and b, which call all operations.
FUNCTIONS = {
    "cholesky": lambda a, b: jnp.linalg.cholesky(a @ a.T),
    "eig": lambda a, b: jnp.linalg.eigvals(a),
    "eigh": lambda a, b: jnp.linalg.eigh(a + a.T),
    "expm": lambda a, b: jsp.expm(a),
    "hessenberg": lambda a, b: jax.lax.linalg.hessenberg(a),
    "inverse": lambda a, b: jnp.linalg.inv(a),
    "least squares": lambda a, b: jnp.linalg.lstsq(a, b)[0],
    "left and right": lambda a, b: jnp.linalg.solve(a, b.T) + jnp.linalg.solve(a.T, b).T,
    "lu": lambda a, b: jsp.lu_factor(a),
    "multiplied": lambda a, b: jax.lax.linalg.ormqr(a, b[0], b),
    "pivots": lambda a, b: jsp.qr(a, pivoting=True),
    "qr": lambda a, b: jnp.linalg.qr(a),
    "qr, complete": lambda a, b: jnp.linalg.qr(a[:, : len(a) // 2 + 1], mode="complete"),
    "schur": lambda a, b: jsp.schur(a),
    "singular values": lambda a, b: jnp.linalg.svd(a),
    "tridiagonal": lambda a, b: jax.lax.linalg.tridiagonal(a + a.T)[0],
    "tridiagonal system": lambda a, b: jax.lax.linalg.tridiagonal_solve(a[0], a[1], a[2], b),
}
COMPLEX = ["cholesky", "eigh", "inverse", "lu", "qr", "schur", "singular values"]


def matrices(rng, *shape, dtype=float):
    n = shape[-1]
    found = rng.standard_normal(shape) / np.sqrt(n) + 2.0 * np.eye(n)
    return found + 1j * rng.standard_normal(shape) / np.sqrt(n) if dtype is complex else found


def estimate(target, shapes, complex_numbers):
    """The number of matrices, and the cost of one, as jaxlib 0.10.2 estimates it (lapack_kernels.cc)."""
    first, last = shapes[0], shapes[-1]
    rows, columns = first[-2:] if len(first) > 1 else (first[-1], first[-1])  # a diagonal
    m, n, k = rows, columns, min(rows, columns)
    sizes = {
        "trsm": lambda: last[-2] * last[-1] * m,
        "getrf": lambda: m * n * k,
        "geqrf": lambda: 2 * m * n * k - 2 * k**3 // 3,
        "geqp3": lambda: 2 * m * n * k - 2 * k**3 // 3,
        "orgqr": lambda: 4 * m * n * last[-1] - 2 * last[-1] ** 2 * (m + n) + 4 * last[-1] ** 3 // 3,
        "ormqr": lambda: 4 * shapes[1][-1] * last[-2] * last[-1] - 2 * shapes[1][-1] ** 2 * last[-2],
        "potrf": lambda: m**3 // 3,
        "gesdd": lambda: 10 * m * n * k,
        "gesvd": lambda: 10 * m * n * k,
        "syevd": lambda: 5 * n**3,
        "heevd": lambda: 4 * n**3,
        "geev": lambda: 10 * n**3,
        "gees": lambda: 5 * n**3,
        "gehrd": lambda: 2 * n**3,
        "sytrd": lambda: 4 * n**3 // 3,
        "gtsv": lambda: 5 * last[-2] * last[-1],
    }
    name = re.fullmatch(r"lapack_[sdcz](\w+)_ffi", target)[1].replace("ungqr", "orgqr")
    batch = (last if name in ("trsm", "gtsv") else first)[:-2]
    return int(np.prod(batch)), sizes[name]() * (3 if complex_numbers else 1)


def calls(function, *arguments):
    """Of all calls of LAPACK: the target, the shapes of its arguments, and the estimate for the batch."""
    text = jax.jit(function).lower(*arguments).as_text()
    found = []
    for target, types in re.findall(r"stablehlo\.custom_call @(lapack_\w+)\(.*?\) .*: \((.*?)\) ->", text):
        shapes = [
            tuple(map(int, re.findall(r"(\d+)x", kind))) for kind in re.findall(r"tensor<(.*?)>", types)
        ]
        found.append((target, shapes, estimate(target, shapes, "complex" in types)))
    return found


def require_whole(found):
    for target, shapes, (number, each) in found:
        assert number == 1 or number * each < 200_000, (target, shapes)


def test_every_operation_of_lapack_is_there():
    names = {name for name in dir(linalg) if name.endswith("_p")}
    ours = {getattr(linalg, name) for name in names} & set(mlir._platform_specific_lowerings["cpu"])
    assert ours == set(lapack_batches.FACTORS)


@pytest.mark.parametrize("n", [6, further(3), 24, further(40)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_batch_is_cut(rng, name, n):
    for dtype in (float, complex) if name in COMPLEX else (float,):
        a, b = matrices(rng, 2, 1009, n, n, dtype=dtype)
        found = calls(jax.vmap(FUNCTIONS[name]), a, b)
        assert found
        require_whole(found)
    # The control: the estimate of the whole batch, as jaxlib lowers it, is larger.
    number, each = estimate(*found[0][:2], dtype is complex)
    assert n < 24 or 1009 * each >= 200_000, (number, each)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_single_matrices(rng, name):
    """301 of 12 rows are several batches, which have some matrices twice, so that all are alike."""
    a, b = matrices(rng, 2, 7, 43, 12, 12)
    function = jax.jit(FUNCTIONS[name])
    found = jax.tree.leaves(jax.vmap(jax.vmap(function))(a, b))
    for place in ((0, 0), (3, 17), (6, 42)):
        for array, expected in zip(found, jax.tree.leaves(function(a[place], b[place])), strict=True):
            np.testing.assert_allclose(array[place], expected, rtol=1e-12, atol=1e-13)


def test_results_are_those_of_numpy_with_derivatives(rng):
    a, b = matrices(rng, 2, 300, 12, 12)
    np.testing.assert_allclose(jax.vmap(jnp.linalg.solve)(a, b), np.linalg.solve(a, b), rtol=1e-11)
    np.testing.assert_array_equal(jnp.linalg.inv(a), [np.asarray(jnp.linalg.inv(each)) for each in a])
    slopes = jax.vmap(jax.grad(lambda each: jnp.linalg.slogdet(each)[1]))(a)
    np.testing.assert_allclose(slopes, np.linalg.inv(a).swapaxes(1, 2), rtol=1e-10, atol=1e-13)
    bends = jax.vmap(lambda each, w: jax.jvp(lambda x: jnp.linalg.inv(x), (each,), (w,))[1])(a, b)
    np.testing.assert_allclose(bends, -np.linalg.inv(a) @ b @ np.linalg.inv(a), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n, columns", [(9, 225), (40, 40), (3, 1024), (64, 16), further(64, 200)])
def test_threads_of_openblas_get_no_small_system(rng, n, columns):
    a, b = np.tril(matrices(rng, n, n)), rng.standard_normal((n, columns))
    for function, right in (
        (lambda a, b: jsp.solve_triangular(a, b, lower=True), b),
        (lambda a, b: jax.lax.linalg.triangular_solve(a, b, lower=True), np.linalg.solve(a, b).T @ a.T @ a),
    ):
        found = calls(function, a, right)
        assert found and all(np.prod(shapes[1]) < 1024 for _, shapes, _ in found)
        expected = np.linalg.solve(a, b) if right is b else np.linalg.solve(a.T, right.T).T
        np.testing.assert_allclose(jax.jit(function)(a, right), expected, rtol=1e-9, atol=1e-12)
    several = jax.vmap(lambda b: jsp.solve_triangular(a, b, lower=True))
    np.testing.assert_allclose(
        several(np.stack([b, 2.0 * b]))[1], 2.0 * np.linalg.solve(a, b), rtol=1e-9, atol=1e-12
    )


def test_large_systems_keep_their_threads(rng):
    a, b = np.tril(matrices(rng, 65, 65)), rng.standard_normal((65, 300))
    (call,) = calls(lambda a, b: jsp.solve_triangular(a, b, lower=True), a, b)
    assert call[1] == [(65, 65), (65, 300)]


@pytest.mark.parametrize("sizes", ["m, 4, 4", "m, n, n", "4, 4"])
def test_sizes_may_be_symbols(rng, sizes):
    shape = jax.ShapeDtypeStruct(jax.export.symbolic_shape(sizes), float)
    function = jax.jit(lambda a: jnp.linalg.qr(jnp.linalg.solve(a, a @ a))[1])
    a = matrices(rng, *((5000, 4, 4) if "m" in sizes else (4, 4)))
    exported = jax.export.export(function)(shape)
    np.testing.assert_allclose(exported.call(a), function(a), rtol=1e-12, atol=1e-13)


def rigid_motions():
    turns = np.zeros((3, 4, 4))
    for i, (j, k) in enumerate(((1, 2), (2, 0), (0, 1))):
        turns[i, k, j], turns[i, j, k] = 1.0, -1.0
    shifts = np.zeros((3, 4, 4))
    shifts[range(3), range(3), 3] = 1.0
    return cn.MatrixLieGroup(np.concatenate([turns, shifts]))


RIGID = rigid_motions()
LEFT = cn.LeviCivita(cn.LeftInvariantMetric(RIGID, np.diag([1.0, 2.0, 3.0, 1.0, 1.5, 2.0])))
SENSOR = estimation.Sensor(lambda q: q[:4] + q[8:12] ** 2, 0.1 * np.eye(4))
FILTER = estimation.Filter(RIGID, noise=0.01 * np.eye(6))
ORIGIN = jnp.eye(4).reshape(-1)


def filtered(v):
    estimate = FILTER.predict(estimation.Estimate(ORIGIN, np.eye(6)), v, 0.1)
    return FILTER.update(estimate, jnp.ones(4), SENSOR)[0].P


#: Functions of v (6,), a velocity of rigid motions, in which matrices have six rows and more.
OF_RIGID_MOTIONS = {
    "curvature": lambda v: LEFT.curvature_at(ORIGIN + 0.01 * v[0]),
    "filter": filtered,
    "geodesic": lambda v: cn.geodesic(LEFT, ORIGIN, v, [0.0, 1.0]).q,
    "linearization": lambda v: cn.linearize(LEFT, ORIGIN, v),
    "logarithm": lambda v: cn.logarithm(LEFT, ORIGIN, RIGID.exponential(v)),
    "simulate": lambda v: cn.MechanicalSystem(LEFT.metric).simulate(ORIGIN, v, [0.0, 1.0], lambda *s: s[2]).v,
    "variational step": lambda v: (
        cn.MechanicalSystem(cn.ConstantMetric(cn.SE3Frame(), np.diag([1.0, 2.0, 3.0, 1.0, 1.5, 2.0])))
        .simulate(np.eye(7)[6], v, [0.0, 0.1], method="variational", step=0.1)
        .v
    ),
}


@pytest.mark.parametrize("name", always(OF_RIGID_MOTIONS, "curvature", "linearization"))
def test_nothing_of_rigid_motions_cuts_a_batch(name):
    found = calls(jax.vmap(OF_RIGID_MOTIONS[name]), jax.ShapeDtypeStruct((20_011, 6), float))
    require_whole(found)
    # The control: it calls LAPACK, and the whole batch would be cut.
    assert max(20_011 * each for _, _, (_, each) in found) > 200_000


#: Public functions of `public_calls` that call LAPACK under `vmap`.
WITH_LAPACK = (
    *("FrameField.structure_functions", "FrameField.bracket", "FrameField.change", "MatrixLieGroup.inverse"),
    *("MatrixLieGroup.adjoint", "AffineConnection.change", "decompose", "geodesic_stability"),
    *(f"AffineInvariantMetric.{name}" for name in ("distance", "exponential", "logarithm", "mean")),
    *("ConstrainedConnection.orthonormalized", "task_space_coriolis_matrix", "task_space_inclusion"),
    *("NonholonomicSystem.simulate", "ReducedSystem.simulate", "ReducedSystem.reconstruct"),
)


@pytest.mark.parametrize("name", always(WITH_LAPACK, "MatrixLieGroup.inverse", "task_space_inclusion"))
def test_no_public_function_cuts_a_batch(name):
    call = CALLS[name]
    arrays = [jax.ShapeDtypeStruct((20_011, *ARGUMENTS[own].shape[1:]), float) for own in call.names]
    found = calls(jax.vmap(call.function), *arrays)
    assert found
    require_whole(found)


ARM, LINKAGE = mb.example("arm"), mb.example("four_bar")
FIVE = cn.MechanicalSystem(
    cn.MatrixMetric(cn.CoordinateFrame(5), lambda q: jnp.eye(5) + jnp.outer(jnp.sin(q), jnp.sin(q)))
)
STILL = control.trajectory_reference(FIVE.frame, lambda t: jnp.sin(t) * jnp.ones(5), 2.0)
LAW = control.PassivityController(FIVE, 0.4)


def slopes(q, v, tau):
    """The forward dynamics with first and second derivatives, which are recursions of their own."""
    value = lambda v: mb.forward_dynamics(ARM, q, v, tau)  # noqa: E731
    return value(v), jax.jacfwd(jax.jacrev(value))(v)


def placed(q, v, tau):
    first = next(iter(ARM.placements))
    robot = ARM.with_placements({first: jnp.eye(4).at[0, 3].set(q[0])})
    return mb.forward_dynamics(robot, q, v, tau)


#: Functions of robots, of laws and of filters, the sizes of their arguments, and whether they call LAPACK.
OF_ROBOTS = {
    "forward dynamics": (slopes, (6, 6, 6), False),
    "forward dynamics of placements": (placed, (6, 6, 6), True),
    "forward dynamics of a loop": (lambda q, v, u: mb.forward_dynamics(LINKAGE, q, v, u), (1, 1, 1), False),
    "variational step of a loop": (lambda q, v: mb.variational_step(LINKAGE, q, v, 0.01), (1, 1), True),
    "motion of a loop": (lambda q, v: LINKAGE.system().simulate(q, v, [0.0, 0.1]).q, (1, 1), True),
    "closed loop": (
        lambda q, v: control.ClosedLoop(FIVE, LAW, STILL).simulate(q, v, [0.0, 0.1]).q,
        (5, 5),
        True,
    ),
    "observer": (
        lambda q, v: control.MomentumObserver(FIVE, 0.4).simulate(FIVE, q, v, [0.0, 0.1]).q,
        (5, 5),
        True,
    ),
    "history": (
        lambda v: FILTER.run(
            estimation.Estimate(ORIGIN, np.eye(6)), [0.0, 0.1], jnp.stack([v, v]), np.ones((2, 4)), SENSOR
        ),
        (6,),
        True,
    ),
}


@pytest.mark.parametrize(
    "name", always(OF_ROBOTS, "forward dynamics", "forward dynamics of placements", "closed loop")
)
def test_no_function_of_robots_laws_and_filters_cuts_a_batch(name):
    """Lowered, not compiled. Inverse kinematics and gains of regulators are in NumPy only, and say so."""
    function, sizes, with_lapack = OF_ROBOTS[name]
    arrays = [jax.ShapeDtypeStruct((20_011, size), float) for size in sizes]
    found = calls(jax.vmap(lambda *own: jax.tree.leaves(function(*own))), *arrays)
    assert bool(found) == with_lapack
    require_whole(found)


# --- to the end, on two cores ------------------------------------------------------------------------------

TWO_CORES = """
import os
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
import numpy as np, jax, jax.numpy as jnp
import connections as cn
"""
PAIRS = """
both = jax.random.normal(jax.random.PRNGKey(0), (2, 1024, 16, 10))
def turned(A):
    return jnp.linalg.qr(A)[0] + 0.1 * A
def solved(A):
    return jax.scipy.linalg.solve_triangular(A[:, :10] + 20.0 * jnp.eye(10), A[:, 6:])
for function in (turned, lambda A: A + jnp.pad(solved(A), ((0, 0), (0, 6), (0, 0)))):
    step = lambda i, s: (function(s[0]), function(s[1]))
    jax.block_until_ready(jax.jit(lambda both: jax.lax.fori_loop(0, 100, step, tuple(both)))(both))
"""
FILTERS = """
import sys
from pathlib import Path
text = Path("{example}").read_text()
together = ("jax.lax.map(one, keys)", "jax.vmap(one)(keys)")
for old, new in (together, ('"iterated, no reset": (None, 30),', "")):
    assert text.count(old) == 1, old
    text = text.replace(old, new)
space = dict(__name__="example", __file__="{example}")
exec(text, space)
space["draw"] = lambda found, path: None
sys.argv = ["example", ".", "200"]
space["main"]()
"""
LOGARITHM = """
def skew(size):
    for i in range(size):
        for j in range(i):
            E = np.zeros((4 + {more}, 4 + {more}))
            E[i, j], E[j, i] = 1.0, -1.0
            yield E
def shifts(columns):
    for j in range(columns):
        for i in range(3):
            E = np.zeros((4 + {more}, 4 + {more}))
            E[i, 3 + j] = 1.0
            yield E
group = cn.MatrixLieGroup([*skew({turning}), *shifts({columns})])
n = group.dim
rng = np.random.default_rng(0)
root = rng.normal(size=(n, n))
nabla = cn.LeviCivita(cn.LeftInvariantMetric(group, root @ root.T / n + np.eye(n)))
q = np.eye(4 + {more}).reshape(-1)
p = group.exponential(0.5 * rng.normal(size=n)).reshape(-1)
gap = cn.exponential(nabla, q, cn.logarithm(nabla, q, p)) - p
assert np.abs(gap).max() < 1e-9, gap
"""
DEVICES = """
from jax.sharding import AxisType, NamedSharding, PartitionSpec
A = np.random.default_rng(0).normal(size=(1024, 12, 12))
A = A @ A.swapaxes(1, 2) + np.eye(12)
function = jax.vmap(jnp.linalg.cholesky)
for kind in (AxisType.Auto, AxisType.Explicit):
    mesh = jax.make_mesh((2,), ("i",), axis_types=(kind,))
    cut = jax.device_put(A, NamedSharding(mesh, PartitionSpec("i")))
    with jax.set_mesh(mesh):
        assert np.allclose(jax.jit(function)(cut), np.linalg.cholesky(A), rtol=1e-12, atol=1e-13), kind
        rows = PartitionSpec("i")
        own = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=rows, out_specs=rows))
        assert np.allclose(own(cut), np.linalg.cholesky(A), rtol=1e-12, atol=1e-13), kind
"""
PROGRAMS = {
    "devices": "os.environ['XLA_FLAGS'] = '--xla_force_host_platform_device_count=2'\n" + DEVICES,
    "pairs": PAIRS,
    "filters of 24 errors": FILTERS.format(example=EXAMPLES / "legged_estimation.py"),
    "SE(3)": LOGARITHM.format(more=0, turning=3, columns=1),
    "SO(4)": LOGARITHM.format(more=0, turning=4, columns=0),
    "SE_2(3)": LOGARITHM.format(more=1, turning=3, columns=2),
}


@pytest.mark.parametrize("name", always(PROGRAMS, "devices", "pairs"))
def test_it_ends(name):
    program = TWO_CORES + PROGRAMS[name]
    done = subprocess.run([sys.executable, "-c", program], timeout=280, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
