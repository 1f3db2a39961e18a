"""
A swing of an arm by Newton's method, and by Gauss-Newton
=========================================================

An arm of six joints swings from a lowered to a raised posture within a second. The torques are found by
differential dynamic programming (DDP), which is Newton's method, step by step backwards in time. It needs the
second derivatives of the dynamics, weighted with the gradient of the cost-to-go: one call of
`mb.forward_dynamics_hessian_product` for each time step, and no tensor is formed. The iterative
linear-quadratic regulator (iLQR) is Gauss-Newton: it leaves these terms away.

Near the solution an iteration of DDP squares the error, and one of iLQR reduces it by a factor. The more the
torques cost, the closer this factor is to one: at the highest weight DDP takes 17 iterations and iLQR 157. An
iteration of DDP takes 1.2 to 1.4 times as long.
Run: python examples/newton_swing.py [directory] [URDF of another arm of six joints]
"""

import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from connections import multibody as mb

# %%
# A time step is v' = v + h a(q, v, tau), q' = q + h v'. All joints are revolute, so that v is the rate of q.
# The cost is an integral of squared velocities and of squared torques relative to their limits, and a penalty
# of what the end misses.

arm = mb.from_urdf(sys.argv[2]) if len(sys.argv) > 2 else mb.example("arm")
n, STEPS, H = arm.nv, 50, 0.02
START = np.array([0.0, 2.0, 0.0, 0.0, 0.0, 0.0, *np.zeros(n)])
GOAL = np.array([1.5, -0.5, 1.0, 0.8, -1.0, 0.5, *np.zeros(n)])
SPEED = H * 0.1 * np.repeat([0.0, 1.0], n)
MISS = np.repeat([100.0, 10.0], n)
EFFORTS = (30.0, 300.0, 1000.0)  # weights of the torques


def step(x, tau):
    v = x[n:] + H * mb.forward_dynamics(arm, x[:n], x[n:], tau)
    return np.concatenate([x[:n] + H * v, v])


def rollout(torques, policy=None, around=None):
    """States (STEPS + 1, 2 n) and torques under these torques; with a policy, corrected by its feedback."""
    states, applied = np.empty((STEPS + 1, 2 * n)), np.array(torques)
    states[0] = START
    for k in range(STEPS):
        if policy is not None:
            applied[k] = applied[k] + policy[k] @ (states[k] - around[k])
        states[k + 1] = step(states[k], applied[k])
        if not np.max(np.abs(states[k + 1])) < 1e3:  # the step was far too long
            return None, None
    return states, applied


def cost(states, torques, effort):
    running = np.sum(SPEED * states[:-1] ** 2) + np.sum(effort * torques**2)
    return 0.5 * (running + np.sum(MISS * (states[-1] - GOAL) ** 2))


# %%
# The backward pass. With the gradient p of the cost-to-go behind a step, the second derivatives of p . x' are
# those of w . a, w = h^2 p_q + h p_v. First derivatives of all steps are one call.


def linearized(states, torques):
    """dx'/dx (STEPS, 2 n, 2 n) and dx'/dtau (STEPS, 2 n, n)."""
    a_q, a_v, a_tau = mb.forward_dynamics_derivatives(arm, states[:-1, :n], states[:-1, n:], torques)
    unit = np.eye(n)
    A = np.block([[unit + H * H * a_q, H * unit + H * H * a_v], [H * a_q, unit + H * a_v]])
    return A, np.concatenate([H * H * a_tau, H * a_tau], axis=1)


def bend(x, tau, p):
    """The second derivatives of p . x' by (x, x) and (tau, x)."""
    qq, vq, vv, tq = mb.forward_dynamics_hessian_product(arm, x[:n], x[n:], tau, H * H * p[:n] + H * p[n:])
    return np.block([[qq, vq.T], [vq, vv]]), np.hstack([tq, np.zeros((n, n))])


def backward(states, torques, effort, newton, damping):
    """Changes of torques (STEPS, n), feedback (STEPS, n, 2 n), slope; None if a step has no minimum."""
    A, B = linearized(states, torques)
    p, P = MISS * (states[-1] - GOAL), np.diag(MISS)
    change, feedback, slope = np.empty((STEPS, n)), np.empty((STEPS, n, 2 * n)), 0.0
    for k in range(STEPS - 1, -1, -1):
        by_x, by_tau = SPEED * states[k] + A[k].T @ p, effort * torques[k] + B[k].T @ p
        xx, tx = np.diag(SPEED) + A[k].T @ P @ A[k], B[k].T @ P @ A[k]
        tt = np.diag((1.0 + damping) * effort) + B[k].T @ P @ B[k]
        if newton:
            more_xx, more_tx = bend(states[k], torques[k], p)
            xx, tx = xx + more_xx, tx + more_tx
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


# %%
# A check of the one line in which the methods differ: against differences of the first derivatives.

rng = np.random.default_rng(0)
x, tau, p, d = START + 0.3 * rng.standard_normal(2 * n), *rng.standard_normal((3, 2 * n))
tau = tau[:n]
quotient = [(p @ M[0]) for s in (1e-6, -1e-6) for M in linearized(np.array([x + s * d, x]), tau[None])]
more_xx, more_tx = bend(x, tau, p)
assert np.allclose(more_xx @ d, (quotient[0] - quotient[2]) / 2e-6, rtol=1e-6, atol=1e-6)
assert np.allclose(more_tx @ d, (quotient[1] - quotient[3]) / 2e-6, rtol=1e-6, atol=1e-6)

# %%
# The search. Far from the solution Newton's model may have no minimum, or lead nowhere; then a Gauss-Newton
# step is taken instead, as in all steps of iLQR. Both begin with torques that hold the arm where it starts.


def solve(newton, weight, most=200):
    """States and torques, and after each iteration its cost, processor seconds and slope along its step."""
    effort = H * weight / arm.limits.effort**2
    states, torques = rollout(np.tile(mb.gravity(arm, START[:n]), (STEPS, 1)))
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


solve(True, EFFORTS[0], most=2)  # compiles
runs = {(weight, newton): solve(newton, weight) for weight in EFFORTS for newton in (False, True)}
print(f"{'effort':>7} {'method':>6} {'iterations':>10} {'time':>9} {'an iteration':>13} {'cost':>14}")
for (weight, newton), (_, _, history) in runs.items():
    count, seconds = len(history), history[-1, 1]
    print(
        f"{weight:7.0f} {'DDP' if newton else 'iLQR':>6} {count:10d} {seconds:7.2f} s "
        f"{seconds / count * 1e3:10.1f} ms {history[-1, 0]:14.9f}"
    )
for weight in EFFORTS:
    few, many = (runs[weight, newton][2] for newton in (True, False))
    assert np.isclose(few[-1, 0], many[-1, 0], rtol=1e-6) and len(few) <= len(many)

# %%
# Gauss-Newton relies on small residuals. Here the torques are residuals, too, and the more they cost, the
# larger these are. Both methods find the same stationary motion; there may be others.


def draw(path):
    """What is left of the slope by iteration and by time, and the swing."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.9), layout="constrained")
    shades = dict(zip(EFFORTS, (0.35, 0.65, 1.0), strict=True))
    for (weight, newton), (_, _, history) in runs.items():
        color = "#c8102e" if newton else "#1f5fbf"
        label = f"{'DDP' if newton else 'iLQR'}, effort {weight:.0f}"
        style = {"color": color, "alpha": shades[weight], "marker": ".", "markersize": 4, "label": label}
        slopes = np.maximum(history[:, 2] / history[:, 0], 1e-17)
        axes[0].semilogy(np.arange(1, len(history) + 1), slopes, **style)
        axes[1].semilogy(history[:, 1] * 1e3, slopes, **style)
    axes[0].set(xlabel="iteration", ylabel="predicted decrease / cost", title="By iteration", xlim=(0, 60))
    axes[1].set(xlabel="processor time [ms]", title="By time", xscale="log")
    axes[0].legend(fontsize=7)
    states = runs[EFFORTS[-1], True][0]
    bodies = mb.forward_kinematics(arm, states[:, :n])[..., :3, 3]
    chain = np.concatenate([np.zeros_like(bodies[:, :1]), bodies], axis=1)
    for k in range(0, STEPS + 1, 5):
        axes[2].plot(chain[k, :, 0], chain[k, :, 2], "-o", color=plt.cm.viridis(k / STEPS), markersize=3)
    axes[2].plot(*chain[:, -1, [0, 2]].T, color="#8a8a8a", linewidth=1.0)
    axes[2].set(xlabel="x [m]", ylabel="z [m]", title="The swing, from dark to light", aspect="equal")
    for panel in axes:
        panel.grid(alpha=0.3)
    figure.savefig(path, dpi=130)
    print(path)


directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
draw(directory / "newton_swing.png")
