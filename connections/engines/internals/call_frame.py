"""The layout of the call frame with which XLA calls a foreign function.

The C header xla/ffi/api/c_api.h, shipped with jaxlib, declares the frame. Within a major version, fields are
only appended. `WORDS` is the layout that this package assumes: the index of a field's word of 64 bits in its
structure, nested structures included. `objection` compares it with a header.

A header with another layout would have another major version; `engines.xla` then uses `jax.pure_callback`.
Using `pure_callback` always, or foreign functions compiled by a C++ compiler, would replace all of this. A
function compiled from jaxlib's own header, which passes the buffers on to machine code, takes the same time:
0.11 us for a step of a loop, beside 0.11 here, and 7.1 us for a call of `jit`, beside 7.1. It would be a file
of 68 kB for each kind of machine, and end the wheel of pure Python. So this stays until the layout changes.
"""

from __future__ import annotations

import re
from pathlib import Path

import jax

MAJOR_VERSION = 0
NUMBERS = {
    "XLA_FFI_Extension_Metadata": 1,  # the extension by which XLA asks for the version of the interface
    "XLA_FFI_AttrType_ARRAY": 1,
    "XLA_FFI_AttrType_STRING": 4,
    "XLA_FFI_DataType_S64": 5,
    "XLA_FFI_DataType_F64": 12,
}
METADATA = NUMBERS["XLA_FFI_Extension_Metadata"]
IS_ARRAY = NUMBERS["XLA_FFI_AttrType_ARRAY"]
IS_TEXT = NUMBERS["XLA_FFI_AttrType_STRING"]
INT64 = NUMBERS["XLA_FFI_DataType_S64"]
FLOAT64 = NUMBERS["XLA_FFI_DataType_F64"]

WORDS = {
    "XLA_FFI_CallFrame.extension_start": 1,
    "XLA_FFI_CallFrame.api": 2,
    "XLA_FFI_CallFrame.ctx": 3,
    "XLA_FFI_CallFrame.args.size": 7,
    "XLA_FFI_CallFrame.args.args": 9,
    "XLA_FFI_CallFrame.rets.size": 12,
    "XLA_FFI_CallFrame.rets.rets": 14,
    "XLA_FFI_CallFrame.attrs.size": 17,
    "XLA_FFI_CallFrame.attrs.types": 18,
    "XLA_FFI_CallFrame.attrs.attrs": 20,
    "XLA_FFI_Buffer.dtype": 2,
    "XLA_FFI_Buffer.data": 3,
    "XLA_FFI_Buffer.rank": 4,
    "XLA_FFI_Buffer.dims": 5,
    "XLA_FFI_Array.dtype": 0,
    "XLA_FFI_Array.size": 1,
    "XLA_FFI_Array.data": 2,
    "XLA_FFI_ByteSpan.ptr": 0,
    "XLA_FFI_ByteSpan.len": 1,
    "XLA_FFI_Metadata_Extension.extension_base.type": 1,
    "XLA_FFI_Metadata_Extension.metadata": 3,
    "XLA_FFI_Metadata.api_version.major_version": 3,
    "XLA_FFI_Api.api_version.major_version": 4,
    "XLA_FFI_Api.XLA_FFI_Error_Create": 6,
    "XLA_FFI_Api.XLA_FFI_Error_Destroy": 8,
    "XLA_FFI_Api.XLA_FFI_ThreadPool_Schedule": 17,
    "XLA_FFI_Api.XLA_FFI_ThreadPool_NumThreads": 18,
    "XLA_FFI_Error_Create_Args.message": 2,
    "XLA_FFI_Error_Create_Args.errc": 3,
    "XLA_FFI_Error_Destroy_Args.error": 2,
    "XLA_FFI_ThreadPool_Schedule_Args.ctx": 2,
    "XLA_FFI_ThreadPool_Schedule_Args.task": 3,
    "XLA_FFI_ThreadPool_Schedule_Args.data": 4,
    "XLA_FFI_ThreadPool_NumThreads_Args.ctx": 2,
    "XLA_FFI_ThreadPool_NumThreads_Args.num_threads": 3,
}
#: Half a word behind the others: the minor version is the upper half of the major version's word.
HALVES = {
    "XLA_FFI_Metadata.api_version.minor_version": 3.5,
    "XLA_FFI_Api.api_version.minor_version": 4.5,
}

FRAME_EXTENSION = WORDS["XLA_FFI_CallFrame.extension_start"]
FRAME_API = WORDS["XLA_FFI_CallFrame.api"]
FRAME_CONTEXT = WORDS["XLA_FFI_CallFrame.ctx"]
FRAME_ARGUMENT_COUNT = WORDS["XLA_FFI_CallFrame.args.size"]
FRAME_ARGUMENTS = WORDS["XLA_FFI_CallFrame.args.args"]
FRAME_RESULT_COUNT = WORDS["XLA_FFI_CallFrame.rets.size"]
FRAME_RESULTS = WORDS["XLA_FFI_CallFrame.rets.rets"]
FRAME_ATTRIBUTE_COUNT = WORDS["XLA_FFI_CallFrame.attrs.size"]
FRAME_ATTRIBUTE_KINDS = WORDS["XLA_FFI_CallFrame.attrs.types"]  # half a word each
FRAME_ATTRIBUTES = WORDS["XLA_FFI_CallFrame.attrs.attrs"]  # in the order of their names
BUFFER_KIND = WORDS["XLA_FFI_Buffer.dtype"]  # the lower half of the word
BUFFER_DATA = WORDS["XLA_FFI_Buffer.data"]  # an argument or a result
BUFFER_RANK = WORDS["XLA_FFI_Buffer.rank"]
BUFFER_DIMENSIONS = WORDS["XLA_FFI_Buffer.dims"]
ARRAY_KIND = WORDS["XLA_FFI_Array.dtype"]  # an attribute; the lower half of the word
ARRAY_SIZE = WORDS["XLA_FFI_Array.size"]
ARRAY_DATA = WORDS["XLA_FFI_Array.data"]
TEXT_DATA = WORDS["XLA_FFI_ByteSpan.ptr"]  # an attribute that is a text
TEXT_LENGTH = WORDS["XLA_FFI_ByteSpan.len"]
EXTENSION_TYPE = WORDS["XLA_FFI_Metadata_Extension.extension_base.type"]
EXTENSION_METADATA = WORDS["XLA_FFI_Metadata_Extension.metadata"]
METADATA_VERSION = WORDS["XLA_FFI_Metadata.api_version.major_version"]
API_VERSION = WORDS["XLA_FFI_Api.api_version.major_version"]
ERROR_MESSAGE = WORDS["XLA_FFI_Error_Create_Args.message"]
ERROR_CODE = WORDS["XLA_FFI_Error_Create_Args.errc"]
API_ERROR_CREATE = WORDS["XLA_FFI_Api.XLA_FFI_Error_Create"]
API_ERROR_DESTROY = WORDS["XLA_FFI_Api.XLA_FFI_Error_Destroy"]
API_SCHEDULE = WORDS["XLA_FFI_Api.XLA_FFI_ThreadPool_Schedule"]
API_NUM_THREADS = WORDS["XLA_FFI_Api.XLA_FFI_ThreadPool_NumThreads"]

_BYTES = {"int": 4, "int32_t": 4, "uint32_t": 4, "int64_t": 8, "size_t": 8}  # pointers have 8


def header() -> str:
    """The header of the installed jaxlib; empty if jaxlib has none."""
    path = Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    return path.read_text() if path.is_file() else ""


def objection(source: str) -> str:
    """The first difference between a header and this file; empty if there is none.

    Parameters
    ----------
    source : the header's text.
    """
    if not source:
        return "jaxlib has no header c_api.h"
    source = re.sub(r"//[^\n]*|/\*.*?\*/", "", source, flags=re.DOTALL)
    version = re.search(r"#define\s+XLA_FFI_API_MAJOR\s+(\d+)", source)
    if version is None or int(version[1]) != MAJOR_VERSION:
        return f"XLA_FFI_API_MAJOR is {version and version[1]}, not {MAJOR_VERSION}"
    for name, number in NUMBERS.items():
        if not re.search(rf"\b{name}\s*=\s*{number}\b", source):
            return f"{name} is not {number}"
    enumerations = re.findall(r"typedef\s+enum\s*\{[^}]*\}\s*(\w+)\s*;", source)
    structures = dict(re.findall(r"\bstruct\s+(\w+)\s*\{([^}]*)\}", source))
    sizes = _BYTES | dict.fromkeys(enumerations, 4)
    for kind, name in re.findall(r"typedef\s+(\w+)\s+(\w+)\s*;", source):
        if kind in sizes:
            sizes[name] = sizes[kind]
    for path, word in (WORDS | HALVES).items():
        structure, *fields = path.split(".")
        try:
            found = _place(structure, fields, structures, sizes)
        except LookupError as missing:
            return f"{path}: no {missing}"
        if found != 8 * word:
            return f"{path} is at byte {found}, not {8 * word:g}"
    return ""


def _place(structure: str, fields: list[str], structures: dict[str, str], sizes: dict[str, int]) -> int:
    """The byte in a structure at which a field of a field of ... begins."""
    offset = 0
    for field in fields:
        begin, structure = _fields(structure, structures, sizes)[0][field]
        offset += begin
    return offset


def _fields(
    structure: str, structures: dict[str, str], sizes: dict[str, int]
) -> tuple[dict[str, tuple[int, str]], int, int]:
    """Each field's byte and type, then the structure's size and alignment, by the rules of C."""
    found, end, widest = {}, 0, 1
    for declaration in filter(None, map(str.strip, structures[structure].split(";"))):
        kind, name = _declared(declaration)
        if "*" in kind:
            size, alignment = 8, 8
        elif kind in structures:
            _, size, alignment = _fields(kind, structures, sizes)
        else:
            size = alignment = sizes[kind]
        begin = -(-end // alignment) * alignment
        found[name] = begin, kind
        end, widest = begin + size, max(widest, alignment)
    return found, -(-end // widest) * widest, widest


def _declared(declaration: str) -> tuple[str, str]:
    """Type and name of a field; the type of a pointer has an asterisk."""
    pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(|FIELD\(\s*(\w+)\s*\)", declaration)  # to a function
    if pointer:
        return "*", pointer[1] or pointer[2]
    plain = re.fullmatch(r"(?:(?:const|struct)\s+)*(\w+[\s*]+)(\w+)", declaration)
    if plain is None:
        raise LookupError(f"size of {declaration!r}")
    return plain[1].strip(), plain[2]
