"""Faults of the draft distribution: the q of the ratio is not the law that the proposal was drawn from."""

from __future__ import annotations

import numpy as np

from eredu_conformance.faults.fault import Fault
from eredu_reference import RandomSource, Request
from eredu_reference.frontier import Block
from eredu_reference.rows import Row, one_hot, softmax
from eredu_reference.sources import Address


def _other_temperature(row: Row, logits: Row, token: int, request: Request) -> Row:  # noqa: ARG001
    warmer: Row = row ** (1 / 1.5)
    result: Row = warmer / warmer.sum()
    return result


def _best_two(source: RandomSource, address: Address, row: Row) -> int:
    second = np.sort(row)[-2]
    kept = np.where(row >= second, row, 0.0)
    return source.categorical(address, kept / kept.sum() if kept.any() else row)


def bfloat16(row: Row) -> Row:
    """Round to the 8 significant bits of bfloat16 and normalise."""
    words = row.astype(np.float32).view(np.uint32) + np.uint32(0x8000)
    rounded = (words & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)
    result: Row = rounded / rounded.sum()
    return result


def _rows_one_early(branch: Block, reused: int) -> Block:
    return Block(branch.tokens[1 : 1 + reused], branch.rows[:reused], branch.frontier, branch.grammar)


FAULTS = (
    Fault(
        name="q-of-another-temperature",
        rule="draft.recorded-distribution",
        source="huggingface/transformers 32867",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="The drafter samples at the request's temperature, the ratio takes its probabilities at another one.",
        replace={"recorded_row": _other_temperature},
    ),
    Fault(
        name="q-of-raw-logits",
        rule="draft.recorded-distribution",
        source="huggingface/transformers 47932, vllm-project/vllm 40149",
        killed_by="law.exact/law-order-2/filters/rejection/k2/t3",
        story="Top-k, bias and temperature shape the draw, while the softmax of the raw logits enters the ratio.",
        replace={"recorded_row": lambda _row, logits, *_: softmax(logits)},
    ),
    Fault(
        name="greedy-draft-called-sampled",
        rule="draft.recorded-distribution",
        source="vllm-project/vllm 10198",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="Drafts are the argmax, because that is fast; the ratio divides by the probability they were not"
        " drawn with.",
        replace={"draw_proposal": lambda _source, _address, row: int(row.argmax())},
    ),
    Fault(
        name="q-missing-from-the-ratio",
        rule="draft.recorded-distribution",
        source="z-lab/dflash 74",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="No draft probabilities reach the coin, which takes q = 1; the residual is made with the right ones.",
        replace={"accepts": lambda coin, target, *_: coin.below(target)},
    ),
    Fault(
        name="q-is-a-point-mass",
        rule="draft.recorded-distribution",
        killed_by="path.equals-reference/table-near/block/k3",
        story="A sampled draft is recorded as if it had been certain. Ratio and residual agree, so the law is"
        " right, and acceptance falls from the overlap of p and q to the chance that two draws meet.",
        replace={"recorded_row": lambda row, _logits, token, *_: one_hot(token, len(row))},
    ),
    Fault(
        name="draft-truncated-q-full",
        rule="draft.recorded-distribution",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="A truncation of the drafter's own is applied when drawing and forgotten when recording.",
        replace={"draw_proposal": _best_two},
    ),
    Fault(
        name="draft-drawn-in-bfloat16",
        rule="draft.recorded-distribution",
        source="DeepSpec 31",
        killed_by="law.exact/law-zeros/t1/block/k2/t3",
        story="The draw sees q in bfloat16, the ratio in float32. No affordable sample shows the difference of 10^-3.",
        replace={"draw_proposal": lambda source, address, row: source.categorical(address, bfloat16(row))},
    ),
    Fault(
        name="q-recorded-in-float32",
        rule="draft.recorded-distribution",
        killed_by="law.exact/law-zeros/t1/block/k2/t3",
        story="The recorded row passes through a narrower type than the one that was drawn from.",
        replace={"recorded_row": lambda row, *_: row.astype(np.float32).astype(np.float64)},
    ),
    Fault(
        name="promoted-q-of-its-neighbour",
        rule="promotion.consume-one-reuse-the-rest",
        killed_by="path.equals-reference/table-near/rejection/k3",
        story="A promoted branch drops its first token but not its first distribution: every q is one row early.",
        replace={"promoted_block": _rows_one_early},
    ),
)
