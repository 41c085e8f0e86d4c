"""For each fault of the law, what is asked of the checkpoint so that the fault acts as it does on tables.

Most are asked for chats of up to 64 tokens in blocks of 3 at temperature 1. Faults that move the law of a whole
vocabulary by far less than 1 % of a token are asked for the same few tokens of one chat again and again, out of the
likeliest ids: the checkpoint is a small table then, and its rows are remembered. As with the tables of such faults,
chat and settings were chosen for a large deviation by computing it (by enumeration, as the exact law oracle does).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from eredu_conformance.faults import fault_named
from eredu_conformance.validator_power.checkpoint_subject import Checkpoint, CheckpointSubject
from eredu_conformance.validator_power.designs import DESIGNS, LONG
from eredu_conformance.validator_power.power import RACE
from eredu_conformance.validator_power.table_subject import OFF
from eredu_reference import AcceptanceRule, Pieces, Request, Sampling, Schedule


@dataclass(frozen=True, kw_only=True)
class CheckpointDesign:
    """What a fault is planted into.

    Attributes:
        request: What is asked; its prompt is replaced.
        seeds: One run for each.
        schedule: What may be drafted ahead.
        chat: Number of the one chat that is asked again and again; None takes them in turn.
        most_tokens: When to give up.
        cells: Cells that rows are folded to: fewer where few ids are possible.
        draft_temperature: The drafter's own: some faults need one that is too sure of itself.
        zero: The checkpoint's id that the engine calls 0.
    """

    request: Request = LONG
    seeds: tuple[int, ...] = (1,)
    schedule: Schedule = field(default=OFF)
    chat: int | None = None
    most_tokens: int = 5_000
    cells: int = 1024
    draft_temperature: float = 1.0
    zero: int = 0

    def subject(self, fault: str, checkpoint: Checkpoint) -> CheckpointSubject:
        """The subject with a fault."""
        return self.subject_of(fault_named(fault).engine(), checkpoint)

    def subject_of(self, pieces: Pieces, checkpoint: Checkpoint) -> CheckpointSubject:
        """The subject with an engine."""
        prompt = checkpoint.prompts[self.chat or 0]
        return CheckpointSubject(
            checkpoint=checkpoint,
            request=replace(self.request, prompt=prompt),
            schedule=self.schedule,
            pieces=pieces,
            varied=self.chat is None,
            draft_temperature=self.draft_temperature,
            zero=self.zero,
        )


_PLAIN = CheckpointDesign()
_BLOCK = replace(_PLAIN, request=replace(LONG, acceptance=AcceptanceRule.BLOCK))


def _again(
    chat: int,
    *,
    tokens: int,
    top_k: int,
    temperature: float,
    proposals: int,
    draft_temperature: float = 1.0,
    zero: int = 0,
    rule: AcceptanceRule = AcceptanceRule.BLOCK,
) -> CheckpointDesign:
    """A few tokens of one chat, again and again."""
    sampling = Sampling(temperature=temperature, top_k=top_k)
    request = replace(LONG, max_tokens=tokens, max_proposals=proposals, acceptance=rule, sampling=sampling)
    return CheckpointDesign(
        request=request, chat=chat, most_tokens=30_000, cells=16, draft_temperature=draft_temperature, zero=zero
    )


CHECKPOINT_DESIGNS: Mapping[str, CheckpointDesign] = {
    **{
        name: _BLOCK if design.request.acceptance is AcceptanceRule.BLOCK else _PLAIN
        for name, design in DESIGNS.items()
    },
    **dict.fromkeys(RACE, replace(_PLAIN, seeds=(1, 2, 3))),
    "lenient-acceptance": replace(_PLAIN, most_tokens=60_000),
    "needless-rejection": replace(_PLAIN, most_tokens=60_000),
    "q-of-raw-logits": replace(_PLAIN, request=replace(LONG, sampling=Sampling(temperature=0.7, top_k=5))),
    "guess-becomes-the-bonus": replace(_PLAIN, schedule=Schedule(adaptive_window=None)),
    # Two bonuses stand in one pair only at the end of an output, so outputs are short.
    "bonuses-share-numbers-in-pairs": replace(_PLAIN, request=replace(LONG, max_tokens=4, max_proposals=2)),
    # It hangs on id 0 being proposed, so the engine calls a likely id that.
    "depth-from-a-discarded-draw": _again(
        6, tokens=3, top_k=2, temperature=8.0, proposals=2, zero=79, rule=AcceptanceRule.REJECTION
    ),
    "block-coins-by-position": _again(1, tokens=3, top_k=3, temperature=2.2, proposals=2, draft_temperature=1 / 6),
    "block-proposals-by-position": _again(3, tokens=4, top_k=2, temperature=5.0, proposals=3, draft_temperature=0.15),
    "block-residual-unweighted": _again(3, tokens=4, top_k=3, temperature=3.3, proposals=2, draft_temperature=0.21),
}
"""A design for every fault that a table shows."""
