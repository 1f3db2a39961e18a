"""The layout of a store's arrays: one for each output, and the checksums of the chunks.

The layout on disk is compared with the store's description before any values are read, because with another
type, shape or byte order the same files would give other values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connections.sweeps.errors import StoreError

CHECKSUMS = "checksums"
_COMPRESSION = ("zstd",)  # chunks are compressed or not; the level does not matter to a reader


def create_arrays(
    group: Any, described: Mapping[str, Any], dims: Mapping[str, tuple[str, ...]], compress: bool
) -> None:
    """Create the empty arrays of a store.

    Parameters
    ----------
    group : Zarr's group in which they are created.
    described : the store's `description`.
    dims : {output: a name for every axis after the first}.
    compress : whether to compress chunks (Zstandard).
    """
    rows, chunk = described["rows"], described["chunk"]
    for name, (shape, dtype) in described["outputs"].items():
        group.create_array(
            name,
            shape=(rows, *shape),
            chunks=(chunk, *(max(1, size) for size in shape)),
            dtype=dtype,
            dimension_names=("row", *(f"{name}_{dim}" for dim in dims[name])),
            compressors="auto" if compress else None,
        )
    columns = columns_of(described)
    group.create_array(
        CHECKSUMS,
        shape=(-(-rows // chunk), len(columns)),
        chunks=(1, len(columns)),
        dtype="uint64",
        fill_value=0,
        dimension_names=("chunk", "array"),
        compressors=None,
        attributes={"columns": columns},
    )


def columns_of(described: Mapping[str, Any]) -> list[str]:
    """The names of the arrays whose checksums are the columns."""
    return [*described["outputs"], *(f"input {name}" for name in described["inputs"])]


def require_layout(group: Any, described: Mapping[str, Any]) -> None:
    """Raise `StoreError` unless the arrays of a group have the described layout.

    Parameters
    ----------
    group : Zarr's group.
    described : its description.
    """
    import zarr

    wanted = zarr.create_group(zarr.storage.MemoryStore())
    dims = {name: tuple(map(str, range(len(shape)))) for name, (shape, _) in described["outputs"].items()}
    create_arrays(wanted, described, dims, compress=False)
    for name in (*described["outputs"], CHECKSUMS):
        here = _facts(wanted[name])
        try:
            there = _facts(group[name])
        except Exception as error:  # any error of Zarr about damaged metadata
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise StoreError(f"the metadata of '{name}' cannot be read ({reason})") from error
        for fact in here:
            if there.get(fact) != here[fact]:
                raise StoreError(f"the {fact} of '{name}' is {there.get(fact)}, not {here[fact]}")
    columns = group[CHECKSUMS].attrs.get("columns")
    if columns != columns_of(described):
        raise StoreError(f"the columns of '{CHECKSUMS}' are {columns}, not {columns_of(described)}")


def _facts(array: Any) -> dict[str, Any]:
    """The metadata of an array about its bytes and its axes."""
    facts: dict[str, Any] = dict(array.metadata.to_dict())
    del facts["attributes"]
    codecs = [dict(codec) for codec in facts["codecs"]]
    if len(codecs) > 1 and codecs[-1]["name"] in _COMPRESSION:
        codecs.pop()
    # The sweep names further axes; these names begin with the array's.
    own = f"{array.basename}_"
    dims = [f"{own}..." if dim and dim.startswith(own) else dim for dim in facts["dimension_names"] or ()]
    return facts | {"codecs": codecs, "dimension_names": dims}
