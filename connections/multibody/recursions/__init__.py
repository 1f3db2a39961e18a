"""The algorithms: recursions over a tree of bodies, compiled by Numba, that the definitions prove.

One flat array describes a tree (`layout`); kernels (`forward`, `coriolis`, `christoffel`, `newton_euler`,
`articulated`, `regression`) read it with the spatial algebra of `algebra`, for one configuration or for
several in one vector register (`lanes`); `entries` compiles them, `program` holds what belongs to a model,
and `calls` are the public functions. This is the only place that imports Numba.
"""
