"""Actuators of an MJCF file as motors, and its springs, dampers and friction as passive forces.

- An actuator on a hinge, slide or ball joint, or on a fixed tendon, is a `Motor` on joints; one on a site,
  with no other as its reference, is a motor on the frame of the site. u is MuJoCo's ``actuator_force``: that
  of a ``<motor>`` is its control, within its range, that of a servo depends on q and v, too.
- ``stiffness`` of hinges, slides and fixed tendons, ``damping`` of joints, of fixed tendons and of actuators
  on these, ``gravcomp`` of bodies, and ``frictionloss`` of joints and of tendons on one joint are in
  `Model.passive`; what MuJoCo's ``qfrc_passive`` has besides is in its ``left_out``.

None of these enters H. What is left out is told by a `LeftOutWarning`, in the words of ``formats/mjcf.toml``.
Source: MuJoCo's documentation, Computation, Actuation model and Passive forces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import ModuleType
from typing import Any

import numpy as np

from connections.multibody.description.format_table import PASSIVE, table_of
from connections.multibody.description.left_out import LeftOut
from connections.multibody.description.mjcf_equality import fixed_tendon
from connections.multibody.description.mjcf_inventory import Places
from connections.multibody.description.mjcf_names import name_of
from connections.multibody.joints.motors import Motor, Passive, Spring

_OF_ONE = ("hinge", "slide")
_STIFFNESS, _SPRUNG = ("stiffness",), ("stiffness", "damping")
_DAMPER = "damping of an actuator on a hinge, slide or fixed tendon"
_NO_DAMPER = "damping of an actuator that is not on a hinge, slide or fixed tendon"
_OTHERS = "an actuator on a free joint, a spatial tendon, or between sites or bodies"
_POLYNOMIAL = "stiffness or damping as a polynomial"
_OF_A_BALL = "stiffness of a ball joint"
_TWO_SIZES = "actuatorfrcrange of two sizes"


@dataclass(frozen=True, eq=False)
class MJCFForces:
    """Motors and passive forces on the robot of a compiled file.

    Parameters
    ----------
    mujoco : the module.
    compiled : ``mujoco.MjModel``.
    names : of the joints that move, by number.
    held : configurations of the other joints, by number.
    sites : names of the frames of sites, by number.
    origins : (nbody, 3) m, the origin of our frame of each body in MuJoCo's frame.
    places : the lines of the file's elements and attributes.
    """

    mujoco: ModuleType
    compiled: Any
    names: Mapping[int, str]
    held: Mapping[int, np.ndarray]
    sites: Mapping[int, str]
    origins: np.ndarray
    places: Places

    def motors(self) -> list[Motor]:
        """A motor for each actuator that has one."""
        return [motor for motor in self._actuators.values() if isinstance(motor, Motor)]

    @cached_property
    def left_out(self) -> list[LeftOut]:
        """The things that the file has and the model does not have."""
        return [*self._motors_left_out(), *self._of_tendons(), *self._others, *self.places.unknown]

    def _motors_left_out(self) -> Iterator[LeftOut]:
        without = {name: why for name, why in self._actuators.items() if isinstance(why, str)}
        off = "off" in without.values()
        if off and disabled(self.mujoco, self.compiled, "ACTUATION"):
            yield self._told("option/flag", "actuation", "all actuators")
            return
        for name, why in without.items():
            if why == "off":
                yield self._told("option", "actuatorgroupdisable", f"actuator '{name}'")
            else:
                yield LeftOut(f"actuator '{name}' ({why})", table_of("mjcf").row("actuator", _OTHERS).words)

    def _of_tendons(self) -> Iterator[LeftOut]:
        """Ranges and friction of tendons, and all of spatial ones."""
        compiled, off = self.compiled, partial(disabled, self.mujoco, self.compiled, "CONSTRAINT")
        for number in range(compiled.ntendon):
            name = f"tendon '{name_of(compiled, 'tendon', number)}'"
            length = fixed_tendon(self.mujoco, compiled, number)
            if length is None:
                yield replace(self._told("tendon/spatial", "", f"the spatial {name}"), passive=False)
                continue
            moving = self._moving(length)
            if compiled.tendon_frictionloss[number] > 0.0 and len(moving) > 1 and not off("FRICTIONLOSS"):
                yield self._told("tendon/fixed", "frictionloss", f"the dry friction of {name}")
            if compiled.tendon_limited[number] and moving and not off("LIMIT"):
                yield self._told("tendon/fixed", "range", f"the range of {name}")
            if compiled.tendon_actfrclimited[number] and moving:
                yield self._told("tendon/fixed", "actuatorfrcrange", f"the largest force of motors on {name}")

    def _told(self, path: str, attribute: str, what: str, given: Sequence[str] = ()) -> LeftOut:
        """One thing that is left out: its words are those of the table, its lines those of the attribute.

        Parameters
        ----------
        path, attribute : its row.
        what : it, in words.
        given : the attributes that say it, if the row is of a case of them.
        """
        row, said = table_of("mjcf").row(path, attribute), (*given,) or (attribute,)
        where = f"<{path.rpartition('/')[2]}{' ' * bool(said[0])}{said[0]}{'=...' * bool(said[0])}>"
        return LeftOut(what, row.words, self.places.of(path, said), where, row.fate == PASSIVE)

    def _moving(self, length: Mapping[int, float]) -> dict[str, float]:
        """The coefficients of a tendon's length for the joints that move."""
        return {self.names[joint]: a for joint, a in length.items() if joint in self.names and a}

    @cached_property
    def _actuators(self) -> dict[str, Motor | str | None]:
        """The motor of each actuator, why there is none, or None if what it moves is held."""
        found: dict[str, Motor | str | None] = {}
        for number in range(len(self.compiled.actuator_trntype)):
            name = name_of(self.compiled, "actuator", number)
            group = int(self.compiled.actuator_group[number])
            off = 0 <= group < 31 and int(self.compiled.opt.disableactuator) >> group & 1
            if off or not self._acts("ACTUATION"):
                found[name] = "off"
            else:
                found[name] = self._motor(number, name)
        return found

    def _motor(self, number: int, name: str) -> Motor | str | None:
        """A motor, why there is none, or None if what it moves is held."""
        compiled, kinds = self.compiled, self.mujoco.mjtTrn
        kind, gear = kinds(compiled.actuator_trntype[number]), np.array(compiled.actuator_gear[number])
        target, reference = map(int, compiled.actuator_trnid[number])
        given: dict[str, Any] = {"force": self._force(number)}
        if kind == kinds.mjTRN_SITE and reference < 0:
            wrench = np.concatenate([gear[3:], gear[:3]])
            acts = compiled.site_bodyid[target] and wrench.any()
            return Motor(name, {}, self.sites[target], wrench, **given) if acts else None
        if kind in (kinds.mjTRN_JOINT, kinds.mjTRN_JOINTINPARENT):
            joints = self._on_joint(target, gear, kind == kinds.mjTRN_JOINTINPARENT)
            if isinstance(joints, str):
                return joints
        elif kind == kinds.mjTRN_TENDON:
            length = fixed_tendon(self.mujoco, compiled, target)
            if length is None:
                return f"on the spatial tendon '{name_of(compiled, 'tendon', target)}'"
            joints = {self.names[joint]: gear[0] * a for joint, a in length.items() if joint in self.names}
        else:
            return str(kind.name.removeprefix("mjTRN_").lower())
        return Motor(name, joints, **given) if joints else None

    def _force(self, number: int) -> tuple[float, float]:
        """The least and largest force of an actuator; of a motor, whose u is its control, in its range."""
        compiled, (least, largest) = self.compiled, (-np.inf, np.inf)
        if compiled.actuator_forcelimited[number]:
            least, largest = compiled.actuator_forcerange[number].tolist()
        kinds = (
            compiled.actuator_gaintype[number],
            compiled.actuator_biastype[number],
            compiled.actuator_dyntype[number],
        )
        plain = (
            self.mujoco.mjtGain.mjGAIN_FIXED,
            self.mujoco.mjtBias.mjBIAS_NONE,
            self.mujoco.mjtDyn.mjDYN_NONE,
        )
        control, gain = int(compiled.actuator_ctrladr[number]), float(compiled.actuator_gainprm[number, 0])
        one = kinds == plain and int(compiled.actuator_ctrlnum[number]) == 1 and gain != 0.0
        if one and compiled.actuator_ctrllimited[control] and self._acts("CLAMPCTRL"):
            ends = sorted(gain * end for end in compiled.actuator_ctrlrange[control].tolist())
            least, largest = max(least, ends[0]), min(largest, ends[1])
        return min(least, largest), largest

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
        compiled = self.compiled
        springs = self._springs() if self._acts("SPRING") else []
        dofs = {name: int(compiled.jnt_dofadr[joint]) for joint, name in self.names.items()}
        damped = self._acts("DAMPER")
        damping = {
            name: compiled.dof_damping[dof]
            for name, dof in dofs.items()
            if damped and compiled.dof_damping[dof]
        }
        springs += self._tendons(self._acts("SPRING"), damped)
        springs += self._dampers() if damped else []
        left_out = tuple(each.what for each in self.left_out if each.passive)
        return Passive(tuple(springs), damping, self._friction(dofs), left_out, lift=self._lift)

    def _acts(self, flag: str) -> bool:
        found = self._flags.get(flag)
        if found is None:
            found = self._flags[flag] = not disabled(self.mujoco, self.compiled, flag)
        return found

    @cached_property
    def _flags(self) -> dict[str, bool]:
        """Whether what a flag of the file switches acts, as far as it was asked."""
        return {}

    def _friction(self, dofs: Mapping[str, int]) -> dict[str, float]:
        """Dry friction of joints, and of tendons on one joint."""
        compiled = self.compiled
        if not (self._acts("FRICTIONLOSS") and self._acts("CONSTRAINT")):
            return {}
        found = {name: max(float(compiled.dof_frictionloss[dof]), 0.0) for name, dof in dofs.items()}
        for number in np.flatnonzero(compiled.tendon_frictionloss > 0.0):
            moving = self._moving(fixed_tendon(self.mujoco, compiled, int(number)) or {})
            if len(moving) == 1:
                ((name, coefficient),) = moving.items()
                found[name] += abs(coefficient) * float(compiled.tendon_frictionloss[number])
        return {name: value for name, value in found.items() if value}

    def _springs(self) -> list[Spring]:
        compiled, made = self.compiled, []
        for joint, name in self.names.items():
            word, at = self._word(joint), compiled.jnt_qposadr[joint]
            if compiled.jnt_stiffness[joint] and word != "free":
                rest: Any = compiled.qpos_spring[at]
                if word == "ball":
                    rest = np.roll(compiled.qpos_spring[at : at + 4], -1)  # (w, x, y, z) there
                made.append(Spring(name, {name: 1.0}, float(compiled.jnt_stiffness[joint]), rest))
        return made

    def _word(self, joint: int) -> str:
        """The type of a joint as MJCF writes it."""
        return self._words[joint]

    @cached_property
    def _words(self) -> list[str]:
        """The types of all joints."""
        kinds = {int(kind): kind.name for kind in map(self.mujoco.mjtJoint, range(4))}
        return [kinds[k].removeprefix("mjJNT_").lower() for k in self.compiled.jnt_type.tolist()]

    def _tendons(self, sprung: bool, damped: bool) -> list[Spring]:
        compiled, made = self.compiled, []
        for number in range(compiled.ntendon):
            k = float(compiled.tendon_stiffness[number]) * sprung
            d = float(compiled.tendon_damping[number]) * damped
            length = fixed_tendon(self.mujoco, compiled, number)
            if length is None or not (k or d):
                continue
            moving = self._moving(length)
            still = sum(a * float(self.held[joint][0]) for joint, a in length.items() if joint in self.held)
            rest = np.array(compiled.tendon_lengthspring[number]) - still
            if moving:
                made.append(Spring(name_of(compiled, "tendon", number), moving, k, rest, d))
        return made

    def _dampers(self) -> list[Spring]:
        """The dampers of actuators on hinges, slides and fixed tendons; they act if the actuators are off."""
        made = []
        for number in np.flatnonzero(self.compiled.actuator_damping).tolist():
            moving, d = (
                self._moving(self._length(number) or {}),
                float(self.compiled.actuator_damping[number]),
            )
            if moving:
                made.append(Spring(name_of(self.compiled, "actuator", number), moving, damping=d))
        return made

    def _length(self, number: int) -> dict[int, float] | None:
        """The coefficient of each joint in the length of an actuator; None if it is no such sum."""
        compiled, kinds = self.compiled, self.mujoco.mjtTrn
        kind, target = kinds(compiled.actuator_trntype[number]), int(compiled.actuator_trnid[number, 0])
        gear, length = float(compiled.actuator_gear[number, 0]), None
        if kind in (kinds.mjTRN_JOINT, kinds.mjTRN_JOINTINPARENT) and self._word(target) in _OF_ONE:
            length = {target: 1.0}
        elif kind == kinds.mjTRN_TENDON:
            length = fixed_tendon(self.mujoco, compiled, target)
        return None if length is None else {joint: gear * a for joint, a in length.items()}

    @cached_property
    def _lift(self) -> dict[str, np.ndarray]:
        """The masses whose weight gravity compensation carries, at the centres of mass of moving bodies."""
        compiled, off = self.compiled, not (self._acts("SPRING") or self._acts("DAMPER"))
        if off or not self._weighs:
            return {}
        found = {}
        for body in np.flatnonzero((compiled.body_gravcomp > 0.0) & (compiled.body_mass > 0.0)).tolist():
            if compiled.body_weldid[body]:
                mass = compiled.body_gravcomp[body] * compiled.body_mass[body]
                point = compiled.body_ipos[body] - self.origins[body]
                found[name_of(compiled, "body", body)] = np.concatenate([[mass], mass * point])
        return found

    @cached_property
    def _others(self) -> list[LeftOut]:
        """The other things of MuJoCo's ``qfrc_passive`` that the model does not have, and those of joints."""
        if disabled(self.mujoco, self.compiled, "SPRING") and disabled(self.mujoco, self.compiled, "DAMPER"):
            return [each for each in self._of_joints() if not each.passive]  # it has nothing then
        return [*self._of_joints(), *self._nonlinear_tendons(), *self._of_bodies()]

    def _of_joints(self) -> Iterator[LeftOut]:
        compiled, told = self.compiled, partial(self._told, "body/joint")
        for joint, name in self.names.items():
            word, dof = self._word(joint), compiled.jnt_dofadr[joint]
            sprung = self._acts("SPRING")
            if word == "free" and compiled.jnt_stiffness[joint] and sprung:
                yield told("stiffness of a free joint", f"the spring of the free joint '{name}'", _STIFFNESS)
            if word == "ball" and compiled.jnt_stiffness[joint] and sprung:
                yield told(_OF_A_BALL, f"the spring of the ball joint '{name}'", _STIFFNESS)
            higher = sprung and compiled.jnt_stiffnesspoly[joint].any()
            if higher or (self._acts("DAMPER") and compiled.dof_dampingpoly[dof].any()):
                yield told(_POLYNOMIAL, f"the nonlinear spring or damper of joint '{name}'", _SPRUNG)
            if sprung and compiled.jnt_springyield[joint].any():
                yield told("springyield", f"the spring of joint '{name}', which yields")
            lower, upper = compiled.jnt_actfrcrange[joint]
            if compiled.jnt_actfrclimited[joint] and lower != -upper and word in _OF_ONE:
                what = f"the smaller side of the forces of joint '{name}', {lower:g} to {upper:g}"
                yield told(_TWO_SIZES, what, ("actuatorfrcrange",))
            if compiled.jnt_actgravcomp[joint] and self._weighs:
                yield told("actuatorgravcomp", f"that motors carry the weight of joint '{name}'")

    def _nonlinear_tendons(self) -> Iterator[LeftOut]:
        compiled = self.compiled
        for number in range(compiled.ntendon):
            name = name_of(compiled, "tendon", number)
            sprung = compiled.tendon_stiffness[number] or compiled.tendon_damping[number]
            if fixed_tendon(self.mujoco, compiled, number) is None:
                if sprung:
                    yield self._told("tendon/spatial", "", f"the spring of the spatial tendon '{name}'")
                continue
            polynomials = compiled.tendon_stiffnesspoly[number], compiled.tendon_dampingpoly[number]
            if np.any(polynomials):
                what = f"the nonlinear spring or damper of tendon '{name}'"
                yield self._told("tendon/fixed", _POLYNOMIAL, what, _SPRUNG)
            if compiled.tendon_springyield[number].any():
                yield self._told(
                    "tendon/fixed", "springyield", f"the spring of tendon '{name}', which yields"
                )

    @property
    def _weighs(self) -> bool:
        """Whether there is gravity."""
        return bool(np.any(self.compiled.opt.gravity)) and self._acts("GRAVITY")

    def _of_bodies(self) -> Iterator[LeftOut]:
        compiled = self.compiled
        for body in np.flatnonzero(compiled.body_gravcomp).tolist() if self._weighs else ():
            name = name_of(compiled, "body", body)
            case = "gravcomp" if name in self._lift else "a negative gravcomp"
            if name in self._lift or compiled.body_gravcomp[body] < 0.0:
                yield self._told("body", case, f"the gravity compensation of body '{name}'", ("gravcomp",))
        for body in np.flatnonzero(compiled.body_plugin >= 0).tolist():
            yield self._told("body/plugin", "", f"the program of body '{name_of(compiled, 'body', body)}'")
        for motor in np.flatnonzero(compiled.actuator_damping).tolist() if self._acts("DAMPER") else ():
            case = _NO_DAMPER if self._length(motor) is None else _DAMPER
            row = table_of("mjcf").row("actuator", case)
            what = f"the damping of actuator '{name_of(compiled, 'actuator', motor)}'"
            lines = self.places.within("actuator", "damping")
            yield LeftOut(what, row.words, lines, "damping=...", row.fate == PASSIVE)
        if compiled.opt.density or compiled.opt.viscosity:
            yield self._told("option", "density", "the drag of a fluid", ("density", "viscosity", "wind"))
        for flex in range(compiled.nflex):
            what = f"the springs of the flexible body '{name_of(compiled, 'flex', flex)}'"
            lines = self.places.of("deformable/flex") + self.places.of("body/flexcomp")
            words = table_of("mjcf").row("deformable/flex").words
            yield LeftOut(what, words, lines, "<flex>", passive=True)


def disabled(mujoco: ModuleType, compiled: Any, *flags: str) -> bool:
    """Whether the file switches one of these off, such as "LIMIT", by a ``<flag>`` of its ``<option>``."""
    bits = (getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag}") for flag in flags)
    return any(int(compiled.opt.disableflags) & int(bit) for bit in bits)
