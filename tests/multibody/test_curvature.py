"""Curvature of robots by recursion: against the definition, differences, closed forms and identities."""

from functools import cache, partial
from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further
from closed_chains import PLANS
from mechanisms import (
    MOVING,
    armed,
    assemble,
    derivative_along,
    mechanism_of_all_pairs,
    move,
    random_mechanism,
    sample,
    structure_functions,
)

import connections as cn
from connections import multibody as mb
from connections.checks import NonFiniteError, PointError, ShapeError
from connections.evaluation import memory_chunks
from connections.multibody import curvature_contractions, functions
from connections.multibody.definition.recursions import DEFINITIONS, body_contorsion_at
from connections.multibody.program.polarization import POLARIZED, _contorsion_change, polarized
from connections.multibody.program.program import Program
from connections.multibody.program.solution_layout import Solution

#: Closed chains: of one cluster of three columns, under a free joint, with a ball and a cylinder in the loop.
CHAINS = (
    "planar robot",
    "four-bar with branches",
    "loop of wide joints, armed",
    "belt leg",
    "legged robot, armed",
    "loop of wide joints",
    "Stewart platform, armed",
)


def gap(ours, theirs, scale=None):
    """The largest difference, relative to the largest entry, or to `scale`."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    return np.abs(ours - theirs).max() / (np.abs(theirs).max() if scale is None else scale)


@cache
def chain(name):
    """The closed chain, and by another name with armature on half of its joints."""
    plan, _, loaded = name.partition(", ")
    robot = PLANS[plan]().build()
    return armed(robot, np.random.default_rng(7), 0.5) if loaded else robot


def near_reference(robot, rng):
    return np.array(move(robot, robot.neutral(), 0.1 * rng.uniform(-1.0, 1.0, robot.nv)))


def sphere(inertia=(1.0, 1.0, 1.0)):
    """A body that turns about its centre of mass."""
    mechanism = mb.Mechanism()
    mechanism.add_body("body", mass=2.0, center_of_mass=np.zeros(3), inertia=np.diag(inertia))
    mechanism.add_joint("ball", "world", "body", mb.Spherical())
    return mechanism.build()


def two_links(masses=(1.3, 0.7), lengths=(0.9, 0.6)):
    """Point masses at the ends of two massless bars in a plane."""
    mechanism = mb.Mechanism()
    above, axis = "world", mb.Revolute((0.0, 0.0, 1.0))
    for name, mass, length in zip(("first", "second"), masses, lengths, strict=True):
        arm = np.array([length, 0.0, 0.0])
        about_joint = {"mass": mass, "center_of_mass": arm, "inertia": np.zeros((3, 3))}
        mechanism.add_body(name, **about_joint)
        placement = np.eye(4)
        placement[0, 3] = 0.0 if above == "world" else lengths[0]
        mechanism.add_joint(f"to {name}", above, name, axis, placement)
        above = name
    return mechanism.build()


# --- against the definition and differences -----------------------------------------------------------------


def from_differences(robot, q, h=1e-3, factor="christoffel"):
    """L_l Gamma_ijk and R_ijkl, of differences of `christoffel_symbols`, and the size of terms in R."""
    symbols = partial(mb.christoffel_symbols, robot, body_factor=factor)
    change = np.moveaxis(derivative_along(robot, symbols, q, np.eye(robot.nv), h), 0, -1)
    Gamma, inverse = symbols(q), np.linalg.inv(mb.mass_matrix(robot, q))
    s = structure_functions(robot)
    products = np.einsum("pki,pq,qlj->ijkl", Gamma, inverse, Gamma)
    A = np.einsum("iljk->ijkl", change) - products
    R = A - np.swapaxes(A, -1, -2) - np.einsum("pkl,ipj->ijkl", s, Gamma)
    return change, R, np.abs(products).max()


@cache
def small_mechanism():
    """Joints of every elementary kind behind one another, two branches, 12 velocities."""
    kinds = (mb.Free, mb.Revolute, mb.Spherical, mb.Helical, mb.Prismatic)
    return assemble(np.random.default_rng(1), kinds, [-1, 0, 1, 2, 1])


@pytest.mark.parametrize(
    "name, chosen",
    [
        further("coriolis_matrix_rate", ("christoffel",)),
        ("christoffel_derivatives", ("christoffel",)),
        ("curvature", ()),
        further("curvature_operator", ()),
        further("christoffel_derivatives", ("force_cross",)),
    ],
)
def test_definition_by_automatic_differentiation(name, chosen, rng):
    """A small mechanism with brackets: 1e-10 of the largest entry; R is that of `model.definition`."""
    robot = small_mechanism()
    q, v = sample(robot, rng)
    vectors = {"coriolis_matrix_rate": (v, rng.standard_normal(robot.nv)), "curvature_operator": (v,)}
    given = (q, *vectors.get(name, ()))
    expected = jax.jit(lambda *x: DEFINITIONS[name](robot, *x, *chosen))(*given)
    named = dict(zip(("body_factor",), chosen, strict=False))
    assert gap(getattr(functions, name)(robot, *given, **named), expected) < 1e-10
    if name == "coriolis_matrix_rate":  # controls: without a, and with torsion
        assert gap(mb.coriolis_matrix_rate(robot, q, v, np.zeros_like(v)), expected) > 1e-2
        torsion = mb.coriolis_matrix_rate(robot, q, v, vectors[name][1], body_factor="force_cross")
        assert gap(torsion, expected) > 1e-2


@pytest.mark.further
def test_torsion_by_automatic_differentiation(rng):
    """R of the connection that is given by the contorsion of the bodies; also inside of JAX."""
    robot = small_mechanism()
    q, _ = sample(robot, rng)
    contorsion = partial(body_contorsion_at, robot)
    nabla = cn.ContorsionConnection(robot.definition.metric, contorsion, "admissible")
    expected = np.einsum("im,mjkl->ijkl", mb.mass_matrix(robot, q), nabla.curvature(q))
    assert gap(mb.curvatures.curvature_with_torsion(robot, q), expected) < 1e-10
    assert gap(jax.jit(partial(mb.curvatures.curvature_with_torsion, robot))(q), expected) < 1e-10


def test_every_joint_behind_every_joint(rng):
    """The rate of C against fourth-order differences of C, 1e-9 relative; K is symmetric, and K v = 0."""
    robot = armed(mechanism_of_all_pairs(rng, massless=0.3, coincident=0.2), rng)
    q, v = sample(robot, rng)
    a = rng.standard_normal(robot.nv)
    for factor in ("christoffel", "force_cross", "least"):
        C = partial(mb.coriolis_matrix, robot, body_factor=factor)
        expected = derivative_along(robot, lambda p, C=C: C(p, v), q, v, 3e-4) + C(q, a)
        assert gap(mb.coriolis_matrix_rate(robot, q, v, a, body_factor=factor), expected) < 1e-9
    K = mb.curvatures.curvature_operator(robot, q, v)
    assert np.abs(K @ v).max() < 1e-9 * np.abs(K).max()
    assert np.array_equal(K, K.T)


def test_tensors_of_every_joint_behind_every_joint(rng):
    """dGamma and R against differences of Gamma, 1e-9 relative, with another joint behind each pair."""
    for first in MOVING:
        for second in MOVING:
            third = MOVING[rng.integers(len(MOVING))]
            robot = assemble(rng, (first, second, third), [-1, 0, 1], coincident=0.2)
            robot = armed(robot, rng, 0.5)
            q, v = sample(robot, rng)
            change, R, scale = from_differences(robot, q, 5e-4)
            size = max(np.abs(change).max(), scale)
            assert gap(mb.christoffel_derivatives(robot, q), change, size) < 1e-9
            tensor = mb.curvatures.curvature(robot, q)
            assert gap(tensor, R, size) < 1e-9
            K = np.einsum("ijkl,j,l->ik", tensor, v, v)
            assert gap(mb.curvatures.curvature_operator(robot, q, v), K, size * np.abs(v).max() ** 2) < 1e-11


@pytest.mark.further
def test_torsion_behind_every_joint(rng):
    """The same for the factor (v x*) I, whose derivatives of D are the rest of those of Gamma."""
    for first in MOVING:
        for second in MOVING:
            third = MOVING[rng.integers(len(MOVING))]
            robot = armed(assemble(rng, (first, second, third), [-1, 0, 1], coincident=0.2), rng, 0.5)
            q, _ = sample(robot, rng)
            change, R, scale = from_differences(robot, q, 5e-4, "force_cross")
            size = max(np.abs(change).max(), scale)
            assert gap(mb.christoffel_derivatives(robot, q, body_factor="force_cross"), change, size) < 1e-9
            assert gap(mb.curvatures.curvature_with_torsion(robot, q), R, size) < 1e-9


@pytest.mark.further
@pytest.mark.parametrize("seed, bodies", [(0, 8), further(1, 8), further(2, 10), further(3, 10)], ids=str)
def test_random_mechanisms(seed, bodies):
    """dGamma, R and K of trees with massless and coincident links, and several roots, of one and of rows."""
    rng = np.random.default_rng(seed)
    robot = armed(random_mechanism(rng, bodies, MOVING, trees=2, massless=0.5, coincident=0.2), rng)
    q, v = sample(robot, rng, 9)
    change, R, _ = from_differences(robot, q[0], 5e-4)
    derivatives, tensors = mb.christoffel_derivatives(robot, q), mb.curvatures.curvature(robot, q)
    assert gap(derivatives[0], change) < 1e-9
    assert gap(tensors[0], R, np.abs(change).max()) < 1e-9
    assert (
        gap(mb.curvatures.curvature_operator(robot, q, v), np.einsum("bijkl,bj,bl->bik", tensors, v, v))
        < 1e-11
    )
    for row in (0, 8):
        assert gap(mb.christoffel_derivatives(robot, q[row]), derivatives[row]) < 1e-13
        assert gap(mb.curvatures.curvature(robot, q[row]), tensors[row]) < 1e-12
    turned, R, _ = from_differences(robot, q[0], 5e-4, "force_cross")
    twisted = mb.christoffel_derivatives(robot, q, body_factor="force_cross")
    bent = mb.curvatures.curvature_with_torsion(robot, q)
    assert gap(twisted[0], turned) < 1e-9
    assert gap(bent[0], R, np.abs(turned).max()) < 1e-9
    for row in (0, 8):
        assert gap(mb.christoffel_derivatives(robot, q[row], body_factor="force_cross"), twisted[row]) < 1e-13
        assert gap(mb.curvatures.curvature_with_torsion(robot, q[row]), bent[row]) < 1e-12
    assert gap(bent, tensors) > 1e-2  # control: the metric's own
    # control: the middle index of Gamma is the direction
    swapped = np.swapaxes(change, 1, 2)
    assert gap(derivatives[0], swapped) > 1e-2


@pytest.mark.parametrize("name", [*map(further, CHAINS)])
def test_closed_chains_against_differences(name, rng):
    robot = chain(name)
    q, (v, a) = near_reference(robot, rng), rng.standard_normal((2, robot.nv))
    change, R, scale = from_differences(robot, q, factor="force_cross")
    twisted = mb.christoffel_derivatives(robot, q, body_factor="force_cross")
    assert gap(twisted, change) < 1e-7
    assert gap(mb.curvatures.curvature_with_torsion(robot, q), R, scale) < 1e-7
    if robot.nv > 2:
        assert gap(twisted, mb.christoffel_derivatives(robot, q)) > 1e-2  # control
    change, R, scale = from_differences(robot, q)
    assert gap(mb.christoffel_derivatives(robot, q), change) < 1e-7
    assert gap(mb.curvatures.curvature(robot, q), R, scale) < 1e-7
    K = mb.curvatures.curvature_operator(robot, q, v)
    assert gap(K, np.einsum("ijkl,j,l->ik", R, v, v), scale) < 1e-7
    assert gap(K @ v, 0.0 * v, scale) < 1e-11
    for factor in ("christoffel", "force_cross", "least"):
        C = partial(mb.coriolis_matrix, robot, body_factor=factor)
        expected = derivative_along(robot, lambda p, C=C: C(p, v), q, v) + C(q, a)
        assert gap(mb.coriolis_matrix_rate(robot, q, v, a, body_factor=factor), expected) < 1e-8


def test_ricci_of_many_velocities_is_the_trace_of_the_tensor(rng, monkeypatch):
    """A column at a time, by polarization, as of robots whose tensor is not formed."""
    robot = random_mechanism(np.random.default_rng(6), 2, (mb.Spherical, mb.Helical))
    q, _ = sample(robot, rng, 2)
    H, R = mb.mass_matrix(robot, q), mb.curvatures.curvature(robot, q)
    monkeypatch.setattr(curvature_contractions, "_LARGEST", 0)
    found = mb.curvatures.ricci(robot, q)
    assert gap(found, np.einsum("...ik,...ijkl->...jl", np.linalg.inv(H), R)) < 1e-10
    assert (
        np.abs(found - found * np.eye(robot.nv)).max() > 1e-2 * np.abs(found).max()
    )  # not only its diagonal


@pytest.mark.parametrize("name", POLARIZED)
def test_tensors_of_a_tree_from_its_quadratic_forms(name, rng):
    """What closed chains have no kernel for, on a robot whose kernels know it; joints with brackets."""
    robot = random_mechanism(np.random.default_rng(6), 2, (mb.Spherical, mb.Helical))
    q, _ = sample(robot, rng, 2)
    found, expected = (
        polarized(robot.program, name, mb.close_loops(robot, q)),
        getattr(functions, name)(robot, q),
    )
    assert gap(found, expected) < 1e-10
    assert gap(np.swapaxes(found, 2, 3), expected) > 1e-2  # control


def test_the_contorsion_of_a_closed_chain_is_that_of_its_tree_on_its_velocities(rng):
    """L_l (D_abc G_ai G_bj G_ck) of a form D on R^4 and of q_s(q), G the Jacobian of q_s, by JAX."""
    A, B, form = rng.normal(size=(4, 3)), rng.normal(size=(4, 3, 3)), rng.normal(size=(4, 4, 4, 4))
    odd = sum(np.linalg.det(np.eye(3)[list(p)]) * np.transpose(form, (*p, 3)) for p in permutations(range(3)))

    def spanning(q):
        return A @ q + jnp.einsum("aij,i,j->a", B, q, q)

    def D(q_s):
        return jnp.einsum("abcd,d->abc", odd, jnp.sin(q_s))

    def pulled(q):
        G = jax.jacfwd(spanning)(q)
        return jnp.einsum("abc,ai,bj,ck->ijk", D(spanning(q)), G, G, G)

    class Tree:
        def evaluate(self, name, given, out, chosen):
            own = D if name == "christoffel_symbols" else jax.jacfwd(D)
            return np.asarray(own(given[0])) * (chosen == ("christoffel",))

    class Chain:
        of_spanning_tree = Tree()

        def solution(self, q):
            LG = np.swapaxes(jax.jacfwd(jax.jacfwd(spanning))(q), 1, 2)  # [s, j, k] along column j
            return Solution(np.asarray(spanning(q)), np.asarray(jax.jacfwd(spanning)(q)), LG)

    q = rng.normal(size=3)
    assert gap(_contorsion_change(Chain(), q), jax.jacfwd(pulled)(q)) < 1e-12


@pytest.mark.further
def test_the_rate_of_C_needs_second_derivatives_of_loops(rng):
    """Negative control: without them it is wrong. (K is independent of them, by the equation of Gauss.)"""
    robot = chain("loop of wide joints")
    q, (v, a) = near_reference(robot, rng), rng.standard_normal((2, robot.nv))
    forgetful = Program(robot.kinematics, robot.gravity)
    forgetful.loops.bias_rates = lambda solution, v: np.zeros(forgetful.loops.layout.G_size)
    wrong = forgetful.evaluate("coriolis_matrix_rate", (q, v, a), None, ("christoffel",))
    assert gap(wrong, mb.coriolis_matrix_rate(robot, q, v, a)) > 1e-3


@pytest.mark.further
@pytest.mark.parametrize("name", [further("planar robot"), "loop of wide joints"])
def test_closed_chains_against_the_definition(name, rng):
    """R of the metric G^T H_s G by automatic differentiation in JAX."""
    robot = chain(name)
    q = near_reference(robot, rng)
    expected = jax.jit(partial(DEFINITIONS["curvature"], robot))(q)
    scale = from_differences(robot, q)[2]
    assert gap(mb.curvatures.curvature(robot, q), expected, scale) < 1e-9


# --- identities ---------------------------------------------------------------------------------------------


def test_symmetries_and_the_first_bianchi_identity(rng):
    robot = random_mechanism(rng, 8, MOVING, trees=1)
    q, v = sample(robot, rng)
    R = mb.curvatures.curvature(robot, q)
    size = np.abs(R).max()
    assert np.array_equal(R, -np.swapaxes(R, 0, 1))
    assert np.array_equal(R, -np.swapaxes(R, 2, 3))
    assert gap(R, np.transpose(R, (2, 3, 0, 1))) < 1e-13
    cyclic = R + np.transpose(R, (0, 2, 3, 1)) + np.transpose(R, (0, 3, 1, 2))
    assert np.abs(cyclic).max() < 1e-12 * size
    assert np.abs(R + np.transpose(R, (0, 2, 3, 1))).max() > 1e-2 * size  # control
    change = mb.christoffel_derivatives(robot, q)
    along = np.einsum("ijkl,j,l->ik", change, v, v)
    assert gap(mb.coriolis_matrix_rate(robot, q, v, 0.0 * v), along) < 1e-12
    # second derivatives of H: L_l (L_j H_ik) = L_l (Gamma_ijk + Gamma_kji)
    second = np.einsum("ijkl,j,l->ik", change + np.transpose(change, (2, 1, 0, 3)), v, v)
    rate = derivative_along(robot, lambda p: mb.mass_matrix_rate(robot, p, v), q, v)
    assert gap(second, rate) < 1e-8
    swapped = np.einsum("ijkl,j,l->ik", change + np.transpose(change, (1, 0, 2, 3)), v, v)  # control
    assert gap(swapped, rate) > 1e-2


def test_the_first_bianchi_identity_with_torsion(rng):
    """cyc R(X, Y) Z = cyc {(nabla_X T)(Y, Z) + T(T(X, Y), Z)} of the factor (v x*) I, T = -2 H^-1 D."""
    robot = armed(random_mechanism(rng, 8, MOVING, trees=1), rng, 0.5)
    q, _ = sample(robot, rng)
    inverse = np.linalg.inv(mb.mass_matrix(robot, q))
    Gamma = mb.christoffel_symbols(robot, q, body_factor="force_cross")
    T = 2.0 * (Gamma - mb.christoffel_symbols(robot, q))
    change = mb.christoffel_derivatives(robot, q, body_factor="force_cross")
    change = 2.0 * (change - mb.christoffel_derivatives(robot, q))
    R = mb.curvatures.curvature_with_torsion(robot, q)
    up = np.einsum("ip,pjk->ijk", inverse, Gamma)
    for axes in ("pli,pjk->ijkl", "plj,ipk->ijkl", "plk,ijp->ijkl"):
        change -= np.einsum(axes, up, T)  # (nabla_l T)_ijk
    carried = np.einsum("iljk->ijkl", change)
    twice = np.einsum("ipj,pq,qkl->ijkl", T, inverse, T)

    def cyclic(x):
        """The sum over the cyclic permutations of j, k, l."""
        return x + np.einsum("iklj->ijkl", x) + np.einsum("iljk->ijkl", x)

    size = np.abs(R).max()
    assert np.abs(cyclic(R - carried - twice)).max() < 1e-12 * size
    for wrong in (R, R - carried, R - twice):  # controls
        assert np.abs(cyclic(wrong)).max() > 1e-2 * size
    assert gap(R, -np.swapaxes(R, 0, 1)) < 1e-12
    assert np.array_equal(R, -np.swapaxes(R, 2, 3))
    assert gap(R, np.transpose(R, (2, 3, 0, 1))) > 1e-2  # pairs are not exchanged


def test_geodesic_deviation(rng):
    """D_t^2 eta = -H^-1 K eta for the difference eta of two neighbouring free motions; control: without K."""
    robot, h = two_links(), 1e-4
    q, v, eta, rate = np.array([0.3, 0.8]), np.array([1.0, -0.7]), np.array([0.5, 0.2]), np.array([-0.4, 1.0])

    def raised(p, u, w):
        return np.linalg.solve(mb.mass_matrix(robot, p), mb.coriolis_product(robot, p, u, w))

    # eta' = dv, and dv' by differentiation of v' = -Gamma(v, v) along (eta, dv)
    def acceleration(s):
        return -raised(q + s * eta, v + s * rate, v + s * rate)

    second = (acceleration(h) - acceleration(-h)) / (2.0 * h)
    covariant = rate + raised(q, v, eta)  # D_t eta
    a = acceleration(0.0)
    moved = (raised(q + h * v, v + h * a, eta + h * rate) - raised(q - h * v, v - h * a, eta - h * rate)) / (
        2.0 * h
    )
    twice = second + moved + raised(q, v, covariant)
    expected = -np.linalg.solve(mb.mass_matrix(robot, q), mb.curvatures.curvature_operator(robot, q, v) @ eta)
    assert gap(twice, expected) < 1e-7
    assert np.abs(twice).max() > 1e-2


# --- closed forms -------------------------------------------------------------------------------------------


def test_a_ball_turns_on_a_group_with_a_bi_invariant_metric(rng):
    """H = I 1: R(u, w) z = 1/4 [z, [u, w]] up to its sign, so sectional curvature is 1 / (4 I)."""
    robot = sphere((0.8, 0.8, 0.8))
    q, v = sample(robot, rng)
    u, w, z = rng.standard_normal((3, 3))
    R = mb.curvatures.curvature(robot, q)
    # R(u, w) z = -1/4 [[u, w], z], with <<., .>> = 0.8 times the inner product
    expected = -0.8 / 4.0 * np.cross(np.cross(u, w), z) @ v
    assert abs(np.einsum("ijkl,i,j,k,l", R, v, z, u, w) - expected) < 1e-12
    K = 0.8 / 4.0 * (v @ v * np.eye(3) - np.outer(v, v))
    assert gap(mb.curvatures.curvature_operator(robot, q, v), K) < 1e-12


def test_a_ball_with_torsion(rng):
    """(v x*) I for I = 0.8: nabla_u w = 2 [u, w], so that R(u, w) z = (4 - 2) [[u, w], z]."""
    robot = sphere((0.8, 0.8, 0.8))
    q, _ = sample(robot, rng)
    u, w, z, x = rng.standard_normal((4, 3))
    R = mb.curvatures.curvature_with_torsion(robot, q)
    expected = 0.8 * 2.0 * np.cross(np.cross(u, w), z) @ x
    assert abs(np.einsum("ijkl,i,j,k,l", R, x, z, u, w) - expected) < 1e-12


def test_a_body_with_three_moments_of_inertia(rng):
    """Milnor's curvatures of a left-invariant metric on SO(3), at any attitude: K(e_i, e_j) by Sigma."""
    moments = np.array([0.5, 0.7, 0.9])
    robot = sphere(moments)
    q, _ = sample(robot, rng)
    R = mb.curvatures.curvature(robot, q)
    a, b, c = moments
    # of the orthonormal frame e_i / sqrt(I_i): lambda_i = I_i / sqrt(I_1 I_2 I_3), mu_i = sum / 2 - lambda_i
    scaled = moments / np.sqrt(a * b * c)
    mu = scaled.sum() / 2.0 - scaled
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        expected = scaled[k] * mu[k] - mu[i] * mu[j]
        found = R[i, j, i, j] / (moments[i] * moments[j])
        assert abs(found - expected) < 1e-12
    assert np.abs(R[0, 1, 0, 2]) < 1e-13


def test_two_links_in_a_plane(rng):
    """Gaussian curvature of H = [[a + 2 b cos, c + b cos], [., c]], by Brioschi's formula, H of q_2 alone."""
    (m1, m2), (l1, l2) = (1.3, 0.7), (0.9, 0.6)
    robot = two_links()
    q = rng.uniform(-3.0, 3.0, 2)
    b, cosine = m2 * l1 * l2, np.cos(q[1])
    # det H = m2 l2^2 l1^2 (m1 + m2 sin^2); K = m1 cos q2 / (m2... ) follows from geodesic polar form
    E = m1 * l1**2 + m2 * (l1**2 + l2**2) + 2.0 * b * cosine
    F, G = m2 * l2**2 + b * cosine, m2 * l2**2
    det = E * G - F**2
    sine = np.sin(q[1])
    E_y, F_y, E_yy = -2.0 * b * sine, -b * sine, -2.0 * b * cosine
    first = np.array([[-E_yy / 2.0, 0.0, -E_y / 2.0], [F_y, E, F], [0.0, F, G]])
    second = np.array([[0.0, E_y / 2.0, 0.0], [E_y / 2.0, E, F], [0.0, F, G]])
    expected = (np.linalg.det(first) - np.linalg.det(second)) / det**2
    R = mb.curvatures.curvature(robot, q)
    assert abs(R[0, 1, 0, 1] / det - expected) < 1e-12 * max(1.0, abs(expected))
    assert gap(mb.mass_matrix(robot, q), np.array([[E, F], [F, G]])) < 1e-14


def test_the_centre_of_mass_decouples(rng):
    """A floating tree under no gravity moves as its shape and attitude, and a free centre of mass: flat."""
    robot = assemble(rng, (mb.Free, mb.Revolute, mb.Universal), [-1, 0, 1])
    q, _ = sample(robot, rng)
    H, J = mb.mass_matrix(robot, q), mb.center_of_mass_jacobian(robot, q)
    along = np.linalg.solve(H, J.T)  # fields whose momentum is linear: those of the centre of mass
    R, K = mb.curvatures.curvature(robot, q), mb.curvatures.curvature_operator(robot, q, along[:, 0])
    assert np.abs(np.einsum("ijkl,la->ijka", R, along)).max() < 1e-12 * np.abs(R).max() * np.abs(along).max()
    assert np.abs(K).max() < 1e-12 * np.abs(R).max() * np.abs(along).max() ** 2
    assert np.abs(np.einsum("ijkl,l->ijk", R, rng.standard_normal(robot.nv))).max() > 1e-2 * np.abs(R).max()


# --- contractions -------------------------------------------------------------------------------------------


def test_a_sphere_has_constant_curvature(rng):
    """A ball of inertia I: sectional curvature 1 / (4 I), Ric = H / (2 I), scalar curvature 3 / (2 I)."""
    robot = sphere((0.8, 0.8, 0.8))
    for _ in range(5):
        q, u = sample(robot, rng)
        w = rng.standard_normal(3)
        np.testing.assert_allclose(mb.curvatures.sectional_curvature(robot, q, u, w), 1.0 / 3.2, rtol=1e-12)
        np.testing.assert_allclose(mb.curvatures.ricci(robot, q), np.eye(3) / 2.0, atol=1e-13)
        np.testing.assert_allclose(mb.curvatures.scalar_curvature(robot, q), 1.5 / 0.8, rtol=1e-12)


def test_a_spherical_pendulum(rng):
    """Two hinges that cross, and a point mass at distance L: a round sphere, sectional 1 / (m L^2)."""
    mechanism, m, L = mb.Mechanism(), 1.7, 0.6
    point = {"mass": m, "center_of_mass": np.array([L, 0.0, 0.0]), "inertia": np.zeros((3, 3))}
    mechanism.add_body("bob", **point)
    mechanism.add_joint("hinges", "world", "bob", mb.Universal((0.0, 0.0, 1.0), (0.0, 1.0, 0.0)))
    robot = mechanism.build()
    q = np.array([0.4, 0.7])
    u, w = rng.standard_normal((2, 2))
    assert abs(mb.curvatures.sectional_curvature(robot, q, u, w) * m * L**2 - 1.0) < 1e-12
    assert gap(mb.curvatures.ricci(robot, q), mb.mass_matrix(robot, q) / (m * L**2)) < 1e-12
    assert abs(mb.curvatures.scalar_curvature(robot, q) * m * L**2 - 2.0) < 1e-12


@pytest.mark.further
@pytest.mark.parametrize("of", ["tree", "loop of wide joints"])
def test_contractions_of_the_tensor(of, rng, monkeypatch):
    """Traces of R, sums of sectional curvatures over an orthonormal frame, and Ric without R."""
    robot = chain(of) if of in PLANS else random_mechanism(rng, 5, MOVING)
    q = near_reference(robot, rng) if robot.closed else sample(robot, rng)[0]
    R, H = mb.curvatures.curvature(robot, q), mb.mass_matrix(robot, q)
    inverse, Ric = np.linalg.inv(H), mb.curvatures.ricci(robot, q)
    E = np.linalg.cholesky(inverse)  # E^T H E = 1
    expected = np.einsum("ik,ijkl->jl", inverse, R)
    scale = np.abs(inverse).max() * np.abs(R).max()
    assert gap(Ric, expected, scale) < 1e-13
    assert gap(Ric, Ric.T, scale) < 1e-12
    n = robot.nv
    planes = np.array([mb.curvatures.sectional_curvature(robot, q, E[:, a], E[:, 0]) for a in range(1, n)])
    sums = E[:, 0] @ Ric @ E[:, 0]
    assert abs(planes.sum() - sums) < 1e-9 * np.abs(planes).sum()
    assert abs(planes[1:].sum() - sums) > 1e-6 * np.abs(planes).sum()  # control: one plane is left out
    scalar = np.einsum("jk,jk", inverse, Ric)
    assert abs(mb.curvatures.scalar_curvature(robot, q) - scalar) < 1e-12 * np.abs(inverse * Ric).sum()
    monkeypatch.setattr("connections.multibody.curvature_contractions._LARGEST", 0)
    assert gap(mb.curvatures.ricci(robot, q), Ric, scale) < 1e-11
    assert gap(mb.curvatures.ricci(robot, np.stack([q, q]))[1], Ric, scale) < 1e-11


def test_parallel_vectors_span_no_plane(rng):
    robot = mb.example("arm")
    q, u = sample(robot, rng)
    for w in (3.0 * u, 0.0 * u, -u + 1e-9 * np.eye(6)[0]):
        with pytest.raises(PointError, match=r"the angle between them is \S+ rad"):
            mb.curvatures.sectional_curvature(robot, q, u, w)
    value = mb.curvatures.sectional_curvature(robot, q, u, np.eye(6)[0])
    near = mb.curvatures.sectional_curvature(robot, q, u, 1e3 * u + 1e-2 * np.eye(6)[0])  # the same plane
    assert abs(near - value) < 1e-6 * abs(value)
    with pytest.raises(ShapeError, match="u"):
        mb.curvatures.sectional_curvature(robot, q, u[:5], u)
    with pytest.raises(NonFiniteError, match="w"):
        mb.curvatures.sectional_curvature(robot, q, u, np.nan * u)
    many = np.stack([u, np.eye(6)[0]])
    with pytest.raises(PointError):
        mb.curvatures.sectional_curvature(robot, q, many, u)
    traced = jax.jit(mb.curvatures.sectional_curvature, static_argnums=0)
    assert abs(traced(robot, q, u, np.eye(6)[0]) - value) < 1e-12 * abs(value)
    assert np.isnan(traced(robot, q, u, 3.0 * u))


@pytest.mark.further
def test_a_batch_that_does_not_fit_is_refused_with_its_size(rng, monkeypatch):
    """10^9 tensors of an arm are 9.7 TiB; contractions of many form as many tensors at once as fit."""
    robot = mb.example("arm")
    q, _ = sample(robot, rng, 30)
    many = np.broadcast_to(q[0], (10**9, 6))
    for function in (mb.curvatures.curvature, mb.christoffel_derivatives):
        with pytest.raises(
            MemoryError, match=rf"{function.__name__} of 1000000000 conf.*: 9656.0 GiB are needed"
        ):
            function(robot, many)
    expected = mb.curvatures.ricci(robot, q)
    monkeypatch.setattr(memory_chunks, "MEMORY", 8 * memory_chunks.TERMS * 7 * 6**4)
    assert np.array_equal(mb.curvatures.ricci(robot, q.reshape(5, 6, 6)), expected.reshape(5, 6, 6, 6))
    chained = chain("loop of wide joints")
    rows = np.stack([near_reference(chained, rng) for _ in range(3)])
    whole = mb.curvatures.curvature(chained, rows)
    monkeypatch.setattr(memory_chunks, "MEMORY", 1)
    assert gap(mb.curvatures.curvature(chained, rows), whole) < 1e-13
