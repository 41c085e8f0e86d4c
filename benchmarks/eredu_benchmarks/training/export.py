"""Checkpoints in the original Hugging Face layout: config, bfloat16 SafeTensors in one file, generation settings."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from eredu_benchmarks.training.layers import RMSNorm
from eredu_benchmarks.training.rows import END_OF_TEXT_ID, TURN_END_ID
from eredu_benchmarks.training.trained import TrainedModel

CONTEXT = 4096
"""Positions that the config claims; training rows are shorter."""
WIRING = {"hidden": "before-norm", "first": "embedding", "chain": "before-norm"}
"""How the heads are trained; eredu reads it from the config and need not probe for it."""
FULL_PRECISION = ("e_score_correction_bias",)
"""Tensors that published checkpoints keep in float32."""


def write_checkpoint(model: TrainedModel, directory: Path) -> None:
    """Write weights and configs of a model; the tokenizer goes beside them."""
    directory.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for name, tensor in model.checkpoint().items():
        dtype = torch.float32 if name.endswith(FULL_PRECISION) else torch.bfloat16
        tensors[name] = tensor.detach().to("cpu", dtype).contiguous()
    save_file(tensors, str(directory / "model.safetensors"), metadata={"format": "pt"})
    generation = {
        "bos_token_id": None,
        "pad_token_id": END_OF_TEXT_ID,
        "eos_token_id": [TURN_END_ID, END_OF_TEXT_ID],
        "do_sample": True,
        "temperature": 0.7,
    }
    for name, content in {
        "config.json": {**model.config(CONTEXT), "wiring": WIRING},
        "generation_config.json": generation,
    }.items():
        (directory / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


@torch.no_grad()
def round_to_bfloat16(module: torch.nn.Module) -> None:
    """Give parameters the values that the written file will hold.

    A norm weight w stored as offset from one is rounded so that 1 + w is a bfloat16 number: w is one then, too, and
    loaders that add the one in bfloat16 lose nothing.
    """
    for part in module.modules():
        offset = part.offset if isinstance(part, RMSNorm) else 0.0
        for parameter in part.parameters(recurse=False):
            parameter.copy_((parameter + offset).to(torch.bfloat16).float() - offset)
