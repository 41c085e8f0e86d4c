"""What only the inside of a round shows: text as it is published, and the state behind what interrupted a commit."""

from __future__ import annotations

from contextlib import suppress

from eredu_conformance.harness.cases import Case, near_case, twin_case
from eredu_conformance.oracles.experiment import Experiment, expect
from eredu_reference import AcceptanceRule, Cancelled, Pieces, TextOptions, decode_plain, decode_speculative
from eredu_reference.adaptive import Adaptive
from eredu_reference.decoding import Decoding


class Injected(Exception):  # noqa: N818
    """A failure that an experiment injects."""


def _text(pieces: Pieces) -> None:
    """Ids that are halves of characters, a stop string inside a token, and text that waits for a stop to the end."""
    text = TextOptions(vocabulary=(b"a", b"b", "é".encode()[:1], "é".encode()[1:], b"ab"), stop_strings=("ba", "éa"))
    for seed in range(4):
        base = near_case(seed) if seed % 2 else twin_case(seed)
        coupled = base.with_request(text=text, max_tokens=20, acceptance=AcceptanceRule.COUPLED)
        for case in (coupled, coupled.greedy(), coupled.greedy().with_request(max_tokens=4)):
            plain = decode_plain(case.target, case.request)
            report = decode_speculative(case.target, case.drafter, case.request, pieces=pieces)
            seen, due = (report.text, report.tokens, report.finish), (plain.text, plain.tokens, plain.finish)
            expect(seen, due, what=f"text, tokens and finish, seed {seed}")


def _interrupted(case: Case, pieces: Pieces, point: str, error: type[Exception]) -> tuple[Decoding, Adaptive]:
    """State behind an interruption at a point of the second round, and the adaptive switch right before it."""
    seen: list[tuple[Decoding, Adaptive]] = []
    rounds = 0

    def observe(kind: str, state: Decoding) -> None:
        nonlocal rounds
        rounds += kind == "plan"
        seen.append((state, state.adaptive))
        if (kind, rounds) == (point, 2):
            raise error(f"at {point} of round 2")

    with suppress(Injected):
        decode_speculative(case.target, case.drafter, case.request, pieces=pieces, observe=observe)
    return seen[-1]


def _cancelled_switch(pieces: Pieces) -> None:
    """A branch that is given up with its round says nothing about the others."""
    for seed in range(4):
        case = twin_case(seed).with_request(acceptance=AcceptanceRule.COUPLED)
        state, switch = _interrupted(case, pieces, "branch", Cancelled)
        expect(state.adaptive, switch, what="adaptive switch behind a cancellation")


def _branch_on_a_clone(pieces: Pieces) -> None:
    """A branch leaves the frontier of its block where the block left it."""
    case = twin_case(1).with_request(acceptance=AcceptanceRule.COUPLED)

    def observe(kind: str, state: Decoding) -> None:
        if kind == "branch" and state.round.block.frontier is not None:
            known = len(state.committed) + len(state.round.block.tokens)
            cached = len(state.round.block.frontier.cache)
            expect(cached, known - 1, what="inputs of the drafter behind its block, once a branch was drafted")

    decode_speculative(case.target, case.drafter, case.request, pieces=pieces, observe=observe)


EXPERIMENTS = (
    Experiment("scripted.text", "ids that are parts of characters: subjects answer with ids", _text),
    Experiment(
        "scripted.branch-on-a-clone",
        "a frontier that exact rollbacks mend",
        _branch_on_a_clone,
    ),
    Experiment("scripted.cancelled-switch", "the adaptive switch of a request that has ended", _cancelled_switch),
)
"""Experiments of this file."""
