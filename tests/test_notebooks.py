"""The notebooks in examples/ run as in a browser, and moving their sliders compiles nothing."""

import json
import os
import sys
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import run_kernel

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))

#: Before the notebook's own cells: what is compiled is counted.
COUNT = """
import jax

compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, *rest, **more: compiled.append(name) if "backend_compile_duration" in name else None
)
"""

#: After them: each slider is moved, and what `shown` holds is compared with what it held.
MOVE = """
import json
import sys
import time

import jax.numpy as jnp
import numpy as np


def changed(before):
    return {name: float(np.abs(shown[name] - values).max()) for name, values in before.items()}


first, moved, seconds = len(compiled), [], time.perf_counter()
for slider in sliders.values():
    before = shown
    slider.value += 0.5
    moved.append(changed(before))
again, seconds = len(compiled) - first, (time.perf_counter() - seconds) / len(sliders)
family.sweep(np.zeros((1, 4)), lambda nabla: jnp.sum(nabla.torsion(q)))  # another quantity
other = len(compiled) - first - again
print(json.dumps([sys.executable, first, again, other, moved, seconds]))
"""


@pytest.mark.further
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_sliders_compile_nothing(path, tmp_path, monkeypatch):
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")  # the kernel of this Python
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    cells = nbformat.read(path, as_version=4).cells
    codes = [COUNT, *(cell.source for cell in cells if cell.cell_type == "code"), MOVE]
    lines = printed(codes, tmp_path).splitlines()
    executable, first, again, other, moved, seconds = json.loads(lines[-1])
    print(f"{seconds:.2f} s for a move of a slider")
    assert Path(executable) == Path(sys.executable)
    assert first > 0 and again == 0 and other > 0
    assert len(moved) == 4
    for changes in moved:
        assert changes and all(change > 1e-6 for change in changes.values()), changes


def printed(codes: list[str], folder: Path) -> str:
    """What cells print that run one after the other in a kernel of this Python."""
    parts: list[str] = []

    def hear(message: dict) -> None:
        parts.append(message["content"]["text"] if message["msg_type"] == "stream" else "")

    with run_kernel(kernel_name="python3", cwd=folder) as client:
        for code in codes:
            reply = client.execute_interactive(code, timeout=90, output_hook=hear)["content"]
            assert reply["status"] == "ok", "\n".join(reply["traceback"])
    return "".join(parts)


def test_there_is_a_notebook_and_none_has_outputs():
    assert NOTEBOOKS
    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        codes = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert not any(cell.outputs or cell.execution_count for cell in codes)
