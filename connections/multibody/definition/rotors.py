"""Armature as rigid bodies: one rotor on the ground for each elementary joint that has some.

The armature a of a joint adds a |v_J|^2 / 2 to the kinetic energy, v_J the joint's own velocity. A rigid body
has this energy that moves relative to the ground as the joint moves the child relative to its parent: its
pose is the joint's displacement, its twist is Phi v_J with the joint's constant Phi, and its inertia is a 1
if v_J turns, the mass a if v_J slides, and both for a free joint. So a robot with armature is N bodies and R
such rotors, without weight, and all that the bodies induce is induced by both:

    H = A^T diag(I_b) A + S^T diag(I_r) S,    S = Phi v_J for v_s = v (in closed chains, v_s = G v).

What a rotor leaves out is that its own axis moves with the robot: a rotor on the parent link, with the ratio
n and the inertia a / n^2, has this limit for large n, with errors of order 1 / n.
Source: [W] VI-A and VI-B, for these bodies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import is_traced
from connections.multibody.joints import ElementaryJoint


class Element(NamedTuple):
    """An elementary joint of a chain, and where its coordinates and velocities lie in q and v."""

    joint: ElementaryJoint
    name: str  #: of the joint whose chain it is in
    q: slice
    v: slice


@dataclass(frozen=True, eq=False)
class Rotors:
    """R rotors, each of an elementary joint."""

    elements: tuple[Element, ...]
    inertias: np.ndarray  #: (R, 6, 6) in the axes of the joints' child frames, about their origins
    twists: np.ndarray  #: S (R, 6, nv), constant: the twists of the rotors, in their axes, are S v

    @classmethod
    def of(cls, elements: Sequence[Element], armature: np.ndarray) -> Rotors:
        """The rotors of a tree.

        Parameters
        ----------
        elements : all elementary joints.
        armature : (nv,) kg m^2 and kg; if JAX traces it, every joint that moves has a rotor.
        """
        traced = is_traced(armature)
        armed = tuple(element for element in elements if traced or armature[element.v].any())
        twists = np.zeros((len(armed), 6, len(armature)))
        inertias = []
        for twist, (joint, _, _, own) in zip(twists, armed, strict=True):
            twist[:, own] = joint.motion
            # Columns of Phi are of unit length, but for the slide of a helical joint.
            turns = np.repeat([joint.turns[0], False], 3)
            slides = np.repeat([False, not joint.turns[-1]], 3)
            inertias.append(np.diag(turns) * armature[own.start] + np.diag(slides) * armature[own.stop - 1])
        stack: Any = jnp.stack if traced else np.stack
        return cls(armed, stack(inertias) if inertias else np.zeros((0, 6, 6)), twists)

    def poses_at(self, q: jax.Array) -> jax.Array:
        """(R, 7) [position, quaternion] at the tree's configuration q (nq,): the joints' displacements."""
        poses = []
        for joint, _, at, _ in self.elements:
            quaternion, position = joint.transform_at(q[at])
            poses.append(jnp.concatenate([position, quaternion]))
        return jnp.stack(poses) if poses else jnp.zeros((0, 7))
