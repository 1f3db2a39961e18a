"""Tolerances for loops and mass matrices; assembly, definition and recursions share them.

All are relative, so that no decision depends on the unit of length, mass or time.
"""

# A loop is closed if phi of its conditions, relative to the cluster's size, is below this. Newton's method
# leaves round-off of about 1e-15, which a nearly singular K_d (`SINGULAR`) makes up to 1e6 times larger.
CLOSED = 1e-9
# The dependent joints are not determined if the sine of the angle between a column of K_d and the span of
# the columns before it, times the column's length in units if that is below one, is below this: there
# G = -K_d^+ K_i has lost six of its 16 digits, its derivative 12.
SINGULAR = 1e-6
# Where that pivot of K_d is below this, the loops are closed and differentiated with twice as many digits
# (`kernels/loop_refinement.py`): at a pivot d, float64 leaves errors of 1e-16 / d in q_s, 1e-16 / d^2 in G,
# 1e-16 / d^3 in its derivative LG, and 1e-16 / d^4 in that of LG.
NEARLY_SINGULAR = 0.03
# Limits of a step along a path of configurations. No joint turns by more than the first (rad), so that no
# step skips a turn. The first correction of the predicted point is at most the second, relative to the
# cluster's size. |K_d(old)^+ K_d(new) - 1| is at most the third, which is below one with a margin, so that
# both ends belong to the same assembly mode.
LARGEST_TURN, LARGEST_CORRECTION, LARGEST_CHANGE = 1.0, 0.3, 0.6
# A path that needs steps shorter than the first (rad, or of the loop's size) is cut; than the second, if the
# step ends where K_d is singular. It was followed up to a singular goal if it is cut within the third of it.
SMALLEST_STEP, SINGULAR_STEP, CLOSE = 1e-12, 1e-7, 1e-6
CLEAR = 0.03  # the pivot of K_d of points at which a path may begin anew
MOST_TRIALS = 20_000  # of steps, in all: some 0.1 s
# A path that was cut is continued by the polynomial through so many points before the cut (`loop_branches`),
# as far apart as the first, or a fifth of it, ..., but not less than the second (rad, or of the loop's size).
NODES, LARGEST_REACH, SMALLEST_REACH = 5, 0.05, 1e-3
LARGEST_JUMP = 0.3  # the change of K_d between an extrapolated point and the branch
EXTRAPOLATED = 1e-6  # phi of a singular goal, relative to its terms, at a point that is not corrected
SAME = 0.01  # points are the same if they differ by less than this times the last pivot of K_d
# H is singular if a pivot of its factorization, relative to the terms before cancellation, is below this.
SMALLEST_PIVOT = 1e-13
