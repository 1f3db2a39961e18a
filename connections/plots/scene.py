"""A scene in space as a figure for a paper: lines and arrows, projected as a camera sees them.

They stay vectors in PDF. What is nearer is drawn later, segment by segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from connections.plots.canvas import MILLIMETRES, paper_figure, settings_of

Rgb = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Scene:
    """Lines, arrows and words in space.

    Parameters
    ----------
    lines : (segments (m, 2, 3), colour, width in points) each.
    arrows : (tails and heads (m, 2, 3), colour) each.
    labels : (position (3,), text) each.
    """

    lines: Sequence[tuple[np.ndarray, Rgb, float]]
    arrows: Sequence[tuple[np.ndarray, Rgb]] = ()
    labels: Sequence[tuple[np.ndarray, str]] = ()


def figure_scene(scene: Scene, outlook: np.ndarray, width: float = MILLIMETRES["column"]) -> Figure:
    """A scene in parallel projection, z upwards.

    Parameters
    ----------
    scene : what is drawn.
    outlook : (3,) the direction from the scene to the camera.
    width : of the figure, mm.
    """
    from matplotlib.collections import LineCollection

    across, up, towards = _camera(np.asarray(outlook, dtype=np.float64))
    flat = np.stack([across, up], axis=-1)
    parts = [(points, color, size) for points, color, size in scene.lines if len(points)]
    ends = np.concatenate([points.reshape(-1, 3) @ flat for points, _, _ in parts])
    low, high = ends.min(axis=0), ends.max(axis=0)
    tall = float((high - low)[1] / max((high - low)[0], 1e-12))
    figure = paper_figure(width, width * min(max(tall, 0.3), 1.5))
    with settings_of(figure):
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set(aspect="equal")
        axes.axis("off")
        depth = np.concatenate([points.mean(axis=1) @ towards for points, _, _ in parts])
        shades = np.concatenate([np.tile(np.array(color) / 255.0, (len(p), 1)) for p, color, _ in parts])
        sizes = np.concatenate([np.full(len(points), size) for points, _, size in parts])
        segments = np.concatenate([points @ flat for points, _, _ in parts])
        order = np.argsort(depth, kind="stable")
        drawn = LineCollection(list(segments[order]), colors=shades[order], linewidths=sizes[order])
        drawn.set_capstyle("round")
        axes.add_collection(drawn)
        for points, color in scene.arrows:
            for tail, head in points @ flat:
                look: Any = {"arrowstyle": "-|>,head_length=0.25,head_width=0.12", "lw": 0.8}
                shade = tuple(part / 255.0 for part in color)
                axes.annotate("", head, tail, arrowprops={**look, "color": shade, "shrinkA": 0, "shrinkB": 0})
        for position, text in scene.labels:
            axes.annotate(text, position @ flat, ha="center", va="top", fontsize=6.0)
        margin = 0.06 * (high - low).max()
        axes.set(
            xlim=(low[0] - 2.0 * margin, high[0] + 2.0 * margin), ylim=(low[1] - margin, high[1] + margin)
        )
    return figure


def _camera(outlook: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unit vectors across and up the picture, and towards the camera."""
    towards = outlook / np.linalg.norm(outlook)
    across = np.cross([0.0, 0.0, 1.0], towards)
    if np.linalg.norm(across) < 1e-9:  # from above
        across = np.array([1.0, 0.0, 0.0])
    across = across / np.linalg.norm(across)
    return across, np.cross(towards, across), towards
