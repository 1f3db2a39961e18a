"""Hostile values in place of every argument of the public functions: finite numbers, or an error in words.

A few for each group of calls, always the same; `FUZZ_EXAMPLES=20000 FUZZ_SEED=new pytest -n 0 tests/fuzz`
tries that many others for each (`fuzz_settings`).
"""

import warnings

import numpy as np
import pytest
from cases import always
from fuzz_calls import GROUPS, calls
from fuzz_settings import fuzzed as settings_of
from fuzz_settings import limit
from fuzz_values import HOSTILE, OUT, PLAIN, complaint, random_arrays
from hypothesis import given
from hypothesis import strategies as st

fuzzed = settings_of(20)
ROBOTS = ("trees", "loops")  # whose functions fill `out`
in_groups = pytest.mark.parametrize("group", always(GROUPS, *list(GROUPS)[::2]))
pytestmark = pytest.mark.timeout(limit())


def drawn(data, group):
    """A call of the group, and the name of one of its arguments."""
    name = data.draw(st.sampled_from(sorted(calls(group))))
    call = calls(group)[name]
    return name, call, data.draw(st.sampled_from(sorted(call.arguments)))


@in_groups
@fuzzed
@given(data=st.data())
def test_hostile_values(data, group):
    name, call, argument = drawn(data, group)
    right = call.arguments[argument]
    if data.draw(st.booleans()):
        value = data.draw(random_arrays())
    else:
        value = HOSTILE[data.draw(st.sampled_from(sorted(HOSTILE)))](np.atleast_1d(right))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = complaint(argument, lambda: call.function(**call.arguments | {argument: value}))
    assert found is None, f"{name}, {argument}: {found}"


@in_groups
@fuzzed
@given(data=st.data())
def test_other_forms_of_the_same_numbers(data, group):
    name, call, argument = drawn(data, group)
    right = call.arguments[argument]
    form = data.draw(st.sampled_from(sorted(PLAIN)))
    given = call.arguments | {argument: PLAIN[form](right) if right.ndim else right}
    found = complaint(argument, lambda: call.function(**given), call.function(**call.arguments))
    assert found is None, f"{name}, {argument}, {form}: {found}"


@pytest.mark.parametrize("group", ROBOTS)
@fuzzed
@given(data=st.data())
def test_hostile_outputs(data, group):
    names = sorted(name for name, call in calls(group).items() if call.out)
    name, how = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(sorted(OUT)))
    call = calls(group)[name]
    expected = call.function(**call.arguments)
    out = OUT[how](np.zeros_like(expected))
    if (
        how == "every second" and out.flags.c_contiguous
    ):  # of axes of one entry: nothing is between its numbers
        np.testing.assert_array_equal(call.function(**call.arguments, out=out), expected)
        return
    with pytest.raises((TypeError, ValueError), match="^out: expected"):
        call.function(**call.arguments, out=out)


@pytest.mark.further
@pytest.mark.parametrize("group", ROBOTS)
@fuzzed
@given(data=st.data())
def test_overlapping_outputs(data, group):
    """An `out` in the memory of an argument, hostile or not: the result without it, or an error."""
    names = sorted(name for name, call in calls(group).items() if call.out)
    name = data.draw(st.sampled_from(names))
    call = calls(group)[name]
    argument = data.draw(st.sampled_from(sorted(call.arguments)))
    rows = data.draw(st.sampled_from([None, 1, 3]))
    given = {key: x if rows is None else np.stack([x] * rows) for key, x in call.arguments.items()}
    shape = call.function(**given).shape
    scale = data.draw(st.sampled_from([1.0, 1.0, 1e20, 1e100, 1e155, 1e200]))
    value, size = scale * given[argument], int(np.prod(shape))
    shift = data.draw(st.integers(-value.size + 1, size - 1))
    buffer = np.zeros(2 * value.size + size)
    out = buffer[value.size : value.size + size].reshape(shape)
    inside = buffer[value.size + shift : 2 * value.size + shift].reshape(value.shape)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            expected = call.function(**given | {argument: value})
        except (TypeError, ValueError, ArithmeticError) as error:
            expected = error
        inside[...] = value
        assert np.shares_memory(inside, out)
        if isinstance(expected, Exception):
            with pytest.raises(type(expected)):
                call.function(**given | {argument: inside}, out=out)
        else:
            found = call.function(**given | {argument: inside}, out=out)
            np.testing.assert_allclose(
                found, expected, rtol=1e-13, atol=1e-13 * np.max(np.abs(expected), initial=0)
            )
