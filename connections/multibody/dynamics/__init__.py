"""From a model to numbers: the recursions, and what makes a call of them out of a kernel.

`table` says what is to know of each recursion, `entries` renders compiled functions from it, `compiled` keeps
them, the packings write the arrays that they read, `program` holds what belongs to a model, and `functions`
are the public ones.
"""
