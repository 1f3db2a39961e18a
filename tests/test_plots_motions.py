"""Figures of motions: the curves that are drawn are the numbers of the motion."""

import re
import sys
from dataclasses import MISSING, fields, replace
from io import BytesIO

import jax.numpy as jnp
import numpy as np
import pytest

import connections as cn
from connections import control, plots
from connections.affine.motions.jacobi import JacobiField
from connections.affine.motions.stability import GeodesicStability
from connections.checks import NonFiniteError, ShapeError
from connections.control.results import AdaptiveMotion, ClosedLoopMotion, ObservedMotion

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


def two(rng):
    return [cn.Motion(TIMES, *rng.normal(size=(2, 5, 3))) for _ in range(2)]


def test_panels_names_and_units_are_those_that_were_asked_for(rng):
    given, _ = two(rng)
    figure = given.plot(
        {"v": [0, 2], "q": None}, names={"v": ["a", "b", "c"]}, units={"v": "mm/s", "times": "ms"}
    )
    first, second = figure.axes
    np.testing.assert_array_equal(curves(first), given.v.T[[0, 2]])
    np.testing.assert_array_equal(curves(second), given.q.T)
    assert [text.get_text() for text in first.get_legend().get_texts()] == ["a", "c"]
    assert [text.get_text() for text in second.get_legend().get_texts()] == ["q_0", "q_1", "q_2"]
    assert "[mm/s]" in first.get_title() and first.get_xlabel() == "t [ms]"
    shared = given.plot(names=["x", "y", "z"]).axes  # q and v have three components each
    assert [axes.get_legend().get_texts()[2].get_text() for axes in shared] == ["z", "z"]


def test_several_motions_share_panels(rng):
    a, b = two(rng)
    figure = a.plot("q", label="a", style="column")
    assert b.plot("q", axes=figure, label="b") is figure
    (axes,) = figure.axes
    np.testing.assert_array_equal(curves(axes), [*a.q.T, *b.q.T])
    lines = [line for line in axes.lines if len(line.get_ydata())]
    dashes = [line.get_linestyle() for line in lines]
    assert dashes[0] != dashes[3] and [line.get_color() for line in lines[:3]] == [
        x.get_color() for x in lines[3:]
    ]
    assert legend(figure) == ["a", "b"]
    assert len(axes.get_legend().get_texts()) == 3  # components are named once


@pytest.mark.parametrize(("style", "width"), [("column", 88.0), ("page", 180.0), (140, 140.0)])
def test_a_paper_has_its_width_and_text_that_stays_text(rng, style, width):
    """Letters that a reader of the file can search for and an editor can change; others are outlines."""
    import matplotlib

    figure = two(rng)[0].plot(names=["x", "y", "angle"], style=style)
    assert figure.get_size_inches()[0] * 25.4 == pytest.approx(width)
    before, files = dict(matplotlib.rcParams), {}
    for kind in ("pdf", "svg"):
        figure.savefig(content := BytesIO(), format=kind)
        files[kind] = content.getvalue()
    assert b"CIDFontType2" in files["pdf"] and b"Type3" not in files["pdf"] and b">angle</" in files["svg"]
    box = re.search(rb"MediaBox *\[ *0 0 ([0-9.]+) ", files["pdf"])
    assert float(box[1]) / 72.0 * 25.4 == pytest.approx(width, abs=0.1)
    assert {size.get_size() for axes in figure.axes for size in axes.get_xticklabels()} == {7.0}
    assert dict(matplotlib.rcParams) == before
    screen = two(rng)[0].plot(names=["x", "y", "angle"])  # control
    screen.savefig(content := BytesIO(), format="pdf")
    assert b"CIDFontType2" not in content.getvalue()


def test_components_of_another_unit_have_another_panel(rng):
    given, _ = two(rng)
    units = {"q": ["m", "rad", "m"], "v": "m/s"}
    first, second, third = given.plot(units=units, style="page", names={"q": ["x", "angle", "z"]}).axes
    np.testing.assert_array_equal(curves(first), given.q.T[[0, 2]])
    np.testing.assert_array_equal(curves(second), given.q.T[[1]])
    np.testing.assert_array_equal(curves(third), given.v.T)
    labels = [axes.get_ylabel() for axes in (first, second, third)]
    assert labels == ["$q$ [m]", "angle [rad]", "$v$ [m/s]"]
    screen = given.plot("q", units=units).axes
    assert [axes.get_title() for axes in screen] == ["configuration q [m]", "configuration q [rad]"]
    own = given.plot({"v": [[2], [0, 1]], "q": None}, units=units).axes
    for axes, expected in zip(own, (given.v.T[[2]], given.v.T[:2], given.q.T[[0, 2]]), strict=False):
        np.testing.assert_array_equal(curves(axes), expected)
    assert len(own) == 4 and given.to_xarray(units=units).q.units == "m, rad, m"


def test_words_beside_a_panel_are_no_longer_than_it():
    """In columns and pages of a paper; the control has the words in one line."""
    drift = cn.Motion(TIMES, np.ones((5, 2)), np.ones((5, 2)), drift=np.linspace(0.0, 1e-9, 5))
    for style in ("column", "page"):
        figure = drift.plot(style=style)
        axes = figure.axes[-1]
        for words, within in ((axes.get_ylabel(), True), (axes.get_ylabel().replace("\n", " "), False)):
            axes.set_ylabel(words)
            figure.canvas.draw()
            assert (axes.yaxis.label.get_window_extent().height < axes.bbox.height) == within


@pytest.mark.parametrize("backwards", [False, True])
def test_a_curve_reaches_the_event_that_ends_it(rng, backwards):
    """Also those that it passes, in their order; other quantities have no values there."""
    given, times = two(rng)[0], TIMES[::-1] if backwards else TIMES
    q, v = (np.where((np.arange(5) < 3)[:, None], x, np.nan) for x in given)
    came = np.array([0.6, np.nan, 0.9]) if backwards else np.array([0.4, np.nan, 0.1])
    states = rng.normal(size=(2, 3, 3))
    ended = cn.Motion(times, q, v, event_times=(came,), event_states=((states[0], states[1]),))
    for axes, values, state in zip(ended.plot().axes, (q, v), states, strict=True):
        for line, k in zip(axes.lines, range(3), strict=False):
            along = np.concatenate([times[:1], came[2:], times[1:3], came[:1], times[3:]])
            expected = np.concatenate([values[:1], state[2:], values[1:3], state[:1], values[3:]])
            order = np.argsort(-along if backwards else along, kind="stable")
            np.testing.assert_array_equal(line.get_xdata(), along[order])
            np.testing.assert_array_equal(line.get_ydata(), expected[order, k])
    (curve, dot) = ended.plot_phase(1).axes[0].lines
    drawn = np.stack(curve.get_data(), axis=1)
    assert [states[0][0, 1], states[1][0, 1]] in drawn.tolist()  # the last point
    assert np.stack(dot.get_data(), axis=1).tolist() == [[q[0, 1], v[0, 1]]]
    batch = cn.Motion(times, *(np.stack([x, x]) for x in (q, v)))
    parts = (np.stack([came, came + np.nan]),), ((np.stack([states[0]] * 2), np.stack([states[1]] * 2)),)
    many = replace(batch, event_times=parts[0], event_states=parts[1]).plot("q").axes[0].lines
    assert [len(line.get_xdata()) for line in many[:6]] == [7] * 3 + [5] * 3


def test_the_phase_plane_has_the_components_that_were_asked_for(rng):
    a, b = two(rng)
    figure = a.plot_phase(2, units={"q": ["m", "m", "rad"], "v": "m/s"}, label="a", style=120)
    (axes,) = figure.axes
    b.plot_phase(("q", 0), ("q", 1), axes=figure, label="b")
    first, _, second, _ = axes.lines
    np.testing.assert_array_equal(first.get_data(), [a.q[:, 2], a.v[:, 2]])
    np.testing.assert_array_equal(second.get_data(), [b.q[:, 0], b.q[:, 1]])
    assert first.get_color() != second.get_color() and legend(figure) == ["a", "b"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("$q_{2}$ [rad]", "$v_{2}$ [m/s]")
    assert axes.get_aspect() == "auto" and a.plot_phase(0, ("q", 1)).axes[0].get_aspect() == 1.0
    many = motion(rng, (4,)).plot_phase(1, style="column")
    assert len({line.get_color() for line in many.axes[0].lines}) == 4
    named = motion(rng, (3,)).plot_phase(1, label="three"), motion(rng, (3,)).plot("q", label="three")
    for figure in named:  # a batch has no line of its own
        assert legend(figure) == ["member 0", "member 1", "member 2"] and len(figure.legends) == 1
        assert figure.legends[0].get_title().get_text() == "three"
    a.plot_phase(1, axes=named[0], label="a")
    assert legend(named[0])[-1] == "a" and named[0].legends[0].get_title().get_text() == "three"
    assert motion(rng, (20,)).plot_phase(1, label="many").axes[-1].get_xlabel() == "many, member"
    plain = a.plot_phase(1, style="column").axes[0]  # a component has one unit, which nobody said
    assert (plain.get_xlabel(), plain.get_ylabel()) == ("$q_{1}$", "$v_{1}$")
    several = a.plot("q", style="column", label="from one metre")
    for label in ("from half a metre", "from two metres"):
        b.plot("q", axes=several, label=label)
    for narrow in (many, several):
        narrow.canvas.draw()  # the legend is within the figure
        box = narrow.legends[0].get_window_extent()
        assert 0.0 <= box.x0 and box.x1 <= narrow.bbox.width


def sphere(q):
    level = jnp.sin(q[0])
    return jnp.stack([level * jnp.cos(q[1]), level * jnp.sin(q[1]), jnp.cos(q[0])])


def test_a_path_is_hidden_behind_its_surface():
    """Seen along the x axis, of a sphere what has x < 0; the picture is (y, z)."""
    q = np.stack([np.linspace(0.8, 2.2, 41), np.linspace(-0.4, 5.0, 41)], axis=1)
    given = cn.Motion(np.linspace(0.0, 1.0, 41), q, q)
    figure = given.plot_path(sphere, ((0.0, np.pi), (0.0, 2.0 * np.pi)), view=(0.0, 0.0), style="column")
    axes = figure.axes[0]
    faint, seen = (line for line in axes.lines if str(line.get_gid()).startswith("path"))
    assert faint.get_alpha() < 0.5 and seen.get_alpha() is None
    points = np.array([sphere(p) for p in np.asarray(q)])
    for line, sign in ((faint, -1.0), (seen, 1.0)):
        drawn = np.stack(line.get_data(), axis=1)[::8]
        there = np.isfinite(drawn[:, 0])
        np.testing.assert_allclose(drawn[there], points[there, 1:], atol=1e-12)
        clear = sign * points[:, 0] > 0.1
        assert there[clear].all() and not there[-sign * points[:, 0] > 0.1].any() and clear.sum() > 5
    given.plot_path(sphere, axes=figure, label="again")
    assert legend(figure) == ["again"]
    flat = given.plot_path(lambda q: jnp.stack([q[0], q[1], 0.0 * q[0]]), view=(40.0, 10.0)).axes[0]
    faint, _ = (line for line in flat.lines if str(line.get_gid()).startswith("path"))
    assert np.isnan(faint.get_xdata()).all()  # control: a plane hides nothing
    line = cn.Motion(TIMES, np.ones((5, 3)), np.ones((5, 3))).plot_path(lambda q: q).axes[0]
    assert len(line.collections) == 0  # three coordinates: no surface


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda m: m.plot_phase(7),
            ValueError,
            r"x\[1\]: expected a whole number from 0 to 2, got the number 7",
        ),
        (lambda m: m.plot_phase(0, "v"), TypeError, "y: expected a component"),
        (lambda m: m.plot_phase(("w", 0)), ValueError, "x: the motion has no 'w'"),
        (lambda m: m.plot(units={"q": ["m"]}), ValueError, "units: got 1 for q, which has 3 components"),
        (lambda m: m.plot({"q": [[0], [3]]}), ValueError, "panels: q has components 0 to 2, got"),
        (lambda m: m.plot_path(lambda q: q[:2]), ShapeError, r"on\(q\): expected shape \(3,\)"),
        (lambda m: m.plot_path(lambda q: q, ((0, 1), (0, 1))), ValueError, "span: the motion has 3 coord"),
        (lambda m: m.plot_path(lambda q: q, axes=m.plot("q")), ValueError, "axes: expected those of a fig"),
        (lambda m: m.plot_path(lambda q: q, view=(np.nan, 0.0)), NonFiniteError, "view"),
        (
            lambda m: m.plot_path(lambda q: jnp.full(3, jnp.nan)),
            NonFiniteError,
            r"on\(q\).* is not finite at q = ",
        ),
    ],
)
def test_what_no_plane_or_surface_is_is_named(rng, call, error, words):
    with pytest.raises(error, match=words):
        call(two(rng)[0])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"panels": ["qq"]}, "panels: the motion has no 'qq'; did you mean q"),
        ({"panels": {"q": [3]}}, "panels: q has components 0 to 2, got"),
        ({"panels": []}, "panels: expected some of q, v"),
        ({"names": ["x"]}, "names: got 1; .* of .3. components"),
        ({"names": {"q": ["x"]}}, "names: got 1 for q, which has 3 components"),
        ({"units": {"w": "m"}}, "units: the motion has no 'w'"),
        ({"units": "m"}, "units: expected .*by quantity"),
        ({"style": "colum"}, 'style: expected "screen", "column"'),
        ({"style": 8}, "style: expected"),
    ],
)
def test_what_cannot_be_drawn_is_named(rng, options, words):
    with pytest.raises(ValueError, match=words):
        two(rng)[0].plot(**options)


def test_axes_that_do_not_fit_are_named(rng):
    given, figure = two(rng)[0], two(rng)[1].plot("q")
    with pytest.raises(ValueError, match="axes: expected 2, one for each panel; got 1"):
        given.plot(axes=figure)
    with pytest.raises(TypeError, match="axes: expected a matplotlib Figure or Axes, got int"):
        given.plot(axes=3)
    with pytest.raises(ValueError, match="axes: a batch needs panels of its own"):
        motion(rng, (2,)).plot("q", axes=figure)


def test_xarray_has_the_numbers_the_names_and_the_units(rng):
    given = motion(rng, (2,))
    data = replace(given, betas=np.array([[0.5], [2.0]])).to_xarray(names={"tau": ["a", "b", "c"]})
    assert data.tau.dims == ("member", "time", "tau_component") and data.lyapunov.dims == ("member", "time")
    one = data.tau.sel(tau_component="b", time=0.25).sel(member=data.beta == 2.0)
    assert float(one.squeeze()) == given.tau[1, 1, 1] != given.tau[1, 1, 2]
    np.testing.assert_array_equal(data.s, given.v - given.v_r)
    assert (data.lyapunov.units, data.time.units) == ("J", "s") and "betas" not in data
    own = replace(given, times=np.stack([TIMES, 2.0 * TIMES])).to_xarray()  # as vmap gives them
    assert own.times.dims == ("member", "time") and float(own.times[1, -1]) == 2.0


RESULTS = [
    *(cn.Motion, GeodesicStability, JacobiField, ClosedLoopMotion, AdaptiveMotion, ObservedMotion),
    *(control.results.PlantMotion, control.results.EffortMotion),
]


@pytest.mark.parametrize("kind", RESULTS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("count", [1, 4])
def test_xarray_of_a_member_has_its_betas_as_scalars(rng, kind, count):
    parts = {
        part.name: rng.standard_normal((3, len(TIMES), 3)) for part in fields(kind) if part.default is MISSING
    }
    betas = {"betas": rng.standard_normal((3, count))} if "betas" in {f.name for f in fields(kind)} else {}
    given = kind(**parts | {"times": TIMES} | betas)
    data, every = given.member(1).to_xarray(), given.to_xarray()
    assert data.q.dims == ("time", "q_component")
    np.testing.assert_array_equal(data.q, every.q[1])
    for k in range(count if betas else 0):
        name = "beta" if count == 1 else f"beta_{k}"
        assert data[name].dims == () and float(data[name]) == betas["betas"][1, k] == float(every[name][1])


def test_without_xarray_it_says_how_to_get_it(rng, monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ImportError, match=r'needs xarray: pip install "affine-connections\[xarray\]"'):
        two(rng)[0].to_xarray()
