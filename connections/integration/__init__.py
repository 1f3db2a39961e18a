"""Ordinary differential equations y' = f(t, y): a method, its steps, and the control of their lengths.

The method is Dormand and Prince's 8(5,3) (`dop853`), or Radau's for stiff motions (`radau`), whose step is
JAX's. That of the former is written once for each language: for JAX and NumPy in `steps`, for Numba in
`engines/inlined/runge_kutta.py`. `tolerances` defines the allowed error and the length of the next step. The
loop over steps is in `driver`, in Python, for any number of motions; under tracing it is in `traced`. No
module here knows a connection.
"""

#: What rooms above import of this one besides its public names: file -> names.
_OFFERS = {
    "driver": "follow",
    "solver": "Settings",
    "steps": "judging numpy_attempts plain_layout",
    "traced": "solve",
}
