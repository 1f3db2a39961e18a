"""The passport of a Coriolis matrix: every producer of a C passes it, in a frame with qdot != v.

C is linear in v, C v is Hamel's bias, Hdot = C + C^T, C(q, 0) = 0, and where it claims to be Riemannian its
torsion vanishes. The mass matrix and the frame are differentiated on the manifold by differences.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always
from differences import derivative_along, structure_functions
from oracles import rigid_body_inertia
from systems import (
    ADMISSIBLE,
    GENERAL,
    GEODESICS_ONLY,
    LEVI_CIVITA,
    METRIC,
    METRIC_ONLY,
    TOP,
    TOP_NABLA,
    change_of_frame,
    points,
)

import connections as cn
from connections import multibody as mb
from connections.multibody.definition.spatial import body_coriolis

ROBOT = Path(__file__).parent / "data" / "branched.urdf"
TOLERANCE = 1e-8


@dataclass(frozen=True, eq=False)
class Producer:
    """A Coriolis matrix (q, v) -> C, with the metric and frame that it claims to belong to."""

    metric: Any
    coriolis: Any
    draw: Any
    riemannian: bool = True


def unit(x):
    return x / np.linalg.norm(x)


def quaternion(rng):
    return unit(rng.standard_normal(4))


def pose(rng):
    return np.concatenate([rng.standard_normal(3), quaternion(rng)])


def of(nabla, metric, draw, riemannian=True):
    return Producer(metric, lambda q, v: cn.coriolis_matrix(nabla, q, v, metric), draw, riemannian)


def _body():
    inertia = rigid_body_inertia(2.0, np.array([0.1, -0.2, 0.3]), np.diag([0.5, 0.7, 1.0]))
    return cn.ConstantMetric(cn.SE3Frame(), inertia), inertia


def _rigid_body_system():
    metric, inertia = _body()
    bodies = mb.RigidBodySystemConnection(inertia[None])
    system = cn.MechanicalSystem(bodies.metric, connection=bodies)
    return Producer(bodies.metric, system.coriolis_matrix, pose)


def _induced():
    frame = cn.MatrixFrame(lambda x: jnp.array([[1.0, 0.3 * jnp.sin(x[1])], [0.4 * x[0], 1.1]]), 2, 2)

    def attitude(x):
        """A point of SO(3), (4,)."""
        return cn.SO3Frame().retract_at(
            jnp.array([0.0, 0.0, 0.6, 0.8]), jnp.stack([x[0], x[1], 0.5 * x[0] * x[1]])
        )

    def inclusion(x):
        return cn.SO3Frame().dual_at(attitude(x)) @ jax.jacfwd(attitude)(x) @ frame.matrix_at(x)

    nabla = cn.InducedConnection(TOP_NABLA, TOP, frame, inclusion, attitude)

    def law(x, v):
        A, A_dot = np.asarray(inclusion(x)), derivative_along(inclusion, frame, x, v)
        C = cn.coriolis_matrix(TOP_NABLA, attitude(x), A @ v, TOP)
        return cn.coriolis.induced_coriolis_matrix(C, TOP.matrix(attitude(x)), A, A_dot)

    return nabla, law


def _induced_connection():
    nabla, _ = _induced()
    return of(nabla, nabla.metric, lambda rng: 0.4 * rng.standard_normal(2))


def _induced_law():
    nabla, law = _induced()
    return Producer(nabla.metric, law, lambda rng: 0.4 * rng.standard_normal(2))


def _changed():
    metric = METRIC.change(change_of_frame)
    return of(LEVI_CIVITA.change(change_of_frame), metric, points)


def _product():
    metric = cn.ProductMetric(TOP, METRIC)
    nabla = cn.ProductConnection(TOP_NABLA, LEVI_CIVITA)
    return of(nabla, metric, lambda rng: np.concatenate([quaternion(rng), points(rng)]))


def _read_back():
    nabla = cn.connection_from_coriolis(
        METRIC,
        lambda q, v: METRIC.matrix_at(q) @ jnp.tensordot(ADMISSIBLE.coefficients_at(q), v, axes=(1, 0)),
    )
    return of(nabla, METRIC, points, False)


def _robot():
    model = mb.from_urdf(ROBOT, floating_base=True)
    return Producer(model.definition.metric, model.system().coriolis_matrix, model.random)


PRODUCERS = {
    "Koszul": lambda: of(LEVI_CIVITA, METRIC, points),
    "Koszul on SO(3)": lambda: of(TOP_NABLA, TOP, quaternion),
    "system": lambda: Producer(METRIC, cn.MechanicalSystem(METRIC).coriolis_matrix, points),
    "family (12)": lambda: of(ADMISSIBLE, METRIC, points, False),
    "read back from C": _read_back,
    "changed frame": _changed,
    "product": _product,
    "torsion-free part": lambda: of(cn.torsion_free_part(GEODESICS_ONLY), METRIC, points),
    "induced connection": _induced_connection,
    "law (17)": _induced_law,
    "body (18)": lambda: Producer(_body()[0], lambda q, v: body_coriolis(_body()[1], v), pose),
    "bodies": _rigid_body_system,
    "robot": _robot,
}


@cache
def producer(name):
    return PRODUCERS[name]()


def passport(item, q, v):
    """Relative residual of every entry of the passport."""
    frame, n = item.metric.frame, item.metric.frame.dim
    H, C = np.asarray(item.metric.matrix(q)), np.asarray(item.coriolis(q, v))
    Gamma = np.stack([np.asarray(item.coriolis(q, e)) for e in np.eye(n)], axis=1)  # Gamma_ijk = C_ik(q, e_j)
    H_dot = derivative_along(item.metric.matrix, frame, q, v)
    bias = np.asarray(cn.MechanicalSystem(item.metric).hamel(q, v, np.zeros(n)))
    s_low = np.tensordot(H, structure_functions(frame, q), axes=1)
    scale = max(np.max(np.abs(H)), np.max(np.abs(Gamma)), np.max(np.abs(s_low)))
    gaps = {
        "linear": np.einsum("ijk,j->ik", Gamma, v) - C,
        "bias": (C @ v - bias) / max(1.0, np.max(np.abs(v))),
        "skew": H_dot - C - C.T,
        "rest": np.asarray(item.coriolis(q, np.zeros(n))),
        "torsion": Gamma - np.swapaxes(Gamma, 1, 2) - s_low,
    }
    return {key: float(np.max(np.abs(gap)) / scale) for key, gap in gaps.items()}


@pytest.mark.parametrize("name", always(PRODUCERS, *list(PRODUCERS)[::3]))
def test_passport(name, rng):
    item = producer(name)
    q, v = item.draw(rng), unit(rng.standard_normal(item.metric.frame.dim))
    X = np.asarray(item.metric.frame.matrix(q))
    assert X.shape[0] != X.shape[1] or not np.allclose(X @ v, v, atol=1e-2)  # a frame with qdot != v
    residuals = passport(item, q, v)
    torsion = residuals.pop("torsion")
    assert max(residuals.values()) < TOLERANCE, residuals
    assert torsion < TOLERANCE if item.riemannian else torsion > 1e-2


WRONG = {
    "last index": (
        lambda q, v: np.einsum("ikj,j->ik", LEVI_CIVITA.first_kind(q, METRIC), v),
        {"skew", "torsion"},
    ),
    "transposed": (
        lambda q, v: np.asarray(cn.coriolis_matrix(LEVI_CIVITA, q, v, METRIC)).T,
        {"bias", "torsion"},
    ),
    "compatible only": (of(METRIC_ONLY, METRIC, points).coriolis, {"bias", "torsion"}),
    "geodesics only": (of(GEODESICS_ONLY, METRIC, points).coriolis, {"skew", "torsion"}),
    "no structure": (of(GENERAL, METRIC, points).coriolis, {"bias", "skew", "torsion"}),
    "twice": (
        lambda q, v: 2.0 * np.asarray(cn.coriolis_matrix(LEVI_CIVITA, q, v, METRIC)),
        {"bias", "skew", "torsion"},
    ),
    "constant added": (
        lambda q, v: np.asarray(cn.coriolis_matrix(LEVI_CIVITA, q, v, METRIC)) + np.eye(3),
        {"linear", "bias", "skew", "rest"},
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_coriolis_matrix_is_turned_back(name, rng):
    coriolis, entries = WRONG[name]
    residuals = passport(Producer(METRIC, coriolis, points), points(rng), unit(rng.standard_normal(3)))
    assert {key for key, value in residuals.items() if value > 1e-2} >= entries
    passed = {"linear", "bias", "skew", "rest", "torsion"} - entries - {"torsion"}
    assert max((residuals[key] for key in passed), default=0.0) < TOLERANCE
