"""Motions by variational steps of one length: arguments, batches, what is conserved, and errors.

`Steps` makes the steps of many motions; `DiscreteSteps` are those of `variational`, compiled by JAX.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple, NoReturn, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from connections._progress import Ticks
from connections.affine.connection import AffineConnection
from connections.affine.motions.broken_symmetry import MOMENTUM
from connections.affine.motions.flow import as_rows, as_times, is_traced_now
from connections.affine.motions.motion import Motion, followed_by
from connections.affine.motions.units import energy_and_scale, momenta_of
from connections.affine.symmetry import GroupAction
from connections.checks import (
    IntegrationError,
    NonFiniteError,
    as_array,
    as_result,
    finite_results,
    is_traced,
    keep_motion,
    require_choice,
    require_finite,
    text_of_point,
)
from connections.coriolis.variational import (
    OPEN,
    SHARES,
    TURNED,
    DiscreteSystem,
    RecordedValues,
    VariationalMotion,
    advance_at,
    begin_at,
    differentiable_at,
)
from connections.evaluation.boundary import Argument, as_given, batch_of, evaluate, require_admissible
from connections.evaluation.compilation import compiled
from connections.evaluation.parameters import PytreePartial
from connections.geometry.metrics import Metric
from connections.integration.solver import Options, Settings
from connections.integration.tolerances import relative_drift

METHODS = ("DOP853", "Radau", "variational")
GOALS = 64  # requested times in one call of compiled code
LONGEST = 4096  # steps from one of them to the next; so Ctrl-C ends a long motion
WIDTH = (1, 8, 64)  # motions that are stepped together; compiled once for each of these
SHORTEST = 10  # halvings of a step that failed, to say what step would do
OFF = 1e-6  # by how much of a step a requested time may be off a whole number of steps

Array = NDArray[np.float64]


class Stepping(NamedTuple):
    """How long the steps are.

    Parameters
    ----------
    step : h [s], with the sign of the time's direction.
    shares : lengths of the parts of a step, relative to it.
    """

    step: Any
    shares: Array


class Steps(Protocol):
    """Variational steps of rows of motions.

    Attributes
    ----------
    sizes : numbers of rows to which batches are filled up, because each is compiled; () for any number.
    """

    sizes: ClassVar[tuple[int, ...]]

    @property
    def system(self) -> DiscreteSystem:
        """The definition of these steps, for JAX."""

    def begin(self, t0: float, q: Array, v: Array) -> VariationalMotion:
        """The beginnings of motions at the time t0, from q (m, nq) with v (m, n)."""

    def advance(
        self, stepping: Stepping, t0: float, counts: NDArray[np.int64], course: VariationalMotion
    ) -> tuple[VariationalMotion, RecordedValues]:
        """The courses after `counts` (GOALS,) of steps, and what is recorded after each, (m, GOALS, ...)."""


class DiscreteSteps:
    """The steps of a discrete system, compiled by JAX."""

    sizes: ClassVar[tuple[int, ...]] = WIDTH

    def __init__(self, system: DiscreteSystem) -> None:
        self.system = system

    @cached_property
    def _compiled(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """The beginning and the steps of rows."""
        return compiled(_begin_rows, self.system), compiled(_advance_rows, self.system)

    def begin(self, t0: float, q: Array, v: Array) -> VariationalMotion:
        """The beginnings of motions from q (m, nq) with v (m, n) (`Steps.begin`)."""
        begun: VariationalMotion = jax.tree_util.tree_map(np.asarray, self._compiled[0](t0, q, v))
        return begun

    def advance(
        self, stepping: Stepping, t0: float, counts: NDArray[np.int64], course: VariationalMotion
    ) -> tuple[VariationalMotion, RecordedValues]:
        """The courses after `counts` (GOALS,) of steps, and the values after each, (m, GOALS, ...)."""
        found = self._compiled[1](stepping.step, stepping.shares, t0, counts, course)
        after, recorded = jax.tree_util.tree_map(np.asarray, found)
        return VariationalMotion(*after), RecordedValues(*recorded)


def is_variational(name: str, method: str, step: Any, order: Any, options: Mapping[str, Any]) -> bool:
    """Whether a motion is to be found by variational steps.

    Parameters
    ----------
    name : of the function that is called, for errors.
    method, step, order, options : its keywords.

    Raises
    ------
    ValueError : there is no such method or order, or the step is not positive.
    TypeError : an option of the other method, or no step.
    """
    if isinstance(method, str) and method not in METHODS:
        words = "expected 'DOP853' or 'variational', or 'Radau' where a motion is stiff"
        raise ValueError(f"method: {words}, got {method!r}")
    require_choice("method", method, METHODS)
    if method != "variational":
        for option, value in (("step", step), ("order", order)):
            if value is not None:
                raise TypeError(f"{name}: {option} is an option of method='variational'")
        return False
    for option in options:
        if option in Options.__annotations__:
            raise TypeError(
                f"{name}: {option} is no option of method='variational', whose steps have one length"
            )
        near = difflib.get_close_matches(option, ("step", "order"), 1)
        hint = f"did you mean {near[0]}?" if near else "its options are step, order"
        raise TypeError(f"{name}: there is no option {option!r} of method='variational'; {hint}")
    if step is None:
        raise TypeError(f"{name}: method='variational' needs step=h, the length of its steps, s")
    if order not in (None, *SHARES):
        raise ValueError(f"order: expected 2 or 4, got {order!r}")
    return True


def variational_motion(
    name: str,
    owner: Any,
    arguments: tuple[Argument, Argument],
    times: Any,
    step: Any,
    order: int | None,
    steps: Steps,
    conserving: bool,
) -> Motion:
    """The motion of a discrete system, at the requested times.

    Parameters
    ----------
    name : of the function that is called, for errors.
    owner : object with ``frame``, ``valid_at(q)`` and ``explain(q)``.
    arguments : q0 and v0.
    times, step, order : as of `MechanicalSystem.simulate`.
    steps : makes the steps; their definition does where JAX traces.
    conserving : whether the energy is conserved by the continuous motion.
    """
    arrays = [as_array(item.name, item.value, item.core) for item in arguments]
    for item, array in zip(arguments, arrays, strict=True):
        require_finite(item.name, array)
    times, batch = as_times(times), batch_of(arguments, arrays)
    if is_traced(times):
        raise ValueError("times: steps of one length need times that are numbers, also inside of jit")
    counts, stepping = stepping_of(np.asarray(times), step, order)
    rows = [as_rows(array, batch, array.ndim - 1) for array in arrays]
    if is_traced_now(step, *arrays):
        recorded = _traced(steps.system, stepping, times, counts, *rows)
    elif 0 in batch:
        recorded = _nothing(rows, len(counts))
    else:
        recorded = _Followed(name, owner, steps, stepping, np.asarray(times), counts, batch).rows(*rows)
    motion = as_given(_motion(times, recorded, batch, conserving), *(item.value for item in arguments))
    q, v = (x if is_traced(x) else np.array(x) for x in arrays)  # copies: the caller's may change
    own = arguments[0]._replace(value=q), arguments[1]._replace(value=v)
    again = partial(
        variational_motion, name, owner, own, step=step, order=order, steps=steps, conserving=conserving
    )
    return followed_by(motion, times, partial(_between, again, steps, float(stepping.step)))


def stepping_of(times: Array, step: Any, order: int | None) -> tuple[NDArray[np.int64], Stepping]:
    """How many steps lead to each time from the first one, (T,), and the steps.

    Raises
    ------
    ValueError : the step is not positive, or does not divide an interval of times; it names the interval.
    """
    given = as_array("step", step, ())
    sign = -1.0 if len(times) > 1 and times[1] < times[0] else 1.0
    if is_traced(given):
        raise ValueError("step: the number of steps has to be known, also inside of jit: give a number")
    require_finite("step", given)
    if given.ndim or not given > 0.0:
        raise ValueError(f"step: expected a positive number, got {step}")
    h = float(given)
    exact = np.abs(times - times[0]) / h
    counts = np.rint(exact)
    wrong = np.abs(exact - counts) > OFF
    wrong[1:] |= np.diff(counts) < 1.0
    if wrong.any():
        i = int(np.argmax(wrong))
        length = abs(times[i] - times[i - 1])
        near = length / max(math.ceil(length / h - OFF), 1)
        raise ValueError(
            f"step: {h:g} does not divide times[{i}] - times[{i - 1}] = {length:.9g}; {near:.9g} would"
        )
    return counts.astype(np.int64), Stepping(sign * h, np.array(SHARES[order or 2]))


def require_kept(
    name: str, owner: Any, metric: Metric, symmetry: GroupAction, nabla: AffineConnection, motion: Motion
) -> None:
    """Raise `IntegrationError` if a motion does not keep the momenta of a symmetry.

    Parameters
    ----------
    name : of the function that is called.
    owner, metric, nabla : the system, its H and its connection.
    symmetry : under which the system is invariant.
    motion : what was found.
    """
    momenta_of(nabla, metric, symmetry)  # whose errors are about the symmetry
    q, v = (Argument(k, x, (x.shape[-1],)) for k, x in zip("qv", motion, strict=True))
    J, scale = map(np.asarray, evaluate(owner, PytreePartial(_momenta_at, metric, symmetry), q, v))
    most = Settings().drift
    drift = relative_drift(J, np.maximum.accumulate(scale, axis=-2), J[..., :1, :])
    if (drift > most).any():
        at = tuple(np.argwhere(drift > most)[0])
        error = IntegrationError(
            f"{name}: {MOMENTUM} {at[-1]} of the symmetry has changed by {drift[at]:.2g} of "
            f"its scale by t = {np.asarray(motion.times)[at[-2]]:.6g}, where {most:.2g} is allowed; "
            "variational steps keep it if the symmetry commutes with the retraction of the frame"
        )
        keep_motion(error, motion)
        raise error


# --- private ------------------------------------------------------------------------------------------------


def _between(again: Callable[..., Motion], steps: Steps, h: float, times: Array) -> tuple[Any, Any]:
    """q (..., T, nq) and v (..., T, m) at times of which the first is that of the first step.

    Parameters
    ----------
    again : times -> the motion at these times, whole steps from the first one.
    steps, h : the steps, and the length of one.
    """
    exact = (times - times[0]) / h
    before = np.rint(exact)
    inside = np.abs(exact - before) > OFF
    before[inside] = np.floor(exact[inside])
    counts = np.unique(np.concatenate([before, before[inside] + 1.0]))
    motion = again(times=times[0] + counts * h)
    places = np.searchsorted(counts, before)
    ends = (places, np.minimum(places + 1, len(counts) - 1))
    states = [array[..., place, :] for place in ends for array in motion]
    q, v = compiled(_joined_rows_at, steps.system)(h, times[0] + before * h, exact - before, *states)
    inside = inside[:, None]
    if is_traced(q, v):
        return jnp.where(inside, q, states[0]), jnp.where(inside, v, states[1])
    return np.where(inside, q, states[0]), np.where(inside, v, states[1])


def _joined_rows_at(system: DiscreteSystem, h: Any, t: Any, shares: Any, *states: Any) -> Any:
    """`_joined_at` of states (..., T, k)."""
    of_times = jax.vmap(partial(_joined_at, system, h))
    batch = states[0].shape[:-2]
    rows = [state.reshape(-1, *state.shape[-2:]) for state in states]
    found = jax.vmap(lambda *own: of_times(t, shares, *own))(*rows)
    return [array.reshape(*batch, *array.shape[1:]) for array in found]


def _joined_at(
    system: DiscreteSystem,
    h: Any,
    t: jax.Array,
    share: jax.Array,
    q0: jax.Array,
    w0: jax.Array,
    q1: jax.Array,
    w1: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """q and w in a step from (q0, w0) at the time t to (q1, w1) at t + h: a cubic in the coordinates.

    q(s) by Hermite's interpolation of q and qdot, projected on the manifold, and the velocity of this curve.
    """
    frame = system.metric.frame
    q1 = frame.align_at(q1, q0)
    ends = (t, q0, w0), (t + h, q1, w1)
    d0, d1 = (h * frame.matrix_at(q) @ system.timed_at(now).velocity_at(q, w) for now, q, w in ends)

    def point(s: jax.Array) -> jax.Array:
        more = s * (d0 + s * (3.0 * (q1 - q0) - 2.0 * d0 - d1 + s * (d0 + d1 - 2.0 * (q1 - q0))))
        return frame.project_at(q0 + more)

    q, slope = jax.jvp(point, (share,), (jnp.ones_like(share),))
    v = frame.velocity_at(q, slope / h)
    P = system.allowed_at(q, system.metric.matrix_at(q) @ v)
    return q, v if system.basis_at(q) is None else system.timed_at(t + share * h).components_at(q, P)


def _momenta_at(
    metric: Metric, symmetry: GroupAction, q: jax.Array, v: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The momenta, and the largest that they could be at this speed, (p,) each."""
    momenta, lengths = symmetry.momenta_at(metric, q, v)
    return momenta, lengths * jnp.sqrt(v @ metric.matrix_at(q) @ v)


class _Followed(NamedTuple):
    """Motions that are followed outside of JAX's transformations."""

    name: str
    owner: Any
    steps: Steps
    stepping: Stepping
    times: Array
    counts: NDArray[np.int64]
    batch: tuple[int, ...]

    def rows(self, q0: Array, v0: Array) -> RecordedValues:
        """The values of all motions, (m, T, ...)."""
        count = len(q0)
        sizes = self.steps.sizes or (count,)
        width = next((size for size in sizes if count <= size), sizes[-1])
        parts = []
        with Ticks(self.name) as tick:
            for begin in range(0, count, width):
                which = np.minimum(np.arange(begin, begin + width), count - 1)
                share = begin / count, min(width, count - begin) / count
                parts.append(self._some(which, q0[which], v0[which], tick, share))
        return RecordedValues(*(np.concatenate(leaves)[:count] for leaves in zip(*parts, strict=True)))

    def _some(
        self, which: NDArray[np.int64], q0: Array, v0: Array, tick: Ticks, share: tuple[float, float]
    ) -> RecordedValues:
        """The values (m, T, ...) of motions that are stepped together."""
        pieces, wanted = _pieces(self.counts)
        t0 = float(self.times[0])
        course = self.steps.begin(t0, q0, v0)
        found: list[RecordedValues] = []
        for at in range(0, len(pieces), GOALS):
            counts = np.zeros(GOALS, np.int64)
            own = pieces[at : at + GOALS]
            counts[: len(own)] = own
            course, recorded = self.steps.advance(self.stepping, t0, counts, course)
            places = np.flatnonzero(wanted[at : at + GOALS])
            found.append(RecordedValues(*(leaf[:, places] for leaf in recorded)))
            if course.why.any() or not found[-1].good.all():
                self._fail(which, q0, course, _joined(found))
            tick(share[0] + share[1] * min((at + GOALS) / len(pieces), 1.0))
        return _joined(found)

    def _fail(
        self, which: NDArray[np.int64], q0: Array, course: VariationalMotion, found: RecordedValues
    ) -> None:
        """Raise the error of the first motion that failed."""
        bad = (course.why > 0) | ~found.good.all(axis=1)
        row = int(np.argmax(bad))
        name = self.name
        if self.batch:
            name = f"{name} {[int(i) for i in np.unravel_index(which[row], self.batch)]} of the batch"
        good = found.good[row]
        until = int(np.argmin(good)) if not good.all() else len(good)
        if until == 0:
            require_admissible(self.owner, "q0", q0[row])
        try:
            if course.why[row] == 0:
                t, q = self.times[until], found.q[row, until]
                try:
                    require_admissible(self.owner, "q", q)
                except ValueError as error:
                    raise IntegrationError(f"{name}: at t = {t:.6g}, {error}") from error
                raise IntegrationError(f"{name}: the motion is not finite by t = {t:.6g}")
            self._raise(name, row, course)
        except IntegrationError as error:
            error.failed = (tuple(int(i) for i in np.unravel_index(which[row], self.batch)),)
            if not self.batch:
                kept = jax.tree_util.tree_map(lambda leaf: leaf[row : row + 1, :until], found)
                keep_motion(error, _motion(self.times[:until], kept, (), False))
            raise

    def _refused(self, row: int, course: VariationalMotion) -> NonFiniteError | None:
        """The error of a user's function that is not finite within the step that failed, or None.

        It is looked for at the ends and the middles of the parts of the step, on the way that its first
        velocity leads.
        """
        system = self.steps.system
        frame = system.metric.frame
        q, P = (jnp.asarray(array[row]) for array in course[:2])
        here = system.timed_at(float(self.times[0]) + course.steps[row] * float(self.stepping.step))
        h, ends = float(self.stepping.step), np.concatenate([[0.0], np.cumsum(self.stepping.shares)])
        w = here.components_at(q, P)
        as_known: Any = jnp.asarray if self.steps.sizes else np.asarray  # robots' need not know JAX's
        for share in np.unique([ends[:-1], 0.5 * (ends[:-1] + ends[1:]), ends[1:]]):
            t = float(self.times[0]) + (course.steps[row] + share) * h
            p = frame.retract_at(q, share * h * here.velocity_at(q, w))
            try:
                with finite_results():
                    system.applied_at(t, as_known(p), as_known(w))
                    slope = frame.lie_derivative_at(system.potential_at, p)
                    as_result("the gradient of the potential", slope)
            except NonFiniteError as error:
                what = str(error).removesuffix(": every number must be finite")
                return NonFiniteError(f"{what} at t = {t:.6g}")
        return None

    def _raise(self, name: str, row: int, course: VariationalMotion) -> NoReturn:
        """Raise the error of a step that failed: why, and what step would do."""
        h = float(self.stepping.step)
        t = float(self.times[0] + course.steps[row] * h)
        why = "Newton's method does not converge near to where it begins"
        if course.why[row] == TURNED:
            why = "a body or the angle of a joint would turn by half a turn or more in it"
        if course.why[row] == OPEN:
            why = "loops do not close where it leads"
        what = f"{name}: no step of {abs(h):g} from t = {t:.6g}, q = {text_of_point(course.q[row])}"
        found = self._shorter(row, course, t)
        if found is not None:
            raise IntegrationError(f"{what}: {why}; the step is too long: there step={found:.6g} would do")
        refused = self._refused(row, course)
        if refused is not None:
            raise IntegrationError(f"{what}: {refused}") from refused
        least = abs(h) / 2**SHORTEST
        raise IntegrationError(f"{what}: {why}; no step down to {least:.3g} would do there")

    def _shorter(self, row: int, course: VariationalMotion, t: float) -> float | None:
        """The length of steps by which the motion can be followed for the time of the step that failed."""
        rows = len(course.q) if self.steps.sizes else 1
        here = jax.tree_util.tree_map(lambda leaf: np.repeat(leaf[row : row + 1], rows, axis=0), course)
        nothing = np.zeros_like(here.steps)
        for halvings in range(1, SHORTEST + 1):
            counts = np.zeros(GOALS, np.int64)
            counts[0] = 2**halvings
            shorter = self.stepping._replace(step=self.stepping.step / 2**halvings)
            end, _ = self.steps.advance(shorter, t, counts, here._replace(steps=nothing, why=nothing))
            if end.why[0] == 0:
                return abs(float(shorter.step))
        return None


def _pieces(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Numbers of steps of at most `LONGEST`, one after the other, and after which a time is requested."""
    pieces, wanted = [], []
    for count in np.diff(counts, prepend=0).tolist():
        while count > LONGEST:
            pieces.append(LONGEST)
            wanted.append(False)
            count -= LONGEST
        pieces.append(count)
        wanted.append(True)
    return np.array(pieces), np.array(wanted)


def _joined(found: list[RecordedValues]) -> RecordedValues:
    return RecordedValues(*(np.concatenate(leaves, axis=1) for leaves in zip(*found, strict=True)))


def _traced(
    system: DiscreteSystem, stepping: Stepping, times: Any, counts: NDArray[np.int64], q0: Any, v0: Any
) -> RecordedValues:
    """The values (m, T, ...) of motions that JAX traces; NaN from the first time that is not reached."""
    size = math.gcd(*np.diff(counts).tolist()) if len(counts) > 1 else 1
    blocks = int(counts[-1]) // size, size

    def one(q: jax.Array, v: jax.Array) -> RecordedValues:
        found = differentiable_at(system, blocks, stepping.step, stepping.shares, times[0], q, v)
        found = RecordedValues(*(leaf[counts // size] for leaf in found))
        alive = jnp.where(jnp.cumprod(found.good) == 1, 1.0, jnp.nan)
        return RecordedValues(*(leaf * alive.reshape(-1, *(1,) * (leaf.ndim - 1)) for leaf in found))

    recorded: RecordedValues = jax.vmap(one)(q0, v0)
    return recorded


def _nothing(rows: list[Any], count: int) -> RecordedValues:
    """The values (0, T, ...) of an empty batch."""
    q, v = (np.zeros((0, count, row.shape[1])) for row in rows)
    return RecordedValues(q, v, *np.zeros((3, 0, count)))


def _motion(times: Any, found: RecordedValues, batch: tuple[int, ...], conserving: bool) -> Motion:
    """The motions, with the relative change of the energy if it is conserved."""
    numpy: Any = jnp if is_traced(found.q) else np
    drift = None
    if conserving:
        value, scale = energy_and_scale(found.kinetic, found.potential)
        largest = jax.lax.cummax(scale, axis=1) if numpy is jnp else np.maximum.accumulate(scale, axis=1)
        drift = relative_drift(value, largest, value[:, :1], numpy).reshape(*batch, value.shape[1])
    q, v = (array.reshape(*batch, *array.shape[1:]) for array in (found.q, found.v))
    return Motion(times if isinstance(times, jax.Array) else np.array(times), q, v, drift=drift)


def _begin_rows(system: DiscreteSystem, t0: Any, q: jax.Array, v: jax.Array) -> VariationalMotion:
    return jax.vmap(lambda q, v: begin_at(system, t0, q, v))(q, v)


def _advance_rows(
    system: DiscreteSystem, h: Any, shares: jax.Array, t0: Any, counts: jax.Array, course: VariationalMotion
) -> tuple[VariationalMotion, RecordedValues]:
    """`advance_at` of rows; one row is not vectorized, which compiles and runs faster."""
    if len(course.q) > 1:
        many: tuple[VariationalMotion, RecordedValues]
        many = jax.vmap(lambda own: advance_at(system, h, shares, t0, counts, own))(course)
        return many
    one = jax.tree_util.tree_map(lambda leaf: leaf[0], course)
    found = advance_at(system, h, shares, t0, counts, one)
    rows: tuple[VariationalMotion, RecordedValues] = jax.tree_util.tree_map(lambda leaf: leaf[None], found)
    return rows
