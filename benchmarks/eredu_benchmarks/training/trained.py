"""What the recipe asks of a family: the target, its head, and how a checkpoint of both looks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import nn

from eredu_benchmarks.training.deepseek import DeepseekModel, DeepseekShape
from eredu_benchmarks.training.qwen import QwenModel, QwenShape


class TrainedModel(Protocol):
    """A target with its head; shapes are (batch, time, …)."""

    embed_tokens: nn.Embedding
    layers: nn.ModuleList
    head: nn.Module

    def hidden(self, tokens: torch.Tensor) -> torch.Tensor:
        """Hidden states before the final norm."""
        ...

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """The target's logits of hidden states."""
        ...

    def head_logits(self, outputs: torch.Tensor) -> torch.Tensor:
        """Logits of the head's outputs."""
        ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """All parameters; those of the head begin with `head.`."""
        ...

    def checkpoint(self) -> dict[str, torch.Tensor]:
        """Tensors under their published names."""
        ...

    def config(self, context: int) -> dict[str, Any]:
        """The published config.json."""
        ...


FAMILIES = ("tiny-qwen3.5", "tiny-deepseek-v3")
SMALL_QWEN = QwenShape(
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=4,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=32,
    linear_key_head_dim=32,
    linear_value_head_dim=32,
)
SMALL_DEEPSEEK = DeepseekShape(hidden_size=64, intermediate_size=96, moe_intermediate_size=32, num_hidden_layers=3)


def new_model(family: str, *, small: bool = False) -> TrainedModel:
    """A model with random weights; `small` makes one for a trial on a CPU."""
    if family not in FAMILIES:
        raise ValueError(f"the recipe knows {', '.join(FAMILIES)}, not {family!r}")
    model: Any
    if family == "tiny-qwen3.5":
        model = QwenModel(SMALL_QWEN if small else QwenShape())
    else:
        model = DeepseekModel(SMALL_DEEPSEEK if small else DeepseekShape())
    initialise(model, depth=len(model.layers))
    return model


def initialise(model: nn.Module, *, depth: int) -> None:
    """Normal weights with the variance of 1 / inputs, less where a layer writes into the residual stream."""
    writers = ("o_proj", "out_proj", "down_proj")
    for name, parameter in model.named_parameters():
        if "embed_tokens" in name or "lm_head" in name:
            nn.init.normal_(parameter, std=0.03)
        elif parameter.ndim >= 2:
            inputs = parameter[0].numel() if "experts." not in name else parameter.shape[-1]
            scale = (2 * depth) ** -0.5 if any(writer in name for writer in writers) else 1.0
            nn.init.normal_(parameter, std=scale * inputs**-0.5)
