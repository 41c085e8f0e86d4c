"""Makes the goldens with Hugging Face Transformers on torch's CPU, in float32. Neither is a dependency of the suite.

Nothing of eredu and nothing of MLX is imported. Two things are not Transformers' own: the fusion in front of the heads
that it has no code for, and the bounds of Nemotron-H's time steps, which Transformers takes from another key than the
released modelling code (transformers pull request 48989); they are set to the config's `time_step_limit`.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.modeling_layers import MtpModel
from transformers.utils import logging

from eredu_conformance.goldens.golden import PROMPT, ROWS, Golden, fingerprint, head_golden_name
from eredu_conformance.goldens.one_layer import head_decoder
from eredu_conformance.zoo import ZooMember
from eredu_conformance.zoo.drawing import Tensors
from eredu_conformance.zoo.member import HeadDecoder

logging.set_verbosity_error()
logging.disable_progress_bar()

WITH_OWN_HEADS = ("deepseek_v3", "glm4_moe")
"""Families whose heads Transformers runs itself, so that its fusion is compared with the one here."""

AS_ANOTHER = {"mimo": {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}}
"""Families that Transformers has no code for, and whose released code derives from that of one it has, unchanged."""

AS_TEXT_OF: dict[str, dict[str, Any]] = {
    "step3p5": {
        "model_type": "step3p7",
        "architectures": ["Step3p7ForConditionalGeneration"],
        "vision_config": {"width": 16, "layers": 1, "heads": 2, "image_size": 56},
    }
}
"""Families that Transformers has as the text part of a model that sees: the tower around it is tiny, and stays dark."""
TOWER = ("model.vision_model.", "model.multi_modal_projector.")

IDLE = "zero_expert_num"
"""Experts of LongCat that do nothing: Transformers makes room for two projections of each, and reads neither."""

Model = Any
"""A Transformers model: torch and Transformers are not there where the suite is type-checked."""


def make_golden(member: ZooMember) -> Golden:
    """Compute a member's golden. Raises `RuntimeError` where Transformers disagrees with itself."""
    with _loaded(member) as model, torch.no_grad():
        before, logits = _run(model, input_ids=torch.tensor([PROMPT]))
        heads: dict[str, NDArray[np.float32]] = {}
        for after_norms in (True, False):
            heads |= _head_logits(member, model, before, after_norms=after_norms)
        if member.model_type in WITH_OWN_HEADS and member.heads:
            _compare_with_own_heads(member, model, heads)
    return Golden(
        name=member.name,
        logits=_stored(logits),
        heads=heads,
        versions={"torch": str(torch.__version__), "transformers": str(transformers.__version__)},
        fingerprint=fingerprint(member),
    )


@contextmanager
def _loaded(member: ZooMember) -> Iterator[Model]:
    """The member as Transformers loads it from its directory; no tensor of the target may be missing or unused."""
    with tempfile.TemporaryDirectory() as place:
        named, kind = {**member.config, **AS_ANOTHER.get(member.model_type, {})}, AutoModelForCausalLM
        if member.model_type in AS_TEXT_OF:
            named, kind = {**AS_TEXT_OF[member.model_type], "text_config": named}, AutoModelForImageTextToText
        body = member.body | _idle_experts(member)
        directory = replace(member, config=named, body=body).write(Path(place))
        model, report = kind.from_pretrained(
            directory, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
        )
        heads = tuple({".".join(name.split(".")[:3]) for name in member.head})
        unused = [key for key in report["unexpected_keys"] if not key.startswith(heads)]
        missing = [key for key in report["missing_keys"] if not key.startswith(TOWER)]
        if missing or unused:
            raise RuntimeError(f"{member.name}: Transformers misses {missing} and leaves {unused}")
        limit = member.config.get("time_step_limit")
        for module in model.modules():
            if limit is not None and hasattr(module, "time_step_limit"):
                module.time_step_limit = tuple(limit)
        yield model.eval()


def _idle_experts(member: ZooMember) -> Tensors:
    """Zeros in the place of what no release has."""
    first = int(member.config.get("n_routed_experts", 0))
    like = {name: array for name, array in member.body.items() if ".experts.0.gate" in name or ".experts.0.up" in name}
    idle = range(first, first + int(member.config.get(IDLE, 0)))
    return {
        name.replace(".experts.0.", f".experts.{number}."): np.zeros_like(array)
        for number in idle
        for name, array in like.items()
    }


def _run(model: Model, **inputs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Hidden rows before the final norm, shape (rows, hidden size), and logits, shape (rows, vocabulary)."""
    seen: list[torch.Tensor] = []
    norm = _final_norm(model)
    hook = norm.register_forward_hook(lambda _module, given, _result: seen.append(given[0]))
    logits = model(use_cache=False, **inputs).logits
    hook.remove()
    return seen[-1][0], logits[0]


def _final_norm(model: Model) -> Model:
    decoder = model.get_decoder()
    return decoder.norm_f if hasattr(decoder, "norm_f") else decoder.norm


def _head_logits(
    member: ZooMember, model: Model, hidden: torch.Tensor, *, after_norms: bool
) -> dict[str, NDArray[np.float32]]:
    """Logits of every stage over the prompt, each reading the outputs of the one before."""
    rows = _final_norm(model)(hidden) if after_norms else hidden
    found: dict[str, NDArray[np.float32]] = {}
    for stage in range(member.heads):
        tokens = torch.tensor(PROMPT[1 + stage :])
        rows = rows[: tokens.shape[0]]
        alone, head = head_decoder(member, stage)
        with _loaded(alone) as decoder:
            x = _fused(member, head, model.get_input_embeddings()(tokens), rows)
            rows, logits = _run(decoder, inputs_embeds=x[None])
            if after_norms:
                rows = _final_norm(decoder)(rows)
        found[head_golden_name(stage, after_norms=after_norms)] = _stored(logits)
    return found


def _fused(member: ZooMember, head: HeadDecoder, embedded: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    """Projection · [norm(embedding); norm(hidden)], or with the halves the other way round; (rows, hidden size)."""
    text = member.config.get("text_config", member.config)
    eps = text.get("rms_norm_eps", text.get("layer_norm_epsilon"))
    offset = 1.0 if member.offset_norms else 0.0
    weights = [torch.from_numpy(member.head[name]) for name in head.fusion]
    halves = [
        x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * (weight + offset)
        for x, weight in zip((embedded, hidden), weights[:2], strict=True)
    ]
    return torch.cat(halves[::-1] if head.hidden_first else halves, dim=-1) @ weights[2].T


def _compare_with_own_heads(member: ZooMember, model: Model, heads: dict[str, NDArray[np.float32]]) -> None:
    """Transformers' own MTP model reads behind both norms; it must give what was put together here."""
    with tempfile.TemporaryDirectory() as place:
        model.config.name_or_path = str(member.write(Path(place)))
        # Transformers knows the heads by the releases' layer number.
        model._keys_to_ignore_on_load_unexpected = [  # noqa: SLF001
            re.escape(f"model.layers.{member.config['num_hidden_layers'] + stage}.") for stage in range(member.heads)
        ]
        own = MtpModel.from_pretrained(model)
        rows = model.get_decoder()(input_ids=torch.tensor([PROMPT]), use_cache=False).last_hidden_state
        for stage in range(member.heads):
            tokens = torch.tensor([PROMPT[1 + stage :]])
            positions = torch.arange(tokens.shape[1])[None]
            rows = own.forward_layer(stage, rows[:, : tokens.shape[1]], positions, None, input_ids=tokens)
            due = heads[head_golden_name(stage, after_norms=True)]
            found = _stored(model.lm_head(rows)[0])
            if not np.allclose(found, due, rtol=1e-4, atol=1e-4):
                raise RuntimeError(f"{member.name}: Transformers' own head differs by {np.abs(found - due).max()}")


def _stored(logits: torch.Tensor) -> NDArray[np.float32]:
    return np.asarray(logits[[row for row in ROWS if row < len(logits)]].numpy(), dtype=np.float32)
