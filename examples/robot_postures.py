"""
Mean, regression and clusters of a robot's postures
===================================================

Geomstats takes a robot as a space, and computes means, regression and clusters in it. The distance between
two postures is the length of the motion that joins them with the least kinetic energy; angles of the
shoulder, which moves the whole arm, count more than those of the wrist, and less where the arm is folded. The
connection is the robot's own, by recursion.
Run: python examples/robot_postures.py [directory]
"""

import sys
from pathlib import Path

import numpy as np

from connections import interop
from connections import multibody as mb
from connections.plots.canvas import BLACK, BLUE, GREEN, GREY, RED, new_figure

interop.import_geomstats()  # by itself, geomstats cannot be imported with NumPy 2.4 and later
from geomstats.learning.frechet_mean import FrechetMean
from geomstats.learning.geodesic_regression import GeodesicRegression
from geomstats.learning.kmeans import RiemannianKMeans
from geomstats.numerics.optimization import ScipyMinimize

# %%
# A planar arm of three links. Its connection is the robot's own, by recursion.

LENGTHS, MASSES = np.array([0.5, 0.4, 0.3]), (4.0, 3.0, 1.0)  # m, kg

arm = mb.Mechanism()
for k, (length, mass) in enumerate(zip(LENGTHS, MASSES, strict=True)):
    slender = np.diag([1e-3, mass * length**2 / 12, mass * length**2 / 12])
    arm.add_body(f"link{k}", mass=mass, center_of_mass=(length / 2, 0, 0), inertia=slender)
    at_the_end = np.eye(4)
    at_the_end[0, 3] = LENGTHS[k - 1] if k else 0.0
    arm.add_joint(
        f"joint{k}", f"link{k - 1}" if k else "world", f"link{k}", mb.Revolute((0, 0, 1)), at_the_end
    )
model = arm.build()
space = interop.to_geomstats(model.connection)
metric = space.metric
rng = np.random.default_rng(4)

# %%
# The mean of postures between a folded and a stretched arm is not the mean of the angles.

folded, stretched = np.array([1.0, -1.8, 1.5]), np.array([-0.2, 0.3, 0.2])
share = np.linspace(0.0, 1.0, 6)[:, None]
postures = folded + share * (stretched - folded) + rng.normal(0.0, 0.1, (6, 3))
mean = FrechetMean(space).set(epsilon=1e-8).fit(postures).estimate_
average = postures.mean(axis=0)
spread = [np.sum(metric.dist(center, postures) ** 2) for center in (mean, average)]
print(f"squared distances: {spread[0]:.4f} to the Frechet mean, {spread[1]:.4f} to the mean of the angles")
assert spread[0] < 0.999 * spread[1]

# %%
# A motion through noisy postures: geodesic regression, against a straight line in the angles.

times = np.linspace(-1.0, 1.0, 8)
start, velocity = np.array([0.4, -0.9, 0.7]), np.array([0.9, -0.5, 0.8])
measured = metric.exp(times[:, None] * velocity, start) + rng.normal(0.0, 0.03, (8, 3))
line = np.polynomial.polynomial.polyfit(times, measured, 1)


def slope_of_loss(parameters):
    """Gradient of the sum of squared distances over two, by first variation: -<<log of the datum, d exp>>."""
    steps = 1e-6 * np.concatenate([np.zeros((1, 6)), np.eye(6)])
    points, rates = np.split(parameters.reshape(-1) + steps, 2, axis=1)
    ends = metric.exp(times[:, None] * rates[:, None], np.repeat(points[:, None], len(times), axis=1))
    rest = metric.log(measured, ends[0])
    momenta = (metric.metric_matrix(ends[0]) @ rest[..., None])[..., 0]
    return -np.einsum("ti,pti->p", momenta, (ends[1:] - ends[0]) / 1e-6)


class WithGradient(ScipyMinimize):
    """SciPy's minimizer, which would otherwise take differences of the loss."""

    def minimize(self, fun, x0):
        """Minimum of `fun` from `x0`."""
        return super().minimize(fun, x0, fun_jac=slope_of_loss)


regression = GeodesicRegression(space, initialization=line, center_X=False)
regression.optimizer = WithGradient(method="BFGS", tol=1e-2)
regression.fit(times, measured)
moments = np.linspace(-1.0, 1.0, 13)
fitted = regression.predict(moments)
misses = [
    np.sum(metric.dist(curve, measured) ** 2)
    for curve in (regression.predict(times), line[0] + np.outer(times, line[1]))
]
print(f"squared misses: {misses[0]:.4f} of the geodesic, {misses[1]:.4f} of the straight line in angles")
assert misses[0] < 0.7 * misses[1]

# %%
# Two groups whose shoulders differ, with wrists everywhere. The wrist weighs little, which k-means by kinetic
# energy knows, and k-means by angles does not.

shoulder = np.repeat([0.4, 1.0], 8) + rng.normal(0.0, 0.08, 16)
groups = np.stack([shoulder, rng.normal(-0.6, 0.1, 16), rng.uniform(-1.0, 1.0, 16)], axis=1)
seeds = np.argsort(groups[:, 2])[[0, -1]]  # the two wrists farthest apart: the hardest start
kinetic = RiemannianKMeans(space, 2, init=groups[seeds]).fit(groups)
flat = groups[seeds].copy()
for _ in range(10):
    by_angles = np.argmin(np.linalg.norm(groups[:, None] - flat, axis=2), axis=1)
    flat = np.array([groups[by_angles == label].mean(axis=0) for label in (0, 1)])
truth = np.repeat([0, 1], 8)
right = [max(np.mean(labels == truth), np.mean(labels != truth)) for labels in (kinetic.labels_, by_angles)]
print(f"postures in their group: {right[0]:.0%} by kinetic energy, {right[1]:.0%} by angles")
assert right[0] == 1.0 and right[1] < 0.8


# %%
# The arm from above.


def draw(axes, q, color, width=1.2, alpha=0.35, label=None):
    """The arm at q, seen from above."""
    angles = np.cumsum(q)
    x, y = (np.append(0.0, np.cumsum(LENGTHS * function(angles))) for function in (np.cos, np.sin))
    axes.plot(x, y, "o-", color=color, lw=width, ms=1.5 * width, alpha=alpha, label=label)


figure = new_figure(10.5, 7.0)
panels = figure.subplot_mosaic([["mean", "motion"], ["groups", "motion"]])
left, last, middle = (panels[name] for name in ("mean", "groups", "motion"))
for q in postures:
    draw(left, q, GREY)
draw(left, average, RED, 3.0, 0.9, "mean of the angles")
draw(left, mean, BLUE, 3.0, 0.9, "Frechet mean, kinetic energy")
left.set_title("Mean of six postures")
for moment, q in zip(moments, fitted, strict=True):
    draw(middle, q, BLUE, 1.6, 0.9, "geodesic regression" if moment == -1.0 else None)
for number, q in enumerate(measured):
    draw(middle, q, RED, 1.2, 0.45, "measured" if number == 0 else None)
middle.set_title("Motion through eight postures")
for q, label in zip(groups, kinetic.labels_, strict=True):
    draw(last, q, (BLUE, GREEN)[label])
for center, color in zip(kinetic.cluster_centers_, (BLUE, GREEN), strict=True):
    draw(last, center, color, 3.0, 0.9, "k-means, kinetic energy" if color == BLUE else None)
for number, center in enumerate(flat):
    draw(last, center, BLACK, 2.0, 0.6, "k-means, angles" if number == 0 else None)
last.set_title(f"Two groups: {right[0]:.0%} and {right[1]:.0%} recovered")
for axes in (left, middle, last):
    axes.set_aspect("equal")
    axes.set(xlabel="x [m]", ylabel="y [m]", xlim=(-0.05, 1.3), ylim=(-0.3, 0.95))
    axes.legend(fontsize=8, loc="lower left")
middle.set_ylim(-1.1, 0.95)
figure.tight_layout()
figure.savefig(Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "robot_postures.png")
