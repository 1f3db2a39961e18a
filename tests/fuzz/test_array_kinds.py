"""Public functions return arrays of the kind that they were given."""

import jax
import numpy as np
import pytest
from cases import always
from fuzz_calls import GROUPS, calls

# What these make is called with NumPy's arrays; the others' results are stacked by the test's own functions.
OTHERS = {"ConstantMetric", "ContorsionFamily.connection"}
OTHERS |= {"inverse_dynamics_derivatives", "forward_dynamics_derivatives"}
OTHERS |= {"identify", "conjugate_times"}  # make records of NumPy's arrays


@pytest.mark.parametrize("group", always(GROUPS, "frames and metrics", "trees"))
def test_what_goes_in_comes_out(group):
    """NumPy's arrays for NumPy's arrays, and JAX's if one is JAX's."""
    for name, call in calls(group).items():
        if name.removesuffix(" from a guess") in OTHERS:
            continue
        for kind, other in ((np.ndarray, jax.Array), (jax.Array, np.ndarray)):
            given = dict(call.arguments)
            if kind is jax.Array:
                first = next(iter(given))
                given[first] = jax.numpy.asarray(given[first])
            found = jax.tree_util.tree_leaves(call.function(**given))
            assert not any(isinstance(leaf, other) for leaf in found), (name, kind)
