"""A checkpoint that was opened: what its files say, each read once, when it is first asked for.

One opened checkpoint is handed down to inspection, loading, heads, tokenizer and matching, so that all of them decide
from the same facts. No weight is read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from eredu.checkpoints.family import Family
from eredu.checkpoints.heads import HeadReport
from eredu.checkpoints.matching import ModelSide
from eredu.checkpoints.report import CheckpointReport
from eredu.checkpoints.tensors import StoredTensor
from eredu.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class OpenedCheckpoint(ABC):
    """A Hugging Face directory or a GGUF file (`eredu.checkpoints.opening`).

    Every member raises `CheckpointError` where the files do not bear out what is asked.

    Attributes:
        path: Where it lies.
    """

    path: Path

    @property
    @abstractmethod
    def architecture(self) -> str:
        """`model_type` of config.json, or `general.architecture` of GGUF."""

    @property
    @abstractmethod
    def family(self) -> Family | None:
        """The family's facts; None where eredu does not know it."""

    @property
    @abstractmethod
    def tensors(self) -> tuple[StoredTensor, ...]:
        """Every stored tensor."""

    @cached_property
    @abstractmethod
    def tokenizer(self) -> Tokenizer:
        """Its tokenizer. Raises `TokenizerError` for one that eredu cannot reproduce exactly."""

    @property
    @abstractmethod
    def vocabulary_rows(self) -> int:
        """Logit rows, padding rows included."""

    @property
    @abstractmethod
    def context_limit(self) -> int | None:
        """Tokens it was made for; None where the metadata do not say."""

    @cached_property
    @abstractmethod
    def heads(self) -> HeadReport:
        """Prediction heads, claimed and found."""

    @abstractmethod
    def report(self) -> CheckpointReport:
        """What inspection says of it. Raises `CheckpointError` for an unknown family."""

    def side(self, name: str) -> ModelSide:
        """What matching must know of it; `name` is for messages."""
        return ModelSide(name, self.tokenizer.vocabulary, self.vocabulary_rows, self.context_limit)
