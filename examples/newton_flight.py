"""
A quadruped turns in the air, by Newton's method and by Gauss-Newton
====================================================================

A quadruped falls, pitched and rolled, without spin. Nothing holds it: it can only swing its legs, and the
trunk turns the other way. Torques that level the trunk and bring the legs back to their stance within half a
second are found by differential dynamic programming (DDP), which is Newton's method, and by the iterative
linear-quadratic regulator (iLQR), which is Gauss-Newton, as in `newton_swing.py`. Here the pose of the trunk
is a part of the state: derivatives are taken along the frame, and the kinematics of a step bend, too.

Both find the same motion. DDP takes 22 iterations for 155 and 101, each 1.0 to 1.2 times as long.
Run: python examples/newton_flight.py [directory]
"""

import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.transform import Rotation

from connections import multibody as mb

# %%
# A time step is v' = v + h a(q, v, tau), q' = q exp(h v'): the twist v' for a time h. The trunk's six forces
# are zero. A state near (q, v) has the coordinates (xi, v), q exp(xi) being its configuration.
#
# The cost is an integral of squared velocities and torques, and of the squared distance of the legs from the
# stance, which keeps them from turning round; at the end, of what this distance, all velocities but that of
# the fall, and the rotation matrix of the trunk miss.

robot = mb.example("quadruped")
n, m, STEPS, H = robot.nv, robot.nv - 6, 50, 0.01
LEGS = np.eye(n)[:, 6:]  # torques to forces
START = robot.neutral()
START[3:7] = Rotation.from_euler("xyz", [0.2, 0.3, 0.0]).as_quat()
SPEED = H * np.repeat([0.0, 1e-2], [6, m])
STANCE = H * np.repeat([0.0, 0.2], [6, m])
MISS_SPEED = np.repeat([0.3, 0.0, 0.03], [3, 3, m])
MISS_STANCE = np.repeat([0.0, 3.0], [6, m])
MISS_TURN = 30.0
EFFORTS = (3e-3, 3e-2)  # weights of the torques, 1/(N m)^2
FOOT = (0.0, 0.0, -0.22, 1.0)  # in the frame of a shank
BRACKETS = robot.frame.structure_functions(START)  # s[k, i, j] of [X_i, X_j]; constant


def accelerations(q, v, torques):
    return mb.forward_dynamics(robot, q, v, torques @ LEGS.T)


def rollout(torques, policy=None, around=None, h=H):
    """Configurations and velocities under these torques; with a policy, corrected by its feedback."""
    steps, applied = len(torques), np.array(torques)
    q, v = np.tile(START, (steps + 1, 1)), np.zeros((steps + 1, n))
    for k in range(steps):
        if policy is not None:
            off = np.concatenate([mb.difference(robot, around[0][k], q[k]), v[k] - around[1][k]])
            applied[k] = applied[k] + policy[k] @ off
        v[k + 1] = v[k] + h * accelerations(q[k], v[k], applied[k])
        if not np.max(np.abs(v[k + 1])) < 1e2:  # the step was far too long
            return None, None
        q[k + 1] = mb.displace(robot, q[k], h * v[k + 1])
    return (q, v), applied


def off_stance(q):
    """Angles of the legs, whose stance is at zero; the trunk has none."""
    return np.concatenate([np.zeros((*q.shape[:-1], 6)), q[..., 7:]], axis=-1)


def cost(states, torques, effort):
    q, v = states
    running = (
        np.sum(SPEED * v[:-1] ** 2) + np.sum(STANCE * off_stance(q[:-1]) ** 2) + effort * np.sum(torques**2)
    )
    last = np.sum(MISS_SPEED * v[-1] ** 2) + np.sum(MISS_STANCE * off_stance(q[-1]) ** 2)
    turn = Rotation.from_quat(q[-1, 3:7]).as_matrix()
    return 0.5 * (running + last + MISS_TURN * np.sum((turn - np.eye(3)) ** 2))


# %%
# Second derivatives along exp(xi) are the symmetric parts of those along the frame
# ([second derivatives](second_derivatives.md)). The trunk's rotation misses |R - 1|^2 / 2 = 3 - tr R.


def miss(q, v, newton):
    """Gradient (2 n,) and second derivatives (2 n, 2 n) of the cost of the end."""
    R = Rotation.from_quat(q[3:7]).as_matrix()
    slope = np.concatenate([MISS_STANCE * off_stance(q), MISS_SPEED * v])
    bend = np.diag(np.concatenate([MISS_STANCE, MISS_SPEED]))
    slope[:3] += MISS_TURN * np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    bend[:3, :3] += MISS_TURN * (np.trace(R) * np.eye(3) - (R + R.T) / 2.0 if newton else 2.0 * np.eye(3))
    return slope, bend


# %%
# The kinematics of a step: with x = h v', exp(x + dx) = exp(x) exp(J dx + ...), and the coordinates of q' are
#
# xi' = Ad xi + J dx + [Ad xi, J dx] / 2 + (change of J along dx) dx / 2 + ...,   Ad = exp(-ad x),
#
# J = 1 - ad x / 2! + (ad x)^2 / 3! - ... For an arm all of it is xi + dx.


def kinematics(x, p):
    """Ad and J (n, n), and the second derivatives of p . xi' by (dx, xi) and (dx, dx)."""
    ad, brackets = np.einsum("kij,i->kj", BRACKETS, x), np.einsum("k,kij->ij", p, BRACKETS)
    Ad, power, J = np.eye(n), np.eye(n), np.eye(n)
    row, change, bend = p, np.zeros((n, n)), np.zeros((n, n))  # p (-ad)^k and its derivatives by x
    for k in range(1, 7):
        change = -(change @ ad + np.einsum("k,kij->ij", row, BRACKETS))
        power, row = -power @ ad / k, -row @ ad
        Ad, J = Ad + power, J + power / (k + 1)
        bend = bend + change / float(np.prod(np.arange(1, k + 2)))
    return Ad, J, -0.5 * J.T @ brackets @ Ad, 0.5 * (bend + bend.T)


def linearized(states, torques):
    """Of each step dv'/d(xi, v) (n, 2 n), dv'/dtorques (n, m), and the coordinates' (2 n, 2 n), (2 n, m)."""
    q, v = states[0][:-1], states[1][:-1]
    a_q, a_v, a_tau = mb.forward_dynamics_derivatives(robot, q, v, torques @ LEGS.T)
    V = np.concatenate([H * a_q, np.eye(n) + H * a_v], axis=2)
    return V, H * a_tau @ LEGS


def bend(q, v, tau, p, V, U, twists):
    """The second derivatives of p . (xi', v') by (x, x), (torques, x) and (torques, torques)."""
    _, J, mixed, twice = twists
    w = H * (H * J.T @ p[:n] + p[n:])
    qq, vq, vv, tq = mb.forward_dynamics_hessian_product(robot, q, v, LEGS @ tau, w)
    xx = np.block([[(qq + qq.T) / 2.0, vq.T], [vq, vv]])
    tx = np.hstack([LEGS.T @ tq, np.zeros((m, n))])
    along = H * V.T @ mixed
    xx[:, :n] += along
    xx[:n] += along.T
    tx[:, :n] += H * U.T @ mixed
    twice = H * H * twice
    return xx + V.T @ twice @ V, tx + U.T @ twice @ V, U.T @ twice @ U


def backward(states, torques, effort, newton, damping):
    """Changes of torques (STEPS, m), feedback (STEPS, m, 2 n), slope; None if a step has no minimum."""
    (q, v), (Vs, Us) = states, linearized(states, torques)
    p, P = miss(q[-1], v[-1], newton)
    change, feedback, slope = np.empty((STEPS, m)), np.empty((STEPS, m, 2 * n)), 0.0
    running = np.concatenate([STANCE, SPEED])
    for k in range(STEPS - 1, -1, -1):
        V, U, twists = Vs[k], Us[k], kinematics(H * v[k + 1], p[:n])
        Ad, J = twists[:2]
        A, B = np.vstack([H * J @ V, V]), np.vstack([H * J @ U, U])
        A[:n, :n] += Ad
        by_x = running * np.concatenate([off_stance(q[k]), v[k]]) + A.T @ p
        by_tau = effort * torques[k] + B.T @ p
        xx, tx = np.diag(running) + A.T @ P @ A, B.T @ P @ A
        tt = (1.0 + damping) * effort * np.eye(m) + B.T @ P @ B
        if newton:
            more = bend(q[k], v[k], torques[k], p, V, U, twists)
            xx, tx, tt = xx + more[0], tx + more[1], tt + more[2]
        try:
            np.linalg.cholesky(tt)
        except np.linalg.LinAlgError:
            return None
        solved = -np.linalg.solve(tt, np.column_stack([by_tau, tx]))
        change[k], feedback[k] = solved[:, 0], solved[:, 1:]
        slope += change[k] @ by_tau
        p, P = by_x + tx.T @ change[k], xx + tx.T @ feedback[k]
        P = (P + P.T) / 2.0
    return change, feedback, slope


def search(states, torques, effort, value, model):
    """The first of shorter and shorter steps that lowers the cost by a tenth of what the slope says."""
    change, feedback, slope = model
    for length in 0.5 ** np.arange(8):
        moved, applied = rollout(torques + length * change, feedback, states)
        if moved is None:
            continue
        new = cost(moved, applied, effort)
        if new <= value + 0.1 * length * slope or -slope < 1e-11 * value:
            return moved, applied, new, slope
    return None


def solve(newton, weight, most=200):
    """Motion and torques, and after each iteration its cost, processor seconds and slope along its step."""
    effort = H * weight
    states, torques = rollout(np.zeros((STEPS, m)))
    damping, value, history, begin = 0.0, cost(states, torques, effort), [], time.process_time()
    while len(history) < most and damping < 1e6:
        found = None
        for second in (True, False) if newton else (False,):
            model = backward(states, torques, effort, second, 0.0 if second else damping)
            if model is not None and model[2] < 0.0:
                found = search(states, torques, effort, value, model)
            if found is not None:
                break
        if found is None:
            damping = max(4.0 * damping, 1e-2)
            continue
        states, torques, value, slope = found
        damping = damping / 4.0 if damping > 1e-2 else 0.0
        history.append((value, time.process_time() - begin, -slope))
        if -slope < 1e-11 * value:
            break
    return states, torques, np.array(history)


# %%
# A check of the second derivatives of a step, in one direction, against differences.

rng = np.random.default_rng(0)
q, v, x = robot.random(rng), *rng.standard_normal((2, n))
p, change = rng.standard_normal((2, 2 * n))
tau, dtau = rng.standard_normal((2, m))


def ahead(t):
    """p . (xi', v') of one step with state and torques at t along the direction, from the coordinates."""
    moved, speed = mb.displace(robot, q, t * change[:n]), v + t * change[n:]
    speed = speed + H * accelerations(moved, speed, tau + t * dtau)
    reached = mb.displace(robot, q, H * first)
    return p[:n] @ mb.difference(robot, reached, mb.displace(robot, moved, H * speed)) + p[n:] @ speed


first = v + H * accelerations(q, v, tau)
(V,), (U,) = linearized((np.array([q, q]), np.array([v, v])), tau[None])
xx, tx, tt = bend(q, v, tau, p, V, U, kinematics(H * first, p[:n]))
expected = change @ xx @ change + 2.0 * dtau @ tx @ change + dtau @ tt @ dtau
assert np.isclose((ahead(1e-4) - 2.0 * ahead(0.0) + ahead(-1e-4)) / 1e-8, expected, rtol=1e-5)

# %%
# In a step of 10 ms the kinematics bend little, so they are checked in a longer one.


def turned(t):
    """p . xi' where xi and x move along the direction."""
    moved = mb.displace(robot, mb.displace(robot, q, t * change[:n]), x + t * change[n:])
    return p[:n] @ mb.difference(robot, mb.displace(robot, q, x), moved)


x *= 0.2
Ad, J, mixed, twice = kinematics(x, p[:n])
slope = p[:n] @ (Ad @ change[:n] + J @ change[n:])
curve = change[n:] @ (twice @ change[n:] + 2.0 * mixed @ change[:n])
assert np.isclose((turned(1e-4) - turned(-1e-4)) / 2e-4, slope, rtol=1e-5)
assert np.isclose((turned(1e-4) - 2.0 * turned(0.0) + turned(-1e-4)) / 1e-8, curve, rtol=1e-3)

# %%
# The search begins without torques.

solve(True, EFFORTS[-1], most=1)  # compiles
runs = {(weight, newton): solve(newton, weight) for weight in EFFORTS for newton in (False, True)}
print(f"{'effort':>7} {'method':>6} {'iterations':>10} {'time':>9} {'an iteration':>13} {'cost':>12}")
for (weight, newton), (_, _, history) in runs.items():
    count, seconds = len(history), history[-1, 1]
    print(
        f"{weight:7.3f} {'DDP' if newton else 'iLQR':>6} {count:10d} {seconds:7.2f} s "
        f"{seconds / count * 1e3:10.1f} ms {history[-1, 0]:12.9f}"
    )
for weight in EFFORTS:
    few, many = (runs[weight, newton][2] for newton in (True, False))
    assert np.isclose(few[-1, 0], many[-1, 0], rtol=1e-6) and 2 * len(few) < len(many)

# %%
# The trunk is nearly level in the end, although its angular momentum and that of the legs cancel all the
# time. They do so up to the error of the steps, which are of first order: a seventh of the legs' angular
# momentum, in proportion to their length. The same torques in steps of a quarter level the trunk as well.


def angular_momentum(q, v):
    """(..., 3) about the centre of mass."""
    momentum = (mb.mass_matrix(robot, q) @ v[..., None])[..., 0]
    turn, arm = Rotation.from_quat(q[:, 3:7]), mb.center_of_mass(robot, q) - q[:, :3]
    return turn.apply(momentum[:, :3]) - np.cross(arm, turn.apply(momentum[:, 3:6]))


(q, v), torques, _ = runs[EFFORTS[0], True]
(q_fine, v_fine), _ = rollout(np.repeat(torques, 4, axis=0), h=H / 4.0)
legs = np.abs(angular_momentum(q, v * (np.arange(n) >= 6))).max()
tilts = [np.degrees(Rotation.from_quat(x[:, 3:7]).magnitude()) for x in (q, q_fine)]
errors = [np.abs(angular_momentum(*x)).max() / legs for x in ((q, v), (q_fine, v_fine))]
print(f"tilt {tilts[0][0]:.0f} to {tilts[0][-1]:.1f} degrees, in finer steps {tilts[1][-1]:.1f}")
print(f"angular momentum / the legs' {errors[0]:.3f}, in finer steps {errors[1]:.3f}")
print(f"torques up to {np.abs(torques).max():.0f} N m, joints up to {np.abs(v[:, 6:]).max():.0f} rad/s")
assert tilts[0][-1] < 5.0 and tilts[1][-1] < 5.0 and errors[1] < 0.35 * errors[0]

# %%
# The picture: what is left of the slope by iteration and by time, and the fall from the side.


def draw(path):
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.9), layout="constrained", width_ratios=(1, 1, 1.5))
    for (weight, newton), (_, _, history) in runs.items():
        color = "#c8102e" if newton else "#1f5fbf"
        label = f"{'DDP' if newton else 'iLQR'}, effort {weight:g}"
        alpha = 1.0 if weight == EFFORTS[-1] else 0.5
        style = {"color": color, "alpha": alpha, "marker": ".", "markersize": 4, "label": label}
        slopes = np.maximum(history[:, 2] / history[:, 0], 1e-17)
        axes[0].semilogy(np.arange(1, len(history) + 1), slopes, **style)
        axes[1].semilogy(history[:, 1], slopes, **style)
    axes[0].set(xlabel="iteration", ylabel="predicted decrease / cost", title="By iteration")
    axes[1].set(xlabel="processor time [s]", title="By time", xscale="log")
    axes[0].legend(fontsize=7)
    poses = mb.forward_kinematics(robot, q[::10])
    for place, bodies in enumerate(poses):
        for leg in range(4):
            hip, thigh, shank = bodies[1 + 3 * leg : 4 + 3 * leg]
            points = [bodies[0][:3, 3], *(T[:3, 3] for T in (hip, thigh, shank)), (shank @ FOOT)[:3]]
            x, _, z = np.array(points).T
            near = leg in (1, 3)  # on the right
            axes[2].plot(x + 0.62 * place, z, "-", color="#8a1f2b" if near else "#c9a0a6", linewidth=1.8)
        x, _, z = np.array([(bodies[0] @ (end, 0.0, 0.0, 1.0))[:3] for end in (-0.26, 0.26)]).T
        axes[2].plot(x + 0.62 * place, z, color="#333333", linewidth=5.0, solid_capstyle="round")
    axes[2].set(xlabel="drawn 0.62 m apart every 0.1 s", ylabel="z [m]", title="The fall", aspect="equal")
    axes[2].set_xticks([])
    for panel in axes:
        panel.grid(alpha=0.3)
    figure.savefig(path, dpi=130)
    print(path)


directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
draw(directory / "newton_flight.png")
