"""What every test shares: seeds taken from the test's own name, no display, hypothesis without deadlines."""

import os
import zlib

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import hypothesis  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402

# Compilation makes the first example slow; the same examples run everywhere.
hypothesis.settings.register_profile("connections", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.load_profile("connections")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator seeded from the test's id: the same numbers alone, in the suite, and on every machine."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))
