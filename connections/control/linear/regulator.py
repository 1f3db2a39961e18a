"""The law of a linear regulator on the manifold of a robot's states.

    tau = tau_r - S K [difference(q_r, q); v - v_r],

K for the pair (A, B S) of `multibody.linearize` about (q_r, v_r, tau_r), whose state is (eta, dv): three
directions for a rotation, and no singular orientation. Source: [B].
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from connections._jax import ArrayLike
from connections._words import words_of
from connections.checks import ShapeError, as_array, require_finite, require_whole
from connections.multibody import Model, difference
from connections.multibody.model import require_model


@dataclass(frozen=True, eq=False)
class Regulator:
    """tau = tau_r - S K [difference(q_r, q); v - v_r] of a robot, about a state or along a sampled motion.

    Parameters
    ----------
    model : the robot.
    q : (nq,) or (N, nq) reference configurations.
    v : (nv,) or (N, nv) reference velocities.
    tau : (nv,) or (N, nv) forces that keep the reference, N m and N.
    gain : K, (m, 2 nv) or (N, m, 2 nv).
    inputs : S (nv, m) or (N, nv, m), tau = S u; the identity if None.

    Raises
    ------
    ShapeError, NonFiniteError, PointError, TypeError.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> robot = mb.example("arm")
    >>> q, v = np.array([0.3, -0.8, 1.2, 0.1, 0.5, 0.0]), np.zeros(6)
    >>> tau = mb.gravity(robot, q)
    >>> K, _ = control.lqr(*mb.linearize(robot, q, v, tau), 1.0, 1.0)
    >>> regulator = control.Regulator(robot, q, v, tau, K)
    >>> np.allclose(regulator.torque(q, v), tau)
    True

    Source: [B], linearization about a trajectory; Kalman (1960).
    """

    model: Model
    q: Any
    v: Any
    tau: Any
    gain: Any
    inputs: Any = None
    samples: int | None = field(init=False, default=None)  # N, or None for one state

    def __post_init__(self) -> None:
        require_model("Regulator", self.model)
        n = self.model.nv
        gain = np.asarray(as_array("gain", self.gain, (None, 2 * n)))
        S = np.eye(n) if self.inputs is None else self.inputs
        arrays = {
            "q": np.asarray(as_array("q", self.q, (self.model.nq,))),
            "v": np.asarray(as_array("v", self.v, (n,))),
            "tau": np.asarray(as_array("tau", self.tau, (n,))),
            "gain": gain,
            "inputs": np.asarray(as_array("inputs", S, (n, gain.shape[-2]))),
        }
        for name, array in arrays.items():
            require_finite(name, array)
            object.__setattr__(self, name, array)
        counts = {len(array) for name, array in arrays.items() if array.ndim > self._ranks[name]}
        if len(counts) > 1 or any(array.ndim > self._ranks[name] + 1 for name, array in arrays.items()):
            shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
            raise ShapeError("reference", "one state, or N samples", shapes)
        object.__setattr__(self, "samples", counts.pop() if counts else None)
        difference(self.model, self.q, self.q)

    @property
    def _ranks(self) -> dict[str, int]:
        return {"q": 1, "v": 1, "tau": 1, "gain": 2, "inputs": 2}

    def error(self, q: ArrayLike, v: ArrayLike, sample: int | None = None) -> np.ndarray:
        """(difference(q_r, q), v - v_r), (..., 2 nv).

        Parameters
        ----------
        q, v : (..., nq), (..., nv) the state.
        sample : number of the reference sample; None for a single reference.

        Raises
        ------
        ShapeError, NonFiniteError, PointError, TypeError. IndexError : there is no such sample.
        """
        q = np.asarray(as_array("q", q, (self.model.nq,)))
        v = np.asarray(as_array("v", v, (self.model.nv,)))
        require_finite("q", q)
        require_finite("v", v)
        xi, dv = difference(self.model, self._at("q", sample), q), v - self._at("v", sample)
        batch = np.broadcast_shapes(xi.shape[:-1], dv.shape[:-1])
        parts = [np.broadcast_to(x, (*batch, self.model.nv)) for x in (xi, dv)]
        return np.concatenate(parts, axis=-1)

    def input(self, q: ArrayLike, v: ArrayLike, sample: int | None = None) -> np.ndarray:
        """-K (error), (..., m): what is added to the input of the reference.

        Parameters
        ----------
        q, v, sample : as for `error`.
        """
        u: np.ndarray = -self.error(q, v, sample) @ self._at("gain", sample).T
        return u

    def torque(self, q: ArrayLike, v: ArrayLike, sample: int | None = None) -> np.ndarray:
        """tau (..., nv), N m and N.

        Parameters
        ----------
        q, v, sample : as for `error`.
        """
        tau: np.ndarray = self._at("tau", sample) + self.input(q, v, sample) @ self._at("inputs", sample).T
        return tau

    def _at(self, name: str, sample: int | None) -> np.ndarray:
        """The reference quantity at a sample."""
        array: np.ndarray = getattr(self, name)
        if (sample is None) != (self.samples is None):
            what = "one state: there are no samples" if self.samples is None else f"{self.samples} samples"
            raise IndexError(f"the reference has {what}; got sample = {sample}")
        if sample is None or array.ndim == self._ranks[name]:
            return array
        number = require_whole("sample", sample)
        if number >= len(array):
            raise IndexError(f"sample: the reference has 0 to {len(array) - 1}, got {words_of(number)}")
        array = array[number]
        return array


def state_names(model: Model) -> tuple[str, ...]:
    """Names (2 nv,) of the components of (eta, dv): ``eta[slide]``, ``dv[base, 3]``.

    Parameters
    ----------
    model : the robot.

    Examples
    --------
    >>> from connections import control
    >>> from connections import multibody as mb
    >>> control.state_names(mb.example("four_bar"))
    ('eta[motor]', 'dv[motor]')
    """
    require_model("state_names", model)
    components: list[str] = []
    for joint in model.joint_names:
        part = model.velocity_slice(joint)
        size = part.stop - part.start
        components += [joint] if size == 1 else [f"{joint}, {number}" for number in range(size)]
    return tuple(f"{kind}[{name}]" for kind in ("eta", "dv") for name in components)
