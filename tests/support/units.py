"""Mechanisms and their quantities in other units of length, mass and time.

A plan in other units is the same drawing with other numbers; gravity is a length over a squared time. Every
entry of a result then has a unit that follows from those of its indices: a velocity component is an angle or
a length over a time, a force an energy per unit of its velocity's path.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax.numpy as jnp
import numpy as np
from closed_plan import Plan
from mechanisms import random_joint, random_placement

from connections import multibody as mb

#: Which coordinates, and which velocity components, of an elementary joint are lengths.
LENGTHS = {
    mb.Revolute: ([0], [0]),
    mb.Prismatic: ([1], [1]),
    mb.Helical: ([0], [0]),
    mb.Spherical: ([0] * 4, [0] * 3),
    mb.Free: ([1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1]),
}


def lengths_of(joint):
    """Which coordinates (nq,) of a joint are lengths."""
    return np.concatenate([LENGTHS[type(link)][0] for link in joint.chain])


@dataclass(frozen=True)
class Units:
    """How many of the new units one m, one kg and one s are."""

    length: float = 1.0
    mass: float = 1.0
    time: float = 1.0

    @property
    def energy(self):
        return self.mass * self.length**2 / self.time**2

    def __str__(self):
        return f"{self.length:.0e} {self.mass:.0e} {self.time:.0e}"


# --- plans ------------------------------------------------------------------------------------------------


def random_tree(seed, kinds, parents):
    """The plan of a tree of random bodies on joints of the classes `kinds`."""
    plan = Plan(seed)
    for number, (kind, parent) in enumerate(zip(kinds, parents, strict=True)):
        above = "world" if parent < 0 else f"body {parent}"
        joint, placement = random_joint(plan.rng, kind), random_placement(plan.rng)
        plan.add(f"joint {number}", above, f"body {number}", joint, placement)
    return plan


def in_units(plan, units):
    """The same mechanism, its numbers in other units."""
    scaled = Plan(0, tuple(units.length / units.time**2 * g for g in plan.gravity))
    L, M = units.length, units.mass
    for body, inertia in plan.bodies.items():
        factors = {"mass": M, "center_of_mass": L, "inertia": M * L * L}
        scaled.bodies[body] = {key: factors[key] * np.asarray(value) for key, value in inertia.items()}
    for name, (parent, body, joint, placement) in plan.joints.items():
        scaled.joints[name] = (parent, body, _joint(joint, L), _placement(placement, L))
        scaled.reference[name] = plan.reference[name] * L ** lengths_of(joint)
    for name, (a, b, closure, at_a, at_b, independent) in plan.loops.items():
        if isinstance(closure, mb.Distance):
            closure = mb.Distance(L * closure.length)
        elif isinstance(closure, mb.Joint):
            closure = _joint(closure, L)
        elif callable(closure):
            closure = partial(_seen, closure, L)
        scaled.loops[name] = (a, b, closure, _placement(at_a, L), _placement(at_b, L), independent)
    for name, (coefficients, offset, function, independent) in plan.couplings.items():
        powers = [int(sum(lengths_of(plan.joints[joint][2]))) for joint in coefficients]
        whole = max(powers)  # the sum is a length where one of the joints slides
        if function is None:
            factors = [L ** (whole - power) for power in powers]
        else:
            function, factors = partial(_of_lengths, function, L**whole, [L**p for p in powers]), powers
        new = {joint: c * f for (joint, c), f in zip(coefficients.items(), factors, strict=True)}
        scaled.couplings[name] = (coefficients if function else new, offset * L**whole, function, independent)
    return scaled


def _joint(joint, length):
    return mb.Helical(joint.axis, length * joint.pitch) if isinstance(joint, mb.Helical) else joint


def _placement(placement, length):
    scaled = np.array(placement)
    scaled[:3, 3] *= length
    return scaled


def _seen(closure, length, transform):
    """A user's closure of a transform in other units; the function is the user's still."""
    factors = jnp.ones((4, 4)).at[:3, 3].set(1.0 / length)
    return closure(transform * factors)


def _of_lengths(function, whole, factors, *positions):
    """A user's coupling of positions in other units, itself in the unit of its value."""
    return whole * function(*(position / factor for position, factor in zip(positions, factors, strict=True)))


# --- quantities -------------------------------------------------------------------------------------------


def lengths(model):
    """Which coordinates (nq,) and which velocity components (nv,) of a model are lengths."""
    each = [LENGTHS[type(element.joint)] for element in model.kinematics.elements]
    return tuple(np.concatenate([pair[side] for pair in each]) for side in (0, 1))


class Scales:
    """The units of a model's coordinates q, velocities v, accelerations a, forces tau, and of results."""

    def __init__(self, model, units):
        of_q, of_v = lengths(model)
        L, T, E = units.length, units.time, units.energy
        self.q, self.path = L**of_q, L**of_v
        self.v, self.a, self.tau = self.path / T, self.path / T**2, E / self.path
        energies, x, y, z = E * T**2, self.path, self.path[:, None], self.path[:, None, None]
        H, inverse = energies / (x * y), x * y / energies
        parameters = units.mass * np.tile(
            L ** np.array([0, 1, 1, 1, 2, 2, 2, 2, 2, 2]), len(model.body_names)
        )
        a, tau, path = self.a[:, None], self.tau[:, None], self.path
        self.results = {
            "mass_matrix": H,
            "coriolis_matrix": H / T,
            "coriolis_matrix with torsion": H / T,
            "mass_matrix_rate": H / T,
            "christoffel_symbols": energies / (x * y * z),
            "christoffel_symbols with torsion": energies / (x * y * z),
            "coriolis_product": self.tau,
            "coriolis_transpose_product": self.tau,
            "coriolis_product with torsion": self.tau,
            "coriolis_transpose_product with torsion": self.tau,
            "nonlinear_effects": self.tau,
            "inverse_dynamics": self.tau,
            "gravity": self.tau,
            "forward_dynamics": self.a,
            "inverse_mass_matrix": inverse,
            "regressor": tau / parameters,
            "momentum_regressor": np.stack([T * tau / parameters, tau / parameters]),
            "inverse_dynamics_derivatives": np.stack([tau / path, tau / self.v, H]),
            "forward_dynamics_derivatives": np.stack([a / path, a / self.v, inverse]),
            # w is a velocity, so that w . tau is a power; for accelerations w is a force
            "inverse_dynamics_hessian_product": E / T / self._second(self.a),
            "forward_dynamics_hessian_product": E / T**2 / self._second(self.tau),
            "inverse_dynamics_second_derivatives": self.tau[:, None, None] / self._second(self.a)[:, None],
            "forward_dynamics_second_derivatives": self.a[:, None, None] / self._second(self.tau)[:, None],
        }
        four = energies / (x * y * z * self.path[:, None, None, None])
        self.results |= {
            "coriolis_matrix_rate": H / T**2,
            "coriolis_matrix_rate with torsion": H / T**2,
            "christoffel_derivatives": four,
            "christoffel_derivatives with torsion": four,
            "curvature": four,
            "curvature_operator": H / T**2,
        }
        turns = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
        state, of_pose, of_twist = np.concatenate([path, self.v]), np.ones((4, 4)), L ** (1.0 - turns)
        of_pose[:3, 3] = L
        self.results |= {
            "forward_kinematics": np.tile(of_pose, (len(model.body_names), 1, 1)),
            "frame_pose": of_pose,
            "frame_jacobian": of_twist[:, None] / path,
            "frame_jacobian_rate": of_twist[:, None] / path / T,
            "center_of_mass": np.full(3, L),
            "center_of_mass_jacobian": np.full((3, 1), L) / path,
            "body_jacobians": np.tile(L ** (1.0 - turns), len(model.body_names))[:, None] / path,
            "A": state[:, None] / state / T,
            "B": state[:, None] / self.tau / T,
            "momentum_forms": units.mass * L ** (1.0 + turns)[:, None] / path,
            "rolling_forms": L / path,
        }

    def _second(self, x):
        """The units of the pairs by which second derivatives are taken: (q, q), (v, q), (v, v) and (x, q)."""
        pairs = ((self.path, self.path), (self.v, self.path), (self.v, self.v), (x, self.path))
        return np.stack([first[:, None] * second for first, second in pairs])


def deviation(result, unit, expected, kind):
    """How far `result`, in `unit`, is from `expected`, relative to the largest entry of the same `kind`.

    Parameters
    ----------
    kind : which entries have the same unit: an array of the shape of `unit`, in other units.
    """
    result, unit, kind = np.asarray(result), *np.broadcast_arrays(unit, kind)
    gap, worst = np.abs(result / unit - expected), 0.0
    largest = np.max(np.abs(expected), initial=0.0)
    for each in np.unique(kind):
        among = np.abs(expected)[..., kind == each]
        scale = max(np.max(among, initial=0.0), 1e-3 * largest)  # entries that vanish are round-off
        worst = max(worst, np.max(gap[..., kind == each], initial=0.0) / scale if scale > 0.0 else 0.0)
    return worst
