"""The unknowns besides the inertial parameters of bodies: friction, armature and offsets of torques.

    theta = [pi; F_v (nv,); F_c (nv,); armature (groups,); offsets (nv,)], as far as they are asked for.

Friction and offsets are those of joints that are not free; armature is one number for each group of velocity
components that `Model.with_armature` takes one for. The column of a velocity that is measured as noise says
nothing about friction, but least squares would believe it: so a joint counts as moving if its velocity behind
the filter exceeds s (2 log T)^(1/2), the largest of T values of noise of the size s, and s^2 is the mean of
squares of divided differences of fourth order, of which a motion that the samples resolve has hardly any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from connections.control.identification.base_parameters import dependence
from connections.control.identification.low_pass import low_pass
from connections.multibody import Free, Model
from connections.multibody.joints.armature import rotor_axes
from connections.multibody.model import with_inertias

VISCOUS, COULOMB, ARMATURE, OFFSET = range(4)
_WORDS = ("viscous friction", "Coulomb friction", "armature", "torque's offset")
_ORDER = (OFFSET, VISCOUS, COULOMB, ARMATURE)  # the later ones are held where they depend on the earlier
_PART = 1e-6  # of a column, from which on another one is said to be part of it


@dataclass(frozen=True)
class FurtherUnknowns:
    """The further unknowns that a recording can say something about, and what it cannot say.

    Parameters
    ----------
    kinds, numbers : (n,) VISCOUS to OFFSET, and the velocity component, or the group of armature.
    owners : (n,) joints, in words.
    slices : {kind: where its values are among those behind pi in theta}, empty for what is not asked for.
    groups : of armature: names of joints and their components.
    hidden : kinds and owners that are left out, because the motion of their joints is noise.
    """

    kinds: np.ndarray
    numbers: np.ndarray
    owners: tuple[str, ...]
    slices: dict[int, slice]
    groups: tuple[tuple[str, np.ndarray], ...]
    hidden: tuple[tuple[int, str], ...]
    _nv: int

    @classmethod
    def of(
        cls, model: Model, t: np.ndarray, v: np.ndarray, rate: float, asked: tuple[bool, bool, bool]
    ) -> FurtherUnknowns:
        """The unknowns that are asked for: friction, armature, offsets, as three booleans."""
        friction, armature, offsets = asked
        joints, groups = with_friction(model), groups_of(model) if armature else ()
        noisy = _noisy(t, v, rate) if any(asked) else np.zeros(model.nv, dtype=bool)
        owners = _owners_of_velocities(model)
        rubbing = [(kind, int(k), owners[k], bool(noisy[k])) for kind in (VISCOUS, COULOMB) for k in joints]
        rotors = [
            (ARMATURE, number, _owner_of_group(*group, groups), _all_noise(model, *group, v, noisy))
            for number, group in enumerate(groups)
        ]
        rows = rubbing * friction + rotors
        rows += [(OFFSET, int(k), owners[k], False) for k in joints] * offsets
        counts = model.nv * friction, model.nv * friction, len(groups), model.nv * offsets
        ends = np.cumsum(counts).tolist()
        seen = [row for row in rows if not row[3]]
        return cls(
            kinds=np.array([row[0] for row in seen], dtype=int),
            numbers=np.array([row[1] for row in seen], dtype=int),
            owners=tuple(row[2] for row in seen),
            slices={
                kind: slice(end - n, end) for kind, (end, n) in enumerate(zip(ends, counts, strict=True))
            },
            groups=groups,
            hidden=tuple((row[0], row[2]) for row in rows if row[3]),
            _nv=model.nv,
        )

    @property
    def size(self) -> int:
        """The number of values behind pi in theta."""
        return int(self.slices[OFFSET].stop)

    @property
    def places(self) -> np.ndarray:
        """Where the unknowns are among the values behind pi in theta, (n,)."""
        starts = np.array([self.slices[kind].start for kind in range(len(_WORDS))])
        return np.asarray(starts[self.kinds] + self.numbers)

    def of_velocities(self, kind: int, values: np.ndarray) -> np.ndarray:
        """The values of one kind, (nv,), among those behind pi in theta; zero if they are not asked for."""
        own = values[self.slices[kind]]
        return own.copy() if len(own) else np.zeros(self._nv)

    def armature_of(self, model: Model, values: np.ndarray) -> dict[str, np.ndarray]:
        """{joint: (nv of the joint,)}, the model's if it is not asked for."""
        armature = {name: value.copy() for name, value in model.armature.items()}
        for (name, components), value in zip(self.groups, values[self.slices[ARMATURE]], strict=False):
            armature[name][components] = value
        return armature

    def friction_among(self, friction: np.ndarray, which: np.ndarray) -> np.ndarray:
        """The entries of (2, nv) coefficients for some of the unknowns; zero for those of other kinds."""
        kinds, numbers = self.kinds[which], self.numbers[which]
        rubbing = kinds <= COULOMB
        return np.where(rubbing, friction[np.where(rubbing, kinds, 0), np.where(rubbing, numbers, 0)], 0.0)

    def columns(self, model: Model, t: np.ndarray, q: Any, v: np.ndarray, rate: float) -> np.ndarray:
        """The filtered equations' columns, (T, nv, n)."""
        W = np.zeros((*v.shape, len(self.kinds)))
        for kind, x in ((VISCOUS, v), (COULOMB, np.sign(v)), (OFFSET, np.ones_like(v))):
            own = np.flatnonzero(self.kinds == kind)
            joints = self.numbers[own]
            if len(own):
                W[:, joints, own] = low_pass(t, x[:, joints], rate, smooth=kind == VISCOUS)
        for column in np.flatnonzero(self.kinds == ARMATURE):
            rotor = _rotor(model, *self.groups[self.numbers[column]]).system()
            p, change = np.asarray(rotor.momentum(q, v)), np.asarray(rotor.momentum_rate(q, v))
            W[..., column] = rate * (p - low_pass(t, p, rate, p[0])) - low_pass(t, change, rate)
        return W

    def held(self, W: np.ndarray, v: np.ndarray, alone: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
        """Which unknowns stay where they start, (n,), and sentences about all that are not determined.

        Parameters
        ----------
        W : (T, nv, n) columns in units of a kind.
        v : (T, nv).
        alone : (n,) whether data determine each by itself.
        """
        found: dict[tuple[str, str, str], list[int]] = {}
        for kind, owner in self.hidden:
            found.setdefault((owner, " moves less than the noise of its velocity", ""), []).append(kind)
        sizes = np.sqrt(np.sum(W**2, axis=(0, 1)))
        dependent, coefficients = self._dependence(W)
        parts = np.abs(coefficients) * sizes > _PART * sizes[:, None]
        silent = ~alone & (sizes <= _PART)
        held, partners = dependent | silent, parts.any(axis=0)
        for k in np.flatnonzero(held | ~alone & ~partners).tolist():
            why, apart = "", " apart from the parameters of bodies"
            if parts[k].any():
                others = [self._seen_from(k, j) for j in np.flatnonzero(parts[k]).tolist()]
                why, apart = self._motion(k, v), " apart from " + _listed(others)
            elif silent[k]:
                why, apart = " moves too little" if sizes[k] else " stands still", ""
            found.setdefault((self.owners[k], why, apart), []).append(int(self.kinds[k]))
        return held, tuple(_sentence(*key, kinds) for key, kinds in found.items())

    def named(self, which: np.ndarray) -> tuple[str, ...]:
        """Some of the unknowns, by their numbers, in words, such as "armature of joint 'lift'"."""
        return tuple(f"{_WORDS[self.kinds[k]]} of {self.owners[k]}" for k in which)

    def _dependence(self, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`base_parameters.dependence`: offsets first, then friction, armature last."""
        n = W.shape[-1]
        dependent, coefficients = np.zeros(n, dtype=bool), np.zeros((n, n))
        if n:
            order = np.concatenate([np.flatnonzero(self.kinds == kind) for kind in _ORDER])
            found = dependence(W[..., order].reshape(-1, n))
            dependent[order], coefficients[np.ix_(order, order)] = found
        return dependent, coefficients

    def _motion(self, k: int, v: np.ndarray) -> str:
        if self.kinds[k] == ARMATURE:
            return ""
        own = v[:, self.numbers[k]]
        if (own == own[0]).all():
            return " moves at one velocity only"
        return " moves in one direction only" if (own > 0.0).all() or (own < 0.0).all() else ""

    def _seen_from(self, k: int, other: int) -> str:
        if self.owners[k] == self.owners[other]:
            return _of_its_own(int(self.kinds[other]))
        return f"the {_WORDS[self.kinds[other]]} of {self.owners[other]}"


def with_friction(model: Model) -> np.ndarray:
    """Numbers of the velocities of joints that are not free."""
    tree = model.kinematics.tree
    kinds = dict(zip(tree.joint_names, tree.joints, strict=True))
    slices = [model.velocity_slice(name) for name in model.joint_names if not isinstance(kinds[name], Free)]
    return np.concatenate([np.zeros(0, dtype=int), *(np.arange(s.start, s.stop) for s in slices)])


def groups_of(model: Model) -> tuple[tuple[str, np.ndarray], ...]:
    """Names of joints and components that have one armature, dependent joints of closed loops included."""
    tree = model.kinematics.tree
    return tuple(
        (name, np.array(group))
        for name, joint in zip(tree.joint_names, tree.joints, strict=True)
        for group in rotor_axes(joint)
    )


def _rotor(model: Model, joint: str, components: np.ndarray) -> Model:
    """The robot without anything but a unit of armature at some components of a joint, and without weight."""
    armature = {name: np.zeros_like(value) for name, value in model.armature.items()}
    armature[joint][components] = 1.0
    alone = with_inertias(model, np.zeros_like(model.kinematics.tree.inertias)).with_armature(armature)
    return alone.with_gravity((0.0, 0.0, 0.0))


def _noisy(t: np.ndarray, v: np.ndarray, rate: float) -> np.ndarray:
    """Whether each velocity is not zero, and no more than noise, (nv,)."""
    if len(t) < 5:
        return np.zeros(v.shape[1], dtype=bool)
    fastest = np.abs(low_pass(t, v, rate)).max(axis=0)
    most = np.sqrt(2.0 * np.log(len(t))) * _noise_of(t, v)
    return np.asarray(v.any(axis=0) & (fastest <= most))


def _all_noise(model: Model, joint: str, components: np.ndarray, v: np.ndarray, noisy: np.ndarray) -> bool:
    """Whether some of these components move, and all that do are noise; not of dependent joints of loops."""
    if joint not in model.joint_names:
        return False
    own = model.velocity_slice(joint).start + components
    return bool(noisy[own].any() and not (v[:, own].any(axis=0) & ~noisy[own]).any())


def _noise_of(t: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The size of white noise with these divided differences of fourth order, (nv,)."""
    times = np.lib.stride_tricks.sliding_window_view(t, 5) / np.median(np.diff(t))
    gaps = times[:, :, None] - times[:, None, :] + np.eye(5)
    weights = 1.0 / np.prod(gaps, axis=2)
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    windows = np.lib.stride_tricks.sliding_window_view(v, 5, axis=0)
    return np.asarray(np.sqrt(np.mean(np.einsum("tj,tkj->tk", weights, windows) ** 2, axis=0)))


def _owners_of_velocities(model: Model) -> list[str]:
    owners = []
    for name in model.joint_names:
        own = model.velocity_slice(name)
        size = own.stop - own.start
        owners += [f"joint '{name}'" + (f", component {k}" if size > 1 else "") for k in range(size)]
    return owners


def _owner_of_group(name: str, components: np.ndarray, groups: Sequence[tuple[str, np.ndarray]]) -> str:
    if sum(other == name for other, _ in groups) == 1:
        return f"joint '{name}'"
    first, last = int(components[0]), int(components[-1])
    return f"joint '{name}', " + (f"component {first}" if first == last else f"components {first} to {last}")


def _sentence(owner: str, why: str, apart: str, kinds: list[int]) -> str:
    words = [_of_its_own(kind) for kind in kinds]
    if {VISCOUS, COULOMB} <= set(kinds):
        words = ["its friction", *(_of_its_own(kind) for kind in kinds if kind > COULOMB)]
    return f"{owner}{why}: {_listed(words)} {'are' if len(words) > 1 else 'is'} not determined{apart}"


def _of_its_own(kind: int) -> str:
    return f"its {_WORDS[kind]}" if kind != OFFSET else "the offset of its torque"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
