"""The logarithm: guesses, shooting, conjugate points, and the function for NumPy and JAX."""
