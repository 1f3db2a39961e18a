"""A free-flying robot turns over, rests near the vertical, and is pushed: LQR keeps it on its way.

A base with a two-joint arm, moved by thrusters and motors, makes half a somersault with a rest at 90 degrees
of pitch. The somersault is tilted, so that the nose passes at a chosen distance from the vertical, where
Euler angles are singular; the tilt is a symmetry, so nothing else depends on it. The left-trivialized pairs
(A_k, B_k) do not contain the attitude: gains and motion are the same for every distance, 0 included.
The same pairs in Euler angles (yaw, pitch, roll, their rates: x_e = T x, T the derivative of the chart) with
the same weights give another regulator. It is told the true state in that chart, angles unwrapped toward the
reference. Where the push brings the nose next to the vertical or across it, this regulator spins the robot.
Run: python examples/lqr_through_gimbal_lock.py [directory]
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.transform import Rotation

from connections import control
from connections import multibody as mb

STEP, HORIZON, LEG = 0.02, 6.0, 2.0  # s: of control, in all, and of each half of the somersault
PUSHED, PUSH = 2.5, np.array([0.5, 0.5, -1.0])  # s; rad/s: what a push adds to the base's turning
DISTANCES = (60.0, 30.0, 20.0, 15.0, 12.0, 10.0, 7.0, 4.0, 2.0, 0.0)  # degrees from the pole
SHOWN = (30.0, 12.0, 7.0)
Q = np.array([1.0] * 8 + [0.05] * 8)  # of angles and lengths, and of their rates, per step
Q_FINAL, R = 10.0 * Q, 0.01  # R of forces and torques
LIMIT = 1e3  # rad/s or m/s: faster, the robot is lost
BLUE, RED, GREY = "#1f5fbf", "#c8102e", "#8a8a8a"
SHADES = ("#1b8a3a", "#c07f00", "#c8102e")


def robot():
    """A base of 10 kg with an arm of two links; no gravity."""
    mechanism, hinge = mb.Mechanism(), mb.Revolute((0, 1, 0))
    mechanism.add_body("base", 10.0, inertia=np.diag([0.3, 0.4, 0.5]))
    mechanism.add_joint("flight", "world", "base", mb.Free())
    above = "base"
    for name, place in (("upper arm", (0.2, 0.0, 0.1)), ("forearm", (0.4, 0.0, 0.0))):
        mechanism.add_body(name, 1.0, (0.2, 0.0, 0.0), np.diag([0.001, 0.014, 0.014]))
        placement = np.eye(4)
        placement[:3, 3] = place
        mechanism.add_joint(f"{name} joint", above, name, hinge, placement)
        above = name
    return mechanism.build(gravity=(0.0, 0.0, 0.0))


def turned(times):
    """Angle of the somersault and its two rates (T,): up to 90 degrees, a rest there, on to 180."""
    angle, rate, change = np.zeros((3, len(times)))
    for begin in (0.0, HORIZON - LEG):
        s = np.clip((times - begin) / LEG, 0.0, 1.0)
        angle += np.pi / 2.0 * (10 * s**3 - 15 * s**4 + 6 * s**5)
        rate += np.pi / 2.0 * (30 * s**2 - 60 * s**3 + 30 * s**4) / LEG
        change += np.pi / 2.0 * (60 * s - 180 * s**2 + 120 * s**3) / LEG**2
    return angle, rate, change


def reference(tilt, times):
    """q (T, 9), v, a (T, 8): Rot(x, tilt) of a somersault about y, half a turn; the arm waves."""
    theta, rate, change = turned(times)
    tilted, zero = Rotation.from_euler("x", tilt), np.zeros_like(times)
    turn = tilted * Rotation.from_euler("y", theta[:, None])
    w = np.pi / HORIZON
    sine, cosine = np.sin(w * times), np.cos(w * times)
    p = np.stack([times / HORIZON, zero, sine], axis=1)
    p_dot = np.stack([zero + 1.0 / HORIZON, zero, w * cosine], axis=1)
    p_ddot = np.stack([zero, zero, -(w**2) * sine], axis=1)
    omega, alpha = np.stack([zero, rate, zero], axis=1), np.stack([zero, change, zero], axis=1)
    linear = turn.inv().apply(tilted.apply(p_dot))
    pull = turn.inv().apply(tilted.apply(p_ddot))
    arm = np.stack([0.5 - 0.5 * cosine, 0.8 * sine], axis=1)
    arm_dot = w * np.stack([0.5 * sine, 0.8 * cosine], axis=1)
    arm_ddot = w**2 * np.stack([0.5 * cosine, -0.8 * sine], axis=1)
    q = np.concatenate([tilted.apply(p), turn.as_quat(), arm], axis=1)
    v = np.concatenate([omega, linear, arm_dot], axis=1)
    a = np.concatenate([alpha, pull - np.cross(omega, linear), arm_ddot], axis=1)
    return q, v, a


# --- Euler angles ----------------------------------------------------------------------------------------


def chart(R, p, arm, v):
    """(e, p, arm, edot, pdot, arm rates), (16,): e = yaw, pitch, roll, R = Rz(yaw) Ry(pitch) Rx(roll)."""
    yaw, roll = jnp.arctan2(R[1, 0], R[0, 0]), jnp.arctan2(R[2, 1], R[2, 2])
    cosine = jnp.sqrt(R[0, 0] ** 2 + R[1, 0] ** 2)
    pitch = jnp.arctan2(-R[2, 0], cosine)
    s, c = R[2, 1] / cosine, R[2, 2] / cosine  # of roll
    across = s * v[1] + c * v[2]
    rates = jnp.stack([across / cosine, c * v[1] - s * v[2], v[0] - across * R[2, 0] / cosine])
    return jnp.concatenate([jnp.stack([yaw, pitch, roll]), p, arm, rates, R @ v[3:6], v[6:]])


def skew(a):
    return jnp.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


@jax.jit
@jax.vmap
def charted(R, p, arm, v):
    """The chart and its derivative T (16, 16) along the frame fields."""

    def moved(x):
        eta, dv = x[:8], x[8:]
        return chart(R + R @ skew(eta[:3]), p + R @ eta[3:6], arm + eta[6:], v + dv)

    return chart(R, p, arm, v), jax.jacfwd(moved)(jnp.zeros(16))


def in_chart(q, v):
    """Chart (T, 16) and T (T, 16, 16) of states."""
    x, T = charted(Rotation.from_quat(q[:, 3:7]).as_matrix(), q[:, :3], q[:, 7:], v)
    return np.asarray(x), np.asarray(T)


# --- both regulators -------------------------------------------------------------------------------------


def left_trivialized(model, states):
    """Pairs of steps and gains along a motion, once the pairs of all motions were found to be the same."""
    pairs = []
    for q, v, a in states:
        tau = mb.inverse_dynamics(model, q, v, a)
        pairs.append(mb.linearize(model, q[:-1], v[:-1], tau[:-1]))
    A, B = pairs[0]
    for other in pairs[1:]:
        np.testing.assert_allclose(other[0], A, atol=1e-10 * np.abs(A).max())
        np.testing.assert_allclose(other[1], B, atol=1e-10 * np.abs(B).max())
    A, B = mb.zero_order_hold(A, B, STEP)
    return A, B, control.time_varying_lqr(A, B, Q, R, Q_FINAL)[0]


def euler(A, B, q, v):
    """Gains of the same pairs in Euler angles; None where there are none."""
    _, T = in_chart(q, v)
    worst = np.linalg.cond(T).max() if np.isfinite(T).all() else np.inf
    if worst > 1e10:
        print(f"  no gains in Euler angles: T has condition {worst:.0e}")
        return None
    return control.time_varying_lqr(T[1:] @ A @ np.linalg.inv(T[:-1]), T[1:] @ B, Q, R, Q_FINAL)[0]


def run(model, start, states, tau, feedback):
    """Angle and distance from the reference (N + 1, 2), |u - u_r|^2 (N,), q; inputs are held over a step."""
    (q_r, v_r), (xi, dv) = states, start
    q, v = mb.displace(model, q_r[0], xi), v_r[0] + dv
    errors, effort, path = [], [], []
    for k in range(len(tau) - 1):
        errors.append(error_of(model, q_r[k], q))
        path.append(q)
        u = feedback(k, q, v)
        if not np.isfinite(u).all() or np.abs(v).max() > LIMIT:
            break
        effort.append(u @ u)
        if k == round(PUSHED / STEP):
            v[:3] += PUSH
        force, h = (tau[k] + tau[k + 1]) / 2.0 + u, STEP
        a = mb.forward_dynamics(model, q, v, force)  # the midpoint rule in the robot's own frame
        middle = mb.displace(model, q, h / 2.0 * v), v + h / 2.0 * a
        b = mb.forward_dynamics(model, *middle, force)
        q, v = mb.displace(model, q, h * middle[1]), v + h * b
    else:
        errors.append(error_of(model, q_r[-1], q))
    return np.array(errors), np.array(effort), np.array(path)


def error_of(model, q_r, q):
    xi = mb.difference(model, q_r, q)
    return np.linalg.norm(xi[:3]), np.linalg.norm(xi[3:6])


def compare(model, states, A, B, K, start):
    """Pitch, gains and motions of both regulators along one motion."""
    q, v, a = states
    tau, K_e = mb.inverse_dynamics(model, q, v, a), euler(A, B, q, v)
    regulator = control.Regulator(model, q[:-1], v[:-1], tau[:-1], K)
    found = {"pitch": np.degrees(np.arcsin(-Rotation.from_quat(q[:, 3:7]).as_matrix()[:, 2, 0])), "K": K}
    found["own"] = run(model, start, (q, v), tau, lambda k, p, w: regulator.input(p, w, k))
    if K_e is None:
        return found | {"euler": None}
    x_r = in_chart(q, v)[0]

    def feedback(k, p, w):
        x = in_chart(p[None], w[None])[0][0] - x_r[k]
        x[:3] = (x[:3] + np.pi) % (2.0 * np.pi) - np.pi
        return -K_e[k] @ x

    return found | {"euler": run(model, start, (q, v), tau, feedback), "K_e": K_e}


def describe(distance, found):
    """One line of the table: largest angle after the push, final angle, effort, largest gain."""
    words = f"{distance:>8.1f}"
    for name, gain in (("own", "K"), ("euler", "K_e")):
        if found[name] is None:
            words += "   none"
            continue
        errors, effort, _ = found[name]
        angles = np.degrees(errors[:, 0])
        end = f"{angles[-1]:9.2f}" if len(effort) == round(HORIZON / STEP) else "     lost"
        largest = np.abs(found[gain]).max()
        after = angles[round(PUSHED / STEP) :].max(initial=0.0)
        words += f"{after:9.2f}{end}{effort.sum() * STEP:11.3g}{largest:10.3g}"
    print(words)


def nose(q):
    """The base's x axis near the vertical: its angles toward world x and y, degrees, (T, 2)."""
    return np.degrees(np.arcsin(Rotation.from_quat(q[:, 3:7]).as_matrix()[:, :2, 0]))


def draw(path, times, results):
    figure, axes = plt.subplots(2, 2, figsize=(12.0, 8.8), layout="constrained")
    (pitch, angle), (around, effort) = axes
    own = results[SHOWN[0]]
    angle.semilogy(times, np.degrees(own["own"][0][:, 0]), color=BLUE, lw=2.5, label="left-trivialized, all")
    for distance, shade in zip(SHOWN, SHADES, strict=True):
        found, label = results[distance], f"Euler angles, {distance:g} degrees from the pole"
        pitch.plot(times, found["pitch"], color=shade, label=f"rests {distance:g} degrees from the pole")
        errors = np.degrees(found["euler"][0][:, 0])
        angle.semilogy(times[: len(errors)], errors, color=shade, label=label)
    pitch.plot(times, results[0.0]["pitch"], color="#222222", ls="--", label="rests at the pole")
    pitch.set(xlabel="time [s]", ylabel="[degrees]", title="Pitch of the reference")
    angle.set(xlabel="time [s]", ylabel="[degrees]", title="Attitude error", ylim=(1e-3, 300.0))
    after = slice(round(PUSHED / STEP), round((HORIZON - LEG) / STEP))
    for distance, shade in zip(SHOWN[1:], SHADES[1:], strict=True):
        found = results[distance]
        around.plot(*nose(found["own"][2][after]).T, color=BLUE, lw=2.5)
        around.plot(*nose(found["euler"][2][after]).T, color=shade)
        around.plot(*nose(found["own"][2][after])[0], "o", color=shade)
    around.plot(0.0, 0.0, "k+", ms=14, mew=2)
    around.set(xlim=(-16, 16), ylim=(-16, 16), xlabel="[degrees]", ylabel="[degrees]")
    around.set(title="Nose around the vertical (cross) after the push (dot)")
    around.set_aspect("equal")
    for name, color, label in (("own", BLUE, "left-trivialized"), ("euler", RED, "Euler angles")):
        there = [d for d in DISTANCES if d > 0.0 and results[d][name] is not None]
        values = [results[d][name][1].sum() * STEP for d in there]
        effort.loglog(there, values, "o-", color=color, label=label)
    effort.set(xlabel="distance of the reference from the pole [degrees]", ylabel="[N^2 s], [N^2 m^2 s]")
    effort.set(title="Integral of |tau - tau_r|^2")
    effort.set_xticks(ticks := [60, 30, 15, 10, 7, 4, 2], [f"{tick}" for tick in ticks])
    effort.minorticks_off()
    effort.invert_xaxis()
    for panel in axes.flat:
        panel.grid(alpha=0.3)
    for panel in (pitch, angle, effort):
        panel.legend(fontsize=8)
    figure.savefig(path, dpi=130)
    print(path)


def main():
    model, times = robot(), np.linspace(0.0, HORIZON, round(HORIZON / STEP) + 1)
    start = np.zeros(model.nv), np.zeros(model.nv)
    start[0][:6] = np.radians(12.0), np.radians(-8.0), np.radians(15.0), 0.1, -0.15, 0.1
    results = {}
    print("distance    left-trivialized: angle after the push     Euler angles: the same")
    print("from 90     [degrees], at the end, effort, largest")
    print("degrees     entry of the gain")
    motions = {distance: reference(np.radians(distance), times) for distance in DISTANCES}
    common = left_trivialized(model, motions.values())
    for distance, states in motions.items():
        results[distance] = compare(model, states, *common, start)
        describe(distance, results[distance])
    first = results[DISTANCES[0]]
    for found in results.values():
        np.testing.assert_allclose(found["own"][0], first["own"][0], atol=1e-8)
    assert np.degrees(first["own"][0][-1, 0]) < 0.1
    for distance in SHOWN[:2]:
        assert np.degrees(results[distance]["euler"][0][-1, 0]) < 0.1
    assert np.degrees(results[SHOWN[2]]["euler"][0][:, 0].max()) > 90.0 and results[0.0]["euler"] is None
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    draw(directory / "lqr_through_gimbal_lock.png", times, results)


if __name__ == "__main__":
    main()
