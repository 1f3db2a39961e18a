"""
ANYmal squats, lifts a foot and trots in place in MuJoCo, once per Coriolis matrix of its tasks
===============================================================================================

Feet that leave the floor leave the whole-body program, too: `command(..., lifted=[...])`, and tasks of their
own move them. The Coriolis matrix of the tasks is a choice: without torsion (Christoffel), with a contorsion
of random numbers, or with what is not skew, so that what passivity buys is visible.
Run: python examples/whole_body_steps.py [directory]
"""

import sys
import time
import warnings
from importlib.metadata import files
from pathlib import Path

import numpy as np

from connections import control
from connections import multibody as mb
from connections.checks import ConvergenceError, IntegrationError
from connections.plots.canvas import BLACK, BLUE, GREEN, RED, new_figure

directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
begin = time.process_time()

# %%
# The robot and the plant
# -----------------------
#
# ANYmal on four spheres, at 500 Hz, with noise and 2 ms of delay, as in `whole_body_quadruped.py`.

LEGS = "LF", "RF", "LH", "RH"
RADIUS, BALL, FLOOR, ASSUMED = 0.031, (0.0, 0.0, 0.02325), 0.7, 0.6  # m, m, frictions

(urdf,) = [
    f.locate()
    for f in files("example-robot-data")
    if str(f).endswith("b_simple_description/robots/anymal.urdf")
]
with warnings.catch_warnings():
    warnings.simplefilter("ignore", mb.InertiaWarning)  # of a link without a mass
    robot = mb.from_urdf(urdf, floating_base=True)
mass = mb.total_mass(robot)

start = robot.neutral()
for leg in LEGS:
    bend = 0.6 if leg[1] == "F" else -0.6
    start[robot.configuration_slice(f"{leg}_HFE")] = bend
    start[robot.configuration_slice(f"{leg}_KFE")] = -2.0 * bend


def foot(q, leg):
    """The pose of the foot's frame, and the lowest point of its sphere, in the world."""
    pose = mb.frame_pose(robot, q, f"{leg}_FOOT")
    return pose, pose[:3, :3] @ BALL + pose[:3, 3] - [0.0, 0.0, RADIUS]


start[2] -= min(foot(start, leg)[1][2] for leg in LEGS)
contacts = []
for leg in LEGS:
    pose, lowest = foot(start, leg)
    contacts.append(
        control.PointContact(f"{leg}_FOOT", ASSUMED, tuple(pose[:3, :3].T @ (lowest - pose[:3, 3])))
    )
spheres = [control.SphereShape(f"{leg}_FOOT", RADIUS, BALL, FLOOR) for leg in LEGS]
anymal = control.MuJoCoRobot.of(robot, spheres, floor=True)

PERIOD = 2e-3  # s
plant = control.MuJoCoPlant(
    anymal,
    period=PERIOD,
    steps=4,
    delay=2e-3,
    limit=robot.limits.effort[6:],
    position_noise=np.repeat([2e-4, 1e-4], [6, 12]),  # rad, m; of the trunk, of the joints
    velocity_noise=np.repeat([5e-3, 1e-2], [6, 12]),  # rad/s, m/s
    fallen={"base": 0.25},
)

# %%
# The law
# -------
#
# Centre of mass, trunk and feet that swing, critically damped at 12 and 30 rad/s.

still = np.zeros(robot.nv)


def gains(task, W, **more):
    """D = 2 W Lambda and K = W^2 Lambda with the diagonal of the inertia at the start."""
    inertia = np.diag(task(damping=1.0, **more).on(robot).at(start, still).inertia)
    return task(damping=2.0 * W * inertia, stiffness=W**2 * inertia, **more)


tasks = [
    gains(control.CenterOfMassTask, 12.0, name="balance"),
    gains(control.OrientationTask, 12.0, frame="base", name="upright"),
    *(
        gains(control.PointTask, 30.0, frame=c.frame, point=c.point, name=leg)
        for leg, c in zip(LEGS, contacts, strict=True)
    ),
]
REST = {task.name: task.on(robot).at(start, still).place for task in tasks}
center = REST["balance"]


class Law:
    """The whole-body law along a script (t, q, v) -> targets, legs that swing."""

    def __init__(self, coriolis, script):
        make = control.WholeBodyController
        self.controller = make(robot, tasks, contacts, coriolis=coriolis, contact_damping=30.0, give_way=True)
        control.prepare(self.controller, start, still, REST)  # no call in the loop waits for a compilation
        self.script, self.last = script, None

    def __call__(self, t, q, v):
        """Torques of the joints; those of the period before if there is no command."""
        targets, swinging = self.script(t, q, v)
        lifted = tuple(f"{leg}_FOOT" for leg in swinging)
        try:
            self.last = self.controller.command(q, v, REST | targets, guess=self.last, lifted=lifted)
        except ConvergenceError:
            pass
        return self.last.tau[6:]


# %%
# The scripts
# -----------
#
# Squatting: 10 cm down and back, once a second. Lifting a foot: the weight moves 6 cm back and 6 cm to the
# side, away from it, and 0.6 s later it rises by 6 cm. Trotting in place: two feet on a diagonal swing for
# 0.25 s, then the others; each steps to where it stood at first, moved by how far the centre of mass is off,
# and by (z / g)^(1/2) times its velocity.


def squat(t, q, v):
    w, down = 2.0 * np.pi, np.array([0.0, 0.0, -0.05])
    s, c = np.sin(w * t), np.cos(w * t)
    return {"balance": control.Target(center + down * (1.0 - c), down * w * s, down * w**2 * c)}, ()


def ramp(t, duration):
    """A step from 0 to 1 with its first two derivatives."""
    x = min(max(t / duration, 0.0), 1.0)
    y = x * (1.0 - x)
    return x**3 * (10 - 15 * x + 6 * x**2), 30 * y**2 / duration, 60 * y * (1 - 2 * x) / duration**2


def lift(t, q, v):
    away = -0.06 * np.sign([*REST["LF"][:2] - center[:2], 0.0])
    s, ds, dds = ramp(t, 0.6)
    targets = {"balance": control.Target(center + away * s, away * ds, away * dds)}
    if t < 0.6:
        return targets, ()
    s, ds, dds = ramp(t - 0.6, 0.4)
    rise = np.array([0.0, 0.0, 0.06])
    return targets | {"LF": control.Target(REST["LF"] + rise * s, rise * ds, rise * dds)}, ("LF",)


SWING, HEIGHT = 0.25, 0.05  # s, m
PAIRS = ("LF", "RH"), ("RF", "LH")


def trot(t, q, v):
    if t < 0.3:
        return {}, ()
    count, phase = divmod((t - 0.3) / SWING, 1.0)
    pair, w = PAIRS[int(count) % 2], np.pi / SWING
    com = mb.center_of_mass(robot, q)
    speed = mb.center_of_mass_jacobian(robot, q) @ v
    step = (com - center + np.sqrt(com[2] / 9.81) * speed) * [1.0, 1.0, 0.0]
    targets = {}
    for leg in pair:
        place = (
            REST[leg] + step * ramp(phase, 0.8)[0] + [0.0, 0.0, HEIGHT * np.sin(np.pi * phase) ** 2 - 0.002]
        )
        rise = [0.0, 0.0, HEIGHT * w * np.sin(2.0 * np.pi * phase)]
        more = [0.0, 0.0, 2.0 * HEIGHT * w**2 * np.cos(2.0 * np.pi * phase)]
        targets[leg] = control.Target(place, rise, more)
    return targets, pair


# %%
# The choices of C
# ----------------
#
# r is the rms of |Lambda^(-1/2) (C_t - C_t*) Lambda^(-1/2)| of both tasks of the trunk, while it trots. The
# strong ones have twice the damper 2 W = 24 / s: one skew, and one that is not, C* w + kappa (C*(v)^T w -
# C*(w)^T v), which has the same C v. With kappa = 1/2 that is a plausible slip, Hdot - d(v^T H)/dq / 2.

n, roots = robot.nv, np.sqrt(np.diag(mb.mass_matrix(robot, start)))
triples = np.array([(i, j, k) for i in range(n) for j in range(i + 1, n) for k in range(j + 1, n)])
beta = np.random.default_rng(0).standard_normal(len(triples)) * np.prod(roots[triples], axis=1)


def contorsion(size):
    """C* and a contorsion of random numbers."""
    return robot.system(beta=size * beta).coriolis_matrix


def not_skew(kappa):
    """C* and what is not skew."""

    def matrix(q, v):
        C, rows = mb.coriolis_matrix(robot, q, v), np.broadcast_to(q, (n, robot.nq))
        back = mb.coriolis_transpose_product(robot, rows, np.eye(n), np.broadcast_to(v, (n, n)))
        return C + kappa * (C.T - back.T)

    return matrix


def strength(coriolis):
    """r, 1/s."""
    squares = []
    for q, v in zip(trotted.q[200::20], trotted.v[200::20], strict=True):
        for task in tasks[:2]:
            here, bare = (task.on(robot).at(q, v, coriolis=c) for c in (coriolis, "christoffel"))
            difference = here.coriolis_matrix - bare.coriolis_matrix
            squares.append(2 * np.sum((here.root.T @ difference @ here.root) ** 2))
    return np.sqrt(np.mean(squares))


def motion(coriolis, script, duration):
    """The motion, or until the fall, and whether it fell; nothing if it diverges."""
    try:
        return plant.simulate(Law(coriolis, script), start, still, duration, seed=1), False
    except control.errors.FallenError as error:
        return error.motion, True
    except IntegrationError:
        return None, True


trotted, _ = motion("christoffel", trot, 2.0)
slip = strength(not_skew(0.5))
print(f"r of 'not skew, 1/2' {slip:.2f} / s, of force_cross {strength('force_cross'):.2f} / s")
LAWS = {
    "Christoffel": "christoffel",
    "force_cross": "force_cross",
    "not skew, 1/2": not_skew(0.5),
    "contorsion": contorsion(48.0 / strength(contorsion(1.0))),
    "not skew": not_skew(24.0 / slip),
}

# %%
# What happens
# ------------

SCRIPTS = {"squatting": (squat, 2.0), "lifting a foot": (lift, 2.0), "trotting": (trot, 4.0)}
motions, errors = {}, {}
print(f"\ncentre of mass off its target, largest, rms [mm]\n{'':14}" + "".join(f"{x:>18}" for x in SCRIPTS))
for name, coriolis in LAWS.items():
    row = ""
    for title, (script, duration) in SCRIPTS.items():
        found, fell = motions[name, title] = motion(coriolis, script, duration)
        assert not fell or name in ("contorsion", "not skew")
        if found is None:
            row += f"{'diverges':>18}"
            continue
        goals = [
            script(t, *state)[0].get("balance", center)
            for t, *state in zip(found.times, found.q, found.v, strict=True)
        ]
        places = [goal.place if isinstance(goal, control.Target) else goal for goal in goals]
        error = errors[name, title] = 1e3 * np.linalg.norm(mb.center_of_mass(robot, found.q) - places, axis=1)
        text = (
            f"falls, {found.times[-1]:.2f} s"
            if fell
            else f"{error.max():.2f}, {np.sqrt(np.mean(error**2)):.2f}"
        )
        row += f"{text:>18}"
    print(f"{name:14}{row}")
best = motions["Christoffel", "trotting"][0]
heights = 1e3 * np.array([[foot(q, leg)[1][2] for leg in LEGS] for q in best.q])
print(f"trotting with Christoffel: feet rise by {heights.max(axis=0).min():.0f} mm")
assert heights.max(axis=0).min() > 40.0
print(f"CPU time: {time.process_time() - begin:.0f} s")

figure = new_figure(10.0, 3.4)
COLORS = dict(zip(LAWS, (BLACK, BLUE, GREEN, "#e08a00", RED), strict=True))
for title, axes in zip(SCRIPTS, figure.subplots(1, 3), strict=True):
    for name, shade in COLORS.items():
        if (name, title) in errors:
            times = motions[name, title][0].times
            axes.semilogy(
                times, errors[name, title], color=shade, lw=2.2 if name == "Christoffel" else 1.1, label=name
            )
    axes.set(
        title=title.capitalize(),
        xlabel="time [s]",
        ylabel="centre of mass off its target [mm]",
        ylim=(1e-2, 1e3),
    )
    axes.grid(alpha=0.3)
axes.legend(frameon=False, fontsize=8)
figure.tight_layout()
figure.savefig(directory / "whole_body_steps.png")
print(directory / "whole_body_steps.png")
