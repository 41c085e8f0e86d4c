"""Planted faults: the reference engine, wrong in one place at a time, and the check that must notice."""

from eredu_conformance.faults.catalogue import FAULTS, fault_named
from eredu_conformance.faults.elsewhere import ELSEWHERE, Elsewhere
from eredu_conformance.faults.fault import Fault

__all__ = [
    "ELSEWHERE",
    "FAULTS",
    "Elsewhere",
    "Fault",
    "fault_named",
]
