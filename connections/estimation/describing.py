"""Estimates, innovations and histories in words: one line each, and a table."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

import jax
import numpy as np

from connections.checks import is_traced
from connections.estimation.status import Status
from connections.evaluation.describing import cut_to_width

_FEW = 6  # deviations that a line shows
_ROW = "{:>5}{:>14}{:>14}{:>14}{:>14}"


def line_of_estimate(estimate: Any) -> str:
    """One estimate, or how many there are, with their times and deviations."""
    if not _is_numeric(estimate):
        return _unknown("Estimate", estimate)
    shape, k, failed = np.shape(estimate.t), np.shape(estimate.P)[-1], _failed(estimate.status)
    if shape:
        return cut_to_width(", ".join([f"Estimates {shape} of {k} errors{_span(estimate.t)}", *failed]))
    few = ", ".join(f"{size:.3g}" for size in estimate.deviations[:_FEW])
    known = (
        [] if failed and np.isnan(estimate.deviations).any() else [f"deviations {few}{', ...' * (k > _FEW)}"]
    )
    return cut_to_width(", ".join([f"Estimate of {k} errors at {float(estimate.t):.6g} s", *failed, *known]))


def line_of_sensor(sensor: Any) -> str:
    """One line of a sensor: what it measures, and its deviations."""
    N, what = sensor.N, "numbers" if sensor.connection is None else f"points in {sensor.connection.frame}"
    if callable(N) or not _is_numeric(N) or np.ndim(N) != 2:
        return cut_to_width(f"Sensor of {what}")
    few = ", ".join(f"{size:.3g}" for size in np.sqrt(np.diagonal(N))[:_FEW])
    return cut_to_width(f"Sensor of {what}, deviations {few}{', ...' * (len(N) > _FEW)}")


def line_of_innovation(innovation: Any) -> str:
    """NIS with its number of components, and whether the measurement was accepted."""
    if not _is_numeric(innovation):
        return _unknown("Innovation", innovation)
    if np.ndim(innovation.nis):
        return cut_to_width(f"Innovations {np.shape(innovation.nis)}: {_accepted(innovation)}")
    nis, count = float(innovation.nis), int(innovation.dimension)
    if failed := _failed(innovation.status):
        return f"Innovation of {count}, {failed[0]}"
    said = "accepted" if innovation.accepted else "refused" if count else "nothing measured"
    return f"Innovation: NIS {nis:.3g} of {count}, {said}"


def line_of_history(history: Any) -> str:
    """How many estimates, and when; NIS, a component."""
    if not _is_numeric(history):
        return _unknown("History", history)
    return cut_to_width(_words_of_history(history))


def table_of_history(history: Any) -> str:
    """Deviations of each error at the beginning, the least, the largest, at the end; NIS and its bounds.

    Those of several runs are root mean squares. What failed is left out, and counted.
    """
    from scipy.stats import chi2

    if not _is_numeric(history) or not np.size(history.estimate.t):
        return line_of_history(history)
    k = np.shape(history.estimate.P)[-1]
    deviations = history.estimate.deviations.reshape(-1, np.shape(history.estimate.t)[-1], k)
    known = np.isfinite(deviations)
    count = np.sum(known, axis=0)
    size = np.sqrt(np.sum(np.where(known, deviations, 0.0) ** 2, axis=0) / np.where(count, count, np.nan))
    t, said = np.asarray(history.estimate.t), history.innovation
    begin, end = (f"at {time} s" for time in _told_apart(t[..., 0].min(), t[..., -1].max(), 5))
    lines = [*wrap(_words_of_history(history), 79), "", _ROW.format("error", begin, "least", "largest", end)]
    least, most = np.fmin.reduce(size), np.fmax.reduce(size)
    for number, row in enumerate(zip(size[0], least, most, size[-1], strict=True)):
        lines.append(_ROW.format(number, *("failed" if np.isnan(value) else f"{value:.3g}" for value in row)))
    total, count = _nis(said)
    if count:
        low, high = (chi2.ppf(tail, count) / count for tail in (0.025, 0.975))
        mean = total / count
        lines += [
            "",
            f"NIS {mean:.3g} a component; 95 of 100 consistent runs have {low:.3g} to {high:.3g}",
        ]
    return "\n".join(map(cut_to_width, lines))


def words_of_failures(counts: dict[Any, int]) -> str:
    """How often what happened, by its code."""
    return ", ".join(f"{count} {status.name}" for status, count in counts.items())


def _accepted(innovation: Any) -> str:
    measured, accepted = np.asarray(innovation.dimension) > 0, np.asarray(innovation.accepted)
    total, count = _nis(innovation)
    said = _failed(innovation.status)
    if not measured.any():
        return ", ".join([*said, "nothing measured"])
    said += [f"NIS {total / count:.3g}"] if count else ["no NIS"]
    return ", ".join([*said, f"{int(accepted.sum())} of {int(measured.sum())} accepted"])


def _nis(innovation: Any) -> tuple[float, int]:
    """The sum of NIS, and of how many components, of the updates that have one."""
    nis = np.asarray(innovation.nis)
    return float(np.nansum(nis)), int(np.sum(np.where(np.isnan(nis), 0, innovation.dimension)))


def _failed(status: Any) -> list[str]:
    """How many of these failed, and how; nothing if none did."""
    status = np.asarray(status)
    counts = {code: int(np.sum(status == code)) for code in Status if code.failed and (status == code).any()}
    if not counts:
        return []
    codes = next(iter(counts)).name if len(counts) == 1 else words_of_failures(counts)
    share = f"{sum(counts.values())} of {status.size} " if status.ndim else ""
    return [f"{share}failed: {codes}"]


def _words_of_history(history: Any) -> str:
    t = np.asarray(history.estimate.t)
    runs = f"{int(np.prod(t.shape[:-1]))} runs of " if t.ndim > 1 else ""
    return f"History of {runs}{t.shape[-1]} estimates{_span(t)}: {_accepted(history.innovation)}"


def _span(t: Any) -> str:
    t = np.asarray(t)
    return ", {} to {} s".format(*_told_apart(t.min(), t.max(), 6)) if t.size else ""


def _told_apart(first: float, last: float, digits: int) -> tuple[str, str]:
    """Two times in so many digits, or in more, if they are not told apart by these."""
    texts = f"{first:.{digits}g}", f"{last:.{digits}g}"
    return (f"{first:.12g}", f"{last:.12g}") if texts[0] == texts[1] and first != last else texts


def _is_numeric(thing: Any) -> bool:
    """Whether all are arrays with values; tracers and JAX's placeholders are not."""
    leaves = jax.tree_util.tree_leaves(thing)
    return (
        bool(leaves)
        and all(isinstance(a, np.ndarray | jax.Array | np.generic) for a in leaves)
        and (not is_traced(leaves))
    )


def _unknown(name: str, thing: Any) -> str:
    shapes = [getattr(a, "shape", None) for a in jax.tree_util.tree_leaves(thing)]
    return cut_to_width(f"{name}, traced, arrays {', '.join(map(str, shapes))}")
