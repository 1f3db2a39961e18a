"""A geodesic of a tree for a unit of time, with its derivatives by the initial velocity, in one call.

With the derivatives of tau = H a + C v at a = -H^-1 C v (`derivatives`), and the bracket ad_v of the frame,
variations xi of q along the frame fields and eta of v change by

    d xi / dt = eta - ad_v xi,    d eta / dt = -H^-1 (dtau/dq xi + dtau/dv eta),

with one solution for all columns. Steps are those of DOP853, whose tables are an argument, and so long that
their errors stay below a tolerance. Errors are sums of |e_j| sqrt(H_jj), which are at least ||e||.

Source: [B] Tables 4 to 8; the variation of qdot = X v in a frame with brackets.
"""

import math

from connections.engines.inlined.elimination import eliminate, solve_rows, subtract_row
from connections.engines.inlined.rows import LARGEST, are_above, are_within, clear
from connections.engines.inlined.simd import (
    beyond,
    compiled_batch_entry,
    flat_slots_of,
    inlined,
    load,
    slots_of,
    store,
)
from connections.engines.inlined.vectors import normalize
from connections.integration.tolerances import CUT, EXPONENT, GROWTH, LEAST, SAFETY
from connections.multibody.kernels.articulated import forward_dynamics, store_scales
from connections.multibody.kernels.derivatives import weightless_derivatives
from connections.multibody.kernels.elementary_joints import put_bracket
from connections.multibody.kernels.layout import DERIVATIVES_COLUMN, DERIVATIVES_LINK, unpack_tree
from connections.multibody.kernels.motion_steps import frame_times, place, put_units
from connections.multibody.kernels.reading import reduce_coordinates
from connections.multibody.tolerances import SMALLEST_PIVOT

END, WITH_DENSE = 12, 16  # the last stage of a step; the stages with those of its polynomial
FIRST, SMALLEST = 1 / 16, 1e-9  # steps
LOOSER = 10.0  # times the tolerance: errors of derivatives, relative to the size of their column


@compiled_batch_entry
def geodesic_at(memory, room, tables, y, columns, plan, times, kept, out):
    """Follow the geodesic that begins at y = (q, v), (nq + nv,), for a unit of time.

    room : (`room_size`,) numbers, a workspace.
    tables : (22, 16): weights of 16 stages, two estimates of the error, four coefficients of the polynomial.
    columns : (nv, c) variations of v at the beginning; c may be 0.
    plan : the tolerance, relative to the length; the round-off of coordinates; the length ||v||; the largest
        number of steps.
    times, kept : (s, 2) and (s, 8, nv c): begin and length of each step, and the polynomial of xi in it, as
        `affine.logarithms.shooting.AcceptedSteps`; nothing is kept if s is 0.
    out : (nq + nv + 2 nv c + 1,): q, v, xi, eta at the end, and the number of steps.

    Returns whether it arrived.
    """
    tree, slots, c = unpack_tree(slots_of(memory)), flat_slots_of(room), columns.shape[1]
    nq, nv, work, given = tree.nq, tree.nv, tree.work, flat_slots_of(columns)
    k, size = nq + nv + 2 * nv * c, nv * c
    start, here, end, D = WITH_DENSE * k, (WITH_DENSE + 1) * k, (WITH_DENSE + 2) * k, (WITH_DENSE + 4) * k
    if y.shape[0] != nq + nv or columns.shape[0] != nv or out.shape[0] != k + 1:
        return False
    for i in range(nq + nv):
        store(slots, start + i, y[i])
    clear(slots, start + nq + nv, size)
    for i in range(size):
        store(slots, start + nq + nv + size + i, given[i])
    good, t, h, count, first, most = True, 0.0, FIRST, 0, 0, int(plan[3])
    following = flat_slots_of(kept)
    while good and t < 1.0 and h > SMALLEST and count < most:
        h, error, stage = min(h, 1.0 - t), 0.0, first
        while stage < WITH_DENSE and error < 1.0:  # the rate is compiled in one place
            _move(slots, tables, h, stage, k)
            if not _rate(tree, work, slots, here, stage * k, c, D):
                error, good = math.inf, first > 0
            elif stage == END:
                error = _error(tree, work, slots, tables, h, c, D, plan)
                for i in range(k):
                    store(slots, end + i, load(slots, here + i))
                if kept.shape[0] == 0:
                    stage = WITH_DENSE
            stage += 1
        factor = CUT
        if error < math.inf:
            factor = min(GROWTH, max(CUT, SAFETY * max(error, LEAST) ** EXPONENT))
        if error < 1.0:
            if kept.shape[0] > 0:
                times[count, 0], times[count, 1] = t, h
                _keep(tree, slots, tables, h, c, beyond(following, count * 8 * size))
            for i in range(k):
                store(slots, start + i, load(slots, end + i))
                store(slots, i, load(slots, END * k + i))
            for i in range(tree.quaternions):
                normalize(slots, start + tree.quaternion_starts[i])
            t, count = t + h if h < 1.0 - t else 1.0, count + 1
        h, first = h * factor, 1
    for i in range(k):
        out[i] = load(slots, start + i)
    out[k] = count
    return good and t >= 1.0


@inlined
def _move(slots, tables, h, stage, k):
    """Write the state of a stage, behind the state at the beginning of the step."""
    here = (WITH_DENSE + 1) * k
    for i in range(k):
        store(slots, here + i, load(slots, here - k + i))
    for before in range(stage):
        if tables[stage, before] != 0.0:
            subtract_row(slots, -(h * tables[stage, before]), here, before * k, k)


@inlined
def _rate(tree, work, slots, state, rate, c, D):
    """Write the rates of a state, both in slots of `slots`. Returns whether H is regular there."""
    nq, nv, size = tree.nq, tree.nv, tree.nv * c
    place(tree, work, beyond(slots, state))
    reduced = reduce_coordinates(tree, work, work)
    if not (reduced and are_within(slots, state, nq + nv + 2 * size, LARGEST)):
        return False
    acceleration, xi, eta = tree.vectors + nv, state + nq + nv, state + nq + nv + size
    forward_dynamics(tree, work, beyond(work, acceleration))
    if not are_above(work, tree.pivots, nv, SMALLEST_PIVOT):
        return False
    frame_times(tree, work, beyond(work, tree.vectors), False, beyond(slots, rate))
    for j in range(nv):
        store(slots, rate + nq + j, load(work, acceleration + j))
    if c > 0:
        clear(slots, D, 2 * nv * nv)
        weightless_derivatives(tree, work, beyond(slots, D))
        for i in range(nv * nv):
            store(work, tree.scratch + i, load(slots, D + 2 * nv * nv + i))
        inertias = tree.per_link + DERIVATIVES_LINK.inertia, DERIVATIVES_LINK.size
        store_scales(tree, work, inertias, DERIVATIVES_COLUMN.size)
        eliminate(nv, tree.up, tree.run, work, tree.scratch, tree.pivots)
        for i in range(size):
            store(slots, rate + nq + nv + i, load(slots, eta + i))
        _subtract_brackets(tree, work, slots, xi, rate + nq + nv, c, D)
        moved = rate + nq + nv + size
        clear(slots, moved, size)
        for i in range(nv):
            for j in range(nv):
                by_q, by_v = load(slots, D + i * nv + j), load(slots, D + (nv + i) * nv + j)
                if by_q != 0.0 or by_v != 0.0:
                    for m in range(c):
                        change = by_q * load(slots, xi + j * c + m) + by_v * load(slots, eta + j * c + m)
                        store(slots, moved + i * c + m, load(slots, moved + i * c + m) + change)
        solve_rows(nv, c, tree.up, work, tree.scratch, beyond(slots, moved))
    return True


@inlined
def _subtract_brackets(tree, work, slots, xi, rate, c, D):
    """Subtract ad_v xi from the rows of joints whose frame fields do not commute."""
    spare = D + 3 * tree.nv * tree.nv + tree.nq + tree.nv + 1
    for n in range(tree.noncommuting_count):
        i = tree.noncommuting[n]
        first, width = tree.first[i], tree.first[i + 1] - tree.first[i]
        v = beyond(work, tree.vectors + first)
        for m in range(c):
            for j in range(width):
                store(slots, spare + 6 + j, load(slots, xi + (first + j) * c + m))
            put_bracket(tree.kind[i], v, beyond(slots, spare + 6), 1, beyond(slots, spare))
            for j in range(width):
                at = rate + (first + j) * c + m
                store(slots, at, load(slots, at) - load(slots, spare + j))


@inlined
def _error(tree, work, slots, tables, h, c, D, plan):
    """The largest error of q, v and each column over what is allowed; units are written behind D."""
    nq, nv, size = tree.nq, tree.nv, tree.nv * c
    k, units = nq + nv + 2 * size, D + 3 * nv * nv
    here, fifth, speed = (WITH_DENSE + 1) * k, (WITH_DENSE + 2) * k, plan[2]
    put_units(tree, work, beyond(slots, units), beyond(slots, units + nq + nv), 1)
    for estimate in range(2):
        clear(slots, fifth + estimate * k, k)
        for stage in range(END + 1):
            weight = tables[WITH_DENSE + estimate, stage]
            if weight != 0.0:
                subtract_row(slots, -(h * weight), fifth + estimate * k, stage * k, k)
    tolerance, round_off, largest = plan[0], plan[1], 0.0
    five, three, blur = 0.0, 0.0, 0.0
    for i in range(nq):
        unit = load(slots, units + i)
        five += abs(load(slots, fifth + i)) / unit
        three += abs(load(slots, fifth + k + i)) / unit
        blur += abs(load(slots, here + i)) / unit
    largest = _combined(five, three, tolerance * speed + round_off * blur)
    five, three = 0.0, 0.0
    for i in range(nq, nq + nv):
        unit = load(slots, units + i)
        five += abs(load(slots, fifth + i)) / unit
        three += abs(load(slots, fifth + k + i)) / unit
    largest = max(largest, _combined(five, three, tolerance * speed + round_off * speed))
    for m in range(c):
        most, allowed = 0.0, 1.0
        for part in range(2):
            five, three, reach = 0.0, 0.0, 0.0
            for j in range(nv):
                at, unit = nq + nv + part * size + j * c + m, load(slots, units + nq + j)
                five += abs(load(slots, fifth + at)) / unit
                three += abs(load(slots, fifth + k + at)) / unit
                reach += abs(load(slots, here + at)) / unit
            allowed = max(allowed, reach)
            most = max(most, _combined(five, three, LOOSER * tolerance))
        largest = max(largest, most / allowed)
    return largest


@inlined
def _combined(fifth, third, allowed):
    """The error of both estimates over what is allowed; infinite for NaN."""
    five, three = fifth / allowed, third / allowed
    error = five * (five / max(math.hypot(five, 0.1 * three), 1e-300))
    return error if error < math.inf else (0.0 if fifth == 0.0 else math.inf)


@inlined
def _keep(tree, slots, tables, h, c, kept):
    """The polynomial of xi in a step: eight rows as `integration.dop853.DENSE`."""
    size = tree.nv * c
    k, xi = tree.nq + tree.nv + 2 * size, tree.nq + tree.nv
    for i in range(size):
        value = load(slots, WITH_DENSE * k + xi + i)
        change = load(slots, (WITH_DENSE + 2) * k + xi + i) - value
        begin, end = load(slots, xi + i), load(slots, END * k + xi + i)
        store(kept, i, value)
        store(kept, size + i, change)
        store(kept, 2 * size + i, h * begin - change)
        store(kept, 3 * size + i, 2.0 * change - h * (begin + end))
    for row in range(4):
        clear(kept, (4 + row) * size, size)
        for stage in range(WITH_DENSE):
            weight = h * tables[WITH_DENSE + 2 + row, stage]
            if weight != 0.0:
                for i in range(size):
                    at = (4 + row) * size + i
                    store(kept, at, load(kept, at) + weight * load(slots, stage * k + xi + i))
