"""Batches of the recursions, and calls that do not know of each other."""

import copy
import doctest
import inspect
import itertools
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import closed_chains
import numpy as np
import pytest
from cases import always, further
from mechanisms import MOVING, random_mechanism
from recursion_functions import ON_TREES, agree, call, core_shape, model, on_trees, states

from connections import multibody as mb
from connections.checks import NonFiniteError, ShapeError
from connections.multibody.program.compiled_functions import compiled
from connections.multibody.program.program import Program
from connections.multibody.program.table import RECURSIONS

#: Some functions; `test_calls_by_arity` has a call of every form.
each_form = pytest.mark.parametrize("name", ON_TREES)


@on_trees()
def test_a_batch_is_a_loop(name, rng):
    """For every number of configurations around the width of a vector register."""
    arguments = states(name, rng, 35)
    one_by_one = np.stack([call(name, *row) for row in zip(*arguments, strict=True)])
    for count in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 35):
        together = call(name, *[x[:count] for x in arguments])
        assert together.shape == (count, *core_shape(name))
        assert agree(together, one_by_one[:count])
    assert agree(call(name, *[x.reshape(5, 7, -1) for x in arguments]).reshape(one_by_one.shape), one_by_one)
    assert not agree(together[::-1], one_by_one, 1e-2)  # negative control


@pytest.mark.parametrize("name", always(sorted(RECURSIONS), *RECURSIONS.keys() & ON_TREES))
def test_the_example_of_the_docstring(name):
    function = getattr(mb.curvatures if "curvature" in name else mb, name)
    (example,) = doctest.DocTestFinder(recurse=False).find(function, name, globs={})
    assert doctest.DocTestRunner().run(example).failed == 0 and len(example.examples) == 4
    example.examples[-1].want = "(7,)\n"
    assert doctest.DocTestRunner(verbose=False).run(example, out=lambda text: None).failed == 1


def _read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


OTHER_KINDS = {
    "read-only": _read_only,
    "strided": lambda x: np.repeat(x, 2)[::2],
    "big-endian": lambda x: x.astype(">f8"),
    "float32": lambda x: x.astype(np.float32),
    "integers": lambda x: np.rint(x).astype(int),
    "list": np.ndarray.tolist,
}


@pytest.mark.parametrize("kind", OTHER_KINDS)
@pytest.mark.parametrize("robot", ["arm", "four_bar"])
def test_other_arrays_take_the_direct_way(kind, robot, rng, monkeypatch):
    """They are copied, and the general way, which takes ten times as long, is not asked."""
    monkeypatch.setattr(Program, "evaluate", None)
    model = mb.example(robot)
    given = model.random(0), *rng.standard_normal((2, model.nv))
    others = [OTHER_KINDS[kind](x) for x in given]
    plain = [np.array(x, float) for x in others]
    before, out = [np.array(x) for x in others], np.empty((3, model.nv))
    for row, name in zip(out, ("inverse_dynamics", "forward_dynamics", "coriolis_product"), strict=True):
        expected = getattr(mb, name)(model, *plain)
        np.testing.assert_array_equal(getattr(mb, name)(model, *others), expected)
        getattr(mb, name)(model, plain[0], others[1], plain[2], out=row)
        np.testing.assert_array_equal(row, getattr(mb, name)(model, plain[0], plain[1], plain[2]))
    for x, as_before in zip(others, before, strict=True):
        np.testing.assert_array_equal(x, as_before)
    with pytest.raises(TypeError, match="NoneType"):  # the general way decides about other numbers
        mb.gravity(model, given[0].astype(np.float16))


@pytest.mark.parametrize("robot", ["arm", "gear train"])
def test_few_rows_go_straight_to_compiled_code(robot, rng, monkeypatch):
    """To the same numbers as where arguments are converted; what has other shapes is not taken."""
    chosen = mb.example("arm") if robot == "arm" else closed_chains.PLANS[robot]().build()
    q = np.stack([chosen.random(rng) for _ in range(9)])
    v, tau = rng.standard_normal((2, 9, chosen.nv))
    converted = mb.forward_dynamics(chosen, list(q), v, tau)
    with pytest.raises(ShapeError, match="tau"):
        mb.forward_dynamics(chosen, q, v, np.zeros((9, chosen.nv + 1)))
    with pytest.raises(ShapeError, match="batch axes"):
        mb.forward_dynamics(chosen, q, v[:4], tau)
    assert np.array_equal(mb.forward_dynamics(chosen, q[:1], v, tau)[0], converted[0])
    monkeypatch.setattr(Program, "evaluate", None)
    assert np.array_equal(mb.forward_dynamics(chosen, q, v, tau), converted)


@each_form
def test_empty_batches(name, rng):
    arguments = states(name, rng, 2)
    assert call(name, *[x[:0] for x in arguments]).shape == (0, *core_shape(name))
    empty = call(name, *[np.zeros((3, 0, x.shape[-1])) for x in arguments])
    assert empty.shape == (3, 0, *core_shape(name))


@pytest.mark.parametrize("name", ["frame_jacobian_rate", "inverse_dynamics", further("regressor")])
def test_leading_axes_broadcast(name, rng):
    q, *rest = states(name, rng, 3, 2)
    q, rest = q[:, :1], [rest[0][:1], *(x[0, 0] for x in rest[1:])]
    result = call(name, q, *rest)
    assert result.shape == (3, 2, *core_shape(name))
    for i in range(3):
        for j in range(2):
            row = [q[i, 0], rest[0][0, j], *rest[1:]]
            assert agree(result[i, j], call(name, *row))
    one_point = call(name, q[0, 0], *rest)
    assert one_point.shape == (1, 2, *core_shape(name)) and agree(one_point[0], result[0])


# --- calls do not know of each other ----------------------------------------------------------------------


@pytest.fixture
def threads(monkeypatch):
    """Of which each is worth its while, however little there is to do."""
    monkeypatch.setattr("connections.engines.thread_chunks.WORTH_A_THREAD", 0.0)
    before = mb.get_num_threads()
    yield mb.set_num_threads
    mb.set_num_threads(before)


@each_form
def test_the_number_of_threads_changes_nothing(name, threads, rng):
    arguments = [np.tile(x, (9, 1)) for x in states(name, rng, 71)]  # enough rows for two threads
    results = []
    for count in (1, 2, 1):
        threads(count)
        assert mb.get_num_threads() == count
        results.append(call(name, *arguments))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_a_small_batch_stays_in_the_calling_thread(monkeypatch, rng):
    """512 H of an arm are 0.1 ms of work; what is worth a thread is done by as many as there are."""
    asked = []
    monkeypatch.setattr("connections.engines.thread_chunks.pool", lambda: asked.append(1))
    monkeypatch.setattr("connections.engines.thread_chunks.get_num_threads", lambda: 2)
    clock = itertools.count(step=1e-6)  # what a busy machine takes is not tested
    monkeypatch.setattr("connections.engines.thread_chunks.time.perf_counter", lambda: next(clock))
    arguments = states("mass_matrix", rng, 512)
    expected = call("mass_matrix", *arguments)
    assert not asked
    monkeypatch.setattr("connections.engines.thread_chunks.WORTH_A_THREAD", 0.0)
    with pytest.raises(AttributeError, match="submit"):
        call("mass_matrix", *arguments)
    monkeypatch.undo()
    np.testing.assert_array_equal(call("mass_matrix", *arguments), expected)


def test_bad_numbers_of_threads(threads):
    for wrong in (0, -1, 1.5, "two", True):
        with pytest.raises((ValueError, TypeError)):
            threads(wrong)


FORKING = """
import os, signal, sys
import numpy as np
from connections import multibody as mb
from connections.engines import thread_chunks

thread_chunks.WORTH_A_THREAD = 0.0
mechanism = mb.Mechanism()
mechanism.add_body("arm", mass=1.0, center_of_mass=[0.1, 0.0, 0.0], inertia=np.eye(3))
mechanism.add_joint("shoulder", "world", "arm", mb.Revolute((0, 0, 1)))
model, q = mechanism.build(), np.zeros((5000, 1))
mb.set_num_threads(2)
H = mb.mass_matrix(model, q)
child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(0 if np.array_equal(mb.mass_matrix(model, q), H) else 1)
sys.exit(os.waitpid(child, 0)[1] != 0)
"""


FORK_IN_A_FIRST_CALL = """
import os, signal, threading, time, warnings
import numpy as np
from connections import multibody as mb

warnings.simplefilter("ignore")
robot = mb.example("arm")
q, v = np.full(robot.nq, 0.3), np.ones(robot.nv)
for name in ("coriolis_matrix", "inverse_dynamics", "christoffel_symbols"):
    arguments = {"coriolis_matrix": (q, v), "inverse_dynamics": (q, v, v)}.get(name, (q,))
    other = threading.Thread(target=getattr(mb, name), args=(robot, *arguments))
    other.start()
    time.sleep(0.01)
    child = os.fork()
    if not child:
        signal.alarm(60)
        mb.mass_matrix(robot, q)
        os._exit(7)
    assert os.waitpid(child, 0)[1] == 7 << 8
    other.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_process_that_is_forked_in_a_first_call_ends():
    subprocess.run([sys.executable, "-c", FORK_IN_A_FIRST_CALL], check=True, timeout=200)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_has_threads_of_its_own():
    """A worker process that inherits a used pool of threads does not wait for them for ever."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKING], check=True, timeout=300)


@each_form
@pytest.mark.parametrize("batch", [(), (9,)])
def test_results_are_independent_of_other_calls(name, batch, rng):
    """After other points, other functions, another model and an error; arguments are left alone."""
    arguments = states(name, rng, *batch)
    kept = [x.copy() for x in arguments]
    first = call(name, *arguments)
    kept_first = first.copy()
    other = random_mechanism(np.random.default_rng(8), 4, MOVING[::-1])
    for function in ON_TREES:
        call(function, *states(function, rng, *batch))
        call(function, *states(function, rng, *batch, of=other), of=other)
        wrong = states(function, rng, *batch)
        wrong[-1][..., -1] = np.nan
        with pytest.raises(NonFiniteError):
            call(function, *wrong)
    np.testing.assert_array_equal(first, kept_first)  # the result is nobody's workspace
    np.testing.assert_array_equal(call(name, *arguments), kept_first)
    for x, y in zip(arguments, kept, strict=True):
        np.testing.assert_array_equal(x, y)


@each_form
def test_calls_from_several_python_threads(name, rng):
    tasks = [states(name, rng) for _ in range(40)] + [states(name, rng, 9) for _ in range(10)]
    expected = [call(name, *task) for task in tasks]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            for ours, theirs in zip(pool.map(lambda task: call(name, *task), tasks), expected, strict=True):
                np.testing.assert_array_equal(ours, theirs)


@each_form
def test_copies_of_a_model(name, rng):
    arguments = states(name, rng)
    expected = call(name, *arguments)
    for twin in (copy.copy(model()), copy.deepcopy(model()), pickle.loads(pickle.dumps(model()))):
        np.testing.assert_array_equal(call(name, *arguments, of=twin), expected)
    np.testing.assert_array_equal(call(name, *arguments), expected)


def _resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.further
@each_form
def test_memory_does_not_grow(name, rng):
    """What calls lose, they lose in each of three rounds; the C library keeps freed memory now and then."""
    arguments, many = states(name, rng), states(name, rng, 20)
    out = np.empty(core_shape(name))

    def grown(count):
        before = _resident()
        for _ in range(count):
            call(name, *arguments, out=out)
            call(name, *many)
        return _resident() - before

    grown(50)
    assert min(grown(200) for _ in range(3)) < 7e5


@pytest.mark.parametrize("name", ["tree", "loop"])
def test_a_call_passes_lines_of_files_only(name):
    """From the public name to the compiled function, whose text is in a file, too."""
    robot = model("tree" if name == "tree" else "four-bar")
    q, passed = robot.neutral(), []
    given = mb.close_loops(robot, q) if name == "loop" else q
    v = np.ones(robot.nv)
    mb.coriolis_matrix(robot, given, v)

    def trace(frame, event, argument):
        passed.append(frame.f_code)

    sys.settrace(trace)
    try:
        mb.coriolis_matrix(robot, given, v)
    finally:
        sys.settrace(None)
    files = {Path(code.co_filename).name for code in passed}
    assert {"functions.py", "calls.py" if name == "tree" else "closed_calls.py"} <= files
    entry = compiled.require(f"{'closed_' * (name == 'loop')}coriolis_matrix_at").py_func
    (text,) = (cell.cell_contents.py_func for cell in entry.__closure__)
    for code in [*passed, text.__code__]:
        lines, _ = inspect.getsourcelines(code)
        assert any(f"def {code.co_name}(" in line for line in lines), code


@pytest.mark.parametrize("name", ["arm", "four_bar"])
def test_each_vector_of_one_state_is_read_in_its_place(name, rng):
    """H a + C v + g, and H a_r + C v_r + g, of vectors that differ; exchanged, they give other numbers."""
    robot = mb.example(name)
    q, (v, a, v_r) = robot.random(rng), rng.standard_normal((3, robot.nv))
    H, g = mb.mass_matrix(robot, q), mb.gravity(robot, q)
    tau = H @ a + mb.nonlinear_effects(robot, q, v)
    np.testing.assert_allclose(mb.inverse_dynamics(robot, q, v, a), tau, rtol=1e-12)
    np.testing.assert_allclose(mb.forward_dynamics(robot, q, v, tau), a, rtol=1e-9)
    expected = H @ a + mb.coriolis_matrix(robot, q, v) @ v_r + g
    pi = mb.inertial_parameters(robot).ravel()
    np.testing.assert_allclose(mb.regressor(robot, q, v, v_r, a) @ pi, expected, rtol=1e-10)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(mb.inverse_dynamics(robot, q, a, v), tau, rtol=1e-3)
