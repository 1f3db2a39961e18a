"""Mutants made by rules, on lines that were changed: for a pull request."""

from __future__ import annotations

import ast
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.mutants.mutant import Mutant, MutantError

MOST_FILES = 4  # of tests for a mutant
_TWINS = {ast.Add: "-", ast.Sub: "+"}
_TURNED = {ast.Lt: ">", ast.LtE: ">=", ast.Gt: "<", ast.GtE: "<="}
_NAMED = re.compile(r"[A-Za-z]\w{3,}")


def drawn(root: Path, base: str, count: int, seed: str) -> list[Mutant]:
    """At most `count` mutants on the lines that differ from a commit, the same ones for the same seed."""
    found: dict[tuple[str, int, int, str], str] = {}
    for file, lines in changed_lines(root, base).items():
        source = (root / "connections" / file).read_text(encoding="utf-8")
        found |= {(file, *edit): source for edit in edits(source, lines)}
    every = list(found)
    chosen = random.Random(seed).sample(range(len(every)), min(count, len(every)))
    return [_mutant(root, found[every[number]], *every[number]) for number in sorted(chosen)]


def changed_lines(root: Path, base: str) -> dict[str, set[int]]:
    """The numbers of lines that differ from the commit from which this branch left `base`, by file."""
    start = _git(root, "merge-base", base, "HEAD").strip()
    # A file of git's own place, so that no setting of the user changes what is printed.
    lines: dict[str, set[int]] = {}
    file = ""
    for line in _git(
        root, "diff", "-U0", "--no-color", "--no-ext-diff", start, "--", "connections"
    ).splitlines():
        if line.startswith("+++ "):
            file = line.removeprefix("+++ b/connections/") if line.endswith(".py") else ""
        elif file and (hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line)):
            first, length = int(hunk[1]), int(hunk[2] or 1)
            lines.setdefault(file, set()).update(range(first, first + length))
    others = _git(root, "ls-files", "--others", "--exclude-standard", "--", "connections").split()
    for name in (name for name in others if name.endswith(".py")):
        count = len((root / name).read_text(encoding="utf-8").splitlines())
        lines[name.removeprefix("connections/")] = set(range(1, count + 1))
    return {file: numbers for file, numbers in lines.items() if numbers}


def edits(source: str, lines: set[int]) -> Iterator[tuple[int, int, str]]:
    """What can be replaced on some lines: (first place, place after the last, replacement)."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    text = source.splitlines()

    def place(line: int, column: int) -> int:  # columns of `ast` count bytes
        return starts[line - 1] + len(text[line - 1].encode()[:column].decode())

    def span(node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)

    def of(node: ast.expr) -> str:
        start, end = span(node)
        return source[start:end]

    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.expr) and node.lineno in lines:
            for replacement in _replacements(node, of):
                yield (*span(node), replacement)


def _replacements(node: ast.expr, of: object) -> Iterator[str]:
    """Other texts for an expression; `of` gives the text of a part."""
    match node:
        case ast.BinOp(left, ast.Add() | ast.Sub() as sign, right) if not _is_text(node):
            yield f"{_inside(of(left))} {_TWINS[type(sign)]} ({of(right)})"
            yield f"({of(left)})"
            yield f"({of(right)})"
        case ast.BinOp(left, ast.MatMult(), right):
            yield f"({of(right)}) @ ({of(left)})"
        case ast.BinOp(left, ast.Mult(), right) if not _is_text(node):
            yield f"1.5 * ({of(node)})"
        case ast.BinOp(left, ast.Div(), right):
            yield f"({of(left)}) * ({of(right)})"
        case ast.UnaryOp(ast.USub(), operand) if not isinstance(operand, ast.Constant):
            yield f"({of(operand)})"
        case ast.Compare(left, [sign], [right]) if type(sign) in _TURNED:
            yield f"({of(left)}) {_TURNED[type(sign)]} ({of(right)})"
        case ast.Constant(float(value)) if value:
            yield repr(1.5 * value)
        case ast.Attribute(value, "T"):
            yield f"({of(value)})"
        case ast.Call(ast.Attribute(_, "einsum"), [ast.Constant(str(indices)), *_]):
            yield from (of(node).replace(indices, other, 1) for other in _other_indices(indices))
        case ast.Call(ast.Attribute(_, "transpose" | "swapaxes" | "moveaxis"), [first, *_]):
            yield f"({of(first)})"


def _other_indices(indices: str) -> Iterator[str]:
    """An einsum with two indices of one operand swapped."""
    operands, arrow, result = indices.partition("->")
    parts = operands.split(",")
    for number, part in enumerate(parts):
        if len(part) > 1 and part[-1] != part[-2] and part[-2:].isalpha():
            swapped = [*parts[:number], part[:-2] + part[-1] + part[-2], *parts[number + 1 :]]
            yield ",".join(swapped) + arrow + result


def _mutant(root: Path, source: str, file: str, start: int, end: int, replacement: str) -> Mutant:
    """The mutant of an edit: its text is of whole lines, and of as many as it takes to be unique."""
    line = source.count("\n", 0, start) + 1
    first, last = source.rfind("\n", 0, start) + 1, source.find("\n", end)
    last = len(source) if last < 0 else last
    while source.count(source[first:last]) > 1 and first > 0:
        first = source.rfind("\n", 0, first - 1) + 1
    old = " ".join(source[start:end].split())
    return Mutant(
        name=f"{Path(file).name}:{line}: {old[:30]}",
        file=file,
        text=source[first:last],
        replacement=source[first:start] + replacement + source[end:last],
        tests=tuple(tests_of(root, file, source, line)),
        breaks=f"{old} -> {' '.join(replacement.split())}",
    )


def tests_of(root: Path, file: str, source: str, line: int) -> list[str]:
    """Tests for a line, of its room and beside the rooms: those that name most of what is around it.

    If none does, all of its room; none, if no test is of its room.
    """
    room = Mutant("", file, "", "", (), "").room
    words = {Path(file).stem.strip("_"), *_names_around(source, line)}
    ranked = []
    folder = root / "tests"
    for path in sorted([*folder.glob(f"{room}/**/test_*.py"), *folder.glob("test_*.py")]):
        text = set(_NAMED.findall(path.read_text(encoding="utf-8")))
        own = room in path.relative_to(folder).parts
        if hits := len(words & text):
            ranked.append((-hits - own, path.stat().st_size, str(path.relative_to(folder))))
    if not ranked:
        ranked = [
            (0, 0, str(path.relative_to(folder))) for path in sorted(folder.glob(f"{room}/**/test_*.py"))
        ]
    return [name for *_, name in sorted(ranked)[:MOST_FILES]]


def _names_around(source: str, line: int) -> set[str]:
    """The classes and functions around a line, and, of a private function, all public ones of the file."""
    found: set[str] = set()
    tree = ast.parse(source)
    kinds = ast.ClassDef | ast.FunctionDef
    for node in ast.walk(tree):
        if isinstance(node, kinds) and node.lineno <= line <= (node.end_lineno or 0):
            found.add(node.name)
    if not any(not name.startswith("_") for name in found):
        found |= {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
    return {name.removesuffix("_at").strip("_") for name in found}


def _inside(text: str) -> str:
    return text if text.isidentifier() else f"({text})"


def _is_text(node: ast.BinOp) -> bool:
    """Whether texts, lists or tuples are joined or repeated, not numbers."""
    kinds = ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp
    sides = (node.left, node.right)
    return any(
        isinstance(x, kinds) or (isinstance(x, ast.Constant) and isinstance(x.value, str)) for x in sides
    )


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
    if done.returncode:
        raise MutantError(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
