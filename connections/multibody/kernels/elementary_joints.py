"""The elementary joints in compiled code: one function for each question, with all kinds beside each other.

The kernels of trees and those of loops ask these functions, as NumPy code asks the methods of
`joints.joint.ElementaryJoint`; no other kernel knows the kinds. A joint is given by its kind and by pointers:
q to its own coordinates, v to its own velocities, k to the `PLACEMENT` of its link. Single joints have the
z axis of their link as axis. Spherical and free joints have q = [quaternion] and q = [position, quaternion],
v = [angular] and v = [angular, linear] in the axes of the link.

In steps of loops, a quaternion q moves by a body angular velocity w as q (w / 2, 1), scaled to unit length,
which agrees with the exponential up to terms of third order. Source: [W] VI-B.
"""

import math

import numpy as np

from connections.engines.inlined.simd import (
    absolute,
    beyond,
    copied_sign,
    inlined,
    load,
    put,
    sine_cosine,
    store,
    take,
    without_reassociation,
)
from connections.engines.inlined.vectors import (
    add3,
    cross3,
    half_turn,
    matrix_of,
    quaternion_columns,
    quaternion_of,
    quaternion_product,
    rotate_columns,
    rotation_vector,
    scale3,
    subtract3,
    toward,
    turned,
    turned_by,
    turned_by_quaternion,
    unit_quaternion,
    vector_of,
)
from connections.multibody.kernels.layout import DISPLACEMENT, PLACEMENT, POSE

KINDS = ("revolute", "helical", "prismatic", "spherical", "free")  # `ElementaryJoint.kind`; the ground is -1
REVOLUTE, HELICAL, PRISMATIC, SPHERICAL, FREE = range(len(KINDS))
TURN = 2.0 * math.pi


# --- poses and columns --------------------------------------------------------------------------------------


@inlined
def put_axes(kind, x, y, z, q, angles, pose):
    """Write the rotation of the link, whose joint frame has the axes x, y, z, to its `POSE`.

    angles : q, each number reduced as an angle.
    """
    if kind == REVOLUTE or kind == HELICAL:
        turned_x, turned_y = turned(x, y, *sine_cosine(load(angles, 0)))
        put(pose, 0, matrix_of(turned_x, turned_y, z))
    elif kind == PRISMATIC:
        put(pose, 0, matrix_of(x, y, z))
    else:
        put(pose, 0, matrix_of(*turned_by_quaternion(x, y, z, take(q, 3 if kind == FREE else 0, 4))))


@inlined
def displaced(kind, p, x, y, z, q, k):
    """The origin of the link, if p and x, y, z are the origin and the axes of its joint frame."""
    if kind == PRISMATIC:
        p = add3(p, scale3(z, load(q, 0)))
    elif kind == HELICAL:
        p = add3(p, scale3(z, load(q, 0) * k[PLACEMENT.pitch]))
    elif kind == FREE:
        p = add3(p, rotate_columns(matrix_of(x, y, z), take(q, 0, 3)))
    return p


@inlined
def put_columns(kind, pose, k, Phi, stride):
    """Write Phi, a column each `stride` slots: [w; p x w] turns about an axis w of the link, [0; w] slides.

    pose : slots of the link's `POSE`.
    """
    if kind == REVOLUTE or kind == HELICAL:
        w = load(pose, 2), load(pose, 5), load(pose, 8)
        u = cross3(take(pose, POSE.position, 3), w)
        if kind == HELICAL:
            u = add3(u, scale3(w, k[PLACEMENT.pitch]))
        put(Phi, 0, (*w, *u))
    elif kind == PRISMATIC:
        put(Phi, 0, (0.0, 0.0, 0.0, load(pose, 2), load(pose, 5), load(pose, 8)))
    else:
        p = take(pose, POSE.position, 3)
        for axis in range(3):
            w = load(pose, axis), load(pose, 3 + axis), load(pose, 6 + axis)
            put(Phi, axis * stride, (*w, *cross3(p, w)))
            if kind == FREE:
                put(Phi, (3 + axis) * stride, (0.0, 0.0, 0.0, *w))


# --- rates --------------------------------------------------------------------------------------------------


@inlined
def put_rate(kind, q, v, sizes, rate):
    """Write X(q) v, or |X(q)| v if `sizes`, which is a constant."""
    if kind == REVOLUTE or kind == HELICAL or kind == PRISMATIC:
        store(rate, 0, v[0])
    else:
        if kind == FREE:
            _put_position_rate(q, v, sizes, rate)
        at = 3 if kind == FREE else 0
        _put_quaternion_rate(take(q, at, 4), take(v, 0, 3), sizes, beyond(rate, at))


@inlined
def _put_position_rate(q, v, sizes, rate):
    x, y, z = quaternion_columns(take(q, 3, 4))
    for row in range(3):
        entries = x[row], y[row], z[row]
        if sizes:
            entries = absolute(entries[0]), absolute(entries[1]), absolute(entries[2])
        store(rate, row, entries[0] * v[3] + entries[1] * v[4] + entries[2] * v[5])


@inlined
def _put_quaternion_rate(q, w, sizes, rate):
    """q (w, 0) / 2, or with all terms positive."""
    sign, (a, b, c) = -1.0, w
    if sizes:
        sign, q = 1.0, (absolute(q[0]), absolute(q[1]), absolute(q[2]), absolute(q[3]))
    x, y, z, w = 0.5 * q[0], 0.5 * q[1], 0.5 * q[2], 0.5 * q[3]
    put(rate, 0, (w * a + sign * z * b + y * c, z * a + w * b + sign * x * c))
    put(rate, 2, (sign * y * a + x * b + w * c, sign * (x * a + y * b + z * c)))


# --- brackets -----------------------------------------------------------------------------------------------


@inlined
def is_wide(kind):
    """Whether the joint has several velocities, whose vector fields do not commute."""
    return kind == SPHERICAL or kind == FREE


@inlined
def put_bracket(kind, first, second, stride, out):
    """Write the bracket (w x w', w x v' - w' x v) of two velocities (w, v), `stride` apart."""
    w, other_w = _three(first, stride), _three(second, stride)
    put(out, 0, cross3(w, other_w))
    if kind == FREE:
        v, other_v = _three(beyond(first, 3 * stride), stride), _three(beyond(second, 3 * stride), stride)
        put(out, 3, subtract3(cross3(w, other_v), cross3(other_w, v)))


@inlined
def bracket_column(i, k):
    """The number of the only column of the bracket of columns i and k of a wide joint; -1 if it is zero."""
    if i % 3 == k % 3 or (i >= 3 and k >= 3):
        return -1
    return 3 - i % 3 - k % 3 + (3 if i >= 3 or k >= 3 else 0)


@inlined
def _three(slots, stride):
    return slots[0], slots[stride], slots[2 * stride]


# --- displacements ------------------------------------------------------------------------------------------


@inlined
def put_displacement(kind, k, x, E):
    """Write the displacement `DISPLACEMENT` by the velocities x for a unit of time.

    It is a rotation by the exponential, and of a free joint a shift in the axes half way: backwards it is the
    inverse.
    """
    if kind == REVOLUTE or kind == HELICAL or kind == PRISMATIC:
        way = load(x, 0)
        put(E, 0, (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, way))
        if kind == PRISMATIC:
            store(E, DISPLACEMENT.shift + 2, way)
        else:
            put(E, 2, (math.sin(0.5 * way), math.cos(0.5 * way)))
            if kind == HELICAL:
                store(E, DISPLACEMENT.shift + 2, way * k[PLACEMENT.pitch])
    else:
        turn = quaternion_of(take(x, 0, 3))
        put(E, 0, (*turn, 0.0, 0.0, 0.0, 0.0))
        if kind == FREE:
            put(E, DISPLACEMENT.shift, turned_by(half_turn(turn), take(x, 3, 3)))


@inlined
def displacement_velocities(kind, E, x):
    """Write the velocities of which `put_displacement` makes E."""
    if kind == REVOLUTE or kind == HELICAL or kind == PRISMATIC:
        store(x, 0, load(E, DISPLACEMENT.way))
    else:
        turn = take(E, 0, 4)
        put(x, 0, vector_of(turn))
        if kind == FREE:
            a, b, c, w = half_turn(turn)
            put(x, 3, turned_by((-a, -b, -c, w), take(E, DISPLACEMENT.shift, 3)))


@inlined
def displace_further(kind, k, x, E):
    """Follow E by a small displacement with the velocities x; exact to first order."""
    if kind == REVOLUTE or kind == HELICAL or kind == PRISMATIC:
        store(x, 0, load(E, DISPLACEMENT.way) + load(x, 0))
        put_displacement(kind, k, x, E)
    else:
        turn = take(E, 0, 4)
        if kind == FREE:
            shift = add3(take(E, DISPLACEMENT.shift, 3), turned_by(turn, take(x, 3, 3)))
            put(E, DISPLACEMENT.shift, shift)
        put(E, 0, unit_quaternion(quaternion_product(turn, quaternion_of(take(x, 0, 3)))))


@inlined
def turn_of_displacement(kind, E):
    """The size of the change of a joint's angle by a displacement, rad; zero for joints without one.

    It counts whole turns, which rotations do not.
    """
    if kind == REVOLUTE or kind == HELICAL:
        return abs(load(E, DISPLACEMENT.way))
    return 0.0


@inlined
def displace_coordinates(kind, q, E):
    """Move the coordinates q of a joint by E."""
    if kind == REVOLUTE or kind == HELICAL or kind == PRISMATIC:
        store(q, 0, load(q, 0) + load(E, DISPLACEMENT.way))
    else:
        at = 0
        if kind == FREE:
            at = 3
            put(q, 0, add3(take(q, 0, 3), turned_by(take(q, 3, 4), take(E, DISPLACEMENT.shift, 3))))
        put(q, at, unit_quaternion(quaternion_product(take(q, at, 4), take(E, 0, 4))))


@inlined
def put_way(kind, k, q, other, E):
    """Write the displacement from the coordinates q to others, by the shorter way."""
    if kind == REVOLUTE or kind == HELICAL or kind == PRISMATIC:
        store(E, 0, load(other, 0) - load(q, 0))
        put_displacement(kind, k, E, E)
    else:
        at = 3 if kind == FREE else 0
        a, b, c, w = take(q, at, 4)
        turn = quaternion_product((-a, -b, -c, w), take(other, at, 4))
        sign = copied_sign(1.0, turn[3])
        put(E, 0, (turn[0] * sign, turn[1] * sign, turn[2] * sign, turn[3] * sign, 0.0, 0.0, 0.0, 0.0))
        if kind == FREE:
            way = subtract3(take(other, 0, 3), take(q, 0, 3))
            put(E, DISPLACEMENT.shift, turned_by((-a, -b, -c, w), way))


# --- steps of loops -----------------------------------------------------------------------------------------


@without_reassociation
def advance_joint(kind, q, base, goal, fraction, size, step):
    """Set q to `fraction` of the way from base to goal, and write the step, as velocities.

    size : the length to which lengths are relative, m.

    Returns the angle of the step, rad, and its length, the sum of its angle and its relative lengths.
    """
    if kind == REVOLUTE or kind == HELICAL or kind == PRISMATIC:
        way = _advance_number(q, base, goal, fraction, 0)
        store(step, 0, way)
        return (0.0, abs(way) / size) if kind == PRISMATIC else (abs(way), abs(way))
    at, length = 0, 0.0
    if kind == FREE:
        at, length = 3, _advance_position(q, base, goal, fraction, beyond(step, 3)) / size
    turn = _advance_quaternion(beyond(q, at), take(base, at, 4), take(goal, at, 4), fraction, step)
    return turn, length + turn


@without_reassociation
def move_joint(kind, q, v, factor):
    """Move q by `factor` times the velocities v, of one configuration or of several lanes."""
    if kind == REVOLUTE or kind == HELICAL or kind == PRISMATIC:
        store(q, 0, q[0] + factor * v[0])
    else:
        at = 0
        if kind == FREE:
            at = 3
            x, y, z = quaternion_columns(take(q, 3, 4))
            for i in range(3):
                store(q, i, q[i] + factor * (x[i] * v[3] + y[i] * v[4] + z[i] * v[5]))
        turn = 0.5 * factor * v[0], 0.5 * factor * v[1], 0.5 * factor * v[2], 1.0
        put(q, at, unit_quaternion(quaternion_product(take(q, at, 4), turn)))


@without_reassociation
def turn_of_move(kind, v, factor):
    """The angle by which `move_joint` turns, rad."""
    if kind == PRISMATIC:
        return 0.0
    if kind == REVOLUTE or kind == HELICAL:
        return factor * abs(v[0])
    a, b, c = 0.5 * factor * v[0], 0.5 * factor * v[1], 0.5 * factor * v[2]
    return 2.0 * math.atan(math.sqrt(a * a + b * b + c * c))


@inlined
def is_slide(kind, column):
    """Whether a column of the joint's Phi slides, so that its velocity is a length per time."""
    return kind == PRISMATIC or (kind == FREE and column >= 3)


@inlined
def is_angle(kind):
    """Whether the coordinate of the joint is an angle, which may have many turns."""
    return kind == REVOLUTE or kind == HELICAL


@inlined
def is_crank(kind):
    """Whether the joint is where it was after a turn of 2 pi of its coordinate."""
    return kind == REVOLUTE


@without_reassociation
def whole_turns(kind, q, goal):
    """The whole turns from q to goal, rounded; zero for joints that do not return after a turn."""
    return np.rint((goal[0] - q[0]) / TURN) if kind == REVOLUTE else 0.0


@without_reassociation
def distance_within_turn(kind, q, other, size):
    """How far apart two configurations are, rad, apart from whole turns; lengths relative to `size`, m."""
    if kind == REVOLUTE or kind == HELICAL or kind == PRISMATIC:
        distance = abs(q[0] - other[0] + whole_turns(kind, q, other) * TURN)
        return distance / size if kind == PRISMATIC else distance
    at, distance, plus, minus = 0, 0.0, 0.0, 0.0
    if kind == FREE:
        at = 3
        for i in range(3):
            distance += abs(q[i] - other[i]) / size
    for i in range(at, at + 4):
        plus, minus = plus + abs(q[i] + other[i]), minus + abs(q[i] - other[i])
    return distance + 2.0 * min(plus, minus)


@without_reassociation
def _advance_number(q, base, goal, fraction, i):
    """Move coordinate i, along a straight line. Returns by how much."""
    step = (goal[i] - base[i]) * fraction
    store(q, i, goal[i] if fraction == 1.0 else base[i] + step)
    return step


@inlined
def _advance_position(q, base, goal, fraction, step):
    """Move a position, with the step in the axes of the link. Returns the sum of its components' sizes."""
    length, vx, vy, vz = 0.0, 0.0, 0.0, 0.0
    x, y, z = quaternion_columns(take(base, 3, 4))
    for i in range(3):
        way = _advance_number(q, base, goal, fraction, i)
        vx, vy, vz = vx + x[i] * way, vy + y[i] * way, vz + z[i] * way
        length += abs(way)
    put(step, 0, (vx, vy, vz))
    return length


@inlined
def _advance_quaternion(q, base, goal, fraction, step):
    """Move a quaternion along the shorter arc, by normalized linear interpolation. Returns the angle.

    The step is a rotation vector.
    """
    if fraction == 1.0:
        put(q, 0, goal)
    else:
        put(q, 0, toward(base, goal, fraction))
    turn = quaternion_product((-base[0], -base[1], -base[2], base[3]), take(q, 0, 4))
    vector, angle = rotation_vector(turn)
    put(step, 0, vector)
    return angle
