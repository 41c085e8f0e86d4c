"""Faults of the addresses: one number decides two things, or a thing is decided by another number than its own."""

from __future__ import annotations

from eredu_conformance.faults.fault import Fault
from eredu_reference import AcceptanceRule
from eredu_reference.addresses import coin_address, proposal_address, replacement_address, target_address
from eredu_reference.sources import Address, Role


def _draft_by_position(rule: AcceptanceRule, start: int, index: int) -> Address:
    if rule is AcceptanceRule.BLOCK:
        return Address(Role.DRAFT, start + index)
    return proposal_address(rule, start, index)


def _number_lost(rule: AcceptanceRule, start: int, index: int) -> Address:
    address = proposal_address(rule, start, index)
    return Address(address.role, address.position)


def _bonus_one_late(rule: AcceptanceRule, position: int) -> Address:
    address = target_address(rule, position)
    return address if rule is AcceptanceRule.COUPLED else Address(address.role, position // 2)


def _own_noise(rule: AcceptanceRule, start: int, index: int) -> Address:
    if rule is AcceptanceRule.COUPLED:
        return Address(Role.DRAFT, start + index)
    return proposal_address(rule, start, index)


def _noise_shared_by_two(rule: AcceptanceRule, position: int) -> Address:
    return target_address(rule, position - position % 2 if rule is AcceptanceRule.COUPLED else position)


FAULTS = (
    Fault(
        name="coin-is-draft-noise",
        rule="randomness.roles-disjoint",
        source="vllm-project/vllm 54282",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="One call fills the noise for the draft and the coin that judges it, so likely drafts meet"
        " lenient coins.",
        replace={"coin_address": proposal_address},
    ),
    Fault(
        name="replacement-is-draft-noise",
        rule="randomness.roles-disjoint",
        source="vllm-project/vllm 54282",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="The noise that chose the rejected proposal chooses its replacement.",
        replace={"replacement_address": lambda rule, position: proposal_address(rule, position, 0)},
    ),
    Fault(
        name="replacement-is-coin",
        rule="randomness.roles-disjoint",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="The coin that rejected is known to be large, and then it draws the replacement.",
        replace={"replacement_address": lambda rule, position: coin_address(rule, position, 0)},
    ),
    Fault(
        name="replacement-shares-the-target-role",
        rule="randomness.roles-disjoint",
        killed_by="path.equals-reference/table-near/rejection/k3",
        story="Replacements and bonuses read one role. No law can show it, as long as each position has only"
        " one of them.",
        replace={"replacement_address": target_address},
    ),
    Fault(
        name="one-coin-a-block",
        rule="randomness.by-position",
        source="vllm-project/vllm 54282",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="One uniform is drawn for a block and compared at every position of it.",
        replace={"coin_address": lambda rule, start, *_: coin_address(rule, start, 0)},
    ),
    Fault(
        name="coins-numbered-within-the-round",
        rule="randomness.by-position",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="The address counts from the start of the round, so every round meets the first round's coins again.",
        replace={"coin_address": lambda rule, _start, index: coin_address(rule, 0, index)},
    ),
    Fault(
        name="drafts-numbered-within-the-round",
        rule="randomness.by-position",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="Every round draws its proposals with the same noise.",
        replace={"proposal_address": lambda rule, _start, index: proposal_address(rule, 0, index)},
    ),
    Fault(
        name="replacements-share-one-number",
        rule="randomness.address-once",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="All replacements of a request are drawn with one number: each alone is right, two together are not.",
        replace={"replacement_address": lambda rule, *_: replacement_address(rule, 0)},
    ),
    Fault(
        name="block-proposals-by-position",
        rule="randomness.by-round",
        killed_by="law.exact/law-order-2/t1/block/k2/t3",
        story="Block verification looks at proposals behind the length it accepts; addressed by position, the next"
        " round draws them again with noise whose past is known.",
        replace={"proposal_address": _draft_by_position},
    ),
    Fault(
        name="block-coins-by-position",
        rule="randomness.by-round",
        killed_by="law.exact/law-order-2/t1/block/k2/t3",
        story="A coin behind the accepted length was seen to reject, and the next round reads it as if it were fresh.",
        replace={"coin_address": lambda _rule, start, index: Address(Role.ACCEPT, start + index)},
    ),
    Fault(
        name="number-lost-from-the-address",
        rule="randomness.address-to-key",
        killed_by="law.exact/law-order-2/t1/block/k2/t3",
        story="The number inside the round never reaches the key, and all proposals of a block share their noise.",
        replace={"proposal_address": _number_lost},
    ),
    Fault(
        name="bonus-is-draft-noise",
        rule="randomness.roles-disjoint",
        killed_by="path.equals-reference/table-near/block/k3",
        story="The bonus is drawn at the address of a proposal. It changes the law only where a branch read it before.",
        replace={"target_address": lambda rule, position: proposal_address(rule, position, 0)},
    ),
    Fault(
        name="bonuses-share-numbers-in-pairs",
        rule="randomness.address-once",
        killed_by="law.exact/law-order-2/t1/rejection/k1/t4",
        story="A position is halved on its way to the address, and neighbouring tokens of the target are correlated.",
        replace={"target_address": _bonus_one_late},
    ),
    Fault(
        name="guess-reads-the-bonus-noise",
        rule="randomness.roles-disjoint",
        killed_by="state.statistics-equal-reference/table-equal/block/lookahead",
        story="The branch guesses the bonus with the bonus's own number. The law stays, promotions look better"
        " than they are, and the number is no longer secret when the target uses it.",
        replace={"guess_address": lambda rule, start, count: target_address(rule, start + count)},
    ),
    Fault(
        name="coupled-drafter-with-noise-of-its-own",
        rule="randomness.shared-noise",
        killed_by="state.statistics-equal-reference/table-equal/coupled/adaptive",
        story="Output stays right and acceptance quietly falls to that of independent draws.",
        replace={"proposal_address": _own_noise},
    ),
    Fault(
        name="coupled-noise-for-two-positions",
        rule="verify.coupled-shared-vector",
        killed_by="path.equals-reference/table/coupled/k3",
        story="Two neighbouring positions share one noise vector.",
        replace={"target_address": _noise_shared_by_two},
    ),
    Fault(
        name="greedy-reads-randomness",
        rule="randomness.greedy-reads-none",
        killed_by="scripted.greedy-reads-nothing",
        story="Temperature 0 runs the stochastic rule on one-hot rows: the same tokens, but a stream that has moved.",
        replace={"choose_rule": lambda request: request.acceptance},
    ),
)
