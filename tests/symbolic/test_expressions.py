"""Normal forms and the test for zero, and the validation of arrays of expressions."""

import numpy as np
import pytest
import sympy
from sympy import cos, cot, exp, pi, sec, sin, sqrt, symbols, tan

import connections as cn
from connections.symbolic import as_expressions, nonzero, simplified, tidy, vanishes

X, Y = symbols("x y", real=True)
A, B = symbols("a b", positive=True)


@pytest.mark.parametrize(
    ("expression", "short"),
    [
        (A * sin(X) ** 2 + A * cos(X) ** 2 + B / Y, A + B / Y),
        ((1 - cos(X) ** 2) / sin(X), sin(X)),
        (sin(X + Y) - sin(X) * cos(Y), sin(Y) * cos(X)),
        ((A**2 - B**2) / (A - B), A + B),
        (tan(X) * cos(X) + Y, sin(X) + Y),
        (exp(X) ** 2 / exp(X) + 0 * Y, exp(X)),
        (sin(2 * X) / (2 * cos(X)), sin(X)),
        ((pi * A + pi * B) / (A + B), pi),
        (0.5 * A + 0.5 * A, 1.0 * A),
        (cot(X) * sin(X) / sec(X) + sympy.I, cos(X) ** 2 + sympy.I),
        (
            sympy.Derivative(sympy.Function("f")(X), X) * A / A**2,
            sympy.Derivative(sympy.Function("f")(X), X) / A,
        ),
        (sympy.Integer(3), sympy.Integer(3)),
    ],
)
def test_tidy_finds_the_short_form(expression, short):
    assert tidy(expression) == short
    assert vanishes(expression - short)


@pytest.mark.parametrize(
    "zero",
    [
        cos(X - Y) - cos(X) * cos(Y) - sin(X) * sin(Y),
        sin(X) ** 4 - cos(X) ** 4 + cos(2 * X),
        1 / (A + B) - (A - B) / (A**2 - B**2),
        sin(X / 2) * cos(X / 2) * 2 - sin(X),
        sqrt(A) ** 4 - A**2,
        sqrt(A + B) ** 2 / sqrt(A + B) - sqrt(A + B),
        sin(3 * X) + 4 * sin(X) ** 3 - 3 * sin(X),
    ],
)
def test_zeros_are_found_and_near_zeros_are_not(zero):
    assert vanishes(zero)
    assert not vanishes(zero + A / 10**12)
    assert not vanishes(zero + sin(X))


def test_a_division_by_zero_is_seen():
    assert tidy(A / (sin(X) ** 2 + cos(X) ** 2 - 1)) == sympy.zoo


def test_an_expression_never_becomes_another(rng):
    """Random sums of products: the normal form has the value of the expression."""
    atoms = [sin(X), cos(X), sin(X + Y), cos(Y), A, B, X, sympy.Rational(3, 7)]
    point = {X: 0.7, Y: -1.3, A: 0.4, B: 2.1}
    for _ in range(6):
        above, below = (
            sympy.Add(*[sympy.Mul(*[atoms[k] for k in rng.integers(0, 8, size=3)]) for _ in range(3)])
            for _ in range(2)
        )
        value = float((above / below).subs(point))
        assert float(tidy(above / below).subs(point)) == pytest.approx(value, rel=1e-9)


def test_arrays_of_expressions():
    array = as_expressions("H", sympy.Matrix([[X, 0], [1, Y]]), (2, None))
    assert array.shape == (2, 2) and isinstance(array[1, 0], sympy.Integer)
    assert as_expressions("R", sympy.Array([[[1, 2]], [[3, 4]]]), (2, 1, 2)).shape == (2, 1, 2)
    assert nonzero(array) == {(0, 0): X, (1, 0): 1, (1, 1): Y}
    doubled = simplified(array, lambda expression: 2 * expression)
    assert (doubled == np.array([[2 * X, 0], [2, 2 * Y]], dtype=object)).all()
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1
    with pytest.raises(cn.checks.ShapeError, match=r"H: expected shape \(3, k\), got \(2, 2\)"):
        as_expressions("H", [[1, 2], [3, 4]], (3, None))
    for wrong in ([[X < Y]], [["y"]], [[None]]):
        with pytest.raises(TypeError, match="H: .* is not an expression"):
            as_expressions("H", wrong, (1, 1))
