"""
Derivatives of the dynamics against finite differences
======================================================

The robot is that of the validation in [B] Fig. 4: a branched one on a moving base with revolute, prismatic
and helical joints, all joint positions 0.3 (rad, m). The paper's text gives no dimensions, these are our own.
The differences step along the frame fields, q exp(h e_j), the base's pose included; one way they err with h,
central with h^2, until rounding takes over with eps / h. The same for five real robots.
Run: python examples/bos_validation.py [directory]
"""

import sys
import warnings
from importlib.metadata import files
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from connections import multibody as mb
from connections import plots

# %%
# The robot of [B], built joint by joint.

POSITION = 0.3  # rad or m, of every joint
STEPS = np.logspace(-10.0, 0.0, 31)
ROBOTS = {
    "UR5": ("ur_description/urdf/ur5_robot.urdf", False),
    "ANYmal": ("anymal_b_simple_description/robots/anymal.urdf", True),
    "Solo12": ("solo_description/robots/solo12.urdf", True),
    "TALOS": ("talos_data/robots/talos_reduced.urdf", True),
    "iCub": ("icub_description/robots/icub.urdf", True),
}


def branched_robot():
    """A base of 5 kg and 0.4 m by 0.3 m by 0.1 m, three branches of three links of 0.3 m and 1 kg.

    Branch k starts at the rim of the base, 120 k degrees from its x axis, and points outward. Its joints are
    revolute about y, prismatic along x and helical about x with 0.1 m/rad, in an order that turns with k.
    """
    mechanism = mb.Mechanism()
    mechanism.add_body("base", 5.0, inertia=5.0 / 12.0 * np.diag([0.1, 0.17, 0.25]))
    mechanism.add_joint("moving base", "world", "base", mb.Free())
    kinds = {
        "revolute": mb.Revolute((0, 1, 0)),
        "prismatic": mb.Prismatic((1, 0, 0)),
        "helical": mb.Helical((1, 0, 0), 0.1),
    }
    names = list(kinds)
    for branch in range(3):
        turn = Rotation.from_euler("z", 120.0 * branch, degrees=True).as_matrix()
        above, placement = "base", np.eye(4)
        placement[:3, :3], placement[:3, 3] = turn, turn @ [0.2, 0.0, 0.0]
        for link in range(3):
            name, kind = f"link {branch + 1}.{link + 1}", names[(branch + link) % 3]
            mechanism.add_body(name, 1.0, (0.15, 0.02, 0.01), np.diag([0.002, 0.008, 0.008]))
            mechanism.add_joint(f"{kind} {branch + 1}", above, name, kinds[kind], placement)
            above, placement = name, np.eye(4)
            placement[:3, 3] = 0.3, 0.0, 0.0
    return mechanism.build()


# %%
# A sweep over the step gives the observed order, from the steps where rounding does not matter yet, and the
# smallest error of all.


def motion(model, positions, rng):
    """q with these positions of the joints, the base anywhere; v and a at random."""
    q = model.random(rng)
    if positions is not None:
        q[7:] = positions
    return q, rng.standard_normal(model.nv), rng.standard_normal(model.nv)


def report(name, sweep):
    order = " and ".join(f"{value:.3f}" for value in sweep.orders)
    best = " and ".join(f"{value:.0e}" for value in sweep.best)
    print(f"{name:<16} observed orders {order}; smallest errors {best}, one way and central")
    assert np.abs(sweep.orders - [1.0, 2.0]).max() < 0.05 and sweep.best[1] < 1e-8


rng = np.random.default_rng(0)
model = branched_robot()
own = plots.StepSweep.of(model, *motion(model, POSITION, rng), STEPS)
report("branched robot", own)

# %%
# The same for five real robots, from their URDF files: an arm, two quadrupeds, two humanoids.

robots = {}
for name, (file, floating) in ROBOTS.items():
    (path,) = (f for f in files("example-robot-data") if str(f).endswith(f"/{file}"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mb.InertiaWarning)
        robot = mb.from_urdf(path.locate(), floating_base=floating)
    robots[name] = plots.StepSweep.of(robot, *motion(robot, None, rng), STEPS)
    report(name, robots[name])

# %%
# Left: the robot of [B]. Right: the real robots. Errors fall with the step until rounding stops them, at 1e-8
# one way and at 1e-11 central.

directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
plots.figure_convergence(own, robots).savefig(directory / "bos_validation.png")
print(directory / "bos_validation.png")
