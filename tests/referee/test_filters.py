"""Filters of our own, right and wrong in the ways of public ones, before the referee.

Two faults were found in public filters in 2026: a covariance that was moved by a transposed Jacobian, which
a test that computed the same expression again did not see, and a reset that was left out. Both are here, in
our own words.
"""

import json

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from connections import cli, referee
from connections.checks import NonFiniteError, ShapeError
from connections.referee.filters import MEANINGS

STARS = np.array([[0.0, 0.0, 1.0], [0.8, 0.0, 0.6]])
N = np.diag([1.0, 2.0, 3.0, 2.0, 1.0, 1.5]) * 1e-4
GYRO = 1e-5 * np.diag([1.0, 2.0, 3.0])
P0 = 1e-4 * np.array([[4.0, 1.0, 0.5], [1.0, 2.0, -0.3], [0.5, -0.3, 1.0]])
FORMS = {
    "matrix": (lambda x: x.reshape(3, 3), lambda R: R.ravel()),
    "xyzw": (
        lambda x: Rotation.from_quat(x).as_matrix(),
        lambda R: Rotation.from_matrix(R).as_quat(),
    ),
    "wxyz": (
        lambda x: Rotation.from_quat(np.roll(x, -1)).as_matrix(),
        lambda R: np.roll(Rotation.from_matrix(R).as_quat(), 1),
    ),
}
U = np.array([0.3, -0.2, 0.5])
X = Rotation.from_rotvec([0.4, -0.9, 0.3]).as_matrix()


def cross(w):
    return np.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])


def exp(w):
    return Rotation.from_rotvec(w).as_matrix()


def right_jacobian(w):
    a, x = np.linalg.norm(w), cross(w)
    return (
        np.eye(3) - (1.0 - np.cos(a)) / a**2 * x + (a - np.sin(a)) / a**3 * x @ x if a > 1e-8 else np.eye(3)
    )


def attitude(
    form="matrix",
    error="body",
    reset=lambda J: J,
    transition=lambda F: F,
    jacobian=lambda H: H,
    gyroscope=lambda w: w,
    step=lambda e: e,
    after=lambda P: P,
    iterations=1,
    **options,
):
    """A filter of an attitude by a gyroscope and two stars, with a place for every fault."""
    read, write = FORMS[form]

    def moved(R, e):
        return R @ exp(e) if error == "body" else exp(e) @ R

    def slope(R):
        seen = STARS @ R  # d of R exp(e): row s becomes s + s x e
        in_body = np.concatenate([cross(s) for s in seen])
        return jacobian(in_body if error == "body" else in_body @ R.T)

    def predict(x, P, u, dt):
        R, w = read(x), gyroscope(u) * dt
        F = transition(exp(-w)) if error == "body" else np.eye(3)
        G = np.eye(3) if error == "body" else R
        return write(R @ exp(w)), F @ P @ F.T + G @ GYRO @ G.T * dt

    def measurement(x):
        return (STARS @ read(x)).ravel()

    def update(x, P, z):
        R, e = read(x), np.zeros(3)
        for _ in range(iterations):
            J = right_jacobian(e) if error == "body" else right_jacobian(-e)
            there = moved(R, e)
            H = slope(there) @ J
            K = P @ H.T @ np.linalg.inv(H @ P @ H.T + N)
            e = K @ (z - (STARS @ there).ravel() + H @ e)
        J = reset(right_jacobian(e) if error == "body" else right_jacobian(-e))
        return write(moved(R, step(e))), after(J @ (P - K @ H @ P) @ J.T)

    given = {"x": write(X), "P": P0, "u": U, "dt": 0.1, "rate": slice(0, 3), "world": "any", **options}
    state = referee.FilterState(("rotation",), form=form, error=error)
    return referee.BlackBoxFilter(predict, update, measurement, N, state, **given)


def audited(*arguments, **options):
    return referee.audit_filter(attitude(*arguments, **options))


@pytest.mark.parametrize("form, error", [("matrix", "body"), ("xyzw", "world"), ("wxyz", "body")])
def test_a_right_filter_is_right(form, error):
    report = audited(form, error)
    given = [name for name in MEANINGS if name != "world_update"]
    assert {report[name].verdict for name in given} == {"holds"} and not report.failing, report
    assert report["world_update"].verdict == "not given" and report.kind == "extended, exact reset"
    assert not report.notes


def test_an_iterated_filter_is_known():
    report = audited(iterations=12)
    assert report.kind == "iterated, exact reset" and not report.failing, report
    assert audited(iterations=12, reset=lambda J: np.eye(3)).kind == "iterated, no reset"


FAULTS = {
    "a reset that is missing": ({"reset": lambda J: np.eye(3)}, {"reset"}, "no reset"),
    "a covariance reset by the transposed Jacobian": (
        {"reset": lambda J: J.T},
        {"reset"},
        "transposed reset",
    ),
    "a transposed transition": (
        {"transition": lambda F: F.T},
        {"transition", "noise"},
        "transposed transition",
    ),
    "degrees for radians, of a gyroscope": ({"gyroscope": np.radians}, {"rate"}, "degrees per second"),
    "a step in degrees": ({"step": np.degrees}, {"gain", "reset"}, "into degrees"),
    "a Jacobian by degrees": (
        {"jacobian": lambda H: np.radians(H)},
        {"gain", "covariance"},
        "Jacobian by degrees",
    ),
    "a velocity in axes of the world": ({"gyroscope": lambda w: X.T @ w}, {"rate"}, "axes of the world"),
    "a covariance that is not symmetric": (
        {"after": lambda P: P + np.triu(1e-6 * np.ones((3, 3)), 1)},
        {"symmetric", "covariance", "reset"},
        "",
    ),
    "a covariance that is not definite": (
        {"after": lambda P: P - 3e-4 * np.eye(3)},
        {"definite", "covariance", "reset"},
        "",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(fault):
    given, rows, words = FAULTS[fault]
    report = audited(**given)
    assert rows <= set(report.failing), report
    assert words in " ".join(report.notes), report.notes
    assert not {"reset"} & set(report.failing) or "reset" in rows


# --- poses, biases, vectors of the world -------------------------------------------------------------------


def navigation(form="xyzw", error="body", order="wv", gravity=9.81, transition=1.0, **options):
    """A pose by odometry, the bias of its gyroscope, a velocity of the world, and fixes of the position."""
    state = referee.FilterState(("pose", "vector(3)", "world(3)"), form, error, order)
    k, noise = state.dim, 1e-6 * np.diag(np.repeat([1.0, 2.0, 3.0, 4.0], 3))
    first = slice(0, 3) if order == "wv" else slice(3, 6)

    def moved(x, u, dt):
        """The pose by the rate less the bias and the speed along the body, the velocity by gravity."""
        pose = slice(0, state.size - 6)
        own = referee.FilterState(("pose",), form, "body", "wv")
        step = np.concatenate([u[:3] - x[-6:-3], u[3:]]) * dt
        fall = x[-3:] - np.array([0.0, 0.0, gravity]) * dt
        return np.concatenate([own.moved(x[pose], step), x[-6:-3], fall])

    def differences(f, sizes=1e-4):
        return np.stack([(f(sizes * e) - f(-sizes * e)) / (2.0 * sizes) for e in np.eye(k)], axis=1)

    def predict(x, P, u, dt):
        end = moved(x, u, dt)
        Phi = differences(lambda e: state.difference(end, moved(state.moved(x, e), u, dt)))
        Phi[first, 6:9] *= transition
        return end, Phi @ P @ Phi.T + noise * dt

    def position(x):
        return x[: state.size - 6].reshape(4, 4)[:3, 3] if form == "matrix" else x[:3]

    def update(x, P, z):
        H = differences(lambda e: position(state.moved(x, e)))
        S = H @ P @ H.T + 1e-4 * np.eye(3)
        K = np.linalg.solve(S, H @ P).T
        e = K @ (z - position(x))
        J = state.reset(x, e)
        return state.moved(x, e), J @ (P - K @ S @ K.T) @ J.T

    A = np.random.default_rng(3).normal(size=(k, k))
    x0 = np.concatenate([[0.5, -1.0, 2.0], Rotation.from_matrix(X).as_quat()])
    if form == "matrix":
        whole = np.eye(4)
        whole[:3, :3], whole[:3, 3] = X, x0[:3]
        x0 = whole.ravel()
    given = {
        "x": np.concatenate([x0, [0.01, -0.02, 0.03], [0.3, 0.1, -0.2]]),
        "P": 1e-4 * (np.eye(k) + 0.1 * A @ A.T),
        "u": [0.3, -0.2, 0.5, 1.0, 0.2, 0.1],
        "dt": 0.1,
        "rate": slice(0, 3),
        **options,
    }
    return referee.BlackBoxFilter(predict, update, position, 1e-4 * np.eye(3), state, **given)


@pytest.mark.parametrize(
    "form, error, order",
    [("xyzw", "body", "vw"), pytest.param("matrix", "world", "wv", marks=pytest.mark.further)],
)
def test_a_pose_with_biases_and_a_velocity(form, error, order):
    """The filter's own Jacobians are differences of second order; gravity leaves turns about the vertical."""
    made = navigation(form, error, order, world="vertical" if error == "body" else None)
    report = referee.audit_filter(made, 1e-5)
    assert not report.failing and report.kind == "extended, exact reset", report
    assert report["reset"].control > 1e-3


@pytest.mark.further
def test_a_forgotten_bias_and_the_wrong_vertical():
    report = referee.audit_filter(navigation(transition=0.5, world="any"), 1e-5)
    assert {"transition", "world_predict"} <= set(report.failing), report


def test_an_update_in_a_turned_world():
    """Fixes of the position turn with the world; those of a tower at a known place do not."""
    made = navigation("matrix", "world", gravity=0.0, world="any", turned=lambda R, z: R @ z, rate=None)
    report = referee.audit_filter(made, 1e-5)
    assert report["world_update"].verdict == "holds" and not report.failing, report
    with pytest.raises(ValueError, match="turned"):
        referee.audit_filter(navigation(gravity=0.0, world="any", turned=lambda R, z: z))


def test_states_move_and_come_back():
    """By matrices: exp of se(3) with SciPy."""
    from scipy.linalg import expm

    e = np.array([0.4, -0.3, 0.8, 0.5, 0.2, -0.6])
    twist = np.zeros((4, 4))
    twist[:3, :3], twist[:3, 3] = cross(e[:3]), e[3:]
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = X, [0.5, -1.0, 2.0]
    for error, moved in (("body", pose @ expm(twist)), ("world", expm(twist) @ pose)):
        state = referee.FilterState("pose", form="matrix", error=error)
        assert np.allclose(state.moved(pose.ravel(), e).reshape(4, 4), moved, atol=1e-12)
        assert np.allclose(state.difference(pose.ravel(), moved.ravel()), e, atol=1e-12)
        other = referee.FilterState("pose", form="matrix", error=error, order="vw")
        assert np.allclose(other.difference(pose.ravel(), moved.ravel()), np.roll(e, 3), atol=1e-12)
    state, w = referee.FilterState("rotation", form="matrix"), e[:3]
    assert np.allclose(state.reset(X.ravel(), w), right_jacobian(w), atol=1e-10)
    assert not np.allclose(state.reset(X.ravel(), w), right_jacobian(-w), atol=1e-2)


# --- what is refused, and the command ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "error, words, options",
    [
        (ValueError, "P", {"P": -np.eye(3)}),
        (ShapeError, "P", {"P": np.eye(4)}),
        (ShapeError, "x", {"x": np.zeros(4)}),
        (ValueError, "rotation", {"x": np.ones(9)}),
        (NonFiniteError, "u", {"u": [0.0, np.nan, 0.0]}),
        (ValueError, "world", {"world": "up"}),
        (ShapeError, "rate", {"rate": slice(0, 2)}),
        (ValueError, "dt", {"dt": -0.1}),
        (TypeError, "turned", {"turned": 3}),
    ],
)
def test_bad_input_is_named(error, words, options):
    with pytest.raises(error, match=words):
        attitude(**options)


def test_what_functions_return_is_judged_by_name():
    def line(**functions):
        given = {
            "predict": lambda x, P, u, dt: (x, P),
            "update": lambda x, P, z: (x, P),
            "measurement": lambda x: x,
        }
        state = referee.FilterState("vector(1)")
        made = referee.BlackBoxFilter(**given | functions, N=[[1]], state=state, x=[0], P=[[1]], u=[0], dt=1)
        return referee.audit_filter(made)

    assert line().failing == ("gain", "covariance") and line()["reset"].verdict == "not applicable"
    with pytest.raises(ShapeError, match="x of predict"):
        line(predict=lambda x, P, u, dt: (np.zeros(2), P))
    with pytest.raises(TypeError, match="update"):
        line(update=lambda x, P, z: x)
    with pytest.raises(NonFiniteError, match="P of update"):
        line(update=lambda x, P, z: (x, np.nan * P))
    with pytest.raises(referee.BlackBoxError, match="measurement raised ZeroDivisionError"):
        line(measurement=lambda x: 1 / 0)
    for words in ("scheme", "vector(0)"):
        with pytest.raises(ValueError, match="parts"):
            referee.FilterState(words)
    with pytest.raises(ValueError, match="form"):
        referee.FilterState("rotation", form="zyx")


CODE = """\
import numpy as np
from connections import referee

def made(gain=1.0):
    def update(x, P, z):
        K = P / (P + 0.04)
        return x + gain * K[0] * (z - x), (1.0 - K) * P

    return referee.BlackBoxFilter(
        lambda x, P, u, dt: (x + u * dt, P + 0.01 * dt * np.eye(1)),
        update, lambda x: x, [[0.04]], referee.FilterState("vector(1)"), x=[0.3], P=[[0.01]], u=[0.1], dt=0.1,
    )

right, wrong, number = made(), made(0.5), 3
"""


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    (tmp_path / "my_filter.py").write_text(CODE)
    assert cli.main(["audit-filter", "my_filter.py:right"]) == 0
    assert cli.main(["audit-filter", "my_filter.py:wrong", "--json", "found.json"]) == 1
    out = capsys.readouterr().out
    assert "gain" in out and max(map(len, out.splitlines())) <= 80
    assert json.loads((tmp_path / "found.json").read_text())["failing"] == ["gain"]
    assert cli.main(["audit-filter", "my_filter.py:number"]) == 2
    assert cli.main(["audit-filter", "my_filter.urdf"]) == 2
    assert "BlackBoxFilter" in capsys.readouterr().err
