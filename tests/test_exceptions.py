"""Every exception and warning of the package through pickle, copies and processes: type, text, attributes."""

import copy
import importlib
import multiprocessing
import pickle
import pkgutil
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

import connections
from connections import control
from connections import multibody as mb
from connections.checks import ShapeError
from connections.multibody.assembly.whole_joints import Split

PROGRAMS = (
    "connections.interop.adaptors.runner",
    "connections.cli.__main__",
    "connections.interop.geomstats.equipped",  # geomstats is found for it first
)
#: Of those with a constructor of their own.
ARGUMENTS = {
    "ShapeError": ("q", ("...", 2), (3,)),
    "StabilizabilityError": ("no input reaches", np.array([1.0]), np.eye(2)[:, :1], ["tilt", "spin"]),
    "WholeJointError": ("one loop", Split("hip", (mb.Revolute((0, 0, 1)),), None, "add_joint(...)")),
    "Hole": (0.3, np.inf),
    "InputRefused": (mb.mass_matrix, (mb.example("arm"), [np.nan] * 6)),
}


def exceptions() -> dict[str, type[BaseException]]:
    """All that modules of the package define, by full name."""
    found = {}
    for info in pkgutil.walk_packages(connections.__path__, "connections."):
        if info.name not in PROGRAMS:
            for thing in vars(importlib.import_module(info.name)).values():
                if isinstance(thing, type) and issubclass(thing, BaseException):
                    if thing.__module__.startswith("connections"):
                        found[f"{thing.__module__}.{thing.__qualname__}"] = thing
    return found


def fallen():
    """A plant's error with its motion."""
    dog = mb.example("quadruped")
    plant = control.MuJoCoPlant(control.MuJoCoRobot.of(dog), fallen={"trunk": -0.0001})
    plant.simulate(lambda t, q, v: np.zeros(12), dog.neutral(), np.zeros(18), duration=0.1)


def made(kind: type[BaseException]) -> BaseException:
    """An exception of a kind, with attributes as the library gives them."""
    if kind.__name__ == "FallenError":
        with pytest.raises(kind) as caught:
            fallen()
        return caught.value
    own = "__init__" in vars(kind)
    error = kind(*(ARGUMENTS[kind.__name__] if own else ("joint 'hip\x1b': a message\nof two lines",)))
    vars(error).setdefault("failed", ((0,), (2,)))
    error.add_note("while it was tested")
    return error


def state(error: BaseException) -> tuple:
    """What has to be the same; arrays and objects as their pickles."""
    attributes = {name: value for name, value in vars(error).items() if not name.startswith("_")}
    return type(error), str(error), error.args, pickle.dumps(attributes), getattr(error, "__notes__", [])


@pytest.mark.parametrize("name", exceptions())
def test_an_exception_is_the_same_in_another_process_and_as_a_copy(name):
    error = made(exceptions()[name])
    ways = [lambda x, k=k: pickle.loads(pickle.dumps(x, k)) for k in range(pickle.HIGHEST_PROTOCOL + 1)]
    for again in (way(error) for way in (*ways, copy.copy, copy.deepcopy)):
        assert again is not error and state(again) == state(error)
        assert state(pickle.loads(pickle.dumps(again))) == state(error)


def raised(kind: type[BaseException]) -> None:
    """What a worker does."""
    raise made(kind)


def test_a_pool_of_processes_gives_the_error_of_its_worker():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        with pytest.raises(control.errors.StabilizabilityError) as caught:
            pool.map_async(raised, [control.errors.StabilizabilityError]).get(120)
    assert caught.value.directions.shape == (2, 1)


@pytest.mark.further
def test_an_executor_is_not_broken_by_an_error_of_its_worker():
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        for kind in (ShapeError, control.errors.FallenError):
            with pytest.raises(kind):
                pool.submit(raised, kind).result(120)
