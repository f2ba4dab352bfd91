"""A group of commands whose modules are loaded when a command line names them, so that `--help` waits for none."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

from typer.main import get_command

from ingest.cli.screen import CommandGroup, ScreenContext

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typer._click import Command, Context


class LazyGroup(CommandGroup):
    """A group that begins with names and short helps: its own help, and the completion of shells, need no more."""

    modules: ClassVar[Mapping[str, str]]
    """By name of a command: the module that has it as `app`."""

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """Return the name of the command that the arguments begin with, that command, and the other arguments."""
        self.load(args[0])
        return super().resolve_command(ctx, args)

    def load(self, name: str) -> Command | None:
        """Return a command with its options, or None if there is none of that name."""
        if name in self.modules:
            self.commands[name] = command = get_command(import_module(self.modules[name]).app)
            for one in (command, *getattr(command, "commands", {}).values()):
                one.context_class = ScreenContext
        return self.commands.get(name)


def not_loaded() -> None:
    """Stand for a command until its module is loaded."""
