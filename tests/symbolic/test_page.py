"""The page docs/symbolic.md is executed."""

import pytest
from pages import run_page


def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    run_page("symbolic.md", blocks=8, assertions=12)
    first, basis, second, third = capsys.readouterr().out.splitlines()
    assert first.split() == ["[a*omega**2", "(-a*m*omega*u", "+", "tau)/J]"]
    assert basis == "[[-y/cos(x), -1/cos(x)], [1, 0], [0, 1]]"
    assert second.startswith("m*(l_1*cos(psi) + l_2)**2")
    assert third == "-c_2*l_1*m_2*sin(q_2)"
