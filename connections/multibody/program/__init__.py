"""Calls of the kernels from Python, from a model to numbers.

`table` describes each recursion, `entries` has the compiled functions, `compiled_functions` caches them,
the packings write the arrays that they read, and `program` holds the arrays and calls of one model.
The public functions are in `connections.multibody.functions`.
"""
