"""The explorer's access control: foreign pages and messages stay out, and who leaves leaves nothing."""

import gc
import http.client
import socket
import threading
import time
import urllib.parse
import weakref
from collections.abc import Callable, Iterator

import msgspec
import pytest
import viser
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from connections import explorer
from connections.explorer import access, page

UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Protocol": f"viser-v{viser.__version__}",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}
CAMERA = {
    "type": "ViewerCameraMessage",
    "wxyz": (1.0, 0.0, 0.0, 0.0),
    "position": (3.0, 3, 3),
    "fov": 0.7,
    "near": 0.01,
    "far": 1000,
    "image_height": 600,
    "image_width": 800,
    "look_at": (0.0, 0.0, 0.0),
    "up_direction": (0.0, 0.0, 1.0),
}


@pytest.fixture(scope="module")
def server() -> Iterator[explorer.Explorer]:
    """A server whose pages compute nothing."""
    with pytest.MonkeyPatch.context() as patch, explorer.serve(port=0) as running:
        patch.setattr(page.Page, "_draw", lambda self, view: None)
        yield running


def token(server: explorer.Explorer) -> str:
    return urllib.parse.parse_qs(urllib.parse.urlsplit(server.url).query)["token"][0]


def answer(server: explorer.Explorer, path: str, **headers: str) -> tuple[int, str, str]:
    """Status, cookie and the beginning of the text that the server sends; it stays open for none."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.putrequest("GET", path, skip_host=True)
    for name, value in ({"Host": f"127.0.0.1:{server.port}"} | headers).items():
        connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    text = "" if response.status == 101 else response.read(200).decode()
    connection.close()
    return response.status, response.getheader("Set-Cookie", ""), text


def enter(server: explorer.Explorer) -> ClientConnection:
    """A raw client that has shown the token."""
    return connect(
        server.url.replace("http:", "ws:"),
        subprotocols=[Subprotocol(f"viser-v{viser.__version__}")],
        proxy=None,
        max_size=None,
    )


def say(client: ClientConnection, message: object) -> None:
    client.send(msgspec.msgpack.encode(message))


def until(happens: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.01)


@pytest.mark.parametrize("headers", [{}, UPGRADE])
def test_only_the_token_opens_it(server: explorer.Explorer, headers: dict) -> None:
    welcome = 101 if headers else 200
    for path in ("/", "/?token=", "/?token=" + 32 * "0", "/index.html", f"/{token(server)}"):
        status, cookie, text = answer(server, path, **headers)
        assert status == 403 and not cookie and "token" in text
    status, cookie, _ = answer(server, f"/?token={token(server)}", **headers)
    assert status == welcome
    if not headers:
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
        name, _, value = cookie.partition(";")[0].partition("=")
        assert str(server.port) in name and value == token(server)
    cookie = f"other=1; connections-explorer-{server.port}="
    assert answer(server, "/", Cookie=cookie + token(server), **headers)[0] == welcome
    assert answer(server, "/", Cookie=cookie + "1", **headers)[0] == 403


@pytest.mark.parametrize(
    "head",
    [
        b"GET /?token=\xe9 HTTP/1.1\r\nHost: 127.0.0.1:PORT",
        b"GET /\xe9?token=\xff\xfe HTTP/1.1\r\nHost: 127.0.0.1:PORT",
        b"GET /?token=%E9 HTTP/1.1\r\nHost: 127.0.0.1:PORT",
        b"GET /?token=%00 HTTP/1.1\r\nHost: 127.0.0.1:PORT",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nCookie: connections-explorer-PORT=\xe9",
        b"GET / HTTP/1.1\r\nHost: \xe9:PORT",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nOrigin: \xe9",
    ],
)
def test_bytes_that_are_no_text_are_refused(server: explorer.Explorer, head: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(head.replace(b"PORT", str(server.port).encode()) + b"\r\n\r\n")
        assert connection.recv(100).split()[:2] == [b"HTTP/1.1", b"403"]


@pytest.mark.parametrize(
    ("host", "origin", "welcome"),
    [
        ("127.0.0.1:PORT", None, True),
        ("127.0.0.1:PORT", "http://127.0.0.1:PORT", True),
        ("localhost:PORT", "http://localhost:PORT", True),
        ("localhost:9000", "http://localhost:9000", True),  # the end of a tunnel
        ("[::1]:PORT", "http://[::1]:PORT", True),
        ("127.0.0.1:PORT", "http://evil.example", False),
        ("127.0.0.1:PORT", "http://127.0.0.1:3000", False),  # another server of this machine
        ("127.0.0.1:PORT", "http://localhost:PORT", False),
        ("127.0.0.1:PORT", "null", False),  # a file, or a frame in a sandbox
        ("evil.example:PORT", "http://evil.example:PORT", False),  # its name server says 127.0.0.1
        ("evil.example", None, False),
        ("localhost.evil.example", None, False),
        ("192.0.2.1:PORT", None, False),
        ("[", None, False),
        ("", None, False),
    ],
)
def test_foreign_pages_and_names_are_refused(
    server: explorer.Explorer, host: str, origin: str | None, welcome: bool
) -> None:
    headers = UPGRADE | {"Host": host} | ({} if origin is None else {"Origin": origin})
    headers = {name: value.replace("PORT", str(server.port)) for name, value in headers.items()}
    status, _, text = answer(server, f"/?token={token(server)}", **headers)
    assert status == (101 if welcome else 403)
    assert welcome or "address" in text or "its own" in text


def test_who_serves_on_all_addresses_is_reached_by_them_and_by_the_machines_name() -> None:
    everywhere, one = access.AccessRules("0.0.0.0"), access.AccessRules("Robot-Lab")
    for name in ("192.0.2.1:80", "[2001:db8::1]", f"{access.socket.gethostname()}:8080", "localhost"):
        assert everywhere._is_ours(name)
    assert not everywhere._is_ours("evil.example")
    assert one._is_ours("robot-lab:8080") and one._is_ours("127.0.0.1")
    assert not one._is_ours("192.0.2.1") and not one._is_ours("robot-lab.evil.example")


def test_a_ninth_browser_is_told_why_it_must_wait(server: explorer.Explorer) -> None:
    clients = [enter(server) for _ in range(access.MOST_CLIENTS)]
    with enter(server) as ninth, pytest.raises(ConnectionClosed) as end:
        ninth.recv(timeout=10)
    assert end.value.rcvd.code == 1002 and "8 browsers have this explorer open" in end.value.rcvd.reason
    clients[0].close()
    with enter(server) as again:
        assert again.recv(timeout=10)  # the scene's first messages
    for client in clients:
        client.close()


def test_who_leaves_leaves_nothing(server: explorer.Explorer) -> None:
    """Its page, with all that it computed and drew, and its thread."""
    with enter(server) as client:
        say(client, CAMERA)
        until(lambda: server._pages)
        (remembered,) = (weakref.ref(made) for made in server._pages.values())
        (thread,) = (made._thread for made in server._pages.values())
        assert thread.is_alive()
    until(lambda: not server._pages and not thread.is_alive())
    until(lambda: gc.collect() is not None and remembered() is None)


@pytest.mark.filterwarnings(
    "ignore:Queued a .* on a closed connection"
)  # as `serve` sets, before pytest does
def test_who_leaves_while_its_page_is_made_leaves_nothing(
    server: explorer.Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, made = threading.Event(), threading.Event(), []
    plain = page.Page.__init__

    def slowly(self: page.Page, *arguments: object) -> None:
        begun.set()
        assert go_on.wait(10)
        plain(self, *arguments)
        made.append(self._thread)

    monkeypatch.setattr(page.Page, "__init__", slowly)
    with enter(server) as client:
        say(client, CAMERA)
        assert begun.wait(10)
    until(lambda: not server._server.get_clients())
    go_on.set()
    until(lambda: made and not made[0].is_alive() and not server._pages)


def sliders(server: explorer.Explorer) -> dict[str, str]:
    """The identifiers of the controls of the one page that is open, by their labels."""
    ((_, made),) = server._pages.items()
    handles = made.client.gui._gui_input_handle_from_uuid
    return {handle.label: identifier for identifier, handle in handles.items()}


def test_malformed_messages_are_not_heard(server: explorer.Explorer, capfd: pytest.CaptureFixture) -> None:
    def value(label: str, x: object, **more: object) -> dict:
        return {"type": "GuiUpdateMessage", "uuid": names.get(label, label), "updates": {"value": x} | more}

    with enter(server) as client:
        camera_messages = [
            CAMERA | change
            for change in (
                {"fov": float("nan")},
                {"position": (float("inf"), 0, 0)},
                {"position": (0, 0, 0)},
                {"image_height": 0},
                {"image_height": "600"},
                {"position": (1.0, 2.0)},
                {"unknown": 1},
            )
        ]
        for message in camera_messages:
            say(client, message)
        time.sleep(0.2)
        assert not server._server.get_clients()  # no camera was accepted
        say(client, CAMERA)
        until(lambda: server._pages)
        names = sliders(server)
        ((_, made),) = server._pages.items()
        client.send(b"")
        client.send(b"\xc1")
        client.send("text")
        client.send(b"\x91" * 60_000)
        for message in (
            [1, 2],
            {"type": "NoSuchMessage"},
            {"type": ["ViewerCameraMessage"]},
            {"type": "ShareUrlRequest"},
            {"type": "GuiUpdateMessage", "uuid": names["beta [kg/m]"], "updates": {"no_such": 1.0}},
            value("beta [kg/m]", 1e9),
            value("beta [kg/m]", float("nan")),
            value("beta [kg/m]", True),
            value("beta [kg/m]", "1"),
            value("beta [kg/m]", [1.0]),
            value("beta [kg/m]", 2.0, removed=True),
            value("view", "no such view"),
            value("strips", "yes"),
            value("no such control", 1.0),
        ):
            say(client, message)
        say(client, value("strips", False))
        say(client, value("beta [kg/m]", 3))
        until(lambda: made.beta.value == 3.0)
        assert made.choice.value == "Frames along a geodesic"
    with enter(server) as client, pytest.raises(ConnectionClosed):
        client.send(b"\x00" * (2**16 + 1))
        while True:
            client.recv(timeout=10)
    with http.client.socket.create_connection(("127.0.0.1", server.port)) as rude:
        rude.sendall(b"\x00\xffnonsense\r\n\r\n")
        rude.settimeout(10)
        assert b"101" not in rude.recv(1000)
    until(lambda: not server._pages)
    said = capfd.readouterr()
    assert said.err == "" and said.out == ""


def test_a_viser_that_cannot_be_guarded_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Other(viser.ViserServer):
        """One that does not serve by the function that the rules replaces."""

        def __init__(self, **options: object) -> None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(access.websockets_server, "serve", serve)
                super().__init__(**options)
            made.append(self)

    serve = access.websockets_server.serve
    monkeypatch.setattr(viser, "ViserServer", Other)
    with pytest.raises(RuntimeError, match="cannot be guarded"):
        explorer.serve(port=0)
    with pytest.raises(OSError):
        http.client.socket.create_connection(("127.0.0.1", made[0].get_port()), timeout=1).close()
