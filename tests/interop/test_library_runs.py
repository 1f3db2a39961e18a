"""connections audit: children that crash, hang and talk, the report on the screen, and bad input."""

import io
import json
import re
import stat
import sys
from pathlib import Path

import pytest

from connections.cli import main
from connections.interop import library_runs
from connections.interop.libraries import KINDS, LIBRARIES, Library
from connections.interop.library_runs import Request, audits_apart

DATA = Path(__file__).parent.parent / "data"
BRANCHED = str(DATA / "branched.urdf")


def paragraph(capsys):
    """What was printed, wherever its lines are broken."""
    return " ".join(capsys.readouterr().out.split())


@pytest.fixture
def in_this_process(monkeypatch):
    """The child's own function, without a process."""

    def child(request, results, timeout):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.StringIO(json.dumps(request)))
            library_runs._serve(results)
        return ""

    monkeypatch.setattr(library_runs, "_child", child)


def child_that(monkeypatch, tmp_path, script):
    """Replace the interpreter of children by a shell script; its fourth argument is the file of results."""
    program = tmp_path / "child"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(library_runs.sys, "executable", str(program))


@pytest.mark.further
def test_a_real_child_audits_and_the_file_has_it(tmp_path, capsys):
    path = tmp_path / "audit.json"
    words = ["audit", "--joints", "universal", "helical", "--library", "pinocchio", "--samples", "1"]
    assert main([*words, "--json", str(path)]) == 1  # the universal joint is not admissible
    first, second = json.loads(path.read_text())
    assert (first["subject"], first["kind"]) == ("universal", "inadmissible")
    assert {fault["property"] for fault in first["faults"]} >= {"bias", "skew", "torsion_free"}
    assert all(fault["kinds"] == ["universal"] for fault in first["faults"])
    assert (second["subject"], second["kind"], second["faults"]) == ("helical", "riemannian", [])
    out = capsys.readouterr().out
    assert "inadmissible" in out and "riemannian" in out and str(path) in out


def test_a_crash_stops_neither_the_others_nor_what_was_finished(tmp_path, monkeypatch):
    """A child that writes one result and then dies of a signal; the next robot crashes it again."""
    line = json.dumps({"library": "fake", "subject": "first"})
    child_that(
        monkeypatch,
        tmp_path,
        f"cat >/dev/null; [ -e {tmp_path}/once ] || echo '{line}' >\"$4\"; touch {tmp_path}/once; "
        'echo "assertion failed" >&2; kill -ABRT $$',
    )
    request = Request("fake", ("first", "second", "third"), True, False, 1, 0)
    results = list(audits_apart(request))
    assert results[0] == {"library": "fake", "subject": "first"}
    assert [result["subject"] for result in results[1:]] == ["second", "third"]
    assert all(result["error"].startswith("crashed (SIGABRT)") for result in results[1:])


def test_half_a_line_is_no_result(tmp_path, monkeypatch):
    """A child that is stopped while it writes, or prints without end, which nobody reads."""
    line = json.dumps({"library": "fake", "subject": "first"})
    child_that(monkeypatch, tmp_path, f"""printf '{line}\\n{{"libr' >"$4"; echo "$0"; kill -KILL $$""")
    results = list(audits_apart(Request("fake", ("first", "second"), True, False, 1, 0)))
    assert results[0] == {"library": "fake", "subject": "first"}
    assert results[1]["subject"] == "second" and results[1]["error"].startswith("crashed (SIGKILL)")


def test_a_child_that_hangs_is_given_up(tmp_path, monkeypatch):
    child_that(monkeypatch, tmp_path, "exec sleep 60")
    request = Request("fake", (BRANCHED,), False, False, 1, 0)
    (result,) = audits_apart(request, timeout=0.2)
    assert result == {"library": "fake", "subject": "branched", "error": "took more than 0.2 s"}


def test_a_child_reads_no_file_of_the_current_folder(tmp_path, monkeypatch):
    """It is started in an empty folder of its own, and finds the robot all the same."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "robot.urdf").touch()
    child_that(
        monkeypatch, tmp_path, f'[ -z "$(ls -A)" ] && grep -q "{tmp_path}/robot.urdf" && echo ok >&2; exit 3'
    )
    (result,) = audits_apart(Request("fake", ("robot.urdf",), False, False, 1, 0))
    assert result == {"library": "fake", "subject": "robot", "error": "failed: ok"}


def test_a_child_that_fails_says_its_last_line(tmp_path, monkeypatch):
    child_that(monkeypatch, tmp_path, 'echo "ImportError: wrong libc" >&2; exit 3')
    (result,) = audits_apart(Request("fake", ("mimic",), True, False, 1, 0))
    assert result["error"] == "failed: ImportError: wrong libc"


def test_the_report_of_a_robot(in_this_process, capsys):
    words = ["audit", BRANCHED, "--library", "pinocchio", "--library", "mujoco", "--samples", "1"]
    assert main(words) == 0
    out = paragraph(capsys)
    assert "computeCoriolisMatrix on branched, 5 velocities" in out
    assert "This is the Christoffel-consistent (Riemannian) Coriolis matrix: D = 0." in out
    assert "The vector C v is right; the library has no Coriolis matrix." in out
    assert out.count("H is that of this library") == 2


@pytest.mark.further
def test_faults_are_said_by_joint_type(in_this_process, capsys):
    assert main(["audit", BRANCHED, "--floating-base", "--library", "idyntree", "--samples", "1"]) == 1
    assert re.search(
        r"fails where only joints of type free move \(root_joint\): skew \(\S+\), .*torsion_free \(",
        paragraph(capsys),
    )


def test_a_library_that_refuses_the_robot_does_not_stop_the_others(in_this_process, capsys):
    robot = str(DATA / "wheeled_arm.urdf")
    assert main(["audit", robot, "--library", "idyntree", "--library", "mujoco", "--samples", "1"]) == 2
    out = paragraph(capsys)
    assert "idyntree on wheeled_arm: not audited. iDynTree has no planar joints (joint 'plane')" in out
    assert "The vector C v is right" in out


def test_without_a_name_what_is_not_installed_is_said(in_this_process, monkeypatch, capsys):
    missing = Library("drake", "no_such_package", "drake", "C v")
    monkeypatch.setattr(
        "connections.interop.libraries.LIBRARIES", {"drake": missing, "mujoco": LIBRARIES["mujoco"]}
    )
    assert main(["audit", BRANCHED, "--samples", "1"]) == 0
    out = paragraph(capsys)
    assert "Not audited, as it is not installed: drake. pip install drake (or all of them: " in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give a robot or --joints: connections audit ROBOT.urdf"),
        ([BRANCHED, "--joints"], "give a robot or --joints"),
        (
            [BRANCHED, "--library", "bullet"],
            "unknown library 'bullet'; there are adaptors for pinocchio, idyntree",
        ),
        ([BRANCHED, "--library", "jaxsim:fast"], "jaxsim has no variant 'fast'; there are jaxsim:body, "),
        (["--joints", "saddle"], "there is no joint type 'saddle'. The joint types are revolute, "),
        (["absent.urdf"], "absent.urdf: there is no such file"),
        ([BRANCHED, "--json", "no/such/folder/x"], "cannot write no/such/folder/x"),
        (
            [str(DATA / "urdf_plus" / "four_bar.urdf")],
            "URDF+ loops and couplings are read by this library only",
        ),
    ],
)
def test_bad_input_is_one_line(words, message, capsys):
    assert main(["audit", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("connections: error: ") and message in error and error.count("\n") == 1


def test_a_broken_file_is_one_line(tmp_path, capsys):
    (tmp_path / "broken.urdf").write_text("<robot name='x'><link name='a'>")
    assert main(["audit", str(tmp_path / "broken.urdf"), "--library", "pinocchio"]) == 2
    assert "broken.urdf: malformed XML" in capsys.readouterr().err


def test_a_library_that_is_not_installed_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["audit", BRANCHED, "--library", "drake"]) == 2
    assert "drake is not installed: pip install drake (or all of them: pip install" in capsys.readouterr().err


@pytest.mark.further
def test_the_help_names_every_library_and_type(capsys):
    with pytest.raises(SystemExit):
        main(["audit", "--help"])
    out = capsys.readouterr().out
    words = set(out.replace(",", " ").replace(".", " ").split())
    assert set(KINDS) <= words and set(LIBRARIES) <= words
