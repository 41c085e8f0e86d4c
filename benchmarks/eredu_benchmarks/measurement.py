"""Interleaved repeats: every setting decodes every prompt in every repeat, in an order that rotates.

What drifts (heat, other load on the machine) then falls on all settings alike, and ratios are taken inside a repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from eredu.contract.options import GenerationOptions
from eredu_benchmarks.pair import BenchmarkPair, EncodedPrompt
from eredu_benchmarks.run import Run
from eredu_benchmarks.setting import Setting


def measure(
    pair: BenchmarkPair,
    prompts: Sequence[EncodedPrompt],
    settings: Sequence[Setting],
    *,
    options: GenerationOptions,
    repeats: int,
    seed: int = 0,
    advance: Callable[[], None] = lambda: None,
) -> tuple[Run, ...]:
    """Decode all prompts in all settings, `repeats` times, after one unmeasured run of each setting.

    Args:
        pair: Who decodes.
        prompts: What is decoded.
        settings: How.
        options: Sampling and length; the seed is set here.
        repeats: How often.
        seed: Repeat r of prompt number i runs with seed + r * len(prompts) + i, in every setting.
        advance: Called after each run, `runs_of` times.
    """
    for setting in settings:
        pair.run(setting, prompts[0], replace(options, seed=seed))
        advance()
    runs = []
    for repeat in range(repeats):
        for index, prompt in enumerate(prompts):
            own = replace(options, seed=seed + repeat * len(prompts) + index)
            for setting in rotated(settings, repeat + index):
                runs.append(pair.run(setting, prompt, own, repeat=repeat))
                advance()
    return tuple(runs)


def runs_of(prompts: int, settings: int, repeats: int) -> int:
    """Decodings that `measure` makes, the unmeasured ones included."""
    return settings * (1 + prompts * repeats)


def rotated(settings: Sequence[Setting], by: int) -> list[Setting]:
    """The settings, begun with another one each time."""
    start = by % len(settings)
    return [*settings[start:], *settings[:start]]
