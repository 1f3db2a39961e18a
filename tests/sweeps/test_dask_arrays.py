"""The recursions on Dask arrays: the same numbers, the shapes and blocks that NumPy's rules give, lazily."""

import dask
import dask.array as da
import numpy as np
import pytest
from closed_chains import four_bar
from robots import robot_path

from connections import multibody as mb
from connections.checks import NonFiniteError, PointError, ShapeError

ROBOT = mb.from_urdf(robot_path("ur5"))
RNG = np.random.default_rng(20261122)
Q, V, W, A = RNG.normal(size=(4, 3, 50, ROBOT.nv))
DASK = [da.from_array(x, chunks=(2, 20, 3)) for x in (Q, V, W, A)]  # the last axis is cut, too

CALLS = {
    "mass_matrix": 1,
    "coriolis_matrix": 2,
    "mass_matrix_rate": 2,
    "christoffel_symbols": 1,
    "coriolis_product": 3,
    "coriolis_transpose_product": 3,
    "inverse_dynamics": 3,
    "gravity": 1,
    "forward_dynamics": 3,
    "inverse_mass_matrix": 1,
    "regressor": 4,
}


@pytest.mark.parametrize("name", CALLS)
def test_every_recursion_gives_what_it_gives_on_numpy_arrays(name: str) -> None:
    call, count = getattr(mb, name), CALLS[name]
    result = call(ROBOT, *DASK[:count])
    expected = call(ROBOT, *(Q, V, W, A)[:count])
    assert isinstance(result, da.Array)
    assert result.shape == expected.shape and result.dtype == expected.dtype
    assert result.chunks[:2] == ((2, 1), (20, 20, 10))
    np.testing.assert_array_equal(result.compute(scheduler="sync"), expected)


def test_derivatives_are_three_lazy_arrays() -> None:
    parts = mb.inverse_dynamics_derivatives(ROBOT, *DASK[:3])
    for part, expected in zip(
        dask.compute(*parts), mb.inverse_dynamics_derivatives(ROBOT, Q, V, W), strict=True
    ):
        np.testing.assert_array_equal(part, expected)


@pytest.mark.parametrize("which", [(0, 1), (1, 0)])
def test_numpy_and_dask_arrays_broadcast_together(which: tuple[int, int]) -> None:
    q = (DASK[0], Q)[which[0]]
    v = (da.from_array(V[0], chunks=(25, 6)), V[0])[which[1]]
    result = mb.coriolis_matrix(ROBOT, q, v, body_factor="force_cross")
    assert isinstance(result, da.Array)
    expected = mb.coriolis_matrix(ROBOT, Q, V[0], body_factor="force_cross")
    np.testing.assert_array_equal(result.compute(scheduler="sync"), expected)
    assert np.abs(expected - mb.coriolis_matrix(ROBOT, Q, V[0])).max() > 0.1  # the factor arrived


def test_a_single_configuration_and_one_against_many() -> None:
    q = da.from_array(Q[0, 0], chunks=4)
    np.testing.assert_array_equal(mb.gravity(ROBOT, q).compute(), mb.gravity(ROBOT, Q[0, 0]))
    result = mb.coriolis_matrix(ROBOT, q, DASK[1])
    assert result.chunks[:2] == ((2, 1), (20, 20, 10))
    np.testing.assert_array_equal(result.compute(), mb.coriolis_matrix(ROBOT, Q[0, 0], V))


def test_closed_chains() -> None:
    model = four_bar().build()
    q = np.stack([model.random(RNG) for _ in range(10)])
    v = RNG.normal(size=(10, model.nv))
    result = mb.coriolis_matrix(model, da.from_array(q, chunks=4), v)
    np.testing.assert_array_equal(result.compute(), mb.coriolis_matrix(model, q, v))


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    calls = []

    def noted(block: np.ndarray) -> np.ndarray:
        calls.append(block.shape)
        return block

    q = DASK[0].map_blocks(noted, dtype=float, meta=np.empty((0, 0, 0)))
    result = mb.mass_matrix(ROBOT, q)
    assert calls == []
    result[0, :5].compute(scheduler="sync")
    assert 0 < len(calls) < 12  # of the twelve blocks, those of the first rows


def test_errors_about_shapes_come_at_once() -> None:
    with pytest.raises(ShapeError, match=r"q: expected shape \(\.\.\., 6\), got \(3, 50, 4\)"):
        mb.gravity(ROBOT, DASK[0][..., :4])
    with pytest.raises(ShapeError, match="broadcast together"):
        mb.coriolis_matrix(ROBOT, DASK[0], DASK[1][:, :7])
    with pytest.raises(TypeError, match="out: a Dask array is computed later"):
        mb.gravity(ROBOT, DASK[0], out=np.empty((3, 50, 6)))
    with pytest.raises(TypeError, match="q: expected an array of real numbers, got complex128"):
        mb.gravity(ROBOT, DASK[0] * 1j)
    with pytest.raises(ValueError, match="body_factor: expected one of"):
        mb.coriolis_matrix(ROBOT, *DASK[:2], body_factor="none")


def test_errors_about_numbers_come_with_them() -> None:
    with pytest.raises(NonFiniteError, match="every number must be finite"):
        mb.gravity(ROBOT, DASK[0] * np.nan).compute(scheduler="sync")
    mechanism = mb.Mechanism()
    mechanism.add_body("ball", mass=1.0, center_of_mass=(0, 0, 0.1), inertia=np.eye(3))
    mechanism.add_joint("socket", "world", "ball", mb.Spherical())
    with pytest.raises(PointError):
        mb.gravity(mechanism.build(), da.ones((4, 4), chunks=2)).compute(scheduler="sync")
