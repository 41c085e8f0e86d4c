"""Rows of training text: shuffled chats one after the other, every row of one length and begun by a chat.

A row is read without resets, so the model sees late positions and learns to forget a finished chat at the end-of-text
id. Chats are at most half a row long; the one that a row cuts off begins the next row, so every chat is seen whole.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from eredu_benchmarks.training.chats import Chats

END_OF_TEXT_ID, TURN_END_ID = 0, 2
PROMPT_WEIGHT = 0.2
"""Weight of a prompt token in the loss; prompts come from templates, and a reply token weighs 1."""
WARM_PART = 0.4
"""Part of the warm chats that an epoch holds, other ones every time; it holds all cool ones."""


class Rows:
    """Endless batches of rows, a new order of the chats every epoch.

    Args:
        chats: The chats.
        length: Inputs a row; a row holds one token more, the last one's successor.
        batch: Rows a batch.
        device: Where the text lies.
        seed: Of the orders.
    """

    def __init__(self, chats: Chats, *, length: int, batch: int, device: torch.device, seed: int) -> None:
        if chats.lengths.max() >= length:
            raise ValueError(f"a chat of {chats.lengths.max()} tokens does not fit a row of {length}; give longer rows")
        self._length, self._batch, self._device = length, batch, device
        self._random = np.random.default_rng(seed)
        self._starts, self._lengths, self._is_warm = chats.starts, chats.lengths, chats.is_warm
        self._tokens = torch.from_numpy(chats.tokens.astype(np.int32)).to(device)
        self._weights = torch.from_numpy(_weights(chats)).to(device)
        self._complete = torch.from_numpy(chats.tokens[chats.starts + chats.lengths - 1] == TURN_END_ID).to(device)
        self.epochs = 0.0

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Tokens, shape (batch, length + 1), int64, and their weights in the loss, of the same shape, float32."""
        offsets = torch.arange(self._length + 1, device=self._device)
        while True:
            tokens, weights, begins = self._epoch()
            for at in range(0, len(begins) - self._batch + 1, self._batch):
                index = begins[at : at + self._batch, None] + offsets
                self.epochs += self._batch / len(begins)
                yield tokens[index].long(), weights[index]

    def _epoch(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Text of an epoch, its weights, and where its rows begin."""
        chosen = ~self._is_warm | (self._random.random(len(self._lengths)) < WARM_PART)
        order = self._random.permutation(np.flatnonzero(chosen))
        lengths = self._lengths[order] + 1
        ends = np.cumsum(lengths)
        begins, at = [], 0
        while at + self._length < ends[-1]:
            begins.append(at)
            cut = int(np.searchsorted(ends, at + self._length, side="right"))
            at = int(ends[cut] - lengths[cut])
        shift = torch.from_numpy(self._starts[order] - (ends - lengths)).to(self._device)
        sizes, stops = (torch.from_numpy(each).to(self._device) for each in (lengths, ends - 1))
        index = torch.repeat_interleave(shift, sizes) + torch.arange(int(ends[-1]), device=self._device)
        index[stops] = 0
        tokens, weights = self._tokens[index], self._weights[index]
        tokens[stops] = END_OF_TEXT_ID
        weights[stops] = self._complete[torch.from_numpy(order).to(self._device)].float()
        shuffled = self._random.permutation(np.array(begins))
        return tokens, weights, torch.from_numpy(shuffled).to(self._device)


def _weights(chats: Chats) -> np.ndarray:
    """Weight of every token, shape (total,), float32."""
    within = np.arange(len(chats.tokens)) - np.repeat(chats.starts, chats.lengths)
    is_prompt = within < np.repeat(chats.prompt_lengths, chats.lengths)
    return np.where(is_prompt, PROMPT_WEIGHT, 1.0).astype(np.float32)
