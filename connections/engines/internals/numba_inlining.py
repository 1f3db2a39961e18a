"""Numba's compilation of functions that only compiled functions call: without machine code of their own.

Numba makes machine code of every function, and of each that it calls, whose code is part of it again. A
kernel consists of up to two hundred functions, of which Python calls one, the entry; without machine code of
the others, it is compiled in five sixths of the time.

`CompilerBase`, `DefaultPassBuilder`, `PassManager`, `register_pass` (numba.core.compiler, and
numba.core.compiler_machinery) and the argument `pipeline_class` of `njit` are Numba's documented way to
another compiler. What this one does otherwise uses `NativeLowering` (numba.core.typed_passes),
`JITCodeLibrary` (numba.core.codegen) with its `_finalize_final_module`, `_finalize_dynamic_globals`,
`_verify_declare_only_symbols` and `_ensure_finalized`, `insert_user_function`, and
`numba._dynfunc.make_function`: what Numba itself does, but for the last steps.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from connections.engines.internals import numba_import  # noqa: F401  # isort: skip

from typing import Any

from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.typed_passes import NativeLowering

__all__ = ["WithoutMachineCode"]


class _Linkable(JITCodeLibrary):
    """LLVM's code of a function, optimized to be linked into others; no machine code is made of it."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    """Numba's lowering, into a library of the kind above."""

    _name = "lowering_without_machine_code"

    def run_pass(self, state: Any) -> bool:
        library = _Linkable(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library, state.flags.no_compile = library, True
        super().run_pass(state)
        library._ensure_finalized()
        lowered = state["cr"]
        name, home = lowered.fndesc.qualname.rpartition(".")[2], lowered.fndesc.lookup_module()
        # Numba wants what Python can call. Without a wrapper, this is what it makes itself: a null pointer.
        uncallable = _dynfunc.make_function(home, name, "", 0, lowered.env, (library,))
        state.targetctx.insert_user_function(uncallable, lowered.fndesc, [library])
        state.reload_init.extend(library._reload_init)
        state["cr"] = lowered._replace(cfunc=uncallable)
        return True


class WithoutMachineCode(CompilerBase):
    """The compiler of `njit(pipeline_class=...)` for functions that Python never calls."""

    def define_pipelines(self) -> list[Any]:
        """Numba's passes, with the lowering above in place of its own."""
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        changed = PassManager(pipeline.pipeline_name)
        for kind, words in pipeline.passes:
            changed.add_pass(_Lowering if kind is NativeLowering else kind, words)
        changed.finalize()
        return [changed]
