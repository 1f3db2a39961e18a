"""Hostile values in place of every argument of the public functions: finite numbers, or an error in words.

A few for each group of calls here; `FUZZ_EXAMPLES=20000 pytest -n 0 tests/fuzz` tries that many for each.
"""

import os
import warnings

import numpy as np
import pytest
from fuzz_calls import GROUPS, calls
from fuzz_values import HOSTILE, OUT, PLAIN, complaint, random_arrays
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "20"))
fuzzed = settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
ROBOTS = ("trees", "loops")  # whose functions fill `out`
in_groups = pytest.mark.parametrize("group", GROUPS)
pytestmark = pytest.mark.timeout(0 if EXAMPLES > 1000 else 300)


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
    right = np.zeros_like(call.function(**call.arguments))
    out = OUT[how](right)
    assume(how != "every second" or right.size > 1)  # one number has no gaps
    with pytest.raises((TypeError, ValueError), match="^out: expected"):
        call.function(**call.arguments, out=out)
