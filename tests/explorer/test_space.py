"""What the explorer draws in R^3, against closed forms and the library's public functions."""

from pathlib import Path

import numpy as np
import pytest
from chromium import CHANGED, Window, browser, differing, require_chromium

import connections as cn
from connections import explorer
from connections.control.tracking_example import explore
from connections.explorer import space
from connections.explorer.drawing import camera_distance
from connections.explorer.point_mass import track, without_torsion
from connections.explorer.space import ADMISSIBLE, KINDS, LENGTH, carry, parallelogram
from connections.plots import four_contorsions


def rotation(axis: np.ndarray, angle: float) -> np.ndarray:
    """Rodrigues' formula."""
    x, y, z = axis
    skew = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * skew + (1.0 - np.cos(angle)) * skew @ skew


@pytest.mark.parametrize(("beta", "heading"), [(1.3, 0.0), (-7.0, 2.0), (0.0, -1.0)])
def test_a_frame_turns_about_the_velocity_by_minus_beta_per_metre(beta: float, heading: float) -> None:
    carried = carry(beta, ADMISSIBLE, heading)
    velocity = np.array([np.cos(heading), np.sin(heading), 0.0])
    assert carried.bend < 1e-9 and carried.stretch.max() < 1e-8
    np.testing.assert_allclose(carried.turn, -beta * carried.lengths, atol=1e-8)
    end = carried.still @ rotation(velocity, -beta * LENGTH).T
    np.testing.assert_allclose(carried.frames[-1], end, atol=1e-8)
    np.testing.assert_allclose(carried.points[-1] - carried.points[0], LENGTH * velocity, atol=1e-9)


def test_other_connections_carry_by_their_own_equations() -> None:
    """vdot = D(v, v) and zdot = D(v, z) for a unit mass, by differences; not with another contorsion."""
    D = 0.2 * 2.5 * four_contorsions()[False, False]
    carried = carry(2.5, "neither kept")
    v, z = carried.frames[:, 0], carried.frames[:, 1]
    for values in (v, z):
        step = carried.lengths[1]
        rate = (values[:-4] - 8.0 * values[1:-3] + 8.0 * values[3:-1] - values[4:]) / (12.0 * step)
        expected = np.einsum("ijk,tj,tk->ti", D, v, values)[2:-2]
        np.testing.assert_allclose(rate, expected, atol=1e-5)
        assert np.abs(rate - 1.1 * expected).max() > 1e-3
    rate = (carried.points[2:] - carried.points[:-2]) / (2.0 * carried.lengths[1])
    np.testing.assert_allclose(rate, v[1:-1], atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_keeps_what_it_says(kind: str) -> None:
    lengths, geodesics = KINDS[kind]
    carried = carry(3.0, kind)
    assert (carried.stretch.max() < 1e-8) == lengths
    assert (carried.bend < 1e-8) == geodesics


@pytest.mark.parametrize("beta", [-10.0, 10.0])
@pytest.mark.parametrize("kind", KINDS)
def test_the_ends_of_the_slider_can_be_drawn(kind: str, beta: float) -> None:
    assert np.isfinite(carry(beta, kind).frames).all()
    assert np.isfinite(parallelogram(beta, 1.0, kind).sides).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_gap_of_the_parallelogram_is_the_torsion(kind: str) -> None:
    """To second order: the remainder falls by about eight when the side is halved."""
    metric = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
    wide, narrow = (parallelogram(1.5, side, kind) for side in (0.02, 0.01))
    D = space._contorsion(1.5, kind)
    T = np.asarray(cn.ContorsionConnection(metric, lambda q: D).torsion(np.zeros(3)))
    np.testing.assert_allclose(wide.torsion, T[:, 0, 1], atol=1e-12)
    misses = [np.linalg.norm(np.diff(p.gap, axis=0)[0] - p.expected) for p in (wide, narrow)]
    assert misses[1] < 0.16 * misses[0] + 1e-12
    torsion = not kind.startswith(("Weyl", "statistics"))
    assert (np.linalg.norm(wide.expected) > 1e-12) == torsion
    assert misses[0] < 0.1 * np.linalg.norm(wide.expected) + 1e-5 * (not torsion) + 1e-12


def test_the_other_families_are_what_they_are_called() -> None:
    metric = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
    parts = {
        "Weyl": {"nonmetricity_weyl"},
        "statistics": {"nonmetricity_weyl", "nonmetricity_trace", "nonmetricity_symmetric"},
    }
    for kind in KINDS:
        name = kind.partition(":")[0]
        if name in parts:
            D = space._contorsion(2.0, kind)
            sizes = cn.decompose(
                cn.ContorsionConnection(metric, lambda q, D=D: D), metric, np.zeros(3)
            ).squared_norms
            assert {part for part, size in sizes.items() if size > 1e-12} == parts[name]


def test_the_gap_in_closed_form() -> None:
    """Sides turn by -beta side: gap = side (1 - cos) (u - w) + 2 side sin e_z, for unit u and w."""
    beta, side = 1.2, 0.7
    result = parallelogram(beta, side)
    angle = beta * side
    expected = side * np.array([np.cos(angle) - 1.0, 1.0 - np.cos(angle), 2.0 * np.sin(angle)])
    np.testing.assert_allclose(np.diff(result.gap, axis=0)[0], expected, atol=1e-8)


@pytest.mark.further
def test_the_point_mass_is_that_of_the_example() -> None:
    (plain,), (twisted,) = explore([0.0]), explore([-5.0])
    shown = track(-5.0)
    np.testing.assert_allclose(shown.points, twisted.motion.q, atol=1e-8)
    assert shown.result.to_dict() == pytest.approx(twisted.to_dict(), rel=1e-6)
    assert without_torsion().result.to_dict() == pytest.approx(plain.to_dict(), rel=1e-6)
    assert shown.error[0] == 0.0 and shown.error.max() > 0.1
    assert np.abs(shown.sideways).max() > 0.1 and not without_torsion().sideways.any()


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: carry(np.nan), "beta is nan"),
        (lambda: carry(1.0, heading=np.inf), "heading is inf"),
        (lambda: carry(1.0, "another"), "kind: expected one of admissible"),
        (lambda: parallelogram(1.0, 0.0), "side: expected a positive length"),
        (lambda: parallelogram(1.0, np.nan), "side is nan"),
        (lambda: track(np.inf), "betas"),
    ],
)
def test_bad_input(call: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        call()


@pytest.mark.parametrize("aspect", [0.4, 1.0, 2.5])
def test_the_camera_sees_the_whole_sphere(aspect: float) -> None:
    """The edges of the picture pass outside the sphere, the nearer pair touches it."""
    field, radius = 0.7, 1.7
    distance = camera_distance(radius, field, aspect)
    half = np.array([field / 2.0, np.arctan(aspect * np.tan(field / 2.0))])
    misses = distance * np.sin(half) - radius
    assert misses.min() == pytest.approx(0.0, abs=1e-12) and misses.max() >= -1e-12


def test_a_geodesic_that_escapes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gamma^x_xx < 0 is reached by no slider: v grows beyond every bound."""
    D = np.zeros((3, 3, 3))
    D[0, 0, 0] = 1.0
    monkeypatch.setattr(space, "_contorsion", lambda beta, kind: D)
    with pytest.raises(cn.checks.IntegrationError, match="leaves every bound"):
        carry(1.0)


@pytest.mark.further
def test_the_page_in_a_browser(tmp_path: Path) -> None:
    """The frames follow the slider that a key moves, the other views are drawn, the console is silent."""
    require_chromium()
    with explorer.serve(port=0) as server, browser(tmp_path / "profile") as driver:
        window = Window(driver, server.url)
        window.wait("turn over 4 m")
        window.close_warnings()
        assert window.picture_changes(np.zeros_like(window.picture()))
        before = window.picture()
        assert differing(before, window.picture()) < CHANGED  # the control: nothing moves by itself
        beta = window.slide("beta [kg/m]", *(["\ue014"] * 5))  # the right arrow
        assert beta == pytest.approx(1.5)
        expected = np.degrees(-beta * LENGTH)
        window.wait(f"{expected:.1f}")
        assert window.number(r"turn over 4 m\s+(-?[\d.]+)") == pytest.approx(expected, abs=0.06)
        assert window.picture_changes(before)
        seen = window.picture()
        window.choose("view", "The open parallelogram")
        window.wait("ratio")
        gap = np.linalg.norm(np.diff(parallelogram(beta, 0.6).gap, axis=0))
        assert window.number(r"gap\s+([\d.]+) m") == pytest.approx(gap, abs=1e-4)
        assert window.picture_changes(seen)
        seen = window.picture()
        window.choose("view", "The controlled point mass")
        window.wait("zero crossings of v_z")
        assert window.number(r"rms error \[m\]\s+([\d.]+)") == pytest.approx(
            track(beta).result.rms_error, abs=1e-3
        )
        assert window.picture_changes(seen)
        assert window.complaints() == []
        assert window.can_talk_to(server) == "open"
        driver.get("data:text/html,<p>a foreign page</p>")
        assert window.can_talk_to(server) == "refused"
        driver.get(f"http://localhost:{server.port}")
        window.wait("The token is missing: open the address that was printed")
