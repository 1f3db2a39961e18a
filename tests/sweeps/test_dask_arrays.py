"""The recursions on Dask arrays: the same numbers, the shapes and blocks that NumPy's rules give, lazily."""

import sys

import dask
import dask.array as da
import numpy as np
import pytest
import xarray
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


# --- arrays with names, which may hold Dask arrays ---------------------------------------------------------


def test_a_named_array_of_numpy_numbers_is_computed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "connections.engines.dask_arrays", None)  # where Dask is not installed
    for kind in (xarray.DataArray, lambda x: xarray.Variable(("i", "j")[: x.ndim], x)):
        for q, v in ((Q[0, 0], V[0, 0]), (Q[0, :3], V[0, 0])):
            expected = mb.coriolis_matrix(ROBOT, q, v)
            out = np.zeros_like(expected)
            for result in (
                mb.coriolis_matrix(ROBOT, kind(q), v),
                mb.coriolis_matrix(ROBOT, q, kind(v)),
                mb.coriolis_matrix(ROBOT, kind(q), kind(v), out=out),
            ):
                assert type(result) is np.ndarray
                np.testing.assert_array_equal(result, expected)
            assert result is out
    with pytest.raises(NonFiniteError, match=r"v\[0\] is nan"):
        mb.coriolis_matrix(ROBOT, xarray.DataArray(Q[0, 0]), xarray.DataArray(V[0, 0] * np.nan))
    with pytest.raises(TypeError, match="q: expected an array of real numbers, got a Dataset: .*DataArray"):
        mb.gravity(ROBOT, xarray.Dataset({"q": ("i", Q[0, 0])}))


def test_a_named_array_of_a_dask_array_is_as_lazy_as_that() -> None:
    calls = []
    q = DASK[0][0].map_blocks(lambda block: calls.append(1) or block, dtype=float, meta=np.empty((0, 0)))
    named = xarray.DataArray(q, dims=("row", "joint"))
    result = mb.coriolis_matrix(ROBOT, named, xarray.DataArray(V[0]))
    assert isinstance(result, da.Array) and result.chunks[0] == (20, 20, 10) and calls == []
    np.testing.assert_array_equal(result.compute(scheduler="sync"), mb.coriolis_matrix(ROBOT, Q[0], V[0]))
    with pytest.raises(TypeError, match="out: a Dask array is computed later"):
        mb.gravity(ROBOT, named, out=np.empty((50, 6)))
    for wrong in (np.ma.masked_equal(V[0], V[0, 0, 0]), np.full(V[0].shape, "1"), V[0] * 1j):
        with pytest.raises(TypeError, match="v: expected an array of real numbers"):
            mb.coriolis_matrix(ROBOT, DASK[0][0], wrong)


def test_coordinates_in_dask_arrays_make_nothing_lazy() -> None:
    times = da.arange(50, chunks=20)
    q = xarray.DataArray(Q[0], dims=("row", "joint"), coords={"time": ("row", times)})
    assert type(mb.gravity(ROBOT, q)) is np.ndarray
