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
)
