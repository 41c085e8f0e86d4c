"""A DeepSeek-V3-type model with its prediction layer, in torch, its parameters named as published.

Latent attention (arXiv 2405.04434), experts chosen by sigmoid scores without an auxiliary loss (arXiv 2412.19437), and
a prediction layer that joins embedding and hidden state, runs one more decoder layer, and has a norm of its own.
Embedding and output projection of that layer are the target's; published files hold copies, and so does this one's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from eredu_benchmarks.training.layers import GatedFeedForward, Keys, RMSNorm, attend, rotate

BALANCE_SPEED = 1e-3
"""What the routing bias of an expert moves by in a step."""


@dataclass(frozen=True, slots=True)
class DeepseekShape:
    """Sizes, under the names of the published config."""

    vocab_size: int = 4096
    hidden_size: int = 128
    intermediate_size: int = 384
    moe_intermediate_size: int = 96
    num_hidden_layers: int = 6
    num_attention_heads: int = 4
    num_key_value_heads: int = 4
    q_lora_rank: int = 64
    kv_lora_rank: int = 64
    qk_nope_head_dim: int = 32
    qk_rope_head_dim: int = 16
    v_head_dim: int = 32
    n_routed_experts: int = 8
    n_shared_experts: int = 1
    num_experts_per_tok: int = 2
    n_group: int = 4
    topk_group: int = 2
    routed_scaling_factor: float = 2.5
    first_k_dense_replace: int = 1
    rope_theta: float = 10_000.0


class LatentAttention(nn.Module):
    """Attention over keys and values that one latent row a position expands to."""

    def __init__(self, shape: DeepseekShape) -> None:
        super().__init__()
        self.shape = shape
        heads, nope, value = shape.num_attention_heads, shape.qk_nope_head_dim, shape.v_head_dim
        self.q_a_proj = nn.Linear(shape.hidden_size, shape.q_lora_rank, bias=False)
        self.q_a_layernorm = RMSNorm(shape.q_lora_rank)
        self.q_b_proj = nn.Linear(shape.q_lora_rank, heads * (nope + shape.qk_rope_head_dim), bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(shape.hidden_size, shape.kv_lora_rank + shape.qk_rope_head_dim, bias=False)
        self.kv_a_layernorm = RMSNorm(shape.kv_lora_rank)
        self.kv_b_proj = nn.Linear(shape.kv_lora_rank, heads * (nope + value), bias=False)
        self.o_proj = nn.Linear(heads * value, shape.hidden_size, bias=False)

    def forward(self, x: torch.Tensor, earlier: tuple[Keys, ...] = ()) -> tuple[torch.Tensor, tuple[Keys, ...]]:
        """Output, shape (batch, time, hidden), and all passes' keys with those of this one behind."""
        shape = self.shape
        heads, nope, rope = shape.num_attention_heads, shape.qk_nope_head_dim, shape.qk_rope_head_dim
        q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x))).unflatten(-1, (heads, -1)).transpose(1, 2)
        latent, turned = self.kv_a_proj_with_mqa(x).split([shape.kv_lora_rank, rope], dim=-1)
        both = self.kv_b_proj(self.kv_a_layernorm(latent)).unflatten(-1, (heads, -1)).transpose(1, 2)
        k, v = both.split([nope, shape.v_head_dim], dim=-1)
        turned = self._turn(turned[:, None]).expand(-1, heads, -1, -1)
        q = torch.cat([q[..., :nope], self._turn(q[..., nope:])], dim=-1)
        passes = (*earlier, (torch.cat([k, turned], dim=-1), v))
        y = attend(q, passes, (nope + rope) ** -0.5)
        return self.o_proj(y.transpose(1, 2).flatten(-2)), passes

    def _turn(self, x: torch.Tensor) -> torch.Tensor:
        return rotate(x, dims=self.shape.qk_rope_head_dim, theta=self.shape.rope_theta, interleaved=True)


class Router(nn.Module):
    """Scores of experts, and the choice by score plus bias inside the best groups (`noaux_tc`)."""

    def __init__(self, shape: DeepseekShape) -> None:
        super().__init__()
        self.shape = shape
        self.weight = nn.Parameter(torch.empty(shape.n_routed_experts, shape.hidden_size))
        self.register_buffer("e_score_correction_bias", torch.zeros(shape.n_routed_experts))
        self.register_buffer("load", torch.zeros(shape.n_routed_experts), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Weight of every expert, zero where it is not chosen, shape (..., experts), float32."""
        shape = self.shape
        with torch.autocast(x.device.type, enabled=False):
            scores = F.linear(x.float(), self.weight).sigmoid()
        with torch.no_grad():
            biased = scores + self.e_score_correction_bias
            grouped = biased.unflatten(-1, (shape.n_group, -1))
            best = grouped.topk(2, dim=-1)[0].sum(-1).topk(shape.topk_group, dim=-1)[1]
            allowed = torch.zeros_like(grouped[..., 0]).scatter(-1, best, 1.0)
            candidates = (grouped * allowed[..., None]).flatten(-2)
            chosen = candidates.topk(shape.num_experts_per_tok, dim=-1)[1]
            mask = torch.zeros_like(scores).scatter(-1, chosen, 1.0)
            if self.training:
                self.load.copy_(mask.flatten(0, -2).mean(0))
        weights = scores * mask
        return weights / weights.sum(-1, keepdim=True) * shape.routed_scaling_factor

    @torch.no_grad()
    def balance(self) -> None:
        """Move the biases towards even loads."""
        self.e_score_correction_bias += BALANCE_SPEED * (self.load.mean() - self.load).sign()


class Experts(nn.Module):
    """All routed experts, computed densely: they are small, and most of the weights are zero."""

    def __init__(self, shape: DeepseekShape) -> None:
        super().__init__()
        count, hidden, inner = shape.n_routed_experts, shape.hidden_size, shape.moe_intermediate_size
        self.gate_proj = nn.Parameter(torch.empty(count, inner, hidden))
        self.up_proj = nn.Parameter(torch.empty(count, inner, hidden))
        self.down_proj = nn.Parameter(torch.empty(count, hidden, inner))

    def forward(self, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Weighted sum over experts, shape (..., hidden)."""
        gate, up = (F.linear(x, each.flatten(0, 1)) for each in (self.gate_proj, self.up_proj))
        inner = (F.silu(gate) * up).unflatten(-1, (weights.shape[-1], -1))
        inner = (inner * weights[..., None].to(inner.dtype)).flatten(-2)
        return F.linear(inner, self.down_proj.transpose(0, 1).flatten(1))


class MixtureOfExperts(nn.Module):
    """Routed experts and shared ones."""

    def __init__(self, shape: DeepseekShape) -> None:
        super().__init__()
        self.gate = Router(shape)
        self.experts = Experts(shape)
        self.shared_experts = GatedFeedForward(shape.hidden_size, shape.moe_intermediate_size * shape.n_shared_experts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (..., hidden) to the same."""
        return self.experts(x, self.gate(x)) + self.shared_experts(x)


class DeepseekLayer(nn.Module):
    """One pre-norm decoder layer."""

    def __init__(self, shape: DeepseekShape, *, is_dense: bool) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(shape.hidden_size)
        self.post_attention_layernorm = RMSNorm(shape.hidden_size)
        self.self_attn = LatentAttention(shape)
        dense = GatedFeedForward(shape.hidden_size, shape.intermediate_size)
        self.mlp = dense if is_dense else MixtureOfExperts(shape)

    def forward(self, x: torch.Tensor, earlier: tuple[Keys, ...] = ()) -> tuple[torch.Tensor, tuple[Keys, ...]]:
        """Output, shape (batch, time, hidden), and the passes of attention."""
        mixed, passes = self.self_attn(self.input_layernorm(x), earlier)
        x = x + mixed
        return x + self.mlp(self.post_attention_layernorm(x)), passes


class DeepseekHead(nn.Module):
    """The prediction layer; what it chains is its output before `norm`."""

    def __init__(self, shape: DeepseekShape) -> None:
        super().__init__()
        self.enorm = RMSNorm(shape.hidden_size)
        self.hnorm = RMSNorm(shape.hidden_size)
        self.eh_proj = nn.Linear(2 * shape.hidden_size, shape.hidden_size, bias=False)
        self.layer = DeepseekLayer(shape, is_dense=False)
        self.norm = RMSNorm(shape.hidden_size)

    def forward(
        self, embedding: torch.Tensor, hidden: torch.Tensor, earlier: tuple[Keys, ...] = ()
    ) -> tuple[torch.Tensor, tuple[Keys, ...]]:
        """Output of the layer, shape (batch, time, hidden), and the passes."""
        fused = self.eh_proj(torch.cat([self.enorm(embedding), self.hnorm(hidden)], dim=-1))
        return self.layer(fused, earlier)


class DeepseekModel(nn.Module):
    """Target and prediction layer."""

    def __init__(self, shape: DeepseekShape) -> None:
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        depths = range(shape.num_hidden_layers)
        self.layers = nn.ModuleList([DeepseekLayer(shape, is_dense=i < shape.first_k_dense_replace) for i in depths])
        self.norm = RMSNorm(shape.hidden_size)
        self.lm_head = nn.Linear(shape.hidden_size, shape.vocab_size, bias=False)
        self.head = DeepseekHead(shape)

    def hidden(self, tokens: torch.Tensor) -> torch.Tensor:
        """Hidden states before the final norm, shape (batch, time, hidden)."""
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x, _ = layer(x)
        return x

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """The target's logits, shape (batch, time, vocabulary)."""
        return self.lm_head(self.norm(hidden))

    def head_logits(self, outputs: torch.Tensor) -> torch.Tensor:
        """Logits of the head's outputs, shape (batch, time, vocabulary)."""
        return self.lm_head(self.head.norm(outputs))

    def checkpoint(self) -> dict[str, torch.Tensor]:
        """Tensors under their published names."""
        extra = f"model.layers.{self.shape.num_hidden_layers}"
        published: dict[str, torch.Tensor] = {
            f"{extra}.embed_tokens.weight": self.embed_tokens.weight.detach().clone(),
            f"{extra}.shared_head.head.weight": self.lm_head.weight.detach().clone(),
        }
        renames = {"head.layer.": f"{extra}.", "head.norm.": f"{extra}.shared_head.norm.", "head.": f"{extra}."}
        for name, tensor in self.state_dict().items():
            prefix = next((each for each in renames if name.startswith(each)), None)
            if prefix is not None:
                full = renames[prefix] + name.removeprefix(prefix)
            else:
                full = name if name.startswith("lm_head.") else f"model.{name}"
            stem, _, projection = full.rpartition(".experts.")
            if stem:
                published |= {f"{stem}.experts.{i}.{projection}.weight": each for i, each in enumerate(tensor)}
            else:
                published[full] = tensor
        return published

    def config(self, context: int) -> dict[str, Any]:
        """The published config.json; `context` in tokens."""
        return {
            "architectures": ["DeepseekV3ForCausalLM"],
            "model_type": "deepseek_v3",
            **{name: getattr(self.shape, name) for name in DeepseekShape.__dataclass_fields__},
            "num_nextn_predict_layers": 1,
            "topk_method": "noaux_tc",
            "scoring_func": "sigmoid",
            "norm_topk_prob": True,
            "moe_layer_freq": 1,
            "hidden_act": "silu",
            "rms_norm_eps": self.norm.eps,
            "rope_scaling": None,
            "attention_bias": False,
            "max_position_embeddings": context,
            "tie_word_embeddings": False,
            "bos_token_id": None,
            "eos_token_id": 2,
            "torch_dtype": "bfloat16",
            "max_proposals": 3,
        }
