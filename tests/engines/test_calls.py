"""What brings arrays to compiled functions: the registry, workspaces, pieces for threads."""

import gc
import threading

import numpy as np
import pytest
from numba import njit

from connections.engines import registry, thread_chunks
from connections.engines.arguments import as_rows, base_ndarray, copied_if_overlapping
from connections.engines.threads import get_num_threads, set_num_threads
from connections.engines.workspaces import Workspaces, aligned, with_workspace


@njit
def doubled(x, out):
    out[:] = 2.0 * x
    return True


def test_a_function_is_compiled_at_its_first_use_for_its_types_only():
    found = []

    def find(name):
        found.append(name)
        return doubled, (np.zeros(0), np.zeros(0))

    functions = registry.Registry(["doubled"], find, lambda name: None)
    assert not found and not doubled.signatures
    out = np.zeros(3)
    assert functions.doubled(np.arange(3.0), out) and out.tolist() == [0.0, 2.0, 4.0]
    assert functions.require("doubled") is functions.doubled and found == ["doubled"]
    for other in (np.arange(3), np.zeros((2, 2)), np.arange(3.0).astype(">f8"), [1.0]):
        with pytest.raises(TypeError):
            functions.doubled(other, out)
    assert len(doubled.signatures) == 1
    for other in ("_hidden", "trebled"):
        with pytest.raises(AttributeError):
            getattr(functions, other)


@pytest.mark.parametrize("enabled", [True, False])
def test_nothing_is_collected_while_a_function_is_loaded(enabled):
    """Afterwards the collector is as it was, also if loading failed."""
    seen = []

    def find(name):
        seen.append(gc.isenabled())
        raise LookupError(name)

    functions = registry.Registry(["doubled"], find, lambda name: None)
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(LookupError):
            functions.require("doubled")
        assert seen == [False] and gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_workspaces_are_kept_and_never_shared():
    spaces = Workspaces(lambda: aligned(3, 4))
    first, second = spaces.take(), spaces.take()
    assert first is not second and first.shape == (3, 4) and not np.shares_memory(first, second)
    spaces.give_back(first)
    assert spaces.take() is first
    memory = with_workspace(np.arange(3.0), 2)
    assert memory.tolist() == [0.0, 1.0, 2.0, 0.0, 0.0] and memory.ctypes.data % 64 == 0


@pytest.mark.parametrize("worth", [0.0, np.inf], ids=["several threads", "one thread"])
def test_pieces_cover_all_rows_once(monkeypatch, worth):
    """Also if the rest is not worth a thread; a bad row counts among the first ones, and among the last."""
    monkeypatch.setattr("connections.engines.thread_chunks.WORTH_A_THREAD", worth)
    threads = get_num_threads()
    for count in (1, 3):
        set_num_threads(count)
        for rows in (0, 5, 1000):
            filled, lock = np.zeros(rows, dtype=int), threading.Lock()

            def fill(piece, filled=filled, lock=lock):
                with lock:
                    filled[piece] += 1
                return True

            assert thread_chunks.fill_chunks(rows, fill) and (filled == 1).all()
            assert thread_chunks.fill_chunks(rows, lambda piece: piece.stop < 900) is (rows < 900)
            assert not thread_chunks.fill_chunks(rows, lambda piece: piece.start > 0)
    set_num_threads(threads)


def test_arguments_made_ready():
    x = np.arange(6.0).reshape(2, 3)
    assert as_rows(x, (4, 2)).shape == (8, 3) and as_rows(x, (4, 2)).flags.c_contiguous
    assert base_ndarray(x) is x and base_ndarray(x.T) is not x.T and base_ndarray(x.T).flags.c_contiguous
    one, other = copied_if_overlapping((x, np.ones(2)), x[:1])
    assert not np.shares_memory(one, x) and (one == x).all() and other.shape == (2,)
