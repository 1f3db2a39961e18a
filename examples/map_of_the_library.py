"""The roadmap of the theory as a map of the library: which name stands for each box and each arrow.

Left: what a connection is. Right: what its Coriolis matrix is. Above: the whole system. Below: the system
under constraints. Every name on the map is looked up in the library: one that is gone stops the script.
Source: [W] Fig. 1. Run: python examples/map_of_the_library.py [directory]
"""

import sys
from functools import reduce
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

import connections as cn
from connections.verify.propositions import catalogue

# Box: (column, height) of its centre, what it stands for, the name in the library.
BOXES = {
    "connection": ((0, 4.0), "any connection on Q", "AffineConnection"),
    "compatible": (
        (0, 3.0),
        "metric compatible:  D_ijk = -D_kji",
        "AffineConnection.check_metric_compatible",
    ),
    "geodesics": (
        (0, 2.0),
        "the metric's geodesics:  D_ijk = -D_ikj",
        "AffineConnection.check_same_geodesics",
    ),
    "riemannian": ((0, 1.0), "both, and no torsion:  Riemannian", "LeviCivita"),
    "matrix": ((1, 4.0), "its Coriolis matrix  C_ik = Gamma_ijk v^j", "coriolis_matrix"),
    "skew": ((1, 3.0), "Hdot - 2C skew-symmetric", "audit_coriolis"),
    "dynamics": ((1, 2.0), "the right dynamics:  C v = C* v", "MechanicalSystem.bias"),
    "star": ((1, 1.0), "C*, of generalized Christoffel symbols", "MechanicalSystem.coriolis_matrix"),
    "induced": ((0, -0.6), "induced connection on the submanifold", "InducedConnection"),
    "induced_matrix": ((1, -0.6), "A^T C A + A^T H Adot", "coriolis.induced_coriolis_matrix"),
}
# Arrow: from, to, the result, the name in the library or None where the two boxes' names suffice.
ARROWS = [
    ("connection", "matrix", "(10)", "connection_from_coriolis"),
    ("compatible", "skew", "Prop IV.1", None),
    ("geodesics", "dynamics", "Prop IV.2", None),
    ("riemannian", "star", "(8)", "AffineConnection.first_kind"),
    ("induced", "induced_matrix", "Thm V.1", None),
    ("connection", "compatible", "Prop III.1", "ContorsionConnection"),
    ("compatible", "geodesics", "Cor III.1", "ContorsionFamily"),
    ("geodesics", "riemannian", "Thm III.2", "torsion_free_part"),
    ("riemannian", "induced", "Prop V.3", "InducedMetric"),
    ("star", "induced_matrix", "Prop V.1, Prop V.2, Remark 8", "coriolis.task_space_coriolis_matrix"),
]
X, WIDTH, HEIGHT = (0.0, 7.0), 4.6, 0.62


def resolve(name):
    """The object of the library that is called `name`; an AttributeError if there is none."""
    return reduce(getattr, name.split("."), cn)


measured = {proposition.key: proposition.statement for proposition in catalogue()}
print("boxes")
for _, words, name in BOXES.values():
    kind = "class" if isinstance(resolve(name), type) else "function"
    print(f"  {words:<44} cn.{name} ({kind} of {resolve(name).__module__})")
print("arrows, and what `connections verify` measures of each")
for start, end, result, name in ARROWS:
    rows = [
        key for key in measured for item in result.split(", ") if key == item or key.startswith(item + " ")
    ]
    assert rows or result == "(10)", f"no measurement for {result}"  # (10) defines C
    code = "" if name is None else f"cn.{name} ({resolve(name).__module__})"
    print(f"  {start} -> {end}: {result}  {code}")
    print(*(f"      {key}: {measured[key]}" for key in rows), sep="\n")

figure, axes = plt.subplots(figsize=(11.5, 7.0), layout="constrained")
for (column, y), words, name in BOXES.values():
    color = "#e3ecf7" if column == 0 else "#fbe9e3"
    corner = (X[column] - WIDTH / 2, y - HEIGHT / 2)
    axes.add_patch(FancyBboxPatch(corner, WIDTH, HEIGHT, boxstyle="round,pad=0.02", fc=color, ec="#555555"))
    axes.text(X[column], y + 0.13, words, ha="center", va="center", fontsize=10)
    axes.text(
        X[column], y - 0.14, name, ha="center", va="center", fontsize=8, family="monospace", color="#1f5fbf"
    )
for start, end, result, name in ARROWS:
    (a, ya), (b, yb) = BOXES[start][0], BOXES[end][0]
    across = a != b
    tail, head = (
        ((X[a] + WIDTH / 2, ya), (X[b] - WIDTH / 2, yb))
        if across
        else ((X[a], ya - HEIGHT / 2), (X[b], yb + HEIGHT / 2))
    )
    style = "<->" if across else "->" if ya - yb > 1.1 else "-"  # a line joins conditions that add up
    axes.annotate(
        "", head, tail, arrowprops={"arrowstyle": style, "color": "#333333", "shrinkA": 3, "shrinkB": 3}
    )
    middle = ((tail[0] + head[0]) / 2, (tail[1] + head[1]) / 2)
    if across:
        axes.text(middle[0], middle[1] + 0.13, result, ha="center", fontsize=9, weight="bold")
        axes.text(
            middle[0],
            middle[1] - 0.25,
            name or "",
            ha="center",
            fontsize=7,
            family="monospace",
            color="#1f5fbf",
        )
    else:
        down = 0.11 if ya - yb > 1.1 else 0.0
        axes.text(middle[0] + 0.1, middle[1] + down, result, va="center", fontsize=9, weight="bold")
        corner = (middle[0] + (0.1 if down else 1.05), middle[1] - down)
        axes.text(*corner, name or "", va="center", fontsize=7, family="monospace", color="#1f5fbf")
axes.plot([2.4, 4.6], [0.2, 0.2], color="#999999", linestyle=":")
axes.text(3.5, 0.27, "the whole system, on Q", ha="center", fontsize=9, color="#777777")
axes.text(3.5, 0.04, "a submanifold,  v = A vbar", ha="center", fontsize=9, color="#777777")
axes.text(X[0], 4.65, "connection", ha="center", fontsize=13)
axes.text(X[1], 4.65, "Coriolis matrix", ha="center", fontsize=13)
axes.set(xlim=(-2.7, 9.7), ylim=(-1.1, 4.95))
axes.axis("off")
path = Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "map_of_the_library.png"
figure.savefig(path, dpi=130)
print(path)
