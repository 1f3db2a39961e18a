"""Numbers that are LLVM vectors, so that one kernel computes one configuration or several at once.

A kernel reads and writes slots of a workspace. In a workspace for one configuration a slot is one float64. In
a workspace for several, a slot is a `lanes` value: an LLVM vector that holds the same quantity for LANES
configurations, and + - * / act on all of them. The kernel's source is the same for both, and for `twofold`
numbers, which have twice as many digits (`engines/inlined/twofold.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, lower_builtin, models, overload, register_model

from connections.engines.internals.numba_inlining import WithoutMachineCode
from connections.engines.internals.numba_names import (
    AbstractTemplate,
    ConcreteTemplate,
    get_or_insert_function,
    infer_global,
)
from connections.engines.internals.processor import compiled_features
from connections.engines.source_fingerprint import running_code

THIS_MODULE = running_code()
# The number of doubles in the widest register of the processor that Numba compiles for.
LANES = 8 if "avx512f" in compiled_features() else 4
VECTOR = ir.VectorType(ir.DoubleType(), LANES)
INDEX = ir.IntType(32)
# Products may be fused with sums. No flag lets LLVM assume that numbers are finite, so NaN is propagated.
_FLAGS = ("contract", "nsz", "arcp")
FASTMATH = {*_FLAGS, "reassoc"}

# For kernels and the helpers inlined into them. Without the wrappers by which Python and C call a
# function, and without machine code for these alone, compilation takes half the time;
# so Python must not call such a function, only its `py_func`.
INTERNAL: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": WithoutMachineCode}
inlined = njit(forceinline=True, fastmath=FASTMATH, error_model="numpy", **INTERNAL)
# For functions whose sums must be evaluated in the order written: without reassociation. A residual that is
# round-off then stays the same on all machines.
_EXACT: Any = {"forceinline": True, "fastmath": {"contract"}, "error_model": "numpy", **INTERNAL}
without_reassociation = njit(**_EXACT)
# The same for long functions that are used in several places: they are called, and compiled once. Without an
# option of its own, a function would take over that of the function that calls it, and be inlined everywhere.
routine = njit(forceinline=False, fastmath={"contract"}, error_model="numpy", **INTERNAL)
# The same for functions that are called in one place, and divide a long function into parts with names: Numba
# puts their text there. A chain of functions that call each other is compiled anew for each of them, with all
# that is below, which takes most of the time; parts are compiled once.
inline_section = njit(inline="always", fastmath={"contract"}, error_model="numpy", **INTERNAL)


def compiled_entry(function: Any, nogil: bool = False, fastmath: set[str] = FASTMATH) -> Any:
    """A function that Python calls, by a `registry.Registry`, which caches its machine code on disk.

    On one configuration; `compiled_batch_entry` is the same for rows of them, and releases Python's lock.
    """
    return njit(nogil=nogil, fastmath=fastmath, error_model="numpy")(function)


compiled_batch_entry = partial(compiled_entry, nogil=True)
# With sums in the order written, for entries that consist of parts.
unreassociated_entry, unreassociated_batch_entry = (
    partial(compiled_entry, fastmath={"contract"}),
    partial(compiled_batch_entry, fastmath={"contract"}),
)


def _splat(builder: Any, number: Any) -> Any:
    """The vector with `number` in every lane."""
    undefined = ir.Constant(VECTOR, ir.Undefined)
    first = builder.insert_element(undefined, number, INDEX(0))
    zeros = ir.Constant(ir.VectorType(INDEX, LANES), [0] * LANES)
    return builder.shuffle_vector(first, undefined, zeros)


def _lane(builder: Any, address: Any, lane: Any) -> Any:
    """The number in a lane of a vector in memory."""
    numbers = builder.bitcast(address, ir.DoubleType().as_pointer())
    return builder.load(builder.gep(numbers, [lane]), align=8)


class Wide(types.Type):
    """The Numba type of numbers that take more than one float64.

    Parameters
    ----------
    name : of the type.
    spread : (builder, float64) -> the number that equals it.
    part : (builder, address, lane) -> the float64 in a lane of a number in memory.
    functions : {name: (builder, arguments) -> result} of functions that LLVM does not have for it.
    """

    def __init__(
        self,
        name: str,
        spread: Callable[..., Any],
        part: Callable[..., Any],
        functions: dict[str, Callable[..., Any]],
    ) -> None:
        self.spread, self.part, self.functions = spread, part, functions
        super().__init__(name=name)


class Lanes(Wide):
    """The Numba type of LANES float64 numbers in one register."""

    def __init__(self) -> None:
        super().__init__(f"lanes{LANES}", _splat, _lane, {})


lanes = Lanes()


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, VECTOR)


def _register_binary(operation: Any, instruction: str) -> None:
    @infer_global(operation)
    class _LanesTyping(ConcreteTemplate):
        cases = [
            lanes(lanes, lanes),
            lanes(lanes, types.float64),
            lanes(types.float64, lanes),
        ]

    def emit(builder: Any, left: Any, right: Any) -> Any:
        return getattr(builder, instruction)(left, right, flags=_FLAGS)

    def both(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return emit(builder, *args)

    def number_right(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return emit(builder, args[0], _splat(builder, args[1]))

    def number_left(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return emit(builder, _splat(builder, args[0]), args[1])

    lower_builtin(operation, lanes, lanes)(both)
    lower_builtin(operation, lanes, types.float64)(number_right)
    lower_builtin(operation, types.float64, lanes)(number_left)


for _operation, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _register_binary(_operation, _instruction)


@infer_global(operator.neg)
class _LanesNegativeTyping(ConcreteTemplate):
    cases = [lanes(lanes)]


@lower_builtin(operator.neg, lanes)
def _negative(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.fneg(args[0], flags=_FLAGS)


class Slots(types.Type):
    """Numba's type of a bare pointer to slots; it holds no reference, so passing it is free.

    Slots are `stride` numbers apart: one, or LANES where they are one lane of slots of `lanes`.
    """

    def __init__(self, dtype: Any, stride: int = 1) -> None:
        self.dtype, self.stride = dtype, stride
        super().__init__(name=f"slots({dtype}, {stride})")

    def place(self, builder: Any, pointer: Any, slot: Any) -> Any:
        """The address of slot number `slot`."""
        return builder.gep(pointer, [slot if self.stride == 1 else builder.mul(slot, slot.type(self.stride))])


@register_model(Slots)
class _SlotsModel(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, manager.lookup(fe_type.dtype).get_data_type().as_pointer())


@intrinsic
def slots_of(typing_context: Any, array: Any) -> Any:
    """Pointer to the slots of a C-contiguous array: `lanes` if it is (slots, LANES), or its numbers.

    The array must outlive the pointer.
    """
    many = array.ndim == 2 and array.dtype == types.float64
    return _pointer_signature(array, lanes if many else array.dtype)


@intrinsic
def flat_slots_of(typing_context: Any, array: Any) -> Any:
    """Pointer to the numbers of a C-contiguous array of any dimension. The array must outlive the pointer."""
    return _pointer_signature(array, array.dtype)


def _pointer_signature(array: Any, dtype: Any) -> Any:
    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        return builder.bitcast(data, context.get_value_type(sig.return_type))

    return Slots(dtype)(array), emit


@intrinsic
def beyond(typing_context: Any, slots: Any, count: Any) -> Any:
    """Pointer to slot number `count`."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return slots.place(builder, args[0], args[1])

    return slots(slots, types.intp), emit


@intrinsic(prefer_literal=True)
def beyond_each(typing_context: Any, slots: Any, counts: Any, first: Any, count: Any) -> Any:
    """`beyond` for counts[first], ..., counts[first + count - 1], as a tuple; `count` is a literal."""
    result = types.UniTuple(slots, count.literal_value)

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        numbers = [context.get_constant(types.intp, k) for k in range(count.literal_value)]
        places = [builder.add(args[2], number) for number in numbers]
        starts = [builder.load(builder.gep(args[1], [place])) for place in places]
        return context.make_tuple(builder, result, [slots.place(builder, args[0], start) for start in starts])

    return result(slots, counts, types.intp, count), emit


@intrinsic
def as_integers(typing_context: Any, slots: Any) -> Any:
    """The slots with their 64 bits read as integers."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(sig.return_type))

    return Slots(types.int64)(slots), emit


@intrinsic
def as_numbers(typing_context: Any, slots: Any) -> Any:
    """The memory of slots of `lanes` as numbers: number LANES * k + i is lane i of slot k."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(sig.return_type))

    return Slots(types.float64)(slots), emit


@intrinsic
def as_lanes(typing_context: Any, slots: Any) -> Any:
    """The memory from a slot of one number on, as slots of `lanes`."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(sig.return_type))

    return Slots(lanes)(slots), emit


@intrinsic
def in_lane(typing_context: Any, slots: Any, lane: Any) -> Any:
    """One lane of slots of `lanes`, as slots of numbers."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.gep(builder.bitcast(args[0], ir.DoubleType().as_pointer()), [args[1]])

    return Slots(types.float64, LANES)(slots, types.intp), emit


@intrinsic
def load(typing_context: Any, slots: Any, slot: Any) -> Any:
    """The number in slot `slot`."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        # NumPy's arrays are only sure to be aligned to 8 bytes, not to the width of a register.
        return builder.load(slots.place(builder, args[0], args[1]), align=8)

    return slots.dtype(slots, types.intp), emit


def _as(builder: Any, value: Any, kind: Any, wanted: Any) -> Any:
    """A number of the Numba type `kind` as one of the type `wanted`."""
    return wanted.spread(builder, value) if isinstance(wanted, Wide) and kind != wanted else value


@intrinsic
def store(typing_context: Any, slots: Any, slot: Any, number: Any) -> Any:
    """Put `number` into slot `slot`; a float64 goes into all lanes of a slot of `lanes`."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value = _as(builder, args[2], sig.args[2], sig.args[0].dtype)
        builder.store(value, slots.place(builder, args[0], args[1]), align=8)
        return context.get_dummy_value()

    return types.void(slots, types.intp, number), emit


@intrinsic(prefer_literal=True)
def take(typing_context: Any, slots: Any, slot: Any, count: Any) -> Any:
    """The numbers in `count` consecutive slots, as a tuple; `count` is a literal."""
    result = types.UniTuple(slots.dtype, count.literal_value)

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        counts = [context.get_constant(types.intp, k) for k in range(count.literal_value)]
        places = [slots.place(builder, args[0], builder.add(args[1], k)) for k in counts]
        return context.make_tuple(builder, result, [builder.load(place, align=8) for place in places])

    return result(slots, types.intp, count), emit


@intrinsic
def put(typing_context: Any, slots: Any, slot: Any, numbers: Any) -> Any:
    """Put a tuple of numbers into consecutive slots."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        first = slots.place(builder, args[0], args[1])
        for k, kind in enumerate(sig.args[2]):
            value = _as(builder, builder.extract_value(args[2], k), kind, sig.args[0].dtype)
            place = slots.place(builder, first, context.get_constant(types.intp, k))
            builder.store(value, place, align=8)
        return context.get_dummy_value()

    return types.void(slots, types.intp, numbers), emit


@infer_global(operator.getitem)
class _GetTyping(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], Slots) and isinstance(args[1], types.Integer):
            return args[0].dtype(args[0], types.intp)
        return None


@lower_builtin(operator.getitem, Slots, types.intp)
def _get(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.load(sig.args[0].place(builder, args[0], args[1]), align=8)


def _calling(operation: str) -> Any:
    """Code that calls a function of LLVM on a number or a vector register, or the type's own function."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = args[0].type
        if isinstance(sig.args[0], Wide) and operation in sig.args[0].functions:
            return sig.args[0].functions[operation](builder, *args)
        name = f"llvm.{operation}." + (f"v{LANES}f64" if kind == VECTOR else "f64")
        function = get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * len(args)), name)
        return builder.call(function, args)

    return emit


def _lane_by_lane(operation: str) -> Any:
    """A function of LLVM of one number, or of each of several."""

    @intrinsic
    def call(typing_context: Any, number: Any) -> Any:
        return number(number), _calling(operation)

    return call


@intrinsic
def copied_sign(typing_context: Any, number: Any, sign: Any) -> Any:
    """The size of `number` with the sign of `sign`, of one number or lane by lane."""
    return number(number, number), _calling("copysign")


@intrinsic
def smaller(typing_context: Any, one: Any, other: Any) -> Any:
    """The smaller of two numbers, zero if either is NaN, or lane by lane."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        first, second = args
        zero = ir.Constant(first.type, None)
        least = builder.select(builder.fcmp_ordered(">=", first, second), second, zero)
        return builder.select(builder.fcmp_ordered("<", first, second), first, least)

    return one(one, one), emit


@intrinsic
def alike(typing_context: Any, number: Any, other: Any) -> Any:
    """`number` as a number of the type of `other`, in all lanes if that has lanes."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _as(builder, args[0], sig.args[0], sig.args[1])

    return other(types.float64, other), emit


@intrinsic
def load_lane(typing_context: Any, slots: Any, slot: Any, lane: Any) -> Any:
    """The float64 in a lane of slot `slot`; the slot itself, if it is one number."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at, kind = builder.gep(args[0], [args[1]]), sig.args[0].dtype
        return kind.part(builder, at, args[2]) if isinstance(kind, Wide) else builder.load(at, align=8)

    return types.float64(slots, types.intp, types.intp), emit


@intrinsic
def chosen(typing_context: Any, flag: Any, yes: Any, no: Any) -> Any:
    """`yes` if flag > 0, otherwise `no`, of one number or lane by lane; `no` may be one number."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        zero = ir.Constant(args[0].type, [0.0] * LANES if args[0].type == VECTOR else 0.0)
        other = args[2] if args[2].type == args[1].type else _splat(builder, args[2])
        return builder.select(builder.fcmp_ordered(">", args[0], zero), args[1], other)

    return yes(flag, yes, no), emit


floor = _lane_by_lane("floor")  # the largest whole number not above
root = _lane_by_lane("sqrt")
absolute = _lane_by_lane("fabs")


# pi / 2 as a sum of three. The first two have 33 bits, so that their products with an integer below 2^20 are
# exact.
_HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)


@without_reassociation
def polynomial_sine_cosine(x):
    """`sine_cosine` of a float64, or of `lanes`.

    x = k pi/2 + r with |r| <= pi/4 in extended precision, Taylor polynomials of degree 17 and 16 in r
    (remainder below 1e-17), then the quadrant k mod 4. There are no branches, because the lanes of x may be
    in different quadrants.
    """
    k = floor(x * 0.6366197723675814 + 0.5)
    r = ((x - k * _HALF_PI[0]) - k * _HALF_PI[1]) - k * _HALF_PI[2]
    z = r * r
    p = z * (1.0 / 355687428096000.0) - 1.0 / 1307674368000.0
    p = (p * z + 1.0 / 6227020800.0) * z - 1.0 / 39916800.0
    p = (p * z + 1.0 / 362880.0) * z - 1.0 / 5040.0
    p = (p * z + 1.0 / 120.0) * z - 1.0 / 6.0
    s = p * z * r + r
    p = z * (1.0 / 20922789888000.0) - 1.0 / 87178291200.0
    p = (p * z + 1.0 / 479001600.0) * z - 1.0 / 3628800.0
    p = (p * z + 1.0 / 40320.0) * z - 1.0 / 720.0
    p = (p * z + 1.0 / 24.0) * z - 0.5
    c = p * z + 1.0
    half = floor(k * 0.5)
    odd = k - half * 2.0
    sign = 1.0 - (half - floor(half * 0.5) * 2.0) * 2.0
    even = 1.0 - odd
    return sign * (even * s + odd * c), sign * (even * c - odd * s)


def sine_cosine(x):
    """sin x and cos x to a rounding error or two of the type of number, for |x| <= 1e6."""
    return polynomial_sine_cosine.py_func(x)


@overload(sine_cosine, jit_options=_EXACT)
def _sine_cosine_of(x):
    if isinstance(x, Wide) and "sine_cosine" in x.functions:
        return x.functions["sine_cosine"]
    return lambda x: polynomial_sine_cosine(x)
