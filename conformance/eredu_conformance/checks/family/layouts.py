"""Layout checks: sharded, converted and quantised directories load with their heads, and decode as they should."""

from __future__ import annotations

from collections.abc import Iterator

from eredu_conformance.checks.check import Check
from eredu_conformance.checks.family.places import family_check, outputs_apart, parted, published, text, written
from eredu_conformance.checks.finding import Observation
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.zoo import CONVERSIONS, MEMBERS, Parts, Precision, write_converted, zoo_member

TOKENS = 10
DEPTH = 3


def checks() -> Iterator[Check]:
    """One for every family."""
    for family in MEMBERS:
        yield family_check(
            "layouts",
            family,
            rule="verify.greedy-argmax",
            about="Shards and plain conversions give the published output, packed and fp8 ones one of their own.",
            run=_layouts,
        )


def _layouts(family: str, session: SubjectSession, seed: int) -> Observation:  # noqa: ARG001
    from eredu_conformance.subjects.family import Ask, family_model, fresh_model  # noqa: PLC0415 (it loads eredu)

    member = zoo_member(family)
    ask = Ask(prompt=text(6), tokens=TOKENS)
    original = family_model(published(session, family))
    due = original.plain(ask)[0]
    directories = {
        "sharded": written(session, f"{family}-sharded", lambda place: member.write(place, parts=Parts.SHARDED))
    }
    for name, conversion in CONVERSIONS.items():
        directories[name] = written(
            session,
            f"{family}-{name}",
            lambda place, how=conversion: write_converted(member, place, how),  # type: ignore[misc]
        )
    if member.fp8 is not None:
        directories["fp8"] = written(
            session, f"{family}-fp8", lambda place: member.write(place, precision=Precision.FP8)
        )
    for name, directory in directories.items():
        model = fresh_model(directory)
        if model.capability != original.capability:
            raise parted(f"{name}: its heads are {model.capability}, those of the original {original.capability}")
        plain = model.plain(ask)[0]
        if name in {"sharded", "plain"} and plain != due:
            raise outputs_apart(f"{name}, against the published layout", plain, due, ask.prompt)
        found = model.heads(DEPTH, ask)[0] if model.head_depth else plain
        if found != plain:
            raise outputs_apart(f"{name}, heads against plain decoding", found, plain, ask.prompt)
    return Observation(text=f"{', '.join(directories)}: {TOKENS} tokens each, heads {original.capability['state']}")
