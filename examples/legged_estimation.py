"""Where is up for ANYmal? Attitude, velocity and the IMU's biases, from encoders and four standing feet

The state is a point of SO(3) x R^21: attitude, and in the axes of the trunk its velocity, the biases of
gyroscope and accelerometer, and the places of the four feet. The IMU drives it, and the legs' kinematics
measure the places of the feet, which stand still. In these variables a measurement is linear; with feet in
the world it is not, and iterations of the update often do not settle. At the end, runs with other noise say
whether the covariances are what the errors are (NEES, one if so): nearly, because a prediction is of first
order, and gravity is large beside what an attitude of 0.1 rad turns it by.
Run: python examples/legged_estimation.py [directory] [runs] [rad, of the attitude]
"""

import sys
import warnings
from functools import partial
from importlib.metadata import files
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import connections as cn
from connections import estimation
from connections import multibody as mb
from connections.geometry.rigid.rotations import quaternion_exponential, rotation_matrix, skew
from connections.plots.canvas import BLACK, BLUE, GREEN, GREY, RED, new_figure

LEGS, NAMES = ("LF", "RF", "LH", "RH"), ("attitude", "velocity", "gyroscope", "accelerometer")
H, EVERY, READINGS = 0.01, 5, 20  # s; samples of the IMU for each reading of the encoders; 1 s
GYRO, ACCELERATION, ENCODER, CONTACT = 0.002, 0.02, 0.005, 0.002  # rad/s/sqrt(Hz), m/s^2/sqrt(Hz), rad, m
GRAVITY = jnp.array([0.0, 0.0, -9.81])
ATTITUDE, VELOCITY, OF_GYRO, OF_ACCELERATION = (slice(3 * i, 3 * i + 3) for i in range(4))  # of errors
PRIOR = np.repeat([0.1, 0.5, 0.05, 0.3, 0.05, 0.05, 0.05, 0.05], 3)  # rad, m/s, rad/s, m/s^2, m


# --- the filter --------------------------------------------------------------------------------------------


def parts(q):
    """R, velocity, both biases and the feet (4, 3), in the axes of the trunk."""
    return rotation_matrix(q[:4]), q[4:7], q[7:10], q[10:13], q[13:].reshape(4, 3)


def velocity(q, imu, t):
    """What the IMU measures, less its biases, moves the trunk; biases stay, and feet in the world."""
    R, v, of_gyro, of_acceleration, feet = parts(q)
    omega = imu[:3] - of_gyro
    acceleration = imu[3:] - of_acceleration + GRAVITY @ R - jnp.cross(omega, v)
    return jnp.concatenate([omega, acceleration, jnp.zeros(6), (-jnp.cross(omega, feet) - v).reshape(-1)])


def noise(q, imu, t):
    """The gyroscope's noise turns all that is in the axes of the trunk; the accelerometer's is one of v."""
    _, v, *_, feet = parts(q)
    turned = jnp.concatenate([jnp.eye(3), skew(v), jnp.zeros((6, 3)), skew(feet).reshape(12, 3)])
    pushed = jnp.zeros((24, 3)).at[VELOCITY].set(jnp.eye(3))
    return GYRO**2 * turned @ turned.T + ACCELERATION**2 * pushed @ pushed.T


def feet_seen(q):
    """The feet in the axes of the trunk, (12,), m."""
    return q[13:]


manifold = cn.ProductFrame(cn.SO3Frame(), cn.CoordinateFrame(21))


def filter_of(reset, iterations):
    return estimation.Filter(manifold, velocity, noise=noise, reset=reset, iterations=iterations)


# --- the truth: the trunk sways over its feet --------------------------------------------------------------


def trunk(t):
    """Rotation vector and position of a wish; the truth follows the IMU of it, sample by sample."""
    turn = jnp.stack([0.15 * jnp.sin(3.0 * t), 0.1 * jnp.sin(4.0 * t), 0.2 * jnp.sin(2.0 * t)])
    return turn, jnp.stack([0.04 * jnp.sin(4.0 * t), 0.05 * jnp.sin(3.0 * t), 0.02 * jnp.cos(5.0 * t)])


def imu_of(t):
    def R(s):
        return rotation_matrix(quaternion_exponential(trunk(s)[0]))

    turning = R(t).T @ jax.jacfwd(R)(t)
    acceleration = jax.jacfwd(jax.jacfwd(lambda s: trunk(s)[1]))(t)
    spin = jnp.stack([turning[2, 1], turning[0, 2], turning[1, 0]])
    return jnp.concatenate([spin, R(t).T @ (acceleration - GRAVITY)])


def truth(height, feet):
    """States (samples + 1, 25) without biases, what an ideal IMU measures (samples, 6), and the positions."""
    count, slow = EVERY * READINGS, filter_of("exact", 1)
    imu = jax.vmap(imu_of)(H * (jnp.arange(count) + 0.5))
    p, v = trunk(0.0)[1] + jnp.array([0.0, 0.0, height]), jax.jacfwd(lambda s: trunk(s)[1])(0.0)
    q = jnp.concatenate([jnp.array([0.0, 0.0, 0.0, 1.0]), v, jnp.zeros(6), (feet - p).reshape(-1)])

    def move(q, u):
        end = slow.space.course_at((q,), u, 0.0, H).end[0]
        return end, end

    states = jnp.concatenate([q[None], jax.lax.scan(move, q, imu)[1]])
    R, *_, seen = jax.vmap(parts)(states)
    return states, imu, feet[0] - jnp.einsum("tij,tj->ti", R, seen[:, 0])


def anymal():
    """The robot, standing, and its feet in the world."""
    wanted = "b_simple_description/robots/anymal.urdf"
    (urdf,) = [f.locate() for f in files("example-robot-data") if str(f).endswith(wanted)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mb.InertiaWarning)  # of a link without a mass
        robot = mb.from_urdf(urdf, floating_base=True)
    q = robot.neutral()
    for leg in LEGS:
        bend = 0.6 if leg[1] == "F" else -0.6
        q[robot.configuration_slice(f"{leg}_HFE")] = bend
        q[robot.configuration_slice(f"{leg}_KFE")] = -2.0 * bend
    q[2] -= min(mb.frame_pose(robot, q, f"{leg}_FOOT")[2, 3] for leg in LEGS)
    return robot, q, np.stack([mb.frame_pose(robot, q, f"{leg}_FOOT")[:3, 3] for leg in LEGS])


def readings(robot, posture, states, positions, feet):
    """The joints of the truth by inverse kinematics, and what their encoders' noise does to the feet.

    Returns the covariances (readings, 12, 12) of the feet in the axes of the trunk, and how far the
    kinematics are from the state, m.
    """
    poses = np.tile(np.eye(4), (len(states), 1, 1))
    poses[:, :3, :3], poses[:, :3, 3] = jax.vmap(lambda q: rotation_matrix(q[:4]))(states), positions
    targets = {"base": poses} | {f"{leg}_FOOT": feet[i] for i, leg in enumerate(LEGS)}
    found = mb.inverse_kinematics(robot, targets, posture, limits=False).require()
    N, far = np.zeros((len(states), 12, 12)), 0.0
    for i, leg in enumerate(LEGS):
        own = np.asarray(mb.frame_jacobian(robot, found.q, f"{leg}_FOOT", axes="world"))[:, 3:, 6:]
        J = np.swapaxes(poses[:, :3, :3], 1, 2) @ own
        rows = slice(3 * i, 3 * i + 3)
        N[:, rows, rows] = ENCODER**2 * J @ np.swapaxes(J, 1, 2) + CONTACT**2 * np.eye(3)
        seen = mb.frame_pose(robot, found.q, f"{leg}_FOOT")[:, :3, 3] - positions
        seen = np.einsum("tji,tj->ti", poses[:, :3, :3], seen)
        far = max(far, np.abs(seen - states[:, 13 + 3 * i : 16 + 3 * i]).max())
    return N, far


# --- runs --------------------------------------------------------------------------------------------------


def run(key, filter, prior, states, imu, N, roots):
    """One run with its own prior, biases and noise: q_hat, P and the errors, after each reading."""
    drawn, shaken, read = jax.random.split(key, 3)
    error = jnp.asarray(prior) * jax.random.normal(drawn, (24,))
    biases = error[OF_GYRO.start : OF_ACCELERATION.stop]
    ends = states[EVERY::EVERY].at[:, 7:13].set(biases)
    begin = filter.space.moved_at((states[0].at[7:13].set(biases),), -error)[0][0]  # truth = exp(error)
    noise = jnp.repeat(jnp.array([GYRO, ACCELERATION]), 3) / np.sqrt(H) * jax.random.normal(shaken, imu.shape)
    measured = (imu + biases + noise).reshape(READINGS, EVERY, 6)
    ys = jax.vmap(feet_seen)(ends) + jnp.einsum("tij,tj->ti", roots, jax.random.normal(read, (READINGS, 12)))

    def cycle(estimate, given):
        imu, y, N, number, q = given
        times = H * (EVERY * number + 1.0 + jnp.arange(EVERY))
        step = lambda e, a: (filter.predict(e, a[0], a[1]), None)  # noqa: E731
        estimate, _ = jax.lax.scan(step, estimate, (imu, times))
        estimate, _ = filter.update(estimate, y, estimation.Sensor(feet_seen, N))
        return estimate, (estimate.q, estimate.P, filter.space.difference_at(estimate.state, (q,)))

    start = estimation.Estimate(begin, jnp.diag(jnp.asarray(prior) ** 2), t=jnp.zeros(()))
    given = measured, ys, N, jnp.arange(READINGS), ends
    return jax.lax.scan(cycle, start, given)[1]


def nees(e, P, which):
    e, P = e[..., which], P[..., which, which]
    return np.einsum("...i,...i->...", e, np.linalg.solve(P, e[..., None])[..., 0]) / e.shape[-1]


def main():
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    prior = PRIOR.copy()
    prior[ATTITUDE] = float(sys.argv[3]) if len(sys.argv) > 3 else 0.1
    robot, posture, feet = anymal()
    states, imu, positions = truth(posture[2], jnp.asarray(feet))
    every = slice(EVERY, None, EVERY)
    N, far = readings(robot, posture, *(np.asarray(a[every]) for a in (states, positions)), feet)
    print(f"feet of the inverse kinematics are {far:.1e} m off")
    keys = jax.random.split(jax.random.PRNGKey(0), runs)
    found = {}
    for name, (reset, iterations) in {
        "iterated, exact reset": ("exact", 30),
        "iterated, no reset": (None, 30),
    }.items():
        filter = filter_of(reset, iterations)
        one = partial(
            run,
            filter=filter,
            prior=prior,
            states=states,
            imu=imu,
            N=N,
            roots=np.linalg.cholesky(N),
        )
        several = jax.jit(lambda keys, one=one: jax.lax.map(one, keys))(keys)
        _, P, e = found[name] = [np.asarray(a) for a in several]
        good = np.isfinite(e).all(axis=(1, 2))
        means = nees(e[good], P[good], slice(0, 24)).mean(axis=0)
        shown = " ".join(f"{means[i]:.2f}" for i in (0, 1, 3, -1))
        print(f"{name}: NEES {shown} after readings 1, 2, 4 and the last; {(~good).sum()} failed", flush=True)
    draw(found, directory / "legged_estimation.png")


def draw(found, path):
    times = H * EVERY * np.arange(1, READINGS + 1)
    figure = new_figure(11.0, 3.6)
    figure.set_layout_engine("constrained")
    axes = figure.subplots(1, 3)
    _, P, e = found["iterated, exact reset"]
    colours = dict(zip(NAMES, (BLUE, GREEN, RED, GREY), strict=True))
    for axis, group in ((axes[0], (0, 1)), (axes[1], (2, 3))):
        for number in group:
            which = (ATTITUDE, VELOCITY, OF_GYRO, OF_ACCELERATION)[number]
            size = np.sqrt((e[..., which] ** 2).mean(axis=(0, 2)))
            said = np.sqrt(np.diagonal(P, axis1=2, axis2=3)[..., which].mean(axis=(0, 2)))
            axis.semilogy(times, size, color=colours[NAMES[number]], label=NAMES[number])
            axis.semilogy(times, said, "--", color=BLACK, linewidth=0.8)
        axis.set(xlabel="time, s", title="rms error; dashed: by the filter")
        axis.legend()
    axes[0].set_ylabel("rad, m/s")
    axes[1].set_ylabel("rad/s, m/s²")
    for name, colour in zip(found, (BLUE, RED), strict=True):
        _, P, e = found[name]
        good = np.isfinite(e).all(axis=(1, 2))
        axes[2].plot(times, nees(e[good], P[good], slice(0, 24)).mean(axis=0), color=colour, label=name)
    axes[2].set(xlabel="time, s", title="NEES, one if consistent", ylim=(0.9, None))
    axes[2].axhline(1.0, color=BLACK, linewidth=0.8)
    axes[2].legend()
    for axis in axes:
        axis.grid(True, which="both", alpha=0.2)
    figure.savefig(path)
    print(path)


if __name__ == "__main__":
    main()
