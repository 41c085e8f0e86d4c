"""Loss and acceptance on held-out chats, by depth and temperature."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from eredu_benchmarks.training.chain import Agreement, draft_logits
from eredu_benchmarks.training.chats import Chats
from eredu_benchmarks.training.trained import TrainedModel

DEPTH = 4
BATCH = 32


@torch.no_grad()
def measure_held_out(
    model: TrainedModel, archive: dict[str, NDArray[Any]], device: torch.device, *, most: int | None = None
) -> dict[str, Any]:
    """Figures for every temperature in the archive, over reply tokens only.

    Args:
        model: Target and head.
        archive: Chats by temperature, as `tokens_1.0` and so on.
        device: Where the model lies.
        most: Chats read of each temperature; None reads all.
    """
    result = {}
    for name in sorted(each for each in archive if each.startswith("tokens_")):
        chats = Chats.of(archive, name.removeprefix("tokens"))
        result[name.removeprefix("tokens_")] = _measure(model, chats, float(name.removeprefix("tokens_")), device, most)
    return result


def _measure(
    model: TrainedModel, chats: Chats, temperature: float, device: torch.device, most: int | None
) -> dict[str, Any]:
    count = len(chats.lengths) if most is None else min(most, len(chats.lengths))
    accepted, chained = torch.zeros(DEPTH, device=device), torch.zeros(DEPTH, device=device)
    loss, rows, starts = 0.0, 0, 0
    for first in range(0, count, BATCH):
        tokens, is_reply = _padded(chats, range(first, min(first + BATCH, count)), device)
        hidden = model.hidden(tokens[:, :-1])
        target = model.logits(hidden)
        losses = F.cross_entropy(target.float().mT, tokens[:, 1:], reduction="none")
        loss += float(losses[is_reply[:, 1:]].sum())
        drafts = draft_logits(model, hidden[:, :-1], tokens[:, 1:-1], DEPTH)
        kept = is_reply[:, 2:]
        agreement = Agreement.of(target[:, 1:], drafts, tokens[:, 2:], temperature)
        accepted += agreement.accept[:, kept].sum(-1)
        sums, some = agreement.chains(kept)
        chained += sums
        rows, starts = rows + int(kept.sum()), starts + some
    chain = (chained / starts).tolist()
    return {
        "chats": count,
        "rows": rows,
        "loss": loss / rows,
        "accept": (accepted / rows).tolist(),
        "chain": chain,
        "expected_tokens": 1 + sum(chain),
    }


def _padded(chats: Chats, numbers: range, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens of some chats and which belong to a reply, both of shape (chats, longest)."""
    longest = int(chats.lengths[list(numbers)].max())
    tokens = np.zeros((len(numbers), longest), dtype=np.int64)
    is_reply = np.zeros(tokens.shape, dtype=np.bool_)
    for row, number in enumerate(numbers):
        start, length = chats.starts[number], chats.lengths[number]
        tokens[row, :length] = chats.tokens[start : start + length]
        is_reply[row, chats.prompt_lengths[number] : length] = True
    return torch.from_numpy(tokens).to(device), torch.from_numpy(is_reply).to(device)
