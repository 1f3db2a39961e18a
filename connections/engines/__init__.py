"""Engines: what compiles kernels and calls compiled code. It does not depend on what the kernels compute.

`inlined` is compiled into the kernels: numbers that are vector registers, layouts of flat arrays, linear
algebra. The other files bring arrays to compiled code and back.
"""
