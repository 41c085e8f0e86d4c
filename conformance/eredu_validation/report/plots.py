"""Plots of a result as inline SVG. matplotlib comes with the extra `report` and is imported here alone, when asked."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

from eredu.contract.errors import OptionError

INK, MUTED, ALARM = "#1f4e79", "#8a97a6", "#b3261e"
SIZE_IN = (7.2, 3.2)
"""Width and height of a plot, inches."""


def require_plots() -> None:
    """Raise `OptionError` where matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise OptionError(
            "--html draws with matplotlib, which is not installed; install it: pip install 'eredu[report]'"
        )


def plots_of(result: Mapping[str, Any]) -> dict[str, str]:
    """Every plot for which there are numbers, by its name, as SVG text."""
    law, parts = result["law"], result["parts"]
    numerics, benefit = parts.get("numerics"), parts.get("benefit")
    moved = numerics is not None and any(any(each["noises"]) for each in numerics["differences"])
    wanted: dict[str, tuple[bool, Callable[[Any], None]]] = {
        "path": (bool(law["path"]), lambda axes: _draw_path(axes, law)),
        "transforms": (True, lambda axes: _draw_transforms(axes, law)),
        "acceptance": (benefit is not None, lambda axes: _draw_acceptance(axes, benefit)),
        "noise": (moved, lambda axes: _draw_noise(axes, numerics)),
        "margins": (numerics is not None and not moved, lambda axes: _draw_margins(axes, numerics)),
        "costs": (benefit is not None, lambda axes: _draw_costs(axes, benefit)),
    }
    return {
        name: _svg(name, draw, columns=2 if name == "transforms" else 1) for name, (has, draw) in wanted.items() if has
    }


def _svg(name: str, draw: Callable[[Any], None], *, columns: int) -> str:
    """One plot. No display, no state that other code sees, no date, and ids that are the same for the same numbers."""
    require_plots()
    import matplotlib as mpl  # noqa: PLC0415 (an extra)
    from matplotlib.figure import Figure  # noqa: PLC0415

    settings = {"svg.hashsalt": name, "svg.fonttype": "none", "font.family": "sans-serif"}
    with mpl.rc_context({**settings, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=SIZE_IN, layout="constrained")
        axes = figure.subplots(1, columns)
        draw(axes)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


def _draw_path(axes: Any, law: Mapping[str, Any]) -> None:
    points = [(tokens, log_e) for tokens, log_e in law["path"] if log_e is not None]
    tens = [log_e / math.log(10) for _, log_e in points]
    threshold = -math.log10(law["terms"]["alpha"])
    axes.plot([0, *(tokens for tokens, _ in points)], [0.0, *tens], color=INK, label="evidence against the subject")
    axes.axhline(threshold, color=ALARM, linestyle="--", label="a deviation is reported here")
    axes.set_ylim(min([-1.0, *tens]) - 0.5, max([threshold, *tens]) + 1)
    axes.set_xlim(left=0)
    axes.set_xlabel("tokens taken")
    axes.set_ylabel("evidence, power of ten")
    axes.legend(frameon=False, loc="center right")


def _draw_transforms(axes: Any, law: Mapping[str, Any]) -> None:
    for panel, (order, cells) in zip(axes, law["transforms"].items(), strict=True):
        merged = [sum(cells[first : first + 4]) for first in range(0, len(cells), 4)]
        total, count = max(1, sum(merged)), len(merged)
        centres = [(index + 0.5) / count for index in range(count)]
        spread = 2 * math.sqrt((count - 1) / total)
        panel.axhspan(max(0, 1 - spread), 1 + spread, color=MUTED, alpha=0.35, linewidth=0, zorder=3)
        panel.bar(centres, [cell * count / total for cell in merged], width=0.9 / count, color=INK, alpha=0.75)
        panel.axhline(1, color="black", linewidth=1, zorder=4)
        panel.set_title(f"vocabulary ordered by {order}", fontsize=10)
        panel.set_xlabel("U")
    axes[0].set_ylabel("tokens, over the expected")


def _draw_acceptance(axes: Any, benefit: Mapping[str, Any]) -> None:
    places = range(1, len(benefit["acceptance"]) + 1)
    bars = axes.bar(places, benefit["acceptance"], color=INK, width=0.7)
    axes.bar_label(bars, [f"{share:.0%}" for share in benefit["acceptance"]])
    axes.set_xticks(list(places))
    axes.set_ylim(0, 1)
    axes.set_xlabel("place of the proposal in its block")
    axes.set_ylabel("share that becomes output")


def _draw_noise(axes: Any, numerics: Mapping[str, Any]) -> None:
    """Rows that did not move at all stand at the left edge, a decade below the least that moved."""
    moves = [noise for each in numerics["differences"] for noise in each["noises"] if noise > 0]
    floor, least = min(moves) / 10, min(moves) / 1e3
    for each in numerics["differences"]:
        noises = [max(floor, noise) for noise in each["noises"]]
        axes.scatter(noises, [max(least, m) for m in each["margins"]], s=12, alpha=0.6, label=each["name"])
    edge = [floor, max(moves) * 2]
    axes.plot(edge, [2 * value for value in edge], color=ALARM, linestyle="--", label="below: the best id may change")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("largest move of a logit in the row (leftmost: none)")
    axes.set_ylabel("best logit over the second")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _draw_margins(axes: Any, numerics: Mapping[str, Any]) -> None:
    margins = numerics["differences"][0]["margins"]
    axes.hist([margin for margin in margins if math.isfinite(margin)], bins=20, color=INK)
    axes.set_xlim(left=0)
    axes.set_xlabel("best logit over the second")
    axes.set_ylabel("rows")


def _draw_costs(axes: Any, benefit: Mapping[str, Any]) -> None:
    curve, best = benefit["curve"], benefit["recommended"]
    speeds = {point["proposals"]: point["speed"] for point in curve}
    axes.plot(list(speeds), list(speeds.values()), color=INK, marker="o", label="by what rounds cost")
    axes.axhline(1, color=MUTED, label="plain decoding")
    said = "recommended: plain decoding" if best == 0 else f"recommended: K = {best}"
    axes.plot(
        [best], [speeds[best]], color=ALARM, marker="o", markersize=13, fillstyle="none", linestyle="", label=said
    )
    asked = benefit["asked"]
    axes.plot([asked], [benefit["speed"]], color=ALARM, marker="x", linestyle="", label=f"measured, K = {asked}")
    axes.set_xticks(list(speeds))
    axes.set_ylim(0, 1.12 * max(1, benefit["speed"], *speeds.values()))
    axes.set_xlabel("K, proposals a round")
    axes.set_ylabel("speed over plain decoding")
    axes.legend(frameon=False, fontsize=8, loc="lower left")
