"""The wheel, as those have it who install it: their tests, script, notebook, zip archive, options of Python.

    PYTHON tests/wheel.py  # of an environment with the wheel, pytest, ipykernel and jupyter_client

The project in `tests/stranger` is copied into a folder of its own, with caches of its own and nothing of this
checkout on the path. Every way of running it has to print the same numbers; then the package is uninstalled,
and nothing of it may be left. The command fails if one of them does not work.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipapp
from collections.abc import Iterator
from pathlib import Path

STRANGER = Path(__file__).parent / "stranger"
KERNEL = """
import sys
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name="python3")
outputs = []
reply = client.execute_interactive(open("__main__.py").read(), output_hook=outputs.append, timeout=300)
manager.shutdown_kernel(now=True)
streams = [each["content"] for each in outputs if each["msg_type"] == "stream"]
print(*(each["text"] for each in streams if each["name"] == "stdout"), sep="", end="")
sys.exit(reply["content"].get("traceback"))
"""
UNINSTALLED = "import importlib.util; assert importlib.util.find_spec('connections') is None"


def main() -> int:
    """Run everything; the number of ways that failed."""
    with tempfile.TemporaryDirectory() as place:
        project = Path(place, "project")
        shutil.copytree(STRANGER, project, ignore=shutil.ignore_patterns("__pycache__"))
        failed, expected = 0, ""
        for name, words, prints in ways(project):
            start = time.perf_counter()
            done = subprocess.run(words, cwd=project, env=environment(place), capture_output=True, text=True)
            expected = expected or (done.stdout if prints else "")
            good = done.returncode == 0 and (not prints or done.stdout == expected != "")
            failed += not good
            print(f"{'ok' if good else 'FAILED':7}{name} ({time.perf_counter() - start:.0f} s)", flush=True)
            if not good:
                print(done.stdout[-3000:], done.stderr[-3000:], sep="\n")
    return failed


def ways(project: Path) -> Iterator[tuple[str, list[str], bool]]:
    """What each way is called, its command, and whether it prints the numbers of the script."""
    python = sys.executable
    yield "a script", [python, "__main__.py"], True
    for option in ("-O", "-OO", "-P", "-I"):  # -B: pip does not know the bytecode of -O, which would be left
        yield f"python {option}", [python, option, "-B", "__main__.py"], True
    yield "processes that are spawned", [python, "__main__.py", "processes"], True
    yield "a notebook's kernel", [python, "-c", KERNEL], True
    archive = project / "program.pyz"
    with_package = project.parent / "archive"
    shutil.copytree(project, with_package)
    shutil.copytree(package(), with_package / "connections", ignore=shutil.ignore_patterns("__pycache__"))
    zipapp.create_archive(with_package, archive)
    yield "a zip archive that holds the package", [python, str(archive)], True
    yield "their tests", [python, "-m", "pytest", "-q"], False
    yield "their tests, without the plugin", [python, "-B", "-m", "pytest", "-q", *WITHOUT_PLUGIN], False
    yield "their tests, on two processes", [python, "-m", "pytest", "-q", "-n", "2"], False
    yield "pip uninstall", [python, "-m", "pip", "uninstall", "-q", "-y", "affine-connections"], False
    yield "nothing is left", [python, "-c", UNINSTALLED], False


WITHOUT_PLUGIN = ["-p", "no:affine-connections", "-k", "not fixture"]


def package() -> Path:
    """The folder of the installed package."""
    show = "import connections, os; print(os.path.dirname(connections.__file__))"
    folder = subprocess.run([sys.executable, "-I", "-c", show], capture_output=True, text=True, check=True)
    found = Path(folder.stdout.strip())
    if not found.is_relative_to(sys.prefix):
        raise SystemExit(f"{found} is not in {sys.prefix}: this is for an environment that has the wheel")
    return found


def environment(place: str) -> dict[str, str]:
    """The environment of somebody who has set nothing for this project."""
    ours = ("PYTHON", "PYTEST_", "JAX_", "NUMBA_", "XLA_", "CONNECTIONS_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {"XDG_CACHE_HOME": f"{place}/cache", "JAX_PLATFORMS": "cpu"}


if __name__ == "__main__":
    sys.exit(main())
