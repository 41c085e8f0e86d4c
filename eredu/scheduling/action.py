"""What a turn may do: the kinds of action, and the turn that takes one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic

from eredu.contract.executor import BlockT, SequenceT, VerificationT
from eredu.scheduling.request_state import RequestState


class Action(StrEnum):
    """Kinds of action; the values are the names that `ScheduleStatistics.actions` publishes."""

    PREFILL = "prefill"
    DRAFT = "draft"
    SUBMIT = "submit"
    BEGIN_BRANCH = "begin_branch"
    BRANCH = "branch"
    RESOLVE = "resolve"


@dataclass(frozen=True, slots=True)
class Turn(Generic[SequenceT, BlockT, VerificationT]):
    """One action, and whom it serves.

    Attributes:
        action: What is done.
        members: The group that is submitted, in the order of the ring; of any other action one request.
    """

    action: Action
    members: tuple[RequestState[SequenceT, BlockT, VerificationT], ...]
