"""Which cases of a test run always, and which are further ones, which run with `--all` only."""

from collections.abc import Iterable
from typing import Any

import pytest


def further(*values: Any, id: str | None = None) -> Any:
    """One further case of a parametrized test."""
    return pytest.param(*values, marks=pytest.mark.further, id=id)


def always(cases: Iterable[Any], *names: Any) -> list[Any]:
    """All cases of a parametrized test, in their order; those that are not in `names` are further ones."""
    cases = list(cases)
    if not names or not set(names) <= set(cases):
        raise ValueError(f"{sorted(set(names) - set(cases))} are no cases, or none runs always")
    return [case if case in names else further(case) for case in cases]
