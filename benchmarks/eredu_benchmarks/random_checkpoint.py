"""A checkpoint of a published size with random weights, for costs: `python -m eredu_benchmarks.random_checkpoint DIR`.

The family is Qwen3.5, dense, with its prediction head, in the published layout: bfloat16, sharded, with an index. What
a model of that size says has no meaning, but its kernels, caches and rounds cost what a trained one's do. The tokenizer
is that of `tiny-qwen3.5`, so texts can be decoded; the other ids are padding.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import mlx.core as mx
import typer

from eredu.checkpoints.names import resolve_checkpoint
from eredu_benchmarks.checkpoint_shape import SHAPES, QwenShape

SHARD_BYTES = 2 << 30
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")


def weights(shape: QwenShape, *, seed: int) -> Iterator[tuple[str, mx.array]]:
    """Every tensor by its published name, in bfloat16, each from a key of its own."""
    for place, (name, size) in enumerate(shape.tensors()):
        yield name, _drawn(name, size, mx.random.key((seed << 32) + place)).astype(mx.bfloat16)


def _drawn(name: str, size: tuple[int, ...], key: mx.array) -> mx.array:
    """Matrices keep the size of what they are fed; norms are near one (stored as offsets, but for the delta rule's)."""
    if name.endswith("A_log"):
        return mx.log(mx.random.uniform(0.05, 1.0, size, key=key))
    if name.endswith("dt_bias"):
        return mx.random.uniform(-2.0, 0.5, size, key=key)
    if name.endswith("linear_attn.norm.weight"):
        return 1 + 0.1 * mx.random.normal(size, key=key)
    if len(size) == 1:
        return 0.1 * mx.random.normal(size, key=key)
    gain = 1.0 if "embed_tokens" in name else 1 / math.sqrt(size[-1])
    return gain * mx.random.normal(size, key=key)


@dataclass
class ShardWriter:
    """Gathers tensors and writes them shard by shard.

    Attributes:
        folder: Where they go.
        limit: Bytes of a shard, about.
    """

    folder: Path
    limit: int = SHARD_BYTES

    def write(self, tensors: Iterator[tuple[str, mx.array]]) -> int:
        """Write all of them with their index; return their bytes."""
        placed: dict[str, str] = {}
        held: dict[str, mx.array] = {}
        total = shards = 0
        for name, array in tensors:
            held[name] = array
            total += array.nbytes
            if sum(each.nbytes for each in held.values()) >= self.limit:
                shards += 1
                placed |= self._flush(held, shards)
                held = {}
        if held:
            placed |= self._flush(held, shards + 1)
        index = {"metadata": {"total_size": total}, "weight_map": placed}
        (self.folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
        return total

    def _flush(self, held: dict[str, mx.array], number: int) -> dict[str, str]:
        name = f"model-{number:05d}.safetensors"
        mx.save_safetensors(str(self.folder / name), held, metadata={"format": "pt"})
        return dict.fromkeys(held, name)


def write_random(shape: QwenShape, folder: Path, *, seed: int = 1) -> int:
    """Write a checkpoint into a folder that is made; return its bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    source = resolve_checkpoint("tiny-qwen3.5")
    for name in TOKENIZER:
        shutil.copyfile(source / name, folder / name)
    config: dict[str, Any] = shape.config()
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    return ShardWriter(folder).write(weights(shape, seed=seed))


def main(
    folder: Annotated[Path, typer.Argument(help="Is made.")],
    *,
    size: Annotated[str, typer.Option(help=f"One of {', '.join(SHAPES)}.")] = "9b",
    seed: Annotated[int, typer.Option()] = 1,
) -> None:
    """Write a random checkpoint of a published size."""
    if size not in SHAPES:
        raise typer.BadParameter(f"--size was {size!r}; expected one of {', '.join(SHAPES)}")
    written = write_random(SHAPES[size], folder, seed=seed)
    typer.echo(f"{folder}: {written / 1e9:.2f} GB")


if __name__ == "__main__":
    typer.run(main)
