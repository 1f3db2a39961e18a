"""Every proposition of the theory as a check over a system, with two routes and a negative control each."""

from connections.verify.nonholonomic_subjects import (
    NonholonomicSubject,
    nonholonomic_subject,
    system_subject,
)
from connections.verify.report import (
    FAILS,
    HOLDS,
    INCONCLUSIVE,
    AnySubject,
    Row,
    applicable,
    summary,
    verify_subject,
)
from connections.verify.subjects import Bodies, Subject, built_in_subjects, subject

__all__ = [
    "AnySubject",
    "Bodies",
    "FAILS",
    "HOLDS",
    "INCONCLUSIVE",
    "NonholonomicSubject",
    "Row",
    "Subject",
    "applicable",
    "built_in_subjects",
    "nonholonomic_subject",
    "subject",
    "summary",
    "system_subject",
    "verify_subject",
]
