"""Which quantities of closed chains are known, and which are refused, where float64 has lost their digits.

At a pivot d of K_d (`tolerances`) loops that are closed in float64 leave errors of about 1e-16 / d in poses,
and each of G, its derivative LG and the derivative of that divides by d once more. So poses are known nearer
to a singular posture than H, H than C, and C than its derivatives. A quantity is refused where its error is
above `WORST`. Loops with more digits (`kernels/loop_refinement.py`) lose none. Source: Higham, Accuracy and
Stability of Numerical Algorithms, section 1.6.
"""

from __future__ import annotations

WORST = 1e-6  # the error of what is not refused, relative to the size of its terms
ROUND_OFF = 2e-16

_OF_POSES = ("forward_kinematics", "frame_pose", "center_of_mass")
_OF_G = (
    "mass_matrix",
    "inverse_mass_matrix",
    "gravity",
    "body_jacobians",
    "frame_jacobian",
    "center_of_mass_jacobian",
)
_OF_SECOND_RATES = (
    "inverse_dynamics_derivatives",
    "forward_dynamics_derivatives",
    "inverse_dynamics_hessian_product",
    "forward_dynamics_hessian_product",
    "coriolis_matrix_rate",
    "curvature_operator",
    "christoffel_derivatives",
    "curvature",
)
_OF_THIRD_RATES = ("inverse_dynamics_second_derivatives", "forward_dynamics_second_derivatives")


def divisions(recursion: str) -> int:
    """How often the errors of a recursion of the table are divided by the pivot; those of C thrice."""
    for count, names in ((1, _OF_POSES), (2, _OF_G), (4, _OF_SECOND_RATES), (5, _OF_THIRD_RATES)):
        if recursion in names:
            return count
    return 3


def least_pivot(recursion: str) -> float:
    """The pivot of K_d below which a recursion is refused, if loops are closed in float64."""
    return float((ROUND_OFF / WORST) ** (1.0 / divisions(recursion)))
