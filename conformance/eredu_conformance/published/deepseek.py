"""DeepSeek V3 (arXiv 2412.19437) and V3.2, whose indexer chooses the keys, with their prediction heads."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eredu_conformance.published.equations import (
    Array,
    Published,
    causal,
    highest,
    rotate_halves,
    rotate_pairs,
    sigmoid,
    softmax,
)


class DeepSeek(Published):
    """DeepSeek V3 and V3.2."""

    def layer(self, x: Array, prefix: str) -> Array:
        """A decoder layer over all positions."""
        eps = self.config["rms_norm_eps"]
        x = x + self.attention(self.norm(x, f"{prefix}input_layernorm", eps), f"{prefix}self_attn.")
        inner = self.norm(x, f"{prefix}post_attention_layernorm", eps)
        sparse = f"{prefix}mlp.gate.weight" in self.tensors
        return x + (self.experts if sparse else self.mlp)(inner, f"{prefix}mlp.")

    def mlp(self, x: Array, prefix: str) -> Array:
        """SwiGLU."""
        gate = self.linear(x, f"{prefix}gate_proj")
        return self.linear(gate * sigmoid(gate) * self.linear(x, f"{prefix}up_proj"), f"{prefix}down_proj")

    def experts(self, x: Array, prefix: str) -> Array:
        """Shared experts, and the chosen ones by their weights."""
        chosen, weights = self.route(x, f"{prefix}gate")
        y = self.mlp(x, f"{prefix}shared_experts.")
        for row in range(len(x)):
            for expert, weight in zip(chosen[row], weights[row], strict=True):
                y[row] += weight * self.mlp(x[row], f"{prefix}experts.{expert}.")
        return y

    def attention(self, x: Array, prefix: str) -> Array:
        """Latent attention with every key and value unfolded."""
        config, rows = self.config, len(x)
        heads, nope, rope = (config[key] for key in ("num_attention_heads", "qk_nope_head_dim", "qk_rope_head_dim"))
        query_latent = self.norm(self.linear(x, f"{prefix}q_a_proj"), f"{prefix}q_a_layernorm", 1e-6)
        query = self.linear(query_latent, f"{prefix}q_b_proj").reshape(rows, heads, nope + rope)
        compressed = self.linear(x, f"{prefix}kv_a_proj_with_mqa")
        latent = self.norm(compressed[:, : config["kv_lora_rank"]], f"{prefix}kv_a_layernorm", 1e-6)
        keys = self.linear(latent, f"{prefix}kv_b_proj").reshape(rows, heads, -1)
        angles = np.arange(rows)[:, None] * self.frequencies()
        rotated_keys = rotate_pairs(compressed[:, config["kv_lora_rank"] :], angles)
        rotated_queries = rotate_pairs(query[..., nope:], angles[:, None])
        scores = np.einsum("qhd,khd->hqk", query[..., :nope], keys[..., :nope])
        scores += np.einsum("qhd,kd->hqk", rotated_queries, rotated_keys)
        visible = causal(rows)
        if f"{prefix}indexer.wk.weight" in self.tensors:
            visible &= self.indexed(x, query_latent, angles, f"{prefix}indexer.")
        shares = softmax(np.where(visible, scores * self.scale(), -np.inf))
        values = np.einsum("hqk,khd->qhd", shares, keys[..., nope:])
        return self.linear(values.reshape(rows, -1), f"{prefix}o_proj")

    def indexed(self, x: Array, query_latent: Array, angles: Array, prefix: str) -> NDArray[np.bool_]:
        """Keys that the indexer gives each row, shape (rows, rows)."""
        config, rows = self.config, len(x)
        heads, width, rope = (config[key] for key in ("index_n_heads", "index_head_dim", "qk_rope_head_dim"))
        query = self.linear(query_latent, f"{prefix}wq_b").reshape(rows, heads, width)
        key = self.linear(x, f"{prefix}wk")
        key = (key - key.mean(axis=-1, keepdims=True)) / np.sqrt(key.var(axis=-1, keepdims=True) + 1e-6)
        key = key * self.get(f"{prefix}k_norm.weight") + self.get(f"{prefix}k_norm.bias")
        query = np.concatenate([rotate_halves(query[..., :rope], angles[:, None]), query[..., rope:]], axis=-1)
        key = np.concatenate([rotate_halves(key[:, :rope], angles), key[:, rope:]], axis=-1)
        weights = self.linear(x, f"{prefix}weights_proj") * heads**-0.5 * width**-0.5
        scores = np.einsum("qh,qhk->qk", weights, np.maximum(np.einsum("qhd,kd->qhk", query, key), 0))
        scores = np.where(causal(rows), scores, -np.inf)
        kept = np.zeros((rows, rows), dtype=np.bool_)
        np.put_along_axis(kept, highest(scores, config["index_topk"]), values=True, axis=-1)
        return kept

    def frequencies(self) -> Array:
        """Rotary frequencies under YaRN (Peng et al. 2023, arXiv 2309.00071), shape (rotary width / 2,)."""
        width, theta, yarn = self.config["qk_rope_head_dim"], self.config["rope_theta"], self.config["rope_scaling"]
        plain = theta ** -(np.arange(0, width, 2) / width)

        def dimension(turns: float) -> float:
            length = yarn["original_max_position_embeddings"]
            return float(width * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(theta)))

        low = max(math.floor(dimension(yarn["beta_fast"])), 0)
        high = min(math.ceil(dimension(yarn["beta_slow"])), width - 1)
        stretched = np.clip((np.arange(width // 2) - low) / max(high - low, 1e-3), 0, 1)
        return np.asarray(plain / yarn["factor"] * stretched + plain * (1 - stretched))

    def scale(self) -> float:
        """Of the scores: the root of the head's width, sharpened by YaRN."""
        yarn = self.config["rope_scaling"]
        sharpness = 0.1 * yarn["mscale_all_dim"] * math.log(yarn["factor"]) + 1
        return float((self.config["qk_nope_head_dim"] + self.config["qk_rope_head_dim"]) ** -0.5 * sharpness**2)

    def target(self, tokens: Sequence[int]) -> tuple[Array, Array, Array]:
        """Hidden states before and behind the final norm, and logits."""
        x = self.get("model.embed_tokens.weight")[list(tokens)]
        for layer in range(self.config["num_hidden_layers"]):
            x = self.layer(x, f"model.layers.{layer}.")
        normed = self.norm(x, "model.norm", self.config["rms_norm_eps"])
        return x, normed, self.linear(normed, "lm_head")

    def stage(
        self, number: int, hidden: Array, tokens: Sequence[int], *, hidden_first: bool
    ) -> tuple[Array, Array, Array]:
        """Outputs of a stage before and behind its norm, and its logits."""
        prefix, eps = f"model.layers.{self.config['num_hidden_layers'] + number}.", self.config["rms_norm_eps"]
        embedding = self.get(f"{prefix}embed_tokens.weight")[list(tokens)]
        halves = [self.norm(embedding, f"{prefix}enorm", eps), self.norm(hidden, f"{prefix}hnorm", eps)]
        fused = self.linear(np.concatenate(halves[::-1] if hidden_first else halves, axis=-1), f"{prefix}eh_proj")
        y = self.layer(fused, prefix)
        normed = self.norm(y, f"{prefix}shared_head.norm", eps)
        return y, normed, self.linear(normed, f"{prefix}shared_head.head")
