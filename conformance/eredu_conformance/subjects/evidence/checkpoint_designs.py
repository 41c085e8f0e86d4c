"""For each fault of the law, what is asked of the checkpoint so that the fault acts as it does on tables.

Most are asked for chats of up to 64 tokens in blocks of 3 at temperature 1. Faults that move the law of a whole
vocabulary by far less than 1 % of a token are asked for the same few tokens of one chat again and again, out of the
likeliest ids: the checkpoint is a small table then, and its rows are remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from eredu_conformance.faults import fault_named
from eredu_conformance.subjects.evidence.checkpoint_subject import Checkpoint, CheckpointSubject
from eredu_conformance.subjects.evidence.designs import DESIGNS, LONG
from eredu_conformance.subjects.evidence.power import RACE
from eredu_conformance.subjects.evidence.table_subject import OFF
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
    """

    request: Request = LONG
    seeds: tuple[int, ...] = (1,)
    schedule: Schedule = field(default=OFF)
    chat: int | None = None
    most_tokens: int = 5_000
    cells: int = 1024

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
        )


_PLAIN = CheckpointDesign()
_BLOCK = replace(_PLAIN, request=replace(LONG, acceptance=AcceptanceRule.BLOCK))

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
}
"""A design for every fault that a table shows."""

CHECKPOINT_UNSEEN: Mapping[str, str] = {
    "depth-from-a-discarded-draw": "k hangs on whether a dropped proposal was id 0, and 5 in a million are",
    "block-residual-unweighted": "not rejected within 5,000 tokens of chats, nor within 4,600 of each of four chats "
    "that were asked for the same 8 tokens again and again, out of the 3 likeliest ids",
    "block-coins-by-position": "not rejected within 4,600 tokens of each of seven chats that were asked for the same 5 "
    "tokens again and again, out of the 2 likeliest ids",
    "block-proposals-by-position": "not rejected within 4,600 tokens of either of two chats asked in that way",
}
"""Faults that tables and the exact law show, and the small checkpoint does not within the tokens of its design."""
