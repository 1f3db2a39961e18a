"""Figure 3 of the paper: vectors carried along geodesics by four connections on R^3. Source: [W] Fig. 3."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.integrate import solve_ivp

from connections._jax import ArrayLike
from connections.affine import ContorsionConnection
from connections.affine.motions.flow import as_times
from connections.checks import ShapeError, as_array, require_finite
from connections.geometry import ConstantMetric, CoordinateFrame
from connections.plots.canvas import BLUE, GREEN, GREY, RED, new_figure


def four_contorsions() -> dict[tuple[bool, bool], np.ndarray]:
    """Constant contorsions D[i, j, k] on R^3, by (metric compatible, Riemannian geodesics).

    Totally antisymmetric; antisymmetric in (1, 3) only; in (2, 3) only; in neither pair.

    Examples
    --------
    >>> from connections import plots
    >>> both = plots.four_contorsions()[True, True]  # antisymmetric in (1, 3) and in (2, 3)
    >>> bool((both == -both.transpose(2, 1, 0)).all()), bool((both == -both.transpose(0, 2, 1)).all())
    (True, True)

    Source: [W] Fig. 3, Props III.1 and III.2.
    """
    volume = np.zeros((3, 3, 3))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        volume[i, j, k], volume[i, k, j] = 1.0, -1.0
    axis = np.array([1.0, 0.0, 1.0]) / np.sqrt(2.0)
    helix = np.einsum("iak,a,j->ijk", volume, axis, axis)  # D(v, z) = (a.v) a x z: rotation about a
    stretch = np.zeros((3, 3, 3))
    for i, k, size in ((1, 1, 0.22), (2, 2, -0.22), (2, 1, 0.2)):  # green grows and leans, blue shrinks
        stretch[i, 0, k] += size
        stretch[i, k, 0] -= size
    both = stretch.copy()
    both[1, 0, 0] += 0.25  # the geodesic bends
    both[2, 0, 0] += 0.12
    return {
        (True, True): 0.55 * volume,
        (True, False): 1.0 * helix,
        (False, True): stretch,
        (False, False): both,
    }


def transported_frames(contorsions: Any, times: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Geodesics along e_1 from the origin of Euclidean R^3, and the unit triad transported along them.

    Parameters
    ----------
    contorsions : (m, 3, 3, 3) constant D[i, j, k], one connection each.
    times : (T,) increasing, s.

    Returns
    -------
    q (m, T, 3), z (m, T, 3, 3) with z[a, t, b] the b-th transported vector.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import plots
    >>> twist = plots.four_contorsions()[True, True]
    >>> q, z = plots.transported_frames([twist], np.linspace(0.0, 2.0, 3))
    >>> q[0, -1].round(6)  # the geodesic is a straight line
    array([2., 0., 0.])
    >>> z[0, -1].round(3)  # along which two of the vectors turn about the third
    array([[ 1.   ,  0.   ,  0.   ],
           [ 0.   ,  0.454,  0.891],
           [ 0.   , -0.891,  0.454]])
    """
    contorsions, times = as_array("contorsions", contorsions, (3, 3, 3)), np.asarray(as_times(times))
    require_finite("contorsions", contorsions)
    if contorsions.ndim != 4 or not len(contorsions):
        raise ShapeError("contorsions", ("m", 3, 3, 3), contorsions.shape)
    metric = ConstantMetric(CoordinateFrame(3), np.eye(3))

    def one(D: np.ndarray) -> np.ndarray:
        Gamma = np.asarray(ContorsionConnection(metric, lambda q: D).coefficients(np.zeros(3)))  # everywhere

        def rate(t: float, y: np.ndarray) -> np.ndarray:
            z = y[3:].reshape(3, 3)  # the first transported vector is the geodesic's velocity
            return np.concatenate([z[0], -np.einsum("ijk,j,ak->ai", Gamma, z[0], z).ravel()])

        start = np.concatenate([np.zeros(3), np.eye(3).ravel()])
        ends = float(times[0]), float(times[-1])
        states: np.ndarray = solve_ivp(rate, ends, start, "DOP853", times, rtol=1e-10, atol=1e-12).y
        return states.T

    y = np.stack([one(D) for D in np.asarray(contorsions)])
    return y[..., :3], y[..., 3:].reshape(*y.shape[:2], 3, 3)


def figure_transport() -> Figure:
    """Four connections on R^3: three vectors transported along a geodesic each. Source: [W] Fig. 3.

    Examples
    --------
    >>> from connections import plots
    >>> figure = plots.figure_transport()
    >>> figure.savefig("transport.png")
    >>> len(figure.axes)
    4
    """
    figure = new_figure(11.0, 7.6)
    kinds = {
        (True, True): "D totally antisymmetric",
        (False, True): "D antisymmetric in (2, 3) only",
        (True, False): "D antisymmetric in (1, 3) only",
        (False, False): "D antisymmetric in neither",
    }  # row by row
    contorsions = four_contorsions()
    q, z = transported_frames(np.stack([contorsions[kind] for kind in kinds]), np.linspace(0.0, 4.0, 61))
    for number, words in enumerate(kinds.values()):
        row, column = divmod(number, 2)
        axes: Any = figure.add_axes((0.05 + 0.475 * column, 0.49 - 0.43 * row, 0.47, 0.42), projection="3d")
        _draw_transport(axes, q[number], z[number], every=6)
        axes.text2D(0.5, 0.96, words, transform=axes.transAxes, ha="center", fontsize=12)
    for x, answer in ((0.285, "yes"), (0.76, "no")):
        figure.text(x, 0.95, f"metric compatible: {answer}", ha="center", fontsize=13, weight="bold")
    for y, answer in ((0.70, "yes"), (0.28, "no")):
        words = f"Riemannian geodesics: {answer}"
        figure.text(0.015, y, words, rotation=90, va="center", fontsize=13, weight="bold")
    caption = (
        "Three vectors, orthonormal at the start, carried along the geodesic of the red one. "
        "All axes of a panel have one scale [m]."
    )
    figure.text(0.52, 0.015, caption, ha="center", fontsize=10)
    return figure


def _draw_transport(axes: Any, q: np.ndarray, z: np.ndarray, every: int) -> None:
    """The geodesic, and the transported triads z (T, 3 vectors, 3) along it."""
    axes.plot(*q.T, color=GREY, lw=1.4)
    for k in range(0, len(q), every):
        for vector, shade in zip(z[k], (RED, GREEN, BLUE), strict=True):
            axes.quiver(*q[k], *(0.6 * vector), color=shade, lw=1.5, arrow_length_ratio=0.25)
    points = np.concatenate([q[:, None], q[:, None] + 0.6 * z], axis=1).reshape(-1, 3)
    low, high = points.min(axis=0), points.max(axis=0)
    centre, half = (low + high) / 2, np.maximum((high - low) / 2, 0.55) + 0.15
    for setter, c, h in zip((axes.set_xlim, axes.set_ylim, axes.set_zlim), centre, half, strict=True):
        setter(c - h, c + h)
    axes.set_box_aspect(half, zoom=1.35 if half.max() > 2.0 * half.min() else 1.1)
    axes.view_init(elev=22, azim=-66)
    for artist in axes.collections:
        artist.set_clip_on(False)  # the box reaches beyond the rectangle to which arrows are clipped
    axes.locator_params(nbins=4)
    axes.tick_params(labelsize=7, pad=-2)
