"""Scripted experiments: what a planted fault shows to no check of the ordinary suite, each saying why.

They give the reference's parts coins, rows, drafters and failures that no run of a subject can ask for. Everything
else is judged once, by the checks.
"""

from eredu_conformance.oracles import drafters, groups, numbers, rounds
from eredu_conformance.oracles.experiment import Experiment, complaint_of

EXPERIMENTS: dict[str, Experiment] = {
    item.id: item for item in (*numbers.EXPERIMENTS, *drafters.EXPERIMENTS, *rounds.EXPERIMENTS, *groups.EXPERIMENTS)
}
"""Every experiment by id."""

__all__ = ["EXPERIMENTS", "Experiment", "complaint_of"]
