"""Every proposition of the theory as a check over a system, with two routes and a negative control each."""

from connections.verify.built_in import built_in_subjects
from connections.verify.nonholonomic_subjects import NonholonomicSubject, nonholonomic_subject
from connections.verify.rates import MotionRates, rates_along_a_motion
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
from connections.verify.row_groups import GROUPS, Group, GroupResult, by_group
from connections.verify.subjects import Bodies, Subject, subject
from connections.verify.subjects_from_files import subject_from_file
from connections.verify.subjects_from_objects import as_subject
from connections.verify.system_names import system_names, system_subject

__all__ = [
    "AnySubject",
    "Bodies",
    "FAILS",
    "GROUPS",
    "Group",
    "GroupResult",
    "HOLDS",
    "INCONCLUSIVE",
    "MotionRates",
    "NonholonomicSubject",
    "Row",
    "Subject",
    "applicable",
    "as_subject",
    "built_in_subjects",
    "by_group",
    "nonholonomic_subject",
    "rates_along_a_motion",
    "subject",
    "subject_from_file",
    "summary",
    "system_names",
    "system_subject",
    "verify_subject",
]

#: What rooms above import of this one besides its public names: file -> names.
_OFFERS = {
    "propositions": "CONTROL_FLOOR Proposition Sample catalogue",
    "python_files": "Wanted explained object_from_file",
    "report": "excluded_by_torsion measured",
    "robots": "robot_subject",
}
