"""Programs that call public methods which no docstring's example calls."""

from __future__ import annotations

PROGRAMS: dict[str, str] = {}
