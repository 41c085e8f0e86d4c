"""Planted faults: the reference engine, wrong in one place at a time, and the oracle that must notice."""

from eredu_conformance.faults.catalogue import FAULTS, fault_named
from eredu_conformance.faults.elsewhere import ELSEWHERE, Elsewhere
from eredu_conformance.faults.fault import Fault
from eredu_conformance.faults.matrix import KILL_SEEDS, SURVEY_SEEDS, KillRow, false_alarms, kill_matrix, kill_row

__all__ = [
    "ELSEWHERE",
    "FAULTS",
    "KILL_SEEDS",
    "SURVEY_SEEDS",
    "Elsewhere",
    "Fault",
    "KillRow",
    "false_alarms",
    "fault_named",
    "kill_matrix",
    "kill_row",
]
