"""The page of one browser: a choice of views, their controls, and the thread that draws."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from connections._shown import as_html, shown
from connections.engines.notices import heard_by
from connections.explorer.drawing import Desk, View, camera_distance
from connections.explorer.manifold import Manifold
from connections.explorer.manifold_view import ManifoldView
from connections.explorer.page_face import DRAWN
from connections.explorer.robot import Robot
from connections.explorer.robot_view import RobotView
from connections.explorer.space_views import ParallelogramView, PointMassView, TransportView

if TYPE_CHECKING:
    import viser

LARGEST_BETA = 10.0  # kg/m, end of the slider
NARROW = 1100  # pixels, as the screen counts them, of a window without room for the plots beside the rest
_FIELD = 0.7  # rad, vertical field of view
_FIRST = "Computing the first picture. Compiled now, once:"
_TICK = 1.0 / 20.0  # s between the pictures of a film


class Page:
    """The page of one browser. Controls only set a flag; one thread draws, with the latest values.

    Parameters
    ----------
    client : the browser.
    subject : a robot or a space of the user's to show first, or None.
    beta : value of the slider at first, kg/m.
    """

    def __init__(self, client: viser.ClientHandle, subject: Robot | Manifold | None, beta: float) -> None:
        self.client = client
        self._stale, self._closed = threading.Event(), False
        self._compiled: list[tuple[str, float, float]] = []  # what, for about how long, and since when, s
        self._hearing = ExitStack()
        self._hearing.enter_context(heard_by(self._hear))
        self._revealed = False
        self._aimed = (0.0, np.zeros(3))  # aspect of the picture for which the camera was aimed; its position
        narrow = client.camera.image_width < NARROW  # read now: the panels take their part of the picture
        gui = client.gui
        panel = gui.add_panel()
        plots = panel.add_tab("Plots")
        panel.dock_left()
        panel.set_width(380)
        if narrow:
            panel.minimize()  # a click brings it back
        gui.main_panel.dock_right()
        gui.main_panel.set_width(340 if narrow else 400)
        desk = Desk(client, plots, self.changed)
        self.status = gui.add_html("")
        makers: list[Any] = [TransportView, ParallelogramView, PointMassView]
        titles = [make.title for make in makers]
        if subject is not None:
            kind = "Robot" if isinstance(subject, Robot) else "Space"
            titles.insert(0, f"{kind}: {shown(subject.name)}")
        self._say(_FIRST)
        self.choice = desk.dropdown("view", titles)
        largest = max(LARGEST_BETA, abs(beta))
        self.beta = desk.slider(
            "beta [kg/m]", -largest, largest, 0.1, beta, hint="C = beta (v x): how much torsion."
        )
        views: list[View] = []
        if isinstance(subject, Robot):
            views.append(RobotView(desk, subject, titles[0]))
        elif subject is not None:
            views.append(ManifoldView(desk, subject, titles[0]))
        views += [make(desk) for make in makers]
        self.views: dict[str, View] = dict(zip(titles, views, strict=True))
        self.choice.on_update(self._chosen)
        self._chosen(None)
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
        self._hearing.close()
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
            self._say(f"{_FIRST} {as_html(view.compiles)}")
        try:
            view.compute(float(self.beta.value))
            with self.client.atomic():
                view.draw()
        except (ValueError, RuntimeError, ArithmeticError) as error:
            reason = " ".join(str(error).split())
            before = " The picture is the one before." if view.drawn else ""
            self._say(f"Cannot be drawn: {as_html(reason)}.{before}")
            self._reveal()
        else:
            if not view.drawn:
                view.drawn = True
                view.show(view is self.view)
                self._aim(view)
            self._reveal()
            self._compiled.clear()
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

    def _reveal(self) -> None:
        """Remove the skeleton of the page (`page_face`): there is a picture, or an error."""
        if not self._revealed:
            self.client.gui.add_html(f'<span id="{DRAWN}"></span>')
            self._revealed = True

    def _hear(self, what: str, seconds: float) -> None:
        """Add to the list of what is compiled, which any page of this server may have asked for."""
        self._compiled.append((what, seconds, time.monotonic()))
        lines, now = [], [*(since for _, _, since in self._compiled[1:]), None]
        for (name, about, since), end in zip(self._compiled, now, strict=True):
            took = f"about {about:.0f} s" if end is None else f"&#10003; {end - since:.0f} s"
            lines.append(f"<li>{as_html(name)}: {took}</li>")
        self._say(f"{_FIRST}<ul style='margin:0.3em 0;padding-left:1.4em'>{''.join(lines)}</ul>")

    def _say(self, text: str) -> None:
        """Show HTML above the controls; text of others, as in errors, goes through `as_html` first."""
        content = f'<div style="margin:0.3em 0.8em">{text}</div>' if text else ""
        if self.status.content != content:
            self.status.content = content
            self.status.visible = bool(text)
