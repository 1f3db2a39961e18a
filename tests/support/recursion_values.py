"""Values in place of an argument of a recursion, or of its `out`, by kind: wrong ones, and other layouts.

Each is made from what is right. The tests of arguments try every kind; the fuzz tests draw one, with a
function and a mechanism.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from connections.checks import NonFiniteError, ShapeError


class Wrong(NamedTuple):
    """A wrong value, made from a right one, and the error that it gives."""

    value: Callable[[np.ndarray], Any]
    error: type[Exception]


def replaced(arguments: list[Any], number: int, value: Any) -> list[Any]:
    """The arguments with another one at `number`."""
    return [*arguments[:number], value, *arguments[number + 1 :]]


TOO_LARGE = 1e160  # its square overflows
OTHER_NORMS = (0.0, 1.0001, 2.0, -0.5)  # of quaternions


def overflowing(arguments: list[np.ndarray], row: tuple[int, ...]) -> list[np.ndarray]:
    """A copy of q and of vectors (..., n), of which those of the row are too large."""
    q, *vectors = (x.copy() for x in arguments)
    for x in vectors:
        x[row] = TOO_LARGE
    return [q, *vectors]


def _with(number: float, entry: int) -> Callable[[np.ndarray], np.ndarray]:
    """One number in the last row, which compiled code may read in another way than full registers."""

    def value(x: np.ndarray) -> np.ndarray:
        x = x.copy()
        x.reshape(-1, x.shape[-1])[-1, entry] = number
        return x

    return value


def _objects(x: np.ndarray) -> np.ndarray:
    objects = np.full(x.shape, None)
    objects[...] = object()
    return objects


def _masked(x: np.ndarray) -> np.ma.MaskedArray:
    mask = np.zeros(x.shape, dtype=bool)
    mask[..., -1] = True
    return np.ma.masked_array(x, mask=mask)


#: Sizes; `wrong_kinds` says which of them are right for one joint.
SIZES = {
    "one too few": lambda x: x[..., :-1],
    "one too many": lambda x: np.concatenate([x, x[..., :1]], axis=-1),
    "a number": lambda x: 1.0,
    "a number of NumPy": lambda x: np.float64(1.0),
    "no axes": lambda x: np.zeros(()),
    "nothing": lambda x: np.zeros(0),
    "an empty list": lambda x: [],
    "an empty row": lambda x: [[]],
    "transposed": lambda x: x[None].T,
    "one number": lambda x: np.zeros(1),
    "a list of one number": lambda x: [0.5],
}
#: Numbers that are not finite, at both ends of a row.
NOT_FINITE = {
    "NaN at first": _with(np.nan, 0),
    "NaN at last": _with(np.nan, -1),
    "infinite at first": _with(np.inf, 0),
    "negative infinite at last": _with(-np.inf, -1),
    "an integer beyond float64": lambda x: np.full(x.shape, 10**400).tolist(),
}
#: What is no array of real numbers.
NO_NUMBERS = {
    "text": lambda x: "text",
    "complex": lambda x: x * 1j,
    "objects": _objects,
    "a list of objects": lambda x: _objects(x).tolist(),
    "a dictionary": lambda x: {},
    "numbers as text": lambda x: x.astype(str),
    "rows of two lengths": lambda x: [[1.0], []],
    "None": lambda x: None,
    "a hidden number": _masked,
}
WRONG = {
    kind: Wrong(value, error)
    for kinds, error in ((SIZES, ShapeError), (NOT_FINITE, NonFiniteError), (NO_NUMBERS, TypeError))
    for kind, value in kinds.items()
}


def _locked(out: np.ndarray) -> np.ndarray:
    out = out.copy()
    out.flags.writeable = False
    return out


def _type(dtype: Any) -> Callable[[np.ndarray], np.ndarray]:
    return lambda out: np.empty(out.shape, dtype=dtype)


def wrong_kinds(right: np.ndarray) -> list[str]:
    """The kinds of `WRONG` that are wrong in place of it: of one joint, one number is right."""
    shapes = {kind: np.shape(value(right)) for kind, value in SIZES.items()}
    return [kind for kind in WRONG if shapes.get(kind, ())[-1:] != right.shape[-1:]]


#: For an `out`; `is_right` says which of them a result of few axes or entries takes.
WRONG_OUT = {
    kind: Wrong(value, error)
    for error, kinds in {
        ShapeError: {
            "one too many": lambda out: np.empty((*out.shape[:-1], out.shape[-1] + 1)),
            "of more rows": lambda out: np.empty((2, *out.shape)),
            "of one row": lambda out: np.empty((1, *out.shape)),
            "without the first axis": lambda out: np.empty(out.shape[1:]),
            "in one axis": lambda out: np.empty(out.size),
            "with a last axis of one": lambda out: np.empty((*out.shape, 1)),
            "with an axis of one before the last": lambda out: np.empty((*out.shape[:-1], 1, out.shape[-1])),
            "axes in another order": lambda out: np.empty(out.shape[::-1]),
        },
        TypeError: {
            "float32": _type(np.float32),
            "integers": _type(np.int64),
            "complex": _type(complex),
            "objects": _type(object),
            "of another byte order": _type(">f8"),
            "a list": lambda out: out.tolist(),
            "a list of it": lambda out: [out],
            "a tuple of three": lambda out: (out,) * 3,
            "a number": lambda out: 1.0,
            "text": lambda out: "out",
            "a boolean": lambda out: True,
        },
        ValueError: {
            "every second": lambda out: np.empty((*out.shape[:-1], 2 * out.shape[-1]))[..., ::2],
            "read-only": _locked,
            "Fortran order": lambda out: np.empty(out.shape, order="F"),
        },
    }.items()
    for kind, value in kinds.items()
}


def is_right(out: Any, shape: tuple[int, ...]) -> bool:
    """Whether it can be filled after all: few entries or axes may have the same shape, order or layout."""
    return (
        type(out) is np.ndarray
        and out.dtype == np.float64
        and out.shape == shape
        and bool(out.flags.c_contiguous and out.flags.writeable)
    )


def _strided(x: np.ndarray) -> np.ndarray:
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]))
    wide[..., ::2] = x
    return wide[..., ::2]


#: Other layouts of the same numbers.
LAYOUTS = {
    "list": lambda x: x.tolist(),
    "tuple of rows": lambda x: tuple(x.tolist()),
    "strided": _strided,
    "reversed": lambda x: np.ascontiguousarray(x[..., ::-1])[..., ::-1],
    "Fortran order": np.asfortranarray,
    "read-only": _locked,
    "big-endian": lambda x: x.astype(">f8"),
    "unaligned": lambda x: np.frombuffer(b"0" + x.tobytes(), dtype=np.float64, offset=1).reshape(x.shape),
    "masked, nothing hidden": np.ma.masked_array,
}
