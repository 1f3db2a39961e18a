"""Networks as parameters: pytrees with functions among their leaves, as those of equinox are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pages import run_page

import connections as cn

FRAME, Q = cn.CoordinateFrame(2), np.array([0.3, -0.2])


@jax.tree_util.register_pytree_node_class
class Network:
    """Two layers; the activation is a leaf, as in `equinox.nn.MLP`."""

    def __init__(self, weights, activation):
        self.weights, self.activation = weights, activation

    def __call__(self, q):
        first, second = self.weights
        return second @ self.activation(first @ q)

    def tree_flatten(self):
        return (self.weights, self.activation), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


def spd(parts):
    L = jnp.stack([jnp.stack([jnp.exp(parts[0]), 0.0]), jnp.stack([parts[1], jnp.exp(parts[2])])])
    return L @ L.T


def mass(q, network):
    return spd(network(q))


def weights_of(seed):
    rng = np.random.default_rng(seed)
    return [0.5 * rng.standard_normal((4, 2)), 0.5 * rng.standard_normal((3, 4))]


def test_a_network_with_functions_among_its_leaves():
    """As the same numbers in a list; networks of one form share what is compiled, other functions do not."""
    weights = weights_of(1)
    as_list = cn.MatrixMetric(FRAME, lambda q, w: spd(w[1] @ jnp.tanh(w[0] @ q)), weights)
    metric = cn.MatrixMetric(FRAME, mass, Network(weights, jnp.tanh))
    found = metric.matrix(Q)
    np.testing.assert_array_equal(found, as_list.matrix(Q))
    structures = [
        jax.tree_util.tree_structure(cn.MatrixMetric(FRAME, mass, Network(weights_of(seed), activation)))
        for seed, activation in ((1, jnp.tanh), (2, jnp.tanh), (1, jnp.cos))
    ]
    assert structures[0] == structures[1] != structures[2]
    other = cn.MatrixMetric(FRAME, mass, Network(weights, jnp.cos))
    assert np.abs(np.asarray(other.matrix(Q)) - found).max() > 1e-3


def test_derivatives_by_weights_inside_jit():
    """Of Gamma(v, v), against a difference along a direction."""
    v, weights = np.array([1.0, 0.5]), weights_of(1)
    direction = weights_of(2)

    def bend(w):
        metric = cn.MatrixMetric(FRAME, mass, Network(w, jnp.tanh))
        return jnp.sum(cn.LeviCivita(metric).apply(jnp.asarray(Q), v, v))

    value = jax.jit(jax.value_and_grad(bend))
    slope = sum(np.sum(a * b) for a, b in zip(value(weights)[1], direction, strict=True))
    ends = [
        float(value([w + sign * 1e-5 * d for w, d in zip(weights, direction, strict=True)])[0])
        for sign in (1.0, -1.0)
    ]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-5, rtol=1e-7)
    assert abs(slope) > 1e-2


class Definition:
    """A module whose numbers are kept elsewhere, as of `flax.linen`."""


def test_what_has_no_numbers_is_named():
    with pytest.raises(TypeError, match=r"a Definition is no pytree of arrays.*net.init\(key, q\)"):
        cn.MatrixMetric(FRAME, mass, Definition())


@pytest.mark.further
def test_networks_of_equinox():
    import equinox as eqx

    net = eqx.nn.MLP(2, 3, 8, 2, activation=jnp.tanh, key=jax.random.key(0))
    times = np.linspace(0.0, 1.0, 3)

    def end(net):
        nabla = cn.LeviCivita(cn.MatrixMetric(FRAME, mass, net))
        return jnp.sum(cn.geodesic(nabla, jnp.asarray(Q), jnp.array([1.0, 0.2]), times).q[-1])

    slope = eqx.filter_jit(eqx.filter_grad(end))(net).layers[0].bias
    bias = net.layers[0].bias
    moved = [eqx.tree_at(lambda m: m.layers[0].bias, net, bias.at[2].add(h)) for h in (1e-5, -1e-5)]
    expected = (float(end(moved[0])) - float(end(moved[1]))) / 2e-5
    np.testing.assert_allclose(slope[2], expected, rtol=1e-5, atol=1e-9)


@pytest.mark.further
def test_the_page_of_learning():
    run_page("learning_a_metric.md", blocks=8)
