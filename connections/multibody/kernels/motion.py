"""A step of a tree's free motion by an explicit Runge-Kutta method, all its stages in one call.

    qdot = X(q) v,    vdot = -H^-1 (C v + g).

The stages are combined by `engines/inlined/runge_kutta.py`. The method's weights are an argument; they are in
`integration/dop853.py`, and how long steps are is decided by `integration/driver.py`.
"""

import math

from connections.engines.inlined.rows import are_above, clear, copy_numbers
from connections.engines.inlined.runge_kutta import begin, finish, linear_step, move
from connections.engines.inlined.simd import (
    beyond,
    flat_slots_of,
    inlined,
    load,
    one,
    put,
    slots_of,
    store,
    take,
)
from connections.engines.inlined.vectors import quaternion_columns
from connections.multibody.kernels.articulated import forward_dynamics
from connections.multibody.kernels.boundary import reduce_coordinates
from connections.multibody.kernels.coriolis import mass_matrix
from connections.multibody.kernels.layout import FREE, PRISMATIC, SPHERICAL, is_current, unpack_tree
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
    begin(slots, rate, k)
    for stage in range(1, stages):
        move(slots, y, h, weights, stage, k)
        if not _rate(tree, slots, beyond(slots, (5 + stage) * k)):
            return False
    finish(slots, weights, k)
    _sizes(tree, elapsed, beyond(slots, 4 * k))
    return True


@one
def linear_at(memory, weights, h, A, y, rate, out):
    """The same for Pdot = A P, without sizes; A (s, n, n) at the stages is given, y is P (n, m) by rows."""
    if not is_current(memory):
        return False
    linear_step(weights, h, A, y, rate, flat_slots_of(out))
    return True


@inlined
def _rate(tree, y, rate):
    """Write dy/dt at y = (q, v), quaternions of any norm. Returns whether it is defined there."""
    work, v = tree.work, tree.vectors
    good = copy_numbers(work, 0, tree.nq, y) & copy_numbers(work, v, tree.nv, beyond(y, tree.nq))
    for i in range(1, tree.links + 1):
        if tree.kind[i] >= SPHERICAL:
            at = tree.coordinate[i] + (3 if tree.kind[i] == FREE else 0)
            a, b, c, d = take(y, at, 4)
            norm = math.sqrt(a * a + b * b + c * c + d * d)
            put(work, at, (a / norm, b / norm, c / norm, d / norm))
    clear(work, v + tree.nv, tree.nv)
    good &= reduce_coordinates(tree, work, work)
    forward_dynamics(tree, work, beyond(rate, tree.nq))
    _frame_times(tree, beyond(work, v), False, rate)
    return good and are_above(work, tree.pivots, tree.nv, SMALLEST_PIVOT)


@inlined
def _sizes(tree, elapsed, sizes):
    """What the components at the last state can be expected to be, as `affine.sizes.motion_sizes`."""
    work, nv, speed = tree.work, tree.nv, 0.0
    H, velocities = tree.scratch, beyond(sizes, tree.nq)
    mass_matrix(tree, work, beyond(work, H))
    for j in range(nv):
        speed += math.sqrt(load(work, H + j * nv + j)) * abs(load(work, tree.vectors + j))
    for j in range(nv):
        store(velocities, j, speed / math.sqrt(load(work, H + j * nv + j)))
    _frame_times(tree, velocities, True, sizes)
    for k in range(tree.nq):
        store(sizes, k, elapsed * sizes[k])


@inlined
def _frame_times(tree, v, absolute, out):
    """Write X(q) v at the q in the workspace, or |X(q)| v if `absolute`."""
    for i in range(1, tree.links + 1):
        kind, at, j = tree.kind[i], tree.coordinate[i], tree.first[i]
        if kind <= PRISMATIC:
            store(out, at, v[j])
            continue
        sign, (a, b, c), q = -1.0, take(v, j, 3), take(tree.work, at + (3 if kind == FREE else 0), 4)
        if kind == FREE:
            x, y, z = quaternion_columns(q)
            for row in range(3):
                entries = x[row], y[row], z[row]
                if absolute:
                    entries = abs(entries[0]), abs(entries[1]), abs(entries[2])
                store(out, at + row, entries[0] * v[j + 3] + entries[1] * v[j + 4] + entries[2] * v[j + 5])
            at += 3
        if absolute:
            sign, q = 1.0, (abs(q[0]), abs(q[1]), abs(q[2]), abs(q[3]))
        x, y, z, w = 0.5 * q[0], 0.5 * q[1], 0.5 * q[2], 0.5 * q[3]
        put(out, at, (w * a + sign * z * b + y * c, z * a + w * b + sign * x * c))
        put(out, at + 2, (sign * y * a + x * b + w * c, sign * (x * a + y * b + z * c)))
