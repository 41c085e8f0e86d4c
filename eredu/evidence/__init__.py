"""Statistical evidence that emitted tokens have the target's law, valid whenever one stops. Portable: numpy alone."""

from eredu.evidence.emission import Block, Columns, Emission, Stratum, check_columns, columns_of, strata_of
from eredu.evidence.portfolio import Portfolio, Stake, portfolio
from eredu.evidence.process import Crossing, Evidence, Step, Terms, design_of
from eredu.evidence.resolution import Design, needed_divergence
from eredu.evidence.tally import StratumTally, Tally, add_up

__all__ = [
    "Block",
    "Columns",
    "Crossing",
    "Design",
    "Emission",
    "Evidence",
    "Portfolio",
    "Stake",
    "Step",
    "Stratum",
    "StratumTally",
    "Tally",
    "Terms",
    "add_up",
    "check_columns",
    "columns_of",
    "design_of",
    "needed_divergence",
    "portfolio",
    "strata_of",
]
