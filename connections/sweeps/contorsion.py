"""Exploration of the contorsion family: effects of torsion on tracking, over many initial states and robots.

Without robots, the paper's point mass with C = beta (v x), beta in kg/m, from random initial states; robots
move as `tracking` says, with C_gamma = C* + gamma (C_x - C*).
Source: [W] IV-A2 and eq. (12), (13); [E] eq. (11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from connections.checks import (
    as_array,
    require_choice,
    require_finite,
    require_items,
    require_names,
    require_type,
)
from connections.control.tracking_example import FAMILIES, MEASURES, START, START_VELOCITY, explore
from connections.multibody import Model
from connections.sweeps.errors import SweepError
from connections.sweeps.store import Store
from connections.sweeps.sweep import Chunk, Output, Sweep, whole
from connections.sweeps.tracking import ROBOT_MEASURES, Motions, Tracking


def contorsion_sweep(
    gammas: Sequence[float],
    starts: int,
    *,
    robots: Sequence[Model] = (),
    names: Sequence[str] = (),
    tracking: Tracking | None = None,
    chunk: int | None = None,
    seed: int = 0,
    family: str = "contorsion",
) -> Sweep:
    """The tracking error, the effort and the frequencies of motions: gammas x initial states x robots.

    Parameters
    ----------
    gammas : the gains of torsion, gamma, or, without robots, of the point mass's beta, kg/m.
    starts : number of random initial states; each is combined with every gamma.
    robots : trees whose joints have v = qdot (none free or spherical); the paper's point mass if empty.
    names : of the robots; numbered if empty.
    tracking : the motion of the robots; its horizon also holds for the point mass (10 s if None).
    chunk : motions per chunk; those of ten initial states if None.
    seed : of the initial states and of the phases of the references.
    family : "contorsion"; of the point mass also "weyl" or "statistical", of which gamma is the factor of the
        form or of the cubic form (`tracking_example.tracking_loop`).

    The rows are motions; gamma changes fastest, then the initial state, then the robot. The store has
    ``robot`` (a number), ``start``, ``gamma`` and the measures, which are NaN if a motion runs away. The law
    keeps s bounded for every gamma. A motion runs away only if the integrator's step is too long for the
    frequencies that torsion causes.

    Raises
    ------
    SweepError : no gammas, a robot of another kind, or no such family.
    NonFiniteError : a gamma is not finite.

    Examples
    --------
    >>> from connections import sweeps
    >>> sweep = sweeps.contorsion_sweep([0.0, -5.0], starts=100)
    >>> sweep.rows, sweep.chunk
    (200, 20)
    >>> list(sweep.outputs)
    ['robot', 'start', 'gamma', 'rms_error', 'final_error', 'effort', ...]
    """
    values = as_array("gammas", gammas, (None,))
    if values.ndim != 1 or not values.size:
        raise SweepError(f"gammas: expected a list of numbers, got the shape {values.shape}")
    robots = require_items("robots", robots, Model, "models")
    require_finite("gammas", values)
    starts = whole("starts", starts, 1)
    require_choice("family", family, FAMILIES, SweepError)
    if robots and family != FAMILIES[0]:
        raise SweepError(f"family: expected contorsion alone for robots; got {family!r}")
    if tracking is not None:
        require_type("tracking", tracking, Tracking)
    names = require_names("names", names) or tuple(f"robot {number}" for number in range(len(robots)))
    if len(names) != len(robots):
        raise SweepError(f"names: expected {len(robots)}, got {len(names)}")
    function: Any
    measures: tuple[str, ...]
    if robots:
        for name, model in zip(names, robots, strict=True):
            if model.closed or model.nq != model.nv:
                raise SweepError(f"{name}: expected a tree whose joints have v = qdot, got {model!r}")
        tracking = tracking or Tracking()
        function = _Robots(tuple(robots), values, starts, tracking)
        measures, about = ROBOT_MEASURES, {"robots": list(names), "tracking": vars(tracking)}
    else:
        horizon = tracking.horizon if tracking else 10.0
        function = _PointMass(values, starts, horizon, family)
        measures, about = (
            tuple(name for name in MEASURES if name != "beta"),
            {
                "robots": ["point mass"],
                "tracking": {"horizon": horizon},
            },
        )
    outputs = {"robot": Output(dtype="int64"), "start": Output(dtype="int64"), "gamma": Output()}
    return Sweep(
        name="contorsion",
        function=function,
        rows=max(1, len(robots)) * starts * values.size,
        outputs=outputs | {name: Output() for name in measures},
        chunk=10 * values.size if chunk is None else chunk,
        seed=seed,
        about=about
        | ({} if family == FAMILIES[0] else {"family": family})
        | {"gammas": values.tolist(), "starts": starts, "measures": list(measures)},
    )


def contorsion_summary(store: Store) -> list[dict[str, Any]]:
    """The mean of every measure over the initial states that did not run away, for every robot and gamma.

    Parameters
    ----------
    store : of a sweep that is finished.

    Examples
    --------
    >>> from connections import sweeps
    >>> sweep = sweeps.contorsion_sweep([0.0, -5.0], starts=2, tracking=sweeps.Tracking(horizon=1.0))
    >>> run = sweeps.run_sweep(sweep, "point_mass.zarr", workers=0)
    >>> means = sweeps.contorsion_summary(sweeps.Store("point_mass.zarr"))
    >>> [(mean["robot"], mean["gamma"], mean["motions"], mean["lost"]) for mean in means]
    [('point mass', 0.0, 2, 0), ('point mass', -5.0, 2, 0)]
    >>> means[0]["effort"] < means[1]["effort"]  # torsion costs effort
    True
    """
    require_type("store", store, Store)
    about = store.described["about"]
    robot, gamma = (np.asarray(store.arrays[name][:]) for name in ("robot", "gamma"))
    measures = {name: np.asarray(store.arrays[name][:]) for name in about["measures"]}
    rows = []
    for number, name in enumerate(about["robots"]):
        for value in about["gammas"]:
            those = (robot == number) & (gamma == value)
            good = those & np.isfinite(measures["rms_error"])
            means = {key: float(np.mean(x[good])) if good.any() else np.nan for key, x in measures.items()}
            lost = int(those.sum() - good.sum())
            rows.append({"robot": name, "gamma": value, "motions": int(those.sum()), "lost": lost} | means)
    return rows


@dataclass(frozen=True, eq=False)
class _Grid:
    """The gamma, initial state and robot of each row."""

    gammas: np.ndarray
    starts: int

    def rows(self, chunk: Chunk) -> dict[str, np.ndarray]:
        """Numbers of robots and initial states, and gammas, (rows,) each."""
        number = np.arange(chunk.start, chunk.stop)
        rest, column = np.divmod(number, self.gammas.size)
        robot, start = np.divmod(rest, self.starts)
        return {"robot": robot, "start": start, "gamma": self.gammas[column]}


@dataclass(frozen=True, eq=False)
class _PointMass(_Grid):
    """The function of `contorsion_sweep` for the paper's point mass."""

    horizon: float
    family: str

    def __call__(self, chunk: Chunk) -> dict[str, np.ndarray]:
        grid = self.rows(chunk)
        names = [name for name in MEASURES if name != "beta"]
        arrays = {name: np.empty(chunk.rows) for name in names}
        for start in np.unique(grid["start"]):
            rows = np.flatnonzero(grid["start"] == start)
            rng = chunk.rng_of(0, int(start))
            position, velocity = rng.normal(START, 0.5), rng.normal(START_VELOCITY, 0.5)
            gammas = grid["gamma"][rows].tolist()
            results = explore(gammas, self.horizon, position, velocity, self.family)
            for row, result in zip(rows, results, strict=True):
                for name in names:
                    arrays[name][row] = getattr(result, name)
        return grid | arrays


@dataclass(frozen=True, eq=False)
class _Robots:
    """The function of `contorsion_sweep` for robots."""

    models: tuple[Model, ...]
    gammas: np.ndarray
    starts: int
    tracking: Tracking

    def __call__(self, chunk: Chunk) -> dict[str, np.ndarray]:
        grid = _Grid(self.gammas, self.starts).rows(chunk)
        arrays = {name: np.empty(chunk.rows) for name in ROBOT_MEASURES}
        for number in np.unique(grid["robot"]):
            rows = np.flatnonzero(grid["robot"] == number)
            motions = self._motions[number]
            starts, own = np.unique(grid["start"][rows], return_inverse=True)
            drawn = [motions.start(chunk.rng_of(int(number), int(start))) for start in starts]
            q, v, phase = (np.stack(part)[own] for part in zip(*drawn, strict=True))
            for name, values in motions.measure(grid["gamma"][rows], q, v, phase).items():
                arrays[name][rows] = values
        return grid | arrays

    @cached_property
    def _motions(self) -> list[Motions]:
        return [Motions(model, self.tracking) for model in self.models]
