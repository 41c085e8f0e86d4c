"""Commands that live outside the library: installed packages register them as entry points.

An entry point of the group `eredu.commands` names a function or a `typer.Typer`. Which there are is read from what is
installed; only the one that is asked for is imported, and all of them for the list in `eredu --help`.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from eredu.contract.errors import CommandError

GROUP = "eredu.commands"
"""Group of the entry points."""


class PluginGroup(TyperGroup):
    """The library's own commands, and behind them those that are installed beside it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._unread = {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in self.commands}
        for name in sorted(self._unread):
            self.add_command(TyperCommand(name))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name, imported where it was not yet; None where there is none."""
        entry = self._unread.pop(cmd_name, None)
        if entry is not None:
            self.add_command(command_of(entry))
        return super().get_command(ctx, cmd_name)


def command_of(entry: EntryPoint) -> Any:
    """The command that an entry point names; one that only says why, where it cannot be had."""
    holder = typer.Typer(add_completion=False, callback=lambda: None)
    try:
        found = entry.load()
        if isinstance(found, typer.Typer):
            holder.add_typer(found, name=entry.name)
        else:
            holder.command(entry.name)(found)
        group = get_command(holder)
    except Exception as error:  # whatever a module raises while it is imported
        return _unusable(entry, error)
    return group.commands[entry.name] if isinstance(group, TyperGroup) else group


def _unusable(entry: EntryPoint, error: Exception) -> TyperCommand:
    reason = f"{entry.value} cannot be imported: {type(error).__name__}: {error}"

    def refuse(**_: object) -> NoReturn:
        raise CommandError(f"the command '{entry.name}' is installed, but {reason}; install its package again")

    return TyperCommand(
        entry.name,
        callback=refuse,
        help=f"Unusable: {reason}",
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
