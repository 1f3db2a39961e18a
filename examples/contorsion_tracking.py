"""
Same Lyapunov function, different motions: what torsion does
============================================================

A point mass follows a line under a law that has a wrong estimate of the mass. C = 0 and C = beta (v x) are
equally admissible Coriolis matrices. The choice changes tracking error, effort and frequency content.
Source: [W] IV-A2.
Run: python examples/contorsion_tracking.py [directory]
"""

import sys
from pathlib import Path

import numpy as np

from connections import plots
from connections.control.tracking_example import explore, table

# %%
# The motions for three beta. High frequency is the share of the velocity's energy across the path above 1 Hz.

results = explore([0.0, -5.0, -10.0])
print(table(results))

# %%
# One function proves that all three are stable: V = s^T H s / 2 falls in the same way.

V = np.array([result.motion.lyapunov for result in results])
print(
    f"\nV falls from {V[0, 0]:.2f} J; the three graphs of V differ by at most {np.ptp(V, axis=0).max():.1e} J"
)

# %%
# The paths differ, and so do the frequencies: torsion makes the mass circle around the line.

directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
for name, figure in (
    ("trajectories", plots.figure_trajectories(results)),
    ("spectra", plots.figure_spectra(results)),
):
    figure.savefig(directory / f"contorsion_tracking_{name}.png", dpi=130)
    print(directory / f"contorsion_tracking_{name}.png")
