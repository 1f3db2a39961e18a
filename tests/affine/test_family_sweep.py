"""A quantity of all members of a family at once, against one member after the other."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import connections as cn

METRIC = cn.MatrixMetric(cn.CoordinateFrame(4), lambda q, m: m * jnp.diag(2.0 + jnp.sin(q)) + 0.1, 1.0)
FAMILY = cn.ContorsionFamily(METRIC)
BETAS = np.random.default_rng(0).normal(size=(35, 4))
Q, V = np.full(4, 0.3), np.array([1.0, -0.5, 0.2, 0.7])


def quantities(nabla):
    return {"torsion": nabla.torsion(Q), "C": cn.coriolis_matrix(nabla, Q, V, METRIC), "one": 1.0}


def test_members_together_and_alone():
    """More members than are computed together; another member has other numbers."""
    together = FAMILY.sweep(BETAS, quantities)
    assert together["torsion"].shape == (35, 4, 4, 4) and together["C"].shape == (35, 4, 4)
    np.testing.assert_array_equal(together["one"], np.ones(35))
    for k in (0, 31, 32, 34):
        alone = quantities(FAMILY.connection(BETAS[k]))
        for name in ("torsion", "C"):
            np.testing.assert_allclose(together[name][k], alone[name], rtol=1e-12, atol=1e-13)
    assert np.abs(together["torsion"][1] - together["torsion"][0]).max() > 0.1


def test_what_goes_in_comes_out():
    assert isinstance(FAMILY.sweep(BETAS.tolist(), quantities)["C"], np.ndarray)
    assert isinstance(FAMILY.sweep(jnp.asarray(BETAS), quantities)["C"], jax.Array)


def test_no_members_and_no_free_functions():
    assert FAMILY.sweep(np.zeros((0, 4)), quantities)["C"].shape == (0, 4, 4)
    plane = cn.ContorsionFamily(cn.ConstantMetric(cn.CoordinateFrame(2), np.eye(2)))
    torsion = plane.sweep(np.zeros((3, 0)), lambda nabla: nabla.torsion(np.zeros(2)))
    np.testing.assert_array_equal(torsion, np.zeros((3, 2, 2, 2)))


def test_one_free_function_is_a_number():
    """For n = 3 a member, and the members of a sweep, are given by numbers; for n = 4 they are not."""
    family = cn.ContorsionFamily(cn.ConstantMetric(cn.CoordinateFrame(3), np.diag([1.0, 2.0, 3.0])))

    def torsion(nabla):
        return nabla.torsion(np.zeros(3))

    np.testing.assert_array_equal(
        torsion(family.connection(0.7)), torsion(family.connection(np.array([0.7])))
    )
    several = np.array([0.1, 0.7])
    np.testing.assert_array_equal(family.sweep(several, torsion), family.sweep(several[:, None], torsion))
    assert np.abs(family.sweep(several, torsion)[1] - torsion(family.connection(0.7))).max() < 1e-14
    with pytest.raises(cn.checks.ShapeError, match=r"\(4,\)"):
        FAMILY.connection(0.7)
    with pytest.raises(cn.checks.ShapeError, match="betas"):
        FAMILY.sweep(several, torsion)


@pytest.mark.further
def test_inside_of_jax():
    """Derivatives by betas and by a parameter of the metric, and `jit`, against differences."""

    def cost(betas, mass):
        metric = cn.MatrixMetric(METRIC.frame, METRIC.matrix_function.function, mass)
        return jnp.sum(cn.ContorsionFamily(metric).sweep(betas, lambda nabla: nabla.torsion(Q)) ** 2)

    betas, h = BETAS[:2], 1e-5
    slope = jax.grad(cost)(betas, 1.0)
    step = np.zeros((2, 4))
    step[1, 2] = h
    assert float(slope[1, 2]) == pytest.approx(
        float(cost(betas + step, 1.0) - cost(betas - step, 1.0)) / (2.0 * h), rel=1e-6
    )
    by_mass = jax.grad(cost, argnums=1)(betas, 1.0)
    assert float(by_mass) == pytest.approx(
        float(cost(betas, 1.0 + h) - cost(betas, 1.0 - h)) / (2 * h), rel=1e-6
    )
    assert float(jax.jit(cost)(betas, 1.0)) == pytest.approx(float(cost(betas, 1.0)), rel=1e-12)


@pytest.mark.parametrize(
    ("betas", "quantity", "error", "words"),
    [
        (np.zeros(4), quantities, cn.checks.ShapeError, "betas"),
        (np.zeros((2, 3)), quantities, cn.checks.ShapeError, "betas"),
        (np.full((2, 4), np.nan), quantities, cn.checks.NonFiniteError, r"betas\[0, 0\]"),
        (BETAS, 3.0, TypeError, "quantity: expected a function"),
        (BETAS, lambda nabla: None, TypeError, "quantity: it has to return an array, and returned NoneType"),
        (BETAS, lambda nabla: float(nabla.torsion(Q)[0, 0, 0]), TypeError, "use jax.numpy"),
        (
            np.array([[1.0] * 4, [-1.0] * 4]),
            lambda nabla: jnp.log(nabla.torsion(Q)[0, 1, 2]),
            cn.checks.NonFiniteError,
            r"member 1, beta = \[-1. -1. -1. -1.\]",
        ),
    ],
)
def test_errors(betas, quantity, error, words):
    with pytest.raises(error, match=words):
        FAMILY.sweep(betas, quantity)


def frame_matrix(q):
    """A frame whose brackets do not vanish."""
    return jnp.diag(1.0 + 0.1 * jnp.cos(q)) + 0.2 * jnp.sin(q[0]) * jnp.eye(3, k=1)


@pytest.mark.further
def test_quantities_that_know_the_metric_and_loops():
    """The family's own metric in the quantity, in a frame given by a function; a holonomy; and no loop."""
    frame = cn.MatrixFrame(frame_matrix, 3, 3)
    metric = cn.MatrixMetric(frame, lambda q: jnp.diag(2.0 + jnp.sin(q)))
    family, q, v = cn.ContorsionFamily(metric), np.array([0.1, 0.2, 0.3]), np.array([1.0, -0.5, 0.3])
    betas = np.array([[0.0], [0.7]])
    C = family.sweep(betas, lambda nabla: cn.coriolis_matrix(nabla, q, v, metric))

    def circle(t):
        return jnp.array([jnp.cos(t), jnp.sin(t), 0.2])

    def around(nabla):
        return cn.holonomy(nabla, circle, 0.0, 2.0 * np.pi)

    P = family.sweep(betas, around)
    for row, beta in enumerate(betas):
        member = family.connection(beta)
        np.testing.assert_allclose(C[row], cn.coriolis_matrix(member, q, v, metric), rtol=1e-13)
        np.testing.assert_allclose(P[row], around(member), atol=1e-9)
    assert np.abs(P[0] - P[1]).max() > 0.1
    with pytest.raises(cn.checks.NonFiniteError, match="member 0"):
        family.sweep(betas, lambda nabla: cn.holonomy(nabla, circle, 0.0, np.pi))


COUNT = """
import numpy as np
import jax
import jax.numpy as jnp
import connections as cn

compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, *rest, **more: compiled.append(name) if "backend_compile_duration" in name else None
)
def matrix(q, mass):
    return mass * jnp.diag(2.0 + jnp.sin(q))

def torsion(nabla):
    return nabla.torsion(np.full(4, 0.1))

def run(count, mass, quantity):
    metric = cn.MatrixMetric(cn.CoordinateFrame(4), matrix, mass)
    cn.ContorsionFamily(metric).sweep(np.ones((count, 4)), quantity)
    compiled.append("end")

run(3, 1.0, torsion)
first = len(compiled) - 1
run(0, 1.0, torsion), run(1, 2.0, torsion), run(70, 3.0, torsion)
again = len(compiled) - first - 4
run(3, 1.0, lambda nabla: nabla.torsion(np.full(4, 0.2)))
print(first, again, len(compiled) - first - again - 5)
"""


def test_other_numbers_and_other_counts_compile_nothing():
    """Another quantity does."""
    environment = {**os.environ, "XLA_FLAGS": ""}
    done = subprocess.run(
        [sys.executable, "-c", COUNT], capture_output=True, text=True, check=True, env=environment
    )
    first, again, other = map(int, done.stdout.split())
    assert first > 0 and again == 0 and other > 0
