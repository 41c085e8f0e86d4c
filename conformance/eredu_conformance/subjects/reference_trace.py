"""The reference's log in the words of `trace.md`, written while it decodes.

The reference counts rounds and has no turns: every action gets a turn here, and a resolution begins with its wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from eredu_conformance.subjects.crafted_model import CountedCache
from eredu_reference import FinishReason
from eredu_reference.decoding import Decoding, Event, Setting
from eredu_reference.report import Report
from eredu_reference.sources import ThreefrySource
from eredu_reference.statistics import Statistics


@dataclass
class ReferenceTrace:
    """The trace of one run.

    Attributes:
        events: What was written.
        turn: Number of the last turn.
    """

    events: list[dict[str, Any]] = field(default_factory=list)
    turn: int = 0


def one_behind_another(traces: Iterable[ReferenceTrace]) -> Iterator[dict[str, Any]]:
    """The events of requests that were decoded together, each request's turns behind those of the one before."""
    before = 0
    for trace in traces:
        yield from ({**event, "turn": event["turn"] + before} for event in trace.events)
        before += trace.turn


@dataclass
class RequestTrace:
    """What one request adds to a trace: an observer of the reference.

    Attributes:
        trace: Where it is written.
        number: Number of the request in its run.
        setting: Models, schedule, parts and log of the decoding.
        phase: Where the request stands, as a cancellation would find it.
        plan: The last plan of a block.
        planned: Tokens that the last branch was planned for.
        drafted: Tokens of the present branch.
        resolution: The turn of the resolution in progress, which its wait begins.
        resolved: Its outcome, until the fate of its branch is known.
        told: Output tokens written so far.
        prefilled: Rows that the target's cache had taken before the first round, where it counts them.
    """

    trace: ReferenceTrace
    number: int
    setting: Setting
    phase: str = ""
    plan: Event = field(default_factory=dict)
    planned: int = 0
    drafted: int = 0
    resolution: int | None = None
    resolved: Event | None = None
    told: int = 0
    prefilled: int | None = None

    def observe(self, kind: str, state: Decoding) -> None:
        """Write what the last event of the log says."""
        event = self.setting.events[-1]
        if not self.phase:
            self._open(state)
        if self.resolved is not None and kind != "resolve-branch":
            self._resolve("none", 0)
        writers: dict[str, Callable[[], None]] = {
            "prefill": lambda: self._prefill(event["left"]),
            "plan": lambda: self._plan(event, state),
            "draft": lambda: self._draft(state, len(event["proposals"])),
            "submit": lambda: self._submit(event),
            "branch-plan": lambda: self._branch(event),
            "branch": lambda: self._branch(event),
            "wait": self._begin_resolution,
            "resolve": lambda: self._decide(event, state),
            "resolve-branch": lambda: self._resolve(event["outcome"], event["reused"]),
            "commit": lambda: self._commit(event),
            "install": lambda: self._install(state),
            "publish": lambda: self._publish(state),
            "end": lambda: self._close(event["finish"], state.statistics, _taken(state)),
        }
        if kind in writers:
            writers[kind]()

    def _plan(self, event: Event, state: Decoding) -> None:
        """A prompt of one token, of which nothing is fed, has its prefill too."""
        if self.phase == "prefill":
            self._prefill(len(state.request.prompt) - 1 - len(state.target_cache))
        if self.prefilled is None:
            self.prefilled = _taken(state)
        self.plan = event

    def _submit(self, event: Event) -> None:
        self._act("submit", position=self.plan["start"], rows=len(event["inputs"]))
        self.phase, self.resolution = "verification-in-flight", None

    def _branch(self, event: Event) -> None:
        if "tokens" not in event:
            self.planned = event["count"]
            return
        self.drafted = len(event["tokens"])
        self._act("branch", position=self.plan["start"], planned=self.planned, drafted=self.drafted)
        self.phase = "lookahead-ready"

    def _decide(self, event: Event, state: Decoding) -> None:
        self._begin_resolution()
        self.resolved = {**event, "proposals": state.round.block.tokens}

    def _install(self, state: Decoding) -> None:
        """State that is in force is as good as told: behind the commit it goes out with the publication."""
        if self.trace.events[-1]["event"] != "commit":
            self._publish(state)

    def _commit(self, event: Event) -> None:
        self._write("commit", self.resolution, kept=event["kept"], cache_length=event["target_length"])

    def finish(self, report: Report) -> None:
        """Write the end of a request that was cancelled; one that had ended already ends as it did."""
        if report.events[-1]["event"] != "cancel":
            return
        if report.finish is FinishReason.CANCELLED:
            length = report.events[-1]["target_length"]
            self._write("cancel", self.trace.turn, phase=self.phase, cache_length=length)
        self._close(report.finish.value, report.statistics, None)

    def _write(self, event: str, turn: int | None, **fields: object) -> None:
        at = self.trace.turn if turn is None else turn
        self.trace.events.append({"event": event, "turn": at, "request": self.number, **fields})

    def _act(self, event: str, **fields: object) -> None:
        self.trace.turn += 1
        self._write(event, self.trace.turn, **fields)

    def _open(self, state: Decoding) -> None:
        request, schedule, drafter = state.request, self.setting.schedule, self.setting.drafter
        self.phase = "prefill"
        self._write(
            "open",
            self.trace.turn,
            prompt_length=len(request.prompt),
            budget=state.budget.tokens,
            max_proposals=request.max_proposals,
            rule=state.rule.value,
            root=list(state.source.root) if isinstance(state.source, ThreefrySource) else [0, 0],
            lookahead_depth=request.branch_length if schedule.lookahead else None,
            window=schedule.adaptive_window,
            capability=0 if drafter is None else drafter.max_proposals,
            target_context=self.setting.target.context,
            drafter_context=None if drafter is None else drafter.model.context,
            max_tokens=request.max_tokens,
            exact_promotion=drafter is None or drafter.exact_promotion,
            prefill_chunk=schedule.prefill_chunk,
            eos_ids=sorted(request.eos_ids),
            stop_sequences=[list(stop) for stop in request.stop_sequences],
        )

    def _prefill(self, left: int) -> None:
        self._act("prefill", left=left)
        if left == 0:
            self.phase = "ready-to-draft"

    def _draft(self, state: Decoding, count: int) -> None:
        """A promoted block that is full needs no turn of its own."""
        plan = self.plan
        if not 0 < plan["reused"] == count == plan["count"]:
            self._act(
                "draft",
                position=plan["start"],
                requested=state.request.max_proposals,
                reused=plan["reused"],
                k=count,
                clip="grammar" if count < plan["count"] else plan["reason"],
            )
        self.phase = "ready-to-submit"

    def _begin_resolution(self) -> None:
        if self.resolution is None:
            self.trace.turn += 1
            self.resolution = self.trace.turn
        self.phase = "resolution"

    def _resolve(self, branch: str, reused: int) -> None:
        event, self.resolved = self.resolved, None
        assert event is not None, "the fate of a branch belongs to a resolution"
        accepted, proposals = event["accepted"], event["proposals"]
        consumed = int(branch == "promoted")
        self._write(
            "resolve",
            self.resolution,
            accepted=accepted,
            replacement=accepted < len(proposals),
            tokens=[*proposals[:accepted], event["token"]],
            finish=event["finish"],
            emitted=event["emitted"],
            branch=branch,
            consumed=consumed,
            reused=reused,
            discarded=self.drafted - consumed - reused if branch != "none" else 0,
        )

    def _publish(self, state: Decoding) -> None:
        """Tokens that are both installed and out; what was shown too early is in no state yet."""
        tokens = list(state.output[self.told :])
        self.told += len(tokens)
        finish = None if state.finish is None else state.finish.value
        self._write("publish", self.resolution, tokens=tokens, finish=finish)
        promoted = 0 if state.promoted is None else len(state.promoted.tokens)
        limits = self.setting.limits(state.request, len(state.committed))
        is_full = 0 < promoted == self.setting.pieces.clip(limits).count
        self.phase = "ready-to-submit" if is_full else "ready-to-draft"

    def _close(self, finish: str, statistics: Statistics, taken: int | None) -> None:
        """The rows that a cancelled round had taken are none of its statistics, so they are not counted there."""
        counters = statistics.as_dict()
        rows = counters["drafted"] + counters["rounds"]
        if taken is not None and self.prefilled is not None:
            rows = taken - self.prefilled
        self._write("close", self.trace.turn, finish=finish, statistics={**counters, "target_rows": rows})


def _taken(state: Decoding) -> int | None:
    """Rows that the target's cache was ever fed; None for the kinds of cache that only know what they hold."""
    return state.target_cache.taken if isinstance(state.target_cache, CountedCache) else None
