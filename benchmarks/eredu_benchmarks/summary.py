"""Medians over repeats, and ratios taken inside each repeat."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from eredu.contract.statistics import RequestStatistics
from eredu_benchmarks.acceptance import AcceptanceProfile
from eredu_benchmarks.run import Run
from eredu_benchmarks.setting import PLAIN, Setting


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over repeats: its median, and the least and the greatest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Spread of at least one value."""
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class TimeShares:
    """Parts of the elapsed time, as the host saw it: drafting, waiting for verifications, and everything else."""

    drafting: float
    waiting: float
    other: float

    @classmethod
    def of(cls, statistics: RequestStatistics) -> TimeShares:
        """Shares of summed statistics."""
        drafting, waiting = statistics.drafting_s / statistics.elapsed_s, statistics.waiting_s / statistics.elapsed_s
        return cls(drafting, waiting, max(0.0, 1 - drafting - waiting))


@dataclass(frozen=True)
class SettingSummary:
    """Everything measured of one setting.

    Attributes:
        setting: Which.
        tokens_per_s: Output tokens a second behind the first round of each output.
        first_round_s: Seconds to the end of the first round, the prompt included; median over all runs.
        ratio_to_plain: Speed over eredu's plain decoding in the same repeat.
        ratio_to_reference: Speed over the same K with lookahead off in the same repeat; None without lookahead.
        tokens: Output tokens over all runs.
        equal_to_plain: Runs whose tokens are those of plain decoding of that prompt in that repeat.
        equal_to_reference: The same against lookahead off.
        runs: All runs.
        acceptance: What verifications did; None for plain decoding and peers.
        statistics: Sum of the requests' statistics; None for peers.
    """

    setting: Setting
    tokens_per_s: Spread
    first_round_s: float
    ratio_to_plain: Spread
    ratio_to_reference: Spread | None
    tokens: int
    equal_to_plain: int
    equal_to_reference: int
    runs: int
    acceptance: AcceptanceProfile | None
    statistics: RequestStatistics | None

    def to_json(self) -> dict[str, Any]:
        """All of it by name."""
        return {
            "name": self.setting.name,
            "engine": str(self.setting.engine),
            "proposals": self.setting.proposals,
            "lookahead": self.setting.lookahead,
            "tokens_per_s": asdict(self.tokens_per_s),
            "first_round_s": self.first_round_s,
            "ratio_to_plain": asdict(self.ratio_to_plain),
            "ratio_to_reference": None if self.ratio_to_reference is None else asdict(self.ratio_to_reference),
            "tokens": self.tokens,
            "runs": self.runs,
            "equal_to_plain": self.equal_to_plain,
            "equal_to_reference": self.equal_to_reference,
            "acceptance": None if self.acceptance is None else self.acceptance.to_json(),
            "time_shares": None if self.statistics is None else asdict(TimeShares.of(self.statistics)),
            "statistics": None if self.statistics is None else self.statistics.to_json(),
        }


def summarise(runs: Sequence[Run]) -> tuple[SettingSummary, ...]:
    """One summary a setting, in the order of their first runs by name of `settings`; plain must be among them."""
    by_setting: dict[Setting, list[Run]] = {}
    for run in runs:
        by_setting.setdefault(run.setting, []).append(run)
    return tuple(_summarise(setting, by_setting) for setting in by_setting)


def _summarise(setting: Setting, by_setting: dict[Setting, list[Run]]) -> SettingSummary:
    runs, plain, reference = by_setting[setting], by_setting[PLAIN], by_setting[setting.reference]
    rates = _rates(runs)
    told = [run.statistics for run in runs if run.statistics is not None]
    return SettingSummary(
        setting=setting,
        tokens_per_s=Spread.of(rates),
        first_round_s=statistics.median(run.timing.first_s for run in runs),
        ratio_to_plain=_ratios(rates, _rates(plain)),
        ratio_to_reference=_ratios(rates, _rates(reference)) if setting.lookahead else None,
        tokens=sum(len(run.tokens) for run in runs),
        equal_to_plain=_equal(runs, plain),
        equal_to_reference=_equal(runs, reference),
        runs=len(runs),
        acceptance=AcceptanceProfile.of(each for run in runs for each in run.rounds) if _speculates(runs) else None,
        statistics=RequestStatistics.total(told) if told else None,
    )


def _speculates(runs: Sequence[Run]) -> bool:
    return runs[0].setting.proposals > 0 and runs[0].statistics is not None


def _rates(runs: Sequence[Run]) -> list[float]:
    """Decoding speed in each repeat, over all prompts: tokens and seconds are summed first."""
    repeats = range(1 + max(run.repeat for run in runs))
    parts = [[run.timing for run in runs if run.repeat == repeat] for repeat in repeats]
    return [sum(t.decoding_tokens for t in part) / max(sum(t.decoding_s for t in part), 1e-9) for part in parts]


def _ratios(rates: Sequence[float], base: Sequence[float]) -> Spread:
    return Spread.of([mine / other if other else 0.0 for mine, other in zip(rates, base, strict=True)])


def _equal(runs: Sequence[Run], others: Sequence[Run]) -> int:
    outputs = {(run.prompt, run.repeat): run.tokens for run in others}
    return sum(run.tokens == outputs[run.prompt, run.repeat] for run in runs)
