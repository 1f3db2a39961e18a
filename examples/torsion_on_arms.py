"""
Does torsion help or hurt an arm? A law, two arms in MuJoCo, and what lies between them
=======================================================================================

A UR5 and a Panda trace fast figures of eight by tau = H a_r + C v_r + g - K s, with a load in the hand that
the law does not know. C is a choice: without torsion (Christoffel), with more and more of the torsion of the
factor (v x*) I, with a random contorsion, or with Hdot - 2 C not skew. The plant is MuJoCo: with rigid or
elastic joints, with a delay or without. Every motion is the same for all C, so ratios are of pairs.
Run: python examples/torsion_on_arms.py [directory] [motions] [workers]; docs/torsion_in_control.md has 500
motions. They are a sweep, whose store is in the directory: run again, the same command resumes it.
"""

import functools
import itertools
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from importlib.metadata import files, version
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import zarr
from scipy.stats import t as student

from connections import control
from connections import multibody as mb
from connections.checks import IntegrationError
from connections.sweeps import Output, Sweep, run_sweep

# %%
# The arms
# --------
#
# Each joint has a rotor with a part of the inertia that the joint meets in the middle posture. If the joint
# is elastic, its spring lies between the rotor and the link, with the frequency that the link has alone on
# its spring, and two per cent of critical damping; the encoders are then on the motors, and the law knows
# nothing of the spring.

PERIOD, DURATION = 1e-3, 1.5  # s
ROTOR, DAMPING = 0.3, 0.02  # shares: of the link's inertia, of critical damping


def file_of(name):
    (found,) = [file.locate() for file in files("example-robot-data") if str(file).endswith(name)]
    return found


def ur5():
    return mb.from_urdf(file_of("ur_description/urdf/ur5_robot.urdf"))


def panda():
    """The Panda with its fingers fixed to the hand."""
    tree = ElementTree.parse(file_of("panda_description/urdf/panda.urdf"))
    for joint in tree.getroot().findall("joint"):
        if "finger" in joint.get("name"):
            joint.set("type", "fixed")
            for mimic in joint.findall("mimic"):
                joint.remove(mimic)
    with tempfile.TemporaryDirectory() as folder:
        tree.write(Path(folder) / "panda.urdf")
        return mb.from_urdf(Path(folder) / "panda.urdf")


class Arm:
    """An arm: what the law knows, and the robots of MuJoCo."""

    def __init__(self, name, bare, middle, tool):
        self.name, self.bare, self.middle, self.tool = name, bare, np.array(middle), tool
        self.inertias = np.diag(mb.mass_matrix(bare, self.middle))
        self.rotors = ROTOR * self.inertias
        self.model = bare.with_armature(dict(zip(bare.joint_names, self.rotors, strict=True)))
        self.H = mb.mass_matrix(self.model, self.middle)

    def robot(self, frequency, load):
        """MuJoCo's arm with a load, kg, 0.1 m in front of the last body."""
        body, at = self.bare.body_names[-1], (0.0, 0.0, 0.1)
        if frequency is None:
            return control.MuJoCoRobot.of(control.with_payload(self.model, body, load, at))
        w = 2.0 * np.pi * frequency
        springs = control.SeriesElastic(self.inertias * w**2, 2 * DAMPING * self.inertias * w, self.rotors)
        return control.MuJoCoRobot.of(control.with_payload(self.bare, body, load, at), elastic=springs)


ARMS = (
    Arm("UR5", ur5(), [0.0, -1.2, 1.6, -2.0, -1.57, 0.0], "tool0"),
    Arm("Panda", panda(), [0.0, -0.3, 0.0, -2.0, 0.0, 1.7, 0.8], "panda_hand_tcp"),
)

# %%
# The motions
# -----------
#
# A figure of eight in a random plane, 0.24 to 0.5 m wide, in 1.2 to 1.8 s. For 48 points of it, Newton's
# method finds the posture nearest to the middle one; eight harmonics of these postures are the reference, so
# that its derivatives are exact. The start is off by 0.05 rad (standard deviation) in each joint, and the
# load is 0.5 to 1.5 kg.

POINTS, HARMONICS = 48, 8
times = PERIOD * np.arange(round(DURATION / PERIOD) + 1)


class Run:
    """One motion: the reference at all instants, the start, the load, and a random contorsion."""

    def __init__(self, arm, seed):
        rng, n = np.random.default_rng([arm.bare.nv, seed]), arm.bare.nv
        phase = 2.0 * np.pi * np.arange(POINTS) / POINTS
        plane = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        center = mb.frame_pose(arm.bare, arm.middle, arm.tool)[:3, 3] + rng.uniform(-0.08, 0.08, 3)
        shape = np.stack([np.sin(phase), 0.5 * np.sin(2.0 * phase)], axis=1)
        q, postures = arm.middle, []
        for point in center + rng.uniform(0.12, 0.25) * shape @ plane[:2]:
            for _ in range(6):
                J = mb.frame_jacobian(arm.bare, q, arm.tool, axes="world")[3:]
                inverse = np.linalg.pinv(J, rcond=0.05)
                gap = point - mb.frame_pose(arm.bare, q, arm.tool)[:3, 3]
                q = q + inverse @ gap + 0.3 * (np.eye(n) - inverse @ J) @ (arm.middle - q)
            postures.append(q)
        waves = np.fft.rfft(postures, axis=0)[: HARMONICS + 1] / POINTS
        waves[1:] *= 2.0
        order, w = np.arange(HARMONICS + 1), 2.0 * np.pi / rng.uniform(1.2, 1.8)
        turning = np.exp(1j * np.multiply.outer(w * times + rng.uniform(0.0, 2.0 * np.pi), order))
        self.q, self.v, self.a = (((turning * (1j * w * order) ** k) @ waves).real for k in range(3))
        self.start = self.q[0] + 0.05 * rng.standard_normal(n)
        self.load = rng.uniform(0.5, 1.5)
        self.D, root = np.zeros((n, n, n)), np.sqrt(arm.inertias)  # D[j, i, k], skew in all indices
        for triple in itertools.combinations(range(n), 3):
            size = rng.standard_normal() * np.prod(root[list(triple)])
            for turn in range(3):
                i, j, k = np.roll(triple, turn)
                self.D[j, i, k], self.D[i, j, k] = size, -size


# %%
# The choices of C
# ----------------
#
# All have the same C v. What each adds to the C without torsion is measured in the units of the gain: the rms
# over the motions of the norm of H^(-1/2) (C - C*) H^(-1/2), in 1/s. "not skew" is
#
#    C w = C*(v) w + kappa (C*(v)^T w - C*(w)^T v):
#
# for kappa = 1/2 it is Hdot - d(v^T H v / 2)/dq, written as a matrix in the obvious way. "bias" has C* v in
# the place of C v_r: what one does if a library gives the vector only.

GAIN, PULL = 20.0, 8.0  # 1/s: K = GAIN H(middle), v_r = v_d - PULL (q - q_d)


def christoffel(arm, run, size, q, v, w):
    return mb.coriolis_product(arm.model, q, v, w)


def torsion(arm, run, size, q, v, w):
    star = mb.coriolis_product(arm.model, q, v, w)
    return star + size * (mb.coriolis_product(arm.model, q, v, w, body_factor="force_cross") - star)


def random_contorsion(arm, run, size, q, v, w):
    return mb.coriolis_product(arm.model, q, v, w) + size * (np.tensordot(v, run.D, 1) @ w)


def not_skew(arm, run, size, q, v, w):
    there = mb.coriolis_transpose_product(arm.model, q, v, w)
    back = mb.coriolis_transpose_product(arm.model, q, w, v)
    return mb.coriolis_product(arm.model, q, v, w) + size * (there - back)


def bias(arm, run, size, q, v, w):
    return mb.coriolis_product(arm.model, q, v, v)


MEMBERS = {  # name: the product C w, and the size of what it adds, 1/s; None for kappa = 1/2
    "Christoffel": (christoffel, 0.0),
    "torsion 10": (torsion, 10.0),
    "torsion 40": (torsion, 40.0),
    "torsion 160": (torsion, 160.0),
    "torsion -40": (torsion, -40.0),
    "random 40": (random_contorsion, 40.0),
    "bias": (bias, 0.0),
    "not skew, 1/2": (not_skew, None),
    "not skew 10": (not_skew, 10.0),
    "not skew 40": (not_skew, 40.0),
}
CASES = {  # name: frequency of the joints, Hz, or None if rigid; delay, s
    "rigid": (None, 0.0),
    "rigid, 4 ms": (None, 4e-3),
    "40 Hz, 2 ms": (40.0, 2e-3),
    "20 Hz": (20.0, 0.0),
    "20 Hz, 2 ms": (20.0, 2e-3),
    "10 Hz": (10.0, 0.0),
    "5 Hz": (5.0, 0.0),
}
FEW_MEMBERS = "Christoffel", "torsion 40", "torsion 160", "random 40", "not skew 40"  # the short form
FEW_CASES = "rigid", "rigid, 4 ms", "20 Hz, 2 ms"


def added(arm, runs, product):
    """The rms of the norm of H^(-1/2) (C - C*) H^(-1/2) of a product of size 1 along the references, 1/s."""
    root = np.linalg.inv(np.linalg.cholesky(arm.H))
    squares = []
    for run in runs:
        for q, v in zip(run.q[::50], run.v[::50], strict=True):
            columns = [product(arm, run, 1.0, q, v, w) - christoffel(arm, run, 1.0, q, v, w) for w in root]
            squares.append(np.sum((root @ np.array(columns).T) ** 2))
    return np.sqrt(np.mean(squares))


class Law:
    """The law with one C along one motion."""

    def __init__(self, arm, run, product, size, gain=GAIN):
        self.arm, self.run, self.product, self.size = arm, run, product, size
        self.K, self.still = gain * arm.H, np.zeros(arm.bare.nv)

    def __call__(self, t, q, v):
        """The torques."""
        arm, run, k = self.arm, self.run, round(t / PERIOD)
        v_r = run.v[k] - PULL * (q - run.q[k])
        a_r = run.a[k] - PULL * (v - run.v[k])
        known = mb.inverse_dynamics(arm.model, q, self.still, a_r)  # with gravity
        return known + self.product(arm, run, self.size, q, v, v_r) - self.K @ (v - v_r)


# %%
# What is measured
# ----------------
#
# A motion is lost if it diverges or is ever 0.3 rad off in its second half (norm of all joints). Otherwise,
# after the first 0.3 s: the rms of the error and of the torque; the rms torque above 15 Hz, where neither the
# reference nor the gains have anything; and the energy of the springs above 0.7 times their frequency.

SPLIT, LOST = 15.0, 0.3  # Hz, rad
QUANTITIES = "error [mrad]", "torque [N m]", "torque above 15 Hz [N m]", "energy of springs [J]"


def above(x, split):
    """The mean square of each component above a frequency, Hz."""
    window = np.hanning(len(x))[:, None]
    power = 2.0 * np.abs(np.fft.rfft((x - x.mean(axis=0)) * window, axis=0)) ** 2
    beyond = np.fft.rfftfreq(len(x), PERIOD) > split
    return power[beyond].sum(axis=0) / len(x) / np.sum(window**2)


def measured(arm, run, case, product, size, gain=GAIN, load=None):
    """The four quantities, NaN if the motion is lost."""
    frequency, delay = case
    robot = arm.robot(frequency, run.load if load is None else load)
    plant = control.MuJoCoPlant(robot, period=PERIOD, delay=delay, motor_side=frequency is not None)
    found, law = np.full(len(QUANTITIES), np.nan), Law(arm, run, product, size, gain)
    control.prepare(law, 0.0, run.start, run.v[0])  # no call in the loop waits for a compilation
    try:
        motion = plant.simulate(law, run.start, run.v[0], DURATION)
    except IntegrationError:
        return found
    error, later = motion.q - run.q, times > 0.3
    if np.linalg.norm(error[times > DURATION / 2], axis=1).max() > LOST:
        return found
    found[0] = 1e3 * np.sqrt(np.mean(np.sum(error[later] ** 2, axis=1)))
    found[1] = np.sqrt(np.mean(np.sum(motion.tau[later] ** 2, axis=1)))
    found[2] = np.sqrt(np.sum(above(motion.tau[later], SPLIT)))
    if frequency is not None:
        stiffness = robot.elastic.stiffness
        bent = above((motion.motor_q - motion.q)[later], 0.7 * frequency)
        found[3] = 0.5 * np.sum(stiffness * bent)
    return found


# %%
# The sweep
# ---------
#
# Row k of it, and the seed of what is random in it, is motion k, with each arm, case and C. The strengths are
# those along the first twenty references, however many motions there are. First, the law is compared with
# `PassivityController`, and each C v with the bias.


def sizes_of(arm):
    """{name of a C: the size of what it adds}."""
    runs = [Run(arm, seed) for seed in range(20)]
    unit = {product: added(arm, runs, product) for product in (torsion, random_contorsion, not_skew)}
    print(f"{arm.name}: gamma = 1 adds {unit[torsion]:.1f} / s, kappa = 1/2 {0.5 * unit[not_skew]:.1f} / s")
    require_same(arm, runs[0])
    return {
        name: strength / unit[product] if strength else 0.5 * (strength is None)
        for name, (product, strength) in MEMBERS.items()
    }


def require_same(arm, run, k=200):
    """Compare the law at one instant, and each C v."""
    law = Law(arm, run, torsion, 3.0)
    same = control.PassivityController(arm.model.system(gamma=3.0), law.K)
    q, v = run.q[k] + 0.1, run.v[k] - 0.2
    v_r, a_r = run.v[k] - PULL * 0.1, run.a[k] + PULL * 0.2
    assert np.allclose(law(k * PERIOD, q, v), same.torque(q, v, v_r, a_r), rtol=1e-12)
    for product in (torsion, random_contorsion, not_skew):
        force = product(arm, run, 2.0, q, v, v)
        assert np.allclose(force, bias(arm, run, 1.0, q, v, v), rtol=1e-9, atol=1e-9)


def measured_rows(cases, sizes, chunk):
    """{arm: the quantities of some motions, for each case and C}."""
    found = {}
    for arm in ARMS:
        rows = found[arm.name] = np.empty((chunk.rows, len(cases), len(sizes[arm.name]), len(QUANTITIES)))
        for row, seed in enumerate(range(chunk.start, chunk.stop)):
            run = Run(arm, seed)
            for (i, case), (j, (name, size)) in itertools.product(
                enumerate(cases), enumerate(sizes[arm.name].items())
            ):
                rows[row, i, j] = measured(arm, run, CASES[case], MEMBERS[name][0], size)
    return found


def sweep(motions, cases, sizes):
    """The sweep of some motions, of {arm: {name of a C: size}}."""
    names = tuple(sizes[ARMS[0].name])
    output = Output((len(cases), len(names), len(QUANTITIES)), dims=("case", "C", "quantity"))
    return Sweep(
        name="torsion on arms",
        function=functools.partial(measured_rows, tuple(cases), sizes),
        rows=motions,
        outputs={arm.name: output for arm in ARMS},
        chunk=1,
        about={
            "cases": list(cases),
            "C": list(names),
            "quantities": list(QUANTITIES),
            "mujoco": version("mujoco"),
        },
    )


def ratio(rows, first):
    """Geometric mean of the ratio of pairs, and its 95 % interval (t); NaN if there are no two pairs."""
    logs = np.log(rows) - np.log(first)
    logs = logs[np.isfinite(logs)]
    if len(logs) < 2:
        return np.full(3, np.nan)
    half = student.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
    return np.exp(logs.mean() + half * np.array([0.0, -1.0, 1.0]))


def lost(rows):
    """The share of motions that are lost, and Wilson's 95 % interval."""
    n, p, z = len(rows), np.mean(np.isnan(rows[:, 0])), 1.96
    middle, half = p + z**2 / (2 * n), z * np.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2)
    return np.array([p, *(np.array([middle - half, middle + half]) / (1 + z**2 / n))])


def cell(numbers, short):
    """A number, with its interval if there are motions enough for one."""
    first, low, high = numbers
    interval = "" if short else f" ({low:.3g}, {high:.3g})"
    return "-" if np.isnan(first) else f"{first:.3g}{interval}"


def print_table(results, short):
    """Print {(arm, case, C): (motions, 4)}."""
    heads = "lost [%]", *(f"ratio of {name.split(' [')[0]}" for name in QUANTITIES)
    for (arm, case, name), rows in results.items():
        first = results[arm, case, "Christoffel"]
        if name == "Christoffel":
            medians = [np.median(kept) for column in first.T if len(kept := column[np.isfinite(column)])]
            medians = ", ".join(f"{what} {x:.3g}" for what, x in zip(QUANTITIES, medians, strict=False))
            print(f"\n{arm}, {case}; medians with Christoffel: {medians}")
            print(f"{'':14}" + "".join(f"{head:>28}" for head in heads))
        ratios = [ratio(a, b) for a, b in zip(rows.T, first.T, strict=True)]
        print(f"{name:14}" + "".join(f"{cell(x, short):>28}" for x in (100.0 * lost(rows), *ratios)))


# %%
# Margins
# -------
#
# With rigid joints: the largest of some delays up to which a motion is not lost (0 if it is lost without);
# and, without load and delay, the smallest of some gains, likewise (20 if it is lost with that).

DELAYS = np.array([0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64]) * 1e-3  # s
GAINS = 20.0 * 0.75 ** np.arange(13)  # 1/s


def last_good(values, good):
    """The last of some values before the first that is not good; the first if none is good."""
    last = values[0]
    for value in values:
        if not good(value):
            break
        last = value
    return last


def margins(arm, run, product, size, step):
    """The largest delay, ms, and the smallest gain, 1/s, of each `step`-th; the expected delay, ms."""

    def survives(case, **more):
        return np.isfinite(measured(arm, run, case, product, size, **more)[0])

    delay = last_good(DELAYS[::step], lambda delay: survives((None, delay)))
    gain = last_good(GAINS[::step], lambda gain: survives((None, 0.0), gain=gain, load=0.0))
    return 1e3 * delay, gain, 1e3 * expected_delay(arm, run, product, size)


# %%
# What is to be expected: in the energy metric, a skew addition has eigenvalues +-i r, so it turns the error e
# of a mode while the gain pulls, and the torque comes T late, half a period of the hold included:
#
#    lambda^2 + [(k + L + i r) lambda + (k + i r) L] exp(-lambda T) = 0,    k = GAIN, L = PULL.
#
# The first root that reaches the imaginary axis, at lambda = i w, says the largest T; r is the largest one
# along the reference.


def expected_delay(arm, run, product, size):
    """The largest delay, s; NaN for an addition that is not skew."""
    if product not in (christoffel, torsion, random_contorsion):
        return np.nan
    root, r = np.linalg.inv(np.linalg.cholesky(arm.H)), 0.0
    for q, v in zip(run.q[::50], run.v[::50], strict=True):
        columns = [product(arm, run, size, q, v, w) - christoffel(arm, run, size, q, v, w) for w in root]
        r = max(r, np.abs(np.linalg.eigvals(root @ np.array(columns).T)).max())
    k, L = GAIN, PULL
    w = np.roots([1.0, 0.0, -((k + L) ** 2) - r**2, -2.0 * r * L**2, -(L**2) * (k**2 + r**2)])
    w = w[np.abs(w.imag) < 1e-6 * np.abs(w)].real
    turned = np.angle((k + L + 1j * r) * 1j * w + (k + 1j * r) * L) * np.sign(w) % (2.0 * np.pi)
    return max(np.min(turned / np.abs(w)) - PERIOD / 2, 0.0)


def all_margins(motions, step, sizes):
    """{(arm, C): margins of some motions}, printed as quartiles."""
    found = {}
    for arm in ARMS:
        print(f"\n{arm.name}: quartiles of largest delay [ms], smallest gain [1/s], expected delay [ms]")
        runs = [Run(arm, seed) for seed in range(motions)]
        for name, size in sizes[arm.name].items():
            rows = np.array([margins(arm, run, MEMBERS[name][0], size, step) for run in runs])
            found[arm.name, name] = rows
            low, middle, high = np.quantile(rows, (0.25, 0.5, 0.75), axis=0)
            cells = [f"{b:.3g} ({a:.3g}, {c:.3g})" for a, b, c in zip(low, middle, high, strict=True)]
            print(f"{name:14}" + "".join(f"{'-' if 'nan' in cell else cell:>26}" for cell in cells))
    return found


# %%
# The picture.


def draw(results, found, path):
    """For each arm: the error with rigid joints, the motions that are lost, the largest delay."""
    figure, axes = plt.subplots(len(ARMS), 3, figsize=(15, 4.2 * len(ARMS)), layout="constrained")
    cases, names = (list(dict.fromkeys(key[i] for key in results)) for i in (1, 2))
    places = np.arange(len(names))
    for arm, (first, middle, last) in zip(ARMS, axes, strict=True):
        reference = results[arm.name, "rigid", "Christoffel"][:, 0]
        for place, name in enumerate(names):
            color = "#222222" if place == 0 else "#c8102e" if name[:3] in ("not", "bia") else "#1f5fbf"
            mean, low, high = ratio(results[arm.name, "rigid", name][:, 0], reference)
            if np.isfinite(mean):
                first.errorbar(
                    mean, place, xerr=[[mean - low], [high - mean]], fmt="o", color=color, capsize=3
                )
            else:
                first.text(0.5, place, "all are lost", va="center", transform=first.get_yaxis_transform())
            low, mid, high = np.quantile(found[arm.name, name][:, 0], (0.25, 0.5, 0.75))
            last.errorbar(mid, place, xerr=[[mid - low], [high - mid]], fmt="o", color=color, capsize=3)
            last.plot(np.median(found[arm.name, name][:, 2]), place, "x", color="#777777")
        first.axvline(1.0, color="#999999", lw=0.8)
        first.set(
            title=f"{arm.name}, rigid: rms error, relative",
            xlabel="ratio of pairs, 95 % interval",
        )
        last.set(title="largest delay, rigid: quartiles; cross: expected", xlabel="ms")
        shares = [[100.0 * lost(results[arm.name, case, name])[0] for case in cases] for name in names]
        middle.imshow(shares, cmap="Reds", vmin=0.0, vmax=130.0, aspect="auto")
        for (row, column), share in np.ndenumerate(shares):
            middle.text(column, row, f"{share:.0f}", ha="center", va="center", fontsize=9)
        middle.set(title="motions that are lost, %", xticks=range(len(cases)))
        middle.set_xticklabels(cases, rotation=25, ha="right", fontsize=8)
        for panel in (first, middle, last):
            panel.set(yticks=places, yticklabels=names if panel is first else [])
            panel.set_ylim(len(names) - 0.5, -0.5)
        for panel in (first, last):
            panel.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    print(path)


# %%
# The sweep is computed where its store does not have it yet, by new processes if there are workers.


def main():
    """Everything, in the short form without a number of motions."""
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    motions = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    short = motions < 20
    cases, names = (FEW_CASES, FEW_MEMBERS) if short else (CASES, MEMBERS)
    sizes = {arm.name: sizes_of(arm) for arm in ARMS}
    sizes = {arm: {name: of[name] for name in names} for arm, of in sizes.items()}
    store = directory / f"torsion_on_arms_{motions}.zarr"
    workers = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    print(run_sweep(sweep(motions, cases, sizes), store, workers=workers))
    group = zarr.open_group(store, mode="r")
    results = {
        (arm.name, case, name): group[arm.name][:, i, j]
        for arm in ARMS
        for (i, case), (j, name) in itertools.product(enumerate(cases), enumerate(names))
    }
    print_table(results, short)
    found = all_margins(1 if short else 20, 6 if short else 1, sizes)
    draw(results, found, directory / "torsion_on_arms.png")


if __name__ == "__main__":  # workers import this file
    main()
