"""Closed chains against references of other make, and the passport of their Coriolis matrices.

Each mechanism of `closed_chains` is solved a second time in NumPy (`closed_oracles.Assembly`), H and Gamma by
differences of poses; where G is constant, Pinocchio's spanning tree is reduced by a G written by hand.
"""

from pathlib import Path

import numpy as np
import pytest
from cases import always, further
from closed_chains import PLANS
from closed_oracles import Assembly, ReducedPinocchio, four_bar_inertia, pinocchio_of
from closed_plan import Plan, at, plan_of_urdf
from closed_ratios import RATIOS
from mechanisms import derivative_along, move, structure_functions
from pinocchio_oracle import PinocchioRobot

from connections import multibody as mb

DATA = Path(__file__).parents[1] / "data" / "urdf_plus"
TOL = 1e-10
LEFT_OUT = 1e-2  # a negative control leaves at least this

pytestmark = pytest.mark.filterwarnings("ignore::connections.multibody.InertiaWarning")

#: References of the URDF+ files whose loops can be assembled in several ways.
REFERENCES = {
    "four_bar": {"joint1": 0.7, "joint2": -0.7, "joint3": 0.7},
    "six_bar": {"joint1": 0.4, "joint2": 0.9, "joint3": -0.8, "joint4": -0.6, "joint5": 1.6},
    "planar_leg_linkage": {
        "base_to_thigh": 0.2,
        "thigh_to_driver": 0.7,
        "thigh_to_support": 0.7,
        "driver_to_foot": -0.7,
    },
}
VELOCITIES = {
    "four_bar": 1,
    "six_bar": 3,
    "planar_leg_linkage": 2,
    "revolute_rotor_chain": 3,
    "mit_humanoid_leg": 5,
    "mini_cheetah": 18,
    "mit_humanoid": 24,
}
ALL = [*PLANS, *VELOCITIES]
#: A gear, loops of one velocity and of several, in the plane and in space, by a function, under a free base.
TYPICAL = ("gear train", "four-bar", "spatial loop", "closed by: universal", "legged robot")
PASSPORT = [name for name in ALL if name != "closed by: function"]  # the cam has a function, too
#: The cam, whose functions JAX compiles, has its own Coriolis matrix by default.
each_of_the_passport = pytest.mark.parametrize(
    "name", [further(name) if name == "cam" else name for name in PASSPORT]
)


@pytest.fixture(scope="module")
def models():
    cache = {}

    def get(name):
        if name not in cache:
            path = DATA / f"{name}.urdf"
            files = name in VELOCITIES
            cache[name] = (
                mb.from_urdf(path, reference=REFERENCES.get(name)) if files else PLANS[name]().build()
            )
        return cache[name]

    return get


def spread_of(name):
    """How far from the reference all loops close; some velocities are lengths of legs, in m."""
    return 0.05 if name.endswith("its legs") else 0.2


def near_reference(model, rng, *batch, spread=0.2):
    """Configurations (..., nq) about the neutral one and velocities (..., nv)."""
    xi = spread * rng.uniform(-1.0, 1.0, (*batch, model.nv))
    return move(model, model.neutral(), xi), rng.standard_normal((*batch, model.nv))


def each(function, model, *rows, **chosen):
    """A function of single configurations, row by row: its batches are others' to test."""
    return np.stack([function(model, *row, **chosen) for row in zip(*rows, strict=True)])


def gap(*terms, scale=None):
    """Largest entry of the sum of `terms` relative to the largest entry of them, or of `scale`."""
    largest = max(np.max(np.abs(term)) for term in (terms if scale is None else (scale,)))
    return np.max(np.abs(sum(terms))) / largest


def transposed(matrix):
    return np.swapaxes(matrix, -1, -2)


def spanning(model, q, joints):
    """Configurations of all joints, one after the other, (..., nx)."""
    at = model.spanning_configuration(q)
    return np.concatenate([np.asarray(at[joint]) for joint in joints], axis=-1)


@pytest.mark.parametrize("name", ALL)
def test_the_mechanism_moves_as_often_as_it_should(name, models):
    model = models(name)
    assert model.closed
    assert model.nv == (VELOCITIES[name] if name in VELOCITIES else PLANS[name]().nv)
    slices = [model.velocity_slice(joint) for joint in model.joint_names]
    np.testing.assert_array_equal(np.concatenate([np.arange(model.nv)[at] for at in slices]), range(model.nv))
    tree = model.cluster_tree
    assert sum(len(tree.nodes[node]["bodies"]) for node in tree) == len(model.body_names)
    assert [node for node in tree if tree.in_degree(node) == 0] == [("ground",)]
    assert max(dict(tree.in_degree()).values()) == 1


# --- Pinocchio's spanning tree under a constant G ---------------------------------------------------------


def reduced(name, model, ratios=None):
    path = DATA / f"{name}.urdf"
    robot = PinocchioRobot(path) if name in VELOCITIES else pinocchio_of(PLANS[name]())
    return ReducedPinocchio(robot, model, ratios or RATIOS[name])


@pytest.mark.parametrize("name", RATIOS)
def test_constant_G_against_pinocchio(name, models, rng):
    model = models(name)
    oracle = reduced(name, model)
    q, v = near_reference(model, rng, 3)
    a = rng.standard_normal(v.shape)
    ours = {
        "H": mb.mass_matrix(model, q),
        "C": mb.coriolis_matrix(model, q, v),
        "Gamma": mb.christoffel_symbols(model, q),
        "tau": mb.inverse_dynamics(model, q, v, a),
    }
    theirs = {
        "H": [oracle.mass_matrix(x) for x in q],
        "C": [oracle.coriolis_matrix(*state) for state in zip(q, v, strict=True)],
        "Gamma": [oracle.christoffel_symbols(x) for x in q],
        "tau": [oracle.inverse_dynamics(*state) for state in zip(q, v, a, strict=True)],
    }
    bound = {key: np.max(np.abs(theirs["H"])) for key in ours}
    for key, value in ours.items():
        assert gap(value, -np.stack(theirs[key]), scale=bound[key]) < 1e-9, key
    joints = oracle.robot.joint_names
    expected = np.stack([oracle.configuration(x) for x in q])
    np.testing.assert_allclose(spanning(model, q, joints), expected, atol=1e-12)
    if name != "four_bar":  # a parallelogram of point masses has Gamma = 0
        assert gap(ours["C"], -transposed(np.stack(theirs["C"]))) > LEFT_OUT  # negative controls
    wrong = {
        joint: ({other: -factor for other, factor in factors.items()}, offset)
        for joint, (factors, offset) in RATIOS[name].items()
    }
    opposite = reduced(name, model, wrong)
    assert gap(ours["H"], -np.stack([opposite.mass_matrix(x) for x in q])) > 1e-4


# --- the same mechanism, assembled and differentiated in NumPy --------------------------------------------


def assembly(name, model):
    if name in VELOCITIES:
        return Assembly(plan_of_urdf(DATA / f"{name}.urdf", REFERENCES[name]), model)
    return Assembly(PLANS[name](), model)


@pytest.mark.parametrize(
    "name", always([name for name in (*PLANS, *REFERENCES) if name in PASSPORT], *TYPICAL)
)
def test_against_differences(name, models, rng):
    """Spanning configuration, H, Gamma and gravity; Koszul's formula on the differenced H."""
    model = models(name)
    oracle = assembly(name, model)
    q, _ = near_reference(model, rng, spread=spread_of(name))
    x = oracle.follow(q)
    joints = list(oracle.plan.joints)
    np.testing.assert_allclose(spanning(model, q, joints), x, atol=1e-11)
    H, Gamma = oracle.koszul(q)
    scale = max(np.max(np.abs(H)), np.max(np.abs(Gamma)))
    ours = mb.christoffel_symbols(model, q)
    assert gap(mb.mass_matrix(model, q), -H) < 1e-8
    assert gap(ours, -Gamma, scale=scale) < 1e-7
    steps = move(model, q, 1e-3 * np.multiply.outer([-2.0, -1.0, 1.0, 2.0], np.eye(model.nv)))
    heights = oracle.potential(oracle.close(oracle.with_independent(x, steps), 12, oracle.slope(x)))
    g = np.tensordot(np.array([1.0, -8.0, 8.0, -1.0]) / 12e-3, heights, axes=1)
    assert gap(mb.gravity(model, q), -g, scale=np.max(np.abs(H)) * 9.81) < 1e-8
    if model.nv > 1 and np.max(np.abs(Gamma)) > LEFT_OUT * np.max(np.abs(H)):  # negative control
        assert gap(np.swapaxes(ours, 0, 1), -Gamma) > LEFT_OUT


@pytest.mark.parametrize("crank", [further(0.1), 2.0, 4.5])
def test_four_bar_in_closed_form(crank, models):
    """H, Gamma_111 = H' / 2, and with it the oracle by differences."""
    model, plan = models("four-bar"), PLANS["four-bar"]()
    H, slope = four_bar_inertia(plan, crank)
    q = np.array([crank])
    by_differences = Assembly(plan, model).koszul(q)
    np.testing.assert_allclose(by_differences[0], [[H]], atol=1e-10)
    np.testing.assert_allclose(by_differences[1], [[[slope / 2.0]]], atol=1e-8)
    np.testing.assert_allclose(mb.mass_matrix(model, q), [[H]], rtol=1e-13)
    np.testing.assert_allclose(mb.christoffel_symbols(model, q), [[[slope / 2.0]]], rtol=1e-11)
    np.testing.assert_allclose(mb.coriolis_matrix(model, q, [2.0]), [[slope]], rtol=1e-11)
    np.testing.assert_allclose(mb.mass_matrix_rate(model, q, [2.0]), [[2.0 * slope]], rtol=1e-11)
    other = four_bar_inertia(plan, crank, side=-1.0)[0]  # negative control: the other assembly
    assert abs(mb.mass_matrix(model, q)[0, 0] - other) > LEFT_OUT


# --- the passport -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PASSPORT)
def test_coriolis_matrix(name, models, rng):
    """C v is the bias, Hdot = C + C^T, C = Gamma v by the middle index, C(q, 0) = 0, products with C."""
    model = models(name)
    q, v = near_reference(model, rng, 2, spread=spread_of(name))
    w = rng.standard_normal(v.shape)
    size = np.max(np.abs(mb.mass_matrix(model, q)))
    rate = each(mb.mass_matrix_rate, model, q, v)
    bias = each(mb.inverse_dynamics, model, q, v, 0.0 * v) - each(mb.gravity, model, q)
    for factor in ("christoffel", "force_cross", "least"):
        C = mb.coriolis_matrix(model, q, v, body_factor=factor)
        Gamma = mb.christoffel_symbols(model, q, body_factor=factor)
        scale = np.max(np.abs(C)) + size
        assert gap(np.einsum("nik,nk->ni", C, v), -bias, scale=scale) < TOL
        assert gap(rate, -C, -transposed(C), scale=scale) < TOL
        assert gap(np.einsum("nijk,nj->nik", Gamma, v), -C, scale=scale) < TOL
        assert not mb.coriolis_matrix(model, q, 0.0 * v, body_factor=factor).any()
        product = each(mb.coriolis_product, model, q, v, w, body_factor=factor)
        transpose = each(mb.coriolis_transpose_product, model, q, v, w, body_factor=factor)
        assert gap(product, -np.einsum("nik,nk->ni", C, w), scale=scale) < TOL
        assert gap(transpose, -np.einsum("nki,nk->ni", C, w), scale=scale) < TOL
        if model.nv > 1 and np.max(np.abs(C)) > LEFT_OUT * scale:  # negative controls: index; transposed
            assert gap(np.einsum("njik,nj->nik", Gamma, v), -C) > LEFT_OUT
            assert gap(np.einsum("nki,nk->ni", C, v), -bias) > LEFT_OUT


@each_of_the_passport
def test_derivatives_of_the_mass_matrix(name, models, rng):
    """Hdot along the motion by differences; T = 0 with [W] (21), D totally antisymmetric with [E] (11)."""
    model = models(name)
    q, v = near_reference(model, rng)
    v /= np.linalg.norm(v)
    H, rate = mb.mass_matrix(model, q), mb.mass_matrix_rate(model, q, v)
    along = derivative_along(model, lambda p: mb.mass_matrix(model, p), q, v)
    scale = np.max(np.abs(H)) + np.max(np.abs(rate))
    assert gap(rate, -along, scale=scale) < 1e-8
    Gamma = mb.christoffel_symbols(model, q)
    s_low = np.tensordot(H, structure_functions(model), axes=1)
    assert gap(Gamma, -np.swapaxes(Gamma, 1, 2), -s_low, scale=scale) < TOL
    D = Gamma - mb.christoffel_symbols(model, q, body_factor="force_cross")
    assert gap(D, np.swapaxes(D, 0, 1), scale=scale) < TOL
    assert gap(D, np.swapaxes(D, 1, 2), scale=scale) < TOL


@each_of_the_passport
def test_dynamics(name, models, rng):
    """tau = H a + C v + g, forward dynamics takes it back, H^-1 H = 1, Y pi = H a_r + C v_r + g."""
    model = models(name)
    q, v = near_reference(model, rng, 2)
    a, v_r = rng.standard_normal((2, *v.shape))
    H, g, C = mb.mass_matrix(model, q), each(mb.gravity, model, q), mb.coriolis_matrix(model, q, v)
    tau = each(mb.inverse_dynamics, model, q, v, a)
    inertial = np.einsum("nik,nk->ni", H, a)
    assert gap(tau, -inertial, -np.einsum("nik,nk->ni", C, v), -g) < TOL
    condition = np.max(np.linalg.cond(H))
    assert gap(each(mb.forward_dynamics, model, q, v, tau), -a) < max(TOL, 1e-13 * condition)
    inverse = each(mb.inverse_mass_matrix, model, q)
    assert np.max(np.abs(inverse @ H - np.eye(model.nv))) < max(TOL, 1e-13 * condition)
    Y = each(mb.regressor, model, q, v, v_r, a) @ mb.inertial_parameters(model).reshape(-1)
    scale = np.max(np.abs(tau)) + np.max(np.abs(Y))
    assert gap(Y, -inertial, -np.einsum("nik,nk->ni", C, v_r), -g, scale=scale) < TOL
    falling = each(mb.forward_dynamics, model.with_gravity((0.0, 0.0, 0.0)), q, v, tau)
    if np.max(np.abs(g)) > LEFT_OUT * np.max(np.abs(tau)):  # negative control: without gravity
        assert gap(falling, -a) > LEFT_OUT


@pytest.mark.parametrize("name", ["four-bar", "loop of wide joints"])
def test_G_without_its_derivative_fails(name, models, rng):
    """G^T C_s G alone, as if G were constant, leaves Hdot = C + C^T wrong; with G^T H_s Gdot it is C."""
    model = models(name)
    tree = mb.Model.of(model.kinematics.tree, model.gravity)
    q, v = near_reference(model, rng)
    q_s, G, LG = model.program.solution(q)
    G_dot = np.einsum("sjk,j->sk", LG, v)
    C_s, H_s = mb.coriolis_matrix(tree, q_s, G @ v), mb.mass_matrix(tree, q_s)
    constant = G.T @ C_s @ G
    C = constant + G.T @ H_s @ G_dot
    ours, rate = mb.coriolis_matrix(model, q, v), mb.mass_matrix_rate(model, q, v)
    assert gap(ours, -C) < TOL
    assert gap(rate, -constant, -constant.T) > LEFT_OUT  # negative controls
    assert gap(ours, -constant) > LEFT_OUT


def test_a_ball_that_depends_on_two_velocities():
    """It is the first dependent joint, whose number is -1: it must not count as independent in a bracket."""
    plan = Plan(3)
    plan.add("ball", "world", "rod", mb.Spherical(), at(0.1, 0.2, 0.0), (0.1, 0.3, -0.2, np.sqrt(0.86)))
    plan.add("slide", "rod", "bush", mb.Cylindrical((0.2, 1.0, 0.3)), at(0.4, 0.1, 0.2), (0.3, 0.2))
    plan.add("hinge", "world", "lever", mb.Revolute((1.0, 0.2, 0.1)), at(0.5, -0.3, 0.2), 0.4)
    tree = plan.mechanism().build()
    q = np.concatenate([plan.reference[name] for name in tree.joint_names])
    pose = dict(zip(tree.body_names, mb.forward_kinematics(tree, q), strict=True))
    end = np.linalg.inv(pose["lever"]) @ pose["bush"] @ at(0.2, 0.1, -0.1, (0.3, 0.4, 0.5))
    ends = at(0.2, 0.1, -0.1, (0.3, 0.4, 0.5)), end
    plan.loop("guide", "bush", "lever", mb.Cylindrical((0.0, 0.0, 1.0)), *ends, independent=["slide"])
    model = plan.build()
    q, v = np.array(model.neutral()), np.array([0.7, -0.4])
    C = mb.coriolis_matrix(model, q, v)
    rate = derivative_along(model, lambda p: mb.mass_matrix(model, p), q, v, h=1e-4)
    assert np.abs(C + C.T - rate).max() < 1e-8 * np.abs(rate).max()
    Gamma = mb.christoffel_symbols(model, q)
    assert np.abs(Gamma - np.swapaxes(Gamma, 1, 2)).max() < 1e-12 * np.abs(Gamma).max()
    assert np.abs(Gamma).max() > 1e-2  # otherwise nothing was tested
