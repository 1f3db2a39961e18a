"""Functions, mechanisms and kinds of values, drawn together: what the tests of arguments try one by one.

`tests/multibody/test_recursions_input.py` tries every kind on one function, and every function with one kind.
Without `--all`, few calls are drawn, of what is compiled anyway; with it, more, of everything.
"""

import numpy as np
import pytest
from fuzz_settings import fuzzed, limit
from hypothesis import given
from hypothesis import strategies as st
from recursion_functions import (
    EVERY,
    FEW,
    FUNCTIONS,
    agree,
    call,
    core_shape,
    model,
    overflows,
    quaternions,
    states,
)
from recursion_values import (
    LAYOUTS,
    OTHER_NORMS,
    WRONG,
    WRONG_OUT,
    is_right,
    overflowing,
    replaced,
    wrong_kinds,
)

from connections.checks import NonFiniteError, PointError

pytestmark = pytest.mark.timeout(limit())


class Drawn:
    """A function, a mechanism, and right arguments for one configuration or for rows."""

    def __init__(self, data, cases):
        self.data = data
        self.name, self.of = self.one_of(cases)
        batch = self.one_of([(), (1,), (3,), (11,), (2, 4)])
        self.last_row = tuple(size - 1 for size in batch)
        rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
        self.robot, self.names = model(self.of), FUNCTIONS[self.name][1]
        self.arguments = states(self.name, rng, *batch, of=self.robot)
        self.shape = (*batch, *core_shape(self.name, self.robot))

    def one_of(self, choices):
        return self.data.draw(st.sampled_from(list(choices)))

    def result(self, arguments=None, **options):
        return call(self.name, *(arguments or self.arguments), of=self.robot, **options)


def wrong_value(drawn):
    """Refused, by the argument's name."""
    number = drawn.one_of(range(len(drawn.names)))
    right = drawn.arguments[number]
    value, error = WRONG[drawn.one_of(wrong_kinds(right))]
    with pytest.raises(error, match=rf"^{drawn.names[number]}\b"):
        drawn.result(replaced(drawn.arguments, number, value(right)))


def quaternion_of_another_norm(drawn):
    places = [*quaternions(drawn.robot).values()]
    if places:
        wrong = drawn.arguments[0].copy()
        wrong[(*drawn.last_row, drawn.one_of(places))] *= drawn.one_of(OTHER_NORMS)
        with pytest.raises(PointError, match="norm"):
            drawn.result(replaced(drawn.arguments, 0, wrong))


def too_large(drawn):
    """The last row's result overflows, which is said; if it does not, nothing is refused for its size."""
    wrong = overflowing(drawn.arguments, drawn.last_row)
    if overflows(drawn.name, drawn.robot):
        with pytest.raises(NonFiniteError, match=r"\bv\b"):
            drawn.result(wrong)
    else:
        assert np.isfinite(drawn.result(wrong)).all()


def wrong_out(drawn):
    """Refused before anything is written; or right, if its axes or entries are few."""
    value, error = WRONG_OUT[drawn.one_of(WRONG_OUT)]
    out = value(np.full(drawn.shape, 7.0))
    if is_right(out, drawn.shape):
        assert drawn.result(out=out) is out
        np.testing.assert_array_equal(out, drawn.result())
    else:
        with pytest.raises(error, match=r"^out\b"):
            drawn.result(out=out)


def other_layouts(drawn):
    """The same numbers give the same result, in an `out` that held something else, too."""
    expected = drawn.result()
    layouts = [LAYOUTS[drawn.one_of(LAYOUTS)] for _ in drawn.names]
    out = drawn.one_of([None, np.full(drawn.shape, np.nan)])
    arguments = [layout(x) for layout, x in zip(layouts, drawn.arguments, strict=True)]
    np.testing.assert_array_equal(drawn.result(arguments, out=out), expected)


def overlapping_out(drawn):
    """Results that replace arguments are those of the arguments before."""
    expected = drawn.result()
    number = drawn.one_of(range(len(drawn.names)))
    argument = drawn.arguments[number]
    shift = drawn.data.draw(st.integers(1 - expected.size, argument.size - 1))
    buffer = np.zeros(argument.size + 2 * expected.size)
    given_ = buffer[expected.size : expected.size + argument.size].reshape(argument.shape)
    out = buffer[expected.size + shift : 2 * expected.size + shift].reshape(expected.shape)
    given_[...] = argument
    assert np.shares_memory(given_, out)
    drawn.result(replaced(drawn.arguments, number, given_), out=out)
    assert agree(out, expected, 1e-13)


KINDS = (wrong_value, quaternion_of_another_norm, too_large, wrong_out, other_layouts, overlapping_out)
GROUPS = 9  # of functions, so that none compiles for minutes


@pytest.mark.parametrize("kind", KINDS)
@fuzzed(60)
@given(data=st.data())
def test_of_what_is_compiled(data, kind):
    kind(Drawn(data, FEW))


@pytest.mark.further
@pytest.mark.parametrize("group", range(GROUPS))
@fuzzed(200)
@given(data=st.data())
def test_of_everything(data, group):
    names = [*FUNCTIONS][group::GROUPS]
    kind = data.draw(st.sampled_from(KINDS))
    kind(Drawn(data, [(name, of) for name, of in EVERY if name in names]))
