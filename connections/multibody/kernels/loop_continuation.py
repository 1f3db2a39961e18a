"""Solutions [q_s | G | LG | pivot] of the loops at given independent coordinates.

Linear clusters have a constant G. A loop is followed from a configuration in which it closes, the reference
or a guess (`loop_path`), across points in which branches cross, and less whole turns (`loop_branches`). At
the end of the path

    G_d = -K_d^+ K_i,    LG_d[:, j, k] = -K_d^+ sum_s (L_j K)_s G_sk.

The last number is the least pivot of K_d of all loops, which says how many digits are lost. The result
depends only on q and on the configuration at which the path begins. Source: [W] VI-C.
"""

from connections.engines.inlined.householder import solve_least
from connections.engines.inlined.rows import LARGEST
from connections.engines.inlined.simd import (
    beyond,
    inline_section,
    load_lane,
    store,
    take,
    without_reassociation,
)
from connections.engines.inlined.vectors import unit_factor
from connections.multibody.kernels.layout import (
    BAD_INPUT,
    INDIRECT,
    REFINABLE,
    unpack_closure,
    unpack_linear_cluster,
    unpack_loop,
)
from connections.multibody.kernels.loop_branches import follow, reach
from connections.multibody.kernels.loop_geometry import (
    exchange,
    move_links,
    second_derivatives,
    vary_links,
    vary_wrenches,
)
from connections.multibody.kernels.loop_path import PIVOT, settle
from connections.multibody.kernels.reading import is_unit
from connections.multibody.tolerances import NEARLY_SINGULAR

LOOPS_REMAIN = BAD_INPUT + 2  # a status: the input is good, but only the linear clusters are solved


@without_reassociation
def solve_linear(numbers, q, size, solution):
    """Fill `solution` from q (nq,), except for the dependent joints of loops.

    Returns 0 if there are no loops; `LOOPS_REMAIN` if there are; `BAD_INPUT` for other sizes, numbers that
    are not finite, and quaternions that are not of norm one.
    """
    closure = unpack_closure(numbers)
    if size != closure.nq or closure.functions != 0:
        return BAD_INPUT
    for i in range(closure.size):
        store(solution, i, closure.template[i])
    good = True
    for i in range(size):
        good &= abs(q[i]) <= LARGEST
        store(solution, closure.columns[i], q[i])
    for i in range(closure.quaternions):
        start = closure.quaternion_starts[i]
        square = _square(q, start)
        good &= is_unit(square)
        for k in range(start, start + 4):
            store(solution, closure.columns[k], q[k] * unit_factor(square))
    if not good:
        return BAD_INPUT
    for i in range(closure.linear):
        _solve_linear(beyond(closure.tables, closure.linear_starts[i]), solution)
    return 0 if closure.loops == 0 else LOOPS_REMAIN


@without_reassociation
def begin(numbers, q, size, guess, guess_size, solution):
    """`solve_linear`, and `BAD_INPUT` for a guess of another size or of numbers that are not legal."""
    status = solve_linear(numbers, q, size, solution)
    if status != LOOPS_REMAIN or guess_size == 0:
        return status
    closure = unpack_closure(numbers)
    good = guess_size == closure.spanning_nq
    if good:
        for i in range(guess_size):
            good &= abs(guess[i]) <= LARGEST
        for i in range(closure.spanning_quaternions):
            good &= is_unit(_square(guess, closure.spanning_quaternion_starts[i]))
    return status if good else BAD_INPUT


@inline_section
def solve_directly(closure, start, solution):
    """Fill the rest of `solution` by paths that begin at `start`, unless one is cut or takes many turns.

    Returns 0 for success, or `REFINABLE` if that has lost digits; 1 + c if the loop of cluster c cannot be
    closed; -(1 + c) if it is singular; `INDIRECT` if only `solve_loops` can tell.
    """
    for i in range(closure.loops):
        loop = unpack_loop(closure, i)
        status = settle_at(loop, start, solution)
        if status == 0:
            status = reach(loop)
        if status == INDIRECT:
            return INDIRECT
        if status != 0:
            return status * (1 + loop.number)
        write_coordinates(closure, loop, solution)
        write_derivatives(loop, solution, 0, 1)
    return digits_lost(closure, solution)


@inline_section
def solve_loops(closure, start, solution):
    """`solve_directly`, across points in which branches cross, and over many turns. Returns no `INDIRECT`."""
    for i in range(closure.loops):
        loop = unpack_loop(closure, i)
        status = settle_at(loop, start, solution)
        if status == 0:
            status = follow(loop)
        if status != 0:
            return status * (1 + loop.number)
        write_coordinates(closure, loop, solution)
        write_derivatives(loop, solution, 0, 1)
    return digits_lost(closure, solution)


@without_reassociation
def digits_lost(closure, solution):
    """`REFINABLE` if a loop of a solution is nearly singular, otherwise 0."""
    return REFINABLE if solution[closure.size - 1] < NEARLY_SINGULAR else 0


@without_reassociation
def _square(q, start):
    """The squared norm of the quaternion in q that begins at `start`."""
    a, b, c, d = take(q, start, 4)
    return a * a + b * b + c * c + d * d


@without_reassociation
def _solve_linear(table, solution):
    """q_d = G q_i + g for one linear cluster, whose array begins at `table`."""
    cluster = unpack_linear_cluster(table)
    for i in range(cluster.dependent):
        row = i * (cluster.independent + 1)
        total = cluster.rows[row + cluster.independent]
        for k in range(cluster.independent):
            total += cluster.rows[row + k] * solution[cluster.q_i[k]]
        store(solution, cluster.q_d[i], total)


@inline_section
def settle_at(loop, start, solution):
    """Close a loop where its path begins. Returns 0, or 1 if it cannot be closed, or -1 if it is singular."""
    for i in range(loop.coordinates):
        store(loop.x, i, start[loop.source[i]])
        store(loop.base, i, loop.x[i])
        if not loop.follows[i]:
            store(loop.goal, i, solution[loop.source[i]])
    return settle(loop)


@inline_section
def write_coordinates(closure, loop, solution):
    """Write the dependent coordinates that were found for a loop, and its pivot."""
    store(solution, closure.size - 1, min(solution[closure.size - 1], loop.control[PIVOT]))
    for i in range(loop.coordinates):
        if loop.follows[i]:
            store(solution, loop.source[i], loop.x[i])


@without_reassociation
def write_G(loop, solutions, size, count):
    """Write G of the dependent columns to the solution; of lanes, to `count` of them, `size` apart."""
    p, d, n, m = loop.rows, loop.dependent, loop.independent, loop.columns
    K_d = beyond(loop.now, m * p)
    for s in range(m):
        for k in range(n):
            store(loop.G, s * n + k, 1.0 if k == loop.place[s] else 0.0)
    for s in range(m):
        k = loop.place[s]
        if k >= 0:
            for r in range(p):
                store(loop.b, r, -loop.now[s * p + r])
            solve_least(K_d, p, d, loop.stairs, loop.b, loop.z)
            for t in range(m):
                if loop.place[t] < 0:
                    slot = -1 - loop.place[t]
                    store(loop.G, t * n + k, loop.z[slot])
                    for lane in range(count):
                        number = load_lane(loop.z, slot, lane)
                        store(solutions, lane * size + loop.G_at[t] + k, number)


@without_reassociation
def write_derivatives(loop, solutions, size, count):
    """`write_G`, and LG likewise."""
    write_G(loop, solutions, size, count)
    p, d, n = loop.rows, loop.dependent, loop.independent
    K_d = beyond(loop.now, loop.columns * p)
    move_links(loop)
    for j in range(n):
        vary_wrenches(loop, j)
        for k in range(j, n):
            vary_links(loop, j, k)
            second_derivatives(loop, j, k)
            solve_least(K_d, p, d, loop.stairs, loop.b, loop.z)
            _write_second(loop, solutions, size, count, j * n + k)
            if k > j:
                exchange(loop, j, k)
                _write_second(loop, solutions, size, count, k * n + j)


@without_reassociation
def _write_second(loop, solutions, size, count, entry):
    """Write -z to an entry of LG of every dependent column."""
    for t in range(loop.columns):
        if loop.place[t] < 0:
            for lane in range(count):
                number = -load_lane(loop.z, -1 - loop.place[t], lane)
                store(solutions, lane * size + loop.LG_at[t] + entry, number)
