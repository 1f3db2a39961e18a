"""Numbers with twice the digits of a float64: unevaluated sums of two float64 (double-double).

A number is high + low, with |low| at most half a unit in the last place of high, in a slot of a workspace
like a float64 or `lanes` (`simd`), so that kernels have one source for all. Sums, products and quotients err
by some 1e-32 of their terms. They take 5 to 30 times as long as those of a float64, so that they are used
only where digits are lost: loops that are nearly singular (`kernels/loop_refinement.py`). Source:
Dekker, A Floating-Point Technique for Extending the Available Precision; Knuth, The Art of Computer
Programming 2, section 4.2.2.
"""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, lower_builtin, models, register_model

from connections.engines.inlined.simd import INDEX, Slots, Wide, without_reassociation
from connections.engines.internals.numba_names import ConcreteTemplate, get_or_insert_function, infer_global
from connections.engines.source_fingerprint import running_code

THIS_MODULE = running_code()
_DOUBLE = ir.DoubleType()
_PAIR = ir.VectorType(_DOUBLE, 2)
# An operation that has flags gets no others: with "reassoc", LLVM would take x - y + y for x.
_FLAGS = ("nsz",)


# --- operations, as functions of LLVM -----------------------------------------------------------------------


def _fma(builder: Any, x: Any, y: Any, z: Any) -> Any:
    """x y + z, rounded once."""
    kind = ir.FunctionType(_DOUBLE, [_DOUBLE] * 3)
    return builder.call(get_or_insert_function(builder.module, kind, "llvm.fma.f64"), [x, y, z])


def _add(builder: Any, x: Any, y: Any) -> Any:
    return builder.fadd(x, y, flags=_FLAGS)


def _subtract(builder: Any, x: Any, y: Any) -> Any:
    return builder.fsub(x, y, flags=_FLAGS)


def _multiply(builder: Any, x: Any, y: Any) -> Any:
    return builder.fmul(x, y, flags=_FLAGS)


def _two_sum(builder: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """x + y, rounded, and the rounding error."""
    total = _add(builder, x, y)
    of_y = _subtract(builder, total, x)
    of_x = _subtract(builder, total, of_y)
    return total, _add(builder, _subtract(builder, x, of_x), _subtract(builder, y, of_y))


def _joined(builder: Any, high: Any, low: Any) -> Any:
    """high + low as a number, for |high| >= |low|."""
    total = _add(builder, high, low)
    return _pair(builder, total, _subtract(builder, low, _subtract(builder, total, high)))


def _pair(builder: Any, high: Any, low: Any) -> Any:
    first = builder.insert_element(ir.Constant(_PAIR, ir.Undefined), high, INDEX(0))
    return builder.insert_element(first, low, INDEX(1))


def _parts(builder: Any, number: Any) -> tuple[Any, Any]:
    return builder.extract_element(number, INDEX(0)), builder.extract_element(number, INDEX(1))


def _sum(builder: Any, x: Any, y: Any) -> Any:
    (a, a_low), (b, b_low) = _parts(builder, x), _parts(builder, y)
    (high, low), (next_, rest) = _two_sum(builder, a, b), _two_sum(builder, a_low, b_low)
    high, low = _parts(builder, _joined(builder, high, _add(builder, low, next_)))
    return _joined(builder, high, _add(builder, low, rest))


def _difference(builder: Any, x: Any, y: Any) -> Any:
    return _sum(builder, x, _negative(builder, y))


def _product(builder: Any, x: Any, y: Any) -> Any:
    (a, a_low), (b, b_low) = _parts(builder, x), _parts(builder, y)
    high = _multiply(builder, a, b)
    error = _fma(builder, a, b, builder.fneg(high))
    return _joined(builder, high, _fma(builder, a, b_low, _fma(builder, a_low, b, error)))


def _quotient(builder: Any, x: Any, y: Any) -> Any:
    """x / y: three quotients of high parts, each of what the ones before leave of x."""
    divisor, rest, total = _parts(builder, y)[0], x, None
    for _ in range(3):
        part = builder.fdiv(_parts(builder, rest)[0], divisor, flags=_FLAGS)
        total = _spread(builder, part) if total is None else _sum(builder, total, _spread(builder, part))
        rest = _difference(builder, rest, _product(builder, _spread(builder, part), y))
    return total


def _root(builder: Any, x: Any) -> Any:
    """sqrt(x) = r + (x - r^2) / (2 r), r the root of the high part; zero if r is zero."""
    function = get_or_insert_function(builder.module, ir.FunctionType(_DOUBLE, [_DOUBLE]), "llvm.sqrt.f64")
    root = builder.call(function, [_parts(builder, x)[0]])
    wide = _spread(builder, root)
    rest = _parts(builder, _difference(builder, x, _product(builder, wide, wide)))[0]
    more = builder.fdiv(rest, _add(builder, root, root), flags=_FLAGS)
    zero = builder.fcmp_ordered("==", root, ir.Constant(_DOUBLE, 0.0), flags=_FLAGS)
    return builder.select(zero, wide, _joined(builder, root, more))


def _negative(builder: Any, x: Any) -> Any:
    high, low = _parts(builder, x)
    return _pair(builder, builder.fneg(high), builder.fneg(low))


def _with_sign(builder: Any, x: Any, sign: Any) -> Any:
    """|x| with the sign of `sign`."""
    negative = [
        builder.icmp_signed(
            "<", builder.bitcast(_parts(builder, number)[0], ir.IntType(64)), ir.IntType(64)(0)
        )
        for number in (x, sign)
    ]
    return builder.select(builder.xor(*negative), _negative(builder, x), x)


def _size(builder: Any, x: Any) -> Any:
    return _with_sign(builder, x, ir.Constant(_PAIR, [0.0, 0.0]))


def _spread(builder: Any, number: Any) -> Any:
    """A float64 as a number, whose low part is zero."""
    return _pair(builder, number, ir.Constant(_DOUBLE, 0.0))


def _nearest(builder: Any, address: Any, lane: Any) -> Any:
    """The float64 nearest to a number in memory."""
    return builder.extract_element(builder.load(address, align=8), INDEX(0))


def _called(emit: Any) -> Any:
    """An operation that writes a call of `emit` as a function of LLVM, in place of its instructions."""
    count = emit.__code__.co_argcount - 1

    def call(builder: Any, *arguments: Any) -> Any:
        name = f"connections.twofold.{emit.__name__}"
        function = builder.module.globals.get(name)
        if function is None:
            function = ir.Function(builder.module, ir.FunctionType(_PAIR, [_PAIR] * count), name)
            function.linkage = "internal"
            function.attributes.add("noinline")
            inside = ir.IRBuilder(function.append_basic_block())
            inside.ret(emit(inside, *function.args))
        return builder.call(function, arguments)

    return call


# --- the type -----------------------------------------------------------------------------------------------


class Twofold(Wide):
    """The Numba type of double-double numbers."""

    def __init__(self) -> None:
        functions = {"sqrt": _called(_root), "fabs": _called(_size), "copysign": _called(_with_sign)}
        super().__init__("twofold", _spread, _nearest, functions)


twofold = Twofold()


@register_model(Twofold)
class _TwofoldModel(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, _PAIR)


def _register(operation: Any, emit: Any) -> None:
    call = _called(emit)

    @infer_global(operation)
    class _TwofoldTyping(ConcreteTemplate):
        cases = [
            twofold(twofold, twofold),
            twofold(twofold, types.float64),
            twofold(types.float64, twofold),
        ]

    for left in (twofold, types.float64):
        for right in (twofold, types.float64):
            if twofold in (left, right):

                def lowered(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                    given = zip(args, sig.args, strict=True)
                    return call(
                        builder, *(x if kind == twofold else _spread(builder, x) for x, kind in given)
                    )

                lower_builtin(operation, left, right)(lowered)


for _operation, _emit in (
    (operator.add, _sum),
    (operator.sub, _difference),
    (operator.mul, _product),
    (operator.truediv, _quotient),
):
    _register(_operation, _emit)


@infer_global(operator.neg)
class _TwofoldNegativeTyping(ConcreteTemplate):
    cases = [twofold(twofold)]


@lower_builtin(operator.neg, twofold)
def _negated(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return _negative(builder, args[0])


@intrinsic
def as_twofold(typing_context: Any, slots: Any) -> Any:
    """Slots of `twofold` in the memory at `slots`, which are those of another type of number."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(sig.return_type))

    return Slots(twofold)(slots), emit


@intrinsic
def twofold_of(typing_context: Any, high: Any, low: Any) -> Any:
    """The number high + low, of two float64."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _pair(builder, *_two_sum(builder, *args))

    return twofold(types.float64, types.float64), emit


@intrinsic
def nearest(typing_context: Any, number: Any) -> Any:
    """The float64 nearest to a number."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.extract_element(args[0], INDEX(0))

    return types.float64(number), emit


# --- sine and cosine ----------------------------------------------------------------------------------------


def _rounded(value: Fraction) -> tuple[float, float]:
    """The two float64 whose sum is nearest to a fraction."""
    high = float(value)
    return high, float(value - Fraction(high))


# pi / 2 to 60 digits, as a sum of three float64.
_HALF_PI = Fraction(1570796326794896619231321691639751442098584699687552910487472, 10**60)
_PARTS = (float(_HALF_PI), *_rounded(_HALF_PI - Fraction(float(_HALF_PI))))
# The coefficients of the series of (sin r) / r and of cos r in r^2, from the last one on: at |r| <= pi / 4,
# what is left out is below 1e-33.
_SINE = tuple(_rounded(Fraction((-1) ** k, math.factorial(2 * k + 1))) for k in range(14, 0, -1))
_COSINE = tuple(_rounded(Fraction((-1) ** k, math.factorial(2 * k))) for k in range(14, 0, -1))


@without_reassociation
def _sine_and_cosine(x):
    k = math.floor(nearest(x) * 0.6366197723675814 + 0.5)
    whole = twofold_of(k, 0.0)
    r = ((x - whole * _PARTS[0]) - whole * _PARTS[1]) - whole * _PARTS[2]
    z = r * r
    s, c = twofold_of(0.0, 0.0), twofold_of(0.0, 0.0)
    for i in range(len(_SINE)):
        s = (s + twofold_of(_SINE[i][0], _SINE[i][1])) * z
        c = (c + twofold_of(_COSINE[i][0], _COSINE[i][1])) * z
    s, c, quadrant = s * r + r, c + 1.0, k - 4.0 * math.floor(0.25 * k)
    if quadrant == 1.0:
        return c, -s
    if quadrant == 2.0:
        return -s, -c
    if quadrant == 3.0:
        return -c, s
    return s, c


twofold.functions["sine_cosine"] = lambda x: _sine_and_cosine(x)
