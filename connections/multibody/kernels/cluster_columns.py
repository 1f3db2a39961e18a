"""Entries of the clusters' columns, entries of G, and sums in slots, for all kernels of closed chains.

All links of a cluster have one origin (`origins`). A link that begins a group is a cluster by itself.

Row s of G is nonzero only in columns of the cluster of s; if no condition involves the link of s, it has a
single 1, because s is itself an independent column. Source: [W] VI-C.
"""

from connections.engines.inlined.simd import inlined, load, store
from connections.engines.inlined.vectors import add3
from connections.multibody.kernels.origins import leap, wrench_seen


@inlined
def columns_of(tree, reduced, s):
    """The first column in which row s of G is stored, and the number of columns."""
    i = tree.link_of[s]
    if reduced.direct[i]:
        return reduced.link_column[i] + s - tree.first[i], 1
    return reduced.link_column[i], reduced.link_width[i]


@inlined
def group_columns(tree, reduced, number):
    """The first column of a spherical or free joint in v, -1 if it is dependent, and their number."""
    link = tree.noncommuting[number]
    return reduced.independent[tree.first[link]], tree.first[link + 1] - tree.first[link]


@inlined
def G_entry(reduced, work, s, k):
    """G[s, first + k], with `first` of `columns_of`."""
    return load(work, reduced.solution + reduced.G_row[s] + k)


@inlined
def find_entry(reduced, link, j):
    """The entry of column j and a link of j's cluster, -1 if there is none."""
    return reduced.entry_at[reduced.table[link] + j - reduced.link_column[link]]


@inlined
def zero6(reduced, work):
    """Six zeros of the workspace's type of number: sums that begin with them must not change their type."""
    zero = load(work, reduced.zero)
    return zero, zero, zero, zero, zero, zero


@inlined
def contract(work, at, stride, x, count):
    """The inner product of `count` > 0 numbers, `stride` slots apart, and the vector x."""
    total = load(work, at) * load(work, x)
    for k in range(1, count):
        total = total + load(work, at + k * stride) * load(work, x + k)
    return total


@inlined
def deposit(matrix, slot, value, adding):
    """Add `value` to the number in a slot if `adding`, otherwise store it there."""
    if adding:
        value = value + load(matrix, slot)
    store(matrix, slot, value)


@inlined
def begun_at(tree, reduced, a):
    """The link of an entry if it begins a group and the entry before this one is of another link, else 0."""
    link = reduced.home[a]
    return link if tree.begins[link] and reduced.entry_first[link] == a else 0


@inlined
def wrench_at_support(tree, reduced, work, group, f):
    """A wrench in the frame of a group's members, seen from the origin of the link that carries them."""
    link = reduced.members[reduced.group_member[group]]
    if tree.begins[link]:
        f = wrench_seen(f, leap(tree, work, link))
    return f


@inlined
def wrench_before_entry(tree, reduced, work, a, f):
    """A wrench in the frame of an entry, seen from the origin of the entry before it."""
    link = begun_at(tree, reduced, a)
    if link > 0:
        f = wrench_seen(f, leap(tree, work, link))
    return f


@inlined
def distance_at_support(tree, reduced, work, group):
    """The way to the origin of a group's members from that of the link that carries them."""
    zero = load(work, reduced.zero)
    d, link = (zero, zero, zero), reduced.members[reduced.group_member[group]]
    if tree.begins[link]:
        d = leap(tree, work, link)
    return d


@inlined
def distance_before_entry(tree, reduced, work, a, d):
    """d and the way to the origin of an entry from that of the entry before it."""
    link = begun_at(tree, reduced, a)
    if link > 0:
        d = add3(d, leap(tree, work, link))
    return d
