"""Every proposition is in one group; a group is as good as the worst of its rows."""

from __future__ import annotations

from collections import Counter

import pytest

from connections import verify
from connections.checks import Check
from connections.verify import FAILS, GROUPS, HOLDS, INCONCLUSIVE, Row, by_group
from connections.verify.propositions import CATALOGUE, NONHOLONOMIC_ORDER, ORDER

NAN = float("nan")


def row(key: str, residual: float, control: float, subject: str = "sphere") -> Row:
    numbers = (Check(key, number, 1.0, 1e-9) for number in (residual, control))
    return Row(subject, key, "one thing is another", *numbers, 0.1)


def keys_of(groups: tuple[verify.Group, ...]) -> Counter[str]:
    return Counter(key for group in groups for key in group.keys)


def test_every_proposition_is_in_exactly_one_group() -> None:
    once = Counter(item.key for item in CATALOGUE)
    assert keys_of(GROUPS) == once == Counter([*ORDER, *NONHOLONOMIC_ORDER])
    assert keys_of(GROUPS[1:]) != once and keys_of((*GROUPS, GROUPS[0])) != once  # the controls


def test_a_group_is_about_one_kind_of_systems() -> None:
    kinds = {item.key: item.kind for item in CATALOGUE}
    for group in GROUPS:
        assert len({kinds[key] for key in group.keys}) == 1, group.statement


def test_statements_fit_into_a_line() -> None:
    statements = [group.statement for group in GROUPS]
    assert max(map(len, statements)) <= 42 and len(set(statements)) == len(statements)


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        ([(1e-13, 0.5), (1e-11, 0.3)], HOLDS),
        ([(1e-13, 0.5), (1e-11, 3e-4)], INCONCLUSIVE),
        ([(1e-13, 3e-4), (1e-3, 0.5)], FAILS),
        ([(NAN, 0.5), (1e-11, 0.5)], FAILS),
    ],
)
def test_a_group_has_the_worst_of_its_rows(measured: list[tuple[float, float]], verdict: str) -> None:
    rows = [row(key, *numbers) for key, numbers in zip(("(29)", "(31)"), measured, strict=True)]
    (found,) = by_group([*rows, row("(29)", 1e-14, 0.9, "robot")])
    assert (found.verdict, found.checks, found.systems) == (verdict, 3, 2)
    assert found.residual == pytest.approx(
        max(measured)[0] if measured[0][0] == measured[0][0] else NAN, nan_ok=True
    )
    assert found.control == min(control for _, control in measured)


def test_groups_are_in_their_order_and_only_those_that_were_measured() -> None:
    found = by_group([row("(19)", 0.0, 1.0), row("A2", 0.0, 1.0), row("A1", 0.0, 1.0)])
    assert [group.checks for group in found] == [2, 1]
    assert by_group([]) == []
