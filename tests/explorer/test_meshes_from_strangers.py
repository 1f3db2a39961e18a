"""Meshes that are made to exhaust who draws them: none harms the others, and each is named."""

import json
import os
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

from connections import multibody as mb
from connections.explorer import link_meshes
from connections.explorer.link_meshes import surfaces
from connections.multibody.description import limited
from connections.multibody.description.files import MOST_ASSETS

ROBOT = """<robot name="r"><link name="a"/><link name="b"><inertial><mass value="1"/>
<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>{}</link>
<joint name="j" type="revolute"><parent link="a"/><child link="b"/></joint></robot>"""
MESH = '<visual><geometry><mesh filename="{}"/></geometry></visual>'
TRIANGLE = "v 0 0 0\nv 1 0 0\nv 0 1 0\n"
HEAD = (
    '<?xml version="1.0"?>{}<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">'
    '<asset><unit name="meter" meter="1"/><up_axis>Z_UP</up_axis></asset><library_geometries>'
    '<geometry id="g"><mesh><source id="p"><float_array id="pa" count="9">{}</float_array>'
    '<technique_common><accessor source="#pa" count="3" stride="3"><param name="X" type="float"/>'
    '<param name="Y" type="float"/><param name="Z" type="float"/></accessor></technique_common></source>'
    '<vertices id="v"><input semantic="POSITION" source="#p"/></vertices><triangles count="1">'
    '<input semantic="VERTEX" source="#v" offset="0"/><p>0 1 2</p></triangles></mesh></geometry>'
    "</library_geometries>{}"
    '<library_visual_scenes><visual_scene id="s"><node>{}</node></visual_scene></library_visual_scenes>'
    '<scene><instance_visual_scene url="#s"/></scene></COLLADA>'
)
PLAIN, ONE = "0 0 0 1 0 0 0 1 0", '<instance_geometry url="#g"/>'


def collada(doctype: str = "", numbers: str = PLAIN, nodes: str = "", scene: str = ONE) -> str:
    return HEAD.format(doctype, numbers, nodes, scene)


def doubling(levels: int) -> str:
    """Nodes that each have the one before twice: 2^levels triangles."""
    text = f'<node id="n0">{ONE}</node>'
    for level in range(levels):
        text += f'<node id="n{level + 1}">' + f'<instance_node url="#n{level}"/>' * 2 + "</node>"
    return f"<library_nodes>{text}</library_nodes>"


def stl(count: int, triangles: int) -> bytes:
    one = struct.pack("<12fH", 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0)
    return bytes(80) + struct.pack("<I", count) + one * triangles


def gltf(**changes: object) -> str:
    positions = {"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}
    return json.dumps(
        {
            "asset": {"version": "2.0"},
            "scene": 0,
            "scenes": [{"nodes": [0]}],
            "nodes": [{"mesh": 0}],
            "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
            "accessors": [positions | changes.pop("accessor", {})],
            "bufferViews": [{"buffer": 0, "byteOffset": 0, "byteLength": 36}],
            "buffers": [{"byteLength": 36, "uri": "pipe.bin"}],
        }
        | changes
    )


def picture(side: int) -> bytes:
    """A PNG of side x side pixels, all zero."""
    rows = zlib.compress(bytes(side * (4 * side + 1)), 9)
    size = struct.pack(">IIBBBBB", side, side, 8, 6, 0, 0, 0)
    parts = [(b"IHDR", size), (b"IDAT", rows), (b"IEND", b"")]
    chunks = [struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d)) for t, d in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


PLY = "ply\nformat {} 1.0\nelement vertex {}\nproperty float x\nproperty float y\nproperty float z\n"
#: Files, and what is said about each; an empty text if it is drawn, without what it names.
HOSTILE: dict[str, tuple[str | bytes, str]] = {
    "lie.stl": (stl(2**32 - 1, 1), "lie.stl: no triangles"),
    "large.ply": (PLY.format("binary_little_endian", 2 * 10**9) + "end_header\n", "large.ply: PLY"),
    "large.off": ("OFF\n2000000000 2000000000 0\n0 0 0\n", "large.off: cannot reshape"),
    "entities.dae": (
        collada('<!DOCTYPE c [<!ENTITY a SYSTEM "pipe.bin">]>', "&a;"),
        "entities.dae: DaeMalformedError",
    ),
    "laughs.dae": (
        collada(
            '<!DOCTYPE c [<!ENTITY a "1 1 1 1 1 1 1 1 1 1 ">'
            + "".join(f'<!ENTITY {y} "{f"&{x};" * 10}">' for x, y in zip("abcdef", "bcdefz", strict=True))
            + "]>",
            "&z;",
        ),
        "laughs.dae: DaeMalformedError",
    ),
    "deep.dae": (collada(scene="<node>" * 10**4 + "</node>" * 10**4), "deep.dae: DaeMalformedError"),
    "many.obj": (
        TRIANGLE + "f " + "1 2 3 " * (link_meshes.MOST_TRIANGLES // 3 + 2),
        "many.obj: it has too many triangles",
    ),
    "pipe.gltf": (gltf(), "pipe.gltf: not a regular file"),
    "elsewhere.gltf": (
        gltf(buffers=[{"byteLength": 36, "uri": "../secret.bin"}]),
        "elsewhere.gltf: it names a file outside of its folder",
    ),
    "device.gltf": (
        gltf(buffers=[{"byteLength": 36, "uri": "/dev/zero"}]),
        "device.gltf: it names a file out",
    ),
    "packed.zip": (b"PK", "packed.zip: expected a mesh of one of the formats .stl, .dae"),
    "pipe.stl": ("", "there is no file pipe.stl"),
    "link.stl": ("", "there is no file link.stl"),
    "materials.obj": (f"mtllib pipe.mtl\n{TRIANGLE}usemtl a\nf 1 2 3\n", ""),
    "picture.obj": (f"mtllib picture.mtl\n{TRIANGLE}vt 0 0\nusemtl a\nf 1/1 2/1 3/1\n", ""),
    "pixels.obj": (f"mtllib pixels.mtl\n{TRIANGLE}vt 0 0\nusemtl a\nf 1/1 2/1 3/1\n", ""),
    "right.dae": (collada(), ""),
    "right.stl": (stl(1, 1), ""),
}


def written(folder: Path, *names: str) -> tuple[mb.Model, Path]:
    file = folder / "r.urdf"
    file.write_text(ROBOT.format("".join(MESH.format(name) for name in names)))
    return mb.from_urdf(file), file


@pytest.fixture
def meshes(tmp_path: Path) -> Path:
    """A folder with all files of `HOSTILE`, and what they name."""
    folder = tmp_path / "robot"
    folder.mkdir()
    for name, (content, _) in HOSTILE.items():
        if content:
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    for name in ("pipe.stl", "pipe.mtl", "pipe.png", "pipe.bin"):
        os.mkfifo(folder / name)
    (folder / "link.stl").symlink_to("/dev/zero")
    (folder / "picture.mtl").write_text("newmtl a\nmap_Kd pipe.png\n")
    (folder / "pixels.mtl").write_text("newmtl a\nmap_Kd pixels.png\n")
    (folder / "pixels.png").write_bytes(picture(6000))
    (tmp_path / "secret.bin").write_bytes(struct.pack("<9f", 0, 0, 0, 1, 0, 0, 0, 1, 0))
    return folder


@pytest.mark.timeout(60)
def test_each_is_named_and_the_others_are_drawn(
    meshes: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    """All in one process with limits."""
    monkeypatch.setattr(link_meshes, "_NAMED", len(HOSTILE))
    found, said = surfaces(*written(meshes, *HOSTILE))
    reasons = [reason for _, reason in HOSTILE.values() if reason]
    assert said.startswith(f"Not drawn: {len(reasons)} of the {len(HOSTILE)} visuals in r.urdf (")
    assert [reason for reason in reasons if reason not in said] == []
    assert len(found) == len(HOSTILE) - len(reasons)
    assert all(np.isfinite(each.vertices).all() and len(each.faces) == 1 for each in found)
    assert capfd.readouterr() == ("", "")


def test_what_needs_too_much_does_not_take_those_before_it(
    meshes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A COLLADA file of 3 kB with 2^24 triangles."""
    (meshes / "doubled.dae").write_text(collada(nodes=doubling(24), scene='<instance_node url="#n24"/>'))
    (meshes / "four.dae").write_text(collada(nodes=doubling(2), scene='<instance_node url="#n2"/>'))
    monkeypatch.setattr(limited, "SECONDS", 2)
    found, said = surfaces(*written(meshes, "right.stl", "four.dae", "doubled.dae"))
    assert len(found) == 5 and "doubled.dae: the meshes need more than 60 s or 4 GiB of memory" in said


@pytest.mark.parametrize("bytes_less", [5, 12, 30])
def test_a_reader_that_was_stopped_while_it_wrote(
    meshes: Path, monkeypatch: pytest.MonkeyPatch, bytes_less: int
) -> None:
    """Twelve bytes are a triangle, which nobody would miss."""

    def stopped(*given: Any) -> Any:
        done = limited.run_limited(*given)
        done.stdout = done.stdout[:-bytes_less]
        return done

    monkeypatch.setattr(link_meshes, "run_limited", stopped)
    found, said = surfaces(*written(meshes, "right.stl", "right.dae"))
    assert len(found) == 1 and "right.dae: the meshes need more than" in said


def test_the_bytes_and_triangles_of_a_robot_count(meshes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (meshes / "sparse.stl").open("wb") as file:
        file.truncate(MOST_ASSETS + 1)
    found, said = surfaces(*written(meshes, "right.stl", "sparse.stl"))
    assert len(found) == 1 and "sparse.stl: the meshes of the robot are too large" in said
    monkeypatch.setattr(link_meshes, "MOST_TRIANGLES", 10)
    found, said = surfaces(*written(meshes, *["right.stl"] * 12))  # the file is read once
    assert len(found) == 10 and "right.stl: more than 10 triangles" in said
    ball = '<visual><geometry><sphere radius="1"/></geometry></visual>'
    (meshes / "r.urdf").write_text(ROBOT.format(ball))
    assert "more than 10 triangles" in surfaces(mb.from_urdf(meshes / "r.urdf"), meshes / "r.urdf")[1]


def test_the_reader_runs_nothing_from_the_current_folder(
    meshes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = meshes / "mark"
    for name in ("trimesh", "numpy", "collada", "json"):
        (meshes / f"{name}.py").write_text(f"open({str(mark)!r}, 'w')\n")
    monkeypatch.chdir(meshes)
    model, file = written(meshes, "right.stl")
    assert len(surfaces(model, file)[0]) == 1 and not mark.exists()


@pytest.mark.parametrize("name", ["cube.stl", "cube.obj", "cube.ply", "cube.off", "cube.glb", "cube.dae"])
@pytest.mark.further
def test_the_triangles_are_those_of_the_library(name: str, tmp_path: Path) -> None:
    trimesh.creation.box(extents=(1.0, 2.0, 3.0)).export(tmp_path / name)
    (surface,), said = surfaces(*written(tmp_path, name))
    expected = trimesh.load_mesh(tmp_path / name)
    assert said == "" and len(surface.faces) == len(expected.faces) == 12
    np.testing.assert_array_equal(surface.faces, expected.faces)
    np.testing.assert_array_equal(surface.vertices, expected.vertices.astype(np.float32))


def test_the_reader_imports_nothing_of_the_package() -> None:
    """So that it starts in half a second."""
    program = (
        "import runpy; runpy.run_path(sys.argv[1]); print([m for m in sys.modules if m == 'connections'])"
    )
    path = Path(link_meshes.__file__).with_name("mesh_reading.py")
    done = limited.run_limited(program, [str(path)])
    assert done is not None and done.stdout.decode().strip() == "[]" and "connections" in sys.modules


def test_the_page_states_the_limits() -> None:
    page = " ".join((Path(__file__).parents[2] / "docs" / "explorer.md").read_text().split())
    for most in (
        f"{limited.SECONDS} s and {limited.MEMORY // 2**30} GiB of memory",
        f"at most {MOST_ASSETS // 10**6} MB of meshes, {link_meshes.MOST_TRIANGLES:,} triangles and "
        f"{link_meshes.MOST_SURFACES:,} parts",
        f"at most {link_meshes.MOST_PIXELS // 10**6} million pixels",
    ):
        assert most in page, most


def test_a_mesh_may_be_a_link_as_in_an_installed_workspace(tmp_path: Path) -> None:
    """``colcon build --symlink-install`` makes them; what the mesh names is beside the file itself."""
    (tmp_path / "sources").mkdir()
    (tmp_path / "installed").mkdir()
    (tmp_path / "sources" / "m.obj").write_text("mtllib m.mtl\nusemtl red\n" + TRIANGLE + "f 1 2 3\n")
    (tmp_path / "sources" / "m.mtl").write_text("newmtl red\nKd 1 0 0\n")
    (tmp_path / "installed" / "m.obj").symlink_to("../sources/m.obj")
    path = tmp_path / "installed" / "r.urdf"
    path.write_text(ROBOT.format(MESH.format("m.obj")))
    (surface,), missing = surfaces(mb.from_urdf(path), path)
    assert (surface.color, missing) == ((255, 0, 0), "")
