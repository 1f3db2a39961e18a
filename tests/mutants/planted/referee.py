"""Faults in `referee/`."""

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "layout-brackets-without-turning",
        "referee/layouts.py",
        'lower += -np.einsum("bkc->kbc", slopes) + np.einsum("ckb->kbc", slopes)',
        'lower -= -np.einsum("bkc->kbc", slopes) + np.einsum("ckb->kbc", slopes)',
        ("referee/test_layouts.py::test_the_brackets_are_those_of_the_fields",),
        "the brackets of another library's frame turn the wrong way",
    ),
    Mutant(
        "current-without-its-acceleration",
        "referee/measurements.py",
        "rate = turned - T @ frame.translation_rate(ours, nu, u)",
        "rate = turned + T @ frame.translation_rate(ours, nu, u)",
        (
            "referee/test_audit.py::test_a_current_is_a_moving_frame",
            "referee/test_audit.py::test_a_current_in_the_axes_of_the_world",
        ),
        "the acceleration of a current relative to the body has the other sign",
    ),
    Mutant(
        "reference-in-a-layout",
        "referee/corpus_robots.py",
        "yield there, A.T @ c - there @ T_dot @ v, A.T @ g, ",
        "yield there, A.T @ c, A.T @ g, ",
        ("referee/test_audit.py::test_a_library_is_judged_in_its_own_layout",),
        "a reference bias in another frame leaves out how the frame turns",
    ),
    Mutant(
        "filter-reset-by-the-other-side",
        "referee/filters.py",
        '"exact reset": J,\n',
        '"exact reset": J.T,\n',
        (
            "referee/test_filters.py::test_a_right_filter_is_right",
            "referee/test_filters.py::test_a_fault_is_named",
        ),
        "a right reset is taken for a wrong one, and its transpose for a right one",
    ),
    Mutant(
        "filter-state-of-the-world",
        "referee/filters.py",
        "return self._written(part, shift + turn @ p, turn @ R)",
        "return self._written(part, shift + p, turn @ R)",
        (
            "referee/test_filters.py::test_states_move_and_come_back",
            "referee/test_filters.py::test_an_update_in_a_turned_world",
        ),
        "a pose that is displaced in the world keeps its lever arm",
    ),
    Mutant(
        "filter-transition-without-its-transpose",
        "referee/filters.py",
        "return _largest(W @ (change - F @ more @ F.T) @ W.T)",
        "return _largest(W @ (change - F.T @ more @ F) @ W.T)",
        ("referee/test_filters.py::test_a_right_filter_is_right",),
        "a filter's covariance is compared with the transposed transition",
    ),
    Mutant(
        "project-s-float64",
        "_jax.py",
        "if _plugin is None or not _plugin.AS_GUEST.get():",
        "if True:",
        ("referee/test_pytest_plugin.py::test_a_project_in_float32_is_judged_and_left_in_it",),
        "the fixture switches float64 on for all tests of a project",
    ),
    Mutant(
        "float32-judged-in-float64",
        "referee/black_boxes.py",
        "with jax.enable_x64(False):",
        "with jax.enable_x64(True):",
        ("referee/test_pytest_plugin.py::test_the_referee_s_own_arithmetic_is_float64",),
        "a library is judged in another precision than its users have",
    ),
)
