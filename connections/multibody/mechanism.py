"""`Mechanism`: bodies and joints, one at a time, and then the `Model` that they form.

>>> import numpy as np
>>> from connections import multibody as mb
>>> mechanism = mb.Mechanism()
>>> mechanism.add_body("cart", mass=2.0)
>>> mechanism.add_body("pole", mass=0.5, center_of_mass=(0, 0, 0.4), inertia=np.diag([0.03, 0.03, 0]))
>>> mechanism.add_joint("slide", "world", "cart", mb.Prismatic((1, 0, 0)))
>>> mechanism.add_joint("hinge", "cart", "pole", mb.Revolute((0, 1, 0)))
>>> mechanism.build()
Model(2 bodies, nq=2, nv=2)

Arguments are checked before anything of them is kept: a refused call leaves the mechanism as it was.
Source: [W] VI-B.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from connections.checks import ModelError
from connections.multibody.graph import GROUND, Edge, Link, build_tree
from connections.multibody.inertia import InertiaWarning, body_inertia, inertia_flaw
from connections.multibody.joints import Joint
from connections.multibody.model import DEFAULT_GRAVITY, Model

WORLD = "world"
_RIGID = 1e-9  # how far a placement may be from a rigid transform, entry by entry


class Mechanism:
    """A tree of bodies in the making; `build` turns it into a `Model`, as often as wanted."""

    def __init__(self) -> None:
        self._links: dict[str, Link] = {}
        self._edges: dict[str, Edge] = {}
        self._above: dict[str, Edge] = {}  # the joint that moves a body, by the name of the body

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
        mass : kg, positive or zero. A body without mass is legal where H is positive definite all the same.
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
        flaw = inertia_flaw(np.asarray(inertia, dtype=np.float64))
        if flaw:
            warnings.warn(f"body '{name}': inertia {flaw}", InertiaWarning, stacklevel=2)
        self._links[name] = link

    def add_joint(self, name: str, parent: str, child: str, joint: Joint, placement: Any = None) -> None:
        """Move the body `child` relative to `parent` by a joint.

        Parameters
        ----------
        name : unique among joints.
        parent, child : bodies that have been added; the parent of a root body is "world".
        joint : its type, for example ``Revolute((0, 0, 1))``.
        placement : (4, 4) homogeneous transform, m: the joint frame in the frame of the parent. The child
            frame coincides with the joint frame where the joint is neutral. The identity if None.

        Raises
        ------
        ModelError : the name is taken or empty; a body does not exist; the child has a joint already, or
            carries the parent; `joint` is not a joint; the placement is not a proper rigid transform to 1e-9.
        """
        _require_name("joint", name, self._edges)
        if not isinstance(joint, Joint):
            raise ModelError(f"joint '{name}': expected a joint such as Revolute((0, 0, 1)), got {joint!r}")
        for role, body in (("parent", parent), ("child", child)):
            known = isinstance(body, str) and body in self._links
            if not known and not (role == "parent" and body == WORLD):
                raise ModelError(f"joint '{name}': its {role} body {body!r} does not exist; add it first")
        if child in self._above:
            raise ModelError(
                f"body '{child}' is moved by joint '{self._above[child].name}' and cannot be moved by "
                f"'{name}', too: closed loops are not yet supported"
            )
        self._require_no_cycle(name, parent, child)
        transform = np.eye(4) if placement is None else _rigid_transform(name, placement)
        edge = Edge(name, GROUND if parent == WORLD else parent, child, joint, transform)
        self._edges[name] = self._above[child] = edge

    def build(self, gravity: Any = DEFAULT_GRAVITY, reference: Any = None) -> Model:
        """The model of the bodies and joints so far; later additions do not change it.

        Parameters
        ----------
        gravity : (3,) acceleration of free fall in world axes, m/s^2.
        reference : the assembly of closed loops; None, as there are none.

        Joints are numbered depth first, those of one parent in the order in which they were added.

        Raises
        ------
        ModelError : there are no bodies; a body has no joint that moves or holds it; nothing moves; gravity
            is not three finite numbers; a joint moves nothing that has inertia; a reference is given.
        """
        if reference is not None:
            raise ModelError(
                "reference: it chooses the assembly of closed loops, which are not yet supported"
            )
        if not self._links:
            raise ModelError("the mechanism has no bodies")
        loose = [name for name in self._links if name not in self._above]
        if loose:
            names = ", ".join(f"'{name}'" for name in loose)
            raise ModelError(f"not connected: no joint leads to {names}; the parent of a root is '{WORLD}'")
        return Model.of(build_tree(list(self._links.values()), list(self._edges.values())), gravity)

    def __repr__(self) -> str:
        return f"Mechanism({len(self._links)} bodies, {len(self._edges)} joints)"

    def _require_no_cycle(self, name: str, parent: str, child: str) -> None:
        """Refuse the joint if `child` carries `parent`; bodies have one joint above each, so a walk tells."""
        body, steps = parent, []
        while body != child:
            edge = self._above.get(body)
            if edge is None or edge.parent == GROUND:
                return
            steps.append(f" -[{edge.name}] -> '{body}'")
            body = str(edge.parent)
        path = f"'{child}'" + "".join(reversed(steps)) + f" -[{name}] -> '{child}'"
        raise ModelError(f"the joints form a cycle: {path}")


def _require_name(kind: str, name: Any, taken: dict[str, Any]) -> None:
    if not isinstance(name, str) or not name:
        raise ModelError(f"a {kind} needs a name, got {name!r}")
    if name in taken:
        raise ModelError(f"there is a {kind} '{name}' already")


def _rigid_transform(name: str, placement: Any) -> np.ndarray:
    """`placement` as a (4, 4) array of its own, if it is a rotation and a translation."""
    try:
        transform = np.array(placement, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"joint '{name}': its placement is not an array of numbers") from error
    if transform.shape != (4, 4):
        raise ModelError(f"joint '{name}': its placement must be (4, 4), got {transform.shape}")
    if not np.isfinite(transform).all():
        raise ModelError(f"joint '{name}': its placement is not finite")
    R = transform[:3, :3]
    if np.max(np.abs(transform[3] - [0.0, 0.0, 0.0, 1.0])) > _RIGID:
        raise ModelError(f"joint '{name}': the last row of its placement is {transform[3]}, not (0, 0, 0, 1)")
    excess = float(np.max(np.abs(R.T @ R - np.eye(3))))
    if excess > _RIGID:
        raise ModelError(
            f"joint '{name}': its placement is not a rigid transform: R^T R differs from the identity by "
            f"{excess:.1e}, more than {_RIGID:g}"
        )
    if np.linalg.det(R) < 0.0:
        raise ModelError(f"joint '{name}': its placement is a reflection: det R = -1")
    return transform
