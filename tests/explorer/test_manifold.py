"""Spaces of the user's own in the explorer: what is drawn has closed forms; what cannot be drawn is named."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from chromium import Window, browser, require_chromium

import connections as cn
from connections import cli, explorer
from connections.checks import SubjectError
from connections.explorer.manifold import FRAMES, POINTS, Manifold, sphere_faces
from connections.explorer.manifold_view import ManifoldView
from connections.plots.scene import Scene, figure_scene
from connections.systems import chaplygin_sleigh
from connections.verify import as_subject

PLANE, SPACE = cn.CoordinateFrame(2), cn.CoordinateFrame(3)


def half_plane():
    return cn.MatrixMetric(PLANE, lambda q: jnp.eye(2) / (q[1] + 2.0) ** 2)


def sphere():
    return cn.PullbackMetric(
        PLANE,
        lambda q: jnp.stack([jnp.cos(q[1]) * jnp.cos(q[0]), jnp.cos(q[1]) * jnp.sin(q[0]), jnp.sin(q[1])]),
    )


@pytest.fixture(scope="module")
def hyperbolic():
    return Manifold(as_subject(half_plane(), "half plane"))


def test_a_ball_of_the_hyperbolic_plane(hyperbolic):
    """Its edge is 2 pi sinh r; Euclid's is 6 % shorter at r = 0.6."""
    seen = hyperbolic.see(np.array([0.2, -1.0]), radius=0.6)
    assert hyperbolic.circumference(seen) == pytest.approx(2.0 * np.pi * np.sinh(0.6), rel=1e-3)
    assert hyperbolic.curvature(np.array([0.2, -1.0])) == pytest.approx(-1.0)
    x, y = seen.spokes[:, -1].T - np.array([[0.2], [-2.0]])  # a Euclidean circle about another point
    np.testing.assert_allclose(x**2 + (y - np.cosh(0.6)) ** 2, np.sinh(0.6) ** 2, rtol=1e-6)
    assert np.abs(x**2 + (y - 1.0) ** 2 - np.sinh(0.6) ** 2).max() > 0.1  # control: not about its own


def test_torsion_with_two_velocities_bends_geodesics_and_keeps_lengths(hyperbolic):
    """Where the coefficients of Gamma* vanish by symmetry, the acceleration is |tau| to the side."""
    flat = Manifold(as_subject(cn.ConstantMetric(PLANE, np.eye(2)), "flat"))
    seen = flat.see(np.zeros(2), heading=0.5 * np.pi, length=0.1, torsion=2.0)  # across tau
    assert np.linalg.norm(seen.curve[-1] - [0.0, 0.1]) == pytest.approx(0.5 * 2.0 * 0.1**2, rel=0.05)
    straight = flat.see(np.zeros(2), heading=0.5 * np.pi, length=0.1)  # control
    np.testing.assert_allclose(straight.curve[-1], [0.0, 0.1], atol=1e-14)
    bent = hyperbolic.see(np.array([0.2, -1.0]), heading=0.3, torsion=0.8)
    assert np.abs(bent.norms - 1.0).max() < 1e-8 and bent.angle[-1] > 0.1
    assert hyperbolic.see(np.array([0.2, -1.0]), heading=0.3).angle.max() < 1e-9


def test_members_with_three_velocities_are_those_of_the_family():
    """[W] (12) with beta = c sqrt(det H), on a metric that is not constant."""
    metric = cn.MatrixMetric(SPACE, lambda q: jnp.diag(jnp.stack([1.0, 2.0, 3.0])) * (1.0 + q[0] ** 2))
    q, v, w = np.array([[0.3, -0.2, 0.1], [0.7, -0.4, 0.2], [0.1, 0.9, -0.5]])
    beta = 0.7 * np.sqrt(np.linalg.det(metric.matrix(q)))
    member = cn.ContorsionFamily(metric).connection(np.array([beta]))
    found = Manifold(as_subject(metric, "own"))._apply_at(jnp.asarray(q), v, w, jnp.array([0.0, 0.7]))
    np.testing.assert_allclose(found, member.apply(q, v, w), rtol=1e-12)


@pytest.mark.further
def test_the_least_member_of_a_file_is_shown_at_gamma_one():
    """From Levi-Civita's at gamma = 0 to the least symbols; in coordinates there is no way to go."""
    fields = SPACE.change(lambda q: jnp.eye(3) + jnp.sin(q[0]) * jnp.eye(3, k=1))
    for frame, differs in ((fields, True), (SPACE, False)):
        least = cn.least_connection(cn.ConstantMetric(frame, np.diag([1.0, 2.0, 3.0])))
        assert Manifold(as_subject(least, "least")).has_family == differs
    least = cn.least_connection(cn.ConstantMetric(fields, np.diag([1.0, 2.0, 3.0])))
    q, v, w = np.array([[0.3, -0.2, 0.1], [0.7, -0.4, 0.2], [0.1, 0.9, -0.5]])
    found = Manifold(as_subject(least, "least"))._apply_at(jnp.asarray(q), v, w, jnp.array([1.0, 0.0]))
    np.testing.assert_allclose(found, least.apply(q, v, w), rtol=1e-12, atol=1e-14)


@pytest.mark.further
def test_torsion_with_three_velocities_turns_by_its_constant():
    """-c radians per length on every metric, about the velocity; the geodesic stays what it is."""
    metric = cn.MatrixMetric(SPACE, lambda q: jnp.diag(jnp.stack([1.0, 2.0, 3.0])) * (1.0 + q[0] ** 2))
    space = Manifold(as_subject(metric, "own"))
    q = np.array([0.3, -0.2, 0.1])
    seen, plain = (space.see(q, 0.4, 0.3, length=2.0, torsion=c) for c in (0.7, 0.0))
    np.testing.assert_allclose(seen.angle, 0.7 * seen.lengths, atol=1e-6)
    np.testing.assert_allclose(seen.curve, plain.curve, atol=1e-9)
    np.testing.assert_allclose(seen.norms, 1.0, atol=1e-8)
    assert sphere_faces().max() == len(seen.spokes) - 1


@pytest.mark.further
def test_the_connection_of_the_file_is_a_member():
    """Its contorsion keeps no lengths; gamma = 0 takes it away."""
    D = np.zeros((2, 2, 2))
    D[0, 0, 0] = 0.3
    given = cn.ContorsionConnection(cn.ConstantMetric(PLANE, np.eye(2)), lambda q: D)
    space = Manifold(as_subject(given, "given"))
    assert space.has_family and not Manifold(as_subject(half_plane(), "own")).has_family
    start = np.zeros(2)
    seen = space.see(start, gamma=1.0, length=1.0)
    q, v = cn.geodesic(given, start, [1.0, 0.0], [0.0, 1.0])
    np.testing.assert_allclose(seen.curve[-1], q[-1], atol=1e-7)
    assert abs(seen.norms[1, -1, 0] - 1.0) > 0.1 > 1e-9 > abs(space.see(start).norms[1, -1, 0] - 1.0)


@pytest.mark.further
def test_points_are_drawn_where_an_embedding_has_them_and_curves_end_with_their_chart(hyperbolic):
    space = Manifold(as_subject(sphere(), "sphere"))
    seen = space.see(np.array([0.2, 0.1]), heading=0.4, length=1.0)
    placed = space.place(seen.curve)
    np.testing.assert_allclose(np.linalg.norm(placed, axis=1), 1.0, atol=1e-12)
    assert placed[0] @ placed[-1] == pytest.approx(np.cos(1.0), abs=1e-9)  # a great circle
    assert np.linalg.norm(space.arrow(seen.curve[0], seen.plain[0, 1])) == pytest.approx(1.0)
    over = space.see(np.array([0.2, 1.4]), heading=0.495 * np.pi, length=1.0)  # past the pole
    assert 1 < over.reached < POINTS and np.isnan(over.curve[-1]).all()
    assert not hyperbolic.embedded and hyperbolic.place(np.array([0.3, 0.4])).tolist() == [0.3, 0.4, 0.0]


@pytest.mark.further
def test_a_system_with_constraints_is_drawn_in_its_coordinates():
    space = Manifold(as_subject(chaplygin_sleigh(), "sleigh"))
    assert (space.nq, space.n, space.constrained) == (3, 2, True)
    seen = space.see(space.start, 0.4)
    assert seen.reached == POINTS and np.abs(seen.norms - 1.0).max() < 1e-8


def test_what_has_more_coordinates_is_refused():
    four = as_subject(cn.ConstantMetric(cn.CoordinateFrame(4), np.eye(4)), "four")
    with pytest.raises(SubjectError, match="four has 4 coordinates and 4 velocities") as error:
        Manifold(four)
    assert max(map(len, str(error.value).splitlines())) <= 80
    with pytest.raises(ValueError, match="model, system: expected one of the two"):
        explorer.serve(explorer, system=four, port=0)


class Handle(SimpleNamespace):
    """What viser gives for a thing in the scene."""

    visible, points, position, text, data, content = True, np.zeros((1, 2, 3)), np.zeros(3), "", None, ""


@pytest.fixture
def view(hyperbolic):
    """A view without a browser."""
    made = ManifoldView.__new__(ManifoldView)
    made.space, made.drawn, made._asked = hyperbolic, False, None
    made._middle, made._scale, made.outlook = np.zeros(3), 0.0, (0.0, -0.5, 2.4)
    shade = {"colors": np.array([31, 95, 191])}
    made.lines = {name: Handle(**shade) for name in ("grid", "metric", "spokes", "circles", "path")}
    made.arrows = {name: Handle(**shade) for name in ("plain_2", "twisted_2", "velocity")}
    made.labels = [Handle() for _ in range(3)]
    made.start, made.numbers, made.plots = Handle(), Handle(), [Handle(), Handle()]
    made.point = [Handle(value=0.2), Handle(value=-1.0)]
    values = {"heading": 20.0, "rise": 0.0, "length": 2.0, "radius": 0.6, "gamma": 1.0, "torsion": 0.0}
    for name, value in values.items():
        setattr(made, name, Handle(value=value))
    return made


def test_the_view_draws_what_was_computed_and_saves_it(view):
    view.compute(0.0)
    view.draw()
    assert "Gauss's curvature K here" in view.numbers.content and "-1" in view.numbers.content
    sinh = f"{np.sinh(0.6) / 0.6:.4f}"
    assert sinh[:5] in view.numbers.content
    path = view.lines["path"].points
    assert path.shape == (POINTS - 1, 2, 3) and len(view.arrows["plain_2"].points) == FRAMES
    assert np.abs(path).max() < 2.5  # the scene has its size whatever the metric
    assert [label.text.split(" = ")[0] for label in view.labels] == ["q", "q_0", "q_1"]
    sent = []
    client = SimpleNamespace(
        camera=Handle(position=np.array([0.0, -0.5, 2.4]), look_at=np.zeros(3)),
        send_file_download=lambda name, content, save_immediately: sent.append((name, content)),
    )
    view.desk = SimpleNamespace(client=client)
    view._save(None)
    ((name, content),) = sent
    assert name == "connections.pdf" and content.startswith(b"%PDF") and b"Type3" not in content
    before = view.result
    view.compute(0.0)
    assert view.result is before  # nothing was moved
    view.torsion.value = 1.0
    view.compute(0.0)
    assert view.result is not before and view.result.angle[-1] > 0.1


def test_a_scene_is_seen_as_the_camera_does():
    """From along x: y is to the right, z up, and what is nearer is drawn later."""
    near, far = np.array([[[1.0, 0, 0], [1.0, 1, 0]]]), np.array([[[0.0, 0, 0], [0.0, 0, 2]]])
    figure = figure_scene(Scene([(near, (255, 0, 0), 1.0), (far, (0, 0, 255), 1.0)]), np.array([5.0, 0, 0]))
    (drawn,) = figure.axes[0].collections
    np.testing.assert_allclose(drawn.get_segments(), [[[0, 0], [0, 2]], [[0, 0], [1, 0]]], atol=1e-12)
    np.testing.assert_allclose(drawn.get_colors()[0][:3], [0.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("four", "four has 4 coordinates"), ("missing", "has no 'missing'"), ("q", "is a list")],
)
def test_the_command_reads_what_verify_reads(name, complaint, tmp_path, capsys):
    file = tmp_path / "my_space.py"
    file.write_text(
        "import numpy as np\nimport connections as cn\nq = [1]\n"
        "four = cn.ConstantMetric(cn.CoordinateFrame(4), np.eye(4))\n"
    )
    assert cli.main(["explore", "--web", "--port", "0", f"{file}:{name}"]) == 2
    assert complaint in " ".join(capsys.readouterr().err.split())


def test_a_robot_and_a_space_of_a_file_are_shown(tmp_path, monkeypatch):
    file = tmp_path / "my_space.py"
    file.write_text(
        "import numpy as np\nimport connections as cn\nfrom connections import multibody as mb\n"
        "flat = cn.ConstantMetric(cn.CoordinateFrame(2), np.eye(2))\narm = mb.example('arm')\n"
    )
    seen = []

    def served(*arguments, **options):
        seen.append(options)
        raise KeyboardInterrupt

    monkeypatch.setattr(explorer, "serve", served)
    for name in ("flat", "arm"):
        with pytest.raises(KeyboardInterrupt):
            cli.explore.run(
                SimpleNamespace(
                    robot=f"{file}:{name}",
                    web=True,
                    directory=None,
                    beta=None,
                    floating_base=False,
                    host=None,
                    port=0,
                    open=False,
                )
            )
    assert seen[0]["system"].name == "flat" and seen[1]["model"].nv == 6


@pytest.mark.further
def test_in_a_browser(tmp_path):
    """A skeleton at first, then the picture without it; a slider changes both."""
    require_chromium()
    with (
        explorer.serve(system=half_plane(), name="half plane", port=0) as server,
        browser(tmp_path) as driver,
    ):
        window = Window(driver, server.url)
        skeleton = "return getComputedStyle(document.getElementById('connections-skeleton')).display"
        assert driver.execute_script(skeleton) == "block"
        window.wait("Gauss's curvature K here")
        window.wait(lambda text: driver.execute_script(skeleton) == "none")
        angle = r"angle between the two at the end\s+([\d.]+)"
        before, picture = window.number(angle), window.picture()
        assert window.slide("torsion", "\ue011") == -3.0  # Home
        window.wait(lambda text: window.number(angle) != before)
        assert window.picture_changes(picture) and not window.complaints()
