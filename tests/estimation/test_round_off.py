"""Updates whose variances are many orders of magnitude apart: right, or said to be lost in round-off.

Random linear updates, with variances from 1e-12 to 1e30 in one prior, beside the same in 150 digits.
"""

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

import connections as cn
from connections import estimation
from connections.estimation import Status

DIGITS = 150
KINDS = ("scattered", "dense", "one by one", "of one size", "nearly singular")


def correlations(rng, k, spread=0.0):
    B = rng.normal(size=(k, k + 2)) * 10.0 ** np.append(0.0, rng.uniform(-spread, 0.0, size=k + 1))
    return (B @ B.T) / np.outer(*[np.sqrt(np.diag(B @ B.T))] * 2)


def drawn(rng, k, m, kind):
    """P, H, N, y of one kind."""
    sizes = 10.0 ** (0.5 * rng.uniform(-12.0, 30.0, size=k))
    sizes = sizes[:1] * np.ones(k) if kind == "of one size" else sizes
    P = np.outer(sizes, sizes) * correlations(rng, k, 9.0 * (kind == "nearly singular"))
    H = np.eye(k)[rng.integers(0, k, m)] if kind == "one by one" else rng.normal(size=(m, k))
    H = H * (rng.random((m, k)) < 0.4) if kind == "scattered" else H
    deviations = 10.0 ** (0.5 * rng.uniform(-12.0, 4.0, size=m))
    N = np.outer(deviations, deviations) * (correlations(rng, m) if rng.random() < 0.5 else np.eye(m))
    far = np.sqrt(np.diag(H @ P @ H.T) + np.diag(N))
    return (
        0.5 * (P + P.T),
        H,
        0.5 * (N + N.T),
        rng.normal(size=m) * (far if rng.random() < 0.5 else 10.0 * deviations),
    )


def exact(P, H, N, y):
    """The inverse of P+, P+, the estimate and NIS."""
    P, H, N, y = (mp.matrix(a.tolist()) for a in (P, H, N, y))
    precise = N**-1
    information = P**-1 + H.T * precise * H
    after = information**-1
    e = after * (H.T * (precise * y))
    r = y - H * e
    return information, after, e, (e.T * (P**-1) * e + r.T * precise * r)[0]


def errors(found, said, truth):
    """Of P+ relative to itself, of the estimate in deviations, of NIS."""
    information, P, e, nis = truth
    wrong = information * (mp.matrix(np.asarray(found.P).tolist()) - P)
    gap = mp.matrix(np.asarray(found.q).tolist()) - e
    k = len(found.q)
    of_P = mp.sqrt(abs(sum(wrong[i, j] * wrong[j, i] for i in range(k) for j in range(k))))
    return max(
        map(float, (of_P, mp.sqrt(abs((gap.T * information * gap)[0])), abs(said.nis - nis) / (1 + nis)))
    )


@pytest.mark.parametrize("iterations", [500, pytest.param(1, marks=pytest.mark.further)])
@pytest.mark.parametrize(
    ("k", "m"),
    [
        (2, 1),
        (3, 2),
        *(pytest.param(*s, marks=pytest.mark.further) for s in ((2, 4), (3, 3), (6, 3), (5, 7))),
    ],
)
def test_linear_updates_are_right_or_lost(k, m, iterations):
    filter = estimation.Filter(cn.CoordinateFrame(k), noise=np.eye(k), iterations=iterations)

    def update(P, H, N, y):
        return filter.update(estimation.Estimate(jnp.zeros(k), P), y, estimation.Sensor(lambda q: H @ q, N))

    rng, count = np.random.default_rng(10 * k + m), 12
    given = [drawn(rng, k, m, kind) for kind in KINDS for _ in range(count)]
    found, said = jax.jit(jax.vmap(update))(*map(jnp.asarray, map(np.stack, zip(*given, strict=True))))
    settled = np.asarray(said.status) == Status.SETTLED
    assert set(map(int, said.status[~settled])) <= {Status.ROUND_OFF, Status.NOT_FINITE}
    assert 0.4 < settled.mean() < 0.95
    with mp.workdps(DIGITS):
        for number in np.flatnonzero(settled):
            one = jax.tree_util.tree_map(lambda a, i=number: np.asarray(a)[i], (found, said))
            np.linalg.cholesky(one[0].P)
            assert errors(*one, exact(*given[number])) < 1e-3, number
        # What is refused has lost something: of what is written to a thousandth, most is right.
        fine = [
            n for n in range(len(given)) if KINDS[n // count] == "one by one" and abs(given[n][3]).max() < 1e5
        ]
    assert settled[fine].all()


def test_a_vague_prior_beside_a_sharp_sensor():
    """Of one number 1e30 is as good as 1e3; of a sum of two, the difference is beyond round-off."""
    plane = estimation.Filter(cn.CoordinateFrame(2), noise=np.eye(2))
    first = estimation.Sensor(lambda q: q[:1], [[1e-6]])
    total = estimation.Sensor(lambda q: 0.3 * q[:1] + 0.7 * q[1:], [[1e-6]])
    for size in (1e3, 1e12, 1e24, 1e30):
        vague = estimation.Estimate([0.0, 0.0], np.diag([size, 2.0 * size]))
        found, _ = plane.update(vague, [3.0], first)
        assert np.allclose(found.P, np.diag([1.0 / (1e6 + 1.0 / size), 2.0 * size]), rtol=1e-9)
        assert abs(found.q[0] - 3.0) < 3.1e-6 / size + 1e-12
    plane.update(estimation.Estimate([0.0, 0.0], np.diag([1e3, 2e3])), [3.0], total)
    with pytest.raises(ValueError, match="lost in round-off"):
        plane.update(vague, [3.0], total)
    for P in (np.diag([1e9, 2e9]), vague.P):
        found, said = jax.jit(
            lambda P: plane.update(estimation.Estimate(jnp.zeros(2), P), jnp.array([3.0]), total)
        )(P)
        assert (
            said.status == found.status == Status.ROUND_OFF and np.isnan(found.P).all() and np.isnan(said.nis)
        )
    keep = estimation.Filter(cn.CoordinateFrame(2), noise=np.eye(2), on_failure="keep")
    found, said = keep.update(vague, [3.0], total)
    assert np.array_equal(found.P, vague.P) and said.status == Status.ROUND_OFF
    # Each reading by itself leaves nothing unknown.
    both = estimation.Sensor(lambda q: jnp.stack([0.3 * q[0] + 0.7 * q[1], q[0] - q[1]]), 1e-6 * np.eye(2))
    found, _ = plane.update(vague, [3.0, 1.0], both)
    H = np.array([[0.3, 0.7], [1.0, -1.0]])
    assert np.allclose(found.P, 1e-6 * np.linalg.inv(H.T @ H), rtol=1e-12)


def test_a_smoother_says_what_round_off_takes():
    """A number that is measured a second later, from priors of 1e4 and 1e14, beside variances of 1e-6."""
    line = estimation.Filter(cn.CoordinateFrame(1), noise=[[1e-6]])
    sensor = estimation.Sensor(lambda q: q, [[1e-6]])

    def both(P):
        start = estimation.Estimate(jnp.zeros(1), P)
        history = line.run(
            start, jnp.array([0.0, 1.0]), jnp.zeros((2, 1)), jnp.array([[jnp.nan], [2.0]]), sensor
        )
        return history, line.smooth(history)

    for size, lost in ((1e4, False), (1e14, True)):
        history, smoothed = jax.jit(both)(jnp.array([[size]]))
        assert (smoothed.status[0] == Status.ROUND_OFF) == lost == bool(np.isnan(smoothed.P[0, 0, 0]))
        if lost:
            with pytest.raises(ValueError, match="estimate 0 is lost in round-off"):
                line.smooth(history)
        else:
            assert float(smoothed.P[0, 0, 0]) == pytest.approx(1.0 / (1.0 / size + 5e5), rel=1e-3)
    wild = estimation.Filter(cn.CoordinateFrame(1), noise=[[1e-6]], prediction_steps=1)
    history = jax.jit(
        lambda t: wild.run(
            estimation.Estimate(np.zeros(1), np.eye(1)), t, np.zeros((2, 1)), np.zeros((2, 1)), sensor
        )
    )
    history = history(jnp.array([1.0, 0.5]))
    assert [*jax.jit(wild.smooth)(history).status] == [Status.TIME_BACK] * 2
    with pytest.raises(ValueError, match="estimate 1 is NaN .TIME_BACK"):
        wild.smooth(history)
