"""Memory in which compiled code works."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np


def aligned(*shape: int) -> np.ndarray:
    """Zeros (float64) that begin at a multiple of 64 bytes, the width of a cache line."""
    count = int(np.prod(shape))
    space = np.zeros(count + 8)
    skip = (-space.ctypes.data // 8) % 8
    return space[skip : skip + count].reshape(shape)


def with_workspace(packed: np.ndarray, slots: int = 0) -> np.ndarray:
    """A copy of the array `packed`, followed by `slots` slots of workspace."""
    memory = aligned(len(packed) + slots)
    memory[: len(packed)] = packed
    return memory


class Workspaces:
    """A pool of workspaces, as many as threads use at the same time.

    Parameters
    ----------
    make : makes a workspace.

    Attributes
    ----------
    give_back : returns a workspace to the pool.
    """

    def __init__(self, make: Callable[[], np.ndarray]) -> None:
        self._make, self._free = make, deque[np.ndarray]()
        self.give_back = self._free.append

    def take(self) -> np.ndarray:
        """A workspace that no other thread uses until it is given back."""
        try:
            return self._free.pop()
        except IndexError:
            return self._make()
