"""Parts that all views of the page share: colours, legends, plots, a film's time, and the desk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from connections._shown import shown

if TYPE_CHECKING:
    import viser

Rgb = tuple[int, int, int]

PLAIN: Rgb = (31, 95, 191)  # without torsion, in all views
TWISTED: Rgb = (200, 16, 46)  # with torsion, in all views
PLAIN_THIRD: Rgb = (0, 140, 150)
TWISTED_THIRD: Rgb = (225, 110, 20)
DARK: Rgb = (40, 40, 44)
GREY: Rgb = (150, 150, 156)
GAP: Rgb = (142, 36, 170)
LONGEST = 60  # characters of a label


@dataclass(frozen=True, eq=False)
class Desk:
    """One browser's page, with which a view draws.

    Parameters
    ----------
    client : the browser.
    plots : the container of the plots.
    changed : callback of controls that were moved.
    """

    client: viser.ClientHandle
    plots: Any
    changed: Callable[[Any], None]

    def slider(
        self, label: str, low: float, high: float, step: float, value: float, hint: str | None = None
    ) -> Any:
        """A slider; the view is drawn again when it moves."""
        slider = self.client.gui.add_slider(shown(label, LONGEST), low, high, step, value, hint=hint)
        slider.on_update(self.changed)
        return slider

    def dropdown(self, label: str, options: Sequence[str], hint: str | None = None) -> Any:
        """A list to choose from; at first its first entry is chosen."""
        dropdown = self.client.gui.add_dropdown(label, tuple(options), initial_value=options[0], hint=hint)
        dropdown.on_update(self.changed)
        return dropdown

    def checkbox(self, label: str, value: bool, hint: str | None = None) -> Any:
        """A box to tick."""
        checkbox = self.client.gui.add_checkbox(label, value, hint=hint)
        checkbox.on_update(self.changed)
        return checkbox

    def plot(self, title: str, x_label: str, y_label: str, series: Sequence[tuple[str, Rgb, bool]]) -> Any:
        """An empty plot; `fill` sets its curves.

        Parameters
        ----------
        title, x_label, y_label : texts, with units.
        series : (label, colour, dashed) of each curve.
        """
        lines: list[Any] = [{"label": x_label}]
        for label, color, dashed in series:
            line = {"label": label, "stroke": f"rgb{color}", "width": 1.8}
            lines.append(line | ({"dash": (6.0, 4.0)} if dashed else {}))
        with self.plots:
            return self.client.gui.add_uplot(
                tuple(np.array([0.0, 1.0]) for _ in lines),
                tuple(lines),
                title=title,
                scales={"x": {"time": False}},
                axes=(
                    {"label": x_label, "labelSize": 20, "size": 34},
                    {"label": y_label, "labelSize": 20, "size": 60},  # room for 0.00001
                ),
                height=235,
                padding=(10, 24, 0, 0),  # half of a number stands above the highest tick
                visible=False,
            )


class Film:
    """The time of a film: a slider, and a box; time runs while the box is ticked.

    Parameters
    ----------
    desk : the page; the controls go into its open container.
    duration, start : length of the film, and time at first, s.
    """

    def __init__(self, desk: Desk, duration: float, start: float) -> None:
        self.playing = desk.checkbox("play", False)
        self._slider = desk.slider("time [s]", 0.0, duration, 0.01, start)

    @property
    def time(self) -> float:
        """The time that is shown, s."""
        return float(self._slider.value)

    def cut(self, duration: float) -> None:
        """Change the length of the film, s."""
        duration = max(round(duration, 2), 0.01)
        if self._slider.value > duration:
            self._slider.value = 0.0
        self._slider.max = duration

    def advance(self, seconds: float) -> None:
        """Advance the time if the film runs; after the end it begins again."""
        if self.playing.value:
            now = self.time + seconds
            self._slider.value = round(now if now <= self._slider.max else 0.0, 2)


class View(ABC):
    """A view of the page: its part of the scene, its controls, its plots.

    Parameters
    ----------
    desk : the page to draw on.

    Attributes
    ----------
    title : its name in the list of views.
    compiles : what is compiled for its first picture, in words.
    uses_beta : whether it uses the slider of beta.
    sphere : centre (3,) and radius, m, of the region that is visible at first.
    outlook : (3,) the direction from its centre to the camera.
    drawn : whether it has been drawn.
    """

    title: str
    compiles = "functions of the view"
    uses_beta = True
    sphere: tuple[tuple[float, float, float], float]
    outlook: tuple[float, float, float]

    def __init__(self, desk: Desk, key: str) -> None:
        self.desk, self.key = desk, key
        self.root = desk.client.scene.add_frame(f"/{key}", show_axes=False, visible=False)
        self.folder = desk.client.gui.add_folder(self.title, visible=False)
        self.plots: list[Any] = []
        self.drawn = False

    def show(self, visible: bool) -> None:
        """Show the view, or hide it; a view that has not been drawn yet stays hidden."""
        self.folder.visible = visible
        self.root.visible = visible and self.drawn
        for plot in self.plots:
            plot.visible = visible and self.drawn

    @abstractmethod
    def compute(self, beta: float) -> None:
        """Compute what the controls ask for, unless it was computed before; changes nothing on the page.

        Parameters
        ----------
        beta : value of its slider, kg/m.
        """

    @abstractmethod
    def draw(self) -> None:
        """Draw the results of `compute`."""

    @property
    def running(self) -> bool:
        """Whether the view has a film that runs."""
        return False

    def advance(self, seconds: float) -> None:
        """Advance the film, if the view has one."""
        return None

    def floor(self, center: tuple[float, float, float], size: float, cell: float) -> None:
        """A grid on the ground.

        Parameters
        ----------
        center : (3,) m.
        size, cell : m, of the grid and of its cells.
        """
        self.desk.client.scene.add_grid(
            f"/{self.key}/floor",
            width=size,
            height=size,
            cell_size=cell,
            section_size=5.0 * cell,
            cell_color=(222, 222, 226),
            section_color=(196, 196, 202),
            position=center,
        )


class FilmView(View):
    """A view with a film; `film` is made with its controls."""

    film: Film

    @property
    def running(self) -> bool:
        """Whether the film runs."""
        return bool(self.film.playing.value)

    def advance(self, seconds: float) -> None:
        """Advance the film."""
        self.film.advance(seconds)


def labels(names: Sequence[str]) -> tuple[str, ...]:
    """Names of a file as labels that differ, for a list to choose from."""
    found: list[str] = []
    for name in names:
        label = shown(name, LONGEST)
        while label in found:
            label += "'"
        found.append(label)
    return tuple(found)


def fill(plot: Any, *arrays: np.ndarray) -> None:
    """Set the curves of a plot: x, and one y for each series."""
    plot.data = tuple(np.asarray(array, dtype=np.float64) for array in arrays)


def legend(entries: Sequence[tuple[Rgb, str]], note: str = "") -> str:
    """HTML: a coloured square and words for each entry, and a note below.

    Parameters
    ----------
    entries : colours, and what they mean, in HTML.
    note : HTML.
    """
    style = "display:inline-block;width:0.8em;height:0.8em;border-radius:2px;margin-right:0.5em;background"
    rows = "".join(f'<div><span style="{style}:rgb{color}"></span>{words}</div>' for color, words in entries)
    return f'<div style="padding:0.2em 0.8em;font-size:0.85em;line-height:1.5">{rows}{_below(note)}</div>'


def readout(rows: Sequence[tuple[str, ...]], note: str = "") -> str:
    """HTML: a table, and a note below.

    Parameters
    ----------
    rows : a label and one or more values, in HTML.
    note : HTML.
    """
    style = "text-align:right;padding-left:1em;white-space:nowrap;font-variant-numeric:tabular-nums"
    cells = "".join(
        f'<tr><td style="color:#555">{what}</td>'
        + "".join(f'<td style="{style}">{value}</td>' for value in values)
        + "</tr>"
        for what, *values in rows
    )
    table = f"<table>{cells}</table>"
    return f'<div style="margin:0.3em 0.8em;font-size:0.85em;line-height:1.5">{table}{_below(note)}</div>'


def strip(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (2 T, 3) and faces (2 (T - 1), 3) of the strip between two curves.

    Parameters
    ----------
    first, second : (T, 3).
    """
    count = len(first)
    low = np.arange(count - 1)
    high = low + count
    faces = np.concatenate([np.stack([low, low + 1, high], 1), np.stack([low + 1, high + 1, high], 1)])
    return np.concatenate([first, second]), faces


def segments(points: np.ndarray) -> np.ndarray:
    """(T - 1, 2, 3) the segments of a curve (T, 3)."""
    return np.stack([points[:-1], points[1:]], axis=1)


def index(time: float, times: np.ndarray) -> int:
    """The sample of `times` (T,), evenly spaced from 0, that is nearest to `time`."""
    return int(np.clip(round(time / times[-1] * (len(times) - 1)), 0, len(times) - 1))


def arrows(origins: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """(m, 2, 3) arrows from origins (m, 3); zero vectors get a tiny length that can be drawn."""
    origins, vectors = (np.reshape(a, (-1, 3)) for a in (origins, vectors))
    vanishing = np.linalg.norm(vectors, axis=1, keepdims=True) < 1e-6
    return np.stack([origins, origins + np.where(vanishing, [0.0, 0.0, 1e-6], vectors)], axis=1)


def arrow_sizes(size: float) -> Any:
    """Radii and head of arrows, m, for a scene in which a vector is about `size` long, m."""
    return {"shaft_radius": 0.02 * size, "head_radius": 0.055 * size, "head_length": 0.13 * size}


def camera_distance(radius: float, field: float, aspect: float) -> float:
    """The distance from a sphere's centre at which a camera sees the whole sphere.

    Parameters
    ----------
    radius : of the sphere, m.
    field : vertical field of view, rad.
    aspect : width over height of the picture.
    """
    half = min(0.5 * field, float(np.arctan(np.tan(0.5 * field) * aspect)))
    return radius / float(np.sin(half))


def _below(note: str) -> str:
    return f'<div style="margin-top:0.5em;color:#555">{note}</div>' if note else ""
