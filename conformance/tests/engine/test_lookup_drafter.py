"""Suffix lookup: the plain tokens under every switch, what it finds, and that it never proposes against a grammar."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from eredu.contract.capability import MtpCapability, MtpCheckpointKind
from eredu.contract.errors import ConstraintError
from eredu.contract.executor import CommitPlan
from eredu.contract.options import MtpSchedulerOptions
from eredu.drafters.draft_block import MlxBlock
from eredu.drafters.lookup import LookupDrafter, LookupState
from eredu.drafters.target_view import TargetView
from eredu.engine.mlx_backend import Lookup, MlxBackend
from eredu.engine.sequence import MlxSequence
from eredu.mlx.placement import Placement
from eredu.results import GenerationResult
from eredu_conformance.harness.tiny_models import TinyDecoder

Decode = Callable[..., GenerationResult]
PROMPT = (1, 2, 3, 4, 1, 2, 3, 5, 1, 2)
RULES: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "coupled": {"temperature": 0.1, "acceptance": "coupled"},
    "greedy, penalties": {"temperature": 0.0, "repetition_penalty": 1.1, "frequency_penalty": 0.1},
    "coupled, penalties": {"temperature": 0.1, "acceptance": "coupled", "repetition_penalty": 1.1},
}
SCHEDULES = (
    MtpSchedulerOptions(lookahead=False),
    MtpSchedulerOptions(adaptive_lookahead=False, prefill_chunk=3),
    MtpSchedulerOptions(adaptive_window=2),
)


class OneResidue:
    """Tokens of another residue modulo 5 each time, then an end."""

    def __init__(self, left: int, residue: int = 0) -> None:
        self.left, self.residue = left, residue

    @property
    def complete(self) -> bool:
        return self.left == 0

    def mask(self) -> NDArray[np.bool_]:
        return np.asarray(np.arange(40) % 5 == self.residue)

    def advance(self, token: int) -> OneResidue:
        if token % 5 != self.residue:
            raise ConstraintError(f"{token} was proposed where the residue {self.residue} is due")
        return OneResidue(self.left - 1, (self.residue + 2) % 5)


# rule: verify.greedy-argmax, verify.coupled-shared-vector, draft.from-frontier, promotion.top-up
@pytest.mark.parametrize("rule", RULES)
def test_tokens_are_the_plain_ones_whatever_the_switches(llama: Any, decode: Decode, rule: str) -> None:
    settings = {"prompt": PROMPT, "max_tokens": 80, **RULES[rule]}
    plain = decode(llama, plain=True, **settings)
    accepted = rejected = promoted = 0
    for count in (1, 4, 7):
        for schedule in SCHEDULES:
            result = decode((llama[0], Lookup()), max_proposals=count, schedule=schedule, **settings)
            assert result.tokens == plain.tokens
            result.statistics.check()
            accepted += result.statistics.accepted
            rejected += result.statistics.rejected
            promoted += result.statistics.lookahead_promoted
    assert rejected > 0
    if "penalties" not in rule:
        assert accepted > 20
        assert promoted > 0


# rule: constraints.mask-on-every-row, constraints.drafting-stops-at-completion
@pytest.mark.parametrize("rule", ["greedy", "coupled", "rejection", "block"])
def test_proposals_obey_the_grammar(llama: Any, decode: Decode, rule: str) -> None:
    settings = RULES.get(rule, {"temperature": 0.1, "acceptance": rule})
    for length in (1, 6, 23):
        outputs = set()
        for schedule in SCHEDULES:
            result = decode(
                (llama[0], Lookup()), prompt=PROMPT, constraint=OneResidue(length), schedule=schedule, **settings
            )
            assert [token % 5 for token in result.tokens] == [2 * place % 5 for place in range(length)]
            result.statistics.check()
            outputs.add(result.tokens)
        assert len(outputs) == 1
        if rule in RULES:
            assert outputs == {
                decode(llama, plain=True, prompt=PROMPT, constraint=OneResidue(length), **settings).tokens
            }


@pytest.mark.parametrize(
    ("tokens", "count", "proposed"),
    [
        ([1, 2, 3, 1, 2], 4, [3, 1, 2, 3]),
        ([1, 2, 7, 3, 2, 8, 1, 2], 1, [7]),
        ([3, 2, 7, 3, 2, 8, 3, 2], 1, [8]),
        ([4], 2, [4, 4]),
        ([5, 6], 3, [6, 6, 6]),
    ],
    ids=["goes on", "longest", "latest of equals", "nothing yet", "nothing alike"],
)
def test_what_is_proposed(make_request: Callable[..., Any], tokens: list[int], count: int, proposed: list[int]) -> None:
    drafter, state, view = LookupDrafter(40), LookupState(), TargetView()
    history = MlxSequence(make_request(0, prompt=tuple(tokens)), tokens, None, state)  # type: ignore[arg-type]
    block = MlxBlock(0)
    drafter.propose(state, history, block, count, view)
    assert [token.item() for token in block.tokens] == proposed
    branch = block.branch()
    drafter.branch(state, history, branch, 2, view)
    whole = MlxBlock(0)
    drafter.propose(state, history, whole, count + 2, view)
    assert [token.item() for token in branch.pending] == [token.item() for token in whole.tokens]


# rule: rollback.drafter-follows
def test_nothing_but_committed_tokens_is_remembered(make_request: Callable[..., Any]) -> None:
    drafter, view = LookupDrafter(40), TargetView()
    request = make_request(0, prompt=PROMPT)
    history = MlxSequence(request, list(PROMPT), None, drafter.open(request))  # type: ignore[arg-type]
    drafter.prefill(history.drafter, history, range(4), view)
    assert history.drafter.indexed == 4
    for tokens in ((3, 4), (), (9, 9, 9)):
        block = MlxBlock(history.position)
        drafter.propose(history.drafter, history, block, 5, view)
        history.tokens.extend(tokens)
        drafter.settle(history.drafter, history, CommitPlan(kept=len(tokens), tokens=tokens), view)
        drafter.propose(history.drafter, history, MlxBlock(history.position), 1, view)
        fresh = LookupState()
        fresh.extend(history.tokens)
        assert history.drafter == fresh


def test_a_proposal_s_distribution_is_a_point(make_request: Callable[..., Any]) -> None:
    drafter, state = LookupDrafter(40), LookupState()
    request = make_request(0, prompt=PROMPT, temperature=1.0)
    history = MlxSequence(request, list(PROMPT), None, state)  # type: ignore[arg-type]
    block = MlxBlock(0)
    drafter.propose(state, history, block, 3, TargetView())
    for token, scores in zip(block.tokens, block.scores, strict=True):
        row = np.array(mx.softmax(scores, axis=-1))[0]
        assert np.flatnonzero(row).tolist() == [token.item()]
        assert row.sum() == 1


def test_any_target_that_rolls_back_can_be_decoded_by_lookup(load: Callable[..., Any], llama: Any) -> None:
    windowed = load(replace(TinyDecoder(vocabulary=40, layers=2, seed=9), window=8))
    for target in (llama[0], windowed):
        backend = MlxBackend(target, Placement.choose())
        assert backend.mtp_capability(Lookup()) == MtpCapability.ready(MtpCheckpointKind.NONE)
