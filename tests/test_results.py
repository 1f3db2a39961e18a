"""Every kind of result of the library in another process and as a copy: by pickle, `copy` and `deepcopy`.

What holds arrays compares by identity, because `==` of arrays has no truth value.
"""

import copy
import dataclasses
import inspect

import numpy as np
import pytest
from cases import always
from fuzz_exceptions import NOT_RUN
from good_calls import programs
from names import called
from results import faults, results_of

from connections import affine, control, symbolic

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
    "connections.control.controllability.ControllabilityReport",
    "connections.control.controllability.DecouplingField",
    "connections.control.results.WholeBodyCommand",
    "connections.control.CentroidalCoordinates",
    "connections.estimation.Consistency",
    "connections.interop.LibraryAudit",
    "connections.referee.RefereeReport",
    "connections.multibody.SolvedLoops",
    "connections.multibody.codegen.load_c",
    "connections.plots.draw_shape",
    "connections.verify.NonholonomicSubject",
)


@pytest.mark.parametrize("program", always(PROGRAMS, *ALWAYS))
def test_results_are_pickled_and_copied(program, capsys):
    found = {kind: result for kind, result in results_of(program).items() if kind not in SEEN}
    SEEN.update(found)
    wrong = [fault for kind, each in found.items() if kind.__name__ not in EXCEPTED for fault in faults(each)]
    assert wrong == []


#: Kinds with fields of any type that are kept as tuples.
TUPLES = ("FilterState", "SurfaceContact")


def test_no_comparison_of_arrays_is_generated():
    wrong = []
    for name, kind in called().items():
        types = []
        if dataclasses.is_dataclass(kind) and kind.__dataclass_params__.eq:
            types = [each.type for each in dataclasses.fields(kind) if each.compare]
        elif inspect.isclass(kind) and kind.__eq__ is tuple.__eq__:
            types = kind.__annotations__.values()
        words = ("Array", "ndarray") if kind.__name__ in TUPLES else ("Array", "ndarray", "Any")
        wrong += [f"{name}: {each}" for each in types if any(word in str(each) for word in words)]
    assert wrong == []


MADE = {
    "named tuple": lambda: affine.Estimated(np.zeros(2), np.zeros(2)),
    "target": lambda: control.Target(np.zeros(3)),
    "task": lambda: control.PointTask("tool", damping=np.ones(3)),
    "link": lambda: symbolic.PlanarLink(-1, np.zeros(2), 1, np.zeros(2), 1),
}


@pytest.mark.parametrize("made", MADE)
def test_what_holds_arrays_compares_by_identity(made):
    thing, other = MADE[made](), MADE[made]()
    assert thing == thing and thing != other and thing != copy.deepcopy(thing)
    assert thing in [other, thing] and len({thing, other}) == 2
