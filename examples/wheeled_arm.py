"""A base on two wheels with an arm, from its URDF: rolling constraints, and momentum as another constraint.

The wheels roll and do not skid: three one-forms, and four velocities are left (ahead, turn, shoulder, elbow).
In that basis the motion is that of a constrained connection; the multipliers are the forces at the wheels.
First the wheels drive while the arm swings. Then they are free, and the arm pushes the base about. Where
nothing rubs, momentum is what constrains the base, and the same swing moves it otherwise.
Run: python examples/wheeled_arm.py [directory]
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp

import connections as cn
from connections import multibody as mb

ROBOT = Path(__file__).parent.parent / "tests" / "data" / "wheeled_arm.urdf"
RADIUS, HALF_AXLE, HORIZON = 0.1, 0.2, 4.0  # m, m, s
START = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.0, -0.6])  # x, y, heading, left, right, shoulder, elbow
STIFFNESS, DAMPING = 12.0, 0.8  # of the arm's servos, N m/rad and N m s/rad
HOLDING = 0.9 * 9.81 * 0.14  # against the weight of the outer link, N m


def on_wheels(model):
    """The system on its wheels, and which rows of its forms are kept: those of "lateral" are the same."""
    forms = mb.rolling_forms(model, [mb.Wheel("left", RADIUS), mb.Wheel("right", RADIUS)])
    rng = np.random.default_rng(0)
    forms = mb.independent_forms(forms, np.stack([model.random(rng) for _ in range(3)]))

    def basis(q):
        """Ahead, turn, shoulder, elbow, (7, 4)."""
        c, s, zero = jnp.cos(q[2]), jnp.sin(q[2]), 0.0 * q[2]
        base = jnp.stack([jnp.stack([c, s, zero]), jnp.stack([zero, zero, zero + 1.0])], axis=1)
        wheels = jnp.array([[1.0, -HALF_AXLE], [1.0, HALF_AXLE]]) / RADIUS
        return jnp.zeros((7, 4)).at[:3, :2].set(base).at[3:5, :2].set(wheels).at[5:, 2:].set(jnp.eye(2))

    return system_of(model, basis, forms), forms.rows


def afloat(model):
    """The system without friction and momentum: the base follows from the four joints."""
    forms = mb.momentum_forms(model, np.eye(6)[2:5])  # about the vertical, along x, along y

    def basis(q):
        W = forms(q)
        return jnp.concatenate([-jnp.linalg.solve(W[:, :3], W[:, 3:]), jnp.eye(4)])

    return system_of(model, basis, forms)


def system_of(model, basis, forms):
    """A nonholonomic system of the robot; the mass matrix comes by recursion."""
    nabla = cn.ConstrainedConnection(model.connection.metric, basis, forms=forms)
    return cn.NonholonomicSystem(nabla, model.potential)


def torques(t, q, V, drive):
    """A covector (7,): two driven wheels, and servos of the arm about a swing [N m]."""
    swing = jnp.stack([jnp.cos(1.2 * t), -0.3 - 0.3 * jnp.cos(3.0 * t)])
    rate = jnp.stack([-1.2 * jnp.sin(1.2 * t), 0.9 * jnp.sin(3.0 * t)])
    arm = (
        STIFFNESS * (swing - q[5:]) + DAMPING * (rate - V[5:]) - HOLDING * jnp.cos(q[5:]) * jnp.array([0, 1])
    )
    wheels = drive * (0.15 + 0.12 * jnp.sin(2.0 * t) * jnp.array([-1.0, 1.0]))
    return jnp.concatenate([jnp.zeros(3), wheels, arm])


def compiled(system):
    """(t, q, v, drive) -> velocity, acceleration in the basis, torques, multipliers, force, energy."""

    def at(t, q, v, drive):
        V = system.velocity_at(q, v)
        u = torques(t, q, V, drive)
        multipliers, v_dot = system.multipliers_at(q, v, u), system.forward_dynamics_at(q, v, u)
        force = system.connection.forms_at(q).T @ multipliers
        return V, v_dot, u, multipliers, force, system.reduced.energy_at(q, v)

    return jax.jit(at)


def simulate(rates, drive):
    """Times (T,), q (T, 7), v (T, 4), what `rates` gives there, and the work of the torques (T,)."""

    def field(t, state):
        V, v_dot, u = (np.asarray(each) for each in rates(t, state[:7], state[7:11], drive)[:3])
        return np.concatenate([V, v_dot, [u @ V]])

    times = np.linspace(0.0, HORIZON, 201)
    start = np.concatenate([START, np.zeros(5)])
    path = solve_ivp(field, (0.0, HORIZON), start, "DOP853", times, rtol=1e-8, atol=1e-8)
    assert path.success, path.message
    q, v, work = path.y[:7].T, path.y[7:11].T, path.y[11]
    each = [rates(t, p, w, drive) for t, p, w in zip(times, q, v, strict=True)]
    return times, q, v, [np.stack([np.asarray(values[k]) for values in each]) for k in range(6)], work


def report(name, model, rates, motion, drive):
    """Energy against work, and Newton's law with the forces W^T lambda by a recursion without constraints."""
    times, q, v, (V, v_dot, u, multipliers, force, energy), work = motion
    drift, k, step = np.abs(energy - energy[0] - work).max(), len(times) // 3, 1e-4
    ahead, behind = (rates(times[k], q[k] + s * V[k], v[k] + s * v_dot[k], drive)[0] for s in (step, -step))
    expected = mb.forward_dynamics(model, q[k], V[k], u[k] + force[k])
    gap = np.abs(expected - (np.asarray(ahead) - np.asarray(behind)) / (2 * step)).max()
    end = f"base at ({q[-1, 0]:+.3f}, {q[-1, 1]:+.3f}) m, turned by {q[-1, 2]:+.3f} rad"
    print(f"{name:<8}{end}; multipliers up to {np.abs(multipliers).max():.1e};", end=" ")
    print(f"energy against work {drift:.0e} J, Newton's law {gap:.0e} m/s^2")
    assert drift < 1e-6 and gap < 1e-5


def draw(path, driven, pushed, floating):
    figure, axes = plt.subplots(1, 3, figsize=(14.0, 4.4), layout="constrained")
    times, q, _, (_, _, _, multipliers, *_), _ = driven
    axes[0].plot(q[:, 0], q[:, 1], color="#8a8a8a", lw=1.0, zorder=0)
    for k in range(0, len(times), 50):
        draw_robot(axes[0], q[k], 0.35 + 0.65 * k / len(times))
    axes[0].set(xlabel="x [m]", ylabel="y [m]", title="Driven, with a swinging arm")
    axes[0].set_aspect("equal", adjustable="datalim")
    axes[1].plot(times, q[:, 5] - q[0, 5], color="#8a8a8a", label="shoulder, turned by")
    for name, motion, shade in (("on free wheels", pushed, "#1f5fbf"), ("afloat", floating, "#c8102e")):
        axes[1].plot(times, motion[1][:, 2], color=shade, label=f"base {name}")
    axes[1].set(xlabel="time [s]", ylabel="angle [rad]", title="What the arm does to the base")
    axes[1].legend()
    kinds = (
        ("left wheel, ahead", "#1f5fbf"),
        ("axle, sideways", "#1b8a3a"),
        ("right wheel, ahead", "#c8102e"),
    )
    for (name, shade), force in zip(kinds, multipliers.T, strict=True):
        axes[2].plot(times, force, color=shade, label=name)
    axes[2].set(xlabel="time [s]", ylabel="force [N]", title="Driven: forces of the ground (multipliers)")
    axes[2].legend()
    for panel in axes:
        panel.grid(alpha=0.3)
    figure.savefig(path, dpi=130)
    print(path)


def draw_robot(panel, q, alpha):
    """The robot from above at one configuration."""
    c, s = np.cos(q[2]), np.sin(q[2])
    R, origin = np.array([[c, -s], [s, c]]), q[:2, None]
    hull = R @ np.array([[-0.12, 0.25, 0.25, -0.12, -0.12], [-0.15, -0.15, 0.15, 0.15, -0.15]]) + origin
    panel.fill(*hull, color="#1f5fbf", alpha=0.25 * alpha)
    panel.plot(*hull, color="#1f5fbf", lw=1.0, alpha=alpha)
    for side in (HALF_AXLE, -HALF_AXLE):
        panel.plot(*(R @ [[-RADIUS, RADIUS], [side, side]] + origin), color="k", lw=3.0, alpha=alpha)
    reach = np.array([0.0, 0.3, 0.3 + 0.28 * np.cos(q[6])])  # shoulder, elbow and tip, seen from above
    along = np.array([[np.cos(q[5])], [np.sin(q[5])]])
    panel.plot(*(R @ ([[0.15], [0.0]] + along * reach) + origin), "o-", color="#c8102e", lw=2.5, alpha=alpha)


def main():
    model = mb.from_urdf(ROBOT)
    wheels, rows = on_wheels(model)
    print(f"{model} on two wheels: rows {rows} of 4 are independent, {wheels.frame.dim} velocities are left")
    rates = compiled(wheels)
    driven, pushed = simulate(rates, 1.0), simulate(rates, 0.0)
    report("driven", model, rates, driven, 1.0)
    report("pushed", model, rates, pushed, 0.0)
    rates = compiled(afloat(model))
    floating = simulate(rates, 0.0)
    report("afloat", model, rates, floating, 0.0)
    assert np.abs(floating[3][3]).max() < 1e-8, "momentum stays zero without a force"
    assert np.abs(pushed[1] - floating[1])[:, :3].max() > 0.02
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    draw(directory / "wheeled_arm.png", driven, pushed, floating)


if __name__ == "__main__":
    main()
