"""Functions of a robot refuse what is no robot, and what JAX traces, and say what to write there."""

from __future__ import annotations

import inspect
import pickle
import re

import numpy as np
import pytest
from mechanisms import random_mechanism

from connections import control, multibody
from connections.checks import ModelError, NonFiniteError
from connections.multibody.program.table import RECURSIONS

MODEL = random_mechanism(np.random.default_rng(0), 2, (multibody.Revolute,))
Q, V = np.zeros(2), np.ones(2)


@pytest.mark.parametrize("name", RECURSIONS)
def test_a_function_is_declared_and_documented_as_its_row_says(name):
    room = multibody.curvatures if "curvature" in name else multibody
    row, function = RECURSIONS[name], getattr(room, name)
    choice = row.choice.arguments if row.choice else ()
    names = ["model", "q", *row.vectors, *choice, *FORCES.get(name, ()), "out"]
    assert list(inspect.signature(function).parameters) == names
    lines = inspect.getdoc(function).splitlines()
    described = [line.split(" : ")[0] for line in lines[lines.index("Parameters") + 2 :] if " : " in line]
    assert described[: len(row.vectors) + 2] == ["model", "q", *row.vectors]
    assert ("MetricError" in described[-1]) == row.inverse
    assert lines[-1].startswith("Source: ")
    assert pickle.loads(pickle.dumps(function)) is function


KINDS = ("derivatives", "second_derivatives", "hessian_product")
FORCES = {f"{way}_dynamics_{kind}": ("passive",) for way in ("inverse", "forward") for kind in KINDS}
FORCES |= dict.fromkeys(("inverse_dynamics", "forward_dynamics"), ("passive", "wrenches", "axes"))
SWAPPED = {
    "mass_matrix": lambda: multibody.mass_matrix(Q, MODEL),
    "coriolis_matrix": lambda: multibody.coriolis_matrix(Q, V, MODEL),
    "regressor": lambda: multibody.regressor(Q, V, V, V, MODEL),
    "forward_dynamics_derivatives": lambda: multibody.forward_dynamics_derivatives(Q, V, V, MODEL),
    "difference": lambda: multibody.difference(Q, MODEL, Q),
    "displace": lambda: multibody.displace(Q, MODEL, V),
    "body_jacobians": lambda: multibody.body_jacobians(Q, MODEL),
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
        ("arm.urdf", "got a str; write from_urdf(path), from_mjcf(path), load(name) or example(name)"),
    ],
)
def test_what_is_no_robot(thing, text):
    with pytest.raises(TypeError, match=re.escape(text)):
        multibody.gravity(thing, Q)
    with pytest.raises(
        TypeError, match=re.escape("v: expected an array of real numbers, got a robot (Model)")
    ):
        multibody.coriolis_matrix(MODEL, Q, MODEL)


HUGE = 10**400  # no float64
PENDULUM = multibody.example("four_bar")
SYSTEM = MODEL.system()
REFUSED = {
    "from_urdf(None)": (lambda: multibody.from_urdf(None), TypeError, "path"),
    "from_urdf(3)": (lambda: multibody.from_urdf(3), TypeError, "path"),
    "from_mjcf(None)": (lambda: multibody.from_mjcf(None), TypeError, "path"),
    "gravity in place of floating_base": (
        lambda: multibody.from_urdf(multibody.example_path("arm"), (0, 0, -9.81)),
        TypeError,
        "floating_base",
    ),
    "gravity": (
        lambda: multibody.from_urdf(multibody.example_path("arm"), gravity="down"),
        ModelError,
        "gravity",
    ),
    "gravity too large": (lambda: MODEL.with_gravity((0, 0, HUGE)), ModelError, "gravity"),
    "gravity of two": (lambda: MODEL.with_gravity((0, 1)), ModelError, "gravity"),
    "gravity of digits": (lambda: MODEL.with_gravity("123"), ModelError, "gravity"),
    "gravity None": (lambda: MODEL.with_gravity(None), ModelError, "gravity"),
    "controller of a robot": (lambda: control.PassivityController(MODEL, 2.0), TypeError, "model"),
    "controller of a file": (lambda: control.PassivityController("arm.urdf", 2.0), TypeError, "model"),
    "gain of text": (lambda: control.PassivityController(SYSTEM, "2"), TypeError, "gain K_D"),
    "gain None": (lambda: control.PassivityController(SYSTEM, None), TypeError, "gain K_D"),
    "gain too large": (lambda: control.PassivityController(SYSTEM, HUGE), NonFiniteError, "gain K_D"),
    "gamma of text": (lambda: MODEL.system("1"), TypeError, "gamma"),
    "gammas": (lambda: MODEL.system([1.0, 2.0]), TypeError, "gamma"),
    "gamma None": (lambda: MODEL.system(None), TypeError, "gamma"),
    "gamma too large": (lambda: MODEL.system(HUGE), NonFiniteError, "gamma"),
    "beta of text": (lambda: PENDULUM.system(beta="1"), TypeError, "beta"),
    "adaptive of a robot": (
        lambda: control.AdaptiveController(MODEL, 2.0, 1.0),
        TypeError,
        "family",
    ),
    "adaptive of numbers": (lambda: control.UnknownInertia(SYSTEM, [0]), ModelError, "bodies"),
    "adaptive of None": (lambda: control.UnknownInertia(SYSTEM, None), ModelError, "bodies"),
    "unknown inertia of a robot": (lambda: control.UnknownInertia(MODEL, ["a"]), TypeError, "system"),
    "observer's gain": (lambda: control.MomentumObserver(SYSTEM, "2"), TypeError, "gain K"),
    "centroid of a system": (lambda: control.CentroidalCoordinates(MODEL.system()), TypeError, "model"),
    "payload of a system": (
        lambda: control.with_payload(MODEL.system(), "b", 1.0, np.zeros(3)),
        TypeError,
        "model",
    ),
    "payload of text": (
        lambda: control.with_payload(MODEL, MODEL.body_names[0], "1", np.zeros(3)),
        ModelError,
        "mass",
    ),
    "payload's inertia": (
        lambda: control.with_payload(MODEL, MODEL.body_names[0], 1.0, np.zeros(3), "round"),
        ModelError,
        "inertia",
    ),
    "payload too heavy": (
        lambda: control.with_payload(MODEL, MODEL.body_names[0], HUGE, np.zeros(3)),
        ModelError,
        "mass",
    ),
    "pitch": (lambda: multibody.Helical((0, 0, 1), HUGE), ModelError, "pitch"),
    "axis": (lambda: multibody.Revolute((0, 0, HUGE)), ModelError, "axis"),
    "length": (lambda: multibody.Distance(HUGE), ModelError, "length"),
    "radius": (lambda: multibody.Wheel("b", HUGE), ModelError, "radius"),
    "weight": (lambda: control.lqr(np.eye(2), np.eye(2), "1", 1.0), TypeError, "weight Q"),
    **{
        f"{name} too large": (lambda f=f: f(MODEL, [HUGE, 0]), NonFiniteError, "q")
        for name, f in {"gravity": multibody.gravity, "mass_matrix": multibody.mass_matrix}.items()
    },
    "definition too large": (lambda: MODEL.definition.metric.matrix([HUGE, 0]), NonFiniteError, "q"),
    "step too large": (
        lambda: multibody.finite_differences(MODEL, lambda q: q, Q, step=HUGE),
        ValueError,
        "step",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_where_it_is_given(name):
    """By an error of this type whose message begins with the argument, after what it belongs to."""
    call, error, argument = REFUSED[name]
    with pytest.raises(error, match=rf"^(.*: )?(the )?{argument}\b") as caught:
        call()
    assert caught.type.__module__ in ("builtins", "connections.checks")
