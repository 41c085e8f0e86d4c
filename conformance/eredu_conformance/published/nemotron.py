"""Nemotron-H: state space, attention without positions, latent experts and feed-forward, with its prediction heads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eredu_conformance.published.equations import Array, Published, causal, rms_norm, sigmoid, softmax


class NemotronH(Published):
    """Nemotron-H."""

    @property
    def eps(self) -> float:
        """Of every norm."""
        return float(self.config["layer_norm_epsilon"])

    def block(self, x: Array, prefix: str, letter: str) -> Array:
        """One block, added to the residual."""
        mixers = {"M": self.state_space, "*": self.attention, "E": self.experts, "-": self.mlp}
        return x + mixers[letter](self.norm(x, f"{prefix}norm", self.eps), f"{prefix}mixer.")

    def mlp(self, x: Array, prefix: str) -> Array:
        """Squared ReLU, ungated."""
        return self.linear(np.maximum(self.linear(x, f"{prefix}up_proj"), 0) ** 2, f"{prefix}down_proj")

    def experts(self, x: Array, prefix: str) -> Array:
        """The chosen experts in the latent width, and the shared one."""
        chosen, weights = self.route(x, f"{prefix}gate")
        latent = self.linear(x, f"{prefix}fc1_latent_proj")
        mixed = np.zeros_like(latent)
        for row in range(len(x)):
            for expert, weight in zip(chosen[row], weights[row], strict=True):
                mixed[row] += weight * self.mlp(latent[row], f"{prefix}experts.{expert}.")
        return self.linear(mixed, f"{prefix}fc2_latent_proj") + self.mlp(x, f"{prefix}shared_experts.")

    def attention(self, x: Array, prefix: str) -> Array:
        """Grouped-query attention without positions."""
        rows, width = len(x), self.config["head_dim"]
        query, key, value = (self.linear(x, f"{prefix}{name}_proj").reshape(rows, -1, width) for name in "qkv")
        repeats = query.shape[1] // key.shape[1]
        key, value = (np.repeat(array, repeats, axis=1) for array in (key, value))
        scores = np.einsum("qhd,khd->hqk", query, key) * width**-0.5
        mixed = np.einsum("hqk,khd->qhd", softmax(np.where(causal(rows), scores, -np.inf)), value)
        return self.linear(mixed.reshape(rows, -1), f"{prefix}o_proj")

    def state_space(self, x: Array, prefix: str) -> Array:
        """Mamba 2 (Dao and Gu 2024, arXiv 2405.21060), one row after another."""
        config, rows = self.config, len(x)
        heads, width, groups, state = (
            config[key] for key in ("mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size")
        )
        inner, kernel = heads * width, config["conv_kernel"]
        gate, mixed, step = np.split(
            self.linear(x, f"{prefix}in_proj"), [inner, 2 * inner + 2 * groups * state], axis=-1
        )
        padded = np.concatenate([np.zeros((kernel - 1, mixed.shape[1])), mixed])
        taps = self.get(f"{prefix}conv1d.weight")[:, 0]
        mixed = np.stack([(padded[row : row + kernel] * taps.T).sum(axis=0) for row in range(rows)])
        mixed = mixed + self.get(f"{prefix}conv1d.bias")
        mixed = mixed * sigmoid(mixed)
        values, b, c = np.split(mixed, [inner, inner + groups * state], axis=-1)
        values = values.reshape(rows, heads, width)
        b, c = (np.repeat(part.reshape(rows, groups, state), heads // groups, axis=1) for part in (b, c))
        step = np.log1p(np.exp(step + self.get(f"{prefix}dt_bias")))
        decay = np.exp(-np.exp(self.get(f"{prefix}A_log")) * step)
        held, outputs = np.zeros((heads, width, state)), np.zeros((rows, heads, width))
        for row in range(rows):
            held = decay[row][:, None, None] * held
            held += (step[row][:, None] * values[row])[..., None] * b[row][:, None]
            outputs[row] = (held * c[row][:, None]).sum(axis=-1) + self.get(f"{prefix}D")[:, None] * values[row]
        gated = (outputs.reshape(rows, inner) * gate * sigmoid(gate)).reshape(rows, groups, -1)
        normed = rms_norm(gated, np.ones(gated.shape[-1]), self.eps).reshape(rows, inner)
        return self.linear(normed * self.get(f"{prefix}norm.weight"), f"{prefix}out_proj")

    def target(self, tokens: Sequence[int]) -> tuple[Array, Array, Array]:
        """Hidden states before and behind the final norm, and logits."""
        x = self.get("backbone.embeddings.weight")[list(tokens)]
        for layer, letter in enumerate(self.config["hybrid_override_pattern"]):
            x = self.block(x, f"backbone.layers.{layer}.", letter)
        normed = self.norm(x, "backbone.norm_f", self.eps)
        return x, normed, self.linear(normed, "lm_head")

    def stage(
        self, number: int, hidden: Array, tokens: Sequence[int], *, hidden_first: bool
    ) -> tuple[Array, Array, Array]:
        """Outputs of a step before and behind its norm, and its logits."""
        pattern = self.config["mtp_hybrid_override_pattern"]
        start = number * len(pattern)
        first, last = f"mtp.layers.{start}.", f"mtp.layers.{start + len(pattern) - 1}."
        embedding = self.get("backbone.embeddings.weight")[list(tokens)]
        halves = [self.norm(embedding, f"{first}enorm", self.eps), self.norm(hidden, f"{first}hnorm", self.eps)]
        y = self.linear(np.concatenate(halves[::-1] if hidden_first else halves, axis=-1), f"{first}eh_proj")
        for offset, letter in enumerate(pattern):
            y = self.block(y, f"mtp.layers.{start + offset}.", letter)
        normed = self.norm(y, f"{last}final_layernorm", self.eps)
        return y, normed, self.linear(normed, "lm_head")
