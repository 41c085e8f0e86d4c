"""`eredu convert`: a checkpoint in MLX's layout, quantised or not, with the heads that mlx-lm's converter drops."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eredu.commands.arguments import JsonOption
from eredu.commands.console import print_json, print_note, print_table, versions
from eredu.convert.options import ConvertOptions

if TYPE_CHECKING:
    from eredu.convert.convert import Conversion


def convert(
    checkpoint: Annotated[
        str, typer.Argument(help="What to convert: a Hugging Face directory, or org/name of the Hugging Face cache.")
    ],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="The directory to make; it must not be there yet.")
    ],
    bits: Annotated[
        int | None,
        typer.Option(metavar="N", help="Bits a weight of the trunk: 2, 3, 4, 5, 6, 8; as it is unless given."),
    ] = None,
    head_bits: Annotated[
        int | None, typer.Option(metavar="N", help="Bits a weight of the heads, likewise; they are small, and matter.")
    ] = None,
    group_size: Annotated[int, typer.Option(metavar="N", help="Weights that share a scale: 32, 64 or 128.")] = 64,
    dtype: Annotated[
        str | None,
        typer.Option(metavar="DTYPE", help="Type of what stays in floats: float32, float16, bfloat16."),
    ] = None,
    heads_from: Annotated[
        str | None,
        typer.Option(
            metavar="ORIGINAL",
            help="The original of a trunk that lost its heads: a directory with its config.json, its index and the "
            "shards that hold heads, or a directory of heads alone.",
        ),
    ] = None,
    probe: Annotated[
        bool, typer.Option(help="Measure the heads' acceptance before and behind, which loads the whole model.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Convert a checkpoint to MLX's layout with its prediction heads, and write what that cost into its model card.

    mlx-lm loads the result as a plain model; eredu finds the heads beside it. Weights in fp8 become floats, or are
    quantised.

    Example: eredu convert Qwen/Qwen3.5-4B -o qwen-4bit --bits 4 --head-bits 8
    """
    from eredu.convert.convert import convert as make  # noqa: PLC0415 (MLX: what else is wrong is said at once)

    options = ConvertOptions(bits=bits, head_bits=head_bits, group_size=group_size, dtype=dtype)
    given = {
        "--bits": bits, "--head-bits": head_bits, "--group-size": None if group_size == 64 else group_size,
        "--dtype": dtype, "--heads-from": heads_from,
    }  # fmt: skip
    words = ["eredu", "convert", checkpoint, "-o", str(output)]
    words += [word for name, value in given.items() if value is not None for word in (name, str(value))]
    made = make(
        checkpoint,
        output,
        options,
        heads_from=heads_from,
        probe=probe,
        command=shlex.join(words if probe else [*words, "--no-probe"]),
        versions=versions(),
        say=print_note,
    )
    if as_json:
        print_json(made.to_json())
    else:
        print_table(str(made.path), _rows(made))


def _rows(made: Conversion) -> dict[str, str]:
    rows = {"trunk": made.trunk, "heads": made.heads, "size": f"{made.size_bytes / 1e6:,.1f} MB"}
    for name, found in (("acceptance before", made.before), ("acceptance behind", made.after)):
        rows[name] = found if isinstance(found, str) else ", ".join(f"{m:.3f} ± {e:.3f}" for m, e in found.by_depth)
    return rows
