"""Recursions on closed chains against the definition: A = A_s G in JAX, loops differentiated implicitly.

H = A^T I A and C = A^T (C_body A + I Adot) ([W] (20)) from `body_jacobians_at` on all kinds of mechanisms;
metric and connection of `model.definition` themselves on small ones; and the other routes to C.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always
from closed_chains import PLANS
from coriolis_oracles import ROUTES
from mechanisms import move

import connections as cn
from connections import multibody as mb
from connections.multibody.definition import spatial

DATA = Path(__file__).parents[1] / "data" / "urdf_plus"
TOL = 1e-9
LEFT_OUT = 1e-2
BATCH = 3

pytestmark = pytest.mark.filterwarnings("ignore::connections.multibody.InertiaWarning")

#: Of each kind one: constant G, trees below and above, balls and wide joints, functions, a free base.
MIXED = ["belt leg", "four-bar with branches", "loop with balls", "legged robot", "cam"]
FILES = ["six_bar", "mini_cheetah"]


@pytest.fixture(scope="module")
def models():
    cache = {}

    def get(name):
        if name not in cache:
            path = DATA / f"{name}.urdf"
            cache[name] = mb.from_urdf(path) if name in FILES else PLANS[name]().build()
        return cache[name]

    return get


def states(model, rng, *batch):
    q = move(model, model.neutral(), 0.2 * rng.uniform(-1.0, 1.0, (*batch, model.nv)))
    return q, *rng.standard_normal((2, *batch, model.nv))


def gap(ours, theirs):
    """Largest difference relative to the largest entry."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    return np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs))


def definitions(model):
    """A compiled function (q, v, w) -> {name of a recursion: its value by definition} over a batch."""
    inertias = jnp.asarray(model.kinematics.tree.inertias)

    def at(q, v, w):
        A, A_dot = jax.jvp(model.kinematics.body_jacobians_at, (q,), (model.frame.matrix_at(q) @ v,))
        C_body = spatial.body_coriolis(inertias, jnp.einsum("nai,i->na", A, v))
        moved = jnp.einsum("nab,nbi->nai", C_body, A) + jnp.einsum("nab,nbi->nai", inertias, A_dot)
        C = jnp.einsum("nai,naj->ij", A, moved)
        weighted = jnp.einsum("nab,nbi->nai", inertias, A)
        rate, H = (jnp.einsum("nai,naj->ij", part, weighted) for part in (A_dot, A))
        mass, h = inertias[:, 5, 5], inertias[:, [2, 0, 1], [4, 5, 3]]
        g = jnp.asarray(model.gravity)
        R = model.kinematics.world_transforms_at(q)[:, :3, :3]
        pull = jnp.einsum("nba,b->na", R, g)  # free fall in body axes
        forces = jnp.concatenate([jnp.cross(h, pull), mass[:, None] * pull], axis=1)
        return {"H": H, "C": C, "H_dot": rate + rate.T, "g": -jnp.einsum("nai,na->i", A, forces)}

    return jax.jit(jax.vmap(at))


@pytest.mark.further
@pytest.mark.parametrize("name", always([*MIXED, *FILES], "belt leg", "loop with balls"))
def test_recursions_are_the_definition(name, models, rng):
    model = models(name)
    q, v, w = states(model, rng, BATCH)
    theirs = {key: np.asarray(value) for key, value in definitions(model)(q, v, w).items()}
    C = mb.coriolis_matrix(model, q, v)
    assert gap(mb.mass_matrix(model, q), theirs["H"]) < TOL
    assert gap(C, theirs["C"]) < TOL
    assert gap(mb.mass_matrix_rate(model, q, v), theirs["H_dot"]) < TOL
    weight = 9.81 * np.max(np.abs(theirs["H"]))  # six_bar.urdf lies flat: its g is zero
    np.testing.assert_allclose(mb.gravity(model, q), theirs["g"], atol=TOL * weight, rtol=0.0)
    tau = np.einsum("nij,nj->ni", theirs["H"], w) + np.einsum("nij,nj->ni", theirs["C"], v) + theirs["g"]
    assert gap(mb.inverse_dynamics(model, q, v, w), tau) < TOL
    if model.nv > 1:  # negative controls
        assert gap(np.swapaxes(C, 1, 2), theirs["C"]) > LEFT_OUT
    assert gap(mb.mass_matrix(model, q[::-1]), theirs["H"]) > 1e-4


@pytest.mark.parametrize("name", ["differential"])
def test_metric_and_connection(name, models, rng):
    """`model.definition.metric`, `model.definition.connection` and body_jacobians: public definitions."""
    model = models(name)
    q, v, _ = states(model, rng)
    H, Gamma = (
        model.definition.metric.matrix(q),
        np.asarray(model.definition.connection.first_kind(q, model.definition.metric)),
    )
    A = np.asarray(mb.body_jacobians(model, q)).reshape(-1, 6, model.nv)
    ours = mb.christoffel_symbols(model, q)
    assert gap(mb.mass_matrix(model, q), H) < TOL
    assert gap(np.einsum("nai,nab,nbj->ij", A, model.kinematics.tree.inertias, A), H) < TOL
    assert gap(ours, Gamma) < TOL
    assert (
        gap(
            mb.coriolis_matrix(model, q, v),
            cn.coriolis_matrix(model.definition.connection, q, v, model.definition.metric),
        )
        < TOL
    )
    assert gap(np.swapaxes(ours, 0, 1), Gamma) > LEFT_OUT  # negative control


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", always(["four-bar", "loop of wide joints", "mini_cheetah"], "four-bar"))
def test_routes(name, route, models, rng):
    """Spanning tree and projection, [W] (20), [W] (32): one C."""
    model = models(name)
    q, v, _ = states(model, rng)
    C = mb.coriolis_matrix(model, q, v)
    assert gap(ROUTES[route](model, q, v), C) < 1e-8
    assert gap(ROUTES[route](model, q, -v), C) > LEFT_OUT  # negative control


def test_the_definition_compiles_once_outside_of_jax(models):
    """Loops of JAX compile at each call, if a new function is given to them: memory ran out after 500."""
    spanning_at, counted = models("four-bar").kinematics.spanning_at, []
    spanning_at(jnp.array([0.7]))
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: counted.append(name))
    spanning_at(jnp.array([0.8]))
    assert not [name for name in counted if "compil" in name]
