"""The compiled functions: each recursion for one configuration, and for rows of configurations.

``*_at(memory, vectors..., out)`` takes one configuration; ``*_rows(memory, work, blocks, vectors..., out)``
takes (m, ...) arrays, LANES rows at a time, and releases the interpreter's lock. Each returns whether the
input was good; where it was not, `out` holds nothing of use. `torsion` asks for the body-level factor
(v x*) I. A result that is not dense is zeroed first.
"""

from numba import njit

from connections.multibody.recursions import (
    articulated,
    christoffel,
    coriolis,
    newton_euler,
    regression,
)
from connections.multibody.recursions.boundary import (
    all_regular,
    read_configuration,
    read_configurations,
    read_vector,
    read_vectors,
    regular,
    write_results,
    write_slabs,
)
from connections.multibody.recursions.lanes import FASTMATH, LANES, beyond, flat_slots_of, slots_of
from connections.multibody.recursions.layout import is_current, unpack

# Numba keeps the machine code on disk, in __pycache__, and compiles at the first call.
one = njit(cache=True, fastmath=FASTMATH, error_model="numpy")
rows = njit(cache=True, nogil=True, fastmath=FASTMATH, error_model="numpy")


@one
def mass_matrix_at(memory, q, out):
    tree, slots = unpack(memory), flat_slots_of(out)
    if not (
        is_current(memory) and out.shape == (tree.nv, tree.nv) and read_configuration(tree, tree.work, q)
    ):
        return False
    out[:] = 0.0
    coriolis.mass_matrix(tree, tree.work, slots)
    return True


@rows
def mass_matrix_rows(memory, work, blocks, q, out):
    if not is_current(memory):
        return False
    tree, slots, good = unpack(memory), slots_of(work), True
    result = beyond(slots, tree.result)
    for row in range(0, q.shape[0], LANES):
        good &= read_configurations(tree, work, q, row)
        coriolis.mass_matrix(tree, slots, result)
        write_results(work, tree.result, blocks, out, row)
    return good


@one
def coriolis_matrix_at(memory, q, v, torsion, out):
    tree, slots = unpack(memory), flat_slots_of(out)
    if not (
        is_current(memory)
        and out.shape == (tree.nv, tree.nv)
        and read_configuration(tree, tree.work, q)
        and read_vector(tree, tree.work, 0, v)
    ):
        return False
    out[:] = 0.0
    coriolis.coriolis_matrix(tree, tree.work, slots)
    if torsion:
        coriolis.subtract_contorsion(tree, tree.work, slots)
    return True


@rows
def coriolis_matrix_rows(memory, work, blocks, q, v, torsion, out):
    if not is_current(memory):
        return False
    tree, slots, good = unpack(memory), slots_of(work), True
    result = beyond(slots, tree.result)
    for row in range(0, q.shape[0], LANES):
        good &= read_configurations(tree, work, q, row)
        good &= read_vectors(tree, work, 0, v, row)
        coriolis.coriolis_matrix(tree, slots, result)
        if torsion:
            coriolis.subtract_contorsion(tree, slots, result)
        write_results(work, tree.result, blocks, out, row)
    return good


@one
def mass_matrix_rate_at(memory, q, v, out):
    tree, slots = unpack(memory), flat_slots_of(out)
    if not (
        is_current(memory)
        and out.shape == (tree.nv, tree.nv)
        and read_configuration(tree, tree.work, q)
        and read_vector(tree, tree.work, 0, v)
    ):
        return False
    out[:] = 0.0
    coriolis.mass_matrix_rate(tree, tree.work, slots)
    return True


@rows
def mass_matrix_rate_rows(memory, work, blocks, q, v, out):
    if not is_current(memory):
        return False
    tree, slots, good = unpack(memory), slots_of(work), True
    result = beyond(slots, tree.result)
    for row in range(0, q.shape[0], LANES):
        good &= read_configurations(tree, work, q, row)
        good &= read_vectors(tree, work, 0, v, row)
        coriolis.mass_matrix_rate(tree, slots, result)
        write_results(work, tree.result, blocks, out, row)
    return good


@one
def christoffel_symbols_at(memory, q, torsion, out):
    tree, slots = unpack(memory), flat_slots_of(out)
    if not (
        is_current(memory)
        and out.shape == (tree.nv, tree.nv, tree.nv)
        and read_configuration(tree, tree.work, q)
    ):
        return False
    out[:] = 0.0
    christoffel.christoffel_symbols(tree, tree.work, slots, True)
    if torsion:
        christoffel.subtract_contorsion(tree, tree.work, slots)
    return True


@rows
def christoffel_symbols_rows(memory, work, blocks, q, torsion, out):
    if not is_current(memory):
        return False
    tree, slots, good = unpack(memory), slots_of(work), True
    result = beyond(slots, tree.result)
    for row in range(0, q.shape[0], LANES):
        good &= read_configurations(tree, work, q, row)
        christoffel.christoffel_symbols(tree, slots, result, torsion)
        if torsion:
            christoffel.subtract_contorsion(tree, slots, result)
        write_slabs(work, tree.result, tree.nv, blocks, torsion, out, row)
    return good


@one
def coriolis_product_at(memory, q, v, w, torsion, out):
    tree, slots = unpack(memory), flat_slots_of(out)
    if not (
        is_current(memory)
        and out.shape[0] == tree.nv
        and read_configuration(tree, tree.work, q)
        and read_vector(tree, tree.work, 0, v)
        and read_vector(tree, tree.work, 1, w)
    ):
        return False
    newton_euler.coriolis_product(tree, tree.work, slots, torsion)
    return True


@rows
def coriolis_product_rows(memory, work, blocks, q, v, w, torsion, out):
    if not is_current(memory):
        return False
    tree, slots, good = unpack(memory), slots_of(work), True
    result = beyond(slots, tree.result)
    for row in range(0, q.shape[0], LANES):
        good &= read_configurations(tree, work, q, row)
        good &= read_vectors(tree, work, 0, v, row)
        good &= read_vectors(tree, work, 1, w, row)
        newton_euler.coriolis_product(tree, slots, result, torsion)
        write_results(work, tree.result, blocks, out, row)
    return good


@one
def coriolis_transpose_product_at(memory, q, v, w, torsion, out):
    tree, slots = unpack(memory), flat_slots_of(out)
    if not (
        is_current(memory)
        and out.shape[0] == tree.nv
        and read_configuration(tree, tree.work, q)
        and read_vector(tree, tree.work, 0, v)
        and read_vector(tree, tree.work, 1, w)
    ):
        return False
    newton_euler.coriolis_transpose_product(tree, tree.work, slots, torsion)
    return True


@rows
def coriolis_transpose_product_rows(memory, work, blocks, q, v, w, torsion, out):
    if not is_current(memory):
        return False
    tree, slots, good = unpack(memory), slots_of(work), True
    result = beyond(slots, tree.result)
    for row in range(0, q.shape[0], LANES):
        good &= read_configurations(tree, work, q, row)
        good &= read_vectors(tree, work, 0, v, row)
        good &= read_vectors(tree, work, 1, w, row)
        newton_euler.coriolis_transpose_product(tree, slots, result, torsion)
        write_results(work, tree.result, blocks, out, row)
    return good


@one
def inverse_dynamics_at(memory, q, v, a, out):
    tree, slots = unpack(memory), flat_slots_of(out)
    if not (
        is_current(memory)
        and out.shape[0] == tree.nv
        and read_configuration(tree, tree.work, q)
        and read_vector(tree, tree.work, 0, v)
        and read_vector(tree, tree.work, 1, a)
    ):
        return False
    newton_euler.inverse_dynamics(tree, tree.work, slots)
    return True


@rows
def inverse_dynamics_rows(memory, work, blocks, q, v, a, out):
    if not is_current(memory):
        return False
    tree, slots, good = unpack(memory), slots_of(work), True
    result = beyond(slots, tree.result)
    for row in range(0, q.shape[0], LANES):
        good &= read_configurations(tree, work, q, row)
        good &= read_vectors(tree, work, 0, v, row)
        good &= read_vectors(tree, work, 1, a, row)
        newton_euler.inverse_dynamics(tree, slots, result)
        write_results(work, tree.result, blocks, out, row)
    return good


@one
def gravity_at(memory, q, out):
    tree, slots = unpack(memory), flat_slots_of(out)
    if not (is_current(memory) and out.shape[0] == tree.nv and read_configuration(tree, tree.work, q)):
        return False
    newton_euler.gravity(tree, tree.work, slots)
    return True


@rows
def gravity_rows(memory, work, blocks, q, out):
    if not is_current(memory):
        return False
    tree, slots, good = unpack(memory), slots_of(work), True
    result = beyond(slots, tree.result)
    for row in range(0, q.shape[0], LANES):
        good &= read_configurations(tree, work, q, row)
        newton_euler.gravity(tree, slots, result)
        write_results(work, tree.result, blocks, out, row)
    return good


@one
def forward_dynamics_at(memory, q, v, tau, out):
    tree, slots = unpack(memory), flat_slots_of(out)
    if not (
        is_current(memory)
        and out.shape[0] == tree.nv
        and read_configuration(tree, tree.work, q)
        and read_vector(tree, tree.work, 0, v)
        and read_vector(tree, tree.work, 1, tau)
    ):
        return False
    articulated.forward_dynamics(tree, tree.work, slots)
    return regular(tree, tree.work)


@rows
def forward_dynamics_rows(memory, work, blocks, q, v, tau, out):
    if not is_current(memory):
        return False
    tree, slots, good = unpack(memory), slots_of(work), True
    result = beyond(slots, tree.result)
    for row in range(0, q.shape[0], LANES):
        good &= read_configurations(tree, work, q, row)
        good &= read_vectors(tree, work, 0, v, row)
        good &= read_vectors(tree, work, 1, tau, row)
        articulated.forward_dynamics(tree, slots, result)
        good &= all_regular(tree, work)
        write_results(work, tree.result, blocks, out, row)
    return good


@one
def inverse_mass_matrix_at(memory, q, out):
    tree, slots = unpack(memory), flat_slots_of(out)
    if not (
        is_current(memory) and out.shape == (tree.nv, tree.nv) and read_configuration(tree, tree.work, q)
    ):
        return False
    articulated.inverse_mass_matrix(tree, tree.work, slots)
    return regular(tree, tree.work)


@rows
def inverse_mass_matrix_rows(memory, work, blocks, q, out):
    if not is_current(memory):
        return False
    tree, slots, good = unpack(memory), slots_of(work), True
    result = beyond(slots, tree.result)
    for row in range(0, q.shape[0], LANES):
        good &= read_configurations(tree, work, q, row)
        articulated.inverse_mass_matrix(tree, slots, result)
        good &= all_regular(tree, work)
        write_results(work, tree.result, blocks, out, row)
    return good


@one
def regressor_at(memory, q, v, v_r, a_r, out):
    tree, slots = unpack(memory), flat_slots_of(out)
    if not (
        is_current(memory)
        and out.shape == (tree.nv, 10 * tree.bodies)
        and read_configuration(tree, tree.work, q)
        and read_vector(tree, tree.work, 0, v)
        and read_vector(tree, tree.work, 1, v_r)
        and read_vector(tree, tree.work, 2, a_r)
    ):
        return False
    out[:] = 0.0
    regression.regressor(tree, tree.work, slots)
    return True


@rows
def regressor_rows(memory, work, blocks, q, v, v_r, a_r, out):
    if not is_current(memory):
        return False
    tree, slots, good = unpack(memory), slots_of(work), True
    result = beyond(slots, tree.result)
    for row in range(0, q.shape[0], LANES):
        good &= read_configurations(tree, work, q, row)
        good &= read_vectors(tree, work, 0, v, row)
        good &= read_vectors(tree, work, 1, v_r, row)
        good &= read_vectors(tree, work, 2, a_r, row)
        regression.regressor(tree, slots, result)
        write_results(work, tree.result, blocks, out, row)
    return good
