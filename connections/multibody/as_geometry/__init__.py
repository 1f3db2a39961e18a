"""A robot as a space: its fast connection, its metric, its motions, its operations in JAX."""
