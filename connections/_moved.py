"""Old names: for one version they give the same object, with a warning that says the new name.

A module with rows in `MOVED` calls ``keep_old_names(__name__)`` at its end. Where a class has got another
name, the module that defines it has a row, too: pickles name that module.
"""

from __future__ import annotations

import sys
import warnings
from functools import partial
from importlib import import_module
from typing import Any

_JOINTS, _CURVATURES = "connections.multibody.joints", "connections.multibody.curvatures"
_CONTROL, _CONTROLLABILITY = "connections.control", "connections.control.controllability"


def _all_to(module: str, names: str) -> dict[str, str]:
    """Rows of names that stay as they are, in another module."""
    return {name: f"{module}.{name}" for name in names.split()}


_RENAMED = {"Closure": f"{_CONTROLLABILITY}.LieClosure", "Rank": f"{_CONTROLLABILITY}.NumericalRank"}

#: Module -> old name in it -> the full new name.
MOVED = {
    "connections.multibody": {
        **_all_to(_JOINTS, "Keyframe Limits LimitsWarning Motor Passive Spring"),
        **_all_to(_CURVATURES, "CurvatureExtremes curvature curvature_operator curvature_with_torsion"),
        **_all_to(_CURVATURES, "extreme_sectional_curvatures ricci scalar_curvature sectional_curvature"),
        **_all_to("connections.multibody.codegen", "export_checks generate_c load_c load_cuda"),
        "Closed": "connections.multibody.SolvedLoops",
    },
    _CONTROL: {
        **_all_to(f"{_CONTROL}.errors", "ContactError FallenError GainError InfeasibleError"),
        **_all_to(f"{_CONTROL}.errors", "StabilizabilityError TaskError"),
        **_all_to(f"{_CONTROL}.results", "AdaptiveMotion ClosedLoopMotion ContractionRates EffortCurve"),
        **_all_to(f"{_CONTROL}.results", "EffortMotion ExcitingMotion Identification ObservedMotion"),
        **_all_to(f"{_CONTROL}.results", "PlantMotion TaskState WholeBodyCommand"),
        **_all_to(_CONTROLLABILITY, "ControllabilityReport DecouplingField DecouplingFields KinematicReport"),
        **_all_to(_CONTROLLABILITY, "configuration_controllability decoupling_fields input_fields"),
        **_all_to(_CONTROLLABILITY, "involutive_closure is_decoupling kinematic_controllability"),
        **_all_to(_CONTROLLABILITY, "symmetric_closure"),
        **_RENAMED,
        "Box": f"{_CONTROL}.BoxShape",
        "Sphere": f"{_CONTROL}.SphereShape",
    },
    "connections.multibody.program.closed": {"Closed": "connections.multibody.SolvedLoops"},
    _CONTROLLABILITY: _RENAMED,
    f"{_CONTROL}.splines.solutions": {  # in pickles of an EffortCurve
        "Solution": f"{_CONTROL}.splines.solutions.StationaryCurve",
        "Task": f"{_CONTROL}.splines.solutions.CurveConditions",
    },
    "connections": {"linearization": "connections.linearize"},
    "connections.affine": {"linearization": "connections.affine.linearize"},
    "connections.plots": {
        "figure_3": "connections.plots.figure_transport",
        "figure_6": "connections.plots.figure_trajectories",
        "figure_7": "connections.plots.figure_lyapunov",
    },
    f"{_CONTROLLABILITY}.field_closures": {"Closure": f"{_CONTROLLABILITY}.LieClosure"},
    f"{_CONTROLLABILITY}.ranks": {"Rank": f"{_CONTROLLABILITY}.NumericalRank"},
    f"{_CONTROL}.plants.shapes": {"Box": f"{_CONTROL}.BoxShape", "Sphere": f"{_CONTROL}.SphereShape"},
}


def keep_old_names(module: str) -> None:
    """Have a module answer to its old names; type checkers and `dir` see the new ones only."""
    vars(sys.modules[module])["__getattr__"] = partial(_moved, module)


def _moved(module: str, name: str) -> Any:
    new = MOVED[module].get(name)
    if new is None:
        raise AttributeError(
            f"module {module!r} has no attribute {name!r}", name=name, obj=sys.modules[module]
        )
    if (
        sys._getframe(1).f_code.co_name != "_handle_fromlist"
    ):  # which asks before `from module import name` does
        warn_moved(f"{module}.{name}", new, stacklevel=3)
    room, _, own = new.rpartition(".")
    return getattr(import_module(room), own)


def warn_moved(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn that a name is old, at the line of the caller's caller."""
    text = f"{old} is now {new}; the old name goes with the next version"
    warnings.warn(text, DeprecationWarning, stacklevel=stacklevel)
