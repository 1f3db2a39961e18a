"""Faults in `certified/`."""

from tests.mutants.mutant import Mutant

_BOXES = "certified/test_constants.py::test_no_posture_of_a_box_is_above_its_end"
_SECOND = "certified/test_constants.py::test_no_sample_is_outside_and_no_second_difference_above_its_bound"
_WITHIN = "certified/test_constants.py::test_second_differences_within_boxes_are_below_their_local_bounds"

MUTANTS = (
    Mutant(
        "certified-degree-one",
        "certified/lengths.py",
        "inward += 2.0 * (mass * rho**2).sum() * np.outer(tilt, tilt)",
        "inward += 0.5 * (mass * rho**2).sum() * np.outer(tilt, tilt)",
        ("certified/test_constants.py::test_bounds_of_second_derivatives_are_attained", _SECOND),
        "H counts as a polynomial of degree 1 in the sines and cosines of axes that cross",
    ),
    Mutant(
        "certified-circle",
        "certified/lengths.py",
        "inward = np.minimum(circle + circle.T, apart + apart.T)",
        "inward = np.minimum(circle, apart)",
        ("certified/test_constants.py::test_bounds_of_second_derivatives_are_attained", _SECOND),
        "only one of two columns sees the circle of a body",
    ),
    Mutant(
        "certified-remainder",
        "certified/boxes.py",
        "np.where(point, one_point, width**2 / 8.0)",
        "np.where(point, one_point, width**2 / 16.0)",
        ("certified/test_constants.py::test_the_end_of_a_box_about_a_straight_arm",),
        "what corners leave out is counted by half",
    ),
    Mutant(
        "certified-ratio-of-means",
        "certified/norms.py",
        "self._inverse.above_mean(limbs, factors",
        "self._inverse.above_mean(limbs[:1], factors",
        ("certified/test_values.py::test_ends_of_limbs_bound_the_mean_of_their_corners",),
        "of limbs, the first one alone bounds the inverse in a condition number",
    ),
    Mutant(
        "certified-torque",
        "certified/norms.py",
        "self._of_rows(f) + np.maximum(up, down)",
        "self._of_rows(f) + up",
        ("certified/test_values.py::test_a_torque_is_convex_and_no_error_exceeds_its_size",),
        "torques of one sign only count",
    ),
    Mutant(
        "certified-reach-of-a-ball",
        "certified/quantities.py",
        "[:, :3, 3] - centre",
        "[:, :3, 3]",
        (
            "certified/test_values.py"
            "::test_the_reach_of_a_ball_joint_is_from_the_world_and_of_a_base_that_floats_from_itself",
        ),
        "reach is measured at the ball joint's neutral configuration",
    ),
    Mutant(
        "certified-limbs",
        "certified/boxes.py",
        "corners = rest + len(self.quantity.limbs) * (corners - rest)",
        "corners = rest + (corners - rest)",
        (_BOXES,),
        "of limbs that move together only one moves",
    ),
    Mutant(
        "certified-diagonal",
        "certified/norms.py",
        "_largest(f, shift, vectors, enough, self.both)",
        "_largest(f, -shift, vectors, enough, self.both)",
        (_BOXES,),
        "errors lower the largest eigenvalue",
    ),
    Mutant(
        "certified-inverse",
        "certified/norms.py",
        "moved, at = f - less[:, None], np.arange(boxes)",
        "moved, at = f + less[:, None], np.arange(boxes)",
        (_BOXES,),
        "errors lower the eigenvalues of the inverse",
    ),
    Mutant(
        "certified-outermost",
        "certified/lengths.py",
        "and all(self.turns[k] for k in inner):",
        "and all(self.turns[k] for k in one):",
        ("certified/test_constants.py::test_bounds_of_gravity_are_attained",),
        "gravity along a slide does not change as the joints before it turn",
    ),
    Mutant(
        "certified-part-held",
        "certified/windows.py",
        "paths = {(*carrying, *group): bool(carrying), (*before,",
        "paths = {(*carrying, *group): False, (*before,",
        ("certified/test_constants.py::test_parts_of_a_robot_bound_the_blocks_of_the_inverse",),
        "the body that carries a part is on its joint to the ground, not free",
    ),
    Mutant(
        "certified-within-a-box",
        "certified/kernels.py",
        "apart += half[steps[s, COORDINATE]] * most",
        "apart += 0.3 * half[steps[s, COORDINATE]] * most",
        ("certified/test_constants.py::test_a_bent_arm_has_smaller_bounds_than_a_straight_one",),
        "within a box, points of a robot move less than they do",
    ),
    Mutant(
        "certified-axes-within-a-box",
        "certified/kernels.py",
        "apart += half[steps[up, COORDINATE]] * largest",
        "apart += 0.0 * largest",
        ("certified/test_constants.py::test_an_axis_turns_within_a_box",),
        "within a box, axes do not turn",
    ),
    Mutant(
        "certified-circle-within-a-box",
        "certified/kernels.py",
        "total = min(total, circle) + 2.0 * square * tilt * other",
        "total = min(total, circle) / 2.0 + 2.0 * square * tilt * other",
        (
            "certified/test_constants.py::test_a_bent_arm_has_smaller_bounds_than_a_straight_one",
            _WITHIN,
        ),
        "within a box, only one of two columns sees the circle of a body",
    ),
    Mutant(
        "certified-all-corners",
        "certified/kernels.py",
        "        corner, lowest, step, end = 0, 0, 0.01, -np.inf",
        "        corner, lowest, step, end = 0, 1, 0.01, -np.inf",
        ("certified/test_values.py::test_no_corner_has_an_eigenvalue_above_the_end",),
        "the first corner of a box is not looked at",
    ),
    Mutant(
        "certified-one-limb-moves",
        "certified/boxes.py",
        "fixed + count * (self.quantity.function(q) - fixed)",
        "fixed + (self.quantity.function(q) - fixed)",
        ("certified/test_values.py::test_limbs_one_by_one_bound_all_postures_from_any_of_them",),
        "only one limb leaves the posture of the others",
    ),
    Mutant(
        "certified-rounding",
        "certified/rounding.py",
        "return n * entry + 4.0 * n**2 * EPS * norm",
        "return 0.0 * entry",
        ("certified/test_constants.py::test_round_off_is_within_its_bound",),
        "no round-off is added",
    ),
)
