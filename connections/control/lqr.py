"""Linear-quadratic regulators of robots: gains by Riccati equations, and the law on the manifold of states.

    u = -K x minimizes the integral of x^T Q x + u^T R u  along  xdot = A x + B u,
    tau = tau_r - S K [difference(q_r, q); v - v_r]

with the pair (A, B S) of `multibody.linearize` about (q_r, v_r, tau_r): x = (eta, dv), three directions for a
rotation and no singular orientation. A gain exists where everything that does not decay by itself can be
reached through B; `StabilizabilityError` says what cannot. Source: [B]; Kalman (1960); Hautus (1969).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import null_space, schur, solve_continuous_are, solve_discrete_are

from connections.checks import ConvergenceError, ShapeError, as_array, require_finite
from connections.control.gains import GainError, gain_matrix
from connections.multibody import Model, difference

_RANK = (
    1e-10  # singular values below this, of matrices of norm one, belong to directions that are not reached
)
_DECAY = 1e-7  # eigenvalues this near to the boundary of stability, relative to |A|, do not count as decaying
_LISTED = 6  # at most so many names, or components, in a message


class StabilizabilityError(ValueError):
    """Some of what does not decay by itself cannot be reached by the input.

    Parameters
    ----------
    what : what is asked of the pair.
    eigenvalues : (k,) of the modes that are out of reach and do not decay, 1/s (of a discrete pair, none).
    directions : (n, k) orthonormal: the combinations directions^T x of the state move by themselves.
    names : (n,) of the components of the state.
    """

    def __init__(
        self, what: str, eigenvalues: np.ndarray, directions: np.ndarray, names: Sequence[str]
    ) -> None:
        self.eigenvalues, self.directions = eigenvalues, directions
        counts = Counter(_value(value) for value in eigenvalues)
        listed = [value if times == 1 else f"{value} ({times} times)" for value, times in counts.items()]
        values = ", ".join(listed[:_LISTED])
        combinations = "; ".join(_combination(column, names) for column in directions.T[:_LISTED])
        count = f"{directions.shape[1]} of {directions.shape[0]} directions of the state"
        super().__init__(f"{what}: {count}, with eigenvalues {values}: {combinations}")


def lqr(
    A: Any, B: Any, Q: Any, R: Any, *, discrete: bool = False, names: Sequence[str] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Gain K (m, n) and cost to go P (n, n): u = -K x costs x0^T P x0, the least there is.

    K = R^-1 B^T P with A^T P + P A - P B R^-1 B^T P + Q = 0; for a discrete pair
    K = (R + B^T P B)^-1 B^T P A with P = Q + A^T P (A - B K).

    Parameters
    ----------
    A : (n, n) of xdot = A x + B u, or of x_{k+1} = A x_k + B u_k.
    B : (n, m).
    Q : scalar, (n,) or (n, n), symmetric positive semidefinite: the cost x^T Q x, per second or per step.
    R : scalar, (m,) or (m, m), symmetric positive definite: the cost u^T R u.
    discrete : whether the pair is that of a step.
    names : (n,) of the components of x, for messages; `state_names` of a robot.

    Raises
    ------
    StabilizabilityError : which directions of the state that do not decay no input reaches, or which cost
        nothing though they neither grow nor decay.
    ShapeError, NonFiniteError, GainError, TypeError; ConvergenceError : the equation was not solved.

    Source: Kalman (1960); solved by `scipy.linalg`.
    """
    A, B, names = _pair(A, B, names)
    n, m = B.shape
    Q = _weight("weight Q", Q, n)
    R = np.asarray(gain_matrix("weight R", R, m, symmetric=True))
    require_stabilizable(A, B, discrete=discrete, names=names)
    _require_detectable(A, Q, discrete, names)
    try:
        P = (solve_discrete_are if discrete else solve_continuous_are)(A, B, Q, R)
    except np.linalg.LinAlgError as error:
        raise ConvergenceError(f"the Riccati equation of {n} states was not solved: {error}") from error
    K = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A) if discrete else np.linalg.solve(R, B.T @ P)
    values = np.linalg.eigvals(A - B @ K)
    margin = (np.abs(values) - 1.0).max() if discrete else values.real.max()
    if not margin < 0.0:
        raise ConvergenceError(f"the Riccati equation of {n} states left a closed loop that does not decay")
    return K, (P + P.T) / 2.0


def time_varying_lqr(A: Any, B: Any, Q: Any, R: Any, Q_final: Any) -> tuple[np.ndarray, np.ndarray]:
    """Gains K (N, m, n) and costs to go P (N + 1, n, n) of x_{k+1} = A_k x_k + B_k u_k, u_k = -K_k x_k.

    Backward from P_N = Q_final: K = (R + B^T P B)^-1 B^T P A, P <- Q + K^T R K + (A - B K)^T P (A - B K).

    Parameters
    ----------
    A : (N, n, n), pairs of steps as `multibody.linearize` gives them with `step`.
    B : (N, n, m).
    Q : scalar, (n,), (n, n) or (N, n, n), symmetric positive semidefinite: the cost of a step.
    R : scalar, (m,) or (m, m), symmetric positive definite.
    Q_final : scalar, (n,) or (n, n), symmetric positive semidefinite: the cost of the last state.

    Nothing is asked of the pair: within finite time the cost is finite, whatever can be reached.

    Raises
    ------
    ShapeError, NonFiniteError, GainError, TypeError; ConvergenceError naming the step whose cost to go is not
    finite.

    Source: Kalman (1960).
    """
    A = np.asarray(as_array("A", A, (None, None, None)))
    count, n = A.shape[0], A.shape[-1]
    if A.ndim != 3 or A.shape[1] != n or not count:
        raise ShapeError("A", ("N", "n", "n"), A.shape)
    B = np.asarray(as_array("B", B, (count, n, None)))
    require_finite("A", A)
    require_finite("B", B)
    stacked = np.ndim(Q) == 3
    if stacked and len(Q) != count:
        raise ShapeError("weight Q", (count, n, n), np.shape(Q))
    costs = [_weight("weight Q", each, n) for each in (Q if stacked else [Q])]
    R = np.asarray(gain_matrix("weight R", R, B.shape[-1], symmetric=True))
    P = np.empty((count + 1, n, n))
    K = np.empty((count, B.shape[-1], n))
    P[count] = _weight("weight Q_final", Q_final, n)
    for k in range(count - 1, -1, -1):
        carried = B[k].T @ P[k + 1]
        K[k] = np.linalg.solve(R + carried @ B[k], carried @ A[k])
        loop = A[k] - B[k] @ K[k]
        cost = costs[k if stacked else 0] + K[k].T @ R @ K[k] + loop.T @ P[k + 1] @ loop
        if not np.isfinite(cost).all():
            raise ConvergenceError(f"the cost to go is not finite at step {k} of {count}")
        P[k] = (cost + cost.T) / 2.0
    return K, P


def reachable_directions(A: Any, B: Any) -> np.ndarray:
    """Orthonormal basis (n, r) of the states that an input leads to from zero: the range of [B, A B, ...].

    Parameters
    ----------
    A : (n, n).
    B : (n, m).

    Built step by step from orthonormal blocks, so that no power of A is formed.

    Raises
    ------
    ShapeError, NonFiniteError, TypeError.

    Source: Kalman's decomposition.
    """
    A, B, _ = _pair(A, B, None)
    A, B = A / max(np.linalg.norm(A, 2), 1e-300), B / max(np.linalg.norm(B, 2), 1e-300)
    basis, block = np.zeros((len(A), 0)), B
    while block.shape[1]:
        for _ in range(2):  # twice is enough
            block = block - basis @ (basis.T @ block)
        left, sizes, _ = np.linalg.svd(block, full_matrices=False)
        new = left[:, sizes > _RANK]
        basis = np.concatenate([basis, new], axis=1)
        block = A @ new
    return basis


def require_stabilizable(
    A: Any, B: Any, *, discrete: bool = False, names: Sequence[str] | None = None
) -> None:
    """Raise `StabilizabilityError` unless all that no input reaches decays by itself.

    The pair is constant: that of one moving state does not say what its motion can reach.

    Parameters
    ----------
    A, B, discrete, names : as for `lqr`.

    Raises
    ------
    StabilizabilityError, ShapeError, NonFiniteError, TypeError.

    Source: Hautus (1969): w^T [A - lambda 1, B] = 0 for no lambda that does not decay.
    """
    A, B, names = _pair(A, B, names)
    found = _beyond_reach(A, B, lambda value: _lasting(value, A, discrete))
    if found is not None:
        raise StabilizabilityError("no input reaches", *found, names)


def state_names(model: Model) -> tuple[str, ...]:
    """Names (2 nv,) of the components of (eta, dv): ``eta[slide]``, ``dv[base, 3]``.

    Parameters
    ----------
    model : the robot.
    """
    components: list[str] = []
    for joint in model.joint_names:
        part = model.velocity_slice(joint)
        size = part.stop - part.start
        components += [joint] if size == 1 else [f"{joint}, {number}" for number in range(size)]
    return tuple(f"{kind}[{name}]" for kind in ("eta", "dv") for name in components)


@dataclass(frozen=True, eq=False)
class Regulator:
    """tau = tau_r - S K [difference(q_r, q); v - v_r] of a robot, about a state or along a sampled motion.

    Parameters
    ----------
    model : the robot.
    q : (nq,) or (N, nq) reference configurations.
    v : (nv,) or (N, nv) reference velocities.
    tau : (nv,) or (N, nv) forces that keep the reference, N m and N.
    gain : K, (m, 2 nv) or (N, m, 2 nv).
    inputs : S (nv, m) or (N, nv, m), tau = S u; the identity if None.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, TypeError.

    Source: [B], linearization about a trajectory; Kalman (1960).
    """

    model: Model
    q: Any
    v: Any
    tau: Any
    gain: Any
    inputs: Any = None
    samples: int | None = field(init=False, default=None)  # N, or None for one state

    def __post_init__(self) -> None:
        n = self.model.nv
        gain = np.asarray(as_array("gain", self.gain, (None, 2 * n)))
        S = np.eye(n) if self.inputs is None else self.inputs
        arrays = {
            "q": np.asarray(as_array("q", self.q, (self.model.nq,))),
            "v": np.asarray(as_array("v", self.v, (n,))),
            "tau": np.asarray(as_array("tau", self.tau, (n,))),
            "gain": gain,
            "inputs": np.asarray(as_array("inputs", S, (n, gain.shape[-2]))),
        }
        for name, array in arrays.items():
            require_finite(name, array)
            object.__setattr__(self, name, array)
        counts = {len(array) for name, array in arrays.items() if array.ndim > self._ranks[name]}
        if len(counts) > 1 or any(array.ndim > self._ranks[name] + 1 for name, array in arrays.items()):
            shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
            raise ShapeError("reference", "one state, or N samples", shapes)
        object.__setattr__(self, "samples", counts.pop() if counts else None)
        difference(self.model, self.q, self.q)

    @property
    def _ranks(self) -> dict[str, int]:
        return {"q": 1, "v": 1, "tau": 1, "gain": 2, "inputs": 2}

    def error(self, q: Any, v: Any, sample: int | None = None) -> np.ndarray:
        """(difference(q_r, q), v - v_r), (..., 2 nv).

        Parameters
        ----------
        q, v : (..., nq), (..., nv) the state.
        sample : number of the reference sample; None for a single reference.

        Raises
        ------
        ShapeError, NonFiniteError, PointError, IndexError.
        """
        v = np.asarray(as_array("v", v, (self.model.nv,)))
        require_finite("v", v)
        xi, dv = difference(self.model, self._at("q", sample), q), v - self._at("v", sample)
        batch = np.broadcast_shapes(xi.shape[:-1], dv.shape[:-1])
        parts = [np.broadcast_to(x, (*batch, self.model.nv)) for x in (xi, dv)]
        return np.concatenate(parts, axis=-1)

    def input(self, q: Any, v: Any, sample: int | None = None) -> np.ndarray:
        """-K (error), (..., m): what is added to the input of the reference.

        Parameters
        ----------
        q, v, sample : as for `error`.
        """
        return -self.error(q, v, sample) @ self._at("gain", sample).T

    def torque(self, q: Any, v: Any, sample: int | None = None) -> np.ndarray:
        """tau (..., nv), N m and N.

        Parameters
        ----------
        q, v, sample : as for `error`.
        """
        return self._at("tau", sample) + self.input(q, v, sample) @ self._at("inputs", sample).T

    def _at(self, name: str, sample: int | None) -> np.ndarray:
        """The reference quantity at a sample."""
        array = getattr(self, name)
        if (sample is None) != (self.samples is None):
            what = "one state: there are no samples" if self.samples is None else f"{self.samples} samples"
            raise IndexError(f"the reference has {what}; got sample = {sample}")
        if sample is None or array.ndim == self._ranks[name]:
            return array
        if not 0 <= sample < len(array):
            raise IndexError(f"sample {sample}: the reference has samples 0 to {len(array) - 1}")
        return array[sample]


# --- private ---------------------------------------------------------------------------------------------


def _pair(A: Any, B: Any, names: Sequence[str] | None) -> tuple[np.ndarray, np.ndarray, Sequence[str]]:
    """A (n, n), B (n, m) and the names of the components, checked."""
    A, B = (np.asarray(as_array(name, value, (None, None))) for name, value in (("A", A), ("B", B)))
    n = len(A)
    if A.shape != (n, n) or not n:
        raise ShapeError("A", ("n", "n"), A.shape)
    if B.ndim != 2 or len(B) != n:
        raise ShapeError("B", (n, "m"), B.shape)
    require_finite("A", A)
    require_finite("B", B)
    if names is None:
        names = [f"x[{k}]" for k in range(n)]
    if len(names) != n:
        raise ShapeError("names", (n,), (len(names),))
    return A, B, names


def _weight(name: str, weight: Any, dim: int) -> np.ndarray:
    """A symmetric positive semidefinite matrix (dim, dim) from a scalar, a diagonal or itself."""
    try:
        array = np.asarray(weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: expected real numbers, got {type(weight).__name__}") from error
    if array.shape not in ((), (dim,), (dim, dim)):
        raise ShapeError(name, f"(), ({dim},) or ({dim}, {dim})", array.shape)
    require_finite(name, array)
    matrix = array if array.ndim == 2 else np.diag(np.broadcast_to(array, (dim,)))
    scale = np.abs(matrix).max()
    gap = float(np.abs(matrix - matrix.T).max())
    if gap > 1e-12 * scale:
        raise GainError(f"{name} must be symmetric: it differs from its transpose by {gap:.2e}")
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if smallest < -1e-12 * scale:
        raise GainError(f"{name} must be positive semidefinite: smallest eigenvalue {smallest:.3e}")
    return (matrix + matrix.T) / 2.0


def _lasting(value: complex, A: np.ndarray, discrete: bool) -> bool:
    """Whether a mode with this eigenvalue of A does not decay."""
    size = float(np.linalg.norm(A, 2))
    return bool(abs(value) >= 1.0 - _DECAY * max(size, 1.0) if discrete else value.real >= -_DECAY * size)


def _beyond_reach(A: np.ndarray, B: np.ndarray, counts: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Eigenvalues (k,) and orthonormal covectors (n, k) of what B does not reach and `counts`; or None."""
    basis = reachable_directions(A, B)
    if basis.shape[1] == len(A):
        return None
    rest = null_space(basis.T) if basis.shape[1] else np.eye(len(A))
    T, Z, k = schur((rest.T @ A @ rest).T, sort=lambda re, im: counts(complex(re, im)))
    return (np.linalg.eigvals(T[:k, :k]), rest @ Z[:, :k]) if k else None


def _require_detectable(A: np.ndarray, Q: np.ndarray, discrete: bool, names: Sequence[str]) -> None:
    """No mode on the boundary of stability is without cost: otherwise no gain is the best."""
    size = float(np.linalg.norm(A, 2))

    def neutral(value: complex) -> bool:
        distance = abs(value) - 1.0 if discrete else value.real
        return abs(distance) <= _DECAY * max(size, 1.0 if discrete else 0.0)

    found = _beyond_reach(A.T, Q, neutral)
    if found is not None:
        raise StabilizabilityError("weight Q: it is without cost to move along", *found, names)


def _value(value: complex) -> str:
    """An eigenvalue in four digits; round-off of zero is zero."""
    value = complex(round(value.real, 7), round(value.imag, 7))
    return f"{value.real + 0.0:.4g}" if value.imag == 0.0 else f"{value:.4g}"


def _combination(column: np.ndarray, names: Sequence[str]) -> str:
    """The largest components of a direction, by name."""
    column = column * np.sign(column[np.argmax(np.abs(column))])
    order = [k for k in np.argsort(-np.abs(column), kind="stable") if abs(column[k]) > 1e-3][:_LISTED]
    return " ".join(f"{column[k]:+.3g} {names[k]}" for k in order).removeprefix("+")
