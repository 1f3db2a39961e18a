"""Mutants on trial: each in a copy of the checkout with compiled code of its own.

A mutant must neither meet machine code of the right sources nor leave code of wrong ones behind. So each copy
is made for one trial. Numba's files are found by a hash of all that is compiled into them
(`connections/engines/source_fingerprint.py`), JAX's by what was traced, so that all trials of one run share
folders, which begin with links to the user's files; none is replaced.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.mutants.forks import LOADED
from tests.mutants.mutant import Mutant, MutantError

LIMIT = 600  # seconds of a trial


class Compiled(NamedTuple):
    """Folders of compiled code, or None."""

    jax: Path | None
    numba: Path | None  #: as `engines.disk_cache.machine_code_folder` names it


NOTHING = Compiled(None, None)


@dataclass(frozen=True)
class Verdict:
    """How the tests of a mutant went; `mutant` is None for the sources as they are.

    Parameters
    ----------
    by : the first test that failed, or what else ended the trial; empty if none did.
    seconds : that the tests took.
    """

    mutant: Mutant | None
    by: str
    seconds: float
    output: str

    @property
    def killed(self) -> bool:
        """Whether a test noticed."""
        return bool(self.by)


def trials(
    mutants: Sequence[Mutant], root: Path, jobs: int, kept: Compiled = NOTHING, loaded: Sequence[str] = LOADED
) -> Iterator[Verdict]:
    """The verdicts, as they come in.

    Parameters
    ----------
    root : a checkout.
    jobs : trials at the same time.
    kept : the folders of cached code, which are only read.
    loaded : what is imported once for all trials.
    """
    sources = [mutant.source(root) for mutant in mutants]  # all of them fit before the first one runs
    tasks = [
        (mutant, mutant.tests, {f"connections/{mutant.file}": source})
        for mutant, source in zip(mutants, sources, strict=True)
    ]
    yield from _run(tasks, root, jobs, kept, loaded)


def unharmed(
    tests: Iterable[tuple[str, ...]], root: Path, jobs: int, kept: Compiled = NOTHING
) -> Iterator[Verdict]:
    """The same for the sources as they are: nothing must fail."""
    yield from _run([(None, each, {}) for each in tests], root, jobs, kept, LOADED)


def _run(
    tasks: Sequence[tuple[Mutant | None, tuple[str, ...], dict[str, str]]],
    root: Path,
    jobs: int,
    kept: Compiled,
    loaded: Sequence[str],
) -> Iterator[Verdict]:
    files, waiting, began = _files(root), list(range(len(tasks)))[::-1], {}
    with tempfile.TemporaryDirectory(prefix="mutants-") as place, _forks(Path(place), kept, loaded) as forks:
        assert forks.stdin and forks.stdout
        while waiting or began:
            while waiting and len(began) < jobs:
                number = waiting.pop()
                tree = Path(place) / str(number)
                _copy(root, tree, files, tasks[number][2])
                report, output = f"{tree}.xml", f"{tree}.txt"
                options = [*_OPTIONS, f"--junitxml={report}", *(f"tests/{test}" for test in tasks[number][1])]
                asked = {"number": number, "tree": str(tree), "options": options, "output": output}
                began[number] = time.monotonic()
                forks.stdin.write(json.dumps({**asked, "limit": LIMIT}) + "\n")
                forks.stdin.flush()
            line = forks.stdout.readline()
            if not line:
                raise MutantError("the process that runs the trials has ended")
            found = json.loads(line)
            number, tree = found["number"], Path(place) / str(found["number"])
            mutant, tests, _ = tasks[number]
            yield _verdict(mutant, tests, found["code"], tree, time.monotonic() - began.pop(number))
            shutil.rmtree(tree, ignore_errors=True)


@contextlib.contextmanager
def _forks(place: Path, kept: Compiled, loaded: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """The process of `forks.py`, whose compiled code is in folders of its own."""
    jax, numba = place / "jax", place / "numba"
    for new, old in ((jax, kept.jax), (numba / "connections", kept.numba)):
        new.mkdir(mode=0o700, parents=True)
        if old is not None:
            shutil.copytree(
                old, new if old == kept.jax else new / old.name, copy_function=_link, dirs_exist_ok=True
            )
    environment = {
        **{name: value for name, value in os.environ.items() if name not in _OTHERS},
        **_OF_TESTS,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "JAX_COMPILATION_CACHE_DIR": str(jax),
        "NUMBA_CACHE_DIR": str(numba),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.05",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    command = [sys.executable, str(Path(__file__).parent / "forks.py"), *loaded]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True) as forks:
        yield forks  # the end of its input ends it


def _files(root: Path) -> list[str]:
    """The files of a checkout, also those that are not committed yet; of a folder without git, all files."""
    listing = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(listing, capture_output=True, text=True)
    if found.returncode:
        return [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
    return [name for name in found.stdout.split("\0") if name and (root / name).is_file()]


def _copy(root: Path, tree: Path, files: list[str], changed: dict[str, str]) -> None:
    """A copy of the checkout with other texts of some files, and with Python's bytecode that fits it."""
    for name in files:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, tree / name)  # with its time, by which Python knows its files
    for folder in {(root / name).parent for name in files if name.endswith(".py")}:
        beside = tree / folder.relative_to(root) / "__pycache__"
        for path in (folder / "__pycache__").glob("*.pyc"):
            beside.mkdir(exist_ok=True)
            _link(path, beside / path.name)
    for name, text in changed.items():
        (tree / name).write_text(text, encoding="utf-8")
        for path in (tree / name).parent.glob(f"__pycache__/{Path(name).stem}.*.pyc"):
            path.unlink()


def _link(path: Path | str, new: Path | str) -> None:
    """The same file under another name. Whoever writes it replaces it."""
    with contextlib.suppress(FileNotFoundError):  # another process has removed it
        try:
            os.link(path, new)
        except OSError:  # on another disk
            shutil.copy2(path, new)


def _verdict(
    mutant: Mutant | None, tests: tuple[str, ...], code: int | None, tree: Path, seconds: float
) -> Verdict:
    """What pytest's exit code, its report and its output say."""
    output = Path(f"{tree}.txt").read_text(encoding="utf-8", errors="replace")
    if code is None:
        return Verdict(mutant, "", seconds, f"no verdict within {LIMIT} s")
    if code == 0:
        return Verdict(mutant, "", seconds, output)
    if code < 0:
        return Verdict(mutant, f"a crash, signal {-code}", seconds, output)
    by = _first_failure(Path(f"{tree}.xml"))
    # Wrong names of tests, all of them left out, or an import that fails for a reason other than the mutant.
    if by is None or (code != 1 and not (mutant and f"connections/{mutant.file}:" in output)):
        of = "the sources as they are" if mutant is None else mutant.name
        raise MutantError(f"{of}: {' '.join(tests)} did not run:\n{output[-2000:]}")
    return Verdict(mutant, by, seconds, output)


#: Variables that would lead a trial to other caches, options or sources.
_OTHERS = {"NUMBA_CACHE_DIR", "PYTHONPYCACHEPREFIX", "PYTEST_ADDOPTS", "PYTHONPATH", "PYTEST_CURRENT_TEST"}
#: What `tests/conftest.py` sets, and libraries read when they are imported.
_OF_TESTS = {"MPLBACKEND": "Agg", "JAX_PLATFORMS": "cpu", "JAX_TRACEBACK_IN_LOCATIONS_LIMIT": "0"}
_OF_TESTS |= {"OPENBLAS_NUM_THREADS": "1", "CONNECTIONS_QUIET": "1"}
#: The plugins are those that the tests need: the others of an environment take seconds to import.
_OPTIONS = ["-p", "xdist", "-p", "timeout", "-p", "hypothesispytest", "-p", "no:cacheprovider"]
_OPTIONS += ["-q", "-x", "-n", "0", "--tb=short"]
_OPTIONS += ["-o", "timeout=0"]  # what takes long on a busy machine is not killed by a test


def _first_failure(report: Path) -> str | None:
    """The first test that failed: ``test_file::test_name``; None if no test did."""
    if not report.is_file():
        return None
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            file = case.get("classname", "").rpartition(".")[2]
            return f"{file}::{case.get('name')}" if file else str(case.get("name"))
    return None
