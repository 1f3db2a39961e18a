"""Ordinary differential equations y' = f(t, y): a method, its steps, and who decides how long they are.

The method is Dormand and Prince's 8(5,3) (`dop853`). A step of it is written once for each language: for JAX
and NumPy in `steps`, for Numba in `engines/inlined/runge_kutta.py`. What error is allowed and how long the
next step is, is in `tolerances`. `driver` goes from step to step in Python, for any number of motions; where
JAX traces, `traced` does. No module knows a connection.
"""
