"""Compiled functions in what `jax.export` writes: another process compiles them when it loads that.

In the process that traces a function, XLA calls it by a name of its own (`engines.xla`). In an exported
program, all of them have one name, `TARGET`, which XLA knows from the import of `connections.multibody` on. A
text beside it says which function it is, the hash of its sources, and the kinds of its arguments. The numbers
of a robot are attributes of the call, so that an exported program needs nothing but this package.

Compiled code takes sizes and offsets from these attributes, and trusts them. So the text ends with a checksum
of itself and of all attributes, which finds damage, not intent: whoever changes a program on purpose can
compute it, too. The attribute `BOUNDS` has the lengths of arguments and result, with which compiled code
compares those of each call.

XLA calls Python here: when it loads a program, to compile the function, or to refuse with words one that is
damaged or of other sources; and at every call, to pass the frame on to compiled code, which runs without the
interpreter's lock. This costs some microseconds a call. A name has one address, from its registration on, and
at the import of the package nothing is compiled that could have one.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from connections.engines.internals import call_frame

#: The name of calls in exported programs; the number changes if its attributes get another meaning.
TARGET = "connections.multibody/1"
#: The attribute before the text, by the order of names: how many vectors there are, how many of these (the
#: last ones) are one for all rows, their lengths, and the shape of the result for one vector each; int64.
BOUNDS = "bounds"
_TEXT = "function"
_KINDS = {np.dtype(np.float64): call_frame.FLOAT64, np.dtype(np.int64): call_frame.INT64}
_FAILED_PRECONDITION = 9  # of XLA's codes of errors
_Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)  # of a frame; the address of an error, or zero
_Frame = ctypes.c_uint64 * (call_frame.FRAME_ATTRIBUTES + 1)
_Text = ctypes.c_uint64 * (max(call_frame.TEXT_DATA, call_frame.TEXT_LENGTH) + 1)


@dataclass(frozen=True)
class Functions:
    """The compiled functions of the installed version.

    Parameters
    ----------
    version : name -> a hash of the sources of that function; `KeyError` if there is none of that name.
    handler : (name, kinds of its arguments) -> `xla.checked_handler`.
    """

    version: Callable[[str], str]
    handler: Callable[[str, str], Callable[[int], int]]


class ExportError(RuntimeError):
    """An exported program cannot be computed here."""


_functions: list[Functions] = []  # one, from the import of `connections.multibody` on
_handlers: dict[bytes, Callable[[int], int]] = {}  # text of a call -> what XLA's frames go to


def register(functions: Functions) -> None:
    """Give XLA the name `TARGET`; compiles nothing, and starts no device."""
    _functions[:] = [functions]
    stages = {"instantiate": jax.ffi.pycapsule(_INSTANTIATE), "execute": jax.ffi.pycapsule(_EXECUTE)}
    jax.ffi.register_ffi_target(TARGET, stages, platform="cpu")
    jax.ffi.register_ffi_target_as_batch_partitionable(TARGET)


def exported_call(
    name: str, form: str, attributes: Mapping[str, np.ndarray], bounds: np.ndarray
) -> tuple[str, dict[str, Any]]:
    """The name and the attributes of the call of a compiled function in an exported program.

    Parameters
    ----------
    name : of the compiled function.
    form : the kinds of its arguments (`xla.Form`).
    attributes : those of the call in this process, whose names begin with "a".
    bounds : as in `BOUNDS`.
    """
    (functions,) = _functions
    arrays = {**attributes, BOUNDS: bounds}
    text = f"{name} {functions.version(name)} {form}"
    parts = [(_KINDS[array.dtype], array.tobytes()) for _, array in sorted(arrays.items())]
    return TARGET, {**arrays, _TEXT: f"{text} {_checksum(text.encode(), parts)}"}


def _instantiate(frame: int) -> int:
    """The handler that XLA calls when it loads a program, and at registration; 0, or an error."""
    try:
        if not _asked_for_version(frame):
            _handler_of(_undamaged_text_of(_Frame.from_address(frame)))
    except ExportError as error:
        return _error(frame, str(error))
    except BaseException as error:  # nothing may be raised into XLA
        return _error(frame, f"{type(error).__name__}: {error}")
    return 0


def _execute(frame: int) -> int:
    """The handler that XLA calls to compute, and at registration; 0, or an error."""
    words = _Frame.from_address(frame)
    if words[call_frame.FRAME_EXTENSION]:
        return _instantiate(frame)
    try:
        status = _handlers[_text_of(words)](frame)
    except BaseException as error:  # Ctrl-C may come before compiled code begins
        return _error(frame, f"{type(error).__name__}: {error}")
    if status:
        return _error(frame, "an exported program calls a function of robots with arrays of other sizes")
    return 0


_INSTANTIATE, _EXECUTE = _Handler(_instantiate), _Handler(_execute)


def _text_of(frame: ctypes.Array[ctypes.c_uint64]) -> bytes:
    """The text of a call, its last attribute in the order of their names."""
    last = frame[call_frame.FRAME_ATTRIBUTE_COUNT] - 1
    text = _Text.from_address(_word(frame[call_frame.FRAME_ATTRIBUTES], last))
    return ctypes.string_at(text[call_frame.TEXT_DATA], text[call_frame.TEXT_LENGTH])


def _undamaged_text_of(frame: ctypes.Array[ctypes.c_uint64]) -> bytes:
    """The text of a call.

    Raises
    ------
    ExportError : it, or another attribute, is not what was exported.
    """
    count, arrays = frame[call_frame.FRAME_ATTRIBUTE_COUNT], frame[call_frame.FRAME_ATTRIBUTES]
    kinds = (ctypes.c_int32 * count).from_address(frame[call_frame.FRAME_ATTRIBUTE_KINDS]) if count else ()
    if [*kinds] == [call_frame.IS_ARRAY] * (count - 1) + [call_frame.IS_TEXT]:
        text, _, checksum = _text_of(frame).rpartition(b" ")
        parts = [_array_at(_word(arrays, number)) for number in range(count - 1)]
        if _checksum(text, parts).encode() == checksum:
            return _text_of(frame)
    raise ExportError(
        "an exported program is damaged: the numbers of a robot in it are not those that were written, or it "
        "was exported before they had a checksum; export it again"
    )


def _array_at(address: int) -> tuple[int, bytes]:
    """The kind and the bytes of an attribute; of a kind that none of ours has, no bytes."""
    kind, size = _word(address, call_frame.ARRAY_KIND) & 0xFFFFFFFF, _word(address, call_frame.ARRAY_SIZE)
    if kind not in _KINDS.values():
        return kind, b""
    return kind, ctypes.string_at(_word(address, call_frame.ARRAY_DATA), 8 * size)


def _checksum(text: bytes, arrays: Sequence[tuple[int, bytes]]) -> str:
    """A hash of the text of a call, without its checksum, and of the kinds and bytes of its attributes."""
    found = hashlib.sha256(text)
    for kind, content in arrays:
        found.update(b"%d %d " % (kind, len(content)) + content)
    return found.hexdigest()[:32]


def _handler_of(text: bytes) -> Callable[[int], int]:
    """The compiled function that a call's text names.

    Raises
    ------
    ExportError : the installed version has none of that name, or one of other sources.
    """
    if text in _handlers:
        return _handlers[text]
    name, version, form, _ = text.decode().split(" ")
    (functions,) = _functions
    try:
        own = functions.version(name)
    except KeyError:
        own = "no function of this name"
    if own != version:
        raise ExportError(
            f"a program that was exported with another version of connections calls {name} of sources "
            f"{version}, and the installed version has {own}; export it again, or install that version"
        )
    _handlers[text] = functions.handler(name, form)
    return _handlers[text]


def _word(address: int, index: int) -> int:
    """A structure's word of 64 bits."""
    return ctypes.c_uint64.from_address(address + 8 * index).value


def _asked_for_version(frame: int) -> bool:
    """Whether XLA only asks for the version of the interface, as at registration; if so, answer it."""
    extension = _word(frame, call_frame.FRAME_EXTENSION)
    if not extension or _word(extension, call_frame.EXTENSION_TYPE) & 0xFFFFFFFF != call_frame.METADATA:
        return False
    theirs = _word(_word(frame, call_frame.FRAME_API), call_frame.API_VERSION)
    place = _word(extension, call_frame.EXTENSION_METADATA) + 8 * call_frame.METADATA_VERSION
    ctypes.c_uint64.from_address(place).value = (theirs >> 32 << 32) | call_frame.MAJOR_VERSION
    return True


def _error(frame: int, words: str) -> int:
    """The address of an error of XLA with these words, which XLA copies."""
    text = ctypes.create_string_buffer(words.encode())
    arguments = (ctypes.c_uint64 * 4)()
    arguments[0] = ctypes.sizeof(arguments)
    arguments[call_frame.ERROR_MESSAGE] = ctypes.addressof(text)
    arguments[call_frame.ERROR_CODE] = _FAILED_PRECONDITION
    create = _Handler(_word(_word(frame, call_frame.FRAME_API), call_frame.API_ERROR_CREATE))
    error: int | None = create(ctypes.addressof(arguments))
    return error or 0
