"""The probe of `eredu inspect --probe`: loads a target with its heads, and shows how they follow it."""

from __future__ import annotations

from rich.table import Table

from eredu.checkpoints.opening import open_named
from eredu.contract.errors import OptionError
from eredu.engine.load import load_target
from eredu.engine.probe import HeadProbe, probe_heads, remember


def probe_named(name: str, head: str | None, *, dtype: str) -> HeadProbe:
    """Probe the heads of a target, its own or those in a directory, and remember what was found.

    Raises `OptionError` where there are none, and whatever loading them and `probe_heads` raise.
    """
    tokenizer = open_named(name).tokenizer
    backend = load_target(name, tokenizer=tokenizer, head=head, dtype=dtype, settle=False).backend
    if backend.target.heads is None:
        raise OptionError(f"{name} has no prediction heads to probe; name a directory of heads with --head")
    found = probe_heads(backend.target.heads, backend.target_model, tokenizer)
    remember(found, backend.target.heads, backend.target_model, tokenizer)
    return found


def probe_table(found: HeadProbe) -> Table:
    """Acceptance under each wiring, the best first."""
    title = f"Probe of the head: {found.rows} tokens, temperature 1"
    table = Table(title=title, title_justify="left")
    table.add_column("wiring")
    for depth in range(1, max(map(len, found.wirings.values())) + 1):
        table.add_column(f"accept {depth}", justify="right")
    table.add_column("")
    for name, accept in sorted(found.wirings.items(), key=lambda item: -sum(item[1])):
        marks = [mark for mark, which in (("best", found.chosen), ("stated", found.stated)) if which == name]
        table.add_row(name, *_figures(accept, len(table.columns) - 2), ", ".join(marks))
    for name, first in found.misreadings.items():
        table.add_row(name, *_figures((first,), len(table.columns) - 2), "as if misread")
    depths = " ".join(f"{accept:.3f}" for accept in found.depths)
    table.caption = f"by depth: {depths}; worth making: {found.usable} a round"
    table.caption_justify = "left"
    return table


def _figures(accept: tuple[float, ...], columns: int) -> list[str]:
    return [*(f"{value:.3f}" for value in accept), *[""] * (columns - len(accept))]
