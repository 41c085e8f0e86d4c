"""Faults of the acceptance rules: coins, ratios, residuals, lengths, and temperature 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from eredu_conformance.faults.fault import Fault
from eredu_reference import RandomSource, Request
from eredu_reference.acceptance import accepts, greedy_length, rejection_length, residual
from eredu_reference.constraint import Mask
from eredu_reference.errors import AcceptanceError
from eredu_reference.pieces import process
from eredu_reference.rows import Row, one_hot, softmax
from eredu_reference.sources import Address, FixedUniform, Uniform

Coins = Callable[[int], Uniform]
Rows = Sequence[Row]


def _half_precision(coin: Uniform, target: float, draft: float) -> bool:
    with np.errstate(all="ignore"):
        ratio = np.float16(target) / np.float16(draft)
    return True if np.isnan(ratio) else coin.below(float(ratio))


def _rounded_coin(source: RandomSource, address: Address) -> Uniform:
    coin = source.uniform(address)
    rounded = np.float32(coin.value).view(np.uint32) + np.uint32(0x8000)
    return FixedUniform(float((rounded & np.uint32(0xFFFF0000)).view(np.float32)))


def _absolute_difference(target: Row, draft: Row, weight: float) -> Row:
    excess: Row = np.abs(weight * target - draft)
    result: Row = excess / excess.sum() if excess.any() else excess
    return result


def _forgiving_residual(target: Row, draft: Row, weight: float) -> Row:
    try:
        return residual(target, draft, weight)
    except AcceptanceError:
        return target


def _unweighted_residual(target: Row, draft: Row, weight: float) -> Row:  # noqa: ARG001
    try:
        return residual(target, draft)
    except AcceptanceError:
        return target


def _not_normalised(target: Row, draft: Row, weight: float) -> Row:
    excess: Row = np.maximum(weight * target - draft, 0.0)
    return excess


def _draw_by_sums(source: RandomSource, address: Address, row: Row) -> int:
    coin, total = source.uniform(address), 0.0
    for token, mass in enumerate(row.tolist()):
        total += mass
        if coin.below(total):
            return token
    return len(row) - 1


def _repaired_row(request: Request, logits: Row, history: tuple[int, ...], mask: Mask | None) -> Row:
    if np.isnan(logits).any():
        return one_hot(0, len(logits))
    return process(request, logits, history, mask)


def _all_but_first(proposals: Sequence[int], rows: Rows, drafts: Rows, coin: Coins, judge: Callable[..., bool]) -> int:
    behind = rejection_length(proposals[1:], rows[1:], drafts[1:], lambda index: coin(index + 1), judge)
    return min(len(proposals), 1) + behind


def _number_accepted(
    proposals: Sequence[int], rows: Rows, drafts: Rows, coin: Coins, judge: Callable[..., bool]
) -> int:
    return sum(
        judge(coin(index), float(rows[index][token]), float(drafts[index][token]))
        for index, token in enumerate(proposals)
    )


def _threshold_swallowed(weights: Sequence[float], length: int, rows: Rows, drafts: Rows) -> float:
    weight = weights[length]
    if length == len(drafts):
        return weight
    room = float(np.maximum(weight * rows[length] - drafts[length], 0.0).sum())
    divisor = room + 1.0 - weight
    return room / divisor if divisor > 0 else 0.0


def _first_failure(
    proposals: Sequence[int], rows: Rows, drafts: Rows, coin: Coins, threshold: Callable[..., float]
) -> int:
    weights = [1.0]
    for token, row, draft in zip(proposals, rows, drafts, strict=False):
        weights.append(min(1.0, weights[-1] * float(row[token]) / float(draft[token])))
    for length in range(1, len(proposals) + 1):
        if not coin(length - 1).below(threshold(weights, length, rows, drafts)):
            return length - 1
    return len(proposals)


def _highest_tie(request: Request, logits: Row, history: tuple[int, ...], mask: Mask | None) -> Row:
    if request.sampling.temperature != 0:
        return process(request, logits, history, mask)
    allowed = logits if mask is None else np.where(mask, logits, -np.inf)
    return one_hot(len(logits) - 1 - int(np.argmax(allowed[::-1])), len(logits))


def _smallest_temperature(request: Request, logits: Row, history: tuple[int, ...], mask: Mask | None) -> Row:
    if request.sampling.temperature != 0:
        return process(request, logits, history, mask)
    allowed = logits if mask is None else np.where(mask, logits, -np.inf)
    return softmax(allowed / 1e-2)


def _one_more(proposals: Sequence[int], tokens: Callable[[int], int]) -> int:
    wrong = [index for index, token in enumerate(proposals) if tokens(index) != token]
    return len(proposals) if len(wrong) < 2 else wrong[1]


FAULTS = (
    Fault(
        name="coin-zero-accepts-the-impossible",
        rule="verify.rejection-below-ratio",
        source="sgl-project/sglang 35771",
        killed_by="law.exact/law-zeros/t1/rejection/k2/t3",
        story="u <= p / q instead of u < p / q: once in 2^24 coins a token of probability 0 is emitted.",
        replace={"accepts": lambda coin, target, draft: coin.value * draft <= target},
    ),
    Fault(
        name="coin-rounded-to-one",
        rule="randomness.coin-exact",
        source="sgl-project/sglang 30822",
        killed_by="law.exact/law-zeros/t1/block/k2/t3",
        story="A coin in bfloat16 rounds up to 1 and rejects where p = q, and the residual is empty.",
        replace={"read_coin": _rounded_coin},
    ),
    Fault(
        name="lenient-acceptance",
        rule="verify.same-law",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="The ratio is multiplied by 1.05 for a higher acceptance; per token the law moves by about 0.01.",
        replace={"accepts": lambda coin, target, draft: coin.below(1.05 * target, draft)},
    ),
    Fault(
        name="needless-rejection",
        rule="verify.rejection-below-ratio",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="The ratio is multiplied by 0.95, to be on the safe side. No side is safe.",
        replace={"accepts": lambda coin, target, draft: coin.below(0.95 * target, draft)},
    ),
    Fault(
        name="ratio-in-half-precision",
        rule="verify.rejection-below-ratio",
        source="mlxcel 992",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="p and q underflow to 0 / 0, and a comparison with NaN is written so that it accepts.",
        replace={"accepts": _half_precision},
    ),
    Fault(
        name="q-of-zero-accepts",
        rule="verify.invalid-is-error",
        killed_by="scripted.impossible-numbers",
        story="A drawn proposal with q = 0 shows that the recorded q is wrong; dividing by it would be"
        " infinite, so accept.",
        replace={"accepts": lambda coin, target, draft: True if draft <= 0 else accepts(coin, target, draft)},
    ),
    Fault(
        name="residual-of-absolute-difference",
        rule="verify.residual-positive-part",
        source="vllm-project/vllm 41834",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="|p - q| instead of the positive part of p - q.",
        replace={"residual": _absolute_difference},
    ),
    Fault(
        name="residual-is-the-target",
        rule="verify.residual-positive-part",
        source="vllm-project/vllm 42722",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="A rejected proposal is replaced by a draw from p, which counts the overlap twice.",
        replace={"residual": lambda target, *_: target},
    ),
    Fault(
        name="residual-the-wrong-way-round",
        rule="verify.residual-positive-part",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="q - p instead of p - q: the arguments are swapped.",
        replace={"residual": lambda target, draft, weight: residual(draft, target, weight)},
    ),
    Fault(
        name="residual-not-normalised",
        rule="verify.residual-positive-part",
        source="vllm-project/vllm 42722",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="The positive part is drawn from by cumulative sums without being normalised; the last id takes"
        " the rest.",
        replace={"residual": _not_normalised, "draw_replacement": _draw_by_sums},
    ),
    Fault(
        name="empty-residual-falls-back",
        rule="verify.invalid-is-error",
        source="vllm-project/vllm 42722",
        killed_by="scripted.impossible-numbers",
        story="An empty residual means that p = q was rejected, a fault elsewhere; a draw from p hides it.",
        replace={"residual": _forgiving_residual},
    ),
    Fault(
        name="nan-row-becomes-id-0",
        rule="verify.invalid-is-error",
        source="vllm-project/vllm 2336",
        killed_by="scripted.impossible-numbers",
        story="The argmax of a NaN row is 0, so a broken forward pass reads as a stream of id 0.",
        replace={"target_row": _repaired_row},
    ),
    Fault(
        name="first-proposal-unverified",
        rule="verify.first-rejection-ends",
        source="lattice 243",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="Verification compares from the second proposal on, because the first came with the row before.",
        replace={"rejection_length": _all_but_first},
    ),
    Fault(
        name="first-greedy-proposal-unverified",
        rule="verify.greedy-argmax",
        source="lattice 243",
        killed_by="path.greedy-is-argmax/order-2/k3",
        story="The same off-by-one on the greedy path.",
        replace={
            "greedy_length": lambda proposals, rows: min(len(proposals), 1) + greedy_length(proposals[1:], rows[1:]),
        },
    ),
    Fault(
        name="accepts-behind-a-rejection",
        rule="verify.first-rejection-ends",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="The accepted length is the number of accepting coins, not of those before the first rejection.",
        replace={"rejection_length": _number_accepted},
    ),
    Fault(
        name="block-threshold-is-the-weight",
        rule="verify.block-longest-length",
        killed_by="law.exact/law-order-2/t1/block/k2/t3",
        story="Every length of a block is accepted with its weight w, as only the whole block may be.",
        replace={"block_threshold": lambda weights, length, *_: weights[length]},
    ),
    Fault(
        name="block-threshold-swallows-its-room",
        rule="verify.block-longest-length",
        source="constructed; found in this reference while it was written",
        killed_by="scripted.rare-tokens",
        story="R + 1 - w, from left to right: at w = 1 a small R vanishes in the 1, and a sure acceptance becomes 0.",
        replace={"block_threshold": _threshold_swallowed},
    ),
    Fault(
        name="block-stops-at-first-failure",
        rule="verify.block-longest-length",
        killed_by="law.exact/law-order-2/t1/block/k2/t3",
        story="The first rejecting coin ends the search, as under the rejection rule; a longer length may still"
        " be accepted.",
        replace={"block_length": _first_failure},
    ),
    Fault(
        name="block-residual-unweighted",
        rule="verify.block-residual",
        killed_by="law.exact/law-order-2/t1/block/k2/t3",
        story="Behind an accepted length the residual is (p - q)+, and the weight w that is left of p is forgotten.",
        replace={"residual": _unweighted_residual},
    ),
    Fault(
        name="coupled-forgives-one",
        rule="verify.coupled-shared-vector",
        killed_by="path.equals-reference/table/coupled/k3",
        story="One mismatch a block is let through.",
        replace={"coupled_length": _one_more},
    ),
    Fault(
        name="greedy-breaks-ties-upwards",
        rule="verify.greedy-argmax",
        source="lattice 280",
        killed_by="path.greedy-is-argmax/ties/k0",
        story="Another kernel, another argmax: the highest id wins among equals.",
        replace={"target_row": _highest_tie},
    ),
    Fault(
        name="temperature-zero-is-sampled",
        rule="verify.greedy-argmax",
        source="oMLX 1330",
        killed_by="path.greedy-is-argmax/ties/k0",
        story="Temperature 0 becomes a very small one and takes the stochastic path, where equal maxima are a"
        " coin toss.",
        replace={
            "choose_rule": lambda request: request.acceptance,
            "target_row": _smallest_temperature,
            "draft_row": _smallest_temperature,
        },
    ),
)
