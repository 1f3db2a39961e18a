"""Old names still work, with a warning that says the new one; nothing of ours uses them."""

import ast
import importlib
import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from pages import ROOT

from connections import multibody as mb
from connections._moved import MOVED
from connections.control.whole_body.robot_state import RobotState

OLD = [(module, name, new) for module, names in MOVED.items() for name, new in names.items()]
#: As users and pages import a room.
SHORT = {"connections": "cn", "connections.multibody": "mb"}
LISTS = {"connections/_moved.py", "docs/changelog.md", "tests/test_moved.py"}  # of old names


def named(full: str) -> object:
    room, _, own = full.rpartition(".")
    return getattr(importlib.import_module(room), own)


def behind(module: str) -> set[str]:
    """A module's name as a text may have it."""
    room = module.rpartition(".")[2]
    return {module, room, SHORT.get(module, room)}


#: Patterns begin with fixed texts, which are searched fast; what may not stand before them is asked later.
USES = [
    re.compile(rf"{re.escape(name)}\.(?:{'|'.join(names)})\b")
    for module, names in MOVED.items()
    for name in behind(module)
]
IMPORTS = {module: re.compile(rf"from {re.escape(module)} import (\([^)]*\)|[^\n(]+)") for module in MOVED}


def old_names_in(text: str) -> list[str]:
    """The old names of rooms that a text imports, or has behind the name of their room."""
    uses = [use for pattern in USES for use in pattern.finditer(text)]
    found = [use[0] for use in uses if not re.match(r"[\w.]", text[: use.start()][-1:])]
    for module, imports in IMPORTS.items():
        for names in imports.findall(text):
            each = re.findall(r"(\w+)(?: as \w+)?", names)
            found += [f"{module}.{name}" for name in each if name in MOVED[module]]
    return found


@pytest.mark.parametrize(("module", "old", "new"), OLD)
def test_an_old_name_gives_the_same_object_and_says_the_new_one(module: str, old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{re.escape(new)};") as told:
        found = getattr(importlib.import_module(module), old)
    assert found is named(new)
    assert [each.filename for each in told] == [__file__]
    assert old not in dir(importlib.import_module(module))


def test_a_bias_is_without_gravity() -> None:
    """C v + g of a robot's state has the name that `mb` gives it; the old one warns at its caller's line."""
    robot = mb.example("arm")
    state = RobotState(robot, robot.neutral(), np.ones(robot.nv))
    with pytest.warns(DeprecationWarning, match="nonlinear_effects;") as told:
        assert state.bias is state.nonlinear_effects
    assert told[0].filename == __file__
    np.testing.assert_array_equal(state.nonlinear_effects, mb.nonlinear_effects(robot, state.q, state.v))
    assert np.abs(state.nonlinear_effects - robot.system().bias(state.q, state.v)).max() > 1.0  # gravity


def test_a_name_that_never_was_is_an_error() -> None:
    with pytest.raises(AttributeError, match="'connections.multibody' has no attribute 'Limmits'"):
        _ = mb.Limmits


def test_imports_of_old_names_warn_once_at_their_own_line() -> None:
    """A script, with the filter by which Python shows these warnings of scripts only."""
    script = (
        "from connections.multibody import Limits\n"
        "from connections.control import Closure\n"
        "for _ in range(3):\n"
        "    from connections import control; control.GainError\n"
    )
    with warnings.catch_warnings(record=True) as told:
        warnings.resetwarnings()
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("default", category=DeprecationWarning, module="__main__")
        exec(compile(script, "script.py", "exec"), {"__name__": "__main__"})
    new = [re.search(r" is now connections\.([\w.]+);", str(each.message)) for each in told]
    assert [
        (each.filename, each.lineno, found and found[1]) for each, found in zip(told, new, strict=True)
    ] == [
        ("script.py", 1, "multibody.joints.Limits"),
        ("script.py", 2, "control.controllability.LieClosure"),
        ("script.py", 4, "control.errors.GainError"),
    ]


def test_an_import_asks_twice_and_warns_once() -> None:
    """`from room import name` asks the room whether it has the name, and then for it."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        exec("from connections.multibody import Limits")
    assert len(told) == 1


def test_a_test_with_an_old_name_passes() -> None:
    """The filters that turn the package's warnings into errors let these pass, whoever causes them."""
    with warnings.catch_warnings(record=True) as told:
        with pytest.raises(UserWarning):
            warnings.warn_explicit("wrong", UserWarning, "f.py", 1, "connections.f")
        with pytest.raises(DeprecationWarning):
            warnings.warn_explicit("jax is now numpy;", DeprecationWarning, "f.py", 1, "connections.f")
        text = "connections.multibody.Limits is now connections.multibody.joints.Limits; the old"
        warnings.warn_explicit(text, DeprecationWarning, "f.py", 1, "connections.f")
    assert len(told) == 1


@pytest.mark.parametrize(("module", "old", "new"), [each for each in OLD if isinstance(named(each[2]), type)])
def test_a_pickle_with_an_old_name_is_read(module: str, old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match="is now"):
        assert pickle.loads(f"c{module}\n{old}\n.".encode()) is named(new)


def test_nothing_of_ours_uses_an_old_name() -> None:
    folders = [ROOT / name for name in ("connections", "docs", "examples", "tests")]
    files = [*ROOT.glob("*.md"), *(path for folder in folders for path in folder.rglob("*.*"))]
    texts = [
        path
        for path in files
        if path.suffix in {".py", ".md", ".ipynb", ".toml"} and not {"_build", "gallery"} & {*path.parts}
    ]
    found = {str(path.relative_to(ROOT)): old_names_in(path.read_text()) for path in texts}
    assert {name: old for name, old in found.items() if old and name not in LISTS} == {}
    assert len(texts) > 900


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("limits = mb.Limits(model)", ["mb.Limits"]),
        ("`control.GainError`", ["control.GainError"]),
        (
            "from connections.multibody import (\n    Free,\n    Motor as M,\n)",
            ["connections.multibody.Motor"],
        ),
        ("mb.joints.Limits, model.Limits, control.errors.GainError, mb.loads, mb.load", []),
        ("from connections.multibody.joints import Limits", []),
    ],
)
def test_old_names_are_found(text: str, old: list[str]) -> None:
    assert old_names_in(text) == old


def test_modules_with_old_names_answer_to_them() -> None:
    """Each module with rows calls `keep_old_names` as its last statement."""
    for module in MOVED:
        path = Path(importlib.import_module(module).__file__)
        last = ast.unparse(ast.parse(path.read_text()).body[-1])
        assert last.lstrip("_") == "keep_old_names(__name__)", module
