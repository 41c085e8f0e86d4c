"""Properties of the machine: what always holds of a request, of its steps, of a state, and of an edge between two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from eredu_spec.clipping import clip
from eredu_spec.explorer import Edge, Exploration, Step, Trace
from eredu_spec.lookahead import planned_length
from eredu_spec.phases import BRANCHING, LIVE, SUBMITTED, UNINSTALLED, Phase, Stage, is_edge
from eredu_spec.progress import progress
from eredu_spec.request import Request
from eredu_spec.scope import Scope
from eredu_spec.sites import obeys
from eredu_spec.state import State
from eredu_spec.statistics import is_balanced
from eredu_spec.successors import successors
from eredu_spec.terminal import GRAMMAR, finish_of

OfRequest = Callable[[Request], bool]
OfStep = Callable[[Step], bool]
OfState = Callable[[State, Scope], bool]
OfEdge = Callable[[Edge, Scope], bool]

REQUEST_RULES: dict[str, list[OfRequest]] = {}
STEP_RULES: dict[str, list[OfStep]] = {}
STATE_RULES: dict[str, list[OfState]] = {}
EDGE_RULES: dict[str, list[OfEdge]] = {}


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule, the property that saw it, and a shortest way there."""

    rule: str
    seen_by: str
    trace: Trace

    def __str__(self) -> str:
        return f"{self.rule} is broken ({self.seen_by}): {self.trace}"


def _request(rule: str) -> Callable[[OfRequest], OfRequest]:
    def note(holds: OfRequest) -> OfRequest:
        REQUEST_RULES.setdefault(rule, []).append(holds)
        return obeys(rule)(holds)

    return note


def _step(rule: str) -> Callable[[OfStep], OfStep]:
    def note(holds: OfStep) -> OfStep:
        STEP_RULES.setdefault(rule, []).append(holds)
        return obeys(rule)(holds)

    return note


def _state(rule: str) -> Callable[[OfState], OfState]:
    def note(holds: OfState) -> OfState:
        STATE_RULES.setdefault(rule, []).append(holds)
        return obeys(rule)(holds)

    return note


def _edge(rule: str) -> Callable[[OfEdge], OfEdge]:
    def note(holds: OfEdge) -> OfEdge:
        EDGE_RULES.setdefault(rule, []).append(holds)
        return obeys(rule)(holds)

    return note


def violations(exploration: Exploration) -> list[Violation]:
    """Every rule that some reachable request, step, state or edge breaks, once each, with a shortest way to it."""
    found: dict[str, Violation] = {}
    for violation in (
        *_of_steps(exploration),
        *_of_requests(exploration),
        *_of_states(exploration),
        *_of_edges(exploration),
    ):
        found.setdefault(violation.rule, violation)
    return sorted(found.values(), key=lambda violation: len(violation.trace.rules))


def _of_steps(exploration: Exploration) -> Iterator[Violation]:
    steps = list(exploration.steps())
    for rule, checks in STEP_RULES.items():
        for holds in checks:
            broken = [step for step in steps if not holds(step)]
            if broken:
                yield Violation(rule, holds.__name__, exploration.trace_to_step(broken))


def _of_requests(exploration: Exploration) -> Iterator[Violation]:
    requests = exploration.requests()
    for rule, checks in REQUEST_RULES.items():
        for holds in checks:
            broken = frozenset(request for request in requests if not holds(request))
            if broken:
                trace = exploration.trace_to(lambda state, broken=broken: not broken.isdisjoint(state))  # type: ignore[misc]
                yield Violation(rule, holds.__name__, trace)


def _of_states(exploration: Exploration) -> Iterator[Violation]:
    scope = exploration.scope
    for rule, checks in STATE_RULES.items():
        for holds in checks:
            broken = next((state for state in exploration.tree if not holds(state, scope)), None)
            if broken is not None:
                yield Violation(rule, holds.__name__, exploration.trace_to(broken.__eq__))


def _of_edges(exploration: Exploration) -> Iterator[Violation]:
    """The first edge that breaks each property of edges, all of them asked in one walk: there are many edges."""
    left = [(rule, holds) for rule, checks in EDGE_RULES.items() for holds in checks]
    for edge in exploration.edges():
        for rule, holds in [(rule, holds) for rule, holds in left if not holds(edge, exploration.scope)]:
            left.remove((rule, holds))
            yield Violation(rule, holds.__name__, exploration.trace_to_edge(edge.__eq__))


# ---- of a request ------------------------------------------------------------------------------------------------


@_request("commit.leading-token-uncached")
def cache_holds_the_inputs_so_far(request: Request) -> bool:
    """The target cache is what was committed but its last token, and in flight the inputs of the block behind it."""
    if request.finish == "failed" or request.phase in {Phase.PREFILL, Phase.CANCELLED}:
        return request.rows == request.committed[: len(request.rows)] and len(request.rows) < len(request.committed)
    settled = request.committed[:-1]
    if request.stage in {Stage.COMMITTED, Stage.INSTALLED}:
        assert request.resolution is not None
        pending = request.resolution.emitted if request.stage is Stage.COMMITTED else ()
        return request.rows == (request.committed + pending)[:-1]
    if request.phase in SUBMITTED:
        return request.rows == (*settled, request.committed[-1], *request.block)
    return request.rows == settled


@_request("draft.frontier-exact")
def frontier_stands_behind_the_block(request: Request) -> bool:
    """The drafter's frontier stands behind what was committed and proposed, and the branch's behind the branch."""
    behind = len(request.committed) + len(request.block)
    clone = behind + len(request.branch) if request.branch else 0
    return request.frontier == behind and request.clone == clone


@_request("draft.clip")
def block_respects_every_limit(request: Request) -> bool:
    """A block is no longer than its clip, and only a promoted start or a grammar's end leaves it shorter."""
    if request.phase not in LIVE - {Phase.PREFILL} or request.stage is Stage.INSTALLED:
        return True
    depth, _ = clip(request.settings, request.requested, len(request.output))
    is_drafted = request.phase in {Phase.READY_TO_SUBMIT, *SUBMITTED}
    is_full = len(request.block) == depth or request.ended
    return request.depth == depth and len(request.block) <= depth and (is_full or not is_drafted)


@_request("lookahead.planned-length")
def branch_is_what_was_planned(request: Request) -> bool:
    """The plan is the one that the block calls for, and a branch has its length, or a grammar cut it short."""
    if request.phase not in SUBMITTED or request.stage is Stage.INSTALLED:
        return not request.branch
    is_cut = request.phase is Phase.LOOKAHEAD_READY and len(request.branch) < request.planned
    is_right = not is_cut or _completes_the_grammar(request)
    return request.planned == planned_length(request) and is_right


def _completes_the_grammar(request: Request) -> bool:
    *before, last = request.branch
    return bool(GRAMMAR & request.settings.model.conditions(request.output + request.block + tuple(before), last))


@_request("terminal.budget-counts-tokens")
def budget_is_respected(request: Request) -> bool:
    """An output never outgrows its budget."""
    return len(request.output) <= request.settings.budget


@_request("terminal.nothing-behind")
def nothing_follows_a_terminal_token(request: Request) -> bool:
    """No committed token but the last ends the output, and the last one names the finish."""
    settings, output = request.settings, request.output
    reasons = [
        finish_of(settings.model.conditions(output[:i], token), i + 1, settings.budget, settings.budget_reason)
        for i, token in enumerate(output)
    ]
    ended = request.finish if request.finish not in {"cancelled", "failed"} else None
    return all(reason is None for reason in reasons[:-1]) and (reasons[-1:] or [None])[0] == ended


@_request("events.after-commit")
def only_committed_tokens_are_visible(request: Request) -> bool:
    """What the reader has seen is committed, and between two turns it is all that is."""
    return request.published == len(request.output) or (
        request.stage is Stage.INSTALLED and request.published < len(request.output)
    )


@_request("commit.on-copies")
def a_finished_request_holds_nothing(request: Request) -> bool:
    """Behind the end there is no block, branch, outcome or pending randomness."""
    open_work = (request.block, request.branch, request.memory, request.planned, request.clone, request.resolution)
    return request.phase in LIVE or (not any(open_work) and request.stage is Stage.IDLE)


@_request("lookahead.while-in-flight")
def a_branch_lives_beside_its_verification(request: Request) -> bool:
    """There is a branch only while a verification of its parent block is unresolved."""
    return not request.branch or (request.phase in SUBMITTED and request.stage in UNINSTALLED)


@_request("statistics.proposals-balance")
def statistics_balance(request: Request) -> bool:
    """The counters balance, and count what was committed."""
    counted = request.statistics
    return not request.settings.counts or (is_balanced(counted) and counted.emitted == len(request.output))


@_request("randomness.address-once")
def no_address_is_consumed_twice(request: Request) -> bool:
    """Each address decided at most one committed token."""
    return len(set(request.ledger)) == len(request.ledger)


# ---- of a step ---------------------------------------------------------------------------------------------------


@_step("scheduling.phase-edges")
def steps_follow_the_edges(step: Step) -> bool:
    """A request takes only edges of its life cycle."""
    return is_edge(step.before.phase, step.after.phase)


@_step("commit.on-copies")
def only_install_changes_the_request(step: Step) -> bool:
    """Output, switch and statistics change in one step only, and behind the commit of the cache."""
    is_same = (step.before.output, step.before.adaptive, step.before.statistics) == (
        step.after.output,
        step.after.adaptive,
        step.after.statistics,
    )
    return is_same or (step.before.stage is Stage.COMMITTED and step.after.stage is Stage.INSTALLED)


@_step("commit.one-number")
def commit_keeps_what_was_emitted(step: Step) -> bool:
    """The commit leaves the cache as it was before the round, and one input for each emitted token."""
    if step.after.stage is not Stage.COMMITTED or step.before.stage is not Stage.RESOLVED:
        return True
    resolution = step.before.resolution
    assert resolution is not None
    return len(step.after.rows) == len(step.before.committed) - 1 + len(resolution.emitted)


@_step("cancellation.leaves-no-trace")
def cancellation_restores_the_last_commit(step: Step) -> bool:
    """A cancelled request is what it was behind its last commit, and its cache too."""
    before, after = step.before, step.after
    if after.finish not in {"cancelled", "failed"}:
        return True
    is_same = (before.output, before.statistics, before.published) == (after.output, after.statistics, after.published)
    is_rolled_back = after.finish == "failed" or (
        after.rows == (before.rows if before.phase is Phase.PREFILL else before.committed[:-1])
    )
    return is_same and is_rolled_back


@_step("promotion.full-acceptance-and-equal-bonus")
def promotion_needs_full_acceptance(step: Step) -> bool:
    """A branch is promoted only behind a whole block and an equal bonus that goes on."""
    resolution = step.after.resolution
    if step.after.stage is not Stage.RESOLVED or resolution is None or resolution.branch != "promoted":
        return True
    before = step.before
    return (
        resolution.accepted == len(before.block)
        and resolution.matched is True
        and resolution.finish is None
        and resolution.emitted[-1] == before.branch[0]
    )


@_step("promotion.consume-one-reuse-the-rest")
def branch_tokens_are_accounted_for(step: Step) -> bool:
    """Each branch token is consumed, reused or discarded, and the reused ones start the next block."""
    before, after = step.before, step.after
    resolution = before.resolution
    if after.stage is not Stage.INSTALLED or before.stage is not Stage.COMMITTED or resolution is None:
        return True
    counted = resolution.consumed + resolution.reused + resolution.discarded
    return counted == len(before.branch) and after.block == before.branch[1 : 1 + resolution.reused]


@_step("events.append-only")
def the_visible_only_grows(step: Step) -> bool:
    """Committed and visible output is only added to, and nothing happens behind the end."""
    before, after = step.before, step.after
    is_longer = after.output[: len(before.output)] == before.output and after.published >= before.published
    return is_longer and before.phase in LIVE


@_step("scheduling.every-request-ends")
def every_step_goes_forward(step: Step) -> bool:
    """Each step raises a measure that the budget bounds, so that no schedule can go on for ever."""
    return progress(step.after) > progress(step.before)


# ---- of the requests together ------------------------------------------------------------------------------------


@_state("scheduling.in-flight-bound")
def verifications_stay_below_their_bound(state: State, scope: Scope) -> bool:
    """Verifications in flight never exceed their bound."""
    return sum(request.phase in SUBMITTED for request in state) <= scope.max_in_flight


@_state("lookahead.bounded")
def branches_stay_below_their_bound(state: State, scope: Scope) -> bool:
    """Lookahead branches never exceed their bound."""
    return sum(request.phase in BRANCHING for request in state) <= scope.max_branches


@_state("scheduling.turn-uninterrupted")
def one_resolution_at_a_time(state: State, scope: Scope) -> bool:  # noqa: ARG001
    """No turn interrupts another."""
    return sum(request.phase is Phase.RESOLUTION for request in state) <= 1


# ---- of an edge between two states -------------------------------------------------------------------------------


@_edge("scheduling.requests-independent")
def only_a_submission_moves_several(edge: Edge, scope: Scope) -> bool:  # noqa: ARG001
    """Whatever moves several requests at once is the submission of a group that was ready."""
    return len(edge.movers) == 1 or all(before.phase is Phase.READY_TO_SUBMIT for before, _ in edge.movers)


@_edge("scheduling.members-end-alone")
def members_of_a_group_are_submitted_or_fail(edge: Edge, scope: Scope) -> bool:  # noqa: ARG001
    """Behind the submission of a group each member is in flight, or has failed with its output as it was."""
    return len(edge.movers) == 1 or all(
        after.phase is Phase.VERIFICATION_IN_FLIGHT or (after.finish == "failed" and after.output == before.output)
        for before, after in edge.movers
    )


@_edge("scheduling.group-changes-nothing")
def requests_submit_and_resolve_as_they_would_alone(edge: Edge, scope: Scope) -> bool:
    """Whatever a request becomes when it is submitted or resolved it would also become with nobody beside it."""
    return edge.rule.startswith("cancellation.") or all(
        after in _alone(before, scope)
        for before, after in edge.movers
        if before.phase in {Phase.READY_TO_SUBMIT, Phase.RESOLUTION}
    )


@lru_cache(maxsize=1 << 16)
def _alone(request: Request, scope: Scope) -> frozenset[Request]:
    """What a request may become with nobody beside it."""
    return frozenset(after for _, _, (after,) in successors((request,), replace(scope, ring=False)))


@_edge("scheduling.ring")
def a_group_is_whom_the_ring_says(edge: Edge, scope: Scope) -> bool:
    """With the ring, who is ready and left out of a group stands behind its members and finds a bound reached."""
    group = [before for before, _ in edge.movers]
    phases = {(before.phase, after.phase) for before, after in edge.movers}
    if not scope.ring or (Phase.READY_TO_SUBMIT, Phase.VERIFICATION_IN_FLIGHT) not in phases:
        return True
    ready = [request for request in edge.before if request.phase is Phase.READY_TO_SUBMIT]
    in_flight = sum(request.phase in SUBMITTED for request in edge.before)
    is_full = in_flight + len(group) == scope.max_in_flight or len(group) == scope.max_group
    return ready[: len(group)] == group and (is_full or len(ready) == len(group))
