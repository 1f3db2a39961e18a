"""Closure conditions of loops and couplings on the spanning configuration, as rows and as users' functions.

`Rows` holds the conditions that are given by a kind and a few parameters; a user's function becomes a
`FunctionCondition`. Both are scaled, lengths by the size of the cluster, so that residuals have no unit and
angles can be compared with lengths.
Source: [W] VI-C.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from connections._words import no_such, words_of
from connections.checks import ModelError, ShapeError
from connections.evaluation.compilation import compiled
from connections.evaluation.parameters import Function
from connections.multibody.clusters import DISTANCE, LINEAR, POSITION, TWIST, Rows
from connections.multibody.definition.kinematics import Kinematics
from connections.multibody.graph import Tree
from connections.multibody.loops.closures import Coupling, Loop, conditions_of


class Placed(NamedTuple):
    """A mechanism at one spanning configuration."""

    kinematics: Kinematics  #: the spanning tree
    transforms: np.ndarray  #: (N + 1, 4, 4), m: the bodies in the world; the last one is the ground
    #: (nv, 6) twists [omega; v at the world origin] of the spanning velocities, world axes
    columns: np.ndarray


@dataclass(frozen=True, eq=False)
class FunctionCondition(abc.ABC):
    """Conditions given by a user's function; JAX-traceable.

    Parameters
    ----------
    owner : index of the loop or coupling.
    cluster : the cluster whose joints it constrains.
    title : what errors call the function.
    scale : (k,) or one number, the factor on the function, for residuals without a unit.
    """

    owner: int
    cluster: int
    title: str
    scale: np.ndarray | float = field(default=1.0, kw_only=True)

    @abc.abstractmethod
    def value_at(self, transforms: jax.Array, q: jax.Array) -> jax.Array:
        """The function (k,), from the transforms (N + 1, 4, 4) of the bodies, the ground last, and q_s."""

    def residual_at(self, transforms: jax.Array, q: jax.Array) -> jax.Array:
        """phi (k,), the function times its scale."""
        return self.value_at(transforms, q) * self.scale

    @abc.abstractmethod
    def residual_and_derivative(
        self, placed: Placed, moves: np.ndarray, q: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """phi (k,) and K (k, nv) in NumPy; moves (N + 1, nv)."""

    @abc.abstractmethod
    def slopes(self, placed: Placed, q: np.ndarray) -> np.ndarray:
        """The absolute derivatives of the function's components by the numbers it is given, (k, ...)."""

    @abc.abstractmethod
    def terms(self, placed: Placed, moves: np.ndarray, q: np.ndarray) -> np.ndarray:
        """The sizes of the terms of K / scale before cancellation, (k, nv)."""

    def __getstate__(self) -> dict[str, Any]:
        """The fields, which are pickled; compiled functions are not."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def size(self, kinematics: Kinematics) -> int:
        """Number of conditions, k."""
        T = jax.ShapeDtypeStruct((len(kinematics.joints) + 1, 4, 4), np.float64)
        q = jax.ShapeDtypeStruct((kinematics.nq,), np.float64)
        return int(jax.eval_shape(self.residual_at, T, q).shape[0])


@dataclass(frozen=True, eq=False)
class FunctionLoop(FunctionCondition):
    """function(T) = 0, T (4, 4) the transform of frame b in frame a."""

    #: bodies, -1 the ground
    body_a: int
    body_b: int
    #: (4, 4), m: the frames in their bodies
    frame_a: np.ndarray
    frame_b: np.ndarray
    function: Callable[[Any], jax.Array]  #: (4, 4) -> (k,), `_traced`

    def value_at(self, transforms: jax.Array, q: jax.Array) -> jax.Array:
        """The function of the pose of frame b in frame a."""
        return self.function(self._pose(transforms))

    def _pose(self, transforms: Any) -> jax.Array:
        a, b = transforms[self.body_a] @ self.frame_a, transforms[self.body_b] @ self.frame_b
        R = a[:3, :3].T
        return jnp.eye(4).at[:3, :3].set(R @ b[:3, :3]).at[:3, 3].set(R @ (b[:3, 3] - a[:3, 3]))

    def slopes(self, placed: Placed, q: np.ndarray) -> np.ndarray:
        """The sizes of the slopes by the entries of the pose, but those of its last row, (k, 3, 4)."""
        slopes: np.ndarray = np.abs(jax.jacfwd(self.function)(self._pose(placed.transforms)))[:, :3]
        return slopes

    def terms(self, placed: Placed, moves: np.ndarray, q: np.ndarray) -> np.ndarray:
        """The slopes by the pose's entries, times the sizes of the terms of their rates."""
        slopes = self.slopes(placed, q)
        a, b = placed.transforms[self.body_a] @ self.frame_a, placed.transforms[self.body_b] @ self.frame_b
        w, u = (np.linalg.norm(part, axis=1) for part in (placed.columns[:, :3], placed.columns[:, 3:]))
        reach = np.linalg.norm(a[:3, 3]) + np.linalg.norm(b[:3, 3])
        turning, sliding = slopes[:, :, :3].sum(axis=(1, 2)), slopes[:, :, 3].sum(axis=1)
        moving = np.maximum(moves[self.body_a], moves[self.body_b])
        sizes: np.ndarray = moving * (turning[:, None] * w + sliding[:, None] * (u + reach * w))
        return sizes

    def residual_and_derivative(
        self, placed: Placed, moves: np.ndarray, q: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """phi (k,) and K (k, nv); column j is the derivative of phi as velocity j moves the two bodies."""
        rates = [
            _rate(placed.transforms[body], placed.columns, moves[body]) for body in (self.body_a, self.body_b)
        ]
        value, derivative = self._along(placed.transforms, np.stack(rates, axis=1))
        return np.asarray(value), np.asarray(derivative)

    @cached_property
    def _along(self) -> Callable[..., Any]:
        """phi and its derivatives while the transforms of the two bodies change at `rates` (nv, 2, 4, 4)."""

        def values(transforms: jax.Array, rates: jax.Array) -> tuple[jax.Array, jax.Array]:
            def along(rate: jax.Array) -> tuple[jax.Array, jax.Array]:
                tangent = jnp.zeros_like(transforms).at[self.body_a].add(rate[0]).at[self.body_b].add(rate[1])
                return jax.jvp(lambda T: self.residual_at(T, jnp.zeros(0)), (transforms,), (tangent,))

            return jax.vmap(along, out_axes=(None, 1))(rates)

        return compiled(values)


@dataclass(frozen=True, eq=False)
class FunctionCoupling(FunctionCondition):
    """function(*positions) - offset = 0."""

    slices: tuple[slice, ...]  #: the joints' coordinates in q_s
    #: one argument per joint (a number if the joint has one coordinate) -> (k,), `_traced`
    function: Callable[..., jax.Array]
    offset: float  #: the value that the function must have

    def value_at(self, transforms: jax.Array, q: jax.Array) -> jax.Array:
        """The function of the joints' configurations, minus the offset."""
        positions = [q[part] if part.stop - part.start > 1 else q[part.start] for part in self.slices]
        return self.function(*positions) - self.offset

    def residual_and_derivative(
        self, placed: Placed, moves: np.ndarray, q: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """phi (k,) and K (k, nv) = dphi/dq X, with X the frame of the spanning tree."""
        value, derivative = self._along_coordinates(q)
        X = placed.kinematics.frame.matrix_at(jnp.asarray(q))
        return np.asarray(value), np.asarray(derivative) @ np.asarray(X)

    def slopes(self, placed: Placed, q: np.ndarray) -> np.ndarray:
        """|dphi/dq| / scale, (k, nq)."""
        slopes: np.ndarray = np.abs(self._along_coordinates(q)[1]) / np.reshape(self.scale, (-1, 1))
        return slopes

    def terms(self, placed: Placed, moves: np.ndarray, q: np.ndarray) -> np.ndarray:
        """|dphi/dq| |X| / scale."""
        X = np.abs(placed.kinematics.frame.matrix_at(jnp.asarray(q)))
        sizes: np.ndarray = self.slopes(placed, q) @ X
        return sizes

    @cached_property
    def _along_coordinates(self) -> Callable[..., Any]:
        """phi (k,) and dphi/dq (k, nq) at q (nq,)."""
        nowhere = jnp.zeros((0, 4, 4))

        def values(q: jax.Array) -> tuple[jax.Array, jax.Array]:
            return self.residual_at(nowhere, q), jax.jacfwd(lambda q: self.residual_at(nowhere, q))(q)

        return compiled(values)


def _numbers(title: str, function: Callable[..., Any], *arguments: Any) -> jax.Array:
    """The result of a user's function as an array (k,).

    Raises
    ------
    TypeError, ShapeError : it is no array of floats, has two axes or more, or is empty.
    """
    value = function(*arguments)
    words = f"{title}: expected an array of real numbers"
    if value is None or isinstance(value, str | bytes):
        raise TypeError(f"{words}, got {words_of(value)}")
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{words}, got {words_of(value)}: {error}") from error
    if jnp.issubdtype(array.dtype, jnp.integer) or array.dtype == bool:
        raise TypeError(f"{words} that change with the joints, got {array.dtype}, which has no derivative")
    if array.dtype != jnp.result_type(float):
        hint = ", in which loops close to few digits" if jnp.issubdtype(array.dtype, jnp.floating) else ""
        raise TypeError(f"{words} in {jnp.result_type(float)}, got {array.dtype}{hint}")
    if array.ndim > 1 or not array.size:
        raise ShapeError(title, "() or (k,), k > 0", array.shape)
    return jnp.atleast_1d(array)


def _traced(title: str, function: Callable[..., Any]) -> Callable[..., jax.Array]:
    """The user's function, tested, and traced once, so that all quantities use the same."""
    return Function(partial(_numbers, title, function))


def _rate(transform: np.ndarray, columns: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """Rates (nv, 4, 4) of a body's transform along twists `columns` (nv, 6); zero if not in `moves`."""
    w, u = columns[:, :3] * moves[:, None], columns[:, 3:] * moves[:, None]
    rate = np.zeros((len(w), 4, 4))
    rate[:, :3, :3] = np.cross(w[:, None, :], transform[:3, :3].T).transpose(0, 2, 1)
    rate[:, :3, 3] = u + np.cross(w, transform[:3, 3])
    return rate


def gather(
    tree: Tree,
    kinematics: Kinematics,
    of_body: np.ndarray,
    loops: Sequence[Loop],
    couplings: Sequence[Coupling],
    sizes: np.ndarray,
    units: np.ndarray,
) -> tuple[Rows, tuple[FunctionCondition, ...]]:
    """The conditions of all loops and couplings; owners are numbered loops first, then couplings.

    Parameters
    ----------
    tree, kinematics : the spanning tree.
    of_body : (N,) the cluster of each body.
    loops, couplings : already checked.
    sizes, units : (M,) characteristic lengths of clusters, and (nq,) units of coordinates (`lengths`).
    """
    entries: list[dict[str, Any]] = []
    functions: list[FunctionCondition] = []
    for owner, loop in enumerate(loops):
        (a, frame_a), (b, frame_b) = ends_of(tree, loop)
        cluster = of_body[tied_by_loop(tree, loop)[0]]
        if callable(loop.closure):
            title = f"the function of loop '{loop.name}'"
            function = _traced(title, loop.closure)
            functions.append(FunctionLoop(owner, cluster, title, a, b, frame_a, frame_b, function))
            continue
        for row in conditions_of(loop.closure).rows:
            points = frame_a[:3, 3], frame_b[:3, 3]
            if row.kind == TWIST:
                points = frame_a[:3, :3] @ row.x, frame_b[:3, :3] @ row.y
            entries.append(
                {
                    "kinds": row.kind,
                    "owners": owner,
                    "clusters": cluster,
                    "bodies_a": a,
                    "bodies_b": b,
                    "points_a": points[0],
                    "points_b": points[1],
                    "u": frame_a[:3, :3] @ row.u,
                    "w": frame_b[:3, :3] @ row.w,
                    "constants": row.constant,
                    "scales": _scale(row.kind, row.constant, sizes[cluster]),
                }
            )
    for owner, coupling in enumerate(couplings, start=len(loops)):
        bodies = tied_by_coupling(tree, coupling)
        cluster = of_body[bodies[0]]
        starts = kinematics.q_starts
        if coupling.function is not None:
            slices = tuple(slice(int(starts[body]), int(starts[body + 1])) for body in bodies)
            title = f"the function of coupling '{coupling.name}'"
            function = _traced(title, coupling.function)
            functions.append(FunctionCoupling(owner, cluster, title, slices, function, coupling.offset))
            continue
        coefficients = np.zeros(kinematics.nq)
        for body, number in zip(bodies, coupling.coefficients, strict=True):
            coefficients[starts[body]] += number
        entries.append(
            {
                "kinds": LINEAR,
                "owners": owner,
                "clusters": cluster,
                "coefficients": coefficients,
                "constants": coupling.offset,
                "scales": 1.0 / np.linalg.norm(coefficients * units),
            }
        )
    return _rows(entries, kinematics.nq), tuple(functions)


def tied_by_loop(tree: Tree, loop: Loop) -> list[int]:
    """`bodies_between` of a loop's ends; `ModelError` if there are none."""
    bodies = bodies_between(tree, loop)
    if not bodies:
        raise ModelError(f"loop '{loop.name}': its two ends do not move relative to each other")
    return bodies


def bodies_between(tree: Tree, loop: Loop) -> list[int]:
    """The bodies between the two ends of a loop: those that move one end relative to the other."""
    (a, _), (b, _) = ends_of(tree, loop)
    supports = np.concatenate([tree.supports, np.zeros((1, len(tree.joints)), dtype=bool)])
    return [int(body) for body in np.flatnonzero(supports[a] ^ supports[b])]


def tied_by_coupling(tree: Tree, coupling: Coupling) -> list[int]:
    """The bodies that the joints of a coupling move, in the order of ``coupling.joints``."""
    numbers = {name: number for number, name in enumerate(tree.joint_names)}
    for joint in coupling.joints:
        if joint not in numbers:
            text = no_such("moving joint", joint, tree.joint_names)
            raise ModelError(f"coupling '{coupling.name}': {text}")
    return [numbers[joint] for joint in coupling.joints]


def ends_of(tree: Tree, loop: Loop) -> list[tuple[int, np.ndarray]]:
    """The two bodies of a loop, -1 the ground, each with the closure's frame in it, (4, 4)."""
    sides = (loop.link_a, loop.placement_a), (loop.link_b, loop.placement_b)
    return [(tree.placements[link][0], tree.placements[link][1] @ frame) for link, frame in sides]


def _scale(kind: int, constant: float, size: float) -> float:
    """1 / length for positions, 1 / length^2 for distances, 1 for directions, 1/2 for two pairs of them."""
    if kind == DISTANCE:
        return 1.0 / constant
    if kind == TWIST:
        return 0.5
    return 1.0 / size if kind == POSITION else 1.0


def _rows(entries: list[dict[str, Any]], nq: int) -> Rows:
    """Conditions as rows; fields that an entry leaves out are zero, and bodies are the ground."""
    integers = ("kinds", "owners", "clusters", "bodies_a", "bodies_b")
    widths = {"points_a": 3, "points_b": 3, "u": 3, "w": 3, "coefficients": nq}
    arrays = {}
    for column in fields(Rows):
        shape = (len(entries), widths[column.name]) if column.name in widths else (len(entries),)
        nothing = -1 if column.name in ("bodies_a", "bodies_b") else 0
        array = np.full(shape, nothing, dtype=np.int64 if column.name in integers else np.float64)
        for row, entry in enumerate(entries):
            array[row] = entry.get(column.name, nothing)
        arrays[column.name] = array
    return Rows(**arrays)
