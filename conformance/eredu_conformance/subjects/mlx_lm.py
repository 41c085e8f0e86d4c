"""The subject mlx-lm: its plain and its speculative decoding, through `generate_step` and `speculative_generate_step`.

Only public functions are used. What mlx-lm has no option for is declared as absent, never imitated here: the verdict
would be about this file. Ending at an end id is the exception, since both generators leave it to their caller; so is
reading a GGUF file, which mlx-lm does not: it gets its own llama with the arrays that eredu read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.generate import generate_step, speculative_generate_step
from mlx_lm.models.cache import can_trim_prompt_cache, make_prompt_cache
from mlx_lm.sample_utils import make_logits_processors, make_sampler
from mlx_lm.utils import load_model

from eredu_conformance.protocol.capabilities import Capabilities, Feature
from eredu_conformance.protocol.errors import SkippedRunError
from eredu_conformance.protocol.options import Acceptance, RunOptions
from eredu_conformance.protocol.run import Answer, Finish, Request, Round, Run, RunResult

MAX_PROPOSALS = 16

_OWN_SEMANTICS = {
    "top_k": "ties at the k-th logit are cut to k ids; applied after top_p and min_p; 1 to V - 1 only",
    "presence_penalty": "counts the prompt too, within repeat_last_n tokens",
    "frequency_penalty": "counts the prompt too, within repeat_last_n tokens",
}


class MlxLmSubject:
    """mlx-lm as it is installed, on the default device."""

    def start(self) -> Capabilities:
        """Declare what the installed mlx-lm has."""
        return Capabilities(
            name="mlx-lm",
            version=version("mlx-lm"),
            architectures=frozenset({"llama", "qwen3"}),
            features=frozenset({Feature.SEEDS, Feature.SLIDING_WINDOW, Feature.STATISTICS, Feature.CHECKPOINTS}),
            options=frozenset(
                {
                    "temperature",
                    "top_k",
                    "top_p",
                    "min_p",
                    "logit_bias",
                    "repetition_penalty",
                    "repeat_last_n",
                    "presence_penalty",
                    "frequency_penalty",
                    "eos_ids",
                    "prefill_chunk",
                }
            ),
            acceptance=(Acceptance.MATCHING,),
            max_proposals=MAX_PROPOSALS,
            own_semantics=_OWN_SEMANTICS,
        )

    def run(self, run: Run) -> RunResult:
        """Decode one request with fresh caches."""
        if (reason := self.start().obstacle(run)) is not None:
            raise SkippedRunError(reason)
        request = run.requests[0]
        tokens = _tokens(run, request)
        seed = request.options.seed if request.options.seed is not None else run.seed
        if seed is not None:
            mx.random.seed(seed)
        return RunResult(answers=(_collect(request, tokens),))

    def stop(self) -> None:
        """Forget the loaded models."""
        _model.cache_clear()


@lru_cache(maxsize=8)
def _model(place: Path) -> Any:
    if place.is_dir():
        return load_model(place)[0]
    from eredu.checkpoints.gguf_set import read_gguf  # noqa: PLC0415 (a directory needs nothing of eredu)
    from eredu.mlx.gguf import load_gguf  # noqa: PLC0415 (likewise)

    return load_gguf(read_gguf(place))[0]


def _tokens(run: Run, request: Request) -> Iterator[tuple[int, bool]]:
    """Ids as mlx-lm will yield them, each with whether it was a proposal.

    The models load at once and not at the first token, for loading moves the global generator that a seed sets.
    """
    options = request.options
    arguments: dict[str, Any] = {
        "max_tokens": options.max_tokens,
        "sampler": _sampler(options),
        "logits_processors": _processors(options),
    }
    if run.schedule.prefill_chunk is not None:
        arguments["prefill_step_size"] = run.schedule.prefill_chunk
    prompt, target = mx.array(request.prompt, mx.uint32), _model(run.checkpoint.target)
    if options.max_proposals == 0:
        return ((int(token), False) for token, _ in generate_step(prompt, target, **arguments))
    if run.checkpoint.draft is None:
        raise SkippedRunError("the run asks for proposals and names no draft checkpoint")
    if not can_trim_prompt_cache(make_prompt_cache(target)):
        raise SkippedRunError("mlx-lm verifies no proposals on a target whose caches it cannot trim, such as this one")
    draft = _model(run.checkpoint.draft)
    arguments["num_draft_tokens"] = options.max_proposals
    steps = speculative_generate_step(prompt, target, draft, **arguments)
    return ((int(token), bool(proposed)) for token, _, proposed in steps)


def _collect(request: Request, tokens: Iterator[tuple[int, bool]]) -> Answer:
    output: list[int] = []
    proposed: list[bool] = []
    finish = Finish.LENGTH
    for token, was_proposed in tokens:
        output.append(token)
        proposed.append(was_proposed)
        if token in request.options.eos_ids:
            finish = Finish.EOS
            break
    accepted = sum(proposed)
    statistics = {"emitted": len(output), "accepted": accepted, "target_tokens": len(output) - accepted}
    return Answer(tokens=tuple(output), finish=finish, statistics=statistics, rounds=_rounds(request.options, proposed))


def _rounds(options: RunOptions, proposed: Sequence[bool]) -> tuple[Round, ...]:
    """The rounds behind an output: each ends at the target's own token, and proposes as many as the budget has left."""
    rounds: list[Round] = []
    start = 0
    for place, was_proposed in enumerate(proposed):
        if not was_proposed or place == len(proposed) - 1:
            proposals = min(options.max_proposals, options.max_tokens - start)
            rounds.append(Round(proposals=proposals, emitted=place + 1 - start))
            start = place + 1
    return tuple(rounds)


def _sampler(options: RunOptions) -> Any:
    return make_sampler(temp=options.temperature, top_p=options.top_p, min_p=options.min_p, top_k=options.top_k)


def _processors(options: RunOptions) -> Any:
    """mlx-lm's processors. A context of 0 tokens means all to it too, for `tokens[-0:]` is everything."""
    return make_logits_processors(
        logit_bias=dict(options.logit_bias),
        repetition_penalty=None if options.repetition_penalty == 1 else options.repetition_penalty,
        repetition_context_size=options.repeat_last_n,
        presence_penalty=options.presence_penalty,
        presence_context_size=options.repeat_last_n,
        frequency_penalty=options.frequency_penalty,
        frequency_context_size=options.repeat_last_n,
    )
