"""A verification in flight: inputs that were submitted, and rows that exist only once it was waited for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eredu_reference.models import Output


class Verification:
    """A fake stream of one step: the work is done by `wait`, and until then the buffer holds what was in it before.

    Attributes:
        inputs: The leading token and the proposals.
        buffer: One output for each input; stale until the work is done.
    """

    def __init__(self, inputs: tuple[int, ...], work: Callable[[], Sequence[Output]], stale: Sequence[Output]) -> None:
        self.inputs = inputs
        self.buffer = tuple(stale)
        self._work: Callable[[], Sequence[Output]] | None = work

    def wait(self) -> tuple[Output, ...]:
        """Do the work, once, and return its outputs."""
        if self._work is not None:
            work, self._work = self._work, None
            self.buffer = tuple(work())
        return self.buffer


def await_rows(verification: Verification) -> tuple[Output, ...]:
    """Outputs of a verification, after its completion."""
    return verification.wait()
