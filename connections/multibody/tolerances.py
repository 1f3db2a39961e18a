"""What decides about loops and mass matrices, each number once, for assembly, definition and recursions.

All are relative to what compares with them, so that no unit of length, mass or time decides anything.
"""

# phi of a condition, relative to its loop's size, below which the loop is closed. What Newton's method leaves
# is round-off, 1e-15 or so, which a K_d that is nearly singular (`SINGULAR`) makes up to 1e6 times larger.
CLOSED = 1e-9
# Sine of the angle between a column of K_d and those before it, below which the dependent joints are not
# determined: G = -K_d^+ K_i has lost six of its sixteen digits there, and its derivative twelve.
SINGULAR = 1e-6
# A step along a path of configurations: no joint turns by more (rad), so that no step skips a turn; the first
# correction of the predicted point is no longer, relative to the loop's size; |K_d(old)^+ K_d(new) - 1| is
# below one, with a margin, so that both ends are of one way of assembly.
LARGEST_TURN, LARGEST_CORRECTION, LARGEST_CHANGE = 1.0, 0.3, 0.6
# What is left of a diagonal entry of H in its elimination, relative to the terms that it came from.
SMALLEST_PIVOT = 1e-13
