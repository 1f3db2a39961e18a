"""Rows about certified constants: they hold, and ends that are wrong by a hundredth are caught."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from connections import multibody as mb
from connections import verify
from connections.verify import constants
from connections.verify.propositions import CONTROL_FLOOR, Sample, catalogue
from connections.verify.report import _row
from connections.verify.robots import robot_subject

ROBOT = Path(__file__).parents[1] / "data" / "branched.urdf"
KEYS = ("sup H", "sup dg", "sup C")


@cache
def branched():
    return robot_subject(mb.from_urdf(ROBOT), "branched", samples=1)


def entry(key):
    return next(item for item in catalogue() if item.key == key)


@pytest.mark.parametrize("key", KEYS)
def test_no_posture_is_outside_and_the_control_fails(key):
    found = _row(branched(), entry(key), 1e-9)
    assert found.ok, (found.check, found.control)
    assert found.control.relative == pytest.approx(0.02, abs=1e-6)


def moved(monkeypatch, key, change):
    """The ends of all constants are changed; the relative residual of a row."""

    def wrong_constants(*arguments, **options):
        found = certify(*arguments, **options)
        return replace(found, intervals={name: change(one) for name, one in found.intervals.items()})

    def wrong_bound(*arguments, **options):
        found = bound(*arguments, **options)
        return replace(found, interval=change(found.interval))

    certify, bound = constants.certified_constants, constants.coriolis_bound
    monkeypatch.setattr(constants, "certified_constants", wrong_constants)
    monkeypatch.setattr(constants, "coriolis_bound", wrong_bound)
    item = branched()
    residual, scale = entry(key).measure(item, Sample(item.q[0], item.v[0], item.a[0]), False)
    return residual / scale


@pytest.mark.parametrize("key", KEYS)
def test_a_proved_end_below_the_attained_one_is_caught(key, monkeypatch):
    assert moved(monkeypatch, key, lambda one: replace(one, upper=0.99 * one.lower)) > CONTROL_FLOOR / 2.0


@pytest.mark.parametrize("key", KEYS)
def test_an_end_that_is_not_attained_is_caught(key, monkeypatch):
    raised = moved(monkeypatch, key, lambda one: replace(one, lower=(1.0 + 1e-6) * one.lower))
    assert raised == pytest.approx(1e-6, rel=0.1)


def test_ends_of_an_infimum_are_caught(monkeypatch):
    """Of the least eigenvalue the upper end is attained, and the lower one proved."""
    with monkeypatch.context() as patch:
        assert moved(patch, "sup H", lambda one: replace(one, upper=0.99 * one.upper)) > 1e-5
    assert moved(monkeypatch, "sup H", lambda one: replace(one, lower=1.01 * one.upper)) > CONTROL_FLOOR / 2.0


def test_other_systems_have_no_such_rows():
    """A chart's system is no robot; a robot that floats has no dg/dq, and k_C of a large one takes long."""
    keys = {item.key for item in verify.applicable(verify.system_subject("sphere"))}
    assert not keys & set(KEYS)
    floating = robot_subject(mb.from_urdf(ROBOT, floating_base=True), "branched", samples=1)
    assert {item.key for item in verify.applicable(floating)} & set(KEYS) == {"sup H"}
