"""How fast the core is, against geomstats with its autograd backend: `python tests/benchmarks/core.py`.

Every time is the median of warm calls on one core (--all-cores: on all), through the public functions,
validation included. Ours and the peer's are measured in the same run, on values first compared to 1e-6. A
missed target is printed as MISSED; the exit status is 0 all the same, for a busy machine is not an error.
"""

from __future__ import annotations

import os
import sys

# Before NumPy, JAX and geomstats are imported: one core, one backend. XLA sizes its pool of threads by the
# cores it may use; with two, calls of tens of microseconds are slower and scatter.
CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
os.environ.update(
    OMP_NUM_THREADS="1",
    OPENBLAS_NUM_THREADS="1",
    MKL_NUM_THREADS="1",
    JAX_PLATFORMS="cpu",
    GEOMSTATS_BACKEND="autograd",
)

if CORES and "--all-cores" not in sys.argv:
    os.sched_setaffinity(0, {min(CORES)})

import argparse  # noqa: E402
import platform  # noqa: E402
import statistics  # noqa: E402
import subprocess  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import connections as cn  # noqa: E402
from connections import interop  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
BATCH = 1000
AGREEMENT = 1e-6


@dataclass(frozen=True)
class Result:
    """A measured number beside its target: seconds, or a ratio.

    Parameters
    ----------
    what : the operation.
    value, target : in `unit`.
    unit : "us", "ms", "s" for times (at most the target), "x" for ratios (at least the target).
    """

    what: str
    value: float
    target: float
    unit: str

    @property
    def met(self) -> bool:
        """Whether the target is met."""
        return self.value >= self.target if self.unit == "x" else self.value <= self.target

    def __str__(self) -> str:
        sign = ">=" if self.unit == "x" else "<="
        verdict = "met" if self.met else "MISSED"
        number, bound = f"{self.value:,.1f} {self.unit}", f"{sign} {self.target:,g} {self.unit}"
        return f"{self.what:<48}{number:>14}   {bound:<11}{verdict}"


def entries(q: Any, numpy: Any) -> Any:
    """H(q) of the metric that is measured, (3, 3): dense, positive definite near the origin."""
    x, y, z = q[0], q[1], q[2]
    a, b, c = 0.3 * numpy.cos(z), 0.1 * x * y, 0.2 * numpy.sin(x)
    rows = ((2.0 + numpy.sin(y) ** 2, a, b), (a, 3.0 + x * x, c), (b, c, 2.5 + numpy.cos(y)))
    return numpy.stack([numpy.stack(row) for row in rows])


def levi_civita() -> cn.LeviCivita:
    """The connection that is measured."""
    return cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(3), lambda q: entries(q, jnp)))


def points(count: int) -> np.ndarray:
    """(count, 3) points."""
    return np.random.default_rng(0).uniform(-0.5, 0.5, (count, 3))


def peer() -> Any:
    """The same metric in geomstats, which differentiates it by autograd."""
    gs = interop.import_geomstats().backend  # it cannot be imported by itself with NumPy 2.4 and later
    from geomstats.geometry.euclidean import Euclidean
    from geomstats.geometry.riemannian_metric import RiemannianMetric

    class DenseMetric(RiemannianMetric):
        def metric_matrix(self, base_point: Any = None) -> Any:
            if base_point.ndim == 1:
                return entries(base_point, gs)
            return gs.stack([entries(point, gs) for point in base_point])

    return DenseMetric(Euclidean(3, equip=False))


def median(call: Callable[[], Any], repeats: int, warmup: int | None = None) -> float:
    """Median time of one warm call, seconds; the result is waited for."""
    for _ in range(max(1, repeats // 10) if warmup is None else warmup):
        jax.block_until_ready(call())
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def christoffel(repeats: int) -> list[Result]:
    """Christoffel symbols of a 3-dimensional metric at one point and on a batch, ours and geomstats'."""
    nabla, other = levi_civita(), peer()
    batch = points(BATCH)
    point = batch[0]
    require_equal(nabla.coefficients(batch[:8]), [np.asarray(other.christoffels(q)) for q in batch[:8]])
    one = median(lambda: nabla.coefficients(point), 20 * repeats)
    many = median(lambda: nabla.coefficients(batch), repeats)
    peer_one = median(lambda: other.christoffels(point), max(3, repeats // 4))
    # One call on the batch: geomstats loops over it in Python, so that one or two are enough.
    peer_many = median(
        lambda: other.christoffels(batch[: min(BATCH, 10 * repeats)]), 1 if repeats < 50 else 2, 0
    )
    peer_many *= BATCH / min(BATCH, 10 * repeats)
    name = f"geomstats {version('geomstats')}, autograd"
    print(f"{name}: {1e3 * peer_one:.2f} ms a point, {peer_many:.2f} s a batch")
    return [
        Result("Christoffel symbols, n = 3, one point", 1e6 * one, 80.0, "us"),
        Result("  geomstats / connections", peer_one / one, 30.0, "x"),
        Result(f"Christoffel symbols, n = 3, {BATCH} points", 1e3 * many, 2.5, "ms"),
        Result("  geomstats / connections", peer_many / many, 1000.0, "x"),
    ]


def curvature(repeats: int) -> list[Result]:
    """Riemann tensor at one point of the same metric."""
    nabla, point = levi_civita(), points(1)[0]
    require_equal(nabla.curvature(point), peer_curvature(point))
    seconds = median(lambda: nabla.curvature(point), 20 * repeats)
    return [Result("Riemann tensor, n = 3, one point", 1e6 * seconds, 150.0, "us")]


def peer_curvature(point: np.ndarray, step: float = 1e-4) -> np.ndarray:
    """R[l, k, i, j] of geomstats' Christoffel symbols and their central differences."""
    other = peer()
    Gamma = np.asarray(other.christoffels(point))
    steps = step * np.eye(3)
    pairs = [(other.christoffels(point + h), other.christoffels(point - h)) for h in steps]
    dGamma = np.stack([(np.asarray(a) - np.asarray(b)) / (2.0 * step) for a, b in pairs])  # [i, l, j, k]
    half = np.einsum("iljk->lkij", dGamma) + np.einsum("lim,mjk->lkij", Gamma, Gamma)
    return half - np.swapaxes(half, 2, 3)


def transport(repeats: int) -> list[Result]:
    """Transport operator once around the parallel of colatitude 60 degrees of the unit sphere."""
    frame = cn.MatrixFrame(lambda q: jnp.diag(jnp.stack([jnp.ones(()), 1.0 / jnp.sin(q[0])])), 2, 2)
    nabla = cn.LeviCivita(cn.ConstantMetric(frame, np.eye(2)))  # orthonormal fields east and south
    colatitude = np.pi / 3

    def parallel(t: Any) -> Any:
        return jnp.stack([colatitude + 0.0 * t, t])

    times, angle = np.array([0.0, 2 * np.pi]), 2 * np.pi * np.cos(colatitude)
    turn = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]

    def around() -> Any:
        return cn.parallel_transport(nabla, parallel, np.eye(2), times)

    require_equal(around()[:, -1, :].T, turn)
    return [Result("Transport along a closed curve on the sphere", 1e3 * median(around, repeats), 30.0, "ms")]


def starting(repeats: int) -> list[Result]:
    """`import connections` in a fresh process, the process included."""
    wall, own = fresh_process(["-c", "import connections"], min(repeats, 5))
    print(
        f"import connections: {own:.2f} s of processor time; the target is for the clock, on an idle machine"
    )
    return [Result("import connections", wall, 2.0, "s")]


def verifying() -> list[Result]:
    """`connections verify` without arguments, cold: nothing compiled before."""
    wall, own = fresh_process(["-m", "connections.cli", "verify"], 1)
    print(f"connections verify: {own:.1f} s of processor time")
    return [Result("connections verify, cold", wall, 90.0, "s")]


def fresh_process(arguments: list[str], repeats: int) -> tuple[float, float]:
    """Median time on the clock, and mean processor time, of a fresh Python process, seconds."""
    dropped = ("JAX_COMPILATION_CACHE_DIR", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {k: v for k, v in os.environ.items() if k not in dropped}

    def run() -> None:
        subprocess.run(
            [sys.executable, *arguments], check=True, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL
        )

    warmup = 1 if repeats > 1 else 0
    own_cores = os.sched_getaffinity(0) if CORES else set()
    if CORES:
        os.sched_setaffinity(0, CORES)  # inherited: a fresh process has all cores, as a user's has
    before = os.times()
    wall = median(run, repeats, warmup)
    after = os.times()
    if CORES:
        os.sched_setaffinity(0, own_cores)
    own = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, own / (repeats + warmup)


def require_equal(ours: Any, theirs: Any) -> None:
    """Stop unless the values agree: a fast wrong number is worth nothing."""
    gap = float(np.max(np.abs(np.asarray(ours) - np.asarray(theirs))))
    if not gap <= AGREEMENT:
        raise SystemExit(f"the values differ by {gap:.1e}: nothing is timed")


def version(package: str) -> str:
    """Installed version of a package."""
    from importlib.metadata import version as installed

    return installed(package)


def processor() -> str:
    """Name of the processor and number of cores."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores"


def commit() -> str:
    """Short hash of the checkout, or "unknown"."""
    words = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--repeats", type=int, default=100, help="batch calls per median (single points: 20 times)"
    )
    parser.add_argument(
        "--verify", action="store_true", help="also time `connections verify` (a minute or so)"
    )
    parser.add_argument("--all-cores", action="store_true", help="do not pin the process to one core")
    options = parser.parse_args()
    print(f"{time.strftime('%Y-%m-%d')}, {processor()}, commit {commit()}, load {os.getloadavg()[0]:.1f}")
    versions = f"Python {platform.python_version()}, JAX {jax.__version__}, NumPy {np.__version__}"
    cores = len(os.sched_getaffinity(0)) if CORES else os.cpu_count()
    print(f"{versions}, on {cores} core(s), medians")
    results: list[Result] = []
    for measure in (christoffel, curvature, transport, starting):
        results += measure(options.repeats)
    if options.verify:
        results += verifying()
    print(*results, sep="\n")
    missed = [result for result in results if not result.met]
    print(f"MISSED: {len(missed)} of {len(results)} targets" if missed else f"all {len(results)} targets met")
    return 0


if __name__ == "__main__":
    sys.exit(main())
