"""Facts of DeepSeek V3, R1, V3.2 and Kimi K2."""

from __future__ import annotations

from eredu.checkpoints.caches import LATENT, every
from eredu.checkpoints.family import Family, HeadFacts, layers_behind_the_last

FAMILIES = (
    Family(
        folder="deepseek",
        model_types=("deepseek_v3", "deepseek_v32", "kimi_k2"),
        caches=every(LATENT),
        heads=HeadFacts(claim=layers_behind_the_last, cache=LATENT),
        assumed={
            "hidden_act": "silu",
            "scoring_func": "sigmoid",
            "topk_method": "noaux_tc",
            "rope_interleave": True,
            "tie_word_embeddings": False,
        },
        gguf=("deepseek2",),
        gguf_cache=LATENT,
    ),
)
