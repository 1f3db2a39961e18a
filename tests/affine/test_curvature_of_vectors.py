"""R(u, w) z, Ric(v, w) and sectional curvature from derivatives along vectors, against the tensor."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import systems
from cases import always, further
from robots import robot_path

import connections as cn
from connections import multibody as mb
from connections.checks import ShapeError

CHART = cn.CoordinateFrame(3)


def gamma(q):
    """Coefficients without any symmetry, in a chart: all of the torsion is in Gamma."""
    return systems.GENERAL.coefficient_function(q)


def embedded():
    """The sphere in R^3 with torsion, in a frame with nq > n whose brackets do not vanish."""
    D = np.zeros((2, 2, 2))
    D[0, 1, 0], D[1, 0, 0] = 0.7, -0.3
    return cn.ContorsionConnection(systems.SPHERE_EMBEDDED, lambda x: D * x[0])


CONNECTIONS = {
    "chart": lambda: cn.CoefficientConnection(CHART, gamma),
    "frame, no torsion": lambda: systems.LEVI_CIVITA,
    "frame, admissible torsion": lambda: systems.ADMISSIBLE,
    "frame, no symmetry": lambda: systems.GENERAL,
    "changed frame": lambda: systems.GENERAL.change(systems.change_of_frame),
    "nq > n": embedded,
    "quaternions": lambda: systems.TOP_NABLA,
    "product": lambda: cn.ProductConnection(systems.TOP_NABLA, systems.GENERAL),
}


def point(nabla, rng):
    q = rng.uniform(0.2, 0.8, nabla.frame.ambient_dim)
    return np.asarray(nabla.frame.project_at(jnp.asarray(q)))


def close(ours, expected, tol=1e-12):
    np.testing.assert_allclose(ours, expected, rtol=0, atol=tol * max(np.max(np.abs(expected)), 1.0))


@pytest.mark.parametrize("name", always(CONNECTIONS, "frame, admissible torsion"))
def test_against_the_tensor(name, rng):
    nabla = CONNECTIONS[name]()
    q, (u, w, z) = point(nabla, rng), rng.standard_normal((3, nabla.frame.dim))
    R = np.asarray(nabla.curvature(q))
    expected = np.einsum("lkij,k,i,j->l", R, z, u, w)
    close(nabla.apply_curvature(q, u, w, z), expected)
    close(nabla.apply_ricci(q, u, w), np.einsum("ikij,j,k->", R, u, w))
    assert np.abs(expected).max() > 1e-3
    # controls: directions exchanged, field and direction exchanged, Ricci's arguments exchanged
    assert np.abs(np.einsum("lkij,k,j,i->l", R, z, u, w) - expected).max() > 1e-3
    assert np.abs(np.einsum("lkij,i,k,j->l", R, z, u, w) - expected).max() > 1e-3
    if name in ("chart", "frame, no symmetry", "changed frame"):
        assert abs(nabla.apply_ricci(q, w, u) - np.einsum("ikij,j,k->", R, u, w)) > 1e-3


@pytest.mark.further
@pytest.mark.parametrize(
    "name", always(list(CONNECTIONS)[1:], "frame, admissible torsion", "nq > n", "product")
)
def test_bracket_of_constant_components(name, rng):
    """s(u, w) against the structure functions; with the other sign, R(u, w) z is not the curvature."""
    nabla = CONNECTIONS[name]()
    q, (u, w, z) = jnp.asarray(point(nabla, rng)), jnp.asarray(rng.standard_normal((3, nabla.frame.dim)))

    @jax.jit
    def compared(q, u, w, z):
        bracket = nabla.frame.bracket_of_constants_at(q, u, w)
        wrong = nabla.apply_curvature_at(q, u, w, z) + 2.0 * nabla.apply_at(q, bracket, z)
        right = jnp.einsum("lkij,k,i,j->l", nabla.curvature_at(q), z, u, w)
        return bracket, jnp.einsum("kij,i,j->k", nabla.frame.structure_functions_at(q), u, w), wrong - right

    bracket, expected, difference = compared(q, u, w, z)
    close(bracket, expected, 1e-13)
    assert np.abs(difference).max() > 1e-3


def test_commuting_fields_have_no_bracket(rng):
    assert not np.any(CHART.bracket_of_constants_at(*jnp.asarray(rng.standard_normal((3, 3)))))


@pytest.mark.parametrize("name", [further("levi_civita"), "general"])
def test_first_bianchi_identity(name, rng):
    """R(u, w) z + R(w, z) u + R(z, u) w = 0 if there is no torsion, and not otherwise."""
    nabla = {"levi_civita": systems.LEVI_CIVITA, "general": systems.GENERAL}[name]
    q, (u, w, z) = point(nabla, rng), rng.standard_normal((3, 3))
    rows = nabla.apply_curvature(q, [u, w, z], [w, z, u], [z, u, w])
    assert (np.abs(rows.sum(axis=0)).max() < 1e-12) == (name == "levi_civita")
    close(nabla.apply_curvature(q, w, u, z), -rows[0], 1e-13)


@pytest.mark.further
def test_curvature_of_a_constrained_connection_is_that_on_the_whole_space(rng):
    """Its brackets leave the distribution, so the sum of definitions in its own frame is another thing."""
    nabla = cn.ConstrainedConnection(
        systems.METRIC,
        lambda q: jnp.stack([jnp.eye(3)[0], jnp.array([0.0, 1.0, 0.5]) * jnp.cos(q[0])], axis=1),
    )
    q, (u, w, z) = point(nabla, rng), rng.standard_normal((3, 2))
    close(nabla.apply_curvature(q, u, w, z), np.einsum("lkij,k,i,j->l", nabla.curvature(q), z, u, w), 1e-11)
    wrong = cn.AffineConnection.apply_curvature_at(nabla, *map(jnp.asarray, (q, u, w, z)))
    assert np.abs(wrong - nabla.apply_curvature(q, u, w, z)).max() > 1e-3


def test_constant_curvature(rng):
    """R(u, w) z = K (<<w, z>> u - <<u, z>> w), Ric(v, w) = K (n - 1) <<v, w>>."""
    spaces = {1.0: systems.SPHERE_NABLA, -1.0: systems.HALF_PLANE_NABLA}
    for K, nabla in spaces.items():
        q, (u, w, z) = rng.uniform(0.5, 2.5, 2), rng.standard_normal((3, 2))
        H = nabla.metric.matrix(q)
        close(nabla.apply_curvature(q, u, w, z), K * ((w @ H @ z) * u - (u @ H @ z) * w), 1e-11)
        close(nabla.apply_ricci(q, u, w), K * (u @ H @ w), 1e-11)
        close(nabla.sectional(q, u, w, nabla.metric), K, 1e-11)


# --- robots -----------------------------------------------------------------------------------------------


@pytest.mark.further
@pytest.mark.parametrize(("name", "floating"), [further("ur5", False), ("ur5", True)])
def test_robots(name, floating, rng):
    model = mb.from_urdf(robot_path(name), floating_base=floating)
    nabla = model.connection
    q, (u, w, z) = model.random(rng), rng.standard_normal((3, model.nv))
    R, H = nabla.curvature(q), nabla.metric.matrix(q)
    close(nabla.apply_curvature(q, u, w, z), np.einsum("lkij,k,i,j->l", R, z, u, w), 1e-11)
    close(nabla.apply_ricci(q, u, w), np.einsum("ikij,j,k->", R, u, w), 1e-11)
    expected = np.einsum("ml,lkij,m,k,i,j->", H, R, u, w, u, w)
    expected /= (u @ H @ u) * (w @ H @ w) - (u @ H @ w) ** 2
    close(nabla.sectional(q, u, w, nabla.metric) / expected, 1.0, 1e-11)
    if not floating:
        close(
            model.definition.connection.apply_curvature(q, u, w, z),
            np.einsum("lkij,k,i,j->l", R, z, u, w),
            1e-11,
        )


# --- arguments --------------------------------------------------------------------------------------------


@pytest.mark.further
def test_batches_and_shapes(rng):
    nabla, q = systems.ADMISSIBLE, systems.points(rng, 2, 1)
    u, w = rng.standard_normal((2, 3, 3))
    values = nabla.apply_curvature(q, u, w, w[0])
    assert values.shape == (2, 3, 3)
    close(values[1, 2], nabla.apply_curvature(q[1, 0], u[2], w[2], w[0]), 1e-13)
    assert nabla.apply_ricci(q, u, w).shape == (2, 3)
    assert nabla.apply_curvature(q[:0], u, w, w).shape == (0, 3, 3)
    with pytest.raises(ShapeError, match="z"):
        nabla.apply_curvature(q, u, w, w[:, :2])


@pytest.mark.further
def test_inside_of_jit_and_grad(rng):
    nabla, q, (u, w) = systems.LEVI_CIVITA, systems.points(rng), rng.standard_normal((2, 3))

    def curvature(p):
        return nabla.sectional(p, u, w, systems.METRIC)

    h, direction = 1e-5, rng.standard_normal(3)
    difference = (curvature(q + h * direction) - curvature(q - h * direction)) / (2 * h)
    close(jax.jit(jax.grad(curvature))(jnp.asarray(q)) @ direction, difference, 1e-7)
