"""The checks of the checker: every row notices that its own subject is wrong by 1e-6 of one entry."""

import faults
import pytest
from cases import further

from connections.verify.propositions import NONHOLONOMIC_ORDER, ORDER
from connections.verify.row_groups import GROUPS

#: Of every third statement one row always, with its first fault; every row has a control of its own in
#: `test_catalogue.py`.
KEYS = [[key for key in group.keys if key in faults.FAULTS] for group in GROUPS]
FIRST = {keys[0] for keys in [found for found in KEYS if found][::3]}
CASES = [
    (pytest.param if key in FIRST and fault is found[0] else further)(key, fault, id=f"{key}-{fault.name}")
    for key, found in faults.FAULTS.items()
    for fault in found
]


@pytest.mark.parametrize(("key", "fault"), CASES)
def test_a_fault_of_a_millionth_is_noticed(key, fault):
    found = faults.measured(key, fault)
    assert not found.ok, found
    assert 1e-8 < found.relative < 1e-5, found  # by the fault, and not by accident


def test_every_row_has_its_fault():
    assert {*faults.FAULTS, *faults.COUNTS, *faults.ENDS} == {*ORDER, *NONHOLONOMIC_ORDER}
    assert not set(faults.FAULTS) & (faults.COUNTS | faults.ENDS)
