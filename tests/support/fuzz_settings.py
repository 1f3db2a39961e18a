"""How many examples the fuzz tests draw, and which.

Without variables, everywhere the same few. ``FUZZ_EXAMPLES=400`` draws that many, and ``FUZZ_SEED=7`` others,
which the same seed draws again; ``FUZZ_SEED=new`` takes a seed from the clock and prints it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, seed, settings

EXAMPLES = int(os.environ["FUZZ_EXAMPLES"]) if "FUZZ_EXAMPLES" in os.environ else None
SEED = os.environ.get("FUZZ_SEED")
if SEED == "new":
    SEED = str(time.time_ns())
    print(f"FUZZ_SEED={SEED}")


def fuzzed(examples: int) -> Callable[[Any], Any]:
    """The decorator of a fuzz test that draws `examples` examples if no variable says another number."""
    chosen = settings(
        max_examples=EXAMPLES or examples,
        derandomize=SEED is None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    if SEED is None:
        return chosen
    return lambda test: chosen(seed(int(SEED))(test))


def limit() -> int:
    """Seconds that a fuzz test may take; 0 is any number."""
    return 0 if (EXAMPLES or 0) > 1000 else 300
