"""`eredu bench`: plain decoding against multi-token prediction, on one pair, in one run."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from eredu.checkpoints.names import resolve_checkpoint
from eredu.commands.arguments import (
    SAMPLING,
    SPECULATION,
    AcceptanceOption,
    AssistantOption,
    DtypeOption,
    HeadOption,
    JsonOption,
    MaxTokensOption,
    ModelOption,
    OutputFileOption,
    PlacementOption,
    SeedOption,
)
from eredu.commands.console import print_json, versions, work_progress
from eredu.commands.pair import Pair, encode_prompt
from eredu.contract.errors import OptionError
from eredu.contract.options import USUAL_PROPOSALS, AcceptanceRule, GenerationOptions

MEASUREMENT = "Measurement"


def bench(
    *,
    model: ModelOption,
    assistant: AssistantOption = None,
    head: HeadOption = None,
    prompts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.jsonl",
            help='JSON lines with "prompt", and "name" and "system" if wanted; a varied set of its own unless given.',
            rich_help_panel=MEASUREMENT,
        ),
    ] = None,
    max_tokens: MaxTokensOption = 64,
    repeats: Annotated[int, typer.Option(help="Interleaved repeats.", rich_help_panel=MEASUREMENT)] = 5,
    proposals: Annotated[
        list[int] | None,
        typer.Option(
            "--proposals",
            "-k",
            help=f"K, proposals a round; may be repeated. {USUAL_PROPOSALS} unless given.",
            rich_help_panel=SPECULATION,
        ),
    ] = None,
    temperature: Annotated[
        list[float] | None,
        typer.Option(help="May be repeated. 0 (greedy) and 1 unless given.", rich_help_panel=SAMPLING),
    ] = None,
    acceptance: AcceptanceOption = AcceptanceRule.REJECTION,
    seed: SeedOption = 0,
    dtype: DtypeOption = "checkpoint",
    placement: PlacementOption = "auto",
    peers: Annotated[
        bool,
        typer.Option(
            "--peers",
            help="Also time mlx-lm's own loops with the same pair and K, or mlx-vlm's beside prediction heads, "
            "greedily.",
            rich_help_panel=MEASUREMENT,
        ),
    ] = False,
    alignment: Annotated[
        Path | None,
        typer.Option(
            metavar="CHATS.npz.xz",
            help="Also measure teacher-forced acceptance on these held-out chats, at every temperature of the file.",
            rich_help_panel=MEASUREMENT,
        ),
    ] = None,
    alignment_chats: Annotated[
        int, typer.Option(help="How many of the chats, evenly spread; 0 takes all.", rich_help_panel=MEASUREMENT)
    ] = 64,
    as_json: JsonOption = False,
    output: OutputFileOption = None,
) -> None:
    """Compare plain decoding with multi-token prediction: with a draft model, lookahead off and on, or with heads.

    All settings decode the same prompts in interleaved repeats; ratios are taken inside a repeat, and shown as the
    median with the least and the greatest. "= plain" counts the outputs that are plain decoding's token for token,
    which greedy and coupled decoding promise wherever the logits are equal.

    On a CPU, MLX's own BLAS makes wide verifications slow: preload OpenBLAS and give --dtype float32.
    """
    from eredu_benchmarks.benchmark import BenchmarkPlan, align_all, compare  # noqa: PLC0415 (only this command may)
    from eredu_benchmarks.held_out import HeldOutChats  # noqa: PLC0415
    from eredu_benchmarks.machine import describe_machine  # noqa: PLC0415
    from eredu_benchmarks.mlx_vlm_peer import VlmPeer  # noqa: PLC0415
    from eredu_benchmarks.pair import BenchmarkPair, EncodedPrompt  # noqa: PLC0415
    from eredu_benchmarks.prompts import PROMPTS, read_prompts  # noqa: PLC0415
    from eredu_benchmarks.report import BenchmarkReport  # noqa: PLC0415

    plan = BenchmarkPlan(
        proposals=tuple(dict.fromkeys(proposals or (USUAL_PROPOSALS,))),
        temperatures=tuple(dict.fromkeys(temperature or (0.0, 1.0))),
        options=GenerationOptions(max_tokens=max_tokens, acceptance=acceptance),
        repeats=repeats,
        seed=seed,
        peers=peers,
        chats=None if alignment is None else HeldOutChats.read(alignment),
        chat_count=alignment_chats or None,
    )
    chosen = PROMPTS if prompts is None else read_prompts(prompts)
    check_writable(output)
    loaded = Pair.load(model, assistant, dtype=dtype, placement=placement, head=head)
    loaded.require_drafter()
    if peers and head is not None:
        raise OptionError("--peers cannot give heads of another directory to mlx-vlm; leave one of the two out")
    encoded = tuple(EncodedPrompt(p.name, encode_prompt(loaded.tokenizer, p.text, system=p.system)) for p in chosen)
    vlm = VlmPeer.load(resolve_checkpoint(model), dtype=dtype) if peers and loaded.assistant is None else None
    pair = BenchmarkPair(loaded.model, loaded.assistant, vlm)
    with work_progress() as bar:
        step = partial(begin_step, bar)
        comparisons, alignments = compare(pair, encoded, plan, step), align_all(pair, plan, step)
    facts = {
        "model": model,
        "assistant": assistant,
        "head": head,
        "dtype": dtype,
        "placement": str(loaded.model.backend.placement.kind),
        "acceptance": str(acceptance),
        "max_tokens": max_tokens,
        "repeats": repeats,
        "seed": seed,
        "prompts": [prompt.name for prompt in chosen],
        "versions": versions(),
        "machine": describe_machine(),
    }
    report = BenchmarkReport(facts, comparisons, alignments)
    if output is not None:
        output.write_text(json.dumps(report.to_json(), indent=2) + "\n", encoding="utf-8")
    if as_json:
        print_json(report.to_json())
    else:
        report.print(Console())


def check_writable(path: Path | None) -> None:
    """Raise `OptionError` before the work, not behind it, if the result cannot be written to `path`."""
    if path is None:
        return
    try:
        path.open("a", encoding="utf-8").close()
    except OSError as error:
        raise OptionError(f"--output {path} cannot be written: {error.strerror}; name a file elsewhere") from error


def begin_step(bar: Progress, name: str, total: int) -> Callable[[], None]:
    """Begin a line of the progress bar; the result moves it on by one."""
    return partial(bar.advance, bar.add_task(name, total=total))
