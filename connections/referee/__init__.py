"""The referee: any library's dynamics as black boxes, in its own layout, and against a corpus of robots."""

from connections.referee.audit import audit_functions, audit_robot
from connections.referee.black_boxes import BlackBoxError
from connections.referee.corpus_robots import CORPUS, CorpusRobot, candidates, robot, robots
from connections.referee.detection import LayoutRow, LayoutSearch, detect_layout
from connections.referee.filters import BlackBoxFilter, FilterState, audit_filter
from connections.referee.layouts import Layout, LayoutFrame, euler, fixed, floating, planar
from connections.referee.report import INFORMATIVE, RefereeReport, Row

__all__ = [
    "CORPUS",
    "INFORMATIVE",
    "BlackBoxError",
    "BlackBoxFilter",
    "CorpusRobot",
    "FilterState",
    "Layout",
    "LayoutFrame",
    "LayoutRow",
    "LayoutSearch",
    "RefereeReport",
    "Row",
    "audit_filter",
    "audit_functions",
    "audit_robot",
    "candidates",
    "detect_layout",
    "euler",
    "fixed",
    "floating",
    "planar",
    "robot",
    "robots",
]

#: What rooms above import of this one besides its public names: file -> names.
_OFFERS = {
    "other_python": "audits_of",
}
