"""The audit of a Coriolis matrix from any source for a robot: which connection it belongs to."""

from __future__ import annotations

from connections._jax import ArrayLike
from connections.checks import require_function
from connections.coriolis import AuditReport
from connections.coriolis import audit_coriolis as audit_black_boxes
from connections.coriolis.audit.measurements import BlackBoxCoriolis
from connections.coriolis.of_robots import register
from connections.multibody.functions import coriolis_matrix, mass_matrix
from connections.multibody.model import Model, require_model
from connections.multibody.traced_model import TracedModel


def audit_coriolis(model: Model, coriolis: BlackBoxCoriolis, q: ArrayLike, v: ArrayLike) -> AuditReport:
    """Audit a robot's Coriolis matrix from any source, by its contorsion D_ijk = Gamma*_ijk - Gamma_ijk.

    Parameters
    ----------
    model : the robot; its mass matrix is computed by recursion, v are components in its frame.
    coriolis : (q (nq,), v (nv,)) -> C (nv, nv); any function of NumPy arrays, called with one point at a
        time. Rows and columns are in the order of the model's velocities: [omega; v] for a floating base.
    q : (m, nq) sample configurations, or (nq,).
    v : (m, nv) sample velocities, or (nv,), none of them zero.

    Returns
    -------
    AuditReport, as by `connections.audit_coriolis`, which takes a robot, too.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, ValueError : see `connections.audit_coriolis`.
    MetricError : the robot's mass matrix is not positive definite at a sample.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> robot, rng = mb.example("arm"), np.random.default_rng(0)
    >>> def theirs(q, v):
    ...     return mb.coriolis_matrix(robot, q, v, body_factor="force_cross")
    ...
    >>> q, v = rng.uniform(-1.0, 1.0, (2, 3, 6))
    >>> str(mb.audit_coriolis(robot, theirs, q, v)).splitlines()[-1][:55]
    'Admissible, with torsion: D is totally antisymmetric, b'

    Source: [W] Props. III.1, III.2, IV.1, IV.2, Cor. III.1, eq. (12).
    """
    require_model("audit_coriolis", model)
    require_function("coriolis", coriolis, "(q, v) -> C (nv, nv)")
    return audit_black_boxes(coriolis, lambda point: mass_matrix(model, point), model.frame, q, v)


# `connections.coriolis_matrix` and `connections.audit_coriolis` hand robots over to these.
register(Model, coriolis_matrix=coriolis_matrix, audit_coriolis=audit_coriolis)
register(TracedModel, coriolis_matrix=coriolis_matrix)
