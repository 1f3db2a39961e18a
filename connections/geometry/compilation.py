"""`jax.jit` for what runs a few times to a few thousand times: compiled in half the time, as fast afterwards.

XLA's fusion emitters for processors take half of the time of compilation, and its division of a function into
parts that several threads compile another tenth. At one point, what they gain does not show: Christoffel
symbols and curvature of a chart, mass matrices of trees are as fast without. For batches it may be a fourth,
so `evaluate` compiles those with `jax.jit`. Options hold for functions called from outside of `jit`; inside,
the caller's hold.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import jax
from jax._src.core import trace_state_clean  # which JAX has under no public name

OPTIONS: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}


def compiled(function: Callable[..., Any], options: dict[str, Any] | None = OPTIONS) -> Callable[..., Any]:
    """`function` compiled when it is first called for each shape of its arguments.

    Parameters
    ----------
    function : JAX-traceable; its arguments are arrays.
    options : of the compiler, if the function is called from outside of `jit`.
    """
    outside, inside = jit(function, options), jax.jit(function)

    @wraps(function)
    def call(*arguments: Any) -> Any:
        return (outside if trace_state_clean() else inside)(*arguments)

    return call


def jit(function: Callable[..., Any], options: dict[str, Any] | None) -> Callable[..., Any]:
    """`jax.jit` for calls from outside; the tests put what need not compile in its place."""
    return jax.jit(function, compiler_options=options)


class traced_once:  # noqa: N801 - a decorator
    """A method of arrays that is traced once for each object, and not again wherever it is used.

    JAX runs a definition in Python each time that a function containing it is compiled, vectorized or
    differentiated. Of a function under `jax.jit` it keeps what it has traced. The object must not change.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self._method
        function = jax.jit(partial(self._method, instance))
        return instance.__dict__.setdefault(self._name, function)
