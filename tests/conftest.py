"""What every test shares: quick compilation, seeds from the test's own name, no display, no deadlines."""

import contextlib
import ctypes
import gc
import hashlib
import os
import zlib
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault(
    "JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0"
)  # frames noted with each operation that is lowered
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a process for each core: more threads only wait
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")  # for the next run, small ones too
os.environ.setdefault("CONNECTIONS_QUIET", "1")  # whether something was compiled before changes no output

import hypothesis  # noqa: E402
import jax  # noqa: E402
import numpy as np  # noqa: E402
import psutil  # noqa: E402
import pytest  # noqa: E402

from connections._jax import unoptimized  # noqa: E402

# As the command line does: most functions run a few times only, and most of the time goes into compiling
# them; without XLA's fusion emitters it takes two thirds of that, and a tenth less if a function is not cut
# into parts for several threads. XLA_FLAGS="" in the environment compiles them as for a user; `.ci/run` does
# so for some examples.
os.environ.setdefault("XLA_FLAGS", unoptimized())

# What JAX has traced stays: millions of objects, which Python's collector would go through again and again.
# With its own thresholds that took a third of the time of the last tests of a process.
gc.set_threshold(50_000, 20, 100)

# Compilation makes the first example slow; the same examples run everywhere.
hypothesis.settings.register_profile("connections", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.load_profile("connections")


SLOW = Path(__file__).parent / "further.txt"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the cases that are marked `further`, too")
    parser.addoption(
        "--half", metavar="TEXT", help="run the further cases of half of the tests, which TEXT chooses"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without `--all`, leave the further cases out, or those of half of the tests.

    Further ones are marked, or `further.txt` has them, because they take long (`support/slow_tests.py`).
    """
    everything, half = config.getoption("--all"), config.getoption("--half")
    slow = set(SLOW.read_text(encoding="utf-8").split("\n"))

    def runs(item: pytest.Item) -> bool:
        further = item.get_closest_marker("further") or item.nodeid.removeprefix("tests/") in slow
        if everything or not further:
            return True
        text = f"{half} {item.nodeid.partition('[')[0]}"
        return half is not None and hashlib.sha256(text.encode()).digest()[0] % 2 == 0

    config.hook.pytest_deselected(items=[item for item in items if not runs(item)])
    items[:] = filter(runs, items)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator seeded from the test's id: the same numbers alone, in the suite, and on every machine."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))


MAPPINGS = Path("/proc/self/maps")
MOST_MAPPINGS = 30_000  # of the 65530 that Linux allows; a compiled function takes about twenty


BYTES_OF_A_PROCESS = 3 * 2**30  # half of them are imports and what Numba has compiled


def memory_of_the_machine() -> int:
    """Bytes, of the container if it has less."""
    limits = [Path("/sys/fs/cgroup", name) for name in ("memory.max", "memory/memory.limit_in_bytes")]
    texts = [path.read_text().strip() for path in limits if path.is_file()]
    return min([psutil.virtual_memory().total, *(int(text) for text in texts if text.isdigit())])


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A process for each core, but no more than there is memory for: two for 8 GB."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, memory_of_the_machine() // BYTES_OF_A_PROCESS))


# Bytes by which a process may grow, within a file and at its end, until it forgets what XLA has compiled.
MOST_WITHIN, MOST_AFTER = 1200 * 2**20, 400 * 2**20
PROCESS = psutil.Process()
_forgotten_at = [PROCESS.memory_info().rss]


@pytest.hookimpl(trylast=True)  # after the fixtures' ends
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Forget what XLA has compiled if the memory has grown, and after a file near the limit of mappings.

    Otherwise a process holds 6 GB at the end of the tests. What is needed again is read from JAX's cache on
    disk, so that it costs a second, a few times. The C library keeps what is freed, unless it is asked.
    """
    ends = nextitem is None or nextitem.path != item.path
    full = ends and MAPPINGS.exists() and MAPPINGS.read_bytes().count(b"\n") > MOST_MAPPINGS
    if full or PROCESS.memory_info().rss > _forgotten_at[0] + (MOST_AFTER if ends else MOST_WITHIN):
        jax.clear_caches()
        gc.collect()
        with contextlib.suppress(AttributeError, OSError, TypeError):  # the GNU C library's
            ctypes.CDLL(None).malloc_trim(0)
        _forgotten_at[0] = PROCESS.memory_info().rss
