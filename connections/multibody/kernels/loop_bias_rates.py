"""Second derivatives of a loop's velocities: L_j (L_v G) v for all columns j, v held fixed.

A motion with constant v has the spanning velocities v_s = G v and accelerations a_s = (L_v G) v. With `own`
the part of the twist of link l that comes from its own columns s, and p the parent of l,

    own = sum_s Phi_s v_s,    V_l = V_p + own,    A_l = A_p + sum_s Phi_s a_s + V_l x own.

All conditions hold along the motion, so 0 = f . (A_b - A_a) + fdot . (V_b - V_a). This is differentiated
along column j of G. Link l moves with the twist P_l along it, and its columns move with the link,
delta Phi_s = P_l x Phi_s:

    delta own = P_l x own + sum_s Phi_s (L_j G)_s v,    delta V_l = delta V_p + delta own,
    delta A_l = delta A_p + P_l x sum_s Phi_s a_s + delta V_l x own + V_l x delta own + sum_s Phi_s delta a_s.

The last term enters the conditions as K delta a_s, and delta a_s = L_j (L_v G) v is zero for independent
columns. So

    (delta a)_d = -K_d^+ (f . (delta A_b - delta A_a) + delta f . (A_b - A_a)
                          + fdot . (delta V_b - delta V_a) + delta fdot . (V_b - V_a)),

where delta A is without its last term. Linear conditions have constant K and contribute nothing.

Source: differentiation of LG of `loop_continuation`; [W] VI-C.
"""

from connections.engines.inlined.householder import solve_least
from connections.engines.inlined.simd import beyond, inlined, put, store, take, without_reassociation
from connections.engines.inlined.twists import add6, dot6, motion_cross, scale6, subtract6
from connections.multibody.clusters import LINEAR
from connections.multibody.kernels.layout import ARMS, BIAS, CONDITION
from connections.multibody.kernels.loop_geometry import wrench_rate, wrench_second_rate
from connections.multibody.kernels.loop_path import newton
from connections.multibody.tolerances import SINGULAR

_STILL = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@without_reassociation
def rates_of_loop(loop, solution, v, start, out):
    """Write L_j (L_v G) v of the loop's dependent columns to `out`. Returns 0, or -1 if the loop is singular.

    v : (n,) the velocities of the loop's cluster.
    start : slot of a solution at which G begins.
    out : laid out as G in a solution, but from slot 0 on.
    """
    p, d = loop.rows, loop.dependent
    for i in range(loop.coordinates):
        store(loop.x, i, solution[loop.source[i]])
    if not newton(loop)[0] >= SINGULAR:
        return -1
    _move(loop, solution, v)
    for j in range(loop.independent):
        _vary(loop, solution, v, j)
        _vary_conditions(loop)
        solve_least(beyond(loop.now, loop.columns * p), p, d, loop.stairs, loop.b, loop.z)
        for s in range(loop.columns):
            if loop.place[s] < 0:
                store(out, loop.G_at[s] - start + j, -loop.z[-1 - loop.place[s]])
    return 0


@without_reassociation
def _move(loop, solution, v):
    """Write V, A and sum_s Phi_s a_s of all links to the workspace."""
    n = loop.independent
    put(loop.biases, BIAS.twist, _STILL)
    put(loop.biases, BIAS.acceleration, _STILL)
    for link in range(1, loop.links + 1):
        before, own, pull = BIAS.size * loop.parent[link], _STILL, _STILL
        for s in range(loop.first[link], loop.first[link + 1]):
            Phi, velocity, bias = take(loop.Phi, 6 * s, 6), 0.0, 0.0
            for k in range(n):
                velocity += solution[loop.G_at[s] + k] * v[k]
                bias += _along(solution, loop.LG_at[s] + k * n, v, n) * v[k]
            own = add6(own, scale6(Phi, velocity))
            pull = add6(pull, scale6(Phi, bias))
        twist = add6(take(loop.biases, before, 6), own)
        rate = add6(pull, motion_cross(twist, own))
        acceleration = add6(take(loop.biases, before + BIAS.acceleration, 6), rate)
        put(loop.biases, BIAS.size * link, twist)
        put(loop.biases, BIAS.size * link + BIAS.acceleration, acceleration)
        put(loop.biases, BIAS.size * link + BIAS.pull, pull)


@without_reassociation
def _vary(loop, solution, v, j):
    """Write P, delta V and delta A (without its last term) of all links along column j to the workspace."""
    n = loop.independent
    for slot in (BIAS.P, BIAS.twist_change, BIAS.acceleration_change):
        put(loop.biases, slot, _STILL)
    for link in range(1, loop.links + 1):
        at, before = BIAS.size * link, BIAS.size * loop.parent[link]
        P, own_change = take(loop.biases, before + BIAS.P, 6), _STILL
        for s in range(loop.first[link], loop.first[link + 1]):
            Phi = take(loop.Phi, 6 * s, 6)
            P = add6(P, scale6(Phi, solution[loop.G_at[s] + j]))
            own_change = add6(own_change, scale6(Phi, _along(solution, loop.LG_at[s] + j * n, v, n)))
        twist = take(loop.biases, at, 6)
        own = subtract6(twist, take(loop.biases, before, 6))
        own_change = add6(own_change, motion_cross(P, own))
        twist_change = add6(take(loop.biases, before + BIAS.twist_change, 6), own_change)
        change = add6(motion_cross(P, take(loop.biases, at + BIAS.pull, 6)), motion_cross(twist_change, own))
        change = add6(change, motion_cross(twist, own_change))
        change = add6(take(loop.biases, before + BIAS.acceleration_change, 6), change)
        put(loop.biases, at + BIAS.P, P)
        put(loop.biases, at + BIAS.twist_change, twist_change)
        put(loop.biases, at + BIAS.acceleration_change, change)


@without_reassociation
def _vary_conditions(loop):
    """Write to b the change of the second time derivative of all conditions, without the term K delta a_s."""
    for r in range(loop.rows):
        value = 0.0
        if loop.row_kind[r] != LINEAR:
            a, b = BIAS.size * loop.link_a[r], BIAS.size * loop.link_b[r]
            V_a, V_b = _of_both(loop, a, b)
            P_a, P_b = _of_both(loop, a + BIAS.P, b + BIAS.P)
            dV_a, dV_b = _of_both(loop, a + BIAS.twist_change, b + BIAS.twist_change)
            dA_a, dA_b = _of_both(loop, a + BIAS.acceleration_change, b + BIAS.acceleration_change)
            A_a, A_b = _of_both(loop, a + BIAS.acceleration, b + BIAS.acceleration)
            value = dot6(take(loop.arms, ARMS.size * r + ARMS.wrench, 6), subtract6(dA_b, dA_a))
            value += dot6(wrench_rate(loop, r, P_a, P_b), subtract6(A_b, A_a))
            value += dot6(wrench_rate(loop, r, V_a, V_b), subtract6(dV_b, dV_a))
            second = wrench_second_rate(loop, r, (V_a, V_b), (P_a, P_b), (dV_a, dV_b))
            value += dot6(second, subtract6(V_b, V_a))
            value *= loop.row_parameters[CONDITION.size * r + CONDITION.scale]
        store(loop.b, r, value)


@inlined
def _of_both(loop, slot_a, slot_b):
    """The twists that begin at two slots of the workspace, of body a and of body b."""
    return take(loop.biases, slot_a, 6), take(loop.biases, slot_b, 6)


@without_reassociation
def _along(numbers, start, v, n):
    """The sum of numbers[start + k] v[k]."""
    total = 0.0
    for k in range(n):
        total += numbers[start + k] * v[k]
    return total
