"""Descriptions of robots that are made to exhaust the reader, or to be read as another robot."""

import os
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import yourdfpy
from lxml import etree
from urdf_parts import INERTIAL, joint, link

from connections import multibody as mb
from connections.checks import ModelError, NonFiniteError
from connections.multibody.description import files, limited, mjcf_limits, urdf_visuals, xml
from connections.multibody.description.files import MOST_ASSETS
from connections.multibody.description.urdf_elements import joint_element, link_element

TWO = link("a") + link("b", INERTIAL) + link("c", INERTIAL) + joint("j", "a", "b") + joint("k", "b", "c")
DATA = Path(__file__).parents[1] / "data"


def write(path: Path, inside: str, head: str = "") -> Path:
    path.write_text(f'{head}<robot name="r">{inside}</robot>')
    return path


def nested(depth: int, tag: str = "deep") -> str:
    return f"<{tag}>" * depth + f"</{tag}>" * depth


LIMITS = {
    "deep": (nested(xml.MOST_DEPTH), "elements are more than 100 deep"),
    "deeper than the second parser": (nested(300), "elements are more than 100 deep"),
    "deeper than the stack": (nested(200_000), "elements are more than 100 deep"),
    "deep in a link": (f'<link name="x">{nested(10**5)}</link>', "elements are more than 100 deep"),
    "deep in a visual": (f'<link name="x"><visual>{nested(10**5)}</visual></link>', "100 deep"),
    "many": ("<e/>" * xml.MOST_ELEMENTS, "more than 100,000 elements"),
    "a long tag": (f"<{'t' * (xml.MOST_NAME + 1)}/>", "a name of more than 1,000 characters: tttt"),
    "a very long tag": (f"<{'t' * 10**6}/>", "a name of more than 1,000 characters"),
    "a long attribute": (f'<link name="x" {"t" * (xml.MOST_NAME + 1)}=""/>', "a name of more than 1,000"),
    "a long value": (link("n" * (xml.MOST_VALUE + 1)), "<link name=...> has more than 10,000 characters"),
    "a document type": ("", "<!DOCTYPE robot>: a robot description is read without a document type"),
}
HEADS = {"a document type": '<!DOCTYPE robot [<!ATTLIST mass value CDATA "5">]>'}


@pytest.mark.parametrize("case", LIMITS)
def test_a_limit_ends_the_reading_with_the_line(tmp_path: Path, case: str) -> None:
    inside, reason = LIMITS[case]
    head = "\n\n" + HEADS.get(case, "")
    path = write(tmp_path / "r.urdf", TWO + inside, head)
    line = 3 if case in HEADS else (head + TWO).count("\n") + 1
    for read in (mb.from_urdf, urdf_visuals.read_visuals):
        with pytest.raises(ModelError, match="line ") as caught:
            read(path)
        assert reason in str(caught.value) and f"line {line}: " in str(caught.value)
    assert len(str(caught.value)) < 300
    assert mb.from_urdf(write(tmp_path / "control.urdf", TWO)).nv == 2


def test_what_is_at_the_limits_is_read(tmp_path: Path) -> None:
    inside = nested(xml.MOST_DEPTH - 1) + "<e/>" * 10**4 + f"<{'t' * xml.MOST_NAME}/>"
    assert mb.from_urdf(write(tmp_path / "r.urdf", TWO + inside)).nv == 2


@pytest.mark.parametrize(
    "entities",
    [
        '<!ENTITY a "x">',
        '<!ENTITY a SYSTEM "file:///etc/passwd">',
        '<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">',
        '<!ENTITY % p SYSTEM "http://127.0.0.1:9/"> %p;',
    ],
)
@pytest.mark.parametrize("form", ["robot", "mujoco"])
def test_no_entity_is_defined(tmp_path: Path, form: str, entities: str) -> None:
    read = {"robot": mb.from_urdf, "mujoco": mb.from_mjcf}[form]
    path = tmp_path / "r.xml"
    path.write_text(f"<!DOCTYPE {form} [{entities}]><{form}/>")
    with pytest.raises(ModelError, match=r"r\.xml: line 1: <!DOCTYPE"):
        read(path)
    path.write_text(f"<{form}>&a;</{form}>")
    with pytest.raises(ModelError, match=r"r\.xml: malformed XML: undefined entity"):
        read(path)


@pytest.mark.parametrize("extra", [nested(90), f"<{'t' * 1000}/>", "<?target text?>", "<!-- text -->"])
def test_nothing_is_lost_behind_what_is_left_out(tmp_path: Path, extra: str) -> None:
    """lxml with ``recover=True`` dropped what followed a deep element: here an axis, and a mass."""
    behind = TWO.replace("<axis", f"{extra}<axis").replace("<mass", f"{extra}<mass")
    assert behind != TWO
    models = [mb.from_urdf(write(tmp_path / "r.urdf", inside)) for inside in (behind, TWO)]
    H, expected = (mb.mass_matrix(model, [0.1, 0.2]) for model in models)
    np.testing.assert_array_equal(H, expected)


def test_the_tree_that_is_used_is_the_tree_that_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other reader of XML runs; negative control: yourdfpy's own reading of a file does."""
    runs = []
    for reader in ("parse", "iterparse", "fromstring"):
        monkeypatch.setattr(etree, reader, lambda *_, _r=reader, **__: runs.append(_r) or 1 / 0)
    path = DATA / "branched.urdf"
    root = xml.read_root(path, "robot", "a URDF")
    mb.from_urdf(path)
    assert not runs and len(root) > 2
    with pytest.raises(ZeroDivisionError):
        yourdfpy.URDF.load(str(path))
    assert runs


@pytest.mark.parametrize("path", sorted(DATA.rglob("*.urdf")), ids=lambda path: path.name)
def test_yourdfpy_reads_the_same_numbers_from_the_file(path: Path) -> None:
    """Another parser, by lxml."""
    root = xml.read_root(path, "robot", "a URDF")
    links = [link_element(each) for each in root.findall("link")]
    joints = [joint_element(each) for each in root.findall("joint")]
    theirs = yourdfpy.URDF.load(str(path), build_scene_graph=False, load_meshes=False).robot
    assert len(links) == len(theirs.links) and len(joints) == len(theirs.joints)
    for link_, other in zip(links, theirs.links, strict=True):
        assert link_.name == other.name and (link_.inertial is None) == (other.inertial is None)
        if link_.inertial is not None:
            assert link_.inertial.mass == other.inertial.mass
            np.testing.assert_array_equal(link_.inertial.inertia, other.inertial.inertia)
    for joint_, other in zip(joints, theirs.joints, strict=True):
        assert (joint_.name, joint_.type, joint_.parent, joint_.child) == (
            (other.name, other.type, other.parent, other.child)
        )
        given = None if other.limit is None else {k: v for k, v in vars(other.limit).items() if v is not None}
        assert joint_.limit == given
        np.testing.assert_array_equal(joint_.axis, other.axis)
        origin = np.eye(4) if other.origin is None else other.origin
        np.testing.assert_array_equal(joint_.placement, origin)


@pytest.mark.parametrize("path", sorted(DATA.rglob("*.urdf")), ids=lambda path: path.name)
def test_the_tree_is_that_of_another_reader(path: Path) -> None:
    ours, theirs = xml.read_root(path, "robot", "a URDF"), ElementTree.parse(path).getroot()
    assert [(e.tag, e.attrib, len(e)) for e in ours.iter()] == [
        (e.tag, e.attrib, len(e)) for e in theirs.iter()
    ]
    names = xml.parse(b'<a xmlns="u" xmlns:n="v" n:x="1"><n:b y="2"/></a>')
    assert (names.tag, names.attrib, names[0].tag) == ("a", {"{v}x": "1"}, "{v}b")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("word", ["1" * 10**6 + "e", "1" * 10**6 + ".e", "." + "1" * 10**6 + "e+"])
def test_a_long_word_that_is_no_number_is_refused_in_time(tmp_path: Path, word: str) -> None:
    """The time grew with the square of its length: a million digits took hours."""
    long = joint("j", "a", "b", more=f'<axis xyz="0 0 {word}"/>')
    with pytest.raises(ModelError, match=r"joint 'j': <axis xyz=\.\.\.> is not a number"):
        mb.from_urdf(write(tmp_path / "r.urdf", link("a") + link("b", INERTIAL) + long))


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """A pipe without a writer would be waited for; a device has no end."""
    os.mkfifo(tmp_path / "pipe")
    for read in (mb.from_urdf, mb.from_mjcf):
        for path in (tmp_path / "pipe", Path("/dev/zero"), Path("/dev/tty")):
            with pytest.raises(ModelError, match="not a regular file, but a pipe, a socket or a device"):
                read(path)
        with pytest.raises(ModelError, match="this is a folder"):
            read(tmp_path)
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):  # if it takes the place of a file
        with pytest.raises(ModelError, match="not a regular file"):
            files.read_regular(path, 10)
    (tmp_path / "file").write_bytes(b"12345")
    assert files.read_regular(tmp_path / "file", 5) == b"12345"
    assert files.read_regular(tmp_path / "file", 4) is None


def test_a_file_that_may_not_be_read_is_an_error_with_words(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read: No such file"):
        files.read_regular(tmp_path / "none", 10)


def test_a_robot_of_very_many_joints_is_refused_before_its_matrices_are_made(tmp_path: Path) -> None:
    """20,000 joints, in a file of 5 MB, took 20 GB."""
    count = 20_000
    inside = "".join(f'<link name="l{n}"/>' for n in range(count + 1)) + "".join(
        f'<joint name="j{n}" type="revolute"><parent link="l0"/><child link="l{n + 1}"/></joint>'
        for n in range(count)
    )
    with pytest.raises(ModelError, match=r"r\.urdf: its joints have 20,000 velocities"):
        mb.from_urdf(write(tmp_path / "r.urdf", inside))
    bodies = '<body><joint/><geom size="0.1"/></body>' * (files.MOST_VELOCITIES - 5)
    robot = f'<body><freejoint/><geom size="0.1"/>{bodies}</body>'
    (tmp_path / "r.xml").write_text(f"<mujoco><worldbody>{robot}</worldbody></mujoco>")
    with pytest.raises(ModelError, match=r"r\.xml: its joints have 1,001 velocities, and a robot may have"):
        mb.from_mjcf(tmp_path / "r.xml")


def test_a_scene_may_have_more_velocities_than_a_robot_unless_its_robots_are_tied(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_VELOCITIES", 2)
    monkeypatch.setattr(files, "MOST_OF_ALL", 4)
    tie = '<equality><joint joint1="j0" joint2="j1"/></equality>'

    def scene(count, rest=""):
        bodies = "".join(f'<body><joint name="j{k}"/><geom size="0.1"/></body>' for k in range(count))
        (tmp_path / "r.xml").write_text(f"<mujoco><worldbody>{bodies}</worldbody>{rest}</mujoco>")
        return mb.from_mjcf(tmp_path / "r.xml")

    assert scene(4).nv == 4
    with pytest.raises(ModelError, match="5 velocities, and a file may have 4"):
        scene(5)
    with pytest.raises(ModelError, match="3 velocities, and a robot may have 2"):
        scene(3, tie)


def test_the_page_states_the_limits() -> None:
    page = (Path(__file__).parents[2] / "docs" / "robots.md").read_text()
    trial = f"{limited.MEMORY // 2**30} GiB, {limited.SECONDS} s"
    copies = f"{mjcf_limits.UNTRIED_ELEMENTS:,}, or {mjcf_limits.UNTRIED_COPIES} copies"
    for row in (
        f"| a file | {xml.MOST_BYTES // 10**6} MB; meshes",
        f"| elements | {xml.MOST_ELEMENTS:,} |",
        f"of all joints | {files.MOST_VELOCITIES:,} of one robot, {files.MOST_OF_ALL:,} of a scene",
        f"| elements inside of each other | {xml.MOST_DEPTH} |",
        f"| the name of an element or attribute | {xml.MOST_NAME:,} characters |",
        f"| an attribute that is not a list of numbers | {xml.MOST_VALUE:,} characters |",
        f"| a file and those that it includes | {xml.MOST_BYTES // 10**6} MB |",
        f"| elements inside of each other | {mjcf_limits.MOST_DEPTH} |",
        f"`<attach>` counted | {xml.MOST_ELEMENTS:,} | {copies} |",
        f"user data | {mjcf_limits.MOST_NUMBERS:,} | {mjcf_limits.UNTRIED_NUMBERS:,} |",
        f"named | {MOST_ASSETS // 10**6} MB | {mjcf_limits.UNTRIED_ASSETS // 10**6} MB |",
        f"| the trial | {trial} |",
    ):
        assert row in page, row


#: A chain of two joints whose last link is fixed to the one before.
CHAIN = """<robot name="r">
  <link name="base"/>
  <link name="a"><inertial><origin xyz="{center} 0 0"/><mass value="{mass_a}"/>{inertia}</inertial></link>
  <link name="b"><inertial><mass value="{mass_b}"/>{inertia}</inertial></link>
  <link name="tip"><inertial><mass value="{mass_tip}"/>{inertia}</inertial></link>
  <joint name="j" type="continuous"><parent link="base"/><child link="a"/><axis xyz="0 1 0"/></joint>
  <joint name="k" type="continuous"><origin xyz="{place} 0 0"/><parent link="a"/><child link="b"/></joint>
  <joint name="f" type="fixed"><origin xyz="{tip} 0 0"/><parent link="b"/><child link="tip"/></joint>
  <link name="ground"/><link name="mark"/>
  <joint name="g" type="fixed"><origin xyz="{tip} 0 0"/><parent link="base"/><child link="ground"/></joint>
  <joint name="h" type="fixed"><origin xyz="{tip} 0 0"/><parent link="ground"/><child link="mark"/></joint>
</robot>"""
OF_ONE = {"center": 1, "mass_a": 1, "mass_b": 1, "mass_tip": 1, "place": 1, "tip": 1, "moment": 1}


def chain(**numbers: object) -> str:
    moment = (OF_ONE | numbers)["moment"]
    moments = " ".join(f'i{axis}="{moment}"' for axis in ("xx", "yy", "zz"))
    inertia = f'<inertia {moments} ixy="0" ixz="0" iyz="0"/>'
    return CHAIN.format(**OF_ONE | numbers, inertia=inertia)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("numbers", "culprit"),
    [
        ({"mass_a": "1e308", "mass_b": "1e308", "center": 0}, "body 'a'"),
        ({"mass_a": "1e308"}, "link 'a'"),
        ({"mass_b": "1e308", "mass_tip": "1e308"}, "link 'tip'"),
        ({"center": "1e200"}, "body 'a'"),
        ({"moment": "1e308"}, "body 'a'"),
        ({"tip": "1e200"}, "link 'tip'"),
        ({"tip": "1e308", "mass_b": 0, "mass_tip": 0}, "joint 'h'"),
    ],
    ids=["masses", "mass and lever", "masses of a body", "lever", "moment", "lever of a link", "positions"],
)
def test_finite_numbers_that_overflow_together_name_the_culprit(
    numbers: dict[str, object], culprit: str, tmp_path: Path
) -> None:
    path = tmp_path / "robot.urdf"
    path.write_text(chain())
    mb.from_urdf(path)
    path.write_text(chain(**numbers))
    with pytest.raises(ModelError, match=f"robot.urdf: {culprit}.*overflow"):
        mb.from_urdf(path)


@pytest.mark.filterwarnings("error")
def test_numbers_that_overflow_in_a_function_only_are_said_by_it(tmp_path: Path) -> None:
    model = mb.from_urdf(chain(mass_a="2e307", mass_b="2e307"))
    with pytest.raises(NonFiniteError, match="gravity is not finite"):
        mb.gravity(model, [0.3, 0.3])
    with pytest.raises(ModelError, match="gravity: the robot's numbers are too large"):
        mb.codegen.generate_c(model, ["gravity"], tmp_path / "c")
    with pytest.raises(ModelError, match="body 'a'.*overflow"):
        model.with_inertial_parameters(np.array([[1e308] + [0.0] * 9] * 2))
