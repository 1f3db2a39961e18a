"""Every proposition of the theory as a check over a system, with two routes and a negative control each."""

from connections.verify.report import Row, applicable, summary, verify_subject
from connections.verify.subjects import Bodies, Subject, built_in_subjects, subject

__all__ = [
    "Bodies",
    "Row",
    "Subject",
    "applicable",
    "built_in_subjects",
    "subject",
    "summary",
    "verify_subject",
]
