"""Rigid motions: rotations, twists, and their groups in NumPy."""
