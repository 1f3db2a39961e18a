"""What a robot looks like: its file's visuals against another reader; meshes that are missing or broken."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import trimesh
import yourdfpy
from cases import always, further
from robots import robot_path

from connections import explorer
from connections import multibody as mb
from connections.checks import ModelError
from connections.explorer.link_meshes import Surface, surfaces
from connections.explorer.robot import Robot
from connections.multibody.description.urdf_visuals import read_visuals

ROBOT = """<robot name="r">
  <material name="red"><color rgba="1 0 0 0.5"/></material>
  <link name="base"><visual><geometry><box size="1 2 3"/></geometry></visual></link>
  <link name="cart"><inertial>
    <mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>
    {cart}
  </link>
  <link name="tool">{tool}</link>
  <joint name="j" type="{joint}"><parent link="base"/><child link="cart"/>
    <origin xyz="0 0 5"/><axis xyz="1 0 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
  <joint name="k" type="fixed"><parent link="cart"/><child link="tool"/><origin xyz="0 1 0"/></joint>
</robot>"""
MESH = '<visual><geometry><mesh filename="{}"/></geometry></visual>'
BALL = '<visual><geometry><sphere radius="0.5"/></geometry></visual>'


def written(folder: Path, cart: str = "", tool: str = "", joint: str = "prismatic") -> tuple[mb.Model, Path]:
    file = folder / "r.urdf"
    file.write_text(ROBOT.format(cart=cart, tool=tool, joint=joint))
    return mb.from_urdf(file), file


def box(*parts: Surface) -> np.ndarray:
    """Lower and upper corners, (2, 3)."""
    points = np.concatenate([part.vertices for part in parts])
    return np.stack([points.min(axis=0), points.max(axis=0)])


def test_every_link_is_where_another_reader_has_it() -> None:
    """yourdfpy's scene, its forward kinematics and its meshes, link by link; not in another configuration."""
    path = robot_path("ur5")
    robot = Robot(mb.from_urdf(path), "ur5", path)
    assert robot.missing == ""
    share = path.parents[3].parent  # package://example-robot-data/robots/...
    find = partial(_below, share)
    scene = yourdfpy.URDF.load(path, filename_handler=find)
    q = np.linspace(-1.0, 1.2, 6)
    scene.update_cfg(q)
    expected: dict[int, list[np.ndarray]] = {}
    for node in scene.scene.graph.nodes_geometry:
        pose, name = scene.scene.graph.get(node)
        body, _ = robot.model.kinematics.tree.placements[scene.scene.graph.transforms.parents[node]]
        points = trimesh.transform_points(scene.scene.geometry[name].vertices, pose)
        expected.setdefault(body, []).append(points)
    assert expected.keys() == {surface.body for surface in robot.surfaces} == {-1, *range(6)}
    for body, clouds in expected.items():
        points = np.concatenate(clouds)
        corners = np.stack([points.min(axis=0), points.max(axis=0)])
        seen, elsewhere = (_corners(robot, body, at) for at in (q, q + 0.1))
        np.testing.assert_allclose(seen, corners, atol=1e-5)
        assert body < 0 or np.abs(elsewhere - corners).max() > 1e-4
    assert len({surface.color for surface in robot.surfaces}) > 2


def _below(folder: Path, fname: str) -> str:
    return str(folder / fname.removeprefix("package://"))


def _corners(robot: Robot, body: int, q: np.ndarray) -> np.ndarray:
    positions, rotations = robot.poses(q)
    R, p = (np.eye(3), np.zeros(3)) if body < 0 else (rotations[body], positions[body])
    parts = [surface.vertices @ R.T + p for surface in robot.surfaces if surface.body == body]
    points = np.concatenate(parts)
    return np.stack([points.min(axis=0), points.max(axis=0)])


def test_shapes_scales_colours_and_merged_links(tmp_path: Path) -> None:
    trimesh.creation.box(extents=(1.0, 1.0, 1.0)).export(tmp_path / "cube.stl")
    cart = (
        '<visual><origin xyz="1 0 0" rpy="0 1.5707963267948966 0"/><geometry>'
        '<cylinder radius="0.1" length="4"/></geometry><material name="red"/></visual>'
        '<visual><geometry><mesh filename="cube.stl" scale="2 -4 6"/></geometry>'
        '<material name="m"><color rgba="0 0 1 1"/></material></visual>'
    )
    model, file = written(tmp_path, cart, BALL)
    (ground, cylinder, cube, ball), missing = surfaces(model, file)
    assert missing == "" and [part.body for part in (ground, cylinder, cube, ball)] == [-1, 0, 0, 0]
    np.testing.assert_allclose(box(ground), [[-0.5, -1.0, -1.5], [0.5, 1.0, 1.5]], atol=1e-6)
    np.testing.assert_allclose(box(cylinder), [[-1.0, -0.1, -0.1], [3.0, 0.1, 0.1]], atol=1e-3)
    np.testing.assert_allclose(box(cube), [[-1.0, -2.0, -3.0], [1.0, 2.0, 3.0]], atol=1e-6)
    np.testing.assert_allclose(box(ball), [[-0.5, 0.5, -0.5], [0.5, 1.5, 0.5]], atol=1e-3)
    assert cylinder.color == (255, 0, 0) and cylinder.opacity == pytest.approx(0.5, abs=1 / 255)
    assert cube.color == (0, 0, 255) and cube.opacity == 1.0
    assert ball.smooth and not cylinder.smooth and not cube.smooth


def test_a_planar_joint_turns_the_frame_and_not_what_is_seen(tmp_path: Path) -> None:
    cart = '<visual><origin xyz="0.1 0.2 0.3"/><geometry><box size="1 2 4"/></geometry></visual>'
    model, file = written(tmp_path, cart, joint="planar")
    robot = Robot(model, "r", file)
    expected = np.array([0.1, 0.2, 5.3]) + np.array([[-0.5, -1.0, -2.0], [0.5, 1.0, 2.0]])
    np.testing.assert_allclose(_corners(robot, 0, model.neutral()), expected, atol=1e-6)
    in_body = box(*(surface for surface in robot.surfaces if surface.body == 0))
    assert (
        np.abs(in_body - in_body.mean(axis=0) - expected + expected.mean(axis=0)).max() > 0.1
    )  # it is turned


@pytest.mark.parametrize(
    "place",
    always(
        ["above", "beside", "ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH", "path", "file"],
        "above",
        "ROS_PACKAGE_PATH",
        "file",
    ),
)
def test_where_meshes_are_found(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = {
        "above": "robot/meshes",  # the package has another name than its folder
        "beside": "pack/meshes",
        "ROS_PACKAGE_PATH": "ros/pack/meshes",
        "AMENT_PREFIX_PATH": "ament/share/pack/meshes",
        "path": "robot/meshes",
        "file": "elsewhere",
    }
    folder = tmp_path / folders[place]
    (tmp_path / "robot" / "urdf").mkdir(parents=True)
    folder.mkdir(parents=True, exist_ok=True)
    name = {"path": "../meshes/ball.stl", "file": f"file://{folder}/ball.stl"}
    text = MESH.format(name.get(place, "package://pack/meshes/ball.stl"))
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(tmp_path / "ros"))
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "ament"))
    model, file = written(tmp_path / "robot" / "urdf", text)
    assert "there is no file" in surfaces(model, file)[1]  # the control: before it is there
    trimesh.creation.icosphere(1).export(folder / "ball.stl")
    found, missing = surfaces(model, file)
    assert missing == "" and len(found) == 2


@pytest.mark.parametrize(
    ("visual", "reason"),
    [
        (MESH.format("package://pack/none.stl"), "there is no file package://pack/none.stl"),
        further(MESH.format("https://example.org/ball.stl"), "there is no file https"),
        further(MESH.format(""), "link 'cart': its <mesh> has no filename"),
        (MESH.format("broken.stl"), "broken.stl: "),
        further(MESH.format("broken.dae"), "broken.dae: "),
        further(MESH.format("broken.obj"), "broken.obj: "),
        further(MESH.format("empty.stl"), "empty.stl: "),
        (MESH.format("nan.stl"), "nan.stl: no triangles can be read from it"),
        further(
            MESH.format("ball.stl").replace("/>", ' scale="1 1e60 1"/>', 1),
            "ball.stl: its points are too far away",
        ),
        further(MESH.format("notes.xyz9"), "notes.xyz9: "),
        (MESH.format("ball.stl").replace("/>", ' scale="1 nan 1"/>', 1), "<mesh scale=...> is not finite"),
        further(MESH.format("ball.stl").replace("/>", ' scale="1 2"/>', 1), "expected 3 numbers"),
        ("<visual/>", "its <visual> has no geometry"),
        further("<visual><geometry/></visual>", "its <visual> has no geometry"),
        further("<visual><geometry><cone/></geometry></visual>", "unknown geometry <cone>"),
        further(BALL.replace("0.5", "nan"), "<sphere radius=...> is not finite"),
        (BALL.replace("0.5", "-1"), "expected positive numbers"),
        further(BALL.replace('radius="0.5"', ""), "<sphere radius=...> is missing"),
        further(BALL.replace("<geometry", '<origin xyz="0 0"/><geometry', 1), "expected 3 numbers"),
        (
            BALL.replace("<geometry", '<material name="m"><color rgba="0 0 x 1"/></material><geometry', 1),
            "<color rgba=...> is not a number",
        ),
    ],
)
def test_a_visual_that_cannot_be_drawn_is_named(
    visual: str, reason: str, tmp_path: Path, capfd: pytest.CaptureFixture
) -> None:
    """The others are drawn; nothing is raised or printed."""
    ball = trimesh.creation.icosphere(1)
    ball.export(tmp_path / "ball.stl")
    for suffix in ("stl", "dae", "obj"):
        (tmp_path / f"broken.{suffix}").write_bytes(bytes(range(256)) * 3)
    (tmp_path / "empty.stl").touch()
    (tmp_path / "notes.xyz9").write_text("no mesh")
    ball.vertices[:] = np.nan
    ball.export(tmp_path / "nan.stl")
    model, file = written(tmp_path, visual, BALL)
    found, missing = surfaces(model, file)
    assert missing.startswith("Not drawn: 1 of the 3 visuals in r.urdf (") and reason in missing
    assert [surface.body for surface in found] == [-1, 0]
    assert capfd.readouterr() == ("", "")
    model, file = written(tmp_path, MESH.format("ball.stl"), BALL)
    assert surfaces(model, file)[1] == ""


def test_many_failures_are_one_sentence(tmp_path: Path) -> None:
    many = "".join(MESH.format(f"none_{number % 5}.stl") for number in range(10))
    _, missing = surfaces(*written(tmp_path, many))
    assert "10 of the 11 visuals" in missing and "; and 2 more)" in missing and "none_3" not in missing


def test_a_file_of_another_robot(tmp_path: Path) -> None:
    _, file = written(tmp_path, BALL)
    found, missing = surfaces(mb.example("arm"), file)
    assert [part.body for part in found] == [-1] and "1 of the 2" in missing  # its base
    assert "cart: the robot has no such link" in missing


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "no.urdf").write_text("<robot")
    for file in (tmp_path / "none.urdf", tmp_path / "no.urdf"):
        with pytest.raises(ModelError, match=file.name if file.exists() is False else "malformed XML"):
            explorer.serve(mb.example("arm"), port=0, urdf=file)
    with pytest.raises(ValueError, match="urdf: expected with a model"):
        explorer.serve(port=0, urdf=robot_path("ur5"))


def test_a_file_without_visuals() -> None:
    assert read_visuals(mb.example_path("arm")) == ([], [])
    assert surfaces(mb.example("arm"), mb.example_path("arm")) == ((), "")
