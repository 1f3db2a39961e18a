"""Access control of the explorer's server: which requests are answered, and which messages are accepted.

Any web page that a browser shows can send requests to the servers of this machine. So the server answers only

- under its own name: the header Host is a loopback address or the host that was given, so that a foreign
  domain whose name server points to this machine is refused (DNS rebinding);
- to its own page: the header Origin, if there is one, is that of the address in Host;
- with the token of the printed address, in the address itself or in the cookie that it has set.

From a browser's messages, only camera positions and valid values of controls are accepted.
Viser has no hook for these checks. Its connections are objects of the library websockets, so `behind`
replaces their class by `_CheckedConnection`, which checks.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import logging
import math
import secrets
import socket
import threading
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
from websockets.asyncio import server as websockets_server
from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

MOST_CLIENTS = 8
_MOST_BYTES = 2**16  # of a message from a browser
_FARTHEST, _NEAREST = 1e6, 1e-6  # m, largest distance of a camera from the origin, least from its target
_WILDCARDS = ("", "0.0.0.0", "::")
_replacing = threading.Lock()
_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())  # requests without the token are not logged in the terminal


class AccessRules:
    """The checks of requests and messages.

    Parameters
    ----------
    host : the address that the server is bound to.

    Attributes
    ----------
    token : the secret that the page's address contains.
    control : maps the identifier in a message to viser's handle of the control, or to None.
    finish : changes a response before it is sent.
    """

    def __init__(self, host: str) -> None:
        self.host, self.token = host.lower(), secrets.token_hex(16)
        self.control: Callable[[str], Any] = lambda identifier: None
        self.finish: Callable[[Response], None] = lambda response: None

    def reason(self, request: Request, port: int) -> str | None:
        """Why a request is refused, or None.

        Parameters
        ----------
        request : with its headers.
        port : the server's port, which is part of the cookie's name.
        """
        hosts, origins = request.headers.get_all("Host"), request.headers.get_all("Origin")
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            return "This explorer has another address: open the one that was printed."
        if any(origin not in (f"http://{hosts[0]}", f"https://{hosts[0]}") for origin in origins):
            return "This explorer answers no pages but its own."
        given = [_token_of(request.path), *_cookies(request.headers, _cookie(port))]
        if not any(hmac.compare_digest(text.encode(errors="replace"), self.token.encode()) for text in given):
            return "The token is missing: open the address that was printed, with all that follows '?'."
        return None

    def welcome(self, request: Request, port: int, response: Response | None) -> None:
        """Finish a response; a request with the token gets a cookie with it, for this site only."""
        if response is None:
            return
        self.finish(response)
        if _token_of(request.path) == self.token:
            cookie = f"{_cookie(port)}={self.token}; Path=/; HttpOnly; SameSite=Strict"
            response.headers["Set-Cookie"] = cookie

    def lets_in(self, message: Any) -> bool:
        """Whether a message is a valid one of the page's own controls or of the camera."""
        try:
            content = _DECODER.decode(message)
        except (msgspec.MsgspecError, RecursionError, TypeError, ValueError):
            return False
        if isinstance(content, _Camera):
            return content.is_somewhere()
        control = self.control(content.uuid)
        return (
            control is not None and content.updates.keys() == {"value"} and _fits(control, **content.updates)
        )

    def _is_ours(self, host: str) -> bool:
        """Whether a header Host has a loopback name, or the name or address that was given."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        everywhere = self.host in _WILDCARDS
        if name in ("localhost", self.host) or (everywhere and name == socket.gethostname().lower()):
            return True
        with contextlib.suppress(ValueError):  # a numeric address does not depend on name servers
            return ipaddress.ip_address(name).is_loopback or everywhere
        return False


def behind(rules: AccessRules, start: Callable[[], Any]) -> Any:
    """A server of viser whose connections are checked by `rules`.

    Parameters
    ----------
    rules : the checks.
    start : makes the server and starts it.

    Raises
    ------
    RuntimeError : viser did not use the function that is replaced here; its server was stopped again.
    """
    serve, served = websockets_server.serve, []

    def guarded(*arguments: Any, **options: Any) -> Any:
        served.append(rules)
        options |= {
            "create_connection": partial(_CheckedConnection, rules),
            "max_size": _MOST_BYTES,
            "logger": _log,
        }
        return serve(*arguments, **options)

    with _replacing:
        setattr(websockets_server, "serve", guarded)  # noqa: B010 (a class, for type checkers)
        try:
            server = start()
        finally:
            setattr(websockets_server, "serve", serve)  # noqa: B010
    if not served:
        server.stop()
        raise RuntimeError("this version of viser cannot be guarded: its server takes whoever comes")
    return server


class _CheckedConnection(ServerConnection):
    """A connection that the rules have admitted, and whose messages they check."""

    def __init__(self, rules: AccessRules, *arguments: Any, **limits: Any) -> None:
        super().__init__(*arguments, **limits)
        self._rules = rules

    async def handshake(self, process_request: Any = None, *rest: Any, **options: Any) -> None:
        def guarded(connection: ServerConnection, request: Request) -> Response | None:
            port = connection.local_address[1]
            reason = self._rules.reason(request, port)
            if reason is not None:
                return connection.respond(HTTPStatus.FORBIDDEN, reason + "\n")
            response: Response | None = process_request(connection, request)
            self._rules.welcome(request, port, response)
            return response

        await super().handshake(guarded, *rest, **options)
        if len(self.server.connections) > MOST_CLIENTS:  # the count includes this connection
            # Viser's page shows the reason with this code, and tries again later.
            await self.close(1002, f"{MOST_CLIENTS} browsers have this explorer open: close one of them")

    async def recv(self, *arguments: Any, **options: Any) -> Any:
        while True:
            message = await super().recv(*arguments, **options)
            if self._rules.lets_in(message):
                return message


# --- private: headers ---------------------------------------------------------------------------------------


def _cookie(port: int) -> str:
    """The cookie's name; it contains the port, because all ports of a machine share their cookies."""
    return f"connections-explorer-{port}"


def _token_of(path: str) -> str:
    """The token in an address; empty if there is none."""
    return parse_qs(path.partition("?")[2]).get("token", [""])[-1]


def _cookies(headers: Headers, name: str) -> list[str]:
    found = []
    for line in headers.get_all("Cookie"):
        with contextlib.suppress(CookieError):
            cookies = SimpleCookie(line)
            found += [cookies[name].value] if name in cookies else []
    return found


# --- private: messages --------------------------------------------------------------------------------------

_Three = tuple[float, float, float]


class _Camera(msgspec.Struct, tag="ViewerCameraMessage", tag_field="type", forbid_unknown_fields=True):
    """The position of a browser's camera; the fields are viser's."""

    wxyz: tuple[float, float, float, float]
    position: _Three
    fov: float
    near: float
    far: float
    image_height: float
    image_width: float
    look_at: _Three
    up_direction: _Three

    def is_somewhere(self) -> bool:
        """Whether position and target are finite, and within the limits."""
        lengths = (*self.position, *self.look_at, *self.up_direction, *self.wxyz, self.near, self.far)
        return (
            all(abs(length) <= _FARTHEST for length in lengths)  # false for NaN
            and math.dist(self.position, self.look_at) >= _NEAREST
            and 0.0 < self.fov < math.pi
            and 1.0 <= self.image_height <= _FARTHEST
            and 1.0 <= self.image_width <= _FARTHEST
        )


class _Value(msgspec.Struct, tag="GuiUpdateMessage", tag_field="type", forbid_unknown_fields=True):
    """A new value of a control; the fields are viser's."""

    uuid: str
    updates: dict[str, bool | int | float | str]


_DECODER = msgspec.msgpack.Decoder(_Camera | _Value)


def _fits(control: Any, value: Any) -> bool:
    """Whether a control can have a value: one of a list, within a slider's range, true or false."""
    if isinstance(control.value, bool):
        return isinstance(value, bool)
    if isinstance(control.value, str):
        return value in control.options
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and control.min <= value <= control.max
    )
