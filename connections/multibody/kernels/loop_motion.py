"""Steps of a loop's configuration x: independent joints along their path, dependent ones by velocities."""

from connections.engines.inlined.simd import beyond, without_reassociation
from connections.multibody.kernels.elementary_joints import advance_joint, move_joint, turn_of_move


@without_reassociation
def advance(loop, fraction):
    """Set the independent coordinates of x to `fraction` of the way from the last accepted point to the goal.

    The step is written to y, as velocities. Returns the largest turn, rad, and the sum of all steps, with
    lengths relative to the loop's size.
    """
    turn, length = 0.0, 0.0
    for link in range(1, loop.links + 1):
        at = loop.coordinate[link]
        if not loop.follows[at]:
            x, base, goal = beyond(loop.x, at), beyond(loop.base, at), beyond(loop.goal, at)
            step = beyond(loop.y, loop.first[link])
            angle, way = advance_joint(loop.kind[link], x, base, goal, fraction, loop.lengths[1], step)
            turn, length = max(turn, angle), length + way
    return turn, length


@without_reassociation
def move_dependent(loop, factor):
    """Move the dependent joints of x by `factor` times the velocities z; of lanes, each by its own factor."""
    for link in range(1, loop.links + 1):
        at = loop.coordinate[link]
        if loop.follows[at]:
            move_joint(loop.kind[link], beyond(loop.x, at), _velocities(loop, link), factor)


@without_reassociation
def largest_turn(loop, factor):
    """The largest turn of a joint that `move_dependent` moves, rad."""
    turn = 0.0
    for link in range(1, loop.links + 1):
        if loop.follows[loop.coordinate[link]]:
            turn = max(turn, turn_of_move(loop.kind[link], _velocities(loop, link), factor))
    return turn


@without_reassociation
def _velocities(loop, link):
    return beyond(loop.z, -1 - loop.place[loop.first[link]])
