"""How fast the recursions are on closed chains: `python tests/benchmarks/closed_chains.py`.

Every time is the median of warm calls through the public functions, validation and the solution of the loops
included, on one core and with one thread. Calls that are compared take turns in the same run, on values first
compared to 1e-9. A missed target is printed as MISSED; the exit status is 0 all the same. --markdown PATH
writes the page docs/benchmarks_closed_chains.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from core import CORES  # noqa: F401  # first: it pins the process before NumPy is imported  # isort: skip

import numpy as np
from closed_growth import growth
from closed_page import write_page
from closed_pairs import SolvedLoops, from_plan, from_urdf_plus, plans
from competitors import Call, medians
from coriolis_oracles import ROUTES
from recursions_page import Entry, heading

from connections import multibody as mb
from connections.multibody.program.compiled_functions import compiled

TENSORS, CONFIGURATIONS = 64, 1024
TREE_GOAL = 1.0 / 1.3  # C: at most 1.3 times the time of a tree with as many bodies
PROJECTION_GOAL = 3.0  # C: at least so many times faster than Pinocchio's spanning tree and NumPy


def robots() -> dict[str, Callable[[], SolvedLoops]]:
    """What is timed, by name."""
    files = ("mini_cheetah", "mit_humanoid", "revolute_rotor_chain")
    found: dict[str, Callable[[], SolvedLoops]] = {name: partial(from_urdf_plus, name) for name in files}
    found["four-bar"] = partial(from_plan, "four-bar", plans.four_bar)
    found["six-bar"] = partial(from_plan, "six-bar", plans.six_bar)
    found["four-bar legs"] = partial(from_plan, "four-bar legs", partial(plans.legged_robot, 4))
    found["Stewart platform"] = partial(from_plan, "Stewart platform", plans.stewart_platform)
    return found


def single(robot: SolvedLoops, repeats: int) -> Iterator[Entry]:
    """C, Gamma, H and the dynamics at one configuration: beside the spanning tree's, and Pinocchio's way."""
    model, tree, way = robot.model, robot.spanning, robot.projection
    q, v, a, judged = robot.q, robot.v, robot.a, way is not None and model.nv >= 18
    functions: dict[str, tuple[str, tuple[np.ndarray, ...], tuple[np.ndarray, ...]]] = {
        "C": ("coriolis_matrix", (q, v), (robot.q_s, robot.v_s)),
        "Gamma": ("christoffel_symbols", (q,), (robot.q_s,)),
        "H": ("mass_matrix", (q,), (robot.q_s,)),
        "inverse dynamics": ("inverse_dynamics", (q, v, a), (robot.q_s, robot.v_s, robot.a_s)),
        "forward dynamics": ("forward_dynamics", (q, v, a), (robot.q_s, robot.v_s, robot.a_s)),
    }
    for what, (name, ours, theirs) in functions.items():
        function, goal = getattr(mb, name), judged and what == "C"
        calls: list[Call] = [partial(function, model, *ours), partial(function, tree, *theirs)]
        calls += [] if way is None else [partial(getattr(way, name), *ours)]
        times = medians(calls, repeats)
        yield Entry(robot.name, what, times[0])
        against = TREE_GOAL if goal else None
        yield Entry(robot.name, f"{what}, spanning tree", times[1], times[1] / times[0], least=against)
        if way is not None:
            against = PROJECTION_GOAL if goal else None
            yield Entry(robot.name, f"{what}, Pinocchio", times[2], times[2] / times[0], least=against)


def loops(robot: SolvedLoops, repeats: int) -> Iterator[Entry]:
    """The loops alone, as compiled code solves them from the reference: it is part of every time above."""
    loops, nowhere = robot.model.program.loops, np.empty(0)
    solution = np.empty(loops.size)
    solve = partial(compiled.require("closure_at"), loops.closure, robot.q, nowhere, solution)
    yield Entry(robot.name, "loops alone", medians([solve], repeats)[0])


def solved(robot: SolvedLoops, repeats: int) -> Iterator[Entry]:
    """C with loops that are closed from others 0.005 rad or m away, and C of `mb.SolvedLoops`."""
    if robot.model.program.loops.linear:
        return
    model, rng = robot.model, np.random.default_rng(3)
    few = np.stack([model.random(rng) for _ in range(16)])
    v = rng.standard_normal((CONFIGURATIONS, model.nv))
    near = mb.close_loops(model, np.tile(few, (CONFIGURATIONS // 16, 1)))
    q = mb.displace(model, near, 0.005 * rng.uniform(-1.0, 1.0, (CONFIGURATIONS, model.nv)))
    closed, out = mb.close_loops(model, q), np.empty((CONFIGURATIONS, model.nv, model.nv))
    far = partial(mb.coriolis_matrix, model, q, v, out=out)
    again = partial(mb.coriolis_matrix, model, closed, v, out=out)

    def from_near() -> np.ndarray:
        return mb.coriolis_matrix(model, mb.close_loops(model, q, near), v, out=out)

    require_equal(robot, again().copy(), far())
    require_equal(robot, from_near().copy(), far())
    first, starts = list(closed[:16]), list(near[:16])
    singles = [
        lambda: [mb.coriolis_matrix(model, q[i], v[i]) for i in range(16)],
        lambda: [mb.coriolis_matrix(model, mb.close_loops(model, q[i], starts[i]), v[i]) for i in range(16)],
        lambda: [mb.coriolis_matrix(model, first[i], v[i]) for i in range(16)],
    ]
    *rows, one, one_near, one_solved = medians([far, from_near, again, *singles], repeats)
    far_each, near_each, solved_each = (seconds / CONFIGURATIONS for seconds in rows)
    yield Entry(robot.name, "C of 16, each", one / 16, one / 16 / far_each)
    yield Entry(robot.name, "C of 16 from guesses, each", one_near / 16, one / one_near)
    yield Entry(robot.name, "C of 16 solved, each", one_solved / 16, one / one_solved)
    yield Entry(robot.name, f"{CONFIGURATIONS} C from guesses, each", near_each, one_near / 16 / near_each)
    yield Entry(robot.name, f"{CONFIGURATIONS} C solved, each", solved_each, one_solved / 16 / solved_each)


def routes(robot: SolvedLoops, repeats: int) -> Iterator[Entry]:
    """The other routes to C, of the tests."""
    arguments = robot.model, robot.q, robot.v
    C = mb.coriolis_matrix(*arguments)
    for route in ROUTES.values():
        require_equal(robot, route(*arguments), C, 1e-8)
    calls = [partial(function, *arguments) for function in (mb.coriolis_matrix, *ROUTES.values())]
    recursion, *others = medians(calls, repeats)
    for name, seconds in zip(ROUTES, others, strict=True):
        yield Entry(robot.name, f"C by {name}", seconds, seconds / recursion)


def batches(robot: SolvedLoops, repeats: int) -> Iterator[Entry]:
    """C and Gamma of many configurations, per configuration; the ratio is to the spanning tree's batch."""
    model, rng = robot.model, np.random.default_rng(3)
    few = np.stack([model.random(rng) for _ in range(16)])  # random points of loops take long to find
    kinds = (("C", "coriolis_matrix", CONFIGURATIONS), ("Gamma", "christoffel_symbols", TENSORS))
    for what, name, count in kinds:
        q = np.tile(few, (count // 16, 1))
        loops, v, v_s = model.program.solution(q), (), ()
        if what == "C":
            v = (rng.standard_normal((count, model.nv)),)
            v_s = (np.einsum("nij,nj->ni", loops.G, v[0]),)
        function, shape = getattr(mb, name), 2 if what == "C" else 3
        out = np.empty((count, *(model.nv,) * shape))
        out_s = np.empty((count, *(robot.spanning.nv,) * shape))
        ours = partial(function, model, q, *v, out=out)
        theirs = partial(function, robot.spanning, loops.q, *v_s, out=out_s)
        ours()
        require_equal(robot, out[-1], function(model, q[-1], *(x[-1] for x in v)))
        batch, tree, one = medians(
            [ours, theirs, partial(function, model, robot.q, *(x[0] for x in v))], repeats
        )
        yield Entry(robot.name, f"{count} {what}, each", batch / count, one * count / batch)
        yield Entry(robot.name, f"{count} {what}, spanning tree", tree / count, tree / batch)


def require_equal(robot: SolvedLoops, one: np.ndarray, other: np.ndarray, tol: float = 1e-9) -> None:
    """Stop unless two ways to a matrix give the same."""
    if not np.allclose(one, other, rtol=0.0, atol=tol * np.max(np.abs(other))):
        raise SystemExit(f"{robot.name}: values that should be the same differ; nothing is timed")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=40, help="blocks of calls per median")
    parser.add_argument("--robots", nargs="+", choices=list(robots()), help="only these")
    parser.add_argument("--no-growth", action="store_true", help="leave out the exponents of N and d")
    parser.add_argument(
        "--largest", type=int, default=64, help="clusters of the largest mechanism that grows"
    )
    parser.add_argument("--all-cores", action="store_true", help="do not pin the process to one core")
    parser.add_argument("--markdown", type=Path, metavar="PATH", help="also write the page")
    options = parser.parse_args()
    if options.largest < 16:
        parser.error("--largest: an exponent needs two sizes: 16 or more")
    mb.set_num_threads(1)
    lines = heading()
    print(*lines, sep="\n")
    entries: list[Entry] = []
    sizes: dict[str, str] = {}
    for name in options.robots or robots():
        robot = robots()[name]()
        robot.require_agreement()
        sizes[name] = f"{len(robot.model.body_names)} | {robot.spanning.nv} | {robot.model.nv}"
        print(f"\n{name}: {robot.model}, {robot.spanning.nv} velocities of the spanning tree")
        for measure in (single, loops, batches, solved, routes):
            for entry in measure(robot, options.repeats):
                print(f"  {entry}", flush=True)
                entries.append(entry)
    curves = [] if options.no_growth else list(growth(options.repeats, options.largest))
    verdicts = [row.met for row in entries if row.judged]
    print(f"\nMISSED: {verdicts.count(False)} of {len(verdicts)} targets")
    if options.markdown:
        write_page(options.markdown, lines, sizes, entries, curves)
    return 0


if __name__ == "__main__":
    sys.exit(main())
