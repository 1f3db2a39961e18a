"""Drake: the vector of `MultibodyPlant.CalcBiasTerm` and `CalcMassMatrix`.

A free body's velocity is [omega; v] in world axes there.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from connections import multibody as mb
from connections.interop.libraries.free_bodies import Change, hat, pulled_bias, rotation, turned, widened
from connections.interop.libraries.joint_examples import ExampleBody, JointExample
from connections.interop.libraries.library import (
    ROOT_JOINT,
    Array,
    Description,
    JointSlices,
    LibraryError,
    LibraryRobot,
    slots,
)

VARIANTS: dict[str, str] = {"": "continuous MultibodyPlant"}


def _module(name: str) -> Any:
    """A module of Drake, typed as Any, because its types change from version to version."""
    return importlib.import_module(f"pydrake.{name}")


def read(description: Description, variant: str) -> LibraryRobot:
    """The robot of a URDF file."""
    plant = _module("multibody.plant").MultibodyPlant(0.0)
    try:
        _module("multibody.parsing").Parser(plant).AddModelsFromString(description.text(mimic=False), "urdf")
        root = plant.GetBodyByName(description.root_link)
        if not description.floating_base:
            plant.WeldFrames(plant.world_frame(), root.body_frame())
        plant.Finalize()
    except RuntimeError as error:
        raise LibraryError(f"Drake refuses it: {' '.join(str(error).split())}") from error
    notes = ("joints that mimic move on their own",) if description.leaders else ()
    named = {plant.get_joint(index).name(): plant.get_joint(index) for index in plant.GetJointIndices()}
    if description.floating_base:
        named[ROOT_JOINT] = named[description.root_link]  # Drake names a free body's joint after the body
    return _robot(plant, named, description.untied, {}, notes)


def build(example: JointExample, variant: str) -> LibraryRobot:
    """The robot of a mechanism, built joint by joint."""
    plant, tree = _module("multibody.plant").MultibodyPlant(0.0), _module("multibody.tree")
    rigid = _module("math").RigidTransform
    bodies: dict[str, Any] = {}
    named: dict[str, Any] = {}
    for part in example.parts:
        I = part.inertia  # noqa: E741
        moments = tree.UnitInertia(
            *(value / part.mass for value in (I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]))
        )
        about_origin = moments.ShiftFromCenterOfMass(part.center)
        body = plant.AddRigidBody(part.body, tree.SpatialInertia(part.mass, part.center, about_origin))
        parent = plant.world_frame() if part.parent is None else bodies[part.parent].body_frame()
        placed = plant.AddFrame(tree.FixedOffsetFrame(f"{part.name} frame", parent, rigid(part.placement)))
        bodies[part.name] = body
        named[part.name] = plant.AddJoint(_joint(part, placed, body.body_frame()))
    plant.Finalize()
    return _robot(plant, named, example.model, example.kinds, ())


def _joint(part: ExampleBody, parent: Any, child: Any) -> Any:
    """Drake's joint of a part."""
    tree = _module("multibody.tree")
    joint: Any = part.chain[0][0]
    match part.kind:
        case "fixed":
            return tree.WeldJoint(part.name, parent, child, _module("math").RigidTransform())
        case "revolute" | "continuous":
            return tree.RevoluteJoint(part.name, parent, child, np.asarray(joint.axis), damping=0.0)
        case "prismatic":
            return tree.PrismaticJoint(part.name, parent, child, np.asarray(joint.axis))
        case "helical":
            pitch = 2.0 * np.pi * joint.pitch
            return tree.ScrewJoint(part.name, parent, child, np.asarray(joint.axis), pitch, 0.0)
        case "planar":
            return tree.PlanarJoint(part.name, parent, child)
        case "universal":
            return tree.UniversalJoint(part.name, parent, child)
        case "spherical":
            return tree.BallRpyJoint(part.name, parent, child)
        case "free":
            return tree.QuaternionFloatingJoint(part.name, parent, child)
    raise LibraryError(f"Drake has no {part.kind} joints")


def _robot(
    plant: Any, named: dict[str, Any], ours: mb.Model, kinds: dict[str, str], notes: tuple[str, ...]
) -> LibraryRobot:
    context, layout = plant.CreateDefaultContext(), _DrakeLayout(plant, named, ours)

    def mass_matrix(q: Array) -> Array:
        change = layout.change(q, np.zeros(ours.nv))
        plant.SetPositions(context, layout.configuration(q))
        return change.T.T @ layout.matrix(plant.CalcMassMatrix(context)) @ change.T

    def bias(q: Array, v: Array) -> Array:
        change = layout.change(q, v)
        plant.SetPositions(context, layout.configuration(q))
        plant.SetVelocities(context, layout.velocity(change.T @ v))
        H = layout.matrix(plant.CalcMassMatrix(context))
        return pulled_bias(plant.CalcBiasTerm(context)[layout.order], H, change, v)

    return LibraryRobot(ours, "CalcBiasTerm", mass_matrix, bias=bias, kinds=kinds, notes=notes)


class _DrakeLayout:
    """Drake's layout of q and v against ours."""

    def __init__(self, plant: Any, named: dict[str, Any], ours: mb.Model) -> None:
        self.nq, self.nv = plant.num_positions(), plant.num_velocities()
        self.order = np.zeros(ours.nv, dtype=int)
        self.joints: list[tuple[JointSlices, int]] = []
        for slot in slots(ours):
            joint = named[slot.name]
            start, size = joint.velocity_start(), slot.v.stop - slot.v.start
            self.order[slot.v] = start + np.arange(size)
            self.joints.append((slot, joint.position_start()))

    def configuration(self, q: Array) -> Array:
        """Drake's q: free bodies [quaternion (w, x, y, z), p], balls roll, pitch, yaw."""
        out = np.empty(self.nq)
        for slot, start in self.joints:
            here = q[slot.q]
            if slot.kind == "Free":
                here = np.concatenate([here[6:7], here[3:6], here[:3]])
            elif slot.kind == "Spherical":
                here = Rotation.from_quat(here).as_euler("xyz")
            out[start : start + len(here)] = here
        return out

    def velocity(self, v: Array) -> Array:
        """Drake's v, in its order."""
        out = np.empty(self.nv)
        out[self.order] = v
        return out

    def matrix(self, H: Array) -> Array:
        """A matrix of Drake in our order."""
        H = H[np.ix_(self.order, self.order)]
        return H

    def change(self, q: Array, v: Array) -> Change:
        """The change from our body twists and angular velocities to Drake's, in the joint's axes."""
        parts = []
        for slot, _ in self.joints:
            if slot.kind == "Free":
                R = rotation(q[slot.q][3:])
                parts.append((slot.v, turned(R, v[slot.v], (True, True), linear_first=False)))
            elif slot.kind == "Spherical":
                R = rotation(q[slot.q])
                parts.append((slot.v, Change(R, R @ hat(v[slot.v]))))
        return widened(parts, len(v))
