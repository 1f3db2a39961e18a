"""`Mechanism`: bodies and joints, added one at a time, and the `Model` that they form.

>>> import numpy as np
>>> from connections import multibody as mb
>>> mechanism = mb.Mechanism()
>>> mechanism.add_body("cart", mass=2.0)
>>> mechanism.add_body("pole", mass=0.5, center_of_mass=(0, 0, 0.4), inertia=np.diag([0.03, 0.03, 0]))
>>> mechanism.add_joint("slide", "world", "cart", mb.Prismatic((1, 0, 0)))
>>> mechanism.add_joint("hinge", "cart", "pole", mb.Revolute((0, 1, 0)))
>>> mechanism.build()
Model(2 bodies, nq=2, nv=2)

The joints form a tree; `add_loop` closes loops in it, and `add_coupling` couples joints. Arguments are
checked before any of them is stored: a call that raises leaves the mechanism as it was. Source: [W] VI-B,
VI-C.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from connections._jax import ArrayLike
from connections.checks import ModelError, as_number, require_bool, require_function
from connections.geometry.rigid.placements import rigid_transform
from connections.multibody.assembly.assembly import AssemblyWarning, assemble
from connections.multibody.assembly.whole_joints import Note
from connections.multibody.graph import GROUND, Edge, Link, Tree, build_tree
from connections.multibody.inertia import NO_INERTIA, InertiaWarning, body_inertia, inertia_flaw
from connections.multibody.joints import Fixed, Helical, Joint, Limits
from connections.multibody.joints.armature import armature_of
from connections.multibody.loops.closures import Coupling, Loop, conditions_of
from connections.multibody.model import DEFAULT_GRAVITY, Model

WORLD = "world"


class Mechanism:
    """Bodies, joints, loops and couplings, to which more can be added; `build` makes a `Model` of them.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> pendulum = mb.Mechanism()
    >>> pendulum.add_body("rod", mass=2.0, center_of_mass=(0, 0, -0.5), inertia=0.1 * np.eye(3))
    >>> pendulum.add_joint("hinge", "world", "rod", mb.Revolute((0, 1, 0)))
    >>> robot = pendulum.build()
    >>> mb.mass_matrix(robot, [0.3])
    array([[0.6]])
    """

    def __init__(self) -> None:
        self._links: dict[str, Link] = {}
        self._edges: dict[str, Edge] = {}
        self._above: dict[str, Edge] = {}  # the joint that moves a body, by the name of the body
        self._loops: dict[str, Loop] = {}
        self._couplings: dict[str, Coupling] = {}

    def add_body(
        self,
        name: str,
        mass: float = 0.0,
        center_of_mass: Any = (0.0, 0.0, 0.0),
        inertia: Any = None,
    ) -> None:
        """Add a rigid body.

        Parameters
        ----------
        name : unique among bodies; "world" is the ground.
        mass : kg, positive or zero. A body may be without mass; what needs the inverse of H
            is refused where H is singular.
        center_of_mass : (3,) m, in body axes from the body origin.
        inertia : (3, 3) kg m^2 about the centre of mass, in body axes; zero if None.

        Raises
        ------
        ModelError : the name is taken or empty; a number is not finite, an array not of this shape, the mass
            negative, or the inertia not symmetric.

        Warns
        -----
        InertiaWarning : no distribution of mass has this inertia.
        """
        _require_name("body", name, self._links)
        if name == WORLD:
            raise ModelError(f"body '{WORLD}': this is the name of the ground")
        inertia = np.zeros((3, 3)) if inertia is None else inertia
        link = Link(name, body_inertia(name, mass, center_of_mass, inertia))
        flaw = inertia_flaw(np.asarray(inertia, dtype=np.float64), mass, center_of_mass)
        if flaw:
            warnings.warn(f"body '{name}': inertia {flaw}", InertiaWarning, stacklevel=2)
        self._links[name] = link

    def add_joint(
        self,
        name: str,
        parent: str,
        child: str,
        joint: Joint,
        placement: ArrayLike | None = None,
        limits: Limits | None = None,
        armature: Any = 0.0,
        actuated: bool = False,
    ) -> None:
        """Move the body `child` relative to `parent` by a joint.

        Parameters
        ----------
        name : unique among joints.
        parent, child : bodies that have been added; the parent of a root body is "world".
        joint : its type, for example ``Revolute((0, 0, 1))``.
        placement : (4, 4) homogeneous transform, m: the joint frame in the frame of the parent. The child
            frame coincides with the joint frame if the joint is neutral. The identity if None.
        limits : what ``model.limits`` has for this joint; `inverse_kinematics` and `WholeBodyController` read
                them.
        armature : the inertia that the joint's own velocity meets, such as that of a motor's rotor times the
            square of the gear ratio; kg m^2 for angles, kg for lengths. A number, or (nv_J,).
        actuated : whether a motor moves it. If loops leave a choice, such joints are independent first.

        Raises
        ------
        ModelError : the name is taken or empty; a body does not exist; the child has a joint already, or
            carries the parent; `joint` is not a joint; `limits` or `armature` do not fit it; the placement is
            not a proper rigid transform to 1e-9.
        """
        _require_name("joint", name, self._edges)
        if not isinstance(joint, Joint):
            raise ModelError(f"joint '{name}': expected a joint such as Revolute((0, 0, 1)), got {joint!r}")
        for role, body in (("parent", parent), ("child", child)):
            known = isinstance(body, str) and (body in self._links or (role == "parent" and body == WORLD))
            if not known:
                raise ModelError(f"joint '{name}': its {role} body {body!r} does not exist; add it first")
        if child in self._above:
            raise ModelError(
                f"body '{child}' is moved by joint '{self._above[child].name}' and cannot be moved by "
                f"'{name}', too; close a loop by add_loop"
            )
        self._require_no_cycle(name, parent, child)
        transform = rigid_transform(f"joint '{name}'", placement)
        limits = Limits() if limits is None else limits
        if not isinstance(limits, Limits):
            raise ModelError(f"joint '{name}': limits: expected Limits(lower=..., ...), got {limits!r}")
        limits = limits.for_joint(name, joint)
        if limits.disorder():
            raise ModelError(f"joint '{name}': {limits.disorder()}")
        inertia = armature_of(name, joint, armature)
        require_bool("actuated", actuated)
        above = GROUND if parent == WORLD else parent
        edge = Edge(name, above, child, joint, transform, limits, inertia, actuated)
        self._edges[name] = self._above[child] = edge

    def add_loop(
        self,
        name: str,
        body_a: str,
        body_b: str,
        closure: Any,
        placement_a: ArrayLike | None = None,
        placement_b: ArrayLike | None = None,
        independent: Sequence[str] | None = None,
    ) -> None:
        """Close a loop between two bodies.

        Parameters
        ----------
        name : unique among loops and couplings.
        body_a, body_b : bodies that have been added, or "world".
        closure : ``Coincident()``; ``Distance(length)``; a joint whose motion from frame a to frame b stays
            free, for example ``Revolute((0, 0, 1))``, or ``Fixed()`` if no motion stays free; or a
            JAX-traceable function (4, 4) -> (k,) of the transform of frame b in frame a, which is zero if the
            loop closes. ``Helical(axis, pitch)`` adds a joint and a body without mass, both of this name: the
            screw's angle is a coordinate, because whole turns move frame b along the axis.
        placement_a, placement_b : (4, 4), m: the frames a and b in their bodies; the identity if None.
        independent : names of the independent joints of the loop's cluster; the other joints between the two
            bodies are dependent, unless another loop or coupling names them. If no loop or coupling of a
            cluster names any, independent joints are chosen that determine the others well;
            ``model.joint_names`` and ``model.cluster_tree`` show the choice.

        Raises
        ------
        ModelError : the name is taken or empty; a body does not exist, or both are the same; the closure is
            none of these; a placement is not a proper rigid transform to 1e-9; a body or a joint has the name
            of a screw.

        Source: [W] VI-C, implicit constraints.
        """
        _require_name("loop or coupling", name, {**self._loops, **self._couplings})
        for body in (body_a, body_b):
            if not (isinstance(body, str) and (body == WORLD or body in self._links)):
                raise ModelError(f"loop '{name}': the body {body!r} does not exist; add it first")
        if body_a == body_b:
            raise ModelError(f"loop '{name}': both ends are on '{body_a}'")
        if isinstance(closure, Helical):
            for kind, taken in (("body", {WORLD, *self._links}), ("joint", set(self._edges))):
                if name in taken:
                    raise ModelError(f"loop '{name}': the screw needs a {kind} of this name, which is taken")
        elif isinstance(closure, type) or not callable(closure):
            try:
                conditions_of(closure)
            except ModelError as error:
                raise ModelError(f"loop '{name}': {error}") from error
        else:
            _require_function(f"loop '{name}'", closure, "T (4, 4) -> (k,)")
        frame_a, frame_b = (rigid_transform(f"loop '{name}'", frame) for frame in (placement_a, placement_b))
        link_a, link_b = (GROUND if body == WORLD else body for body in (body_a, body_b))
        listed = _joint_list(name, independent)
        if isinstance(closure, Helical):  # cut behind the screw
            edge = Edge(name, link_a, name, closure, frame_a, Limits().for_joint(name, closure))
            self._links[name] = Link(name, NO_INERTIA)
            self._edges[name] = self._above[name] = edge
            link_a, closure, frame_a = name, Fixed(), np.eye(4)
        self._loops[name] = Loop(name, link_a, link_b, closure, frame_a, frame_b, listed)

    def add_coupling(
        self,
        name: str,
        joints: Mapping[str, float] | Sequence[str],
        offset: float = 0.0,
        function: Callable[..., Any] | None = None,
        independent: Sequence[str] | None = None,
    ) -> None:
        """Couple joints: sum of coefficient * position = offset, or function(*positions) = offset.

        Parameters
        ----------
        name : unique among loops and couplings.
        joints : {joint: coefficient}, of joints of one coordinate; or, with a function, names of joints.
        offset : the value that the sum or the function must have.
        function : JAX-traceable, one argument per joint in their order, a number for a joint of one
            coordinate and (nq_J,) for others -> a number or (k,). For example a cam,
            ``lambda crank, follower: follower - lift * jnp.cos(crank)``.
        independent : names of the independent joints of the coupling's cluster; as in `add_loop`.

        Raises
        ------
        ModelError : the name is taken or empty; a joint does not exist or moves nothing; fewer than two
            joints; a joint of several coordinates in a sum; a coefficient that is zero or not finite, or is
            given with a function; a function of another number of arguments.

        Source: [W] VI-C, explicit constraints.
        """
        _require_name("loop or coupling", name, {**self._loops, **self._couplings})
        names, coefficients = _coupled(name, joints, function)
        for joint in names:
            if joint not in self._edges:
                raise ModelError(f"coupling '{name}': the joint {joint!r} does not exist; add it first")
            kind = self._edges[joint].joint
            if kind.nv == 0 or (function is None and kind.nq != 1):
                raise ModelError(
                    f"coupling '{name}': joint '{joint}' has {kind.nq} coordinates; a sum takes joints of "
                    "one, a function takes others, too"
                )
        if function is not None:
            _require_function(f"coupling '{name}'", function, f"({', '.join('q' * len(names))}) -> (k,)")
        offset = _number(f"coupling '{name}': the offset", offset)
        listed = _joint_list(name, independent)
        self._couplings[name] = Coupling(name, names, coefficients, offset, function, listed)

    def build(
        self,
        gravity: ArrayLike = DEFAULT_GRAVITY,
        reference: Mapping[str, Any] | None = None,
        independent: Sequence[str] | None = None,
    ) -> Model:
        """The model of what has been added so far; later additions do not change it.

        Parameters
        ----------
        gravity : (3,) acceleration of free fall in world axes, m/s^2.
        reference : {joint: configuration}, from which loops are closed; joints that are not named are
            neutral. If there are several assembly modes, it chooses the one nearby. If None, the neutral
            configuration if the loops close there and are regular, otherwise a configuration that is searched
            for.
        independent : names of independent joints, in place of those that the loops and couplings name; in a
            cluster of which it names none, these hold.

        Joints are numbered depth first, joints of one parent in the order in which they were added. In
        ``model.joint_names`` only independent joints appear, grouped by cluster.

        Raises
        ------
        ModelError : there are no bodies; a body has no joint that moves or holds it; nothing moves; gravity
            is not three finite numbers; a joint moves negative inertia; a loop does not close, is
            singular at the reference, or leaves nothing to move; couplings contradict each other; joints
            declared independent do not determine the others.

        Warns
        -----
        AssemblyWarning : a reference was searched for, and the loops close in another way, too; or the best
            choice of independent joints lets others move more than twenty times as fast.
        """
        model, notes = built(self, gravity, reference, independent)
        for note in notes:
            warnings.warn(str(note), AssemblyWarning, stacklevel=2)
        return model

    def _tree(self) -> Tree:
        """The tree of its bodies."""
        if not self._links:
            raise ModelError("the mechanism has no bodies")
        loose = [name for name in self._links if name not in self._above]
        if loose:
            names = ", ".join(f"'{name}'" for name in loose)
            raise ModelError(f"not connected: no joint leads to {names}; the parent of a root is '{WORLD}'")
        return build_tree(list(self._links.values()), list(self._edges.values()))

    def __repr__(self) -> str:
        ties = {"loops": len(self._loops), "couplings": len(self._couplings)}
        more = "".join(f", {count} {kind}" for kind, count in ties.items() if count)
        return f"Mechanism({len(self._links)} bodies, {len(self._edges)} joints{more})"

    def _require_no_cycle(self, name: str, parent: str, child: str) -> None:
        """Raise `ModelError` if `child` carries `parent`, by a walk from `parent` to the ground."""
        body, steps = parent, []
        while body != child:
            edge = self._above.get(body)
            if edge is None or edge.parent == GROUND:
                return
            steps.append(f" -[{edge.name}] -> '{body}'")
            body = str(edge.parent)
        path = f"'{child}'" + "".join(reversed(steps)) + f" -[{name}] -> '{child}'"
        raise ModelError(f"the joints form a cycle: {path}")


def built(mechanism: Mechanism, gravity: Any, reference: Any, independent: Any) -> tuple[Model, list[Note]]:
    """The model of a mechanism, as `Mechanism.build` returns it, and what that warns of."""
    tree, notes = mechanism._tree(), list[Note]()
    if reference is not None and not isinstance(reference, Mapping):
        raise ModelError(f"reference: expected {{joint name: configuration}}, got {reference!r}")
    loops, couplings = list(mechanism._loops.values()), list(mechanism._couplings.values())
    kinematics = assemble(tree, loops, couplings, reference, notes.append, independent)
    return Model.of(kinematics, gravity), notes


def _require_name(kind: str, name: Any, taken: dict[str, Any]) -> None:
    if not isinstance(name, str) or not name:
        raise ModelError(f"a {kind} needs a name, got {name!r}")
    if name in taken:
        raise ModelError(f"there is a {kind} '{name}' already")


def _coupled(
    name: str, joints: Any, function: Callable[..., Any] | None
) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The joints of a coupling and their coefficients."""
    if function is not None and isinstance(joints, Mapping):
        raise ModelError(f"coupling '{name}': with a function, give the names of the joints, no coefficients")
    if function is not None:
        names = (joints,) if isinstance(joints, str) else tuple(joints)
        coefficients: tuple[float, ...] = ()
    elif isinstance(joints, Mapping):
        names = tuple(joints)
        coefficients = tuple(
            _number(f"coupling '{name}': the coefficient of '{joint}'", joints[joint]) for joint in joints
        )
        if 0.0 in coefficients:
            raise ModelError(
                f"coupling '{name}': the coefficient of '{names[coefficients.index(0.0)]}' is zero"
            )
    else:
        raise ModelError(f"coupling '{name}': expected {{joint: coefficient}}, got {joints!r}")
    if len(set(names)) < max(2, len(names)):
        raise ModelError(f"coupling '{name}': expected two or more different joints, got {names}")
    return names, coefficients


def _number(what: str, value: Any) -> float:
    try:
        return as_number(what, value)
    except (TypeError, ValueError) as error:
        raise ModelError(str(error)) from error


def _require_function(what: str, value: Any, form: str) -> None:
    try:
        require_function(what, value, form)
    except TypeError as error:
        raise ModelError(str(error)) from error


def _joint_list(name: str, independent: Sequence[str] | None) -> tuple[str, ...] | None:
    if independent is None:
        return None
    is_list = isinstance(independent, list | tuple)
    if not is_list or not all(isinstance(joint, str) for joint in independent):
        raise ModelError(f"'{name}': independent: expected a list of joint names, got {independent!r}")
    return tuple(independent)
