"""Faults of eredu's executors: what stays in which cache, where things run, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from eredu.contract.executor import CommitPlan
from eredu.drafters.assistant import AssistantDrafter
from eredu.drafters.draft_block import MlxBlock
from eredu.engine.executor import MlxExecutor
from eredu.engine.sequence import MlxSequence
from eredu.engine.verification import Verifier
from eredu.loaded import LoadedModel
from eredu_conformance.checks.check import Kind
from eredu_conformance.faults.engine.fault import EngineFault
from eredu_conformance.faults.engine.seam import Wrapped
from eredu_conformance.faults.engine.syntax import Rewritten

_ENGINE = "conformance/tests/engine"
_PLAIN_TOKENS = f"{_ENGINE}/test_engine_path.py::test_200_tokens_are_the_plain_ones_with_rejections_at_every_index"
_Commit = Callable[[MlxExecutor, MlxSequence, CommitPlan, MlxBlock | None], MlxBlock | None]


def _one_too_many(
    right: _Commit, executor: MlxExecutor, sequence: MlxSequence, plan: CommitPlan, branch: MlxBlock | None
) -> MlxBlock | None:
    return right(executor, sequence, replace(plan, kept=max(0, plan.kept - 1)), branch)


def _one_too_few(
    right: _Commit, executor: MlxExecutor, sequence: MlxSequence, plan: CommitPlan, branch: MlxBlock | None
) -> MlxBlock | None:
    fed = sequence.target.length - (len(sequence.tokens) - 1) - (sequence.ahead is not None)
    return right(executor, sequence, replace(plan, kept=min(fed, plan.kept + 1)), branch)


def _plainly(
    right: Callable[..., Any], model: LoadedModel[Any], requests: Sequence[Any], drafter: Any = None, **options: Any
) -> Any:
    if not model.mtp_capability(drafter).is_ready:
        return model.generate_prepared_chat(requests, **options)
    return right(model, requests, drafter, **options)


FAULTS = (
    EngineFault(
        name="rollback-trims-one-too-many",
        rule="rollback.exact-length",
        story="The row of the last emitted token's predecessor goes with the rejected ones.",
        seam=Wrapped(MlxExecutor.commit, _one_too_many),
        killer=_PLAIN_TOKENS,
    ),
    EngineFault(
        name="rollback-keeps-one-too-many",
        rule="rollback.exact-length",
        story="The first rejected row stays, under the row of the token that replaced it.",
        seam=Wrapped(MlxExecutor.commit, _one_too_few),
        killer=_PLAIN_TOKENS,
        kind=Kind.STATE,
    ),
    EngineFault(
        name="prefill-feeds-the-last-token",
        rule="commit.leading-token-uncached",
        story="The whole prompt is fed, and its last token fed again by the first verification.",
        seam=Rewritten(MlxExecutor.prefill, "len(S.request.prompt) - 1", "len(S.request.prompt)"),
        killer=f"{_ENGINE}/test_engine_path.py::test_the_shortest_prompts_work",
    ),
    EngineFault(
        name="rejected-rows-stay-in-the-assistant",
        rule="rollback.drafter-follows",
        story="The assistant's cache is not rolled back behind a rejection, and drafts at a false history.",
        seam=Rewritten(
            AssistantDrafter.settle,
            "B if P is None else R",
            "B + 2 if P is None else R",
        ),
        killer=f"{_ENGINE}/test_engine_sampling.py::test_sampled_tokens_are_those_of_a_float64_replay",
        kind=Kind.STATE,
    ),
    EngineFault(
        name="plain-decoding-in-place-of-a-refusal",
        rule="capability.no-silent-fallback",
        story="Where there is no drafter the call decodes plainly, and nobody notices but the bill.",
        seam=Wrapped(LoadedModel.generate_prepared_chat_mtp_batch, _plainly),
        killer=f"{_ENGINE}/test_engine_limits.py::test_there_is_no_speculation_without_a_drafter",
    ),
    EngineFault(
        name="second-device-has-its-own-counter",
        rule="placement.changes-no-token",
        story="Where the assistant runs on a device of its own, draws are numbered for that device.",
        seam=Rewritten(
            Verifier._accept,
            "final_keys(R, P, C)",
            "final_keys(R, P + (self.placement.kind == 'two-devices'), C)",
        ),
        killer=f"{_ENGINE}/test_engine_path.py::test_placement_changes_no_token",
    ),
)
"""Faults of executors."""
