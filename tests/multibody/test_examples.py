"""The robots of `multibody.example`: they are in the package, plausible, and mean what their files say."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from closed_oracles import four_bar_angles
from mechanisms import derivative_along, structure_functions
from pinocchio_oracle import PinocchioRobot

import connections as cn
from connections import cli
from connections import multibody as mb
from connections.multibody.description.examples import FOLDER

ROOT = Path(__file__).parents[2]
NAMES = tuple(mb.examples())
TOL = 1e-10
LEFT_OUT = 1e-2  # a negative control leaves at least this


@pytest.fixture(scope="module", params=NAMES)
def robot(request):
    return mb.example(request.param)


def sample(model, rng):
    """A configuration near the neutral one, and a velocity."""
    q = mb.displace(model, model.neutral(), 0.3 * rng.standard_normal(model.nv))
    return q, rng.standard_normal(model.nv)


def gap(got, expected, scale):
    return np.max(np.abs(got - expected)) / np.max(np.abs(scale))


def test_names():
    assert NAMES == ("arm", "quadruped", "four_bar")
    assert {f"{name}.urdf" for name in NAMES} == {path.name for path in FOLDER.iterdir()}
    shapes = [(m.nq, m.nv, m.closed) for m in map(mb.example, NAMES)]
    assert shapes == [(6, 6, False), (19, 18, False), (1, 1, True)]


@pytest.mark.parametrize("name", ["biped", "", "Arm", "../robots/arm", None, 3, ["arm"]])
@pytest.mark.parametrize("function", [mb.example, mb.example_path])
def test_an_unknown_name_is_told_the_names(function, name):
    with pytest.raises(cn.checks.ModelError) as caught:
        function(name)
    assert all(known in str(caught.value) for known in NAMES)


def test_bodies_are_plausible(robot):
    """Positive masses, inertias that a distribution of mass has with room to spare, no warning."""
    for m, hx, hy, hz, xx, xy, yy, xz, yz, zz in mb.inertial_parameters(robot):
        c = np.array([hx, hy, hz]) / m
        about_origin = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        moments = np.linalg.eigvalsh(about_origin - m * (c @ c * np.eye(3) - np.outer(c, c)))
        assert 0.1 < m < 20.0 and np.linalg.norm(c) < 0.6
        assert moments[0] > 0.0 and moments[0] + moments[1] > 1.002 * moments[2]
        assert np.all(np.sqrt(moments / m) < 0.5)  # radii of gyration, m


def test_neutral_is_regular(robot):
    q = robot.neutral()
    H = mb.mass_matrix(robot, q)
    assert np.linalg.cond(H) < 1e4
    robot.explain(q)


def test_the_arm_s_tool_can_move_in_all_directions_at_neutral():
    arm = mb.example("arm")
    assert np.linalg.svd(mb.body_jacobians(arm, arm.neutral())[-6:])[1][-1] > 0.1
    stretched = arm.neutral()
    stretched[4] = -np.pi / 2  # negative control: the tool in line with the forearm, two axes coincide
    assert np.linalg.svd(mb.body_jacobians(arm, stretched)[-6:])[1][-1] < 1e-12


def test_the_quadruped_stands_level_on_feet_below_its_hips():
    quadruped = mb.example("quadruped")
    poses = np.asarray(quadruped.kinematics.world_transforms_at(quadruped.neutral()))
    body = dict(zip(quadruped.body_names, poses, strict=True))
    for leg in ("front_left", "front_right", "hind_left", "hind_right"):
        foot = (body[f"{leg}_shank"] @ [0.0, 0.0, -0.24, 1.0])[:3]
        hip = body[f"{leg}_thigh"][:3, 3]
        assert abs(foot[0] - hip[0]) < 0.01 and abs(foot[1] - hip[1]) < 1e-12
        assert -0.4 < foot[2] - hip[2] < -0.3
    assert mb.gravity(quadruped, quadruped.neutral())[5] == pytest.approx(18.0 * 9.81)


def test_passport(robot, rng):
    """C v is the bias, Hdot = C + C^T, C = Gamma v by the middle index, C(q, 0) = 0, no torsion."""
    q, v = sample(robot, rng)
    H, C = mb.mass_matrix(robot, q), mb.coriolis_matrix(robot, q, v)
    Gamma = mb.christoffel_symbols(robot, q)
    bias = mb.inverse_dynamics(robot, q, v, 0.0 * v) - mb.gravity(robot, q)
    scale = np.max(np.abs(H)) + np.max(np.abs(C))
    assert gap(C @ v, bias, scale) < TOL
    assert gap(C, np.einsum("ijk,j->ik", Gamma, v), scale) < TOL
    assert gap(mb.mass_matrix_rate(robot, q, v), C + C.T, scale) < TOL
    assert not mb.coriolis_matrix(robot, q, 0.0 * v).any()
    along = derivative_along(robot, lambda p: mb.mass_matrix(robot, p), q, v / np.linalg.norm(v))
    assert gap(np.linalg.norm(v) * along, C + C.T, scale) < 1e-8
    brackets = np.tensordot(H, structure_functions(robot), axes=1)
    assert gap(Gamma - np.swapaxes(Gamma, 1, 2), brackets, scale) < TOL
    assert gap(C @ v, 2.0 * bias, scale) > LEFT_OUT  # negative controls
    assert gap(2.0 * C, C + C.T, scale) > LEFT_OUT or robot.nv == 1
    assert gap(np.einsum("jik,j->ik", Gamma, v), C, scale) > LEFT_OUT or robot.nv == 1


def test_free_motion_keeps_its_energy(robot, rng):
    q, v = sample(robot, rng)
    times = np.linspace(0.0, 0.3, 7)
    points, velocities = robot.system().simulate(q, v, times)
    kinetic = 0.5 * np.einsum("ti,tij,tj->t", velocities, mb.mass_matrix(robot, points), velocities)
    potential = np.array([float(robot.potential_at(point)) for point in points])
    energy = kinetic + potential
    assert np.ptp(kinetic) > LEFT_OUT * np.max(kinetic)  # it falls: negative control
    assert np.ptp(energy) < 1e-7 * (np.max(kinetic) + np.ptp(potential))


@pytest.mark.parametrize("name", ["arm", "quadruped"])
def test_another_library_reads_the_same_robot(name, rng):
    robot = mb.example(name)
    theirs = PinocchioRobot(mb.example_path(name), floating_base=name == "quadruped")
    assert theirs.joint_names == robot.joint_names
    q, v = sample(robot, rng)
    C = mb.coriolis_matrix(robot, q, v)
    assert gap(mb.mass_matrix(robot, q), theirs.mass_matrix(q), mb.mass_matrix(robot, q)) < TOL
    assert gap(C, theirs.coriolis_matrix(q, v), C) < TOL
    assert gap(C, theirs.coriolis_matrix(q, 1.1 * v), C) > LEFT_OUT


def test_the_linkage_moves_as_its_closed_form(rng):
    """The angles of coupler and rocker by the law of cosines, from x to z; turns about y are from z to x."""
    linkage = mb.example("four_bar")
    bars = (1.1, 0.3, 0.7, 0.9)  # ground, crank, coupler, rocker
    starts = np.array([np.pi / 2, *four_bar_angles(np.pi / 2, bars)])
    q = np.linspace(-np.pi, np.pi, 9)[:, None]  # a full turn
    spanning = linkage.spanning_configuration(q)
    for angle, pin, pivot in zip(q[:, 0], spanning["pin"], spanning["pivot"], strict=True):
        coupler, rocker = np.array(four_bar_angles(np.pi / 2 - angle, bars)) - starts[1:]
        assert np.exp(1j * (angle + pin[0])) == pytest.approx(np.exp(-1j * coupler), abs=1e-9)
        assert np.exp(1j * pivot[0]) == pytest.approx(np.exp(-1j * rocker), abs=1e-9)
    other = four_bar_angles(np.pi / 2, bars, side=-1.0)  # negative control: the other assembly
    assert abs(other[1] - starts[2]) > LEFT_OUT


@pytest.mark.further
def test_they_load_in_an_empty_folder(tmp_path):
    """Quietly, in a process that knows only where the package is; `.ci/run` compares package and wheel."""
    program = (
        "import warnings; warnings.simplefilter('error'); from connections import multibody as mb; "
        "print(*(mb.example(name).nv for name in mb.examples()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["6", "18", "1"] and not done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.further
def test_commands_take_their_names(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["audit", "arm", "--library", "pinocchio", "--samples", "1"]) == 0
    assert "riemannian" in capsys.readouterr().out.lower()
    assert cli.main(["audit", "biped", "--library", "pinocchio"]) == 2
    assert "biped" in capsys.readouterr().err
    (tmp_path / "arm").write_text("<robot/>")  # a file goes before a name
    assert cli.main(["audit", "arm", "--library", "pinocchio"]) == 2
