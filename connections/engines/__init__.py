"""Engines: they compile kernels and call compiled code, independent of what the kernels compute.

`inlined` is compiled into the kernels: numbers that are vector registers, layouts of flat arrays, linear
algebra. The other files bring arrays to compiled code and back.
"""

#: What rooms above import of this one besides its public names: file -> names.
_OFFERS = {
    "internals": "numba_import",
    "notices": "heard_by",
}
