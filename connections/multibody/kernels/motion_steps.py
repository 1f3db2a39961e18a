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
    absolute,
    beyond,
    flat_slots_of,
    inlined,
    load,
    one,
    put,
    root,
    rows,
    slots_of,
    store,
    take,
)
from connections.multibody.kernels.articulated import forward_dynamics
from connections.multibody.kernels.coriolis import mass_matrix
from connections.multibody.kernels.elementary_joints import put_rate
from connections.multibody.kernels.layout import is_current, unpack_tree
from connections.multibody.kernels.reading import reduce_coordinates, reduce_rows
from connections.multibody.tolerances import SMALLEST_PIVOT


@one
def motion_at(memory, weights, h, elapsed, y, rate, out):
    """Write the step of length h from y = (q, v), (k,), with dy/dt = rate, to `out`.

    weights : (s + 2, s) of the rates of s stages: in each stage, the last of which is the end of the step,
        and in the two estimates of the error.
    elapsed : the time from the start of the motion to the end of the step.
    out : (5 + s, k), the five rows of `integration.steps.Attempt`, then the rates of the stages.

    Returns whether all stages are states of the tree at which H is regular; if not, row 0 is one that is not.
    """
    if not is_current(memory):
        return False
    tree, slots, k, stages = unpack_tree(slots_of(memory)), flat_slots_of(out), y.shape[0], weights.shape[1]
    if k != tree.nq + tree.nv:
        return False
    work = tree.work
    begin(slots, rate, k)
    for stage in range(1, stages):
        move(slots, y, h, weights, stage, k)
        _place(tree, work, slots)
        good = are_within(slots, 0, k, LARGEST) and reduce_coordinates(tree, work, work)
        _rate(tree, work, beyond(slots, (5 + stage) * k))
        if not (good and are_above(work, tree.pivots, tree.nv, SMALLEST_PIVOT)):
            return False
    finish(slots, weights, k)
    _sizes(tree, work, elapsed, beyond(slots, 4 * k))
    return True


@rows
def motion_rows(memory, work, weights, h, elapsed, y, rate, out):
    """`motion_at` for rows: h and elapsed (m,), y and rate (m, k), out (m, 5, k).

    work : (slots, LANES), those of the tree and (6 + s) k + 3 more.

    Where `motion_at` would return False, the row is NaN. Returns whether memory and y are of the tree.
    """
    if not is_current(memory):
        return False
    tree, k, stages = unpack_tree(slots_of(memory)), y.shape[1], weights.shape[1]
    if k != tree.nq + tree.nv:
        return False
    slots, start = slots_of(work), tree.result
    result, begin_y = beyond(slots, start), start + (5 + stages) * k
    step, spent, lost = begin_y + k, begin_y + k + 1, begin_y + k + 2
    for row in range(0, y.shape[0], LANES):
        read_rows(work, begin_y, k, y, row)
        read_rows(work, start + 5 * k, k, rate, row)
        for lane in range(LANES):
            r = min(row + lane, y.shape[0] - 1)
            work[step, lane], work[spent, lane], work[lost, lane] = h[r], elapsed[r], 0.0
        for stage in range(1, stages):
            move(result, beyond(slots, begin_y), load(slots, step), weights, stage, k)
            _place(tree, slots, result)
            reduce_rows(tree, work)
            _rate(tree, slots, beyond(result, (5 + stage) * k))
            for lane in range(LANES):
                good = True
                for at in range(start, start + k):
                    good &= abs(work[at, lane]) <= LARGEST
                for at in range(tree.pivots, tree.pivots + tree.nv):
                    good &= work[at, lane] > SMALLEST_PIVOT
                if not good:
                    work[lost, lane] = math.nan
        finish(result, weights, k)
        _sizes(tree, slots, load(slots, spent), beyond(result, 4 * k))
        for lane in range(min(LANES, y.shape[0] - row)):
            for part in range(5):
                for i in range(k):
                    out[row + lane, part, i] = work[start + part * k + i, lane] + work[lost, lane]
    return True


@one
def linear_at(memory, weights, h, A, y, rate, out):
    """The same for Pdot = A P, without sizes; A (s, n, n) at the stages is given, y is P (n, m) by rows."""
    if not is_current(memory):
        return False
    linear_step(weights, h, A, y, rate, flat_slots_of(out))
    return True


@inlined
def _place(tree, work, y):
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
    _frame_times(tree, work, beyond(work, tree.vectors), False, rate)


@inlined
def _sizes(tree, work, elapsed, sizes):
    """What the components at the last state can be expected to be, as `motion_sizes`."""
    nv, speed = tree.nv, elapsed * 0.0  # a number, or one for each lane
    H, velocities = tree.scratch, beyond(sizes, tree.nq)
    mass_matrix(tree, work, beyond(work, H))
    for j in range(nv):
        speed = speed + root(load(work, H + j * nv + j)) * absolute(load(work, tree.vectors + j))
    for j in range(nv):
        store(velocities, j, speed / root(load(work, H + j * nv + j)))
    _frame_times(tree, work, velocities, True, sizes)
    for k in range(tree.nq):
        store(sizes, k, elapsed * sizes[k])


@inlined
def _frame_times(tree, work, v, sizes, out):
    """Write X(q) v at the q in the workspace, or |X(q)| v if `sizes`."""
    for i in range(1, tree.links + 1):
        at, own = tree.coordinate[i], beyond(v, tree.first[i])
        put_rate(tree.kind[i], beyond(work, at), own, sizes, beyond(out, at))
