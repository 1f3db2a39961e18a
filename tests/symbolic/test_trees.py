"""Planar trees: [E] Algorithm 2 on symbols against derivatives of a mass matrix found from the positions."""

import numpy as np
import pytest
import sympy
from sympy import Matrix, cos, sin, symbols

import connections as cn
from connections.symbolic import PlanarLink, PlanarTree, planar_binary_tree, planar_chain, vanishes

MASSES, INERTIAS = symbols("m_:4", positive=True), symbols("I_:4", positive=True)
COORDINATES = symbols("q_:4", real=True)
# A swinging arm, a slider on it, a link on the slider, and another link on the arm.
MIXED = PlanarTree(
    (
        PlanarLink(-1, (0, 0), MASSES[0], (sympy.Rational(1, 2), sympy.Rational(1, 5)), INERTIAS[0]),
        PlanarLink(0, (sympy.Rational(1, 3), 0), MASSES[1], (0, 1), INERTIAS[1], slide=(1, 0)),
        PlanarLink(1, (1, 2), MASSES[2], (1, 0), INERTIAS[2]),
        PlanarLink(0, (1, 0), MASSES[3], (sympy.Rational(3, 4), 0), INERTIAS[3]),
    ),
    COORDINATES,
)


def mass_matrix_from_positions(tree):
    """The second derivative of the kinetic energy, from positions and angles in the ground frame."""
    q = tree.coordinates
    H, frames = sympy.zeros(len(q)), {-1: (Matrix([0, 0]), sympy.S.Zero)}
    for k, link in enumerate(tree.links):
        origin, angle = frames[link.parent]
        slide = link.slide or (0, 0)
        place = Matrix(link.offset) + (Matrix(slide) * q[k] if link.slide else sympy.zeros(2, 1))
        turned = angle if link.slide else angle + q[k]
        frames[k] = origin + rotation(angle) * place, turned
        J = (frames[k][0] + rotation(turned) * Matrix(link.center)).jacobian(q)
        J_angle = Matrix([turned]).jacobian(q)
        H += link.mass * J.T * J + link.inertia * J_angle.T * J_angle
    return H


def rotation(angle):
    return Matrix([[cos(angle), -sin(angle)], [sin(angle), cos(angle)]])


def derivatives(H, q):
    dH = [H.diff(x) for x in q]
    n = range(len(q))
    return [[[(dH[k][i, j] + dH[j][i, k] - dH[i][j, k]) / 2 for k in n] for j in n] for i in n]


@pytest.mark.parametrize("tree", [MIXED, planar_binary_tree(4)], ids=["mixed", "binary"])
def test_recursion_and_derivatives_agree_in_numbers(tree, rng):
    H = mass_matrix_from_positions(tree)
    symbols_used = sorted(H.free_symbols | set(tree.coordinates), key=str)
    found = [
        tree.mass_matrix(None),
        H.tolist(),
        tree.christoffel_symbols(None),
        derivatives(H, tree.coordinates),
        tree.christoffel_symbols_by_derivatives(None),
    ]
    function = sympy.lambdify(symbols_used, [np.ravel(array).tolist() for array in found], cse=True)
    own_H, H, recursion, expected, by_derivatives = map(
        np.array, function(*rng.uniform(0.5, 1.5, len(symbols_used)))
    )
    np.testing.assert_allclose(own_H, H, rtol=1e-12)
    np.testing.assert_allclose(recursion, expected, atol=1e-12)
    np.testing.assert_allclose(by_derivatives, expected, atol=1e-12)
    cube = expected.reshape((len(tree.coordinates),) * 3)
    assert np.abs(cube - np.swapaxes(cube, 0, 1)).max() > 0.1  # control: other indices


def test_both_routes_give_the_same_expressions():
    tree = planar_binary_tree(3)
    pairs = zip(tree.christoffel_symbols().flat, tree.christoffel_symbols_by_derivatives().flat, strict=True)
    assert all(vanishes(a - b) for a, b in pairs)


def test_three_links_by_hand():
    tree = planar_chain(3)
    l_0, l_1, m_1, m_2, c_1, c_2 = symbols("l_0 l_1 m_1 m_2 c_1 c_2", positive=True)
    q_1, q_2 = tree.coordinates[1:]
    expected = -l_0 * (m_1 * c_1 * sin(q_1) + m_2 * l_1 * sin(q_1) + m_2 * c_2 * sin(q_1 + q_2))
    assert vanishes(tree.christoffel_symbols(None)[0, 0, 1] - expected)
    assert not vanishes(tree.christoffel_symbols(None)[1, 0, 0] - expected)  # control: other indices


def test_a_tree_is_a_system():
    system = planar_chain(2).system()
    assert (system.coefficients(None).shape, system.name) == ((2, 2, 2), "planar tree")
    low = np.einsum("il,ljk->ijk", system.metric, system.coefficients(None))
    assert all(
        vanishes(a - b) for a, b in zip(low.flat, planar_chain(2).christoffel_symbols().flat, strict=True)
    )


def test_bad_trees_are_refused():
    link = PlanarLink(0, (0, 0), 1, (0, 0), 1)
    with pytest.raises(cn.checks.ModelError, match="link 0: its parent 0 does not come before it"):
        PlanarTree((link,), COORDINATES[:1])
    with pytest.raises(cn.checks.ShapeError, match=r"coordinates: expected shape \(4,\), got \(1,\)"):
        PlanarTree(MIXED.links, COORDINATES[:1])
    with pytest.raises(cn.checks.ShapeError, match=r"^center: expected shape \(2,\)"):
        PlanarTree((PlanarLink(-1, (0, 0), 1, (0, 0, 0), 1),), COORDINATES[:1])
    with pytest.raises(ValueError, match="count: expected a positive integer, got 0"):
        planar_chain(0)
