"""
Where underactuated mechanisms can go
=====================================

A planar arm of three joints with two motors can go anywhere, whichever joint is passive: it moves along
decoupling fields, from rest to rest. With one motor it cannot, though what it reaches is an open set. The
roller racer has one motor and goes to one side only, except at one angle of its joint, where the second
product <Y:Y> is parallel to Y; the third restores the rank there, and the racer can leave to both sides.
Run: python examples/controllability.py [directory]
"""

import sys
from itertools import combinations
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import connections as cn
from connections.control import controllability

# %%
# The arm, and a verdict for every choice of its motors.

LENGTH, CENTRE, MASS, INERTIA = 0.4, 0.2, 1.0, 0.02  # of each link, SI units
WORDS = {True: "yes", False: "no", None: "undecided"}


def arm(links):
    """The connection of a planar arm of equal links; in absolute angles a, H_ij = M_ij cos(a_i - a_j)."""
    reach = np.tril(np.full((links, links), LENGTH), -1) + CENTRE * np.eye(links)
    M = jnp.asarray(MASS * reach.T @ reach + INERTIA * np.eye(links))
    lower = jnp.tril(jnp.ones((links, links)))

    def mass_matrix(q):
        a = lower @ q
        return lower.T @ (M * jnp.cos(a[:, None] - a[None, :])) @ lower

    return cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(links), mass_matrix))


def table():
    """Verdicts on the arm for every choice of motors."""
    nabla, q = arm(3), np.array([0.3, 0.7, -1.1])
    print(f"{'motors at joints':18}{'accessible':12}{'controllable':14}kinematically")
    for count in (1, 2, 3):
        for joints in combinations(range(3), count):
            motors = controllability.input_fields(nabla, lambda q, rows=joints: jnp.eye(3)[list(rows), :])
            report = controllability.configuration_controllability(nabla, motors, q)
            kinematic = controllability.kinematic_controllability(nabla, motors, q)
            names = ", ".join(str(joint + 1) for joint in joints)
            words = [WORDS[v] for v in (report.accessible, report.controllable, kinematic.controllable)]
            print(f"{names:18}{words[0]:12}{words[1]:14}{words[2]}")
            assert report.controllable == (count > 1)


# %%
# The roller racer: its connection comes from the constraints of its wheels.


def roller_racer():
    """The racer's connection, from its constraint forms, its input, and the angle where <Y:Y> degenerates."""
    m, I_1, I_2, l_1, l_2 = 2.0, 0.3, 0.2, 0.5, 0.3
    H = np.diag([m, m, I_1 + I_2, I_2])
    H[2, 3] = H[3, 2] = I_2

    def forms(q):
        theta, psi, zero = q[2], q[3], 0.0 * q[0]
        first = [jnp.sin(theta), -jnp.cos(theta), zero, zero]
        second = [jnp.sin(theta + psi), -jnp.cos(theta + psi), -(l_2 + l_1 * jnp.cos(psi)), zero - l_2]
        return jnp.stack([jnp.stack(first), jnp.stack(second)])

    nabla = cn.ConstrainedConnection(cn.ConstantMetric(cn.CoordinateFrame(4), H), forms=forms)
    motor = controllability.input_fields(nabla, lambda q: jnp.eye(4)[3:])
    return nabla, motor, np.arccos(l_2 * I_1 / (l_1 * I_2))


# %%
# The sign of the part of the second product across Y is the side within reach.


def along_the_joint(directory):
    """The part of <Y:Y> across Y, against the joint's angle: its sign is the side that is within reach."""
    nabla, motor, special = roller_racer()
    angles, across = np.linspace(-1.4, 1.4, 41), []
    for psi in angles:
        Y, second = controllability.symmetric_closure(nabla, motor, [0.0, 0.0, 0.0, psi], 2).values[:, :2].T
        across.append((Y[0] * second[1] - Y[1] * second[0]) / np.linalg.norm(Y) ** 3)
    for psi in (special, special + 0.2):
        print(f"\nroller racer at psi = {psi:.4f} rad")
        report = controllability.configuration_controllability(nabla, motor, [0.0, 0.0, 0.0, psi])
        print(report)
        assert report.controllable == (psi == special)
    figure, axes = plt.subplots(figsize=(6.0, 3.2), layout="constrained")
    axes.axhline(0.0, color="0.7", linewidth=0.8)
    axes.plot(angles, across, label="<Y:Y> across Y")
    axes.plot([-special, special], [0.0, 0.0], "o", label="<Y:<Y:Y>> takes its place: both sides")
    axes.set(
        xlabel="joint angle [rad]",
        ylabel="part of <Y:Y> across Y, over |Y|$^2$",
        title="Roller racer: one side or both",
    )
    axes.yaxis.label.set_size(9)
    axes.legend()
    figure.savefig(directory / "controllability.png", dpi=120)
    print(f"\nwritten: {directory / 'controllability.png'}")


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    table()
    along_the_joint(folder)
