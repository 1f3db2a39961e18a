"""The referee: what is right passes, and what is wrong is named, in both precisions and in any layout."""

import numpy as np
import pytest
from plain_dynamics import Plain
from referee_library import ROBOTS, audit_of_random, library
from referee_mistakes import MISTAKES, judged

import connections as cn
from connections import referee
from connections.checks import CheckError, NonFiniteError, PointError, ShapeError

PRECISIONS = [np.float64, np.float32]
GIVEN = "symmetric", "definite", "quadratic", "bias", "product", "linear", "skew", "gravity"
CHEAP = (
    "slide not turned",
    "inertia turned by ypr",
    "axis not normalized",
    "upper triangle only",
    "no acceleration of the current",
    "mimic without offset",
    "no armature",
    "no gyroscopic term",
    "bias with gravity",
    "C transposed",
    "C without skew",
    "C as derivative by v",
    "derivative by q transposed",
    "derivative index last",
)
TWO_LINKS = {"frame": referee.fixed(), "q": [0.3, 0.7], "v": [0.5, -0.4]}


def H(q):
    c = np.cos(q[1])
    return np.array([[3 + 2 * c, 1 + c], [1 + c, 1.0]])


def bias(q, v):
    return -np.sin(q[1]) * np.array([2 * v[0] * v[1] + v[1] ** 2, -(v[0] ** 2)])


def C(q, v):
    return -np.sin(q[1]) * np.array([[v[1], v[0] + v[1]], [-v[0], 0.0]])


def audited(robot, layout=None, precision=np.float64, **more):
    there = library(robot, layout, precision)
    functions = there.mass_matrix, there.bias, there.coriolis, there.gravity
    return referee.audit_robot(robot, *functions, layout=layout, **more)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", ["floating_body", "turned_inertias", "light_finger"])
def test_what_is_right_passes(name, precision):
    """C of the plain dynamics has torsion, which is no fault; each other row would have seen a mistake."""
    report = audited(referee.robot(name), precision=precision, samples=1)
    assert report.precision == np.dtype(precision).name
    assert report.kind == "torsion" and report.failing == () and report["torsion_free"].verdict == "fails"
    for row in GIVEN + ("same_mass_matrix", "same_bias", "same_gravity"):
        assert report[row].verdict == "holds", row
        assert report[row].control > report[row].tolerance, row
    assert report.require(GIVEN) is report


@pytest.mark.parametrize(
    "layout",
    [
        referee.floating("vw", "mixed", "com", joints=["joint1"]),
        referee.floating("wv", "angular-world", quaternion="wxyz"),
        referee.euler("vw", "rates", angles="ypr"),
    ],
    ids=lambda layout: layout.name,
)
def test_a_library_is_judged_in_its_own_layout(layout):
    robot = referee.robot("floating_offset")
    report = audited(robot, layout, samples=1)
    assert report.failing == () and report.kind == "torsion"
    there = library(robot, layout)
    other = referee.floating(
        "vw", "body", quaternion=layout.orientation if layout.base == "floating" else "xyzw"
    )
    if layout.base == "floating":  # the same functions taken for those of another layout
        wrong = referee.audit_robot(robot, there.mass_matrix, there.bias, layout=other, samples=1)
        assert "same_mass_matrix" in wrong.failing and "bias" in wrong.failing


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("mistake", CHEAP)
def test_a_mistake_is_named(mistake, precision):
    report, expected = judged(mistake, precision)
    assert set(report.failing) == expected, str(report)


@pytest.mark.further
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("mistake", sorted(set(MISTAKES) - set(CHEAP)))
def test_every_mistake_is_named(mistake, precision):
    report, expected = judged(mistake, precision)
    assert set(report.failing) == expected, str(report)


@pytest.mark.parametrize("seed, precision", [(3, np.float32), (16, np.float64), (16, np.float32)])
def test_random_robots_give_no_alarm(seed, precision):
    """`tests/benchmarks/referee.py` tries 200."""
    report = audit_of_random(seed, precision)
    assert report.failing == () and "unknown" not in report.verdicts.values(), str(report)
    assert report["bias"].verdict == "holds" and report.precision == np.dtype(precision).name


def test_a_library_that_cannot_is_no_wrong_number():
    """Of libraries that refuse slides, or return NaN without inertia of the root: the sample is named."""
    slides = library(referee.robot("slide_behind_hinge"), mistake="slides refused")
    with pytest.raises(referee.BlackBoxError, match="raised NotImplementedError: no slides; sample 0"):
        referee.audit_robot("slide_behind_hinge", slides.mass_matrix)
    rootless = library(referee.robot("massless_root"), mistake="a root needs inertia")
    with pytest.raises(NonFiniteError, match=r"mass_matrix: entry \[0, 0\] is nan; sample 0"):
        referee.audit_robot("massless_root", rootless.mass_matrix)
    other = library(referee.robot("floating_body"), mistake="a root needs inertia")
    assert referee.audit_robot("floating_body", other.mass_matrix).failing == ()


def test_one_joint_alone_has_no_bias():
    """H is constant and the bias round-off of the library: nothing to see, and no alarm."""
    report = audit_of_random(2, np.float32)
    assert report.failing == () and report["bias"].verdict == "empty"
    wrong = referee.audit_functions(
        lambda q: np.eye(1), lambda q, v: 1e-3 * v * v, frame=referee.fixed(), q=[0.3], v=[0.5]
    )
    assert wrong.failing == ("bias",) and wrong["bias"].residual > wrong["bias"].tolerance


def test_gravity_and_damping_in_a_bias_are_said():
    report, _ = judged("bias with gravity", np.float64)
    assert any("is gravity in it" in note for note in report.notes)
    report, _ = judged("bias with damping", np.float64)
    assert any("is damping in it" in note for note in report.notes)


def test_the_table_of_a_report():
    report = referee.audit_functions(H, bias, C, **TWO_LINKS)
    assert report.kind == "riemannian" and set(report.verdicts) >= set(GIVEN)
    text, words = str(report), report.to_dict()
    assert "nothing fails" in text and "galilean" not in text  # rows that were not given are left out
    assert words["verdicts"]["galilean"] == "not given" and words["rows"][0]["name"] == "symmetric"
    with pytest.raises(CheckError, match="gravity was not given"):
        report.require(["gravity"])
    with pytest.raises(KeyError, match="did you mean bias"):
        report.require(["bais"])
    wrong = referee.audit_functions(H, lambda q, v: 0.99 * bias(q, v), **TWO_LINKS)
    with pytest.raises(CheckError, match="bias fails at sample 0"):
        wrong.require()
    assert wrong.kind == "wrong vector"


def test_kinds_are_those_of_the_audit_of_a_matrix():
    """The same C by `audit_coriolis`, in a frame of this library that is no coordinate frame."""
    metric = cn.ConstantMetric(cn.SO3Frame(), np.diag([1.0, 2.0, 3.0]))
    q, v = [0.0, 0.6, 0.0, 0.8], [0.5, -0.4, 0.3]
    M = np.diag([1.0, 2.0, 3.0])

    def cross(w):
        return np.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])

    for matrix in (lambda q, v: cross(v) @ M, lambda q, v: -cross(M @ v), lambda q, v: cross(v)):
        found = referee.audit_functions(lambda q: M, None, matrix, frame=metric.frame, q=q, v=v)
        known = cn.audit_coriolis(matrix, lambda q: M, metric.frame, q, v)
        assert found.kind == known.kind
        for row in ("linear", "skew", "torsion_free"):
            assert found[row].verdict == known.verdicts[row]


def test_what_cannot_be_judged_is_said():
    """Of constant H, bias and gravity nothing would be noticed; of noise, nothing can be said."""
    M = np.array([[2.0, 0.3], [0.3, 1.0]])
    still = referee.audit_functions(lambda q: M, lambda q, v: np.zeros(2), **TWO_LINKS)
    assert still["bias"].verdict == "empty" and still.kind == "vector only"
    rng = np.random.default_rng(0)
    rough = referee.audit_functions(
        lambda q: H(q) + 1e-4 * (lambda e: e + e.T)(rng.standard_normal((2, 2))), bias, **TWO_LINKS
    )
    assert rough["bias"].verdict == "unknown" and rough.kind == "unknown"

    def only_there(q):
        if not np.array_equal(q, TWO_LINKS["q"]):
            raise ValueError("not in the table")
        return H(q)

    alone = referee.audit_functions(only_there, bias, **TWO_LINKS)
    assert alone["bias"].verdict == "unknown" and alone["symmetric"].verdict == "holds"
    assert alone.notes == ("mass_matrix raised ValueError: not in the table near sample 0",)


def test_matrices_that_are_no_metric():
    """Singular, with a zero on the diagonal, asymmetric: each is named, and nothing is divided by zero."""
    singular = referee.audit_functions(lambda q: np.ones((2, 2)), **TWO_LINKS)
    assert singular.failing == ("definite",) and singular.kind == "mass matrix only"
    empty = referee.audit_functions(lambda q: np.diag([1.0, 0.0]), bias, **TWO_LINKS)
    assert empty.failing == ("definite",) and empty["bias"].verdict == "unknown" and empty.kind == "unknown"
    nearly = np.array([[1.0, 1e-6], [1e-6, 1e-9]])
    assert referee.audit_functions(lambda q: nearly, **TWO_LINKS).failing == ()
    triangle = referee.audit_functions(lambda q: np.triu(H(q)), **TWO_LINKS)
    assert triangle.failing == ("symmetric",) and "only the upper triangle" in triangle.notes[0]


def test_units_change_no_verdict():
    """Grams and millimetres, and a robot 1e6 times as fast."""
    for scale, speed in ((1e3, 1.0), (1.0, 1e6)):
        S = np.diag([1.0, scale])

        def mass(q, S=S, scale=scale):
            return S @ H([q[0], q[1] * scale]) @ S

        def force(q, v, S=S, scale=scale):
            return S @ bias([q[0], q[1] * scale], S @ v)

        at = {"q": [0.3, 0.7 / scale], "v": speed * np.array([0.5, -0.4 / scale]), "frame": referee.fixed()}
        assert referee.audit_functions(mass, force, **at)["bias"].verdict == "holds"
        wrong = referee.audit_functions(mass, lambda q, v, f=force: 1.001 * f(q, v), **at)
        assert wrong.failing == ("bias",)


def test_bad_functions_are_named_with_their_sample():
    q, v = [[0.3, 0.7], [0.1, 0.2]], [[0.5, -0.4], [0.2, 0.1]]
    at = {"frame": referee.fixed(), "q": q, "v": v}

    def second(value):
        return lambda point, *rest: value if point[0] == 0.1 else (bias(point, *rest) if rest else H(point))

    def broken(point, velocity):
        raise IndexError("joint 7")

    with pytest.raises(
        ShapeError, match=r"mass_matrix at sample 0, q = \[0.3 0.7\]: expected shape \(2, 2\)"
    ):
        referee.audit_functions(lambda q: np.eye(3), **at)
    with pytest.raises(NonFiniteError, match=r"bias: entry \[1\] is nan; sample 1, q = \[0.1 0.2\]"):
        referee.audit_functions(H, second(np.array([0.0, np.nan])), **at)
    with pytest.raises(referee.BlackBoxError, match="coriolis raised IndexError: joint 7; sample 0"):
        referee.audit_functions(H, bias, broken, **at)
    with pytest.raises(TypeError, match="bias: expected an array of real numbers, got None; sample 0"):
        referee.audit_functions(H, lambda q, v: None, **at)
    with pytest.raises(TypeError, match="derivatives at sample 0: expected a dict"):
        referee.audit_functions(H, bias, derivatives=C, **at)
    with pytest.raises(ValueError, match="there is no 'bias_w'"):
        referee.audit_functions(H, bias, derivatives=lambda q, v: {"bias_w": 0}, **at)
    with pytest.raises(TypeError, match="mass_matrix: expected a function"):
        referee.audit_functions(np.eye(2), **at)
    with pytest.raises(ValueError, match="v: sample 1 is zero"):
        referee.audit_functions(H, frame=referee.fixed(), q=q, v=[[1, 1], [0, 0]])
    with pytest.raises(NonFiniteError, match="q: sample 1 is not finite"):
        referee.audit_functions(H, frame=referee.fixed(), q=[[1, 1], [0, np.inf]], v=v)
    with pytest.raises(PointError, match="the quaternion of the base has norm"):
        referee.audit_functions(H, frame=referee.floating(), q=np.ones(7), v=np.ones(6))
    with pytest.raises(TypeError, match="frame: expected a FrameField"):
        referee.audit_functions(H, frame="mixed", q=q, v=v)
    with pytest.raises(ValueError, match="^precision: .*float64.*float32"):
        referee.audit_functions(H, precision="half", **at)


def test_a_function_may_overwrite_its_results_and_arguments():
    buffer = np.zeros((2, 2))

    def careless(q):
        buffer[:] = H(q)
        q[:] = 9.0
        return buffer

    assert referee.audit_functions(careless, bias, **TWO_LINKS).failing == ()


@pytest.mark.parametrize("name", ["floating_offset", "planar_base", "branches"])
def test_one_layout_is_singled_out(name):
    """Of all candidates, by H and the bias of the plain dynamics brought into one of them."""
    robot = referee.robot(name)
    candidates = referee.candidates(robot)
    for layout in candidates[1 :: max(1, len(candidates) // 3)]:
        there = library(robot, layout)
        search = referee.detect_layout(there.mass_matrix, there.bias, there.gravity, robot=robot)
        assert search.fits == (layout,), f"{layout.name}\n{search}"


def test_a_layout_is_found_without_a_robot():
    """The bias against H itself, of a body whose frame is not its centre of mass."""
    robot = referee.robot("floating_body")
    layout = referee.floating("vw", "linear-world", quaternion="wxyz")
    there, q, v = library(robot, layout), robot.q_in(layout)[0], robot.v_in(layout)[0]
    near = [
        layout,
        referee.floating("vw", "mixed", quaternion="wxyz"),
        referee.floating("wv", "linear-world"),
    ]
    search = referee.detect_layout(there.mass_matrix, there.bias, q=q, v=v, candidates=near)
    assert search.fits == (layout,) and "yes" in str(search)
    with pytest.raises(ValueError, match="without robot=, give the bias, and q and v"):
        referee.detect_layout(there.mass_matrix)
    with pytest.raises(ValueError, match="no layout has 9 numbers in q and 6 in v"):
        referee.detect_layout(there.mass_matrix, there.bias, q=np.ones(9), v=np.ones(6))


@pytest.mark.parametrize("name", ["vessel_3dof", "vehicle_6dof"])
def test_a_current_is_a_moving_frame(name):
    """In body axes and in those of the world; without the current's acceleration it is not."""
    robot = referee.robot(name)
    plain, wrong = library(robot), library(robot, mistake="no acceleration of the current")
    right = referee.audit_robot(robot, plain.mass_matrix, plain.bias, current=plain.current)
    assert right["galilean"].verdict == "holds" and right["galilean"].control > 1e-3
    found = referee.audit_robot(robot, wrong.mass_matrix, wrong.bias, current=wrong.current)
    assert found.failing == ("galilean",)
    with pytest.raises(TypeError, match="current: give a layout of a base that moves"):
        referee.audit_functions(H, current=lambda q, v, u: v, **TWO_LINKS)


def test_a_current_in_the_axes_of_the_world():
    """The same vessel with velocities in the plane's axes: h' = R h(...) - H' Rdot v, by hand."""
    robot = referee.robot("vessel_3dof")
    layout = referee.planar("world")
    frame, plain, there = robot.frame_of(layout), library(robot), library(robot, layout)

    def current(q, v, u):
        ours = frame.to_ours(q)
        T, slopes = frame.coframe(ours), frame.coframe_slopes(ours)
        A = np.linalg.inv(T)
        nu = A @ v
        return A.T @ (plain.current(ours, nu, u) - plain.M @ A @ np.einsum("aij,a,j->i", slopes, nu, nu))

    report = referee.audit_robot(robot, there.mass_matrix, there.bias, layout=layout, current=current)
    assert report["galilean"].verdict == "holds" and report.failing == ()


def test_derivatives_that_are_right_hold():
    """Those of the plain dynamics, by differences of their own."""
    robot = referee.robot("negative_axes")
    plain = Plain(ROBOTS["negative_axes"])
    report = referee.audit_robot(
        robot, plain.mass_matrix, plain.bias, derivatives=plain.derivatives, samples=1
    )
    for row in ("d_mass_matrix", "d_bias_q", "d_bias_v"):
        assert report[row].verdict == "holds" and report[row].control > 1e-2, row
    with pytest.raises(ValueError, match="'gravity_q' is given, but not gravity"):
        given = {"gravity_q": np.zeros((3, 3))}
        referee.audit_robot(robot, plain.mass_matrix, derivatives=lambda q, v: given, samples=1)


@pytest.mark.parametrize("name", ["floating_offset", "products_of_inertia"])
def test_pinocchio_with_its_derivatives(name):
    """Everything that it gives, on a floating base in its own frame; half of a derivative is noticed."""
    pin = pytest.importorskip("pinocchio")
    robot = referee.robot(name)
    free = (pin.JointModelFreeFlyer(),) if robot.base == "floating" else ()
    model = pin.buildModelFromUrdf(str(robot.urdf), *free)
    data, still = model.createData(), np.zeros(model.nv)

    def mass_matrix(q):
        upper = np.triu(pin.crba(model, data, q))
        return upper + np.triu(upper, 1).T

    def gravity(q):
        return pin.computeGeneralizedGravity(model, data, q)

    def derivatives(q, v, factor=1.0):
        by_q, by_v, _ = pin.computeRNEADerivatives(model, data, q, v, still)
        pull = pin.computeGeneralizedGravityDerivatives(model, data, q)
        return {"bias_q": by_q - pull, "bias_v": factor * by_v, "gravity_q": pull}

    def audited(derivatives):
        return referee.audit_robot(
            robot,
            mass_matrix,
            lambda q, v: pin.nonLinearEffects(model, data, q, v) - gravity(q),
            lambda q, v: pin.computeCoriolisMatrix(model, data, q, v),
            gravity,
            derivatives,
            layout=referee.floating("vw", "body") if free else referee.fixed(),
            samples=1,
        )

    report = audited(derivatives)
    assert report.kind == "riemannian" and report.failing == ()
    for row in ("d_bias_q", "d_bias_v", "d_gravity"):
        assert report[row].verdict == "holds", str(report)
    assert audited(lambda q, v: derivatives(q, v, 0.5)).failing == ("d_bias_v",)
