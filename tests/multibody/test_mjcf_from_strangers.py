"""MJCF files that are made to exhaust MuJoCo: small texts that stand for much, and files that never end."""

import os
import resource
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from connections import multibody as mb
from connections.checks import ModelError
from connections.multibody.description import limited, mjcf_limits, xml
from connections.multibody.description.files import MOST_ASSETS

ARM = '<body name="b"><joint name="j"/><geom size="0.1"/></body>'
COPIES = "more than 100,000 elements, copies and included files counted"
NUMBERS = "its elements ask for more than 50,000,000 numbers"


def text(world: str = "", asset: str = "", more: str = "", settings: str = "") -> str:
    return f"<mujoco>{settings}<asset>{asset}</asset><worldbody>{ARM}{world}</worldbody>{more}</mujoco>"


def replicated(count: int, times: int = 1, inside: str = '<geom size="0.1"/>') -> str:
    opened = "".join(f'<replicate count="{count}" sep="{number}">' for number in range(times))
    return opened + inside + "</replicate>" * times


FLAT = 'name="t" type="2d" builtin="flat"'
LARGE = {
    "copies": (text(replicated(10**8)), COPIES),
    "copies in a namespace": (
        text(replicated(10**8).replace("<replicate", '<replicate xmlns="u"')),
        COPIES,
    ),
    "copies of copies": (text(replicated(10, 9)), COPIES),
    "copies of nothing": (text(replicated(1000, 4, "")), COPIES),
    "many elements": (text('<geom size="0.1"/>' * 10**5), "more than 100,000 elements"),
    "deep": (text("<frame>" * 10**5 + "</frame>" * 10**5), "elements are more than 500 deep"),
    "a height field": (text(asset='<hfield name="h" nrow="100000" ncol="100000" size="1 1 1 1"/>'), NUMBERS),
    "a texture": (
        text(asset='<texture name="t" type="2d" builtin="flat" width="9999" height="9999"/>'),
        NUMBERS,
    ),
    "a texture by default": (
        text(
            asset=f"<texture {FLAT}/>",
            settings='<default><texture width="9999" height="9999"/></default>',
        ),
        NUMBERS,
    ),
    "many textures": (text(asset=f'<texture {FLAT} width="1000" height="1000"/>' * 60), NUMBERS),
    "numbers": (text(more='<custom><numeric name="n" size="2000000000"/></custom>'), NUMBERS),
    "user data": (text(settings='<size nuserdata="2000000000"/>'), NUMBERS),
    "user data of bodies": (text(settings='<size nuser_body="1000000000"/>'), NUMBERS),
    "keys": (text(settings='<size nkey="100000000"/>'), NUMBERS),
    "constraints": (text(settings='<size njmax="2000000000"/>'), NUMBERS),
    "a sensor": (text(more='<sensor><user dim="2000000000"/></sensor>'), NUMBERS),
    "a sensor of contacts": (text(more='<sensor><contact num="1000000000"/></sensor>'), NUMBERS),
    "samples": (
        text(more='<actuator><motor joint="j" delay="1" nsample="1000000000"/></actuator>'),
        NUMBERS,
    ),
    "activations": (
        text(more='<actuator><general joint="j" dyntype="user" actdim="1000000000"/></actuator>'),
        NUMBERS,
    ),
    "pixels": (
        text(
            '<camera name="c" resolution="100000 100000"/>',
            more='<sensor><rangefinder camera="c"/></sensor>',
        ),
        NUMBERS,
    ),
    "a soft grid": (
        text('<flexcomp name="f" type="grid" dim="3" count="1000 1000 1000" spacing="1 1 1" mass="1"/>'),
        NUMBERS,
    ),
}
GRIDS = [("cone", 10**8), ("supersphere", 10**5), ("supertorus", 10**5), ("wedge", 10**5), ("plate", 10**5)]
for kind, size in GRIDS:
    LARGE[f"a builtin {kind}"] = (text(asset=f'<mesh builtin="{kind}" params="{size} 1 1 1"/>'), NUMBERS)


@pytest.mark.parametrize("case", LARGE)
def test_what_a_text_asks_for_is_counted_before_it_is_made(
    tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        mjcf_limits, "_try", lambda path, recoded: pytest.fail("it is counted without a trial")
    )
    written, reason = LARGE[case]
    path = tmp_path / "r.xml"
    path.write_text(written)
    with pytest.raises(ModelError) as caught:
        mb.from_mjcf(path)
    assert str(caught.value).startswith(f"{path}: ") and reason in str(caught.value)


@pytest.mark.further
def test_ordinary_sizes_are_compiled_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: what robots have in their files, in one file; a process for a trial would take 0.3 s."""
    monkeypatch.setattr(mjcf_limits, "_try", lambda path, recoded: pytest.fail("no trial is needed"))
    path = tmp_path / "r.xml"
    path.write_text(
        text(
            replicated(20) + '<camera name="c" resolution="1920 1080"/>' + '<geom size="0.1"/>' * 300,
            asset='<texture name="sky" type="skybox" builtin="gradient" width="512" height="3072"/>'
            '<texture name="t" type="2d" builtin="checker" width="300" height="300"/>'
            '<hfield name="h" nrow="100" ncol="100" size="1 1 1 1"/>',
            more='<sensor><jointpos joint="j"/><user dim="3"/></sensor>'
            '<keyframe><key qpos="0.1"/></keyframe><custom><numeric name="n" size="5"/></custom>',
            settings='<size memory="10M" nuserdata="10" nuser_geom="2"/>',
        )
    )
    assert mb.from_mjcf(path).nv == 1


def test_a_chain_of_two_hundred_bodies_is_read(tmp_path: Path) -> None:
    path = tmp_path / "r.xml"
    one = '<body><joint/><geom size="0.1"/>'
    path.write_text(text(one * 200 + "</body>" * 200))
    assert mb.from_mjcf(path).nv == 201


# --- files that a file names -------------------------------------------------------------------------------


def test_included_files_count(tmp_path: Path) -> None:
    part = '<mujocoinclude><!--{}--><body name="{}"/></mujocoinclude>'
    for number in range(3):
        (tmp_path / f"{number}.xml").write_text(part.format("x" * (xml.MOST_BYTES // 3), number))
    path = tmp_path / "r.xml"
    path.write_text(text(*["".join(f'<include file="{number}.xml"/>' for number in range(2))]))
    assert mb.from_mjcf(path).nv == 1
    path.write_text(text(*["".join(f'<include file="{number}.xml"/>' for number in range(3))]))
    with pytest.raises(ModelError, match=r"r\.xml: <include file='\d\.xml'>: larger than 10 MB"):
        mb.from_mjcf(path)
    (tmp_path / "0.xml").write_text(f"<mujocoinclude>{replicated(10**8)}</mujocoinclude>")
    path.write_text(text('<include file="0.xml"/>'))
    with pytest.raises(ModelError, match=f"<include file='0.xml'>: {COPIES}"):
        mb.from_mjcf(path)
    (tmp_path / "0.xml").write_text("<mujocoinclude>" + '<geom size="0.1"/>' * 1000 + "</mujocoinclude>")
    path.write_text(text('<replicate count="1000"><include file="0.xml"/></replicate>'))
    with pytest.raises(ModelError, match=COPIES):
        mb.from_mjcf(path)


NAMED = {
    "an include": '<include file="{}"/>',
    "a mesh": '<asset><mesh name="m" file="{}"/></asset>',
    "a texture": '<asset><texture name="t" type="cube" fileup="{}"/></asset>',
    "a height field": '<asset><hfield name="h" size="1 1 1 1" file="{}"/></asset>',
    "a skin": '<asset><skin name="s" file="{}"/></asset>',
    "a model": '<asset><model name="m" file="{}"/></asset>',
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("what", NAMED)
def test_a_pipe_is_not_waited_for(tmp_path: Path, what: str) -> None:
    (tmp_path / "meshes").mkdir()
    for folder in (tmp_path, tmp_path / "meshes"):
        os.mkfifo(folder / "pipe.stl")
    path = tmp_path / "r.xml"
    for settings, name in (
        ("", "pipe.stl"),
        ("", str(tmp_path / "pipe.stl")),
        ('<compiler meshdir="meshes" texturedir="meshes" assetdir="meshes"/>', "pipe.stl"),
        ("", "/dev/zero"),
        ("", ".\\pipe.stl"),
        ("", "none/../pipe.stl"),
        ("", "\\dev\\.\\zero"),
        ('<compiler meshdir="none\\..\\meshes" texturedir="none/../meshes"/>', "none/..\\pipe.stl"),
    ):
        path.write_text(text(settings=settings + NAMED[what].format(name)))
        with pytest.raises(ModelError, match="not a regular file, but a"):
            mb.from_mjcf(path)


def test_a_path_is_that_which_mujoco_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("..\\a", "b/./../a", "./a", "b\\c/../..\\a", "b/../../a"):
        reduced = tmp_path / "c" / mjcf_limits._reduced(name)
        reduced.parent.mkdir(exist_ok=True, parents=True)
        reduced.write_text('<mujocoinclude><body name="i"/></mujocoinclude>')
        path = tmp_path / "c" / "r.xml"
        path.write_text(text(f'<include file="{name}"/>'))
        assert "i" in [body.name for body in pytest.importorskip("mujoco").MjSpec.from_file(str(path)).bodies]
        reduced.unlink()
    tried: list[Path] = []
    monkeypatch.setattr(mjcf_limits, "_try", lambda path, recoded: tried.append(path))
    (tmp_path / "a").mkdir()
    for name in ("none.xml", "c:none.xml", "a//../none.xml"):  # what is not found here may be found by MuJoCo
        path.write_text(text(f'<include file="{name}"/>'))
        with pytest.raises(ModelError, match="MuJoCo refuses it"):
            mb.from_mjcf(path)
    assert tried == [path] * 3


def test_the_bytes_of_assets_count_as_often_as_they_are_named(tmp_path: Path) -> None:
    with (tmp_path / "m.stl").open("wb") as file:
        file.truncate(MOST_ASSETS // 10)
    meshes = "".join(f'<mesh name="{number}" file="m.stl"/>' for number in range(11))
    (tmp_path / "r.xml").write_text(text(asset=meshes))
    with pytest.raises(ModelError, match="its meshes and pictures have more than 250 MB"):
        mb.from_mjcf(tmp_path / "r.xml")


def test_a_picture_says_how_many_pixels_it_has(tmp_path: Path) -> None:
    """A file of 30 kB, of which MuJoCo makes 3.6 GB."""
    size = struct.pack(">IIBBBBB", 30000, 30000, 8, 6, 0, 0, 0)
    chunk = struct.pack(">I", len(size)) + b"IHDR" + size + struct.pack(">I", zlib.crc32(b"IHDR" + size))
    (tmp_path / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk)
    for asset in (
        '<texture name="t" type="2d" file="p.png"/>',
        '<hfield name="h" file="p.png" size="1 1 1 1"/>',
    ):
        (tmp_path / "r.xml").write_text(text(asset=asset))
        with pytest.raises(ModelError, match=NUMBERS):
            mb.from_mjcf(tmp_path / "r.xml")


def test_a_model_that_is_attached_to_itself(tmp_path: Path) -> None:
    """It ended the process."""
    own = tmp_path / "r.xml"
    attach = '<attach model="m" prefix="p"/>'
    own.write_text(text(attach, asset='<model name="m" file="r.xml"/>'))
    with pytest.raises(ModelError, match="a model is attached to itself"):
        mb.from_mjcf(own)
    for number in range(20):  # each has the next one twice
        both = attach + attach.replace('prefix="p"', 'prefix="q"')
        next_one = f'<model name="m" file="{number + 1}.xml"/>'
        (tmp_path / f"{number}.xml").write_text(text(both, asset=next_one))
    (tmp_path / "20.xml").write_text(text())
    with pytest.raises(ModelError, match=COPIES):
        mb.from_mjcf(tmp_path / "0.xml")


def test_a_name_that_is_too_long_for_a_file(tmp_path: Path) -> None:
    for element in NAMED.values():
        (tmp_path / "r.xml").write_text(text(settings=element.format("n" * 5000)))
        with pytest.raises(ModelError, match="MuJoCo refuses it"):
            mb.from_mjcf(tmp_path / "r.xml")


# --- the trial ---------------------------------------------------------------------------------------------


@pytest.mark.further
def test_a_large_description_is_tried_and_read(tmp_path: Path) -> None:
    (tmp_path / "r.xml").write_text(text('<geom size="0.1"/>' * (mjcf_limits.UNTRIED_ELEMENTS + 1)))
    assert mb.from_mjcf(tmp_path / "r.xml").nv == 1


def test_the_trial_ends_what_takes_too_long_or_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.xml"
    path.write_text(text(replicated(20_000)))  # 8 s
    monkeypatch.setattr(limited, "SECONDS", 1)
    before = resource.getrusage(
        resource.RUSAGE_SELF
    ).ru_maxrss  # kB; other tests may have taken more than this
    with pytest.raises(ModelError, match="MuJoCo does not compile it in 60 s and with 4 GiB of memory"):
        mb.from_mjcf(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 2**20


def test_what_the_trial_refuses_is_not_compiled_without_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mujoco

    monkeypatch.setattr(mujoco, "MjModel", None)
    monkeypatch.setattr(limited, "MEMORY", 7 * 10**8)
    bodies = replicated(1000, inside='<body><joint/><geom size="0.1"/></body>')
    (tmp_path / "r.xml").write_text(text(bodies, settings='<size memory="2G"/>'))
    with pytest.raises(ModelError, match=r"MuJoCo (refuses it: .*allocate|does not compile it)"):
        mb.from_mjcf(tmp_path / "r.xml")
    (tmp_path / "r.xml").write_text(text(bodies, more="<nonsense/>"))
    with pytest.raises(ModelError, match="MuJoCo refuses it: XML Error: Schema violation"):
        mb.from_mjcf(tmp_path / "r.xml")


def test_the_trial_runs_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "mark"
    for name in ("mujoco", "resource", "numpy"):
        (tmp_path / f"{name}.py").write_text(f"open({str(mark)!r}, 'w')\n")
    (tmp_path / "r.xml").write_text(text(replicated(mjcf_limits.UNTRIED_COPIES + 1)))
    monkeypatch.chdir(tmp_path)
    assert mb.from_mjcf("r.xml").nv == 1 and not mark.exists()
    subprocess.run([sys.executable, "-c", "import mujoco"], cwd=tmp_path, check=True)
    assert mark.exists()  # the control


@pytest.mark.parametrize("error", [RuntimeError("Caught an unknown exception!"), MemoryError()])
def test_an_unknown_exception_is_said_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    import mujoco

    def refuse(path: bytes, files: dict[bytes, bytes]) -> None:
        raise error

    class Model:
        from_xml_path = staticmethod(refuse)

    monkeypatch.setattr(mujoco, "MjModel", Model)
    (tmp_path / "r.xml").write_text(text())
    with pytest.raises(ModelError, match=r"r\.xml: MuJoCo cannot compile it; most likely .* too much memory"):
        mb.from_mjcf(tmp_path / "r.xml")
