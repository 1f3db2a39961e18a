"""The recursions as functions of a model and NumPy arrays: H, C, Christoffel symbols, dynamics, regressor.

Arguments are arrays of real numbers with leading batch axes, which are broadcast together; q is (..., nq),
velocities and forces are (..., nv) in the model's frame. Results are float64 arrays, written to `out` if it
is given. Batches use several configurations per vector register and several threads (`set_num_threads`).

Every function raises `ShapeError` for arrays of the wrong size, `NonFiniteError` for a number that is NaN or
infinite, `PointError` for a quaternion of norm other than one, `ClosureError` if a loop does not close or is
singular, and `TypeError` or `ValueError` for an `out` that is not a C-contiguous, writeable float64 array;
`forward_dynamics` and `inverse_mass_matrix` raise `MetricError` if H is singular. With the body-level factor
``"christoffel"``, [W] (21), C and Gamma belong to the Levi-Civita connection, which has no torsion. With
``"force_cross"``, (v x*) I, [E] (11), they belong to a connection with the same geodesics and totally
antisymmetric torsion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from connections.multibody.wrong_arguments import raise_no_model

if TYPE_CHECKING:
    from connections.multibody.model import Model


def mass_matrix(model: Model, q: Any, *, out: Any = None) -> np.ndarray:
    """H(q), (..., nv, nv): kinetic energy is v^T H v / 2, in kg, kg m and kg m^2.

    Parameters
    ----------
    model : the robot.
    q : (..., nq) configurations.
    out : the array to fill.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, ValueError, TypeError : see the module.

    Source: [W] Algorithm 1, [E] Algorithm 1 (its diagonal blocks included).
    """
    try:
        recursion = model.program.functions["mass_matrix"]
    except AttributeError as error:
        raise_no_model("mass_matrix", model, error)
    return recursion(q, out)


def coriolis_matrix(
    model: Model, q: Any, v: Any, *, body_factor: str = "christoffel", out: Any = None
) -> np.ndarray:
    """C(q, v), (..., nv, nv), C_ik = Gamma_ijk v^j: H vdot + C v + g = tau and Hdot = C + C^T.

    Parameters
    ----------
    model : the robot.
    q : (..., nq) configurations.
    v : (..., nv) velocities in the model's frame, rad/s and m/s.
    body_factor : ``"christoffel"``: of the Levi-Civita connection; ``"force_cross"``: of one with torsion.
    out : the array to fill.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, ValueError, TypeError : see the module.

    Source: [W] Algorithm 1, [E] Algorithm 1.
    """
    try:
        recursion = model.program.functions["coriolis_matrix"]
    except AttributeError as error:
        raise_no_model("coriolis_matrix", model, error)
    return recursion(q, v, body_factor, out)


def mass_matrix_rate(model: Model, q: Any, v: Any, *, out: Any = None) -> np.ndarray:
    """Hdot = C + C^T, (..., nv, nv): the derivative of H along v.

    Parameters
    ----------
    model : the robot.
    q : (..., nq) configurations.
    v : (..., nv) velocities in the model's frame, rad/s and m/s.
    out : the array to fill.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, ValueError, TypeError : see the module.

    Source: [E] Algorithm 1 (its diagonal blocks included).
    """
    try:
        recursion = model.program.functions["mass_matrix_rate"]
    except AttributeError as error:
        raise_no_model("mass_matrix_rate", model, error)
    return recursion(q, v, out)


def christoffel_symbols(
    model: Model, q: Any, *, body_factor: str = "christoffel", out: Any = None
) -> np.ndarray:
    """Gamma_low[i, j, k] = <<X_i, nabla_X_j X_k>>, (..., nv, nv, nv); j: direction.

    Parameters
    ----------
    model : the robot.
    q : (..., nq) configurations.
    body_factor : ``"christoffel"``: of the Levi-Civita connection; ``"force_cross"``: of one with torsion.
    out : the array to fill.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, ValueError, TypeError : see the module.

    Source: [W] Algorithm 2, [E] Algorithm 2.
    """
    try:
        recursion = model.program.functions["christoffel_symbols"]
    except AttributeError as error:
        raise_no_model("christoffel_symbols", model, error)
    return recursion(q, body_factor, out)


def coriolis_product(
    model: Model, q: Any, v: Any, w: Any, *, body_factor: str = "christoffel", out: Any = None
) -> np.ndarray:
    """C(q, v) w, (..., nv), in O(N): C is never formed.

    Parameters
    ----------
    model : the robot.
    q : (..., nq) configurations.
    v : (..., nv) velocities in the model's frame, rad/s and m/s.
    w : (..., nv) vectors in the model's frame, in the units of v.
    body_factor : ``"christoffel"``: of the Levi-Civita connection; ``"force_cross"``: of one with torsion.
    out : the array to fill.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, ValueError, TypeError : see the module.

    Source: [W] (20).
    """
    try:
        recursion = model.program.functions["coriolis_product"]
    except AttributeError as error:
        raise_no_model("coriolis_product", model, error)
    return recursion(q, v, w, body_factor, out)


def coriolis_transpose_product(
    model: Model, q: Any, v: Any, w: Any, *, body_factor: str = "christoffel", out: Any = None
) -> np.ndarray:
    """C(q, v)^T w, (..., nv), in O(N): what a momentum observer needs.

    Parameters
    ----------
    model : the robot.
    q : (..., nq) configurations.
    v : (..., nv) velocities in the model's frame, rad/s and m/s.
    w : (..., nv) vectors in the model's frame, in the units of v.
    body_factor : ``"christoffel"``: of the Levi-Civita connection; ``"force_cross"``: of one with torsion.
    out : the array to fill.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, ValueError, TypeError : see the module.

    Source: [W] II and (20).
    """
    try:
        recursion = model.program.functions["coriolis_transpose_product"]
    except AttributeError as error:
        raise_no_model("coriolis_transpose_product", model, error)
    return recursion(q, v, w, body_factor, out)


def inverse_dynamics(model: Model, q: Any, v: Any, a: Any, *, out: Any = None) -> np.ndarray:
    """tau = H a + C v + g, (..., nv), N m and N.

    Parameters
    ----------
    model : the robot.
    q : (..., nq) configurations.
    v : (..., nv) velocities in the model's frame, rad/s and m/s.
    a : (..., nv) accelerations vdot, rad/s^2 and m/s^2.
    out : the array to fill.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, ValueError, TypeError : see the module.

    Source: [E] (15) to (18).
    """
    try:
        recursion = model.program.functions["inverse_dynamics"]
    except AttributeError as error:
        raise_no_model("inverse_dynamics", model, error)
    return recursion(q, v, a, out)


def gravity(model: Model, q: Any, *, out: Any = None) -> np.ndarray:
    """g(q), (..., nv), N m and N: the derivative of the potential energy along the frame.

    Parameters
    ----------
    model : the robot.
    q : (..., nq) configurations.
    out : the array to fill.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, ValueError, TypeError : see the module.

    Source: [E] (1).
    """
    try:
        recursion = model.program.functions["gravity"]
    except AttributeError as error:
        raise_no_model("gravity", model, error)
    return recursion(q, out)


def forward_dynamics(model: Model, q: Any, v: Any, tau: Any, *, out: Any = None) -> np.ndarray:
    """vdot = H^-1 (tau - C v - g), (..., nv).

    Parameters
    ----------
    model : the robot.
    q : (..., nq) configurations.
    v : (..., nv) velocities in the model's frame, rad/s and m/s.
    tau : (..., nv) generalized forces, N m and N.
    out : the array to fill.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, MetricError, ValueError, TypeError : see the module.

    Source: Featherstone, Rigid Body Dynamics Algorithms, chapter 7.
    """
    try:
        recursion = model.program.functions["forward_dynamics"]
    except AttributeError as error:
        raise_no_model("forward_dynamics", model, error)
    return recursion(q, v, tau, out)


def inverse_mass_matrix(model: Model, q: Any, *, out: Any = None) -> np.ndarray:
    """H(q)^-1, (..., nv, nv).

    Parameters
    ----------
    model : the robot.
    q : (..., nq) configurations.
    out : the array to fill.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, MetricError, ValueError, TypeError : see the module.

    Source: Featherstone, Rigid Body Dynamics Algorithms, chapter 6.
    """
    try:
        recursion = model.program.functions["inverse_mass_matrix"]
    except AttributeError as error:
        raise_no_model("inverse_mass_matrix", model, error)
    return recursion(q, out)


def regressor(model: Model, q: Any, v: Any, v_r: Any, a_r: Any, *, out: Any = None) -> np.ndarray:
    """Y, (..., nv, 10 N), with Y pi = H a_r + C v_r + g for the Levi-Civita C(q, v).

    pi stacks, for every body in the order of ``model.body_names``, mass, first moment h (3), and Ixx, Ixy,
    Iyy, Ixz, Iyz, Izz about the origin of the body's frame, in its axes (kg, kg m, kg m^2).

    Parameters
    ----------
    model : the robot.
    q : (..., nq) configurations.
    v : (..., nv) velocities in the model's frame, rad/s and m/s.
    v_r : (..., nv) reference velocities, rad/s and m/s.
    a_r : (..., nv) reference accelerations, rad/s^2 and m/s^2.
    out : the array to fill.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, ValueError, TypeError : see the module.

    Source: [W] IV-A; Slotine and Li 1987.
    """
    try:
        recursion = model.program.functions["regressor"]
    except AttributeError as error:
        raise_no_model("regressor", model, error)
    return recursion(q, v, v_r, a_r, out)
