"""Facts of GLM-4.5, 4.6, 4.7 (`glm4_moe`) and GLM-4.7-Flash (`glm4_moe_lite`).

A head is one more decoder layer, as DeepSeek V3 has it; GLM-4.7-Flash has DeepSeek V3's latent attention too.
"""

from __future__ import annotations

from eredu.checkpoints.caches import FULL, LATENT, every
from eredu.checkpoints.family import Family, HeadFacts, layers_behind_the_last

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
)
