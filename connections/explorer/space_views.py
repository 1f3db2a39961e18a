"""The views of R^3: a frame carried along a geodesic, the open parallelogram, the controlled point mass."""

from __future__ import annotations

import numpy as np

from connections.explorer import drawing
from connections.explorer.drawing import DARK, GAP, GREY, PLAIN, PLAIN_THIRD, TWISTED, TWISTED_THIRD
from connections.explorer.point_mass import track, without_torsion
from connections.explorer.space import ADMISSIBLE, KINDS, LENGTH, carry, parallelogram

_SIZE = 0.45  # m, of a carried vector of unit length


class TransportView(drawing.View):
    """A geodesic, and the frame that two connections carry along it."""

    title = "Frames along a geodesic"
    compiles = "geodesics and transport in R^3"
    sphere = ((0.0, 0.0, 0.0), 2.3)
    outlook = (1.6, -6.6, 2.6)

    def __init__(self, desk: drawing.Desk) -> None:
        super().__init__(desk, "transport")
        gui, scene = desk.client.gui, desk.client.scene
        with self.folder:
            self.kind = desk.dropdown(
                "connection", tuple(KINDS), hint="What its contorsion D is, [W] Fig. 3."
            )
            self.heading = desk.slider("heading [deg]", -180.0, 180.0, 5.0, 0.0, hint="Of the velocity.")
            self.strips = desk.checkbox("strips", True, hint="What the second carried vector sweeps out.")
            self.numbers = gui.add_html("")
            gui.add_html(
                drawing.legend(
                    (
                        (DARK, "geodesic, and its velocity"),
                        (TWISTED, "carried by the chosen connection: the second vector,"),
                        (TWISTED_THIRD, "and the third"),
                        (PLAIN, "carried without torsion (Levi-Civita): the second,"),
                        (PLAIN_THIRD, "and the third"),
                    ),
                    "Torsion does not move the geodesic of an admissible connection. It turns what is "
                    "carried along it about the velocity, by &minus;&beta; for each metre.",
                )
            )
        self.floor((0.0, 0.0, -0.9), 8.0, 0.5)
        line = np.zeros((1, 2, 3))
        self.path = scene.add_line_segments("/transport/path", line, DARK, thickness=0.018)
        self.straight = scene.add_line_segments("/transport/straight", line, GREY, thickness=0.008)
        self.triads = [
            scene.add_arrows(f"/transport/{name}", line, color, **drawing.arrow_sizes(0.5))
            for name, color in (
                ("plain_3", PLAIN_THIRD),
                ("plain_2", PLAIN),
                ("carried_3", TWISTED_THIRD),
                ("carried_2", TWISTED),
                ("velocity", DARK),
            )
        ]
        self.plots.append(
            desk.plot(
                "Turn about the velocity",
                "length [m]",
                "turn [deg]",
                (("carried", TWISTED, False), ("minus beta times length", GREY, True)),
            )
        )
        self.plots.append(
            desk.plot(
                "Lengths of the carried vectors",
                "length [m]",
                "|z| [m/s]",
                (("second", TWISTED, False), ("third", TWISTED_THIRD, True)),
            )
        )

    def compute(self, beta: float) -> None:
        """Carry the frame."""
        self.beta, kind = beta, str(self.kind.value)
        self.admissible = kind == ADMISSIBLE
        self.result = carry(beta, kind, np.radians(self.heading.value))

    def draw(self) -> None:
        """Draw the frames, the strips and the plots."""
        result = self.result
        shown, still = result.shown, result.still
        points = result.points[shown]
        straight = result.points[0] + result.lengths[:, None] * still[0]
        self.path.points = drawing.segments(result.points)
        self.straight.points = drawing.segments(straight)
        origins = straight[shown]
        self.triads[0].points = drawing.arrows(origins, np.tile(_SIZE * still[2], (len(shown), 1)))
        self.triads[1].points = drawing.arrows(origins, np.tile(_SIZE * still[1], (len(shown), 1)))
        self.triads[2].points = drawing.arrows(points, _SIZE * result.frames[shown, 2])
        self.triads[3].points = drawing.arrows(points, _SIZE * result.frames[shown, 1])
        self.triads[4].points = drawing.arrows(points[-1:], _SIZE * result.frames[-1:, 0])
        self._draw_strip("carried_strip", result.points, _SIZE * result.frames[:, 1], TWISTED)
        self._draw_strip("plain_strip", straight, np.tile(_SIZE * still[1], (len(straight), 1)), PLAIN)
        self._report()

    def _report(self) -> None:
        result = self.result
        turn = np.degrees(result.turn)
        expected = -np.degrees(self.beta) * result.lengths
        drawing.fill(self.plots[0], result.lengths, turn, expected if self.admissible else 0.0 * turn)
        norms = np.round(np.linalg.norm(result.frames, axis=2), 9)  # so that the plot does not show round-off
        drawing.fill(self.plots[1], result.lengths, norms[:, 1], norms[:, 2])
        rows = [(f"turn over {LENGTH:g} m", f"{turn[-1]:.1f}&deg;")]
        if self.admissible:
            rows.append(("&minus;&beta; times length", f"{expected[-1]:.1f}&deg;"))
        rows.append(("geodesic leaves the straight line by", f"{result.bend:.1e} m"))
        rows.append(("lengths change by", f"{result.stretch.max():.1e}"))
        self.numbers.content = drawing.readout(rows)

    def _draw_strip(self, name: str, points: np.ndarray, vectors: np.ndarray, color: drawing.Rgb) -> None:
        vertices, faces = drawing.strip(points, points + vectors)
        self.desk.client.scene.add_mesh_simple(
            f"/transport/{name}",
            vertices,
            faces,
            color=color,
            opacity=0.3,
            side="double",
            cast_shadow=False,
            receive_shadow=False,
            visible=bool(self.strips.value),
        )


class ParallelogramView(drawing.View):
    """Two ways around a parallelogram, whose ends do not meet."""

    title = "The open parallelogram"
    compiles = "geodesics and transport in R^3"
    sphere = ((0.3, 0.3, 0.1), 0.75)
    outlook = (1.3, -1.7, 0.9)

    def __init__(self, desk: drawing.Desk) -> None:
        super().__init__(desk, "parallelogram")
        gui, scene = desk.client.gui, desk.client.scene
        with self.folder:
            self.kind = desk.dropdown(
                "connection", tuple(KINDS), hint="What its contorsion D is, [W] Fig. 3."
            )
            self.side = desk.slider("side [m]", 0.05, 1.0, 0.05, 0.6)
            self.numbers = gui.add_html("")
            gui.add_html(
                drawing.legend(
                    (
                        (TWISTED, "along u, then along w as carried there"),
                        (PLAIN, "along w, then along u as carried there"),
                        (GAP, "what is missing: T(u, w), to second order in the side"),
                    ),
                    "Torsion is the gap, per area, that remains between the two ways in the limit of small "
                    "sides. Halve the side: the ratio above comes nearer to one.",
                )
            )
        self.floor((0.3, 0.3, -0.4), 3.0, 0.25)
        line = np.zeros((1, 2, 3))
        names = (("u", TWISTED), ("carried_w", TWISTED), ("w", PLAIN), ("carried_u", PLAIN))
        self.sides = [
            scene.add_line_segments(f"/parallelogram/{name}", line, color, thickness=0.012)
            for name, color in names
        ]
        self.gap = scene.add_arrows("/parallelogram/gap", line, GAP, **drawing.arrow_sizes(0.4))
        self.labels = [
            scene.add_label(
                f"/parallelogram/label_{k}", text, anchor="top-center" if k < 2 else "bottom-center"
            )
            for k, text in enumerate(("u", "w, carried along u", "w", "u, carried along w"))
        ]
        self.plots.append(
            desk.plot(
                "The gap against the side",
                "side [m]",
                "gap [m]",
                (("gap", GAP, False), ("side^2 |T(u, w)|", GREY, True)),
            )
        )
        self.some = np.linspace(0.0, 1.0, 11)[1:]
        self._family: tuple[float, str] | None = None

    def compute(self, beta: float) -> None:
        """Compute the parallelogram, and smaller and larger ones for the plot."""
        kind, side = str(self.kind.value), float(self.side.value)
        self.result = parallelogram(beta, side, kind)
        if self._family != (beta, kind):
            others = [parallelogram(beta, length, kind) for length in self.some]
            self.gaps = np.array([np.linalg.norm(other.gap[1] - other.gap[0]) for other in others])
            self._family = (beta, kind)

    def draw(self) -> None:
        """Draw the two ways and the gap."""
        result = self.result
        for handle, label, points in zip(self.sides, self.labels, result.sides, strict=True):
            handle.points = drawing.segments(points[::8])
            label.position = tuple(points[len(points) // 2])
        start, end = result.gap
        self.gap.points = drawing.arrows(start, end - start)
        drawing.fill(self.plots[0], self.some, self.gaps, self.some**2 * np.linalg.norm(result.torsion))
        gap, expected = (float(np.linalg.norm(a)) for a in (end - start, result.expected))
        self.numbers.content = drawing.readout(
            (
                ("gap", f"{gap:.4f} m"),
                ("side&sup2; |T(u, w)|", f"{expected:.4f} m"),
                ("ratio", f"{gap / expected:.4f}" if expected > 1e-12 else "no torsion in this plane"),
            )
        )


class PointMassView(drawing.FilmView):
    """The controlled point mass, with and without torsion."""

    title = "The controlled point mass"
    compiles = "the closed loop of the point mass"
    sphere = ((2.2, 0.2, 0.0), 2.6)
    outlook = (-4.6, -5.4, 2.6)

    def __init__(self, desk: drawing.Desk) -> None:
        super().__init__(desk, "point_mass")
        gui, scene = desk.client.gui, desk.client.scene
        with self.folder:
            self.film = drawing.Film(desk, 10.0, 1.0)
            self.numbers = gui.add_html("")
            gui.add_html(
                drawing.legend(
                    (
                        (TWISTED, "C = &beta; (v &times;)"),
                        (PLAIN, "C = 0"),
                        (DARK, "desired motion, (t + sin t, 0, 0) m"),
                        (GAP, "force of the controller, 0.3 m per newton"),
                    ),
                    "The same law with two admissible C, and a mass estimate that is 10 % too small: the "
                    "Lyapunov function falls in the same way, the motions differ.",
                )
            )
        self.floor((4.7, 0.0, -1.2), 14.0, 0.5)
        line = np.zeros((1, 2, 3))
        self.path = scene.add_line_segments("/point_mass/path", line, TWISTED, thickness=0.035)
        self.plain = scene.add_line_segments("/point_mass/plain", line, PLAIN, thickness=0.025)
        self.desired = scene.add_line_segments("/point_mass/desired", line, DARK, thickness=0.015)
        self.balls = [
            scene.add_icosphere(f"/point_mass/ball_{k}", radius=0.13 - 0.02 * k, color=color)
            for k, color in enumerate((TWISTED, PLAIN, DARK))
        ]
        self.force = scene.add_arrows("/point_mass/force", line, GAP, **drawing.arrow_sizes(1.5))
        pair = (("with torsion", TWISTED, False), ("beta = 0", PLAIN, False))
        self.plots += [
            desk.plot("Tracking error", "time [s]", "|q - q_d| [m]", pair),
            desk.plot("Vertical velocity", "time [s]", "v_z [m/s]", pair),
            desk.plot("Control force", "time [s]", "|tau| [N]", pair),
        ]
        self._beta: float | None = None
        self._drawn = False

    def compute(self, beta: float) -> None:
        """Simulate."""
        if beta != self._beta:
            self.result, self._beta, self._drawn = track(beta), beta, False
            without_torsion()

    def draw(self) -> None:
        """Draw the paths if beta has changed, and move the balls."""
        if not self._drawn:
            self._draw_paths()
            self._drawn = True
        k = drawing.index(self.film.time, self.result.times)
        places = (self.result.points[k], without_torsion().points[k], self.result.desired[k])
        for ball, place in zip(self.balls, places, strict=True):
            ball.position = tuple(place)
        self.force.points = drawing.arrows(places[0], 0.3 * self.result.force[k])

    def _draw_paths(self) -> None:
        result, plain = self.result, without_torsion()
        self.path.points = drawing.segments(result.points[::4])
        self.plain.points = drawing.segments(plain.points[::4])
        self.desired.points = drawing.segments(result.desired[::10])
        some = slice(None, None, 4)
        for plot, name in zip(self.plots, ("error", "sideways", "force"), strict=True):
            curves = [getattr(motion, name)[some] for motion in (result, plain)]
            curves = [np.linalg.norm(c, axis=1) if c.ndim == 2 else c for c in curves]
            drawing.fill(plot, result.times[some], *curves)
        both = (result.result, plain.result)
        rows = (
            ("rms error [m]", [f"{r.rms_error:.3f}" for r in both]),
            ("effort [N&sup2; s]", [f"{r.effort:.1f}" for r in both]),
            ("peak force [N]", [f"{r.peak_force:.2f}" for r in both]),
            ("zero crossings of v_z", [f"{r.zero_crossings}" for r in both]),
            ("energy above 1 Hz", [f"{100 * r.high_frequency:.0f} %" for r in both]),
        )
        head = ("", f"&beta; = {result.result.beta:g}", "&beta; = 0")
        self.numbers.content = drawing.readout([head, *((what, *pair) for what, pair in rows)])
