"""Tables over a robot's configurations: H, C, Christoffel symbols, bounds of the symbols, curvatures.

The two numbers of ``christoffel_bounds``, for Gamma_ijk = <<X_i, nabla_X_j X_k>> at a configuration,

    max_ijk |Gamma_ijk| <= k_C <= sqrt(sum_ijk Gamma_ijk^2),

enclose the smallest k_C with |C(q, v) w| <= k_C |v| |w|, on which gains of passivity-based laws depend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from connections import multibody as mb
from connections.checks import ShapeError, as_array, require_choice, require_names, require_path, require_type
from connections.multibody import Free, Spherical
from connections.multibody.joints.coordinates import CoordinateJoint
from connections.multibody.model import require_model
from connections.multibody.program.table import BODY_FACTORS
from connections.sweeps.errors import SweepError
from connections.sweeps.sweep import Chunk, Output, Sweep, rows_within, whole

_BLOCK = 16  # configurations whose Christoffel symbols fit into the CPU's cache together
_LARGEST = 50_000  # rows per chunk


@dataclass(frozen=True)
class _Quantity:
    """A table: its arrays for nv velocities, whether it needs v and a body-level factor, and the function."""

    arrays: Callable[[int], dict[str, Output]]
    rate: bool
    factor: bool
    compute: Callable[..., dict[str, np.ndarray]]


def _recursion(name: str, axes: str, rate: bool = False, factor: bool = False) -> _Quantity:
    function = getattr(mb, name)

    def compute(model: mb.Model, *vectors: np.ndarray, **choice: Any) -> dict[str, np.ndarray]:
        return {name: function(model, *vectors, **choice)}

    return _Quantity(lambda n: {name: Output((n,) * len(axes), dims=tuple(axes))}, rate, factor, compute)


def christoffel_bounds(model: mb.Model, q: Any, *, body_factor: str = "christoffel") -> dict[str, np.ndarray]:
    """max |Gamma_ijk| and sqrt(sum Gamma_ijk^2), (m,) each: bounds of k_C with |C(q, v) w| <= k_C |v| |w|.

    Parameters
    ----------
    model : the robot.
    q : (m, nq) configurations.
    body_factor : whose Gamma, as in `multibody.christoffel_symbols`; that of ``"least"`` has the least norm.

    Raises
    ------
    ShapeError, NonFiniteError, PointError.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> from connections import sweeps
    >>> bounds = sweeps.christoffel_bounds(mb.example("arm"), np.zeros((1, 6)))
    >>> {name: values.round(3) for name, values in bounds.items()}
    {'christoffel_largest': array([0.664]), 'christoffel_norm': array([1.754])}
    """
    require_model("christoffel_bounds", model)
    require_choice("body_factor", body_factor, BODY_FACTORS)
    q = as_array("q", q, (model.nq,))
    if q.ndim != 2:
        raise ShapeError("q", ("m", model.nq), q.shape)
    m, n = len(q), model.nv
    largest, norm = np.empty(m), np.empty(m)
    cubes = np.empty((_BLOCK, n, n, n))
    for first in range(0, m, _BLOCK):
        piece = slice(first, min(first + _BLOCK, m))
        Gamma = cubes[: piece.stop - first]
        mb.christoffel_symbols(model, q[piece], body_factor=body_factor, out=Gamma)
        flat = Gamma.reshape(len(Gamma), -1)
        largest[piece] = np.maximum(flat.max(axis=1), -flat.min(axis=1))
        norm[piece] = np.sqrt(np.einsum("ij,ij->i", flat, flat))
    return {"christoffel_largest": largest, "christoffel_norm": norm}


def _extremes_of(model: mb.Model, q: np.ndarray) -> dict[str, np.ndarray]:
    found = mb.curvatures.extreme_sectional_curvatures(model, q)
    return {f"sectional_{name}": array for name, array in found._asdict().items() if name != "scalar"} | {
        "scalar_curvature": found.scalar
    }


def _extremes_arrays(n: int) -> dict[str, Output]:
    plane = Output((n, 2), dims=("velocity", "vector"))
    numbers = dict.fromkeys(
        ("scalar_curvature", *(f"sectional_{name}" for name in ("least", "greatest", "lower", "upper"))),
        Output(),
    )
    return numbers | dict.fromkeys(("sectional_least_plane", "sectional_greatest_plane"), plane)


QUANTITIES: dict[str, _Quantity] = {
    "mass_matrix": _recursion("mass_matrix", "ij"),
    "inverse_mass_matrix": _recursion("inverse_mass_matrix", "ij"),
    "gravity": _recursion("gravity", "i"),
    "coriolis_matrix": _recursion("coriolis_matrix", "ik", rate=True, factor=True),
    "mass_matrix_rate": _recursion("mass_matrix_rate", "ij", rate=True),
    "christoffel_symbols": _recursion("christoffel_symbols", "ijk", factor=True),
    "christoffel_bounds": _Quantity(
        lambda n: {"christoffel_largest": Output(), "christoffel_norm": Output()},
        False,
        True,
        christoffel_bounds,
    ),
    "curvatures": _Quantity(_extremes_arrays, False, False, _extremes_of),
}


def table_sweep(
    model: mb.Model,
    quantities: Sequence[str],
    rows: int | None = None,
    *,
    chunk: int | None = None,
    seed: int = 0,
    body_factor: str = "christoffel",
    configurations: Any = None,
    velocities: Any = None,
) -> Sweep:
    """Quantities of a robot at random configurations, or at given ones.

    Parameters
    ----------
    model : the robot.
    quantities : of ``"mass_matrix"``, ``"inverse_mass_matrix"``, ``"gravity"``, ``"coriolis_matrix"``,
        ``"mass_matrix_rate"``, ``"christoffel_symbols"``, ``"christoffel_bounds"``, ``"curvatures"`` (scalar
        curvature, extreme sectional curvatures, their planes and bounds).
    rows : number of random configurations; not with `configurations`.
    chunk : rows per chunk; if None, as many as fit into 32 MB, at most 50,000.
    seed : of the random configurations (as ``model.random``) and velocities (normal, 1 rad/s and 1 m/s).
    body_factor : as in `multibody.coriolis_matrix`, for the quantities that depend on it.
    configurations : path of a Zarr array (rows, nq) instead of random ones.
    velocities : path of a Zarr array (rows, nv), with `configurations`, if a quantity needs them.

    The store has the arrays of the quantities, and ``q`` and ``v`` if they are random.

    Raises
    ------
    SweepError : a quantity is not in the list, rows and configurations are both given or both missing.

    Examples
    --------
    >>> from connections import multibody as mb
    >>> from connections import sweeps
    >>> sweep = sweeps.table_sweep(mb.example("arm"), ["mass_matrix"], rows=10)
    >>> summary = sweeps.run_sweep(sweep, "arm.zarr", workers=0)
    >>> sweeps.Store("arm.zarr").group["mass_matrix"].shape
    (10, 6, 6)
    """
    require_model("table_sweep", model)
    require_choice("body_factor", body_factor, BODY_FACTORS)
    listed = [quantities] if isinstance(quantities, str) else require_names("quantities", quantities)
    names = tuple(dict.fromkeys(listed))
    unknown = [name for name in names if name not in QUANTITIES]
    if unknown or not names:
        raise SweepError(f"quantities: expected some of {', '.join(QUANTITIES)}; got {unknown or 'none'}")
    moving = any(QUANTITIES[name].rate for name in names)
    if (rows is None) == (configurations is None):
        raise SweepError("give rows, how many random configurations, or configurations, a Zarr array's path")
    inputs: dict[str, Any] = {}
    outputs: dict[str, Output] = {}
    if configurations is None:
        if velocities is not None:
            raise SweepError("velocities: random configurations have random ones; give configurations, too")
        outputs["q"] = Output((model.nq,), dims=("coordinate",))
        if moving:
            outputs["v"] = Output((model.nv,), dims=("velocity",))
    else:
        if moving and velocities is None:
            raise SweepError(f"velocities: {', '.join(n for n in names if QUANTITIES[n].rate)} needs them")
        inputs = {"q": configurations} | ({"v": velocities} if moving else {})
        rows = _rows_of(configurations)
    for name in names:
        outputs |= QUANTITIES[name].arrays(model.nv)
    return Sweep(
        name="table",
        function=_Table(model, names, body_factor),
        rows=rows,  # type: ignore[arg-type]
        outputs=outputs,
        chunk=rows_within(_LARGEST, outputs) if chunk is None else chunk,
        seed=seed,
        inputs=inputs,
        about={
            "joints": list(model.joint_names),
            "bodies": list(model.body_names),
            "gravity": list(model.gravity),
            "body_factor": body_factor,
        },
    )


@dataclass(frozen=True, eq=False)
class _Table:
    """The function of `table_sweep`."""

    model: mb.Model
    names: tuple[str, ...]
    body_factor: str

    def __call__(self, chunk: Chunk) -> dict[str, np.ndarray]:
        model, arrays = self.model, {}
        moving = any(QUANTITIES[name].rate for name in self.names)
        if chunk.inputs:
            q, v = chunk.inputs["q"], chunk.inputs.get("v")
        else:
            rng = chunk.rng()
            arrays["q"] = q = random_configurations(model, rng, chunk.rows)
            v = rng.standard_normal((chunk.rows, model.nv)) if moving else None
            if v is not None:
                arrays["v"] = v
        for name in self.names:
            quantity = QUANTITIES[name]
            choice = {"body_factor": self.body_factor} if quantity.factor else {}
            arrays |= quantity.compute(model, q, *([v] if quantity.rate else []), **choice)
        return arrays


def random_configurations(model: mb.Model, rng: np.random.Generator, count: int) -> np.ndarray:
    """Configurations (count, nq) distributed as those of ``model.random``, drawn joint by joint.

    Parameters
    ----------
    model : the robot.
    rng : NumPy's random generator.
    count : number of configurations.

    For robots with loops, ``model.random`` draws them one by one.

    Examples
    --------
    >>> import numpy as np
    >>> from connections import multibody as mb
    >>> from connections import sweeps
    >>> q = sweeps.random_configurations(mb.example("arm"), np.random.default_rng(0), 1000)
    >>> q.shape, bool((abs(q) < np.pi).all())
    ((1000, 6), True)
    """
    require_model("random_configurations", model)
    require_type("rng", rng, np.random.Generator)
    count = whole("count", count, 1)
    if model.closed:
        return np.stack([model.random(rng) for _ in range(count)])
    q = np.empty((count, model.nq))
    for name, joint in zip(model.joint_names, model.kinematics.joints, strict=True):
        columns = q[:, model.configuration_slice(name)]
        if isinstance(joint, CoordinateJoint):
            columns[:] = rng.uniform(np.negative(joint.ranges), joint.ranges, columns.shape)
        elif isinstance(joint, Free | Spherical):
            columns[:, :-4] = rng.uniform(-1.0, 1.0, (count, joint.nq - 4))
            turns = rng.standard_normal((count, 4))
            columns[:, -4:] = turns / np.linalg.norm(turns, axis=1, keepdims=True)
        else:
            columns[:] = [joint.random(rng) for _ in range(count)]
    return q


def _rows_of(path: Any) -> int:
    import zarr

    require_path("configurations", path)
    try:
        return int(zarr.open_array(path, mode="r").shape[0])
    except (FileNotFoundError, KeyError, ValueError, IndexError, NotADirectoryError) as error:
        raise SweepError(f"configurations: there is no Zarr array at {path}") from error
