"""The three kinds of sweeps against other routes to the same numbers."""

import inspect
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import zarr
from closed_chains import gear_train
from mechanisms import random_mechanism, sample
from robots import robot_path
from scipy.integrate import solve_ivp

from connections import multibody as mb
from connections.checks import Check, NonFiniteError, PointError
from connections.control import PassivityController
from connections.control.tracking_example import MEASURES, explore
from connections.sweeps import (
    Store,
    Sweep,
    SweepError,
    Tracking,
    christoffel_bounds,
    contorsion_summary,
    contorsion_sweep,
    proposition_summary,
    proposition_sweep,
    random_configurations,
    run_sweep,
    table_sweep,
)
from connections.sweeps.tracking import Motions
from connections.verify import built_in_subjects
from connections.verify.propositions import Sample, catalogue

ROBOT = mb.from_urdf(robot_path("ur5"))
QUADRUPED = mb.from_urdf(robot_path("solo12"), floating_base=True)


def run(sweep: Sweep, path: Path) -> Store:
    run_sweep(sweep, path, workers=0)
    return Store(path)


# --- tables --------------------------------------------------------------------------------------

ALL = ("mass_matrix", "inverse_mass_matrix", "gravity", "coriolis_matrix", "mass_matrix_rate")


def test_a_table_has_what_the_recursions_give(tmp_path: Path) -> None:
    names = (*ALL, "christoffel_symbols", "christoffel_bounds")
    store = run(table_sweep(QUADRUPED, names, 70, chunk=30, seed=3), tmp_path / "s")
    q, v = (store.arrays[name][:] for name in "qv")
    for name in (*ALL, "christoffel_symbols"):
        vectors = (q, v) if name in ("coriolis_matrix", "mass_matrix_rate") else (q,)
        np.testing.assert_array_equal(store.arrays[name][:], getattr(mb, name)(QUADRUPED, *vectors))
    Gamma = store.arrays["christoffel_symbols"][:]
    np.testing.assert_array_equal(store.arrays["christoffel_largest"][:], np.abs(Gamma).max(axis=(1, 2, 3)))
    norm = np.sqrt((Gamma**2).sum(axis=(1, 2, 3)))
    np.testing.assert_allclose(store.arrays["christoffel_norm"][:], norm, rtol=1e-14)
    assert store.described["about"]["joints"] == list(QUADRUPED.joint_names)


def test_the_bounds_enclose_what_they_bound(rng: np.random.Generator) -> None:
    q = random_configurations(ROBOT, rng, 40)
    bounds = christoffel_bounds(ROBOT, q)
    v, w = rng.normal(size=(2, 400, 40, ROBOT.nv))
    product = np.linalg.norm(mb.coriolis_product(ROBOT, q, v, w), axis=-1)
    ratio = (product / np.linalg.norm(v, axis=-1) / np.linalg.norm(w, axis=-1)).max(axis=0)
    assert (ratio <= bounds["christoffel_norm"]).all()
    assert (ratio > 0.3 * bounds["christoffel_largest"]).all()  # the bound is not an empty one
    other = random_mechanism(np.random.default_rng(6), 2, (mb.Spherical, mb.Helical))
    q_other, _ = sample(other, rng, 60)
    Gamma = mb.christoffel_symbols(other, q_other).reshape(60, -1)
    assert (-Gamma.min(axis=1) > Gamma.max(axis=1)).any()  # the largest may be negative
    found = christoffel_bounds(other, q_other)
    np.testing.assert_allclose(found["christoffel_largest"], np.abs(Gamma).max(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found["christoffel_norm"], np.linalg.norm(Gamma, axis=1), rtol=1e-12)
    with_torsion = christoffel_bounds(ROBOT, q, body_factor="force_cross")
    assert (with_torsion["christoffel_norm"] != bounds["christoffel_norm"]).all()


def test_a_table_over_given_configurations(tmp_path: Path, rng: np.random.Generator) -> None:
    q, v = rng.normal(size=(2, 50, ROBOT.nv))
    zarr.create_array(tmp_path / "q", data=q, chunks=(7, 6))
    zarr.create_array(tmp_path / "v", data=v, chunks=(50, 6))
    sweep = table_sweep(
        ROBOT,
        "coriolis_matrix",
        configurations=tmp_path / "q",
        velocities=tmp_path / "v",
        chunk=20,
        body_factor="force_cross",
    )
    store = run(sweep, tmp_path / "s")
    expected = mb.coriolis_matrix(ROBOT, q, v, body_factor="force_cross")
    np.testing.assert_array_equal(store.arrays["coriolis_matrix"][:], expected)
    assert set(store.arrays) == {"coriolis_matrix"}
    assert np.abs(expected - mb.coriolis_matrix(ROBOT, q, v)).max() > 1e-3
    quaternions = np.zeros((5, QUADRUPED.nq))
    zarr.create_array(tmp_path / "bad", data=quaternions)
    with pytest.raises(PointError):
        run(table_sweep(QUADRUPED, ["gravity"], configurations=tmp_path / "bad"), tmp_path / "t")


def test_random_configurations_are_spread_as_those_of_the_model(rng: np.random.Generator) -> None:
    q = random_configurations(QUADRUPED, rng, 4000)
    other = np.stack([QUADRUPED.random(rng) for _ in range(400)])
    quaternions = q[:, QUADRUPED.configuration_slice("root_joint")][:, 3:]
    np.testing.assert_allclose(np.linalg.norm(quaternions, axis=1), 1.0, rtol=1e-14)
    assert (np.abs(q.max(axis=0) - other.max(axis=0)) < 0.1).all()
    np.testing.assert_allclose(q.std(axis=0), other.std(axis=0), rtol=0.1)
    np.testing.assert_allclose(q.mean(axis=0), 0.0, atol=0.15)
    mechanism = mb.Mechanism()
    mechanism.add_body("ball", mass=1.0, center_of_mass=(0, 0, 0.1), inertia=np.eye(3))
    mechanism.add_joint("socket", "world", "ball", mb.Spherical())
    balls = random_configurations(mechanism.build(), rng, 10)
    np.testing.assert_allclose(np.linalg.norm(balls, axis=1), 1.0, rtol=1e-14)
    train = gear_train().build()
    first, second = random_configurations(train, rng, 2)
    assert train.closed and (first != second).all()


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"quantities": ["curl"], "rows": 3}, "expected some of mass_matrix"),
        ({"quantities": [], "rows": 3}, "got none"),
        ({"quantities": ["gravity"]}, "give rows"),
        ({"quantities": ["gravity"], "rows": 3, "configurations": "q"}, "give rows"),
        ({"quantities": ["gravity"], "rows": 3, "velocities": "v"}, "velocities: random"),
        ({"quantities": ["gravity"], "configurations": "nowhere"}, "no Zarr array at nowhere"),
        (
            {"quantities": ["coriolis_matrix"], "configurations": "q"},
            "velocities: coriolis_matrix needs them",
        ),
    ],
)
def test_tables_that_cannot_be(given: dict, complaint: str) -> None:
    with pytest.raises(SweepError, match=complaint):
        table_sweep(ROBOT, **given)


# --- contorsion ----------------------------------------------------------------------------------

SHORT = Tracking(horizon=0.6)


def test_a_robots_law_and_its_motion(rng: np.random.Generator) -> None:
    motions, gamma = Motions(ROBOT, SHORT), 3.0
    q, v, phase = motions.start(rng)
    law = PassivityController(motions.believed.system(gamma=gamma), motions.law.gain)

    def torque(t: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        angle = np.pi * t + phase  # 0.5 Hz
        error, rate = q - 0.6 * np.sin(angle), v - 0.6 * np.pi * np.cos(angle)
        v_r, a_r = v - rate - 2.0 * error, -0.6 * np.pi**2 * np.sin(angle) - 2.0 * rate
        return law.torque(q, v, v_r, a_r)

    rows = [np.array([x]) for x in (q, v, phase)]
    tau = motions.torque(np.array([gamma]), 0.2, *rows)[0]
    np.testing.assert_allclose(tau, torque(0.2, q, v), rtol=1e-12)
    plain = motions.torque(np.array([0.0]), 0.2, *rows)[0]
    assert np.abs(tau - plain).max() > 0.1

    def rhs(t: float, state: np.ndarray) -> np.ndarray:
        q, v = state[:6], state[6:]
        return np.concatenate([v, mb.forward_dynamics(ROBOT, q, v, torque(t, q, v))])

    times = np.linspace(0.0, 0.6, 601)
    solution = solve_ivp(rhs, (0.0, 0.6), np.concatenate([q, v]), "DOP853", times, rtol=1e-12, atol=1e-12)
    measures = motions.measure(np.array([gamma, 0.0]), *[np.repeat(x, 2, axis=0) for x in rows])
    error = np.linalg.norm(solution.y[:6, -1] - 0.6 * np.sin(0.6 * np.pi + phase))
    assert abs(measures["final_error"][0] - error) < 1e-9
    assert abs(measures["final_error"][1] - error) > 1e-3
    away = solution.y[:6] - 0.6 * np.sin(np.pi * times + phase[:, None])
    forces = np.array([torque(t, *np.split(y, 2)) for t, y in zip(times, solution.y.T, strict=True)])
    assert measures["rms_error"][0] == pytest.approx(np.sqrt(np.mean(np.sum(away**2, axis=0))), rel=0.01)
    squares = np.sum(forces**2, axis=1)
    assert measures["effort"][0] == pytest.approx(np.trapezoid(squares, times), rel=0.01)
    assert measures["peak_force"][0] == pytest.approx(np.sqrt(squares.max()), rel=0.01)


def test_the_believed_robot_is_lighter_and_nothing_else() -> None:
    motions = Motions(ROBOT, SHORT)
    q = ROBOT.neutral() + 0.3
    np.testing.assert_allclose(
        mb.mass_matrix(motions.believed, q), 0.9 * mb.mass_matrix(ROBOT, q), atol=1e-14
    )
    np.testing.assert_allclose(mb.gravity(motions.believed, q), 0.9 * mb.gravity(ROBOT, q), atol=1e-12)


def test_the_grid_and_its_summary(tmp_path: Path) -> None:
    second = ROBOT.with_gravity((0.0, 0.0, 0.0))
    options = {"robots": [ROBOT, second], "names": ["UR5", "floating"], "tracking": SHORT, "seed": 2}
    store = run(contorsion_sweep([0.0, 4.0], 3, chunk=5, **options), tmp_path / "s")
    arrays = {name: store.arrays[name][:] for name in store.names}
    np.testing.assert_array_equal(arrays["robot"], np.repeat([0, 1], 6))
    np.testing.assert_array_equal(arrays["start"], np.tile(np.repeat([0, 1, 2], 2), 2))
    np.testing.assert_array_equal(arrays["gamma"], np.tile([0.0, 4.0], 6))
    other = run(contorsion_sweep([0.0, 4.0], 3, chunk=12, **options), tmp_path / "t")  # cut in another way
    for name, values in arrays.items():
        np.testing.assert_allclose(other.arrays[name][:], values, rtol=1e-9, atol=1e-12)
    rows = contorsion_summary(store)
    assert [(row["robot"], row["gamma"], row["motions"]) for row in rows] == [
        ("UR5", 0.0, 3),
        ("UR5", 4.0, 3),
        ("floating", 0.0, 3),
        ("floating", 4.0, 3),
    ]
    assert rows[1]["effort"] == pytest.approx(arrays["effort"][1:6:2].mean())
    assert rows[0]["effort"] > 2.0 * rows[2]["effort"]  # without gravity it is easier


def test_who_runs_away_is_lost_and_takes_nobody_along(rng: np.random.Generator) -> None:
    motions = Motions(ROBOT, SHORT)
    q, v, phase = (np.stack(part) for part in zip(*[motions.start(rng) for _ in range(3)], strict=True))
    expected = motions.measure(np.zeros(3), q, v, phase)
    v[1, 2] = 2e3
    measures = motions.measure(np.zeros(3), q, v, phase)
    assert all(np.isnan(values[1]) for values in measures.values())
    for name, values in measures.items():
        np.testing.assert_allclose(values[::2], expected[name][::2], rtol=1e-12)


def test_who_needs_too_many_steps_is_lost(tmp_path: Path) -> None:
    few = replace(SHORT, max_steps=300)
    store = run(contorsion_sweep([0.0, 1e7], 2, robots=[ROBOT], tracking=few), tmp_path / "s")
    assert store.described["about"]["tracking"]["max_steps"] == 300
    alone = run(contorsion_sweep([0.0], 2, robots=[ROBOT], tracking=SHORT), tmp_path / "t")
    error = store.arrays["rms_error"][:]
    assert np.isnan(error[1::2]).all() and np.isnan(store.arrays["high_frequency"][:][1::2]).all()
    np.testing.assert_allclose(error[::2], alone.arrays["rms_error"][:], rtol=1e-12)
    assert [row["lost"] for row in contorsion_summary(store)] == [0, 2]


def test_the_tolerance_counts(rng: np.random.Generator) -> None:
    """Samples half a second apart leave the length of the steps to it."""
    start, error = [np.array([part]) for part in Motions(ROBOT, SHORT).start(rng)], {}
    for rtol in (1e-3, 1e-8, 1e-12):
        motions = Motions(ROBOT, Tracking(horizon=2.0, sampling=0.5, rtol=rtol))
        error[rtol] = motions.measure(np.zeros(1), *start)["final_error"]
    assert abs(error[1e-3] - error[1e-12]) > 1e-7
    assert abs(error[1e-8] - error[1e-12]) < 1e-8


def test_the_point_mass_is_that_of_the_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, families = [], []

    def explored(*given: Any) -> list[SimpleNamespace]:
        """Instead of the paper's example, which takes seconds to compile: numbers that tell its arguments."""
        betas, horizon, start, velocity, family = inspect.signature(explore).bind(*given).args
        calls.append((betas, horizon, start, velocity))
        families.append(family)
        return [SimpleNamespace(**dict.fromkeys(MEASURES, beta + start[0] + velocity[1])) for beta in betas]

    monkeypatch.setattr("connections.sweeps.contorsion.explore", explored)
    store = run(contorsion_sweep([0.0, -5.0], 2, chunk=3, seed=4), tmp_path / "s")
    drawn = []
    for start in range(2):
        generator = np.random.default_rng(np.random.SeedSequence(4, spawn_key=(0, 0, start)))
        drawn.append((generator.normal(0.0, 0.5, 3), generator.normal((0.0, 1.0, 0.0), 0.5)))
    assert [call[:2] for call in calls] == [([0.0, -5.0], 10.0), ([0.0], 10.0), ([-5.0], 10.0)]
    for call, number in zip(calls, (0, 1, 1), strict=True):  # a chunk may end within an initial state
        np.testing.assert_array_equal(call[2:], drawn[number])
    expected = [beta + x[0] + v[1] for x, v in drawn for beta in (0.0, -5.0)]
    for name in store.described["about"]["measures"]:
        np.testing.assert_array_equal(store.arrays[name][:], expected)
    assert families == ["contorsion"] * 3 and "family" not in store.described["about"]
    weyl = run(contorsion_sweep([-5.0], 1, seed=4, family="weyl"), tmp_path / "w")
    assert families[3:] == ["weyl"] and weyl.described["about"]["family"] == "weyl"
    assert "beta" not in store.arrays and store.arrays["gamma"][:].tolist() == [0.0, -5.0, 0.0, -5.0]


@pytest.mark.parametrize(
    ("values", "options", "complaint"),
    [
        ([], {}, "gammas: expected a list"),
        ([0.0], {"starts": 0}, "starts: expected a whole number"),
        ([0.0], {"robots": [QUADRUPED]}, "robot 0: expected a tree whose joints have v = qdot"),
        ([0.0], {"robots": [ROBOT], "names": ["a", "b"]}, "names: expected 1, got 2"),
        ([0.0], {"robots": [ROBOT], "family": "weyl"}, "family: expected contorsion alone for robots"),
        ([0.0], {"family": "torsion"}, "family: expected 'contorsion'"),
    ],
)
def test_explorations_that_cannot_be(values: Sequence[float], options: dict, complaint: str) -> None:
    with pytest.raises(SweepError, match=complaint):
        contorsion_sweep(values, **({"starts": 2} | options))


def test_tracking_that_cannot_be() -> None:
    with pytest.raises(NonFiniteError, match=r"gammas\[1\] is nan"):
        contorsion_sweep([0.0, np.nan], 2)
    for wrong in (
        {"horizon": -1.0},
        {"estimate": 0.0},
        {"damping": np.inf},
        {"sampling": "1"},
        {"rtol": 0.0},
    ):
        with pytest.raises((SweepError, TypeError, NonFiniteError), match=next(iter(wrong))):
            Tracking(**wrong)
    with pytest.raises(SweepError, match="is too long for a motion"):
        Tracking(horizon=0.1, sampling=0.04)


# --- propositions --------------------------------------------------------------------------------


def test_propositions_are_measured_as_verify_measures_them(tmp_path: Path) -> None:
    sweep = proposition_sweep("sphere", 2, propositions=["(8)"], chunk=2, seed=6)
    store = run(sweep, tmp_path / "s")
    generator = np.random.default_rng(np.random.SeedSequence(6, spawn_key=(0,)))
    seed, *own = (int(number) for number in generator.integers(2**31, size=3))
    (item,) = [item for item in catalogue() if item.key == "(8)"]
    subject = next(s for s in built_in_subjects(2, seed) if s.name == "sphere")
    for row in range(2):
        object.__setattr__(subject, "seed", own[row])
        sample = Sample(subject.q[row], subject.v[row], subject.a[row])
        residual, scale = item.measure(subject, sample, False)
        wrong, size = item.measure(subject, sample, True)
        measured = [store.arrays[part][row, 0] for part in ("residual", "scale", "control")]
        np.testing.assert_allclose(measured[1:], [scale, wrong / size], rtol=1e-9)
        assert Check("(8)", measured[0], scale, 1e-9).ok and abs(measured[0] - residual) < 1e-12
    assert len(set(own)) == 2 and not np.array_equal(*store.arrays["control"][:])
    (summary,) = proposition_summary(store)
    assert (summary.points, summary.failed, summary.weak) == (2, 0, 0)
    assert summary.worst < 1e-10 and summary.control > 1e-2


def test_a_proposition_that_fails_is_counted(tmp_path: Path) -> None:
    sweep = proposition_sweep("sphere", 2, propositions=["(8)"], chunk=2, seed=6, tol=1e-300)
    store = run(sweep, tmp_path / "s")
    assert proposition_summary(store)[0].failed == 2
    store.arrays["residual"][1] = np.nan  # a NaN fails
    store.arrays["control"][0] = 1e-3
    store.described["about"]["tol"] = 1e-9
    (summary,) = proposition_summary(store)
    assert (summary.failed, summary.row, summary.weak) == (1, 1, 1)


def test_subjects_that_cannot_be() -> None:
    with pytest.raises(SweepError, match=r"there is no system 'moon'\nThe systems are point-mass, sphere"):
        proposition_sweep("moon", 2)
    with pytest.raises(SweepError, match=r"'\(99\)' given; about sphere there are A1, A2"):
        proposition_sweep("sphere", 2, propositions=["(99)"])
    with pytest.raises(SweepError, match="tol: expected a number between 0 and 1"):
        proposition_sweep("sphere", 2, tol=2.0)
    robot = proposition_sweep(ROBOT, 2, propositions=["(19)"], name="UR5")
    assert robot.about["subject"] == "UR5"
