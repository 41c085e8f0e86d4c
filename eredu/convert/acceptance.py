"""How well heads follow their target before a conversion and behind it: the probe of `eredu inspect --probe`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eredu.checkpoints.directory import OpenedDirectory
from eredu.engine.alignment import TargetRows, follow
from eredu.engine.checkpoint import QUANTIZED, load_checkpoint
from eredu.engine.mlx_backend import MlxBackend
from eredu.engine.probe import probe_heads, probe_text
from eredu.mlx.placement import Placement

DEPTHS = 3
"""Proposals a round that a model card tells of at the most."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Chance that a proposal is taken at temperature 1, by its place in the round.

    Attributes:
        rows: Tokens of the text that were predicted.
        wiring: The wiring under which heads followed, in words.
        by_depth: Mean over the tokens, and its standard error.
    """

    rows: int
    wiring: str
    by_depth: tuple[tuple[float, float], ...]

    def to_json(self) -> dict[str, object]:
        """The stable form."""
        means = [{"accept": mean, "standard_error": error} for mean, error in self.by_depth]
        return {"rows": self.rows, "wiring": self.wiring, "by_depth": means}


def measure(trunk: OpenedDirectory, heads: OpenedDirectory, *, dtype: str | None = None) -> Acceptance | str:
    """Load a target with its heads and let them follow the probe's text; in a sentence why that cannot be.

    Args:
        trunk: The target.
        heads: Where its heads lie.
        dtype: Type to which floats are cast; None leaves them as they are.

    Raises whatever loading and probing raise.
    """
    tokenizer = trunk.tokenizer
    kind = "checkpoint" if dtype is None else f"{QUANTIZED}{dtype}"
    checkpoint = load_checkpoint(trunk, tokenizer=tokenizer, dtype=kind, head=None if heads is trunk else heads)
    target, own = MlxBackend(checkpoint, Placement.choose("auto")).target_model, checkpoint.heads
    if own is None:
        return "the checkpoint has no heads that are used"
    text = probe_text(tokenizer, target.context)
    if text is None:
        return "the tokenizer cannot write the text that heads are probed with"
    variants = own.variants()
    wiring = next(iter(variants)) if own.traits.settled else probe_heads(own, target, tokenizer).chosen
    rows = TargetRows.read(target, *text)
    followed = follow(variants[wiring], rows, DEPTHS if own.traits.iterable else min(DEPTHS, own.traits.stages))
    return Acceptance(len(followed[0].accept), wiring, tuple(_mean_and_error(each.accept) for each in followed))


def _mean_and_error(values: NDArray[np.float64]) -> tuple[float, float]:
    return float(values.mean()), float(values.std() / len(values) ** 0.5)
