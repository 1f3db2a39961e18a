"""Covariances of a robot are what errors are: NEES and NIS of many runs, all at once."""

import runpy
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

import connections as cn
from connections import estimation
from connections import multibody as mb

RUNS = 600


def nees(filter, estimate, *truth):
    e = filter.space.difference_at(estimate.state, truth)
    return e @ jnp.linalg.solve(estimate.P, e) / len(e)


URDF = """<robot name="arm"><link name="base"/>
<link name="upper"><inertial><origin xyz="0.5 0 0"/><mass value="2"/>
<inertia ixx="0.01" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="lower"><inertial><origin xyz="0.5 0 0"/><mass value="1"/>
<inertia ixx="0.01" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="a" type="continuous"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/></joint>
<joint name="b" type="continuous"><parent link="upper"/><child link="lower"/><origin xyz="1 0 0"/>
<axis xyz="0 1 0"/></joint></robot>"""
STEP, DEVIATIONS = 0.02, np.array([0.05, 0.05, 0.5, 0.5])


def test_the_covariance_of_a_damped_spring_at_rest():
    """Two slides, one on the other, with a spring and dampers, beside the exponential of a matrix."""
    mechanism, k, d, noise = mb.Mechanism(), 3.0, np.array([0.7, 0.2]), np.diag([0.04, 0.01])
    for parent, body in (("world", "one"), ("one", "two")):
        mechanism.add_body(body, mass=1.0, inertia=np.eye(3))
        mechanism.add_joint(body, parent, body, mb.Prismatic((1, 0, 0)))
    spring = mb.joints.Spring("spring", {"two": 1.0}, stiffness=k)
    robot = mechanism.build().with_passive(mb.joints.Passive((spring,), damping={"one": d[0], "two": d[1]}))
    inverse = np.linalg.inv([[2.0, 1.0], [1.0, 1.0]])
    A = np.block([[np.zeros((2, 2)), np.eye(2)], [-inverse @ np.diag([0.0, k]), -inverse * d]])
    Q = np.kron(np.diag([0.0, 1.0]), inverse @ noise @ inverse)
    P, h = np.diag([0.01, 0.02, 0.05, 0.04]), 0.05
    both = expm(np.block([[-A, Q], [np.zeros((4, 4)), A.T]]) * h)
    Phi = both[4:, 4:].T
    exact = Phi @ P @ Phi.T + Phi @ both[:4, 4:]

    def force(t, q, v):
        return jnp.array([0.0, -k]) * q - d * v

    of_function = cn.MechanicalSystem(robot.metric, forces=force, connection=robot.connection)
    for system in (robot.system(passive=True), of_function):
        estimate = estimation.Estimate(np.zeros(2), P, v=np.zeros(2))
        found = estimation.Filter(system, noise=noise).predict(estimate, None, t=h).P
        assert np.abs(found - exact).max() < 1e-5 * np.abs(exact).max()


@pytest.mark.further
def test_an_arm_with_encoders(tmp_path):
    """The truth has torques drawn at random, and goes by the forward dynamics of the recursion."""
    path = tmp_path / "arm.urdf"
    path.write_text(URDF)
    robot = mb.from_urdf(path)
    filter = estimation.Filter(robot, noise=0.05**2 * np.eye(2))
    sensor = estimation.Sensor(lambda q, v: q, 0.01**2 * np.eye(2))
    q0, v0, tau = np.array([0.5, 1.0]), np.array([0.5, -1.0]), np.array([2.0, -1.0])

    def run(key):
        drawn, shaken, read = jax.random.split(key, 3)
        x, *_ = filter.space.moved_at(
            (jnp.asarray(q0), jnp.asarray(v0)), DEVIATIONS * jax.random.normal(drawn, (4,))
        )
        noise = 0.05 / np.sqrt(STEP) * jax.random.normal(shaken, (3, 2))
        readings = 0.01 * jax.random.normal(read, (3, 2))

        def move(carried, given):
            (q, v), estimate = carried
            noise, reading, t = given
            for _ in range(2):  # the midpoint rule, in two steps
                half = v + STEP / 4 * mb.forward_dynamics(robot, q, v, tau + noise)
                a = mb.forward_dynamics(robot, q + STEP / 4 * v, half, tau + noise)
                q, v = q + STEP / 2 * half, v + STEP / 2 * a
            estimate = filter.predict(estimate, tau, t)
            estimate, said = filter.update(estimate, q + reading, sensor)
            return ((q, v), estimate), (nees(filter, estimate, q, v), said.nis / 2)

        start = jax.tree_util.tree_map(jnp.asarray, estimation.Estimate(q0, np.diag(DEVIATIONS**2), v=v0))
        return jax.lax.scan(move, (x, start), (noise, readings, STEP * jnp.arange(1, 4)))[1]

    found = jax.jit(jax.vmap(run))(jax.random.split(jax.random.PRNGKey(8), RUNS))
    errors, residuals = (np.asarray(a).mean(axis=0) for a in found)
    assert np.abs(errors - 1.0).max() < 4.0 * np.sqrt(2.0 / (4 * RUNS)), errors
    assert np.abs(residuals - 1.0).max() < 4.0 * np.sqrt(2.0 / (2 * RUNS)), residuals


@pytest.mark.further
def test_a_trunk_with_an_imu_and_feet_that_stand():
    """The example's filter of 24 errors, with biases, and feet that are given: no robot is compiled."""
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "legged_estimation.py"))
    feet = jnp.array([[0.35, 0.25, 0.0], [0.35, -0.25, 0.0], [-0.35, 0.25, 0.0], [-0.35, -0.25, 0.0]])
    states, imu, _ = example["truth"](0.45, feet)
    prior, runs, deviation = example["PRIOR"].copy(), 80, 0.003
    prior[example["ATTITUDE"]] = 0.05
    count = example["READINGS"]
    given = {"N": np.tile(deviation**2 * np.eye(12), (count, 1, 1))}
    given |= {"roots": np.tile(deviation * np.eye(12), (count, 1, 1)), "states": states, "imu": imu}
    filter = example["filter_of"]("exact", 30)
    keys = jax.random.split(jax.random.PRNGKey(2), runs)
    one = lambda key: example["run"](key, filter, prior, **given)  # noqa: E731
    _, P, e = (np.asarray(a) for a in jax.jit(lambda keys: jax.lax.map(one, keys))(keys))
    means = example["nees"](e, P, slice(0, 24)).mean(axis=0)
    assert np.abs(means[:4] - 1.0).max() < 4.0 * np.sqrt(2.0 / (24 * runs)), means
    assert means.max() < 1.3
    bias = e[..., example["OF_GYRO"]]
    assert np.sqrt((bias[:, -1] ** 2).mean()) < 0.2 * prior[example["OF_GYRO"]][0]  # it is found
    assert example["nees"](e, 0.7 * P, slice(0, 24)).mean(axis=0)[0] > 1.0 + 8.0 * np.sqrt(2.0 / (24 * runs))
