"""The test in C: each function at a few random states, against numbers that the library computed."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from connections.engines.recorded.c_code import Real
from connections.multibody import variational_steps
from connections.multibody.displacements import displace
from connections.multibody.generation.function_text import CFunction
from connections.multibody.generation.project_files import declared, numbers_text
from connections.multibody.generation.recording import Exported
from connections.multibody.model import Model

_NUMBERS = 3000  # of results of a function: larger results are compared at fewer states
TOLERANCES = {"double": 1e-12, "float": 2e-4}  # of the largest entry of a result

_MAIN = """\
#include <math.h>
#include <stdio.h>

#include "{name}.h"

{tables}
/* The largest difference, relative to the largest expected number; -1 if a difference is no number. */
static double difference(const {real} *out, const {real} *expected, int count)
{{
    double most = 0.0, size = 0.0;
    for (int i = 0; i < count; ++i) {{
        const double here = fabs((double)out[i] - (double)expected[i]);
        if (!(here >= 0.0)) {{
            return -1.0;
        }}
        most = here > most ? here : most;
        size = fabs((double)expected[i]) > size ? fabs((double)expected[i]) : size;
    }}
    return size > 0.0 ? most / size : most;
}}

static int report(const char *function, int status, double error)
{{
    const int good = status == {up}_OK && error >= 0.0 && error <= {tolerance};
    printf("%s: status %d, relative error %.1e: %s\\n", function, status, error, good ? "good" : "BAD");
    return good ? 0 : 1;
}}

static int refuses(const char *function, int status)
{{
    if (status == {up}_NOT_FINITE) {{
        return 0;
    }}
    printf("%s: accepts a number that is not finite: BAD\\n", function);
    return 1;
}}

int main(void)
{{
    static {real} out[{size}];
    {real} broken[{up}_NQ];
{loops}    int bad = 0;
{calls}
    printf(bad == 0 ? "all good\\n" : "%d BAD\\n", bad);
    return bad == 0 ? 0 : 1;
}}
"""


def computed(model: Model, function: Exported, given: list[np.ndarray]) -> np.ndarray:
    """The library's value of an exported function at one configuration."""
    if function.is_step:
        *arrays, h = given
        found = getattr(variational_steps, function.recursion)
        if function.recursion == "variational_step":
            q, P, tau = arrays
            return np.concatenate(found(model, q, P, float(h[0]), tau))
        step: np.ndarray = found(model, *arrays, float(h[0]))
        return step
    if function.passive:
        return np.stack(declared(function)(model, *given, passive=True))
    program = model.program
    result = np.empty(program.cores[function.recursion])
    program.evaluate(function.recursion, tuple(given), result, function.chosen)
    return result


def states(model: Model, function: Exported, count: int, seed: int) -> list[list[np.ndarray]]:
    """Random arguments of a function, the same for the same seed."""
    rng = np.random.default_rng(seed)
    if function.is_step:
        return [_step(model, function, rng) for _ in range(count)]
    vectors = len(function.row.vectors)
    return [[model.random(rng), *rng.standard_normal((vectors, model.nv))] for _ in range(count)]


def _step(model: Model, function: Exported, rng: np.random.Generator) -> list[np.ndarray]:
    """A random step of 10 ms."""
    q, v, tau = model.random(rng), *rng.standard_normal((2, model.nv))
    h = np.array([0.01])
    if function.recursion == "discrete_momentum":
        return [q, np.asarray(displace(model, q, h * v)), h]
    return [q, model.program.evaluate("mass_matrix", (q,), None) @ v, tau, h]


def c_test_text(model: Model, made: list[CFunction], name: str, real: Real, loops: bool) -> str:
    """The text of the test."""
    tables, calls, up = list[str](), list[str](), name.upper()
    for c in made:
        recorded, function = c.recorded, c.recorded.function
        count = max(1, min(3, _NUMBERS // max(recorded.size, 1)))
        seed = int.from_bytes(hashlib.sha256(function.name.encode()).digest()[:4], "big")
        for number, given in enumerate(states(model, function, count, seed)):
            if real.suffix:  # the library gets the numbers that C gets
                given = [_rounded(x) for x in given]
            arrays: dict[str, Any] = dict(zip(("q", *function.row.vectors), given, strict=True))
            expected = computed(model, function, given)
            prefix = f"{function.name}_{number}"
            for argument, values in [*arrays.items(), ("expected", expected.ravel())]:
                text = numbers_text(values, real)
                tables.append(
                    f"static const {real.name} {prefix}_{argument}[{max(1, len(values))}] = {{\n{text}\n}};"
                )
            vectors = "".join(f"{prefix}_{x}, " for x in function.row.vectors)
            first = "loops" if loops else f"{prefix}_q"
            call = f"{name}_{function.name}({first}, {vectors}out)"
            started = [f"        {name}_start(loops);"] if loops else []
            if loops:
                call = f"{name}_close({prefix}_q, loops) == {up}_OK ? {call} : -1"
            compared = f"difference(out, {prefix}_expected, {recorded.size})"
            calls += [
                "    {",
                *started,
                f"        const int status = {call};",
                f'        bad += report("{function.name}", status, {compared});',
                "    }",
            ]
        broken = call.replace(f"{prefix}_q,", "broken,")
        if loops:
            broken = f"{name}_close(broken, loops)"
        calls += [
            f"    for (int i = 0; i < {up}_NQ; ++i) {{",
            f"        broken[i] = {prefix}_q[i];",
            "    }",
            f"    broken[{up}_NQ - 1] = ({real.name})NAN;",
            f'    bad += refuses("{function.name}", {broken});',
        ]
    return _MAIN.format(
        name=name,
        up=up,
        real=real.name,
        tables="\n".join(tables) + "\n",
        tolerance=TOLERANCES[real.name],
        loops=f"    double loops[{up}_LOOPS];\n" if loops else "",
        size=max(c.recorded.size for c in made),
        calls="\n".join(calls),
    )


def _rounded(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32).astype(float)
