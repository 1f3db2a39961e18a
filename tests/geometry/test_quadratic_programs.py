"""Quadratic programs: results are optimal, also where many bounds meet; what has no result is proven so."""

import numpy as np
import pytest
from cases import further
from scipy.optimize import linprog, nnls

from connections.geometry.numerics.quadratic_programs import QuadraticProgram, least_distance, optimal, solved


def random_program(rng, shift):
    """Bounds on rows of length one, all of which meet in a point unless they are shifted."""
    n, k = rng.integers(2, 9), rng.integers(1, 40)
    root, c = rng.standard_normal((rng.integers(1, n + 2), n)), rng.standard_normal(n)
    G = rng.standard_normal((k, n))
    G /= np.linalg.norm(G, axis=1)[:, None]
    upper = G @ (0.3 * rng.standard_normal(n)) + shift * rng.uniform(-1.0, 1.0, k)
    lower = np.where(rng.random(k) < 0.5, -np.inf, upper - rng.uniform(0.1, 1.0, k))
    P = root.T @ root / np.linalg.norm(root, 2) ** 2 + 1e-3 * np.eye(n)
    return QuadraticProgram(P, c, G, upper, lower)


def has_a_point(program):
    rows = np.vstack([program.G, -program.G])
    b = np.concatenate([program.upper, -program.lower])
    real = np.isfinite(b)
    # The least slack that all bounds need.
    k, n = real.sum(), len(program.c)
    A = np.hstack([rows[real], -np.ones((k, 1))])
    cost = np.concatenate([np.zeros(n), [1.0]])
    return linprog(cost, A, b[real], bounds=[(None, None)] * n + [(-1.0, None)]).x[-1] < 1e-9


def require_optimal(program, x):
    """No bound is violated, and the gradient is what active bounds push, by non-negative least squares."""
    at = program.G @ x
    assert (at <= program.upper + 2e-11).all() and (at >= program.lower - 2e-11).all()
    near = 1e-9
    pushes = np.vstack([program.G[at > program.upper - near], -program.G[at < program.lower + near]])
    gradient = program.P @ x + program.c
    assert nnls(pushes.T, -gradient)[1] < 1e-9 if len(pushes) else np.abs(gradient).max() < 1e-9


@pytest.mark.parametrize("shift", [0.0, 0.2])
@pytest.mark.parametrize("count", [60, further(3000)])
def test_random_programs(rng, shift, count):
    """With a shift, about half have no point; without one, all bounds are active in one."""
    infeasible = 0
    for _ in range(count):
        program = random_program(rng, shift)
        found = solved(program, "a test")
        infeasible += found is None
        assert (found is not None) == has_a_point(program)
        if found is not None:
            require_optimal(program, found[0])
            x, multipliers = solved(program, "a test", found[1])  # a guess
            np.testing.assert_allclose(x, found[0], atol=1e-10)
            gradient = program.P @ x + program.c + program.G.T @ multipliers
            np.testing.assert_allclose(gradient, 0.0, atol=1e-10)
    assert infeasible > count / 10 if shift else infeasible == 0


def test_the_other_method(rng):
    """What is solved where DAQP fails: the least distance, and its proof that there is no point."""
    for _ in range(60):
        program = random_program(rng, 0.2)
        multipliers, proven = least_distance(program)
        assert proven is not has_a_point(program)
        if not proven:
            found = optimal(program, multipliers)
            require_optimal(program, found[0])


def test_wrong_active_bounds_are_exchanged():
    """A bound that pulls is given up, one that is violated is taken in."""
    program = QuadraticProgram(
        np.eye(2), np.array([-2.0, 0.5]), np.eye(2), np.array([1.0, 1.0]), np.array([-1.0, -1.0])
    )
    x, multipliers = optimal(program, np.array([0.0, 1.0]))
    np.testing.assert_allclose(x, [1.0, -0.5], atol=1e-15)
    np.testing.assert_allclose(multipliers, [1.0, 0.0], atol=1e-15)


@pytest.mark.parametrize("count", [20, further(400)])
def test_multipliers_below_the_round_off_of_the_gradient(rng, count):
    """What remains of an earlier aim: half of P is 1e-8, and its least point misses the bounds by 1e-9.

    The multipliers, 1e-17, are less than the round-off of P x; a bound was given up and taken in without end.
    """
    n = 24
    for _ in range(count):
        axes, rows = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
        P = (axes * np.repeat([1e-8, 1.0], n // 2)) @ axes.T
        least = axes[:, : n // 2] @ rng.normal(0.0, 0.5, n // 2)
        lower = rows @ least + np.where(rng.random(n) < 0.5, 3e-9 * rng.standard_normal(n), -0.1)
        x, _ = solved(
            QuadraticProgram(0.5 * (P + P.T), -P @ least, rows, np.full(n, np.inf), lower), "a test"
        )
        assert (rows @ x >= lower - 2e-11).all()
        # Round-off of the gradient over 1e-8, for each of a dozen bounds.
        np.testing.assert_allclose(x, least, rtol=0.0, atol=2e-6)
