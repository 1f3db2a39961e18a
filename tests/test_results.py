"""Every kind of result of the library in another process and as a copy: by pickle, `copy` and `deepcopy`."""

import pytest
from cases import always
from fuzz_exceptions import NOT_RUN
from good_calls import programs
from results import faults, results_of

PROGRAMS = [name for name in programs() if name not in NOT_RUN]
#: Kinds that are not pickled, with the reason.
EXCEPTED = {
    "TracedModel": "it belongs to a function that JAX traces",
    "Subject": "it holds functions of the system under test, which Python names; a copy has the same ones",
    "Proposition": "it is a row of the library's own table, which every process has",
}
SEEN = set()  # in this process: a kind is tried once
ALWAYS = (
    "public_calls.audit_coriolis",
    "public_calls.geodesic",
    "connections.control.ControllabilityReport",
    "connections.control.DecouplingField",
    "connections.control.WholeBodyCommand",
    "connections.control.CentroidalCoordinates",
    "connections.estimation.Consistency",
    "connections.interop.LibraryAudit",
    "connections.referee.RefereeReport",
    "connections.multibody.Closed",
    "connections.multibody.load_c",
    "connections.plots.draw_shape",
    "connections.verify.NonholonomicSubject",
)


@pytest.mark.parametrize("program", always(PROGRAMS, *ALWAYS))
def test_results_are_pickled_and_copied(program, capsys):
    found = {kind: result for kind, result in results_of(program).items() if kind not in SEEN}
    SEEN.update(found)
    wrong = [fault for kind, each in found.items() if kind.__name__ not in EXCEPTED for fault in faults(each)]
    assert wrong == []
