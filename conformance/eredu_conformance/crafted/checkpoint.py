"""What every crafted checkpoint is: a directory that any engine loads, and its next-token law in closed form.

The law is stated from the tokens (tables, counts, lags, positions), never by running the network, so an engine and the
law can only agree if the engine's cache, positions and masks are right.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from eredu_conformance.crafted.architecture import Architecture, Decoder, Tensor
from eredu_conformance.crafted.tokenizer import ALPHABET, tokenizer_config, tokenizer_json

IMPOSSIBLE = -1.0e4
"""Logit of a token with probability 0: finite for every file format, and exp of it is 0 in float64 too."""


class HistoryError(ValueError):
    """A history is outside of what the law is stated for: an unknown id, too short or too long."""


@dataclass(frozen=True, eq=False, kw_only=True)
class CraftedCheckpoint(ABC):
    """A checkpoint whose next-token law is known exactly.

    Attributes:
        name: Unique, lower case, hyphens.
        architecture: `model_type` of the directory.
        context_limit: Tokens that fit, prompt and output together, as config.json says.
        eos: Id that config.json names as the end of an output, or None.
        probabilities: The law's table; its last axis is the next token.
    """

    name: str
    probabilities: Tensor
    architecture: Architecture = Architecture.LLAMA
    context_limit: int = 64
    eos: int | None = None

    @property
    def vocabulary(self) -> int:
        """Number of token ids: the width of the table."""
        return int(self.probabilities.shape[-1])

    @property
    @abstractmethod
    def decoder(self) -> Decoder:
        """Dimensions of the network."""

    @abstractmethod
    def _tensors(self) -> dict[str, Tensor]:
        """The weights that realise the law, by Hugging Face name, float64."""

    @abstractmethod
    def _logits(self, history: Sequence[int]) -> Tensor:
        """Raw logits after a valid history, shape (vocabulary,), float64."""

    @property
    def window(self) -> int | None:
        """Rows that the sliding layer attends to, the current one counted; None without one."""
        return self.decoder.window

    @property
    def prompt_start(self) -> tuple[int, ...]:
        """Ids with which every history begins; the law is not stated for others."""
        return ()

    @property
    def history_min(self) -> int:
        """Tokens of the shortest history that the law is stated for."""
        return max(1, len(self.prompt_start))

    def next_logits(self, history: Sequence[int]) -> Tensor:
        """Raw logits of the token that follows `history`, shape (vocabulary,), float64.

        Their softmax is the law. They are what a penalty or a bias acts on.

        Raises:
            HistoryError: the history is too short or too long, begins wrongly, or holds an unknown id.
        """
        self.check_history(history)
        return self._logits(history)

    def next_distribution(self, history: Sequence[int]) -> Tensor:
        """Law of the token that follows `history`, shape (vocabulary,), float64, sum 1.

        Raises:
            HistoryError: as in `next_logits`.
        """
        logits = self.next_logits(history)
        weights = np.exp(logits - logits.max())
        return np.asarray(weights / weights.sum())

    def greedy_path(self, prompt: Sequence[int], length: int) -> tuple[int, ...]:
        """The `length` output tokens of greedy decoding (lowest id on ties)."""
        history = list(prompt)
        for _ in range(length):
            history.append(int(np.argmax(self.next_logits(history))))
        return tuple(history[len(prompt) :])

    def output_law(
        self, prompt: Sequence[int], length: int, *, temperature: float = 1.0
    ) -> dict[tuple[int, ...], float]:
        """Probability of each possible output of `length` tokens, at a temperature above 0."""
        law: dict[tuple[int, ...], float] = {(): 1.0}
        for _ in range(length):
            longer: dict[tuple[int, ...], float] = {}
            for output, probability in law.items():
                weights = self.next_distribution((*prompt, *output)) ** (1 / temperature)
                for token in np.flatnonzero(weights):
                    longer[*output, int(token)] = probability * float(weights[token] / weights.sum())
            law = longer
        return law

    def check_history(self, history: Sequence[int]) -> None:
        """Refuse a history that the law is not stated for."""
        if not self.history_min <= len(history) <= self.context_limit:
            raise HistoryError(
                f"{self.name}: the history has {len(history)} tokens; "
                f"the law is stated for {self.history_min} to {self.context_limit}"
            )
        unknown = [token for token in history if not 0 <= token < self.vocabulary]
        if unknown:
            raise HistoryError(f"{self.name}: ids {unknown} are outside of the vocabulary of {self.vocabulary}")
        start = self.prompt_start
        if tuple(history[: len(start)]) != start:
            raise HistoryError(f"{self.name}: the history begins with {list(history[: len(start)])}, not {list(start)}")

    def write(self, directory: Path) -> Path:
        """Write model.safetensors (float32), config.json, tokenizer.json and tokenizer_config.json; return `directory`.

        The bytes depend on the description alone.
        """
        directory.mkdir(parents=True, exist_ok=True)
        tensors = {name: np.ascontiguousarray(t, dtype=np.float32) for name, t in self._tensors().items()}
        save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
        _write_json(directory / "config.json", self.decoder.config())
        _write_json(directory / "tokenizer.json", tokenizer_json(self.vocabulary, self.eos))
        _write_json(directory / "tokenizer_config.json", tokenizer_config(self.context_limit, self.eos))
        return directory

    def _check_vocabulary(self) -> None:
        if not 2 <= self.vocabulary <= len(ALPHABET):
            raise ValueError(f"{self.name}: vocabulary was {self.vocabulary}; expected 2 to {len(ALPHABET)}")
        if self.eos is not None and not 0 <= self.eos < self.vocabulary:
            raise ValueError(f"{self.name}: eos was {self.eos}, which is outside of the vocabulary")


def _write_json(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
