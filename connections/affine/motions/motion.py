"""The result of `geodesic`, every `simulate` and every closed loop: q and v at times, and further fields.

A `Motion` is read by names, ``motion.q``, and unpacks as the pair ``q, v = motion``. Some functions return a
subclass with more fields. This module has their text, their figure, and their registration as pytrees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform

import jax
import numpy as np

from connections._figures import figure_of
from connections._jax import Array
from connections.checks import html_table, is_traced
from connections.evaluation.describing import IN_TABLE, cut_to_width, short_text

AnyMotion = TypeVar("AnyMotion", bound="Motion")


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(field,))
def motion_class(cls: type[AnyMotion]) -> type[AnyMotion]:
    """Make a frozen dataclass that is a pytree of JAX; its fields are arrays or None.

    Parameters
    ----------
    cls : `Motion`, or a subclass of it.
    """
    made = dataclass(frozen=True, eq=False, repr=False)(cls)
    jax.tree_util.register_dataclass(made, [part.name for part in fields(made)], [])
    return made


@motion_class
class Motion:
    """Configurations and velocities at T times; the time axis comes after the batch axes.

    ``q, v = motion`` is the pair, and so are ``motion[0]`` and ``motion[1]``.
    """

    times: Array
    """(T,), s."""
    q: Array
    """(..., T, nq) configurations, points on the manifold."""
    v: Array
    """(..., T, n) velocities, frame components."""
    drift: Array | None = field(default=None, kw_only=True)
    """(..., T) relative change of what the motion conserves, <v, v> or the energy; None if it does not."""
    event_times: Any = field(default=None, kw_only=True)
    """Of each event the times (..., K), NaN where a motion of a batch has fewer; None without events."""
    event_states: Any = field(default=None, kw_only=True)
    """Of each event q (..., K, nq) and v (..., K, n) at these times."""
    estimate: Any = field(default=None, kw_only=True)
    """|q - q'| (..., T, nq) and |v - v'| (..., T, n), with q', v' by a hundredth of the tolerances."""

    PANELS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("q", "configuration q [rad, m]"),
        ("v", "velocity v [rad/s, m/s]"),
        ("drift", "relative drift of what is conserved"),
    )
    """Attributes that are drawn, and the titles of their panels."""
    COMPUTED: ClassVar[tuple[str, ...]] = ()
    """Properties that are shown beside the fields."""

    def __iter__(self) -> Iterator[Array]:
        """q, then v."""
        return iter((self.q, self.v))

    def __len__(self) -> int:
        """Two: q and v."""
        return 2

    def __getitem__(self, index: int) -> Array:
        """q at 0, v at 1."""
        return (self.q, self.v)[index]

    @property
    def batch(self) -> tuple[int, ...]:
        """The batch axes; () for one motion."""
        return tuple(np.shape(self.q)[:-2])

    def member(self: AnyMotion, *index: int) -> AnyMotion:
        """One motion of a batch.

        Parameters
        ----------
        index : one integer for each batch axis.

        Raises
        ------
        IndexError : the index is beyond the batch.
        """
        batch = self.batch
        if len(index) != len(batch) or not all(-n <= i < n for i, n in zip(index, batch, strict=True)):
            # JAX would clamp the index and return the last motion.
            raise IndexError(f"member: there is none at {index} in a batch {batch}")
        given = {part.name: getattr(self, part.name) for part in fields(self)}
        shared = {"times"} if np.ndim(self.times) == 1 else set()
        parts = {
            k: x if k in shared else jax.tree_util.tree_map(lambda a: a[index], x) for k, x in given.items()
        }
        return type(self)(**parts)

    def plot(self) -> Any:
        """A matplotlib Figure, a panel for each quantity over time."""
        return figure_of(self)

    def __repr__(self) -> str:
        if not self._is_numeric():
            parts = (f"{name} {short_text(getattr(self, name))}" for name in self._names())
            return cut_to_width(f"{type(self).__name__}: {', '.join(parts)}")
        names = ", ".join((*self._names(), *self.COMPUTED))
        lines = [self._heading(), f"  {self._summary()}", f"  {names}"]
        return "\n".join(map(cut_to_width, lines))

    def _repr_html_(self) -> str:
        numeric = self._is_numeric()
        names = (*self._names(), *self.COMPUTED * numeric)
        rows = [(name, short_text(getattr(self, name), IN_TABLE)) for name in names]
        if not numeric:
            return html_table(type(self).__name__, rows)
        return html_table(self._heading(), rows, notes=[self._summary()])

    # --- private -------------------------------------------------------------------------------------------

    def _is_numeric(self) -> bool:
        """Whether the fields are arrays with values; tracers and JAX's placeholders are not."""
        parts = [getattr(self, name) for name in self._names()]
        arrays = all(isinstance(part, np.ndarray | jax.Array) for part in parts)
        axes = np.ndim(self.times) > 0 and min(np.ndim(self.q), np.ndim(self.v)) > 1
        return arrays and axes and not is_traced(parts)

    def _heading(self) -> str:
        times, n, nq = np.asarray(self.times), np.shape(self.v)[-1], np.shape(self.q)[-1]
        span = f" from {times.flat[0]:.6g} s to {times.flat[-1]:.6g} s" if times.size else ""
        size = f"n = {n}" + f" in {nq} coordinates" * (nq != n)
        batch = f", batch {self.batch}" * bool(self.batch)
        return f"{type(self).__name__}, {size}, {times.shape[-1]} times{span}{batch}"

    def _summary(self) -> str:
        """The largest displacement and velocity, as text."""
        q = np.asarray(self.q)
        return f"largest |q - q(0)| {largest(q - q[..., :1, :])}, largest |v| {largest(self.v)}"

    def _names(self) -> list[str]:
        """The names of the fields that are not None."""
        found = [part.name for part in fields(self) if getattr(self, part.name) is not None]
        return [name for name in found if name not in _ABOUT]


_ABOUT = ("drift", "event_times", "event_states", "estimate")  # fields about the integration


def largest(values: Any) -> str:
    """The largest absolute value of an array, in three digits; NaN does not count."""
    size = np.abs(np.asarray(values))
    return (
        f"{np.max(size, initial=0.0, where=~np.isnan(size)):.3g}"  # a motion that an event ends is NaN after
    )
