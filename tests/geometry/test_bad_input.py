"""Bad input to frames and metrics: a clear error that names the culprit."""

import jax.numpy as jnp
import numpy as np
import oracles
import pytest
import systems

import connections as cn
from connections.checks import FrameError, MetricError, NonFiniteError, PointError, ShapeError

LINE = cn.CoordinateFrame(2)


def singular(q):
    """A change of frame that is none."""
    return jnp.zeros((3, 3))


def contact_distribution(q):
    """d_x, d_y + x d_z on R^3: their bracket d_z leaves the span."""
    return jnp.zeros((3, 2)).at[0, 0].set(1.0).at[1, 1].set(1.0).at[2, 1].set(q[0])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: systems.METRIC.matrix(np.zeros(2)),
            ShapeError,
            r"q: expected shape \(\.\.\., 3\), got \(2,\)",
        ),
        (lambda: systems.METRIC.matrix(np.float64(1.0)), ShapeError, "q: expected"),
        (lambda: systems.METRIC.matrix([0.1, np.nan, 0.0]), NonFiniteError, "q"),
        (lambda: systems.METRIC.matrix([[0.1, 0, 0], [np.inf, 0, 0]]), NonFiniteError, "inf"),
        (lambda: systems.METRIC.matrix(["a", "b", "c"]), TypeError, "q"),
        (lambda: systems.SO3.matrix([0.0, 0, 0, 2.0]), PointError, "quaternion .* norm 2"),
        (lambda: systems.SO3.matrix(np.zeros(4)), PointError, "quaternion"),
        (lambda: cn.SE3Frame().matrix([1.0, 2, 3, 0, 0, 0, 1.1]), PointError, "quaternion"),
        (
            lambda: cn.MatrixFrame(lambda q: jnp.diag(q), 2, 2).matrix([1.0, 0.0]),
            FrameError,
            "lost rank .*1 of 2",
        ),
        (lambda: cn.MatrixFrame(lambda q: jnp.eye(3), 2, 2).matrix([1.0, 0.0]), ShapeError, "frame matrix"),
        (
            lambda: cn.MatrixFrame(contact_distribution, 2, 3).structure_functions([0.5, 0.0, 0.0]),
            FrameError,
            "leave its span",
        ),
        (
            lambda: systems.FRAME.change(lambda q: jnp.zeros((3, 3))).matrix(np.zeros(3)),
            FrameError,
            "not invertible",
        ),
        (lambda: cn.ConstantMetric(LINE, np.diag([1.0, -1.0])), MetricError, "positive definite"),
        (lambda: cn.ConstantMetric(LINE, np.array([[1.0, 0.5], [0.0, 1.0]])), MetricError, "symmetric"),
        (lambda: cn.ConstantMetric(LINE, np.eye(3)), ShapeError, "H"),
        (lambda: cn.ConstantMetric(LINE, np.full((2, 2), np.nan)), NonFiniteError, "H"),
        (
            lambda: cn.MatrixMetric(LINE, lambda q: jnp.diag(q)).matrix([[1.0, 1.0], [1.0, -2.0]]),
            MetricError,
            r"positive definite.*-2",
        ),
        (
            lambda: cn.MatrixMetric(LINE, lambda q: jnp.array([[1.0, 0.3], [0.0, 1.0]])).matrix([0.0, 0.0]),
            MetricError,
            "symmetric",
        ),
        (lambda: cn.MatrixMetric(LINE, lambda q: jnp.eye(3)).matrix([0.0, 0.0]), ShapeError, "metric matrix"),
        (lambda: cn.CoordinateFrame(0), (ValueError, TypeError), "dim"),
        (
            lambda: cn.MatrixFrame(lambda q: jnp.ones((2, 3)), 3, 2),
            ValueError,
            "ambient_dim: expected at least dim = 3",
        ),
        (
            lambda: cn.ProductFrame(LINE, cn.MatrixFrame(jnp.diag, 2, 2)).matrix([0.0, 0.0, 1.0, 0.0]),
            FrameError,
            "lost rank .*1 of 2",
        ),
        (
            lambda: cn.CoordinateFrame(1).lie_derivative(lambda q: jnp.sqrt(q[0]), [-4.0]),
            NonFiniteError,
            r"lie_derivative of CoordinateFrame is not finite at q = \[-4",
        ),
    ],
)
def test_error_names_the_culprit(call, error, message):
    with pytest.raises(error, match=message):
        call()


class RightHalf(cn.CoordinateFrame):
    """The plane x > 0; elsewhere `explain` has nothing to say."""

    def valid_at(self, q):
        return q[0] > 0.0


def test_a_frame_that_is_not_valid_and_does_not_say_why_gives_no_numbers():
    np.testing.assert_array_equal(RightHalf(2).matrix([1.0, 0.0]), np.eye(2))
    with pytest.raises(NonFiniteError, match="matrix of RightHalf .* not valid"):
        RightHalf(2).matrix([-1.0, 0.0])


def test_a_singular_pullback_is_no_metric():
    """At the pole of the sphere the embedding of the chart loses rank."""
    with pytest.raises(MetricError, match="positive definite"):
        systems.SPHERE_PULLBACK.matrix([0.0, 0.3])


def test_a_quaternion_off_by_rounding_is_accepted(rng):
    q = oracles.random_quaternion(rng)
    systems.SO3.matrix(q * (1 + 1e-9))
    with pytest.raises(PointError):
        systems.SO3.matrix(q * (1 + 1e-3))


def test_inclusion_that_is_not_the_derivative_of_the_embedding():
    flat = cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3))
    wrong = cn.InducedMetric(flat, LINE, lambda q: jnp.eye(3)[:, :2], systems.sphere_point)
    with pytest.raises(FrameError):
        wrong.matrix([0.7, 0.3])


def test_one_bad_point_in_a_batch_is_found():
    q = np.tile([0.0, 0.0, 0.0, 1.0], (5, 1))
    q[3] *= 1.5
    with pytest.raises(PointError, match=r"1\.5"):
        systems.SO3.matrix(q)


def test_another_signature_is_told_how_it_is_declared():
    """Not where an eigenvalue is zero."""
    for H, told in ((np.diag([-1.0, 2.0]), True), (np.diag([0.0, 2.0]), False), (-np.eye(2), False)):
        with pytest.raises(cn.checks.MetricError, match=r"\(smallest eigenvalue") as error:
            cn.ConstantMetric(cn.CoordinateFrame(2), H)
        assert ("signature=(1, 1)" in str(error.value)) == told
