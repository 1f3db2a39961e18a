"""The compiled derivatives, for one configuration and for rows of them, in the manner of `entries`."""

import numpy as np

from connections.multibody.recursions import derivatives
from connections.multibody.recursions.boundary import (
    all_regular,
    read_configuration,
    read_configurations,
    read_vector,
    read_vectors,
    regular,
    write_results,
)
from connections.multibody.recursions.entries import one, rows
from connections.multibody.recursions.lanes import LANES, beyond, flat_slots_of, inlined, slots_of
from connections.multibody.recursions.layout import is_current, unpack
from connections.multibody.recursions.lift_derivatives import differentiate, project_derivatives


@inlined
def three_square(out, nv):
    """Whether out is (3, nv, nv); an array without content is, where nv is zero."""
    return out.shape[0] * nv == 3 * nv and out.shape[1] == nv and out.shape[2] == nv


@one
def inverse_dynamics_derivatives_at(memory, q, v, a, out):
    tree, slots = unpack(memory), flat_slots_of(out)
    if not (
        is_current(memory)
        and three_square(out, tree.nv)
        and read_configuration(tree, tree.work, q)
        and read_vector(tree, tree.work, 0, v)
        and read_vector(tree, tree.work, 1, a)
    ):
        return False
    out[:] = 0.0
    derivatives.inverse_dynamics_derivatives(tree, tree.work, slots)
    return True


@rows
def inverse_dynamics_derivatives_rows(memory, work, blocks, q, v, a, out):
    if not is_current(memory):
        return False
    tree, slots, good = unpack(memory), slots_of(work), True
    result = beyond(slots, tree.result)
    for row in range(0, q.shape[0], LANES):
        good &= read_configurations(tree, work, q, row)
        good &= read_vectors(tree, work, 0, v, row)
        good &= read_vectors(tree, work, 1, a, row)
        derivatives.inverse_dynamics_derivatives(tree, slots, result)
        write_results(work, tree.result, blocks, out, row)
    return good


@one
def forward_dynamics_derivatives_at(memory, q, v, tau, out):
    tree, slots = unpack(memory), flat_slots_of(out)
    if not (
        is_current(memory)
        and three_square(out, tree.nv)
        and read_configuration(tree, tree.work, q)
        and read_vector(tree, tree.work, 0, v)
        and read_vector(tree, tree.work, 1, tau)
    ):
        return False
    derivatives.forward_dynamics_derivatives(tree, tree.work, slots)
    return regular(tree, tree.work)


@rows
def forward_dynamics_derivatives_rows(memory, work, blocks, q, v, tau, out):
    if not is_current(memory):
        return False
    tree, slots, good = unpack(memory), slots_of(work), True
    result = beyond(slots, tree.result)
    for row in range(0, q.shape[0], LANES):
        good &= read_configurations(tree, work, q, row)
        good &= read_vectors(tree, work, 0, v, row)
        good &= read_vectors(tree, work, 1, tau, row)
        derivatives.forward_dynamics_derivatives(tree, slots, result)
        good &= all_regular(tree, work)
        write_results(work, tree.result, blocks, out, row)
    return good


@one
def project_derivatives_at(memory, spans, n, solution, v, a, T, tau_s, D, out):
    if not (is_current(memory) and three_square(out, n)):
        return False
    moved, sums = np.empty((4, T.shape[0])), np.empty((3, n))
    differentiate(spans, solution, v, a, T, moved)
    project_derivatives(spans, n, solution, moved, tau_s, D.reshape(D.size), sums, out.reshape(out.size))
    return True


@rows
def project_derivatives_rows(memory, spans, n, solution, v, a, T, tau_s, D, out):
    moved, sums = np.empty((4, T.shape[1])), np.empty((3, n))
    for row in range(out.shape[0]):
        differentiate(spans, solution[row], v[row], a[row], T[row], moved)
        project_derivatives(spans, n, solution[row], moved, tau_s[row], D[row], sums, out[row])
    return is_current(memory)
