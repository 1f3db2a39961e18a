"""The catalogue on closed chains, and on one degree of freedom, where some controls need other means."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import closed_chains
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always, further
from mechanisms import MOVING, assemble

from connections import multibody as mb
from connections.geometry import CoordinateFrame, MatrixMetric
from connections.verify import applicable, subject
from connections.verify.bodies import brackets_of_axes
from connections.verify.propositions import CONTROL_FLOOR, Sample, catalogue
from connections.verify.report import _row
from connections.verify.robots import robot_subject

FOUR_BAR = Path(__file__).parents[1] / "data" / "urdf_plus" / "four_bar.urdf"

#: Rows whose control elsewhere uses torsion, or a second velocity.
OF_ONE_FREEDOM = ("Thm III.1", "Thm III.1 unique", "Thm III.2 unique", "Cor III.2", "Cor IV.1", "(8)", "(29)")


def row(item, key):
    return _row(item, next(entry for entry in catalogue() if entry.key == key), 1e-9)


@cache
def one_freedom():
    rng = np.random.default_rng(7)
    metric = MatrixMetric(CoordinateFrame(1), lambda q: (1.5 + jnp.sin(q))[:, None])
    return subject("one", metric, rng.normal(size=(1, 1)), rng, potential=lambda q: jnp.cos(q[0]))


@pytest.mark.parametrize("seed", always(range(5), 0, 1))
@pytest.mark.parametrize("key", OF_ONE_FREEDOM)
def test_controls_on_one_degree_of_freedom(key, seed):
    found = row(replace(one_freedom(), seed=seed), key)
    assert found.check.ok, found.check
    assert found.control.relative >= CONTROL_FLOOR, found.control


@pytest.mark.further
@pytest.mark.parametrize("key", [further("(20)"), "model"])
def test_the_parallelogram(key):
    """Its H is constant and every term of (20) vanishes, so (v x*) I would be no control."""
    found = row(_parallelogram(), key)
    assert found.ok, (found.check, found.control)


@cache
def _parallelogram():
    return robot_subject(mb.from_urdf(FOUR_BAR), "four_bar", samples=1)


@pytest.mark.further
def test_flows_stay_where_the_loops_close():
    found = row(_four_bar(), "Prop III.1 if")
    assert found.ok, (found.check, found.control)


def test_what_needs_solid_bodies_is_left_out():
    """(18) wants a metric, and inertias as a manifold regular ones: neither is there if all are planar."""
    item = _four_bar()
    flat = np.zeros_like(item.bodies.inertias)
    flat[:, 2, 2] = flat[:, 3, 3] = flat[:, 4, 4] = 1.0
    planar = replace(item, bodies=replace(item.bodies, inertias=flat))
    assert {p.key for p in applicable(item)} - {p.key for p in applicable(planar)} == {
        "(18)", "LKP cone", "LKP frames", "LKP rate", "LKP dual",
    }  # fmt: skip


def test_samples_have_room():
    """The loops close all around the samples, and not everywhere."""
    item = _four_bar()
    assert 0.1 < item.room < 1.0
    frame = item.metric.frame
    for q in item.q:
        assert all(bool(frame.valid_at(q + s)) for s in np.linspace(-item.room, item.room, 5)[:, None])
    assert not all(bool(frame.valid_at(np.array([angle]))) for angle in np.linspace(-3.0, 3.0, 13))


@cache
def _four_bar():
    return robot_subject(closed_chains.four_bar(bars=(1.0, 0.5, 0.6, 0.55)).build(), "bars", samples=1)


@pytest.mark.further
def test_brackets_of_all_joints(rng):
    """K from Phi and its derivatives against the frame; without the derivatives a planar joint is wrong."""
    model = assemble(rng, list(MOVING), range(-1, len(MOVING) - 1))
    _compare_brackets(robot_subject(model, "all", samples=1), "planar")


def test_brackets_of_independent_joints():
    """A spherical joint and a cylinder that are independent in a loop."""
    _compare_brackets(robot_subject(closed_chains.loop_of_wide_joints().build(), "wide", samples=1), None)


def _compare_brackets(item, curved):
    sample = Sample(item.q[0], item.v[0], item.a[0])
    expected = np.einsum("ijk,j->ik", item.metric.frame.structure_functions(sample.q), sample.v)
    assert np.max(np.abs(expected)) > 0.1
    np.testing.assert_allclose(brackets_of_axes(item, sample), expected, rtol=0, atol=1e-12)
    flat = replace(item.bodies, axes=lambda q: [(b, Phi, 0.0 * D) for b, Phi, D in item.bodies.axes(q)])
    gap = np.max(np.abs(brackets_of_axes(replace(item, bodies=flat), sample) - expected))
    assert (gap > 0.1) == (curved is not None)
