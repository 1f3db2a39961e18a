"""Product manifolds: frames and metrics of independent factors."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike
from connections.checks import ShapeError, as_array, require_each
from connections.geometry.frames import FrameField
from connections.geometry.metrics import Metric


@dataclass(frozen=True)
class ProductFrame(FrameField):
    """The frame of a product manifold: coordinates and components are those of the factors, in order.

    Parameters
    ----------
    frames : the factors' frames.

    Examples
    --------
    >>> import connections as cn
    >>> frame = cn.ProductFrame(cn.SO3Frame(), cn.CoordinateFrame(2))
    >>> frame.dim, frame.ambient_dim
    (5, 6)
    >>> frame.matrix([0.0, 0.0, 0.0, 1.0, 5.0, 6.0]).shape
    (6, 5)
    """

    frames: tuple[FrameField, ...]

    def __init__(self, *frames: FrameField) -> None:
        if not frames:
            raise ShapeError("frames", "at least one frame", "none")
        require_each("frames", frames, FrameField, "ProductFrame(a, b)")
        object.__setattr__(self, "frames", frames)

    @property
    def dim(self) -> int:  # type: ignore[override]
        """Sum of the factors' n."""
        return sum(frame.dim for frame in self.frames)

    @property
    def ambient_dim(self) -> int:  # type: ignore[override]
        """Sum of the factors' nq."""
        return sum(frame.ambient_dim for frame in self.frames)

    @property
    def angles(self) -> tuple[int, ...]:
        """The factors' angles."""
        starts = np.cumsum([0, *(frame.ambient_dim for frame in self.frames)])
        pairs = zip(starts, self.frames, strict=False)
        return tuple(int(start) + angle for start, frame in pairs for angle in frame.angles)

    @property
    def periods(self) -> tuple[float | None, ...]:
        """The factors' periods."""
        return tuple(period for frame in self.frames for period in frame.periods)

    def split_point(self, q: jax.Array) -> list[jax.Array]:
        """The factors' coordinates out of q (..., nq)."""
        q = q if isinstance(q, jax.core.Tracer) else as_array("q", q, (self.ambient_dim,))
        return split(q, [frame.ambient_dim for frame in self.frames])

    def split_vector(self, v: jax.Array) -> list[jax.Array]:
        """The factors' components out of v (..., n)."""
        v = v if isinstance(v, jax.core.Tracer) else as_array("v", v, (self.dim,))
        return split(v, [frame.dim for frame in self.frames])

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """The frame field's matrix, block diagonal, (nq, n)."""
        return block_diagonal([_diagonal(stack) for stack in self._mapped("matrix_at", q)])

    def dual_at(self, q: jax.Array) -> jax.Array:
        """The dual, block diagonal, (n, nq)."""
        return block_diagonal([_diagonal(stack) for stack in self._mapped("dual_at", q)])

    def velocity_at(self, q: jax.Array, q_dot: jax.Array) -> jax.Array:
        """The factors' velocities, joined, (n,)."""
        return _joined(self._mapped("velocity_at", q, points=(q_dot,)))

    def structure_functions_at(self, q: jax.Array) -> jax.Array:
        """Fields of different factors commute, so s is block diagonal in all three indices."""
        return self._blocks("structure_functions_at", q)

    def structure_terms_at(self, q: jax.Array) -> jax.Array:
        """The terms' sizes (n, n, n), block diagonal in all three indices."""
        return self._blocks("structure_terms_at", q)

    def _blocks(self, name: str, q: jax.Array) -> jax.Array:
        """Arrays (n, n, n) of the factors, block diagonal in all three indices."""
        s, start = jnp.zeros((self.dim,) * 3), 0
        for stack in self._mapped(name, q):
            count, n = stack.shape[:2]
            index = start + np.arange(count * n).reshape(count, n)
            s = s.at[index[:, :, None, None], index[:, None, :, None], index[:, None, None, :]].set(stack)
            start += count * n
        return s

    def project_at(self, q: jax.Array) -> jax.Array:
        """The factors' nearest points, joined, (nq,)."""
        return _joined(self._mapped("project_at", q))

    def sample_at(self, x: jax.Array) -> jax.Array:
        """The factors' points made of numbers x, joined, (nq,)."""
        return _joined(self._mapped("sample_at", x))

    def align_at(self, q: jax.Array, reference: jax.Array) -> jax.Array:
        """The factors' representatives nearest to the reference, joined, (nq,)."""
        return _joined(self._mapped("align_at", q, points=(reference,)))

    def retract_at(self, q: jax.Array, xi: jax.Array) -> jax.Array:
        """The factors' retractions, joined, (nq,)."""
        return _joined(self._mapped("retract_at", q, vectors=(xi,)))

    def near_at(self, q: jax.Array) -> jax.Array:
        """All factors near."""
        return jnp.all(_joined(self._mapped("near_at", q)))

    def require_near(self, name: str, q: ArrayLike) -> np.ndarray:
        """The factors' points, or the error of the first that is not near."""
        return np.concatenate([frame.require_near(name, p) for frame, p in self._factors(np.asarray(q))])

    def valid_at(self, q: jax.Array) -> jax.Array:
        """All factors valid."""
        return jnp.all(_joined(self._mapped("valid_at", q)))

    def explain(self, q: ArrayLike) -> None:
        """The error of the first factor that is not valid."""
        for frame, p in self._factors(np.asarray(q)):
            frame.explain(p)

    def _mapped(
        self, name: str, q: jax.Array, points: tuple[Any, ...] = (), vectors: tuple[Any, ...] = ()
    ) -> list[jax.Array]:
        """Method `name` of all factors; equal neighbours are one `vmap`, so that N bodies are traced as one.

        Returns one array per run of equal factors; its first axis is the factors of the run.
        """
        stacks, q_start, v_start = [], 0, 0
        for frame, run in groupby(self.frames):
            count = len(list(run))
            q_end, v_end = q_start + count * frame.ambient_dim, v_start + count * frame.dim
            arguments = [p[q_start:q_end].reshape(count, -1) for p in (q, *points)]
            arguments += [x[v_start:v_end].reshape(count, -1) for x in vectors]
            stacks.append(jax.vmap(getattr(frame, name))(*arguments))
            q_start, v_start = q_end, v_end
        return stacks

    def _factors(self, q: Any) -> list[tuple[FrameField, Any]]:
        return list(zip(self.frames, self.split_point(q), strict=True))


@dataclass(frozen=True, eq=False, repr=False)
class ProductMetric(Metric):
    """The metric of a product manifold: block diagonal.

    Parameters
    ----------
    metrics : the factors' metrics.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> top = cn.ConstantMetric(cn.SO3Frame(), np.diag([1.0, 2.0, 3.0]))
    >>> rod = cn.ConstantMetric(cn.CoordinateFrame(1), [[4.0]])
    >>> np.diag(cn.ProductMetric(top, rod).matrix([0.0, 0.0, 0.0, 1.0, 0.2]))
    array([1., 2., 3., 4.])
    """

    metrics: tuple[Metric, ...]
    frame: ProductFrame

    def __init__(self, *metrics: Metric) -> None:
        require_each("metrics", metrics, Metric, "ProductMetric(a, b)")
        object.__setattr__(self, "metrics", metrics)
        object.__setattr__(self, "frame", ProductFrame(*(metric.frame for metric in metrics)))

    @property
    def signature(self) -> tuple[int, int] | None:
        """The sum of the factors' signatures."""
        negative = sum(metric.signature[1] for metric in self.metrics if metric.signature)
        return (self.frame.dim - negative, negative) if negative else None

    def matrix_at(self, q: jax.Array) -> jax.Array:
        """The matrix H, block diagonal, (n, n)."""
        points = self.frame.split_point(q)
        return block_diagonal([m.matrix_at(p) for m, p in zip(self.metrics, points, strict=True)])

    def sample_at(self, x: jax.Array) -> jax.Array:
        """The factors' points made of numbers x, joined, (nq,)."""
        parts = zip(self.metrics, self.frame.split_point(x), strict=True)
        return jnp.concatenate([metric.sample_at(part) for metric, part in parts])

    def rate_terms_at(self, q: jax.Array, w: jax.Array) -> jax.Array:
        """The terms' sizes (n, n), block diagonal."""
        parts = zip(self.metrics, self.frame.split_point(q), self.frame.split_vector(w), strict=True)
        return block_diagonal([metric.rate_terms_at(p, x) for metric, p, x in parts])


def _diagonal(stack: jax.Array) -> jax.Array:
    """Blocks stack (count, a, b) along the diagonal, (count a, count b)."""
    count, rows, columns = stack.shape
    each = np.arange(count)
    out = jnp.zeros((count, rows, count, columns)).at[each, :, each, :].set(stack)
    return out.reshape(count * rows, count * columns)


def _joined(stacks: list[jax.Array]) -> jax.Array:
    """All entries one after the other, (sum of sizes,)."""
    return jnp.concatenate([stack.reshape(-1) for stack in stacks])


def split(array: Any, sizes: list[int]) -> list[Any]:
    """`array` cut along its last axis into pieces of the given sizes."""
    ends = np.cumsum(sizes)
    return [array[..., end - size : end] for size, end in zip(sizes, ends, strict=True)]


def block_diagonal(blocks: list[jax.Array]) -> jax.Array:
    """Rectangular blocks along the diagonal, zeros elsewhere."""
    rows, columns = sum(b.shape[0] for b in blocks), sum(b.shape[1] for b in blocks)
    out, row, column = jnp.zeros((rows, columns)), 0, 0
    for block in blocks:
        out = out.at[row : row + block.shape[0], column : column + block.shape[1]].set(block)
        row, column = row + block.shape[0], column + block.shape[1]
    return out
