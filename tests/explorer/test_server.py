"""The explorer's server and its command: addresses, ports, errors, a clean end."""

import gzip
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
import viser

from connections import cli, explorer
from connections import multibody as mb
from connections.engines.notices import announce_compilation, heard_by
from connections.explorer import page, page_face, server


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody else uses."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_a_server_answers_until_it_is_stopped() -> None:
    with explorer.serve(port=0) as running:
        assert running.host == "127.0.0.1" and running.local and running.port > 0
        assert running.url.startswith(f"http://127.0.0.1:{running.port}/?token=")
        with urllib.request.urlopen(running.url, timeout=10) as answer:
            assert answer.status == 200 and b"<html" in answer.read()
    with pytest.raises(OSError):
        urllib.request.urlopen(running.url, timeout=1)
    with explorer.serve(port=running.port) as again:  # the port is free at once
        assert again.port == running.port


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_the_page_has_our_title_and_icon(encoding: str) -> None:
    """A robot's name is text, also if it looks like HTML or like a pattern's group."""
    with explorer.serve(mb.example("arm"), r"a \1 <b>", port=0) as running:
        request = urllib.request.Request(running.url, headers={"Accept-Encoding": encoding})
        with urllib.request.urlopen(request, timeout=10) as answer:
            content = answer.read()
            assert answer.headers["Content-Encoding"] == encoding
            assert int(answer.headers["Content-Length"]) == len(content)
    seen = (gzip.decompress(content) if encoding == "gzip" else content).decode()
    original = (Path(viser.__file__).parent / "client/build/index.html").read_text()
    assert re.findall("<title>(.*?)</title>", seen) == [r"connections: a \1 &lt;b&gt;"]
    icons = [re.findall(r'rel="icon"\s+href="(.*?)"', page) for page in (seen, original)]
    assert [len(found) for found in icons] == [1, 1] and icons[0] != icons[1]
    drawing = urllib.parse.unquote(icons[0][0]).partition(",")[2]
    assert ElementTree.fromstring(drawing).tag.endswith("svg")
    rest = [page[page.index("<script") :] for page in (seen, original)]
    skeleton = rest[0][rest[0].rindex("<style>") : rest[0].rindex('<div id="root"')]
    assert "first picture is being computed" in skeleton and "<script" not in skeleton
    assert f"body:has(#{page_face.DRAWN})" in skeleton  # which hides it
    assert rest[0].replace(skeleton, "") == rest[1]  # nothing else is changed


def test_the_page_lists_what_is_compiled_and_then_removes_its_skeleton() -> None:
    """Names are text; the page that is closed hears nothing."""
    shown = page.Page.__new__(page.Page)
    added: list[str] = []
    shown.client = SimpleNamespace(gui=SimpleNamespace(add_html=added.append))
    shown.status, shown._compiled, shown._revealed = SimpleNamespace(content="", visible=False), [], False
    with heard_by(shown._hear):
        announce_compilation("mass_matrix", 4.0)
        announce_compilation("a <b>", 0.5)
    announce_compilation("afterwards", 9.0)
    assert (
        "mass_matrix: &#10003; 0 s" in shown.status.content
        and "a &lt;b&gt;: about 0 s" in shown.status.content
    )
    assert "afterwards" not in shown.status.content and shown.status.visible
    shown._reveal()
    shown._reveal()
    assert added == [f'<span id="{page_face.DRAWN}"></span>']


def test_only_this_machine_is_served() -> None:
    """Bound to the loopback address: no other address of this machine answers."""
    others = {entry[4][0] for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    with explorer.serve(port=0) as running:
        for address in [a for a in others if not a.startswith("127.")]:
            with pytest.raises(OSError):
                socket.create_connection((address, running.port), timeout=1).close()
    with explorer.serve(host="0.0.0.0", port=0) as running:
        assert not running.local and running.url.startswith("http://127.0.0.1:")


def test_a_port_in_use_is_an_error(taken: int) -> None:
    with pytest.raises(explorer.PortError, match=f"port {taken} of 127.0.0.1 is in use.*--port 0"):
        explorer.serve(port=taken)


def test_a_port_that_is_taken_in_the_meantime_is_an_error(
    taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """viser takes the next port without a word; that server is stopped again."""
    monkeypatch.setattr(server, "_require_free", lambda host, port: None)
    with pytest.raises(explorer.PortError, match="is in use"):
        explorer.serve(port=taken)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", taken + 1), timeout=1).close()


@pytest.mark.parametrize(
    ("arguments", "error", "complaint"),
    [
        ({"beta": float("nan")}, ValueError, "beta is nan"),
        ({"beta": 51.0}, ValueError, "beta: expected a number between -50 and 50 kg/m, got 51"),
        ({"port": 70_000}, ValueError, "port: expected a whole number between 0 and 65535"),
        ({"host": "192.0.2.1"}, explorer.PortError, "cannot serve on 192.0.2.1, port 8080: .*assign"),
        ({"host": "no.such.host.invalid"}, explorer.PortError, "cannot serve on no.such.host.invalid"),
    ],
)
def test_bad_input(arguments: dict, error: type, complaint: str) -> None:
    with pytest.raises(error, match=complaint):
        explorer.serve(**arguments)


def test_without_viser_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(ValueError, match=r'needs viser.*pip install "affine-connections\[web\]"'):
        explorer.serve(port=0)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--web", "no_such_robot.urdf"], "no_such_robot.urdf: there is no such file"),
        (["--web", "BROKEN"], "broken.urdf"),
        (["--web", "--port", "0", "BROKEN"], "broken.urdf"),
        (["BROKEN"], "a robot needs --web"),
        (["--web", "--beta", "99"], "beta: expected a number between -50 and 50 kg/m, got 99"),
        (["--web", "--beta", "1", "2"], "--beta: with --web one value"),
        (["--web", "--output", "figures"], "--output writes figures, --web serves a page"),
        (["--web", "--floating-base"], "--floating-base needs a robot"),
        (["--web", "--port", "TAKEN"], "is in use: choose another with --port"),
        (["--port", "9000"], "--port needs --web"),
        (["--open"], "--open needs --web"),
        (["--host", "0.0.0.0"], "--host needs --web"),
        (["--floating-base"], "--floating-base needs --web"),
    ],
)
def test_the_command_says_what_is_wrong(
    words: list[str], complaint: str, taken: int, tmp_path, capsys: pytest.CaptureFixture
) -> None:
    broken = tmp_path / "broken.urdf"
    broken.write_text('<robot name="a"><link name="b"/><joint name="c" type="revolute"/></robot>')
    names = {"BROKEN": str(broken), "TAKEN": str(taken)}
    assert cli.main(["explore", *(names.get(word, word) for word in words)]) == 2
    output = capsys.readouterr()
    assert complaint in output.err and output.err.count("\n") == 1 and not output.out


@pytest.mark.parametrize("words", [["--beta", "x"], ["--web", "--port", "70000"], ["--web", "--beta", "nan"]])
def test_wrong_words(words: list[str], capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["explore", *words])
    assert end.value.code == 2 and "expected" in capsys.readouterr().err


@pytest.mark.further
def test_the_command_serves_until_it_is_interrupted() -> None:
    program = (
        "import signal, sys; from connections.cli import main; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "  # a shell's background job ignores it
        "sys.exit(main(['explore', '--web', '--port', '0']))"
    )
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as running:
        try:
            first = running.stdout.readline()
            assert first.startswith("The explorer is at http://127.0.0.1:")
            url = first.split()[-1]
            with urllib.request.urlopen(url, timeout=10) as answer:
                assert answer.status == 200
            running.send_signal(signal.SIGINT)
            rest, errors = running.communicate(timeout=30)
        finally:
            running.kill()  # nothing to do where it has ended; leaving the block waits for it
    assert running.returncode == 0 and "has ended" in rest and errors == ""


def test_an_open_address_is_noted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def interrupted(self: explorer.Explorer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(explorer.Explorer, "wait", interrupted)
    assert cli.main(["explore", "--web", "--host", "0.0.0.0", "--port", "0", "--beta", "-3"]) == 0
    output = capsys.readouterr()
    assert "whoever reaches this machine's port" in output.err and "viser" not in output.out


@pytest.mark.parametrize("found", [True, False])
def test_the_browser_is_opened_if_asked(
    found: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    opened: list[str] = []

    def browser(address: str) -> bool:
        """What is in the browser's command line, which every user can read, has no token."""
        file = Path(urllib.parse.urlsplit(address).path)
        assert address.startswith("file:///") and "token" not in address
        assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        opened.extend(re.findall('href="(.*?)"', file.read_text()))
        return found

    def interrupted(self: explorer.Explorer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(explorer.Explorer, "wait", interrupted)
    monkeypatch.setattr("webbrowser.open", browser)
    assert cli.main(["explore", "--web", "--open", "--port", "0"]) == 0
    output = capsys.readouterr()
    assert opened == [output.out.split()[4]] and ("no browser was found" in output.err) == (not found)
    assert cli.main(["explore", "--web", "--port", "0"]) == 0 and len(opened) == 1  # negative control


def test_the_slider_reaches_the_beta_that_was_asked_for() -> None:
    assert page.LARGEST_BETA < server.MOST_BETA


@pytest.mark.parametrize(
    ("aspect", "moved", "again"), [(0.5, 0.0, True), (1.0, 0.0, False), (0.5, 0.1, False), (1.0, 0.1, False)]
)
def test_the_camera_is_aimed_again_when_the_window_changes(aspect: float, moved: float, again: bool) -> None:
    """But not if a person has moved it."""
    shown, aims = page.Page.__new__(page.Page), []
    view = SimpleNamespace()
    shown.views, shown.choice, shown._aim = {"v": view}, SimpleNamespace(value="v"), aims.append
    shown._aimed = 1.0, np.array([1.0, -2.0, 3.0])
    shown._reshaped(SimpleNamespace(aspect=aspect, position=np.array([1.0, -2.0, 3.0 + moved])))
    assert aims == ([view] if again else [])
