"""`TracedModel`: a robot whose numbers are data inside JAX: inertias, placements, springs, motors.

Its joints are those of a model, which JAX takes for a constant; its numbers are arrays that may be traced,
mapped over and differentiated. If they are inertias, gravity and armature, the recursions are those of the
model: compiled code reads the numbers in place of the model's (`program/data_packing.py`), and their
derivatives are other recursions (`in_jax/data_tangents.py`). A frame that is added has the recursions of the
frame to which it is fixed, and passive forces and motors are products of arrays. If placements of joints are
data, everything is computed by the definition in JAX (`in_jax/placed_recursions.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol, final

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike
from connections._words import no_such, words_of
from connections.checks import (
    ModelError,
    ShapeError,
    as_array,
    batch_axes,
    is_traced,
    require_mapping,
    require_type,
)
from connections.evaluation.boundary import float_of
from connections.geometry import FrameField
from connections.geometry.rigid.placements import rigid_transform
from connections.geometry.rigid.rotations import rigid_or_nan
from connections.multibody.applied_forces import (
    PassiveLaw,
    lifted_parameters,
    motor_matrix_at,
    passive_forces_at,
    require_left_out_nothing,
)
from connections.multibody.as_geometry.recursive_connection import Definitions
from connections.multibody.definition.frames import (
    WORLD,
    fixed_jacobian_at,
    fixed_pose_at,
    frame_of,
)
from connections.multibody.graph import no_joint
from connections.multibody.in_jax.data_robot import with_data
from connections.multibody.in_jax.placed_recursions import (
    FRAMES,
    of_fixed_frame,
    placed_definition,
    with_traced_placements,
)
from connections.multibody.joints.motors import Motor, Passive, motors_of, passive_of
from connections.multibody.passive_forces import passive_slopes, passive_slopes_at
from connections.multibody.program.closed import SolvedLoops, coordinates_of
from connections.multibody.program.table import RECURSIONS


class Structure(Definitions, Protocol):
    """The part of a `Model` that is used here."""

    @property
    def armature(self) -> dict[str, np.ndarray]:
        """{joint name: (nv of the joint,)}."""

    @property
    def body_names(self) -> tuple[str, ...]:
        """Names of the moving bodies."""

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the independent joints."""

    @property
    def frame_names(self) -> tuple[str, ...]:
        """Names of the frames."""

    @property
    def motors(self) -> tuple[Motor, ...]:
        """The motors."""

    @property
    def passive(self) -> Passive:
        """Springs, dampers and friction."""

    @property
    def placements(self) -> dict[str, np.ndarray]:
        """{joint name: (4, 4)}, m."""

    def passive_forces(self, q: Any, v: Any) -> Any:
        """The force of springs, dampers, friction and lift, (..., nv)."""

    @property
    def nq(self) -> int:
        """Number of configuration coordinates."""

    @property
    def nv(self) -> int:
        """Number of velocity components."""

    @property
    def of_data(self) -> Any:
        """The recursions of robots with these joints, whose numbers are data."""


@final
@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True, eq=False, repr=False)
class TracedModel:
    """A robot whose numbers are arrays of JAX: a pytree.

    `Model.with_inertial_parameters`, `with_gravity`, `with_armature`, `with_placements`, `with_frames`,
    `with_motors` and `with_passive` return it where JAX traces what they are given. Every recursion takes it
    in place of the model. Its derivatives by inertias, gravity and armature are those of the recursions,
    which are linear in the inertias: no definition is differentiated. If placements of joints are data,
    everything is computed by the robot's definition in JAX, which costs more; loops close again there.

    Map over robots with `jax.vmap`, also over models: ``jax.vmap(robot.with_inertial_parameters)(pi)`` is one
    with a batch axis, for ``jax.vmap(mb.inverse_dynamics)``.

    Nothing about traced numbers is checked but shapes and names. A body without mass but with a first moment,
    numbers that are not finite, and placements that are no proper rigid transforms (to 1e-9; 1e-5 if they are
    float32) give NaN, and so does an H without inverse, where there is a division by it.

    Parameters
    ----------
    structure : the model, for what depends on its joints alone: limits, names, differences, loops.
    parameters : (N, 10), as `inertial_parameters` returns them; kg, kg m, kg m^2.
    gravity : (3,) acceleration of free fall in world axes, m/s^2.
    joint_armature : (nv_s,) of all joints of the spanning tree, kg m^2 and kg.
    joint_placements : (N, 4, 4) m, of all joints in the frames of the bodies that carry them; None for those
        of the model.
    further_frames : {name: (4, 4)} m, placements of frames that the model does not have.
    other_motors : in place of the model's; None for those of the model.
    other_passive : springs, dampers and friction in place of the model's; None for those of the model.
    carriers : for each of `further_frames`, its name and that of the model's frame to which it is fixed; None
        for the ground.

    Examples
    --------
    >>> import jax
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> def weight(gravity):
    ...     return mb.gravity(robot.with_gravity(gravity), robot.neutral())[1]
    ...
    >>> slope = jax.grad(weight)(jax.numpy.array([0.0, 0.0, -9.81]))
    >>> slope.round(3) + 0.0
    Array([-3.608,  0.   ,  1.582], dtype=float64)
    """

    structure: Structure
    parameters: jax.Array
    gravity: jax.Array
    joint_armature: jax.Array
    joint_placements: jax.Array | None = None
    further_frames: Mapping[str, jax.Array] = field(default_factory=dict)
    other_motors: tuple[Motor, ...] | None = None
    other_passive: Passive | None = None
    carriers: tuple[tuple[str, str | None], ...] = ()

    @property
    def nq(self) -> int:
        """Number of configuration coordinates."""
        return self.structure.nq

    @property
    def nv(self) -> int:
        """Number of velocity components."""
        return self.structure.nv

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the independent joints."""
        return self.structure.joint_names

    @property
    def body_names(self) -> tuple[str, ...]:
        """Names of the moving bodies, in the order of the rows of `parameters`."""
        return self.structure.body_names

    @property
    def frame_names(self) -> tuple[str, ...]:
        """Names of the frames: of the model's and of those that were added."""
        return *self.structure.frame_names, *(name for name, _ in self.carriers)

    @property
    def motors(self) -> tuple[Motor, ...]:
        """The motors, in the order of the columns of `motor_matrix`."""
        return self.structure.motors if self.other_motors is None else self.other_motors

    @property
    def passive(self) -> Passive:
        """Springs, dampers and friction."""
        return self.structure.passive if self.other_passive is None else self.other_passive

    @property
    def kinematics(self) -> Any:
        """The layout of q and v, and the loops where the joints are."""
        return self._placed.kinematics if self._has_loops_elsewhere else self.structure.kinematics

    @property
    def frame(self) -> FrameField:
        """The frame in which v are components."""
        frame: FrameField = self.kinematics.frame
        return frame

    @property
    def placements(self) -> dict[str, Any]:
        """{joint name: (4, 4)}, m, as `Model.placements`."""
        if self.joint_placements is None:
            return self.structure.placements
        return dict(zip(self.structure.kinematics.tree.joint_names, self.joint_placements, strict=True))

    @property
    def program(self) -> TracedModel:
        """Itself: its recursions are `functions`."""
        return self

    @property
    def functions(self) -> Mapping[str, Callable[..., jax.Array]]:
        """Name of a recursion -> its call ``(q, vectors..., choice, out)``."""
        return _Functions(self)

    def evaluate(
        self, name: str, given: tuple[Any, ...], out: Any, chosen: tuple[Any, ...] = ()
    ) -> jax.Array:
        """The result of the recursion `name`.

        Parameters
        ----------
        name : a key of `RECURSIONS`.
        given : q (..., nq), or `SolvedLoops` in its place, and then vectors (..., nv).
        out : None.
        chosen : what the caller chooses, if the recursion has a choice, such as a body-level factor.

        Raises
        ------
        ShapeError : also a model with batch axes, over which `jax.vmap` maps; TypeError.
        """
        if out is not None:
            raise TypeError(
                "out: the numbers of the model are JAX's, whose arrays cannot be filled; leave out"
            )
        data = self.parameters.reshape(*self.parameters.shape[:-2], -1), self.gravity, self.joint_armature
        for which, array in zip(("parameters", "gravity", "armature"), data, strict=True):
            if array.ndim != 1:
                raise ShapeError(
                    f"{which} of the model (map over models with jax.vmap)", array.shape[-1:], array.shape
                )
        if name in FRAMES:
            return self._of_frame(name, given, *_names_of(chosen))
        if self.joint_placements is not None:
            vectors = ("q", *RECURSIONS[name].vectors)
            return self._over_batch(placed_definition(self._placed, name, chosen), vectors, given)
        found: jax.Array = self.structure.of_data.evaluate(name, given, chosen, data)
        return found

    def with_inertial_parameters(self, parameters: ArrayLike) -> TracedModel:
        """The robot with other inertias, as by `Model.with_inertial_parameters`; only the shape is checked.

        Parameters
        ----------
        parameters : (N, 10) kg, kg m, kg m^2.
        """
        return replace(self, parameters=_numbers("parameters", parameters, (len(self.body_names), 10)))

    def with_gravity(self, gravity: ArrayLike) -> TracedModel:
        """The robot under another gravity.

        Parameters
        ----------
        gravity : (3,) acceleration of free fall in world axes, m/s^2.
        """
        return replace(self, gravity=_numbers("gravity", gravity, (3,)))

    def with_armature(self, armature: Mapping[str, Any]) -> TracedModel:
        """The robot with other armature of some joints, as by `Model.with_armature`; not checked.

        Parameters
        ----------
        armature : {joint name: a number for all velocity components of the joint, or (nv of the joint,)}. The
            angular components of a spherical or free joint have one number, and so have the linear ones.
        """
        tree, changed = self.structure.kinematics.tree, self.joint_armature
        starts = np.cumsum([0, *(joint.nv for joint in tree.joints)])
        for name, value in armature.items():
            if name not in tree.joint_names:
                raise ModelError("armature: " + no_joint(tree, name, tree.joint_names))
            number = tree.joint_names.index(name)
            own = slice(int(starts[number]), int(starts[number + 1]))
            given = jnp.asarray(as_array("armature", value, ()))
            if given.shape not in ((), (own.stop - own.start,)):
                raise ShapeError(f"armature of joint '{name}'", (own.stop - own.start,), given.shape)
            changed = changed.at[own].set(given)
        return replace(self, joint_armature=changed)

    def with_placements(self, placements: Mapping[str, Any]) -> TracedModel:
        """The robot with joints that are elsewhere, as by `Model.with_placements`.

        Loops close at the reference with its independent joints, and are followed from there; where they do
        not close, results are NaN.

        Parameters
        ----------
        placements : {joint name: (4, 4) homogeneous transform, m}, in the frame of the body that carries the
            joint, or in the world.

        Raises
        ------
        ModelError : there is no such joint. ShapeError, TypeError.
        """
        require_mapping("placements", placements, "{joint: placement}")
        names = self.structure.kinematics.tree.joint_names
        changed = jnp.stack([jnp.asarray(own) for own in self.placements.values()])
        for name, placement in placements.items():
            if name not in names:
                raise ModelError("placements: " + no_such("joint", name, names))
            changed = changed.at[names.index(name)].set(placement_of_joint(name, placement))
        return replace(self, joint_placements=changed)

    def with_frames(self, frames: Mapping[str, tuple[str, Any]]) -> TracedModel:
        """The robot with further frames, as by `Model.with_frames`.

        Parameters
        ----------
        frames : {name: (name of the frame to which it is fixed, (4, 4) placement in that frame, m)}.

        Raises
        ------
        ModelError : a name is taken, or there is no frame to which it is fixed. ShapeError, TypeError.
        """
        require_mapping("frames", frames, "{name: (frame, placement)}")
        further, carriers = dict(self.further_frames), self.carriers
        for name, fixed in frames.items():
            carrier, pose = self._placed_frame(name, fixed)
            further[name], carriers = pose, (*carriers, (name, carrier))
        return replace(self, further_frames=further, carriers=carriers)

    def with_motors(self, motors: Sequence[Motor]) -> TracedModel:
        """The robot with these motors in place of its own, as by `Model.with_motors`.

        Parameters
        ----------
        motors : in the order of the columns of B.

        Raises
        ------
        ModelError : as `Model.with_motors`; of numbers that JAX traces, only shapes are checked. TypeError.
        """
        return replace(self, other_motors=motors_of(motors, self._joints, self.frame_names))

    def with_passive(self, passive: Passive) -> TracedModel:
        """The robot with these springs, dampers and friction, as by `Model.with_passive`.

        Parameters
        ----------
        passive : in place of those that it has.

        Raises
        ------
        ModelError : as `Model.with_passive`; of numbers that JAX traces, only shapes are checked. TypeError.
        """
        require_type("passive", passive, Passive)
        return replace(self, other_passive=passive_of(passive, self._joints, self.structure.frame_names))

    def frame_pose_at(self, q: jax.Array, frame: str) -> jax.Array:
        """The homogeneous transform (4, 4), m, of a frame in the world, at q (nq,)."""
        return fixed_pose_at(self._placed.kinematics, q, *self.fixed(frame))

    def frame_jacobian_at(self, q: jax.Array, frame: str, axes: str = "body") -> jax.Array:
        """J (6, nv) of a frame at q (nq,): its twist is J v, in its axes or in the world's."""
        return fixed_jacobian_at(self._placed.kinematics, q, *self.fixed(frame), axes)

    def fixed(self, frame: str) -> tuple[int, Any]:
        """The body that carries a frame, -1 for the ground, and its placement in that body, (4, 4), m.

        Raises
        ------
        ModelError : there is no frame of this name. TypeError : `frame` is not text.
        """
        if isinstance(frame, str) and frame in self.further_frames:
            carrier = dict(self.carriers)[frame]
            body, placement = (
                (-1, np.eye(4)) if carrier is None else frame_of(self.structure.kinematics.tree, carrier)
            )
            return body, placement @ self.further_frames[frame]
        if isinstance(frame, str) and frame not in self.frame_names:
            raise ModelError("frame: " + no_such("frame", frame, self.frame_names))
        return frame_of(self.structure.kinematics.tree, frame)

    def motor_matrix_at(self, q: jax.Array) -> jax.Array:
        """B (nv, nu) at q (nq,)."""
        return motor_matrix_at(self, q)

    def motor_matrix(self, q: ArrayLike | SolvedLoops) -> jax.Array:
        """B (..., nv, nu), as `Model.motor_matrix`.

        Parameters
        ----------
        q : (..., nq) configurations, or `SolvedLoops`.

        Raises
        ------
        ShapeError, TypeError.
        """
        return self._over_batch(self.motor_matrix_at, ("q",), (q,))

    @property
    def passive_law(self) -> PassiveLaw:
        """The passive forces of the spanning tree, as arrays."""
        kinematics = self.kinematics
        return PassiveLaw.of(kinematics.spanning if self.structure.closed else kinematics, self.passive)

    def lift_at(self, q: jax.Array) -> jax.Array | None:
        """The force (nv,) that carries the weight of `Passive.lift` at q (nq,); None for none."""
        points = lifted_parameters(self.structure.kinematics.tree, self.passive)
        if points is None:
            return None
        lifted = replace(self, parameters=points, joint_armature=jnp.zeros_like(self.joint_armature))
        return lifted.evaluate("gravity", (q,), None)

    def passive_forces_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """The generalized force (nv,) of springs, dampers, friction and lift at q (nq,) and v (nv,)."""
        require_left_out_nothing(self.passive)
        return passive_forces_at(self, q, v)

    def passive_forces(self, q: ArrayLike | SolvedLoops, v: ArrayLike) -> jax.Array:
        """The force of springs, dampers, friction and lift, (..., nv), N m and N, as `Model.passive_forces`.

        Parameters
        ----------
        q : (..., nq) configurations, or `SolvedLoops`.
        v : (..., nv) velocities in the model's frame, rad/s and m/s.

        Raises
        ------
        ModelError : the description has other passive forces, which are not computed. ShapeError, TypeError.
        """
        if self._of_the_models_passive:
            forces: jax.Array = self.structure.passive_forces(q, v)
            return forces
        return self._over_batch(self.passive_forces_at, ("q", "v"), (q, v))

    def passive_slopes_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """The derivatives (2, nv, nv) of `passive_forces_at` along the frame and in v."""
        return passive_slopes_at(self, q, v)

    def passive_slopes(self, q: ArrayLike, v: ArrayLike) -> tuple[jax.Array, jax.Array]:
        """The derivatives of `passive_forces` along the frame and in v, (..., nv, nv) each.

        Parameters
        ----------
        q, v : as of `passive_forces`.

        Raises
        ------
        ShapeError, TypeError.
        """
        if self._of_the_models_passive:
            slopes: tuple[jax.Array, jax.Array] = passive_slopes(self.structure, q, v)
            return slopes
        both = self._over_batch(self.passive_slopes_at, ("q", "v"), (q, v))
        return both[..., 0, :, :], both[..., 1, :, :]

    def potential_at(self, q: Any) -> jax.Array:
        """Potential energy of gravity, J, at q (nq,), or `SolvedLoops`: -m g . c, c the centre of mass."""
        center = self.evaluate("center_of_mass", (q,), None)
        return -jnp.sum(self.parameters[:, 0]) * (self.gravity @ center)

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """The numbers; and the model, a hashable constant, with the frames to which others are fixed."""
        numbers = self.parameters, self.gravity, self.joint_armature, self.joint_placements
        others = dict(self.further_frames), self.other_motors, self.other_passive
        return (*numbers, *others), (self.structure, self.carriers)

    @classmethod
    def tree_unflatten(cls, constants: Any, numbers: Any) -> TracedModel:
        """The robot of the same structure with other numbers."""
        structure, carriers = constants
        *arrays, frames, motors, passive = numbers
        parameters, gravity, armature, placements = arrays
        return cls(structure, parameters, gravity, armature, placements, frames, motors, passive, carriers)

    @property
    def _of_the_models_passive(self) -> bool:
        """Whether passive forces are the model's, whatever the numbers that are data."""
        return (
            self.other_passive is None and not self.structure.passive.lift and not self._has_loops_elsewhere
        )

    @property
    def _has_loops_elsewhere(self) -> bool:
        """Whether loops close at other placements than the model's."""
        return self.structure.closed and self.joint_placements is not None

    @property
    def _joints(self) -> dict[str, Any]:
        tree = self.structure.kinematics.tree
        return dict(zip(tree.joint_names, tree.joints, strict=True))

    @property
    def _placed(self) -> Any:
        """The robot for its definition in JAX."""
        robot = with_data(self.structure, self.parameters.reshape(-1), self.gravity, self.joint_armature)
        if self.joint_placements is None:
            return robot
        return replace(robot, kinematics=with_traced_placements(robot.kinematics, self.joint_placements))

    def _placed_frame(self, name: Any, fixed: Any) -> tuple[str | None, jax.Array]:
        """The frame of the model to which a new one is fixed, None for the ground, and where it is in it."""
        if not isinstance(fixed, tuple | list) or len(fixed) != 2:
            raise TypeError(f"frames: expected (frame, placement) for {name!r}, got {words_of(fixed)}")
        carrier, placement = fixed
        if not isinstance(name, str) or not name or name in self.frame_names:
            raise ModelError(f"frame {name!r}: expected the name of a frame that there is not yet")
        pose = _rigid(f"frame '{name}'", placement)
        if isinstance(carrier, str) and carrier == WORLD and WORLD not in self.frame_names:
            carrier = None
        else:
            self.fixed(carrier)
            if carrier in self.further_frames:
                pose = self.further_frames[carrier] @ pose
                carrier = dict(self.carriers)[carrier]
        return carrier, pose

    def _of_frame(self, name: str, given: tuple[Any, ...], frame: str, *axes: str) -> jax.Array:
        """A recursion of a frame."""
        if self.joint_placements is None and frame not in self.further_frames:
            found: jax.Array = self.structure.of_data.evaluate(name, given, (frame, *axes))
            return found
        body, placement = self.fixed(frame)
        if self.joint_placements is not None or body < 0:
            function = placed_definition(self._placed, name, axes, (body, placement))
            return self._over_batch(function, ("q", *RECURSIONS[name].vectors), given)
        carrier: Any = dict(self.carriers)[frame]
        return of_fixed_frame(self.structure.of_data, name, given, carrier, self.further_frames[frame], *axes)

    def _over_batch(
        self, function: Callable[..., jax.Array], names: Sequence[str], given: Sequence[Any]
    ) -> jax.Array:
        """A function of one point over all batch axes of q (..., nq), or `SolvedLoops`, and v (..., nv)."""
        given = coordinates_of(given[0], self.kinematics), *given[1:]
        sizes = [(self.nq,), *[(self.nv,)] * (len(given) - 1)]
        arrays = [as_array(*item) for item in zip(names, given, sizes, strict=True)]
        batch = batch_axes(names, arrays)
        for _ in batch:
            function = jax.vmap(function)
        rows = [jnp.broadcast_to(array, (*batch, array.shape[-1])) for array in arrays]
        return function(*rows).astype(float_of(*given))

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"a TracedModel has no '{name}', because its numbers are data of JAX; what depends on joints "
            "alone is asked of its `structure`, and numbers outside of JAX make a Model"
        )

    def __repr__(self) -> str:
        return f"TracedModel({len(self.body_names)} bodies, nq={self.nq}, nv={self.nv})"


class _Functions(Mapping[str, Callable[..., jax.Array]]):
    """The calls of a robot whose numbers are data."""

    def __init__(self, model: TracedModel) -> None:
        self._model = model

    def __getitem__(self, name: str) -> Callable[..., jax.Array]:
        def call(*given: Any) -> jax.Array:
            *arguments, choice, out = given
            return self._model.evaluate(name, tuple(arguments), out, RECURSIONS[name].chosen(choice))

        return call

    def __iter__(self) -> Any:
        return iter(RECURSIONS)

    def __len__(self) -> int:
        return len(RECURSIONS)


def _names_of(chosen: tuple[Any, ...]) -> tuple[Any, ...]:
    """The name of a frame, and the axes if they are chosen."""
    return tuple(chosen[0]) if len(chosen) == 1 and isinstance(chosen[0], tuple) else chosen


def placement_of_joint(name: str, placement: Any) -> Any:
    """A placement (4, 4) of a joint: for JAX if it traces it, in NumPy otherwise.

    Raises
    ------
    ModelError : it is no proper rigid transform. ShapeError : JAX traces an array of another shape.
    """
    what = f"placements: joint '{name}'"
    if placement is None:
        raise ModelError(f"{what}: expected a (4, 4) homogeneous transform, got None")
    return _rigid(what, placement) if is_traced(placement) else rigid_transform(what, placement)


def _rigid(owner: str, placement: Any) -> jax.Array:
    """A placement (4, 4) for JAX: not judged if JAX traces it, but NaN if it is no rigid transform."""
    if not is_traced(placement):
        return jnp.asarray(rigid_transform(owner, placement))
    single = jnp.asarray(placement).dtype != np.float64
    return rigid_or_nan(
        _numbers(f"{owner}: its placement", jnp.asarray(placement), (4, 4)), 1e-5 if single else 1e-9
    )


def _numbers(name: str, value: Any, shape: tuple[int, ...]) -> jax.Array:
    """An array of this shape for JAX, in its widest float."""
    given = as_array(name, value, shape)
    if given.shape != shape:
        raise ShapeError(name, shape, given.shape)
    return jnp.asarray(given, jax.dtypes.canonicalize_dtype(np.float64))
