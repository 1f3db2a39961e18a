"""Closed loops: closures as a user writes them, their conditions, their assembly, the definition in JAX."""
