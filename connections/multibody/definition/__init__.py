"""The definition of a robot: its kinematics, in JAX and in NumPy, and its rigid bodies; no algorithms."""
