"""Speculative decoding of several requests in rounds: one submission for all of them, each resolved alone.

Everything but the submission is what `engine` does for one request, member by member. An end, a cancellation or a
failure is its member's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from eredu_reference.decoding import Decoding, Event, Observer, Setting, no_observer
from eredu_reference.engine import ACTIONS, close_round, keep, open_request, prefill, restore
from eredu_reference.errors import Cancelled, ReferenceFailure
from eredu_reference.groups import Group
from eredu_reference.models import Drafter, Model
from eredu_reference.pieces import PIECES, Along, Pieces, RoundStep
from eredu_reference.prefix import PrefixStore
from eredu_reference.report import Report, report_of
from eredu_reference.requests import Request, Schedule
from eredu_reference.settlement import abandon, cancel
from eredu_reference.sources import RandomSource

Action = Callable[[Setting, Decoding], None]


@dataclass
class Member:
    """One request of a call.

    Attributes:
        number: Its number within the call.
        setting: Its setting, with a log and an observer of its own.
        state: Its state.
        end: How it left its round: `cancelled` or `failed`; empty while it has not.
        failure: What was raised, where it failed.
    """

    number: int
    setting: Setting
    state: Decoding
    end: str = ""
    failure: Exception | None = None

    @property
    def is_live(self) -> bool:
        """Whether it has a next round."""
        return not self.end and self.state.finish is None

    @property
    def ending(self) -> str:
        """How it leaves or is about to leave the round: `cancelled`, `failed`, or `finished`; empty if it goes on."""
        work = self.state.work
        is_finished = work is not None and work.resolution is not None and work.resolution.finish is not None
        return self.end or ("finished" if is_finished else "")

    def take(self, action: Action) -> None:
        """Take a step; whatever it raises ends this member, and its round is given up."""
        try:
            action(self.setting, self.state)
        except Cancelled:
            cancel(self.setting, self.state)
            self.end = "cancelled"
        except Exception as failure:
            abandon(self.setting, self.state)
            self.end, self.failure = "failed", failure


def decode_together(
    target: Model,
    drafter: Drafter | None,
    requests: Sequence[Request],
    *,
    schedule: Schedule = Schedule(),  # noqa: B008
    pieces: Pieces = PIECES,
    sources: Sequence[RandomSource] | None = None,
    observers: Sequence[Observer] | None = None,
    logs: Sequence[list[Event]] | None = None,
    store: PrefixStore | None = None,
) -> list[Report | Exception]:
    """Decode several requests, whose verifications are submitted together round by round.

    Args:
        target: The model whose law counts.
        drafter: The model that proposes; None proposes nothing.
        requests: What is asked.
        schedule: What may be drafted ahead.
        pieces: The engine's parts.
        sources: Where the random numbers of each request come from; None is each request's own seed.
        observers: Called after every event of its request; may raise `Cancelled` to cancel that request there.
        logs: The log of each request, to append to; None starts them.
        store: Caches of earlier calls, used and added to; None keeps none.

    Returns:
        The report of each request, or what it failed with. Raises `RequestError` for models that cannot work together.
    """
    members = []
    for number, request in enumerate(requests):
        observe = no_observer if observers is None else observers[number]
        setting = Setting(target, drafter, schedule, pieces, observe, [] if logs is None else logs[number])
        state = open_request(setting, request, None if sources is None else sources[number])
        members.append(Member(number, setting, state))
    for member in members:
        if store is not None:
            member.take(partial(restore, store=store))
        if not member.end:
            member.take(prefill)
    while group := [member for member in members if member.is_live]:
        run_round(pieces, group)
    for member in members:
        if store is not None and member.failure is None:
            keep(member.setting, member.state, store)
    return [member.failure or report_of(member.state, member.setting.events) for member in members]


def run_round(pieces: Pieces, group: Sequence[Member]) -> None:
    """Take the steps of one round, each for every member that is still in it."""
    for step in pieces.steps:
        going_on = [member for member in group if not member.end]
        if step is RoundStep.SUBMIT and going_on:
            submit_together(going_on)
            continue
        for member in going_on:
            others = [other.ending for other in group if other is not member and other.ending]
            member.take(_step_beside(step, pieces.beside(step, others)))
    for member in group:
        if not member.end:
            member.take(close_round)


def submit_together(members: Sequence[Member]) -> None:
    """Submit the verifications of the members as one group."""
    states = [member.state for member in members]
    group = Group(members[0].setting, states, [member.number for member in members])
    for place, member in enumerate(members):
        member.take(partial(_join, group, place))


def _join(group: Group, place: int, setting: Setting, state: Decoding) -> None:  # noqa: ARG001
    group.join(setting, place)


def _step_beside(step: RoundStep, along: Along) -> Action:
    """What a member does in a step, by what the ends of the others make of it."""

    def leave(setting: Setting, state: Decoding) -> None:  # noqa: ARG001
        raise Cancelled if along is Along.CANCELLED else ReferenceFailure("another request of the group failed")

    def skip(setting: Setting, state: Decoding) -> None:
        """Stand still."""

    return {Along.GOES_ON: ACTIONS[step], Along.SKIPS: skip}.get(along, leave)
