"""
A four-bar linkage: closed loops
================================

One crank angle q describes three moving bars; the other two angles follow from the loop, so that the mass
matrix H and with it the Coriolis terms depend on q. With one degree of freedom Gamma = H' / 2 and C = Gamma
v. The recursion and the definition give the same C. In free motion the energy is conserved and the loop stays
closed.
Run: python examples/four_bar.py [directory]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp

import connections as cn
from connections import multibody as mb
from connections import plots

# %%
# A loop ties the ends of coupler and rocker. The motor's angle is the independent one.

LENGTHS = {"crank": 0.3, "coupler": 0.9, "rocker": 0.6}  # m
PIVOT = 0.8  # of the rocker, m from that of the crank
GRAVITY = 9.81
START, SPEED, HORIZON = 1.0, 6.0, 3.0  # rad, rad/s, s


def four_bar():
    """The linkage; uniform bars of 2 kg/m in the xy plane."""
    mechanism, hinge = mb.Mechanism(), mb.Revolute((0, 0, 1))
    for bar, length in LENGTHS.items():
        inertia = 2.0 * length**3 / 12.0 * np.diag([0.0, 1.0, 1.0])
        mechanism.add_body(bar, 2.0 * length, (length / 2.0, 0, 0), inertia)
    mechanism.add_joint("motor", "world", "crank", hinge)
    mechanism.add_joint("pin", "crank", "coupler", hinge, shift(LENGTHS["crank"]))
    mechanism.add_joint("pivot", "world", "rocker", hinge, shift(PIVOT))
    ends = shift(LENGTHS["coupler"]), shift(LENGTHS["rocker"])
    mechanism.add_loop("loop", "coupler", "rocker", mb.Coincident(), *ends, independent=["motor"])
    return mechanism.build(gravity=(0.0, -GRAVITY, 0.0), reference={"motor": START, "pivot": 1.2})


def shift(x):
    placement = np.eye(4)
    placement[0, 3] = x
    return placement


# %%
# There is one velocity, so C = Gamma v. Gamma comes from a recursion; C comes from another recursion, and
# from the definition in JAX, which shares no code with them.

model = four_bar()
at, speed = np.array([START]), np.array([SPEED])
Gamma = mb.christoffel_symbols(model, at)[0, 0, 0]
routes = {
    "cluster recursion": mb.coriolis_matrix(model, at, speed),
    "definition in JAX": cn.coriolis_matrix(model.connection, at, speed),
}
print(f"{model}; q = {START} rad, v = {SPEED} rad/s: Gamma v = {Gamma * SPEED:.12f} kg m^2/s")
for name, C in routes.items():
    print(f"C by {name:<26}{float(C[0, 0]):.12f}")
    assert abs(C[0, 0] - Gamma * SPEED) < 1e-12

# %%
# The linkage has no gyroscopic terms, only a mass matrix that depends on the angle: Gamma is half of its
# slope. So the integral of 2 Gamma over a turn of the crank must be H; here it is summed by trapezoids.

q = np.linspace(-np.pi, np.pi, 181)
H = np.array([mb.mass_matrix(model, angle[None])[0, 0] for angle in q])
slope = np.array([mb.christoffel_symbols(model, angle[None])[0, 0, 0] for angle in q])
work = np.cumsum((slope[1:] + slope[:-1]) * (q[1] - q[0]))
worst = np.abs(H[1:] - H[0] - work).max()
print(f"H varies by a factor {H.max() / H.min():.1f}; integral of 2 Gamma against H: {worst:.0e} kg m^2")
assert worst < 1e-3 * H.max() < 0.1 * np.ptp(H)

# %%
# The free motion has one angle and one speed, so that any integrator will do.


def simulate(model, times):
    """Crank angle and speed (T, 1) each of the free motion, forward dynamics integrated by SciPy."""

    def rates(t, state):
        return np.concatenate([state[1:], mb.forward_dynamics(model, state[:1], state[1:], np.zeros(1))])

    path = solve_ivp(rates, (0.0, HORIZON), [START, SPEED], "DOP853", times, rtol=1e-11, atol=1e-11)
    assert path.success, path.message
    return path.y[:1].T, path.y[1:].T


times = np.linspace(0.0, HORIZON, 301)
angle, rate = simulate(model, times)
print(f"free motion over {HORIZON} s: {np.ptp(angle) / (2 * np.pi):.1f} turns of the crank")

# %%
# The bars in the plane come from the angles of all joints, the dependent ones too. No condition of the loop
# was integrated: the dependent angles are solved for at each configuration, so that the loop cannot open.


def bars(model, q):
    """Starts and ends of the three bars, each {bar: (T, 2)}, m, from the angles of all joints."""
    angles = {name: np.asarray(angle)[..., 0] for name, angle in model.spanning_configuration(q).items()}
    turns = {
        "crank": angles["motor"],
        "coupler": angles["motor"] + angles["pin"],
        "rocker": angles["pivot"],
    }
    along = {
        bar: LENGTHS[bar] * np.stack([np.cos(turn), np.sin(turn)], axis=-1) for bar, turn in turns.items()
    }
    still = np.zeros_like(along["crank"])
    starts = {"crank": still, "coupler": along["crank"], "rocker": still + [PIVOT, 0.0]}
    return starts, {bar: starts[bar] + along[bar] for bar in LENGTHS}


starts, ends = bars(model, angle)
gap = np.linalg.norm(ends["coupler"] - ends["rocker"], axis=1)
print(f"the loop opens by {gap.max():.1e} m")
assert gap.max() < 1e-12

# %%
# The energy is conserved although the kinetic energy alone changes a lot.

kinetic = 0.5 * np.array([mb.mass_matrix(model, x)[0, 0] for x in angle]) * rate[:, 0] ** 2
heights = {bar: (starts[bar][:, 1] + ends[bar][:, 1]) / 2.0 for bar in LENGTHS}
energy = kinetic + sum(2.0 * LENGTHS[bar] * GRAVITY * heights[bar] for bar in LENGTHS)
drift = np.abs(energy - energy[0]) / kinetic.max()
print(f"kinetic energy between {kinetic.min():.2f} and {kinetic.max():.2f} J; the sum with that of gravity")
print(f"changes by {drift.max():.1e} of the larger one")
assert drift.max() < 1e-8 and np.ptp(kinetic) > 0.1 * kinetic.max()

# %%
# Three pictures: the linkage, H and Gamma over one turn, and the errors of the motion.


def draw(path, starts, ends, sweep, motion):
    figure, axes = plt.subplots(1, 3, figsize=(14.0, 4.3), layout="constrained")
    shades = {"crank": "#c8102e", "coupler": "#1f5fbf", "rocker": "#1b8a3a"}
    for k in range(0, 60, 12):
        for bar, shade in shades.items():
            line = np.stack([starts[bar][k], ends[bar][k]]).T
            axes[0].plot(*line, color=shade, lw=2.5, alpha=0.25 + 0.15 * (k // 12))
    middle = (starts["coupler"] + ends["coupler"]) / 2.0
    axes[0].plot(*middle.T, color="#8a8a8a", lw=1.0, zorder=0)
    axes[0].plot([0.0, PIVOT], [0.0, 0.0], "k^", ms=9)
    axes[0].set(xlabel="x [m]", ylabel="y [m]", title="Five moments; path of the coupler's middle")
    axes[0].set_aspect("equal")
    q, H, Gamma = sweep
    axes[1].plot(q, H, color="#1f5fbf", label="H [kg m$^2$]")
    axes[1].plot(q, Gamma, color="#c8102e", label=r"$\Gamma_{111} = H'/2$ [kg m$^2$]")
    axes[1].set(xlabel="crank angle [rad]", title="One turn of the crank")
    axes[1].legend()
    t, drift, gap = motion
    floor = 1e-17
    axes[2].semilogy(t, np.maximum(drift, floor), color="#1f5fbf", label="energy, relative")
    axes[2].semilogy(t, np.maximum(gap, floor), color="#c8102e", label="open loop [m]")
    axes[2].set(xlabel="time [s]", ylim=(floor, 1e-6), title="Errors of the free motion")
    axes[2].legend()
    for panel in axes:
        panel.grid(alpha=0.3)
    figure.savefig(path, dpi=130)
    print(path)


directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
draw(directory / "four_bar.png", starts, ends, (q, H, slope), (times, drift, gap))

# %%
# The mechanism as a graph: bodies, joints, and the loop that ties two of them.

plots.figure_mechanism(model).savefig(directory / "four_bar_graph.png")
print(directory / "four_bar_graph.png")
