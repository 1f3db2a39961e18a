"""MuJoCo's equality constraints as loops and couplings of a `Mechanism`.

- connect: two points coincide, one of each body (`Coincident`), or the origins of two sites.
- weld: two frames coincide (`Fixed`); without torque (``torquescale="0"``) only their origins coincide.
- joint: q_1 - ref_1 = c_0 + c_1 (q_2 - ref_2) + ... + c_4 (q_2 - ref_2)^4, a coupling that determines
  joint 1; it is linear if c_2 = c_3 = c_4 = 0. If the right side is c_0 alone, joint 1 does not move, and
  becomes a fixed joint.

Constraints are exact here, even if they are soft in MuJoCo. Constraints that are not active in the file, or
all if a flag of the file disables equality constraints, are left out; so are those to a mocap body, which is
a target that a user moves, and no part of the robot. Other types (tendon, flex) raise an error that names
the constraint. Source: MuJoCo's documentation, Computation, "Equality".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from connections._words import no_such
from connections.checks import ModelError, require_names
from connections.multibody.description.mechanism import Mechanism
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
    ModelError : one is neither connect nor weld nor joint; there is none of a name. TypeError.
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
    read = (mujoco.mjtEq.mjEQ_CONNECT, mujoco.mjtEq.mjEQ_WELD, mujoco.mjtEq.mjEQ_JOINT)
    for number in numbers:
        kind = mujoco.mjtEq(compiled.eq_type[number])
        if kind not in read:
            word = kind.name.removeprefix("mjEQ_").lower()
            name = _name(compiled, number)
            raise ModelError(
                f"equality constraint '{name}' ({word}): only connect, weld and joint are read; "
                "equality=[names] or equality=False leaves it out"
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
                    name, mocap = _name(compiled, number), compiled.body(body).name or f"number {body}"
                    found[number] = (
                        f"equality constraint '{name}' is left out: its body '{mocap}' is a mocap body, a "
                        f"target that moves. equality=[{name!r}, ...] takes it as a joint"
                    )
    return found


def _name(compiled: Any, number: int) -> str:
    return compiled.equality(number).name or f"number {number}"


def _bodies(mujoco: ModuleType, compiled: Any, number: int) -> list[int]:
    """The bodies of a connect or weld."""
    sides = [int(compiled.eq_obj1id[number]), int(compiled.eq_obj2id[number])]
    if compiled.eq_objtype[number] == mujoco.mjtObj.mjOBJ_SITE:
        return [int(compiled.site_bodyid[site]) for site in sides]
    return sides


def held_joints(mujoco: ModuleType, compiled: Any, equalities: Mapping[int, str]) -> dict[int, float]:
    """Positions, rad or m, of the joints that an equality holds at a constant, by number.

    Raises
    ------
    ModelError : one equality holds a joint, and another one holds or couples the same joint.
    """
    held: dict[int, float] = {}
    coupled: dict[int, str] = {}
    for number, name in equalities.items():
        if compiled.eq_type[number] != mujoco.mjtEq.mjEQ_JOINT:
            continue
        joints = [int(compiled.eq_obj1id[number])]
        if _is_constant(compiled, number):
            held[joints[0]] = _position(compiled, joints[0]) + float(compiled.eq_data[number, 0])
        else:
            joints.append(int(compiled.eq_obj2id[number]))
        for joint in joints:
            if joint in held and joint in coupled:
                raise ModelError(
                    f"equality constraints '{coupled[joint]}' and '{name}': one holds a joint that the other "
                    "constrains, too"
                )
            coupled[joint] = name
    return held


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
    determined = {
        int(compiled.eq_obj1id[number])
        for number in equalities
        if compiled.eq_type[number] == mujoco.mjtEq.mjEQ_JOINT
    }
    for number, name in equalities.items():
        if compiled.eq_type[number] != mujoco.mjtEq.mjEQ_JOINT:
            (body_a, at_a), (body_b, at_b) = _frames(mujoco, compiled, number, origins)
            closure = _closure(mujoco, compiled, number)
            mechanism.add_loop(name, body_name(body_a), body_name(body_b), closure, at_a, at_b)
        elif not _is_constant(compiled, number):
            leader = int(compiled.eq_obj2id[number])
            names = joint_name(int(compiled.eq_obj1id[number])), joint_name(leader)
            _add_coupling(compiled, mechanism, number, name, names, leader not in determined)


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


def _add_coupling(
    compiled: Any,
    mechanism: Mechanism,
    number: int,
    name: str,
    joints: tuple[str, str],
    free: bool,
) -> None:
    """Add q_1 = polynomial of q_2; `free` says whether no other coupling determines joint 2."""
    follower, leader = joints
    y, x = (_position(compiled, int(at[number])) for at in (compiled.eq_obj1id, compiled.eq_obj2id))
    c = np.array(compiled.eq_data[number, :5])
    independent = (leader,) if free else ()
    if not c[2:].any():
        offset = y + c[0] - c[1] * x
        mechanism.add_coupling(name, {follower: 1.0, leader: -c[1]}, offset, independent=independent)
        return

    def residual(q_1: Any, q_2: Any) -> Any:
        """q_1 - ref_1 - sum_k c_k (q_2 - ref_2)^k, by Horner's rule."""
        total = 0.0
        for coefficient in c[::-1]:
            total = coefficient + (q_2 - x) * total
        return q_1 - y - total

    mechanism.add_coupling(name, joints, function=residual, independent=independent)


def _is_constant(compiled: Any, number: int) -> bool:
    """Whether a joint constraint leaves joint 1 no motion."""
    return bool(compiled.eq_obj2id[number] < 0 or not compiled.eq_data[number, 1:5].any())


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
