"""Contraction rates along a motion of a subject: neighbours are as close as the bound says."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from cases import further

from connections import multibody as mb
from connections.cli.verify import _rates
from connections.verify import MotionRates, Subject, rates_along_a_motion, system_subject
from connections.verify.robots import robot_subject

BRANCHED = Path(__file__).parents[1] / "data" / "branched.urdf"


@cache
def rates_of(name: str) -> MotionRates:
    if name == "robot":
        subject = robot_subject(mb.from_urdf(BRANCHED, floating_base=True), name, samples=1)
    else:
        found = system_subject(name, 1, 0)
        assert isinstance(found, Subject)
        subject = found
    return rates_along_a_motion(subject)


@pytest.mark.parametrize("name", ["spinning-body", further("random-frame"), further("robot")])
def test_neighbours_are_as_close_as_the_bound_says(name: str) -> None:
    rates = rates_of(name)
    assert rates.holds and rates.allowed[0] == rates.neighbours[0] == 0.0
    assert rates.neighbours[-1] < -2.5  # damping alone gives -3
    assert np.all(rates.bound >= rates.indicator - 1e-9)


def test_a_bound_that_is_too_small_is_noticed() -> None:
    rates = rates_of("spinning-body")
    assert not replace(rates, allowed=1.2 * rates.allowed).holds
    assert not replace(rates, neighbours=np.full_like(rates.neighbours, np.nan)).holds


def test_rates_are_of_systems_without_constraints(capsys: pytest.CaptureFixture[str]) -> None:
    assert _rates([system_subject("chaplygin-sleigh", 1, 0)]) == []
    assert "without constraints" in capsys.readouterr().out
