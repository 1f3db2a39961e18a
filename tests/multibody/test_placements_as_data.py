"""Placements, frames, motors and passive forces as data of JAX, beside models that are built with them.

Derivatives are compared with differences of models outside of JAX, which know nothing of data.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further
from closed_chains import PLANS, REVOLUTE, four_bar
from closed_plan import Plan, at
from mechanisms import MOVING, random_mechanism
from recursion_functions import with_tip
from scipy.linalg import expm

from connections import control
from connections import multibody as mb
from connections.checks import ModelError, PointError, ShapeError

AXES = ("body", "world")
STEP = 1e-2  # of differences of sixth order
WEIGHTS = {1: 45.0 / 60.0, 2: -9.0 / 60.0, 3: 1.0 / 60.0}


@cache
def robot(of="two joints"):
    if of == "two joints":
        return with_tip(random_mechanism(np.random.default_rng(6), 2, (mb.Spherical, mb.Helical)))
    if of == "tree":
        return with_tip(random_mechanism(np.random.default_rng(3), 5, MOVING, trees=2))
    if of == "arm":
        return mb.example("arm")
    return with_tip(four_bar().build())


def state(model, rng, *batch):
    """q, v and tau with batch axes."""
    q = np.stack([model.random(rng) for _ in range(int(np.prod(batch)))]).reshape(*batch, model.nq)
    return q, *rng.standard_normal((2, *batch, model.nv))


def twist_matrix(x):
    """(4, 4), of a twist [omega; v] (6,), in NumPy or JAX."""
    numbers = jnp if isinstance(x, jax.Array) else np
    wx, wy, wz, vx, vy, vz = x
    o = 0.0 * wx
    return numbers.array([[o, -wz, wy, vx], [wz, o, -wx, vy], [-wy, wx, o, vz], [o, o, o, o]])


def moved(T, x):
    """T exp(x), inside JAX to first order about x = 0."""
    return T @ (jnp.eye(4) + twist_matrix(x)) if isinstance(x, jax.Array) else T @ expm(twist_matrix(x))


def slopes(function, x, step=STEP):
    """Derivatives (..., k) of a function of x (k,) outside of JAX, by differences of sixth order."""
    return np.stack(
        [
            sum(
                w * (np.asarray(function(x + k * step * unit)) - np.asarray(function(x - k * step * unit)))
                for k, w in WEIGHTS.items()
            )
            / step
            for unit in np.eye(len(x))
        ],
        axis=-1,
    )


def close(found, expected, tolerance):
    np.testing.assert_allclose(
        found, expected, rtol=0.0, atol=tolerance * max(np.max(np.abs(expected)), 1e-3)
    )


def derivatives_are_right(function, x, tolerance=1e-9, modes=(jax.jacrev, jax.jacfwd), step=STEP):
    """Values and Jacobians inside JAX of x -> array against those of the same function outside."""
    expected, by_differences = np.asarray(function(x)), slopes(function, x, step)
    close(jax.jit(function)(jnp.asarray(x)), expected, 1e-12)
    for mode in modes:
        found = jax.jit(mode(function))(jnp.asarray(x))
        close(found, by_differences, tolerance)
    gap = np.max(np.abs(by_differences + found))
    assert gap > 0.1 * np.max(np.abs(by_differences)) > 0.0  # a control: another sign would be noticed


# --- springs, dampers, friction, lift -----------------------------------------------------------------------


def passive(x, names, frame):
    """Every number of passive forces from x (13,), of joints of one coordinate."""
    one, other = names
    spring = mb.joints.Spring("s", {one: x[0], other: x[1]}, x[2], jnp.stack([x[3], x[4]]), x[5])
    plain = mb.joints.Spring("p", {other: 1.0}, x[6])
    if not isinstance(x, jax.Array):
        spring = mb.joints.Spring("s", {one: x[0], other: x[1]}, x[2], (x[3], x[4]), x[5])
    numbers = jnp if isinstance(x, jax.Array) else np
    return mb.joints.Passive(
        (spring, plain),
        damping={one: x[7]},
        friction={other: x[8]},
        friction_speed=x[9],
        lift={frame: numbers.stack([x[10], x[11], 0.0 * x[11], x[12]])},
    )


NUMBERS = np.array([1.1, 0.7, 3.0, -0.2, 0.1, 0.4, 2.0, 0.5, 0.3, 0.6, 1.5, 0.2, -0.4])


@pytest.mark.parametrize("of", ["arm", "four_bar"])
def test_passive_forces(of, rng):
    """Forces and what they do to accelerations, by every number; where the springs are not slack."""
    model = robot(of)
    q, v, tau = state(model, rng)
    names = model.kinematics.tree.joint_names[1:3]
    frame = model.frame_names[-1]

    def forces(x):
        return model.with_passive(passive(x, names, frame)).passive_forces(q, v)

    if not model.closed:
        derivatives_are_right(forces, NUMBERS)

    def accelerations(x):
        return mb.forward_dynamics(model.with_passive(passive(x, names, frame)), q, v, tau, passive=True)

    derivatives_are_right(accelerations, NUMBERS, modes=[jax.jacrev])
    without = slopes(
        lambda x: mb.forward_dynamics(model.with_passive(passive(x, names, frame)), q, v, tau), NUMBERS
    )
    assert not without.any()  # a control: only with passive=True do they act


def test_passive_forces_over_batches(rng):
    """Rows of a batch, robots of a `vmap`, derivatives along the frame, and linearizations."""
    model = robot("arm")
    q, v, tau = state(model, rng, 3)
    names = "lift", "bend"
    many = NUMBERS * rng.uniform(0.9, 1.1, (4, len(NUMBERS)))
    robots = jax.vmap(lambda x: model.with_passive(passive(x, names, "tool")))(many)
    found = jax.jit(jax.vmap(lambda model: model.passive_forces(q, v)))(robots)
    expected = [model.with_passive(passive(x, names, "tool")).passive_forces(q, v) for x in many]
    close(found, np.stack(expected), 1e-13)
    assert np.min(np.max(np.abs(found[1:] - found[:-1]), axis=(1, 2))) > 1e-3  # a control: robots differ

    def linearized(x):
        return mb.linearize(model.with_passive(passive(x, names, "tool")), q, v, tau, passive=True)

    for part, right in zip(jax.jit(linearized)(NUMBERS), linearized(NUMBERS), strict=True):
        close(part, right, 1e-10)


def test_lift_is_under_the_gravity_that_is_data(rng):
    """The weight that a balancer carries is that of the robot's own gravity."""
    model = robot("arm").with_passive(mb.joints.Passive(lift={"tool": [2.0, 0.1, 0.0, 0.3]}))
    q, v, _ = state(model, rng)
    derivatives_are_right(
        lambda g: model.with_gravity(g).passive_forces(q, v), np.array([0.5, -0.2, -9.0]), modes=[jax.jacrev]
    )


def test_passive_forces_are_a_pytree(rng):
    """A gradient by a `Passive` is a `Passive`, through a step of time; also by `Motor` and `Spring`."""
    model = robot("arm")
    q, v, tau = state(model, rng)
    given = mb.joints.Passive((mb.joints.Spring("s", {"bend": 1.0}, 2.0),), damping={"lift": 0.3})

    def energy(passive):
        a = mb.forward_dynamics(model.with_passive(passive), q, v, tau, passive=True)
        return 0.5 * jnp.sum((v + 0.01 * a) ** 2)

    found = jax.jit(jax.grad(energy))(given)
    assert isinstance(found, mb.joints.Passive) and found.springs[0].name == "s" and found.left_out == ()
    by_differences = slopes(
        lambda x: energy(mb.joints.Passive(given.springs, damping={"lift": x[0]})), np.array([0.3])
    )
    close(found.damping["lift"], by_differences[0], 1e-9)
    assert found.damping["lift"] != 0.0
    (motor,) = jax.grad(
        lambda motors: jnp.sum(model.with_motors(motors).motor_matrix_at(q)), allow_int=False
    )([mb.joints.Motor("m", {"lift": 3.0})])
    assert motor.joints["lift"] == 1.0


# --- motors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["arm", "four_bar"])
def test_motors(of, rng):
    """Ratios, wrenches on frames, and where such a frame is."""
    model = robot(of)
    q, _, _ = state(model, rng)
    joint, frame = model.kinematics.tree.joint_names[1], model.frame_names[-1]

    def with_fan(x):
        return model.with_frames({"fan": (frame, moved(at(0.1, 0.2, 0.3), x[:6]))})

    def with_both(x):
        motors = [mb.joints.Motor("m", {joint: x[12]}), mb.joints.Motor("f", frame="fan", wrench=x[6:12])]
        return with_fan(x).with_motors(motors)

    x = np.concatenate([np.zeros(6), rng.standard_normal(7)])
    right = with_both(x).motor_matrix(q)

    def matrix(x):
        if isinstance(x, jax.Array):
            return with_both(x).motor_matrix(q)
        wrenches = mb.frame_jacobian(with_fan(x), q, "fan").T @ x[6:12]
        return np.stack([right[:, 0] * x[12] / right_ratio, wrenches], axis=-1)

    right_ratio = x[12]
    close(matrix(x), right, 1e-13)
    derivatives_are_right(matrix, x, modes=[jax.jacrev])
    if not model.closed:
        rows = np.stack([x, 2.0 * x])
        rows[:, :6] = 0.0
        found = jax.jit(jax.vmap(matrix))(rows)
        close(found, np.stack([matrix(row) for row in rows]), 1e-12)
        assert np.max(np.abs(found[1] - found[0])) > 1e-3  # a control: motors differ


# --- frames -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["arm", "four_bar", further("tree")])
def test_frames(of, rng):
    """Poses, Jacobians and their rates in both axes, of a frame, and of one that is fixed to it."""
    model = robot(of)
    q, v, _ = state(model, rng, 2)
    carrier = model.frame_names[-1]
    T = expm(twist_matrix(rng.standard_normal(6)))

    def everything(x):
        more = model.with_frames({"one": (carrier, moved(T, x))}).with_frames({"two": ("one", T)})
        found = [mb.frame_pose(more, q, "two").reshape(2, -1)]
        for axes in AXES:
            found.append(mb.frame_jacobian(more, q, "two", axes=axes).reshape(2, -1))
            found.append(mb.frame_jacobian_rate(more, q, v, "two", axes=axes).reshape(2, -1))
        return (jnp if isinstance(x, jax.Array) else np).concatenate(found, axis=-1)

    derivatives_are_right(everything, np.zeros(6), modes=[jax.jacrev])
    if model.closed:
        return
    inside = jax.jit(lambda T: _at_one_point(model.with_frames({"one": (carrier, T)}), q[0]))(T)
    for found, expected in zip(
        inside, _at_one_point(model.with_frames({"one": (carrier, T)}), q[0]), strict=True
    ):
        close(found, expected, 1e-13)
    by_q = jax.jit(jax.jacrev(lambda q, T: mb.frame_pose(model.with_frames({"one": (carrier, T)}), q, "one")))
    expected = jax.jacrev(lambda q: mb.frame_pose(model.with_frames({"one": (carrier, T)}), q, "one"))(q[0])
    close(by_q(q[0], T), expected, 1e-12)


def _at_one_point(model, q):
    return model.frame_pose_at(q, "one"), model.frame_jacobian_at(q, "one", "world")


def test_frames_of_the_ground(rng):
    """A frame in the world stays where it is; one that is no rigid transform is NaN, in its own row."""
    model = robot("arm")
    q, v, _ = state(model, rng, 2)
    T = at(0.1, 0.2, 0.3)

    def pose(T):
        return mb.frame_pose(model.with_frames({"mark": ("world", T)}), q, "mark")

    found = jax.jit(jax.vmap(pose))(np.stack([T, 2.0 * T, np.diag([1.0, 1.0, -1.0, 1.0])]))
    assert np.array_equal(found[0], [T, T]) and np.isnan(found[1:]).all()

    @jax.jit
    def motion(T):
        more = model.with_frames({"mark": ("world", T)})
        return mb.frame_jacobian(more, q, "mark"), mb.frame_jacobian_rate(more, q, v, "mark", axes="world")

    assert not any(np.any(each) for each in motion(T))


def test_a_payload_on_a_frame_that_is_data(rng):
    """`with_payload` takes such a frame, and wrenches act on it."""
    model = robot("arm")
    q, v, tau = state(model, rng)
    wrench = rng.standard_normal(6)

    def accelerations(x):
        more = model.with_frames({"hook": ("tool", moved(at(0.1, 0.2, 0.3), x[:6]))})
        loaded = control.with_payload(more, "hook", 1.0 + x[6], (0.1, 0.0, 0.0))
        return mb.forward_dynamics(loaded, q, v, tau, wrenches={"hook": wrench})

    derivatives_are_right(accelerations, np.zeros(7), 1e-7, modes=[jax.jacrev])


# --- placements of joints -----------------------------------------------------------------------------------

RECURSIONS = {
    "forward_kinematics": lambda model, q, v, tau: mb.forward_kinematics(model, q),
    "frame_jacobian": lambda model, q, v, tau: mb.frame_jacobian(model, q, "tip", axes="world"),
    "forward_dynamics": lambda model, q, v, tau: mb.forward_dynamics(model, q, v, tau),
    "frame_pose": lambda model, q, v, tau: mb.frame_pose(model, q, "tip"),
    "frame_jacobian_rate": lambda model, q, v, tau: mb.frame_jacobian_rate(model, q, v, "tip"),
    "body_jacobians": lambda model, q, v, tau: mb.body_jacobians(model, q),
    "mass_matrix": lambda model, q, v, tau: mb.mass_matrix(model, q),
    "coriolis_matrix": lambda model, q, v, tau: mb.coriolis_matrix(model, q, v, body_factor="force_cross"),
    "inverse_dynamics": lambda model, q, v, tau: mb.inverse_dynamics(model, q, v, tau),
    "regressor": lambda model, q, v, tau: mb.regressor(model, q, v, v, tau),
    "center_of_mass": lambda model, q, v, tau: mb.center_of_mass(model, q),
    "potential": lambda model, q, v, tau: model.potential_at(q)[None],
}
BY_DEFAULT = ("forward_kinematics", "frame_jacobian", "forward_dynamics")


@pytest.mark.parametrize(
    ("name", "of"),
    [(name, "two joints") for name in BY_DEFAULT]
    + [further(name, "tree") for name in RECURSIONS]
    + [further(name, "arm with a tip") for name in ("forward_dynamics", "frame_jacobian_rate")],
)
def test_placements(name, of, rng):
    """Values and derivatives by where every joint is."""
    model = robot("two joints" if of == "two joints" else "tree")
    if of == "arm with a tip":
        model = robot("arm").with_frames({"tip": ("tool", at(0.1, 0.2, 0.3))})
    at_point, joints = state(model, rng), model.placements

    def function(x):
        twists = x.reshape(-1, 6)
        placed = {joint: moved(T, own) for (joint, T), own in zip(joints.items(), twists, strict=True)}
        return RECURSIONS[name](model.with_placements(placed), *at_point)

    step = 2e-3 if of == "arm with a tip" else STEP  # its wrist is light
    derivatives_are_right(function, np.zeros(6 * len(joints)), 1e-8, modes=[jax.jacrev], step=step)


def test_robots_whose_placements_differ(rng):
    """A `vmap` over robots, beside models; other data beside; bad placements give NaN in their own row."""
    model = robot("two joints")
    q, v, tau = state(model, rng, 2)
    (joint, T), pi = list(model.placements.items())[1], mb.inertial_parameters(model)
    many = np.stack([T, T @ expm(twist_matrix(rng.standard_normal(6))), 1.1 * T])

    def placed(T, scale):
        return model.with_placements({joint: T}).with_inertial_parameters(scale * pi)

    def accelerations(model):
        return mb.forward_dynamics(model, q, v, tau)

    robots = jax.jit(jax.vmap(placed, (0, None)))(many, 1.5)
    assert isinstance(robots, mb.TracedModel)
    found = jax.jit(jax.vmap(accelerations))(robots)
    close(found[:2], np.stack([accelerations(placed(T, 1.5)) for T in many[:2]]), 1e-11)
    assert np.max(np.abs(found[1] - found[0])) > 1e-3 and np.isnan(found[2]).all()
    with pytest.raises(ShapeError, match="vmap"):
        accelerations(robots)


def test_joints_that_are_turned_by_half_a_turn(rng):
    """Where the first three components of the quaternion are the largest, one by one."""
    model = robot("two joints")
    q, v, _ = state(model, rng)
    joint = model.kinematics.tree.joint_names[1]

    @jax.jit
    def poses(T):
        traced = model.with_placements({joint: T})
        return traced.evaluate("body_jacobians", (q,), None), traced._placed.embed_at(q)

    for about in np.eye(3):
        T = expm(twist_matrix(np.array([*(3.0 * about), 0.1, 0.2, 0.3])))
        placed = model.with_placements({joint: T})
        A, embedded = poses(T)
        close(A, mb.body_jacobians(placed, q), 1e-13)
        positions, turns = np.split(np.asarray(embedded).reshape(-1, 7), [3], axis=1)
        expected, right = np.split(np.asarray(placed.embed_at(q)).reshape(-1, 7), [3], axis=1)
        close(positions, expected, 1e-13)
        np.testing.assert_allclose(np.abs(np.sum(turns * right, axis=1)), 1.0, rtol=1e-14)


def test_placements_outside_of_jax(rng):
    """A tree is the one that is built so; everything else of the robot stays."""

    def build(x):
        plan = mb.Mechanism()
        for name, parent, place in (("a", "world", at(0.1, 0.0, 0.2)), ("b", "a", at(x, 0.3, 0.0))):
            plan.add_body(name, 1.0, (0.1, 0.2, 0.0), 0.1 * np.eye(3))
            plan.add_joint(name, parent, name, mb.Revolute((0, 0.6, 0.8)), place, armature=0.1)
        return plan.build()

    first, second = build(0.5), build(0.7)
    assert first.with_placements({"b": at(0.7, 0.3, 0.0)}) == second != first
    assert first.with_placements({}) == first == first.with_placements(first.placements)
    robot = mb.example("arm")
    T = expm(twist_matrix(rng.standard_normal(6)))
    np.testing.assert_allclose(robot.with_placements({"bend": T}).placements["bend"], T, atol=1e-15)
    q = robot.random(rng)
    before, after = (mb.forward_kinematics(each, q) for each in (robot, robot.with_placements({"turn": T})))
    bases = np.linalg.inv(robot.placements["turn"])
    close(after, T @ bases @ before, 1e-14)  # what stands on another place is moved as a whole


def test_placements_of_loops():
    """Loops close again near the reference, as in a linkage that is built so, or the error says it."""

    def build(x, reference):
        plan, hinge = mb.Mechanism(), mb.Revolute((0, 0, 1))
        for bar, length in {"crank": 0.3, "coupler": 0.9, "rocker": 0.6}.items():
            plan.add_body(bar, 2 * length, (length / 2, 0, 0), np.diag([0, 1, 1]) * length**3 / 6)
        plan.add_joint("motor", "world", "crank", hinge)
        plan.add_joint("pin", "crank", "coupler", hinge, at(0.3, 0, 0))
        plan.add_joint("pivot", "world", "rocker", hinge, at(x, 0, 0))
        plan.add_loop("loop", "coupler", "rocker", mb.Coincident(), at(0.9, 0, 0), at(0.6, 0, 0))
        return plan.build(reference=reference)

    first = build(0.8, {"motor": 1.0, "pivot": 1.2})
    found = first.with_placements({"pivot": at(0.85, 0, 0)})
    other = build(0.85, first.spanning_configuration(first.neutral()))
    for each in ([0.9], [1.3]):
        close(mb.mass_matrix(found, each), mb.mass_matrix(other, each), 1e-11)
        assert np.abs(mb.mass_matrix(found, each) - mb.mass_matrix(first, each)).max() > 1e-3
    assert found.joint_names == first.joint_names
    with pytest.raises(ModelError, match="loop"):
        first.with_placements({"pivot": at(9.0, 0, 0)})


# --- placements of joints in loops, which close again -------------------------------------------------------


def five_bar():
    """Two cranks, and two bars between their ends."""
    plan, end, bars = Plan(21), np.array([0.55, 1.1]), []
    for side, base, knee in (("left", 0.0, [0.2, 0.5]), ("right", 1.0, [0.9, 0.45])):
        ways = np.array(knee) - [base, 0.0], end - knee
        first, second = np.arctan2(ways[0][1], ways[0][0]), np.arctan2(ways[1][1], ways[1][0])
        plan.add(f"{side} crank", "world", f"{side} crank", REVOLUTE, at(base), first)
        joint = at(np.linalg.norm(ways[0]))
        plan.add(f"{side} bar", f"{side} crank", f"{side} bar", REVOLUTE, joint, second - first)
        bars.append(at(np.linalg.norm(ways[1])))
    plan.loop("end", "left bar", "right bar", None, *bars, independent=["left crank", "right crank"])
    return plan


PLANAR, SPATIAL = (2, 3, 4), tuple(range(6))  # components of twists that leave the loops of a plane in it
LINKAGES = {
    "four-bar": (four_bar, PLANAR),
    "five-bar": (five_bar, PLANAR),
    "spatial loop": (PLANS["spatial loop"], SPATIAL),
    "loop with balls": (PLANS["loop with balls"], SPATIAL),
    "belt leg": (PLANS["belt leg"], SPATIAL),
}


def twists_and_forces(model, q, v, tau):
    """Twists of bodies, and forces of a spring and a damper, per velocity and direction."""
    parts = mb.body_jacobians(model, q), model.passive_forces(q, v)
    return (jnp if isinstance(parts[0], jax.Array) else np).concatenate([part.ravel() for part in parts])


def motors(model, q, v, tau):
    return model.motor_matrix(q)


def accelerations(model, q, v, tau):
    """With what takes q where the loops are solved, passive forces and wrenches."""
    wrenches = {model.frame_names[-1]: np.arange(6.0)}
    return mb.forward_dynamics(model, q, v, tau, passive=True, wrenches=wrenches)


def energies(model, q, v, tau):
    return jnp.stack([mb.kinetic_energy(model, q, v), model.potential_at(q)])


IN_LOOPS = RECURSIONS | {
    function.__name__: function for function in (twists_and_forces, motors, accelerations, energies)
}


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("twists_and_forces", "four-bar"),
        *[further(name, "four-bar") for name in ("motors", "accelerations", "energies", "regressor")],
        *[further(name, "five-bar") for name in ("mass_matrix", "coriolis_matrix")],
        *[further(name, "spatial loop") for name in ("mass_matrix", "coriolis_matrix")],
        *[further("accelerations", of) for of in ("five-bar", "spatial loop", "loop with balls", "belt leg")],
    ],
)
def test_placements_in_loops(name, of, rng):
    """Values and derivatives where loops close elsewhere, beside models that are assembled there anew."""
    plan, components = LINKAGES[of]
    model = with_tip(plan().build())
    joints = model.placements
    names, q, (v, tau) = [*joints], model.neutral(), rng.standard_normal((2, model.nv))
    springs = [
        mb.joints.Spring(name, {name: 1.0}, 2.0, (0.1, 0.1))
        for name, joint in zip(names, model.kinematics.tree.joints, strict=True)
        if joint.nq == 1
    ]
    model = model.with_passive(mb.joints.Passive(tuple(springs), damping={names[-1]: 0.3}))
    model = model.with_motors([mb.joints.Motor("motor", {names[-1]: 1.0})])
    ways = np.eye(6 * len(joints)).reshape(len(joints), 6, -1)[:, components].reshape(-1, 6 * len(joints))
    if of in ("four-bar", "belt leg"):
        ways = rng.standard_normal((2, len(ways))) @ ways

    def function(x):
        twists = (x @ ways).reshape(-1, 6)
        placed = {joint: moved(T, own) for (joint, T), own in zip(joints.items(), twists, strict=True)}
        return IN_LOOPS[name](model.with_placements(placed), q, v, tau)

    def value_and_slopes(x):
        value, pull = jax.vjp(function, x)
        each = jax.vmap(pull)(jnp.eye(value.size).reshape(-1, *value.shape))[0]
        return value, each.reshape(*value.shape, -1)

    compiled, x = jax.jit(value_and_slopes), np.zeros(len(ways))
    (value, by_jax), by_differences = compiled(x), slopes(function, x, 1e-3)
    close(value, function(x), 1e-12)
    close(by_jax, by_differences, 1e-9)
    assert np.abs(by_jax + by_differences).max() > np.abs(by_differences).max() > 0.0  # a control
    if of != "belt leg":  # where the loop cannot close
        assert np.isnan(compiled(x + 9.0)[0]).all()


@pytest.mark.further
def test_placements_in_a_loop_closed_by_a_function(rng):
    """As in the same loop whose conditions are not a function."""
    plan = four_bar()
    (*ends, _, first, second, independent) = plan.loops["bar"]
    plan.loop("bar", *ends, lambda T: T[:2, 3], first, second, independent=independent)
    velocity = rng.standard_normal(1)

    def energy(model, length):
        placed = model.with_placements({"bar rocker": jnp.eye(4).at[0, 3].set(length)})
        return mb.kinetic_energy(placed, model.neutral(), velocity)

    found, expected = (
        jax.jit(jax.value_and_grad(lambda length, model=model: energy(model, length)))(1.05)
        for model in (plan.build(), four_bar().build())
    )
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    assert abs(found[1]) > 1e-3


@pytest.mark.further
def test_robots_with_loops_whose_placements_differ(rng):
    """A `vmap` over robots, of which one does not close, with other data; and what q may be."""
    model = four_bar().build()
    q, v, tau = state(model, rng, 2)
    pi, lengths = mb.inertial_parameters(model), np.array([0.95, 1.1, 9.0])

    def placed(length, scale):
        T = jnp.eye(4).at[0, 3].set(length)
        return model.with_placements({"bar rocker": T}).with_inertial_parameters(scale * pi)

    def dynamics(model):
        return mb.forward_dynamics(model, q, v, tau)

    found = jax.jit(jax.vmap(lambda length: dynamics(placed(length, 1.5))))(lengths)
    for one, length in zip(found, lengths[:2], strict=False):
        anew = model.with_placements({"bar rocker": at(length)})
        close(one, dynamics(anew.with_inertial_parameters(1.5 * pi)), 1e-12)
    assert np.isnan(found[2]).all() and np.abs(found[1] - found[0]).max() > 1e-3


# --- what is refused ----------------------------------------------------------------------------------------


def test_names_and_shapes_are_checked():
    model, q = robot("arm"), np.zeros(6)

    def traced(function):
        return jax.jit(function)(1.0)

    wrong = {
        "joint 'lft'|no joint": lambda d: model.with_passive(mb.joints.Passive(damping={"lft": d})),
        "no joint": lambda d: model.with_motors([mb.joints.Motor("m", {"lft": d})]),
        "no frame": lambda d: model.with_frames({"t": ("tol", d * jnp.eye(4))}),
        "not yet": lambda d: model.with_frames({"tool": ("tool", d * jnp.eye(4))}),
        "placements: .*no joint": lambda d: model.with_placements({"lft": d * jnp.eye(4)}),
        "friction is negative": lambda d: model.with_passive(
            mb.joints.Passive(damping={"lift": d}, friction={"bend": -1.0})
        ),
        "its placement must be": lambda d: model.with_placements(
            {"lift": d * jnp.eye(4), "bend": 2 * np.eye(4)[:3] + 0}
        ),
        "expected \\(\\) or": lambda d: model.with_passive(
            mb.joints.Passive(damping={"lift": d * jnp.ones(2)})
        ),
        "already": lambda d: model.with_motors(
            [mb.joints.Motor("m", {"lift": d}), mb.joints.Motor("m", {"lift": d})]
        ),
        "acts on nothing": lambda d: model.with_gravity(jnp.zeros(3) + d).with_motors([mb.joints.Motor("m")]),
        "frame: .*no frame": lambda d: model.with_frames({"t": ("tool", d * jnp.eye(4))}).frame_pose_at(
            jnp.zeros(6), "tt"
        ),
        "which are not computed": lambda d: model.with_passive(
            mb.joints.Passive(damping={"lift": d}, left_out=("a thing",))
        ).passive_forces_at(jnp.zeros(6), jnp.zeros(6)),
    }
    for words, function in wrong.items():
        with pytest.raises(ModelError, match=words):
            traced(function)
    with pytest.raises(ShapeError, match="placements: joint 'lift': its placement"):
        traced(lambda d: model.with_placements({"lift": d * jnp.eye(3)}))
    with pytest.raises(ShapeError, match="frame 't': its placement"):
        traced(lambda d: model.with_frames({"t": ("tool", d * jnp.eye(3))}))
    linkage = robot("four_bar")
    closed = mb.close_loops(linkage, linkage.neutral())
    with pytest.raises(PointError, match="closed for another robot"):
        traced(lambda d: mb.gravity(linkage.with_placements({"bar rocker": d * jnp.eye(4)}), closed))
    with pytest.raises(TypeError, match=r"joints: where 'lift' is locked, JAX traces it.*keep the joint"):
        traced(lambda d: model.with_locked({"lift": d}))
    other = {"t": ("tool", np.eye(4))}

    def under(d):
        return model.with_gravity(d * jnp.ones(3))

    def placed(d):
        return model.with_placements({"lift": d * jnp.eye(4)})

    with pytest.raises(ValueError, match="axes"):
        traced(lambda d: mb.frame_jacobian(under(d).with_frames(other), q, "t", axes="x"))
    with pytest.raises(ValueError, match="body_factor"):
        traced(lambda d: mb.coriolis_matrix(placed(d), q, q, body_factor="x"))
