"""What a robot is: its kinematics, in JAX and in NumPy, and its rigid bodies. No algorithm."""
