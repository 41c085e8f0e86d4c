"""A benchmark from its plan to its comparisons: the settings at each temperature, and the alignment if asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice

from eredu.contract.errors import OptionError
from eredu.contract.options import MAX_PROPOSALS, GenerationOptions, SamplingOptions
from eredu_benchmarks.alignment import Alignment, align
from eredu_benchmarks.head_alignment import align_heads
from eredu_benchmarks.held_out import HeldOutChats
from eredu_benchmarks.measurement import measure, runs_of
from eredu_benchmarks.pair import BenchmarkPair, EncodedPrompt
from eredu_benchmarks.report import TemperatureReport
from eredu_benchmarks.setting import settings
from eredu_benchmarks.summary import summarise

Advance = Callable[[], None]
StepProgress = Callable[[str, int], Advance]
"""Told the name and the length of a piece of work; returns what to call after each part of it."""


@dataclass(frozen=True, kw_only=True)
class BenchmarkPlan:
    """What a benchmark measures, validated before anything is loaded.

    Attributes:
        proposals: The K to compare, each once.
        temperatures: The temperatures to compare at, each once.
        options: Length and acceptance rule of every decoding.
        repeats: Interleaved repeats.
        seed: Root of the randomness.
        peers: Whether mlx-lm's and mlx-vlm's loops are timed too, at temperature 0.
        chats: Held-out chats for the alignment, or None.
        chat_count: How many of them a temperature; None takes all.
    """

    proposals: tuple[int, ...]
    temperatures: tuple[float, ...]
    options: GenerationOptions
    repeats: int
    seed: int = 0
    peers: bool = False
    chats: HeldOutChats | None = None
    chat_count: int | None = None

    def __post_init__(self) -> None:
        for count in self.proposals:
            if not 1 <= count <= MAX_PROPOSALS:
                raise OptionError(
                    f"K was {count}; expected 1 to {MAX_PROPOSALS}: plain decoding is always measured beside it"
                )
        if self.repeats < 1:
            raise OptionError(f"repeats was {self.repeats}; expected at least 1, and 5 or more for figures to quote")
        if self.chat_count is not None and self.chat_count < 2:
            raise OptionError(f"{self.chat_count} held-out chats were asked for; a standard error needs at least 2")
        if self.peers and 0 not in self.temperatures:
            raise OptionError("peers are timed under greedy decoding; add temperature 0, or leave the peers out")
        for temperature in self.temperatures:
            self.options_at(temperature)

    def options_at(self, temperature: float) -> GenerationOptions:
        """Options of the decodings at one temperature. Raises `OptionError` if it is out of range."""
        return replace(self.options, sampling=SamplingOptions(temperature=temperature))


def compare(
    pair: BenchmarkPair, prompts: tuple[EncodedPrompt, ...], plan: BenchmarkPlan, progress: StepProgress
) -> tuple[TemperatureReport, ...]:
    """Measure all settings at each temperature of the plan."""
    reports = []
    for temperature in plan.temperatures:
        chosen = settings(plan.proposals, peers=plan.peers and temperature == 0, heads=pair.assistant is None)
        runs = measure(
            pair,
            prompts,
            chosen,
            options=plan.options_at(temperature),
            repeats=plan.repeats,
            seed=plan.seed,
            advance=progress(f"temperature {temperature:g}", runs_of(len(prompts), len(chosen), plan.repeats)),
        )
        reports.append(TemperatureReport(temperature, summarise(runs)))
    return tuple(reports)


def align_all(pair: BenchmarkPair, plan: BenchmarkPlan, progress: StepProgress) -> tuple[Alignment, ...]:
    """Measure teacher-forced acceptance at each temperature of the plan's chats.

    Heads are measured as they are wired; at the highest temperature, under every other wiring too.
    """
    if plan.chats is None:
        return ()
    alignments = []
    for temperature in sorted(plan.chats.by_temperature, reverse=True):
        chats = plan.chats.spread(temperature, plan.chat_count)
        advance = progress(f"held-out chats, temperature {temperature:g}", len(chats))
        if pair.assistant is not None:
            alignments.append(align(pair, chats, temperature, advance=advance))
            continue
        wirings = pair.heads.variants()
        if alignments:
            wirings = dict(islice(wirings.items(), 1))
        alignments.extend(align_heads(pair, wirings, chats, temperature, advance=advance).values())
    return tuple(alignments)
