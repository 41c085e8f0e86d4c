"""One prompt of a call, tokenized, and how it becomes a request of the scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from eredu.contract.backend import GenerationBackend
from eredu.contract.constraint import Constraint
from eredu.contract.errors import OptionError
from eredu.contract.options import GenerationOptions
from eredu.contract.randomness import RequestRandomness
from eredu.contract.request import GenerationRequest


@dataclass(frozen=True, kw_only=True)
class PreparedRequest:
    """One prompt of a call, tokenized.

    Attributes:
        prompt: Prompt token ids, at least one.
        options: Its options.
        constraint: Its grammar, before the first output token.
    """

    prompt: Sequence[int]
    options: GenerationOptions = field(default_factory=GenerationOptions)
    constraint: Constraint | None = None

    def resolve(self, backend: GenerationBackend, *, index: int, seed: int) -> GenerationRequest:
        """The request that the scheduler takes: end-of-sequence ids, randomness and text filled in.

        Args:
            backend: What will decode it.
            index: Its number within the call.
            seed: Root for a request without a seed of its own.

        Raises `OptionError` for stop strings where the backend has no tokenizer.
        """
        options = self.options
        if options.eos_ids is None:
            options = replace(options, eos_ids=backend.eos_ids)
        text = backend.output_text(options.stop_strings)
        if text is None and options.stop_strings:
            raise OptionError(
                "stop_strings need a tokenizer, and this model was loaded without one; use stop_sequences"
            )
        own = options.seed is not None
        return GenerationRequest(
            index=index,
            prompt=tuple(self.prompt),
            options=options,
            randomness=RequestRandomness.from_seed(options.seed or 0)
            if own
            else RequestRandomness.from_batch(seed, index),
            constraint=self.constraint,
            text=text,
        )
