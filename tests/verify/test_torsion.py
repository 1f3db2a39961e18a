"""What is not asked of a connection with torsion: to be the Riemannian one."""

import jax.numpy as jnp
import numpy as np
import pytest
from cases import further

import connections as cn
from connections.verify import applicable, system_subject, verify_subject
from connections.verify.report import excluded_by_torsion
from connections.verify.subjects_from_objects import as_subject

METRIC = cn.MatrixMetric(
    cn.CoordinateFrame(3),
    lambda q: jnp.diag(jnp.stack([1.0 + q[1] ** 2, 2.0 + jnp.sin(q[0]), 1.0 + 0.3 * q[0] ** 2])),
)
FAMILY = cn.ContorsionFamily(METRIC)
RIEMANNIAN = {"Thm III.1", "Koszul", "(5)", "(8)", "(9)", "Prop V.3", "Remark 7", "(29)", "(30)", "(31)"}
RIEMANNIAN |= {"R symmetries", "Jacobi", "F damped", "F drift", "F shift"}


def subject_of(connection: cn.AffineConnection):
    return as_subject(cn.MechanicalSystem(METRIC, connection=connection), "member", samples=1)


def change(q):
    return jnp.eye(3) + 0.1 * jnp.outer(jnp.sin(q), jnp.ones(3))


@pytest.mark.further
@pytest.mark.parametrize("changed", [further(False), True])
def test_a_member_with_torsion_is_not_asked_to_have_none(changed: bool) -> None:
    member = FAMILY.connection([0.4])
    if changed:
        system = cn.MechanicalSystem(METRIC.change(change), connection=member.change(change))
        subject = as_subject(system, "member", samples=1)
    else:
        subject = subject_of(member)
    assert {item.key for item in excluded_by_torsion(subject)} == RIEMANNIAN
    rows = verify_subject(subject)
    assert not {row.key for row in rows} & RIEMANNIAN
    assert all(row.ok for row in rows), [row.reason for row in rows if not row.ok]


def test_everything_is_asked_of_what_claims_to_have_none() -> None:
    """beta = 0, the metric's own connection, and one with torsion that does not say so, which is wrong."""
    for connection in (FAMILY.connection([0.0]), cn.LeviCivita(METRIC)):
        assert {item.key for item in applicable(subject_of(connection))} >= RIEMANNIAN
    member = FAMILY.connection([0.4])
    silent = subject_of(cn.CoefficientConnection(METRIC.frame, member.coefficients_at))
    assert not silent.has_torsion
    koszul = next(item for item in applicable(silent) if item.key == "(8)")
    residual, scale = koszul.measure(silent, *_samples(silent), False)
    assert residual > 1e-2 * scale


def _samples(subject):
    from connections.verify.propositions import Sample

    return (Sample(np.asarray(subject.q[0]), np.asarray(subject.v[0]), np.asarray(subject.a[0])),)


def test_the_report_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    from connections.cli.printing import _print_left_out

    _print_left_out([], [subject_of(FAMILY.connection([0.4])), system_subject("sphere", samples=1)])
    printed = " ".join(capsys.readouterr().out.split())
    assert "Not applicable to member, which has torsion: Thm III.1, Koszul" in printed
