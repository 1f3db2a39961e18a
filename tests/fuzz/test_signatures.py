"""Every argument of every public callable, with values that it does not take: each is refused, in words.

The calls are those of `good_calls`, the arguments those of `inspect.signature`, one at a time. An error is
clear if the library raises it and it names the argument. A part is drawn; `--all` tries everything.
"""

import random

import pytest
from cases import always
from fuzz_exceptions import NOT_RUN
from fuzz_settings import SEED
from good_calls import programs
from signature_faults import calls_of, faults, uncalled

DONE = set()  # in this process: a method is tried once
PROGRAMS = [name for name in programs() if name not in NOT_RUN]
DRAWN = random.Random(SEED or 0).sample(PROGRAMS, 10)


def test_every_public_callable_has_a_call_that_is_right():
    """Functions and classes have examples, as `test_reference` asks; methods need a call in some program."""
    assert uncalled() == []


@pytest.mark.parametrize("program", always(PROGRAMS, *DRAWN))
def test_bad_values_are_refused(program):
    assert [fault for call in calls_of(program, DONE) for fault in faults(call)] == []
