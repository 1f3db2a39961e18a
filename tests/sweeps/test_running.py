"""Sweeps on a local cluster: any number of workers, workers and clients that are killed, the command line."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
import zarr
from robots import robot_path
from sweep_functions import ends_its_process, sweep

from connections import multibody as mb
from connections.cli import main
from connections.sweeps import Done, SchedulerError, Store, local_cluster, run_sweep, table_sweep

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0  # s


@pytest.fixture(scope="module")
def cluster() -> Iterator[object]:
    """Two workers for all tests: each takes seconds to start."""
    with local_cluster(2) as local:
        yield local


@pytest.fixture
def client(cluster: object) -> Iterator[object]:
    from distributed import Client

    with Client(cluster, set_as_default=False) as connected:
        connected.wait_for_workers(2, timeout=PATIENCE)
        yield connected


@pytest.fixture
def certificate(cluster: object) -> Iterator[None]:
    """Dask's configuration has the cluster's certificate, as that of a cluster of one's own."""
    import dask

    known = cluster.security  # type: ignore[attr-defined]
    settings = {"ca-file": known.tls_ca_file, "client.key": known.tls_client_key}
    settings["client.cert"] = known.tls_client_cert
    with dask.config.set({f"distributed.comm.tls.{name}": value for name, value in settings.items()}):
        yield


def content(path: Path) -> bytes:
    group = zarr.open_group(path, mode="r")
    return b"".join(group[name][:].tobytes() for name in sorted(Store(path).names))


@pytest.mark.further
def test_the_number_of_workers_does_not_matter(tmp_path: Path, client: object) -> None:
    robot = mb.from_urdf(robot_path("ur5"))
    table = table_sweep(robot, ["coriolis_matrix", "christoffel_bounds"], 1500, chunk=100, seed=8)
    here = run_sweep(table, tmp_path / "here", workers=0)
    two = run_sweep(table, tmp_path / "two", scheduler=client)
    assert (here.processes, two.processes) == (1, 2)
    assert here.computed == two.computed == tuple(range(15))
    assert content(tmp_path / "here") == content(tmp_path / "two")
    other = table_sweep(robot, ["coriolis_matrix", "christoffel_bounds"], 1500, chunk=100, seed=9)
    run_sweep(other, tmp_path / "other", workers=0)
    assert content(tmp_path / "here") != content(tmp_path / "other")


@pytest.mark.further
def test_a_killed_worker_costs_nothing(tmp_path: Path, client: object) -> None:
    killed: list[int] = []

    def kill_once(done: Done, chunks: int) -> None:
        if not killed:
            os.kill(done.process, signal.SIGKILL)
            killed.append(done.process)

    given = sweep(rows=120, chunk=3, seconds=0.03)
    summary = run_sweep(given, tmp_path / "s", scheduler=client, progress=kill_once)
    assert killed and not psutil.pid_exists(killed[0])
    assert summary.chunks == 40 and not summary.repaired
    # What the worker had written, but its report of it was lost, is found and not computed again.
    assert set(summary.computed) <= set(range(40)) and summary.kept <= 8
    run_sweep(given, tmp_path / "whole", workers=0)
    assert content(tmp_path / "s") == content(tmp_path / "whole")
    assert not list((tmp_path / "s").rglob("*.partial"))


@pytest.mark.further
def test_a_chunk_that_keeps_ending_its_worker(tmp_path: Path, client: object, cluster: object) -> None:
    scheduler = cluster.scheduler  # type: ignore[attr-defined]
    before, scheduler.allowed_failures = scheduler.allowed_failures, 0
    try:
        with pytest.raises(SchedulerError, match="chunk 0 ended its worker .* smaller chunks"):
            run_sweep(sweep(rows=5, function=ends_its_process), tmp_path / "s", scheduler=client)
    finally:
        scheduler.allowed_failures = before


PROGRAM = """\
import sys
from sweep_functions import sweep
from connections.sweeps import run_sweep
if __name__ == "__main__":
    run_sweep(sweep(rows=180, chunk=3, seconds=0.1), sys.argv[1], workers=1)
"""


@pytest.mark.further
def test_a_killed_client_is_resumed(tmp_path: Path, client: object) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    beside = os.pathsep.join([str(ROOT / "tests" / "support"), str(ROOT)])  # and the package that is tested
    path, environment = tmp_path / "s", os.environ | {"PYTHONPATH": beside}
    process = subprocess.Popen([sys.executable, tmp_path / "program.py", path], env=environment)
    try:
        deadline = time.monotonic() + PATIENCE
        while not list(path.glob("checksums/c/?/0")):  # chunks that are finished
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        workers = psutil.Process(process.pid).children(recursive=True)
        assert workers
    finally:
        process.kill()
        process.wait()
    _, left = psutil.wait_procs(workers, timeout=PATIENCE)
    assert left == []  # its worker ends with it
    finished = int(Store(path).finished.sum())
    assert 0 < finished < 60
    given = sweep(rows=180, chunk=3, seconds=0.1)
    quick = run_sweep(given, path, scheduler=client)
    assert quick.kept == finished and len(quick.computed) == 60 - finished and not quick.repaired
    expected = np.concatenate([given.compute(0)["x"], given.compute(59)["x"]])
    x = zarr.open_group(path)["x"][:]
    np.testing.assert_array_equal(np.concatenate([x[:3], x[-3:]]), expected)
    again = [sweep(rows=180, chunk=3).compute(number)["x"] for number in range(60)]
    assert x.tobytes() == np.concatenate(again).tobytes()


def test_a_scheduler_without_workers(tmp_path: Path) -> None:
    from distributed import LocalCluster

    with LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as empty:
        with pytest.raises(
            SchedulerError, match=r"has no workers after 0\.3 s: start some, `dask worker tcp://"
        ):
            run_sweep(sweep(), tmp_path / "s", scheduler=empty.scheduler_address, timeout=0.3)
    assert not (tmp_path / "s").exists()


def test_errors_of_the_function_come_back(tmp_path: Path, client: object) -> None:
    def careful(chunk: object) -> dict[str, np.ndarray]:
        raise LookupError("chunk of nothing")

    with pytest.raises(LookupError, match="chunk of nothing"):
        run_sweep(sweep(function=careful), tmp_path / "s", scheduler=client)


# --- who may reach the workers -------------------------------------------------------------------


def listening() -> Iterator[tuple[str, int]]:
    """The addresses at which this process and those that it started wait for others."""
    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        for each in process.net_connections():
            if each.status == psutil.CONN_LISTEN:
                yield each.laddr.ip, each.laddr.port


async def says(address: tuple[str, int], message: bytes) -> bytes:
    """The answer to `message`, without TLS; what Dask says before it is asked counts, too."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(message)
        await writer.drain()
        return await asyncio.wait_for(reader.read(200), 0.3)
    except (TimeoutError, ConnectionError):
        return b""
    finally:
        writer.close()


def test_every_port_is_closed_to_who_has_not_the_certificate(client: object) -> None:
    """Any user of the machine could have a worker run code; ports of HTTP have no page at all."""
    ports, answers = set(listening()), []
    assert len(ports) >= 7  # of a scheduler, two nannies and two workers
    for address in ports:
        assert address[0] == "127.0.0.1"
        for path in ("/", "/info", "/status", "/json/identity.json", "/api/v1/get_workers", "/metrics"):
            answers.append(asyncio.run(says(address, f"GET {path} HTTP/1.0\r\n\r\n".encode())))
    assert all(each == b"" or each.startswith((b"HTTP/1.1 404", b"\x15\x03")) for each in answers)
    assert any(each.startswith(b"HTTP/1.1 404") for each in answers)


def test_who_has_no_certificate_or_another_is_refused(client: object, tmp_path: Path) -> None:
    from distributed import Client
    from distributed.security import Security

    address = client.scheduler.address  # type: ignore[attr-defined]
    assert address.startswith("tls://127.0.0.1:")
    plain = address.replace("tls", "tcp")
    addresses = [plain, *(each.replace("tls", "tcp") for each in client.scheduler_info()["workers"])]  # type: ignore[attr-defined]
    for each in addresses:
        with pytest.raises(OSError, match="reset|closed|Timed out"):
            Client(each, timeout=1.0, set_as_default=False)
    with pytest.raises(TypeError, match="ssl_context"):
        Client(address, timeout=1.0, set_as_default=False)
    with pytest.raises(OSError, match="certificate"):
        Client(address, security=Security.temporary(), timeout=1.0, set_as_default=False)
    with pytest.raises(SchedulerError, match=r"wants a certificate\. Name it in Dask's configuration"):
        run_sweep(sweep(), tmp_path / "s", scheduler=address)
    assert not (tmp_path / "s").exists()
    assert client.submit(abs, -1).result() == 1  # type: ignore[attr-defined]


def test_another_certificate_is_named(client: object, certificate: None, tmp_path: Path) -> None:
    import dask
    from distributed.security import Security

    other = Security.temporary()
    settings = {"ca-file": other.tls_ca_file, "client.key": other.tls_client_key}
    settings["client.cert"] = other.tls_client_cert
    address = client.scheduler.address  # type: ignore[attr-defined]
    with (
        dask.config.set({f"distributed.comm.tls.{name}": value for name, value in settings.items()}),
        pytest.raises(SchedulerError, match="refuses this client's certificate"),
    ):
        run_sweep(sweep(), tmp_path / "s", scheduler=address)


def test_a_cluster_is_never_open_because_a_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ModuleNotFoundError, match=r"cryptography.*pip install"), local_cluster(1):
        pass


HOSTILE = "import os, pathlib; pathlib.Path(os.environ['MARK']).write_text(__name__)\n"


@pytest.mark.further
def test_files_in_the_current_folder_are_not_imported_by_workers(tmp_path: Path) -> None:
    """Python puts the current folder first, before its own modules, in a child that is started by ``-c``."""
    (tmp_path / "folder").mkdir()
    for name in ("multiprocessing", "numpy", "distributed", "zarr"):
        (tmp_path / "folder" / f"{name}.py").write_text(HOSTILE)
    (tmp_path / "program.py").write_text(PROGRAM.replace("180", "3"))
    beside = os.pathsep.join([str(ROOT / "tests" / "support"), str(ROOT)])
    mark = tmp_path / "mark"
    environment = os.environ | {"PYTHONPATH": beside, "MARK": str(mark)}
    environment.pop("PYTHONSAFEPATH", None)  # of the cluster of this file
    program = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "s")]
    subprocess.run(program, cwd=tmp_path / "folder", env=environment, check=True, timeout=PATIENCE)
    assert Store(tmp_path / "s").finished.all() and not mark.exists()
    again = [sys.executable, "-c", "import numpy"]
    subprocess.run(again, cwd=tmp_path / "folder", env=environment, check=True)
    assert mark.exists()  # the control


@pytest.mark.further
def test_the_environment_of_the_caller_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONSAFEPATH", "PYTHONHASHSEED", "OMP_NUM_THREADS"):  # of the cluster of this file
        monkeypatch.delenv(name, raising=False)

    def own() -> dict[str, str]:  # without the mark by which Dask knows its own children
        return {name: value for name, value in os.environ.items() if name != "__DASK_PARENT_PID"}

    before = own()
    with local_cluster(1):
        assert own() != before
    assert own() == before


# --- the command line ----------------------------------------------------------------------------


def test_the_command_line_runs_resumes_and_repairs(
    tmp_path: Path, client: object, certificate: None, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["sweep", "table", str(robot_path("ur5")), "--rows", "90", "--chunk", "30", "--output"]
    words += [str(tmp_path / "s"), "--scheduler", client.scheduler.address]  # type: ignore[attr-defined]
    assert main(words) == 0
    printed = " ".join(capsys.readouterr().out.split())  # lines are broken at 80 columns
    assert (
        "christoffel_largest: (90,) float64" in printed and "3 chunks, 3 computed, 0 already there" in printed
    )
    damaged = tmp_path / "s" / "q" / "c" / "1" / "0"
    damaged.write_bytes(damaged.read_bytes()[:100])
    assert main(words) == 0
    printed, notes = (" ".join(text.split()) for text in capsys.readouterr())
    assert "1 computed, 2 already there" in printed
    assert "chunk 1 computed again: 'q' cannot be read" in printed and "note: chunk 1 computed again" in notes
    assert main([*words, "--seed", "5"]) == 2
    assert "is the store of another sweep: its seed is 0, not 5" in capsys.readouterr().err


def test_no_workers_are_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def starts_processes(count: int) -> None:
        raise AssertionError(f"a cluster of {count}")

    monkeypatch.setattr("connections.sweeps.running.local_cluster", starts_processes)
    words = [
        "sweep",
        "table",
        str(robot_path("ur5")),
        "--rows",
        "20",
        "--chunk",
        "10",
        "--quantity",
        "gravity",
    ]
    assert main([*words, "--workers", "0", "--output", str(tmp_path / "s")]) == 0
    assert "2 chunks, 2 computed" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(AssertionError, match="a cluster of"):  # negative control
        main([*words, "--output", str(tmp_path / "other")])


OWN = """
import numpy as np
from connections.sweeps import Output, Sweep

OUTPUTS = {"x": Output(), "y": Output(), "large": Output(dtype="bool")}

class Law:
    gain = 2.0

    def __call__(self, x):
        return self.gain * x  # in a class of the file

def values(chunk):
    x = Law()(chunk.rng().standard_normal(chunk.rows))
    return {"x": x, "y": np.where(x < 0.0, np.nan, x), "large": x > 1.0}

def motions(rows=3000):
    return Sweep("motions", values, rows, OUTPUTS, chunk=5, seed=3)

def broken(chunk):
    return {"x": np.log(0.0 * chunk.start) + {}["mass"]}

broken_motions = Sweep("broken", broken, 10, {"x": Output()})
"""


def test_the_sweep_of_a_file_runs_and_resumes(
    tmp_path: Path,
    client: object,
    certificate: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Workers do not find the file; the seed is its own; edits of it are noticed; NaN are counted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my_sweep.py").write_text(OWN)
    address = client.scheduler.address  # type: ignore[attr-defined]

    def command(name: str, *more: str) -> tuple[int, str]:
        words = ["sweep", "python", f"my_sweep.py:{name}", "--output", f"{name}.zarr"]
        status = main([*words, "--scheduler", address, *more])
        return status, " ".join(" ".join(capsys.readouterr()).split())

    status, said = command("motions", "--rows", "12")
    x = zarr.open_group("motions.zarr")["x"][:]
    assert status == 0 and "3 chunks, 3 computed" in said and "x: (12,) float64" in said
    assert f"(row {x.argmin()}) to {x.max():.6g}" in said and "large: (12,) bool" in said
    assert f"; {np.sum(x < 0.0)} are NaN" in said
    drawn = np.random.default_rng(np.random.SeedSequence(3, spawn_key=(0,))).standard_normal(5)
    assert np.array_equal(x[:5], 2.0 * drawn)
    assert "0 computed, 3 already there" in command("motions", "--rows", "12")[1]
    assert "its rows is 12, not 3000" in command("motions")[1]
    assert "its seed is 3, not 4" in command("motions", "--rows", "12", "--seed", "4")[1]
    assert "its chunk is 5, not 6" in command("motions", "--rows", "12", "--chunk", "6")[1]
    (tmp_path / "my_sweep.py").write_text(OWN.replace("in a class of the file", "a law"))
    status, said = command("motions", "--rows", "12")
    assert status == 2 and "another text of file my_sweep" in said
    assert command("motions", "--rows", "12", "--other-sources")[0] == 0
    (tmp_path / "my_sweep.py").write_text(OWN.replace("gain = 2.0", "gain = 3.0"))
    status, said = command("motions", "--rows", "12", "--other-sources")
    assert status == 2 and "its function are not the same" in said
    status, said = command("broken_motions")
    assert status == 2 and "my_sweep.py:broken_motions cannot be computed KeyError: 'mass'" in said
    assert "line 21, in broken" in said and "Traceback" not in said


@pytest.mark.further
def test_new_processes_import_the_neighbours_of_a_file(tmp_path: Path) -> None:
    """In a process of its own, as from a shell; ``--workers`` starts others."""
    (tmp_path / "neighbour_of_a_sweep.py").write_text("SHIFT = 5.0\n\ndef shift(x):\n    return x + SHIFT\n")
    text = OWN.replace("return self.gain * x", "return shift(x)")
    (tmp_path / "my_sweep.py").write_text("from neighbour_of_a_sweep import shift\n" + text)
    words = ["sweep", "python", "my_sweep.py:motions", "--rows", "10", "--workers", "2", "--output", "s"]
    subprocess.run([sys.executable, "-m", "connections.cli", *words], cwd=tmp_path, check=True)
    drawn = np.random.default_rng(np.random.SeedSequence(3, spawn_key=(1,))).standard_normal(5)
    assert np.array_equal(zarr.open_group(tmp_path / "s")["x"][5:], drawn + 5.0)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["table", "UR5", "--output", "s"], "give rows, how many random configurations"),
        (["table", "UR5", "--rows", "5", "--velocities", "v", "--output", "s"], "velocities: random"),
        (["table", "UR5", "--configurations", "q", "--output", "s"], "there is no Zarr array at q"),
        (["table", "none.urdf", "--rows", "5", "--output", "s"], "none.urdf"),
        (["contorsion", "--gamma", "1", "--workers", "1", "--scheduler", "x", "--output", "s"], "not both"),
        (["propositions", "--output", "s"], "give a robot, or a system"),
        (
            ["propositions", "--system", "sphere", "--only", "(99)", "--output", "s"],
            "'(99)' given; about sphere",
        ),
        (["propositions", "--system", "sphere", "--floating-base", "--output", "s"], "needs a robot"),
    ],
)
def test_wrong_words(
    words: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    robot = str(robot_path("ur5"))
    assert main(["sweep", *[robot if word == "UR5" else word for word in words]]) == 2
    error = capsys.readouterr().err
    assert complaint in error and error.count("\n") == 1
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "required: KIND"),
        (["table", "x.urdf", "--rows", "5"], "required: --output"),
        (["table", "x.urdf", "--rows", "0", "--output", "s"], "--rows: expected a positive integer, got '0'"),
        (
            ["contorsion", "--workers", "-1", "--output", "s"],
            "--workers: expected a number of processes, got '-1'",
        ),
        (["table", "x.urdf", "--quantity", "curl", "--output", "s"], "invalid choice: 'curl'"),
        (
            ["contorsion", "--timeout", "0", "--output", "s"],
            "--timeout: expected a positive number of seconds",
        ),
    ],
)
def test_wrong_options(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["sweep", *words])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert complaint in error and error.count("\n") == 1
