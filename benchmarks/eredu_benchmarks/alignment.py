"""Teacher-forced acceptance: how well an assistant follows its target on texts that the target wrote.

Both models read each held-out chat once; nothing is decoded. At every reply row, with p and q the processed
distributions of target and assistant at the temperature of the text:

- *accept* is the chance that the ratio rule takes a proposal there, the sum over x of min(p(x), q(x)) (Leviathan et
  al. 2023, arXiv 2211.17192). An independent assistant sees the same tokens whatever the depth, so this is its
  acceptance at every depth.
- *chain* d is the chance that the first d proposals drafted from a row on are all taken, averaged over every row
  with at least `DEPTH` rows from it to the end of its reply: all depths have the same starts. Summing the proposals
  out of the ratio rule leaves the mean over texts x drawn from p of
  min(1, q(x_1)/p(x_1)) … min(1, q(x_{d-1})/p(x_{d-1})) times the accept of row d, and the held-out text is such a
  draw. (A product of accepts is something else: it lets a rejected proposal go on along the text.)

Greedy, both come down to whether the argmaxes of p and q agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from eredu.contract.errors import OptionError
from eredu.contract.options import SamplingOptions
from eredu.engine.mlx_backend import attention_bucket
from eredu.mlx.rows import process_rows
from eredu_benchmarks.clustered import Estimate
from eredu_benchmarks.held_out import Chat
from eredu_benchmarks.pair import BenchmarkPair

DEPTH = 4
"""Longest chain."""


@dataclass(frozen=True, eq=False)
class AlignedRows:
    """The reply rows of one chat.

    Attributes:
        accept: Chance that a proposal is taken, shape (rows,).
        follow: min(1, q/p) at the token of the text, shape (rows,): the chance that the assistant proposes this token
            and the rule takes it, over the target's chance of writing it.
    """

    accept: NDArray[np.float64]
    follow: NDArray[np.float64]

    def chain(self, length: int) -> NDArray[np.float64]:
        """Chance from each start that the first `length` proposals are all taken, shape (starts,)."""
        starts = max(0, len(self.accept) - DEPTH + 1)
        value = self.accept[length - 1 : length - 1 + starts].copy()
        for step in range(length - 1):
            value *= self.follow[step : step + starts]
        return value


@dataclass(frozen=True)
class Alignment:
    """Teacher-forced acceptance at one temperature.

    Attributes:
        temperature: Of the texts, and of p and q.
        accepts: Chance that one proposal is taken, by depth; an assistant has the same at every depth.
        chain: Chance that the first 1, 2, … `DEPTH` are all taken.
        wiring: How the heads were wired, in words; None for an assistant.
    """

    temperature: float
    accepts: tuple[Estimate, ...]
    chain: tuple[Estimate, ...]
    wiring: str | None = None

    @property
    def accept(self) -> Estimate:
        """Chance that the first proposal is taken."""
        return self.accepts[0]

    @property
    def expected_tokens(self) -> float:
        """1 + sum of the chain: tokens a round at K = `DEPTH`, averaged over every start of the texts."""
        return 1 + sum(link.mean for link in self.chain)

    def to_json(self) -> dict[str, Any]:
        """All of it by name; `accept` once for each depth."""
        return {
            "temperature": self.temperature,
            "wiring": self.wiring,
            "chats": self.accept.clusters,
            "rows": self.accept.rows,
            "accept": [each.mean for each in self.accepts],
            "accept_error": [each.error for each in self.accepts],
            "chain": [link.mean for link in self.chain],
            "chain_error": [link.error for link in self.chain],
            "expected_tokens": self.expected_tokens,
        }


def align(
    pair: BenchmarkPair, chats: Sequence[Chat], temperature: float, *, advance: Callable[[], None] = lambda: None
) -> Alignment:
    """Measure the acceptance of a pair on chats whose replies were sampled at `temperature`.

    `advance` is called after each chat. Raises `OptionError` for chats of another tokenizer.
    """
    require_own_chats(pair, chats)
    rows = []
    for chat in chats:
        rows.append(align_chat(pair, chat, temperature))
        advance()
    chain = tuple(Estimate.of([each.chain(length) for each in rows]) for length in range(1, DEPTH + 1))
    return Alignment(temperature, (Estimate.of([each.accept for each in rows]),) * DEPTH, chain)


def require_own_chats(pair: BenchmarkPair, chats: Sequence[Chat]) -> None:
    """Raise `OptionError` for chats of another tokenizer."""
    highest = max(int(chat.tokens.max()) for chat in chats)
    if highest >= pair.proposable:
        raise OptionError(f"the held-out chats use id {highest}, which this pair has no token for: not its chats")


def align_chat(pair: BenchmarkPair, chat: Chat, temperature: float) -> AlignedRows:
    """The reply rows of one chat."""
    options = SamplingOptions(temperature=temperature)
    tokens = mx.array(_padded(chat.tokens).astype(np.uint32))
    target, assistant = pair.target_model, pair.assistant_model
    target_logits = target.new_cache().feed(target.model, tokens)[chat.reply_rows]
    draft_logits = assistant.fit(assistant.new_cache().feed(assistant.model, tokens)[chat.reply_rows])
    target_scores, draft_scores = process_rows(target_logits, options), process_rows(draft_logits, options)
    if options.is_greedy:
        accept = follow = mx.argmax(target_scores, axis=-1) == mx.argmax(draft_scores, axis=-1)
    else:
        p = mx.softmax(target_scores, axis=-1, precise=True)
        q = mx.softmax(draft_scores, axis=-1, precise=True)
        text = tokens[chat.prompt_length : len(chat.tokens), None]
        accept = mx.minimum(p, q).sum(axis=-1)
        ratio = mx.take_along_axis(q, text, axis=-1) / mx.take_along_axis(p, text, axis=-1)
        follow = mx.minimum(ratio[:, 0], 1.0)
    return AlignedRows(np.array(accept, dtype=np.float64), np.array(follow, dtype=np.float64))


def _padded(tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """The ids, on CUDA followed by padding that no row before it sees: few lengths mean few attention plans."""
    bucket = attention_bucket() or 1
    return np.pad(tokens, (0, -len(tokens) % bucket))
