"""
How curved is a robot?
======================

The kinetic energy makes a robot's postures a curved space. Its sectional curvature is a number for each plane
of two velocities: if it is positive, two throws that start beside each other in this plane come together, and
if it is negative they separate, compared with straight lines.

At random postures of six robots, a sweep tabulates the scalar curvature, and the most negative and most
positive sectional curvature with their planes. Their bounds are proven, by eigenvalues of the curvature
operator on bivectors. What is attained is the best that a maximization over planes found from four starts;
the ratio of both is in the table. The unit is 1/(kg m^2): times twice the kinetic energy, a curvature is the
square of the frequency with which neighbours swing about each other.
Run: python examples/how_curved_is_a_robot.py [directory] [--postures 100000]
"""

import argparse
from importlib.metadata import files
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import connections as cn
from connections import multibody as mb
from connections.plots.canvas import BLACK, BLUE, GREY, RED, new_figure
from connections.sweeps import Store, run_sweep, table_sweep

# %%
# Five arms, from 4 to 20 kg, and a quadruped that floats.

ROBOTS = {
    "UR5": "ur_description/urdf/ur5_robot.urdf",
    "Kinova": "kinova_description/robots/kinova.urdf",
    "xArm 7": "xarm_description/urdf/xarm7.urdf",
    "Talos' left arm": "talos_data/robots/talos_left_arm.urdf",
    "Z1": "z1_description/urdf/z1.urdf",
    "Solo, floating": "solo_description/robots/solo.urdf",
}
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("directory", nargs="?", default=".", type=Path)
parser.add_argument("--postures", default=200, type=int)
options = parser.parse_args()


def robot(name: str) -> mb.Model:
    (found,) = [file for file in files("example-robot-data") or () if str(file).endswith(ROBOTS[name])]
    return mb.from_urdf(Path(str(found.locate())).resolve(), floating_base="floating" in name)


models = {name: robot(name) for name in ROBOTS}

# %%
# The sweep. The command connections sweep table ROBOT.urdf --quantity curvatures --rows 100000 --output STORE
# does the same, on many processes.


def tabulated(name: str) -> dict[str, np.ndarray]:
    with TemporaryDirectory() as folder:
        sweep = table_sweep(models[name], ["curvatures"], options.postures, chunk=2000)
        run_sweep(sweep, Path(folder) / "curvatures.zarr", workers=0)
        return {key: array[:] for key, array in Store(Path(folder) / "curvatures.zarr").arrays.items()}


tables = {name: tabulated(name) for name in ROBOTS}

# %%
# The table: medians, and the extremes of all postures.

print(f"{options.postures} postures; 1/(kg m^2), medians and the most extreme one")
print(f"{'':16} nv |    scalar |   most negative plane  |   most positive plane  | bound / attained")
for name, table in tables.items():
    least, greatest = table["sectional_least"], table["sectional_greatest"]
    gaps = [np.median(table["sectional_lower"] / least), np.median(table["sectional_upper"] / greatest)]
    print(
        f"{name:16} {models[name].nv:2} | {np.median(table['scalar_curvature']):9.3g} "
        f"| {np.median(least):9.3g} ... {least.min():8.3g} "
        f"| {np.median(greatest):9.3g} ... {greatest.max():8.3g} "
        f"| {gaps[0]:.4f}, {gaps[1]:.4f}"
    )
    assert np.all(table["sectional_lower"] <= least) and np.all(greatest <= table["sectional_upper"])
    assert np.median(least) < 0.0 < np.median(greatest)

# %%
# Which joints turn in these planes: shares of the kinetic energy of the two velocities that span a plane.


def shares(name: str, which: str) -> np.ndarray:
    H, plane = mb.mass_matrix(models[name], tables[name]["q"]), tables[name][f"sectional_{which}_plane"]
    return np.einsum("mic,mij,mjc->mi", plane, H, plane).mean(axis=0) / 2.0


# %%
# Two neighbouring throws of the UR5: from the posture that has the most positive plane of all, in this plane,
# and in the same way for the most negative one. They are so fast that the curvature turns them by 60 degrees
# in a second, if it stays. The Jacobi field says how far neighbours are apart, and so does the difference of
# two throws.

arm, table = models["UR5"], tables["UR5"]
times, small, throws = np.linspace(0.0, 1.0, 41), 1e-5, {}
for which, choose in (("greatest", np.argmax), ("least", np.argmin)):
    at = int(choose(table[f"sectional_{which}"]))
    start, curvature = table["q"][at], table[f"sectional_{which}"][at]
    v, across = table[f"sectional_{which}_plane"][at].T
    v = v * np.pi / 3.0 / np.sqrt(abs(curvature))
    field = cn.jacobi_field(arm.connection, start, v, 0.0 * v, across, times)
    pair = cn.geodesic(arm.connection, start, np.stack([v - small * across, v + small * across]), times).q
    H = mb.mass_matrix(arm, field.q)
    throws[which] = predicted, seen = [
        np.sqrt(np.einsum("ti,tij,tj->t", eta, H, eta))
        for eta in (field.eta, (pair[1] - pair[0]) / (2.0 * small))
    ]
    kept = np.sinc(1.0 / 3.0) if curvature > 0.0 else np.sinh(np.pi / 3.0) / (np.pi / 3.0)
    print(
        f"UR5, {np.pi**2 / 18.0 / abs(curvature):.3f} J in a plane of curvature {curvature:.3g}: after 1 s, "
        f"{predicted[-1]:.3f} of the distance in flat space; {kept:.3f} if the curvature were constant"
    )
    np.testing.assert_allclose(predicted, seen, atol=1e-6)
assert throws["greatest"][0][-1] < 1.0 < throws["least"][0][-1]

# %%
# Pictures: how curvatures are distributed, which joints are in the planes, and the throws.

figure = new_figure(11.0, 7.2)
figure.set_layout_engine("constrained")
panels = figure.subplot_mosaic([["curvatures", "throws"], ["greatest", "least"]])
axes = panels["curvatures"]
for number, table in enumerate(tables.values()):
    for key, color in (("sectional_least", BLUE), ("sectional_greatest", RED)):
        axes.boxplot(
            table[key],
            positions=[number],
            orientation="horizontal",
            whis=(1.0, 99.0),
            showfliers=False,
            medianprops={"color": color},
            boxprops={"color": color},
            whiskerprops={"color": color},
            capprops={"color": color},
        )
axes.set_xscale("symlog", linthresh=1.0)
axes.set_yticks(range(len(ROBOTS)), ROBOTS)
axes.invert_yaxis()
axes.axvline(0.0, color=GREY, linewidth=0.8)
axes.set(xlabel="1/(kg m²)", title="Most negative and most positive sectional curvature")
axes = panels["throws"]
axes.plot(times, times, color=GREY, label="flat")
for which, color in (("greatest", RED), ("least", BLUE)):
    predicted, seen = throws[which]
    axes.plot(times, predicted, color=color, label=f"Jacobi field, {which} curvature")
    axes.plot(times[::4], seen[::4], "o", color=color, markersize=3)
axes.plot([], [], "o", color=BLACK, markersize=3, label="difference of two throws")
axes.set(
    xlabel="t [s]",
    ylabel="distance / difference of velocities [s]",
    title="Two neighbouring throws of the UR5",
)
axes.legend(fontsize=8)
for which, color in (("greatest", "Reds"), ("least", "Blues")):
    axes, most = panels[which], max(model.nv for model in models.values())
    image = np.full((len(ROBOTS), most), np.nan)
    for number, name in enumerate(ROBOTS):
        image[number, : models[name].nv] = shares(name, which)
    axes.imshow(image, aspect="auto", cmap=color, vmin=0.0, vmax=0.6)
    axes.set_yticks(range(len(ROBOTS)), ROBOTS)
    sign = {"greatest": "positive", "least": "negative"}[which]
    axes.set(xlabel="velocity, from the base", title=f"Shares of the energy in the most {sign} plane")
figure.savefig(options.directory / "how_curved_is_a_robot.png")
