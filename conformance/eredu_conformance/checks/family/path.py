"""Path checks: greedy and coupled outputs are those of plain decoding, with rejection forced at every row.

In round r of a run the proposal at place r is wrong, and in the last round none is, so a run of K + 1 rounds has every
accepted count from 0 to K. Heads draft beside it where the family has them, and their own proposals are taken too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from eredu_conformance.checks.check import Check
from eredu_conformance.checks.family.places import family_check, outputs_apart, parted, places, published, text
from eredu_conformance.checks.finding import Observation
from eredu_conformance.checks.roots import root
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.zoo import MEMBERS

DEPTHS = range(1, 9)
"""K."""

OWN_TOKENS = 6
"""Output of a run in which heads' own proposals are taken."""

ASSISTED_TOKENS = 8


def checks() -> Iterator[Check]:
    """Greedy and coupled for every family and K, and assistants for every family."""
    for family in MEMBERS:
        for depth in DEPTHS:
            for coupled, rule in ((False, "verify.greedy-argmax"), (True, "verify.coupled-shared-vector")):
                name = "coupled" if coupled else "greedy"
                yield family_check(
                    name,
                    family,
                    setting=f"k{depth}",
                    rule=rule,
                    about=f"With K = {depth} and rejection forced at every row, {name} decoding is plain decoding.",
                    run=partial(_every_row, depth=depth, coupled=coupled),
                )
        yield family_check(
            "assistant",
            family,
            rule="verify.greedy-argmax",
            about="With an assistant of any family, recurrent or not, output is that of plain decoding.",
            run=_assistant,
        )


def _every_row(family: str, session: SubjectSession, seed: int, *, depth: int, coupled: bool) -> Observation:
    from eredu_conformance.subjects.family import Ask, family_model  # noqa: PLC0415 (it loads eredu)

    model = family_model(published(session, family))
    drawn = root(seed, f"family.coupled/{family}", depth) if coupled else None
    rounds = 0
    # Coupled runs differ from greedy ones by noise alone, so one side of the boundary is enough for them.
    for place, length in [*places(family).items()][int(coupled) :]:
        ask = Ask(prompt=text(length), tokens=(depth + 1) * (depth + 2) // 2, seed=drawn)
        due = model.plain(ask)[0]
        forced = model.forced(depth, ask, due, range(depth + 1))
        if forced.tokens != due:
            raise outputs_apart(f"forced proposals, {place} the boundary", forced.tokens, due, ask.prompt)
        if forced.accepted != tuple(range(depth + 1)):
            raise parted(f"accepted {list(forced.accepted)} of {depth} proposals a round, due one more each round")
        rounds += len(forced.accepted)
    if depth <= model.head_depth:
        found = model.heads(depth, Ask(prompt=ask.prompt, tokens=min(OWN_TOKENS, ask.tokens), seed=drawn))[0]
        if found != due[: len(found)]:
            raise outputs_apart(f"heads with K = {depth}", found, due[: len(found)], ask.prompt)
    beside = "heads beside it, and on their own" if depth <= model.head_depth else "target alone"
    return Observation(text=f"{rounds} rounds, each accepted count from 0 to {depth}; {beside}")


def _assistant(family: str, session: SubjectSession, seed: int) -> Observation:
    from eredu_conformance.subjects.family import Ask, family_model  # noqa: PLC0415

    model = family_model(published(session, family))
    others = [family, "qwen3.5" if family in {"llama", "qwen3"} else "llama"]
    prompt, compared = text(places(family)["after"]), 0
    asks = [Ask(prompt=prompt, tokens=ASSISTED_TOKENS, seed=drawn) for drawn in (None, seed + 1)]
    due = model.plain(*asks)
    for other in others:
        for lookahead in (False, True):
            found = model.assisted(published(session, other), 3, *asks, lookahead=lookahead)
            for output, right in zip(found, due, strict=True):
                if output != right:
                    told = f"{other} as assistant, lookahead {'on' if lookahead else 'off'}"
                    raise outputs_apart(told, output, right, prompt)
                compared += len(right)
    return Observation(text=f"{compared} tokens equal, with {' and '.join(others)} as assistants")
