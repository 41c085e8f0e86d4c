"""Scheduler and machine in lock-step, in every order of actions that Hypothesis can think of.

The profile says how many: `ci` draws the same programs every time, `nightly` new ones and many. Half of the profile's
number is enough here, for the quick tier, which every run asks too, has sixteen programs of each machine.
"""

from __future__ import annotations

from hypothesis import settings

from eredu_conformance.checks.stateful.machine import (
    CancellingMachine,
    FailingMachine,
    LockStepMachine,
    PlainMachine,
    UndisturbedMachine,
)

# rule: scheduling.phase-edges, scheduling.turn-uninterrupted, scheduling.ring, scheduling.in-flight-bound
# rule: lookahead.bounded, lookahead.while-in-flight, events.after-commit, events.one-publication-a-commit
# rule: cancellation.from-callback, statistics.committed-rounds-only, scheduling.every-request-ends
TestEverything = LockStepMachine.TestCase

# rule: cancellation.nothing-submitted-at-once, cancellation.submitted-waits, cancellation.leaves-no-trace
TestCancelling = CancellingMachine.TestCase

# rule: commit.failure-changes-nothing, commit.on-copies, commit.order
TestFailing = FailingMachine.TestCase

# rule: promotion.full-acceptance-and-equal-bonus, promotion.consume-one-reuse-the-rest, lookahead.drop-whole
# rule: lookahead.planned-length, lookahead.drafted-whole, adaptive.window, adaptive.disable-when-unpaid
# rule: rollback.exact-length, commit.one-number, draft.clip, constraints.drafting-stops-at-completion
# rule: commit.terminal-token-committed
# rule: statistics.lookahead-balance, statistics.proposals-balance, statistics.emitted-balance
TestUndisturbed = UndisturbedMachine.TestCase

# rule: draft.empty-block-is-plain, commit.leading-token-uncached, scheduling.prefill-in-chunks
TestPlain = PlainMachine.TestCase

for case in (TestEverything, TestCancelling, TestFailing, TestUndisturbed, TestPlain):
    case.settings = settings(case.settings, max_examples=case.settings.max_examples // 2)
del case  # pytest would take it for one more test
