"""The result of `geodesic`, every `simulate` and every closed loop: q and v at times, and further fields.

A `Motion` is read by names, ``motion.q``, and unpacks as the pair ``q, v = motion``. Some functions return a
subclass with more fields. This module has their text, their figure, and their registration as pytrees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np

from connections._figures import figure_of
from connections._jax import Array
from connections._labelled import xarray
from connections.affine.motions.series import Names, Panels, Series, Units, series_of
from connections.checks import (
    as_array,
    html_table,
    is_traced,
    require_finite,
    require_member,
    require_untraced,
)
from connections.evaluation.boundary import as_given
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

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> plane = cn.CoordinateFrame(2)
    >>> half_plane = cn.MatrixMetric(plane, lambda q: jnp.eye(2) / q[1] ** 2)
    >>> nabla = cn.LeviCivita(half_plane)
    >>> motion = cn.geodesic(nabla, [0.0, 1.0], [1.0, 0.0], [0.0, 0.5, 1.0])
    >>> q, v = motion
    >>> q.shape, v.shape
    ((3, 2), (3, 2))
    >>> motion.q[-1].round(4)
    array([0.7616, 0.6481])
    """

    times: Array
    """(T,), s."""
    q: Array
    """(..., T, nq) configurations, points on the manifold."""
    v: Array
    """(..., T, n) velocities, frame components."""
    drift: Array | None = field(default=None, kw_only=True)
    """(..., T) relative change of what the motion conserves, <v, v> or the energy; None if it does not."""
    work: Array | None = field(default=None, kw_only=True)
    """(..., T) work since the first time of what moves the constraints, J; None where nothing does."""
    event_times: Any = field(default=None, kw_only=True)
    """Times (..., K) of each event, s; NaN where a motion has fewer; None without `events`."""
    event_states: Any = field(default=None, kw_only=True)
    """(q (..., K, nq), v (..., K, n)) of each event, at these times."""
    estimate: Any = field(default=None, kw_only=True)
    """|q - q'| (..., T, nq) and |v - v'| (..., T, n), with q', v' by a hundredth of the tolerances."""

    PANELS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("q", "configuration q [rad, m]"),
        ("v", "velocity v [rad/s, m/s]"),
        ("drift", "relative drift of what is conserved"),
        ("work", "work of the moving constraints [J]"),
    )
    """Attributes that are drawn, and the titles of their panels."""
    COMPUTED: ClassVar[tuple[str, ...]] = ()
    """Properties that are shown beside the fields."""
    UNPACKED: ClassVar[tuple[str, ...]] = ("q", "v")
    """Fields as which it unpacks, and of which `at` has the values."""
    _follow: ClassVar[Any] = None  # of a motion that can be followed, its times and what `at` calls

    def __iter__(self) -> Iterator[Array]:
        """q, then v."""
        return (getattr(self, name) for name in self.UNPACKED)

    def __len__(self) -> int:
        """Two: q and v."""
        return len(self.UNPACKED)

    def __getitem__(self, index: int) -> Array:
        """q at 0, v at 1."""
        found: Array = tuple(self)[index]
        return found

    @property
    def batch(self) -> tuple[int, ...]:
        """The batch axes; () for one motion."""
        return tuple(np.shape(self.q)[:-2])

    def at(self, t: Any) -> tuple[Array, ...]:
        """q and v at any times between the first and the last one, followed anew with the same steps' errors.

        Between variational steps, h apart, they are those of a cubic: q(t) by Hermite's interpolation of q
        and qdot, projected on the manifold, with an error of O(h^4) beside the steps', and v its velocity,
        O(h^3). Within `jit`, `grad` and `vmap` a motion is followed where it is made, for known times.

        Parameters
        ----------
        t : (...,) times, s.

        Returns
        -------
        (batch..., ..., nq) and (batch..., ..., n); NaN where the motion has ended by an event. Of other
        fields, if the motion unpacks as these.

        Raises
        ------
        ValueError : a time is outside, or the motion cannot be followed: it was put together, read from a
        file, or has come out of JAX's transformations.
        IntegrationError, ShapeError, NonFiniteError.

        Examples
        --------
        >>> import jax.numpy as jnp
        >>> import connections as cn
        >>> half_plane = cn.MatrixMetric(cn.CoordinateFrame(2), lambda q: jnp.eye(2) / q[1] ** 2)
        >>> motion = cn.geodesic(cn.LeviCivita(half_plane), [0.0, 1.0], [1.0, 0.0], [0.0, 1.0])
        >>> q, v = motion.at(0.5)
        >>> q.round(4)
        array([0.4621, 0.8868])
        """
        if self._follow is None:
            raise ValueError("at: this motion cannot be followed; ask for these times when you make it")
        require_untraced(t=t)
        times, values_at = self._follow
        t = np.asarray(as_array("t", t, ()))
        require_finite("t", t)
        first, last = sorted((times[0] + 0.0, times[-1] + 0.0))  # not -0.0
        round_off = 4.0 * np.finfo(float).eps * max(abs(first), abs(last))
        if not ((t >= first - round_off) & (t <= last + round_off)).all():
            raise ValueError(
                f"t: expected times from {first:.12g} to {last:.12g} s, got {t.min():.12g} to {t.max():.12g}"
            )
        t = np.clip(t, first, last)
        asked, place = np.unique(np.append(t, times[0]), return_inverse=True)
        forward = times[-1] >= times[0]
        values = tuple(values_at(asked if forward else asked[::-1]))[: len(self)]
        place = (place if forward else len(asked) - 1 - place)[: t.size].reshape(t.shape)
        axis = len(self.batch)
        numpy: Any = jnp if is_traced(values) else np
        return tuple(as_given(numpy.take(numpy.asarray(a), place, axis), self.q) for a in values)

    def __getstate__(self) -> dict[str, Any]:
        """The fields: what follows a motion may hold functions that no pickle takes."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def member(self: AnyMotion, *index: int) -> AnyMotion:
        """One motion of a batch.

        Parameters
        ----------
        index : one integer for each batch axis.

        Raises
        ------
        IndexError : the index is beyond the batch.
        """
        require_member(index, self.batch)
        given = {part.name: getattr(self, part.name) for part in fields(self)}
        shared = {"times"} if np.ndim(self.times) == 1 else set()
        parts = {
            k: x if k in shared else jax.tree_util.tree_map(lambda a: a[index], x) for k, x in given.items()
        }
        made = type(self)(**parts)
        if self._follow is None:
            return made
        times, values_at = self._follow
        return followed_by(made, times, lambda t: [a[index] for a in tuple(values_at(t))])

    def series(self, names: Names = None, units: Units = None) -> dict[str, Series]:
        """All quantities over time by name, with words, units and names of components; those drawn are first.

        Parameters
        ----------
        names : of components: a list for every quantity that has as many, or lists by quantity.
        units : by quantity, in place of radians, metres and their rates; a list has one for each component.

        Raises
        ------
        ValueError : a name or unit is of no quantity, or there are not as many names as components.
        """
        parts = (*(part.name for part in fields(self)), *(name for name, _ in self.PANELS), *self.COMPUTED)
        arrays = {name: getattr(self, name) for name in dict.fromkeys(parts) if name not in _NO_SERIES}
        time = (*self.batch, np.shape(self.times)[-1])
        return series_of(arrays, dict(self.PANELS), time, names, units)

    def plot(
        self,
        panels: Panels = None,
        *,
        names: Names = None,
        units: Units = None,
        axes: Any = None,
        style: str | float = "screen",
        label: str | None = None,
    ) -> Any:
        """A matplotlib Figure, a panel for each quantity over time; ``figure.axes`` are its axes.

        Parameters
        ----------
        panels : what to draw: names of quantities, as ["q", "tau"], or with the components that are drawn,
            {"q": [0, 2], "tau": None}, in panels of their own, {"q": [[0], [1, 2]]}; None for the usual ones.
        names : of components, for the legends: a list for every quantity that has as many, or lists by
            quantity, {"q": ["x", "y"]}; TeX between dollars is set.
        units : by quantity, {"q": "rad"}, or by component, {"q": ["rad", "m"]}: components of another unit
            get another panel. "times" is the unit of the time.
        axes : the figure or the axes to draw on, one for each panel; that of another motion draws this one
            into the same panels, with other dashes; `panels` and `units` have to be the same.
        style : "screen"; "column" and "page" for a paper, 88 mm and 180 mm wide, with fonts of 8 points that
            stay text in PDF and SVG; or a width in mm.
        label : what the legend calls the motion, if there are several; of a batch, what is above its members.

        Returns
        -------
        figure : ``figure.savefig("name.pdf")`` writes it.

        Raises
        ------
        ValueError : a quantity, component, name, unit or style that does not exist; too few or many axes.

        Examples
        --------
        >>> import numpy as np
        >>> import connections as cn
        >>> t = np.linspace(0.0, 1.0, 5)
        >>> motion = cn.Motion(t, q=np.outer(t, [1.0, 2.0]), v=np.tile([1.0, 2.0], (5, 1)))
        >>> figure = motion.plot(["q"], names=["x", "y"], units={"q": "m"}, style="column")
        >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
        ['x', 'y']
        """
        return figure_of(self, panels=panels, names=names, units=units, axes=axes, style=style, label=label)

    def plot_phase(
        self,
        x: int | tuple[str, int] = 0,
        y: tuple[str, int] | None = None,
        *,
        names: Names = None,
        units: Units = None,
        axes: Any = None,
        style: str | float = "screen",
        label: str | None = None,
    ) -> Any:
        """A matplotlib Figure of the motion in the phase plane, or in the plane of any two components.

        The beginning has a dot. Members of a batch and motions that are drawn into one figure have colours.

        Parameters
        ----------
        x : what goes to the right: a component, ("q", 0), or an integer k for q_k.
        y : what goes up; the component of v that has the number of x, if None.
        names, units, axes, style, label : as for `plot`.

        Raises
        ------
        ValueError : as `plot`; there is no such component.

        Examples
        --------
        >>> import numpy as np
        >>> import connections as cn
        >>> t = np.linspace(0.0, 6.0, 61)[:, None]
        >>> motion = cn.Motion(t[:, 0], q=np.cos(t), v=-np.sin(t))
        >>> figure = motion.plot_phase(0, units={"q": "rad", "v": "rad/s"}, style="column")
        >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
        ('$q_{0}$ [rad]', '$v_{0}$ [rad/s]')
        """
        drawn: dict[str, Any] = {"names": names, "units": units, "axes": axes, "style": style, "label": label}
        return figure_of(self, kind="phase", x=x, y=y, **drawn)

    def plot_path(
        self,
        on: Callable[..., Any],
        span: Sequence[Sequence[float]] | None = None,
        *,
        view: tuple[float, float] = (25.0, -60.0),
        axes: Any = None,
        style: str | float = "screen",
        label: str | None = None,
    ) -> Any:
        """A matplotlib Figure of the path in space, and of the surface where it is if q has two components.

        What the surface hides is drawn faint. The axes are in the plane of the picture, in units of the
        embedding. Another motion that is drawn into them has the same surface and view.

        Parameters
        ----------
        on : the embedding, q (nq,) -> point (3,), JAX-traceable, as that of a `PullbackMetric`.
        span : ((a, b), (c, d)), the coordinates whose surface is drawn; by default those of the motion, and
            an eighth more on each side.
        view : the camera's height over the horizon, and its direction around the third axis, degrees.
        axes, style, label : as for `plot`.

        Raises
        ------
        ValueError : a span of other coordinates than two; axes of another kind of figure.
        ShapeError : the embedding does not return (3,). TypeError : it computes by NumPy.
        NonFiniteError : it has no point there; `span` leaves out a part of the surface.

        Examples
        --------
        >>> import numpy as np
        >>> import connections as cn
        >>> from jax import numpy as jnp
        >>> def sphere(q):
        ...     x, y = jnp.cos(q[1]), jnp.sin(q[1])
        ...     return jnp.stack([jnp.sin(q[0]) * x, jnp.sin(q[0]) * y, jnp.cos(q[0])])
        >>> nabla = cn.LeviCivita(cn.PullbackMetric(cn.CoordinateFrame(2), sphere))
        >>> motion = cn.geodesic(nabla, [1.5, 0.0], [0.5, 1.0], np.linspace(0.0, 6.0, 61))
        >>> figure = motion.plot_path(sphere, ((0.0, np.pi), (0.0, 2 * np.pi)), style="column")
        """
        drawn: dict[str, Any] = {"view": view, "axes": axes, "style": style, "label": label}
        return figure_of(self, kind="path", on=on, span=span, **drawn)

    def to_xarray(self, names: Names = None, units: Units = None) -> Any:
        """An `xarray.Dataset` with a variable for each quantity over time.

        Its axes are the batch, ``member`` (``member_0``, ``member_1``, ... if there are several), then
        ``time``, then components, ``q_component``, with their names. Attributes ``units`` and ``long_name``
        are those of the panels. A sweep's betas are coordinates of its members, and
        scalar ones of a single member. Needs the extra xarray.

        Parameters
        ----------
        names, units : as in `plot`.

        Raises
        ------
        ImportError : xarray is not installed; the message has the command.
        ValueError : as `plot`.

        Examples
        --------
        >>> import numpy as np
        >>> import connections as cn
        >>> t = np.linspace(0.0, 1.0, 5)
        >>> motion = cn.Motion(t, q=np.outer(t, [1.0, 2.0]), v=np.tile([1.0, 2.0], (5, 1)))
        >>> data = motion.to_xarray(names=["x", "y"])
        >>> float(data.q.sel(q_component="y", time=0.5))
        1.0
        """
        data = {}
        for name, part in self.series(names, units).items():
            dims = (*self._members, "time", f"{name}_component")[: part.values.ndim]
            unit = part.unit if isinstance(part.unit, str) else ", ".join(part.unit)
            about = {"units": unit, "long_name": part.title}
            data[name] = (dims, part.values, {key: text for key, text in about.items() if text})
        return xarray().Dataset(data, self._coordinates(names, units))

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

    @property
    def _members(self) -> tuple[str, ...]:
        """Names of the batch axes."""
        axes = len(self.batch)
        return ("member",) if axes == 1 else tuple(f"member_{axis}" for axis in range(axes))

    def _coordinates(self, names: Names, units: Units) -> dict[str, Any]:
        """Coordinates of the axes: times, names of components, betas of a sweep."""
        times, about = np.asarray(self.times), {"units": (units or {}).get("times", "s")}
        # `jax.vmap` gives each member times of its own
        found: dict[str, Any] = {"time": ("time", times, about)}
        if times.ndim > 1:
            found = {"times": ((*self._members, "time"), times, about)}
        for name, part in self.series(names, units).items():
            if part.components is not None:
                found[f"{name}_component"] = list(part.components)
        betas = getattr(self, "betas", None)
        if betas is not None:
            for k, column in enumerate(np.moveaxis(np.asarray(betas), -1, 0)):
                found["beta" if np.shape(betas)[-1] == 1 else f"beta_{k}"] = (self._members, column)
        return found

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


def followed_by(motion: AnyMotion, times: Any, values_at: Callable[[Any], Any]) -> AnyMotion:
    """The motion, with its times, and the function of times from the first one, by which `at` follows it."""
    if not is_traced(times):
        object.__setattr__(motion, "_follow", (np.array(times), values_at))
    return motion


_NO_SERIES = ("times", "event_times", "event_states", "estimate", "betas")
_ABOUT = ("drift", "event_times", "event_states", "estimate")  # fields about the integration


def largest(values: Any) -> str:
    """The largest absolute value of an array, in three digits; NaN does not count."""
    size = np.abs(np.asarray(values))
    return (
        f"{np.max(size, initial=0.0, where=~np.isnan(size)):.3g}"  # a motion that an event ends is NaN after
    )
