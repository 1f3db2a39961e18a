"""What takes too long ends with an error: large files, choices of joints, searches for postures."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connections import multibody as mb
from connections.checks import ModelError
from connections.multibody.assembly import assembly
from connections.multibody.assembly.independence import IndependentChoice
from connections.multibody.description import xml

INERTIA = np.eye(3) / 100
URDF = (
    '<link name="a"/><link name="NAME"><inertial><mass value="1"/>'
    '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    '<joint name="j" type="revolute"><parent link="a"/><child link="NAME"/><axis xyz="0 0 1"/></joint>'
)
MJCF = (
    '<worldbody><body name="NAME"><joint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body>'
    "</worldbody>"
)
FORMS = {mb.from_urdf: ("robot", URDF), mb.from_mjcf: ("mujoco", MJCF)}
each_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)


def write(path: Path, form, name: str = "b", before: str = "", encoding: str = "utf-8") -> Path:
    root, body = FORMS[form]
    head = f'<?xml version="1.0" encoding="{encoding}"?>'
    path.write_text(f"{head}<{root}>{before}{body.replace('NAME', name)}</{root}>")
    return path


# --- files -----------------------------------------------------------------------------------------------


@each_form
@pytest.mark.parametrize("token", ["a comment", "a name"])
def test_a_file_that_is_too_large_is_refused_unread(tmp_path: Path, form, token: str) -> None:
    much = "x" * xml.MOST_BYTES
    options = {"name": much} if token == "a name" else {"before": f"<!--{much}-->"}
    path = write(tmp_path / "large.xml", form, **options)
    with pytest.raises(ModelError, match=r"large\.xml: larger than 10 MB, the most that is read"):
        form(path)


@each_form
def test_a_long_comment_and_a_long_name_are_read(tmp_path: Path, form) -> None:
    path = write(tmp_path / "long.xml", form, "b" * xml.MOST_VALUE, "<!--" + 10**6 * "c" + "-->")
    assert len(max(form(path).body_names, key=len)) == xml.MOST_VALUE


@each_form
@pytest.mark.parametrize(
    "encoding", ["shift_jis", "utf-7", "idna", "punycode", "undefined", "rot13", "nonsense"]
)
def test_an_encoding_that_cannot_be_read_names_the_file(tmp_path: Path, form, encoding: str) -> None:
    with pytest.raises(ModelError, match=r"strange\.xml: malformed XML"):
        form(write(tmp_path / "strange.xml", form, encoding=encoding))
    assert form(write(tmp_path / "strange.xml", form, encoding="latin-1")).nv == 1  # the control


# --- independent joints ----------------------------------------------------------------------------------


def free_choice(K: np.ndarray, widths: list[int], rank: int) -> IndependentChoice:
    """The choice among joints of these numbers of velocities, without motors."""
    joints, none = np.repeat(np.arange(len(widths)), widths), np.zeros(len(widths), dtype=bool)
    columns = np.ones(len(joints))
    return IndependentChoice(K, joints, np.full(len(widths), -1), rank, (), columns, columns == 0.0, none)


@given(st.lists(st.sampled_from([1, 1, 2, 3, 6]), min_size=1, max_size=8), st.integers(0, 12))
def test_the_choices_are_those_of_all_combinations(widths: list[int], rank: int) -> None:
    """Sets of joints of several velocities to be dependent, which joints of one velocity can fill up."""
    choice = free_choice(np.zeros((rank, sum(widths))), widths, rank)
    wide, single = [j for j, width in enumerate(widths) if width > 1], widths.count(1)
    expected = [
        subset
        for count in range(len(wide) + 1)
        for subset in combinations(wide, count)
        if 0 <= rank - sum(widths[joint] for joint in subset) <= single
    ]
    found = list(choice._wide_sets())
    assert sorted(tuple(sorted(subset)) for subset in found) == sorted(expected)
    dependent = [len(subset) + rank - sum(widths[joint] for joint in subset) for subset in found]
    assert dependent == sorted(dependent, reverse=True)  # few independent joints first


def test_the_choices_have_a_limit() -> None:
    """Fifteen joints of three velocities, of which two do the same: none can be dependent as a whole."""
    K = np.kron(np.eye(15), np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    choice = free_choice(K, [3] * 15, 30)
    assert choice.limited and choice.independent() is None
    assert not free_choice(K[:4, :6], [3, 3], 4).limited


def ring(joints: int, span: float = 0.05) -> mb.Mechanism:
    """A chain whose end is held at a point; the trees of 2^joints sets of its joints were all visited."""
    mechanism, parent, link = mb.Mechanism(), "world", np.eye(4)
    link[0, 3] = 0.1
    for number in range(joints):
        mechanism.add_body(f"b{number}", 1.0, (0.05, 0.02, 0.01), INERTIA)
        axis = np.roll((1.0, 0.0, 0.0), number)
        mechanism.add_joint(f"j{number}", parent, f"b{number}", mb.Revolute(axis), link if number else None)
        parent = f"b{number}"
    held = np.eye(4)
    held[0, 3] = span * joints
    mechanism.add_loop("ring", "world", parent, mb.Coincident(), held, link)
    return mechanism


def test_a_long_ring_is_assembled() -> None:
    assert ring(60).build().nv == 57


def ladder(count: int, independent: bool) -> mb.Mechanism:
    """Parallelograms whose cranks are coupled: the first sets of joints do not determine the others."""
    mechanism, up, across, turn = mb.Mechanism(), np.eye(4), np.eye(4), mb.Revolute((0.0, 0.0, 1.0))
    up[1, 3], across[0, 3] = 0.5, 1.0
    for number in range(count):
        left, right = np.eye(4), np.eye(4)
        left[0, 3], right[0, 3] = 2.0 * number, 2.0 * number + 1.0
        for name, parent, placement in (("a", "world", left), ("b", f"a{number}", up), ("c", "world", right)):
            mechanism.add_body(f"{name}{number}", 1.0, (0.1, 0.1, 0.0), INERTIA)
            mechanism.add_joint(f"{name}{number}", parent, f"{name}{number}", turn, placement)
        own = {"independent": [f"a{number}"] if number else []} if independent else {}
        mechanism.add_loop(f"loop{number}", f"b{number}", f"c{number}", turn, across, up, **own)
    mechanism.add_coupling("all", {f"a{number}": 1.0 for number in range(count)})
    return mechanism


def test_coupled_loops_need_no_declaration() -> None:
    """All sets of joints were tried, and of eight loops the first two thousand determine nothing."""
    assert ladder(8, independent=True).build().nv == 7
    model = ladder(8, independent=False).build()
    assert model.joint_names == tuple(f"a{number}" for number in range(7))


# --- postures --------------------------------------------------------------------------------------------


def test_the_search_for_a_posture_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ModelError, match=r"from any of 24 configurations.* reference=\{joint: configuration\}"
    ):
        ring(6, span=0.3).build()
    monkeypatch.setattr(assembly, "_SECONDS", -1.0)
    with pytest.raises(ModelError, match="from any of 1 configurations"):
        ring(6).build()
    bent = {f"j{number}": 0.5 for number in range(6)}
    assert ring(6).build(reference=bent).nv == 3  # what the error says to give


# --- what is legitimate ----------------------------------------------------------------------------------


def test_a_function_is_traced_for_the_assembly_not_called_at_every_step() -> None:
    """A polynomial coupling of MJCF is such a function: 25 s, where it was called at every step."""
    calls = []

    def residual(q_1, q_2):
        calls.append(1)
        return q_1 - 0.1 - q_2 - 0.2 * q_2**2 - 0.05 * q_2**4

    mechanism = mb.Mechanism()
    for name, parent in (("b0", "world"), ("b1", "b0")):
        mechanism.add_body(name, 1.0, (0.05, 0.02, 0.01), INERTIA)
        mechanism.add_joint(f"j{name[1]}", parent, name, mb.Revolute((0.0, 0.0, 1.0)))
    mechanism.add_coupling("cam", ("j1", "j0"), function=residual)
    assert mechanism.build().nv == 1
    assert len(calls) <= 12
