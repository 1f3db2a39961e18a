"""The Levi-Civita connection of a robot by recursion: the numbers of `Model.connection`, sooner.

Values come from the recursions, as operations inside JAX's compiled functions; derivatives come from the
definition, ``d/dt (value along a curve) = jvp of the definition``, and so do their derivatives. So everything
that takes a connection takes this one, and agrees with `Model.connection` to round-off. On a device that is
not the processor the definition is computed instead.
Source: [W] Algorithms 1 and 2; [E] Remark 2 on differentiation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine.connection import ConnectionOfMetric
from connections.affine.levi_civita import raise_first_index
from connections.geometry import Metric

if TYPE_CHECKING:
    from connections.multibody.closed_kinematics import ClosedKinematics
    from connections.multibody.kinematics import Kinematics
    from connections.multibody.model import Model
    from connections.multibody.recursions.closed_program import ClosedProgram


@dataclass(frozen=True, eq=False)
class RecursiveMetric(Metric):
    """The kinetic energy metric of a robot; the mass matrix by recursion.

    Parameters
    ----------
    model : the robot.

    Source: [E] Algorithm 1.
    """

    model: Model

    def __post_init__(self) -> None:
        matrix = _operations(self.model).mass_matrix
        object.__setattr__(self, "frame", self.model.frame)
        object.__setattr__(self, "_matrix", _with_derivatives(matrix, self.model.metric.matrix_at))

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """H(q), (nv, nv)."""
        return self._matrix(q)  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class RecursiveConnection(ConnectionOfMetric):
    """The Levi-Civita connection of a robot by recursion.

    Parameters
    ----------
    model : the robot.

    Attributes
    ----------
    metric : its metric, a `RecursiveMetric`.

    Notes
    -----
    ``model.recursive_connection`` is made once and keeps what was compiled for it.

    Source: [W] Algorithms 1 and 2.
    """

    model: Model

    def __post_init__(self) -> None:
        model, recursion = self.model, _operations(self.model)
        definition = model.connection
        operations = {
            "frame": model.frame,
            "metric": RecursiveMetric(model),
            "_coefficients": _with_derivatives(recursion.coefficients, definition.coefficients_at),
            "_apply": _with_derivatives(recursion.apply, definition.apply_at),
            "_lowered": _with_derivatives(
                recursion.lowered, lambda q, v, w: definition.lowered_at(model.metric, q, v, w)
            ),
        }
        for name, value in operations.items():
            object.__setattr__(self, name, value)

    def coefficients_at(self, q: jax.Array) -> jax.Array:
        """H^-1 Gamma_low, (nv, nv, nv)."""
        return self._coefficients(q)  # type: ignore[attr-defined]

    def apply_at(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """H^-1 C(q, v) w, (nv,); in O(N) for a tree, where neither C nor H is formed."""
        return self._apply(q, v, w)  # type: ignore[attr-defined]

    def lowered_at(self, metric: Metric, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """C(q, v) w, (nv,), where `metric` is the robot's own."""
        if metric is self.metric or metric is self.model.metric:
            return self._lowered(q, v, w)  # type: ignore[attr-defined]
        return super().lowered_at(metric, q, v, w)

    def scale_at(self, q: jax.Array) -> jax.Array:
        """That of the definition."""
        return self.model.connection.scale_at(q)

    def valid_at(self, q: jax.Array) -> jax.Array:
        """The metric is valid."""
        return self.metric.valid_at(q)

    def explain(self, q: Any) -> None:
        """The metric's error."""
        self.metric.explain(q)


class _Operations:
    """The recursions of a tree without gravity as traced functions of one configuration."""

    def __init__(self, model: Model) -> None:
        self._model, self._n = model, model.nv

    @cached_property
    def _tree(self) -> tuple[np.ndarray, int]:
        """The tree as one array, and the size of it and a workspace."""
        from connections.multibody.recursions.layout import pack  # imports Numba

        kinematics = cast("Kinematics", self._model.kinematics)
        return pack(kinematics, (0.0, 0.0, 0.0)), len(self._model.program.memory)

    def mass_matrix(self, q: jax.Array) -> jax.Array:
        """H(q)."""
        return self._call("mass_matrix", 2, q)

    def coefficients(self, q: jax.Array) -> jax.Array:
        """H^-1 Gamma_low."""
        return raise_first_index(self.mass_matrix(q), self._call("christoffel_symbols", 3, q))

    def lowered(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """C(q, v) w."""
        return self._call("coriolis_product", 1, q, v, w)

    def apply(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """The acceleration that the force C(q, v) w causes at rest and without gravity."""
        return self._call("forward_dynamics", 1, q, jnp.zeros_like(v), self.lowered(q, v, w))

    def _call(self, name: str, axes: int, *vectors: jax.Array) -> jax.Array:
        from connections.multibody.recursions.xla import operation  # imports Numba

        numbers = tuple(jnp.asarray(vector, dtype=jnp.float64) for vector in vectors)
        return operation(name, (self._n,) * axes, numbers, *self._tree)


class _ClosedOperations:
    """The recursions of a closed chain as traced functions of one configuration."""

    def __init__(self, model: Model) -> None:
        self._kinematics = cast("ClosedKinematics", model.kinematics)
        self._program = cast("ClosedProgram", model.program)

    @cached_property
    def _arrays(self) -> tuple[np.ndarray, int, tuple[np.ndarray, np.ndarray]]:
        """The spanning tree as one array, the size of it and a workspace, and the loops."""
        from connections.multibody.recursions.layout import pack  # imports Numba

        program = self._program
        tree = pack(self._kinematics.spanning, (0.0, 0.0, 0.0))
        return tree, len(program.memory), (program.closure.copy(), program.clusters)

    def mass_matrix(self, q: jax.Array) -> jax.Array:
        """H(q)."""
        return self._call("closed_mass_matrix", 2, self._argument(q))

    def coefficients(self, q: jax.Array) -> jax.Array:
        """H^-1 Gamma_low."""
        q = self._argument(q)
        Gamma_low = self._call("closed_christoffel_symbols", 3, q)
        return raise_first_index(self._call("closed_mass_matrix", 2, q), Gamma_low)

    def lowered(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """C(q, v) w."""
        return self._call("closed_coriolis_matrix", 2, self._argument(q), v) @ w

    def apply(self, q: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        """H^-1 C(q, v) w."""
        q = self._argument(q)
        force = self._call("closed_coriolis_matrix", 2, q, v) @ w
        factor = jax.scipy.linalg.cho_factor(self._call("closed_mass_matrix", 2, q))
        return jax.scipy.linalg.cho_solve(factor, force)

    def _argument(self, q: jax.Array) -> jax.Array:
        """q, or the loops' solution there, by the definition where compiled code cannot solve them."""
        from connections.multibody.recursions.xla import operation  # imports Numba

        if self._program.linear:
            return q
        if not self._program.solvable:
            return self._program.definition.packed_solution_at(q)
        closure = self._arrays[2][0]
        vectors = (jnp.asarray(q, dtype=jnp.float64), jnp.asarray(self._kinematics.reference))
        return operation("closure", (self._program.size,), vectors, closure, len(closure))

    def _call(self, name: str, axes: int, *vectors: jax.Array) -> jax.Array:
        from connections.multibody.recursions.xla import operation  # imports Numba

        numbers = tuple(jnp.asarray(vector, dtype=jnp.float64) for vector in vectors)
        return operation(name, (self._program.n,) * axes, numbers, *self._arrays)


def _operations(model: Model) -> _Operations | _ClosedOperations:
    return _ClosedOperations(model) if model.closed else _Operations(model)


def _with_derivatives(
    recursion: Callable[..., jax.Array], definition: Callable[..., jax.Array]
) -> Callable[..., jax.Array]:
    """The recursion's value and the definition's derivatives."""

    @jax.custom_jvp
    def value(*arguments: jax.Array) -> jax.Array:
        return jax.lax.platform_dependent(*arguments, cpu=recursion, default=definition)

    @value.defjvp
    def value_and_derivative(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
        return value(*primals), jax.jvp(definition, primals, tangents)[1]

    return value
