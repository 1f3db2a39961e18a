"""The spaces that filters estimate on: points q, and points with velocities (q, v) of mechanical systems.

An error is e = eta in frame components on the first, e = (eta, w) on the second:

    q+ = exp_q(eta),    v+ = Pi (v + w),    w = dv + Gamma(eta, v) to first order,

with Pi the parallel transport along the geodesic from q to q+. On a group with Gamma = c s these are

    Pi = exp(-c ad_eta),    dv+ = Pi dw + c Pi ad_(v + w) D exp(-c eta) deta.

Predictions need no connection: with

    etadot = A eta,  A^i_j = L_j u^i + s^i_jk u^k  of qdot = X u(q),

and with the A of docs/linearization.md for (q, v),

    Pdot = A P + P A^T + Q

(`predictions`). Source: docs/filters.md.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from connections.affine import AffineConnection, CartanSchoutenConnection
from connections.affine.motions.deviation import deviation_map_at
from connections.checks import is_traced, require_shape
from connections.coriolis import MechanicalSystem
from connections.estimation.displacements import (
    FEW,
    Displacements,
    Gap,
    GroupDisplacements,
    brackets_at,
    displacements_of,
    followed,
    followed_to_end,
    is_tree,
    product_slopes_of_tree_at,
)
from connections.estimation.estimate import ASYMMETRY
from connections.evaluation.parameters import Parametrized
from connections.geometry import CoordinateFrame, FrameField
from connections.geometry.group_maps import (
    adjoint_of_exponential_at,
    exponential_at,
    exponential_slope_at,
    exponential_with_slope_at,
    little_adjoint_at,
)
from connections.geometry.numerics.definite import inverse_of_definite
from connections.geometry.numerics.products import small_product as product

State = tuple[jax.Array, ...]  # (q,) or (q, v)
Observation = Callable[..., jax.Array]  # *state -> y
Displaced = tuple[State, jax.Array | None, Gap]


class Course(NamedTuple):
    """A step of the state, and what its errors and their covariance obey meanwhile.

    Errors are e = before e_0 at the beginning and e_1 = after e at the end, with edot = A e + noise of Q.
    """

    end: State
    A: Any
    """Three (m, m), at the beginning, the middle and the end."""
    Q: Any
    """Three (m, m), there."""
    before: jax.Array | None
    """(m, k); None is the identity."""
    after: jax.Array | None
    """(k, m); None is the identity."""
    gap: jax.Array | None
    """How far the state may be off, in the components of errors (k,); None in closed form."""


class EvenCourse(NamedTuple):
    """A step in closed form: the state, Phi of its half, and h A and h Q, which do not change meanwhile."""

    end: State
    half: jax.Array
    a: jax.Array
    q: jax.Array
    turn: jax.Array
    """trace(q^-1 a q a^T): how much the noise turns. NaN if q is singular."""


class Rates(NamedTuple):
    """Where errors are differences of coordinates: xdot = rate, with its derivative A, and Q, (k, k)."""

    rate: jax.Array
    A: jax.Array
    Q: jax.Array


class Space(Parametrized, abc.ABC):
    """States, their errors, and how both go on in time; at one point, JAX-traceable."""

    frame: FrameField
    displacements: Displacements
    steps: Any  # of a geodesic
    velocity_count: int  # of arrays after q in a state

    def with_steps(self, steps: Any) -> Space:
        """The space with another number of steps of geodesics, which may be traced."""
        same = copy.copy(self)
        same.__dict__.update(displacements=self.displacements.with_steps(steps), steps=steps)
        return same

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """k, the number of components of an error."""

    noise: Any  # covariance per second, or a function

    @property
    def has_constant_noise(self) -> bool:
        """Whether Q is the same everywhere."""
        return False

    @property
    def is_flat(self) -> bool:
        """Whether errors are differences of coordinates and of velocities."""
        group = isinstance(self.displacements, GroupDisplacements)
        return group and isinstance(self.displacements.frame, CoordinateFrame)

    @abc.abstractmethod
    def moved_at(self, x: State, e: jax.Array) -> Displaced:
        """The state displaced by e (k,), the derivative (k, k), and how far both may be off, (k, 1 + k).

        The derivative is None for the identity, the last one in closed form.
        """

    @abc.abstractmethod
    def difference_with_gap_at(self, x: State, z: State) -> tuple[jax.Array, Gap]:
        """e (k,) that displaces x to z, and how far it may be off, (k,); None in closed form."""

    @abc.abstractmethod
    def transport_with_gap_at(self, nabla: AffineConnection, x: State, e: jax.Array) -> tuple[jax.Array, Gap]:
        """Parallel transport of errors by `nabla` along the displacement, and its gap, (k, k)."""

    def difference_at(self, x: State, z: State) -> jax.Array:
        """The difference alone."""
        return self.difference_with_gap_at(x, z)[0]

    def transport_at(self, nabla: AffineConnection, x: State, e: jax.Array) -> jax.Array:
        """The transport alone."""
        return self.transport_with_gap_at(nabla, x, e)[0]

    @abc.abstractmethod
    def observed_at(self, h: Observation, x: State) -> tuple[jax.Array, jax.Array]:
        """h of the state, (m,), and its derivative by errors (m, k)."""

    @abc.abstractmethod
    def course_at(self, x: State, u: Any, t: Any, step: Any) -> Course:
        """A step from the time t."""

    @abc.abstractmethod
    def rates_at(self, x: State, u: Any, t: Any) -> Rates:
        """The rate of a state of a flat space at the time t, with A and Q of its errors."""

    def even_course_at(self, x: State, u: Any, step: Any) -> EvenCourse | None:
        """A step in closed form, if A and Q do not change while u is constant; None if they may."""
        return None


class Points(Space):
    """qdot = X(q) u(q, t) + white noise.

    Parameters
    ----------
    nabla : the connection. velocity : (q, u, t) -> v (n,), or None if u itself is v and constant over a step.
    noise : (n, n) per second, or (q, u, t) -> it. steps : of a geodesic.
    """

    velocity_count = 0

    def __init__(self, nabla: AffineConnection, velocity: Any, noise: Any, steps: int = FEW) -> None:
        self.nabla, self.velocity, self.noise = nabla, velocity, noise
        self.precision = None if callable(noise) else _inverse(noise)
        self.steps = steps
        self.displacements = displacements_of(nabla, steps)

    @property
    def frame(self) -> FrameField:  # type: ignore[override]
        """The connection's."""
        return self.nabla.frame

    @property
    def dim(self) -> int:
        """n."""
        return self.frame.dim

    @property
    def has_constant_noise(self) -> bool:
        """Whether Q is the same everywhere."""
        return not callable(self.noise) and not self.displacements.has_pole

    def moved_at(self, x: State, e: jax.Array) -> Displaced:
        """exp."""
        q, slope, gap = self.displacements.moved_at(x[0], e)
        return (q,), None if self.is_flat else slope, gap

    def difference_with_gap_at(self, x: State, z: State) -> tuple[jax.Array, Gap]:
        """The logarithm."""
        return self.displacements.difference_with_gap_at(x[0], z[0])

    def transport_with_gap_at(self, nabla: AffineConnection, x: State, e: jax.Array) -> tuple[jax.Array, Gap]:
        """Pi."""
        return self.displacements.transport_with_gap_at(nabla, x[0], e)

    def observed_at(self, h: Observation, x: State) -> tuple[jax.Array, jax.Array]:
        """L_{X_j} h."""
        y, along = self.frame.value_and_lie_derivative_at(h, x[0])
        return y, along.T

    def course_at(self, x: State, u: Any, t: Any, step: Any) -> Course:
        """A step from the time t; in closed form for a constant velocity on a group."""
        q, frame, gap = x[0], self.frame, None
        if self._turns_evenly:
            middle, end = (exponential_at(frame, q, part * u) for part in (0.5 * step, step))
        else:

            def rate(y: Any, s: Any) -> Any:
                p = frame.project_at(y[0]) if self.displacements.has_pole else y[0]
                return (frame.matrix_at(p) @ self._velocity_at(p, u, s),)

            (middle,), (end,), (gap,) = followed(rate, (q,), 2, t, step)
            middle, end = frame.project_at(middle), frame.project_at(end)
            gap = frame.velocity_at(end, gap)
        nodes = (q, jnp.asarray(t)), (middle, t + step / 2), (end, t + step)
        points, times = (jnp.stack(a) for a in zip(*nodes, strict=True))
        slope = self._ambient_slope_at if self.displacements.has_pole else self._slope_at
        A = jax.vmap(lambda p, s: slope(p, u, s))(points, times)
        noises = [self._noise_at(p, u, s) for p, s in nodes]
        if not self.displacements.has_pole:
            return Course((end,), A, noises, None, None, gap)
        turned = [frame.matrix_at(p) for p in points]
        noises = [X @ Q @ X.T for X, Q in zip(turned, noises, strict=True)]
        return Course((end,), A, noises, turned[0], frame.dual_at(end), gap)

    def rates_at(self, x: State, u: Any, t: Any) -> Rates:
        """The rate of the coordinates at the time t, with A and Q."""
        q = x[0]
        return Rates(self._velocity_at(q, u, t), self._slope_at(q, u, t), self._noise_at(q, u, t))

    def even_course_at(self, x: State, u: Any, step: Any) -> EvenCourse | None:
        """A step at constant velocity on a group with constant noise, in closed form; None elsewhere."""
        if callable(self.noise) or not self._turns_evenly:
            return None
        turn, frame = step * u, self.frame
        end, half = exponential_at(frame, x[0], turn), adjoint_of_exponential_at(frame, -0.5 * turn)
        a, Q = -little_adjoint_at(frame, turn), self.noise
        ad = jax.vmap(lambda e: little_adjoint_at(frame, e))(jnp.eye(self.dim))
        form = jnp.einsum("mij,jk,nlk,li->mn", ad, Q, ad, self.precision)  # loop-invariant
        return EvenCourse((end,), half, a, step * Q, turn @ form @ turn)

    @property
    def _turns_evenly(self) -> bool:
        """Whether the motion is q exp(t u)."""
        return self.velocity is None and isinstance(self.displacements, GroupDisplacements)

    def _velocity_at(self, q: jax.Array, u: Any, t: Any) -> jax.Array:
        if self.velocity is None:
            return jnp.asarray(u)
        return require_shape("velocity(q, u, t)", self.velocity(q, u, t), (self.frame.dim,))

    def _slope_at(self, q: jax.Array, u: Any, t: Any) -> jax.Array:
        """A^i_j = L_j u^i + s^i_jk u^k, (n, n)."""
        frame = self.frame
        v, along = frame.value_and_lie_derivative_at(lambda p: self._velocity_at(p, u, t), q)
        turned = jax.vmap(lambda a: frame.bracket_of_constants_at(q, a, v), 1, 1)(jnp.eye(frame.dim))
        return along.T + turned

    def _ambient_slope_at(self, q: jax.Array, u: Any, t: Any) -> jax.Array:
        """The derivative of qdot (nq,) by q, (nq, nq): X turns fast near a pole, and qdot does not."""

        def rate(p: jax.Array) -> jax.Array:
            p = self.frame.project_at(p)
            moving: jax.Array = self.frame.matrix_at(p) @ self._velocity_at(p, u, t)
            return moving

        slope: jax.Array = jax.jacfwd(rate)(q)
        return slope

    def _noise_at(self, q: jax.Array, u: Any, t: Any) -> jax.Array:
        n = self.frame.dim
        if not callable(self.noise):
            return jnp.asarray(self.noise)
        return _covariance(require_shape("noise(q, u, t)", self.noise(q, u, t), (n, n)))


class Phase(Space):
    """Mechanical systems: qdot = X v, vdot = H^-1 (tau + white noise + F - g - C v).

    Parameters
    ----------
    system : the system. linearized : (q, v, tau, t) -> A
    (2n, 2n) and H^-1 (n, n) of d/dt (eta, dv). noise : (n, n) of torques, per second, or (q, v, u, t) -> it.
    steps : of a geodesic. nabla : moves points and velocities along geodesics; by default the system's.
    """

    velocity_count = 1

    def __init__(
        self,
        system: MechanicalSystem,
        linearized: Any,
        noise: Any,
        steps: int = FEW,
        nabla: AffineConnection | None = None,
    ) -> None:
        assert system.connection is not None
        self.system, self.linearized = system, linearized
        self.nabla: AffineConnection = system.connection if nabla is None else nabla
        self.noise, self.steps = noise, steps
        self.displacements = displacements_of(self.nabla, steps)

    @property
    def frame(self) -> FrameField:  # type: ignore[override]
        """The system's."""
        return self.system.frame

    @property
    def dim(self) -> int:
        """2n."""
        return 2 * self.frame.dim

    def moved_at(self, x: State, e: jax.Array) -> Displaced:
        """The geodesic that carries v + w, and all of it differentiated by (eta, w)."""
        (q, v), (eta, w), n, frame, nabla = x, jnp.split(e, 2), self.frame.dim, self.frame, self.nabla
        if self.is_flat:
            return (q + eta, v + w), None, None
        if isinstance(nabla, CartanSchoutenConnection):
            return *self._moved_on_group_at(nabla, x, e), None

        def turned(p: jax.Array, a: jax.Array, vectors: jax.Array) -> jax.Array:
            """-Gamma(a, .) of the rows."""
            return -jax.vmap(lambda z: nabla.apply_at(p, a, z))(vectors)

        def rate(y: Any, _: Any) -> Any:
            p, (a, z, xi, da, dz, Z) = frame.project_at(y[0]), y[1:]
            X = frame.matrix_at(p)

            def along(xi: jax.Array, da: jax.Array, dz: jax.Array) -> Any:
                changes = X @ xi, da, jnp.stack([da, dz])
                rates, slopes = jax.jvp(turned, (p, a, jnp.stack([a, z])), changes)
                return rates, da + frame.bracket_of_constants_at(p, xi, a), slopes

            rates, xi_dot, slopes = jax.vmap(along, 1, (None, 1, 2))(xi, da, dz)
            return X @ a, *rates, xi_dot, *slopes, turned(p, a, Z.T).T

        def rate_of_tree(y: Any, _: Any) -> Any:
            p, (a, z, xi, da, dz, Z) = frame.project_at(y[0]), y[1:]
            of_p, of_a, mixed, by_a, by_z, turn = product_slopes_of_tree_at(nabla, p, a, z)
            accelerated = 0.5 * of_a @ a, by_z @ z
            slopes = of_p @ xi + of_a @ da, mixed @ xi + by_a @ da + by_z @ dz
            return frame.matrix_at(p) @ a, *accelerated, da - turn @ xi, *slopes, by_z @ Z

        nothing, one = jnp.zeros((n, n)), jnp.eye(n)
        start = q, eta, v + w, nothing, one, nothing, one
        rate = rate_of_tree if is_tree(nabla) else rate
        (p, _, z, xi, _, dz, Z), off = followed_to_end(rate, start, self.steps)
        p = frame.project_at(p)
        turn = self._turned_at(p, z)
        slope = jnp.block([[xi, nothing], [dz + turn @ xi, Z]])
        q_off, z_off, xi_off, dz_off, Z_off = frame.velocity_at(p, off[0]), off[2], off[3], off[5], off[6]
        gap = jnp.block([[q_off[:, None], xi_off, nothing], [z_off[:, None], dz_off + turn @ xi_off, Z_off]])
        return (p, z), slope, gap

    def difference_with_gap_at(self, x: State, z: State) -> tuple[jax.Array, Gap]:
        """The logarithm, and the velocity carried back."""
        eta, gap = self.displacements.difference_with_gap_at(x[0], z[0])
        Pi, Pi_gap = self.displacements.transport_with_gap_at(self.nabla, x[0], eta)
        back = jnp.linalg.solve(Pi, z[1])
        e = jnp.concatenate([eta, back - x[1]])
        if gap is None:
            return e, None
        off = jnp.zeros_like(back) if Pi_gap is None else jnp.linalg.solve(Pi, Pi_gap @ back)
        return e, jnp.concatenate([gap, off])

    def transport_with_gap_at(self, nabla: AffineConnection, x: State, e: jax.Array) -> tuple[jax.Array, Gap]:
        """Pi of both parts of an error."""
        Pi, gap = self.displacements.transport_with_gap_at(nabla, x[0], e[: self.frame.dim])
        return jnp.kron(jnp.eye(2), Pi), None if gap is None else jnp.kron(jnp.eye(2), gap)

    def observed_at(self, h: Observation, x: State) -> tuple[jax.Array, jax.Array]:
        """The derivative by (eta, dv), in terms of (eta, w)."""
        q, v = x
        y, along = self.frame.value_and_lie_derivative_at(lambda p: h(p, v), q)
        of_v, of_q = jax.jacfwd(h, argnums=1)(q, v), along.T
        if not self.is_flat:
            of_q = of_q - of_v @ self._turned_at(q, v)
        return y, jnp.concatenate([of_q, of_v], axis=1)

    def course_at(self, x: State, u: Any, t: Any, step: Any) -> Course:
        """A step from the time t, with the linearization at its beginning, middle and end."""
        system, frame, n = self.system, self.frame, self.frame.dim
        tau = jnp.zeros(n) if u is None else u

        def rate(y: Any, s: Any) -> Any:
            q, v = frame.project_at(y[0]), y[1]  # a robot's recursions ask for quaternions of norm one
            return frame.matrix_at(q) @ v, system.forward_dynamics_at(q, v, tau, s)

        middle, end, gap = followed(rate, x, 2, t, step)
        nodes = [
            ((frame.project_at(q), v), s) for (q, v), s in ((x, t), (middle, t + step / 2), (end, t + step))
        ]
        A, Q = zip(*(self._spreads_at(*at, u, s) for at, s in nodes), strict=True)
        end = nodes[-1][0]
        if self.is_flat:  # M = 1
            return Course(end, A, Q, None, None, jnp.concatenate(gap))
        before, after = (self._deviation_at(q, v) for q, v in (x, end))
        # M = [[1, 0], [Gamma(., v), 1]], so its inverse is 2 - M.
        gaps = after @ jnp.concatenate([frame.velocity_at(end[0], gap[0]), gap[1]])
        return Course(end, A, Q, 2.0 * jnp.eye(2 * n) - before, after, gaps)

    def rates_at(self, x: State, u: Any, t: Any) -> Rates:
        """The rate of coordinates and velocities at the time t, with A and Q."""
        (q, v), tau = x, jnp.zeros(self.frame.dim) if u is None else u
        rate = jnp.concatenate([v, self.system.forward_dynamics_at(q, v, tau, t)])
        return Rates(rate, *self._spreads_at(q, v, u, t))

    def _spreads_at(self, q: jax.Array, v: jax.Array, u: Any, t: Any) -> tuple[jax.Array, jax.Array]:
        """A and Q, (2n, 2n), of (eta, dv)."""
        n = self.frame.dim
        A, inverse = self.linearized(q, v, jnp.zeros(n) if u is None else u, t)
        torque = jnp.asarray(self.noise) if not callable(self.noise) else self.noise(q, v, u, t)
        if callable(self.noise):
            torque = _covariance(require_shape("noise(q, v, u, t)", torque, (n, n)))
        raised = product(product(inverse, torque), inverse.T)
        return A, jnp.zeros((2 * n, 2 * n)).at[n:, n:].set(raised)

    def _moved_on_group_at(
        self, nabla: CartanSchoutenConnection, x: State, e: jax.Array
    ) -> tuple[State, jax.Array]:
        (q, v), (eta, w), n, group = x, jnp.split(e, 2), self.frame.dim, nabla.group
        p, xi = exponential_with_slope_at(group, q, eta)
        nothing, c, z = jnp.zeros((n, n)), 0.5 + nabla.beta, v + w
        Pi = adjoint_of_exponential_at(group, -c * eta)
        dz = c * Pi @ little_adjoint_at(group, z) @ exponential_slope_at(group, -c * eta)
        z = Pi @ z
        bent = dz - c * little_adjoint_at(group, z) @ xi
        return (p, z), jnp.block([[xi, nothing], [bent, Pi]])

    def _turned_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """Gamma(., v), (n, n)."""
        if is_tree(self.nabla):
            return -0.5 * (self.nabla.geodesic_slopes_at(q, v)[1] + brackets_at(self.nabla, q, v))
        return deviation_map_at(self.nabla, q, v)[self.frame.dim :, : self.frame.dim]

    def _deviation_at(self, q: jax.Array, v: jax.Array) -> jax.Array:
        """[[1, 0], [Gamma(., v), 1]]."""
        if not is_tree(self.nabla):
            return deviation_map_at(self.nabla, q, v)
        n = self.frame.dim
        return jnp.block([[jnp.eye(n), jnp.zeros((n, n))], [self._turned_at(q, v), jnp.eye(n)]])


def linearized_at(system: MechanicalSystem, q: jax.Array, v: jax.Array, tau: Any, t: Any) -> Any:
    """A (2n, 2n) of d/dt (eta, dv) = A (eta, dv) + (0, H^-1 dtau), and H^-1, of any system."""
    frame, n = system.frame, system.frame.dim

    def acceleration(p: jax.Array, w: jax.Array) -> jax.Array:
        return system.forward_dynamics_at(p, w, tau, t)

    along = frame.lie_derivative_at(lambda p: acceleration(p, v), q).T
    of_v = jax.jacfwd(acceleration, argnums=1)(q, v)
    turning = jax.vmap(lambda a: frame.bracket_of_constants_at(q, a, v), 1, 1)(jnp.eye(n))
    A = jnp.block([[turning, jnp.eye(n)], [along, of_v]])
    return A, inverse_of_definite(system.mass_matrix_at(q))


def _inverse(Q: Any) -> Any:
    """Q^-1; NaN if Q is singular."""
    if is_traced(Q):
        return inverse_of_definite(Q)
    try:
        return np.linalg.inv(Q)
    except np.linalg.LinAlgError:
        return np.full_like(Q, np.nan)


def _covariance(Q: jax.Array) -> jax.Array:
    """A covariance by a user's function; NaN if it is not symmetric or has a negative variance."""
    variances = jnp.diagonal(Q)
    sizes = jnp.sqrt(jnp.abs(variances[:, None] * variances))
    ok = jnp.all(variances >= 0.0) & jnp.all(jnp.abs(Q - Q.T) <= ASYMMETRY * sizes)
    return jnp.where(ok, Q, jnp.nan)
