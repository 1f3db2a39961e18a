"""Inertial parameters, friction and armature of a robot from recorded positions, velocities and torques.

The momentum is linear in the parameters, and so is its rate, which needs no accelerations:

    d/dt (Y_p pi) = tau - F_v v - F_c sign(v) - o + Y_e pi.

A low pass L with cutoff w, ydot = w (x - y), is applied to both sides. Integration by parts moves the
derivative to the filter, L[pdot] = w (p - L_0[p]), where L_0 starts at p(t_0) and L at zero, so that

    W pi + L[v] F_v + L[sign v] F_c + L[1] o = L[tau],      W = w (Y_p - L_0[Y_p]) - L[Y_e].

What armature adds to the momentum and to its rate is that of a robot of nothing else, and a column of W; if
armature is known, it is subtracted from L[tau]. Between samples, what is filtered is a cubic spline in time,
and sign(v) is linear (`low_pass`). A body's parameters belong to some distribution of mass if its
pseudo-inertia P is positive semidefinite; friction F and armature are not negative. So the estimate minimizes
(`central_path`)

    chi^2 / 2 + g sum_b (tr(P_0^-1 P) - log det(P_0^-1 P) - 4) + sum_k g_k (F_k / f_k - log(F_k / f_k) - 1),

which is convex, and infinite where a P is singular or an F is zero; P_0 are the pseudo-inertias of a prior.
If f_k is a prior, too, g_k = g. Else g_k is so small that only the sign remains of this term, and f_k is the
size of the least squares estimate.
Source: Hsu, Bodson, Sastry and Paden 1987; Gautier 1991 for base parameters; Wensing, Kim and Slotine 2018
for P; Lee, Wensing and Park 2020 for the divergence.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from connections._jax import ArrayLike
from connections.checks import (
    ModelError,
    ShapeError,
    as_array,
    as_number,
    finite_result,
    require_bool,
    require_finite,
    require_untraced,
)
from connections.control.identification.base_parameters import (
    base_of,
    determined,
    nearest,
    sizes_of,
    triangle_of,
    units_of,
)
from connections.control.identification.central_path import Cones, central_point
from connections.control.identification.further_unknowns import (
    ARMATURE,
    COULOMB,
    OFFSET,
    VISCOUS,
    FurtherUnknowns,
    with_friction,
)
from connections.control.identification.low_pass import low_pass
from connections.control.identification.standard_errors import BLOCK, standard_errors
from connections.multibody import Model, inertial_parameters, momentum_regressor
from connections.multibody.inertia import pseudo_inertias
from connections.multibody.joints import Passive
from connections.multibody.model import require_model

_SMALLEST_NOISE = 1e-6  # of a filtered torque, relative to its terms
_SIGN = 1e-4  # g_k without a prior: a coefficient that is zero is found within a hundredth of its error


@dataclass(frozen=True, eq=False, repr=False)
class Identification:
    """The result of `identify`: parameters, base parameters with standard errors, and residuals.

    The unknowns theta are the 10 N inertial parameters and, in this order and as far as asked for, the nv
    viscous and the nv Coulomb coefficients, the armature, and the nv offsets. Armature is one number for each
    group of velocity components that has one, in the order of `Model.armature`: for a hinge or a slide, for
    the three angular components of a spherical or free joint, for the three linear ones. Data determine only
    some combinations of them, the base parameters B theta.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> arm = mb.example("arm")
    >>> t = np.linspace(0.0, 6.0, 1201)
    >>> w = np.arange(1.0, 7.0)  # rad/s
    >>> q, v, a = np.sin(t[:, None] * w), w * np.cos(t[:, None] * w), -(w**2) * np.sin(t[:, None] * w)
    >>> tau = mb.inverse_dynamics(arm, q, v, a) + 0.4 * v
    >>> found = control.identify(arm, q, v, tau, t, cutoff=5.0, friction=True)
    >>> found.viscous.round(2)
    array([0.4, 0.4, 0.4, 0.4, 0.4, 0.4])
    >>> found.rank, found.parameters.shape
    (48, (6, 10))
    """

    prior: Model  #: the robot as it was given
    parameters: np.ndarray  #: (N, 10) inertial parameters, as `multibody.inertial_parameters`
    viscous: np.ndarray  #: (nv,) F_v, N m s/rad and N s/m
    coulomb: np.ndarray  #: (nv,) F_c, N m and N
    combinations: np.ndarray  #: (rank, size of theta) B; row k has a 1 at the k-th independent unknown
    base: np.ndarray  #: (rank,) the least squares estimate of B theta, without prior or constraint
    standard_errors: np.ndarray  #: (rank,) of `base`, from residuals that the filter correlates; no bias
    residual: np.ndarray  #: (nv,) rms of L[tau] minus the prediction by all that was found, N m and N
    condition: float  #: largest over smallest singular value that counts, columns in units of a kind
    boundary: tuple[
        str, ...
    ] = ()  #: bodies, and coefficients in words, that end at the boundary of what exists
    armature: dict[str, np.ndarray] = field(
        default_factory=dict
    )  #: {joint: (nv of the joint,)}, kg m^2 and kg
    offsets: np.ndarray = field(default_factory=lambda: np.zeros(0))  #: (nv,) of measured torques, N m and N
    undetermined: tuple[str, ...] = ()  #: sentences about friction, armature and offsets that data do not say
    friction: bool = False  #: whether friction was identified

    @property
    def rank(self) -> int:
        """The number of base parameters that the recording determines."""
        return len(self.base)

    @cached_property
    def model(self) -> Model:
        """The robot with these parameters; `ModelError` if, not constrained, they are of no robot.

        It has the armature that was found and, if friction was identified, the viscous friction as damping
        and the Coulomb friction as friction of its `passive`: of all independent joints that are not free, in
        place of the prior's. Where the recording does not determine them, they are the prior's. Dependent
        joints of closed loops have none, because what was found is the friction of all. Offsets belong to the
        sensors, not to the robot. Without friction and armature, it is
        ``prior.with_inertial_parameters(parameters)``.
        """
        model = self.prior.with_inertial_parameters(self.parameters)
        changed = {
            name: value
            for name, value in self.armature.items()
            if not np.array_equal(value, model.armature[name])
        }
        if changed:
            model = model.with_armature(changed)
        return model.with_passive(self._passive()) if self.friction else model

    def _passive(self) -> Passive:
        """The prior's springs, with the friction that was found."""
        model, rubbing = self.prior, set(with_friction(self.prior))
        slices = {name: model.velocity_slice(name) for name in model.joint_names}
        damping, friction = (
            {name: value for name, value in given.items() if name in slices}
            for given in (model.passive.damping, model.passive.friction)
        )
        for name, own in slices.items():
            if own.start in rubbing:
                damping[name], friction[name] = self.viscous[own], self.coulomb[own]
        return replace(model.passive, damping=damping, friction=friction)

    def __repr__(self) -> str:
        size = self.combinations.shape[1]
        ends = f", at the boundary: {', '.join(self.boundary)}" if self.boundary else ""
        ends += f"; {'; '.join(self.undetermined)}" if self.undetermined else ""
        return f"Identification(rank={self.rank} of {size}, condition={self.condition:.1e}{ends})"


def identify(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    times: ArrayLike,
    *,
    cutoff: float,
    friction: bool = False,
    armature: bool = False,
    offsets: bool = False,
    prior: ArrayLike | None = None,
    friction_prior: ArrayLike | None = None,
    prior_weight: float = 1.0,
    consistent: bool = True,
) -> Identification:
    """Inertial parameters pi, (N, 10), from a recording, without accelerations: W pi = L[tau].

    Parameters
    ----------
    model : the robot; its inertias matter only as the prior.
    q : (T, nq) configurations.
    v : (T, nv) velocities in the model's frame, rad/s and m/s.
    tau : (T, nv) all generalized forces besides gravity and friction, N m and N; springs are among them.
    times : (T,) increasing, s; the steps may differ.
    cutoff : of the low pass, Hz. Well above the frequencies of the motion, well below those of the noise.
    friction : whether every joint but free ones has viscous and Coulomb friction, which is identified, too.
        Of closed loops, these are the independent joints.
    armature : whether armature is identified, too, of every joint; otherwise the model's is taken as known.
    offsets : whether the measured torques of every joint but free ones are the true ones plus a constant
        offset, N m or N, which is identified, too.
    prior : (N, 10) parameters towards which the estimate is drawn; None takes the model's. Of a body that
        carries a heavy payload it has to contain one of about that size (`control.with_payload`): to be
        heavier than the prior costs in proportion to the ratio, and is weighed against the noise.
    friction_prior : (2, nv) viscous and Coulomb coefficients towards which friction is drawn, or two numbers,
        such as those of an earlier recording. An entry that is zero has no prior. None is no prior.
    prior_weight : g > 0; a prior that is believed to a relative error e has the weight 1 / e^2.
    consistent : whether every body's pseudo-inertia is to be positive definite, and friction and armature
        positive. If not, the estimate is the least squares solution nearest to the prior.

    Each velocity's equations are weighted by the rms of their own residual. `standard_errors` are the
    spread of `base` in repeated recordings of one motion: by noise of torques, velocities and positions,
    white before the filter or correlated over less than ten of its time constants. They do not contain what
    is the same each time: the bias towards zero by noise of v, which is also in W, forces that the
    equations lack, and what the prior does to `parameters`. `boundary` names bodies that data alone would
    make impossible or singular: there the prior decides, however small its weight. Memory holds some six
    arrays of T nv 10 N numbers; of a long recording of a robot with many joints, give every second sample.

    Armature, and friction without a prior, are only positive: what data determine is not drawn anywhere. What
    the recording says nothing about, because a joint stands still, or moves less than the noise of its
    velocity, stays the prior's, or the model's (`Model.armature`, `Model.passive`), or zero; so does Coulomb
    friction that is like an offset, of a joint that never turns back. `undetermined` says so, in words, and
    names what data determine only together with parameters of bodies, as the armature of a first joint: there
    bodies stay near their prior, and armature is the rest.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, ClosureError.
    TypeError : an argument is of another kind, or JAX traces it.
    ValueError : times do not increase; the recording is too short; cutoff or weight are not positive; the
        cutoff is above half the rate of the samples; there is neither motion nor weight; a friction of the
        prior is negative, or is given without `friction`.
    ModelError : the prior of a body, which is named, is not positive definite.
    ConvergenceError : the minimum was not found.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> believed = mb.example("arm")
    >>> arm = control.with_payload(believed, "tool", 1.0, (0.0, 0.0, 0.1))
    >>> t = np.linspace(0.0, 6.0, 1201)
    >>> w = np.arange(1.0, 7.0)  # rad/s
    >>> q, v, a = np.sin(t[:, None] * w), w * np.cos(t[:, None] * w), -(w**2) * np.sin(t[:, None] * w)
    >>> found = control.identify(believed, q, v, mb.inverse_dynamics(arm, q, v, a), t, cutoff=5.0)
    >>> np.allclose(mb.gravity(found.model, q), mb.gravity(arm, q), atol=0.05)
    True

    Source: Hsu, Bodson, Sastry and Paden 1987; Lee, Wensing and Park 2020.
    """
    require_model("identify", model)
    require_untraced(q=q, v=v, tau=tau, times=times, prior=prior, friction_prior=friction_prior)
    t, q, v, tau = _recording(model, q, v, tau, times)
    rate = 2.0 * np.pi * _positive("cutoff", cutoff)
    _require_long_enough(t, rate)
    weight = _positive("prior_weight", prior_weight)
    for name, value in (
        ("friction", friction),
        ("armature", armature),
        ("offsets", offsets),
        ("consistent", consistent),
    ):
        require_bool(name, value)
    pi_0, rubbing = _prior(model, prior, consistent), _friction_prior(model, friction_prior, friction)
    further = FurtherUnknowns.of(model, t, v, rate, (friction, armature, offsets))

    first = np.concatenate([pi_0.reshape(-1), _start_of(model, rubbing, further)])
    places = np.concatenate([np.arange(pi_0.size), pi_0.size + further.places])
    start = first[places]

    W, y = _filtered(model, t, q, v, tau, rate, further)
    if y.size < 2 * W.shape[-1]:
        what = f"{y.size} equations for {W.shape[-1]} unknowns"
        raise ValueError(f"times: {len(t)} samples are too few: {what}; at least twice as many are needed")
    units = units_of(W, further.kinds)
    sizes = sizes_of(W, units)  # torques do not count, so that B depends on the motion only
    R, c = triangle_of(W / sizes[:, None], y / sizes, start, units)
    B, own, condition = base_of(R, units)
    noise = _noise(W, y, start + units * nearest(R, c))
    A, b = W / noise[:, None], y / noise
    R, c = triangle_of(A, b, start, units)
    x = nearest(R, c)
    fit = start + units * x
    theta, boundary = fit, cast("tuple[str, ...]", ())
    columns = W[..., pi_0.size :] * units[pi_0.size :]
    held, undetermined = further.held(columns, v, determined(B, own, units)[pi_0.size :])
    if consistent:
        problem = _LeastSquaresProblem(R, c, start, units, weight)
        theta, boundary = problem.minimum(model, x, further, held, rubbing)

    found = first.copy()
    found[places] = theta
    combinations = np.zeros((len(B), first.size))
    combinations[:, places] = B
    values = found[pi_0.size :]
    return Identification(
        prior=model,
        parameters=found[: pi_0.size].reshape(-1, 10),
        viscous=further.of_velocities(VISCOUS, values),
        coulomb=further.of_velocities(COULOMB, values),
        combinations=combinations,
        base=B @ fit,
        standard_errors=standard_errors(A[..., own], b - A @ fit, t, rate),
        residual=np.sqrt(np.mean((y - W @ theta) ** 2, axis=0)),
        condition=condition,
        boundary=boundary,
        armature=further.armature_of(model, values),
        offsets=further.of_velocities(OFFSET, values),
        undetermined=undetermined,
        friction=friction,
    )


@dataclass(frozen=True)
class _LeastSquaresProblem:
    """The least squares |R x - c|^2, theta = start + units x, whose solution has to exist.

    Parameters
    ----------
    weight : of the prior.
    """

    R: np.ndarray
    c: np.ndarray
    start: np.ndarray
    units: np.ndarray
    weight: float

    def minimum(
        self, model: Model, x: np.ndarray, further: FurtherUnknowns, held: np.ndarray, rubbing: np.ndarray
    ) -> tuple[np.ndarray, tuple[str, ...]]:
        """Theta, and what ends at the boundary, in words; x is where the search begins.

        Parameters
        ----------
        held : (n,) further unknowns that stay where they start.
        rubbing : (2, nv) the prior of friction, zero where it has none.
        """
        bodies = len(model.body_names)
        kept = np.flatnonzero(~np.concatenate([np.zeros(10 * bodies, dtype=bool), held]))
        R, start, units = self.R, self.start[kept], self.units[kept]
        if held.any():
            R = R[:, kept]
        cones = [Cones.of_bodies(self.start[: 10 * bodies].reshape(-1, 10), units)]
        signed = np.flatnonzero(~held & (further.kinds != OFFSET))
        prior = further.friction_among(rubbing, signed)
        parts = [part for part in (signed[prior > 0.0], signed[prior == 0.0]) if len(part)]
        for part in parts:
            columns = np.searchsorted(kept, 10 * bodies + part)
            sizes, share = further.friction_among(rubbing, part), 1.0
            if not sizes.any():
                errors = units[columns] / np.linalg.norm(R[:, columns], axis=0)
                sizes, share = (
                    np.abs((start + units * x[kept])[columns]) + errors,
                    min(1.0, _SIGN / self.weight),
                )
            cones.append(Cones.of_numbers(columns, start[columns], sizes, units[columns], share))
        least, pushed = central_point(R, self.c, cones, self.weight, x[kept])
        theta = self.start.copy()
        theta[kept] = start + units * least
        ends = [name for name, one in zip(model.body_names, pushed[0], strict=True) if one]
        for part, which in zip(parts, pushed[1:], strict=True):
            ends += further.named(part[which])
        return theta, tuple(ends)


# --- arguments ---------------------------------------------------------------------------------------------


def _recording(model: Model, q: Any, v: Any, tau: Any, times: Any) -> tuple[np.ndarray, ...]:
    t = np.asarray(as_array("times", times, (None,)))
    if t.ndim != 1:
        raise ShapeError("times", ("T",), t.shape)
    arrays = [t]
    for name, value, size in (("q", q, model.nq), ("v", v, model.nv), ("tau", tau, model.nv)):
        array = np.asarray(as_array(name, value, (size,)))
        if array.shape != (len(t), size):
            raise ShapeError(name, (len(t), size), array.shape)
        arrays.append(array)
    for name, array in zip(("times", "q", "v", "tau"), arrays, strict=True):
        require_finite(name, array)
    late = np.flatnonzero(~(np.diff(t) > 0.0))
    if len(late):
        k = int(late[0])
        raise ValueError(f"times must increase: times[{k + 1}] = {t[k + 1]:g} s follows {t[k]:g} s")
    return tuple(arrays)


def _require_long_enough(t: np.ndarray, rate: float) -> None:
    if len(t) < 3:
        raise ValueError(f"times: {len(t)} samples are too few")
    if t[-1] - t[0] < 2.0 * BLOCK / rate:
        need = f"at least {2.0 * BLOCK / rate:.3g} s, {2.0 * BLOCK:g} time constants of the filter"
        raise ValueError(f"times: the recording takes {t[-1] - t[0]:.3g} s, and has to take {need}")
    step = float(np.median(np.diff(t)))
    if rate * step > np.pi:
        raise ValueError(f"cutoff: it has to be below {0.5 / step:.4g} Hz, half the rate of `times`")


def _positive(name: str, value: Any) -> float:
    number = as_number(name, value)
    if not number > 0.0:
        raise ValueError(f"{name} must be positive, got {number:g}")
    return number


def _prior(model: Model, prior: Any, consistent: bool) -> np.ndarray:
    pi = np.asarray(as_array("prior", inertial_parameters(model) if prior is None else prior, (None, 10)))
    if pi.shape != (len(model.body_names), 10):
        raise ShapeError("prior", (len(model.body_names), 10), pi.shape)
    require_finite("prior", pi)
    if consistent:
        for body, P in zip(model.body_names, pseudo_inertias(pi), strict=True):
            units = 1.0 / np.sqrt(np.maximum(np.diag(P), 1e-300))
            if not np.linalg.eigvalsh(P * np.multiply.outer(units, units))[0] > 1e-9:
                what = "its pseudo-inertia is not positive definite, as that of a body with volume is"
                raise ModelError(f"prior: body '{body}': {what}; give another prior, or consistent=False")
    return pi


def _friction_prior(model: Model, given: Any, friction: bool) -> np.ndarray:
    """(2, nv) viscous and Coulomb coefficients, zero where there is no prior."""
    if given is None:
        return np.zeros((2, model.nv))
    if not friction:
        raise ValueError("friction_prior: friction is not identified; give friction=True, too")
    prior = np.asarray(as_array("friction_prior", given, (2,) if np.ndim(given) == 1 else (2, model.nv)))
    if prior.shape not in ((2,), (2, model.nv)):
        raise ShapeError("friction_prior", (2, model.nv), prior.shape)
    require_finite("friction_prior", prior)
    if (prior < 0.0).any():
        raise ValueError(f"friction_prior: friction is not negative, got {prior.min():g}")
    return np.array(np.broadcast_to(prior.reshape(2, -1), (2, model.nv)))


def _start_of(model: Model, rubbing: np.ndarray, further: FurtherUnknowns) -> np.ndarray:
    """The further unknowns of theta before the recording: of friction the prior's, or the model's."""
    start = np.zeros(further.size)
    own = with_friction(model)
    for kind, prior, given in (
        (VISCOUS, rubbing[0], model.passive.damping),
        (COULOMB, rubbing[1], model.passive.friction),
    ):
        values = np.zeros(model.nv)
        for name in set(given) & set(model.joint_names):
            values[model.velocity_slice(name)] = given[name]
        if further.slices[kind].stop > further.slices[kind].start:
            start[further.slices[kind]][own] = np.where(prior > 0.0, prior, values)[own]
    start[further.slices[ARMATURE]] = [model.armature[name][own[0]] for name, own in further.groups]
    return start


# --- equations ---------------------------------------------------------------------------------------------


def _filtered(
    model: Model, t: np.ndarray, q: Any, v: Any, tau: Any, rate: float, further: FurtherUnknowns
) -> tuple[np.ndarray, np.ndarray]:
    """W with the further unknowns, (T, nv, p), and L[tau], (T, nv)."""
    Y_p, Y_e = momentum_regressor(model, q, v)
    rigid = rate * (Y_p - low_pass(t, Y_p, rate, Y_p[0])) - low_pass(t, Y_e, rate)
    W = np.zeros((*v.shape, rigid.shape[-1] + len(further.kinds)))
    W[..., : rigid.shape[-1]] = rigid
    W[..., rigid.shape[-1] :] = further.columns(model, t, q, v, rate)
    y = low_pass(t, tau, rate)
    if model.kinematics.tree.armature.any() and not further.groups:
        pi, system = inertial_parameters(model).reshape(-1), model.system()
        p, change = system.momentum(q, v) - Y_p @ pi, system.momentum_rate(q, v) - Y_e @ pi
        y -= rate * (p - low_pass(t, p, rate, p[0])) - low_pass(t, change, rate)
    with np.errstate(all="ignore"):  # squares are summed, of terms that are multiplied by one another
        finite_result("what follows from q, v and tau", np.sum(W**2) * np.sum(y**2))
    return W, y


def _noise(W: np.ndarray, y: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """(nv,) rms of the residuals of each velocity's equations, with a floor for exact data."""
    terms = np.sqrt(np.mean(y**2 + np.sum((W * theta) ** 2, axis=-1), axis=0))
    floor = _SMALLEST_NOISE * np.where(terms > 0.0, terms, 1.0)
    noise: np.ndarray = np.maximum(np.sqrt(np.mean((y - W @ theta) ** 2, axis=0)), floor)
    return noise
