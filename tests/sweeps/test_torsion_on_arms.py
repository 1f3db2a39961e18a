"""The motions of docs/torsion_in_control.md: each is repeated by its number; their sweep is resumed."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from connections.sweeps import Store, StoreError, run_sweep

EXAMPLE = Path(__file__).parents[2] / "examples" / "torsion_on_arms.py"
CASE = "20 Hz, 2 ms"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("torsion_on_arms", EXAMPLE)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def interrupt(done, chunks):
    raise KeyboardInterrupt


def test_interrupted_and_resumed(example, tmp_path):
    sizes = {arm.name: {"torsion 10": 3.0} for arm in example.ARMS}
    store, sweep = tmp_path / "arms.zarr", example.sweep(2, [CASE], sizes)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(sweep, store, workers=0, progress=interrupt)
    assert Store(store).finished.tolist() == [True, False]
    summary = run_sweep(sweep, store, workers=0)
    assert summary.computed == (1,) and not summary.repaired
    kept = {arm: array[:] for arm, array in Store(store).arrays.items()}
    second = example.sweep(500, [CASE], sizes).compute(1)  # of any number of motions
    sizes["Panda"]["torsion 10"] = 3.1
    other = example.sweep(2, [CASE], sizes)
    for arm, rows in kept.items():
        assert np.isfinite(rows).all() and not np.array_equal(rows[0], rows[1])
        assert second[arm].tobytes() == rows[1].tobytes()
    assert other.compute(1)["Panda"].tobytes() != second["Panda"].tobytes()
    with pytest.raises(StoreError, match="function"):
        run_sweep(other, store, workers=0)
