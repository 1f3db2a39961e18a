"""The algorithms: recursions over a tree of bodies, compiled by Numba, that the definitions prove.

`layout` says what stands where in the arrays that kernels read and work in. Those of trees (`forward`,
`coriolis`, `christoffel`, `newton_euler`, `articulated`, `regressor`, `derivatives`) use the spatial algebra
of `algebra`, for one configuration or for several in one vector register (`simd`). Those of closed chains go
over clusters (`cluster_coriolis`, `cluster_christoffel`), or over the spanning tree between a lift and a
projection (`cluster_dynamics`). `loop_continuation` closes loops (`loop_geometry`, `loop_motion`,
`least_squares`, `loop_bias_rates`); `boundary` and `cluster_boundary` check what comes in.

What Python does with them is in `dynamics`. Every edit here compiles all recursions again (`stamp`).
"""
