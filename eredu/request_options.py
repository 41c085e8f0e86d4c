"""The options of one request, by keyword, and the checked form that the scheduler takes."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TypedDict, TypeVar

from eredu.contract.constraint import Constraint
from eredu.contract.errors import OptionError
from eredu.contract.options import GenerationOptions, SamplingOptions

T = TypeVar("T")


class RequestOptions(TypedDict, total=False):
    """Options of one request; all may be left out. `Unpack` it to pass them on from a function of your own.

    Attributes:
        max_tokens: Output tokens at the most; 256.
        temperature: 0 is greedy (the default), 1 is the model's own distribution.
        top_k: Keep the k most probable ids; 0 keeps all.
        top_p: Keep the smallest head of the distribution with this mass; 1 keeps all.
        min_p: Drop ids less probable than this part of the most probable one; 0 keeps all.
        logit_bias: Added to the logits of the given ids.
        repetition_penalty: Divides positive and multiplies negative logits of ids seen lately; 1 is off.
        repeat_last_n: How many of the last tokens "lately" means; 64, and 0 is all of them.
        frequency_penalty: Subtracted for each time an id was generated.
        presence_penalty: Subtracted once from ids that were generated.
        seed: Root of the randomness, 0 to 2**64 - 1; the prompts of a batch draw from disjoint parts of it.
        stop: A text or texts that end the output; they are cut from the visible text.
        stop_sequences: Sequences of ids that end the output.
        eos_ids: Ids that end the output, instead of the checkpoint's own.
        constraint: State of a grammar before the first output token.
        raw: Continue a text as it stands, without the chat template.
    """

    max_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    logit_bias: Mapping[int, float]
    repetition_penalty: float
    repeat_last_n: int
    frequency_penalty: float
    presence_penalty: float
    seed: int | None
    stop: str | Sequence[str]
    stop_sequences: Sequence[Sequence[int]]
    eos_ids: Collection[int] | None
    constraint: Constraint | None
    raw: bool


NAMES = tuple(RequestOptions.__annotations__)
SAMPLING = frozenset(field.name for field in fields(SamplingOptions))
ELSEWHERE = {
    "temp": "temperature",
    "max_new_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "stop_strings": "stop",
    "logits_processors": "constraint",
    "draft_model": "speculation=eredu.Speculation(assistant=…)",
    "assistant": "speculation=eredu.Speculation(assistant=…)",
    "num_draft_tokens": "speculation=eredu.Speculation(proposals=…)",
    "proposals": "speculation=eredu.Speculation(proposals=…)",
    "max_proposals": "speculation=eredu.Speculation(proposals=…)",
    "acceptance": "speculation=eredu.Speculation(acceptance=…)",
    "lookahead": "speculation=eredu.Speculation(lookahead=…)",
}
"""Names that other tools have for an option, or that belong to another value, and what to write here."""


def check_names(given: Iterable[str], beside: Sequence[str] = ()) -> None:
    """Raise `OptionError` for the first name that is no option, with what may have been meant.

    Args:
        given: Names that a caller used.
        beside: What the call itself takes besides `RequestOptions`.
    """
    for name in given:
        if name not in NAMES:
            close = difflib.get_close_matches(name, [*NAMES, *beside], n=2)
            meant = ELSEWHERE.get(name) or " or ".join(close)
            hint = f"did you mean {meant}?" if meant else f"there are {', '.join((*beside, *NAMES))}"
            raise OptionError(f"there is no option {name!r}; {hint}")


def generation_options(given: RequestOptions, speculative: GenerationOptions) -> GenerationOptions:
    """Checked options of a request.

    Args:
        given: The caller's.
        speculative: What its speculation sets: acceptance rule, proposals and depth of lookahead.

    Raises `OptionError` for unknown names and for values out of range or of the wrong type.
    """
    check_names(given)
    _require_mapping(given.get("logit_bias", {}))
    stop = given.get("stop", ())
    stops = _listed("stop", stop if not isinstance(stop, str) else [stop], "a text or a list of texts")
    sequences = _listed("stop_sequences", given.get("stop_sequences", ()), "a list of lists of token ids")
    for sequence in sequences:
        _listed("an entry of stop_sequences", sequence, "a list of token ids")
    eos_ids = given.get("eos_ids")
    ended = None if eos_ids is None else _listed("eos_ids", eos_ids, "a list of token ids")
    constraint: object = given.get("constraint")
    if constraint is not None and not all(hasattr(constraint, name) for name in ("complete", "mask", "advance")):
        raise OptionError(f"constraint was {constraint!r}; expected a grammar's state (eredu.contract.constraint)")
    if "raw" in given and not isinstance(given["raw"], bool):
        raise OptionError(f"raw was {given['raw']!r}; expected True or False")
    try:
        return GenerationOptions(
            max_tokens=given.get("max_tokens", GenerationOptions.max_tokens),
            sampling=SamplingOptions(**{name: value for name, value in given.items() if name in SAMPLING}),  # type: ignore[arg-type]
            seed=given.get("seed"),
            acceptance=speculative.acceptance,
            max_proposals=speculative.max_proposals,
            lookahead_depth=speculative.lookahead_depth,
            eos_ids=ended,  # type: ignore[arg-type]  # made a set there, once they are known to be ids
            stop_sequences=tuple(tuple(sequence) for sequence in sequences),
            stop_strings=tuple(stops),
        )
    except OptionError as error:
        raise OptionError(str(error).replace("stop_strings", "stop")) from None


def _require_mapping(biases: object) -> None:
    if not isinstance(biases, Mapping):
        raise OptionError(f"logit_bias was {biases!r}; expected a dictionary from token id to bias")


def _listed(name: str, value: Collection[T], expected: str) -> list[T]:
    given: object = value
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Collection):
        raise OptionError(f"{name} was {given!r}; expected {expected}")
    return list(value)
