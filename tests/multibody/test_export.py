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
from connections.engines import xla
from connections.engines.exported import TARGET
from connections.engines.inlined.simd import LANES

CHECKS = mb.export_checks()


def written(function, *arguments, derivatives: int = 0) -> bytes:
    """What is exported of a function, as bytes."""
    exported = export.export(jax.jit(function), disabled_checks=CHECKS)(*arguments)
    return bytes(exported.serialize(vjp_order=derivatives))


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


def test_a_program_of_other_sources_is_refused():
    """By name, when it is loaded; also one of a function that is no more."""
    robot = mb.example("arm")
    content = written(partial(mb.mass_matrix, robot), robot.neutral())
    name = b"mass_matrix_at"
    stamp = content.split(name + b" ")[1][:16]
    assert content.count(stamp) and content.count(name)
    for other in (content.replace(stamp, b"0" * 16), content.replace(name, b"moss_matrix_at")):
        with pytest.raises(
            RuntimeError, match=r"another version of connections calls m.ss_matrix_at of sources"
        ):
            loaded(other)(robot.neutral())
    assert loaded(content)(robot.neutral()).shape == (6, 6)  # a refusal is not remembered


def test_an_error_of_ours_reaches_the_caller(monkeypatch):
    """And nothing is raised into XLA, which would end the process."""
    robot = mb.example("arm")
    content = written(partial(mb.coriolis_matrix, robot), *[robot.neutral()] * 2)
    monkeypatch.setattr("connections.engines.exported._handlers", {})
    monkeypatch.setattr(xla, "handler", lambda *_: 1 / 0)
    with pytest.raises(RuntimeError, match="ZeroDivisionError: division by zero"):
        loaded(content)(*[robot.neutral()] * 2)


def test_a_width_of_registers_is_one_of_those_exported():
    assert LANES in xla.WIDTHS


IMPORTED = """
import sys, time
import connections.multibody
from jax._src import xla_bridge
from connections.engines import exported
print(bool(xla_bridge._backends), "connections.engines.xla" in sys.modules)
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
            exported = export.export(jax.jit(function), disabled_checks=CHECKS)(*x)
            (tmp_path / f"{name} {kind}.exported").write_bytes(exported.serialize())
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
    exported = jax.export.export(function, disabled_checks=mb.export_checks())(q)
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
