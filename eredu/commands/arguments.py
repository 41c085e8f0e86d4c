"""Options that several subcommands have, spelled once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eredu.checkpoints.names import DRAFT_NAME, NAMES
from eredu.contract.options import AcceptanceRule

MODELS = "Models"
SAMPLING = "Sampling"
SPECULATION = "Speculation"
OUTPUT = "Output"

ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME_OR_PATH",
        help="The target: a Hugging Face directory, a GGUF file of the llama family, org/name of the Hugging Face "
        "cache, or a name: "
        f"{', '.join(name for name in NAMES if name != DRAFT_NAME)}.",
        rich_help_panel=MODELS,
    ),
]
AssistantOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME_OR_PATH",
        help=f"A draft model with the target's tokenizer: a path, or the name '{DRAFT_NAME}'. "
        "Without one the target's own prediction heads propose, if it has any.",
        rich_help_panel=MODELS,
    ),
]
HeadOption = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="A directory of prediction heads for the target, taken instead of its own.",
        rich_help_panel=MODELS,
    ),
]
DtypeOption = Annotated[
    str,
    typer.Option(
        metavar="DTYPE",
        help="checkpoint keeps what the files hold; float32, float16 and bfloat16 cast and dequantise; "
        "quantized-float16 and its like cast only what is not quantised.",
        rich_help_panel=MODELS,
    ),
]
PlacementOption = Annotated[
    str,
    typer.Option(
        metavar="KIND",
        help="How target and assistant share the machine: auto, one-stream, two-streams, two-devices.",
        rich_help_panel=MODELS,
    ),
]
AcceptanceOption = Annotated[
    AcceptanceRule,
    typer.Option(
        help="rejection and block keep the target's distribution; coupled also keeps the very tokens of --no-mtp.",
        rich_help_panel=SPECULATION,
    ),
]
ProposalsOption = Annotated[
    int, typer.Option("--proposals", "-k", help="K, proposals a round.", rich_help_panel=SPECULATION)
]
TopKOption = Annotated[int, typer.Option(help="Keep the k most probable ids; 0 keeps all.", rich_help_panel=SAMPLING)]
TopPOption = Annotated[
    float, typer.Option(help="Keep the smallest head with this mass; 1 keeps all.", rich_help_panel=SAMPLING)
]
MinPOption = Annotated[
    float,
    typer.Option(
        help="Drop ids less probable than this part of the most probable one; 0 keeps all.", rich_help_panel=SAMPLING
    ),
]
SeedOption = Annotated[
    int, typer.Option(help="Root of all randomness: the same seed gives the same output.", rich_help_panel=SAMPLING)
]
MaxTokensOption = Annotated[int, typer.Option(help="Output tokens at the most.", rich_help_panel=OUTPUT)]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else there.", rich_help_panel=OUTPUT)
]
OutputFileOption = Annotated[
    Path | None, typer.Option("--output", help="Also write the JSON object to this file.", rich_help_panel=OUTPUT)
]
