"""Configurations to workspaces, with compiled checks; one configuration or LANES.

The checks only return whether the input is good; if it is not, `Program` finds out in Python what is wrong.
Quaternions are normalized on their way into the workspace; the caller's array is not changed.
"""

from connections.engines.inlined.rows import read_numbers, read_rows
from connections.engines.inlined.simd import LANES, inlined, slots_of, store
from connections.engines.inlined.vectors import normalize, reduced_angle
from connections.geometry.numerics.scales import POINT_TOLERANCE


@inlined
def is_unit(square):
    """Whether a quaternion q of this squared norm counts as of norm one: | |q|^2 - 1 | <= 2 tolerances."""
    return abs(square - 1.0) <= 2.0 * POINT_TOLERANCE


@inlined
def read_configuration(tree, work, q):
    """Copy q (nq,) into a workspace of one configuration. Returns whether it is good, its size included."""
    return read_numbers(work, 0, tree.nq, q) and reduce_coordinates(tree, work, q)


@inlined
def read_configurations(tree, work, q, row):
    """Copy LANES rows of q (m, nq), from `row` on, the last one repeated. Returns whether they are good."""
    good = read_rows(work, 0, tree.nq, q, row)
    return good & reduce_rows(tree, work)


@inlined
def reduce_coordinates(tree, work, q):
    """Write q, reduced as angles, and normalize the quaternions of its copy in the workspace.

    Returns whether they were of norm one.
    """
    good = True
    for k in range(tree.nq):
        store(work, tree.angles + k, reduced_angle(q[k]))
    for i in range(tree.quaternions):
        good &= is_unit(normalize(work, tree.quaternion_starts[i]))
    return good


@inlined
def reduce_rows(tree, work):
    """`reduce_coordinates` for all lanes of a workspace (slots, LANES), from its copy of q."""
    good = True
    for k in range(tree.nq):
        for lane in range(LANES):
            work[tree.angles + k, lane] = reduced_angle(work[k, lane])
    for i in range(tree.quaternions):
        at = tree.quaternion_starts[i]
        for lane in range(LANES):
            square = work[at, lane] * work[at, lane] + work[at + 1, lane] * work[at + 1, lane]
            square += work[at + 2, lane] * work[at + 2, lane] + work[at + 3, lane] * work[at + 3, lane]
            good &= is_unit(square)
        normalize(slots_of(work), at)
    return good
