"""Layouts: frames of other libraries by closed forms, against differences and against other code."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from connections import referee
from connections.checks import FrameError, PointError, ShapeError
from connections.interop.libraries.free_bodies import FreeBody

LAYOUTS = [
    each for name in ("floating_offset", "planar_base", "branches") for each in referee.candidates(name)
]


def framed(layout):
    """A robot of the layout, and its frame there."""
    base = {"euler": "floating_offset", "floating": "floating_offset", "planar": "planar_base"}
    robot = referee.robot(base.get(layout.base, "branches"))
    return robot, robot.frame_of(layout)


def fields(frame, q, h=1e-4):
    """X' (nq, n), by central differences of the points along each component."""
    steps = h * np.eye(frame.dim)
    near = [frame.points(q, k * steps) for k in (1, -1, 2, -2)]
    return ((8 * (near[0] - near[1]) - (near[2] - near[3])) / (12 * h)).T


@pytest.mark.parametrize("layout", LAYOUTS[::9], ids=lambda layout: layout.name)
def test_the_brackets_are_those_of_the_fields(layout):
    """X' s'[:, i, j] = [X'_i, X'_j], with the derivatives of the fields by differences along the points."""
    robot, frame = framed(layout)
    q, h = robot.q_in(layout)[0], 1e-4
    X, s = fields(frame, q), frame.structure(q)
    steps = h * np.eye(frame.dim)
    sides = [[fields(frame, p) for p in frame.points(q, k * steps)] for k in (1, -1)]
    slopes = (np.stack(sides[0]) - np.stack(sides[1])) / (2 * h)  # [direction, component, field]
    bracket = np.einsum("iaj->aij", slopes) - np.einsum("jai->aij", slopes)
    assert np.allclose(np.einsum("ak,kij->aij", X, s), bracket, atol=2e-5)
    if layout.base == "fixed" or layout.axes == "rates" or (layout.base, layout.axes) == ("planar", "world"):
        assert np.allclose(s, 0.0, atol=1e-12)  # of coordinates
    else:
        assert not np.allclose(np.einsum("ak,kij->aij", X, -s), bracket, atol=1e-2)


@pytest.mark.parametrize("layout", LAYOUTS[::5], ids=lambda layout: layout.name)
def test_slopes_of_the_coframe(layout):
    """X_a T, by differences along our own fields."""
    robot, frame = framed(layout)
    ours, h = robot.frame_of(robot.layout), 1e-5
    sides = [[frame.coframe(p) for p in ours.points(robot.q[0], k * h * np.eye(frame.dim))] for k in (1, -1)]
    slopes = (np.stack(sides[0]) - np.stack(sides[1])) / (2 * h)
    assert np.allclose(frame.coframe_slopes(robot.q[0]), slopes, atol=1e-8)


@pytest.mark.parametrize("layout", LAYOUTS[::5], ids=lambda layout: layout.name)
def test_there_and_back(layout):
    robot, frame = framed(layout)
    for theirs, ours in zip(robot.q_in(layout), robot.q, strict=True):
        again = frame.to_ours(theirs)
        turn = slice(3, 7) if robot.base == "floating" else slice(0, 0)
        again[turn] *= np.sign(again[turn] @ ours[turn]) if turn.stop else 1.0
        assert np.allclose(again, ours, atol=1e-12)


def test_batches_of_velocities():
    """Leading axes broadcast; back again; the order of the parts is seen."""
    robot, layout = referee.robot("floating_offset"), referee.euler("wv", "mixed", (0.1, 0.2, 0.3), "ypr")
    many = np.stack([robot.v, 2.0 * robot.v, -robot.v])
    theirs = layout.v_from(robot.q, many)
    assert theirs.shape == (3, 2, 7) and np.allclose(theirs[1], 2.0 * theirs[0])
    assert np.allclose(layout.v_to(robot.q, theirs), many) and not np.allclose(theirs, many, atol=0.1)
    swapped = referee.euler("vw", "mixed", (0.1, 0.2, 0.3)).v_from(robot.q, many)
    assert np.allclose(swapped[..., [3, 4, 5, 0, 1, 2, 6]], theirs)
    assert layout.q_from(robot.q[None]).shape == (1, 2, 7)
    with pytest.raises(FrameError, match="whose joints have these names"):
        referee.fixed(["hip"]).v_from([0.1], [0.2])


@pytest.mark.parametrize("axes", ["body", "mixed", "world", "linear-world"])
@pytest.mark.parametrize("order", ["vw", "wv"])
def test_the_adaptors_of_libraries_have_the_same_representations(axes, order):
    """T and its rate along the motion, against the code by which libraries are audited."""
    robot = referee.robot("floating_body")
    frame = robot.frame_of(referee.floating(order, axes))
    q, v = robot.q[0], robot.v[0]
    change = FreeBody().change({"world": "inertial", "linear-world": "linear in world"}.get(axes, axes), q, v)
    swap = [3, 4, 5, 0, 1, 2] if order == "wv" else list(range(6))
    rate = np.einsum("aij,a->ij", frame.coframe_slopes(q), v)
    assert np.allclose(frame.coframe(q), change.T[swap], atol=1e-12)
    assert np.allclose(rate, change.T_dot[swap], atol=1e-12)


def test_the_velocity_of_the_centre_of_mass():
    """Its own position differentiated, in world axes."""
    robot, h = referee.robot("floating_offset"), 1e-6
    layout, ours = referee.floating("vw", "mixed", "com"), robot.frame_of(robot.layout)
    q, v = robot.q[0], robot.v[0]

    def com(point):
        return point[:3] + Rotation.from_quat(point[3:7]).apply(robot.com)

    forth, back = (com(ours.points(q, k * h * v[None])[0]) for k in (1, -1))
    nu = robot.frame_of(layout).coframe(q) @ v
    assert np.allclose(nu[:3], (forth - back) / (2 * h), atol=1e-8)
    assert not np.allclose(nu[:3], Rotation.from_quat(q[3:7]).apply(v[3:6]), atol=1e-2)  # of the frame
    other = robot.frame_of(referee.floating("wv", "angular-world")).coframe(q) @ v
    assert np.allclose(other[:3], nu[3:6]) and np.allclose(other[3:6], v[3:6])

    robot = referee.robot("planar_base")
    ours, (q, v) = robot.frame_of(robot.layout), (robot.q[0], robot.v[0])

    def in_the_plane(point):
        c, s = np.cos(point[2]), np.sin(point[2])
        return point[:2] + np.array([[c, -s], [s, c]]) @ robot.com[:2]

    forth, back = (in_the_plane(ours.points(q, k * h * v[None])[0]) for k in (1, -1))
    nu = robot.frame_of(referee.planar("world", "vw", "com")).coframe(q) @ v
    assert np.allclose(nu[:2], (forth - back) / (2 * h), atol=1e-8) and nu[2] == v[0]


def test_angles_and_their_rates():
    """Against SciPy's rotation; the velocity in the layout of rates is that of the coordinates."""
    robot = referee.robot("floating_body")
    layout = referee.euler(axes="rates")
    frame, q = robot.frame_of(layout), robot.q_in(layout)[0]
    turn = Rotation.from_euler("xyz", q[3:6]).as_matrix()
    assert np.allclose(Rotation.from_quat(robot.q[0][3:7]).as_matrix(), turn)
    assert np.allclose(robot.q_in(referee.euler(angles="ypr"))[0], [*q[:3], *q[:2:-1]])
    assert np.allclose(fields(frame, q), np.eye(6), atol=1e-8)


def test_wrong_layouts_are_refused_by_name():
    with pytest.raises(ValueError, match=r"axes: .*'wrld'.*did you mean world"):
        referee.floating("vw", "wrld")
    with pytest.raises(ShapeError, match=r"point: expected shape \(3,\)"):
        referee.floating(point=(1.0, 2.0))
    with pytest.raises(FrameError, match="the centre of mass is unknown here"):
        referee.floating(point="com").at(7)
    with pytest.raises(FrameError, match="there is no joint 'elbow'"):
        referee.robot("branches").frame_of(referee.fixed(["elbow", "a1", "a2", "b1", "b2"]))
    with pytest.raises(FrameError, match="has a fixed base"):
        referee.robot("branches").frame_of(referee.floating())
    with pytest.raises(PointError, match="norm 2"):
        referee.floating().at(7).to_ours(np.array([0, 0, 0, 0, 0, 0, 2.0]))
    with pytest.raises(PointError, match="a quarter turn"):
        referee.euler(axes="rates").v_from([0, 0, 0, 0, np.sqrt(0.5), 0, np.sqrt(0.5)], np.ones(6))
