"""Every public function of `cn`, as a function of arrays: what the tests of the contract go through.

All are about one small system, quickly compiled: a metric on three coordinates, the same along the third, so
that a group acts, a constraint is invariant, and shapes are the first two coordinates.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

import connections as cn
from connections.systems import translations

TIMES = np.linspace(0.0, 0.3, 3)


def fields(q: Any, k: Any) -> Any:
    return jnp.eye(3).at[1, 0].set(k * q[1])


def mass(q: Any, p: Any) -> Any:
    return jnp.diag(jnp.stack([p["m"] + q[1] ** 2, 2.0 + q[0], 1.5 + 0.0 * q[0]]))


def potential(q: Any, k: Any) -> Any:
    return 0.5 * k * q[0] ** 2 + jnp.cos(q[1])


def control(t: Any, q: Any, v: Any) -> Any:
    return jnp.array([jnp.sin(t), -0.1 * v[1], 0.3])


def force(t: Any, q: Any, v: Any) -> Any:
    return jnp.array([0.2 * q[1], -0.1 * v[1], 0.3])


def forms(q: Any) -> Any:
    """The form dz - y dx."""
    return jnp.stack([-q[1], 0.0 * q[1], 1.0 + 0.0 * q[1]])[None]


def basis(q: Any) -> Any:
    return jnp.eye(3)[:, :2].at[2, 0].set(q[1])


def inputs(q: Any) -> Any:
    return jnp.array([[1.0, 0.0, 0.0], [0.0, 1.0 + q[0] ** 2, 0.0]])


def field(q: Any) -> Any:
    return jnp.stack([jnp.sin(q[0]), q[1] ** 2, q[0] * q[1]])


def other_field(q: Any) -> Any:
    return jnp.stack([q[1], 1.0 + q[0], jnp.cos(q[1])])


def scalars(q: Any) -> Any:
    return jnp.stack([jnp.sin(q[0]), q[0] * q[1]])


def change(q: Any) -> Any:
    return jnp.array([[1.0, 0.3 * q[0], 0.0], [0.0, 1.0, 0.2 * q[1]], [0.1, 0.0, 1.0]])


def task(q: Any) -> Any:
    return jnp.stack([q[0] + 0.1 * q[1] ** 2, q[2] - 0.2 * q[0]])


def line(t: Any, start: Any) -> Any:
    return start + t * jnp.array([0.5, -0.3, 0.2])


def circle(t: Any, start: Any) -> Any:
    return start + 0.3 * jnp.stack([jnp.cos(t) - 1.0, jnp.sin(t), 0.0 * t])


def along(t: Any) -> Any:
    return jnp.stack([jnp.cos(t), t, 1.0 + t**2])


def half_rate(q: Any, v: Any) -> Any:
    return 0.5 * jnp.diag(v) * q[0]


def coefficients(q: Any) -> Any:
    return jnp.arange(27.0).reshape(3, 3, 3) / 27.0 * (1.0 + q[0])


def cubic(q: Any) -> Any:
    x = jnp.stack([jnp.sin(q[0]), q[1], 1.0 + q[0] * q[1]])
    return jnp.einsum("i,j,k->ijk", x, x, x)


def log_density(x: Any, q: Any) -> Any:
    logits = jnp.append(q, 0.0)
    return x @ logits - jnp.log(jnp.sum(jnp.exp(logits)))


OF_FIELDS = cn.MatrixFrame(fields, 3, 3, parameters=0.25)
OF_FIELDS_METRIC = cn.MatrixMetric(OF_FIELDS, mass, {"m": 2.0})
FRAME = cn.CoordinateFrame(3)
METRIC = cn.MatrixMetric(FRAME, mass, {"m": 2.0})
LEVI_CIVITA = cn.LeviCivita(METRIC)
ANY_NABLA = cn.CoefficientConnection(FRAME, coefficients)
FAMILY = cn.ContorsionFamily(METRIC)
NABLA = FAMILY.connection([0.4])
STATISTICAL = cn.StatisticalConnection(METRIC, cubic, 0.7)
FEW = np.linspace(-9.0, 9.0, 24)
NORMAL_ON_FEW = cn.statistical_model(
    lambda x, q: -0.5 * ((x - q[0]) / q[1]) ** 2 - jnp.log(q[1]) - 0.5 * np.log(2.0 * np.pi),
    2,
    quadrature=(FEW, np.full(24, FEW[1] - FEW[0])),
)
DENSITIES = cn.statistical_model(log_density, 3, quadrature=(np.eye(4), np.ones(4)))
SYSTEM = cn.MechanicalSystem(METRIC, potential, parameters=3.0)
CONSTRAINED = cn.ConstrainedConnection(METRIC, basis, forms=forms)
ROLLING = cn.NonholonomicSystem(CONSTRAINED, inputs=inputs)
CARRIED = cn.NonholonomicSystem(CONSTRAINED, inputs=inputs, drift=other_field)
ACTION = translations(3, (2,))
REDUCED = cn.ReducedSystem(ROLLING, ACTION, lambda q: q[:2], lambda r: jnp.append(r, 0.0))
HEISENBERG = cn.MatrixLieGroup(np.eye(9)[[1, 5, 2]].reshape(3, 3, 3))
POSITIVE = cn.geometry.AffineInvariantMetric(
    [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]]
)
ONE = jnp.array([1.0, 0.0, 1.0])  # the coordinates of the unit matrix
PRODUCT = cn.ProductFrame(cn.CoordinateFrame(1), cn.CoordinateFrame(2))


def _rows(*shape: int) -> np.ndarray:
    return 0.4 * np.random.default_rng([7, *shape]).standard_normal((3, *shape))


#: Three of each argument.
ARGUMENTS = {
    **{name: _rows(3) + 0.07 * number for number, name in enumerate("qpvwuza")},
    **{name: _rows(1) + 0.1 * number for number, name in enumerate(("g", "h", "beta"))},
    **{name: _rows(2) + 0.1 * number for number, name in enumerate(("r", "vbar", "c"))},
    "C": _rows(3, 3),
    "H": _rows(3, 3) @ _rows(3, 3).swapaxes(1, 2) + np.eye(3),
    "A": _rows(3, 2),
    "A_dot": _rows(3, 2) + 0.1,
    "J": _rows(2, 3),
    "D": np.broadcast_to(np.asarray(FAMILY.contorsion_of([0.4])), (3, 3, 3, 3)),
    "sampled": np.asarray([[line(t, row) for t in np.linspace(0.0, 1.0, 5)] for row in _rows(3)]),
}


@dataclass(frozen=True)
class Call:
    """A public function of arrays.

    Parameters
    ----------
    function : of the arguments, to arrays.
    names : of the arguments, in `ARGUMENTS`; derivatives are by the first.
    batches : whether leading axes of the arguments are batches.
    """

    function: Callable[..., Any]
    names: tuple[str, ...]
    batches: bool = True

    def __call__(self, row: int | slice = 0) -> Any:
        return self.function(*(ARGUMENTS[name][row] for name in self.names))


def _error_of_few_nodes(q: Any) -> Any:
    """The error beside the sum of which it is a part, 1."""
    places = jnp.stack([q[..., 0], 0.75 + 0.01 * jnp.tanh(q[..., 1])], axis=-1)
    return 1.0 + NORMAL_ON_FEW.metric.quadrature_error(places)


def _checked(check: Callable[..., cn.checks.Check], *fixed: Any) -> Callable[..., Any]:
    def measure(*arrays: Any) -> Any:
        found = check(*fixed, *arrays)
        return found.residual, found.scale

    return measure


def _audit(q: Any, v: Any) -> Any:
    report = cn.audit_coriolis(
        lambda q, v: np.asarray(cn.coriolis_matrix(NABLA, q, v, METRIC)),
        lambda q: np.asarray(METRIC.matrix(q)),
        FRAME,
        q,
        v,
    )
    return [(check.residual, check.scale) for check in report.checks.values()]


def _curve_of(start: Any) -> Any:
    return cn.ParametricFunction(line, start)


def _require(q: Any, g: Any) -> Any:
    return REDUCED.require(q, g).rates(ARGUMENTS["r"][0], ARGUMENTS["vbar"][0], ARGUMENTS["c"][0])


def _of_checks(q: Any, g: Any) -> Any:
    return [(check.residual, check.scale) for check in REDUCED.checks(q, g)]


def _sampled(points: Any) -> Any:
    curve = cn.SampledCurve(FRAME, np.linspace(0.0, 1.0, 5), points)
    return cn.parallel_transport(NABLA, curve, ARGUMENTS["z"][0], TIMES)


def _stability(q: Any, v: Any) -> Any:
    found = cn.geodesic_stability(NABLA, q, v, TIMES)
    return found.least, found.stretch  # the greatest curvature of this space is zero


def _straight(q: Any, v: Any) -> cn.Motion:
    """A motion that nothing integrates."""
    return cn.Motion(TIMES, TIMES[:, None] * q, 0.0 * TIMES[:, None] + v)


def _positive(q: Any) -> Any:
    return POSITIVE.exponential(ONE, q)


def _through(points: Any) -> Any:
    return cn.SampledCurve.through(FRAME, (np.linspace(0.0, 1.0, 5), points))(0.3)


def _between(points: Any) -> Any:
    curve = cn.SampledCurve.through(FRAME, (np.linspace(0.0, 1.0, 5), points))
    return curve.between(np.array([0.1, 0.6]))[0][0]


Q, QV, QVW = ("q",), ("q", "v"), ("q", "v", "w")
QG = ("q", "g")

CALLS: dict[str, Call] = {
    # frames
    "FrameField.matrix": Call(OF_FIELDS.matrix, Q),
    "FrameField.structure_functions": Call(OF_FIELDS.structure_functions, Q),
    "FrameField.bracket": Call(lambda q: OF_FIELDS.bracket(field, other_field, q), Q),
    "FrameField.lie_derivative": Call(lambda q: OF_FIELDS.lie_derivative(scalars, q), Q),
    "FrameField.change": Call(lambda q: OF_FIELDS.change(change).structure_functions(q), Q),
    "ProductFrame.split_point": Call(PRODUCT.split_point, Q),
    "ProductFrame.split_vector": Call(PRODUCT.split_vector, ("v",)),
    "MatrixLieGroup.exponential": Call(HEISENBERG.exponential, Q),
    "MatrixLieGroup.logarithm": Call(lambda q: HEISENBERG.logarithm(HEISENBERG.exponential(q)), Q),
    "MatrixLieGroup.inverse": Call(lambda q: HEISENBERG.inverse(HEISENBERG.exponential(q)), Q),
    "MatrixLieGroup.adjoint": Call(lambda q: HEISENBERG.adjoint(HEISENBERG.exponential(q)), Q),
    "MatrixLieGroup.product": Call(
        lambda q, p: HEISENBERG.product(HEISENBERG.exponential(q), HEISENBERG.exponential(p)), ("q", "p")
    ),
    # metrics
    "LeftInvariantMetric": Call(lambda H: cn.LeftInvariantMetric(FRAME, H).matrix(Q0), ("H",), False),
    "Metric.matrix": Call(METRIC.matrix, Q),
    "Metric.inner": Call(METRIC.inner, QVW),
    "AffineInvariantMetric.matrices": Call(POSITIVE.matrices, Q),
    "AffineInvariantMetric.coordinates": Call(lambda q: POSITIVE.coordinates(POSITIVE.matrices(q)), Q),
    "AffineInvariantMetric.dual": Call(POSITIVE.dual, ("p",)),
    "AffineInvariantMetric.distance": Call(
        lambda q, p: POSITIVE.distance(_positive(q), _positive(p)), ("q", "p")
    ),
    "AffineInvariantMetric.divergence": Call(
        lambda q, p: POSITIVE.divergence(_positive(q), _positive(p)), ("q", "p")
    ),
    "AffineInvariantMetric.exponential": Call(lambda q, v: POSITIVE.exponential(_positive(q), v), QV),
    "AffineInvariantMetric.logarithm": Call(
        lambda q, p: POSITIVE.logarithm(_positive(q), _positive(p)), ("q", "p")
    ),
    "AffineInvariantMetric.geodesic": Call(
        lambda q, p: POSITIVE.geodesic(_positive(q), _positive(p), 0.3), ("q", "p")
    ),
    "AffineInvariantMetric.mean": Call(
        lambda q: POSITIVE.mean(jnp.stack([ONE, _positive(q), ONE + 0.2])), Q, False
    ),
    "Metric.change": Call(lambda q: METRIC.change(change).matrix(q), Q),
    # connections
    "AffineConnection.coefficients": Call(NABLA.coefficients, Q),
    "AffineConnection.first_kind": Call(lambda q: NABLA.first_kind(q, METRIC), Q),
    "LeviCivita.christoffel_symbols": Call(lambda q: cn.LeviCivita(METRIC).christoffel_symbols(q), Q),
    "AffineConnection.apply": Call(NABLA.apply, QVW),
    "AffineConnection.torsion": Call(NABLA.torsion, Q),
    "AffineConnection.nonmetricity": Call(lambda q: ANY_NABLA.nonmetricity(q, METRIC), Q),
    "AffineConnection.contorsion": Call(lambda q: NABLA.contorsion(q, METRIC), Q),
    "AffineConnection.curvature": Call(NABLA.curvature, Q),
    "AffineConnection.apply_curvature": Call(NABLA.apply_curvature, (*QVW, "u")),
    "AffineConnection.ricci": Call(NABLA.ricci, Q),
    "AffineConnection.apply_ricci": Call(NABLA.apply_ricci, QVW),
    "AffineConnection.scalar_curvature": Call(lambda q: NABLA.scalar_curvature(q, METRIC), Q),
    "AffineConnection.sectional": Call(lambda q, v, w: NABLA.sectional(q, v, w, METRIC), QVW),
    "AffineConnection.covariant_derivative": Call(
        lambda q: NABLA.covariant_derivative(field, other_field, q), Q
    ),
    "AffineConnection.symmetric_product": Call(lambda q: NABLA.symmetric_product(field, other_field, q), Q),
    "AffineConnection.change": Call(lambda q: NABLA.change(change).coefficients(q), Q),
    "AffineConnection.check_metric_compatible": Call(_checked(NABLA.check_metric_compatible), Q, False),
    "AffineConnection.check_same_geodesics": Call(_checked(NABLA.check_same_geodesics), Q, False),
    "AffineConnection.check_torsion_free": Call(_checked(NABLA.check_torsion_free), Q, False),
    "ConnectionOfMetric.input_coefficients": Call(lambda q: LEVI_CIVITA.input_coefficients(inputs, q), Q),
    "torsion_free_part": Call(lambda q: cn.torsion_free_part(NABLA).coefficients(q), Q),
    "StatisticalConnection.with_alpha": Call(lambda q: STATISTICAL.with_alpha(0.3).coefficients(q), Q),
    "StatisticalModel.connection": Call(lambda q: DENSITIES.connection(0.3).coefficients(q), Q),
    "StatisticalModel.cubic": Call(DENSITIES.cubic, Q),
    "StatisticalModel.divergence": Call(DENSITIES.divergence, ("q", "p")),
    "FisherMetric.quadrature_error": Call(_error_of_few_nodes, Q),
    "statistical_model": Call(lambda q: DENSITIES.metric.matrix(q), Q),
    "decompose": Call(lambda q: cn.decompose(ANY_NABLA, METRIC, q), Q),
    "ContorsionFamily.connection": Call(
        lambda b: FAMILY.connection(b).torsion(ARGUMENTS["q"][0]), ("beta",), False
    ),
    "ContorsionFamily.contorsion_of": Call(FAMILY.contorsion_of, ("beta",)),
    "ContorsionFamily.beta_of": Call(FAMILY.beta_of, ("D",)),
    "ContorsionFamily.sweep": Call(
        lambda b: FAMILY.sweep(jnp.stack([b, 2.0 * b]), torsion_there), ("beta",), False
    ),
    "least_connection": Call(lambda q: cn.least_connection(OF_FIELDS_METRIC).coefficients(q), Q),
    # constraints
    "ConstrainedConnection.basis": Call(CONSTRAINED.basis, Q),
    "ConstrainedConnection.forms": Call(CONSTRAINED.forms, Q),
    "ConstrainedConnection.projection": Call(CONSTRAINED.projection, Q),
    "ConstrainedConnection.nonintegrability": Call(CONSTRAINED.nonintegrability, Q),
    "ConstrainedConnection.schouten_curvature": Call(CONSTRAINED.schouten_curvature, Q),
    "ConstrainedConnection.orthonormalized": Call(lambda q: CONSTRAINED.orthonormalized().coefficients(q), Q),
    "ConstrainedConnection.input_coefficients": Call(lambda q: CONSTRAINED.input_coefficients(inputs, q), Q),
    "ConstrainedConnection.input_coefficients_of_functions": Call(
        lambda q: CONSTRAINED.input_coefficients_of_functions(scalars, q), Q
    ),
    # motions
    "geodesic": Call(lambda q, v: cn.geodesic(NABLA, q, v, TIMES, force), QV),
    "Motion.at": Call(lambda q, v: cn.geodesic(NABLA, q, v, TIMES, force).at(0.2), QV, False),
    "Motion.series": Call(lambda q, v: _straight(q, v).series()["q"].values, QV, False),
    "Motion.to_xarray": Call(lambda q, v: _straight(q, v).to_xarray()["q"].values, QV, False),
    "Motion.member": Call(lambda q, v: _straight(q, v).member(), QV, False),
    "geodesic_flow": Call(lambda q, v: cn.geodesic_flow(NABLA, q, v, TIMES), QV),
    "jacobi_field": Call(
        lambda q, v, z, w: cn.jacobi_field(ANY_NABLA, q, v, z, w, TIMES), ("q", "v", "z", "w")
    ),
    "geodesic_stability": Call(_stability, QV),
    "conjugate_times": Call(lambda q, v: cn.conjugate_times(NABLA, q, v, 16.0).times, QV, False),
    "transport_flow": Call(lambda q, v, z: cn.transport_flow(NABLA, q, v, z, TIMES), ("q", "v", "z")),
    "exponential": Call(lambda q, v: cn.exponential(NABLA, q, v), QV),
    "parallel_transport": Call(lambda z: cn.parallel_transport(NABLA, _curve_of(Q0), z, TIMES), ("z",)),
    "covariant_derivative_along": Call(
        lambda q: cn.covariant_derivative_along(NABLA, _curve_of(q), along, TIMES), Q, False
    ),
    "SampledCurve.through": Call(_through, ("sampled",), False),
    "SampledCurve": Call(_sampled, ("sampled",), False),
    "SampledCurve.between": Call(_between, ("sampled",), False),
    "linearize": Call(lambda q, v: cn.linearize(NABLA, q, v, force), QV),
    "covariant_linearization": Call(lambda q, v: cn.affine.covariant_linearization(NABLA, q, v, force), QV),
    "deviation_map": Call(lambda q, v: cn.affine.deviation_map(NABLA, q, v), QV),
    "logarithm": Call(lambda q, p: cn.logarithm(NABLA, q, p), ("q", "p")),
    "logarithms": Call(lambda q, p: cn.logarithms(NABLA, q, p, 20.0, rays=16).v[0], ("q", "p"), False),
    "Logarithms.member": Call(
        lambda q, p: cn.logarithms(NABLA, jnp.stack([q, q]), p, 20.0, rays=16).member(1).v[0],
        ("q", "p"),
        False,
    ),
    "distance": Call(lambda q, p: cn.distance(METRIC, q, p), ("q", "p")),
    "mean": Call(lambda q, p: cn.mean(METRIC, jnp.stack([q, p])).q, ("q", "p"), False),
    "holonomy": Call(
        lambda q: cn.holonomy(NABLA, cn.ParametricFunction(circle, q), 0.0, 2.0 * np.pi), Q, False
    ),
    # Coriolis matrices and systems
    "coriolis_matrix": Call(lambda q, v: cn.coriolis_matrix(NABLA, q, v, METRIC), QV),
    "connection_from_coriolis": Call(
        lambda q: cn.connection_from_coriolis(METRIC, half_rate).coefficients(q), Q
    ),
    "induced_coriolis_matrix": Call(cn.coriolis.induced_coriolis_matrix, ("C", "H", "A", "A_dot")),
    "task_space_coriolis_matrix": Call(
        lambda q, v: cn.coriolis.task_space_coriolis_matrix(NABLA, task, q, v, METRIC), QV
    ),
    "task_space_inclusion": Call(cn.coriolis.task_space_inclusion, ("H", "J")),
    "audit_coriolis": Call(_audit, QV, False),
    "MechanicalSystem.mass_matrix": Call(SYSTEM.mass_matrix, Q),
    "MechanicalSystem.coriolis_matrix": Call(SYSTEM.coriolis_matrix, QV),
    "MechanicalSystem.bias": Call(SYSTEM.bias, QV),
    "MechanicalSystem.gravity": Call(SYSTEM.gravity, Q),
    "MechanicalSystem.energy": Call(SYSTEM.energy, QV),
    "MechanicalSystem.hamel": Call(SYSTEM.hamel, ("q", "v", "a")),
    "MechanicalSystem.inverse_dynamics": Call(SYSTEM.inverse_dynamics, ("q", "v", "a")),
    "MechanicalSystem.forward_dynamics": Call(SYSTEM.forward_dynamics, QVW),
    "MechanicalSystem.reference_force": Call(SYSTEM.reference_force, ("q", "v", "w", "a")),
    "MechanicalSystem.momentum": Call(SYSTEM.momentum, QV),
    "MechanicalSystem.momentum_rate": Call(SYSTEM.momentum_rate, QV),
    "MechanicalSystem.with_connection": Call(
        lambda q, v: SYSTEM.with_connection(NABLA).coriolis_matrix(q, v), QV
    ),
    "MechanicalSystem.simulate": Call(lambda q, v: SYSTEM.simulate(q, v, TIMES, control), QV),
    "NonholonomicSystem.velocity": Call(ROLLING.velocity, ("q", "vbar")),
    "NonholonomicSystem.components": Call(
        lambda q, v: ROLLING.components(q, ROLLING.velocity(q, v)), ("q", "vbar")
    ),
    "NonholonomicSystem.energy": Call(ROLLING.energy, ("q", "vbar")),
    "NonholonomicSystem.forward_dynamics": Call(ROLLING.forward_dynamics, ("q", "vbar", "c")),
    "NonholonomicSystem.constraint_force": Call(ROLLING.constraint_force, ("q", "vbar", "c")),
    "NonholonomicSystem.constraint_power": Call(CARRIED.constraint_power, ("q", "vbar", "c")),
    "NonholonomicSystem.multipliers": Call(ROLLING.multipliers, ("q", "vbar", "c")),
    "NonholonomicSystem.simulate": Call(lambda q, v: ROLLING.simulate(q, v, TIMES), ("q", "vbar")),
    # symmetry
    "GroupAction.act": Call(ACTION.act, QG),
    "GroupAction.generators": Call(ACTION.generators, Q),
    "GroupAction.momenta": Call(lambda q, v: ACTION.momenta(METRIC, q, v), QV),
    "GroupAction.check_action": Call(_checked(ACTION.check_action), ("q", "g", "h"), False),
    "GroupAction.require_action": Call(ACTION.require_action, QG),
    "GroupAction.check_invariant_function": Call(
        _checked(ACTION.check_invariant_function, scalars), QG, False
    ),
    "GroupAction.check_invariant_metric": Call(_checked(ACTION.check_invariant_metric, METRIC), QG, False),
    "GroupAction.check_invariant_frame": Call(_checked(ACTION.check_invariant_frame, FRAME), QG, False),
    "GroupAction.check_invariant_forms": Call(
        _checked(ACTION.check_invariant_forms, forms, FRAME), QG, False
    ),
    "GroupAction.check_invariant_distribution": Call(
        _checked(ACTION.check_invariant_distribution, CONSTRAINED), QG, False
    ),
    "GroupAction.check_invariant_coefficients": Call(
        _checked(ACTION.check_invariant_coefficients, NABLA), QG, False
    ),
    "GroupAction.check_invariant_input_coefficients": Call(
        _checked(ACTION.check_invariant_input_coefficients, LEVI_CIVITA, inputs), QG, False
    ),
    "ReducedSystem.rates": Call(REDUCED.rates, ("r", "vbar", "c")),
    "ReducedSystem.checks": Call(_of_checks, QG, False),
    "ReducedSystem.require": Call(_require, QG, False),
    "ReducedSystem.simulate": Call(lambda r, v: REDUCED.simulate(r, v, TIMES), ("r", "vbar")),
    "ReducedSystem.reconstruct": Call(lambda q, v: REDUCED.reconstruct(q, v, TIMES), ("q", "vbar")),
}

Q0 = ARGUMENTS["q"][0]

#: Public, and not a function of arrays: what raises errors, writes, draws, or is for the library's own rooms.
NOT_CALLED = {
    "explain",
    "explain_end",
    "explain_regular",
    "identity",
    "require_near",
    "require_times",
    "arguments",
    "to_dict",
    "host_motion",
    "plot",
    "plot_path",
    "plot_phase",
    "step_for_derivatives",
    "Check.require",
}


def torsion_there(nabla: cn.AffineConnection) -> Any:
    return nabla.torsion_at(jnp.asarray(Q0))


def public_names() -> set[str]:
    """The functions of the rooms behind `cn`, and the public methods of their classes, by the class that
    defines them."""
    found: set[str] = set()
    public = {
        name: getattr(room, name) for room in (cn.geometry, cn.affine, cn.coriolis) for name in room.__all__
    }
    for name, thing in public.items():
        if not inspect.isclass(thing):
            found.add(name)
        elif not issubclass(thing, Exception):
            for method in dir(thing):
                static = inspect.getattr_static(thing, method)
                function = getattr(static, "__func__", static)
                if not method.startswith("_") and not method.endswith("_at") and inspect.isfunction(function):
                    found.add(function.__qualname__)
    return {name for name in found if not {name, name.rpartition(".")[2]} & NOT_CALLED}
