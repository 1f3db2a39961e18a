"""The algorithms: recursions over a tree of bodies, compiled by Numba and tested against the definitions.

`layout` declares the arrays that kernels read and write. The kernels for trees (`forward`, `coriolis`,
`christoffel`, `newton_euler`, `articulated`, `regressor`, `derivatives`) use the spatial algebra in
`algebra`, for one configuration or for several in one vector register (`simd`). Those for closed chains
recurse over clusters (`cluster_coriolis`, `cluster_christoffel`), or take velocities to the spanning tree,
recurse over it, and project forces (`cluster_dynamics`). `loop_continuation` closes loops: it follows them
(`loop_path`), across points in which branches cross and over many turns (`loop_branches`), with
`loop_geometry` and `loop_motion`; `loop_bias_rates` has their second derivatives. `reading` and
`cluster_reading` check the input.

`program` makes calls from Python of the kernels. After an edit here, the recursions into which the edited
function is compiled are compiled again (`engines/source_fingerprint.py`).
"""
