"""The explorer's server: a page for each browser; by default only this machine can reach it."""

from __future__ import annotations

import errno
import os
import socket
import time
import warnings
from contextlib import AbstractContextManager, redirect_stdout
from functools import partial
from io import StringIO
from typing import Any, NoReturn

from connections._distribution import how_to_install
from connections._shown import shown
from connections._words import words_of
from connections.checks import as_number, is_whole, require_path, require_text
from connections.explorer.robot import Robot
from connections.multibody import Model

LOOPBACK = "127.0.0.1"
PORT = 8080
MOST_BETA = 50.0  # kg/m


class PortError(OSError):
    """The port cannot be used; the message says how to choose another.

    Examples
    --------
    >>> from connections import explorer
    >>> with explorer.serve(port=0) as running:
    ...     explorer.serve(port=running.port)
    Traceback (most recent call last):
        ...
    connections.explorer.server.PortError: port ... of 127.0.0.1 is in use: choose another with --port...
    """


class Explorer:
    """A running server; ``with`` stops it at the end.

    Parameters
    ----------
    server : viser's server.
    host : the address that it is bound to.
    pages : the open pages, by viser's number of the browser.
    token : the secret in the page's address (`rules`).

    Examples
    --------
    >>> from connections import explorer
    >>> with explorer.serve(port=0) as running:  # until the end of the block; running.wait() serves for ever
    ...     print(running.local, running.url.startswith(f"http://127.0.0.1:{running.port}/?token="))
    True True
    """

    def __init__(self, server: Any, host: str, pages: dict[int, Any], token: str) -> None:
        self._server, self._pages, self._token = server, pages, token
        self.host, self.port = host, int(server.get_port())

    def __reduce__(self) -> NoReturn:
        raise TypeError("Explorer cannot be pickled or copied: it is a server of this process")

    @property
    def url(self) -> str:
        """The address to open in a browser on this machine; its token gives access to the page."""
        shown = LOOPBACK if self.host in ("0.0.0.0", "::", "") else self.host
        shown = f"[{shown}]" if ":" in shown else shown
        return f"http://{shown}:{self.port}/?token={self._token}"

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host == "localhost" or self.host == "::1" or self.host.startswith("127.")

    def wait(self) -> None:
        """Serve until interrupted."""
        while True:
            time.sleep(3600.0)

    def stop(self) -> None:
        """Stop the server, and the drawing threads after their current computation."""
        with _without_its_prints():
            self._server.stop()
        for page in list(self._pages.values()):
            page.close(wait=60.0)

    def __enter__(self) -> Explorer:
        """The explorer itself."""
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def serve(
    model: Model | Robot | None = None,
    name: str = "robot",
    beta: float = 1.0,
    host: str = LOOPBACK,
    port: int = PORT,
    urdf: str | os.PathLike[str] | None = None,
    system: Any = None,
) -> Explorer:
    """Start a server of the page, in threads of its own.

    Parameters
    ----------
    model : a robot to show beside the views of R^3, or its `robot.Robot`.
    name : of the robot, if it is a model.
    beta : value of the slider at first, kg/m.
    host : address to bind to; only this machine can reach the default.
    port : port to bind to; 0 for any free port.
    urdf : the file that describes `model`; its visuals are drawn, with the meshes that they name. Bodies
        without visuals, and all bodies if this is None, are drawn by their ellipsoids of inertia.
    system : a metric, a connection with a metric, or a system with two or three coordinates, to show beside
        the views of R^3: whatever `verify.as_subject` accepts. `name` is its name.

    Raises
    ------
    ModelError : `urdf` does not exist, or is no URDF file.
    ValueError : beta is larger than 50 kg/m, the port is no port, viser is not installed, `urdf` is given
        without a model, or both a model and a system are given.
    SubjectError : `system` is something else, or has another number of coordinates.
    PortError : the port is in use, or may not be used; the address is not one of this machine's.

    Examples
    --------
    >>> from connections import explorer
    >>> from connections import multibody as mb
    >>> running = explorer.serve(mb.example("arm"), name="arm", port=0)
    >>> running.url  # open it in a browser
    'http://127.0.0.1:.../?token=...'
    >>> running.stop()
    """
    require_text("name", name)
    require_text("host", host)
    beta = as_number("beta", beta)
    if abs(beta) > MOST_BETA:
        raise ValueError(
            f"beta: expected a number between -{MOST_BETA:g} and {MOST_BETA:g} kg/m, got {beta:g}"
        )
    viser = _viser()
    _require_free(host, port)
    from connections.explorer.access import AccessRules, behind
    from connections.explorer.manifold import Manifold
    from connections.explorer.page import Page
    from connections.explorer.page_face import renamed
    from connections.explorer.robot import Robot
    from connections.multibody.model import require_model
    from connections.verify import as_subject

    if model is not None and system is not None:
        raise ValueError("model, system: expected one of the two")
    if model is not None and not isinstance(model, Robot):
        require_model("serve", model)
    if urdf is not None:
        require_path("urdf", urdf)
    if urdf is not None and (model is None or isinstance(model, Robot)):
        raise ValueError("urdf: expected with a model, whose visuals it has")
    subject: Robot | Manifold | None = model if isinstance(model, Robot) else None
    if system is not None:
        subject = Manifold(as_subject(system, name))
    elif model is not None and not isinstance(model, Robot):
        subject = Robot(model, name, urdf)
    title = f"connections: {'explorer' if subject is None else shown(subject.name)}"
    rules = AccessRules(host)
    rules.finish = partial(renamed, title=title)
    with _without_its_prints():
        server = behind(rules, lambda: viser.ViserServer(host=host, port=port, verbose=False))
    if port and server.get_port() != port:  # another program took the port, and viser chose another one
        server.stop()
        raise PortError(_in_use(host, port))
    server.gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(31, 95, 191))
    # Even light: viser's reflections take ten seconds to prepare where there is no graphics card.
    server.scene.configure_environment_map(None)
    server.scene.add_light_ambient("/light", intensity=1.6)
    server.gui.set_panel_label(title)
    # If the browser disconnects while a film runs, sending the last picture fails.
    warnings.filterwarnings("ignore", "Queued a .* on a closed connection", UserWarning)
    pages: dict[int, Page] = {}

    def control(identifier: str) -> Any:
        clients = list(server.get_clients().values())
        found = [client.gui._gui_input_handle_from_uuid.get(identifier) for client in clients]
        return next((handle for handle in found if handle is not None), None)

    rules.control = control

    @server.on_client_connect
    def _(client: Any) -> None:
        pages[client.client_id] = Page(client, subject, float(beta))
        if client.client_id not in server.get_clients():  # disconnected while its page was made
            left(client)

    @server.on_client_disconnect
    def left(client: Any) -> None:
        if client.client_id in pages:
            pages[client.client_id].close(wait=60.0)
            pages.pop(client.client_id, None)

    return Explorer(server, host, pages, rules.token)


# --- private -----------------------------------------------------------------------------------------------


def _without_its_prints() -> AbstractContextManager[Any]:
    """Suppress the table that viser prints at the start, and its message at the end."""
    return redirect_stdout(StringIO())


def _viser() -> Any:
    try:
        import viser
    except ImportError as error:
        raise ValueError(f"the explorer needs viser ({error}): {how_to_install('web')}") from None
    return viser


def _require_free(host: str, port: int) -> None:
    """Bind the port and release it, because viser would silently take another one, or try a thousand."""
    if not is_whole(port) or not 0 <= port <= 65535:
        raise ValueError(f"port: expected a whole number between 0 and 65535, got {words_of(port)}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortError(_in_use(host, port)) from None
        reason = error.strerror or str(error)
        raise PortError(f"cannot serve on {host}, port {port}: {reason}") from None


def _in_use(host: str, port: int) -> str:
    return f"port {port} of {host} is in use: choose another with --port, or --port 0 for any that is free"
