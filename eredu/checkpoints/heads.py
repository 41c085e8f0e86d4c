"""Prediction heads inside a checkpoint: what its config claims, and which tensors are really there.

Configs lie: converted checkpoints often keep the claim and drop the tensors. A claim without any tensor is no
capability, a part of the tensors is an error, and only the whole set counts. The names are those of the published
checkpoints, without the wrappers' prefixes (`model.`, `language_model.`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from eredu.checkpoints.assumptions import broken_assumption
from eredu.checkpoints.caches import LayerCache
from eredu.checkpoints.config import ModelConfig
from eredu.checkpoints.families import ASSISTANTS, FULL, LATENT
from eredu.contract.capability import MtpCapability, MtpCheckpointKind
from eredu.contract.errors import CheckpointError
from eredu.contract.options import MAX_PROPOSALS

QWEN = ("qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text")
HEAD_DIRECTORY = "_mtp"
"""Ending of the `model_type` of a directory that holds heads alone, behind the family's name."""

DEEPSEEK = ("deepseek_v3", "deepseek_v32", "kimi_k2")
EMBEDDED = (*QWEN, *DEEPSEEK, "nemotron_h")
RUNNABLE: frozenset[str] = frozenset({*EMBEDDED, *(f"{family}{HEAD_DIRECTORY}" for family in (*EMBEDDED, "llama"))})
"""`model_type`s whose heads eredu runs: of checkpoints, and of directories that hold heads alone."""

_WRAPPERS = re.compile(r"^(?:model\.|language_model\.|backbone\.)+")
DSPARK_KEYS = ("dspark_block_size", "dspark_noise_token_id", "dspark_target_layer_ids", "dspark_markov_rank")


@dataclass(frozen=True, slots=True)
class HeadReport:
    """What a checkpoint has to offer for multi-token prediction.

    Attributes:
        claimed: Heads (prediction depths) that the metadata claim.
        tensors: Head tensors that are there.
        stated_depth: Proposals a round that the metadata say they may be iterated to, 0 where they say nothing.
        capability: What follows.
        reason: Why, in one sentence.
    """

    claimed: int
    tensors: int
    capability: MtpCapability
    reason: str
    stated_depth: int = 0

    @property
    def usable_depth(self) -> int:
        """Proposals a round: as stated, else each head one; a probe shows whether iterating them is worth more."""
        return max(self.claimed, self.stated_depth) if self.capability.is_ready else 0

    def to_json(self) -> dict[str, Any]:
        """The stable form."""
        return {
            "claimed": self.claimed,
            "tensors": self.tensors,
            "usable_depth": self.usable_depth,
            "capability": self.capability.to_json(),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class HeadClaim:
    """Heads that a config claims: how many, the prefix of their tensors, and the tensors that each must have."""

    count: int
    prefixes: tuple[str, ...]
    required: tuple[str, ...]


MAX_HEADS = 1_000


def _claimed(config: ModelConfig, key: str = "num_nextn_predict_layers", default: int = 0) -> int:
    return config.count(key, default, most=MAX_HEADS)


ClaimRule = Callable[[ModelConfig], HeadClaim]


def _names(prefix: str, *stems: str) -> list[str]:
    return [f"{prefix}{stem}.weight" for stem in stems]


def _attention(prefix: str) -> list[str]:
    return _names(f"{prefix}self_attn.", "q_proj", "k_proj", "v_proj", "o_proj")


def _qwen(config: ModelConfig) -> HeadClaim:
    """Names as published, experts under one name, whatever form they are stored in (see `_forms`)."""
    count = _claimed(config, "mtp_num_hidden_layers", _claimed(config, default=int(is_head_directory(config))))
    required = _names("mtp.", "fc", "norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden")
    for layer in (f"mtp.layers.{i}." for i in range(count)):
        required += [*_names(layer, "input_layernorm", "post_attention_layernorm"), *_attention(layer)]
        required += [*_names(f"{layer}self_attn.", "q_norm", "k_norm"), *_feed_forward(layer, config)]
    return HeadClaim(count, ("mtp.",), tuple(required))


def _feed_forward(layer: str, config: ModelConfig) -> list[str]:
    projections = ("gate_proj", "up_proj", "down_proj")
    if not config.count("num_experts", 0):
        return _names(f"{layer}mlp.", *projections)
    shared = [
        *_names(f"{layer}mlp.shared_expert.", *projections),
        *_names(f"{layer}mlp.", "gate", "shared_expert_gate"),
    ]
    return [*shared, *_names(f"{layer}mlp.experts.", *projections)]


def _llama(config: ModelConfig) -> HeadClaim:  # noqa: ARG001
    layer = "mtp.layers.0."
    required = _names("mtp.", "fc", "norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden")
    required += [*_names(layer, "input_layernorm", "post_attention_layernorm"), *_attention(layer)]
    required += _names(f"{layer}mlp.", "gate_proj", "up_proj", "down_proj")
    return HeadClaim(1, ("mtp.",), tuple(required))


def _deepseek_v3(config: ModelConfig) -> HeadClaim:
    count, depth = _claimed(config), config.layers
    prefixes = tuple(f"layers.{depth + i}." for i in range(count))
    stems = ("enorm", "hnorm", "eh_proj", "shared_head.norm", "input_layernorm", "self_attn.o_proj")
    return HeadClaim(count, prefixes, tuple(name for prefix in prefixes for name in _names(prefix, *stems)))


def _deepseek_v4(config: ModelConfig) -> HeadClaim:
    count = _claimed(config)
    fused = [key for key in DSPARK_KEYS if config.get(key) is not None]
    if fused and len(fused) != len(DSPARK_KEYS):
        raise CheckpointError(
            f"{config.path} has {', '.join(fused)} and not all of {', '.join(DSPARK_KEYS)}; expected all of them "
            "(a fused drafter) or none (ordinary heads)"
        )
    if fused:
        last = f"mtp.{count - 1}."
        required = [*_names("mtp.0.", "main_proj", "main_norm"), *_names(last, "norm", "markov_head.markov_w1")]
    else:
        stems = ("enorm", "hnorm", "norm", "e_proj", "h_proj")
        required = [name for i in range(count) for name in _names(f"mtp.{i}.", *stems)]
    return HeadClaim(count, ("mtp.",), tuple(required))


def _inkling(config: ModelConfig) -> HeadClaim:
    nested = config.get("mtp_config", {})
    if not isinstance(nested, dict):
        raise CheckpointError(f"{config.path} gives mtp_config as {nested!r}; expected an object")
    count = _claimed(ModelConfig(config.path, nested, nested))
    stems = ("hidden_norm", "embed_norm", "input_proj")
    required = (name for i in range(count) for name in _names(f"mtp.layers.{i}.", *stems))
    return HeadClaim(count, ("mtp.",), tuple(required))


def _nemotron_h(config: ModelConfig) -> HeadClaim:
    count = _claimed(config)
    pattern = config.get("mtp_hybrid_override_pattern")
    length = len(pattern) if isinstance(pattern, str) else len(config.strings("mtp_layers_block_type") or ())
    required: list[str] = []
    for start in range(0, count * length, length or 1):
        required += _names(f"mtp.layers.{start}.", "enorm", "hnorm", "eh_proj")
        required += _names(f"mtp.layers.{start + length - 1}.", "final_layernorm")
    return HeadClaim(count, ("mtp.",), tuple(required))


CLAIM_RULES: Mapping[str, ClaimRule] = {
    **dict.fromkeys(QWEN, _qwen),
    **dict.fromkeys((f"{family}{HEAD_DIRECTORY}" for family in QWEN), _qwen),
    f"llama{HEAD_DIRECTORY}": _llama,
    **dict.fromkeys(DEEPSEEK, _deepseek_v3),
    "deepseek_v4": _deepseek_v4,
    "inkling": _inkling,
    "nemotron_h": _nemotron_h,
}


def is_head_directory(config: ModelConfig) -> bool:
    """Whether the directory holds heads alone, to be put beside a target."""
    return config.model_type.endswith(HEAD_DIRECTORY)


def head_caches(config: ModelConfig) -> list[LayerCache | None]:
    """Caches of a directory of heads alone, one a head. Raises `CheckpointError` for an unknown family."""
    rule = CLAIM_RULES.get(config.model_type)
    if rule is None:
        raise CheckpointError(
            f"{config.path} names the model_type {config.model_type!r}, whose heads eredu does not know; known are "
            f"{', '.join(sorted(name for name in CLAIM_RULES if name.endswith(HEAD_DIRECTORY)))}"
        )
    latent = config.model_type.removesuffix(HEAD_DIRECTORY) in DEEPSEEK
    return [LATENT if latent else FULL] * rule(config).count


def weight_pattern(config: ModelConfig) -> str:
    """Names of the weight files, where no index gives them; a head alone may have any name."""
    return "*.safetensors" if is_head_directory(config) else "model*.safetensors"


def head_names(config: ModelConfig, tensor_names: Iterable[str]) -> dict[str, str]:
    """Published names of the head tensors among `tensor_names`, by stored name; empty where no head is claimed.

    Wrappers' prefixes are gone. A directory of heads alone may have cut `mtp.` too, as mlx-vlm's does; it comes back.
    """
    rule = CLAIM_RULES.get(config.model_type)
    prefixes = () if rule is None else rule(config).prefixes
    names = {name: _WRAPPERS.sub("", name) for name in tensor_names}
    found = {name: bare for name, bare in names.items() if prefixes and bare.startswith(prefixes)}
    if not found and is_head_directory(config):
        return {name: f"mtp.{bare}" for name, bare in names.items()}
    return found


def head_report(config: ModelConfig, tensor_names: Iterable[str]) -> HeadReport:
    """Compare claim and tensors. Raises `CheckpointError` where only a part of the claimed tensors is there."""
    family = config.model_type
    if family in ASSISTANTS:
        return _assistant(family)
    rule = CLAIM_RULES.get(family)
    if rule is None:
        return _nothing(f"the family {family} has no prediction heads; an independent draft model can propose for it")
    claim = rule(config)
    names = set(head_names(config, tensor_names).values())
    found = len(names)
    present = {form for name in names for form in _forms(name)}
    missing = [name for name in claim.required if name not in present]
    if claim.count and found and missing:
        raise CheckpointError(
            f"{config.path} claims {claim.count} prediction heads, and of their tensors {len(missing)} are missing, "
            f"such as {missing[0]}: the checkpoint is incomplete. Fetch all its weight files, or a conversion that "
            "keeps the heads"
        )
    report = replace(judge_heads(family, claim.count, found), stated_depth=stated_depth(config))
    broken = broken_assumption(config)
    if broken is None or not report.capability.is_ready:
        return report
    return replace(report, capability=MtpCapability.unsupported(MtpCheckpointKind.EMBEDDED, family), reason=broken)


def stated_depth(config: ModelConfig) -> int:
    """Proposals a round that a config.json states under `max_proposals`, 0 where it states none."""
    return config.count("max_proposals", 0, most=MAX_PROPOSALS)


_EXPERTS = re.compile(
    r"^(.*)\.(?:experts(?:\.\d+)?|switch_mlp)\.(gate_up_proj|gate_proj|up_proj|down_proj)(?:\.weight)?$"
)


def _forms(name: str) -> tuple[str, ...]:
    """What a stored name stands for: itself, or the projections of all experts, in whichever of three forms."""
    found = _EXPERTS.match(name)
    if found is None:
        return (name,)
    projections = ("gate_proj", "up_proj") if found[2] == "gate_up_proj" else (found[2],)
    return tuple(f"{found[1]}.experts.{projection}.weight" for projection in projections)


def judge_heads(family: str, claimed: int, tensors: int, *, runnable: bool = True) -> HeadReport:
    """What a claim and the number of head tensors, found whole, come to; `runnable` in a container eredu reads."""
    if not claimed:
        stray = f" although it holds {tensors} tensors of one" if tensors else ""
        return _nothing(f"the checkpoint claims no prediction head{stray}", tensors=tensors)
    if not tensors:
        return _nothing(
            f"the checkpoint claims {claimed} prediction heads and ships none of their tensors, as many converted "
            "checkpoints do",
            claimed=claimed,
        )
    if runnable and family in RUNNABLE:
        ready = MtpCapability.ready(MtpCheckpointKind.EMBEDDED)
        return HeadReport(claimed, tensors, ready, f"{claimed} prediction heads are there")
    unsupported = MtpCapability.unsupported(MtpCheckpointKind.EMBEDDED, family)
    reason = f"{claimed} prediction heads are there, and eredu does not run the heads of {family} yet"
    return HeadReport(claimed, tensors, unsupported, reason)


def _assistant(family: str) -> HeadReport:
    unsupported = MtpCapability.unsupported(MtpCheckpointKind.SEPARATE, family)
    return HeadReport(0, 0, unsupported, f"an assistant of the family {family}, which eredu does not run yet")


def _nothing(reason: str, *, claimed: int = 0, tensors: int = 0) -> HeadReport:
    return HeadReport(claimed, tensors, MtpCapability.unavailable(), reason)
