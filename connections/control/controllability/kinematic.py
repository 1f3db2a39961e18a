"""Decoupling vector fields and kinematic controllability.

A field X is decoupling if every curve along it, at every speed, is a motion that the inputs can produce: X
and <X : X> lie in the span of the inputs, in a neighbourhood. A system is kinematically controllable if the
involutive closure of its decoupling fields has rank n; it then moves from rest to rest between any two
nearby configurations, along one field after the other. With X = u^a(q) Y_a the condition is
B^l_ab u^a u^b = 0, with B^l_ab(q) the components of <Y_a : Y_b> beside the inputs: it has no derivatives of
u, so a field is decoupling if it is so at every point.
Source: [BLy]; [BLL].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import qr

from connections._jax import ArrayLike, solve
from connections._words import words_of
from connections.affine.connection import AffineConnection
from connections.checks import (
    Check,
    ShapeError,
    as_array,
    as_number,
    require_duration,
    require_finite,
    require_function,
    require_type,
    require_untraced,
)
from connections.control.controllability.directions import decoupling_directions, of_inputs
from connections.control.controllability.expansion import Expansion
from connections.control.controllability.field_closures import (
    LieClosure,
    control_system,
    input_names,
    involutive_closure_of,
    jets_near,
)
from connections.control.controllability.ranks import TOLERANCE, normalized
from connections.control.controllability.symmetric_products import ControlSystem, Jet, input_words, symmetric
from connections.evaluation.compilation import shape_of
from connections.geometry.frames import FIELD, PointFunction

Array = np.ndarray[Any, Any]
_STEPS = 6  # of Newton's method: exact derivatives to the order 2^6 - 1 at the point where it starts
_CHECK = 1e-8  # of a decoupling field, relative to the terms of X and of <X : X>
_NOTHING = 1e-12  # of a direction of unit length: a part that belongs to no input
_REGULAR = 1e-6  # of the forms: below it, a zero is taken for a double one


@dataclass(frozen=True, eq=False)
class DecouplingField:
    """A decoupling field.

    Parameters
    ----------
    name : the combination of inputs that it is at the point.
    coefficients : (a,) u at the point, of unit length.
    field : q -> X (m,), components in the connection's frame; JAX-traceable.
    constant : whether u is constant.
    check : `is_decoupling` at the point and at neighbouring ones.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections.control import controllability
    >>> nabla = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(2), jnp.diag(jnp.array([1.0, 2.0]))))
    >>> (field,) = controllability.decoupling_fields(nabla, lambda q: jnp.eye(2)[:, :1], [0.0, 0.0]).fields
    >>> field.name, field.constant, field.check.ok
    ('Y0', True, True)
    """

    name: str
    coefficients: Array
    field: PointFunction = field(repr=False)
    constant: bool
    check: Check


@dataclass(frozen=True, eq=False)
class DecouplingFields:
    """The decoupling fields found near a point.

    Parameters
    ----------
    fields : those found; if every combination of inputs is decoupling, the inputs.
    every : whether every combination of the inputs is decoupling: the system is then kinematic.
    complete : whether there are no others, up to functions as factors.
    isolated : directions at the point that belong to no field found: combinations of inputs.
    searched : what was searched, in words.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections.control import controllability
    >>> nabla = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(3), jnp.eye(3)))
    >>> found = controllability.decoupling_fields(nabla, lambda q: jnp.eye(3)[:, :2], [0.0, 0.0, 0.0])
    >>> found.every, found.complete, len(found.fields)
    (True, True, 2)
    """

    fields: tuple[DecouplingField, ...]
    every: bool
    complete: bool
    isolated: tuple[str, ...]
    searched: str

    def __str__(self) -> str:
        named = ", ".join(each.name for each in self.fields) or "none"
        if self.every:
            named = "every combination of the inputs"
        return f"{named} ({self.searched}{'' if self.complete else '; there may be others'})"


@dataclass(frozen=True, eq=False)
class KinematicReport:
    """Whether a system is kinematically controllable at a point; printed, it is a readable text.

    Parameters
    ----------
    q : (nq,) the point.
    controllable : True, False, or None if the search may have missed a field.
    reason : why, in words.
    decoupling : the decoupling fields; None if they were given.
    involutive : the involutive closure of the fields; None if there are none.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections.control import controllability
    >>> nabla = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(2), jnp.diag(jnp.array([1.0, 2.0]))))
    >>> report = controllability.kinematic_controllability(nabla, lambda q: jnp.eye(2), [0.0, 0.0])
    >>> report.controllable
    True
    >>> print(report.reason)
    the closure has rank 2
    """

    q: Array
    controllable: bool | None
    reason: str
    decoupling: DecouplingFields | None
    involutive: LieClosure | None

    def __str__(self) -> str:
        said = {True: "yes", False: "no", None: "undecided"}[self.controllable]
        lines = [f"kinematic controllability at q = {np.array2string(self.q, precision=6, threshold=12)}"]
        if self.decoupling is not None:
            lines.append(f"  decoupling fields: {self.decoupling}")
        if self.involutive is not None:
            lines.append(f"  involutive closure: {self.involutive}")
        return "\n".join([*lines, f"  kinematically controllable: {said}: {self.reason}"])


def decoupling_fields(
    nabla: AffineConnection,
    inputs: PointFunction,
    q: ArrayLike,
    *,
    tol: float = TOLERANCE,
    names: Sequence[str] | None = None,
) -> DecouplingFields:
    """The decoupling fields near q.

    Their directions at q are the zeros of a quadratic map. For two inputs all are found. For more: the
    inputs, the roots of each pair of inputs, and zeros by Newton's method from random starts, of which there
    may be infinitely many. Each is continued to a field by the implicit function theorem, a double root of
    two inputs by the kernel of its form, and is kept if it is decoupling at neighbouring points too.

    Parameters
    ----------
    nabla, inputs, q, tol, names : as in `configuration_controllability`.

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
    >>> radial = lambda q: jnp.array([[1.0], [0.0]])
    >>> found = controllability.decoupling_fields(cn.LeviCivita(polar), radial, [2.0, 0.0], names=["pull"])
    >>> [field.name for field in found.fields], found.complete
    (['pull'], True)

    Source: [BLy].
    """
    tol = require_duration("tol", tol)
    system, q = control_system(nabla, inputs, q)
    return _search(system, jets_near(system, q), tol, input_names(system, names))


def is_decoupling(
    nabla: AffineConnection, X: PointFunction, inputs: PointFunction, q: ArrayLike, tol: float = _CHECK
) -> Check:
    """Whether X and <X : X> lie in the span of the inputs at all points.

    Parameters
    ----------
    nabla, inputs : as in `configuration_controllability`.
    X : q -> (m,), components in the connection's frame; JAX-traceable.
    q : (..., nq) points.
    tol : relative to the largest term of X and of <X : X>, each divided by its own size.

    Raises
    ------
    ShapeError, NonFiniteError; FrameError if the inputs are dependent; the errors of `nabla`.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections.control import controllability
    >>> H = lambda q: jnp.diag(jnp.array([1.0, q[0] ** 2]))  # of a mass in the plane, in (r, phi)
    >>> polar = cn.MatrixMetric(cn.CoordinateFrame(2), H)
    >>> nabla, e = cn.LeviCivita(polar), jnp.eye(2)
    >>> along = controllability.is_decoupling(nabla, lambda q: e[0], lambda q: e[:, :1], [2.0, 0.0])
    >>> around = controllability.is_decoupling(nabla, lambda q: e[1], lambda q: e[:, 1:], [2.0, 0.0])
    >>> along.ok, around.ok  # circles are no geodesics
    (True, False)

    Source: [BLy].
    """
    require_type("nabla", nabla, AffineConnection)
    require_untraced(nabla=nabla, q=q)
    tol = as_number("tol", tol)
    points = np.asarray(as_array("q", q, (nabla.frame.ambient_dim,)))
    require_finite("q", points)
    rows = points.reshape(-1, points.shape[-1])
    validated = [control_system(nabla, inputs, row) for row in rows]
    require_function("X", X, FIELD)
    shape = shape_of("X(q)", X, rows[0].shape)
    if shape != (nabla.frame.dim,):
        raise ShapeError("decoupling field X", (nabla.frame.dim,), shape)
    system = validated[0][0]
    return _decoupling_check([system.jet(row) for _, row in validated], X, tol)


def kinematic_controllability(
    nabla: AffineConnection,
    inputs: PointFunction,
    q: ArrayLike,
    fields: Sequence[PointFunction] | None = None,
    *,
    order: int | None = None,
    tol: float = TOLERANCE,
    names: Sequence[str] | None = None,
) -> KinematicReport:
    """Whether the involutive closure of the decoupling fields has rank n at q.

    Parameters
    ----------
    nabla, inputs, q, tol, names : as in `configuration_controllability`.
    fields : decoupling fields q -> (m,), instead of those found by `decoupling_fields`; checked near q.
    order : largest number of fields in a bracket; None: as are needed.

    Raises
    ------
    ShapeError, NonFiniteError; FrameError if the inputs are dependent; CheckError if a field given is
    not decoupling; the errors of `nabla` at q.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> from connections.control import controllability
    >>> nabla = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(3), jnp.eye(3)))
    >>> inputs, q = lambda q: jnp.eye(3)[:, :2], [0.0, 0.0, 0.0]
    >>> report = controllability.kinematic_controllability(nabla, inputs, q)
    >>> report.controllable, report.involutive.rank.value
    (False, 2)

    Source: [BLy]; [BLL].
    """
    tol = require_duration("tol", tol)
    if fields is not None and not isinstance(fields, Sequence):
        raise TypeError(f"fields: expected a list of functions, got {words_of(fields)}")
    for number, X in enumerate(fields or ()):
        require_function(f"fields[{number}]", X, FIELD)
    system, q = control_system(nabla, inputs, q, order)
    jets, named = jets_near(system, q), input_names(system, names)
    found = None
    if fields is None:
        found = _search(system, jets, tol, named)
        fields, labels = [each.field for each in found.fields], tuple(each.name for each in found.fields)
    else:
        for X in fields:
            is_decoupling(nabla, X, inputs, np.stack([jet.q for jet in jets])).require()
        labels = tuple(f"X{k}" for k in range(len(fields)))
    complete = found is not None and found.complete
    if not fields:
        verdict, reason = (False, "there is none") if complete else (None, "no decoupling field was found")
        return KinematicReport(q, verdict, reason, found, None)
    chosen = tuple(fields)
    moving = ControlSystem(nabla, partial(_side_by_side, chosen), len(chosen))
    near = [moving.jet(jet.q) for jet in jets]
    closure = involutive_closure_of(moving, near, input_words(len(chosen)), order, tol, labels)
    if closure.rank.full:
        return KinematicReport(q, True, f"the closure has rank {system.dim}", found, closure)
    reason = f"the closure has rank {closure.rank.value} < {system.dim}"
    return KinematicReport(q, False if complete and closure.settled else None, reason, found, closure)


def _side_by_side(fields: Sequence[PointFunction], q: jax.Array) -> jax.Array:
    return jnp.stack([X(q) for X in fields], axis=1)


# --- from directions to fields -----------------------------------------------------------------------------


def _search(system: ControlSystem, jets: list[Jet], tol: float, names: Sequence[str]) -> DecouplingFields:
    directions = [decoupling_directions(jet, tol) for jet in jets]
    here, count = directions[0], system.count
    searched = "all directions" if here.complete else "inputs, pairs, random starts"
    found, isolated = [], []
    for u in here.columns.T:
        (given,) = of_inputs(jets[0], u[:, None]).T
        name = _name(u, given, names)
        kept = None
        for number, (field_of, constant) in enumerate(_continuations(system, jets[0], u)):
            check = _decoupling_check(jets, field_of, _CHECK)
            if check.ok:
                continued = _Continued(field_of, (system, jets[0].q, u, number))
                kept = DecouplingField(name, given, continued.field, constant, check)
                break
        if kept is None:
            isolated.append(name)
        else:
            found.append(kept)
    every = all(each.every for each in directions)
    alike = all(each.columns.shape == here.columns.shape for each in directions)  # no root splits beside q
    complete = every or count == 1 or (here.complete and not here.every and not isolated and alike)
    return DecouplingFields(tuple(found), every, complete, tuple(isolated), searched)


def _name(u: Array, given: Array, names: Sequence[str]) -> str:
    """u as a combination of inputs, of which `given` are the coefficients."""
    terms = [(x, name) for part, x, name in zip(u, given, names, strict=True) if abs(part) > _NOTHING]
    if len(terms) == 1:
        return terms[0][1]
    return " ".join(f"{'-' if x < 0 else '+'} {abs(x):.4g} {name}" for x, name in terms).removeprefix("+ ")


class _Continued:
    """One of `_continuations`, which another process makes again."""

    def __init__(self, field_of: PointFunction, made_of: tuple[Any, ...]) -> None:
        self._at, self._made_of = field_of, made_of

    def field(self, q: jax.Array) -> jax.Array:
        """X (m,)."""
        return self._at(q)

    def __reduce__(self) -> tuple[Any, ...]:
        return _continued, self._made_of


def _continued(system: ControlSystem, q: Array, u: Array, number: int) -> _Continued:
    field_of, _ = next(islice(_continuations(system, system.jet(q), u), number, None))
    return _Continued(field_of, (system, q, u, number))


def _continuations(system: ControlSystem, jet: Jet, u: Array) -> Iterator[tuple[PointFunction, bool]]:
    """Fields that have the direction u at the point: constant, by Newton's method, by a kernel."""
    fixed, units = jnp.asarray(u), jnp.asarray(jet.units.inputs)

    def inputs(q: jax.Array) -> jax.Array:
        return system.inputs(q) * units[None]

    yield lambda q: inputs(q) @ fixed, True
    forms_at = _forms_at(system, jet)
    forms = Expansion(forms_at, len(jet.q)).value(jet.q)
    scale = np.max(np.abs(forms), initial=0.0)
    rows, columns = _minor(2.0 * np.einsum("lab,b->la", forms, u), _REGULAR * scale)
    if len(rows):
        yield _implicit(inputs, forms_at, fixed, rows, columns), False
    if system.count == 2 and scale > 0.0:
        row = int(np.argmax(np.max(np.abs(forms), axis=(1, 2))))
        first = bool(abs(forms[row, 0, 0]) >= abs(forms[row, 1, 1]))

        def kernel(q: jax.Array) -> jax.Array:
            form = forms_at(q)[row]
            v = jnp.stack([-form[0, 1], form[0, 0]] if first else [form[1, 1], -form[0, 1]])
            return inputs(q) @ v

        yield kernel, False


def _forms_at(system: ControlSystem, jet: Jet) -> PointFunction:
    """q -> B[l, a, b], components of <Y_a : Y_b> along a constant complement of the inputs; JAX.

    In the units of the jet.
    """
    count, frame = system.count, system.frame
    Y, sizes = jet.scaled(input_words(count), ambient=False)
    N = np.linalg.svd(normalized(Y, sizes, TOLERANCE), full_matrices=True)[0][:, count:]
    complement = jnp.asarray(N)
    fields, units = jnp.asarray(jet.units.fields), jnp.asarray(jet.units.inputs)

    def forms(q: jax.Array) -> jax.Array:
        y, dy = frame.value_and_lie_derivative_at(system.inputs, q)  # dy[j, i, a] = L_{X_j} Y_a^i
        moved = jnp.einsum("ja,jib->iab", y, dy)
        Gamma = system.surroundings.coefficients_at(q)
        turned = jnp.einsum("ijk,ja,kb->iab", Gamma + jnp.swapaxes(Gamma, 1, 2), y, y)
        products = (moved + jnp.swapaxes(moved, 1, 2) + turned) * units[:, None] * units
        products /= fields[:, None, None]
        square = jnp.concatenate([y * units / fields[:, None], complement], axis=1)
        return solve(square, products.reshape(len(y), -1)).reshape(products.shape)[count:]

    return jax.jit(forms)


def _minor(slopes: Array, least: float) -> tuple[Array, Array]:
    """Rows and columns of an invertible minor of largest rank."""
    _, r, columns = qr(slopes, mode="economic", pivoting=True)
    rank = int(np.sum(np.abs(np.diagonal(r)) > least))
    columns = columns[:rank]
    if not rank:
        return columns, columns
    rows = qr(slopes[:, columns].T, mode="economic", pivoting=True)[2][:rank]
    return rows, columns


def _implicit(
    inputs: PointFunction, forms_at: PointFunction, start: jax.Array, rows: Array, columns: Array
) -> PointFunction:
    """Newton's method from `start`, the entries in `columns` moving, others constant."""

    def field_of(q: jax.Array) -> jax.Array:
        forms, u = forms_at(q)[rows], start
        for _ in range(_STEPS):
            half = jnp.einsum("lab,b->la", forms, u)
            step = solve(2.0 * half[:, columns], half @ u)
            u = u.at[columns].add(-step)
        return inputs(q) @ u

    return field_of


def _decoupling_check(jets: list[Jet], X: PointFunction, tol: float) -> Check:
    """Largest part of X and of <X : X> outside the inputs, relative to the terms of each; scale one."""
    system, worst = jets[0].system, 0.0
    moving = ControlSystem(system.nabla, lambda q: X(q)[:, None], 1)
    (word,) = input_words(1)
    for jet in jets:
        Y = np.linalg.qr(normalized(*jet.scaled(input_words(system.count), ambient=False), TOLERANCE))[0]
        values, sizes = moving.jet(jet.q, jet.units).scaled([word, symmetric(word, word)], ambient=False)
        rest = np.linalg.norm(values - Y @ (Y.T @ values), axis=0)
        terms = np.linalg.norm(sizes, axis=0)
        worst = float(np.maximum(worst, np.max(rest / np.where(terms > 0.0, terms, 1.0))))  # NaN stays
    return Check("decoupling", worst, 1.0, tol)
