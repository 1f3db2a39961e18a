"""Underactuated systems with published or provable verdicts on controllability, as JAX functions.

Masses, lengths and points are generic. `CASES` holds, for each, what is true at its point and why. None has a
potential: arms lie in the horizontal plane.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

import connections as cn
from connections.control.controllability import input_fields


@dataclass(frozen=True, eq=False)
class Case:
    """A system at a point, with the verdicts that are true of it."""

    name: str
    nabla: Any
    inputs: Callable[[Any], Any]
    q: Any
    accessible: bool
    controllable: bool
    kinematic: bool
    source: str


def covectors(nabla, *rows):
    """Input fields of constant covectors."""
    F = jnp.asarray(np.array(rows, dtype=float))
    return input_fields(nabla, lambda q: F)


def mechanical(dim, matrix):
    """Levi-Civita of a metric in coordinates."""
    return cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(dim), matrix))


# --- turning and sliding ------------------------------------------------------------------------------------

LEG_MASS, LEG_INERTIA = 1.3, 0.7


def leg_metric(q):
    """A body that turns (psi) with a leg of length r at the angle theta: q = (r, theta, psi)."""
    one = jnp.ones(())
    return jnp.diag(jnp.stack([LEG_MASS * one, LEG_MASS * q[0] ** 2, LEG_INERTIA * one]))


LEG = mechanical(3, leg_metric)
LEG_TORQUE, LEG_FORCE = (0, 1, -1), (1, 0, 0)
LEG_POINT = np.array([0.9, 0.4, -0.3])


def bead_metric(q):
    """A bead that slides on a rod in space, which turns about a fixed point: q = (r, theta, phi)."""
    turning = 0.8 + 1.1 * q[0] ** 2
    return jnp.diag(jnp.stack([1.1 * jnp.ones(()), turning, turning * jnp.sin(q[1]) ** 2]))


BEAD = mechanical(3, bead_metric)


def cart_metric(q):
    """A cart (x) with a pendulum (theta), no gravity."""
    coupling = 0.6 * jnp.cos(q[1])
    return jnp.stack([jnp.stack([2.0 + 0 * coupling, coupling]), jnp.stack([coupling, 0.5 + 0 * coupling])])


CART = mechanical(2, cart_metric)

# --- planar chains ------------------------------------------------------------------------------------------


def chain_matrix(lengths, centres, masses, inertias):
    """M of T = 1/2 sum of M_ij cos(a_i - a_j) a_i' a_j' in the absolute angles of a planar arm."""
    n = len(lengths)
    arm = np.zeros((n, n))  # centre of mass i = sum of arm[i, k] e(a_k)
    for i in range(n):
        arm[i, :i], arm[i, i] = lengths[:i], centres[i]
    return arm.T @ np.diag(masses) @ arm + np.diag(inertias)


def free_chain_matrix(hinge, lengths, centres, masses, inertias):
    """The same of a free-floating chain, about its common centre of mass; the first body's arm is `hinge`."""
    n = len(masses)
    arm = np.zeros((n, n))
    for i in range(1, n):
        arm[i, 0], arm[i, 1:i], arm[i, i] = hinge, lengths[1:i], centres[i]
    masses = np.asarray(masses)
    mean = masses @ arm
    return arm.T @ np.diag(masses) @ arm - np.outer(mean, mean) / masses.sum() + np.diag(inertias)


def chain(M):
    """The connection of such a chain in relative angles."""
    M, n = jnp.asarray(M), len(M)
    lower = jnp.asarray(np.tril(np.ones((n, n))))

    def metric(q):
        a = lower @ q
        return lower.T @ (M * jnp.cos(a[:, None] - a[None, :])) @ lower

    return mechanical(n, metric)


ARM_3R = chain(chain_matrix([0.5, 0.45, 0.4], [0.25, 0.2, 0.22], [1.0, 0.8, 0.7], [0.03, 0.02, 0.015]))
ARM_2R = chain(chain_matrix([0.5, 0.4], [0.25, 0.18], [1.0, 0.7], [0.03, 0.02]))
SPACE_3 = chain(free_chain_matrix(0.4, [0, 0.5, 0.3], [0, 0.2, 0.15], [3.0, 1.0, 0.8], [0.4, 0.03, 0.02]))
SPACE_2 = chain(free_chain_matrix(0.4, [0, 0.5], [0, 0.2], [3.0, 1.0], [0.4, 0.03]))
ARM_POINT = np.array([0.3, 0.7, -1.1])


def gantry_metric(q):
    """A link that turns freely (theta) on a pivot driven along x and y: the arm PPR."""
    s, c, zero = 0.35 * jnp.sin(q[2]), 0.35 * jnp.cos(q[2]), 0.0 * q[2]
    rows = [
        jnp.stack([2.1 + zero, zero, -s]),
        jnp.stack([zero, 1.7 + zero, c]),
        jnp.stack([-s, c, 0.3 + zero]),
    ]
    return jnp.stack(rows)


GANTRY = mechanical(3, gantry_metric)

# --- rigid bodies -------------------------------------------------------------------------------------------

SATELLITE_INERTIA = np.diag([1.0, 1.4, 1.9])
SATELLITE = cn.LeviCivita(cn.ConstantMetric(cn.SO3Frame(), SATELLITE_INERTIA))
SYMMETRIC_SATELLITE = cn.LeviCivita(cn.ConstantMetric(cn.SO3Frame(), np.diag([1.0, 1.0, 1.9])))
ATTITUDE = np.array([0.1, -0.3, 0.2, 0.0])
ATTITUDE[3] = np.sqrt(1 - ATTITUDE @ ATTITUDE)

#: An ellipsoid in an ideal fluid, neutrally buoyant: added masses and inertias about its principal axes.
VEHICLE = cn.LeviCivita(cn.ConstantMetric(cn.SE3Frame(), np.diag([1.0, 1.5, 1.8, 3.0, 4.1, 4.6])))
POSE = np.concatenate([[0.5, -0.2, 0.1], ATTITUDE])

# --- wheels -------------------------------------------------------------------------------------------------


def rolling_basis(q):
    """A cart on two driven wheels of radius 0.1, 0.5 apart: q = (x, y, theta); columns: left, right wheel."""
    forward = jnp.stack([jnp.cos(q[2]), jnp.sin(q[2]), 0.0 * q[2]]) * 0.05
    turn = jnp.asarray([0.0, 0.0, 0.2])
    return jnp.stack([forward - turn, forward + turn], axis=1)


def cart_body_metric(q):
    """The same cart's kinetic energy: the centre of mass 0.08 in front of the axle, wheels included."""
    s, c, zero = 0.24 * jnp.sin(q[2]), 0.24 * jnp.cos(q[2]), 0.0 * q[2]
    rows = [
        jnp.stack([3.0 + zero, zero, -s]),
        jnp.stack([zero, 3.0 + zero, c]),
        jnp.stack([-s, c, 0.4 + zero]),
    ]
    return jnp.stack(rows)


WHEELED_CART = cn.ConstrainedConnection(
    cn.MatrixMetric(cn.CoordinateFrame(3), cart_body_metric), rolling_basis
)


def wheel_angles_basis(q):
    """The same with the wheels' angles among the coordinates: q = (x, y, theta, left, right)."""
    return jnp.concatenate([rolling_basis(q[:3]), jnp.eye(2)])


def wheel_angles_metric(q):
    """Cart and wheels apart."""
    return jnp.zeros((5, 5)).at[:3, :3].set(cart_body_metric(q[:3])).at[3:, 3:].set(0.02 * jnp.eye(2))


CART_AND_WHEELS = cn.ConstrainedConnection(
    cn.MatrixMetric(cn.CoordinateFrame(5), wheel_angles_metric), wheel_angles_basis
)

# --- the two systems of [Z] ---------------------------------------------------------------------------------

BOARD = {"m": 3.0, "J_r": 0.3, "J_w": 0.1, "l": 0.5}
_BOARD_H = np.diag([3.0, 3.0, 3.0 * 0.5**2, 0.3, 0.1])
_BOARD_H[2, 3] = _BOARD_H[3, 2] = 0.3


def snakeboard_forms(q):
    """[Z] section 4: q = (x, y, theta, psi, phi)."""
    theta, phi, zero = q[2], q[4], 0.0 * q[0]
    across = BOARD["l"] * jnp.cos(phi)
    rows = [
        [jnp.sin(phi - theta), jnp.cos(phi - theta), across, zero, zero],
        [-jnp.sin(phi + theta), jnp.cos(phi + theta), -across, zero, zero],
    ]
    return jnp.stack([jnp.stack(row) for row in rows])


def snakeboard_basis(q):
    """[Z] section 4.1: X_1, X_2, X_3, orthogonal."""
    theta, phi, zero = q[2], q[4], 0.0 * q[0]
    m, J_r, length = BOARD["m"], BOARD["J_r"], BOARD["l"]
    V_x = jnp.stack([jnp.cos(theta), jnp.sin(theta), zero, zero, zero])
    d_theta, d_psi, d_phi = jnp.eye(5)[2:]
    X_1 = length * jnp.cos(phi) * V_x - jnp.sin(phi) * d_theta
    X_2 = J_r * jnp.sin(phi) / (m * length**2) * X_1 + d_psi
    return jnp.stack([X_1, X_2, d_phi], axis=1)


_BOARD_METRIC = cn.ConstantMetric(cn.CoordinateFrame(5), _BOARD_H)
SNAKEBOARD = cn.ConstrainedConnection(_BOARD_METRIC, forms=snakeboard_forms)
SNAKEBOARD_BASIS = cn.ConstrainedConnection(_BOARD_METRIC, snakeboard_basis)
SNAKEBOARD_INPUTS = (0, 0, 0, 1, 0), (0, 0, 0, 0, 1)
SNAKEBOARD_POINT = np.array([0.2, -0.4, 0.5, 0.9, 0.6])

RACER = {"m": 2.0, "I_1": 0.3, "I_2": 0.2, "l_1": 0.5, "l_2": 0.3}
_RACER_H = np.diag([2.0, 2.0, 0.5, 0.2])
_RACER_H[2, 3] = _RACER_H[3, 2] = 0.2


def racer_forms(q, l_1=RACER["l_1"], l_2=RACER["l_2"]):
    """[Z] section 5: q = (x, y, theta, psi)."""
    theta, psi, zero = q[2], q[3], 0.0 * q[0]
    rows = [
        [jnp.sin(theta), -jnp.cos(theta), zero, zero],
        [jnp.sin(theta + psi), -jnp.cos(theta + psi), -(l_2 + l_1 * jnp.cos(psi)), -l_2 + zero],
    ]
    return jnp.stack([jnp.stack(row) for row in rows])


def racer_basis(q):
    """[Z] section 5.1: X_1, and X_2 orthogonal to it with the unit component along d/d psi."""
    theta, psi, zero = q[2], q[3], 0.0 * q[0]
    reach = RACER["l_2"] + RACER["l_1"] * jnp.cos(psi)
    V_x = jnp.stack([jnp.cos(theta), jnp.sin(theta), zero, zero])
    d_theta, d_psi = jnp.eye(4)[2:]
    X_1 = V_x + jnp.sin(psi) / reach * d_theta
    X_2 = -RACER["l_2"] / reach * d_theta + d_psi
    H = jnp.asarray(_RACER_H)
    return jnp.stack([X_1, X_2 - (X_2 @ H @ X_1) / (X_1 @ H @ X_1) * X_1], axis=1)


_RACER_METRIC = cn.ConstantMetric(cn.CoordinateFrame(4), _RACER_H)
RACER_FORMS = cn.ConstrainedConnection(_RACER_METRIC, forms=racer_forms)
RACER_BASIS = cn.ConstrainedConnection(_RACER_METRIC, racer_basis)
RACER_INPUTS = (0, 0, 0, 1)
#: With the links exchanged in length, l_1 + l_2 cos psi vanishes somewhere.
SHORT_RACER = cn.ConstrainedConnection(_RACER_METRIC, forms=lambda q: racer_forms(q, 0.3, 0.5))


def racer_point(psi):
    """A configuration of the roller racer."""
    return np.array([0.1, 0.3, -0.2, psi])


# --- the verdicts -------------------------------------------------------------------------------------------


def _case(name, nabla, rows, q, accessible, controllable, kinematic, source):
    return Case(name, nabla, covectors(nabla, *rows), q, accessible, controllable, kinematic, source)


LEWIS_MURRAY = "[LM], the robotic leg"
SINGLE = "[AL]: one input"
TABLE = "[BLL], table of examples"
CROUCH = "Crouch, IEEE Trans. Automatic Control 29 (1984); Bullo, Leonard and Lewis, same journal 45 (2000)"
E3, E6 = np.eye(3), np.eye(6)

CASES = [
    # A torque between body and leg and a force along the leg: <Y_1:Y_1> is along the force.
    _case("leg, torque and force", LEG, [LEG_TORQUE, LEG_FORCE], LEG_POINT, True, True, True, LEWIS_MURRAY),
    # The centrifugal force drives the leg outwards only; the angular momentum of all is conserved.
    _case("leg, torque", LEG, [LEG_TORQUE], LEG_POINT, True, False, False, LEWIS_MURRAY),
    # Along the leg nothing turns.
    _case("leg, force", LEG, [LEG_FORCE], LEG_POINT, False, False, False, LEWIS_MURRAY),
    # Decoupling: the last link translates, or turns about its centre of percussion.
    _case(
        "arm 3R, third joint passive",
        ARM_3R,
        [(1, 0, 0), (0, 1, 0)],
        ARM_POINT,
        True,
        True,
        True,
        "Lynch, Shiroma, Arai and Tanie, Int. J. Robotics Research 19 (2000)",
    ),
    _case("arm 3R, second joint passive", ARM_3R, [(1, 0, 0), (0, 0, 1)], ARM_POINT, True, True, True, TABLE),
    # The angular momentum about the passive joint is conserved: every motion of the others is kinematic.
    _case("arm 3R, first joint passive", ARM_3R, [(0, 1, 0), (0, 0, 1)], ARM_POINT, True, True, True, TABLE),
    _case("arm 2R, second joint passive", ARM_2R, [(1, 0)], ARM_POINT[:2], True, False, False, SINGLE),
    # The angular momentum about the first joint is conserved, and in two dimensions that can be integrated.
    _case("arm 2R, first joint passive", ARM_2R, [(0, 1)], ARM_POINT[:2], False, False, False, TABLE),
    _case("satellite, three torques", SATELLITE, E3, ATTITUDE, True, True, True, CROUCH),
    _case("satellite, two torques", SATELLITE, E3[:2], ATTITUDE, True, True, True, CROUCH),
    # The velocity about the axis of symmetry cannot change; the configuration can, by [X_1, X_2] = X_3.
    _case(
        "symmetric satellite, two torques", SYMMETRIC_SATELLITE, E3[:2], ATTITUDE, True, True, True, CROUCH
    ),
    _case("satellite, one generic torque", SATELLITE, [(1, 0.7, -0.5)], ATTITUDE, True, False, False, SINGLE),
    # Rotation about a principal axis stays one.
    _case("satellite, one principal torque", SATELLITE, E3[:1], ATTITUDE, False, False, False, CROUCH),
    _case("cart and pendulum, force", CART, [(1, 0)], np.array([0.2, 0.8]), True, False, False, SINGLE),
    # The linear momentum is conserved, and is a total derivative.
    _case("cart and pendulum, torque", CART, [(0, 1)], np.array([0.2, 0.8]), False, False, False, "by hand"),
    # As the last link of the arm 3R.
    _case(
        "arm PPR, last joint passive",
        GANTRY,
        [(1, 0, 0), (0, 1, 0)],
        ARM_POINT,
        True,
        True,
        True,
        "Imura, Kobayashi and Yoshikawa, IEEE Conference on Decision and Control (1996)",
    ),
    _case(
        "space robot of three bodies",
        SPACE_3,
        [(0, 1, 0), (0, 0, 1)],
        ARM_POINT,
        True,
        True,
        True,
        "Reyhanoglu and McClamroch, J. Guidance, Control and Dynamics 15 (1992)",
    ),
    # One angle fewer, and the conserved angular momentum can be integrated.
    _case("space robot of two bodies", SPACE_2, [(0, 1)], ARM_POINT[:2], False, False, False, "by hand"),
    # Surge, pitch and yaw: principal motions are steady; rotations and surge generate se(3).
    _case("vehicle, three inputs", VEHICLE, E6[1:4], POSE, True, True, True, TABLE),
    # Both wheels driven: every feasible velocity is, and the distribution is not integrable.
    _case(
        "cart on two driven wheels",
        WHEELED_CART,
        [(0.05 * np.cos(0.4), 0.05 * np.sin(0.4), -0.2), (0.05 * np.cos(0.4), 0.05 * np.sin(0.4), 0.2)],
        np.array([0.3, -0.1, 0.4]),
        True,
        True,
        True,
        "Bloch, Reyhanoglu and McClamroch, IEEE Trans. Automatic Control 37 (1992)",
    ),
    # With the wheels' angles as coordinates their difference is the heading: one constraint is holonomic.
    _case(
        "cart with its wheels' angles",
        CART_AND_WHEELS,
        [(0, 0, 0, 1, 0), (0, 0, 0, 0, 1)],
        np.array([0.3, -0.1, 0.4, 0.2, 0.5]),
        False,
        False,
        False,
        "Campion, Bastin and d'Andrea-Novel, IEEE Trans. Robotics and Automation 12 (1996)",
    ),
    # Both turns of the rod throw the bead outwards: a definite form, and inputs that commute.
    _case(
        "bead on a rod, two torques",
        BEAD,
        [(0, 1, 0), (0, 0, 1)],
        np.array([0.6, 0.9, 0.3]),
        True,
        False,
        False,
        "the proof in connections/control/controllability/obstruction.py",
    ),
]
BY_NAME = {case.name: case for case in CASES}


def accelerated(dim, terms):
    """q_i'' = sum of c q_j' q_k' over terms (i, j, k): c, a number or a function of q."""

    def coefficients(q):
        Gamma = jnp.zeros((dim, dim, dim))
        for (i, j, k), c in terms.items():
            half = -0.5 * (c(q) if callable(c) else c)
            Gamma = Gamma.at[i, j, k].add(half).at[i, k, j].add(half)
        return Gamma

    return cn.CoefficientConnection(cn.CoordinateFrame(dim), coefficients)


def first(dim, count):
    """Inputs on the first coordinates."""
    return lambda q: jnp.eye(dim)[:, :count]
