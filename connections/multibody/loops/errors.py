"""What is wrong with a configuration in which loops do not close, in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from connections.checks import ClosureError, raise_at
from connections.multibody.loops.definition import Continuation
from connections.multibody.tolerances import SINGULAR


def require_closed(solution: Continuation, names: str, joint: str, origin: str, q: Any) -> None:
    """Raise `ClosureError` where a loop does not close or is singular.

    Parameters
    ----------
    solution : what the continuation came to.
    names : of the loops, and `joint` of the dependent joint, that are nearest to singular.
    origin : where the path begins.
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
