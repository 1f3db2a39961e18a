"""Motions without their time: in the phase plane, and as paths in space, on the surface where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from connections.affine import Motion
from connections.affine.motions.series import Names, Series, Units, require_known
from connections.checks import (
    NonFiniteError,
    as_array,
    raise_at,
    require_finite,
    require_function,
    require_shape,
    require_text,
    require_type,
    require_whole,
)
from connections.evaluation.compilation import compiled
from connections.plots.canvas import (
    GREY,
    SCREEN,
    color,
    new_figure,
    paper_figure,
    settings_of,
    width_of,
)
from connections.plots.motions import (
    axis_label,
    given_axes,
    member_color,
    name_members,
    name_motion,
    with_events,
)

_MARK = "path"  # in a curve's gid
_SHARE, _TALL = 0.75, 90.0  # height of a figure, relative to its width, and the most for a paper, mm
_CELLS = 48  # of the surface in each direction
_LINES = 12  # of the coordinates, across the surface
_FINE = 8  # points of a path between two of the motion
_ABOVE = 1e-2  # of the surface's size, by which a path is above it
_FACES = "#e9edf3", "#c9d3e0"  # of the surface: towards the light, and away from it


def figure_phase(
    motion: Motion,
    x: int | tuple[str, int] = 0,
    y: tuple[str, int] | None = None,
    *,
    names: Names = None,
    units: Units = None,
    axes: Any = None,
    style: str | float = SCREEN,
    label: str | None = None,
) -> Figure:
    """A motion in the phase plane of a component and its velocity, or in the plane of any two components.

    Parameters
    ----------
    motion : as for `figure_motion`.
    x, y, names, units, axes, style, label : as `Motion.plot_phase`.

    Raises
    ------
    TypeError, ValueError : as `Motion.plot_phase`.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import plots, systems
    >>> sleigh = systems.chaplygin_sleigh().numeric()
    >>> motion = sleigh.simulate([0.0, 0.0, 0.0], [0.0, 2.0], np.linspace(0.0, 5.0, 26))
    >>> figure = plots.figure_phase(motion, ("q", 0), ("q", 1), units={"q": ["m", "m", "rad"]})
    >>> figure.axes[0].get_ylabel()
    'q_1 [m]'
    """
    require_type("motion", motion, Motion)
    known = motion.series(names, units)
    first = _component("x", ("q", x) if isinstance(x, int | np.integer) else x, known, motion)
    second = _component("y", ("v", first[1]) if y is None else y, known, motion)
    width, number = width_of(style), 0
    if axes is None:
        panel = _new_panel(width)
    else:
        (panel,) = given_axes(axes, 1)
        number = _drawn_before(panel)
    figure = _figure_of(panel)
    with settings_of(figure):
        for member in range(int(np.prod(motion.batch))):
            ends = (with_events(motion, part.name, member)[1][:, k] for part, k in (first, second))
            _draw(panel, np.stack([*ends], axis=1), motion, member, number)
        titled = width is None and axes is None
        if number == 0:
            panel.set_xlabel(axis_label(*first, titled))
            panel.set_ylabel(axis_label(*second, titled))
            panel.grid(alpha=0.25)
            if first[0].name == second[0].name and first[0].unit_of(first[1]) == second[0].unit_of(second[1]):
                panel.set_aspect("equal", adjustable="datalim")
        _name(figure, panel, motion, label, number)
    return figure


def figure_path(
    motion: Motion,
    on: Callable[..., Any],
    span: Sequence[Sequence[float]] | None = None,
    *,
    view: tuple[float, float] = (25.0, -60.0),
    axes: Any = None,
    style: str | float = SCREEN,
    label: str | None = None,
) -> Figure:
    """The path of a motion in space, on the surface of its points if there are two coordinates.

    Parameters
    ----------
    motion : as for `figure_motion`.
    on, span, view, axes, style, label : as `Motion.plot_path`.

    Raises
    ------
    TypeError, ValueError, ShapeError, NonFiniteError : as `Motion.plot_path`.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> from jax import numpy as jnp
    >>> from connections import plots
    >>> def saddle(q):
    ...     return jnp.stack([q[0], q[1], q[0] * q[1]])
    >>> nabla = cn.LeviCivita(cn.PullbackMetric(cn.CoordinateFrame(2), saddle))
    >>> motion = cn.geodesic(nabla, [-1.0, -0.5], [1.0, 0.3], np.linspace(0.0, 2.0, 21))
    >>> figure = plots.figure_path(motion, saddle, ((-1, 1), (-1, 1)))
    >>> len(figure.axes)
    1
    """
    require_type("motion", motion, Motion)
    require_function("on", on, "q -> point (3,)")
    members = [with_events(motion, "q", member)[1] for member in range(int(np.prod(motion.batch)))]
    if axes is None:
        scene = _scene(on, members, span, view)
        panel, number = _new_panel(width_of(style), bare=True), 0
    else:
        (panel,) = given_axes(axes, 1)
        if panel not in _SCENES:
            raise ValueError("axes: expected those of a figure of paths")
        scene, number = _SCENES[panel], _drawn_before(panel)
    _SCENES[panel] = scene
    figure = _figure_of(panel)
    with settings_of(figure):
        if axes is None:
            _draw_surface(panel, scene)
            panel.set_aspect("equal")
        for member, q in enumerate(members):
            points = _points(on, _finer(q))
            hidden = scene.hides(points)
            flat = points @ scene.camera[:2].T
            _draw(panel, flat, motion, member, number, hidden)
        _name(figure, panel, motion, label, number)
    return figure


# --- private: curves ----------------------------------------------------------------------------------------


def _component(name: str, asked: Any, known: dict[str, Series], motion: Motion) -> tuple[Series, int]:
    """A quantity and the number of one of its components."""
    if not isinstance(asked, tuple | list) or len(asked) != 2:
        raise TypeError(f'{name}: expected a component, as ("q", 0), got {asked!r}')
    require_known(name, [require_text(f"{name}[0]", asked[0])], tuple(known))
    part = known[asked[0]]
    if part.values.ndim == len(motion.batch) + 1:
        raise ValueError(f"{name}: {part.name} has no components")
    k = require_whole(f"{name}[1]", asked[1], 0, part.values.shape[-1] - 1)
    return part, k


def _new_panel(width: float | None, bare: bool = False) -> Axes:
    """The axes of a new figure; bare ones have no frame."""
    if width is None:
        figure = new_figure(6.4, 6.4 * _SHARE)
    else:
        figure = paper_figure(width, min(width * _SHARE, _TALL))
    figure.set_layout_engine("constrained")
    with settings_of(figure):
        axes = figure.subplots()
        if bare:
            axes.axis("off")
    return axes


def _figure_of(axes: Axes) -> Figure:
    figure = axes.get_figure(root=True)
    assert figure is not None  # it has not been removed
    return figure


def _drawn_before(axes: Axes) -> int:
    """How many motions have been drawn."""
    marks = [str(line.get_gid()) for line in axes.lines]
    return 1 + max((int(mark.split()[1]) for mark in marks if mark.startswith(f"{_MARK} ")), default=-1)


def _draw(
    axes: Axes,
    points: np.ndarray,
    motion: Motion,
    member: int,
    number: int,
    hidden: np.ndarray | None = None,
) -> None:
    """A curve (T, 2) with a dot at its beginning; what is hidden is faint."""
    count = int(np.prod(motion.batch))
    shade = member_color(member, count) if motion.batch else color(number)
    if hidden is None:
        (line,) = axes.plot(*points.T, color=shade, zorder=4)
        line.set_gid(f"{_MARK} {number}")
        seen = True
    else:
        for faint in (True, False):
            kept = np.where((hidden == faint)[:, None], points, np.nan)
            look: dict[str, Any] = {"alpha": 0.35, "zorder": 3} if faint else {"zorder": 4}
            (line,) = axes.plot(*kept.T, color=shade, **look)
            line.set_gid(f"{_MARK} {number}")
        seen = not hidden[0]
    look = {"markersize": 4.0, "zorder": 5, "alpha": 1.0 if seen else 0.35}
    axes.plot(*points[:1].T, "o", color=shade, **look)


def _name(figure: Figure, axes: Axes, motion: Motion, label: str | None, number: int) -> None:
    """The legend of motions or members below the axes."""
    if label is not None:
        require_text("label", label)
    if motion.batch:
        name_members(figure, [axes], motion, label)
    elif label is not None:
        name_motion(figure, label, {"color": color(number)})


# --- private: space -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _PathScene:
    """A surface as a camera sees it.

    Parameters
    ----------
    grid : (a, b, 3) points of the surface; (0, 0, 3) without one.
    camera : (3, 3) unit vectors across and up the picture, and towards the camera.
    """

    grid: np.ndarray
    camera: np.ndarray

    def faces(self) -> np.ndarray:
        """(f, 4, 3) the quadrilaterals of the surface in the camera's axes, the farthest first."""
        seen = self.grid @ self.camera.T
        corners = seen[:-1, :-1], seen[1:, :-1], seen[1:, 1:], seen[:-1, 1:]
        found = np.stack(corners, axis=2).reshape(-1, 4, 3)
        return found[np.argsort(found[..., 2].mean(axis=1), kind="stable")]

    def hides(self, points: np.ndarray) -> np.ndarray:
        """(T,) whether a triangle of the surface is between a point (T, 3) and the camera."""
        faces, seen = self.faces(), points @ self.camera.T
        if not len(faces):
            return np.zeros(len(points), bool)
        corners = np.concatenate([faces[:, :3], faces[:, [0, 2, 3]]])
        low, high = corners[..., :2].min(axis=1), corners[..., :2].max(axis=1)
        above = _ABOVE * float(np.ptp(self.grid.reshape(-1, 3), axis=0).max())
        hidden = np.zeros(len(points), bool)
        for k, point in enumerate(seen):
            near = ((low <= point[:2]) & (point[:2] <= high)).all(axis=1)
            a, b, c = np.moveaxis(corners[near], 1, 0)
            to, u, w = point - a, b - a, c - a
            area = _area(u, w)
            area = np.where(area == 0.0, np.nan, area)
            r, s = _area(to, w) / area, _area(u, to) / area
            within = (r >= 0.0) & (s >= 0.0) & (r + s <= 1.0)
            hidden[k] = (within & (a[:, 2] + r * u[:, 2] + s * w[:, 2] > point[2] + above)).any()
        return hidden


def _area(u: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Twice the area of triangles in the picture, with a sign."""
    area: np.ndarray = u[:, 0] * w[:, 1] - u[:, 1] * w[:, 0]
    return area


_SCENES: WeakKeyDictionary[Axes, _PathScene] = WeakKeyDictionary()


def _scene(on: Any, members: list[np.ndarray], span: Any, view: Any) -> _PathScene:
    height, around = np.deg2rad(as_array("view", view, (2,)))
    require_finite("view", np.array([height, around]))
    level = np.array([np.cos(around), np.sin(around), 0.0])
    towards = np.cos(height) * level + np.sin(height) * np.eye(3)[2]
    across = np.array([-level[1], level[0], 0.0])
    camera = np.stack([across, np.cross(towards, across), towards])
    every = np.concatenate(members)
    every = every[np.isfinite(every).all(axis=1)]
    if every.shape[1] != 2:
        if span is not None:
            raise ValueError(f"span: the motion has {every.shape[1]} coordinates, and a surface has two")
        return _PathScene(np.zeros((0, 0, 3)), camera)
    if span is None:
        low, high = every.min(axis=0), every.max(axis=0)
        wide = np.maximum(high - low, 1e-3 * (high - low).max())
        span = np.stack([low - wide / 8.0, high + wide / 8.0], axis=1)
    span = np.asarray(as_array("span", span, (2, 2)))
    require_finite("span", span)
    if not (span[:, 0] < span[:, 1]).all():
        raise ValueError(f"span: expected ((a, b), (c, d)) with a < b and c < d, got {span.tolist()}")
    sides = (np.linspace(a, b, _CELLS + 1) for a, b in span)
    grid = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1)
    return _PathScene(_points(on, grid.reshape(-1, 2)).reshape(*grid.shape[:2], 3), camera)


def _points(on: Callable[..., Any], q: np.ndarray) -> np.ndarray:
    """(T, 3) the points of configurations (T, nq); NaN where these are."""
    good = np.isfinite(q).all(axis=1)
    found = np.full((len(q), 3), np.nan)
    found[good] = compiled(_points_at, on)(q[good])
    lost = good & ~np.isfinite(found).all(axis=1)
    if lost.any():
        what = "on(q), for points of the motion and of the surface drawn with it (span), is not finite"
        raise_at(NonFiniteError, what, q[int(np.argmax(lost))])
    return found


def _points_at(on: Callable[..., Any], q: jax.Array) -> jax.Array:
    return jax.vmap(lambda p: require_shape("on(q)", on(p), (3,)))(q)


def _finer(q: np.ndarray) -> np.ndarray:
    """The points, and more between them, so that what the surface hides has sharp ends."""
    if len(q) < 2:
        return q
    shares = np.arange(_FINE)[:, None] / _FINE
    between = (q[:-1, None] + shares * (q[1:] - q[:-1])[:, None]).reshape(-1, q.shape[1])
    return np.concatenate([between, q[-1:]])


def _draw_surface(axes: Axes, scene: _PathScene) -> None:
    """Faces, shaded by how they are turned to the light, and some lines of the coordinates."""
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import LinearSegmentedColormap

    faces = scene.faces()
    if not len(faces):
        return
    normal = np.cross(faces[:, 2] - faces[:, 0], faces[:, 3] - faces[:, 1])
    size = np.linalg.norm(normal, axis=1)
    normal = normal / np.where(size > 0.0, size, 1.0)[:, None]
    light = np.array([-0.4, 0.5, 0.77])
    bright = np.abs(normal @ light)
    shades = LinearSegmentedColormap.from_list("faces", _FACES[::-1])(bright)
    look: dict[str, Any] = {"facecolors": shades, "edgecolors": shades, "linewidths": 0.2, "zorder": 1}
    drawn = PolyCollection(list(faces[..., :2]), **look)
    axes.add_collection(drawn)
    seen, every = scene.grid @ scene.camera.T, _CELLS // _LINES
    for curve in (*seen[::every], *np.swapaxes(seen, 0, 1)[::every]):
        hidden = scene.hides(curve @ scene.camera)
        kept = np.where(hidden[:, None], np.nan, curve[:, :2])
        axes.plot(*kept.T, color=GREY, linewidth=0.3, alpha=0.7, zorder=2)
    axes.autoscale_view()
