"""Exported functions of robots: in this process, in a new one, of other sources, of other registers."""

import os
import subprocess
import sys
from functools import partial

import jax
import numpy as np
import pytest
from cases import further
from jax import export
from recursion_functions import FUNCTIONS, SOME, call, model, states

from connections import multibody as mb
from connections.engines import exported, xla
from connections.engines.exported import TARGET
from connections.engines.inlined.simd import LANES
from connections.multibody.program.compiled_functions import compiled

CHECKS = mb.codegen.export_checks()


def written(function, *arguments, derivatives: int = 0) -> bytes:
    """What is exported of a function, as bytes."""
    made = export.export(jax.jit(function), disabled_checks=CHECKS)(*arguments)
    return bytes(made.serialize(vjp_order=derivatives))


def loaded(content: bytes):
    """The function that was exported."""
    return jax.jit(export.deserialize(bytearray(content)).call)


def in_a_new_process(program: str, *words: str, **variables: str) -> str:
    """What a program prints in a new process."""
    environment = os.environ | {"JAX_ENABLE_X64": "1"} | variables
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("of", ["arm", further("tree"), further("four-bar"), further("Stewart platform")])
def test_an_exported_function_has_the_same_bits(of, rng):
    """One configuration and rows; the gradient, which is exported along with the function."""
    robot = mb.example("arm") if of == "arm" else model(of)
    q, v = states("coriolis_matrix", rng, 3, of=robot)
    function = partial(mb.coriolis_matrix, robot)
    many, one = loaded(written(jax.vmap(function), q, v)), loaded(written(function, q[0], v[0]))
    np.testing.assert_array_equal(many(q, v), jax.jit(jax.vmap(function))(q, v))
    np.testing.assert_array_equal(one(q[0], v[0]), jax.jit(function)(q[0], v[0]))

    def energy(v):
        return 0.5 * v @ mb.mass_matrix(robot, q[0]) @ v

    slope = jax.grad(export.deserialize(bytearray(written(energy, v[0], derivatives=1))).call)(v[0])
    np.testing.assert_allclose(slope, mb.mass_matrix(robot, q[0]) @ v[0], rtol=1e-12)


def test_rows_of_any_number_are_exported(rng):
    """Once, for a batch whose size is a symbol."""
    robot = mb.example("arm")
    (rows,) = export.symbolic_shape("rows")
    kind = jax.ShapeDtypeStruct((rows, robot.nq), float)
    many = loaded(written(jax.vmap(partial(mb.mass_matrix, robot)), kind))
    for count in (1, 300):
        q = rng.standard_normal((count, robot.nq))
        np.testing.assert_array_equal(many(q), mb.mass_matrix(robot, q))


def test_inertias_may_be_arguments_of_what_is_exported(rng):
    """The same for all rows, and other ones for each."""
    robot = mb.example("arm")
    q, v, a = rng.standard_normal((3, 5, robot.nv))
    pi = mb.inertial_parameters(robot) * (1.0 + 0.2 * rng.random((5, robot.nv, 1)))

    def forces(pi, q, v, a):
        return mb.inverse_dynamics(robot.with_inertial_parameters(pi), q, v, a)

    for axis, given in ((None, pi[0]), (0, pi)):
        many = jax.vmap(forces, (axis, 0, 0, 0))
        found = loaded(written(many, given, q, v, a))(given, q, v, a)
        np.testing.assert_array_equal(found, jax.jit(many)(given, q, v, a))


def test_without_the_line_nothing_is_exported():
    robot = mb.example("arm")
    with pytest.raises(ValueError, match=TARGET):
        export.export(jax.jit(partial(mb.mass_matrix, robot)))(robot.neutral())


@pytest.mark.parametrize("name", ["mass_matrix_at", "moss_matrix_at"])
def test_a_program_of_other_sources_is_refused(name, monkeypatch):
    """By name, when it is loaded; also one of a function that is no more."""
    robot = mb.example("arm")
    right = written(partial(mb.mass_matrix, robot), robot.neutral())
    with monkeypatch.context() as patch:
        patch.setattr(exported, "_functions", [exported.Functions(lambda name: "0" * 16, lambda *_: None)])
        patch.setattr(xla, "exported_call", lambda _, *parts: exported.exported_call(name, *parts))
        content = written(partial(mb.mass_matrix, robot), robot.neutral())
    with pytest.raises(RuntimeError, match=f"another version of connections calls {name} of sources"):
        loaded(content)(robot.neutral())
    assert loaded(right)(robot.neutral()).shape == (6, 6)  # it is not remembered


DAMAGED = """
import sys
import jax, numpy as np
from functools import partial
from jax import export
from connections import multibody as mb
from connections.engines import exported, xla

calls = []
def recorded(*parts):
    calls.append(exported.exported_call(*parts))
    return calls[-1]
xla.exported_call = recorded

def written(function, *x):
    calls.clear()
    return export.export(jax.jit(function), disabled_checks=mb.codegen.export_checks())(*x).serialize()

def outcome(content, *x):
    try:
        found = jax.jit(export.deserialize(bytearray(content)).call)(*x)
    except Exception as error:
        return "damaged" if "is damaged" in str(error) else str(error)
    return bytes(np.asarray(found))

def outcome_of_call(attributes, *x):
    call = jax.ffi.ffi_call(exported.TARGET, jax.ShapeDtypeStruct((len(x[0]),) * 2, float))
    try:
        return np.asarray(jax.jit(lambda *x: call(*x, **attributes))(*x)).shape
    except Exception as error:
        return "other sizes" if "of other sizes" in str(error) else str(error)

robot, rng = mb.example("arm"), np.random.default_rng(int(sys.argv[1]))
q, v, a = rng.standard_normal((3, 2, robot.nv))
pi = mb.inertial_parameters(robot)
def forces(pi, q, v, a):
    return mb.inverse_dynamics(robot.with_inertial_parameters(pi), q, v, a)
for function, x in (
    (partial(mb.mass_matrix, robot), (q[0],)),
    (jax.vmap(forces, (None, 0, 0, 0)), (pi, q, v, a)),
):
    content = bytes(written(function, *x))
    (call,) = calls
    places = {}  # of the first byte of each attribute that is there once
    for name, value in call[1].items():
        value = value.encode() if isinstance(value, str) else value.tobytes()
        if content.count(value) == 1:
            places[name] = content.index(value), len(value)
    assert {"a00", "a01", "bounds", "function"} <= {*places}
    right = outcome(content, *x)
    assert isinstance(right, bytes)
    values = [0.0, -1.0, 7.0, 300.0, 1e9, 2.0**40, np.nan]
    for trial in range(40):
        name = [*places][trial % len(places)]
        begin, size = places[name]
        if name == "function":
            begin, new = begin + int(rng.integers(size)), bytes([rng.integers(33, 127)])
        else:
            begin += 8 * int(rng.integers(size // 8))
            new = np.float64(rng.choice(values)).tobytes() if trial % 3 else rng.bytes(8)
        changed = content[:begin] + new + content[begin + len(new) :]
        expected = right if changed == content else "damaged"
        assert outcome(changed, *x) == expected, (name, begin, new, outcome(changed, *x))
        print("tried", flush=True)

content = written(partial(mb.mass_matrix, robot), q[0])
(_, attributes), = calls
assert outcome_of_call(attributes, q[0]) == (6, 6)
for x in ((np.zeros(7),), (np.zeros(5),), (q[0], q[0]), (np.zeros((2, 6)),), (np.zeros(6, np.float32),)):
    assert outcome_of_call(attributes, *x) == "other sizes", [part.shape for part in x]
print("all")
"""


def test_a_damaged_program_is_refused():
    """Words of the numbers and of the text, changed at random; arrays of other sizes: no crash, no number."""
    lines = in_a_new_process(DAMAGED, "20261201").split()
    assert lines == ["tried"] * 80 + ["all"]


def test_an_error_of_ours_reaches_the_caller(monkeypatch):
    """And nothing is raised into XLA, which would end the process."""
    robot = mb.example("arm")
    content = written(partial(mb.coriolis_matrix, robot), *[robot.neutral()] * 2)
    monkeypatch.setattr("connections.engines.exported._handlers", {})
    monkeypatch.setattr(xla, "checked_handler", lambda *_: 1 / 0)
    with pytest.raises(RuntimeError, match="ZeroDivisionError: division by zero"):
        loaded(content)(*[robot.neutral()] * 2)


def test_an_error_before_compiled_code_begins_leaves_no_numbers(monkeypatch):
    """Such as that of Ctrl-C."""
    robot = mb.example("arm")
    function = loaded(written(partial(mb.mass_matrix, robot), robot.neutral()))
    assert np.isfinite(function(robot.neutral())).all()

    def interrupted(frame):
        raise KeyboardInterrupt

    monkeypatch.setattr(exported, "_handlers", dict.fromkeys(exported._handlers, interrupted))
    with pytest.raises((RuntimeError, ValueError), match="KeyboardInterrupt"):
        np.asarray(function(robot.neutral()))


def test_each_form_of_an_operation_has_code_of_its_own():
    """A program that another version exported may write the constants of a function in another form."""
    function = compiled.require("mass_matrix_at")
    first, second = (
        xla.checked_handler("mass_matrix_at", function, form, None) for form in ("W,1,,2,one", "R,1,,2,one")
    )
    assert first.args != second.args


def test_a_width_of_registers_is_one_of_those_exported():
    assert LANES in xla.WIDTHS


IMPORTED = """
import sys, time
import connections.multibody
from jax._src import xla_bridge
from connections.engines import exported, xla
print(bool(xla_bridge._backends), bool(xla._handlers or xla._ready or exported._handlers))
start = time.perf_counter()
exported.register(exported._functions[0])
print(time.perf_counter() - start)
"""


def test_the_import_compiles_nothing_and_starts_no_device():
    started, compiling, seconds = in_a_new_process(IMPORTED).split()
    assert (started, compiling) == ("False", "False")
    assert float(seconds) < 0.05  # some microseconds, on a machine that does other things, too


ELSEWHERE = """
import pathlib, sys
import jax, numpy as np
from jax import export
folder = pathlib.Path(sys.argv[1])
given = dict(np.load(folder / "given.npz"))
refused = 0
for step in ("refuse", "import", "compute"):
    if step == "import":
        import connections.multibody
        continue
    for path in sorted(folder.glob("*.exported")):
        function = export.deserialize(bytearray(path.read_bytes())).call
        arguments = [given[f"{path.stem} {k}"] for k in range(len(function.__self__.in_avals))]
        try:
            found = function(*arguments)
        except Exception as error:
            assert step == "refuse" and "connections.multibody/1" in str(error), error
            refused += 1
            break
        assert np.array_equal(found, given[path.stem]), path.stem
assert refused == 1
print("all", len(list(folder.glob("*.exported"))))
"""


#: In parts, because what is not in Numba's cache is compiled. Of a loop one of each form: what is exported
#: holds either a recursion's name or the definition's operations, and these take a minute each on loops.
PARTS = {f"part {k + 1}": [*FUNCTIONS][k::16] for k in range(16)}
PARTS |= {"of a loop": SOME}


@pytest.mark.further
@pytest.mark.parametrize(
    ("of", "part"), [("four-bar" if part == "of a loop" else "one joint", part) for part in PARTS]
)
def test_every_recursion_in_a_new_process(of, part, rng, tmp_path):
    """After the import alone; before it, XLA names what it lacks."""
    robot, given = model(of), {}
    for name in PARTS[part]:
        arguments = states(name, rng, 2, of=robot)
        for kind, function, x in (
            ("one", partial(call, name, of=robot), [x[0] for x in arguments]),
            ("rows", jax.vmap(partial(call, name, of=robot)), arguments),
        ):
            content = export.export(jax.jit(function), disabled_checks=CHECKS)(*x).serialize()
            (tmp_path / f"{name} {kind}.exported").write_bytes(content)
            given[f"{name} {kind}"] = np.asarray(jax.jit(function)(*x))
            given |= {f"{name} {kind} {k}": part for k, part in enumerate(x)}
    np.savez(tmp_path / "given.npz", **given)
    assert in_a_new_process(ELSEWHERE, str(tmp_path)) == f"all {2 * len(PARTS[part])}\n"


OTHER_REGISTERS = """
import pathlib, sys
import jax, llvmlite.binding as llvm, numpy as np
features = llvm.get_host_cpu_features()
features["avx512f"] = not features.get("avx512f", False)
llvm.get_host_cpu_features = lambda: features
from functools import partial
from connections import multibody as mb
from connections.engines.inlined.simd import LANES
q = np.load(sys.argv[1] + "/q.npy")
for name in ("mass_matrix", "christoffel_symbols"):
    function = jax.jit(jax.vmap(partial(getattr(mb, name), mb.example("arm"))))
    exported = jax.export.export(function, disabled_checks=mb.codegen.export_checks())(q)
    pathlib.Path(sys.argv[1], name).write_bytes(exported.serialize())
print(LANES)
"""


@pytest.mark.further
def test_rows_that_a_machine_of_other_registers_exported(rng, tmp_path):
    robot = mb.example("arm")
    q = rng.standard_normal((11, robot.nq))
    np.save(tmp_path / "q.npy", q)
    lanes = in_a_new_process(OTHER_REGISTERS, str(tmp_path), NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert int(lanes) in xla.WIDTHS and int(lanes) != LANES
    for name in ("mass_matrix", "christoffel_symbols"):
        found = loaded((tmp_path / name).read_bytes())(q)
        np.testing.assert_array_equal(found, getattr(mb, name)(robot, q))
