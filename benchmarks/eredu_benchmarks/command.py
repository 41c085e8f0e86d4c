"""`eredu bench`: plain decoding against multi-token prediction, on one pair, in one run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
from eredu.commands.console import print_json
from eredu.contract.options import USUAL_PROPOSALS, AcceptanceRule, GenerationOptions
from eredu.files.plain_console import PlainConsole

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
    from eredu_benchmarks.comparison import run_comparison  # noqa: PLC0415 (MLX: --help has no use for it)

    report = run_comparison(
        model=model,
        assistant=assistant,
        head=head,
        dtype=dtype,
        placement=placement,
        prompts=prompts,
        proposals=tuple(dict.fromkeys(proposals or (USUAL_PROPOSALS,))),
        temperatures=tuple(dict.fromkeys(temperature or (0.0, 1.0))),
        options=GenerationOptions(max_tokens=max_tokens, acceptance=acceptance),
        repeats=repeats,
        seed=seed,
        peers=peers,
        alignment=alignment,
        alignment_chats=alignment_chats or None,
        output=output,
    )
    if as_json:
        print_json(report.to_json())
    else:
        report.print(PlainConsole())
