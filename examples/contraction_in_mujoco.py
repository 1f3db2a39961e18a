"""
How fast do motions of an arm in MuJoCo come together? Predicted and measured, once per Coriolis matrix
======================================================================================================

A UR5 in MuJoCo follows waves of its joints by tau = H a_r + C v_r + g - K s. Neighbours of a motion start
beside it. `contraction_rates` says how fast they have to come together (a bound, which is proved) and how
fast they are likely to (an indicator), from the feedback's stiffness and damping along the measured motion.
Run: python examples/contraction_in_mujoco.py
"""

import itertools
from functools import partial
from importlib.metadata import files

import numpy as np
from scipy.integrate import cumulative_trapezoid

from connections import control
from connections import multibody as mb
from connections.control import contraction_rates, stiffness_and_damping

# %%
# The arm, its law, and the choices of C
# --------------------------------------
#
# As in `torsion_on_arms.py`: K = k H(middle) with k = 20 / s, v_r = v_d - 8 (q - q_d) / s, and strengths in
# the units of the gain, the rms of the norm of H^(-1/2) (C - C*) H^(-1/2) along the reference.

GAIN, PULL, PERIOD, DURATION = 20.0, 8.0, 1e-3, 0.6  # 1/s, 1/s, s, s
(urdf,) = [f.locate() for f in files("example-robot-data") if str(f).endswith("urdf/ur5_robot.urdf")]
arm, middle = mb.from_urdf(urdf), np.array([0.0, -1.2, 1.6, -2.0, -1.57, 0.0])
H_0, n, eye = mb.mass_matrix(arm, middle), arm.nv, np.eye(arm.nv)
plant = control.MuJoCoPlant(control.MuJoCoRobot.of(arm), period=PERIOD)
rng = np.random.default_rng(0)
waves, phases, turning = rng.uniform(0.2, 0.5, n), rng.uniform(0.0, 6.3, n), rng.uniform(3.0, 5.0, n)
D = np.zeros((n, n, n))  # D[j, i, k], skew in all indices
for i, j, k in itertools.combinations(range(n), 3):
    size = rng.standard_normal() * np.prod(np.sqrt(np.diag(H_0)[[i, j, k]]))
    D[j, i, k] = D[i, k, j] = D[k, j, i] = size
    D[i, j, k] = D[k, i, j] = D[j, k, i] = -size


def reference(t):
    """q_d, v_d and a_d."""
    angle = turning * t + phases
    return (
        middle + waves * np.sin(angle),
        waves * turning * np.cos(angle),
        -waves * turning**2 * np.sin(angle),
    )


def torsion(q, v):
    """C - C* of the factor (v x*) I."""
    return mb.coriolis_matrix(arm, q, v, body_factor="force_cross") - mb.coriolis_matrix(arm, q, v)


def contorsion(q, v):
    """C - C* of a contorsion of random numbers."""
    return np.tensordot(v, D, 1)


def not_skew(q, v):
    """C*(v)^T w - C*(w)^T v as a matrix, which vanishes for w = v."""
    back = [mb.coriolis_transpose_product(arm, q, w, v) for w in eye]
    return mb.coriolis_matrix(arm, q, v).T - np.transpose(back)


def strength(addition):
    """The rms along the reference, 1/s."""
    root, squares = np.linalg.inv(np.linalg.cholesky(H_0)), []
    for t in np.linspace(0.0, DURATION, 20):
        q, v, _ = reference(t)
        squares.append(np.sum((root @ addition(q, v) @ root.T) ** 2))
    return np.sqrt(np.mean(squares))


CHOICES = {"Christoffel": (torsion, 0.0), "torsion 10": (torsion, 10.0), "torsion 40": (torsion, 40.0)}
CHOICES |= {"random 40": (contorsion, 40.0), "not skew 10": (not_skew, 10.0), "not skew 40": (not_skew, 40.0)}


def law(name):
    """The torque (t, q, v) -> tau."""
    addition, wanted = CHOICES[name]
    size, still = wanted / strength(addition), np.zeros(n)

    def torque(t, q, v):
        q_d, v_d, a_d = reference(t)
        v_r, a_r = v_d - PULL * (q - q_d), a_d - PULL * (v - v_d)
        C_v = mb.coriolis_product(arm, q, v, v_r) + size * (addition(q, v) @ v_r)
        return mb.inverse_dynamics(arm, q, still, a_r) + C_v - GAIN * H_0 @ (v - v_r)

    return torque


# %%
# Stiffness and damping of a feedback f(q, v), by differences: D = -df/dv, and, with the symbols Gamma^a_jc of
# the connection without torsion,
#
#    K_ij = -(df_i/dq^j - Gamma^a_ji f_a - df_i/dv^k Gamma^k_jc v^c).


def transported(q, v):
    """Gamma^a_jc v^c, (a, j): how a vector v that is carried along e_j changes."""
    lowered = [mb.coriolis_matrix(arm, q, e) for e in eye]
    return np.linalg.solve(mb.mass_matrix(arm, q), np.transpose([C @ v for C in lowered]))


def stiffness(f, q, v, h=1e-6):
    """K and D, (n, n)."""
    of_q, of_v = (
        np.transpose(
            [(f(q + h * a * e, v + h * b * e) - f(q - h * a * e, v - h * b * e)) / (2 * h) for e in eye]
        )
        for a, b in ((1, 0), (0, 1))
    )
    of_force = np.transpose([f(q, v) @ transported(q, e) for e in eye])  # (j, i)
    return of_force.T + of_v @ transported(q, v) - of_q, -of_v


q, v, _ = reference(0.1)
q, v = q + 0.1, v - 0.2
q_d, v_d, a_d = reference(0.1)
same = control.PassivityController(arm.system(), GAIN * H_0)


def traced(t, q, v):
    """The law of Christoffel's C in JAX."""
    return same.torque_at(q, v, v_d - PULL * (q - q_d), a_d - PULL * (v - v_d))


ours = stiffness(lambda q, v: law("Christoffel")(0.1, q, v), q, v)
for one, other in zip(ours, stiffness_and_damping(arm.connection, traced, q, v), strict=True):
    assert np.allclose(one, other, atol=1e-6 * np.abs(other).max())  # differences against derivatives

# %%
# Predicted and measured
# ----------------------
#
# Distances are the root of V = kappa |eta|^2 + 2 delta <eta, w> + |w|^2, of the difference eta and its
# covariant rate w, with the weights that the bound is about.


def motion(torque, away):
    """q and v of the motion from a start that is off by 0.05 rad and `away`."""
    q_d, v_d, _ = reference(0.0)
    control.prepare(torque, 0.0, q_d, v_d)  # no call in the loop waits for a compilation
    found = plant.simulate(torque, q_d + 0.05 + away[0], v_d + away[1], DURATION)
    return found.q[steps], found.v[steps]


steps = np.arange(0, round(DURATION / PERIOD) + 1, 10)
times = PERIOD * steps
print("mean rates [1/s] over 0.6 s: bound, indicator, and five neighbours, slowest to fastest")
for name in CHOICES:
    torque = law(name)

    q, v = motion(torque, np.zeros((2, n)))
    pairs = []
    for t, *state in zip(times, q, v, strict=True):
        pairs.append(stiffness(partial(torque, t), *state))
    rates = contraction_rates(arm, q, v, *map(np.array, zip(*pairs, strict=True)))
    bound, fall = cumulative_trapezoid(rates.bound, times, initial=0.0), []
    for seed in range(5):
        beside = motion(torque, 1e-5 * np.random.default_rng(seed).normal(size=(2, n)))
        eta, w = beside[0] - q, beside[1] - v
        w = w + [transported(*state) @ e for *state, e in zip(q, v, eta, strict=True)]
        V = sum(
            weight * np.einsum("ti,tij,tj->t", a, rates.metric, b)
            for weight, a, b in ((rates.kappa, eta, eta), (2 * rates.delta, eta, w), (1.0, w, w))
        )
        fall.append(0.5 * np.log(V / V[0]))
    fall = np.array(fall)
    assert (fall <= bound + 1e-2).all()
    likely = np.mean(rates.indicator.real.max(axis=-1))
    ends = np.sort(fall[:, -1])[[-1, 0]] / DURATION
    print(f"{name:14}{bound[-1] / DURATION:8.2f}{likely:8.2f}{ends[0]:8.2f} to {ends[1]:.2f}")
