"""The corpus: its files are those of its script, and what is right of them is so by other codes, too."""

import numpy as np
import pytest
import referee_corpus
from plain_dynamics import Plain
from referee_library import CRAFTS, ROBOTS

from connections import referee

NAMES = [name for name in referee.robots() if name in ROBOTS]


def close(found, right, scale=None, tolerance=1e-11):
    size = np.max(np.abs(right)) if scale is None else scale
    return np.max(np.abs(np.asarray(found) - right)) <= tolerance * max(size, 1.0)


def test_the_files_are_fresh():
    """`python tests/support/referee_corpus.py` writes them."""
    for name, text in referee_corpus.files().items():
        assert (referee.CORPUS / name).read_text() == text, name
    written = {path.name for path in referee.CORPUS.iterdir()} - {"references.npz"}
    assert written == set(referee_corpus.files())
    assert sum(path.stat().st_size for path in referee.CORPUS.iterdir()) < 150_000
    assert len(NAMES) >= 20 and set(CRAFTS) == {"vessel_3dof", "vehicle_6dof"}


@pytest.mark.parametrize("name", NAMES)
def test_the_references_are_those_of_jacobians_in_world_axes(name):
    """H, C v and gravity by NumPy code that shares nothing with the package; C v by the reference's C."""
    robot, plain = referee.robot(name), Plain(ROBOTS[name])
    q, v = referee_corpus.samples(name, robot.base, len(robot.joints))
    assert np.array_equal(robot.q, q) and np.array_equal(robot.v, v)
    for k, (point, velocity) in enumerate(zip(q, v, strict=True)):
        assert close(plain.mass_matrix(point), robot.mass_matrix[k])
        assert close(plain.bias(point, velocity), robot.bias[k])
        assert close(robot.coriolis[k] @ velocity, robot.bias[k])
        assert close(plain.gravity(point), robot.gravity[k])
        assert not close(plain.bias(point, 1.01 * velocity), robot.bias[k], tolerance=1e-4)


@pytest.mark.further
@pytest.mark.parametrize("name", referee.robots())
def test_all_references_are_fresh(name):
    robot = referee.robot(name)
    if name in CRAFTS:
        found = referee_corpus.craft_references(CRAFTS[name], "recursion")
    else:
        found = referee_corpus.references(ROBOTS[name], "recursion")
    for key, value in found.items():
        assert close(value, getattr(robot, key)), key


def test_craft_by_hand():
    """Of a vessel: M v turned back by the motion, by the definition in JAX, too; C is skew, as Hdot = 0."""
    robot = referee.robot("vessel_3dof")
    M = robot.rigid_mass + robot.added_mass
    assert np.allclose(M, robot.mass_matrix[0]) and not np.allclose(M, np.diag(np.diag(M)), atol=0.1)
    for v, C, c in zip(robot.v, robot.coriolis, robot.bias, strict=True):
        r, p = v[0], M @ v
        assert np.allclose(c, [v[1] * p[2] - v[2] * p[1], -r * p[2], r * p[1]])
        assert np.allclose(C @ v, c) and np.allclose(C, -C.T)
    for key, value in referee_corpus.craft_references(CRAFTS["vessel_3dof"]).items():
        assert close(value, getattr(robot, key)), key


def test_mujoco_reads_the_same_robots():
    """H, the bias and gravity of the MJCF files, in MuJoCo's own layout."""
    mujoco = pytest.importorskip("mujoco")
    count = 0
    for name in NAMES:
        robot = referee.robot(name)
        if robot.mjcf is None:
            continue
        model = mujoco.MjModel.from_xml_path(str(robot.mjcf))
        data, H = mujoco.MjData(model), np.zeros((model.nv, model.nv))
        joints = [model.joint(k).name for k in range(model.njnt)]
        kept = tuple(n for n in joints if n in robot.joints)
        layout = {
            "fixed": referee.fixed(kept),
            "planar": referee.planar("world", joints=kept),
            "floating": referee.floating("vw", "linear-world", quaternion="wxyz", joints=kept),
        }[robot.base]
        rows = zip(robot.q_in(layout), robot.v_in(layout), robot.reference_in(layout), strict=True)
        for q, v, (right_H, right_c, right_g, _) in rows:
            data.qpos[:], data.qvel[:] = q, v
            mujoco.mj_forward(model, data)
            mujoco.mj_fullM(model, data, H)
            assert close(H, right_H, tolerance=1e-10), name
            assert close(data.qfrc_bias, right_c + right_g, np.max(np.abs(right_g)) + 1.0, 1e-10), name
        count += 1
    assert count == sum(ROBOTS[name].mjcf for name in NAMES) > 15


def test_pinocchio_reads_the_same_robots():
    """H and the bias of the URDF files with one-number joints, in Pinocchio's layout."""
    pin = pytest.importorskip("pinocchio")
    for name in NAMES:
        robot = referee.robot(name)
        if robot.urdf is None or name in ("mimic", "continuous", "planar_base"):
            continue
        free = (pin.JointModelFreeFlyer(),) if robot.base == "floating" else ()
        model = pin.buildModelFromUrdf(str(robot.urdf), *free)
        data = model.createData()
        kept = tuple(n for n in model.names if n in robot.joints)
        layout = referee.floating("vw", "body", joints=kept) if free else referee.fixed(kept)
        rows = zip(robot.q_in(layout), robot.v_in(layout), robot.reference_in(layout), strict=True)
        for q, v, (right_H, right_c, right_g, _) in rows:
            H = pin.crba(model, data, q)
            H = np.triu(H) + np.triu(H, 1).T
            assert close(H, right_H, tolerance=1e-10), name
            assert close(pin.nonLinearEffects(model, data, q, v), right_c + right_g, tolerance=1e-10), name


def test_the_features_are_in_the_files():
    """A slide's axis that turns with its parent: 2 kg at 0.3 m, by hand; and names that do not exist."""
    robot = referee.robot("slide_behind_hinge")
    assert np.allclose(robot.mass_matrix[:, 0, 1], 2.0 * 0.3, atol=1e-12)
    assert referee.robots("planar") == ("planar_base", "vessel_3dof")
    with pytest.raises(ValueError, match="did you mean branches"):
        referee.robot("branhces")
