"""Faults of where an output ends, how long a round may be, and what text is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from eredu_conformance.faults.fault import Fault
from eredu_reference import Drafter, FinishReason, Model, Request
from eredu_reference.clipping import Clip, ClipReason, Limits, budget_of, clip
from eredu_reference.constraint import State, state_after
from eredu_reference.pieces import candidates
from eredu_reference.terminal import Budget, Walk, terminal_reason, walk
from eredu_reference.text import decode, visible_text

Tokens = tuple[int, ...]


def _last_token_only(request: Request, output: Tokens, grammar: State, offered: Tokens, budget: Budget) -> Walk:
    behind = state_after(request.constraint, grammar, offered[:-1])
    last = walk(request, output + offered[:-1], behind, offered[-1:], budget)
    return Walk(offered, last.finish)


def _whole_round(request: Request, output: Tokens, grammar: State, offered: Tokens, budget: Budget) -> Walk:
    return Walk(offered, walk(request, output, grammar, offered, budget).finish)


def _end_not_committed(request: Request, output: Tokens, grammar: State, offered: Tokens, budget: Budget) -> Walk:
    done = walk(request, output, grammar, offered, budget)
    return Walk(done.emitted[:-1], done.finish) if done.finish is FinishReason.EOS else done


def _no_stops(request: Request, output: Tokens, grammar: State, offered: Tokens, budget: Budget) -> Walk:
    text = None if request.text is None else replace(request.text, stop_strings=())
    return walk(replace(request, stop_sequences=(), text=text), output, grammar, offered, budget)


def _stops_of_the_round(request: Request, output: Tokens, grammar: State, offered: Tokens, budget: Budget) -> Walk:
    done = _no_stops(request, output, grammar, offered, budget)
    for count in range(1, len(done.emitted) + 1):
        if terminal_reason(replace(request, eos_ids=frozenset(), constraint=None), offered[:count], None, budget):
            return Walk(offered[:count], FinishReason.STOP)
    return done


def _budget_first(request: Request, output: Tokens, grammar: State, offered: Tokens, budget: Budget) -> Walk:
    done = walk(request, output, grammar, offered, budget)
    full = done.finish is not None and len(output) + len(done.emitted) == budget.tokens
    return Walk(done.emitted, budget.reason) if full else done


def _grammar_never_ends(request: Request, output: Tokens, grammar: State, offered: Tokens, budget: Budget) -> Walk:
    return walk(replace(request, constraint=None), output, grammar, offered, budget)


def _one_behind_the_grammar(request: Request, output: Tokens, grammar: State, offered: Tokens, budget: Budget) -> Walk:
    done = walk(request, output, grammar, offered, budget)
    behind = offered[len(done.emitted) : len(done.emitted) + 1]
    return Walk(done.emitted + behind, done.finish) if done.finish is FinishReason.GRAMMAR else done


def _drafted_end() -> Mapping[str, object]:
    drafted: list[int] = []

    def offer(proposals: Tokens, accepted: int, token: int) -> Tokens:
        drafted[:] = proposals
        return candidates(proposals, accepted, token)

    def end(request: Request, output: Tokens, grammar: State, offered: Tokens, budget: Budget) -> Walk:
        done = walk(request, output, grammar, offered, budget)
        if done.finish is None and request.eos_ids.intersection(drafted):
            return Walk(done.emitted, FinishReason.EOS)
        return done

    return {"candidates": offer, "walk": end}


def _budget_of_rounds() -> Mapping[str, object]:
    rounds = [0]

    def begin(target: Model, drafter: Drafter) -> None:  # noqa: ARG001
        rounds[0] = 0

    def unbounded(limits: Limits) -> Clip:
        return clip(replace(limits, remaining=10**6))

    def end(request: Request, output: Tokens, grammar: State, offered: Tokens, budget: Budget) -> Walk:
        rounds[0] += 1
        done = walk(request, output, grammar, offered, Budget(10**6, budget.reason))
        return Walk(done.emitted, budget.reason) if done.finish is None and rounds[0] >= budget.tokens else done

    return {"check_pair": begin, "clip": unbounded, "walk": end}


def _last_reason(limits: Limits) -> Clip:
    planned = clip(limits)
    return Clip(planned.count, ClipReason.BUDGET if limits.remaining - 1 == planned.count else planned.reason)


def _nothing_held(request: Request, before: Sequence[int], after: Sequence[int], *, finished: bool) -> str:
    if request.text is None:
        return ""
    free = replace(request, stop_sequences=(), text=replace(request.text, stop_strings=()))
    shown = visible_text(free, before, finished=False)
    return visible_text(free if not finished else request, after, finished=finished)[len(shown) :]


def _round_by_round(request: Request, before: Sequence[int], after: Sequence[int], *, finished: bool) -> str:
    if request.text is None:
        return ""
    if finished:
        return visible_text(request, after, finished=True)[len(decode(request.text, before, finished=True)) :]
    return decode(request.text, after[len(before) :], finished=True)


def _nothing_at_the_end(request: Request, before: Sequence[int], after: Sequence[int], *, finished: bool) -> str:
    del finished
    shown = visible_text(request, before, finished=False)
    return visible_text(request, after, finished=False)[len(shown) :]


FAULTS = (
    Fault(
        name="end-inside-a-block-ignored",
        rule="terminal.nothing-behind",
        source="huggingface/transformers 47912",
        killed_by="path.grammar/table/greedy/k2",
        story="Only the last token of a round is checked for the end of sequence.",
        replace={"walk": _last_token_only},
    ),
    Fault(
        name="tokens-behind-the-end",
        rule="terminal.nothing-behind",
        killed_by="path.grammar/table/greedy/k2",
        story="The end is noticed, and the accepted proposals behind it are emitted all the same.",
        replace={"walk": _whole_round},
    ),
    Fault(
        name="drafted-end-ends-the-request",
        rule="terminal.eos-when-emitted",
        source="openvino.genai 3293",
        killed_by="path.eos-at-each-index/cycle-wrong/k2",
        story="The drafter proposes the end of sequence, the target rejects it, and the request ends.",
        replace=_drafted_end,
    ),
    Fault(
        name="end-not-committed",
        rule="commit.terminal-token-committed",
        killed_by="path.eos-at-each-index/path/k2",
        story="The end-of-sequence id is hidden from the text by leaving it out of the ids.",
        replace={"walk": _end_not_committed},
    ),
    Fault(
        name="budget-counts-rounds",
        rule="terminal.budget-counts-tokens",
        source="ferrox 311",
        killed_by="path.budget/cycle/k2",
        story="max_tokens bounds the rounds, each of which may emit k + 1 tokens.",
        replace=_budget_of_rounds,
    ),
    Fault(
        name="clip-ignores-the-budget",
        rule="draft.clip",
        source="ik_llama.cpp 2358",
        killed_by="state.statistics-equal-reference/table-equal/greedy/adaptive",
        story="The last round drafts a whole block for a budget of one token; the walk cuts it, the work is lost.",
        replace={"clip": lambda limits: clip(replace(limits, remaining=10**6))},
    ),
    Fault(
        name="clip-forgets-the-bonus",
        rule="draft.clip",
        killed_by="state.statistics-equal-reference/table-equal/greedy/off",
        story="k = remaining leaves no room for the token of the target.",
        replace={"clip": lambda limits: clip(replace(limits, remaining=limits.remaining + 1))},
    ),
    Fault(
        name="target-context-one-wider",
        rule="terminal.budget-counts-tokens",
        killed_by="path.context-limit/table-near",
        story="An output may be one token longer than the target's context has rows for.",
        replace={"budget_of": lambda request, target_context: budget_of(request, target_context + 1)},
    ),
    Fault(
        name="drafter-context-ignored",
        rule="draft.clip",
        killed_by="path.draft-context/table-near",
        story="The drafter's shorter context is not asked, and it fails in the middle of a long output.",
        replace={"clip": lambda limits: clip(replace(limits, drafter_context=10**6))},
    ),
    Fault(
        name="capability-ignored",
        rule="capability.validated-cap",
        killed_by="trace.lookahead/table-near-short-draft/greedy",
        story="The caller's K is used although the checkpoint was validated for fewer proposals.",
        replace={"clip": lambda limits: clip(replace(limits, capability=10**6))},
    ),
    Fault(
        name="clip-names-the-wrong-bound",
        rule="draft.clip",
        killed_by="trace.rounds/table-near/rejection",
        story="Of two equal bounds the later is reported, so that a tuned K looks like an exhausted budget.",
        replace={"clip": _last_reason},
    ),
    Fault(
        name="stop-forgets-earlier-rounds",
        rule="terminal.stop-sequences-span-rounds",
        source="vllm-project/vllm 47616",
        killed_by="path.stop-at-each-split/cycle/k2",
        story="The matcher starts afresh in every round, and a stop across two of them is missed.",
        replace={"walk": _stops_of_the_round},
    ),
    Fault(
        name="stop-cuts-text-not-ids",
        rule="terminal.nothing-behind",
        source="oMLX 3695",
        killed_by="path.stop-at-each-split/cycle/k2",
        story="The text is cut at the stop, while the ids go on to the budget.",
        replace={"walk": _no_stops},
    ),
    Fault(
        name="budget-named-before-the-end",
        rule="terminal.order",
        killed_by="path.eos-at-each-index/cycle/k2",
        story="An end-of-sequence id that is also the last token of the budget is reported as `length`.",
        replace={"walk": _budget_first},
    ),
    Fault(
        name="complete-grammar-goes-on",
        rule="terminal.order",
        killed_by="path.grammar/table/greedy/k0",
        story="A whole sentence of the grammar does not end the output.",
        replace={"walk": _grammar_never_ends},
    ),
    Fault(
        name="bonus-behind-the-grammar-end",
        rule="constraints.drafting-stops-at-completion",
        killed_by="path.grammar/table/greedy/k2",
        story="The last proposal completes the grammar, and the bonus comes all the same.",
        replace={"walk": _one_behind_the_grammar},
    ),
    Fault(
        name="beginning-of-a-stop-leaks",
        rule="events.append-only",
        source="vllm-project/vllm 47616",
        killed_by="scripted.text",
        story="Text is shown at once, and the first half of a stop string is out before the second arrives.",
        replace={"publish_text": _nothing_held},
    ),
    Fault(
        name="text-splits-characters",
        rule="events.append-only",
        source="sgl-project/sglang 31598",
        killed_by="scripted.text",
        story="Each round is decoded by itself, and a character across two rounds becomes two replacement characters.",
        replace={"publish_text": _round_by_round},
    ),
    Fault(
        name="held-text-lost-at-the-end",
        rule="events.append-only",
        source="vllm-project/vllm 41967",
        killed_by="scripted.text",
        story="Text that was held back for a stop that never came is not shown at the end.",
        replace={"publish_text": _nothing_at_the_end},
    ),
)
