"""Options of natural adaptation, checked once when they are given."""

from __future__ import annotations

from typing import Any

import numpy as np

from connections.checks import ShapeError, as_array, as_number, require_finite, require_type
from connections.control.laws.adaptation import NaturalAdaptation
from connections.control.laws.gains import GainError
from connections.control.laws.inertia_cone import one_body_each
from connections.control.laws.parametrization import ParametrizedPlant
from connections.control.laws.payload import UnknownInertia

OPTIONS = "rate", "mass_bound", "leakage", "prior", "dead_zone"


def natural_adaptation(family: ParametrizedPlant, word: str, options: dict[str, Any]) -> NaturalAdaptation:
    """The rule of `AdaptiveController(family, gain, "natural", **options)`; raises its errors."""
    if word != "natural":
        raise TypeError(f"adaptation: expected a gain or the word 'natural', got {word!r}")
    call = "natural adaptation is that of inertias of bodies; a family takes a constant gain"
    require_type("family", family, UnknownInertia, call)
    assert isinstance(family, UnknownInertia)
    for name, why in (("rate", "gamma, 1/J"), ("mass_bound", "kg, or np.inf for none")):
        if options[name] is None:
            raise TypeError(f"{name}: natural adaptation needs it ({why})")
    cone, n = family.cone, family.frame.dim
    bounds = _positive("mass_bound", options["mass_bound"], len(cone.bodies), infinite=True)
    bounded = bool(np.isfinite(bounds).any())
    if bounded and cone.basis is not None and not one_body_each(cone.basis, len(cone.bodies)):
        raise GainError("mass_bound: a column of `basis` moves several bodies; give np.inf")
    leakage, prior = options["leakage"], options["prior"]
    if (leakage is None) != (prior is None):
        missing = "prior" if prior is None else "leakage"
        raise TypeError(f"{missing}: leakage and prior are given together")
    if prior is not None:
        leakage = float(_positive("leakage", leakage, 1)[0])
        prior = np.array(as_array("prior", prior, (family.size,)))
        if prior.ndim != 1:
            raise ShapeError("prior", (family.size,), prior.shape)
        require_finite("prior", prior)
        cone.require("prior", prior, "the prior")
        cone.require_masses("prior", prior, bounds)
    zone = options["dead_zone"]
    return NaturalAdaptation(
        cone,
        float(_positive("rate", options["rate"], 1)[0]),
        bounds,
        leakage,
        prior,
        None if zone is None else _positive("dead_zone", zone, n),
        bounded,
    )


def _positive(name: str, value: Any, size: int, infinite: bool = False) -> np.ndarray:
    """`value`, a number or (size,), as (size,) positive numbers."""
    if size == 1 and np.ndim(value) == 0:
        value = as_number(name, value) if not infinite else value
    array = np.asarray(as_array(name, value, ()), dtype=np.float64)
    if array.shape not in ((), (size,)):
        raise ShapeError(name, f"() or ({size},)", array.shape)
    if not infinite or np.isnan(array).any():
        require_finite(name, array)
    if not (array > 0.0).all():
        raise GainError(f"{name} must be positive: {array.min():g}")
    return np.array(np.broadcast_to(array, (size,)))
