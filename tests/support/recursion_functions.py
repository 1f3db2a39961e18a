"""The recursions by name, and mechanisms to call them on: what the tests of their arguments share."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further
from closed_chains import PLANS
from mechanisms import MOVING, move, random_mechanism, sample
from scipy.spatial.transform import Rotation

from connections import multibody as mb
from connections.multibody.program.polarization import POLARIZED
from connections.multibody.program.table import RECURSIONS


def stacked(derivatives):
    """A function that returns several matrices, as one that returns them in one array."""

    def call(model, *arguments, out=None, **named):
        parts = derivatives(model, *arguments, out=out, **named)
        if out is None:
            return (jnp if isinstance(parts[0], jax.Array) else np).stack(parts, axis=-3)
        assert all(part.size == 0 or np.shares_memory(part, out) for part in parts)
        return out

    return call


def stacked_tensors(derivatives):
    """The same for arrays with three axes."""

    def call(model, *arguments, out=None, **named):
        parts = derivatives(model, *arguments, out=out, **named)
        if out is None:
            return (jnp if isinstance(parts[0], jax.Array) else np).stack(parts, axis=-4)
        assert all(part.size == 0 or np.shares_memory(part, out) for part in parts)
        return out

    return call


def _square(n, bodies):
    return n, n


def _cube(n, bodies):
    return n, n, n


def _fourth(n, bodies):
    return n, n, n, n


def _vector(n, bodies):
    return (n,)


def _three(n, bodies):
    return 3, n, n


def _four(n, bodies):
    return 4, n, n


def _four_cubes(n, bodies):
    return 4, n, n, n


def _wide(n, bodies):
    return n, 10 * bodies


def _two_wide(n, bodies):
    return 2, n, 10 * bodies


def _with_torsion(function):
    return partial(function, body_factor="force_cross")


def _of_frame(function, **options):
    """A function of the frame `tip`, which is fixed to the last body; or of a body half-way."""

    def call(robot, *arguments, **more):
        names = getattr(robot, "frame_names", ["tip"])
        frame = "tip" if "tip" in names else robot.body_names[len(robot.body_names) // 2]
        return function(robot, *arguments, frame=frame, **options, **more)

    return call


def with_tip(robot):
    """The robot with a frame `tip` that is turned and moved from the last body."""
    placement = np.eye(4)
    placement[:3, :3] = Rotation.from_rotvec([0.3, -0.5, 0.8]).as_matrix()
    placement[:3, 3] = 0.2, -0.1, 0.3
    return robot.with_frames({"tip": (robot.body_names[-1], placement)})


#: Name: the function, its arguments after the model, and the shape of one result.
FUNCTIONS = {
    "mass_matrix": (mb.mass_matrix, ("q",), _square),
    "coriolis_matrix": (mb.coriolis_matrix, ("q", "v"), _square),
    "coriolis_matrix with torsion": (_with_torsion(mb.coriolis_matrix), ("q", "v"), _square),
    "mass_matrix_rate": (mb.mass_matrix_rate, ("q", "v"), _square),
    "christoffel_symbols": (mb.christoffel_symbols, ("q",), _cube),
    "christoffel_symbols with torsion": (_with_torsion(mb.christoffel_symbols), ("q",), _cube),
    "coriolis_product": (mb.coriolis_product, ("q", "v", "w"), _vector),
    "coriolis_transpose_product": (mb.coriolis_transpose_product, ("q", "v", "w"), _vector),
    "coriolis_product with torsion": (_with_torsion(mb.coriolis_product), ("q", "v", "w"), _vector),
    "coriolis_transpose_product with torsion": (
        _with_torsion(mb.coriolis_transpose_product),
        ("q", "v", "w"),
        _vector,
    ),
    "inverse_dynamics": (mb.inverse_dynamics, ("q", "v", "a"), _vector),
    "nonlinear_effects": (mb.nonlinear_effects, ("q", "v"), _vector),
    "gravity": (mb.gravity, ("q",), _vector),
    "forward_dynamics": (mb.forward_dynamics, ("q", "v", "tau"), _vector),
    "inverse_mass_matrix": (mb.inverse_mass_matrix, ("q",), _square),
    "regressor": (mb.regressor, ("q", "v", "v_r", "a_r"), _wide),
    "momentum_regressor": (stacked(mb.momentum_regressor), ("q", "v"), _two_wide),
    "inverse_dynamics_derivatives": (stacked(mb.inverse_dynamics_derivatives), ("q", "v", "a"), _three),
    "forward_dynamics_derivatives": (stacked(mb.forward_dynamics_derivatives), ("q", "v", "tau"), _three),
    "inverse_dynamics_hessian_product": (
        stacked(mb.inverse_dynamics_hessian_product),
        ("q", "v", "a", "w"),
        _four,
    ),
    "forward_dynamics_hessian_product": (
        stacked(mb.forward_dynamics_hessian_product),
        ("q", "v", "tau", "w"),
        _four,
    ),
    "inverse_dynamics_second_derivatives": (
        stacked_tensors(mb.inverse_dynamics_second_derivatives),
        ("q", "v", "a"),
        _four_cubes,
    ),
    "forward_dynamics_second_derivatives": (
        stacked_tensors(mb.forward_dynamics_second_derivatives),
        ("q", "v", "tau"),
        _four_cubes,
    ),
    "coriolis_matrix_rate": (mb.coriolis_matrix_rate, ("q", "v", "a"), _square),
    "coriolis_matrix_rate with torsion": (_with_torsion(mb.coriolis_matrix_rate), ("q", "v", "a"), _square),
    "christoffel_derivatives": (mb.christoffel_derivatives, ("q",), _fourth),
    "christoffel_derivatives with torsion": (_with_torsion(mb.christoffel_derivatives), ("q",), _fourth),
    "curvature": (mb.curvatures.curvature, ("q",), _fourth),
    "curvature_operator": (mb.curvatures.curvature_operator, ("q", "v"), _square),
    "forward_kinematics": (mb.forward_kinematics, ("q",), lambda n, bodies: (bodies, 4, 4)),
    "body_jacobians": (mb.body_jacobians, ("q",), lambda n, bodies: (6 * bodies, n)),
    "frame_pose": (_of_frame(mb.frame_pose), ("q",), lambda n, bodies: (4, 4)),
    "frame_jacobian": (_of_frame(mb.frame_jacobian), ("q",), lambda n, bodies: (6, n)),
    "frame_jacobian_rate": (
        _of_frame(mb.frame_jacobian_rate, axes="world"),
        ("q", "v"),
        lambda n, bodies: (6, n),
    ),
    "center_of_mass": (mb.center_of_mass, ("q",), lambda n, bodies: (3,)),
    "center_of_mass_jacobian": (mb.center_of_mass_jacobian, ("q",), lambda n, bodies: (3, n)),
}

#: What closed chains have no recursion for: they compute it by `polarization`, or by the definition in JAX,
#: which compiles for up to a minute for each shape; `test_second_derivatives.test_closed_chains` calls that.
BY_DEFINITION = {name for name in FUNCTIONS if RECURSIONS[name.removesuffix(" with torsion")].closed is None}
BY_JAX = {name for name in BY_DEFINITION if name.removesuffix(" with torsion") not in POLARIZED}
COMPILED = [name for name in FUNCTIONS if name not in BY_DEFINITION]
#: Trees and closed chains: loops of one velocity and of several, under a free joint; couplings; a function.
MECHANISMS = ("tree", "one joint", "four-bar", "planar robot", "legged robot", "belt leg", "cam")
TREES = MECHANISMS[:2]
#: One of each form of a row of the table: what tests of arguments and batches call without `--all`. Entries
#: are rendered from one template; all functions are compared with oracles elsewhere.
SOME = ("mass_matrix", "christoffel_symbols with torsion", "inverse_dynamics")
#: On trees these, too.
ON_TREES = (*SOME, "forward_dynamics", "frame_jacobian_rate")


#: These are not quadratic in their vectors, all vectors together.
LINEAR = {name for name, (_, names, _) in FUNCTIONS.items() if len(names) <= 2} - {
    "nonlinear_effects",
    "momentum_regressor",
    "curvature_operator",
}
#: Of these, what is quadratic in velocities vanishes if a tree has one joint.
COUPLED = {
    *(f"{dynamics}_dynamics_derivatives" for dynamics in ("inverse", "forward")),
    *(f"{dynamics}_dynamics_second_derivatives" for dynamics in ("inverse", "forward")),
    "momentum_regressor",
}


def overflows(name, robot):
    """Whether the result is not finite where all vectors are `recursion_values.TOO_LARGE`."""
    if robot.nv == 1 and not robot.closed and name in COUPLED:
        return False
    return name not in LINEAR


def on_trees(names=FUNCTIONS):
    """Every function; those that are not in `ON_TREES` are further cases."""
    return pytest.mark.parametrize("name", [name if name in ON_TREES else further(name) for name in names])


#: Every function on every mechanism; what closed chains compute by polarization, on one of them only.
EVERY = [
    (name, of)
    for of in MECHANISMS
    for name in FUNCTIONS
    if of in TREES or name not in (BY_DEFINITION if of != "four-bar" else BY_JAX)
]
#: Those for which little is compiled: what the fuzz tests draw from without `--all`.
FEW = [(name, of) for name, of in EVERY if of != "cam" and name in (ON_TREES if of in TREES else SOME)]


def functions_of(robot):
    """The names of the functions that are compiled recursions of a robot."""
    return COMPILED if robot.closed else [*FUNCTIONS]


@cache
def model(name="tree"):
    """One of `MECHANISMS`, or of the plans of closed chains."""
    if name == "tree":
        return with_tip(random_mechanism(np.random.default_rng(3), 9, MOVING, trees=2, massless=0.5))
    if name == "one joint":
        return with_tip(random_mechanism(np.random.default_rng(4), 1, (mb.Helical,)))
    return with_tip(PLANS[name]().build())


def core_shape(name, of=None):
    """Shape of one result."""
    robot = of or model()
    return FUNCTIONS[name][2](robot.nv, len(robot.body_names))


def quaternions(robot):
    """Where the quaternions of q lie, by the name of the joint."""
    joints = zip(robot.joint_names, robot.kinematics.joints, strict=True)
    stops = {
        name: robot.configuration_slice(name).stop
        for name, joint in joints
        if isinstance(joint, mb.Free | mb.Spherical)
    }
    return {name: slice(stop - 4, stop) for name, stop in stops.items()}


def configurations(robot, rng, *batch):
    """Random q (..., nq) and v (..., nv); near the reference where loops are to close."""
    if not robot.closed:
        return sample(robot, rng, *batch)
    q = move(robot, robot.neutral(), 0.2 * rng.uniform(-1.0, 1.0, (*batch, robot.nv)))
    return np.array(q), rng.standard_normal((*batch, robot.nv))


def states(name, rng, *batch, of=None):
    """Random arguments of a function."""
    q, v = configurations(of or model(), rng, *batch)
    return [q, v, *rng.standard_normal((2, *v.shape))][: len(FUNCTIONS[name][1])]


def call(name, *arguments, of=None, **options):
    return FUNCTIONS[name][0](of or model(), *arguments, **options)


def agree(a, b, tol=1e-12):
    return a.shape == b.shape and np.max(np.abs(a - b), initial=0.0) <= tol * np.max(np.abs(b), initial=0.0)
