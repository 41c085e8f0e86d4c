"""Faults of the caches: what stays, what goes, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from eredu_conformance.faults.fault import Fault
from eredu_reference import Model
from eredu_reference.caches import Cache, FullCache, PooledCache, RecurrentCache, WindowCache
from eredu_reference.caches.recurrent import RecurrentState
from eredu_reference.frontier import Block
from eredu_reference.models import Output, feed
from eredu_reference.pieces import feed_block, prefill_chunks, promoted_block, rollback_target


def _recurrent_stays(cache: Cache, length: int) -> None:
    if isinstance(cache, RecurrentCache):
        state = cache.state
        cache.rollback(length)
        cache.snapshots[-1] = state
    else:
        rollback_target(cache, length)


def _recurrent_to_the_start(cache: Cache, length: int) -> None:
    if isinstance(cache, RecurrentCache):
        oldest = cache.snapshots[0]
        cache.rollback(length)
        cache.snapshots[-1] = oldest
    else:
        rollback_target(cache, length)


def _convolution_stays(cache: Cache, length: int) -> None:
    if isinstance(cache, RecurrentCache):
        recent = cache.state.recent
        cache.rollback(length)
        cache.snapshots[-1] = RecurrentState(cache.state.total, recent)
    else:
        rollback_target(cache, length)


def _pools_stay(cache: Cache, length: int) -> None:
    if isinstance(cache, PooledCache):
        dropped = cache.length - length
        cache.open = cache.open[: max(0, len(cache.open) - dropped)]
        cache.length = length
    else:
        rollback_target(cache, length)


def _no_eviction(model: Model, cache: Cache, tokens: Sequence[int], position_at: Callable[[int], int]) -> list[Output]:
    if not isinstance(cache, WindowCache) or len(tokens) == 1:
        return feed_block(model, cache, tokens, position_at)
    window, cache.window = cache.window, cache.window + len(tokens)
    outputs = [feed(model, cache, token, position_at(offset)) for offset, token in enumerate(tokens)]
    cache.window = window
    return outputs


def _counters_only(cache: Cache, length: int) -> None:
    if isinstance(cache, WindowCache) and len(cache) > cache.window:
        cache.length = length
    else:
        rollback_target(cache, length)


def _evicted_is_gone(cache: Cache, length: int) -> None:
    if isinstance(cache, WindowCache):
        dropped = cache.length - length
        cache.rows = cache.rows[: max(0, len(cache.rows) - dropped)]
        cache.evicted = []
        cache.length = length
    else:
        rollback_target(cache, length)


def _one_position(model: Model, cache: Cache, tokens: Sequence[int], position_at: Callable[[int], int]) -> list[Output]:
    return feed_block(model, cache, tokens, lambda offset: position_at(min(offset, 1)))


def _fed_again() -> Mapping[str, object]:
    promoted = [False]

    def start(branch: Block, reused: int) -> Block:
        promoted[0] = True
        return promoted_block(branch, reused)

    def missing(known: int, cached: int) -> range:
        again, promoted[0] = promoted[0], False
        return range(max(0, cached - int(again)), known)

    return {"promoted_block": start, "missing_inputs": missing}


def _replayed(cache: Cache, length: int) -> None:
    if isinstance(cache, FullCache) and length < len(cache):
        rows = cache.rows[:length]
        cache.rows = []
        for row in rows:
            cache.append(row)
    else:
        rollback_target(cache, length)


def _full_chunks_only(fed: int, count: int, chunk: int) -> list[range]:
    chunks = prefill_chunks(fed, count, chunk)
    return [part for part in chunks if len(part) == chunk or len(chunks) == 1]


FAULTS = (
    Fault(
        name="last-chunk-of-the-prompt-lost",
        rule="scheduling.prefill-in-chunks",
        source="ml-explore/mlx-lm 1528",
        killed_by="state.chunk-invariance/order-2/k2",
        story="A prompt that is no multiple of the chunk loses what is left over.",
        replace={"prefill_chunks": _full_chunks_only},
    ),
    Fault(
        name="leading-token-verified-last",
        rule="verify.leading-token-first",
        killed_by="path.equals-reference/table/rejection/k3",
        story="The last committed token is appended to the proposals instead of put before them.",
        replace={"verified_inputs": lambda leading, proposals: (*proposals, leading)},
    ),
    Fault(
        name="rollback-by-replay",
        rule="rollback.exact-state",
        killed_by="trace.budget/table-near/rejection",
        story="A rollback empties the cache and feeds the committed tokens again: the right content, at the price of a"
        " second forward pass for every rejection.",
        replace={"rollback_target": _replayed},
    ),
    Fault(
        name="promoted-tokens-fed-again",
        rule="rollback.drafter-follows",
        killed_by="trace.cancelled/table-near/rejection",
        story="Behind a promotion the drafter is fed a token that its branch had taken already.",
        replace=_fed_again,
    ),
    Fault(
        name="target-keeps-one-too-many",
        rule="commit.leading-token-uncached",
        source="mlxcel 994",
        killed_by="state.rollback/order-2/k3",
        story="After a rejection the rejected proposal's row stays in the target's cache.",
        replace={"kept_inputs": lambda emitted, count: min(emitted + 1, count + 1)},
    ),
    Fault(
        name="target-keeps-one-too-few",
        rule="commit.one-number",
        source="lattice 1396",
        killed_by="state.rollback/order-2/k3",
        story="The row of the last accepted proposal is trimmed, and the next round stands on a gap.",
        replace={"kept_inputs": lambda emitted, *_: max(emitted - 1, 0)},
    ),
    Fault(
        name="last-prompt-token-cached",
        rule="commit.leading-token-uncached",
        killed_by="state.rollback/order-2/k3",
        story="Prefill feeds the whole prompt, and the first round feeds its last token again.",
        replace={"prefill_inputs": lambda prompt: prompt},
    ),
    Fault(
        name="drafter-misses-a-row-after-full-acceptance",
        rule="draft.frontier-exact",
        source="aprender 2014",
        killed_by="state.rollback/order-2/k3",
        story="The last proposal was never an input of the drafter. After full acceptance only the bonus is fed,"
        " and the drafter lacks a token for ever: outputs stay right, acceptance falls.",
        replace={
            "missing_inputs": lambda known, cached: range(max(known - 1, cached), known) if cached else range(known),
        },
    ),
    Fault(
        name="drafter-keeps-rejected-rows",
        rule="rollback.drafter-follows",
        source="lattice 1396",
        killed_by="state.drafter-frontier/window-4/k3",
        story="The target's cache is trimmed after a rejection, the drafter's is forgotten.",
        replace={"drafter_keeps": lambda cached, *_: cached},
    ),
    Fault(
        name="drafter-keeps-rows-of-its-own-hidden-state",
        rule="rollback.drafter-follows",
        killed_by="scripted.hidden-state",
        story="A head that reads the target's hidden state keeps rows that were made from its own guesses.",
        replace={"drafter_keeps": lambda cached, _trusted, known: min(cached, known - 1)},
    ),
    Fault(
        name="hidden-state-of-the-wrong-row",
        rule="draft.from-frontier",
        source="mlx-dspark 33",
        killed_by="scripted.hidden-state",
        story="The head is given the hidden state behind its input instead of the one before it.",
        replace={"hidden_before": lambda hiddens, index: hiddens[index] if index < len(hiddens) else hiddens[-1]},
    ),
    Fault(
        name="recurrent-state-stays",
        rule="rollback.exact-state",
        source="ml-explore/mlx-lm 1109",
        killed_by="state.rollback/fading/k3",
        story="Rejected tokens stay in a recurrent state, which has no rows that a trim could drop.",
        replace={"rollback_target": _recurrent_stays},
    ),
    Fault(
        name="recurrent-state-to-the-block-start",
        rule="rollback.exact-state",
        source="oMLX 3232",
        killed_by="state.rollback/fading/k3",
        story="One snapshot is kept, at the block's start; a partly accepted block goes all the way back to it.",
        replace={"rollback_target": _recurrent_to_the_start},
    ),
    Fault(
        name="convolution-state-stays",
        rule="rollback.exact-state",
        source="llama.cpp 20075",
        killed_by="state.rollback/fading/k3",
        story="The recurrent state is restored, the short convolution beside it is not.",
        replace={"rollback_target": _convolution_stays},
    ),
    Fault(
        name="full-pools-stay",
        rule="rollback.exact-state",
        killed_by="state.rollback/lag-5/k3",
        story="A rollback across a full group of a compressed cache drops open rows only; the pool keeps a"
        " rejected token.",
        replace={"rollback_target": _pools_stay},
    ),
    Fault(
        name="window-append-does-not-evict",
        rule="rollback.exact-state",
        source="ml-explore/mlx-lm 1914",
        killed_by="state.window-crossing/window-6/k3",
        story="A forward of several tokens appends them all and evicts none, so a window of 4 reads 7 rows.",
        replace={"feed_block": _no_eviction},
    ),
    Fault(
        name="window-trim-moves-counters",
        rule="rollback.exact-length",
        source="ml-explore/mlx-lm 1512",
        killed_by="state.rollback/window-4/k3",
        story="Trimming a full ring moves the counter and leaves the rows.",
        replace={"rollback_target": _counters_only},
    ),
    Fault(
        name="window-evicted-rows-lost",
        rule="rollback.exact-state",
        source="mlx-vlm 1715",
        killed_by="state.rollback/window-4/k3",
        story="A rejected suffix has pushed rows out of the window, and the rollback does not bring them back.",
        replace={"rollback_target": _evicted_is_gone},
    ),
    Fault(
        name="branch-extends-its-parent",
        rule="lookahead.clone-of-frontier",
        killed_by="scripted.branch-on-a-clone",
        story="The branch is drafted on the parent's cache. While trims are exact nothing shows in the output.",
        replace={"clone": lambda frontier: frontier},
    ),
    Fault(
        name="position-from-the-slot",
        rule="draft.frontier-exact",
        source="ik_llama.cpp 1781",
        killed_by="path.greedy-is-argmax/window-4/k3",
        story="Positions are read off the cache's physical length, which a window does not let grow.",
        replace={"position_of": lambda _index, cache: len(cache.content())},
    ),
    Fault(
        name="block-rows-share-a-position",
        rule="verify.rows-see-prefix",
        source="vllm-project/vllm 54498",
        killed_by="path.equals-reference/table/rejection/k3",
        story="All proposals of a block are verified at the position of the first.",
        replace={"feed_block": _one_position},
    ),
    Fault(
        name="position-one-late",
        rule="draft.frontier-exact",
        source="mlx-dspark 33",
        killed_by="state.rollback/order-2/k3",
        story="Past a boundary all positions are one late, in target and drafter alike, so that acceptance stays high.",
        replace={"position_of": lambda index, *_: index + 1 if index > 8 else index},
    ),
)
