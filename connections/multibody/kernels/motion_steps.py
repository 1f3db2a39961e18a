"""A step of a tree's free motion by an explicit Runge-Kutta method, all its stages in one call.

    qdot = X(q) v,    vdot = -H^-1 (C v + g).

The stages are combined by `engines/inlined/runge_kutta.py`. The method's weights are an argument; they are in
`integration/dop853.py`, and how long steps are is decided by `integration/driver.py`.
"""

import math

from connections.engines.inlined.rows import LARGEST, are_above, are_within, clear, read_rows
from connections.engines.inlined.runge_kutta import begin, finish, linear_step, move
from connections.engines.inlined.simd import (
    LANES,
    beyond,
    compiled_batch_entry,
    compiled_entry,
    flat_slots_of,
    inlined,
    load,
    put,
    root,
    slots_of,
    store,
    take,
)
from connections.multibody.kernels.articulated import forward_dynamics
from connections.multibody.kernels.coriolis import mass_matrix
from connections.multibody.kernels.elementary_joints import put_rate
from connections.multibody.kernels.layout import unpack_tree
from connections.multibody.kernels.reading import reduce_coordinates, reduce_rows
from connections.multibody.tolerances import SMALLEST_PIVOT


@compiled_entry
def motion_at(memory, weights, h, y, rate, out):
    """Write the step of length h from y = (q, v), (k,), with dy/dt = rate, to `out`.

    weights : (s + 2, s) of the rates of s stages: in each stage, the last of which is the end of the step,
        and in the two estimates of the error.
    out : (6 + s, k), the six rows of `integration.steps.Attempt`, then the rates of the stages; v^T H v is
        what motions without gravity conserve.

    Returns whether all stages are states of the tree at which H is regular; if not, row 0 is one that is not.
    """
    tree, slots, k, stages = unpack_tree(slots_of(memory)), flat_slots_of(out), y.shape[0], weights.shape[1]
    if k != tree.nq + tree.nv:
        return False
    work = tree.work
    begin(slots, rate, k)
    for stage in range(1, stages):
        move(slots, y, h, weights, stage, k)
        place(tree, work, slots)
        good = are_within(slots, 0, k, LARGEST) and reduce_coordinates(tree, work, work)
        _rate(tree, work, beyond(slots, (6 + stage) * k))
        if not (good and are_above(work, tree.pivots, tree.nv, SMALLEST_PIVOT)):
            return False
    finish(slots, weights, k)
    put_units(tree, work, beyond(slots, 4 * k), beyond(slots, 5 * k), k)
    return True


@compiled_batch_entry
def motion_rows(memory, work, weights, h, y, rate, out):
    """`motion_at` for rows: h (m,), y and rate (m, k), out (m, 6, k).

    work : (slots, LANES), those of the tree and (7 + s) k + 2 more.

    Where `motion_at` would return False, the row is NaN. Returns whether y is of the tree.
    """
    tree, k, stages = unpack_tree(slots_of(memory)), y.shape[1], weights.shape[1]
    if k != tree.nq + tree.nv:
        return False
    slots, start = slots_of(work), tree.result
    result, begin_y = beyond(slots, start), start + (6 + stages) * k
    step, lost = begin_y + k, begin_y + k + 1
    for row in range(0, y.shape[0], LANES):
        read_rows(work, begin_y, k, y, row)
        read_rows(work, start + 6 * k, k, rate, row)
        for lane in range(LANES):
            r = min(row + lane, y.shape[0] - 1)
            work[step, lane], work[lost, lane] = h[r], 0.0
        for stage in range(1, stages):
            move(result, beyond(slots, begin_y), load(slots, step), weights, stage, k)
            place(tree, slots, result)
            reduce_rows(tree, work)
            _rate(tree, slots, beyond(result, (6 + stage) * k))
            for lane in range(LANES):
                good = True
                for at in range(start, start + k):
                    good &= abs(work[at, lane]) <= LARGEST
                for at in range(tree.pivots, tree.pivots + tree.nv):
                    good &= work[at, lane] > SMALLEST_PIVOT
                if not good:
                    work[lost, lane] = math.nan
        finish(result, weights, k)
        put_units(tree, slots, beyond(result, 4 * k), beyond(result, 5 * k), k)
        for lane in range(min(LANES, y.shape[0] - row)):
            for part in range(6):
                for i in range(k):
                    out[row + lane, part, i] = work[start + part * k + i, lane] + work[lost, lane]
    return True


@compiled_entry
def linear_at(weights, h, A, y, rate, out):
    """A step of Pdot = A P, without units; A (s, n, n) at the stages is given, y is P (n, m) by rows."""
    linear_step(weights, h, A, y, rate, flat_slots_of(out))
    return True


@compiled_entry
def judge(found, state, scales, lengths, limits, out):
    """Write `integration.tolerances.with_error_ratios` of steps of w motions of one group to `out` (7, w, k).

    found : (6, w, k), each as of `integration.steps.Attempt`.
    state, scales : (6, w, k) and (2, w, k), as of `with_error_ratios`.
    lengths : (w, 3), the time from the beginning of the motion to the end of the step, how long the step is,
        and by how much the clock may be wrong; not negative.
    limits : how many of the first components are those of a point, rtol, atol, and ROUND_OFF, LEAST_TOLERANCE
        and LEAST_ERROR of `integration.tolerances`.
    """
    for row in range(found.shape[1]):
        points, rtol, atol, round_off, least_tolerance, least_error = limits
        elapsed, step, clock_error = lengths[row]
        grown = 0.0
        for i in range(found.shape[2]):
            out[0, row, i], out[1, row, i] = found[0, row, i], found[1, row, i]
            out[2, row, i] = abs(found[0, row, i] - scales[0, row, i])
            out[3, row, i] = max(state[3, row, i], out[2, row, i])
            in_units = abs(found[1 if i < points else 0, row, i])
            largest = state[4, row, i]
            if found[4, row, i] > 0.0:
                largest = max(largest, in_units / found[4, row, i])
            out[4, row, i], out[5, row, i] = largest, found[5, row, i]
            grown = max(grown, largest)
        for i in range(found.shape[2]):
            units = found[4, row, i] * (elapsed if i < points else 1.0)
            here, reach = out[2, row, i], min(out[3, row, i], out[4, row, i] * units)
            tolerance = atol * reach + rtol * min(reach, max(state[2, row, i], here))
            changed = scales[1, row, i] * step * found[4, row, i] * (step if i < points else 1.0)
            noise = max(grown * units, changed, abs(found[0, row, i]))
            tolerance = max(tolerance, round_off * noise)
            clock = clock_error * min(abs(state[1, row, i]), abs(found[1, row, i]))
            tolerance = max(tolerance, clock) + least_tolerance
            fifth, third = found[2, row, i] / tolerance, found[3, row, i] / tolerance
            error = step * fifth * (fifth / max(math.hypot(fifth, 0.1 * third), least_error))
            out[6, row, i] = error if step != 0.0 else found[4, row, i]
    return True


@inlined
def place(tree, work, y):
    """Copy y = (q, v), quaternions of any norm, into a workspace."""
    for k in range(tree.nq):
        store(work, k, load(y, k))
    for k in range(tree.nv):
        store(work, tree.vectors + k, load(y, tree.nq + k))
    for i in range(tree.quaternions):
        at = tree.quaternion_starts[i]
        a, b, c, d = take(y, at, 4)
        norm = root(a * a + b * b + c * c + d * d)
        put(work, at, (a / norm, b / norm, c / norm, d / norm))
    clear(work, tree.vectors + tree.nv, tree.nv)


@inlined
def _rate(tree, work, rate):
    """Write dy/dt at the state in the workspace."""
    forward_dynamics(tree, work, beyond(rate, tree.nq))
    frame_times(tree, work, beyond(work, tree.vectors), False, rate)


@inlined
def put_units(tree, work, units, conserved, k):
    """The units of the components at the last state, as `motion_units`, and v^T H v."""
    nv, H, velocities = tree.nv, tree.scratch, beyond(units, tree.nq)
    mass_matrix(tree, work, beyond(work, H))
    for j in range(nv):
        length = root(load(work, H + j * nv + j))
        store(velocities, j, (length * 0.0 + 1.0) / length)  # one, or ones for the lanes
    frame_times(tree, work, velocities, True, units)
    clear(conserved, 0, k)
    for j in range(nv):
        momentum = 0.5 * load(work, H + j * nv + j) * load(work, tree.vectors + j)
        i = tree.up[j]
        while i >= 0:
            momentum = momentum + load(work, H + i * nv + j) * load(work, tree.vectors + i)
            i = tree.up[i]
        store(conserved, 0, load(conserved, 0) + 2.0 * momentum * load(work, tree.vectors + j))
    if k > 0:
        store(conserved, k - 1, load(conserved, 0))


@inlined
def frame_times(tree, work, v, sizes, out):
    """Write X(q) v at the q in the workspace, or |X(q)| v if `sizes`."""
    for i in range(1, tree.links + 1):
        at, own = tree.coordinate[i], beyond(v, tree.first[i])
        put_rate(tree.kind[i], beyond(work, at), own, sizes, beyond(out, at))
