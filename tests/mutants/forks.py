"""A process that has imported what takes long, and forks for each run of pytest: a script of `trials.py`.

Each line that it reads is a JSON object: `number` of the run, `tree` to run it in, pytest's `options`, the
file `output` for what it prints, and `limit`, s. When a run has ended it prints one: the number and the exit
`code`, negative for a signal, null after the limit. Nothing of the package itself is imported before a fork.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import sys
import time
import warnings

#: What the tests import anyway. None of it starts a thread before it is used.
LOADED = ("jax", "jax.numpy", "scipy.linalg", "scipy.integrate", "numba", "sympy", "networkx")
LOADED += ("hypothesis", "pytest")


def main(names: list[str]) -> None:
    """Serve until the input ends, which ends what still runs."""
    os.set_blocking(0, False)
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    warnings.filterwarnings("ignore", ".*fork.*")
    running: dict[int, tuple[int, float]] = {}  # process: number and deadline
    text, ended = b"", False
    while not ended or running:
        ready, _, _ = select.select([] if ended else [0], [], [], 0.05 if running else None)
        if ready:
            more = os.read(0, 1 << 16)
            text, ended = text + more, not more
        *lines, text = text.split(b"\n")
        for line in lines:
            asked = json.loads(line)
            running[_forked(asked)] = asked["number"], time.monotonic() + asked["limit"]
        for process, (number, deadline) in list(running.items()):
            late = ended or time.monotonic() > deadline
            if late:
                os.killpg(process, signal.SIGKILL)
            ended_process, status = os.waitpid(process, 0 if late else os.WNOHANG)
            if ended_process:
                del running[process]
                code = None if late else os.waitstatus_to_exitcode(status)
                with contextlib.suppress(BrokenPipeError):  # nobody asks any more
                    print(json.dumps({"number": number, "code": code}), flush=True)


def _forked(asked: dict) -> int:
    """The process of one run."""
    process = os.fork()
    if process:
        return process
    code = 70
    try:
        os.setpgid(0, 0)
        output = os.open(asked["output"], os.O_WRONLY | os.O_CREAT, 0o600)
        for stream, file in ((0, os.open(os.devnull, os.O_RDONLY)), (1, output), (2, output)):
            os.dup2(file, stream)
        tree = asked["tree"]
        os.chdir(tree)
        os.environ |= {"PYTHONPATH": tree, "XDG_CACHE_HOME": f"{tree}.cache"}
        sys.path[0] = tree  # in the place of this script's folder
        sys.argv = ["pytest", *asked["options"]]
        import pytest

        code = int(pytest.main(asked["options"]))
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
