"""
Two robots keep their balance: LQR on the manifold
==================================================

One robot rolls on two wheels, one flies and carries a rod on its top. Both have fewer motors than degrees of
freedom. The wheeled robot is a mechanism with a rolling condition: one motor turns the wheels against the
body. The flying robot has a free joint, four inputs (torques and thrust) and a rod on a universal joint.
Gains come from `linearize` about rest and a Riccati equation; the law acts on the difference on the manifold,
three directions for the attitude. The integral of the cost is compared with its prediction x^T P x. With a
ball joint under the rod, LQR says what no motor reaches: the rod's spin.
Run: python examples/lqr_balancing.py [directory]
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from connections import control
from connections import multibody as mb

# %%
# A task is a robot, its motors, what its motion costs, and a perturbation of rest.

RADIUS, HEIGHT = 0.1, 0.35  # m: of the wheels; of the body's centre of mass above the axle
MOUNT, ROD = 0.05, 0.6  # m: of the universal joint above the centre of the flying robot; length of the rod
BLUE, RED, GREEN, GREY = "#1f5fbf", "#c8102e", "#1b8a3a", "#8a8a8a"


@dataclass(frozen=True, eq=False)
class Task:
    """A robot, what its motors do, what it costs, and where it starts.

    Parameters
    ----------
    model : the robot.
    inputs : S (nv, m), tau = S u.
    Q, R : weights of (eta, dv) and of u.
    start : (2 nv,) perturbation of rest.
    horizon : s.
    """

    model: mb.Model
    inputs: np.ndarray
    Q: np.ndarray
    R: np.ndarray
    start: np.ndarray
    horizon: float


# %%
# The wheeled robot is a mechanism with a rolling condition: x = r times the angle of the wheels.


def wheeled():
    """A body of 8 kg above an axle; x = r times the angle of the wheels."""
    mechanism, axle = mb.Mechanism(), mb.Revolute((0, 1, 0))
    mechanism.add_body("axle")
    mechanism.add_body("body", 8.0, (0, 0, HEIGHT), np.diag([0.3, 0.25, 0.1]))
    mechanism.add_body("wheels", 2.0, inertia=np.diag([0.02, 0.01, 0.02]))
    mechanism.add_joint("slide", "world", "axle", mb.Prismatic((1, 0, 0)))
    mechanism.add_joint("pitch", "axle", "body", axle)
    mechanism.add_joint("turn", "axle", "wheels", axle)
    mechanism.add_coupling("rolling", {"slide": 1.0, "turn": -RADIUS}, independent=["slide"])
    motor = np.array([[1.0 / RADIUS], [-1.0]])  # its power is u (turn' - pitch')
    Q, start = np.diag([10.0, 10.0, 1.0, 1.0]), np.array([-0.5, np.radians(20.0), 0.0, 0.0])
    return Task(mechanism.build(), motor, Q, np.array([[0.1]]), start, 6.0)


# %%
# The flying robot has a free joint, four inputs, and a rod on a universal joint.


def flying(joint=None):
    """A rotor craft of 0.6 kg with a rod of 0.12 kg."""
    mechanism, top = mb.Mechanism(), np.eye(4)
    top[2, 3] = MOUNT
    mechanism.add_body("craft", 0.6, inertia=np.diag([4e-3, 4e-3, 7e-3]))
    mechanism.add_body("rod", 0.12, (0, 0, ROD / 2.0), 0.12 * ROD**2 / 12.0 * np.diag([1.0, 1.0, 0.01]))
    mechanism.add_joint("flight", "world", "craft", mb.Free())
    mechanism.add_joint("mount", "craft", "rod", joint or mb.Universal((1, 0, 0), (0, 1, 0)), top)
    model = mechanism.build()
    inputs = np.zeros((model.nv, 4))
    inputs[[0, 1, 2, 5], [0, 1, 2, 3]] = 1.0  # torques about the craft's axes, thrust along its z axis
    Q = np.diag([1.0] * 3 + [10.0] * 3 + [1.0] * (model.nv - 6) + [0.1] * model.nv)
    start = np.zeros(2 * model.nv)
    start[:8] = [0.1, -0.15, np.radians(100.0), 0.4, -0.5, 0.3, np.radians(8.0), np.radians(-6.0)]
    return Task(model, inputs, Q, np.diag([20.0, 20.0, 20.0, 0.5]), start, 8.0)


# %%
# The gains are those of rest, by `linearize` and a Riccati equation.


def regulator(task):
    """The regulator about rest, and P."""
    model, q, still = task.model, task.model.neutral(), np.zeros(task.model.nv)
    tau = mb.gravity(model, q)
    u = np.linalg.lstsq(task.inputs, tau, rcond=None)[0]
    assert np.abs(task.inputs @ u - tau).max() < 1e-9, "no equilibrium"
    A, B = mb.linearize(model, q, still, tau)
    growing = np.linalg.eigvals(A).real.max()
    K, P = control.lqr(A, B @ task.inputs, task.Q, task.R, names=control.state_names(model))
    closed = np.linalg.eigvals(A - B @ task.inputs @ K).real.max()
    print(f"  eigenvalues: largest real part {growing:.2f} 1/s without, {closed:.2f} 1/s with the gains")
    return control.Regulator(model, q, still, tau, K, task.inputs), P


# %%
# The law measures the difference from rest on the manifold, so that a turn of 100 degrees is no special case.
# The integral of the cost along a motion is compared with its prediction x^T P x: the smaller the
# perturbation, the better they agree.


def simulate(task, law, scale=1.0, samples=400):
    """Times, q, v, u of the motion from the perturbation times `scale`, and the integral of its cost."""
    model, n = task.model, task.model.nv
    matrix, project = jax.jit(model.frame.matrix_at), jax.jit(model.frame.project_at)

    def rates(t, y):
        q, v = np.asarray(project(y[: model.nq])), y[model.nq : -1]
        x = law.error(q, v)
        u = -law.gain @ x
        a = mb.forward_dynamics(model, q, v, law.tau + task.inputs @ u)
        return np.concatenate([matrix(q) @ v, a, [x @ task.Q @ x + u @ task.R @ u]])

    q0 = mb.displace(model, law.q, scale * task.start[:n])
    times = np.linspace(0.0, task.horizon, samples)
    start = np.concatenate([q0, scale * task.start[n:], [0.0]])
    control.prepare(rates, 0.0, start)  # no call in the loop waits for a compilation
    found = solve_ivp(rates, times[[0, -1]], start, "DOP853", times, rtol=1e-8, atol=1e-9)
    assert found.success, found.message
    q, v = np.array([project(y) for y in found.y[: model.nq].T]), found.y[model.nq : -1].T
    return times, q, v, law.input(q, v), found.y[-1, -1]


def balance(name, task):
    """The motion, after the cost was compared with its prediction for smaller and smaller perturbations."""
    print(f"{name}: degrees of freedom {task.model.nv}, inputs {task.inputs.shape[1]}")
    law, P = regulator(task)
    ratios = {}
    for scale in (0.01, 0.1, 1.0):
        motion = simulate(task, law, scale)
        predicted = scale**2 * task.start @ P @ task.start
        ratios[scale] = motion[-1] / predicted
    words = ", ".join(f"{scale:g}: {ratio:.4f}" for scale, ratio in ratios.items())
    print(f"  cost over its prediction x^T P x, by size of the perturbation: {words}")
    left = np.abs(law.error(motion[1][-1], motion[2][-1])).max()
    print(f"  from the whole of it: largest component of the state after {task.horizon:g} s {left:.1e}")
    assert abs(ratios[0.01] - 1.0) < 0.01 and left < 0.02
    return law, motion


law_wheeled, motion_wheeled = balance("wheeled robot", wheeled())

# %%
# The same for the flying robot, which starts turned by 100 degrees, with its rod aslant.

law_flying, motion_flying = balance("flying robot with a rod", flying())

# %%
# Both robots from the side, the state and the inputs.


def draw_wheeled(axes, law, motion):
    t, q, _, u, _ = motion
    angle = np.linspace(0.0, 2.0 * np.pi, 60)
    for k, above in ((0, 0.03), (16, 0.1), (45, 0.03), (399, 0.03)):
        x, lean = q[k]
        shade = {"color": BLUE, "alpha": 0.25 + 0.75 * k / 399.0}
        axes[0].plot(x + RADIUS * np.cos(angle), RADIUS * (1 + np.sin(angle)), lw=1.2, **shade)
        top = 2.0 * HEIGHT * np.array([np.sin(lean), np.cos(lean)])
        axes[0].plot([x, x + top[0]], [RADIUS, RADIUS + top[1]], lw=4.0, solid_capstyle="round", **shade)
        axes[0].text(x + top[0], RADIUS + top[1] + above, f"{t[k]:.1f} s", ha="center", fontsize=8)
    axes[0].plot([-0.65, 0.25], [0.0, 0.0], color=GREY, lw=1.0)
    axes[0].set(xlabel="x [m]", ylabel="z [m]", title="On two wheels", ylim=(-0.05, 0.95))
    axes[0].set_aspect("equal")
    axes[1].plot(t, q[:, 0], color=BLUE, label="position [m]")
    axes[1].plot(t, q[:, 1], color=RED, label="lean [rad]")
    axes[2].plot(t, u[:, 0], color=BLUE, label="motor [N m]")


def draw_flying(axes, law, motion):
    t, q, _, u, _ = motion
    R = Rotation.from_quat(q[:, 3:7])
    mount = q[:, :3] + R.apply([0.0, 0.0, MOUNT])
    rod = R * Rotation.from_euler("XY", q[:, 7:9])
    top, arm = mount + rod.apply([0.0, 0.0, ROD]), R.apply([0.2, 0.0, 0.0])
    axes[0].plot(q[:, 0], q[:, 2], color=GREY, lw=0.8)
    for k in (0, 30, 60, 399):
        shade = {"alpha": 0.25 + 0.75 * k / 399.0}
        ends = np.stack([q[k, :3] - arm[k], q[k, :3] + arm[k]])
        axes[0].plot(ends[:, 0], ends[:, 2], color=BLUE, lw=4.0, solid_capstyle="round", **shade)
        axes[0].plot([mount[k, 0], top[k, 0]], [mount[k, 2], top[k, 2]], color=RED, lw=2.0, **shade)
        axes[0].text(top[k, 0], top[k, 2] + 0.03, f"{t[k]:.1f} s", ha="center", fontsize=8)
    axes[0].set(xlabel="x [m]", ylabel="z [m]", title="In the air, with a rod", ylim=(-0.4, 1.2))
    axes[0].set_aspect("equal")
    x = law.error(q, np.zeros((len(q), law.model.nv)))
    axes[1].plot(t, np.linalg.norm(q[:, :3], axis=1), color=BLUE, label="distance [m]")
    axes[1].plot(t, np.linalg.norm(x[:, :3], axis=1), color=GREEN, label="turn of the craft [rad]")
    axes[1].plot(t, np.arccos(rod.as_matrix()[:, 2, 2]), color=RED, label="lean of the rod [rad]")
    for k, color in enumerate((GREEN, RED, GREY)):
        axes[2].plot(t, 10.0 * u[:, k], color=color, label=f"10 torque {'xyz'[k]} [N m]")
    axes[2].plot(t, u[:, 3], color=BLUE, label="thrust less weight [N]")


figure, axes = plt.subplots(2, 3, figsize=(14.0, 8.0), layout="constrained")
draw_wheeled(axes[0], law_wheeled, motion_wheeled)
draw_flying(axes[1], law_flying, motion_flying)
for row in axes:
    row[1].set(title="State")
    row[2].set(title="Inputs")
    for panel in row[1:]:
        panel.set(xlabel="time [s]", xlim=(0.0, 4.0))
        panel.axhline(0.0, color="#222222", lw=0.6)
        panel.legend(fontsize=8)
        panel.grid(alpha=0.3)
directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
figure.savefig(directory / "lqr_balancing.png", dpi=130)
print(directory / "lqr_balancing.png")

# %%
# With a ball joint under the rod, the Riccati equation has no solution: no motor reaches the rod's spin. The
# error says so.

try:
    regulator(flying(mb.Spherical()))
except control.errors.StabilizabilityError as error:
    print(f"with a ball joint under the rod:\n  {error}")
else:
    raise AssertionError("the spin of the rod is out of reach")
