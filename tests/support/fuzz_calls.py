"""Public calls, each with arguments that are right: what the fuzz tests put hostile values in place of."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import recursion_functions as recursions
from fuzz_settings import EXAMPLES

import connections as cn
from connections import control
from connections import multibody as mb

CHART = cn.CoordinateFrame(2)
Q, V, W = np.array([0.1, 0.2]), np.array([1.0, -0.5]), np.array([0.3, 0.4])
TURN, OMEGA = np.array([0.0, 0.6, 0.0, 0.8]), np.array([1.0, 0.5, -0.3])
TIMES = np.linspace(0.0, 1.0, 4)
SQUARE = np.array([[2.0, 0.3], [0.3, 1.0]])


class Call(NamedTuple):
    """A public function of arrays, and arrays that it takes."""

    function: Callable[..., Any]
    arguments: dict[str, np.ndarray]
    out: bool = False


def _matrix(q: Any) -> Any:
    return jnp.diag(jnp.stack([1.0 + q[1] ** 2, 2.0 + jnp.sin(q[0])]))


def _curve(t: Any) -> Any:
    return jnp.stack([t, t**2])


#: Public functions that take no arrays of numbers, or that are tested with what they take.
GROUPS = ("frames and metrics", "connections", "systems", "trees", "loops", "control")


@cache
def calls(group: str) -> dict[str, Call]:
    """The calls of a group by name."""
    return {
        "frames and metrics": _of_frames_and_metrics,
        "connections": _of_connections,
        "systems": _of_systems,
        "trees": partial(_of_robot, "tree"),
        "loops": partial(_of_robot, "four-bar"),
        "control": _of_control,
    }[group]()


def _of_frames_and_metrics() -> dict[str, Call]:
    metric, rotations, poses = cn.MatrixMetric(CHART, _matrix), cn.SO3Frame(), cn.SE3Frame()
    pose = np.concatenate([[1.0, 2.0, 3.0], TURN])
    return {
        "CoordinateFrame.matrix": Call(CHART.matrix, {"q": Q}),
        "CoordinateFrame.structure_functions": Call(CHART.structure_functions, {"q": Q}),
        "SO3Frame.matrix": Call(rotations.matrix, {"q": TURN}),
        "SE3Frame.structure_functions": Call(poses.structure_functions, {"q": pose}),
        "ProductFrame.matrix": Call(
            cn.ProductFrame(CHART, rotations).matrix, {"q": np.concatenate([Q, TURN])}
        ),
        "FrameField.lie_derivative": Call(partial(CHART.lie_derivative, jnp.sin), {"q": Q}),
        "FrameField.bracket": Call(partial(CHART.bracket, jnp.sin, jnp.cos), {"q": Q}),
        "MatrixFrame.matrix": Call(cn.MatrixFrame(_matrix, 2, 2).matrix, {"q": Q}),
        "MatrixMetric.matrix": Call(metric.matrix, {"q": Q}),
        "Metric.inner": Call(metric.inner, {"q": Q, "v": V, "w": W}),
        "ConstantMetric": Call(lambda H: cn.ConstantMetric(CHART, H).matrix(Q), {"H": SQUARE}),
    }


def _of_connections() -> dict[str, Call]:
    metric = cn.MatrixMetric(CHART, _matrix)
    nabla, turning = cn.LeviCivita(metric), cn.ConstantMetric(cn.SO3Frame(), np.diag([1.0, 2.0, 3.0]))
    body, family = cn.LeviCivita(turning), cn.ContorsionFamily(turning)
    at_q = ["coefficients", "torsion", "curvature", "ricci"]
    of_metric = ["scalar_curvature", "first_kind", "contorsion", "nonmetricity"]
    checks = ["check_metric_compatible", "check_same_geodesics"]
    three = {"q": Q, "u": V, "w": W}
    found = {f"AffineConnection.{name}": Call(getattr(nabla, name), {"q": Q}) for name in at_q}
    found |= {f"AffineConnection.{name}": Call(getattr(nabla, name), {"q": Q}) for name in of_metric}
    found |= {
        f"AffineConnection.{name}": Call(lambda q, name=name: getattr(nabla, name)(q).residual, {"q": Q})
        for name in checks
    }
    samples = np.stack([Q, Q + 0.1, Q + W])
    return found | {
        "AffineConnection.check_torsion_free": Call(lambda q: nabla.check_torsion_free(q).residual, {"q": Q}),
        "AffineConnection.apply": Call(nabla.apply, {"q": Q, "v": V, "w": W}),
        "AffineConnection.sectional": Call(nabla.sectional, three),
        "AffineConnection.apply_curvature": Call(nabla.apply_curvature, three | {"z": V}),
        "AffineConnection.apply_ricci": Call(nabla.apply_ricci, {"q": Q, "v": V, "w": W}),
        "AffineConnection.covariant_derivative": Call(
            partial(nabla.covariant_derivative, jnp.sin, jnp.cos), {"q": Q}
        ),
        "LeviCivita of SO(3)": Call(body.coefficients, {"q": TURN}),
        "ContorsionFamily.connection": Call(
            lambda beta: family.connection(beta).coefficients(TURN), {"beta": np.array([0.5])}
        ),
        "ContorsionFamily.sweep": Call(
            lambda betas: family.sweep(betas, lambda member: member.torsion_at(jnp.asarray(TURN))),
            {"betas": np.array([[0.5], [1.0]])},
        ),
        "geodesic": Call(partial(cn.geodesic, nabla), {"q0": Q, "v0": V, "times": TIMES}),
        "geodesic on SO(3)": Call(partial(cn.geodesic, body), {"q0": TURN, "v0": OMEGA, "times": TIMES}),
        "exponential": Call(partial(cn.exponential, nabla), {"q0": Q, "v0": V}),
        "logarithm": Call(partial(cn.logarithm, nabla), {"q0": Q, "q1": Q + 0.1}),
        "parallel_transport": Call(partial(cn.parallel_transport, nabla, _curve), {"z0": V, "times": TIMES}),
        "parallel_transport along samples": Call(
            lambda points, z0: cn.parallel_transport(nabla, (np.linspace(0.0, 1.0, 3), points), z0, TIMES),
            {"points": samples, "z0": V},
        ),
        "holonomy": Call(
            lambda points: cn.holonomy(nabla, (np.linspace(0.0, 1.0, 4), points)),
            {"points": np.concatenate([samples, samples[:1]])},
        ),
        "geodesic_flow": Call(partial(cn.geodesic_flow, nabla), {"q0": Q, "v0": V, "times": TIMES}),
        "jacobi_field": Call(
            partial(cn.jacobi_field, nabla), {"q": Q, "v": V, "eta0": V, "deta0": W, "times": TIMES}
        ),
        "geodesic_stability": Call(partial(cn.geodesic_stability, nabla), {"q": Q, "v": V, "times": TIMES}),
        "conjugate_times": Call(lambda q, v: cn.conjugate_times(nabla, q, v, 1.0).times, {"q": Q, "v": V}),
        "deviation_map": Call(partial(cn.affine.deviation_map, nabla), {"q": Q, "v": V}),
    }


def _of_systems() -> dict[str, Call]:
    metric = cn.MatrixMetric(CHART, _matrix)
    system = cn.MechanicalSystem(metric, potential=lambda q: q[0] ** 2)
    forms = cn.ConstrainedConnection(metric, forms=lambda q: jnp.stack([1.0 + 0.0 * q[0], q[1]])[None])
    rolling = cn.NonholonomicSystem(forms)
    square = {"C": SQUARE, "H": SQUARE, "A": np.ones((2, 1)), "A_dot": np.ones((2, 1))}
    return {
        "coriolis_matrix": Call(partial(cn.coriolis_matrix, cn.LeviCivita(metric)), {"q": Q, "v": V}),
        "induced_coriolis_matrix": Call(cn.coriolis.induced_coriolis_matrix, square),
        "task_space_inclusion": Call(
            cn.coriolis.task_space_inclusion, {"H": SQUARE, "J": np.array([[1.0, 2.0]])}
        ),
        "MechanicalSystem.mass_matrix": Call(system.mass_matrix, {"q": Q}),
        "MechanicalSystem.coriolis_matrix": Call(system.coriolis_matrix, {"q": Q, "v": V}),
        "MechanicalSystem.bias": Call(system.bias, {"q": Q, "v": V}),
        "MechanicalSystem.gravity": Call(system.gravity, {"q": Q}),
        "MechanicalSystem.inverse_dynamics": Call(system.inverse_dynamics, {"q": Q, "v": V, "a": W}),
        "MechanicalSystem.forward_dynamics": Call(system.forward_dynamics, {"q": Q, "v": V, "tau": W}),
        "MechanicalSystem.energy": Call(system.energy, {"q": Q, "v": V}),
        "MechanicalSystem.simulate": Call(system.simulate, {"q0": Q, "v0": V, "times": TIMES}),
        "NonholonomicSystem.velocity": Call(rolling.velocity, {"q": Q, "v": np.array([0.5])}),
        "ConstrainedConnection.coefficients": Call(forms.coefficients, {"q": Q}),
    }


def _of_robot(kind: str) -> dict[str, Call]:
    robot, rng = recursions.model(kind), np.random.default_rng(11)
    found = {}
    few = robot.closed and EXAMPLES is None  # each of them would be compiled for a few examples
    slow = recursions.BY_JAX if robot.closed else ()
    for name in recursions.SOME if few else [name for name in recursions.FUNCTIONS if name not in slow]:
        function, arguments, _ = recursions.FUNCTIONS[name]
        given = dict(zip(arguments, recursions.states(name, rng, of=robot), strict=True))
        found[name] = Call(partial(function, robot), given, out=True)
    if robot.closed:  # loops are followed from a guess
        for name in recursions.SOME:
            function, given = recursions.FUNCTIONS[name][0], found[name].arguments
            start = np.array(mb.close_loops(robot, given["q"]).spanning)
            from_guess = partial(_from_guess, function, robot)
            found[f"{name} from a guess"] = Call(from_guess, given | {"guess": start}, out=True)
    q, v = recursions.configurations(robot, rng)
    motion = {"q0": q, "v0": v, "times": TIMES}
    if not few:
        found["curvature_with_torsion"] = Call(partial(mb.curvatures.curvature_with_torsion, robot), {"q": q})
        found["ricci"] = Call(partial(mb.curvatures.ricci, robot), {"q": q})
        found["scalar_curvature"] = Call(partial(mb.curvatures.scalar_curvature, robot), {"q": q})
    return found | {
        "body_jacobians": Call(partial(mb.body_jacobians, robot), {"q": q}),
        "linearize": Call(partial(mb.linearize, robot), {"q": q, "v": v, "tau": v}),
        "Model.spanning_configuration": Call(robot.spanning_configuration, {"q": q}),
        "difference": Call(partial(mb.difference, robot), {"q0": q, "q1": q}),
        "displace": Call(partial(mb.displace, robot), {"q": q, "xi": v}),
        "RobotSystem.simulate": Call(robot.system().simulate, motion),
        "variational_step": Call(_step(robot), {"q": q, "P": v}),
    }


def _step(robot: mb.Model) -> Callable[..., Any]:
    return lambda q, P: mb.variational_step(robot, q, P, 1e-4)


def _from_guess(function: Callable[..., Any], robot: mb.Model, q: Any, guess: Any, **given: Any) -> Any:
    return function(robot, mb.close_loops(robot, q, guess), **given)


@cache
def _hinge() -> mb.Model:
    mechanism = mb.Mechanism()
    mechanism.add_body("rod", 2.0, (0.3, 0.0, 0.1), 0.1 * np.diag([1.0, 2.0, 2.5]))
    mechanism.add_joint("hinge", "world", "rod", mb.Revolute((0.0, 1.0, 0.0)))
    return mechanism.build()


def _identified(**recording: Any) -> tuple[Any, ...]:
    found = control.identify(_hinge(), **recording, cutoff=5.0, friction=True)
    return found.parameters, found.viscous, found.coulomb, found.residual


def _recording() -> dict[str, np.ndarray]:
    times = np.linspace(0.0, 2.0, 41)
    q, v = np.sin(5.0 * times)[:, None], 5.0 * np.cos(5.0 * times)[:, None]
    return {"q": q, "v": v, "tau": mb.inverse_dynamics(_hinge(), q, v, -25.0 * q), "times": times}


#: Parameters of a ball of 1 kg.
BALL = np.array([1.0, 0.0, 0.0, 0.0, 0.1, 0.0, 0.1, 0.0, 0.0, 0.1])


def _of_control() -> dict[str, Call]:
    system = cn.MechanicalSystem(cn.MatrixMetric(CHART, _matrix))
    law, observer = control.PassivityController(system, 5.0), control.MomentumObserver(system, 2.0)
    reference = control.FieldReference(CHART, lambda t, q: -q)
    tree = recursions.model("tree")
    q, v = recursions.configurations(tree, np.random.default_rng(12))
    nominal, of_tree = control.PassivityController(tree.system(), 2.0), {"q": q, "v": v, "v_r": v, "a_r": v}
    family = control.UnknownInertia(tree.system(), [tree.body_names[-1]])
    adaptive = control.AdaptiveController(family, 2.0, 1.0)
    natural = control.AdaptiveController(family, 2.0, "natural", rate=1.0, mass_bound=9.0)
    contacts = control.Contacts(tree, [control.PointContact(tree.body_names[-1], 0.5)])
    point = control.PointTask(tree.body_names[-1], damping=1.0, name="point")
    whole = control.WholeBodyController(tree, [point], trade_off=True)
    pair = {"A": np.array([[0.0, 1.0], [0.0, 0.0]]), "B": np.array([[0.0], [1.0]])}
    weights = {"Q": np.eye(2), "R": np.eye(1)}
    states = {"q": Q, "v": V, "v_r": W, "a_r": V}
    return {
        "zero_order_hold": Call(partial(mb.zero_order_hold, step=0.1), pair),
        "PassivityController.torque": Call(law.torque, states),
        "FunctionLaw.torque": Call(control.FunctionLaw(CHART, lambda q, v, v_r, a_r: a_r - v).torque, states),
        "MomentumObserver.residual": Call(observer.residual, {"q": Q, "v": V, "z": W}),
        "FieldReference.velocity": Call(reference.velocity, {"t": np.array(0.5), "q": Q}),
        "ClosedLoop.simulate": Call(
            control.ClosedLoop(system, law, reference).simulate, {"q0": Q, "v0": V, "times": TIMES}
        ),
        "PassivityController.torque of a robot": Call(nominal.torque, of_tree),
        "UnknownInertia.regressor": Call(family.regressor, of_tree),
        "AdaptiveController.torque": Call(adaptive.torque, of_tree | {"parameters": np.ones(10)}),
        "AdaptiveController.parameters_rate": Call(adaptive.parameters_rate, of_tree),
        "AdaptiveController.next_parameters": Call(
            partial(natural.next_parameters, period=1e-3), of_tree | {"parameters": BALL}
        ),
        "Contacts.forward_dynamics": Call(contacts.forward_dynamics, {"q": q, "v": v, "tau": v}),
        "WholeBodyController.torque": Call(
            lambda q, v, place: whole.torque(q, v, {"point": place}), {"q": q, "v": v, "place": np.ones(3)}
        ),
        "identify": Call(_identified, _recording()),
        "lqr": Call(control.lqr, pair | weights),
        "reachable_directions": Call(control.reachable_directions, pair),
        "require_stabilizable": Call(control.require_stabilizable, pair),
    }
