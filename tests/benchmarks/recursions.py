"""How fast the recursions are, against Pinocchio: `python tests/benchmarks/recursions.py`.

Every time is the median of warm calls through the public functions of both libraries in Python, validation
included, on one core and with one thread (--all-cores: not pinned). Calls that are compared take turns in
the same run, on values first compared to 1e-9 of their size. A missed target is printed as MISSED; the exit
status is 0 all the same. --markdown PATH writes the page docs/benchmarks_recursions.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median

from core import CORES  # first: it pins the process before NumPy is imported  # isort: skip

import numpy as np
import pinocchio as pin
from competitors import Call, Pair, binary_tree, built, chain, from_urdf, medians
from first_calls import first_calls
from numba import njit
from recursions_page import Entry, FirstCall, heading, write_page

from connections import multibody as mb

TENSORS, CONFIGURATIONS = 64, 4096
ROUNDS = 5  # of one and two threads by turns

SHORT = 12  # velocities; the targets of the dynamics are lower below
C_GOAL = {"arm": 1.3}
GAMMA_GOAL = {"arm": 5.0}
GAMMA_LIMIT = {"chain": 9e-6, "tree": 5e-6}  # seconds
BATCH_GOAL = {"arm": 8.0, "quadruped": 8.0}


def robots() -> dict[str, Callable[[], Pair]]:
    """What is timed, by name."""
    files = {
        "UR5": ("arm", "ur5"),
        "xArm7": ("arm", "xarm_description/urdf/xarm7.urdf"),
        "ANYmal": ("quadruped", "anymal"),
        "Solo12": ("quadruped", "solo12"),
        "G1": ("humanoid", "g1_description/urdf/g1_29dof_rev_1_0.urdf"),
        "iCub": ("humanoid", "icub_description/robots/icub.urdf"),
    }
    found: dict[str, Callable[[], Pair]] = {
        name: partial(from_urdf, name, kind, file, floating=kind != "arm")
        for name, (kind, file) in files.items()
    }
    found["chain of 20"] = partial(built, "chain of 20", "chain", chain(20))
    found["tree of 20"] = partial(built, "tree of 20", "tree", binary_tree(20))
    return found


@njit
def nothing(memory, q, v, torsion, out):
    """A compiled function of the arguments of C that does nothing."""
    return True


def one_joint() -> Call:
    """Pinocchio's C of a single joint: hardly more than the way from Python to C++ and back."""
    model = pin.Model()
    model.addJoint(0, pin.JointModelRZ(), pin.SE3.Identity(), "joint")
    model.appendBodyToJoint(1, pin.Inertia.Identity(), pin.SE3.Identity())
    return partial(pin.computeCoriolisMatrix, model, model.createData(), np.ones(1), np.ones(1))


def coriolis(pair: Pair, repeats: int) -> Iterator[Entry]:
    """C at one configuration, with what a call costs before it computes anything."""
    model, entry = pair.model, partial(Entry, pair.name)
    memory, out = model.program.memory, np.empty((model.nv, model.nv))
    ours, empty, theirs, entrance = medians(
        [
            partial(mb.coriolis_matrix, model, pair.q, pair.v),
            partial(nothing, memory, pair.q, pair.v, False, out),
            pair.theirs(pin.computeCoriolisMatrix, pair.v_other),
            one_joint(),
        ],
        repeats,
    )
    yield entry("C", ours, theirs / ours, least=C_GOAL.get(pair.kind, 2.0))
    yield entry("empty compiled call", empty)
    yield entry("Pinocchio's C", theirs)
    yield entry("the same without its entrance", theirs - entrance)


def christoffel(pair: Pair, repeats: int) -> Iterator[Entry]:
    """All Christoffel symbols: at one configuration against one C per unit velocity, and in a batch."""
    model, entry = pair.model, partial(Entry, pair.name)
    calls = [pair.theirs(pin.computeCoriolisMatrix, e) for e in np.eye(model.nv)]

    def columns() -> None:
        for call in calls:
            call()

    ours, theirs = medians([partial(mb.christoffel_symbols, model, pair.q), columns], repeats)
    goal, limit = GAMMA_GOAL.get(pair.kind, 15.0), GAMMA_LIMIT.get(pair.kind)
    yield entry("Gamma", ours, theirs / ours, least=goal, most=limit)
    rng = np.random.default_rng(2)
    q = np.stack([model.random(rng) for _ in range(TENSORS)])
    one, many = np.empty((model.nv,) * 3), np.empty((TENSORS, *(model.nv,) * 3))
    batched = partial(mb.christoffel_symbols, model, q, out=many)
    batched()
    require_equal(pair, many[-1], mb.christoffel_symbols(model, q[-1]))
    one_of = partial(mb.christoffel_symbols, model, pair.q, out=one)
    single, batch, zeros = medians([one_of, batched, partial(many.fill, 0.0)], repeats)
    each = batch / TENSORS
    yield entry("Gamma, one, out=", single)
    yield entry(f"Gamma, {TENSORS} of them, out=", each, single / each, least=3.0)
    yield entry(f"{TENSORS} Gamma of zeros", zeros / TENSORS)


def batches(pair: Pair, repeats: int) -> Iterator[Entry]:
    """C at many configurations, per configuration: against Pinocchio's single call, and with two threads."""
    model, rng = pair.model, np.random.default_rng(3)
    entry = partial(Entry, pair.name)
    q = np.stack([model.random(rng) for _ in range(CONFIGURATIONS)])
    v = rng.standard_normal((CONFIGURATIONS, model.nv))
    out = np.empty((CONFIGURATIONS, model.nv, model.nv))
    filled, fresh = (
        partial(mb.coriolis_matrix, model, q, v, out=out),
        partial(mb.coriolis_matrix, model, q, v),
    )
    filled()
    require_equal(pair, out[-1], mb.coriolis_matrix(model, q[-1], v[-1]))
    peer = pair.theirs(pin.computeCoriolisMatrix, pair.v_other)
    theirs, ours, allocated, zeros = medians([peer, filled, fresh, partial(out.fill, 0.0)], repeats)
    ours, allocated = ours / CONFIGURATIONS, allocated / CONFIGURATIONS
    yield entry(f"C, {CONFIGURATIONS}, out=", ours, theirs / ours, least=BATCH_GOAL.get(pair.kind, 6.0))
    yield entry(f"C, {CONFIGURATIONS}, allocated", allocated, theirs / allocated)
    yield entry(f"{CONFIGURATIONS} C of zeros", zeros / CONFIGURATIONS)
    if len(CORES) != 1:
        one, two = (time / CONFIGURATIONS for time in one_and_two_threads(filled, repeats))
        yield entry(f"C, {CONFIGURATIONS}, out=, two threads", two, one / two, least=1.7)


def one_and_two_threads(call: Call, repeats: int) -> tuple[float, float]:
    """Median times of a call on all cores, with one thread and with two."""
    own = os.sched_getaffinity(0) if CORES else set()
    if CORES:
        os.sched_setaffinity(0, CORES)  # inherited by the threads that are started from here on
    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(ROUNDS):
        for threads, found in times.items():
            mb.set_num_threads(threads)
            found += medians([call], max(3, repeats // ROUNDS))
    mb.set_num_threads(1)
    if CORES:
        os.sched_setaffinity(0, own)
    return median(times[1]), median(times[2])


def dynamics(pair: Pair, repeats: int) -> Iterator[Entry]:
    """The other recursions at one configuration, each against Pinocchio's algorithm for it."""
    model, q, v, w, a = pair.model, pair.q, pair.v, pair.w, pair.a
    goal = 1.0 if model.nv >= SHORT else 1.0 / 1.5
    C = pair.theirs(pin.computeCoriolisMatrix, pair.v_other)
    motion = pair.v_other, pair.a_other
    rows = {
        "H": (partial(mb.mass_matrix, model, q), pair.theirs(pin.crba), goal),
        "inverse dynamics": (
            partial(mb.inverse_dynamics, model, q, v, a),
            pair.theirs(pin.rnea, *motion),
            goal,
        ),
        "forward dynamics": (
            partial(mb.forward_dynamics, model, q, v, a),
            pair.theirs(pin.aba, *motion),
            goal,
        ),
        "inverse of H": (partial(mb.inverse_mass_matrix, model, q), pair.theirs(pin.computeMinverse), goal),
        "gravity": (partial(mb.gravity, model, q), pair.theirs(pin.computeGeneralizedGravity), None),
        "regressor": (
            partial(mb.regressor, model, q, v, w, a),
            pair.theirs(pin.computeJointTorqueRegressor, *motion),
            None,
        ),
        "C w": (partial(mb.coriolis_product, model, q, v, w), lambda: C() @ pair.w_other, None),
        "C^T w": (partial(mb.coriolis_transpose_product, model, q, v, w), lambda: C().T @ pair.w_other, None),
    }
    for what, (call, other, least) in rows.items():
        ours, theirs = medians([call, other], repeats)
        yield Entry(pair.name, what, ours, theirs / ours, least=least)


def require_equal(pair: Pair, one: np.ndarray, other: np.ndarray) -> None:
    """Stop unless a batch gives what single configurations give."""
    if not np.allclose(one, other, rtol=0.0, atol=1e-9 * np.max(np.abs(other))):
        raise SystemExit(f"{pair.name}: a batch gives other values than its configurations one by one")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=40, help="blocks of calls per median")
    parser.add_argument("--robots", nargs="+", choices=list(robots()), help="only these")
    parser.add_argument("--no-first-calls", action="store_true", help="leave out compilation (five minutes)")
    parser.add_argument("--all-cores", action="store_true", help="do not pin the process to one core")
    parser.add_argument("--markdown", type=Path, metavar="PATH", help="also write the page")
    options = parser.parse_args()
    mb.set_num_threads(1)
    lines = heading()
    print(*lines, sep="\n")
    entries: list[Entry] = []
    velocities: dict[str, int] = {}
    for name in options.robots or robots():
        pair = robots()[name]()
        pair.require_agreement()
        velocities[name] = pair.model.nv
        print(f"\n{name}, nv = {pair.model.nv}")
        for measure in (coriolis, christoffel, batches, dynamics):
            for entry in measure(pair, options.repeats):
                print(f"  {entry}", flush=True)
                entries.append(entry)
    calls: list[FirstCall] = []
    if not options.no_first_calls:
        print("\nfirst calls in a new process")
        for batch in ((), (TENSORS,)):
            for call in first_calls(batch):
                print(f"  {call}", flush=True)
                calls.append(call)
    verdicts = [row.met for row in entries if row.judged] + [call.met for call in calls]
    print(f"\nMISSED: {verdicts.count(False)} of {len(verdicts)} targets")
    if options.markdown:
        write_page(options.markdown, lines, velocities, entries, calls)
    return 0


if __name__ == "__main__":
    sys.exit(main())
