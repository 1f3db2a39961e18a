"""Tolerances for loops and mass matrices; assembly, definition and recursions share them.

All are relative, so that no decision depends on the unit of length, mass or time.
"""

# A loop is closed if phi of its conditions, relative to the cluster's size, is below this. Newton's method
# leaves round-off of about 1e-15, which a nearly singular K_d (`SINGULAR`) makes up to 1e6 times larger.
CLOSED = 1e-9
# The dependent joints are not determined if the sine of the angle between a column of K_d and the span of
# the columns before it is below this: G = -K_d^+ K_i has lost six of its 16 digits there, its derivative 12.
SINGULAR = 1e-6
# Limits of a step along a path of configurations. No joint turns by more than the first (rad), so that no
# step skips a turn. The first correction of the predicted point is at most the second, relative to the
# cluster's size. |K_d(old)^+ K_d(new) - 1| is at most the third, which is below one with a margin, so that
# both ends belong to the same assembly mode.
LARGEST_TURN, LARGEST_CORRECTION, LARGEST_CHANGE = 1.0, 0.3, 0.6
# H is singular if a pivot of its factorization, relative to the terms before cancellation, is below this.
SMALLEST_PIVOT = 1e-13
