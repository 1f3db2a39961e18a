"""Whether a gain exists does not depend on units: by ranks in exact fractions, and pairs that are rotated."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.linalg import block_diag, expm

from connections import control
from connections.control.linear import stabilizability

# Two inputs; the second one pushes what acts on what the first one pushes.
A = np.array([[0, -1.29, 0, 1.38], [0, 2.31, 0, 0], [-0.2, 0, 0, 0], [0, 3.07, 0, -2.02]])
B = np.array([[-0.65, 0], [0, 1.36], [1.0, 0], [-0.47, 0]])


def in_units(rng, A, B, powers, of_time=9):
    """The pair in other units of the state, the inputs and time."""
    x, u = (10.0 ** rng.uniform(-powers, powers, count) for count in B.shape)
    k = 10.0 ** rng.uniform(-of_time, of_time)
    return k * A * x[:, None] / x, k * B * x[:, None] / u


def rank(rows):
    """Of a matrix of fractions, by elimination."""
    rows, found = [list(row) for row in rows], 0
    for column in range(len(rows[0])):
        pivot = next((i for i in range(found, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[found], rows[pivot] = rows[pivot], rows[found]
        for i in range(found + 1, len(rows)):
            factor = rows[i][column] / rows[found][column]
            rows[i] = [a - factor * b for a, b in zip(rows[i], rows[found], strict=True)]
        found += 1
    return found


def reachable(A, B):
    """The rank of [B, A B, A^2 B, ...] without round-off."""
    A, block = (np.array([[Fraction(x) for x in row] for row in M.tolist()], dtype=object) for M in (A, B))
    blocks = [block]
    for _ in range(len(A) - 1):
        blocks.append(A @ blocks[-1])
    return rank(np.hstack(blocks).tolist())


def accepted(A, B, discrete=False):
    try:
        control.require_stabilizable(A, B, discrete=discrete)
    except control.errors.StabilizabilityError:
        return False
    return True


def test_inputs_in_any_units(rng, monkeypatch):
    """Ranks alone refuse some of them."""
    pairs = [in_units(rng, A, B, 9) for _ in range(20)]
    assert all(accepted(*pair) for pair in pairs)
    monkeypatch.setattr(stabilizability, "_is_stabilized", lambda *given: False)
    assert not all(accepted(*pair) for pair in pairs)


def test_gain_in_any_units(rng):
    """In units for which ranks say no, too; the costs have the units of the state."""
    K, P = control.lqr(A, B, 1.0, 1.0)
    for _ in range(10):
        x, u = 2.0 ** rng.integers(-20, 21, 4), 2.0 ** rng.integers(-20, 21, 2)
        weights = np.diag(x**-2.0), np.diag(u**-2.0)
        gain, cost = control.lqr(A * x[:, None] / x, B * x[:, None] / u, *weights)
        np.testing.assert_allclose(gain * x / u[:, None], K, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(cost * np.outer(x, x), P, rtol=1e-6, atol=1e-9)


def test_pairs_with_zeros_in_any_units(rng):
    """What is reachable without round-off is, in units that differ by 1e18."""
    count = 0
    for _ in range(150):
        n, m = rng.integers(2, 6), rng.integers(1, 3)
        free, push = (rng.standard_normal(size) * (rng.random(size) < 0.5) for size in ((n, n), (n, m)))
        if reachable(free, push) == n:
            count += 1
            assert accepted(*in_units(rng, free, push, 9)), (free, push)
    assert count > 50


@pytest.mark.parametrize("discrete", [False, True])
def test_what_round_off_alone_reaches_is_out_of_reach(rng, discrete):
    """Rotated, then in other units: no entry is zero, and fractions call it reachable."""
    looked = 0
    for _ in range(60):
        r, rest = rng.integers(1, 4, 2)
        free = block_diag(rng.standard_normal((r, r)), rng.standard_normal((rest, rest)) + 2.0 * np.eye(rest))
        free[:r, r:] = rng.standard_normal((r, rest))
        free = expm(0.3 * free) if discrete else free
        push = np.concatenate([rng.standard_normal((r, 1)), np.zeros((rest, 1))])
        if np.linalg.eigvals(free[r:, r:]).real.max() < (1.0 if discrete else 0.0):
            continue
        turn = np.linalg.qr(rng.standard_normal((r + rest, r + rest)))[0]
        pair = in_units(rng, turn @ free @ turn.T, turn @ push, 6, 0 if discrete else 6)
        looked += reachable(*pair) == r + rest
        assert not accepted(*pair, discrete=discrete)
    assert looked > 30
