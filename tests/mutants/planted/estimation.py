"""Faults in `estimation/`, and in what it takes of groups."""

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "reset-transposed",
        "estimation/updates.py",
        "turn = J @ L\n",
        "turn = J.T @ L\n",
        (
            "estimation/test_consistency.py::test_iterated_with_the_exact_reset",
            "estimation/test_spaces.py::test_a_rotation_that_is_measured",
        ),
        "the covariance is reset by the transposed derivative of exp",
    ),
    Mutant(
        "reset-counted-twice",
        "estimation/updates.py",
        "return found, own, seen(own, found[1] @ L)",
        "return found, own, seen(own, L)",
        (
            "estimation/test_consistency.py::test_iterated_with_the_exact_reset",
            "estimation/test_spaces.py::test_a_rotation_that_is_measured",
        ),
        "the iteration's derivative is that at the new point, and the covariance is reset all the same",
    ),
    Mutant(
        "spread-without-brackets",
        "estimation/spaces.py",
        "return along.T + turned",
        "return along.T - turned",
        ("estimation/test_spaces.py::test_a_covariance_spreads_as_neighbours_do",),
        "brackets of the frame have the other sign in the spread of errors",
    ),
    Mutant(
        "step-not-halved",
        "estimation/updates.py",
        "0.5 * change, last",
        "change, last",
        ("estimation/test_filters.py::test_a_step_that_fits_worse_is_halved",),
        "a step of the iteration that fits worse is tried again as it was",
    ),
    Mutant(
        "tree-products-not-polarized",
        "estimation/displacements.py",
        "mixed = 0.5 * (of_q[2] - of_q[0] - of_q[1])",
        "mixed = 0.5 * (of_q[2] - of_q[0])",
        ("estimation/test_spaces.py::test_states_of_a_robot_are_displaced_by_recursions",),
        "the change of Gamma(v, z) of a robot keeps that of Gamma(z, z)",
    ),
    Mutant(
        "tree-brackets-reversed",
        "estimation/displacements.py",
        "0.5 * (of_v[0] - turn), turn",
        "0.5 * (of_v[0] + turn), turn",
        ("estimation/test_spaces.py::test_states_of_a_robot_are_displaced_by_recursions",),
        "the transport of a robot's velocity has the brackets of its frame the other way",
    ),
    Mutant(
        "likelihood-at-the-step",
        "estimation/updates.py",
        "at = jnp.zeros(k)\n",
        "at = epsilon\n",
        ("estimation/test_filters.py::test_without_iterations_the_likelihood_is_that_of_the_prediction",),
        "without iterations NIS has the residual at the step with the derivative at the prediction",
    ),
    Mutant(
        "velocity-without-gamma",
        "estimation/spaces.py",
        "along.T - of_v @ self._turned_at(q, v), of_v",
        "along.T + of_v @ self._turned_at(q, v), of_v",
        ("estimation/test_spaces.py::test_states_are_displaced_and_measured_in_a_curved_space",),
        "a sensor of velocities takes w for dv with the other sign of Gamma",
    ),
    Mutant(
        "drift-without-curvature",
        "verify/filters.py",
        "terms = [at.covariant(slope, e, e), _of_vectors(at.R_here, e, X, e)]",
        "terms = [at.covariant(slope, e, e), -_of_vectors(at.R_here, e, X, e)]",
        ("verify/test_catalogue.py::test_proposition_holds_and_its_control_fails",),
        "curvature moves the mean of predicted errors the other way",
    ),
    Mutant(
        "shift-with-arguments-exchanged",
        "verify/filters.py",
        "term = _of_vectors(at.R_here, w, w, e) / 3.0",
        "term = _of_vectors(at.R_here, w, e, w) / 3.0",
        ("verify/test_catalogue.py::test_proposition_holds_and_its_control_fails",),
        "the mean's shift after a reset has the other sign",
    ),
)
