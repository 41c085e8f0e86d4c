"""What models made of prompts that come again: kept, so that forcing an output costs the output alone.

Each was read from an empty cache, and what decoding did has no part in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from eredu_validation.measures.inside import FittedModel, PredictionHeads, SequenceCache

PROMPT_CHUNK = 512
"""Prompt tokens fed at once."""
KEPT_TOKENS = 8192
"""Tokens of all prompts that are kept: about a gigabyte of keys and values of an 8B model."""


@dataclass(frozen=True, eq=False)
class PromptState:
    """What a model made of a prompt but its last token.

    Attributes:
        cache: Its caches; to be cloned, never fed.
        hidden: The hidden states that heads read, each of shape (rows, hidden size); empty where nobody asked.
    """

    cache: SequenceCache
    hidden: Sequence[mx.array] = ()


@dataclass(eq=False)
class PromptStates:
    """Those of some prompts, for one target with its heads and one assistant.

    The first that come stay: prompts are taken in turn, and a store that drops the oldest would always miss.

    Attributes:
        room: Tokens that may still be kept.
    """

    room: int = KEPT_TOKENS
    _kept: dict[tuple[int, bool, tuple[int, ...]], PromptState] = field(default_factory=dict)

    def of(self, model: FittedModel, prompt: Sequence[int], heads: PredictionHeads | None = None) -> PromptState:
        """The state of a prompt, with the hidden states that `heads` read if they are given; read if it is new."""
        # Target and assistant are of one class; their decoders outlive the store.
        key = id(model.model), heads is not None, tuple(prompt)
        if key in self._kept:
            return self._kept[key]
        state = read_prompt(model, prompt, heads)
        if len(prompt) <= self.room:
            self.room -= len(prompt)
            self._kept[key] = state
        return state


def read_prompt(model: FittedModel, prompt: Sequence[int], heads: PredictionHeads | None = None) -> PromptState:
    """Feed a prompt but its last token to an empty cache."""
    cache, hidden = model.new_cache(), []
    for start in range(0, len(prompt) - 1, PROMPT_CHUNK):
        chunk = prompt[start : min(len(prompt) - 1, start + PROMPT_CHUNK)]
        record = cache.prefill(model.model, chunk)
        if heads is not None:
            hidden.append(heads.hidden(record)[: len(chunk)])
        mx.eval(*cache.arrays(), *hidden[-1:])
    return PromptState(cache, hidden)
