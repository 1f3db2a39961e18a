"""The figures: what they are drawn from, that they are written, what they say."""

import csv
import re

import numpy as np
import pytest

import connections as cn
from connections import plots
from connections.checks import NonFiniteError, ShapeError
from connections.control.tracking_example import explore, table


def antisymmetric(D, axes):
    return np.allclose(D, -np.transpose(D, axes), atol=1e-14)


def test_four_contorsions_are_of_the_four_kinds():
    for (compatible, riemannian), D in plots.four_contorsions().items():
        assert antisymmetric(D, (2, 1, 0)) == compatible
        assert antisymmetric(D, (0, 2, 1)) == riemannian


@pytest.fixture(scope="module")
def frames():
    kinds = plots.four_contorsions()
    q, z = plots.transported_frames(np.stack(list(kinds.values())), TIMES)
    return {kind: (q[k], z[k]) for k, kind in enumerate(kinds)}


TIMES = np.linspace(0.0, 4.0, 21)


def test_transported_vectors_show_the_two_properties(frames):
    for (compatible, riemannian), (q, z) in frames.items():
        gram = z @ np.swapaxes(z, 1, 2)
        bent = np.linalg.norm(q[:, 1:])
        assert (np.max(np.abs(gram - np.eye(3))) < 1e-8) == compatible
        assert (bent < 1e-8) == riemannian
        if not compatible:
            assert np.max(np.abs(gram - np.eye(3))) > 0.1
        if not riemannian:
            assert bent > 0.1


def test_transported_vectors_equal_those_of_the_library(frames):
    D = plots.four_contorsions()[True, False]
    metric = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
    nabla = cn.ContorsionConnection(metric, lambda q: D, "metric_compatible")
    q, _ = cn.geodesic(nabla, np.zeros(3), [1.0, 0.0, 0.0], TIMES)
    z = cn.parallel_transport(nabla, (TIMES, q), np.eye(3), TIMES)
    np.testing.assert_allclose(frames[True, False][0], q, atol=1e-8)
    np.testing.assert_allclose(frames[True, False][1], np.swapaxes(z, 0, 1), atol=1e-5)


def test_figures_are_written(tmp_path):
    paths = plots.write_figures(tmp_path / "new" / "folder")
    assert [path.name[:8] for path in paths] == [f"figure_{k}" for k in (3, 4, 5, 6, 7)]
    for path in paths:
        assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000


@pytest.mark.further
def test_exploration_is_written_with_its_tables(tmp_path):
    paths, results = plots.write_exploration(tmp_path, [0.0, -5.0], pdf=True)
    suffixes = sorted(path.suffix for path in paths)
    assert suffixes == [".csv", ".md"] + [".pdf"] * 4 + [".png"] * 4
    assert [result.beta for result in results] == [0.0, -5.0]
    assert (tmp_path / "exploration.md").read_text() == table(results) + "\n"
    with (tmp_path / "exploration.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["beta"]) for row in rows] == [0.0, -5.0]
    assert float(rows[0]["rms_error"]) == pytest.approx(0.350, abs=5e-4)


@pytest.fixture(scope="module")
def all_pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("all")
    return folder, *plots.write_all(folder)


@pytest.mark.further
def test_no_picture_is_written_twice(all_pictures):
    folder, paths, _ = all_pictures
    pictures = [path.read_bytes() for path in paths if path.suffix == ".png"]
    assert len(set(pictures)) == len(pictures) == 7
    assert sorted(paths) == sorted(folder.iterdir())
    assert len({*pictures, pictures[0]}) == 7  # the control: a copy would be noticed


@pytest.mark.further
def test_the_sweep_has_members_between_those_given(all_pictures):
    _, _, sweep = all_pictures
    assert [result.beta for result in sweep] == list(np.linspace(-10.0, 0.0, 41))
    (alone,) = explore([-2.5])  # another batch, other steps of the integrator
    between = next(result for result in sweep if result.beta == -2.5)
    assert between.effort == pytest.approx(alone.effort, rel=1e-4)
    assert between.rms_error == pytest.approx(alone.rms_error, rel=1e-4)


@pytest.mark.further
def test_the_figure_of_the_sweep_shows_all_members_and_those_marked(all_pictures):
    _, _, sweep = all_pictures
    for axes in plots.figure_sweep(sweep, sweep[::20]).axes:
        line, *dots = axes.lines
        assert len(line.get_xdata()) == 41 and [dot.get_xdata()[0] for dot in dots] == [-10.0, -5.0, 0.0]
    assert all(len(axes.lines) == 1 for axes in plots.figure_sweep(sweep[::20]).axes)


def scales(axes):
    """Size of a unit along x, y and z in the camera's space, from the projection: (x / w, y / w), w = -z."""
    return np.linalg.norm(np.asarray(axes.get_proj())[[0, 1, 3], :3], axis=0)


@pytest.mark.further
def test_figure_6_says_the_scales_of_its_axes(all_pictures):
    _, _, sweep = all_pictures
    for axes in plots.figure_trajectories(sweep[::20]).axes:
        (words,) = [text.get_text() for text in axes.texts if "unequal" in text.get_text()]
        said = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", words)]
        assert said == pytest.approx(scales(axes)[1:] / scales(axes)[0], rel=0.05) and min(said) > 2.0


def test_figure_3_has_one_scale():
    for axes in plots.figure_transport().axes:
        np.testing.assert_allclose(scales(axes), scales(axes)[0])


def filled(axes):
    """The larger of the fractions of a frame's width and height over which the box of a 3-d plot reaches."""
    limits = axes.get_xlim(), axes.get_ylim(), axes.get_zlim()
    corners = np.array([(x, y, z, 1.0) for x in limits[0] for y in limits[1] for z in limits[2]])
    x, y, _, w = np.asarray(axes.get_proj()) @ corners.T
    ends = axes.transData.transform(np.stack([x / w, y / w], axis=1))
    return max(np.ptp(ends, axis=0) / (axes.get_position(original=True).size * axes.figure.bbox.size))


@pytest.mark.further
def test_3d_plots_fill_their_frames(all_pictures):
    _, _, sweep = all_pictures
    for figure in (plots.figure_transport(), plots.figure_trajectories(sweep[::20])):
        figure.canvas.draw()
        assert all(0.8 < filled(axes) < 1.0 for axes in figure.axes)
        for axes in figure.axes:
            axes.set_box_aspect(None)  # the control: as matplotlib draws it
        figure.canvas.draw()
        assert all(filled(axes) < 0.8 for axes in figure.axes)


@pytest.mark.further
def test_one_beta_has_no_sweep_figure(tmp_path):
    paths, _ = plots.write_exploration(tmp_path, [2.0])
    assert not any("sweep" in path.name for path in paths)


def test_bad_betas_write_nothing(tmp_path):
    for betas, error in (([], ShapeError), ([0.0, np.inf], NonFiniteError)):
        with pytest.raises(error, match="betas"):
            plots.write_exploration(tmp_path / "none", betas)
    assert not (tmp_path / "none").exists()
