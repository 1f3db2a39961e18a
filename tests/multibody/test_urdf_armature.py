"""Armature that `from_urdf` is given, and that of rotors in transmissions."""

import mujoco
import numpy as np
import pytest
from urdf_parts import joint, link

from connections import multibody as mb
from connections.checks import ModelError

BODY = link("base") + link("arm") + link("tip") + joint("shoulder", "base", "arm")
BODY += joint("slide", "arm", "tip", "prismatic", '<axis xyz="1 0 0"/>')
ROTOR = '<drake:rotor_inertia value="2e-4"/>'


def transmission(actuator=ROTOR, of_joint="", of_all="", joint="shoulder"):
    return (
        f'<transmission name="t"><joint name="{joint}">{of_joint}</joint>'
        f'<actuator name="m">{actuator}</actuator>{of_all}</transmission>'
    )


@pytest.fixture
def load(tmp_path):
    def _load(body, **options):
        path = tmp_path / "robot.urdf"
        path.write_text(f'<robot name="r" xmlns:drake="https://drake.mit.edu">{body}</robot>')
        return mb.from_urdf(path, **options)

    return _load


def test_armature_is_on_the_diagonal_as_in_mujoco(load, tmp_path, rng):
    model = load(BODY, armature={"slide": 0.7})
    np.testing.assert_array_equal(np.concatenate(list(model.armature.values())), [0.0, 0.7])
    compiled = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.urdf"))
    compiled.dof_armature[1] = 0.7
    data, q = mujoco.MjData(compiled), model.random(rng)
    data.qpos[:] = q
    mujoco.mj_forward(compiled, data)
    H = np.zeros((2, 2))
    mujoco.mj_fullM(compiled, data, H)
    np.testing.assert_allclose(mb.mass_matrix(model, q), H, atol=1e-13)
    assert not np.allclose(mb.mass_matrix(load(BODY), q), H, atol=0.1)  # negative control


#: Where ROS and Drake write that the rotor turns 50 times as fast as the joint.
RATIOS = {
    "drake": transmission(ROTOR + '<drake:gear_ratio value="50"/>'),
    "no namespace": transmission('<rotor_inertia value="2e-4"/><gear_ratio value="50"/>'),
    "actuator": transmission(ROTOR + "<mechanicalReduction> 50\n</mechanicalReduction>"),
    "negative": transmission(ROTOR + "<mechanicalReduction>-50</mechanicalReduction>"),
    "joint": transmission(of_joint="<mechanicalReduction>50.0</mechanicalReduction>"),
    "transmission": transmission(of_all="<mechanicalReduction>5e1</mechanicalReduction>"),
}


@pytest.mark.parametrize("case", RATIOS)
def test_rotors_behind_gears_count_with_the_square_of_the_ratio(case, load):
    model = load(BODY + RATIOS[case], armature="transmissions")
    np.testing.assert_allclose(model.armature["shoulder"], [2e-4 * 50**2])
    assert model.armature["slide"] == 0.0
    assert not any(load(BODY + RATIOS[case]).armature.values())  # read if asked for only


def test_rotors_of_one_joint_are_added_and_gears_are_one_without_a_ratio(load):
    model = load(BODY + transmission() + transmission(), armature="transmissions")
    np.testing.assert_allclose(model.armature["shoulder"], [4e-4])


BAD = {
    "name": (BODY, {"elbow": 1.0}, "armature: there is no joint 'elbow'.*shoulder, slide"),
    "negative": (BODY, {"slide": -1.0}, "joint 'slide': armature is negative"),
    "shape": (BODY, {"slide": [1.0, 2.0]}, "joint 'slide': armature"),
    "word": (BODY, "motors", "armature: expected .joint: value. or \"transmissions\", got 'motors'"),
    "no rotor": (BODY, "transmissions", "no <transmission> has .*<rotor_inertia>; give armature="),
    "two joints": (
        BODY + transmission(of_all='<joint name="slide"/>'), "transmissions", "'t' has 2 joints and 1 act",
    ),
    "no joint": (BODY + transmission(joint="elbow"), "transmissions", "'t': there is no joint 'elbow'"),
    "two ratios": (
        BODY + transmission(ROTOR + '<gear_ratio value="2"/><mechanicalReduction>3</mechanicalReduction>'),
        "transmissions",
        "'t': it has different gear ratios: 2, 3",
    ),
    "no number": (
        BODY + transmission(ROTOR + "<mechanicalReduction>fast</mechanicalReduction>"),
        "transmissions",
        "'t': <mechanicalReduction> is not a number: 'fast'",
    ),
    "ratio zero": (BODY + transmission(ROTOR + '<gear_ratio value="0"/>'), "transmissions", "ratio is zero"),
    "rotor negative": (BODY + transmission('<rotor_inertia value="-1"/>'), "transmissions", "is negative"),
    "two rotors": (BODY + transmission(ROTOR + ROTOR), "transmissions", "2 elements <rotor_inertia>"),
    "long": (
        BODY + transmission(ROTOR + f"<mechanicalReduction>{'1' * 2000}</mechanicalReduction>"),
        None,
        "line 9: <mechanicalReduction> has more than 1,000 characters",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_named(case, load):
    body, armature, message = BAD[case]
    with pytest.raises(ModelError, match=f"robot.urdf: .*{message}"):
        load(body, armature=armature)


def test_another_kind_of_argument(load):
    with pytest.raises(TypeError, match=r"armature: expected {joint: value} or \"transmissions\", got"):
        load(BODY, armature=0.1)
