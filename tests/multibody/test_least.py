"""The least C of a robot's frame, against Alt Gamma*, with its permutations and signs written out.

What is compared shares no code with `kernels/least.py`: it is made of Gamma* = `christoffel_symbols`. That
Gamma* - Alt Gamma* is the least is compared with other 3-forms, in random inner products.
"""

from itertools import permutations

import jax
import numpy as np
import pytest
from cases import further
from closed_chains import PLANS
from mechanisms import armed, derivative_along, mechanism_of_all_pairs, move, random_mechanism, sample

from connections import multibody as mb
from connections.multibody.definition.recursions import DEFINITIONS

LEAST = {"body_factor": "least"}
TOL = 1e-12


def alternated(tensor):
    """The part of a tensor (..., n, n, n) that alternates: the mean of six permutations with signs."""
    total = np.zeros_like(tensor)
    for order in permutations(range(3)):
        sign = round(np.linalg.det(np.eye(3)[list(order)]))
        total += sign * np.einsum("...ijk->..." + "".join("ijk"[axis] for axis in order), tensor)
    return total / 6.0


def gap(ours, theirs):
    return np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs))


def balls(rng):
    """Spherical and free joints at the ground, inside and at the tips, with armature, among slides."""
    kinds = (mb.Spherical, mb.Free, mb.Revolute, mb.Prismatic)
    return armed(random_mechanism(rng, 8, kinds, trees=2, massless=0.2), rng, 1.0)


TREES = {
    "balls": balls,
    "quadruped": lambda rng: mb.example("quadruped"),
    "all pairs": lambda rng: armed(mechanism_of_all_pairs(rng, massless=0.3, coincident=0.2), rng),
}
# A floating base with linear loops; a ball behind a loop; and floating legs with loops that are solved.
CHAINS = ("belt leg", "four-bar with branches", "legged robot")
CASES = [
    "balls",
    further("quadruped"),
    further("all pairs"),
    "four-bar with branches",
    *map(further, CHAINS[::2]),
]


def made(*bodies):
    """A robot of (joint, mass, inertia), each carried by the one before, about their centres of mass."""
    mechanism, parent = mb.Mechanism(), "world"
    for number, (joint, mass, inertia) in enumerate(bodies):
        mechanism.add_body(f"body {number}", mass, (0.0, 0.0, 0.3 * number), np.diag(inertia))
        mechanism.add_joint(f"joint {number}", parent, f"body {number}", joint)
        parent = f"body {number}"
    return mechanism.build()


def near_reference(robot, rng, *batch):
    xi = 0.2 * rng.uniform(-1.0, 1.0, (*batch, robot.nv))
    return move(robot, robot.neutral(), xi), rng.standard_normal((*batch, robot.nv))


def robot_at(name, rng, *batch):
    if name in TREES:
        robot = TREES[name](rng)
        return robot, *sample(robot, rng, *batch)
    robot = PLANS[name]().build()
    return robot, *near_reference(robot, rng, *batch)


@pytest.mark.parametrize("name", CASES)
def test_it_is_what_does_not_alternate(name, rng):
    """C, products, Gamma and rates, one by one and in rows, against Gamma* - Alt Gamma*."""
    robot, q, v = robot_at(name, rng, 3)
    w, a = rng.standard_normal((2, *v.shape))
    star = mb.christoffel_symbols(robot, q)
    D = alternated(star)
    C = np.einsum("nijk,nj->nik", star - D, v)
    rows = mb.coriolis_matrix(robot, q, v, **LEAST)
    assert gap(rows, C) < TOL and gap(mb.christoffel_symbols(robot, q, **LEAST), star - D) < TOL
    assert gap(mb.coriolis_product(robot, q, v, w, **LEAST), np.einsum("nik,nk->ni", C, w)) < TOL
    transpose = mb.coriolis_transpose_product(robot, q, v, w, **LEAST)
    assert gap(transpose, np.einsum("nki,nk->ni", C, w)) < TOL
    for k in range(3):
        assert gap(mb.coriolis_matrix(robot, q[k], v[k], **LEAST), C[k]) < TOL
        assert gap(mb.coriolis_product(robot, q[k], v[k], w[k], **LEAST), C[k] @ w[k]) < TOL
        assert gap(mb.coriolis_transpose_product(robot, q[k], v[k], w[k], **LEAST), C[k].T @ w[k]) < TOL
        assert gap(mb.christoffel_symbols(robot, q[k], **LEAST), star[k] - D[k]) < TOL
    Dv = np.einsum("nijk,nj->nik", D, v)
    for wrong in (C - Dv, C + 2.0 * Dv, C + Dv / 2.0, C + Dv):  # 1/3, -1/6, 1/12 and 0 in the place of 1/6
        assert gap(rows, wrong) > 1e-3
    assert gap(np.swapaxes(rows, 1, 2), C) > 1e-3  # and the transpose
    if robot.nv > 100:
        return
    change = mb.christoffel_derivatives(robot, q[0], **LEAST)
    expected = np.moveaxis(mb.christoffel_derivatives(robot, q[0]), -1, 0)
    expected = np.moveaxis(expected - alternated(expected), 0, -1)
    assert gap(change, expected) < TOL
    rate = np.einsum("ijkl,j,l->ik", expected, v[0], v[0]) + np.einsum("ijk,j->ik", (star - D)[0], a[0])
    assert gap(mb.coriolis_matrix_rate(robot, q[0], v[0], a[0], **LEAST), rate) < TOL
    assert gap(mb.coriolis_matrix_rate(robot, q, v, a, **LEAST)[0], rate) < TOL
    assert gap(mb.coriolis_matrix_rate(robot, q[0], v[0], a[0]), rate) > 1e-3


def test_the_rate_by_differences(rng):
    robot, q, v = robot_at("balls", rng)
    a = rng.standard_normal(robot.nv)
    C = lambda p, u: mb.coriolis_matrix(robot, p, u, **LEAST)  # noqa: E731
    expected = derivative_along(robot, lambda p: C(p, v), q, v, 3e-4) + C(q, a)
    assert gap(mb.coriolis_matrix_rate(robot, q, v, a, **LEAST), expected) < 1e-8
    assert gap(mb.coriolis_matrix_rate(robot, q, v, a), expected) > 1e-3  # control: of another connection


@pytest.mark.parametrize("name", ["arm", "five-bar"])
def test_without_brackets_it_is_christoffels(name, rng):
    """Bit by bit: a robot whose velocities are rates of coordinates pays nothing."""
    robot = mb.example("arm") if name == "arm" else PLANS["four-bar"]().build()
    q, v = (robot.neutral(), rng.standard_normal(robot.nv)) if name == "arm" else near_reference(robot, rng)
    for function, vectors in (
        (mb.coriolis_matrix, (v,)),
        (mb.christoffel_symbols, ()),
        (mb.coriolis_product, (v, v)),
        (mb.coriolis_transpose_product, (v, v)),
        (mb.coriolis_matrix_rate, (v, v)),
    ):
        assert np.array_equal(function(robot, q, *vectors, **LEAST), function(robot, q, *vectors))


def test_no_other_3_form_leaves_less(rng):
    """Pythagoras in every inner product: |Gamma* - D'|^2 = |Gamma* - D|^2 + |D - D'|^2."""
    robot, q, _ = robot_at("balls", rng)
    n = robot.nv
    ours = mb.christoffel_symbols(robot, q, **LEAST)
    star, crossed = (mb.christoffel_symbols(robot, q, body_factor=f) for f in ("christoffel", "force_cross"))
    for scale in (
        np.eye(n),
        rng.standard_normal((n, n)),
        np.linalg.inv(np.linalg.cholesky(mb.mass_matrix(robot, q))),
    ):
        size = lambda T, S=scale: np.sum(np.einsum("ia,jb,kc,ijk->abc", S, S, S, T, optimize=True) ** 2)  # noqa: E731
        for other in (star, crossed, ours + alternated(rng.standard_normal((n, n, n)))):
            assert abs(size(other) - size(ours) - size(other - ours)) < 1e-9 * size(other)
            assert size(ours) < size(other)
    one_sided = ours + rng.standard_normal((n, n, n))  # control: a difference that is no 3-form
    assert abs(np.sum(one_sided**2) - np.sum(ours**2) - np.sum((one_sided - ours) ** 2)) > 1e-3 * np.sum(
        ours**2
    )


def test_a_ball_with_a_round_inertia_has_none():
    """In body axes C = 0, as that of Levi-Civita's is -J/2 (w x), and D the whole of it."""
    robot, w = made((mb.Spherical(), 1.0, (0.3, 0.3, 0.3))), np.array([0.4, -0.3, 0.2])
    assert np.abs(mb.coriolis_matrix(robot, robot.neutral(), w, **LEAST)).max() < 1e-16
    assert np.abs(mb.coriolis_matrix(robot, robot.neutral(), w)).max() > 0.05


def test_a_body_at_its_center_of_mass():
    """m/3 and 2m/3 in the place of Levi-Civita's m: C = [[J.., -m/3 (u x)], [-m/3 (u x), 2m/3 (w x)]]."""
    robot = made((mb.Free(), 3.0, (0.3, 0.3, 0.3)))
    v = np.array([0.4, -0.3, 0.2, 1.0, 2.0, -1.0])
    cross = lambda x: np.cross(np.eye(3), x)  # noqa: E731  (x x)
    C = mb.coriolis_matrix(robot, robot.neutral(), v, **LEAST)
    expected = np.block([[np.zeros((3, 3)), -cross(v[3:])], [-cross(v[3:]), 2.0 * cross(v[:3])]])
    np.testing.assert_allclose(C, expected, atol=1e-15)


@pytest.mark.parametrize(
    "name",
    ["coriolis_matrix", *map(further, ("coriolis_product", "christoffel_symbols", "coriolis_matrix_rate"))],
)
def test_in_jax(name, rng):
    """Values and derivatives of the recursion inside JAX, against those of the definition."""
    robot = made((mb.Free(), 2.0, (0.3, 0.2, 0.4)), (mb.Revolute((0, 1, 0)), 1.0, (0.1, 0.2, 0.15)))
    q, v = sample(robot, rng)
    count = {"coriolis_product": 2, "christoffel_symbols": 0, "coriolis_matrix_rate": 2}.get(name, 1)
    x = (q, *(v, rng.standard_normal(robot.nv))[:count])
    along = (np.asarray(robot.frame.matrix_at(q)) @ v, *rng.standard_normal((count, robot.nv)))
    ours, ours_change = jax.jit(
        lambda *x: jax.jvp(lambda *y: getattr(mb, name)(robot, *y, **LEAST), x, along)
    )(*x)
    theirs, change = jax.jit(lambda *x: jax.jvp(lambda *y: DEFINITIONS[name](robot, *y, "least"), x, along))(
        *x
    )
    assert gap(ours, theirs) < TOL and gap(ours_change, change) < 1e-10
    other = getattr(mb, name)(robot, *x)
    assert gap(other, theirs) > 1e-3  # control


def test_an_unknown_one_is_told_all_three():
    robot = mb.example("arm")
    with pytest.raises(
        ValueError, match="^body_factor: expected one of christoffel, force_cross, least, got 'lest'"
    ):
        mb.coriolis_matrix(robot, robot.neutral(), np.zeros(6), body_factor="lest")
