"""The base of all closed loops: their motions, by one flow of plant, reference and further states."""

from __future__ import annotations

import abc
from typing import Any

import jax

from connections._jax import ArrayLike
from connections.affine.motions.flow import Flow, Trajectories
from connections.control.laws.references import Reference
from connections.coriolis import MechanicalSystem
from connections.coriolis.system import terms_beside
from connections.evaluation.boundary import Argument
from connections.evaluation.parameters import Parametrized, PytreePartial
from connections.geometry import FrameField
from connections.integration.solver import Options, Solver


class ControlLoop(Parametrized, abc.ABC):
    """A plant under a law that follows a reference."""

    plant: MechanicalSystem
    reference: Reference

    @abc.abstractmethod
    def _start_at(self, *given: jax.Array) -> tuple[Any, ...]:
        """The state of the flow at the start, q first, of q0, v0 and further arguments."""

    @abc.abstractmethod
    def _rate_at(self, t: jax.Array, y: tuple[Any, ...], *given: jax.Array) -> tuple[Any, ...]:
        """The rate of the state."""

    @abc.abstractmethod
    def _entry_at(self, t: jax.Array, y: tuple[Any, ...], *given: jax.Array) -> tuple[Any, Any, Any]:
        """(record of the motion, q, whether it is valid) at one time."""

    @abc.abstractmethod
    def _units_at(
        self, t0: jax.Array, s: jax.Array, y: tuple[Any, ...], *given: jax.Array
    ) -> tuple[Any, ...]:
        """The units of the components of the state."""

    @property
    def frame(self) -> FrameField:
        """The frame of plant, controller and reference."""
        return self.plant.frame

    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether the plant is defined at q; one boolean."""
        return self.plant.valid_at(q)

    def explain(self, q: ArrayLike) -> None:
        """Raise the error of the plant for a point that is not valid."""
        self.plant.explain(q)

    def _motion(self, q0: Any, v0: Any, times: Any, options: Options, *more: Argument) -> Any:
        start = Argument("q0", q0, (self.frame.ambient_dim,)), Argument("v0", v0, (self.frame.dim,)), *more
        self.reference.require_times("times", times)
        solver = Solver.of("simulate", options)
        return Trajectories.of(self).motion("simulate", PytreePartial(self._flow), start, times, solver)

    def _flow(self) -> Flow[Any]:
        return Flow(
            self._start_at,
            self._rate_at,
            self._entry_at,
            self._units_at,
            project=lambda y: (self.frame.project_at(y[0]), *y[1:]),
            timed=True,
            terms=self._terms_at,
        )

    def _terms_at(self, t: jax.Array, y: tuple[Any, ...], *given: jax.Array) -> tuple[Any, ...]:
        """Sums of the sizes of the terms of the state's rate: the plant without the law, and the rest."""
        rate = self._rate_at(t, y, *given)
        return terms_beside(self.plant, t, y, rate)
