"""The C file that closes loops: ``NAME_start`` and ``NAME_close``.

The decisions are those of `kernels.loop_path`, without its ways across singular points: a path of straight
steps of the independent coordinates, from where the loops closed before; a step is halved until no joint
turns far, Newton's method contracts, and K_d changes little. So no step jumps to another assembly mode.
"""

from __future__ import annotations

from connections.engines.recorded.c_code import Real, code
from connections.multibody.generation.function_text import FRAMES, quaternion_tests
from connections.multibody.generation.loops import LoopBlock, RecordedLoop, RecordedLoops
from connections.multibody.kernels.loop_path import (
    DONE,
    MOST_CORRECTIONS,
    MOST_POLISHES,
    NO_MORE,
    POLISHED,
    REFUSED,
    SMALL,
)
from connections.multibody.tolerances import LARGEST_CHANGE, LARGEST_CORRECTION, LARGEST_TURN, SINGULAR

_SHORTEST = 2.0**-20  # shortest step, as a share of the path; a shorter one means a singular point

_DRIVER = """\
/* One loop; x is its configuration. */
struct loop {{
    int coordinates, rows;
    void (*predict)(const double *, const double *, double *, double *);
    void (*correct)(const double *, double *, double *, double *, double *);
    void (*change)(const double *, const double *, double *);
}};

/* Newton's method behind a prediction. Returns whether the step from `base` to x is accepted. */
static int settle(const struct loop *loop, const double *base, double *x, int *regular)
{{
    double moved[{coordinates}], gaps[{rows}], length, pivot, change, previous = 0.0;
    for (int trial = 0; trial < {most_corrections}; ++trial) {{
        loop->correct(x, moved, &length, &pivot, gaps);
        *regular = pivot >= {singular};
        if (!*regular) {{
            return 0;
        }}
        if (trial == 0 || length <= {small}) {{
            loop->change(base, x, &change);
            if (!(change <= {largest_change})) {{
                return 0;
            }}
        }}
        if (!(length <= (trial > 0 ? 0.5 * previous : {largest_correction}))) {{
            return 0;
        }}
        memcpy(x, moved, (size_t)loop->coordinates * sizeof *x);
        if (length <= {small}) {{
            return 1;
        }}
        previous = length;
    }}
    return 0;
}}

/* Newton's method until its steps no longer shrink; returns the status. */
static int polish(const struct loop *loop, double *x, double *pivot)
{{
    double moved[{coordinates}], gaps[{rows}], length, previous = 1.0;
    int closed = 1;
    for (int trial = 0; trial < {most_polishes}; ++trial) {{
        loop->correct(x, moved, &length, pivot, gaps);
        if (!(*pivot >= {singular})) {{
            return {up}_SINGULAR_LOOP;
        }}
        if (length <= {polished} && length > 0.25 * previous) {{
            break;
        }}
        memcpy(x, moved, (size_t)loop->coordinates * sizeof *x);
        previous = length;
        if (length <= {no_more}) {{
            break;
        }}
    }}
    for (int i = 0; i < loop->rows; ++i) {{
        closed &= gaps[i] <= 0.0;
    }}
    return closed && previous <= {done} ? {up}_OK : {up}_NOT_CLOSED;
}}

/* Follow a loop from x, where it closes, to the independent coordinates of `goal`; returns the status. */
static int follow(const struct loop *loop, const double *goal, double *x, double *pivot)
{{
    double base[{coordinates}], part[{coordinates}], start[{coordinates}], turn, done = 0.0, step = 1.0;
    int regular = 1;
    memcpy(base, x, (size_t)loop->coordinates * sizeof *x);
    memcpy(start, x, (size_t)loop->coordinates * sizeof *x);
    while (done < 1.0) {{
        const double next = done + step < 1.0 ? done + step : 1.0;
        for (int i = 0; i < loop->coordinates; ++i) {{
            part[i] = next < 1.0 ? start[i] + next * (goal[i] - start[i]) : goal[i];
        }}
        loop->predict(base, part, x, &turn);
        if (turn <= {largest_turn} && settle(loop, base, x, &regular)) {{
            memcpy(base, x, (size_t)loop->coordinates * sizeof *x);
            done = next;
            step *= 2.0;
        }} else {{
            step *= {refused};
            if (step < {shortest}) {{
                return regular ? {up}_NOT_CLOSED : {up}_SINGULAR_LOOP;
            }}
        }}
    }}
    return polish(loop, x, pivot);
}}
"""

_CLOSE = """\
void {name}_start(double *loops)
{{
    static const double start[{size}] = {{
{start}
    }};
    memcpy(loops, start, sizeof start);
}}

int {name}_close(const double *restrict q, double *restrict loops)
{{
    static const struct loop all[{count}] = {{
{loops}
    }};
    static const int sources[{count}][{coordinates}] = {{
{sources}
    }};
    double goal[{spanning}], part[{coordinates}], found[{count}][{coordinates}], pivot, least = 1.0;
    if (!({name}_are_within(q, {nq}, DBL_MAX) && {name}_are_within(loops, {size}, DBL_MAX))) {{
        return {up}_NOT_FINITE;
    }}
{tests}    memcpy(goal, loops, sizeof goal);
    linear(q, goal);
    for (int k = 0; k < {count}; ++k) {{
        for (int i = 0; i < all[k].coordinates; ++i) {{
            part[i] = goal[sources[k][i]];
            found[k][i] = loops[sources[k][i]];
        }}
        const int status = follow(&all[k], part, found[k], &pivot);
        if (status != {up}_OK) {{
            return status;
        }}
        least = pivot < least ? pivot : least;
    }}
    memcpy(loops, goal, sizeof goal);
    for (int k = 0; k < {count}; ++k) {{
        for (int i = 0; i < all[k].coordinates; ++i) {{
            loops[sources[k][i]] = found[k][i];
        }}
    }}
    loops[{size} - 1] = least; /* how near the loops are to singular, for functions */
{derivatives}    return {name}_are_within(loops, {size}, DBL_MAX) ? {up}_OK : {up}_NOT_FINITE;
}}
"""


def declarations(name: str) -> list[str]:
    """Lines of the C header that declare ``NAME_start`` and ``NAME_close``."""
    up = name.upper()
    return [
        f"/* Write the reference configuration, in which loops close, to loops[{up}_LOOPS]. */",
        f"void {name}_start(double *loops);",
        "",
        "/* Follow the loops from the configuration in `loops` to that of q. Functions take `loops` instead",
        "   of q. Unless the status is OK, `loops` keeps the configuration before. */",
        f"int {name}_close(const double *{up}_RESTRICT q, double *{up}_RESTRICT loops);",
        "",
    ]


def loops_text(name: str, loops: RecordedLoops) -> tuple[str, int]:
    """The C definitions of ``NAME_start`` and ``NAME_close``, and the most bytes of stack that they use."""
    from connections.multibody.generation.project_files import numbers_text

    real = Real("double")
    most = max(len(loop.source) for loop in loops.loops)
    rows = max(loop.rows for loop in loops.loops)
    numbers = {
        "up": name.upper(),
        "coordinates": most,
        "rows": rows,
        "singular": SINGULAR,
        "small": SMALL,
        "largest_change": LARGEST_CHANGE,
        "largest_correction": LARGEST_CORRECTION,
        "largest_turn": LARGEST_TURN,
        "most_corrections": MOST_CORRECTIONS,
        "most_polishes": MOST_POLISHES,
        "refused": REFUSED,
        "polished": POLISHED,
        "no_more": NO_MORE,
        "done": DONE,
        "shortest": _SHORTEST,
    }
    parts = [("linear", loops.linear)]
    for k, loop in enumerate(loops.loops):
        for part in ("predict", "correct", "change", "derivatives"):
            parts.append((f"{part}_{k}", getattr(loop, part)))
    blocks, deepest = zip(*(_block(function, block, name, real) for function, block in parts), strict=True)
    tests = quaternion_tests(loops.linear.record, loops.squares, name, real)
    close = _CLOSE.format(
        name=name,
        up=name.upper(),
        size=loops.size,
        spanning=loops.spanning,
        nq=loops.nq,
        count=len(loops.loops),
        coordinates=most,
        start=numbers_text(loops.start, real, "        "),
        loops="\n".join(_loop_text(k, loop) for k, loop in enumerate(loops.loops)),
        sources="\n".join(f"        {{{', '.join(map(str, loop.source))}}}," for loop in loops.loops),
        tests="".join(f"    {line}\n" for line in tests),
        derivatives="".join(f"    derivatives_{k}(found[{k}], loops);\n" for k in range(len(loops.loops))),
    )
    # `close` calls `follow`, which calls `settle`, which calls a block.
    follow, settle = 4 * most + 4, most + rows + 5
    variables = 2 + loops.spanning + (1 + len(loops.loops)) * most + follow + settle + max(deepest)
    stack = 8 * variables + 2 * FRAMES
    return "\n".join([*blocks, _DRIVER.format(**numbers), close]), stack


def _loop_text(number: int, loop: RecordedLoop) -> str:
    parts = ", ".join(f"{part}_{number}" for part in ("predict", "correct", "change"))
    return f"        {{{len(loop.source)}, {loop.rows}, {parts}}},"


def _block(function: str, block: LoopBlock, name: str, real: Real) -> tuple[str, int]:
    """The C text of a block, a static function, and the number of doubles in its variables."""
    results = [(f"{array}[{k}]", x) for array, _, entries in block.written for k, x in entries.items()]
    body = code(block.record, results, real)
    arguments = [f"const double *{array}" for array, _ in block.given]
    arguments += [f"double *{array}" for array, _, _ in block.written]
    lines = [f"static void {function}({', '.join(arguments)})", "{"]
    if body.angles:
        lines.append(f"    double angles[{body.angles}], sines[{body.angles}], cosines[{body.angles}];")
    lines += [f"    {line}" for line in body.before]
    if body.angles:
        lines.append(f"    {name}_turn({body.angles}, angles, sines, cosines);")
    lines += [f"    {line}" for line in body.lines]
    unused = [array for array, _ in block.given if not any(f"{array}[" in line for line in lines[2:])]
    text = "\n".join([*lines[:2], *(f"    (void){array};" for array in unused), *lines[2:], "}", ""])
    return text, body.variables + 3 * body.angles
