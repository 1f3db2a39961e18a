"""Passive forces on numbers that are recorded, for generated C: the library's equations on such arrays.

inverse dynamics:  tau - tau_p,       its derivatives:  dtau - dtau_p,
forward dynamics:  at tau + tau_p,    its derivatives:  da + H^-1 dtau_p.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from connections.checks import ModelError
from connections.engines.recorded.expressions import Number, applied, applied_to_two
from connections.geometry.rigid.host_groups import skew
from connections.multibody.applied_forces import require_whole
from connections.multibody.model import Model
from connections.multibody.passive_forces import reduced_forces, reduced_slopes

#: Recursions that passive forces enter in C.
ENTERED = (
    "inverse_dynamics",
    "forward_dynamics",
    "inverse_dynamics_derivatives",
    "forward_dynamics_derivatives",
)
_TIE = 1e-30  # m, rad: a spring that is not longer or shorter than its rest length by more has both slopes


def enters(model: Model, recursion: str) -> bool:
    """Whether the model's passive forces enter a recursion in C.

    Raises
    ------
    ModelError : the library computes it with passive forces, and C cannot; or there are passive forces that
        the library does not compute.
    """
    require_whole(model.kinematics)
    if recursion == "variational_step" or recursion.endswith(("hessian_product", "second_derivatives")):
        raise ModelError(
            f"{recursion}: passive forces have no form in C there; leave it out, or write passive=False"
        )
    return recursion in ENTERED


class RecordedPassive:
    """The passive forces of a model at recorded numbers.

    Parameters
    ----------
    model : the robot.
    q : (nq,) numbers; of a closed chain the solution of its loops.
    v : (nv,) numbers.
    lift : recursion -> {entry of its flat result: number} for the model's lifted masses, at rest.
    """

    def __init__(self, model: Model, q: list[Any], v: list[Any], lift: Any) -> None:
        self._model, self._law, self._lift = model, model.passive_law, lift
        self._v, loops, numbers = np.array(v, dtype=object), model.program.loops, np.array(q, dtype=object)
        self._q: Any = numbers if loops is None else loops.layout.dense(numbers)

    def forces(self) -> list[Any]:
        """tau_p (nv,)."""
        of = reduced_forces if self._model.closed else type(self._law).forces
        tau: list[Any] = of(self._law, self._q, self._v, _RECORDED).tolist()
        return [x + self._lifted("gravity", k) for k, x in enumerate(tau)]

    def slopes(self) -> tuple[np.ndarray, np.ndarray]:
        """dtau_p / dq and dtau_p / dv, (nv, nv) each."""
        of, n = reduced_slopes if self._model.closed else type(self._law).slopes, self._model.nv
        in_q, in_v = of(self._law, self._q, self._v, _RECORDED)
        lift = [self._lifted("inverse_dynamics_derivatives", k) for k in range(n * n)]
        return in_q + np.array(lift, dtype=object).reshape(n, n), in_v

    def _lifted(self, recursion: str, entry: int) -> Any:
        return 0.0 if self._model.lifted is None else self._lift(recursion).get(entry, 0.0)


def add_to_results(recursion: str, passive: RecordedPassive, results: Any) -> None:
    """Add what follows from passive forces to the flat results of a recursion."""
    if recursion == "inverse_dynamics":
        for k, force in enumerate(passive.forces()):
            results[k] = results[k] - force
    elif recursion.endswith("derivatives"):
        slopes = passive.slopes()
        n = len(slopes[0])
        inverse = np.array([results[2 * n * n + k] for k in range(n * n)], dtype=object).reshape(n, n)
        for number, slope in enumerate(slopes):
            more = inverse @ slope if recursion.startswith("forward") else -slope
            for k, x in enumerate(more.ravel().tolist(), start=number * n * n):
                results[k] = results[k] + x


def _each(function: Any) -> Any:
    return np.frompyfunc(function, 1, 1)


def _positive(x: Any) -> Any:
    """max(x, 0), and NaN of NaN, which C's fmax is not."""
    return 0.5 * (x + abs(x))


def _half_turn(q0: Any, q1: Any) -> tuple[list[Any], Any, Any, Any]:
    """Sines (3,) and the cosine of half the rotation R0^T R1, the norm of the sines, and half the angle."""
    x, y, z, w = q0.tolist()
    X, Y, Z, W = q1.tolist()
    r = [w * X - W * x - y * Z + z * Y, w * Y - W * y - z * X + x * Z, w * Z - W * z - x * Y + y * X]
    cosine = w * W + x * X + y * Y + z * Z
    sine = _not_zero(applied("sqrt", sum(a * a for a in r)))
    sines = [applied_to_two("copysign", 1.0, cosine) * a for a in r]
    return sines, abs(cosine), sine, applied("atan", sine / _not_zero(abs(cosine)))


def _difference(q0: Any, q1: Any) -> Any:
    """`rotation_difference` without a branch."""
    r, _, sine, half = _half_turn(q0, q1)
    return np.array([a * (2.0 * half / sine) for a in r], dtype=object)


def _slope(q0: Any, q1: Any) -> Any:
    """`rotation_difference_slope` without a branch: c a^2 is accurate where c is not."""
    r, cosine, sine, half = _half_turn(q0, q1)
    turned, n = ([a * factor for a in r] for factor in (half / sine, 1.0 / sine))
    square = skew(np.array(n, dtype=object)) @ skew(np.array(n, dtype=object))
    share = np.full((3, 3), 1.0 - half * cosine / sine, dtype=object)
    return np.eye(3) + skew(np.array(turned, dtype=object)) + share * square


def _not_zero(x: Any) -> Any:
    return applied_to_two("fmax", x, _TIE)


# In the place of NumPy; what the law compares with is zero.
_RECORDED = SimpleNamespace(
    maximum=lambda x, zero: _each(_positive)(x),
    minimum=lambda x, zero: -_each(_positive)(-x),
    sign=_each(lambda x: x / (abs(x) + _TIE) if isinstance(x, Number) else float(np.sign(x))),
    tanh=_each(lambda x: applied("tanh", x)),
    rotation_difference=_difference,
    rotation_difference_slope=_slope,
)
