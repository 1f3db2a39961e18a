"""The view of a metric of the user's own: a surface or a chart, geodesics, a ball, carried frames."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np

from connections._shown import as_html
from connections.explorer import drawing
from connections.explorer.drawing import DARK, GAP, GREY, PLAIN, PLAIN_THIRD, TWISTED, TWISTED_THIRD
from connections.explorer.manifold import FRAMES, POINTS, DrawnSpace, Manifold, sphere_faces

_REACH = 2.0  # radius of the picture, in the scene's metres
_FIT = 1.7  # the picture is scaled anew when it is as many times larger or smaller
_VECTOR = 0.35  # length of a carried unit vector in the scene, at most
_LINES, _FINE = 9, 41  # coordinate lines in each direction, and points of one
_SPOKES = 16  # every sixteenth geodesic of a ball is drawn
_PALE: drawing.Rgb = (205, 205, 212)


class ManifoldView(drawing.View):
    """The view of a space with two or three coordinates.

    Parameters
    ----------
    desk : the page to draw on.
    space : what is drawn.
    title : its name in the list of views.
    """

    compiles = "geodesics, transport and curvature of the metric"
    uses_beta = False

    def __init__(self, desk: drawing.Desk, space: Manifold, title: str) -> None:
        self.space, self.title = space, title
        self.outlook = (0.9, -2.2, 1.6) if space.embedded or space.nq == 3 else (0.0, -0.5, 2.4)
        self.sphere = ((0.0, 0.0, 0.0), (1.7 if space.nq == 3 else 1.35) * _REACH)
        super().__init__(desk, "manifold")
        self._middle, self._scale = np.zeros(3), 0.0
        self._asked: tuple[float, ...] | None = None
        self._add_controls()
        self._add_scene()
        self._add_plots()

    # --- building ----------------------------------------------------------------------------------------

    def _add_controls(self) -> None:
        desk, gui, space = self.desk, self.desk.client.gui, self.space
        with self.folder:
            self.point = [
                desk.slider(f"q_{k}", round(x - 2.0, 2), round(x + 2.0, 2), 0.01, round(x, 2))
                for k, x in enumerate(map(float, space.start))
            ]
            self.heading = desk.slider("heading [deg]", -180.0, 180.0, 1.0, 20.0, hint="Of the geodesic.")
            self.rise = desk.slider(
                "rise [deg]", -90.0, 90.0, 1.0, 0.0, hint="Above its first two directions."
            )
            self.rise.visible = space.n == 3
            unit = "" if space.unit == 1.0 else f", unit {space.unit:g}"
            self.length = desk.slider(
                "length", 0.1, 10.0, 0.05, 2.0, hint=f"Of the geodesic, in the metric{unit}."
            )
            self.radius = desk.slider(
                "radius", 0.1, 5.0, 0.05, 1.0, hint=f"Of the ball, in the metric{unit}."
            )
            self.gamma = desk.slider(
                "gamma", -2.0, 2.0, 0.05, 1.0, hint="0: Levi-Civita. 1: the file's connection."
            )
            self.gamma.visible = space.has_family
            words = "C = C* + beta (v x): turns what is carried." if space.n == 3 else "Bends the geodesics."
            start = 0.0 if space.has_family else 0.5
            self.torsion = desk.slider("torsion", -3.0, 3.0, 0.05, start, hint=f"{words} Per length.")
            self.save = gui.add_button("Save as PDF", hint="What is seen from here, as vectors, 88 mm wide.")
            self.save.on_click(self._save)
            self.numbers = gui.add_html("")
            gui.add_html(drawing.legend(self._entries(), self._words()))

    def _entries(self) -> list[tuple[drawing.Rgb, str]]:
        last = [(TWISTED_THIRD, "and the third")] * (self.space.n == 3)
        plain = (
            "carried by the constrained connection" if self.space.constrained else "carried by Levi-Civita"
        )
        return [
            (DARK, "a geodesic of the family's member"),
            (TWISTED, "carried by the member: the second vector"),
            *last,
            (PLAIN, plain),
            (GAP, "the ball: points that geodesics of its radius reach"),
        ]

    def _words(self) -> str:
        if self.space.embedded:
            return "Points are drawn where the embedding has them."
        ellipses = " Ellipses are vectors of one length." * (self.space.nq == 2)
        return f"Points are drawn by their coordinates.{ellipses}"

    def _add_scene(self) -> None:
        scene, line, key = self.desk.client.scene, np.zeros((1, 2, 3)), self.key
        width = {"grid": 0.004, "metric": 0.006, "spokes": 0.006, "circles": 0.016, "path": 0.025}
        colors = {"grid": _PALE, "metric": GREY, "spokes": GAP, "circles": GAP, "path": DARK}
        self.lines = {
            name: scene.add_line_segments(f"/{key}/{name}", line, colors[name], thickness=width[name])
            for name in width
        }
        shades = {"plain_3": PLAIN_THIRD, "plain_2": PLAIN, "twisted_3": TWISTED_THIRD, "twisted_2": TWISTED}
        self.arrows = {
            name: scene.add_arrows(f"/{key}/{name}", line, shade, **drawing.arrow_sizes(0.5))
            for name, shade in (*shades.items(), ("velocity", DARK))
        }
        self.start = scene.add_icosphere(f"/{key}/start", radius=0.05, color=DARK)
        self.labels = [
            scene.add_label(f"/{key}/label_{k}", "", anchor="top-center") for k in range(self.space.nq + 1)
        ]
        for vector in ("plain_3", "twisted_3"):
            self.arrows[vector].visible = self.space.n == 3

    def _add_plots(self) -> None:
        self.plots += [
            self.desk.plot(
                "Angle between the two carried frames",
                "length",
                "angle [deg]",
                (("largest", TWISTED, False),),
            ),
            self.desk.plot(
                "Lengths of the carried vectors",
                "length",
                "|z|",
                (("first", DARK, False), ("second", TWISTED, True)),
            ),
        ]

    # --- drawing -----------------------------------------------------------------------------------------

    def compute(self, beta: float) -> None:
        """Compute geodesics and transport, if a control was moved."""
        controls = (*self.point, self.heading, self.rise, self.length, self.radius, self.gamma, self.torsion)
        asked = tuple(float(control.value) for control in controls)
        if asked == self._asked:
            return
        space, nq = self.space, self.space.nq
        heading, rise, length, radius, gamma, torsion = asked[nq:]
        q, unit = np.array(asked[:nq]), space.unit
        result = space.see(
            q,
            np.radians(heading),
            np.radians(rise) * (space.n == 3),
            length * unit,
            radius * unit,
            gamma * space.has_family,
            torsion / unit,
        )
        self.curvature = None if space.constrained else space.curvature(q)
        self.result, self.q, self.around = result, q, radius * unit
        self._measure(result)
        self._asked = asked

    def _measure(self, result: DrawnSpace) -> None:
        """Set the picture's box in coordinates, and its middle and scale in space."""
        points = np.concatenate([result.curve[: result.reached], result.spokes.reshape(-1, self.space.nq)])
        points = points[np.isfinite(points).all(axis=1)]
        low, high = points.min(axis=0), points.max(axis=0)
        margin = 0.12 * np.maximum(high - low, 1e-9)
        self.box = np.stack([low - margin, high + margin])
        seen = self.space.place(points)
        seen = seen[np.isfinite(seen).all(axis=1)]
        middle = 0.5 * (seen.min(axis=0) + seen.max(axis=0))
        scale = _REACH / max(float(np.linalg.norm(seen - middle, axis=1).max()), 1e-12)
        moved = float(np.linalg.norm(middle - self._middle)) * self._scale
        if not (1.0 / _FIT < scale / max(self._scale, 1e-300) < _FIT) or moved > 0.5 * _REACH:
            self._middle, self._scale = middle, scale
        if not self.drawn and self.space.embedded:
            self.outlook = self._over(middle)

    def _over(self, middle: np.ndarray) -> tuple[float, float, float]:
        """The direction to the camera, near the surface's normal at q, away from `middle` or else upwards."""
        n = self.space.n
        tangents = self.space.arrow(np.tile(self.q, (n, 1)), np.eye(n))
        normal = np.cross(tangents[0], tangents[1])
        normal /= max(float(np.linalg.norm(normal)), 1e-300)
        outwards = normal @ (self.space.place(self.q) - middle)
        x, y, z = np.where(outwards < -1e-9 or (abs(outwards) < 1e-9 and normal[2] < 0.0), -1.0, 1.0) * normal
        return float(x), float(y) - 0.2, float(z) + 0.35

    def draw(self) -> None:
        """Draw the curve, the ball, the grid and the carried vectors, and fill the plots."""
        result, reached = self.result, max(self.result.reached, 2)
        self.lines["path"].points = drawing.segments(self._at(result.curve[:reached]))
        self._draw_ball(result)
        self._draw_grid()
        shown = np.unique(np.linspace(0, reached - 1, FRAMES).round().astype(int))
        for name, frames in (("plain", result.plain), ("twisted", result.twisted)):
            for vector in range(1, self.space.n):
                self.arrows[f"{name}_{vector + 1}"].points = self._arrows(shown, frames[:, vector])
        self.arrows["velocity"].points = self._arrows(shown[-1:], result.twisted[:, 0])
        self.start.position = tuple(self._at(self.q[None])[0])
        self._report(result)

    def _at(self, q: np.ndarray) -> np.ndarray:
        """Positions (..., 3) in the scene, in its metres, of points q (..., nq)."""
        placed: np.ndarray = (self.space.place(q) - self._middle) * self._scale
        return placed

    def _arrows(self, shown: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Arrows of vectors at points `shown` of the curve; the longest at its start has length `_VECTOR`."""
        points = self.result.curve[shown]
        moved = self.space.arrow(points, vectors[shown])
        largest = float(np.nanmax(np.linalg.norm(self._unit_arrows(), axis=1)))
        return drawing.arrows(self._at(points), moved * _VECTOR / max(largest, 1e-300))

    def _unit_arrows(self) -> np.ndarray:
        """The frame's vectors at the start, (n, 3), in the space of the picture before it is scaled."""
        first = self.result.twisted[0]
        return self.space.arrow(np.tile(self.q, (len(first), 1)), first)

    def _draw_ball(self, result: DrawnSpace) -> None:
        space = self.space
        if space.n == 3:
            self.lines["circles"].visible = self.lines["spokes"].visible = False
            ends = self._at(result.spokes[:, -1])
            faces = sphere_faces()
            faces = faces[np.isfinite(ends[faces]).all(axis=(1, 2))]
            self._mesh("ball", np.nan_to_num(ends), faces, GAP, 0.25)
            return
        spokes = self._at(result.spokes)
        kept = [drawing.segments(spoke) for spoke in spokes[::_SPOKES]]
        self.lines["spokes"].points = _finite(np.concatenate(kept))
        thirds = [(POINTS - 1) // 3, 2 * (POINTS - 1) // 3, POINTS - 1]
        circles = [spokes[:, k] for k in thirds]
        closed = [drawing.segments(np.concatenate([circle, circle[:1]])) for circle in circles]
        self.lines["circles"].points = _finite(np.concatenate(closed))

    def _draw_grid(self) -> None:
        """Coordinate lines; on two coordinates also the surface, or ellipses of the metric."""
        nq, (low, high) = self.space.nq, self.box
        steps = np.linspace(0.0, 1.0, _FINE)
        lines = []
        for k in range(nq):
            others = [np.linspace(0.0, 1.0, _LINES if nq == 2 else 2)] * (nq - 1)
            for fixed in np.stack(np.meshgrid(*others, indexing="ij"), axis=-1).reshape(-1, nq - 1):
                line = np.empty((_FINE, nq))
                line[:, k] = steps
                line[:, [j for j in range(nq) if j != k]] = fixed
                lines.append(drawing.segments(self._at(low + line * (high - low))))
        self.lines["grid"].points = _finite(np.concatenate(lines))
        self._label(low, high)
        if nq == 3:
            self.lines["metric"].visible = False
        elif self.space.embedded:
            self.lines["metric"].visible = False
            square = np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1).reshape(-1, 2)
            vertices = self._at(low + square * (high - low))
            number = np.arange(_FINE * _FINE).reshape(_FINE, _FINE)
            a, b, c, d = (
                x.ravel() for x in (number[:-1, :-1], number[1:, :-1], number[:-1, 1:], number[1:, 1:])
            )
            faces = np.concatenate([np.stack([a, b, c], 1), np.stack([b, d, c], 1)])
            faces = faces[np.isfinite(vertices[faces]).all(axis=(1, 2))]
            self._mesh("surface", np.nan_to_num(vertices), faces, (226, 228, 236), 0.75)
        else:
            self._draw_ellipses(low, high)

    def _draw_ellipses(self, low: np.ndarray, high: np.ndarray) -> None:
        some = np.linspace(0.1, 0.9, 7)
        q = low + np.stack(np.meshgrid(some, some), axis=-1).reshape(-1, 2) * (high - low)
        moves = self.space.unit_circles(q)
        sizes = np.abs(moves).max(axis=(1, 2))
        cell = float((high - low).min()) / 7.0
        wide = 0.45 * cell / max(float(np.nanquantile(sizes, 0.8)), 1e-300)
        rings = self._at(q[:, None] + np.clip(wide * moves, -cell, cell))
        self.lines["metric"].points = _finite(np.concatenate([drawing.segments(ring) for ring in rings]))

    def _label(self, low: np.ndarray, high: np.ndarray) -> None:
        """Write coordinates at the box's first corner, and at the other ends of the edges that meet there."""
        ends = low + np.concatenate([np.zeros((1, len(low))), np.diag(high - low)])
        words = [f"q = ({', '.join(f'{x:.3g}' for x in low)})"]
        words += [f"q_{k} = {value:.3g}" for k, value in enumerate(high)]
        for label, where, text in zip(self.labels, self._at(ends), words, strict=True):
            label.text, label.position = text, tuple(np.nan_to_num(where))

    def _mesh(
        self, name: str, vertices: np.ndarray, faces: np.ndarray, color: drawing.Rgb, opacity: float
    ) -> None:
        self.desk.client.scene.add_mesh_simple(
            f"/{self.key}/{name}",
            vertices,
            faces,
            color=color,
            opacity=opacity,
            side="double",
            cast_shadow=False,
            receive_shadow=False,
        )

    def _report(self, result: DrawnSpace) -> None:
        space, reached = self.space, max(result.reached, 2)
        angle, lengths = np.degrees(result.angle[:reached]), result.lengths[:reached]
        drawing.fill(self.plots[0], lengths, angle)
        norms = np.round(result.norms[1, :reached], 9)  # so that the plot does not show round-off
        drawing.fill(self.plots[1], lengths, norms[:, 0], norms[:, 1])
        rows = [
            ("angle between the two at the end", f"{angle[-1]:.2f}&deg;"),
            ("lengths change by", f"{np.abs(result.norms[1, :reached] - 1.0).max():.1e}"),
        ]
        if self.curvature is not None and space.n == 2:
            ratio = space.circumference(result) / (2.0 * np.pi * self.around)
            rows.append(("Gauss's curvature K here", f"{self.curvature:.4g}"))
            rows.append(("the ball's edge over 2 &pi; r", f"{ratio:.4f}"))
            rows.append(
                (
                    "1 &minus; K r&sup2; / 6, without torsion",
                    f"{1.0 - self.curvature * self.around**2 / 6.0:.4f}",
                )
            )
        elif self.curvature is not None:
            rows.append(("scalar curvature here", f"{self.curvature:.4g}"))
        left = result.reached < POINTS
        note = (
            f"The geodesic leaves the chart after {result.lengths[result.reached - 1]:.3g}." if left else ""
        )
        self.numbers.content = drawing.readout(rows, as_html(note))

    # --- a file ------------------------------------------------------------------------------------------

    def _save(self, event: object) -> None:
        """Send the picture to the browser as a PDF, drawn by matplotlib as the camera sees it."""
        from connections.plots.scene import Scene, figure_scene

        camera = self.desk.client.camera
        lines = [(handle.points, _color(handle), width) for handle, width in self._drawn()]
        arrows = [(handle.points, _color(handle)) for handle in self.arrows.values() if handle.visible]
        labels = [(np.array(label.position), label.text) for label in self.labels]
        scene = Scene(lines, arrows, labels)
        figure = figure_scene(scene, np.array(camera.position) - np.array(camera.look_at))
        stream = BytesIO()
        figure.savefig(stream, format="pdf")
        self.desk.client.send_file_download("connections.pdf", stream.getvalue(), save_immediately=True)

    def _drawn(self) -> list[tuple[Any, float]]:
        widths = {"grid": 0.4, "metric": 0.5, "spokes": 0.4, "circles": 0.9, "path": 1.4}
        return [(self.lines[name], width) for name, width in widths.items() if self.lines[name].visible]


def _color(handle: Any) -> tuple[int, int, int]:
    """(red, green, blue) of lines or arrows that all have one colour."""
    red, green, blue = np.asarray(handle.colors).reshape(-1, 3)[0]
    return int(red), int(green), int(blue)


def _finite(segments: np.ndarray) -> np.ndarray:
    """Segments (m, 2, 3) whose ends are finite; one segment of length zero if there are none."""
    kept = segments[np.isfinite(segments).all(axis=(1, 2))]
    return kept if len(kept) else np.zeros((1, 2, 3))
