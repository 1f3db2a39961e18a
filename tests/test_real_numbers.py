"""One rule says what real numbers are, for arguments and for what users' functions return."""

import warnings
from datetime import date
from decimal import Decimal
from fractions import Fraction

import dask.array
import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
import scipy.sparse
import xarray

import connections as cn
from connections import control, systems
from connections import multibody as mb
from connections.checks import NonFiniteError, as_array, as_result

PLANE = cn.CoordinateFrame(2)
SYSTEM = cn.MechanicalSystem(cn.ConstantMetric(PLANE, np.eye(2)))
NABLA = cn.LeviCivita(SYSTEM.metric)
ARM = mb.example("arm")
Q, V, TIMES = np.zeros(2), np.ones(2), [0.0, 0.1]
REST = ARM.neutral(), np.zeros(6)


class Converted:
    """What converts itself to an array, as tensors and arrays of Dask do, and perhaps refuses to."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        if self.array is None:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad")
        return self.array


REAL = {
    "a list": [1, 2.0],
    "truth values": [True, np.True_],
    "float16": np.array([1.0, 2.0], np.float16),
    "long double": np.array([1.0, 2.0], np.longdouble),
    "other byte order": np.array([1.0, 2.0], ">f8"),
    "objects": np.array([1, 2.5], object),
    "decimals": [Decimal("1.5"), Fraction(1, 3)],
    "masked, nothing hidden": np.ma.masked_array([1.0, 2.0]),
    "JAX's integers": jnp.array([1, 2]),
    "numbers of JAX in a list": [jnp.float64(1.0), 2],
    "a named array": xarray.DataArray([1.0, 2.0]),
    "named numbers in a list": [xarray.DataArray(1.0), 2.0],
    "a column": pandas.Series([1, 2.5], dtype=object),
    "a column of its own type": pandas.Series([1, 2], dtype="Int64"),
    "records without fields": np.ones(2).view(np.recarray),
    "a range": range(2),
    "a buffer": memoryview(np.ones(2)),
    "what converts itself": Converted(np.ones(2)),
    "a Dask array": dask.array.ones(2),
}
NOT_REAL = {
    "digits": ["1", "2"],
    "digits among objects": np.array(["1", 2.0], object),
    "bytes": [b"1", b"2"],
    "complex": np.array([1.0, 2.0], complex),
    "complex by JAX": jnp.array([1.0, 2.0], complex),
    "complex among objects": np.array([np.complex128(1.0), 2.0], object),
    "None": [None, 1.0],
    "dates": [date(2020, 1, 1), date(2020, 1, 2)],
    "spans": np.array([1, 2], "timedelta64[s]"),
    "a span among objects": np.array([np.timedelta64(1), 2.0], object),
    "a date of an array among numbers": [np.array("2020-01-01", "datetime64[D]"), 2.0],
    "digits of an array among numbers": [np.array("1"), 2.0],
    "a hidden number": np.ma.masked_array([1.0, 2.0], [True, False]),
    "a hidden number in a list": [np.ma.masked_array([1.0, 2.0], [True, False])],
    "masked itself": [np.ma.masked, 1.0],
    "hidden numbers in a list": [np.ma.masked_array(1.0, True)] * 2,
    "bfloat16": jnp.zeros(2, jnp.bfloat16),
    "keys of JAX": jax.random.split(jax.random.key(0)),
    "a hidden number of what converts itself": Converted(np.ma.masked_array([1.0, 2.0], [True, False])),
    "what refuses to convert itself": Converted(None),
    "what refuses, in a list": [Converted(None)] * 2,
    "several named arrays": xarray.Dataset({"a": ("i", [1.0, 2.0])}),
    "a column with None": pandas.Series([1, None], dtype=object),
    "columns with text": pandas.DataFrame({"a": [1.0], "b": ["2"]}),
    "records": np.rec.array([(1.0, 2.0)], dtype=[("a", float), ("b", float)]),
    "a set": {1.0, 2.0},
    "an iterator": iter([1.0, 2.0]),
    "values of a dict": {"a": 1.0, "b": 2.0}.values(),
    "iterators in a list": [iter([1.0]), iter([2.0])],
    "sparse rows in a list": [scipy.sparse.coo_array(np.ones(2))] * 2,
    **{
        f"{form}_{kind}": getattr(scipy.sparse, f"{form}_{kind}")(np.ones((2, 2)))
        for form in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
        for kind in ("array", "matrix")
    },
    "sparse, of one axis": scipy.sparse.coo_array(np.ones(2)),
}


@pytest.mark.parametrize("kind", REAL)
def test_real_numbers(kind):
    found = as_array("x", REAL[kind], (2,))
    assert found.dtype == np.float64
    assert as_result("f(x)", REAL[kind]).shape == (2,)


@pytest.mark.parametrize("kind", NOT_REAL)
def test_what_is_none_is_refused(kind):
    """NumPy would convert each of them, by digits, real parts, counts of seconds, or NaN."""
    with pytest.raises(TypeError, match="^x: expected an array of real numbers"):
        as_array("x", NOT_REAL[kind], (2,))
    with pytest.raises(TypeError, match=r"^f\(x\): expected an array of real numbers"):
        as_result("f(x)", NOT_REAL[kind])
    for argument, call in (
        ("q", lambda x: mb.gravity(ARM, x)),
        ("v", lambda x: mb.coriolis_matrix(ARM, REST[0], x)),
        ("q", SYSTEM.frame.matrix),
    ):
        with (
            warnings.catch_warnings(),
            pytest.raises(TypeError, match=rf"^{argument}: expected an array of real"),
        ):
            warnings.simplefilter("error")
            call(NOT_REAL[kind])


def test_what_dask_hides_or_raises_comes_through():
    """Its own conversion to an array forgets the mask, and its errors are about other things."""
    hidden = dask.array.from_array(np.ma.masked_array([1.0, 2.0], [True, False]))
    with pytest.raises(
        TypeError, match="^q0: expected an array of real numbers, got one with masked entries"
    ):
        cn.geodesic(NABLA, hidden, V, TIMES)
    with pytest.raises(NonFiniteError, match=r"^q\[0\] is nan"):
        as_array("x", mb.gravity(ARM, dask.array.full(6, np.nan)), (6,))


def test_what_refuses_to_convert_itself_says_why():
    reason = r"^x: expected an array of real numbers, got a Converted: Can't call numpy\(\) on Tensor"
    with pytest.raises(TypeError, match=reason):
        as_array("x", Converted(None), (2,))


def test_a_result_keeps_its_type_and_may_be_traced():
    assert as_result("f(x)", np.ones(2, np.float32)).dtype == np.float32
    assert jax.jit(lambda x: as_result("f(x)", [x, 1.0]))(2.0).tolist() == [2.0, 1.0]
    with pytest.raises(TypeError, match=r"^f\(x\)"):
        jax.jit(lambda x: as_result("f(x)", x * 1j))(2.0)


def complex_control(t, q, v):
    return np.full(len(v), 2.0 + 1.0j)


def complex_in_jax(t, q, v):
    return (2.0 + 1.0j) * v


def rates(**given):
    return control.contraction_rates(SYSTEM, **({"q": Q, "v": V} | given))


DOORS = {
    "a complex control": ("control", lambda: SYSTEM.simulate(Q, V, TIMES, complex_control)),
    "one in JAX": ("control", lambda: SYSTEM.simulate(Q, V, TIMES, complex_in_jax)),
    "of a robot": ("control", lambda: ARM.system().simulate(*REST, TIMES, complex_control)),
    "of one in JAX": ("control", lambda: ARM.system().simulate(*REST, TIMES, complex_in_jax)),
    "in variational steps": (
        "control",
        lambda: SYSTEM.simulate(Q, V, TIMES, complex_control, method="variational", step=0.1),
    ),
    "a complex acceleration": ("acceleration", lambda: cn.geodesic(NABLA, Q, V, TIMES, complex_in_jax)),
    "a complex metric": (
        "metric matrix",
        lambda: cn.MatrixMetric(PLANE, lambda q: jnp.eye(2) * (1.0 + 1.0j)).matrix(Q),
    ),
    "a complex field": (
        "X",
        lambda: NABLA.covariant_derivative(lambda q: 1j * q, lambda q: q, Q),
    ),
    "a complex curve": ("curve", lambda: cn.parallel_transport(NABLA, lambda t: 1j * Q, V, TIMES)),
    "a Coriolis matrix of text": ("coriolis", lambda: cn.connection_from_coriolis(SYSTEM.metric, "x")),
    "complex configurations": ("q", lambda: mb.variational_step(ARM, REST[0] + 0j, REST[1], 0.1)),
    "momenta of text": ("P", lambda: mb.variational_step(ARM, REST[0], np.full(6, "1"), 0.1)),
    "forces of dates": (
        "tau",
        lambda: mb.variational_step(ARM, *REST, 0.1, np.full(6, "2020", dtype="datetime64[D]")),
    ),
    "complex inertias": ("inertias", lambda: mb.RigidBodySystemMetric(np.eye(6)[None] * (1.0 + 0.0j))),
    "inertias of text": ("inertias", lambda: mb.RigidBodySystemMetric(np.full((1, 6, 6), "1"))),
    "a time of text": ("t", lambda: rates(t="abc")),
    "a robot's time of text": ("t", lambda: control.contraction_rates(ARM, *REST, t="abc")),
    "hidden velocities": ("v", lambda: rates(v=np.ma.masked_array(V, [True, False]))),
    "a tolerance of text": ("tol", lambda: NABLA.check_torsion_free(Q, tol="1e-9")),
    "complex forms": ("forms", lambda: mb.independent_forms(lambda q: jnp.ones((1, 2)) * 1j, Q)),
    "complex contact forces": (
        "force",
        lambda: control.PointContact("tool", friction=0.5).margin(np.ones(3) * 1j),
    ),
    "a gait of text": ("period", lambda: systems.Gait("g", [1.0], [1.0], [0.0], [0.0], "1.0")),
}


@pytest.mark.parametrize("name", DOORS)
def test_every_door_judges(name):
    argument, call = DOORS[name]
    with pytest.raises(TypeError, match=rf"^{argument}\b"):
        call()


def test_a_function_that_returns_text_is_named_by_its_argument():
    """JAX refuses it before we see the result."""

    def stiffness(q):
        return "stiff"

    with pytest.raises(TypeError, match=r"matrix\b.*: expected an array of real numbers, got text"):
        cn.MatrixMetric(PLANE, stiffness).matrix(Q)


def test_its_own_error_is_raised_once():
    def refuses(q):
        raise ValueError("of my own")

    with pytest.raises(ValueError, match="of my own") as caught:
        cn.MatrixMetric(PLANE, refuses).matrix(Q)
    assert caught.value.__context__ is None
