"""The graph of a mechanism, and its cluster tree.

Above, bodies are boxes, the joints of the spanning tree solid lines from the ground out, loops dashed lines
between the two bodies that they tie, couplings dotted lines between the bodies whose joints they tie. Below,
clusters are boxes. A cluster of several bodies has one colour in both. Positions follow from integer arrays:
a column for each depth, leaves one below the other, a parent midway between its first and last child.
Source: [W] VI-C2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from connections._shown import as_label
from connections.multibody import Model
from connections.multibody.clusters import LINEAR
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.loops.condition_rows import FunctionCoupling, FunctionLoop
from connections.multibody.model import require_model
from connections.plots.canvas import BLACK, BLUE, GREY, RED, color, new_figure

_LETTER, _LINE, _MARGIN, _FONT = 0.085, 0.18, 0.12, 9.0  # inches, and points
_GAP, _BOW = 0.45, 0.3  # inches between columns, beside the labels; how far arcs bend

_PAPER = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}


@dataclass(frozen=True, eq=False)
class Arrangement:
    """Boxes of a tree drawn from left to right; the first is the root.

    Parameters
    ----------
    parents : (m,) indices of the parents, -1 for the root.
    texts, labels : m each, in the boxes, and on the lines from their parents.
    left, middle : (m,) inches, left edges and heights of the middles.
    size : (m, 2) inches, widths and heights.
    """

    parents: np.ndarray
    texts: tuple[str, ...]
    labels: tuple[str, ...]
    left: np.ndarray
    middle: np.ndarray
    size: np.ndarray

    @classmethod
    def of(cls, parents: np.ndarray, texts: Sequence[str], labels: Sequence[str]) -> Arrangement:
        """The positions of boxes; parents[i] < i."""
        size = np.array([_extent(text) for text in texts])
        named = np.array([_LETTER * len(label) for label in labels])
        depth = np.zeros(len(parents), dtype=np.int64)
        for number in range(1, len(parents)):
            depth[number] = depth[parents[number]] + 1
        columns = [0.0]
        for level in range(depth.max()):
            wide = size[depth == level, 0].max() + named[depth == level + 1].max()
            columns.append(columns[-1] + wide + _GAP)
        middle = _heights(parents, size[:, 1].max() + 0.12 + (_LINE if named.any() else 0.0))
        return cls(parents, tuple(texts), tuple(labels), np.array(columns)[depth], middle, size)

    @property
    def extent(self) -> tuple[float, float]:
        """Width and height, inches."""
        return float((self.left + self.size[:, 0]).max()), float(self.middle.max() + self.size[:, 1].max())


@dataclass(frozen=True, eq=False)
class Arc:
    """The drawing of a loop or coupling.

    Parameters
    ----------
    name : of the loop or coupling.
    loop : whether it is a loop.
    ends : two or more points, inches, one for each body.
    """

    name: str
    loop: bool
    ends: list[tuple[float, float]]

    @property
    def label(self) -> tuple[float, float]:
        """The point where the name begins: the middle of the last arc."""
        (x_a, y_a), (x_b, y_b) = self.ends[-2:]
        return (x_a + x_b + _BOW * (y_b - y_a)) / 2.0 + 0.06, (y_a + y_b - _BOW * (x_b - x_a)) / 2.0

    @property
    def extent(self) -> tuple[float, float]:
        """Right and lower end of the name, inches."""
        return self.label[0] + _LETTER * len(self.name), self.label[1] + _LINE


def figure_mechanism(model: Model) -> Figure:
    """The bodies, joints, loops and couplings of a robot, and below its cluster tree.

    Parameters
    ----------
    model : the robot. The names of dependent joints are grey.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> from connections import plots
    >>> figure = plots.figure_mechanism(mb.example("four_bar"))
    >>> figure.savefig("mechanism.png")
    >>> [axes.texts[-1].get_text() for axes in figure.axes]  # titles of both parts
    ['Bodies and joints; loops dashed, couplings dotted', 'Clusters']
    """
    require_model("figure_mechanism", model)
    clusters = list(model.cluster_tree)  # the ground, then clusters in order
    bodies, tree = _body_boxes(model), _cluster_boxes(model, clusters)
    shades: dict[Any, Any] = {}
    for node in clusters:
        if len(model.cluster_tree.nodes[node]["bodies"]) > 1:
            shades[node] = color(len(shades))
    arcs = _arcs(model, bodies)
    reach = np.max([bodies.extent, *(arc.extent for arc in arcs)], axis=0)
    width = float(max(reach[0], tree.extent[0], 4.6)) + 0.6
    heights = [float(reach[1]) + 0.8, tree.extent[1] + 0.6]
    figure = new_figure(width, sum(heights))
    upper, lower = figure.subplots(2, 1, height_ratios=heights)
    figure.subplots_adjust(left=0.0, right=1.0, bottom=0.0, top=1.0, hspace=0.0)
    of_body = {body: shades[node] for node in shades for body in model.cluster_tree.nodes[node]["bodies"]}
    independent = set(map(as_label, model.joint_names))
    _draw(upper, bodies, ["#ffffff", *(of_body.get(body) for body in model.body_names)], independent)
    _draw_arcs(upper, arcs)
    _draw(lower, tree, [shades.get(node, "#ffffff") for node in clusters], independent)
    titles = "Bodies and joints; loops dashed, couplings dotted", "Clusters"
    for axes, height, title in zip((upper, lower), heights, titles, strict=True):
        axes.set(xlim=(-0.3, width - 0.3), ylim=(height - 0.7, -0.7))
        axes.text(-0.1, -0.5, title, fontsize=11, weight="bold", va="center")
        axes.axis("off")
    return figure


def ties_of(model: Model) -> list[tuple[str, bool, tuple[int, ...]]]:
    """Loops and couplings: name, whether it is a loop, and the bodies that it ties.

    Parameters
    ----------
    model : the robot. Bodies are numbered as in ``model.body_names``, -1 is the ground. A coupling ties the
        bodies that its joints move.
    """
    closed = model.kinematics
    if not isinstance(closed, ClosedKinematics):
        return []
    rows, found = closed.rows, []
    body_of_coordinate = np.repeat(np.arange(len(closed.tree.joints)), np.diff(closed.spanning.q_starts))
    functions = {function.owner: function for function in closed.functions}
    for owner, name in enumerate(closed.names):
        own = np.flatnonzero(rows.owners == owner)
        function = functions.get(owner)
        loop = rows.kinds[own[0]] != LINEAR if len(own) else isinstance(function, FunctionLoop)
        if len(own) and loop:
            tied: Any = (rows.bodies_a[own[0]], rows.bodies_b[own[0]])
        elif len(own):
            tied = np.unique(body_of_coordinate[np.any(rows.coefficients[own] != 0.0, axis=0)])
        elif isinstance(function, FunctionLoop):
            tied = (function.body_a, function.body_b)
        elif isinstance(function, FunctionCoupling):
            tied = [body_of_coordinate[part.start] for part in function.slices]
        found.append((name, bool(loop), tuple(int(body) for body in tied)))
    return found


def _body_boxes(model: Model) -> Arrangement:
    tree = model.kinematics.tree
    parents = np.concatenate([[-1], tree.parents + 1])
    return Arrangement.of(
        parents, ["ground", *map(as_label, tree.body_names)], ["", *map(as_label, tree.joint_names)]
    )


def _cluster_boxes(model: Model, clusters: Sequence[Any]) -> Arrangement:
    """One box per cluster: its bodies, its independent joints, its dependent joints."""
    graph, numbers = model.cluster_tree, {node: number for number, node in enumerate(clusters)}
    parents = np.full(len(clusters), -1)
    for parent, child in graph.edges:
        parents[numbers[child]] = numbers[parent]
    texts = ["ground"]
    for node in clusters[1:]:
        lines = [", ".join(graph.nodes[node]["bodies"])]
        for kind in ("independent", "dependent"):
            names = graph.nodes[node][kind]
            lines += [f"{kind}: {', '.join(names)}"] if names else []
        texts.append("\n".join(map(as_label, lines)))
    return Arrangement.of(parents, texts, [""] * len(texts))


def _extent(text: str) -> tuple[float, float]:
    """Width and height of a box, inches."""
    lines = text.split("\n")
    return _LETTER * max(len(line) for line in lines) + 2 * _MARGIN, _LINE * len(lines) + _MARGIN


def _heights(parents: np.ndarray, slot: float) -> np.ndarray:
    """Heights (m,) of the middles: leaves follow each other depth first, a slot apart."""
    children: list[list[int]] = [[] for _ in parents]
    for number in range(1, len(parents)):
        children[parents[number]].append(number)
    order, stack = [], [0]
    while stack:
        order.append(stack.pop())
        stack += reversed(children[order[-1]])
    middle, leaves = np.zeros(len(parents)), 0
    for number in order:
        if not children[number]:
            middle[number], leaves = slot * leaves, leaves + 1
    for number in reversed(order):
        if children[number]:
            middle[number] = (middle[children[number][0]] + middle[children[number][-1]]) / 2.0
    return middle


def _draw(axes: Axes, boxes: Arrangement, fills: Sequence[Any], independent: set[str]) -> None:
    """The tree: boxes, and a line from every parent with its label before the child."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import FancyBboxPatch

    for number, (text, fill) in enumerate(zip(boxes.texts, fills, strict=True)):
        parent, label = boxes.parents[number], boxes.labels[number]
        x, y, (width, height) = boxes.left[number], boxes.middle[number], boxes.size[number]
        if parent >= 0:
            start = boxes.left[parent] + boxes.size[parent, 0]
            bend = start + 0.15
            axes.plot([start, bend, bend, x], [boxes.middle[parent]] * 2 + [y] * 2, color=BLACK, lw=1.2)
        if label:
            shade = BLACK if label in independent else GREY
            axes.text(x - 0.06, y - 0.07, label, ha="right", va="bottom", fontsize=_FONT, color=shade)
        pale = tuple(1.0 - 0.22 * (1.0 - np.array(to_rgb(fill or "#dddddd"))))
        corner = (x, y - height / 2.0)
        style = "round,pad=0,rounding_size=0.06"
        axes.add_patch(FancyBboxPatch(corner, width, height, style, fc=pale, ec=BLACK, lw=1.0, zorder=3))
        axes.text(x + width / 2.0, y, text, ha="center", va="center", fontsize=_FONT, zorder=4)


def _arcs(model: Model, boxes: Arrangement) -> list[Arc]:
    """Loops and couplings, each body joined with the next below it."""
    right = boxes.left + boxes.size[:, 0]
    found = []
    for name, loop, bodies in ties_of(model):
        numbers = sorted((body + 1 for body in bodies), key=lambda box: (boxes.middle[box], -right[box]))
        found.append(
            Arc(as_label(name), loop, [(float(right[box]), float(boxes.middle[box])) for box in numbers])
        )
    return found


def _draw_arcs(axes: Axes, arcs: Sequence[Arc]) -> None:
    """Arcs on the right of the boxes."""
    from matplotlib.patches import ConnectionStyle, FancyArrowPatch

    connection = ConnectionStyle("arc3", rad=-_BOW)
    for arc in arcs:
        shade, style = (RED, "--") if arc.loop else (BLUE, ":")
        for start, end in pairwise(arc.ends):
            line = FancyArrowPatch(
                start, end, connectionstyle=connection, arrowstyle="-", shrinkA=0, shrinkB=0
            )
            line.set(color=shade, linewidth=1.6, linestyle=style, zorder=2)
            axes.add_patch(line)
        axes.text(*arc.label, arc.name, color=shade, fontsize=_FONT, va="center", zorder=5, bbox=_PAPER)
