"""Faults of what is checked before the first token, and of caches that outlive a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from eredu_conformance.faults.fault import Fault
from eredu_reference import Drafter, Model, RequestError
from eredu_reference.caches import WindowCache
from eredu_reference.clipping import Clip, ClipReason, Limits, clip
from eredu_reference.frontier import Frontier
from eredu_reference.pieces import check_pair, restore_prefix
from eredu_reference.prefix import PrefixEntry, copy_entry, serves

Tokens = tuple[int, ...]


def _any_tokenizer(target: Model, drafter: Drafter) -> None:
    if target.vocabulary != drafter.model.vocabulary:
        raise RequestError("the vocabularies differ")


def _any_vocabulary(target: Model, drafter: Drafter) -> None:
    if target.fingerprint != drafter.model.fingerprint:
        raise RequestError("the tokenizers differ")


def _stale_drafter() -> Mapping[str, object]:
    held: list[Frontier] = []

    def restore(entry: PrefixEntry, prompt: Tokens) -> PrefixEntry | None:
        if entry.frontier is not None and not held:
            held.append(entry.frontier.copy())
        restored = restore_prefix(entry, prompt)
        return None if restored is None else replace(restored, frontier=held[0].copy() if held else None)

    return {"restore_prefix": restore}


def _part_of_an_entry(entry: PrefixEntry, prompt: Tokens) -> PrefixEntry | None:
    common = 0
    while common < min(len(entry.tokens), len(prompt) - 1) and entry.tokens[common] == prompt[common]:
        common += 1
    copied = copy_entry(entry)
    if common == 0:
        return None
    if common < len(entry.tokens):
        if not isinstance(copied.cache, WindowCache):
            return None
        dropped = len(entry.tokens) - common
        copied.cache.rows = copied.cache.rows[: max(0, len(copied.cache.rows) - dropped)]
        copied.cache.length = common
        return PrefixEntry(entry.tokens[:common], copied.cache, copied.hiddens[:common], None)
    return copied


def _plain_instead() -> Mapping[str, object]:
    refused = [False]

    def check(target: Model, drafter: Drafter) -> None:
        try:
            check_pair(target, drafter)
        except RequestError:
            refused[0] = True

    def depth(limits: Limits) -> Clip:
        return Clip(0, ClipReason.CAPABILITY) if refused[0] else clip(limits)

    return {"check_pair": check, "clip": depth}


FAULTS = (
    Fault(
        name="silent-fallback-to-plain",
        rule="capability.no-silent-fallback",
        killed_by="path.foreign-draft-is-refused",
        story="A pair that cannot work together is decoded plainly, and the caller measures a speed-up of 1.",
        replace=_plain_instead,
    ),
    Fault(
        name="tokenizer-unchecked",
        rule="capability.same-vocabulary",
        source="llama.cpp 3812",
        killed_by="path.foreign-draft-is-refused",
        story="Two tokenizers of equal size are taken for one; every proposal is another word.",
        replace={"check_pair": _any_tokenizer},
    ),
    Fault(
        name="vocabulary-unchecked",
        rule="capability.same-vocabulary",
        source="sgl-project/sglang 24051",
        killed_by="scripted.vocabularies",
        story="A drafter of another vocabulary size is loaded and fails, or worse, much later.",
        replace={"check_pair": _any_vocabulary},
    ),
    Fault(
        name="padding-proposable",
        rule="capability.same-vocabulary",
        source="ROCmFPX 44",
        killed_by="scripted.vocabularies",
        story="Checkpoints pad their logits, and an untrained padding id wins the argmax.",
        replace={"usable": lambda logits, *_: logits},
    ),
    Fault(
        name="restored-prefix-aliases-the-store",
        rule="commit.on-copies",
        source="MTPLX 247",
        killed_by="state.prefix-reuse/order-2",
        story="A restored cache is the stored one, and the request that uses it writes into everybody's prefix.",
        replace={"restore_prefix": lambda entry, prompt: entry if serves(entry, prompt) else None},
    ),
    Fault(
        name="drafter-stale-after-restore",
        rule="draft.frontier-exact",
        source="Rapid-MLX 1874",
        killed_by="state.prefix-reuse/window-16",
        story="The target's prefix is restored, and the drafter goes on with what it held.",
        replace=_stale_drafter,
    ),
    Fault(
        name="window-prefix-sliced",
        rule="rollback.exact-state",
        source="mlx-swift-lm 424, mlx-swift-lm 584",
        killed_by="state.prefix-reuse/window-6",
        story="A part of a stored prefix is cut out of a full window, whose evicted rows nobody has any more.",
        replace={"restore_prefix": _part_of_an_entry},
    ),
    Fault(
        name="stored-longer-than-cached",
        rule="commit.leading-token-uncached",
        source="Rapid-MLX 2739, MTPLX 2.3.0",
        killed_by="scripted.stored-prefix",
        story="A finished cache is published under all tokens, though the last one was never an input.",
        replace={"stored_inputs": lambda committed, *_: committed},
    ),
)
