"""The checks of the checker: every row notices that its own subject is wrong by 1e-6 of one entry."""

import faults
import pytest

from connections.verify.propositions import NONHOLONOMIC_ORDER, ORDER

CASES = [(key, fault) for key, found in faults.FAULTS.items() for fault in found]


@pytest.mark.parametrize(
    ("key", "fault"), CASES, ids=lambda part: part if isinstance(part, str) else part.name
)
def test_a_fault_of_a_millionth_is_noticed(key, fault):
    found = faults.measured(key, fault)
    assert not found.ok, found
    assert 1e-8 < found.relative < 1e-5, found  # by the fault, and not by accident


def test_every_row_has_its_fault():
    assert {*faults.FAULTS, *faults.COUNTS} == {*ORDER, *NONHOLONOMIC_ORDER}
    assert not set(faults.FAULTS) & faults.COUNTS
