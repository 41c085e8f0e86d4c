"""What can be said without decoding: inspection, matching, contexts, and whether the drafter is a live one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from eredu.checkpoints.opening import open_checkpoint
from eredu_validation.measures.inside import require_norms
from eredu_validation.measures.subject import Subject

ROWS = 24
"""Rows of the drafter that are looked at."""
SAME = 1e-6
"""Logits that move less are the same."""


@dataclass(frozen=True, kw_only=True)
class DrafterSanity:
    """Whether a drafter reads what it should.

    Attributes:
        finite: Whether its logits are finite.
        varies: Whether its rows differ along a text.
        reads_tokens: Whether another token before a row changes the row.
        reads_hidden: Whether another hidden state does; None for a draft model, which reads none.
    """

    finite: bool
    varies: bool
    reads_tokens: bool
    reads_hidden: bool | None

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong, in words."""
        found = {
            "its logits are not finite": self.finite,
            "its rows are the same at every place of a text": self.varies,
            "it does not read the token before": self.reads_tokens,
            "it does not read the target's hidden state": self.reads_hidden is not False,
        }
        return tuple(fault for fault, right in found.items() if not right)


@dataclass(frozen=True, kw_only=True)
class StaticReport:
    """The statics.

    Attributes:
        target: Inspection of the target.
        drafter: Inspection of the assistant; None for heads.
        kind: `separate`, `embedded`, or `none` where another engine decodes plainly.
        proposals: Proposals of a round that can be had, of those asked for.
        context: Tokens that the target takes.
        sanity: Of the drafter, if there is one.
        norms: Mean acceptance of a head's first proposal along a text, as its norms are read and as if their shift
            were missing or there twice; empty for other drafters, and without a tokenizer.
    """

    target: dict[str, Any]
    drafter: dict[str, Any] | None
    kind: str
    proposals: int
    context: int
    sanity: DrafterSanity | None
    norms: dict[str, float]

    @property
    def sentence(self) -> str:
        """In words."""
        what = "a draft model" if self.drafter is not None else "the target's own heads"
        drafting = "without a drafter" if self.sanity is None else f"with {what}, {self.proposals} proposals a round"
        text = f"{self.target['family']} {drafting}, context {self.context:,}"
        return text + "".join(f"; the drafter is useless: {fault}" for fault in self.faults)

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with the drafter."""
        return () if self.sanity is None else self.sanity.faults

    def to_json(self) -> dict[str, Any]:
        """The stable form."""
        return {**asdict(self), "text": self.sentence, "faults": list(self.faults)}


def inspect_subject(subject: Subject, text: Sequence[int]) -> StaticReport:
    """Report on a subject; `text` are token ids that its drafter is tried on.

    Raises `CheckpointError` for heads that follow their target clearly better with their norms read in another way.
    """
    backend, assistant = subject.model.backend, subject.assistant
    drafts = assistant is not None or subject.heads is not None
    return StaticReport(
        target=open_checkpoint(backend.target.path).report().to_json(),
        drafter=None if assistant is None else open_checkpoint(assistant.checkpoint.path).report().to_json(),
        kind=("embedded" if assistant is None else "separate") if drafts else "none",
        proposals=subject.depth,
        context=subject.target.context,
        sanity=look_at_drafter(subject, [*text, *text, *text][: ROWS + 2]) if drafts else None,
        norms=_norms(subject),
    )


def _norms(subject: Subject) -> dict[str, float]:
    heads, tokenizer = subject.heads, subject.model.backend.target.tokenizer
    return {} if heads is None or tokenizer is None else require_norms(heads, subject.target, tokenizer)


def look_at_drafter(subject: Subject, text: Sequence[int]) -> DrafterSanity:
    """Run the drafter along a text, and again with every token and every hidden state exchanged."""
    tokens = mx.array(list(text), dtype=mx.uint32)
    others = mx.array([(token + 1) % subject.target.vocabulary_size for token in text], dtype=mx.uint32)
    if subject.draft is not None:
        model = subject.draft
        rows, changed = (_numbers(model.fit(model.new_cache().feed(model.model, each))) for each in (tokens, others))
        return _sanity(rows, changed, None)
    heads = subject.heads
    if heads is None:
        raise ValueError("a subject without drafter has nothing to look at")
    _, record = subject.target.new_cache().feed_recorded(subject.target.model, tokens)
    hidden = heads.hidden(record)[:-1]

    def run(states: mx.array, following: mx.array) -> np.ndarray[Any, Any]:
        outputs = heads.step(0, states, following, heads.new_caches()[0])
        return _numbers(subject.target.fit(heads.logits(0, outputs)))

    rows = run(hidden, tokens[1:])
    return _sanity(rows, run(hidden, others[1:]), run(hidden[::-1], tokens[1:]))


def _sanity(
    rows: np.ndarray[Any, Any], other_tokens: np.ndarray[Any, Any], other_hidden: np.ndarray[Any, Any] | None
) -> DrafterSanity:
    return DrafterSanity(
        finite=bool(np.isfinite(rows).all()),
        varies=len(rows) < 2 or _moves(rows[1:], rows[:1]),
        reads_tokens=_moves(rows, other_tokens),
        reads_hidden=None if other_hidden is None else _moves(rows, other_hidden),
    )


def _moves(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    return bool(np.abs(one - other).max() > SAME)


def _numbers(logits: mx.array) -> np.ndarray[Any, Any]:
    """Logits of ids that are not padding."""
    rows = np.array(logits.astype(mx.float32))
    kept = ~np.isneginf(rows).all(axis=0)
    return rows[:, kept]
