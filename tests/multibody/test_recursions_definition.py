"""The recursions against the definitions: A = X Phi in JAX, on mechanisms of every joint type in every order.

H = A^T I A, C = A^T (C_body A + I Adot) ([W] (20)) and g = the derivative of the potential, all from
`Model.body_jacobians_at`; metric and connection of `model.definition` themselves on smaller mechanisms; Gamma
of joints with configuration-dependent Phi also by the Koszul formula from differences of `mb.mass_matrix`.
"""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always
from mechanisms import (
    MOVING,
    assemble,
    derivative_along,
    mechanism_of_all_pairs,
    pairs_of,
    random_mechanism,
    sample,
    structure_functions,
)

import connections as cn
from connections import multibody as mb
from connections.geometry.rigid import twists
from connections.multibody.definition import spatial

TOL = 1e-9
BATCH = 5  # configurations at once: the definitions are compiled for one size
FACTORS = ("christoffel", "force_cross")


def body_coriolis(body_factor, inertia, v):
    """C_body = B + I (v x) with B of this name: [W] (21) or [E] (11)."""
    if body_factor == "christoffel":
        return spatial.body_coriolis(inertia, v)
    return twists.force_cross_matrix(v) @ inertia + inertia @ twists.motion_cross_matrix(v)


def definitions(model):
    """A compiled function (q, v, w) -> {name of a recursion: its value by definition} over a batch."""
    inertias = jnp.asarray(model.kinematics.tree.inertias)

    def at(q, v, w):
        A, A_dot = jax.jvp(model.kinematics.body_jacobians_at, (q,), (model.frame.matrix_at(q) @ v,))
        weighted = jnp.einsum("nab,nbi->nai", inertias, A)
        C = {}
        for factor in FACTORS:
            C_body = body_coriolis(factor, inertias, jnp.einsum("nai,i->na", A, v))
            moved = jnp.einsum("nab,nbi->nai", C_body, A) + jnp.einsum("nab,nbi->nai", inertias, A_dot)
            C[factor] = jnp.einsum("nai,naj->ij", A, moved)
        rate = jnp.einsum("nai,naj->ij", A_dot, weighted)
        H = jnp.einsum("nai,naj->ij", A, weighted)
        g = model.frame.lie_derivative_at(model.potential_at, q)
        return {
            "H": H,
            "C": C,
            "H_dot": rate + rate.T,
            "g": g,
            "tau": H @ w + C["christoffel"] @ v + g,
            "H_inverse": jnp.linalg.inv(H),
        }

    return jax.jit(jax.vmap(at))


def gap(ours, theirs):
    """Largest difference relative to the largest entry."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    return np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs))


LARGE = {
    "all pairs": lambda rng: mechanism_of_all_pairs(rng, massless=0.3, coincident=0.2),
    "sixty bodies": lambda rng: random_mechanism(
        rng, 68, [*MOVING, mb.Fixed], 0.15, trees=3, massless=0.4, coincident=0.2, gravity=(1.0, -2.0, 9.0)
    ),
}


@pytest.fixture(scope="module")
def large():
    """A large model and its compiled definitions, by name."""
    cache = {}

    def get(name):
        if name not in cache:
            model = LARGE[name](np.random.default_rng(len(name)))
            cache[name] = model, definitions(model)
        return cache[name]

    return get


# --- large mechanisms -------------------------------------------------------------------------------------


def test_the_large_mechanisms_are_what_they_claim(large):
    model, _ = large("all pairs")
    assert pairs_of(model) == {(parent, child) for parent in MOVING for child in MOVING}
    tree = model.kinematics.tree
    assert len(tree.joints) > 60 and any(not inertia.any() for inertia in tree.inertias)
    tree = large("sixty bodies")[0].kinematics.tree
    assert {type(joint) for joint in tree.joints} == set(MOVING)
    assert len(tree.joints) >= 58 and np.sum(tree.parents < 0) >= 3


@pytest.mark.further
@pytest.mark.parametrize("name", always(LARGE, "all pairs"))
def test_large_mechanisms(name, large, rng):
    model, definition = large(name)
    q, v = sample(model, rng, BATCH)
    w = rng.standard_normal(v.shape)
    theirs = definition(q, v, w)
    assert gap(mb.mass_matrix(model, q), theirs["H"]) < TOL
    assert gap(mb.mass_matrix_rate(model, q, v), theirs["H_dot"]) < TOL
    assert gap(mb.gravity(model, q), theirs["g"]) < TOL
    assert gap(mb.inverse_dynamics(model, q, v, w), theirs["tau"]) < TOL
    assert gap(mb.forward_dynamics(model, q, v, theirs["tau"]), w) < TOL
    assert gap(mb.inverse_mass_matrix(model, q), theirs["H_inverse"]) < TOL
    for factor, C in theirs["C"].items():
        ours = mb.coriolis_matrix(model, q, v, body_factor=factor)
        product = mb.coriolis_product(model, q, v, w, body_factor=factor)
        transpose = mb.coriolis_transpose_product(model, q, v, w, body_factor=factor)
        assert gap(ours, C) < TOL
        assert gap(product, np.einsum("nik,nk->ni", C, w)) < TOL
        assert gap(transpose, np.einsum("nki,nk->ni", C, w)) < TOL
        assert gap(np.swapaxes(ours, 1, 2), C) > 1e-2  # negative control: transposed
    assert gap(theirs["C"]["force_cross"], theirs["C"]["christoffel"]) > 1e-2
    assert gap(mb.mass_matrix(model, q[::-1]), theirs["H"]) > 1e-2  # negative control: another point


def test_christoffel_symbols_of_all_pairs(large, rng):
    """Gamma_ijk = C_ik(q, e_j) of the definition, at one unit velocity in eight."""
    model, definition = large("all pairs")
    q = model.random(rng)
    chosen = rng.permutation(model.nv)[: BATCH * (model.nv // (8 * BATCH))].reshape(-1, BATCH)
    unit = np.eye(model.nv)[chosen]
    theirs = [definition(np.broadcast_to(q, (BATCH, model.nq)), e, e)["C"] for e in unit]
    for factor in FACTORS:
        C = np.swapaxes(np.concatenate([part[factor] for part in theirs]), 0, 1)
        Gamma = mb.christoffel_symbols(model, q, body_factor=factor)
        directions = chosen.reshape(-1)
        assert gap(Gamma[:, directions], C) < TOL
        assert gap(np.swapaxes(Gamma, 1, 2)[:, directions], C) > 1e-2  # negative controls: other indices
        assert gap(np.swapaxes(Gamma, 0, 1)[:, directions], C) > 1e-2
        assert gap(np.swapaxes(Gamma, 0, 2)[:, directions], C) > 1e-2


# --- the model's own metric and connection ----------------------------------------------------------------


SMALL = {
    "every joint": lambda rng: random_mechanism(rng, 10, MOVING, trees=2, massless=0.5, coincident=0.2),
    "Phi that depends on q": lambda rng: assemble(
        rng, (mb.Universal, mb.Planar, mb.Universal, mb.Free, mb.Planar, mb.Universal), (-1, 0, 1, 2, 0, 4)
    ),
}


@pytest.mark.parametrize("name", always(SMALL, "every joint"))
def test_small_mechanisms(name, rng):
    """Metric and connection of `model.definition`: lowered coefficients and Coriolis matrix."""
    model = SMALL[name](rng)
    q, v = sample(model, rng, 3)
    H, Gamma = (
        model.definition.metric.matrix(q),
        model.definition.connection.first_kind(q, model.definition.metric),
    )
    C = np.einsum("nijk,nj->nik", Gamma, v)
    ours = mb.christoffel_symbols(model, q)
    assert gap(mb.mass_matrix(model, q), H) < TOL
    assert gap(ours, Gamma) < TOL
    assert gap(mb.coriolis_matrix(model, q, v), C) < TOL
    assert gap(np.swapaxes(ours, 1, 3), Gamma) > 1e-2  # negative control


def test_coriolis_matrix_of_the_connection(rng):
    model = assemble(rng, (mb.Universal, mb.Free, mb.Planar), (-1, 0, 1))
    q, v = sample(model, rng, 2)
    theirs = cn.coriolis_matrix(model.definition.connection, q, v, model.definition.metric)
    assert gap(mb.coriolis_matrix(model, q, v), theirs) < TOL
    assert gap(mb.coriolis_matrix(model, q, -v), theirs) > 1e-2  # negative control


# --- Koszul's formula -------------------------------------------------------------------------------------


def koszul(model, q):
    """Gamma_ijk (nv, nv, nv) of [W] (8) from differences of `mb.mass_matrix` along the frame fields."""
    H = mb.mass_matrix(model, q)
    s = np.tensordot(H, structure_functions(model), axes=1)  # s[k, i, j], first index lowered
    dH = derivative_along(model, lambda p: mb.mass_matrix(model, p), q, np.eye(model.nv))  # X_i H_jk
    along = np.transpose(dH, (1, 2, 0)) + np.transpose(dH, (1, 0, 2)) - dH
    return (along + np.transpose(s, (1, 2, 0)) + np.transpose(s, (1, 0, 2)) + s) / 2, along / 2


@pytest.mark.further
def test_every_chain_of_three_joints_satisfies_koszul(rng):
    """All 512 ordered triples of joint classes: Gamma_ijk involves three joints of one path."""
    worst, without_brackets = 0.0, []
    for kinds in product(MOVING, repeat=3):
        model = assemble(rng, kinds, (-1, 0, 1), coincident=0.2)
        q = model.random(rng)
        theirs, along = koszul(model, q)
        ours = mb.christoffel_symbols(model, q)
        scale = max(np.max(np.abs(theirs)), np.max(np.abs(mb.mass_matrix(model, q))))
        worst = max(worst, np.max(np.abs(ours - theirs)) / scale)
        if {mb.Free, mb.Spherical} & set(kinds):  # negative control: a frame that does not commute
            without_brackets.append(np.max(np.abs(ours - along)) / scale)
    assert worst < 1e-8
    assert min(without_brackets) > 1e-2


def test_universal_joint_alone(rng):
    """R = Rx Ry, H = diag(I1 c^2 + I3 s^2, I2): Gamma_112 = Gamma_121 = -Gamma_211 = (I3 - I1) c s."""
    moments, mechanism = (0.5, 0.6, 0.9), mb.Mechanism()
    mechanism.add_body("cross", mass=1.0, center_of_mass=np.zeros(3), inertia=np.diag(moments))
    mechanism.add_joint("u", "world", "cross", mb.Universal((1, 0, 0), (0, 1, 0)))
    model = mechanism.build()
    q = rng.uniform(0.3, 1.2, 2)
    c, s = np.cos(q[1]), np.sin(q[1])
    Gamma = np.zeros((2, 2, 2))
    Gamma[0, 0, 1] = Gamma[0, 1, 0] = (moments[2] - moments[0]) * s * c
    Gamma[1, 0, 0] = -Gamma[0, 0, 1]
    H = np.diag([moments[0] * c**2 + moments[2] * s**2, moments[1]])
    np.testing.assert_allclose(mb.mass_matrix(model, q), H, atol=1e-14)
    np.testing.assert_allclose(mb.christoffel_symbols(model, q), Gamma, atol=1e-14)
    C = Gamma[:, 0] + 2.0 * Gamma[:, 1]
    np.testing.assert_allclose(mb.coriolis_matrix(model, q, [1.0, 2.0]), C, atol=1e-14)
    assert np.max(np.abs(mb.christoffel_symbols(model, -q) - Gamma)) > 1e-3  # negative control
