"""Facts of GLM-4.5, 4.6, 4.7 (`glm4_moe`), GLM-4.7-Flash (`glm4_moe_lite`) and GLM-5 (`glm_moe_dsa`).

A head is one more decoder layer, as DeepSeek V3 has it; GLM-4.7-Flash has DeepSeek V3's latent attention too, and GLM-5
the sparse attention of DeepSeek V3.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eredu.checkpoints.caches import FULL, LATENT, every
from eredu.checkpoints.config import ModelConfig
from eredu.checkpoints.family import Family, HeadFacts, layers_behind_the_last

EVERY = "index_topk_freq"
"""Key of how many layers share what one indexer picks."""


def indexers(config: ModelConfig) -> Mapping[str, Any]:
    """Layers that share one indexer at the most, where the config says of each whether it has its own.

    GLM-5.2 lists them so. It may list words (`full`, `shared`) or letters (`F`, `S`), which count before the number.
    """
    given = config.get("indexer_types") or config.get("index_topk_pattern")
    if not isinstance(given, str | list):
        return {}
    own = "".join("F" if str(kind)[:1].lower() == "f" else "S" for kind in given)
    return {EVERY: 1 + max(map(len, own.split("F")))}


FAMILIES = (
    Family(
        folder="glm",
        model_types=("glm4_moe",),
        caches=every(FULL),
        heads=HeadFacts(claim=layers_behind_the_last),
        assumed={"hidden_act": "silu", "tie_word_embeddings": False},
        even_attention=True,
        gguf=("glm4moe",),
    ),
    Family(
        folder="glm",
        model_types=("glm4_moe_lite",),
        caches=every(LATENT),
        heads=HeadFacts(claim=layers_behind_the_last, cache=LATENT),
        assumed={
            "hidden_act": "silu",
            "partial_rotary_factor": 1.0,
            "rope_interleave": True,
            "tie_word_embeddings": False,
            "topk_method": "noaux_tc",
        },
    ),
    Family(
        folder="glm",
        model_types=("glm_moe_dsa",),
        caches=every(LATENT),
        heads=HeadFacts(claim=layers_behind_the_last, cache=LATENT),
        implied=indexers,
        assumed={
            "hidden_act": "silu",
            EVERY: 1,
            "mlp_bias": False,
            "rope_interleave": True,
            "scoring_func": "sigmoid",
            "tie_word_embeddings": False,
            "topk_method": "noaux_tc",
        },
    ),
)
