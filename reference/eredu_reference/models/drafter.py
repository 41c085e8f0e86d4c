"""A drafter: a model, and what the engine must know before it lets it propose."""

from __future__ import annotations

from dataclasses import dataclass

from eredu_reference.models.model import Model


@dataclass(frozen=True)
class Drafter:
    """A model that proposes.

    Attributes:
        model: The model.
        max_proposals: The validated cap on proposals a round; 0 proposes nothing.
        reads_hidden: Whether each input comes with the target's hidden state before it.
        exact_promotion: Whether a branch drafted from a clone of the frontier is the block that drafting after the
            commit would give.
        raw: Whether its rows are taken as they are, past mask and sampling: how scripts propose what is illegal.
    """

    model: Model
    max_proposals: int = 64
    reads_hidden: bool = False
    exact_promotion: bool = True
    raw: bool = False
