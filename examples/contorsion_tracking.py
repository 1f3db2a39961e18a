"""The paper's tracking example: the same Lyapunov function, different motions.

A point mass follows a line with a wrong mass estimate. C = 0 and C = beta (v x) are equally admissible
Coriolis matrices; the table shows what the choice does to tracking error, effort and frequency content.
Source: [W] IV-A2.
"""

import numpy as np

from connections.control.tracking_example import explore, table

results = explore([0.0, -5.0, -10.0])
print(table(results))

V = np.array([result.motion.lyapunov for result in results])
print(
    f"\nV falls from {V[0, 0]:.2f} J; the three graphs of V differ by at most {np.ptp(V, axis=0).max():.1e} J"
)
