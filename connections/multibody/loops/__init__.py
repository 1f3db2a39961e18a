"""Closed loops: what a person writes, the same as conditions, their assembly, and the definition in JAX."""
