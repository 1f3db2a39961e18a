"""Long code in pieces, each for a function of its own.

Compilers need more than twice the time for a function that is twice as long; for pieces they need the sum.
What one piece computes and a later one reads goes through an array ``kept``, whose entries are used again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

_VARIABLE = re.compile(r"\bx\d+\b")


def statements_in_pieces(
    before: Sequence[str], lines: Sequence[str], longest: int
) -> tuple[list[list[str]], int]:
    """Statements of `c_code.Code` in pieces, and how many entries ``kept`` has.

    Parameters
    ----------
    before : statements that are the first piece.
    lines : statements that are cut into pieces of about `longest` characters.
    """
    pieces = [list(before), *_cut(lines, longest)]
    home, last = dict[str, int](), dict[str, int]()
    for number, piece in enumerate(pieces):
        for line in piece:
            if line.startswith("const "):
                home[_set_by(line)] = number
            last.update(dict.fromkeys(_VARIABLE.findall(line), number))
    slots, kept = _slots(home, last, len(pieces))
    return [_rewritten(piece, number, home, slots) for number, piece in enumerate(pieces)], kept


def _cut(lines: Sequence[str], longest: int) -> list[list[str]]:
    pieces, length = [list[str]()], 0
    for line in lines:
        if length > longest:
            pieces.append([])
            length = 0
        pieces[-1].append(line)
        length += len(line)
    return pieces


def _set_by(line: str) -> str:
    """The variable that a statement declares."""
    found = _VARIABLE.search(line)
    assert found is not None, line
    return found[0]


def _slots(home: dict[str, int], last: dict[str, int], count: int) -> tuple[dict[str, int], int]:
    """Variable -> entry of ``kept``, of those that a later piece reads; and how many entries there are.

    The entries of variables that a piece reads last are free in the next one, not in that piece.
    """
    begin, end = defaultdict[int, list[str]](list), defaultdict[int, list[str]](list)
    for name, piece in home.items():
        if last[name] > piece:
            begin[piece].append(name)
            end[last[name]].append(name)
    slots, free, size = dict[str, int](), list[int](), 0
    for piece in range(count):
        for name in begin[piece]:
            if not free:
                free.append(size)
                size += 1
            slots[name] = free.pop()
        free.extend(slots[name] for name in end[piece])
    return slots, size


def _rewritten(lines: Sequence[str], number: int, home: dict[str, int], slots: dict[str, int]) -> list[str]:
    """The statements of a piece, which read and write ``kept``."""

    def value(found: re.Match[str]) -> str:
        return found[0] if home[found[0]] == number else f"kept[{slots[found[0]]}]"

    written = []
    for line in lines:
        written.append(_VARIABLE.sub(value, line))
        if line.startswith("const ") and _set_by(line) in slots:
            written.append(f"kept[{slots[_set_by(line)]}] = {_set_by(line)};")
    return written
