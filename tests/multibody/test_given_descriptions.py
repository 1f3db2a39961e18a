"""Descriptions as people have them: texts, open files, files of ROS's packages and of installed ones."""

import io
import os
import sys
import tempfile
import zipfile

import numpy as np
import pytest
from cases import further
from urdf_parts import joint, link

from connections import multibody as mb
from connections.checks import ModelError
from connections.explorer.link_meshes import read_visuals
from connections.multibody.description import files, mjcf_limits

URDF = f'<robot name="r">{link("base")}{link("arm")}{joint("schulter", "base", "arm")}</robot>'
MJCF = """<mujoco><worldbody><body><joint name="hinge"/>
<geom type="box" size="0.1 0.2 0.3"/></body></worldbody></mujoco>"""
READERS = {"urdf": (mb.from_urdf, URDF), "mjcf": (mb.from_mjcf, MJCF)}


@pytest.fixture(params=READERS)
def reader(request, tmp_path):
    """A reader, a text, and the file of that text."""
    read, text = READERS[request.param]
    file = tmp_path / f"robot.{request.param}"
    file.write_text(text, encoding="utf8")
    return read, text, file


def test_texts_and_open_files_are_the_same_robot_as_the_file(reader):
    read, text, file = reader
    expected = read(file)
    with open(file, encoding="utf8") as opened, open(file, "rb") as raw:
        given = [
            text,
            "\ufeff \n" + text,
            text.encode(),
            opened,
            raw,
            io.StringIO(text),
            io.BytesIO(text.encode()),
        ]
        for each in given:
            assert read(each) == expected
    with tempfile.NamedTemporaryFile() as temporary:
        temporary.write(text.encode())
        temporary.seek(0)
        assert read(temporary) == expected
    with zipfile.ZipFile(file.with_suffix(".zip"), "w") as archive:
        archive.write(file, "robot.xml")
    with zipfile.ZipFile(file.with_suffix(".zip")) as archive, archive.open("robot.xml") as member:
        assert read(member) == expected


def test_encodings_of_texts():
    """What a text declares is of bytes; a str has its characters already."""
    named = URDF.replace("schulter", "Schürze")
    declared = f'<?xml version="1.0" encoding="iso-8859-1"?>{named}'
    for given in (named, named.encode(), declared, declared.encode("iso-8859-1")):
        assert mb.from_urdf(given).joint_names == ("Schürze",)


NAMED = """<?xml version="1.0" encoding="{}"?>
<mujoco><worldbody><site name="Öse"/><body name="Bügel"><joint name="Schürze"/><site name="Größe"/>
<joint name="&#228;" axis="1 0 0"/><geom type="box" size="0.1 0.2 0.3"/></body></worldbody>
<tendon><fixed name="Ära"><joint joint="Schürze" coef="1"/></fixed></tendon>
<actuator><motor name="Öl" joint="Schürze"/></actuator>
<equality><joint name="Übersetzung" joint1="Schürze" polycoef="0.5 0 0 0 0"/></equality></mujoco>"""


@pytest.mark.parametrize(
    "encoding", ["utf-8", "iso-8859-1", "windows-1252", "utf-16", "utf-16-le", "utf-16-be"]
)
def test_mjcf_is_read_in_the_encoding_that_it_declares(encoding, tmp_path):
    """MuJoCo reads UTF-8 alone; all kinds of names are those of the same text in UTF-8."""
    declared = NAMED.format(encoding.removesuffix("-le").removesuffix("-be"))
    content, file = declared.encode(encoding), tmp_path / "Gerät.xml"
    file.write_bytes(content)
    robot = mb.from_mjcf(declared, equality=False)
    assert robot.joint_names == ("Schürze", "ä") and "Größe" in robot.frame_names
    assert [motor.name for motor in robot.motors] == ["Öl"] and "Bügel" in robot.body_names
    for given in (file, content):
        assert mb.from_mjcf(given, equality=False) == robot
        assert mb.from_mjcf(given, equality=["Übersetzung"]).joint_names == ("ä",)
        with pytest.raises(ModelError, match="no equality constraint 'Ü'. .* are Übersetzung"):
            mb.from_mjcf(given, equality=["Ü"])


@pytest.mark.parametrize("given", ["file", "text"])
def test_a_large_file_in_another_encoding_is_tried_as_it_is_read(given, tmp_path, monkeypatch):
    monkeypatch.setattr(mjcf_limits, "UNTRIED_ELEMENTS", 1)
    content, file = NAMED.format("utf-16").encode("utf-16"), tmp_path / "robot.xml"
    file.write_bytes(content)
    robot = mb.from_mjcf(file if given == "file" else content, equality=False)
    assert robot.joint_names == ("Schürze", "ä")


def test_files_that_an_mjcf_file_in_another_encoding_names(tmp_path):
    """They are found as ever, also one of the same name, and are in UTF-8 or refused with words."""
    part = NAMED[NAMED.index("<mujoco>") : NAMED.index("<tendon>")] + "</mujoco>"
    main = '<mujoco model="ä"><include file="Öl/r.xml"/><worldbody/></mujoco>'
    main = f'<?xml version="1.0" encoding="iso-8859-1"?>{main}'
    (tmp_path / "Öl").mkdir()
    (tmp_path / "r.xml").write_bytes(main.encode("iso-8859-1"))
    inner = tmp_path / "Öl" / "r.xml"
    inner.write_text(part, encoding="utf8")
    assert mb.from_mjcf(tmp_path / "r.xml").joint_names == ("Schürze", "ä")
    for encoding in ("iso-8859-1", "utf-16"):
        inner.write_bytes(f'<?xml version="1.0" encoding="{encoding}"?>{part}'.encode(encoding))
        with pytest.raises(ModelError, match=r"r.xml: <include file='Öl/r.xml'>: .*write this one in UTF-8"):
            mb.from_mjcf(tmp_path / "r.xml")
    remark = MJCF.replace("<mujoco>", "<mujoco><!-- für -->")
    inner.write_bytes(f'<?xml version="1.0" encoding="iso-8859-1"?>{remark}'.encode("iso-8859-1"))
    assert mb.from_mjcf(tmp_path / "r.xml").joint_names == ("hinge",)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
@pytest.mark.parametrize("tried", [False, further(True)])
def test_a_path_may_have_bytes_that_are_no_text(reader, tried, tmp_path, monkeypatch):
    read, text, _ = reader
    monkeypatch.setattr(mjcf_limits, "UNTRIED_ELEMENTS", 1 if tried else 10**4)
    folder = tmp_path / os.fsdecode(b"bad\xff")
    folder.mkdir()
    (folder / os.fsdecode(b"\xfe.xml")).write_text(text)
    assert read(folder / os.fsdecode(b"\xfe.xml")) == read(text)
    if read is mb.from_mjcf:
        named = text.replace("hinge", "Tür")
        (folder / "r.xml").write_bytes(
            f"<?xml version='1.0' encoding='iso-8859-1'?>{named}".encode("iso-8859-1")
        )
        assert read(folder / "r.xml").joint_names == ("Tür",)
        (folder / "r.xml").write_text(text.replace("<worldbody>", '<include file="none.xml"/><worldbody>'))
        with pytest.raises(ModelError, match=r"bad\\udcff/r.xml: MuJoCo refuses it: .*none.xml"):
            read(folder / "r.xml")


def test_errors_and_warnings_of_texts_name_them(reader, monkeypatch):
    read, text, file = reader
    with pytest.raises(ModelError, match=r"the text: malformed XML: .*line 1"):
        read("<robot")
    with pytest.raises(ModelError, match=r"robot\.\w+: "), open(file) as opened:
        opened.read(3)  # the rest is no XML
        read(opened)
    with open(file) as closed:
        pass
    with pytest.raises(ModelError, match=r"robot\.\w+: cannot be read: I/O operation on closed file"):
        read(closed)
    with pytest.raises(TypeError, match="path: expected .*, a text in XML or an open file, got the number 5"):
        read(5)
    with pytest.raises(ModelError, match="there is no such file"):
        read("robot")
    too_long = io.StringIO(text + " " * files.MOST_BYTES)
    with pytest.raises(ModelError, match="the open file: larger than 10 MB"):
        read(too_long)
    assert too_long.tell() == files.MOST_BYTES + 1  # no more of it is read


def test_files_that_a_text_names_are_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "hinge.xml").write_text('<mujoco><joint name="other"/></mujoco>')
    text = MJCF.replace('<joint name="hinge"/>', '<include file="hinge.xml"/>')
    monkeypatch.chdir(tmp_path)
    assert mb.from_mjcf(text).joint_names == ("other",)
    monkeypatch.chdir(tmp_path.parent)
    with pytest.raises(ModelError, match="the text: MuJoCo refuses it"):
        mb.from_mjcf(text)


def test_a_large_text_is_tried_in_another_process(monkeypatch):
    tried = []
    run = mjcf_limits.run_limited
    monkeypatch.setattr(mjcf_limits, "UNTRIED_ELEMENTS", 1)
    monkeypatch.setattr(mjcf_limits, "run_limited", lambda *given: tried.append(given) or run(*given))
    assert mb.from_mjcf(MJCF).joint_names == ("hinge",) and len(tried) == 1
    with pytest.raises(ModelError, match="the text: MuJoCo refuses it: .*unrecognized attribute: 'unknown'"):
        mb.from_mjcf(MJCF.replace('name="hinge"', 'unknown="1"'))


# --- packages ----------------------------------------------------------------------------------------------


def test_files_of_ros_packages(tmp_path, monkeypatch):
    """In folders that are named, which hold packages or are one; then in those of the environment."""
    for name, prefix in (("here", tmp_path), ("there", tmp_path / "install" / "share")):
        folder = prefix / "arm_description" / "urdf"
        folder.mkdir(parents=True)
        (folder / "robot.urdf").write_text(URDF.replace("schulter", name))
    uri, here = "package://arm_description/urdf/robot.urdf", tmp_path / "arm_description"
    for folders in ([tmp_path], tmp_path, str(tmp_path), [here], [tmp_path / "install", here]):
        assert mb.from_urdf(uri, package_dirs=folders).joint_names == ("here",)
    with pytest.raises(ModelError, match=r'robot.urdf: no package has this file; .*package_dirs=\["..."\]'):
        mb.from_urdf(uri)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "install"))
    assert mb.from_urdf(uri).joint_names == ("there",)
    assert mb.from_urdf(uri, package_dirs=[tmp_path]).joint_names == ("here",)
    with pytest.raises(ModelError, match="package_dirs: .*nowhere is no folder"):
        mb.from_urdf(uri, package_dirs=[tmp_path / "nowhere"])
    with pytest.raises(TypeError, match="package_dirs: expected paths of folders, got the number 3"):
        mb.from_mjcf(uri, package_dirs=[3])


def test_a_file_of_an_installed_package(rng):
    model = mb.load("example-robot-data:ur5_robot.urdf")
    assert model.nv == 6 and model == mb.load("example-robot-data:ur_description/urdf/ur5_robot.urdf")
    assert mb.load("example-robot-data:ur5_robot.urdf", floating_base=True).nv == 12
    with pytest.raises(ModelError, match="there is no installed package 'example-robots'.*pip install"):
        mb.load("example-robots:ur5.urdf")
    with pytest.raises(ModelError, match=r"none of its \d+ files of robots ends with 'ur7.urdf'.*ur3.urdf"):
        mb.load("example-robot-data:ur7.urdf")
    with pytest.raises(TypeError, match="name: expected text, got the number 5"):
        mb.load(5)


def test_robots_of_robot_descriptions(tmp_path, monkeypatch):
    """Modules with the path of a file, as those of that package, which is not needed for the rest."""
    monkeypatch.setitem(sys.modules, "robot_descriptions", None)
    with pytest.raises(ModelError, match="needs robot_descriptions: pip install robot_descriptions; or"):
        mb.load("arm_description")
    monkeypatch.delitem(sys.modules, "robot_descriptions")
    package = tmp_path / "robot_descriptions"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for name, text, line in (
        ("arm_description", URDF, "URDF_PATH"),
        ("arm_mj_description", MJCF, "MJCF_PATH"),
        ("raw_description", URDF, "XACRO_PATH"),
    ):
        file = package / (
            name + {"URDF_PATH": ".urdf", "MJCF_PATH": ".xml", "XACRO_PATH": ".urdf.xacro"}[line]
        )
        file.write_text(text)
        (package / f"{name}.py").write_text(f"{line} = {str(file)!r}\n")
    (package / "offline_description.py").write_text("raise OSError('no network')\n")
    (package / "empty_description.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert mb.load("arm_description", gravity=(0, 0, 0)).joint_names == ("schulter",)
    assert mb.load("arm_mj_description").joint_names == ("hinge",)
    for name, message in (
        ("raw_description", "expand it first, by xacro FILE"),
        ("offline_description", "cannot give 'offline_description': no network"),
        ("empty_description", "neither a URDF nor an MJCF"),
        ("arn_description", "there is no robot 'arn_description'; did you mean arm_description"),
    ):
        with pytest.raises(ModelError, match=message):
            mb.load(name)
    for module in [name for name in sys.modules if name.startswith("robot_descriptions")]:
        monkeypatch.delitem(sys.modules, module)
    np.testing.assert_array_equal(read_visuals(package / "arm_description.urdf")[0], [])
