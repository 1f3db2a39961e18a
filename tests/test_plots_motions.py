"""Figures of motions: the curves that are drawn are the numbers of the motion."""

from dataclasses import replace

import numpy as np
import pytest

import connections as cn
from connections import plots
from connections.control import AdaptiveMotion, ClosedLoopMotion, ObservedMotion

TIMES = np.linspace(0.0, 1.0, 5)


def motion(rng, batch=(), n=3):
    vectors = rng.normal(size=(6, *batch, 5, n))
    return ClosedLoopMotion(TIMES, *vectors[:5], vectors[5, ..., 0], vectors[5, ..., 1])


def curves(axes):
    return np.array([line.get_ydata() for line in axes.lines if len(line.get_ydata())])


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_one_motion(rng):
    """q, s, tau and V, each component in its colour; units in the titles, names in the legends."""
    given = motion(rng, n=7)
    panels = given.plot().axes
    for axes, values in zip(panels, (given.q, given.v - given.v_r, given.tau), strict=False):
        np.testing.assert_array_equal(curves(axes), values.T)
        assert len({line.get_color() for line in axes.lines}) == 7
    assert not np.array_equal(curves(panels[1]), given.v.T)  # control: s is not v
    np.testing.assert_array_equal(curves(panels[3]), [given.lyapunov])
    assert [text.get_text() for text in panels[1].get_legend().get_texts()][::6] == ["s_0", "s_6"]
    assert "[N m, N]" in panels[2].get_title() and "[J]" in panels[3].get_title()
    assert all(axes.get_xlabel() == "t [s]" for axes in panels)


def test_the_error_has_a_panel_and_the_goal_is_beside_q(rng):
    bare = motion(rng)
    q_d, error = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    panels = replace(bare, q_d=q_d, error=error).plot().axes
    np.testing.assert_array_equal(curves(panels[0]), [*bare.q.T, *q_d.T])
    np.testing.assert_array_equal(curves(panels[1]), error.T)
    assert "error" in panels[1].get_title() and len(panels) == 5
    assert not any("error" in axes.get_title() for axes in bare.plot().axes)


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
        assert legend(figure)[-1] == ("member 1, 1" if len(batch) == 2 else "member 3")
    else:
        assert figure.axes[-1].get_xlabel() == "member"


def test_a_sweep_is_named_by_its_betas(rng):
    few = replace(motion(rng, (2,)), betas=np.array([[0.0], [-5.0]]))
    assert legend(few.plot()) == ["beta = 0", "beta = -5"]
    several = replace(motion(rng, (2,)), betas=np.array([[0.0, 1.5], [2.0, -0.25]]))
    assert legend(several.plot()) == ["beta = (0, 1.5)", "beta = (2, -0.25)"]
    many = replace(motion(rng, (20,)), betas=np.arange(20.0)[:, None])
    ticks = many.plot().axes[-1].get_xticklabels()
    assert [text.get_text() for text in ticks] == ["beta = 0", "beta = 10", "beta = 19"]
    long = replace(motion(rng, (2,)), betas=np.full((2, 35), 0.123))
    assert legend(long.plot()) == ["member 0", "member 1"]  # no line of a legend is that long
    shared = replace(few, q_d=np.broadcast_to(rng.normal(size=(5, 3)), (2, 5, 3)))
    assert len(curves(shared.plot().axes[0])) == 2 * 3 + 3  # one goal for all members


def test_other_motions(rng):
    base = motion(rng)
    given = (base.q, base.v, base.v_r, base.a_r, base.tau, base.lyapunov, base.lyapunov_rate)
    adaptive = AdaptiveMotion(TIMES, *given, parameters=base.a_r[:, :2])
    np.testing.assert_array_equal(curves(adaptive.plot().axes[4]), base.a_r[:, :2].T)
    observed = ObservedMotion(TIMES, base.q, base.v, base.v_r, base.a_r, base.tau)
    assert len(observed.plot().axes) == 3
    np.testing.assert_array_equal(curves(observed.plot().axes[2]), base.tau.T)
    free = cn.Motion(TIMES, base.q, base.v).plot().axes
    np.testing.assert_array_equal([curves(axes) for axes in free], [base.q.T, base.v.T])


def test_times_of_its_own_for_each_member(rng):
    """As `jax.vmap` gives them."""
    given = motion(rng, (2,))
    axes = replace(given, times=np.stack([TIMES, 2.0 * TIMES])).plot().axes[0]
    drawn = [line.get_xdata() for line in axes.lines if len(line.get_ydata())]
    np.testing.assert_array_equal(drawn, [TIMES] * 3 + [2.0 * TIMES] * 3)


def test_what_is_no_motion_is_refused():
    with pytest.raises(TypeError, match="motion"):
        plots.figure_motion(TIMES)
