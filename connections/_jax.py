"""The one place where JAX is configured: every array of the library is float64.

Importing ``connections`` switches ``jax_enable_x64`` on for the whole process. Curvature needs second
derivatives and the propositions are checked to 1e-9, neither of which single precision can hold.
"""

import jax

jax.config.update("jax_enable_x64", True)
