"""An option with an assistant is the option without: every sampling option, and rejection and block by replay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from eredu.contract.options import GenerationOptions, MtpSchedulerOptions
from eredu.engine.checkpoint import LoadedCheckpoint
from eredu.engine.mlx_backend import Lookup
from eredu.results import GenerationResult
from eredu_reference.acceptance import block_length, block_weights, rejection_length, residual
from eredu_reference.requests import Sampling
from eredu_reference.rows import processed_row
from eredu_reference.sources import FixedUniform, ThreefrySource
from eredu_spec.randomness import Address, Role, coin, key, root

Decode = Callable[..., GenerationResult]
Row = NDArray[np.float64]

OPTIONS: dict[str, dict[str, Any]] = {
    "repetition": {"repetition_penalty": 1.6, "repeat_last_n": 6},
    "repetition-all": {"repetition_penalty": 1.3, "repeat_last_n": 0},
    "frequency": {"frequency_penalty": 0.9},
    "presence": {"presence_penalty": 1.4},
    "bias": {"logit_bias": {3: 2.5, 9: -100.0}},
    "top-k": {"top_k": 5},
    "top-p": {"top_p": 0.7},
    "min-p": {"min_p": 0.1},
    "all": {
        "repetition_penalty": 1.2,
        "repeat_last_n": 9,
        "frequency_penalty": 0.3,
        "presence_penalty": 0.4,
        "logit_bias": {1: 1.0},
        "top_k": 12,
        "top_p": 0.95,
        "min_p": 0.02,
    },
}


# rule: verify.processed-order, verify.rows-see-prefix
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("temperature", [0.0, 1.1], ids=["greedy", "coupled"])
def test_every_option_crosses_speculation(llama: Any, decode: Decode, name: str, temperature: float) -> None:
    settings = {"temperature": temperature, "acceptance": "coupled", "max_tokens": 40, **OPTIONS[name]}
    plain = decode(llama, plain=True, **settings)
    bare = decode(llama, plain=True, temperature=temperature, acceptance="coupled", max_tokens=40)
    filters = {"top-k", "top-p", "min-p"}
    if temperature > 0 or name not in filters:  # filters keep the argmax
        assert plain.tokens != bare.tokens, "the option changes nothing here, so this test could not fail"
    for schedule in (MtpSchedulerOptions(adaptive_lookahead=False), MtpSchedulerOptions(lookahead=False)):
        result = decode(llama, schedule=schedule, max_proposals=3, **settings)
        assert result.tokens == plain.tokens
        assert result.statistics.accepted > 0


class Replay:
    """Speculative decoding of one request in float64 over logits of the models themselves, one row at a time."""

    def __init__(
        self, target: LoadedCheckpoint, assistant: LoadedCheckpoint, options: GenerationOptions, prompt: Sequence[int]
    ) -> None:
        self.models = (target.model, assistant.model)
        self.options = options
        self.prompt = tuple(prompt)
        chosen = options.sampling
        self.sampling = Sampling(
            **{name: getattr(chosen, name) for name in type(chosen).__dataclass_fields__ if name != "logit_bias"},
            logit_bias=dict(chosen.logit_bias),
        )
        self.root = root(options.seed or 0)
        self.source = ThreefrySource(self.root)

    def rows(self, side: int, history: tuple[int, ...], count: int) -> list[Row]:
        """Processed rows behind the last `count` prefixes of a history, from one forward pass without a cache."""
        logits = np.array(self.models[side](mx.array([history], dtype=mx.uint32))[0], dtype=np.float64)
        return [
            processed_row(
                logits[length - 1],
                history=history[:length],
                prompt_length=len(self.prompt),
                sampling=self.sampling,
                mask=None,
            )
            for length in range(len(history) - count + 1, len(history) + 1)
        ]

    def draw(self, role: Role, position: int, row: Row, index: int = 0) -> int:
        return self.source.categorical(Address(role, position, index), row)

    def run(self) -> tuple[int, ...]:
        output: list[int] = []
        while len(output) < self.options.max_tokens:
            count = min(self.options.max_proposals, self.options.max_tokens - len(output) - 1)
            output += self.round(tuple(output), count)
        return tuple(output)

    def round(self, output: tuple[int, ...], count: int) -> list[int]:
        start, block_rule = len(output), self.options.acceptance == "block"
        proposals: list[int] = []
        q: list[Row] = []
        for index in range(count):
            q += self.rows(1, (*self.prompt, *output, *proposals), 1)
            address = (start, index) if block_rule else (start + index, 0)
            proposals.append(self.draw(Role.DRAFT, address[0], q[-1], address[1]))
        p = self.rows(0, (*self.prompt, *output, *proposals), count + 1)

        def coin_at(index: int) -> FixedUniform:
            address = Address(Role.ACCEPT, start, index) if block_rule else Address(Role.ACCEPT, start + index)
            return FixedUniform(float(coin(key(self.root, address))))

        accepted = (block_length if block_rule else rejection_length)(proposals, p, q, coin_at)
        if accepted == count:
            return [*proposals, self.draw(Role.TARGET, start + count, p[count])]
        weight = block_weights(proposals, p, q)[accepted] if block_rule else 1.0
        left = residual(p[accepted], q[accepted], weight)
        return [*proposals[:accepted], self.draw(Role.RESIDUAL, start + accepted, left)]


class LookupReplay(Replay):
    """The same with suffix lookup, by comparing with every earlier place; each proposal's distribution is a point."""

    def rows(self, side: int, history: tuple[int, ...], count: int) -> list[Row]:
        if side == 0:
            return super().rows(side, history, count)
        row = np.zeros(40)
        row[looked_up(history)] = 1.0
        return [row]


def looked_up(history: tuple[int, ...]) -> int:
    """What followed the longest earlier occurrence of the history's end, the latest of equal ones; else its last id."""
    found = (0, history[-1])
    for place in range(1, len(history)):
        pairs = zip(reversed(history[:place]), reversed(history), strict=False)
        length = next((number for number, (mine, other) in enumerate(pairs) if mine != other), place)
        if length >= max(1, found[0]):
            found = (length, history[place])
    return found[1]


# rule: draft.recorded-distribution, verify.same-law, lookahead.exact-promotion-only
@pytest.mark.parametrize("rule", ["rejection", "block"])
@pytest.mark.parametrize("name", ["bare", "all"])
def test_tokens_by_lookup_are_those_of_a_float64_replay(
    llama: Any, decode: Decode, make_options: Callable[..., GenerationOptions], rule: str, name: str
) -> None:
    """Lookahead is on: a promoted branch that drafting after the commit would not give would change the text."""
    prompt = (1, 2, 3, 4, 1, 2, 3, 5, 1, 2)
    lengths: set[int] = set()
    promoted = 0
    for count, seed in ((2, 11), (4, 12), (3, 13)):
        settings: dict[str, Any] = {
            "temperature": 0.25,
            "acceptance": rule,
            "max_proposals": count,
            "seed": seed,
            "max_tokens": 48,
            **OPTIONS.get(name, {}),
        }
        schedule = MtpSchedulerOptions(adaptive_lookahead=False)
        result = decode((llama[0], Lookup()), prompt=prompt, schedule=schedule, **settings)
        assert result.tokens == LookupReplay(llama[0], llama[0], make_options(**settings), prompt).run()
        result.statistics.check()
        lengths |= {n for n, rounds in enumerate(result.statistics.rounds_by_length) if rounds}
        promoted += result.statistics.lookahead_promoted
    assert len(lengths) > 1
    assert promoted > 0 or name == "all"


# rule: draft.recorded-distribution, randomness.by-position, randomness.by-round, randomness.shared-noise
# rule: verify.same-law
@pytest.mark.parametrize("rule", ["rejection", "block"])
@pytest.mark.parametrize("name", ["bare", "all"])
def test_sampled_tokens_are_those_of_a_float64_replay(
    pair: Any, decode: Decode, make_options: Callable[..., GenerationOptions], rule: str, name: str
) -> None:
    """Every proposal, coin, residual and bonus at its own address: one wrong draw would change the text."""
    prompt = (1, 2, 3, 4, 5)
    lengths: set[int] = set()
    for count, seed in ((3, 11), (5, 12)):
        settings: dict[str, Any] = {
            "temperature": 0.9,
            "acceptance": rule,
            "max_proposals": count,
            "seed": seed,
            "max_tokens": 32,
            **OPTIONS.get(name, {}),
        }
        result = decode(pair, prompt=prompt, schedule=MtpSchedulerOptions(adaptive_lookahead=False), **settings)
        assert result.tokens == Replay(pair[0], pair[1].checkpoint, make_options(**settings), prompt).run()
        lengths |= {n for n, rounds in enumerate(result.statistics.rounds_by_length) if rounds}
    assert len(lengths) > 2
