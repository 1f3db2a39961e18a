"""Variational steps: one motion of a discrete Lagrangian, for any metric, frame and retraction.

With the midpoint m between two points, q_k = rho(m, -h xi/2), q_{k+1} = rho(m, h xi/2) and the discrete
Lagrangian L_d(q_k, q_{k+1}) = h L(m, xi), where rho is the retraction of the frame and

    dq(+-) = X(q(+-)) (A+- dm +- (h/2) B+- dxi),

a step from the momentum P_k is the solution (m, xi, P_{k+1}) of

    A+^T P_{k+1} - A-^T P_k = h (L_i L(m, xi) + F(m, xi)),     (B-^T P_k + B+^T P_{k+1}) / 2 = H(m) xi.

No structure function and no connection occurs: they are in A and B. In a chart with rho = q + xi this is the
implicit midpoint rule of (q, p). A step is its own adjoint, so that its order is even: 2, and 4 by Suzuki's
composition. It is symplectic; it keeps the momentum of a symmetry that commutes with rho.

With constraints (discrete Lagrange-d'Alembert), xi = A(m) w + v_0(m), and only A(q_k)^T P_k is given:
P_k itself is unknown, too, by the impulse of the constraints. Source: [MW] sections 1 and 3, [CM].
"""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from connections.evaluation.parameters import Parametrized
from connections.geometry.frames import FrameField
from connections.geometry.metrics import Metric
from connections.geometry.numerics.definite import solve_definite

MOST_ITERATIONS = 25  # of Newton's method, which takes three or four
CLOSE = 1e-9  # a Newton step so small, relative to the velocity, is the last: its error is the square of it
# A Newton step of more than a quarter of the one before, and of this part of the velocity, leaves for another
# solution, or for none: by Kantorovich's theorem there is one, near to where the search begins, if a step a
# and the next one b = w a^2 / 2 have w a <= 1/2. Source: [D] section 2.1.
AWAY, LARGE = 0.25, 0.03
# Why there is no step: no solution goes on from short steps; something would turn by half a turn; a bad
# beginning; loops do not close where it leads.
UNSOLVED, TURNED, OUTSIDE, OPEN = 1, 2, 3, 4
_SUZUKI = 1.0 / (4.0 - 4.0 ** (1.0 / 3.0))
SHARES = {2: (1.0,), 4: (_SUZUKI, _SUZUKI, 1.0 - 4.0 * _SUZUKI, _SUZUKI, _SUZUKI)}  # of h, by order


class DiscreteSystem(Parametrized, abc.ABC):
    """A mechanical system as a variational step uses it, with its control."""

    @property
    @abc.abstractmethod
    def metric(self) -> Metric:
        """H, in the frame of the momenta."""

    @abc.abstractmethod
    def potential_at(self, q: jax.Array) -> jax.Array:
        """V(q), a scalar."""

    @abc.abstractmethod
    def applied_at(self, t: Any, q: jax.Array, v: jax.Array) -> jax.Array:
        """Forces and control F(t, q, v), (n,), for a velocity as the system's user sees it."""

    @abc.abstractmethod
    def valid_at(self, q: jax.Array) -> jax.Array:
        """Whether the system is defined at q."""

    def timed_at(self, t: Any) -> DiscreteSystem:
        """The system as it is at the time t: `drift_at` may depend on it."""
        return self

    def basis_at(self, q: jax.Array) -> jax.Array | None:
        """A(q), (n, m), of the velocities that the constraints allow; None without constraints."""
        return None

    def drift_at(self, q: jax.Array) -> jax.Array:
        """v_0(q), (n,), of constraints that move."""
        return jnp.zeros(self.metric.frame.dim)

    def velocity_at(self, q: jax.Array, w: jax.Array) -> jax.Array:
        """xi = A w + v_0, (n,)."""
        A = self.basis_at(q)
        return w if A is None else A @ w + self.drift_at(q)

    def momentum_at(self, q: jax.Array, w: jax.Array) -> jax.Array:
        """P of a velocity: H w, or A^T H (A w + v_0), (m,)."""
        return self.allowed_at(q, self.metric.matrix_at(q) @ self.velocity_at(q, w))

    def allowed_at(self, q: jax.Array, p: jax.Array) -> jax.Array:
        """A^T p, (m,); p without constraints."""
        A = self.basis_at(q)
        return p if A is None else A.T @ p

    def inertia_at(self, q: jax.Array) -> jax.Array:
        """A^T H A, (m, m)."""
        H, A = self.metric.matrix_at(q), self.basis_at(q)
        return H if A is None else A.T @ H @ A

    def components_at(self, q: jax.Array, P: jax.Array) -> jax.Array:
        """w of a momentum P (m,)."""
        if self.basis_at(q) is None:
            return solve_definite(self.metric.matrix_at(q), P)
        rest = self.allowed_at(q, self.metric.matrix_at(q) @ self.drift_at(q))
        return solve_definite(self.inertia_at(q), P - rest)

    def kinetic_at(self, q: jax.Array, w: jax.Array, P: jax.Array) -> jax.Array:
        """The kinetic energy of a velocity and its momentum, a scalar."""
        xi = self.velocity_at(q, w)
        return 0.5 * xi @ self.metric.matrix_at(q) @ xi

    def step_at(
        self, t: Any, h: Any, q: jax.Array, P: jax.Array, differentiable: bool
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """(q_{k+1}, P_{k+1}, why): one step of order 2; `differentiable` as for `solved_at`."""
        frame, here, halfway = self.metric.frame, self.timed_at(t), self.timed_at(t + 0.5 * h)
        n, w0, H = frame.dim, here.components_at(q, P), self.inertia_at(q)
        xi, metric = here.velocity_at(q, w0), self.metric.matrix_at(q)
        first = [0.5 * h * xi, w0, metric @ xi]
        if self.basis_at(q) is not None:
            first.append(first[-1])

        def size(w: jax.Array) -> jax.Array:
            return jnp.sqrt(jnp.maximum(w @ H @ w, 0.0))

        def whole(unknown: jax.Array) -> jax.Array:
            """The size of all unknowns, as velocities."""
            mu, w, *momenta = jnp.split(unknown, np.cumsum([n, len(w0), n])[: len(first) - 1])
            half = 2.0 * mu / h
            squares = [half @ metric @ half, w @ H @ w, *(p @ solve_definite(metric, p) for p in momenta)]
            return jnp.sqrt(jnp.maximum(sum(squares), 0.0))

        def equations(unknown: jax.Array) -> jax.Array:
            return equations_at(self, t, h, q, P, unknown)

        own, noisy = slice(n, n + len(w0)), noise_at(frame, metric, h, q)
        search = Search(jnp.concatenate(first), size, whole, own, noisy, jnp.sign(h) ** n)
        unknown, good = solved_at(equations, search, differentiable)
        mu, w, after, _ = _parts(self, q, P, unknown)
        middle = frame.retract_at(q, mu)
        end = frame.project_at(frame.retract_at(middle, 0.5 * h * halfway.velocity_at(middle, w)))
        turned = jnp.any(frame.align_at(end, q) != end)
        why = jnp.where(good > 0.0, jnp.where(turned, TURNED, 0), UNSOLVED)
        return end, self.allowed_at(end, after), why


class VariationalMotion(NamedTuple):
    """A motion on its way.

    Parameters
    ----------
    q, P : (nq,) and (m,), point and momentum.
    steps : how many steps were made.
    why : 0, or why the next step failed.
    guess : with what compiled code begins its search; None in JAX.
    """

    q: Any
    P: Any
    steps: Any
    why: Any
    guess: Any = None


class RecordedValues(NamedTuple):
    """Values at one time: q (nq,), w (m,), kinetic and potential energy, and whether all are valid."""

    q: Any
    v: Any
    kinetic: Any
    potential: Any
    good: Any


def begin_at(system: DiscreteSystem, t0: Any, q: jax.Array, v: jax.Array) -> VariationalMotion:
    """The beginning of the motion at the time t0 from (q, v); q is projected, and has to be near."""
    frame = system.metric.frame
    q, near = frame.project_at(q), frame.near_at(q)
    P = system.timed_at(t0).momentum_at(q, v)
    return VariationalMotion(q, P, jnp.asarray(0), jnp.where(near, 0, OUTSIDE))


def record_at(system: DiscreteSystem, t: Any, course: VariationalMotion) -> RecordedValues:
    """The values of a motion at a requested time t."""
    system, q, P = system.timed_at(t), course.q, course.P
    w = system.components_at(q, P)
    kinetic, potential = system.kinetic_at(q, w, P), system.potential_at(q)
    finite = jnp.all(jnp.isfinite(w)) & jnp.isfinite(kinetic + potential)
    return RecordedValues(q, w, kinetic, potential, (course.why == 0) & system.valid_at(q) & finite)


def equations_at(
    system: DiscreteSystem, t: Any, h: Any, q: jax.Array, P: jax.Array, unknown: jax.Array
) -> jax.Array:
    """The equations of a step from (q, P) at the time t; zero at its solution.

    Parameters
    ----------
    system : the system.
    t, h : time and length of the step, of either sign.
    q, P : (nq,) and (m,).
    unknown : mu (n,) with m = rho(q, mu), w (m,), the momentum P_{k+1} before A^T (n,), and with constraints
        the momentum P_k that A^T maps to P (n,).
    """
    frame = system.metric.frame
    m, w, after, before = _parts(system, q, P, unknown)
    middle = frame.retract_at(q, m)
    xi = system.timed_at(t + 0.5 * h).velocity_at(middle, w)
    ways = jnp.stack([0.5 * h * xi, -0.5 * h * xi])
    (A_plus, A_minus), (B_plus, B_minus) = jax.vmap(lambda x: _slopes_at(frame, middle, x))(ways)
    begin = frame.align_at(frame.retract_at(middle, ways[1]), q)
    closed = frame.dual_at(q) @ (begin - q)

    def lagrangian(p: jax.Array) -> jax.Array:
        return 0.5 * xi @ system.metric.matrix_at(p) @ xi - system.potential_at(p)

    force = frame.lie_derivative_at(lagrangian, middle) + system.applied_at(t + 0.5 * h, middle, w)
    balance = A_plus.T @ after - A_minus.T @ before - h * force
    legendre = 0.5 * (B_minus.T @ before + B_plus.T @ after) - system.metric.matrix_at(middle) @ xi
    rows = [closed / h, balance, legendre]
    if system.basis_at(q) is not None:
        rows.append(system.allowed_at(q, before) - P)
    return jnp.concatenate(rows)


class Search(NamedTuple):
    """Where and how the solution of a step is looked for.

    Parameters
    ----------
    start : (k,) where the search begins.
    size : of a velocity, a number; a Newton step is compared with the velocities by it.
    whole : of all unknowns, a number; a Newton step is compared with the step before by it.
    own : the unknowns that are velocities.
    noisy : the size of what round-off makes of a velocity.
    side : the sign of the determinant of Newton's matrix for short steps. With another one, the matrix is
        singular for a shorter step: the solution is not the one that goes on from short steps.
    """

    start: jax.Array
    size: Any
    whole: Any
    own: slice
    noisy: Any
    side: Any


def solved_at(equations: Any, search: Search, differentiable: bool) -> tuple[jax.Array, jax.Array]:
    """The solution of the equations of a step by Newton's method, and whether it was found, 1 or 0.

    It is the solution near the start: a search that leaves it finds none.

    Parameters
    ----------
    equations : of the unknowns (k,), as many.
    search : where it begins.
    differentiable : whether derivatives are those of the solution; then it takes longer to compile.
    """
    start, size, whole, own, noisy, side = search

    def solve(residual: Any, start: jax.Array) -> tuple[jax.Array, jax.Array]:
        slope_and_value = jax.jacfwd(lambda unknown: (residual(unknown),) * 2, has_aux=True)

        def bound(unknown: jax.Array) -> jax.Array:
            found: jax.Array = CLOSE * (size(unknown[own]) + size(start[own])) + 8.0 * noisy
            return found

        def again(state: Any) -> jax.Array:
            unknown, change, _, _, count = state
            far = jnp.isfinite(change) & (change > bound(unknown))
            more: jax.Array = (count == 0) | (far & (count < MOST_ITERATIONS))
            return more

        def newton(state: Any) -> Any:
            unknown, _, last, _, count = state
            matrix, value = slope_and_value(unknown)
            step = jnp.linalg.solve(matrix, value)
            found, moved = unknown - step, whole(step)
            away = (moved > AWAY * last) & (moved > LARGE * whole(found))
            change = jnp.where(away, jnp.inf, size(step[own]))
            return found, change, moved, jnp.linalg.slogdet(matrix)[0], count + 1

        infinite = jnp.asarray(jnp.inf)
        begin = start, infinite, infinite, infinite, jnp.asarray(0)
        found, change, _, sign, _ = jax.lax.while_loop(again, newton, begin)
        good = (change <= bound(found)) & jnp.all(jnp.isfinite(found)) & (sign * side > 0.0)
        return found, jnp.where(good, 1.0, 0.0)

    def linear(function: Any, right: jax.Array) -> jax.Array:
        solution: jax.Array = jnp.linalg.solve(jax.jacfwd(function)(jnp.zeros_like(right)), right)
        return solution

    if not differentiable:
        return solve(equations, start)
    found: tuple[jax.Array, jax.Array]
    found = jax.lax.custom_root(equations, start, solve, linear, has_aux=True)
    return found


def noise_at(frame: FrameField, H: jax.Array, h: Any, q: jax.Array) -> jax.Array:
    """The length in the metric H of the error of a step's velocity that round-off of its point q makes."""
    q = jax.lax.stop_gradient(q)
    noise = np.finfo(float).eps * jnp.abs(frame.dual_at(q)) @ jnp.abs(q) / jnp.abs(h)
    return jnp.sqrt(noise @ jnp.abs(H) @ noise)


def composed_at(
    system: DiscreteSystem,
    h: Any,
    shares: jax.Array,
    t0: Any,
    course: VariationalMotion,
    differentiable: bool = False,
) -> VariationalMotion:
    """A step of `shares` of h, one after the other; the course stays where it is if one of them fails."""

    def one(state: Any, share: jax.Array) -> Any:
        t, q, P, why = state
        q, P, failed = system.step_at(t, share * h, q, P, differentiable)
        return (t + share * h, q, P, jnp.where(why > 0, why, failed)), None

    begin = t0 + course.steps * h, course.q, course.P, course.why
    (_, q, P, why), _ = jax.lax.scan(one, begin, shares)
    good = why == 0
    q, P = jnp.where(good, q, course.q), jnp.where(good, P, course.P)
    return VariationalMotion(q, P, course.steps + good, why)


def advance_at(
    system: DiscreteSystem, h: Any, shares: jax.Array, t0: Any, counts: jax.Array, course: VariationalMotion
) -> tuple[VariationalMotion, RecordedValues]:
    """The course after all `counts` (g,) of steps, and what is recorded after each of them."""

    def interval(course: VariationalMotion, count: jax.Array) -> tuple[VariationalMotion, RecordedValues]:
        end = course.steps + count

        def further(course: VariationalMotion) -> jax.Array:
            more: jax.Array = (course.steps < end) & (course.why == 0)
            return more

        def step(course: VariationalMotion) -> VariationalMotion:
            return composed_at(system, h, shares, t0, course)

        course = jax.lax.while_loop(further, step, course)
        return course, record_at(system, t0 + course.steps * h, course)

    return jax.lax.scan(interval, course, counts)


def differentiable_at(
    system: DiscreteSystem,
    blocks: tuple[int, int],
    h: Any,
    shares: Any,
    t0: Any,
    q: jax.Array,
    v: jax.Array,
) -> RecordedValues:
    """The values at the beginning, and after each of blocks[0] blocks of blocks[1] steps."""

    def step(course: VariationalMotion, _: Any) -> Any:
        return composed_at(system, h, shares, t0, course, True), None

    def block(course: VariationalMotion, _: Any) -> Any:
        course, _ = jax.lax.scan(step, course, None, length=blocks[1])
        return course, record_at(system, t0 + course.steps * h, course)

    begin = begin_at(system, t0, q, v)
    _, later = jax.lax.scan(block, begin, None, length=blocks[0])
    first = record_at(system, t0, begin)
    both = zip(first, later, strict=True)
    return RecordedValues(*(jnp.concatenate([one[None], more]) for one, more in both))


def _parts(
    system: DiscreteSystem, q: jax.Array, P: jax.Array, unknown: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """mu, w, P_{k+1} and P_k of the unknowns."""
    n, m = system.metric.frame.dim, len(P)
    ends = np.cumsum([n, m, n])
    mu, w, after, before = jnp.split(unknown, ends)
    return mu, w, after, before if len(before) else P


def _slopes_at(frame: FrameField, m: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A and B, (n, n), of rho(m, x): its change is X (A dm + B dx)."""
    n, X = frame.dim, frame.matrix_at(m)

    def moved(change: jax.Array) -> jax.Array:
        return frame.retract_at(frame.project_at(m + X @ change[:n]), x + change[n:])

    slopes = frame.dual_at(frame.retract_at(m, x)) @ jax.jacfwd(moved)(jnp.zeros(2 * n))
    return slopes[:, :n], slopes[:, n:]
