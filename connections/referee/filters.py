"""Filters on manifolds judged as black boxes: predict(x, P, u, dt) and update(x, P, z).

Errors, and their covariance P, are those of x = xhat exp(e), in axes of the body, or of x = exp(e) xhat, in
axes of the world. With H = dh, by differences, an extended Kalman filter has, where the innovation is zero,

    de/dz = P H^T (H P H^T + N)^-1,    P_e = (1 - K H) P,

and where it is not, P+ = J P_e J^T with the reset J = D exp(e). All derivatives of the functions are taken
here, and compared with the covariances that the functions return. Source: docs/filters.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from connections.checks import (
    NonFiniteError,
    ShapeError,
    as_array,
    as_number,
    require_choice,
    require_duration,
    require_finite,
    require_function,
    require_indices,
    require_names,
    require_text,
)
from connections.referee.black_boxes import BlackBoxError, _words_of
from connections.referee.report import RefereeReport, Row

Array = NDArray[np.float64]

MEANINGS = {
    "point": "states stay on the manifold",
    "symmetric": "covariances are symmetric",
    "definite": "covariances are positive definite",
    "rate": "u turns the body by u dt: its units, axes and sign",
    "transition": "the prediction moves P by Phi P Phi^T, Phi of its own states",
    "noise": "a prediction adds noise, and never takes any",
    "gain": "a measurement moves the state by P H^T (H P H^T + N)^-1",
    "covariance": "a measurement that is as expected leaves (1 - K H) P",
    "reset": "a measurement that is not leaves J P_e J^T, J = D exp of the step",
    "world_predict": "in a turned world the prediction is the turned one",
    "world_update": "in a turned world the update is the turned one",
}
_FORMS = {"xyzw": 4, "wxyz": 4, "matrix": 9}
_STEPS = np.array([1.0, -1.0, 2.0, -2.0])
_WEIGHTS = np.array([8.0, -8.0, -1.0, 1.0]) / 12.0
_STEP = 0.02  # of differences, in standard deviations
_DEGREES = 180.0 / np.pi
_OFF = 1e-6  # of a quaternion's norm, or of R^T R


@dataclass(frozen=True)
class FilterState:
    """How a filter writes a state as numbers, and what its errors are.

    Parameters
    ----------
    parts : of x and of e, in this order: "rotation"; "pose", a position and a rotation with the errors of
        SE(3); "vector(k)", k numbers whatever the axes; "world(3)", a vector in axes of the world.
    form : of rotations, from axes of the body to those of the world: a quaternion "xyzw" or "wxyz"
        (Hamilton's), or a "matrix", row by row. A pose is its position and this; with "matrix", 16 numbers.
    error : "body" for x = xhat exp(e), "world" for x = exp(e) xhat.
    order : of the errors of a pose, "wv" for the rotation first, or "vw".

    Raises
    ------
    ValueError : an unknown part, form, error or order.

    Examples
    --------
    >>> from connections import referee
    >>> state = referee.FilterState(("rotation", "vector(3)"), form="wxyz")
    >>> state.size, state.dim
    (7, 6)
    """

    parts: Any
    form: str = "xyzw"
    error: str = "body"
    order: str = "wv"

    def __post_init__(self) -> None:
        listed = [self.parts] if isinstance(self.parts, str) else self.parts
        object.__setattr__(self, "parts", require_names("parts", listed))
        for name, known in (("form", _FORMS), ("error", ("body", "world")), ("order", ("wv", "vw"))):
            require_choice(name, getattr(self, name), tuple(known))
        for part in self.parts:
            if part not in ("rotation", "pose", "world(3)") and not re.fullmatch(r"vector\([1-9]\d*\)", part):
                raise ValueError(
                    f'parts: expected "rotation", "pose", "world(3)" or "vector(k)", got {part!r}'
                )
        if not self.parts:
            raise ValueError('parts: a state has at least one; write ("rotation",)')

    @property
    def size(self) -> int:
        """How many numbers a state has."""
        return sum(self._sizes(part)[0] for part in self.parts)

    @property
    def dim(self) -> int:
        """How many components an error has."""
        return sum(self._sizes(part)[1] for part in self.parts)

    def moved(self, x: Array, e: Array) -> Array:
        """The state (size,) that is e (dim,) away from x."""
        moved = [self._moved(*given) for given in zip(self.parts, *self._split(x, e), strict=True)]
        return np.concatenate(moved)

    def difference(self, x: Array, y: Array) -> Array:
        """The error e (dim,) of the state y, seen from x."""
        xs, ys = self._split(x)[0], self._split(y)[0]
        return np.concatenate([self._difference(*pair) for pair in zip(self.parts, xs, ys, strict=True)])

    def reset(self, x: Array, e: Array) -> Array:
        """D exp (dim, dim): the change of the error at the moved state, by a change of e."""
        end = self.moved(x, e)
        return _slope(lambda d: self.difference(end, self.moved(x, e + d)), np.full(self.dim, 0.01))

    def turned(self, x: Array, R: Array) -> tuple[Array, Array]:
        """The state in a world that is turned by R (3, 3), and what this does to errors (dim, dim)."""
        states, blocks = [], []
        for part, own in zip(self.parts, self._split(x)[0], strict=True):
            k = self._sizes(part)[1]
            block: Any = np.eye(k)
            if part == "world(3)":
                own, block = R @ own, R
            elif part in ("rotation", "pose"):
                p, Q = self._read(part, own)
                own = self._written(part, R @ p, R @ Q)
                block = np.kron(np.eye(k // 3), R) if self.error == "world" else block
            states.append(own)
            blocks.append(block)
        change, place = np.zeros((self.dim, self.dim)), 0
        for block in blocks:
            change[place : place + len(block), place : place + len(block)] = block
            place += len(block)
        return np.concatenate(states), change

    def off(self, x: Array) -> float:
        """How far the rotations are from being rotations."""
        gaps = [0.0]
        for part, own in zip(self.parts, self._split(x)[0], strict=True):
            if part not in ("rotation", "pose"):
                continue
            if self.form == "matrix":
                Q = own.reshape(3, 3) if part == "rotation" else own.reshape(4, 4)[:3, :3]
                gaps += [float(np.abs(Q.T @ Q - np.eye(3)).max()), abs(float(np.linalg.det(Q)) - 1.0)]
                if part == "pose":
                    gaps.append(float(np.abs(own.reshape(4, 4)[3] - [0.0, 0.0, 0.0, 1.0]).max()))
            else:
                gaps.append(abs(float(np.linalg.norm(own[-4:])) - 1.0))
        return max(gaps)

    def turns(self) -> Array:
        """Which components of errors are angles, (dim,) of bool."""
        marks: list[bool] = []
        for part in self.parts:
            k = self._sizes(part)[1]
            pose = [True] * 3 + [False] * 3 if self.order == "wv" else [False] * 3 + [True] * 3
            marks += {"rotation": [True] * 3, "pose": pose}.get(part, [False] * k)
        return np.array(marks)

    # --- private -------------------------------------------------------------------------------------------

    def _sizes(self, part: str) -> tuple[int, int]:
        if part == "rotation":
            return _FORMS[self.form], 3
        if part == "pose":
            return (16 if self.form == "matrix" else 7), 6
        k = int(part[part.index("(") + 1 : -1])
        return k, k

    def _split(self, x: Array, e: Array | None = None) -> list[list[Array]]:
        sizes = np.array([self._sizes(part) for part in self.parts])
        cut = [np.split(x, np.cumsum(sizes[:-1, 0]))]
        return cut if e is None else [*cut, np.split(e, np.cumsum(sizes[:-1, 1]))]

    def _read(self, part: str, own: Array) -> tuple[Array, Array]:
        """Position and rotation matrix."""
        if self.form == "matrix":
            whole = own.reshape((3, 3) if part == "rotation" else (4, 4))
            return (np.zeros(3), whole) if part == "rotation" else (whole[:3, 3], whole[:3, :3])
        quaternion = own[-4:] if self.form == "xyzw" else np.roll(own[-4:], -1)
        R: Array = Rotation.from_quat(quaternion).as_matrix()
        return (own[:3] if part == "pose" else np.zeros(3)), R

    def _written(self, part: str, p: Array, R: Array) -> Array:
        if self.form == "matrix":
            if part == "rotation":
                return R.ravel()
            whole = np.eye(4)
            whole[:3, :3], whole[:3, 3] = R, p
            return whole.ravel()
        quaternion = Rotation.from_matrix(R).as_quat()
        quaternion = quaternion if self.form == "xyzw" else np.roll(quaternion, 1)
        return quaternion if part == "rotation" else np.concatenate([p, quaternion])

    def _moved(self, part: str, own: Array, e: Array) -> Array:
        if part not in ("rotation", "pose"):
            return own + e
        p, R = self._read(part, own)
        step = e if part == "rotation" or self.order == "wv" else np.roll(e, 3)
        turn = Rotation.from_rotvec(step[:3]).as_matrix()
        shift = _shift(step[:3]) @ step[3:] if part == "pose" else np.zeros(3)
        if self.error == "body":
            return self._written(part, p + R @ shift, R @ turn)
        return self._written(part, shift + turn @ p, turn @ R)

    def _difference(self, part: str, own: Array, other: Array) -> Array:
        if part not in ("rotation", "pose"):
            return other - own
        (p, R), (q, S) = self._read(part, own), self._read(part, other)
        turn = R.T @ S if self.error == "body" else S @ R.T
        w: Array = Rotation.from_matrix(turn).as_rotvec()
        if part == "rotation":
            return w
        shift = R.T @ (q - p) if self.error == "body" else q - turn @ p
        e = np.concatenate([w, np.linalg.solve(_shift(w), shift)])
        return e if self.order == "wv" else np.roll(e, 3)


@dataclass(frozen=True, eq=False)
class BlackBoxFilter:
    """A filter's two functions, what they are about, and an example of their arguments.

    Parameters
    ----------
    predict : (x, P, u, dt) -> (x, P) after dt seconds of the input u. update : (x, P, z) -> (x, P).
    measurement : x -> z (m,), what a sensor without noise would measure.
    N : (m, m), the covariance of the sensor that the filter assumes.
    state : how states are written.
    x : (size,) or several (samples, size). P : (dim, dim), with deviations of a hundredth or so, to which an
        extended Kalman filter is linear. u : input. dt : s.
    rate : which entries of u are an angular velocity in axes of the body, rad/s; None if none are.
    world : "any" if the model is the same in a world turned about any axis, "vertical" if about z, as with
        gravity; None if in no other.
    turned : (R (3, 3), z) -> z in a world that is turned by R; None if z is the same there, as readings in
        axes of the body of something that turns, too.

    Raises
    ------
    TypeError, ShapeError, NonFiniteError, ValueError : an argument is none of these.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import referee
    >>> line = referee.BlackBoxFilter(
    ...     predict=lambda x, P, u, dt: (x + u * dt, P + 0.01 * dt * np.eye(1)),
    ...     update=lambda x, P, z: (x + P[0] / (P[0] + 0.04) * (z - x), P * 0.04 / (P + 0.04)),
    ...     measurement=lambda x: x,
    ...     N=[[0.04]],
    ...     state=referee.FilterState(("vector(1)",)),
    ...     x=[0.3],
    ...     P=[[0.01]],
    ...     u=[0.1],
    ...     dt=0.1,
    ... )
    >>> referee.audit_filter(line).failing
    ()
    """

    predict: Callable[..., Any]
    update: Callable[..., Any]
    measurement: Callable[..., Any]
    N: Any
    state: FilterState
    x: Any
    P: Any
    u: Any
    dt: float
    rate: Any = None
    world: str | None = None
    turned: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        for name, form in (
            ("predict", "(x, P, u, dt) -> (x, P)"),
            ("update", "(x, P, z) -> (x, P)"),
            ("measurement", "x -> z (m,)"),
            ("turned", "(R, z) -> z (m,)"),
        ):
            if getattr(self, name) is not None or name != "turned":
                require_function(name, getattr(self, name), form)
        if not isinstance(self.state, FilterState):
            raise TypeError(f"state: expected a FilterState, got {type(self.state).__name__}")
        if self.world is not None:
            require_choice("world", self.world, ("any", "vertical"))
        shapes = {"x": (self.state.size,), "P": (self.state.dim,) * 2, "N": (None, None), "u": (None,)}
        for name, shape in shapes.items():
            value = np.atleast_1d(np.asarray(as_array(name, getattr(self, name), shape), dtype=np.float64))
            require_finite(name, value)
            if value.ndim > len(shape) + (name == "x"):
                raise ShapeError(name, shape, value.shape)
            object.__setattr__(self, name, np.atleast_2d(value) if name == "x" else value)
        for name in ("P", "N"):
            value = getattr(self, name)
            if value.shape[0] != value.shape[1] or not _is_definite(value):
                raise ValueError(f"{name}: expected a symmetric positive definite matrix")
        off = [self.state.off(x) for x in self.x]
        if max(off) > _OFF:
            raise ValueError(f"x: sample {int(np.argmax(off))} has no rotation: it is {max(off):.1g} off")
        object.__setattr__(self, "dt", require_duration("dt", self.dt))
        if self.rate is not None and not isinstance(self.rate, slice):
            object.__setattr__(self, "rate", list(require_indices("rate", self.rate, len(self.u))))
        if self.rate is not None and np.shape(self.u[self.rate]) != (3,):
            raise ShapeError("u[rate]", (3,), np.shape(self.u[self.rate]))


def audit_filter(filter: BlackBoxFilter, tolerance: float = 1e-6, subject: str = "filter") -> RefereeReport:
    """A report on a filter: its covariances, compared with derivatives of its own states and of its sensor.

    Parameters
    ----------
    filter : the functions, the sensor's covariance, and an example of arguments.
    tolerance : relative to standard deviations. An extended or iterated filter is linear at small P and is
        right to ten digits; one of sigma points is right to about P in rad^2.
    subject : its name in the report.

    Returns
    -------
    RefereeReport, of which `kind` says which update and which reset this is. The notes name what would
    explain a row that fails: degrees for radians, axes of the other side, a transposed Jacobian.

    Raises
    ------
    BlackBoxError : a function raises an error. ShapeError, NonFiniteError, TypeError : it returns no (x, P),
        or no z. ValueError : the measurement of a turned world is not `turned`.

    Examples
    --------
    A filter of one angle in degrees, to which the gyroscope's radians are given.

    >>> import numpy as np
    >>> from connections import referee
    >>> def turn(x, a):
    ...     c, s = np.cos(a), np.sin(a)
    ...     return (x.reshape(3, 3) @ np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])).ravel()
    >>> wrong = referee.BlackBoxFilter(
    ...     predict=lambda x, P, u, dt: (turn(x, np.radians(u[2]) * dt), P + 1e-6 * dt * np.eye(3)),
    ...     update=lambda x, P, z: (x, P),
    ...     measurement=lambda x: x[:1],
    ...     N=[[1e-4]],
    ...     state=referee.FilterState(("rotation",), form="matrix"),
    ...     x=np.eye(3).ravel(),
    ...     P=1e-4 * np.eye(3),
    ...     u=[0.0, 0.0, 0.5],
    ...     dt=0.1,
    ...     rate=slice(0, 3),
    ... )
    >>> referee.audit_filter(wrong)["rate"].verdict
    'fails'

    Source: docs/filters.md.
    """
    if not isinstance(filter, BlackBoxFilter):
        raise TypeError(f"filter: expected a BlackBoxFilter, got {type(filter).__name__}")
    require_text("subject", subject)
    tolerance = as_number("tolerance", tolerance)
    if not 0.0 < tolerance < 1.0:
        raise ValueError(f"tolerance: expected a number between 0 and 1, got {tolerance!r}")
    samples = [_Sample(filter, number, tolerance) for number in range(len(filter.x))]
    for sample in samples:
        sample.judge()
    rows = []
    for name, meaning in MEANINGS.items():
        found = [(number, sample.found[name]) for number, sample in enumerate(samples)]
        number, worst = max(found, key=lambda pair: pair[1].badness)
        judged = worst.verdict not in ("not given", "not applicable")
        rows.append(
            Row(name, worst.verdict, *worst.numbers, sample=number if judged else None, meaning=meaning)
        )
    notes = dict.fromkeys(note for sample in samples for note in sample.notes)
    return RefereeReport(tuple(rows), samples[0].kind, "float64", subject, tuple(notes))


# --- private -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Measurement:
    """A measurement: verdict, and residual, tolerance, control, noise."""

    verdict: str
    numbers: tuple[float, float, float, float] = (np.nan,) * 4

    @property
    def badness(self) -> tuple[int, float]:
        order = ("not given", "not applicable", "holds", "empty", "unknown", "fails")
        return order.index(self.verdict), self.numbers[0] if np.isfinite(self.numbers[0]) else 0.0


class _Sample:
    """One state of a filter: `found` has the rows, `notes` what would explain those that fail."""

    def __init__(self, filter: BlackBoxFilter, number: int, tolerance: float) -> None:
        self.filter, self.state, self.number, self.tolerance = filter, filter.state, number, tolerance
        self.x, self.P, self.kind = filter.x[number], filter.P, "filter"
        self.rng = np.random.default_rng([number, *b"filter"])
        self.found = {name: _Measurement("not given") for name in MEANINGS}
        self.notes: list[str] = []
        self.states: list[Array] = []
        self.covariances: list[Array] = []
        other = "world" if self.state.error == "body" else "body"
        self.other = FilterState(self.state.parts, self.state.form, other, self.state.order)

    def judge(self) -> None:
        """Measure all rows."""
        self._turned_world()
        self._prediction()
        self._update()
        self._covariances()

    # --- calls of the functions ---

    def predict(self, x: Array, P: Array, u: Array | None = None) -> tuple[Array, Array]:
        u = self.filter.u if u is None else u
        return self._pair("predict", x, P, u, float(self.filter.dt))

    def update(self, x: Array, P: Array, z: Array) -> tuple[Array, Array]:
        return self._pair("update", x, P, z)

    def measured(self, x: Array) -> Array:
        return self._array("measurement", self._called("measurement", x), (len(self.filter.N),))

    def _pair(self, name: str, *arguments: Any) -> tuple[Array, Array]:
        given = self._called(name, *arguments)
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise TypeError(f"{name}: expected (x, P), got {type(given).__name__}; sample {self.number}")
        x = self._array(f"x of {name}", given[0], (self.state.size,))
        P = self._array(f"P of {name}", given[1], (self.state.dim,) * 2)
        self.states.append(x)
        self.covariances.append(P)
        return x, P

    def _called(self, name: str, *arguments: Any) -> Any:
        function = getattr(self.filter, name)
        copies = (a.copy() if isinstance(a, np.ndarray) else a for a in arguments)
        try:
            return function(*copies)
        except Exception as error:
            raise BlackBoxError(f"{name} raised {_words_of(error)}; sample {self.number}") from error

    def _array(self, name: str, value: Any, shape: tuple[int, ...]) -> Array:
        array = np.array(as_array(name, value, ()))
        if array.shape != shape:
            raise ShapeError(f"{name}, sample {self.number},", shape, array.shape)
        if not np.isfinite(array).all():
            raise NonFiniteError(f"{name}, sample {self.number}, has a number that is not finite")
        return array

    # --- rows ---

    def _say(self, name: str, residual: float, control: float, noise: float = 0.0, floor: float = 0.0) -> str:
        """Judge a row, and return its verdict."""
        limit = max(self.tolerance, floor)
        if not residual <= max(limit, 10.0 * noise):
            verdict = "fails"
        elif 10.0 * noise > 0.1:
            verdict = "unknown"
        else:
            verdict = "empty" if control < 10.0 * max(limit, 10.0 * noise) else "holds"
        self.found[name] = _Measurement(verdict, (residual, max(limit, 10.0 * noise), control, noise))
        return verdict

    def _explain(self, name: str, gap: Callable[[Any], float], reasons: dict[str, Any]) -> None:
        """Note the first reason under which the row would hold."""
        limit = 10.0 * self.found[name].numbers[1]
        for reason, value in reasons.items():
            if value is not None and gap(value) <= limit:
                self.notes.append(f"{name}: {reason}")
                return

    def _prediction(self) -> None:
        x, P, state, sigma = self.x, self.P, self.state, np.sqrt(np.diag(self.P))
        end, P_end = self.predict(x, P)

        def transition(kind: FilterState) -> Array:
            return _slope(lambda e: kind.difference(end, self.predict(kind.moved(x, e), P)[0]), sigma)

        Phi, L = transition(state), np.linalg.cholesky(P)
        A = L @ self.rng.normal(size=P.shape)
        more = A @ A.T
        change, W = self.predict(x, P + more)[1] - P_end, _whitener(Phi @ (P + more) @ Phi.T)

        def gap(F: Array) -> float:
            return _largest(W @ (change - F @ more @ F.T) @ W.T)

        control = _largest(W @ (Phi.T @ more @ Phi - Phi @ more @ Phi.T) @ W.T)
        verdict = self._say("transition", gap(Phi), control if control > 1e-9 else np.nan)
        if verdict == "fails":
            reasons = {
                "it fits the transposed transition": Phi.T,
                f"it fits errors in axes of the {self.other.error}": transition(self.other),
                "it fits the inverse transition": np.linalg.inv(Phi),
            }
            self._explain("transition", gap, reasons)
        added = W @ (P_end - Phi @ P @ Phi.T) @ W.T
        self._say("noise", max(0.0, -float(np.linalg.eigvalsh(0.5 * (added + added.T)).min())), np.nan)
        self._rate()

    def _rate(self) -> None:
        """d log(R^T R') / du = dt, to first order in dt."""
        which, turning = self.filter.rate, [p for p in self.state.parts if p in ("rotation", "pose")]
        if which is None or not turning:
            return
        part = turning[0]

        def rotation(x: Array) -> Array:
            own = self.state._split(x)[0][self.state.parts.index(part)]
            return self.state._read(part, own)[1]

        R, u = rotation(self.x), self.filter.u

        def turned(d: Array) -> Array:
            shifted = u.copy()
            shifted[which] += d
            w: Array = Rotation.from_matrix(
                R.T @ rotation(self.predict(self.x, self.P, shifted)[0])
            ).as_rotvec()
            return w / self.filter.dt

        slope = _slope(turned, np.ones(3))
        verdict = self._say("rate", _largest(slope - np.eye(3)), 2.0, floor=0.05)
        if verdict == "fails":
            reasons = {
                "the filter takes u, rad/s, for degrees per second": np.eye(3) / _DEGREES,
                "the filter turns u, rad/s, into degrees per second": np.eye(3) * _DEGREES,
                "the body turns backwards: are rotations from the world to the body?": -np.eye(3),
                "the filter takes u for a velocity in axes of the world": R.T,
                "the filter does not use u": np.zeros((3, 3)),
            }
            self._explain("rate", lambda other: _largest(slope - other) / max(1.0, _largest(other)), reasons)

    def _update(self) -> None:
        x, P, N, state = self.x, self.P, self.filter.N, self.state
        z, sigma = self.measured(x), np.sqrt(np.diag(P))
        H = _slope(lambda e: self.measured(state.moved(x, e)), sigma)
        S = H @ P @ H.T + N
        L, root = np.linalg.cholesky(P), np.linalg.cholesky(S)

        def found(factor: float) -> Array:
            def step(d: Array) -> Array:
                return state.difference(x, self.update(x, P, z + d)[0])

            return _slope(step, factor * np.sqrt(np.diag(S)))

        K, still = found(1.0), state.difference(x, self.update(x, P, z)[0])

        def apart(one: Array) -> float:
            return _largest(np.linalg.solve(L, (K - one) @ root))

        def gain(P: Array, H: Array, N: Array = N) -> Array:
            return np.asarray(np.linalg.solve(H @ P @ H.T + N, H @ P).T, dtype=np.float64)

        right = gain(P, H)
        control = _largest(np.linalg.solve(L, (right - gain(P, H, 2.0 * N)) @ root))
        residual = max(apart(right), _largest(np.linalg.solve(L, still)))
        if self._say("gain", residual, control, apart(found(2.0)) * 0.1) == "fails":
            self._explain_gain(apart, gain, H, right)
        P_e = P - right @ S @ right.T
        P_still = self.update(x, P, z)[1]
        W = _whitener(P_e)
        self._say("covariance", _largest(W @ (P_still - P_e) @ W.T), _largest(W @ (P - P_e) @ W.T))
        self._reset(P_still, L)

    def _explain_gain(self, apart: Any, gain: Any, H: Array, right: Array) -> None:
        x, P = self.x, self.P
        A = _slope(lambda e: self.state.difference(x, self.other.moved(x, e)), np.full(len(P), 0.01))
        T = np.where(self.state.turns(), _DEGREES, 1.0)
        reasons = {
            f"it fits errors in axes of the {self.other.error}": A @ gain(P, H @ A),
            f"it fits a Jacobian in axes of the {self.other.error}": gain(P, H @ A),
            "it fits a transposed Jacobian": gain(P, H.T) if H.shape[0] == H.shape[1] else None,
            "it fits a Jacobian by degrees": gain(P, H / T),
            "it fits a Jacobian in degrees": gain(P, H * T),
            "it fits a P whose angles are in degrees": gain(P / np.outer(T, T), H),
            "the filter takes its step, rad, for degrees": right / T[:, None],
            "the filter turns its step, rad, into degrees": right * T[:, None],
            "the step has the other sign": -right,
        }
        self._explain("gain", apart, reasons)

    def _reset(self, P_still: Array, L: Array) -> None:
        """P after a measurement that is not as expected; of an extended and of an iterated filter."""
        x, state = self.x, self.state
        if not state.turns().any():
            self.found["reset"] = _Measurement("not applicable")
            return
        z = self.measured(state.moved(x, 1.5 * L @ self.rng.choice([-1.0, 1.0], state.dim)))
        end, P_end = self.update(x, self.P, z)
        J = state.reset(x, state.difference(x, end))
        H = _slope(lambda e: self.measured(state.moved(end, e)), np.sqrt(np.diag(self.P))) @ J
        iterated = np.linalg.inv(np.linalg.inv(self.P) + H.T @ np.linalg.solve(self.filter.N, H))
        best = None
        for kind, P_e in (("extended", P_still), ("iterated", iterated)):
            exact = J @ P_e @ J.T
            W = _whitener(0.5 * (exact + exact.T))
            cases = {
                "exact reset": J,
                "no reset": np.eye(len(J)),
                "transposed reset": J.T,
                "inverse reset": np.linalg.inv(J),
            }
            gaps = {name: _largest(W @ (P_end - B @ P_e @ B.T) @ W.T) for name, B in cases.items()}
            name = min(gaps, key=lambda name: gaps[name])
            control = _largest(W @ (P_e - exact) @ W.T)
            if best is None or gaps[name] < best[0]:
                best = gaps[name], kind, name, gaps["exact reset"], control
        assert best is not None
        gap, kind, name, residual, control = best
        known = gap <= 10.0 * self.tolerance
        self.kind = f"{kind}, {name}" if known else "another update or reset"
        if self._say("reset", residual, control) == "fails" and known:
            self.notes.append(f"reset: {name}; the page on filters says where it matters")

    def _turned_world(self) -> None:
        if self.filter.world is None:
            return
        turn = np.array([0.4, -0.7, 0.9]) if self.filter.world == "any" else np.array([0.0, 0.0, 0.9])
        R, state, x, P = Rotation.from_rotvec(turn).as_matrix(), self.state, self.x, self.P
        there, A = state.turned(x, R)
        P_there = A @ P @ A.T

        def compare(name: str, got: tuple[Array, Array], plain: tuple[Array, Array]) -> None:
            wanted, spread = state.turned(plain[0], R)[0], A @ plain[1] @ A.T
            W = _whitener(0.5 * (spread + spread.T))
            gaps = W @ state.difference(wanted, got[0]), W @ (got[1] - spread) @ W.T
            unturned = _largest(W @ state.difference(plain[0], wanted))
            self._say(name, max(map(_largest, gaps)), unturned if unturned > 1e-9 else np.nan)

        compare("world_predict", self.predict(there, P_there), self.predict(x, P))
        if self.filter.turned is None:
            return
        z = self.measured(state.moved(x, np.sqrt(np.diag(P))))
        z_there = self._array("turned", self._called("turned", R, z), z.shape)
        at_x = self._array("turned", self._called("turned", R, self.measured(x)), z.shape)
        size = np.sqrt(np.diag(self.filter.N))
        if _largest((at_x - self.measured(there)) / size) > self.tolerance:
            raise ValueError("turned: measurement of the turned state is not turned(R, measurement(x))")
        compare("world_update", self.update(there, P_there, z_there), self.update(x, P, z))

    def _covariances(self) -> None:
        """Write the rows on all (x, P) that were returned: P is symmetric and definite, and x a point."""
        asymmetry, least = 0.0, np.inf
        for P in self.covariances:
            size = np.sqrt(np.abs(np.diag(P)) + 1e-300)
            correlation = P / np.outer(size, size)
            asymmetry = max(asymmetry, _largest(correlation - correlation.T))
            least = min(least, float(np.linalg.eigvalsh(0.5 * (correlation + correlation.T)).min()))
        self._say("symmetric", asymmetry, np.nan, floor=1e-9)
        self.found["definite"] = _Measurement(
            "holds" if least > 0.0 else "fails", (-least, 0.0, np.nan, np.nan)
        )
        self._say("point", max(map(self.state.off, self.states)), np.nan)


def _slope(function: Callable[[Array], Array], sizes: Array) -> Array:
    """The derivative (m, k) at zero, by central differences of fourth order; sizes (k,) of the variables."""
    columns = []
    for size, axis in zip(sizes, np.eye(len(sizes)), strict=True):
        values = [function(_STEP * size * step * axis) for step in _STEPS]
        columns.append(np.tensordot(_WEIGHTS, np.stack(values), axes=1) / (_STEP * size))
    return np.stack(columns, axis=1)


def _shift(w: Array) -> Array:
    """The matrix (3, 3) that takes v to the position of exp(w, v): 1 + (1 - cos)/w^2 w x + ..."""
    a, cross = float(np.linalg.norm(w)), np.cross(np.eye(3), w)
    if a < 1e-4:
        b, c = 0.5 - a**2 / 24.0, 1.0 / 6.0 - a**2 / 120.0
    else:
        b, c = (1.0 - np.cos(a)) / a**2, (a - np.sin(a)) / a**3
    shift: Array = np.eye(3) + b * cross + c * cross @ cross
    return shift


def _whitener(P: Array) -> Array:
    """W (k, k) with W P W^T = 1; of the nearest definite matrix, if P is not."""
    values, vectors = np.linalg.eigh(0.5 * (P + P.T))
    floor = 1e-12 * float(np.abs(values).max()) + 1e-300
    W: Array = vectors.T / np.sqrt(np.maximum(values, floor))[:, None]
    return W


def _is_definite(P: Array) -> bool:
    size = np.sqrt(np.abs(np.diag(P)) + 1e-300)
    correlation = P / np.outer(size, size)
    symmetric = _largest(correlation - correlation.T) <= 1e-9
    return symmetric and float(np.linalg.eigvalsh(0.5 * (correlation + correlation.T)).min()) > 0.0


def _largest(array: Any) -> float:
    return float(np.abs(array).max(initial=0.0))
