"""The catalogue as a whole: ids, rules, budgets of error, and how a kind plugs in."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from eredu_conformance.checks.check import Check, Kind, Needs, Tier
from eredu_conformance.checks.finding import Observation
from eredu_conformance.checks.law.sampled import ALPHA, CHECKS_MAX
from eredu_conformance.checks.registry import all_checks, check_named
from eredu_conformance.protocol import Acceptance, Capabilities, Feature
from eredu_spec.rules import rules


def test_every_check_is_about_a_rule_of_the_spec() -> None:
    assert {check.rule for check in all_checks()} <= rules().keys()


def test_every_kind_of_this_folder_is_found() -> None:
    kinds = {check.kind for check in all_checks()}
    assert {Kind.PATH, Kind.LAW, Kind.STATE} <= kinds


def test_ids_are_unique_and_found_by_name() -> None:
    ids = [check.id for check in all_checks()]
    assert len(set(ids)) == len(ids)
    assert check_named(ids[-1]).id == ids[-1]
    with pytest.raises(KeyError, match="--list"):
        check_named("path.nothing")


def test_a_whole_run_accuses_a_right_engine_less_than_once_in_a_million() -> None:
    sampled = [check for check in all_checks() if check.id.startswith("law.joint")]
    for rules_of_one_engine in itertools.combinations(Acceptance, 3):
        asked = [check for check in sampled if check.needs.acceptance in rules_of_one_engine]
        assert len(asked) <= CHECKS_MAX
    assert pytest.approx(1e-6) == ALPHA * CHECKS_MAX


def test_tiers_contain_each_other() -> None:
    assert [Tier.NIGHTLY.includes(tier) for tier in Tier] == [True, True, True]
    assert [Tier.QUICK.includes(tier) for tier in Tier] == [True, False, False]


def test_an_id_names_its_kind() -> None:
    def nothing(*_: object) -> Observation:
        return Observation(text="")

    with pytest.raises(ValueError, match="of no kind"):
        Check(id="paths.x", rule="draft.clip", about="", run=nothing)


_FULL = Capabilities(
    name="full",
    version="1",
    features=frozenset(Feature),
    options=frozenset({"top_k", "grammar"}),
    acceptance=(Acceptance.BLOCK,),
    max_proposals=3,
    max_batch=2,
    own_semantics={"top_k": "k ids on ties"},
)


@pytest.mark.parametrize(
    ("needs", "why"),
    [
        (Needs(engines=frozenset({"eredu"})), "about eredu"),
        (Needs(options=frozenset({"min_p"})), "no min_p"),
        (Needs(options=frozenset({"top_k"}), protocol_semantics=True), "its own top_k"),
        (Needs(acceptance=Acceptance.COUPLED), "coupled"),
        (Needs(proposals=4), "up to 3"),
        (Needs(batch=3), "takes 2 requests"),
    ],
)
def test_needs_say_what_is_missing(needs: Needs, why: str) -> None:
    assert why in (needs.obstacle(_FULL) or "")


def test_needs_that_are_met() -> None:
    needs = Needs(features=frozenset(Feature), options=frozenset({"top_k"}), acceptance=Acceptance.BLOCK, proposals=3)
    assert needs.obstacle(_FULL) is None
    lacking = dataclasses.replace(_FULL, features=frozenset())
    assert "declares no cancellation" in (needs.obstacle(lacking) or "")
