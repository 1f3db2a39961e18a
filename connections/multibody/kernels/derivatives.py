"""Derivatives of the inverse dynamics tau = H a + C v + g in O(N d): along the frame fields, v, and a.

A displacement along column j moves its link and the links behind it with the twist Phi_j, and their columns
with them. A force f that moves with them changes by Phi_j x* f. The twist v and acceleration a of the link
before that of j do not move with them (the ground accelerates by -g). With these v and a,
Phidot_j = v_j x Phi_j for the twist v_j of the link of j, and I, B, F the sums of inertias, body-level
factors and forces over the links that column j moves,

    psi_j = v x Phi_j,    psi'_j = a x Phi_j + v x psi_j,
    dtau_i/dq_j = Phi_i . (2 B psi_j + I psi'_j + Phi_j x* F),
    dtau_i/dv_j = Phi_i . (2 B Phi_j + I (Phidot_j + psi_j)),    dtau_i/da_j = Phi_i . (I Phi_j)

for i before the link of j. If i is behind j, or of the same link, I and B are the sums for i, and the term
with F is absent. B is the body-level factor of [W] (21), because
-I (v x psi) + psi x* (I v) + v x* (I psi) = 2 B psi. The columns of a spherical or free joint move with their
own link, because dq is a left-trivialized derivative.

If a is the result of the forward dynamics, H delta a = -delta tau: the derivatives of the forward dynamics
are -H^-1 times those of tau.

Source: [B] Tables 4 to 8, in the common frame.
"""

from connections.engines.inlined.elimination import invert_by_elimination, solve_rows
from connections.engines.inlined.rows import clear
from connections.engines.inlined.simd import beyond, inlined, load, put, store, take
from connections.engines.inlined.twists import add6, dot6, force_cross, motion_cross, scale6
from connections.engines.inlined.vectors import dot3
from connections.multibody.kernels import armature, articulated
from connections.multibody.kernels.algebra import body_factor, factor_times, factor_transpose_times, momentum
from connections.multibody.kernels.layout import DERIVATIVES_COLUMN as COLUMN
from connections.multibody.kernels.layout import DERIVATIVES_LINK as LINK
from connections.multibody.kernels.newton_euler import ground_acceleration, joint_twist
from connections.multibody.kernels.origins import (
    add_factor,
    add_inertia,
    add_wrench,
    inherited,
    wrench_before,
)
from connections.multibody.kernels.poses import link_inertia, place_links, store_columns


@inlined
def inverse_dynamics_derivatives(tree, work, out):
    """dtau/dq, dtau/dv and H = dtau/da, slots out[(k nv + i) nv + j]; v and a are the first two vectors."""
    _derivatives(tree, work, out, True)


@inlined
def weightless_derivatives(tree, work, out):
    """dtau/dq, dtau/dv and H = dtau/da without gravity, in slots out[(k nv + i) nv + j]."""
    _derivatives(tree, work, out, False)


@inlined
def _derivatives(tree, work, out, falls):
    """The derivatives, without those of g unless `falls`, which is a constant."""
    outward(tree, work, falls)
    nv, links, columns = tree.nv, tree.per_link, tree.per_column
    in_v, in_a = nv * nv, 2 * nv * nv
    for link in range(tree.links, 0, -1):
        slot = links + link * LINK.size
        inertia, B = take(work, slot + LINK.inertia, 10), take(work, slot + LINK.factor, 12)
        force = take(work, slot + LINK.force, 6)
        first, stop = tree.first[link], tree.first[link + 1]
        for j in range(stop - 1, first - 1, -1):
            at = columns + j * COLUMN.size
            Phi, psi = take(work, at, 6), take(work, at + COLUMN.psi, 6)
            f_a = momentum(inertia, Phi)
            f_v = add6(scale6(factor_times(B, Phi), 2.0), momentum(inertia, take(work, at + COLUMN.rate, 6)))
            f_q = add6(
                scale6(factor_times(B, psi), 2.0), momentum(inertia, take(work, at + COLUMN.psi_rate, 6))
            )
            back = factor_transpose_times(B, Phi)
            for i in range(first, stop):
                Phi_i = take(work, columns + i * COLUMN.size, 6)
                store(out, i * nv + j, dot6(Phi_i, f_q))
                store(out, in_v + i * nv + j, dot6(Phi_i, f_v))
                store(out, in_a + i * nv + j, dot6(Phi_i, f_a))
            f_q = wrench_before(tree, work, first, add6(f_q, force_cross(Phi, force)))
            f_v, f_a = wrench_before(tree, work, first, f_v), wrench_before(tree, work, first, f_a)
            i = tree.up[first]
            while i >= 0:
                before = columns + i * COLUMN.size
                Phi_i, psi_i = take(work, before, 6), take(work, before + COLUMN.psi, 6)
                store(out, i * nv + j, dot6(Phi_i, f_q))
                store(out, in_v + i * nv + j, dot6(Phi_i, f_v))
                own = dot6(f_a, take(work, before + COLUMN.psi_rate, 6))
                store(out, j * nv + i, dot3(back, psi_i) * 2.0 + own)
                own = dot6(f_a, take(work, before + COLUMN.rate, 6))
                store(out, in_v + j * nv + i, dot3(back, Phi_i) * 2.0 + own)
                value = dot6(Phi_i, f_a)
                store(out, in_a + i * nv + j, value)
                store(out, in_a + j * nv + i, value)
                f_q, f_v = wrench_before(tree, work, i, f_q), wrench_before(tree, work, i, f_v)
                f_a = wrench_before(tree, work, i, f_a)
                i = tree.up[i]
        add_inertia(tree, work, link, links, LINK.size, LINK.inertia)
        add_factor(tree, work, link, links, LINK.size, LINK.factor)
        add_wrench(tree, work, link, links, LINK.size, LINK.force)
    armature.add_to_derivatives(tree, work, tree.vectors, in_v, in_a, out)


@inlined
def forward_dynamics_derivatives(tree, work, out):
    """da/dq, da/dv and H^-1 = da/dtau, slots out[(k nv + i) nv + j]; v and tau are the first two vectors."""
    nv, size, acceleration = tree.nv, tree.nv * tree.nv, tree.vectors + tree.nv
    clear(out, 0, 2 * size)
    articulated.forward_dynamics(tree, work, beyond(work, acceleration))  # in the place of tau
    inverse_dynamics_derivatives(tree, work, out)
    for k in range(size):
        store(work, tree.scratch + k, load(out, 2 * size + k))
    inverse = beyond(out, 2 * size)
    articulated.store_scales(tree, work, (tree.per_link + LINK.inertia, LINK.size), COLUMN.size)
    invert_by_elimination(nv, tree.up, tree.run, work, tree.scratch, tree.pivots, inverse)
    for part in range(2):
        solve_rows(nv, nv, tree.up, work, tree.scratch, beyond(out, part * size))


@inlined
def outward(tree, work, falls):
    """Twist, acceleration, inertia, factor, force of links; Phi, Phidot + psi, psi, psi' of columns."""
    place_links(tree, work)
    links, columns = tree.per_link, tree.per_column
    v, a = tree.vectors, tree.vectors + tree.nv
    put(work, links, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    put(work, links + LINK.acceleration, ground_acceleration(tree, falls))
    for i in range(1, tree.links + 1):
        store_columns(tree, work, i, columns, COLUMN.size)
        slot, above = links + i * LINK.size, links + tree.parent[i] * LINK.size
        before = inherited(tree, work, i, above)
        a_before = inherited(tree, work, i, above + LINK.acceleration)
        own = joint_twist(tree, work, i, columns, COLUMN.size, v)
        twist = add6(before, own)
        acceleration = add6(a_before, joint_twist(tree, work, i, columns, COLUMN.size, a))
        acceleration = add6(acceleration, motion_cross(twist, own))
        inertia = link_inertia(tree, work, i)
        put(work, slot, twist)
        put(work, slot + LINK.acceleration, acceleration)
        put(work, slot + LINK.inertia, inertia)
        put(work, slot + LINK.factor, body_factor(inertia, twist))
        gyroscopic = force_cross(twist, momentum(inertia, twist))
        put(work, slot + LINK.force, add6(momentum(inertia, acceleration), gyroscopic))
        for j in range(tree.first[i], tree.first[i + 1]):
            at = columns + j * COLUMN.size
            Phi = take(work, at, 6)
            psi = motion_cross(before, Phi)
            put(work, at + COLUMN.rate, add6(motion_cross(twist, Phi), psi))
            put(work, at + COLUMN.psi, psi)
            put(work, at + COLUMN.psi_rate, add6(motion_cross(a_before, Phi), motion_cross(before, psi)))
