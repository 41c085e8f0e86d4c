"""A prediction head run along a text, and how well what it proposes there agrees with the target.

All is teacher-forced: behind position t the head's d-th pass reads the text's own tokens, so one batch gives every
depth at every position at once. Row i of a pass reads token i + 1 and predicts token i + 2, as row i + 1 of the target
does.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from eredu_benchmarks.training.layers import Keys
from eredu_benchmarks.training.trained import TrainedModel


def draft_logits(model: TrainedModel, hidden: torch.Tensor, tokens: torch.Tensor, depth: int) -> list[torch.Tensor]:
    """Logits of passes 1 … `depth`, each of shape (batch, time, vocabulary).

    Args:
        model: Target and head.
        hidden: The target's hidden states, shape (batch, time, hidden).
        tokens: The token behind each position, shape (batch, time).
        depth: Passes; the d-th one means something from row d - 1 on.
    """
    embedding = model.embed_tokens(tokens)
    passes: tuple[Keys, ...] = ()
    logits = []
    for _ in range(depth):
        outputs, passes = model.head(embedding, hidden, passes)
        logits.append(model.head_logits(outputs))
        hidden = F.pad(outputs, (0, 0, 1, 0))[:, :-1]
    return logits


def distance(target: torch.Tensor, draft: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """KL(p, q) plus total variation of p and q, the weighted mean over rows: a scalar.

    The first teaches the law, the second is what acceptance loses: the sum of min(p, q) is 1 minus it.
    """
    log_p, log_q = (each.float().log_softmax(-1) for each in (target, draft))
    p = log_p.exp()
    divergence = (p * (log_p - log_q)).sum(-1)
    variation = 0.5 * (p - log_q.exp()).abs().sum(-1)
    return ((divergence + variation) * weights).sum() / weights.sum().clamp_min(1)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of a text's rows at one temperature.

    Attributes:
        accept: For each depth the chance that a proposal is taken, the sum of min(p, q); greedy, whether the argmaxes
            agree. Shape (depths, batch, time).
        follow: For each depth min(1, q/p) at the text's token, of the same shape.
    """

    accept: torch.Tensor
    follow: torch.Tensor

    @classmethod
    def of(
        cls, target: torch.Tensor, drafts: list[torch.Tensor], successors: torch.Tensor, temperature: float
    ) -> Agreement:
        """From logits that predict `successors`, shape (batch, time)."""
        if temperature == 0:
            same = torch.stack([(target.argmax(-1) == draft.argmax(-1)).float() for draft in drafts])
            return cls(same, same)
        p = (target.float() / temperature).softmax(-1)
        at = successors[..., None]
        accept, follow = [], []
        for draft in drafts:
            q = (draft.float() / temperature).softmax(-1)
            accept.append(torch.minimum(p, q).sum(-1))
            follow.append((q.gather(-1, at) / p.gather(-1, at)).clamp(max=1)[..., 0])
        return cls(torch.stack(accept), torch.stack(follow))

    def chains(self, is_reply: torch.Tensor) -> tuple[torch.Tensor, int]:
        """Chance that the first 1, 2, … proposals are all taken, summed over starts, shape (depths,); and the starts.

        A start is a row from which on as many rows as there are depths belong to the reply.
        """
        depths, _, time = self.accept.shape
        rows = time - depths + 1
        start = torch.stack([is_reply[:, d : d + rows] for d in range(depths)]).all(0)
        running, sums = torch.ones_like(self.accept[0, :, :rows]), []
        for d in range(depths):
            sums.append((running * self.accept[d, :, d : d + rows])[start].sum())
            running = running * self.follow[d, :, d : d + rows]
        return torch.stack(sums), int(start.sum())
