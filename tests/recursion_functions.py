"""The recursions by name, on one mechanism of all joint types: what the tests of their arguments share."""

from functools import cache, partial

import numpy as np
from mechanisms import MOVING, random_mechanism, sample

from connections import multibody as mb

#: Name: the function, its arguments after the model, and the number of axes of size nv of its result.
FUNCTIONS = {
    "mass_matrix": (mb.mass_matrix, ("q",), 2),
    "coriolis_matrix": (mb.coriolis_matrix, ("q", "v"), 2),
    "coriolis_matrix with torsion": (partial(mb.coriolis_matrix, body_factor="force_cross"), ("q", "v"), 2),
    "mass_matrix_rate": (mb.mass_matrix_rate, ("q", "v"), 2),
    "christoffel_symbols": (mb.christoffel_symbols, ("q",), 3),
    "christoffel_symbols with torsion": (
        partial(mb.christoffel_symbols, body_factor="force_cross"),
        ("q",),
        3,
    ),
    "coriolis_product": (mb.coriolis_product, ("q", "v", "w"), 1),
    "coriolis_transpose_product": (mb.coriolis_transpose_product, ("q", "v", "w"), 1),
    "coriolis_product with torsion": (
        partial(mb.coriolis_product, body_factor="force_cross"),
        ("q", "v", "w"),
        1,
    ),
    "inverse_dynamics": (mb.inverse_dynamics, ("q", "v", "a"), 1),
    "gravity": (mb.gravity, ("q",), 1),
    "forward_dynamics": (mb.forward_dynamics, ("q", "v", "tau"), 1),
    "inverse_mass_matrix": (mb.inverse_mass_matrix, ("q",), 2),
    "regressor": (mb.regressor, ("q", "v", "v_r", "a_r"), None),
}


@cache
def model():
    return random_mechanism(np.random.default_rng(3), 9, MOVING, trees=2, massless=0.5)


def core_shape(name, of=None):
    """Shape of one result."""
    n, axes = (of or model()).nv, FUNCTIONS[name][2]
    return (n, 10 * len((of or model()).body_names)) if axes is None else (n,) * axes


def states(name, rng, *batch, of=None):
    """Random arguments of a function."""
    q, v = sample(of or model(), rng, *batch)
    return [q, v, *rng.standard_normal((2, *v.shape))][: len(FUNCTIONS[name][1])]


def call(name, *arguments, of=None, **options):
    return FUNCTIONS[name][0](of or model(), *arguments, **options)


def agree(a, b, tol=1e-12):
    return a.shape == b.shape and np.max(np.abs(a - b), initial=0.0) <= tol * np.max(np.abs(b), initial=0.0)
