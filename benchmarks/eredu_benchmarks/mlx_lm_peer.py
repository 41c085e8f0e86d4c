"""mlx-lm's own loops, timed beside eredu's: `generate_step` and `speculative_generate_step`, greedy.

The only module here that imports mlx-lm. Both get the very model objects that eredu loaded, fresh caches, the same
prompt ids, K and end-of-sequence ids.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import mlx.core as mx
from mlx_lm.generate import generate_step, speculative_generate_step

from eredu_benchmarks.run import Timing
from eredu_benchmarks.stopwatch import timed_steps


def decode_greedily(
    prompt: tuple[int, ...],
    target: Any,
    assistant: Any,
    *,
    proposals: int,
    max_tokens: int,
    eos_ids: frozenset[int],
) -> tuple[tuple[int, ...], Timing]:
    """Decode with mlx-lm; `proposals` 0 takes its plain loop.

    Returns:
        The output ids, an end-of-sequence id included, and when they came.
    """
    started_s = time.perf_counter()
    ids = mx.array(prompt, dtype=mx.uint32)
    steps = (
        _plain(ids, target, max_tokens) if proposals == 0 else _rounds(ids, target, assistant, proposals, max_tokens)
    )
    return timed_steps(steps, started_s=started_s, eos_ids=eos_ids)


def _plain(ids: mx.array, target: Any, max_tokens: int) -> Generator[list[int], None, None]:
    for token, _ in generate_step(ids, target, max_tokens=max_tokens):
        yield [int(token)]


def _rounds(
    ids: mx.array, target: Any, assistant: Any, proposals: int, max_tokens: int
) -> Generator[list[int], None, None]:
    """The tokens of one verification after the other: mlx-lm says of each token whether the draft supplied it."""
    round_: list[int] = []
    steps = speculative_generate_step(ids, target, assistant, num_draft_tokens=proposals, max_tokens=max_tokens)
    for token, _, drafted in steps:
        round_.append(int(token))
        if not drafted:
            yield round_
            round_ = []
    if round_:
        yield round_
