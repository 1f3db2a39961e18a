"""Left-invariant metrics of Lie groups: constant in a frame of left-invariant fields.

Their geodesics satisfy the equations of Euler and Poincare, and stay geodesics if the group moves them:

    H vdot = ad_v^T H v,    (ad_v)^k_j = s^k_ij v^i,    qdot = X(q) v.

Source: V. I. Arnold, Mathematical Methods of Classical Mechanics (1989), appendix 2; H. Poincare, Sur une
forme nouvelle des equations de la mecanique (1901).
"""

from __future__ import annotations

from typing import Any

from connections.checks import as_array, require_finite, require_type
from connections.geometry.coordinate_frame import CoordinateFrame
from connections.geometry.frames import FrameField
from connections.geometry.groups import SE2Frame, SE3Frame, SO3Frame
from connections.geometry.matrix_group import MatrixLieGroup
from connections.geometry.metrics import ConstantMetric
from connections.geometry.products import ProductFrame


def LeftInvariantMetric(group: FrameField, inertia: Any) -> ConstantMetric:
    """The left-invariant metric of a Lie group: H_ij = <E_i, E_j>, constant in the left-invariant frame.

    Motions of `LeviCivita` of it are those of Euler and Poincare: H vdot = ad_v^T H v, qdot = X(q) v. It is
    `ConstantMetric` in a frame that is checked to be left-invariant.

    Parameters
    ----------
    group : `MatrixLieGroup`, `SO2Frame`, `SO3Frame`, `SE2Frame`, `SE3Frame`, `CoordinateFrame` for R^n under
        addition, or a `ProductFrame` of such.
    inertia : (n, n) the inner product of the algebra, symmetric positive definite, in the units of v.

    Raises
    ------
    TypeError : the frame is no group's, or right-invariant. ShapeError, NonFiniteError, MetricError.

    Examples
    --------
    Euler's equations: a body that turns about two axes accelerates about the third.

    >>> import numpy as np
    >>> import connections as cn
    >>> top = cn.LeftInvariantMetric(cn.SO3Frame(), np.diag([1.0, 2.0, 4.0]))
    >>> q, omega = [0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 0.0]
    >>> -cn.LeviCivita(top).apply(q, omega, omega)  # the acceleration (I_1 - I_2) / I_3 of omega_3
    array([-0.  , -0.  , -0.25])

    Source: the text of the module.
    """
    require_type("group", group, FrameField, "write LeftInvariantMetric(SO3Frame(), inertia)")
    _require_left_invariant("group", group)
    inertia = as_array("inertia", inertia, (group.dim, group.dim))
    require_finite("inertia", inertia)
    return ConstantMetric(group, inertia)


def _require_left_invariant(name: str, group: FrameField) -> None:
    if isinstance(group, ProductFrame):
        for number, factor in enumerate(group.frames):
            _require_left_invariant(f"{name}.frames[{number}]", factor)
        return
    if isinstance(group, MatrixLieGroup):
        if group.invariant != "left":
            raise TypeError(
                f"{name}: its frame is right-invariant; write MatrixLieGroup(basis), or "
                "ConstantMetric(group, H) for the right-invariant metric"
            )
        return
    if not isinstance(group, SO3Frame | SE2Frame | SE3Frame | CoordinateFrame):
        raise TypeError(
            f"{name}: expected the frame of a Lie group, got {type(group).__name__}; "
            "write MatrixLieGroup(basis)"
        )
