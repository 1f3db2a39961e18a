"""Units decide nothing: every quantity of a system in other units is that of the system, in other units.

Coordinates are multiplied by c, the fields of the frame by a, the metric by mu, velocities by k (and times
divided by it): q' = c q, X' = c X a, H' = mu a a H, v' = k v / a. What comes out is turned back and compared
with what comes out in the units in which all is of size one, which other tests compare with oracles.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import systems
import underactuated
from cases import always, further

import connections as cn
from connections.affine import geodesic_flow, linearize, transport_flow
from connections.control import (
    AdaptiveController,
    AdaptiveLoop,
    ClosedLoop,
    FieldReference,
    LinearlyParametrizedSystem,
    MomentumObserver,
    PassivityController,
    lqr,
    reachable_directions,
    require_stabilizable,
)
from connections.control.controllability import configuration_controllability, kinematic_controllability
from connections.control.errors import StabilizabilityError
from connections.coriolis import audit_coriolis

TOLERANCE = 1e-9
Q, V = jnp.array([0.1, -0.2, 0.3]), jnp.array([0.5, -0.4, 0.3])
W, Z = jnp.array([0.2, 0.7, -0.6]), jnp.array([0.3, -1.0, 0.5])
TIMES = np.array([0.0, 0.4, 1.0])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Units:
    """q' = c q, X' = c X a, H' = mu a a H, v' = k v / a, t' = t / k."""

    c: Any
    a: Any
    mu: Any = 1.0
    k: Any = 1.0

    def back(self, x, axes, mass=0, time=0):
        """Turned back: trailing axes of `x` are upper (u), lower (d), ambient (q), or of no unit (.)."""
        factors = {"u": self.a, "d": 1.0 / self.a, "q": 1.0 / self.c, ".": jnp.ones(1)}
        for place, axis in enumerate(axes):
            x = x * factors[axis].reshape(-1, *(1,) * (len(axes) - place - 1))
        return x / (self.mu**mass * self.k**time)

    def frame(self, frame):
        return cn.MatrixFrame(
            lambda p: self.c[:, None] * frame.matrix_at(p / self.c) * self.a, frame.dim, len(self.c)
        )

    def metric(self, metric):
        a, mu = self.a, self.mu
        frame = self.frame(metric.frame)
        return cn.MatrixMetric(frame, lambda p: mu * jnp.outer(a, a) * metric.matrix_at(p / self.c))

    def coefficients(self, nabla, frame):
        """A connection by its coefficients alone: no metric is known."""
        a = self.a
        turn = lambda Gamma: Gamma * a[:, None] * a / a[:, None, None]  # noqa: E731
        return cn.CoefficientConnection(frame, lambda p: turn(nabla.coefficients_at(p / self.c)))

    def contorsion(self, metric, nabla, symmetry=None):
        a = self.a
        volume = self.mu * a[:, None, None] * a[:, None] * a
        return cn.ContorsionConnection(metric, lambda p: volume * nabla.contorsion_at(p / self.c), symmetry)

    def covectors(self, forms, mass=1, time=2):
        """Forces, potentials' slopes: (p, n) functions of q."""
        return lambda p: forms(p / self.c) * self.a * self.mu**mass * self.k**time


def units(c, a=1.0, mu=1.0, k=1.0, n=3):
    return Units(
        *(jnp.broadcast_to(jnp.asarray(x, dtype=float), (n,)) for x in (c, a)), mu=float(mu), k=float(k)
    )


ONE = units(1.0)
OTHERS = {
    "nanometres": units(1e-9, 1.0),
    "gigametres": units(1e9, 1.0),
    "long fields": units(1.0, 1e9),
    "short fields": units(1.0, 1e-9),
    "light": units(1.0, mu=1e-9),
    "heavy": units(1.0, mu=1e9),
    "slow": units(1.0, k=1e-9),
    "fast": units(1.0, k=1e9),
    "each its own": units([1e-9, 1.0, 1e6], [1e5, 1e-6, 1.0]),
    "coordinates of the frame": units([1e-6, 1.0, 1e3], [1e6, 1.0, 1e-3]),  # X' = X: its rows and columns
    "all": units([1e-3, 1e9, 1e-9], [1e9, 1e-9, 1e3], 1e-9, 1e9),
}


def compare(function, cases=OTHERS, tolerance=TOLERANCE):
    """A function of units -> {name: array, turned back}: compiled once, the same in all units."""
    compiled = jax.jit(function)
    expected = compiled(ONE)
    for case, other in cases.items():
        for name, value in compiled(other).items():
            want = np.asarray(expected[name])
            assert np.isfinite(want).all() and np.abs(want).max() > 0.0, f"{name}: nothing to compare"
            error = np.abs(np.asarray(value) - want).max() / np.abs(want).max()
            assert error <= tolerance, f"{name} in the units '{case}': {error:.1e}"


# --- tensors -----------------------------------------------------------------------------------------------


def field(u, components):
    """A vector field, components in the frame of the reference."""
    return lambda p: components(p / u.c) / u.a


def swirl(q):
    return jnp.stack([jnp.sin(q[0]), q[1] * q[2], jnp.cos(q[1])])


def shear(q):
    return jnp.stack([q[2] ** 2, jnp.cos(q[0]), q[0] * q[1]])


def test_frames_and_metrics():
    def quantities(u):
        metric = u.metric(systems.METRIC)
        frame, q = metric.frame, u.c * Q
        f = lambda p: jnp.sin(p[0] / u.c[0]) * p[1] / u.c[1]  # noqa: E731
        back = u.back
        return {
            "X": back(frame.matrix(q), "qd"),
            "dual": back(frame.dual_at(q), "uq") * u.c**2,
            "s": back(frame.structure_functions(q), "udd"),
            "L f": back(frame.lie_derivative(f, q), "d"),
            "bracket": back(frame.bracket(field(u, swirl), field(u, shear), q), "u"),
            "H": back(metric.matrix(q), "dd", 1),
            "dH": back(metric.derivative_at(q), "ddd", 1),
            "inner": metric.inner(q, V / u.a, W / u.a) / u.mu,
        }

    compare(quantities)


@pytest.mark.parametrize(
    "kind",
    always(["levi_civita", "contorsion", "coefficients", "torsion_free"], "torsion_free"),
)
def test_tensors_of_a_connection(kind):
    def quantities(u):
        metric, back, q = u.metric(systems.METRIC), u.back, u.c * Q
        nabla = {
            "levi_civita": lambda: cn.LeviCivita(metric),
            "contorsion": lambda: u.contorsion(metric, systems.METRIC_ONLY),
            "coefficients": lambda: u.coefficients(systems.GENERAL, metric.frame),
            "torsion_free": lambda: cn.torsion_free_part(u.coefficients(systems.GENERAL, metric.frame)),
        }[kind]()
        X, Y = field(u, swirl), field(u, shear)
        values = {
            "Gamma": back(nabla.coefficients(q), "udd"),
            "apply": back(nabla.apply(q, V / u.a, W / u.a), "u"),
            "curvature": back(nabla.curvature(q), "uddd"),
            "ricci": back(nabla.ricci(q), "dd"),
            "scalar": nabla.scalar_curvature(q, metric) * u.mu,
            "sectional": nabla.sectional(q, V / u.a, W / u.a, metric) * u.mu,
            "first kind": back(nabla.first_kind(q, metric), "ddd", 1),
            "covariant derivative": back(nabla.covariant_derivative(X, Y, q), "u"),
            "symmetric product": back(nabla.symmetric_product(X, Y, q), "u"),
            "linearization": _undo_pair(u, linearize(nabla, q, V * u.k / u.a)) / u.k,
        }
        if kind in ("contorsion", "coefficients"):
            values["torsion"] = back(nabla.torsion(q), "udd")
            values["contorsion"] = back(nabla.contorsion(q, metric), "ddd", 1)
        if kind in ("coefficients", "torsion_free"):
            values["nonmetricity"] = back(nabla.nonmetricity(q, metric), "ddd", 1)
        return values

    compare(quantities)


def _undo_pair(u, matrix):
    """A (2n, 2n) matrix of pairs (eta, dv): of eta and dv the units are 1 / a and k / a."""
    unit = jnp.concatenate([1.0 / u.a, u.k / u.a])
    return matrix / unit[:, None] * unit


def immersion(q):
    """A surface in the unit cube."""
    return jnp.stack([0.3 * q[0], 0.2 * q[1] + 0.1 * q[0] ** 2, 0.2 * jnp.sin(q[0] + q[1])])


@pytest.mark.further
def test_induced_and_constrained_connections():
    """The units of the surface, and of the constraint, are others than those of the space."""

    def quantities(u):
        metric, q = u.metric(systems.METRIC), u.c * Q
        space, flat = cn.LeviCivita(metric), cn.CoordinateFrame(2)
        b = jnp.stack([u.a[1], u.c[0]])  # units of the surface's coordinates
        embedding = lambda r: u.c * immersion(r / b)  # noqa: E731

        def inclusion(r):
            return jnp.linalg.solve(metric.frame.matrix_at(embedding(r)), jax.jacfwd(embedding)(r))

        surface = cn.InducedConnection(space, metric, flat, inclusion, embedding)
        r = b * jnp.array([0.4, -0.3])
        forms = lambda p: jnp.stack([shear(p / u.c) * u.a])  # noqa: E731
        free = cn.ConstrainedConnection(metric, forms=forms)
        C = cn.coriolis_matrix(space, q, V / u.a, metric)
        A = free.basis(q)
        root = jnp.sqrt(u.mu)  # the fields of the computed basis are orthonormal
        return {
            "surface": surface.coefficients(r) * b[:, None] * b / b[:, None, None],
            "surface metric": surface.metric.matrix(r) * jnp.outer(b, b) / u.mu,
            "induced C": cn.coriolis.induced_coriolis_matrix(C, metric.matrix(q), A, 0.0 * A),
            "basis": u.back(A, "u.") * root,
            "constrained": free.coefficients(q) * root,
            "full": u.back(free.full.coefficients(q), "udd"),
            "projection": u.back(free.projection(q), "ud"),
            "nonintegrability": u.back(free.nonintegrability(q), "u..") * u.mu,
            "schouten": free.schouten_curvature(q) * u.mu,
            "input coefficients": free.input_coefficients(u.covectors(lambda p: jnp.eye(3)), q)
            / (root * u.k**2),
        }

    compare(quantities)


# --- motions -----------------------------------------------------------------------------------------------


def path(t):
    return 0.3 * jnp.stack([jnp.sin(t), jnp.cos(2 * t), t - 0.5])


MIXED = {name: OTHERS[name] for name in ("nanometres", "gigametres", "slow", "fast", "each its own", "all")}


@pytest.mark.further
@pytest.mark.parametrize("kind", ["levi_civita", further("coefficients")])
def test_geodesics_and_transport(kind):
    def quantities(u):
        metric, q, v, times = u.metric(systems.METRIC), u.c * Q, V * u.k / u.a, jnp.asarray(TIMES) / u.k
        nabla = (
            cn.LeviCivita(metric) if kind == "levi_civita" else u.coefficients(systems.GENERAL, metric.frame)
        )
        points, velocities = cn.geodesic(nabla, q, v, times)
        P = cn.parallel_transport(nabla, lambda t: u.c * path(u.k * t), jnp.diag(1.0 / u.a), times)
        return {
            "geodesic": u.back(points, "q"),
            "velocity": u.back(velocities, "u", time=1),
            "transport": u.back(P, "u"),
        }

    compare(quantities, MIXED)


@pytest.mark.further
def test_flows():
    """How a transported vector depends on where its curve starts, and the exponential."""

    def quantities(u):
        q, v, times = u.c * Q, V * u.k / u.a, jnp.asarray(TIMES) / u.k
        nabla = cn.LeviCivita(u.metric(systems.METRIC))
        along = cn.covariant_derivative_along(
            nabla, lambda t: u.c * path(u.k * t), lambda t: swirl(path(u.k * t)) / u.a, times
        )
        pair = jnp.concatenate([1.0 / u.a, u.k / u.a])
        return {
            "exponential": u.back(cn.exponential(nabla, q, V / u.a), "q"),
            "flow": _undo_pair(u, geodesic_flow(nabla, q, v, times)[2]),
            "transport flow": transport_flow(nabla, q, v, Z / u.a, times)[2] * u.a[:, None] * pair,
            "along": u.back(along, "u", time=1),
        }

    compare(quantities, MIXED)


def well(q):
    return 0.7 * jnp.cos(q[0]) + 0.4 * (q[1] - q[2]) ** 2


def drag(q):
    return jnp.array([[0.3, 0.1, 0.0], [0.1, 0.4, 0.1], [0.0, 0.1, 0.2]]) * jnp.cos(q[0])


def mechanical(u, scale=1.0, metric=None):
    """A system with a potential and drag, `scale` times as heavy as the metric."""
    energy = u.mu * u.k**2
    metric = u.metric(systems.METRIC) if metric is None else metric
    heavier = cn.MatrixMetric(metric.frame, lambda p: scale * metric.matrix_at(p))

    def forces(t, p, v):
        return -u.a * (drag(p / u.c) @ (u.a * v / u.k)) * energy

    return cn.MechanicalSystem(heavier, lambda p: energy * well(p / u.c), forces)


def test_mechanical_systems():
    def quantities(u):
        system, q, v = mechanical(u), u.c * Q, V * u.k / u.a
        tau = swirl(Q) * u.a * u.mu * u.k**2
        acceleration = W * u.k**2 / u.a
        push = lambda t, p, w: swirl(p / u.c) * jnp.cos(u.k * t) * u.a * u.mu * u.k**2  # noqa: E731
        points, velocities = system.simulate(q, v, jnp.asarray(TIMES) / u.k, push)
        metric = system.metric
        C = lambda p, w: system.coriolis_matrix_at(p, w)  # noqa: E731
        return {
            "C": u.back(system.coriolis_matrix(q, v), "dd", 1, 1),
            "bias": u.back(system.bias(q, v), "d", 1, 2),
            "gravity": u.back(system.gravity(q), "d", 1, 2),
            "inverse dynamics": u.back(system.inverse_dynamics(q, v, acceleration), "d", 1, 2),
            "forward dynamics": u.back(system.forward_dynamics(q, v, tau), "u", 0, 2),
            "hamel": u.back(system.hamel(q, v, acceleration), "d", 1, 2),
            "energy": system.energy(q, v) / (u.mu * u.k**2),
            "q": u.back(points, "q"),
            "v": u.back(velocities, "u", time=1),
            "C's connection": u.back(cn.connection_from_coriolis(metric, C).coefficients(q), "udd"),
            "task": cn.coriolis.task_space_coriolis_matrix(
                system.connection, lambda p: (p / u.c)[:2] ** 2 + p[2:] / u.c[2:], q, v, metric
            )
            / (u.mu * u.k),
        }

    compare(quantities, MIXED)


def goal(t):
    return 0.3 * jnp.stack([jnp.sin(t), 0.5 * jnp.cos(2.0 * t), 0.2 * t])


@pytest.mark.further
def test_closed_loops():
    def quantities(u):
        metric, times = u.metric(systems.METRIC), jnp.asarray(TIMES) / u.k
        plant, estimate = (mechanical(u, scale, metric) for scale in (1.0, 0.9))
        q, v, energy = u.c * Q, V * u.k / u.a, u.mu * u.k**2
        gain = (
            jnp.outer(u.a, u.a) * jnp.array([[2.0, 0.1, 0.0], [0.1, 1.5, 0.2], [0.0, 0.2, 1.0]]) * u.mu * u.k
        )
        frame = plant.metric.frame

        def field(t, p):  # [W]'s law: qdot_r = qdot_d - Lambda (q - q_d)
            aim, rate = jax.jvp(lambda time: u.c * goal(u.k * time), (t,), (jnp.ones_like(t),))
            return frame.dual_at(p) @ (rate - 1.5 * u.k * (p - aim))

        reference = FieldReference(frame, field)
        controller = PassivityController(replace(estimate, forces=None), 1.0)
        object.__setattr__(controller, "gain", gain)  # a gain is checked on the host: traced ones are not
        motion = ClosedLoop(plant, controller, reference).simulate_at(q, v, times)
        observer = MomentumObserver(replace(plant, forces=None), 1.0)
        object.__setattr__(observer, "gain", 3.0 * u.k * jnp.diag(jnp.ones(3)))
        watched = observer.simulate(plant, q, v, times)
        return {
            "q": u.back(motion.q, "q"),
            "v": u.back(motion.v, "u", time=1),
            "tau": u.back(motion.tau, "d", 1, 2),
            "Lyapunov": motion.lyapunov / energy,
            "rate": motion.lyapunov_rate / (energy * u.k),
            "residual": u.back(watched.residual[1:], "d", 1, 2),
        }

    compare(quantities, MIXED)


@pytest.mark.further
def test_adaptation():
    """Of masses: the estimate starts far below the truth, in any unit."""

    def quantities(u):
        family = LinearlyParametrizedSystem.__new__(LinearlyParametrizedSystem)
        metric = replace(u, mu=1.0).metric(systems.METRIC)
        make = lambda pi: mechanical(u, pi[0], metric)  # noqa: E731
        object.__setattr__(family, "make_system", lambda pi: replace(make(pi), potential=None, forces=None))
        object.__setattr__(family, "nominal", jnp.array([1.0]) * u.mu)
        object.__setattr__(family, "_nominal_system", family.make_system(family.nominal))
        field = lambda t, p: jnp.cos(u.k * t) * u.k * swirl(p / u.c) / u.a  # noqa: E731
        reference = FieldReference(family.frame, field)
        gain, P = jnp.diag(u.a**2) * u.mu * u.k, jnp.array([[0.5]]) * u.mu / u.k**2
        loop = AdaptiveLoop.__new__(AdaptiveLoop)
        settings = {
            "controller": AdaptiveController(family, gain, P),
            "parameters": jnp.array([1.0]) * u.mu,
            "reference": reference,
        }
        for name, value in settings.items():
            object.__setattr__(loop, name, value)
        object.__setattr__(loop, "plant", family.make_system(loop.parameters))
        motion = loop.simulate(u.c * Q, V * u.k / u.a, jnp.array([0.01]) * u.mu, jnp.asarray(TIMES) / u.k)
        return {
            "q": u.back(motion.q, "q"),
            "estimate": motion.parameters / u.mu,
            "tau": u.back(motion.tau, "d", 1, 2),
            "Y": u.back(
                family.regressor(u.c * Q, V * u.k / u.a, W * u.k / u.a, Z * u.k**2 / u.a), "d.", 0, 2
            ),
        }

    compare(quantities, MIXED)


SLEIGH = np.array(
    [[1.3, 0.0, 0.0], [0.0, 1.3, 0.3], [0.0, 0.3, 0.5]]
)  # in body axes: mass, and mass times offset


def sleigh(u):
    """A blade under a body, q = (x, y, theta), in coordinates: the one with the forms alone."""

    def matrix(p):
        s, c = jnp.sin(p[2] / u.c[2]), jnp.cos(p[2] / u.c[2])
        R = jnp.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]]) / u.c
        return u.mu * R.T @ jnp.asarray(SLEIGH) @ R

    def blade(p):
        return jnp.stack([jnp.sin(p[2] / u.c[2]) / u.c[0], -jnp.cos(p[2] / u.c[2]) / u.c[1], 0.0 * p[2]])[
            None
        ]

    metric = cn.MatrixMetric(cn.CoordinateFrame(3), matrix)

    def push(p):
        s, c = jnp.sin(p[2] / u.c[2]), jnp.cos(p[2] / u.c[2])
        return (jnp.stack([c, s, 1.0 + 0.0 * c]) / u.c)[None]

    return cn.NonholonomicSystem(cn.ConstrainedConnection(metric, forms=blade), inputs=push)


@pytest.mark.further
def test_nonholonomic_systems():
    """Basis fields are orthonormal: velocities in the basis scale with the root of the energy."""

    def quantities(u):
        system, root = sleigh(u), jnp.sqrt(u.mu) * u.k
        q, v, force = u.c * Q, jnp.array([0.6, -0.4]) * root, jnp.array([0.3]) * u.mu * u.k**2
        push = lambda t, p, w: force * jnp.cos(u.k * t)  # noqa: E731
        points, velocities = system.simulate(q, v, jnp.asarray(TIMES) / u.k, push)
        R = system.constraint_force(q, v, force)
        return {
            "q": points / u.c,
            "v": velocities / root,
            "forward dynamics": system.forward_dynamics(q, v, force) / (root * u.k),
            "constraint force": R * u.c / (u.mu * u.k**2),
            "multipliers": system.multipliers(q, v, force) / (u.mu * u.k**2),
        }

    equal = {  # x and y have one unit
        "nanometres": units([1e-9, 1e-9, 1.0]),
        "gigametres": units([1e9, 1e9, 1.0], mu=1e-9, k=1e9),
        "microradians": units([1.0, 1.0, 1e6], mu=1e9, k=1e-9),
        "each its own": units([1e-9, 1e6, 1e9], mu=1e-9),
    }
    compare(quantities, equal)


@pytest.mark.further
def test_reduction():
    """By translations along the first coordinate, on which nothing depends; two shapes of two units."""

    def still(p):
        return jnp.stack([0.0 * p[0], p[1], p[2]])

    def reduced(u, longer=1.0):
        c = u.c  # fields along the coordinates: components are their rates

        def matrix(p):
            return u.mu * systems.METRIC.matrix_at(still(p / c)) / jnp.outer(c, c)

        metric = cn.MatrixMetric(cn.CoordinateFrame(3), matrix)
        system = cn.MechanicalSystem(metric, lambda p: u.mu * u.k**2 * well(still(p / c)))
        shift = cn.GroupAction(lambda q, g: q.at[0].add(g[0]), lambda g, h: g + h, np.zeros(1))
        return cn.ReducedSystem(
            system, shift, lambda q: q[1:], lambda r: jnp.concatenate([jnp.zeros(1), longer * r])
        )

    def quantities(u):
        system, v, times = reduced(u), V * u.k * u.c, jnp.asarray(TIMES) / u.k
        r_dot, v_dot = system.rates(u.c[1:] * Q[1:], v, 0.0 * v)
        points, velocities = system.reconstruct(u.c * Q, v, times)
        return {
            "rates": r_dot / u.c[1:] / u.k,
            "accelerations": v_dot / u.c / u.k**2,
            "q": points / u.c,
            "v": velocities / u.c / u.k,
        }

    compare(quantities, MIXED)
    for u in (ONE, OTHERS["all"]):
        q, g = points() * np.asarray(u.c), np.asarray(u.c)[:1] * np.array([[0.7], [-2.0], [0.1]])
        reduced(u).require(q, g)
        wrong = [check.name for check in reduced(u, 1.0 + 1e-6).checks(q, g) if not check.ok]
        assert wrong == ["section has its shape"]


# --- checks and verdicts -----------------------------------------------------------------------------------


@cache
def points():
    return np.random.default_rng(5).uniform(-0.5, 0.5, (3, 3))


@pytest.mark.parametrize("kind", [further("admissible"), "general"])
def test_checks_say_the_same(kind):
    def measured(u):
        metric, q = u.metric(systems.METRIC), points() * np.asarray(u.c)
        nabla = {
            "admissible": lambda: u.contorsion(metric, systems.ADMISSIBLE, "admissible"),
            "general": lambda: u.coefficients(systems.GENERAL, metric.frame),
        }[kind]()
        if kind == "admissible":
            family = cn.ContorsionFamily(metric)
            beta = np.asarray(family.beta_of(nabla.contorsion(q, metric), q))
            assert np.abs(beta / (u.mu * np.prod(np.asarray(u.a))) - reference_beta()).max() < TOLERANCE
        found = nabla.check_torsion_free(q), nabla.check_metric_compatible(q, metric)
        return *found, nabla.check_same_geodesics(q, metric)

    expected = measured(ONE)
    verdicts = {"admissible": "011", "general": "000"}[kind]
    assert [check.ok for check in expected] == [verdict == "1" for verdict in verdicts]
    for check, want in zip(measured(OTHERS["all"]), expected, strict=True):
        assert check.ok == want.ok, str(check)
        if not want.ok:
            assert check.relative == pytest.approx(want.relative, rel=TOLERANCE)
            assert check.relative > 1e-2


@cache
def reference_beta():
    metric = systems.METRIC
    return np.asarray(cn.ContorsionFamily(metric).beta_of(systems.ADMISSIBLE.contorsion(points(), metric)))


def arm_mass_matrix(q):
    """A planar arm of two joints, and a slider."""
    c = np.cos(q[1])
    M = np.array([[5.1 + 0.6 * c, 0.4 + 0.3 * c, 0.0], [0.4 + 0.3 * c, 0.4, 0.0], [0.0, 0.0, 3.0]])
    return M


def arm_coriolis(q, v):
    h = -0.3 * np.sin(q[1])
    return np.array([[h * v[1], h * (v[0] + v[1]), 0.0], [-h * v[0], 0.0, 0.0], [0.0, 0.0, 0.0]])


@pytest.mark.parametrize(
    ("case", "mu", "k"), [("nanometres", 1e-9, 1e9), ("gigametres", 1e9, 1e-9), ("each its own", 1.0, 1.0)]
)
def test_the_audit_says_the_same(case, mu, k):
    c = np.asarray(OTHERS[case].c)
    q, v = np.random.default_rng(2).standard_normal((2, 2, 3))
    H = lambda p: mu * arm_mass_matrix(p / c) / np.outer(c, c)  # noqa: E731
    C = lambda p, w: mu * arm_coriolis(p / c, w / c) / np.outer(c, c)  # noqa: E731
    deleted = lambda p, w: C(p, w) * np.array([1.0, 0.0, 1.0])[:, None]  # noqa: E731
    frame = cn.CoordinateFrame(3)
    right = audit_coriolis(C, H, frame, q * c, v * c * k)
    wrong = audit_coriolis(deleted, H, frame, q * c, v * c * k)
    plain = audit_coriolis(
        lambda p, w: arm_coriolis(p, w) * np.array([1.0, 0.0, 1.0])[:, None], arm_mass_matrix, frame, q, v
    )
    assert right.kind == "riemannian" and right.admissible
    assert wrong.kind == plain.kind == "inadmissible"
    for name in ("bias", "metric_compatible", "same_geodesics"):
        assert wrong.checks[name].relative == pytest.approx(plain.checks[name].relative, rel=1e-6)
        assert wrong.checks[name].relative > 0.1


def scaled_case(case, u):
    """An underactuated system in other units, and its inputs in theirs."""
    metric = u.metric(case.nabla.metric)
    rate = 10.0 ** np.random.default_rng(1).integers(-9, 10, case.inputs(jnp.asarray(case.q)).shape[1])
    return (
        cn.LeviCivita(metric),
        lambda p: case.inputs(p / u.c) / u.a[:, None] * rate,
        case.q * np.asarray(u.c),
    )


@pytest.mark.parametrize(
    "name", ["leg, torque", *map(further, ("arm 3R, first joint passive", "arm PPR, last joint passive"))]
)
def test_controllability_says_the_same(name):
    case = underactuated.BY_NAME[name]
    expected = configuration_controllability(case.nabla, case.inputs, case.q)
    kinematic = kinematic_controllability(case.nabla, case.inputs, case.q)
    assert (expected.accessible, expected.controllable) == (case.accessible, case.controllable)
    system = scaled_case(case, OTHERS["all"])
    found = configuration_controllability(*system)
    assert (found.accessible, found.controllable) == (case.accessible, case.controllable)
    assert found.clear == expected.clear and found.good_rank == expected.good_rank
    np.testing.assert_allclose(
        found.symmetric.rank.singular_values, expected.symmetric.rank.singular_values, atol=TOLERANCE
    )
    assert kinematic_controllability(*system).controllable == kinematic.controllable


# --- regulators --------------------------------------------------------------------------------------------


def pair(n=3):
    """xdot = A x + B u of a mechanical system: two forces, three joints, little damping."""
    rng = np.random.default_rng(0)
    B = rng.standard_normal((n, n))
    inverse = np.linalg.inv(B @ B.T + np.eye(n))
    A = np.block([[np.zeros((n, n)), np.eye(n)], [inverse @ rng.standard_normal((n, n)), -0.1 * inverse]])
    return A, np.vstack([np.zeros((n, n - 1)), inverse[:, :-1]])


def integrators():
    """Two masses without any force but the inputs."""
    A = np.zeros((4, 4))
    A[0, 2] = A[1, 3] = 1.0
    return A, np.array([[0, 0], [0, 0], [1.0, 0.2], [0.2, 1.0]])


@pytest.mark.parametrize(("system", "discrete"), [(pair, False), (integrators, False), (pair, True)])
def test_regulators(system, discrete):
    A, B = system()
    if discrete:
        A, B = np.eye(len(A)) + 0.05 * A, 0.05 * B
    n, m = B.shape
    Q, R, rng = np.diag(np.linspace(0.5, 2.0, n)), np.diag([1.0, 0.3]), np.random.default_rng(3)
    K, P = lqr(A, B, Q, R, discrete=discrete)
    for _ in range(8):
        a, u = 10.0 ** rng.integers(-9, 10, n // 2), 10.0 ** rng.integers(-9, 10, m)
        cost, k = 10.0 ** rng.integers(-9, 10, 2) if not discrete else (10.0 ** rng.integers(-9, 10), 1.0)
        x = np.concatenate([a, a * k])
        scaled = k * A * x[:, None] / x, k * B * x[:, None] / u
        weights = cost * k * Q / np.outer(x, x), cost * k * R / np.outer(u, u)
        gain, to_go = lqr(*scaled, *weights, discrete=discrete)
        assert np.abs(gain * x / u[:, None] - K).max() <= TOLERANCE * np.abs(K).max()
        assert np.abs(to_go * np.outer(x, x) / cost - P).max() <= TOLERANCE * np.abs(P).max()
        assert reachable_directions(*scaled).shape == (n, n)


@pytest.mark.parametrize("seed", always(range(10), 0, 1, 2))
def test_what_no_input_reaches_is_out_of_reach_in_any_units(seed):
    A, B = pair()
    A, B = (
        np.block([[A, np.zeros((6, 2))], [np.zeros((2, 6)), np.array([[0, 1.0], [0.0, 0.0]])]]),
        np.vstack([B, np.zeros((2, 2))]),
    )
    rng = np.random.default_rng([4, seed])
    x, u, k = (
        10.0 ** rng.integers(-5, 6, 8),
        10.0 ** rng.integers(-9, 10, 2),
        10.0 ** rng.integers(-9, 10),
    )
    x[3:6], x[7] = x[:3] * k, x[6] * k
    with pytest.raises(StabilizabilityError) as caught:
        require_stabilizable(k * A * x[:, None] / x, k * B * x[:, None] / u)
    assert caught.value.directions.shape == (8, 2) and not np.any(caught.value.eigenvalues)
    assert np.abs(caught.value.directions[:6]).max() < 1e-9
