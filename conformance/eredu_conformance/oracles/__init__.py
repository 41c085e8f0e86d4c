"""Oracles: what judges an engine. None of them calls what it judges for the expected value."""

from eredu_conformance.oracles import path
from eredu_conformance.oracles.verdict import Judge, Verdict

ORACLES: dict[str, Judge] = {
    "path": path.judge,
}
"""Every oracle by name, the cheapest first."""

__all__ = ["ORACLES", "Judge", "Verdict"]
