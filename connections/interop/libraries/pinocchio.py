"""Pinocchio: `computeCoriolisMatrix` and `crba`, of a URDF file or of a mechanism built joint by joint."""

from __future__ import annotations

from typing import Any

import numpy as np

from connections import multibody as mb
from connections.interop.libraries.free_bodies import Change, pulled_bias, pulled_matrix, widened
from connections.interop.libraries.joint_examples import ExampleBody, JointExample, composite_step
from connections.interop.libraries.library import Array, Description, LibraryRobot, slots

VARIANTS = {
    "mimic": "read with mimic=True: joints that mimic follow",
    "untied": "read as by default: joints that mimic move on their own",
}
_CIRCLES = ("JointModelRUB", "JointModelRevoluteUnbounded", "JointModelPlanar")


def read(description: Description, variant: str) -> LibraryRobot:
    """The robot of a URDF file."""
    import pinocchio as pin

    tied = variant == "mimic"
    root = (pin.JointModelFreeFlyer(),) if description.floating_base else ()
    model = pin.buildModelFromUrdf(str(description.file()), *root, mimic=tied)
    notes = [] if tied or not description.leaders else ["joints that mimic move on their own (mimic=False)"]
    types = {joint.get("name"): joint.get("type") for joint in description.joints}
    followed = description.leaders.values() if tied else ()
    kinds = {leader: f"mimicked {types[leader]}" for leader in followed}
    return _robot(model, description.model if tied else description.untied, kinds, tuple(notes))


def build(example: JointExample, variant: str) -> LibraryRobot:
    """The robot of a mechanism, built joint by joint."""
    import pinocchio as pin

    model = pin.Model()
    numbers: dict[str, int] = {}
    for part in example.parts:
        placement = pin.SE3(part.placement[:3, :3], part.placement[:3, 3])
        body = pin.Inertia(part.mass, part.center, part.inertia)
        above = numbers[part.parent] if part.parent is not None else 0
        if part.kind == "fixed":
            numbers[part.name] = 0  # the base is the world
            continue
        joint = _joint(pin, model, part, numbers)
        numbers[part.name] = model.addJoint(above, joint, placement, part.name)
        model.appendBodyToJoint(numbers[part.name], body, pin.SE3.Identity())
    return _robot(model, example.model, example.kinds, ())


def _joint(pin: Any, model: Any, part: ExampleBody, numbers: dict[str, int]) -> Any:
    """Pinocchio's joint of a part."""
    joint: Any = part.chain[0][0]
    axis = np.asarray(getattr(joint, "axis", np.zeros(3)), dtype=np.float64)
    match part.kind:
        case "revolute":
            return pin.JointModelRevoluteUnaligned(axis)
        case "continuous":
            return pin.JointModelRUBZ()
        case "prismatic":
            return pin.JointModelPrismaticUnaligned(axis)
        case "helical":
            return pin.JointModelHelicalUnaligned(axis, float(joint.pitch))
        case "universal":
            return pin.JointModelUniversal(*np.eye(3)[:2])
        case "mimic":
            assert part.mimics is not None
            leader, multiplier, offset = part.mimics
            return pin.JointModelMimic(model.joints[numbers[leader]], multiplier, offset)  # and its axis
        case "cylindrical":
            return _composite(pin, pin.JointModelRZ(), pin.JointModelPZ(), np.eye(4))
        case "composite":
            return _composite(pin, pin.JointModelRX(), pin.JointModelRY(), composite_step())
    return {
        "planar": pin.JointModelPlanar,
        "translation": pin.JointModelTranslation,
        "spherical": pin.JointModelSpherical,
        "spherical-zyx": pin.JointModelSphericalZYX,
        "free": pin.JointModelFreeFlyer,
    }[part.kind]()


def _composite(pin: Any, first: Any, second: Any, step: Array) -> Any:
    joint = pin.JointModelComposite(first)
    joint.addJoint(second, pin.SE3(step[:3, :3], step[:3, 3]))
    return joint


def _robot(theirs: Any, ours: mb.Model, kinds: dict[str, str], notes: tuple[str, ...]) -> LibraryRobot:
    import pinocchio as pin

    layout = _PinocchioLayout(theirs, ours)
    data = theirs.createData()

    def in_their_frame(x: Array) -> Array:
        fresh = theirs.createData()  # with mimic joints, crba adds to the result of the last call in the data
        upper = np.triu(pin.crba(theirs, fresh, x))
        H: Array = (upper + np.triu(upper, 1).T)[np.ix_(layout.order, layout.order)]
        return H

    def mass_matrix(q: Array) -> Array:
        return layout.planar_changed(in_their_frame(layout.configuration(q)), q)

    def coriolis(q: Array, v: Array) -> Array:
        x = layout.configuration(q)
        if not layout.planars:
            C: Array = pin.computeCoriolisMatrix(theirs, data, x, layout.velocity(v))
            C = C[np.ix_(layout.order, layout.order)]
            return C
        change = layout.change(q, v)
        H = in_their_frame(x)
        C = pin.computeCoriolisMatrix(theirs, data, x, layout.velocity(change.T @ v))
        return pulled_matrix(C[np.ix_(layout.order, layout.order)], H, change)

    def bias(q: Array, v: Array) -> Array:
        """C v by `rnea`; the audit uses it only for libraries without a matrix."""
        x, change, none = layout.configuration(q), layout.change(q, v), np.zeros(theirs.nv)
        c = pin.rnea(theirs, data, x, layout.velocity(change.T @ v), none)[layout.order]
        return pulled_bias(c, in_their_frame(x), change, v)

    theirs.gravity.linear = np.zeros(3)
    named = {**layout.kinds, **kinds}
    return LibraryRobot(ours, "computeCoriolisMatrix", mass_matrix, coriolis, bias, named, notes)


class _PinocchioLayout:
    """Pinocchio's layout of q and v against ours.

    In Pinocchio twists are [v; omega]. The coordinates of unbounded revolute and planar joints end with
    (cos, sin), and the velocity of a planar joint is in the axes of the moving body.
    """

    def __init__(self, theirs: Any, ours: mb.Model) -> None:
        self.nq, self.nv = theirs.nq, theirs.nv
        self.order, self.kinds = np.zeros(ours.nv, dtype=int), {}
        self.copies: list[tuple[slice, slice]] = []  # (their q, our q)
        self.circles: list[tuple[int, int]] = []  # (start of their (cos, sin), our angle)
        self.planars: list[tuple[slice, int]] = []  # (our v, our angle)
        names = list(theirs.names)
        starts = {slot.name.removesuffix("/1"): slot for slot in slots(ours)}
        for number in range(1, theirs.njoints):
            joint = theirs.joints[number]
            kind = joint.shortname()
            if joint.nv == 0 or "Mimic" in kind:
                continue
            slot = starts[names[number]]
            at_v, at_q = slot.v.start, slot.q.start
            block = np.arange(joint.idx_v, joint.idx_v + joint.nv)
            self.order[at_v : at_v + joint.nv] = np.roll(block, 3) if "FreeFlyer" in kind else block
            circle = kind.startswith(_CIRCLES)
            size = joint.nq - 2 * circle
            self.copies.append((slice(joint.idx_q, joint.idx_q + size), slice(at_q, at_q + size)))
            if circle:
                self.circles.append((joint.idx_q + size, at_q + size))
            if kind == "JointModelPlanar":
                self.planars.append((slot.v, at_q + 2))
            if circle and kind != "JointModelPlanar":
                self.kinds[slot.name] = "continuous"

    def configuration(self, q: Array) -> Array:
        """Pinocchio's q."""
        out = np.empty(self.nq)
        for there, here in self.copies:
            out[there] = q[here]
        for start, angle in self.circles:
            out[start : start + 2] = np.cos(q[angle]), np.sin(q[angle])
        return out

    def velocity(self, v: Array) -> Array:
        """Pinocchio's v, in its order."""
        out = np.empty(self.nv)
        out[self.order] = v
        return out

    def change(self, q: Array, v: Array) -> Change:
        """The change from our rates of planar joints to Pinocchio's velocities in body axes."""
        parts = []
        for at, angle in self.planars:
            c, s, rate = np.cos(q[angle]), np.sin(q[angle]), v[at][2]
            T = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
            T_dot = rate * np.array([[-s, c, 0.0], [-c, -s, 0.0], [0.0, 0.0, 0.0]])
            parts.append((at, Change(T, T_dot)))
        return widened(parts, len(v))

    def planar_changed(self, H: Array, q: Array) -> Array:
        """H in our frame."""
        if not self.planars:
            return H
        T = self.change(q, np.zeros(len(self.order))).T
        return T.T @ H @ T
