"""Derivatives against geometric finite differences: errors over step sizes, and the figure of [B] 5.

Truncation errors fall with the step, with slope 1 or 2; round-off errors rise as it shrinks, as eps |tau| /
h. Source: [B], numerical validation, Fig. 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from connections._jax import ArrayLike
from connections.checks import as_array, require_finite, require_mapping, require_text, require_type
from connections.multibody import Model, finite_differences, inverse_dynamics, inverse_dynamics_derivatives
from connections.multibody.model import require_model
from connections.plots.canvas import BLUE, GREY, RED, color, new_figure


@dataclass(frozen=True, eq=False)
class StepSweep:
    """Errors of finite differences of the inverse dynamics over step sizes.

    Parameters
    ----------
    steps : (S,) rad and m, ascending.
    largest, average : (2, S) errors over the entries of dtau/dq, relative to the largest entry; first
        one-sided differences, then central ones.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> from connections import plots
    >>> arm = mb.example("arm")
    >>> q = v = a = [0.5] * 6
    >>> sweep = plots.StepSweep.of(arm, q, v, a, [1e-4, 1e-3, 1e-2])
    >>> sweep.orders.round(1)  # of one-sided and of central differences
    array([1., 2.])
    """

    steps: np.ndarray
    largest: np.ndarray
    average: np.ndarray

    @classmethod
    def of(cls, model: Model, q: ArrayLike, v: ArrayLike, a: ArrayLike, steps: ArrayLike) -> StepSweep:
        """The sweep of a robot at one state.

        Parameters
        ----------
        model : the robot.
        q, v, a : (nq,), (nv,), (nv,) configuration, velocity, acceleration.
        steps : (S,) rad and m.

        Raises
        ------
        ShapeError, NonFiniteError, PointError, ValueError.
        """
        require_model("StepSweep.of", model)
        steps = np.sort(as_array("steps", steps, (None,)))
        require_finite("steps", steps)
        if steps.ndim != 1 or not steps.size or steps[0] <= 0.0:
            raise ValueError("steps: expected a list of positive numbers")
        exact, _, _ = inverse_dynamics_derivatives(model, q, v, a)
        scale = np.abs(exact).max()

        def tau(points: np.ndarray) -> np.ndarray:
            return inverse_dynamics(model, points, v, a)

        differences = partial(finite_differences, model, tau, q)
        gaps = np.array(
            [[np.abs(differences(h, central=way) - exact) / scale for h in steps] for way in (False, True)]
        )
        return cls(steps, gaps.max(axis=(2, 3)), gaps.mean(axis=(2, 3)))

    @property
    def orders(self) -> np.ndarray:
        """Observed orders (2,): median slopes where truncation dominates: errors 1e-8 to 1e-2 that fall."""
        found = []
        for errors in self.largest:
            good = (errors > 1e-8) & (errors < 1e-2)
            both = good[1:] & good[:-1] & (errors[1:] > errors[:-1])
            slopes = np.diff(np.log(errors)) / np.diff(np.log(self.steps))
            found.append(float(np.median(slopes[both])) if both.any() else np.nan)
        return np.array(found)

    @property
    def best(self) -> np.ndarray:
        """The smallest of the largest errors, (2,)."""
        best: np.ndarray = self.largest.min(axis=1)
        return best


def figure_convergence(own: StepSweep, robots: Mapping[str, StepSweep]) -> Figure:
    """Largest and average error over the step size: one robot at the left, several at the right.

    Parameters
    ----------
    own : the sweep of the robot at the left.
    robots : name -> sweep.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> from connections import plots
    >>> arm = mb.example("arm")
    >>> q = v = a = [0.5] * 6
    >>> sweep = plots.StepSweep.of(arm, q, v, a, [1e-4, 1e-3, 1e-2])
    >>> figure = plots.figure_convergence(sweep, {"arm": sweep})
    >>> figure.savefig("convergence.png")
    >>> len(figure.axes)
    2

    Source: [B] Fig. 5.
    """
    require_type("own", own, StepSweep)
    require_mapping("robots", robots, "{name: StepSweep}")
    for name, sweep in robots.items():
        require_text("robots: name", name)
        require_type(f"robots[{name!r}]", sweep, StepSweep)
    figure = new_figure(12.0, 5.0)
    left, right = figure.subplots(1, 2, sharey=True)
    for number, (name, shade) in enumerate((("one way", BLUE), ("central", RED))):
        left.loglog(own.steps, own.largest[number], color=shade, label=f"{name}, largest")
        left.loglog(own.steps, own.average[number], color=shade, ls="--", label=f"{name}, average")
    for number, (name, sweep) in enumerate(robots.items()):
        right.loglog(sweep.steps, sweep.largest[0], color=color(number), label=name)
        right.loglog(sweep.steps, sweep.largest[1], color=color(number))
    for panel, title in ((left, "Robot of [B] as rebuilt here"), (right, "Real robots, largest errors")):
        _slopes(panel, own.steps)
        panel.set(xlabel="step h [rad, m]", title=title, ylim=(1e-13, 1e1))
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8, loc="lower right")
    left.set_ylabel("error of dtau/dq, relative to its largest entry")
    figure.set_layout_engine("constrained")
    return figure


def _slopes(panel: Axes, steps: Sequence[float] | np.ndarray) -> None:
    """Dotted lines h, h^2 and eps / h."""
    h = np.asarray(steps)
    for values, name, level in ((h, "h", 3e-10), (h**2, "h^2", 1e-12), (1e-16 / h, "eps / h", 1e-12)):
        panel.loglog(h, values, color=GREY, ls=":", lw=1.0)
        at = int(np.argmin(np.abs(np.log(values / level))))
        panel.text(1.6 * h[at], values[at], name, fontsize=8, color=GREY)
