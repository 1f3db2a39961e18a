"""The calls of recursions, one for each number of vectors, with a function in place of compiled code."""

import numpy as np
import pytest

from connections.checks import ClosureError, NonFiniteError
from connections.multibody.program.calls import Direct, direct_call
from connections.multibody.program.closed_calls import OfLoops, closed_call
from connections.multibody.program.table import RECURSIONS

#: Number of vectors, whether there is a choice, and of closed chains whether there are bias rates.
TREES = sorted({(len(row.vectors), row.choice is not None) for row in RECURSIONS.values()})
CLOSED = sorted(
    {(len(row.vectors), row.choice is not None, row.bias_rates) for row in RECURSIONS.values() if row.closed}
)
FORMS = [*((*form, None) for form in TREES), *CLOSED]


class Calls:
    """A call of a form, and what it has called."""

    def __init__(self, vectors: int, choice: bool, rates: bool | None, inverse: bool = False) -> None:
        self.good, self.seen, self.slowly = True, None, None
        self.q, self.vectors = np.arange(2.0), [np.full(2, 1.0 + k) for k in range(vectors)]
        self.choices, self.choice = ({"known": "chosen"}, "known") if choice else (None, ())
        self.memory, self.closure, self.clusters = (np.full(1, float(k)) for k in range(3))
        names = ("q", *"xyz"[:vectors])
        direct = Direct(self.at, self.memory, (2,), self.choices, inverse, self.otherwise, names)
        if rates is None:
            self.call = direct_call(vectors, direct)
            self.before, self.after = [self.memory, self.q], []
        else:
            bias = self.bias if rates else None
            loops = OfLoops(self.closure, self.clusters, True, self.solve, None, bias, None)
            self.call = closed_call(vectors, direct, loops)
            self.solution = self.q + 0.5
            self.before = [self.memory, self.closure, self.clusters, True, self.solution]
            self.after = [self.vectors[0] + 7.0] if rates else []

    def at(self, *arguments):
        self.seen = arguments
        return self.good

    def otherwise(self, given, choice, out, refused):
        self.slowly = given, choice, out, refused
        return "slowly"

    def solve(self, q):
        if not np.isfinite(q).all():
            raise ClosureError("open")
        return q + 0.5

    def bias(self, solution, v):
        assert np.array_equal(solution, self.solution)
        return v + 7.0

    def expected(self) -> list:
        return [*self.before, *self.vectors, *self.after, *(["chosen"] if self.choices else [])]


def same(found, expected) -> bool:
    return len(found) == len(expected) and all(
        np.array_equal(x, y) if isinstance(x, np.ndarray) else x == y
        for x, y in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("form", FORMS)
def test_compiled_code_gets_the_arguments_in_order(form):
    calls = Calls(*form)
    result = calls.call(calls.q, *calls.vectors, calls.choice, None)
    assert result is calls.seen[-1] and result.shape == (2,) and calls.slowly is None
    assert same(calls.seen[:-1], calls.expected())
    out = np.zeros(2)
    assert calls.call(calls.q, *calls.vectors, calls.choice, out) is out is calls.seen[-1]


@pytest.mark.parametrize("form", FORMS)
def test_what_compiled_code_refuses_goes_the_other_way(form):
    calls, out = Calls(*form), np.zeros(2)
    calls.good = False
    for given in (None, out):
        assert calls.call(calls.q, *calls.vectors, calls.choice, given) == "slowly"
        arguments, choice, its_out, refused = calls.slowly
        assert same(arguments, [calls.q, *calls.vectors]) and its_out is given
        assert choice == calls.choice and refused is (given is not None)


@pytest.mark.parametrize("form", FORMS)
def test_other_arguments_do_not_reach_compiled_code(form):
    """A list in every place, a batch, an unknown choice."""
    calls = Calls(*form)
    right = [calls.q, *calls.vectors, calls.choice]
    for place in range(len(right) - (calls.choices is None)):
        for wrong in ([1.0, 2.0], calls.q[None]) if place == 0 else ([1.0, 2.0],):
            given = [*right[:place], wrong, *right[place + 1 :]]
            assert calls.call(*given, None) == "slowly" and calls.seen is None
            arguments, choice, _, refused = calls.slowly
            assert not refused and same([*arguments, choice], given)


@pytest.mark.parametrize("form", FORMS)
def test_where_h_is_inverted_arguments_in_the_memory_of_out_are_copied(form):
    calls = Calls(*form, inverse=True)
    expected = calls.expected()
    out = calls.vectors[-1] if calls.vectors else calls.q
    assert calls.call(calls.q, *calls.vectors, calls.choice, out) is out
    assert same(calls.seen[:-1], expected) and not any(x is out for x in calls.seen[:-1])
    without = Calls(*form)
    out = without.vectors[-1] if without.vectors else without.q
    without.call(without.q, *without.vectors, without.choice, out)
    assert any(x is out for x in without.seen[:-1]) or not without.vectors


@pytest.mark.parametrize("form", CLOSED)
def test_of_loops_that_are_open_a_number_that_is_not_finite_is_named_first(form):
    calls = Calls(*form)
    with pytest.raises(NonFiniteError, match="q"):
        calls.call(np.array([np.nan, 1.0]), *calls.vectors, calls.choice, None)


def test_bias_rates_are_those_of_two_vectors():
    """As `closed_calls` says."""
    assert {vectors for vectors, _, rates in CLOSED if rates} == {2}
