"""The reference: every public class and function says how it is called, and has an example that runs."""

import doctest
import inspect
import re
import runpy
from enum import EnumType
from pathlib import Path
from typing import Any

import pytest
from names import called, public_names
from pages import ROOT

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def example_of(name: str, thing: Any) -> doctest.DocTest:
    """What stands behind the prompts of a docstring, to be run in an empty namespace."""
    return doctest.DocTestParser().get_doctest(inspect.getdoc(thing) or "", {}, name, None, None)


def fault_of_example(name: str, thing: Any) -> str | None:
    """Why an example is none: it is missing, outside of its section, or shows no result."""
    heads = re.findall(r"^Examples\n-{8}$", inspect.getdoc(thing) or "", re.MULTILINE)
    lines = example_of(name, thing).examples
    if len(heads) != 1 or not lines:
        return f"{name}: no section Examples with >>>"
    if not any(line.want or line.exc_msg for line in lines):
        return f"{name}: its example shows no result"
    return None


def failures(name: str, thing: Any) -> str:
    """What an example printed in place of what it shows; empty if nothing."""
    told: list[str] = []
    doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(example_of(name, thing), out=told.append)
    return "".join(told)


def fault_of_signature(name: str, thing: Any) -> str | None:
    """Why a signature does not say how something is called: there is none, or a parameter has no type."""
    if inspect.isclass(thing) and issubclass(thing, BaseException):
        return None  # raised by the library, and not called by its users
    if isinstance(thing, EnumType):
        return None  # of codes; its signature is Python's
    try:
        signature = inspect.signature(thing)
    except ValueError:
        return f"{name}: no signature"
    untyped = [name for name, each in signature.parameters.items() if each.annotation is each.empty]
    if untyped:
        return f"{name}: no type of {', '.join(untyped)}"
    kinds = [each.kind for each in signature.parameters.values()]
    if kinds == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]:
        return f"{name}: its signature is {signature}"
    if not inspect.isclass(thing) and signature.return_annotation is signature.empty:
        return f"{name}: no type of what it returns"
    return None


def test_every_public_name_has_an_example() -> None:
    assert [fault for pair in called().items() if (fault := fault_of_example(*pair))] == []


@pytest.mark.further
@pytest.mark.parametrize("name", called())
def test_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert failures(name, called()[name]) == ""


def test_every_public_name_has_a_signature_with_types() -> None:
    assert [fault for pair in called().items() if (fault := fault_of_signature(*pair))] == []


def right(a: float) -> float:
    """Twice a number.

    Examples
    --------
    >>> right(1.0)
    2.0
    """
    return a


def without_result(a: float) -> float:
    """Twice a number.

    Examples
    --------
    >>> a = 1.0
    """
    return a


def test_what_is_missing_is_noticed() -> None:
    assert fault_of_example("right", right) is None and fault_of_signature("right", right) is None
    assert "NameError" in failures("right", right)
    assert "no result" in str(fault_of_example("without_result", without_result))
    assert "no section" in str(fault_of_example("f", lambda a: a))
    assert "no type of a" in str(fault_of_signature("f", lambda a: a))
    vague = type("Vague", (), {"__init__": lambda self, *args, **kwargs: None})
    assert fault_of_signature("Vague", vague) is not None


def of_docs(name: str) -> dict[str, Any]:
    """The names of a file of `docs/`."""
    return runpy.run_path(str(ROOT / "docs" / f"{name}.py"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("C_ik = Gamma_ijk v^j, of it.", r":math:`C_{i k} = \Gamma_{i j k} v^{j}`, of it."),
        (
            "D_ijk = Gamma*_ijk - Gamma_ijk.",
            r":math:`D_{i j k} = \Gamma_{i j k}^{*} - \Gamma_{i j k}`.",
        ),
        ("H vdot + C v + g = tau + F", r":math:`H \dot{v} + C v + g = \tau + F`"),
        ("the inverse (A^-1)^i_l", r"the inverse :math:`( A^{- 1} )_{l}^{i}`"),
        ("Cbar = A^T C A + A^T H A_dot", r":math:`\bar{C} = A^{\top} C A + A^{\top} H \dot{A}`"),
    ],
)
def test_formulas_of_docstrings_become_tex(text: str, shown: str) -> None:
    assert of_docs("formulas")["with_formulas"](text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "The names that `x_i` takes, what a chat is; a four-bar linkage.",
        "q (..., nq) points, in kg, kg m^2, N m and m/s^2; C(n, 3) functions, t_end, body_a, times[0].",
        "C[..., i, k], ``v = A_i`` and `D_ijk`",
    ],
)
def test_text_of_docstrings_stays_text(text: str) -> None:
    assert of_docs("formulas")["with_formulas"](text) == text


def test_errors_of_the_reference_have_reasons() -> None:
    """Those of their classes, if a docstring only names them; what it says itself stays."""
    split = of_docs("reasons")["split_errors"]
    lines = [
        "Raises",
        "ShapeError, PointError (off it); GainError : no gain; MetricError where H is lost. TypeError.",
    ]
    assert list(split(lines)) == [
        "Raises",
        "ShapeError : an array has the wrong shape.",
        "PointError : off it",
        "GainError : no gain; MetricError where H is lost.",
        "TypeError : an argument has another type, or JAX traces what it cannot trace.",
    ]
    assert list(split(["ValueError: what a program prints", "ShapeErrors"])) == [
        "ValueError: what a program prints",
        "ShapeErrors",
    ]
    texts = [inspect.getdoc(thing) or "" for thing in called().values()]
    named = {line for text in texts for line in re.findall(r"^[A-Z]\w+Error\b(?!:).*", text, re.MULTILINE)}
    assert [line for line in split(named) if " : " not in line] == [] and len(named) > 100


def test_every_name_is_in_a_group_of_its_room() -> None:
    found = of_docs("api_build")
    others = {
        room: groups[found["OTHERS"]]
        for room, groups in found["groups"]().items()
        if found["OTHERS"] in groups
    }
    assert others == {}, "docs/name_groups.toml"


def test_words_of_the_search_lead_to_names_and_pages() -> None:
    """The build of the pages warns of a word that its index does not have."""
    words = of_docs("api_build")["words"]()
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert set(words) - public_names() - pages == set()
    known = {word for each in words.values() for word in each}
    assert known >= {
        "event",
        "stop condition",
        "Lie group",
        "SE(2)",
        "neural network",
        "cost",
        "IK",
        "mimic joint",
    }
    assert known >= {"alpha-connection", "turntable", "metric from samples", "publication figure"}
