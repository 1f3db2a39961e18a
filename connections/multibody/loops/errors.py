"""The error for a configuration in which a loop does not close or is singular."""

from __future__ import annotations

from typing import Any

import numpy as np

from connections.checks import ClosureError, raise_at
from connections.multibody.loops.definition import Continuation
from connections.multibody.tolerances import SINGULAR


def require_closed(solution: Continuation, names: str, joint: str, origin: str, q: Any) -> None:
    """Raise `ClosureError` if a loop does not close or is singular.

    Parameters
    ----------
    solution : the result of the continuation.
    names : the loops that are nearest to singular, in words.
    joint : name of their dependent joint that is determined worst.
    origin : the start of the path, in words.
    q : (nq,) the configuration.
    """
    if solution.reached < 1.0:
        raise_at(
            ClosureError,
            f"{names} cannot close: from {origin} the loops could be followed over "
            f"{100 * float(solution.reached):.3g} % of the way. Either no configuration closes them, or one "
            "on the way is singular; a reference (or a guess) nearer to q avoids the latter",
            q,
        )
    if not np.min(solution.pivot) >= SINGULAR:
        raise_at(
            ClosureError,
            f"{names} is singular: the dependent joint '{joint}' is not determined by the independent "
            "ones, as where bars are aligned. Choose other independent joints, or a configuration away from "
            "this one",
            q,
        )
