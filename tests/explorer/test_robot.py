"""What the explorer shows of robots, against the library's other functions; the pages, run and looked at."""

import re
from html import escape
from pathlib import Path

import numpy as np
import pytest
from chromium import Window, browser, require_chromium
from pages import ROOT, execute, python_blocks
from robots import robot_path

from connections import explorer
from connections import multibody as mb
from connections.checks import ClosureError, NonFiniteError
from connections.explorer import body_shapes as bodies
from connections.explorer.invitation import invitation
from connections.explorer.robot import FRAMES, Robot, RobotMotion

PAGE = ROOT / "docs" / "explorer.md"


@pytest.fixture(scope="module")
def arm() -> Robot:
    return Robot(mb.from_urdf(robot_path("ur5")), "ur5")


@pytest.fixture(scope="module")
def motion(arm: Robot) -> RobotMotion:
    return arm.move(arm.start(), arm.push(0), 2.0)


@pytest.fixture(scope="module")
def six_bar() -> Robot:
    return Robot(mb.from_urdf(ROOT / "tests/data/urdf_plus/six_bar.urdf"), "six-bar linkage")


def test_the_documentation() -> None:
    assert len(python_blocks(PAGE)) == 3 and execute(PAGE)["robot"].model.nv == 6
    pictures = re.findall(r"\]\((figures/.*?)\)", PAGE.read_text())
    assert len(pictures) == 7
    assert all((PAGE.parent / picture).stat().st_size > 10_000 for picture in pictures)


def test_the_motion_is_a_geodesic(arm: Robot, motion: RobotMotion) -> None:
    """Energy is kept, and H vdot + C v = 0: accelerations by differences of the film."""
    assert len(motion.times) == FRAMES and motion.times[-1] == 2.0 and not motion.stopped
    assert np.ptp(motion.energy) < 1e-9 * motion.energy[0]
    step = motion.times[1]
    v = motion.v
    a = (v[:-4] - 8.0 * v[1:-3] + 8.0 * v[3:-1] - v[4:]) / (12.0 * step)
    model = arm.model.with_gravity((0.0, 0.0, 0.0))
    tau = mb.inverse_dynamics(model, motion.q[2:-2], v[2:-2], a)
    assert np.abs(tau).max() < 1e-5 * np.abs(mb.mass_matrix(model, motion.q)).max()
    still = mb.inverse_dynamics(model, motion.q[2:-2], v[2:-2], 0.0 * a)
    assert np.abs(still).max() > 1e-2  # the control: without the accelerations forces are needed


@pytest.mark.parametrize("gamma", [0.0, 1.0, -2.0])
def test_lengths_and_the_velocity_are_kept(motion: RobotMotion, gamma: float) -> None:
    W = motion.carry(gamma)
    gram = np.einsum("tia,tij,tjb->tab", W, motion.H, W)
    np.testing.assert_allclose(gram, np.broadcast_to(gram[0], gram.shape), atol=1e-7 * np.abs(gram).max())
    np.testing.assert_allclose(W @ motion.v[0], motion.v, atol=1e-6)


@pytest.mark.parametrize("gamma", [0.0, 1.0, -2.0])
def test_what_is_carried(arm: Robot, motion: RobotMotion, gamma: float) -> None:
    """H zdot = -(C* + gamma (C_x - C*)) z, by differences of the film; not with another gamma."""
    model, q, v = arm.model, motion.q[2:-2], motion.v[2:-2]
    z = motion.carry(gamma) @ np.eye(6)[0]
    rate = (z[:-4] - 8.0 * z[1:-3] + 8.0 * z[3:-1] - z[4:]) / (12.0 * motion.times[1])
    plain, cross = (
        mb.coriolis_product(model, q, v, z[2:-2], body_factor=name) for name in ("christoffel", "force_cross")
    )
    force = np.einsum("tij,tj->ti", mb.mass_matrix(model, q), rate)
    scale = np.abs(plain).max()
    np.testing.assert_allclose(force, -(plain + gamma * (cross - plain)), atol=1e-4 * scale)
    assert np.abs(force + plain + (gamma + 0.1) * (cross - plain)).max() > 1e-2 * scale


def test_torsion_turns_what_is_carried(motion: RobotMotion) -> None:
    z0 = np.eye(6)[0]
    angle = motion.angle(motion.carry(1.0) @ z0, motion.carry(0.0) @ z0)
    assert motion.has_torsion and angle[0] < 1e-12 and np.degrees(angle[-1]) > 5.0
    assert motion.angle(motion.v, 2.0 * motion.v).max() < 1e-12
    assert motion.angle(motion.v, -motion.v).min() == pytest.approx(np.pi)


def test_the_turn_of_a_frame(motion: RobotMotion) -> None:
    """Angles come in pairs, no vector turns by more than the largest, and some turn by nearly that."""
    turns = np.sort(motion.turns(1.0))
    np.testing.assert_allclose(turns[::2], turns[1::2], atol=1e-6)
    assert motion.turns(0.0).max() < 1e-6
    before, after = motion.carry(0.0)[-1], motion.carry(1.0)[-1]
    L = np.linalg.cholesky(motion.H[-1])
    rotation = L.T @ after @ np.linalg.inv(before) @ np.linalg.inv(L.T)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(6), atol=1e-7)
    assert np.trace(rotation) == pytest.approx(np.cos(turns).sum())
    assert np.cos(turns[-1]) == pytest.approx(np.linalg.eigvalsh(rotation + rotation.T)[0] / 2.0)


@pytest.mark.further
def test_contraction_rates(arm: Robot, motion: RobotMotion) -> None:
    """Of the free motion, by its curvature alone; three neighbours grow no faster than the bound."""
    rates, model = arm.rates(motion), arm.model
    K = mb.curvatures.curvature_operator(model, motion.q, motion.v)
    np.testing.assert_allclose(rates.stiffness, K, atol=1e-12 * np.abs(K).max())
    other = mb.curvatures.curvature_operator(model, motion.q, 1.01 * motion.v)  # the control
    assert np.abs(rates.stiffness - other).max() > 1e-2 * np.abs(K).max()
    assert not rates.volume.any() and np.all(rates.bound >= 0.0)
    steps = np.diff(motion.times) * (rates.bound[1:] + rates.bound[:-1]) / 2.0
    allowed = np.concatenate([[0.0], np.cumsum(steps)])
    for shift in 1e-5 * np.random.default_rng(1).normal(size=(3, 2, 6)):
        beside = arm.move(motion.q[0] + shift[0], motion.v[0] + shift[1], 2.0)
        eta = beside.q - motion.q
        w = np.linalg.solve(motion.H, mb.coriolis_product(model, motion.q, eta, motion.v)[..., None])
        w = beside.v - motion.v + w[..., 0]
        pairs = ((rates.kappa, eta, eta), (2.0 * rates.delta, eta, w), (1.0, w, w))
        V = sum(size * np.einsum("ti,tij,tj->t", a, motion.H, b) for size, a, b in pairs)
        assert np.all(0.5 * np.log(V / V[0]) <= allowed + 1e-4)


def test_components_have_names() -> None:
    model = mb.from_urdf(robot_path("ur5"), floating_base=True)
    robot = Robot(model)
    assert len(robot.components) == model.nv == len(set(robot.components))
    assert robot.components[:6] == tuple(
        f"root_joint {part}" for part in ("wx", "wy", "wz", "vx", "vy", "vz")
    )
    assert not robot.push(3)[3:6].any() and np.abs(robot.push(3)).max() == 1.0
    assert (robot.push(3) != robot.push(4)).any() and (robot.push(3) == robot.push(3)).all()


def test_the_steps_converge_at_order_four(motion: RobotMotion) -> None:
    """Every second frame alone: the error grows sixteenfold."""
    from connections.explorer.robot import _linear

    A = -(motion.plain + motion.extra)[:, :, :]
    step = motion.times[1] / 4.0
    fine, middle, coarse = (_linear(A[::k], 2.0 * k * step)[-1] for k in (1, 2, 4))
    ratio = np.abs(coarse - fine).max() / np.abs(middle - fine).max()
    assert 12.0 < ratio < 24.0


@pytest.mark.parametrize("name", ["arm", "six_bar", "floating"])
def test_where_the_bodies_are(name: str, request: pytest.FixtureRequest) -> None:
    """Velocities of points are the differences of their places; those of other points are not."""
    robot = (
        Robot(mb.from_urdf(robot_path("ur5"), floating_base=True))
        if name == "floating"
        else request.getfixturevalue(name)
    )
    motion = robot.move(robot.start(), robot.push(0), 2.0)
    points = 0.1 + np.stack([shape.center for shape in bodies.shapes(robot.model)])
    places = motion.world_points(points)
    rate = (places[:-4] - 8.0 * places[1:-3] + 8.0 * places[3:-1] - places[4:]) / (12.0 * motion.times[1])
    np.testing.assert_allclose(motion.point_velocities(motion.v, points)[2:-2], rate, atol=1e-5)
    assert np.max(np.abs(motion.point_velocities(motion.v, 0.9 * points)[2:-2] - rate)) > 1e-3
    positions, rotations = robot.poses(motion.q[7])
    np.testing.assert_allclose(positions, motion.positions[7], atol=1e-12)
    np.testing.assert_allclose(rotations, motion.rotations[7], atol=1e-12)


def test_closed_chains(six_bar: Robot) -> None:
    moved = six_bar.move(six_bar.start(), six_bar.push(0), 1.0)
    assert np.ptp(moved.energy) < 1e-9 * moved.energy[0] and not moved.stopped
    assert six_bar.adjustable == six_bar.model.joint_names
    colors = bodies.cluster_colors(six_bar.model)
    assert len(set(colors.values())) == 1 and bodies.STEEL not in colors.values()
    text = bodies.tree_html(six_bar.model)
    assert "ground" in text and "follow: joint4, joint5" in text


def test_a_loop_that_cannot_close_is_an_error(six_bar: Robot) -> None:
    with pytest.raises(ClosureError, match="loop"):
        six_bar.move(np.array([0.8, -1.4, -2.8]), np.ones(3), 1.0)


def test_a_motion_into_a_singular_configuration_ends_there(
    six_bar: Robot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From frame 61 of every attempt but the second on, the points are no longer valid."""
    solve, attempts = six_bar._geodesic, []

    def breaks_once(q: object, v: object, times: np.ndarray) -> tuple:
        points, velocities, good = (np.asarray(a) for a in solve(q, v, times))
        attempts.append(times[-1])
        return points, velocities, good & ((times < 0.5) | (len(attempts) > 1))

    monkeypatch.setitem(six_bar.__dict__, "_geodesic", breaks_once)
    moved = six_bar.move(six_bar.start(), six_bar.push(0), 1.0)
    assert attempts == [1.0, pytest.approx(0.98 * 0.5, abs=0.01)]
    assert moved.times[-1] == attempts[1] and "singular configuration" in moved.stopped


@pytest.mark.parametrize(
    ("change", "error", "complaint"),
    [
        ({"q": np.zeros(5)}, ValueError, "q: expected shape"),
        ({"v": np.full(6, np.nan)}, NonFiniteError, "v"),
        ({"duration": 0.0}, ValueError, "duration: expected a positive number"),
        ({"duration": np.nan}, ValueError, "duration"),
    ],
)
def test_bad_input(arm: Robot, change: dict, error: type, complaint: str) -> None:
    arguments = {"q": arm.start(), "v": arm.push(0), "duration": 1.0} | change
    with pytest.raises(error, match=complaint):
        arm.move(**arguments)
    with pytest.raises(NonFiniteError, match="gamma"):
        RobotMotion.carry(None, np.nan)  # type: ignore[arg-type]


def test_the_ellipsoid_of_inertia(rng: np.random.Generator) -> None:
    """The second moments of a homogeneous ellipsoid, by its own axes."""
    axes, mass, center = np.array([0.1, 0.2, 0.35]), 2.0, np.array([0.3, -0.2, 0.1])
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    second = mass / 5.0 * rotation @ np.diag(axes**2) @ rotation.T + mass * np.outer(center, center)
    h = mass * center
    skew = np.array([[0.0, -h[2], h[1]], [h[2], 0.0, -h[0]], [-h[1], h[0], 0.0]])
    inertia = np.block([[np.trace(second) * np.eye(3) - second, skew], [skew.T, mass * np.eye(3)]])
    found_center, found_axes, found_rotation = bodies.ellipsoid(inertia)
    np.testing.assert_allclose(found_center, center, atol=1e-12)
    np.testing.assert_allclose(np.sort(found_axes), axes, atol=1e-9)
    assert np.linalg.det(found_rotation) == pytest.approx(1.0)
    for found, axis in zip(found_axes, found_rotation.T, strict=True):
        number = int(np.argmin(np.abs(axes - found)))
        assert abs(axis @ rotation[:, number]) == pytest.approx(1.0)
    assert not bodies.ellipsoid(np.zeros((6, 6)))[1].any()


def test_names_are_escaped() -> None:
    mechanism = mb.Mechanism()
    mechanism.add_body("<b>", mass=1.0, center_of_mass=(0.1, 0.0, 0.0), inertia=np.eye(3))
    mechanism.add_joint("a & b", "world", "<b>", mb.Revolute((0.0, 0.0, 1.0)))
    text = bodies.tree_html(mechanism.build())
    assert "&lt;b&gt;" in text and "a &amp; b" in text and "<b>" not in text


@pytest.mark.further
def test_the_page_in_a_browser(six_bar: Robot, tmp_path: Path) -> None:
    """gamma turns the carried vector, the film plays, a posture that is none is said to be.

    Its file shows boxes on two links of the loop; the mesh of a third is missing, which the page says.
    """
    require_chromium()
    looks = {
        "link1": '<box size="0.1 0.1 0.1"/>',
        "link2": '<box size="0.1 0.1 0.1"/>',
        "link3": '<mesh filename="no.stl"/>',
    }
    text = (ROOT / "tests/data/urdf_plus/six_bar.urdf").read_text()
    for link, geometry in looks.items():
        head = f'<link name="{link}">'
        assert head in text
        text = text.replace(head, f"{head}<visual><geometry>{geometry}</geometry></visual>")
    (tmp_path / "six_bar.urdf").write_text(text)
    plain, six_bar = six_bar, Robot(six_bar.model, six_bar.name, tmp_path / "six_bar.urdf")
    assert not plain.surfaces and len(six_bar.surfaces) == 2
    with explorer.serve(six_bar, port=0) as server, browser(tmp_path / "profile") as driver:
        window = Window(driver, server.url)
        window.wait("angle between the two at the end")
        window.wait("follow: joint4, joint5")
        assert driver.title == "connections: six-bar linkage"
        window.close_warnings()
        window.wait("Not drawn: 1 of the 3 visuals in six_bar.urdf (there is no file no.stl).")
        angle, before = window.number(r"at the end\s+([\d.]+)"), window.picture()
        gamma = window.slide("torsion gamma", "\ue011")  # Home
        assert gamma == -2.0
        window.wait(lambda text: f"{angle:.2f}" not in text)
        moved = six_bar.move(six_bar.start(), np.round(six_bar.push(0), 2), 4.0)
        pair = [moved.carry(value)[-1] @ np.eye(3)[0] for value in (0.0, gamma)]
        turned = np.degrees(moved.angle(*(np.tile(z, (len(moved.H), 1)) for z in pair))[-1])
        assert window.number(r"at the end\s+([\d.]+)") == pytest.approx(turned, abs=0.05)
        assert window.picture_changes(before)
        before = window.picture()
        assert window.slide("time [s]", "\ue010") == 4.0  # End
        assert window.picture_changes(before)
        before = window.picture()
        window.press("ellipsoids")
        assert window.picture_changes(before)
        window.click("Posture at the start")
        window.wait("q: joint3")
        window.slide("q: joint3", "\ue010")  # End: pi
        window.slide("q: joint2", "\ue011")  # Home: -pi
        window.wait("Cannot be drawn: loop 'constraint1' cannot close")
        window.slide("q: joint3", "\ue011")
        window.wait(lambda text: "Cannot be drawn" not in text)
        time = window.standing("time [s]")
        window.press("play")
        window.wait(lambda text: window.standing("time [s]") != time)
        assert window.complaints() == []


OWNED = "parent.document.title='owned'"
HOSTILE = {  # names in six_bar.urdf: what they become
    "constraint1": f'<iframe srcdoc="<script>{OWNED}</script>"></iframe>',
    "joint2": f'<img src=x onerror="{OWNED}">',
    "joint3": f"[press](javascript:{OWNED})",
    "link2": f'"><svg onload="{OWNED}">',
    "link3": f"**bold** `code`</div><script>{OWNED}</script>",
}


@pytest.mark.further
def test_names_of_a_file_run_nothing_on_the_page(tmp_path: Path) -> None:
    """Names of loops, joints and links are HTML and Markdown; the page shows them as they are."""
    require_chromium()
    text = (ROOT / "tests/data/urdf_plus/six_bar.urdf").read_text()
    for name, hostile in HOSTILE.items():
        assert f'"{name}"' in text
        text = text.replace(f'"{name}"', f'"{escape(hostile)}"')
    path = tmp_path / "six_bar.urdf"
    path.write_text(text)
    looks = '<visual><geometry><mesh filename="&lt;img src=x onerror=1&gt;.stl"/></geometry></visual>'
    path.write_text(re.sub(r"(<link name=\"link1\">)", rf"\1{looks}", text))
    robot = Robot(mb.from_urdf(path), "<svg onload=1>", path)
    with explorer.serve(robot, port=0) as server, browser(tmp_path / "profile") as driver:
        window = Window(driver, server.url)
        window.wait("angle between the two at the end")
        window.close_warnings()
        window.click("Posture at the start")
        window.wait(f"q: {HOSTILE['joint3']}")
        for joint, key in (("joint3", "\ue010"), ("joint2", "\ue011")):  # End: pi; Home: -pi
            named = {label.text: label for label in driver.find_elements("css selector", "label")}
            owner = named[f"q: {HOSTILE[joint]}"].get_attribute("for")
            thumb = driver.find_element("id", owner).find_element("css selector", "[role=slider]")
            window.act(lambda found=thumb: found, lambda found, key=key: found.send_keys(key))
        window.wait(f"Cannot be drawn: loop '{HOSTILE['constraint1']}' cannot close")
        assert driver.title == "connections: <svg onload=1>"
        page = "//*[@srcdoc or @onerror or @onload or starts-with(@href, 'javascript')]"
        assert driver.find_elements("xpath", page) == []
        assert HOSTILE["link3"] in window.text


@pytest.mark.further
def test_contraction_rates_on_the_page(arm: Robot, tmp_path: Path) -> None:
    """The box shows the bound on growth over the motion, and hides it again."""
    require_chromium()
    moved = arm.move(arm.start(), np.round(arm.push(0), 2), 4.0)
    growth = np.exp(np.trapezoid(arm.rates(moved).bound, moved.times))
    with explorer.serve(arm, port=0) as server, browser(tmp_path / "profile") as driver:
        with invitation(server.url) as page:
            driver.get(page)
            window = Window(driver, server.url.partition("?")[0] + "?")  # with the cookie that it was given
            window.wait("angle between the two at the end")
        window.close_warnings()
        window.press("contraction rates")
        window.wait("distance grows at most")
        assert window.number(r"grows at most\s+([\d.]+)") == pytest.approx(growth, rel=0.01)
        window.press("contraction rates")
        window.wait(lambda text: "distance grows at most" not in text)
        assert window.complaints() == []
