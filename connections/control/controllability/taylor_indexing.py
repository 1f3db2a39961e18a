"""Primitives that take and place entries of arrays, on Taylor coefficients ``(K, *shape)``.

A gather reads windows of the operand that begin where an index array says; a scatter writes such windows.
Both come down to the places, in the flattened operand, of the entries of all windows. Indices are constants.
Source: OpenXLA, operation semantics of Gather, Scatter, DynamicSlice, DynamicUpdateSlice and Pad.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from connections.control.controllability.taylor import TaylorAlgebra

Array = np.ndarray[Any, Any]


class _Windows(NamedTuple):
    """Where windows lie: axes of the operand, unless said otherwise."""

    offsets: tuple[int, ...]
    """Axes of the result along which the windows extend."""
    collapsed: tuple[int, ...]
    """Axes along which a window has one entry, left out of the result."""
    starts: tuple[int, ...]
    """Axes along which the indices say where a window begins."""
    batched: tuple[int, ...]
    """Axes that run along with axes of the indices,"""
    batches: tuple[int, ...]
    """which are these."""
    sizes: tuple[int, ...]
    """Lengths of a window, one for each axis."""
    clip: bool
    """Whether windows out of bounds are moved inside."""


def padded(algebra: TaylorAlgebra, parts: Sequence[Array]) -> list[Array]:
    """All with as many coefficients, one if all are constants."""
    size = max(len(part) for part in parts)
    return [algebra.full(part) if size > 1 else part for part in parts]


def gather(algebra: TaylorAlgebra, params: dict[str, Any], a: Array, indices: Array) -> Array:
    """Windows of `a`; NaN if one is out of bounds and the mode fills."""
    n = params["dimension_numbers"]
    windows = _Windows(
        tuple(n.offset_dims),
        tuple(n.collapsed_slice_dims),
        tuple(n.start_index_map),
        tuple(n.operand_batching_dims),
        tuple(n.start_indices_batching_dims),
        tuple(params["slice_sizes"]),
        "CLIP" in str(params["mode"]),
    )
    places, inside = _places(a.shape[1:], indices[0], windows)
    out = a.reshape(len(a), -1)[:, places]
    return out if inside.all() else np.where(inside, out, np.nan)


def scatter(
    algebra: TaylorAlgebra, params: dict[str, Any], a: Array, indices: Array, updates: Array
) -> Array:
    """`a` with windows replaced by `updates`; those out of bounds are dropped."""
    a, updates, places, inside = _scattered(algebra, params, a, indices, updates)
    flat = a.reshape(len(a), -1).copy()
    flat[:, places[inside]] = updates[:, inside]
    return flat.reshape(a.shape)


def scatter_add(
    algebra: TaylorAlgebra, params: dict[str, Any], a: Array, indices: Array, updates: Array
) -> Array:
    """`a` with `updates` added to windows."""
    a, updates, places, inside = _scattered(algebra, params, a, indices, updates)
    flat = a.reshape(len(a), -1).copy()
    for row, update in zip(flat, updates[:, inside], strict=True):
        np.add.at(row, places[inside], update)
    return flat.reshape(a.shape)


def dynamic_slice(algebra: TaylorAlgebra, params: dict[str, Any], a: Array, *starts: Array) -> Array:
    """The part of `a` of the given sizes that begins at `starts`, moved inside the bounds."""
    return a[(slice(None), *_window(a.shape[1:], params["slice_sizes"], starts))]


def dynamic_update_slice(
    algebra: TaylorAlgebra, params: dict[str, Any], a: Array, update: Array, *starts: Array
) -> Array:
    """`a` with the part that begins at `starts` replaced."""
    a, update = padded(algebra, (a, update))
    out = a.copy()
    out[(slice(None), *_window(a.shape[1:], update.shape[1:], starts))] = update
    return out


def pad(algebra: TaylorAlgebra, params: dict[str, Any], a: Array, filling: Array) -> Array:
    """`a` with entries before, after and between its own; negative numbers before and after cut it."""
    a, filling = padded(algebra, (a, filling))
    sizes, targets, sources = [], [], []
    for length, (low, high, between) in zip(a.shape[1:], params["padding_config"], strict=True):
        size = low + high + length + between * max(length - 1, 0)
        places = low + np.arange(length) * (between + 1)
        kept = (places >= 0) & (places < size)
        sizes.append(size)
        targets.append(places[kept])
        sources.append(np.flatnonzero(kept))
    out = np.empty((len(a), *sizes), a.dtype)
    out[...] = filling.reshape(len(filling), *(1,) * len(sizes))
    every = np.arange(len(a))
    out[np.ix_(every, *targets)] = a[np.ix_(every, *sources)]
    return out


def reverse(algebra: TaylorAlgebra, params: dict[str, Any], a: Array) -> Array:
    """`a` with axes reversed."""
    return np.flip(a, axis=tuple(int(axis) + 1 for axis in params["dimensions"]))


def cumulative_sum(algebra: TaylorAlgebra, params: dict[str, Any], a: Array) -> Array:
    """Sums of the entries so far along an axis, from its end if reversed."""
    axis = params["axis"] + 1
    if params["reverse"]:
        return np.flip(np.cumsum(np.flip(a, axis), axis), axis)
    return np.cumsum(a, axis)


def _window(shape: Sequence[int], sizes: Sequence[int], starts: Sequence[Array]) -> list[slice]:
    begins = [int(np.clip(s[0], 0, n - size)) for s, n, size in zip(starts, shape, sizes, strict=True)]
    return [slice(begin, begin + size) for begin, size in zip(begins, sizes, strict=True)]


def _scattered(
    algebra: TaylorAlgebra, params: dict[str, Any], a: Array, indices: Array, updates: Array
) -> tuple[Array, Array, Array, Array]:
    """Operand and updates of the same degree, the places that the updates go to, which of them exist."""
    n = params["dimension_numbers"]
    fixed = {*n.inserted_window_dims, *n.operand_batching_dims}
    lengths = iter(updates.shape[axis + 1] for axis in n.update_window_dims)
    windows = _Windows(
        tuple(n.update_window_dims),
        tuple(n.inserted_window_dims),
        tuple(n.scatter_dims_to_operand_dims),
        tuple(n.operand_batching_dims),
        tuple(n.scatter_indices_batching_dims),
        tuple(1 if axis in fixed else next(lengths) for axis in range(a.ndim - 1)),
        "CLIP" in str(params["mode"]),
    )
    places, inside = _places(a.shape[1:], indices[0], windows)
    a, updates = padded(algebra, (a, updates))
    return a, updates, places, inside


def _places(shape: tuple[int, ...], indices: Array, windows: _Windows) -> tuple[Array, Array]:
    """Flat places in an array of `shape` of the entries of all windows, and whether the window is inside."""
    rank = indices.ndim - 1 + len(windows.offsets)
    outer = [axis for axis in range(rank) if axis not in windows.offsets]  # where the axes of `indices` go
    offsets = iter(windows.offsets)
    full = [1] * rank
    total, inside = np.zeros(full, dtype=int), np.ones(full, dtype=bool)

    def spread(values: Array, axes: Sequence[int]) -> Array:
        wide = [1] * rank
        for axis, length in zip(axes, values.shape, strict=True):
            wide[axis] = full[axis] = length
        return values.reshape(wide)

    spread(np.zeros(indices.shape[:-1]), outer)
    for axis, length in enumerate(shape):
        size, place = windows.sizes[axis], np.zeros((), dtype=int)
        if axis in windows.starts:
            start = spread(indices[..., windows.starts.index(axis)].astype(int), outer)
            if not windows.clip:
                inside = inside & (start >= 0) & (start <= length - size)
            place = np.clip(start, 0, length - size)
        elif axis in windows.batched:
            along = windows.batches[windows.batched.index(axis)]
            place = spread(np.arange(indices.shape[along]), [outer[along]])
        if axis not in windows.collapsed and axis not in windows.batched:
            place = place + spread(np.arange(size), [next(offsets)])
        total = total * length + place
    return np.broadcast_to(total, full), np.broadcast_to(inside, full)


INDEXING: dict[str, Callable[..., Any]] = {
    "gather": gather,
    "scatter": scatter,
    "scatter-add": scatter_add,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
    "pad": pad,
    "rev": reverse,
    "cumsum": cumulative_sum,
}
"""Names of JAX primitives -> rules as in `primitives`."""
