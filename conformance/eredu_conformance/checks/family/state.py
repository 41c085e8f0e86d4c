"""State checks: rolled back is replayed, chunks are the whole, warm is cold, heads are realigned at every commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from eredu_conformance.checks.check import Check
from eredu_conformance.checks.family.places import family_check, outputs_apart, parted, places, published, text
from eredu_conformance.checks.finding import Observation
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.protocol import SkippedRunError
from eredu_conformance.zoo import MEMBERS, zoo_member

if TYPE_CHECKING:
    from eredu_conformance.harness.family_state import Comparison

TOLERANCE = 1e-4
"""Largest relative difference of cached numbers and of logits that counts as equal; 0 is what most families show."""

BLOCK = 5
"""Rows of the longest block that is rolled back: the leading token and four proposals."""

CHUNKED, CHUNKS = 80, (1, 2, 5, 16, 33, 70)
"""Tokens of the text that is fed in chunks, and their sizes: longer than any verified block, shorter, single."""


def checks() -> Iterator[Check]:
    """Every claim for every family."""
    for family in MEMBERS:
        yield family_check(
            "rollback",
            family,
            rule="rollback.exact-state",
            about="After every accepted count the caches hold what a deep copy holds that was fed one token at a time.",
            run=_rollback,
        )
        yield family_check(
            "chunks",
            family,
            rule="scheduling.prefill-in-chunks",
            about="A text fed whole, in chunks of any size or token by token gives one state and one row of logits.",
            run=_chunks,
        )
        yield family_check(
            "warm",
            family,
            rule="scheduling.requests-independent",
            about="A model that has served others, or serves them beside it, gives the output of a fresh one.",
            run=_warm,
        )
        if zoo_member(family).heads:
            yield family_check(
                "realigned",
                family,
                rule="rollback.drafter-follows",
                about="Behind every accepted count the heads propose what they would from cold caches.",
                run=_realigned,
            )


def _rollback(family: str, session: SubjectSession, seed: int) -> Observation:  # noqa: ARG001 (nothing is drawn)
    from eredu_conformance.harness.family_state import rollbacks  # noqa: PLC0415
    from eredu_conformance.subjects.family import family_model  # noqa: PLC0415 (it loads eredu)

    model = family_model(published(session, family))
    lengths = [0, *places(family).values()]
    found = [each for length in lengths for each in rollbacks(model, text(length), text(BLOCK, start=length))]
    return _judged(found, f"{len(found)} rollbacks behind {', '.join(map(str, lengths))} tokens")


def _chunks(family: str, session: SubjectSession, seed: int) -> Observation:  # noqa: ARG001
    from eredu_conformance.harness.family_state import chunked  # noqa: PLC0415
    from eredu_conformance.subjects.family import family_model  # noqa: PLC0415

    model = family_model(published(session, family))
    found = list(chunked(model, text(CHUNKED), CHUNKS))
    return _judged(found, f"{CHUNKED} tokens in chunks of {', '.join(map(str, CHUNKS))}")


def _judged(found: Iterable[Comparison], what: str) -> Observation:
    worst_state = worst_logits = 0.0
    for each in found:
        if each.state > TOLERANCE or each.logits > TOLERANCE or not each.same_argmax:
            argmax = "" if each.same_argmax else ", and an argmax moved"
            raise parted(
                f"{each.case}: cached numbers differ by {each.state:.1e} and logits by {each.logits:.1e} of their "
                f"size{argmax}"
            )
        worst_state, worst_logits = max(worst_state, each.state), max(worst_logits, each.logits)
    exact = worst_state == worst_logits == 0
    told = "bit for bit" if exact else f"within {worst_state:.0e} (state) and {worst_logits:.0e} (logits)"
    return Observation(
        text=f"{what}: equal {told}", figures={"state_difference": worst_state, "logit_difference": worst_logits}
    )


def _warm(family: str, session: SubjectSession, seed: int) -> Observation:
    from eredu_conformance.subjects.family import Ask, family_model, fresh_model  # noqa: PLC0415

    directory = published(session, family)
    asks = [Ask(prompt=text(length), tokens=6, seed=drawn) for length in (3, 20) for drawn in (None, seed + 1)]
    cold = [fresh_model(directory).plain(ask)[0] for ask in asks]
    model = family_model(directory)
    depth = min(3, model.head_depth)
    ways = {"behind other requests": [model.plain(ask)[0] for ask in (*asks[::-1], *asks)][len(asks) :]}
    ways["beside other requests"] = list(model.plain(*asks))
    ways["beside others, the prompt in chunks of 3"] = list(model.plain(*asks, chunk=3))
    if depth:
        ways["with heads, beside other requests"] = list(model.heads(depth, *asks, chunk=5))
    for way, outputs in ways.items():
        for ask, found, due in zip(asks, outputs, cold, strict=True):
            if found != due:
                raise outputs_apart(f"{way}, against a fresh model", found, due, ask.prompt)
    return Observation(text=f"{len(ways) * len(asks)} outputs equal to those of fresh models: {', '.join(ways)}")


def _realigned(family: str, session: SubjectSession, seed: int) -> Observation:  # noqa: ARG001
    from eredu_conformance.subjects.family import Ask, family_model  # noqa: PLC0415

    model = family_model(published(session, family))
    depth = min(3, model.head_depth)
    if not depth:
        raise SkippedRunError(f"eredu runs no heads of {family}: {model.capability}")
    drafts = 0
    for length in places(family).values():
        ask = Ask(prompt=text(length), tokens=(depth + 1) * (depth + 2) // 2 + depth)
        output = model.plain(ask)[0]
        for own in model.forced(depth, ask, output, range(depth + 1)).own:
            due = model.cold_draft(own.committed, ask, len(own.tokens))
            if own.tokens != due:
                raise outputs_apart("proposals against those from cold caches", own.tokens, due, own.committed)
            drafts += len(due)
    return Observation(text=f"{drafts} proposals of up to {depth} a round equal to those from cold caches")
