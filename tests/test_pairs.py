"""Of everything that is kept, two of a kind: the second gets its own numbers.

An owner is asked for the first, for the second, and for the first again; another owner, after all that was
compiled is forgotten, for the second alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always
from public_calls import ARGUMENTS, FRAME, TIMES, along, basis, control, forms, line, mass, scalars, task

import connections as cn
from connections import control as laws
from connections import verify
from connections.evaluation import compilation
from connections.systems import translations
from connections.verify.subjects import compiled_of, shared

Q, V, W, Z = (ARGUMENTS[name][0] for name in "qvwz")


def metric_of(m: float = 2.0) -> cn.MatrixMetric:
    return cn.MatrixMetric(FRAME, mass, {"m": m})


def system() -> cn.MechanicalSystem:
    return cn.MechanicalSystem(metric_of())


def family() -> cn.ContorsionFamily:
    return cn.ContorsionFamily(metric_of())


def nabla() -> cn.AffineConnection:
    return family().connection([0.4])


def constrained() -> cn.ConstrainedConnection:
    return cn.ConstrainedConnection(metric_of(), basis, forms=forms)


def _constant(scale: float) -> Callable[..., Any]:
    """A new function object of one code, with a number in its closure."""
    return lambda *arguments: scale * jnp.array([1.0, 0.5, -0.2])


def _field(scale: float) -> Callable[..., Any]:
    return lambda q: scale * jnp.stack([jnp.sin(q[0]), q[1] ** 2, q[0] * q[1]])


def _matrix(scale: float) -> Callable[..., Any]:
    return lambda q: jnp.eye(3) + scale * jnp.outer(jnp.sin(q), jnp.ones(3))


def _curve(scale: float) -> Callable[..., Any]:
    return lambda t: jnp.asarray(Q) + scale * jnp.stack([t, jnp.sin(t), t**2])


def _samples(scale: float) -> tuple[Any, Any]:
    times = np.linspace(0.0, 0.5, 6)
    return times, np.stack([np.asarray(_curve(scale)(t)) for t in times])


def loop(gain: float) -> laws.ClosedLoop:
    reference = laws.trajectory_reference(FRAME, _curve(0.3), 2.0)
    return laws.ClosedLoop(system(), laws.PassivityController(system(), gain), reference)


def _swept(owner: Any, scale: float) -> Any:
    return owner.sweep(np.array([[0.1], [0.5]]), lambda member: scale * member.torsion_at(jnp.asarray(Q)))


def _subject(m: float) -> verify.Subject:
    rng = np.random.default_rng(0)
    return verify.subject("pair", metric_of(m), rng.uniform(-0.3, 0.3, (2, 3)), rng)


def _first_at(system: cn.MechanicalSystem, q: Any) -> Any:
    return system.metric.matrix_at(q)


def _second_at(system: cn.MechanicalSystem, q: Any) -> Any:
    return 2.0 * system.metric.matrix_at(q)


#: Name: an owner, what is asked of it with one of two things, and the things.
PAIRS: dict[str, tuple[Callable[[], Any], Callable[[Any, Any], Any], tuple[Any, Any]]] = {
    "masses": (lambda: None, lambda _, m: cn.LeviCivita(metric_of(m)).coefficients(Q), (2.0, 3.0)),
    "members": (family, lambda owner, b: owner.connection([b]).torsion(Q), (0.4, 0.9)),
    "members in motion": (
        family,
        lambda owner, b: cn.parallel_transport(owner.connection([b]), _curve(1.0), Z, TIMES),
        (0.4, 0.9),
    ),
    "member functions": (
        family,
        lambda owner, b: owner.connection(lambda q: b * q[:1]).torsion(Q),
        (0.4, 0.9),
    ),
    "quantities of a sweep": (family, _swept, (1.0, 2.0)),
    "metrics beside a connection": (nabla, lambda owner, m: owner.contorsion(Q, metric_of(m)), (2.0, 3.0)),
    "forces": (nabla, lambda owner, s: cn.geodesic(owner, Q, V, TIMES, _constant(s)), (1.0, 2.0)),
    "controls": (system, lambda owner, s: owner.simulate(Q, V, TIMES, _constant(s)), (1.0, 2.0)),
    "times": (nabla, lambda owner, s: cn.geodesic(owner, Q, V, s * TIMES), (1.0, 2.0)),
    "records": (
        nabla,
        lambda owner, s: (cn.geodesic, cn.geodesic_flow)[s](owner, Q, V, TIMES, control)[s],
        (0, 1),
    ),
    "carried vectors": (nabla, lambda owner, s: cn.transport_flow(owner, Q, V, s * Z, TIMES), (1.0, 2.0)),
    "curves": (nabla, lambda owner, s: cn.parallel_transport(owner, _curve(s), Z, TIMES), (1.0, 2.0)),
    "samples": (nabla, lambda owner, s: cn.parallel_transport(owner, _samples(s), Z, TIMES), (1.0, 2.0)),
    "curves with parameters": (
        nabla,
        lambda owner, s: cn.parallel_transport(owner, cn.ParametricFunction(line, s * Q), Z, TIMES),
        (1.0, 2.0),
    ),
    "fields along a curve": (
        nabla,
        lambda owner, s: cn.covariant_derivative_along(owner, _curve(1.0), lambda t: s * along(t), TIMES),
        (1.0, 2.0),
    ),
    "fields": (nabla, lambda owner, s: owner.covariant_derivative(_field(s), _field(1.0), Q), (1.0, 2.0)),
    "brackets": (lambda: FRAME, lambda owner, s: owner.bracket(_field(s), _constant(1.0), Q), (1.0, 2.0)),
    "derivatives": (
        lambda: FRAME,
        lambda owner, s: owner.lie_derivative(lambda q: s * scalars(q), Q),
        (1.0, 2.0),
    ),
    "frames": (nabla, lambda owner, s: owner.change(_matrix(s)).coefficients(Q), (0.1, 0.3)),
    "frames of a metric": (metric_of, lambda owner, s: owner.change(_matrix(s)).matrix(Q), (0.1, 0.3)),
    "tasks": (
        nabla,
        lambda owner, s: cn.coriolis.task_space_coriolis_matrix(
            owner, lambda q: s * task(q), Q, V, metric_of()
        ),
        (1.0, 2.0),
    ),
    "inputs": (
        constrained,
        lambda owner, s: owner.input_coefficients(lambda q: _field(s)(q)[None], Q),
        (1.0, 2.0),
    ),
    "laws": (
        lambda: None,
        lambda _, c: cn.connection_from_coriolis(
            metric_of(), lambda q, v: c * jnp.diag(v) * q[0]
        ).coefficients(Q),
        (1.0, 2.0),
    ),
    "elements of a group": (lambda: translations(3, (2,)), lambda owner, g: owner.act(Q, [g]), (0.5, 1.0)),
    "groups": (lambda: None, lambda _, axis: translations(3, (axis,)).act(Q, [0.5]), (1, 2)),
    "loops": (lambda: None, lambda _, gain: loop(gain).simulate(Q, V, TIMES).v, (2.0, 5.0)),
    "subjects of verify": (lambda: None, lambda _, m: _subject(m).H(Q), (2.0, 3.0)),
    "functions of a subject": (
        system,
        lambda owner, at: shared(compiled_of, owner, at)(jnp.asarray(Q)),
        (_first_at, _second_at),
    ),
}


@pytest.mark.parametrize("name", always(PAIRS, "masses", "forces", "fields", "frames", "inputs"))
def test_the_second_gets_its_own_numbers(name: str) -> None:
    make, of, (first, second) = PAIRS[name]
    owner = make()
    found = [jax.tree.leaves(of(owner, thing)) for thing in (first, second, first)]
    compilation.forget()
    alone = jax.tree.leaves(of(make(), second))
    for before, own, again, expected in zip(*found, alone, strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(again, before)
    assert any(not np.allclose(before, own, rtol=1e-3) for before, own, *_ in zip(*found, strict=True))
