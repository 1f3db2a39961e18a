"""Texts and figures of filters' results: one line each, a table, deviations and NIS over time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

import connections as cn
from connections import estimation, plots
from connections.checks import ShapeError

PLANE = estimation.Filter(cn.CoordinateFrame(2), noise=0.1 * np.eye(2))
SENSOR = estimation.Sensor(lambda q: q, np.diag([0.3, 0.2]))
START = estimation.Estimate([0.0, 0.0], np.eye(2))
TIMES = 0.5 * np.arange(1.0, 21.0)


def measured():
    y = np.random.default_rng(5).normal(size=(20, 2)) * 0.5
    y[3], y[7, 1], y[11] = np.nan, np.nan, [30.0, 0.0]
    return y


@pytest.fixture(scope="module")
def history():
    return PLANE.run(START, TIMES, np.zeros((20, 2)), measured(), SENSOR, gate=0.999)


def test_each_result_is_a_line(history):
    said, nees = history.innovation, estimation.consistency(PLANE, history, np.zeros((20, 2)))
    mean = said.nis.sum() / said.dimension.sum()
    assert repr(history) == f"History of 20 estimates, 0.5 to 10 s: NIS {mean:.3g}, 18 of 19 accepted"
    assert repr(START) == "Estimate of 2 errors at 0 s, deviations 1, 1"
    assert repr(history.estimate) == "Estimates (20,) of 2 errors, 0.5 to 10 s"
    assert repr(said) == f"Innovations (20,): NIS {mean:.3g}, 18 of 19 accepted"
    for place, word in ((0, "of 2, accepted"), (3, "of 0, nothing measured"), (11, "of 2, refused")):
        one = repr(jax.tree_util.tree_map(lambda a, place=place: a[place], said))
        assert one == f"Innovation: NIS {said.nis[place]:.3g} {word}"
    assert repr(nees).startswith(f"Consistency of 1 run at 20 times: NEES {nees.nees.mean():.3g}, ")
    assert repr(nees).endswith(f"within bounds, NIS {np.nanmean(nees.nis):.3g}")
    alone = estimation.consistency(PLANE, history.estimate, np.zeros((20, 2)))
    assert repr(alone).endswith("no NIS")
    large = estimation.Estimate(np.zeros(9), np.eye(9), t=1e-3)
    assert repr(large).endswith("1, 1, 1, 1, 1, 1, ...")


def test_what_jax_traces_and_many_runs_are_lines_too(history):
    lines = [repr(jax.tree_util.tree_map(lambda a: None, history))]

    def traced(y):
        found = PLANE.run(START, TIMES, np.zeros((20, 2)), y, SENSOR)
        lines.extend(map(repr, (found, found.estimate, found.innovation)))
        return found

    many = jax.vmap(traced)(np.stack([measured(), measured()]))
    lines += [repr(many), *many.summary().splitlines()]
    assert all(len(line) <= 80 and "\n" not in line for line in lines)
    assert repr(many).startswith("History of 2 runs of 20 estimates, 0.5 to 10 s: NIS ")


def test_a_sensor_is_one_line():
    assert repr(SENSOR).startswith("Sensor of numbers, deviations ")
    many = estimation.Sensor(lambda q: q, np.diag(np.arange(1.0, 9.0) ** 2))
    assert repr(many) == "Sensor of numbers, deviations 1, 2, 3, 4, 5, 6, ..."
    pose = estimation.Sensor(lambda q: q, lambda y: np.eye(6), cn.SE3Frame())
    assert repr(pose).startswith("Sensor of points in SE3Frame") and len(repr(pose)) <= 80


def test_the_table(history):
    lines, sizes = history.summary().splitlines(), history.estimate.deviations
    assert lines[0] == repr(history) and lines[2].split() == "error at 0.5 s least largest at 10 s".split()
    for number in range(2):
        own = [float(word) for word in lines[3 + number].split()]
        expected = [
            number,
            sizes[0, number],
            sizes[:, number].min(),
            sizes[:, number].max(),
            sizes[-1, number],
        ]
        np.testing.assert_allclose(own, expected, rtol=5e-3)
    count = history.innovation.dimension.sum()
    low, high = (chi2.ppf(tail, count) / count for tail in (0.025, 0.975))
    assert lines[-1].endswith(f"{low:.3g} to {high:.3g}") and count == 37
    silent = PLANE.run(START, TIMES, np.zeros((20, 2)), np.full((20, 2), np.nan), SENSOR)
    assert "NIS" not in silent.summary() and silent.summary().count("nothing measured") == 1


def test_the_figure(history):
    """The bands are 3 deviations before and after each measurement, and the quantiles of chi^2."""
    errors = PLANE.difference(history.estimate, np.zeros((20, 2)))
    figure = history.plot(errors=errors, components=[1], names=["height"])
    height, nis = figure.axes
    assert height.get_title() == "height" and nis.get_title() == "NIS of 1 to 2 components"
    np.testing.assert_array_equal(height.lines[0].get_ydata(), errors[:, 1])
    (band,) = height.collections
    ends = band.get_paths()[0].vertices
    for each in (history.predicted, history.estimate):
        for t, size in zip(TIMES, each.deviations[:, 1], strict=True):
            assert any(np.allclose(end, [t, 3.0 * size]) for end in ends)
            assert any(np.allclose(end, [t, -3.0 * size]) for end in ends)
    accepted, refused = (line.get_xydata() for line in nis.lines)
    np.testing.assert_array_equal(refused, [[TIMES[11], history.innovation.nis[11]]])
    assert len(accepted) == 18
    heights = nis.collections[0].get_paths()[0].vertices[:, 1]
    for count in (1, 2):
        assert np.isin(chi2.ppf([0.025, 0.975], count), heights).all()
    assert len(history.plot().axes) == 3 and len(plots.figure_history(history, components=(0,)).axes) == 2


def test_what_cannot_be_drawn_is_named(history):
    many = jax.vmap(lambda y: PLANE.run(START, TIMES, np.zeros((20, 2)), y, SENSOR))(np.stack([measured()]))
    for call, error, words in (
        (lambda: many.plot(), ValueError, "history: expected one run"),
        (lambda: history.plot(components=[2]), ValueError, "components: expected indices from 0 to 1"),
        (lambda: history.plot(names=["x"]), ValueError, "names: got 1 for 2 components"),
        (lambda: history.plot(errors=np.zeros((3, 2))), ShapeError, "errors"),
        (lambda: plots.figure_history(START), TypeError, "history"),
    ):
        with pytest.raises(error, match=words):
            call()


def roots(on_failure):
    """Runs in which the measurement of a root is possible, and the second is not; their deviations."""
    line = estimation.Filter(cn.CoordinateFrame(1), noise=[[0.01]], on_failure=on_failure)
    start, sensor = estimation.Estimate([1.0], [[0.04]]), estimation.Sensor(jnp.sqrt, [[0.01]])
    y = np.array([[[1.0], [1.05], [1.1]], [[1.0], [-50.0], [1.1]]])
    many = jax.jit(jax.vmap(lambda y: line.run(start, [1.0, 2.0, 3.0], np.zeros((3, 1)), y, sensor)))(y)
    return line, many, *(jax.tree_util.tree_map(lambda a, k=k: np.asarray(a)[k], many) for k in (0, 1))


def test_what_failed_is_counted_and_named():
    """An update that is left out: NIS and its bounds are those of the others."""
    _, many, good, bad = roots("keep")
    nis = bad.innovation.nis[[0, 2]]
    assert np.isnan(bad.innovation.nis[1]) and np.isfinite(nis).all()
    assert repr(bad.innovation) == (
        f"Innovations (3,): 1 of 3 failed: NOT_SETTLED, NIS {nis.mean():.3g}, 2 of 3 accepted"
    )
    low, high = (chi2.ppf(tail, 2) / 2 for tail in (0.025, 0.975))
    assert bad.summary().endswith(
        f"NIS {nis.mean():.3g} a component; 95 of 100 consistent runs have {low:.3g} to {high:.3g}"
    )
    one, kept = (jax.tree_util.tree_map(lambda a: a[1], a) for a in (bad.innovation, bad.estimate))
    assert repr(one) == "Innovation of 1, failed: NOT_SETTLED"
    size = kept.deviations[0]
    assert repr(kept) == f"Estimate of 1 errors at 2 s, failed: NOT_SETTLED, deviations {size:.3g}"
    whole = (good.innovation.nis.sum() + nis.sum()) / 5
    assert repr(many).startswith(
        f"History of 2 runs of 3 estimates, 1 to 3 s: 1 of 6 failed: NOT_SETTLED, NIS {whole:.3g}"[:76]
    )


def first_row(history):
    """That below the head of the table."""
    lines = history.summary().splitlines()
    return lines[[line.split()[:1] for line in lines].index(["error"]) + 1]


def test_runs_that_failed_are_left_out_of_deviations():
    line, many, good, bad = roots("raise")
    assert np.isnan(bad.estimate.P[1:]).all()
    assert first_row(many) == first_row(good)  # both begin alike, and one goes on
    assert first_row(bad).split() == [
        "0",
        *[f"{bad.estimate.deviations[0, 0]:.3g}"] * 3,
        "failed",
    ]
    assert "2 of 3 failed: NOT_SETTLED" in repr(bad) and "failed" not in repr(good)
    assert repr(bad.estimate) == "Estimates (3,) of 1 errors, 1 to 3 s, 2 of 3 failed: NOT_SETTLED"
    last = jax.tree_util.tree_map(lambda a: a[2], bad.estimate)
    assert repr(last) == "Estimate of 1 errors at 3 s, failed: NOT_SETTLED"
    found = estimation.consistency(line, many, np.ones((3, 1)))
    assert repr(found).startswith("Consistency of 1 run at 3 times, 1 failed (1 NOT_SETTLED): NEES")
    assert all("nan" not in text for text in (many.summary(), bad.summary(), repr(many), repr(found)))


def test_lengths_are_told_where_jax_traces():
    line = estimation.Filter(cn.CoordinateFrame(1), noise=[[1.0]])
    start, sensor = estimation.Estimate([0.0], [[3.0]]), estimation.Sensor(lambda q: q, [[1.0]])
    for counts, words in (((3, 2), r"u: expected shape \(2, \.\.\.\)"), ((2, 3), r"y: expected shape")):
        u, y = (np.zeros((count, 1)) for count in counts)
        with pytest.raises(ShapeError, match=words):
            jax.jit(lambda y, u=u: line.run(start, [1.0, 2.0], u, y, sensor))(y)
