"""Inertial parameters and friction of a robot from recorded positions, velocities and torques.

The momentum is linear in the parameters, and so is its rate, which needs no accelerations:

    d/dt (Y_p pi) = tau - F_v v - F_c sign(v) + Y_e pi.

A low pass L with cutoff w, ydot = w (x - y), is applied to both sides. Integration by parts moves the
derivative to the filter, L[pdot] = w (p - L_0[p]), where L_0 starts at p(t_0) and L at zero, so that

    W pi + L[v] F_v + L[sign v] F_c = L[tau],      W = w (Y_p - L_0[Y_p]) - L[Y_e].

Armature is not among the parameters: what the known one adds to the momentum and to its rate is subtracted
from L[tau]. Between samples, what is filtered is a cubic spline in time, and sign(v) is linear (`low_pass`).
A body's parameters belong to some distribution of mass if its pseudo-inertia P is positive semidefinite; so
the estimate minimizes (`central_path`)

    chi^2 / 2 + g sum_b (tr(P_0^-1 P) - log det(P_0^-1 P) - 4),

which is convex, and infinite where a P is singular; P_0 are the pseudo-inertias of a prior.
Source: Hsu, Bodson, Sastry and Paden 1987; Gautier 1991 for base parameters; Wensing, Kim and Slotine 2018
for P; Lee, Wensing and Park 2020 for the divergence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

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
    nearest,
    sizes_of,
    triangle_of,
    units_of,
)
from connections.control.identification.central_path import central_point
from connections.control.identification.low_pass import low_pass
from connections.control.identification.standard_errors import BLOCK, standard_errors
from connections.multibody import Free, Model, inertial_parameters, momentum_regressor
from connections.multibody.inertia import pseudo_inertias
from connections.multibody.model import require_model

_SMALLEST_NOISE = 1e-6  # of a filtered torque, relative to its terms


@dataclass(frozen=True, eq=False, repr=False)
class Identification:
    """What `identify` found.

    The unknowns theta are the 10 N inertial parameters and, with friction, the nv viscous and the nv Coulomb
    coefficients. Data determine only some combinations of them, the base parameters B theta.

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
    residual: np.ndarray  #: (nv,) rms of L[tau] minus the prediction by parameters and friction, N m and N
    condition: float  #: largest over smallest singular value that counts, columns in units of a kind
    boundary: tuple[str, ...] = ()  #: bodies that end at the boundary of the cone of those that exist

    @property
    def rank(self) -> int:
        """The number of base parameters that the recording determines."""
        return len(self.base)

    @cached_property
    def model(self) -> Model:
        """The robot with these parameters; `ModelError` if, not constrained, they are of no robot."""
        return self.prior.with_inertial_parameters(self.parameters)

    def __repr__(self) -> str:
        size = self.combinations.shape[1]
        ends = f", at the boundary: {', '.join(self.boundary)}" if self.boundary else ""
        return f"Identification(rank={self.rank} of {size}, condition={self.condition:.1e}{ends})"


def identify(
    model: Model,
    q: Any,
    v: Any,
    tau: Any,
    times: Any,
    *,
    cutoff: float,
    friction: bool = False,
    prior: Any = None,
    prior_weight: float = 1.0,
    consistent: bool = True,
) -> Identification:
    """Inertial parameters pi, (N, 10), from a recording, without accelerations: W pi = L[tau].

    Parameters
    ----------
    model : the robot; its inertias matter only as the prior. Its armature is taken as known.
    q : (T, nq) configurations.
    v : (T, nv) velocities in the model's frame, rad/s and m/s.
    tau : (T, nv) all generalized forces besides gravity and friction, N m and N.
    times : (T,) increasing, s; the steps may differ.
    cutoff : of the low pass, Hz. Well above the frequencies of the motion, well below those of the noise.
    friction : whether every joint but free ones has viscous and Coulomb friction, which is identified, too.
    prior : (N, 10) parameters towards which the estimate is drawn; None takes the model's. Of a body that
        carries a heavy payload it has to contain one of about that size (`control.with_payload`): to be
        heavier than the prior costs in proportion to the ratio, and is weighed against the noise.
    prior_weight : g > 0; a prior that is believed to a relative error e has the weight 1 / e^2.
    consistent : whether every body's pseudo-inertia is to be positive definite. If not, the estimate is the
        least squares solution nearest to the prior.

    Each velocity's equations are weighted by the rms of their own residual. `standard_errors` are the
    spread of `base` in repeated recordings of one motion: by noise of torques, velocities and positions,
    white before the filter or correlated over less than ten of its time constants. They do not contain what
    is the same each time: the bias towards zero by noise of v, which is also in W, forces that the
    equations lack, and what the prior does to `parameters`. `boundary` names bodies that data alone would
    make impossible or singular: there the prior decides, however small its weight. Memory holds some six
    arrays of T nv 10 N numbers; of a long recording of a robot with many joints, give every second sample.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, ClosureError.
    TypeError : an argument is of another kind, or JAX traces it.
    ValueError : times do not increase; the recording is too short; cutoff or weight are not positive; the
        cutoff is above half the rate of the samples; there is neither motion nor weight.
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
    require_untraced(q=q, v=v, tau=tau, times=times, prior=prior)
    t, q, v, tau = _recording(model, q, v, tau, times)
    rate = 2.0 * np.pi * _positive("cutoff", cutoff)
    _require_long_enough(t, rate)
    weight = _positive("prior_weight", prior_weight)
    for name, value in (("friction", friction), ("consistent", consistent)):
        require_bool(name, value)
    pi_0 = _prior(model, prior, consistent)

    rubbing = _with_friction(model) if friction else np.zeros(0, dtype=int)
    W, y = _filtered(model, t, q, v, tau, rate, rubbing)
    if y.size < 2 * W.shape[-1]:
        what = f"{y.size} equations for {W.shape[-1]} unknowns"
        raise ValueError(f"times: {len(t)} samples are too few: {what}; at least twice as many are needed")
    start, units = np.concatenate([pi_0.reshape(-1), np.zeros(2 * len(rubbing))]), units_of(W, len(rubbing))
    sizes = sizes_of(W, units)  # torques do not count, so that B depends on the motion only
    R, c = triangle_of(W / sizes[:, None], y / sizes, start, units)
    B, own, condition = base_of(R, units)
    noise = _noise(W, y, start + units * nearest(R, c))
    A, b = W / noise[:, None], y / noise
    R, c = triangle_of(A, b, start, units)
    x = nearest(R, c)
    fit = start + units * x
    theta, pushed = fit, np.zeros(len(pi_0), dtype=bool)
    if consistent:
        x, pushed = central_point(R, c, pi_0, weight, units, x)
        theta = start + units * x

    coefficients = np.zeros((2, model.nv))
    coefficients[:, rubbing] = theta[pi_0.size :].reshape(2, -1)
    places = np.concatenate(
        [np.arange(pi_0.size), *(pi_0.size + k * model.nv + rubbing for k in range(2 * friction))]
    )
    combinations = np.zeros((len(B), pi_0.size + 2 * model.nv * friction))
    combinations[:, places] = B
    return Identification(
        prior=model,
        parameters=theta[: pi_0.size].reshape(-1, 10),
        viscous=coefficients[0],
        coulomb=coefficients[1],
        combinations=combinations,
        base=B @ fit,
        standard_errors=standard_errors(A[..., own], b - A @ fit, t, rate),
        residual=np.sqrt(np.mean((y - W @ theta) ** 2, axis=0)),
        condition=condition,
        boundary=tuple(name for name, ends in zip(model.body_names, pushed, strict=True) if ends),
    )


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


def _with_friction(model: Model) -> np.ndarray:
    """Numbers of the velocities that have friction."""
    tree = model.kinematics.tree
    kinds = dict(zip(tree.joint_names, tree.joints, strict=True))
    slices = [model.velocity_slice(name) for name in model.joint_names if not isinstance(kinds[name], Free)]
    return np.concatenate([np.zeros(0, dtype=int), *(np.arange(s.start, s.stop) for s in slices)])


# --- equations ---------------------------------------------------------------------------------------------


def _filtered(
    model: Model, t: np.ndarray, q: Any, v: Any, tau: Any, rate: float, rubbing: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """W with friction, (T, nv, p), and L[tau], (T, nv)."""
    Y_p, Y_e = momentum_regressor(model, q, v)
    rigid = rate * (Y_p - low_pass(t, Y_p, rate, Y_p[0])) - low_pass(t, Y_e, rate)
    W = np.zeros((*v.shape, rigid.shape[-1] + 2 * len(rubbing)))
    W[..., : rigid.shape[-1]] = rigid
    for k, x in enumerate((v, np.sign(v))):
        columns = rigid.shape[-1] + k * len(rubbing) + np.arange(len(rubbing))
        W[:, rubbing, columns] = low_pass(t, x[:, rubbing], rate, smooth=k == 0)
    y = low_pass(t, tau, rate)
    if model.kinematics.tree.armature.any():
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
