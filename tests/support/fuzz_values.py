"""Values that nobody expects in place of an array, and what may come of them.

`PLAIN` are other ways to write an array that is right: the result must be that of the array. `HOSTILE` are
numbers that are wrong, or right only by luck; `bad_values` has what is none. A call may return finite
numbers, or raise one of our errors, or a `TypeError`
or `ValueError` that names the argument; `complaint` says what else happened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from connections import checks, control

OURS = (
    *(getattr(checks, name) for name in checks.__all__ if name.endswith("Error")),
    control.errors.GainError,
    control.errors.StabilizabilityError,
)
TOLERANCE = 1e-7  # of results for other ways to write the same array


def _read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.setflags(write=False)
    return x


#: Name: the same numbers in another form.
PLAIN: dict[str, Callable[[np.ndarray], Any]] = {
    "list": lambda x: x.tolist(),
    "objects": lambda x: x.astype(object),
    "long double": lambda x: x.astype(np.longdouble),
    "other byte order": lambda x: x.astype(x.dtype.newbyteorder()),
    "every second": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "backwards": lambda x: np.ascontiguousarray(x[..., ::-1])[..., ::-1],
    "Fortran's order": np.asfortranarray,
    "read only": _read_only,
    "JAX's": jnp.asarray,
    "masked, nothing hidden": np.ma.masked_array,
}

#: Name: a value made from an array that is right.
HOSTILE: dict[str, Callable[[np.ndarray], Any]] = {
    "NaN": lambda x: np.full_like(x, np.nan),
    "one NaN": lambda x: np.where(np.arange(x.size).reshape(x.shape) == x.size - 1, np.nan, x),
    "infinite": lambda x: np.where(np.arange(x.size).reshape(x.shape) == 0, -np.inf, x),
    "1e200 times": lambda x: 1e200 * x,
    "1e160 everywhere": lambda x: np.full_like(x, 1e160),
    "1e308 everywhere": lambda x: np.full_like(x, -1e308),
    "1e-320 everywhere": lambda x: np.full_like(x, 1e-320),
    "booleans": lambda x: x.astype(bool),
    "integers": lambda x: x.astype(int),
    "float16": lambda x: x.astype(np.float16),
    "one too few": lambda x: x[..., :-1],
    "one too many": lambda x: np.concatenate([x, x[..., -1:]], axis=-1),
    "a number": lambda x: 1.0,
    "an empty batch": lambda x: np.zeros((0, *x.shape)),
    "two empty batches": lambda x: np.zeros((2, 0, *x.shape)),
    "nothing": lambda x: np.zeros(0),
    "a batch": lambda x: np.stack([x, x]),
    "a set": lambda x: {1, 2},
    "a generator": lambda x: (number for number in x),
}

#: Name: an `out` made from one that is right.
OUT: dict[str, Callable[[np.ndarray], Any]] = {
    "[]": lambda out: [],
    "a list": lambda out: out.tolist(),
    "a string": lambda out: "out",
    "a number": lambda out: 0.0,
    "float32": lambda out: out.astype(np.float32),
    "integers": lambda out: np.zeros(out.shape, int),
    "complex": lambda out: out.astype(complex),
    "objects": lambda out: out.astype(object),
    "other byte order": lambda out: out.astype(out.dtype.newbyteorder()),
    "one axis more": lambda out: out[..., None],
    "one too few": lambda out: out[..., :-1],
    "every second": lambda out: np.zeros((*out.shape, 2))[..., 0],
    "read only": _read_only,
    "JAX's": jnp.asarray,
    "a record": lambda out: np.zeros(out.shape, dtype=[("a", float)]),
}

_NUMBERS = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 1e-320, 1e-160, 1e30, -1e160, 1e308, np.nan, np.inf])
_DTYPES = st.sampled_from([np.float64, np.float64, np.float32, np.int64, np.uint8, np.complex128, np.bool_])


@st.composite
def random_arrays(draw: Any) -> np.ndarray:
    """Arrays of any small shape, number and type."""
    dtype = draw(_DTYPES)
    shape = draw(arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=8))
    numbers = np.asarray(draw(arrays.arrays(np.float64, shape, elements=_NUMBERS)))
    with np.errstate(all="ignore"):  # of what the other types cannot hold
        return numbers.astype(dtype)


def complaint(name: str, call: Callable[[], Any], expected: Any = None) -> str | None:
    """What is wrong with what a call does with its argument `name`; None if nothing is.

    Parameters
    ----------
    expected : the result, if the argument is right.
    """
    try:
        with np.errstate(all="ignore"):
            result = call()
    except OURS as error:
        return None if expected is None else f"{type(error).__name__}: {error}"
    except (TypeError, ValueError) as error:
        if expected is not None or name not in str(error) or type(error) not in (TypeError, ValueError):
            return f"{type(error).__name__}: {error}"
        return None
    except Exception as error:  # the point of it
        return f"{type(error).__name__}: {error}"
    parts = [np.asarray(part) for part in jax.tree_util.tree_leaves(result)]
    if not all(np.isfinite(part).all() for part in parts if part.dtype.kind == "f"):
        return "a result that is not finite"
    if expected is not None:
        for part, right in zip(parts, jax.tree_util.tree_leaves(expected), strict=True):
            size = np.max(np.abs(right), initial=0.0)
            if part.shape != np.shape(right) or np.max(np.abs(part - right), initial=0.0) > TOLERANCE * size:
                return "another result"
    return None
