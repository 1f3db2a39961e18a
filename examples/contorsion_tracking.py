"""
Same Lyapunov function, different motions: what torsion does
============================================================

The paper's tracking example: a point mass follows a line with a wrong mass estimate. C = 0 and
C = beta (v x) are equally admissible Coriolis matrices; the table and the figures show what the choice does
to tracking error, effort and frequency content. Source: [W] IV-A2.
Run: python examples/contorsion_tracking.py [directory]
"""

import sys
from pathlib import Path

import numpy as np

from connections import plots
from connections.control.tracking_example import explore, table

results = explore([0.0, -5.0, -10.0])
print(table(results))

V = np.array([result.motion.lyapunov for result in results])
print(
    f"\nV falls from {V[0, 0]:.2f} J; the three graphs of V differ by at most {np.ptp(V, axis=0).max():.1e} J"
)

directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
for name, figure in (("trajectories", plots.figure_6(results)), ("spectra", plots.figure_spectra(results))):
    figure.savefig(directory / f"contorsion_tracking_{name}.png", dpi=130)
    print(directory / f"contorsion_tracking_{name}.png")
