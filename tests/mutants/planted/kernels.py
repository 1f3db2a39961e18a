"""Faults in the kernels of `multibody/`, which are compiled again for each of them."""

from tests.mutants.mutant import Mutant

_K = "multibody/kernels/"

MUTANTS = (
    Mutant(
        "kernel-discrete-momentum-backwards",
        _K + "variational.py",
        "return add6(add6(y, scale6(once, 0.5)), add6(scale6(twice, a), scale6(fourth, b)))",
        "return add6(add6(y, scale6(once, -0.5)), add6(scale6(twice, a), scale6(fourth, b)))",
        (
            "multibody/test_variational.py::test_a_step_is_stationary_for_the_discrete_action",
            "multibody/test_variational.py::test_orders_of_trees",
        ),
        "the momentum of a step is that of its end: order one, with spatial momenta kept",
    ),
    Mutant(
        "kernel-moved-columns",
        _K + "variational.py",
        "u = add3(turned_by(turn, (Phi[3], Phi[4], Phi[5])), cross3(shift, w))",
        "u = add3(turned_by(turn, (Phi[3], Phi[4], Phi[5])), cross3(w, shift))",
        ("multibody/test_variational.py::test_a_step_is_stationary_for_the_discrete_action",),
        "columns at the end of a step move the wrong way with their link",
    ),
    Mutant(
        "kernel-force-cross-mirror",
        _K + "coriolis.py",
        "store(C, j * nv + i, load(C, j * nv + i) + D)",
        "store(C, j * nv + i, load(C, j * nv + i) - D)",
        ("multibody/test_recursions_passport.py::test_coriolis_matrix_contracts_the_middle_index",),
        "C of the factor (v x*) I has a torsion that is not antisymmetric",
    ),
    Mutant(
        "kernel-armature-of-transpose",
        _K + "newton_euler.py",
        "armature.add_product(tree, work, tree.vectors, tree.vectors + tree.nv, -1.0, product)",
        "armature.add_product(tree, work, tree.vectors, tree.vectors + tree.nv, 1.0, product)",
        ("multibody/test_armature.py::test_what_is_added_is_koszuls",),
        "C^T w of rotors turns the wrong way",
    ),
    Mutant(
        "kernel-sliding-factor",
        _K + "origins.py",
        "s[1] * d[1] - inner,",
        "s[1] * d[1] + inner,",
        (
            "multibody/test_recursions_definition.py::test_christoffel_symbols_of_all_pairs",
            "multibody/test_recursions_definition.py::test_small_mechanisms",
        ),
        "a body-level factor that is seen from a sliding part's origin has a wrong entry",
    ),
    Mutant(
        "kernel-regressor-trace",
        _K + "regressor.py",
        "store(Y, at + 6, x[1] * beta[1] + z[1] * w[1] + trace)",
        "store(Y, at + 6, x[1] * beta[1] + z[1] * w[1])",
        ("multibody/test_recursions_passport.py::test_regressor",),
        "the regressor of one moment of inertia leaves out a gyroscopic term",
    ),
    Mutant(
        "kernel-articulated-bias",
        _K + "articulated.py",
        "put(work, link + LINK.bias, add6(p, scale6(U, u * inverse)))",
        "put(work, link + LINK.bias, add6(p, scale6(U, -u * inverse)))",
        ("multibody/test_recursions_passport.py::test_inverse_dynamics",),
        "forward dynamics does not invert inverse dynamics",
    ),
    Mutant(
        "kernel-brackets-of-curvature",
        _K + "curvature.py",
        "return add6(scale6(twice, 2.0), momentum(",
        "return add6(scale6(twice, 1.0), momentum(",
        (
            "multibody/test_curvature.py::test_a_ball_turns_on_a_group_with_a_bi_invariant_metric",
            "multibody/test_curvature.py::test_a_body_with_three_moments_of_inertia",
        ),
        "the curvature of robots with spherical joints is wrong",
    ),
    Mutant(
        "kernel-tolerance-of-velocities",
        _K + "motion_steps.py",
        "units = found[4, row, i] * (elapsed if i < points else 1.0)",
        "units = found[4, row, i]",
        ("multibody/test_motion_step.py::test_steps_are_judged_alike_by_compiled_code_and_by_numpy",),
        "the size of a change of q is that of a velocity, for robots",
    ),
    Mutant(
        "kernel-loop-brackets",
        _K + "loop_geometry.py",
        "loop.z[-1 - loop.place[t]] - loop.y[t])",
        "loop.z[-1 - loop.place[t]] + loop.y[t])",
        ("multibody/test_closure_kernel.py::test_loops_close_and_derivatives_are_those_of_differences",),
        "derivatives of loops with spherical joints exchange their directions with the wrong sign",
    ),
    Mutant(
        "kernel-loop-second-rate",
        _K + "loop_geometry.py",
        "y_second = add3(y_second, cross3((V_y[0], V_y[1], V_y[2]), y_move))",
        "y_second = add3(y_second, cross3((V_x[0], V_x[1], V_x[2]), y_move))",
        ("multibody/test_closed_derivatives.py::test_a_loop_may_begin_at_either_of_its_bodies",),
        "second derivatives of loops take the twist of the other body",
    ),
    Mutant(
        "refined-away-from-the-solution",
        "multibody/kernels/loop_refinement.py",
        "move_dependent(loop, 1.0)",
        "move_dependent(loop, -1.0)",
        ("multibody/test_near_flat.py::test_a_parallelogram_has_no_coriolis_forces",),
        "Newton's steps with 32 digits have the other sign",
    ),
    Mutant(
        "refined-from-a-quaternion-of-16-digits",
        "multibody/kernels/loop_refinement.py",
        "put(loop.x, stop - 4, unit_quaternion(take(loop.x, stop - 4, 4)))",
        "pass",
        ("multibody/test_near_flat.py::test_an_independent_ball",),
        "quaternions of independent joints are not scaled to length one before loops are refined",
    ),
    Mutant(
        "twofold-product-without-a-term",
        "engines/inlined/twofold.py",
        "_fma(builder, a, b_low, _fma(builder, a_low, b, error))",
        "_fma(builder, a, b_low, error)",
        ("engines/test_inlined.py::test_twofold_numbers_have_32_digits",),
        "products of numbers of 32 digits leave out the low part of one factor",
    ),
)
