"""
A humanoid's parallel ankle: torques of joints and of actuators
===============================================================

Two motors in the shank turn the foot about two axes by cranks and rods. A controller computes torques of the
ankle; motors need their own. The same mechanism is built with the ankle's angles as q, and with the motors'
angles. By virtual work tau_ankle = J^T tau_motor with J = d motors / d ankle. Here J comes from the lengths
of the two rods alone, one equation each, differentiated by JAX. So it checks torques and mass matrices of
both models.
Run: python examples/parallel_ankle.py [directory]
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from connections import multibody as mb

MOTORS = ("left", "right")
SIDES, HEIGHTS = (0.04, -0.04), (0.26, 0.18)  # m: of the motors, from the ankle
CRANK, HEEL, BELOW = 0.05, 0.055, 0.02  # m: the cranks, and where the rods end in the foot
LIMIT = 25.0  # N m, of one motor
HORIZON = 1.2  # s, a step


def ends(motor):
    """The crank's hinge in the shank and the rod's pin in the foot, from the ankle, m."""
    return np.array([0.0, SIDES[motor], HEIGHTS[motor]]), np.array([-HEEL, SIDES[motor], -BELOW])


def rod_length(motor):
    """With level cranks the foot is level."""
    hinge, pin = ends(motor)
    return np.linalg.norm(hinge - [CRANK, 0.0, 0.0] - pin)


def at(x, y, z):
    placement = np.eye(4)
    placement[:3, 3] = x, y, z
    return placement


def ankle(independent):
    """The mechanism, of which q is the ankle's pitch and roll, or the two motors' angles."""
    made, about_y = mb.Mechanism(), mb.Revolute((0, 1, 0))
    made.add_body("foot", 0.9, (0.04, 0.0, -0.05), np.diag([1e-3, 4e-3, 4e-3]))
    made.add_joint("ankle", "world", "foot", mb.Universal((0, 1, 0), (1, 0, 0)))
    for number, motor in enumerate(MOTORS):
        hinge, pin = ends(number)
        length = rod_length(number)
        made.add_body(f"{motor} crank", 0.15, (-CRANK / 2, 0, 0), np.diag([1e-5, 8e-3, 8e-3]))  # with rotor
        rod = 0.12 * length**2 / 12.0 * np.diag([1.0, 1.0, 1e-2])
        made.add_body(f"{motor} rod", 0.12, (0, 0, -length / 2), rod)
        made.add_joint(f"{motor} motor", "world", f"{motor} crank", about_y, at(*hinge))
        cross = mb.Universal((1, 0, 0), (0, 1, 0))
        made.add_joint(f"{motor} cross", f"{motor} crank", f"{motor} rod", cross, at(-CRANK, 0, 0))
        places = at(0, 0, -length), at(*pin)
        made.add_loop(
            f"{motor} ball", f"{motor} rod", "foot", mb.Coincident(), *places, independent=independent
        )
    return made.build(reference={f"{motor} motor": 0.0 for motor in MOTORS})


def motors_at(angles):
    """Motor angles (2,) at pitch and roll (2,), from the rods' lengths alone; JAX-traceable.

    |hinge + Ry(x) (-CRANK, 0, 0) - foot pin| = length is A cos x + B sin x = C.
    """
    (cp, cr), (sp, sr) = jnp.cos(angles), jnp.sin(angles)
    foot = jnp.array([[cp, sp * sr, sp * cr], [0.0, cr, -sr], [-sp, cp * sr, cp * cr]])  # Ry(pitch) Rx(roll)
    found = []
    for number in range(2):
        hinge, pin = ends(number)
        away = foot @ pin - hinge
        A, B = -CRANK * away[0], CRANK * away[2]
        C = 0.5 * (CRANK**2 + away @ away - rod_length(number) ** 2)
        middle, half = jnp.arctan2(B, A), jnp.arccos(C / jnp.hypot(A, B))
        both = jnp.stack([middle + half, middle - half])
        found.append(both[jnp.argmin(jnp.abs(both))])
    return jnp.stack(found)


@jax.jit
def motion_of_motors(q, v, a):
    """Angles, velocities, accelerations of the motors (2,), and J (2, 2), at a motion of the ankle."""
    J, J_dot = jax.jvp(jax.jacfwd(motors_at), (q,), (v,))
    return motors_at(q), J @ v, J @ a + J_dot @ v, J


def step(t):
    """Pitch and roll of the ankle in a step, with their rates."""
    w = 2.0 * np.pi / HORIZON
    phase = w * t + np.array([0.0, 0.9])
    size, middle = np.array([0.35, 0.18]), np.array([-0.1, 0.02])
    return middle + size * np.sin(phase), size * w * np.cos(phase), -size * w**2 * np.sin(phase)


def torques(by_ankle, by_motors, times):
    """Torques (T, 2) of ankle and motors along the step, and the largest gap of virtual work, relative."""
    found, gaps = [], []
    for t in times:
        q, v, a = step(t)
        q_m, v_m, a_m, J = map(np.asarray, motion_of_motors(q, v, a))
        tau = mb.inverse_dynamics(by_ankle, q, v, a)
        tau_m = mb.inverse_dynamics(by_motors, q_m, v_m, a_m)
        H, H_m = mb.mass_matrix(by_ankle, q), mb.mass_matrix(by_motors, q_m)
        gaps.append(np.abs(J.T @ tau_m - tau).max() / np.abs(tau).max())
        gaps.append(np.abs(J.T @ H_m @ J - H).max() / np.abs(H).max())
        gaps.append(abs(tau_m @ v_m - tau @ v) / (np.abs(tau * v).sum()))
        found.append((tau, tau_m))
    without = J.T @ tau_m - J @ tau  # a negative control: J in place of its transpose is far off
    assert np.abs(without).max() > 1e-2 * np.abs(tau).max()
    return *(np.array(each) for each in zip(*found, strict=True)), max(gaps)


def reachable(q):
    """Corners (5, 2) of the ankle's torques that the motors can give: a parallelogram, J^T of a square."""
    J = np.asarray(jax.jacfwd(motors_at)(jnp.asarray(q)))
    square = LIMIT * np.array([[1, 1], [1, -1], [-1, -1], [-1, 1], [1, 1]])
    return square @ J


def points(model, q):
    """Polylines (k, 3) of one posture: shank; hinge, crank pin and foot pin of each motor; sole."""
    poses = dict(zip(model.body_names, mb.forward_kinematics(model, q), strict=True))
    lines = [np.array([[0, 0, 0.32], [0, 0, 0.0]])]
    for number, motor in enumerate(MOTORS):
        hinge, pin = ends(number)
        tip = poses["foot"] @ [*pin, 1.0]
        lines.append(np.array([hinge, poses[f"{motor} rod"][:3, 3], tip[:3]]))
    heel_to_toe = [[x, y, -0.07, 1.0] for x, y in ((-0.07, 0), (-0.07, 0.04), (0.16, 0.04), (0.16, -0.04))]
    sole = [*heel_to_toe[1:], [-0.07, -0.04, -0.07, 1.0], heel_to_toe[1]]
    lines.append((np.array(sole) @ poses["foot"].T)[:, :3])
    return lines


def draw(path, model, times, tau, tau_m):
    figure = plt.figure(figsize=(14.0, 4.4), layout="constrained")
    space = figure.add_subplot(1, 3, 1, projection="3d")
    for q, light in (((-0.4, 0.15), 1.0), ((0.3, -0.1), 0.3)):
        for line, shade in zip(
            points(model, np.array(q)), ("#222222", "#1f5fbf", "#c8102e", "#1b8a3a"), strict=True
        ):
            space.plot(*line.T, "-", color=shade, alpha=light, lw=2.5)
    space.set(
        xlabel="x [m]",
        zlabel="z [m]",
        yticks=(-0.04, 0.04),
        xticks=(-0.1, 0.0, 0.1),
        title="Two postures: pitch -0.4 and 0.3 (pale)",
    )
    space.set_box_aspect(np.ptp(np.array([space.get_xlim(), space.get_ylim(), space.get_zlim()]), axis=1))
    space.view_init(18, -60)
    left, right = figure.add_subplot(1, 3, 2), figure.add_subplot(1, 3, 3)
    for values, names, style in ((tau, ("pitch", "roll"), "--"), (tau_m, ("left motor", "right motor"), "-")):
        for value, name, shade in zip(values.T, names, ("#1f5fbf", "#c8102e"), strict=True):
            left.plot(times, value, style, color=shade, label=name)
    left.set(xlabel="time [s]", ylabel="torque [N m]", title="A step in the air: ankle and motors")
    left.legend(fontsize=8)
    for pitch, shade in ((-0.5, "#c8102e"), (0.0, "#222222"), (0.4, "#1f5fbf")):
        right.plot(*reachable([pitch, 0.0]).T, color=shade, label=f"pitch {pitch:+.1f} rad")
    right.set(
        xlabel="about pitch [N m]", ylabel="about roll [N m]", title=f"Torques within {LIMIT:.0f} N m a motor"
    )
    right.legend(fontsize=8)
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=130)
    print(path)


def main():
    by_ankle, by_motors = ankle(["ankle"]), ankle([f"{motor} motor" for motor in MOTORS])
    print(f"q is {by_ankle.joint_names} in one model, {by_motors.joint_names} in the other")
    angles = by_ankle.spanning_configuration([0.3, -0.1])
    expected = motors_at(jnp.array([0.3, -0.1]))
    for motor, angle in zip(MOTORS, expected, strict=True):
        found = angles[f"{motor} motor"][0]
        print(f"{motor} motor at pitch 0.3, roll -0.1: {found:.6f} rad")
        assert abs(found - angle) < 1e-12

    times = np.linspace(0.0, HORIZON, 61)
    tau, tau_m, gap = torques(by_ankle, by_motors, times)
    print(f"virtual work, J^T H J and power along a step: {gap:.1e}, relative")
    assert gap < 1e-10

    push = np.array([40.0, 0.0])  # N m about the pitch axis, as in stance
    for pitch in (-0.4, 0.0, 0.4):
        J = np.asarray(jax.jacfwd(motors_at)(jnp.array([pitch, 0.0])))
        needed = np.linalg.solve(J.T, push)
        print(
            f"40 N m about pitch at {pitch:+.1f} rad: {needed[0]:.1f} and {needed[1]:.1f} N m of the motors"
        )
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    draw(directory / "parallel_ankle.png", by_ankle, times, tau, tau_m)


if __name__ == "__main__":
    main()
