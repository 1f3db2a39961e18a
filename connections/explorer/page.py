"""The page of one browser: a choice of views, their controls, and the thread that draws."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from connections._shown import as_html, shown
from connections.explorer.drawing import Desk, View, camera_distance
from connections.explorer.robot import Robot
from connections.explorer.robot_view import RobotView
from connections.explorer.space_views import ParallelogramView, PointMassView, TransportView

if TYPE_CHECKING:
    import viser

LARGEST_BETA = 10.0  # kg/m, end of the slider
NARROW = 1100  # pixels, as the screen counts them, of a window without room for the plots beside the rest
_FIELD = 0.7  # rad, vertical field of view
_TICK = 1.0 / 20.0  # s between the pictures of a film


class Page:
    """The page of one browser. Controls only set a flag; one thread draws, with the latest values.

    Parameters
    ----------
    client : the browser.
    robot : a robot to show, or None.
    beta : value of the slider at first, kg/m.
    """

    def __init__(self, client: viser.ClientHandle, robot: Robot | None, beta: float) -> None:
        self.client = client
        self._stale, self._closed = threading.Event(), False
        self._aimed = (0.0, np.zeros(3))  # aspect of the picture for which the camera was aimed; its position
        narrow = client.camera.image_width < NARROW  # read now: the panels take their part of the picture
        gui = client.gui
        panel = gui.add_panel()
        plots = panel.add_tab("Plots")
        panel.dock_left()
        panel.set_width(380)
        gui.main_panel.dock_right()
        gui.main_panel.set_width(340 if narrow else 400)
        desk = Desk(client, plots, self.changed)
        self.status = gui.add_html("")
        makers: list[Any] = [TransportView, ParallelogramView, PointMassView]
        titles = [make.title for make in makers]
        if robot is not None:
            titles.insert(0, f"Robot: {shown(robot.name)}")
        self._say("Computing ...")
        self.choice = desk.dropdown("view", titles)
        largest = max(LARGEST_BETA, abs(beta))
        self.beta = desk.slider(
            "beta [kg/m]", -largest, largest, 0.1, beta, hint="C = beta (v x): how much torsion."
        )
        views: list[View] = [] if robot is None else [RobotView(desk, robot, titles[0])]
        views += [make(desk) for make in makers]
        self.views: dict[str, View] = dict(zip(titles, views, strict=True))
        self.choice.on_update(self._chosen)
        self._chosen(None)
        if narrow:
            panel.minimize()  # a click brings it back
        client.camera.on_update(self._reshaped)
        self._thread = threading.Thread(target=self._work, name="explorer page", daemon=True)
        self._thread.start()

    @property
    def view(self) -> View:
        """The view that is shown."""
        return self.views[str(self.choice.value)]

    def changed(self, event: Any) -> None:
        """Ask the thread to draw the view again."""
        self._stale.set()

    def close(self, wait: float = 0.0) -> None:
        """End the thread after its current computation.

        Parameters
        ----------
        wait : longest time to wait for its end, s.
        """
        self._closed = True
        self._stale.set()
        self._thread.join(wait)

    def _chosen(self, event: Any) -> None:
        """Show only the chosen view, and aim the camera at it."""
        for view in self.views.values():
            view.show(view is self.view)
        self.beta.visible = self.view.uses_beta
        if self.view.drawn:
            self._aim(self.view)
        self.changed(event)

    def _work(self) -> None:
        before = time.monotonic()
        while True:
            self._stale.wait(_TICK if self.view.running else None)
            self._stale.clear()
            if self._closed:
                return
            now = time.monotonic()
            view, elapsed, before = self.view, min(now - before, 0.2), now
            view.advance(elapsed)
            self._draw(view)
            time.sleep(max(0.0, 0.5 * _TICK - (time.monotonic() - now)))

    def _draw(self, view: View) -> None:
        """Compute, then draw in an atomic block, whose messages the browser gets together."""
        if not view.drawn:
            self._say("Computing ... (the first time takes some seconds)")
        try:
            view.compute(float(self.beta.value))
            with self.client.atomic():
                view.draw()
        except (ValueError, RuntimeError, ArithmeticError) as error:
            reason = " ".join(str(error).split())
            self._say(f"Cannot be drawn: {reason}. The picture is the one before.")
        else:
            if not view.drawn:
                view.drawn = True
                view.show(view is self.view)
                self._aim(view)
            self._say("")

    def _aim(self, view: View) -> None:
        """Put the camera where the view's `sphere` is visible."""
        camera, (middle, radius) = self.client.camera, view.sphere
        outlook = np.array(view.outlook) / np.linalg.norm(view.outlook)
        position = np.array(middle) + camera_distance(radius, _FIELD, camera.aspect) * outlook
        self._aimed = camera.aspect, position
        with self.client.atomic():
            camera.fov = _FIELD
            camera.up_direction = (0.0, 0.0, 1.0)
            camera.position = position
            camera.look_at = np.array(middle)

    def _reshaped(self, camera: viser.CameraHandle) -> None:
        """Aim again if the window or its panels changed, unless a hand has moved the camera."""
        aspect, position = self._aimed
        untouched = np.allclose(camera.position, position, rtol=1e-4, atol=1e-4)
        if untouched and abs(camera.aspect - aspect) > 0.01 * aspect:
            self._aim(self.view)

    def _say(self, text: str) -> None:
        """Show a sentence above the controls, as text, because an error contains names of files."""
        content = f'<div style="margin:0.3em 0.8em">{as_html(text)}</div>' if text else ""
        if self.status.content != content:
            self.status.content = content
            self.status.visible = bool(text)
