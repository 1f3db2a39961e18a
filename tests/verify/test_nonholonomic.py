"""The propositions on constraints: they hold, controls fail, broken connections are caught; --system."""

import json
from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest
from cases import always

import connections as cn
from connections import cli, verify
from connections.checks import Check
from connections.verify import applicable, nonholonomic_subject, system_subject, verify_subject
from connections.verify.propositions import CONTROL_FLOOR, NONHOLONOMIC_ORDER, Sample, catalogue


def body_axes(q):
    """The frame of the body's own axes, and the turn about its origin; qdot != v."""
    c, s, zero = jnp.cos(q[2]), jnp.sin(q[2]), 0.0 * q[2]
    return jnp.stack([jnp.stack([c, -s, zero]), jnp.stack([s, c, zero]), jnp.stack([zero, zero, 1.0 + zero])])


def motion_of_the_plane(q, g):
    c, s = jnp.cos(g[2]), jnp.sin(g[2])
    return jnp.stack([c * q[0] - s * q[1] + g[0], s * q[0] + c * q[1] + g[1], q[2] + g[2]])


def wheel(q):
    """It stands across the body's axes, ahead of its origin: an oblique basis, and components P [X, Y]."""
    return jnp.array([[-0.4, 1.0, 0.3]])


@cache
def sleigh():
    """A body on a slope with a wheel: n = 3, m = 2, p = 1, s != 0, oblique basis, forms, potential, input."""
    metric = cn.ConstantMetric(
        cn.MatrixFrame(body_axes, 3, 3), np.array([[1.3, 0, 0.2], [0, 1.3, 0.3], [0.2, 0.3, 0.6]])
    )
    nabla = cn.ConstrainedConnection(
        metric, lambda q: jnp.array([[1.0, 0.2], [0.4, -0.22], [0.0, 1.0]]), forms=wheel
    )
    system = cn.NonholonomicSystem(
        nabla,
        potential=lambda q: 2.0 * q[0] - jnp.sin(q[1]),
        forces=lambda t, q, v: -0.3 * jnp.stack([v[0], 0.0 * v[0], v[1]]),
        inputs=lambda q: jnp.array([[1.0, 0.0, 0.5]]),
    )
    rng = np.random.default_rng(4)
    action = cn.GroupAction(motion_of_the_plane, motion_of_the_plane, np.zeros(3))
    return nonholonomic_subject("sleigh", system, rng.normal(size=(1, 3)), rng, action=action)


@cache
def rows():
    return {row.key: row for row in verify_subject(sleigh())}


def measured(key, wrong=False):
    subject = sleigh()
    item = next(entry for entry in catalogue(verify.NonholonomicSubject) if entry.key == key)
    sample = Sample(subject.q[0], subject.v[0], subject.a[0])
    return Check(key, *item.measure(subject, sample, wrong), 1e-9)


@pytest.mark.parametrize("key", NONHOLONOMIC_ORDER)
def test_proposition_holds_and_its_control_fails(key):
    found = rows()[key]
    assert found.check.ok, found.check
    assert found.control.relative >= CONTROL_FLOOR, found.control


def test_catalogue_is_complete_and_keeps_to_its_subjects():
    keys = [item.key for item in catalogue(verify.NonholonomicSubject)]
    assert keys == list(NONHOLONOMIC_ORDER) == [item.key for item in applicable(sleigh())]
    assert not set(keys) & {item.key for item in catalogue()}


#: What is broken -> rows that must notice, and rows that hold all the same.
USES_COEFFICIENTS = {"Z (7)", "Z Thm 3.2", "Z Lemma 3.3", "Z Koszul"}
CAUGHT = {
    "metric": (USES_COEFFICIENTS | {"Z metric", "Z transport"}, {"Z torsion", "Z (5)"}),
    "torsion": (USES_COEFFICIENTS | {"Z torsion"}, {"Z metric", "Z transport", "Z energy"}),
    "full": ({"Z (6)", "Z Lemma 3.1", "Z full torsion", "Z full metric"}, {"Z (7)", "Z curvature"}),
}


def disturbance(kind):
    """What is added to the coefficients, (m, m, m), or (n, n, n) for those of the full connection."""
    D = np.random.default_rng(6).normal(size=(3, 3, 3))
    if kind == "full":
        return D
    D = D[:2, :2, :2]
    if kind == "metric":  # symmetric in the last two indices: no torsion
        return D + np.swapaxes(D, 1, 2)
    H = np.asarray(sleigh().nabla.metric.matrix(sleigh().q[0]))  # constant in this frame
    lowered = D - np.transpose(D, (2, 1, 0))  # antisymmetric in the first and the last: metric compatible
    return np.einsum("il,ljk->ijk", np.linalg.inv(H), lowered)


@pytest.mark.parametrize("kind", CAUGHT)
def test_a_broken_connection_is_caught_by_the_rows_that_should_catch_it(kind, monkeypatch):
    (failing, holding), D = CAUGHT[kind], disturbance(kind)
    broken = cn.affine.FullConnection if kind == "full" else cn.ConstrainedConnection
    right = broken.coefficients
    monkeypatch.setattr(broken, "coefficients", lambda self, q: right(self, q) + D)
    found = {key: measured(key) for key in failing | holding}
    assert {key for key, check in found.items() if check.relative > 1e-4} == failing
    assert all(found[key].ok for key in holding), {key: found[key].relative for key in holding}


def test_what_has_no_constraints_is_no_subject():
    free = cn.ConstrainedConnection(cn.ConstantMetric(cn.CoordinateFrame(2), np.eye(2)), lambda q: jnp.eye(2))
    with pytest.raises(ValueError, match="there are no constraints"):
        nonholonomic_subject("free", free, np.zeros((1, 2)), np.random.default_rng(0))


def test_samples_are_rows():
    with pytest.raises(cn.checks.ShapeError, match=r"q: expected shape \(samples, 3\)"):
        nonholonomic_subject("sleigh", sleigh().system, np.zeros(3), np.random.default_rng(0))


def test_with_one_field_there_is_no_torsion_to_check():
    line = cn.ConstrainedConnection(
        cn.ConstantMetric(cn.CoordinateFrame(2), np.eye(2)), lambda q: jnp.ones((2, 1))
    )
    subject = nonholonomic_subject("line", line, np.zeros((1, 2)), np.random.default_rng(0))
    assert set(NONHOLONOMIC_ORDER) - {item.key for item in applicable(subject)} == {
        "Z Lemma 3.3", "Z torsion", "Z full torsion", "Z curvature", "Z Schouten",
    }  # fmt: skip


def nearly_flat(change):
    """A metric of which a part of 1e-6 changes, and a constant form; one sample."""

    def matrix(q):
        return jnp.diag(jnp.array([1.3, 1.1, 0.6])) * (1.0 + change * jnp.sin(q[0] + 2.0 * q[1] - q[2]))

    metric = cn.MatrixMetric(cn.CoordinateFrame(3), matrix)
    nabla = cn.ConstrainedConnection(metric, forms=lambda q: jnp.array([[-0.4, 1.0, 0.3]]))
    rng = np.random.default_rng(4)
    return nonholonomic_subject("nearly flat", cn.NonholonomicSystem(nabla), rng.normal(size=(1, 3)), rng)


OF_FLAT = ["Z (6)", "Z torsion", "Z full torsion"]


@pytest.mark.parametrize("key", always(OF_FLAT, "Z (6)"))
def test_a_metric_that_hardly_changes_is_not_called_wrong(key, monkeypatch):
    """What differences leave of H is round-off of H, not of its slope; a wrong connection is still caught."""
    item = next(entry for entry in catalogue(verify.NonholonomicSubject) if entry.key == key)
    subject = nearly_flat(1e-6)
    sample = Sample(subject.q[0], subject.v[0], subject.a[0])
    residual, scale = item.measure(subject, sample, False)
    assert residual < 1e-10 * scale
    for kind in (cn.affine.FullConnection, cn.ConstrainedConnection):
        n = 3 if kind is cn.affine.FullConnection else 2
        D = 1e-6 * np.arange(1.0, n**3 + 1).reshape(n, n, n)
        disturbed = lambda self, q, right=kind.coefficients, D=D: right(self, q) + D  # noqa: E731
        monkeypatch.setattr(kind, "coefficients", disturbed)
    residual, scale = item.measure(nearly_flat(1e-6), sample, False)
    assert residual > 1e-8 * scale


# --- the command line ------------------------------------------------------------------------------------


def test_a_wrong_name_is_refused_with_the_names_there_are(capsys):
    assert cli.main(["verify", "--system", "skateboard"]) == 2
    message = capsys.readouterr().err
    assert "no system 'skateboard'" in message
    assert "roller-racer" in message and "snakeboard" in message


def test_a_robot_and_a_system_are_one_too_many(capsys):
    assert cli.main(["verify", "robot.urdf", "--system", "snakeboard"]) == 2
    assert "not both" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["Roller_racer", "planar-body"])
def test_named_systems_are_subjects(name):
    subject = system_subject(name, samples=3)
    assert subject.name == name.lower().replace("_", "-") and subject.q.shape[0] == 3
    assert isinstance(subject, verify.Subject if name == "planar-body" else verify.NonholonomicSubject)


def test_the_report_of_a_system(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(verify, "system_subject", lambda name, samples, seed: sleigh())
    monkeypatch.setattr(verify, "verify_subject", lambda *_: list(rows().values()))
    report = tmp_path / "report.json"
    assert cli.main(["verify", "--system", "chaplygin-sleigh", "--controls", "--json", str(report)]) == 0
    printed = capsys.readouterr().out
    assert f"{len(NONHOLONOMIC_ORDER)} of {len(NONHOLONOMIC_ORDER)} checks hold" in printed
    assert "Left out" not in printed
    assert [row["proposition"] for row in json.loads(report.read_text())["rows"]] == list(NONHOLONOMIC_ORDER)
