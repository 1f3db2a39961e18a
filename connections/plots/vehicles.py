"""Vehicles in the plane, drawn to scale: the body at some times of a motion, its path, its shape in time.

Every vehicle is a list of parts, polygons and lines, as functions of q and of the system's parameters: the
named systems of `connections.systems`. Wheels are thick strokes in the direction in which they roll.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from connections.checks import (
    ShapeError,
    as_array,
    as_number,
    require_choice,
    require_finite,
    require_indices,
    require_mapping,
    require_positive_int,
    require_text,
    require_type,
)
from connections.plots.canvas import BLACK, BLUE, GREEN, GREY, RED, color, require_axes

BODY, BAR, WHEEL, ROTOR, POINT = "body", "bar", "wheel", "rotor", "point"


class Part(NamedTuple):
    """A polygon or a line of a vehicle: its kind, and its corners (k, 2) [m]."""

    kind: str
    points: np.ndarray


@dataclass(frozen=True, eq=False)
class VehicleMotion:
    """A motion of a named vehicle, to be drawn.

    Parameters
    ----------
    vehicle : name of the system, as in `connections.systems.NAMES`.
    times : (T,) [s].
    q : (T, nq) points.
    title : of the drawing.
    parameters : {name: value} of those that differ from the system's defaults.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import plots, systems
    >>> times = np.linspace(0.0, 5.0, 26)
    >>> motion = systems.chaplygin_sleigh().numeric().simulate([0.0, 0.0, 0.0], [0.0, 2.0], times)
    >>> drawn = plots.VehicleMotion("chaplygin_sleigh", times, motion.q, "sleigh")
    >>> drawn.sizes
    {'m': 1.0, 'I': 0.1, 'a': 0.2}
    >>> drawn.path.shape
    (26, 2)
    """

    vehicle: str
    times: np.ndarray
    q: np.ndarray
    title: str = ""
    parameters: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_choice("vehicle", self.vehicle, PARTS)
        require_text("title", self.title)
        object.__setattr__(self, "parameters", _numbers("parameters", self.parameters))
        nq = PARTS[self.vehicle][0]
        for name, array, core in (("times", self.times, (None,)), ("q", self.q, (None, nq))):
            object.__setattr__(self, name, np.asarray(as_array(name, array, core)))
            require_finite(name, getattr(self, name))
        if self.times.ndim != 1 or not self.times.size:
            raise ShapeError("times", ("T",), self.times.shape)
        if self.q.shape != (len(self.times), nq):
            raise ShapeError("q", (len(self.times), nq), self.q.shape)

    @property
    def sizes(self) -> dict[str, float]:
        """Values of all parameters, by name."""
        from connections.systems import NAMES

        known = {symbol.name: value for symbol, value in NAMES[self.vehicle]().parameters.items()}
        return known | dict(self.parameters)

    @property
    def path(self) -> np.ndarray:
        """The drawn path, (T, 2): x and y; for the particle x and z."""
        return self.q[:, [0, 2]] if self.vehicle == "heisenberg_particle" else self.q[:, :2]


def draw_motion(axes: Axes, motion: VehicleMotion, moments: int = 5) -> None:
    """Draw the path and the vehicle at some times, earlier ones paler, on axes of equal scale.

    Parameters
    ----------
    axes : to draw on.
    motion : the motion.
    moments : number of equally spaced times at which the vehicle is drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from connections import plots, systems
    >>> times = np.linspace(0.0, 5.0, 26)
    >>> motion = systems.chaplygin_sleigh().numeric().simulate([0.0, 0.0, 0.0], [0.0, 2.0], times)
    >>> axes = Figure().subplots()
    >>> plots.draw_motion(axes, plots.VehicleMotion("chaplygin_sleigh", times, motion.q), moments=4)
    >>> axes.get_xlabel(), len(axes.patches)  # a patch for each moment
    ('x [m]', 4)
    """
    require_axes(axes)
    require_type("motion", motion, VehicleMotion)
    require_positive_int("moments", moments)
    picked = np.unique(np.linspace(0, len(motion.times) - 1, moments).round().astype(int))
    axes.plot(*motion.path.T, color=GREY, lw=1.0, zorder=1)
    for rank, index in enumerate(picked):
        draw_vehicle(axes, motion.vehicle, motion.q[index], motion.sizes, (rank + 1.0) / len(picked))
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.06)
    vertical = "z [m]" if motion.vehicle == "heisenberg_particle" else "y [m]"
    axes.set(xlabel="x [m]", ylabel=vertical, title=motion.title)
    axes.grid(alpha=0.3)


def draw_shape(axes: Axes, motion: VehicleMotion, shape: Mapping[str, int]) -> None:
    """Shape coordinates against time.

    Parameters
    ----------
    axes : to draw on.
    motion : the motion.
    shape : {label: index in q} of angles.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from connections import plots, systems
    >>> racer = systems.Locomotion(systems.roller_racer().numeric(), driven=(3,))
    >>> gait = systems.roller_racer_gait()
    >>> motion = racer.simulate(gait, gait.times(cycles=1, per_cycle=10))
    >>> axes = Figure().subplots()
    >>> plots.draw_shape(axes, plots.VehicleMotion("roller_racer", motion.times, motion.q), {"psi": 3})
    >>> axes.get_ylabel(), axes.lines[0].get_label()
    ('shape [rad]', 'psi')
    """
    require_axes(axes)
    require_type("motion", motion, VehicleMotion)
    require_mapping("shape", shape, "{label: index}")
    for number, (label, index) in enumerate(shape.items()):
        require_text("shape: label", label)
        require_indices(f"shape[{label!r}]", [index], motion.q.shape[1])
        axes.plot(motion.times, motion.q[:, index], color=color(number), label=label)
    axes.set(xlabel="time [s]", ylabel="shape [rad]", xlim=(motion.times[0], motion.times[-1]))
    axes.grid(alpha=0.3)


def draw_vehicle(
    axes: Axes, vehicle: str, q: np.ndarray, sizes: Mapping[str, float], strength: float = 1.0
) -> None:
    """One vehicle.

    Parameters
    ----------
    axes : to draw on.
    vehicle : name of the system.
    q : (nq,) point.
    sizes : values of the system's parameters, by name.
    strength : from 0 to 1; below 1, colours are mixed with white.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from connections import plots
    >>> figure = Figure()
    >>> axes = figure.subplots()
    >>> plots.draw_vehicle(axes, "snakeboard", [0.0, 0.0, 0.0, 0.5, 0.3], {"l": 0.2})
    >>> len(axes.patches), len(axes.lines)  # the board; the rotor, axles and wheels
    (1, 7)
    >>> figure.savefig("snakeboard.png")
    """
    require_axes(axes)
    require_choice("vehicle", vehicle, PARTS)
    nq, parts = PARTS[vehicle]
    q = np.asarray(as_array("q", q, (nq,)))
    require_finite("q", q)
    if q.ndim != 1:
        raise ShapeError("q", (nq,), q.shape)
    strength = as_number("strength", strength)
    if not 0.0 <= strength <= 1.0:
        raise ValueError(f"strength: expected a number from 0 to 1, got {strength:g}")
    shades = {BODY: BLUE, BAR: BLACK, WHEEL: BLACK, ROTOR: RED, POINT: GREEN}
    for kind, points in parts(q, _numbers("sizes", sizes)):
        shade = _pale(shades[kind], 0.25 + 0.75 * strength)
        order = 2.0 + strength
        if kind == BODY:
            fill = _pale(shades[kind], 0.1 + 0.25 * strength)
            axes.fill(*points.T, facecolor=fill, edgecolor=shade, lw=1.2, zorder=order)
        elif kind == POINT:
            axes.plot(*points.T, "o", color=shade, ms=5, zorder=order)
        else:
            width = {WHEEL: 3.2, BAR: 1.4, ROTOR: 2.0}[kind]
            axes.plot(*points.T, color=shade, lw=width, solid_capstyle="round", zorder=order)


class _Numbers(dict[str, float]):
    """An argument {name: value}, whose name is in the error for a value that is missing."""

    argument = ""

    def __missing__(self, name: str) -> float:
        raise ValueError(f"{self.argument}: expected a value of {name!r}, got {', '.join(self) or 'none'}")


def _numbers(argument: str, values: Any) -> _Numbers:
    require_mapping(argument, values, "{name: value}")
    for name in values:
        require_text(f"{argument}: name", name)
    numbers = _Numbers({name: as_number(f"{argument}[{name!r}]", value) for name, value in values.items()})
    numbers.argument = argument
    return numbers


# --- the vehicles ------------------------------------------------------------------------------------------


def _snakeboard(q: np.ndarray, size: Mapping[str, float]) -> list[Part]:
    x, y, theta, psi, phi = q
    reach = size["l"]
    parts = [Part(BODY, _placed(_box(1.7 * reach, 0.3 * reach), q))]
    for end, angle in ((1.0, theta - phi), (-1.0, theta + phi)):
        hub = q[:2] + end * reach * _unit(theta)
        parts += _axle(hub, angle, 0.3 * reach, 0.36 * reach)
    arm = 0.62 * reach * _unit(theta + psi)
    parts += [Part(ROTOR, np.array([q[:2] - arm, q[:2] + arm]))]
    return parts


def _roller_racer(q: np.ndarray, size: Mapping[str, float]) -> list[Part]:
    x, y, theta, psi = q
    l_1, l_2 = size["l_1"], size["l_2"]
    hinge = q[:2] + l_1 * _unit(theta)
    hub = hinge + l_2 * _unit(theta + psi)
    seat = np.array([[-0.35, -0.4], [-0.35, 0.4], [0.2, 0.4], [1.0, 0.08], [1.0, -0.08], [0.2, -0.4]])
    parts = [Part(BODY, _placed(l_1 * seat, q)), *_axle(q[:2], theta, 0.55 * l_1, 0.3 * l_1)]
    parts += [Part(ROTOR, np.array([hinge, hub])), *_axle(hub, theta + psi, 0.3 * l_1, 0.25 * l_1)]
    return parts


def _rolling_disc(q: np.ndarray, size: Mapping[str, float]) -> list[Part]:
    """The disc seen from above: its edge, and a mark on its rim."""
    along = size["R"] * _unit(q[2])
    mark = q[:2] + np.sin(q[3]) * along
    return [Part(WHEEL, np.array([q[:2] - along, q[:2] + along])), Part(POINT, mark[None])]


def _chaplygin_sleigh(q: np.ndarray, size: Mapping[str, float]) -> list[Part]:
    a = size["a"]
    outline = np.array([[-0.6, -0.5], [-0.6, 0.5], [1.2, 0.8], [2.2, 0.0], [1.2, -0.8]])
    blade = 0.5 * a * _unit(q[2])
    return [
        Part(BODY, _placed(a * outline, q)),
        Part(WHEEL, np.array([q[:2] - blade, q[:2] + blade])),
        Part(POINT, (q[:2] + a * _unit(q[2]))[None]),
    ]


def _trailer(q: np.ndarray, size: Mapping[str, float]) -> list[Part]:
    x, y, theta, delta = q
    d, turned = size["d"], theta - delta
    hub = q[:2] - d * _unit(turned)
    pose = np.array([*hub, turned])
    return [
        Part(BAR, np.array([q[:2], hub])),
        Part(BODY, _placed(_box(0.7 * d, 0.5 * d), pose)),
        *_axle(hub, turned, 0.32 * d, 0.3 * d),
        Part(BODY, _placed(_box(0.6 * d, 0.5 * d) + [0.12 * d, 0.0], q)),
        *_axle(q[:2], theta, 0.32 * d, 0.3 * d),
    ]


def _planar_body(q: np.ndarray, size: Mapping[str, float]) -> list[Part]:
    h = size["h"]
    turn = np.linspace(-0.5 * np.pi, 0.5 * np.pi, 15)
    nose = 0.35 * h * np.stack([np.cos(turn), np.sin(turn)], axis=1) + [0.5 * h, 0.0]
    outline = np.concatenate([nose, [[-0.8 * h, 0.35 * h], [-0.8 * h, -0.35 * h]]])
    nozzle = h * np.array([[-0.8, 0.0], [-1.0, 0.0]])
    return [Part(BODY, _placed(outline, q)), Part(ROTOR, _placed(nozzle, q)), Part(POINT, q[None, :2])]


def _heisenberg_particle(q: np.ndarray, size: Mapping[str, float]) -> list[Part]:
    return [Part(POINT, q[None, [0, 2]])]


#: {name: (number of coordinates, function of q and the parameters)}
PARTS: dict[str, tuple[int, Callable[[np.ndarray, Mapping[str, float]], list[Part]]]] = {
    "snakeboard": (5, _snakeboard),
    "roller_racer": (4, _roller_racer),
    "rolling_disc": (4, _rolling_disc),
    "heisenberg_particle": (3, _heisenberg_particle),
    "chaplygin_sleigh": (3, _chaplygin_sleigh),
    "trailer": (4, _trailer),
    "planar_body": (3, _planar_body),
}


def _axle(hub: np.ndarray, angle: float, half: float, wheel: float) -> list[Part]:
    """An axle across `angle`, and a wheel at each end."""
    across, along = half * _unit(angle + 0.5 * np.pi), 0.5 * wheel * _unit(angle)
    ends = hub - across, hub + across
    wheels = [Part(WHEEL, np.array([end - along, end + along])) for end in ends]
    return [Part(BAR, np.array(ends)), *wheels]


def _unit(angle: float) -> np.ndarray:
    return np.array([np.cos(angle), np.sin(angle)])


def _box(length: float, width: float) -> np.ndarray:
    return 0.5 * np.array([[-length, -width], [length, -width], [length, width], [-length, width]])


def _placed(points: np.ndarray, q: Any) -> np.ndarray:
    """Points (k, 2) of body axes at (x, y, theta)."""
    c, s = np.cos(q[2]), np.sin(q[2])
    placed: np.ndarray = points @ np.array([[c, s], [-s, c]]) + np.asarray(q)[:2]
    return placed


def _pale(shade: str, strength: float) -> tuple[float, ...]:
    """The colour mixed with white."""
    from matplotlib.colors import to_rgb

    return tuple(1.0 - strength * (1.0 - np.array(to_rgb(shade))))
