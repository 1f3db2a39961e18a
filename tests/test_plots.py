"""The figures: what they are drawn from, that they are written, what they say."""

import csv

import numpy as np
import pytest

import connections as cn
from connections import plots
from connections.checks import NonFiniteError, ShapeError


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


def test_exploration_is_written_with_its_tables(tmp_path):
    paths, text = plots.write_exploration(tmp_path, [0.0, -5.0], pdf=True)
    suffixes = sorted(path.suffix for path in paths)
    assert suffixes == [".csv", ".md"] + [".pdf"] * 4 + [".png"] * 4
    assert (tmp_path / "exploration.md").read_text() == text + "\n"
    with (tmp_path / "exploration.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["beta"]) for row in rows] == [0.0, -5.0]
    assert float(rows[0]["rms_error"]) == pytest.approx(0.350, abs=5e-4)


def test_one_beta_has_no_sweep_figure(tmp_path):
    paths, _ = plots.write_exploration(tmp_path, [2.0])
    assert not any("sweep" in path.name for path in paths)


def test_bad_betas_write_nothing(tmp_path):
    for betas, error in (([], ShapeError), ([0.0, np.inf], NonFiniteError)):
        with pytest.raises(error, match="betas"):
            plots.write_exploration(tmp_path / "none", betas)
    assert not (tmp_path / "none").exists()
