"""What a law calls is compiled before its loop: afterwards a call of the law compiles nothing."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import monitoring

import connections as cn
from connections import control
from connections import multibody as mb
from connections.checks import ShapeError

COMPILED = [0]
Q, V = np.array([0.1, 0.2]), np.array([0.3, -0.4])


def count(event: str, duration: float, **more: object) -> None:
    COMPILED[0] += event.endswith("backend_compile_duration")


monitoring.register_event_duration_secs_listener(count)


def system() -> cn.MechanicalSystem:
    def matrix(q: jnp.ndarray) -> jnp.ndarray:
        return jnp.diag(jnp.array([2.0 + jnp.cos(q[1]), 1.0]))

    return cn.MechanicalSystem(cn.MatrixMetric(cn.CoordinateFrame(2), matrix), potential=lambda q: q @ q)


def passivity() -> tuple[object, tuple[object, ...]]:
    return control.PassivityController(system(), 5.0), (Q, V, V, V)


def observer() -> tuple[object, tuple[object, ...]]:
    return control.MomentumObserver(system(), 5.0), (Q, V, V, V)


def call(law: object, state: tuple[object, ...]) -> None:
    if isinstance(law, control.MomentumObserver):
        law.momentum(Q, V), law.residual(Q, V, V), law.state_rate(*state)
    else:
        law.torque(*state)


LOOPS = {
    passivity: ["torque"],
    observer: ["momentum", "residual", "state_rate"],
}


@pytest.mark.parametrize("make", LOOPS)
def test_after_it_nothing_is_compiled(make: object) -> None:
    law, state = make()
    before = COMPILED[0]
    found = control.prepare(law, *state)
    assert list(found) == LOOPS[make] and all(seconds > 0.0 for seconds in found.values())
    prepared = COMPILED[0]
    assert prepared > before
    call(law, state)
    assert COMPILED[0] == prepared
    call(make()[0], state)  # other functions are compiled anew
    assert COMPILED[0] > prepared


def test_an_adaptive_controller_has_three_calls() -> None:
    robot = mb.example("arm")
    family = control.UnknownInertia(robot.system(), robot.body_names[-1:])
    law, zero = control.AdaptiveController(family, 5.0, 0.1), np.zeros(6)
    found = control.prepare(law, robot.neutral(), zero, zero, zero, np.zeros(10))
    assert list(found) == ["torque", "parameters_rate", "next_parameters"]


def test_a_function_is_a_period_of_the_loop() -> None:
    calls = []

    def period(t: float, q: object) -> None:
        calls.append((t, q))

    assert list(control.prepare(period, 0.0, Q)) == ["period"] and calls == [(0.0, Q)]


def test_what_is_no_law_is_refused() -> None:
    with pytest.raises(TypeError, match="law"):
        control.prepare(np.eye(2), Q)
    with pytest.raises(TypeError, match="state"):
        control.prepare(observer()[0], Q, V)
    with pytest.raises(ShapeError):
        control.prepare(passivity()[0], Q, V, V, np.zeros(3))
