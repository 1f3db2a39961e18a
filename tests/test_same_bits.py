"""Same call, same bits: every public function of `cn`, whatever was called before, anywhere.

One process computes everything here, another in eight threads at once from its start. A batch agrees with its
points to round-off, because XLA may order the terms of a sum in another way.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import always, further
from public_calls import ARGUMENTS, CALLS, FAMILY, FRAME, METRIC, SYSTEM, TIMES, mass, public_names

import connections as cn

THREADS = 8
OTHERS = 5000
#: Calls of some 0.1 ms, among which the caches of 64 places are filled and emptied.
SHORT = (
    "FrameField.matrix",
    "Metric.inner",
    "AffineConnection.coefficients",
    "AffineConnection.torsion",
    "coriolis_matrix",
    "MechanicalSystem.energy",
    "GroupAction.act",
)

#: What is the same at all points of this system.
CONSTANT = {
    "FrameField.structure_functions",
    "ContorsionFamily.beta_of",
    "GroupAction.generators",
    "GroupAction.check_invariant_frame",
    "GroupAction.check_invariant_forms",
    "ReducedSystem.require",
}

each_call = pytest.mark.parametrize("name", always(CALLS, *list(CALLS)[::8]))


def bits(value: Any) -> list[tuple[Any, ...]]:
    arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(value)]
    return [(array.dtype.str, array.shape, array.tobytes()) for array in arrays]


class First(dict[str, Any]):
    """What each function gave when it was called first, which is when that is asked for."""

    def __missing__(self, name: str) -> Any:
        return self.setdefault(name, bits(CALLS[name]()))


@pytest.fixture(scope="module")
def first() -> dict[str, Any]:
    return First()


def test_the_list_is_complete() -> None:
    assert public_names() <= set(CALLS)
    assert set(CALLS) - public_names() == {"SampledCurve"}  # transport along one


@each_call
def test_the_same_call_again(name: str, first: dict[str, Any]) -> None:
    assert bits(CALLS[name]()) == first[name]
    assert first[name] and all(
        np.isfinite(np.frombuffer(data, dtype)).all() for dtype, _, data in first[name]
    )
    # A negative control: the comparison sees arguments. What is the same everywhere is named.
    assert (bits(CALLS[name](1)) == first[name]) == (name in CONSTANT)


@pytest.mark.further
def test_after_many_other_calls(first: dict[str, Any]) -> None:
    before = {name: first[name] for name in CALLS}
    for number, name in enumerate(islice(cycle(SHORT), OTHERS)):
        CALLS[name](number % 3)
    for number in range(70):  # more than an owner keeps
        other = cn.MatrixMetric(FRAME, mass, {"m": 1.0 + number})
        cn.MechanicalSystem(other).bias(ARGUMENTS["q"][1], ARGUMENTS["v"][1])
        cn.geodesic(FAMILY.connection([0.1 * number]), ARGUMENTS["q"][1], ARGUMENTS["v"][1], TIMES)
    for size in range(3):
        METRIC.change(lambda q, size=size: (1.0 + size) * jnp.eye(3)).matrix(ARGUMENTS["q"][1])
        SYSTEM.simulate(ARGUMENTS["q"][1], ARGUMENTS["v"][1], TIMES, lambda t, q, v, size=size: size * v)
    assert {name: bits(call()) for name, call in CALLS.items()} == before


@pytest.mark.further
def test_in_threads(first: dict[str, Any]) -> None:
    for found in in_threads():
        assert found == {name: first[name] for name in CALLS}


def in_threads(step: int = 1) -> list[dict[str, Any]]:
    """Everything, or each function of `step`, in threads that begin at other places."""
    names = list(CALLS)[::step]

    def all_from(start: int) -> dict[str, Any]:
        turned = names[start * len(names) // THREADS :] + names[: start * len(names) // THREADS]
        return {name: bits(CALLS[name]()) for name in turned}

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(all_from, range(THREADS)))


@pytest.mark.further
@pytest.mark.parametrize("step", [further(1), 5])
def test_in_a_new_process(step: int, first: dict[str, Any]) -> None:
    code = (
        "import pickle, sys; sys.path.append('support'); import test_same_bits as t;"
        f" sys.stdout.buffer.write(pickle.dumps(t.in_threads({step})))"
    )
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True)
    assert not found.returncode, found.stderr.decode()
    for of_thread in pickle.loads(found.stdout):
        assert of_thread and of_thread == {name: first[name] for name in of_thread}


BATCHES = [name for name, call in CALLS.items() if call.batches]


@pytest.mark.parametrize("name", always(BATCHES, *BATCHES[::8]))
def test_alone_and_in_a_batch(name: str) -> None:
    call = CALLS[name]
    together = call(slice(None))
    for row in range(3):
        for alone, one in zip(*map(leaves_of, (call(row), row_of(together, row))), strict=True):
            assert np.max(np.abs(one - alone)) <= 1e-12 * np.max(np.abs(alone))


def leaves_of(values: Any) -> list[Any]:
    """The arrays of a result; the drift of a motion, which is round-off of one, beside one."""
    if isinstance(values, cn.Motion) and values.drift is not None:
        values = replace(values, drift=1.0 + values.drift)
    return jax.tree.leaves(values)


def row_of(values: Any, row: int) -> Any:
    """One of the results of a batch; a motion's times belong to all of them."""
    if isinstance(values, cn.Motion):
        return values.member(row)
    return jax.tree.map(lambda many: np.asarray(many)[row], values)
