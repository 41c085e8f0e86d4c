"""Oracles: what judges an engine. None of them calls what it judges for the expected value."""

from eredu_conformance.oracles import address, groups, law, path, scripted, state, trace
from eredu_conformance.oracles.verdict import Judge, Verdict

ORACLES: dict[str, Judge] = {
    "scripted": scripted.judge,
    "trace": trace.judge,
    "state": state.judge,
    "address": address.judge,
    "path": path.judge,
    "groups": groups.judge,
    "law": law.judge,
}
"""Every oracle by name, the cheapest first."""

__all__ = ["ORACLES", "Judge", "Verdict"]
