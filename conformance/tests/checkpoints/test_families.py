"""The families' facts against mlx-lm's classes, which really make the caches, and against their own folders."""

import importlib
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, RotatingKVCache

from eredu.checkpoints.caches import CacheKind, LayerCache
from eredu.checkpoints.config import ModelConfig
from eredu.families.plain.facts import FULL_ATTENTION
from eredu.families.recurrence import recurrences_of
from eredu.families.registry import ARCHITECTURES, FAMILIES, MODEL_TYPES, parts_named


def test_every_name_is_of_one_family() -> None:
    names = Counter(name for family in FAMILIES for name in (*family.model_types, *family.assistants))
    architectures = Counter(name for family in FAMILIES for name in (*family.gguf, *family.gguf_assistants))
    assert names == dict.fromkeys(MODEL_TYPES, 1)
    assert architectures == dict.fromkeys(ARCHITECTURES, 1)


def test_heads_that_run_have_a_loader_in_the_folder() -> None:
    run = {family.folder for family in FAMILIES if family.heads is not None and family.heads.runs}
    assert run == parts_named("heads").keys()
    assert all(callable(part.load_heads) for part in parts_named("heads").values())


def test_facts_need_no_mlx() -> None:
    program = "import sys; sys.modules['mlx'] = sys.modules['mlx_lm'] = None; import eredu.families.registry"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("family", FULL_ATTENTION.model_types)
def test_families_of_full_attention_make_no_caches_of_their_own(family: str) -> None:
    """mlx-lm gives a class without `make_cache` one plain cache a layer."""
    model = importlib.import_module(f"mlx_lm.models.{family}").Model
    assert not hasattr(model, "make_cache")
    assert hasattr(model, "layers")


TINY: dict[str, Any] = {
    "hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "vocab_size": 8,
    "intermediate_size": 16, "rms_norm_eps": 1e-5, "sliding_window": 4, "max_position_embeddings": 64,
    "rope_theta": 1e4,
}  # fmt: skip
SLIDING = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "num_hidden_layers": 3}
HYBRID = {
    "num_hidden_layers": 5, "full_attention_interval": 2, "linear_num_value_heads": 1, "linear_num_key_heads": 1,
    "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_conv_kernel_dim": 4, "num_experts": 0,
    "num_experts_per_tok": 0, "decoder_sparse_step": 1, "shared_expert_intermediate_size": 8, "mlp_only_layers": [],
    "moe_intermediate_size": 8, "partial_rotary_factor": 0.5,
}  # fmt: skip
NEMOTRON = {
    "num_hidden_layers": 4, "hybrid_override_pattern": "M-*M", "mamba_num_heads": 2, "mamba_head_dim": 8,
    "mamba_proj_bias": False, "ssm_state_size": 8, "conv_kernel": 4, "n_groups": 1, "mlp_bias": False,
    "layer_norm_epsilon": 1e-5, "use_bias": False, "use_conv_bias": True, "residual_in_fp32": False,
    "time_step_limit": [0.0, 1.0], "mlp_hidden_act": "relu2", "attention_bias": False, "tie_word_embeddings": False,
}  # fmt: skip
BUILT: dict[str, dict[str, Any]] = {
    "llama": SLIDING,
    "ministral3": {**SLIDING, "rope_parameters": {"rope_theta": 1e4, "llama_4_scaling_beta": 0.1,
                                                  "original_max_position_embeddings": 64}},
    "cohere2": {"num_hidden_layers": 5, "layer_norm_eps": 1e-5, "logit_scale": 1.0, "attention_bias": False},
    "gemma3_text": {"num_hidden_layers": 7},
    "qwen3_next": HYBRID,
    "nemotron_h": NEMOTRON,
}  # fmt: skip


def kind_of(cache: Any) -> LayerCache:
    if isinstance(cache, RotatingKVCache):
        return LayerCache(CacheKind.WINDOW, cache.max_size)
    if isinstance(cache, ArraysCache):
        return LayerCache(CacheKind.RECURRENT, followed=True)
    assert isinstance(cache, (KVCache, CacheList))
    return LayerCache(CacheKind.FULL)


@pytest.mark.parametrize("family", BUILT)
def test_the_caches_are_those_that_a_built_model_makes(family: str) -> None:
    module = importlib.import_module(f"mlx_lm.models.{family}")
    values = {**TINY, **BUILT[family], "model_type": family}
    model = module.Model(module.ModelArgs.from_dict(values))
    made = model.make_cache()
    told = [cache for cache in MODEL_TYPES[family].caches(ModelConfig(Path("config.json"), values, values)) if cache]
    assert [kind_of(cache) for cache in made] == told
    assert set(recurrences_of(model)) == {place for place, cache in enumerate(told) if cache.followed}
