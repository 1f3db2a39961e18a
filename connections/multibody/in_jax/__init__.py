"""The recursions inside JAX: their values by compiled code, and their derivatives by other recursions."""
