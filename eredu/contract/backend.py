"""The protocols of a backend, which lends executors.

A backend prepares executors, caches, sampling state, streams and completions, and lends them for the length of a
with-block, or of one call to a visitor.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar, runtime_checkable

from eredu.contract.capability import MtpCapability
from eredu.contract.executor import SpeculativeExecutor
from eredu.contract.terminal import OutputText

DrafterT_contra = TypeVar("DrafterT_contra", contravariant=True)
ResultT = TypeVar("ResultT")
ResultT_co = TypeVar("ResultT_co", covariant=True)


class SpeculativeGenerationVisitor(Protocol[ResultT_co]):
    """Receives the executor that a backend lends, and uses it while the backend keeps it alive."""

    def visit(self, executor: SpeculativeExecutor[Any, Any, Any]) -> ResultT_co:
        """Run a schedule on the executor."""


@runtime_checkable
class GenerationBackend(Protocol):
    """A backend that decodes, if only plainly. Backends derive from it and get the visitor's form of lending."""

    @property
    def name(self) -> str:
        """Name for messages: what the backend runs on."""

    @property
    def eos_ids(self) -> frozenset[int]:
        """Ids that end an output unless the request names its own."""

    def output_text(self, stop_strings: Sequence[str]) -> OutputText | None:
        """Visible text of one output, cut at the stop strings; None where the backend has no tokenizer."""

    def plain_executor(self) -> AbstractContextManager[SpeculativeExecutor[Any, Any, Any]]:
        """An executor that proposes nothing, lent until the with-block ends."""

    def lend_plain(self, visitor: SpeculativeGenerationVisitor[ResultT]) -> ResultT:
        """Lend `plain_executor` for the length of a visit."""
        with self.plain_executor() as executor:
            return visitor.visit(executor)


@runtime_checkable
class SpeculativeGenerationBackend(GenerationBackend, Protocol[DrafterT_contra]):
    """A backend that decodes with drafters of its own type."""

    def mtp_capability(self, drafter: DrafterT_contra | None) -> MtpCapability:
        """What decoding with this drafter (None: with the target's own heads) would be."""

    def speculative_executor(
        self, drafter: DrafterT_contra | None
    ) -> AbstractContextManager[SpeculativeExecutor[Any, Any, Any]]:
        """An executor that proposes with the drafter, lent until the with-block ends.

        Entering raises `CapabilityError` where it cannot be exact.
        """

    def lend_speculative(
        self,
        drafter: DrafterT_contra | None,
        visitor: SpeculativeGenerationVisitor[ResultT],
    ) -> ResultT:
        """Lend `speculative_executor` for the length of a visit."""
        with self.speculative_executor(drafter) as executor:
            return visitor.visit(executor)
