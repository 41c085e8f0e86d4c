"""A planted fault: one decision of the reference engine, taken wrongly, with its rule and its killer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from eredu_reference import PIECES, Pieces

Replacement = Mapping[str, object]
"""Pieces of the engine by name. One decision may need several pieces where they share what they remember."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One wrong engine.

    Attributes:
        name: What the engine does wrongly.
        rule: The rule of the spec that it breaks.
        source: The public report that it copies, or "constructed".
        killed_by: Id of the check that must kill it, or a shell pattern over ids of which one must; `scripted.…` is
            one of `oracles.EXPERIMENTS`, for what no check can see.
        story: How a real engine comes to do this, and why it is hard to see.
        replace: The replaced pieces; a function where they remember something, so that each engine starts afresh.
    """

    name: str
    rule: str
    source: str = "constructed"
    killed_by: str
    story: str
    replace: Replacement | Callable[[], Replacement]

    def engine(self) -> Pieces:
        """The reference engine with this one fault."""
        pieces = self.replace() if callable(self.replace) else self.replace
        return replace(PIECES, **pieces)  # type: ignore[arg-type]
