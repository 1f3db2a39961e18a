"""Adaptation with a constant gain, and along the inertias of bodies that exist, on an arm with a payload.

The arm of `multibody.example("arm")` follows six sines while its tool carries 2 kg that the laws do not know.
Three laws, gains over four decades, five first estimates, a loop of 1 kHz: how fast the error falls, the
largest torque, and for which share of the time the estimated inertia is that of no body. Before, what a cycle
takes, what the bound of the mass is for, and what a period of 5 ms does to other steps.
Run: python tests/benchmarks/natural_adaptation.py docs/figures (some minutes)
"""

import sys
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

from connections import multibody as mb
from connections.control import AdaptiveController, UnknownInertia, with_payload
from connections.multibody.inertia import inertia_of

ARM, BODY = mb.example("arm"), "tool"
METRIC = mb.inertia_metric()
PLANT = with_payload(ARM, BODY, 2.0, (0.05, 0.0, 0.1))
LINK = mb.inertial_parameters(ARM)[ARM.body_names.index(BODY)]
TRUTH = mb.inertial_parameters(PLANT)[ARM.body_names.index(BODY)] - LINK
FAMILY = UnknownInertia(ARM.system(), [BODY])
PACE = np.array([1.1, 1.7, 2.3, 1.3, 2.9, 1.9])  # rad/s
SWING, LAMBDA = 0.8, 4.0  # rad, 1/s
K_D = np.array([8.0, 8.0, 6.0, 2.0, 2.0, 0.5])  # N m s
HORIZON, PERIOD = 8.0, 1e-3  # s
BOUND = 4.0  # kg
DECADES = 10.0 ** np.arange(-1.0, 3.1, 0.5)


def ball(mass, radius):
    """The parameters of a solid ball at the origin of the body's frame."""
    moment = 0.4 * mass * radius**2
    return np.array([mass, 0.0, 0.0, 0.0, moment, 0.0, moment, 0.0, 0.0, moment])


STARTS = {
    "nothing": 0.0 * LINK,
    "0.05 kg, 0.1 m": ball(0.05, 0.1),
    "0.2 kg, 0.1 m": ball(0.2, 0.1),
    "0.2 kg, 0.05 m": ball(0.2, 0.05),
    "1 kg, 0.1 m": ball(1.0, 0.1),
}
USUAL = "0.2 kg, 0.1 m"


def natural(gamma, bound=BOUND):
    return AdaptiveController(FAMILY, K_D, "natural", rate=gamma, mass_bound=bound)


def scalar(gain):
    return AdaptiveController(FAMILY, K_D, gain)


def at_start(gamma, start):
    """The constant gain that the natural law has at its start."""
    return AdaptiveController(FAMILY, K_D, gamma * np.linalg.inv(METRIC.matrix(LINK + start)))


def reference(t, q, v):
    """v_r, its rate, and q - q_d."""
    phase = PACE * t
    error = q - SWING * np.sin(phase)
    rate = SWING * PACE * np.cos(phase)
    return rate - LAMBDA * error, -SWING * PACE**2 * np.sin(phase) - LAMBDA * (v - rate), error


def held(q, v, tau, period):
    """q and v of the plant after a period of constant torques, by a step of Runge and Kutta."""

    def rates(q, v):
        return v, mb.forward_dynamics(PLANT, q, v, tau)

    a = rates(q, v)
    b = rates(q + period / 2 * a[0], v + period / 2 * a[1])
    c = rates(q + period / 2 * b[0], v + period / 2 * b[1])
    d = rates(q + period * c[0], v + period * c[1])
    q, v = (
        x + period / 6 * (k + 2 * m + 2 * n + o) for x, k, m, n, o in zip((q, v), a, b, c, d, strict=True)
    )
    return q, v


def simulate(law, start, step=None, period=PERIOD, moving=True):
    """|q - q_d|, torques, estimates of a loop; it ends where the robot runs away."""
    step = law.next_parameters if step is None else step
    q, v, estimate = np.zeros(6), moving * SWING * PACE, start  # on the desired motion, or at rest
    errors, torques, estimates = [], [], []
    for k in range(round(HORIZON / period)):
        v_r, a_r, error = reference(k * period, q, v)
        tau = law.torque(q, v, v_r, a_r, estimate)
        estimate = step(q, v, v_r, a_r, estimate, period)
        q, v = held(q, v, tau, period)
        errors.append(np.linalg.norm(error))
        torques.append(np.abs(tau).max())
        estimates.append(estimate)
        if not np.abs(v).max() < 1e3:
            break
    return np.array(errors), np.array(torques), np.array(estimates)


def measure(law, start, step=None, period=PERIOD):
    """Rms error in 0-2 s and the last 2 s [rad], peak torque [N m], share of no body, final mass [kg].

    The first three are infinite if the robot runs away.
    """
    errors, torques, estimates = simulate(law, start, step, period)
    two = round(2.0 / period)
    least = np.linalg.eigvalsh(METRIC.matrices(LINK + np.nan_to_num(estimates)))[:, 0]
    share, mass = (least <= 0.0).mean(), LINK[0] + estimates[-1][0]
    if len(errors) < 4 * two:
        return np.inf, np.inf, np.inf, share, mass
    first, late = (np.sqrt((part**2).mean()) for part in (errors[:two], errors[-two:]))
    return first, late, torques.max(), share, mass


def gains_and_starts():
    """{law: (gains, starts, 5)}, printed."""
    laws = {
        "natural": lambda gain, start: natural(gain),
        "constant, scalar": lambda gain, start: scalar(gain / 10.0),
        "constant, of the start": at_start,
    }
    found = {}
    print("law                     start             gain   0-2 s   6-8 s   peak  no body   mass")
    for name, law in laws.items():
        rows = np.empty((len(DECADES), len(STARTS), 5))
        for j, (called, start) in enumerate(STARTS.items()):
            for i, gain in enumerate(DECADES):
                rows[i, j] = measure(law(gain, start), start)
                values = "{:8.3f}{:8.4f}{:7.1f}{:8.1%}{:8.2f}".format(*rows[i, j])
                shown = gain / 10.0 if name == "constant, scalar" else gain
                print(f"{name:<24}{called:<16}{shown:6g}{values}", flush=True)
        found[name] = rows
    return found


def bounds_and_frames():
    """The bound of the mass; the constant law in another frame, and in centimetres."""
    start = STARTS[USUAL]
    for gamma in (10.0, 30.0, 100.0, 300.0):
        for bound in (np.inf, BOUND):
            errors, torques, estimates = simulate(natural(gamma, bound), start, moving=False)
            most, peak = LINK[0] + estimates[:, 0].max(), torques.max()
            print(f"from rest, gamma {gamma:g}, bound {bound:g} kg: peak {peak:.1f} N m, up to {most:.2f} kg")
    turned = np.diag([1.0, *[100.0] * 3, *[1e4] * 6])  # parameters in centimetres
    moved = np.stack([_moved(row) for row in np.eye(10)], axis=1)
    base = simulate(scalar(0.3), start)[1]
    for what, M in (("centimetres", turned), ("a frame 0.58 m away", moved)):
        inverse = np.linalg.inv(M)
        other = simulate(AdaptiveController(FAMILY, K_D, 0.3 * inverse @ inverse.T), start)[1]
        print(
            f"scalar gain 0.3 in {what}: the peak torque of an instant differs by {_gap(base, other):.1f} N m"
        )


def _moved(row):
    body = inertia_of(row).seen_from(np.eye(3), np.array([0.4, -0.3, 0.3]))
    return np.array([body.mass, *body.first_moment, *body.rotational[np.tril_indices(3)]])


def _gap(one, other):
    count = min(len(one), len(other))
    return np.abs(one[:count] - other[:count]).max()


def other_steps(period=5e-3, gamma=30.0):
    """The geodesic step, the mirror step and Euler's at a long period."""
    law = natural(gamma)

    def stepped(kind):
        def step(q, v, v_r, a_r, estimate, period):
            P = METRIC.matrices(LINK + estimate)
            S = METRIC.dual(gamma * period * (FAMILY.regressor(q, v, v_r, a_r).T @ (v - v_r)))
            after = P - P @ S @ P if kind == "Euler" else np.linalg.inv(np.linalg.inv(P) + S)
            return METRIC.coordinates(after) - LINK

        return step

    for kind in ("geodesic", "mirror", "Euler"):
        row = measure(law, STARTS[USUAL], None if kind == "geodesic" else stepped(kind), period)
        print(
            f"{kind} at {1 / period:g} Hz, gamma {gamma:g}: "
            + "{:.3f} {:.4f} {:.1f} {:.1%} {:.2f}".format(*row)
        )
    row = measure(natural(100.0), STARTS[USUAL], None, period)
    print("geodesic at 200 Hz, gamma 100: {:.3f} {:.4f} {:.1f} {:.1%} {:.2f}".format(*row))


def cycle():
    """Torque and next estimates of both laws, by turns; microseconds, least of many."""
    rng = np.random.default_rng(0)
    q, v, v_r, a_r = rng.standard_normal((4, 6))
    best = {"constant": np.inf, "natural": np.inf}
    laws = {"constant": scalar(0.1), "natural": natural(10.0)}
    for _ in range(1000):
        for name, law in laws.items():
            begin = perf_counter()
            for _ in range(5):
                law.torque(q, v, v_r, a_r, STARTS[USUAL])
                law.next_parameters(q, v, v_r, a_r, STARTS[USUAL], 1e-3)
            best[name] = min(best[name], (perf_counter() - begin) / 5)
    ratio = best["natural"] / best["constant"]
    print(f"a cycle: {1e6 * best['constant']:.0f} and {1e6 * best['natural']:.0f} us, ratio {ratio:.2f}")


def draw(path, found):
    figure, axes = plt.subplots(1, 3, figsize=(13.0, 4.2), layout="constrained")
    colors = dict(zip(found, ("#1f5fbf", "#c8102e", "#c07f00"), strict=True))
    labels = ("rms of |q - q_d|, first 2 s [rad]", "rms of |q - q_d|, last 2 s [rad]", "share of time")
    titles = ("Rate of learning", "What is left", "The estimate is that of no body")
    for column, axis in zip((0, 1, 3), axes, strict=True):
        for name, rows in found.items():
            gains = DECADES / (10.0 if name == "constant, scalar" else 1.0)
            for j, start in enumerate(STARTS):
                label = name if start == USUAL else None
                axis.semilogx(
                    gains,
                    rows[:, j, column],
                    color=colors[name],
                    alpha=1.0 if start == USUAL else 0.35,
                    linewidth=2.0 if start == USUAL else 1.0,
                    marker="o",
                    markersize=3.5,
                    label=label,
                )
        axis.set(xlabel="gamma [1/J], or the scalar gain", ylabel=labels[axes.tolist().index(axis)])
        axis.set_title(titles[axes.tolist().index(axis)])
        axis.grid(alpha=0.3)
    axes[1].set_yscale("log")
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=120)
    print(path)


def main():
    cycle()
    bounds_and_frames()
    other_steps()
    found = gains_and_starts()
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    draw(directory / "natural_adaptation.png", found)


if __name__ == "__main__":
    main()
