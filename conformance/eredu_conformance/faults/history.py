"""Faults of what a row sees: penalties, filters and the grammar at each place of a block."""

from __future__ import annotations

from collections.abc import Mapping

from eredu_conformance.faults.fault import Fault
from eredu_reference import Constraint, Request
from eredu_reference.constraint import Mask, State, mask_of, state_after
from eredu_reference.errors import ConstraintError
from eredu_reference.pieces import process
from eredu_reference.rows import Row, one_hot, processed_row, softmax

Tokens = tuple[int, ...]


def _rejected_stay() -> Mapping[str, object]:
    seen: list[tuple[Tokens, Tokens]] = []

    def history(committed: Tokens, proposals: Tokens, index: int) -> Tokens:
        if not seen or seen[-1][0] != committed:
            seen.append((committed, proposals))
        earlier = [tokens for before, tokens in seen[:-1] if committed[: len(before)] == before]
        left = tuple(token for tokens in earlier[-1:] for token in tokens)
        return committed + left + proposals[:index]

    return {"history_for_row": history}


def _raw(request: Request, logits: Row, history: Tokens, mask: Mask | None) -> Row:  # noqa: ARG001
    if request.sampling.temperature == 0:
        return one_hot(int(logits.argmax()), len(logits))
    return softmax(logits)


def _late_mask(constraint: Constraint | None, state: State, proposals: Tokens, index: int) -> Mask | None:
    return mask_of(constraint, state_after(constraint, state, proposals[: max(index - 1, 0)]))


def _advanced_by_proposals(constraint: Constraint | None, state: State, proposals: Tokens, emitted: Tokens) -> State:
    return state_after(constraint, state, proposals + emitted[-1:])


def _without_the_last(constraint: Constraint | None, state: State, proposals: Tokens, emitted: Tokens) -> State:  # noqa: ARG001
    return state_after(constraint, state, emitted[:-1])


def _skips_illegal(constraint: Constraint | None, state: State, proposals: Tokens, emitted: Tokens) -> State:
    """A matcher that skips what it cannot take, and goes on behind it as if it had."""
    if constraint is None:
        return None
    legal = state
    for token in proposals:
        if not constraint.complete(legal) and constraint.mask(legal)[token]:
            legal = constraint.advance(legal, token)
    return legal if len(emitted) <= len(proposals) else state_after(constraint, state, emitted)


def _mask_that_gives_way(request: Request, logits: Row, history: Tokens, mask: Mask | None) -> Row:
    try:
        return process(request, logits, history, mask)
    except ConstraintError:
        return process(request, logits, history, None)


def _prompt_counts(request: Request, logits: Row, history: tuple[int, ...], mask: Mask | None) -> Row:
    return processed_row(logits, history=history, prompt_length=0, sampling=request.sampling, mask=mask)


FAULTS = (
    Fault(
        name="penalties-count-the-prompt",
        rule="verify.processed-order",
        killed_by="path.option-with-drafter/frequency-penalty/counts/greedy",
        story="Frequency and presence are counted over prompt and output, where only what was generated counts; with"
        " and without a drafter alike, so that comparing the two shows nothing.",
        replace={"target_row": _prompt_counts, "draft_row": _prompt_counts},
    ),
    Fault(
        name="mask-gives-way",
        rule="constraints.mask-on-every-row",
        killed_by="scripted.dead-end",
        story="Where the grammar leaves no id, the row is used without its mask.",
        replace={"target_row": _mask_that_gives_way, "draft_row": _mask_that_gives_way},
    ),
    Fault(
        name="history-lacks-the-proposals",
        rule="verify.rows-see-prefix",
        source="sgl-project/sglang 33643",
        killed_by="path.option-with-drafter/repetition-window/table-near/greedy",
        story="All rows of a block are penalised by the history before the block.",
        replace={"history_for_row": lambda committed, *_: committed},
    ),
    Fault(
        name="history-holds-the-whole-block",
        rule="verify.rows-see-prefix",
        source="vllm-project/vllm 26467",
        killed_by="path.option-with-drafter/presence-penalty/table-near/coupled",
        story="Every row is penalised for proposals that come behind it, the rejected ones included.",
        replace={"history_for_row": lambda committed, proposals, *_: committed + proposals},
    ),
    Fault(
        name="history-one-proposal-behind",
        rule="verify.rows-see-prefix",
        source="sgl-project/sglang 28200",
        killed_by="path.option-with-drafter/penalties-together/table-near/coupled",
        story="A row does not see the proposal right before it.",
        replace={"history_for_row": lambda committed, proposals, index: committed + proposals[: max(index - 1, 0)]},
    ),
    Fault(
        name="history-counts-only-the-latest",
        rule="verify.rows-see-prefix",
        source="vllm-project/vllm 26467",
        killed_by="path.option-with-drafter/repetition-window/table-near/coupled",
        story="Of the proposals before a row only the last is counted.",
        replace={
            "history_for_row": lambda committed, proposals, index: committed + proposals[max(index - 1, 0) : index],
        },
    ),
    Fault(
        name="history-holds-rejected-proposals",
        rule="commit.on-copies",
        source="vllm-project/vllm 26467",
        killed_by="path.option-with-drafter/frequency-penalty/table-near/greedy",
        story="Counts were raised when drafting and are not lowered again for what was rejected.",
        replace=_rejected_stay,
    ),
    Fault(
        name="verified-rows-unprocessed",
        rule="verify.processed-order",
        source="vllm-project/vllm 42744",
        killed_by="path.option-with-drafter/logit-bias/table-near/greedy",
        story="The sampler runs on the drafter's rows only; a banned id comes back through the target's.",
        replace={"target_row": _raw},
    ),
    Fault(
        name="grammar-frozen-at-the-block-start",
        rule="constraints.mask-on-every-row",
        source="vllm-project/vllm 34241",
        killed_by="path.grammar/table/greedy/k2",
        story="One mask serves the whole block, so a grammar that begins inside it is missed.",
        replace={"mask_for_row": lambda constraint, state, *_: mask_of(constraint, state)},
    ),
    Fault(
        name="grammar-one-token-behind",
        rule="constraints.state-from-history",
        killed_by="path.grammar/table/greedy/k2",
        story="The mask of a row does not know the proposal right before it.",
        replace={"mask_for_row": _late_mask},
    ),
    Fault(
        name="grammar-not-rolled-back",
        rule="constraints.state-from-history",
        source="vllm-project/vllm 53777",
        killed_by="path.grammar/table/greedy/k2",
        story="The matcher is advanced by the proposals and not taken back behind a rejection.",
        replace={"install_grammar": _advanced_by_proposals},
    ),
    Fault(
        name="grammar-advanced-by-an-illegal-proposal",
        rule="constraints.state-from-history",
        source="vllm-project/vllm 53777",
        killed_by="path.grammar/table/greedy/k2",
        story="A matcher fed with proposals skips what it cannot take and stays where the rest leads.",
        replace={"install_grammar": _skips_illegal},
    ),
    Fault(
        name="grammar-lacks-the-bonus",
        rule="constraints.state-from-history",
        killed_by="trace.grammar/table-near/greedy",
        story="Accepted proposals advance the matcher, the token of the target does not.",
        replace={"install_grammar": _without_the_last},
    ),
    Fault(
        name="drafting-crosses-the-grammar-end",
        rule="constraints.drafting-stops-at-completion",
        killed_by="trace.grammar/table-near/greedy",
        story="The drafter goes on behind a proposal that completes the grammar, where no mask tells it what to say.",
        replace={"drafting_ends": lambda *_: False},
    ),
)
