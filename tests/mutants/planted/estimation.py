"""Faults in `estimation/`, and in what it takes of groups."""

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "reset-transposed",
        "estimation/updates.py",
        "exact = _symmetric(J @ P_e @ J.T)\n    reset, size = J, jnp.zeros(())",
        "exact = _symmetric(J @ P_e @ J.T)\n    reset, size = J.T, jnp.zeros(())",
        (
            "estimation/test_consistency.py::test_iterated_with_the_exact_reset",
            "estimation/test_spaces.py::test_a_rotation_that_is_measured",
        ),
        "the covariance is reset by the transposed derivative of exp",
    ),
    Mutant(
        "reset-counted-twice",
        "estimation/updates.py",
        "return found._replace(H=found.H @ moved[1]), moved",
        "return found, moved",
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
        "velocity-without-gamma",
        "estimation/spaces.py",
        "along.T - of_v @ self._turned_at(q, v), of_v",
        "along.T + of_v @ self._turned_at(q, v), of_v",
        ("estimation/test_spaces.py::test_states_are_displaced_and_measured_in_a_curved_space",),
        "a sensor of velocities takes w for dv with the other sign of Gamma",
    ),
)
