"""Uses of private parts of JAX, Numba and XLA, which may change in any version: names and memory layouts.

`jax_names`, `lapack_batches`, `numba_names`, `numba_import`, `numba_inlining` and `call_frame` say for each
part what is assumed and what would replace it. No other file of the package uses such a name
(tests/test_layering.py). tests/engines/test_internals.py and test_lapack_batches.py test each assumption, so
that after an update of JAX or Numba they show what has changed. The lower bounds in pyproject.toml are the
oldest versions on which the assumptions hold.
"""
