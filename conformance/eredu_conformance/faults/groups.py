"""Faults of groups: what several requests in one submission can take from each other, or lose with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eredu_conformance.faults.fault import Fault
from eredu_reference import RandomSource, ThreefrySource
from eredu_reference.pieces import Along, Entry, RoundStep
from eredu_spec import randomness


def _neighbour(entries: Sequence[Entry], place: int) -> Entry:
    return entries[place - 1]


def _source_of_the_place(by_number: Mapping[int, RandomSource], place: int) -> RandomSource:
    source = tuple(by_number.values())[place]
    if place == 0 or not isinstance(source, ThreefrySource):
        return source
    return ThreefrySource(randomness.threefry(source.root, (place, 0)))


def _commit_missed(step: RoundStep, ends: Sequence[str]) -> Along:
    return Along.SKIPS if step is RoundStep.COMMIT and "finished" in ends else Along.GOES_ON


def _rows_of_the_cancelled_stay() -> Mapping[str, object]:
    companies = [0]

    def rows(entries: Sequence[Entry], place: int) -> Entry:
        companies[0] = len(entries)
        return entries[place]

    def length(committed: int, inputs: int) -> int:
        return committed - 1 + (inputs if companies[0] > 1 else 0)

    return {"member_rows": rows, "abandoned_length": length}


FAULTS = (
    Fault(
        name="rows-of-a-neighbour",
        rule="scheduling.group-changes-nothing",
        killed_by="path.unlike-company/table-near/*",
        story="The joint forward's output is cut at offsets that are one member off; alone, every offset is 0.",
        replace={"member_rows": _neighbour},
    ),
    Fault(
        name="mask-of-a-neighbour",
        rule="scheduling.group-changes-nothing",
        killed_by="path.grammar/table/greedy/k2",
        story="Masks are stacked in another order than rows, so that a member obeys the grammar of another.",
        replace={"member_grammar": _neighbour},
    ),
    Fault(
        name="history-of-the-first-member",
        rule="scheduling.group-changes-nothing",
        killed_by="path.unlike-company/table-near/*",
        story="Penalties are computed once for the batch, from the tokens of its first member.",
        replace={"member_history": lambda entries, *_: entries[0]},
    ),
    Fault(
        name="draws-of-the-first-member",
        rule="scheduling.group-changes-nothing",
        killed_by="path.alone-or-together/table-near/*",
        story="One generator a submission: members at one position draw the same numbers, each with the right law.",
        replace={"member_source": lambda by_number, *_: next(iter(by_number.values()))},
    ),
    Fault(
        name="draws-by-place",
        rule="scheduling.group-changes-nothing",
        killed_by="path.alone-or-together/table-near/*",
        story="The place in the group is part of a draw's address, and moves when another member ends.",
        replace={"member_source": _source_of_the_place},
    ),
    Fault(
        name="all-trimmed-to-the-least",
        rule="scheduling.members-end-alone",
        killed_by="path.unlike-company/table-near/*",
        story="A batched cache has one length, so that everybody keeps what the least accepted member keeps.",
        replace={"member_kept": lambda kept, *_: min(kept)},
    ),
    Fault(
        name="all-trimmed-to-the-greatest",
        rule="scheduling.members-end-alone",
        killed_by="path.unlike-company/table-near/*",
        story="A batched cache has one length, that of the most accepted member; others keep rejected rows.",
        replace={"member_kept": lambda kept, fed, place: min(max(kept), fed[place])},
    ),
    Fault(
        name="commit-missed-beside-an-end",
        rule="scheduling.members-end-alone",
        killed_by="path.alone-or-together/table-near/*",
        story="A member ends in the round, the group is taken apart, and the others' commit falls through.",
        replace={"beside": _commit_missed},
    ),
    Fault(
        name="cancelled-with-a-neighbour",
        rule="scheduling.members-end-alone",
        killed_by="path.neighbour-cancelled/table-near/*",
        story="Cancelling one request cancels the submission that it is part of.",
        replace={"beside": lambda _step, ends: Along.CANCELLED if "cancelled" in ends else Along.GOES_ON},
    ),
    Fault(
        name="rows-of-a-cancelled-member-stay",
        rule="scheduling.members-end-alone",
        killed_by="trace.cancelled/table-near/*",
        story="The joint forward has written a cancelled member's rows, and only a submission alone is rewound.",
        replace=_rows_of_the_cancelled_stay,
    ),
    Fault(
        name="failed-with-a-neighbour",
        rule="scheduling.members-end-alone",
        killed_by="scripted.groups",
        story="What one member raises is raised for the whole submission.",
        replace={"beside": lambda _step, ends: Along.FAILED if "failed" in ends else Along.GOES_ON},
    ),
)
