"""The algorithms: recursions over a tree of bodies, compiled by Numba, that the definitions prove.

One flat array describes a tree (`layout`); kernels (`forward`, `coriolis`, `christoffel`, `newton_euler`,
`articulated`, `regression`) read it with the spatial algebra of `algebra`, for one configuration or for
several in one vector register (`simd`). `table` says what is to know of each recursion, `entries` compiles
them, `program` holds what belongs to a model, and `functions` are the public ones. This is the only place
that imports Numba.

For closed chains, `closure` solves the loops (`closure_layout`, `loop_geometry`, `loop_motion`,
`least_squares`, `loop_solutions`); matrices are recursions over clusters (`cluster_layout`, `clusters`,
`cluster_christoffel`, `cluster_boundary`); vectors are those of the spanning tree, lifted and projected
(`closed_dynamics`). A tree is the case without loops: `program` has one way for both.
"""
