"""The spaces of `connections.spaces` that have closed forms, each with two points; by name."""

import numpy as np

from connections import spaces

UNIT = np.array([[1.0, -2.0, 0.5, 1.0], [0.3, 0.4, 2.0, 1.0]])
UNIT = UNIT / np.linalg.norm(UNIT, axis=1, keepdims=True)

#: name -> (metric, points (2, nq))
CLOSED = {
    "half_space": (spaces.hyperbolic(3), np.array([[0.2, -0.3, 0.7], [1.2, 0.4, 0.3]])),
    "ball": (spaces.hyperbolic(3, "ball"), np.array([[0.2, -0.3, 0.5], [-0.5, 0.4, 0.3]])),
    "hyperboloid": (
        spaces.hyperbolic(2, "hyperboloid"),
        np.array([[3.0, 2.0, 2.0], [np.sqrt(1.25), 0.3, -0.4]]),
    ),
    "sphere": (spaces.sphere(3), UNIT),
    "positive_definite": (spaces.positive_definite(2), np.array([[1.0, 0.3, 2.0], [0.7, -0.2, 1.0]])),
    "grassmann": (spaces.grassmann(4, 2), np.array([[0.1, 0.5, -0.4, 0.2], [-0.5, 0.2, 0.3, 0.9]])),
    "normal": (spaces.normal(), np.array([[0.1, 0.5], [1.0, 2.0]])),
    "categorical": (spaces.categorical(3), np.array([[0.1, 0.3, 0.2], [0.5, 0.2, 0.1]])),
}
