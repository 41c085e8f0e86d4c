"""Faults of eredu's decisions over tokens: endings, acceptance on the device, addresses, masks and histories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import mlx.core as mx

from eredu.contract.addresses import coin_keys, final_keys
from eredu.contract.constraint import Constraint
from eredu.contract.options import AcceptanceRule
from eredu.contract.randomness import RequestRandomness, Words
from eredu.contract.terminal import FinishReason, TerminalWatch
from eredu.mlx.acceptance import reject, verify_block
from eredu.mlx.history import HistoryRows
from eredu.mlx.masks import mask_rows
from eredu_conformance.checks.check import Kind
from eredu_conformance.faults.engine.fault import EngineFault
from eredu_conformance.faults.engine.seam import Wrapped
from eredu_conformance.faults.engine.syntax import Rewritten

_ENGINE = "conformance/tests/engine"
_MLX = "conformance/tests/mlx"
_LAW = f"{_MLX}/test_mlx_acceptance.py::test_the_exact_law_of_one_round"
_REPLAY = f"{_ENGINE}/test_engine_sampling.py::test_sampled_tokens_are_those_of_a_float64_replay"

Q_LEFT_OUT = Rewritten(reject, "coins(K) * Q < P", "coins(K) < P")
"""The coin is compared with p alone."""
RESIDUAL_OF_THE_TARGET = Rewritten(reject, "_excess(P, Q)", "mx.exp(P)")
"""The replacement is drawn from p."""

_Advance = Callable[[TerminalWatch, int], tuple[TerminalWatch, FinishReason | None]]
_Coins = Callable[[RequestRandomness, AcceptanceRule, int, int], list[Words]]
_History = Callable[[HistoryRows, Sequence[int], Sequence[int], mx.array | None, range, int], None]


def _eos_first(right: _Advance, watch: TerminalWatch, token: int) -> tuple[TerminalWatch, FinishReason | None]:
    after, finish = right(watch, token)
    return after, FinishReason.EOS if token in watch.eos_ids else finish


def _by_position(
    right: _Coins, randomness: RequestRandomness, _rule: AcceptanceRule, position: int, count: int
) -> list[Words]:
    return right(randomness, AcceptanceRule.REJECTION, position, count)


def _first_mask(right: Callable[[list[Constraint]], mx.array], constraints: list[Constraint]) -> mx.array:
    return right(constraints[:1])


def _committed_alone(
    right: _History,
    history: HistoryRows,
    prompt: Sequence[int],
    output: Sequence[int],
    pending: mx.array | None,
    rows: range,
    vocabulary: int,
) -> None:
    right(history, prompt, output, pending, cast(range, [rows.start] * len(rows)), vocabulary)


FAULTS = (
    EngineFault(
        name="eos-before-stop",
        rule="terminal.order",
        story="End-of-sequence ids are looked at first, as most sampling loops do.",
        seam=Wrapped(TerminalWatch.advance, _eos_first),
        killer="conformance/tests/scheduling/test_core_terminal.py::test_the_first_reason_in_order_names_the_end",
    ),
    EngineFault(
        name="accepted-at-equality",
        rule="verify.rejection-below-ratio",
        story="A coin of 0 accepts a proposal that the target excludes.",
        seam=Rewritten(reject, "coins(K) * Q < P", "coins(K) * Q <= P"),
        killer=f"{_MLX}/test_mlx_acceptance.py::test_a_p_of_zero_is_not_accepted_by_coin_zero",
    ),
    EngineFault(
        name="q-left-out-of-the-ratio",
        rule="verify.rejection-below-ratio",
        story="The coin is compared with p alone.",
        seam=Q_LEFT_OUT,
        killer=_LAW,
        kind=Kind.LAW,
    ),
    EngineFault(
        name="block-weights-unbounded",
        rule="verify.block-longest-length",
        story="Weights are products of plain ratios, and one proposal that p favours pays for the next.",
        seam=Rewritten(verify_block, "mx.minimum(1.0, W)", "W"),
        killer=_LAW,
    ),
    EngineFault(
        name="replaced-from-the-target",
        rule="verify.residual-positive-part",
        story="The replacement is drawn from p, which gives the proposals' mass twice.",
        seam=RESIDUAL_OF_THE_TARGET,
        killer=_LAW,
        kind=Kind.LAW,
    ),
    EngineFault(
        name="replacement-reuses-the-proposal-s-key",
        rule="randomness.roles-disjoint",
        story="The replacement reads the words that its proposal was drawn with.",
        seam=Rewritten(final_keys, "Role.RESIDUAL", "Role.DRAFT"),
        killer=_REPLAY,
        kind=Kind.PATH,
    ),
    EngineFault(
        name="block-coins-numbered-by-position",
        rule="randomness.by-round",
        story="Block verification's coins are addressed by position, and meet the next round with a known past.",
        seam=Wrapped(coin_keys, _by_position),
        killer=_REPLAY,
    ),
    EngineFault(
        name="mask-of-the-first-row-for-all",
        rule="constraints.mask-on-every-row",
        story="The grammar's mask at the committed output is used for every row of the block.",
        seam=Wrapped(mask_rows, _first_mask),
        killer=f"{_ENGINE}/test_engine_constraint.py::test_grammars_give_the_plain_tokens_and_end_with_them",
        kind=Kind.PATH,
    ),
    EngineFault(
        name="penalties-miss-the-proposals-in-front",
        rule="verify.rows-see-prefix",
        story="Every row of a block is penalised by the committed history alone.",
        seam=Wrapped(HistoryRows.__init__, _committed_alone),
        killer=f"{_MLX}/test_mlx_rows.py::test_rows_are_the_float64_rows",
    ),
)
"""Faults of decisions over tokens."""
