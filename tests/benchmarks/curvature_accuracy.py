"""How exact curvature and second derivatives are: the table of docs/curvature.md.

    python tests/benchmarks/curvature_accuracy.py                   # against differences
    python tests/benchmarks/curvature_accuracy.py --definition UR5  # against automatic differentiation

Each is compared with differences of eighth order, on the manifold, of what it is the derivative of:
Christoffel symbols, C, and first derivatives of the dynamics. A gap is the largest difference, relative to
the largest entry of the array, over some random motions. *Control* is the smallest gap of all columns if the
recursions are evaluated at a configuration 1e-6 rad and m away: so small an error is seen.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import jax
import numpy as np

from connections import multibody as mb
from connections.multibody import functions
from connections.multibody.definition.recursions import DEFINITIONS

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from closed_chains import PLANS  # noqa: E402
from mechanisms import MOVING, assemble, structure_functions  # noqa: E402
from robots import robot_path  # noqa: E402

ROBOTS = {
    "UR5": ("ur5", False),
    "Panda": ("panda", False),  # its fingers are coupled, which makes it a closed chain
    "xArm7": ("xarm_description/urdf/xarm7.urdf", False),
    "ANYmal": ("anymal", True),
    "Solo12": ("solo12", True),
    "G1": ("g1_description/urdf/g1_29dof_rev_1_0.urdf", True),
    "Talos": ("talos_data/robots/talos_reduced.urdf", True),
}
CHAINS = (
    "planar robot",
    "four-bar with branches",
    "loop of wide joints",
    "belt leg",
    "legged robot",
    "Stewart platform",
)
COLUMNS = {  # the number of their vectors, and how the table calls them
    "christoffel_derivatives": (0, "dGamma"),
    "curvature": (0, "R"),
    "curvature_operator": (1, "K"),
    "coriolis_matrix_rate": (2, "dC/dt"),
    "inverse_dynamics_second_derivatives": (2, "d2tau"),
    "inverse_dynamics_hessian_product": (3, "w d2tau"),
    "forward_dynamics_second_derivatives": (2, "d2a"),
    "forward_dynamics_hessian_product": (3, "w d2a"),
}
# Steps of differences, rad and m, and those of the forward dynamics, of which the best is taken: for light
# links the truncation is large, 1e-5 for G1 with the first one, and so is the round-off with the last one.
STEP, FORWARD_STEPS = 5e-3, (5e-3, 2e-3, 7e-4)
WEIGHTS = np.array([4 / 5, -1 / 5, 4 / 105, -1 / 280])
Arrays = tuple[np.ndarray, ...]


def along(
    robot: mb.Model, function: Callable[[np.ndarray], np.ndarray], q: np.ndarray, step: float = STEP
) -> np.ndarray:
    """L_k of a function of (m, nq) configurations, k being the last index; eighth order."""
    total = 0.0
    for number, weight in enumerate(WEIGHTS, start=1):
        ends = [mb.displace(robot, q, sign * number * step * np.eye(robot.nv)) for sign in (1.0, -1.0)]
        total = total + weight / step * (function(ends[0]) - function(ends[1]))
    return np.moveaxis(total, 0, -1)


def expected(robot: mb.Model, q: np.ndarray, x: np.ndarray) -> Iterator[tuple[str, Arrays]]:
    """What the functions should return at q (nq,), x (3, nv) being their vectors."""
    v, a, w = x
    change = along(robot, partial(mb.christoffel_symbols, robot), q)
    Gamma, inverse = mb.christoffel_symbols(robot, q), np.linalg.inv(mb.mass_matrix(robot, q))
    A = np.einsum("iljk->ijkl", change) - np.einsum("pki,pq,qlj->ijkl", Gamma, inverse, Gamma, optimize=True)
    R = A - np.swapaxes(A, -1, -2) - np.einsum("pkl,ipj->ijkl", structure_functions(robot), Gamma)
    yield "christoffel_derivatives", (change,)
    yield "curvature", (R,)
    yield "curvature_operator", (np.einsum("ijkl,j,l->ik", R, v, v),)
    C = partial(mb.coriolis_matrix, robot)
    yield "coriolis_matrix_rate", (along(robot, lambda p: C(p, v), q) @ v + C(q, a),)
    if robot.closed:
        return
    for dynamics, steps in (("inverse", (STEP,)), ("forward", FORWARD_STEPS)):
        first = partial(getattr(mb, f"{dynamics}_dynamics_derivatives"), robot)
        units = np.eye(robot.nv)
        in_v = first(q, v + units, a)[1] - first(q, v - units, a)[1]  # degree one in v
        for step in steps:
            in_q = along(robot, lambda p, first=first: np.stack(first(p, v, a), axis=1), q, step)
            tensors = in_q[0], in_q[1], np.moveaxis(in_v, 0, -1) / 2.0, in_q[2]
            yield f"{dynamics}_dynamics_second_derivatives", tensors
            yield f"{dynamics}_dynamics_hessian_product", tuple(np.tensordot(w, d2, axes=1) for d2 in tensors)


def gap(found: object, reference: Arrays) -> float:
    """The largest difference, relative to the largest entry of its array."""
    arrays = found if isinstance(found, tuple) else (found,)
    pairs = list(zip(arrays, reference, strict=True))
    return max(float(np.abs(x - y).max() / (np.abs(y).max() or 1.0)) for x, y in pairs)


def gaps(robot: mb.Model, motions: int, rng: np.random.Generator) -> np.ndarray:
    """(2, columns) the largest gaps over random motions, and those of the control."""
    worst = np.zeros((2, len(COLUMNS)))
    for _ in range(motions):
        q, x = sample(robot, rng), rng.standard_normal((3, robot.nv))
        aside = mb.displace(robot, q, 1e-6 * rng.standard_normal(robot.nv))
        best = np.full(worst.shape, np.inf)
        for name, reference in expected(robot, q, x):
            column, given = list(COLUMNS).index(name), x[: COLUMNS[name][0]]
            for row, point in enumerate((q, aside)):
                found = gap(
                    getattr(functions, name)(robot, point, *given),
                    reference,
                )
                best[row, column] = min(best[row, column], found)
        worst = np.maximum(worst, np.where(np.isinf(best), 0.0, best))
    return worst


def sample(robot: mb.Model, rng: np.random.Generator) -> np.ndarray:
    """A random configuration; of a closed chain, one near its reference."""
    if robot.closed:
        return mb.displace(robot, robot.neutral(), 0.1 * rng.uniform(-1.0, 1.0, robot.nv))
    return robot.random(rng)


def by_definition(robot: mb.Model, rng: np.random.Generator) -> None:
    """Print the gaps to automatic differentiation of the definition, and how long it compiles."""
    q, x = sample(robot, rng), rng.standard_normal((3, robot.nv))
    for name in COLUMNS:
        given, chosen = x[: COLUMNS[name][0]], ()
        if name in ("christoffel_derivatives", "coriolis_matrix_rate"):
            chosen = ("christoffel",)
        start = time.process_time()
        reference = jax.jit(lambda *y, n=name, c=chosen: DEFINITIONS[n](robot, *y, *c))(q, *given)
        reference = tuple(map(np.asarray, reference)) if len(reference) == 4 else (np.asarray(reference),)
        seconds = time.process_time() - start
        found = gap(getattr(functions, name)(robot, q, *given), reference)
        print(f"  {name}: {found:.0e}, compiled in {seconds:.0f} CPU-s", flush=True)


def robots() -> Iterator[tuple[str, list[mb.Model], int]]:
    """Names, models and numbers of motions of the rows."""
    for name, (file, floating) in ROBOTS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mb.InertiaWarning)
            yield name, [mb.from_urdf(robot_path(file), floating_base=floating)], 3
    rng, chosen = np.random.default_rng(5), []
    for first in MOVING:
        for second in MOVING:
            third = MOVING[rng.integers(len(MOVING))]
            chosen.append(assemble(rng, (first, second, third), [-1, 0, 1]))
    yield f"every joint behind every joint ({len(chosen)} mechanisms)", chosen, 1
    for name in CHAINS:
        yield f"{name} (closed)", [PLANS[name]().build()], 1


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--definition", nargs="*", metavar="ROBOT", help="against the definition of these")
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    if options.definition is None:
        heads = [head for _, head in COLUMNS.values()]
        print(f"| robot | nv | {' | '.join(heads)} | control |\n{'|---' * (3 + len(COLUMNS))}|")
    for name, models, motions in robots():
        if options.definition is None:
            worst = np.max([gaps(model, motions, rng) for model in models], axis=0)
            count = max(model.nv for model in models)
            cells = [f"{value:.0e}" if value else "" for value in worst[0]]
            print(
                f"| {name} | {count} | {' | '.join(cells)} | {worst[1][worst[1] > 0].min():.0e} |", flush=True
            )
        elif name in options.definition:
            print(name)
            by_definition(models[0], rng)


if __name__ == "__main__":
    main()
