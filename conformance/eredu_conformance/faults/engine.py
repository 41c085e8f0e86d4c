"""Faults of eredu's own: scheduler, randomness, acceptance, caches and placement, each an edit of a line or two."""

from __future__ import annotations

from eredu_conformance.checks.check import Kind
from eredu_conformance.faults.edits import EngineFault

_SCHEDULING = "conformance/tests/scheduling"
_ENGINE = "conformance/tests/engine"
_MLX = "conformance/tests/mlx"
_TRACE = "conformance/tests/trace/test_trace_of_schedules.py::test_a_schedule_s_trace_is_a_run_of_the_machine"

_SCHEDULE = (
    EngineFault(
        name="ring-begins-at-the-front",
        rule="scheduling.ring",
        story="The scheduler looks for an actor from the front of its list each time, and starves the rest.",
        file="scheduling/scheduler.py",
        before="            record = self._ring[0]\n            self._ring.rotate(-1)\n",
        after="            record = self._ring[_]\n",
        killer=f"{_SCHEDULING}/test_schedule_fairness.py::test_whoever_can_act_is_served_within_one_turn_of_every_other",
    ),
    EngineFault(
        name="turn-serves-everybody",
        rule="scheduling.one-action-a-turn",
        story="A turn goes on through the ring, so that actions of several requests cannot be told apart or bounded.",
        file="scheduling/scheduler.py",
        before="                self._serve(record, action)\n                self._settle()\n                return\n",
        after="                self._serve(record, action)\n                self._settle()\n",
        killer=f"{_SCHEDULING}/test_schedule_fairness.py::test_whoever_can_act_is_served_within_one_turn_of_every_other",
    ),
    EngineFault(
        name="branch-bound-is-inclusive",
        rule="lookahead.bounded",
        story="One branch more than allowed, because the bound was compared before the new one was counted.",
        file="scheduling/actions.py",
        before="branches(ring) < self._options.max_branches",
        after="branches(ring) <= self._options.max_branches",
        killer=f"{_SCHEDULING}/test_schedule_branches.py"
        "::test_a_second_branch_waits_for_nobody_where_branches_are_at_their_bound",
    ),
    EngineFault(
        name="flight-bound-is-inclusive",
        rule="scheduling.in-flight-bound",
        story="One verification more than allowed in flight.",
        file="scheduling/actions.py",
        before="in_flight(ring) < self._options.max_in_flight",
        after="in_flight(ring) <= self._options.max_in_flight",
        killer=f"{_SCHEDULING}/test_schedule_fairness.py::test_bounds_are_reached_when_there_is_work_for_them",
    ),
    EngineFault(
        name="any-edge-is-taken",
        rule="scheduling.phase-edges",
        story="The phase is assigned without asking whether the life cycle has the edge.",
        file="scheduling/phase.py",
        before="if target not in EDGES[source]:",
        after="if source in TERMINAL:",
        killer=f"{_SCHEDULING}/test_schedule_phase.py::test_every_pair_of_phases_is_an_edge_or_an_error_naming_both",
    ),
    EngineFault(
        name="stall-is-silent",
        rule="scheduling.every-request-ends",
        story="A turn in which nobody can act returns, and the caller's loop spins for ever.",
        file="scheduling/scheduler.py",
        before="        if self._ring:\n            # rule: scheduling.every-request-ends\n",
        after="        if not self._ring:\n            # rule: scheduling.every-request-ends\n",
        killer=f"{_SCHEDULING}/test_schedule_fairness.py::test_a_schedule_in_which_nobody_can_act_is_an_error_naming_the_living",
    ),
    EngineFault(
        name="cancellation-waits-for-a-turn",
        rule="cancellation.nothing-submitted-at-once",
        story="Cancellation is only noted, and a request that nobody turns any more lives on.",
        file="scheduling/scheduler.py",
        before="self._cancelling = True\n        self._settle()\n",
        after="self._cancelling = True\n",
        killer=f"{_SCHEDULING}/test_schedule_cancel.py::test_cancelled_between_turns",
    ),
    EngineFault(
        name="cancelled-flight-is-not-rolled-back",
        rule="cancellation.submitted-waits",
        story="A cancelled request is closed while its verification still writes into the cache.",
        file="scheduling/scheduler.py",
        before="if phase in SUBMITTED and current is not None",
        after="if phase not in SUBMITTED and current is not None",
        killer=f"{_SCHEDULING}/test_schedule_cancel.py::test_cancelled_between_turns",
    ),
    EngineFault(
        name="installed-and-told-before-the-commit",
        rule="events.after-commit",
        story="The request's state is installed and its tokens queued as soon as they are known, the cache last.",
        file="scheduling/actions.py",
        before="        promoted = self._executor.commit(record.sequence, resolution.plan, current.branch)\n"
        "        check_promotion(resolution.plan, promoted)\n"
        "        self._trace.commit(record, resolution.plan.kept)\n"
        "        return self._install(record, resolution, promoted)\n",
        after="        finish = self._install(record, resolution, None)\n"
        "        promoted = self._executor.commit(record.sequence, resolution.plan, current.branch)\n"
        "        self._trace.commit(record, resolution.plan.kept)\n"
        "        if record.round is not None:\n"
        "            record.round.block = promoted\n"
        "        return finish\n",
        killer=_TRACE,
        kind=Kind.TRACE,
    ),
    EngineFault(
        name="cancelled-round-keeps-a-row",
        rule="cancellation.leaves-no-trace",
        story="The leading token of a cancelled round stays in the cache, and is fed again by whoever resumes.",
        file="scheduling/scheduler.py",
        before="CommitPlan(kept=0, tokens=())",
        after="CommitPlan(kept=1, tokens=())",
        killer=f"{_SCHEDULING}/test_schedule_cancel.py::test_cancelled_between_turns",
        kind=Kind.STATEFUL,
    ),
    EngineFault(
        name="output-grows-where-it-is-resolved",
        rule="commit.on-copies",
        story="The output grows where it is resolved, and a commit that raises leaves tokens that no cache holds.",
        file="scheduling/actions.py",
        before="        self._trace.resolve(record, outcome, resolution)\n",
        after="        record.output.extend(resolution.walk.emitted)\n"
        "        self._trace.resolve(record, outcome, resolution)\n",
        killer=_TRACE,
    ),
)

_LOOKAHEAD = (
    EngineFault(
        name="clip-forgets-the-target-s-token",
        rule="draft.clip",
        story="A block fills the budget, and the token that the target adds finds no room.",
        file="scheduling/clipping.py",
        before="ClipReason.BUDGET: remaining - 1",
        after="ClipReason.BUDGET: remaining",
        killer=f"{_SCHEDULING}/test_schedule_clipping.py::test_the_tightest_limit_binds_and_ties_name_the_first",
        kind=Kind.STATEFUL,
    ),
    EngineFault(
        name="switch-forgives-one-loss",
        rule="adaptive.disable-when-unpaid",
        story="One discarded token more than was reused still counts as paid.",
        file="scheduling/lookahead.py",
        before="after.discarded <= after.reused",
        after="after.discarded <= after.reused + 1",
        killer=f"{_SCHEDULING}/test_schedule_lookahead.py::test_a_window_pays_while_planned_discards_do_not_outnumber_reuses",
    ),
    EngineFault(
        name="branch-plans-past-the-budget",
        rule="lookahead.planned-length",
        story="The plan forgets that the bonus uses a token of the budget too.",
        file="scheduling/lookahead.py",
        before="committed + depth + 1, remaining - depth - 1)",
        after="committed + depth + 1, remaining - depth)",
        killer=_TRACE,
    ),
    EngineFault(
        name="branch-behind-a-finished-grammar",
        rule="constraints.drafting-stops-at-completion",
        story="A branch is started behind a block that completes the grammar.",
        file="scheduling/actions.py",
        before="not record.adaptive.enabled or block.at_grammar_end:",
        after="not record.adaptive.enabled:",
        killer=_TRACE,
    ),
    EngineFault(
        name="promotion-forgets-the-guess",
        rule="promotion.consume-one-reuse-the-rest",
        story="All of a promoted branch is reused, the guess too, which was emitted as the bonus already.",
        file="scheduling/lookahead.py",
        before="min(drafted - 1, next_depth)",
        after="min(drafted, next_depth)",
        killer=f"{_SCHEDULING}/test_schedule_lookahead.py::test_a_branch_lives_only_on_its_own_guess",
    ),
    EngineFault(
        name="switch-comes-back",
        rule="adaptive.disable-when-unpaid",
        story="A window that pays turns lookahead on again.",
        file="scheduling/lookahead.py",
        before="enabled=self.enabled and pays",
        after="enabled=pays",
        killer=f"{_SCHEDULING}/test_schedule_lookahead.py::test_a_disabled_switch_stays_disabled",
    ),
    EngineFault(
        name="switch-counts-drafted-tokens",
        rule="adaptive.planned-not-drawn",
        story="The switch counts what was drafted, which a discarded token shortened, in place of what was planned.",
        file="scheduling/lookahead.py",
        before="self.discarded + planned - used",
        after="self.discarded + branch.drafted - used",
        killer=f"{_SCHEDULING}/test_schedule_lookahead.py::test_only_planned_lengths_count_against_a_dropped_branch",
    ),
)

_DECISIONS = (
    EngineFault(
        name="eos-before-stop",
        rule="terminal.order",
        story="End-of-sequence ids are looked at first, as most sampling loops do.",
        file="terminal.py",
        before="        if stops.matched or cut:\n            return after, FinishReason.STOP\n",
        after="        if token in self.eos_ids:\n            return after, FinishReason.EOS\n"
        "        if stops.matched or cut:\n            return after, FinishReason.STOP\n",
        killer=f"{_SCHEDULING}/test_core_terminal.py::test_the_first_reason_in_order_names_the_end",
    ),
    EngineFault(
        name="accepted-at-equality",
        rule="verify.rejection-below-ratio",
        story="A coin of 0 accepts a proposal that the target excludes.",
        file="mlx/acceptance.py",
        before="coins(coin_keys) * q_drawn < p_drawn",
        after="coins(coin_keys) * q_drawn <= p_drawn",
        killer=f"{_MLX}/test_mlx_acceptance.py::test_a_p_of_zero_is_not_accepted_by_coin_zero",
    ),
    EngineFault(
        name="q-left-out-of-the-ratio",
        rule="verify.rejection-below-ratio",
        story="The coin is compared with p alone.",
        file="mlx/acceptance.py",
        before="coins(coin_keys) * q_drawn < p_drawn",
        after="coins(coin_keys) < p_drawn",
        killer=f"{_MLX}/test_mlx_acceptance.py::test_the_exact_law_of_one_round",
        kind=Kind.LAW,
    ),
    EngineFault(
        name="block-weights-unbounded",
        rule="verify.block-longest-length",
        story="Weights are products of plain ratios, and one proposal that p favours pays for the next.",
        file="mlx/acceptance.py",
        before="mx.minimum(1.0, weights[-1] * ratios[index])",
        after="weights[-1] * ratios[index]",
        killer=f"{_MLX}/test_mlx_acceptance.py::test_the_exact_law_of_one_round",
    ),
    EngineFault(
        name="replaced-from-the-target",
        rule="verify.residual-positive-part",
        story="The replacement is drawn from p, which gives the proposals' mass twice.",
        file="mlx/acceptance.py",
        before="residual = _excess(_log_softmax(target_scores[row]), _log_softmax(draft_scores[row]))",
        after="residual = mx.exp(_log_softmax(target_scores[row]))",
        killer=f"{_MLX}/test_mlx_acceptance.py::test_the_exact_law_of_one_round",
        kind=Kind.LAW,
    ),
    EngineFault(
        name="replacement-reuses-the-proposal-s-key",
        rule="randomness.roles-disjoint",
        story="The replacement reads the words that its proposal was drawn with.",
        file="contract/addresses.py",
        before="randomness.key(Role.RESIDUAL, position + index)",
        after="randomness.key(Role.DRAFT, position + index)",
        killer=f"{_ENGINE}/test_engine_sampling.py::test_sampled_tokens_are_those_of_a_float64_replay",
        kind=Kind.PATH,
    ),
    EngineFault(
        name="block-coins-numbered-by-position",
        rule="randomness.by-round",
        story="Block verification's coins are addressed by position, and meet the next round with a known past.",
        file="contract/addresses.py",
        before="return [randomness.key(Role.ACCEPT, position, index) for index in range(count)]",
        after="return [randomness.key(Role.ACCEPT, position + index) for index in range(count)]",
        killer=f"{_ENGINE}/test_engine_sampling.py::test_sampled_tokens_are_those_of_a_float64_replay",
    ),
    EngineFault(
        name="mask-of-the-first-row-for-all",
        rule="constraints.mask-on-every-row",
        story="The grammar's mask at the committed output is used for every row of the block.",
        file="engine/verification.py",
        before="mask_rows(block.constraints) if block.constraints",
        after="mask_rows(block.constraints[:1]) if block.constraints",
        killer=f"{_ENGINE}/test_engine_constraint.py::test_grammars_give_the_plain_tokens_and_end_with_them",
        kind=Kind.PATH,
    ),
    EngineFault(
        name="penalties-miss-the-proposals-in-front",
        rule="verify.rows-see-prefix",
        story="Every row of a block is penalised by the committed history alone.",
        file="mlx/history.py",
        before="        self._rows = rows\n",
        after="        self._rows = range(0) if not rows else [rows[0]] * len(rows)\n",
        killer=f"{_MLX}/test_mlx_rows.py::test_rows_are_the_float64_rows",
    ),
)

_DEVICE = (
    EngineFault(
        name="rollback-trims-one-too-many",
        rule="rollback.exact-length",
        story="The row of the last emitted token's predecessor goes with the rejected ones.",
        file="engine/executor.py",
        before="sequence.target.rollback(cached + plan.kept + ",
        after="sequence.target.rollback(cached + max(0, plan.kept - 1) + ",
        killer=f"{_ENGINE}/test_engine_path.py::test_200_tokens_are_the_plain_ones_with_rejections_at_every_index",
    ),
    EngineFault(
        name="rollback-keeps-one-too-many",
        rule="rollback.exact-length",
        story="The first rejected row stays, under the row of the token that replaced it.",
        file="engine/executor.py",
        before="sequence.target.rollback(cached + plan.kept + (sequence.ahead is not None))",
        after="sequence.target.rollback(min(sequence.target.length, cached + plan.kept + 1))",
        killer=f"{_ENGINE}/test_engine_path.py::test_200_tokens_are_the_plain_ones_with_rejections_at_every_index",
        kind=Kind.STATE,
    ),
    EngineFault(
        name="prefill-feeds-the-last-token",
        rule="commit.leading-token-uncached",
        story="The whole prompt is fed, and its last token fed again by the first verification.",
        file="engine/executor.py",
        before="wanted = len(sequence.request.prompt) - 1\n",
        after="wanted = len(sequence.request.prompt)\n",
        killer=f"{_ENGINE}/test_engine_path.py::test_the_shortest_prompts_work",
    ),
    EngineFault(
        name="rejected-rows-stay-in-the-assistant",
        rule="rollback.drafter-follows",
        story="The assistant's cache is not rolled back behind a rejection, and drafts at a false history.",
        file="drafters/assistant.py",
        before="kept = boundary if plan.promoted is None",
        after="kept = boundary + 2 if plan.promoted is None",
        killer=f"{_ENGINE}/test_engine_sampling.py::test_sampled_tokens_are_those_of_a_float64_replay",
        kind=Kind.STATE,
    ),
    EngineFault(
        name="plain-decoding-in-place-of-a-refusal",
        rule="capability.no-silent-fallback",
        story="Where there is no drafter the call decodes plainly, and nobody notices but the bill.",
        file="loaded.py",
        before="        if not capability.is_ready:\n",
        after="        if not capability.is_ready:\n"
        "            return self.generate_prepared_chat(requests, seed=seed, schedule=schedule, sink=sink)\n"
        "        if not capability.is_ready:\n",
        killer=f"{_ENGINE}/test_engine_limits.py::test_there_is_no_speculation_without_a_drafter",
    ),
    EngineFault(
        name="second-device-has-its-own-counter",
        rule="placement.changes-no-token",
        story="Where the assistant runs on a device of its own, draws are numbered for that device.",
        file="engine/verification.py",
        before="final = key_rows(final_keys(randomness, position, count))",
        after="final = key_rows(final_keys(randomness, position + (self._placement.kind == 'two-devices'), count))",
        killer=f"{_ENGINE}/test_engine_path.py::test_placement_changes_no_token",
    ),
    EngineFault(
        name="trace-tells-the-cache-of-the-plan",
        rule="commit.one-number",
        story="The trace tells the length that the cache had while the verification was in flight.",
        file="scheduling/trace.py",
        before='"cache_length": record.committed - 1 + kept}',
        after='"cache_length": record.committed + kept}',
        killer=_TRACE,
        kind=Kind.TRACE,
    ),
)

ENGINE_FAULTS: tuple[EngineFault, ...] = (*_SCHEDULE, *_LOOKAHEAD, *_DECISIONS, *_DEVICE)
"""Every fault that is planted in eredu."""
