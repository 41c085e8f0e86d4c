"""Admission of a request: it fits the model, or an error says why not."""

from __future__ import annotations

from collections.abc import Iterable

from eredu.contract.errors import OptionError
from eredu.contract.executor import ExecutorTraits
from eredu.contract.request import GenerationRequest
from eredu.contract.terminal import StopSequences, TerminalWatch


def admit(request: GenerationRequest, traits: ExecutorTraits) -> TerminalWatch:
    """Check a request against the model and return what can end its output.

    The last output token is never an input, so an output may be one token longer than the context leaves room for.
    Raises `OptionError` for an empty prompt, one that does not fit, ids outside the vocabulary, and a grammar that
    leaves nothing to generate.
    """
    prompt, options = request.prompt, request.options
    if not prompt:
        raise OptionError("the prompt has no token; expected at least one, which leads the first verification")
    # rule: terminal.budget-counts-tokens
    room = traits.target_context - len(prompt) + 1
    if room < 1:
        raise OptionError(
            f"the prompt has {len(prompt)} tokens and the target takes {traits.target_context}; shorten it"
        )
    if request.constraint is not None and request.constraint.complete:
        raise OptionError("the grammar is complete before the first output token, so there is nothing to generate")
    _check_ids("prompt token", prompt, traits.vocabulary_size)
    _check_ids("logit_bias id", options.sampling.logit_bias, traits.vocabulary_size)
    return TerminalWatch(
        remaining=options.max_tokens,
        room=room,
        eos_ids=options.eos_ids or frozenset(),
        stops=StopSequences(options.stop_sequences),
        text=request.text,
        constraint=request.constraint,
    )


def _check_ids(name: str, ids: Iterable[int], vocabulary_size: int) -> None:
    outside = [token for token in ids if not 0 <= token < vocabulary_size]
    if outside:
        raise OptionError(f"{name} {outside[0]} is outside the vocabulary of {vocabulary_size} ids")
