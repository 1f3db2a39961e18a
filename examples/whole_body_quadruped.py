"""
ANYmal stands, sways and is pushed in MuJoCo, once per Coriolis matrix of its tasks
===================================================================================

A whole-body law holds the centre of mass and the trunk of ANYmal, each as a passive task with its own inertia
and Coriolis matrix, while friction, torques and contacts have bounds. The plant is MuJoCo, with noise of the
sensors and 2 ms of delay. The Coriolis matrix is a choice: without torsion (Christoffel), with that of the
factor (v x*) I, and with two contorsions that are stronger than the dampers of the tasks.
Run: python examples/whole_body_quadruped.py [directory] [seconds of standing, 30 for the long form]
"""

import sys
import time
import warnings
from importlib.metadata import files
from pathlib import Path

import numpy as np
from PIL import Image

from connections import control
from connections import multibody as mb
from connections.checks import ConvergenceError, IntegrationError
from connections.plots.canvas import BLACK, BLUE, GREEN, GREY, RED, new_figure

directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
STANDING = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0  # s
LONG = STANDING > 10.0
begin = time.process_time()

# %%
# The robot
# ---------
#
# ANYmal has 30 kg, twelve joints of 80 N m, and spheres for feet. It stands with bent knees, and its feet
# just touch the floor. The law takes their lowest points for contacts, with less friction than the floor has.

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

# %%
# The plant
# ---------
#
# Encoders have noise, and so has the estimate of where the trunk is and how it moves (standard deviations).
# The law runs at 500 Hz, and its torques act 2 ms late.

PERIOD = 2e-3  # s
plant = control.MuJoCoPlant(
    anymal,
    period=PERIOD,
    steps=4,
    delay=2e-3,
    limit=robot.limits.effort[6:],
    position_noise=np.repeat([2e-4, 1e-4], [6, 12]),  # rad, m; of the trunk, of the joints
    velocity_noise=np.repeat([5e-3, 1e-2], [6, 12]),  # rad/s, m/s
    fallen={"base": 0.3},
)

# %%
# The law
# -------
#
# On four feet, centre of mass and orientation of the trunk are all the freedom there is. Both tasks are
# critically damped at W = 12 rad/s where their inertia is that of the start: D = 2 W Lambda, K = W^2 Lambda.
# Velocities of feet fall at 30 / s: without that, a foot that a push has lifted keeps its velocity, because
# the law takes all four for contacts. Pushed with 0.6 m/s along a diagonal, it then does not come back.

W = 12.0  # rad/s
still = np.zeros(robot.nv)
upright = control.OrientationTask("base", damping=1.0).on(robot).at(start, still)
about = np.diag(upright.inertia)  # kg m^2
tasks = [
    control.CenterOfMassTask(damping=2.0 * W * mass, stiffness=W**2 * mass, name="balance"),
    control.OrientationTask("base", damping=2.0 * W * about, stiffness=W**2 * about, name="upright"),
]
center = mb.center_of_mass(robot, start)
goals = {"balance": center, "upright": upright.place}


class Law:
    """The whole-body law with one Coriolis matrix; if there is no command, it repeats the last one."""

    def __init__(self, coriolis, balance=None):
        self.controller = control.WholeBodyController(
            robot, tasks, contacts, coriolis=coriolis, contact_damping=30.0
        )
        control.prepare(self.controller, start, still, goals)  # no call in the loop waits for a compilation
        self.balance, self.last, self.missing, self.seen = balance, None, 0, []

    def __call__(self, t, q, v):
        """Torques of the joints."""
        self.seen.append(q)
        targets = goals if self.balance is None else goals | {"balance": self.balance(t)}
        try:
            self.last = self.controller.command(q, v, targets, guess=self.last)
        except (control.errors.InfeasibleError, ConvergenceError):
            self.missing += 1
        return self.last.tau[6:]


def motion(law, duration, speed=0.0, angle=0.0):
    """The motion under a push of an impulse of mass times speed, from 0.1 to 0.2 s; None if it fell."""
    force = mass * speed / 0.1 * np.array([np.cos(angle), np.sin(angle), 0.0])
    pushes = [control.Push("base", force, 0.1, 0.1)] if speed else []
    try:
        return plant.simulate(law, start, still, duration, pushes, seed=1)
    except (control.errors.FallenError, IntegrationError):  # or it tumbles faster than can be simulated
        return None


def off(q, place=start):
    """How far the trunk is from its start, or from another motion, mm, at all instants."""
    return 1e3 * np.linalg.norm(np.asarray(q)[:, :3] - place[..., :3], axis=1)


# %%
# The Coriolis matrices
# ---------------------
#
# How much a matrix C_t of a task differs from that without torsion has the unit of its damper,
# D / Lambda = 2 W = 24 / s: r is the rms of |Lambda^(-1/2) (C_t - C_t*) Lambda^(-1/2)| of both tasks along
# a motion after a push. The strong members have r = 4 W there.

pushed = motion(Law("christoffel"), 0.5, speed=0.3, angle=np.pi / 4)


def strength(coriolis):
    """r of a Coriolis matrix, 1/s."""
    squares = []
    for q, v in zip(pushed.q[50::20], pushed.v[50::20], strict=True):
        for task in tasks:
            here, bare = (task.on(robot).at(q, v, coriolis=c) for c in (coriolis, "christoffel"))
            difference = here.coriolis_matrix - bare.coriolis_matrix
            squares.append(2 * np.sum((here.root.T @ difference @ here.root) ** 2))
    return np.sqrt(np.mean(squares))


roots = np.sqrt(np.diag(mb.mass_matrix(robot, start)))
triples = np.array([(i, j, k) for i in range(18) for j in range(i + 1, 18) for k in range(j + 1, 18)])
beta = np.random.default_rng(0).standard_normal(len(triples)) * np.prod(roots[triples], axis=1)
gamma = 4.0 * W / strength("force_cross")
beta *= 4.0 * W / strength(robot.system(beta=beta).coriolis_matrix)
MEMBERS = {
    "christoffel": "christoffel",
    "force_cross": "force_cross",
    "torsion": robot.system(gamma=gamma).coriolis_matrix,
    "random": robot.system(beta=beta).coriolis_matrix,
}
print(f"{mass:.1f} kg; after a push of 0.3 m/s: r of force_cross {strength('force_cross'):.2f} / s,")
print(f"of torsion (gamma = {gamma:.0f}) and random {4 * W:.0f} / s; dampers 2 W = {2 * W:.0f} / s")
if not LONG:
    del MEMBERS["random"]

# %%
# Standing and swaying
# --------------------
#
# When it starts, the feet sink in; after that there is only noise. All members see the same noise, so what
# differs between their motions is due to the matrix. Then the centre of mass is to go to and fro, 80 mm to
# the left and 40 mm ahead, once a second.

standing = {name: motion(Law(c), STANDING).q for name, c in MEMBERS.items()}
SWAY, TURN = np.array([0.02, 0.04, 0.0]), 2.0 * np.pi  # m, rad/s


def to_and_fro(t):
    """The target of the centre of mass, at rest at t = 0."""
    cosine, sine = np.cos(TURN * t), np.sin(TURN * t)
    return control.Target(center + SWAY * (1.0 - cosine), SWAY * TURN * sine, SWAY * TURN**2 * cosine)


swaying = {name: motion(Law(c, to_and_fro), 4.0 if LONG else 1.0) for name, c in MEMBERS.items()}
print(f"\ntrunk off its start in {STANDING:g} s of standing; centre of mass off its sway [mm]")
print(f"{'':12}{'largest':>10}{'rms':>8}{'from christoffel':>18}{'sway, rms':>12}{'from christoffel':>18}")
sway_error = {}
for name, stood in standing.items():
    error, differs = off(stood), off(stood, standing["christoffel"]).max()
    row = f"{name:12}{error.max():10.3f}{np.sqrt(np.mean(error**2)):8.3f}{differs:18.1e}"
    assert error.max() < 2.0
    if (sway := swaying[name]) is None:
        print(row + f"{'fallen':>12}")
        continue
    gap = [mb.center_of_mass(robot, q) - to_and_fro(t).place for t, q in zip(sway.times, sway.q, strict=True)]
    sway_error[name] = 1e3 * np.linalg.norm(gap, axis=1)
    differs = off(sway.q, swaying["christoffel"].q).max()
    print(row + f"{np.sqrt(np.mean(sway_error[name] ** 2)):12.3f}{differs:18.1e}")

# %%
# Pushes
# ------
#
# An impulse of the mass times 0.3 m/s at the centre of the trunk, in eight directions: how far it is
# carried, and when it is back within 5 mm, after the beginning of the push.

ANGLES = np.arange(8) * np.pi / 4
BACK, NEAR = 5.0, 20.0  # mm


def recovered(found):
    """Whether the robot has not fallen, and its trunk is within 20 mm of its start at the end."""
    return found is not None and off(found.q)[-50:].max() < NEAR


pushes = {(n, a): motion(Law(c), 2.0 if LONG else 0.5, 0.3, a) for n, c in MEMBERS.items() for a in ANGLES}
print("\npushed with 0.3 m/s: how far the trunk goes [mm], back within 5 mm after [s]")
print(f"{'':12}" + "".join(f"{name:>16}" for name in MEMBERS))
for angle in ANGLES:
    row = f"{np.degrees(angle):8.0f} deg"
    for name in MEMBERS:
        found = pushes[name, angle]
        if recovered(found):
            away = off(found.q)
            last = PERIOD * (np.flatnonzero(away > BACK)[-1] + 1) - 0.1
            row += f"{away.max():10.2f}{last:6.2f}"
        else:
            row += f"{'fallen':>16}" if found is None else f"{'lost':>16}"
        assert recovered(found) or name not in ("christoffel", "force_cross")
    print(row)
gaps = [off(pushes["force_cross", a].q, pushes["christoffel", a].q).max() for a in ANGLES]
print(f"force_cross is never more than {max(gaps):.4f} mm from christoffel")

# %%
# How hard may it be? The largest speed of 0.3, 0.4, ..., 1.9 m/s from which it comes back, by bisection.

if LONG:
    print("\nlargest push from which it comes back within 2 s [m/s]")
    print(f"{'':12}" + "".join(f"{name:>16}" for name in MEMBERS))
    for angle in ANGLES:
        row = f"{np.degrees(angle):8.0f} deg"
        for c in MEMBERS.values():
            low, high = 2, 20  # tenths; from `high` on it does not
            while high - low > 1:
                middle = (low + high) // 2
                back = recovered(motion(Law(c), 2.0, 0.1 * middle, angle))
                low, high = (middle, high) if back else (low, middle)
            row += f"{0.1 * low if low > 2 else np.nan:16.1f}"
        print(row)

# %%
# A push of 1 m/s to the left, as the law saw it; for the figure and the film.

HARD, SIDE = 1.0, np.pi / 2
hard = {name: Law(c) for name, c in MEMBERS.items()}
print(f"\npushed with {HARD:g} m/s to the left:")
for name, law in hard.items():
    found = motion(law, 1.0, HARD, SIDE)
    how = "comes back" if recovered(found) else "fallen" if found is None else "lost"
    print(f"{name:12} {how:10}  {law.missing:4} of {len(law.seen)} cycles without a command")
print(f"CPU time: {time.process_time() - begin:.0f} s")

# %%
# The figure, and the film.

COLORS = dict(zip(MEMBERS, (BLACK, BLUE, RED, GREEN), strict=False))
figure = new_figure(9.0, 6.4)
((still_axes, sway_axes), (above, hard_axes)) = figure.subplots(2, 2)
for name, shade in COLORS.items():
    style = {"color": shade, "lw": 2.4 if name == "christoffel" else 1.2, "label": name}
    still_axes.plot(PERIOD * np.arange(len(standing[name])), off(standing[name]), **style)
    if name in sway_error:
        sway_axes.semilogy(swaying[name].times, sway_error[name], **style)
    for angle in ANGLES:
        if (found := pushes[name, angle]) is not None:
            above.plot(*(1e3 * (found.q[:, :2] - start[:2]).T), **style | {"label": None})
    seen = np.array(hard[name].seen)
    hard_axes.plot(PERIOD * np.arange(len(seen)), off(seen), **style)
still_axes.set(title="Standing", xlabel="time [s]", ylabel="trunk off its start [mm]", ylim=(0.0, None))
fell = [name for name in MEMBERS if name not in sway_error]
sway_axes.set(title="Swaying" + (f" (fallen: {', '.join(fell)})" if fell else ""), xlabel="time [s]")
sway_axes.set(ylabel="centre of mass off its target [mm]", ylim=(1e-2, None))
above.set(title="Pushed with 0.3 m/s, from above", xlabel="ahead [mm]", ylabel="to the left [mm]")
above.set_aspect("equal")
hard_axes.set(title="Pushed with 1 m/s to the left", xlabel="time [s]", ylabel="trunk off its start [mm]")
hard_axes.set(ylim=(0.0, 300.0))
for axes in (still_axes, sway_axes, above, hard_axes):
    axes.grid(alpha=0.3)
hard_axes.legend(frameon=False, fontsize=9)
figure.tight_layout()
figure.savefig(directory / "whole_body_quadruped.png")

film = new_figure(7.2, 3.4)
film.set_dpi(90)
film.subplots_adjust(left=0.0, right=1.0, bottom=0.0, top=0.9, wspace=0.0)
STEPS = range(40, 501, 20)  # control periods
limbs, clocks = {}, {}
shown = ("christoffel", "torsion")
for axes, name in zip(film.subplots(1, 2), shown, strict=True):
    axes.set(xlim=(-0.75, 0.75), ylim=(-0.25, 0.85), title=f"{name}, pushed with {HARD:g} m/s")
    axes.set_aspect("equal")
    axes.axis("off")
    axes.fill([-0.9, -0.5, 0.9, 0.5], [-0.15, 0.15, 0.15, -0.15], color=GREY, alpha=0.2)
    limbs[name] = [axes.plot([], [], color=BLACK, lw=3.0, solid_joinstyle="round")[0] for _ in range(5)]
    limbs[name][-1].set(color=COLORS[name], lw=5.0)
    clocks[name] = axes.text(-0.7, 0.72, "")


def seen_from_behind(points):
    """Points in the plane of the picture: to the right, and up; what is ahead lies higher."""
    x, y, z = np.transpose(points)
    return -y + 0.3 * x, z + 0.3 * x


frames = []
for step in STEPS:
    for name in shown:
        seen = hard[name].seen
        q = seen[min(step, len(seen) - 1)]
        hips = []
        for line, leg in zip(limbs[name], LEGS, strict=False):
            parts = "HIP", "THIGH", "SHANK", "FOOT"
            joints = [mb.frame_pose(robot, q, f"{leg}_{part}")[:3, 3] for part in parts]
            hips.append(joints[0])
            line.set_data(*seen_from_behind(joints))
        limbs[name][-1].set_data(*seen_from_behind([hips[k] for k in (0, 1, 3, 2, 0)]))
        clocks[name].set_text(f"{PERIOD * step:.2f} s" + (", fallen" if step >= len(seen) else ""))
    film.canvas.draw()
    frames.append(Image.fromarray(np.asarray(film.canvas.buffer_rgba())[..., :3]).quantize(32))
lasting = [120] * (len(frames) - 1) + [1500]  # ms: a third of the true speed
path = directory / "whole_body_quadruped.gif"
frames[0].save(path, save_all=True, append_images=frames[1:], duration=lasting, loop=0, optimize=True)
assert path.stat().st_size < 1_000_000
print(f"{path}: {len(frames)} frames; CPU time in all {time.process_time() - begin:.0f} s")
