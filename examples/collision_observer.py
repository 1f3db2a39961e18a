"""
An arm feels a collision: C transposed in O(N)
==============================================

While the Panda arm follows a motion, somebody pushes its fifth link for a quarter of a second. No sensor
measures the push. The observer integrates pdot = tau + C^T v - g and compares it with p = H v; its residual
obeys rdot = K (J^T f - r). C^T v and H v take O(N): no matrix is formed. Thresholds come from a rehearsal
without a push, in which the observer's model lacks the 100 g that the hand holds. With C v in the place of
C^T v the residual is wrong before anything touches the arm. The link is that of the last joint above its
threshold: a push whose line meets a joint's axis leaves that joint out.
Needs the extra `robots`, and the file adaptive_arm.py beside it.
Run: python examples/collision_observer.py [directory]
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from adaptive_arm import HAND, K_D, MIDDLE, panda, reference
from scipy.integrate import solve_ivp

from connections import multibody as mb
from connections.control import MomentumObserver, PassivityController, prepare, with_payload

# %%
# The push is half a sine in time, at one point of one link. The arm and its motion are those of the example
# about adaptive tracking.

TOUCHED, POINT = "panda_link5", np.array([0.0, 0.08, -0.1])  # m, in the axes of the link
PUSH = np.array([-20.0, -10.0, 30.0])  # N, world axes, at the top of a half sine
BEGIN, END, HORIZON = 2.0, 2.25, 3.0  # s
GAIN, RATE = 60.0, 1000.0  # K, 1/s; samples per second
COLORS = ("#222222", "#8a8a8a", "#c07f00", "#1b8a3a", "#c8102e", "#1f5fbf", "#7b3fa0")


def touch(model, push):
    """(t, q) -> J^T f, (nv,), of the push at the point of contact; q is of one configuration."""
    number = model.body_names.index(TOUCHED)

    @jax.jit
    def transposed(q):  # every joint has qdot = v: J is the derivative of the point's position
        place = lambda p: (model.kinematics.world_transforms_at(p)[number] @ jnp.append(POINT, 1.0))[:3]  # noqa: E731
        return jax.jacfwd(place)(q).T

    def force(t, q):
        if not BEGIN < t < END:
            return np.zeros(model.nv)
        return np.asarray(transposed(q)) @ (push * np.sin(np.pi * (t - BEGIN) / (END - BEGIN)))

    return force


# %%
# Three observers watch: one with the exact model, one that lacks the 100 g in the hand, and one that is given
# C v in the place of C^T v. Each is a state z beside the arm's, so one integration has the arm, the true
# torque of the push behind the filter that the theory promises, and all of them.


def simulate(plant, controller, observers, force):
    """Times (T,), q, v (T, nv), J^T f, J^T f behind the filter K / (s + K), and one z per observer.

    The last observer is given C v in the place of C^T v.
    """
    n = plant.nv

    def rates(t, y):
        q, v, filtered, *z = y.reshape(-1, n)
        v_r, a_r, _ = reference(t, q, v)
        tau, pushed = controller.torque(q, v, v_r, a_r), force(t, q)
        z_rates = [o.state_rate(q, v, tau, state) for o, state in zip(observers, z, strict=True)]
        z_rates[-1] += mb.coriolis_product(plant, q, v, v) - mb.coriolis_transpose_product(plant, q, v, v)
        a = mb.forward_dynamics(plant, q, v, tau + pushed)
        return np.concatenate([v, a, GAIN * (pushed - filtered), *z_rates])

    times, still = np.arange(int(HORIZON * RATE) + 1) / RATE, np.zeros(n)
    start = np.concatenate([MIDDLE, still, still, *(o.momentum(MIDDLE, still) for o in observers)])
    prepare(rates, 0.0, start)  # no call in the loop waits for a compilation
    solution = solve_ivp(
        rates, (0.0, HORIZON), start, t_eval=times, method="LSODA", rtol=1e-10, atol=1e-11, max_step=0.01
    )
    assert solution.success, solution.message
    q, v, filtered, *z = solution.y.T.reshape(len(times), -1, n).swapaxes(0, 1)
    pushed = np.stack([force(t, p) for t, p in zip(times, q, strict=True)])
    return times, pushed, filtered, [o.residual(q, v, state) for o, state in zip(observers, z, strict=True)]


arm = panda()
plant = with_payload(arm, HAND, 0.1, (0.0, 0.02, 0.2))
controller = PassivityController(arm.system(), K_D)
observers = [MomentumObserver(model.system(), GAIN) for model in (plant, arm, plant)]

# %%
# The rehearsal, without a push, sets the thresholds: 1.5 times the largest residual that the unknown 100 g
# cause.

rehearsal = simulate(plant, controller, observers, touch(plant, 0.0 * PUSH))[-1]
thresholds = 1.5 * np.abs(rehearsal[1]).max(axis=0)
print("thresholds of the joints [N m]:", *(f"{x:.2f}" for x in thresholds))

# %%
# Now somebody pushes. With the exact model the residual is the torque of the push behind the filter K / (s +
# K), as in the theory. With the wrong product it is off already before the push.

t, pushed, filtered, residuals = simulate(plant, controller, observers, touch(plant, PUSH))
exact, unaware, wrong = residuals
gap, top = np.abs(exact - filtered).max(), np.abs(pushed).max()
early = np.abs(wrong[t < BEGIN]).max()
print(f"largest torque of the push {top:.2f} N m")
print(f"exact model: the residual is that torque behind the filter, to {gap:.0e} N m")
print(f"C v for C^T v: off by {np.abs(wrong - filtered).max():.2f} N m, {early:.2f} N m before the push")
assert gap < 1e-6 * top < 0.1 * np.abs(wrong - filtered).max()

# %%
# The observer that lacks the 100 g has to tell a push from its own ignorance. It does so by the thresholds,
# and the last joint above its own says which link was touched.

above = np.abs(unaware) > thresholds
first, joints = np.flatnonzero(above.any(axis=1))[0], np.flatnonzero(above.any(axis=0))
link = arm.body_names[joints.max()]
print(f"push from {BEGIN} s to {END} s; detected {1e3 * (t[first] - BEGIN):.0f} ms after it begins,", end="")
print(f" by joint {1 + np.flatnonzero(above[first])[0]}")
print(f"joints above their thresholds: {joints + 1}; touched: {link} (true: {TOUCHED})")
assert link == TOUCHED and t[first] > BEGIN

# %%
# How well the residual measures the torque: the filter's lag costs most, with either model.

during = (t > BEGIN) & (t < END + 3.0 / GAIN)
size = np.sqrt((pushed[during] ** 2).sum(axis=1).mean())
for name, r in (("exact model", exact), ("100 g unknown", unaware)):
    lag, rest = (np.sqrt(((r - x)[during] ** 2).sum(axis=1).mean()) for x in (pushed, filtered))
    print(f"{name:<14} rms error of the torque {lag:.2f} N m of {size:.2f}, {rest:.1e} behind the filter")

# %%
# The residuals: of the exact model, of the model without the 100 g over its thresholds, and with the wrong
# product.


def draw(path, t, pushed, residuals, thresholds, found):
    figure, axes = plt.subplots(1, 3, figsize=(14.0, 4.3), layout="constrained", sharex=True)
    exact, unaware, wrong = residuals
    for k, color in enumerate(COLORS):
        axes[0].plot(t, exact[:, k], color=color, label=f"joint {k + 1}")
        axes[0].plot(t, pushed[:, k], color=color, linestyle=":", linewidth=1.2)
        axes[1].plot(t, np.abs(unaware[:, k]) / thresholds[k], color=color, label=f"joint {k + 1}")
        axes[2].plot(t, wrong[:, k], color=color, label=f"joint {k + 1}")
    axes[0].set(ylabel="torque [N m]", title="Residual (solid) and push $J^T f$ (dotted)")
    axes[1].axhline(1.0, color="#222222", linestyle="--", linewidth=1.0)
    axes[1].axvline(found, color="#222222", linestyle="--", linewidth=1.0)
    axes[1].set(ylabel="residual over its threshold", ylim=(0.0, None), title="100 g unknown to the observer")
    axes[2].set(ylabel="torque [N m]", title="Residual with $C v$ in the place of $C^T v$")
    axes[2].sharey(axes[0])
    for panel in axes:
        panel.axvspan(BEGIN, END, color="#e3ecf7", zorder=0)
        panel.set(xlabel="time [s]", xlim=(1.5, HORIZON))
        panel.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=130)
    print(path)


directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
draw(directory / "collision.png", t, pushed, residuals, thresholds, t[first])
