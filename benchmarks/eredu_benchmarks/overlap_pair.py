"""A pair made for one purpose: the draft is always right, and costs what its share of the target's layers costs.

The target is a llama with random weights whose later layers add nothing to the residual stream (their output
projections are zero), yet do all their work. The draft is the target's first layers with the same embedding, norm and
head, so both compute the same logits. Only speed can be learned from this pair.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx

PROJECTIONS = ("self_attn.o_proj", "mlp.down_proj")
"""What a layer adds to the residual stream goes through these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapShape:
    """Size of the pair; few and wide layers, since MLX's CPU queue holds about a hundred operations.

    Attributes:
        target_layers: Layers of the target.
        draft_layers: How many of them the draft has.
        hidden: Width.
        intermediate: Width of the MLP.
        heads: Attention heads.
        vocabulary: Ids, without a tokenizer.
        context: Tokens that fit.
    """

    target_layers: int = 2
    draft_layers: int = 1
    hidden: int = 1024
    intermediate: int = 2816
    heads: int = 8
    vocabulary: int = 12288
    context: int = 512

    def draft_share(self, proposals: int) -> float:
        """Weights that K drafted rows read over those that K + 1 verified rows read: the draft's cost in theory."""
        layer = 4 * self.hidden**2 + 3 * self.hidden * self.intermediate
        head = self.hidden * self.vocabulary
        draft, target = self.draft_layers * layer + head, self.target_layers * layer + head
        return proposals * draft / ((proposals + 1) * target)

    def write(self, directory: Path, *, seed: int = 0) -> tuple[Path, Path]:
        """Write both checkpoints, float32, without tokenizers; return the target's and the draft's directory."""
        weights = self._weights(mx.random.key(seed))
        layers = range(self.draft_layers, self.target_layers)
        dropped = tuple(f"model.layers.{index}." for index in layers)
        draft = {name: array for name, array in weights.items() if not name.startswith(dropped)}
        target_path, draft_path = directory / "target", directory / "draft"
        self._save(target_path, weights, self.target_layers)
        self._save(draft_path, draft, self.draft_layers)
        return target_path, draft_path

    def _save(self, path: Path, weights: dict[str, mx.array], layers: int) -> None:
        path.mkdir(parents=True)
        mx.save_safetensors(str(path / "model.safetensors"), weights, metadata={"format": "mlx"})
        (path / "config.json").write_text(json.dumps(self._config(layers), indent=2) + "\n", encoding="utf-8")

    def _config(self, layers: int) -> dict[str, Any]:
        return {
            "model_type": "llama",
            "hidden_size": self.hidden,
            "num_hidden_layers": layers,
            "intermediate_size": self.intermediate,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.heads,
            "rms_norm_eps": 1e-5,
            "vocab_size": self.vocabulary,
            "max_position_embeddings": self.context,
            "rope_theta": 10000.0,
            "tie_word_embeddings": False,
        }

    def _weights(self, key: mx.array) -> dict[str, mx.array]:
        shapes = {"model.embed_tokens": (self.vocabulary, self.hidden), "lm_head": (self.vocabulary, self.hidden)}
        inner = dict.fromkeys(("q_proj", "k_proj", "v_proj", "o_proj"), (self.hidden, self.hidden))
        for index in range(self.target_layers):
            prefix = f"model.layers.{index}"
            shapes |= {f"{prefix}.self_attn.{name}": shape for name, shape in inner.items()}
            shapes |= {f"{prefix}.mlp.{name}": (self.intermediate, self.hidden) for name in ("gate_proj", "up_proj")}
            shapes[f"{prefix}.mlp.down_proj"] = (self.hidden, self.intermediate)
        keys = mx.random.split(key, len(shapes))
        drawn = zip(shapes.items(), keys, strict=True)
        weights = {
            f"{name}.weight": mx.random.normal(shape, key=own) * shape[1] ** -0.5 for (name, shape), own in drawn
        }
        for index in range(self.draft_layers, self.target_layers):
            for projection in PROJECTIONS:
                silent = f"model.layers.{index}.{projection}.weight"
                weights[silent] = mx.zeros_like(weights[silent])
        for index in range(self.target_layers):
            for norm in ("input_layernorm", "post_attention_layernorm"):
                weights[f"model.layers.{index}.{norm}.weight"] = mx.ones((self.hidden,))
        weights["model.norm.weight"] = mx.ones((self.hidden,))
        return weights

    def to_json(self) -> dict[str, int]:
        """All sizes by name."""
        return asdict(self)
