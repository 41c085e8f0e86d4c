"""Statistical evidence that emitted tokens have the target's law, valid whenever one stops.

Portable: numpy and the standard library. It reads rows and tokens and runs no model.
"""

from eredu_validation.evidence.columns import Columns, check_columns, columns_of
from eredu_validation.evidence.diagnostics import Diagnostic, diagnose, holm
from eredu_validation.evidence.emission import Emission, Round, Stratum, strata_of
from eredu_validation.evidence.ledger import LEDGER_NAME, Ledger
from eredu_validation.evidence.ledger_content import Header, LedgerContent, read_ledger
from eredu_validation.evidence.merging import Merged, merge
from eredu_validation.evidence.portfolio import Portfolio, Stake, portfolio
from eredu_validation.evidence.process import Crossing, Evidence, Increment, Terms, design_of, log_e_of
from eredu_validation.evidence.resolution import Design, needed_divergence
from eredu_validation.evidence.result import result_of_merged, result_of_run, result_schema
from eredu_validation.evidence.subject_identity import SubjectIdentity
from eredu_validation.evidence.tally import StratumTally, Tally, add_up
from eredu_validation.evidence.transforms import Order
from eredu_validation.evidence.verdict import BestBet, Conclusion, Verdict, judge

__all__ = [
    "LEDGER_NAME",
    "BestBet",
    "Columns",
    "Conclusion",
    "Crossing",
    "Design",
    "Diagnostic",
    "Emission",
    "Evidence",
    "Header",
    "Increment",
    "Ledger",
    "LedgerContent",
    "Merged",
    "Order",
    "Portfolio",
    "Round",
    "Stake",
    "Stratum",
    "StratumTally",
    "SubjectIdentity",
    "Tally",
    "Terms",
    "Verdict",
    "add_up",
    "check_columns",
    "columns_of",
    "design_of",
    "diagnose",
    "holm",
    "judge",
    "log_e_of",
    "merge",
    "needed_divergence",
    "portfolio",
    "read_ledger",
    "result_of_merged",
    "result_of_run",
    "result_schema",
    "strata_of",
]
