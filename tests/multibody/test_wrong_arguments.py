"""Functions of a robot refuse what is no robot, and what JAX traces, and say what to write there."""

from __future__ import annotations

import inspect
import pickle
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mechanisms import random_mechanism

from connections import multibody
from connections.multibody.dynamics.table import IN_JAX, RECURSIONS

MODEL = random_mechanism(np.random.default_rng(0), 2, (multibody.Revolute,))
Q, V = np.zeros(2), np.ones(2)


@pytest.mark.parametrize("name", RECURSIONS)
def test_a_function_is_declared_and_documented_as_its_row_says(name):
    row, function = RECURSIONS[name], getattr(multibody, name)
    choice = ["body_factor"] * row.body_factor
    assert list(inspect.signature(function).parameters) == ["model", "q", *row.vectors, *choice, "out"]
    lines = inspect.getdoc(function).splitlines()
    described = [line.split(" : ")[0] for line in lines[lines.index("Parameters") + 2 :] if " : " in line]
    assert described[: len(row.vectors) + 2] == ["model", "q", *row.vectors]
    assert ("MetricError" in described[-1]) == row.inverse
    assert lines[-1].startswith("Source: ")
    assert pickle.loads(pickle.dumps(function)) is function


SWAPPED = {
    "mass_matrix": lambda: multibody.mass_matrix(Q, MODEL),
    "coriolis_matrix": lambda: multibody.coriolis_matrix(Q, V, MODEL),
    "regressor": lambda: multibody.regressor(Q, V, V, V, MODEL),
    "forward_dynamics_derivatives": lambda: multibody.forward_dynamics_derivatives(Q, V, V, MODEL),
    "difference": lambda: multibody.difference(Q, MODEL, Q),
    "displace": lambda: multibody.displace(Q, MODEL, V),
    "body_jacobians": lambda: multibody.body_jacobians(Q, MODEL),
    "coriolis_matrix_by_jacobians": lambda: multibody.coriolis_matrix_by_jacobians(Q, V, MODEL),
    "audit_coriolis": lambda: multibody.audit_coriolis(Q, None, MODEL, V),
}


@pytest.mark.parametrize("name", SWAPPED)
def test_the_robot_comes_first(name):
    text = f"model: expected a Model, got an array of shape (2,); the robot comes first: {name}(model, "
    with pytest.raises(TypeError, match=re.escape(text)):
        SWAPPED[name]()


@pytest.mark.parametrize(
    "thing, text",
    [
        (MODEL.system(), "got a system (RobotSystem); give the robot from which the system was made"),
        (multibody.Mechanism(), "got a mechanism (Mechanism); write mechanism.build()"),
        ("arm.urdf", "got a str; write from_urdf(path), from_mjcf(path) or example(name)"),
    ],
)
def test_what_is_no_robot(thing, text):
    with pytest.raises(TypeError, match=re.escape(text)):
        multibody.gravity(thing, Q)
    with pytest.raises(
        TypeError, match=re.escape("v: expected an array of real numbers, got a robot (Model)")
    ):
        multibody.coriolis_matrix(MODEL, Q, MODEL)


@pytest.mark.parametrize("transformed", [jax.jit, jax.vmap, jax.jacfwd], ids=["jit", "vmap", "jacfwd"])
def test_a_recursion_in_a_traced_function(transformed):
    points = np.zeros((3, 2)) if transformed is jax.vmap else Q
    text = (
        "q: mass_matrix computes in NumPy, and JAX traces q here (jax.jit, vmap or grad); write model.metric."
    )
    with pytest.raises(TypeError, match=re.escape(text)):
        transformed(partial(multibody.mass_matrix, MODEL))(points)
    with pytest.raises(TypeError, match="v: coriolis_matrix .* write model.system"):
        jax.jit(lambda v: multibody.coriolis_matrix(MODEL, Q, v))(V)
    with pytest.raises(TypeError, match="xi|q: JAX traces it, where NumPy has to compute"):
        jax.jit(lambda q: multibody.displace(MODEL, q, V))(Q)


def test_what_to_write_in_jax_computes_the_same():
    names = {"model": MODEL, "jnp": jnp}
    given = {"q": np.array([0.2, 0.4]), "v": np.array([1.0, -0.5]), "w": V, "a": V, "tau": V}
    assert [name for name in RECURSIONS if name not in IN_JAX] == ["regressor"]
    for name, written in IN_JAX.items():
        if "derivatives" in name or name == "mass_matrix_rate":
            continue
        used = ("q", *RECURSIONS[name].vectors)
        inside = jax.jit(eval(f"lambda {', '.join(used)}: {written}", names))
        values = [given[each] for each in used]
        assert np.allclose(inside(*values), getattr(multibody, name)(MODEL, *values)), name
