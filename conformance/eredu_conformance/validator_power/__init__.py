"""How well the validator judges: its power on planted faults, its calibration on right engines."""

from eredu_conformance.validator_power.designs import DESIGNS, UNSEEN, PowerDesign
from eredu_conformance.validator_power.power import PowerRow, measure, power_table
from eredu_conformance.validator_power.table_subject import TableSubject

__all__ = ["DESIGNS", "UNSEEN", "PowerDesign", "PowerRow", "TableSubject", "measure", "power_table"]
