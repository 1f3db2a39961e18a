"""MuJoCo's equality constraints as loops and couplings of a `Mechanism`.

- connect: two points coincide, one of each body (`Coincident`), or the origins of two sites.
- weld: two frames coincide (`Fixed`); without torque (``torquescale="0"``) only their origins coincide. A
  weld of a free body to the world holds its free joint: the body is a fixed base.
- joint: q_1 - ref_1 = c_0 + c_1 x + ... + c_4 x^4 with x = q_2 - ref_2, a coupling that determines joint 1;
  it is linear if c_2 = c_3 = c_4 = 0.
- tendon: the same for the lengths of two fixed tendons, L = sum_i a_i q_i, in place of q_1 and q_2.

A linear coupling of which one joint is left, as where the right side is c_0 alone, holds this joint, which
becomes a fixed one.

Constraints are exact here, even if they are soft in MuJoCo. Constraints that are not active in the file, or
all if a flag of the file disables equality constraints, are left out; so are those to a mocap body, which is
a target that a user moves, and no part of the robot. Other types (flex), and spatial tendons, raise an error
that names the constraint. Source: MuJoCo's documentation, Computation, "Equality".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from connections._words import no_such
from connections.checks import ModelError, require_names
from connections.multibody.description.mechanism import Mechanism
from connections.multibody.description.mjcf_names import name_of
from connections.multibody.joints import Fixed
from connections.multibody.loops.closures import Closure, Coincident

BodyName = Callable[[int], str]


def chosen_equalities(mujoco: ModuleType, compiled: Any, chosen: Any = True) -> dict[int, str]:
    """Numbers and names of the equality constraints that are read.

    Parameters
    ----------
    chosen : True for those that hold in the file, but not those to a mocap body; False for none; or names.

    Raises
    ------
    ModelError : one is of a type that is not read; there is none of a name. TypeError.
    """
    named = {_name(compiled, number): number for number in range(compiled.neq)}
    if not isinstance(chosen, bool):
        chosen = require_names("equality", chosen)
        for name in chosen:
            if name not in named:
                raise ModelError(no_such("equality constraint", name, tuple(named)))
        numbers = sorted(named[name] for name in chosen)
    else:
        disabling = mujoco.mjtDisableBit.mjDSBL_EQUALITY | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
        holds = chosen and not compiled.opt.disableflags & disabling
        left_out = targets(mujoco, compiled)
        numbers = [n for n in np.flatnonzero(compiled.eq_active0).tolist() if holds and n not in left_out]
    for number in numbers:
        reason = _unread(mujoco, compiled, number)
        if reason:
            name = _name(compiled, number)
            raise ModelError(
                f"equality constraint '{name}' {reason}; equality=[names] or equality=False leaves it out"
            )
    return {number: _name(compiled, number) for number in numbers}


def targets(mujoco: ModuleType, compiled: Any) -> dict[int, str]:
    """The active connects and welds to a mocap body, or to what is fixed to one: number -> a sentence."""
    found = {}
    for number in np.flatnonzero(compiled.eq_active0).tolist():
        if mujoco.mjtEq(compiled.eq_type[number]) in (mujoco.mjtEq.mjEQ_CONNECT, mujoco.mjtEq.mjEQ_WELD):
            for body in _bodies(mujoco, compiled, number):
                while body and compiled.body_mocapid[body] < 0:
                    body = int(compiled.body_parentid[body])
                if body:
                    name, mocap = _name(compiled, number), name_of(compiled, "body", body)
                    found[number] = (
                        f"equality constraint '{name}' is left out: its body '{mocap}' is a mocap body, a "
                        f"target that moves. equality=[{name!r}, ...] takes it as a joint"
                    )
    return found


def _unread(mujoco: ModuleType, compiled: Any, number: int) -> str:
    """Why a constraint is not read, or an empty text."""
    kinds = mujoco.mjtEq
    kind = kinds(compiled.eq_type[number])
    if kind not in (kinds.mjEQ_CONNECT, kinds.mjEQ_WELD, kinds.mjEQ_JOINT, kinds.mjEQ_TENDON):
        word = kind.name.removeprefix("mjEQ_").lower()
        return f"({word}): only connect, weld, joint and tendon are read"
    if kind == kinds.mjEQ_TENDON:
        for tendon in (int(compiled.eq_obj1id[number]), int(compiled.eq_obj2id[number])):
            if tendon >= 0 and fixed_tendon(mujoco, compiled, tendon) is None:
                return f"(tendon): its tendon '{name_of(compiled, 'tendon', tendon)}' is spatial, not fixed"
    return ""


def fixed_tendon(mujoco: ModuleType, compiled: Any, number: int) -> dict[int, float] | None:
    """The coefficient of each joint in the length of a fixed tendon, by number; None for a spatial one."""
    first = int(compiled.tendon_adr[number])
    wraps = range(first, first + int(compiled.tendon_num[number]))
    if any(compiled.wrap_type[wrap] != mujoco.mjtWrap.mjWRAP_JOINT for wrap in wraps):
        return None
    length: dict[int, float] = {}
    for wrap in wraps:
        joint = int(compiled.wrap_objid[wrap])
        length[joint] = length.get(joint, 0.0) + float(compiled.wrap_prm[wrap])
    return length


def _name(compiled: Any, number: int) -> str:
    return name_of(compiled, "equality", number)


def _bodies(mujoco: ModuleType, compiled: Any, number: int) -> list[int]:
    """The bodies of a connect or weld."""
    sides = [int(compiled.eq_obj1id[number]), int(compiled.eq_obj2id[number])]
    if compiled.eq_objtype[number] == mujoco.mjtObj.mjOBJ_SITE:
        return [int(compiled.site_bodyid[site]) for site in sides]
    return sides


def held_joints(mujoco: ModuleType, compiled: Any, equalities: Mapping[int, str]) -> dict[int, np.ndarray]:
    """Configurations (nq of the joint,) of the joints that an equality holds at a constant, by number.

    They are in our coordinates: an angle or displacement, rad or m, or [p, quaternion (x, y, z, w)].

    Raises
    ------
    ModelError : one equality holds a joint, and another one holds or couples the same joint.
    """
    held = dict(_grounded(mujoco, compiled, equalities).values())
    coupled: dict[int, str] = {}
    for number, name in equalities.items():
        if not _is_coupling(mujoco, compiled, number):
            continue
        coupling = _Coupling.of(mujoco, compiled, number)
        joints = coupling.joints
        if coupling.linear and len(joints) == 1:
            (joint,) = joints
            held[joint] = np.array([_position(compiled, joint) + coupling.c[0] / coupling.left[joint]])
        for joint in joints:
            if joint in held and joint in coupled:
                raise ModelError(
                    f"equality constraints '{coupled[joint]}' and '{name}': one holds a joint that the other "
                    "constrains, too"
                )
            coupled[joint] = name
    return held


def _grounded(
    mujoco: ModuleType, compiled: Any, equalities: Mapping[int, str]
) -> dict[int, tuple[int, np.ndarray]]:
    """The free joint and the pose (7,) at which each weld of a free body to the world holds it."""
    found: dict[int, tuple[int, np.ndarray]] = {}
    taken = set[int]()
    for number in equalities:
        if compiled.eq_type[number] != mujoco.mjtEq.mjEQ_WELD or isinstance(
            _closure(mujoco, compiled, number), Coincident
        ):
            continue
        sides = _frames(mujoco, compiled, number, np.zeros((compiled.nbody, 3)))
        for (still, at_still), (body, at_body) in (sides, sides[::-1]):
            base = int(compiled.body_weldid[body])  # the body with joints to which it is fixed
            joint = int(compiled.body_jntadr[base])
            if compiled.body_weldid[still] or not base or joint in taken:
                continue
            if compiled.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE:
                ground = _fixed_pose(compiled, still, 0) @ at_still
                pose = ground @ np.linalg.inv(_fixed_pose(compiled, body, base) @ at_body)
                rotation = Rotation.from_matrix(pose[:3, :3])
                found[number] = joint, np.concatenate([pose[:3, 3], rotation.as_quat()])
                taken.add(joint)
    return found


def _fixed_pose(compiled: Any, body: int, above: int) -> np.ndarray:
    """The pose (4, 4), m, of a body in one that carries it without a joint in between."""
    pose = np.eye(4)
    while body != above:
        pose = transform(compiled.body_pos[body], compiled.body_quat[body]) @ pose
        body = int(compiled.body_parentid[body])
    return pose


def add_equalities(
    mujoco: ModuleType,
    compiled: Any,
    mechanism: Mechanism,
    equalities: Mapping[int, str],
    origins: np.ndarray,
    body_name: BodyName,
    joint_name: BodyName,
) -> None:
    """Add the loops and couplings to a mechanism that has all bodies and joints.

    Parameters
    ----------
    equalities : from `chosen_equalities`.
    origins : (nbody, 3) m, the origin of our frame of each body in MuJoCo's frame; the axes are the same.
    body_name, joint_name : (compiled, MuJoCo's number) -> the name.
    """
    couplings = {
        number: _Coupling.of(mujoco, compiled, number)
        for number in equalities
        if _is_coupling(mujoco, compiled, number)
    }
    determined = {joint for each in couplings.values() for joint in (each.determined,) if joint is not None}
    grounded = _grounded(mujoco, compiled, equalities)
    for number, name in equalities.items():
        if number in grounded:
            continue
        if number not in couplings:
            (body_a, at_a), (body_b, at_b) = _frames(mujoco, compiled, number, origins)
            closure = _closure(mujoco, compiled, number)
            mechanism.add_loop(name, body_name(body_a), body_name(body_b), closure, at_a, at_b)
        elif len(couplings[number].joints) > 1:
            couplings[number].add_to(mechanism, name, compiled, joint_name, determined)


def _closure(mujoco: ModuleType, compiled: Any, number: int) -> Closure:
    welded = compiled.eq_type[number] == mujoco.mjtEq.mjEQ_WELD and compiled.eq_data[number, 10] != 0.0
    return Fixed() if welded else Coincident()


def _frames(
    mujoco: ModuleType, compiled: Any, number: int, origins: np.ndarray
) -> list[tuple[int, np.ndarray]]:
    """The body and the placement (4, 4), m, in our frame of the body, of each side of a connect or weld.

    The data of a connect are [point in body 1, point in body 2], those of a weld [point in body 2, point in
    body 1, orientation of body 2 in body 1].
    """
    bodies = _bodies(mujoco, compiled, number)
    if compiled.eq_objtype[number] == mujoco.mjtObj.mjOBJ_SITE:
        sides = [int(compiled.eq_obj1id[number]), int(compiled.eq_obj2id[number])]
        poses = [(compiled.site_pos[site], compiled.site_quat[site]) for site in sides]
    else:
        data, identity = compiled.eq_data[number], np.array([1.0, 0.0, 0.0, 0.0])
        if compiled.eq_type[number] == mujoco.mjtEq.mjEQ_WELD:
            poses = [(data[3:6], data[6:10]), (data[:3], identity)]
        else:
            poses = [(data[:3], identity), (data[3:6], identity)]
    return [
        (body, transform(position - origins[body], quaternion))
        for body, (position, quaternion) in zip(bodies, poses, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class _Coupling:
    """sum_i left_i (q_i - ref_i) = c_0 + c_1 x + ... + c_4 x^4 with x = sum_i right_i (q_i - ref_i).

    If it is linear, everything is in `left`, and `right` is empty.
    """

    left: dict[int, float]  #: coefficients by the joints' numbers
    right: dict[int, float]
    c: np.ndarray
    determined: int | None  #: the joint that it determines, joint 1 of a joint constraint

    @classmethod
    def of(cls, mujoco: ModuleType, compiled: Any, number: int) -> _Coupling:
        """The coupling of a joint or tendon constraint.

        Raises
        ------
        ModelError : no joint is left in it.
        """
        first, second = int(compiled.eq_obj1id[number]), int(compiled.eq_obj2id[number])
        determined = None
        if compiled.eq_type[number] == mujoco.mjtEq.mjEQ_JOINT:
            left, right = {first: 1.0}, {second: 1.0}
            determined = first
        else:
            left = fixed_tendon(mujoco, compiled, first) or {}
            right = fixed_tendon(mujoco, compiled, second) or {} if second >= 0 else {}
        c = np.array(compiled.eq_data[number, :5])
        if second < 0 or not c[1:].any():
            right, c[1:] = {}, 0.0
        if not c[2:].any():
            for joint, coefficient in right.items():
                left[joint] = left.get(joint, 0.0) - c[1] * coefficient
            left, right = {joint: value for joint, value in left.items() if value != 0.0}, {}
        if not left and not right:
            raise ModelError(
                f"equality constraint '{_name(compiled, number)}': no joint is left in it, its coefficients "
                "cancel; equality=[names] leaves it out"
            )
        return cls(left, right, c, determined)

    @property
    def linear(self) -> bool:
        """Whether it is a sum of coordinates."""
        return not self.right

    @property
    def joints(self) -> tuple[int, ...]:
        """The numbers of its joints, each once."""
        return tuple(dict.fromkeys((*self.left, *self.right)))

    def add_to(
        self,
        mechanism: Mechanism,
        name: str,
        compiled: Any,
        joint_name: BodyName,
        determined: Collection[int],
    ) -> None:
        """Add it; if it determines a joint, the others are independent unless they are determined, too."""
        names = {joint: joint_name(joint) for joint in self.joints}
        independent = None
        if self.determined is not None:
            independent = [names[joint] for joint in self.joints if joint not in determined]
        ref = {joint: _position(compiled, joint) for joint in self.joints}
        if self.linear:
            offset = self.c[0] + sum(value * ref[joint] for joint, value in self.left.items())
            terms = {names[joint]: value for joint, value in self.left.items()}
            mechanism.add_coupling(name, terms, offset, independent=independent)
            return
        left, right, c, joints = self.left, self.right, self.c, self.joints

        def residual(*q: Any) -> Any:
            """The left side without the right one, by Horner's rule."""
            moved = {joint: value - ref[joint] for joint, value in zip(joints, q, strict=True)}
            x = sum(value * moved[joint] for joint, value in right.items())
            total: Any = 0.0
            for coefficient in c[::-1]:
                total = coefficient + x * total
            return sum(value * moved[joint] for joint, value in left.items()) - total

        mechanism.add_coupling(name, tuple(names.values()), function=residual, independent=independent)


def _is_coupling(mujoco: ModuleType, compiled: Any, number: int) -> bool:
    return mujoco.mjtEq(compiled.eq_type[number]) in (mujoco.mjtEq.mjEQ_JOINT, mujoco.mjtEq.mjEQ_TENDON)


def _position(compiled: Any, joint: int) -> float:
    """The position of a hinge or slide joint in MuJoCo's reference configuration, rad or m."""
    return float(compiled.qpos0[compiled.jnt_qposadr[joint]])


def transform(position: np.ndarray, quaternion: np.ndarray | None = None) -> np.ndarray:
    """(4, 4) out of a position (3,), m, and a quaternion (w, x, y, z); no rotation if None."""
    pose = np.eye(4)
    pose[:3, 3] = position
    if quaternion is not None:
        pose[:3, :3] = Rotation.from_quat(np.roll(quaternion, -1)).as_matrix()
    return pose
