"""Stick figures of the mechanisms of `known_mechanisms`, for the table of docs/closed_chains.md.

Run: python tests/support/mechanism_pictures.py docs/figures/mechanisms
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from closed_chains import stewart_platform
from closed_oracles import poses
from known_mechanisms import MECHANISMS, jack, three_rps

from connections import multibody as mb

ACROSS = np.array([[0.85, -0.53, 0.0], [0.18, 0.29, 0.94]])  # two directions of the paper, in x, y, z
FRONT = np.array([[0.45, 0.89, 0.0], [-0.25, 0.13, 0.96]])
ALONG_Z, HANGING = np.eye(3)[:2], np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
#: File: the plan, a step of q to a second posture, and the view.
PICTURES = {
    "cardan": (MECHANISMS["Cardan shafts"][0], [0.5], FRONT),
    "homokinetic": (MECHANISMS["homokinetic shafts"][0], [0.5], FRONT),
    "jack": (jack, [0.6], ALONG_Z),
    "delta": (MECHANISMS["Delta robot"][0], [0.5, -0.3, 0.1], ACROSS),
    "three_rps": (three_rps, [0.1, -0.1, 0.05], ACROSS),
    "gough": (lambda: stewart_platform("legs"), [0.1, -0.1, 0.05, 0.1, 0.05, -0.1], ACROSS),
    "bucket": (MECHANISMS["excavator bucket"][0], [0.25, -0.15], ALONG_Z),
    "wishbone": (MECHANISMS["double wishbone"][0], [0.25, 0.04], FRONT),
    "ankle": (MECHANISMS["parallel ankle"][0], [-0.5, 0.3], ACROSS),
    "knee": (MECHANISMS["knee and ankle"][0], [0.6, -0.4], HANGING),
}
SHADES = "#1f5fbf", "#c8102e", "#1b8a3a", "#b8860b", "#6a3d9a", "#17808f", "#8c564b", "#d6568a"

_ROUND = np.linspace(0.0, 2.0 * np.pi, 25)
_WHEEL = np.stack([0.3 * np.cos(_ROUND), 0.08 + 0.0 * _ROUND, 0.13 + 0.3 * np.sin(_ROUND)], axis=1)
_SOLE = [
    (x, y, -0.07) for x, y in ((-0.07, 0.04), (0.16, 0.04), (0.16, -0.04), (-0.07, -0.04), (-0.07, 0.04))
]
_SHAFTS = {sign: [(0.0, 0.0, sign * 0.5), (0.0, 0.0, 0.0)] for sign in (-1, 1)}
#: What is more of a body than where others meet it: lines in its frame.
EXTRA = {
    "cardan": {
        "driver": [_SHAFTS[-1], [(-0.15, 0, 0), (0.15, 0, 0)]],
        "driven": [_SHAFTS[1], [(0, -0.15, 0), (0, 0.15, 0)]],
    },
    "homokinetic": {
        "driver": [_SHAFTS[-1], [(0.15, 0, -0.3), (0, 0, -0.3)]],
        "driven": [_SHAFTS[1], [(0.15, 0, 0.3), (0, 0, 0.3)]],
    },
    "ankle": {"foot": [_SOLE, [(0, 0, -0.07), (0, 0, 0)]]},
    "bucket": {"bucket": [[(0, 0, 0), (-0.1, -0.45, 0), (0.3, -0.35, 0), (0.3, 0, 0)]]},
    "knee": {"foot": [[(0, 0, 0), (0.06, -0.05, 0), (0.06, 0.16, 0), (0, 0, 0)]]},
    "wishbone": {"upright": [_WHEEL]},
}


def parts(plan):
    """{body: [(4, 4), ...]}: where joints and loops meet each body, in its frame."""
    found = {body: [np.eye(4)] for body in plan.bodies} | {"world": []}
    for parent, _, joint, placement in plan.joints.values():
        found[parent] += [] if isinstance(joint, mb.Free) else [placement]
    for a, b, _, at_a, at_b, _ in plan.loops.values():
        found[a].append(at_a)
        found[b].append(at_b)
    return found


def draw(axes, plan, angles, view, light, extra):
    """One posture: a body is a star from its joint to where others meet it, a free body their polygon."""
    T = poses(plan, angles)
    free = {body for _, body, joint, _ in plan.joints.values() if isinstance(joint, mb.Free)}
    for number, (body, places) in enumerate(parts(plan).items()):
        points = np.array([(T[body] @ place)[:3, 3] for place in places]) @ view.T
        shade = SHADES[number % len(SHADES)]
        if body == "world":
            axes.plot(*points.T, "^", color="#222222", ms=6, zorder=3)
        elif body in free:
            axes.fill(*points[1:].T, facecolor=shade, edgecolor=shade, alpha=0.35 * light, lw=2.5)
        else:
            for point in points[1:]:
                axes.plot(*np.stack([points[0], point]).T, color=shade, lw=3.0, alpha=light)
            axes.plot(*points.T, "o", color=shade, ms=3.5, alpha=light)
        for line in extra.get(body, ()):
            corners = (T[body] @ np.column_stack([line, np.ones(len(line))]).T)[:3].T @ view.T
            axes.plot(*corners.T, color=shade, lw=2.5, alpha=light)
    for parent, body, joint, placement in plan.joints.values():
        if isinstance(joint, mb.Prismatic):  # the rod of a slide
            rod = np.array([(T[parent] @ placement)[:3, 3], T[body][:3, 3]]) @ view.T
            axes.plot(*rod.T, color="#444444", lw=4.5, alpha=0.6 * light)
    for a, b, closure, at_a, at_b, _ in plan.loops.values():
        if isinstance(closure, mb.Distance | mb.Helical):
            rod = np.array([(T[a] @ at_a)[:3, 3], (T[b] @ at_b)[:3, 3]]) @ view.T
            axes.plot(*rod.T, color="#666666", lw=1.2, alpha=light)


def picture(path, make, step, view):
    """The reference, and a second posture in pale colours."""
    plan = make()
    model = plan.build()
    figure, axes = plt.subplots(figsize=(2.4, 1.9), layout="constrained")
    for part, light in ((1.0, 0.25), (0.0, 1.0)):
        found = model.spanning_configuration(model.neutral() + part * np.array(step))
        draw(
            axes,
            plan,
            {name: np.asarray(q) for name, q in found.items()},
            view,
            light,
            EXTRA.get(path.stem, {}),
        )
    axes.set_aspect("equal")
    axes.axis("off")
    figure.savefig(path, dpi=100)
    plt.close(figure)
    print(path)


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, (make, step, view) in PICTURES.items():
        picture(folder / f"{name}.png", make, step, view)


if __name__ == "__main__":
    main()
