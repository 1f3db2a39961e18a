"""Arrays of expressions: validation, a quick normal form, and an exact test for zero.

Results of this room are NumPy arrays of SymPy expressions (dtype object, read only), with the index order of
the numeric classes: ``Gamma[i, j, k]`` is the same coefficient in both. ``sympy.Matrix(array)`` converts a
two-dimensional array. Most mechanical systems are rational functions of parameters, coordinates, and sines
and cosines of angles; `tidy` and `vanishes` are made for them: they compute modulo sin^2 + cos^2 = 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import sympy
from sympy.polys.rings import PolyElement, PolyRing

from connections._words import words_of
from connections.checks import ShapeError, is_masked, is_whole, require_function, require_text

Simplifier = Callable[[sympy.Expr], sympy.Expr]
"""A function of one expression that returns an equal expression."""

_QUOTIENTS = {
    sympy.tan: lambda angle: sympy.sin(angle) / sympy.cos(angle),
    sympy.cot: lambda angle: sympy.cos(angle) / sympy.sin(angle),
    sympy.sec: lambda angle: 1 / sympy.cos(angle),
    sympy.csc: lambda angle: 1 / sympy.sin(angle),
}
_NOT_REAL = (sympy.I, sympy.nan, sympy.oo, -sympy.oo, sympy.zoo)
_FACTORED = 40  # most terms of polynomials that are factored; longer ones take long and seldom have factors
_FEW = 12  # terms of expressions for which all normal forms are tried


def as_expressions(name: str, value: Any, shape: Sequence[int | None] | None) -> np.ndarray:
    """`value` as a read-only object array of expressions.

    Parameters
    ----------
    name : the argument's name in errors.
    value : SymPy matrix or array, NumPy array, nested lists; numbers become expressions. A row or column
        matrix is accepted as a vector.
    shape : required shape; None allows any length of that axis, or any shape.

    Raises
    ------
    ShapeError : the shape differs, or the lists are ragged.
    TypeError : an entry is not an expression, e.g. a string, or not of real numbers.

    Examples
    --------
    >>> from connections import symbolic
    >>> symbolic.as_expressions("inertia", [[1, 0], [0, 2.5]], (2, 2))
    array([[1, 0],
           [0, 2.50000000000000]], dtype=object)
    """
    require_text("name", name)
    if shape is not None and not (
        isinstance(shape, list | tuple) and all(size is None or is_whole(size) for size in shape)
    ):
        raise TypeError(f"shape: expected a tuple of lengths, or None, got {words_of(shape)}")
    if isinstance(value, sympy.MatrixBase) and shape is not None and len(shape) == 1 and 1 in value.shape:
        value = value.flat()
    if isinstance(value, (sympy.MatrixBase, sympy.NDimArray)):
        value = value.tolist()
    if is_masked(value):
        raise TypeError(f"{name}: expected expressions, got masked entries")
    try:
        array = np.array(value, dtype=object)
    except ValueError as error:
        raise ShapeError(name, _text(shape), "ragged lists") from error
    if shape is not None and (
        array.ndim != len(shape)
        or any(want not in (None, have) for want, have in zip(shape, array.shape, strict=True))
    ):
        raise ShapeError(name, _text(shape), array.shape)
    entries = [as_expression(name, entry) for entry in array.flat]
    for entry in entries:
        if entry.has(*_NOT_REAL):
            raise TypeError(f"{name}: expected expressions of real numbers, got {entry}")
    return frozen(entries, array.shape)


def frozen(entries: Any, shape: tuple[int, ...]) -> np.ndarray:
    """A read-only object array of expressions of the given shape.

    Parameters
    ----------
    entries : expressions or numbers, in C order; an array is flattened.
    shape : of the result.
    """
    flat = entries.ravel() if isinstance(entries, np.ndarray) else entries
    array = np.empty(len(flat), dtype=object)
    array[:] = [sympy.sympify(entry) for entry in flat]
    array = array.reshape(shape)
    array.flags.writeable = False
    return array


def simplified(array: np.ndarray, simplify: Simplifier | None) -> np.ndarray:
    """`simplify` of every entry, called once for equal entries; unchanged entries if it is None.

    Parameters
    ----------
    array : expressions.
    simplify : `tidy`, `sympy.simplify`, any function of one expression, or None.

    Examples
    --------
    >>> import sympy
    >>> from connections import symbolic
    >>> x = sympy.Symbol("x")
    >>> one = sympy.sin(x) ** 2 + sympy.cos(x) ** 2
    >>> array = symbolic.as_expressions("a", [one, x], None)
    >>> symbolic.simplified(array, symbolic.tidy)
    array([1, x], dtype=object)
    """
    require_simplifier(simplify)
    if not isinstance(array, np.ndarray):
        raise TypeError(f"array: expected an array of expressions, got {words_of(array)}")
    if simplify is None:
        return frozen(array, array.shape)
    done: dict[Any, Any] = {}
    entries = [
        entry if isinstance(entry, sympy.Basic) else as_expression("array", entry) for entry in array.flat
    ]
    for entry in entries:
        if entry not in done:
            done[entry] = as_expression("simplify(expression)", simplify(entry))
    return frozen([done[entry] for entry in entries], array.shape)


def require_simplifier(simplify: Any) -> None:
    """Raise `TypeError` unless it is None or a function of one expression."""
    if simplify is not None:
        require_function("simplify", simplify, "expression -> expression")


def tidy(expression: Any) -> sympy.Expr:
    """The shortest of a few normal forms of a rational function of symbols, sines and cosines.

    Multiple angles are expanded, common factors cancelled, sin^2 or cos^2 eliminated, numerator and
    denominator factored if they are short. A short expression is unchanged unless it equals zero, and then it
    becomes zero. Other functions and roots count as symbols. This is much faster than `sympy.simplify`.

    Parameters
    ----------
    expression : an expression; one with floating-point numbers is returned unchanged.

    Examples
    --------
    >>> import sympy
    >>> from connections import symbolic
    >>> x = sympy.Symbol("x")
    >>> symbolic.tidy(1 - sympy.cos(x) ** 2 + sympy.sin(2 * x) / sympy.cos(x))
    (sin(x) + 2)*sin(x)
    """
    return _tidied(as_expression("expression", expression))


@lru_cache(maxsize=4096)
def _tidied(expression: sympy.Expr) -> sympy.Expr:
    if expression.is_Atom or expression.has(sympy.Float):
        return expression
    return min([*_normal_forms(expression), expression, _term_by_term(expression)], key=_size)


def vanishes(expression: Any) -> bool:
    """Whether an expression is zero; exact for rational functions of symbols, sines and cosines.

    Parameters
    ----------
    expression : an expression; for other kinds the result is that of `sympy.simplify`, which may miss a zero.

    Examples
    --------
    >>> import sympy
    >>> from connections import symbolic
    >>> x = sympy.Symbol("x")
    >>> symbolic.vanishes(sympy.sin(2 * x) - 2 * sympy.sin(x) * sympy.cos(x))
    True
    """
    expression = as_expression("expression", expression)
    if expression.is_Atom:
        return bool(expression == 0)
    numerator, _, ring = _fraction(expression)
    if not _reduced(numerator, ring.pairs, (True,) * len(ring.pairs)):
        return True
    return not ring.decides and bool(sympy.simplify(expression) == 0)


def nonzero(array: np.ndarray) -> dict[tuple[int, ...], sympy.Expr]:
    """The entries that are not the number zero, by index.

    Parameters
    ----------
    array : expressions; simplified ones, to find all zeros.

    Examples
    --------
    >>> import sympy
    >>> from connections import symbolic
    >>> x = sympy.Symbol("x")
    >>> symbolic.nonzero(symbolic.as_expressions("T", [[0, x], [0, 0]], None))
    {(0, 1): x}
    """
    entries = np.ndenumerate(as_expressions("array", array, None))
    return {index: entry for index, entry in entries if entry != 0}


def as_expression(name: str, entry: Any) -> sympy.Expr:
    """One expression; a number becomes one.

    Raises
    ------
    TypeError : it is none, or the number is complex.
    """
    try:
        if isinstance(entry, complex | np.complexfloating | np.datetime64 | np.timedelta64 | np.ndarray):
            raise sympy.SympifyError(entry)
        expression = sympy.sympify(entry, strict=True)
    except sympy.SympifyError as error:
        raise TypeError(f"{name}: {entry!r} is not an expression") from error
    if not isinstance(expression, sympy.Expr):
        raise TypeError(f"{name}: {entry!r} is not an expression")
    return expression


def _term_by_term(expression: sympy.Expr) -> sympy.Expr:
    """A sum in which terms with equal denominators are joined, without a common denominator."""
    groups: dict[sympy.Expr, list[sympy.Expr]] = {}
    for term in sympy.Add.make_args(expression):
        groups.setdefault(sympy.fraction(term)[1], []).append(term)
    if len(groups) < 2:
        return expression
    return sympy.Add(*[tidy(sympy.Add(*terms)) for terms in groups.values()])


def _size(expression: sympy.Expr) -> int:
    """Number of nodes of the expression's tree."""
    return sum(1 for _ in sympy.preorder_traversal(expression))


def _normal_forms(expression: sympy.Expr) -> list[sympy.Expr]:
    numerator, denominator, ring = _fraction(expression)
    if not _reduced(numerator, ring.pairs, (True,) * len(ring.pairs)):
        return [sympy.S.Zero]
    found = []
    for choice in _choices(len(ring.pairs), len(numerator)):
        above, below = (_reduced(part, ring.pairs, choice) for part in (numerator, denominator))
        if not below:
            return [sympy.zoo]
        found.append(above.cancel(below))
    above, below = (_as_product(part) for part in min(found, key=partial(_complexity, ring.pairs)))
    forms = above / below, _negated(above) / _negated(below)
    return [form.xreplace(ring.back) for form in forms]


def _complexity(pairs: list[tuple[int, int]], fraction: tuple[PolyElement, PolyElement]) -> int:
    """Number of terms times number of sines and cosines; factoring is quick if it is small."""
    degrees = [np.max([part.degrees() for part in fraction], axis=0)[list(pair)] for pair in pairs]
    return sum(len(part) for part in fraction) * (1 + int(np.sum(np.array(degrees) > 0)))


def _as_product(polynomial: PolyElement) -> sympy.Expr:
    """The polynomial as an expression, factored if it is short."""
    if len(polynomial) > _FACTORED:
        return polynomial.as_expr()
    coefficient, factors = polynomial.factor_list()
    number = polynomial.ring.domain.to_sympy(coefficient)
    return sympy.Mul(number, *[part.as_expr() ** power for part, power in factors])


def _negated(product: sympy.Expr) -> sympy.Expr:
    """Minus the product; the sign goes into a sum among its factors, if there is one."""
    factors = list(sympy.Mul.make_args(product))
    for k, part in enumerate(factors):
        if part.is_Add:
            return sympy.Mul(*factors[:k], -part, *factors[k + 1 :])
    return -product


def _choices(angles: int, terms: int) -> list[tuple[bool, ...]]:
    """Booleans for all angles, whether to eliminate sin^2 or cos^2; all combinations if there are few."""
    if angles <= 1 or (angles == 2 and terms <= _FEW):
        return list(itertools.product((True, False), repeat=angles))
    return [(True,) * angles, (False,) * angles]


@dataclass(frozen=True)
class _Generators:
    """The meaning of the symbols of a polynomial ring.

    Parameters
    ----------
    pairs : indices of the symbols of sine and cosine of every angle.
    back : {symbol: expression}.
    decides : whether sin^2 + cos^2 = 1 are the only relations, so that a nonzero polynomial is not zero.
    """

    pairs: list[tuple[int, int]]
    back: dict[sympy.Symbol, sympy.Expr]
    decides: bool


def _fraction(expression: sympy.Expr) -> tuple[PolyElement, PolyElement, _Generators]:
    """Numerator and denominator as polynomials in symbols, sines, cosines and other functions."""
    for function, quotient in _QUOTIENTS.items():
        expression = expression.replace(function, quotient)
    if any(not node.args[0].is_Symbol for node in expression.atoms(sympy.sin, sympy.cos)):
        expression = sympy.expand_trig(expression)
    turned = {node.args[0] for node in expression.atoms(sympy.sin, sympy.cos)}
    angles = sorted(turned, key=sympy.default_sort_key)
    nodes = [function(angle) for angle in angles for function in (sympy.sin, sympy.cos)]
    others = sorted(_foreign(expression) - set(nodes), key=sympy.default_sort_key)
    there = {node: sympy.Dummy(f"f{k}") for k, node in enumerate([*nodes, *others])}
    form = expression.xreplace(there)
    symbols = sorted(form.free_symbols - set(there.values()), key=sympy.default_sort_key)
    ring = PolyRing([*there.values(), *symbols], sympy.QQ, "lex")
    above, below = (ring.from_expr(part) for part in sympy.fraction(sympy.together(form)))
    pairs = [(2 * k, 2 * k + 1) for k in range(len(angles))]
    decides = not others and all(angle.is_Symbol for angle in angles)
    return above, below, _Generators(pairs, {symbol: node for node, symbol in there.items()}, decides)


def _foreign(expression: sympy.Expr) -> set[sympy.Expr]:
    """The largest parts that are not rational functions of symbols: functions, roots, pi."""
    if expression.is_Symbol or expression.is_Rational:
        return set()
    if expression.is_Add or expression.is_Mul:
        return set().union(*map(_foreign, expression.args))
    if expression.is_Pow and expression.exp.is_Integer:
        return _foreign(expression.base)
    return {expression}


def _reduced(p: PolyElement, pairs: list[tuple[int, int]], eliminate_sine: tuple[bool, ...]) -> PolyElement:
    """The polynomial modulo s^2 + c^2 = 1 for every pair: s^2, or c^2, no longer occurs."""
    for (s, c), sine in zip(pairs, eliminate_sine, strict=True):
        out, kept = (s, c) if sine else (c, s)
        groups: dict[int, dict[Any, Any]] = {}
        for powers, value in p.terms():
            rest = (*powers[:out], powers[out] % 2, *powers[out + 1 :])
            groups.setdefault(powers[out] // 2, {})[rest] = value
        square = 1 - p.ring.gens[kept] ** 2
        p = sum((p.ring.from_dict(terms) * square**k for k, terms in groups.items()), p.ring.zero)
    return p


def _text(shape: Sequence[int | None] | None) -> object:
    return "any" if shape is None else tuple("k" if size is None else size for size in shape)
