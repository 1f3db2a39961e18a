"""`compiled` inside and outside of other transformations, and methods that are traced once."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
from recursion_functions import model

from connections.evaluation.compilation import compiled, traced_once

POINT = np.array([0.3, -0.2, 0.7])


def test_compiled_functions_work_in_any_transformation():
    """Options of the compiler are refused inside of `jit`, also for arguments that are not traced."""
    plain = lambda x: jnp.sum(jnp.sin(x) ** 3)  # noqa: E731
    function = compiled(plain)
    inside = jax.jit(lambda x: function(x) + function(POINT))
    np.testing.assert_allclose(function(POINT), plain(POINT), rtol=1e-15)
    np.testing.assert_allclose(inside(POINT), 2.0 * plain(POINT), rtol=1e-15)
    np.testing.assert_allclose(jax.grad(function)(POINT), jax.grad(plain)(POINT), rtol=1e-14)
    rows = np.stack([POINT, 2.0 * POINT])
    np.testing.assert_allclose(jax.jit(jax.vmap(function))(rows), [plain(row) for row in rows], rtol=1e-14)


def test_a_method_is_traced_once_for_each_object():
    class Scaled:
        def __init__(self, factor):
            self.factor, self.traces = factor, 0

        @traced_once
        def value_at(self, x):
            """Its documentation."""
            self.traces += 1
            return self.factor * x**2

    two, five = Scaled(2.0), Scaled(5.0)
    for scaled in (two, five):
        for transformed in (
            scaled.value_at,
            jax.jit(lambda x, s=scaled: s.value_at(x) + s.value_at(2.0 * x)),
        ):
            transformed(POINT)
        np.testing.assert_allclose(scaled.value_at(POINT), scaled.factor * POINT**2)
        assert scaled.traces == 1
    assert Scaled.value_at.__doc__ == "Its documentation."


def test_a_model_that_was_used_is_pickled():
    robot, q = model("four-bar"), model("four-bar").neutral()
    H = robot.definition.metric.matrix(q)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(robot)).definition.metric.matrix(q), H)
