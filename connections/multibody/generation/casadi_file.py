"""The C file by which CasADi calls the functions: ``casadi.external("casadi_NAME_FUNCTION", library)``.

CasADi stores matrices by columns and knows two axes, so that results are transposed, and a tensor (n, n, n)
is (n n, n). The inverse and the forward dynamics have Jacobians if the functions with their derivatives are
in the folder, too, and v is the rate of q. The interface is that of the C code that CasADi itself writes.
"""

from __future__ import annotations

import math

from connections.multibody.generation.function_text import CFunction

#: function -> the one with its derivatives by all arguments
_DERIVATIVES = {
    "inverse_dynamics": "inverse_dynamics_derivatives",
    "forward_dynamics": "forward_dynamics_derivatives",
}

_HEAD = """\
#include "{name}.h"

#define INTEGER long long int
{sparsities}
/* Rows of a matrix (rows, columns) to columns. */
static void transpose(int rows, int columns, const double *x, double *y)
{{
    for (int i = 0; i < rows; ++i) {{
        for (int j = 0; j < columns; ++j) {{
            y[rows * j + i] = x[columns * i + j];
        }}
    }}
}}
"""
_CALL = """
{declarations}
int {symbol}(const double **arg, double **res, INTEGER *iw, double *w, int mem)
{{
    int status;
    (void)iw;
    (void)mem;
    for (int i = 0; i < {given}; ++i) {{
        if (!arg[i]) {{
            return 1; /* it stands for zeros, which are no unit quaternion */
        }}
    }}
{call}    if (status != {up}_OK) {{
        return 1;
    }}
{results}    return 0;
}}

INTEGER {symbol}_n_in(void)
{{
    return {inputs};
}}

INTEGER {symbol}_n_out(void)
{{
    return {outputs};
}}

const INTEGER *{symbol}_sparsity_in(INTEGER i)
{{
    static const INTEGER *const all[{inputs}] = {{{of_inputs}}};
    return i >= 0 && i < {inputs} ? all[i] : 0;
}}

const INTEGER *{symbol}_sparsity_out(INTEGER i)
{{
    static const INTEGER *const all[{outputs}] = {{{of_outputs}}};
    return i >= 0 && i < {outputs} ? all[i] : 0;
}}

int {symbol}_work(INTEGER *sz_arg, INTEGER *sz_res, INTEGER *sz_iw, INTEGER *sz_w)
{{
    if (sz_arg) *sz_arg = {inputs};
    if (sz_res) *sz_res = {outputs};
    if (sz_iw) *sz_iw = 0;
    if (sz_w) *sz_w = {work};
    return 0;
}}
"""


def casadi_text(name: str, made: list[CFunction], nq: int, loops: int, coordinates: bool) -> str:
    """The text of the file.

    Parameters
    ----------
    name : with which names in C begin.
    made : the functions.
    nq : the size of q.
    loops : how many numbers a configuration of closed loops has; 0 if none have to be solved.
    coordinates : whether v is the rate of q.
    """
    found = {c.recorded.function.name: c for c in made}
    shapes: set[tuple[int, int]] = set()
    texts = []
    for c in made:
        sizes = [(nq, 1), *((size, 1) for _, size in c.recorded.sizes[1:])]
        *rows, columns = c.recorded.shape
        out = (math.prod(rows), columns) if rows else (columns, 1)
        symbol = f"casadi_{name}_{c.recorded.function.name}"
        results = f"    if (res[0]) transpose({out[0]}, {out[1]}, w, res[0]);\n"
        shapes.update([*sizes, out])
        texts.append(_function(name, symbol, c, loops, len(sizes), sizes, [out], results))
        derivatives = found.get(_DERIVATIVES.get(c.recorded.function.name, ""))
        if derivatives is not None and coordinates:
            n = c.recorded.size
            results = "".join(
                f"    if (res[{k}]) transpose({n}, {n}, w + {k * n * n}, res[{k}]);\n" for k in range(3)
            )
            inputs, outputs = [*sizes, out], [(n, n)] * 3
            shapes.update([*inputs, *outputs])
            texts.append(
                _function(name, f"jac_{symbol}", derivatives, loops, len(sizes), inputs, outputs, results)
            )
    sparsities = "".join(
        f"static const INTEGER {_dense(shape)}[3] = {{{shape[0]}, {shape[1]}, 1}}; /* 1: dense */\n"
        for shape in sorted(shapes)
    )
    return _HEAD.format(name=name, sparsities=sparsities) + "".join(texts)


def _dense(shape: tuple[int, int]) -> str:
    return f"dense_{shape[0]}_{shape[1]}"


def _function(
    name: str,
    symbol: str,
    c: CFunction,
    loops: int,
    given: int,
    inputs: list[tuple[int, int]],
    outputs: list[tuple[int, int]],
    results: str,
) -> str:
    """The functions that belong to a symbol; `given` inputs are read, those behind them are not."""
    signatures = [
        "int {s}(const double **arg, double **res, INTEGER *iw, double *w, int mem);",
        "INTEGER {s}_n_in(void);",
        "INTEGER {s}_n_out(void);",
        "const INTEGER *{s}_sparsity_in(INTEGER i);",
        "const INTEGER *{s}_sparsity_out(INTEGER i);",
        "int {s}_work(INTEGER *sz_arg, INTEGER *sz_res, INTEGER *sz_iw, INTEGER *sz_w);",
    ]
    return _CALL.format(
        declarations="\n".join(line.format(s=symbol) for line in signatures),
        symbol=symbol,
        up=name.upper(),
        given=given,
        call=_call(name, c, loops),
        results=results,
        inputs=len(inputs),
        outputs=len(outputs),
        of_inputs=", ".join(map(_dense, inputs)),
        of_outputs=", ".join(map(_dense, outputs)),
        work=c.recorded.size,
    )


def _call(name: str, c: CFunction, loops: int) -> str:
    """Statements that write the result to w, row by row."""
    function, up = f"{name}_{c.recorded.function.name}", name.upper()
    others = [f"arg[{k}]" for k in range(1, len(c.recorded.sizes))]
    if not loops:
        return f"    status = {function}({', '.join(['arg[0]', *others, 'w'])});\n"
    return (
        f"    double loops[{loops}];\n"
        f"    {name}_start(loops);\n"
        f"    status = {name}_close(arg[0], loops);\n"
        f"    if (status == {up}_OK) {{\n"
        f"        status = {function}({', '.join(['loops', *others, 'w'])});\n"
        "    }\n"
    )
