"""Errors of anything but the arguments: they come through calls of robots as they are, as no bad input."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from closed_chains import PLANS

import connections as cn
from connections import multibody as mb
from connections.checks import ShapeError
from connections.engines import disk_cache, registry
from connections.engines.inlined.simd import compiled_entry
from connections.engines.internals import numba_names
from connections.multibody.program import calls, closed_calls
from connections.multibody.program.compiled_functions import compiled

KINDS = (KeyError, TypeError, AttributeError, ValueError, MemoryError, OSError, RecursionError)
P, V = np.array([0.1]), np.array([0.2])


@pytest.fixture(scope="module")
def robots():
    mechanism = mb.Mechanism()
    mechanism.add_body("bob", 2.0, (0, 0, -0.5), np.eye(3) / 100)
    mechanism.add_joint("pivot", "world", "bob", mb.Revolute((0, 1, 0)))
    return {"pendulum": mechanism.build(), "four_bar": mb.example("four_bar")}


def closed(robots):
    return mb.close_loops(robots["four_bar"], P)


#: A compiled function, and a call that compiles it.
CALLS = {
    "mass_matrix_at": lambda r: mb.mass_matrix(r["pendulum"], P),
    "gravity_at": lambda r: mb.gravity(r["pendulum"], P.tolist()),
    "coriolis_matrix_at": lambda r: mb.coriolis_matrix(r["pendulum"], P, V),
    "forward_dynamics_at": lambda r: mb.forward_dynamics(r["pendulum"], P, V, V, out=np.zeros(1)),
    "frame_pose_at": lambda r: mb.frame_pose(r["pendulum"], P, r["pendulum"].frame_names[0]),
    "mass_matrix_rows": lambda r: mb.mass_matrix(r["pendulum"], P[None]),
    "gravity_rows": lambda r: mb.gravity(r["pendulum"], [P, P]),
    "closed_mass_matrix_at": lambda r: mb.mass_matrix(r["four_bar"], closed(r)),
    "closed_coriolis_matrix_at": lambda r: mb.coriolis_matrix(r["four_bar"], P, V),
    "closed_mass_matrix_rows": lambda r: mb.mass_matrix(r["four_bar"], P[None]),
    "closure_at": lambda r: mb.gravity(r["four_bar"], P),
    "closure_rows": lambda r: mb.gravity(r["four_bar"], [P, P]),
    "bias_rates_at": lambda r: mb.inverse_dynamics_derivatives(r["four_bar"], P, V, V),
    "bias_rates_rows": lambda r: mb.inverse_dynamics_derivatives(r["four_bar"], [P], V, V),
    "variational_rows": lambda r: mb.variational_step(r["pendulum"], P, V, 0.1),
    "loop_steps_rows": lambda r: mb.variational_step(r["four_bar"], P, V, 0.1),
    "motion_at": lambda r: cn.geodesic(r["pendulum"].connection, P, V, [0.0, 1.0]),
}


def fresh(robots):
    """Robots without calls that know compiled code."""
    return {name: mb.Model.of(robot.kinematics, robot.gravity) for name, robot in robots.items()}


@pytest.mark.parametrize("name", CALLS)
def test_an_error_of_the_compiler_comes_through(robots, monkeypatch, name):
    """At the next call the function is compiled."""
    expected = CALLS[name](robots)
    monkeypatch.delitem(compiled.__dict__, name)
    for kind in KINDS:
        planted, again = kind("planted"), fresh(robots)
        with monkeypatch.context() as patch, pytest.raises(kind) as caught:
            patch.setattr(numba_names, "compile_for", lambda *_, error=planted: fail(error))
            CALLS[name](again)
        assert caught.value is planted and planted.__cause__ is None
    found = CALLS[name](again)
    assert np.array_equal(*(x.q if name == "motion_at" else x for x in (found, expected)))


def fail(error):
    raise error


@pytest.mark.parametrize("place", ["load_overload", "save_overload"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not OSError])
def test_an_error_of_the_cache_comes_through(robots, monkeypatch, tmp_path: Path, place, kind):
    """A file of the cache that cannot be read or written is no error, see `test_disk_cache`."""

    def mass_matrix_at(memory, q, out):
        return True

    planted = kind("planted")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiled, "_find", lambda name: (compiled_entry(mass_matrix_at), _types()))
    monkeypatch.delitem(compiled.__dict__, "mass_matrix_at", raising=False)
    monkeypatch.setattr(disk_cache._Cache, "load_overload", lambda *_: None)
    monkeypatch.setattr(disk_cache._Cache, place, lambda *_: fail(planted))
    with pytest.raises(kind) as caught:
        mb.mass_matrix(fresh(robots)["pendulum"], P)
    assert caught.value is planted and planted.__cause__ is None


def _types():
    return np.zeros(0), np.zeros(0), np.zeros((0, 0))


@pytest.mark.parametrize("name", ["mass_matrix_at", "coriolis_matrix_at", "closed_mass_matrix_at"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_error_of_memory_for_results_comes_through(robots, monkeypatch, name, kind):
    CALLS[name](robots)
    planted = kind("planted")
    for module in (calls, closed_calls):
        monkeypatch.setattr(module, "empty", lambda shape: fail(planted))
    with pytest.raises(kind) as caught:
        CALLS[name](fresh(robots))
    assert caught.value is planted


def test_sources_that_cannot_be_told_are_no_missing_folder(monkeypatch):
    """Such errors of `fingerprint` are of any kind, and RuntimeError is also Numba's for a missing folder."""
    planted = RecursionError("planted")
    monkeypatch.setattr(disk_cache, "fingerprint", lambda function: fail(planted))
    with pytest.raises(RecursionError):
        disk_cache.cache_of(registry.is_good)


@pytest.mark.parametrize("kind", [TypeError, ValueError])
def test_an_error_of_a_users_closure_comes_through(kind):
    """Also of a kind that arguments have, and where a second call of the function would give a value."""
    planted, to_fail = kind("planted"), []

    def profile(a, b):
        if to_fail:
            raise to_fail.pop()
        return b - 0.1 * jnp.sin(a)

    mechanism = mb.Mechanism()
    for name in "ab":
        mechanism.add_body(name, 1.0, (0.1, 0, 0), np.eye(3))
        mechanism.add_joint(name, "world", name, mb.Revolute((0, 0, 1)))
    mechanism.add_coupling("profile", ["a", "b"], function=profile, independent=["a"])
    robot = mechanism.build()
    to_fail.append(planted)
    with pytest.raises(kind) as caught:
        mb.mass_matrix(robot, P)
    assert caught.value is planted
    assert mb.mass_matrix(robot, P).shape == (1, 1)


def test_arguments_of_other_kinds_where_a_closure_is_a_users_function():
    """JAX would take them, or fail in words of its own."""
    cam = PLANS["cam"]().build()
    q, v = cam.neutral(), np.array([0.2, 0.3])
    one, two = mb.close_loops(cam, q), mb.close_loops(cam, [q, q])
    expected = mb.inverse_dynamics_derivatives(cam, one, v, v)[0]
    for closed, given, shape in ((two, v, (2, 2, 2)), (one, np.float32(v).astype(object), (2, 2))):
        found = mb.inverse_dynamics_derivatives(cam, closed, given, v)[0]
        np.testing.assert_allclose(found, np.broadcast_to(expected, shape), rtol=1e-6)
    with pytest.raises(ShapeError):
        mb.inverse_dynamics_derivatives(cam, two, np.zeros((0, 2)), v)
    with pytest.raises(TypeError, match="v"):
        mb.inverse_dynamics_derivatives(cam, one, np.array(["a", "b"]), v)
    with pytest.raises(TypeError, match="q"):
        mb.mass_matrix(cam, np.array(["a", "b"]))
    assert mb.close_loops(cam, q, guess=two).q.shape == (2, 2)
    for robot in (cam, mb.example("four_bar")):
        with pytest.raises(TypeError, match="out"):
            mb.mass_matrix(robot, np.zeros(robot.nq) + 0.1, out=[])
