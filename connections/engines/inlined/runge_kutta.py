"""The stages of a step of length h of dy/dt = f(y) by an explicit Runge-Kutta method, in slots of its result.

A result has 6 + s rows of k slots: the six rows of `integration.steps.Attempt`, then the rates of the
s stages. The weights (s + 2, s) of these rates are those of each stage, the last of which is the end of the
step, and of the two estimates of the error. After every `move` the caller writes the rate at the state in row
0 to row 6 + stage.
"""

from connections.engines.inlined.elimination import subtract_row
from connections.engines.inlined.rows import clear
from connections.engines.inlined.simd import inlined, load, store


@inlined
def begin(slots, rate, k):
    """The rate of the first stage."""
    for i in range(k):
        store(slots, 6 * k + i, rate[i])


@inlined
def move(slots, y, h, weights, stage, k):
    """Write the state of a stage to row 0; y (an array or slots) is the state at the start of the step."""
    for i in range(k):
        store(slots, i, y[i])
    for before in range(stage):
        if weights[stage, before] != 0.0:
            subtract_row(slots, -(h * weights[stage, before]), 0, (6 + before) * k, k)


@inlined
def finish(slots, weights, k):
    """Write the rate at the end to row 1, and the estimates of the error to rows 2 and 3."""
    stages = weights.shape[1]
    for i in range(k):
        store(slots, k + i, load(slots, (5 + stages) * k + i))
    for estimate in range(2):
        clear(slots, (2 + estimate) * k, k)
        for stage in range(stages):
            subtract_row(slots, -weights[stages + estimate, stage], (2 + estimate) * k, (6 + stage) * k, k)


@inlined
def linear_step(weights, h, A, y, rate, slots):
    """A step of Pdot = A P; A (s, n, n) at the stages is given, y is P (n, m) by rows, and dy/dt = rate."""
    k, n = y.shape[0], A.shape[1]
    begin(slots, rate, k)
    for stage in range(1, weights.shape[1]):
        move(slots, y, h, weights, stage, k)
        for i in range(n):
            row = (6 + stage) * k + i * (k // n)
            clear(slots, row, k // n)
            for j in range(n):
                subtract_row(slots, -A[stage, i, j], row, j * (k // n), k // n)
    finish(slots, weights, k)
