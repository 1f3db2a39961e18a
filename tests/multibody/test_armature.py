"""Armature: a constant metric of the joints' own velocities, in the definition and in every recursion.

Against MuJoCo, against Koszul's formula of diag(a) in the brackets of the frame, and against a geared rotor
that is a body of its own, whose limit for a large ratio it is.
"""

import pickle
from functools import partial

import jax
import numpy as np
import pytest
from cases import always
from closed_chains import PLANS
from mechanisms import (
    MOVING,
    armed,
    assemble,
    derivative_along,
    random_body,
    random_mechanism,
    sample,
    structure_functions,
)
from recursion_functions import FUNCTIONS, configurations, with_tip

import connections as cn
from connections import control
from connections import multibody as mb
from connections.checks import MetricError, ModelError
from connections.multibody.definition.recursions import DEFINITIONS
from connections.multibody.program.table import BODY_FACTOR, RECURSIONS
from connections.sweeps.fingerprint import fingerprint

TOL = 1e-12


def close(actual, expected, tol=TOL):
    scale = np.max(np.abs(expected))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tol * scale)


def gap(actual, expected):
    return np.max(np.abs(np.asarray(actual) - np.asarray(expected))) / np.max(np.abs(expected))


def bare(model):
    """The model without armature."""
    return model.with_armature(dict.fromkeys(model.armature, 0.0))


@pytest.fixture(scope="module")
def tree():
    """Every joint type with armature, two joints without, and bodies without mass."""
    rng = np.random.default_rng(8)
    robot = armed(random_mechanism(rng, 10, MOVING, trees=2, massless=0.4), rng, 1.0)
    return with_tip(robot.with_armature(dict.fromkeys(robot.joint_names[-2:], 0.0)))


def of_joints(model):
    """Gamma_ijk, (nv, nv, nv), of the constant metric diag(a) in the frame of v, by Koszul's formula."""
    a, s = model.kinematics.tree.armature, structure_functions(model)
    low = a[:, None, None] * s  # <<X_k, [X_i, X_j]>> with the first index k
    return 0.5 * (low - np.einsum("jki->ijk", low) - np.einsum("kji->ijk", low))


# --- trees --------------------------------------------------------------------------------------------------


def test_what_is_armed(tree):
    kinds = {
        type(joint)
        for joint, a in zip(tree.kinematics.joints, tree.armature.values(), strict=True)
        if a.any()
    }
    assert kinds == set(MOVING) and not all(a.any() for a in tree.armature.values())


def test_the_oracle_is_torsion_free_and_metric(tree):
    """Gamma_ijk - Gamma_ikj = s_ijk, and Gamma_ijk + Gamma_kji = X_j a_ik = 0."""
    Gamma, a, s = of_joints(tree), tree.kinematics.tree.armature, structure_functions(tree)
    close(Gamma - np.swapaxes(Gamma, 1, 2), a[:, None, None] * s)
    assert np.max(np.abs(Gamma + np.swapaxes(Gamma, 0, 2))) == 0.0


@pytest.mark.parametrize("factor", ["christoffel", "force_cross"])
def test_what_is_added_is_koszuls(tree, factor, rng):
    """H gains diag(a), Gamma and C those of the constant metric, with every body-level factor."""
    without, (q, v), Gamma = bare(tree), sample(tree, rng, 11), of_joints(tree)
    a, C = tree.kinematics.tree.armature, np.einsum("ijk,nj->nik", Gamma, v)
    w = rng.standard_normal(v.shape)

    def added(function, *arguments, **options):
        return function(tree, *arguments, **options) - function(without, *arguments, **options)

    def same(ours, expected, scale):
        assert np.max(np.abs(ours - expected)) < 1e-12 * np.max(np.abs(scale))

    same(added(mb.mass_matrix, q), np.diag(a), mb.mass_matrix(tree, q))
    same(added(mb.mass_matrix_rate, q, v), 0.0, mb.mass_matrix_rate(tree, q, v))
    options = {"body_factor": factor}
    symbols = mb.christoffel_symbols(tree, q, **options)
    same(added(mb.christoffel_symbols, q, **options), Gamma, symbols)
    same(mb.christoffel_symbols(tree, q[0], **options), symbols[0], symbols)
    same(added(mb.coriolis_matrix, q, v, **options), C, mb.coriolis_matrix(tree, q, v, **options))
    for function, matrix in (
        (mb.coriolis_product, C),
        (mb.coriolis_transpose_product, np.swapaxes(C, 1, 2)),
    ):
        same(added(function, q, v, w, **options), np.einsum("nik,nk->ni", matrix, w), function(tree, q, v, w))
    tau = a * w + np.einsum("nik,nk->ni", C, v)
    same(added(mb.inverse_dynamics, q, v, w), tau, mb.inverse_dynamics(tree, q, v, w))
    same(added(mb.gravity, q), 0.0, mb.gravity(tree, q))
    assert np.max(np.abs(C)) > 1e-2 and np.max(np.abs(np.einsum("nik,nk->ni", C, v))) > 1e-2


DEFINED = [name for name, row in RECURSIONS.items() if row.choice in (None, BODY_FACTOR)]


#: Each definition compiles for seconds; these stand for the others.
QUICK = ("mass_matrix", "inverse_dynamics")


@pytest.mark.parametrize("name", always(DEFINED, *QUICK))
def test_recursions_agree_with_the_definition(tree, name, rng):
    row = RECURSIONS[name]
    (q, v), others = sample(tree, rng), rng.standard_normal((2, tree.nv))
    vectors = [v, *others][: len(row.vectors)]
    for choice in (("christoffel",), ("force_cross",)) if row.choice else ((),):
        definition = partial(DEFINITIONS[name], tree, **({"body_factor": choice[0]} if choice else {}))
        theirs = np.asarray(jax.jit(definition)(q, *vectors))
        key = f"{name} with torsion" if choice == ("force_cross",) else name
        function, arguments, _ = FUNCTIONS[key]
        assert len(arguments) == 1 + len(vectors)
        ours = function(tree, q, *vectors)
        close(ours, theirs, 1e-10)
        rows = [np.stack([x] * 9) for x in (q, *vectors)]  # vector registers and the remainder
        close(function(tree, *rows)[-1], ours)
        if name in ("mass_matrix", "inverse_mass_matrix", "forward_dynamics", "christoffel_symbols"):
            assert gap(function(bare(tree), q, *vectors), ours) > 1e-3  # negative control


def test_forward_dynamics_and_its_derivatives(tree, rng):
    (q, v), w = sample(tree, rng, 6), rng.standard_normal((6, tree.nv))
    close(mb.forward_dynamics(tree, q, v, mb.inverse_dynamics(tree, q, v, w)), w, 1e-9)
    close(
        mb.inverse_mass_matrix(tree, q) @ mb.mass_matrix(tree, q),
        np.broadcast_to(np.eye(tree.nv), (6, tree.nv, tree.nv)),
        1e-9,
    )
    along = rng.standard_normal(tree.nv) / 10.0
    dq, dv, H = mb.inverse_dynamics_derivatives(tree, q[0], v[0], w[0])
    close(H, mb.mass_matrix(tree, q[0]))

    def tau(p):
        return mb.inverse_dynamics(tree, p, np.broadcast_to(v[0], (len(p), tree.nv)), w[0])

    close(dq @ along, derivative_along(tree, tau, q[0], along), 1e-8)
    steps = 1e-3 * np.multiply.outer([-1.0, 1.0], along)
    low, high = mb.inverse_dynamics(tree, q[0], v[0] + steps, w[0])
    close(dv @ along, (high - low) / 2e-3, 1e-9)  # tau is of degree two in v


@pytest.mark.further
def test_the_connection_is_levi_civitas_of_H(rng):
    """The recursion's, the definition's, and Koszul's formula of H, in a frame with qdot != v."""
    kinds = (mb.Free, mb.Spherical, mb.Universal, mb.Prismatic)
    robot = armed(random_mechanism(rng, 4, kinds), rng, 1.0)
    q = robot.random(rng)
    koszul = cn.LeviCivita(robot.definition.metric).coefficients(q)
    close(robot.definition.connection.coefficients(q), koszul, 1e-10)
    close(robot.connection.coefficients(q), koszul, 1e-10)
    close(robot.connection.curvature(q), robot.definition.connection.curvature(q), 1e-8)
    robot.definition.connection.explain(q)  # A is the derivative of the embedding, rotors included
    assert gap(bare(robot).connection.coefficients(q), koszul) > 1e-2


@pytest.mark.further
def test_inside_jax(rng):
    """Values and derivatives of traced recursions are those of the definition."""
    robot = armed(random_mechanism(rng, 3, (mb.Free, mb.Spherical, mb.Revolute)), rng, 1.0)
    (q, v), w = sample(robot, rng), rng.standard_normal(robot.nv)
    for name in ("inverse_dynamics", "forward_dynamics", "coriolis_product", "coriolis_transpose_product"):
        choice = ("christoffel",) if RECURSIONS[name].choice else ()

        def ours(q, *x, name=name, choice=choice):
            return robot.traced(name, q, *x, chosen=choice)

        def theirs(q, *x, name=name, choice=choice):
            return DEFINITIONS[name](robot, q, *x, *choice)

        X, pairs = robot.frame.matrix(q), [jax.jit(jax.jacfwd(f, (0, 1, 2)))(q, v, w) for f in (ours, theirs)]
        close(pairs[0][0] @ X, pairs[1][0] @ X, 1e-9)
        close(pairs[0][1], pairs[1][1], 1e-9)
        close(pairs[0][2], pairs[1][2], 1e-9)


def test_energy_is_kept(rng):
    """A free motion with armature keeps v^T H v / 2 + U; without it in H, the sum is not kept."""
    robot = armed(random_mechanism(rng, 4, (mb.Free, mb.Spherical, mb.Revolute, mb.Prismatic)), rng, 1.0)
    q, v = sample(robot, rng)
    motion = robot.system().simulate(q, v, np.linspace(0.0, 0.5, 6))

    def energy(of):
        H = mb.mass_matrix(of, motion.q)
        potential = np.array([float(robot.potential_at(p)) for p in np.asarray(motion.q)])
        return 0.5 * np.einsum("ti,tij,tj->t", motion.v, H, motion.v) + potential

    assert np.ptp(energy(robot)) < 1e-8 * np.max(np.abs(energy(robot)))
    assert np.ptp(energy(bare(robot))) > 1e-3 * np.max(np.abs(energy(robot)))


# --- closed chains ------------------------------------------------------------------------------------------

CLOSED = ("four-bar", "four-bar with branches", "loop with balls", "gear train", "legged robot", "cam")


@pytest.mark.further
@pytest.mark.parametrize("name", always(CLOSED, "loop with balls"))
def test_closed_chains(name, rng):
    """H = G^T (H_s + diag(a)) G; C of Gamma; the definition; dependent joints have armature, too."""
    robot = armed(PLANS[name]().build(), rng, 0.8)
    q, v = configurations(robot, rng)
    spanning, G = robot.spanning_tree, robot.program.solution(q)[1]
    q_s = mb.close_loops(robot, q).spanning
    dependent = set(robot.armature) - set(robot.joint_names)
    assert any(robot.armature[joint].any() for joint in dependent)
    H = mb.mass_matrix(robot, q)
    close(H, G.T @ mb.mass_matrix(spanning, q_s) @ G)
    close(H - mb.mass_matrix(bare(robot), q), G.T @ np.diag(spanning.kinematics.tree.armature) @ G, 1e-10)
    close(np.asarray(robot.definition.metric.matrix(q)), H, 1e-10)
    for factor in ("christoffel", "force_cross", "least"):
        Gamma = mb.christoffel_symbols(robot, q, body_factor=factor)
        C = mb.coriolis_matrix(robot, q, v, body_factor=factor)
        close(C, np.einsum("ijk,j->ik", Gamma, v), 1e-11)
        close(C, np.asarray(DEFINITIONS["coriolis_matrix"](robot, q, v, factor)), 1e-9)
        close(C + C.T, mb.mass_matrix_rate(robot, q, v), 1e-11)
    bias = mb.inverse_dynamics(robot, q, v, 0.0 * v) - mb.gravity(robot, q)
    close(C @ v, bias, 1e-10)
    w = rng.standard_normal(robot.nv)
    close(mb.forward_dynamics(robot, q, v, mb.inverse_dynamics(robot, q, v, w)), w, 1e-8)
    assert gap(mb.mass_matrix(bare(robot), q), H) > 1e-2


@pytest.mark.further
def test_a_joint_whose_only_inertia_is_armature(rng):
    """A body without mass at the end of a cluster, and one in a tree."""
    for coupled in (False, True):
        mechanism = mb.Mechanism()
        mechanism.add_body("arm", **random_body(rng))
        mechanism.add_joint("shoulder", "world", "arm", mb.Revolute((0, 0, 1)), armature=0.2)
        mechanism.add_body("drum")
        mechanism.add_joint("spin", "arm", "drum", mb.Revolute((0, 1, 0)), armature=0.3)
        if coupled:
            mechanism.add_coupling("belt", {"shoulder": 2.0, "spin": 1.0}, independent=["spin"])
        robot = mechanism.build()
        q = np.stack([robot.random(rng) for _ in range(19)])
        H = mb.mass_matrix(robot, q)
        close(H, np.asarray(robot.definition.metric.matrix(q)))
        for _ in range(2):  # nothing is left over from the rows before
            close(mb.mass_matrix(robot, q), H)
        close(mb.inverse_mass_matrix(robot, q) @ H, np.broadcast_to(np.eye(robot.nv), H.shape))
        if not coupled:
            bare = robot.with_armature({"spin": 0.0})
            with pytest.raises(MetricError, match="singular along joint 'spin'.*give 'drum' an inertia"):
                mb.inverse_mass_matrix(bare, q)


def test_the_limit_of_a_geared_rotor(rng):
    """A rotor of inertia a / n^2 on the link before, at n times the joint's angle: H and C converge as 1 / n.

    The rotor is a body of its own, as in `shared/robots/revolute_rotor_chain.urdf`, whose axis moves with the
    link that carries it. Armature is what is left of it if its axis were at rest.
    """
    ratios, a, parts = np.array([30.0, 300.0, 3000.0]), 0.4, [random_body(rng) for _ in range(2)]

    def arm(ratio):
        mechanism = mb.Mechanism()
        mechanism.add_body("upper", **parts[0])
        mechanism.add_body("lower", **parts[1])
        mechanism.add_joint("shoulder", "world", "upper", mb.Revolute((0, 1, 0)))
        placement = np.eye(4)
        placement[0, 3] = 0.5
        given = {} if np.isfinite(ratio) else {"armature": a}
        mechanism.add_joint("elbow", "upper", "lower", mb.Revolute((1, 1, 0.5)), placement, **given)
        if np.isfinite(ratio):
            mechanism.add_body("rotor", inertia=a / ratio**2 * np.eye(3))
            mechanism.add_joint("motor", "upper", "rotor", mb.Revolute((1, 1, 0.5)), placement)
            mechanism.add_coupling("gear", {"motor": 1.0, "elbow": -ratio}, independent=["elbow"])
        return mechanism.build()

    limit = arm(np.inf)
    (q, v), gaps = sample(limit, rng), {}
    for function, given in (
        (mb.mass_matrix, (q,)),
        (mb.coriolis_matrix, (q, v)),
        (mb.christoffel_symbols, (q,)),
    ):
        there = function(limit, *given)
        gaps[function] = [np.max(np.abs(function(arm(ratio), *given) - there)) for ratio in ratios]
        assert max(gaps[function]) < 2.0 * a / ratios[0]
    first, *others = gaps[mb.mass_matrix]
    np.testing.assert_allclose(others, first * np.array([0.1, 0.01]), rtol=0.1)
    assert gap(mb.mass_matrix(limit.with_armature({"elbow": 0.0}), q), mb.mass_matrix(limit, q)) > 0.1


# --- the model ----------------------------------------------------------------------------------------------


def test_other_models_of_the_same_robot_keep_it(rng):
    robot = armed(random_mechanism(rng, 3, (mb.Free, mb.Revolute, mb.Spherical)), rng, 1.0)
    pi = mb.inertial_parameters(robot)
    others = (
        robot.with_gravity((0, 0, 1)),
        robot.weightless,
        robot.with_frames({"tool": (robot.body_names[-1], np.eye(4))}),
        robot.with_inertial_parameters(2.0 * pi),
        control.with_payload(robot, robot.body_names[1], 1.0, (0.1, 0, 0)),
        pickle.loads(pickle.dumps(robot)),
        robot.with_armature({}),
    )
    for other in others:
        for name, a in robot.armature.items():
            np.testing.assert_array_equal(other.armature[name], a)
    q = robot.random(rng)
    close(mb.mass_matrix(others[5], q), mb.mass_matrix(robot, q))
    assert fingerprint(robot) == fingerprint(others[-1]) != fingerprint(bare(robot))
    loop = armed(PLANS["four-bar"]().build(), rng, 1.0)
    for other in (control.with_payload(loop, loop.body_names[1], 1.0, (0.1, 0, 0)), loop.spanning_tree):
        assert {name: a.tolist() for name, a in other.armature.items()} == {
            name: a.tolist() for name, a in loop.armature.items()
        }
    first = next(iter(robot.armature.values()))
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1.0


BAD = {
    "negative": (mb.Revolute((0, 0, 1)), -0.1, "joint 'j': armature is negative: -0.1"),
    "not finite": (mb.Revolute((0, 0, 1)), np.nan, "joint 'j': armature"),
    "text": (mb.Revolute((0, 0, 1)), "much", "joint 'j': armature"),
    "too many": (mb.Universal((1, 0, 0), (0, 1, 0)), (1.0, 2.0, 3.0), r"joint 'j': armature.*\(2,\)"),
    "a ball of three": (
        mb.Spherical(),
        (1.0, 2.0, 3.0),
        "joint 'j': armature: expected one number for the three",
    ),
    "a free joint of six": (
        mb.Free(),
        np.arange(6.0),
        "joint 'j': armature: expected one number for the three",
    ),
    "fixed": (mb.Fixed(), 1.0, "joint 'j': armature: the joint does not move"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_armature_is_refused(case, rng):
    joint, armature, message = BAD[case]
    mechanism = mb.Mechanism()
    mechanism.add_body("b", **random_body(rng))
    with pytest.raises(ModelError, match=message):
        mechanism.add_joint("j", "world", "b", joint, armature=armature)
    mechanism.add_joint("j", "world", "b", joint, armature=0.0)  # nothing was stored
    if joint.nv:
        robot = mechanism.build()
        with pytest.raises(ModelError, match=message):
            robot.with_armature({"j": armature})
        with pytest.raises(ModelError, match="armature: there is no joint 'k'. The joints are j"):
            robot.with_armature({"k": 1.0})


# --- what uses a model --------------------------------------------------------------------------------------


def test_regressors_are_without_armature(tree, rng):
    """Y pi is the force without armature, with which the rest is diag(a) a_r + C v_r of the joints."""
    (q, v), (v_r, a_r) = sample(tree, rng), rng.standard_normal((2, tree.nv))
    pi, a = mb.inertial_parameters(tree).ravel(), tree.kinematics.tree.armature
    C = np.einsum("ijk,j->ik", of_joints(tree), v)
    force = tree.system().reference_force(q, v, v_r, a_r)
    close(mb.regressor(tree, q, v, v_r, a_r) @ pi, force - a * a_r - C @ v_r, 1e-11)
    Y_p, Y_e = mb.momentum_regressor(tree, q, v)
    close(Y_p @ pi, tree.system().momentum(q, v) - a * v, 1e-11)
    close(Y_e @ pi, tree.system().momentum_rate(q, v) - C.T @ v, 1e-11)
    assert gap(mb.regressor(tree, q, v, v_r, a_r) @ pi, force) > 1e-3


def test_identification_takes_armature_as_known(rng):
    kinds = (mb.Revolute, mb.Universal)
    robot = armed(random_mechanism(rng, 2, kinds), rng, 1.0)
    t = np.linspace(0.0, 4.0, 8001)
    phase, rate = rng.uniform(0, 6, (2, robot.nv)), 2.0 + np.arange(robot.nv)
    phase = phase[0]
    q, v = np.sin(np.outer(t, rate) + phase), rate * np.cos(np.outer(t, rate) + phase)
    tau = mb.inverse_dynamics(robot, q, v, -(rate**2) * q)

    def errors(model):
        found = control.identify(model, q, v, tau, t, cutoff=8.0, consistent=False)
        pi = mb.inertial_parameters(robot).ravel()
        return np.max(np.abs(found.base - found.combinations @ pi)) / np.max(np.abs(found.combinations @ pi))

    assert errors(robot) < 1e-4
    assert errors(bare(robot)) > 1e-2  # negative control


def test_the_centre_of_mass_does_not_decouple_from_an_armed_base(rng):
    robot = assemble(rng, (mb.Free, mb.Revolute, mb.Spherical), (-1, 0, 1))
    names = robot.joint_names
    inner = robot.with_armature({names[1]: 0.5, names[2]: 0.7})
    q = inner.random(rng)
    H = control.CentroidalCoordinates(inner).mass_matrix(q)
    assert np.max(np.abs(H[:3, 3:])) < 1e-12 * np.max(np.abs(H))
    with pytest.raises(ModelError, match="has armature"):
        control.CentroidalCoordinates(inner.with_armature({names[0]: 0.1}))


@pytest.mark.further
def test_momenta_of_a_robot_whose_base_has_armature(rng):
    robot = assemble(rng, (mb.Free, mb.Revolute), (-1, 0))
    base, elbow = robot.joint_names
    inner = robot.with_armature({elbow: 0.5})
    q, v = sample(inner, rng)
    forms = np.asarray(mb.momentum_forms(inner)(q))
    # <<xi_Q, v>> = xi_Q^T H v, with the free joint's twist of a unit translation along x of the world
    X, placed = np.asarray(inner.frame.matrix(q)), inner.kinematics.placements[0, :3, :3]
    xi = np.linalg.lstsq(X, np.r_[placed[0], np.zeros(inner.nq - 3)], rcond=None)[0]
    close(forms[3] @ v, xi @ mb.mass_matrix(inner, q) @ v, 1e-11)
    with pytest.raises(ModelError, match="no joint that has armature"):
        mb.momentum_forms(inner.with_armature({base: 0.1}))
