"""Local configuration accessibility and controllability of a mechanical system without potential.

A system is locally configuration accessible at q if the configurations reachable from rest at q, in a small
neighbourhood, contain an open set, and locally configuration controllable if q is an inner point of them.

Accessible: rank Lie(Sym(Y)) = n at q. For analytic systems this is also necessary.

Controllable: accessible, and every bad symmetric product at q is a linear combination of good ones of lower
degree. Sufficient only, and it depends on the basis of the inputs; if it fails in the given basis, one of
decoupling directions is tried.

Not controllable: not accessible; or the inputs span an involutive distribution near q, and for a covector
lambda that annihilates it the form u -> lambda(<Y_u : Y_u>) is definite, or semidefinite in a way that lasts:
`obstruction.py` has the conditions and the proof. For one input that is <Y : Y> not parallel to Y.

Source: [LM] for the first two; [AL] for one input; [HL] use such forms for several. The third statement is
claimed as far as its proof goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from connections._jax import ArrayLike
from connections.affine.connection import AffineConnection
from connections.checks import require_duration
from connections.control.controllability.directions import decoupling_directions, of_inputs
from connections.control.controllability.field_closures import (
    LieClosure,
    control_system,
    generators,
    input_names,
    involutive_closure_of,
    jets_near,
    symmetric_closure_of,
)
from connections.control.controllability.obstruction import one_sided
from connections.control.controllability.ranks import TOLERANCE, numerical_rank, outside
from connections.control.controllability.symmetric_products import (
    ControlSystem,
    Jet,
)
from connections.geometry.frames import PointFunction

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class ControllabilityReport:
    """The verdicts of the tests on a system at a point; printed, they are a readable text.

    Parameters
    ----------
    q : (nq,) the point.
    accessible : rank Lie(Sym(Y)) = n; None if the order reached settles nothing.
    controllable : True, False, or None if neither test applies.
    reason : why, in words.
    obstruction : the bad product that is no combination of good ones of lower degree, in the basis given.
    symmetric, involutive : the closures Sym(Y) and Lie(Sym(Y)) with ranks and gaps.
    good_rank : rank of the good products up to the degree at which they span Sym(Y), or the order reached.
    clear : whether the numerical ranks behind the verdict are beyond doubt.
    input_basis : (a, a) columns: the combinations of the inputs for which the sufficient test holds.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections.control import controllability
    >>> nabla = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(2), jnp.diag(jnp.array([1.0, 2.0]))))
    >>> report = controllability.configuration_controllability(nabla, lambda q: jnp.eye(2), [0.0, 0.0])
    >>> report.controllable, report.clear
    (True, True)
    >>> print(report.reason)
    in the inputs given, the inputs span Sym(Y)
    """

    q: Array
    accessible: bool | None
    controllable: bool | None
    reason: str
    obstruction: str | None
    symmetric: LieClosure
    involutive: LieClosure
    good_rank: int
    clear: bool
    input_basis: Array | None = field(default=None)

    def __str__(self) -> str:
        said = {True: "yes", False: "no", None: "undecided"}
        point = np.array2string(self.q, precision=6, threshold=12)
        lines = [
            f"configuration controllability at q = {point}, no potential",
            f"  symmetric closure:  {self.symmetric}",
            f"  involutive closure: {self.involutive}",
            f"  locally configuration accessible:   {said[self.accessible]}",
            f"  locally configuration controllable: {said[self.controllable]}: {self.reason}",
        ]
        if not self.clear:
            lines.append("  the numerical ranks are not clear: read the singular values")
        return "\n".join(lines)


@dataclass(frozen=True)
class _Sufficient:
    """The outcome of the sufficient test in one basis of the inputs."""

    holds: bool
    obstruction: str | None
    good_rank: int
    degree: int
    clear: bool


@dataclass(frozen=True, eq=False)
class _Verdict:
    """Whether an accessible system is controllable, why, whether that is clear, in which basis of inputs."""

    controllable: bool | None
    reason: str
    clear: bool
    basis: Array | None = None


def configuration_controllability(
    nabla: AffineConnection,
    inputs: PointFunction,
    q: ArrayLike,
    order: int | None = None,
    *,
    tol: float = TOLERANCE,
    names: Sequence[str] | None = None,
) -> ControllabilityReport:
    """Whether the system is locally configuration accessible and controllable at q, and why.

    The system is nabla_qdot qdot = sum of u^a Y_a, without potential and other forces, and starts at rest.

    Parameters
    ----------
    nabla : the connection; of a nonholonomic system, the constrained one: symmetric products are then taken
        in the distribution, brackets in the tangent space of the whole manifold.
    inputs : q -> (m, a), the input fields as columns in the connection's frame; JAX-traceable.
        `input_fields` makes them from covectors.
    q : (nq,) one point.
    order : largest degree of symmetric products and largest length of brackets; None: as are needed.
    tol : of ranks.
    names : of the inputs; Y0, Y1 and so on if None.

    Raises
    ------
    ShapeError, NonFiniteError; FrameError if the inputs are dependent; the errors of `nabla` at q.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections.control import controllability
    >>> H = lambda q: jnp.diag(jnp.array([1.0, q[0] ** 2]))  # of a mass in the plane, in (r, phi)
    >>> polar = cn.MatrixMetric(cn.CoordinateFrame(2), H)
    >>> turned = lambda q: jnp.array([[0.0], [1.0]])
    >>> report = controllability.configuration_controllability(cn.LeviCivita(polar), turned, [2.0, 0.0])
    >>> report.accessible, report.controllable, report.obstruction
    (True, False, '<Y0:Y0>')

    Source: [LM]; [AL]; [Z] section 6.
    """
    tol = require_duration("tol", tol)
    system, q = control_system(nabla, inputs, q, order)
    jets, named = jets_near(system, q), input_names(system, names)
    products = symmetric_closure_of(system, jets, order, tol, named)
    brackets = involutive_closure_of(system, jets, generators(products, tol), order, tol, named)
    accessible = True if brackets.rank.full else False if brackets.settled and products.settled else None
    test = _sufficient(products, tol, named)

    if accessible is False:
        reason = f"Lie(Sym(Y)) has rank {brackets.rank.value} < {system.dim}: not accessible"
        verdict = _Verdict(False, reason, True)
    elif accessible is None:
        verdict = _Verdict(None, "not known to be accessible: a higher order may add to the rank", True)
    else:
        verdict = _verdict(test, jets, order, tol, named)
    return ControllabilityReport(
        q,
        accessible,
        verdict.controllable,
        verdict.reason,
        test.obstruction,
        products,
        brackets,
        test.good_rank,
        products.rank.clear and brackets.rank.clear and verdict.clear,
        verdict.basis,
    )


def _verdict(
    test: _Sufficient, jets: list[Jet], order: int | None, tol: float, names: Sequence[str]
) -> _Verdict:
    """The verdict on an accessible system, by the inputs, an obstruction, and another basis of inputs."""
    system = jets[0].system
    if test.holds:
        return _Verdict(True, _words(test, "in the inputs given"), test.clear, np.eye(system.count))
    obstacle = one_sided(jets, tol)
    if obstacle is not None:
        return _Verdict(False, obstacle, test.clear)
    found = decoupling_directions(jets[0], tol).spanning
    if found is not None:
        basis = of_inputs(jets[0], found)
        changed = _changed(system, basis)
        near = [changed.jet(jet.q) for jet in jets]
        other = _sufficient(symmetric_closure_of(changed, near, order, tol, names), tol, names)
        if other.holds:
            return _Verdict(True, _words(other, "in a basis of decoupling directions"), other.clear, basis)
    if test.obstruction is None:
        reason = f"good products up to degree {test.degree} span rank {test.good_rank} only"
    else:
        reason = f"{test.obstruction} is bad and no combination of good products of lower degree, "
        reason += "which decides nothing"
    return _Verdict(None, reason, test.clear)


def _words(test: _Sufficient, where: str) -> str:
    if test.degree == 1:
        return f"{where}, the inputs span Sym(Y)"
    return f"{where}, bad products are combinations of good ones of lower degree (to {test.degree})"


def _sufficient(closure: LieClosure, tol: float, names: Sequence[str]) -> _Sufficient:
    """Bad products against good ones of lower degree, until the good ones span the closure."""
    words, (values, sizes) = closure.words, closure.scaled
    degrees = np.array([word.degree for word in words])
    good = np.array([not word.bad for word in words])
    rank, clear = 0, True
    for degree in range(1, int(degrees.max()) + 1):
        lower = good & (degrees < degree)
        for k in np.flatnonzero(~good & (degrees == degree)):
            beside, sure = outside(values[:, k], sizes[:, k], values[:, lower], sizes[:, lower], tol)
            clear = clear and sure
            if beside:
                return _Sufficient(False, words[k].name(names), rank, degree, clear)
        upto = good & (degrees <= degree)
        rank = numerical_rank(values[:, upto], sizes[:, upto], closure.rank.dimension, tol).value
        if closure.settled and rank == closure.rank.value:
            return _Sufficient(True, None, rank, degree, clear)
    return _Sufficient(False, None, rank, closure.order, clear)


def _changed(system: ControlSystem, basis: Array) -> ControlSystem:
    """The system whose inputs are combinations of the inputs, columns of `basis` (a, a)."""
    return ControlSystem(system.nabla, partial(_combined, system, jnp.asarray(basis)), system.count)


def _combined(system: ControlSystem, basis: jax.Array, q: jax.Array) -> jax.Array:
    return system.inputs(q) @ basis
