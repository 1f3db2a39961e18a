"""Points next to their manifold, and every public function of a robot that takes one.

A floating robot far from the world's origin, with a ball joint: both kinds of quaternions. Each function maps
a configuration q (nq,) to arrays; at a q whose quaternions have another norm than one it must give what it
gives at the normalized q, or refuse.
"""

from __future__ import annotations

from functools import cache

import jax.numpy as jnp
import numpy as np
from mechanisms import random_body
from recursion_functions import FUNCTIONS, quaternions

import connections as cn
from connections import control
from connections import multibody as mb
from connections.explorer.robot import Robot

_POSE = control.PoseTask("hand", damping=2.0, stiffness=3.0, name="pose")
TIMES = np.linspace(0.0, 0.4, 3)
KNOTS = np.linspace(0.0, 1.0, 5)


def place(x, y, z):
    transform = np.eye(4)
    transform[:3, 3] = x, y, z
    return transform


@cache
def robot():
    """A floating trunk, an arm on a hinge, and a hand on a ball joint."""
    mechanism, rng = mb.Mechanism(), np.random.default_rng(5)
    joints = {"base": mb.Free(), "hinge": mb.Revolute((0.0, 1.0, 0.0)), "ball": mb.Spherical()}
    parent = "world"
    for (name, joint), body in zip(joints.items(), ("trunk", "arm", "hand"), strict=True):
        mechanism.add_body(body, **random_body(rng))
        mechanism.add_joint(name, parent, body, joint, place(0.1, 0.2, 0.3))
        parent = body
    return mechanism.build()


def configuration(rng, model=None):
    """A random configuration whose free bodies are about 5 m from the origin."""
    model = model or robot()
    q = model.random(rng)
    for name, joint in zip(model.joint_names, model.kinematics.joints, strict=True):
        if isinstance(joint, mb.Free):
            q[model.configuration_slice(name).start :][:3] *= 5.0
    return q


def stretched(model, q, factor):
    """q (..., nq) with quaternions of norm `factor`."""
    q = np.array(q, dtype=np.float64)
    for where in quaternions(model).values():
        q[..., where] *= factor / np.linalg.norm(q[..., where], axis=-1, keepdims=True)
    return q


def _state(count):
    return np.random.default_rng(11).standard_normal((count, robot().nv))


def _recursion(name):
    function, arguments, _ = FUNCTIONS[name]
    return lambda q: function(robot(), q, *_state(3)[: len(arguments) - 1])


def _rows(name):
    function, arguments, _ = FUNCTIONS[name]
    return lambda q: function(robot(), np.stack([q] * 11), *_state(3)[: len(arguments) - 1])


def _samples(q):
    """Five configurations along a motion that begins at q."""
    return mb.displace(robot(), q, KNOTS[:, None] * _state(1))


def _stretched_samples(q):
    """The same, of norms about as far from one as those of the quaternions of q."""
    norms = [np.linalg.norm(q[where]) for where in quaternions(robot()).values()]
    samples = _samples(q)
    for where, norm in zip(quaternions(robot()).values(), norms, strict=True):
        samples[:, where] *= norm ** np.array([[1.0], [-1.0], [0.5], [0.0], [1.0]])
    return samples


def _curve(q):
    """A turn of the trunk, of the norm of the quaternion of q."""
    start = jnp.asarray(q, dtype=jnp.float64)

    def curve(t):
        turned = jnp.stack([jnp.sin(t), 0.0 * t, 0.0 * t, jnp.cos(t)])
        x, y, z, w = start[3:7]
        left = jnp.array([[w, -z, y, x], [z, w, -x, y], [-y, x, w, z], [-x, -y, -z, w]])
        return start.at[3:7].set(left @ turned)

    return curve


def _reference(q):
    trajectory = lambda t: jnp.asarray(q)  # noqa: E731
    reference = control.trajectory_reference(robot().frame, trajectory, 2.0)
    return reference.velocity(0.3, _at_rest())


def _at_rest():
    return configuration(np.random.default_rng(2))


@cache
def system():
    return robot().system()


@cache
def explored():
    return Robot(robot())


def _motion(q):
    motion = explored().move(q, _state(1)[0], 0.1)
    return motion.q, motion.H, motion.positions


def _regulator(q):
    n = robot().nv
    gain = np.concatenate([np.eye(n), np.eye(n)], axis=1)
    law = control.Regulator(robot(), q, np.zeros(n), np.zeros(n), gain)
    return law.error(_at_rest(), np.zeros(n))


@cache
def controller():
    return control.PassivityController(system(), 2.0)


@cache
def law():
    return control.FunctionLaw(system().frame, controller().torque_at)


@cache
def observer():
    return control.MomentumObserver(system(), 3.0)


def _observer(q):
    return observer().residual(q, *_state(2)), observer().state_rate(q, *_state(3))


def _audited(q):
    """The configurations at which an audit asks for C."""
    asked = []

    def C(p, v):
        asked.append(p.copy())
        return mb.coriolis_matrix(robot(), p, v)

    mb.audit_coriolis(robot(), C, q, _state(1)[0])
    return np.array(asked)


#: Name: function of q (nq,) -> arrays.
PUBLIC = {
    **{name: _recursion(name) for name in FUNCTIONS},
    **{f"{name}, rows": _rows(name) for name in FUNCTIONS},
    "inverse_dynamics_derivatives": lambda q: mb.inverse_dynamics_derivatives(robot(), q, *_state(2)),
    "forward_dynamics_derivatives": lambda q: mb.forward_dynamics_derivatives(robot(), q, *_state(2)),
    "derivatives, rows": lambda q: mb.forward_dynamics_derivatives(robot(), np.stack([q] * 9), *_state(2)),
    "linearize": lambda q: mb.linearize(robot(), q, *_state(2)),
    "difference to": lambda q: mb.difference(robot(), _at_rest(), q),
    "difference from": lambda q: mb.difference(robot(), q, _at_rest()),
    "logarithm": lambda q: mb.logarithm(robot(), mb.displace(robot(), q, np.full(robot().nv, 0.1)), q).v,
    "variational_step": lambda q: mb.variational_step(robot(), q, _state(1)[0], 1e-3),
    "discrete_momentum": lambda q: mb.discrete_momentum(robot(), q, _at_rest(), 0.5),
    "displace": lambda q: mb.displace(robot(), q, _state(1)[0]),
    "displace by nothing": lambda q: mb.displace(robot(), q, np.zeros(robot().nv)),
    "finite_differences": lambda q: mb.finite_differences(robot(), lambda p: mb.gravity(robot(), p), q, 1e-3),
    "body_jacobians": lambda q: mb.body_jacobians(robot(), q),
    "spanning_configuration": lambda q: list(robot().spanning_configuration(q).values()),
    "frame": lambda q: robot().frame.matrix(q),
    "metric": lambda q: robot().definition.metric.matrix(q),
    "inner": lambda q: robot().definition.metric.inner(q, *_state(2)),
    "connection": lambda q: robot().definition.connection.coefficients(q),
    "apply": lambda q: robot().definition.connection.apply(q, *_state(2)),
    "torsion": lambda q: robot().definition.connection.first_kind(q, robot().definition.metric),
    "recursive connection": lambda q: robot().connection.coefficients(q),
    "recursive metric": lambda q: robot().connection.metric.matrix(q),
    "curvature_with_torsion": lambda q: mb.curvatures.curvature_with_torsion(robot(), q),
    "ricci": lambda q: mb.curvatures.ricci(robot(), q),
    "scalar_curvature": lambda q: mb.curvatures.scalar_curvature(robot(), q),
    "extreme_sectional_curvatures": lambda q: mb.curvatures.extreme_sectional_curvatures(robot(), q).least,
    "joint_forces": lambda q: list(mb.joint_forces(robot(), q, *_state(2)).values()),
    "inverse_kinematics": lambda q: (
        mb.inverse_kinematics(robot(), {robot().frame_names[-1]: [0.3, 0.2, 0.5]}, q, limits=False).q
    ),
    "sectional_curvature": lambda q: mb.curvatures.sectional_curvature(robot(), q, *_state(2)),
    "curvature of the connection": lambda q: robot().connection.curvature(q),
    "system": lambda q: (
        system().mass_matrix(q),
        system().coriolis_matrix(q, _state(1)[0]),
        system().bias(q, _state(1)[0]),
        system().gravity(q),
        system().forward_dynamics(q, *_state(2)),
        system().energy(q, _state(1)[0]),
    ),
    "linearize a connection": lambda q: cn.linearize(robot().connection, q, _state(1)[0]),
    "geodesic": lambda q: cn.geodesic(robot().connection, q, _state(1)[0], TIMES),
    "exponential": lambda q: cn.exponential(robot().connection, q, 0.3 * _state(1)[0]),
    "simulate": lambda q: system().simulate(q, _state(1)[0], TIMES),
    "transport along samples": lambda q: cn.parallel_transport(
        robot().connection, (KNOTS, _stretched_samples(q)), _state(1)[0], TIMES
    ),
    "transport along a curve": lambda q: cn.parallel_transport(
        robot().connection, _curve(q), _state(1)[0], TIMES
    ),
    "passivity": lambda q: controller().torque(q, *_state(3)),
    "a law that is a function": lambda q: law().torque(q, *_state(3)),
    "observer": _observer,
    "robot controller": lambda q: control.PassivityController(robot().system(0.5), 2.0).torque(q, *_state(3)),
    "robot observer": lambda q: control.MomentumObserver(robot().system(), 2.0).state_rate(q, *_state(3)),
    "regulator": _regulator,
    "trajectory_reference": _reference,
    "contacts": lambda q: control.Contacts(robot(), [control.PointContact("hand", 0.5)]).forward_dynamics(
        q, *_state(2)
    ),
    "whole body": lambda q: control.WholeBodyController(robot(), [_POSE]).torque(
        q, _state(1)[0], {"pose": np.eye(4)}
    ),
    "centroidal": lambda q: control.CentroidalCoordinates(robot()).coriolis_matrix(q, _state(1)[0]),
    "explorer": _motion,
    "audit": _audited,
}

#: Those that integrate, to 1e-10: round-off at the start grows along the way.
INTEGRATED = (
    "geodesic",
    "exponential",
    "simulate",
    "transport along samples",
    "transport along a curve",
    "explorer",
)
