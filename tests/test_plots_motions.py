"""Figures of motions: the curves that are drawn are the numbers of the motion."""

import numpy as np
import pytest

from connections import plots
from connections.control import AdaptiveMotion, Motion, ObservedMotion

TIMES = np.linspace(0.0, 1.0, 5)


def motion(rng, batch=(), n=3):
    vectors = rng.normal(size=(6, *batch, 5, n))
    return Motion(TIMES, *vectors[:5], vectors[5, ..., 0], vectors[5, ..., 1])


def curves(axes):
    return np.array([line.get_ydata() for line in axes.lines if len(line.get_ydata())])


def test_one_motion(rng):
    """q, s, tau and V, each component in its colour; units in the titles, names in the legends."""
    given = motion(rng, n=7)
    panels = given.plot().axes
    for axes, values in zip(panels, (given.q, given.v - given.v_r, given.tau), strict=False):
        np.testing.assert_array_equal(curves(axes), values.T)
        assert len({line.get_color() for line in axes.lines}) == 7
    np.testing.assert_array_equal(curves(panels[3]), [given.lyapunov])
    assert [text.get_text() for text in panels[1].get_legend().get_texts()][::6] == ["s_1", "s_7"]
    assert "[N m, N]" in panels[2].get_title() and "[J]" in panels[3].get_title()
    assert all(axes.get_xlabel() == "t [s]" for axes in panels)


@pytest.mark.parametrize("batch", [(4,), (2, 2), (20,)])
def test_a_colour_for_each_member(rng, batch):
    given = motion(rng, batch)
    figure = given.plot()
    axes, count = figure.axes[0], int(np.prod(batch))
    np.testing.assert_array_equal(
        curves(axes), np.moveaxis(given.q.reshape(count, 5, 3), -1, 1).reshape(-1, 5)
    )
    drawn = [line for line in axes.lines if len(line.get_ydata())]
    assert len({line.get_color() for line in drawn}) == count
    assert [line.get_color() for line in drawn[:3]] == [drawn[0].get_color()] * 3
    if count <= 8:
        names = [text.get_text() for text in figure.legends[0].get_texts()]
        assert names[-1] == ("member 1, 1" if len(batch) == 2 else "member 3")
    else:
        assert figure.axes[-1].get_xlabel() == "member"


def test_other_motions(rng):
    base = motion(rng)
    adaptive = AdaptiveMotion(TIMES, base.q, base.v, base.a_r[:, :2], base.s, base.tau, base.lyapunov)
    np.testing.assert_array_equal(curves(adaptive.plot().axes[4]), base.a_r[:, :2].T)
    observed = ObservedMotion(TIMES, base.q, base.v, base.tau)
    assert len(observed.plot().axes) == 3
    np.testing.assert_array_equal(curves(observed.plot().axes[2]), base.tau.T)


def test_what_is_no_motion_is_refused():
    with pytest.raises(TypeError, match="motion: expected one of Motion, .* got ndarray"):
        plots.figure_motion(TIMES)
