"""Variational steps of closed chains: Newton's method on the independent joints, while loops stay closed.

With the spanning configurations q_s at q_k and q_{k+1}, at which loops close, v_s = G v there, and the
discrete momentum p_s(q_s, q_s') = J_s(q_s)^T p of the spanning tree (`variational`),

    G_k^T p_s = P_k + (h/2) (tau_k - G_k^T g_k),
    P_{k+1} = G_{k+1}^T p_s' + (h/2) (tau_{k+1} - G_{k+1}^T g_{k+1}),

where p_s' = J_s(q_s')^T p, and g are the spanning tree's. So the discrete Lagrangian is that of the spanning
tree at closed configurations, a function of the independent joints alone: a step is symplectic, its own
adjoint, and has no multipliers. Newton's matrix is

    M = G_k^T (d p_s / d q_s') G_{k+1},

exact but for terms of fourth order in a step, (nv, nv), a column at a time. Independent joints are joints of
the spanning tree, so it takes the forces tau as they are, and G^T gives them back. The loops are followed
from iterate to iterate, by `loop_continuation`. Source: [MW] section 3; [W] VI-C.

`reduced` is `layout.CLUSTERS`, unpacked. Solutions [q_s | G | LG] of the loops are in two of its sections:
at q_k in `solution`, at q_{k+1} in `there`.
"""

import math

from connections.engines.inlined.pivoting import factorize_by_rows, solve_by_rows
from connections.engines.inlined.rows import clear
from connections.engines.inlined.simd import (
    as_integers,
    beyond,
    compiled_batch_entry,
    flat_slots_of,
    inlined,
    load,
    routine,
    slots_of,
    store,
)
from connections.multibody.kernels.cluster_columns import columns_of
from connections.multibody.kernels.elementary_joints import displace_coordinates, put_displacement
from connections.multibody.kernels.layout import (
    BAD_INPUT,
    INDIRECT,
    KEPT,
    PARAMETERS,
    REFINABLE,
    unpack_closure,
    unpack_clusters,
    unpack_loop,
    unpack_tree,
)
from connections.multibody.kernels.layout import STEP_COLUMN as COLUMN
from connections.multibody.kernels.layout import STEP_LINK as LINK
from connections.multibody.kernels.loop_branches import reach
from connections.multibody.kernels.loop_continuation import (
    LOOPS_REMAIN,
    begin,
    digits_lost,
    settle_at,
    write_coordinates,
    write_G,
)
from connections.multibody.kernels.reading import reduce_coordinates
from connections.multibody.kernels.variational import (
    AWAY,
    CLOSE,
    LARGE,
    MOST_ITERATIONS,
    SLOW,
    TURNED,
    UNSOLVED,
    armature_momenta,
    begin_momenta,
    end_step,
    excess_turn,
    gather,
    move_links,
    potential_energy,
    predict,
    prepare_step,
    put_ways,
    read_velocities,
    remember,
    slope_product,
    weights,
)

OPEN = 4.0  # as in `coriolis.variational`
ASKED = -1.0  # the loops have to be solved by someone else, for `known`
ROUND_OFF = 16 * 2.0**-52  # a change of coordinates, relative to them, that is no change


@routine
def close_near(numbers, q, start, solution):
    """`loop_entries.closure_at` for q (nq,), followed from q_s in slots `start`, without LG."""
    loops = unpack_closure(numbers)
    status = begin(numbers, q, loops.nq, start, loops.spanning_nq, solution)
    if status != LOOPS_REMAIN:
        return status
    for i in range(loops.loops):
        loop = unpack_loop(loops, i)
        status = settle_at(loop, start, solution)
        if status == 0:
            status = reach(loop)
        if status == INDIRECT:
            return INDIRECT
        if status != 0:
            return status * (1 + loop.number)
        write_coordinates(loops, loop, solution)
        write_G(loop, solution, 0, 1)
    return digits_lost(loops, solution)


@inlined
def _close(numbers, q, solution, known, asked):
    """Follow the loops from a solution to q (nq,), or take what is known there.

    Returns 0, `ASKED`, `OPEN` or `UNSOLVED`.

    known : (n, nq + size): configurations and solutions there.
    asked : slots in which q and the q_s from which its path begins are left.
    """
    loops, result = unpack_closure(numbers), 0.0
    for row in range(known.shape[0]):
        same = True
        for i in range(loops.nq):
            same &= known[row, i] == q[i]
        if same:
            for i in range(loops.size):
                store(solution, i, known[row, loops.nq + i])
            return result
    for i in range(loops.nq):
        store(asked, i, q[i])
    for i in range(loops.spanning_nq):
        store(asked, loops.nq + i, solution[i])
    status = close_near(numbers, q, beyond(asked, loops.nq), solution)
    if status == REFINABLE or status == INDIRECT or (status == BAD_INPUT and loops.functions != 0):
        result = ASKED
    elif status != 0:
        result = UNSOLVED if status == BAD_INPUT else OPEN
    return result


# --- the spanning tree --------------------------------------------------------------------------------------


@inlined
def project(tree, reduced, work, solution, f, out):
    """G^T f of a solution, slots out[j], of slots f[s]."""
    clear(work, out, reduced.nv)
    for s in range(tree.nv):
        first, count = columns_of(tree, reduced, s)
        row = solution + reduced.G_row[s]
        for k in range(count):
            store(
                work, out + first + k, load(work, out + first + k) + load(work, row + k) * load(work, f + s)
            )


@inlined
def _spread(tree, reduced, work, tau, out):
    """Forces (nv,) in slots `tau` as forces on the spanning tree, slots out[s]."""
    for s in range(tree.nv):
        j = reduced.independent[s]
        store(work, out + s, tau[j] if j >= 0 else 0.0)


@inlined
def _put_column(tree, reduced, work, j, x):
    """Column j of G at the end of a step, slots x[s]."""
    for s in range(tree.nv):
        first, count = columns_of(tree, reduced, s)
        inside = first <= j and j < first + count
        store(work, x + s, load(work, reduced.there + reduced.G_row[s] + j - first) if inside else 0.0)


@inlined
def put_newton_matrix(tree, reduced, work, h, M):
    """M, slots M[i nv + j], after `move_links` with K."""
    x, change, column = reduced.spanning, reduced.spanning + tree.nv, reduced.spanning + 2 * tree.nv
    for j in range(reduced.nv):
        _put_column(tree, reduced, work, j, x)
        slope_product(tree, work, h, x, beyond(work, change))
        project(tree, reduced, work, reduced.solution, change, column)
        for i in range(reduced.nv):
            store(work, M + i * reduced.nv + j, load(work, column + i))


@inlined
def place_tree(tree, reduced, work):
    """Prepare the spanning tree at q_k. Returns whether quaternions are units."""
    for i in range(tree.nq):
        store(work, i, load(work, reduced.solution + i))
    good = reduce_coordinates(tree, work, work)
    prepare_step(tree, work)
    return good


@inlined
def displace(tree, reduced, work, columns, changes, q):
    """Move the independent joints from `there` by changes (nv,). Writes q (nq,), with `state` as workspace.

    columns : spanning coordinates of the independent ones.
    """
    for i in range(tree.nq):
        store(work, reduced.state + i, load(work, reduced.there + i))
    for i in range(1, tree.links + 1):
        j = reduced.independent[tree.first[i]]
        if j >= 0:
            own = beyond(work, tree.per_link + i * LINK.size + LINK.own)
            constants, x = beyond(tree.parameters, i * PARAMETERS.size), beyond(work, changes + j)
            put_displacement(tree.kind[i], constants, x, own)
            displace_coordinates(tree.kind[i], beyond(work, reduced.state + tree.coordinate[i]), own)
    for i in range(reduced.nq):
        store(work, q + i, load(work, reduced.state + columns[i]))


# --- a step -------------------------------------------------------------------------------------------------


@inlined
def loop_step(tree, reduced, numbers, h, state, history, forces, known, asked, count):
    """A step from q, P in `state`, or what else `count` asks for (`loop_steps_rows`).

    The solution at q, in the workspace, is replaced by that of the end; without a step, the end is `there`.
    forces : slots of tau at the beginning and at the end.
    Returns 0, `UNSOLVED`, `TURNED`, `OPEN` or `ASKED`, and how many iterations there were. If it is not 0,
    nothing has changed but the workspace.
    """
    work, nv, nv_s, nq, stepping = tree.work, reduced.nv, tree.nv, reduced.nq, count > 0
    p_s, ways, M = reduced.spanning + 2 * nv_s, reduced.spanning + 3 * nv_s, reduced.scratch
    q, changes, goal, p = reduced.step, _changes(reduced), _goal(reduced), _goal(reduced) + nv
    there, columns = beyond(work, reduced.there), unpack_closure(numbers).columns
    place_tree(tree, reduced, work)
    if stepping:
        _begin(tree, reduced, work, h, state, history, forces)
    more, sloped, away, done, last = True, True, False, 0, math.inf
    while True:
        if stepping:
            displace(tree, reduced, work, columns, changes, q)
            why = _close(numbers, beyond(work, q), there, known, asked)
            if why != 0.0:
                return why, done
        put_ways(tree, work, there)
        armature_momenta(tree, work, h)
        move_links(tree, work, h, sloped and more)
        read_velocities(tree, work, ways)
        if not more:
            break
        gather(tree, work, beyond(work, p_s))
        project(tree, reduced, work, reduced.solution, p_s, p)
        if sloped:
            put_newton_matrix(tree, reduced, work, h, M)
        if count == -1 or count == -2:
            if count == -1 and not (excess_turn(tree, work) < 0.0):
                return TURNED, done
            if count == -2:
                _multiply(nv, work, M, beyond(state, nq), p)
            for j in range(nv):
                store(state, nq + j, load(work, p + j))
            break
        if sloped:
            factorize_by_rows(nv, work, M, reduced.pivots)
        for j in range(nv):
            store(work, changes + j, load(work, goal + j) - load(work, p + j) if stepping else state[nq + j])
        solve_by_rows(nv, work, M, reduced.pivots, changes)
        if count == 0:
            for j in range(nv):
                store(history, j, load(work, changes + j))
            break
        energy, decrement, size, small = 0.0, 0.0, 1.0, True
        for i in range(tree.nq):
            size = max(size, 1.0 + abs(there[i]))
        for s in range(nv_s):
            j = reduced.independent[s]
            if j >= 0:
                change = load(work, changes + j)
                energy += load(work, ways + s) * load(work, p + j)
                decrement += change * (load(work, goal + j) - load(work, p + j))
                small &= abs(change) <= ROUND_OFF * size
        decrement, done = abs(decrement), done + 1
        energy = abs(energy) + decrement
        left = decrement / min(last, energy) if decrement > 0.0 else 0.0
        more = decrement * left > CLOSE * energy and not small
        away |= done > 1 and decrement > AWAY * last and decrement > LARGE * energy
        sloped, last = left > SLOW, decrement
        # A search that leaves goes on: it may say that loops do not close where it leads.
        if not (decrement < math.inf) or (more and done == MOST_ITERATIONS) or (away and not more):
            return UNSOLVED, done
    return _end(tree, reduced, h, state, history) if stepping else 0.0, done


@inlined
def _changes(reduced):
    """The first of 4 nv slots behind q: changes of independent joints, and what `predict` needs."""
    return reduced.step + reduced.nq


@inlined
def _goal(reduced):
    """The first slot of what G_k^T p_s has to be; behind it is what it is."""
    return reduced.step + reduced.nq + 4 * reduced.nv


@inlined
def _begin(tree, reduced, work, h, state, history, forces):
    """Set outer forces and the goal P_k + (h/2) (tau_k - G_k^T g_k), and predict the changes from q_k."""
    nv, nv_s, at, goal, changes = reduced.nv, tree.nv, tree.vectors, _goal(reduced), _changes(reduced)
    outer = reduced.spanning
    _spread(tree, reduced, work, forces, at + nv_s)
    _spread(tree, reduced, work, beyond(forces, nv), at + 2 * nv_s)
    weights(tree, work, beyond(work, outer))
    for s in range(nv_s):
        store(work, outer + s, load(work, at + nv_s + s) - load(work, outer + s))
        store(work, tree.per_column + s * COLUMN.size + COLUMN.outer, load(work, outer + s))
    project(tree, reduced, work, reduced.solution, outer, goal)
    predict(work, changes, nv, h, history)
    for j in range(nv):
        store(work, goal + j, state[reduced.nq + j] + 0.5 * h * load(work, goal + j))
        store(work, changes + j, h * load(work, changes + j))
    for i in range(reduced.solution_size):
        store(work, reduced.there + i, load(work, reduced.solution + i))


@inlined
def _multiply(n, work, M, x, product):
    """M x, slots product[i], of x (n,) in slots."""
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += load(work, M + i * n + j) * x[j]
        store(work, product + i, total)


@inlined
def _end(tree, reduced, h, state, history):
    """Write the end of a step that was found to `state` and `history`. Returns 0, `UNSOLVED` or `TURNED`."""
    work, nv, nv_s, nq = tree.work, reduced.nv, tree.nv, reduced.nq
    ways, changes, P = reduced.spanning + 3 * nv_s, _changes(reduced), _goal(reduced)
    momenta, own = beyond(work, reduced.base_momenta), beyond(history, KEPT * nv)
    kinds = as_integers(beyond(work, reduced.base_kinds))
    for i in range(tree.nq):
        store(work, reduced.state + i, load(work, reduced.solution + i))
    for s in range(nv_s):
        j = reduced.independent[s]
        if j >= 0:
            store(momenta, s, own[j])
            store(momenta, nv_s + s, own[nv + j])
            store(work, changes + j, load(work, ways + s))
    if not (excess_turn(tree, work) < 0.0):
        return TURNED
    end_step(tree, work, h, beyond(work, reduced.state), momenta, kinds)
    project(tree, reduced, work, reduced.there, reduced.state + tree.nq, P)
    good = True
    for j in range(nv):
        good &= abs(load(work, P + j)) < math.inf
    if not good:
        return UNSOLVED
    for i in range(nq):
        store(state, i, load(work, reduced.step + i))
    for j in range(nv):
        store(state, nq + j, load(work, P + j))
    for s in range(nv_s):
        j = reduced.independent[s]
        if j >= 0:
            store(own, j, momenta[s])
            store(own, nv + j, momenta[nv_s + s])
    remember(work, changes, nv, h, history)
    for i in range(reduced.solution_size):
        store(work, reduced.solution + i, load(work, reduced.there + i))
    return 0.0


@inlined
def _begin_bases(tree, reduced, state, history):
    """`begin_momenta` of the spanning tree, for the bases that `base_kinds` names."""
    work, nv, own = tree.work, reduced.nv, beyond(history, KEPT * reduced.nv)
    momenta, kinds = beyond(work, reduced.base_momenta), as_integers(beyond(work, reduced.base_kinds))
    clear(work, reduced.base_momenta, 2 * tree.nv)
    for i in range(tree.nq):
        store(work, reduced.state + i, load(work, reduced.solution + i))
    _spread(tree, reduced, work, beyond(state, reduced.nq), reduced.state + tree.nq)
    begin_momenta(tree, beyond(work, reduced.state), momenta, kinds)
    for s in range(tree.nv):
        j = reduced.independent[s]
        if j >= 0:
            store(own, j, momenta[s])
            store(own, nv + j, momenta[tree.nv + s])


@compiled_batch_entry
def loop_steps_rows(memory, closure, clusters, starts, y, forces, before, lengths, plan, known, asked, out):
    """Make steps of closed chains, as `variational.variational_rows`, from rows y = (q, P), (m, k).

    starts : (m, size), solutions of the loops at q; those where the rows end replace them.
    forces, before, lengths : as there.
    plan : count, how many parts of steps were made before, and the shares of a step. The count is as there.
    known : (n, nq + size), configurations, and solutions there; for a count of -1, row by row those at q1.
    asked : (m, nq + nq_s), q and the beginning of the path that someone else has to follow, where `why` is
        `ASKED`: then a call with this solution in `known` goes on.
    out : (m, k + n + 3), as there, but the parts of steps that were made, those before included. Where `why`
        is not zero, q and P are those from which the last part was tried.
    """
    tree, reduced = unpack_tree(slots_of(memory)), unpack_clusters(slots_of(clusters))
    numbers, work = flat_slots_of(closure), tree.work
    k, count, parts = reduced.nq + reduced.nv, int(plan[0]), plan.shape[0] - 2
    last = (KEPT + 2) * reduced.nv + KEPT
    kinds = as_integers(beyond(work, reduced.base_kinds))
    for i in range(tree.links + 1):
        store(kinds, i, tree.kind[i] if reduced.direct[i] else -1)
    for row in range(y.shape[0]):
        state = beyond(flat_slots_of(out), row * out.shape[1])
        history, about = beyond(state, k), beyond(state, k + last + 1)
        for i in range(k):
            store(state, i, y[row, i])
        for i in range(last + 1):
            store(history, i, before[row, i])
        for i in range(reduced.solution_size):
            store(work, reduced.solution + i, starts[row, i])
            there = known[row, reduced.nq + i] if count == -1 else starts[row, i]
            store(work, reduced.there + i, there)
        if count > 0 and history[last] == 0.0:
            _begin_bases(tree, reduced, state, history)
        own = beyond(flat_slots_of(forces), row * forces.shape[1])
        ask = beyond(flat_slots_of(asked), row * asked.shape[1])
        made, many, why, iterations = int(plan[1]), max(count, 1) * parts, 0.0, 0
        while made < many and why == 0.0:
            part = plan[2 + made % parts] * lengths[row, 0]
            why, done = loop_step(tree, reduced, numbers, part, state, history, own, known, ask, count)
            iterations += 0 if why == ASKED else done
            if why == 0.0:
                made += 1
            elif why == UNSOLVED and history[last] > 1.0:
                # What was extrapolated may be far off: again, from the last velocities.
                store(history, last, 1.0)
                why = 0.0
        store(about, 2, float(iterations) if count > 0 else potential_energy(tree, work))
        store(about, 0, float(made))
        store(about, 1, why)
        for i in range(reduced.solution_size):
            starts[row, i] = load(work, reduced.solution + i)
    return True
