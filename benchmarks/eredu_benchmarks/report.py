"""A whole benchmark as one JSON object, and as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from eredu_benchmarks.alignment import Alignment
from eredu_benchmarks.clustered import Estimate
from eredu_benchmarks.summary import SettingSummary, Spread, TimeShares


@dataclass(frozen=True)
class TemperatureReport:
    """The settings compared at one temperature."""

    temperature: float
    settings: tuple[SettingSummary, ...]

    def to_json(self) -> dict[str, Any]:
        """All of it by name."""
        return {"temperature": self.temperature, "settings": [each.to_json() for each in self.settings]}


@dataclass(frozen=True)
class BenchmarkReport:
    """One benchmark.

    Attributes:
        head: What was measured on what: models, prompts, options, versions, machine.
        temperatures: The comparisons.
        alignments: Teacher-forced acceptance, where chats were given.
    """

    head: dict[str, Any]
    temperatures: tuple[TemperatureReport, ...]
    alignments: tuple[Alignment, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The stable form."""
        return {
            **self.head,
            "temperatures": [each.to_json() for each in self.temperatures],
            "alignment": [each.to_json() for each in self.alignments],
        }

    def print(self, console: Console) -> None:
        """Print tables: speed, acceptance by position, lookahead and time, alignment."""
        for each in self.temperatures:
            title = f"Temperature {each.temperature:g}" + (" (greedy)" if each.temperature == 0 else "")
            console.print(_speed_table(title, each.settings))
            drafting = [summary for summary in each.settings if summary.acceptance is not None]
            if drafting:
                console.print(_acceptance_table(drafting))
                console.print(_lookahead_table(drafting))
        if self.alignments:
            console.print(_alignment_table(self.alignments))


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", padding=(0, 0))
    table.add_column(columns[0], no_wrap=True)
    for column in columns[1:]:
        table.add_column(column, justify="right")
    return table


def _speed_table(title: str, settings: Sequence[SettingSummary]) -> Table:
    table = _table(title, "setting", "tokens/s", "x plain", "low-high", "x off", "low-high", "first", "=plain", "=off")
    for each in settings:
        table.add_row(
            each.setting.name,
            f"{each.tokens_per_s.median:.1f}",
            *_spread(each.ratio_to_plain),
            *(("", "") if each.ratio_to_reference is None else _spread(each.ratio_to_reference)),
            f"{each.first_round_s:.3f} s",
            f"{each.equal_to_plain}/{each.runs}",
            f"{each.equal_to_reference}/{each.runs}" if each.setting.lookahead else "",
        )
    return table


def _acceptance_table(settings: Sequence[SettingSummary]) -> Table:
    table = _table("Acceptance", "setting", "by position, given all before", "tokens a round", "implied", "uncut")
    for each in settings:
        if each.acceptance is not None:
            table.add_row(
                each.setting.name,
                " ".join(f"{chance:.3f}" for chance in each.acceptance.conditional),
                f"{each.acceptance.tokens_per_round:.3f}",
                f"{each.acceptance.implied_tokens_per_round:.3f}",
                f"{each.acceptance.unhurried_tokens_per_round:.3f}",
            )
    return table


def _lookahead_table(settings: Sequence[SettingSummary]) -> Table:
    title = "Lookahead, and the host's time"
    table = _table(title, "setting", "branches", "promoted", "reused", "dropped", "off", "drafting", "waiting")
    for each in settings:
        if each.statistics is not None:
            statistics, shares = each.statistics, TimeShares.of(each.statistics)
            table.add_row(
                each.setting.name,
                *(
                    str(count)
                    for count in (
                        statistics.lookahead_blocks,
                        statistics.lookahead_promoted,
                        statistics.lookahead_reused,
                    )
                ),
                str(statistics.lookahead_discarded),
                f"{statistics.lookahead_disabled}/{each.runs}",
                f"{shares.drafting:.0%}",
                f"{shares.waiting:.0%}",
            )
    return table


def _alignment_table(alignments: Sequence[Alignment]) -> Table:
    columns = ("T", "chats", "rows", "accept 1, 2, 3, 4", "chain 1, 2, 3, 4", "E")
    wired = any(each.wiring is not None for each in alignments)
    table = _table("Teacher-forced on held-out chats", *(["wiring"] if wired else []), *columns)
    for each in alignments:
        table.add_row(
            *([each.wiring or ""] if wired else []),
            f"{each.temperature:g}",
            str(each.accept.clusters),
            str(each.accept.rows),
            " ".join(_estimate(accept) for accept in (each.accepts if wired else each.accepts[:1])),
            " ".join(_estimate(link) for link in each.chain),
            f"{each.expected_tokens:.2f}",
        )
    return table


def _spread(spread: Spread) -> tuple[str, str]:
    return f"{spread.median:.2f}", f"{spread.low:.2f}-{spread.high:.2f}"


def _estimate(estimate: Estimate) -> str:
    return f"{estimate.mean:.3f}±{estimate.error:.3f}"
