"""Whether a loop is unstable because its period is too long for its gain.

A force that is held for a period h, tau = -K v, changes the velocity to v - h H^-1 K v. So differences of
velocities are multiplied by 1 - x, x an eigenvalue of h H^-1 K, and grow with alternating signs if x > 2.
"""

from __future__ import annotations

import numpy as np

from connections.multibody import Model

_PERIODS = 3  # in which differences grow and change their sign; what else diverges does not do that


def too_large_gain(v: np.ndarray, model: Model) -> str:
    """A sentence for an error, that the gain is too large; empty if the velocities (T, nv) do not alternate.

    Parameters
    ----------
    v : (T, nv) at all periods before the error.
    """
    d = np.diff(v, axis=0)
    squares = np.sum(d[:-1] ** 2, axis=1)
    ratios = np.sum(d[1:] * d[:-1], axis=1) / np.where(squares > 0.0, squares, 1.0)
    alternates = ratios < -1.0
    for k in range(len(ratios) - _PERIODS + 1):
        if alternates[k : k + _PERIODS].all():
            x = 1.0 - float(np.median(ratios[k : k + _PERIODS]))
            fastest = int(np.argmax(np.abs(d[k + _PERIODS])))
            names = (name for name in model.joint_names if fastest in _components(model, name))
            return (
                f". Velocities of joint '{next(names)}' change their sign and grow from period to period: "
                f"the gain is too large for the period, gain * period / inertia is about {x:.3g}, above 2"
            )
    return ""


def _components(model: Model, joint: str) -> range:
    part = model.velocity_slice(joint)
    return range(part.start, part.stop)
