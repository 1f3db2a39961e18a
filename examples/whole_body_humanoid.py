"""
Talos stands, squats, swings a foot and jumps in MuJoCo: passive tasks and inverse dynamics
==========================================================================================

The tasks of a published comparison of inverse dynamics with passivity-based whole-body control, arXiv
2507.18502, on Talos in MuJoCo: swinging a foot, squatting, squatting with a weight that the law does not
know, a small jump; and standing and being pushed. Once with passive tasks for each choice of their Coriolis
matrix, also one that is not skew, and once with inverse dynamics.
Run: python examples/whole_body_humanoid.py [directory] [seconds of standing, 30 for the long form]
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
STANDING = float(sys.argv[2]) if len(sys.argv) > 2 else 0.5  # s
LONG = STANDING > 10.0
begin = time.process_time()

# %%
# The robot and the plant
# -----------------------
#
# Talos has 90 kg and 32 joints. Its soles are boxes of 0.2 by 0.12 m. The law runs at 500 Hz, its torques
# come 2 ms late, and what it knows has noise.

PERIOD, HALF, FLOOR, ASSUMED, LOAD = 2e-3, (0.1, 0.06), 0.8, 0.6, 10.0  # s, m, frictions, kg
SOLES = LEFT, RIGHT = "left_sole_link", "right_sole_link"
(urdf,) = [f.locate() for f in files("example-robot-data") if str(f).endswith("robots/talos_reduced.urdf")]
with warnings.catch_warnings():
    warnings.simplefilter("ignore", mb.InertiaWarning)
    robot = mb.from_urdf(urdf, floating_base=True)
mass, n = mb.total_mass(robot), robot.nv
BENT = {"3_joint": -0.5, "4_joint": 1.0, "5_joint": -0.5}
start, still = robot.neutral(), np.zeros(n)
start[7:] = np.clip(start[7:], robot.limits.lower[7:] + 0.3, robot.limits.upper[7:] - 0.3)
for name in robot.joint_names[1:]:
    if name.startswith("leg_"):
        start[robot.configuration_slice(name)] = BENT.get(name[-7:], 0.0)
start[2] = -mb.frame_pose(robot, start, LEFT)[2, 3]
above = np.eye(4)
above[2, 3] = 0.02
boxes = [control.BoxShape(sole, (*HALF, 0.02), above, FLOOR) for sole in SOLES]
contacts = [control.SurfaceContact(sole, ASSUMED, HALF) for sole in SOLES]
NOISE = {
    "position_noise": np.repeat([2e-4, 1e-4], [6, 32]),  # rad, m
    "velocity_noise": np.repeat([5e-3, 1e-2], [6, 32]),  # rad/s, m/s
}


def plant(load):
    """MuJoCo's Talos, with a load at the torso, kg."""
    loaded = control.with_payload(robot, "torso_2_link", load, (0.1, 0.0, 0.1)) if load else robot
    built, limit = control.MuJoCoRobot.of(loaded, boxes, floor=True), robot.limits.effort[6:]
    return control.MuJoCoPlant(built, PERIOD, 4, 2e-3, limit, fallen={"base_link": 0.55}, **NOISE)


plants = {load: plant(load) for load in (0.0, LOAD)}

# %%
# The laws
# --------
#
# Centre of mass, torso and, while it swings, the right foot come first, the posture after them. All are
# critically damped at W = 10 rad/s where their inertia is that of the start. In the air no force acts, so
# that the posture is all there is to control. Inverse dynamics asks for e'' + 2 W e' + W^2 e = 0 instead,
# whatever the inertia is.

W = 10.0  # rad/s


def gains(task, **more):
    """D = 2 W Lambda and K = W^2 Lambda with the diagonal of the inertia at the start."""
    inertia = np.diag(task(damping=1.0, **more).on(robot).at(start, still).inertia)
    return task(damping=2.0 * W * inertia, stiffness=W**2 * inertia, **more)


joints = np.diag(mb.mass_matrix(robot, start))[6:]
TASKS = [
    gains(control.CenterOfMassTask, name="balance"),
    gains(control.OrientationTask, frame="torso_2_link", name="upright"),
    gains(control.PoseTask, frame=RIGHT, name="foot"),
    control.PostureTask(damping=2.0 * W * joints, stiffness=W**2 * joints, priority=1, name="posture"),
]
REST = {task.name: task.on(robot).at(start, still).place for task in TASKS}
center, foot = REST["balance"], REST["foot"]


class Law:
    """A whole-body law along a script t -> targets, lifted frames."""

    def __init__(self, name, script):
        self.coriolis, self.script, self.last, self.loose = LAWS[name], script, None, 0
        make, more = control.WholeBodyController, {"coriolis": self.coriolis or "christoffel"}
        more["limit_time"] = None
        self.ground = make(robot, TASKS, contacts, contact_damping=20.0, give_way=True, **more)
        self.air = make(robot, TASKS[3:], **more)
        for law in (self.ground, self.air):  # no call in the loop waits for a compilation
            control.prepare(law, start, still, {task.name: REST[task.name] for task in law.tasks})

    def __call__(self, t, q, v):
        """Torques of the joints; those of the period before if there is no command."""
        targets, lifted = self.script(t)
        law = self.ground
        if len(lifted) == 2:
            law, lifted = self.air, ()
        given = {task.name: targets.get(task.name, REST[task.name]) for task in law.tasks}
        if self.coriolis is None:
            given = {task.name: decoupled(task, q, v, given[task.name]) for task in law.tasks}
        try:
            self.last = law.command(q, v, given, guess=self.last, lifted=lifted)
            self.loose += not self.last.holds
        except (control.errors.InfeasibleError, ConvergenceError):
            self.loose += 1
        return self.last.tau[6:]


def decoupled(task, q, v, target):
    """The target with the acceleration with which the law of the task becomes e'' + 2 W e' + W^2 e = 0."""
    target = target if isinstance(target, control.Target) else control.Target(target)
    at = task.on(robot).at(q, v, target)
    more = at.error.a_d - 2.0 * W * at.error.difference - W**2 * at.error.e - at.wanted
    if task.name in ("upright", "foot"):  # the target's axes; both are nearly at rest in the body's
        X = target.place[:3, :3].T @ at.place[:3, :3]
        more = (more.reshape(-1, 3) @ X.T).ravel()
    return control.Target(
        target.place, target.velocity, more + (0.0 if target.acceleration is None else target.acceleration)
    )


# %%
# The scripts
# -----------


def rest(t):
    """Nothing moves."""
    return {}, ()


def squat(t):
    """The centre of mass goes 10 cm down and comes back, in 1.5 s."""
    w, down = 2.0 * np.pi / 1.5, np.array([0.0, 0.0, -0.05])
    sine, cosine = np.sin(w * t), np.cos(w * t)
    moving = control.Target(center + down * (1.0 - cosine), down * w * sine, down * w**2 * cosine)
    return {"balance": moving}, ()


def smooth(x, duration):
    """A step from 0 to 1 in a duration, s, with its first two derivatives."""
    x = min(max(x / duration, 0.0), 1.0)
    y = x * (1.0 - x)
    first, second = 30.0 * y**2 / duration, 60.0 * y * (1.0 - 2.0 * x) / duration**2
    return x**3 * (10.0 - 15.0 * x + 6.0 * x**2), first, second


over = np.append(mb.frame_pose(robot, start, LEFT)[:2, 3], center[2]) - [0.0, 0.01, 0.0] - center
SHIFT, LIFT = 1.2, 0.4  # s: until the weight is on the left foot 0.2 s before the right one rises, in 0.4 s


def swing(t):
    """The weight moves over the left foot; then the right one goes 5 cm up, and 10 cm to and fro."""
    targets = {
        "balance": control.Target(
            center + over * smooth(t, SHIFT)[0], *(over * x for x in smooth(t, SHIFT)[1:])
        )
    }
    t -= SHIFT + 0.2
    if t < 0.0:
        return targets, ()
    height, rise, more = (0.05 * x for x in smooth(t, LIFT))
    w, place = 2.0 * np.pi / 1.2, foot.copy()
    angle = w * max(t - LIFT, 0.0)
    place[:3, 3] += [0.05 * (1.0 - np.cos(angle)), 0.0, height]
    moving = 0.05 * (t > LIFT)
    velocity = np.array([0.0, 0.0, 0.0, moving * w * np.sin(angle), 0.0, rise])
    acceleration = np.array([0.0, 0.0, 0.0, moving * w**2 * np.cos(angle), 0.0, more])
    return targets | {"foot": control.Target(place, velocity, acceleration)}, (RIGHT,)


DOWN, DEEP, LEAVE = 0.6, 0.12, 0.7  # s, m, m/s
THRUST = 2.0 * DEEP / LEAVE  # s, so that it leaves the floor at its first height
FLIGHT = 2.0 * LEAVE / 9.81  # s


def jump(t):
    """Down in 0.6 s, up until the centre of mass has 0.7 m/s, in the air without contacts, and down again."""
    z = np.array([0.0, 0.0, 1.0])
    if t < DOWN:
        return {
            "balance": control.Target(
                center - DEEP * smooth(t, DOWN)[0] * z, *(-DEEP * x * z for x in smooth(t, DOWN)[1:])
            )
        }, ()
    x = (t - DOWN) / THRUST
    if x < 1.0:  # acceleration that rises and falls as a parabola
        rise, rate = LEAVE * THRUST * (x**3 - 0.5 * x**4) - DEEP, 6.0 * LEAVE * x * (1.0 - x) / THRUST
        return {
            "balance": control.Target(center + rise * z, LEAVE * (3.0 - 2.0 * x) * x**2 * z, rate * z)
        }, ()
    return {}, SOLES if t < DOWN + THRUST + FLIGHT else ()


# %%
# What is measured
# ----------------


def run(law, duration, load=0.0, pushes=()):
    """The motion, or until the fall, or None if it diverges; and whether it fell."""
    try:
        return plants[load].simulate(law, start, still, duration, pushes, seed=1), False
    except control.errors.FallenError as error:
        return error.motion, True
    except IntegrationError:
        return None, True


def off(motion, script):
    """How far the centre of mass is from its target, mm."""
    goals = [script(t)[0].get("balance", center) for t in motion.times]
    places = [goal.place if isinstance(goal, control.Target) else goal for goal in goals]
    return 1e3 * np.linalg.norm(mb.center_of_mass(robot, motion.q) - places, axis=1)


def lowest(motion):
    """The height of the lower sole, mm."""
    return 1e3 * np.min([mb.frame_pose(robot, motion.q, sole)[:, 2, 3] for sole in SOLES], axis=0)


# %%
# The choices of C. The strong ones differ from that without torsion by r = 4 W, the rms of
# |Lambda^(-1/2) (C_t - C_t*) Lambda^(-1/2)| along the swing of the foot: one that is skew, and one that is
# not, C* w + kappa (C*(v)^T w - C*(w)^T v), which has the same C v. With kappa = 1/2 that is a plausible
# slip, Hdot - d(v^T H)/dq / 2.

D, roots, rng = np.zeros((n, n, n)), np.sqrt(np.diag(mb.mass_matrix(robot, start))), np.random.default_rng(0)
for i in range(n):
    for j in range(i + 1, n):
        for k in range(j + 1, n):
            size = rng.standard_normal() * roots[i] * roots[j] * roots[k]
            D[j, i, k] = D[i, k, j] = D[k, j, i] = size
            D[i, j, k] = D[k, i, j] = D[j, k, i] = -size


def contorsion(size):
    """C* and a contorsion of random numbers, skew in all indices."""
    return lambda q, v: mb.coriolis_matrix(robot, q, v) + size * np.tensordot(v, D, 1)


def not_skew(kappa):
    """C* and what is not skew."""

    def matrix(q, v):
        C, rows = mb.coriolis_matrix(robot, q, v), np.broadcast_to(q, (n, robot.nq))
        back = mb.coriolis_transpose_product(robot, rows, np.eye(n), np.broadcast_to(v, (n, n)))
        return C + kappa * (C.T - back.T)

    return matrix


def strength(coriolis):
    """r of a Coriolis matrix along the swing of the foot, 1/s."""
    squares = []
    for q, v in zip(swung.q[100::100], swung.v[100::100], strict=True):
        for task in TASKS[:3]:
            here, bare = (task.on(robot).at(q, v, coriolis=c) for c in (coriolis, "christoffel"))
            difference = here.coriolis_matrix - bare.coriolis_matrix
            squares.append(3 * np.sum((here.root.T @ difference @ here.root) ** 2))
    return np.sqrt(np.mean(squares))


LAWS = {"Christoffel": "christoffel"}
swung, _ = run(Law("Christoffel", swing), 3.6 if LONG else 2.0)
slip, cross = strength(not_skew(0.5)), strength("force_cross")
print(f"r of force_cross {cross:.3f} / s, of 'not skew, 1/2' {slip:.3f} / s")
LAWS |= {
    "force_cross": "force_cross",
    "not skew, 1/2": not_skew(0.5),
    "inverse dynamics": None,
    "contorsion": contorsion(4.0 * W / strength(contorsion(1.0))),
    "not skew": not_skew(2.0 * W / slip),
}
if not LONG:
    LAWS = {name: LAWS[name] for name in ("Christoffel", "inverse dynamics", "contorsion", "not skew")}
WEAK = [name for name in LAWS if name not in ("contorsion", "not skew")]

# %%
# How far the centre of mass is from its target; in the jump, after it has come down. A star says that
# contacts gave way in some cycles.

EXPERIMENTS = {  # script, s, kg
    "standing": (rest, STANDING, 0.0),
    "squatting": (squat, 4.5 if LONG else 1.5, 0.0),
    f"with {LOAD:g} kg": (squat, 4.5 if LONG else 1.5, LOAD),
    "swinging a foot": (swing, 4.0 if LONG else 2.0, 0.0),
    "jumping": (jump, 3.0 if LONG else 1.6, 0.0),
}
motions = {}
print(
    f"\ncentre of mass off its target, largest, rms [mm]\n{'':18}" + "".join(f"{x:>18}" for x in EXPERIMENTS)
)
for name in LAWS:
    row = ""
    for title, (script, duration, load) in EXPERIMENTS.items():
        law = Law(name, script)
        motion, fell = motions[name, title] = run(law, duration, load)
        assert not fell or name not in WEAK
        if fell:
            row += f"{'diverges' if motion is None else f'falls, {motion.times[-1]:.2f} s':>18}"
            continue
        error = off(motion, script)[motion.times > (script is jump) * (DOWN + THRUST + FLIGHT)]
        assert error[-25:].max() < 25.0 or name not in WEAK
        row += f"{f'{error.max():.2f}, {np.sqrt(np.mean(error**2)):.2f}' + '*' * (law.loose > 0):>18}"
    print(f"{name:18}{row}")
print("\nthe jump: time in which both soles are 1 mm above the floor [s], and how high [mm]")
for name in LAWS:
    motion, fell = motions[name, "jumping"]
    if not fell:
        up = lowest(motion)[motion.times < DOWN + THRUST + 0.3]
        print(f"{name:18}{PERIOD * np.sum(up > 1.0):8.3f}{up.max():8.1f}")

# %%
# An impulse of the mass times 0.1 m/s at the base, in 0.1 s, in eight directions; and the largest of 0.1,
# 0.15, ..., 0.6 m/s from which the centre of mass is back within 20 mm after 2 s.


def pushed(name, speed, angle):
    """The motion after a push, and whether it comes back."""
    force = mass * speed / 0.1 * np.array([np.cos(angle), np.sin(angle), 0.0])
    motion, fell = run(Law(name, rest), 2.0, pushes=[control.Push("base_link", force, 0.1, 0.1)])
    return motion, not fell and off(motion, rest)[-25:].max() < 20.0


ANGLES = np.arange(8) * np.pi / 4 if LONG else [np.pi / 4]
SPEEDS = np.arange(2, 13) * 0.05
print(
    "\npushed with 0.1 m/s: comes back, centre of mass goes [mm]; the largest push ahead, to the left [m/s]"
)
for name in LAWS:
    far = [off(motion, rest).max() for motion, back in (pushed(name, 0.1, a) for a in ANGLES) if back]
    assert len(far) == len(ANGLES) or name not in WEAK
    text = f"{len(far)} of {len(ANGLES)}" + (f", {min(far):.1f} to {max(far):.1f}" if far else "")
    for angle in (0.0, np.pi / 2) if LONG else ():
        low, high = -1, len(SPEEDS)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if pushed(name, SPEEDS[middle], angle)[1] else (low, middle)
        text += f", {SPEEDS[low] if low >= 0 else np.nan:.2f}"
    print(f"{name:18}{text}")
print(f"CPU time: {time.process_time() - begin:.0f} s")

# %%
# The figure.

COLORS = {"Christoffel": BLACK, "force_cross": BLUE, "not skew, 1/2": GREEN, "inverse dynamics": GREY}
COLORS |= {"contorsion": "#e08a00", "not skew": RED}
figure = new_figure(9.0, 6.4)
panels = dict(zip(list(EXPERIMENTS)[1:], figure.subplots(2, 2).ravel(), strict=True))
for title, axes in panels.items():
    script = EXPERIMENTS[title][0]
    for name in LAWS:
        motion, fell = motions[name, title]
        if motion is not None:
            line = lowest(motion) if script is jump else off(motion, script)
            axes.plot(
                motion.times, line, color=COLORS[name], lw=2.2 if name == "Christoffel" else 1.1, label=name
            )
    what = "lower sole above the floor" if script is jump else "centre of mass off its target"
    axes.set(title=title.capitalize(), xlabel="time [s]", ylabel=f"{what} [mm]", ylim=(0.0, 30.0))
    axes.grid(alpha=0.3)
panels["swinging a foot"].legend(frameon=False, fontsize=8)
figure.tight_layout()
figure.savefig(directory / "whole_body_humanoid.png")
print(directory / "whole_body_humanoid.png")

# %%
# The film, seen from the right side and a little from above, at half the speed. Where a motion has ended by
# a fall, its last picture stays.

SHOWN = {
    ("Christoffel", f"with {LOAD:g} kg"): f"Christoffel, with {LOAD:g} kg",
    ("not skew", f"with {LOAD:g} kg"): f"not skew, with {LOAD:g} kg",
    ("Christoffel", "jumping"): "Christoffel, jumping",
}
SHOWN = {key: title for key, title in SHOWN.items() if motions[key][0] is not None}  # did not diverge
LIMBS = [["torso_2_link", "head_1_link", "head_2_link"]]
for side in ("left", "right"):
    LIMBS += [["base_link"] + [f"leg_{side}_{k}_link" for k in range(1, 7)] + [f"{side}_sole_link"]]
    LIMBS += [["torso_2_link"] + [f"arm_{side}_{k}_link" for k in range(1, 8)]]
LIMBS += [["base_link", "torso_1_link", "torso_2_link"]]
film, lines, clocks = new_figure(7.8, 3.6), {}, {}
film.set_dpi(90)
film.subplots_adjust(left=0.0, right=1.0, bottom=0.0, top=0.9, wspace=0.0)
for axes, (key, title) in zip(film.subplots(1, len(SHOWN)), SHOWN.items(), strict=True):
    axes.set(xlim=(-0.8, 0.8), ylim=(-0.25, 1.65), title=title)
    axes.set_aspect("equal")
    axes.axis("off")
    axes.fill([-0.8, -0.6, 0.8, 0.6], [-0.15, 0.15, 0.15, -0.15], color=GREY, alpha=0.2)
    color = COLORS[key[0]]
    lines[key] = [axes.plot([], [], color=color, lw=3.0, solid_joinstyle="round")[0] for _ in LIMBS]
    clocks[key] = axes.text(-0.75, 1.5, "")


def seen(points):
    """Points in the plane of the picture: ahead, and up; what is on the left lies higher."""
    x, y, z = np.transpose(points)
    return x + 0.3 * y, z + 0.3 * y


frames = []
for time_ in np.arange(0.0, 1.55, 0.05):
    for key in SHOWN:
        motion, fell = motions[key]
        last = len(motion.times) - 1
        k = min(round(time_ / PERIOD), last)
        for line, limb in zip(lines[key], LIMBS, strict=True):
            line.set_data(*seen([mb.frame_pose(robot, motion.q[k], body)[:3, 3] for body in limb]))
        clocks[key].set_text(f"{time_:.2f} s" + (", fallen" if fell and k == last else ""))
    film.canvas.draw()
    frames.append(Image.fromarray(np.asarray(film.canvas.buffer_rgba())[..., :3]).quantize(32))
lasting = [100] * (len(frames) - 1) + [1500]  # ms
path = directory / "whole_body_humanoid.gif"
frames[0].save(path, save_all=True, append_images=frames[1:], duration=lasting, loop=0, optimize=True)
assert path.stat().st_size < 1_000_000
print(f"{path}: {len(frames)} frames")
