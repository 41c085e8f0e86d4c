"""Which checks a plan takes."""

from __future__ import annotations

import pytest

from eredu_conformance.checks.check import Kind, Tier
from eredu_conformance.checks.registry import all_checks
from eredu_conformance.protocol import ConformanceError
from eredu_conformance.runner import Plan
from eredu_conformance.zoo import MEMBERS


def test_tiers_grow() -> None:
    sizes = [len(Plan(tier=tier).select()) for tier in Tier]
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == sum(check.family is None for check in all_checks())


def test_kinds_rules_and_patterns_narrow() -> None:
    chosen = Plan(tier=Tier.NIGHTLY, kinds=(Kind.PATH,), rules=("terminal.*",), checks=("*/cycle/*",)).select()
    assert chosen
    assert all(c.kind is Kind.PATH and c.rule.startswith("terminal.") and "/cycle/" in c.id for c in chosen)


def test_an_id_in_full_is_taken_whatever_the_tier() -> None:
    nightly = next(check for check in all_checks() if check.tier is Tier.NIGHTLY)
    assert Plan(tier=Tier.QUICK, checks=(nightly.id,)).select() == (nightly,)


def test_families_are_asked_for_by_name_and_bring_nothing_else() -> None:
    chosen = Plan(tier=Tier.QUICK, families=("qwen3.5", "llama")).select()
    assert {check.family for check in chosen} == {"qwen3.5", "llama"}
    assert {check.kind for check in chosen} == {Kind.FAMILY}
    everything = Plan(families=("*",)).select()
    assert everything == tuple(check for check in all_checks() if check.family is not None)
    assert {check.family for check in everything} == set(MEMBERS)
    with pytest.raises(ConformanceError, match="no check is chosen"):
        Plan(kinds=(Kind.FAMILY,)).select()


def test_an_empty_choice_is_an_error() -> None:
    with pytest.raises(ConformanceError, match="no check is chosen"):
        Plan(rules=("terminal.unheard-of",)).select()
