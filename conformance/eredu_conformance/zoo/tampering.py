"""Copies of a trained checkpoint with one thing changed that every loader would swallow: what a publisher gets wrong.

Unlike `damage.py`, whose checkpoints must not load, most of these do: the file is whole, its shapes are right, and only
the numbers or the vocabulary are those of something else.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path

import mlx.core as mx

from eredu.files.json_reading import read_json_object

WEIGHTS, CONFIG, TOKENIZER = "model.safetensors", "config.json", "tokenizer.json"
HEAD = "mtp."
"""Prefix of the head's tensors."""
GROUP_SIZE, BITS = 64, 4
"""Quantisation of a head beside a target that is none."""

Tensors = Mapping[str, mx.array]


class Tampering(StrEnum):
    """What is changed."""

    ZERO_HEAD = "zero-head"
    """Every tensor of the head is zero."""
    RANDOM_HEAD = "random-head"
    """Every matrix of the head is drawn anew, as large as it was."""
    NORM_SHIFT = "norm-shift"
    """The head's zero-centred norms hold their sum with one, which a loader adds again."""
    FOREIGN_HEAD = "foreign-head"
    """The head of another target: of this one's twin whose hidden axes are numbered in another order."""
    FOUR_BIT_HEAD = "four-bit-head"
    """A directory with the head alone, as an MLX converter writes it, quantised to 4 bits; the target is not."""
    PERMUTED_TOKENIZER = "permuted-tokenizer"
    """The tokens of the vocabulary stand in another order than the embedding's rows."""


def write_tampered(checkpoint: Path, directory: Path, tampering: Tampering) -> Path:
    """Copy a checkpoint with a Qwen head, and tamper with the copy; return `directory`."""
    shutil.copytree(checkpoint, directory)
    if tampering is Tampering.PERMUTED_TOKENIZER:
        permute_tokenizer(directory)
        return directory
    tensors = mx.load(str(directory / WEIGHTS))
    assert isinstance(tensors, dict)
    head = {name: array for name, array in tensors.items() if name.startswith(HEAD)}
    if tampering is Tampering.FOUR_BIT_HEAD:
        write_quantized_head(directory, head)
    else:
        mx.save_safetensors(str(directory / WEIGHTS), {**tensors, **_HEADS[tampering](head)}, {"format": "pt"})
    return directory


def write_quantized_head(directory: Path, head: Tensors) -> None:
    """Leave of a copied checkpoint the head alone, matrices packed and norms shifted."""
    made: dict[str, mx.array] = {}
    for name, array in ((name.removeprefix(HEAD), array) for name, array in head.items()):
        if array.ndim == 2:
            stem = name.removesuffix(".weight")
            packed = mx.quantize(array, group_size=GROUP_SIZE, bits=BITS)
            made |= dict(zip((name, f"{stem}.scales", f"{stem}.biases"), packed, strict=True))
        else:
            made[name] = array + 1
    mx.save_safetensors(str(directory / WEIGHTS), made, {"format": "mlx"})
    config = read_json_object(directory / CONFIG)
    quantization = {"group_size": GROUP_SIZE, "bits": BITS}
    config |= {"model_type": "qwen3_5_mtp", "block_size": 3, "quantization": quantization}
    (directory / CONFIG).write_text(json.dumps(config, indent=2), encoding="utf-8")


def permute_tokenizer(directory: Path) -> None:
    """Exchange the ids of neighbouring tokens of the vocabulary, special ones and single bytes left where they are."""
    path = directory / TOKENIZER
    content = read_json_object(path)
    vocabulary = content["model"]["vocab"]
    special = {token["content"] for token in content.get("added_tokens", [])}
    names = sorted((n for n in vocabulary if n not in special and len(n) > 1), key=vocabulary.__getitem__)
    for one, other in zip(names[::2], names[1::2], strict=False):
        vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def _random(head: Tensors) -> Tensors:
    def drawn(number: int, array: mx.array) -> mx.array:
        noise = mx.random.normal(array.shape, key=mx.random.key(number)) * array.astype(mx.float32).std()
        return noise.astype(array.dtype)

    return {
        name: drawn(number, array) if array.ndim == 2 else array
        for number, (name, array) in enumerate(sorted(head.items()))
    }


def _foreign(head: Tensors) -> Tensors:
    """Axes that hold hidden states of the target, its residual stream included, in another order."""
    width = head[f"{HEAD}norm.weight"].shape[0]
    order = mx.random.permutation(width, key=mx.random.key(0))

    def turned(name: str, array: mx.array) -> mx.array:
        if name.endswith("fc.weight"):
            # Its inputs are the embedding, then the hidden state; both are the twin's.
            return mx.concatenate([array[:, :width][:, order], array[:, width:][:, order]], axis=1)[order]
        for axis in range(array.ndim):
            if array.shape[axis] == width:
                array = mx.take(array, order, axis=axis)
        return array

    return {name: turned(name, array) for name, array in head.items()}


_HEADS: Mapping[Tampering, Callable[[Tensors], Tensors]] = {
    Tampering.ZERO_HEAD: lambda head: {name: mx.zeros_like(array) for name, array in head.items()},
    Tampering.RANDOM_HEAD: _random,
    Tampering.NORM_SHIFT: lambda head: {name: array + 1 if array.ndim == 1 else array for name, array in head.items()},
    Tampering.FOREIGN_HEAD: _foreign,
}
