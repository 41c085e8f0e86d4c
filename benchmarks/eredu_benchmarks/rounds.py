"""Where the time of a round goes: `python -m eredu_benchmarks.rounds MODEL`.

Calls of the executor are timed one by one. What of a round lies outside all of them is the scheduler's own: phases,
statistics, events, text. In a second pass the device is waited for behind every commit, which shows what a rollback
costs: left alone, it is done lazily with the next verification.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import mlx.core as mx
import typer
from rich.table import Table

from eredu.commands.console import versions
from eredu.commands.pair import encode_prompt, load_pair, require_drafter
from eredu.contract.backend import SpeculativeGenerationBackend
from eredu.contract.capability import MtpCapability
from eredu.contract.executor import SpeculativeExecutor
from eredu.contract.options import USUAL_PROPOSALS, GenerationOptions, MtpSchedulerOptions, SamplingOptions
from eredu.contract.terminal import OutputText
from eredu.engine.mlx_backend import Assistant, MlxBackend
from eredu.files.plain_console import PlainConsole
from eredu.loaded import LoadedModel
from eredu.model import Model
from eredu.prepared import PreparedRequest
from eredu_benchmarks.machine import describe_machine
from eredu_benchmarks.timed_executor import CallTimes, Settle, TimedExecutor

TEXT = "Write a story about a lighthouse."
CALLS = ("draft", "submit", "wait", "commit")
"""Executor calls of a round, lookahead off."""


@dataclass(frozen=True, kw_only=True)
class RoundTimes:
    """One round of a request, on average.

    Attributes:
        proposals: K.
        rounds: Rounds measured.
        round_s: Seconds of a round, behind the prompt.
        calls_s: Seconds of a round within each executor call.
        scheduler_share: Part of a round outside all calls.
        rollback_share: Part of a round that the commit takes when the device is waited for behind it; None for
            plain decoding, which rolls nothing back.
    """

    proposals: int
    rounds: int
    round_s: float
    calls_s: dict[str, float]
    scheduler_share: float
    rollback_share: float | None


class _Watched(SpeculativeGenerationBackend[Assistant]):
    """A backend whose executors are timed."""

    def __init__(self, backend: MlxBackend, times: CallTimes, settle: Settle | None) -> None:
        self._backend, self._times, self._settle = backend, times, settle

    @property
    def name(self) -> str:
        return self._backend.name

    @property
    def eos_ids(self) -> frozenset[int]:
        return self._backend.eos_ids

    def output_text(self, stop_strings: Sequence[str]) -> OutputText | None:
        return self._backend.output_text(stop_strings)

    def mtp_capability(self, drafter: Assistant | None) -> MtpCapability:
        return self._backend.mtp_capability(drafter)

    @contextmanager
    def plain_executor(self) -> Iterator[SpeculativeExecutor[Any, Any, Any]]:
        with self._backend.plain_executor() as executor, self._timed():
            yield TimedExecutor(executor, self._times, self._settle)

    @contextmanager
    def speculative_executor(self, drafter: Assistant | None) -> Iterator[SpeculativeExecutor[Any, Any, Any]]:
        with self._backend.speculative_executor(drafter) as executor, self._timed():
            yield TimedExecutor(executor, self._times, self._settle)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self._times.seconds["visit"] = time.perf_counter() - begun


def settle(sequence: Any) -> None:
    """Evaluate the caches of a sequence."""
    mx.eval(*sequence.target.arrays())
    mx.synchronize()


def run_once(pair: Model, prompt: tuple[int, ...], options: GenerationOptions, wait: Settle | None) -> CallTimes:
    """Decode one request; its call times, with the whole time of the rounds, behind the prompt, under `whole`."""
    times = CallTimes()
    watched = LoadedModel(_Watched(pair.loaded.backend, times, wait))
    request, schedule = PreparedRequest(prompt=prompt, options=options), MtpSchedulerOptions(lookahead=False)
    if options.max_proposals:
        watched.generate_prepared_chat_mtp_batch([request], pair.assistant, schedule=schedule)
    else:
        watched.generate_prepared_chat([request], schedule=schedule)
    around = sum(times.seconds[name] for name in ("open", "prefill", "close"))
    times.seconds["whole"] = times.seconds["visit"] - around
    return times


def measure_rounds(pair: Model, prompt: tuple[int, ...], options: GenerationOptions, *, repeats: int = 3) -> RoundTimes:
    """Median over repeats of each figure, after one run that is not counted."""
    run_once(pair, prompt, options, None)
    free = [run_once(pair, prompt, options, None) for _ in range(repeats)]
    settled = [run_once(pair, prompt, options, settle) for _ in range(repeats if options.max_proposals else 0)]

    def scheduler_share(times: CallTimes) -> float:
        return 1 - sum(times.seconds[name] for name in CALLS) / times.seconds["whole"]

    return RoundTimes(
        proposals=options.max_proposals,
        rounds=free[0].rounds,
        round_s=statistics.median(each.seconds["whole"] / each.rounds for each in free),
        calls_s={name: statistics.median(each.seconds[name] / each.rounds for each in free) for name in CALLS},
        scheduler_share=statistics.median(map(scheduler_share, free)),
        rollback_share=statistics.median(each.seconds["commit"] / each.seconds["whole"] for each in settled)
        if settled
        else None,
    )


def main(
    model: Annotated[str, typer.Argument(help="A name or a path, as `eredu generate --model` takes it.")],
    *,
    assistant: Annotated[str | None, typer.Option(help="A draft model; the target's own heads unless given.")] = None,
    proposals: Annotated[list[int] | None, typer.Option("--proposals", "-k", help="May be repeated.")] = None,
    temperature: Annotated[float, typer.Option()] = 1.0,
    dtype: Annotated[str, typer.Option()] = "checkpoint",
    max_tokens: Annotated[int, typer.Option()] = 96,
    repeats: Annotated[int, typer.Option()] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Show what of a round is the device's, the executor's and the scheduler's, plain (K = 0) and at each K."""
    pair = load_pair(model, assistant, dtype=dtype, placement="auto")
    require_drafter(pair)
    prompt = encode_prompt(pair.tokenizer, TEXT)
    options = GenerationOptions(
        max_tokens=max_tokens, sampling=SamplingOptions(temperature=temperature), seed=1, eos_ids=frozenset()
    )
    found = [
        measure_rounds(pair, prompt, replace(options, max_proposals=count), repeats=repeats)
        for count in dict.fromkeys((0, *(proposals or (USUAL_PROPOSALS,))))
    ]
    if as_json:
        facts = {"model": model, "versions": versions(), "machine": describe_machine()}
        sys.stdout.write(json.dumps(facts | {"rounds": [asdict(each) for each in found]}, indent=2) + "\n")
        return
    table = Table(title="A round, on average")
    for name in ("K", "rounds", "ms", *CALLS, "scheduler", "rollback"):
        table.add_column(name, justify="right")
    for each in found:
        calls = [f"{each.calls_s[name] * 1e3:.2f}" for name in CALLS]
        rollback = "" if each.rollback_share is None else f"{each.rollback_share:.1%}"
        shares = [f"{each.scheduler_share:.1%}", rollback]
        table.add_row(str(each.proposals), str(each.rounds), f"{each.round_s * 1e3:.2f}", *calls, *shares)
    PlainConsole().print(table)


if __name__ == "__main__":
    typer.run(main)
