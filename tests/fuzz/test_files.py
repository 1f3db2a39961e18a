"""Mutated descriptions of robots: a model with finite numbers, or an error that names the file.

`FUZZ_EXAMPLES=20000 FUZZ_SEED=new pytest tests/fuzz/test_files.py` tries others (`fuzz_settings`).
"""

import warnings

import numpy as np
import pytest
from fuzz_files import broken, originals
from fuzz_settings import fuzzed, limit
from hypothesis import given
from hypothesis import strategies as st

from connections import multibody as mb
from connections.checks import ClosureError, MetricError, ModelError

ORIGINALS = originals()


def load(path):
    return mb.from_mjcf(path) if path.suffix == ".xml" else mb.from_urdf(path)


@pytest.mark.parametrize("name", ORIGINALS)
def test_the_originals_are_right(name, tmp_path):
    path = tmp_path / name
    path.write_text(ORIGINALS[name])
    model = load(path)
    assert np.isfinite(mb.mass_matrix(model, model.neutral())).all()


@pytest.mark.timeout(limit())
@fuzzed(60)
@given(data=st.data())
def test_a_mistake_is_named(data, tmp_path):
    name = data.draw(st.sampled_from(sorted(ORIGINALS)))
    path = tmp_path / name
    path.write_bytes(data.draw(broken(ORIGINALS[name])))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = load(path)
        except ModelError as error:
            assert name in str(error)
            return
    try:
        H = mb.mass_matrix(model, model.neutral())
    except (ClosureError, MetricError):
        return
    assert np.isfinite(H).all()
