"""Second derivatives of the dynamics: against the definition, differences, and identities; closed chains."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always, further
from mechanisms import (
    MOVING,
    derivative_along,
    mechanism_of_all_pairs,
    random_body,
    random_mechanism,
    random_placement,
    sample,
    structure_functions,
)
from recursion_functions import configurations, model

from connections import multibody as mb
from connections.checks import ModelError, NonFiniteError
from connections.multibody.definition.recursions import DEFINITIONS
from connections.multibody.in_jax.projected import ProjectedDynamics
from connections.multibody.program.program import Program

TOL = 1e-9
FIRST = {
    "inverse": mb.inverse_dynamics_derivatives,
    "forward": mb.forward_dynamics_derivatives,
}
PRODUCTS = {
    "inverse": mb.inverse_dynamics_hessian_product,
    "forward": mb.forward_dynamics_hessian_product,
}
TENSORS = {
    "inverse": mb.inverse_dynamics_second_derivatives,
    "forward": mb.forward_dynamics_second_derivatives,
}
each_dynamics = pytest.mark.parametrize("dynamics", always(FIRST, "inverse"))
OFFSETS, WEIGHTS = np.array([-2.0, -1.0, 1.0, 2.0]), np.array([1.0, -8.0, 8.0, -1.0]) / 12.0


def close(value, expected, tol=TOL):
    np.testing.assert_allclose(value, expected, atol=tol * np.max(np.abs(expected)), rtol=0)


def by_differences(dynamics, robot, q, v, x, w, h=1e-2, **options):
    """Second derivatives of w . tau or w . vdot (4, n, n), from fourth-order differences of the first ones.

    Differences are taken along frame fields, and in v; the last index belongs to the direction.
    """

    def first(points, velocities):
        parts = FIRST[dynamics](robot, points, velocities, x, **options)
        return np.stack([w @ part for part in parts], axis=-2)

    def in_v(unit):
        moved = [first(q, v + h * s * unit)[1] for s in OFFSETS]
        return np.tensordot(WEIGHTS, moved, axes=1) / h

    units = np.eye(robot.nv)
    along = [derivative_along(robot, lambda points: first(points, v), q, unit) for unit in units]
    in_q = np.stack(along, axis=-1)
    return np.stack([in_q[0], in_q[1], np.stack([*map(in_v, units)], axis=-1), in_q[2]])


@each_dynamics
def test_every_joint_behind_every_joint(dynamics, rng):
    """Against differences along the frame; 64 pairs of joints. Negative control: the other order."""
    robot = mechanism_of_all_pairs(rng)
    q, v = sample(robot, rng)
    x, w = rng.standard_normal((2, robot.nv))
    found = PRODUCTS[dynamics](robot, q, v, x, w)
    for value, expected in zip(found, by_differences(dynamics, robot, q, v, x, w), strict=True):
        close(value, expected, 1e-8 if dynamics == "forward" else TOL)  # H has a condition of thousands
    d2_dqdq, d2_dvdq, _, d2_dxdq = found
    for value in (d2_dqdq, d2_dvdq, d2_dxdq):
        assert np.max(np.abs(value - value.T)) > 1e-2 * np.max(np.abs(value))
    for value, tensor in zip(found, TENSORS[dynamics](robot, q, v, x), strict=True):
        close(np.tensordot(w, tensor, axes=1), value)


@pytest.mark.parametrize("dynamics", FIRST)
def test_passive_forces(dynamics, rng):
    """Friction, springs and lift bend the dynamics, too; the tensors, a batch and `out` are the same."""
    robot = mb.example("arm")
    spring = mb.joints.Spring("belt", {"lift": 1.0, "bend": -0.7}, 7.0, 0.3, 0.2)
    friction, lift = dict.fromkeys(robot.joint_names, 0.5), {"tool": [0.7, 0.1, 0.2, -0.05]}
    robot = robot.with_passive(
        mb.joints.Passive((spring,), {"bend": 0.3}, friction, friction_speed=2.0, lift=lift)
    )
    q, v = sample(robot, rng)
    x, w = rng.standard_normal((2, robot.nv))
    out = np.empty((4, 6, 6))
    found = PRODUCTS[dynamics](robot, q, v, x, w, passive=True, out=out)
    assert found[0].base is out
    expected = by_differences(dynamics, robot, q, v, x, w, 3e-3, passive=True)
    plain = PRODUCTS[dynamics](robot, q, v, x, w)
    for value, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, other, atol=1e-7 * np.abs(expected).max(), rtol=0)
    for block in (0, 2):  # negative control
        assert np.abs(plain[block] - expected[block]).max() > 1e-2 * np.abs(expected[block]).max()
    many = PRODUCTS[dynamics](robot, np.stack([q, q]), v, x, w, passive=True)
    inside = jax.jit(lambda m: PRODUCTS[dynamics](robot.with_gravity(m), q, v, x, w, passive=True))
    for value, other in zip(found, inside(np.asarray(robot.gravity)), strict=True):
        close(other, value)  # of a robot whose numbers are data
    for value, row, tensor in zip(found, many, TENSORS[dynamics](robot, q, v, x, passive=True), strict=True):
        close(np.tensordot(w, tensor, axes=1), value)
        close(row[1], value)


@pytest.mark.further
@pytest.mark.parametrize("bodies", [3, further(8)])
@pytest.mark.parametrize("dynamics", always(FIRST, "inverse"))
def test_definition_by_automatic_differentiation(dynamics, bodies, rng):
    """All components; all joints, and a massless body; some under others. A few joints compile quickly."""
    kinds = MOVING if bodies > 3 else (mb.Spherical, mb.Prismatic, mb.Helical)
    robot = random_mechanism(rng, bodies, kinds, massless=0.5)
    q, v = sample(robot, rng)
    x, w = rng.standard_normal((2, robot.nv))
    name = f"{dynamics}_dynamics_second_derivatives"
    expected = jax.jit(partial(DEFINITIONS[name], robot))(q, v, x)
    found = TENSORS[dynamics](robot, q, v, x)
    for value, by_definition in zip(found, expected, strict=True):
        close(value, by_definition)
    name = f"{dynamics}_dynamics_hessian_product"
    weighted = jax.jit(partial(DEFINITIONS[name], robot))(q, v, x, w)
    for value, by_definition, tensor in zip(
        PRODUCTS[dynamics](robot, q, v, x, w), weighted, expected, strict=True
    ):
        close(value, by_definition)
        close(value, np.tensordot(w, tensor, axes=1))


@each_dynamics
def test_the_order_of_two_derivatives_is_the_bracket(dynamics, rng):
    """L_p L_l phi - L_l L_p phi = s^r_pl L_r phi, which is not zero within spherical and free joints."""
    robot = random_mechanism(rng, 6, (mb.Free, mb.Spherical, mb.Universal))
    q, v = sample(robot, rng)
    x, w = rng.standard_normal((2, robot.nv))
    d2_dqdq = PRODUCTS[dynamics](robot, q, v, x, w)[0]
    gradient = w @ FIRST[dynamics](robot, q, v, x)[0]
    bracket = np.einsum("rpl,r->lp", structure_functions(robot), gradient)
    close(d2_dqdq - d2_dqdq.T, bracket, 1e-11 * np.max(np.abs(d2_dqdq)) / np.max(np.abs(bracket)))
    assert np.max(np.abs(bracket)) > 1e-2 * np.max(np.abs(d2_dqdq))


def test_christoffel_symbols_are_in_it(rng):
    """d2tau_i/dv_j dv_k = Gamma_ijk + Gamma_ikj, L_k H_ij = Gamma_ikj + Gamma_jki; H^-1 by the same."""
    robot = random_mechanism(rng, 6, MOVING)
    q, v = sample(robot, rng)
    a, w = rng.standard_normal((2, robot.nv))
    Gamma, inverse = mb.christoffel_symbols(robot, q), mb.inverse_mass_matrix(robot, q)
    _, _, d2_dvdv, d2_dadq = mb.inverse_dynamics_hessian_product(robot, q, v, a, w)
    close(d2_dvdv, np.einsum("i,ijk->jk", w, Gamma + np.swapaxes(Gamma, 1, 2)), 1e-12)
    H_change = np.einsum("ikj->ijk", Gamma) + np.einsum("jki->ijk", Gamma)
    close(d2_dadq, np.einsum("i,ijk->jk", w, H_change), 1e-12)
    _, _, d2_dvdv, d2_dtaudq = mb.forward_dynamics_hessian_product(robot, q, v, a, w)
    close(d2_dvdv, -np.einsum("i,ijk->jk", inverse @ w, Gamma + np.swapaxes(Gamma, 1, 2)), 1e-11)
    close(d2_dtaudq, -np.einsum("jm,imk,i->jk", inverse, H_change, inverse @ w), 1e-10)
    assert np.max(np.abs(d2_dvdv - 2 * np.einsum("i,ijk->jk", inverse @ w, Gamma))) > 1e-2


@each_dynamics
def test_second_order_prediction_along_displace(dynamics, rng):
    """phi(displace(q, t xi), v + t dv, x + t dx) to second order: the error falls as t^3."""
    function = {"inverse": mb.inverse_dynamics, "forward": mb.forward_dynamics}[dynamics]
    robot = random_mechanism(rng, 4, (mb.Free, mb.Spherical, mb.Universal, mb.Helical))
    q, v = sample(robot, rng)
    x, w, xi, dv, dx = rng.standard_normal((5, robot.nv))
    gradient = [w @ part for part in FIRST[dynamics](robot, q, v, x)]
    qq, vq, vv, xq = PRODUCTS[dynamics](robot, q, v, x, w)
    slope = gradient[0] @ xi + gradient[1] @ dv + gradient[2] @ dx
    bend = xi @ qq @ xi + 2.0 * dv @ vq @ xi + dv @ vv @ dv + 2.0 * dx @ xq @ xi

    def error(t, bend):
        moved = function(robot, mb.displace(robot, q, t * xi), v + t * dv, x + t * dx)
        return abs(w @ (moved - function(robot, q, v, x)) - t * slope - t * t / 2.0 * bend)

    assert np.log2(error(2e-3, bend) / error(1e-3, bend)) == pytest.approx(3.0, abs=0.1)
    wrong = bend - dx @ xq @ xi  # a control: half of a mixed term
    assert np.log2(error(2e-3, wrong) / error(1e-3, wrong)) == pytest.approx(2.0, abs=0.1)


@each_dynamics
def test_columns_on_different_branches(dynamics, rng):
    """The inverse dynamics' entries are zero; the forward dynamics' are zero between trees only."""
    robot = random_mechanism(rng, 9, MOVING, trees=2)
    q, v = sample(robot, rng)
    x, w = rng.standard_normal((2, robot.nv))
    moves = robot.kinematics.moves.astype(float)
    apart = moves.T @ moves == 0.0
    if dynamics == "forward":
        H = (mb.mass_matrix(robot, q) != 0.0).astype(float)
        apart = np.linalg.matrix_power(H, robot.nv) == 0.0
    assert apart.any()
    for part in PRODUCTS[dynamics](robot, q, v, x, w):
        assert not part[apart].any()
    for part in TENSORS[dynamics](robot, q, v, x):
        assert not part[:, apart].any()


@each_dynamics
def test_armature_of_a_free_joint(dynamics, rng):
    """Its bias is of degree two in v, so that it changes d2_dvdv; against differences."""
    mechanism = mb.Mechanism()
    for name, parent, joint, armature in (
        ("trunk", "world", mb.Free(), [0.3, 0.3, 0.3, 0.7, 0.7, 0.7]),
        ("ball", "trunk", mb.Spherical(), [0.2, 0.2, 0.2]),
        ("tail", "ball", mb.Revolute((0.0, 1.0, 0.0)), 0.5),
    ):
        mechanism.add_body(name, **random_body(rng))
        mechanism.add_joint(name, parent, name, joint, random_placement(rng), armature=armature)
    robot = mechanism.build()
    q, v = sample(robot, rng)
    x, w = rng.standard_normal((2, robot.nv))
    found = PRODUCTS[dynamics](robot, q, v, x, w)
    for value, expected, tensor in zip(
        found,
        by_differences(dynamics, robot, q, v, x, w),
        TENSORS[dynamics](robot, q, v, x),
        strict=True,
    ):
        close(value, expected)
        close(np.tensordot(w, tensor, axes=1), value, 1e-11)


def test_dynamics_of_closed_chains_by_their_spanning_tree(rng):
    """Both ways, of which JAX takes second derivatives; the solution and its rate are those of the loops."""
    robot = model("four-bar")
    q, (v, x) = robot.neutral(), rng.standard_normal((2, robot.nv))
    q_s = mb.close_loops(robot, q).spanning
    projected = ProjectedDynamics(robot.kinematics.at_solution(q_s), robot.spanning_tree.traced)

    def forces(q, v, x):
        return projected.inverse_dynamics_at(q, v, x), projected.forward_dynamics_at(q, v, x)

    (tau, a), (slope, _) = jax.jit(lambda *at: jax.jvp(forces, at, (jnp.ones(1), 0 * v, 0 * x)))(q, v, x)
    close(tau, mb.inverse_dynamics(robot, q, v, x), 1e-13)
    close(a, mb.forward_dynamics(robot, q, v, x), 1e-13)
    close(slope, mb.inverse_dynamics_derivatives(robot, q, v, x)[0][:, 0], 1e-13)


@pytest.mark.further  # which takes a quarter of a minute to compile
@pytest.mark.timeout(1200)
def test_closed_chains(rng):
    """In JAX, compiled again: against differences, bad input, rows, solved loops, `out`."""
    robot = model("four-bar")
    q, v = configurations(robot, rng)
    x, w = rng.standard_normal((2, robot.nv))
    found = mb.forward_dynamics_hessian_product(robot, q, v, x, w)
    for value, expected in zip(found, by_differences("forward", robot, q, v, x, w), strict=True):
        close(value, expected, 1e-7)
    out = np.empty((2, 4, robot.nv, robot.nv))
    closed = mb.close_loops(robot, [q, q])
    rows = mb.forward_dynamics_hessian_product(robot, closed, v, x, w, out=out)
    assert all(np.shares_memory(part, out) for part in rows)
    close(out[1], np.stack(found), 1e-11)
    with pytest.raises(NonFiniteError, match="tau"):
        mb.forward_dynamics_hessian_product(robot, q, v, np.nan * x, w)
    with pytest.raises(ModelError, match="by the model"):
        Program(robot.kinematics, robot.gravity).evaluate(
            "forward_dynamics_hessian_product", (q, v, x, w), None
        )
