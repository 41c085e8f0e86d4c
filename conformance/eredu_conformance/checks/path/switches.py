"""Switches that may not move a token for one seed: lookahead, bounds, chunks, and asking again.

These hold for every rule whose randomness is addressed, because a proposal of an independent draft model is a
function of the history and its address alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from eredu_conformance.checks.check import Check, Needs
from eredu_conformance.checks.comparing import require_equal
from eredu_conformance.checks.finding import Observation
from eredu_conformance.checks.path.cases import DEPTH, PAIRS, RULES, addressing_rule, label, switched_trial
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.checks.trial import Trial
from eredu_conformance.protocol import Acceptance, Answer, Feature, Schedule


@dataclass(frozen=True, kw_only=True)
class Switch:
    """One thing that is changed while everything else stays.

    Attributes:
        name: What is changed.
        rule: The rule that says it may not matter; None takes the one that addresses the randomness in force.
        schedule: The schedule with the change.
        base: The schedule without.
        depth: `lookahead_depth` with the change.
        needs: What the subject must declare.
        settings: Settings that it must declare.
    """

    name: str
    rule: str | None = None
    schedule: Schedule = field(default_factory=Schedule)
    base: Schedule = field(default_factory=Schedule)
    depth: int | None = None
    needs: frozenset[Feature] = frozenset({Feature.SEEDS})
    settings: frozenset[str] = frozenset()


_LOOKAHEAD = frozenset({Feature.SEEDS, Feature.LOOKAHEAD})
_ON = Schedule(lookahead=True)
SWITCHES = (
    Switch(name="lookahead", schedule=_ON, needs=_LOOKAHEAD),
    Switch(name="short-branches", schedule=_ON, depth=2, needs=_LOOKAHEAD),
    Switch(name="long-branches", schedule=_ON, depth=6, needs=_LOOKAHEAD),
    Switch(
        name="adaptive-lookahead",
        rule="adaptive.planned-not-drawn",
        schedule=Schedule(lookahead=True, adaptive_lookahead=True, adaptive_window=1),
        needs=_LOOKAHEAD,
    ),
    Switch(
        name="one-in-flight",
        rule="scheduling.in-flight-bound",
        schedule=Schedule(max_in_flight=1),
        base=Schedule(max_in_flight=8),
        settings=frozenset({"max_in_flight"}),
    ),
    Switch(
        name="one-branch",
        rule="lookahead.bounded",
        schedule=Schedule(lookahead=True, max_branches=1),
        base=Schedule(lookahead=True, max_branches=8),
        needs=_LOOKAHEAD,
        settings=frozenset({"max_branches"}),
    ),
    Switch(
        name="submitted-alone",
        rule="scheduling.group-changes-nothing",
        schedule=Schedule(max_group=1),
        base=Schedule(max_group=8),
        settings=frozenset({"max_group"}),
    ),
    Switch(
        name="prefill-chunk",
        rule="scheduling.prefill-in-chunks",
        schedule=Schedule(prefill_chunk=2),
        settings=frozenset({"prefill_chunk"}),
    ),
    Switch(name="repeated", rule="randomness.stateless"),
)


def checks() -> Iterator[Check]:
    """One check for each pair, rule and switch."""
    for name, tier in PAIRS.items():
        for acceptance in RULES:
            for switch in SWITCHES:
                yield Check(
                    id=f"path.{switch.name}/{name}/{label(acceptance)}",
                    rule=switch.rule or addressing_rule(acceptance),
                    tier=tier,
                    about=f"Under {label(acceptance)} decoding, '{switch.name}' moves no token.",
                    needs=Needs(features=switch.needs, acceptance=acceptance, proposals=DEPTH, options=switch.settings),
                    run=partial(_run, name, acceptance, switch),
                )


def _run(name: str, acceptance: Acceptance | None, switch: Switch, session: SubjectSession, seed: int) -> Observation:
    changed = replace(_with_depth(switched_trial(name, acceptance, seed), switch.depth), schedule=switch.schedule)

    def due(trial: Trial) -> tuple[Answer, ...]:
        return session.answers(replace(_with_depth(trial, None), schedule=switch.base))

    compared = require_equal(session, changed, due, what=f"decoding with and without '{switch.name}'")
    return Observation(text=f"{compared} tokens equal")


def _with_depth(trial: Trial, depth: int | None) -> Trial:
    requests = tuple(replace(r, options=replace(r.options, lookahead_depth=depth)) for r in trial.requests)
    return replace(trial, requests=requests)
