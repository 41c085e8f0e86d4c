"""Faults of the one token that the target adds to each round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eredu_conformance.faults.fault import Fault
from eredu_reference import AcceptanceRule, Constraint, RandomSource, Request
from eredu_reference.addresses import proposal_address, target_address
from eredu_reference.constraint import Mask, State
from eredu_reference.pieces import history_for_row, mask_for_row, process
from eredu_reference.rows import Row, one_hot, softmax
from eredu_reference.sources import Address


def _dropped(proposals: tuple[int, ...], accepted: int, token: int) -> tuple[int, ...]:
    return proposals if accepted == len(proposals) and proposals else (*proposals[:accepted], token)


def _doubled(proposals: tuple[int, ...], accepted: int, token: int) -> tuple[int, ...]:
    behind = (token, token) if accepted == len(proposals) and proposals else (token,)
    return (*proposals[:accepted], *behind)


def _past_the_grammar(
    constraint: Constraint | None, state: State, proposals: tuple[int, ...], index: int
) -> Mask | None:
    return None if index == len(proposals) and proposals else mask_for_row(constraint, state, proposals, index)


def _past_the_sampler() -> Mapping[str, object]:
    is_bonus = [False]

    def history(committed: tuple[int, ...], proposals: tuple[int, ...], index: int) -> tuple[int, ...]:
        is_bonus[0] = index == len(proposals) > 0
        return history_for_row(committed, proposals, index)

    def row(request: Request, logits: Row, before: tuple[int, ...], mask: Mask | None) -> Row:
        plain = process(request, logits, before, mask)
        return softmax(logits) if is_bonus[0] and request.sampling.temperature > 0 else plain

    return {"history_for_row": history, "target_row": row}


def _guess_becomes_bonus() -> Mapping[str, object]:
    guess: dict[str, object] = {}

    def address(rule: AcceptanceRule, start: int, count: int) -> Address:
        guess.update(address=proposal_address(rule, start, count), position=start + count)
        return proposal_address(rule, start, count)

    def proposal(source: RandomSource, where: Address, row: Row) -> int:
        token = source.categorical(where, row)
        if where == guess.get("address"):
            guess["token"] = token
        return token

    def bonus(source: RandomSource, where: Address, row: Row) -> int:
        token = guess.pop("token", None)
        if where.position == guess.get("position") and isinstance(token, int) and row[token] > 0:
            return token
        return source.categorical(where, row)

    return {"guess_address": address, "draw_proposal": proposal, "draw_bonus": bonus}


def _by_cumulative_sums(source: RandomSource, address: Address, row: Row) -> int:
    coin = source.uniform(address)
    sums = row.cumsum()
    return next((token for token in range(len(row)) if coin.below(float(sums[token]))), int(row.argmax()))


def _plain_is_greedy(target_rows: Sequence[Row], draft_rows: Sequence[Row]) -> Row:
    return target_rows[-1] if draft_rows else one_hot(int(target_rows[-1].argmax()), len(target_rows[-1]))


def _plain_token_reads_draft_noise() -> Mapping[str, object]:
    is_plain = [False]

    def row(target_rows: Sequence[Row], draft_rows: Sequence[Row]) -> Row:
        is_plain[0] = not draft_rows
        return target_rows[-1]

    def address(rule: AcceptanceRule, position: int) -> Address:
        return proposal_address(rule, position, 0) if is_plain[0] else target_address(rule, position)

    return {"bonus_row": row, "target_address": address}


FAULTS = (
    Fault(
        name="proposals-emitted-in-reverse",
        rule="draft.from-frontier",
        killed_by="path.equals-reference/table/rejection/k3",
        story="A block is kept as a stack, and leaves it from the top.",
        replace={"candidates": lambda proposals, accepted, token: (*proposals[:accepted][::-1], token)},
    ),
    Fault(
        name="target-drawn-by-cumulative-sums",
        rule="randomness.gumbel-max",
        killed_by="path.equals-reference/table/rejection/k3",
        story="The target inverts the cumulative distribution where the drafter takes the argmax of noise. Each is a"
        " lawful draw; under the coupled rule they no longer meet, and a seed no longer names an output.",
        replace={"draw_bonus": _by_cumulative_sums},
    ),
    Fault(
        name="empty-block-is-greedy",
        rule="draft.empty-block-is-plain",
        killed_by="path.option-with-drafter/presence-penalty/table-near/coupled",
        story="A round without proposals takes another path through the sampler, one that was written for greedy"
        " tests.",
        replace={"bonus_row": _plain_is_greedy},
    ),
    Fault(
        name="plain-token-reads-draft-noise",
        rule="draft.empty-block-is-plain",
        killed_by="state.statistics-equal-reference/table-near/block/adaptive",
        story="A round without proposals draws its token as if it were a proposal, so K = 0 is another plain decoding.",
        replace=_plain_token_reads_draft_noise,
    ),
    Fault(
        name="bonus-dropped",
        rule="bonus.after-full-acceptance",
        source="lattice 509",
        killed_by="state.statistics-equal-reference/table-equal/greedy/adaptive",
        story="A fully accepted round ends without its bonus. Without lookahead the next round draws that token, so law"
        " and path stay, and a token of every good round is lost.",
        replace={"candidates": _dropped},
    ),
    Fault(
        name="empty-block-emits-nothing",
        rule="scheduling.every-request-ends",
        killed_by="path.greedy-is-argmax/order-2/k3",
        story="A round without proposals has nothing to verify and is skipped; where k stays 0 it is skipped for ever.",
        replace={"candidates": lambda proposals, accepted, token: (*proposals[:accepted], token) if proposals else ()},
    ),
    Fault(
        name="bonus-doubled",
        rule="bonus.after-full-acceptance",
        source="kronk 788",
        killed_by="path.equals-reference/table/rejection/k3",
        story="The bonus is emitted with its round and once more as the leading token of the next.",
        replace={"candidates": _doubled},
    ),
    Fault(
        name="bonus-from-the-draft",
        rule="bonus.from-target",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="The bonus is drawn from the last draft distribution.",
        replace={"bonus_row": lambda target_rows, draft_rows: draft_rows[-1] if draft_rows else target_rows[-1]},
    ),
    Fault(
        name="bonus-from-the-row-before",
        rule="bonus.from-target",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="The bonus is drawn from the row of the last proposal. Invisible with blocks of one or outputs of two.",
        replace={"bonus_row": lambda target_rows, *_: target_rows[-2] if len(target_rows) > 1 else target_rows[-1]},
    ),
    Fault(
        name="bonus-is-the-argmax",
        rule="bonus.from-target",
        source="openvino.genai 4490",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="Proposals are verified by sampling, and the bonus is the argmax of its row.",
        replace={"draw_bonus": lambda _source, _address, row: int(row.argmax())},
    ),
    Fault(
        name="bonus-past-the-grammar",
        rule="constraints.mask-on-every-row",
        source="vllm-project/vllm 42744",
        killed_by="path.grammar/table/greedy/k2",
        story="The mask was built for k rows, and the bonus has none.",
        replace={"mask_for_row": _past_the_grammar},
    ),
    Fault(
        name="bonus-past-the-sampler",
        rule="verify.processed-order",
        source="sgl-project/sglang 26330",
        killed_by="path.option-with-drafter/logit-bias/table-near/coupled",
        story="Temperature, bias and filters are applied to the verified rows, and not to the bonus.",
        replace=_past_the_sampler,
    ),
    Fault(
        name="guess-becomes-the-bonus",
        rule="bonus.from-target",
        killed_by="law.exact/law-zeros/t1/rejection/k1/t4/lookahead",
        story="The branch's guess is emitted as the bonus where the target finds it possible.",
        replace=_guess_becomes_bonus,
    ),
)
