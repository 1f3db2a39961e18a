"""NVRTC, which compiles CUDA without a GPU, from PyPI's wheel nvidia-cuda-nvrtc-cu12 (90 MB, in no extra)."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path


def library() -> ctypes.CDLL:
    """The compiler; raises `FileNotFoundError` if it is not installed."""
    found = importlib.util.find_spec("nvidia")
    for place in (found.submodule_search_locations or ()) if found else ():
        for path in Path(place).glob("cuda_nvrtc/lib/libnvrtc.so.*"):
            return ctypes.CDLL(str(path))
    raise FileNotFoundError("NVRTC is not installed: pip install nvidia-cuda-nvrtc-cu12, as .ci/run does")


def compiled(text: str, folder: Path, *options: str) -> tuple[str, str]:
    """PTX of a file in a folder, empty if there is an error, and what the compiler says."""
    nvrtc, program, size = library(), ctypes.c_void_p(), ctypes.c_size_t()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"robot.cu", 0, None, None) == 0
    given = [option.encode() for option in ("-std=c++17", f"-I{folder}", *options)]
    failed = nvrtc.nvrtcCompileProgram(program, len(given), (ctypes.c_char_p * len(given))(*given))
    texts = []
    for what in ("PTX", "ProgramLog"):
        getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        texts.append(ctypes.create_string_buffer(size.value))
        getattr(nvrtc, f"nvrtcGet{what}")(program, texts[-1])
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    ptx, log = (x.value.decode() for x in texts)
    return "" if failed else ptx, log
