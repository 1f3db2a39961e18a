"""The table of docs/compilation.md: which functions work inside `jit`, `vmap`, `grad` and `jacfwd`.

Everything is traced by each of the four, which is where JAX accepts or refuses; what is computed then is
compared for some functions of each row, and in the tests of derivatives of motions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always, further
from public_calls import ARGUMENTS, CALLS, FRAME, METRIC, NABLA, SYSTEM, inputs
from recursion_functions import FUNCTIONS

import connections as cn
from connections import control
from connections import multibody as mb

PAGE = Path(__file__).parents[1] / "docs" / "compilation.md"
TRANSFORMATIONS = ("jit", "vmap", "grad", "jacfwd")


def total(function: Callable[..., Any], *rest: Any) -> Callable[[Any], Any]:
    """The sum of all entries, each with a weight of its own."""

    def of(x: Any) -> Any:
        leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(function(x, *rest))]
        return sum(
            jnp.sum(leaf * jnp.cos(1.0 + jnp.arange(leaf.size).reshape(leaf.shape))) for leaf in leaves
        )

    return of


def trace(transformation: str, function: Callable[..., Any], arguments: list[Any]) -> None:
    if transformation == "jit":
        jax.eval_shape(function, *arguments)
    elif transformation == "vmap":
        jax.eval_shape(jax.vmap(function), *(jnp.stack([x, x]) for x in arguments))
    else:
        derivative = jax.grad if transformation == "grad" else jax.jacfwd
        jax.eval_shape(derivative(total(function, *arguments[1:])), arguments[0])


# --- functions of `cn` -------------------------------------------------------------------------------------

#: What judges numbers: outside of JAX only.
JUDGES = {
    "ContorsionFamily.beta_of",
    "GroupAction.require_action",
    "MatrixLieGroup.logarithm",
    "Motion.series",
    "Motion.to_xarray",
    "ReducedSystem.checks",
    "ReducedSystem.require",
    "audit_coriolis",
    "conjugate_times",
    "logarithms",
    "Logarithms.member",
    "mean",
} | {name for name in CALLS if ".check_" in name}


@pytest.mark.parametrize("name", always(sorted(CALLS), *sorted(CALLS)[::10]))
def test_functions_of_cn(name: str) -> None:
    arguments = [jnp.asarray(ARGUMENTS[argument][0]) for argument in CALLS[name].names]
    for transformation in TRANSFORMATIONS:
        if name not in JUDGES:
            trace(transformation, CALLS[name].function, arguments)
            continue
        with pytest.raises(TypeError, match="JAX traces"):
            trace(transformation, CALLS[name].function, arguments)


@pytest.mark.further
@pytest.mark.parametrize(
    "name",
    [
        "FrameField.bracket",
        "Metric.inner",
        "AffineConnection.curvature",
        "AffineConnection.sectional",
        "coriolis_matrix",
        "ContorsionFamily.sweep",
        "ConstrainedConnection.projection",
        "MechanicalSystem.forward_dynamics",
        "exponential",
    ],
)
def test_values_inside_of_jax(name: str) -> None:
    """Inside `jit` and `vmap` as outside; derivatives of both modes by differences."""
    call, h = CALLS[name], 1e-5
    rows = [jnp.asarray(ARGUMENTS[argument]) for argument in call.names]
    inside = jax.tree.leaves(jax.jit(jax.vmap(call.function))(*rows))
    for row in range(2):
        for outside, many in zip(jax.tree.leaves(call(row)), inside, strict=True):
            np.testing.assert_allclose(many[row], outside, rtol=1e-9, atol=1e-12)
    first, *rest = (row[0] for row in rows)
    of = total(call.function, *rest)
    direction = jnp.linspace(1.0, 2.0, first.size).reshape(first.shape)
    reverse, forward = jax.jit(lambda x: (jax.grad(of)(x), jax.jacfwd(of)(x)))(first)
    expected = (of(first + h * direction) - of(first - h * direction)) / (2.0 * h)
    for slope in (reverse, forward):
        assert jnp.sum(slope * direction) == pytest.approx(float(expected), rel=1e-6)
    assert abs(float(expected)) > 1e-3  # a control: zero would agree with anything


# --- robots ------------------------------------------------------------------------------------------------

VECTORS = np.random.default_rng(3).standard_normal((3, 6))
TOOL = [0.3, 0.2, 0.5]


@cache
def robot() -> mb.Model:
    return mb.example("arm")


@cache
def start() -> jax.Array:
    return jnp.asarray(robot().neutral() + 0.1)


def _recursion(name: str) -> Callable[[Any], Any]:
    function, arguments, _ = FUNCTIONS[name]
    return lambda q: function(robot(), q, *VECTORS[: len(arguments) - 1])


ON_THE_HOST: dict[str, Callable[[Any], Any]] = {
    "extreme_sectional_curvatures": lambda q: mb.curvatures.extreme_sectional_curvatures(robot(), q).least,
    "finite_differences": lambda q: mb.finite_differences(robot(), lambda p: p, q, 1e-3),
    "closure_forces": lambda q: mb.closure_forces(mb.example("four_bar"), q[:1], [1.0], [1.0]),
    "joint_forces": lambda q: mb.joint_forces(robot(), q, *VECTORS[:2])["shoulder"],
    "inverse_kinematics": lambda q: mb.inverse_kinematics(robot(), {"tool": TOOL}, q).q,
    "logarithm": lambda q: mb.logarithm(robot(), start(), q).v,
    "audit_coriolis": lambda q: mb.audit_coriolis(
        robot(), partial(mb.coriolis_matrix, robot()), q, VECTORS[0]
    ),
}
IN_JAX: dict[str, Callable[[Any], Any]] = {
    **{name: _recursion(name) for name in FUNCTIONS if "with torsion" not in name},
    "close_loops": lambda q: mb.close_loops(robot(), q),
    "variational_step": lambda q: mb.variational_step(robot(), q, VECTORS[0], 1e-3),
    "discrete_momentum": lambda q: mb.discrete_momentum(robot(), q, start(), 1.0),
    "displace": lambda q: mb.displace(robot(), q, VECTORS[0]),
    "difference": lambda q: mb.difference(robot(), q, start()),
    "linearize": lambda q: mb.linearize(robot(), q, *VECTORS[:2]),
    "kinetic_energy": lambda q: mb.kinetic_energy(robot(), q, VECTORS[0]),
    "centroidal_momentum": lambda q: mb.centroidal_momentum(robot(), q, VECTORS[0]),
    "centroidal_momentum_matrix": lambda q: mb.centroidal_momentum_matrix(robot(), q),
    "centroidal_momentum_matrix_rate": lambda q: mb.centroidal_momentum_matrix_rate(robot(), q, VECTORS[0]),
    "sectional_curvature": lambda q: mb.curvatures.sectional_curvature(robot(), q, *VECTORS[:2]),
    "curvature_with_torsion": lambda q: mb.curvatures.curvature_with_torsion(robot(), q),
    "ricci": lambda q: mb.curvatures.ricci(robot(), q),
    "scalar_curvature": lambda q: mb.curvatures.scalar_curvature(robot(), q),
    "zero_order_hold": lambda q: mb.zero_order_hold(q[:, None] * np.eye(6), np.eye(6), 0.1),
    "Model.metric.matrix": lambda q: robot().metric.matrix(q),
    "Model.definition.metric.matrix": lambda q: robot().definition.metric.matrix(q),
    "Model.spanning_configuration": lambda q: robot().spanning_configuration(q),
    "Model.system().coriolis_matrix": lambda q: robot().system().coriolis_matrix(q, VECTORS[0]),
    "Model.system().gravity": lambda q: robot().system().gravity(q),
    "Model.system().inverse_dynamics": lambda q: robot().system().inverse_dynamics(q, *VECTORS[:2]),
    "Model.system().forward_dynamics": lambda q: robot().system().forward_dynamics(q, *VECTORS[:2]),
    "Model.definition.connection.coefficients": lambda q: robot().definition.connection.coefficients(q),
    "Model.connection.coefficients": lambda q: robot().connection.coefficients(q),
    "Model.connection.apply": lambda q: robot().connection.apply(q, *VECTORS[:2]),
}
NEITHER = {  # of `mb`: no function of a configuration
    "example",
    "example_path",
    "examples",
    "from_mjcf",
    "from_urdf",
    "get_num_threads",
    "independent_forms",
    "inertia_metric",
    "inertial_parameters",
    "load",
    "total_mass",
    "momentum_forms",
    "prepare",
    "rolling_forms",
    "set_num_threads",
    "warm_up",
}


def test_all_functions_of_mb_are_here() -> None:
    rooms = (mb, mb.curvatures)
    things = {name: getattr(room, name) for room in rooms for name in room.__all__}
    functions = {name for name, thing in things.items() if not isinstance(thing, type)}
    assert functions - NEITHER == {name for name in {*ON_THE_HOST, *IN_JAX} if "." not in name}


@pytest.mark.parametrize("name", ON_THE_HOST)
def test_functions_of_robots_outside_of_jax(name: str) -> None:
    for transformation in TRANSFORMATIONS:
        with pytest.raises(TypeError, match="JAX traces"):
            trace(transformation, ON_THE_HOST[name], [start()])


#: Recursions that are always traced; their rules and one definition. All are differentiated elsewhere.
TRACED = ("mass_matrix", "coriolis_product", "forward_dynamics", "frame_pose", "center_of_mass_jacobian")


#: What compiles for long, or is one of many of a kind.
SLOW = {*FUNCTIONS, "sectional_curvature", "curvature_with_torsion", "ricci", "scalar_curvature"}


@pytest.mark.parametrize(
    "name", [name if name in TRACED or name not in SLOW else further(name) for name in IN_JAX]
)
def test_functions_of_robots(name: str) -> None:
    for transformation in TRANSFORMATIONS:
        trace(transformation, IN_JAX[name], [start()])


@pytest.mark.further
def test_christoffel_symbols_of_a_robot_have_a_gradient() -> None:
    of = total(IN_JAX["Model.connection.coefficients"])
    reverse, forward = jax.jit(lambda q: (jax.grad(of)(q), jax.jacfwd(of)(q)))(start())
    np.testing.assert_allclose(reverse, forward, rtol=1e-9, atol=1e-12)
    assert float(jnp.max(jnp.abs(forward))) > 1e-3


# --- control -----------------------------------------------------------------------------------------------

POINT, VELOCITY = (jnp.asarray(ARGUMENTS[name][0]) for name in "qv")


@cache
def reference() -> control.FieldReference:
    return control.trajectory_reference(FRAME, lambda t: jnp.stack([jnp.sin(t), t, 0.0 * t]), 2.0)


@cache
def controller() -> control.PassivityController:
    return control.PassivityController(SYSTEM, 3.0)


CONTROL: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "FieldReference.velocity": (lambda q: reference().velocity(0.3, q), True),
    "FieldReference.acceleration": (lambda q: reference().acceleration(0.3, q, VELOCITY), True),
    "PassivityController.torque": (
        lambda q: controller().torque(q, VELOCITY, 0.5 * VELOCITY, VELOCITY),
        True,
    ),
    "ClosedLoop.simulate": (
        lambda q: control.ClosedLoop(SYSTEM, controller(), reference()).simulate(
            q, VELOCITY, np.linspace(0.0, 0.1, 3)
        ),
        True,
    ),
    "lqr": (lambda q: control.lqr(q[:, None] * np.eye(3), np.eye(3), np.eye(3), np.eye(3)), False),
    "configuration_controllability": (
        lambda q: control.controllability.configuration_controllability(NABLA, inputs, q),
        False,
    ),
    "kinematic_controllability": (
        lambda q: control.controllability.kinematic_controllability(NABLA, inputs, q),
        False,
    ),
    "minimum_effort_curve": (
        lambda q: control.minimum_effort_curve(SYSTEM, [q, 2.0 * q], [0.0, 1.0]),
        False,
    ),
    "is_decoupling": (
        lambda q: control.controllability.is_decoupling(
            cn.LeviCivita(METRIC), lambda p: jnp.ones(3), inputs, q
        ),
        False,
    ),
}


@pytest.mark.parametrize("name", CONTROL)
def test_control(name: str) -> None:
    function, inside = CONTROL[name]
    for transformation in TRANSFORMATIONS:
        if inside:
            trace(transformation, function, [POINT])
            continue
        with pytest.raises(TypeError, match="JAX traces"):
            trace(transformation, function, [POINT])


def test_products_have_gradients() -> None:
    """Blocks of equal factors, which are filled in together."""
    factor = cn.MatrixFrame(lambda q: jnp.array([[1.0, 0.0], [0.3 * q[0], 1.0 + q[1] ** 2]]), 2, 2)
    frame, q = cn.ProductFrame(factor, factor), jnp.array([0.1, 0.2, 0.3, 0.4])
    for function in (frame.matrix, frame.structure_functions):
        of = total(function)
        reverse, forward = jax.jit(lambda q, of=of: (jax.grad(of)(q), jax.jacfwd(of)(q)))(q)
        np.testing.assert_allclose(reverse, forward, rtol=1e-12)
        assert float(jnp.max(jnp.abs(forward))) > 1e-3


def test_the_page_names_what_is_tested_here() -> None:
    """Each name in a row of the table is in the list of what is traced, or of what is refused."""
    inside = {*CALLS} - JUDGES | {*IN_JAX} | {name for name, (_, works) in CONTROL.items() if works}
    outside = JUDGES | {*ON_THE_HOST} | {name for name, (_, works) in CONTROL.items() if not works}
    page = PAGE.read_text().partition("## What works inside of JAX")[2].partition("\n## ")[0]
    rows = [row.split("|")[1:-1] for row in page.splitlines() if row.startswith("|")][2:]
    assert len(rows) > 5
    for names, *cells in rows:
        assert {cell.strip() for cell in cells} in ({"yes"}, {"`TypeError`"})
        tested = {name.lower() for name in (inside if "yes" in cells[0] else outside)}
        for name in re.findall(r"`([^`]+)`", names):
            word = re.sub(r"^(mb|control|family)\.(curvatures\.)?", "", name).removesuffix("...").lower()
            assert any(word in other for other in tested), name
