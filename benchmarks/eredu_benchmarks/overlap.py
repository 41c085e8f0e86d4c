"""What lookahead gains where a draft costs about half a verification: `python -m eredu_benchmarks.overlap`.

Target and draft run on two streams of the CPU, on MLX's own single-threaded BLAS, so that two cores can work at once.
Every proposal of the crafted pair is right, hence with lookahead the next block is ready when the verification ends.
Leave the preloading of another BLAS out: its threads would compete for the same cores.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from eredu.commands.console import ExitStatus, versions, work_progress
from eredu.contract.options import GenerationOptions
from eredu.engine.checkpoint import load_checkpoint
from eredu.engine.mlx_backend import Assistant, MlxBackend
from eredu.files.plain_console import PlainConsole
from eredu.loaded import LoadedModel
from eredu.mlx.placement import Placement
from eredu_benchmarks.machine import describe_machine
from eredu_benchmarks.measurement import measure, runs_of
from eredu_benchmarks.overlap_pair import OverlapShape
from eredu_benchmarks.pair import BenchmarkPair, EncodedPrompt
from eredu_benchmarks.report import BenchmarkReport, TemperatureReport
from eredu_benchmarks.setting import settings
from eredu_benchmarks.summary import SettingSummary, summarise

PROMPTS = (EncodedPrompt("short", (3, 1, 4, 1, 5)), EncodedPrompt("long", tuple(range(100, 148))))
"""The pair has no tokenizer, so prompts are ids."""


def load_overlap_pair(shape: OverlapShape, directory: Path, placement: str = "two-streams") -> BenchmarkPair:
    """Write the pair into `directory` and load it."""
    target, draft = shape.write(directory)
    model = LoadedModel(MlxBackend(load_checkpoint(target, tokenizer=None), Placement.choose(placement)))
    return BenchmarkPair(model, Assistant(load_checkpoint(draft, tokenizer=None)))


def same_tokens(summaries: tuple[SettingSummary, ...]) -> bool:
    """Whether every output of every setting is plain decoding's, token for token."""
    return all(each.equal_to_plain == each.runs for each in summaries)


def overlap(
    *,
    proposals: Annotated[int, typer.Option("--proposals", "-k", help="K, proposals a round.")] = 3,
    max_tokens: Annotated[int, typer.Option(help="Output tokens of each run.")] = 41,
    repeats: Annotated[int, typer.Option(help="Interleaved repeats.")] = 5,
    placement: Annotated[str, typer.Option(help="two-streams, or one-stream to see what is lost.")] = "two-streams",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Measure the gain of lookahead with a crafted pair; exit status 1 if a single token differs."""
    shape = OverlapShape()
    chosen = settings([proposals])
    options = GenerationOptions(max_tokens=max_tokens, max_proposals=proposals)
    with tempfile.TemporaryDirectory() as directory, work_progress() as bar:
        pair = load_overlap_pair(shape, Path(directory), placement)
        task = bar.add_task("two streams", total=runs_of(len(PROMPTS), len(chosen), repeats))
        runs = measure(pair, PROMPTS, chosen, options=options, repeats=repeats, advance=lambda: bar.advance(task))
    summaries = summarise(runs)
    head: dict[str, Any] = {
        "pair": shape.to_json(),
        "draft_share": shape.draft_share(proposals),
        "placement": placement,
        "max_tokens": max_tokens,
        "repeats": repeats,
        "same_tokens": same_tokens(summaries),
        "versions": versions(),
        "machine": describe_machine(),
    }
    report = BenchmarkReport(head, (TemperatureReport(0.0, summaries),))
    if as_json:
        sys.stdout.write(json.dumps(report.to_json(), indent=2) + "\n")
    else:
        report.print(PlainConsole())
    if not head["same_tokens"]:
        raise typer.Exit(ExitStatus.CHECK_FAILED)


if __name__ == "__main__":
    typer.run(overlap)
