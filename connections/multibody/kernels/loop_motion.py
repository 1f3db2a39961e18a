"""Steps of a loop's configuration x: independent joints move along their path, dependent ones by velocities.

A quaternion q moves by a body angular velocity w as q (w / 2, 1), scaled to unit length, which agrees with
the exponential up to terms of third order.
"""

import math

from connections.engines.inlined.simd import beyond, exact, inlined, put, store, take
from connections.engines.inlined.vectors import (
    quaternion_columns,
    quaternion_product,
    rotation_vector,
    toward,
    unit_quaternion,
)
from connections.multibody.kernels.layout import FREE, PRISMATIC


@exact
def advance(loop, fraction):
    """Set the independent coordinates of x to `fraction` of the way from the last accepted point to the goal.

    The step is written to y, as velocities. Returns the largest turn, rad, and the sum of all steps, with
    lengths relative to the loop's size.
    """
    turn, length, size = 0.0, 0.0, loop.lengths[1]
    for link in range(1, loop.links + 1):
        at, s, kind = loop.coordinate[link], loop.first[link], loop.kind[link]
        if loop.follows[at]:
            continue
        if kind <= PRISMATIC:
            step = (loop.goal[at] - loop.base[at]) * fraction
            store(loop.x, at, loop.goal[at] if fraction == 1.0 else loop.base[at] + step)
            store(loop.y, s, step)
            length += abs(step) if kind < PRISMATIC else abs(step) / size
            if kind < PRISMATIC:
                turn = max(turn, abs(step))
        else:
            if kind == FREE:
                length += _advance_position(loop, at, s + 3, fraction) / size
                at += 3
            angle = _advance_quaternion(loop, at, s, fraction)
            turn, length = max(turn, angle), length + angle
    return turn, length


@exact
def move_dependent(loop, factor):
    """Move the dependent joints of x by `factor` times the velocities z. Returns the largest turn, rad."""
    turn = 0.0
    for link in range(1, loop.links + 1):
        at, kind = loop.coordinate[link], loop.kind[link]
        if not loop.follows[at]:
            continue
        z = beyond(loop.z, -1 - loop.place[loop.first[link]])
        if kind <= PRISMATIC:
            store(loop.x, at, loop.x[at] + factor * z[0])
            if kind < PRISMATIC:
                turn = max(turn, factor * abs(z[0]))
        else:
            if kind == FREE:
                x, y, w = quaternion_columns(take(loop.x, at + 3, 4))
                for i in range(3):
                    moved = x[i] * z[3] + y[i] * z[4] + w[i] * z[5]
                    store(loop.x, at + i, loop.x[at + i] + factor * moved)
                at += 3
            a, b, c = 0.5 * factor * z[0], 0.5 * factor * z[1], 0.5 * factor * z[2]
            put(loop.x, at, unit_quaternion(quaternion_product(take(loop.x, at, 4), (a, b, c, 1.0))))
            turn = max(turn, 2.0 * math.atan(math.sqrt(a * a + b * b + c * c)))
    return turn


@inlined
def _advance_position(loop, at, s, fraction):
    """Move a free link's position; the step in y is a velocity in the link's axes. Returns its length."""
    length = 0.0
    x, y, z = quaternion_columns(take(loop.base, at + 3, 4))
    vx, vy, vz = 0.0, 0.0, 0.0
    for i in range(3):
        step = (loop.goal[at + i] - loop.base[at + i]) * fraction
        store(loop.x, at + i, loop.goal[at + i] if fraction == 1.0 else loop.base[at + i] + step)
        vx, vy, vz = vx + x[i] * step, vy + y[i] * step, vz + z[i] * step
        length += abs(step)
    put(loop.y, s, (vx, vy, vz))
    return length


@inlined
def _advance_quaternion(loop, at, s, fraction):
    """Move a quaternion along the shorter arc, by normalized linear interpolation.

    The step in y is a rotation vector. Returns its angle.
    """
    a, b = take(loop.base, at, 4), take(loop.goal, at, 4)
    if fraction == 1.0:
        put(loop.x, at, b)
    else:
        put(loop.x, at, toward(a, b, fraction))
    turn = quaternion_product((-a[0], -a[1], -a[2], a[3]), take(loop.x, at, 4))
    vector, angle = rotation_vector(turn)
    put(loop.y, s, vector)
    return angle
