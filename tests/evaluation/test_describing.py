"""What objects show of themselves: three lines of 80 columns at most, with what tells them apart."""

import ast
import html
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import connections as cn
from connections.checks import Check, html_table
from connections.control import ClosedLoop, PassivityController, trajectory_reference

FRAME = cn.CoordinateFrame(3)


def stretched(q, parameters):
    return parameters["m"] * jnp.diag(2.0 + jnp.sin(q))


METRIC = cn.MatrixMetric(FRAME, stretched, {"m": 2.0})
FAMILY = cn.ContorsionFamily(METRIC)
SYSTEM = cn.MechanicalSystem(METRIC, potential=lambda q: q[0], connection=FAMILY.connection([1.0]))
REFERENCE = trajectory_reference(FRAME, lambda t: jnp.sin(t + jnp.arange(3.0)), 2.0)
LOOP = ClosedLoop(SYSTEM, PassivityController(SYSTEM, 5.0), REFERENCE)


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (METRIC, ["MatrixMetric, n = 3", "CoordinateFrame(dim=3)", "matrix: stretched with parameters"]),
        (cn.ConstantMetric(FRAME, np.eye(3)), ["H: array (3, 3)"]),
        (cn.LeviCivita(METRIC), ["LeviCivita", "metric: MatrixMetric"]),
        (FAMILY, ["ContorsionFamily", "MatrixMetric"]),
        (FAMILY.connection([1.0]), ["ContorsionConnection", "symmetry: admissible"]),
        (SYSTEM, ["MechanicalSystem", "potential: a lambda", "connection: ContorsionConnection"]),
        (LOOP, ["ClosedLoop", "controller: PassivityController"]),
        (cn.ConstantMetric(cn.SO3Frame(), np.eye(3)), ["in 4 coordinates", "SO3Frame"]),
    ],
    ids=lambda part: type(part).__name__ if not isinstance(part, list) else "",
)
def test_three_lines(thing, words):
    describes(thing, words)


def test_three_lines_of_a_motion():
    motion = LOOP.simulate(np.zeros(3), np.zeros(3), np.linspace(0.0, 0.1, 3))
    describes(motion, ["ClosedLoopMotion, n = 3, 3 times from 0 s to 0.1 s", "|tau|", "lyapunov"])


def describes(thing, words):
    lines = repr(thing).splitlines()
    assert len(lines) <= 3 and all(len(line) <= 80 for line in lines)
    assert all(word in repr(thing) for word in words)


def test_traced():
    """What JAX traces can be printed, too."""
    shown = []
    jax.jit(lambda metric: shown.append(repr(metric)))(cn.ConstantMetric(FRAME, 2.0 * np.eye(3)))
    assert shown == ["ConstantMetric, n = 3\n  frame: CoordinateFrame(dim=3)\n  H: traced (3, 3)"]


# --- tables in a notebook ----------------------------------------------------------------------------------


def cells(thing):
    """The cells of the table that a notebook shows, as a browser does."""
    found = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", thing._repr_html_(), re.DOTALL)
    assert all("<" not in cell for cell in found)
    return [html.unescape(cell) for cell in found]


def test_a_table_shows_the_numbers_that_are_held():
    H = np.array([[2.0, 0.5, 0.0], [0.5, 3.0, 0.25], [0.0, 0.25, 4.0]])
    shown = dict(zip(*[iter(cells(cn.ConstantMetric(FRAME, H)))] * 2, strict=True))
    assert shown["frame"] == "CoordinateFrame(dim=3)"
    np.testing.assert_array_equal(np.array(ast.literal_eval(shown["H"])), H)
    assert "array (7, 7)" in cells(cn.ConstantMetric(cn.CoordinateFrame(7), np.eye(7)))


def test_a_family_shows_its_triples():
    family = cn.ContorsionFamily(cn.ConstantMetric(cn.CoordinateFrame(4), np.eye(4)))
    assert str(family.triples) in cells(family) and "4" in cells(family)
    assert "ContorsionFamily, n = 4" in family._repr_html_()


@pytest.mark.parametrize(("residual", "verdict"), [(1e-12, "holds"), (1e-3, "fails"), (np.nan, "fails")])
def test_a_check_shows_its_verdict_and_its_numbers(residual, verdict):
    check = Check("torsion < 0", residual, 2.0, 1e-9)
    shown = dict(zip(*[iter(cells(check))] * 2, strict=True))
    assert f"<b>torsion &lt; 0: {verdict}</b>" in check._repr_html_()
    found = [float(shown[name]) for name in ("residual", "scale", "relative", "tol")]
    np.testing.assert_allclose(found, [residual, 2.0, residual / 2.0, 1e-9])


def test_texts_are_escaped():
    assert "&lt;lambda&gt;" in html_table("t", [("f", "<lambda>")])
    assert "<lambda>" not in html_table("<lambda>", [("f", "<lambda>")], ("<lambda>",), ("<lambda>",))
    field = cn.MatrixFrame(lambda q: jnp.eye(3), 3, 3)
    assert "<lambda>" not in field._repr_html_()


@pytest.mark.parametrize("thing", [FRAME, METRIC, FAMILY, SYSTEM, LOOP, cn.LeviCivita(METRIC), cn.SO3Frame()])
def test_everything_has_a_table(thing):
    assert thing._repr_html_().count("<table>") == 1 and type(thing).__name__ in thing._repr_html_()
    if thing not in (FRAME, cn.SO3Frame()):
        assert "frame" in cells(thing)
