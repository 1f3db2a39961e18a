"""Suppression of the output of other libraries, also from compiled code, so that reports are readable."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def without_output() -> Iterator[None]:
    """Discard the output of libraries, also from C++, and their warnings."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = [os.dup(number) for number in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in (1, 2):
            os.dup2(nowhere, number)
        with (
            warnings.catch_warnings(),
            open(os.devnull, "w") as sink,
            contextlib.redirect_stdout(sink),
            contextlib.redirect_stderr(sink),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)
        os.close(nowhere)
