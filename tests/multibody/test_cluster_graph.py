"""Clusters of a spanning tree: what is tied is together, and the clusters form a tree."""

import networkx as nx
import numpy as np
import pytest
from coriolis_oracles import by_projection

from connections import multibody as mb
from connections.multibody.graph import cluster_bodies

# A trunk 0, and two legs of three bodies each: 1 2 3 and 4 5 6; a second tree 7 8 on the ground.
LEGS = np.array([-1, 0, 1, 2, 0, 4, 5, -1, 7])


def groups(parents, *ties):
    """The clusters of more than one body, as sets."""
    of_body = cluster_bodies(parents, ties)[0]
    members = [set(np.flatnonzero(of_body == number).tolist()) for number in range(of_body.max() + 1)]
    return [bodies for bodies in members if len(bodies) > 1]


def test_a_tree_is_its_own_cluster_tree():
    of_body, parents, supports = cluster_bodies(LEGS, [])
    assert of_body.tolist() == list(range(9))
    assert parents.tolist() == supports.tolist() == LEGS.tolist()


@pytest.mark.parametrize(
    ("ties", "expected"),
    [
        ([[2, 3]], [{2, 3}]),
        ([[2, 3], [3, 1]], [{1, 2, 3}]),  # ties that share a body
        ([[1, 3]], [{1, 2, 3}]),  # what lies between belongs to it
        ([[2, 5]], [{1, 4}, {2, 5}]),  # a cluster has one parent: those of its bodies are merged
        ([[3, 6]], [{1, 4}, {2, 5}, {3, 6}]),
        ([[3, 5]], [{1, 4, 2}, {3, 5}]),
        ([[1, 7]], [{1, 7}]),  # one on the trunk, one on the ground
        ([[0, 3]], [{0, 1, 2, 3}]),
        ([[8, 2]], [{1, 7}, {2, 8}]),
    ],
)
def test_ties_make_clusters(ties, expected):
    found = groups(LEGS, *ties)
    assert sorted(map(sorted, found)) == sorted(map(sorted, expected))


def test_random_ties_make_arborescences(rng):
    """Parents come first, supports lie in the parent cluster, ties within one cluster."""
    for _ in range(200):
        count = int(rng.integers(2, 15))
        tree = np.array([int(rng.integers(-1, body)) for body in range(count)])
        ties = [rng.choice(count, min(count, 3), replace=False).tolist() for _ in range(rng.integers(0, 4))]
        of_body, parents, supports = cluster_bodies(tree, ties)
        assert all(parents[cluster] < cluster for cluster in range(len(parents)))
        assert all(len(set(of_body[tie])) == 1 for tie in ties)
        graph = nx.DiGraph()
        graph.add_nodes_from(range(-1, len(parents)))
        graph.add_edges_from((int(parent), cluster) for cluster, parent in enumerate(parents))
        assert nx.is_arborescence(graph)
        for body in range(count):
            above = tree[body]
            while above >= 0 and of_body[above] == of_body[body]:
                above = tree[above]
            assert supports[body] == above
            if above >= 0:
                assert of_body[above] == parents[of_body[body]]


@pytest.mark.parametrize(
    "ties", [[[2, 5]], [[3, 6]], [[3, 5]], [[1, 7]], [[8, 2]], [[0, 8]], [[7, 0], [3, 8]]]
)
def test_recursions_over_merged_clusters(ties, rng):
    """Gears between far joints: C and Gamma over clusters against the spanning tree, projected."""
    model = geared(ties).build()
    q, v = model.random(rng), rng.normal(size=model.nv)
    C, Gamma = mb.coriolis_matrix(model, q, v), mb.christoffel_symbols(model, q)
    expected = by_projection(model, q, v)
    scale = np.abs(expected).max()
    assert np.abs(C - expected).max() < 1e-12 * scale
    assert np.abs(np.einsum("ijk,j->ik", Gamma, v) - expected).max() < 1e-12 * scale
    assert np.abs(np.einsum("ijk,k->ij", Gamma, v) - Gamma @ v).max() < 1e-12 * scale  # no torsion in a chart
    assert np.abs(np.einsum("jik,j->ik", Gamma, v) - expected).max() > 1e-3 * scale  # another index: wrong


def geared(ties):
    """Hinged bodies on the tree `LEGS` with gears between some."""
    rng, mechanism = np.random.default_rng(7), mb.Mechanism()
    for body, parent in enumerate(LEGS):
        mechanism.add_body(
            f"b{body}", 1.0, rng.normal(size=3) * 0.2, np.diag(rng.uniform(1.0, 1.5, 3)) * 0.05
        )
        placement = np.eye(4)
        placement[:3, 3] = rng.normal(size=3) * 0.4
        above = "world" if parent < 0 else f"b{parent}"
        mechanism.add_joint(f"j{body}", above, f"b{body}", mb.Revolute(rng.normal(size=3)), placement)
    for number, (first, second) in enumerate(ties):
        mechanism.add_coupling(f"gear {number}", {f"j{first}": 1.0, f"j{second}": -2.5})
    return mechanism
