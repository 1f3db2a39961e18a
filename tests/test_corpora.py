"""The program that reads the robot files of packages finds what loads, what is refused, and what differs."""

import numpy as np
import pytest

from connections import multibody as mb
from tests import corpora

pytest.importorskip("mujoco")

INERTIAL = '<inertial pos="0.1 0 0" mass="1" diaginertia="0.1 0.1 0.1"/>'
TENDON = '<tendon><fixed name="t"><joint joint="a" coef="1"/><joint joint="b" coef="2"/></fixed></tendon>'
FILES = {
    "arm.xml": f'<mujoco><worldbody><body><joint name="a"/>{INERTIAL}<body pos="1 0 0"><joint name="b"/>'
    f"{INERTIAL}</body></body></worldbody>{TENDON}"
    '<equality><tendon tendon1="t"/></equality></mujoco>',
    "still.xml": '<mujoco><worldbody><body><geom size="1"/></body></worldbody></mujoco>',
    "part.xml": "<mujocoinclude/>",
    "arm.urdf": '<robot name="r"><link name="l"/><link name="m"><inertial><mass value="1"/>'
    '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link><joint name="j" '
    'type="continuous"><parent link="l"/><child link="m"/><axis xyz="0 1 0"/></joint></robot>',
}
FILES["twice.urdf"] = FILES["arm.urdf"].replace("<axis ", '<axis xyz="0 1 0"/><axis ')


@pytest.fixture
def found(tmp_path):
    def _found():
        (tmp_path / "package").mkdir(exist_ok=True)
        for name, text in FILES.items():
            (tmp_path / "package" / name).write_text(text)
        places = [place for place in corpora.places(tmp_path) if place[0] == "package"]
        return {file.path.rpartition("/")[2]: file for file in map(corpora.read, places) if file is not None}

    return _found


def test_what_becomes_of_files(found):
    files = found()
    verdicts = {name: file.verdict for name, file in files.items()}
    assert verdicts == {"arm.xml": "loaded", "arm.urdf": "loaded", "twice.urdf": "refused"}
    assert "2 elements <axis>" in files["twice.urdf"].reason
    assert "fewer than 97% of the URDF" in corpora.failure(list(files.values()))
    assert corpora.failure([files["arm.xml"], files["arm.urdf"]]) is None
    lines = corpora.tables(list(files.values())).splitlines()
    assert "| URDF, **all** | Pinocchio | 2 | 1 (50.0%) | 0 | 1 |" in lines
    assert "| refused: joint '...': it has ... elements &lt;axis>, expected one | 1 |" in lines


def test_another_robot_is_different(found, monkeypatch):
    """Masses and inertias are a millionth larger."""

    def heavier(read):
        def _read(path):
            model = read(path)
            return model.with_inertial_parameters(mb.inertial_parameters(model) * (1.0 + 1e-6))

        return _read

    for name in ("from_mjcf", "from_urdf"):
        monkeypatch.setattr(mb, name, heavier(getattr(mb, name)))
    verdicts = {name: file.verdict for name, file in found().items()}
    assert verdicts["arm.xml"] == verdicts["arm.urdf"] == "different"
    assert "some MJCF files load with other numbers" == corpora.failure(list(found().values()))


def test_cancelled_terms_have_a_scale():
    assert corpora.off(np.array([1e-17, 0.0]), np.zeros(2), scale=1.0) < 1e-16
    assert corpora.off(np.ones(2), np.ones(3)) == np.inf
