"""Whether an assistant fits a target: one tokenizer, rows for every id, and the contexts of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eredu.contract.errors import CheckpointError
from eredu.text.fingerprint import Fingerprint, require_same_tokenizer
from eredu.text.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class ModelSide:
    """What matching must know of one of the two models.

    Attributes:
        name: For messages: its path or name.
        vocabulary: Its tokenizer's ids.
        rows: Its logit rows, which are its embedding rows too.
        context: Tokens it can take; None where it sets no limit.
    """

    name: str
    vocabulary: Vocabulary
    rows: int
    context: int | None


@dataclass(frozen=True, slots=True)
class AssistantFit:
    """How an assistant fits a target.

    Attributes:
        fingerprint: The common tokenizer.
        target: The target.
        assistant: The assistant; where its context is shorter, proposals stop earlier.
    """

    fingerprint: Fingerprint
    target: ModelSide
    assistant: ModelSide

    @property
    def proposable_rows(self) -> int:
        """Ids below this one may be proposed; the rows behind it are padding."""
        return self.fingerprint.vocabulary_size

    @property
    def proposals_end_early(self) -> bool:
        """Whether the assistant's context is the shorter one, so that the rest is decoded plainly."""
        limit = self.assistant.context
        return limit is not None and (self.target.context is None or limit < self.target.context)

    def to_json(self) -> dict[str, Any]:
        """The stable form; `padding_ids` are proposable by their number, have no token, and are not proposed either."""
        return {
            "tokenizer": self.fingerprint.to_json(),
            "target_rows": self.target.rows,
            "assistant_rows": self.assistant.rows,
            "proposable_rows": self.proposable_rows,
            "padding_ids": list(self.target.vocabulary.padding_ids(self.proposable_rows)),
            "target_context": self.target.context,
            "assistant_context": self.assistant.context,
            "proposals_end_early": self.proposals_end_early,
        }


def match_assistant(target: ModelSide, assistant: ModelSide) -> AssistantFit:
    """How the assistant fits.

    Raises:
        TokenizerError: The tokenizers differ in any id.
        CheckpointError: One of the models has fewer rows than the tokenizer has ids.
    """
    # rule: capability.same-vocabulary
    common = require_same_tokenizer(target.vocabulary, assistant.vocabulary)
    for side in (target, assistant):
        if side.rows < common.vocabulary_size:
            raise CheckpointError(
                f"{side.name} has {side.rows} embedding rows, and its tokenizer {common.vocabulary_size} ids, such as "
                f"{side.vocabulary.token(side.rows)!r} without a row: model and tokenizer are not of one checkpoint"
            )
    return AssistantFit(common, target, assistant)
