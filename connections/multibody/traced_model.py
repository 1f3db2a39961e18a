"""`TracedModel`: a robot whose inertias, gravity and armature are data inside JAX.

Its joints are those of a model, which JAX takes for a constant; its numbers are arrays that may be traced,
mapped over and differentiated. The recursions are those of the model: compiled code reads the numbers in
place of the model's (`program/data_packing.py`), and their derivatives are other recursions
(`in_jax/data_tangents.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Protocol, final

import jax
import jax.numpy as jnp
import numpy as np

from connections.checks import ModelError, ShapeError, as_array
from connections.multibody.graph import no_joint
from connections.multibody.program.table import RECURSIONS


class Structure(Protocol):
    """The part of a `Model` that is used here."""

    @property
    def kinematics(self) -> Any:
        """The tree of bodies, its loops, and the layout of its coordinates."""

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
    """A robot whose inertial parameters, gravity and armature are arrays of JAX: a pytree.

    `Model.with_inertial_parameters`, `with_gravity` and `with_armature` return it where JAX traces what they
    are given. Every recursion takes it in place of the model. Its derivatives by the numbers are those of the
    recursions, which are linear in the inertias: no definition is differentiated. Map over robots with
    `jax.vmap`, also over models: ``jax.vmap(robot.with_inertial_parameters)(parameters)`` is one with a batch
    axis, for ``jax.vmap(mb.inverse_dynamics)``.

    Nothing about the numbers is checked. A body without mass but with a first moment, and numbers that are
    not finite, give NaN, and so does an H without inverse, where there is a division by it.

    Parameters
    ----------
    structure : the model, for what depends on its joints alone: limits, names, differences, loops.
    parameters : (N, 10), as `inertial_parameters` returns them; kg, kg m, kg m^2.
    gravity : (3,) acceleration of free fall in world axes, m/s^2.
    joint_armature : (nv_s,) of all joints of the spanning tree, kg m^2 and kg.

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
    def kinematics(self) -> Any:
        """The layout of q and v."""
        return self.structure.kinematics

    @property
    def program(self) -> TracedModel:
        """Itself: its recursions are `functions`."""
        return self

    @property
    def functions(self) -> Mapping[str, Callable[..., jax.Array]]:
        """Name of a recursion -> its call ``(q, vectors..., choice..., out)``."""
        return _Functions(self)

    def evaluate(
        self, name: str, given: tuple[Any, ...], out: Any, chosen: tuple[Any, ...] = ()
    ) -> jax.Array:
        """The result of the recursion `name`.

        Parameters
        ----------
        name : a key of `RECURSIONS`.
        given : q (..., nq), or a `Closed` in its place, and then vectors (..., nv).
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
        for field, array in zip(("parameters", "gravity", "armature"), data, strict=True):
            if array.ndim != 1:
                raise ShapeError(
                    f"{field} of the model (map over models with jax.vmap)", array.shape[-1:], array.shape
                )
        found: jax.Array = self.structure.of_data.evaluate(name, given, chosen, data)
        return found

    def with_inertial_parameters(self, parameters: Any) -> TracedModel:
        """The same robot with other inertias, as `Model.with_inertial_parameters`; not checked but for shape.

        Parameters
        ----------
        parameters : (N, 10) kg, kg m, kg m^2.
        """
        return replace(self, parameters=_numbers("parameters", parameters, (len(self.body_names), 10)))

    def with_gravity(self, gravity: Any) -> TracedModel:
        """The same robot under another gravity.

        Parameters
        ----------
        gravity : (3,) acceleration of free fall in world axes, m/s^2.
        """
        return replace(self, gravity=_numbers("gravity", gravity, (3,)))

    def with_armature(self, armature: Mapping[str, Any]) -> TracedModel:
        """The same robot with other armature of some joints, as `Model.with_armature`; not checked.

        Parameters
        ----------
        armature : {joint name: a number for all velocity components of the joint, or (nv of the joint,)}. The
            angular components of a spherical or free joint have one number, and so have the linear ones.
        """
        tree, changed = self.kinematics.tree, self.joint_armature
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

    def potential_at(self, q: Any) -> jax.Array:
        """Potential energy of gravity, J, at q (nq,), or a `Closed`: -m g . c, c the centre of mass."""
        center = self.evaluate("center_of_mass", (q,), None)
        return -jnp.sum(self.parameters[:, 0]) * (self.gravity @ center)

    def tree_flatten(self) -> tuple[tuple[Any, ...], Structure]:
        """The numbers; and the model, a hashable constant."""
        return (self.parameters, self.gravity, self.joint_armature), self.structure

    @classmethod
    def tree_unflatten(cls, structure: Structure, arrays: Any) -> TracedModel:
        """The same joints with other numbers."""
        return cls(structure, *arrays)

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
        count = 1 + len(RECURSIONS[name].vectors)

        def call(*given: Any) -> jax.Array:
            *arguments, out = given
            return self._model.evaluate(name, tuple(arguments[:count]), out, tuple(arguments[count:]))

        return call

    def __iter__(self) -> Any:
        return iter(RECURSIONS)

    def __len__(self) -> int:
        return len(RECURSIONS)


def _numbers(name: str, value: Any, shape: tuple[int, ...]) -> jax.Array:
    """An array of this shape for JAX, in its widest float."""
    given = as_array(name, value, shape)
    if given.shape != shape:
        raise ShapeError(name, shape, given.shape)
    return jnp.asarray(given, jax.dtypes.canonicalize_dtype(np.float64))
