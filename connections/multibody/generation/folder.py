"""`generate_c`: a folder with standalone C99 for one robot.

The folder has a header, a C file for each function, a CMake project, an example, a test whose expected
numbers this library computed, a README, and a description in JSON, which `loading.load_c` reads. The same
model, options and version of the library give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from connections._distribution import NAME as PACKAGE
from connections._distribution import version
from connections._written import make_folder, require_file, require_no_link, write_file
from connections.checks import (
    ModelError,
    require_bool,
    require_choice,
    require_names,
    require_path,
    require_writable,
)
from connections.engines.recorded.c_code import Real
from connections.multibody.generation.c_test import c_test_text
from connections.multibody.generation.casadi_file import casadi_text
from connections.multibody.generation.cuda_text import cuda_text
from connections.multibody.generation.function_text import (
    LARGEST,
    CFunction,
    c_function,
    statuses,
    support_header,
)
from connections.multibody.generation.identifiers import identifiers, robot_name
from connections.multibody.generation.layout import JointLayout, joint_layouts
from connections.multibody.generation.loop_text import declarations, loops_text
from connections.multibody.generation.loops import RecordedLoops, record_loops
from connections.multibody.generation.passive import enters
from connections.multibody.generation.project_files import (
    cmake_text,
    example_text,
    is_stacked,
    readme_text,
    summary,
)
from connections.multibody.generation.recording import Exported, exported_function, record
from connections.multibody.generation.steps import record_momentum, step_function
from connections.multibody.kernels.layout import TREE
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.model import Model, require_model

_WRITTEN_BY = f"/* Written by {PACKAGE}"


@dataclass(frozen=True)
class GeneratedC:
    """The folder that `generate_c` wrote, and its functions.

    Attributes
    ----------
    folder : where.
    name : with which all names in C begin.
    dtype : the type of numbers in C, ``"double"`` or ``"float"``.
    digest : SHA-256 of the model, the options and the library's version; also in the header.
    functions : name -> a summary: the number of operations, bytes of the stack at most, bytes of the text,
        and the number of pieces into which a long text is cut, so that compilers take a reasonable time.
    """

    folder: Path
    name: str
    dtype: str
    digest: str
    functions: dict[str, dict[str, Any]]

    def __str__(self) -> str:
        """A table."""
        lines = [f"{self.name}: {len(self.functions)} functions in {self.folder} ({self.dtype})"]
        for name, about in self.functions.items():
            pieces = f" in {about['pieces']} pieces" if about["pieces"] > 1 else ""
            lines.append(
                f"  {name:34} {about['operations']:7} operations  stack <= {about['stack']:6} bytes  "
                f"text {about['text'] / 1000:.0f} kB{pieces}"
            )
        return "\n".join(lines)


def generate_c(
    model: Model,
    functions: Sequence[str],
    folder: Any,
    *,
    name: str | None = None,
    dtype: str = "double",
    cuda: bool = False,
    passive: bool = False,
) -> GeneratedC:
    """Write standalone C99 that computes recursions for one robot.

    The model's numbers become constants, so products with zero, and everything on which no result depends,
    disappear. The functions do not allocate, have no state, and need libm only. They return a status, 0 if
    the result is good.

    Parameters
    ----------
    model : a tree or a closed chain. If it has loops that have to be solved, there are two further functions
        in C, ``NAME_start`` and ``NAME_close``, and the others take what these write instead of q.
    functions : names of recursions: ``"coriolis_matrix"`` and ``"christoffel_symbols"``, for example. With
        ``_force_cross`` or ``_least`` at its end, a name is the function of that C; those of frames are
        ``"frame_jacobian:tool"`` and ``"frame_jacobian:tool:world"``, for a frame of the model named tool.
        ``"variational_step"`` takes q, P, tau and h (an array of one number), and writes q and then P;
        ``"discrete_momentum"`` takes q0, q1 and h.
    folder : where the files are written; it is made if it does not exist. C files of an earlier call with the
        same name are removed.
    name : an identifier of C with which all names in C begin; by default that of the folder.
    dtype : ``"double"`` or ``"float"``.
    cuda : whether to write NAME.cuh, too: the same functions for many configurations on a GPU.
    passive : whether `Model.passive_forces` act in inverse and forward dynamics and in their derivatives:
        springs, dampers, friction, lift. H, C and g, and what is made of them only, do not contain them.

    Raises
    ------
    TypeError, ValueError : there is no function of a name; a name is no identifier of C; another dtype.
    ModelError : names of joints are the same in C; the text of a function would be larger than 8 MB; a loop
        is closed by a Python function, or a joint with a quaternion is independent in it; a function is none
        of closed chains; ``"float"`` with loops that have to be solved; passive forces that are not computed,
        or, with `passive`, a variational step or a second derivative.
    OSError : the folder cannot be written; it, or a file in it that would be replaced, is a symbolic link.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> made = mb.codegen.generate_c(mb.example("arm"), ["coriolis_matrix"], "/tmp/arm_in_c", name="arm")
    >>> sorted(path.name for path in made.folder.iterdir())  # doctest: +NORMALIZE_WHITESPACE
    ['CMakeLists.txt', 'README.md', 'arm.h', 'arm.json', 'arm_casadi.c', 'arm_coriolis_matrix.c',
     'arm_support.h', 'example.c', 'test_arm.c']
    """
    require_model("generate_c", model)
    folder = require_path("folder", folder)
    require_choice("dtype", dtype, ("double", "float"))
    require_bool("cuda", cuda)
    require_bool("passive", passive)
    names = dict.fromkeys(require_names("functions", functions))
    wanted = [exported_function(function) for function in names]
    if not wanted:
        raise ValueError("functions: expected at least one name, got none")
    identifiers("function", [function.name for function in wanted])
    for function in wanted if cuda else ():
        if function.is_step:
            raise ModelError(f"{function.name}: it has no form for GPUs; leave out cuda, or the function")
    if passive:
        wanted = [replace(each, passive=enters(model, each.recursion)) for each in wanted]
    own, real, joints = robot_name(name, folder), Real(dtype), joint_layouts(model)
    require_no_link(folder)
    require_writable(folder)
    made = [_made(model, function, own, real) for function in wanted]
    loops = _loops(model, real)
    digest = _digest(model, wanted, own, dtype)
    files = _files(model, made, own, real, joints, loops, digest, cuda)
    make_folder(folder)
    for file in files:
        require_file(folder / file)
    _remove_earlier(folder, own)
    for file, text in files.items():
        write_file(folder / file, text)
    return GeneratedC(folder, own, dtype, digest, {c.recorded.function.name: _about(c) for c in made})


def _made(model: Model, function: Any, name: str, real: Real) -> CFunction:
    try:
        if function.recursion == "variational_step":
            made = step_function(model, function, name, real)
        elif function.is_step:
            made = c_function(record_momentum(model, function), name, real)
        else:
            made = c_function(record(model, function), name, real)
    except OverflowError as error:
        raise ModelError(f"{function.name}: {error}") from None
    if len(made.text) > LARGEST:
        size, most = len(made.text) / 1e6, LARGEST / 1e6
        raise ModelError(
            f"{function.name}: its C would have {size:.1f} MB, more than the {most:.0f} MB that compilers "
            "compile in a reasonable time"
        )
    return made


def _remove_earlier(folder: Path, name: str) -> None:
    """Remove the C and CUDA files that an earlier call wrote for this name, perhaps of other functions."""
    for file in [*folder.glob(f"{name}_*.c"), *folder.glob(f"{name}.cuh")]:
        if file.is_file() and file.read_text(encoding="utf-8", errors="replace").startswith(_WRITTEN_BY):
            file.unlink()


def _loops(model: Model, real: Real) -> RecordedLoops | None:
    """The loops that have to be solved, if there are any."""
    if not isinstance(model.kinematics, ClosedKinematics) or not model.kinematics.implicit_clusters.any():
        return None
    if real.suffix:
        raise ModelError("dtype: float has too few digits to close loops; use double")
    return record_loops(model)


def _about(made: CFunction) -> dict[str, Any]:
    return {
        "operations": sum(made.operations.values()),
        "stack": made.stack,
        "live": made.live,
        "pieces": max(1, len(made.pieces) + len(made.parts)),
        "text": len(made.text),
    }


def _digest(model: Model, functions: list[Exported], name: str, dtype: str) -> str:
    """SHA-256 of all that the files depend on."""
    options = {
        "version": version(),
        "functions": [function.name for function in functions],
        "name": name,
        "dtype": dtype,
        "joints": model.joint_names,
    }
    found = hashlib.sha256(json.dumps(options).encode())
    for array in model.program.arrays:
        end = TREE.read(array, "work") if array is model.program.memory else len(array)
        found.update(array.view("<i8")[:end].tobytes())
    for function in functions:
        if function.passive:
            found.update(repr(jax.tree.flatten(model.passive)).encode())
        for choice in () if function.is_step else model.program.choice(function.recursion, function.chosen):
            found.update(np.asarray(choice).tobytes())
    return found.hexdigest()


def _files(
    model: Model,
    made: list[CFunction],
    name: str,
    real: Real,
    joints: tuple[JointLayout, ...],
    loops: RecordedLoops | None,
    digest: str,
    cuda: bool,
) -> dict[str, str]:
    """The text of each file, by its name."""
    comment = (
        f"{_WRITTEN_BY} {version()} for the robot {name}: {real.name}.\n"
        f"   SHA-256 of model and options: {digest}\n"
        "   This file belongs to whoever generated it, under any licence they choose. */\n"
    )
    closing, size = ("", 0), 0
    if loops is not None:
        closing, size = loops_text(name, loops), loops.size
    files = {
        f"{name}.h": comment + _header(model, made, name, joints, loops),
        f"{name}_support.h": support_header(name, real, comment),
        "CMakeLists.txt": cmake_text(name, _units(made, loops), not real.suffix),
        "example.c": comment + example_text(model, made, name, real, loops is not None),
        f"test_{name}.c": comment + c_test_text(model, made, name, real, loops is not None),
        "README.md": readme_text(model, made, name, real, joints, closing[1], digest, cuda),
        f"{name}.json": _description(model, made, name, real, loops, digest),
    }
    includes = f'#include "{name}.h"\n#include "{name}_support.h"\n\n'
    if loops is not None:
        files[f"{name}_close.c"] = comment + includes + closing[0]
    if not real.suffix:
        q_is_integral = bool(model.kinematics.nq == model.kinematics.nv)
        files[f"{name}_casadi.c"] = comment + casadi_text(name, made, model.nq, size, q_is_integral)
    if cuda:
        files[f"{name}.cuh"] = comment + cuda_text(name, made, real, closing[0], model.nq, size)
    for c in made:
        files[f"{name}_{c.recorded.function.name}.c"] = comment + includes + c.text
    return files


def _units(made: list[CFunction], loops: RecordedLoops | None) -> list[str]:
    """The ends of the names of C files, after the robot's name."""
    return ["close"] * (loops is not None) + [c.recorded.function.name for c in made]


def _header(
    model: Model,
    made: list[CFunction],
    name: str,
    joints: tuple[JointLayout, ...],
    loops: RecordedLoops | None,
) -> str:
    """The text of the header that users include."""
    up = name.upper()
    lines = [f"#ifndef {up}_H", f"#define {up}_H", "", "#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
    lines += ["/* C++ has no `restrict`. */", "#ifdef __cplusplus", f"#define {up}_RESTRICT", "#else"]
    lines += [f"#define {up}_RESTRICT restrict", "#endif", ""]
    lines += [f"#define {up}_NQ {model.nq} /* numbers in q */", f"#define {up}_NV {model.nv} /* in v */"]
    lines += (
        [] if loops is None else [f"#define {up}_LOOPS {loops.size} /* in a configuration of closed loops */"]
    )
    lines += ["", "/* Where the components of each joint begin; README.md says what they are. */"]
    for joint in joints:
        lines.append(f"#define {up}_Q_{joint.identifier} {joint.first_q}")
        lines.append(f"#define {up}_V_{joint.identifier} {joint.first_v}")
    lines += [
        "",
        "/* What every function returns; unless it is OK, the content of `out` is undefined. */",
        "enum {",
    ]
    for code, (status, meaning) in enumerate(statuses(loops is not None)):
        lines.append(f"    {up}_{status} = {code}, /* {meaning} */")
    lines += ["};", "", "#ifndef __CUDACC_RTC__ /* which knows no functions of the host */", ""]
    lines += [] if loops is None else declarations(name)
    lines += ["/* `out` must not overlap the arguments. */", ""]
    for c in made:
        shape = "".join(f"[{size}]" for size in c.recorded.shape)
        lines.append(f"/* out{shape}, row by row: {summary(c.recorded.function)} */")
        lines += [c.declaration.replace("*restrict", f"*{up}_RESTRICT") + ";", ""]
    return "\n".join([*lines, "#endif", "", "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""])


def _description(
    model: Model,
    made: list[CFunction],
    name: str,
    real: Real,
    loops: RecordedLoops | None,
    digest: str,
) -> str:
    """The JSON from which Python learns what the C functions take."""
    functions = {
        c.recorded.function.name: {
            "recursion": c.recorded.function.recursion,
            "arguments": ["q", *(argument for argument, _ in c.recorded.sizes[1:])],
            "sizes": [model.nq, *(size for _, size in c.recorded.sizes[1:])],
            "shape": list(c.recorded.shape),
            "stacked": is_stacked(c.recorded.function),
        }
        for c in made
    }
    about = {
        "name": name,
        "dtype": real.name,
        "digest": digest,
        "version": version(),
        "loops": 0 if loops is None else loops.size,
        "functions": functions,
    }
    return json.dumps(about, indent=2) + "\n"
