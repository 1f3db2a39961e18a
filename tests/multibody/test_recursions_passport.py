"""The passport of the recursions: identities that hold for every mechanism, whatever computed the numbers.

C v is the bias, Hdot = C + C^T, C = Gamma v, C(q, 0) = 0; no torsion with the factor of [W] (21), torsion
and a totally antisymmetric D with that of [E] (11). Residuals are relative to the largest term before
cancellation. Everything is NumPy: the frame and its brackets come from `mechanisms`, derivatives from
differences.
"""

import numpy as np
import pytest
from mechanisms import (
    MOVING,
    assemble,
    derivative_along,
    mechanism_of_all_pairs,
    move,
    random_mechanism,
    sample,
    structure_functions,
)
from robots import robot_path

from connections import multibody as mb

TOL = 1e-10
FACTORS = ("christoffel", "force_cross", "least")
LEFT_OUT = 1e-2  # a negative control leaves at least this

pytestmark = pytest.mark.filterwarnings("ignore::connections.multibody.InertiaWarning")


def _coincident(rng):
    """All joint frames at one point of the parent, bodies without mass between: gimbals and slides."""
    kinds = (mb.Free, mb.Revolute, mb.Universal, mb.Spherical, mb.Prismatic, mb.Revolute, mb.Planar)
    return assemble(rng, kinds, range(-1, len(kinds) - 1), massless=1.0, coincident=1.0)


MODELS = {
    "ur5": lambda rng: mb.from_urdf(robot_path("ur5")),
    "anymal": lambda rng: mb.from_urdf(robot_path("anymal"), floating_base=True),
    "g1": lambda rng: mb.from_urdf(
        robot_path("g1_description/urdf/g1_29dof_rev_1_0.urdf"), floating_base=True
    ),
    "every joint": lambda rng: random_mechanism(rng, 12, MOVING, massless=0.3, coincident=0.2),
    "forest": lambda rng: random_mechanism(rng, 20, [*MOVING, mb.Fixed], trees=4, massless=0.3),
    "chain": lambda rng: random_mechanism(rng, 20, [mb.Revolute, mb.Universal, mb.Helical], 0.0),
    "coincident": _coincident,
    "all pairs": lambda rng: mechanism_of_all_pairs(rng, massless=0.2, coincident=0.2),
}


@pytest.fixture(scope="module")
def models():
    cache = {}

    def get(name):
        if name not in cache:
            cache[name] = MODELS[name](np.random.default_rng(sum(name.encode())))
        return cache[name]

    return get


def gap(*terms, scale=None):
    """Largest entry of the sum of `terms` relative to the largest entry of them, or of `scale`."""
    largest = max(np.max(np.abs(term)) for term in (terms if scale is None else (scale,)))
    return np.max(np.abs(sum(terms))) / largest


def transposed(matrix):
    return np.swapaxes(matrix, -1, -2)


def inertial_parameters(model):
    """pi (10 N,): m, h, Ixx, Ixy, Iyy, Ixz, Iyz, Izz of every body."""
    inertias = model.kinematics.tree.inertias
    rows, columns = np.array([[5, 2, 0, 1, 0, 0, 1, 0, 1, 2], [5, 4, 5, 3, 0, 1, 1, 2, 2, 2]])
    return inertias[:, rows, columns].reshape(-1)


# --- the Coriolis matrix ----------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("name", MODELS)
def test_coriolis_matrix(name, factor, models, rng):
    model = models(name)
    q, v = sample(model, rng, 3)
    C = mb.coriolis_matrix(model, q, v, body_factor=factor)
    bias = mb.inverse_dynamics(model, q, v, np.zeros_like(v)) - mb.gravity(model, q)
    rate = mb.mass_matrix_rate(model, q, v)
    assert gap(np.einsum("nik,nk->ni", C, v), -bias) < TOL
    assert gap(rate, -C, -transposed(C)) < TOL
    assert not mb.coriolis_matrix(model, q, np.zeros_like(v), body_factor=factor).any()
    doubled = mb.coriolis_matrix(model, q, 2.0 * v, body_factor=factor)
    other = mb.coriolis_matrix(model, q, v[::-1], body_factor=factor)
    together = mb.coriolis_matrix(model, q, v + v[::-1], body_factor=factor)
    assert gap(doubled, -2.0 * C) < TOL
    assert gap(together, -C, -other) < TOL
    assert gap(np.einsum("nki,nk->ni", C, v), -bias) > LEFT_OUT  # negative controls: transposed; C of -v
    assert gap(rate, C, transposed(C)) > LEFT_OUT


@pytest.mark.parametrize("name", MODELS)
def test_mass_matrix_rate_is_the_derivative_along_the_motion(name, models, rng):
    model = models(name)
    q, v = sample(model, rng)
    rate = mb.mass_matrix_rate(model, q, v)
    v_unit = v / np.linalg.norm(v)
    along = derivative_along(model, lambda p: mb.mass_matrix(model, p), q, v_unit) * np.linalg.norm(v)
    assert gap(rate, -along) < 1e-8
    backwards = derivative_along(model, lambda p: mb.mass_matrix(model, p), q, v_unit[::-1])
    assert gap(rate, -backwards * np.linalg.norm(v)) > LEFT_OUT  # negative control: along another motion


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("name", MODELS)
def test_products(name, factor, models, rng):
    """C w and C^T w without C, the momentum observer's pdot = tau + C^T v - g among them."""
    model = models(name)
    q, v = sample(model, rng, 3)
    w = rng.standard_normal(v.shape)
    C = mb.coriolis_matrix(model, q, v, body_factor=factor)
    product = mb.coriolis_product(model, q, v, w, body_factor=factor)
    transpose = mb.coriolis_transpose_product(model, q, v, w, body_factor=factor)
    assert gap(product, -np.einsum("nik,nk->ni", C, w)) < TOL
    assert gap(transpose, -np.einsum("nki,nk->ni", C, w)) < TOL
    assert gap(product, -transpose) > LEFT_OUT  # negative control
    swapped = gap(product, -mb.coriolis_product(model, q, w, v, body_factor=factor))
    if factor != "force_cross" and not structure_functions(model).any():
        assert swapped < TOL  # no torsion in a commuting frame
    else:
        assert swapped > LEFT_OUT


# --- Gamma ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("name", MODELS)
def test_coriolis_matrix_contracts_the_middle_index(name, factor, models, rng):
    model = models(name)
    q, v = sample(model, rng)
    Gamma = mb.christoffel_symbols(model, q, body_factor=factor)
    C = mb.coriolis_matrix(model, q, v, body_factor=factor)
    assert gap(np.einsum("ijk,j->ik", Gamma, v), -C) < TOL
    each = mb.coriolis_matrix(model, q, np.eye(model.nv), body_factor=factor)
    assert gap(Gamma, -np.swapaxes(each, 0, 1)) < TOL
    if factor == "force_cross" or structure_functions(model).any():  # negative controls
        assert gap(np.einsum("ikj,j->ik", Gamma, v), -C) > LEFT_OUT
    assert gap(np.einsum("jik,j->ik", Gamma, v), -C) > LEFT_OUT


@pytest.mark.parametrize("name", MODELS)
def test_torsion(name, models, rng):
    """T = 0 for [W] (21); for [E] (11) T is not zero, and D = Gamma* - Gamma is totally antisymmetric."""
    model = models(name)
    q, _ = sample(model, rng)
    Gamma = mb.christoffel_symbols(model, q)
    s_low = np.tensordot(mb.mass_matrix(model, q), structure_functions(model), axes=1)
    assert gap(Gamma, -np.swapaxes(Gamma, 1, 2), -s_low) < TOL
    if s_low.any():
        assert gap(Gamma, -np.swapaxes(Gamma, 1, 2), s_low, scale=Gamma) > LEFT_OUT  # negative control
    other = mb.christoffel_symbols(model, q, body_factor="force_cross")
    assert gap(other, -np.swapaxes(other, 1, 2), -s_low, scale=Gamma) > LEFT_OUT
    D = Gamma - other
    assert gap(D, np.swapaxes(D, 0, 1), scale=Gamma) < TOL
    assert gap(D, np.swapaxes(D, 1, 2), scale=Gamma) < TOL
    assert gap(D, -np.moveaxis(D, 0, 2), scale=Gamma) < TOL
    assert gap(D, scale=Gamma) > LEFT_OUT  # negative control: it is not zero


# --- dynamics ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_inverse_dynamics(name, models, rng):
    """tau = H a + C v + g; forward dynamics takes it back; H^-1 H = 1."""
    model = models(name)
    q, v = sample(model, rng, 3)
    a = rng.standard_normal(v.shape)
    H, g = mb.mass_matrix(model, q), mb.gravity(model, q)
    C = mb.coriolis_matrix(model, q, v, body_factor="force_cross")
    tau = mb.inverse_dynamics(model, q, v, a)
    assert gap(tau, -np.einsum("nik,nk->ni", H, a), -np.einsum("nik,nk->ni", C, v), -g) < TOL
    condition = np.max(np.linalg.cond(H))
    back = mb.forward_dynamics(model, q, v, tau)
    assert gap(back, -a) < max(TOL, 1e-14 * condition)
    inverse = mb.inverse_mass_matrix(model, q)
    assert gap(inverse, -transposed(inverse)) < TOL
    assert np.max(np.abs(inverse @ H - np.eye(model.nv))) < max(TOL, 1e-14 * condition)
    assert gap(inverse, -np.linalg.inv(H)) < max(TOL, 1e-14 * condition)
    falling = mb.forward_dynamics(model.with_gravity((0.0, 0.0, 0.0)), q, v, tau)
    assert gap(falling, -a) > LEFT_OUT  # negative control: without gravity
    assert np.max(np.abs(inverse[::-1] @ H - np.eye(model.nv))) > LEFT_OUT


@pytest.mark.parametrize("name", MODELS)
def test_gravity(name, models, rng):
    """g is the inverse dynamics at rest and linear in the acceleration of free fall."""
    model = models(name)
    q, _ = sample(model, rng)
    rest = np.zeros(model.nv)
    g = mb.gravity(model, q)
    assert gap(g, -mb.inverse_dynamics(model, q, rest, rest)) < TOL
    each = [mb.gravity(model.with_gravity(axis), q) for axis in np.eye(3)]
    assert gap(g, 9.81 * each[2]) < TOL
    mixed = mb.gravity(model.with_gravity((1.0, -2.0, 3.0)), q)
    assert gap(mixed, -each[0], 2.0 * each[1], -3.0 * each[2]) < TOL
    assert gap(mixed, -each[0], -2.0 * each[1], -3.0 * each[2]) > LEFT_OUT  # negative control


@pytest.mark.parametrize("name", MODELS)
def test_momentum_regressor(name, models, rng):
    """Y_p pi = H v and Y_e pi = C^T v - g; with C in place of C^T, the second fails."""
    model = models(name)
    q, v = sample(model, rng, 2)
    pi = mb.inertial_parameters(model).ravel()
    Y_p, Y_e = mb.momentum_regressor(model, q, v)
    assert Y_p.shape == Y_e.shape == (2, model.nv, len(pi)) and Y_p.base is Y_e.base
    assert gap(Y_p @ pi, -np.einsum("nik,nk->ni", mb.mass_matrix(model, q), v)) < TOL
    product, g = mb.coriolis_transpose_product(model, q, v, v), mb.gravity(model, q)
    assert gap(Y_e @ pi, -product, g) < TOL
    assert gap(Y_e @ pi, -mb.coriolis_product(model, q, v, v), g) > LEFT_OUT  # negative control


@pytest.mark.parametrize("name", ["every joint", "coincident"])
def test_momentum_regressor_of_one_parameter_at_a_time(name, models, rng):
    """A column is the change of H v and C^T v - g with one parameter of a body, per unit of it."""
    model = models(name)
    q, v = sample(model, rng)
    step = 1e-3  # which leaves H positive definite
    pi = mb.inertial_parameters(model)
    columns = rng.permutation(np.flatnonzero(np.repeat(pi[:, 0] > 0.0, 10)))[:20]
    Y_p, Y_e = mb.momentum_regressor(model, q, v)
    changed = [
        model.with_inertial_parameters(pi + step * np.eye(pi.size)[column].reshape(pi.shape))
        for column in columns
    ]

    def momentum_and_rate(robot):
        effects = mb.coriolis_transpose_product(robot, q, v, v) - mb.gravity(robot, q)
        return mb.mass_matrix(robot, q) @ v, effects

    (p, e), each = momentum_and_rate(model), [momentum_and_rate(robot) for robot in changed]
    for column, (p_changed, e_changed) in zip(columns, each, strict=True):
        assert gap(step * Y_p[:, column], p, -p_changed) < 1e-12
        assert gap(step * Y_e[:, column], e, -e_changed) < 1e-12


@pytest.mark.parametrize("name", MODELS)
def test_the_momentum_changes_by_tau_and_the_regressor(name, models, rng):
    """d/dt (Y_p pi) = tau + Y_e pi for every pi, by differences along a motion; tau of another recursion."""
    model = models(name)
    q, v = sample(model, rng)
    a, h = rng.standard_normal(model.nv), 1e-3
    pi = rng.standard_normal(10 * len(model.body_names))  # of no robot

    def momentum_after(t):
        return mb.momentum_regressor(model, move(model, q, t * v), v + t * a)[0] @ pi

    rate = sum(c * momentum_after(k * h) for k, c in ((-2, 1), (-1, -8), (1, 8), (2, -1))) / (12.0 * h)
    tau = mb.regressor(model, q, v, v, a) @ pi
    effects = mb.momentum_regressor(model, q, v)[1] @ pi
    assert gap(rate, -tau, -effects) < 1e-7
    assert gap(rate, -tau, effects) > LEFT_OUT  # negative control


@pytest.mark.parametrize("name", MODELS)
def test_regressor(name, models, rng):
    """Y(q, v, v_r, a_r) pi = H a_r + C v_r + g with the Christoffel-consistent C."""
    model = models(name)
    q, v = sample(model, rng, 2)
    v_r, a_r = rng.standard_normal((2, *v.shape))
    pi = inertial_parameters(model)
    Y = mb.regressor(model, q, v, v_r, a_r)
    assert Y.shape == (2, model.nv, len(pi))
    inertial = np.einsum("nik,nk->ni", mb.mass_matrix(model, q), a_r)
    product, g = mb.coriolis_product(model, q, v, v_r), mb.gravity(model, q)
    assert gap(Y @ pi, -inertial, -product, -g) < TOL
    with_torsion = mb.coriolis_product(model, q, v, v_r, body_factor="force_cross")
    assert gap(Y @ pi, -inertial, -with_torsion, -g) > LEFT_OUT  # negative control
