"""A Qwen3.5-type text model with its prediction head, in torch, its parameters named as published.

Three of four layers are gated delta nets (arXiv 2412.06464), every fourth is gated attention with partial rotary
positions and normed queries and keys. The head joins the next token's embedding and the target's hidden state before
its final norm, and runs one attention layer; its logits come from the target's tied projection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from eredu_benchmarks.training.delta_rule import gated_delta_rule
from eredu_benchmarks.training.layers import GatedFeedForward, Keys, RMSNorm, attend, rotate


@dataclass(frozen=True, slots=True)
class QwenShape:
    """Sizes, under the names of the published config."""

    vocab_size: int = 4096
    hidden_size: int = 192
    intermediate_size: int = 448
    num_hidden_layers: int = 8
    full_attention_interval: int = 4
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64
    linear_num_key_heads: int = 2
    linear_num_value_heads: int = 4
    linear_key_head_dim: int = 64
    linear_value_head_dim: int = 64
    linear_conv_kernel_dim: int = 4
    partial_rotary_factor: float = 0.25
    rope_theta: float = 10_000.0

    @property
    def key_size(self) -> int:
        """Width of all linear-attention keys."""
        return self.linear_num_key_heads * self.linear_key_head_dim

    @property
    def value_size(self) -> int:
        """Width of all linear-attention values."""
        return self.linear_num_value_heads * self.linear_value_head_dim


class GatedDeltaNet(nn.Module):
    """Linear attention with a short convolution in front and a gated norm behind."""

    def __init__(self, shape: QwenShape) -> None:
        super().__init__()
        self.shape = shape
        channels = 2 * shape.key_size + shape.value_size
        self.in_proj_qkv = nn.Linear(shape.hidden_size, channels, bias=False)
        self.in_proj_z = nn.Linear(shape.hidden_size, shape.value_size, bias=False)
        self.in_proj_a = nn.Linear(shape.hidden_size, shape.linear_num_value_heads, bias=False)
        self.in_proj_b = nn.Linear(shape.hidden_size, shape.linear_num_value_heads, bias=False)
        self.conv1d = nn.Conv1d(channels, channels, shape.linear_conv_kernel_dim, groups=channels, bias=False)
        steps = torch.exp(torch.empty(shape.linear_num_value_heads).uniform_(-6.9, -2.3))
        self.dt_bias = nn.Parameter(steps + torch.log(-torch.expm1(-steps)))
        self.A_log = nn.Parameter(torch.empty(shape.linear_num_value_heads).uniform_(1, 16).log())
        self.norm = RMSNorm(shape.linear_value_head_dim)
        self.out_proj = nn.Linear(shape.value_size, shape.hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (batch, time, hidden) to the same."""
        shape = self.shape
        mixed = F.silu(self._convolve(self.in_proj_qkv(x).float()))
        q, k, v = mixed.split([shape.key_size, shape.key_size, shape.value_size], dim=-1)
        repeats = shape.linear_num_value_heads // shape.linear_num_key_heads
        q, k = (self._unit(each).repeat_interleave(repeats, dim=1) for each in (q, k))
        v = v.unflatten(-1, (-1, shape.linear_value_head_dim)).transpose(1, 2)
        log_decay = -self.A_log.exp() * F.softplus(self.in_proj_a(x).float() + self.dt_bias)
        beta = self.in_proj_b(x).float().sigmoid()
        with torch.autocast(x.device.type, enabled=False):
            y = gated_delta_rule(q * shape.linear_key_head_dim**-0.5, k, v, log_decay.mT, beta.mT)
        z = self.in_proj_z(x).unflatten(-1, (-1, shape.linear_value_head_dim)).float()
        return self.out_proj((self.norm(y.transpose(1, 2)) * F.silu(z)).flatten(-2).to(x.dtype))

    def _convolve(self, x: torch.Tensor) -> torch.Tensor:
        """Causal depthwise convolution along time as a sum of shifts: grouped kernels are slow to differentiate."""
        taps = self.conv1d.weight[:, 0].unbind(-1)
        padded = F.pad(x, (0, 0, len(taps) - 1, 0))
        shifted = (tap * padded[:, at : at + x.shape[1]] for at, tap in enumerate(taps))
        return sum(shifted, start=torch.zeros((), device=x.device))

    def _unit(self, x: torch.Tensor) -> torch.Tensor:
        """Heads of unit length, shape (batch, heads, time, key)."""
        heads = x.unflatten(-1, (-1, self.shape.linear_key_head_dim)).transpose(1, 2)
        return heads * torch.rsqrt(heads.square().sum(-1, keepdim=True) + 1e-6)


class GatedAttention(nn.Module):
    """Attention whose output is gated by the sigmoid of half the query projection."""

    def __init__(self, shape: QwenShape) -> None:
        super().__init__()
        self.shape = shape
        width = shape.num_attention_heads * shape.head_dim
        self.q_proj = nn.Linear(shape.hidden_size, 2 * width, bias=False)
        self.k_proj = nn.Linear(shape.hidden_size, shape.num_key_value_heads * shape.head_dim, bias=False)
        self.v_proj = nn.Linear(shape.hidden_size, shape.num_key_value_heads * shape.head_dim, bias=False)
        self.o_proj = nn.Linear(width, shape.hidden_size, bias=False)
        self.q_norm = RMSNorm(shape.head_dim, zero_centred=True)
        self.k_norm = RMSNorm(shape.head_dim, zero_centred=True)

    def forward(self, x: torch.Tensor, earlier: tuple[Keys, ...] = ()) -> tuple[torch.Tensor, tuple[Keys, ...]]:
        """Output, shape (batch, time, hidden), and all passes' keys with those of this one behind."""
        shape = self.shape
        q, gate = self.q_proj(x).unflatten(-1, (shape.num_attention_heads, -1)).chunk(2, dim=-1)
        k, v = (each(x).unflatten(-1, (-1, shape.head_dim)) for each in (self.k_proj, self.v_proj))
        q, k = (self._turn(norm(each)) for norm, each in ((self.q_norm, q), (self.k_norm, k)))
        repeats = shape.num_attention_heads // shape.num_key_value_heads
        k, v = (each.repeat_interleave(repeats, dim=1) for each in (k, v.transpose(1, 2)))
        passes = (*earlier, (k, v))
        y = attend(q, passes, shape.head_dim**-0.5).transpose(1, 2) * gate.sigmoid()
        return self.o_proj(y.flatten(-2)), passes

    def _turn(self, x: torch.Tensor) -> torch.Tensor:
        dims = int(self.shape.head_dim * self.shape.partial_rotary_factor)
        return rotate(x.transpose(1, 2), dims=dims, theta=self.shape.rope_theta, interleaved=False)


class QwenLayer(nn.Module):
    """One pre-norm decoder layer of either kind."""

    def __init__(self, shape: QwenShape, *, is_linear: bool) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(shape.hidden_size, zero_centred=True)
        self.post_attention_layernorm = RMSNorm(shape.hidden_size, zero_centred=True)
        if is_linear:
            self.linear_attn = GatedDeltaNet(shape)
        else:
            self.self_attn = GatedAttention(shape)
        self.is_linear = is_linear
        self.mlp = GatedFeedForward(shape.hidden_size, shape.intermediate_size)

    def forward(self, x: torch.Tensor, earlier: tuple[Keys, ...] = ()) -> tuple[torch.Tensor, tuple[Keys, ...]]:
        """Output, shape (batch, time, hidden), and the passes of attention."""
        normed, passes = self.input_layernorm(x), earlier
        if self.is_linear:
            mixed = self.linear_attn(normed)
        else:
            mixed, passes = self.self_attn(normed, earlier)
        x = x + mixed
        return x + self.mlp(self.post_attention_layernorm(x)), passes


class QwenHead(nn.Module):
    """The prediction head; what it chains is its layer's output before `norm`."""

    def __init__(self, shape: QwenShape) -> None:
        super().__init__()
        self.pre_fc_norm_embedding = RMSNorm(shape.hidden_size, zero_centred=True)
        self.pre_fc_norm_hidden = RMSNorm(shape.hidden_size, zero_centred=True)
        self.fc = nn.Linear(2 * shape.hidden_size, shape.hidden_size, bias=False)
        self.layers = nn.ModuleList([QwenLayer(shape, is_linear=False)])
        self.norm = RMSNorm(shape.hidden_size, zero_centred=True)

    def forward(
        self, embedding: torch.Tensor, hidden: torch.Tensor, earlier: tuple[Keys, ...] = ()
    ) -> tuple[torch.Tensor, tuple[Keys, ...]]:
        """Output of the layer, shape (batch, time, hidden), and the passes."""
        halves = [self.pre_fc_norm_embedding(embedding), self.pre_fc_norm_hidden(hidden)]
        return self.layers[0](self.fc(torch.cat(halves, dim=-1)), earlier)


class QwenModel(nn.Module):
    """Target and head."""

    def __init__(self, shape: QwenShape) -> None:
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        interval = shape.full_attention_interval
        kinds = [(i + 1) % interval != 0 for i in range(shape.num_hidden_layers)]
        self.layers = nn.ModuleList([QwenLayer(shape, is_linear=is_linear) for is_linear in kinds])
        self.norm = RMSNorm(shape.hidden_size, zero_centred=True)
        self.head = QwenHead(shape)

    def hidden(self, tokens: torch.Tensor) -> torch.Tensor:
        """Hidden states before the final norm, shape (batch, time, hidden)."""
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x, _ = layer(x)
        return x

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """The target's logits, shape (batch, time, vocabulary)."""
        return F.linear(self.norm(hidden), self.embed_tokens.weight)

    def head_logits(self, outputs: torch.Tensor) -> torch.Tensor:
        """Logits of the head's outputs, shape (batch, time, vocabulary)."""
        return F.linear(self.head.norm(outputs), self.embed_tokens.weight)

    def checkpoint(self) -> dict[str, torch.Tensor]:
        """Tensors under their published names."""
        renamed = {}
        for name, tensor in self.state_dict().items():
            published = f"mtp.{name[5:]}" if name.startswith("head.") else f"model.language_model.{name}"
            renamed[published] = tensor
        return renamed

    def config(self, context: int) -> dict[str, Any]:
        """The published config.json; `context` in tokens."""
        shape = self.shape
        interval = shape.full_attention_interval
        text = {name: getattr(shape, name) for name in QwenShape.__dataclass_fields__}
        rotary = int(shape.head_dim * text.pop("partial_rotary_factor")) // 2
        rope = {
            "rope_type": "default",
            "rope_theta": text.pop("rope_theta"),
            "partial_rotary_factor": shape.partial_rotary_factor,
            "mrope_interleaved": True,
            "mrope_section": [(rotary + 2 - axis) // 3 for axis in range(3)],
        }
        kinds = ["full_attention" if (i + 1) % interval == 0 else "linear_attention" for i in range(len(self.layers))]
        text |= {
            "model_type": "qwen3_5_text",
            "layer_types": kinds,
            "hidden_act": "silu",
            "rms_norm_eps": self.norm.eps,
            "attention_bias": False,
            "attn_output_gate": True,
            "max_position_embeddings": context,
            "mtp_num_hidden_layers": 1,
            "mtp_use_dedicated_embeddings": False,
            "rope_parameters": rope,
            "tie_word_embeddings": True,
            "bos_token_id": None,
            "eos_token_id": 2,
            "dtype": "bfloat16",
        }
        return {
            "architectures": ["Qwen3_5ForCausalLM"],
            "model_type": "qwen3_5",
            "text_config": text,
            "tie_word_embeddings": True,
            "eos_token_id": 2,
            "dtype": "bfloat16",
            "max_proposals": 8,
        }
