"""What the package assumes of JAX, Numba and XLA, a test each, and what it does if XLA is not as assumed."""

import ctypes
import logging
import math
import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import llvmlite.binding as llvm
import numba
import numpy as np
import pytest
from cases import always, further
from numba import njit, types

from connections.engines import disk_cache, xla
from connections.engines.inlined import simd
from connections.engines.inlined.simd import LANES, load, slots_of, store
from connections.engines.internals import call_frame, jax_names, numba_names

HEADER = call_frame.header()


# --- JAX ---------------------------------------------------------------------------------------------------

TRANSFORMED = {
    "jit": lambda f: jax.jit(f)(1.0),
    "vmap": lambda f: jax.vmap(f)(jnp.ones(2)),
    "grad": lambda f: jax.grad(f)(1.0),
    "jvp": lambda f: jax.jvp(f, (1.0,), (1.0,)),
    "eval_shape": lambda f: jax.eval_shape(f, 1.0),
    "scan": lambda f: jax.lax.scan(lambda c, x: (f(c), None), jnp.ones(()), jnp.ones(2)),
    "vmap of constants": lambda f: jax.vmap(lambda _: f(jnp.ones(())))(jnp.ones(2)),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_a_thread_knows_whether_it_is_tracing(name: str) -> None:
    seen, elsewhere, tracers = [], [], []

    def f(x):
        seen.append(jax_names.trace_state_clean())
        other = threading.Thread(target=lambda: elsewhere.append(jax_names.trace_state_clean()))
        other.start()
        other.join()
        tracers.append(isinstance(x, jax.core.Tracer))
        return x * 2.0

    assert jax_names.trace_state_clean()
    TRANSFORMED[name](f)
    assert jax_names.trace_state_clean()
    assert seen and not any(seen) and all(elsewhere)
    assert all(tracers) == (name != "vmap of constants")  # the control: a public test does not see this one


def test_constants_in_a_trace_are_literals() -> None:
    jaxpr = jax.make_jaxpr(lambda x: 3.0 * x)(1.0).jaxpr
    (equation,) = jaxpr.eqns
    number, variable = equation.invars
    assert isinstance(number, jax_names.Literal) and number.val == 3.0
    assert not isinstance(variable, jax_names.Literal)


def test_a_trace_is_applied_to_arrays() -> None:
    traced = jax.make_jaxpr(lambda x: jnp.sin(x) * np.arange(3.0))(jnp.ones(3))
    (found,) = jax_names.eval_jaxpr(traced.jaxpr, traced.consts, jnp.full(3, 0.5))
    assert np.array_equal(found, np.sin(0.5) * np.arange(3.0))
    with pytest.raises(ValueError):
        jax_names.eval_jaxpr(traced.jaxpr, traced.consts)  # an argument is missing


@pytest.mark.parametrize("on_processor", [None, lambda x, factor: factor * x + 2000.0])
def test_an_operation_of_our_own(on_processor) -> None:
    """Each of its functions adds another number, which tells which one was taken."""
    operation = jax_names.new_operation(
        "connections_test",
        value=lambda x, factor: factor * x + 1.0,
        shape=lambda x, factor: jax.ShapeDtypeStruct(x.shape, x.dtype),
        batched=lambda xs, axes, factor: (operation(xs[0], factor=factor) + 10.0, axes[0]),
        lowered=lambda x, factor: factor * x + 1000.0,
        on_processor=on_processor,
    )
    compiled = 1000.0 if on_processor is None else 2000.0
    double = jax.jit(lambda x: operation(x, factor=2.0))
    assert operation(np.float64(3.0), factor=2.0) == 7.0
    assert double(3.0) == 6.0 + compiled
    assert jax.jit(jax.vmap(double))(jnp.array([3.0, 4.0])).tolist() == [16.0 + compiled, 18.0 + compiled]
    assert jax.eval_shape(double, 3.0).shape == ()
    with pytest.raises(NotImplementedError):
        jax.grad(double)(3.0)


# --- Numba -------------------------------------------------------------------------------------------------


def doubled(x, out):
    out[:] = 2.0 * x
    return len(x) > 0


def trebled(x, out):
    out[:] = 3.0 * x
    return len(x) > 0


VECTOR = types.float64[::1]


def compiled(function, cache=None):
    ours = njit(function)
    if cache is not None:
        numba_names.set_cache(ours, cache)
    numba_names.compile_for(ours, [VECTOR, VECTOR])
    return ours


def test_a_function_asks_its_cache_and_no_other() -> None:
    asked = []

    class Asked(numba_names.NullCache):
        def load_overload(self, sig, target_context):
            asked.append("load")

        def save_overload(self, sig, data):
            asked.append("save")

    cache = Asked()
    compiled(doubled, cache)
    assert asked == ["load", "save"]
    compiled(doubled)
    assert asked == ["load", "save"]


@pytest.mark.parametrize("good", [True, False])
def test_a_file_holds_what_reduce_returns_and_rebuild_gets_it(good: bool, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    found = []

    class Impl(numba_names.CompileResultCacheImpl):
        def reduce(self, compiled):
            return "ours", numba_names.dumps(super().reduce(compiled))

        def rebuild(self, target_context, written):
            found.append(written[0])
            return super().rebuild(target_context, disk_cache.pickle.loads(written[1])) if good else None

    class Cache(numba_names.FunctionCache):
        _impl_class = Impl

    first, second = compiled(doubled, Cache(doubled)), compiled(doubled, Cache(doubled))
    assert found == ["ours"] and str(tmp_path) in first.stats.cache_path
    assert [sum(f.stats.cache_hits.values()) for f in (first, second)] == [0, int(good)]
    assert [path.suffix for path in sorted(tmp_path.rglob("*.nb*"))] == [".nbc", ".nbi"]


def test_a_function_refuses_other_types_when_told() -> None:
    strict, free, out = compiled(doubled), compiled(doubled), np.zeros(2)
    numba_names.refuse_other_types(strict)
    assert strict(np.ones(2), out) and out.tolist() == [2.0, 2.0]
    with pytest.raises(TypeError):
        strict(np.ones(2, dtype=int), out)
    assert free(np.ones(2, dtype=int), out)


def test_numba_does_not_search_for_a_refused_type(monkeypatch) -> None:
    """The dispatcher calls our functions in the place of its own, which take 40 times as long as a call."""
    strict, asked, out = compiled(doubled), list[str](), np.zeros(2)
    for name in ("_search_new_conversions", "_explain_matching_error"):
        monkeypatch.setattr(type(strict), name, lambda *given, name=name: asked.append(name))
    numba_names.refuse_other_types(strict)
    for other in (np.ones(4)[::2], np.ones(2, dtype=np.float32), np.broadcast_to(1.0, 2)):
        with pytest.raises(TypeError, match="other types"):
            strict(other, out)
    assert not asked


def test_where_the_compiler_is_off_the_variable_is_named(monkeypatch) -> None:
    def plain(x: float) -> float:  # what `njit` returns then
        return x

    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    with pytest.raises(OSError, match="NUMBA_DISABLE_JIT is set"):
        numba_names.compile_for(plain, [types.float64])
    with pytest.raises(OSError, match="NUMBA_DISABLE_JIT is set"):
        numba_names.c_function(plain, types.float64, [types.float64], disk_cache.cache_of(plain))


@pytest.mark.further
def test_where_the_compiler_is_off_a_robot_says_so_and_the_rest_works() -> None:
    program = """
import numpy as np
import connections as cn
from connections import multibody as mb
print(cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(1), np.eye(1))).coefficients([0.0]).ravel())
mb.gravity(mb.example("arm"), np.zeros(6))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "[0.]\n"
    assert done.stderr.splitlines()[-1].startswith("OSError: NUMBA_DISABLE_JIT is set")


def test_the_types_of_a_compiled_function() -> None:
    assert numba_names.types_of(compiled(doubled)) == ((VECTOR, VECTOR), types.boolean)
    several = compiled(doubled)
    several.compile((types.int64[::1], VECTOR))
    with pytest.raises(ValueError):
        numba_names.types_of(several)


@pytest.mark.parametrize("kept", [False, True], ids=["compiled", "read"])
def test_only_the_entry_has_machine_code(kept: bool, tmp_path, monkeypatch) -> None:
    """What compiled functions alone call is compiled into them: in one piece, called, or as text."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def root(x):
        if x < 0.0:
            raise ValueError("negative")
        return math.sqrt(x)

    def sum_of_roots(way):
        inner = njit(root, **way, **simd.INTERNAL)
        outer = njit(lambda x, y: inner(x) + inner(y), **way, **simd.INTERNAL)
        entry = njit(lambda x, y: outer(x, y))
        cache = disk_cache.cache_of(entry)
        numba_names.set_cache(entry, cache)
        numba_names.compile_for(entry, [types.float64, types.float64])
        return entry, [inner, outer]

    for number, way in enumerate(({"forceinline": True}, {"forceinline": False}, {"inline": "always"})):
        for again in range(1 + kept):
            entry, within = sum_of_roots(way)
            assert entry.stats.cache_hits == ({} if not again else {entry.signatures[0]: 1}), number
        assert entry(4.0, 9.0) == 5.0
        with pytest.raises(ValueError, match="negative"):
            entry(4.0, -9.0)
        assert numba_names.address(entry) != 0
        for function in within:
            assert all(numba_names.address(function) == 0 for _ in function.overloads), number


def test_c_calls_a_function() -> None:
    def plus_one(x):
        return x + 1

    callback = numba_names.c_function(plus_one, types.int64, [types.int64], disk_cache.cache_of(plus_one))
    assert callback.ctypes(41) == 42
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(callback.address)(-1) == 0


def test_compiled_code_calls_a_function_by_its_address() -> None:
    results = []
    for number, function in enumerate((compiled(doubled), compiled(trebled))):
        llvm.add_symbol(f"connections_test_{number}", numba_names.address(function))
        entry = xla._entry(f"connections_test_{number}", function)

        @njit
        def caller(x, out, entry=entry):
            return entry((), (x,), (), out)

        out = np.zeros(2)
        assert caller(np.ones(2), out)
        results.append(out.tolist())
    assert results == [[2.0, 2.0], [3.0, 3.0]]


def test_operators_of_a_type_of_our_own() -> None:
    @njit(error_model="numpy")
    def added(a, out):
        store(slots_of(out), 0, load(slots_of(a), 0) + load(slots_of(a), 1))

    @njit(error_model="numpy")
    def remainder(a, out):
        store(slots_of(out), 0, load(slots_of(a), 0) % load(slots_of(a), 1))

    a, out = np.arange(2.0 * LANES).reshape(2, LANES), np.zeros((1, LANES))
    added(a, out)
    assert np.array_equal(out[0], a[0] + a[1])
    with pytest.raises(numba.TypingError):
        remainder(a, out)


# --- XLA's call frame --------------------------------------------------------------------------------------

POINTER, INT64, INT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
POINTERS, NUMBERS = ctypes.POINTER(POINTER), ctypes.POINTER(INT64)


def structure(**fields: type) -> type[ctypes.Structure]:
    """A structure of C."""
    return type("Structure", (ctypes.Structure,), {"_fields_": list(fields.items())})


HEAD = {"struct_size": INT64, "extension_start": POINTER}
ITEMS = structure(**HEAD, size=INT64, types=POINTER, items=POINTERS)
NAMED = structure(**HEAD, size=INT64, types=POINTER, names=POINTER, items=POINTERS)
VERSION = structure(**HEAD, major_version=INT, minor_version=INT)
API = structure(**HEAD, api_version=VERSION)
FRAME = structure(**HEAD, api=POINTER, ctx=POINTER, stage=INT, args=ITEMS, rets=ITEMS, attrs=NAMED)
BUFFER = structure(**HEAD, dtype=INT, data=POINTER, rank=INT64, dims=NUMBERS)
ARRAY = structure(dtype=INT, size=INT64, data=POINTER)
TEXT = structure(data=POINTER, size=INT64)
ERROR = structure(**HEAD, message=POINTER, code=INT)
EXTENSION = structure(struct_size=INT64, type=INT, next=POINTER, metadata=POINTER)
METADATA = structure(struct_size=INT64, api_version=VERSION)
F64 = call_frame.FLOAT64


def test_words_by_the_rules_of_c() -> None:
    """`ctypes` lays out the structures, written here by hand."""
    for word, byte in (
        (call_frame.FRAME_EXTENSION, FRAME.extension_start.offset),
        (call_frame.FRAME_API, FRAME.api.offset),
        (call_frame.FRAME_ARGUMENT_COUNT, FRAME.args.offset + ITEMS.size.offset),
        (call_frame.FRAME_RESULT_COUNT, FRAME.rets.offset + ITEMS.size.offset),
        (call_frame.FRAME_ARGUMENTS, FRAME.args.offset + ITEMS.items.offset),
        (call_frame.FRAME_RESULTS, FRAME.rets.offset + ITEMS.items.offset),
        (call_frame.FRAME_ATTRIBUTE_COUNT, FRAME.attrs.offset + NAMED.size.offset),
        (call_frame.FRAME_ATTRIBUTE_KINDS, FRAME.attrs.offset + NAMED.types.offset),
        (call_frame.FRAME_ATTRIBUTES, FRAME.attrs.offset + NAMED.items.offset),
        (call_frame.BUFFER_KIND, BUFFER.dtype.offset),
        (call_frame.ARRAY_KIND, ARRAY.dtype.offset),
        (call_frame.BUFFER_DATA, BUFFER.data.offset),
        (call_frame.BUFFER_RANK, BUFFER.rank.offset),
        (call_frame.BUFFER_DIMENSIONS, BUFFER.dims.offset),
        (call_frame.ARRAY_SIZE, ARRAY.size.offset),
        (call_frame.ARRAY_DATA, ARRAY.data.offset),
        (call_frame.TEXT_DATA, TEXT.data.offset),
        (call_frame.TEXT_LENGTH, TEXT.size.offset),
        (call_frame.ERROR_MESSAGE, ERROR.message.offset),
        (call_frame.ERROR_CODE, ERROR.code.offset),
        (call_frame.EXTENSION_TYPE, EXTENSION.type.offset),
        (call_frame.EXTENSION_METADATA, EXTENSION.metadata.offset),
        (call_frame.METADATA_VERSION, METADATA.api_version.offset + VERSION.major_version.offset),
        (call_frame.API_VERSION, API.api_version.offset + VERSION.major_version.offset),
    ):
        assert 8 * word == byte
    assert VERSION.minor_version.offset == VERSION.major_version.offset + 4


def test_xla_calls_with_such_a_frame() -> None:
    """A foreign function in Python reads the frame by those structures."""
    seen = {}

    def double(address: int) -> int:
        frame = FRAME.from_address(address)
        if frame.extension_start:
            extension = EXTENSION.from_address(frame.extension_start)
            theirs = API.from_address(frame.api).api_version
            METADATA.from_address(extension.metadata).api_version.major_version = theirs.major_version
            METADATA.from_address(extension.metadata).api_version.minor_version = theirs.minor_version
            seen["registered"] = extension.type, theirs.major_version
            return 0
        buffers = [BUFFER.from_address(items.items[0]) for items in (frame.args, frame.rets)]
        seen["dtypes"] = [buffer.dtype for buffer in buffers]
        seen["shapes"] = [buffer.dims[: buffer.rank] for buffer in buffers]
        seen["kinds"] = (INT * frame.attrs.size).from_address(frame.attrs.types)[:]
        *arrays, text = [frame.attrs.items[k] for k in range(frame.attrs.size)]
        arrays = [ARRAY.from_address(array) for array in arrays]
        types = {F64: ctypes.c_double, call_frame.INT64: INT64}
        seen["attributes"] = [(types[a.dtype] * a.size).from_address(a.data)[:] for a in arrays]
        text = TEXT.from_address(text)
        seen["text"] = ctypes.string_at(text.data, text.size)
        given, out = ((ctypes.c_double * 6).from_address(buffer.data) for buffer in buffers)
        out[:] = [2.0 * number for number in given]
        return 0

    handler = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(double)
    jax.ffi.register_ffi_target("connections_test_frame", jax.ffi.pycapsule(handler), platform="cpu")
    call = jax.ffi.ffi_call("connections_test_frame", jax.ShapeDtypeStruct((3, 2), np.float64))
    x = np.arange(6.0).reshape(3, 2)
    found = jax.jit(lambda x: call(x, b="text", a01=np.array([5, 6]), a00=np.array([4.0])))(x)
    assert np.array_equal(found, 2.0 * x)
    assert seen == {
        "registered": (call_frame.METADATA, call_frame.MAJOR_VERSION),
        "dtypes": [F64, F64],
        "shapes": [[3, 2], [3, 2]],
        "kinds": [call_frame.IS_ARRAY, call_frame.IS_ARRAY, call_frame.IS_TEXT],
        "attributes": [[4.0], [5, 6]],
        "text": b"text",
    }


def test_the_header_of_jaxlib_is_as_assumed() -> None:
    assert HEADER and call_frame.objection(HEADER) == ""


CHANGED = {
    "another major version": ("API_MAJOR 0", "API_MAJOR 1"),
    "another type of extension": ("XLA_FFI_Extension_Metadata = 1", "XLA_FFI_Extension_Metadata = 2"),
    "another number of a type": ("XLA_FFI_DataType_F64 = 12", "XLA_FFI_DataType_F64 = 13"),
    "a field goes": ("XLA_FFI_ExecutionStage stage;\n  XLA_FFI_Args", "XLA_FFI_Args"),
    "a field comes": ("XLA_FFI_Args args;", "int64_t more; XLA_FFI_Args args;"),
    "a field within a field": ("XLA_FFI_RetType* types;", "XLA_FFI_RetType* types; void* more;"),
    "fields change places": ("void* data;\n  int64_t rank;", "int64_t rank;\n  void* data;"),
    "a type is wider": ("int major_version;", "int64_t major_version;"),
    "a type is narrower": ("  size_t size;\n  void* data;\n} XLA", "  int32_t size;\n  float data;\n} XLA"),
    "a name changes": ("int64_t* dims;", "int64_t* dimensions;"),
    "an unknown type": ("int64_t rank;", "absl::Rank rank;"),
    "versions change places": (
        "int major_version;  // out\n  int minor_version;",
        "int minor_version;  // out\n  int major_version;",
    ),
    "a structure goes": ("struct XLA_FFI_Metadata_Extension {", "struct XLA_FFI_Other {"),
    "no header": (HEADER, ""),
}
SAME = {
    "a comment": ("int64_t rank;", "/* int64_t more; */ int64_t rank;  // void* more;"),
    "another minor version": ("API_MINOR ", "API_MINOR 1"),
    "a field behind the others": ("XLA_FFI_Future* future;", "XLA_FFI_Future* future; void* more;"),
}


@pytest.mark.parametrize("change", [*CHANGED, *SAME])
def test_a_changed_header_is_refused(change: str) -> None:
    old, new = (CHANGED | SAME)[change]
    assert old in HEADER
    assert (call_frame.objection(HEADER.replace(old, new)) != "") == (change in CHANGED)


def test_what_a_scan_carries() -> None:
    """Arguments that are matrices or numbers; where nothing is carried, and where nothing is gone through."""

    def counts(function, *arguments) -> list[tuple[int, int]]:
        equations = jax.make_jaxpr(function)(*arguments).jaxpr.eqns
        return [
            jax_names.scan_counts(equation) for equation in equations if equation.primitive.name == "scan"
        ]

    x, A = jnp.ones(4), jnp.ones((2, 2))
    assert counts(lambda A, x: jax.lax.scan(lambda c, b: (A @ c * b, b), A[0], x), A, x) == [(1, 1)]
    assert counts(lambda A, x: jax.lax.scan(lambda c, b: (c, b * A[1, 0] + x[0]), None, x), A, x) == [(2, 0)]
    assert counts(lambda A: jax.lax.scan(lambda c, _: ((c[0] + 1, A @ c[1]), None), (0, A), None, 3), A) == [
        (1, 2)
    ]


# --- the fallback ------------------------------------------------------------------------------------------


def test_a_trial_call_is_as_expected_and_another_result_is_noticed(monkeypatch) -> None:
    assert xla._objection_of_trial() == ""
    monkeypatch.setattr(xla, "_direct_call", lambda name, shape, *rest: jnp.zeros(shape))
    assert "a trial call gave" in xla._objection_of_trial()
    monkeypatch.setattr(xla, "_direct_call", lambda *_: 1 / 0)
    assert "ZeroDivisionError" in xla._objection_of_trial()


def product(work, read, x, y, flag, out):
    """Uses all kinds of arguments, and writes into `work`; refuses x[0] < 0."""
    for i in range(len(x)):
        for j in range(len(y)):
            work[2] = np.sin(x[i]) * read[j] / y[j]
            out[i, j] = work[2] + work[0] * work[1]
    return 0 if flag and x[0] >= 0.0 else 3


@pytest.fixture(scope="module")
def operation():
    function = njit(product)
    numba_names.compile_for(function, [VECTOR, VECTOR, VECTOR, VECTOR, types.boolean, types.float64[:, ::1]])
    numba_names.refuse_other_types(function)
    work, read = np.array([0.5, 0.25]), np.array([1.0, 3.0, 7.0])

    def call(x, y):
        before = [xla.WorkCopy(work, 3), xla.ReadArray(read)]
        return xla.operation("test_product", function, (2, 3), before, [x, y], [xla.Flag(True)])

    return call


CALLS = {
    "one": (lambda f: f, ()),
    "rows": (jax.vmap, (5,)),
    "rows of rows": (lambda f: jax.vmap(jax.vmap(f)), (4, 3)),
    "one x, many y": (lambda f: lambda x, y: jax.vmap(f, (None, 0))(x[0], y), (5,)),
    "other axes": (lambda f: lambda x, y: jax.vmap(f, (1, 0), 2)(x.T, y), (5,)),
    "no row": (jax.vmap, (0,)),
    "many": (jax.vmap, (20_000,)),
    "in a loop": (lambda f: lambda x, y: jax.lax.map(lambda xy: f(*xy), (x, y)), (5,)),
}
REFUSING = {"rows", "rows of rows", "other axes", "many", "in a loop"}


@pytest.mark.parametrize("name", always(CALLS, "one", "rows of rows"))
def test_callbacks_give_the_same_bits(name: str, operation, rng, monkeypatch) -> None:
    transformed, batch = CALLS[name]
    x, y = rng.normal(size=(*batch, 2)), rng.normal(size=(*batch, 3))
    if batch and len(x) > 1:
        x[0], x[1] = abs(x[0]), -abs(x[1])  # one is accepted, the other is refused

    def run(primitive):
        function = transformed(lambda x, y: operation(x, y))
        assert primitive in str(jax.make_jaxpr(function)(x, y))
        return np.asarray(jax.jit(function)(x, y))

    direct = run("foreign_call")
    monkeypatch.setattr(xla, "_objection", lambda: "forced")
    called = run("pure_callback")
    assert direct.dtype == called.dtype == np.float64 and direct.tobytes() == called.tobytes()
    assert np.isnan(direct).any() == (name in REFUSING)


def products(lanes, numbers, x, y, out):
    """Of rows: y times x[0], plus numbers and what should be zeros; refuses a row of which x[0] < 0."""
    good = True
    for row in range(len(x)):
        good = good and x[row, 0] >= 0.0
        for j in range(len(numbers)):
            out[row, j] = x[row, 0] * y[row, j] + numbers[j] + lanes[j, 0]
            lanes[j, 0] = 0.0
    return good


@pytest.fixture(scope="module")
def on_rows():
    function, rows = njit(products), types.float64[:, ::1]
    numba_names.compile_for(function, [rows, types.int64[::1], rows, rows, rows])
    numba_names.refuse_other_types(function)
    before = [xla.LaneScratch(5), xla.Numbers(np.array([1, 2, 3]))]
    return lambda x, y: xla.operation("test_products", function, (3,), before, [x, y], rows=True)


@pytest.mark.parametrize("batch", [(1,), (0,), (127,), (256,), (3, 5), (40_000,)])
def test_rows_in_pieces(batch, on_rows, rng, monkeypatch) -> None:
    """In XLA's threads if there are many, and by callbacks; a row that is refused is NaN, and no other."""
    x, y = rng.normal(size=(*batch, 2)), rng.normal(size=(*batch, 3))
    x[..., 0] = np.where(rng.random(batch) < 0.01, -1.0, np.abs(x[..., 0]))
    expected = x[..., :1] * y + np.array([1, 2, 3])
    expected[x[..., 0] < 0.0] = np.nan
    for _ in range(3):
        found = np.asarray(jax.jit(lambda x, y: on_rows(x, y))(x, y))
        assert found.shape == (*batch, 3)
        np.testing.assert_allclose(found, expected, rtol=1e-15, atol=1e-15)
    monkeypatch.setattr(xla, "_objection", lambda: "forced")
    called = np.asarray(jax.jit(lambda x, y: on_rows(x, y))(x, y))
    assert called.tobytes() == found.tobytes()
    calls = jax.make_jaxpr(lambda x, y: on_rows(x, y))(x, y).jaxpr.eqns
    names = [equation.primitive.name for equation in calls]
    assert ("scan" if len(x) > 10_000 else "pure_callback") in names  # one call, unless it is too long
    assert names.count("pure_callback") <= 1


def write_at(work, places, given):
    work[int(places[0])] = given[0]


def weighted(work, x, out):
    out[:] = work[0] * x + work[1]
    return x[0] >= 0.0


def weighted_rows(work, x, out):
    out[:] = work[0] * x + work[1]
    return x[:, 0].min() >= 0.0


@pytest.mark.parametrize("kind", ["one", "each", "rows"])
def test_numbers_of_a_call_fill_an_argument(kind: str, rng, monkeypatch) -> None:
    """Of each row, or of all; directly and by callbacks."""
    function = njit(weighted_rows if kind == "rows" else weighted)
    vectors = types.float64[:, ::1] if kind == "rows" else VECTOR
    numba_names.compile_for(function, [VECTOR, vectors, vectors])
    x, numbers = np.abs(rng.normal(size=(5, 2))), rng.normal(size=(5, 1))
    x[1, 0] = -1.0
    expected = 3.0 * x + (numbers if kind == "each" else numbers[0])
    expected[1] = np.nan
    given = {"one": (x[0], numbers[0]), "each": (x, numbers), "rows": (x, numbers[0])}[kind]
    before = [xla.FilledCopy(np.array([3.0, 0.0]), 2, np.array([1.0]), write_at)]
    how = {"rows": kind == "rows", "each": kind == "each"}
    for objection in ("", "forced"):
        monkeypatch.setattr(xla, "_objection", lambda objection=objection: objection)
        call = lambda *x: xla.operation(f"test_weighted_{kind}", function, (2,), before, x, **how)  # noqa: E731
        found = np.asarray(jax.jit(call)(*given))
        np.testing.assert_allclose(found, expected[0] if kind == "one" else expected, rtol=1e-15)


def test_many_operations_at_once_share_the_threads(on_rows, rng) -> None:
    """More pieces than threads, in operations that do not depend on each other, called again and again."""
    x, y = np.abs(rng.normal(size=(2000, 2))), rng.normal(size=(2000, 3))
    run = jax.jit(lambda x, y: [on_rows(x + k, y) for k in range(8)])
    first = [np.asarray(part) for part in run(x, y)]
    for _ in range(100):
        for part, again in zip(first, run(x, y), strict=True):
            assert np.array_equal(part, again)


def test_the_reason_is_said_once(operation, monkeypatch, caplog) -> None:
    monkeypatch.setattr(call_frame, "header", lambda: HEADER.replace(*CHANGED["a field comes"]))
    monkeypatch.delenv("CONNECTIONS_QUIET", raising=False)
    xla._objection.cache_clear()
    try:
        with caplog.at_level(logging.WARNING, "connections"):
            for _ in range(2):
                assert "pure_callback" in str(jax.make_jaxpr(operation)(np.ones(2), np.ones(3)))
        (message,) = caplog.messages
        assert "XLA_FFI_CallFrame.args." in message
    finally:
        xla._objection.cache_clear()


ROBOT = """
import sys, jax, jax.numpy as jnp, numpy as np, connections as cn
from connections import multibody as mb
if "changed" in sys.argv:
    from connections.engines.internals import call_frame
    changed = call_frame.header().replace("API_MAJOR 0", "API_MAJOR 1")
    call_frame.header = lambda: changed
mechanism, placement = mb.Mechanism(), np.eye(4)
placement[2, 3] = 0.5
for name, parent in (("upper", "world"), ("lower", "upper")):
    mechanism.add_body(name, 1.0, (0.1, 0.0, 0.2), np.eye(3))
    mechanism.add_joint(name + " joint", parent, name, mb.Revolute((0, 1, 0)), placement)
model = mechanism.build()
matrix, nabla = model.metric.matrix_at, model.connection
q, v, times = jnp.array([0.3, 0.7]), jnp.array([1.0, -0.5]), jnp.linspace(0.0, 1.0, 3)
assert np.allclose(jax.jit(matrix)(q), mb.mass_matrix(model, np.asarray(q)), rtol=1e-6)
def show(*arrays):
    print(*(float(number).hex() for array in arrays for number in np.ravel(array)))
show(jax.jit(jax.vmap(matrix))(jnp.stack([q, v])), jax.jit(jax.jacobian(matrix))(q))
if "float32" not in sys.argv:
    motion = jax.jit(lambda q, v: tuple(cn.geodesic(nabla, q, v, times)))(q, v)
    show(*motion, *cn.geodesic(nabla, q, v, times))
    show(jax.jit(jax.vmap(lambda v: cn.geodesic(nabla, q, v, times)[1]))(jnp.stack([q, v])))
"""


def robot(*words: str, **variables: str) -> tuple[list[str], str]:
    """What a new process prints, and its warnings."""
    environment = {name: text for name, text in os.environ.items() if name != "CONNECTIONS_QUIET"}
    command = [sys.executable, "-c", ROBOT, *words]
    done = subprocess.run(command, env=environment | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


@pytest.mark.further
def test_robots_move_by_callbacks_as_without() -> None:
    direct, said = robot()
    assert "XLA" not in said
    called, said = robot("changed")
    assert said.count("XLA calls recursions through Python") == 1 and "XLA_FFI_API_MAJOR" in said
    assert len(direct) > 30 and called == direct


@pytest.mark.further
def test_in_float32_no_operation_reads_float64() -> None:
    """XLA's buffers are then half as long; the metric is the recursion's, to single precision."""
    (numbers, said), (others, _) = robot("float32", JAX_ENABLE_X64="0"), robot("float32")
    assert "XLA calls" not in said
    pairs = [[float.fromhex(text) for text in texts] for texts in (numbers, others)]
    assert np.allclose(*pairs, rtol=1e-5, atol=1e-6) and pairs[0] != pairs[1]


SETTINGS = """
import sys
{first}
from connections.engines.internals import numba_names
from numba.core import config
print(config.CACHE_DIR, config.BOUNDSCHECK)
"""


@pytest.mark.parametrize("first", ["", further("import numba")])
def test_settings_of_the_current_folder_are_not_read(first: str, tmp_path) -> None:
    """They may name machine code. A program that has imported Numba keeps what Numba has read."""
    pytest.importorskip("yaml")
    text = "cache_dir: ./machine_code\nboundscheck: 1\n" if first else "nothing that Numba can read: ["
    (tmp_path / ".numba_config.yaml").write_text(text)
    words = [sys.executable, "-c", SETTINGS.format(first=first)]
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    run = {"cwd": tmp_path, "capture_output": True, "text": True, "check": True}
    assert subprocess.run(words, env=kept, **run).stdout == ("./machine_code 1\n" if first else " None\n")
    if not first:  # what the environment says holds
        assert subprocess.run(words, env=kept | {"NUMBA_CACHE_DIR": "/c"}, **run).stdout == "/c None\n"
