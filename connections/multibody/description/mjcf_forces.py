"""Actuators of an MJCF file as motors, and its springs, dampers and friction as passive forces.

- An actuator on a hinge, slide or ball joint, or on a fixed tendon, is a `Motor` on joints; one on a site,
  with no other as its reference, is a motor on the frame of the site. u is MuJoCo's ``actuator_force``: that
  of a ``<motor>`` is its control, that of a servo depends on q and v, too.
- ``stiffness`` of hinges, slides and fixed tendons, ``damping`` of joints and fixed tendons, and
  ``frictionloss`` of joints are in `Model.passive`; what MuJoCo's ``qfrc_passive`` has besides is in its
  ``left_out``.

None of these enters H. What is left out is told by a `LeftOutWarning`. Source: MuJoCo's documentation,
Computation, Actuation model and Passive forces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from connections.multibody.description.mjcf_equality import fixed_tendon, tendon_name
from connections.multibody.joints.motors import Motor, Passive, Spring

MOST_NAMED = 5  # in a warning


@dataclass(frozen=True, eq=False)
class MJCFForces:
    """What acts on the robot of a compiled file.

    Parameters
    ----------
    mujoco : the module.
    compiled : ``mujoco.MjModel``.
    names : of the joints that move, by number.
    held : configurations of the other joints, by number.
    sites : names of the frames of sites, by number.
    """

    mujoco: ModuleType
    compiled: Any
    names: Mapping[int, str]
    held: Mapping[int, np.ndarray]
    sites: Mapping[int, str]

    def motors(self) -> list[Motor]:
        """A motor for each actuator that has one."""
        return [motor for motor in self._actuators.values() if isinstance(motor, Motor)]

    def left_out(self) -> str:
        """What acts on the robot and is not in the model, for a warning; an empty text if nothing does."""
        compiled = self.compiled
        found = [
            f"actuator '{name}' ({why})" for name, why in self._actuators.items() if isinstance(why, str)
        ]
        for number in range(compiled.ntendon):
            if fixed_tendon(self.mujoco, compiled, number) is None:
                found.append(f"the spatial tendon '{tendon_name(compiled, number)}'")
        found += [
            f"the flexible body '{compiled.flex(k).name or f'number {k}'}'" for k in range(compiled.nflex)
        ]
        if not found:
            return ""
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        return f"not in the model are {', '.join(found[:MOST_NAMED])}{more}; H, C and g do not depend on them"

    @cached_property
    def _actuators(self) -> dict[str, Motor | str | None]:
        """The motor of each actuator, why there is none, or None if what it moves is held."""
        found: dict[str, Motor | str | None] = {}
        for number in range(len(self.compiled.actuator_trntype)):
            name = self.compiled.actuator(number).name or f"number {number}"
            while name in found:
                name += " (unnamed)"
            found[name] = self._motor(number, name)
        return found

    def _motor(self, number: int, name: str) -> Motor | str | None:
        """A motor, why there is none, or None if what it moves is held."""
        compiled, kinds = self.compiled, self.mujoco.mjtTrn
        kind, gear = kinds(compiled.actuator_trntype[number]), np.array(compiled.actuator_gear[number])
        target, reference = map(int, compiled.actuator_trnid[number])
        force = (
            tuple(compiled.actuator_forcerange[number]) if compiled.actuator_forcelimited[number] else None
        )
        given: dict[str, Any] = {} if force is None else {"force": force}
        if kind == kinds.mjTRN_SITE and reference < 0:
            wrench = np.concatenate([gear[3:], gear[:3]])
            acts = target in self.sites and wrench.any()
            return Motor(name, {}, self.sites[target], wrench, **given) if acts else None
        if kind in (kinds.mjTRN_JOINT, kinds.mjTRN_JOINTINPARENT):
            joints = self._on_joint(target, gear, kind == kinds.mjTRN_JOINTINPARENT)
            if isinstance(joints, str):
                return joints
        elif kind == kinds.mjTRN_TENDON:
            length = fixed_tendon(self.mujoco, compiled, target)
            if length is None:
                return f"on the spatial tendon '{tendon_name(compiled, target)}'"
            joints = {self.names[joint]: gear[0] * a for joint, a in length.items() if joint in self.names}
        else:
            return str(kind.name.removeprefix("mjTRN_").lower())
        return Motor(name, joints, **given) if joints else None

    def _on_joint(self, joint: int, gear: np.ndarray, in_parent: bool) -> dict[str, Any] | str:
        kinds = self.mujoco.mjtJoint
        if joint not in self.names:
            return {}
        kind = kinds(self.compiled.jnt_type[joint])
        if kind == kinds.mjJNT_FREE:
            return "on a free joint"
        if kind == kinds.mjJNT_BALL:
            return "in the parent of a ball joint" if in_parent else {self.names[joint]: gear[:3]}
        return {self.names[joint]: gear[0]}

    def passive(self) -> Passive:
        """Springs, dampers and friction of the joints that move and of fixed tendons."""
        compiled, disabled = self.compiled, self.mujoco.mjtDisableBit
        flags = int(compiled.opt.disableflags)
        springs = [] if flags & disabled.mjDSBL_SPRING else self._springs()
        dofs = {name: int(compiled.jnt_dofadr[joint]) for joint, name in self.names.items()}
        damped = not flags & disabled.mjDSBL_DAMPER
        damping = {
            name: compiled.dof_damping[dof]
            for name, dof in dofs.items()
            if damped and compiled.dof_damping[dof]
        }
        friction = {
            name: compiled.dof_frictionloss[dof]
            for name, dof in dofs.items()
            if compiled.dof_frictionloss[dof] > 0.0  # others are none in MuJoCo
        }
        springs += self._tendons(not flags & disabled.mjDSBL_SPRING, damped)
        return Passive(tuple(springs), damping, friction, tuple(self._others()))

    def _springs(self) -> list[Spring]:
        compiled, hinges = self.compiled, (self.mujoco.mjtJoint.mjJNT_HINGE, self.mujoco.mjtJoint.mjJNT_SLIDE)
        made = []
        for joint, name in self.names.items():
            if compiled.jnt_stiffness[joint] and self.mujoco.mjtJoint(compiled.jnt_type[joint]) in hinges:
                rest = float(compiled.qpos_spring[compiled.jnt_qposadr[joint]])
                made.append(Spring(name, {name: 1.0}, float(compiled.jnt_stiffness[joint]), rest))
        return made

    def _tendons(self, sprung: bool, damped: bool) -> list[Spring]:
        compiled, made = self.compiled, []
        for number in range(compiled.ntendon):
            k = float(compiled.tendon_stiffness[number]) * sprung
            d = float(compiled.tendon_damping[number]) * damped
            length = fixed_tendon(self.mujoco, compiled, number)
            if length is None or not (k or d):
                continue
            moving = {self.names[joint]: a for joint, a in length.items() if joint in self.names and a}
            still = sum(a * float(self.held[joint][0]) for joint, a in length.items() if joint in self.held)
            rest = np.array(compiled.tendon_lengthspring[number]) - still
            if moving:
                made.append(Spring(tendon_name(compiled, number), moving, k, rest, d))
        return made

    def _others(self) -> list[str]:
        """What else MuJoCo's ``qfrc_passive`` has."""
        compiled, kinds = self.compiled, self.mujoco.mjtJoint
        found = []
        for joint, name in self.names.items():
            word = kinds(compiled.jnt_type[joint]).name.removeprefix("mjJNT_").lower()
            if word in ("ball", "free") and compiled.jnt_stiffness[joint]:
                found.append(f"the spring of the {word} joint '{name}'")
            dof = compiled.jnt_dofadr[joint]
            if compiled.jnt_stiffnesspoly[joint].any() or compiled.dof_dampingpoly[dof].any():
                found.append(f"the nonlinear spring or damper of joint '{name}'")
            if compiled.jnt_springyield[joint].any():
                found.append(f"the spring of joint '{name}', which yields")
        for number in range(compiled.ntendon):
            name = tendon_name(compiled, number)
            sprung = compiled.tendon_stiffness[number] or compiled.tendon_damping[number]
            if sprung and fixed_tendon(self.mujoco, compiled, number) is None:
                found.append(f"the spring of the spatial tendon '{name}'")
            polynomials = compiled.tendon_stiffnesspoly[number], compiled.tendon_dampingpoly[number]
            if np.any(polynomials) or compiled.tendon_springyield[number].any():
                found.append(f"the nonlinear spring or damper of tendon '{name}'")
        for body in np.flatnonzero(compiled.body_gravcomp):
            found.append(f"the gravity compensation of body '{compiled.body(body).name or f'body {body}'}'")
        for motor in np.flatnonzero(compiled.actuator_damping):
            found.append(f"the damping of actuator '{compiled.actuator(motor).name or f'number {motor}'}'")
        if compiled.opt.density or compiled.opt.viscosity:
            found.append("the drag of a fluid")
        if compiled.nflex:
            found.append("the springs of flexible bodies")
        return found
