"""Configurations at which frames are where they should be: Levenberg and Marquardt's method on the manifold.

    minimize |r(q)|^2 / 2,    q <- q exp(x),    (J^T J + lambda D) x = -J^T r,    lower <= q <= upper.

The residual of a point is p - p_d, in world axes. That of a pose is [log R_d^T R; R_d^T (p - p_d)], in the
axes of the target, and changes at the rate [E omega; R_d^T R u] with the frame's twist [omega; u] in its own
axes, where log R_d^T R = w changes at E omega,

    E = 1 + W / 2 + c W^2,    W = (w x),    c = (1 - (|w| / 2) cot(|w| / 2)) / |w|^2.

D is the diagonal of J^T J, so that units of joints do not matter, and lambda follows the ratio of what a step
gains to what was predicted. Where a step leaves most of the cost, because targets are out of reach or a
posture pulls, the next one has second derivatives, too, sum r_i L_k J_ij, and a lambda with which the matrix
is positive definite; without them such a search creeps. The derivative of J along X_k is the rate of J for
the unit velocity k, and that of J_w^T w, with w and J_w in the frame's own axes, is (L_k J_w)^T w +
J_w^T E J_w.

All rows of a batch step together. A step that would break a limit is, for its row, that of the quadratic
program with the limits linearized; in closed chains, these are limits of all joints, also of dependent ones,
whose velocities are rows of G, and a step must gain in |r|^2 / 2 and the sum of what is beyond limits,
weighted by the largest multiplier.

If a posture is wished for, its distance is minimized, too, with a weight that is lowered from 1e-2 to 1e-8 of
the targets'; from there the targets alone decide. So the result reaches them to the last digit. Of forty
random arms of seven joints, the closest to the posture of those that do is missed by 1e-4 rad at most.

Source: Marquardt, An algorithm for least-squares estimation of nonlinear parameters, 1963; Nielsen, Damping
parameter in Marquardt's method, 1999, for lambda; Nocedal and Wright, Numerical Optimization, chapter 18, for
the weight of the limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from connections._jax import ArrayLike
from connections._words import no_such, words_of
from connections.checks import (
    ClosureError,
    ConvergenceError,
    ModelError,
    ShapeError,
    as_array,
    as_number,
    batch_axes,
    require_bool,
    require_finite,
    require_positive_int,
    require_untraced,
)
from connections.engines.arguments import as_rows
from connections.geometry.numerics import quadratic_programs
from connections.geometry.rigid.host_groups import logarithm_slope
from connections.multibody.definition.host_kinematics import configuration
from connections.multibody.displacements import displace
from connections.multibody.functions import (
    center_of_mass as center_of_mass_at,
)
from connections.multibody.functions import (
    center_of_mass_jacobian,
    frame_jacobian,
    frame_jacobian_rate,
    frame_pose,
)
from connections.multibody.joints.limits import Limits
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.model import Model, close_loops, require_model, total_mass
from connections.multibody.momenta import centroidal_momentum_matrix_rate
from connections.multibody.program.closed import SolvedLoops, coordinates_of

CENTER_OF_MASS = "center_of_mass"  # in place of a frame
SOLVED, CLOSEST, STEPS = "solved", "closest", "steps"
_WHAT = "inverse_kinematics with limits"
_RIGID = 1e-6  # the largest entry of R^T R - 1 of a target
_POSTURE = 1e-2  # weight of the posture, of the largest entry of D at the start
_WEAKER, _WEAKEST = 1e-2, 1e-6  # then it is lowered, so far
_AGREED = 1e-10  # gain of a step, of what is left, below which the posture is close enough
_MUCH = 0.1  # of the cost: a step that gains less is followed by one with second derivatives
_ABOVE = 1.5  # how far the scale is above what makes the matrix singular
_STILL = 1e-10  # rad and m: a step that is shorter leads nowhere
_HELD = 1e-7  # rad and m: by how much joints of loops may be beyond their limits
_SHARE = 0.5  # of the way to a limit that a step may go: who runs into limits at once stays there
_NOTHING = 1e-12  # columns of J below this, of the largest, are round-off
_TURN = 1.0  # rad: the most that a joint turns in a step, so that the result is near the start
_START, _LEAST, _MOST = 1e-2, 1e-9, 1e10  # lambda


@dataclass(frozen=True, eq=False)
class InverseKinematics:
    """The configurations that `inverse_kinematics` found, for each row of the batch.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> points = [[0.3, 0.2, 0.4], [9.0, 0.0, 0.0]]
    >>> found = mb.inverse_kinematics(robot, {"tool": points}, robot.neutral())
    >>> found.status.tolist()
    ['solved', 'closest']
    >>> found.residuals["tool"].shape
    (2, 3)
    """

    q: np.ndarray  #: (..., nq) the configurations, within the limits
    #: (...,) ``"solved"``: the targets are reached; ``"closest"``: no small step leads closer to them,
    #: because they are out of reach or beyond limits, or the start is in the basin of a local minimum;
    #: ``"steps"``: `max_steps` were not enough
    status: np.ndarray
    #: for each frame [log R_d^T R; R_d^T (p - p_d)], (..., 6), rad and m, or p - p_d, (..., 3), m
    residuals: dict[str, np.ndarray]
    steps: np.ndarray  #: (...,) how many were taken

    @property
    def solved(self) -> np.ndarray:
        """(...,) whether the targets are reached."""
        return np.asarray(self.status == SOLVED)

    def require(self) -> InverseKinematics:
        """Itself, if all targets are reached.

        Raises
        ------
        ConvergenceError : a row is not solved; the message names the frame that is farthest from its target.
        """
        if self.solved.all():
            return self
        row = tuple(int(i) for i in np.argwhere(~self.solved)[0])
        worst = {frame: float(np.abs(r[row]).max()) for frame, r in self.residuals.items()}
        frame = max(worst, key=worst.__getitem__)
        where = f" of row {list(row)}" if row else ""
        raise ConvergenceError(
            f"inverse_kinematics{where}: status '{self.status[row]}', frame '{frame}' is {worst[frame]:.3g} "
            "(rad, m) from its target; start from another q0, or from several as a batch"
        )


def inverse_kinematics(
    model: Model,
    targets: Mapping[str, Any],
    q0: ArrayLike | SolvedLoops,
    *,
    weights: Mapping[str, Any] | None = None,
    limits: bool = True,
    posture: ArrayLike | None = None,
    center_of_mass: ArrayLike | None = None,
    tol: float = 1e-8,
    max_steps: int = 200,
) -> InverseKinematics:
    """A configuration near q0 at which frames have given poses or rotations, or their origins given places.

    Parameters
    ----------
    model : the robot; a tree, or with loops, which stay closed on the branch of q0.
    targets : {frame: (..., 4, 4) its pose, (..., 3, 3) its rotation, or (..., 3) where its origin is to be},
        in the world, m. For another point of a body, add a frame by ``model.with_frames``. It may be empty
        if there is a `center_of_mass`.
    q0 : (..., nq) where the search starts, or `SolvedLoops`; leading axes broadcast with those of the
        targets, so that several starts, or many targets, are one call.
    weights : {frame: a number, or one for each component}, not negative, of the squares of the residuals, 1
        by default: [log R_d^T R; R_d^T (p - p_d)] of a pose (6,), log R_d^T R of a rotation (3,), p - p_d of
        a point (3,). They matter if not all targets can be reached; a component of weight zero is free.
        ``"center_of_mass"`` is the name of that.
    limits : whether to stay within the limits of the joints, of dependent joints of loops too, and within the
        angles of ball joints; q0 may be beyond them. They need DAQP where they bind (extra ``whole-body``).
    posture : (..., nq), of the configurations that reach the targets, the one that is wished for; joints with
        a quaternion are not pulled to it. Half of `max_steps` may go there; where it leads away from targets
        that are reached without it, it does not count. None for no wish: the robot moves little.
    center_of_mass : (..., 3) where the centre of mass is to be, m; None for anywhere.
    tol : rad and m, the largest component of a residual that counts as reached.
    max_steps : the most steps of a row.

    Returns
    -------
    The configurations with a status, residuals and numbers of steps for each.

    Raises
    ------
    ShapeError, NonFiniteError, PointError : an argument is wrong.
    ClosureError : the loops do not close at q0.
    ModelError : there is no such frame, a pose is not rigid, or a lower limit is above the upper one.
    TypeError, ValueError : an argument of another kind.
    ImportError : limits bind, and DAQP is missing.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> goal = mb.frame_pose(robot, [0.3, -0.8, 1.2, 0.1, 0.5, 0.0], "tool")
    >>> found = mb.inverse_kinematics(robot, {"tool": goal}, robot.neutral() + 0.1)
    >>> str(found.status), bool(abs(found.residuals["tool"]).max() < 1e-8)
    ('solved', True)

    Source: Marquardt 1963, Nielsen 1999.
    """
    require_model("inverse_kinematics", model)
    require_bool("limits", limits)
    require_positive_int("max_steps", max_steps)
    tolerance = as_number("tol", tol)
    if not tolerance > 0.0:
        raise ValueError(f"tol: expected a positive number, rad and m, got {tolerance:g}")
    if not isinstance(targets, Mapping) or not (targets or center_of_mass is not None):
        raise TypeError(
            "targets: expected {frame: pose (4, 4), rotation (3, 3) or point (3,)}, one frame or more, "
            f"got {words_of(targets)}"
        )
    if not isinstance(weights, Mapping | None):
        raise TypeError(
            f"weights: expected {{frame: a number, or one for each component}}, got {words_of(weights)}"
        )
    start = configuration(model.kinematics, "q0", coordinates_of(q0, model.kinematics, "q0"))
    places = list(targets.items())
    if center_of_mass is not None:
        if CENTER_OF_MASS in targets:
            raise ModelError(f"targets: '{CENTER_OF_MASS}' is the name of the other target; rename the frame")
        places.append((CENTER_OF_MASS, center_of_mass))
    goals = [_Goal.of(model, frame, place, (weights or {}).get(frame)) for frame, place in places]
    for frame in weights or ():
        if frame not in dict(places):
            raise ModelError(f"weights: {no_such('frame', frame, list(dict(places)))}")
    wish = None if posture is None else configuration(model.kinematics, "posture", posture)
    arrays = [start, *(goal.flat for goal in goals), *(() if wish is None else (wish,))]
    names = ["q0", *(f"targets['{goal.frame}']" for goal in goals), *(() if wish is None else ("posture",))]
    batch = batch_axes(names, arrays)
    bounds, placed = _Bounds.of(model, limits), [goal.rows(batch) for goal in goals]
    wishes = None if wish is None else as_rows(wish, batch)
    search = _TargetSearch(model, placed, bounds, wishes, tolerance, max_steps)
    guess = close_loops(model, q0) if isinstance(q0, SolvedLoops) and model.closed else None
    spanning = None if guess is None else as_rows(np.asarray(guess.spanning), batch)
    starts = as_rows(start, batch)
    found = search.from_starts(starts, spanning)
    led_astray = np.flatnonzero(found.status != SOLVED)
    if wish is not None and led_astray.size:  # what pulls to the posture may pull out of reach
        these = [goal._replace(flat=goal.flat[led_astray]) for goal in placed]
        plain = _TargetSearch(model, these, bounds, None, tolerance, max_steps)
        again = plain.from_starts(starts[led_astray], None if spanning is None else spanning[led_astray])
        reached = again.status == SOLVED
        for array, other in zip(found, again, strict=True):
            array[led_astray[reached]] = other[reached]
    ends = np.cumsum([goal.weights.size for goal in goals])[:-1]
    parts = np.split(found.error, ends, axis=1)
    return InverseKinematics(
        found.q.reshape(*batch, model.nq),
        found.status.reshape(batch),
        {goal.frame: e.reshape(*batch, goal.weights.size) for goal, e in zip(goals, parts, strict=True)},
        found.steps.reshape(batch),
    )


# --- targets and limits ------------------------------------------------------------------------------------


class _Goal(NamedTuple):
    """The target of a frame."""

    frame: str
    flat: np.ndarray  #: (..., 16) poses, (..., 9) rotations, or (..., 3) points
    weights: np.ndarray  #: (6,) of a pose, or (3,)

    @classmethod
    def of(cls, model: Model, frame: Any, place: Any, weight: Any) -> _Goal:
        if frame is not CENTER_OF_MASS and frame not in model.frame_names:
            raise ModelError(f"targets: {no_such('frame', frame, model.frame_names)}")
        name = CENTER_OF_MASS if frame is CENTER_OF_MASS else f"targets['{frame}']"
        require_untraced(**{name: place})
        array = np.asarray(as_array(name, place, ()))
        require_finite(name, array)
        if array.shape[-1:] == (3,) and (array.shape[-2:] != (3, 3) or frame is CENTER_OF_MASS):
            flat, size = array, 3
        elif array.shape[-2:] == (4, 4) and frame is not CENTER_OF_MASS:
            last = array[..., 3, :] == (0.0, 0.0, 0.0, 1.0)
            if not (last.all() and _are_rotations(array[..., :3, :3])):
                raise ModelError(f"{name}: a pose is no rigid transform [[R, p], [0, 1]] with R^T R = 1")
            flat, size = array.reshape(*array.shape[:-2], 16), 6
        elif array.shape[-2:] == (3, 3):
            if not _are_rotations(array):
                points = "three points are a batch (3, 1, 3), or three rows of another"
                raise ModelError(
                    f"{name}: (..., 3, 3) is a rotation, and this is none with R^T R = 1; {points}"
                )
            flat, size = array.reshape(*array.shape[:-2], 9), 3
        elif frame is CENTER_OF_MASS:
            raise ShapeError(name, "(..., 3), a point", array.shape)
        else:
            what = "(..., 4, 4), a pose, (..., 3), a point, or (..., 3, 3), a rotation"
            raise ShapeError(name, what, array.shape)
        w = np.asarray(as_array(f"weights['{frame}']", 1.0 if weight is None else weight, ()))
        if w.shape not in ((), (size,)):
            raise ShapeError(f"weights['{frame}']", f"() or ({size},)", w.shape)
        require_finite(f"weights['{frame}']", w)
        if (w < 0.0).any():
            raise ValueError(f"weights['{frame}']: a weight is negative")
        return cls(frame, flat, np.array(np.broadcast_to(w, (size,))))

    def rows(self, batch: tuple[int, ...]) -> _Goal:
        """The goal with one target for each row of the batch."""
        return self._replace(flat=as_rows(self.flat, batch))

    def at(self, model: Model, at: Any, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The residual (k, m) and its Jacobian (k, m, nv) at k configurations, for these rows of targets."""
        place = self.flat[rows]
        if self.frame is CENTER_OF_MASS:
            J = _over(lambda q: center_of_mass_jacobian(model, q), at)
            return _over(lambda q: center_of_mass_at(model, q), at) - place, J
        pose = _over(lambda q: frame_pose(model, q, self.frame), at)
        if self.flat.shape[-1] == 3:
            J = _over(lambda q: frame_jacobian(model, q, self.frame, axes="world"), at)
            return pose[:, :3, 3] - place, J[:, 3:]
        J = _over(lambda q: frame_jacobian(model, q, self.frame), at)
        target = place.reshape(len(place), *(2 * (int(self.flat.shape[-1] ** 0.5),)))
        back = np.swapaxes(target[:, :3, :3], 1, 2)
        turn = back @ pose[:, :3, :3]
        w = Rotation.from_matrix(turn).as_rotvec()
        if self.flat.shape[-1] == 9:
            return w, logarithm_slope(w) @ J[:, :3]
        shift = back @ (pose[:, :3, 3] - target[:, :3, 3])[:, :, None]
        return np.concatenate([w, shift[:, :, 0]], axis=1), np.concatenate(
            [logarithm_slope(w) @ J[:, :3], turn @ J[:, 3:]], axis=1
        )

    def second(self, model: Model, at: Any, rows: np.ndarray, error: np.ndarray, J: np.ndarray) -> np.ndarray:
        """Second derivatives of this goal's cost, less the J^T J of `at`, (k, nv, nv), at k configurations.

        Parameters
        ----------
        at : k configurations.
        rows : of the targets.
        error, J : as `at` returns them.

        They are sum_i w_i r_i L_k J_ij; of a rotation, where J = E J_w, with J_w^T (E - E^T E) J_w.
        """
        units, points = np.eye(model.nv), at[:, None]
        pull = self.weights * error
        if self.frame is CENTER_OF_MASS:
            rates = centroidal_momentum_matrix_rate(model, points, units)[:, :, 3:] / total_mass(model)
            of_center: np.ndarray = np.einsum("kcij,ki->kjc", rates, pull)
            return of_center
        size, found = self.flat.shape[-1], np.zeros((len(rows), model.nv, model.nv))
        if size != 9:
            if size == 16:
                target = self.flat[rows].reshape(-1, 4, 4)[:, :3, :3]
                along = np.einsum("kij,kj->ki", target, pull[:, 3:])
            else:
                along = pull
            rates = frame_jacobian_rate(model, points, units, self.frame, axes="world")
            found += np.einsum("kcij,ki->kjc", rates[:, :, 3:], along)
        if size != 3 and (self.weights[:3] == self.weights[0]).all():
            w, weight = error[:, :3], self.weights[0]
            E, spin = logarithm_slope(w), frame_jacobian_rate(model, points, units, self.frame)[:, :, :3]
            J_w = np.linalg.solve(E, J[:, :3])
            both = E - np.swapaxes(E, 1, 2) @ E
            found += weight * np.einsum("kcij,ki->kjc", spin, w)
            found += weight * np.einsum("kia,kij,kjb->kab", J_w, both, J_w)
        return found


class _Bounds(NamedTuple):
    """Limits of all joints that have some, dependent joints of loops included.

    They bound coordinates with v = qdot, and the angles |w| of ball joints with the rotation vector w, which
    change at the rate w . omega / |w|; in rows, coordinates come first.
    """

    columns: np.ndarray  #: (k,) among the velocities of the spanning tree
    places: np.ndarray  #: (k,) among its coordinates
    lower: np.ndarray  #: (k,)
    upper: np.ndarray  #: (k,)
    dependent: bool  #: whether loops determine some of them
    own_lower: np.ndarray  #: (nq,) of the independent coordinates, -inf if there is none
    own_upper: np.ndarray
    balls: np.ndarray  #: (m,) where their quaternions begin in the spanning tree
    turns: np.ndarray  #: (m,) and their velocities
    angles: np.ndarray  #: (m,) the largest ones

    @classmethod
    def of(cls, model: Model, wanted: bool) -> _Bounds:
        """The limits of all joints; none, if they are not wanted."""
        kinematics = model.kinematics
        spanning = kinematics.spanning if isinstance(kinematics, ClosedKinematics) else kinematics
        tree, rate_of = spanning.tree, np.full(spanning.nq, -1)
        coordinate_of = spanning.coordinate_of
        rate_of[coordinate_of[coordinate_of >= 0]] = np.flatnonzero(coordinate_of >= 0)
        lower, upper = np.full(spanning.nq, -np.inf), np.full(spanning.nq, np.inf)
        if wanted:
            for name, limits in zip(tree.joint_names, tree.limits, strict=True):
                disorder = limits.disorder()
                if disorder:
                    raise ModelError(f"joint '{name}': {disorder}; give limits=False, or correct the file")
            every = Limits.of(tree.limits)
            lower, upper = (
                np.where(rate_of >= 0, limit, none)
                for limit, none in ((every.lower, -np.inf), (every.upper, np.inf))
            )
        places = np.flatnonzero(np.isfinite(lower) | np.isfinite(upper))
        columns, (coordinates, independent) = rate_of[places], _independent(model)
        dependent = not np.isin(columns, independent).all()
        own = lower[coordinates], upper[coordinates]
        bounded = [
            (at_q, at_v, limits.angle[0])
            for at_q, at_v, limits in zip(spanning.q_starts, spanning.v_starts, tree.limits, strict=False)
            if wanted and limits.angle[0] < np.pi
        ]
        balls, turns, angles = np.array(bounded).reshape(-1, 3).T
        balls, turns = balls.astype(int), turns.astype(int)
        dependent |= not np.isin(turns, independent).all()
        return cls(columns, places, lower[places], upper[places], dependent, *own, balls, turns, angles)

    def ranges(self, spanning: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Bounded values (k, b) at configurations (k, nq_s), and their limits (b,), angles last."""
        if not self.balls.size:
            return spanning[:, self.places], self.lower, self.upper
        values = np.concatenate([spanning[:, self.places], self._vectors(spanning)[1]], axis=1)
        lower = np.concatenate([self.lower, np.full(len(self.angles), -np.inf)])
        return values, lower, np.concatenate([self.upper, self.angles])

    def rates(self, spanning: np.ndarray, G: np.ndarray) -> np.ndarray:
        """The rows (k, b, nv) of the rates of the bounded values, of G (k, nv_s, nv)."""
        if not self.balls.size:
            return G[:, self.columns]
        axes, _ = self._vectors(spanning)
        of_balls = G[:, self.turns[:, None] + np.arange(3)]
        turning = np.einsum("kmi,kmin->kmn", axes, of_balls)
        return np.concatenate([G[:, self.columns], turning], axis=1)

    def within(self, q: np.ndarray) -> np.ndarray:
        """The nearest configurations (k, nq) of a tree within its limits."""
        there: np.ndarray = np.clip(q, self.own_lower, self.own_upper)
        axes, angles = self._vectors(q) if self.balls.size else (q, q)
        for ball, start in enumerate(self.balls):
            beyond = angles[:, ball] > self.angles[ball]
            turned = Rotation.from_rotvec(self.angles[ball] * axes[beyond, ball]).as_quat()
            there[beyond, start : start + 4] = turned
        return there

    def _vectors(self, spanning: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Axes (k, m, 3) and angles (k, m) of bounded ball joints; the axis of no turn is zero."""
        quaternions = spanning[:, self.balls[:, None] + np.arange(4)]
        w = Rotation.from_quat(quaternions.reshape(-1, 4)).as_rotvec().reshape(*quaternions.shape[:2], 3)
        angles = np.linalg.norm(w, axis=2)
        return w / np.where(angles > 0.0, angles, 1.0)[:, :, None], angles


def _independent(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """The coordinates (nq,) and velocities (nv,) among those of the spanning tree."""
    kinematics = model.kinematics
    if isinstance(kinematics, ClosedKinematics):
        return kinematics.q_columns, kinematics.v_columns
    return np.arange(model.nq), np.arange(model.nv)


def _are_rotations(R: np.ndarray) -> bool:
    """Whether all of (..., 3, 3) are rotations."""
    errors = np.abs(np.swapaxes(R, -1, -2) @ R - np.eye(3)).max(axis=(-1, -2), initial=0.0)
    return bool(((errors <= _RIGID) & (np.linalg.det(R) > 0.0)).all())


def _over(function: Any, at: Any) -> np.ndarray:
    """A function of configurations for k rows of them; without axes for a single one, which is quicker."""
    return np.asarray(function(at[0])[None] if len(at) == 1 else function(at))


# --- the search --------------------------------------------------------------------------------------------


class _At(NamedTuple):
    """k configurations, and what the next steps need of them."""

    spanning: np.ndarray  #: (k, nq_s)
    error: np.ndarray  #: (k, m) the residuals, without weights
    J: np.ndarray  #: (k, m, nv)
    rates: np.ndarray  #: (k, b, nv) of the bounded values


class _FoundRows(NamedTuple):
    q: np.ndarray
    error: np.ndarray
    status: np.ndarray
    steps: np.ndarray


class _TargetSearch:
    """The search for rows of targets."""

    def __init__(
        self,
        model: Model,
        goals: Sequence[_Goal],
        bounds: _Bounds,
        posture: np.ndarray | None,
        tol: float,
        most: int,
    ) -> None:
        self._model, self._goals, self._bounds, self._posture = model, goals, bounds, posture
        self._tol, self._most = tol, most
        self._weights = np.concatenate([goal.weights for goal in goals])
        plain = [element for element in model.kinematics.elements if element.joint.quaternion is None]
        self._pulled_q, self._pulled_v = (
            np.concatenate([np.zeros(0, dtype=int), *(np.arange(at.start, at.stop) for at in slices)])
            for slices in ([element.q for element in plain], [element.v for element in plain])
        )
        motions = [element.joint.motion for element in model.kinematics.elements]
        self._turning = np.concatenate([motion[:3].any(axis=0) for motion in motions])
        #: rows of the velocities that are velocities of the spanning tree
        columns = np.zeros(model.spanning_tree.nv, dtype=int)
        columns[_independent(model)[1]] = np.arange(model.nv)
        self._units = np.eye(model.nv)[columns]

    def from_starts(self, q: np.ndarray, spanning: np.ndarray | None) -> _FoundRows:
        """Where the search ends that starts at these rows (k, nq), near spanning configurations (k, nq_s)."""
        count, nv, bounds = len(q), self._model.nv, self._bounds
        q = q.copy() if self._model.closed else bounds.within(q)
        at = self._at(q, spanning, np.arange(count))
        status, steps = np.full(count, "", dtype="<U7"), np.zeros(count, dtype=int)
        damping, growth, D = np.full(count, _START), np.full(count, 2.0), np.zeros((count, nv))
        penalty, pull = np.zeros((2, count))
        stuck, slow = np.zeros((2, count), dtype=bool)
        if self._posture is not None:
            largest = np.einsum("kmn,m->kn", at.J**2, self._weights).max(axis=1)
            pull = _POSTURE * np.where(largest > 0.0, largest, 1.0)
        first = pull.copy()
        while True:
            status[(status == "") & (pull == 0.0) & self._reached(at)] = SOLVED
            status[(status == "") & stuck] = CLOSEST
            status[(status == "") & (steps >= self._most)] = STEPS
            left = np.flatnonzero(status == "")
            if not left.size:
                return _FoundRows(q, at.error, status, steps)
            steps[left] += 1
            H, g, merit = self._quadratic(q[left], at, left, pull[left])
            D[left] = np.maximum(D[left], np.einsum("knn->kn", H))
            scale = damping[left][:, None] * np.where(D[left] > 0.0, D[left], 1.0)
            H, scale = self._with_second(H, scale, q[left], at, left, slow[left])
            x, multipliers = self._step(H + scale[:, None] * np.eye(nv), g, at, left)
            penalty[left] = np.maximum(penalty[left], 2.0 * multipliers)
            beyond = penalty[left] * self._beyond(at.spanning[left]).sum(axis=1)
            predicted = beyond - np.einsum("kn,kn->k", g, x) - 0.5 * np.einsum("kn,knm,km->k", x, H, x)
            gained = self._tried(x, merit + beyond, at, q, left, pull, penalty)
            better = gained > 0.0
            slow[left] = np.where(better, gained < _MUCH * merit, slow[left])
            ratio = np.clip(gained / np.where(predicted > 0.0, predicted, np.inf), 0.0, 1.0)
            shrunk = np.maximum(0.2, 1.0 - (2.0 * ratio - 1.0) ** 3)
            damping[left] = np.maximum(_LEAST, damping[left] * np.where(better, shrunk, growth[left]))
            growth[left] = np.where(better, 2.0, 2.0 * growth[left])
            still = (np.abs(x).max(axis=1) <= _STILL) | (damping[left] > _MOST)
            close = still | (better & (predicted <= _AGREED * merit)) | (steps[left] >= self._most // 2)
            stuck[left] = still & (pull[left] == 0.0)
            near = left[close & (pull[left] > 0.0)]
            late = (steps[near] >= self._most // 2) | (pull[near] <= first[near] * _WEAKEST)
            pull[near] *= np.where(late, 0.0, _WEAKER)  # without it, the targets alone decide
            damping[near], growth[near] = _START, 2.0

    def _at(self, q: np.ndarray, spanning: np.ndarray | None, rows: np.ndarray) -> _At:
        """Errors, Jacobians and rates of limits at configurations (k, nq), with these rows' targets.

        Raises
        ------
        ClosureError : a loop does not close in one of them.
        """
        model, bounds, rates = self._model, self._bounds, np.zeros((0, 0))
        points: Any = q
        if model.closed:
            points = close_loops(model, q, guess=spanning)
            spanning = np.asarray(points.spanning)
        if bounds.dependent:
            G = np.asarray(model.program.solution(points).G)
        else:
            G = np.broadcast_to(self._units, (len(q), *self._units.shape))
        rates = bounds.rates(q if spanning is None else spanning, G)
        found = [goal.at(model, points, rows) for goal in self._goals]
        error, J = (np.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
        return _At(np.array(q if spanning is None else spanning), error, J, np.array(rates, order="C"))

    def _closing(
        self, q: np.ndarray, spanning: np.ndarray, rows: np.ndarray
    ) -> Iterator[tuple[np.ndarray, _At]]:
        """`_at` of those configurations in which the loops close, and which these are among (k,)."""
        every = np.arange(len(rows))
        try:
            yield every, self._at(q, spanning if self._model.closed else None, rows)
        except ClosureError:  # of one of them, which is found by halves
            for half in np.array_split(every, 2) if len(rows) > 1 else ():
                for part, there in self._closing(q[half], spanning[half], rows[half]):
                    yield half[part], there

    def _reached(self, at: _At) -> np.ndarray:
        """(k,) whether the targets are reached within the limits."""
        near = (np.abs(at.error) * (self._weights > 0.0)).max(axis=1) <= self._tol
        return np.asarray(near & (self._beyond(at.spanning).max(axis=1, initial=0.0) <= _HELD))

    def _quadratic(
        self, q: np.ndarray, at: _At, rows: np.ndarray, pull: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """J^T J, J^T r and |r|^2 / 2 with weights, and with the posture's."""
        e, J, w = at.error[rows], at.J[rows], self._weights
        sizes = np.abs(J).max(axis=1)  # what only round-off moves would turn very far
        J = np.where((sizes > _NOTHING * sizes.max(axis=1, keepdims=True))[:, None], J, 0.0)
        weighted = np.swapaxes(w[:, None] * J, 1, 2)
        H, g = weighted @ J, np.einsum("knm,km->kn", weighted, e)
        merit = 0.5 * (e * e) @ w
        if pull.any():
            away = self._away(q, rows)
            H[:, self._pulled_v, self._pulled_v] += pull[:, None]
            g[:, self._pulled_v] += pull[:, None] * away
            merit = merit + 0.5 * pull * (away * away).sum(axis=1)
        return H, g, merit

    def _with_second(
        self, H: np.ndarray, scale: np.ndarray, q: np.ndarray, at: _At, rows: np.ndarray, slow: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """H, with second derivatives in rows that are slow, and a scale that makes it positive definite."""
        if not slow.any():
            return H, scale
        chosen, model = rows[slow], self._model
        points: Any = q[slow]
        if model.closed:
            points = close_loops(model, points, guess=at.spanning[chosen])
        ends = np.cumsum([0, *(goal.weights.size for goal in self._goals)])
        second = sum(
            goal.second(model, points, chosen, at.error[chosen, i:j], at.J[chosen, i:j])
            for goal, i, j in zip(self._goals, ends, ends[1:], strict=False)
        )
        H, scale = H.copy(), scale.copy()
        for row, S in zip(np.flatnonzero(slow), np.asarray(second), strict=True):
            found, units = H[row] + 0.5 * (S + S.T), 1.0 / np.sqrt(scale[row])
            least = np.linalg.eigvalsh(found * np.multiply.outer(units, units))[0]
            H[row], scale[row] = found, scale[row] * max(1.0, -_ABOVE * least)
        return H, scale

    def _away(self, q: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """How far joints are from the posture (k, p)."""
        assert self._posture is not None  # asked while it pulls
        away: np.ndarray = q[:, self._pulled_q] - self._posture[rows][:, self._pulled_q]
        return away

    def _beyond(self, spanning: np.ndarray) -> np.ndarray:
        """(k, b) by how much coordinates are beyond their limits."""
        values, lower, upper = self._bounds.ranges(spanning)
        below, above = lower - values, values - upper
        return np.asarray(np.maximum(np.maximum(below, above), 0.0))

    def _step(self, A: np.ndarray, g: np.ndarray, at: _At, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The least x A x / 2 + g x within the limits, (k, nv), and the largest multipliers (k,)."""
        x, largest = -np.linalg.solve(A, g[:, :, None])[:, :, 0], np.zeros(len(rows))
        rates, (values, least, most) = at.rates[rows], self._bounds.ranges(at.spanning[rows])
        room = np.stack([least - values, most - values])
        lower, upper = np.where(room * [[[-1.0]], [[1.0]]] > 0.0, _SHARE * room, room)
        motion = np.einsum("kbn,kn->kb", rates, x)
        for row in np.flatnonzero(~((motion >= lower) & (motion <= upper)).all(axis=1)):
            bounded = quadratic_programs.QuadraticProgram(A[row], g[row], rates[row], upper[row], lower[row])
            found = quadratic_programs.solved(bounded, _WHAT)
            if found is None:  # limits of dependent joints that no step reaches: no further away from them
                low, up = np.minimum(lower[row], 0.0), np.maximum(upper[row], 0.0)
                found = quadratic_programs.solved(bounded._replace(upper=up, lower=low), _WHAT)
                if found is None:  # zero keeps these
                    raise ConvergenceError(f"{_WHAT}: a program is called infeasible that is not")
            x[row], largest[row] = found[0], np.abs(found[1]).max()
        farthest = np.abs(x[:, self._turning]).max(axis=1, initial=_TURN)
        return x * (_TURN / farthest)[:, None], largest

    def _tried(
        self,
        x: np.ndarray,
        before: np.ndarray,
        at: _At,
        q: np.ndarray,
        rows: np.ndarray,
        pull: np.ndarray,
        penalty: np.ndarray,
    ) -> np.ndarray:
        """The gain (k,) of each row by a step, which it takes if that is positive; -inf if a loop opens."""
        gained, moved = np.full(len(rows), -np.inf), displace(self._model, q[rows], x)
        if not self._model.closed:
            moved = self._bounds.within(moved)
        for part, there in self._closing(moved, at.spanning[rows], rows):
            chosen = rows[part]
            merit = 0.5 * (there.error**2) @ self._weights
            if self._posture is not None:
                merit += 0.5 * pull[chosen] * (self._away(moved[part], chosen) ** 2).sum(axis=1)
            merit += penalty[chosen] * self._beyond(there.spanning).sum(axis=1)
            gained[part] = before[part] - merit
            taken = gained[part] > 0.0
            q[chosen[taken]] = moved[part][taken]
            for own, new in zip(at, there, strict=True):
                own[chosen[taken]] = new[taken]
        return gained
