"""The recursions over clusters against projections of those of the spanning tree.

The identities need no loop to close: they hold for any G whose sparsity is that of the clusters and any LG,

    H = G^T H_s G,    C = G^T (C_s(G v) G + H_s Gdot),    Gdot_sk = LG_sjk v^j,
    Gamma_ijk = G_si G_tj G_uk Gamma_stu + G_si H_st LG_tjk.
"""

import dataclasses

import numpy as np
import pytest
from cases import further
from closed_chains import four_bar_with_branches, gear_train
from mechanisms import MOVING, armed, random_mechanism
from recursion_functions import SOME

from connections import multibody as mb
from connections.engines.inlined.simd import LANES
from connections.engines.workspaces import aligned, with_workspace
from connections.multibody.clusters import DISTANCE, LINEAR, Clusters, Rows
from connections.multibody.kernels.layout import BAD_INPUT, CLOSURE, CLUSTERS
from connections.multibody.loops.closed_kinematics import ClosedKinematics
from connections.multibody.program.cluster_packing import pack_clusters, tied_bodies
from connections.multibody.program.compiled_functions import compiled
from connections.multibody.program.frames import Frames
from connections.multibody.program.loop_packing import pack_closure
from connections.multibody.program.solution_layout import SolutionLayout
from connections.multibody.program.table import BODY_FACTOR, BODY_FACTORS, RECURSIONS
from connections.multibody.program.tree_packing import nonzero_blocks, pack

TOL = 1e-12
ROWS = LANES + 3
NO_CLOSURE = CLOSURE.empty()  # for solutions made elsewhere it need only come from the same sources


def merge(parents, cluster):
    """Cluster numbers (N,) renumbered, merged until each cluster has one parent and one parent only."""
    cluster = np.array(cluster)
    while True:
        above = {}
        for body, parent in enumerate(parents):
            if parent >= 0 and cluster[parent] != cluster[body]:
                above.setdefault(int(cluster[body]), set()).add(int(cluster[parent]))
        wrong = next((tied for tied in above.values() if len(tied) > 1), None)
        if wrong is None:
            break
        first, second = sorted(wrong)[:2]
        cluster[cluster == second] = first
    return cluster, above


def number_clusters(parents, cluster):
    """Clusters numbered parents first, and their parents."""
    cluster, above = merge(parents, cluster)
    order, waiting = [], list(dict.fromkeys(cluster.tolist()))
    while waiting:
        for name in waiting:
            if above.get(name, set()) <= set(order):
                order.append(name)
                waiting.remove(name)
                break
        else:
            return None
    numbers = np.array([order.index(name) for name in cluster])
    up = np.array([next((order.index(a) for a in above.get(name, ())), -1) for name in order])
    return numbers, up


def closed_chain(rng, model, cluster, independent, linear=0.3):
    """What the packing reads of a closed chain: the tree of `model`, cut into clusters."""
    spanning = model.kinematics
    parents = spanning.tree.parents
    numbers, up = number_clusters(parents, cluster)
    supports = []
    for body, parent in enumerate(parents):
        together = parent >= 0 and numbers[parent] == numbers[body]
        supports.append(supports[parent] if together else parent)
    clusters = Clusters(numbers, up, np.array(supports), np.array(independent), np.ones(len(up)))
    rows = conditions(rng, spanning, clusters, linear)
    return ClosedKinematics(spanning, clusters, rows, (), ("ties",), spanning.neutral())


def conditions(rng, spanning, clusters, linear):
    """Linear conditions for some of the clusters whose dependent joints have one coordinate, else others."""
    kinds, of, coefficients = [], [], []
    single = np.array([joint.nq == 1 for joint in spanning.tree.joints])
    for number in range(clusters.count):
        own = clusters.of_body == number
        dependent = own & ~clusters.independent
        if (single | ~dependent).all() and rng.random() < linear:
            for _ in range(dependent.sum()):
                row = np.zeros(spanning.nq)
                row[spanning.q_starts[:-1][own & single]] = rng.standard_normal((own & single).sum())
                kinds.append(LINEAR)
                of.append(number)
                coefficients.append(row)
        elif dependent.any():
            kinds.append(DISTANCE)
            of.append(number)
            coefficients.append(np.zeros(spanning.nq))
    count, none = len(kinds), np.zeros((len(kinds), 3))
    return Rows(
        kinds=np.array(kinds, dtype=int),
        owners=np.zeros(count, dtype=int),
        clusters=np.array(of, dtype=int),
        bodies_a=np.full(count, -1),
        bodies_b=np.full(count, -1),
        points_a=none,
        points_b=none,
        u=none,
        w=none,
        coefficients=np.reshape(coefficients, (-1, spanning.nq)),
        constants=np.zeros(count),
        scales=np.ones(count),
    )


def random_closed_chain(rng, bodies, kinds=MOVING, ties=0.4, linear=0.3, share=0.0):
    """A random mechanism whose bodies are tied together at random, some of their joints dependent.

    share : of the joints that have armature.
    """
    while True:
        model = armed(random_mechanism(rng, bodies, kinds, branching=0.5, trees=2), rng, share)
        parents = model.kinematics.tree.parents
        cluster = np.arange(bodies)
        for body in range(1, bodies):
            if rng.random() < ties:
                other = int(rng.integers(0, body)) if rng.random() < 0.3 else max(parents[body], 0)
                cluster[cluster == cluster[body]] = cluster[other]
        if number_clusters(parents, cluster) is not None:
            break
    cluster, _ = number_clusters(parents, cluster)
    alone = np.bincount(cluster)[cluster] == 1
    independent = alone | (rng.random(bodies) < 0.5)
    for number in range(cluster.max() + 1):
        if not independent[cluster == number].any():
            independent[np.flatnonzero(cluster == number)[0]] = True
    return model, closed_chain(rng, model, cluster, independent, linear)


def random_solution(rng, model, closed):
    """A solution vector without any loop behind it, and its q_s, G (nv_s, nv), LG (nv_s, nv, nv)."""
    layout, clusters, spanning = SolutionLayout(closed), closed.clusters, closed.spanning
    G, LG = np.zeros((spanning.nv, closed.nv)), np.zeros((spanning.nv, closed.nv, closed.nv))
    G[closed.v_columns, np.arange(closed.nv)] = 1.0
    of_velocity = clusters.of_body[spanning.body_of]
    dependent = ~clusters.independent[spanning.body_of]
    for number in range(clusters.count):
        columns = np.arange(*closed.column_starts[number : number + 2])
        own = np.flatnonzero((of_velocity == number) & dependent)
        mine = closed.rows.clusters == number
        if (closed.rows.kinds[mine] == LINEAR).all():
            K = closed.rows.coefficients[mine][:, spanning.q_starts[spanning.body_of]]
            if len(own):
                G[np.ix_(own, columns)] = -np.linalg.solve(K[:, own], K[:, closed.v_columns[columns]])
        else:
            G[np.ix_(own, columns)] = rng.standard_normal((len(own), len(columns)))
            LG[np.ix_(own, columns, columns)] = rng.standard_normal((len(own), len(columns), len(columns)))
    q = model.random(rng)
    solution = np.zeros(layout.size)
    solution[: spanning.nq] = q
    for s, number in enumerate(of_velocity):
        own = slice(*closed.column_starts[number : number + 2])
        n = own.stop - own.start
        solution[layout.G[s] : layout.G[s] + n] = G[s, own]
        solution[layout.LG[s] : layout.LG[s] + n * n] = LG[s, own, own].ravel()
    return solution, q, G, LG


class Kernels:
    """The compiled functions on the arrays of one closed chain."""

    def __init__(self, closed):
        tree = pack(closed.spanning, (0.0, 0.0, -9.81), tied_bodies(closed))
        self.closed, self.clusters = closed, pack_clusters(closed, tree)
        self.slots = CLUSTERS.read(self.clusters, "result")
        self.memory = with_workspace(tree, self.slots)

    def section(self, name):
        """A table of integers of the array of clusters."""
        following = (*CLUSTERS.integers, *CLUSTERS.numbers)[CLUSTERS.integers.index(name) + 1]
        start, stop = (CLUSTERS.read(self.clusters, part) for part in (name, following))
        return self.clusters.view(np.int64)[start:stop]

    def at(self, name, *vectors, closure=NO_CLOSURE, solved=True, factor=0):
        out, function = np.full(self.core(name), np.nan), compiled.require(f"closed_{name}_at")
        choice = self.chosen(name, factor)
        return function(self.memory, closure, self.clusters, solved, *vectors, *choice, out), out

    def rows(self, name, *vectors, closure=NO_CLOSURE, solved=True, factor=0):
        m, core = len(vectors[0]), self.core(name)
        work = aligned(self.slots + np.prod(core) + LANES, LANES)
        nonzero = RECURSIONS[name].nonzero(self.closed.moves, self.closed.body_of)
        blocks, out = nonzero_blocks(nonzero), np.full((m, np.prod(core)), np.nan)
        function = compiled.require(f"closed_{name}_rows")
        choice = self.chosen(name, factor)
        for _ in range(2):  # nothing may be left over from the call before
            good = function(self.memory, closure, self.clusters, solved, work, blocks, *vectors, *choice, out)
        return good, out.reshape(m, *core)

    def chosen(self, name, factor):
        """What compiled code takes where the caller has a choice: a body-level factor, or the last body."""
        choice, last = RECURSIONS[name].choice, self.closed.tree.body_names[-1]
        given = {None: (), BODY_FACTOR: (factor,)}
        return given[choice] if choice in given else (Frames(self.closed.spanning)[last, "world"],)

    def core(self, name):
        return RECURSIONS[name].core(self.closed.nv, len(self.closed.tree.joints))


def close(actual, expected, tol=TOL):
    scale = max(1.0, np.max(np.abs(expected), initial=0.0))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tol * scale)


def differ(actual, expected):
    assert np.max(np.abs(actual - expected)) > 1e-3 * np.max(np.abs(expected))


def projections(model, q, G, LG, v, body_factor="christoffel"):
    """H, C, Gamma of the closed chain from those of its spanning tree."""
    H, C = mb.mass_matrix(model, q), mb.coriolis_matrix(model, q, G @ v, body_factor=body_factor)
    Gamma = mb.christoffel_symbols(model, q, body_factor=body_factor)
    Gamma = np.einsum("si,tj,uk,stu->ijk", G, G, G, Gamma, optimize=True)
    Gamma += np.einsum("si,st,tjk->ijk", G, H, LG, optimize=True)
    return G.T @ H @ G, G.T @ (C @ G + H @ np.einsum("sjk,j->sk", LG, v)), Gamma


@pytest.fixture
def chain(rng):
    """A chain with clusters of several supports, of several bodies, and of one."""
    while True:
        model, closed = random_closed_chain(rng, 12, linear=0.5)
        kernels = Kernels(closed)
        sizes = np.bincount(closed.clusters.of_body)
        if sizes.max() > 2 and sizes.min() == 1 and several_supports(closed) and closed.nv < 30:
            return model, closed, kernels


def several_supports(closed):
    clusters = closed.clusters
    supports = {(c, s) for c, s in zip(clusters.of_body, clusters.supports, strict=True) if s >= 0}
    return len(supports) > len({c for c, _ in supports})


@pytest.mark.parametrize("body_factor", ["christoffel", "force_cross"])
@pytest.mark.parametrize("number", range(6))
def test_projection(rng, number, body_factor):
    """Random trees, all joint types, clusters of any size and shape, constant G and armature in some."""
    model, closed = random_closed_chain(rng, int(rng.integers(3, 12)), share=0.5 * (number % 2))
    kernels = Kernels(closed)
    for _ in range(2):  # nothing may be left over from the configuration before
        solution, q, G, LG = random_solution(rng, model, closed)
        v = rng.standard_normal(closed.nv)
        H, C, Gamma = projections(model, q, G, LG, v, body_factor)
        for name, vectors, expected in (
            ("mass_matrix", (), H),
            ("coriolis_matrix", (v,), C),
            ("christoffel_symbols", (), Gamma),
            *projected_vectors(rng, model, q, G, LG, v, C),
        ):
            good, result = kernels.at(name, solution, *vectors, factor=BODY_FACTORS[body_factor])
            assert good
            close(result, expected)


def projected_vectors(rng, model, q, G, LG, v, C):
    """Recursions that give vectors, by those of the spanning tree at G v, G a + Gdot v, and by C."""
    a, w = rng.standard_normal((2, len(v)))
    v_s, a_s = G @ v, G @ a + np.einsum("sjk,j,k->s", LG, v, v)
    tau = G.T @ mb.inverse_dynamics(model, q, v_s, a_s)
    yield "inverse_dynamics", (v, a), tau
    yield "gravity", (), G.T @ mb.gravity(model, q)
    yield "coriolis_product", (v, w), C @ w
    yield "coriolis_transpose_product", (v, w), C.T @ w
    if np.linalg.cond(G.T @ mb.mass_matrix(model, q) @ G) < 1e4:
        yield "forward_dynamics", (v, tau), a


def test_random_chains_have_what_they_should(chain):
    _, closed, kernels = chain
    LG = kernels.section("LG_rows")
    assert (LG >= 0).any() and (LG < 0).any()
    assert kernels.section("many_groups").any() and (kernels.section("same") >= 0).any()


def test_derivatives_of_G_enter(rng, chain):
    """Negative control: another LG, or none, gives other C and Gamma, and the same H."""
    model, closed, kernels = chain
    solution, q, G, LG = random_solution(rng, model, closed)
    v = rng.standard_normal(closed.nv)
    H, C, Gamma = projections(model, q, G, 0.0 * LG, v)
    differ(kernels.at("coriolis_matrix", solution, v)[1], C)
    differ(kernels.at("christoffel_symbols", solution)[1], Gamma)
    solution[SolutionLayout(closed).LG[0] :] = 0.0
    close(kernels.at("mass_matrix", solution)[1], H)
    close(kernels.at("coriolis_matrix", solution, v)[1], C)
    close(kernels.at("christoffel_symbols", solution)[1], Gamma)


def test_tree_without_ties(rng):
    """Each body its own cluster, all joints independent: the recursions of the tree."""
    model = random_mechanism(rng, 10, MOVING, branching=0.4, trees=2)
    parents = model.kinematics.tree.parents
    closed = closed_chain(rng, model, np.arange(len(parents)), np.ones(len(parents), dtype=bool))
    kernels, q, v = Kernels(closed), model.random(rng), rng.standard_normal(model.nv)
    solution = np.zeros(SolutionLayout(closed).size)  # G is not looked at
    solution[: model.nq] = q
    close(kernels.at("mass_matrix", solution)[1], mb.mass_matrix(model, q))
    close(kernels.at("coriolis_matrix", solution, v)[1], mb.coriolis_matrix(model, q, v))
    close(kernels.at("christoffel_symbols", solution)[1], mb.christoffel_symbols(model, q))
    close(kernels.at("inverse_mass_matrix", solution)[1], mb.inverse_mass_matrix(model, q), 1e-9)


def test_rate_and_inverse(rng, chain):
    model, closed, kernels = chain
    solution, q, G, _ = random_solution(rng, model, closed)
    v = rng.standard_normal(closed.nv)
    C = kernels.at("coriolis_matrix", solution, v)[1]
    close(kernels.at("mass_matrix_rate", solution, v)[1], C + C.T)
    H, (good, inverse) = G.T @ mb.mass_matrix(model, q) @ G, kernels.at("inverse_mass_matrix", solution)
    assert good
    close(inverse @ H, np.eye(closed.nv), 1e-9)


def test_singular_mass_matrix(rng, chain):
    """Bodies without inertia: refused."""
    model, closed, _ = chain
    solution, tree = random_solution(rng, model, closed)[0], closed.spanning.tree
    weightless = dataclasses.replace(tree, inertias=0.0 * tree.inertias)
    closed = dataclasses.replace(closed, spanning=dataclasses.replace(closed.spanning, tree=weightless))
    assert not Kernels(closed).at("inverse_mass_matrix", solution)[0]


CLOSED = [name for name, row in RECURSIONS.items() if row.closed is not None]


@pytest.mark.parametrize("names", [pytest.param(SOME, id="some"), further(CLOSED, id="all")])
@pytest.mark.parametrize("factor", BODY_FACTORS.values())
def test_rows(rng, chain, factor, names):
    """Rows that do not fill the lanes, workspaces used twice: every row as a configuration by itself."""
    model, closed, kernels = chain
    solutions = np.array([random_solution(rng, model, closed)[0] for _ in range(ROWS)])
    for name in names:
        name = name.removesuffix(" with torsion")
        recursion = RECURSIONS[name]
        if (recursion.choice is BODY_FACTOR) >= (factor > 0):
            vectors = list(rng.standard_normal((len(recursion.vectors), ROWS, closed.nv)))
            vectors += [
                rng.standard_normal((ROWS, CLUSTERS.read(kernels.clusters, "G_size")))
            ] * recursion.bias_rates
            good, result = kernels.rows(name, solutions, *vectors, factor=factor)
            one_by_one = [
                kernels.at(name, *row, factor=factor) for row in zip(solutions, *vectors, strict=True)
            ]
            assert good == all(fine for fine, _ in one_by_one)
            for row, (fine, single) in zip(result, one_by_one, strict=True):
                if fine:
                    close(row, single, 1e-9 if recursion.inverse else TOL)


def test_bad_input(rng, chain):
    model, closed, kernels = chain
    solution, v = random_solution(rng, model, closed)[0], np.ones(closed.nv)
    for bad in (0, len(solution) - 1):
        broken = solution.copy()
        broken[bad] = np.nan
        assert not kernels.at("coriolis_matrix", broken, v)[0]
    assert not kernels.at("coriolis_matrix", solution[:-1], v)[0]
    assert not kernels.at("coriolis_matrix", solution, v[:-1])[0]
    assert not kernels.at("coriolis_matrix", solution, v * np.inf)[0]
    rows = np.tile(solution, (ROWS, 1))
    rows[-1, 0] = np.inf
    assert not kernels.rows("coriolis_matrix", rows, np.ones((ROWS, closed.nv)))[0]
    kernels.memory = kernels.memory[:-1]
    assert not kernels.at("coriolis_matrix", solution, v)[0]


def test_loops_are_solved_before(rng):
    """Where there are loops, entries over clusters take a solution only, and only where they are told."""
    model = four_bar_with_branches().build()
    closed = model.kinematics
    kernels, closure = Kernels(closed), pack_closure(closed)
    q, v = np.asarray(model.random(rng)), rng.standard_normal(model.nv)
    solution = np.zeros(SolutionLayout(closed).size)
    assert compiled.require("closure_at")(closure, q, np.zeros(0), solution) == 0
    expected = mb.coriolis_matrix(model, q, v)
    close(kernels.at("coriolis_matrix", solution, v, closure=closure)[1], expected)
    for given, solved in ((q, True), (q, False), (solution, False)):
        assert not kernels.at("coriolis_matrix", given, v, closure=closure, solved=solved)[0]
        rows = np.tile(given, (ROWS, 1)), np.tile(v, (ROWS, 1))
        assert not kernels.rows("coriolis_matrix", *rows, closure=closure, solved=solved)[0]
    assert compiled.require("closure_at")(closure, solution, np.zeros(0), solution.copy()) == BAD_INPUT


def test_linear_couplings_are_solved_by_the_entry(rng):
    """Where there are linear couplings only, q and its solution give the same, each where it is announced."""
    model = gear_train().build()
    kernels, closure = Kernels(model.kinematics), pack_closure(model.kinematics)
    q, solution = model.random(rng), np.zeros(SolutionLayout(model.kinematics).size)
    assert compiled.require("closure_at")(closure, q, np.zeros(0), solution) == 0
    for given, solved in ((q, False), (solution, True)):
        good, H = kernels.at("mass_matrix", given, closure=closure, solved=solved)
        assert good
        close(H, mb.mass_matrix(model, q))
        many = np.tile(given, (ROWS, 1))
        close(kernels.rows("mass_matrix", many, closure=closure, solved=solved)[1], np.tile(H, (ROWS, 1, 1)))
        assert not kernels.at("mass_matrix", given, closure=closure, solved=not solved)[0]
        assert not kernels.rows("mass_matrix", many, closure=closure, solved=not solved)[0]
