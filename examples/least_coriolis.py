"""
Which Coriolis matrix is the least?
===================================

It is a minimum over what a program computes with, in a given frame. The C of all members of the contorsion
family have the same C v and the same C + C^T; the member with D = Alt(Gamma*) has the least symbols, in every
inner product at once. At random postures of twenty robots that float, the table has |Gamma| (the Frobenius
norm, mean) and k_C (the largest of |Gamma(z, v, w)| over unit vectors, which bounds |C(v) w|; from below, by
alternating maximization) of three members, in body axes of the base, and of two in world axes. Then Slotine
and Li's law is used with the three, on an attitude, and with --motions on two robots.
Run: python examples/least_coriolis.py [directory] [--postures 60] [--motions 10]; docs/least_coriolis.md
"""

import argparse
import warnings
from dataclasses import dataclass
from importlib.metadata import files
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import connections as cn
from connections import control
from connections import multibody as mb
from connections.plots.canvas import BLACK, BLUE, GREY, RED, new_figure

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("directory", nargs="?", default=".", type=Path)
parser.add_argument("--postures", default=6, type=int, help="random postures of each robot")
parser.add_argument("--motions", default=0, type=int, help="of each robot under the law; none by default")
options = parser.parse_args()
warnings.simplefilter("ignore", mb.InertiaWarning)
MEMBERS = {"christoffel": BLACK, "force_cross": RED, "least": BLUE}

# %%
# Twenty robots of example-robot-data, whose bases float: legs, arms on legs, humanoids, flying machines, and
# an arm on a free base. Some files have links that no body can be; this does not matter here.

ROBOTS = {
    "ANYmal B": "anymal_b_simple_description/robots/anymal.urdf",
    "ANYmal C": "anymal_c_simple_description/urdf/anymal.urdf",
    "ANYmal, Kinova": "anymal_b_simple_description/robots/anymal-kinova.urdf",
    "A1": "a1_description/urdf/a1.urdf",
    "B1": "b1_description/urdf/b1.urdf",
    "B1, Z1": "b1_description/urdf/b1-z1.urdf",
    "Go1": "go1_description/urdf/go1.urdf",
    "HyQ": "hyq_description/robots/hyq_no_sensors.urdf",
    "Solo 8": "solo_description/robots/solo.urdf",
    "Solo 12": "solo_description/robots/solo12.urdf",
    "Bolt": "bolt_description/robots/bolt.urdf",
    "Talos": "talos_data/robots/talos_reduced.urdf",
    "G1": "g1_description/urdf/g1_29dof_rev_1_0.urdf",
    "iCub": "icub_description/robots/icub_reduced.urdf",
    "Humanoid": "simple_humanoid_description/urdf/simple_humanoid.urdf",
    "Romeo": "romeo_description/urdf/romeo_small.urdf",
    "Centauro": "centauro_description/urdf/centauro.urdf",
    "Hextilt": "hextilt_description/urdf/hextilt_flying_arm_5.urdf",
    "Iris": "iris_description/robots/iris.urdf",
    "UR5": "ur_description/urdf/ur5_robot.urdf",
}


def robot(name: str) -> mb.Model:
    (found,) = [file for file in files("example-robot-data") or () if str(file).endswith(ROBOTS[name])]
    return mb.from_urdf(Path(str(found.locate())).resolve(), floating_base=True)


# %%
# The least member, the norms, and the same connection in world axes: fields X A, A = diag(R^T, R^T, 1).


def alternated(T: np.ndarray) -> np.ndarray:
    """Alt(T), the mean over all orders of the last three indices, odd ones with the sign minus."""
    even = T + np.moveaxis(T, -3, -1) + np.moveaxis(T, -1, -3)
    return (even - np.swapaxes(even, -1, -2)) / 6.0


def frobenius(T: np.ndarray) -> np.ndarray:
    return np.sqrt(np.einsum("pijk,pijk->p", T, T))


def unit(x: np.ndarray) -> np.ndarray:
    return x / (np.linalg.norm(x, axis=-1, keepdims=True) + 1e-300)


def largest(T: np.ndarray, starts: int = 4, rounds: int = 50) -> np.ndarray:
    """The largest of |T(z, v, w)| over unit vectors, (p,), from below: by turns the best z, v, and w."""
    rng, best, (p, n) = np.random.default_rng(0), np.zeros(len(T)), T.shape[:2]
    for _ in range(starts):
        z, v, w = unit(rng.standard_normal((3, p, n)))
        for _ in range(rounds):
            of_w = (T.reshape(p, n * n, n) @ w[:, :, None]).reshape(p, n, n)
            for _ in range(3):
                z = unit(np.einsum("pij,pj->pi", of_w, v))
                v = unit(np.einsum("pij,pi->pj", of_w, z))
            of_z = np.einsum("pi,pijk->pjk", z, T, optimize=True)
            w = np.einsum("pjk,pj->pk", of_z, v)
            size, w = np.linalg.norm(w, axis=1), unit(w)
        best = np.maximum(best, size)
    return best


def in_world_axes(model: mb.Model, q: np.ndarray, symbols: np.ndarray) -> np.ndarray:
    """The symbols in the frame X A: A^T A^T A^T Gamma + (X A)^T H (derivative of A), (p, n, n, n)."""
    p, n = len(q), model.nv
    x, y, z, w = q[:, 3:7].T
    zero = 0.0 * x
    r_cross = np.moveaxis(np.array([[zero, -z, y], [z, zero, -x], [-y, x, zero]]), -1, 0)
    back = np.eye(3) - 2.0 * w[:, None, None] * r_cross + 2.0 * r_cross @ r_cross  # R^T
    A = np.broadcast_to(np.eye(n), (p, n, n)).copy()
    A[:, :3, :3] = A[:, 3:6, 3:6] = back
    slope = np.zeros((p, n, n, n))  # [direction, row, column]: R^T changes by -R^T (e x)
    crosses = np.cross(np.eye(3)[:, None], np.eye(3)[None]).transpose(0, 2, 1)
    slope[:, :3, :3, :3] = slope[:, :3, 3:6, 3:6] = -np.einsum("pij,bjk->pbik", back, crosses)
    carried = np.einsum("pijk,pia,pjb,pkc->pabc", symbols, A, A, A, optimize=True)
    fields = np.swapaxes(A, 1, 2) @ mb.mass_matrix(model, q)
    return carried + np.einsum("pak,pbkc->pabc", fields, slope, optimize=True)


# %%
# The table.

print(f"{options.postures} postures; |Gamma|, mean; k_C, the largest, from below")
print(f"{'':15} nv   mass |{'':13}body axes of the base{'':14}|       world axes")
print(f"{'':15}      [kg] |  christoffel    force_cross     least   | christoffel      least")
table = {}
for name in ROBOTS:
    model, rng = robot(name), np.random.default_rng(1)
    q = np.stack([np.asarray(model.random(rng)) for _ in range(options.postures)])
    symbols = {key: mb.christoffel_symbols(model, q, body_factor=key) for key in MEMBERS}
    world = in_world_axes(model, q, symbols["christoffel"])
    least = symbols["christoffel"] - alternated(symbols["christoffel"])
    np.testing.assert_allclose(symbols["least"], least, atol=1e-11 * np.abs(least).max())
    symbols |= {"world": world, "least, world": world - alternated(world)}
    row = {key: (frobenius(T).mean(), largest(T).max()) for key, T in symbols.items()}
    mass = model.kinematics.tree.mass
    table[name] = mass, row
    cells = [f"{size:6.4g} {k_C:6.4g}" for size, k_C in row.values()]
    print(f"{name:15} {model.nv:2} {mass:6.1f} | {'  '.join(cells[:3])} | {'  '.join(cells[3:])}")
    C_v = [np.einsum("pijk,j,k->pi", T, *np.ones((2, model.nv))) for T in list(symbols.values())[:3]]
    np.testing.assert_allclose(C_v[1:], [C_v[0]] * 2, atol=1e-9 * mass)
    assert row["least"][0] <= row["christoffel"][0] and row["least, world"][0] <= row["world"][0]
ratios = [row["christoffel"][1] / row["least"][1] for _, row in table.values()]
print(f"k_C of christoffel / least in body axes: {min(ratios):.3f} to {max(ratios):.3f}")
ratios = [row["world"][1] / row["least, world"][1] for _, row in table.values()]
print(f"k_C of christoffel / least in world axes: {min(ratios):.3f} to {max(ratios):.3f}")

# %%
# One rigid body with its origin at its centre of mass. With the second moments S = tr(J) / 2 - J of its mass,
# the symbols in body axes are Gamma*(z, x, y) = det(z_w, S x_w, y_w) + m det(z_v, x_w, y_v).


def body_symbols(moments: np.ndarray, mass: float) -> np.ndarray:
    det, Gamma = np.cross(np.eye(3)[:, None], np.eye(3)[None]).transpose(2, 0, 1), np.zeros((6, 6, 6))
    Gamma[:3, :3, :3] = det * moments[None, :, None]
    Gamma[3:, :3, 3:] = mass * det
    return Gamma


sizes = np.linspace(0.02, 2.5, 32)
bodies = {"ball": [1.0, 1.0, 1.0], "disc": [1.0, 1.0, 0.0], "rod": [1.0, 0.0, 0.0]}
body_ratios = {}
for name, shape in bodies.items():
    Gamma = np.stack([body_symbols(s * np.array(shape), 1.0) for s in sizes])
    body_ratios[name] = largest(Gamma, 16, 200) / largest(Gamma - alternated(Gamma), 16, 200)
inside = sizes <= 0.5
for ratio in body_ratios.values():
    np.testing.assert_allclose(ratio[inside], 1.5, rtol=1e-6)
print(f"one body: 1.5 up to m/2; a rod's ratio falls to {body_ratios['rod'].min():.3f}")

# %%
# Slotine and Li's law tau = H a_r + C v_r + g - k H s, which knows all inertias, or 0.9 of them. Measured are
# the effort, integral of tau^T H^-1 tau; the time until V = s^T H s / 2 is a hundredth; the twist, how far
# the direction of s turns in the components of body axes until V is 1e-4 of its start; the rms error; and
# the size of C(v) along the desired motion, rms of the Frobenius norm of H^-1/2 C H^-1/2, and of Gamma there
# in the inner product H, which is the size of C(v) for all v.

GAIN, TIMES = 5.0, np.linspace(0.0, 3.0, 301)  # 1/s, s


@dataclass(frozen=True, eq=False, repr=False)
class Law(control.ControlLaw):
    """H a_r + C v_r + g - k H (v - v_r) of a model and its connection."""

    model: cn.MechanicalSystem
    gain: float

    @property
    def frame(self) -> cn.FrameField:
        """The frame of the model."""
        return self.model.metric.frame

    def torque_at(self, q: jax.Array, v: jax.Array, v_r: jax.Array, a_r: jax.Array) -> jax.Array:
        """The force (n,) at one point."""
        H = self.model.metric.matrix_at(q)
        return self.model.reference_force_at(q, v, v_r, a_r) - self.gain * H @ (v - v_r)


def turned(t: jax.Array) -> jax.Array:
    """A quaternion that turns with 2 to 3 rad/s."""
    vector = jnp.array([0.9 * jnp.sin(1.7 * t), 0.8 * jnp.sin(2.3 * t + 1.0), 0.7 * jnp.sin(2.9 * t + 2.0)])
    angle = jnp.sqrt(vector @ vector)
    return jnp.append(jnp.sin(angle / 2.0) / angle * vector, jnp.cos(angle / 2.0))


def measured(plant, models, desired, gains, motions):
    """{member: (effort, time, twist, rms error, sizes of C and Gamma)}, means. models: what the law knows."""
    frame, rng, found, turning = plant.metric.frame, np.random.default_rng(2), {}, {}
    reference = control.trajectory_reference(frame, desired, 3.0)
    start = np.asarray(desired(jnp.asarray(0.0)))
    H, v_d = np.asarray(plant.metric.matrix(start)), np.asarray(reference.velocity(0.0, start))
    off = unit(rng.standard_normal((motions, len(H)))) @ np.linalg.inv(np.linalg.cholesky(H))
    off *= 0.5 * np.sqrt(v_d @ H @ v_d)  # V is a quarter of the kinetic energy
    target = np.stack([np.asarray(desired(jnp.asarray(t))) for t in TIMES[::10]])
    v_r = np.stack([np.asarray(reference.velocity(*pair)) for pair in zip(TIMES[::10], target, strict=True)])
    white = np.linalg.inv(np.linalg.cholesky(np.asarray(plant.metric.matrix(target))))
    for name, model in models.items():
        velocities = np.concatenate([v_r[:, None], white], axis=1)  # the desired one, and orthonormal ones
        C = white[:, None] @ np.asarray(model.coriolis_matrix(target[:, None], velocities))
        sizes = np.sum((C @ np.swapaxes(white, 1, 2)[:, None]) ** 2, axis=(2, 3)).mean(0)
        loop = control.ClosedLoop(plant, Law(model, gains[name]), reference)
        motion = loop.simulate(np.tile(start, (motions, 1)), v_d + off, TIMES, rtol=1e-7)
        H, V = np.asarray(plant.metric.matrix(motion.q)), motion.lyapunov
        s = motion.s / np.sqrt(2.0 * V)[..., None]
        step = np.diff(s, axis=1)
        turn = np.sqrt(np.einsum("mti,mtij,mtj->mt", step, H[:, 1:], step))
        power = np.einsum("mti,mti->mt", motion.tau, np.linalg.solve(H, motion.tau[..., None])[..., 0])
        below = V < 0.01 * V[:, :1]
        found[name] = (
            np.trapezoid(power, TIMES).mean(),
            np.where(below.any(1), TIMES[below.argmax(1)], np.nan).mean(),
            np.where(V[:, 1:] > 1e-4 * V[:, :1], turn, 0.0).sum(1).mean(),
            np.sqrt(np.trapezoid((motion.error**2).sum(-1), TIMES) / TIMES[-1]).mean(),
            *np.sqrt([sizes[0], sizes[1:].sum()]),
        )
        turning[name] = np.cumsum(turn, axis=1).mean(0)
    return found, turning


def attitude(share):
    """A body of 1, 2 and 2.5 kg m^2 that only turns; the law knows a share of its inertia."""
    plant, metric = (cn.ConstantMetric(cn.SO3Frame(), x * np.diag([1.0, 2.0, 2.5])) for x in (1.0, share))
    trace = share * 5.5  # (v x*) I is the member with beta = tr(J) / 6, the least that with -tr(J) / 6
    known = {
        "christoffel": cn.LeviCivita(metric),
        "force_cross": cn.ContorsionFamily(metric).connection(trace / 6.0),
        "least": cn.least_connection(metric),
    }
    models = {name: cn.MechanicalSystem(metric, connection=nabla) for name, nabla in known.items()}
    symbols = [nabla.first_kind([0.0, 0.0, 0.0, 1.0]) for nabla in known.values()]
    return cn.MechanicalSystem(plant), models, turned, largest(np.stack(symbols))


def flying(name, share):
    """A robot without gravity, all of whose velocities have motors; the law knows a share of its inertias."""
    plant = robot(name).with_gravity([0.0, 0.0, 0.0])
    known = plant.with_inertial_parameters(share * mb.inertial_parameters(plant))
    least = known.system().with_connection(cn.least_connection(known.metric))
    models = {"christoffel": known.system(), "force_cross": known.system(gamma=1.0), "least": least}
    joints = plant.nv - 6

    def desired(t):
        place = 0.3 * jnp.sin(2.0 * t + jnp.arange(3.0))
        return jnp.concatenate([place, turned(t), 0.5 * jnp.sin(2.0 * t + jnp.arange(float(joints)))])

    return plant.system(), models, desired, np.array([table[name][1][key][1] for key in MEMBERS])


systems = {"attitude": attitude}
if options.motions:
    systems |= {name: lambda share, name=name: flying(name, share) for name in ("ANYmal B", "UR5")}
turnings = {}
print(
    "\ngain [1/s] | exact: effort, V = 1 % [s], twist [rad], rms error, |C(v)|, |Gamma| "
    "| 0.9 of the inertias: effort, rms error"
)
for name, system in systems.items():
    exact, wrong = system(1.0), system(0.9)
    k_C = exact[3]
    for scaled in (False, True):
        gains = {key: GAIN * (k / k_C[0] if scaled else 1.0) for key, k in zip(MEMBERS, k_C, strict=True)}
        rows = [measured(*found[:3], gains, options.motions or 3) for found in (exact, wrong)]
        turnings.setdefault(name, rows[0][1])
        print(f"{name}, {'gains as k_C' if scaled else 'equal gains'}")
        for key in MEMBERS:
            (effort, time, twist, error, *norms), (other, _, _, bias, *_) = (row[key] for row, _ in rows)
            print(
                f"  {key:12} {gains[key]:6.2f} | {effort:8.4g} {time:6.3f} {twist:7.3f} {error:9.4f} "
                f"{norms[0]:7.2f} {norms[1]:7.2f} | {other:8.4g} {bias:9.4f}"
            )

# %%
# Pictures: k_C for each kilogram in two frames; the ratio for one body; how far the error turns.

figure = new_figure(12.0, 4.6)
figure.set_layout_engine("constrained")
robots, ratio, error = figure.subplots(1, 3, width_ratios=(1.3, 1.0, 1.0))
places = np.arange(len(table))
shown = [(key, key, "o", color) for key, color in MEMBERS.items()]
shown += [("world", "christoffel, world axes", "x", BLACK), ("least, world", "least, world axes", "x", BLUE)]
for key, label, mark, color in shown:
    values = [row[key][1] / mass for mass, row in table.values()]
    robots.plot(values, places, mark, color=color, markersize=4, label=label)
robots.set_yticks(places, table)
robots.invert_yaxis()
robots.set(xscale="log", xlim=(5e-4, 4.0), xlabel="k_C / mass", title="Twenty robots")
robots.legend(fontsize=7, loc="center left")
for key, color in zip(bodies, (BLACK, BLUE, RED), strict=True):
    ratio.plot(sizes, body_ratios[key], color=color, label=key)
ratio.axhline(1.5, color=GREY, linewidth=0.8)
ratio.axvline(0.5, color=GREY, linewidth=0.8)
ratio.set(xlabel="largest second moment / m [m²]", title="One body: k_C, christoffel / least")
ratio.legend(fontsize=8)
until = TIMES[1:] < 1.0
for (name, turning), style in zip(turnings.items(), ("-", ":", "--"), strict=False):
    for key, color in MEMBERS.items():
        error.plot(TIMES[1:][until], turning[key][until], style, color=color, label=f"{name}, {key}")
error.set(yscale="log", ylim=(0.1, 1000.0), xlabel="t [s]", ylabel="rad", title="The error has turned by")
error.legend(fontsize=7, loc="upper left")
figure.savefig(options.directory / "least_coriolis.png")
