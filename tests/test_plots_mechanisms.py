"""The figure of a mechanism's graph: what it is drawn from, and that nothing lies on top of anything else."""

import numpy as np
import pytest
from closed_chains import PLANS
from matplotlib.patches import FancyBboxPatch

from connections import plots
from connections.plots.mechanisms import Arrangement, ties_of

TIES = {
    "four-bar": [("bar", True, {"bar coupler", "bar rocker"})],
    "closed by: function": [("loop", True, {None, "link 2"})],
    "belt leg": [
        ("hip belt", False, {"thigh", "hip rotor"}),
        ("knee belt", False, {"shank", "knee rotor"}),
        ("ankle belt", False, {"shank", "foot", "ankle rotor"}),
    ],
    "cam": [("profile", False, {"shaft", "follower"})],
}


@pytest.fixture(scope="module")
def models():
    return {name: PLANS[name]().build() for name in TIES}


@pytest.mark.parametrize("name", TIES)
def test_ties_are_those_of_the_plan(name, models):
    model = models[name]
    names = (*model.body_names, None)  # the ground is -1
    found = [(tie, loop, {names[body] for body in bodies}) for tie, loop, bodies in ties_of(model)]
    assert found == TIES[name]


@pytest.mark.parametrize("name", TIES)
def test_the_figure_shows_every_body_joint_tie_and_cluster(name, models, tmp_path):
    model = models[name]
    figure = plots.figure_mechanism(model)
    upper, lower = figure.axes
    words = [text.get_text() for text in upper.texts]
    for word in (*model.body_names, *model.kinematics.tree.joint_names, *(tie for tie, *_ in TIES[name])):
        assert word in words
    clusters = [", ".join(node) for node in model.cluster_tree if node != ("ground",)]
    assert sorted(text.get_text().split("\n")[0] for text in lower.texts) == sorted(
        [*clusters, "ground", "Clusters"]
    )
    for axes in (upper, lower):
        left, right = axes.get_xlim()
        bottom, top = axes.get_ylim()
        boxes = [patch for patch in axes.patches if isinstance(patch, FancyBboxPatch)]
        assert all(left <= box.get_x() and box.get_x() + box.get_width() <= right for box in boxes)
        assert all(top <= box.get_y() and box.get_y() + box.get_height() <= bottom for box in boxes)
    figure.savefig(tmp_path / "graph.png")
    for text in (text for axes in figure.axes for text in axes.texts):
        place = text.get_window_extent()
        assert figure.bbox.containsx(place.x0) and figure.bbox.containsx(place.x1), text
        assert figure.bbox.containsy(place.y0) and figure.bbox.containsy(place.y1), text
    assert (tmp_path / "graph.png").stat().st_size > 5_000


def test_boxes_do_not_overlap(rng):
    parents = np.array([-1, *(rng.integers(0, number) for number in range(1, 40))])
    texts = ["x" * int(rng.integers(1, 20)) + "\ny" * int(rng.integers(0, 3)) for _ in parents]
    boxes = Arrangement.of(parents, texts, ["", *("joint " * int(rng.integers(1, 3)) for _ in texts[1:])])
    corners = np.stack([boxes.left, boxes.middle - boxes.size[:, 1] / 2.0], axis=1)
    apart = (corners[:, None] >= corners + boxes.size) | (corners >= (corners + boxes.size)[:, None])
    assert (apart.any(axis=2) | np.eye(len(parents), dtype=bool)).all()
    for number in range(1, len(parents)):
        assert boxes.left[number] > boxes.left[parents[number]] + boxes.size[parents[number], 0]


def test_a_tree_has_clusters_of_one_body_and_no_ties(models):
    tree = models["belt leg"].spanning_tree
    assert ties_of(tree) == []
    upper, _ = plots.figure_mechanism(tree).axes
    assert {text.get_text() for text in upper.texts} >= set(tree.body_names)
