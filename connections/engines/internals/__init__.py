"""What the package knows of JAX, Numba and XLA that they do not promise: private names and decoded layouts.

`jax_names`, `numba_names` and `call_frame` say of each what is assumed and what would replace it. No other
file of the package uses such a name (tests/test_layering.py), and tests/engines/test_internals.py has a test
of each assumption: after an update of JAX or Numba, they say what has changed. The oldest versions on which
the assumptions hold are the lower bounds in pyproject.toml.
"""
