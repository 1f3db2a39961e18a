"""Faults of relative size 1e-6, one or more for every row of `verify`: what the row is about, a little wrong.

A fault replaces a definition at one point, or a function, by the same with its largest entry multiplied by
1 + 1e-6: always the same entry, the largest at the first call. The system under test is made anew, as what is
compiled stays with it.
"""

from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from connections import coriolis, systems
from connections.affine import (
    ConnectionWithContorsion,
    ConstrainedConnection,
    ContorsionFamily,
    FullConnection,
    InducedConnection,
    LeviCivita,
    StatisticalModel,
    WeylConnection,
    least,
    statistical_model,
)
from connections.affine.combinations import TorsionFreePart
from connections.affine.connection import AffineConnection, PointwiseConnection
from connections.affine.statistical_models import AmariChentsovTensor
from connections.checks import Check
from connections.control.laws.inertia_cone import InertiaCone
from connections.coriolis.matrix import CoriolisConnection
from connections.estimation import displacements, updates
from connections.evaluation import compilation
from connections.geometry import MatrixFrame, MatrixMetric
from connections.geometry.frames import FrameField
from connections.multibody import from_urdf
from connections.multibody.definition import spatial
from connections.verify import as_subject, filters, induced, nonholonomic_subject
from connections.verify.built_in import BUILT_IN
from connections.verify.propositions import NONHOLONOMIC_ORDER, ORDER, Sample, catalogue
from connections.verify.robots import robot_subject
from connections.verify.subjects import subject_of

SIZE = 1e-6


class Fault(NamedTuple):
    """A function of an owner, and how an entry's share in what the row is about is measured."""

    owner: Any
    name: str
    share: Callable[[np.ndarray], np.ndarray] = np.abs


def recorded(function, share, found):
    """The function, which puts the shape of its values and the place of the entry to change into `found`."""

    def note(value):
        found.append((value.shape, int(np.argmax(share(value)))))

    def original(*arguments, **keywords):
        value = jnp.asarray(function(*arguments, **keywords))
        jax.debug.callback(note, value)
        return value

    return original


def nudged(function, shape, place):
    """The function with one entry of its values of that shape multiplied by 1 + SIZE."""

    def wrong(*arguments, **keywords):
        value = jnp.asarray(function(*arguments, **keywords))
        if value.shape != shape:
            return value
        return value.ravel().at[place].multiply(1.0 + SIZE).reshape(shape)

    return wrong


def turning(Gamma):
    """The part of coefficients that torsion sees."""
    return np.abs(Gamma - np.swapaxes(Gamma, 1, 2))


def falling(Gamma):
    """The part of a floating robot's coefficients by which its base turns and falls."""
    return np.abs(Gamma) * (np.arange(Gamma.shape[2]) // 3 == 1)


GAMMA = Fault(LeviCivita, "coefficients_at")
BRACKETS = Fault(FrameField, "structure_functions_at")
HAMEL = Fault(coriolis.MechanicalSystem, "hamel_at")
DERIVATIVE = Fault(AffineConnection, "covariant_derivative_at")
LAW = Fault(induced, "induced_coriolis_matrix")
FULL = Fault(FullConnection, "coefficients_at")
CONSTRAINED = Fault(ConstrainedConnection, "coefficients_at")
CURVATURE = Fault(ConstrainedConnection, "curvature_at")
RIEMANN = Fault(PointwiseConnection, "curvature_at")
FORWARD = Fault(coriolis.NonholonomicSystem, "forward_dynamics_at")
FORCE = Fault(coriolis.NonholonomicSystem, "constraint_force_at")

#: Row -> what is nudged, one after the other: each alone has to be noticed.
FAULTS = {
    "A1": [DERIVATIVE],
    "A2": [DERIVATIVE],
    "Thm III.1": [GAMMA],
    "Koszul": [DERIVATIVE],
    "(5)": [GAMMA],
    "(8)": [GAMMA, BRACKETS],
    "(9)": [GAMMA],
    "Prop III.1 if": [GAMMA],
    "Prop III.1 only if": [GAMMA],
    "Prop III.2 if": [GAMMA],
    "Prop III.2 only if": [GAMMA],
    "Thm III.2": [Fault(TorsionFreePart, "coefficients_at")],
    "Cor III.1": [Fault(ContorsionFamily, "contorsion_of_at")],
    "(6)": [GAMMA, HAMEL],
    "Prop IV.1 if": [GAMMA],
    "Prop IV.1 only if": [Fault(CoriolisConnection, "coefficients_at")],
    "Prop IV.2 if": [GAMMA],
    "Prop IV.2 only if": [GAMMA],
    "Cor IV.1": [GAMMA],
    "(12)": [Fault(ContorsionFamily, "contorsion_of_at")],
    "least": [Fault(least, "half_alternated")],
    "Thm V.1": [Fault(InducedConnection, "apply_at")],
    "Prop V.1": [LAW],
    "Prop V.2": [LAW],
    "Prop V.3": [LAW],
    "Remark 7": [LAW],
    "Remark 8": [Fault(induced, "task_space_coriolis_matrix_at")],
    "(18)": [GAMMA, Fault(spatial, "body_coriolis")],
    "(19)": [Fault(spatial, "body_coriolis_blocks")],
    "(20)": [GAMMA],
    "(21)": [Fault(spatial, "body_factor")],
    "LKP cone": [Fault(InertiaCone, "geodesic_step")],
    "LKP frames": [Fault(InertiaCone, "direction")],
    "LKP rate": [Fault(InertiaCone, "direction")],
    "LKP dual": [Fault(InertiaCone, "divergence")],
    "model": [Fault(InducedConnection, "coefficients_at")],
    "(29)": [GAMMA],
    "(30)": [GAMMA, BRACKETS],
    "(31)": [GAMMA],
    "(32)": [GAMMA],
    "Bianchi 1": [RIEMANN],
    "Bianchi 2": [RIEMANN],
    "R symmetries": [RIEMANN],
    "Ricci identity": [RIEMANN],
    "sectional": [RIEMANN],
    "Jacobi": [RIEMANN],
    "E (42)": [Fault(InducedConnection, "coefficients_at", falling)],
    "Weyl": [Fault(WeylConnection, "contorsion_at")],
    "dual": [Fault(ConnectionWithContorsion, "coefficients_at")],
    "dual R": [RIEMANN],
    "parts": [Fault(AffineConnection, "torsion_at"), Fault(AffineConnection, "_nonmetricity_at")],
    "AN alpha": [Fault(AmariChentsovTensor, "__call__")],
    "AN flat": [Fault(AmariChentsovTensor, "__call__")],
    "AN Pythagoras": [Fault(StatisticalModel, "divergence_at"), Fault(AmariChentsovTensor, "__call__")],
    "F exp": [Fault(filters, "_slope_at")],
    "F reset": [Fault(filters, "_bent_coefficients_at")],
    "F mean": [Fault(filters, "_bent_coefficients_at")],
    "F spread": [Fault(filters, "_transition_at")],
    "F damped": [Fault(filters, "_damped_at")],
    "F members": [
        Fault(filters, "_group_slope_at"),
        Fault(displacements, "adjoint_of_exponential_at"),
    ],
    "F affine": [Fault(filters, "_affine_at")],
    "F drift": [Fault(filters, "_drift_at")],
    "F shift": [Fault(filters, "_shift_at")],
    # A wrong step is no fault: the next ones mend it.
    "F Kalman": [Fault(updates, "lower_factor"), Fault(updates, "product")],
    "Z (4)": [FORCE, Fault(coriolis.NonholonomicSystem, "multipliers_at")],
    "Z power": [FORCE],
    "Z (5)": [FORWARD],
    "Z energy": [FORWARD],
    "Z moving": [FORWARD],
    "Z moving power": [FORWARD, Fault(coriolis.NonholonomicSystem, "constraint_power_at")],
    "Z (6)": [FULL],
    "Z (7)": [CONSTRAINED],
    "Z Lemma 3.1": [FULL],
    "Z Thm 3.2": [CONSTRAINED],
    "Z Thm 3.2 forms": [Fault(ConstrainedConnection, "input_coefficients_at")],
    "Z Thm 3.2 functions": [Fault(ConstrainedConnection, "input_coefficients_of_functions_at")],
    "Z Lemma 3.3": [CONSTRAINED],
    "Z metric": [CONSTRAINED],
    "Z transport": [CONSTRAINED],
    "Z torsion": [Fault(ConstrainedConnection, "coefficients_at", turning)],
    "Z Koszul": [CONSTRAINED],
    "Z full torsion": [FULL],
    "Z full metric": [FULL],
    "Z curvature": [CURVATURE],
    "Z Schouten": [CURVATURE, Fault(ConstrainedConnection, "schouten_curvature_at")],
}  # fmt: skip

#: Rows that count the rank of equations in which only n occurs: nothing in them could be a little wrong.
COUNTS = {"Thm III.1 unique", "Thm III.2 unique", "Cor III.2"}
#: Rows of inequalities, which an error in the right direction does not touch: verify/test_constants.py.
ENDS = {"sup H", "sup dg", "sup C"}


def fresh(name, seed=0):
    """A built-in system made anew, with one sample."""
    (make, points), rng = BUILT_IN[name], np.random.default_rng([seed, *b"fresh"])
    system, bodies = make.__wrapped__()
    return subject_of(name, system, points(rng, 1), rng, seed, bodies)


def generic_system(seed=0):
    """Three feasible fields in four dimensions without any symmetry: no tensor of it vanishes; one sample."""
    rng, n = np.random.default_rng([3, *b"generic"]), 4
    S, slopes, turns, W = (rng.normal(size=(n,) * k) for k in (2, 3, 3, 1))

    def frame(q):
        return jnp.eye(n) + 0.3 * jnp.sin(jnp.einsum("ijk,k->ij", turns, q))

    def mass_matrix(q):
        root = jnp.eye(n) + 0.3 * jnp.sin(S + jnp.einsum("ijk,k->ij", slopes, q))
        return root @ root.T

    def forms(q):
        return (W + jnp.cos(S @ q))[None]

    def basis(q):  # oblique: the form solved for the first velocity
        w = forms(q)[0] * jnp.array([3.0, 1.0, 1.0, 1.0])
        change = jnp.eye(n - 1) + 0.2 * jnp.sin(q[:3]) * S[:3, :3]
        return jnp.concatenate([-w[None, 1:] / w[0], jnp.eye(n - 1)]) @ change

    def weighted_forms(q):
        return forms(q) * jnp.array([3.0, 1.0, 1.0, 1.0])

    metric = MatrixMetric(MatrixFrame(frame, n, n), mass_matrix)
    nabla = ConstrainedConnection(metric, basis, forms=weighted_forms)
    system = coriolis.NonholonomicSystem(
        nabla, potential=lambda q: jnp.sin(q @ W), inputs=lambda q: jnp.stack([jnp.cos(q), W])
    )
    own = np.random.default_rng([seed, *b"fresh"])
    return nonholonomic_subject("generic", system, own.uniform(-0.3, 0.3, size=(1, n)), own, seed=seed)


_robots = count()


def branched(**options):
    """Two moving links of a file, equal to no other robot: of equal ones JAX keeps traces without faults."""
    gravity = 0.0, 0.0, -9.81 * (1.0 + 1e-9 * next(_robots))
    return from_urdf(Path(__file__).parents[1] / "data" / "branched.urdf", gravity=gravity, **options)


def robot(seed=0):
    """This robot, made anew."""
    return robot_subject(branched(), "branched", samples=1, seed=seed)


def floating(seed=0):
    """The same robot on a free joint, made anew."""
    return robot_subject(branched(floating_base=True), "floating", samples=1, seed=seed)


def sleigh(seed=0):
    """The Chaplygin sleigh made anew, with its group and one sample."""
    rng, system = np.random.default_rng([seed, *b"fresh"]), systems.chaplygin_sleigh().numeric()
    action = systems.ACTIONS["chaplygin_sleigh"]()
    return nonholonomic_subject("sleigh", system, rng.normal(size=(1, 3)), rng, seed=seed, action=action)


#: Rows that search geodesics in loops within loops, where notes of all that happens there take minutes.
ALONE = {"F drift", "F shift"}

SUBJECTS = {key: "random frame" for key in ORDER} | {
    key: "spinning body" for key in ("(18)", "(19)", "(20)", "(21)", "(32)", "F members", "F affine", *ALONE)
}
# One entry of a body that is far from its origin is a thousand times larger in the metric of inertias.
SUBJECTS |= {key: "spinning body" for key in ORDER if key.startswith("LKP ")}
SUBJECTS |= {key: "generic" for key in NONHOLONOMIC_ORDER} | {"Z Lemma 3.3": "sleigh", "model": "robot"}
SUBJECTS |= {"E (42)": "floating"} | {key: "die" for key in ORDER if key.startswith("AN ")}


def die(seed=0):
    """Four faces in natural parameters, made anew: an exponential family, n = 3, with one sample."""

    def log_density(face, q):
        logits = jnp.append(q, 0.0)
        return face @ logits - jax.nn.logsumexp(logits)

    model = statistical_model(log_density, 3, quadrature=(np.eye(4), np.ones(4)))
    return as_subject(model, "die", samples=1, seed=seed)


def made(name):
    """A subject made anew."""
    makers = {"generic": generic_system, "sleigh": sleigh, "robot": robot, "floating": floating, "die": die}
    return makers[name]() if name in makers else fresh(name)


@cache
def recorder(name, key=None):
    """A subject whose functions note what they return, and the notes of every fault: one serves all rows."""
    return made(name), {
        fault: [] for found in FAULTS.values() for fault in found if key is None or fault in FAULTS[key]
    }


@cache
def place_of(fault, name, key):
    """Shape and place of the entry of a function that is to be wrong, where a row uses it."""
    subject, notes = recorder(name, key if key in ALONE else None)
    for found in notes.values():
        found.clear()
    with pytest.MonkeyPatch.context() as patch:
        for each, found in notes.items():
            function = recorded(getattr(each.owner, each.name), each.share, found)
            patch.setattr(each.owner, each.name, function)
        measure(subject, key)
        jax.effects_barrier()
    return notes[fault][0]


@cache
def subject_of_fault(fault, name, shape, place):
    """A subject on which nothing is compiled but with that fault."""
    return made(name)


def measured(key, fault):
    """The row's check with the fault."""
    name = SUBJECTS[key]
    where = place_of(fault, name, key)
    compilation.forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fault.owner, fault.name, nudged(getattr(fault.owner, fault.name), *where))
        check = measure(subject_of_fault(fault, name, *where), key)
    compilation.forget()
    return check


def measure(subject, key):
    """The row's check at the subject's sample."""
    (item,) = [item for item in catalogue(type(subject)) if item.key == key]
    sample = Sample(subject.q[0], subject.v[0], subject.a[0])
    forgetful = subject.redrawn(0)  # it has what is compiled, and no value of another row
    return Check(key, *item.measure(forgetful, sample, False), 1e-9)
