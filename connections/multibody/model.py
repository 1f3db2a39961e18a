"""`Model`: a robot. Its space is computed by recursion, and ``definition`` holds what that has to agree with.

The functions named `_at` are JAX-traceable. Source: [W] VI-B.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation

from connections._jax import Array, ArrayLike
from connections._words import words_of
from connections.checks import (
    ModelError,
    ShapeError,
    as_array,
    is_traced,
    is_whole,
    require_bool,
    require_finite,
    require_mapping,
    require_names,
    require_text,
    require_type,
)
from connections.coriolis import MechanicalSystem
from connections.evaluation.boundary import Argument, as_given, evaluate
from connections.evaluation.content import ByContent
from connections.geometry import FrameField, Metric
from connections.multibody.applied_forces import (
    PassiveLaw,
    lifted_inertias,
    motor_matrix_at,
    passive_forces_at,
    require_whole,
)
from connections.multibody.as_geometry.recursive_connection import RecursiveConnection
from connections.multibody.assembly.assembly import assembled_again, with_independent
from connections.multibody.assembly.locked import locked
from connections.multibody.assembly.subtrees import carried
from connections.multibody.definition.frames import (
    first_moment_at,
    frame_jacobian_at,
    frame_pose_at,
    with_frames,
)
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.definition.robot_definition import RobotDefinition
from connections.multibody.graph import ClusterTree, Tree, no_joint
from connections.multibody.in_jax.recursions import TracedRecursions
from connections.multibody.inertia import InertiaWarning, inertia_of, parameters_flaw, require_sums
from connections.multibody.inventory import inventory
from connections.multibody.joints.armature import armature_of
from connections.multibody.joints.keyframes import Keyframe, Keyframes, keyframes_of
from connections.multibody.joints.limits import Limits
from connections.multibody.joints.motors import Motor, Passive, motors_of, passive_of
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.passive_forces import passive_forces, passive_slopes, passive_slopes_at
from connections.multibody.program.closed import SolvedLoops, coordinates_of, with_numpy_arrays
from connections.multibody.program.program import Program
from connections.multibody.program.regularity import require_semidefinite
from connections.multibody.traced_model import TracedModel, placement_of_joint

DEFAULT_GRAVITY = (0.0, 0.0, -9.81)


@dataclass(frozen=True, eq=False)
class Model(ByContent):
    """A robot: N bodies, joints, loops, gravity. Made by `from_urdf`, `Mechanism.build`, ...; immutable.

    Bodies may be without inertia. Where the mass matrix is singular then, everything is computed that does
    not need its inverse; the rest raises `MetricError`, which names the joint.

    Models are equal, and hash alike, if they have the same names, numbers and structure: read twice from one
    file, pickled or copied. Functions that close loops are compared by identity.

    Parameters
    ----------
    kinematics : the tree of bodies, its loops, and the layout of its coordinates.
    gravity : (3,) acceleration of free fall in world axes, m/s^2.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> robot
    Model(6 bodies, nq=6, nv=6)
    >>> robot.joint_names
    ('turn', 'lift', 'bend', 'roll', 'tilt', 'twist')
    >>> mb.coriolis_matrix(robot, robot.neutral(), [1.0] * robot.nv).shape
    (6, 6)
    >>> robot == mb.example("arm")
    True
    """

    kinematics: Kinematics | ClosedKinematics
    gravity: tuple[float, float, float]

    @classmethod
    def of(
        cls, kinematics: Kinematics | ClosedKinematics | Tree, gravity: ArrayLike = DEFAULT_GRAVITY
    ) -> Model:
        """The model of a mechanism.

        Parameters
        ----------
        kinematics : the kinematics of a tree or of closed chains, or a tree of bodies.
        gravity : (3,) acceleration of free fall in world axes, m/s^2.

        Raises
        ------
        ModelError : gravity is not three finite numbers, or some velocity moves negative inertia.
        """
        if isinstance(kinematics, Tree):
            kinematics = Kinematics(kinematics)
        require_semidefinite(kinematics)
        return cls(kinematics, _gravity(gravity))

    # --- layout ------------------------------------------------------------------------------------------

    @property
    def nq(self) -> int:
        """Number of configuration coordinates."""
        return self.kinematics.nq

    @property
    def nv(self) -> int:
        """Number of velocity components."""
        return self.kinematics.nv

    @property
    def closed(self) -> bool:
        """Whether loops or couplings tie joints together."""
        return isinstance(self.kinematics, ClosedKinematics)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the independent joints, in the order of their slices of q and v."""
        return self.kinematics.joint_names

    @property
    def body_names(self) -> tuple[str, ...]:
        """Names of the moving bodies, in the order in which `body_jacobians` stacks them."""
        return self.kinematics.tree.body_names

    @property
    def frame_names(self) -> tuple[str, ...]:
        """Names of the frames: links of the description, also those merged into others, and `with_frames`."""
        return tuple(name for name in self.kinematics.tree.placements if isinstance(name, str))

    def describe(self) -> str:
        """The joints with their places in q and v, limits and armature; loops, couplings, motors; a text.

        What a file has besides, and passive forces leave out, is listed. The text is at most 80 columns wide:
        ``print(model.describe())``. Long names are cut.
        """
        return inventory(self.kinematics, self.gravity)

    @cached_property
    def limits(self) -> Limits:
        """Limits of the independent joints, as the description gives them; infinite where it gives none."""
        tree = self.kinematics.tree
        return Limits.of([tree.limits[tree.joint_names.index(name)] for name in self.joint_names])

    @cached_property
    def armature(self) -> dict[str, np.ndarray]:
        """{joint name: (nv of the joint,)}, kg m^2 and kg, dependent joints of closed loops included.

        It is the inertia that the joint's own velocity meets besides that of the bodies, and is zero unless
        the description gives it. It adds to H, and to every quantity that is made of H; for joints with v =
        qdot, it adds nothing to C. It has no weight, and is not among the parameters of the regressors.
        """
        tree, starts = self.kinematics.tree, np.cumsum([joint.nv for joint in self.kinematics.tree.joints])
        return dict(zip(tree.joint_names, np.split(tree.armature, starts[:-1]), strict=True))

    @property
    def placements(self) -> dict[str, np.ndarray]:
        """{joint name: (4, 4)}, m: where joints are in the frames of bodies that carry them, or in the world.

        Dependent joints of closed loops are included. The child's frame is there if the joint is neutral.
        """
        kinematics = self.kinematics
        spanning = kinematics.spanning if isinstance(kinematics, ClosedKinematics) else kinematics
        return dict(zip(spanning.joint_names, spanning.placements.copy(), strict=True))

    @property
    def motors(self) -> tuple[Motor, ...]:
        """The motors that the description has, in the order of the columns of `motor_matrix`."""
        return self.kinematics.tree.motors

    @property
    def passive(self) -> Passive:
        """Springs, dampers and friction, as the description gives them."""
        return self.kinematics.tree.passive

    @cached_property
    def keyframes(self) -> dict[str, Keyframe]:
        """The configurations and velocities that the description names, {name: `Keyframe`}; MJCF's ``<key>``.

        Of closed chains, q and v are those of the independent joints, and ``close_loops(model, keyframe.q,
        keyframe.spanning)`` is the configuration nearby in which the loops close.
        """
        tree = self.kinematics.tree
        return keyframes_of(tree.keyframes, tree.joint_names, self.joint_names)

    def configuration_slice(self, joint: str) -> slice:
        """Where the coordinates of `joint` lie in q.

        Raises
        ------
        ModelError : there is no such joint.
        """
        return self._slice(self.kinematics.q_starts, joint)

    def velocity_slice(self, joint: str) -> slice:
        """Where the velocity components of `joint` lie in v.

        Raises
        ------
        ModelError : there is no such joint.
        """
        return self._slice(self.kinematics.v_starts, joint)

    def neutral(self) -> np.ndarray:
        """The configuration (nq,) of zero angles and displacements.

        Independent joints of closed loops are as in the reference configuration (couplings that are all
        linear do not count as loops).
        """
        return self.kinematics.neutral()

    def random(self, rng: np.random.Generator | int) -> np.ndarray:
        """A configuration (nq,): angles in [-pi, pi), lengths in [-1, 1) m, rotations uniform.

        Joints of closed loops lie between such a value (for lengths, of the loop's size) and the reference,
        so near that the loops close and are regular. `limits` are not looked at.

        Parameters
        ----------
        rng : NumPy's random generator, or a seed for one, a whole number that is not negative.
        """
        if not isinstance(rng, np.random.Generator) and is_whole(rng) and rng >= 0:
            rng = np.random.default_rng(int(rng))
        if not isinstance(rng, np.random.Generator):
            expected = "a numpy.random.Generator, or a seed, a whole number that is not negative"
            raise TypeError(f"rng: expected {expected}, got {words_of(rng)}")
        if isinstance(self.kinematics, ClosedKinematics):
            loops = self.program.loops
            assert loops is not None  # there are loops or couplings
            return self.kinematics.random_regular(rng, loops.follow, loops.derivative)
        return self.kinematics.random(rng)

    def spanning_configuration(
        self, q: ArrayLike | SolvedLoops, guess: Mapping[str, Any] | SolvedLoops | None = None
    ) -> dict[str, Array]:
        """The configuration of every joint by name, dependent joints of closed loops included.

        Parameters
        ----------
        q : (..., nq) configurations, or `SolvedLoops`.
        guess : {joint name: configuration} of all joints, as this function returns it for one point, or a
            `SolvedLoops`, from which loops are followed to q; the model's reference if None.

        Returns
        -------
        {joint name: (..., nq of the joint)}.

        Raises
        ------
        ShapeError, NonFiniteError, PointError; ClosureError naming the loop that cannot close or is singular.
        """
        kinematics = self.kinematics
        spanning = kinematics.spanning if isinstance(kinematics, ClosedKinematics) else kinematics
        q_s = close_loops(
            self, q, self._stacked(spanning, guess) if isinstance(guess, Mapping) else guess
        ).spanning
        parts = q_s if isinstance(q_s, jax.Array) else q_s.copy()
        ends = itertools.pairwise(spanning.q_starts.tolist())
        return {name: parts[..., slice(*at)] for name, at in zip(spanning.joint_names, ends, strict=True)}

    @cached_property
    def cluster_tree(self) -> ClusterTree:
        """The arborescence of clusters, from the ground out.

        Nodes are tuples of body names, with the attributes ``bodies``, ``joints``, ``independent`` and
        ``dependent`` (names). The root is the ground, ``("ground",)``.
        """
        return self.kinematics.cluster_tree

    # --- geometry ----------------------------------------------------------------------------------------

    @cached_property
    def frame(self) -> FrameField:
        """The frame in which v are components: the product of the joints' frames."""
        return self.kinematics.frame

    @cached_property
    def definition(self) -> RobotDefinition:
        """Metric, connection and system by their definitions in JAX, which recursions are tested against."""
        return RobotDefinition(self)

    @cached_property
    def connection(self) -> RecursiveConnection:
        """The Levi-Civita connection by recursion, JAX-traceable, with derivatives of all orders.

        The same as ``definition.connection``, to round-off.
        """
        return RecursiveConnection(self)

    @property
    def metric(self) -> Metric:
        """The kinetic energy metric, whose matrix H is computed by recursion; JAX-traceable."""
        return self.connection.metric

    def embed_at(self, q: jax.Array) -> jax.Array:
        """World poses of all bodies, (7N,), [p, quaternion] each, at q (nq,)."""
        positions = self.kinematics.world_transforms_at(q)[:, :3, 3]
        return jnp.concatenate([positions, self.kinematics.world_quaternions_at(q)], axis=1).reshape(-1)

    def body_jacobians_at(self, q: jax.Array) -> jax.Array:
        """A = X Phi, (6N, nv), at q (nq,)."""
        return self.kinematics.body_jacobians_at(q).reshape(-1, self.nv)

    def frame_pose_at(self, q: jax.Array, frame: str) -> jax.Array:
        """The homogeneous transform (4, 4), m, of a frame in the world, at q (nq,)."""
        return frame_pose_at(self.kinematics, q, frame)

    def frame_jacobian_at(self, q: jax.Array, frame: str, axes: str = "body") -> jax.Array:
        """J (6, nv) of a frame at q (nq,): its twist is J v, in its axes or in the world's."""
        return frame_jacobian_at(self.kinematics, q, frame, axes)

    def center_of_mass_at(self, q: jax.Array) -> jax.Array:
        """The centre of mass (3,), m, of all bodies in the world, at q (nq,)."""
        return first_moment_at(self.kinematics, q) / total_mass(self)

    def potential_at(self, q: jax.Array | SolvedLoops) -> jax.Array:
        """Potential energy of gravity, J, at q (nq,), or `SolvedLoops`: -sum_b g . (m_b p_b + R_b h_b)."""
        if isinstance(q, SolvedLoops):
            coordinates_of(q, self.kinematics)
            return self.spanning_tree.potential_at(q.spanning)
        return -jnp.asarray(self.gravity) @ first_moment_at(self.kinematics, q)

    def motor_matrix_at(self, q: jax.Array) -> jax.Array:
        """B (nv, nu) at q (nq,)."""
        return motor_matrix_at(self, q)

    def motor_matrix(self, q: ArrayLike | SolvedLoops) -> Array:
        """B = G^T B_s + sum J_f^T w, (..., nv, nu): the generalized forces of motors are B u, N m and N.

        B_s are the ratios on joints, G the Jacobian of the loops (1 of a tree); a motor on a frame f has the
        wrench u w in the axes of the frame.

        Parameters
        ----------
        q : (..., nq) configurations, or `SolvedLoops`. Without loops and motors on frames, B is constant.

        Raises
        ------
        ShapeError, NonFiniteError, PointError, ClosureError.

        Source: MuJoCo's documentation, Computation; the equations are derived in `applied_forces`.
        """
        q = coordinates_of(q, self.kinematics)
        return evaluate(self, self.motor_matrix_at, Argument("q", q, (self.nq,)))

    def passive_forces_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """The generalized force (nv,) of springs, dampers, friction and lift at q (nq,) and v (nv,)."""
        require_whole(self.kinematics)
        return passive_forces_at(self, q, v)

    def passive_forces(self, q: ArrayLike | SolvedLoops, v: ArrayLike) -> Array:
        """The force of springs, dampers and lift, (..., nv), N m and N: MuJoCo's ``qfrc_passive``.

        It is -G^T (d v_s + sum_k a_k (k_k s_k + d_k a_k . v_s)), v_s = G v, with springs on lengths a_k . q_s
        that are stretched by s_k beyond their rest lengths; with what `Passive.lift` carries; and with
        -G^T f tanh(v_s / w) if the friction f has a speed w.

        Parameters
        ----------
        q : (..., nq) configurations, or `SolvedLoops`.
        v : (..., nv) velocities in the model's frame, rad/s and m/s.

        Raises
        ------
        ModelError : the description has other passive forces, which are not computed; the message names one.
        ShapeError, NonFiniteError, PointError, ClosureError.

        Source: MuJoCo's documentation, Computation; the equations are derived in `applied_forces`.
        """
        require_whole(self.kinematics)
        found: Array = passive_forces(self, q, v)
        return found

    def passive_slopes_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """The derivatives (2, nv, nv) of `passive_forces_at` along the frame and in v."""
        return passive_slopes_at(self, q, v)

    def passive_slopes(self, q: ArrayLike | SolvedLoops, v: ArrayLike) -> tuple[Array, Array]:
        """The derivatives of `passive_forces` along the frame fields and in v, (..., nv, nv) each.

        Entry [i, j] is the derivative of the force i along X_j, or by v_j. At a rest length it is half of the
        slopes of both sides, together.

        Parameters
        ----------
        q : (..., nq) configurations, or `SolvedLoops`.
        v : (..., nv) velocities in the model's frame, rad/s and m/s.

        Raises
        ------
        As `passive_forces`.
        """
        require_whole(self.kinematics)
        found: tuple[Array, Array] = passive_slopes(self, q, v)
        return found

    @cached_property
    def passive_law(self) -> PassiveLaw:
        """The passive forces of the spanning tree, as arrays."""
        kinematics = self.kinematics
        spanning = kinematics.spanning if isinstance(kinematics, ClosedKinematics) else kinematics
        return PassiveLaw.of(spanning, self.passive)

    @cached_property
    def lifted(self) -> Model | None:
        """The robot of the masses whose weight `Passive.lift` carries: its gravity is the force of it."""
        inertias = lifted_inertias(self.kinematics.tree)
        return None if inertias is None else with_inertias(self, inertias)

    def lift_at(self, q: jax.Array) -> jax.Array | None:
        """The force (nv,) of `lifted` at q (nq,); None for none."""
        return None if self.lifted is None else self.lifted.traced("gravity", q)

    def potential(self, q: ArrayLike | SolvedLoops) -> Array:
        """The potential energy of gravity, (...,) J: -sum_b g . (m_b p_b + R_b h_b); JAX-traceable.

        Parameters
        ----------
        q : (..., nq) configurations, or `SolvedLoops`.

        Raises
        ------
        ShapeError, NonFiniteError, PointError, ClosureError.
        """
        if isinstance(q, SolvedLoops):
            coordinates_of(q, self.kinematics)
            return self.spanning_tree.potential(q.spanning)
        return evaluate(self, self.potential_at, Argument("q", q, (self.nq,)))

    def system(self, gamma: float = 0.0, beta: Any = None, passive: bool = False) -> MechanicalSystem:
        """The robot as a mechanical system under gravity, computed by the recursions.

        Parameters
        ----------
        gamma : the share of C_x - C* in its Coriolis matrix, C_x of the body-level factor (v x*) I; 0 is
            without torsion.
        beta : (C(nv, 3),) constant members of [W] (12) to add, i < j < k lexicographic; None for none.
        passive : whether `passive_forces` are forces of the system, which act in its motions, its
            `forward_dynamics`, its `inverse_dynamics` and its `momentum_rate`.

        Raises
        ------
        ModelError : `passive`, and the description has passive forces that are not computed. ShapeError,
        NonFiniteError, TypeError.

        Source: [W] eq. (12); [E] eq. (11).
        """
        from connections.multibody.as_geometry.robot_system import PassiveForces, RobotSystem  # imports Numba

        system = RobotSystem(self, gamma, beta)
        require_bool("passive", passive)
        if not passive:
            return system
        require_whole(self.kinematics)
        return MechanicalSystem(system.metric, system.potential, PassiveForces(self), system.connection)

    @cached_property
    def program(self) -> Program:
        """The robot as the recursions need it: flat arrays, workspaces, and calls.

        It holds another model: JAX keeps a trace as long as the function that was traced, traces hold the
        program, and this object has such functions. If the program held this object, it would never go.
        """
        apart = Model(self.kinematics, self.gravity)
        apart.__dict__["program"] = Program(self.kinematics, self.gravity, lambda: apart._recursions)
        return apart.program

    @property
    def traced(self) -> TracedRecursions:
        """The recursions where JAX traces."""
        return cast("TracedRecursions", self.program.traced)

    @cached_property
    def of_data(self) -> TracedRecursions:
        """The recursions of robots with these joints, whose numbers are data (`TracedModel`)."""
        tree = self.kinematics.tree  # numbers that no structure is derived from: everything has inertia
        tree = replace(
            tree,
            inertias=np.broadcast_to(np.eye(6), tree.inertias.shape),
            armature=np.ones_like(tree.armature),
        )
        joints = _of_tree(self.weightless, tree)
        return TracedRecursions(joints, joints.program, data=True)

    @cached_property
    def _recursions(self) -> TracedRecursions:

        return TracedRecursions(self, self.program)

    @cached_property
    def spanning_tree(self) -> Model:
        """The model of the spanning tree, without loops and couplings; the model itself if it has none."""
        if not isinstance(self.kinematics, ClosedKinematics):
            return self
        return Model(self.kinematics.spanning, self.gravity)

    @property
    def _as_data(self) -> TracedModel:
        """The robot with its numbers as data."""
        armature = jnp.asarray(self.kinematics.tree.armature)
        return TracedModel(self, jnp.asarray(inertial_parameters(self)), jnp.array(self.gravity), armature)

    def with_gravity(self, gravity: ArrayLike) -> Model:
        """The robot under another gravity.

        Parameters
        ----------
        gravity : (3,) acceleration of free fall in world axes, m/s^2. If JAX traces it, the robot is a
            `TracedModel`.
        """
        if is_traced(gravity):
            return cast("Model", self._as_data.with_gravity(gravity))
        return Model(self.kinematics, _gravity(gravity))

    def with_frames(self, frames: Mapping[str, tuple[str, Any]]) -> Model:
        """The robot with further frames, such as the point of a tool.

        Parameters
        ----------
        frames : {name: (name of the frame to which it is fixed, placement in that frame)}; placements are
            (4, 4) homogeneous transforms, m. "world" is the ground, unless a frame has this name. If JAX
            traces one of them, the robot is a `TracedModel`.

        Raises
        ------
        ModelError : a name is taken, there is no frame to which it is fixed, or a placement is not a proper
            rigid transform to 1e-9.
        """
        require_mapping("frames", frames, "{name: (frame, placement)}")
        if is_traced(frames):
            return cast("Model", self._as_data.with_frames(frames))
        return self._with_tree(with_frames(self.kinematics.tree, frames))

    def with_placements(self, placements: Mapping[str, Any]) -> Model:
        """The robot with joints that are elsewhere, such as where a calibration finds them.

        Loops close at the reference that is nearest to the one before, and keep their independent joints.

        Parameters
        ----------
        placements : {joint name: (4, 4) homogeneous transform, m}, as in `placements`: where the joint is in
            the frame of the body that carries it, or in the world. Other joints stay where they are. If JAX
            traces one of them, the robot is a `TracedModel`; loops that do not close then give NaN.

        Raises
        ------
        ModelError : there is no such joint, a placement is not a proper rigid transform to 1e-9, or the loops
            do not close. TypeError.
        """
        require_mapping("placements", placements, "{joint: placement}")
        if is_traced(placements):
            return cast("Model", self._as_data.with_placements(placements))
        tree = self.kinematics.tree
        quaternions, positions, before = tree.quaternions.copy(), tree.positions.copy(), self.placements
        for name, given in placements.items():
            if name not in before:
                raise ModelError("placements: " + no_joint(tree, name, tree.joint_names))
            placement = placement_of_joint(name, given)
            if (placement != before[name]).any():
                number = tree.joint_names.index(name)
                quaternions[number] = Rotation.from_matrix(placement[:3, :3]).as_quat()
                positions[number] = placement[:3, 3]
        placed = replace(tree, quaternions=quaternions, positions=positions)
        if isinstance(self.kinematics, ClosedKinematics):
            return Model.of(assembled_again(self.kinematics, placed), self.gravity)
        return Model.of(placed, self.gravity)

    def with_motors(self, motors: Sequence[Motor]) -> Model:
        """The robot with these motors in place of its own.

        Parameters
        ----------
        motors : for example ``[Motor("drive", {"knee": 50.0})]``, in the order of the columns of B. If JAX
            traces a number of theirs, the robot is a `TracedModel`.

        Raises
        ------
        ModelError : a name is taken, there is no such joint or frame, a motor acts on nothing, or a number is
            not finite or of another shape. TypeError.
        """
        if is_traced(motors):
            return cast("Model", self._as_data.with_motors(motors))
        tree = self.kinematics.tree
        joints = dict(zip(tree.joint_names, tree.joints, strict=True))
        return self._with_tree(replace(tree, motors=motors_of(motors, joints, self.frame_names)))

    def with_passive(self, passive: Passive) -> Model:
        """The robot with these springs, dampers and friction in place of its own.

        Parameters
        ----------
        passive : for example ``Passive(damping={"knee": 0.1})``. If JAX traces a number of it, the robot is a
            `TracedModel`.

        Raises
        ------
        ModelError : there is no such joint or frame, a joint has several coordinates and a spring, a friction
            is negative, or a number is not finite or of another shape. TypeError.
        """
        require_type("passive", passive, Passive)
        if is_traced(passive):
            return cast("Model", self._as_data.with_passive(passive))
        tree = self.kinematics.tree
        joints = dict(zip(tree.joint_names, tree.joints, strict=True))
        return self._with_tree(replace(tree, passive=passive_of(passive, joints, self.frame_names)))

    def with_inertial_parameters(self, parameters: ArrayLike) -> Model:
        """The robot with other inertias, such as identified ones (`control.identify`).

        Parameters
        ----------
        parameters : (N, 10) as `inertial_parameters` returns them; kg, kg m, kg m^2. If JAX traces them, the
            robot is a `TracedModel`, and only their shape is checked.

        Raises
        ------
        ShapeError, NonFiniteError; ModelError : a mass is negative, or zero where the first moment is not, or
            some velocity moves negative inertia.

        Warns
        -----
        InertiaWarning : no distribution of mass has these parameters.
        """
        if is_traced(parameters):
            return cast("Model", self._as_data.with_inertial_parameters(parameters))
        bodies = len(self.body_names)
        pi = np.asarray(as_array("parameters", parameters, (bodies, 10)))
        if pi.ndim != 2:
            raise ShapeError("parameters", (bodies, 10), pi.shape)
        require_finite("parameters", pi)
        for body, (mass, *moment) in zip(self.body_names, pi[:, :4], strict=True):
            if mass < 0.0:
                raise ModelError(f"body '{body}': mass is negative: {mass:g} kg")
            if mass == 0.0 and any(moment):  # it has no centre of mass
                raise ModelError(f"body '{body}': it has no mass, and a first moment other than zero")
        inertias = np.stack([inertia_of(row).matrix for row in pi])
        require_sums(self.body_names, inertias)
        model = with_inertias(self, inertias)
        for body, flaw in zip(self.body_names, map(parameters_flaw, pi), strict=True):
            if flaw:
                warnings.warn(f"body '{body}': the inertia {flaw}", InertiaWarning, stacklevel=2)
        return model

    def with_armature(self, armature: Mapping[str, Any]) -> Model:
        """The robot with other armature of some joints, such as motors that a URDF file does not have.

        Parameters
        ----------
        armature : {joint name: a number for all velocity components of the joint, or (nv of the joint,)},
            kg m^2 and kg; of a motor behind a gear, the rotor's inertia times the square of the ratio. Other
            joints keep theirs. If JAX traces one of them, the robot is a `TracedModel`.

        Raises
        ------
        ModelError : there is no such joint; an armature is negative, not finite or of another shape, or
            differs between the angular or between the linear components of a spherical or free joint.
        """
        require_mapping("armature", armature, "{joint: number}")
        if is_traced(armature):
            return cast("Model", self._as_data.with_armature(armature))
        tree, found = self.kinematics.tree, dict(self.armature)
        for name, value in armature.items():
            if name not in found:
                raise ModelError("armature: " + no_joint(tree, name, tree.joint_names))
            found[name] = armature_of(name, tree.joints[tree.joint_names.index(name)], value)
        changed = replace(tree, armature=np.concatenate(list(found.values())))
        return _of_tree(self, changed)

    def with_independent(self, names: Sequence[str]) -> Model:
        """The robot in other coordinates: those of other independent joints of its loops.

        Parameters
        ----------
        names : of joints of the spanning tree. In a cluster of which one is named, these are the independent
            joints, and all others depend on them; other clusters keep theirs.

        Loops close at the reference as before, and are followed from there.

        Raises
        ------
        ModelError : there is no such joint; the velocities of the named joints are fewer or more than those
            of their cluster, or do not determine the others at the reference.
        TypeError : not a list of names.
        """
        if not isinstance(self.kinematics, ClosedKinematics):
            for name in require_names("names", names):
                self._slice(self.kinematics.v_starts, name)
            return self
        return Model.of(with_independent(self.kinematics, names), self.gravity)

    def with_locked(self, joints: Mapping[str, Any]) -> Model:
        """The robot with some joints locked: they do not move, and q and v do not contain them.

        Parameters
        ----------
        joints : {joint name: (nq of the joint,), or a number}, rad and m: where each is locked. They may be
            dependent joints of closed loops. Loops are followed from the reference to where they close with
            these; joints that cannot move then are locked, too.

        Bodies behind locked joints are merged with those that carry them. All frames remain. Motors and
        springs keep the parts that act on joints that move. A joint may be locked beyond its limits.

        Raises
        ------
        ModelError : there is no such joint, its configuration does not fit it, the loops do not close with
            the joints there, or nothing is left to move.
        TypeError : not a mapping, or JAX traces where a joint is locked.

        Source: [W] VI-B; Pinocchio's buildReducedModel is the same of trees.
        """
        if isinstance(joints, Mapping) and is_traced(joints):
            name = next(name for name, value in joints.items() if is_traced(value))
            raise TypeError(
                f"joints: where '{name}' is locked, JAX traces it, and bodies are merged outside of JAX; "
                "keep the joint, give its coordinate with q, and leave out its velocity and its force"
            )
        return Model.of(locked(self.kinematics, joints), self.gravity)

    def subtree(self, link: str) -> Model:
        """The part of the robot that a link carries, as a robot whose ground is the link, such as one arm.

        Parameters
        ----------
        link : a link or frame. World axes become those of its frame. Gravity keeps its three numbers, now in
            these axes (`with_gravity` takes others). Links that are fixed to this one belong to the ground,
            too, and the bodies that they carry are kept.

        Raises
        ------
        ModelError : there is no such link, it carries nothing that moves, or a loop, coupling or spring ties
            what it carries to the rest. TypeError : not a name.
        """
        require_text("link", link)
        return Model.of(carried(self.kinematics, link), self.gravity)

    @cached_property
    def weightless(self) -> Model:
        """The robot without gravity."""
        return self.with_gravity((0.0, 0.0, 0.0))

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether q is a configuration (unit quaternions, loops that close); one boolean."""
        return self.kinematics.valid_at(q)

    def explain(self, q: ArrayLike) -> None:
        """Raise the error that says why `q` (nq,) is not a configuration."""
        q = np.asarray(as_array("q", q, (self.nq,)))
        if q.ndim != 1:
            raise ShapeError("q", (self.nq,), q.shape)
        self.kinematics.explain(q)

    def __getstate__(self) -> dict[str, Any]:
        """The fields, which are pickled; what was derived for this process, such as `program`, is not."""
        return {"kinematics": self.kinematics, "gravity": self.gravity}

    def __repr__(self) -> str:
        return f"Model({len(self.body_names)} bodies, nq={self.nq}, nv={self.nv})"

    def _stacked(self, spanning: Kinematics, guess: Mapping[str, Any]) -> np.ndarray:
        """A guess by the names of joints as q_s (nq_s,)."""
        names, size = spanning.joint_names, spanning.nq
        missing = [name for name in names if name not in guess]
        if missing:
            raise ModelError(
                f"guess: it lacks the joint '{missing[0]}'; give the configuration of every joint"
            )
        start: np.ndarray = np.concatenate(
            [np.atleast_1d(as_array(f"guess of '{name}'", guess[name], (None,))) for name in names]
        )
        if start.shape != (size,):
            raise ShapeError("guess", (size,), start.shape)
        return start

    def _with_tree(self, tree: Tree) -> Model:
        """The robot with a tree that differs in frames, motors, passive forces and keyframes only."""
        if isinstance(self.kinematics, ClosedKinematics):
            spanning = replace(self.kinematics.spanning, tree=tree)
            return Model(replace(self.kinematics, spanning=spanning), self.gravity)
        return Model(replace(self.kinematics, tree=tree), self.gravity)

    def _slice(self, starts: np.ndarray, joint: str) -> slice:
        require_text("joint", joint)
        if joint not in self.joint_names:
            raise ModelError(no_joint(self.kinematics.tree, joint, self.joint_names))
        number = self.joint_names.index(joint)
        return slice(int(starts[number]), int(starts[number + 1]))


def with_inertias(model: Model, inertias: np.ndarray) -> Model:
    """The robot with spatial inertias (N, 6, 6), not validated; loops and couplings remain."""
    return _of_tree(model, replace(model.kinematics.tree, inertias=inertias))


def with_keyframes(model: Model, keyframes: Keyframes) -> Model:
    """The robot with these configurations and velocities of its joints as keyframes."""
    return model._with_tree(replace(model.kinematics.tree, keyframes=keyframes))


def _of_tree(model: Model, tree: Tree) -> Model:
    """The robot with another tree of the same joints; loops and couplings remain."""
    kinematics = model.kinematics
    if isinstance(kinematics, ClosedKinematics):
        return Model.of(replace(kinematics, spanning=Kinematics(tree)), model.gravity)
    return Model.of(tree, model.gravity)


def require_model(name: str, model: Any) -> None:
    """Raise `TypeError` unless the first argument of the function `name` is a robot."""
    require_type("model", model, Model, f"the robot comes first: {name}(model, ...)")


def close_loops(model: Model, q: ArrayLike, guess: Any = None) -> SolvedLoops:
    """q with its loops solved, `SolvedLoops`, which every function of the robot takes in place of q.

    Parameters
    ----------
    model : the robot; without loops, there is nothing to solve.
    q : (..., nq) configurations.
    guess : `SolvedLoops` at a configuration near q, or (..., nq_s) configurations of all joints, as in
        ``closed.spanning``. The loops are followed from there, instead of from the reference, so the branch
        is that of the guess; near it, Newton's method takes a step or two.

    Raises
    ------
    PointError : also `SolvedLoops` of another robot. ClosureError : names the loop that cannot close or is
        singular.
    TypeError : an argument of another kind, or a guess for a robot without loops.
    ShapeError, NonFiniteError.

    Where JAX traces, bad numbers give NaN instead of an error.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> robot = mb.example("four_bar")
    >>> closed = mb.close_loops(robot, [[0.1], [0.4]])
    >>> mb.mass_matrix(robot, closed).shape
    (2, 1, 1)
    >>> closed.spanning.shape
    (2, 3)

    Source: [W] VI-C.
    """
    require_model("close_loops", model)
    kinematics = model.kinematics
    if guess is not None and not model.closed:
        raise TypeError("guess: this robot has no loops, which a guess would help to close")
    directly = model.program.close_directly(q, guess)
    if directly is not None:
        return directly
    if isinstance(q, SolvedLoops) and guess is None:
        coordinates_of(q, kinematics)
        return q
    at, start = coordinates_of(q, kinematics), coordinates_of(guess, kinematics, "guess")
    if is_traced(at, guess):
        return model.traced.close(at, guess)
    return as_given(model.program.close(at, guess), at, start)


def solved(model: Model, q: Any) -> SolvedLoops:
    """q as `SolvedLoops`, for functions that ask several recursions; in NumPy, unless JAX traces it."""
    closed = close_loops(model, q)
    return closed if is_traced(closed) else with_numpy_arrays(closed)


jax.tree_util.register_static(Model)  # a constant of what JAX compiles, wherever it is an argument


def total_mass(model: Model | TracedModel) -> float:
    """The mass of all bodies that move, kg.

    Parameters
    ----------
    model : the robot.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> round(mb.total_mass(mb.example("arm")), 3)
    15.8
    """
    if isinstance(model, TracedModel):
        return cast("float", jnp.sum(model.parameters[..., 0], axis=-1))
    require_type("model", model, Model)
    return model.kinematics.tree.mass


def inertial_parameters(model: Model | TracedModel) -> np.ndarray:
    """The parameters pi of `regressor`, one row per body, (N, 10): m, h (3), Ixx, Ixy, Iyy, Ixz, Iyz, Izz.

    Parameters
    ----------
    model : the robot.

    They are about the origins of the bodies' frames, in the bodies' axes; kg, kg m, kg m^2.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> robot, q = mb.example("arm"), [0.3, -0.8, 1.2, 0.1, 0.5, 0.0]
    >>> parameters = mb.inertial_parameters(robot)
    >>> parameters.shape
    (6, 10)
    >>> Y = mb.regressor(robot, q, np.zeros(6), np.zeros(6), np.zeros(6))
    >>> np.allclose(Y @ parameters.ravel(), mb.gravity(robot, q))
    True
    """
    if isinstance(model, TracedModel):
        return cast("np.ndarray", model.parameters)
    require_type("model", model, Model)
    inertias = model.kinematics.tree.inertias
    moments = inertias[:, [2, 0, 1], [4, 5, 3]]
    return np.concatenate(
        [inertias[:, 5:, 5], moments, inertias[:, [0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]], axis=1
    )


def _gravity(gravity: Any) -> tuple[float, float, float]:
    try:
        vector = np.asarray(as_array("gravity", gravity, (3,)))
        if vector.ndim != 1:
            raise ShapeError("gravity", (3,), vector.shape)
        require_finite("gravity", vector)
    except (TypeError, ValueError) as error:
        raise ModelError(str(error)) from error
    x, y, z = vector.tolist()
    return x, y, z
