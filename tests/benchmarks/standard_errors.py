"""Standard errors of `control.identify` beside the spread of many noisy recordings, by rate of the samples.

An arm of three joints moves for 8 s; noise is white, before the filter of 8 Hz. Of each base parameter: root
mean square of the reported error over the standard deviation of the estimate, and the bias in standard
deviations. Run: python tests/benchmarks/standard_errors.py [recordings]
"""

import sys

import numpy as np

from connections import control
from connections import multibody as mb

RATES = (100.0, 500.0, 1000.0)  # samples per second
NOISES = {"torques": (0.0, 0.0, 0.05), "all": (1e-5, 1e-3, 0.05)}  # rad, rad/s, N m


def three_joints():
    """About one vertical axis and two horizontal ones, 0.3 m apart."""
    robot, above = mb.Mechanism(), np.eye(4)
    above[2, 3] = 0.3
    places, axes = (None, above, above), ((0, 0, 1), (0, 1, 0), (0, 1, 0))
    centres = (0.0, 0.05, 0.1), (0.05, 0.0, 0.2), (0.02, 0.03, 0.15)
    for k, (place, axis, centre) in enumerate(zip(places, axes, centres, strict=True)):
        robot.add_body(f"body{k}", 2.0 - 0.5 * k, centre, 0.02 * np.diag([1.0, 1.2, 1.5]))
        parent = f"body{k - 1}" if k else "world"
        robot.add_joint(f"joint{k}", parent, f"body{k}", mb.Revolute(axis), place)
    return robot.build()


def motion(rate, n, seconds=8.0):
    """times, q, v and a of five sines in each joint."""
    rng, t = np.random.default_rng(5), np.arange(0.0, seconds, 1.0 / rate)
    frequency, phase = 2.0 * np.pi * np.arange(1, 6) / seconds, rng.uniform(0.0, 6.0, (n, 5))
    size, angle = rng.normal(scale=0.3, size=(n, 5)), t[:, None, None] * frequency + phase
    waves = np.sin(angle), frequency * np.cos(angle), -(frequency**2) * np.sin(angle)
    return t, *(np.sum(size * wave, axis=-1) for wave in waves)


def measured(robot, rate, noise, recordings):
    """Ratios (rank,) and biases (rank,)."""
    t, q, v, a = motion(rate, robot.nv)
    exact, rng = (q, v, mb.inverse_dynamics(robot, q, v, a)), np.random.default_rng(1)
    pi, errors, claimed = mb.inertial_parameters(robot).ravel(), [], []
    for _ in range(recordings):
        data = [x + size * rng.standard_normal(x.shape) for x, size in zip(exact, noise, strict=True)]
        found = control.identify(robot, *data, t, cutoff=8.0, consistent=False)
        errors.append(found.base - found.combinations @ pi)
        claimed.append(found.standard_errors**2)
    spread = np.std(errors, axis=0, ddof=1)
    return np.sqrt(np.mean(claimed, axis=0)) / spread, np.mean(errors, axis=0) / spread


def main():
    """Print a row of Markdown for each noise and rate."""
    recordings = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    robot = three_joints()
    print("| noise of | Hz | ratio | of each parameter | rms bias |")
    print("|---|---:|---:|---|---:|")
    for name, noise in NOISES.items():
        for rate in RATES:
            ratio, bias = measured(robot, rate, noise, recordings)
            mean, far = np.exp(np.mean(np.log(ratio))), np.sqrt(np.mean(bias**2))
            row = f"{mean:.2f} | {ratio.min():.2f} to {ratio.max():.2f} | {far:.2f} |"
            print(f"| {name} | {rate:g} | {row}", flush=True)


if __name__ == "__main__":
    main()
