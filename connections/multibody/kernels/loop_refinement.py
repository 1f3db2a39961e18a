"""Loops that are nearly singular, closed and differentiated with twice as many digits.

Near a posture in which K_d is singular, as where bars are aligned, q_s(q) may be smooth, but float64 loses
its digits: at a pivot d of K_d, phi of 1e-16 leaves 1e-16 / d in q_s, and G, LG and their derivatives divide
what their terms have left by d once more each. So here x is a `twofold` number. Newton's method

    x_d <- x_d - K_d^+ phi

goes on from the float64 solution until it no longer moves x, and G and LG are those of x, by the kernels that
compute them for float64. What is rounded then is the result, once. Poses at the rounded q_s err by 1e-16, and
nothing divides that by d. Source: as `loop_path`; Higham, Accuracy and Stability of Numerical Algorithms, 25.
"""

from connections.engines.inlined.householder import scaled_length
from connections.engines.inlined.simd import (
    beyond,
    inline_section,
    put,
    routine,
    store,
    take,
    without_reassociation,
)
from connections.engines.inlined.twofold import as_twofold, nearest, twofold_of
from connections.engines.inlined.vectors import FARTHEST_ANGLE, reduced_angle, unit_quaternion
from connections.multibody.kernels.elementary_joints import is_wide
from connections.multibody.kernels.layout import unpack_loop_at
from connections.multibody.kernels.loop_continuation import write_derivatives
from connections.multibody.kernels.loop_geometry import place_links
from connections.multibody.kernels.loop_motion import move_dependent
from connections.multibody.kernels.loop_path import evaluate_and_solve

MOST_STEPS = 8  # of Newton's method, which begins within 1e-16 / d of the solution and is quadratic
REFINED = 1e-20  # the last step, relative to the loop's size, of a solution that was found


@inline_section
def refine(closure, solution):
    """Refine all loops of a solution. Returns 0, or 1 + c if the loop of cluster c cannot be closed."""
    for i in range(closure.loops):
        loop = unpack_loop_at(closure, i, as_twofold(beyond(closure.work, closure.slots)))
        _read(loop, solution)
        if not _close(loop) <= REFINED:
            return 1 + loop.number
        for c in range(loop.coordinates):
            if loop.follows[c]:
                store(solution, loop.source[c], nearest(loop.x[c]))
        write_derivatives(loop, solution, 0, 1)
    return 0


@without_reassociation
def _read(loop, solution):
    """Set x to the configuration of a solution, with quaternions of norm one."""
    for c in range(loop.coordinates):
        store(loop.x, c, solution[loop.source[c]])
    for link in range(1, loop.links + 1):
        if is_wide(loop.kind[link]):
            stop = loop.coordinate[link + 1] if link < loop.links else loop.coordinates
            put(loop.x, stop - 4, unit_quaternion(take(loop.x, stop - 4, 4)))


@routine
def _close(loop):
    """Newton's method until its steps no longer shrink; `now` belongs to x. Returns the last step."""
    last = 1.0
    for _ in range(MOST_STEPS):
        _place(loop)
        K_d = evaluate_and_solve(loop)
        length = nearest(scaled_length(K_d, loop.rows, loop.dependent, loop.z))
        if not length < 0.5 * last:
            break
        move_dependent(loop, 1.0)
        last = length
    return last


@without_reassociation
def _place(loop):
    """Place the links at x; a number that is a large angle is reduced, which rounds its high part."""
    for c in range(loop.coordinates):
        angle = loop.x[c]
        high = nearest(angle)
        if abs(high) > FARTHEST_ANGLE:
            angle = (angle - high) + twofold_of(reduced_angle(high), 0.0)
        store(loop.angles, c, angle)
    place_links(loop)
