"""
Swinging up an arm whose motors are too weak, by gradients through a thousand steps
====================================================================================

Two links of half a metre hang from a shoulder, whose motor holds less than a third of what the stretched arm
needs, so the arm has to swing. The torques over 2.5 s are found by gradient descent on the end of the motion:
`jax.grad` of a rollout of a thousand steps, each a call of `mb.forward_dynamics`. The same gradient by the
robot's definition takes some fifty times as long. The library frax is measured, too, if it is installed.
Needs the extra `optimization`. Run: python examples/swing_up.py [directory]
"""

import sys
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from connections import multibody as mb

try:
    import optax
except ImportError:
    raise SystemExit('optax has the optimizer: pip install "affine-connections[optimization]"') from None

# %%
# The arm hangs in the xz plane, with both angles zero. Its joints turn about -y, so that a positive angle
# lifts the link forward.

LENGTH, MASS = 0.5, 1.0  # m, kg
LIMITS = np.array([3.0, 1.5])  # N m
STEPS, H, KNOTS = 1000, 0.0025, 40  # steps, s, and values of each torque

plan = mb.Mechanism()
for name in ("upper", "lower"):
    inertia = MASS * LENGTH**2 / 12.0
    plan.add_body(name, MASS, (0.0, 0.0, -LENGTH / 2.0), np.diag([inertia, inertia, 1e-4]))
placement = np.eye(4)
placement[2, 3] = -LENGTH
hinge = mb.Revolute((0.0, -1.0, 0.0))
plan.add_joint("shoulder", "world", "upper", hinge)
plan.add_joint("elbow", "upper", "lower", hinge, placement)
arm = plan.build()

stretched = mb.gravity(arm, [np.pi / 2.0, 0.0])
print(f"torques that hold the stretched arm: {stretched[0]:.1f} and {stretched[1]:.1f} N m")
print(f"limits of the motors:                {LIMITS[0]:.1f} and {LIMITS[1]:.1f} N m")

# %%
# A rollout, for any function that computes accelerations. The torques are linear between knots, and tanh
# keeps them within the limits. The cost is the distance of the end from the upright arm at rest, and a little
# of the torques.

UPRIGHT = np.array([np.pi, 0.0])
WHERE = np.linspace(0.0, KNOTS - 1.0, STEPS)


def torques(knots):
    """Torques (STEPS, 2) of knots (KNOTS, 2)."""
    low = np.minimum(WHERE.astype(int), KNOTS - 2)
    share = (WHERE - low)[:, None]
    return LIMITS * jnp.tanh((1.0 - share) * knots[low] + share * knots[low + 1])


def rollout(acceleration, knots):
    """Angles (STEPS, 2), and the velocities at the end."""

    def step(state, tau):
        q, v = state
        v = v + H * acceleration(q, v, tau)
        q = q + H * v
        return (q, v), q

    (_, v), angles = jax.lax.scan(step, (jnp.zeros(2), jnp.zeros(2)), torques(knots))
    return angles, v


def cost(acceleration, knots):
    angles, v = rollout(acceleration, knots)
    end = 10.0 * jnp.sum((angles[-1] - UPRIGHT) ** 2) + jnp.sum(v**2)
    return end + 1e-3 * jnp.mean(torques(knots) ** 2)


recursion = partial(mb.forward_dynamics, arm)
definition = arm.definition.system.forward_dynamics_at
slope = jax.jit(jax.value_and_grad(partial(cost, recursion)))

# %%
# The gradient agrees with a difference quotient, and the cost is that of the definition.

rng = np.random.default_rng(0)
start = 0.3 * rng.standard_normal((KNOTS, 2))
direction = rng.standard_normal((KNOTS, 2))
value, gradient = slope(start)
ahead, behind = (slope(start + h * direction)[0] for h in (1e-6, -1e-6))
quotient = float(ahead - behind) / 2e-6
assert np.isclose(np.vdot(gradient, direction), quotient, rtol=1e-6)


def timed(acceleration):
    """Cost and gradient; seconds of the first call and of a later one."""
    function = jax.jit(jax.value_and_grad(partial(cost, acceleration)))
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        result = jax.block_until_ready(function(start))
        seconds.append(time.perf_counter() - begin)
    return result, seconds[0], min(seconds[1:])


def by_frax():
    """The acceleration in frax, which reads URDF files whose base has inertia, too."""
    from frax.core.robot import Robot

    link = """<link name="{0}"><inertial><origin xyz="0 0 {1}"/><mass value="{2}"/>
        <inertia ixx="{3}" iyy="{3}" izz="1e-4" ixy="0" ixz="0" iyz="0"/></inertial></link>"""
    joint = """<joint name="{0}" type="revolute"><parent link="{1}"/><child link="{2}"/><axis xyz="0 -1 0"/>
        <origin xyz="0 0 {3}"/><limit lower="-9" upper="9" effort="9" velocity="99"/></joint>"""
    inertia = MASS * LENGTH**2 / 12.0
    links = [link.format(name, -LENGTH / 2.0, MASS, inertia) for name in ("base", "upper", "lower")]
    joints = [
        joint.format("shoulder", "base", "upper", 0.0),
        joint.format("elbow", "upper", "lower", -LENGTH),
    ]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "arm.urdf"
        path.write_text(f"<robot name='arm'>{''.join(links + joints)}</robot>")
        robot = Robot(str(path))
    return lambda q, v, tau: robot.forward_dynamics(q, v, tau, None)


ways = {"the recursion": recursion, "the definition": definition}
if find_spec("frax"):
    ways["frax"] = by_frax()
print(f"{'gradient of 1000 steps':24}{'first call':>12}{'later':>12}{'a step':>12}{'disagreement':>15}")
for name, acceleration in ways.items():
    (found, its_gradient), first, later = timed(acceleration)
    gap = np.max(np.abs(its_gradient - gradient)) / np.max(np.abs(gradient))
    assert np.isclose(found, value, rtol=1e-9) and gap < 1e-6
    print(f"{'by ' + name:24}{first:10.2f} s{later * 1e3:9.1f} ms{later / STEPS * 1e6:9.1f} us{gap:15.0e}")
if "frax" not in ways:
    print("frax is not installed, so it has no row")

# %%
# Most starts end in a motion that nearly gets there, so sixteen are taken together: `jax.vmap` over the whole
# rollout and its gradient. Adam's rate falls to zero.

STARTS, RATE, ITERATIONS = 16, 0.05, 1000
optimizer = optax.adam(optax.cosine_decay_schedule(RATE, ITERATIONS))


@jax.jit
def descend(knots, state):
    """One step of all starts; long gradients are shortened."""
    found, gradient = jax.vmap(jax.value_and_grad(partial(cost, recursion)))(knots)
    length = jnp.linalg.norm(gradient, axis=(1, 2), keepdims=True)
    change, state = optimizer.update(gradient / jnp.maximum(1.0, length / 10.0), state)
    return optax.apply_updates(knots, change), state, found


knots = jnp.asarray(0.5 * rng.standard_normal((STARTS, KNOTS, 2)))
state, costs = optimizer.init(knots), []
begin = time.perf_counter()
for _ in range(ITERATIONS):
    knots, state, found = descend(knots, state)
    costs.append(np.asarray(found))
elapsed = time.perf_counter() - begin
best = int(np.nanargmin(costs[-1]))
angles, v = (np.asarray(x) for x in rollout(recursion, knots[best]))
miss = np.rad2deg(np.abs(angles[-1] - UPRIGHT))
print(f"{ITERATIONS} iterations of {STARTS} starts in {elapsed:.1f} s; final costs:")
print("  " + " ".join(f"{value:.2g}" for value in np.sort(costs[-1])))
print(f"the best ends {miss[0]:.2f} and {miss[1]:.2f} degrees from upright, at {np.max(np.abs(v)):.3f} rad/s")

# %%
# The same torques move the arm in the same way when NumPy's functions are called step by step.

q, speed = np.zeros(2), np.zeros(2)
for tau in np.asarray(torques(knots[best])):
    speed = speed + H * mb.forward_dynamics(arm, q, speed, tau)
    q = q + H * speed
assert np.allclose(q, angles[-1], atol=1e-4)  # round-off grows along the motion

# %%
# The motion: the lower link swings back and forth, turns over, and stands; the torques are often near their
# limits.


def draw(path):
    """Postures, angles, torques, and the cost of every start."""
    figure, axes = plt.subplots(1, 4, figsize=(15, 3.8), layout="constrained")
    times = H * np.arange(STEPS)
    bodies = mb.forward_kinematics(arm, angles)
    for step in np.linspace(0, STEPS - 1, 26).astype(int):
        elbow = bodies[step, 1, :3, 3]
        tip = elbow - LENGTH * bodies[step, 1, :3, 2]
        x, z = np.array([np.zeros(3), elbow, tip]).T[[0, 2]]
        axes[0].plot(x, z, "-o", color=plt.cm.viridis(step / STEPS), markersize=3)
    axes[0].set(xlabel="x [m]", ylabel="z [m]", title="Postures, from dark to light", aspect="equal")
    for joint, (name, color) in enumerate((("shoulder", "#1f5fbf"), ("elbow", "#c8102e"))):
        axes[1].plot(times, np.rad2deg(angles[:, joint]), color=color, label=name)
        axes[1].axhline(np.rad2deg(UPRIGHT[joint]), color=color, linestyle=":", linewidth=1.0)
        axes[2].plot(times, torques(knots[best])[:, joint], color=color, label=name)
        for side in (-1.0, 1.0):
            axes[2].axhline(side * LIMITS[joint], color=color, linestyle=":", linewidth=1.0)
    axes[1].set(xlabel="time [s]", ylabel="angle [degrees]", title="Angles; dotted: upright")
    axes[2].set(xlabel="time [s]", ylabel="torque [N m]", title="Torques; dotted: limits")
    history = np.array(costs)
    axes[3].semilogy(history, color="#8a8a8a", linewidth=0.8)
    axes[3].semilogy(history[:, best], color="#1f5fbf", linewidth=2.0)
    axes[3].set(xlabel="iteration", ylabel="cost", title=f"{STARTS} starts")
    for panel in axes[:3]:
        panel.grid(alpha=0.3)
    for panel in axes[1:3]:
        panel.legend(fontsize=8)
    figure.savefig(path, dpi=130)
    print(path)


directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
draw(directory / "swing_up.png")
