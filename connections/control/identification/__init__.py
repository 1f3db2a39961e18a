"""Identification of inertial parameters and friction: the equations, their filter, and the minimum."""
