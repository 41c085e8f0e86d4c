"""The drafter of plain decoding: it proposes nothing, and has nothing to remember."""

from __future__ import annotations

from eredu.contract.drafter import DrafterTraits, History, Reads
from eredu.contract.errors import CapabilityError
from eredu.contract.executor import CommitPlan
from eredu.contract.request import GenerationRequest
from eredu.drafters.draft_block import MlxBlock
from eredu.drafters.target_view import TargetView


class NoDrafter:
    """Proposes nothing."""

    reads = Reads.HISTORY
    traits = DrafterTraits(max_proposals=0)

    def open(self, request: GenerationRequest) -> None:
        """No state."""

    def prefill(self, state: None, history: History, fed: range, view: TargetView) -> None:
        """Read nothing."""

    def propose(self, state: None, history: History, block: MlxBlock, count: int, view: TargetView) -> None:  # noqa: ARG002
        """Leave the empty block of plain decoding empty. Raises `CapabilityError` if proposals are asked for."""
        if count:
            raise CapabilityError(f"{count} proposals were asked for where there is no drafter")

    def branch(self, state: None, history: History, branch: MlxBlock, count: int, view: TargetView) -> None:  # noqa: ARG002
        """Raises `CapabilityError`: plain decoding has no branches."""
        raise CapabilityError("a lookahead branch was asked for where there is no drafter")

    def settle(self, state: None, history: History, plan: CommitPlan, view: TargetView) -> None:
        """Settle nothing."""

    def close(self, state: None, history: History) -> None:
        """Close nothing."""
