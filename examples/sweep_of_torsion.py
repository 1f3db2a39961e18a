"""
Torsion swept over motions of a robot
=====================================

A robot tracks a reference, alone and with a load, under laws whose C has more or less torsion. Two workers
simulate gammas x initial states x robots, chunk by chunk, and write a Zarr store. Run again, the same call
finds all of it. Every C_gamma = C* + gamma (C_x - C*) is admissible ([W] (12), [E] (11)).
Run: python examples/sweep_of_torsion.py [directory]
"""

import sys
from importlib.metadata import files
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from connections import multibody as mb
from connections.control import with_payload
from connections.sweeps import Store, Tracking, contorsion_summary, contorsion_sweep, run_sweep

# %%
# An arm, and the same arm with a load of 5 kg at its end.

URDF = "robots/ur_description/urdf/ur5_robot.urdf"
ROBOTS = ("UR5", "UR5 with 5 kg")
TORSIONS = np.linspace(-20.0, 20.0, 9)
STARTS = 4
PANELS = {
    "rms_error": "rms error [rad]",
    "effort": "effort over that without torsion",
    "high_frequency": "error's motion above 1 Hz",
}


def robots() -> list[mb.Model]:
    (found,) = [file for file in files("example-robot-data") or () if str(file).endswith(URDF)]
    arm = mb.from_urdf(Path(str(found.locate())).resolve())
    return [arm, with_payload(arm, arm.body_names[-1], 5.0, (0.0, 0.0, 0.1))]


# %%
# The store is arrays by name, from which any figure can be made.


def draw(store: Store, path: Path) -> None:
    rows = contorsion_summary(store)
    figure = Figure(figsize=(11.0, 3.4), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    arrays = {name: store.arrays[name][:] for name in ("robot", "gamma", *PANELS)}
    for axes, (name, label) in zip(figure.subplots(1, 3), PANELS.items(), strict=True):
        for number, (robot, color) in enumerate(zip(ROBOTS, ("#1f5fbf", "#c8102e"), strict=True)):
            mine = arrays["robot"] == number
            values, torsion = (
                arrays[name][mine].reshape(STARTS, -1),
                arrays["gamma"][mine].reshape(STARTS, -1),
            )
            mean = np.array([row[name] for row in rows if row["robot"] == robot])
            if name == "effort":  # of the same initial state
                values = values / values[:, [len(TORSIONS) // 2]]
                mean = values.mean(axis=0)
            axes.plot(torsion.T, values.T, ".", color=color, alpha=0.25, markersize=4)
            axes.plot(TORSIONS, mean, color=color, label=robot)
        axes.set(xlabel="torsion gamma", ylabel=label)
    figure.axes[0].legend(frameon=False)
    figure.suptitle(
        f"{arrays['robot'].size} motions: points are initial states, lines their means", fontsize=10
    )
    figure.savefig(path)
    print(path)


# %%
# The sweep is a list of chunks; the second call computes nothing.


def main() -> None:
    sweep = contorsion_sweep(
        TORSIONS,
        STARTS,
        robots=robots(),
        names=ROBOTS,
        tracking=Tracking(horizon=2.0),
        chunk=36,
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "torsion.zarr"
        print(run_sweep(sweep, path, workers=2))
        print(run_sweep(sweep, path, workers=0))  # all of it is there
        store = Store(path)
        for row in contorsion_summary(store):
            if row["gamma"] in (-20.0, 0.0, 20.0):
                print(
                    f"{row['robot']:14} gamma {row['gamma']:5.0f}: rms error {row['rms_error']:.3f} rad, "
                    f"effort {row['effort']:6.0f}, above 1 Hz {100 * row['high_frequency']:.0f} %"
                )
        draw(store, Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "sweep_of_torsion.png")


if __name__ == "__main__":  # workers import this file
    main()
