"""The reference engine, right and with planted faults, as a subject of eredu's statistical evidence."""

from eredu_conformance.subjects.evidence.designs import DESIGNS, UNSEEN, PowerDesign
from eredu_conformance.subjects.evidence.power import PowerRow, measure, power_table
from eredu_conformance.subjects.evidence.table_subject import TableSubject

__all__ = ["DESIGNS", "UNSEEN", "PowerDesign", "PowerRow", "TableSubject", "measure", "power_table"]
