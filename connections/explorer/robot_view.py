"""The view of a robot: its free motion, its clusters, a tangent vector that two connections carry along."""

from __future__ import annotations

from typing import Any

import numpy as np

from connections._shown import as_html
from connections.control.results import ContractionRates
from connections.explorer import drawing
from connections.explorer.body_shapes import depth, extent, shapes, tree_html
from connections.explorer.drawing import DARK, GAP, PLAIN, TWISTED
from connections.explorer.robot import VELOCITY, Robot, RobotMotion

_TRACES = 13  # arrows along the path of the chosen body
_VEIL = 0.25  # opacity of surfaces around ellipsoids


class RobotView(drawing.FilmView):
    """A robot in free motion.

    Parameters
    ----------
    desk : the page to draw on.
    robot : the robot.
    title : its name in the list of views.
    """

    compiles = "the recursions of the robot"
    uses_beta = False
    outlook = (1.6, -2.2, 1.1)

    def __init__(self, desk: drawing.Desk, robot: Robot, title: str) -> None:
        self.robot, self.title = robot, title
        super().__init__(desk, "robot")
        self.shapes = shapes(robot.model)
        self.centers = np.stack([shape.center for shape in self.shapes])
        self._moved: tuple[Any, ...] | None = None  # values of the controls when the motion was computed
        self._carried: tuple[Any, ...] | None = None
        self._rates: ContractionRates | None = None  # of the motion
        self._drawn, self._seed = False, 0
        self.motion: RobotMotion
        self._add_controls()
        start = robot.poses(robot.start())
        self.size = extent(robot.model, start[0])
        self._add_bodies()
        self._stand(start[0] + np.einsum("nab,nb->na", start[1], self.centers))
        self._add_arrows()
        self._add_plots()

    # --- building ----------------------------------------------------------------------------------------

    def _add_controls(self) -> None:
        desk, gui, robot = self.desk, self.desk.client.gui, self.robot
        names = robot.model.body_names
        with self.folder:
            self.film = drawing.Film(desk, 4.0, 2.0)
            self.gamma = desk.slider(
                "torsion gamma",
                -2.0,
                2.0,
                0.05,
                1.0,
                hint="How much torsion. 0: none (Christoffel symbols). 1: that of the body-level factor "
                "(v x*) I. C = C* + gamma (C_x - C*).",
            )
            self._vectors = drawing.labels((*robot.components, VELOCITY))
            self.vector = desk.dropdown(
                "carried", self._vectors, hint="The unit velocity of a joint, or the motion's own."
            )
            self._bodies = drawing.labels(names)
            order = np.argsort(-depth(robot.model), kind="stable")
            self.body = desk.dropdown("path of", [self._bodies[body] for body in order])
            self.ellipsoids = desk.checkbox(
                "ellipsoids", not robot.surfaces, hint="Of the links' inertias, with bars between joints."
            )
            self.ellipsoids.visible = bool(robot.surfaces)  # otherwise there is nothing else to draw
            self.ellipsoids.on_update(lambda _: self._dress())
            self.contraction = desk.checkbox(
                "contraction rates",
                False,
                hint="How fast neighbouring free motions separate: a bound that is proved, and an indicator "
                "that is none.",
            )
            self.numbers = gui.add_html("")
            gui.add_html(
                drawing.legend(
                    (
                        (PLAIN, "carried without torsion (Levi-Civita)"),
                        (TWISTED, "carried with torsion"),
                        (DARK, "path of the chosen body's centre of mass"),
                    ),
                    "Free motion: no gravity, no forces, a geodesic of the kinetic-energy metric, the same "
                    "for every gamma. Arrows: the velocity of each centre of mass under the carried joint "
                    f"velocity. Ellipsoids: the links' inertias.<br>{as_html(robot.missing)}",
                )
            )
            with gui.add_folder("Cluster tree", expand_by_default=len(names) <= 16):
                gui.add_html(tree_html(robot.model))
            with gui.add_folder("Motion", expand_by_default=False):
                self.duration = desk.slider("duration [s]", 0.5, 10.0, 0.5, 4.0)
                self.speed = desk.slider("speed", 0.1, 3.0, 0.1, 1.0, hint="Multiplies the velocities below.")
                button = gui.add_button("Another motion")
                button.on_click(self._push)
                v = robot.push(self._seed)
                self.velocities = [
                    desk.slider(f"v: {name}", -1.0, 1.0, 0.01, round(float(x), 2))
                    for name, x in zip(robot.components, v, strict=True)
                ]
            with gui.add_folder("Posture at the start", expand_by_default=False):
                q = robot.start()
                self.postures = {}
                for joint in robot.adjustable:
                    value = float(q[robot.model.configuration_slice(joint)][0])
                    reach = np.pi if abs(value) <= np.pi else abs(value)
                    self.postures[joint] = desk.slider(f"q: {joint}", -reach, reach, 0.01, value)

    def _add_bodies(self) -> None:
        scene, size = self.desk.client.scene, self.size
        self.frames, self.skeletons = [], []
        for number, shape in enumerate(self.shapes):
            self.frames.append(scene.add_frame(f"/robot/body_{number}", show_axes=False))
            name = f"/robot/body_{number}/skeleton"
            self.skeletons.append(scene.add_frame(name, show_axes=False))
            axes = np.clip(shape.axes, 0.012 * size, 0.3 * size)
            if shape.axes.any():
                scene.add_icosphere(
                    f"{name}/inertia",
                    radius=1.0,
                    color=shape.color,
                    opacity=0.3,
                    scale=tuple(axes),
                    wxyz=_wxyz(shape.rotation),
                    position=tuple(shape.center),
                )
            scene.add_icosphere(f"{name}/joint", radius=0.02 * size, color=DARK, subdivisions=2)
            for k, end in enumerate(shape.ends):
                length = float(np.linalg.norm(end))
                scene.add_cylinder(
                    f"{name}/bar_{k}",
                    radius=0.010 * size,
                    height=length,
                    color=_darker(shape.color),
                    wxyz=_wxyz(_turn_z_to(end / length)),
                    position=tuple(0.5 * end),
                )
        self._add_surfaces()
        self._dress()

    def _add_surfaces(self) -> None:
        self.skins = []
        self.desk.client.scene.add_frame("/robot/ground", show_axes=False)
        for k, surface in enumerate(self.robot.surfaces):
            owner = "ground" if surface.body < 0 else f"body_{surface.body}"
            skin = self.desk.client.scene.add_mesh_simple(
                f"/robot/{owner}/surface_{k}",
                surface.vertices,
                surface.faces,
                color=surface.color,
                flat_shading=not surface.smooth,
                side="double",
            )
            self.skins.append(skin)

    def _dress(self) -> None:
        """Show surfaces, or ellipsoids within surfaces that let them be seen."""
        inner = bool(self.ellipsoids.value)
        covered = {surface.body for surface in self.robot.surfaces}
        for number, skeleton in enumerate(self.skeletons):
            skeleton.visible = inner or number not in covered
        for skin, surface in zip(self.skins, self.robot.surfaces, strict=True):
            opacity = min(surface.opacity, _VEIL) if inner else surface.opacity
            skin.opacity = None if opacity == 1.0 else opacity

    def _stand(self, points: np.ndarray) -> None:
        """Put the floor under the robot."""
        middle, size = points.mean(axis=0), self.size
        height = 0.0 if points[:, 2].min() >= 0.0 else float(points[:, 2].min()) - 0.15 * size
        self.floor((float(middle[0]), float(middle[1]), height), 6.0 * size, 0.25 * size)

    def _add_arrows(self) -> None:
        scene, size, line = self.desk.client.scene, self.size, np.zeros((1, 2, 3))
        large, small = drawing.arrow_sizes(0.4 * size), drawing.arrow_sizes(0.25 * size)
        pair = (("plain", PLAIN), ("twisted", TWISTED))
        self.arrows = [scene.add_arrows(f"/robot/{name}", line, color, **large) for name, color in pair]
        self.traces = [scene.add_arrows(f"/robot/trace_{name}", line, color, **small) for name, color in pair]
        self.path = scene.add_line_segments("/robot/path", line, DARK, thickness=0.008 * size)

    def _add_plots(self) -> None:
        pair = (("without torsion", PLAIN, False), ("with torsion", TWISTED, True))
        self.rates_plot = self.desk.plot(
            "Neighbouring free motions: contraction rates",
            "time [s]",
            "rate [1/s]",
            (("bound", DARK, False), ("indicator", GAP, True)),
        )
        self.plots += [
            self.desk.plot(
                "Angle between the two carried vectors",
                "time [s]",
                "angle [deg]",
                (("angle", TWISTED, False),),
            ),
            self.desk.plot("Their lengths, sqrt(z' H z)", "time [s]", "length [sqrt(J)]", pair),
            self.desk.plot("Their components along the chosen joint", "time [s]", "z [rad/s, m/s]", pair),
            self.rates_plot,
        ]

    # --- drawing -----------------------------------------------------------------------------------------

    def compute(self, beta: float) -> None:
        """Compute the motion if start or duration changed, and transport if gamma or the vector changed."""
        asked = self._question()
        if asked != self._moved:
            self._move()
            self._moved, self._carried, self._rates = asked, None, None
        if self.contraction.value and self._rates is None:
            self._rates = self.robot.rates(self.motion)
        choice = (self.gamma.value, self.vector.value, self.body.value, self.contraction.value)
        if choice != self._carried:
            self._carry()
            self._carried, self._drawn = choice, False

    def draw(self) -> None:
        """Draw path and plots if they changed, and the robot at the film's time."""
        if not self._drawn:
            self.film.cut(float(self.motion.times[-1]))
            self._draw_path()
            self._report()
            self._drawn = True
        k = drawing.index(self.film.time, self.motion.times)
        for number, frame in enumerate(self.frames):
            frame.position = tuple(self.motion.positions[k, number])
            frame.wxyz = _wxyz(self.motion.rotations[k, number])
        for handle, vectors in zip(self.arrows, self.vectors, strict=True):
            handle.points = drawing.arrows(self.points[k], vectors[k])

    def show(self, visible: bool) -> None:
        """Show the view, or hide it; the rates are shown where their box is ticked."""
        super().show(visible)
        self.rates_plot.visible = self.rates_plot.visible and bool(self.contraction.value)

    def _question(self) -> tuple[Any, ...]:
        velocities = tuple(slider.value for slider in self.velocities)
        postures = tuple(slider.value for slider in self.postures.values())
        return (self.duration.value, self.speed.value, velocities, postures)

    def _push(self, event: object) -> None:
        self._seed += 1
        for slider, value in zip(self.velocities, self.robot.push(self._seed), strict=True):
            slider.value = round(float(value), 2)

    def _move(self) -> None:
        q = self.robot.start()
        for joint, slider in self.postures.items():
            q[self.robot.model.configuration_slice(joint)] = slider.value
        v = float(self.speed.value) * np.array([slider.value for slider in self.velocities])
        self.motion = self.robot.move(q, v, float(self.duration.value))
        self.points = self.motion.world_points(self.centers)
        seen = self.points.reshape(-1, 3)
        middle = 0.5 * (seen.min(axis=0) + seen.max(axis=0))
        reach = float(np.linalg.norm(seen - middle, axis=1).max())
        self.sphere = ((float(middle[0]), float(middle[1]), float(middle[2])), reach + 0.15 * self.size)

    def _carry(self) -> None:
        motion, number = self.motion, self._component()
        start = motion.v[0] if number is None else np.eye(self.robot.model.nv)[number]
        self.pair = [motion.carry(value) @ start for value in (0.0, float(self.gamma.value))]
        self.turns = motion.turns(float(self.gamma.value))
        moved = [motion.point_velocities(z, self.centers) for z in self.pair]
        largest = max(float(np.linalg.norm(v, axis=2).max()) for v in moved)
        self.vectors = [0.35 * self.size / (largest or 1.0) * v for v in moved]

    def _draw_path(self) -> None:
        body = self._bodies.index(str(self.body.value))
        self.path.points = drawing.segments(self.points[:, body])
        shown = np.linspace(0, len(self.motion.times) - 1, _TRACES).round().astype(int)
        for handle, vectors in zip(self.traces, self.vectors, strict=True):
            handle.points = drawing.arrows(self.points[shown, body], vectors[shown, body])

    def _component(self) -> int | None:
        """The joint's component whose unit velocity is carried; None for the motion's own velocity."""
        chosen = self._vectors.index(str(self.vector.value))
        return None if chosen == len(self.robot.components) else chosen

    def _report(self) -> None:
        motion, pair = self.motion, self.pair
        angle = np.degrees(motion.angle(*pair))
        lengths = [motion.lengths(z) for z in pair]
        drawing.fill(self.plots[0], motion.times, angle)
        drawing.fill(self.plots[1], motion.times, *(_steady(length) for length in lengths))
        drawing.fill(self.plots[2], motion.times, *(z[:, self._component() or 0] for z in pair))
        drift = max(float(np.ptp(length) / length[0]) for length in lengths)
        rows = [
            ("degrees of freedom", f"{self.robot.model.nv}"),
            ("angle between the two at the end", f"{angle[-1]:.2f}&deg;"),
            ("largest turn of a carried frame", f"{np.degrees(self.turns.max()):.1f}&deg;"),
            ("lengths change by (relative)", f"{drift:.0e}"),
            ("kinetic energy", f"{motion.energy[0]:.4g} J"),
            ("it changes by", f"{np.ptp(motion.energy):.0e} J"),
        ]
        if self.contraction.value and self._rates is not None:
            rates = self._rates
            drawing.fill(self.rates_plot, motion.times, rates.bound, rates.indicator.real.max(axis=-1))
            growth = np.trapezoid(rates.bound, motion.times)
            rows.append(("neighbours' distance grows at most", f"{np.exp(growth):.3g} times"))
        self.rates_plot.visible = bool(self.contraction.value)
        stopped = as_html(motion.stopped)
        notes = [stopped] if motion.has_torsion else ["(v x*) I has no torsion here", stopped]
        self.numbers.content = drawing.readout(rows, "; ".join(filter(None, notes)))


def _steady(values: np.ndarray) -> np.ndarray:
    """Values (T,) rounded to three digits of the first, so that the plot does not show integration errors."""
    unit = 10.0 ** (np.floor(np.log10(max(float(values[0]), 1e-300))) - 2.0)
    rounded: np.ndarray = np.round(values / unit) * unit
    return rounded


def _wxyz(rotation: np.ndarray) -> tuple[float, float, float, float]:
    from scipy.spatial.transform import Rotation

    x, y, z, w = Rotation.from_matrix(rotation).as_quat()
    return float(w), float(x), float(y), float(z)


def _darker(color: drawing.Rgb) -> drawing.Rgb:
    red, green, blue = (int(0.65 * part) for part in color)
    return red, green, blue


def _turn_z_to(direction: np.ndarray) -> np.ndarray:
    """A rotation (3, 3) whose third column is the unit vector `direction`."""
    helper = np.eye(3)[int(np.argmin(np.abs(direction)))]
    first = np.cross(helper, direction)
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(direction, first), direction], axis=1)
