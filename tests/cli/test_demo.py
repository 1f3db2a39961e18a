"""connections demo: what it says of the controlled mass, what it writes, what it proposes."""

from __future__ import annotations

import argparse
import re
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from robots import robot_path

from connections import cli, plots, verify
from connections.checks import Check
from connections.cli.demo import NEXT, ROWS, conclusion
from connections.control.tracking_example import TrackingResult, explore
from connections.verify import Row


def row(subject: str, key: str, residual: float = 1e-13) -> Row:
    numbers = (Check(key, number, 1.0, 1e-9) for number in (residual, 0.25))
    return Row(subject, key, f"the statement of {key}", *numbers, 0.1)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The demo with rows and figures that take no time; what `residual` says is the residual of (29)."""
    seen: dict[str, Any] = {"residual": 1e-13}
    results = explore([-1.0, 0.0], horizon=0.2)

    def rows(subject: Any, tol: float, advance: Any) -> list[Row]:
        return [row(subject.name, "A1"), row(subject.name, "(29)", seen["residual"])]

    def figures(folder: Path) -> tuple[list[Path], list[TrackingResult]]:
        folder.mkdir(parents=True)
        return [folder / "figure.png"], results

    monkeypatch.setattr(verify, "verify_subject", rows)
    monkeypatch.setattr(plots, "write_all", figures)
    return seen


def test_groups_conclusion_and_what_was_written(
    measured: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new"
    assert cli.main(["demo", str(folder), "--robot", str(robot_path("ur5"))]) == 0
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if line.startswith("this C from derivatives")]
    assert line.split()[-4:] == ["7", "1.0e-13", "2.5e-01", "holds"]
    assert "14 of 14 checks hold" in out and f"Written to {folder}:" in out and "figure.png" in out
    table = (folder / ROWS).read_text()
    assert table.count("the statement of (29)") == table.count("the statement of A1") == 7
    assert table.count("2.5e-01") == 14 and "ur5_robot" in table


def test_what_does_not_hold_is_said(
    measured: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured["residual"] = 1e-3
    assert cli.main(["demo", str(tmp_path / "new"), "--robot", str(robot_path("ur5"))]) == 1
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if line.startswith("this C from derivatives")]
    assert line.endswith("does not hold") and out.count("DOES NOT HOLD on ") == 7


def test_what_comes_is_said_before_anything_is_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def slow(*_: Any) -> None:
        assert "robot ur5" in capsys.readouterr().out
        raise ValueError("systems are made")

    monkeypatch.setattr(verify, "built_in_subjects", slow)
    assert cli.main(["demo", str(tmp_path), "--robot", str(robot_path("ur5"))]) == 2
    assert "systems are made" in capsys.readouterr().err


def test_the_conclusion_is_computed() -> None:
    """From the motions themselves, by other formulas than `measure`'s."""
    results = explore([0.0, -5.0, -10.0])
    heading, error, effort, force, oscillation, trends = conclusion(results)
    assert "3 Coriolis matrices" in heading and "beta = -10 kg/m" in heading
    motions = [results[0].motion, results[2].motion]
    t = np.asarray(motions[0].times)
    desired = np.stack([t + np.sin(t), 0.0 * t, 0.0 * t], axis=1)
    off = [np.sqrt(np.mean(np.sum((np.asarray(m.q) - desired) ** 2, axis=1))) for m in motions]
    pushes = [np.sum(np.asarray(m.tau) ** 2, axis=1) for m in motions]
    works = [np.mean(push) * t[-1] for push in pushes]
    assert f"{off[0]:.2f}" in error and f"{round(100 * (1 - off[1] / off[0]))} % less" in error
    (ratio,) = re.findall(r"([\d.]+) times as much", effort)
    assert float(ratio) == pytest.approx(works[1] / works[0], rel=0.01)
    peaks = [np.sqrt(np.max(push)) for push in pushes]
    assert f"{peaks[0]:.1f} N " in force and f"{peaks[1]:.1f} N " in force
    assert f"{results[2].rms_frequency:.2f} Hz" in oscillation
    assert "the error always falls, the effort always rises" in trends


def test_the_conclusion_follows_the_numbers() -> None:
    """The control: other numbers, other words."""
    motion = SimpleNamespace(lyapunov=np.array([2.0, 1.0]))
    plain = TrackingResult(0.0, 0.2, 0.0, 10.0, 4.0, 0, 1.0, 0.0, motion)  # type: ignore[arg-type]
    other = SimpleNamespace(lyapunov=np.array([2.0, 1.5]))
    worse = replace(plain, beta=2.0, rms_error=0.3, effort=9.0, rms_frequency=1.001, motion=other)
    middle = replace(plain, beta=1.0, rms_error=0.4, effort=9.5)
    heading, error, effort, force, oscillation, trends = conclusion([worse, plain, middle])
    assert "beta = 2 kg/m" in heading and "0.300 m with it: 50 % more" in error
    assert "9.0 N^2 s with it: 10 % less" in effort
    assert "the same" in force and "the same" in oscillation
    assert "the error rises and falls, the effort always falls" in trends and "25.0 % of V(0)" in trends


@pytest.mark.parametrize("command", [command for command, _ in NEXT])
def test_what_is_proposed_are_commands(command: str) -> None:
    program, *words = shlex.split(command)
    assert program == "connections"
    if words == ["--help"]:
        return
    options = cli._parser().parse_args(words)
    assert isinstance(options, argparse.Namespace) and callable(options.run)
    with pytest.raises(SystemExit):  # the control
        cli._parser().parse_args([words[0] + "x", *words[1:]])


def test_bad_input_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.urdf").write_text("<robot name='x'><link name='a'>")
    for name in ("broken.urdf", "none.urdf"):
        assert cli.main(["demo", str(tmp_path / "new"), "--robot", str(tmp_path / name)]) == 2
        assert name in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
