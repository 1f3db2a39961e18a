"""MuJoCo: the vector `qfrc_bias` and `mj_fullM`, of a URDF file or of a mechanism built joint by joint.

In MuJoCo a free joint's qvel is [velocity in world axes; angular velocity in body axes]. Universal,
cylindrical and composite joints are several joints on one body.
"""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np
from scipy.spatial.transform import Rotation

from connections import multibody as mb
from connections.interop.libraries.free_bodies import Change, FreeBody, pulled_bias, widened
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
from connections.multibody.description.mjcf import mujoco_for

VARIANTS: dict[str, str] = {"": "mj_forward"}
_PLANE = ("TX", "TY", "RZ")


def read(description: Description, variant: str) -> LibraryRobot:
    """The robot of a URDF file."""
    mujoco = mujoco_for("audit")
    options = ElementTree.Element("mujoco")
    ElementTree.SubElement(options, "compiler", fusestatic="false", balanceinertia="false")
    try:
        spec = mujoco.MjSpec.from_string(description.text(extra=options))
        base = FreeBody()
        if description.floating_base:
            body = spec.worldbody.first_body()
            body.add_freejoint().name = ROOT_JOINT
            base = FreeBody(description.offset_of(body.name))
        theirs = spec.compile()
    except ValueError as error:
        raise LibraryError(f"MuJoCo refuses it: {' '.join(str(error).split())}") from error
    notes = ("joints that mimic move on their own",) if description.leaders else ()
    return _robot(mujoco, theirs, description.untied, {}, notes, base)


def build(example: JointExample, variant: str) -> LibraryRobot:
    """The robot of a mechanism, as MJCF."""
    mujoco = mujoco_for("audit")
    mjcf = _mjcf(example)
    try:
        theirs = mujoco.MjModel.from_xml_string(mjcf)
    except ValueError as error:
        raise LibraryError(f"MuJoCo refuses it: {' '.join(str(error).split())}") from error
    return _robot(mujoco, theirs, example.model, example.kinds, (), FreeBody())


def _robot(
    mujoco: Any,
    theirs: Any,
    ours: mb.Model,
    kinds: dict[str, str],
    notes: tuple[str, ...],
    base: FreeBody,
) -> LibraryRobot:
    theirs.opt.gravity[:] = 0.0
    theirs.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    data, layout = mujoco.MjData(theirs), _MuJoCoLayout(theirs, ours, base)

    def forward(q: Array, change: Change, v: Array) -> None:
        data.qpos[:] = layout.configuration(q)
        data.qvel[layout.order] = change.T @ v
        mujoco.mj_fwdPosition(theirs, data)
        mujoco.mj_fwdVelocity(theirs, data)

    def their_mass_matrix() -> Array:
        H: Array = np.zeros((theirs.nv, theirs.nv))
        mujoco.mj_fullM(theirs, data, H)
        H = H[np.ix_(layout.order, layout.order)]
        return H

    def mass_matrix(q: Array) -> Array:
        rest = np.zeros(ours.nv)
        change = layout.change(q, rest)
        forward(q, change, rest)
        return change.T.T @ their_mass_matrix() @ change.T

    def bias(q: Array, v: Array) -> Array:
        change = layout.change(q, v)
        forward(q, change, v)
        return pulled_bias(data.qfrc_bias[layout.order].copy(), their_mass_matrix(), change, v)

    return LibraryRobot(ours, "qfrc_bias", mass_matrix, bias=bias, kinds=kinds, notes=notes)


class _MuJoCoLayout:
    """MuJoCo's layout of q and v against ours."""

    def __init__(self, theirs: Any, ours: mb.Model, base: FreeBody) -> None:
        self.order = np.zeros(ours.nv, dtype=int)
        self.nq, self.base = theirs.nq, base
        self.copies: list[tuple[list[int], list[int]]] = []
        self.free: list[tuple[JointSlices, int]] = []
        named = {theirs.joint(number).name: number for number in range(theirs.njnt)}
        for slot in slots(ours):
            singles = [
                slot.name,
                *(f"{slot.name}/{k}" for k in (1, 2, 3)),
                *(f"{slot.name}_{k}" for k in _PLANE),
            ]
            found = [named[name] for name in singles if name in named]
            at_v, at_q = slot.v.start, slot.q.start
            for number in found:
                v, q = int(theirs.jnt_dofadr[number]), int(theirs.jnt_qposadr[number])
                if slot.kind == "Free":
                    self.order[at_v : at_v + 6] = v + np.arange(6)
                    self.free.append((slot, q))
                    break
                if slot.kind == "Spherical":
                    self.order[at_v : at_v + 3] = v + np.arange(3)
                    self.copies.append(([q + 1, q + 2, q + 3, q], list(range(at_q, at_q + 4))))
                    break
                self.order[at_v] = v
                self.copies.append(([q], [at_q]))
                at_v, at_q = at_v + 1, at_q + 1

    def configuration(self, q: Array) -> Array:
        """MuJoCo's q."""
        out = np.empty(self.nq)
        for there, here in self.copies:
            out[there] = q[here]
        for slot, start in self.free:
            pose = self.base.pose(q[slot.q])
            out[start : start + 3] = pose[:3, 3]
            out[start + 3 : start + 7] = np.roll(Rotation.from_matrix(pose[:3, :3]).as_quat(), 1)
        return out

    def change(self, q: Array, v: Array) -> Change:
        """The change from our body twists to [v in world axes; omega in body axes]."""
        parts = [(slot.v, self.base.change("linear in world", q[slot.q], v[slot.v])) for slot, _ in self.free]
        return widened(parts, len(v))


# --- a mechanism as MJCF --------------------------------------------------------------------------


def _mjcf(example: JointExample) -> str:
    root = ElementTree.Element("mujoco")
    ElementTree.SubElement(root, "compiler", angle="radian", balanceinertia="false")
    bodies: dict[str | None, ElementTree.Element] = {None: ElementTree.SubElement(root, "worldbody")}
    for part in example.parts:
        if part.kind in ("helical", "mimic"):
            raise LibraryError(f"MuJoCo has no {part.kind} joints (a soft constraint is none)")
        if part.kind == "free" and part.parent is not None:
            raise LibraryError("MuJoCo has no free joints but on bodies of the world")
        bodies[part.name] = _body(bodies[part.parent], part)
    return ElementTree.tostring(root, encoding="unicode")


def _body(parent: ElementTree.Element, part: ExampleBody) -> ElementTree.Element:
    """The body of a part under its parent's."""
    zero = part.placement
    for _, step in part.chain:
        zero = zero @ step
    body = ElementTree.SubElement(
        parent, "body", name=part.body, pos=_text(zero[:3, 3]), quat=_quaternion(zero[:3, :3])
    )
    I = part.inertia  # noqa: E741
    ElementTree.SubElement(
        body,
        "inertial",
        pos=_text(part.center),
        mass=repr(part.mass),
        fullinertia=_text(np.array([I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]])),
    )
    for name, kind, axis, anchor in _elementary(part):
        attributes = {"name": name, "type": kind}
        if kind in ("hinge", "slide"):
            attributes |= {"axis": _text(axis), "pos": _text(anchor)}
        ElementTree.SubElement(body, "joint", attributes)
    return body


def _elementary(part: ExampleBody) -> list[tuple[str, str, Any, Any]]:
    """(name, type, axis, anchor) of MuJoCo's joints of a part, in the body's axes with all joints at zero."""
    if part.kind == "fixed":
        return []
    if part.kind in ("free", "spherical"):
        return [(part.name, "free" if part.kind == "free" else "ball", np.zeros(3), np.zeros(3))]
    found = []
    for number, (name, (joint, _)) in enumerate(zip(part.joint_names, part.chain, strict=True)):
        after = np.eye(4)
        for _, step in part.chain[number + 1 :]:
            after = after @ step
        back = np.linalg.inv(after)
        singles = _singles(joint)
        for index, (kind, axis) in enumerate(singles, 1):
            single = name if len(singles) == 1 else f"{name}/{index}"
            found.append((single, kind, back[:3, :3] @ axis, back[:3, 3]))
    return found


def _singles(joint: mb.Joint) -> list[tuple[str, Array]]:
    """Hinges and slides in series."""
    X, Y, Z = np.eye(3)
    match joint:
        case mb.Prismatic():
            return [("slide", np.asarray(joint.axis))]
        case mb.Cylindrical():
            return [("hinge", np.asarray(joint.axis)), ("slide", np.asarray(joint.axis))]
        case mb.Planar():
            return [("slide", X), ("slide", Y), ("hinge", Z)]
        case mb.Universal():
            return [("hinge", X), ("hinge", Y)]
        case mb.Revolute():
            return [("hinge", np.asarray(joint.axis))]
    raise LibraryError(f"MuJoCo has no {type(joint).__name__} joints")


def _quaternion(R: Array) -> str:
    return _text(np.roll(Rotation.from_matrix(R).as_quat(), 1))


def _text(values: Array) -> str:
    return " ".join(repr(float(value)) for value in values)
