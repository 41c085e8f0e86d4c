"""When a validation has drawn enough, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass

from eredu.contract.errors import OptionError
from eredu_validation.evidence import Terms, design_of

RESOLVE = 0.05
"""Total variation that is resolved unless something else is asked for."""


@dataclass(frozen=True, kw_only=True)
class Goal:
    """When enough was drawn.

    Attributes:
        tokens: So many tokens; None asks for none.
        resolve: A total variation that is resolved; None asks for none.
    """

    tokens: int | None = None
    resolve: float | None = None

    @classmethod
    def of(cls, tokens: int | None, resolve: float | None) -> Goal:
        """From the command line. Raises `OptionError` for both, and for values out of range."""
        if tokens is not None and resolve is not None:
            raise OptionError("--tokens and --resolve are two goals for one validation; give one of them")
        if tokens is not None and tokens < 1:
            raise OptionError(f"--tokens was {tokens}; expected at least 1")
        if resolve is not None and not 0 < resolve < 1:
            raise OptionError(f"--resolve was {resolve}; expected a total variation above 0 and below 1, such as 0.02")
        return cls(tokens=tokens, resolve=RESOLVE if tokens is None and resolve is None else resolve)

    def needed(self, terms: Terms) -> int | None:
        """Tokens that reach it; None where no number of them does."""
        if self.tokens is not None:
            return self.tokens
        return None if self.resolve is None else design_of(terms).tokens_needed(self.resolve)


@dataclass(frozen=True, kw_only=True)
class LawProgress:
    """Where a run stands.

    Attributes:
        tokens: Tokens taken, with those that are being drawn.
        log_e: Logarithm of the e-value of those taken.
        resolved: Total variation that those taken resolve.
    """

    tokens: int
    log_e: float
    resolved: float
