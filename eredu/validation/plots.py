"""Plots of a result as inline SVG. matplotlib comes with the extra `report` and is imported here alone, when asked."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

from eredu.errors import OptionError

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
    wanted: dict[str, tuple[bool, Callable[[Any], None]]] = {
        "path": (bool(law["path"]), lambda axes: _draw_path(axes, law)),
        "transforms": (True, lambda axes: _draw_transforms(axes, law)),
        "acceptance": ("benefit" in parts, lambda axes: _draw_acceptance(axes, parts["benefit"])),
        "noise": ("numerics" in parts, lambda axes: _draw_noise(axes, parts["numerics"])),
        "costs": ("benefit" in parts, lambda axes: _draw_costs(axes, parts["benefit"])),
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
    axes.set_xlabel("tokens")
    axes.set_ylabel("log10 of the e-value")
    axes.legend(frameon=False)


def _draw_transforms(axes: Any, law: Mapping[str, Any]) -> None:
    for panel, (order, cells) in zip(axes, law["transforms"].items(), strict=True):
        merged = [sum(cells[first : first + 4]) for first in range(0, len(cells), 4)]
        total, count = max(1, sum(merged)), len(merged)
        centres = [(index + 0.5) / count for index in range(count)]
        panel.bar(centres, [cell * count / total for cell in merged], width=0.95 / count, color=INK)
        spread = 2 * math.sqrt((count - 1) / total)
        panel.axhspan(max(0, 1 - spread), 1 + spread, color=MUTED, alpha=0.3, linewidth=0)
        panel.axhline(1, color=MUTED)
        panel.set_title(f"ids in the order of {order}", fontsize=10)
        panel.set_xlabel("U")
    axes[0].set_ylabel("density")


def _draw_acceptance(axes: Any, benefit: Mapping[str, Any]) -> None:
    places = range(1, len(benefit["acceptance"]) + 1)
    axes.bar(places, benefit["acceptance"], color=INK, width=0.7)
    axes.set_xticks(list(places))
    axes.set_ylim(0, 1)
    axes.set_xlabel("place in the block")
    axes.set_ylabel("proposals that become output")


def _draw_noise(axes: Any, numerics: Mapping[str, Any]) -> None:
    floor = 1e-9
    for each in numerics["differences"]:
        noises = [max(floor, noise) for noise in each["noises"]]
        axes.scatter(noises, [max(floor, m) for m in each["margins"]], s=12, alpha=0.6, label=each["name"])
    low, high = axes.get_xlim()
    edge = [max(floor, low), max(high, floor * 10)]
    axes.plot(edge, [2 * value for value in edge], color=ALARM, linestyle="--", label="below: the best id may change")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("largest move of a logit in the row (none is drawn at 1e-9)")
    axes.set_ylabel("best logit over the second")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _draw_costs(axes: Any, benefit: Mapping[str, Any]) -> None:
    curve = benefit["curve"]
    axes.plot([p["proposals"] for p in curve], [p["speed"] for p in curve], color=INK, marker="o", label="by costs")
    axes.axhline(1, color=MUTED, label="plain decoding")
    axes.axvline(benefit["recommended"], color=ALARM, linestyle="--", label="recommended")
    axes.set_xticks([point["proposals"] for point in curve])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("K, proposals a round")
    axes.set_ylabel("speed over plain decoding")
    axes.legend(frameon=False)
