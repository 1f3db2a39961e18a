"""Arrays that compiled code must not take as they are, programs that travel, and room in the workspaces."""

import gc
import pickle
import threading
import weakref
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import further
from closed_chains import four_bar

from connections import multibody as mb
from connections.checks import MetricError, ModelError
from connections.engines import registry
from connections.evaluation import compilation
from connections.multibody.kernels import layout
from connections.multibody.program.compiled_functions import compiled


def pendulum(*joints):
    mechanism, parent = mb.Mechanism(), "world"
    for number, joint in enumerate(joints):
        mechanism.add_body(f"b{number}", mass=1.0, center_of_mass=(0.1, 0.2, -0.5), inertia=np.eye(3) / 50)
        mechanism.add_joint(f"j{number}", parent, f"b{number}", joint)
        parent = f"b{number}"
    return mechanism.build()


def test_arrays_of_the_other_byte_order_or_not_aligned_are_copied():
    model = pendulum(mb.Revolute((0, 1, 0)), mb.Revolute((1, 0, 0)))
    q = np.array([0.3, -0.7])
    expected = mb.gravity(model, q)
    packed = np.zeros(2, dtype=[("pad", "u1"), ("angle", "f8")])
    packed["angle"] = q
    unaligned = np.frombuffer(b"\0" + q.tobytes(), dtype="f8", offset=1, count=2)
    for other in (unaligned, packed["angle"], q.astype(">f8"), unaligned, q.astype(">f8")):
        np.testing.assert_array_equal(mb.gravity(model, other), expected)
    with pytest.raises(TypeError, match="out"):
        mb.gravity(model, q, out=np.zeros(2, dtype=">f8"))


def test_a_model_is_pickled_without_its_memory(rng):
    model = pendulum(mb.Spherical(), mb.Helical((0, 1, 0), 0.1))
    q = model.random(rng)
    expected = mb.mass_matrix(model, q)
    copy = pickle.loads(pickle.dumps(model))
    assert copy.program.memory is not model.program.memory
    np.testing.assert_array_equal(mb.mass_matrix(copy, q), expected)


USES: dict[str, Callable[[mb.Model, np.ndarray], object]] = {
    "potential energy": lambda model, q: model.potential(q),
    "derivative outside of jit": lambda model, q: jax.grad(lambda q: mb.mass_matrix(model, q)[0, 0])(q),
    "vmap outside of jit": lambda model, q: jax.vmap(lambda q: mb.mass_matrix(model, q))(q[None]),
    "loops solved outside of jit": lambda model, q: jax.vmap(lambda q: mb.close_loops(model, q))(q[None]),
    "loops solved inside of jit": lambda model, q: jax.jit(lambda q: mb.close_loops(model, q).spanning)(q),
    "an argument of jit": lambda model, q: jax.jit(lambda at: mb.gravity(model, at))(
        mb.close_loops(model, q)
    ),
    "metric": lambda model, q: model.system().metric.matrix(q),
    "connection": lambda model, q: model.connection.coefficients(q),
}


def used(robot: str, use: str, gravity: float = 9.81) -> tuple[mb.Model, list[weakref.ref]]:
    """A model that was used, and references to its parts."""
    model = four_bar().build() if robot == "four-bar" else pendulum(mb.Revolute((0, 1, 0)))
    model = model.with_gravity((0.0, 0.0, -gravity))
    USES[use](model, jnp.asarray(model.neutral()))
    return model, [weakref.ref(model), weakref.ref(model.kinematics), weakref.ref(model.program)]


@pytest.mark.further
@pytest.mark.parametrize("robot", ["tree", further("four-bar")])
def test_a_robot_goes_with_all_that_was_compiled_for_it(robot):
    """JAX keeps a trace as long as the function that was traced; no trace may hold what has that function."""
    parts = {use: used(robot, use)[1] for use in USES}
    kept, its_parts = used(robot, "metric", 1.62)  # of equal models, the first one's functions stay
    compilation.forget()  # the recent functions, which are kept
    for _ in range(2):  # what goes may have held more
        gc.collect()
    assert {use: [part() for part in found] for use, found in parts.items()} == dict.fromkeys(
        USES, [None] * 3
    )
    assert its_parts[0]() is kept and all(part() is not None for part in its_parts)


def test_a_joint_that_recursions_do_not_know_is_named():
    class Wobbly(mb.Revolute):
        pass

    model = pendulum(Wobbly((0, 0, 1)))
    with pytest.raises(ModelError, match=r"'j0'.*Wobbly"):
        mb.gravity(model, np.zeros(1))


def test_only_what_needs_the_inverse_says_that_the_mass_matrix_is_singular():
    mechanism = mb.Mechanism()
    for name, mass in (("z", 0.0), ("y", 0.0), ("x", 1.0)):
        mechanism.add_body(name, mass=mass, inertia=np.eye(3) * mass)
    for name, parent, axis in (("z", "world", (0, 0, 1)), ("y", "z", (0, 1, 0)), ("x", "y", (1, 0, 0))):
        mechanism.add_joint(name, parent, name, mb.Revolute(axis))
    model, lock = mechanism.build(), np.array([0.1, np.pi / 2, 0.2])
    assert np.isfinite(mb.mass_matrix(model, lock)).all()
    with pytest.raises(MetricError, match="joint 'z'"):
        mb.inverse_mass_matrix(model, np.stack([np.zeros(3), lock]))


def test_workspaces_have_room_for_every_recursion():
    records = {name: part for name, part in vars(layout).items() if hasattr(part, "_fields")}
    sizes = {name: part.size for name, part in records.items() if name.endswith(("_LINK", "_COLUMN"))}
    assert len(sizes) >= 13
    for name, size in sizes.items():
        assert size <= (layout.PER_LINK if name.endswith("_LINK") else layout.PER_COLUMN)
    assert layout.CORIOLIS_LINK.size + layout.CONTORSION.size <= layout.PER_LINK
    for entry in (layout.MASS_COLUMN, layout.CORIOLIS_COLUMN, layout.CHRISTOFFEL_COLUMN):
        assert entry.size <= layout.PER_ENTRY


def test_a_function_that_is_ready_is_had_while_another_compiles():
    compiled.require("gravity_at")
    asking = threading.Thread(target=compiled.require, args=("gravity_at",), daemon=True)
    with registry._lock:  # as held by a thread that compiles, perhaps waiting for the one that asks
        asking.start()
        asking.join(timeout=20)
        assert not asking.is_alive()
