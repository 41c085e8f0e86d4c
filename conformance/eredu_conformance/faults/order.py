"""Faults of order and of interruptions: what is visible before it is true, and what a given-up round leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from eredu_conformance.faults.fault import Fault
from eredu_reference import FinishReason
from eredu_reference.adaptive import Adaptive
from eredu_reference.clipping import Clip, Limits, clip
from eredu_reference.models import Output
from eredu_reference.pieces import RoundStep
from eredu_reference.statistics import Statistics
from eredu_reference.verification import Verification

Tokens = tuple[int, ...]


def _last_row_unwaited(verification: Verification) -> tuple[Output, ...]:
    early = verification.buffer[-1]
    return (*verification.wait()[:-1], early)


def _round_counted(statistics: Statistics, proposals: Tokens) -> Statistics:
    return replace(statistics, rounds=statistics.rounds + 1, drafted=statistics.drafted + len(proposals))


def _steps(order: str) -> tuple[RoundStep, ...]:
    """The steps of a round by their names."""
    return tuple(RoundStep(name) for name in order.split())


def _branch_resolved_counts(switch: Adaptive, planned: int) -> Adaptive:
    return replace(switch, resolved=switch.resolved + 1, wasted=switch.wasted + planned) if planned else switch


def _rewinds_to_the_round() -> Mapping[str, object]:
    begun = [0]

    def depth(limits: Limits) -> Clip:
        begun[0] = limits.committed
        return clip(limits)

    def length(committed: int, inputs: int) -> int:
        return begun[0] - 1 if inputs else committed - 1

    return {"clip": depth, "abandoned_length": length}


FAULTS = (
    Fault(
        name="commit-comes-last",
        rule="commit.order",
        killed_by="trace.lookahead/table-near/greedy",
        story="State and events are out while the cache still holds rejected rows; whoever reads it then reads them.",
        replace={"steps": _steps("draft submit branch wait resolve install publish commit end")},
    ),
    Fault(
        name="end-announced-before-the-last-tokens",
        rule="events.append-only",
        killed_by="trace.lookahead/table-near/greedy",
        story="The end of the output is announced, and then its last tokens arrive at a caller who has left.",
        replace={"steps": _steps("draft submit branch wait resolve commit install end publish")},
    ),
    Fault(
        name="round-published-twice",
        rule="events.one-publication-a-commit",
        killed_by="path.equals-reference/table/rejection/k3",
        story="Two parts of an engine both think that publishing is theirs.",
        replace={"steps": _steps("draft submit branch wait resolve commit install publish publish end")},
    ),
    Fault(
        name="second-verification-submitted",
        rule="scheduling.in-flight-bound",
        killed_by="trace.lookahead/table-near/greedy",
        story="A retry submits the block again while it is in flight; only one of the two is ever waited for.",
        replace={"steps": _steps("draft submit submit branch wait resolve commit install publish end")},
    ),
    Fault(
        name="branch-drafted-after-the-wait",
        rule="lookahead.while-in-flight",
        killed_by="trace.lookahead/table-near/greedy",
        story="The branch is drafted when the verification is over already: all its cost, none of its use.",
        replace={"steps": _steps("draft submit wait branch resolve commit install publish end")},
    ),
    Fault(
        name="cancelled-branch-counts-as-resolved",
        rule="adaptive.window",
        killed_by="scripted.cancelled-switch",
        story="A branch that was given up with its round is held against lookahead.",
        replace={"cancelled_switch": _branch_resolved_counts},
    ),
    Fault(
        name="finished-request-cancelled",
        rule="cancellation.nothing-submitted-at-once",
        killed_by="path.cancelled-at-the-end/table-near/greedy",
        story="A cancellation that comes with the last tokens turns a finished output into a cancelled one.",
        replace={"cancelled_finish": lambda *_: FinishReason.CANCELLED},
    ),
    Fault(
        name="callback-rewinds-its-own-round",
        rule="cancellation.from-callback",
        source="vllm-project/vllm 49620",
        killed_by="trace.cancelled/table-near/*",
        story="A cancellation from the callback that shows a round rewinds the cache to before that round.",
        replace=_rewinds_to_the_round,
    ),
    Fault(
        name="rows-read-before-completion",
        rule="placement.wait-before-read",
        source="sgl-project/sglang 22113, llama.cpp 27572",
        killed_by="path.equals-reference/table/rejection/k3",
        story="The consumer's stream does not wait for the producer's, and reads what the buffer held before.",
        replace={"await_rows": lambda verification: verification.buffer},
    ),
    Fault(
        name="last-row-read-early",
        rule="placement.producer-before-consumer",
        source="sgl-project/sglang 22113",
        killed_by="path.equals-reference/table/rejection/k3",
        story="The completion covers the verified rows; the bonus row is copied on a queue that nobody waits for.",
        replace={"await_rows": _last_row_unwaited},
    ),
    Fault(
        name="block-drafted-twice",
        rule="scheduling.phase-edges",
        killed_by="state.statistics-equal-reference/table-equal/greedy/off",
        story="A request that is ready to submit is drafted for once more: an edge that its life cycle does not have.",
        replace={"steps": _steps("draft draft submit branch wait resolve commit install publish end")},
    ),
    Fault(
        name="published-before-the-commit",
        rule="commit.failure-changes-nothing",
        killed_by="trace.cancelled/table-near/rejection",
        story="Tokens are shown while the cache is still being trimmed; a failure then cannot take them back.",
        replace={"steps": _steps("draft submit branch wait resolve publish commit install end")},
    ),
    Fault(
        name="published-before-the-installation",
        rule="events.after-commit",
        killed_by="trace.lookahead/table-near/greedy",
        story="A callback sees tokens of which the request's state knows nothing yet.",
        replace={"steps": _steps("draft submit branch wait resolve commit publish install end")},
    ),
    Fault(
        name="installed-before-the-commit",
        rule="commit.failure-changes-nothing",
        source="ml-explore/mlx-lm 1740",
        killed_by="trace.rounds/table-near/greedy",
        story="The state says that a round is done, and then trimming the cache fails.",
        replace={"steps": _steps("draft submit branch wait resolve install commit publish end")},
    ),
    Fault(
        name="given-up-round-stays-in-the-cache",
        rule="cancellation.submitted-waits",
        source="oMLX 2235",
        killed_by="trace.cancelled/table-near/*",
        story="A request is cancelled with a verification in flight, and its rows stay in the cache that is reused.",
        replace={"abandoned_length": lambda committed, inputs: committed - 1 + inputs},
    ),
    Fault(
        name="given-up-round-takes-a-row-along",
        rule="cancellation.leaves-no-trace",
        source="ml-explore/mlx-lm 1528",
        killed_by="trace.cancelled/table-near/greedy",
        story="The rewind of a cancelled round is off by one and removes a committed row.",
        replace={"abandoned_length": lambda committed, inputs: committed - 1 - int(inputs > 0)},
    ),
    Fault(
        name="cancelled-proposals-published",
        rule="events.one-publication-a-commit",
        source="vllm-project/vllm 49620",
        killed_by="trace.cancelled/table-near/greedy",
        story="On cancellation the proposals in flight are flushed to the caller.",
        replace={"cancelled_output": lambda output, proposals: output + proposals},
    ),
    Fault(
        name="cancelled-round-counted",
        rule="statistics.committed-rounds-only",
        source="vllm-project/vllm 49620",
        killed_by="trace.cancelled/table-near/greedy",
        story="A round that never happened appears in the statistics.",
        replace={"cancelled_statistics": _round_counted},
    ),
)
