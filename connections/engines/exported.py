"""Compiled functions in what `jax.export` writes: another process compiles them when it loads that.

In the process that traces a function, XLA calls it by a name of its own (`engines.xla`). In an exported
program, all of them have one name, `TARGET`, which XLA knows from the import of `connections.multibody` on. A
text beside it says which function it is, the hash of its sources, and the kinds of its arguments. The numbers
of a robot are attributes of the call, so that an exported program needs nothing but this package.

XLA calls Python here: when it loads a program, to compile the function, or to refuse one of other sources
with words; and at every call, to pass the frame on to compiled code, which runs without the interpreter's
lock. This costs some microseconds a call. A name has one address, from its registration on, and at the
import of the package nothing is compiled that could have one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax

from connections.engines.internals import call_frame

#: The name of calls in exported programs; the number changes if its attributes get another meaning.
TARGET = "connections.multibody/1"
_FAILED_PRECONDITION = 9  # of XLA's codes of errors
_Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)  # of a frame; the address of an error, or zero
_Frame = ctypes.c_uint64 * (call_frame.FRAME_ATTRIBUTES + 1)


@dataclass(frozen=True)
class Functions:
    """The compiled functions of the installed version.

    Parameters
    ----------
    version : name -> a hash of the sources of that function; `KeyError` if there is none of that name.
    handler : (name, kinds of its arguments) -> `xla.handler`.
    """

    version: Callable[[str], str]
    handler: Callable[[str, str], int]


class ExportError(RuntimeError):
    """An exported program cannot be computed here."""


_functions: list[Functions] = []  # one, from the import of `connections.multibody` on
_handlers: dict[bytes, Any] = {}  # text of a call -> the compiled function that XLA's frames go to


def register(functions: Functions) -> None:
    """Give XLA the name `TARGET`; compiles nothing, and starts no device."""
    _functions[:] = [functions]
    stages = {"instantiate": jax.ffi.pycapsule(_INSTANTIATE), "execute": jax.ffi.pycapsule(_EXECUTE)}
    jax.ffi.register_ffi_target(TARGET, stages, platform="cpu")
    jax.ffi.register_ffi_target_as_batch_partitionable(TARGET)


def exported_call(name: str, form: str, attributes: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name and the attributes of the call of a compiled function in an exported program.

    Parameters
    ----------
    name : of the compiled function.
    form : the kinds of its arguments (`xla.Form`).
    attributes : those of the call in this process, whose names begin with "a".
    """
    (functions,) = _functions
    return TARGET, {**attributes, "function": f"{name} {functions.version(name)} {form}"}


def _instantiate(frame: int) -> int:
    """What XLA calls when it loads a program, and at registration."""
    try:
        if not _asked_for_version(frame):
            _handler_of(_text_of(frame))
    except ExportError as error:
        return _error(frame, str(error))
    except BaseException as error:  # nothing may be raised into XLA
        return _error(frame, f"{type(error).__name__}: {error}")
    return 0


def _execute(frame: int) -> int:
    """What XLA calls to compute, and at registration."""
    words = _Frame.from_address(frame)
    if words[call_frame.FRAME_EXTENSION]:
        return _instantiate(frame)
    error: int | None = _handlers[_text_of(frame)](frame)
    return error or 0


_INSTANTIATE, _EXECUTE = _Handler(_instantiate), _Handler(_execute)


def _text_of(frame: int) -> bytes:
    """The text of a frame's call, its last attribute in the order of their names."""
    words = _Frame.from_address(frame)
    last = words[call_frame.FRAME_ATTRIBUTE_COUNT] - 1
    text = _word(words[call_frame.FRAME_ATTRIBUTES], last)
    return ctypes.string_at(_word(text, call_frame.TEXT_DATA), _word(text, call_frame.TEXT_LENGTH))


def _handler_of(text: bytes) -> Any:
    """The compiled function that a call's text names.

    Raises
    ------
    ExportError : the installed version has none of that name, or one of other sources.
    """
    if text in _handlers:
        return _handlers[text]
    name, version, form = text.decode().split(" ")
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
    _handlers[text] = _Handler(functions.handler(name, form))
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
