"""A Hugging Face directory, opened: config.json, the headers of SafeTensors files, and the tokenizer's files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from eredu.checkpoints.agreement import require_agreement, ties_embeddings
from eredu.checkpoints.caches import CacheReport, LayerCache, summarize_caches
from eredu.checkpoints.config import ModelConfig, read_config
from eredu.checkpoints.decoder_config import decoder_config
from eredu.checkpoints.family import Family, HeadClaim, unknown_family, unknown_heads
from eredu.checkpoints.head_files import find_head_files, prefixed_names, published_names
from eredu.checkpoints.heads import HeadReport, broken_assumption, decide_heads
from eredu.checkpoints.layout import Layout, head_layouts
from eredu.checkpoints.parameter_count import parameter_count
from eredu.checkpoints.quantisation import Quantisation, read_quantisation, require_settings
from eredu.checkpoints.report import CheckpointReport
from eredu.checkpoints.safetensors_header import SafetensorsHeader
from eredu.checkpoints.tensors import StoredTensor
from eredu.checkpoints.weight_files import read_directory_headers
from eredu.contract.errors import CapabilityError
from eredu.families.registry import FAMILIES, MODEL_TYPES, find_family
from eredu.text.huggingface import load_directory
from eredu.text.tokenizer import Tokenizer

CONTEXT_KEYS = ("max_position_embeddings", "max_sequence_length", "seq_length")
"""Keys of config.json that may state how many tokens the model was made for."""


@dataclass(frozen=True)
class OpenedDirectory:
    """A directory of a target, of an assistant, or of heads alone. Each file is read once, when it is first asked for.

    Members raise `CheckpointError` where the files do not bear out what is asked.

    Attributes:
        path: Where it lies.
    """

    path: Path

    @cached_property
    def config(self) -> ModelConfig:
        """config.json, with what the family reads out of other keys under the key that it is asked for."""
        config = read_config(self.path)
        family = find_family(config.model_type) if config.stated("model_type") else None
        return config if family is None else config.with_values(family.implied(config))

    @property
    def architecture(self) -> str:
        """`model_type` of config.json."""
        return self.config.model_type

    @property
    def family(self) -> Family | None:
        """The family's facts, of heads alone too."""
        return find_family(self.architecture)

    @property
    def decoder(self) -> str:
        """Name under which mlx-lm has the decoder."""
        return (
            self.architecture if self.family is None else self.family.decoders.get(self.architecture, self.architecture)
        )

    @cached_property
    def trunk(self) -> tuple[SafetensorsHeader, ...]:
        """Headers of exactly the files that the index names, else of `model*.safetensors`, else of all there are."""
        usual = not self.config.holds_heads_alone and any(self.path.glob("model*.safetensors"))
        return read_directory_headers(self.path, "model*.safetensors" if usual else "*.safetensors")

    @cached_property
    def _beside(self) -> tuple[tuple[SafetensorsHeader, ...], dict[str, str]]:
        """Files of heads beside the trunk, and the published names of their tensors: see `head_files`."""
        claim = self.head_claim
        if claim is None or self.config.holds_heads_alone or published_names(self._trunk_names, claim):
            return (), {}
        return find_head_files(self.path, [header.path for header in self.trunk], claim)

    @property
    def _trunk_names(self) -> tuple[str, ...]:
        return tuple(tensor.name for header in self.trunk for tensor in header.tensors)

    @property
    def headers(self) -> tuple[SafetensorsHeader, ...]:
        """Headers of all files that are used: the trunk's, and those of heads beside it."""
        return *self.trunk, *self._beside[0]

    @cached_property
    def tensors(self) -> tuple[StoredTensor, ...]:
        """Tensors of all files that are used."""
        return tuple(tensor for header in self.headers for tensor in header.tensors)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Of tokenizer.json and the files beside it."""
        config = self.config.merged if (self.path / "config.json").is_file() else {}
        return load_directory(self.path, config)

    @property
    def vocabulary_rows(self) -> int:
        """`vocab_size`; heads alone project with their target's output."""
        return self.config.count("vocab_size", 0 if self.config.holds_heads_alone else None)

    @property
    def hidden_size(self) -> int:
        """Width of the residual stream; for heads alone, of their target's."""
        return self.config.count("hidden_size")

    @property
    def context_limit(self) -> int | None:
        """Of `CONTEXT_KEYS`, the first that is there."""
        return next((self.config.count(key) for key in CONTEXT_KEYS if self.config.get(key) is not None), None)

    @property
    def caches(self) -> tuple[CacheReport, ...]:
        """Of a decoder or of heads; an assistant's are its target's, or trimmed with it, and are not reported."""
        config, family = self.config, self.family
        if config.holds_heads_alone:
            if family is None or family.heads is None:
                raise unknown_family(
                    config, "heads", {f"{name}_mtp" for found in FAMILIES for name in found.head_types}
                )
            layers: list[LayerCache | None] = [family.heads.cache] * family.heads.claim(config).count
        elif family is None:
            raise unknown_family(config, "caches", MODEL_TYPES)
        elif config.model_type in family.assistants:
            layers = []
        else:
            layers = family.caches(config)
        return summarize_caches(layers)

    @cached_property
    def head_claim(self) -> HeadClaim | None:
        """Heads that the config claims; None where checkpoints of its kind have none."""
        heads = None if self.family is None else self.family.heads
        if heads is None:
            return None if self.family is None or self.config.holds_heads_alone else unknown_heads(self.config)
        return heads.claim(self.config) if heads.inside or self.config.holds_heads_alone else None

    @cached_property
    def head_names(self) -> dict[str, str]:
        """Published names of the head tensors by stored name; empty where no head is claimed.

        Wrappers' prefixes are gone. A directory of heads alone may have cut `mtp.` too, as mlx-vlm's does; it comes
        back.
        """
        if self.head_claim is None:
            return {}
        found = published_names(self._trunk_names, self.head_claim)
        if not found and self.config.holds_heads_alone:
            return prefixed_names(self._trunk_names)
        return found or self._beside[1]

    @cached_property
    def head_layouts(self) -> dict[str, Layout]:
        """Who wrote each file that holds head tensors, by its name."""
        return head_layouts(self.headers, self.head_names)

    @cached_property
    def heads(self) -> HeadReport:
        """Claim and tensors compared, and the facts of the files that hold them."""
        self.check()
        names = set(self.head_names.values())
        report = decide_heads(self.config, self.family, self.head_claim, names, self._unread)
        if report.capability.is_ready:
            _ = self.head_layouts  # files that contradict themselves are refused
        return report

    def report(self) -> CheckpointReport:
        """What inspection says of it. Raises `CheckpointError` for an unknown family."""
        config, caches = self.config, self.caches  # first, so that an unknown family is named before a key is missed
        self.check()
        attention_heads = self._optional("num_attention_heads")
        return CheckpointReport(
            path=str(self.path),
            container="safetensors",
            family=self.architecture,
            tensors=self.tensors,
            heads=self.heads,
            layers=self.heads.claimed if config.holds_heads_alone else config.layers,
            hidden_size=self.hidden_size,
            attention_heads=attention_heads,
            key_value_heads=self._optional("num_key_value_heads") or attention_heads,
            vocabulary_rows=self.vocabulary_rows,
            context_limit=self.context_limit,
            tied_embeddings=self.tied_embeddings,
            parameter_count=parameter_count(config, self.tensors, self.quantisation),
            quantization=None if self.quantisation is None else self.quantisation.words,
            caches=caches,
            not_loaded=self.not_loaded,
        )

    @property
    def tied_embeddings(self) -> bool:
        """Whether the output projection is the embedding; heads alone have none."""
        if self.config.holds_heads_alone or not self._decoder_tensors:
            return True
        return ties_embeddings(self.config, self._trunk_names)

    def check(self) -> None:
        """Raise `CheckpointError` where config and tensors are not of one model; loading and inspection ask it first.

        Heads alone are compared with their target when they meet.
        """
        self.config.require_numbers()
        family = self.family
        if self.config.holds_heads_alone or (family is not None and self.architecture in family.assistants):
            return
        _ = self.caches, self.hidden_size, self.vocabulary_rows
        if self._decoder_tensors and self._unread is None:
            require_settings(self.config, self.quantisation, self._decoder_tensors)
            require_agreement(self.config, family, self._decoder_tensors)
            _ = self.tied_embeddings

    @cached_property
    def _decoder_tensors(self) -> tuple[StoredTensor, ...]:
        """The trunk's tensors without those of heads; none in a folder of heads alone, under any config."""
        heads = {} if self.head_claim is None else published_names(self._trunk_names, self.head_claim)
        return tuple(tensor for header in self.trunk for tensor in header.tensors if tensor.name not in heads)

    @cached_property
    def quantisation(self) -> Quantisation | None:
        """How its weights are quantised, heads' too; None where they are not."""
        return read_quantisation(self.config, self.tensors)

    @property
    def decoder_config(self) -> dict[str, Any]:
        """See `decoder_config`."""
        return decoder_config(self.config, tied=self.tied_embeddings, quantisation=self.quantisation)

    def require_assumed(self) -> None:
        """Raise `CapabilityError` for weights that eredu does not read, and for another model than mlx-lm computes."""
        if self.not_loaded is not None:
            raise CapabilityError(self.not_loaded)

    @property
    def not_loaded(self) -> str | None:
        """Why it is not loaded although its files are whole: weights that eredu does not read, or another model."""
        return self._unread or broken_assumption(self.config, self.family)

    @property
    def _unread(self) -> str | None:
        return None if self.quantisation is None else self.quantisation.unread

    def _optional(self, key: str) -> int | None:
        return None if self.config.get(key) is None else self.config.count(key)
