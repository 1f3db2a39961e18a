"""Errors of control: gains, contacts, tasks, plants, and pairs (A, B) that no regulator stabilizes."""

from connections.control.contacts import ContactError
from connections.control.laws.gains import GainError
from connections.control.linear.reachability import StabilizabilityError
from connections.control.plants.mujoco import FallenError
from connections.control.whole_body.hierarchy import InfeasibleError
from connections.control.whole_body.task import TaskError

__all__ = [
    "ContactError",
    "FallenError",
    "GainError",
    "InfeasibleError",
    "StabilizabilityError",
    "TaskError",
]
