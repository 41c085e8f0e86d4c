"""A member of the zoo: one family's tiny checkpoint with random weights, as its publisher would lay it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eredu_conformance.zoo.drawing import Tensors
from eredu_conformance.zoo.eight_bits import DEEPSEEK, Fp8Form
from eredu_conformance.zoo.storing import Precision, rounded, stored_as
from eredu_conformance.zoo.writing import Parts, write_directory, write_json

VOCABULARY = 64
"""Token ids of every member: one a letter of the crafted tokenizer's alphabet."""

CONTEXT = 512
"""`max_position_embeddings` of every member."""

COMMON: Mapping[str, Any] = {
    "vocab_size": VOCABULARY,
    "max_position_embeddings": CONTEXT,
    "attention_bias": False,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
}
"""What the text settings of every member's config.json say."""


@dataclass(frozen=True, eq=False)
class HeadDecoder:
    """One stage of prediction heads as a decoder of its own, whose final norm is the head's.

    Attributes:
        fusion: Full names of the embedding norm, the hidden norm and the projection in front of it.
        body: The decoder's tensors under their published names.
        changed: What its config says otherwise than the member's.
        hidden_first: Whether the projection reads the hidden state in front of the embedding.
    """

    fusion: tuple[str, str, str]
    body: Tensors
    changed: Mapping[str, Any]
    hidden_first: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class ZooMember:
    """One family's tiny checkpoint.

    Attributes:
        name: Name in the zoo, such as `qwen3.5`.
        config: The content of config.json.
        body: The target's tensors under their published names, float32.
        head: Tensors of the prediction heads under their published names; empty where the family has none.
        heads: Prediction heads that the config claims.
        boundary: Tokens at which the family starts to forget or to choose (window, index top-k); None if it never does.
        offset_norms: Whether norms are stored as offsets from one, to which converters add it.
        expert_parts: Converters' names of the experts' projections, by the published ones, where they differ.
        head_type: Family by whose name a converted head goes; None for the member's own.
        head_decoder: Makes a decoder of one stage of the member's heads, by number; None where there are none.
        fp8: How its fp8 releases store it; None where there are none.
    """

    name: str
    config: Mapping[str, Any]
    body: Tensors
    head: Tensors
    heads: int
    boundary: int | None = None
    offset_norms: bool = False
    expert_parts: Mapping[str, str] = field(default_factory=dict)
    head_type: str | None = None
    head_decoder: Callable[[ZooMember, int], HeadDecoder] | None = None
    fp8: Fp8Form | None = None

    @property
    def model_type(self) -> str:
        """`model_type` of config.json."""
        return str(self.config["model_type"])

    @property
    def tensors(self) -> Tensors:
        """All tensors, the head's last."""
        return {**self.body, **self.head}

    def write(self, directory: Path, *, parts: Parts = Parts.ONE, precision: Precision = Precision.FLOAT32) -> Path:
        """Write the published layout: config.json, SafeTensors (format `pt`), a tokenizer; return `directory`.

        The bytes depend on the member, `parts` and `precision` alone.
        """
        config = dict(self.config)
        if precision is Precision.FLOAT32:
            return write_directory(directory, config, self.tensors, parts=parts, head_names=frozenset(self.head))
        form = self.fp8 or DEEPSEEK
        if precision is Precision.FP8 and self.fp8 is None:
            raise ValueError(f"{self.name} is not published in fp8, as far as the zoo knows")
        tensors = stored_as(self.tensors, precision, form)
        level = dict(config["text_config"]) if "text_config" in config else config
        level["dtype" if "dtype" in level else "torch_dtype"] = "bfloat16"
        config = config | {"text_config": level} if "text_config" in config else level
        if precision is Precision.FP8:
            said = form.said(self.tensors)
            if form.file is None:
                config["quantization_config"] = said
            else:
                directory.mkdir(parents=True, exist_ok=True)
                write_json(directory / form.file, {"producer": {"name": "modelopt"}, "quantization": said})
        heads = frozenset(stored_as(self.head, precision, form))
        return write_directory(directory, config, tensors, parts=parts, head_names=heads)

    def rounded(self, precision: Precision) -> ZooMember:
        """The member whose float32 values are what a directory of this precision holds."""
        form = self.fp8 or DEEPSEEK
        body, head = (rounded(tensors, precision, form) for tensors in (self.body, self.head))
        return replace(self, body=body, head=head)
