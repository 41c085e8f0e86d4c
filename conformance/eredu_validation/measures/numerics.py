"""The numerics audit: how far K-wide forwards and chunks move the rows of single steps, over real text.

Claims about equality are claims given equal logits. This measures how equal they are here, and the tolerance of the
law follows from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from eredu.contract.options import SamplingOptions
from eredu_validation.measures.inside import FittedModel, SequenceCache, process_rows
from eredu_validation.measures.plain_rows import Rows, normalised
from eredu_validation.measures.prompt_states import read_prompt

ROWS = 40
"""Rows that are compared, over all texts."""
TEXTS = 2
"""Texts that share them."""
LONGEST = 96
"""Tokens of a text that are fed at the most: its end."""
CHUNKS = (7,)
"""Chunks in which a text is fed, beside the whole."""
WHOLE = "one forward over the whole text"
FACTOR = 2.0
"""Tolerance over the largest total variation that was measured: the rows of a run are more than those of an audit."""
LEAST = 1e-6
"""Least tolerance: softmaxes of float32 scores are no finer."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Rows fed one way against the same rows fed as single steps.

    Attributes:
        name: How they were fed.
        rows: How many.
        bitwise_equal: Whether every logit has the same bits.
        max_logit: Largest difference of a logit.
        mean_logit: Mean difference of a logit.
        max_variation: Largest total variation between the processed distributions of a row.
        mean_variation: Mean over rows.
        argmax_moves: Margins of the rows whose most probable id moved: best logit over second best.
        margins: Margin of each row.
        noises: Largest difference of a logit in each row.
    """

    name: str
    rows: int
    bitwise_equal: bool
    max_logit: float
    mean_logit: float
    max_variation: float
    mean_variation: float
    argmax_moves: tuple[float, ...]
    margins: tuple[float, ...]
    noises: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class NumericsAudit:
    """All differences.

    Attributes:
        dtype: Type of the logits.
        differences: One a width and one a chunk.
    """

    dtype: str
    differences: tuple[Difference, ...]

    @property
    def bitwise_equal(self) -> bool:
        """Whether nothing differs at all."""
        return all(each.bitwise_equal for each in self.differences)

    @property
    def noise(self) -> float:
        """Largest difference of a logit."""
        return max(each.max_logit for each in self.differences)

    @property
    def tolerance(self) -> float:
        """Total variation that the law's null allows: delta_0."""
        return max(LEAST, FACTOR * max(each.max_variation for each in self.differences))

    @property
    def sentence(self) -> str:
        """What greedy equality can mean here."""
        if self.bitwise_equal:
            return (
                "K-wide forwards give the bits of single steps here, so greedy output with speculation is that of "
                "plain decoding, token for token"
            )
        margins = np.array([margin for each in self.differences for margin in each.margins])
        close = float((margins <= 2 * self.noise).mean())
        moves = sum(len(each.argmax_moves) for each in self.differences)
        return (
            f"K-wide forwards move logits by up to {self.noise:.1e} here, so greedy output with speculation is that of "
            f"plain decoding except where the two best logits are closer than {2 * self.noise:.1e} "
            f"({close:.2%} of the rows; {moves} of {len(margins)} moved)"
        )

    def to_json(self) -> dict[str, Any]:
        """The stable form."""
        return {
            "dtype": self.dtype,
            "bitwise_equal": self.bitwise_equal,
            "noise": self.noise,
            "tolerance": self.tolerance,
            "text": self.sentence,
            "differences": [asdict(each) for each in self.differences],
        }


def audit_numerics(
    target: FittedModel, texts: Sequence[Sequence[int]], sampling: SamplingOptions, widths: Sequence[int]
) -> NumericsAudit:
    """Audit a target.

    Args:
        target: The target that is fed.
        texts: Token ids of at least two tokens each; the longest give most.
        sampling: How rows are processed; penalties are left out.
        widths: Rows of a verification: K + 1.
    """
    chosen = sorted((text for text in texts if len(text) > 1), key=len)[-TEXTS:]
    share = max(1, ROWS // max(1, len(chosen)))
    found: dict[str, list[tuple[mx.array, mx.array]]] = {}
    for whole in chosen:
        text = whole[-LONGEST:]
        start = len(text) - min(share, len(text) - 1)
        before = read_prompt(target, text[: start + 1]).cache
        single = feed_rows(target, before.clone(), text[start:], width=1)
        for width in widths:
            other = feed_rows(target, before.clone(), text[start:], width=width)
            found.setdefault(f"K = {width - 1}", []).append((single, other))
        for name, chunk in {**{f"text in chunks of {chunk}": chunk for chunk in CHUNKS}, WHOLE: len(text)}.items():
            other = feed_rows(target, target.new_cache(), text, width=chunk)[start:]
            found.setdefault(name, []).append((single, other))
    plain = SamplingOptions(
        temperature=sampling.temperature, top_k=sampling.top_k, top_p=sampling.top_p, min_p=sampling.min_p
    )
    pairs = {
        name: (mx.concatenate([one for one, _ in parts]), mx.concatenate([other for _, other in parts]))
        for name, parts in found.items()
    }
    differences = tuple(compare(name, one, other, sampling=plain) for name, (one, other) in pairs.items())
    return NumericsAudit(
        dtype=str(next(iter(pairs.values()))[0].dtype).removeprefix("mlx.core."), differences=differences
    )


def feed(target: FittedModel, text: Sequence[int], *, start: int, width: int) -> mx.array:
    """Logits of the rows of a text from `start` on, fed `width` at a time behind a prompt of `start` tokens."""
    return feed_rows(target, read_prompt(target, text[: start + 1]).cache, text[start:], width=width)


def feed_rows(target: FittedModel, cache: SequenceCache, tokens: Sequence[int], *, width: int) -> mx.array:
    """Logits of tokens fed `width` at a time to a cache, shape (tokens, vocabulary)."""
    parts = []
    for first in range(0, len(tokens), width):
        inputs = mx.array(list(tokens[first : first + width]), dtype=mx.uint32)
        parts.append(target.fit(cache.feed(target.model, inputs)))
        mx.eval(parts[-1])
    return mx.concatenate(parts)


def compare(name: str, single: mx.array, other: mx.array, *, sampling: SamplingOptions) -> Difference:
    """Compare logits of the same rows, shape (rows, vocabulary)."""
    one, two = _float64(single), _float64(other)
    gaps = np.abs(np.subtract(one, two, out=np.zeros_like(one), where=one != two))
    variation = total_variation(normalised(process_rows(single, sampling)), normalised(process_rows(other, sampling)))
    ranked = np.sort(one, axis=-1)
    margins = ranked[:, -1] - ranked[:, -2] if one.shape[1] > 1 else np.full(len(one), np.inf)
    moved = one.argmax(axis=-1) != two.argmax(axis=-1)
    return Difference(
        name=name,
        rows=len(one),
        bitwise_equal=bool((one == two).all()),
        max_logit=float(gaps.max()),
        mean_logit=float(gaps.mean()),
        max_variation=float(variation.max()),
        mean_variation=float(variation.mean()),
        argmax_moves=tuple(margins[moved].tolist()),
        margins=tuple(margins.tolist()),
        noises=tuple(gaps.max(axis=-1).tolist()),
    )


def total_variation(one: Rows, other: Rows) -> NDArray[np.float64]:
    """Half the absolute difference of distributions, shape (rows,)."""
    half: NDArray[np.float64] = np.abs(one - other).sum(axis=-1) / 2
    return half


def _float64(logits: mx.array) -> NDArray[np.float64]:
    return np.array(logits.astype(mx.float32)).astype(np.float64)
