"""The recursions as functions of a model and NumPy arrays: H, C, Christoffel symbols, dynamics, regressor.

Arguments are arrays of real numbers with leading batch axes, which are broadcast together; q is (..., nq),
velocities and forces are (..., nv) in the model's frame. Results are float64 arrays, written to `out` if it
is given. Batches use several configurations per vector register and several threads (`set_num_threads`).

Every function raises `ShapeError` for arrays of the wrong size, `NonFiniteError` for a number that is NaN or
infinite, in an argument or in the result, `PointError` for a quaternion of norm other than one,
`ClosureError` if a loop does not close or is singular, and `TypeError` or `ValueError` for an `out` that is
not a C-contiguous, writeable float64 array; `forward_dynamics` and `inverse_mass_matrix` raise `MetricError`
if H is singular. With the body-level factor ``"christoffel"``, [W] (21), C and Gamma belong to the
Levi-Civita connection, which has no torsion. With ``"force_cross"``, (v x*) I, [E] (11), they belong to a
connection with the same geodesics and totally antisymmetric torsion. So does ``"least"``: of all connections
with the same C v and Hdot = C + C^T, that whose Gamma is the least in the model's frame.

The sections about arguments and errors are added to docstrings, from the names of the arguments and the table
of the recursions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from inspect import Signature, cleandoc, signature
from typing import Any, ParamSpec, TypeVar

import numpy as np

from connections._jax import ArrayLike
from connections.checks import (
    as_array,
    batch_axes,
    is_traced,
    require_bool,
    require_choice,
    require_finite,
    require_mapping,
)
from connections.multibody.definition.frames import AXES
from connections.multibody.model import Model, close_loops, require_model
from connections.multibody.program.calls import Call
from connections.multibody.program.closed import SolvedLoops
from connections.multibody.program.table import RECURSIONS
from connections.multibody.traced_model import TracedModel

BODY = AXES[0]  # of wrenches
P = ParamSpec("P")
R = TypeVar("R")
_ARGUMENTS = {
    "model": "the robot.",
    "q": "(..., nq) configurations, or `SolvedLoops`, whose loops are solved.",
    "v": "(..., nv) velocities in the model's frame, rad/s and m/s.",
    "w": "(..., nv) vectors in the model's frame, in the units of v; of Hessian products the weights.",
    "a": "(..., nv) accelerations vdot, rad/s^2 and m/s^2.",
    "tau": "(..., nv) generalized forces, N m and N.",
    "v_r": "(..., nv) reference velocities, rad/s and m/s.",
    "a_r": "(..., nv) reference accelerations, rad/s^2 and m/s^2.",
    "body_factor": '``"christoffel"``: the Levi-Civita connection; ``"force_cross"``: one with torsion; '
    '``"least"``: the one with the least Gamma in the model\'s frame.',
    "frame": "the name of a frame, one of ``model.frame_names``.",
    "axes": '``"body"``: components in the axes of the frame; ``"world"``: in those of the world.',
    "passive": "whether `Model.passive_forces` act, too: springs, dampers, friction, lift.",
    "wrenches": "{frame: (..., 6)} wrenches [n; f] on frames from outside, about their origins, N m and N.",
    "out": "the array to fill.",
}
_ERRORS = {
    "ShapeError": "an array has the wrong size.",
    "NonFiniteError": "a number is NaN or infinite, in an argument or in the result.",
    "PointError": "the norm of a quaternion in q is not one.",
    "ClosureError": "a loop does not close at q, or is singular there.",
    "ValueError, TypeError": "an argument of another kind; `out` is no writeable C-contiguous array.",
}
_SINGULAR = {"MetricError": "H is singular."}
_TRACED = "Where JAX traces an argument, the result is NaN instead of an error about numbers."


def recursion_of(model: Model, name: str) -> Call:
    """The call of a recursion of a model: ``(q, vectors..., choice, out)`` -> the result.

    Without a choice, that is ().

    Raises
    ------
    TypeError : it is no model.
    """
    try:
        return model.program.functions[name]
    except AttributeError:
        require_model(name, model)
        raise


def documented(function: Callable[P, R]) -> Callable[P, R]:
    """The function with sections about arguments, before its own sections, errors, and an example."""
    if function.__doc__ is None:  # python -OO
        return function
    declared, name = cleandoc(function.__doc__), function.__name__
    summary, rest = re.split(r"^(?=Returns$|Source: )", declared, maxsplit=1, flags=re.MULTILINE)
    returns, source = re.split(r"^(?=Source: )", rest, flags=re.MULTILINE)
    arguments = "".join(
        f"{argument} : {_ARGUMENTS[argument]}\n" for argument in signature(function).parameters
    )
    inverse = name in RECURSIONS and RECURSIONS[name].inverse
    errors = "".join(
        f"{error} : {why}\n" for error, why in (_ERRORS | (_SINGULAR if inverse else {})).items()
    )
    function.__doc__ = (
        f"{summary}Parameters\n----------\n{arguments}\n{returns}"
        f"Raises\n------\n{errors}\n{_TRACED}\n\n{_example(name, function)}{source}"
    )
    return function


def _example(name: str, function: Callable[P, R]) -> str:
    """The section with an example: the shape of the result for an arm of six joints and six bodies."""
    values = {"model": "robot", "q": "q", "frame": '"tool"'}
    required = [
        key for key, value in signature(function).parameters.items() if value.default is Signature.empty
    ]
    room = "mb.curvatures" if "curvature" in name else "mb"
    call = f"{room}.{name}({', '.join(values.get(key, 'v') for key in required)})"
    shape = RECURSIONS[name].core(6, 6)
    if "tuple" in str(signature(function).return_annotation):  # matrices, one by one
        shown = f">>> [matrix.shape for matrix in {call}]\n{[shape[1:]] * shape[0]}"
    else:
        shown = f">>> {call}.shape\n{shape}"
    start = '>>> from connections import multibody as mb\n>>> robot = mb.example("arm")'
    return f"Examples\n--------\n{start}\n>>> q, v = robot.neutral(), [1.0] * 6\n{shown}\n\n"


def matrices_of(stacked: np.ndarray) -> Any:
    """The matrices (..., n, n) of a stack (..., k, n, n), a tuple."""
    if stacked.ndim == 3:  # without Ellipsis, which takes a microsecond; an iterator takes a third of one
        return (stacked[0], stacked[1], stacked[2]) if len(stacked) == 3 else tuple(stacked)
    return tuple(stacked[..., k, :, :] for k in range(stacked.shape[-3]))


def tensors_of(stacked: np.ndarray) -> tuple[np.ndarray, ...]:
    """The arrays (..., n, n, n) of a stack (..., k, n, n, n), a tuple."""
    return tuple(stacked[..., k, :, :, :] for k in range(stacked.shape[-4]))


def with_forces(
    model: Any, q: Any, v: Any, passive: Any, wrenches: Any = None, axes: str = "body"
) -> tuple[Any, Any]:
    """q, with its loops solved once, and the passive and external forces (..., nv).

    Raises
    ------
    TypeError : `passive` is no bool, `wrenches` no mapping. ModelError : the description has passive forces
        that are not computed, or there is no frame. ShapeError, NonFiniteError : of a wrench.
    """
    require_bool("passive", passive)
    require_choice("axes", axes, AXES)
    q = closed_once(model, q)
    force = model.passive_forces(q, v) if passive else np.zeros(model.nv)
    if wrenches is not None:
        require_mapping("wrenches", wrenches, "{frame: [n; f] (6,)}")
        for frame, wrench in wrenches.items():
            what = f"wrenches: frame {frame!r}"
            w = as_array(what, wrench, (6,))
            require_finite(what, w)
            J = frame_jacobian(model, q, frame, axes=axes)
            batch_axes(("q", what), (J[..., 0, :], w))
            force = joined("q, v and wrenches", force, what, product(np.swapaxes(J, -1, -2), w))
    return q, force


def joined(name: str, vectors: Any, other: str, more: Any) -> Any:
    """The sum of vectors (..., nv); `ShapeError` with both names if batch axes do not broadcast together."""
    batch_axes((name, other), (vectors, more))
    return vectors + more


def structure_of(model: Any) -> Any:
    """The model; of one whose numbers are data, that of its joints."""
    return model.structure if isinstance(model, TracedModel) else model


def closed_once(model: Any, q: Any) -> Any:
    """q with its loops solved, unless JAX traces it, or where joints are."""
    structure = structure_of(model)
    if not structure.closed or is_traced(q) or model.kinematics is not structure.kinematics:
        return q
    return close_loops(structure, q)


def product(matrix: Any, vector: Any) -> Any:
    """Matrices (..., m, n) times vectors (..., n)."""
    return (matrix @ vector[..., None])[..., 0]


def plus(found: Any, more: Any) -> Any:
    """The sum, in the memory of the first if it is NumPy's."""
    if isinstance(found, np.ndarray):
        found += more
        return found
    return found + more


@documented
def mass_matrix(model: Model, q: ArrayLike | SolvedLoops, *, out: Any = None) -> np.ndarray:
    """H(q), (..., nv, nv): kinetic energy is v^T H v / 2, in kg, kg m and kg m^2.

    Source: [W] Algorithm 1, [E] Algorithm 1 (its diagonal blocks included).
    """
    try:
        return model.program.functions["mass_matrix"](q, (), out)
    except AttributeError:
        require_model("mass_matrix", model)
        raise


@documented
def coriolis_matrix(
    model: Model,
    q: ArrayLike | SolvedLoops,
    v: ArrayLike,
    *,
    body_factor: str = "christoffel",
    out: Any = None,
) -> np.ndarray:
    """C(q, v), (..., nv, nv), C_ik = Gamma_ijk v^j: H vdot + C v + g = tau and Hdot = C + C^T.

    With ``"least"``, Gamma is Gamma* - Alt Gamma*: of all Gamma with this C v and Hdot = C + C^T, it has the
    least norm in every inner product of velocities. It is a minimum over what a program computes with, in
    the model's frame, and depends on that: in coordinates, as of an arm of hinges, it is Christoffel's; with
    spherical joints or a floating base, whose velocities are in body axes, it has torsion.

    Source: [W] Algorithm 1, [E] Algorithm 1.
    """
    try:
        return model.program.functions["coriolis_matrix"](q, v, body_factor, out)
    except AttributeError:
        require_model("coriolis_matrix", model)
        raise


@documented
def mass_matrix_rate(
    model: Model, q: ArrayLike | SolvedLoops, v: ArrayLike, *, out: Any = None
) -> np.ndarray:
    """Hdot = C + C^T, (..., nv, nv): the derivative of H along v.

    Source: [E] Algorithm 1 (its diagonal blocks included).
    """
    try:
        return model.program.functions["mass_matrix_rate"](q, v, (), out)
    except AttributeError:
        require_model("mass_matrix_rate", model)
        raise


@documented
def christoffel_symbols(
    model: Model, q: ArrayLike | SolvedLoops, *, body_factor: str = "christoffel", out: Any = None
) -> np.ndarray:
    """Gamma_low[i, j, k] = <<X_i, nabla_X_j X_k>>, (..., nv, nv, nv); j: direction.

    Source: [W] Algorithm 2, [E] Algorithm 2.
    """
    try:
        return model.program.functions["christoffel_symbols"](q, body_factor, out)
    except AttributeError:
        require_model("christoffel_symbols", model)
        raise


@documented
def coriolis_product(
    model: Model,
    q: ArrayLike | SolvedLoops,
    v: ArrayLike,
    w: ArrayLike,
    *,
    body_factor: str = "christoffel",
    out: Any = None,
) -> np.ndarray:
    """C(q, v) w, (..., nv), in O(N): C is never formed.

    Source: [W] (20).
    """
    try:
        return model.program.functions["coriolis_product"](q, v, w, body_factor, out)
    except AttributeError:
        require_model("coriolis_product", model)
        raise


@documented
def coriolis_transpose_product(
    model: Model,
    q: ArrayLike | SolvedLoops,
    v: ArrayLike,
    w: ArrayLike,
    *,
    body_factor: str = "christoffel",
    out: Any = None,
) -> np.ndarray:
    """C(q, v)^T w, (..., nv), in O(N): what a momentum observer needs.

    Source: [W] II and (20).
    """
    try:
        return model.program.functions["coriolis_transpose_product"](q, v, w, body_factor, out)
    except AttributeError:
        require_model("coriolis_transpose_product", model)
        raise


@documented
def inverse_dynamics(
    model: Model,
    q: ArrayLike | SolvedLoops,
    v: ArrayLike,
    a: ArrayLike,
    *,
    passive: bool = False,
    wrenches: Mapping[str, Any] | None = None,
    axes: str = BODY,
    out: Any = None,
) -> np.ndarray:
    """tau = H a + C v + g, (..., nv), N m and N, less passive forces and the J^T w of wrenches w.

    Source: [E] (15) to (18).
    """
    try:
        if passive is not False or wrenches is not None or axes is not BODY:
            q, force = with_forces(model, q, v, passive, wrenches, axes)
            a = joined("a", as_array("a", a, (model.nv,)), "forces", np.zeros(np.shape(force)))
            found: np.ndarray = plus(model.program.functions["inverse_dynamics"](q, v, a, (), out), -force)
            return found
        return model.program.functions["inverse_dynamics"](q, v, a, (), out)
    except AttributeError:
        require_model("inverse_dynamics", model)
        raise


@documented
def nonlinear_effects(
    model: Model, q: ArrayLike | SolvedLoops, v: ArrayLike, *, out: Any = None
) -> np.ndarray:
    """C v + g, (..., nv), N m and N: the forces under which vdot = 0.

    Source: [E] (15) to (18).
    """
    try:
        return model.program.functions["nonlinear_effects"](q, v, (), out)
    except AttributeError:
        require_model("nonlinear_effects", model)
        raise


@documented
def gravity(model: Model, q: ArrayLike | SolvedLoops, *, out: Any = None) -> np.ndarray:
    """g(q), (..., nv), N m and N: the derivative of the potential energy along the frame.

    Source: [E] (1).
    """
    try:
        return model.program.functions["gravity"](q, (), out)
    except AttributeError:
        require_model("gravity", model)
        raise


@documented
def forward_dynamics(
    model: Model,
    q: ArrayLike | SolvedLoops,
    v: ArrayLike,
    tau: ArrayLike,
    *,
    passive: bool = False,
    wrenches: Mapping[str, Any] | None = None,
    axes: str = BODY,
    out: Any = None,
) -> np.ndarray:
    """vdot = H^-1 (tau - C v - g), (..., nv); passive forces and the J^T w of wrenches w add to tau.

    Source: Featherstone, Rigid Body Dynamics Algorithms, chapter 7.
    """
    try:
        if passive is not False or wrenches is not None or axes is not BODY:
            q, force = with_forces(model, q, v, passive, wrenches, axes)
            tau = joined("tau", as_array("tau", tau, (model.nv,)), "forces", force)
        return model.program.functions["forward_dynamics"](q, v, tau, (), out)
    except AttributeError:
        require_model("forward_dynamics", model)
        raise


@documented
def inverse_mass_matrix(model: Model, q: ArrayLike | SolvedLoops, *, out: Any = None) -> np.ndarray:
    """H(q)^-1, (..., nv, nv).

    Source: Featherstone, Rigid Body Dynamics Algorithms, chapter 6.
    """
    try:
        return model.program.functions["inverse_mass_matrix"](q, (), out)
    except AttributeError:
        require_model("inverse_mass_matrix", model)
        raise


@documented
def regressor(
    model: Model, q: ArrayLike | SolvedLoops, v: ArrayLike, v_r: ArrayLike, a_r: ArrayLike, *, out: Any = None
) -> np.ndarray:
    """Y, (..., nv, 10 N), with Y pi = H a_r + C v_r + g for the Levi-Civita C(q, v).

    pi stacks, for every body in the order of ``model.body_names``, mass, first moment h (3), and Ixx, Ixy,
    Iyy, Ixz, Iyz, Izz about the origin of the body's frame, in its axes (kg, kg m, kg m^2). Armature is not
    among them: Y pi is the force without it.

    Source: [W] IV-A; Slotine and Li 1987.
    """
    try:
        return model.program.functions["regressor"](q, v, v_r, a_r, (), out)
    except AttributeError:
        require_model("regressor", model)
        raise


@documented
def momentum_regressor(
    model: Model, q: ArrayLike | SolvedLoops, v: ArrayLike, *, out: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Y_p and Y_e, (..., nv, 10 N) each, with Y_p pi = H v and Y_e pi = C^T v - g; pi as in `regressor`.

    So d/dt (Y_p pi) = tau + Y_e pi: integrals of measured torques identify pi, without accelerations. Of a
    robot with armature, Y_p pi and Y_e pi are those without it.

    They are views of one array (..., 2, nv, 10 N), which is `out` if that is given.

    Returns
    -------
    Y_p : the momentum, for each parameter: kg m^2/s and kg m/s per unit of pi.
    Y_e : the rate of the momentum without the forces tau: N m and N per unit of pi.

    Source: [W] II and (20); Hsu, Bodson, Sastry and Paden 1987 for identification without accelerations.
    """
    Y_p, Y_e = matrices_of(recursion_of(model, "momentum_regressor")(q, v, (), out))
    return Y_p, Y_e


@documented
def coriolis_matrix_rate(
    model: Model,
    q: ArrayLike | SolvedLoops,
    v: ArrayLike,
    a: ArrayLike,
    *,
    body_factor: str = "christoffel",
    out: Any = None,
) -> np.ndarray:
    """d/dt C(q, v) along a motion, (..., nv, nv), in the units of C per s, in O(N d): C is not formed.

    The motion has velocity v and acceleration a = vdot at q.

    Source: [W] Algorithm 1, differentiated along the motion.
    """
    try:
        return model.program.functions["coriolis_matrix_rate"](q, v, a, body_factor, out)
    except AttributeError:
        require_model("coriolis_matrix_rate", model)
        raise


@documented
def christoffel_derivatives(
    model: Model, q: ArrayLike | SolvedLoops, *, body_factor: str = "christoffel", out: Any = None
) -> np.ndarray:
    """L_l Gamma_low[i, j, k], (..., nv, nv, nv, nv), l last: derivatives of `christoffel_symbols` along X_l.

    Source: [W] Algorithm 2, differentiated along the frame.
    """
    try:
        return model.program.functions["christoffel_derivatives"](q, body_factor, out)
    except AttributeError:
        require_model("christoffel_derivatives", model)
        raise


@documented
def curvature(model: Model, q: ArrayLike | SolvedLoops, *, out: Any = None) -> np.ndarray:
    """R[i, j, k, l] = <<R(X_k, X_l) X_j, X_i>>, (..., nv, nv, nv, nv): the curvature of the metric H.

    It is that of the Levi-Civita connection, with the first index lowered by H.

    Source: [W] (8); the formula is derived in docs/curvature.md.
    """
    try:
        return model.program.functions["curvature"](q, (), out)
    except AttributeError:
        require_model("curvature", model)
        raise


@documented
def curvature_operator(
    model: Model, q: ArrayLike | SolvedLoops, v: ArrayLike, *, out: Any = None
) -> np.ndarray:
    """K, (..., nv, nv), symmetric: a^T K b = <<R(a, v) v, b>>, in the units of H times 1/s^2.

    R is the curvature of the Levi-Civita connection of H, not formed here. The difference eta of two
    neighbouring free motions satisfies D_t^2 eta = -H^-1 K eta. K v = 0.

    Source: [W] (8) and (10); [B] Tables 5 and 7; the formula is derived in docs/curvature.md.
    """
    try:
        return model.program.functions["curvature_operator"](q, v, (), out)
    except AttributeError:
        require_model("curvature_operator", model)
        raise


@documented
def forward_kinematics(model: Model, q: ArrayLike | SolvedLoops, *, out: Any = None) -> np.ndarray:
    """Poses of all bodies, (..., N, 4, 4): homogeneous transforms in the world, m.

    Bodies are in the order of ``model.body_names``; `frame_pose` is for links that are merged into them.

    Source: [W] VI-B.
    """
    try:
        return model.program.functions["forward_kinematics"](q, (), out)
    except AttributeError:
        require_model("forward_kinematics", model)
        raise


@documented
def body_jacobians(model: Model, q: ArrayLike | SolvedLoops, *, out: Any = None) -> np.ndarray:
    """A = X Phi, (..., 6N, nv): twists [omega; v] of all bodies, in body axes, are A v, rad/s and m/s.

    Bodies are stacked in the order of ``model.body_names``.

    Source: [W] VI-B.
    """
    try:
        return model.program.functions["body_jacobians"](q, (), out)
    except AttributeError:
        require_model("body_jacobians", model)
        raise


@documented
def frame_pose(model: Model, q: ArrayLike | SolvedLoops, frame: str, *, out: Any = None) -> np.ndarray:
    """The pose of a frame, (..., 4, 4): its homogeneous transform in the world, m.

    Source: [W] VI-B.
    """
    try:
        return model.program.functions["frame_pose"](q, frame, out)
    except AttributeError:
        require_model("frame_pose", model)
        raise


@documented
def frame_jacobian(
    model: Model, q: ArrayLike | SolvedLoops, frame: str, *, axes: str = "body", out: Any = None
) -> np.ndarray:
    """J, (..., 6, nv): the twist [omega; velocity of its origin] of a frame is J v, rad/s and m/s.

    Source: [W] VI-B.
    """
    try:
        return model.program.functions["frame_jacobian"](q, (frame, axes), out)
    except AttributeError:
        require_model("frame_jacobian", model)
        raise


@documented
def frame_jacobian_rate(
    model: Model, q: ArrayLike | SolvedLoops, v: ArrayLike, frame: str, *, axes: str = "body", out: Any = None
) -> np.ndarray:
    """Jdot, (..., 6, nv): the derivative of `frame_jacobian` along v; a twist's rate is J vdot + Jdot v.

    In world axes, the lower half of J vdot + Jdot v is the acceleration of the frame's origin, m/s^2.

    Source: [W] VI-B and (20).
    """
    try:
        return model.program.functions["frame_jacobian_rate"](q, v, (frame, axes), out)
    except AttributeError:
        require_model("frame_jacobian_rate", model)
        raise


@documented
def center_of_mass(model: Model, q: ArrayLike | SolvedLoops, *, out: Any = None) -> np.ndarray:
    """The centre of mass of all bodies that move, (..., 3), in the world, m.

    Source: Featherstone, Rigid Body Dynamics Algorithms, chapter 2.
    """
    try:
        return model.program.functions["center_of_mass"](q, (), out)
    except AttributeError:
        require_model("center_of_mass", model)
        raise


@documented
def center_of_mass_jacobian(model: Model, q: ArrayLike | SolvedLoops, *, out: Any = None) -> np.ndarray:
    """J, (..., 3, nv): the velocity of the centre of mass in world axes is J v, m/s.

    Source: Featherstone, Rigid Body Dynamics Algorithms, chapter 2.
    """
    try:
        return model.program.functions["center_of_mass_jacobian"](q, (), out)
    except AttributeError:
        require_model("center_of_mass_jacobian", model)
        raise
