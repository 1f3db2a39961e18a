"""With the centre of mass among the velocities, H and C* of a quadruped fall apart in two blocks.

vbar = (cdot, omega, joint rates) instead of the base twist and the joint rates: v = A vbar,
Cbar = A^T C A + A^T H Adot. Then H is M 1 beside H22 and C*, the Levi-Civita one, 0 beside C22. Another
admissible C, of the body-level factor (v x*) I, has no such zeros. Source: [E] Remark 5, eq. (42).
Needs the extra `robots`. Run: python examples/centroidal.py [directory]
"""

import sys
from importlib.metadata import files
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from connections import multibody as mb
from connections.control.centroidal import CentroidalCoordinates

FLOOR = 1e-17  # what the figure draws of smaller entries


def largest(block):
    return float(np.max(np.abs(block)))


def report(name, matrices):
    """Largest entries of the blocks, over all samples; returns that of what should vanish."""
    first, mixed = (
        largest(matrices[:, :3, :3]),
        max(largest(matrices[:, :3, 3:]), largest(matrices[:, 3:, :3])),
    )
    print(f"{name:<38}{first:12.1e}{mixed:12.1e}{largest(matrices[:, 3:, 3:]):12.1e}")
    return mixed


def draw(path, panels):
    figure, axes = plt.subplots(1, len(panels), figsize=(13.0, 4.4), layout="constrained")
    for panel, (title, matrix) in zip(axes, panels.items(), strict=True):
        image = panel.matshow(np.log10(np.maximum(np.abs(matrix), FLOOR)), vmin=-17, vmax=1, cmap="viridis")
        panel.axhline(2.5, color="white", linewidth=0.8)
        panel.axvline(2.5, color="white", linewidth=0.8)
        panel.set_title(title, fontsize=10)
        panel.set(xticks=[], yticks=[])
    figure.colorbar(image, ax=axes, label="log10 |C_ik|", shrink=0.8)
    figure.savefig(path, dpi=130)
    print(path)


def main():
    (urdf,) = [
        f for f in files("example-robot-data") if str(f).endswith("solo_description/robots/solo12.urdf")
    ]
    model = mb.from_urdf(urdf.locate(), floating_base=True)
    rng = np.random.default_rng(0)
    q = np.stack([model.random(rng) for _ in range(20)])
    v = rng.standard_normal((20, model.nv))
    body = CentroidalCoordinates(model)

    H, C, C_star, C_x = (
        body.mass_matrix(q),
        mb.coriolis_matrix(model, q, v),
        *(body.coriolis_matrix(q, v, body_factor=factor) for factor in ("christoffel", "force_cross")),
    )
    print(f"{model}, {body.mass:.3f} kg, 20 random states; largest entries of the blocks")
    print(f"{'':<38}{'11':>12}{'12, 21':>12}{'22':>12}")
    report("H, base twist first", mb.mass_matrix(model, q))
    coupled = report("H, centre of mass: H11 = M 1", H)
    print(f"{'':<38}H11 - M 1: {largest(H[:, :3, :3] - body.mass * np.eye(3)):.1e}")
    assert coupled < 1e-13 * body.mass
    report("C*, base twist first", C)
    coupled = report("C*, centre of mass", C_star)
    assert max(coupled, largest(C_star[:, :3, :3])) < 1e-12 * largest(C)
    coupled = report("C of (v x*) I, centre of mass", C_x)
    A, A_dot = (np.asarray(x) for x in body.inclusion(q, v))
    report("C* without A^T H Adot", np.swapaxes(A, 1, 2) @ C @ A)
    vbar = np.linalg.solve(A, v[..., None])
    print(f"both C are one dynamics: |(C* - C of (v x*) I) vbar| <= {largest((C_star - C_x) @ vbar):.1e},")
    rates = [X + np.swapaxes(X, 1, 2) for X in (C_x, C_star)]
    print(f"and both C + C^T are Hbar's rate: their difference is <= {largest(rates[0] - rates[1]):.1e}")
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    panels = {
        "C*, base twist and joint rates": C[0],
        "C*, centre of mass first": C_star[0],
        "C of (v x*) I, centre of mass first": C_x[0],
    }
    draw(directory / "centroidal.png", panels)


if __name__ == "__main__":
    main()
