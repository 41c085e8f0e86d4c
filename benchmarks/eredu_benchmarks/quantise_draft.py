"""Quantise the draft model for SmolLM2, and measure what each form costs in acceptance.

The model that ships with eredu was chosen with the table that `measure` prints: teacher-forced on held-out chats, the
mean over reply tokens of the sum over ids of min(p, q) (temperature 1.0 and 0.7) and of argmax p = argmax q (greedy),
with p the target's law and q the draft's in float32. `write` makes the files of one form, in the layout that mlx-lm
loads.

    python -m eredu_benchmarks.quantise_draft measure DRAFT TARGET eval.npz.xz
    python -m eredu_benchmarks.quantise_draft write DRAFT OUT --embedding 4:64 --layers 6:64
"""

from __future__ import annotations

import io
import json
import lzma
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import typer
from mlx.utils import tree_flatten, tree_map
from mlx_lm.utils import dequantize_model, load_model, quantize_model
from numpy.typing import NDArray
from rich.table import Table

from eredu.engine.checkpoint import load_checkpoint
from eredu.files.aside_file import write_json
from eredu.files.aside_folder import aside_folder
from eredu.files.plain_console import PlainConsole, track

TEMPERATURES = (1.0, 0.7, 0.0)
EMBEDDING = "embed_tokens"


@dataclass(frozen=True, slots=True)
class Precision:
    """MLX's affine quantisation: `bits` a weight, and a bfloat16 scale and bias for every `group_size` of them."""

    bits: int
    group_size: int

    @classmethod
    def parse(cls, text: str) -> Precision | None:
        """`4:64` as a precision, `16` as none (bfloat16)."""
        if text == "16":
            return None
        bits, _, group_size = text.partition(":")
        return cls(int(bits), int(group_size or 64))

    @property
    def bits_per_weight(self) -> float:
        """Storage of one weight, scale and bias included."""
        return self.bits + 32 / self.group_size


@dataclass(frozen=True, slots=True)
class Recipe:
    """Precision of the tied embedding and of the layers; None keeps bfloat16."""

    embedding: Precision | None
    layers: Precision | None

    @property
    def name(self) -> str:
        """For tables: `embedding 4:64, layers 6:64`."""
        parts = {"embedding": self.embedding, "layers": self.layers}
        return ", ".join(f"{part} {'16' if p is None else f'{p.bits}:{p.group_size}'}" for part, p in parts.items())


@dataclass(frozen=True, slots=True)
class HeldOutChat:
    """One chat: its ids, and how many of them are the prompt."""

    tokens: NDArray[np.uint16]
    prompt_length: int


@dataclass(frozen=True, slots=True)
class FormReport:
    """One row of the table: a form of the draft, its size and its acceptance by temperature."""

    recipe: Recipe
    size_bytes: int
    acceptance: Mapping[float, float]

    def to_json(self) -> dict[str, Any]:
        """The stable form."""
        acceptance = {str(temperature): round(value, 4) for temperature, value in self.acceptance.items()}
        return {"recipe": self.recipe.name, "size_bytes": self.size_bytes, "acceptance": acceptance}


def read_chats(path: Path, temperature: float, count: int) -> list[HeldOutChat]:
    """The first `count` held-out chats whose replies were sampled at `temperature`."""
    with lzma.open(path) as file, np.load(io.BytesIO(file.read())) as arrays:
        lengths = arrays[f"tlen_{temperature}"].astype(np.int64)
        prompts = arrays[f"plen_{temperature}"]
        tokens = arrays[f"tokens_{temperature}"]
    ends = np.cumsum(lengths)
    return [HeldOutChat(tokens[ends[i] - lengths[i] : ends[i]], int(prompts[i])) for i in range(count)]


def quantised(directory: Path, recipe: Recipe) -> tuple[nn.Module, dict[str, Any]]:
    """The draft in one form, with the config that mlx-lm loads it by."""
    model, config = load_model(directory)
    if recipe.embedding is None and recipe.layers is None:
        return cast(nn.Module, model), config
    default = recipe.layers or recipe.embedding

    def settings(path: str, _module: nn.Module) -> bool | dict[str, Any]:
        precision = recipe.embedding if path.endswith(EMBEDDING) else recipe.layers
        if precision is None or precision == default:
            return precision is not None
        return {"group_size": precision.group_size, "bits": precision.bits}

    assert default is not None
    with redirect_stdout(sys.stderr):  # it reports on the standard output, which is for our rows
        model, config = quantize_model(model, config, default.group_size, default.bits, quant_predicate=settings)
    return cast(nn.Module, model), config


def size_bytes(model: nn.Module) -> int:
    """Bytes of all parameters."""
    return sum(array.nbytes for _, array in cast("list[tuple[str, mx.array]]", tree_flatten(model.parameters())))


def in_float32(model: nn.Module) -> nn.Module:
    """The same numbers, dequantised and widened: what the form computes, without the speed of its kernels."""
    model = cast(nn.Module, dequantize_model(model))
    model.update(tree_map(lambda array: array.astype(mx.float32), model.parameters()))
    mx.eval(model.parameters())
    return model


def reply_rows(model: Any, chat: HeldOutChat) -> mx.array:
    """Logits, shape (reply tokens, vocabulary), of the positions that predict the reply."""
    logits = model(mx.array(chat.tokens[None, :-1].astype(np.int32)))
    return cast(mx.array, logits[0, chat.prompt_length - 1 :])


def accepted_mass(target: mx.array, draft: mx.array, temperature: float) -> float:
    """Sum over rows of the probability that a proposal is accepted by the ratio rule (or equals, if greedy)."""
    if temperature == 0:
        return float(np.array((target.argmax(-1) == draft.argmax(-1)).sum()))
    p = mx.softmax(target / temperature, axis=-1, precise=True)
    q = mx.softmax(draft / temperature, axis=-1, precise=True)
    return float(np.array(mx.minimum(p, q).sum()))


def acceptances(target: Any, drafts: Sequence[Any], chats: Sequence[HeldOutChat], temperature: float) -> list[float]:
    """Mean acceptance of every draft over all reply tokens; the target's rows are computed once a chat."""
    sums, rows = [0.0] * len(drafts), 0
    for chat in track(chats, f"temperature {temperature}"):
        target_rows = reply_rows(target, chat)
        mx.eval(target_rows)
        rows += target_rows.shape[0]
        for i, draft in enumerate(drafts):
            sums[i] += accepted_mass(target_rows, reply_rows(draft, chat), temperature)
    return [total / rows for total in sums]


def default_recipes() -> Iterator[Recipe]:
    """bfloat16, then the embedding alone, the layers alone, and both."""
    precisions = [Precision(bits, group) for bits in (8, 6, 5, 4, 3, 2) for group in (64, 32)]
    yield Recipe(None, None)
    yield from (Recipe(precision, None) for precision in precisions)
    yield from (Recipe(None, precision) for precision in precisions)
    yield from (Recipe(precision, precision) for precision in precisions)


def measure_recipes(
    draft: Path, target: Path, held_out: Path, recipes: Sequence[Recipe], temperatures: Sequence[float], count: int
) -> list[FormReport]:
    """Measure forms of one draft side by side on the same rows."""
    models = [quantised(draft, recipe)[0] for recipe in recipes]
    sizes = [size_bytes(model) for model in models]
    widened = [in_float32(model) for model in models]
    loaded = load_checkpoint(target, tokenizer=None, dtype="float32").model
    by_temperature = {
        temperature: acceptances(loaded, widened, read_chats(held_out, temperature, count), temperature)
        for temperature in temperatures
    }
    return [
        FormReport(recipe, sizes[i], {temperature: values[i] for temperature, values in by_temperature.items()})
        for i, recipe in enumerate(recipes)
    ]


def parse_recipe(text: str) -> Recipe:
    """`4:64/6:64` as embedding and layers."""
    embedding, _, layers = text.partition("/")
    return Recipe(Precision.parse(embedding), Precision.parse(layers))


app = typer.Typer(help=__doc__)


@app.command()
def measure(
    draft: Annotated[Path, typer.Argument(help="The draft in bfloat16: a Hugging Face directory.")],
    target: Annotated[Path, typer.Argument(help="The target: SmolLM2's GGUF.")],
    held_out: Annotated[Path, typer.Argument(help="Held-out chats: eval.npz.xz.")],
    recipe: Annotated[
        list[str] | None,
        typer.Option(help="EMBEDDING/LAYERS, each BITS:GROUP or 16; repeat for more. Default: a grid."),
    ] = None,
    temperature: Annotated[list[float] | None, typer.Option(help="Repeat for more. Default: 1.0, 0.7 and 0.0.")] = None,
    chats: Annotated[int, typer.Option(help="Chats at each temperature.")] = 32,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,  # noqa: FBT002
) -> None:
    """Measure the acceptance of each form against the target in float32."""
    recipes = [parse_recipe(text) for text in recipe] if recipe else list(default_recipes())
    temperatures = tuple(temperature or TEMPERATURES)
    reports = measure_recipes(draft, target, held_out, recipes, temperatures, chats)
    if as_json:
        typer.echo(json.dumps([report.to_json() for report in reports], indent=2))
        return
    table = Table("form", "MB", *(f"T {value}" for value in temperatures))
    for report in reports:
        cells = (f"{report.acceptance[value]:.4f}" for value in temperatures)
        table.add_row(report.recipe.name, f"{report.size_bytes / 1e6:.2f}", *cells)
    PlainConsole().print(table)


@app.command()
def write(
    draft: Annotated[Path, typer.Argument(help="The draft in bfloat16: a Hugging Face directory.")],
    out: Annotated[Path, typer.Argument(help="Folder for config.json and model.safetensors.")],
    embedding: Annotated[str, typer.Option(help="BITS:GROUP, or 16.")],
    layers: Annotated[str, typer.Option(help="BITS:GROUP, or 16.")],
) -> None:
    """Write one form in the layout that mlx-lm loads."""
    model, config = quantised(draft, Recipe(Precision.parse(embedding), Precision.parse(layers)))
    weights = dict(cast("list[tuple[str, mx.array]]", tree_flatten(model.parameters())))
    config.pop("quantization_config", None)
    with aside_folder(out) as made:
        mx.save_safetensors(str(made / "model.safetensors"), weights, metadata={"format": "mlx"})
        write_json(made / "config.json", config, indent=1)


if __name__ == "__main__":
    app()
