"""Centroidal coordinates beyond a plain tree: rotors, loops, every joint type, both body-level factors."""

import numpy as np
import pytest
from cases import always
from closed_chains import PLANS
from mechanisms import extend, random_body

from connections import multibody as mb
from connections.checks import ModelError
from connections.control import CentroidalCoordinates


def tree(*kinds):
    """A floating body, and behind it joints of these classes."""
    mechanism, rng = mb.Mechanism(), np.random.default_rng(2)
    extend(mechanism, rng, [mb.Free, *kinds], [-1, 0, 1, 1, 0][: 1 + len(kinds)])
    return mechanism.build()


ROBOTS = {
    "balls and cardans": lambda: tree(mb.Revolute, mb.Spherical, mb.Universal),
    "free on free": lambda: tree(mb.Helical, mb.Cylindrical, mb.Planar, mb.Free),
    "belts and rotors": lambda: PLANS["belt leg"]().build(),
    "four-bars": lambda: PLANS["legged robot"]().build(),
}


def differences(function, model, q, v, h=1e-4):
    """d/dt of function(q) along v, of fourth order."""
    at = lambda s: function(mb.displace(model, q, s * v))  # noqa: E731
    return (8.0 * (at(h) - at(-h)) - at(2.0 * h) + at(-2.0 * h)) / (12.0 * h)


@pytest.mark.parametrize("body_factor", ["christoffel", "force_cross"])
@pytest.mark.parametrize("name", always(ROBOTS, "free on free"))
def test_passport(name, body_factor, rng):
    """H decouples, Hdot = C + C^T and C vbar is right; C decouples without torsion, else C11 is the spin."""
    model = ROBOTS[name]()
    body, q, v = CentroidalCoordinates(model), model.random(rng), rng.standard_normal(model.nv)
    A, A_dot = (np.asarray(x) for x in body.inclusion(q, v))
    H, C = body.mass_matrix(q), body.coriolis_matrix(q, v, body_factor=body_factor)
    np.testing.assert_allclose(H[:3, :3], body.mass * np.eye(3), atol=1e-12 * body.mass)
    assert np.abs(H[:3, 3:]).max() < 1e-13 * np.abs(H).max()

    rate = differences(body.mass_matrix, model, q, v)
    np.testing.assert_allclose(C + C.T, rate, atol=1e-7 * np.abs(C).max())
    vbar = np.linalg.solve(A, v)
    bias = A.T @ mb.inverse_dynamics(model.weightless, q, v, A_dot @ vbar)  # vbar is constant
    np.testing.assert_allclose(C @ vbar, bias, atol=1e-12 * np.abs(bias).max())

    inertias = model.kinematics.tree.inertias
    twists = (np.asarray(model.body_jacobians_at(q)) @ v).reshape(-1, 6)
    R = np.asarray(model.kinematics.world_transforms_at(q))[:, :3, :3]
    spin = np.einsum("n,nij,nj->i", inertias[:, 5, 5], R, twists[:, :3])
    torsion = body_factor == "force_cross"
    expected = np.cross(np.eye(3), spin) if torsion else np.zeros((3, 3))
    np.testing.assert_allclose(C[:3, :3], expected, atol=1e-12 * np.abs(C).max())
    coupled = np.abs(C[:3, 3:]).max() / np.abs(C).max()
    assert coupled > 1e-3 if torsion else coupled < 1e-12


@pytest.mark.parametrize("ends", [("world", "shank"), ("trunk", "shank")])
def test_a_loop_that_ties_the_floating_body_is_refused(ends):
    """A rod to the world: then the trunk's linear velocity does not move all bodies alike."""
    mechanism, rng = mb.Mechanism(), np.random.default_rng(3)
    bodies = {"trunk": mb.Free(), "thigh": mb.Spherical(), "shank": mb.Revolute((0.0, 1.0, 0.0))}
    shift, parent = np.eye(4), "world"
    shift[0, 3] = 0.3
    for name, joint in bodies.items():
        mechanism.add_body(name, **random_body(rng))
        mechanism.add_joint(f"{name} joint", parent, name, joint, shift)
        parent = name
    independent = ["trunk joint", "thigh joint"] if ends[0] == "world" else ["thigh joint"]
    mechanism.add_loop("rod", *ends, mb.Distance(0.5), None, shift, independent=independent)
    model = mechanism.build()
    if ends[0] == "trunk":
        H = CentroidalCoordinates(model).mass_matrix(model.random(np.random.default_rng(0)))
        assert np.abs(H[:3, 3:]).max() < 1e-13 * np.abs(H).max()
    else:
        with pytest.raises(
            ModelError, match="joint 'trunk joint': a loop ties the floating body to the world"
        ):
            CentroidalCoordinates(model)
