"""Measured residuals, named errors, and the validation of arguments at the public boundary.

A `Check` is a measurement: a residual beside the terms that entered it before cancellation. Errors
say which argument, joint, body or point is at fault, and derive from `ValueError` when the caller's input is
wrong and from `RuntimeError` when a computation on valid input could not finish.
"""

from __future__ import annotations

import math
import operator
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, ValuesView
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from functools import singledispatch
from inspect import signature
from itertools import chain
from pathlib import Path
from types import UnionType
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from connections._shown import Shown, as_html, shown
from connections._words import (
    INSTEAD,
    alternatives,
    did_you_mean,
    kind_of,
    shape_text,
    with_article,
    words_of,
)

__all__ = [
    "Check",
    "CheckError",
    "ClosureError",
    "ConstraintError",
    "ConvergenceError",
    "FrameError",
    "IntegrationError",
    "MetricError",
    "ModelError",
    "NonFiniteError",
    "PointError",
    "ShapeError",
    "SubjectError",
    "SymmetryError",
]


class ShapeError(Shown, ValueError):
    """An array has the wrong shape.

    Parameters
    ----------
    name : the argument or result.
    expected, got : the shapes; leading batch axes are written as ``...``.

    Examples
    --------
    >>> import connections as cn
    >>> cn.CoordinateFrame(2).matrix([0.0, 1.0, 2.0])
    Traceback (most recent call last):
        ...
    connections.checks.ShapeError: q: expected shape (..., 2), got (3,)
    """

    def __init__(self, name: str, expected: object, got: object) -> None:
        super().__init__(f"{name}: expected shape {shape_text(expected)}, got {shape_text(got)}")
        self.name, self.expected, self.got = name, expected, got


class NonFiniteError(Shown, ValueError):
    """A number is NaN or infinite.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> cn.CoordinateFrame(2).matrix([0.0, np.nan])
    Traceback (most recent call last):
        ...
    connections.checks.NonFiniteError: q[1] is nan: every number must be finite
    """


class MetricError(Shown, ValueError):
    """A metric is not symmetric positive definite at a point.

    Examples
    --------
    >>> import connections as cn
    >>> cn.ConstantMetric(cn.CoordinateFrame(2), [[1.0, 2.0], [2.0, 1.0]])
    Traceback (most recent call last):
        ...
    connections.checks.MetricError: H is not positive definite (smallest eigenvalue ...
    """


class FrameError(Shown, ValueError):
    """A frame lost rank, its brackets leave its span, or objects of different frames were combined.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> metric = cn.ConstantMetric(cn.SO3Frame(), np.eye(3))
    >>> nabla = cn.LeviCivita(cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3)))
    >>> cn.MechanicalSystem(metric, connection=nabla)
    Traceback (most recent call last):
        ...
    connections.checks.FrameError: the metric is in SO3Frame(dim=3, ambient_dim=4), the...
    """


class PointError(Shown, ValueError):
    """An array does not describe a point of the manifold, e.g. a quaternion of norm other than one.

    Examples
    --------
    >>> import connections as cn
    >>> cn.SO3Frame().matrix([0.0, 0.0, 0.0, 2.0])
    Traceback (most recent call last):
        ...
    connections.checks.PointError: q: quaternion (x, y, z, w) of norm 2, expected 1 to...
    """


class ClosureError(PointError):
    """Closed loops cannot close, or are singular, at a configuration; the message names the loop.

    Examples
    --------
    A rod of 0.5 m leads from a crank of 1 m to a slider, which the crank can leave behind.

    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> engine, tip = mb.Mechanism(), np.eye(4)
    >>> tip[0, 3] = 1.0  # m, the crank's end
    >>> engine.add_body("crank", 1.0, (0.5, 0, 0), 0.1 * np.eye(3))
    >>> engine.add_body("slider", 1.0)
    >>> engine.add_joint("motor", "world", "crank", mb.Revolute((0, 0, 1)))
    >>> engine.add_joint("rail", "world", "slider", mb.Prismatic((1, 0, 0)))
    >>> engine.add_loop("rod", "crank", "slider", mb.Distance(0.5), tip, None, ["motor"])
    >>> model = engine.build(reference={"motor": 0.1, "rail": 1.4})
    >>> mb.mass_matrix(model, [1.5])
    Traceback (most recent call last):
        ...
    connections.checks.ClosureError: loop 'rod' cannot close at q = [1.5]: from the ref...
    """


class ConstraintError(Shown, ValueError):
    """Constraint forms lost rank at a point, or a basis does not satisfy them.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> import connections as cn
    >>> plane = cn.ConstantMetric(cn.CoordinateFrame(2), np.eye(2))
    >>> nabla = cn.ConstrainedConnection(plane, forms=lambda q: q[None])
    >>> nabla.coefficients([0.0, 0.0])
    Traceback (most recent call last):
        ...
    connections.checks.ConstraintError: the constraints lost rank (0 of 1 are independe...
    """


class SymmetryError(Shown, ValueError):
    """A tensor lacks the symmetry that its use requires.

    Examples
    --------
    >>> import numpy as np
    >>> import connections as cn
    >>> family = cn.ContorsionFamily(cn.ConstantMetric(cn.CoordinateFrame(3), np.eye(3)))
    >>> family.beta_of(np.ones((3, 3, 3)))
    Traceback (most recent call last):
        ...
    connections.checks.SymmetryError: D is not totally antisymmetric: 1.00e+00 of it li...
    """


class ModelError(Shown, ValueError):
    """A robot description cannot become a model; the message names the joint, the body or the file.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> robot = mb.Mechanism()
    >>> robot.add_body("arm", mass=-1.0)
    Traceback (most recent call last):
        ...
    connections.checks.ModelError: body 'arm': mass is negative: -1 kg
    """


class SubjectError(Shown, ValueError):
    """Nothing to verify or to compute: an unknown system, or a Python file that does not define one.

    The message may have several lines.

    Examples
    --------
    >>> from connections import verify
    >>> verify.system_subject("no-such-robot")
    Traceback (most recent call last):
        ...
    connections.checks.SubjectError: there is no system 'no-such-robot'...
    """


class IntegrationError(Shown, RuntimeError):
    """A differential equation could not be integrated to the requested time.

    Attributes
    ----------
    motion : the partial result, or None. One motion ends at the last requested time that it reached; a batch
        has all times, with NaN after the last one that each motion reached.
    failed : indices in the batch of the motions that failed; ``((),)`` if there is one motion and no batch.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import connections as cn
    >>> H = lambda q: jnp.eye(1) * jnp.sqrt(1 - q[0])  # defined for q < 1 only
    >>> nabla = cn.LeviCivita(cn.MatrixMetric(cn.CoordinateFrame(1), H))
    >>> cn.geodesic(nabla, [0.0], [1.0], [0.0, 9.0])
    Traceback (most recent call last):
        ...
    connections.checks.IntegrationError: geodesic: the curve leaves the domain, blows u...
    """

    motion: Any = None
    failed: tuple[tuple[int, ...], ...] = ()


def keep_motion(error: BaseException, motion: Any) -> None:
    """Store a partial result as the attribute ``motion`` of an exception.

    A `KeyboardInterrupt` is not replaced by another exception, by which shells would not recognize Ctrl-C.

    Parameters
    ----------
    error : an `IntegrationError` or a `KeyboardInterrupt`.
    motion : the partial result, or None.
    """
    vars(error)["motion"] = motion


def kept_motion(error: BaseException) -> Any:
    """The partial result that `keep_motion` stored in an exception, or None."""
    return vars(error).get("motion")


@contextmanager
def kept_as(form: Callable[[Any], Any]) -> Iterator[None]:
    """A block whose exceptions get ``form(motion)`` in place of their ``motion``; None stays None."""
    try:
        yield
    except (IntegrationError, KeyboardInterrupt) as error:
        kept = kept_motion(error)
        keep_motion(error, None if kept is None else form(kept))
        raise


class ConvergenceError(Shown, RuntimeError):
    """An iteration did not converge; no approximate result is returned.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> far = {robot.frame_names[-1]: [9.0, 0.0, 0.0]}  # m, out of reach
    >>> mb.inverse_kinematics(robot, far, robot.neutral()).require()
    Traceback (most recent call last):
        ...
    connections.checks.ConvergenceError: inverse_kinematics: status 'closest', frame 't...
    """


class CheckError(Shown, AssertionError):
    """A required check failed.

    Examples
    --------
    >>> from connections.checks import Check
    >>> Check("energy", residual=0.5, scale=1.0, tol=1e-9).require()
    Traceback (most recent call last):
        ...
    connections.checks.CheckError: energy: residual 5.00e-01, scale 1.00e+00, tolerance...
    """


@dataclass(frozen=True)
class Check:
    """A measured residual and the scale with which it is compared.

    Parameters
    ----------
    name : the property.
    residual : absolute deviation of one component at one point, those whose deviation over scale is largest.
    scale : size of the terms of this component before they cancel, in the units of the residual.
    tol : relative tolerance, dimensionless.

    Examples
    --------
    >>> from connections.checks import Check
    >>> small = Check("energy", residual=2e-12, scale=4.0, tol=1e-9)
    >>> small.ok, small.relative
    (True, 5e-13)
    """

    name: str
    residual: float
    scale: float
    tol: float

    def __post_init__(self) -> None:
        require_text("name", self.name)
        for what in ("residual", "scale"):  # which may be NaN
            object.__setattr__(self, what, float(as_scalar(what, getattr(self, what))))
        object.__setattr__(self, "tol", as_number("tol", self.tol))

    @property
    def relative(self) -> float:
        """Residual over scale; zero if both are zero, NaN if one is NaN."""
        if math.isnan(self.residual + self.scale):
            return math.nan
        if self.residual == 0.0:
            return 0.0
        return self.residual / self.scale if self.scale > 0.0 else float("inf")

    @property
    def ok(self) -> bool:
        """Whether residual <= tol * scale. A NaN fails."""
        return bool(self.residual <= self.tol * self.scale)

    def require(self) -> Check:
        """The check itself; `CheckError` if it does not hold."""
        if not self.ok:
            raise CheckError(f"{self} fails")
        return self

    def to_dict(self) -> dict[str, Any]:
        """The name, residual, scale and tol, with `relative` and `ok`, for JSON."""
        return asdict(self) | {"relative": self.relative, "ok": self.ok}

    def __bool__(self) -> bool:
        raise TypeError("a Check has no truth value: read .ok or call .require()")

    def _repr_html_(self) -> str:
        names, numbers = ("residual", "scale", "relative", "tol"), self.to_dict()
        rows = [(name, f"{numbers[name]:.2e}") for name in names]
        return html_table(f"{self.name}: {'holds' if self.ok else 'fails'}", rows)

    def __str__(self) -> str:
        return f"{self.name}: residual {self.residual:.2e}, scale {self.scale:.2e}, tolerance {self.tol:.1e}"


def html_table(
    title: str, rows: Iterable[Sequence[str]], header: Sequence[str] = (), notes: Sequence[str] = ()
) -> str:
    """HTML of a table below a title and above notes; every text is escaped."""

    def line(cells: Sequence[str], tag: str = "td") -> str:
        look = ' style="text-align: left; white-space: pre"'
        return "<tr>" + "".join(f"<{tag}{look}>{as_html(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = line(header, "th") * bool(header) + "".join(map(line, rows))
    after = "".join(f"<p>{as_html(note)}</p>" for note in notes)
    return f"<b>{as_html(title)}</b><table>{body}</table>{after}"


def as_array(name: str, value: Any, core_shape: Sequence[int | None]) -> Any:
    """`value` as a float64 array whose trailing axes are `core_shape`; leading axes are batch axes.

    docs/errors.md lists what counts as a real number.

    Parameters
    ----------
    name : the name of the argument in errors.
    value : array, list, or JAX tracer.
    core_shape : trailing shape; None admits any length on that axis.

    Raises
    ------
    ShapeError : the trailing axes differ.
    TypeError : the value is not made of real numbers.
    NonFiniteError : an integer is beyond the range of float64.
    """
    count = len(core_shape)
    if type(value) is np.ndarray and value.dtype == np.float64:  # what control loops pass
        tail = value.shape[value.ndim - count :]
        if tail == tuple(core_shape):
            return value
    elif isinstance(value, jax.Array):
        _require_real(name, value)
        if value.dtype != np.float64:  # float32 is the widest if JAX_ENABLE_X64 is off
            value = value.astype(jax.dtypes.canonicalize_dtype(np.float64))
    else:
        value = np.asarray(_as_real(name, value), dtype=np.float64)
    shape = value.shape
    tail = shape[len(shape) - count :] if count else ()
    if len(tail) != count or any(
        want is not None and want != have for want, have in zip(core_shape, tail, strict=True)
    ):
        raise ShapeError(name, ("...", *("k" if size is None else size for size in core_shape)), shape)
    return value


# Types that NumPy converts to floats although they are no real numbers: text by its digits, None as NaN,
# a complex number by its real part, a time by its count of units.
_NO_NUMBERS = (str, bytes, bytearray, type(None), np.complexfloating, np.datetime64, np.timedelta64)


def _as_real(name: str, value: Any) -> np.ndarray:
    """A value that is no array of JAX, as a NumPy array of real numbers; arrays of objects become float64."""
    if hasattr(type(value), "__dask_graph__"):  # converted by NumPy, it loses its masks
        value = value.compute()
    converted = value
    try:
        if not is_masked(converted):  # masks in a list are lost in the conversion
            converted = np.asanyarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = f": {shown(error)}" if hasattr(value, "__array__") else ""  # the object says what to do
        raise _no_numbers(name, value, reason) from error
    if is_masked(converted):  # an object may convert itself to a masked array
        raise TypeError(f"{name}: expected an array of real numbers, got one with masked entries")
    array = np.asarray(converted)
    if array.dtype != object:
        _require_real(name, array)
        return array
    if any(isinstance(part, _NO_NUMBERS) or is_masked(part) or _kind(part) in "UScmM" for part in array.flat):
        raise _no_numbers(name, value)
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise _no_numbers(name, value) from error
    except OverflowError as error:  # integers of Python have no limit
        raise NonFiniteError(f"{name}: an integer is too large for float64") from error


def _kind(part: Any) -> str:
    """The kind of an array in a list of objects, as of NumPy's dtypes; of anything else that of an object."""
    return str(part.dtype.kind) if isinstance(part, np.ndarray) else "O"


def _no_numbers(name: str, value: Any, reason: str = "") -> TypeError:
    return TypeError(f"{name}: expected an array of real numbers, got {words_of(value)}{reason}")


def is_masked(value: Any) -> bool:
    """Whether an entry of an array, or of arrays in a list, is masked."""
    if not isinstance(value, list | tuple):
        return isinstance(value, np.ma.MaskedArray) and bool(np.ma.is_masked(value))
    while (kinds := set(map(type, value))) and kinds <= {list, tuple}:  # rows, as quickly as NumPy reads them
        value = list(chain.from_iterable(value))
    return not kinds <= {float, int} and any(map(is_masked, value))


def _require_real(name: str, array: Any) -> None:
    """Raise `TypeError` unless an array is of booleans, integers or floats of 16 bits or more."""
    kind = array.dtype
    letter = kind.kind if isinstance(kind, np.dtype) else "V"  # keys of JAX have a type of their own
    if letter in "biuf":
        return
    words = "text" if letter in "SU" else kind
    if jnp.issubdtype(kind, np.number) and letter == "V":  # bfloat16, float8 and the like
        words = f"{words}, which is too narrow; convert it, as by x.astype(np.float32)"
    raise TypeError(f"{name}: expected an array of real numbers, got {words}")


def as_number(name: str, value: Any) -> float:
    """`value` as a finite float.

    Raises
    ------
    TypeError : it is not one real number. NonFiniteError : it is not finite.
    """
    number = as_scalar(name, value)
    require_finite(name, number)
    return float(number)


def require_duration(name: str, value: Any) -> float:
    """`value` as a finite float that is positive, or `ValueError`; `TypeError` unless it is a number."""
    number = as_number(name, value)
    if not number > 0.0:
        raise ValueError(f"{name}: expected a positive number, got {number:g}")
    return number


def as_scalar(name: str, value: Any) -> Any:
    """`value` as a float64 array without axes, which may be NaN, infinite or a tracer.

    Raises
    ------
    TypeError : it is not one real number.
    """
    try:
        number = as_array(name, value, ())
    except TypeError:
        number = None
    if number is None or number.ndim:
        raise TypeError(f"{name}: expected a real number, got {words_of(value)}")
    return number


def batch_axes(names: Sequence[str], arrays: Sequence[Any], own: int = 1) -> tuple[int, ...]:
    """The shape to which all arrays' batch axes broadcast, which are all axes but the last `own`.

    Raises
    ------
    ShapeError : they do not broadcast; the message gives all shapes.
    """
    shapes: list[tuple[int, ...]] = [array.shape[:-own] for array in arrays]
    if all(shape == shapes[0] for shape in shapes):
        return shapes[0]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError as error:
        got = ", ".join(f"{name} {array.shape}" for name, array in zip(names, arrays, strict=True))
        raise ShapeError("batch axes", "axes that broadcast together", got) from error


#: Types of arrays, numbers and texts that JAX does not trace.
_LEAVES = frozenset({np.ndarray, np.float64, float, int, bool, str, type(None)})


def is_traced(*things: Any) -> bool:
    """Whether JAX traces a number in these arrays and objects, so that it has no value yet."""
    for thing in things:  # JAX needs microseconds to say of a number that it is no tracer
        kind = type(thing)
        if kind not in _LEAVES and not (kind is tuple and _LEAVES.issuperset(map(type, thing))):
            break
    else:
        return False
    leaves = jax.tree_util.tree_leaves(things, is_leaf=_is_iterator)
    return any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)


def _is_iterator(thing: Any) -> bool:
    """Whether a thing is an iterator or a dict's values, which JAX refuses in pytrees by another error."""
    return type(thing) not in _LEAVES and isinstance(thing, Iterator | ValuesView)


def require_finite(name: str, value: Any) -> None:
    """Raise `NonFiniteError` naming the first entry that is not finite; a tracer passes."""
    if isinstance(value, jax.core.Tracer):
        return
    finite = np.isfinite(array := np.asarray(value))
    if finite.all():
        return
    index = tuple(int(i) for i in np.argwhere(~finite)[0])  # empty for a scalar
    where = f"{name}[{', '.join(map(str, index))}]" if index else name
    raise NonFiniteError(f"{where} is {array[index]}: every number must be finite")


def require_untraced(**given: Any) -> None:
    """Raise `TypeError` naming the first argument that JAX traces, for functions that need values."""
    for name, value in given.items():
        if type(value) is not np.ndarray and is_traced(value):  # the type is tested first, which is quicker
            what = "JAX traces it, where NumPy has to compute; call this outside of JAX, or give numbers of"
            raise TypeError(f"{name}: {what} NumPy: those that jnp makes inside of jit are traced, too")


def finite_result(what: str, value: Any) -> Any:
    """`value`, or `NonFiniteError` if finite arguments were too large to compute it.

    Parameters
    ----------
    what : name of the result in errors.
    value : an array; tracers are not tested.
    """
    if not isinstance(value, jax.core.Tracer) and not np.isfinite(value).all():
        raise NonFiniteError(f"{what} is not finite: the numbers that were given are too large for it")
    return value


def is_whole(value: Any) -> bool:
    """Whether `value` is an integer of Python or NumPy; `bool` and `timedelta64` do not count."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def require_member(index: tuple[Any, ...], batch: tuple[int, ...]) -> None:
    """Raise `TypeError` or `IndexError` unless these integers name a member of a batch.

    JAX would clamp an index that is beyond the batch, and return the last member.
    """
    if not all(map(is_whole, index)):
        raise TypeError(f"index: expected an integer for each batch axis, got {index}")
    if len(index) != len(batch) or not all(-n <= i < n for i, n in zip(index, batch, strict=True)):
        raise IndexError(f"index: there is no member at {index} in a batch {batch}")


def require_positive_int(name: str, value: Any) -> None:
    """Raise `TypeError` unless `value` is an integer, `ValueError` unless it is positive."""
    if not is_whole(value):
        raise TypeError(f"{name}: expected a positive integer, got {words_of(value)}")
    if value < 1:
        raise ValueError(f"{name}: expected a positive integer, got {value}")


def require_writable(folder: Path) -> None:
    """Raise `OSError`, before the work, unless files can be created in a folder, which need not exist yet."""
    try:
        place = next(path for path in (folder, *folder.parents) if path.exists())
        Path(tempfile.mkdtemp(prefix=".", dir=place)).rmdir()
    except OSError as error:
        raise OSError(f"cannot write to {folder}: {error.strerror}") from None


# --- types of arguments ------------------------------------------------------------------------------------


def require_type(name: str, value: Any, expected: type, instead: str = "") -> None:
    """Raise `TypeError` unless `value` is an instance of `expected`.

    Parameters
    ----------
    name : the name of the argument in errors.
    expected : a class of this library; its subclasses by users are accepted.
    instead : hint in the error, such as ``"write f(frame, H)"``, unless the types have one in `INSTEAD`.
    """
    if not isinstance(value, expected):
        hint = INSTEAD.get((expected.__name__, kind_of(value))) or instead
        raise _wrong_type(name, with_article(expected.__name__), value, hint)


def require_bool(name: str, value: Any) -> None:
    """Raise `TypeError` unless `value` is True or False; the text "no" would count as True."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name}: expected True or False, got {words_of(value)}")


def require_text(name: str, value: Any) -> str:
    """`value`, or `TypeError` unless it is a text."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a text, got {words_of(value)}")
    return value


def require_choice(
    name: str, value: Any, choices: Iterable[str], error: type[Exception] = ValueError
) -> None:
    """Raise `TypeError` unless `value` is a text, and `error` unless it is one of the choices."""
    if isinstance(value, str) and value in choices:
        return
    expected = f"{name}: expected {alternatives([*map(repr, choices)])}, got "
    if not isinstance(value, str):
        raise TypeError(expected + words_of(value))
    raise error(expected + shown(repr(value)) + did_you_mean(value, choices))


def require_draws(samples: Any, seed: Any) -> None:
    """Raise an error unless `samples` is a positive integer, and `seed` an integer."""
    require_positive_int("samples", samples)
    require_indices("seed", [seed])


def require_indices(name: str, value: Any, size: int | None = None) -> tuple[int, ...]:
    """`value` as a tuple of ints.

    Raises
    ------
    TypeError : it is no sequence of integers. ValueError : one is not in 0 .. `size` - 1, if there is a size.
    """
    listed = value.ndim == 1 if isinstance(value, np.ndarray) else isinstance(value, list | tuple)
    if not listed or not all(map(is_whole, value)):
        raise TypeError(f"{name}: expected a sequence of integers, got {words_of(value)}")
    if size is not None and not all(0 <= index < size for index in value):
        raise ValueError(f"{name}: expected indices from 0 to {size - 1}, got {tuple(map(int, value))}")
    return tuple(map(int, value))


def require_path(name: str, value: Any) -> Path:
    """`value` as a path; `TypeError` or `ValueError` unless it is a text or a path that systems take."""
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str):
        raise TypeError(f"{name}: expected a path, got {words_of(value)}")
    if not path or "\0" in path:
        raise ValueError(f"{name}: expected a path, got {shown(repr(path))}")
    return Path(path)


def require_mapping(name: str, value: Any, what: str) -> None:
    """Raise `TypeError`, which names the expected form `what`, unless `value` is a mapping."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name}: expected {what}, got {words_of(value)}")


def require_names(name: str, value: Any) -> tuple[str, ...]:
    """`value` as a tuple; `TypeError` unless it is a list or another sequence of texts, and not one text."""
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    if not (listed and all(isinstance(each, str) for each in value)):
        raise TypeError(f"{name}: expected a sequence of names, got {words_of(value)}")
    for number, each in enumerate(value):
        require_text(f"{name}[{number}]", each)
    return tuple(value)


def require_whole(name: str, value: Any, least: int = 0, most: int | None = None) -> int:
    """`value` as an int; `TypeError` unless it is a whole number, `ValueError` unless it is within bounds."""
    expected = f"{name}: expected a whole number" + (f" from {least} to {most}" if most is not None else "")
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{expected}, got {words_of(value)}")
    if number < least or (most is not None and number > most):
        raise ValueError(f"{expected}{f' of at least {least}' * (most is None)}, got {words_of(number)}")
    return number


def require_items(name: str, value: Any, expected: type | UnionType, what: str) -> tuple[Any, ...]:
    """`value` as a tuple; `TypeError` unless it is a list, or something like it, of instances of `expected`.

    Parameters
    ----------
    what : the items in errors, such as ``"contacts (Wheel, Ball, Blade)"``.
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise TypeError(f"{name}: expected a list of {what}, got {words_of(value)}")
    items = tuple(value)
    for number, item in enumerate(items):
        if not isinstance(item, expected):
            raise TypeError(f"{name}[{number}]: expected one of {what}, got {words_of(item)}")
    return items


def require_function(name: str, value: Any, form: str, instead: str = "", parameters: Any = None) -> None:
    """Raise `TypeError` unless `value` can be called with the arguments of `form`.

    Parameters
    ----------
    name : the name of the argument in errors.
    form : arguments and result, such as ``"q -> H (n, n)"``.
    instead : hint in the error if `value` is a matrix.
    parameters : parameters that the function gets as one more argument, the last; None if it has none.
    """
    if not callable(value):
        kind = kind_of(value)
        hint = instead if instead and kind == "matrix" else INSTEAD.get(("function", kind), "")
        raise _wrong_type(name, f"a function {form}", value, hint)
    count = _arguments_of(form)
    if count and not takes(value, count + (parameters is not None)):
        raise wrong_arguments(name, value, form, parameters is not None)


def wrong_arguments(name: str, function: Any, form: str, parametric: bool = False) -> TypeError:
    """The `TypeError` for a function that does not take the arguments of `form`.

    Parameters
    ----------
    name, form : as for `require_function`.
    function : the function, which may be wrapped (`own_function`).
    parametric : whether the function gets parameters as one more argument.
    """
    inner, more = own_function(function)
    last = ", and the parameters as one more" if parametric or more else ""
    return TypeError(f"{name}: expected a function {form}{last}, got one with arguments {signature(inner)}")


@singledispatch
def own_function(function: Any) -> tuple[Any, int]:
    """The user's function within any wrappers, and the number of arguments that the wrappers add."""
    return function, 0


def _arguments_of(form: str) -> int:
    """The number of arguments in a form such as ``"(t, q) -> v"`` or ``"q -> H"``; 0 if it is unknown."""
    listed = re.match(r"(?:of )?\(([^)]*)\)", form)
    return listed[1].count(",") + 1 if listed else int("->" in form)


def takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function may be called with `count` arguments; True if its signature is unknown."""
    inner, more = own_function(function)
    try:
        known = signature(inner)
    except (TypeError, ValueError):  # some functions in C have none
        return True
    try:
        known.bind(*range(count + more))
    except TypeError:
        return False
    return True


def require_shape(name: str, value: Any, shape: tuple[int, ...]) -> jax.Array:
    """The result of a user's function as an array of the required shape.

    Parameters
    ----------
    name : the function with its arguments, such as ``"force(t, q, v)"``.
    value : its result.
    shape : the required shape; a scalar may have any shape with one entry.

    Raises
    ------
    TypeError : the result is not an array of numbers. ShapeError : it has another shape.
    """
    array = as_result(name, value)
    if array.shape != shape and not (shape == () and array.size == 1):
        raise ShapeError(name, shape, array.shape)
    return array.reshape(shape)


_FINITE_RESULTS = ContextVar("_FINITE_RESULTS", default=False)


@contextmanager
def finite_results() -> Iterator[None]:
    """A block in which `NonFiniteError` names the first user's function whose result is not finite."""
    token = _FINITE_RESULTS.set(True)
    try:
        yield
    finally:
        _FINITE_RESULTS.reset(token)


def as_result(name: str, value: Any) -> jax.Array:
    """The result of a user's function as an array of floats, of any shape.

    Parameters
    ----------
    name : the function with its arguments, such as ``"force(t, q, v)"``.
    value : its result; a list may have tracers.

    Raises
    ------
    TypeError : the result is not an array of real numbers.
    NonFiniteError : an entry is not finite, in a block of `finite_results`.
    """
    if not isinstance(value, jax.Array | float | int) and not is_traced(value):
        value = _as_real(name, value)
        value = value if value.dtype == np.float32 else np.asarray(value, dtype=np.float64)
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: expected an array of real numbers, got {words_of(value)}") from error
    _require_real(name, array)
    if _FINITE_RESULTS.get():
        require_finite(name, array)
    exact = array.dtype.kind in "biu"  # JAX differentiates floats only
    return array.astype(jax.dtypes.canonicalize_dtype(np.float64)) if exact else array


def as_covectors(name: str, value: Any, n: int) -> jax.Array:
    """The result of a user's function as the components of any number of one-forms, (p, n).

    Raises
    ------
    TypeError, ShapeError : as for `require_shape`.
    """
    forms = as_result(name, value)
    if forms.ndim != 2 or forms.shape[1] != n:
        raise ShapeError(name, ("p", n), forms.shape)
    return forms


def as_copy(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """A copy, float64, of what a user's function of NumPy arrays returned.

    A library may return a view of a buffer that its next call overwrites, and compiled code may write to the
    copy.

    Raises
    ------
    TypeError : the result is not made of real numbers. ShapeError : its shape is not `shape`.
    """
    array = np.array(as_array(name, value, ()))
    if array.shape != shape:
        raise ShapeError(name, shape, array.shape)
    return array


def require_each(name: str, values: Sequence[Any], expected: type, call: str) -> None:
    """Raise `TypeError` unless each of the arguments `*values` is an `expected`; `call` is a right call."""
    if len(values) == 1 and isinstance(values[0], list | tuple):
        raise TypeError(f"{name}: give each as an argument of its own, {call}, not a {kind_of(values[0])}")
    for number, value in enumerate(values):
        require_type(f"{name}[{number}]", value, expected)


def _wrong_type(name: str, expected: str, value: Any, hint: str) -> TypeError:
    if isinstance(value, type):
        hint = "give an instance of it"
    return TypeError(f"{name}: expected {expected}, got {words_of(value)}{hint and '; '}{hint}")


# --- frames and points -------------------------------------------------------------------------------------


def require_same_frame(first: Any, first_name: str, second: Any, second_name: str) -> None:
    """Raise `FrameError` naming both objects unless their frames are equal.

    If JAX traces the parameters of the frames, only their structure is compared.
    """
    numbers = [number for frame in (first, second) for number in jax.tree_util.tree_leaves(frame)]
    trees: list[Any] = [jax.tree_util.tree_structure(frame) for frame in (first, second)]
    if (trees[0] != trees[1]) if is_traced(numbers) else (first != second):
        raise FrameError(
            f"{first_name} is in {first}, {second_name} in {second}: change one to the other's frame"
        )


def raise_at(error: type[Exception], what: str, q: Any) -> NoReturn:
    """Raise `error` with `what` and the point at which it happened."""
    raise error(f"{what} at q = {text_of_point(q)}")


def text_of_point(q: Any) -> str:
    """The text of a point (nq,) for an error, to six digits; of more than 12 numbers, the first and last."""
    return np.array2string(np.asarray(q), precision=6, threshold=12)
