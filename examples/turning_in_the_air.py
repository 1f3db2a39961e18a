"""
A robot turns in the air for an hour, without angular momentum
==============================================================

A trunk with two legs floats, and its legs swing around a loop of shapes. Nothing pushes the robot from
outside, so its momentum stays zero, and yet the trunk turns: by the holonomy of the mechanical connection,
the area of the loop in its curvature. Variational steps of 20 ms keep the momentum for an hour.
Run: python examples/turning_in_the_air.py [directory]
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from connections import multibody as mb

# %%
# The robot: hinges about y at both ends of the trunk.


def placed(x: float) -> np.ndarray:
    pose = np.eye(4)
    pose[0, 3] = x
    return pose


mechanism = mb.Mechanism()
mechanism.add_body("trunk", 6.0, (0.0, 0.0, 0.0), np.diag([0.02, 0.2, 0.2]))
mechanism.add_joint("free", "world", "trunk", mb.Free())
for name, x in (("front", 0.3), ("rear", -0.3)):
    mechanism.add_body(name, 2.0, (0.0, 0.0, -0.25), np.diag([0.04, 0.04, 0.002]))
    mechanism.add_joint(name, "trunk", name, mb.Revolute((0.0, 1.0, 0.0)), placed(x))
robot = mechanism.build(gravity=(0.0, 0.0, 0.0))

# %%
# Torques of a spring and a damper pull the legs around a loop of two seconds. One scan makes 180,000 steps.

h, period, hour = 0.02, 2.0, 3600.0
count, every = round(hour / h), 25


def shape(t: jax.Array) -> jax.Array:
    turn = 2.0 * jnp.pi * t / period
    return jnp.array([0.9 * jnp.sin(turn), 0.9 * jnp.sin(turn - 0.5 * jnp.pi)])


def step(state: tuple, number: jax.Array) -> tuple:
    q, P, before = state
    error = shape(number * h) - q[7:]
    tau = jnp.zeros(8).at[6:].set(60.0 * error - 6.0 * (q[7:] - before) / h)
    after, P = mb.variational_step(robot, q, P, h, tau)
    return (after, P, q[7:]), None


@jax.jit
def motion() -> tuple:
    def block(state: tuple, first: jax.Array) -> tuple:
        middle, _ = step(state, first)
        end, _ = jax.lax.scan(step, middle, first + 1.0 + jnp.arange(every - 1.0))
        return end, (state[0], middle[0], state[1])

    q = jnp.asarray(robot.neutral())
    return jax.lax.scan(block, (q, jnp.zeros(8), q[7:]), every * jnp.arange(float(count // every)))[1]


q, following, P = map(np.asarray, motion())
times = h * every * np.arange(len(q))
angle = np.unwrap(2.0 * np.arctan2(q[:, 4], q[:, 6]), period=2.0 * np.pi)

# %%
# The momentum, by the ways of the bodies themselves: `discrete_momentum` of one point and the next.

momentum = np.asarray(mb.discrete_momentum(robot, q, following, h))[:, :6]
turned = np.abs(momentum).max()
largest = np.abs(P[:, 6:]).max()  # of the legs, for comparison
print(f"momentum of the whole robot in an hour: at most {turned:.1e}, of the legs {largest:.2f} kg m^2/s")
print(f"the trunk turns by {np.degrees(angle[-1]) / (times[-1] / period):.3f} degrees a loop")
print(f"and {abs(angle[-1]) / (2.0 * np.pi):.0f} times in an hour")
assert turned < 1e-11 and (P[:, :6] == 0.0).all()

# %%
# The same turn without dynamics: where the momentum is zero, the trunk's twist is -H_bb^-1 H_bs times the
# rate of the shape, along the loop that the legs really make.

steps = round(period / h)


@jax.jit
def loop(state: tuple, first: jax.Array) -> jax.Array:
    def recorded(state: tuple, number: jax.Array) -> tuple:
        after, _ = step(state, number)
        return after, after[0]

    return jax.lax.scan(recorded, state, first + jnp.arange(float(steps)))[1]


start = len(q) - steps // every * 2  # two loops before the end
state = q[start], P[start], 2.0 * q[start, 7:] - following[start, 7:]
path = np.concatenate([q[start][None], loop(state, every * float(start))])
middle = np.tile(robot.neutral(), (steps, 1))
middle[:, 7:] = 0.5 * (path[1:, 7:] + path[:-1, 7:])
H = mb.mass_matrix(robot, middle)
twists = -np.linalg.solve(H[:, :6, :6], H[:, :6, 6:] @ np.diff(path[:, 7:], axis=0)[:, :, None])[:, :, 0]
holonomy, each = np.degrees(twists[:, 1].sum()), np.degrees(angle[-1]) / (times[-1] / period)
print(f"holonomy of the loop that the legs make: {holonomy:.3f} degrees")
assert abs(holonomy - each) < 0.01 * abs(each) and abs(each) > 1.0

# %%
# The control: the same torques by semi-implicit Euler. Momentum appears from nothing.

x, v, before, gained = robot.neutral(), np.zeros(8), np.zeros(2), []
for number in range(5000):
    tau = np.zeros(8)
    tau[6:] = 60.0 * (np.asarray(shape(number * h)) - x[7:]) - 6.0 * (x[7:] - before) / h
    before = x[7:]
    v = v + h * mb.forward_dynamics(robot, x, v, tau)
    x = np.asarray(mb.displace(robot, x, h * v))
    gained.append(np.abs((mb.mass_matrix(robot, x) @ v)[:6]).max())
print(f"semi-implicit Euler: momentum of {gained[-1]:.1e} after {5000 * h:.0f} s")
assert gained[-1] > 1e6 * turned

# %%
# The trunk and its legs after every fourth loop: a whole turn in 50 s.

figure = plt.figure(figsize=(8.0, 5.6), layout="constrained")
top, bottom = figure.subfigures(2, 1, height_ratios=(1.0, 1.5))
for number, axes in enumerate(top.subplots(1, 7)):
    at = number * 4 * steps // every
    trunk = mb.frame_pose(robot, q[at], "trunk")
    for name, x in (("front", 0.3), ("rear", -0.3)):
        hip, foot = trunk @ [x, 0, 0, 1], mb.frame_pose(robot, q[at], name) @ [0, 0, -0.5, 1]
        axes.plot([hip[0], foot[0]], [hip[2], foot[2]], color="#1f5fbf" if x > 0 else "#c8102e", linewidth=3)
    ends = (trunk @ np.array([[0.3, 0, 0, 1], [-0.3, 0, 0, 1]]).T)[[0, 2]]
    axes.plot(*ends, color="#333333", linewidth=7, solid_capstyle="round")
    axes.set(xlim=(-0.9, 0.9), ylim=(-0.9, 0.9), aspect="equal", xticks=[], yticks=[])
    axes.set_title(f"{times[at]:.0f} s", fontsize=9)
left, right = bottom.subplots(1, 2)
left.plot(times / 60.0, angle / (2.0 * np.pi), color="#1f5fbf")
left.set(xlabel="time [min]", ylabel="turns of the trunk", title="Turning without angular momentum")
sizes = np.maximum(np.abs(momentum).max(axis=1), 1e-18)
right.semilogy(times[1:], sizes[1:], ".", markersize=1, color="#1f5fbf", label="variational steps")
right.semilogy(
    h * np.arange(1, 5001), np.maximum(gained, 1e-18), color="#c8102e", label="semi-implicit Euler"
)
right.set(xlabel="time [s]", ylabel="momentum [kg m$^2$/s, kg m/s]", title="Momentum, which is zero")
right.set(xscale="log", ylim=(1e-18, 1e2))
right.legend(loc="center left")
for axes in (left, right):
    axes.grid(alpha=0.3)
file = Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "turning_in_the_air.png"
figure.savefig(file, dpi=130)
print(file)
