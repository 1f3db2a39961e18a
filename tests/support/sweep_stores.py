"""Reading, comparing and damaging stores of the sweep in `sweep_functions`."""

from pathlib import Path

import numpy as np
import zarr
from sweep_functions import OUTPUTS


def contents(path: Path) -> dict[str, np.ndarray]:
    group = zarr.open_group(path, mode="r")
    return {name: group[name][:] for name in OUTPUTS}


def same(first: Path, second: Path) -> bool:
    a, b = contents(first), contents(second)
    return all(a[name].tobytes() == b[name].tobytes() for name in OUTPUTS)


def chunk_file(path: Path, name: str, number: int) -> Path:
    (found,) = (
        (path / name / "c").glob(f"{number}*") if name == "row" else (path / name / "c").glob(f"{number}/0")
    )
    return found


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])
