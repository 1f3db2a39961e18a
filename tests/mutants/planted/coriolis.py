"""Faults in `coriolis/`."""

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "variational-ends-exchanged",
        "coriolis/variational.py",
        "balance = A_plus.T @ after - A_minus.T @ before - h * force",
        "balance = A_minus.T @ after - A_plus.T @ before - h * force",
        ("coriolis/test_variational.py::test_a_nonholonomic_step_keeps_the_constraint_and_has_order_two",),
        "a step's momenta are seen from the wrong ends, which a chart does not notice",
    ),
    Mutant(
        "variational-time-of-forces",
        "coriolis/variational.py",
        "system.applied_at(t + 0.5 * h, middle, w)",
        "system.applied_at(t, middle, w)",
        ("coriolis/test_variational.py::test_in_a_chart_a_step_is_the_implicit_midpoint_rule",),
        "forces of a step are those of its beginning",
    ),
    Mutant(
        "audit-noise-of-coriolis",
        "coriolis/audit/measurements.py",
        "relative=8.0 * n * differences.eps + (noise / largest if largest > 0.0 else 0.0),",
        "relative=8.0 * n * differences.eps,",
        (
            "coriolis/test_audit.py::test_noise_of_a_coriolis_matrix_is_allowed_for_at_rest_too",
            "coriolis/test_audit.py::test_single_precision_black_box",
            "coriolis/test_audit.py::test_noise_widens_the_tolerance_and_keeps_the_verdict",
        ),
        "the noise of a black box C is taken for a fault of its connection",
    ),
    Mutant(
        "audit-noise-scale",
        "coriolis/audit/differences.py",
        "/ 70.0))",
        "/ 70.0) * 0.01)",
        (
            "coriolis/test_audit.py::test_noise_of_a_coriolis_matrix_is_allowed_for_at_rest_too",
            "coriolis/test_audit.py::test_noise_widens_the_tolerance_and_keeps_the_verdict",
            "coriolis/test_audit.py::test_too_much_noise_forbids_a_verdict",
        ),
        "the noise of a black box is measured as a hundredth of what it is",
    ),
    Mutant(
        "audit-noise-in-q",
        "coriolis/audit/measurements.py",
        "return max(in_v, in_q)",
        "return in_v",
        ("coriolis/test_audit.py::test_noise_of_a_coriolis_matrix_in_its_configuration_is_allowed_for",),
        "noise of C that depends on q only is not measured",
    ),
    Mutant(
        "audit-bias-bracket",
        "coriolis/audit/measurements.py",
        'bracket = np.einsum("kij,k,j->i", self.s, self.H @ self.v, self.v)',
        'bracket = np.einsum("kji,k,j->i", self.s, self.H @ self.v, self.v)',
        (
            "coriolis/test_audit.py::test_a_frame_in_which_velocity_is_not_the_coordinate_rate",
            "coriolis/test_audit.py::test_on_the_rotation_group_beta_one_half_is_flat_and_found",
        ),
        "the audited bias has the brackets of the frame with the other sign",
    ),
    Mutant(
        "forces-of-constraints-rate",
        "coriolis/nonholonomic.py",
        "a = self.connection.basis_at(q) @ self.forward_dynamics_at(q, v, u, t) + turning",
        "a = self.connection.basis_at(q) @ self.forward_dynamics_at(q, v, u, t)",
        ("coriolis/test_nonholonomic.py::test_constraint_forces_are_the_multipliers",),
        "constraint forces leave out how the basis turns",
    ),
    Mutant(
        "moving-constraints-rate",
        "coriolis/nonholonomic.py",
        "rate: jax.Array = self.connection.feasible_rate_at(q, V - drift, free - drift_rate, along=V)",
        "rate: jax.Array = self.connection.feasible_rate_at(q, V - drift, free, along=V)",
        (
            "coriolis/test_moving_constraints.py::test_a_ball_on_a_turntable_moves_on_a_circle",
            "coriolis/test_moving_constraints.py::test_the_force_is_of_the_multipliers_and_needs_no_basis",
        ),
        "the rate of a drift counts as an acceleration that the constraints allow",
    ),
    Mutant(
        "moving-constraints-turn-along-the-rest",
        "coriolis/nonholonomic.py",
        "rate: jax.Array = self.connection.feasible_rate_at(q, V - drift, free - drift_rate, along=V)",
        "rate: jax.Array = self.connection.feasible_rate_at(q, V - drift, free - drift_rate)",
        (
            "coriolis/test_moving_constraints.py::test_a_ball_on_a_turntable_moves_on_a_circle",
            "coriolis/test_moving_constraints.py::test_the_force_is_of_the_multipliers_and_needs_no_basis",
        ),
        "constraints that move turn as for one who moves with them",
    ),
    Mutant(
        "nonholonomic-ignores-time",
        "coriolis/nonholonomic.py",
        "given = self.inputs_at(q).T @ u + self.forces_at(t, q, v)",
        "given = self.inputs_at(q).T @ u + self.forces_at(0.0 * t, q, v)",
        (
            "coriolis/test_nonholonomic.py::test_a_pulse_between_steps",
            "coriolis/test_nonholonomic.py::test_motion_agrees_with_the_equations_with_multipliers",
        ),
        "forces of a nonholonomic system are those of the time zero",
    ),
    Mutant(
        "momentum-rate-ignores-time",
        "coriolis/system.py",
        "self.coriolis_transpose_product_at(q, v) - self.gravity_at(q) + self.forces_at(t, q, v)",
        "self.coriolis_transpose_product_at(q, v) - self.gravity_at(q) + self.forces_at(0.0 * t, q, v)",
        ("control/test_observer.py::test_known_forces_are_taken_off_at_their_time",),
        "the rate of the momentum takes forces of the time zero",
    ),
    Mutant(
        "task-space-along-the-task",
        "coriolis/matrix.py",
        "A, A_dot = jax.jvp(inclusion, (q,), (metric.frame.matrix_at(q) @ v,))",
        "A, A_dot = jax.jvp(inclusion, (q,), (metric.frame.matrix_at(q) @ inclusion(q) @ "
        "metric.frame.lie_derivative_at(task, q).T @ v,))",
        (
            "coriolis/test_matrix.py::test_task_space_matrix_along_the_task_velocity_only_is_not_skew",
            "coriolis/test_matrix.py::test_task_space_mass_rate",
        ),
        "the task's C is taken along the task's velocity, not along the robot's",
    ),
    Mutant(
        "coriolis-linear-threshold",
        "coriolis/matrix.py",
        "gap = jnp.abs(self.coriolis(q, v) - terms.sum(axis=1))",
        "gap = jnp.abs(self.coriolis(q, v) - terms.sum(axis=1)) * 1e-6",
        ("coriolis/test_matrix.py::test_a_coriolis_matrix_that_is_not_linear_has_no_connection",),
        "a C that is slightly nonlinear in v counts as a connection's",
    ),
    Mutant(
        "reduced-motion-turning-basis",
        "coriolis/reduction.py",
        "return v, r_dot, A @ v_dot + A_dot @ v",
        "return v, r_dot, A @ v_dot",
        ("coriolis/test_reduction.py::test_reduced_motion_and_reconstruction_are_the_whole_motion",),
        "the reduced motion leaves out how the basis turns with the shape",
    ),
)
